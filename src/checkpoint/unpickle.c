/*
 * From the inert values of a pickle to tensors.  torch's rebuild functions are a table of what their
 * arguments mean; all else that is constructed is walked for tensors inside and otherwise left alone.
 * Shared values are visited once a path, within a budget, so that a pickle that refers to itself ends.
 */
#include "parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 400 /* containers inside each other */
/*
 * Values looked at: at most, and on average for each; shared ones are on several paths.  A pickle of 546 bytes can
 * have 2^60 paths.
 */
#define VISITS ((size_t)8 << 20)
#define REVISITS 16
#define NAME_BYTES 4096 /* of a tensor */

struct walk {
	struct unpickle *u;
	struct ckpt *ckpt;
	const struct pickle_heap *heap;
	VEC(char) name;
	unsigned depth;
	uint64_t path[DEPTH]; /* containers that this one is in */
	size_t visits, most_visits;
	uint16_t flags;    /* of the tensors below */
	uint32_t location; /* that is said from outside, or CKPT_NONE */
	bool told;
};

static enum plim_status walk(struct walk *w, struct pickle_value v, struct plim_err *err);

/* ---- values ---- */

static const char *str(const struct walk *w, struct pickle_value v)
{
	return v.kind == PICKLE_STR || v.kind == PICKLE_BYTES
		       ? intern_text(&w->heap->strings, (uint32_t)v.bits)
		       : NULL;
}

static bool get_u64(struct pickle_value v, uint64_t *out)
{
	*out = v.bits;
	return v.kind == PICKLE_UINT || (v.kind == PICKLE_INT && (int64_t)v.bits >= 0);
}

static struct pickle_value part(const struct walk *w, struct pickle_value call,
				enum pickle_call_item which)
{
	return pickle_item(w->heap, call, which);
}

/* Argument i of a call, NONE if it has not so many. */
static struct pickle_value arg(const struct walk *w, struct pickle_value args, size_t i)
{
	if (args.kind != PICKLE_TUPLE || i >= pickle_len(w->heap, args))
		return (struct pickle_value){ 0, PICKLE_NONE };
	return pickle_item(w->heap, args, i);
}

/* "module.name" of a GLOBAL, "" of anything else. */
static const char *global(const struct walk *w, struct pickle_value v, char *text, size_t size)
{
	const char *module, *name;

	text[0] = 0;
	if (v.kind != PICKLE_GLOBAL)
		return text;
	module = str(w, pickle_item(w->heap, v, 0));
	name = str(w, pickle_item(w->heap, v, 1));
	if (module && name)
		snprintf(text, size, "%s.%s", module, name);
	return text;
}

/* A dict, or the items of a call that makes one (OrderedDict); else NONE. */
static struct pickle_value as_dict(const struct walk *w, struct pickle_value v)
{
	if (v.kind == PICKLE_CALL)
		v = part(w, v, PICKLE_CALL_SET);
	return v.kind == PICKLE_DICT ? v : (struct pickle_value){ 0, PICKLE_NONE };
}

/* (2, 3) or torch.Size((2, 3)) */
static bool get_sizes(const struct walk *w, struct pickle_value v, uint64_t *sizes, size_t *rank)
{
	char name[64];

	if (v.kind == PICKLE_CALL &&
	    !strcmp(global(w, part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)), "torch.Size"))
		v = arg(w, part(w, v, PICKLE_CALL_ARGS), 0);
	if (v.kind != PICKLE_TUPLE && v.kind != PICKLE_LIST)
		return false;
	*rank = pickle_len(w->heap, v);
	for (size_t i = 0; i < *rank; i++)
		if (*rank > CKPT_DIMS || !get_u64(pickle_item(w->heap, v, i), &sizes[i]))
			return false;
	return true;
}

/* ---- names ---- */

static enum plim_status enter(struct walk *w, const char *key, size_t n, size_t *before,
			      struct plim_err *err)
{
	enum plim_status st = vec_need(w->ckpt->mem, &w->name, n + 1, err);

	*before = w->name.n;
	if (st || !n || w->name.n + n > NAME_BYTES)
		return st;
	if (w->name.n && w->name.at[w->name.n - 1] != '/')
		w->name.at[w->name.n++] = '.';
	memcpy(w->name.at + w->name.n, key, n);
	w->name.n += n;
	return st;
}

