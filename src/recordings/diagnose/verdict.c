/* A death's verdict in sentences: the headline, the numbers behind it, and what to do. */
#include "diagnose.h"

#include <stdio.h>
#include <string.h>

/* ---- evidence ---- */

static void tell_limit(struct lines *l, const struct recording_names *n,
		       const struct findings_death *d)
{
	char a[32], b[32];

	lines_add(l,
		  "a memory limit of this process stopped it, not the GPU: the driver had "
		  "%s "
		  "free, more than the %s "
		  "it was asked for (set by torch.cuda.set_per_process_memory_fraction(), "
		  "or by "
		  "per_process_memory_fraction in %s)",
		  text_size(a, d->device_free_bytes), text_size(b, d->segment_bytes),
		  snapshot_platform_of(n->of->snapshot).variable);
	text_size(a, d->bound_low_bytes);
	if (!strcmp(a, text_size(b, d->bound_high_bytes)))
		return;
	if (d->message && d->message->allowed.low != PLIM_UNKNOWN)
		lines_add(l, "the error's text says how much was allowed: %s to %s", a, b);
	else
		lines_add(l,
			  "the limit lies between %s (was reserved before) and %s (was "
			  "refused)",
			  a, b);
}

static void tell_bound(struct lines *l, const struct recording_names *n,
		       const struct findings_death *d)
{
	char a[32], b[32], c[32];

	switch (d->bound_by) {
	case FINDINGS_BOUND_LIMIT: tell_limit(l, n, d); break;
	case FINDINGS_BOUND_OTHER_PROCESS:
		lines_add(l,
			  "other processes hold %s of the GPU's %s; the driver had %s left for a "
			  "request of %s",
			  text_size(a, d->message->others.low), text_size(b, d->message->total.low),
			  text_size(c, d->device_free_bytes),
			  text_size((char[32]){ 0 }, d->segment_bytes));
		break;
	case FINDINGS_BOUND_NON_PYTORCH:
		lines_add(l,
			  "this process holds %s on the GPU and PyTorch's allocator only %s of "
			  "it: the "
			  "rest is "
			  "CUDA's context, NCCL or another library",
			  text_size(a, d->message->this_process.low),
			  text_size(b, d->reserved_bytes));
		break;
	case FINDINGS_BOUND_DEVICE:
		lines_add(l,
			  "the GPU was full: PyTorch held %s, and the driver had %s left for a "
			  "request "
			  "of %s",
			  text_size(a, d->reserved_bytes), text_size(b, d->device_free_bytes),
			  text_size(c, d->segment_bytes));
		if (d->card)
			lines_add(l,
				  "together that is what a GPU such as the %s has for one "
				  "process: so "
				  "no one else was on it, it seems (the error's text would tell: "
				  "--log)",
				  d->card->name);
		break;
	default:
		lines_add(l,
			  "the driver had %s left for a request of %s, while this process's "
			  "allocator "
			  "held %s; the "
			  "recording does not say who held the rest (give the error's text with "
			  "--log)",
			  text_size(a, d->device_free_bytes), text_size(b, d->segment_bytes),
			  text_size(c, d->reserved_bytes));
	}
}

