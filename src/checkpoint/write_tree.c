/*
 * A value that is written as JSON becomes a pickle that torch.load(weights_only=True) reads: what the optimizer of a job
 * gives, say, with names in the place of its tensors.
 */
#include "write_pickle.h"

#include <string.h>

struct tree {
	struct json json;
	struct text *out;
	torch_find_fn *find;
	void *ctx;
};

static enum plim_status put_value(struct tree *w, const struct json_token *t, struct plim_err *err);

static enum plim_status put_next(struct tree *w, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&w->json, &t, err);

	return st ? st : put_value(w, &t, err);
}

/* The next token, which is to be of that kind. */
static enum plim_status expect(struct tree *w, enum json_kind kind, struct json_token *t,
			       struct plim_err *err)
{
	enum plim_status st = json_next(&w->json, t, err);

	return st || t->kind == kind ? st
				     : err_set(err, PLIM_E_ARG,
					       "byte %llu of the tree: another value is expected",
					       (unsigned long long)t->offset);
}

/* Values until the array ends: `each` a pair of key and value, or one. */
static enum plim_status put_items(struct tree *w, bool pairs, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&w->json, &t, err);

	while (!st && t.kind != JSON_ARRAY_END) {
		if (pairs && t.kind != JSON_ARRAY)
			return err_set(err, PLIM_E_ARG, "$items of the tree are pairs");
		st = pairs ? put_next(w, err) : put_value(w, &t, err);
		if (!st && pairs)
			st = put_next(w, err);
		if (!st && pairs)
			st = expect(w, JSON_ARRAY_END, &t, err);
		if (!st)
			st = json_next(&w->json, &t, err);
	}
	return st;
}

/* ---- what an object of one member with such a key is ---- */

typedef enum plim_status special_fn(struct tree *w, struct plim_err *err);

static enum plim_status put_tensor(struct tree *w, struct plim_err *err)
{
	struct torch_tensor tensor;
	struct json_token t;
	enum plim_status st = expect(w, JSON_STRING, &t, err);

	if (!st && !w->find(w->ctx, t.string, &tensor))
		st = err_set(err, PLIM_E_ARG, "the tree names a tensor '%.200s' that is not there",
			     t.string);
	if (!st)
		torch_pickle_tensor(w->out, &tensor);
	return st;
}

static enum plim_status put_between(struct tree *w, const char *begin, bool pairs, const char *end,
				    struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = expect(w, JSON_ARRAY, &t, err);

	text_puts(w->out, begin);
	if (!st)
		st = put_items(w, pairs, err);
	text_puts(w->out, end);
	return st;
}

/* weights_only has no sets. */
static enum plim_status put_list(struct tree *w, struct plim_err *err)
{
	return put_between(w, "](", false, "e", err);
}

static enum plim_status put_tuple(struct tree *w, struct plim_err *err)
{
	return put_between(w, "(", false, "t", err);
}

static enum plim_status put_pairs(struct tree *w, struct plim_err *err)
{
	return put_between(w, "}(", true, "u", err);
}

static void put_double(struct text *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	text_puts(out, "G"); /* the only number that pickles write big-endian */
	ckpt_pickle_put_le(out, __builtin_bswap64(bits), 8);
}

static enum plim_status put_odd_float(struct tree *w, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = expect(w, JSON_STRING, &t, err);

	if (st)
		return st;
	if (strcmp(t.string, "nan") != 0 && strcmp(t.string, "inf") != 0 &&
	    strcmp(t.string, "-inf") != 0)
		return err_set(err, PLIM_E_ARG, "'%.40s' is not a $float", t.string);
	put_double(w->out, *t.string == 'n'   ? __builtin_nan("")
			   : *t.string == '-' ? -__builtin_inf()
					      : __builtin_inf());
	return PLIM_OK;
}

/* A dtype is a name of torch's; anything else is a device. */
static enum plim_status put_torch(struct tree *w, struct plim_err *err)
{
	static const char prefix[] = "torch.";
	struct json_token t;
	enum plim_status st = expect(w, JSON_STRING, &t, err);

