/*
 * Whose memory it is, in two recordings at once.  Allocations are put together by place (user's line,
 * stack) under numbers that both recordings share, so that a stack that grew is one owner with two
 * sizes.  What is left over on one side is looked at twice more: the same functions in other lines,
 * then a function of the same name that allocates alike.
 */
#include "recording/recording.h"

#include <plimsoll/diff.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE TIMELINE_PHASES /* as a phase: born before the recording */

struct collecting {
	const struct comparison *of;
	const struct timeline_matching *matching; /* ... its */
	struct compared_owners *out;
	struct plim_err *err;
	struct intern owners, parts, sequences, loose; /* keys; an owner's number is its key's id */
	uint32_t *sequence[2], *user_frame[2];         /* of each stack; TRACE_NONE: not yet */
};

static void add_compared(uint64_t *to, uint64_t n)
{
	*to = n > UINT64_MAX - *to ? UINT64_MAX : *to + n;
}

int64_t compared_change(uint64_t a, uint64_t b)
{
	uint64_t most = INT64_MAX, by = b > a ? b - a : a - b;

	return b > a ? (int64_t)(by > most ? most : by) : -(int64_t)(by > most ? most : by);
}

/* ---- keys ---- */

/* The frames of a stack as shared numbers: places, or functions without lines. */
static enum plim_status key_of_stack(struct collecting *c, int s, uint32_t stack,
				     uint32_t *const of_frame[2], struct intern *keys, uint32_t *id)
{
	struct mem *m = c->out->mem;
	uint32_t n;
	const uint32_t *frames = snapshot_stack(c->matching->snapshot[s], stack, &n);
	uint32_t *key = mem_new(m, n, sizeof(*key), c->err);
	enum plim_status st;

	if (!key)
		return mem_status(c->err);
	for (uint32_t i = 0; i < n; i++)
		key[i] = of_frame[s][frames[i]];
	st = intern_add(keys, key, n * sizeof(*key), id, c->err);
	mem_free(m, key, n, sizeof(*key));
	return st;
}

static enum plim_status look_at_stack(struct collecting *c, int s, uint32_t stack)
{
	if (stack == TRACE_NONE || c->sequence[s][stack] != TRACE_NONE)
		return PLIM_OK;
	c->user_frame[s][stack] = timeline_user_frame(c->matching->snapshot[s], stack);
	return key_of_stack(c, s, stack, c->matching->place, &c->sequences, &c->sequence[s][stack]);
}

static int has_moved(const struct collecting *c, int s, uint32_t frame)
{
	return s && frame != TRACE_NONE && c->matching->moved[frame];
}

static int stack_has_moved(const struct collecting *c, int s, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = snapshot_stack(c->matching->snapshot[s], stack, &n);

	for (uint32_t i = 0; i < n; i++)
		if (has_moved(c, s, frames[i]))
			return 1;
	return 0;
}

/* ---- one allocation ---- */

struct seen {
	int s;
	uint32_t alloc, stack, frame;
	uint8_t inferred, category;
	uint64_t bytes, value;
};

static uint64_t value_of(const struct collecting *c, const struct seen *e)
{
	const struct recording_device *one = c->of->device[e->s];
	const struct snapshot_alloc *a = &one->timeline.device->allocs[e->alloc];

	switch (c->out->group) {
	case COMPARED_BY_CATEGORY: return e->category;
	case COMPARED_BY_PHASE:
		return a->born == TRACE_NONE ? (uint64_t)BEFORE : one->categories.phase[a->born];
	case COMPARED_BY_SIZE: return a->requested_bytes;
	default: return e->stack == TRACE_NONE && a->flags & TRACE_BEFORE;
	}
}

/* Of both recordings: what only one knows puts nothing together. */
static int knows_categories(const struct collecting *c)
{
	for (int s = 0; s < 2; s++)
		if (c->of->device[s] && !c->of->device[s]->categories.mem)
			return 0;
	return 1;
}

static enum plim_status owner_number(struct collecting *c, const struct seen *e, uint32_t *id)
{
	uint64_t key[3] = { e->value, TRACE_NONE, e->inferred };

	if (c->out->group == COMPARED_BY_FRAME && e->frame != TRACE_NONE)
		key[1] = c->matching->place[e->s][e->frame];
	else if (c->out->group == COMPARED_BY_STACK && e->stack != TRACE_NONE)
		key[1] = c->sequence[e->s][e->stack];
	else if (c->out->group > COMPARED_BY_STACK)
		key[2] = 0;
	if (c->out->group == COMPARED_BY_SIZE && knows_categories(c))
		key[1] = e->category;
	return intern_add(&c->owners, key, sizeof(key), id, c->err);
}

