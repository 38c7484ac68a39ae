#include "cycle.h"

#define LOOK_AHEAD 64u   /* requests that may be left out before the cursor is lost */
#define FADE 256u        /* requests over which misses are weighed */
#define LOST_PART 16u    /* lost when more than this part of the bytes was missed */
#define UNLIKE_PART 16u  /* a repetition may differ in this part of its requests */
#define UNLIKE_IN_ROW 4u /* so many differences one after another: it is shifted, or over */
#define GROWTH_PART 128u /* of all bytes of a turn: what may stay behind after it */
#define PEAK_PART 4u /* a cycle that does not come this near to the stream's peak decides nothing */
#define AMBIGUOUS (CYCLE_NONE - 1)
#define CONFIRM_REQUESTS \
	8u /* at so many in a row as much must be live as the cycle has it, before it is believed */
#define CONFIRM_PART 32u /* ... except for this part */
#define STEADY 4u        /* hits in a row after a miss before places are given out again */

void cycle_lane_init(struct cycle_lane *l, struct mem *m, int learns)
{
	*l = (struct cycle_lane){ .mem = m, .learns = (uint8_t)(learns != 0) };
}

static void cycle_release(struct mem *m, struct cycle *c)
{
	mem_free(m, c->at, c->n, sizeof(*c->at));
	mem_free(m, c->places, c->mask + 1, sizeof(*c->places));
	*c = (struct cycle){ 0 };
}

static void drop_cycle(struct cycle_lane *l, uint32_t number)
{
	cycle_release(l->mem, &l->cycles[number]);
}

void cycle_forget(struct cycle_lane *l)
{
	while (l->cycle_count)
		drop_cycle(l, --l->cycle_count);
	l->following = l->trusted = l->confirmed = 0;
	l->period = 0;
}

void cycle_lane_release(struct cycle_lane *l)
{
	cycle_forget(l);
	mem_free(l->mem, l->past, CYCLE_HISTORY, sizeof(*l->past));
	mem_free(l->mem, l->last_seen, CYCLE_HISTORY, sizeof(*l->last_seen));
	l->past = NULL;
	l->last_seen = NULL;
}

/* ---- where we are ---- */

static uint32_t mix(uint32_t hash, uint32_t units)
{
	uint64_t x = ((uint64_t)hash << 32 | units) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(x >> 32) ^ (uint32_t)(x >> 7);
}

/* Of the CYCLE_MATCH entries that end with `last`. */
static uint32_t hash_of_entries(const struct cycle *c, uint32_t last)
{
	uint32_t hash = 1;

	for (uint32_t k = CYCLE_MATCH; k--;)
		hash = mix(hash, c->at[(last + c->n * CYCLE_MATCH - k) % c->n].units);
	return hash;
}

/* The same of the requests up to now. */
static uint32_t hash_of_recent(const struct cycle_lane *l)
{
	uint32_t hash = 1;

	for (uint32_t k = CYCLE_MATCH; k--;)
		hash = mix(hash, l->recent[(l->position - k) % CYCLE_MATCH]);
	return hash;
}

static struct cycle_place *cycle_place_of(const struct cycle *c, uint32_t hash)
{
	uint32_t s = hash & c->mask;

	while (c->places[s].position != CYCLE_NONE && c->places[s].hash != hash)
		s = (s + 1) & c->mask;
	return &c->places[s];
}

static enum plim_status index_places(struct mem *m, struct cycle *c, struct plim_err *err)
{
	uint32_t size = 16;

	while (size < 2 * c->n)
		size *= 2;
	c->places = mem_new(m, size, sizeof(*c->places), err);
	if (!c->places)
		return mem_status(err);
	c->mask = size - 1;
	for (uint32_t i = 0; i < size; i++)
		c->places[i].position = CYCLE_NONE;
	for (uint32_t i = 0; i < c->n; i++) {
		uint32_t hash = hash_of_entries(c, i);
		struct cycle_place *p = cycle_place_of(c, hash);

		*p = (struct cycle_place){ hash, p->position == CYCLE_NONE ? i : AMBIGUOUS };
	}
	return PLIM_OK;
}

