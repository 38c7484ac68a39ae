/* Moments and ranges of a recording: as a user names them, and what a program did in them. */
#include "recording.h"

#include <errno.h>
#include <string.h>

uint64_t recording_step_of(const struct recording_device *d, uint32_t event)
{
	const struct timeline_steps *steps = recording_repeats(d);

	return steps->ends.n ? timeline_step_of(steps, event) : PLIM_UNKNOWN;
}

const char *recording_phase_of(const struct recording_device *d, uint32_t event)
{
	return d->categories.mem ? timeline_phase_names[d->categories.phase[event]] : NULL;
}

enum plim_status recording_moment(const struct recording_device *d, const struct timeline *tl,
				  const char *at, const char **what, uint32_t *event,
				  struct plim_err *err)
{
	size_t events = d->device->events.n, ooms = d->replay->ooms.n;
	unsigned long long number;
	char *rest;

	*what = at ? at : ooms ? "oom" : "peak";
	*event = events ? (uint32_t)events - 1 : TIMELINE_BEFORE;
	if (!strcmp(*what, "peak"))
		*event = tl->peak_event[TIMELINE_ALLOCATED];
	else if (!strcmp(*what, "oom") && ooms)
		*event = d->replay->ooms.at[ooms - 1].event;
	else if (!strcmp(*what, "oom"))
		return err_set(err, PLIM_E_ARG,
			       "options.at oom: the recording holds no out-of-memory event");
	else if (!strncmp(*what, "event:", 6)) {
		errno = 0;
		number = strtoull(*what + 6, &rest, 10);
		if (errno || *rest || rest == *what + 6 || number >= events)
			return err_set(err, PLIM_E_ARG,
				       "options.at %s: the recording's events are 0 to %zu", *what,
				       events ? events - 1 : 0);
		*event = (uint32_t)number;
		*what = "event";
	} else if (strcmp(*what, "end")) {
		return err_set(err, PLIM_E_ARG,
			       "options.at '%s' is none of peak, oom, end, event:N", *what);
	}
	return PLIM_OK;
}

/* "A:B" with numbers below n; either may be left out. */
static enum plim_status read_range(const char *option, const char *text, size_t n, size_t *first,
				   size_t *last, struct plim_err *err)
{
	const char *colon = strchr(text, ':');
	unsigned long long a = 0, b = n ? n - 1 : 0;
	char *rest = NULL;

	if (colon && colon > text) {
		a = strtoull(text, &rest, 10);
		colon = rest == colon ? colon : NULL;
	}
	if (colon && colon[1]) {
		b = strtoull(colon + 1, &rest, 10);
		colon = *rest ? NULL : colon;
	}
	if (!colon || *text == '-' || colon[1] == '-')
		return err_set(err, PLIM_E_ARG, "%s '%s' is not A:B, two numbers", option, text);
	if (a > b || b >= n)
		return err_set(err, PLIM_E_ARG, "%s '%s': the recording has 0 to %zu", option, text,
			       n ? n - 1 : 0);
	*first = (size_t)a;
	*last = (size_t)b;
	return PLIM_OK;
}

/* The events of steps A:B. */
static enum plim_status range_of_steps(const char *text, const struct timeline_steps *steps,
				       size_t *first, size_t *last, struct plim_err *err)
{
	size_t a = 0, b = 0;
	enum plim_status st;

	if (!steps->ends.n)
		return err_set(err, PLIM_E_ARG,
			       "options.steps: nothing that repeats is seen in this recording; use "
			       "options.events A:B");
	st = read_range("options.steps", text, steps->ends.n, &a, &b, err);
	if (st)
		return st;
	*first = a ? steps->ends.at[a - 1] + (size_t)1 : 0;
	*last = steps->ends.at[b];
	return PLIM_OK;
}

enum plim_status recording_narrow(const struct recording_device *d, const char *events,
				  const char *steps, struct timeline *tl, size_t *first,
				  size_t *last, struct plim_err *err)
{
	size_t n = d->device->events.n;
	enum plim_status st = PLIM_OK;

	*tl = d->timeline;
	*first = 0;
	*last = n ? n - 1 : 0;
	if (n && events)
		st = read_range("options.events", events, n, first, last, err);
	else if (n && steps)
		st = range_of_steps(steps, recording_repeats(d), first, last, err);
	if (!st && n && (events || steps))
		timeline_narrow(tl, (uint32_t)*first, (uint32_t)*last);
	return st;
}

enum plim_status recording_owners_at(const struct recording_device *d, uint32_t event,
				     enum timeline_group group, struct timeline_owners *out,
				     struct plim_err *err)
{
	if (group == TIMELINE_BY_MODULE && recording_is_plan(d->of))
		group = TIMELINE_BY_FILE;
	d->of->counts.owners++;
	return timeline_owners_at(d->of->mem, &d->timeline, event, TIMELINE_ALLOCATED, group,
				  d->categories.stack, out, err);
}
