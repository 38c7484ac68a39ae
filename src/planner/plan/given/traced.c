/*
 * A trace of any module (schema trace/1, docs/trace.md): requests that PyTorch itself made on fake tensors, read into the
 * same plan that a model's tables would give.
 */
#include "plan/plan.h"

#include "timeline/timeline.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EVENTS_MOST ((size_t)64 << 20)
#define PHASES_MOST 100000u
#define REQUEST_MOST ((uint64_t)1 << 46)
#define BATCH_MOST ((uint64_t)1 << 20)
#define TEXTS_MOST ((size_t)1 << 22)

struct reading {
	struct plan_traced *t;
	struct plan *plan;
	const char *path;
	struct json json;
	VEC(uint8_t) ended;  /* by request */
	uint32_t phase_ends; /* ends of phases among the events */
	struct plim_err *err;
};

static enum plim_status broken(const struct reading *r, const char *what)
{
	return err_set(r->err, PLIM_E_FORMAT, "'%.200s': %s; it is not a trace of plan --trace",
		       r->path, what);
}

static enum plim_status traced_next(struct reading *r, struct json_token *t)
{
	return json_next(&r->json, t, r->err);
}

/* ---- columns ---- */

static enum plim_status add_request(struct reading *r, uint64_t bytes)
{
	struct program *p = r->plan->program;
	struct program_request request = { .bytes = bytes };
	struct program_op op = { (uint32_t)p->requests.n, TRACE_NONE, PROGRAM_ALLOC };
	enum plim_status st;

	if (bytes > REQUEST_MOST)
		return broken(r, "a request is larger than any memory");
	st = vec_push(r->plan->mem, &p->requests, request, r->err);
	if (!st)
		st = vec_push(r->plan->mem, &p->ops, op, r->err);
	return st ? st : vec_push(r->plan->mem, &r->ended, (uint8_t)0, r->err);
}

static enum plim_status end_request(struct reading *r, uint64_t number)
{
	struct program *p = r->plan->program;
	struct program_op op = { (uint32_t)(number - 1), TRACE_NONE, PROGRAM_FREE_DONE };

	if (number > r->ended.n || r->ended.at[number - 1])
		return broken(r, "an event ends a request that does not live");
	r->ended.at[number - 1] = 1;
	return vec_push(r->plan->mem, &p->ops, op, r->err);
}

static enum plim_status end_phase(struct reading *r)
{
	struct program_op op = { r->phase_ends++, TRACE_NONE, PROGRAM_PHASE };
	struct plan_phase phase = { .end = (uint32_t)r->plan->program->ops.n };
	enum plim_status st = vec_push(r->plan->mem, &r->plan->program->ops, op, r->err);

	if (r->phase_ends > PHASES_MOST)
		return broken(r, "it has more phases than any run");
	return st ? st : vec_push(r->plan->mem, &r->plan->phases, phase, r->err);
}

static enum plim_status read_events(struct reading *r)
{
	struct json_token t;
	enum plim_status st = traced_next(r, &t);

	if (!st && t.kind != JSON_ARRAY)
		return broken(r, "its events are not a list");
	while (!st) {
		st = traced_next(r, &t);
		if (st || t.kind == JSON_ARRAY_END)
			return st;
		if (t.kind != JSON_INTEGER || t.big)
			return broken(r, "an event is not a whole number");
		if (r->plan->program->ops.n >= EVENTS_MOST)
			return err_set(r->err, PLIM_E_LIMIT, "'%.200s' has more than %zu events",
				       r->path, EVENTS_MOST);
		st = !t.magnitude ? end_phase(r)
		     : t.negative ? end_request(r, t.magnitude)
				  : add_request(r, t.magnitude);
	}
	return st;
}

/* A list of numbers, each at most `most`: into one of the columns, the other is NULL. */
static enum plim_status read_column(struct reading *r, uint64_t most, struct plan_numbers *small,
				    struct plan_sizes *sizes)
{
	size_t n = small ? small->n : sizes->n;
	struct json_token t;
	enum plim_status st = traced_next(r, &t);

