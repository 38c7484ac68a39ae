/* Events as they are found: the same one reported again, and the kernel's, which are reported in several lines. */
#include "scan.h"

#include <stdio.h>
#include <string.h>

void scan_event_start(struct messages_event *e)
{
	memset(e, 0, sizeof(*e));
	scan_oom_start(&e->oom);
	e->used = e->limit = e->rss = e->lacks = messages_unknown;
	e->pid = e->code = e->need_blocks = PLIM_UNKNOWN;
	e->tokens_wanted = e->tokens_fit = PLIM_UNKNOWN;
	e->share = -1;
	scan_trace_start(&e->traceback);
}

static int same_bytes(struct messages_bytes a, struct messages_bytes b)
{
	return a.low == b.low && a.high == b.high;
}

/*
 * The same failure reported again: by an exception that wraps it, by the next rank, or as it happened
 * once more.  Ranks differ in what they hold, so of theirs only the request and the place count.
 */
static int is_same_failure(const struct messages_event *a, const struct messages_event *b)
{
	int other_rank = a->rank_count && b->rank_count && a->ranks[0] != b->ranks[0];

	if (a->wording != b->wording || a->pid != b->pid || strcmp(a->process, b->process) ||
	    strcmp(a->group, b->group) || !same_bytes(a->oom.tried, b->oom.tried) ||
	    a->need_blocks != b->need_blocks || a->tokens_wanted != b->tokens_wanted)
		return 0;
	if (a->traceback.frames && b->traceback.frames &&
	    (a->traceback.user.line != b->traceback.user.line ||
	     a->traceback.moment != b->traceback.moment))
		return 0;
	return other_rank ||
	       (same_bytes(a->oom.allocated, b->oom.allocated) &&
		same_bytes(a->oom.free, b->oom.free) && same_bytes(a->oom.total, b->oom.total) &&
		a->oom.device == b->oom.device);
}

/* Details that a program shows again and again, as its memory grows, are one. */
static int is_same(const struct messages_event *a, const struct messages_event *b)
{
	if (a->wording->class != MESSAGES_DETAIL || a->wording->family == MESSAGES_KERNEL ||
	    a->wording->family == MESSAGES_KUBERNETES)
		return is_same_failure(a, b);
	return a->wording == b->wording && a->file == b->file && !strcmp(a->group, b->group);
}

void scan_event_rank(struct messages_event *e, uint32_t rank)
{
	uint32_t i = 0;

	if (rank == UINT32_MAX)
		return;
	while (i < e->rank_count && e->ranks[i] < rank)
		i++;
	if (i < e->rank_count && e->ranks[i] == rank)
		return;
	if (e->rank_count == MESSAGES_RANKS) {
		e->ranks_left_out++;
		return;
	}
	memmove(&e->ranks[i + 1], &e->ranks[i], (e->rank_count - i) * sizeof(*e->ranks));
	e->ranks[i] = rank;
	e->rank_count++;
}

static void repeat(struct messages_event *old, const struct messages_event *e)
{
	old->times++;
	old->last_line = e->line;
	old->caught_line = e->caught_line;
	if (e->wording->class == MESSAGES_DETAIL) {
		old->oom = e->oom;
		old->used = e->used;
		old->limit = e->limit;
		old->share = e->share;
	}
	if (e->rank_count)
		scan_event_rank(old, e->ranks[0]);
	if (!old->traceback.frames)
		old->traceback = e->traceback;
}

uint32_t scan_event_repeat(struct messages_log *log, const struct messages_event *e)
{
	for (size_t i = 0; i < log->events.n; i++) {
		if (is_same(&log->events.at[i], e)) {
			repeat(&log->events.at[i], e);
			return (uint32_t)i;
		}
	}
	return SCAN_NONE;
}

enum plim_status scan_event_add(struct messages_log *log, const struct messages_event *e,
				struct plim_err *err)
{
	if (log->events.n == MESSAGES_EVENTS) {
		log->left_out++;
		log->events.n--;
	}
	return vec_push(log->mem, &log->events, *e, err);
}

/* ---- the kernel's kills ---- */

/* "...,task=python,pid=12,uid=0" */
static void put_task(struct messages_event *e, const char *text)
{
	const char *at = strstr(text, ",task=");
	const char *end = at ? strstr(at, ",pid=") : NULL;

	if (end)
		snprintf(e->process, sizeof(e->process), "%.*s", (int)((size_t)(end - at - 6)),
			 at + 6);
}

void scan_kill_numbers(struct messages_event *e, const struct scan_line *line)
{
	struct messages_kill k;

	if (messages_kill_done(line->text, line->n, &k)) {
		e->pid = k.pid;
		snprintf(e->process, sizeof(e->process), "%.*s", (int)(k.process_n), k.process);
		e->rss = (struct messages_bytes){ k.anon_bytes, k.anon_bytes };
	} else if (messages_kill_reason(line->text, line->n, &k)) {
		if (k.group_n)
			snprintf(e->group, sizeof(e->group), "%.*s", (int)(k.group_n), k.group);
		e->pid = k.pid;
		put_task(e, line->text);
	}
}

int scan_event_is_kernels(const struct messages_event *e)
{
	return e->wording->family == MESSAGES_KERNEL;
}

int scan_event_is_kill(const struct messages_event *e)
{
	enum messages_class c = e->wording->class;

	return c == MESSAGES_CGROUP_KILL || c == MESSAGES_HOST_KILL || c == MESSAGES_KILLED;
}

void scan_kill_detail(struct messages_event *k, const struct messages_event *e)
{
	if (e->group[0])
		memcpy(k->group, e->group, sizeof(k->group));
	if (e->used.low != PLIM_UNKNOWN && k->used.low == PLIM_UNKNOWN)
		k->used = e->used;
	if (e->limit.low != PLIM_UNKNOWN && k->limit.low == PLIM_UNKNOWN)
		k->limit = e->limit;
	if (e->process[0] && !k->process[0])
		memcpy(k->process, e->process, sizeof(k->process));
}

/* Older kernels tell a kill in two lines: whom they chose, then what it held. */
static struct messages_event *told_before(struct messages_log *log, const struct messages_event *e)
{
	for (size_t i = log->events.n; i--;) {
		struct messages_event *k = &log->events.at[i];

		if (scan_event_is_kernels(k) && k->wording->class <= MESSAGES_HOST_KILL &&
		    k->pid == e->pid && k->file == e->file)
			return k->rss.low == PLIM_UNKNOWN ? k : NULL;
	}
	return NULL;
}

int scan_kill_end(struct messages_log *log, uint32_t kill, const struct messages_event *e)
{
	struct messages_event *k = kill == SCAN_NONE ? NULL : &log->events.at[kill];

	if (k && k->wording->class == MESSAGES_DETAIL && scan_event_is_kernels(k)) {
		k->wording = e->wording;
		k->pid = e->pid;
		k->rss = e->rss;
		memcpy(k->process, e->process, sizeof(k->process));
		memcpy(k->text, e->text, sizeof(k->text));
		k->last_line = e->line;
		return 1;
	}
	k = told_before(log, e);
	if (k)
		k->rss = e->rss;
	return k != NULL;
}
