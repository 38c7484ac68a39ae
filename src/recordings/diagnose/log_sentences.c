/* The verdict of a death that only its text shows, in sentences: the headline, the numbers behind it, what it may be. */
#include "log_rows.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static struct plim_interval sentence_range_of(struct messages_bytes b)
{
	return (struct plim_interval){ b.low, b.high };
}

/* ---- moments ---- */

/* What a moment means, one sentence; NULL: nothing is known of it. */
static const char *moment_means(const struct messages_event *e, const struct messages_context *c)
{
	if (e->traceback.moment == MESSAGES_FORWARD && c->activity != MESSAGES_DOING_TRAINING)
		return "it died in a forward pass";
	return e->wording->class == MESSAGES_DEVICE || e->traceback.moment == MESSAGES_LOADING ||
			       e->traceback.moment == MESSAGES_SAVING ||
			       e->traceback.moment == MESSAGES_DATA
		       ? log_moments[e->traceback.moment].means
		       : NULL;
}

/* ---- evidence: what the headline, the holder and the numbers do not show ---- */

static void tell_card(struct lines *l, const struct messages_event *e,
		      const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;

	if (messages_known(o->allocated) && messages_known(o->unallocated) &&
	    messages_known(t->request) && o->unallocated.low >= t->request.high && !t->elsewhere)
		lines_add(l,
			  "more was reserved but free than was asked for: a sign of gaps, no proof "
			  "(an "
			  "optimizer's first step and an evaluation that piles up look the same)");
	if (messages_known(o->reserved) && messages_known(o->total) &&
	    o->reserved.low > o->total.high)
		lines_add(l, "PyTorch holds more than the GPU has: Windows' driver lends host "
			     "memory to it, which is slow, and had no more of that either");
	if (t->free_enough)
		lines_add(
			l,
			"enough was free: a limit that this release does not print, or someone who "
			"held memory only for that moment");
	else if (t->bound_by == FINDINGS_BOUND_UNKNOWN && messages_known(t->outside))
		lines_add(l, "whose the memory outside PyTorch is, this text does not say (a "
			     "container, no "
			     "NVML, as under WSL, or a release before 2.1)");
}

static void tell_kill(struct lines *l, const struct messages_event *e)
{
	char a[32];

	if (messages_known(e->used) && !messages_known(e->limit))
		lines_add(l, "the job used %s", messages_size(a, e->used));
	if (e->share > 0 && e->share <= 1 && e->wording->family == MESSAGES_LAUNCHER)
		lines_add(l,
			  messages_known(e->limit)
				  ? "its threshold was %.0f %% of that"
				  : "%.0f %% of the machine's memory was in use shortly before",
			  e->share * 100);
	if (e->wording->class == MESSAGES_KILLED && e->wording->sure)
		lines_add(l, "it was ended by SIGKILL and could say nothing itself; nothing here "
			     "shows by whom: usually the kernel for want of memory, but a person, "
			     "a time limit or preemption look the same");
}

/* Which program it was and what it did, with the words that tell. */
static void tell_context(struct lines *l, const struct diagnose_text *x,
			 const struct messages_context *c)
{
	const struct messages_log *log = x->log;
	int several = log->files.n > 1 && !x->redacts;

	if (c->script && !x->redacts)
		lines_add(l, "line %llu starts %s",
			  (unsigned long long)log->files.at[x->event->file].script_line, c->script);
	if (c->engine && c->engine_cue)
		lines_add(l, "the program is %s: line %llu%s%s has '%s'",
			  messages_engines[c->engine].name, (unsigned long long)c->engine_line,
			  several ? " of " : "", several ? log->files.at[c->engine_file].path : "",
			  c->engine_cue);
	else if (c->engine && x->event->wording->class >= MESSAGES_BUDGET)
		lines_add(l, "the message is one of %s's own", messages_engines[c->engine].name);
	if (c->activity && c->activity_cue && !(x->redacts && c->activity_cue == c->script))
		lines_add(l, "it was %s: line %llu%s%s has '%s'",
			  messages_activity_names[c->activity],
			  (unsigned long long)c->activity_line, several ? " of " : "",
			  several ? log->files.at[c->activity_file].path : "", c->activity_cue);
}

static int steps(const struct messages_context *c)
{
	return !c->activity || c->activity == MESSAGES_DOING_TRAINING ||
	       c->activity == MESSAGES_DOING_EVALUATION;
}

static void tell_history(struct lines *l, const struct diagnose_text *x,
			 const struct messages_context *c)
{
	const struct messages_event *e = x->event;
	const char *moment = moment_means(e, c);
	const struct messages_file *file = &x->log->files.at[e->file];

	if (e->wording->says)
		lines_add(l, "%s", e->wording->says);
	if (moment)
		lines_add(l, "%s", moment);
	if (e->traceback.fresh)
		lines_add(l, "the log shows no step done before it: nothing can have piled up yet");
	else if (e->traceback.step && e->traceback.step != PLIM_UNKNOWN && steps(c) &&
		 e->traceback.moment != MESSAGES_LOADING)
		lines_add(l,
			  "the log shows steps or losses before it: they had fitted, so something "
			  "grew, was kept, or began only then");
	if (file->lines > e->last_line + 500)
		lines_add(l,
			  "the log goes on for %llu lines: it may have been caught, and survived",
			  (unsigned long long)(file->lines - e->last_line));
}

/* ---- causes ---- */

