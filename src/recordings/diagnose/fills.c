/*
 * When what leaks will have filled a GPU, if the program goes on as it did.
 *
 * Not before: what was reserved, one more of the largest segment (a kept block may lie where the next large request would
 * have been served) and the growth, each kept block with what its segment loses, reach what the GPU certainly has.  Not
 * after: what was requested at the highest of a repetition, and the growth without any rounding, exceed all of the GPU.
 */
#include "diagnose.h"

#include "allocator/allocator.h"

#include <math.h>
#include <string.h>

#define ALLOWANCE_BYTES ((uint64_t)896 << 20) /* as whatif's: CUDA's context and libraries */
#define MIB ((uint64_t)1 << 20)
#define WINDOWS 4 /* stretches of two repetitions each, whose highest is looked at */
#define BINS_MAX 64
#define SMALL_PART 16 /* of the largest: what is smaller decides nothing */
#define SPREAD_LEAST 0.01
#define SPREAD_MOST 0.5
#define CARDS 2 /* that are reported when none is asked for */

struct growth {
	const char *period;
	uint32_t first, last, repetitions;
	uint32_t told;    /* the last event of the leak that is reported first */
	double low, high; /* a repetition: without rounding; with what segments lose */
	int large;        /* some of it is in the pool whose blocks are split for any size */
};

