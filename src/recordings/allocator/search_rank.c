/* Of the runs of a search: which is best. */
#include "allocator.h"

#include <string.h>

#define WORTH_PART 10
#define CLEARLY_PART 32 /* a limit that is smaller by one part of so many is clearly better */

static int certainly_survives(const struct plim_whatif_run *run)
{
	return run->outcome == PLIM_WHATIF_OK ? 1 + run->outcome_certain : 0;
}

static int compare_ranked(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Settings that are to be set, counted: fewer are simpler. */
static uint64_t keys(const struct plim_whatif_run *run)
{
	uint64_t n = *run->settings != 0;

	n += run->plan && strchr(run->settings, '='); /* a file to keep */

	for (const char *at = run->settings; (at = strchr(at, ',')); at++)
		n++;
	return n;
}

/* < 0: a is better. */
static int better(const struct plim_whatif_run *a, const struct plim_whatif_run *b)
{
	int c = certainly_survives(b) - certainly_survives(a);

	if (!c) /* PLIM_UNKNOWN is the largest number, and the same for all */
		c = compare_ranked(a->smallest_limit_bytes, b->smallest_limit_bytes);
	if (!c)
		c = compare_ranked(a->retries, b->retries);
	if (!c)
		c = compare_ranked(a->reserved_peak_bytes, b->reserved_peak_bytes);
	return c ? c : compare_ranked(keys(a), keys(b));
}

static int by_rank(const void *a, const void *b)
{
	const struct plim_whatif_run *const *x = a, *const *y = b;
	int c = better(*x, *y);

	return c ? c : (*x > *y) - (*x < *y);
}

void allocator_search_rank(const struct plim_whatif *w, const struct plim_whatif_run **order)
{
	for (size_t i = 0; i < w->run_count; i++)
		order[i] = &w->runs[i];
	sort_items(order, w->run_count, sizeof(*order), by_rank);
}

/* What counts when two settings are compared: the limit they need, or what they reserve. */
static uint64_t need(const struct plim_whatif_run *run)
{
	return run->smallest_limit_bytes != PLIM_UNKNOWN ? run->smallest_limit_bytes
							 : run->reserved_peak_range_bytes.high;
}

/* Smaller by more than what is worth a change. */
static int clearly_less(uint64_t a, uint64_t b)
{
	return a + a / CLEARLY_PART < b;
}

/* Of a run that fits: as much less as report calls fragmentation (pools.c). */
static int worth_it(uint64_t a, uint64_t b)
{
	return a < b && (b - a) * WORTH_PART >= b;
}

/* Does `a` ask less of its user: memory that others could have, or else keys to set? */
static int costs_less(const struct plim_whatif_run *a, const struct plim_whatif_run *b)
{
	uint64_t x = a->reserved_peak_range_bytes.high, y = b->reserved_peak_range_bytes.high;

	if (clearly_less(x, y) || clearly_less(y, x))
		return x < y;
	return keys(a) < keys(b);
}

/* Of those that are about as good as the best, the one that costs least. */
static const struct plim_whatif_run *cheapest(const struct plim_whatif *w,
					      const struct plim_whatif_run *const *order)
{
	const struct plim_whatif_run *best = order[0];
	uint64_t most = need(best) + need(best) / CLEARLY_PART;

	for (size_t i = 1; i < w->run_count; i++) {
		const struct plim_whatif_run *one = order[i];

		if (certainly_survives(one) == certainly_survives(order[0]) && need(one) <= most &&
		    one->retries <= order[0]->retries && costs_less(one, best))
			best = one;
	}
	return best;
}

/* Where the recording failed: what people set first, if it survives. */
static const struct plim_whatif_run *first_survivor(const struct plim_whatif *w)
{
	if (!w->death || strcmp(w->bound.basis, "recorded") != 0)
		return NULL;
	for (size_t k = 0; k < ALLOCATOR_FIRST_SETTINGS; k++)
		for (size_t i = 0; i < w->run_count; i++)
			if (!strcmp(w->runs[i].settings, allocator_first_settings[k]) &&
			    certainly_survives(&w->runs[i]) == 2)
				return &w->runs[i];
	return NULL;
}

static int clearly_better(const struct plim_whatif_run *a, const struct plim_whatif_run *own)
{
	if (certainly_survives(a) < 2)
		return 0;
	if (own->outcome == PLIM_WHATIF_OOM)
		return own->outcome_certain;
	/* a wait of ours costs less than a release of the whole cache */
	if ((!a->plan && a->retries > own->retries) || need(a) > need(own) ||
	    clearly_less(own->reserved_peak_range_bytes.high, a->reserved_peak_range_bytes.high))
		return 0;
	/* nothing died: a change has to be worth its costs */
	return worth_it(need(a), need(own)) ||
	       worth_it(a->reserved_peak_range_bytes.high, own->reserved_peak_range_bytes.low);
}

enum plim_status allocator_search_best(const struct plim_whatif *w, struct arena *arena,
				       const struct plim_whatif_run **out, struct plim_err *err)
{
	const struct plim_whatif_run **order = arena_take(arena, w->run_count, sizeof(*order), err);
	const struct plim_whatif_run *best;

	*out = NULL;
	if (!order)
		return mem_status(err);
	allocator_search_rank(w, order);
	*out = first_survivor(w);
	best = !*out && w->run_count ? cheapest(w, order) : NULL;
	if (best && strcmp(best->settings, w->as_recorded->settings) &&
	    clearly_better(best, w->as_recorded))
		*out = best;
	return PLIM_OK;
}
