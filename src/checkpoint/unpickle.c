/*
 * From the inert values of a pickle to tensors: what rebuild.c knows is one, all else that is constructed is walked
 * for tensors inside and otherwise left alone.
 * Shared values are visited once a path, within a budget, so that a pickle that refers to itself ends.
 */
#include "opcodes.h"
#include "walk.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Values looked at: at most, and on average for each; shared ones are on several paths.  A pickle of 546 bytes can
 * have 2^60 paths.
 */
#define VISITS ((size_t)8 << 20)
#define REVISITS 16
#define NAME_BYTES 4096 /* of a tensor */

/* Of tuples that are shown item by item. */
#define SHOWN_ITEMS 4
#define SHOWN_DEPTH 3
#define SHOWN_BYTES 300

/* ---- values ---- */

const char *walk_global(const struct walk *w, struct pickle_value v, char *text, size_t size)
{
	const char *module, *name, *tag;

	text[0] = 0;
	/* Before 1.6 a module's class came with its source: ('module', class, file, source). */
	if (v.kind == PICKLE_PERSID) {
		v = pickle_item(w->heap, v, 0);
		tag = walk_str(w, walk_arg(w, v, 0));
		v = tag && !strcmp(tag, "module") ? walk_arg(w, v, 1) : v;
	}
	if (v.kind != PICKLE_GLOBAL)
		return text;
	module = walk_str(w, pickle_item(w->heap, v, 0));
	name = walk_str(w, pickle_item(w->heap, v, 1));
	if (module && name)
		snprintf(text, size, "%s.%s", module, name);
	return text;
}

struct pickle_value walk_as_dict(const struct walk *w, struct pickle_value v)
{
	if (v.kind == PICKLE_CALL)
		v = walk_part(w, v, PICKLE_CALL_SET);
	return v.kind == PICKLE_DICT ? v : (struct pickle_value){ 0, PICKLE_NONE };
}

double walk_number(struct pickle_value v)
{
	double d = NAN;

	if (v.kind == PICKLE_FLOAT)
		memcpy(&d, &v.bits, sizeof(d));
	else if (v.kind == PICKLE_INT)
		d = (double)(int64_t)v.bits;
	return d;
}

/* ---- names ---- */

/* One key further down; *before is for leave, in every case. */
static enum plim_status enter_unpickle(struct walk *w, const char *key, size_t n, size_t *before,
				       struct plim_err *err)
{
	size_t room = NAME_BYTES - w->name.n;
	enum plim_status st = PLIM_OK;

	*before = w->name.n;
	if (n && n >= room)
		st = ckpt_model_find(w->ckpt, CKPT_WARN, "long_name", PLIM_UNKNOWN, err,
				     "names of more than %d bytes are cut: '%.60s' for one",
				     NAME_BYTES, w->name.n ? walk_name(w) : key);
	n = n < room ? n : room - (room > 0);
	if (!st)
		st = vec_need(w->ckpt->mem, &w->name, n + 2, err);
	if (st)
		return st;
	if (n && w->name.n && w->name.at[w->name.n - 1] != '/')
		w->name.at[w->name.n++] = '.';
	memcpy(w->name.at + w->name.n, key, n);
	w->name.n += n;
	w->name.at[w->name.n] = 0;
	return st;
}

static void leave_unpickle(struct walk *w, size_t before)
{
	w->name.n = before;
	if (w->name.at)
		w->name.at[before] = 0;
}

enum plim_status walk_as(struct walk *w, const char *key, struct pickle_value v,
			 struct plim_err *err)
{
	size_t before;
	enum plim_status st = enter_unpickle(w, key, strlen(key), &before, err);

	if (!st)
		st = walk_value(w, v, err);
	leave_unpickle(w, before);
	return st;
}

/* ---- containers ---- */