static enum plim_status walk_as(struct walk *w, const char *key, struct pickle_value v,
				struct plim_err *err)
{
	size_t before;
	enum plim_status st = enter(w, key, strlen(key), &before, err);

	if (!st)
		st = walk(w, v, err);
	w->name.n = before;
	return st;
}

static uint32_t name_id(struct walk *w, enum plim_status *st, struct plim_err *err)
{
	return w->name.n ? model_string(w->ckpt, w->name.at, w->name.n, st, err)
			 : model_string(w->ckpt, "tensor", 6, st, err);
}

static enum plim_status malformed(struct walk *w, const char *what, struct plim_err *err)
{
	return model_find(w->ckpt, CKPT_BAD_FINDING, "malformed_tensor", PLIM_UNKNOWN, err,
			  "'%.*s' %s", (int)(w->name.n < 200 ? w->name.n : 200),
			  w->name.n ? w->name.at : "", what);
}

/* ---- storages ---- */

/* ('storage', class, key, location, numel) of a persistent id. */
static bool get_storage(const struct walk *w, struct pickle_value v, struct unpickle_storage *s)
{
	struct pickle_value id = v.kind == PICKLE_PERSID ? pickle_item(w->heap, v, 0) : v;
	char name[128];
	const char *class, *dot, *tag = str(w, arg(w, id, 0));
	uint64_t n;

	if (v.kind != PICKLE_PERSID || !tag || strcmp(tag, "storage") != 0)
		return false;
	class = global(w, arg(w, id, 1), name, sizeof(name));
	dot = strrchr(class, '.');
	s->dtype = dot && !strncmp(class, "torch.", 6) ? ckpt_dtype_of_storage(dot + 1) : NULL;
	s->key = str(w, arg(w, id, 2));
	s->location = str(w, arg(w, id, 3));
	return s->dtype && s->key && get_u64(arg(w, id, 4), &n) && n <= INT64_MAX / 128 &&
	       (s->bytes = n * s->dtype->bits / 8, true);
}

/* Where in its storage, which dtype, which device: fills t for a tensor of `sizes`. */
static enum plim_status place(struct walk *w, struct pickle_value storage, struct ckpt_tensor *t,
			      struct unpickle_storage *s, bool *ok, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*ok = get_storage(w, storage, s);
	if (!*ok)
		return malformed(w, "has no storage that can be understood", err);
	if (!t->dtype)
		t->dtype = s->dtype;
	if (s->location && w->location == CKPT_NONE)
		t->location = model_string(w->ckpt, s->location, strlen(s->location), &st, err);
	if (s->location && !strcmp(s->location, "meta"))
		t->flags |= CKPT_META;
	else if (!st)
		st = w->u->storage(w->u->ctx, s, &t->extent, err);
	return st;
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

static bool is_true(struct pickle_value v)
{
	return v.kind == PICKLE_BOOL && v.bits;
}

static const struct ckpt_dtype *get_dtype(const struct walk *w, struct pickle_value v)
{
	char name[64];
	const char *full = global(w, v, name, sizeof(name));

	return strncmp(full, "torch.", 6) ? NULL : ckpt_dtype_of_torch(full + 6);
}

static enum plim_status add(struct walk *w, struct ckpt_tensor *t, const uint64_t *sizes,
			    const uint64_t *strides, uint64_t storage_bytes, struct plim_err *err)
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
	    (!model_reach(sizes, strides, t->rank, t->offset, &count, &reach) ||
	     __builtin_mul_overflow(reach, t->dtype->bits / 8, &bytes) || bytes > storage_bytes)) {
		st = malformed(w, "reaches beyond its storage", err);
		t->extent = CKPT_NONE;
		t->offset = 0;
	}
	return st ? st : model_tensor(w->ckpt, *t, sizes, strides, NULL, err);
}

/* Conjugate and negative views are stored as they are, with a flag. */
static bool has_bits(const struct walk *w, struct pickle_value v)
{
	struct pickle_value bit;

	return v.kind == PICKLE_DICT && ((pickle_get(w->heap, v, "conj", &bit) && is_true(bit)) ||
					 (pickle_get(w->heap, v, "neg", &bit) && is_true(bit)));
}

