/*
 * JSON of every shape that trainers write: a trainer_state.json, JSON lines, an array of rows, one
 * object of arrays (a Keras history).  An object of numbers is a row; objects inside of it are
 * flattened ("train/loss"); arrays of objects are rows, arrays of numbers are series.
 *
 * A line that is not JSON is skipped; one that ends with the file is being written.
 */
#include "parts.h"

#include <stdio.h>

#define NESTING 4
#define PREFIX 256
#define LIST_MOST 16 /* numbers of a list in a row */

struct reading {
	struct series_input *in;
	struct series_lists held;
	struct series_lists deep; /* of objects within the document, if it is the only one */
	struct json json;
	char prefix[PREFIX];
	size_t prefix_n;
	unsigned depth;
	bool lines;    /* an object or a number came before: arrays of numbers are not series */
	bool document; /* rows stand inside of this object: it is not one itself */
	bool later;    /* an object came before */
	bool row;      /* within a row, whose names begin behind those of its array: */
	size_t titled;
	bool named;                      /* an array of rows came before, behind the key: */
	char key[PREFIX], title[PREFIX]; /* the title is that of the array that is being read */
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
	bool within = g->row;
	enum plim_status st;

	g->prefix_n = r->titled && !within ? before : 0;
	g->titled = g->prefix_n ? before + 1 : 0;
	g->row = true;
	r->splits = false; /* rows of one document */
	series_row_begin(r);
	st = object(g, err);
	g->prefix_n = before;
	g->row = within;
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

/* Rows of another array are of another phase, or side, if those before had values, too. */
static void end_rows(struct reading *g)
{
	g->in->run->titles |= g->named && strcmp(g->key, g->title) != 0;
	g->named = true;
	memcpy(g->key, g->title, sizeof(g->key));
}

/* {"history": {"loss": [0.9, 0.8]}}: of a name that is known, or says the side; a line of many may hold any list. */
static bool is_deep_series(const struct reading *g)
{
	struct series_name says = series_name_of(g->prefix, g->prefix_n);

	return g->depth > 1 && !g->row && !g->later &&
	       (says.role != PLIM_ROLE_OTHER || (says.unknown && says.side));
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

/* "finetune/epoch" is an epoch. */
static enum plim_status put_member(struct reading *g, double number, struct plim_err *err)
{
	size_t from = g->row && g->titled < g->prefix_n ? g->titled : 0, n = g->prefix_n - from;
	const char *name = g->prefix + from;

	if (from && !series_is_step(name, n) && !series_is_epoch(name, n) &&
	    !series_is_time(name, n))
		return series_row_put(g->in->run, g->prefix, g->prefix_n, number, err);
	return series_row_put(g->in->run, name, n, number, err);
}

/* A number of a list, the `at`th, that is not its only one: of a series, or of a row. */
static enum plim_status list_number(struct reading *g, struct series_lists *held, bool row,
				    unsigned at, double number, struct plim_err *err)
{
	struct series_run *r = g->in->run;
	uint32_t series = SERIES_NONE;
	enum plim_status st = row ? element(g, at - 1, number, err) : PLIM_OK;

	if (st || (row && g->later))
		return st;
	if (!g->prefix_n)
		r->single++;
	else if (g->depth == 1 || r->column || is_deep_series(g))
		st = series_run_series(r, g->prefix, g->prefix_n, &series, err);
	return st || series == SERIES_NONE ? st : series_hold(r, held, series, at, number, err);
}

/* An array behind a key: rows, or one series; a list of one number in an object is that number. */
static enum plim_status array(struct reading *g, struct plim_err *err)
{
	struct series_run *r = g->in->run;
	bool row = g->lines && g->depth == 1, begun = false;
	uint64_t rows = r->rows;
	struct series_lists *held = g->depth > 1 || row ? &g->deep : &g->held;
	size_t row_n = r->row.n, held_n = held->held.n;
	struct json_token t;
	double number, first = NAN;
	unsigned list = 0;
	enum plim_status st = json_next(&g->json, &t, err);

	for (; !st && t.kind != JSON_ARRAY_END; st = st ? st : json_next(&g->json, &t, err)) {
		if (t.kind == JSON_OBJECT) {
			g->document = true;
			if (!begun && !g->row) {
				memcpy(g->title, g->prefix, g->prefix_n + 1);
				if (r->titled)
					series_row_restart(r);
			}
			begun = true;
			st = json_row(g, err);
		} else if (t.kind == JSON_ARRAY) {
			st = json_skip(&g->json, &t, err);
		} else if (json_number_of(&t, &number)) {
			if (++list == 1 && g->prefix_n) {
				first = number;
				continue;
			}
			if (list == 2 && g->prefix_n)
				st = list_number(g, held, row, 1, first, err);
			st = st ? st : list_number(g, held, row, list, number, err);
		}
	}
	if (begun && !g->row && r->rows > rows)
		end_rows(g);
	if (!st && list == 1 && g->prefix_n)
		return put_member(g, first, err);
	/* Too long for a part of a row: "best": 0.3, "losses": [0.9, 0.8 ...] of the only document. */
	if (list > LIST_MOST && !g->later)
		r->row.n = row_n;
	else if (row)
		held->held.n = held_n;
	return st;
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
	if (t->kind == JSON_STRING)
		series_row_says(g->in->run, key, strlen(key), t->string, t->n);
	st = take_fact(g, key, strlen(key), t, err);
	if (!st && json_number_of(t, &number)) {
		g->lines |= g->depth == 1;
		st = put_member(g, number, err);
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
		g->prefix[0] = 0;
		g->depth = 2; /* numbers in it are a series only if the file says of what */
		if (g->in->run->column)
			enter_json(g, g->in->run->column, strlen(g->in->run->column), &before);
		st = array(g, err);
		return st ? st : series_give_held(g->in->run, &g->deep, err);
	}
	if (t->kind != JSON_OBJECT)
		return st;
	g->deep.held.n = 0;
	series_row_begin(g->in->run);
	g->in->run->splits = true;
	st = object(g, err);
	g->lines = g->later = true;
	if (!st || st == PLIM_E_FORMAT) { /* what came before the damage counts */
		enum plim_status gave = series_give_held(g->in->run, &g->held, err);

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
	struct reading g = { .in = in, .later = in->file->offset > 0 };
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
			break;
		}
		st = json_init(&g.json, in->run->mem, s, JSON_MANY, err);
	}
	json_release(&g.json);
	if (!st)
		st = series_give_held(in->run, &g.deep, err);
	vec_release(in->run->mem, &g.held.held);
	vec_release(in->run->mem, &g.deep.held);
	return st;
}
