/*
 * The verdict of a death of which only the text is known.
 *
 * A text says what was live and what was asked for, never what the step had still to allocate nor
 * what had piled up before.  So fragmentation is never certain; that it is none can be: when all
 * that was not allocated, in whatever pieces, is less than the request.  Capacity is certain only
 * where nothing can have piled up yet.  Everything else is a ranking.
 */
#include "log_rows.h"

#include <string.h>

/* Room left behind the request, as a part of the bound, that makes gaps likelier than a step too large. */
#define HEADROOM_PART 20
#define HEADROOM_LARGE_PART 10
/* A GPU with less free than this part of it is full: the driver's own pieces are no smaller than some MiB. */
#define FULL_PART 20
/* Memory outside this process's allocator that decides: FINDINGS_OUTSIDE_PART, and at least this. */
#define OUTSIDE_BYTES (1u << 30)

/*
 * The same where the text names no process: a context with its libraries, and a screen, are a GiB themselves.
 */
#define UNTOLD_BYTES (3u << 29)
#define UNTOLD_PART 4 /* of what PyTorch holds, where its release lists no processes */

/* A full GPU of which the engine holds no more than this is in other hands. */
#define LITTLE_BYTES (1u << 28)

#define ALIKE_PART 10 /* of a rank's memory: ranks of one job differ by less */

#define MIB ((uint64_t)1 << 20)

/*
 * The driver is asked for a segment: 2 MiB for up to 1 MiB, 20 MiB for up to 10, else rounded up to
 * 2 MiB (kSmallBuffer, kLargeBuffer, kRoundLarge of c10/cuda/CUDACachingAllocator).
 */
static struct messages_bytes request_of(struct messages_bytes tried)
{
	struct messages_bytes r = tried;

	if (!messages_known(tried))
		return tried;
	if (tried.high <= 2 * MIB)
		r.low = 1;
	else if (tried.low <= 20 * MIB && tried.high >= 20 * MIB)
		r.low = MIB + 1;
	else if (tried.low > 2 * MIB)
		r.low = tried.low - 2 * MIB + 1;
	return r;
}

/* A limit that the program keeps itself (Dask, YARN), and no cgroup of the kernel's. */
int findings_own_limit(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_CGROUP_KILL && e->wording->family == MESSAGES_LIBRARY;
}

/* A heap that the program's own runtime bounds (Java, Node.js). */
int findings_own_heap(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_HOST && e->wording->says &&
	       strstr(e->wording->says, "own heap") != NULL;
}

#define VULKAN_BUFFER ((uint64_t)1 << 32) /* what many of its drivers give at once, at most */

/* A driver's limit of one buffer, however much is free. */
int findings_one_buffer(const struct messages_event *e, const struct messages_context *c)
{
	return (e->wording->says && strstr(e->wording->says, "no single buffer")) ||
	       (c->backend == MESSAGES_BACKEND_VULKAN && messages_known(e->oom.tried) &&
		e->oom.tried.low > VULKAN_BUFFER);
}

/* Refused by the driver's own pools (cudaMallocAsync): PyTorch's settings do not reach them. */
int findings_async(const struct messages_event *e)
{
	return strstr(e->wording->pattern, "Allocation on device") != NULL ||
	       strstr(e->text, "would exceed allowed memory") != NULL;
}

/* What it was doing: from the traceback, else from words that say so. */
enum messages_moment findings_moment(const struct messages_event *e,
				     const struct messages_context *c)
{
	if (e->traceback.moment != MESSAGES_MOMENT_UNKNOWN)
		return e->traceback.moment;
	return c->set[MESSAGES_TASK_STATES].line       ? MESSAGES_FIRST_STEP
	       : c->activity == MESSAGES_DOING_LOADING ? MESSAGES_LOADING
						       : MESSAGES_MOMENT_UNKNOWN;
}

/* The driver's code alone: PyTorch's allocator, which may have gaps, shows numbers when it is refused. */
int findings_bare(const struct messages_event *e)
{
	return e->wording->family == MESSAGES_CUDA && e->wording->class == MESSAGES_DEVICE &&
	       !messages_known(e->oom.tried);
}

int findings_untold(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_KILLED && e->wording->family == MESSAGES_WORDS &&
	       !strcmp(e->wording->pattern, "out of memory");
}

/* ---- the bound ---- */

static uint64_t decides(const struct messages_oom *o)
{
	uint64_t part = o->total.low / FINDINGS_OUTSIDE_PART;

	return part > OUTSIDE_BYTES ? part : OUTSIDE_BYTES;
}

