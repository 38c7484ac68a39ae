/*
 * Folders of torch.distributed.checkpoint: `.metadata`, a pickle that says which part of which tensor
 * lies where, and `__RANK_N.distcp` files of many small torch.save archives one behind the other.
 */
#include "parts.h"

#include <errno.h>
#include <string.h>

struct item {
	uint32_t file, fqn;
	uint64_t offset, bytes;
	bool tensor;
};

struct metadata {
	struct ckpt *ckpt;
	int dir;
	struct unpickle u;
	struct pickle_value tensors, storage; /* dicts */
	VEC(struct item) items;
	size_t first;          /* tensor that is read */
	size_t missing, named; /* files that are not there, of those that are named */
	VEC(uint32_t) absent;  /* their names */
};

static enum plim_status no_storage(void *ctx, const struct unpickle_storage *s, uint32_t *extent,
				   struct plim_err *err)
{
	(void)ctx;
	(void)s;
	(void)err;
	*extent = CKPT_NONE;
	return PLIM_OK;
}

/* A member of an object's state. */
static bool member(const struct metadata *m, struct pickle_value object, const char *name,
		   struct pickle_value *out)
{
	struct pickle_value state;

	if (object.kind != PICKLE_CALL)
		return false;
	state = pickle_item(&m->u.heap, object, PICKLE_CALL_STATE);
	return state.kind == PICKLE_DICT && pickle_get(&m->u.heap, state, name, out);
}

static const char *member_text(const struct metadata *m, struct pickle_value object,
			       const char *name)
{
	struct pickle_value v;

	return member(m, object, name, &v) && v.kind == PICKLE_STR
		       ? intern_text(&m->u.heap.strings, (uint32_t)v.bits)
		       : NULL;
}

static bool member_u64(const struct metadata *m, struct pickle_value object, const char *name,
		       uint64_t *out)
{
	struct pickle_value v;

	*out = 0;
	if (!member(m, object, name, &v) || v.kind != PICKLE_INT || (int64_t)v.bits < 0)
		return false;
	*out = v.bits;
	return true;
}

/* torch.Size((2, 3)) */
static bool member_size(const struct metadata *m, struct pickle_value object, const char *name,
			uint64_t *sizes, size_t *rank)
{
	const struct pickle_heap *h = &m->u.heap;
	struct pickle_value v;

	if (!member(m, object, name, &v))
		return false;
	if (v.kind == PICKLE_CALL)
		v = pickle_item(h, v, PICKLE_CALL_ARGS);
	if (v.kind == PICKLE_TUPLE && pickle_len(h, v) == 1 &&
	    pickle_is_container(pickle_item(h, v, 0)))
		v = pickle_item(h, v, 0);
	*rank = pickle_len(h, v);
	if ((v.kind != PICKLE_TUPLE && v.kind != PICKLE_LIST) || *rank > CKPT_DIMS)
		return false;
	for (size_t i = 0; i < *rank; i++) {
		struct pickle_value n = pickle_item(h, v, i);

		if (n.kind != PICKLE_INT || (int64_t)n.bits < 0)
			return false;
		sizes[i] = n.bits;
	}
	return true;
}

/* ---- tensors in chunks ---- */

struct box {
	uint64_t at[CKPT_DIMS], size[CKPT_DIMS];
};

static bool boxes_meet(const struct box *a, const struct box *b, size_t rank)
{
	for (size_t i = 0; i < rank; i++)
		if (a->at[i] >= b->at[i] + b->size[i] || b->at[i] >= a->at[i] + a->size[i])
			return false;
	return true;
}

/* Chunks must lie inside the whole, apart from each other, and fill it. */
static enum plim_status check_tiles(struct metadata *m, const char *name,
				    struct pickle_value chunks, const uint64_t *whole, size_t rank,
				    bool *fits, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	size_t n = pickle_len(&m->u.heap, chunks), rank2, rank3;
	struct box *boxes = mem_new(c->mem, n, sizeof(*boxes), err);
	uint64_t volume, reach, sum = 0, none[CKPT_DIMS] = { 0 };
	bool ok = boxes != NULL;

	*fits = false;
	if (!boxes)
		return mem_status(err);
	for (size_t i = 0; ok && i < n; i++) {
		struct pickle_value chunk = pickle_item(&m->u.heap, chunks, i);

		ok = member_size(m, chunk, "offsets", boxes[i].at, &rank2) &&
		     member_size(m, chunk, "sizes", boxes[i].size, &rank3) && rank2 == rank &&
		     rank3 == rank &&
		     ckpt_model_reach(boxes[i].size, none, rank, 0, &volume, &reach) &&
		     !__builtin_add_overflow(sum, volume, &sum);
		for (size_t d = 0; ok && d < rank; d++)
			ok = boxes[i].at[d] <= whole[d] &&
			     boxes[i].size[d] <= whole[d] - boxes[i].at[d];
		/* All pairs of a few; many chunks are checked by their sum alone. */
		for (size_t k = 0; ok && volume && n <= 1024 && k < i; k++)
			ok = !boxes_meet(&boxes[i], &boxes[k], rank);
	}
	mem_free(c->mem, boxes, n, sizeof(*boxes));
	ok = ok && ckpt_model_reach(whole, none, rank, 0, &volume, &reach) && sum == volume;
	*fits = ok;
	return ok ? PLIM_OK
		  : ckpt_model_find(c, CKPT_BAD_FINDING, "chunks", PLIM_UNKNOWN, err,
				    "the parts of tensor '%.200s' do not make up its shape", name);
}