/* The bytes of a bytes object, which protocol 2 writes as _codecs.encode('...', 'latin1'); at most `size`. */
static size_t get_bytes(const struct walk *w, struct pickle_value v, uint8_t *at, size_t size)
{
	char name[32];
	const char *text;
	size_t n, count = 0;

	if (v.kind == PICKLE_CALL) {
		if (strcmp(walk_global(w, walk_part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)),
			   "_codecs.encode") != 0)
			return 0;
		v = walk_arg(w, walk_part(w, v, PICKLE_CALL_ARGS), 0);
	}
	text = walk_str(w, v);
	n = text ? w->heap->strings.at[v.bits].n : 0;
	for (size_t i = 0, k = 1; i < n && count < size; i += k) {
		uint32_t code = (uint8_t)text[i];

		k = v.kind == PICKLE_BYTES ? 1 : utf8_decode(text + i, n - i, &code);
		if (!k || code > UINT8_MAX)
			return 0;
		at[count++] = (uint8_t)code;
	}
	return count;
}

/* numpy.core.multiarray.scalar(dtype('i8'), bytes): what np.int64(3) is; NULL: it is none of these. */
static const struct ckpt_dtype *get_numpy(const struct walk *w, struct pickle_value v,
					  struct ckpt_values *number)
{
	static const struct {
		const char *code, *dtype;
	} codes[] = { { "i8", "int64" },  { "i4", "int32" },   { "u8", "uint64" },
		      { "u4", "uint32" }, { "f8", "float64" }, { "f4", "float32" },
		      { "b1", "bool" } };
	struct pickle_value args = walk_part(w, v, PICKLE_CALL_ARGS), dtype = walk_arg(w, args, 0);
	const struct ckpt_dtype *d = NULL;
	uint8_t bytes[8];
	char name[64];
	const char *code;

	if (!ckpt_text_ends(walk_global(w, walk_part(w, v, PICKLE_CALL_CALLEE), name, sizeof(name)),
			    ".multiarray.scalar") ||
	    dtype.kind != PICKLE_CALL)
		return NULL;
	code = walk_str(w, walk_arg(w, walk_part(w, dtype, PICKLE_CALL_ARGS), 0));
	for (size_t i = 0; code && i < sizeof(codes) / sizeof(codes[0]); i++)
		if (!strcmp(code, codes[i].code))
			d = ckpt_dtype_of_torch(codes[i].dtype);
	if (!d || get_bytes(w, walk_arg(w, args, 1), bytes, sizeof(bytes)) != d->bits / 8)
		return NULL;
	values_add(number, d->number, d->bits, bytes, 1);
	return d;
}

static void show_numpy(const struct ckpt_dtype *d, const struct ckpt_values *v, char *at,
		       size_t size)
{
	bool whole = d->number == CKPT_SIGNED || d->number == CKPT_UNSIGNED;

	if (d->number == CKPT_BOOL)
		snprintf(at, size, v->zero ? "False" : "True");
	else if (v->nan || v->infinite)
		snprintf(at, size, v->nan ? "nan" : "infinite");
	else
		snprintf(at, size, whole ? "%.0f" : "%.9g", v->max);
}

/* A scalar, or a short tuple of them, as Python shows it; false: it is something else. */
static bool show_unpickle(const struct walk *w, struct pickle_value v, unsigned depth, char *at,
			  size_t size)
{
	size_t n = pickle_len(w->heap, v), end = 0;
	bool known = v.kind == PICKLE_TUPLE && n && n <= SHOWN_ITEMS && depth < SHOWN_DEPTH;
	struct ckpt_values number = { 0 };
	const struct ckpt_dtype *d = v.kind == PICKLE_CALL ? get_numpy(w, v, &number) : NULL;

	if (d) {
		show_numpy(d, &number, at, size);
		return true;
	}
	switch (v.kind) {
	case PICKLE_NONE: snprintf(at, size, "None"); return true;
	case PICKLE_BOOL: snprintf(at, size, v.bits ? "True" : "False"); return true;
	case PICKLE_INT: snprintf(at, size, "%" PRId64, (int64_t)v.bits); return true;
	case PICKLE_UINT: snprintf(at, size, "%" PRIu64, v.bits); return true;
	case PICKLE_FLOAT: snprintf(at, size, "%.9g", walk_number(v)); return true;
	case PICKLE_STR: snprintf(at, size, "'%.200s'", walk_str(w, v)); return true;
	default: break;
	}
	for (size_t i = 0; known && i < n && end < size; i++) {
		char one[SHOWN_BYTES];

		known = show_unpickle(w, pickle_item(w->heap, v, i), depth + 1, one, sizeof(one));
		end += (size_t)snprintf(at + end, size - end, "%s%s%s", i ? ", " : "(", one,
					i + 1 < n ? ""
					: n > 1   ? ")"
						  : ",)");
	}
	return known;
}