static enum plim_status part_number(struct collecting *c, const struct seen *e, uint32_t owner,
				    uint32_t *id)
{
	uint32_t key[3] = { owner, TRACE_NONE, e->inferred };

	if (e->stack != TRACE_NONE)
		key[1] = c->sequence[e->s][e->stack];
	return intern_add(&c->parts, key, sizeof(key), id, c->err);
}

/* A new owner: what it is looked for by, should the other recording not have it. */
static enum plim_status begin_compared(struct collecting *c, const struct seen *e,
				       struct compared_owner *o, int part)
{
	int by_stack = part || c->out->group == COMPARED_BY_STACK;

	*o = (struct compared_owner){ .stack = { TRACE_NONE, TRACE_NONE },
				      .frame = { TRACE_NONE, TRACE_NONE },
				      .value = e->value,
				      .loose = TRACE_NONE,
				      .function = TRACE_NONE,
				      .inferred = e->inferred };
	if (e->frame == TRACE_NONE || (!part && c->out->group > COMPARED_BY_STACK))
		return PLIM_OK;
	o->function = c->matching->name[e->s][e->frame];
	if (by_stack)
		return key_of_stack(c, e->s, e->stack, c->matching->function, &c->loose, &o->loose);
	o->loose = c->matching->function[e->s][e->frame];
	return PLIM_OK;
}

static void count_compared(struct collecting *c, const struct seen *e, struct compared_owner *o,
			   struct compared_kinds *kinds)
{
	const struct recording_device *one = c->of->device[e->s];
	const struct snapshot_alloc *a = &one->timeline.device->allocs[e->alloc];

	add_compared(&o->run[e->s].bytes, e->bytes);
	o->run[e->s].count++;
	if (e->bytes > o->largest[e->s] || (o->stack[e->s] == TRACE_NONE && !o->largest[e->s])) {
		o->largest[e->s] = e->bytes;
		o->stack[e->s] = e->stack;
		o->frame[e->s] = e->frame;
	}
	for (int m = 0; m < COMPARED_MOMENTS; m++) {
		if (!timeline_lives(a, TIMELINE_ALLOCATED, c->of->event[m][e->s]))
			continue;
		add_compared(&o->at[m][e->s].bytes, e->bytes);
		o->at[m][e->s].count++;
		if (kinds)
			add_compared(&kinds->bytes[m][e->s][e->category], e->bytes);
	}
}

static enum plim_status compared_place(struct collecting *c, const struct seen *e)
{
	struct compared_owners *out = c->out;
	uint32_t owner, part;
	enum plim_status st = owner_number(c, e, &owner);

	if (!st && owner == out->list.n) {
		st = vec_push(out->mem, &out->list, (struct compared_owner){ 0 }, c->err);
		if (!st)
			st = vec_push(out->mem, &out->kinds, (struct compared_kinds){ 0 }, c->err);
		if (!st)
			st = begin_compared(c, e, &out->list.at[owner], 0);
		if (!st)
			out->list.at[owner].into = owner;
	}
	if (!st)
		st = part_number(c, e, owner, &part);
	if (!st && part == out->parts.n) {
		st = vec_push(out->mem, &out->parts, (struct compared_owner){ 0 }, c->err);
		if (!st)
			st = begin_compared(c, e, &out->parts.at[part], 1);
		if (!st) {
			out->parts.at[part].into = part;
			out->parts.at[part].whole = owner;
		}
	}
	if (st)
		return st;
	count_compared(c, e, &out->list.at[owner], &out->kinds.at[owner]);
	count_compared(c, e, &out->parts.at[part], NULL);
	return PLIM_OK;
}

static enum plim_status collect_compared(struct collecting *c, int s)
{
	const struct recording_device *one = c->of->device[s];
	const struct snapshot_device *device = one ? one->timeline.device : NULL;
	const uint32_t *inferred = one ? one->categories.stack : NULL;
	enum plim_status st = PLIM_OK;

	for (uint32_t a = 0; device && !st && a < device->alloc_count; a++) {
		struct seen e = { .s = s,
				  .alloc = a,
				  .stack = device->allocs[a].stack,
				  .frame = TRACE_NONE,
				  .category = TIMELINE_UNKNOWN };

		if (snapshot_stackless(c->matching->snapshot[s], e.stack))
			e.stack = TRACE_NONE;
		if (e.stack == TRACE_NONE && inferred && inferred[a] != TRACE_NONE) {
			e.stack = inferred[a];
			e.inferred = 1;
		}
		st = look_at_stack(c, s, e.stack);
		if (!st && e.stack != TRACE_NONE)
			e.frame = c->user_frame[s][e.stack];
		if (one->categories.mem)
			e.category = (uint8_t)timeline_rules[one->categories.rule[a]].category;
		e.bytes = timeline_bytes(&one->timeline, a, TIMELINE_ALLOCATED);
		e.value = value_of(c, &e);
		if (!st)
			st = compared_place(c, &e);
	}
	return st;
}