/* What the step had still to come, and from what that is known. */
static void tell_future(struct lines *l, const struct findings_death *d)
{
	int hardly = d->still_high_bytes && d->still_high_bytes < d->request_bytes / 100;
	char a[32], times[32];

	if (d->future == FINDINGS_FUTURE_UNKNOWN) {
		lines_add(l,
			  "the program was never at this point before: what would have followed is "
			  "not known");
		return;
	}
	if (d->future == FINDINGS_FUTURE_PLANNED) {
		if (d->still_high_bytes)
			lines_add(l, "the plan goes on: what follows takes %s more",
				  text_size(a, d->still_high_bytes));
		else
			lines_add(l, "the plan goes on: nothing that follows takes more");
		return;
	}
	if (d->future == FINDINGS_FUTURE_OPTIMIZER) {
		lines_add(l,
			  "it was the optimizer's first step: at least %s of state and of its "
			  "temporary "
			  "lists were still to come (each list is as large as the gradients; "
			  "foreach, "
			  "which makes them, is PyTorch's default)",
			  text_size(a, d->still_low_bytes));
		return;
	}
	if (d->points_before == 1)
		snprintf(times, sizeof(times), "once");
	else
		snprintf(times, sizeof(times), "%u times", d->points_before);
	if (d->scaled && d->still_high_bytes)
		lines_add(l,
			  "the program was at this point %s before, with requests of other sizes; "
			  "from "
			  "there its memory rose further, which for this size is %s at least",
			  times, text_size(a, d->still_low_bytes));
	else
		lines_add(l, "the program was at this point %s before; from there its memory %s%s",
			  times,
			  !d->still_high_bytes ? "did not rise further"
			  : hardly             ? "hardly rose further"
					       : "rose further, by up to ",
			  d->still_high_bytes && !hardly ? text_size(a, d->still_high_bytes) : "");
	if (d->climbs >= 4)
		lines_add(l,
			  "more was live at this point each of the last %u times than the time "
			  "before: "
			  "room now would not have lasted",
			  d->climbs);
}

static void tell_need(struct lines *l, const struct findings_death *d)
{
	char a[32], b[32], c[32];

	lines_add(l,
		  "%s was live, %s reserved but free; the largest free block that fits this stream "
		  "and "
		  "pool had %s",
		  text_size(a, d->live_bytes), text_size(b, d->free_bytes),
		  text_size(c, d->largest_free_bytes));
	if (!findings_is_leak(d))
		tell_future(l, d);
}

static void tell_leak(struct lines *l, const struct findings_leak *leak)
{
	const char *ending = !strcmp(leak->period, "forward pass") ? "es" : "s";
	/* between whole repetitions there is one less than there are repetitions */
	uint32_t span = leak->repetitions + (leak->loop_frame == TRACE_NONE);
	char a[32], lines[48] = "", before[80] = "";

	if (leak->lines > 1)
		snprintf(lines, sizeof(lines), " (from %u lines of the program)", leak->lines);
	if (leak->before_bytes)
		snprintf(before, sizeof(before), ", and %s of the same before the recording,",
			 text_size(a, leak->before_bytes));
	lines_add(l,
		  "%s that was allocated in the last %u %s%s%s is still alive%s; without it this "
		  "would "
		  "have fitted",
		  text_size(a, leak->grown_bytes - leak->before_bytes), span, leak->period, ending,
		  before, lines);
	lines_add(l, "it looks like %s; if not, %s", leak->guess[0], leak->guess[1]);
}

/* ---- free, but not for this request ---- */

/* "private pools", "other pools", "stream 7": whose the free memory is. */
static const char *apart_owner(const struct recording_names *n, const struct findings_death *d,
			       char out[48])
{
	const struct snapshot *t = n->of->snapshot;
	const struct allocator_apart *apart = findings_apart(d);

	if (apart == &d->room.pools)
		snprintf(out, 48, d->room.pool ? "other pools" : "private pools");
	else
		snprintf(out, 48, "stream %lld", (long long)t->streams.at[apart->owner]);
	return out;
}

/* The line that keeps the segments; NULL: no Python. */
static const char *apart_line(struct recording_names *n, const struct allocator_apart *apart,
			      struct plim_err *err)
{
	if (apart->stack == TRACE_NONE)
		return NULL;
	return recording_frame(n, timeline_user_frame(n->of->snapshot, apart->stack), err);
}

/* Could the program have given it back before the request? */
static int apart_is_cache(const struct findings_death *d)
{
	return d->room.pool && d->room.pools.wholly_free_bytes >= d->segment_bytes;
}

