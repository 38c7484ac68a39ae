/* What torch's rebuild functions make, as a table of what their arguments mean; and the storages below. */
#include "walk.h"

#include <stdio.h>
#include <string.h>

#define TOGETHER 256 /* tensors of one value, which are looked at for each of them */

/* ---- arguments ---- */

static bool get_u64(struct pickle_value v, uint64_t *out)
{
	*out = v.bits;
	return v.kind == PICKLE_UINT || (v.kind == PICKLE_INT && (int64_t)v.bits >= 0);
}

bool walk_sizes(const struct walk *w, struct pickle_value v, uint64_t *sizes, size_t *rank)
{
	char name[64];

	if (v.kind == PICKLE_CALL &&
	    !strcmp(walk_global(w, walk_part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)),
		    "torch.Size"))
		v = walk_arg(w, walk_part(w, v, PICKLE_CALL_ARGS), 0);
	if (v.kind != PICKLE_TUPLE && v.kind != PICKLE_LIST)
		return false;
	*rank = pickle_len(w->heap, v);
	for (size_t i = 0; i < *rank; i++)
		if (*rank > CKPT_DIMS || !get_u64(pickle_item(w->heap, v, i), &sizes[i]))
			return false;
	return true;
}

static uint32_t name_id(struct walk *w, enum plim_status *st, struct plim_err *err)
{
	return w->name.n ? ckpt_model_string(w->ckpt, w->name.at, w->name.n, st, err)
			 : ckpt_model_string(w->ckpt, "tensor", 6, st, err);
}

/* For a sentence. */
static const char *shown_name(const struct walk *w)
{
	return w->name.n ? walk_name(w) : "tensor";
}

static enum plim_status malformed(struct walk *w, const char *what, struct plim_err *err)
{
	return ckpt_model_find(w->ckpt, CKPT_BAD_FINDING, "malformed_tensor", PLIM_UNKNOWN, err,
			       "'%.200s' %s", shown_name(w), what);
}

/* ---- storages ---- */

bool walk_get_storage(const struct walk *w, struct pickle_value v, struct unpickle_storage *s)
{
	struct pickle_value id = v.kind == PICKLE_PERSID ? pickle_item(w->heap, v, 0) : v;
	char name[128];
	const char *class, *dot, *tag = walk_str(w, walk_arg(w, id, 0));
	uint64_t n;

	if (v.kind != PICKLE_PERSID || !tag || strcmp(tag, "storage") != 0)
		return false;
	class = walk_global(w, walk_arg(w, id, 1), name, sizeof(name));
	dot = strrchr(class, '.');
	s->dtype = dot && !strncmp(class, "torch.", 6) ? ckpt_dtype_of_storage(dot + 1) : NULL;
	s->key = walk_str(w, walk_arg(w, id, 2));
	s->location = walk_str(w, walk_arg(w, id, 3));
	return s->dtype && s->key && get_u64(walk_arg(w, id, 4), &n) && n <= INT64_MAX / 128 &&
	       (s->bytes = n * s->dtype->bits / 8, true);
}

/* A tensor that was pickled by itself holds its storage as a whole file of torch.save. */
static bool is_embedded(const struct walk *w, struct pickle_value v)
{
	char name[64];

	return v.kind == PICKLE_CALL &&
	       !strcmp(walk_global(w, walk_part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)),
		       "torch.storage._load_from_bytes");
}

enum plim_status unpickle_storages(struct unpickle *u, struct plim_err *err)
{
	const struct walk w = { .u = u, .ckpt = u->ckpt, .heap = &u->heap };
	struct unpickle_storage s;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < u->heap.nodes.n; i++) {
		const struct pickle_node *node = &u->heap.nodes.at[i];

		for (uint32_t k = 0; !st && node->items && k < node->n; k++) {
			uint32_t extent;

			if (walk_get_storage(&w, node->items[k], &s) &&
			    (!s.location || strcmp(s.location, "meta") != 0))
				st = u->storage(u->ctx, &s, &extent, err);
		}
	}
	return st;
}

