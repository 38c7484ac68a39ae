/* The words that a person is shown first, made once for every face: text, page, why. */
#include "commands/told.h"

#include "diagnose/diagnose.h"

#include <stdio.h>
#include <string.h>

struct telling {
	const struct plim_report_device *d;
	struct arena *arena;
	struct plim_err *err;
	struct plim_report_told *out;
	int planned, has_frames;
	enum plim_report_group group_by;
	VEC(struct plim_report_line) lines;
};

const struct plim_report_oom *told_last_oom(const struct plim_report_device *d)
{
	const struct plim_report_oom *oom = d->oom_count ? &d->oom[d->oom_count - 1] : NULL;

	return oom && oom->verdict ? oom : NULL;
}

const struct plim_finding *told_finding(const struct plim_report_device *d, const char *id)
{
	for (size_t i = 0; i < d->finding_count; i++)
		if (!strcmp(d->findings[i].id, id))
			return &d->findings[i];
	return NULL;
}

static int died_of_leak(const struct plim_report_device *d)
{
	const struct plim_verdict *v = d->oom_count ? d->oom[d->oom_count - 1].verdict : NULL;

	return v && (v->cause ? v->cause : v->likely_cause) == PLIM_CAUSE_LEAK;
}

/* What explains a death best, besides its arithmetic. */
static const struct plim_finding *explaining(const struct plim_report_device *d)
{
	static const char *const ids[] = { "leak",
					   "optimizer_first_step",
					   "longest_batch",
					   "eval_heavier_than_train",
					   "duplicate_weights",
					   "logits_dominate",
					   "kv_cache_growth",
					   "outside_allocator" };
	const struct plim_finding *found = NULL;

	for (size_t i = 0; !found && i < sizeof(ids) / sizeof(ids[0]); i++) {
		if (!strcmp(ids[i], "leak") && !died_of_leak(d))
			continue;
		found = told_finding(d, ids[i]);
	}
	return found;
}

int told_in_verdict(const struct plim_report_device *d, const struct plim_finding *f)
{
	static const char *const ids[] = { "oom", "fragmentation", "optimizer_first_step",
					   "outside_allocator" };

	for (size_t i = 0; d->oom_count && i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(f->id, ids[i]))
			return 1;
	return died_of_leak(d) && f == told_finding(d, "leak");
}

int told_has(const struct plim_report_device *d, const struct plim_finding *f)
{
	return told_in_verdict(d, f) ||
	       f == (told_last_oom(d) ? explaining(d) : told_finding(d, "leak"));
}

int told_piles_up(const struct plim_report_device *d)
{
	return told_finding(d, "leak") || told_finding(d, "duplicate_weights");
}

static int by_request(const struct plim_report_device *d)
{
	return d->step_basis && !strcmp(d->step_basis, "request");
}

void told_place(struct text *t, const struct plim_report_device *d, const char *phase,
		uint64_t step)
{
	/* the phase of a request is a request, if it is no other */
	if (phase && (!strcmp(phase, "other") || !strcmp(phase, "request")))
		phase = NULL;
	if (phase)
		text_printf(t, step != PLIM_UNKNOWN ? ", %s of" : ", in %s", phase);
	else if (step != PLIM_UNKNOWN)
		text_puts(t, ", in");
	if (step == PLIM_UNKNOWN)
		return;
	text_puts(t, by_request(d) ? " request " : " step ");
	text_count(t, step);
}

/* ---- words ---- */

static struct text words_new(const struct telling *x)
{
	struct text t;

	text_init(&t, x->arena->mem, NULL);
	return t;
}

static const char *words_take(const struct telling *x, struct text *t)
{
	const char *kept = arena_copy(x->arena, text_get(t), x->err);

	text_release(t);
	return kept;
}

static void add_told(struct telling *x, const char *label, const char *text, const char *brief)
{
	const struct plim_report_line line = { label, text, brief };

	if (text && !x->err->status)
		(void)vec_push(x->arena->mem, &x->lines, line, x->err);
}

