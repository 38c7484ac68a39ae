/*
 * joblib's arrays, 0.10 and later: behind the opcode that sets the state of a NumpyArrayWrapper stands the array, and
 * behind that the pickle goes on.
 *
 *	BUILD | length of the padding, 1 byte | padding | shape x dtype bytes	(numpy_array_alignment_bytes is set)
 *	BUILD | shape x dtype bytes						(joblib before 1.1)
 *	BUILD | a pickle of the array						(a dtype with objects)
 *
 * Python's own unpickler reads these bytes as opcodes, so such a pickle is read both ways.  A wrapper that is not exactly as
 * joblib writes it is unknown: joblib calls its methods, which its state may replace.
 */
#include "opcodes.h"
#include "parts.h"

#include <string.h>

#define DTYPE_DEPTH 4 /* records in records */

static bool array_is_named(const struct pickle_heap *h, struct pickle_value v, const char *module,
			   const char *name)
{
	struct pickle_value a, b;

	if (v.kind != PICKLE_GLOBAL)
		return false;
	a = pickle_item(h, v, 0);
	b = pickle_item(h, v, 1);
	return a.kind == PICKLE_STR && b.kind == PICKLE_STR &&
	       !strcmp(intern_text(&h->strings, (uint32_t)a.bits), module) &&
	       !strcmp(intern_text(&h->strings, (uint32_t)b.bits), name);
}

static bool array_is_wrapper(const struct pickle_heap *h, struct pickle_value v)
{
	return array_is_named(h, v, "joblib.numpy_pickle", "NumpyArrayWrapper") ||
	       array_is_named(h, v, "sklearn.externals.joblib.numpy_pickle", "NumpyArrayWrapper");
}

/* The class of joblib's wrapper if v is one, made in whatever way: of its class, or given it (copyreg._reconstructor). */
static bool array_get_class(const struct pickle_heap *h, struct pickle_value v,
			    struct pickle_value *class)
{
	struct pickle_value args = pickle_item(h, v, PICKLE_CALL_ARGS);

	*class = pickle_item(h, v, PICKLE_CALL_CALLEE);
	if (array_is_wrapper(h, *class))
		return true;
	if (args.kind != PICKLE_TUPLE || !pickle_len(h, args))
		return false;
	*class = pickle_item(h, args, 0);
	return array_is_wrapper(h, *class);
}

/* ---- the dtype ---- */

struct array_dtype {
	uint64_t bytes;
	bool objects;
};

static bool array_get_record(const struct pickle_heap *h, struct pickle_value state, unsigned depth,
			     bool *objects);

/* "f8", "U10": the letter and the bytes of an element. */
static bool array_get_code(const struct pickle_heap *h, struct pickle_value v, char *letter,
			   uint64_t *bytes)
{
	const char *s = v.kind == PICKLE_STR ? intern_text(&h->strings, (uint32_t)v.bits) : "";
	size_t n = strlen(s), digits = n ? strspn(s + 1, "0123456789") : 0;

	if (!n || !strchr("biufcmMOSUV", *s) || !digits || digits > 9 || 1 + digits != n)
		return false;
	*letter = *s;
	*bytes = 0;
	for (const char *p = s + 1; *p; p++)
		*bytes = *bytes * 10 + (uint64_t)(*p - '0');
	*bytes *= *letter == 'U' ? 4 : 1;
	return true;
}

/*
 * numpy.dtype(code, align, copy) with the state (version, order, base, names, fields, bytes, alignment, flags, ...).
 * NumPy believes the flags when it is asked whether there are objects in it: they must say what the code says.
 */
static bool array_get_dtype(const struct pickle_heap *h, struct pickle_value v, unsigned depth,
			    struct array_dtype *d)
{
	const struct pickle_node *node = v.kind == PICKLE_CALL ? &h->nodes.at[v.bits] : NULL;
	struct pickle_value args, state, size, flags;
	bool inside = false, long_enough;
	char letter;

