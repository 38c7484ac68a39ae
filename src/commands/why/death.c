/* One death: its facts, as the log shows them, and its verdict. */
#include "commands/why/why.h"

#include <string.h>

static enum plim_status fill_verdict(struct plim_why *w, const struct messages_event *e,
				     struct plim_why_death *d, struct plim_err *err)
{
	const struct diagnose_text x = {
		.redacts = (w->hidden->options.flags & PLIM_WHY_REDACT) != 0,
		.arena = &w->hidden->arena,
		.log = &w->hidden->log,
		.event = e,
		.process = d->process,
	};
	const struct messages_context *c;
	struct diagnose_told told;
	enum plim_status st = diagnose_text(&x, &d->verdict, &told, err);

	if (st)
		return st;
	c = &told.context;
	d->held = told.held;
	d->open = told.open;
	d->actions = told.actions;
	d->action_count = told.action_count;
	d->first = told.action_count ? told.actions[0] : NULL;
	d->fixes = arena_take(x.arena, told.action_count, sizeof(*d->fixes), err);
	if (!d->fixes)
		return mem_status(err);
	d->first_is_typed = told.action_count && *told.fixes[0];
	for (size_t i = 0; i < told.action_count; i++)
		if (*told.fixes[i])
			d->fixes[d->fix_count++] = told.fixes[i];
	d->caught_line = e->caught_line ? e->caught_line : PLIM_UNKNOWN;
	d->engine = c->engine ? messages_engines[c->engine].name : NULL;
	d->engine_line = c->engine_line ? c->engine_line : PLIM_UNKNOWN;
	if (!x.redacts && c->script)
		d->program = arena_text(x.arena, err, "%s", c->script);
	/* XLA writes TensorFlow's words */
	if (e->wording->family == MESSAGES_TENSORFLOW && c->engine == MESSAGES_ENGINE_JAX)
		d->family = messages_family_names[MESSAGES_JAX];
	d->activity = c->activity ? messages_activity_names[c->activity] : NULL;
	d->activity_line = c->activity_line ? c->activity_line : PLIM_UNKNOWN;
	return PLIM_OK;
}

static struct plim_why_numbers numbers_of(const struct messages_event *e)
{
	const struct messages_oom *o = &e->oom;

	return (struct plim_why_numbers){
		.tried_bytes = why_range(o->tried),
		.total_bytes = why_range(o->total),
		.free_bytes = why_range(o->free),
		.allowed_bytes = why_range(o->allowed),
		.allocated_bytes = why_range(o->allocated),
		.unallocated_bytes = why_range(o->unallocated),
		.private_pools_bytes = why_range(o->private_pools),
		.reserved_bytes = why_range(o->reserved),
		.this_process_bytes = why_range(o->this_process),
		.other_processes_bytes = why_range(o->others),
		.used_bytes = why_range(e->used),
		.limit_bytes = why_range(e->limit),
		.resident_bytes = why_range(e->rss),
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

/* DeepSpeed reports its memory again and again, on a good day as well. */
static int is_gauge(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_DETAIL && e->wording->family == MESSAGES_LAUNCHER &&
	       (e->oom.allocated.low != PLIM_UNKNOWN || strstr(e->wording->pattern, "CPU Virtual"));
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

		if (i != index && e->joined == index && !is_gauge(e) &&
		    (e->line != log->events.at[index].line ||
		     e->file != log->events.at[index].file))
			lines_add(&also, "line %llu, %s%s%s", (unsigned long long)e->line,
				  messages_family_names[e->wording->family], redact ? "" : ": ",
				  redact ? "" : e->text);
	}
	return lines_keep(&also, &d->also, &d->also_count);
}

static enum plim_status fill_frames(struct plim_why *w, const struct messages_trace *t,
				    struct plim_why_death *d, struct plim_err *err)
{
	size_t n = t->user.file[0] ? 1 + (size_t)t->caller_count : 0;

	d->frames = arena_take(&w->hidden->arena, n, sizeof(*d->frames), err);
	if (!d->frames)
		return mem_status(err);
	for (size_t i = 0; i < n; i++) {
		d->frames[i] = why_frame(w, i ? &t->callers[i - 1] : &t->user, err);
		if (!d->frames[i])
			return mem_status(err);
	}
	d->frame_count = n;
	return PLIM_OK;
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
		.step = e->traceback.step == MESSAGES_STEP_SOME ? PLIM_UNKNOWN : e->traceback.step,
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
	if (!st)
		st = fill_frames(w, &e->traceback, d, err);
	return st ? st : fill_verdict(w, e, d, err);
}