/* What a block of so many bytes takes of the driver, where nothing fills the rest of its segment. */
static uint64_t footprint(uint64_t bytes)
{
	if (bytes <= MIB)
		return bytes;
	if (bytes < 10 * MIB)
		return 20 * MIB / (20 * MIB / bytes);
	return (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
}

/* Of an allocation that the recording saw: what is older belongs to no repetition of it. */
static uint64_t block_seen(const struct diagnosis *x, uint32_t a)
{
	return x->tl->device->allocs[a].born == TRACE_NONE ? 0 : x->tl->replay->block_bytes[a];
}

/* How far the mean of so many repetitions may be off, if each keeps as many large allocations. */
static double spread_of(const struct diagnosis *x, const struct finding *f, size_t bin_count)
{
	double bins[BINS_MAX + 1] = { 0 }, mean = 0, square = 0, part;
	uint64_t largest = 0;
	size_t n = 0, at = 0;

	bin_count = bin_count < BINS_MAX ? bin_count : BINS_MAX;
	for (size_t i = 0; i < f->about.n; i++)
		if (block_seen(x, f->about.at[i]) > largest)
			largest = block_seen(x, f->about.at[i]);
	for (size_t i = 0; i < f->about.n; i++)
		n += block_seen(x, f->about.at[i]) > largest / SMALL_PART;
	for (size_t i = 0; i < f->about.n; i++)
		if (block_seen(x, f->about.at[i]) > largest / SMALL_PART)
			bins[at++ * bin_count / n] += (double)block_seen(x, f->about.at[i]);
	for (size_t i = 0; i < bin_count; i++)
		mean += bins[i] / (double)bin_count;
	for (size_t i = 0; i < bin_count; i++)
		square += (bins[i] - mean) * (bins[i] - mean);
	part = mean > 0 ? 2 * sqrt(square) / (double)bin_count / mean : SPREAD_MOST;
	return part < SPREAD_LEAST ? SPREAD_LEAST : part > SPREAD_MOST ? SPREAD_MOST : part;
}

static void add_line(const struct diagnosis *x, const struct finding *f, struct growth *g)
{
	const struct snapshot_alloc *allocs = x->tl->device->allocs;
	double bytes = (double)f->leak.per_repetition_bytes, one, two;
	uint64_t requested = 0, all = 0, blocks = 0;

	if (!f->about.n)
		return;
	for (size_t i = 0; i < f->about.n; i++) {
		uint32_t a = f->about.at[i];

		requested += allocs[a].requested_bytes;
		all += footprint(x->tl->replay->block_bytes[a]);
		blocks += x->tl->replay->block_bytes[a];
		g->large |= x->tl->replay->block_bytes[a] > MIB;
	}
	/* between whole repetitions there is one less than there are repetitions */
	one = spread_of(x, f, f->leak.repetitions);
	two = spread_of(x, f, f->leak.repetitions + 1u);
	one = two < one ? two : one;
	g->low += bytes * (double)requested / (double)blocks * (1 - one);
	g->high += bytes * (double)all / (double)blocks * (1 + one);
	g->first = f->leak.first_event < g->first ? f->leak.first_event : g->first;
	g->last = f->leak.last_event > g->last ? f->leak.last_event : g->last;
	if (f->leak.repetitions > g->repetitions)
		g->repetitions = f->leak.repetitions;
}

/* All lines that leak with the period of the first. */
static int find_growth(const struct diagnosis *x, const struct findings_list *list,
		       struct growth *g)
{
	*g = (struct growth){ .first = TRACE_NONE };
	for (size_t i = 0; i < list->all.n; i++) {
		const struct finding *f = &list->all.at[i];

		if (strcmp(f->id, "leak") != 0 || (g->period && strcmp(g->period, f->period) != 0))
			continue;
		g->told = g->period ? g->told : f->leak.last_event;
		g->period = f->period;
		add_line(x, f, g);
	}
	return g->repetitions && g->last > g->first && g->low > 0;
}

/* The highest of the last repetition, at the least: of those before, with what has grown since. */
static uint64_t highest(const struct diagnosis *x, const struct growth *g)
{
	uint32_t length = 2 * ((g->last - g->first) / g->repetitions + 1), end = g->last;
	uint64_t least = UINT64_MAX, top;

	for (unsigned i = 0; i < WINDOWS && (!i || end >= g->first + length); i++) {
		uint32_t from = end >= length ? end - length : 0;

		timeline_sample(x->tl, TIMELINE_REQUESTED, from, end, &top, 1);
		top += (uint64_t)(2 * i * g->low);
		least = top < least ? top : least;
		end = from;
	}
	return least;
}

/* One more segment that a request may need, for a kept block lies in the one that served it. */
static uint64_t largest_segment(const struct diagnosis *x, const struct growth *g)
{
	const struct snapshot_events *ev = &x->tl->device->events;
	uint64_t largest = 2 * MIB;

	for (uint32_t e = 0; g->large && e < ev->n; e++)
		if ((ev->action[e] == TRACE_SEGMENT_ALLOC || ev->action[e] == TRACE_SEGMENT_MAP) &&
		    ev->size[e] > largest)
			largest = ev->size[e];
	return largest;
}

static struct plim_report_fill fill_of(const struct diagnosis *x, const struct growth *g,
				       const struct diagnose_room *room)
{
	uint64_t limit = room->certain_bytes, all = room->all_bytes, high = highest(x, g);
	uint64_t taken = x->tl->peak[TIMELINE_RESERVED] + largest_segment(x, g);
	uint64_t step = recording_step_of(x->device, g->told);
	struct plim_report_fill f = { .gpu = room->card,
				      .limit_bytes = limit,
				      .period = g->period,
				      .step = INTERVAL_UNKNOWN };

	f.repetitions.low = taken < limit ? (uint64_t)((double)(limit - taken) / g->high) : 0;
	f.repetitions.high = high < all ? (uint64_t)((double)(all - high) / g->low) + 2 : 0;
	if (step != PLIM_UNKNOWN && !strcmp(g->period, "step"))
		f.step = (struct plim_interval){ step + f.repetitions.low,
						 step + f.repetitions.high };
	return f;
}

static struct diagnose_room room_of(const struct facts_gpu *gpu)
{
	return (struct diagnose_room){ gpu->name, gpu->total_low_bytes - ALLOWANCE_BYTES,
				       gpu->total_high_bytes };
}

/* The next larger of what people have: memory of another size each. */
static size_t choose_fill(const struct diagnosis *x, const struct facts_gpu *cards[CARDS])
{
	static const char *const common[] = { "T4",        "RTX 4090", "A100 40GB",
					      "H100 80GB", "H200",     "B200" };
	size_t n = 0;

	if (snapshot_platform_of(x->tl->snapshot).backend != SNAPSHOT_CUDA)
		return 0; /* these are not the GPUs that it may run on */
	for (size_t i = 0; i < sizeof(common) / sizeof(common[0]) && n < CARDS; i++) {
		const struct facts_gpu *gpu;

		if (!facts_find_gpu(common[i], "", &gpu, NULL) &&
		    gpu->total_low_bytes - ALLOWANCE_BYTES > x->tl->peak[TIMELINE_RESERVED])
			cards[n++] = gpu;
	}
	return n;
}

int diagnose_fill(const struct diagnosis *x, const struct findings_list *list,
		  const struct diagnose_room *room, struct plim_report_fill *out)
{
	struct growth g;

	if (!find_growth(x, list, &g))
		return 0;
	*out = fill_of(x, &g, room);
	return 1;
}

enum plim_status diagnose_fills(const struct diagnosis *x, const struct findings_list *list,
				const char *gpu, struct plim_report_fill **out, size_t *count,
				struct plim_err *err)
{
	const struct facts_gpu *cards[CARDS];
	struct growth g;
	enum plim_status st = PLIM_OK;
	size_t n = 0;

	*out = NULL;
	*count = 0;
	if (gpu) {
		st = facts_find_gpu(gpu, "none", &cards[0], err);
		n = 1;
	}
	if (st || !find_growth(x, list, &g))
		return st;
	n = gpu ? n : choose_fill(x, cards);
	*out = arena_take(x->names->arena, n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (size_t i = 0; i < n; i++) {
		const struct diagnose_room room = room_of(cards[i]);

		(*out)[i] = fill_of(x, &g, &room);
	}
	*count = n;
	return PLIM_OK;
}