/* `at`: which of its container's it is, for keys that are not a text and no number. */
static enum plim_status walk_key(struct walk *w, struct pickle_value key, size_t at,
				 struct pickle_value v, struct plim_err *err)
{
	char text[SHOWN_BYTES];
	const char *name = walk_str(w, key);
	size_t n = name ? w->heap->strings.at[key.bits].n : 0, before;
	enum plim_status st;

	if (!name) {
		if (!show_unpickle(w, key, 0, text, sizeof(text)))
			snprintf(text, sizeof(text), "?%zu", at);
		name = text;
		n = strlen(text);
	}
	st = enter_unpickle(w, name, n, &before, err);
	if (!st)
		st = walk_value(w, v, err);
	leave_unpickle(w, before);
	return st;
}

/* What no unpickler can build. */
static enum plim_status check_key(struct walk *w, struct pickle_value key, struct plim_err *err)
{
	return key.kind == PICKLE_LIST || key.kind == PICKLE_DICT
		       ? ckpt_model_find(
				 w->ckpt, CKPT_BAD_FINDING, "unhashable_key", PLIM_UNKNOWN, err,
				 "a dict or a set has a list, a dict or itself for a key, which "
				 "Python cannot load")
		       : PLIM_OK;
}

static enum plim_status walk_dict(struct walk *w, struct pickle_value dict, struct plim_err *err)
{
	size_t n = pickle_len(w->heap, dict), first = w->ckpt->tensors.n;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i + 1 < n; i += 2) {
		st = check_key(w, pickle_item(w->heap, dict, i), err);
		if (!st)
			st = walk_key(w, pickle_item(w->heap, dict, i), i / 2,
				      pickle_item(w->heap, dict, i + 1), err);
	}
	return st ? st : walk_optimizer(w, dict, first, err);
}

static enum plim_status walk_items(struct walk *w, struct pickle_value list, struct plim_err *err)
{
	size_t n = pickle_len(w->heap, list);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && list.kind == PICKLE_SET && i < n; i++) {
		struct pickle_value v = pickle_item(w->heap, list, i);

		v.kind = v.kind == PICKLE_SET && v.bits == list.bits ? PICKLE_DICT : v.kind;
		st = check_key(w, v, err);
	}
	for (size_t i = 0; !st && i < n; i++)
		st = walk_key(w, (struct pickle_value){ i, PICKLE_INT }, i,
			      pickle_item(w->heap, list, i), err);
	return st;
}

/* Python 2 wrote OrderedDict([[key, value], ...]). */
static enum plim_status walk_pairs(struct walk *w, struct pickle_value args, struct plim_err *err)
{
	struct pickle_value list = walk_arg(w, args, 0);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && list.kind == PICKLE_LIST && i < pickle_len(w->heap, list); i++) {
		struct pickle_value pair = pickle_item(w->heap, list, i);

		if (pair.kind == PICKLE_LIST && pickle_len(w->heap, pair) == 2)
			st = walk_key(w, pickle_item(w->heap, pair, 0), i,
				      pickle_item(w->heap, pair, 1), err);
	}
	return st;
}

/*
 * A torch.nn.Module: names as its state_dict() would give them, then what else it holds tensors in: attributes that
 * are not registered.  An RNN keeps its weights in a list once more.
 */
static enum plim_status walk_module(struct walk *w, struct pickle_value state, struct plim_err *err)
{
	static const char *const members[] = { "_parameters", "_buffers", "_modules" };
	struct pickle_value v;
	bool before = w->only_new;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < 3; i++)
		if (pickle_get(w->heap, state, members[i], &v))
			st = walk_value(w, v, err);
	w->only_new = true;
	for (size_t i = 0; !st && i + 1 < pickle_len(w->heap, state); i += 2) {
		const char *key = walk_str(w, pickle_item(w->heap, state, i));

		if (!key || !ckpt_text_is_one_of(key, members, 3))
			st = walk_key(w, pickle_item(w->heap, state, i), i / 2,
				      pickle_item(w->heap, state, i + 1), err);
	}
	w->only_new = before;
	return st;
}

