/*
 * One death is known by many: the kernel names the process, Slurm the job, the launcher a signal, the
 * shell says Killed.  What names no process joins the kill before it, else the one behind it.
 */
#include "scan.h"

#include <string.h>

#define STOPPED_LINES 200 /* a signal further away is another matter */

/* Who names the process and why it died; Killed alone shows neither. */
static int tells_victim(const struct messages_event *e)
{
	return scan_event_is_kill(e) && e->wording->class != MESSAGES_KILLED &&
	       e->pid != PLIM_UNKNOWN;
}

/* Two jobs, as the same scheduler names them: "4242.batch" is of 4242. */
static int other_job(const struct messages_event *a, const struct messages_event *b)
{
	size_t n = strcspn(a->group, ".");

	return a->wording->family == b->wording->family && n && b->group[0] &&
	       (strcspn(b->group, ".") != n || memcmp(a->group, b->group, n));
}

/*
 * The kill that event `i` belongs to.  Containers number their processes anew, so a pid that no one
 * else names does not part two kills unless both were known by the kernel.
 */
static size_t joined_head_of(const struct messages_log *log, size_t i)
{
	const struct messages_event *e = &log->events.at[i];
	size_t before = i, behind = i;

	for (size_t k = 0; k < log->events.n; k++) {
		const struct messages_event *other = &log->events.at[k];

		if (k == i || !scan_event_is_kill(other) || other->joined != k)
			continue;
		if (other_job(e, other))
			continue;
		if (k < i)
			before = k;
		else if (behind == i)
			behind = k;
	}
	return before != i ? before : behind;
}

/* A lower class shows more of a kill. */
static int tells_more(const struct messages_event *a, const struct messages_event *b)
{
	/* a count of kills in a cgroup is less than who killed */
	if (a->wording->sure != b->wording->sure && a->wording->class != MESSAGES_KILLED &&
	    b->wording->class != MESSAGES_KILLED)
		return a->wording->sure;
	return a->wording->class < b->wording->class;
}

static void take_bytes(struct messages_bytes *to, struct messages_bytes from)
{
	if (to->low == PLIM_UNKNOWN)
		*to = from;
}

static void take_missing(struct messages_event *head, const struct messages_event *e)
{
	take_bytes(&head->used, e->used);
	take_bytes(&head->limit, e->limit);
	take_bytes(&head->lacks, e->lacks);
	take_bytes(&head->oom.tried, e->oom.tried);
	take_bytes(&head->oom.total, e->oom.total);
	take_bytes(&head->oom.free, e->oom.free);
	if (head->oom.device == UINT32_MAX)
		head->oom.device = e->oom.device;
	if (e->wording->class == MESSAGES_DETAIL) {
		take_bytes(&head->oom.allocated, e->oom.allocated);
		take_bytes(&head->oom.reserved, e->oom.reserved);
	}
	if (head->tokens_fit == PLIM_UNKNOWN)
		head->tokens_fit = e->tokens_fit;
	if (head->share < 0)
		head->share = e->share;
	if (!head->group[0])
		memcpy(head->group, e->group, sizeof(head->group));
	if (head->traceback.step == PLIM_UNKNOWN)
		head->traceback.step = e->traceback.step;
	if (!head->traceback.frames &&
	    (e->traceback.frames || head->traceback.moment == MESSAGES_MOMENT_UNKNOWN))
		head->traceback = e->traceback;
}

static void join_into(struct messages_log *log, size_t from, size_t to)
{
	struct messages_event *at = log->events.at;

	for (size_t k = 0; k < log->events.n; k++)
		if (at[k].joined == from)
			at[k].joined = (uint32_t)to;
	take_missing(&at[to], &at[from]);
}

static void join_kills(struct messages_log *log)
{
	struct messages_event *at = log->events.at;

	for (size_t i = 0; i < log->events.n; i++) {
		size_t head;

		if (at[i].joined != i || !scan_event_is_kill(&at[i]))
			continue;
		head = joined_head_of(log, i);
		/* the kernel's own words are another kill unless they are the same process's once more */
		if (head == i || (tells_victim(&at[i]) && !(head < i && at[head].pid == at[i].pid)))
			continue;
		if (tells_more(&at[i], &at[head]) || (i < head && !tells_more(&at[head], &at[i])))
			join_into(log, head, i);
		else
			join_into(log, i, head);
	}
}

