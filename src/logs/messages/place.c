/*
 * Where on its line the name of a program stands.  A name proves that the program ran only at an anchor: in the location of a
 * frame, in a logger's prefix, or as what a command line starts.  Sentences, tables of versions, lists of processes and
 * paths of data name programs that did not run.
 */
#include "scan.h"

#include <ctype.h>
#include <string.h>

/* A word of the line: [from, to). */
struct word {
	const char *from, *to;
};

/* A path in quotes may have spaces: `File "E:\\Stable Diffusion\\x.py", line 3`. */
static struct word word_around(const char *text, const char *at)
{
	static const char ends[] = " \t\"'`()<>[]{},;|=*";
	const char *file = strstr(text, "File \""), *close;
	struct word w = { at, at };

	close = file ? strchr(file + 6, '"') : NULL;
	if (close && at >= file + 6 && at < close)
		return (struct word){ file + 6, close };
	while (w.from > text && !strchr(ends, w.from[-1]))
		w.from--;
	while (*w.to && !strchr(ends, *w.to))
		w.to++;
	return w;
}

static struct word next_word(const char *p)
{
	p += strspn(p, " \t\"'`");
	return (struct word){ p, p + strcspn(p, " \t\"'`") };
}

/* ---- frames ---- */

/* "x.py:123", "x.cc:99:": the file's end and a number behind a colon. */
static int has_line_number(struct word w)
{
	const char *colon = NULL;

	for (const char *p = w.from; p + 1 < w.to; p++)
		if (*p == ':' && isdigit((unsigned char)p[1]))
			colon = p;
	if (!colon)
		return 0;
	for (const char *p = colon; p > w.from && colon - p <= 6; p--)
		if (*p == '.' && p + 1 < colon && isalpha((unsigned char)p[1]))
			return 1;
	return 0;
}

/* "pipe = FluxPipeline.from_pretrained(": a script that is pasted with what it ended in. */
static int is_called(const struct scan_line *l, struct word w)
{
	return *w.to == '(' && w.from - l->text > 3 && !memcmp(w.from - 3, " = ", 3);
}

/* Does the word name a place in code: `File "x.py", line 3`, "x.cc:99", "at org.x.Y(Z.java:3)"? */
static int is_location(const struct scan_line *l, struct word w)
{
	const char *body = l->text + l->body + strspn(l->text + l->body, " ");
	const char *behind = w.to + strspn(w.to, "\"'");
	size_t n = (size_t)(w.to - w.from);

	if (has_line_number(w) || !strncmp(behind, ", line ", 7))
		return 1;
	/* the function of a frame */
	if (w.from - l->text > 5 && !strncmp(w.from - 5, ", in ", 5) && strstr(l->text, ", line "))
		return 1;
	if (n > 3 && !strncmp(w.to - 3, ".py", 3))
		return !strncmp(behind, " in ", 4) || !strncmp(behind, ", in ", 5) ||
		       !strncmp(behind, "(", 1);
	/* Java's "at org.x.Y(Z.java:3)", Go's "github.com/x/y.(*Server).load(0xc0, 0x31)" */
	return (!strncmp(body, "at ", 3) && *w.to == '(') || strstr(w.to, "(0x") == w.to ||
	       (strchr(body, '(') && strchr(body, '(')[1] == '*' && strstr(body, "(0x"));
}

/* "/home/ann/ComfyUI/venv/lib/python3.11/site-packages/x.py": the name stands in front of where packages lie. */
static int is_where_installed(struct word w, const char *at)
{
	return scan_has(at, w.to, scan_package_folders);
}

/* ---- loggers ---- */

#define PREFIX_COLUMNS 160 /* of timestamps, processes, levels and the logger's name */

static int is_one_of(struct word w, const struct scan_word *words)
{
	size_t n = (size_t)(w.to - w.from);

	for (; words->word; words++)
		if (n == strlen(words->word) && !memcmp(w.from, words->word, n))
			return 1;
	return 0;
}