static enum plim_status strided(struct walk *w, const struct rebuild *how, struct pickle_value args,
				struct plim_err *err)
{
	struct ckpt_tensor t = { .location = CKPT_NONE, .extent = CKPT_NONE, .flags = how->flags };
	struct unpickle_storage s;
	uint64_t sizes[CKPT_DIMS], strides[CKPT_DIMS];
	size_t rank = 0, rank2 = 0;
	bool ok = true;
	enum plim_status st = PLIM_OK;

	if (how->dtype >= 0) {
		t.dtype = get_dtype(w, arg(w, args, (size_t)how->dtype));
		if (!t.dtype)
			return malformed(w, "has a dtype that is not known", err);
	}
	if (!get_sizes(w, arg(w, args, (size_t)how->size), sizes, &rank) ||
	    !get_sizes(w, arg(w, args, (size_t)how->stride), strides, &rank2) || rank != rank2 ||
	    (how->offset >= 0 && !get_u64(arg(w, args, (size_t)how->offset), &t.offset)))
		return malformed(w, "has a shape or strides that make no sense", err);
	t.rank = (uint16_t)rank;
	if (how->grad >= 0 && is_true(arg(w, args, (size_t)how->grad)))
		t.flags |= CKPT_REQUIRES_GRAD;
	if (how->bits >= 0 && has_bits(w, arg(w, args, (size_t)how->bits)))
		t.flags |= CKPT_CONJUGATE;
	if (!(how->flags & CKPT_META))
		st = place(w, arg(w, args, 0), &t, &s, &ok, err);
	if (!st && ok)
		st = add(w, &t, sizes, strides, t.flags & CKPT_META ? 0 : s.bytes, err);
	/* Scales and zero points of quantised channels are tensors of their own. */
	if (!st && how->flags & CKPT_QUANTIZED)
		st = walk_as(w, "quantizer", arg(w, args, 4), err);
	return st;
}

static enum plim_status parameter(struct walk *w, const struct rebuild *how,
				  struct pickle_value args, struct plim_err *err)
{
	uint16_t before = w->flags;
	enum plim_status st;

	w->flags |= CKPT_PARAMETER | (is_true(arg(w, args, 1)) ? CKPT_REQUIRES_GRAD : 0);
	st = walk(w, arg(w, args, 0), err);
	w->flags = before;
	if (!st && how->flags)
		st = walk(w, arg(w, args, 3), err);
	return st;
}

static enum plim_status from_cpu(struct walk *w, const struct rebuild *how,
				 struct pickle_value args, struct plim_err *err)
{
	const char *device = str(w, arg(w, args, 2));
	uint32_t before = w->location;
	enum plim_status st = PLIM_OK;

	(void)how;
	if (device)
		w->location = model_string(w->ckpt, device, strlen(device), &st, err);
	if (!st)
		st = walk(w, arg(w, args, 0), err);
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
		st = walk_as(w, names[i], arg(w, args, i), err);
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
	struct pickle_value layout = arg(w, args, 0);
	const char *name = layout.kind == PICKLE_CALL
				   ? str(w, arg(w, part(w, layout, PICKLE_CALL_ARGS), 0))
				   : NULL;

	(void)how;
	for (size_t i = 0; name && i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (!strcmp(name, layouts[i].layout))
			return parts_of(w, layouts[i].parts, layouts[i].n, arg(w, args, 1), err);
	return malformed(w, "is sparse in a layout that is not known", err);
}

static enum plim_status nested(struct walk *w, const struct rebuild *how, struct pickle_value args,
			       struct plim_err *err)
{
	static const char *const names[] = { "buffer", "sizes", "strides", "storage_offsets" };

	(void)how;
	return parts_of(w, names, 4, args, err);
}

static enum plim_status rebuild(struct walk *w, const char *name, struct pickle_value args,
				bool *known, struct plim_err *err);

/* A shard on one rank: its own tensor under the whole's name. */
static enum plim_status shard(struct walk *w, struct pickle_value local, struct plim_err *err)
{
	uint16_t before = w->flags;
	enum plim_status st;