	if (!st && t.kind != JSON_ARRAY)
		return broken(r, "a column is not a list");
	for (; !st; n++) {
		st = traced_next(r, &t);
		if (st || t.kind == JSON_ARRAY_END)
			return st;
		if (t.kind != JSON_INTEGER || t.negative || t.big || t.magnitude > most ||
		    n >= EVENTS_MOST)
			return broken(
				r, small ? "a column holds a value that is not a small number"
					 : "a column holds a value that is not a number of bytes");
		st = small ? vec_push(r->t->mem, small, (uint32_t)t.magnitude, r->err)
			   : vec_push(r->t->mem, sizes, t.magnitude, r->err);
	}
	return st;
}

/* Texts of a file are reported with what does not print as '?'. */
static const char *keep_text(struct reading *r, const struct json_token *t)
{
	char clean[MODEL_NAME_BYTES];
	size_t n = t->n < sizeof(clean) - 1 ? t->n : sizeof(clean) - 1;

	for (size_t i = 0; i < n; i++)
		clean[i] = (unsigned char)t->string[i] < 0x20 || t->string[i] == 0x7f
				   ? '?'
				   : t->string[i];
	clean[n] = 0;
	return arena_text(r->t->arena, r->err, "%s", clean);
}

static enum plim_status read_texts(struct reading *r, struct plan_texts *out)
{
	struct json_token t;
	enum plim_status st = traced_next(r, &t);

	if (!st && t.kind != JSON_ARRAY)
		return broken(r, "its names are not a list");
	while (!st) {
		const char *text;

		st = traced_next(r, &t);
		if (st || t.kind == JSON_ARRAY_END)
			return st;
		if (t.kind != JSON_STRING || out->n >= TEXTS_MOST)
			return broken(r, "a name is not text");
		text = keep_text(r, &t);
		st = text ? vec_push(r->t->mem, out, text, r->err) : mem_status(r->err);
	}
	return st;
}

/* ---- the object ---- */

static const struct {
	const char *key;
	enum { TEXT, NUMBER, TEXTS, NUMBERS, SIZES } kind;
	size_t offset; /* in struct plan_traced */
} keys[] = {
	{ "model", TEXT, offsetof(struct plan_traced, model) },
	{ "task", TEXT, offsetof(struct plan_traced, task) },
	{ "torch", TEXT, offsetof(struct plan_traced, torch) },
	{ "transformers", TEXT, offsetof(struct plan_traced, transformers) },
	{ "way", TEXT, offsetof(struct plan_traced, way) },
	{ "recipe", TEXT, offsetof(struct plan_traced, recipe) },
	{ "parameters", NUMBER, offsetof(struct plan_traced, parameters) },
	{ "trainable", NUMBER, offsetof(struct plan_traced, trainable) },
	{ "batch", NUMBER, offsetof(struct plan_traced, batch) },
	{ "sequence", NUMBER, offsetof(struct plan_traced, sequence) },
	{ "grown_batch", NUMBER, offsetof(struct plan_traced, grown_batch) },
	{ "grown", SIZES, offsetof(struct plan_traced, grown) },
	{ "positions", NUMBER, offsetof(struct plan_traced, positions) },
	{ "sequences", NUMBERS, offsetof(struct plan_traced, sequences) },
	{ "longer", SIZES, offsetof(struct plan_traced, longer) },
	{ "longest", SIZES, offsetof(struct plan_traced, longest) },
	{ "unknown_bytes", NUMBER, offsetof(struct plan_traced, unknown_bytes) },
	{ "phases", TEXTS, offsetof(struct plan_traced, phases) },
	{ "places", TEXTS, offsetof(struct plan_traced, places) },
	{ "operators", TEXTS, offsetof(struct plan_traced, operators) },
	{ "assumed", TEXTS, offsetof(struct plan_traced, assumed) },
	{ "unsure", TEXTS, offsetof(struct plan_traced, unsure) },
	{ "asked", TEXTS, offsetof(struct plan_traced, asked) },
	{ "place", NUMBERS, offsetof(struct plan_traced, place) },
	{ "operator", NUMBERS, offsetof(struct plan_traced, operator) },
	{ "category", NUMBERS, offsetof(struct plan_traced, category) },
};
#define KEYS (sizeof(keys) / sizeof(keys[0]))

