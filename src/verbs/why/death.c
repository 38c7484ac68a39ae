/* One death: its numbers, its verdict, and the sentences of both. */
#include "verbs/why/why.h"

#include <stdio.h>
#include <string.h>

/* A range wider than this part of it is shown by both its ends: it is a difference of rounded numbers. */
#define WIDE_PART 32

static int known(struct messages_bytes b)
{
	return b.low != PLIM_UNKNOWN;
}

const char *why_size(char *buffer, struct messages_bytes b)
{
	char low[32], high[32];

	if (!known(b) || b.high - b.low <= b.high / WIDE_PART)
		return text_size(buffer, known(b) ? b.low + (b.high - b.low) / 2 : PLIM_UNKNOWN);
	snprintf(buffer, 32, "%s to %s", text_size(low, b.low), text_size(high, b.high));
	return buffer;
}

static struct plim_interval range_of(struct messages_bytes b)
{
	return (struct plim_interval){ b.low, b.high };
}

/* ---- evidence ---- */

static void tell_room(struct lines *l, const struct messages_event *e,
		      const struct findings_told *t)
{
	struct messages_bytes left;
	char a[32], b[32], c[32];

	if (!known(t->room) || !known(t->request) || e->wording->class != MESSAGES_DEVICE)
		return;
	if (t->no_room) {
		lines_add(
			l,
			"%s was asked for, and all that was not allocated, in whatever pieces, was "
			"%s: gaps are not to blame",
			why_size(a, e->oom.tried), why_size(b, t->room));
		return;
	}
	left.low = t->room.low > e->oom.tried.high ? t->room.low - e->oom.tried.high : 0;
	left.high = t->room.high > e->oom.tried.low ? t->room.high - e->oom.tried.low : 0;
	if (left.low)
		lines_add(
			l,
			"%s was asked for and %s was not allocated: in one piece that would have "
			"served this request and left %s; what the step had still to allocate, the "
			"text does not tell",
			why_size(a, e->oom.tried), why_size(b, t->room), why_size(c, left));
	else
		lines_add(
			l,
			"%s was asked for and %s was not allocated: that is too near to tell gaps "
			"from want",
			why_size(a, e->oom.tried), why_size(b, t->room));
}

static void tell_unallocated(struct lines *l, const struct messages_event *e,
			     const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	char a[32], b[32];

	if (!known(o->allocated) || !known(o->unallocated))
		return;
	if (known(t->request) && o->unallocated.low >= t->request.high)
		lines_add(
			l,
			"%s was allocated and %s reserved but free, more than was asked for: that "
			"is a sign of gaps, no proof (an optimizer's first step and an evaluation "
			"that piles up look the same)",
			why_size(a, o->allocated), why_size(b, o->unallocated));
	else
		lines_add(l, "%s was allocated, %s reserved but free", why_size(a, o->allocated),
			  why_size(b, o->unallocated));
	if (known(o->private_pools))
		lines_add(l,
			  "%s of it is in private pools of CUDA graphs, which nothing else can use",
			  why_size(a, o->private_pools));
}

static void tell_card(struct lines *l, const struct messages_event *e,
		      const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	char a[32], b[32], c[32];

	if (t->bound_by == FINDINGS_BOUND_LIMIT && known(o->allowed))
		lines_add(l,
			  "a limit of this process stopped it (%s allowed), not the card%s%s: "
			  "set_per_process_memory_fraction, or per_process_memory_fraction",
			  why_size(a, o->allowed), known(o->free) ? ", which had free " : "",
			  known(o->free) ? why_size(b, o->free) : "");
	else if (t->bound_by == FINDINGS_BOUND_OTHER_PROCESS && known(o->others))
		lines_add(l, "other processes hold %s of the card's %s; %s was free",
			  why_size(a, o->others), why_size(b, o->total), why_size(c, o->free));
	else if (t->bound_by == FINDINGS_BOUND_NON_PYTORCH)
		lines_add(
			l,
			"this process holds %s on the card, and PyTorch only %s of it: the rest is "
			"CUDA's context, NCCL or another library",
			why_size(a, o->this_process), why_size(b, o->reserved));
	else if (t->free_enough)
		lines_add(l,
			  "the driver had %s free and was asked for %s: a limit that this release "
			  "does not print (2.1 to 2.5), or somebody who held memory only for that "
			  "moment",
			  why_size(a, o->free), why_size(b, o->tried));
	else if (t->bound_by == FINDINGS_BOUND_UNKNOWN && !known(o->free))
		lines_add(
			l,
			"PyTorch held %s of the card's %s, and what was free of the rest the text "
			"does not tell: other processes, or a driver that gives no such block",
			why_size(a, o->reserved), why_size(b, o->total));
	else if (t->bound_by == FINDINGS_BOUND_UNKNOWN && known(t->outside))
		lines_add(l,
			  "%s of the card is neither free nor PyTorch's: another process's, or of "
			  "this one outside PyTorch; this text does not tell whose (%s)",
			  why_size(a, t->outside),
			  o->own_listed ? "it was written in a container, whose processes have "
					  "other numbers outside"
					: "no NVML, as under WSL, or a release before 2.1");
	else if (t->bound_by == FINDINGS_BOUND_DEVICE && known(o->free))
		lines_add(l, "the card was full: %s free of %s", why_size(a, o->free),
			  known(o->total) ? why_size(b, o->total) : "it");
	if (known(o->reserved) && known(o->total) && o->reserved.low > o->total.high)
		lines_add(l, "PyTorch holds more than the card has: Windows' driver lends host "
			     "memory to "
			     "it, which is slow, and had no more of that either");
	if (o->own_listed && known(o->this_process))
		lines_add(l,
			  "one of the processes in the text is this one, under the number that it "
			  "has outside of its container: only so does %s of PyTorch's fit on the "
			  "card beside what they hold",
			  why_size(a, o->reserved));
}