	w->flags |= CKPT_SHARD;
	st = walk(w, local, err);
	w->flags = before;
	return st ? st
		  : model_find(w->ckpt, CKPT_WARN, "one_rank", PLIM_UNKNOWN, err,
			       "'%.*s' is one rank's part of a DTensor: the rest is in other files",
			       (int)(w->name.n < 200 ? w->name.n : 200), w->name.at);
}

/* (function, class, its arguments, state): a subclass, or a tensor with attributes. */
static enum plim_status from_type(struct walk *w, const struct rebuild *how,
				  struct pickle_value args, struct plim_err *err)
{
	struct pickle_value state = arg(w, args, 3), local;
	char name[128];
	bool known;
	enum plim_status st;

	(void)how;
	st = rebuild(w, global(w, arg(w, args, 0), name, sizeof(name)), arg(w, args, 2), &known,
		     err);
	if (!st && as_dict(w, state).kind == PICKLE_DICT &&
	    pickle_get(w->heap, state, "_local_tensor", &local))
		return shard(w, local, err);
	return st ? st : walk(w, state, err);
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
	{ "torch._utils._rebuild_wrapper_subclass", nothing, 0, 0, 0, 0, 0, 0, 0 },
	{ "torch._tensor._rebuild_from_type_v2", from_type, 0, 0, 0, 0, 0, 0, 0 },
};

static enum plim_status rebuild(struct walk *w, const char *name, struct pickle_value args,
				bool *known, struct plim_err *err)
{
	for (size_t i = 0; i < sizeof(rebuilds) / sizeof(rebuilds[0]); i++) {
		*known = !strcmp(name, rebuilds[i].name);
		if (*known)
			return rebuilds[i].run(w, &rebuilds[i], args, err);
	}
	return PLIM_OK;
}

/* ---- optimizers ---- */

/* What a parameter's state holds tells the optimizer; the first row that fits. */
static const struct {
	const char *state, *group, *kind;
} optimizers[] = {
	{ NULL, "scale_parameter", "Adafactor" }, /* transformers' */
	{ NULL, "beta2_decay", "Adafactor" },     /* torch's */
	{ NULL, "tolerance_grad", "LBFGS" },
	{ NULL, "ns_steps", "Muon" },
	{ "exp_avg_sq_row", NULL, "Adafactor" },
	{ "mu_product", NULL, "NAdam" },
	{ "exp_inf", NULL, "Adamax" },
	{ "exp_avg_sq", "decoupled_weight_decay", "Adam or AdamW" },
	{ "exp_avg_sq", "amsgrad", "Adam or AdamW" },
	{ "exp_avg_sq", NULL, "of Adam's family" },
	{ "exp_avg", NULL, "Lion" },
	{ "acc_delta", NULL, "Adadelta" },
	{ "square_avg", NULL, "RMSprop" },
	{ "momentum_buffer", NULL, "SGD with momentum" },
	{ "ax", NULL, "ASGD" },
	{ "prev", NULL, "Rprop" },
	{ "sum", NULL, "Adagrad" },
	{ "state1", NULL, "8-bit (bitsandbytes)" },
	{ NULL, "nesterov", "SGD" },
};

static bool has(const struct walk *w, struct pickle_value dict, const char *key)
{
	struct pickle_value v;

	dict = as_dict(w, dict);
	return dict.kind == PICKLE_DICT && pickle_get(w->heap, dict, key, &v) &&
	       v.kind != PICKLE_NONE; /* SGD keeps its place for a momentum that it has not */
}

static const char *optimizer_kind(const struct walk *w, struct pickle_value one,
				  struct pickle_value group)
{
	struct pickle_value decoupled;

	if (has(w, one, "exp_avg_sq") && as_dict(w, group).kind == PICKLE_DICT &&
	    pickle_get(w->heap, as_dict(w, group), "decoupled_weight_decay", &decoupled))
		return is_true(decoupled) ? "AdamW" : "Adam";
	for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
		if ((!optimizers[i].state || has(w, one, optimizers[i].state)) &&
		    (!optimizers[i].group || has(w, group, optimizers[i].group)))
			return optimizers[i].kind;
	return NULL;
}

static double number(struct pickle_value v)
{
	double d = NAN;

	if (v.kind == PICKLE_FLOAT)
		memcpy(&d, &v.bits, sizeof(d));
	else if (v.kind == PICKLE_INT)
		d = (double)(int64_t)v.bits;
	return d;
}

/* A dict that has both keys of an optimizer's state_dict; its tensors are from `first` on. */
static enum plim_status note_optimizer(struct walk *w, struct pickle_value dict, size_t first,
				       struct plim_err *err)
{
	struct pickle_value none = { 0, PICKLE_NONE }, state = none, groups = none, group = none,
			    lr;
	struct pickle_value one = none;
	struct ckpt_optimizer o = { .learning_rate = NAN };
	enum plim_status st = PLIM_OK;