static enum plim_status note_class(struct walk *w, const char *name, struct plim_err *err)
{
	struct ckpt_fact f;
	enum plim_status st = PLIM_OK;

	f.name = ckpt_model_printf(w->ckpt, &st, err, "module%s%s", w->name.n ? " " : "",
				   walk_name(w));
	f.value = ckpt_model_string(w->ckpt, name, strlen(name), &st, err);
	return st ? st : ckpt_model_fact(w->ckpt, f, err);
}

static enum plim_status walk_call(struct walk *w, struct pickle_value call, struct plim_err *err)
{
	struct pickle_value args = walk_part(w, call, PICKLE_CALL_ARGS),
			    state = walk_part(w, call, PICKLE_CALL_STATE), v;
	char text[200];
	const char *name =
		walk_global(w, walk_part(w, call, PICKLE_CALL_CALLEE), text, sizeof(text));
	bool known;
	enum plim_status st = walk_rebuild(w, name, args, &known, err);

	if (st || known)
		return st;
	if (!strcmp(name, "collections.OrderedDict")) {
		st = walk_pairs(w, args, err);
		v = walk_part(w, call, PICKLE_CALL_SET);
		return st ? st : walk_value(w, v, err);
	}
	if (state.kind == PICKLE_DICT && pickle_get(w->heap, state, "_modules", &v)) {
		st = note_class(w, name, err);
		return st ? st : walk_module(w, state, err);
	}
	if (w->u->script && !strncmp(name, CKPT_SCRIPT_CLASS, strlen(CKPT_SCRIPT_CLASS))) {
		st = note_class(w, name + strlen(CKPT_SCRIPT_CLASS), err);
		return st ? st : walk_value(w, state, err);
	}
	st = walk_value(w, args, err);
	for (int i = PICKLE_CALL_STATE; !st && i < PICKLE_CALL_ITEMS; i++)
		st = walk_value(w, walk_part(w, call, (enum pickle_call_item)i), err);
	return st;
}

/* A dict that holds itself, a module that knows its parent: nothing new is in it. */
static bool is_inside_itself(const struct walk *w, struct pickle_value v)
{
	for (unsigned i = 0; i < w->depth; i++)
		if (w->path[i] == v.bits)
			return true;
	return false;
}

enum plim_status walk_value(struct walk *w, struct pickle_value v, struct plim_err *err)
{
	struct pickle_node *node;
	enum plim_status st = PLIM_OK;

	if (!pickle_is_container(v) || v.kind == PICKLE_GLOBAL || is_inside_itself(w, v))
		return PLIM_OK;
	if (w->depth >= WALK_DEPTH || w->visits >= w->most_visits) {
		st = w->told ? PLIM_OK
			     : ckpt_model_find(
				       w->ckpt, CKPT_WARN, "too_deep", PLIM_UNKNOWN, err,
				       "the pickle nests or repeats too much: not all of it was "
				       "looked at");
		w->told = true;
		return st;
	}
	node = &w->u->heap.nodes.at[v.bits];
	if (w->only_new && node->seen)
		return PLIM_OK;
	node->seen = 1;
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
	char text[SHOWN_BYTES];
	size_t n = pickle_len(w->heap, v);