static void tell_apart(struct lines *l, struct recording_names *n, const struct findings_death *d)
{
	const struct allocator_apart *apart = findings_apart(d);
	const char *line = apart_line(n, apart, l->err);
	char a[32], b[32], owner[48];

	text_size(a, apart->free_bytes);
	apart_owner(n, d, owner);
	if (apart == &d->room.streams)
		lines_add(l,
			  "%s of what was free lies in segments of other streams, %s of it in "
			  "those of %s: a free block serves requests of its own stream alone",
			  a, text_size(b, apart->owner_bytes), owner);
	else if (d->room.pool)
		lines_add(
			l,
			"%s of what was free is other pools', %s of it in segments that are wholly "
			"free: while requests go to a private pool PyTorch gives nothing back "
			"before it fails",
			a, text_size(b, apart->wholly_free_bytes));
	else
		lines_add(l,
			  "%s of what was free lies in %u private pool%s (of CUDA graphs or of a "
			  "torch.cuda.MemPool): their free blocks serve no other requests, and "
			  "empty_cache() does not give them back while the pool lives",
			  a, apart->owners, apart->owners == 1 ? "" : "s");
	if (apart->kept_bytes)
		lines_add(l, "%s that is in use there keeps these segments%s%s",
			  text_size(a, apart->kept_bytes), line ? ", most of it made at " : "",
			  line ? line : "");
	else if (line)
		lines_add(l, "these segments were made at %s", line);
}

static void tell_cause(struct lines *l, struct recording_names *n, const struct findings_death *d)
{
	char a[32], b[32], c[32];
	uint64_t need = d->requested_live_bytes + d->request_bytes + d->still_low_bytes;

	switch (d->cause) {
	case FINDINGS_CAUSE_CAPACITY:
		if (need >= d->bound_high_bytes)
			lines_add(l, "even without a wasted byte it needed %s, and %s was refused",
				  text_size(a, need), text_size(b, d->bound_high_bytes));
		else
			lines_add(l,
				  "all that was free (%s) is a small part of the request (%s): "
				  "joining "
				  "it would not have "
				  "served it",
				  text_size(a, d->free_bytes), text_size(b, d->request_bytes));
		break;
	case FINDINGS_CAUSE_FRAGMENTATION:
		lines_add(l,
			  "live, request and what was to come make %s; at least %s was allowed: it "
			  "would "
			  "have fitted, "
			  "had the free %s been in one piece",
			  text_size(a, d->live_bytes + d->request_bytes + d->still_high_bytes),
			  text_size(b, d->bound_low_bytes), text_size(c, d->free_bytes));
		break;
	case FINDINGS_CAUSE_LEAK: tell_leak(l, &d->leak); break;
	case FINDINGS_CAUSE_PRIVATE_POOLS:
	case FINDINGS_CAUSE_OTHER_STREAM: tell_apart(l, n, d); break;
	default:
		if (findings_apart(d))
			tell_apart(l, n, d);
		if (d->likelier == FINDINGS_CAUSE_LEAK) {
			tell_leak(l, &d->leak);
			lines_add(
				l,
				"that is too few to decide: a cache that is being filled looks the "
				"same");
			break;
		}
		text_size(b, d->bound_low_bytes);
		if (!strcmp(b, text_size(c, d->bound_high_bytes)))
			lines_add(l,
				  "without a wasted byte it needed %s of %s so far: that does not "
				  "decide",
				  text_size(a, need), b);
		else
			lines_add(l,
				  "without a wasted byte it needed %s so far, and what it could "
				  "have is "
				  "somewhere from %s to %s: that does not decide",
				  text_size(a, need), b, c);
	}
}

static void tell_tried(struct lines *l, const struct findings_death *d,
		       const struct findings_tried *tried, size_t n)
{
	const char *then = d->cause ? "the requests up to the end of the recording are served"
				    : "this request is served, and what may have come after it is "
				      "not recorded";
	char a[32];

	for (size_t i = 0; i < n; i++) {
		if (tried[i].survives)
			lines_add(l, "replayed with %s and the same bound, %s: %s reserved",
				  tried[i].settings, then, text_size(a, tried[i].reserved_bytes));
		else
			lines_add(l, "replayed with %s and the same bound, it fails as well",
				  tried[i].settings);
	}
}

/* ---- advice ---- */

