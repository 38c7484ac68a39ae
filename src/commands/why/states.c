/* A GPU's memory that a log shows without a failure: what its numbers mean together. */
#include "commands/why/why.h"

#include <stdio.h>
#include <string.h>

#define GAPS_PART 5  /* of what is reserved: less lies in gaps after any training step */
#define FULL_PART 20 /* of the GPU: less is left by a full one */

/* Is a large part of what is reserved in pieces that cannot be given back? */
static int has_gaps(const struct messages_state *s)
{
	return messages_known(s->unreleasable) &&
	       s->unreleasable.low > s->reserved.high / GAPS_PART;
}

/* "1 out-of-memory error, 3 retries" */
static const char *counts(const struct messages_state *s, char *out, size_t size)
{
	*out = 0;
	if (s->ooms != PLIM_UNKNOWN && s->ooms)
		snprintf(out, size, "; %llu out-of-memory error%s", (unsigned long long)s->ooms,
			 s->ooms == 1 ? "" : "s");
	if (s->retries != PLIM_UNKNOWN && s->retries)
		snprintf(out + strlen(out), size - strlen(out), "; %llu time%s its cache was full",
			 (unsigned long long)s->retries, s->retries == 1 ? "" : "s");
	return out;
}

static const char *pytorchs(struct plim_why *w, const struct messages_state *s,
			    struct plim_err *err)
{
	char a[MESSAGES_SIZE], r[MESSAGES_SIZE], u[MESSAGES_SIZE], more[80];

	messages_size(a, s->allocated);
	messages_size(r, s->reserved);
	if (has_gaps(s))
		return arena_text(
			&w->hidden->arena, err,
			"%s allocated of %s reserved, %s in gaps that cannot be given back%s", a, r,
			messages_size(u, s->unreleasable), counts(s, more, sizeof(more)));
	return arena_text(&w->hidden->arena, err, "%s allocated of %s reserved, %s unused%s", a, r,
			  messages_size(u, messages_less(s->reserved, s->allocated)),
			  counts(s, more, sizeof(more)));
}

static const char *says_of(struct plim_why *w, const struct messages_state *s, struct plim_err *err)
{
	char a[MESSAGES_SIZE], t[MESSAGES_SIZE];

	messages_size(t, s->total);
	switch (s->kind) {
	case MESSAGES_STATE_INFO:
		return arena_text(&w->hidden->arena, err, "%s of %s free",
				  messages_size(a, s->free), t);
	case MESSAGES_STATE_SMI:
		return arena_text(&w->hidden->arena, err, "%s of %s in use",
				  messages_size(a, s->used), t);
	case MESSAGES_STATE_PROCESS:
		return arena_text(&w->hidden->arena, err, "PID %llu holds %s",
				  (unsigned long long)s->pid, messages_size(a, s->used));
	default: return pytorchs(w, s, err);
	}
}

static const char *action_of(const struct messages_state *s)
{
	int retried = s->retries != PLIM_UNKNOWN && s->retries;

	if (has_gaps(s))
		return "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which joins gaps";
	if (messages_known(s->allocated_peak) && messages_known(s->reserved_peak) && retried &&
	    s->allocated_peak.high >= s->reserved_peak.low - s->reserved_peak.low / FULL_PART)
		return "a smaller batch: the peak is all that was reserved, and no gaps are to "
		       "blame";
	return NULL;
}

enum plim_status why_states(struct plim_why *w, struct plim_err *err)
{
	const struct messages_log *log = &w->hidden->log;

	w->states = arena_take(&w->hidden->arena, log->states.n, sizeof(*w->states), err);
	if (!w->states)
		return mem_status(err);
	for (size_t i = 0; i < log->states.n; i++) {
		const struct messages_state *s = &log->states.at[i];
		struct plim_why_state *to = &w->states[w->state_count++];

		*to = (struct plim_why_state){
			.kind = (enum plim_why_state_kind)s->kind,
			.file = w->files[s->file].path,
			.line = s->line,
			.device = s->device == UINT32_MAX ? PLIM_UNKNOWN : s->device,
			.pid = s->pid,
			.ooms = s->ooms,
			.retries = s->retries,
			.allocated_bytes = why_range(s->allocated),
			.allocated_peak_bytes = why_range(s->allocated_peak),
			.reserved_bytes = why_range(s->reserved),
			.reserved_peak_bytes = why_range(s->reserved_peak),
			.unreleasable_bytes = why_range(s->unreleasable),
			.used_bytes = why_range(s->used),
			.free_bytes = why_range(s->free),
			.total_bytes = why_range(s->total),
			.says = says_of(w, s, err),
			.action = action_of(s),
		};
		if (!to->says)
			return mem_status(err);
	}
	return PLIM_OK;
}