static void found(struct cycle_lane *l, uint32_t cycle, uint32_t next)
{
	l->current = cycle;
	l->next = next;
	l->following = 1;
	l->confirmed = 0;
	l->missed_units = l->seen_units = 0;
	l->last_units = 0;
	l->hits_in_row = STEADY;
	l->alike = 0;
}

static void lose(struct cycle_lane *l)
{
	l->following = l->trusted = l->confirmed = 0;
	l->counts.lost++;
}

/*
 * Sizes alone do not say where we are: weights are loaded in the order in which an optimizer makes its temporaries, and the
 * first step lacks what the optimizer keeps.  What is put into a plan's area then would lie in its way for ever.
 */
static void confirm(struct cycle_lane *l, uint32_t live)
{
	uint32_t off = live > l->live_units ? live - l->live_units : l->live_units - live;

	l->alike = off <= live / CONFIRM_PART ? l->alike + 1 : 0;
	l->confirmed = l->alike >= CONFIRM_REQUESTS;
}

static uint32_t hit(struct cycle_lane *l, uint32_t at)
{
	struct cycle *c = &l->cycles[l->current];

	if (!l->confirmed)
		confirm(l, c->at[at].live);
	l->counts.hits++;
	l->counts.hit_bytes += (uint64_t)c->at[at].units * 512;
	l->next = at + 1 < c->n ? at + 1 : 0;
	if (!l->next) {
		l->trusted = l->confirmed && !l->unlike_in_turn;
		l->unlike_in_turn = 0;
	}
	l->last_units = 0;
	l->hits_in_row++;
	c->used_at = l->position;
	return l->confirmed && l->hits_in_row > STEADY ? c->at[at].offset : CYCLE_NONE;
}

/* A cycle other than `except` in which the last requests come at one place alone, and that place; CYCLE_NONE: there is none. */
static uint32_t cycle_of_recent(const struct cycle_lane *l, uint32_t except, uint32_t *at)
{
	uint32_t hash = hash_of_recent(l);

	for (uint32_t i = 0; i < l->cycle_count; i++) {
		*at = cycle_place_of(&l->cycles[i], hash)->position;
		if (i != except && *at < AMBIGUOUS)
			return i;
	}
	return CYCLE_NONE;
}

/* Lost: do the last requests say where we are? */
static uint32_t find_cycle(struct cycle_lane *l)
{
	uint32_t at, cycle = cycle_of_recent(l, CYCLE_NONE, &at);

	if (cycle == CYCLE_NONE) {
		l->counts.misses++;
		return CYCLE_NONE;
	}
	found(l, cycle, at);
	l->counts.found++;
	return hit(l, at);
}

/*
 * Another request than the cycle has: is it another cycle's?  Between steps of two kinds it often stands, with those before it, at
 * one place alone, while later ones repeat with each layer.  If as much was live as the cycle had, one request more that is alike
 * confirms the other.
 */
static uint32_t change_cycle(struct cycle_lane *l, uint32_t to, uint32_t at)
{
	int confirmed = l->confirmed;

	found(l, to, at);
	l->alike = confirmed ? CONFIRM_REQUESTS - 1 : 0;
	l->counts.found++;
	return hit(l, at);
}

/* Another request than the cycle has: were some left out, or is one put in? */
static uint32_t miss(struct cycle_lane *l, uint32_t units)
{
	const struct cycle *c = &l->cycles[l->current];
	uint32_t at, to = cycle_of_recent(l, l->current, &at);

	if (to != CYCLE_NONE)
		return change_cycle(l, to, at);
	for (uint32_t k = 0; l->last_units && k < LOOK_AHEAD && k < c->n; k++) {
		uint32_t then = (l->next + k + 1) % c->n;

		at = (l->next + k) % c->n;
		if (c->at[at].units == l->last_units && c->at[then].units == units)
			return hit(l, then);
	}
	l->counts.misses++;
	l->unlike_in_turn++;
	l->trusted = 0;
	l->hits_in_row = 0;
	l->last_units = units;
	l->missed_units += units;
	if (l->missed_units > l->seen_units / LOST_PART) {
		lose(l);
	}
	return CYCLE_NONE;
}