/* Does what other allocators hold decide? */
static int is_outside(const struct findings_death *d)
{
	return d->bound_by == FINDINGS_BOUND_OTHER_PROCESS ||
	       d->bound_by == FINDINGS_BOUND_NON_PYTORCH;
}

/* When a piece of advice holds; all of its flags must. */
enum { IF_INSIDE = 1, IF_CERTAIN = 2, IF_LIKELY = 4, IF_TRAINING = 8, IF_RUNNING = 16 };

static const struct advice {
	enum findings_cause cause;
	unsigned when;
	const char *text;
} advice[] = {
	{ FINDINGS_CAUSE_FRAGMENTATION, 0,
	  "use batches of one length, or run the longest batch first: both leave fewer gaps" },
	{ FINDINGS_CAUSE_CAPACITY, IF_INSIDE | IF_RUNNING,
	  "use less memory: fewer or shorter sequences at once, or weights in bfloat16 or "
	  "quantized; or take a larger GPU" },
	{ FINDINGS_CAUSE_CAPACITY, IF_INSIDE | IF_TRAINING,
	  "use less memory: a smaller micro-batch with gradient accumulation, or gradient "
	  "checkpointing; or take a larger GPU" },
	{ FINDINGS_CAUSE_CAPACITY, IF_CERTAIN,
	  "no allocator setting and no empty_cache() helps: the memory is in use" },
	{ FINDINGS_CAUSE_CAPACITY, IF_LIKELY, "empty_cache() does not help: the memory is in use" },
};

static void advise_apart(struct lines *l, struct recording_names *n, const struct findings_death *d)
{
	const struct allocator_apart *apart = findings_apart(d);
	const char *line = apart_line(n, apart, l->err);
	char owner[48];

	apart_owner(n, d, owner);
	if (apart == &d->room.streams) {
		lines_add(l, "free or copy what keeps the segments of %s%s%s%s", owner,
			  line ? " (" : "", line ? line : "", line ? ")" : "");
		lines_add(l, "allocate on the stream that uses the memory most, and let the other "
			     "one wait for it: stream.wait_stream()");
		return;
	}
	if (apart_is_cache(d))
		lines_add(l, "call torch.cuda.empty_cache() before torch.cuda.use_mem_pool(), or "
			     "before the capture: it gives back what is wholly free");
	else if (!apart->owner)
		lines_add(l, "make these requests outside of the private pool: what the default "
			     "pool has free serves them there");
	else if (n->of->snapshot->pools.at[apart->owner].a)
		lines_add(l,
			  "let graphs that never run at the same time share one pool, "
			  "torch.cuda.graph(g, pool=first.pool()), the largest captured first; or "
			  "capture fewer sizes");
	else
		lines_add(l, "drop the torch.cuda.MemPool once nothing in it is needed, or make "
			     "these requests inside of it: torch.cuda.use_mem_pool()");
}

static unsigned conditions(const struct findings_death *d)
{
	return (is_outside(d) ? 0 : IF_INSIDE) | (d->cause ? IF_CERTAIN : IF_LIKELY) |
	       (d->answered ? IF_TRAINING : IF_RUNNING);
}

/* The first setting under which the recording runs to its end; NULL: none was tried or none does. */
static const struct findings_tried *survivor(const struct findings_tried *tried, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (tried[i].survives)
			return &tried[i];
	return NULL;
}

static void advise_setting(struct lines *l, const struct recording_names *n,
			   const struct findings_tried *better)
{
	char a[32], how[FINDINGS_HOW];

	lines_add(l, "%s%s: replayed with it, the recording runs to its end, %s reserved",
		  findings_how_to_set(n->of->snapshot, better, how), better->settings,
		  text_size(a, better->reserved_bytes));
}