/* A time, a date, a number of a process. */
static int device_is_number(struct word w)
{
	int digits = 0;

	for (const char *p = w.from; p < w.to; p++)
		digits += isdigit((unsigned char)*p) != 0;
	return digits && 2 * digits >= (int)(w.to - w.from);
}

/* What a colon follows in "- vLLM version: 0.6" and "vllm: 0.6.5": a number, or that it is not there. */
static int is_version(const char *behind)
{
	behind += strspn(behind, " ");
	return isdigit((unsigned char)*behind) || !strncasecmp(behind, "not ", 4) ||
	       !strncasecmp(behind, "none", 4) || !strncasecmp(behind, "n/a", 3) || !*behind;
}

/* The end of a word, whose braces may hold spaces: "batch{id=1 size=2}:prefill{id=1}:". */
static const char *prefix_word_end(const char *p)
{
	for (int depth = 0; *p && (*p != ' ' || depth); p++)
		depth += (*p == '{') - (*p == '}');
	return p;
}

/* "ollama[1418]:", as syslog has it. */
static int is_process(struct word w)
{
	return w.to - w.from > 3 && w.to[-1] == ':' && w.to[-2] == ']' &&
	       memchr(w.from, '[', (size_t)(w.to - w.from)) != NULL;
}

/* The last "ollama[1418]:" among the first words; empty: there is none. */
static struct word process_of(const char *body)
{
	struct word found = { body, body };

	for (struct word w = { body, body }; *w.to && w.to - body < PREFIX_COLUMNS;) {
		w.from = w.to + strspn(w.to, " ");
		w.to = w.from + strcspn(w.from, " ");
		if (is_process(w))
			found = w;
	}
	return found;
}

/*
 * Where the message begins behind what a logger writes in front of it: "INFO 05-01 10:00:00 [gpu_worker.py:99] ",
 * "ggml_backend_cuda_buffer_type_alloc_buffer: ", "[TRT-LLM] [E] ".
 */
static const char *message_of(const char *body)
{
	const char *p = body;

	while (*p && p - body < PREFIX_COLUMNS) {
		struct word w, next;

		p += strspn(p, " ");
		if (*p == '[' || *p == '(') {
			const char *close = strchr(p, *p == '[' ? ']' : ')');

			if (!close)
				return p;
			p = close + 1;
			p += *p == ':';
			continue;
		}
		w = (struct word){ p, prefix_word_end(p) };
		next = next_word(w.to);
		/* "Iter 30: " */
		if (device_is_number(next) && next.to[-1] == ':') {
			p = next.to;
			continue;
		}
		if (w.to == w.from || (!is_one_of(w, scan_levels) && !device_is_number(w) &&
				       !(strchr(":]", w.to[-1]) && !is_version(w.to))))
			return p;
		p = w.to;
	}
	return p;
}

/* Behind "(VllmWorker pid=9) ". */
static const char *behind_worker(const char *p)
{
	const char *close = *p == '(' ? strchr(p, ')') : NULL;

	return close ? close + 1 : p;
}

/* vLLM's logger: "ERROR 05-01 10:00:00 [engine.py:99] ", with no year, and before 0.8.5 without the first bracket. */
int scan_is_vllms_line(const struct scan_line *l)
{
	static const char stamp[] = "00-00 00:00:00 ";
	struct word level = next_word(behind_worker(l->text + l->body));
	const char *p = level.to + (*level.to == ' ');

	if (!is_one_of(level, scan_levels))
		return 0;
	for (const char *q = stamp; *q; q++, p++)
		if (*q == '0' ? !isdigit((unsigned char)*p) : *p != *q)
			return 0;
	p += *p == '[';
	return has_line_number((struct word){ p, p + strcspn(p, " ]") }) &&
	       p[strcspn(p, " ]")] == ']';
}

/* ---- commands ---- */

static int is_flag(struct word w)
{
	return w.to - w.from >= 2 && *w.from == '-' &&
	       (w.from[1] == '-' || isalpha((unsigned char)w.from[1]));
}

