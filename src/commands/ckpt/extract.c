/* ckpt extract, convert, repair: tensors into a new file; seal: a manifest. */
#include "commands/ckpt/ckpt.h"

#include <stdio.h>

#define EXTRACT_FLAGS                                                                        \
	(PLIM_CKPT_WHOLE_ONLY | PLIM_CKPT_AS_TORCH | PLIM_CKPT_NO_MANIFEST | PLIM_CKPT_ALL | \
	 PLIM_CKPT_BELOW | PLIM_CKPT_WEIGHTS)

enum plim_status plim_ckpt_extract(struct plim_ckpt *r, const char *patterns, unsigned flags,
				   const char *path, struct plim_ckpt_extracted *out,
				   struct plim_err *err)
{
	struct ckpt_extracted told;
	enum plim_status st;

	*out = (struct plim_ckpt_extracted){ 0 };
	if (flags & ~EXTRACT_FLAGS)
		return err_set(err, PLIM_E_ARG, "plim_ckpt_extract: flags 0x%x are not known",
			       flags & ~EXTRACT_FLAGS);
	st = ckpt_extract(&r->hidden->ckpt, patterns,
			  (flags & PLIM_CKPT_WHOLE_ONLY ? CKPT_WHOLE_ONLY : 0u) |
				  (flags & PLIM_CKPT_AS_TORCH ? CKPT_AS_TORCH : 0u) |
				  (flags & PLIM_CKPT_NO_MANIFEST ? CKPT_NO_MANIFEST : 0u) |
				  (flags & PLIM_CKPT_ALL ? CKPT_ALL : 0u) |
				  (flags & PLIM_CKPT_BELOW ? CKPT_BELOW : 0u) |
				  (flags & PLIM_CKPT_WEIGHTS ? CKPT_WEIGHTS : 0u),
			  path, &told, err);
	if (st)
		return st;
	*out = (struct plim_ckpt_extracted){ .tensors = told.tensors,
					     .left_out = told.left_out,
					     .bytes = told.bytes,
					     .file_bytes = told.file_bytes,
					     .xxh3 = told.xxh3,
					     .state = told.state,
					     .passed_over = told.passed_over };
	snprintf(out->below, sizeof(out->below), "%s", told.below);
	snprintf(out->parts, sizeof(out->parts), "%s", told.parts);
	snprintf(out->left_behind, sizeof(out->left_behind), "%s", told.left_behind);
	return st;
}

enum plim_status plim_ckpt_seal(struct plim_ckpt *r, struct plim_ckpt_sealed *out,
				struct plim_err *err)
{
	struct ckpt_sealed told = { 0 };
	enum plim_status st;

	if ((r->integrity != PLIM_CKPT_WHOLE && r->integrity != PLIM_CKPT_UNPROVEN) ||
	    r->verdict == PLIM_CKPT_DANGEROUS)
		st = err_set(err, PLIM_E_FORMAT, "'%.200s' is %s: not sealed", r->path,
			     ckpt_verdict_names[r->verdict]);
	else
		st = ckpt_seal(&r->hidden->ckpt, &told, err);
	*out = (struct plim_ckpt_sealed){ st ? 0 : told.files, st ? 0 : told.bytes };
	return st;
}