/* Whose part of the GPU to look at, if not the allocator's own. */
static void advise_bound(struct lines *l, const struct recording_names *n,
			 const struct findings_death *d)
{
	const struct snapshot_platform platform = snapshot_platform_of(n->of->snapshot);

	if (d->bound_by == FINDINGS_BOUND_LIMIT)
		lines_add(l, "raise this process's limit, if it may use more of the GPU");
	if (d->bound_by == FINDINGS_BOUND_OTHER_PROCESS)
		lines_add(l, "see who holds the GPU: %s; end what is left over", platform.holders);
	if (d->bound_by == FINDINGS_BOUND_UNKNOWN && !findings_apart(d))
		lines_add(l, "see with %s whether something else holds a part of the GPU",
			  platform.monitor);
	if (d->bound_by == FINDINGS_BOUND_NON_PYTORCH)
		lines_add(l,
			  "see what else this process runs on the GPU: a second framework (JAX, "
			  "TensorFlow, CuPy) that takes memory up front, NCCL's buffers, Triton");
}

static void advise(struct lines *l, struct recording_names *n, const struct findings_death *d,
		   const struct findings_tried *tried, size_t tried_count)
{
	enum findings_cause cause = d->cause ? d->cause : d->likelier;
	const struct findings_tried *better =
		findings_settings_help(d) ? survivor(tried, tried_count) : NULL;
	int first;

	if (d->future == FINDINGS_FUTURE_PLANNED) {
		lines_add(
			l,
			"plimsoll plan shows which changes would make it fit, and what each saves");
		return;
	}
	if (findings_is_leak(d)) {
		lines_add(l, "%s", d->leak.fix[0]);
		lines_add(l, "or: %s", d->leak.fix[1]);
		lines_add(l, "%s", findings_leak_holder);
		lines_add(l, "%s", findings_leak_delay);
		return; /* a higher limit would be one more delay */
	}
	/* what a private pool has free no setting gives to others: there a setting comes last */
	first = cause == FINDINGS_CAUSE_FRAGMENTATION || findings_apart(d) == &d->room.streams;
	if (first && better)
		advise_setting(l, n, better);
	if (findings_apart(d))
		advise_apart(l, n, d);
	else if (cause == FINDINGS_CAUSE_FRAGMENTATION && !better)
		lines_add(l, "plimsoll whatif tries allocator settings on this recording");
	advise_bound(l, n, d);
	if (d->future == FINDINGS_FUTURE_OPTIMIZER)
		lines_add(
			l,
			"the optimizer's state decides: an 8-bit or sharded optimizer, Adafactor, "
			"SGD or LoRA need "
			"less of it; fused=True avoids the step's lists");
	for (size_t i = 0; i < sizeof(advice) / sizeof(advice[0]); i++)
		if (advice[i].cause == cause && !(advice[i].when & ~conditions(d)))
			lines_add(l, "%s", advice[i].text);
	if (!first && better)
		advise_setting(l, n, better);
	if (!d->cause && !d->message && !findings_apart(d))
		lines_add(l, "to decide: give the error's text with --log%s",
			  d->complete ? "" : ", and a recording that begins with the process");
}

/* ---- the sum ---- */

#define TERMS 3

/* Terms and their sum in hundredths of one unit, which add up: the live memory, which other lines show too, is as it is. */
struct sum {
	uint64_t bytes[TERMS], hundredths[TERMS], total;
	const char *unit;
};

static uint64_t hundredths_of(uint64_t bytes, uint64_t unit)
{
	return (bytes / unit) * 100 + (bytes % unit * 100 + unit / 2) / unit;
}

/* What rounding took from the sum goes to the largest of the other terms, or to the sum where none is shown. */
static void add_up(struct sum *s)
{
	uint64_t all = 0, shown = 0, unit;
	int largest = 1;

	for (int i = 0; i < TERMS; i++)
		all += s->bytes[i];
	unit = all >= (1u << 30) ? 1u << 30 : 1u << 20;
	s->unit = all >= (1u << 30) ? "GiB" : "MiB";
	s->total = hundredths_of(all, unit);
	for (int i = 0; i < TERMS; i++) {
		s->hundredths[i] = hundredths_of(s->bytes[i], unit);
		shown += s->hundredths[i];
		largest = i && s->bytes[i] > s->bytes[largest] ? i : largest;
	}
	if (s->hundredths[largest] && s->hundredths[largest] + s->total > shown)
		s->hundredths[largest] += s->total - shown;
	else
		s->total = shown;
}

