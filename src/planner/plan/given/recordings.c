/*
 * calibrate: recordings of the user's own runs next to the plans of the same runs.  What a recording's run was is reported with
 * recorded; what is not given there is as planned.
 */
#include "plan/plan.h"
#include "recording/recording.h"

#include <stdlib.h>
#include <string.h>

#define RECORDINGS_MOST 2
/* A workspace of other size is not cuBLAS's (4 to 32 MiB, or as CUBLAS_WORKSPACE_CONFIG says). */
#define BLAS_LEAST ((uint64_t)64 << 10)
#define BLAS_MOST ((uint64_t)256 << 20)
#define WORTH_BYTES ((uint64_t)1 << 20) /* smaller differences are not reported */

struct calibration {
	struct plim_plan *p;
	const struct plim_plan_options *o;
	struct plim_err *err;
	struct plim_plan_options recorded[RECORDINGS_MOST]; /* the plans of the recorded runs */
	struct plan_pair pairs[RECORDINGS_MOST];
	uint64_t workspace_bytes; /* of cuBLAS, as recorded; 0: not seen */
	uint64_t planned_workspace_bytes;
	struct allocator_rules rules; /* of the recording */
};

/* ---- what was recorded ---- */

/* The options of recording i: those of the plan, except for what is reported. */
static enum plim_status read_recorded(struct calibration *c, size_t i)
{
	struct plim_plan_options *to = &c->recorded[i];
	char *at = NULL;
	enum plim_status st = PLIM_OK;

	*to = *c->o;
	to->steps = 2;
	to->eval_batch = to->longest = 0;
	to->lengths = to->save = NULL;
	if (i >= c->o->recorded_count)
		return PLIM_OK;
	at = (char *)plan_string(c->p, c->err, "%s", c->o->recorded[i]);
	if (!at)
		return mem_status(c->err);
	while (!st && *at) {
		char *comma = strchr(at, ','), *equal = strchr(at, '=');

		if (comma)
			*comma = 0;
		if (!equal || (comma && equal > comma))
			return err_set(c->err, PLIM_E_ARG,
				       "options.recorded takes batch=2,seq=512, not '%s'", at);
		*equal = 0;
		st = plan_tell_option(to, at, equal + 1, c->err);
		at = comma ? comma + 1 : equal + 1 + strlen(equal + 1);
	}
	return st;
}

/* The device whose recording is the longest. */
static struct recording_device *busiest(struct recording *r)
{
	struct recording_device *best = NULL;

	for (size_t i = 0; i < r->device_count; i++) {
		struct recording_device *d = &r->devices[i];

		if (recording_shows(d, PLIM_UNKNOWN) &&
		    (!best || d->device->events.n > best->device->events.n))
			best = d;
	}
	return best;
}

static enum plim_status measure_calibration(struct calibration *c, size_t i, const char *path,
					    struct recording_device *one)
{
	const struct plim_plan_options *o = &c->recorded[i];
	struct plan_pair *pair = &c->pairs[i];
	enum plim_status st;

	if (!one)
		return err_set(c->err, PLIM_E_ARG, "'%s' shows nothing of a GPU", path);
	st = recording_need(one, RECORDING_PARTS, c->err);
	if (st)
		return st;
	st = plan_footprint_recorded(&one->timeline, &one->categories, &one->steps, &pair->recorded,
				     c->err);
	pair->tokens = o->batch * o->sequence;
	if (!st && c->p->hidden->model.towers[MODEL_TEXT].layers && pair->recorded.input_bytes &&
	    !plan_recorded_reads(&one->timeline, &one->categories, &one->steps, &pair->recorded,
				 pair->tokens * 8))
		return err_set(
			c->err, PLIM_E_ARG,
			"in '%s' the step that takes most does not read %llu x %llu token ids, "
			"but %llu in all: say what was recorded (options.recorded "
			"batch=2,seq=512)",
			path, (unsigned long long)o->batch, (unsigned long long)o->sequence,
			(unsigned long long)pair->recorded.input_bytes / 8);
	c->rules = one->replay->rules;
	if (!st && pair->recorded.workspace_bytes >= BLAS_LEAST &&
	    pair->recorded.workspace_bytes <= BLAS_MOST)
		c->workspace_bytes = pair->recorded.workspace_bytes;
	return st;
}

static enum plim_status read_recording(struct calibration *c, size_t i)
{
	const char *path = c->o->calibrate[i];
	struct recording *r = NULL;
	struct mem m;
	enum plim_status st = read_recorded(c, i);

	mem_init(&m, c->o->max_memory_bytes);
	if (!st)
		st = recording_open(&m, path, NULL, &r, c->err);
	if (!st)
		st = recording_has_segments(r, path, c->err);
	if (!st)
		st = measure_calibration(c, i, path, busiest(r));
	recording_free(r);
	return st;
}

/* ---- what was planned ---- */