static void tell_kill(struct lines *l, const struct plim_why_death *d,
		      const struct messages_event *e)
{
	char a[32], b[32], pid[32] = "";
	uint32_t alike = 0;

	if (d->pid != PLIM_UNKNOWN)
		snprintf(pid, sizeof(pid), " (pid %llu)", (unsigned long long)d->pid);
	if (known(e->rss))
		lines_add(l, "%s%s held %s of memory of its own when it was killed",
			  d->process ? d->process : "the process", pid, why_size(a, e->rss));
	if (known(e->used) && known(e->limit))
		lines_add(l, "%s was used of a limit of %s", why_size(a, e->used),
			  why_size(b, e->limit));
	else if (known(e->used))
		lines_add(l, "the job used %s", why_size(a, e->used));
	if (e->table_processes > 1)
		lines_add(l, "the %llu processes of the kernel's table held %s together",
			  (unsigned long long)e->table_processes, text_size(a, e->table_rss_bytes));
	for (uint32_t i = 1; i < e->top_count; i++)
		alike += !strcmp(e->top[i].name, e->top[0].name) &&
			 e->top[i].rss_bytes >= e->top[0].rss_bytes / 4;
	if (alike >= 2)
		lines_add(
			l,
			"the largest are %u or more of one name: ranks or workers that each hold a "
			"copy",
			alike + 1);
	if (e->wording->class == MESSAGES_KILLED)
		lines_add(l,
			  "it was ended by SIGKILL and could say nothing itself; nothing here "
			  "tells by whom: the kernel for want of memory as a rule, but a person, "
			  "a time limit or preemption look the same");
}

/* Which program it was and what it did, with the words that tell. */
static void tell_context(struct lines *l, const struct messages_context *c)
{
	if (c->engine && c->engine_cue)
		lines_add(l, "the program is %s: line %llu has '%s'",
			  messages_engine_names[c->engine], (unsigned long long)c->engine_line,
			  c->engine_cue);
	if (c->activity && c->activity_cue)
		lines_add(l, "it was %s: line %llu has '%s'", messages_activity_names[c->activity],
			  (unsigned long long)c->activity_line, c->activity_cue);
}

static int steps(const struct messages_context *c)
{
	return !c->activity || c->activity == MESSAGES_DOING_TRAINING ||
	       c->activity == MESSAGES_DOING_EVALUATION;
}

static void tell_history(struct lines *l, const struct plim_why *w, const struct messages_event *e,
			 const struct messages_context *c)
{
	const char *moment = why_moment_means(e, c);
	const struct messages_file *file = &w->hidden->log.files.at[e->file];

	if (e->wording->says)
		lines_add(l, "%s", e->wording->says);
	if (moment)
		lines_add(l, "%s", moment);
	if (e->traceback.fresh)
		lines_add(l, "the log shows no step done before it: nothing can have piled up yet");
	else if (e->traceback.step && e->traceback.step != PLIM_UNKNOWN && steps(c) &&
		 e->traceback.moment != MESSAGES_LOADING)
		lines_add(
			l,
			"the log showed step %llu before it: steps had fitted, so it was a larger "
			"batch, or something that was kept",
			(unsigned long long)e->traceback.step);
	if (e->rank_count + e->ranks_left_out > 1)
		lines_add(l, "%u ranks tell of it: the numbers are those of the first",
			  e->rank_count + e->ranks_left_out);
	if (file->lines > e->last_line + 500)
		lines_add(l,
			  "the log goes on for %llu lines: it may have been caught, and survived",
			  (unsigned long long)(file->lines - e->last_line));
}

