/*
 * A recording of a run next to the plan of the same run: the bytes that live at the borders of a step's passes are
 * subtracted, and what the run takes beyond the plan is put into the program where it was seen: tensors that stay, states,
 * tensors that blocks keep for their backward passes, and what a pass takes for a moment when it takes most.  What the run
 * takes less than planned is not taken away from anything: it is left to the range.
 */
#include "plan/step/build.h"

#include <string.h>

/* ---- footprints ---- */

/* The phase that a step's first forward pass is, the second step's if there is one; phases.n: none. */
static size_t first_pass(const struct plan *p, uint64_t *step)
{
	static const char *const names[] = { "fwd1", "fwd0" };

	for (unsigned k = 0; k < 2; k++)
		for (size_t i = 0; i < p->phases.n; i++)
			if (!strcmp(p->phases.at[i].name, names[k])) {
				*step = 1 - k;
				return i;
			}
	return p->phases.n;
}

static int is_called(const struct plan *p, size_t phase, const char *what)
{
	return phase < p->phases.n && !strncmp(p->phases.at[phase].name, what, strlen(what));
}

struct tally {
	const struct plan *p;
	uint64_t live, most, bytes[TIMELINE_CATEGORIES];
	uint32_t at, peak_op; /* op that comes; the one after which `most` lived */
};

/* On to the end of a phase; `most` is of the way. */
static void tally_to(struct tally *y, size_t phase)
{
	const struct program *program = y->p->program;

	y->most = y->live;
	y->peak_op = y->at;
	for (; y->at < y->p->phases.at[phase].end; y->at++) {
		const struct program_op *op = &program->ops.at[y->at];
		uint64_t n;

		if (op->kind == PROGRAM_PHASE || op->request == TRACE_NONE)
			continue;
		n = program->requests.at[op->request].bytes;
		if (op->kind == PROGRAM_FREE_DONE)
			n = -n;
		y->live += n;
		y->bytes[y->p->categories[op->request]] += n;
		if (y->live > y->most) {
			y->most = y->live;
			y->peak_op = y->at;
		}
	}
}

enum plim_status plan_footprint(const struct plan *p, struct plan_footprint *out,
				struct plim_err *err)
{
	struct tally y = { .p = p };
	uint64_t begun, most, ended;
	size_t i;

	*out = (struct plan_footprint){ 0 };
	i = first_pass(p, &out->step);
	if (!i || i == p->phases.n)
		return err_set(err, PLIM_E_ARG, "only plans of training can be calibrated");
	tally_to(&y, i - 1);
	out->resident_bytes = y.live;
	out->parameter_bytes = y.bytes[TIMELINE_PARAMETER];
	out->state_bytes = y.bytes[TIMELINE_OPTIMIZER_STATE];
	tally_to(&y, i);
	begun = most = y.live;
	out->kept_bytes = begun > out->resident_bytes ? begun - out->resident_bytes : 0;
	out->forward_bytes = y.most - begun;
	while (++i < p->phases.n && !is_called(p, i, "opt")) {
		tally_to(&y, i);
		most = y.most > most ? y.most : most;
	}
	out->backward_bytes = most - begun;
	ended = y.live;
	if (i < p->phases.n)
		tally_to(&y, i);
	out->optimizer_bytes = y.most > ended ? y.most - ended : 0;
	return PLIM_OK;
}

/* The borders of a recorded step, as events. */
struct borders {
	uint32_t forward, backward, behind, end; /* the first of each; the last of all */
};

static int find_borders(const struct timeline_categories *c, uint32_t from, uint32_t end,
			struct borders *b)
{
	uint32_t e = from;

	while (e <= end && c->phase[e] != TIMELINE_FORWARD)
		e++;
	b->forward = e;
	while (e <= end && c->phase[e] != TIMELINE_BACKWARD)
		e++;
	b->backward = b->behind = e;
	for (; e <= end; e++)
		if (c->phase[e] == TIMELINE_BACKWARD)
			b->behind = e + 1;
	b->end = end;
	return b->forward && b->backward <= end && b->behind <= end;
}

static uint64_t most_between(const struct timeline *tl, struct timeline_cursor *at, uint32_t from,
			     uint32_t end)
{
	uint64_t most = 0;

	for (uint32_t e = from; e < end; e++) {
		timeline_go(tl, at, e);
		if (at->bytes[TIMELINE_REQUESTED] > most)
			most = at->bytes[TIMELINE_REQUESTED];
	}
	return most;
}

/* The largest allocation of a category that lives after an event, of those of `bytes` if that is not 0. */
static uint64_t largest_of(const struct timeline *tl, const struct timeline_categories *c,
			   enum timeline_category category, uint32_t event, uint64_t bytes)
{
	uint64_t most = 0;

	for (uint32_t a = 0; a < c->allocs; a++) {
		const struct snapshot_alloc *alloc = &tl->device->allocs[a];
		uint64_t n = alloc->requested_bytes;

		if (timeline_rules[c->rule[a]].category == category && n > most &&
		    (!bytes || n == bytes) && timeline_lives(alloc, TIMELINE_REQUESTED, event))
			most = n;
	}
	return most;
}

