/*
 * replay RECORDING [SEED [THREADS]]: the requests of a recording through the hooks of libplimsoll_alloc.so, over the fake driver.
 *
 * Reserved memory must be what `whatif --plan` says, to the byte.  With a SEED four requests in three hundred are dropped, doubled,
 * resized, or swapped with the next: then nothing may be handed out twice, and reserved must stay near what was live.  With
 * THREADS as many play it at once, each on streams of its own and with a seed of its own: only the former is checked.
 *
 * With a plan of another run in PLIMSOLL_ALLOC_PLAN its hits are reported, and reserved may be 2 % and 32 MiB more than the better of PyTorch's
 * default settings and expandable segments.  `replay RECORDING limit`: it must survive the smallest limit that one of them does.
 */
#include "fake_cuda.h"

#include "../../runtime/allocator/alloc.h"
#include "commands/whatif/whatif.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define CARD ((uint64_t)80 << 30)
#define THREADS_MAX 3u
#define STREAMS 5u /* of a thread; the fake driver has 16 */

struct play {
	const struct program *p;
	uint64_t *addr, *bytes; /* of each request */
	uint32_t seed, thread;
	const struct program_op *held; /* comes behind the next request */
};

static _Atomic uint64_t refusals;

static void note(const char *text)
{
	(void)text;
	refusals++;
}

static uint32_t next_random(struct play *y)
{
	y->seed = y->seed * 1664525u + 1013904223u;
	return y->seed >> 8;
}

static void *own_stream(const struct play *y, uint32_t stream)
{
	return (void *)(uintptr_t)(y->thread * STREAMS + stream + 1);
}

static void *stream_of(const struct play *y, uint32_t request)
{
	return own_stream(y, y->p->requests.at[request].stream);
}

static void take(struct play *y, uint32_t request, uint64_t bytes)
{
	void *s = stream_of(y, request);

	if (!bytes || y->addr[request])
		return;
	y->addr[request] = (uint64_t)(uintptr_t)plimsoll_malloc((ssize_t)bytes, 0, s);
	y->bytes[request] = bytes;
	if (y->addr[request])
		fake_touch(s, y->addr[request], bytes); /* fails where others work on it */
}

static void take_held(struct play *y)
{
	const struct program_op *op = y->held;

	y->held = NULL;
	if (op)
		take(y, op->request, y->p->requests.at[op->request].bytes);
}

static void give(struct play *y, uint32_t request)
{
	if (y->held && y->held->request == request)
		take_held(y);
	if (y->addr[request])
		plimsoll_free((void *)(uintptr_t)y->addr[request], (ssize_t)y->bytes[request], 0,
			      stream_of(y, request));
	y->addr[request] = 0;
}

/* A request that is none of the recording's: taken, and given back at once or at the end. */
static void take_more(struct play *y, uint32_t request)
{
	void *s = stream_of(y, request);
	uint64_t bytes = 1 + next_random(y) % (8 * MIB);
	void *at = plimsoll_malloc((ssize_t)bytes, 0, s);

	if (at)
		fake_touch(s, (uint64_t)(uintptr_t)at, bytes);
	if (at)
		plimsoll_free(at, (ssize_t)bytes, 0, s);
}

static void alloc_op(struct play *y, const struct program_op *op)
{
	uint64_t bytes = y->p->requests.at[op->request].bytes;
	uint32_t change = y->seed ? next_random(y) % 300 : 9;

	if (change == 0)
		return;
	if (change == 3 && !y->held && op->kind != PROGRAM_ATTEMPT) {
		y->held = op;
		return;
	}
	if (change == 1)
		take_more(y, op->request);
	if (change == 2)
		bytes = bytes / 2 + next_random(y) % (bytes + 1);
	take(y, op->request, bytes);
	if (op->kind == PROGRAM_ATTEMPT)
		give(y, op->request);
	take_held(y);
}

static void *play(void *arg)
{
	struct play *y = arg;

	for (uint32_t i = 0; i < y->p->ops.n; i++) {
		const struct program_op *op = &y->p->ops.at[i];

		if (program_allocates(op->kind) || op->kind == PROGRAM_ATTEMPT)
			alloc_op(y, op);
		else if (op->kind == PROGRAM_FREE_DONE)
			give(y, op->request);
		else if (op->kind == PROGRAM_EMPTY_CACHE)
			plimsoll_reset();
		if (i % 64 == 0)
			for (uint32_t s = 0; s < y->p->stream_count; s++)
				fake_complete(own_stream(y, s));
	}
	return NULL;
}

/* All of them, one in this thread. */
static int play_all(struct play *y, unsigned threads)
{
	pthread_t others[THREADS_MAX];
	unsigned n = 1;

	for (; n < threads; n++) {
		y[n] = (struct play){ .p = y->p, .thread = n, .seed = y->seed + n };
		y[n].addr = calloc(y->p->requests.n + 1, sizeof(*y->addr));
		y[n].bytes = calloc(y->p->requests.n + 1, sizeof(*y->bytes));
		if (!y[n].addr || !y[n].bytes || pthread_create(&others[n], NULL, play, &y[n]))
			return 1;
	}
	(void)play(y);
	while (n-- > 1) {
		pthread_join(others[n], NULL);
		free(y[n].addr);
		free(y[n].bytes);
	}
	return 0;
}

