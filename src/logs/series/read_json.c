/*
 * JSON of every shape that trainers write: a trainer_state.json, JSON lines, an array of rows, one
 * object of arrays (a Keras history).  An object of numbers is a row; objects inside of it are
 * flattened ("train/loss"); arrays of objects are rows, arrays of numbers are series.
 *
 * A line that is not JSON is skipped; one that ends with the file is being written.
 */
#include "parts.h"

#include <stdio.h>
#include <stdlib.h>

#define NESTING 4
#define HELD_MOST (1u << 18) /* numbers of arrays that wait for their document's end */
#define PREFIX 256
#define LIST_MOST 16 /* numbers of a list in a row */

/* A number of an array of an object: arrays stand one after the other, but their values belong together. */
struct held {
	double at, value;
	uint32_t series, order;
};

struct reading {
	struct series_input *in;
	VEC(struct held) held;
	struct json json;
	char prefix[PREFIX];
	size_t prefix_n;
	unsigned depth;
	bool lines;    /* an object or a number came before: arrays of numbers are not series */
	bool document; /* rows stand inside of this object: it is none itself */
};

/* Members of a state that are not a row. */
static enum plim_status take_fact(struct reading *g, const char *key, size_t n,
				  const struct json_token *t, struct plim_err *err)
{
#define FACT(name, member)                                                  \
	{                                                                   \
		name, sizeof(name) - 1, offsetof(struct series_run, member) \
	}
	static const struct {
		const char *key;
		size_t n, offset;
	} numbers[] = { FACT("best_metric", best_metric), FACT("best_global_step", best_step),
			FACT("max_steps", total_steps), FACT("train_runtime", runtime) };
#undef FACT
	struct series_run *r = g->in->run;
	uint32_t id;
	enum plim_status st;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (n == numbers[i].n && !memcmp(key, numbers[i].key, n) &&
		    (t->kind == JSON_INTEGER || t->kind == JSON_DOUBLE))
			memcpy((char *)r + numbers[i].offset, &t->number, sizeof(double));
	if (t->kind != JSON_STRING || strcmp(key, "best_model_checkpoint") != 0)
		return PLIM_OK;
	st = intern_add(&r->texts, t->string, t->n, &id, err);
	r->best_checkpoint = st ? NULL : intern_text(&r->texts, id);
	return st;
}

/* Push a key on the prefix; false: it is too long to be one. */
static bool enter_json(struct reading *g, const char *key, size_t n, size_t *before)
{
	*before = g->prefix_n;
	if (g->prefix_n + n + 2 > PREFIX)
		return false;
	if (g->prefix_n)
		g->prefix[g->prefix_n++] = '/';
	memcpy(g->prefix + g->prefix_n, key, n);
	g->prefix_n += n;
	g->prefix[g->prefix_n] = 0;
	return true;
}

static enum plim_status object(struct reading *g, struct plim_err *err);

static enum plim_status json_row(struct reading *g, struct plim_err *err)
{
	struct series_run *r = g->in->run;
	size_t before = g->prefix_n;
	double runtime = r->runtime;
	enum plim_status st;

	g->prefix_n = 0;
	r->splits = false; /* rows of one document */
	series_row_begin(r);
	st = object(g, err);
	g->prefix_n = before;
	/* The last row of a Trainer is a summary of the run. */
	if (!st && r->runtime != runtime && !isnan(r->runtime)) {
		r->ended = true;
		r->row.n = 0;
		return PLIM_OK;
	}
	return st ? st : series_row_end(r, err);
}

/* One of the numbers of a list in a row: "bbox/0". */
static enum plim_status element(struct reading *g, unsigned at, double number, struct plim_err *err)
{
	char name[8];
	size_t before;
	enum plim_status st = PLIM_OK;
	int n = snprintf(name, sizeof(name), "%u", at);

	if (at < LIST_MOST && enter_json(g, name, (size_t)n, &before)) {
		st = series_row_put(g->in->run, g->prefix, g->prefix_n, number, err);
		g->prefix_n = before;
	}
	return st;
}

static int json_by_place(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at ? 1 : -1) : x->order > y->order ? 1 : -1;
}

/* The first values of all arrays, then the second ones. */
static enum plim_status give_held(struct reading *g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (g->held.n)
		qsort(g->held.at, g->held.n, sizeof(*g->held.at), json_by_place);
	for (size_t i = 0; !st && i < g->held.n; i++)
		st = series_run_point(g->in->run, g->held.at[i].series, g->held.at[i].at, NAN,
				      g->held.at[i].value, err);
	g->held.n = 0;
	return st;
}

static enum plim_status hold(struct reading *g, uint32_t series, double at, double value,
			     struct plim_err *err)
{
	struct held one = { at, value, series, (uint32_t)g->held.n };

	if (g->held.n < HELD_MOST)
		return vec_push(g->in->run->mem, &g->held, one, err);
	return series_run_point(g->in->run, series, at, NAN, value, err);
}

/* An array behind a key: rows, or one series. */
static enum plim_status array(struct reading *g, struct plim_err *err)
{
	struct series_run *r = g->in->run;
	struct json_token t;
	uint32_t series = SERIES_NONE;
	double at = 0;
	unsigned list = 0;
	enum plim_status st = json_next(&g->json, &t, err);