/* For ckpt_join; it has no bytes and no dtype of its own. */
static enum plim_status add_whole(struct metadata *m, const char *name, const uint64_t *sizes,
				  size_t rank, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	struct ckpt_tensor t = { .location = CKPT_NONE,
				 .extent = CKPT_NONE,
				 .rank = (uint16_t)rank,
				 .first = (uint32_t)m->first,
				 .parts = (uint32_t)(c->tensors.n - m->first) };
	enum plim_status st = PLIM_OK;

	t.name = ckpt_model_string(c, name, strlen(name), &st, err);
	if (!st)
		st = ckpt_model_lay(c, &t, sizes, NULL, err);
	return st ? st : vec_push(c->mem, &c->wholes, t, err);
}

/* Every name has storage; every tensor's parts make a whole. */
static enum plim_status check_tensors(struct metadata *m, struct plim_err *err)
{
	const struct pickle_heap *h = &m->u.heap;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i + 1 < pickle_len(h, m->tensors); i += 2) {
		struct pickle_value key = pickle_item(h, m->tensors, i),
				    what = pickle_item(h, m->tensors, i + 1), chunks;
		uint64_t whole[CKPT_DIMS];
		size_t rank;
		bool ok;

		if (key.kind != PICKLE_STR || !member(m, what, "chunks", &chunks) ||
		    chunks.kind != PICKLE_LIST || !member_size(m, what, "size", whole, &rank))
			continue;
		st = check_tiles(m, intern_text(&h->strings, (uint32_t)key.bits), chunks, whole,
				 rank, &ok, err);
		if (!st && ok && pickle_len(h, chunks) > 1)
			st = add_whole(m, intern_text(&h->strings, (uint32_t)key.bits), whole, rank,
				       err);
	}
	return st;
}

/* ---- where things lie ---- */

static enum plim_status file_of(struct metadata *m, const char *name, uint32_t *file,
				struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	struct plim_err why = { 0 };
	enum plim_status st = PLIM_OK;
	uint32_t id = ckpt_model_path(c, name, &st, err);

	*file = CKPT_NONE;
	for (uint32_t i = 0; !st && i < c->files.n; i++)
		if (c->files.at[i].name == ckpt_text(c, id)) {
			*file = i;
			return PLIM_OK;
		}
	for (size_t i = 0; !st && i < m->absent.n; i++)
		if (m->absent.at[i] == id)
			return PLIM_OK;
	if (st)
		return st;
	m->named++;
	if (!*name || strchr(name, '/') || !strcmp(name, ".."))
		why = (struct plim_err){ .native = ENOENT };
	else if (!open_file(c, m->dir, name, file, &why))
		return PLIM_OK;
	m->missing++;
	st = vec_push(c->mem, &m->absent, id, err);
	return st || why.native == ENOENT ? st
					  : ckpt_model_find(c, CKPT_BAD_FINDING, "unreadable_file",
							    PLIM_UNKNOWN, err, "%s", why.message);
}

static const struct ckpt_tensor *tensor_added(const struct ckpt *c, size_t before)
{
	return c->tensors.n == before + 1 ? &c->tensors.at[before] : NULL;
}