static uint32_t follow_cycle(struct cycle_lane *l, uint32_t units)
{
	if (!l->cycle_count)
		return CYCLE_NONE;
	if (!l->following)
		return find_cycle(l);
	l->missed_units -= l->missed_units / FADE;
	l->seen_units += units - l->seen_units / FADE;
	if (l->cycles[l->current].at[l->next].units == units)
		return hit(l, l->next);
	return miss(l, units);
}

/* ---- learning ---- */

static struct cycle_past *past_of(const struct cycle_lane *l, uint64_t position)
{
	return &l->past[position % CYCLE_HISTORY];
}

/* The last `period` requests come again and leave nothing behind, and it is them that memory is needed for. */
static int is_cycle(const struct cycle_lane *l)
{
	uint64_t from = l->position - l->period;
	uint64_t units = 0, live = past_of(l, l->position)->live_units,
		 before = past_of(l, from)->live_units;
	uint32_t peak = 0;

	for (uint64_t i = from; i < l->position; i++) {
		const struct cycle_past *p = past_of(l, i);

		units += p->units;
		peak = p->live_units + p->units > peak ? p->live_units + p->units : peak;
	}
	return (live > before ? live - before : before - live) <= units / GROWTH_PART &&
	       peak >= l->live_peak_units - l->live_peak_units / PEAK_PART;
}

/* How long the request at `i` lives, as its like of the turn before did; 0: longer than a turn, or not always so. */
static uint32_t life_of(const struct cycle_lane *l, uint64_t i)
{
	const struct cycle_past *now = past_of(l, i), *then = past_of(l, i - l->period);
	uint32_t life = now->life > then->life ? now->life : then->life;

	if (now->units != then->units || !then->life || life > l->period)
		return 0;
	if (!now->life && l->position - i > then->life)
		return 0;
	return life;
}

enum plim_status cycle_add(struct cycle_lane *l, struct cycle_entry *at, uint32_t n,
			   uint32_t peak_units, struct plim_err *err)
{
	struct cycle c = { .at = at, .n = n, .peak_units = peak_units, .used_at = l->position };
	uint32_t number = l->cycle_count;
	enum plim_status st;

	for (uint32_t i = 0; i < n; i++)
		if (at[i].offset != CYCLE_NONE && at[i].offset + at[i].units > c.area_units)
			c.area_units = at[i].offset + at[i].units;
	st = index_places(l->mem, &c, err);
	if (st) {
		cycle_release(l->mem, &c);
		return st;
	}
	if (number == CYCLES_MAX) {
		number = 0;
		for (uint32_t i = 1; i < CYCLES_MAX; i++)
			if (l->cycles[i].used_at < l->cycles[number].used_at)
				number = i;
		drop_cycle(l, number);
	} else {
		l->cycle_count++;
	}
	l->cycles[number] = c;
	l->current = number;
	return PLIM_OK;
}

void cycle_conflict(struct cycle_lane *l)
{
	l->conflicts++;
	l->unlike_in_turn++;
	l->trusted = 0;
}

static void learn(struct cycle_lane *l)
{
	struct cycle c = { .n = l->period };
	struct plim_err err = { 0 };

	c.at = mem_new(l->mem, c.n, sizeof(*c.at), &err);
	if (!c.at)
		return;
	for (uint32_t i = 0; i < c.n; i++) {
		uint64_t at = l->position - c.n + i;

		c.at[i] = (struct cycle_entry){ past_of(l, at)->units, life_of(l, at), CYCLE_NONE,
						past_of(l, at)->live_units };
	}
	if (cycle_pack(l->mem, &c, &err)) {
		mem_free(l->mem, c.at, c.n, sizeof(*c.at));
		return;
	}
	for (uint32_t i = 0; i < c.n; i++)
		c.at[i].offset += c.at[i].offset == CYCLE_NONE ? 0 : l->area_from;
	if (cycle_add(l, c.at, c.n, c.peak_units, &err))
		return;
	found(l, l->current, 0);
	l->trusted = l->confirmed = 1;
	l->counts.learned++;
}