/* " (5.09 GiB with rounding)": what the lines around call live, where the sum goes by what was asked for. */
static const char *rounding(const struct findings_death *d, uint64_t live, const struct sum *s,
			    char out[64])
{
	uint64_t unit = !strcmp(s->unit, "GiB") ? 1u << 30 : 1u << 20;
	uint64_t allocated = hundredths_of(d->live_bytes, unit);

	*out = 0;
	if (allocated != hundredths_of(live, unit))
		snprintf(out, 64, " (%.2f %s with rounding)", (double)allocated / 100, s->unit);
	return out;
}

/* "3.02 GiB live + 0.82 GiB asked = 3.84 GiB" */
static void sum_words(const struct findings_death *d, uint64_t live, uint64_t still, char *out,
		      size_t size)
{
	static const char *const names[TERMS] = { "live", "asked", "still to come" };
	struct sum s = { .bytes = { live, d->request_bytes, still } };
	char few[32], round[64];
	size_t n = 0;

	add_up(&s);
	rounding(d, live, &s, round);
	for (int i = 0; i < TERMS && n < size; i++)
		if (s.hundredths[i])
			n += (size_t)snprintf(out + n, size - n, "%s%.2f %s %s%s", n ? " + " : "",
					      (double)s.hundredths[i] / 100, s.unit, names[i],
					      i ? "" : round);
		else if (s.bytes[i] && i < 2) /* too little to show in the sum */
			n += (size_t)snprintf(out + n, size - n, "%s%s %s", n ? " + " : "",
					      text_size(few, s.bytes[i]), names[i]);
	if (n < size)
		snprintf(out + n, size - n, " = %.2f %s", (double)s.total / 100, s.unit);
}

/* "between 3.97 GiB and 4.41 GiB was allowed" */
static void allowed_words(const struct findings_death *d, char *out, size_t size)
{
	char low[32], high[32];

	text_size(low, d->bound_low_bytes);
	text_size(high, d->bound_high_bytes);
	if (!strcmp(low, high))
		snprintf(out, size, "%s was allowed", low);
	else
		snprintf(out, size, "between %s and %s was allowed", low, high);
}

/* What was live, and what it would have been without what piled up; both are allocated bytes. */
static const char *arithmetic_of_leak(struct recording_names *n, const struct findings_death *d,
				      struct plim_err *err)
{
	uint64_t need = d->live_bytes + d->request_bytes;
	char sum[200], without[32], a[32], b[32];

	sum_words(d, d->live_bytes, 0, sum, sizeof(sum));
	text_size(without, need > d->leak.grown_bytes ? need - d->leak.grown_bytes : 0);
	if (need >= d->bound_high_bytes)
		return arena_text(n->arena, err,
				  "%s (%s without the leak), and less than %s was allowed", sum,
				  without, text_size(a, d->bound_high_bytes));
	return arena_text(n->arena, err,
			  "%s (%s without the leak); at least %s was allowed, but the largest free "
			  "piece had %s",
			  sum, without, text_size(a, d->bound_low_bytes),
			  text_size(b, d->largest_free_bytes));
}

static const char *arithmetic(struct recording_names *n, const struct findings_death *d,
			      struct plim_err *err)
{
	uint64_t need = d->requested_live_bytes + d->request_bytes + d->still_low_bytes;
	char sum[200], allowed[100], a[32], b[32], c[32];