	if (st)
		return st;
	if (!strncmp(t.string, prefix, sizeof(prefix) - 1) &&
	    ckpt_dtype_of_torch(t.string + sizeof(prefix) - 1)) {
		text_printf(w->out, "ctorch\n%s\n", t.string + sizeof(prefix) - 1);
		return PLIM_OK;
	}
	text_puts(w->out, "ctorch\ndevice\n(");
	ckpt_pickle_put_string(w->out, t.string, t.n);
	text_puts(w->out, "tR");
	return PLIM_OK;
}

static enum plim_status put_bytes(struct tree *w, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = expect(w, JSON_STRING, &t, err);

	if (st)
		return st;
	text_puts(w->out, "c_codecs\nencode\n(");
	ckpt_pickle_put_string(w->out, t.string, t.n);
	ckpt_pickle_put_string(w->out, "latin1", 6);
	text_puts(w->out, "tR");
	return PLIM_OK;
}

static const struct {
	const char *key;
	special_fn *put;
} specials[] = {
	{ "$set", put_list },    { "$ndarray", put_next }, { "$tensor", put_tensor },
	{ "$tuple", put_tuple }, { "$items", put_pairs },  { "$float", put_odd_float },
	{ "$torch", put_torch }, { "$latin1", put_bytes },
};

static enum plim_status put_special(struct tree *w, const char *key, struct plim_err *err)
{
	for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++)
		if (!strcmp(key, specials[i].key)) {
			struct json_token t;
			enum plim_status st = specials[i].put(w, err);

			return st ? st : expect(w, JSON_OBJECT_END, &t, err);
		}
	return err_set(err, PLIM_E_ARG, "'%.40s' is not a kind of value of a tree", key);
}

/* ---- values ---- */

static enum plim_status put_object(struct tree *w, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&w->json, &t, err);

	if (!st && t.kind == JSON_KEY && *t.string == '$')
		return put_special(w, t.string, err);
	text_puts(w->out, "}(");
	while (!st && t.kind == JSON_KEY) {
		ckpt_pickle_put_string(w->out, t.string, t.n);
		st = put_next(w, err);
		if (!st)
			st = json_next(&w->json, &t, err);
	}
	text_puts(w->out, "u");
	return st;
}

static enum plim_status put_integer(struct tree *w, const struct json_token *t,
				    struct plim_err *err)
{
	int64_t value;

	if (!json_get_i64(t, &value))
		return err_set(err, PLIM_E_ARG, "a tree's number is beyond 64 bits");
	ckpt_pickle_put_int(w->out, value);
	return PLIM_OK;
}

static enum plim_status put_value(struct tree *w, const struct json_token *t, struct plim_err *err)
{
	enum plim_status st;

	switch (t->kind) {
	case JSON_OBJECT: return put_object(w, err);
	case JSON_ARRAY:
		text_puts(w->out, "](");
		st = put_items(w, false, err);
		text_puts(w->out, "e");
		return st;
	case JSON_STRING: ckpt_pickle_put_string(w->out, t->string, t->n); return PLIM_OK;
	case JSON_INTEGER: return put_integer(w, t, err);
	case JSON_DOUBLE: put_double(w->out, t->number); return PLIM_OK;
	case JSON_TRUE: text_puts(w->out, "\x88"); return PLIM_OK;
	case JSON_FALSE: text_puts(w->out, "\x89"); return PLIM_OK;
	case JSON_NULL: text_puts(w->out, "N"); return PLIM_OK;
	default: return err_set(err, PLIM_E_ARG, "the tree is not a value");
	}
}

enum plim_status torch_pickle_tree(struct mem *m, struct text *out, const void *json, size_t n,
				   torch_find_fn *find, void *ctx, struct plim_err *err)
{
	struct tree w = { .out = out, .find = find, .ctx = ctx };
	struct source *source;
	struct json_token t;
	enum plim_status st =
		source_open_memory(m, "the tree", json, n, SOURCE_MEMORY_PLAIN, NULL, &source, err);

	if (st)
		return st;
	st = json_init(&w.json, m, source, JSON_ONE, err);
	if (!st) {
		text_puts(out, "\x80\x02");
		st = put_next(&w, err);
		if (!st)
			st = expect(&w, JSON_END, &t, err);
		if (!st)
			st = text_status(out, err);
		json_release(&w.json);
	}
	source_close(source);
	return st;
}