/* ---- causes ---- */

enum place { ON_GPU, ON_GPU_ALONE, ON_HOST, IN_SHM, PLACES };

static const struct {
	const char *because, *decided_by;
} reasons[PLACES][4] = {
	[ON_GPU] = {
		[FINDINGS_CAUSE_CAPACITY] = {
			"the step needs more than there is",
			"what the step had still to allocate: a recording of the death shows it" },
		[FINDINGS_CAUSE_FRAGMENTATION] = {
			"what was free lay in pieces that were each too small",
			"the same run under PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or "
			"plimsoll whatif on a recording" },
		[FINDINGS_CAUSE_LEAK] = {
			"something was kept from step to step",
			"torch.cuda.memory_allocated() at the same line of each step: climbing is a "
			"leak" },
	},
	/* of engines that keep no cache of blocks */
	[ON_GPU_ALONE] = {
		[FINDINGS_CAUSE_CAPACITY] = {
			"what it holds and what it asked for are more than the card had left",
			"nvidia-smi just before: what else was on the card" },
		[FINDINGS_CAUSE_FRAGMENTATION] = {
			"what was free lay in pieces that were each too small",
			"the same run with the program's memory pool switched off" },
		[FINDINGS_CAUSE_LEAK] = {
			"something was kept that is no longer needed",
			"nvidia-smi over time: climbing is a leak" },
	},
	[ON_HOST] = {
		[FINDINGS_CAUSE_CAPACITY] = {
			"the job needs more host memory than it was given",
			"does it die at the same place again, soon after the start or at a load or "
			"save" },
		[FINDINGS_CAUSE_LEAK] = {
			"host memory grew as it ran: workers that copy the data set, lists that grow",
			"resident memory (ps, sacct MaxRSS) over time: climbing is a leak" },
	},
	[IN_SHM] = {
		[FINDINGS_CAUSE_CAPACITY] = {
			"the batches under way need more than /dev/shm has",
			"df -h /dev/shm while it runs" },
		[FINDINGS_CAUSE_LEAK] = {
			"dead jobs left segments behind",
			"ls -l /dev/shm when nothing runs" },
	},
};

static enum place place_of(enum messages_class class)
{
	return class <= MESSAGES_BUDGET ? ON_GPU : class == MESSAGES_SHARED ? IN_SHM : ON_HOST;
}

static enum plim_status fill_causes(struct plim_why *w, const struct messages_event *e,
				    const struct findings_told *t, const struct messages_context *c,
				    struct plim_verdict *v, struct plim_err *err)
{
	enum place place = place_of(e->wording->class);

	if (!t->ranked_count)
		return PLIM_OK;
	v->causes = arena_take(&w->hidden->arena, t->ranked_count, sizeof(*v->causes), err);
	if (!v->causes)
		return mem_status(err);
	if (place == ON_GPU && !findings_is_pytorch(c))
		place = ON_GPU_ALONE;
	for (size_t i = 0; i < t->ranked_count; i++)
		v->causes[i] = (struct plim_verdict_cause){
			(enum plim_cause)t->ranked[i],
			reasons[place][t->ranked[i]].because,
			reasons[place][t->ranked[i]].decided_by,
		};
	v->cause_count = t->ranked_count;
	return PLIM_OK;
}

/* ---- headline ---- */

/* "; the text does not decide why: capacity is likeliest, then a leak" */
static void tell_ranking(const struct messages_event *e, const struct findings_told *t, char *out,
			 size_t size)
{
	static const char *const names[] = { "", "capacity", "fragmentation", "a leak" };
	static const char *const whole[] = { "", "; it needs more than there is (capacity)",
					     "; the free memory lay in pieces (fragmentation)",
					     "; something was kept (a leak)" };

	char a[32], b[32];

	if (t->bound_by == FINDINGS_BOUND_OTHER_PROCESS && known(e->oom.others))
		snprintf(out, size, "; other processes hold %s of the card's %s",
			 why_size(a, e->oom.others), why_size(b, e->oom.total));
	else if (t->bound_by == FINDINGS_BOUND_NON_PYTORCH)
		snprintf(out, size, "; this process holds %s of the card outside PyTorch",
			 why_size(a, t->own_outside));
	else if (t->cause)
		snprintf(out, size, "%s", whole[t->cause]);
	else if (t->free_enough)
		snprintf(out, size,
			 ", though the driver had %s free: something else than the card's size set "
			 "the limit",
			 why_size(a, e->oom.free));
	else if (t->ranked_count == 1)
		snprintf(out, size, "; as a rule it needs more than the card had left");
	else
		snprintf(out, size, "; the text does not decide why: %s is likeliest, then %s%s%s",
			 names[t->ranked[0]], names[t->ranked[1]],
			 t->ranked_count > 2 ? ", then " : "",
			 t->ranked_count > 2 ? names[t->ranked[2]] : "");
}

