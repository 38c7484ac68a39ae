/* Python tracebacks: what the program was doing, and which of the user's own lines it was at. */
#include "scan.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CUES scan_moment_cue_count

void scan_trace_start(struct messages_trace *t)
{
	*t = (struct messages_trace){ .step = PLIM_UNKNOWN };
}

/* Windows' paths as the others. */
static void slashes(const char *file, char out[sizeof(((struct messages_frame *)0)->file)])
{
	size_t i = 0;

	for (; file[i]; i++)
		out[i] = (char)(file[i] == '\\' ? '/' : file[i]);
	out[i] = 0;
}

/* Is the file a launcher that pip made (bin/torchrun)?  These have no ending, what people write has. */
static int is_launcher(const char *file, const char *last)
{
	static const char bin[] = "/bin/";
	size_t n = sizeof(bin) - 1;

	return !strchr(last, '.') && last - file >= (ptrdiff_t)n && !memcmp(last - n, bin, n);
}

static int is_users(const char *name)
{
	char file[sizeof(((struct messages_frame *)0)->file) + 1] = "/";
	const char *last;

	if (!*name)
		return 0;
	slashes(name, file + 1);
	last = strrchr(file, '/') + 1;
	if (scan_holds(file, scan_foreign_folders))
		return 0;
	for (const struct scan_word *w = scan_foreign_files; w->word; w++)
		if (!strncmp(last, w->word, strlen(w->word)))
			return 0;
	return !is_launcher(file, last);
}

/* The end of a name that is too long shows more than its start. */
static void copy_end(char *to, size_t size, const char *from, size_t n)
{
	size_t skip = n < size ? 0 : n - size + 1;

	memcpy(to, from + skip, n - skip);
	to[n - skip] = 0;
}

/*
 * Where a line of code is indented below its frame; NULL: it is not.  What loggers put in front of
 * lines is as long for both.
 */
static const char *code_start(const struct scan_line *frame, const struct scan_line *source)
{
	const char *file = memmem(frame->text, frame->n, "File \"", 6);
	size_t at = (size_t)(file - frame->text);
	const char *p = source->text + source->body;

	if (at >= 2 && source->n > at + 2 && !memcmp(source->text + at - 2, "    ", 4))
		p = source->text + at - 2;
	return *p == ' ' || *p == '\t' ? p : NULL;
}

/* A line of code, if it is one: neither the next frame nor the marks below a line. */
static void read_traceback_source(struct messages_frame *f, const struct scan_line *frame,
				  const struct scan_line *source)
{
	const char *p = source ? code_start(frame, source) : NULL, *end;

	if (!p)
		return;
	end = source->text + source->n;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if (!strncmp(p, "File \"", 6) || strspn(p, "^~ ") == (size_t)(end - p))
		return;
	snprintf(f->source, sizeof(f->source), "%.*s", (int)((size_t)(end - p)), p);
}

/* The function, and of a traceback whose line feeds are lost the line of code behind it. */
static void read_function(struct messages_frame *f, const char *p, const char *end, int is_whole)
{
	size_t n = is_whole ? (size_t)(end - p) : strcspn(p, " ");

	snprintf(f->function, sizeof(f->function), "%.*s", (int)(n), p);
	p += n + strspn(p + n, " ");
	if (!is_whole && p < end)
		snprintf(f->source, sizeof(f->source), "%.*s", (int)((size_t)(end - p)), p);
}

/* The first frame of the line from `p` on; where the next one is looked for, NULL: there is none. */
static const char *read_frame(struct messages_frame *f, const struct scan_line *line, const char *p,
			      const struct scan_line *source)
{
	static const char start[] = "File \"", middle[] = "\", line ", in[] = ", in ";
	const char *from = p, *end = line->text + line->n, *q, *next;
	uint32_t number = 0;

	*f = (struct messages_frame){ .line = 0 };
	p = memmem(p, (size_t)(end - p), start, sizeof(start) - 1);
	if (!p)
		return NULL;
	p += sizeof(start) - 1;
	q = memmem(p, (size_t)(end - p), middle, sizeof(middle) - 1);
	if (!q)
		return NULL;
	next = memmem(q, (size_t)(end - q), start, sizeof(start) - 1);
	end = next ? next : end;
	copy_end(f->file, sizeof(f->file), p, (size_t)(q - p));
	for (p = q + sizeof(middle) - 1; p < end && *p >= '0' && *p <= '9' && number < 99999999;
	     p++)
		number = 10 * number + (uint32_t)(*p - '0');
	f->line = number;
	if ((size_t)(end - p) > sizeof(in) - 1 && !memcmp(p, in, sizeof(in) - 1)) {
		read_function(f, p + sizeof(in) - 1, end, !next && from == line->text);
	}
	if (!next)
		read_traceback_source(f, line, source);
	return end;
}

