/*
 * Bytes that a pickle hands to a loader (torch.storage._load_from_bytes, io.BytesIO) are a file of their own: they are
 * opened as torch.load opens a file, and the names in their pickles count as the outer pickle's.  Bytes that are not
 * wholly a file whose pickles were read are unknown, whatever they are.
 */
#include "parts.h"

#include <stdio.h>
#include <string.h>

#define NESTED 4 /* files of which each lies in a pickle of the one before */

/* Only what a loader of pickles may take it for: a header of safetensors would hide a pickle from this reader alone. */
static enum plim_status inside_open(struct ckpt *inner, const char *name, const uint8_t *bytes,
				    size_t n, struct plim_err *err)
{
	struct ckpt_file f = { .name = name, .fd = -1, .memory = bytes, .bytes = n };
	enum plim_status st = vec_push(inner->mem, &inner->files, f, err);

	if (st)
		return st;
	inner->bytes = n;
	if (n >= 4 && !memcmp(bytes, "PK\3\4", 4))
		return torch_read_zip(inner, 0, 0, n, "", err);
	return tarred_is(bytes, n) ? tarred_read(inner, 0, "", err)
				   : legacy_read(inner, 0, "", err);
}

/* Why the bytes are not wholly a file whose pickles were read; NULL: they are. */
static const char *inside_doubt(const struct ckpt *inner)
{
	for (size_t i = 0; i < inner->findings.n; i++)
		if (inner->findings.at[i].severity >= CKPT_WARN)
			return ckpt_text(inner, inner->findings.at[i].text);
	if (inner->unreadable || inner->truncated)
		return "they are cut, or no file that is known here";
	return inner->kind == CKPT_KIND_TORCH || inner->kind == CKPT_KIND_LEGACY ||
			       inner->kind == CKPT_KIND_PICKLE
		       ? NULL
		       : "they are not a file that torch.save or pickle.dump wrote";
}

enum plim_status inside_judge(const struct globals_log *log, const uint8_t *bytes, size_t n,
			      enum ckpt_trust *trust, struct plim_err *err)
{
	struct ckpt *c = log->ckpt, inner;
	const char *doubt = "they lie in pickles of pickles of pickles";
	char name[200];
	enum plim_status st = PLIM_OK;

	*trust = n ? CKPT_UNKNOWN : CKPT_CLASS;
	if (!n)
		return PLIM_OK;
	snprintf(name, sizeof(name), "bytes in %.180s", ckpt_text(c, log->record));
	ckpt_init(&inner, c->mem);
	inner.nested = c->nested + 1;
	inner.allow = c->allow;
	inner.path = name;
	if (inner.nested <= NESTED) {
		st = inside_open(&inner, name, bytes, n, err);
		if (!st)
			st = globals_take(c, &inner, name, err);
		doubt = inside_doubt(&inner);
	}
	if (!st && doubt)
		st = ckpt_model_find(c, CKPT_WARN, "bytes_inside", PLIM_UNKNOWN, err,
				     "%.200s, which a loader reads, are not wholly a file whose "
				     "pickles were looked at: %.300s",
				     name, doubt);
	else if (!st)
		*trust = CKPT_CLASS;
	ckpt_close(&inner);
	return st;
}
