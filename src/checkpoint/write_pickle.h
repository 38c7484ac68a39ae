/* Pickles of protocol 2 as torch.save writes them. */
#ifndef CHECKPOINT_WRITE_PICKLE_H
#define CHECKPOINT_WRITE_PICKLE_H

#include "parts.h"

void ckpt_pickle_put_le(struct text *t, uint64_t v, size_t n); /* n bytes of it */
void ckpt_pickle_put_string(struct text *t, const char *s, size_t n);
void ckpt_pickle_put_int(struct text *t, int64_t v);

/* Values that are written anew: ckpt, heap, prefix and out are the caller's. */
struct ckpt_pickle_rewrite {
	struct ckpt *ckpt;
	const struct pickle_heap *heap;
	const char *prefix; /* of an extent's name, before a storage's key */
	struct text *out;
	uint32_t *storages; /* extents by their new number; CKPT_NONE: one without bytes */
	size_t storage_count;
	uint32_t *by_name; /* string of ckpt -> extent + 1 */
	size_t names;
	uint32_t *slot; /* string of heap -> new number + 1 */
	uint32_t *memo; /* node -> its memo + 1 */
	uint8_t *fate;  /* node -> is it whole */
	uint32_t memos;
	unsigned depth;
	const char *why; /* static storage: it cannot be written */
};

/*
 * Write the pickle of `root`, with storages renumbered, without tensors that are not whole.  PLIM_E_UNSUPPORTED:
 * something in it cannot be written; the message says what.  Ended with ckpt_pickle_rewrite_release in every case.
 */
enum plim_status ckpt_pickle_rewrite(struct ckpt_pickle_rewrite *w, struct pickle_value root,
				     struct plim_err *err);
void ckpt_pickle_rewrite_release(struct ckpt_pickle_rewrite *w);

#endif