/* What of PyTorch's settings is better: the least reserved, and the smallest limit (0: none is known). */
struct theirs {
	uint64_t reserved, limit;
};

static struct theirs best_of_pytorchs(const struct plim_whatif *w)
{
	struct theirs best = { UINT64_MAX, UINT64_MAX };

	for (size_t i = 0; i < w->run_count; i++) {
		const struct plim_whatif_run *r = &w->runs[i];

		if (r->plan)
			continue;
		if (r->reserved_peak_bytes < best.reserved)
			best.reserved = r->reserved_peak_bytes;
		if (r->smallest_limit_bytes && r->smallest_limit_bytes < best.limit)
			best.limit = r->smallest_limit_bytes;
	}
	if (best.limit == UINT64_MAX)
		best.limit = 0;
	return best;
}

static uint64_t told_of_learning(const struct plim_whatif *w)
{
	for (size_t i = 0; i < w->run_count; i++)
		if (w->runs[i].plan)
			return w->runs[i].reserved_peak_bytes;
	return 0;
}

static int judge(const struct play *y, unsigned threads, const struct plim_whatif *w)
{
	uint64_t told = told_of_learning(w), is, live;
	struct theirs best = best_of_pytorchs(w);
	struct plimsoll_alloc_stats s;

	plimsoll_alloc_stats(0, &s);
	is = s.count[PLIMSOLL_ALLOC_RESERVED_BYTES][0].peak;
	live = s.count[PLIMSOLL_ALLOC_ALLOCATED_BYTES][0].peak;
	printf("%s: told %llu, is %llu, live %llu\n", w->source.path, (unsigned long long)told,
	       (unsigned long long)is, (unsigned long long)live);
	if (threads > 1) /* how they meet is chance, and so is what is reserved, or refused */
		return !live || is < live;
	if (refusals)
		return 1;
	if (getenv("PLIMSOLL_ALLOC_PLAN")) {
		printf("hits %llu, misses %llu, hit bytes %llu, conflicts %llu, better of "
		       "PyTorch's %llu\n",
		       (unsigned long long)s.plan_hits, (unsigned long long)s.plan_misses,
		       (unsigned long long)s.plan_hit_bytes, (unsigned long long)s.plan_conflicts,
		       (unsigned long long)best.reserved);
		return is > best.reserved + best.reserved / 50 + 32 * MIB;
	}
	return y->seed ? is > live + live / 20 + 64 * MIB : is != told;
}

static struct plim_whatif *open_recording(const char *path, int beside, int limited)
{
	static const char *const settings[] = { "", "expandable_segments:True" };
	struct plim_whatif_options o;
	struct plim_whatif *w = NULL;
	struct plim_err err;

	plim_whatif_options_init(&o);
	o.settings = settings;
	o.settings_count = beside ? 2 : 0;
	o.flags = PLIM_WHATIF_PLAN | (limited ? PLIM_WHATIF_SMALLEST : 0);
	o.threads = 1;
	o.limit_bytes = CARD;
	if (plim_whatif_open(path, &o, &w, &err)) {
		fprintf(stderr, "%s: %s\n", path, err.message);
		return NULL;
	}
	return w;
}

static int has_graphs(const struct program *p)
{
	for (size_t i = 0; i < p->requests.n; i++)
		if (p->requests.at[i].pool)
			return 1; /* captures are not in a recording */
	return 0;
}

int main(int argc, char **argv)
{
	int limited = argc > 2 && !strcmp(argv[2], "limit"), bad;
	struct play y[THREADS_MAX] = { 0 };
	unsigned threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
	struct plim_whatif *w = NULL;

	if (argc > 1)
		w = open_recording(argv[1], limited || getenv("PLIMSOLL_ALLOC_PLAN"), limited);
	if (!w || threads > THREADS_MAX)
		return 1;
	y->p = w->hidden->program;
	y->seed = argc > 2 && !limited ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	if (threads > 1 && y->p->stream_count > STREAMS)
		threads = 1;
	if (has_graphs(y->p) || (limited && !best_of_pytorchs(w).limit)) {
		plim_whatif_free(w);
		return 0;
	}
	y->addr = calloc(y->p->requests.n + 1, sizeof(*y->addr));
	y->bytes = calloc(y->p->requests.n + 1, sizeof(*y->bytes));
	bad = !told_of_learning(w) || !y->addr || !y->bytes;
	fake_card(CARD);
	plimsoll_alloc_on_oom(note);
	if (limited)
		plimsoll_alloc_limit(0, best_of_pytorchs(w).limit);
	bad = bad || play_all(y, threads) || judge(y, threads, w);
	if (limited)
		printf("limit %llu: %llu refusals\n", (unsigned long long)best_of_pytorchs(w).limit,
		       (unsigned long long)refusals);
	free(y->addr);
	free(y->bytes);
	plim_whatif_free(w);
	return bad;
}