	for (; !st && t.kind != JSON_ARRAY_END; st = st ? st : json_next(&g->json, &t, err)) {
		if (t.kind == JSON_OBJECT) {
			g->document = true;
			st = json_row(g, err);
		} else if (t.kind == JSON_ARRAY) {
			st = json_skip(&g->json, &t, err);
		} else if (t.kind == JSON_INTEGER || t.kind == JSON_DOUBLE) {
			if (g->lines && g->depth == 1)
				st = element(g, list++, t.number, err);
			else if (!g->prefix_n)
				r->single++;
			else if (series == SERIES_NONE && (g->depth == 1 || r->column))
				st = series_run_series(r, g->prefix, g->prefix_n, &series, err);
			if (!st && series != SERIES_NONE)
				st = hold(g, series, ++at, t.number, err);
		}
	}
	return st;
}

/* Numbers are also written as text ('2.31', transformers 5). */
static bool json_number_of(const struct json_token *t, double *out)
{
	if (t->kind == JSON_INTEGER || t->kind == JSON_DOUBLE) {
		*out = t->number;
		return true;
	}
	return t->kind == JSON_STRING && t->n && series_number(t->string, t->n, out) == t->n;
}

static enum plim_status member(struct reading *g, size_t before, const struct json_token *t,
			       struct plim_err *err)
{
	const char *key = g->prefix + before + (before > 0);
	double number;
	enum plim_status st = PLIM_OK;

	if (t->kind == JSON_ARRAY)
		return array(g, err);
	if (t->kind == JSON_OBJECT && g->depth < NESTING && strcmp(key, "stateful_callbacks") &&
	    strcmp(key, "trial_params") && strcmp(key, "config"))
		return object(g, err);
	if (t->kind == JSON_OBJECT)
		return json_skip(&g->json, t, err);
	st = take_fact(g, key, (size_t)(g->prefix + g->prefix_n - key), t, err);
	if (!st && json_number_of(t, &number)) {
		g->lines |= g->depth == 1;
		st = series_row_put(g->in->run, g->prefix, g->prefix_n, number, err);
	}
	return st;
}

/* Behind its opening brace. */
static enum plim_status object(struct reading *g, struct plim_err *err)
{
	struct json_token t;
	size_t before;
	enum plim_status st = json_next(&g->json, &t, err);

	g->depth++;
	for (; !st && t.kind != JSON_OBJECT_END; st = st ? st : json_next(&g->json, &t, err)) {
		if (!strcmp(t.string, "log_history"))
			g->in->file->kind = g->in->run->kind = SERIES_KIND_TRAINER_STATE;
		if (!enter_json(g, t.string, t.n, &before)) {
			st = json_skip(&g->json, &t, err);
			continue;
		}
		st = json_next(&g->json, &t, err);
		if (!st)
			st = member(g, before, &t, err);
		g->prefix_n = before;
	}
	g->depth--;
	return st;
}

static enum plim_status value(struct reading *g, const struct json_token *t, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t before;

	g->prefix_n = g->depth = 0;
	g->document = false;
	if (t->kind == JSON_ARRAY) {
		g->depth = 2; /* numbers in it are a series only if the file says of what */
		if (g->in->run->column)
			enter_json(g, g->in->run->column, strlen(g->in->run->column), &before);
		st = array(g, err);
		return st ? st : give_held(g, err);
	}
	if (t->kind != JSON_OBJECT)
		return st;
	series_row_begin(g->in->run);
	g->in->run->splits = true;
	st = object(g, err);
	g->lines = true;
	if (!st || st == PLIM_E_FORMAT) { /* what came before the damage counts */
		enum plim_status gave = give_held(g, err);

		st = gave ? gave : st;
	}
	if (!st && g->document)
		g->in->run->row.n = 0;
	return st ? st : series_row_end(g->in->run, err);
}

/* Behind a line that is not JSON: its end; false: the input ends before. */
static bool next_line(struct source *s, const uint8_t **p, enum plim_status *st,
		      struct plim_err *err)
{
	for (;;) {
		const uint8_t *end = memchr(*p, '\n', (size_t)(s->end - *p));

		if (end) {
			*p = end + 1;
			return true;
		}
		*st = source_need(s, s->end, 1, err);
		*p = s->p;
		if (*st || s->p == s->end)
			return false;
	}
}

enum plim_status series_read_json(struct series_input *in, struct plim_err *err)
{
	struct source *s = in->source;
	struct reading g = { .in = in };
	struct plim_err why;
	struct json_token t;
	enum plim_status st = json_init(&g.json, in->run->mem, s, JSON_MANY, err);

	while (!st) {
		const uint8_t *p;

		st = json_next(&g.json, &t, &why);
		if (!st && t.kind == JSON_END)
			break;
		if (!st)
			st = value(&g, &t, &why);
		if (!st && in->run->over)
			break; /* the offset stays before the line */
		if (!st) {
			in->file->offset = source_offset(s, g.json.p);
			continue;
		}
		if (st != PLIM_E_FORMAT) {
			if (err)
				*err = why;
			break;
		}
		p = g.json.p;
		in->run->row.n = 0;
		json_release(&g.json);
		st = PLIM_OK;
		if (next_line(s, &p, &st, err)) {
			series_bad_record(in->run, why.offset);
			s->p = p;
			in->file->offset = source_offset(s, p);
		} else {
			in->run->torn = true;
			vec_release(in->run->mem, &g.held);
			return st;
		}
		st = json_init(&g.json, in->run->mem, s, JSON_MANY, err);
	}
	json_release(&g.json);
	vec_release(in->run->mem, &g.held);
	return st;
}