	if (!pickle_get(w->heap, dict, "state", &state) ||
	    !pickle_get(w->heap, dict, "param_groups", &groups) || groups.kind != PICKLE_LIST)
		return PLIM_OK;
	state = as_dict(w, state);
	if (state.kind != PICKLE_DICT)
		return PLIM_OK;
	o.groups = pickle_len(w->heap, groups);
	o.parameters = pickle_len(w->heap, state) / 2;
	if (o.groups)
		group = pickle_item(w->heap, groups, 0);
	if (o.parameters)
		one = pickle_item(w->heap, state, 1);
	if (as_dict(w, group).kind == PICKLE_DICT &&
	    pickle_get(w->heap, as_dict(w, group), "lr", &lr))
		o.learning_rate = number(lr);
	o.kind = optimizer_kind(w, one, group);
	for (size_t i = first; i < w->ckpt->tensors.n; i++) {
		o.state_tensors++;
		o.state_bytes += ckpt_tensor_bytes(&w->ckpt->tensors.at[i]);
	}
	o.path = model_string(w->ckpt, w->name.n ? w->name.at : "", w->name.n, &st, err);
	return st ? st : vec_push(w->ckpt->mem, &w->ckpt->optimizers, o, err);
}

/* ---- containers ---- */

static enum plim_status walk_key(struct walk *w, struct pickle_value key, struct pickle_value v,
				 struct plim_err *err)
{
	char text[32];
	const char *name = str(w, key);
	size_t n = name ? w->heap->strings.at[key.bits].n : 0, before;
	enum plim_status st;

	if (!name) {
		switch (key.kind) {
		case PICKLE_INT: snprintf(text, sizeof(text), "%" PRId64, (int64_t)key.bits); break;
		case PICKLE_UINT: snprintf(text, sizeof(text), "%" PRIu64, key.bits); break;
		case PICKLE_BOOL: snprintf(text, sizeof(text), key.bits ? "True" : "False"); break;
		case PICKLE_FLOAT: snprintf(text, sizeof(text), "%.9g", number(key)); break;
		default: snprintf(text, sizeof(text), key.kind == PICKLE_NONE ? "None" : "?");
		}
		name = text;
		n = strlen(text);
	}
	st = enter(w, name, n, &before, err);
	if (!st)
		st = walk(w, v, err);
	w->name.n = before;
	return st;
}

static enum plim_status walk_dict(struct walk *w, struct pickle_value dict, struct plim_err *err)
{
	size_t n = pickle_len(w->heap, dict), first = w->ckpt->tensors.n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i + 1 < n; i += 2)
		st = walk_key(w, pickle_item(w->heap, dict, i), pickle_item(w->heap, dict, i + 1),
			      err);
	return st ? st : note_optimizer(w, dict, first, err);
}

static enum plim_status walk_items(struct walk *w, struct pickle_value list, struct plim_err *err)
{
	size_t n = pickle_len(w->heap, list);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++)
		st = walk_key(w, (struct pickle_value){ i, PICKLE_INT },
			      pickle_item(w->heap, list, i), err);
	return st;
}

/* Python 2 wrote OrderedDict([[key, value], ...]). */
static enum plim_status walk_pairs(struct walk *w, struct pickle_value args, struct plim_err *err)
{
	struct pickle_value list = arg(w, args, 0);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && list.kind == PICKLE_LIST && i < pickle_len(w->heap, list); i++) {
		struct pickle_value pair = pickle_item(w->heap, list, i);

		if (pair.kind == PICKLE_LIST && pickle_len(w->heap, pair) == 2)
			st = walk_key(w, pickle_item(w->heap, pair, 0),
				      pickle_item(w->heap, pair, 1), err);
	}
	return st;
}

/* A torch.nn.Module: names as its state_dict() would give them. */
static enum plim_status walk_module(struct walk *w, struct pickle_value state, struct plim_err *err)
{
	static const char *const members[] = { "_parameters", "_buffers", "_modules" };
	struct pickle_value v;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < 3; i++)
		if (pickle_get(w->heap, state, members[i], &v))
			st = walk(w, v, err);
	return st;
}