	if (d->cause == FINDINGS_CAUSE_FRAGMENTATION) {
		sum_words(d, d->live_bytes, d->still_high_bytes, sum, sizeof(sum));
		return arena_text(n->arena, err,
				  "%s, and at least %s was allowed: it fits, but no free piece had "
				  "%s (the largest %s)",
				  sum, text_size(a, d->bound_low_bytes),
				  text_size(b, d->request_bytes),
				  text_size(c, d->largest_free_bytes));
	}
	if (d->cause && findings_apart(d)) {
		char owner[48], all[48] = "";

		sum_words(d, d->live_bytes, d->still_high_bytes, sum, sizeof(sum));
		text_size(b, findings_apart(d)->free_bytes);
		if (strcmp(b, text_size(c, d->free_bytes)) != 0)
			snprintf(all, sizeof(all), " of %s", c);
		return arena_text(n->arena, err,
				  "%s, and at least %s was allowed: it fits, but %s%s that is free "
				  "%s %s",
				  sum, text_size(a, d->bound_low_bytes), b, all,
				  d->cause == FINDINGS_CAUSE_OTHER_STREAM ? "belongs to"
									  : "lies in",
				  apart_owner(n, d, owner));
	}
	if (d->cause == FINDINGS_CAUSE_LEAK && d->bound_low_bytes != PLIM_UNKNOWN)
		return arithmetic_of_leak(n, d, err);
	sum_words(d, d->requested_live_bytes, d->future ? d->still_low_bytes : 0, sum, sizeof(sum));
	if (d->bound_low_bytes == PLIM_UNKNOWN)
		return arena_text(n->arena, err, "%s; how much was allowed is not known", sum);
	allowed_words(d, allowed, sizeof(allowed));
	if (d->cause == FINDINGS_CAUSE_CAPACITY && need >= d->bound_high_bytes)
		return arena_text(n->arena, err, "%s, and less than %s was allowed", sum,
				  text_size(a, d->bound_high_bytes));
	if (d->cause == FINDINGS_CAUSE_CAPACITY)
		return arena_text(n->arena, err, "%s; %s, %s of it free", sum, allowed,
				  text_size(a, d->free_bytes));
	return arena_text(n->arena, err, "%s; %s (%s of it free, in pieces of at most %s)", sum,
			  allowed, text_size(a, d->free_bytes),
			  text_size(b, d->largest_free_bytes));
}

/* ---- headline ---- */

static const char *headline_of_leak(struct recording_names *n, const struct findings_leak *leak,
				    struct plim_err *err)
{
	const char *frame = recording_frame(n, leak->frame, err);
	char a[32], b[32], where[512] = "";

	if (frame)
		snprintf(where, sizeof(where), " (%s%.400s)", leak->lines > 1 ? "most at " : "",
			 frame);
	return arena_text(n->arena, err, "LEAK: %s piled up, %s more every %s%s",
			  text_size(a, leak->grown_bytes), text_size(b, leak->per_repetition_bytes),
			  leak->period, where);
}

/* What the sums say: ", it can have less than 5.29 GiB", or who has the rest of the GPU. */
static const char *verdict_beside(const struct findings_death *d, uint64_t need, char out[128])
{
	char a[32], b[32];

	*out = 0;
	if (d->bound_by == FINDINGS_BOUND_OTHER_PROCESS)
		snprintf(out, 128, "; other processes hold %s of the GPU's %s",
			 text_size(a, d->message->others.low), text_size(b, d->message->total.low));
	else if (d->bound_by == FINDINGS_BOUND_NON_PYTORCH)
		snprintf(out, 128, "; this process holds %s of the GPU outside PyTorch",
			 text_size(a, d->message->this_process.low - d->reserved_bytes));
	else if (d->cause == FINDINGS_CAUSE_CAPACITY && need >= d->bound_high_bytes)
		snprintf(out, 128, " and can have less than %s", text_size(a, d->bound_high_bytes));
	return out;
}

static const char *const likelier[] = {
	[FINDINGS_CAUSE_UNKNOWN] = "the cause is not known",
	[FINDINGS_CAUSE_CAPACITY] = "capacity is likelier than fragmentation",
	[FINDINGS_CAUSE_FRAGMENTATION] = "fragmentation is likelier than capacity",
	[FINDINGS_CAUSE_LEAK] = "a leak is likelier than capacity",
	[FINDINGS_CAUSE_PRIVATE_POOLS] = "what private pools hold is likelier than capacity",
	[FINDINGS_CAUSE_OTHER_STREAM] = "what another stream holds is likelier than capacity",
};

