/* What several verbs tell of a death, in the same words and the same order: report, and why with a recording. */
#include "verbs/told.h"

#include "verbs/out.h"

#include <string.h>

#define NARROW 64 /* columns; below, what is said beside a name is left out */

unsigned told_columns(const struct text *t)
{
	return t->style.width ? t->style.width : 80;
}

int told_narrow(const struct text *t)
{
	return told_columns(t) < NARROW;
}

/* ", backward of step 15", ", in request 3" */
void told_place(struct text *t, const struct plim_report_device *d, const char *phase,
		uint64_t step)
{
	const char *what = d->step_basis && !strcmp(d->step_basis, "request") ? "request" : "step";

	/* the phase of a request is a request, if it is no other */
	if (phase && (!strcmp(phase, "other") || !strcmp(phase, "request")))
		phase = NULL;
	if (phase)
		text_printf(t, step != PLIM_UNKNOWN ? ", %s of" : ", in %s", phase);
	else if (step != PLIM_UNKNOWN)
		text_puts(t, ", in");
	if (step == PLIM_UNKNOWN)
		return;
	text_printf(t, " %s ", what);
	text_count(t, step);
}

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

int told_died_of_leak(const struct plim_report_device *d)
{
	const struct plim_verdict *v = d->oom_count ? d->oom[d->oom_count - 1].verdict : NULL;

	return v && (v->cause ? v->cause : v->likely_cause) == PLIM_CAUSE_LEAK;
}

/* What explains a death best, besides its arithmetic. */
const struct plim_finding *told_explaining(const struct plim_report_device *d)
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
		if (!strcmp(ids[i], "leak") && !told_died_of_leak(d))
			continue;
		found = told_finding(d, ids[i]);
	}
	return found;
}

/* An alternative is the same remedy. */
static const char *without_or(const char *line)
{
	return strncmp(line, "or: ", 4) ? line : line + 4;
}

void told_add_remedy(struct remedies *x, const char *line)
{
	for (size_t i = 0; i < x->n; i++)
		if (!strcmp(without_or(x->at[i]), without_or(line)))
			return;
	x->all++;
	if (x->n < sizeof(x->at) / sizeof(x->at[0]))
		x->at[x->n++] = line;
}

void told_remedies(const struct plim_report_device *d, struct remedies *x)
{
	const struct plim_verdict *v = told_last_oom(d)->verdict;
	const struct plim_finding *why = told_explaining(d);

	if (v->helps_count)
		told_add_remedy(x, v->helps[0]);
	for (size_t i = 0; why && i < why->fix_count; i++)
		told_add_remedy(x, why->fix[i]);
	for (size_t i = 1; i < v->helps_count; i++)
		told_add_remedy(x, v->helps[i]);
}

/* "What to do, best first (3 of 5)" */
void told_counted(struct text *t, const char *title, size_t shown, size_t all)
{
	out_head(t, title);
	if (shown < all)
		text_printf(t, told_narrow(t) ? " (%zu of %zu)" : " (%zu of %zu, all: --why)",
			    shown, all);
	text_puts(t, "\n");
}

void told_what_to_do(struct text *t, const struct remedies *x, size_t most)
{
	size_t shown = x->n < most ? x->n : most;

	if (!x->n)
		return;
	told_counted(t, "What to do, best first", shown, x->all);
	for (size_t i = 0; i < shown; i++) {
		text_printf(t, "  %zu. ", i + 1);
		text_wrap_name(t, 5, 5, x->at[i]);
	}
}

/* "DIED OF FRAGMENTATION, in backward of step 15: 843.75 MiB was refused" */
void told_death_head(struct text *t, int planned, const struct plim_report_device *d,
		     const struct plim_report_oom *oom)
{
	static const char *const causes[] = { [PLIM_CAUSE_UNKNOWN] = "DIED, cause not decided",
					      [PLIM_CAUSE_CAPACITY] = "DIED OF CAPACITY",
					      [PLIM_CAUSE_FRAGMENTATION] = "DIED OF FRAGMENTATION",
					      [PLIM_CAUSE_LEAK] = "DIED OF A LEAK" };
	const struct plim_verdict *v = oom->verdict;
	struct text words;

	text_init(&words, t->mem, &t->style);
	if (oom->survived)
		text_puts(&words, "REFUSED AND CAUGHT");
	else
		text_puts(&words, planned ? "WILL DIE" : causes[v->cause]);
	told_place(&words, d, oom->phase, oom->step);
	text_puts(&words, ": ");
	text_bytes(&words, oom->requested_bytes);
	text_puts(&words, " was refused");
	if (d->oom_count > 1) {
		text_puts(&words, " (the last of ");
		text_count(&words, d->oom_count);
		text_puts(&words, " failures)");
	}
	text_hue(t, oom->survived ? TEXT_HEAD : TEXT_BAD);
	text_wrap(t, 0, 2, "%s", text_get(&words));
	text_plain(t);
	text_release(&words);
}