/* May the detail be of such a failure?  Engines report the GPU, schedulers of kills; DeepSpeed of both. */
static int is_about(const struct messages_event *detail, enum messages_class class)
{
	switch (detail->wording->family) {
	case MESSAGES_JAX:
	case MESSAGES_TENSORFLOW:
	case MESSAGES_SERVING:
	case MESSAGES_LLAMA_CPP: return class == MESSAGES_DEVICE || class == MESSAGES_BUDGET;
	case MESSAGES_LIBRARY: return class == MESSAGES_DEVICE;
	case MESSAGES_LAUNCHER:
		if (detail->oom.allocated.low != PLIM_UNKNOWN)
			return class == MESSAGES_DEVICE;
		return class >= MESSAGES_HOST && class <= MESSAGES_KILLED;
	default:
		return class == MESSAGES_CGROUP_KILL || class == MESSAGES_HOST_KILL ||
		       class == MESSAGES_KILLED;
	}
}

static uint64_t lines_between(const struct messages_event *a, const struct messages_event *b)
{
	return a->line < b->line ? b->line - a->line : a->line - b->line;
}

#define PINNED_LINES 2 /* between ggml's word and the driver's error that it is about */

/* ggml says that it could not pin memory, and then the driver's error: it goes on without. */
static void judge_pinned(struct messages_event *head, const struct messages_event *detail)
{
	if (!strstr(detail->wording->pattern, "allocate pinned memory") ||
	    lines_between(head, detail) > PINNED_LINES || head->wording->class != MESSAGES_DEVICE)
		return;
	head->wording = scan_pinned_by_ggml;
	head->caught_line = detail->line;
}

/* Details stand near the failure; those without one are not a failure. */
static void join_details(struct messages_log *log)
{
	struct messages_event *at = log->events.at;

	for (size_t i = 0; i < log->events.n; i++) {
		size_t head = i;

		for (size_t k = 0; at[i].wording->class == MESSAGES_DETAIL && k < log->events.n;
		     k++)
			if (at[k].joined == k && at[k].file == at[i].file &&
			    is_about(&at[i], at[k].wording->class) && !other_job(&at[i], &at[k]) &&
			    (head == i ||
			     lines_between(&at[i], &at[k]) < lines_between(&at[i], &at[head])))
				head = k;
		if (head == i)
			continue;
		/* what was skipped was the last that there was */
		if (strstr(at[i].wording->pattern, "any implementation"))
			at[head].caught_line = 0;
		judge_pinned(&at[head], &at[i]);
		join_into(log, i, head);
	}
}

/* ---- what names another reason ---- */

#define REASON_LINES 4 /* of a container's state, between the reason and the exit code */

static void judge_reasons(struct messages_log *log)
{
	struct messages_event *at = log->events.at;

	for (size_t i = 0; i < log->events.n; i++) {
		if (at[i].wording->class != MESSAGES_DETAIL ||
		    at[i].wording->family != MESSAGES_KUBERNETES || at[i].used.low != PLIM_UNKNOWN)
			continue;
		for (size_t k = 0; k < log->events.n; k++)
			if (at[k].wording->class == MESSAGES_KILLED && at[k].file == at[i].file &&
			    lines_between(&at[i], &at[k]) <= REASON_LINES)
				at[k].wording = scan_reason_error;
	}
}

/* A log that is cut behind the oom-killer's first lines: something was killed, and who asked is not who died. */
static void judge_cut_kills(struct messages_log *log)
{
	for (size_t i = 0; i < log->events.n; i++) {
		struct messages_event *e = &log->events.at[i];

		if (e->joined != i || e->wording->family != MESSAGES_KERNEL ||
		    e->wording->class != MESSAGES_DETAIL ||
		    !strstr(e->wording->pattern, "invoked oom-killer"))
			continue;
		e->wording = scan_killer_called;
		e->process[0] = 0;
	}
}

typedef int event_test(const struct messages_event *e);

/* Joins event `i` into the first failure of its file that is `fit` and no more than `lines` away. */
static void join_near(struct messages_log *log, size_t i, event_test *fit, uint64_t lines)
{
	struct messages_event *at = log->events.at;

	for (size_t k = 0; k < log->events.n; k++)
		if (k != i && at[k].joined == k && at[k].file == at[i].file && fit(&at[k]) &&
		    lines_between(&at[i], &at[k]) <= lines) {
			join_into(log, i, k);
			return;
		}
}

/* A kernel that failed breaks the context: whatever is called next fails, too. */
static int is_kernels(const struct messages_event *e)
{
	const char *words = e->wording->pattern;

	return strstr(words, "Assertion `") || strstr(words, "illegal memory access") ||
	       strstr(words, "LAUNCH_FAILED") || strstr(words, "launch failure");
}

static int is_refused(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_DEVICE;
}

/* The driver's refusal, or NCCL's line with the driver's reason. */
static int has_reason(const struct messages_event *e)
{
	return is_refused(e) || strstr(e->wording->pattern, "Cuda failure");
}

/* What another process of the same program may mean by "see above". */
static int is_cause(const struct messages_event *e)
{
	return e->wording->class <= MESSAGES_OTHER && !strstr(e->wording->pattern, "root cause");
}