static enum plim_status note_class(struct walk *w, const char *name, struct plim_err *err)
{
	struct ckpt_fact f;
	enum plim_status st = PLIM_OK;

	f.name = model_printf(w->ckpt, &st, err, w->name.n ? "module %.*s" : "module",
			      (int)w->name.n, w->name.at);
	f.value = model_string(w->ckpt, name, strlen(name), &st, err);
	return st ? st : model_fact(w->ckpt, f, err);
}

static enum plim_status walk_call(struct walk *w, struct pickle_value call, struct plim_err *err)
{
	struct pickle_value args = part(w, call, PICKLE_CALL_ARGS),
			    state = part(w, call, PICKLE_CALL_STATE), v;
	char text[200];
	const char *name = global(w, part(w, call, PICKLE_CALL_CALLEE), text, sizeof(text));
	bool known;
	enum plim_status st = rebuild(w, name, args, &known, err);

	if (st || known)
		return st;
	if (!strcmp(name, "collections.OrderedDict")) {
		st = walk_pairs(w, args, err);
		v = part(w, call, PICKLE_CALL_SET);
		return st ? st : walk(w, v, err);
	}
	if (state.kind == PICKLE_DICT && pickle_get(w->heap, state, "_modules", &v)) {
		st = note_class(w, name, err);
		return st ? st : walk_module(w, state, err);
	}
	st = walk(w, args, err);
	for (int i = PICKLE_CALL_STATE; !st && i < PICKLE_CALL_ITEMS; i++)
		st = walk(w, part(w, call, (enum pickle_call_item)i), err);
	return st;
}

/* A storage that no tensor stands around. */
static enum plim_status walk_storage(struct walk *w, struct pickle_value v, struct plim_err *err)
{
	struct ckpt_tensor t = { .location = CKPT_NONE, .extent = CKPT_NONE, .rank = 1 };
	const uint64_t one = 1;
	struct unpickle_storage s;
	uint64_t n;
	bool ok;
	enum plim_status st;

	if (!get_storage(w, v, &s)) /* a module's source, or another program's id */
		return walk(w, pickle_item(w->heap, v, 0), err);
	st = place(w, v, &t, &s, &ok, err);
	n = s.bytes * 8 / s.dtype->bits;
	return st ? st : add(w, &t, &n, &one, s.bytes, err);
}

/* A dict that holds itself, a module that knows its parent: nothing new is in it. */
static bool is_inside_itself(const struct walk *w, struct pickle_value v)
{
	for (unsigned i = 0; i < w->depth; i++)
		if (w->path[i] == v.bits)
			return true;
	return false;
}

static enum plim_status walk(struct walk *w, struct pickle_value v, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (!pickle_is_container(v) || v.kind == PICKLE_GLOBAL || is_inside_itself(w, v))
		return PLIM_OK;
	if (w->depth >= DEPTH || w->visits >= w->most_visits) {
		st = w->told ? PLIM_OK
			     : model_find(w->ckpt, CKPT_WARN, "too_deep", PLIM_UNKNOWN, err,
					  "the pickle nests or repeats too much: not all of it was "
					  "looked at");
		w->told = true;
		return st;
	}
	w->visits++;
	w->path[w->depth++] = v.bits;
	switch (v.kind) {
	case PICKLE_DICT: st = walk_dict(w, v, err); break;
	case PICKLE_CALL: st = walk_call(w, v, err); break;
	case PICKLE_PERSID: st = walk_storage(w, v, err); break;
	default: st = walk_items(w, v, err); break;
	}
	w->depth--;
	return st;
}

/* ---- the outermost dict ---- */

static uint32_t describe(struct walk *w, struct pickle_value v, enum plim_status *st,
			 struct plim_err *err)
{
	struct ckpt *c = w->ckpt;
	char name[200];
	size_t n = pickle_len(w->heap, v);
	const char *text = str(w, v);

