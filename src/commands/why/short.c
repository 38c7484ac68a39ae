/*
 * The short answer: of each cause what ran out and where the log says so, when and who held it, what to do, and what is not
 * decided.  Everything else is in the long one (text.c).
 */
#include "commands/out.h"
#include "commands/why/why.h"

#include <stdio.h>
#include <string.h>

#define LABEL_COLUMNS WHY_LABEL_COLUMNS
#define NUMBER_COLUMNS 3
#define WHOLE 1       /* causes that are answered in full; the others have a line each */
#define LINES_MOST 5  /* of those lines */
#define OTHERS_MOST 2 /* failures that are not memory */

static unsigned short_width_of(const struct text *t)
{
	return t->style.width ? t->style.width : 80;
}

/* ---- one cause ---- */

static int may_be_one_size(struct plim_interval a, struct plim_interval b)
{
	return a.low == PLIM_UNKNOWN || b.low == PLIM_UNKNOWN ||
	       (a.low <= b.high && b.low <= a.high);
}

/* Retries of one cause: the same kind of failure, of the same program, with the same cure. */
static int is_again(const struct plim_why_death *a, const struct plim_why_death *b)
{
	return a->kind == b->kind && a->file == b->file && a->moment == b->moment &&
	       (a->caught_line == PLIM_UNKNOWN) == (b->caught_line == PLIM_UNKNOWN) && a->first &&
	       b->first && !strcmp(a->first, b->first) &&
	       (a->device == b->device || a->device == PLIM_UNKNOWN || b->device == PLIM_UNKNOWN) &&
	       may_be_one_size(a->numbers.total_bytes, b->numbers.total_bytes);
}

/* The first death of the cause that death `i` is of. */
static size_t cause_of(const struct plim_why *w, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (is_again(&w->deaths[k], &w->deaths[i]))
			return k;
	return i;
}

static uint64_t times_of(const struct plim_why *w, size_t cause)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w->death_count; i++)
		n += cause_of(w, i) == cause ? w->deaths[i].times : 0;
	return n;
}

/* Is the text one that its reader has in front of it: standard input, or what a program handed over? */
static int is_handed(const char *file)
{
	return !strcmp(file, "-") || *file == '<' || !strncmp(file, "/proc/self/fd/", 14);
}

/* "train.log:13, written 4 times", "line 13" of standard input. */
void why_put_place(struct text *words, const struct plim_why *w, const struct plim_why_death *d,
		   uint64_t times)
{
	const char *name = strrchr(d->file, '/');

	if (is_handed(d->file))
		text_puts(words, "line ");
	else
		text_printf(words, "%s:", w->file_count == 1 && name ? name + 1 : d->file);
	text_printf(words, "%llu", (unsigned long long)d->line);
	if (times > 1)
		text_printf(words, ", written %llu times", (unsigned long long)times);
}

static void headline(struct text *t, const struct plim_why *w, const struct plim_why_death *d,
		     uint64_t times)
{
	const char *line = d->verdict.headline;
	size_t loud = strcspn(line, ":");
	struct text words;

	/* a short beginning alone is loud: it stands in one line */
	loud = line[loud] && loud < short_width_of(t) / 2 ? loud : 0;
	text_init(&words, t->mem, &t->style);
	text_printf(&words, "%s  (", line + loud);
	why_put_place(&words, w, d, times);
	text_puts(&words, ")");
	if (loud) {
		text_hue(t, TEXT_BAD);
		text_put(t, line, loud);
		text_plain(t);
	}
	text_wrap_name(t, (unsigned)loud, 2, text_get(&words));
	text_release(&words);
}

void why_put_row(struct text *t, const char *label, const char *words)
{
	text_printf(t, "%-*s", LABEL_COLUMNS, label);
	text_wrap_name(t, LABEL_COLUMNS, LABEL_COLUMNS, words);
}

/* "backward, train.py:41, after step 7", or what it was doing. */
static void put_moment(struct text *words, const struct plim_why_death *d)
{
	const char *frame = d->frame ? strrchr(d->frame, '/') : NULL;

	frame = frame || !d->frame ? frame : strrchr(d->frame, '\\');
	if (d->moment)
		text_puts(words, why_moment_names[d->moment]);
	else if (d->activity && strcmp(d->activity, "serving") != 0) /* or it never started */
		text_puts(words, d->activity);
	frame = frame ? frame + 1 : d->frame;
	if (frame)
		text_printf(words, "%s%.*s", words->n ? ", " : "", (int)strcspn(frame, " "), frame);
	if (d->step != PLIM_UNKNOWN)
		text_printf(words, "%safter step %llu", words->n ? ", " : "",
			    (unsigned long long)d->step);
}