/* Without the folders in front: a line has room for two. */
static const char *base_of(const char *frame)
{
	const char *in = strstr(frame, " in "), *at = in ? in : frame + strlen(frame);

	while (at > frame && at[-1] != '/')
		at--;
	return at;
}

/* "swiglu.py:32" of "swiglu.py:32 in forward": names of ranges, which stand for files in a profiler's trace, have spaces. */
static size_t told_place_of(const char *frame)
{
	const char *in = strstr(frame, " in ");

	return in ? (size_t)(in - frame) : strlen(frame);
}

/* The line of the model's code, and the user's line that called it, whose function is the less telling one. */
static const char *frames(struct telling *x, int inferred, const char *code, const char *own,
			  int with_function)
{
	const char *at = base_of(code ? code : own), *line = own ? base_of(own) : at;
	size_t n = with_function ? strlen(at) : told_place_of(at);
	int both = strcmp(at, line) != 0;

	return arena_text(x->arena, x->err, "%s%.*s%s%.*s", inferred ? "backward of " : "", (int)n,
			  at, both ? " < " : "", both ? (int)told_place_of(line) : 0, line);
}

static void add_place(struct telling *x, const char *label, int inferred, const char *code,
		      const char *own)
{
	if (own)
		add_told(x, label, frames(x, inferred, code, own, 1),
			 frames(x, inferred, code, own, 0));
}

/* A finding's title without its place, which has a line of its own. */
static const char *title_of(struct telling *x, const struct plim_finding *f)
{
	const char *from = strncmp(f->title, "leak: ", 6) ? f->title : f->title + 6;
	const char *end = f->place.frame ? strrchr(from, '(') : NULL;
	size_t n = end && end > from + 1 ? (size_t)(end - from - 1) : strlen(from);

	return arena_text(x->arena, x->err, "%.*s", (int)n, from);
}

/* ---- a death ---- */

static void tell_headline(struct telling *x, const struct plim_report_oom *oom)
{
	static const char *const causes[] = { [PLIM_CAUSE_UNKNOWN] = "DIED, cause not decided",
					      [PLIM_CAUSE_CAPACITY] = "DIED OF CAPACITY",
					      [PLIM_CAUSE_FRAGMENTATION] = "DIED OF FRAGMENTATION",
					      [PLIM_CAUSE_LEAK] = "DIED OF A LEAK",
					      [PLIM_CAUSE_PRIVATE_POOLS] = "DIED OF PRIVATE POOLS",
					      [PLIM_CAUSE_OTHER_STREAM] =
						      "DIED OF MEMORY OF ANOTHER STREAM" };
	struct text words = words_new(x);

	x->out->kind = oom->survived ? "refused" : "died";
	if (oom->survived)
		text_puts(&words, "REFUSED AND CAUGHT");
	else
		text_puts(&words, x->planned ? "WILL DIE" : causes[oom->verdict->cause]);
	told_place(&words, x->d, oom->phase, oom->step);
	text_puts(&words, ": ");
	text_bytes(&words, oom->requested_bytes);
	text_puts(&words, " was refused");
	if (x->d->oom_count > 1) {
		text_puts(&words, " (the last of ");
		text_count(&words, x->d->oom_count);
		text_puts(&words, " failures)");
	}
	x->out->headline = words_take(x, &words);
}

static void tell_limit(struct telling *x, const struct plim_report_oom *oom)
{
	static const char *const words[] = {
		[PLIM_BOUND_UNKNOWN] = "not known: the GPU, or another process on it",
		[PLIM_BOUND_DEVICE] = "the GPU was full",
		[PLIM_BOUND_LIMIT] = "a limit of this process, not the GPU",
		[PLIM_BOUND_OTHER_PROCESS] = "other processes on the GPU",
		[PLIM_BOUND_NON_PYTORCH] = "this process, outside PyTorch's allocator",
	};
	char free[32];

	add_told(x, "limit",
		 arena_text(x->arena, x->err, "%s; the driver had %s free",
			    words[oom->verdict->bound_by], text_size(free, oom->device_free_bytes)),
		 NULL);
}