/* torch takes a storage for what it is called first, whatever it is called later. */
static enum plim_status check_type(struct walk *w, uint32_t extent, const struct ckpt_dtype *dtype,
				   struct plim_err *err)
{
	struct ckpt_extent *x = &w->ckpt->extents.at[extent];

	if (!x->storage)
		x->storage = dtype;
	return x->storage == dtype
		       ? PLIM_OK
		       : ckpt_model_find(
				 w->ckpt, CKPT_BAD_FINDING, "storage_type", PLIM_UNKNOWN, err,
				 "'%.200s' takes its storage '%.200s' for %s, another tensor for "
				 "%s: torch reads both as one of them",
				 shown_name(w), ckpt_text(w->ckpt, x->name), dtype->name,
				 x->storage->name);
}

/* Where in its storage, which dtype, which device: fills t for a tensor of `sizes`. */
static enum plim_status rebuilt_place(struct walk *w, struct pickle_value storage,
				      struct ckpt_tensor *t, struct unpickle_storage *s, bool *ok,
				      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*ok = walk_get_storage(w, storage, s);
	if (!*ok && is_embedded(w, storage)) {
		st = embedded_place(w, storage, s, &t->location, &t->extent, ok, err);
		t->dtype = t->dtype || !*ok ? t->dtype : s->dtype;
		return st || !*ok ? st : check_type(w, t->extent, s->dtype, err);
	}
	if (!*ok)
		return malformed(w, "has no storage that can be understood", err);
	if (!t->dtype)
		t->dtype = s->dtype;
	if (s->location && w->location == CKPT_NONE)
		t->location =
			ckpt_model_string(w->ckpt, s->location, strlen(s->location), &st, err);
	if (s->location && !strcmp(s->location, "meta"))
		t->flags |= CKPT_META;
	else if (!st)
		st = w->u->storage(w->u->ctx, s, &t->extent, err);
	return st || t->extent == CKPT_NONE ? st : check_type(w, t->extent, s->dtype, err);
}

/* ---- rebuild functions ---- */

/* What stands where among a function's arguments; -1: not at all. */
struct rebuild {
	const char *name;
	enum plim_status (*run)(struct walk *w, const struct rebuild *how, struct pickle_value args,
				struct plim_err *err);
	signed char offset, size, stride, grad, dtype, bits;
	uint16_t flags;
};

static const struct ckpt_dtype *get_dtype(const struct walk *w, struct pickle_value v)
{
	char name[64];
	const char *full = walk_global(w, v, name, sizeof(name));

	return strncmp(full, "torch.", 6) ? NULL : ckpt_dtype_of_torch(full + 6);
}

/* Of the types of which torch counts the numbers in a shape: how many stand in a byte of its storage. */
static uint64_t numbers_a_byte(const struct ckpt_dtype *d)
{
	return !strcmp(d->name, "quint4x2") ? 2 : !strcmp(d->name, "quint2x4") ? 4 : 1;
}

/* Such a tensor as the bytes that it is stored in, row after row, each filled up to a byte. */
static void count_bytes(uint64_t *sizes, uint64_t *strides, size_t rank, uint64_t a_byte)
{
	uint64_t stride = 1;

	for (size_t i = rank; i--;) {
		if (i + 1 == rank)
			sizes[i] = sizes[i] / a_byte + (sizes[i] % a_byte != 0);
		strides[i] = stride;
		if (__builtin_mul_overflow(stride, sizes[i], &stride))
			stride =
				UINT64_MAX; /* the shape itself is too large, which ckpt_model_reach finds */
	}
}

static enum plim_status add_rebuilt(struct walk *w, struct ckpt_tensor *t, const uint64_t *sizes,
				    const uint64_t *strides, uint64_t storage_bytes,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	uint64_t count, reach, bytes;

	t->name = name_id(w, &st, err);
	t->flags |= w->flags;
	if (w->location != CKPT_NONE)
		t->location = w->location;
	if (st)
		return st;
	if (!(t->flags & CKPT_META) &&
	    (!ckpt_model_reach(sizes, strides, t->rank, t->offset, &count, &reach) ||
	     __builtin_mul_overflow(reach, t->dtype->bits / 8, &bytes) || bytes > storage_bytes)) {
		st = malformed(w, "reaches beyond its storage", err);
		t->extent = CKPT_NONE;
		t->offset = 0;
	}
	return st ? st : ckpt_model_tensor(w->ckpt, *t, sizes, strides, NULL, err);
}