static const struct log_reason *reason_of(enum log_place place, enum findings_cause cause)
{
	const struct log_reason *r = log_reasons;

	while (r->because && (r->place != place || r->cause != cause))
		r++;
	return r;
}

static enum log_place sentence_place_of(enum messages_class class)
{
	return class <= MESSAGES_BUDGET   ? LOG_ON_GPU
	       : class == MESSAGES_SHARED ? LOG_IN_SHM
					  : LOG_ON_HOST;
}

static enum plim_status fill_causes(const struct diagnose_text *x, const struct findings_told *t,
				    const struct messages_context *c, struct plim_verdict *v,
				    struct plim_err *err)
{
	enum log_place place = sentence_place_of(x->event->wording->class);

	if (!t->ranked_count)
		return PLIM_OK;
	v->causes = arena_take(x->arena, t->ranked_count, sizeof(*v->causes), err);
	if (!v->causes)
		return mem_status(err);
	if (place == LOG_ON_GPU && !findings_is_pytorch(c))
		place = LOG_ON_GPU_ALONE;
	else if (place == LOG_ON_GPU &&
		 ((c->backend != MESSAGES_BACKEND_CUDA && c->backend != MESSAGES_BACKEND_ROCM) ||
		  c->set[MESSAGES_TASK_NATIVE].line))
		place = LOG_ON_OTHER_GPU;
	for (size_t i = 0; i < t->ranked_count; i++)
		v->causes[i] = (struct plim_verdict_cause){
			(enum plim_cause)t->ranked[i],
			reason_of(place, t->ranked[i])->because,
			reason_of(place, t->ranked[i])->decided_by,
		};
	v->cause_count = t->ranked_count;
	return PLIM_OK;
}

#define EXAMPLE "  # an example: the amount is yours to choose"

/* What to do, and of each the command or line to change. */
static enum plim_status keep_actions(const struct diagnose_text *x, struct findings_advised *a,
				     struct diagnose_told *out, struct plim_err *err)
{
	out->actions = arena_take(x->arena, a->action_count, sizeof(*out->actions), err);
	out->fixes = arena_take(x->arena, a->action_count, sizeof(*out->fixes), err);
	if (!out->actions || !out->fixes)
		return mem_status(err);
	for (size_t i = 0; i < a->action_count; i++) {
		const struct findings_action *one = &a->actions[i];

		out->actions[i] = arena_text(x->arena, err, "%s", one->what);
		out->fixes[i] = arena_text(x->arena, err, "%s%s", one->fix,
					   *one->fix && one->example ? EXAMPLE : "");
		if (!out->actions[i] || !out->fixes[i])
			return mem_status(err);
	}
	out->action_count = a->action_count;
	return PLIM_OK;
}

/* What helps, what does not, and how to be certain. */
static enum plim_status keep_advice(struct findings_advised *a, struct plim_verdict *v)
{
	enum plim_status st = lines_keep(&a->lists[FINDINGS_HELPS], &v->helps, &v->helps_count);

	if (!st)
		st = lines_keep(&a->lists[FINDINGS_USELESS], &v->useless, &v->useless_count);
	return st ? st
		  : lines_keep(&a->lists[FINDINGS_CERTAINTY], &v->certainty, &v->certainty_count);
}

static void tell_evidence(struct lines *l, const struct diagnose_text *x,
			  const struct findings_told *t, const struct messages_context *c)
{
	const struct messages_event *e = x->event;

	if (e->wording->class == MESSAGES_DEVICE)
		tell_card(l, e, t);
	else
		tell_kill(l, e);
	tell_history(l, x, c);
	tell_context(l, x, c);
}

enum plim_status diagnose_text(const struct diagnose_text *x, struct plim_verdict *v,
			       struct diagnose_told *out, struct plim_err *err)
{
	const struct messages_event *e = x->event;
	struct lines evidence = { .arena = x->arena, .err = err };
	struct findings_advised advised = { .action_count = 0 };
	struct findings_told t;
	enum plim_status st;

	*out = (struct diagnose_told){ .action_count = 0 };
	for (int i = 0; i < FINDINGS_LISTS; i++)
		advised.lists[i] = evidence;
	messages_find_context(x->log, e, &out->context);
	findings_judge_message(e, &out->context, &t);
	*v = (struct plim_verdict){
		.bound_by = (enum plim_bound)t.bound_by,
		.bound_certain = t.bound_certain,
		.cause = (enum plim_cause)t.cause,
		.likely_cause = t.cause || !t.ranked_count ? PLIM_CAUSE_UNKNOWN
							   : (enum plim_cause)t.ranked[0],
		.basis = "text",
		.bound_bytes = sentence_range_of(t.bound),
		.request_bytes = sentence_range_of(t.request),
		.room_bytes = sentence_range_of(t.room),
	};
	tell_evidence(&evidence, x, &t, &out->context);
	findings_advise(e, &t, &out->context, &advised);
	v->headline = diagnose_headline(x, &t, &out->context, err);
	out->held = diagnose_held(x, &t, err);
	out->open = diagnose_open(x, &t, &out->context, &advised.lists[FINDINGS_CERTAINTY]);
	st = v->headline ? lines_keep(&evidence, &v->evidence, &v->evidence_count)
			 : mem_status(err);
	if (!st)
		st = fill_causes(x, &t, &out->context, v, err);
	if (!st)
		st = keep_advice(&advised, v);
	return st ? st : keep_actions(x, &advised, out, err);
}