static int is_assignment(struct word w)
{
	const char *p = w.from;

	while (p < w.to && (isupper((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '_'))
		p++;
	return p > w.from && p < w.to && *p == '=';
}

/* Behind "$ " or "ann@host:~$ "; *shown: one of these was there. */
static const char *behind_prompt(const struct scan_line *l, int *shown)
{
	const char *p = l->text + l->body, *dollar = strstr(p, "$ ");

	p += strspn(p, " \t*`");
	*shown = 1;
	if (dollar && (dollar == p || (dollar - p < 96 && memchr(p, '@', (size_t)(dollar - p)))))
		return dollar + 2;
	*shown = 0;
	return p;
}

/* The script or the module that an interpreter or a launcher starts; empty: none is shown. */
static struct word script_of(const char *p)
{
	struct word w = next_word(p), none = { p, p };

	for (; w.to > w.from; w = next_word(w.to)) {
		if (w.to - w.from == 2 && !memcmp(w.from, "-m", 2))
			return next_word(w.to);
		if (w.to - w.from > 3 && !memcmp(w.to - 3, ".py", 3))
			return w;
	}
	return none;
}

/* Does a word behind the program belong to a command, and not to a sentence: a flag, a path, a setting? */
static int has_arguments(const char *p)
{
	for (struct word w = next_word(p); w.to > w.from; w = next_word(w.to))
		if (is_flag(w) || memchr(w.from, '/', (size_t)(w.to - w.from)) ||
		    memchr(w.from, '=', (size_t)(w.to - w.from)) ||
		    (w.to - w.from == 1 && *w.from == '\\'))
			return 1;
	return 0;
}

/* What the line starts as a command; empty: it starts nothing. */
static struct word started(const struct scan_line *l)
{
	int shown;
	struct word w = next_word(behind_prompt(l, &shown)), none = { l->text, l->text };

	while (w.to > w.from && (is_assignment(w) || is_one_of(w, scan_wrappers) || is_flag(w)))
		w = next_word(w.to);
	if (is_one_of(w, scan_interpreters))
		return script_of(w.to);
	return shown || has_arguments(w.to) ? w : none;
}

/* Is `at` the name of a flag in a command or in a list of arguments? */
static int is_flag_name(const struct scan_line *l, const char *at, int is_command)
{
	const char *body = l->text + l->body + strspn(l->text + l->body, " ");

	return at - l->text >= 2 && at[-1] == '-' && at[-2] == '-' &&
	       (is_command || !strncmp(body, "-", 1));
}

void scan_places_of(const struct scan_line *l, struct scan_places *out)
{
	const char *body = l->text + l->body;
	struct word process = process_of(body), program = started(l);

	out->prefix = process.to > process.from ? process.from : body;
	out->message = message_of(process.to > process.from ? process.to : body);
	out->message += strspn(out->message, " \"'`"); /* as someone cites it */
	out->program = program.from;
	out->program_end = program.to;
	out->is_bar = strstr(l->text, "it/s") || strstr(l->text, "s/it");
}

#define SENTENCE 50 /* letters of a name: no one writes so much as a program does */

int scan_is_anchored(const struct scan_line *l, const struct scan_places *places, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = strcasestr(l->text, name); at; at = strcasestr(at + 1, name)) {
		struct word w = word_around(l->text, at + n - 1);

		if (places->is_bar)
			return 1;
		if (is_where_installed(w, at))
			continue;
		if (is_location(l, w) || is_called(l, w) ||
		    (at >= places->program && at < places->program_end) ||
		    is_flag_name(l, at, places->program_end > places->program) ||
		    (at >= places->prefix && at < places->message))
			return 1;
		/* a program's own words begin its message; a sentence of its own is its wherever it stands */
		if (strchr(name, ' ') && (at == places->message || n >= SENTENCE))
			return 1;
	}
	return 0;
}