static enum plim_status read_traced_member(struct reading *r, size_t i)
{
	void *at = (char *)r->t + keys[i].offset;
	struct json_token t;
	enum plim_status st;

	if (keys[i].kind == TEXTS)
		return read_texts(r, at);
	if (keys[i].kind == NUMBERS)
		return read_column(r, UINT32_MAX, at, NULL);
	if (keys[i].kind == SIZES)
		return read_column(r, REQUEST_MOST, NULL, at);
	st = traced_next(r, &t);
	if (st)
		return st;
	if (t.kind != (keys[i].kind == TEXT ? JSON_STRING : JSON_INTEGER) || t.negative || t.big)
		return broken(r, "a value is of another kind");
	if (keys[i].kind == NUMBER) {
		*(uint64_t *)at = t.magnitude;
		return PLIM_OK;
	}
	*(const char **)at = keep_text(r, &t);
	return *(const char **)at ? PLIM_OK : mem_status(r->err);
}

static enum plim_status read_traced_object(struct reading *r)
{
	struct json_token t;
	enum plim_status st = traced_next(r, &t);
	bool versioned = false;

	while (!st) {
		size_t i = 0;

		st = traced_next(r, &t);
		if (st || t.kind == JSON_OBJECT_END)
			break;
		if (json_is(&t, "schema")) {
			st = traced_next(r, &t);
			versioned = !st && t.kind == JSON_STRING && json_is(&t, PLAN_TRACE_SCHEMA);
			continue;
		}
		if (json_is(&t, "events")) {
			st = read_events(r);
			continue;
		}
		while (i < KEYS && !json_is(&t, keys[i].key))
			i++;
		st = i < KEYS ? read_traced_member(r, i) : json_skip(&r->json, &t, r->err);
	}
	if (!st)
		st = traced_next(r, &t); /* nothing may follow */
	return st || versioned ? st : broken(r, "its schema is not " PLAN_TRACE_SCHEMA);
}

/* ---- what was read becomes a plan ---- */

/* Either nothing is said of other sequences, or all of two. */
static bool is_lengthened(const struct plan_traced *t, size_t n)
{
	const uint32_t *s = t->sequences.at;

	if (!t->sequences.n)
		return !t->longer.n && !t->longest.n;
	return t->sequences.n == 2 && s[0] && s[1] && s[0] != s[1] && t->sequence &&
	       t->sequence <= UINT32_MAX && s[0] != t->sequence && s[1] != t->sequence &&
	       t->longer.n == n && t->longest.n == n;
}

static enum plim_status check_columns(struct reading *r)
{
	const struct plan_traced *t = r->t;
	size_t n = r->plan->program->requests.n;

	if (!n || t->phases.n != r->phase_ends || !r->phase_ends)
		return broken(r, "its phases and events do not meet");
	if (t->place.n != n || t->operator.n != n || t->category.n != n)
		return broken(r, "its columns are not as long as its requests");
	if (t->grown_batch ? t->grown.n != n || t->grown_batch == t->batch || !t->batch ||
				     t->grown_batch > BATCH_MOST || t->batch > BATCH_MOST
			   : t->grown.n)
		return broken(r, "its values for another batch do not match its requests");
	if (!is_lengthened(t, n))
		return broken(r, "its values for other sequences do not match its requests");
	for (size_t i = 0; i < n; i++)
		if (t->place.at[i] >= t->places.n || t->operator.at[i] >= t->operators.n ||
						     t->category.at[i] >= TIMELINE_CATEGORIES)
			return broken(r, "a request's place, operator or category is none");
	return PLIM_OK;
}