/* ---- what only one recording has, looked at again ---- */

static int only_in(const struct compared_owner *o)
{
	return !o->run[COMPARED_B].count ? COMPARED_A : !o->run[COMPARED_A].count ? COMPARED_B : -1;
}

static int within_a_quarter(double a, double b)
{
	return a > 0 && b > 0 && a <= 1.25 * b && b <= 1.25 * a;
}

/* Does it allocate as often, or blocks as large? */
static int alike(const struct compared_owner *a, const struct compared_owner *b)
{
	double m = (double)a->run[COMPARED_A].count, n = (double)b->run[COMPARED_B].count;

	return within_a_quarter(m, n) || within_a_quarter((double)a->run[COMPARED_A].bytes / m,
							  (double)b->run[COMPARED_B].bytes / n);
}

static void put_together(struct compared_owner *a, struct compared_owner *b,
			 struct compared_kinds *a_kinds, struct compared_kinds *b_kinds,
			 enum plim_diff_match how)
{
	a->match = (uint8_t)how;
	a->run[COMPARED_B] = b->run[COMPARED_B];
	a->stack[COMPARED_B] = b->stack[COMPARED_B];
	a->frame[COMPARED_B] = b->frame[COMPARED_B];
	a->largest[COMPARED_B] = b->largest[COMPARED_B];
	b->into = a->into;
	b->run[COMPARED_B] = (struct compared_sum){ 0 };
	for (int m = 0; m < COMPARED_MOMENTS; m++) {
		a->at[m][COMPARED_B] = b->at[m][COMPARED_B];
		b->at[m][COMPARED_B] = (struct compared_sum){ 0 };
		for (int k = 0; a_kinds && k < TIMELINE_CATEGORIES; k++) {
			a_kinds->bytes[m][COMPARED_B][k] = b_kinds->bytes[m][COMPARED_B][k];
			b_kinds->bytes[m][COMPARED_B][k] = 0;
		}
	}
}

struct leftover {
	uint32_t whole, key, inferred, side;
	uint64_t bytes;
	uint32_t number;
};

/* Same key together, A's before B's, those that allocate most first. */
static int by_key(const void *a, const void *b)
{
	const struct leftover *x = a, *y = b;
	const uint32_t p[] = { x->whole, x->key, x->inferred, x->side },
		       q[] = { y->whole, y->key, y->inferred, y->side };

	for (size_t i = 0; i < sizeof(p) / sizeof(*p); i++)
		if (p[i] != q[i])
			return p[i] < q[i] ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static int same_key(const struct leftover *x, const struct leftover *y)
{
	return x->whole == y->whole && x->key == y->key && x->inferred == y->inferred;
}

/* Names such as <module> and <lambda> are everybody's. */
static uint32_t key_for(const struct collecting *c, const struct compared_owner *o,
			enum plim_diff_match how)
{
	int s = only_in(o);
	const struct snapshot *t;

	if (how == PLIM_DIFF_LINES || o->function == TRACE_NONE)
		return how == PLIM_DIFF_LINES ? o->loose : TRACE_NONE;
	t = c->matching->snapshot[s];
	return *snapshot_text(t, snapshot_frame(t, o->frame[s])->name) == '<' ? TRACE_NONE
									      : o->function;
}

/*
 * Owners of one key that only A or only B has: the largest of the one with the largest of the other, and so
 * on.  One and one belong together as they are, if they have all functions in common; else they have to be alike.
 */
static void pair_up(struct compared_owner *at, struct compared_kinds *kinds,
		    const struct leftover *list, size_t n, enum plim_diff_match how)
{
	size_t a = 0, b = 0;

	while (b < n && list[b].side == COMPARED_A)
		b++;
	for (size_t a_end = b; a < a_end && b < n; a++, b++) {
		struct compared_owner *x = &at[list[a].number], *y = &at[list[b].number];

		if ((n == 2 && how == PLIM_DIFF_LINES) || alike(x, y))
			put_together(x, y, kinds ? &kinds[list[a].number] : NULL,
				     kinds ? &kinds[list[b].number] : NULL, how);
	}
}

static enum plim_status look_again(struct collecting *c, struct compared_owner *at, size_t n,
				   struct compared_kinds *kinds, enum plim_diff_match how)
{
	VEC(struct leftover) list = { 0 };
	struct mem *m = c->out->mem;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < n; i++) {
		int s = only_in(&at[i]);
		uint32_t key;

		if (s < 0 || at[i].into != i)
			continue;
		key = key_for(c, &at[i], how);
		if (key != TRACE_NONE)
			st = vec_push(m, &list,
				      ((struct leftover){ at[i].whole, key, at[i].inferred,
							  (uint32_t)s, at[i].run[s].bytes, i }),
				      c->err);
	}
	if (!st && list.n)
		sort_items(list.at, list.n, sizeof(*list.at), by_key);
	for (size_t i = 0, end; !st && i < list.n; i = end) {
		for (end = i; end < list.n && same_key(&list.at[i], &list.at[end]); end++)
			;
		pair_up(at, kinds, &list.at[i], end - i, how);
	}
	vec_release(m, &list);
	return st;
}