/* The embedded archive must hold just the chunk that the metadata promises. */
static enum plim_status check_chunk(struct metadata *m, struct pickle_value index, size_t before,
				    const char *fqn, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	const struct pickle_heap *h = &m->u.heap;
	const struct ckpt_tensor *t = tensor_added(c, before);
	struct pickle_value what, chunks;
	uint64_t at[CKPT_DIMS], from[CKPT_DIMS], size[CKPT_DIMS];
	size_t rank, rank2;

	if (!t || !pickle_get(h, m->tensors, fqn, &what) || !member(m, what, "chunks", &chunks) ||
	    !member_size(m, index, "offset", at, &rank) || rank != t->rank)
		return PLIM_OK;
	for (size_t i = 0; i < pickle_len(h, chunks); i++) {
		struct pickle_value chunk = pickle_item(h, chunks, i);

		if (!member_size(m, chunk, "offsets", from, &rank2) || rank2 != rank ||
		    !ckpt_same_dims(from, at, rank) ||
		    !member_size(m, chunk, "sizes", size, &rank2) || rank2 != rank)
			continue;
		if (!ckpt_same_dims(size, ckpt_shape(c, t), rank))
			return ckpt_model_find(
				c, CKPT_BAD_FINDING, "chunk_shape", PLIM_UNKNOWN, err,
				"a part of '%.200s' has another shape than the metadata says", fqn);
		if (rank)
			memcpy(c->dims.at + t->dims + 2 * rank, at, rank * sizeof(*at));
		if (pickle_len(h, chunks) > 1)
			c->tensors.at[before].flags |= CKPT_CHUNK;
		return PLIM_OK;
	}
	return ckpt_model_find(c, CKPT_BAD_FINDING, "chunk_place", PLIM_UNKNOWN, err,
			       "a part of '%.200s' lies at a place that the metadata does not list",
			       fqn);
}

static enum plim_status read_item(struct metadata *m, struct pickle_value index,
				  struct pickle_value info, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	const char *fqn = member_text(m, index, "fqn"),
		   *path = member_text(m, info, "relative_path");
	struct pickle_value transforms;
	struct item it = { 0 };
	size_t before = c->tensors.n;
	enum plim_status st = PLIM_OK;

	if (!fqn || !path || !member_u64(m, info, "offset", &it.offset) ||
	    !member_u64(m, info, "length", &it.bytes))
		return ckpt_model_find(c, CKPT_BAD_FINDING, "metadata", PLIM_UNKNOWN, err,
				       "the metadata holds an entry that makes no sense");
	st = file_of(m, path, &it.file, err);
	if (st || it.file == CKPT_NONE)
		return st;
	it.fqn = ckpt_model_string(c, fqn, strlen(fqn), &st, err);
	if (!st)
		st = vec_push(c->mem, &m->items, it, err);
	if (!st && (it.offset > c->files.at[it.file].bytes ||
		    it.bytes > c->files.at[it.file].bytes - it.offset)) {
		c->truncated = true;
		return ckpt_model_find(c, CKPT_BAD_FINDING, "truncated", c->files.at[it.file].bytes,
				       err,
				       "'%.200s' ends before '%.200s' does (byte %llu of %llu)",
				       path, fqn, (unsigned long long)c->files.at[it.file].bytes,
				       (unsigned long long)(it.offset + it.bytes));
	}
	if (!st && member(m, info, "transform_descriptors", &transforms) &&
	    pickle_len(&m->u.heap, transforms))
		return ckpt_model_find(c, CKPT_WARN, "transformed", PLIM_UNKNOWN, err,
				       "'%.200s' is compressed, which is not read", fqn);
	if (!st)
		st = torch_read_zip(c, it.file, it.offset, it.bytes, fqn, err);
	return st ? st : check_chunk(m, index, before, fqn, err);
}

static int distributed_by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->file != y->file      ? (x->file < y->file ? -1 : 1)
	       : x->offset < y->offset ? -1
				       : x->offset > y->offset;
}

static enum plim_status check_items(struct metadata *m, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	enum plim_status st = PLIM_OK;

	sort_items(m->items.at, m->items.n, sizeof(*m->items.at), distributed_by_place);
	for (size_t i = 0; !st && i < m->items.n; i++) {
		const struct item *a = &m->items.at[i], *next = i + 1 < m->items.n ? a + 1 : NULL;
		bool last = !next || next->file != a->file;
		uint64_t end = a->offset + a->bytes;

		if (!last && next->offset < end)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "overlap", next->offset, err,
					     "'%.200s' and '%.200s' share bytes of '%s'",
					     ckpt_text(c, a->fqn), ckpt_text(c, next->fqn),
					     c->files.at[a->file].name);
		else if (last && end < c->files.at[a->file].bytes)
			st = ckpt_model_find(c, CKPT_WARN, "trailing_bytes", end, err,
					     "%llu bytes at the end of '%s' belong to nothing",
					     (unsigned long long)(c->files.at[a->file].bytes - end),
					     c->files.at[a->file].name);
	}
	return st;
}