	if (show_unpickle(w, v, 0, text, sizeof(text)))
		return ckpt_model_printf(c, st, err, "%s", text);
	switch (v.kind) {
	case PICKLE_BYTES:
		return ckpt_model_printf(c, st, err, "%u bytes", w->heap->strings.at[v.bits].n);
	case PICKLE_DICT: return ckpt_model_printf(c, st, err, "dict of %zu", n / 2);
	case PICKLE_LIST: return ckpt_model_printf(c, st, err, "list of %zu", n);
	case PICKLE_TUPLE: return ckpt_model_printf(c, st, err, "tuple of %zu", n);
	case PICKLE_SET: return ckpt_model_printf(c, st, err, "set of %zu", n);
	case PICKLE_PERSID: return ckpt_model_printf(c, st, err, "storage");
	case PICKLE_CALL:
		if (walk_as_dict(w, v).kind == PICKLE_DICT)
			return ckpt_model_printf(c, st, err, "dict of %zu",
						 pickle_len(w->heap, walk_as_dict(w, v)) / 2);
		return ckpt_model_printf(
			c, st, err, "%s",
			walk_global(w, walk_part(w, v, PICKLE_CALL_CALLEE), text, sizeof(text)));
	default: return ckpt_model_printf(c, st, err, "object");
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

		st = check_key(w, key, err);
		if (!st)
			st = walk_key(w, key, i / 2, v, err);
		for (size_t t = before; t < c->tensors.n; t++)
			k.bytes += ckpt_tensor_bytes(&c->tensors.at[t]);
		k.tensors = c->tensors.n - before;
		/* A key that is one tensor itself is only a name of a weight. */
		if (st || c->keys.n >= 10000 ||
		    (k.tensors == 1 && v.kind == PICKLE_CALL &&
		     walk_as_dict(w, v).kind != PICKLE_DICT))
			continue;
		k.name = walk_str(w, key)
				 ? ckpt_model_printf(c, &st, err, "%.300s", walk_str(w, key))
				 : describe(w, key, &st, err);
		k.what = describe(w, v, &st, err);
		if (!st)
			st = vec_push(c->mem, &c->keys, k, err);
	}
	return st ? st : walk_optimizer(w, dict, first, err);
}

/* How many ranks wrote it, of which each has files of its own. */
static enum plim_status note_world(struct walk *w, struct pickle_value dict, struct plim_err *err)
{
	struct pickle_value world;
	struct ckpt_fact f;
	enum plim_status st = PLIM_OK;

	if (!pickle_get(w->heap, dict, CKPT_FACT_WORLD, &world) || world.kind != PICKLE_INT)
		return PLIM_OK;
	f.name = ckpt_model_printf(w->ckpt, &st, err, CKPT_FACT_WORLD);
	f.value = ckpt_model_printf(w->ckpt, &st, err, "%llu", (unsigned long long)world.bits);
	return st ? st : ckpt_model_fact(w->ckpt, f, err);
}

enum plim_status unpickle_walk(struct unpickle *u, struct pickle_value root, struct plim_err *err)
{
	struct walk w = { .u = u, .ckpt = u->ckpt, .heap = &u->heap, .location = CKPT_NONE };
	struct pickle_value dict = walk_as_dict(&w, root);
	size_t before;
	enum plim_status st = enter_unpickle(&w, u->prefix, strlen(u->prefix), &before, err);

	if (!st && dict.kind == PICKLE_DICT)
		st = note_world(&w, dict, err);
	if (!st && dict.kind == PICKLE_DICT)
		st = zero_note(&w, u->prefix, dict, err);
	w.most_visits = u->heap.nodes.n * REVISITS + 1000;
	if (w.most_visits > VISITS)
		w.most_visits = VISITS;
	if (!st && u->outermost && dict.kind == PICKLE_DICT) {
		w.path[w.depth++] = dict.bits;
		st = walk_outermost(&w, dict, err);
	} else if (!st) {
		st = walk_value(&w, root, err);
	}
	vec_release(u->ckpt->mem, &w.name);
	return st;
}

#define FORM_BYTES ((size_t)1 << 20)

/* Without frames, which protocols below 4 have not, a large pickle needs no second look. */
static enum plim_status check_form(const struct globals_log *log, const uint8_t *bytes, size_t from,
				   size_t to, struct plim_err *err)
{
	const char *doubt = NULL;
	size_t at = 0;

	if (to < FORM_BYTES || bytes[1] >= 4)
		doubt = opcodes_doubt(bytes + from, to - from, &at);
	/* What the other program reads, no one has looked at. */
	log->ckpt->many_globals |= doubt != NULL;
	return doubt ? ckpt_model_find(
			       log->ckpt, CKPT_BAD_FINDING, "form", from + at, err,
			       "%.200s: %s: programs differ in what they read from there on",
			       ckpt_text(log->ckpt, log->record), doubt)
		     : PLIM_OK;
}