static void tell_cause(struct telling *x, const struct plim_verdict *v,
		       const struct plim_finding *why)
{
	struct text words;

	if (!why && (v->cause || !v->likely_cause))
		return;
	words = words_new(x);
	if (!v->cause && v->likely_cause)
		text_printf(&words, "%s is likelier, not certain%s",
			    recording_cause_words(v->likely_cause), why ? "; " : "");
	if (why)
		text_puts(&words, title_of(x, why));
	add_told(x, "because", words_take(x, &words), NULL);
}

static void tell_death(struct telling *x)
{
	const struct plim_report_oom *oom = told_last_oom(x->d);
	const struct plim_finding *why = explaining(x->d);
	int leaked = why && died_of_leak(x->d);

	tell_headline(x, oom);
	add_told(x, NULL, oom->verdict->arithmetic, NULL);
	if (oom->verdict->cause) /* else the sum has all that is known of it */
		tell_limit(x, oom);
	tell_cause(x, oom->verdict, why);
	if (leaked)
		add_told(x, "line", why->place.frame, why->place.frame);
	add_place(x, leaked ? "refused" : "line", !oom->frame, oom->code_frame,
		  oom->frame ? oom->frame : oom->backward_of);
}

/* ---- a leak ---- */

static uint64_t step_at(const struct plim_report_device *d, uint64_t event)
{
	for (size_t i = 0; i < d->step_count; i++)
		if (event <= d->steps[i].end_event)
			return d->steps[i].index;
	return PLIM_UNKNOWN;
}

/* "event 2,410 (step 2); 1,000 more of them would take 122.07 GiB" */
static void tell_since(struct telling *x, const struct plim_finding *f,
		       const struct plim_report_leak *one)
{
	uint64_t step = step_at(x->d, one->first_event);
	char a[32], b[32], c[32], in_step[48] = "";

	if (step != PLIM_UNKNOWN)
		(void)snprintf(in_step, sizeof(in_step), " (%s %s)",
			       by_request(x->d) ? "request" : "step", text_number(c, step));
	add_told(x, "since",
		 arena_text(x->arena, x->err, "event %s%s; 1,000 more of them would take %s",
			    text_number(a, one->first_event), in_step,
			    text_size(b, 1000 * f->per_period_bytes)),
		 NULL);
}

/* "RTX 4090 at step 190 to 231; H100 80GB at step 702 to 851, if this continues" */
static void tell_full(struct telling *x)
{
	const struct plim_report_device *d = x->d;
	struct text words;
	char low[32], high[32];

	if (!d->fill_count || d->fills[0].repetitions.low > DIAGNOSE_FILLS_MAX)
		return;
	words = words_new(x);
	for (size_t i = 0; i < d->fill_count; i++) {
		const struct plim_report_fill *f = &d->fills[i];
		int by_step = f->step.low != PLIM_UNKNOWN;
		const struct plim_interval *n = by_step ? &f->step : &f->repetitions;

		text_printf(&words, "%s%s %s ", i ? "; " : "", f->gpu,
			    by_step ? "at step" : "after");
		text_number(low, n->low);
		text_number(high, n->high);
		text_puts(&words, low);
		if (n->low != n->high)
			text_printf(&words, " to %s", high);
		if (!by_step)
			text_printf(&words, " more %s%s", f->period,
				    !strcmp(f->period, "forward pass") ? "es" : "s");
	}
	text_puts(&words, ", if this continues");
	add_told(x, "full", words_take(x, &words), NULL);
}

static void tell_leak(struct telling *x, const struct plim_finding *f)
{
	const struct plim_report_leak *one = x->d->leak_count ? &x->d->leaks[0] : NULL;

	x->out->kind = "leak";
	x->out->headline =
		arena_text(x->arena, x->err, "NO FAILURE, BUT A LEAK: %s", title_of(x, f));
	if (one)
		tell_since(x, f, one);
	tell_full(x);
	if (f->evidence_count > 1)
		add_told(x, "cause", f->evidence[1], NULL);
	if (one)
		add_told(x, "line", one->frame, one->frame);
}

/* "No failure. No leak." and how far that goes. */
struct kind {
	const char *name;
	uint64_t bytes;
};