/* Data files that the metadata does not name: of an older save, or of ranks that are gone. */
static enum plim_status check_stale(struct metadata *m, struct plim_err *err)
{
	struct ckpt *c = m->ckpt;
	struct folder_names names = { 0 };
	enum plim_status st = folder_list(c, m->dir, &names, err);

	for (size_t i = 0; !st && i < names.n; i++) {
		bool named = !ckpt_text_ends(names.at[i], ".distcp");
		uint32_t id = ckpt_model_path(c, names.at[i], &st, err);

		for (size_t k = 0; !st && !named && k < c->files.n; k++)
			named = c->files.at[k].name == ckpt_text(c, id);
		if (!st && !named)
			st = ckpt_model_find(
				c, CKPT_WARN, "stale_file", PLIM_UNKNOWN, err,
				"'%.200s' is not named by the metadata: left from an older save?",
				names.at[i]);
	}
	vec_release(c->mem, &names);
	return st;
}

/* ---- all ---- */

static enum plim_status read_items(struct metadata *m, struct pickle_value root,
				   struct plim_err *err)
{
	const struct pickle_heap *h = &m->u.heap;
	struct ckpt *c = m->ckpt;
	enum plim_status st = PLIM_OK;

	if (!member(m, root, "state_dict_metadata", &m->tensors) ||
	    !member(m, root, "storage_data", &m->storage) || m->tensors.kind != PICKLE_DICT ||
	    m->storage.kind != PICKLE_DICT)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "metadata", PLIM_UNKNOWN, err,
			"'.metadata' is not metadata of torch.distributed.checkpoint");
	for (size_t i = 0; !st && i + 1 < pickle_len(h, m->storage); i += 2)
		st = read_item(m, pickle_item(h, m->storage, i), pickle_item(h, m->storage, i + 1),
			       err);
	if (!st)
		st = check_tensors(m, err);
	if (!st && pickle_len(h, m->storage) < pickle_len(h, m->tensors))
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "missing_record", PLIM_UNKNOWN, err,
				     "the metadata names %zu things, and where %zu of them are",
				     pickle_len(h, m->tensors) / 2, pickle_len(h, m->storage) / 2);
	if (!st && m->missing)
		st = ckpt_model_find(
			c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
			"%zu of %zu file%s %s missing, '%.200s' for one: is the folder "
			"shared by all nodes?",
			m->missing, m->named, text_s(m->named),
			text_are(m->named == 1 ? 1 : m->missing), ckpt_text(c, m->absent.at[0]));
	if (!st)
		st = check_items(m, err);
	return st ? st : check_stale(m, err);
}

enum plim_status distributed_read(struct ckpt *c, int dir, struct plim_err *err)
{
	struct metadata m = { .ckpt = c,
			      .dir = dir,
			      .first = c->tensors.n,
			      .u = { .ckpt = c, .prefix = "", .storage = no_storage } };
	struct plim_err why = { 0 };
	struct pickle_value root;
	uint8_t *bytes = NULL;
	uint64_t size = 0;
	uint32_t file;
	size_t used;
	enum plim_status st;

	if (!c->kind)
		c->kind = CKPT_KIND_DISTRIBUTED;
	pickle_heap_init(&m.u.heap, c->mem);
	st = open_file(c, dir, ".metadata", &file, &why);
	if (st == PLIM_E_IO && why.native == ENOENT)
		st = ckpt_model_find(
			c, CKPT_BAD_FINDING, "no_metadata", PLIM_UNKNOWN, err,
			"'.metadata' is missing: the save did not finish, or this is one "
			"node's part");
	else if (!st) {
		size = c->files.at[file].bytes;
		st = ckpt_model_read(c, file, 0, size, CKPT_PICKLE_BYTES, "the metadata", &bytes,
				     &why);
		if (!st)
			st = ckpt_model_unchecked(c, file, ".metadata", 0, size, &why);
		if (!st)
			st = unpickle_decode(&m.u, ".metadata", bytes, (size_t)size, &root, &used,
					     &why);
		if (!st)
			st = read_items(&m, root, &why);
		if (st == PLIM_E_FORMAT)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "metadata", PLIM_UNKNOWN, err,
					     "'.metadata': %s", why.message);
		else if (st && err)
			*err = why;
	} else if (err) {
		*err = why;
	}
	mem_free(c->mem, bytes, (size_t)size, 1);
	pickle_heap_release(&m.u.heap);
	vec_release(c->mem, &m.items);
	vec_release(c->mem, &m.absent);
	return st;
}