/* XPU does not say what was free: PyTorch can have had anything from what it holds to the whole GPU. */
static void judge_unseen(const struct messages_oom *o, struct findings_told *t)
{
	if (messages_known(o->tried) && messages_less(o->total, o->reserved).low >= o->tried.high)
		t->bound_by = FINDINGS_BOUND_UNKNOWN;
	else
		t->bound = (struct messages_bytes){ o->reserved.low, o->total.high };
}

/* A full GPU: who has it. */
static void judge_card(const struct messages_oom *o, struct findings_told *t)
{
	t->bound_by = FINDINGS_BOUND_DEVICE;
	if (!messages_known(o->total) || !messages_known(o->reserved))
		return;
	if (!messages_known(o->free)) {
		judge_unseen(o, t);
		return;
	}
	t->bound_certain = 1;
	t->outside = messages_less(o->total, messages_plus(o->reserved, o->free));
	if (!messages_known(o->others)) {
		/* no NVML: whose the rest is, is not reported */
		if (t->outside.low >= decides(o) && t->outside.low >= UNTOLD_BYTES &&
		    (!o->old_format || t->outside.low >= o->reserved.high / UNTOLD_PART) &&
		    (!messages_known(o->tried) ||
		     messages_plus(t->outside, o->free).high >= o->tried.low))
			t->bound_by = FINDINGS_BOUND_UNKNOWN;
		return;
	}
	t->own_outside = (struct messages_bytes){ 0, 0 };
	if (messages_known(o->this_process))
		t->own_outside = messages_less(o->this_process, o->reserved);
	/* whoever holds more of the GPU comes first */
	if (o->others.low >= decides(o) && o->others.low >= t->own_outside.low &&
	    o->others.high >= (messages_known(o->this_process) ? o->this_process : o->reserved).low)
		t->bound_by = FINDINGS_BOUND_OTHER_PROCESS;
	else if (t->own_outside.low >= decides(o))
		t->bound_by = FINDINGS_BOUND_NON_PYTORCH;
}

/* The allocator compares with its own limit before it asks the driver, which may be full as well. */
static int is_over_limit(const struct messages_oom *o)
{
	return messages_known(o->reserved) && messages_known(o->tried) &&
	       messages_plus(o->reserved, o->tried).low > o->allowed.high;
}

#define NEARLY_PART 16 /* of a request: what is left next to it, if that is less */

/* Nearly all that was free, in one piece: simply too little. */
static int is_nearly(const struct messages_oom *o)
{
	return o->free.low < o->tried.high + o->tried.high / NEARLY_PART;
}

#define PLENTY 64 /* times what was asked for: no gaps between a library's blocks explain that */

static int is_plenty(const struct messages_oom *o)
{
	return o->free.low >= OUTSIDE_BYTES && o->free.low / PLENTY >= o->tried.high;
}

/* Next to nothing of a full GPU is the program's: someone else has the rest. */
static void judge_little(const struct messages_oom *o, struct findings_told *t)
{
	if (messages_known(o->free) && messages_known(o->allocated) && !messages_known(o->total) &&
	    !messages_known(o->allowed) && o->allocated.high < LITTLE_BYTES &&
	    t->bound_by == FINDINGS_BOUND_DEVICE) {
		t->elsewhere = 1;
		t->bound_by = FINDINGS_BOUND_OTHER_PROCESS;
		t->bound_certain = 0;
	}
}

static void judge_device(const struct messages_event *e, struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	int had = messages_known(o->free) && messages_known(o->tried) &&
		  o->free.low >= o->tried.high &&
		  (!messages_known(o->total) || o->free.high >= o->total.low / FULL_PART);

	if (messages_known(o->allowed) && (had || !messages_known(o->free) || is_over_limit(o))) {
		t->bound_by = FINDINGS_BOUND_LIMIT;
		t->bound_certain = 1;
		t->bound = o->allowed;
	} else if (had && !is_nearly(o) &&
		   (e->wording->family != MESSAGES_LIBRARY || is_plenty(o))) {
		t->free_enough = 1;
	} else {
		judge_card(o, t);
		t->nearly = had && is_nearly(o);
		/* one piece of half the GPU is too large, whoever has the rest */
		if (t->nearly && messages_known(o->total) && o->tried.low >= o->total.high / 2)
			t->bound_by = FINDINGS_BOUND_DEVICE;
		if (messages_known(o->reserved) && messages_known(o->free))
			t->bound = messages_plus(o->reserved, o->free);
		t->bound_certain &= e->wording->sure;
	}
	t->request = request_of(o->tried);
	if (messages_known(t->bound) && messages_known(o->allocated))
		t->room = messages_less(t->bound, o->allocated);
	/* MPS: what else of the system's GPU memory counts into what is allowed */
	if (messages_known(t->room) && messages_known(o->allowed) && messages_known(o->others) &&
	    !messages_known(o->total))
		t->room = messages_less(t->room, o->others);
	/* what the figures exclude is not ranked: someone else has most of the GPU */
	t->elsewhere = t->bound_by == FINDINGS_BOUND_UNKNOWN && messages_known(t->outside) &&
		       messages_known(o->reserved) && t->outside.low > o->reserved.high;
	judge_little(o, t);
}