static enum plim_status finish_traced(struct reading *r)
{
	struct plan *plan = r->plan;
	size_t n = plan->program->requests.n;
	enum plim_status st = check_columns(r);

	if (st)
		return st;
	plan->categories = mem_new(plan->mem, n, 1, r->err);
	if (!plan->categories)
		return mem_status(r->err);
	plan->category_room = n;
	for (uint32_t i = 0; i < n; i++) {
		plan->categories[i] = (uint8_t)r->t->category.at[i];
		plan->program->requests.at[i].stack = i;
	}
	for (size_t i = 0; i < plan->phases.n; i++)
		snprintf(plan->phases.at[i].name, sizeof(plan->phases.at[i].name), "%.11s",
			 r->t->phases.at[i]);
	CHECKED(program_check(plan->program));
	return PLIM_OK;
}

enum plim_status plan_read_traced(struct plan_traced *t, const char *path, struct source *s,
				  struct plan **out, struct plim_err *err)
{
	struct reading r = { .t = t, .path = path, .err = err };
	struct plan *plan = mem_new(t->mem, 1, sizeof(*plan), err);
	enum plim_status st;

	*out = NULL;
	t->model = t->task = t->torch = t->transformers = t->way = t->recipe = "";
	if (!plan)
		return mem_status(err);
	plan->mem = t->mem;
	r.plan = plan;
	st = program_new(t->mem, &plan->program, err);
	if (!st)
		st = json_init(&r.json, t->mem, s, JSON_ONE, err);
	if (!st) {
		st = read_traced_object(&r);
		json_release(&r.json);
	}
	if (!st)
		st = finish_traced(&r);
	vec_release(t->mem, &r.ended);
	if (st)
		plan_free(plan);
	else
		*out = plan;
	return st;
}

enum plim_status plan_read_trace(struct plan_traced *t, const char *path, struct plan **out,
				 struct plim_err *err)
{
	struct source *s = NULL;
	enum plim_status st = source_open(t->mem, path, NULL, &s, err);

	*out = NULL;
	if (!st)
		st = plan_read_traced(t, path, s, out, err);
	source_close(s);
	return st;
}

bool plan_is_trace(struct mem *m, const char *path)
{
	struct source *s = NULL;
	struct plim_err err;
	struct stat info;
	const struct file_kind *kind = NULL;

	if (!stat(path, &info) && S_ISREG(info.st_mode) && /* a pipe can be read once alone */
	    !source_open(m, path, NULL, &s, &err) &&
	    !source_need(s, s->p, FILE_KIND_HEAD_BYTES, &err))
		kind = file_kind_of_bytes(s->p, (size_t)(s->end - s->p));
	source_close(s);
	return kind && !strcmp(kind->slug, "plan_trace");
}

void plan_release_trace(struct plan_traced *t)
{
	vec_release(t->mem, &t->phases);
	vec_release(t->mem, &t->places);
	vec_release(t->mem, &t->operators);
	vec_release(t->mem, &t->assumed);
	vec_release(t->mem, &t->unsure);
	vec_release(t->mem, &t->asked);
	vec_release(t->mem, &t->place);
	vec_release(t->mem, &t->operator);
	vec_release(t->mem, &t->category);
	vec_release(t->mem, &t->grown);
	vec_release(t->mem, &t->sequences);
	vec_release(t->mem, &t->longer);
	vec_release(t->mem, &t->longest);
}

/* ---- with another batch ---- */

/* Bytes at `batch` on the line through (b, at_b) and (g, at_g), and none below it. */
static uint64_t on_line(const struct plan_traced *t, size_t request, uint64_t traced_bytes,
			uint64_t batch)
{
	double slope = ((double)t->grown.at[request] - (double)traced_bytes) /
		       ((double)t->grown_batch - (double)t->batch);
	double bytes = (double)traced_bytes + slope * ((double)batch - (double)t->batch);

	return bytes > 1 ? bytes < (double)REQUEST_MOST ? (uint64_t)(bytes + 0.5) : REQUEST_MOST
			 : 1;
}

