/* Files that are given by mistake, told apart by their first bytes or by what they hold. */
#include "packed.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct magic {
	size_t offset, n;
	const char *bytes;
	const char *is;
	int lost; /* it stands where a snapshot should be */
};

#define LEGACY                                                                  \
	"a PyTorch checkpoint (torch.save, the form before 1.6), not a memory " \
	"snapshot; " HOW_TO_RECORD

static const struct magic magics[] = {
	{ 0, 4, "PK\3\4",
	  "a PyTorch checkpoint or another zip file, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 13, "\200\002\212\012l\374\234F\371 j\250P", LEGACY },
	{ 8, 2, "{\"", "a safetensors file (weights), not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 15, "SQLite format 3",
	  "an SQLite file; snapshots in that form are not read yet: dump it with "
	  "torch.cuda.memory._dump_snapshot('x.pickle')" },
	{ 257, 5, "ustar", "a tar file, not a memory snapshot: unpack it first" },
	{ 0, 4, "\177ELF", "a program, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 4, "%PDF", "a PDF, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 8, "\211HDF\r\n\032\n", "an HDF5 file, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 8, "\211PNG\r\n\032\n",
	  "a picture, not a memory snapshot; give the file it was drawn from" },
	{ 0, 6, "\223NUMPY", "a NumPy array, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 4, "GGUF", "a GGUF file (weights), not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 2, "\377\376", "text in UTF-16, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 2, "\376\377", "text in UTF-16, not a memory snapshot; " HOW_TO_RECORD },
	{ 0, 26, "version https://git-lfs.git",
	  "a Git LFS pointer: the snapshot itself was not fetched "
	  "(git lfs pull)",
	  1 },
};

static int all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return 0;
	return 1;
}

/* Prose or a table: a snapshot of protocol 0 begins with a parenthesis, of the others with no text. */
static int is_prose(const char *text, size_t n)
{
	const char *end = memchr(text, '\n', n);
	size_t first = end ? (size_t)(end - text) : n;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x80 && !isprint((unsigned char)text[i]) &&
		    !isspace((unsigned char)text[i]))
			return 0;
	return n >= 16 && isalnum((unsigned char)text[0]) && memchr(text, ' ', first) != NULL;
}

/* Text that is neither JSON nor a pickle of protocol 0, whose opcodes are letters too. */
static const char *recognise_text(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && isspace((unsigned char)text[i]))
		i++;
	if (i < n && text[i] == '<')
		return "an HTML page, not a memory snapshot; give the .pickle it was made from";
	if (n > 64 && text[0] != '\x80' && memmem(text, n, "CUDA out of memory", 18))
		return "a log, not a memory snapshot; give it with options.log_path beside the "
		       "snapshot";
	if (n >= 9 && (!memcmp(text, "Traceback", 9) || !memcmp(text, "#!", 2) ||
		       !memcmp(text, "import ", 7)))
		return "text, not a memory snapshot; " HOW_TO_RECORD;
	if (is_prose(text, n))
		return "text, not a memory snapshot; " HOW_TO_RECORD;
	return NULL;
}

int snapshot_is_packed(const uint8_t *p, size_t n)
{
	return n >= PACKED_MAGIC_BYTES && !memcmp(p, PACKED_MAGIC, PACKED_MAGIC_BYTES);
}

const char *recognise_bytes(const uint8_t *p, size_t n, int *lost)
{
	*lost = 0;
	if (snapshot_is_packed(p, n))
		return NULL;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		const struct magic *m = &magics[i];

		if (n >= m->offset + m->n && !memcmp(p + m->offset, m->bytes, m->n)) {
			*lost = m->lost;
			return m->is;
		}
	}
	if (n >= 16 && all_zero(p, n)) {
		*lost = 1;
		return "zeros only: the file was never written (disk full, or lost in a crash)";
	}
	return recognise_text((const char *)p, n);
}

/* Keys that tell what a dict is, if it has none of a snapshot's. */
static const struct {
	const char *key, *is;
} dicts[] = {
	{ "traceEvents",
	  "a profiler trace (Chrome format): it has no allocator events; " HOW_TO_RECORD },
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