static void name_matches(const struct collecting *c, struct compared_owner *at, size_t n,
			 int by_stack)
{
	for (size_t i = 0; i < n; i++) {
		struct compared_owner *o = &at[i];
		int s = only_in(o);
		int moved = by_stack ? stack_has_moved(c, COMPARED_B, o->stack[COMPARED_B])
				     : has_moved(c, COMPARED_B, o->frame[COMPARED_B]);

		o->match = s == COMPARED_A   ? PLIM_DIFF_ONLY_A
			   : s == COMPARED_B ? PLIM_DIFF_ONLY_B
			   : moved           ? PLIM_DIFF_MOVED
					     : PLIM_DIFF_EXACT;
	}
}

/* Parts of owners that were put together are of one owner. */
static enum plim_status match_all(struct collecting *c)
{
	struct compared_owners *o = c->out;
	enum plim_status st;

	name_matches(c, o->list.at, o->list.n, o->group == COMPARED_BY_STACK);
	name_matches(c, o->parts.at, o->parts.n, 1);
	if (o->group > COMPARED_BY_STACK) {
		for (size_t i = 0; i < o->list.n; i++)
			o->list.at[i].match = PLIM_DIFF_EXACT;
		return look_again(c, o->parts.at, o->parts.n, NULL, PLIM_DIFF_LINES);
	}
	st = look_again(c, o->list.at, o->list.n, o->kinds.at, PLIM_DIFF_LINES);
	if (!st)
		st = look_again(c, o->list.at, o->list.n, o->kinds.at, PLIM_DIFF_FUNCTION);
	for (size_t i = 0; !st && i < o->parts.n; i++)
		o->parts.at[i].whole = o->list.at[o->parts.at[i].whole].into;
	return st ? st : look_again(c, o->parts.at, o->parts.n, NULL, PLIM_DIFF_LINES);
}

/* How much of what Python allocated comes from owners that the other recording has too. */
static void find_shared(struct compared_owners *o)
{
	for (int s = 0; s < 2; s++) {
		double all = 0, both = 0;

		for (size_t i = 0; i < o->list.n; i++) {
			const struct compared_owner *one = &o->list.at[i];

			if (one->frame[s] == TRACE_NONE)
				continue;
			all += (double)one->run[s].bytes;
			both += only_in(one) < 0 ? (double)one->run[s].bytes : 0;
		}
		o->shared[s] = all > 0 ? both / all : NAN;
	}
}

static enum plim_status take_stacks(struct collecting *c)
{
	for (int s = 0; s < 2; s++) {
		size_t n = c->matching->snapshot[s]->stacks.n;

		c->sequence[s] = mem_new(c->out->mem, n, sizeof(uint32_t), c->err);
		c->user_frame[s] = mem_new(c->out->mem, n, sizeof(uint32_t), c->err);
		if (!c->sequence[s] || !c->user_frame[s])
			return mem_status(c->err);
		memset(c->sequence[s], 0xff, n * sizeof(uint32_t));
	}
	return PLIM_OK;
}

enum plim_status recording_compare(const struct comparison *of, enum compared_group group,
				   struct compared_owners *out, struct plim_err *err)
{
	struct mem *m = of->mem;
	struct collecting c = { .of = of, .matching = of->matching, .out = out, .err = err };
	struct intern *keys[] = { &c.owners, &c.parts, &c.sequences, &c.loose };
	enum plim_status st;

	*out = (struct compared_owners){ .mem = m, .group = group };
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		intern_init(keys[i], m);
	st = take_stacks(&c);
	for (int s = 0; !st && s < 2; s++)
		st = collect_compared(&c, s);
	if (!st)
		st = match_all(&c);
	if (!st)
		find_shared(out);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		intern_release(keys[i]);
	for (int s = 0; s < 2; s++) {
		mem_free(m, c.sequence[s], c.matching->snapshot[s]->stacks.n, sizeof(uint32_t));
		mem_free(m, c.user_frame[s], c.matching->snapshot[s]->stacks.n, sizeof(uint32_t));
	}
	if (st)
		compared_release(out);
	return st;
}

void compared_release(struct compared_owners *o)
{
	if (!o->mem)
		return;
	vec_release(o->mem, &o->list);
	vec_release(o->mem, &o->parts);
	vec_release(o->mem, &o->kinds);
	o->mem = NULL;
}