/* A kind's words: what ran out, what was refused (if it is a request), what happened. */
static const struct {
	const char *what, *request, *happened;
} headlines[] = {
	[MESSAGES_DEVICE] = { "GPU MEMORY", "a request", " was refused" },
	[MESSAGES_BUDGET] = { "GPU SHARE", "what it needs",
			      " did not fit into the server's share of the card" },
	[MESSAGES_HOST] = { "HOST MEMORY", "a request",
			    " was refused by the machine, not by the GPU" },
	[MESSAGES_CGROUP_KILL] = { "KILLED AT A MEMORY LIMIT", NULL,
				   "by the host-memory limit of its job or container, not by the "
				   "GPU" },
	[MESSAGES_HOST_KILL] = { "KILLED FOR HOST MEMORY", NULL,
				 "because the machine ran short of it, not the GPU" },
	[MESSAGES_KILLED] = { "KILLED", NULL,
			      "by SIGKILL: for host memory as a rule; by whom, the log does not "
			      "tell" },
	[MESSAGES_SHARED] = { "SHARED MEMORY", NULL, "/dev/shm ran out, not the GPU" },
};

static const char *headline(struct plim_why *w, const struct plim_why_death *d,
			    const struct messages_event *e, const struct findings_told *t,
			    struct plim_err *err)
{
	enum messages_class class = e->wording->class;
	const char *request = headlines[class].request, *who = d->process ? d->process : "";
	const char *what = headlines[class].what, *happened = headlines[class].happened;
	char cause[160] = "", a[32];

	if (class == MESSAGES_DEVICE)
		tell_ranking(e, t, cause, sizeof(cause));
	if (class == MESSAGES_CGROUP_KILL && !t->bound_certain) {
		what = headlines[MESSAGES_HOST_KILL].what;
		happened = "at the limit of its job or container as a rule, not by the GPU";
	}
	if (request && known(e->oom.tried))
		request = why_size(a, e->oom.tried);
	return arena_text(&w->hidden->arena, err, "%s: %s%s%s%s", what, request ? request : who,
			  !request && *who ? ", " : "", happened, cause);
}

static enum plim_status fill_verdict(struct plim_why *w, const struct messages_event *e,
				     struct plim_why_death *d, struct plim_err *err)
{
	struct lines evidence = { .arena = &w->hidden->arena, .err = err };
	struct plim_verdict *v = &d->verdict;
	struct messages_context c;
	struct findings_told t;
	enum plim_status st;

	messages_find_context(&w->hidden->log, e, &c);
	findings_judge_message(e, &c, &t);
	d->engine = c.engine ? messages_engine_names[c.engine] : NULL;
	d->engine_line = c.engine_line ? c.engine_line : PLIM_UNKNOWN;
	d->activity = c.activity ? messages_activity_names[c.activity] : NULL;
	d->activity_line = c.activity_line ? c.activity_line : PLIM_UNKNOWN;
	*v = (struct plim_verdict){
		.bound_by = (enum plim_bound)t.bound_by,
		.bound_certain = t.bound_certain,
		.cause = (enum plim_cause)t.cause,
		.likely_cause = t.cause || !t.ranked_count ? PLIM_CAUSE_UNKNOWN
							   : (enum plim_cause)t.ranked[0],
		.basis = "text",
		.bound_bytes = range_of(t.bound),
		.request_bytes = range_of(t.request),
		.room_bytes = range_of(t.room),
	};
	tell_room(&evidence, e, &t);
	tell_unallocated(&evidence, e, &t);
	if (e->wording->class == MESSAGES_DEVICE)
		tell_card(&evidence, e, &t);
	else
		tell_kill(&evidence, d, e);
	tell_history(&evidence, w, e, &c);
	tell_context(&evidence, &c);
	v->headline = headline(w, d, e, &t, err);
	st = v->headline ? lines_keep(&evidence, &v->evidence, &v->evidence_count)
			 : mem_status(err);
	if (!st)
		st = fill_causes(w, e, &t, &c, v, err);
	return st ? st : why_ladder(w, e, &t, &c, v, err);
}