/* p's recipe becomes that of other options; its settings stay. */
static enum plim_status read_again(struct calibration *c, const struct plim_plan_options *o)
{
	struct plim_plan_hidden *h = c->p->hidden;
	struct allocator_rules rules = h->rules;
	enum plim_status st = plan_read_recipe(c->p, o, c->err);

	c->planned_workspace_bytes = h->recipe.device.blas_workspace_bytes;
	if (c->workspace_bytes)
		h->recipe.device.blas_workspace_bytes = c->workspace_bytes;
	h->rules = rules;
	return st;
}

static enum plim_status plan_recorded(struct calibration *c, size_t i,
				      const struct plan_learned *learned,
				      struct plan_footprint *out)
{
	struct plim_plan_hidden *h = c->p->hidden;
	struct plan *plan = NULL;
	enum plim_status st = read_again(c, &c->recorded[i]);

	h->recipe.learned = learned;
	if (!st)
		st = plan_program(c->p, &h->recipe, &plan, c->err);
	if (!st)
		st = plan_footprint(plan, out, c->err);
	plan_free(plan);
	return st;
}

/* A recording that cannot be of this model and recipe is reported, not fitted. */
static enum plim_status check_pair(const struct calibration *c, size_t i)
{
	const struct plan_footprint *r = &c->pairs[i].recorded, *p = &c->pairs[i].planned;
	const char *path = c->o->calibrate[i];

	if (plan_is_other_model(r, p))
		return err_set(c->err, PLIM_E_ARG,
			       "'%s' is not of this model in this precision: it has %llu MiB of "
			       "parameters, the plan %llu MiB",
			       path, (unsigned long long)(r->parameter_bytes >> 20),
			       (unsigned long long)(p->parameter_bytes >> 20));
	if (r->kept_bytes < p->kept_bytes / 2 || r->kept_bytes / 3 > p->kept_bytes)
		return err_set(
			c->err, PLIM_E_ARG,
			"'%s' is not of this recipe: its forward pass keeps %llu MiB, the plan's "
			"%llu MiB (other checkpointing, precision or length? see options.recorded)",
			path, (unsigned long long)(r->kept_bytes >> 20),
			(unsigned long long)(p->kept_bytes >> 20));
	return PLIM_OK;
}

/* ---- what is reported ---- */

static enum plim_status tell_calibration(struct calibration *c, const char *quantity,
					 uint64_t recorded, uint64_t planned, uint64_t learned,
					 const char *evidence)
{
	struct plim_plan *p = c->p;
	uint64_t difference = recorded > planned ? recorded - planned : planned - recorded;

	if (difference < WORTH_BYTES || p->learned_count == PLAN_LEARNED_MOST)
		return PLIM_OK;
	if (!p->learned)
		p->learned =
			mem_new(&p->hidden->mem, PLAN_LEARNED_MOST, sizeof(*p->learned), c->err);
	if (!p->learned)
		return mem_status(c->err);
	p->learned[p->learned_count++] =
		(struct plim_plan_learned){ quantity, recorded, planned, learned, evidence };
	return PLIM_OK;
}

static enum plim_status tell_pair(struct calibration *c, size_t i)
{
	const struct plan_learned *l = &c->p->hidden->learned;
	const struct plan_footprint *r = &c->pairs[i].recorded, *p = &c->pairs[i].planned;
	uint64_t tokens = c->o->batch * c->o->sequence;
	const struct {
		const char *quantity;
		uint64_t recorded, planned, learned;
		const char *evidence;
	} rows[] = {
		{ "optimizer states", r->state_bytes, p->state_bytes, l->state_bytes,
		  "live before a step, by category; fixed" },
		{ "what stays", r->resident_bytes, p->resident_bytes, l->resident_bytes,
		  "live before a step's forward pass; fixed" },
		{ "activations", r->kept_bytes, p->kept_bytes, plan_line_at(&l->kept, tokens),
		  "live when the backward pass begins, less what stays; goes by tokens, blocks "
		  "alike" },
		{ "forward pass", r->forward_bytes, p->forward_bytes,
		  plan_line_at(&l->forward, tokens),
		  "its peak beyond what it keeps; goes by tokens" },
		{ "backward pass", r->backward_bytes, p->backward_bytes,
		  plan_line_at(&l->backward, tokens),
		  "its peak beyond what it begins with; goes by tokens" },
		{ "optimizer", r->optimizer_bytes, p->optimizer_bytes,
		  plan_line_at(&l->optimizer, tokens),
		  "its peak beyond what it begins with; fixed" },
	};
	enum plim_status st = PLIM_OK;

	for (size_t k = 0; !st && k < sizeof(rows) / sizeof(rows[0]); k++)
		st = tell_calibration(c, rows[k].quantity, rows[k].recorded, rows[k].planned,
				      rows[k].recorded > rows[k].planned ? rows[k].learned : 0,
				      rows[k].evidence);
	return st;
}

