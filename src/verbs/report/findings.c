/* What was found, from the findings' structs into the report's. */
#include "verbs/report/report.h"

#include <string.h>

static const char *const severities[] = {
	[FINDINGS_INFO] = "info", [FINDINGS_WARN] = "warn", [FINDINGS_BAD] = "bad"
};

static enum plim_status keep_lines(struct plim_report *r, const struct findings_lines *from,
				   const char ***out, size_t *n, struct plim_err *err)
{
	*out = report_take(r, from->n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (size_t i = 0; i < from->n; i++)
		(*out)[i] = from->at[i];
	*n = from->n;
	return PLIM_OK;
}

/* "train.py:41" of "/home/me/train.py:41 in step". */
static const char *place_of(struct plim_report *r, const char *frame, struct plim_err *err)
{
	const char *end = NULL, *from;

	for (const char *in = frame; in; in = strstr(in + 1, " in "))
		end = in > frame ? in : NULL;
	if (!end)
		end = frame + strlen(frame);
	for (from = end; from > frame && from[-1] != '/';)
		from--;
	return report_text(r, err, "%.*s", (int)(end - from), from);
}

static enum plim_status fill_leak(struct plim_report *r, const struct findings_leak *from,
				  struct plim_report_finding *out, struct plim_err *err)
{
	struct plim_report_leak *l = report_take(r, 1, sizeof(*l), err);

	if (!l)
		return mem_status(err);
	*l = (struct plim_report_leak){ .grown_bytes = from->grown_bytes,
					.per_repetition_bytes = from->per_repetition_bytes,
					.repetitions = from->repetitions,
					.first_event = from->first_event,
					.last_event = from->last_event,
					.loop = report_frame(r, from->loop_frame, err),
					.frame = report_frame(r, from->frame, err),
					.part_bytes = from->part_bytes };
	out->leak = l;
	return report_stack(r, from->stack, &l->stack, &l->stack_count, err);
}

static enum plim_status fill_one(struct plim_report *r, const struct finding *from,
				 struct plim_report_finding *out, struct plim_err *err)
{
	const char *frame = report_frame(r, from->frame, err), *place;
	enum plim_status st = PLIM_OK;

	if (from->frame != TRACE_NONE && !frame)
		return mem_status(err);
	place = frame ? place_of(r, frame, err) : NULL;
	*out = (struct plim_report_finding){
		.id = from->id,
		.severity = severities[from->severity],
		.confidence = from->confidence,
		.title = place ? report_text(r, err, "%s (%s)", from->title, place) : from->title,
		.bytes = from->bytes,
		.bytes_per_period = from->bytes_per_period,
		.period = from->period,
		.frame = frame,
		.inferred = from->inferred,
	};
	if (!out->title)
		return mem_status(err);
	if (!strcmp(from->id, "leak"))
		st = fill_leak(r, &from->leak, out, err);
	if (!st)
		st = keep_lines(r, &from->evidence, &out->evidence, &out->evidence_count, err);
	if (!st)
		st = keep_lines(r, &from->fix, &out->fix, &out->fix_count, err);
	if (!st)
		st = keep_lines(r, &from->see, &out->see, &out->see_count, err);
	return st;
}

/* A death is a finding too, the first one; its verdict has the rest. */
static void fill_death(const struct plim_report_oom *last, double confidence,
		       struct plim_report_finding *out)
{
	static const char *whatif[] = { "plimsoll whatif" },
			  *owners[] = { "plimsoll report --at oom --group-by stack" };
	const struct plim_report_verdict *v = last->verdict;
	enum plim_cause cause = v->cause ? v->cause : v->likelier;

	*out = (struct plim_report_finding){ .id = "oom",
					     .severity = last->survived ? "info" : "bad",
					     .confidence = confidence,
					     .title = v->headline,
					     .bytes = last->requested_bytes,
					     .bytes_per_period = PLIM_UNKNOWN,
					     .frame = last->frame,
					     .evidence = v->evidence,
					     .evidence_count = v->evidence_count,
					     .fix = v->advice,
					     .fix_count = v->advice_count,
					     .see = cause == PLIM_CAUSE_FRAGMENTATION ? whatif
										      : owners,
					     .see_count = 1 };
}

enum plim_status report_findings(struct plim_report *r, struct report_device *one,
				 struct plim_report_device *out, struct plim_err *err)
{
	const struct plim_report_oom *last = out->oom_count ? &out->oom[out->oom_count - 1] : NULL;
	struct findings_input in = { .tl = &one->timeline,
				     .categories = &one->categories,
				     .steps = &one->steps,
				     .periods = &one->periods,
				     .death = last ? &one->death : NULL,
				     .replays = !r->hidden->summary,
				     .tried = one->tried,
				     .tried_count = one->tried_count };
	enum plim_status st = findings_find(&r->hidden->mem, &in, &one->findings, err);

	out->findings =
		st ? NULL : report_take(r, one->findings.all.n + 1, sizeof(*out->findings), err);
	if (!st && !out->findings)
		st = mem_status(err);
	if (!st && last)
		fill_death(last, one->death.confidence, &out->findings[out->finding_count++]);
	for (size_t i = 0; !st && i < one->findings.all.n; i++)
		st = fill_one(r, &one->findings.all.at[i], &out->findings[out->finding_count++],
			      err);
	return st;
}