static const char *headline(struct recording_names *n, const struct findings_death *d,
			    struct plim_err *err)
{
	uint64_t need = d->requested_live_bytes + d->request_bytes + d->still_low_bytes;
	char a[32], b[32], more[128], owner[48];

	verdict_beside(d, need, more);
	switch (d->cause) {
	case FINDINGS_CAUSE_LEAK: return headline_of_leak(n, &d->leak, err);
	case FINDINGS_CAUSE_FRAGMENTATION:
		return arena_text(n->arena, err,
				  "FRAGMENTATION: %s was refused that would have fitted in one "
				  "piece%s",
				  text_size(a, d->request_bytes), more);
	case FINDINGS_CAUSE_CAPACITY:
		return arena_text(n->arena, err, "CAPACITY: it needs at least %s%s%s",
				  text_size(a, need),
				  d->future == FINDINGS_FUTURE_OPTIMIZER
					  ? " with the optimizer state still to come"
					  : "",
				  more);
	case FINDINGS_CAUSE_PRIVATE_POOLS:
	case FINDINGS_CAUSE_OTHER_STREAM:
		return arena_text(
			n->arena, err, "%s: %s was refused with %s free, but %s %s%s",
			d->cause == FINDINGS_CAUSE_OTHER_STREAM ? "OTHER STREAM" : "PRIVATE POOLS",
			text_size(a, d->request_bytes), text_size(b, findings_apart(d)->free_bytes),
			d->cause == FINDINGS_CAUSE_OTHER_STREAM ? "as part of" : "in",
			apart_owner(n, d, owner), more);
	default:
		return arena_text(n->arena, err, "UNDETERMINED: %s was live and %s asked for; %s%s",
				  text_size(a, d->live_bytes), text_size(b, d->request_bytes),
				  likelier[d->likelier], more);
	}
}

enum plim_status diagnose_verdict(struct recording_names *n, const struct findings_death *d,
				  const struct findings_tried *tried, size_t tried_count,
				  struct plim_verdict *v, struct plim_err *err)
{
	static const char *const bases[] = { NULL, "repeated", "optimizer", "planned" };
	struct lines evidence = { .arena = n->arena, .err = err }, todo = evidence;
	uint64_t need = d->requested_live_bytes + d->request_bytes;
	enum plim_status st;

	v->bound_by = (enum plim_bound)d->bound_by;
	v->cause = (enum plim_cause)d->cause;
	v->bound_certain = v->bound_by != PLIM_BOUND_UNKNOWN;
	v->likely_cause = (enum plim_cause)d->likelier;
	v->basis = "recording";
	v->bound_bytes = (struct plim_interval){ d->bound_low_bytes, d->bound_high_bytes };
	v->request_bytes = (struct plim_interval){ d->request_bytes, d->request_bytes };
	v->room_bytes = v->needed_bytes = v->still_to_come_bytes = INTERVAL_UNKNOWN;
	v->still_basis = bases[d->future];
	v->needed_bytes.low = need + d->still_low_bytes;
	if (d->future)
		v->still_to_come_bytes.low = d->still_low_bytes;
	if (d->future == FINDINGS_FUTURE_REPEATED) {
		v->still_to_come_bytes.high = d->still_high_bytes;
		v->needed_bytes.high = d->live_bytes + d->request_bytes + d->still_high_bytes;
	}
	v->headline = headline(n, d, err);
	v->arithmetic = arithmetic(n, d, err);
	tell_cause(&evidence, n, d);
	tell_need(&evidence, d);
	tell_bound(&evidence, n, d);
	tell_tried(&evidence, d, tried, tried_count);
	advise(&todo, n, d, tried, tried_count);
	st = lines_keep(&evidence, &v->evidence, &v->evidence_count);
	if (!st)
		st = lines_keep(&todo, &v->helps, &v->helps_count);
	return !st && (!v->headline || !v->arithmetic) ? mem_status(err) : st;
}