static uint64_t peak_of(const struct plan_footprint *f)
{
	uint64_t pass = f->forward_bytes > f->backward_bytes ? f->forward_bytes : f->backward_bytes;

	return f->resident_bytes + f->kept_bytes + pass;
}

/* Bytes of a run of other size, where they go with the tokens. */
static uint64_t carry(uint64_t bytes, uint64_t from, uint64_t to)
{
	return (uint64_t)((double)bytes * (double)to / (double)from);
}

static bool is_other_recipe(const struct plan_recipe *a, const struct plan_recipe *b)
{
	return a->precision != b->precision || a->attention != b->attention ||
	       a->checkpointing != b->checkpointing || a->checkpoint_every != b->checkpoint_every ||
	       a->checkpoint_from != b->checkpoint_from || a->selects_ops != b->selects_ops;
}

/* What a run computes in another precision, or again, is larger or smaller by as much as it is itself. */
static enum plim_status doubt_recipe(struct calibration *c)
{
	struct plim_plan_hidden *h = c->p->hidden;
	const struct plan_learned *l = &h->learned;
	uint64_t tokens = c->o->batch * c->o->sequence;
	uint64_t all = plan_line_at(&l->kept, tokens) + plan_line_at(&l->backward, tokens);

	if (!is_other_recipe(&h->recorded, &h->recipe))
		return PLIM_OK;
	h->less_bytes += all;
	h->more_bytes += all;
	return plan_assume(c->p,
			   "what a run of another precision, attention or checkpointing showed is "
			   "taken for this one's",
			   c->err);
}

/* What recordings leave open: what the fitted plans of their runs are off by, and whether what one shows goes by tokens. */
static enum plim_status find_range(struct calibration *c, size_t n)
{
	struct plim_plan_hidden *h = c->p->hidden;
	const struct plan_learned *l = &h->learned;
	uint64_t tokens = c->o->batch * c->o->sequence, at = c->pairs[0].tokens, then, now;
	enum plim_status st = PLIM_OK;

	c->p->unexplained_bytes = 0;
	for (size_t i = 0; !st && i < n; i++) {
		struct plan_footprint fitted;
		uint64_t off, recorded = peak_of(&c->pairs[i].recorded), carried;

		st = plan_recorded(c, i, l, &fitted);
		if (st)
			break;
		off = recorded > peak_of(&fitted) ? recorded - peak_of(&fitted)
						  : peak_of(&fitted) - recorded;
		carried = carry(off, c->pairs[i].tokens, tokens);
		carried = carried > off ? carried : off;
		if (off > c->p->unexplained_bytes)
			c->p->unexplained_bytes = off;
		if (recorded > peak_of(&fitted) && carried > h->more_bytes)
			h->more_bytes = carried;
		if (recorded < peak_of(&fitted) && carried > h->less_bytes)
			h->less_bytes = carried;
	}
	then = plan_line_at(&l->kept, at) + plan_line_at(&l->backward, at);
	now = plan_line_at(&l->kept, tokens) + plan_line_at(&l->backward, tokens);
	if (n == 1 && now > then)
		h->less_bytes += now - then;
	else if (n == 1)
		h->more_bytes += then - now;
	return st;
}

enum plim_status plan_calibrate(struct plim_plan *p, const struct plim_plan_options *o,
				struct plim_err *err)
{
	struct calibration c = { .p = p, .o = o, .err = err };
	struct plim_plan_hidden *h = p->hidden;
	size_t n = o->calibrate_count;
	enum plim_status st = PLIM_OK;

	if (o->recorded_count > n)
		return err_set(err, PLIM_E_ARG,
			       "options.recorded says what the run of a recording was: give "
			       "options.calibrate "
			       "as often");
	if (!n)
		return PLIM_OK;
	if (n > RECORDINGS_MOST)
		return err_set(err, PLIM_E_ARG, "a plan learns from %d recordings at most",
			       RECORDINGS_MOST);
	for (size_t i = 0; !st && i < n; i++)
		st = read_recording(&c, i);
	for (size_t i = 0; !st && i < n; i++) {
		st = plan_recorded(&c, i, NULL, &c.pairs[i].planned);
		c.pairs[i].checkpoints = h->recipe.checkpointing != PLAN_CHECKPOINT_NONE;
		if (!st)
			st = check_pair(&c, i);
	}
	if (st)
		return st;
	h->recorded = h->recipe;
	plan_learn(c.pairs, n, &h->learned);
	st = find_range(&c, n);
	if (!st && !o->settings)
		h->rules = c.rules;
	if (!st && c.workspace_bytes)
		st = tell_calibration(&c, "cuBLAS workspace", c.workspace_bytes,
				      c.planned_workspace_bytes, c.workspace_bytes,
				      "the largest workspace that stays; fixed");
	for (size_t i = 0; !st && i < n; i++)
		st = tell_pair(&c, i);
	if (!st)
		st = read_again(&c, o);
	if (!st)
		st = doubt_recipe(&c);
	h->recipe.learned = &h->learned;
	h->recordings = n;
	return st;
}