/* Of what is read as Python does, an array of objects begins a pickle of its own. */
static enum plim_status check_forms(const struct globals_log *log, const uint8_t *bytes,
				    size_t used, struct plim_err *err)
{
	size_t from = log->bytes ? log->begin : log->first;
	enum plim_status st = PLIM_OK;

	if (!log->bytes && log->first)
		st = check_form(log, bytes, 0, log->first, err);
	return st ? st : check_form(log, bytes, from, used, err);
}

/* One reading of the pickle: with log->bytes as joblib reads it, else as Python does. */
static enum plim_status decode_once(struct unpickle *u, struct globals_log *log, const char *name,
				    const uint8_t *bytes, size_t n, struct pickle_value *root,
				    size_t *used, struct plim_err *err)
{
	struct pickle_hooks hooks = { .ctx = log, .global = globals_hook };
	struct source *src;
	enum plim_status st, settled;

	if (u->arrays)
		hooks.built = log->bytes ? arrays_skip : arrays_note;
	st = source_open_memory(u->ckpt->mem, name ? name : "a pickle", bytes, n,
				SOURCE_MEMORY_PLAIN, NULL, &src, err);
	if (st)
		return st;
	st = pickle_read(&u->heap, src, 0, &hooks, root, err);
	*used = (size_t)source_offset(src, src->p);
	source_close(src);
	settled = globals_settle(log, st ? NULL : err);
	if (!st && !settled)
		settled = check_forms(log, bytes, *used, err);
	u->ckpt->refused |= !st && !log->script && !opcodes_are_torchs(bytes, *used);
	/* A loader runs what comes before the damage, and may not see any where the machine does. */
	if (!settled && st == PLIM_E_FORMAT && !log->stopped) {
		u->ckpt->many_globals |= !err || err->offset == PLIM_UNKNOWN || err->offset < n;
		settled = globals_name(log, bytes + log->begin, n - log->begin, NULL);
	}
	return st ? st : settled;
}

/*
 * A second time, as joblib reads it.  `read`: Python reads it to an end.  Then it stays what Python reads, and what joblib
 * would read counts only for its names, except if joblib alone reads the file to its last byte: arrays of objects are whole
 * pickles, at whose end Python's unpickler stops.
 */
static enum plim_status decode_arrays(struct unpickle *u, struct globals_log *log, const char *name,
				      const uint8_t *bytes, size_t n, bool read,
				      struct pickle_value *root, size_t *used, struct plim_err *err)
{
	struct pickle_heap first = u->heap;
	struct plim_err why = { 0 };
	struct pickle_value v;
	size_t end = 0;
	enum plim_status st;

	log->bytes = bytes;
	log->n = n;
	log->stopped = false;
	pickle_heap_init(&u->heap, u->ckpt->mem);
	st = decode_once(u, log, name, bytes, n, &v, &end, &why);
	if (!read || (!st && end == n && *used < n)) {
		pickle_heap_release(&first);
		*root = v;
		*used = end;
		u->cut = st == PLIM_E_FORMAT && why.offset != PLIM_UNKNOWN && why.offset >= n;
	} else {
		pickle_heap_release(&u->heap);
		u->heap = first;
		if (st == PLIM_E_FORMAT)
			return arrays_differ(log, err);
	}
	if (st && err)
		*err = why;
	return st;
}

enum plim_status unpickle_decode(struct unpickle *u, const char *name, const uint8_t *bytes,
				 size_t n, struct pickle_value *root, size_t *used,
				 struct plim_err *err)
{
	struct globals_log log = {
		.ckpt = u->ckpt, .heap = &u->heap, .record = u->record, .script = u->script
	};
	bool many = u->ckpt->many_globals;
	enum plim_status st = PLIM_OK;

	*used = 0;
	u->ckpt->pickled = true;
	if (name)
		log.record = ckpt_model_string(u->ckpt, name, strlen(name), &st, err);
	if (!st)
		st = decode_once(u, &log, name, bytes, n, root, used, err);
	if (!log.arrays || (st && st != PLIM_E_FORMAT))
		return st;
	if (st) /* at an array's numbers, where every unpickler of Python fails */
		u->ckpt->many_globals = many;
	return decode_arrays(u, &log, name, bytes, n, !st, root, used, err);
}