	switch (v.kind) {
	case PICKLE_NONE: return model_printf(c, st, err, "None");
	case PICKLE_BOOL: return model_printf(c, st, err, v.bits ? "True" : "False");
	case PICKLE_INT: return model_printf(c, st, err, "%" PRId64, (int64_t)v.bits);
	case PICKLE_UINT: return model_printf(c, st, err, "%" PRIu64, v.bits);
	case PICKLE_FLOAT: return model_printf(c, st, err, "%.9g", number(v));
	case PICKLE_STR: return model_printf(c, st, err, "'%.200s'", text);
	case PICKLE_BYTES:
		return model_printf(c, st, err, "%u bytes", w->heap->strings.at[v.bits].n);
	case PICKLE_DICT: return model_printf(c, st, err, "dict of %zu", n / 2);
	case PICKLE_LIST: return model_printf(c, st, err, "list of %zu", n);
	case PICKLE_TUPLE: return model_printf(c, st, err, "tuple of %zu", n);
	case PICKLE_SET: return model_printf(c, st, err, "set of %zu", n);
	case PICKLE_CALL:
		if (as_dict(w, v).kind == PICKLE_DICT)
			return model_printf(c, st, err, "dict of %zu",
					    pickle_len(w->heap, as_dict(w, v)) / 2);
		return model_printf(c, st, err, "%s",
				    global(w, part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)));
	default: return model_printf(c, st, err, "object");
	}
}

/* Keys with what they hold; tensors are listed elsewhere. */
static enum plim_status walk_outermost(struct walk *w, struct pickle_value dict,
				       struct plim_err *err)
{
	size_t n = pickle_len(w->heap, dict), first = w->ckpt->tensors.n;
	struct ckpt *c = w->ckpt;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i + 1 < n; i += 2) {
		struct pickle_value key = pickle_item(w->heap, dict, i),
				    v = pickle_item(w->heap, dict, i + 1);
		struct ckpt_key k = { 0 };
		size_t before = c->tensors.n;

		st = walk_key(w, key, v, err);
		for (size_t t = before; t < c->tensors.n; t++)
			k.bytes += ckpt_tensor_bytes(&c->tensors.at[t]);
		k.tensors = c->tensors.n - before;
		/* A key that is one tensor itself is only a name of a weight. */
		if (st || c->keys.n >= 10000 ||
		    (k.tensors == 1 && v.kind == PICKLE_CALL && as_dict(w, v).kind != PICKLE_DICT))
			continue;
		k.name = str(w, key) ? model_printf(c, &st, err, "%.300s", str(w, key))
				     : describe(w, key, &st, err);
		k.what = describe(w, v, &st, err);
		if (!st)
			st = vec_push(c->mem, &c->keys, k, err);
	}
	return st ? st : note_optimizer(w, dict, first, err);
}

enum plim_status unpickle_walk(struct unpickle *u, struct pickle_value root, struct plim_err *err)
{
	struct walk w = { .u = u, .ckpt = u->ckpt, .heap = &u->heap, .location = CKPT_NONE };
	struct pickle_value dict = as_dict(&w, root);
	size_t before;
	enum plim_status st = enter(&w, u->prefix, strlen(u->prefix), &before, err);

	w.most_visits = u->heap.nodes.n * REVISITS + 1000;
	if (w.most_visits > VISITS)
		w.most_visits = VISITS;
	if (!st && u->outermost && dict.kind == PICKLE_DICT) {
		w.path[w.depth++] = dict.bits;
		st = walk_outermost(&w, dict, err);
	} else if (!st) {
		st = walk(&w, root, err);
	}
	vec_release(u->ckpt->mem, &w.name);
	return st;
}

enum plim_status unpickle_decode(struct unpickle *u, const char *name, const uint8_t *bytes,
				 size_t n, struct pickle_value *root, size_t *used,
				 struct plim_err *err)
{
	struct globals_log log = { .ckpt = u->ckpt, .heap = &u->heap };
	struct pickle_hooks hooks = { .ctx = &log, .global = globals_hook };
	struct source *src;
	enum plim_status st = PLIM_OK;

	*used = 0;
	u->ckpt->pickled = true;
	log.record = model_string(u->ckpt, name, strlen(name), &st, err);
	if (!st)
		st = source_open_memory(u->ckpt->mem, name, bytes, n, SOURCE_MEMORY_PLAIN, NULL,
					&src, err);
	if (st)
		return st;
	st = pickle_read(&u->heap, src, 0, &hooks, root, err);
	*used = (size_t)source_offset(src, src->p);
	source_close(src);
	return st;
}