/* When it was and who held the memory, in one line if both fit. */
static void moment_and_holder(struct text *t, const struct plim_why_death *d)
{
	static const char own[] = "this process, ";
	const char *held = d->held;
	struct text words;

	text_init(&words, t->mem, &t->style);
	put_moment(&words, d);
	if (held && !strncmp(held, own, sizeof(own) - 1))
		held += sizeof(own) - 1;
	if (held && words.n &&
	    LABEL_COLUMNS + words.n + strlen("; held ") + strlen(held) <= short_width_of(t)) {
		text_printf(&words, "; held %s%s", held == d->held ? "by " : "", held);
		why_put_row(t, "moment", text_get(&words));
	} else {
		if (words.n)
			why_put_row(t, "moment", text_get(&words));
		if (held)
			why_put_row(t, "held by", d->held);
	}
	text_release(&words);
}

/* "0-3, 6", of several ranks. */
void why_put_ranks(struct text *t, const struct plim_why_death *d)
{
	struct text words;

	if (d->rank_count < 2)
		return;
	text_init(&words, t->mem, &t->style);
	for (size_t i = 0, last; i < d->rank_count; i = last + 1) {
		last = i;
		while (last + 1 < d->rank_count && d->ranks[last + 1] == d->ranks[last] + 1)
			last++;
		text_printf(&words, "%s%llu", i ? ", " : "", (unsigned long long)d->ranks[i]);
		if (last > i)
			text_printf(&words, "-%llu", (unsigned long long)d->ranks[last]);
	}
	if (d->ranks_left_out)
		text_printf(&words, " and %llu more", (unsigned long long)d->ranks_left_out);
	why_put_row(t, "ranks", text_get(&words));
	text_release(&words);
}

/* What ran out, when, who held it, and of which ranks. */
void why_put_what(struct text *t, const struct plim_why *w, const struct plim_why_death *d,
		  uint64_t times)
{
	headline(t, w, d, times);
	moment_and_holder(t, d);
	why_put_ranks(t, d);
}

static size_t longest_word(const char *words)
{
	size_t most = 0;

	for (size_t n; *words; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		most = n > most ? n : most;
	}
	return most;
}

/* Words that are to be copied stay whole: those too long for what is left of the line have one of their own. */
static void code(struct text *t, unsigned columns, const char *words)
{
	int fits = columns + longest_word(words) <= short_width_of(t);

	if (!fits)
		text_puts(t, "\n  ");
	text_wrap_code(t, fits ? columns : 2, fits ? columns : 2, words);
}

static void actions(struct text *t, const struct plim_why_death *d)
{
	for (size_t i = 0; i < d->action_count && d->caught_line == PLIM_UNKNOWN; i++) {
		text_printf(t, "%-*s%zu  ", LABEL_COLUMNS, i ? "" : "do", i + 1);
		code(t, LABEL_COLUMNS + NUMBER_COLUMNS, d->actions[i]);
	}
}

static void short_whole(struct text *t, const struct plim_why *w, size_t cause)
{
	const struct plim_why_death *d = &w->deaths[cause];

	if (d->recorded && d->recorded->same_death) {
		why_put_recorded(t, w, d);
		return;
	}
	why_put_what(t, w, d, times_of(w, cause));
	actions(t, d);
	if (d->open && d->caught_line == PLIM_UNKNOWN)
		why_put_row(t, "open", d->open);
	why_put_planned(t, d->planned);
}

/* ---- the whole ---- */

/* "line 13"; of several files "train.log:13". */
static void line_of(const struct plim_why *w, const char *file, uint64_t line, struct text *words)
{
	if (w->file_count > 1)
		text_printf(words, "%s:%llu", file, (unsigned long long)line);
	else
		text_printf(words, "line %llu", (unsigned long long)line);
}

void why_put_others(struct text *t, const struct plim_why *w, size_t most)
{
	int whole = !w->death_count || most > OTHERS_MOST;

	for (size_t i = 0; i < w->other_count && i < most; i++) {
		const struct plim_why_other *o = &w->others[i];
		struct text words;

		text_printf(t, "%s", w->death_count ? "also      " : "");
		text_init(&words, t->mem, &t->style);
		text_printf(&words, "%s, ", o->family);
		line_of(w, o->file, o->line, &words);
		text_printf(&words, ": %s", o->says ? o->says : "a failure that is not memory");
		text_wrap_name(t, w->death_count ? LABEL_COLUMNS : 0,
			       w->death_count ? LABEL_COLUMNS : 2, text_get(&words));
		text_release(&words);
		if (o->text && whole) {
			text_printf(t, "%-*s", LABEL_COLUMNS, "text");
			text_name_fit(t, o->text, strlen(o->text),
				      short_width_of(t) - LABEL_COLUMNS, TEXT_CUT_RIGHT);
			text_puts(t, "\n");
		}
		if (o->advice && whole) {
			text_printf(t, "%-*s", LABEL_COLUMNS, "do");
			code(t, LABEL_COLUMNS, o->advice);
		}
	}
	if (w->other_count > most)
		text_printf(t, "and %zu more that are not memory\n", w->other_count - most);
}

