/* The rows of a moment: what lives in both recordings, put next to each other. */
#include "commands/diff/diff.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* With --redact what is the same has the same word in both. */
static void share_word(struct recording_names h[2], uint32_t in_a, uint32_t in_b)
{
	if (in_a >= h[COMPARED_A].of->snapshot->heap.strings.n || in_b == TRACE_NONE ||
	    h[COMPARED_B].words[in_b])
		return;
	if (!h[COMPARED_A].words[in_a])
		h[COMPARED_A].words[in_a] = ++h[COMPARED_A].word_count;
	h[COMPARED_B].words[in_b] = h[COMPARED_A].words[in_a];
}

/* ... and what is not has another one. */
static void share_count(struct recording_names h[2])
{
	uint32_t a = h[COMPARED_A].word_count, b = h[COMPARED_B].word_count;

	h[COMPARED_A].word_count = h[COMPARED_B].word_count = a > b ? a : b;
}

const char *diff_frame(struct plim_diff *d, int s, uint32_t frame, struct plim_err *err)
{
	struct recording_names *h = d->hidden->names;
	const struct timeline_matching *x = &d->hidden->matching;

	if (frame == TRACE_NONE)
		return NULL;
	share_count(h);
	if (s == COMPARED_B && h[s].redact) {
		const struct snapshot_frame *f = snapshot_frame(h[s].of->snapshot, frame);

		share_word(h, x->file[frame], f->filename);
		share_word(h, x->name[COMPARED_B][frame], f->name);
		share_count(h);
	}
	return recording_frame(&h[s], frame, err);
}

static enum plim_status fill_stack(struct plim_diff *d, int s, uint32_t stack,
				   struct plim_diff_row *row, struct plim_err *err)
{
	uint32_t n;
	const uint32_t *frames = snapshot_stack(d->hidden->matching.snapshot[s], stack, &n);

	row->stack = arena_take(&d->hidden->arena, n, sizeof(*row->stack), err);
	if (!row->stack)
		return mem_status(err);
	for (uint32_t i = 0; i < n; i++) {
		row->stack[i] = diff_frame(d, s, frames[i], err);
		if (!row->stack[i])
			return mem_status(err);
	}
	row->stack_count = n;
	return PLIM_OK;
}

/* ---- rows ---- */

struct ranked {
	const struct compared_owner *owner;
	int64_t change;
	uint64_t bytes;
	uint32_t number, part; /* the part that changed most with it; TRACE_NONE */
};

struct filling {
	struct plim_diff *d;
	const struct compared_owners *owners;
	enum compared_moment moment;
	struct plim_err *err;
};

static int64_t change_of(const struct compared_owner *o, enum compared_moment m)
{
	return compared_change(o->at[m][COMPARED_A].bytes, o->at[m][COMPARED_B].bytes);
}

static uint64_t diff_row_size_of(int64_t change)
{
	return change < 0 ? -(uint64_t)change : (uint64_t)change;
}

