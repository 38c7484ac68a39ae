/* Files that are given by mistake, distinguished by their first bytes or by what they hold. */
#include "packed.h"

#include "base/base.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Prose or a table: a snapshot of protocol 0 begins with a parenthesis, of the others with no text. */
static int is_prose(const char *text, size_t n)
{
	const char *end = memchr(text, '\n', n);
	size_t first = end ? (size_t)(end - text) : n;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x80 && !isprint((unsigned char)text[i]) &&
		    !isspace((unsigned char)text[i]))
			return 0;
	for (size_t i = 0; n >= 16 && isalnum((unsigned char)text[0]) && i < first; i++)
		if (strchr(" ,;:\t", text[i]))
			return 1;
	return 0;
}

/* Text that is neither JSON nor a pickle of protocol 0, whose opcodes are letters too. */
static int is_text(const char *text, size_t n)
{
	return (n > 64 && text[0] != '\x80' && memmem(text, n, "CUDA out of memory", 18)) ||
	       (n >= 9 && !memcmp(text, "Traceback", 9)) || is_prose(text, n);
}

int snapshot_is_packed(const uint8_t *p, size_t n)
{
	return n >= PACKED_MAGIC_BYTES && !memcmp(p, PACKED_MAGIC, PACKED_MAGIC_BYTES);
}

enum plim_status recognise_bytes(const char *name, const uint8_t *p, size_t n, int *lost,
				 struct plim_err *err)
{
	const struct file_kind *kind = n ? file_kind_of_file(name, p, n) : NULL;

	if (kind && !file_kind_of(p, n) && kind->text && !is_text((const char *)p, n))
		kind = NULL;
	if (kind && kind->command &&
	    (!strcmp(kind->command, "report") || !strcmp(kind->slug, "pickle")))
		return PLIM_OK;
	if (!kind)
		return PLIM_OK;
	*lost = kind->lost || !strcmp(kind->slug, "unrecognised");
	if (kind->command)
		return err_set(err, PLIM_E_FORMAT,
			       "this is %s, not a memory snapshot: 'plimsoll %s' reads it",
			       kind->is, kind->command);
	return err_set(err, PLIM_E_FORMAT, "this is %s%s %s", kind->is,
		       kind->lost ? ":" : ", not a memory snapshot;",
		       kind->remedy ? kind->remedy : HOW_TO_RECORD);
}

/* Keys that tell what a dict is, if it has none of a snapshot's. */
static const struct {
	const char *key, *is;
} dicts[] = {
	{ "state_dict", "a checkpoint, not a memory snapshot; " HOW_TO_RECORD },
	{ "model_state_dict", "a checkpoint, not a memory snapshot; " HOW_TO_RECORD },
	{ "architectures", "a model's config.json, not a memory snapshot; " HOW_TO_RECORD },
	{ "allocated_bytes.all.peak",
	  "torch.cuda.memory_stats(), which has totals but no events; " HOW_TO_RECORD },
	{ "schema", "a report by plimsoll, not the snapshot it was made from" },
	{ "action", "a single event of a snapshot, not the whole" },
};

enum plim_status recognise_value(const struct snapshot *t, struct pickle_value root,
				 struct plim_err *err)
{
	static const char *const kinds[] = {
		[PICKLE_NONE] = "None",        [PICKLE_BOOL] = "a bool",
		[PICKLE_INT] = "a number",     [PICKLE_UINT] = "a number",
		[PICKLE_FLOAT] = "a number",   [PICKLE_STR] = "a string",
		[PICKLE_BYTES] = "bytes",      [PICKLE_BIGINT] = "a number",
		[PICKLE_LIST] = "a list",      [PICKLE_TUPLE] = "a tuple",
		[PICKLE_DICT] = "a dict",      [PICKLE_SET] = "a set",
		[PICKLE_GLOBAL] = "an object", [PICKLE_CALL] = "an object",
		[PICKLE_PERSID] = "an object", [PICKLE_BOX] = "a number",
		[PICKLE_MARK] = "nothing",     [PICKLE_EXT] = "a single row of a snapshot",
	};
	const struct pickle_heap *h = &t->heap;
	struct pickle_value v;

	if (root.kind == PICKLE_DICT && h->nodes.at[root.bits].ext)
		root.kind = PICKLE_EXT;
	for (size_t i = 0; root.kind == PICKLE_DICT && i < sizeof(dicts) / sizeof(dicts[0]); i++)
		if (pickle_get(h, root, dicts[i].key, &v))
			return err_set(err, PLIM_E_FORMAT, "this is %s", dicts[i].is);
	if (root.kind == PICKLE_DICT && pickle_len(h, root) >= 2) {
		v = pickle_item(h, root, 0);
		if (v.kind == PICKLE_STR)
			return err_set(err, PLIM_E_FORMAT,
				       "this is a dict that begins with '%.60s', not a memory "
				       "snapshot (no "
				       "'segments', no 'device_traces'); " HOW_TO_RECORD,
				       intern_text(&h->strings, (uint32_t)v.bits));
	}
	return err_set(err, PLIM_E_FORMAT, "this is %s, not a memory snapshot; " HOW_TO_RECORD,
		       kinds[root.kind]);
}