static enum plim_status copy_into(const struct plan *from, struct plan *to, struct plim_err *err)
{
	size_t n = from->program->requests.n;
	enum plim_status st = PLIM_OK;

	to->categories = mem_new(to->mem, n, 1, err);
	if (!to->categories)
		return mem_status(err);
	to->category_room = n;
	memcpy(to->categories, from->categories, n);
	for (size_t i = 0; !st && i < n; i++)
		st = vec_push(to->mem, &to->program->requests, from->program->requests.at[i], err);
	for (size_t i = 0; !st && i < from->program->ops.n; i++)
		st = vec_push(to->mem, &to->program->ops, from->program->ops.at[i], err);
	for (size_t i = 0; !st && i < from->phases.n; i++)
		st = vec_push(to->mem, &to->phases, from->phases.at[i], err);
	return st;
}

enum plim_status plan_copy(const struct plan *from, struct plan **out, struct plim_err *err)
{
	struct plan *plan = mem_new(from->mem, 1, sizeof(*plan), err);
	enum plim_status st;

	*out = NULL;
	if (!plan)
		return mem_status(err);
	plan->mem = from->mem;
	st = program_new(from->mem, &plan->program, err);
	if (!st)
		st = copy_into(from, plan, err);
	if (st)
		plan_free(plan);
	else
		*out = plan;
	return st;
}

enum plim_status plan_scale_trace(const struct plan_traced *t, const struct plan *traced,
				  uint64_t batch, struct plan **out, struct plim_err *err)
{
	enum plim_status st;

	*out = NULL;
	if (!t->grown_batch)
		return err_set(
			err, PLIM_E_UNSUPPORTED,
			"the trace is of one batch alone: trace it again with --max-batch or "
			"--sweep");
	st = plan_copy(traced, out, err);
	for (size_t i = 0; !st && i < traced->program->requests.n; i++)
		(*out)->program->requests.at[i].bytes =
			on_line(t, i, traced->program->requests.at[i].bytes, batch);
	return st;
}

/* ---- between what was traced ---- */

static bool is_between(uint64_t n, uint64_t a, uint64_t b)
{
	return a < b ? n >= a && n <= b : n >= b && n <= a;
}

bool plan_is_between_traced(const struct plan_traced *t, uint64_t batch, uint64_t sequence)
{
	uint64_t first = t->sequence, last = t->sequence;

	for (size_t i = 0; i < t->sequences.n; i++) {
		first = t->sequences.at[i] < first ? t->sequences.at[i] : first;
		last = t->sequences.at[i] > last ? t->sequences.at[i] : last;
	}
	return is_between(batch, t->batch, t->grown_batch ? t->grown_batch : t->batch) &&
	       is_between(sequence, first, last);
}

/* ---- with another sequence ---- */

#define BENT 0.02 /* of a line's third point: more is a parabola, less a size that is rounded up */

struct point {
	double at, bytes;
};

static double line(struct point a, struct point b, double at)
{
	return a.bytes + (b.bytes - a.bytes) * (at - a.at) / (b.at - a.at);
}

static double parabola(const struct point *p, double at)
{
	double bytes = 0;

	for (int i = 0; i < 3; i++) {
		const struct point *a = &p[(i + 1) % 3], *b = &p[(i + 2) % 3];

		bytes += p[i].bytes * (at - a->at) * (at - b->at) /
			 ((p[i].at - a->at) * (p[i].at - b->at));
	}
	return bytes;
}

static double smaller(struct point a, struct point b)
{
	return a.bytes < b.bytes ? a.bytes : b.bytes;
}

static void sort_points(struct point *p)
{
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2 - i; k++)
			if (p[k].at > p[k + 1].at) {
				struct point t = p[k];

				p[k] = p[k + 1];
				p[k + 1] = t;
			}
}