static int larger_change(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (diff_row_size_of(x->change) != diff_row_size_of(y->change))
		return diff_row_size_of(x->change) > diff_row_size_of(y->change) ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static int changed(const struct compared_owner *o, enum compared_moment m)
{
	return o->at[m][COMPARED_A].bytes != o->at[m][COMPARED_B].bytes ||
	       o->at[m][COMPARED_A].count != o->at[m][COMPARED_B].count;
}

/* The part of each owner that went furthest the way the owner went. */
static void rank_parts(const struct filling *f, struct ranked *of_owner)
{
	for (uint32_t p = 0; p < f->owners->parts.n; p++) {
		const struct compared_owner *part = &f->owners->parts.at[p];
		struct ranked *r = &of_owner[part->whole];
		int64_t own = change_of(part, f->moment), best;

		if (part->into != p || !own || (own < 0) != (r->change < 0))
			continue;
		best = r->part == TRACE_NONE ? 0
					     : change_of(&f->owners->parts.at[r->part], f->moment);
		if (diff_row_size_of(own) > diff_row_size_of(best))
			r->part = p;
	}
}

/* What of a model it is: the line that report's owners name, no frame of PyTorch's or of its C++. */
static enum plim_status name_part(const struct filling *f, const struct ranked *r,
				  struct plim_diff_row *row)
{
	const struct compared_owner *part;
	enum plim_status st;
	uint32_t code;
	int s;

	if (r->part == TRACE_NONE)
		return PLIM_OK;
	part = &f->owners->parts.at[r->part];
	s = part->stack[COMPARED_B] != TRACE_NONE ? COMPARED_B : COMPARED_A;
	row->part_change_bytes = change_of(part, f->moment);
	st = fill_stack(f->d, s, part->stack[s], row, f->err);
	code = part->stack[s] == TRACE_NONE
		       ? TRACE_NONE
		       : timeline_code_frame(f->d->hidden->matching.snapshot[s], part->stack[s]);
	if (!st && code != TRACE_NONE) {
		row->part = diff_frame(f->d, s, code, f->err);
		st = row->part ? PLIM_OK : mem_status(f->err);
	}
	return st;
}

static void name_category(const struct filling *f, const struct ranked *r,
			  struct plim_diff_row *row)
{
	const struct compared_kinds *kinds = &f->owners->kinds.at[r->number];
	int64_t most = 0;

	for (int k = 0; k < TIMELINE_CATEGORIES; k++) {
		int64_t change = compared_change(kinds->bytes[f->moment][COMPARED_A][k],
						 kinds->bytes[f->moment][COMPARED_B][k]);

		if (!change || (change < 0) != (r->change < 0) ||
		    diff_row_size_of(change) <= diff_row_size_of(most))
			continue;
		most = change;
		row->category = timeline_category_names[k];
	}
	row->category_change_bytes = most;
}

static const char *phase_name(uint64_t phase)
{
	return phase < TIMELINE_PHASES ? timeline_phase_names[phase] : "before";
}

/*
 * What is common to the owner's allocations, in words; without a Python stack NULL, or the category of what was there
 * before.
 */
static enum plim_status name_row(const struct filling *f, const struct compared_owner *o,
				 struct plim_diff_row *row)
{
	struct plim_diff_hidden *h = f->d->hidden;
	const char *names[2] = { NULL, NULL };

	switch (f->owners->group) {
	case COMPARED_BY_CATEGORY: row->name = timeline_category_names[o->value]; return PLIM_OK;
	case COMPARED_BY_PHASE: row->name = phase_name(o->value); return PLIM_OK;
	case COMPARED_BY_SIZE:
		row->name = arena_text(&h->arena, f->err, "%llu bytes each",
				       (unsigned long long)o->value);
		/* a plan knows which tensor it is */
		if (row->name && recording_is_plan(h->recording[COMPARED_A]) &&
		    o->frame[COMPARED_A] != TRACE_NONE) {
			row->a_name = diff_frame(f->d, COMPARED_A, o->frame[COMPARED_A], f->err);
			return row->a_name ? PLIM_OK : mem_status(f->err);
		}
		return row->name ? PLIM_OK : mem_status(f->err);
	default: break;
	}
	if (o->value)
		row->name = timeline_category_names[TIMELINE_PRIOR];
	for (int s = 0; s < 2 && !row->name; s++) {
		if (o->frame[s] == TRACE_NONE)
			continue;
		names[s] = diff_frame(f->d, s, o->frame[s], f->err);
		if (!names[s])
			return mem_status(f->err);
	}
	if (!row->name)
		row->name = names[COMPARED_B] ? names[COMPARED_B] : names[COMPARED_A];
	row->a_name = names[COMPARED_A] && names[COMPARED_B] &&
				      strcmp(names[COMPARED_A], names[COMPARED_B]) != 0
			      ? names[COMPARED_A]
			      : NULL;
	return PLIM_OK;
}

static enum plim_status fill_row(const struct filling *f, const struct ranked *r,
				 struct plim_diff_row *row)
{
	const struct compared_owner *o = r->owner;
	const struct compared_sum *at = o->at[f->moment];
	enum plim_status st;

	row->match = (enum plim_diff_match)o->match;
	row->inferred = o->inferred && f->owners->group <= COMPARED_BY_STACK;
	row->a_bytes = at[COMPARED_A].bytes;
	row->b_bytes = at[COMPARED_B].bytes;
	row->a_count = at[COMPARED_A].count;
	row->b_count = at[COMPARED_B].count;
	row->change_bytes = r->change;
	if (f->d->hidden->recording[COMPARED_A]->snapshot->has_frames &&
	    f->d->hidden->recording[COMPARED_B]->snapshot->has_frames)
		name_category(f, r, row);
	st = name_row(f, o, row);
	return st ? st : name_part(f, r, row);
}

static void add_to_rest(struct plim_diff_moment *m, uint64_t a_bytes, uint64_t b_bytes)
{
	m->rest_rows++;
	m->rest_a_bytes += a_bytes;
	m->rest_b_bytes += b_bytes;
	m->rest_change_bytes = compared_change(m->rest_a_bytes, m->rest_b_bytes);
}

void diff_trim_rows(const struct plim_diff *d, struct plim_diff_moment *m)
{
	uint32_t most = d->hidden->options.rows_max;

	for (; most && m->row_count > most; m->row_count--) {
		const struct plim_diff_row *last = &m->rows[m->row_count - 1];

		add_to_rest(m, last->a_bytes, last->b_bytes);
	}
}

/* What changed is listed; what is more than anybody reads is added up. */
static enum plim_status fill_rows(const struct filling *f, struct plim_diff_moment *out,
				  const struct ranked *list, size_t n)
{
	uint32_t wanted = f->d->hidden->options.rows_max;
	size_t most = wanted > DIFF_ROWS_LEAST ? wanted : DIFF_ROWS_LEAST;
	size_t listed = wanted && n > most ? most : n;
	enum plim_status st = PLIM_OK;

	out->rows = arena_take(&f->d->hidden->arena, listed, sizeof(*out->rows), f->err);
	if (!out->rows)
		return mem_status(f->err);
	for (size_t i = 0; !st && i < listed; i++)
		st = fill_row(f, &list[i], &out->rows[i]);
	out->row_count = listed;
	for (size_t i = listed; i < n; i++) {
		const struct compared_sum *at = list[i].owner->at[f->moment];

		add_to_rest(out, at[COMPARED_A].bytes, at[COMPARED_B].bytes);
	}
	return st;
}

static enum plim_status rank_owners(const struct filling *f, struct plim_diff_moment *out)
{
	struct mem *m = f->owners->mem;
	size_t all = f->owners->list.n, n = 0;
	struct ranked *list = mem_new(m, all, sizeof(*list), f->err);
	enum plim_status st;

	if (!list)
		return mem_status(f->err);
	for (uint32_t i = 0; i < all; i++) {
		const struct compared_owner *o = &f->owners->list.at[i];
		const struct compared_sum *at = o->at[f->moment];

		list[i] = (struct ranked){ o, change_of(o, f->moment),
					   at[COMPARED_A].bytes + at[COMPARED_B].bytes, i,
					   TRACE_NONE };
		out->a_bytes += at[COMPARED_A].bytes;
		out->b_bytes += at[COMPARED_B].bytes;
	}
	out->change_bytes = compared_change(out->a_bytes, out->b_bytes);
	rank_parts(f, list);
	for (size_t i = 0; i < all; i++) {
		if (changed(list[i].owner, f->moment)) {
			list[n++] = list[i];
		} else if (list[i].bytes) {
			out->unchanged_rows++;
			out->unchanged_bytes += list[i].bytes / 2;
		}
	}
	sort_items(list, n, sizeof(*list), larger_change);
	st = fill_rows(f, out, list, n);
	mem_free(m, list, all, sizeof(*list));
	return st;
}

/* ---- categories and phases ---- */

#define PARTS_MAX 16
_Static_assert(TIMELINE_CATEGORIES <= PARTS_MAX && TIMELINE_PHASES < PARTS_MAX,
	       "room for a row each");

/* Those that are not 0 in both, in the order of their table. */
static enum plim_status fill_parts(const struct filling *f, uint64_t (*bytes)[PARTS_MAX],
				   const char *(*name_of)(uint64_t), struct plim_diff_part **out,
				   size_t *n)
{
	*out = arena_take(&f->d->hidden->arena, PARTS_MAX, sizeof(**out), f->err);
	if (!*out)
		return mem_status(f->err);
	for (uint64_t k = 0; k < PARTS_MAX; k++)
		if (bytes[COMPARED_A][k] || bytes[COMPARED_B][k])
			(*out)[(*n)++] = (struct plim_diff_part){
				name_of(k), bytes[COMPARED_A][k], bytes[COMPARED_B][k],
				compared_change(bytes[COMPARED_A][k], bytes[COMPARED_B][k])
			};
	return PLIM_OK;
}

static const char *category_name(uint64_t category)
{
	return timeline_category_names[category];
}

static void add_side(const struct diff_side *side, enum compared_moment moment,
		     uint64_t *categories, uint64_t *phases)
{
	const struct recording_device *one = side->one;

	for (uint32_t a = 0; one && a < one->timeline.device->alloc_count; a++) {
		const struct snapshot_alloc *alloc = &one->timeline.device->allocs[a];
		uint64_t bytes;

		if (!timeline_lives(alloc, TIMELINE_ALLOCATED, side->event[moment]))
			continue;
		bytes = timeline_bytes(&one->timeline, a, TIMELINE_ALLOCATED);
		categories[timeline_rules[one->categories.rule[a]].category] += bytes;
		phases[alloc->born == TRACE_NONE ? (uint8_t)TIMELINE_PHASES
						 : one->categories.phase[alloc->born]] += bytes;
	}
}

static enum plim_status fill_kinds(const struct filling *f, const struct diff_side side[2],
				   struct plim_diff_moment *out)
{
	uint64_t categories[2][PARTS_MAX] = { { 0 } }, phases[2][PARTS_MAX] = { { 0 } };
	enum plim_status st;

	for (int s = 0; s < 2; s++)
		if (side[s].one && !side[s].one->categories.mem)
			return PLIM_OK;
	for (int s = 0; s < 2; s++)
		add_side(&side[s], f->moment, categories[s], phases[s]);
	st = fill_parts(f, categories, category_name, &out->categories, &out->category_count);
	return st ? st : fill_parts(f, phases, phase_name, &out->phases, &out->phase_count);
}

static uint64_t step_of(const struct diff_side *side, uint32_t event)
{
	for (size_t i = 0; event != TIMELINE_BEFORE && i < side->step_count; i++)
		if (event <= side->steps[i].end_event)
			return side->steps[i].index;
	return PLIM_UNKNOWN;
}

static const char *phase_of(const struct diff_side *side, uint32_t event)
{
	return side->one && side->one->categories.mem && event != TIMELINE_BEFORE
		       ? timeline_phase_names[side->one->categories.phase[event]]
		       : NULL;
}

static int any_change(const struct plim_diff_part *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].change_bytes)
			return 1;
	return 0;
}

enum plim_status diff_fill_moment(struct plim_diff *d, const struct diff_side side[2],
				  const struct compared_owners *owners, enum compared_moment moment,
				  struct plim_diff_moment *out, struct plim_err *err)
{
	struct filling f = { d, owners, moment, err };
	uint32_t a = side[COMPARED_A].event[moment], b = side[COMPARED_B].event[moment];
	enum plim_status st;

	out->a_event = a == TIMELINE_BEFORE ? PLIM_UNKNOWN : a;
	out->b_event = b == TIMELINE_BEFORE ? PLIM_UNKNOWN : b;
	out->a_phase = phase_of(&side[COMPARED_A], a);
	out->b_phase = phase_of(&side[COMPARED_B], b);
	out->a_step = step_of(&side[COMPARED_A], a);
	out->b_step = step_of(&side[COMPARED_B], b);
	st = rank_owners(&f, out);
	if (!st)
		st = fill_kinds(&f, side, out);
	out->different = out->row_count || any_change(out->categories, out->category_count) ||
			 any_change(out->phases, out->phase_count);
	return st;
}