/* The last requests are like those of a period before: what repeats is not over. */
static int repeats_now(const struct cycle_lane *l, uint32_t units)
{
	uint32_t unlike = past_of(l, l->position - l->period)->units != units;

	for (uint32_t k = 1; k <= CYCLE_MATCH; k++)
		unlike += past_of(l, l->position - k)->units !=
			  past_of(l, l->position - k - l->period)->units;
	return !unlike;
}

/* A request like that of a period before, or not. */
static void compare_cycle(struct cycle_lane *l, uint32_t units)
{
	l->run++;
	if (past_of(l, l->position - l->period)->units == units) {
		l->unlike_in_row = 0;
		return;
	}
	l->unlike++;
	if (++l->unlike_in_row >= UNLIKE_IN_ROW || l->unlike > l->run / UNLIKE_PART + 1)
		l->period = 0;
}

/* Begin to watch, where the last requests came before. */
static void take_up(struct cycle_lane *l)
{
	uint32_t hash = hash_of_recent(l);
	uint64_t *seen = &l->last_seen[hash % CYCLE_HISTORY];
	uint64_t then = *seen >> 32 == hash ? (uint32_t)*seen : 0;
	uint64_t back = (uint32_t)l->position - then;

	if (!l->period && then && back <= CYCLE_LONGEST && back <= l->position) {
		l->period = (uint32_t)back;
		l->run = l->unlike = l->unlike_in_row = 0;
		l->judge_at = l->period;
		l->missed_before = l->counts.misses + l->conflicts;
	}
	*seen = (uint64_t)hash << 32 | (uint32_t)l->position;
}

static int ready_to_learn(struct cycle_lane *l)
{
	if (!l->past) {
		struct plim_err err = { 0 };

		l->past = mem_new(l->mem, CYCLE_HISTORY, sizeof(*l->past), &err);
		l->last_seen = l->past ? mem_new(l->mem, CYCLE_HISTORY, sizeof(*l->last_seen), &err)
				       : NULL;
		if (!l->last_seen) {
			mem_free(l->mem, l->past, CYCLE_HISTORY, sizeof(*l->past));
			l->past = NULL;
			l->learns = 0;
		}
	}
	return l->past != NULL;
}

/* Before the request is followed: a cycle that is learned here begins with it. */
static void watch(struct cycle_lane *l, uint32_t units)
{
	*past_of(l, l->position) = (struct cycle_past){ units, 0, l->live_units };
	if (l->period && l->run >= l->judge_at) {
		l->judge_at = l->run + l->period / 8 + 1;
		if ((!l->cycle_count ||
		     (l->counts.misses + l->conflicts - l->missed_before) * UNLIKE_PART * 4 >=
			     l->run) &&
		    repeats_now(l, units) && is_cycle(l)) {
			learn(l);
			l->missed_before = l->counts.misses + l->conflicts;
			l->run = 0;
			l->judge_at = l->period;
		}
	}
	if (l->period)
		compare_cycle(l, units);
}

uint32_t cycle_next(struct cycle_lane *l, uint32_t units)
{
	uint32_t offset;
	int learns = l->learns && ready_to_learn(l);

	l->recent[l->position % CYCLE_MATCH] = units;
	if (learns)
		watch(l, units);
	offset = follow_cycle(l, units);
	if (learns)
		take_up(l);
	l->position++;
	l->live_units += units;
	if (l->live_units > l->live_peak_units)
		l->live_peak_units = l->live_units;
	return offset;
}

void cycle_freed(struct cycle_lane *l, uint64_t position, uint32_t units)
{
	l->live_units -= units;
	if (l->past && l->position - position < CYCLE_HISTORY - 1)
		past_of(l, position - 1)->life = (uint32_t)(l->position - position + 1);
}