/* By points in order: between or beyond the two that are next to it, or bent. */
static uint64_t on_curve(struct point *p, double at)
{
	double bent, bytes, least;

	sort_points(p);
	bent = line(p[0], p[1], p[2].at) - p[2].bytes;
	bent = bent < 0 ? -bent : bent;
	if (bent > BENT * p[2].bytes)
		bytes = parabola(p, at);
	else
		bytes = at < p[1].at ? line(p[0], p[1], at) : line(p[1], p[2], at);
	/* a curve that dips below both of its neighbours is none that was traced */
	least = at < p[1].at ? smaller(p[0], p[1]) : smaller(p[1], p[2]);
	bytes = bytes < least ? least : bytes;
	return bytes > 1 ? bytes < (double)REQUEST_MOST ? (uint64_t)(bytes + 0.5) : REQUEST_MOST
			 : 1;
}

enum plim_status plan_lengthen_trace(const struct plan_traced *t, const struct plan *traced,
				     uint64_t sequence, struct plan **out, struct plim_err *err)
{
	enum plim_status st;

	*out = NULL;
	if (!t->sequences.n)
		return err_set(
			err, PLIM_E_UNSUPPORTED,
			"the trace is of one sequence alone: trace it again with --max-seq or "
			"--sweep seq=");
	st = plan_copy(traced, out, err);
	for (size_t i = 0; !st && i < traced->program->requests.n; i++) {
		struct point points[3] = {
			{ (double)t->sequence, (double)traced->program->requests.at[i].bytes },
			{ (double)t->sequences.at[0], (double)t->longer.at[i] },
			{ (double)t->sequences.at[1], (double)t->longest.at[i] },
		};

		(*out)->program->requests.at[i].bytes = on_curve(points, (double)sequence);
	}
	return st;
}

static bool has_operator(const struct plan_traced *t, const char *begins)
{
	for (size_t i = 0; i < t->operators.n; i++)
		if (!strncmp(t->operators.at[i], begins, strlen(begins)))
			return true;
	return false;
}

/*
 * How far traces were off where runs were measured (docs/evidence/trace.md), and what shows which of them a trace is like: 0.5 % and
 * less, except for what cuDNN takes beyond that: workspaces of convolutions (up to 2 % more was measured) and of recurrent
 * layers; of kept traces that have these from the CPU, what they keep as well (8 % more).  The first that fits counts.
 */
static const struct likeness {
	const char *operator; /* begins so; NULL: any */
	uint16_t below, above;
	const char *reason;
} likenesses[] = {
	{ "all rows", 900, 250,
	  "traced with results whose rows only a run's values tell as large as they can be: it may "
	  "need far less" },
	{ "torch.compile", 500, 150,
	  "traced in part without torch.compile: compiled code mostly needs less, and how much is "
	  "not "
	  "known" },
	{ "compiled graph", 250, 300,
	  "traced through AOTAutograd's graphs, which Inductor did not lower here, or compiled "
	  "with options: the memory of its own kernels and of graphs' pools is not known" },
	{ "inductor", 100, 100,
	  "traced in Inductor's own code: memory of kernels that it tries out while it compiles is "
	  "not known" },
	{ "_cudnn_rnn", 50, 250, "traced: cuDNN's workspace of recurrent layers is not known" },
	{ "mkldnn_rnn_layer", 50, 250,
	  "traced: cuDNN's memory for recurrent layers is not known; 8 % more was measured" },
	{ "convolution", 100, 100,
	  "traced: cuDNN's workspaces of convolutions are from a law of their sizes, and how many "
	  "partial sums it takes is not known" },
	{ NULL, 50, 50,
	  "traced on fake tensors: what operators take inside of kernels is from a table" },
};

void plan_trust_trace(const struct plan_traced *t, struct plan_trust *out)
{
	const struct likeness *l = likenesses;

	while (l->operator&& !has_operator(t, l->operator))
		l++;
	*out = (struct plan_trust){ .basis = PLAN_ASSUMED,
				    .below = l->below,
				    .above = l->above,
				    .more_bytes = t->unknown_bytes,
				    .reason_count = 1 };
	out->reasons[0] = l->reason;
}