/* ---- facts ---- */

static struct plim_why_numbers numbers_of(const struct messages_event *e)
{
	const struct messages_oom *o = &e->oom;

	return (struct plim_why_numbers){
		.tried_bytes = range_of(o->tried),
		.total_bytes = range_of(o->total),
		.free_bytes = range_of(o->free),
		.allowed_bytes = range_of(o->allowed),
		.allocated_bytes = range_of(o->allocated),
		.unallocated_bytes = range_of(o->unallocated),
		.private_pools_bytes = range_of(o->private_pools),
		.reserved_bytes = range_of(o->reserved),
		.this_process_bytes = range_of(o->this_process),
		.other_processes_bytes = range_of(o->others),
		.used_bytes = range_of(e->used),
		.limit_bytes = range_of(e->limit),
		.resident_bytes = range_of(e->rss),
	};
}

static enum plim_status fill_processes(struct plim_why *w, const struct messages_event *e,
				       struct plim_why_death *d, struct plim_err *err)
{
	d->processes = arena_take(&w->hidden->arena, e->top_count, sizeof(*d->processes), err);
	if (!d->processes)
		return mem_status(err);
	for (uint32_t i = 0; i < e->top_count; i++) {
		d->processes[i].pid = e->top[i].pid;
		d->processes[i].resident_bytes = e->top[i].rss_bytes;
		d->processes[i].name = why_name(w, "process", e->top[i].name, err);
	}
	d->process_count = e->top_count;
	d->table_processes = e->table_processes ? e->table_processes : PLIM_UNKNOWN;
	d->table_resident_bytes = e->table_processes ? e->table_rss_bytes : PLIM_UNKNOWN;
	return PLIM_OK;
}

/* Who else speaks of it. */
static enum plim_status fill_also(struct plim_why *w, size_t index, struct plim_why_death *d,
				  struct plim_err *err)
{
	const struct messages_log *log = &w->hidden->log;
	struct lines also = { .arena = &w->hidden->arena, .err = err };
	int redact = w->hidden->options.flags & PLIM_WHY_REDACT;

	for (size_t i = 0; i < log->events.n; i++) {
		const struct messages_event *e = &log->events.at[i];

		if (i != index && e->joined == index &&
		    (e->line != log->events.at[index].line ||
		     e->file != log->events.at[index].file))
			lines_add(&also, "line %llu, %s%s%s", (unsigned long long)e->line,
				  messages_family_names[e->wording->family], redact ? "" : ": ",
				  redact ? "" : e->text);
	}
	return lines_keep(&also, &d->also, &d->also_count);
}

enum plim_status why_ranks(struct plim_why *w, const struct messages_event *e, uint64_t **out,
			   size_t *n, struct plim_err *err)
{
	*out = arena_take(&w->hidden->arena, e->rank_count, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (uint32_t i = 0; i < e->rank_count; i++)
		(*out)[i] = e->ranks[i];
	*n = e->rank_count;
	return PLIM_OK;
}

enum plim_status why_death(struct plim_why *w, size_t index, struct plim_why_death *d,
			   struct plim_err *err)
{
	const struct messages_event *e = &w->hidden->log.events.at[index];
	int redact = w->hidden->options.flags & PLIM_WHY_REDACT;
	struct arena *h = &w->hidden->arena;
	enum plim_status st;

	*d = (struct plim_why_death){
		.kind = (enum plim_why_kind)e->wording->class,
		.family = messages_family_names[e->wording->family],
		.file = w->files[e->file].path,
		.line = e->line,
		.last_line = e->last_line,
		.times = e->times,
		.text = redact ? NULL : arena_text(h, err, "%s", e->text),
		.device = e->oom.device == UINT32_MAX ? PLIM_UNKNOWN : e->oom.device,
		.ranks_left_out = e->ranks_left_out,
		.moment = (enum plim_why_moment)e->traceback.moment,
		.moment_frame = why_frame(w, &e->traceback.shown, err),
		.frame = why_frame(w, &e->traceback.user, err),
		.step = e->traceback.step,
		.pid = e->pid,
		.process = why_name(w, "process", e->process, err),
		.group = why_name(w, "group", e->group, err),
		.numbers = numbers_of(e),
	};
	if (!redact && e->traceback.user.source[0])
		d->source = arena_text(h, err, "%s", e->traceback.user.source);
	st = why_ranks(w, e, &d->ranks, &d->rank_count, err);
	if (!st)
		st = fill_processes(w, e, d, err);
	if (!st)
		st = fill_also(w, index, d, err);
	return st ? st : fill_verdict(w, e, d, err);
}
