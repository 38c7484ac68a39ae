/* ckpt extract, convert, repair: tensors into a new file. */
#include "ckpt.h"

enum plim_status plim_ckpt_extract(struct plim_ckpt *r, const char *patterns, unsigned flags,
				   const char *path, struct plim_ckpt_extracted *out, struct plim_err *err)
{
	struct ckpt_extracted told;
	enum plim_status st = ckpt_extract(&r->hidden->ckpt, patterns, flags & PLIM_CKPT_WHOLE_ONLY, path,
					   &told, err);

	*out = st ? (struct plim_ckpt_extracted){ 0 }
		  : (struct plim_ckpt_extracted){ told.tensors, told.left_out, told.bytes, told.xxh3 };
	return st;
}