static int is_ggml_host(const struct messages_event *e)
{
	return e->wording->family == MESSAGES_LLAMA_CPP && e->wording->class == MESSAGES_HOST;
}

static int is_semaphore(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_SHARED && e->wording->says &&
	       strstr(e->wording->says, "semaphores");
}

#define INDEX_LINES 2000 /* of assertions, which each thread of a kernel writes */
#define HANDLE_LINES 40  /* between a word of a refusal, and the refusal itself */
#define BUFFER_LINES \
	5 /* between a buffer that ggml did not get, and why: it was the machine that refused */

/*
 * What follows from another failure near to it: a library behind an assertion of a kernel, which broke the context; cuBLAS,
 * cuDNN and NCCL that could not start on a full GPU; the same words about a semaphore, whose place is /dev/shm; SGLang's word
 * that a batch was too large; a server or a launcher that points to another error; a crash behind a refusal; a buffer of ggml's.
 */
static void join_followed(struct messages_log *log)
{
	static const struct {
		const char *words;
		enum messages_class class;
		event_test *fit;
		uint64_t lines;
	} follows[] = {
		{ "CUBLAS_STATUS", MESSAGES_NOTHING, is_kernels, INDEX_LINES },
		{ "CUDNN_STATUS", MESSAGES_NOTHING, is_kernels, INDEX_LINES },
		{ "device-side assert", MESSAGES_NOTHING, is_kernels, INDEX_LINES },
		{ "STATUS_NOT_INITIALIZED", MESSAGES_OTHER, is_refused, HANDLE_LINES },
		{ "unhandled cuda error", MESSAGES_OTHER, has_reason, HANDLE_LINES },
		{ "No space left on device", MESSAGES_OTHER, is_semaphore, UINT64_MAX },
		{ "to lower your batch", MESSAGES_NOTHING, is_refused, HANDLE_LINES },
		{ "root cause", MESSAGES_OTHER, is_cause, UINT64_MAX },
		{ "reset by peer", MESSAGES_OTHER, is_cause, UINT64_MAX },
		{ "exits with return code", MESSAGES_OTHER, is_cause, UINT64_MAX },
		{ "exitcode : 1 ", MESSAGES_OTHER, is_cause, UINT64_MAX },
		{ "Segmentation fault", MESSAGES_OTHER, is_refused, HANDLE_LINES },
		{ "unable to allocate ", MESSAGES_DEVICE, is_ggml_host, BUFFER_LINES },
		{ "failed to allocate CUDA{", MESSAGES_DEVICE, is_ggml_host, BUFFER_LINES },
		{ "buffer for kv cache", MESSAGES_DEVICE, is_ggml_host, BUFFER_LINES },
	};
	struct messages_event *at = log->events.at;

	for (size_t i = 0; i < log->events.n; i++)
		for (size_t k = 0; k < sizeof(follows) / sizeof(follows[0]); k++)
			if (at[i].joined == i && strstr(at[i].wording->pattern, follows[k].words) &&
			    (follows[k].class == MESSAGES_NOTHING ||
			     follows[k].class == at[i].wording->class))
				join_near(log, i, follows[k].fit, follows[k].lines);
}

/* The same request once more, by who leaves the numbers out: an exception that is reported again. */
static int is_shorter(const struct messages_event *a, const struct messages_event *b)
{
	return a->oom.tried.low != PLIM_UNKNOWN && a->oom.tried.low == b->oom.tried.low &&
	       a->oom.tried.high == b->oom.tried.high && a->oom.total.low != PLIM_UNKNOWN &&
	       b->oom.total.low == PLIM_UNKNOWN;
}

/* In front of event `i`, beyond what only adds to others. */
static size_t last_failure(const struct messages_log *log, size_t i)
{
	size_t k = i - 1;

	while (k && log->events.at[k].wording->class == MESSAGES_DETAIL)
		k--;
	return log->events.at[k].wording->class == MESSAGES_DETAIL ? i - 1 : k;
}

/* Two wordings of one refusal: the text of the exception behind the driver's own code. */
static void join_devices(struct messages_log *log)
{
	struct messages_event *at = log->events.at;

	for (size_t i = 1; i < log->events.n; i++) {
		size_t before = last_failure(log, i);
		struct messages_event *a = &at[at[before].joined], *b = &at[i];

		if (b->wording->class != a->wording->class || b->joined != i ||
		    (b->wording->class != MESSAGES_DEVICE && b->wording->class != MESSAGES_SHARED &&
		     b->wording->class != MESSAGES_HOST && b->wording->class != MESSAGES_BUDGET) ||
		    a->file != b->file || b->line > at[before].last_line + 40 ||
		    (a->wording == b->wording && !is_shorter(a, b) && !is_shorter(b, a)))
			continue;
		if (strstr(a->wording->pattern, "OutOfMemoryError$"))
			a->wording = b->wording; /* the class alone shows less */
		/* the numbers are in what follows */
		if (b->wording->family == a->wording->family && is_refused(b) && is_shorter(b, a))
			a->oom = b->oom;
		/* the last counts: caught, tried in another way, and failed again */
		if (b->line > a->line && b->line > a->caught_line)
			a->caught_line = b->caught_line;
		join_into(log, i, a->joined);
	}
}