/* A part of the name, or behind "=" all of it. */
static int is_function(const char *function, const char *want)
{
	return *want == '=' ? !strcmp(function, want + 1) : strcasestr(function, want) != NULL;
}

/* The row that a frame fits, or CUES. */
static size_t find_cue(const struct messages_frame *f)
{
	char file[sizeof(f->file)];
	size_t c = 0;

	slashes(f->file, file);

	for (; c < CUES; c++) {
		if ((!scan_moment_cues[c].file || strstr(file, scan_moment_cues[c].file)) &&
		    (!scan_moment_cues[c].function ||
		     is_function(f->function, scan_moment_cues[c].function)) &&
		    (!scan_moment_cues[c].source || strstr(f->source, scan_moment_cues[c].source)))
			break;
	}
	return c;
}

static size_t rank_of(enum messages_moment moment)
{
	size_t c = 0;

	while (c < CUES && scan_moment_cues[c].moment != moment)
		c++;
	return c;
}

/* One more of the user's own frames; the outermost are given up. */
static void go_deeper(struct messages_trace *t, const struct messages_frame *f)
{
	if (t->user.file[0]) {
		memmove(t->callers + 1, t->callers, sizeof(t->callers) - sizeof(t->callers[0]));
		t->callers[0] = t->user;
		t->caller_count += t->caller_count < MESSAGES_CALLERS;
	} else {
		t->outer = *f;
	}
	t->user = *f;
}

static void take_frame(struct messages_trace *t, const struct messages_frame *f)
{
	size_t cue;

	if (!strcmp(f->function, "__del__"))
		return; /* what is cleaned up behind a failure is not where it was */
	t->frames += t->frames < UINT32_MAX;
	t->semaphore |= strstr(f->file, "multiprocessing") &&
			(strstr(f->file, "synchronize.py") || strstr(f->source, "Lock()"));
	/* a worker of the DataLoader died: the line that was interrupted is not what made the batches */
	if (strstr(f->file, "signal_handling.py") && t->moment != MESSAGES_DATA) {
		memset(&t->user, 0, sizeof(t->user));
		memset(&t->outer, 0, sizeof(t->outer));
		t->caller_count = 0;
		t->moment = MESSAGES_MOMENT_UNKNOWN;
	}
	if (is_users(f->file))
		go_deeper(t, f);
	/* Lightning's step calls all of forward and backward: what is inside counts */
	if (strstr(f->source, "closure()")) {
		t->moment = MESSAGES_MOMENT_UNKNOWN;
		return;
	}
	cue = find_cue(f);
	if (cue < CUES && rank_of(scan_moment_cues[cue].moment) < rank_of(t->moment)) {
		t->moment = scan_moment_cues[cue].moment;
		t->shown = *f;
	}
}

void scan_trace_frame(struct messages_trace *t, const struct scan_line *line,
		      const struct scan_line *source)
{
	struct messages_frame f;
	const char *p = line->text;

	while ((p = read_frame(&f, line, p, source)))
		take_frame(t, &f);
}

/* ---- progress ---- */

/* "step 12", "'global_step': 12", "iter 12/500", "Step: 12" */
static const char *const step_words[] = { "step", "iter", "iteration", "batch" };

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static uint64_t number_at(const char *p, const char *end)
{
	uint64_t v;

	scan_digits(p, end, &v);
	return v;
}

#define LABEL_WORDS \
	3 /* "Epoch 3:", "Training:", a table of numbers: a loop of steps has no sentence in front */