/* Conjugate and negative views are stored as they are, with a flag. */
static bool has_bits(const struct walk *w, struct pickle_value v)
{
	struct pickle_value bit;

	return v.kind == PICKLE_DICT &&
	       ((pickle_get(w->heap, v, "conj", &bit) && walk_is_true(bit)) ||
		(pickle_get(w->heap, v, "neg", &bit) && walk_is_true(bit)));
}

static enum plim_status strided(struct walk *w, const struct rebuild *how, struct pickle_value args,
				struct plim_err *err)
{
	struct ckpt_tensor t = { .location = CKPT_NONE, .extent = CKPT_NONE, .flags = how->flags };
	struct unpickle_storage s = { 0 };
	uint64_t sizes[CKPT_DIMS], strides[CKPT_DIMS];
	size_t rank = 0, rank2 = 0;
	bool ok = true;
	enum plim_status st = PLIM_OK;

	if (how->dtype >= 0) {
		t.dtype = get_dtype(w, walk_arg(w, args, (size_t)how->dtype));
		if (!t.dtype)
			return malformed(w, "has a dtype that is not known", err);
	}
	if (!walk_sizes(w, walk_arg(w, args, (size_t)how->size), sizes, &rank) ||
	    !walk_sizes(w, walk_arg(w, args, (size_t)how->stride), strides, &rank2) ||
	    rank != rank2 ||
	    (how->offset >= 0 && !get_u64(walk_arg(w, args, (size_t)how->offset), &t.offset)))
		return malformed(w, "has a shape or strides that make no sense", err);
	t.rank = (uint16_t)rank;
	if (how->grad >= 0 && walk_is_true(walk_arg(w, args, (size_t)how->grad)))
		t.flags |= CKPT_REQUIRES_GRAD;
	if (how->bits >= 0 && has_bits(w, walk_arg(w, args, (size_t)how->bits)))
		t.flags |= CKPT_CONJUGATE;
	if (!(how->flags & CKPT_META))
		st = rebuilt_place(w, walk_arg(w, args, 0), &t, &s, &ok, err);
	if (!st && ok && numbers_a_byte(t.dtype) > 1)
		count_bytes(sizes, strides, rank, numbers_a_byte(t.dtype));
	if (!st && ok)
		st = add_rebuilt(w, &t, sizes, strides, t.flags & CKPT_META ? 0 : s.bytes, err);
	/* Scales and zero points of quantised channels are tensors of their own. */
	if (!st && how->flags & CKPT_QUANTIZED)
		st = walk_as(w, "quantizer", walk_arg(w, args, 4), err);
	return st;
}

static enum plim_status parameter(struct walk *w, const struct rebuild *how,
				  struct pickle_value args, struct plim_err *err)
{
	uint16_t before = w->flags;
	enum plim_status st;

	w->flags |= CKPT_PARAMETER | (walk_is_true(walk_arg(w, args, 1)) ? CKPT_REQUIRES_GRAD : 0);
	st = walk_value(w, walk_arg(w, args, 0), err);
	w->flags = before;
	if (!st && how->flags)
		st = walk_value(w, walk_arg(w, args, 3), err);
	return st;
}

static enum plim_status from_cpu(struct walk *w, const struct rebuild *how,
				 struct pickle_value args, struct plim_err *err)
{
	const char *device = walk_str(w, walk_arg(w, args, 2));
	uint32_t before = w->location;
	enum plim_status st = PLIM_OK;

	(void)how;
	if (device)
		w->location = ckpt_model_string(w->ckpt, device, strlen(device), &st, err);
	if (!st)
		st = walk_value(w, walk_arg(w, args, 0), err);
	w->location = before;
	return st;
}