/* Did RAPIDS run, by its frames or by RMM's own message? */
static int is_of_rapids(const struct messages_log *log, const struct messages_event *e)
{
	const struct messages_file *f = &log->files.at[e->file];

	for (size_t i = 0; f->cues != SIZE_MAX && i < scan_cue_count; i++)
		if (scan_cues[i].engine == MESSAGES_ENGINE_RAPIDS && log->cues.at[f->cues + i])
			return 1;
	for (size_t i = 0; i < log->events.n; i++)
		if (log->events.at[i].file == e->file &&
		    strstr(log->events.at[i].text, "RMM_ERROR"))
			return 1;
	return 0;
}

#define ALLOC_LINES 40 /* between RMM's own words and the exception that they become */

/* "MemoryError: std::bad_alloc" of cuDF is the GPU's refusal, told by RMM in front of it or not at all. */
static void judge_allocs(struct messages_log *log)
{
	struct messages_event *at = log->events.at;

	for (size_t i = 0; i < log->events.n; i++) {
		if (at[i].joined != i || at[i].wording->class != MESSAGES_HOST ||
		    !strstr(at[i].text, "std::bad_alloc") || !is_of_rapids(log, &at[i]))
			continue;
		at[i].wording = scan_rmm_refused;
		join_near(log, i, is_refused, ALLOC_LINES);
	}
}

/* A launcher ends the other ranks, by SIGKILL in the end, when one has died of something else. */
static void join_followers(struct messages_log *log)
{
	struct messages_event *at = log->events.at;
	size_t death = log->events.n;

	for (size_t i = 0; i < log->events.n; i++) {
		enum messages_class class = at[i].wording->class;

		if (death == log->events.n && at[i].joined == i && class <= MESSAGES_SHARED &&
		    !scan_event_is_kill(&at[i]))
			death = i;
		else if (death < log->events.n && at[i].joined == i && class == MESSAGES_KILLED &&
			 at[i].wording->family == MESSAGES_LAUNCHER)
			join_into(log, i, death);
	}
}

static int is_stopped(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_STOPPED;
}

/* A bare SIGKILL near to who says that he ended the job is his. */
static void join_stopped(struct messages_log *log)
{
	for (size_t i = 0; i < log->events.n; i++)
		if (log->events.at[i].joined == i &&
		    log->events.at[i].wording->class == MESSAGES_KILLED)
			join_near(log, i, is_stopped, STOPPED_LINES);
}

#define IMPOSSIBLE ((uint64_t)64 << 40) /* bytes that no machine has */

/* A size beyond any machine is a wrong number, not a lack of memory. */
static void judge_impossible(struct messages_event *e)
{
	if (e->wording->class == MESSAGES_DEVICE && e->wording->family == MESSAGES_PYTORCH &&
	    e->oom.tried.low != PLIM_UNKNOWN && e->oom.tried.low >= IMPOSSIBLE)
		e->wording = scan_impossible;
}

/* The driver's refusal at a line of code that pins host memory: it is not the GPU's. */
static void judge_pinning(struct messages_event *e)
{
	const char *source = e->traceback.user.source;

	if (e->wording->class == MESSAGES_DEVICE && e->wording->family == MESSAGES_CUDA &&
	    e->oom.tried.low == PLIM_UNKNOWN && !strstr(source, "DataLoader(") &&
	    scan_holds(source, scan_pinning_code))
		e->wording = scan_pinning_refused;
}

/* ComfyUI's report names the node that failed: one that loads had nothing to draw yet. */
static void judge_node(const struct messages_log *log, struct messages_event *e)
{
	if (log->files.at[e->file].set[MESSAGES_TASK_LOADER].line &&
	    e->wording->class <= MESSAGES_HOST && e->traceback.moment == MESSAGES_MOMENT_UNKNOWN)
		e->traceback.moment = MESSAGES_LOADING;
}

void messages_join(struct messages_log *log)
{
	for (size_t i = 0; i < log->events.n; i++) {
		struct messages_event *e = &log->events.at[i];

		e->joined = (uint32_t)i;
		judge_impossible(e);
		judge_node(log, e);
		judge_pinning(e);
	}
	judge_reasons(log);
	join_followed(log);
	join_kills(log);
	judge_allocs(log);
	join_devices(log);
	join_details(log);
	join_followers(log);
	join_stopped(log);
	judge_cut_kills(log);
}