static void measure_step(const struct timeline *tl, const struct timeline_categories *c,
			 const struct borders *b, struct plan_footprint *out)
{
	struct timeline_cursor at;
	uint64_t bytes[TIMELINE_CATEGORIES], most, begun, ended;

	timeline_sum_categories(tl, c, b->forward - 1, TIMELINE_REQUESTED, bytes);
	out->parameter_bytes = bytes[TIMELINE_PARAMETER];
	out->state_bytes = bytes[TIMELINE_OPTIMIZER_STATE];
	timeline_start(tl, &at);
	timeline_go(tl, &at, b->forward - 1);
	out->resident_bytes = at.bytes[TIMELINE_REQUESTED];
	most = most_between(tl, &at, b->forward, b->backward);
	begun = at.bytes[TIMELINE_REQUESTED];
	out->kept_bytes = begun > out->resident_bytes ? begun - out->resident_bytes : 0;
	out->forward_bytes = most - begun;
	most = most_between(tl, &at, b->backward, b->behind);
	out->backward_bytes = most > begun ? most - begun : 0;
	ended = at.bytes[TIMELINE_REQUESTED];
	most = most_between(tl, &at, b->behind, b->end + 1);
	out->optimizer_bytes = most > ended ? most - ended : 0;
	out->workspace_bytes = largest_of(tl, c, TIMELINE_WORKSPACE, b->backward - 1, 0);
	out->input_bytes = largest_of(tl, c, TIMELINE_INPUT, b->backward - 1, 0);
}

enum plim_status plan_footprint_recorded(const struct timeline *tl,
					 const struct timeline_categories *c,
					 const struct timeline_steps *steps,
					 struct plan_footprint *out, struct plim_err *err)
{
	int found = 0;

	*out = (struct plan_footprint){ 0 };
	for (uint32_t k = 0; c->mem && k < steps->ends.n; k++) {
		uint32_t from = k ? steps->ends.at[k - 1] + 1 : 0;
		struct plan_footprint one = { .step = k };
		struct borders b;

		if (!find_borders(c, from, steps->ends.at[k], &b))
			continue;
		measure_step(tl, c, &b, &one);
		/* the first step only where there is no other: states are made in it */
		if (!found || !out->step ||
		    one.kept_bytes + one.backward_bytes > out->kept_bytes + out->backward_bytes)
			*out = one;
		found = 1;
	}
	if (!found)
		return err_set(err, PLIM_E_ARG,
			       "the recording shows no whole step of training: record two steps, "
			       "with stacks (stacks=\"python\")");
	return PLIM_OK;
}

bool plan_recorded_reads(const struct timeline *tl, const struct timeline_categories *c,
			 const struct timeline_steps *steps, const struct plan_footprint *step,
			 uint64_t bytes)
{
	uint32_t k = (uint32_t)step->step;
	struct borders b;

	return find_borders(c, k ? steps->ends.at[k - 1] + 1 : 0, steps->ends.at[k], &b) &&
	       largest_of(tl, c, TIMELINE_INPUT, b.backward - 1, bytes);
}

bool plan_is_other_model(const struct plan_footprint *recorded,
			 const struct plan_footprint *planned)
{
	uint64_t a = recorded->parameter_bytes, b = planned->parameter_bytes;

	return (a > b ? a - b : b - a) > b / 50;
}

/* ---- what is learned ---- */

static uint64_t beyond(uint64_t recorded, uint64_t planned)
{
	return recorded > planned ? recorded - planned : 0;
}

uint64_t plan_line_at(const struct plan_line *line, uint64_t tokens)
{
	/* in whole bytes a token and a rest, so that nothing overflows */
	uint64_t each = line->tokens ? line->bytes / line->tokens : 0;
	uint64_t rest = line->tokens ? line->bytes % line->tokens : 0;

	if (each && tokens > UINT64_MAX / 4 / each)
		return UINT64_MAX / 4;
	return line->fixed_bytes + each * tokens +
	       (uint64_t)((double)rest * (double)tokens /
			  (double)(line->tokens ? line->tokens : 1));
}

/* Through two points; through one and nothing at no tokens, where there is one, or the line would rise there. */
static struct plan_line line_through(const struct plan_pair *pairs, size_t n, uint64_t a,
				     uint64_t b)
{
	uint64_t at = pairs[0].tokens, bt = n > 1 ? pairs[1].tokens : at, slope;

	if (n > 1 && at > bt)
		return line_through((struct plan_pair[]){ pairs[1], pairs[0] }, 2, b, a);
	if (n > 1 && at == bt)
		return (struct plan_line){ 0, a > b ? a : b, at };
	if (n == 1)
		return (struct plan_line){ 0, a, at };
	if (b <= a)
		return (struct plan_line){ a, 0, 0 };
	slope = (b - a) / (bt - at);
	if (slope * at > a)
		return (struct plan_line){ 0, b, bt };
	return (struct plan_line){ a - slope * at, b - a, bt - at };
}