static void judge_bound(const struct messages_event *e, struct findings_told *t)
{
	static const struct {
		enum findings_bound bound;
		int certain;
	} of_class[] = {
		[MESSAGES_BUDGET] = { FINDINGS_BOUND_LIMIT, 1 },
		[MESSAGES_HOST] = { FINDINGS_BOUND_HOST, 1 },
		[MESSAGES_CGROUP_KILL] = { FINDINGS_BOUND_CGROUP, 1 },
		[MESSAGES_HOST_KILL] = { FINDINGS_BOUND_HOST, 1 },
		[MESSAGES_KILLED] = { FINDINGS_BOUND_HOST, 0 },
		[MESSAGES_SHARED] = { FINDINGS_BOUND_SHARED_MEMORY, 1 },
	};

	if (e->wording->class == MESSAGES_DEVICE) {
		judge_device(e, t);
	} else if (e->wording->class <= MESSAGES_SHARED) {
		t->bound_by = of_class[e->wording->class].bound;
		t->bound_certain = of_class[e->wording->class].certain && e->wording->sure;
		t->bound = e->limit;
		if (findings_own_limit(e) || findings_own_heap(e))
			t->bound_by = FINDINGS_BOUND_LIMIT;
		if (findings_untold(e))
			t->bound_by = FINDINGS_BOUND_UNKNOWN;
		/* a share that would have sufficed, had no one been there before */
		if (e->wording->class == MESSAGES_BUDGET && !e->wording->sure)
			t->bound_by = FINDINGS_BOUND_OTHER_PROCESS;
		t->request = e->oom.tried;
		t->room = e->oom.free;
	}
}

/* ---- the cause ---- */

#define F(fact) (1u << LOG_##fact)

static unsigned facts_of(const struct messages_event *e, const struct findings_told *t)
{
	unsigned facts = e->wording->class == MESSAGES_DEVICE   ? F(GPU)
			 : e->wording->class == MESSAGES_BUDGET ? F(SHARE)
								: 0;
	uint64_t left;

	if (e->traceback.moment == MESSAGES_LOADING || e->traceback.fresh ||
	    e->traceback.moment == MESSAGES_FIRST_STEP)
		facts |= F(BEGINNING);
	if (!(facts & F(GPU)) || !messages_known(t->room) || !messages_known(t->request))
		return facts;
	facts |= F(NUMBERS) | (t->no_room ? F(NO_ROOM) : 0);
	left = t->room.low > t->request.high ? t->room.low - t->request.high : 0;
	if (left > t->bound.low / HEADROOM_PART)
		facts |= F(HEADROOM);
	if (left > t->bound.low / HEADROOM_LARGE_PART)
		facts |= F(HEADROOM) | F(HEADROOM_LARGE);
	return facts;
}

static void leave_out(struct findings_told *t, enum findings_cause cause)
{
	size_t to = 0;

	for (size_t i = 0; i < t->ranked_count; i++)
		if (t->ranked[i] != cause || t->ranked_count == 1)
			t->ranked[to++] = t->ranked[i];
	for (size_t i = to; i < t->ranked_count; i++)
		t->ranked[i] = FINDINGS_CAUSE_UNKNOWN;
	t->ranked_count = to;
}

static void rank(const struct messages_event *e, const struct messages_context *c, unsigned facts,
		 struct findings_told *t)
{
	const struct log_ranking *r = log_rankings;
	enum messages_moment moment = findings_moment(e, c);