static void limit_line(struct text *t, const struct plim_report_oom *oom)
{
	static const char *const words[] = {
		[PLIM_BOUND_UNKNOWN] = "not known: the card, or somebody else on it",
		[PLIM_BOUND_DEVICE] = "the card was full",
		[PLIM_BOUND_LIMIT] = "a limit of this process, not the card",
		[PLIM_BOUND_OTHER_PROCESS] = "other processes on the card",
		[PLIM_BOUND_NON_PYTORCH] = "this process, outside PyTorch's allocator",
	};
	char free[32];

	text_puts(t, "  limit   ");
	text_wrap(t, 10, 10, "%s; the driver had %s free", words[oom->verdict->bound_by],
		  text_size(free, oom->device_free_bytes));
}

/* "/home/me/train.py:41 in main", in so many columns, its end. */
static void told_fitted(struct text *t, const char *name, unsigned columns)
{
	text_name_fit(t, name, strlen(name), columns, TEXT_CUT_LEFT);
}

/* Without the folders in front: in the brief text a line has room for two. */
static const char *base_of(const char *frame)
{
	const char *in = strstr(frame, " in "), *at = in ? in : frame + strlen(frame);

	while (at > frame && at[-1] != '/')
		at--;
	return at;
}

/* The line of the model's code, and the user's line that called it. */
static void put_frames(struct text *t, const char *code, const char *own, int with_function)
{
	if (!code)
		code = own;
	code = base_of(code);
	text_name(t, code, with_function ? strlen(code) : strcspn(code, " "));
	if (own && strcmp(code, base_of(own)) != 0) { /* its function is the less telling one */
		own = base_of(own);
		text_puts(t, " < ");
		text_name(t, own, strcspn(own, " "));
	}
}

/* The same in so many columns: the function goes first, then the start. */
void told_frames(struct text *t, const char *code, const char *own, unsigned columns)
{
	struct text name;

	text_init(&name, t->mem, &t->style);
	put_frames(&name, code, own, 1);
	if (text_width(text_get(&name), name.n) > columns) {
		text_release(&name);
		text_init(&name, t->mem, &t->style);
		put_frames(&name, code, own, 0);
	}
	told_fitted(t, text_get(&name), columns);
	text_release(&name);
}

/* The line that asked for what was refused. */
static void line_line(struct text *t, const char *label, const struct plim_report_oom *oom)
{
	const char *own = oom->frame ? oom->frame : oom->backward_of;
	unsigned room = told_columns(t) - 10;

	if (!own)
		return;
	text_printf(t, "  %-8s%s", label, oom->frame ? "" : TOLD_BACKWARD_OF);
	told_frames(t, oom->code_frame, own, room - (oom->frame ? 0 : TOLD_BACKWARD_COLUMNS));
	text_puts(t, "\n");
}

/* A finding's title without its place, which has a line of its own. */
static void title_words(struct text *t, const struct plim_finding *f)
{
	const char *from = strncmp(f->title, "leak: ", 6) ? f->title : f->title + 6;
	const char *end = f->place.frame ? strrchr(from, '(') : NULL;

	text_put(t, from, end && end > from + 1 ? (size_t)(end - from - 1) : strlen(from));
}

void told_title(struct text *t, unsigned first, unsigned hang, const struct plim_finding *f)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	title_words(&words, f);
	text_wrap_name(t, first, hang, text_get(&words));
	text_release(&words);
}

static void because(struct text *t, const struct plim_verdict *v, const struct plim_finding *why)
{
	struct text words;

	if (!why && (v->cause || !v->likely_cause))
		return;
	text_init(&words, t->mem, &t->style);
	if (!v->cause && v->likely_cause)
		text_printf(&words, "%s is likelier, not certain%s",
			    plim_cause_name(v->likely_cause), why ? "; " : "");
	if (why)
		title_words(&words, why);
	text_puts(t, "  because ");
	text_wrap_name(t, 10, 10, text_get(&words));
	text_release(&words);
}

void told_leak_line(struct text *t, const char *frame)
{
	text_puts(t, "  line    ");
	told_fitted(t, frame, told_columns(t) - 10);
	text_puts(t, "\n");
}

void told_death(struct text *t, int planned, const struct plim_report_device *d)
{
	const struct plim_report_oom *oom = told_last_oom(d);
	const struct plim_finding *why = told_explaining(d);

	told_death_head(t, planned, d, oom);
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", oom->verdict->arithmetic);
	if (oom->verdict->cause) /* else the sum has all that is known of it */
		limit_line(t, oom);
	because(t, oom->verdict, why);
	if (why && told_died_of_leak(d) && why->place.frame)
		told_leak_line(t, why->place.frame);
	line_line(t, why && told_died_of_leak(d) ? "refused" : "line", oom);
}