void plan_learn(const struct plan_pair *pairs, size_t n, struct plan_learned *out)
{
	uint64_t v[2][5] = { { 0 } };

	*out = (struct plan_learned){ .between_blocks = pairs[0].checkpoints };
	for (size_t i = 0; i < n; i++) {
		const struct plan_footprint *r = &pairs[i].recorded, *p = &pairs[i].planned;
		uint64_t states = beyond(r->state_bytes, p->state_bytes);
		uint64_t resident = beyond(r->resident_bytes, p->resident_bytes);

		if (resident < states)
			states = resident; /* something else is less: only the sum is certain */
		resident -= states;
		out->state_bytes = states > out->state_bytes ? states : out->state_bytes;
		out->resident_bytes =
			resident > out->resident_bytes ? resident : out->resident_bytes;
		v[i][0] = beyond(r->kept_bytes, p->kept_bytes);
		v[i][1] = beyond(r->forward_bytes, p->forward_bytes);
		v[i][2] = beyond(r->backward_bytes, p->backward_bytes);
		v[i][3] = beyond(r->optimizer_bytes, p->optimizer_bytes);
	}
	out->kept = line_through(pairs, n, v[0][0], v[1][0]);
	out->forward = line_through(pairs, n, v[0][1], v[1][1]);
	out->backward = line_through(pairs, n, v[0][2], v[1][2]);
	out->optimizer = (struct plan_line){ v[0][3] > v[1][3] ? v[0][3] : v[1][3], 0, 0 };
}

/* ---- into the program ---- */

static uint64_t tokens_of(const struct builder *b)
{
	return b->r->batch * b->r->sequence;
}

#define PIECES_MOST 64

/* In pieces as large as a block's result in 16 bits: what blocks keep is tensors of such sizes. */
struct value build_learned_keep(struct builder *b, struct value x)
{
	const struct plan_learned *l = b->r->learned;
	uint64_t blocks = 0, share, piece = x.n * 2;

	if (!l || l->between_blocks)
		return x;
	for (unsigned i = 0; i < MODEL_TOWERS; i++)
		blocks += b->m->towers[i].layers;
	share = plan_line_at(&l->kept, tokens_of(b)) / blocks;
	if (piece < share / PIECES_MOST)
		piece = share / PIECES_MOST;
	for (; share; share -= piece) {
		piece = piece < share ? piece : share;
		x = op_keep(&b->t, x, piece);
	}
	return x;
}

uint64_t build_learned_kept(const struct builder *b)
{
	const struct plan_learned *l = b->r->learned;

	return l && l->between_blocks ? plan_line_at(&l->kept, tokens_of(b)) : 0;
}

/* Bytes that a phase takes for a moment beyond the plan. */
static uint64_t moment_of(const struct builder *b, size_t phase)
{
	const struct plan_learned *l = b->r->learned;
	const struct {
		const char *phase;
		const struct plan_line *line;
	} moments[] = { { "fwd", &l->forward }, { "bwd", &l->backward }, { "opt", &l->optimizer } };

	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++)
		if (is_called(b->plan, phase, moments[i].phase))
			return plan_line_at(moments[i].line, tokens_of(b));
	return 0;
}

/* Behind op `at` of the program a request comes and goes. */
static enum plim_status insert_moment(struct builder *b, uint32_t at, uint64_t bytes)
{
	struct program *p = b->t.program;
	uint32_t number = (uint32_t)p->requests.n;
	struct program_op *ops;
	enum plim_status st = vec_need(b->t.mem, &p->ops, 2, b->t.err);

	if (!st)
		st = vec_push(b->t.mem, &b->t.categories, TIMELINE_TEMPORARY, b->t.err);
	if (!st)
		st = vec_push(b->t.mem, &p->requests,
			      ((struct program_request){ bytes, TRACE_NONE, 0, 0 }), b->t.err);
	if (st)
		return st;
	ops = p->ops.at + at + 1;
	memmove(ops + 2, ops, (p->ops.n - at - 1) * sizeof(*ops));
	ops[0] = (struct program_op){ number, TRACE_NONE, PROGRAM_ALLOC };
	ops[1] = (struct program_op){ number, TRACE_NONE, PROGRAM_FREE_DONE };
	p->ops.n += 2;
	return PLIM_OK;
}

void build_learned_moments(struct builder *b)
{
	struct plan *p = b->plan;
	struct tally y = { .p = p };
	uint32_t more = 0;

	if (!b->r->learned || b->t.failed)
		return;
	p->categories = b->t.categories.at;
	for (size_t i = 0; i < p->phases.n && !b->t.failed; i++) {
		uint64_t bytes = moment_of(b, i);

		p->phases.at[i].end += more;
		tally_to(&y, i);
		if (!bytes || y.peak_op >= y.at)
			continue;
		tape_fail(&b->t, insert_moment(b, y.peak_op, bytes));
		p->categories = b->t.categories.at;
		p->phases.at[i].end += 2;
		y.at += 2;
		more += 2;
	}
	p->categories = NULL;
}