#define STATES_MOST 4

/* What the log shows of a GPU's memory: the newest of each kind and GPU. */
static void states(struct text *t, const struct plim_why *w)
{
	size_t put = 0;

	for (size_t i = w->state_count; i-- && put < STATES_MOST;) {
		const struct plim_why_state *s = &w->states[i];
		size_t newer = i + 1;
		char gpu[24] = "GPU";
		struct text words;

		while (newer < w->state_count &&
		       (w->states[newer].kind != s->kind || w->states[newer].device != s->device ||
			w->states[newer].pid != s->pid))
			newer++;
		if (newer < w->state_count)
			continue;
		if (s->device != PLIM_UNKNOWN)
			snprintf(gpu, sizeof(gpu), "GPU %llu", (unsigned long long)s->device);
		text_puts(t, gpu);
		text_init(&words, t->mem, &t->style);
		text_printf(&words, ": %s  (%s, ", s->says, plim_why_state_kind_name(s->kind));
		line_of(w, s->file, s->line, &words);
		text_puts(&words, ")");
		text_wrap_name(t, (unsigned)strlen(gpu), 2, text_get(&words));
		text_release(&words);
		if (s->action) {
			text_printf(t, "%-*s", LABEL_COLUMNS, "do");
			code(t, LABEL_COLUMNS, s->action);
		}
		put++;
	}
}

/* "train.log: 1 failure of memory in 812 lines of 2 files" */
void why_put_title(struct text *t, const struct plim_why *w)
{
	struct text words;

	text_init(&words, t->mem, &t->style);
	if (w->file_count == 1 && !is_handed(w->files[0].path))
		text_printf(&words, "%s: ", w->files[0].path);
	if (w->death_count)
		text_printf(&words, "%zu", w->death_count);
	else
		text_puts(&words, "no");
	text_printf(&words, " %s of memory in ", w->death_count > 1 ? "failures" : "failure");
	text_count(&words, w->lines);
	text_puts(&words, w->lines == 1 ? " line" : " lines");
	if (w->file_count != 1)
		text_printf(&words, " of %zu files", w->file_count);
	text_wrap_name(t, 0, 2, text_get(&words));
	text_release(&words);
}

/* Is a cause after `cause` to be shown, too? */
static int has_more(const struct plim_why *w, size_t cause)
{
	for (size_t i = cause + 1; i < w->death_count; i++)
		if (cause_of(w, i) == i)
			return 1;
	return 0;
}

/* What stands between causes: a blank line, and of several files the one that says so. */
static void block(struct text *t, const struct plim_why *w, size_t cause, size_t put)
{
	const char *file = w->deaths[cause].file;

	if (put)
		text_puts(t, "\n");
	if (w->file_count < 2)
		return;
	text_hue(t, TEXT_HEAD);
	text_name_fit(t, file, strlen(file), short_width_of(t), TEXT_CUT_LEFT);
	text_plain(t);
	text_puts(t, "\n");
}

/* A cause that is not the first: its advice is in the long answer. */
static void in_brief(struct text *t, const struct plim_why *w, size_t cause)
{
	headline(t, w, &w->deaths[cause], times_of(w, cause));
	if (w->deaths[cause].caught_line == PLIM_UNKNOWN)
		why_put_row(t, "do", "--more shows what helps against this one");
}

void why_put_short(struct text *t, const struct plim_why *w)
{
	size_t put = 0, left = 0;

	if (!w->death_count && w->state_count)
		states(t, w);
	else if (!w->death_count)
		why_put_title(t, w);
	for (size_t i = 0; i < w->death_count; i++) {
		if (cause_of(w, i) != i)
			continue;
		if (put < WHOLE + LINES_MOST && (put || has_more(w, i)))
			block(t, w, i, put);
		if (put < WHOLE)
			short_whole(t, w, i);
		else if (put < WHOLE + LINES_MOST)
			in_brief(t, w, i);
		else
			left++;
		put++;
	}
	if (left)
		text_printf(t, "\nand %zu more causes: --more\n", left);
	why_put_others(t, w, OTHERS_MOST);
	for (size_t i = 0; i < w->note_count; i++) {
		text_puts(t, "note      ");
		text_wrap_name(t, LABEL_COLUMNS, LABEL_COLUMNS, w->notes[i]);
	}
}