	if (!node || node->changed || node->is_new || depth > DTYPE_DEPTH ||
	    !array_is_named(h, node->items[PICKLE_CALL_CALLEE], "numpy", "dtype"))
		return false;
	args = node->items[PICKLE_CALL_ARGS];
	state = node->items[PICKLE_CALL_STATE];
	long_enough = args.kind == PICKLE_TUPLE && pickle_len(h, args) &&
		      state.kind == PICKLE_TUPLE && pickle_len(h, state) >= 8;
	if (!long_enough || !array_get_code(h, pickle_item(h, args, 0), &letter, &d->bytes))
		return false;
	size = pickle_item(h, state, 5);
	flags = pickle_item(h, state, 7);
	if (size.kind != PICKLE_INT || flags.kind != PICKLE_INT)
		return false;
	d->objects = flags.bits & 1;
	if (strchr("SUV", letter) ? size.bits != d->bytes : (int64_t)size.bits != -1)
		return false;
	if (!array_get_record(h, state, depth, &inside))
		return false;
	return d->objects == (letter == 'O' || inside);
}

/* A dtype that is made of others: are there objects in one of them? */
static bool array_get_record(const struct pickle_heap *h, struct pickle_value state, unsigned depth,
			     bool *objects)
{
	struct pickle_value base = pickle_item(h, state, 2), fields = pickle_item(h, state, 4);
	struct array_dtype d = { 0 };

	if (base.kind != PICKLE_NONE) {
		if (base.kind != PICKLE_TUPLE || !pickle_len(h, base) ||
		    !array_get_dtype(h, pickle_item(h, base, 0), depth + 1, &d))
			return false;
		*objects = d.objects;
	}
	if (fields.kind == PICKLE_NONE)
		return true;
	for (size_t i = 1; fields.kind == PICKLE_DICT && i < pickle_len(h, fields); i += 2) {
		struct pickle_value field = pickle_item(h, fields, i);

		if (field.kind != PICKLE_TUPLE || !pickle_len(h, field) ||
		    !array_get_dtype(h, pickle_item(h, field, 0), depth + 1, &d))
			return false;
		*objects |= d.objects;
	}
	return fields.kind == PICKLE_DICT;
}

/* ---- the wrapper ---- */

struct array_wrapper {
	uint64_t bytes;
	bool objects, padded;
};

static bool array_get_bytes(const struct pickle_heap *h, struct pickle_value shape, uint64_t *bytes)
{
	for (size_t i = 0; i < pickle_len(h, shape); i++) {
		struct pickle_value n = pickle_item(h, shape, i);

		if (n.kind != PICKLE_INT || (int64_t)n.bits < 0 ||
		    __builtin_mul_overflow(*bytes, n.bits, bytes))
			return false;
	}
	return shape.kind == PICKLE_TUPLE;
}

/* Is it made, and is its state, exactly as joblib does?  Any other key may replace a method that joblib calls. */
static bool array_is_exact(const struct pickle_heap *h, struct pickle_value v)
{
	static const char *const keys[] = {
		"subclass", "shape", "order", "dtype", "allow_mmap", "numpy_array_alignment_bytes"
	};
	const struct pickle_node *node = &h->nodes.at[v.bits];
	struct pickle_value state = node->items[PICKLE_CALL_STATE],
			    callee = node->items[PICKLE_CALL_CALLEE], class;
	bool exact = state.kind == PICKLE_DICT && !node->changed &&
		     (node->is_new || array_is_named(h, callee, "copyreg", "_reconstructor") ||
		      array_is_named(h, callee, "copy_reg", "_reconstructor"));

	for (size_t i = 0; exact && i < pickle_len(h, state); i += 2) {
		struct pickle_value key = pickle_item(h, state, i);

		exact = key.kind == PICKLE_STR &&
			ckpt_text_is_one_of(intern_text(&h->strings, (uint32_t)key.bits), keys, 6);
	}
	return exact && pickle_get(h, state, "subclass", &class) && class.kind == PICKLE_GLOBAL;
}

/* false: how many bytes follow is not known. */
static bool array_get_wrapper(const struct pickle_heap *h, struct pickle_value v,
			      struct array_wrapper *w)
{
	struct pickle_value state = pickle_item(h, v, PICKLE_CALL_STATE), shape, dtype, align;
	struct array_dtype d = { 0 };

