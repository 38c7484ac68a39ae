/*
 * A tensor that pickle.dump wrote: its storage is a whole file of torch.save's old form, as bytes inside the pickle
 * (torch.storage._load_from_bytes).  From protocol 3 on these bytes lie in the file as they are, so that the numbers
 * are an extent like any other; in older protocols they are text.
 */
#include "walk.h"

#include <string.h>

#define PICKLES 5 /* magic number, version, system, the storage, the list of its key */
#define AGAIN 64  /* searches from the beginning, of bytes that are not where the last ones were */

/* The fourth value of the file in `p`, and where what stands behind the fifth begins; false: it is no such file. */
static enum plim_status read_inside(struct pickle_heap *h, const uint8_t *p, size_t n,
				    struct pickle_value *storage, size_t *end, struct plim_err *err)
{
	const struct pickle_hooks none = { .ctx = NULL };
	struct pickle_value v;
	enum plim_status st = PLIM_OK;

	*end = 0;
	for (int i = 0; !st && i < PICKLES; i++) {
		struct source *src;

		st = source_open_memory(h->mem, "a storage", p + *end, n - *end,
					SOURCE_MEMORY_PLAIN, NULL, &src, err);
		if (st)
			return st;
		st = pickle_read(h, src, 0, &none, &v, err);
		*end += (size_t)source_offset(src, src->p);
		source_close(src);
		if (i == 3)
			*storage = v;
	}
	return st;
}

/* Where the bytes lie in the pickle that is read; false: not as they are, or no one knows where that is. */
static bool find_bytes(struct unpickle *u, const uint8_t *p, size_t n, size_t *at)
{
	const uint8_t *found = NULL;

	if (!u->raw)
		return false;
	if (u->raw_next <= u->raw_bytes)
		found = memmem(u->raw + u->raw_next, u->raw_bytes - u->raw_next, p, n);
	if (!found && u->raw_again < AGAIN) {
		u->raw_again++;
		found = memmem(u->raw, u->raw_bytes, p, n);
	}
	if (!found)
		return false;
	*at = (size_t)(found - u->raw);
	u->raw_next = *at + n;
	return true;
}

/* The extent there; one that is known already is shared, as its storage was. */
static enum plim_status add_extent(struct unpickle *u, uint64_t offset, uint64_t bytes,
				   uint32_t *extent, struct plim_err *err)
{
	struct ckpt *c = u->ckpt;
	struct ckpt_extent x = { .file = u->raw_file,
				 .offset = offset,
				 .bytes = bytes,
				 .stored_bytes = bytes,
				 .inside = 1 };
	enum plim_status st = PLIM_OK;

	for (size_t i = u->raw_first; i < c->extents.n && u->raw_again; i++)
		if (c->extents.at[i].inside && c->extents.at[i].offset == offset) {
			*extent = (uint32_t)i;
			return PLIM_OK;
		}
	x.name = ckpt_model_string(c, "the pickle", 10, &st, err);
	*extent = (uint32_t)c->extents.n;
	return st ? st : vec_push(c->mem, &c->extents, x, err);
}

static enum plim_status tell_embedded(struct walk *w, bool found, struct plim_err *err)
{
	return found ? ckpt_model_find(
			       w->ckpt, CKPT_NOTE, "embedded", PLIM_UNKNOWN, err,
			       "tensors in it were pickled without torch.save: pickle.load reads "
			       "them, torch.load refuses the file")
		     : ckpt_model_find(
			       w->ckpt, CKPT_WARN, "embedded", PLIM_UNKNOWN, err,
			       "'%.200s' was pickled without torch.save, and its bytes are text "
			       "inside the pickle, which is not looked at",
			       *walk_name(w) ? walk_name(w) : "tensor");
}

enum plim_status embedded_place(struct walk *w, struct pickle_value call,
				struct unpickle_storage *s, uint32_t *location, uint32_t *extent,
				bool *ok, struct plim_err *err)
{
	struct pickle_value bytes = walk_arg(w, walk_part(w, call, PICKLE_CALL_ARGS), 0), id;
	const uint8_t *p = (const uint8_t *)walk_str(w, bytes);
	size_t n = p ? w->heap->strings.at[bytes.bits].n : 0, end = 0, at = 0;
	struct pickle_heap heap;
	struct walk inner = { .u = w->u, .ckpt = w->ckpt, .heap = &heap };
	struct plim_err why = { 0 };
	enum plim_status st = PLIM_E_FORMAT;

	*ok = false;
	pickle_heap_init(&heap, w->ckpt->mem);
	if (bytes.kind == PICKLE_BYTES)
		st = read_inside(&heap, p, n, &id, &end, &why);
	if (!st)
		*ok = walk_get_storage(&inner, id, s) && n - end >= 8 && n - end - 8 == s->bytes &&
		      find_bytes(w->u, p, n, &at);
	if (*ok && s->location)
		*location = ckpt_model_string(w->ckpt, s->location, strlen(s->location), &st, err);
	s->key = s->location = NULL; /* they end here */
	pickle_heap_release(&heap);
	if (st && st != PLIM_E_FORMAT) {
		if (err && why.message[0])
			*err = why;
		return st;
	}
	if (*ok)
		st = add_extent(w->u, w->u->raw_at + at + end + 8, s->bytes, extent, err);
	return *ok && st ? st : tell_embedded(w, *ok, err);
}