	if (c->set[MESSAGES_TASK_EPOCHS].line && c->set[MESSAGES_TASK_EPOCHS].line <= e->line &&
	    !(facts & F(BEGINNING)))
		facts |= F(LATE);
	while ((facts & r->facts) != r->facts || (r->moments && !(r->moments & 1u << moment)))
		r++;
	memcpy(t->ranked, r->causes, sizeof(t->ranked));
	while (t->ranked_count < FINDINGS_CAUSES && t->ranked[t->ranked_count])
		t->ranked_count++;
	/* where there are no numbers; or all that was not allocated, joined, is less than the request */
	if (findings_async(e) || findings_bare(e) ||
	    (facts & F(NUMBERS) && t->request.low > t->room.high && t->ranked_count > 2))
		leave_out(t, FINDINGS_CAUSE_FRAGMENTATION);
}

static int larger_than_all(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;

	if (messages_known(t->request) && messages_known(t->bound) &&
	    t->request.low > t->bound.high)
		return 1;
	if (messages_known(o->tried) && messages_known(o->total) && o->tried.low > o->total.high)
		return 1;
	if (e->wording->class == MESSAGES_BUDGET || e->wording->class == MESSAGES_HOST)
		return messages_known(o->tried) && messages_known(o->free) &&
		       o->tried.low > o->free.high;
	return messages_known(e->used) && messages_known(o->total) && e->used.low > o->total.high;
}

/* Someone else has the GPU, or only the driver speaks: what this one needs may have fitted. */
static int may_be_others(const struct messages_event *e, const struct findings_told *t)
{
	return e->wording->class == MESSAGES_DEVICE &&
	       (t->bound_by == FINDINGS_BOUND_OTHER_PROCESS ||
		(e->wording->family == MESSAGES_CUDA && !messages_known(e->oom.tried)));
}

/*
 * Do the others on the GPU look like this process's ranks: of one size, or of a size that the driver does not show?  "own": this
 * process is of that size, too.
 */
static int are_alike(const struct messages_oom *o, struct messages_bytes own)
{
	uint32_t n = o->processes < MESSAGES_HOLDERS ? o->processes : MESSAGES_HOLDERS;
	uint64_t least = own.low, most = messages_known(own) ? own.high : 0;

	for (uint32_t i = 0; i < n; i++) {
		least = o->holders[i].bytes.low < least ? o->holders[i].bytes.low : least;
		most = o->holders[i].bytes.high > most ? o->holders[i].bytes.high : most;
	}
	return !least || (n > 1 && most - least <= most / ALIKE_PART);
}

static int ranks_of(const struct messages_event *e, const struct messages_context *c)
{
	const struct messages_oom *o = &e->oom;

	if (o->processes && (e->rank_count || c->set[MESSAGES_SET_LAUNCHER].line))
		return are_alike(o, messages_unknown) ? 2 : 1;
	/* several of one size, as copies of one program are */
	return o->processes > 1 && messages_known(o->this_process) && o->this_process.low &&
	       are_alike(o, o->this_process);
}

void findings_judge_message(const struct messages_event *e, const struct messages_context *c,
			    struct findings_told *t)
{
	uint64_t slack;

	*t = (struct findings_told){ .request = messages_unknown,
				     .bound = messages_unknown,
				     .room = messages_unknown,
				     .outside = messages_unknown };
	t->ranks = ranks_of(e, c);
	judge_bound(e, t);
	if (messages_known(t->room) && messages_known(t->request) &&
	    e->wording->class == MESSAGES_DEVICE) {
		slack = e->oom.allocated.high / FINDINGS_SLACK_PART;
		t->no_room =
			t->request.low > t->room.high + slack || t->request.low / 4 > t->room.high;
	}
	/* where the driver had more than it was asked for, neither too much nor gaps are to blame */
	if (!t->free_enough && !t->elsewhere && !findings_untold(e))
		rank(e, c, facts_of(e, t), t);
	if (larger_than_all(e, t)) {
		t->ranked[0] = FINDINGS_CAUSE_CAPACITY;
		t->ranked_count = 1;
	} else if (e->wording->class == MESSAGES_DEVICE &&
		   (!messages_engines[c->engine].pools && !findings_is_pytorch(c)) &&
		   t->ranked_count) {
		t->ranked[0] =
			FINDINGS_CAUSE_CAPACITY; /* or someone else's memory: no cause is certain */
		t->ranked_count = 1;
		return;
	}
	if (t->ranked_count == 1 && !may_be_others(e, t))
		t->cause = t->ranked[0];
}