/* The tensors that a sparse or nested one is made of. */
static enum plim_status parts_of(struct walk *w, const char *const *names, size_t n,
				 struct pickle_value args, struct plim_err *err)
{
	uint16_t before = w->flags;
	enum plim_status st = PLIM_OK;

	w->flags |= CKPT_PART;
	for (size_t i = 0; !st && i < n; i++)
		st = walk_as(w, names[i], walk_arg(w, args, i), err);
	w->flags = before;
	return st;
}

static enum plim_status sparse(struct walk *w, const struct rebuild *how, struct pickle_value args,
			       struct plim_err *err)
{
	static const struct {
		const char *layout, *parts[3];
		size_t n;
	} layouts[] = {
		{ "torch.sparse_coo", { "indices", "values" }, 2 },
		{ "torch.sparse_csr", { "crow_indices", "col_indices", "values" }, 3 },
		{ "torch.sparse_bsr", { "crow_indices", "col_indices", "values" }, 3 },
		{ "torch.sparse_csc", { "ccol_indices", "row_indices", "values" }, 3 },
		{ "torch.sparse_bsc", { "ccol_indices", "row_indices", "values" }, 3 },
	};
	struct pickle_value layout = walk_arg(w, args, 0);
	const char *name =
		layout.kind == PICKLE_CALL
			? walk_str(w, walk_arg(w, walk_part(w, layout, PICKLE_CALL_ARGS), 0))
			: NULL;

	(void)how;
	for (size_t i = 0; name && i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (!strcmp(name, layouts[i].layout))
			return parts_of(w, layouts[i].parts, layouts[i].n, walk_arg(w, args, 1),
					err);
	return malformed(w, "is sparse in a layout that is not known", err);
}

static enum plim_status nested(struct walk *w, const struct rebuild *how, struct pickle_value args,
			       struct plim_err *err)
{
	static const char *const names[] = { "buffer", "sizes", "strides", "storage_offsets" };

	(void)how;
	w->u->nested = true;
	return parts_of(w, names, 4, args, err);
}

/* A shard on one rank: its own tensor under the whole's name. */
static enum plim_status shard(struct walk *w, struct pickle_value local, struct plim_err *err)
{
	uint16_t before = w->flags;
	enum plim_status st;

	w->flags |= CKPT_SHARD;
	st = walk_value(w, local, err);
	w->flags = before;
	return st ? st
		  : ckpt_model_find(
			    w->ckpt, CKPT_WARN, "one_rank", PLIM_UNKNOWN, err,
			    "'%.200s' is one rank's part of a DTensor: the rest is in other files",
			    walk_name(w));
}

/* (function, class, its arguments, state): a subclass, or a tensor with attributes. */
static enum plim_status from_type(struct walk *w, const struct rebuild *how,
				  struct pickle_value args, struct plim_err *err)
{
	struct pickle_value state = walk_arg(w, args, 3), local;
	char name[128];
	bool known;
	enum plim_status st;