static int larger_kind(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void kinds_sorted(const struct plim_report_categories *c,
			 struct kind list[TIMELINE_CATEGORIES])
{
	const uint64_t bytes[TIMELINE_CATEGORIES] = {
		[TIMELINE_PARAMETER] = c->parameter,
		[TIMELINE_GRADIENT] = c->gradient,
		[TIMELINE_OPTIMIZER_STATE] = c->optimizer_state,
		[TIMELINE_ACTIVATION] = c->activation,
		[TIMELINE_INPUT] = c->input,
		[TIMELINE_WORKSPACE] = c->workspace,
		[TIMELINE_TEMPORARY] = c->temporary,
		[TIMELINE_AUTOGRAD_DETAIL] = c->autograd_detail,
		[TIMELINE_KV_CACHE] = c->kv_cache,
		[TIMELINE_BUFFER] = c->buffer,
		[TIMELINE_UNKNOWN] = c->unknown,
		[TIMELINE_PRIOR] = c->before_recording,
	};

	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		list[k] = (struct kind){ recording_category_words(timeline_category_names[k]),
					 bytes[k] };
	sort_items(list, TIMELINE_CATEGORIES, sizeof(*list), larger_kind);
}

void told_kinds(struct text *line, const struct plim_report_categories *c, uint64_t least)
{
	struct kind list[TIMELINE_CATEGORIES];

	kinds_sorted(c, list);
	for (size_t i = 0; i < TIMELINE_CATEGORIES && list[i].bytes > least; i++) {
		text_puts(line, i ? ", " : "");
		text_bytes(line, list[i].bytes);
		text_printf(line, " %s", list[i].name);
	}
}

static void put_largest_kind(struct text *line, const struct plim_report_categories *c)
{
	struct kind list[TIMELINE_CATEGORIES];

	kinds_sorted(c, list);
	if (list[0].bytes == c->unknown)
		return; /* that shows nothing */
	text_puts(line, ": ");
	text_bytes(line, list[0].bytes);
	text_printf(line, " %s", list[0].name);
}

/* "PEAK 2.41 GiB, backward of step 2: 1.20 GiB activations; 0.60 GiB at model.py:39" */
static const char *peak_headline(struct telling *x)
{
	const struct plim_report_device *d = x->d;
	const struct plim_report_owners *o = &d->at_peak;
	int by_code = x->group_by == PLIM_GROUP_USER_FRAME && o->by_code_count;
	const struct plim_report_owner *most = by_code          ? &o->by_code[0]
					       : o->owner_count ? &o->owners[0]
								: NULL;
	struct text words = words_new(x);
	const char *code = most ? (most->code_frame ? most->code_frame : most->frame) : NULL;
	int is_peak = !strcmp(o->what, "peak") && !strcmp(o->measure, "allocated");
	const struct plim_finding *attention = told_finding(d, "materialised_attention");

	text_puts(&words, d->peak.lower_bound ? "PEAK SEEN " : "PEAK ");
	text_bytes(&words, d->peak.allocated_bytes);
	told_place(&words, d, d->peak.allocated.phase, d->peak.allocated.step);
	if (is_peak && o->categories)
		put_largest_kind(&words, o->categories);
	if (is_peak && attention && most && attention->bytes >= most->bytes) {
		text_puts(&words, "; ");
		text_bytes(&words, attention->bytes);
		text_puts(&words, " of softmax and scores (SDPA would not keep them)");
	} else if (is_peak && code && x->group_by != PLIM_GROUP_MODULE) {
		text_puts(&words, "; ");
		text_bytes(&words, most->bytes);
		text_printf(&words, " at %s", frames(x, most->inferred, code, most->frame, 0));
	}
	return words_take(x, &words);
}

/* The peak and what it was for comes first: that nothing failed is seen. */
static void tell_fine(struct telling *x)
{
	const struct plim_report_device *d = x->d;

	x->out->kind = d->events ? "fine" : "no_events";
	if (!d->events || x->planned) {
		x->out->headline =
			x->planned
				? "No failure in this plan."
				: "No events were recorded: only the memory at the end is shown.";
		return;
	}
	x->out->headline = peak_headline(x);
	add_told(
		x, NULL,
		!x->has_frames
			? "No failure. Leaks are not looked for: no stacks of events were recorded."
		: d->step_count < TOLD_STEPS
			? "No failure. Too few steps were recorded to recognise a leak."
		: !told_piles_up(d) ? "No failure. No leak."
				    : "No failure.",
		NULL);
}

/* ---- what to do ---- */

/* An alternative is the same remedy. */
static const char *without_or(const char *line)
{
	return strncmp(line, "or: ", 4) ? line : line + 4;
}

static void add_remedies(struct telling *x, const char *const *lines, size_t n)
{
	struct plim_report_told *to = x->out;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < to->remedy_count &&
		       strcmp(without_or(to->remedies[k]), without_or(lines[i])) != 0)
			k++;
		if (k == to->remedy_count)
			to->remedies[to->remedy_count++] = lines[i];
	}
}