	if (state.kind != PICKLE_DICT || !pickle_get(h, state, "shape", &shape) ||
	    !pickle_get(h, state, "dtype", &dtype) || !array_get_dtype(h, dtype, 0, &d))
		return false;
	w->objects = d.objects;
	w->bytes = d.bytes;
	if (!pickle_get(h, state, "numpy_array_alignment_bytes", &align))
		align.kind = PICKLE_NONE;
	w->padded = align.kind == PICKLE_INT;
	return array_get_bytes(h, shape, &w->bytes) && (w->padded || align.kind == PICKLE_NONE);
}

enum plim_status arrays_note(void *ctx, struct pickle_value v, uint64_t offset, uint64_t *skip,
			     struct plim_err *err)
{
	struct globals_log *log = ctx;
	struct pickle_value class;

	(void)skip;
	(void)err;
	if (log->arrays || !array_get_class(log->heap, v, &class))
		return PLIM_OK;
	log->arrays = true;
	log->first = (size_t)offset;
	return PLIM_OK;
}

/* An array of objects is a pickle of its own, which Python's unpickler reads. */
static enum plim_status array_judge_objects(struct globals_log *log, size_t at, uint64_t *skip,
					    struct plim_err *err)
{
	struct unpickle u = { .ckpt = log->ckpt, .record = log->record };
	struct pickle_value root;
	size_t used = 0;
	enum plim_status st;

	pickle_heap_init(&u.heap, log->ckpt->mem);
	st = unpickle_decode(&u, NULL, log->bytes + at, log->n - at, &root, &used, err);
	pickle_heap_release(&u.heap);
	*skip = used;
	if (st == PLIM_E_FORMAT && err && err->offset != PLIM_UNKNOWN)
		err->offset += at;
	return st;
}

/* joblib reads the array from the file: a frame that goes on behind the wrapper is read elsewhere. */
static enum plim_status array_check_frame(struct globals_log *log, size_t end, struct plim_err *err)
{
	size_t at;
	const char *doubt = opcodes_doubt(log->bytes + log->begin, end - log->begin, &at);

	log->ckpt->many_globals |= doubt != NULL;
	return doubt ? ckpt_model_find(log->ckpt, CKPT_BAD_FINDING, "form", log->begin + at, err,
				       "%.200s: %s, before an array of joblib: programs differ in "
				       "what they read from there on",
				       ckpt_text(log->ckpt, log->record), doubt)
		     : PLIM_OK;
}

enum plim_status arrays_skip(void *ctx, struct pickle_value v, uint64_t offset, uint64_t *skip,
			     struct plim_err *err)
{
	struct globals_log *log = ctx;
	struct pickle_value class;
	struct array_wrapper w = { 0 };
	size_t at = (size_t)offset;
	bool known;
	enum plim_status st = PLIM_OK;

	if (!array_get_class(log->heap, v, &class))
		return PLIM_OK;
	known = array_get_wrapper(log->heap, v, &w);
	if (!known || !array_is_exact(log->heap, v))
		st = globals_doubt(log, class, "is not as joblib writes it", err);
	if (!known)
		return st ? st : err_at(err, offset, "an array of joblib that cannot be read");
	if (!st)
		st = array_check_frame(log, at, err);
	if (st || w.objects) {
		st = st ? st : array_judge_objects(log, at, skip, err);
		log->begin = at + (size_t)*skip;
		return st;
	}
	*skip = w.bytes;
	if (w.padded &&
	    (at >= log->n || __builtin_add_overflow(*skip, 1 + (uint64_t)log->bytes[at], skip)))
		*skip = UINT64_MAX;
	if (*skip > log->n - at)
		return err_at(err, log->n, "an array of joblib ends behind the file");
	log->begin = at + (size_t)*skip;
	return PLIM_OK;
}

enum plim_status arrays_differ(struct globals_log *log, struct plim_err *err)
{
	log->ckpt->many_globals = true;
	return ckpt_model_find(log->ckpt, CKPT_BAD_FINDING, "form", log->begin, err,
			       "%.200s: joblib reads an array where Python's unpickler reads "
			       "opcodes, and fails behind it",
			       ckpt_text(log->ckpt, log->record));
}