	(void)how;
	/* (attributes or None, slots), as a class with slots pickles its state */
	if (state.kind == PICKLE_TUPLE && pickle_len(w->heap, state) == 2 &&
	    walk_arg(w, state, 0).kind == PICKLE_NONE)
		state = walk_arg(w, state, 1);
	st = walk_rebuild(w, walk_global(w, walk_arg(w, args, 0), name, sizeof(name)),
			  walk_arg(w, args, 2), &known, err);
	if (!st && walk_as_dict(w, state).kind == PICKLE_DICT &&
	    pickle_get(w->heap, state, "_local_tensor", &local))
		return shard(w, local, err);
	return st ? st : walk_value(w, state, err);
}

/* TorchScript puts lists and dicts into a call that shows their type. */
static enum plim_status typed(struct walk *w, const struct rebuild *how, struct pickle_value args,
			      struct plim_err *err)
{
	(void)how;
	return walk_value(w, walk_arg(w, args, 0), err);
}

/* Of devices without storages: the numbers are an array inside the pickle. */
static enum plim_status array(struct walk *w, const struct rebuild *how, struct pickle_value args,
			      struct plim_err *err)
{
	(void)how;
	(void)args;
	return ckpt_model_find(w->ckpt, CKPT_WARN, "array", PLIM_UNKNOWN, err,
			       "'%.200s' is an array of NumPy inside the pickle: it is not listed",
			       shown_name(w));
}

static enum plim_status nothing(struct walk *w, const struct rebuild *how, struct pickle_value args,
				struct plim_err *err)
{
	(void)w;
	(void)how;
	(void)args;
	(void)err;
	return PLIM_OK;
}

/* torch/_utils.py and torch/_tensor.py: positions of offset, size, stride, requires_grad, dtype, metadata. */
static const struct rebuild rebuilds[] = {
	{ "torch._utils._rebuild_tensor_v2", strided, 1, 2, 3, 4, -1, 6, 0 },
	{ "torch._utils._rebuild_tensor_v3", strided, 1, 2, 3, 4, 6, 7, 0 },
	{ "torch._utils._rebuild_tensor", strided, 1, 2, 3, -1, -1, -1, 0 },
	{ "torch._utils._rebuild_qtensor", strided, 1, 2, 3, 5, -1, -1, CKPT_QUANTIZED },
	{ "torch._utils._rebuild_meta_tensor_no_storage", strided, -1, 1, 2, 3, 0, -1, CKPT_META },
	{ "torch._utils._rebuild_parameter", parameter, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_parameter_with_state", parameter, 0, 0, 0, 0, 0, 0, 1 },
	{ "torch._utils._rebuild_sparse_tensor", sparse, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_sparse_csr_tensor", sparse, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_nested_tensor", nested, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_device_tensor_from_cpu_tensor", from_cpu, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_device_tensor_from_numpy", array, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_xla_tensor", array, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._utils._rebuild_wrapper_subclass", nothing, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._tensor._rebuild_from_type_v2", from_type, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch.jit._pickle.restore_type_tag", typed, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch.jit._pickle.build_tensorlist", typed, 0, 0, 0, 0, 0, 0, 0 },
};

/* What one call makes of several tensors is lost with any of them. */
static void join_rebuilt(struct ckpt *c, size_t first)
{
	size_t n = c->tensors.n - first;

	for (size_t i = first; n > 1 && n <= TOGETHER && i < c->tensors.n; i++) {
		c->tensors.at[i].first = (uint32_t)first;
		c->tensors.at[i].parts = (uint32_t)n;
	}
}

enum plim_status walk_rebuild(struct walk *w, const char *name, struct pickle_value args,
			      bool *known, struct plim_err *err)
{
	size_t first = w->ckpt->tensors.n;
	enum plim_status st = PLIM_OK;

	*known = false;
	for (size_t i = 0; !*known && i < sizeof(rebuilds) / sizeof(rebuilds[0]); i++) {
		*known = !strcmp(name, rebuilds[i].name);
		if (*known)
			st = rebuilds[i].run(w, &rebuilds[i], args, err);
		if (*known &&
		    rebuilds[i].run != typed) /* a list is not lost with one of its items */
			join_rebuilt(w->ckpt, first);
	}
	return st;
}

/* ---- bare storages ---- */

enum plim_status walk_storage(struct walk *w, struct pickle_value v, struct plim_err *err)
{
	struct ckpt_tensor t = { .location = CKPT_NONE, .extent = CKPT_NONE, .rank = 1 };
	const uint64_t one = 1;
	struct unpickle_storage s;
	uint64_t n;
	bool ok;
	enum plim_status st;

	if (!walk_get_storage(w, v, &s)) /* a module's source, or another program's id */
		return walk_value(w, pickle_item(w->heap, v, 0), err);
	st = rebuilt_place(w, v, &t, &s, &ok, err);
	n = s.bytes * 8 / s.dtype->bits;
	return st ? st : add_rebuilt(w, &t, &n, &one, s.bytes, err);
}