/* The remedy of what explains a death stands behind the verdict's first. */
static void tell_remedies(struct telling *x)
{
	const struct plim_report_oom *oom = told_last_oom(x->d);
	const struct plim_verdict *v = oom ? oom->verdict : NULL;
	const struct plim_finding *why = oom ? explaining(x->d) : told_finding(x->d, "leak");
	size_t first = v && v->helps_count ? 1 : 0;

	x->out->remedies =
		arena_take(x->arena, (v ? v->helps_count : 0) + (why ? why->fix_count : 0),
			   sizeof(*x->out->remedies), x->err);
	if (!x->out->remedies)
		return;
	if (v)
		add_remedies(x, v->helps, first);
	if (why)
		add_remedies(x, why->fix, why->fix_count);
	if (v)
		add_remedies(x, v->helps + first, v->helps_count - first);
}

/* ---- who held it ---- */

#define KIND_PART 50 /* kinds that take less are not reported */

/* "3 of 9,437,184 bytes, one: swiglu.py:32" */
static void tell_size(struct telling *x, const struct plim_report_owner *one,
		      struct plim_report_holder *to)
{
	const char *lead = one->count > 1 ? ", one: " : ": ";
	char count[32], bytes[32];

	text_number(count, one->count);
	text_number(bytes, one->each_bytes);
	to->text = arena_text(x->arena, x->err, "%s of %s bytes%s%s", count, bytes, lead, to->text);
	to->brief =
		arena_text(x->arena, x->err, "%s of %s bytes%s%s", count, bytes, lead, to->brief);
}

static void tell_holder(struct telling *x, const struct plim_report_owner *one,
			struct plim_report_holder *to)
{
	const char *code = one->code_frame ? one->code_frame : one->frame;

	to->bytes = one->bytes;
	if (!one->before_recording && x->group_by == PLIM_GROUP_MODULE) {
		to->text = one->module ? one->module : "no module called";
		if (one->inferred)
			to->text = arena_text(x->arena, x->err, "backward of %s", to->text);
		to->brief = to->text;
	} else if (code) {
		to->text = frames(x, one->inferred, code, one->frame, 1);
		to->brief = frames(x, one->inferred, code, one->frame, 0);
	} else {
		to->text = recording_nobody(x->has_frames, one->before_recording, 0);
		to->brief = recording_nobody(x->has_frames, one->before_recording, 1);
	}
	if (x->group_by == PLIM_GROUP_SIZE) /* the place is that of its largest */
		tell_size(x, one, to);
}

static void tell_holders(struct telling *x)
{
	const struct plim_report_owners *o = &x->d->at_peak;
	int by_code = x->group_by == PLIM_GROUP_USER_FRAME;
	const struct plim_report_owner *at = by_code ? o->by_code : o->owners;
	size_t n = by_code ? o->by_code_count : o->owner_count;
	char size[32];

	if (!n)
		return;
	x->out->held = arena_text(x->arena, x->err, "Who held %s%s %s",
				  !strcmp(o->what, "oom")                    ? ""
				  : !strcmp(o->what, "end") || !x->d->events ? "at the end "
				  : !strcmp(o->what, "peak")                 ? "at the peak "
									     : "at that event ",
				  text_size(size, o->total_bytes), o->measure);
	if (o->categories && o->total_bytes > o->categories->unknown) {
		struct text words = words_new(x);

		told_kinds(&words, o->categories, o->total_bytes / KIND_PART);
		x->out->kinds = words_take(x, &words);
	}
	x->out->holders = arena_take(x->arena, n, sizeof(*x->out->holders), x->err);
	for (size_t i = 0; x->out->holders && i < n; i++)
		tell_holder(x, &at[i], &x->out->holders[x->out->holder_count++]);
}