/* Words of letters in [from, to). */
static int words_in(const char *from, const char *to)
{
	int words = 0, letters = 0;

	for (const char *p = from; p <= to; p++) {
		int is_letter = p < to && (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z';

		words += !is_letter && letters >= 3;
		letters = is_letter ? letters + 1 : 0;
	}
	return words;
}

/* Is the bar that of a loop of steps, by what is in front of it on its line? */
static int is_of_steps(const char *text, const char *bar)
{
	const char *from = bar - text > 160 ? bar - 160 : text;

	for (const char *p = bar; p > from; p--)
		if (scan_ends_line(p[-1]))
			from = p;
	return !scan_has(from, bar, scan_not_steps) && words_in(from, bar) <= LABEL_WORDS;
}

#define NEAR_BYTES 200 /* of a line, around a bar or a word of steps */

/* Does the line that `at` is in hold one of the words, near to it? */
static int line_has(const char *text, const char *at, const char *end,
		    const struct scan_word *words)
{
	const char *from = at, *to = at;

	while (from > text && at - from < NEAR_BYTES && !scan_ends_line(from[-1]))
		from--;
	while (to < end && to - at < NEAR_BYTES && !scan_ends_line(*to))
		to++;
	for (; words->word; words++)
		for (const char *p = from; p + strlen(words->word) <= to; p++)
			if (!strncasecmp(p, words->word, strlen(words->word)))
				return 1;
	return 0;
}

/* A full bar of a loop that trains names its epoch or its loss; another one counted something that is over. */
static int is_trained(const char *text, const char *at, const char *end)
{
	return line_has(text, at, end, scan_trained);
}

/* tqdm's "| 12/500 [00:01<": the number in front of the slash; PLIM_UNKNOWN of a bar that is over. */
static int bar_step(const char *text, const char *slash, const char *end, uint64_t *step)
{
	const char *p = scan_digits_before(text, slash), *q = slash + 1;

	while (q < end && is_digit(*q))
		q++;
	if (p == slash || q == slash + 1 || p - text < 2 || p[-1] != ' ' ||
	    (p[-2] != '|' && p[-2] != ' ') || end - q < 2 || q[0] != ' ' || q[1] != '[' ||
	    !is_of_steps(text, p))
		return 0;
	*step = number_at(p, slash);
	if (*step && *step == number_at(slash + 1, end) && !is_trained(text, slash, end))
		*step = PLIM_UNKNOWN;
	return 1;
}

static int is_progress(const char *text, const char *at, const char *end)
{
	return line_has(text, at, end, scan_progress_words);
}

/* "--batch 64", "n_ubatch = 512", "best iteration: 9" and "batch=64" are not progress. */
static int is_word_of_steps(const char *text, const char *word)
{
	char before = word > text ? word[-1] : ' ';

	if (is_digit(before) || before == '-' || strchr("_./", before) ||
	    ((before | 0x20) >= 'a' && (before | 0x20) <= 'z'))
		return word - text >= 7 && !strncasecmp(word - 7, "global_", 7);
	return word - text < 5 || strncasecmp(word - 5, "best ", 5) != 0;
}

static int is_fraction(const char *p, const char *end)
{
	while (p < end && *p == '0')
		p++;
	return p < end && is_digit(*p);
}

/* The number behind the word; a bare "step 12" counts on a line of progress alone. */
static int word_step(const char *text, const char *word, size_t n, const char *end, uint64_t *step)
{
	const char *p = word + n, *q;
	int is_batch = (*word | 0x20) == 'b', pair = 0;

	/* "steps = 8" is how many there are to be: a setting */
	if (p < end && (*p | 0x20) == 's')
		return 0;
	for (; p < end && p - word < 16 && strchr("'\"=:#[( ", *p); p++) {
		if (*p == '=' && is_batch)
			return 0;
		pair |= *p == ':' || *p == '[' || *p == '=';
	}
	if (p >= end || !is_digit(*p) || p == word + n || !is_word_of_steps(text, word))
		return 0;
	for (q = p; q < end && is_digit(*q);)
		q++;
	if (q + 1 < end && *q == '.' && !is_digit(q[1]))
		return 0; /* Slurm's "step 33.batch" */
	if (q < end && *q == '.' && is_fraction(q + 1, end))
		return 0; /* "per iter: 58.39 ms" */
	if (!pair && !(q < end && *q == '/') && !is_progress(text, word, end))
		return 0;
	*step = number_at(p, end);
	return 1;
}

/* "{'loss': 1.2, 'learning_rate': 2e-05, 'epoch': 0.5}", as Transformers' Trainer logs every some steps. */
static int is_loss(const char *p, const char *end)
{
	static const char word[] = "loss': ";

	if ((size_t)(end - p) < sizeof(word) + 1 || (*p != '\'' && *p != '"') ||
	    memcmp(p + 1, word, 4) || p[5] != *p || p[6] != ':')
		return 0;
	for (p += 7; p < end && (*p == ' ' || *p == '\'' || *p == '"'); p++)
		;
	return p < end && is_digit(*p);
}

uint64_t scan_progress(const char *text, size_t n, uint64_t *most)
{
	const char *end = text + n;
	uint64_t step = PLIM_UNKNOWN, found = 0;

	*most = 0;
	for (const char *p = text; p < end; p++) {
		int told = *p == '/' && bar_step(text, p, end, &found);

		for (size_t w = 0; !told && w < sizeof(step_words) / sizeof(step_words[0]); w++) {
			size_t len = strlen(step_words[w]);

			told = (*p | 0x20) == step_words[w][0] && (size_t)(end - p) > len &&
			       !strncasecmp(p, step_words[w], len) &&
			       word_step(text, p, len, end, &found);
		}
		if (is_loss(p, end) && (!step || step == PLIM_UNKNOWN)) {
			step = MESSAGES_STEP_SOME;
			*most = *most ? *most : 1;
		}
		if (told) {
			/* a bar that starts anew does not undo the steps whose losses were logged */
			step = (!found || found == PLIM_UNKNOWN) && step == MESSAGES_STEP_SOME
				       ? step
				       : found;
			*most = found > *most && found != PLIM_UNKNOWN ? found : *most;
		}
	}
	return step;
}