/* ---- its peak ---- */

static void tell_peak(struct telling *x)
{
	const struct plim_report_device *d = x->d;
	struct text words = words_new(x);
	char step[32];

	text_bytes(&words, d->peak.allocated_bytes);
	text_puts(&words, " allocated");
	told_place(&words, d, d->peak.allocated.phase, d->peak.allocated.step);
	if (d->peak.reserved_bytes != PLIM_UNKNOWN) {
		text_puts(&words, "; ");
		text_bytes(&words, d->peak.reserved_bytes);
		text_puts(&words, " reserved");
	}
	x->out->peak = words_take(x, &words);
	if (d->stop)
		x->out->stop =
			arena_text(x->arena, x->err, "It stops within step %s, in its %s pass.",
				   text_number(step, d->stop->step), d->stop->phase);
}

/* ---- who owns what is reserved and not asked for ---- */

#define GAP_SHOWN 10 /* a part of less than a tenth of it is left to --why and --json */

static void tell_gap_part(struct telling *x, const struct plim_report_gap_part *part,
			  struct text *words)
{
	text_bytes(words, part->bytes);
	text_printf(words, " %s", diagnose_gap_words(part));
	if (part->frame)
		text_printf(words, " (kept by %s)", frames(x, 0, part->frame, part->frame, 0));
	else if (part->kept_by_bytes == PLIM_UNKNOWN)
		text_printf(words, " (%s)", part->gives_back);
}

/* A line of each moment; a failure or a leak is worth more. */
static const char *tell_gap(struct telling *x, const char *moment,
			    const struct plim_report_gap *gap)
{
	struct text words;

	if (!gap || told_last_oom(x->d) || told_finding(x->d, "leak"))
		return NULL;
	words = words_new(x);
	text_bytes(&words, gap->bytes);
	text_printf(&words, " reserved at the %s is unused: ", moment);
	for (size_t i = 0; i < gap->part_count; i++) {
		if (i && gap->parts[i].bytes < gap->bytes / GAP_SHOWN)
			break;
		text_puts(&words, i ? ", " : "");
		tell_gap_part(x, &gap->parts[i], &words);
	}
	return words_take(x, &words);
}

enum plim_status told_fill(unsigned flags, enum plim_report_group group_by, struct arena *a,
			   struct plim_report_device *d, struct plim_err *err)
{
	struct telling x = { .d = d,
			     .arena = a,
			     .err = err,
			     .out = &d->told,
			     .planned = (flags & TOLD_PLANNED) != 0,
			     .has_frames = (flags & TOLD_FRAMES) != 0,
			     .group_by = group_by };
	const struct plim_finding *leaks = told_finding(d, "leak");

	d->told = (struct plim_report_told){ .kind = NULL };
	err->status = PLIM_OK;
	if (told_last_oom(d))
		tell_death(&x);
	else if (leaks)
		tell_leak(&x, leaks);
	else
		tell_fine(&x);
	tell_remedies(&x);
	tell_holders(&x);
	tell_peak(&x);
	d->told.gap_at_peak = tell_gap(&x, "peak", d->gap_at_peak);
	d->told.gap = tell_gap(&x, "end", d->gap);
	if (!err->status && x.lines.n)
		d->told.lines = arena_take(a, x.lines.n, sizeof(*d->told.lines), err);
	if (d->told.lines) {
		memcpy(d->told.lines, x.lines.at, x.lines.n * sizeof(*d->told.lines));
		d->told.line_count = x.lines.n;
	}
	vec_release(a->mem, &x.lines);
	return err->status;
}
