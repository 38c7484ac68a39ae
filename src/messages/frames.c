/*
 * Frames of a traceback that do not stand as Python writes them: escaped inside of a JSON string, as
 * log shippers send them, and in the box that Rich draws (also Typer's and Lightning's).  Both
 * are laid out again as the two lines that Python would have written.
 */
#include "scan.h"

#include <string.h>

#define ESCAPES_MAX 15 /* backslashes in front of a quote: a string in a string in a string */
#define BOX_LINES 12   /* between a frame of a box and its marked line of code, at most */
#define BOX_EDGE "\xe2\x94\x82" /* the vertical line */
#define BOX_MARK "\xe2\x9d\xb1" /* stands in front of the line that was running */

static void add(struct scan_line *l, const char *bytes, size_t n)
{
	size_t room = SCAN_LINE_BYTES - 1 - l->n;

	n = n < room ? n : room;
	memcpy(l->text + l->n, bytes, n);
	l->n += n;
	l->text[l->n] = 0;
}

static void start(struct scan_line *l, uint32_t rank)
{
	l->n = l->body = 0;
	l->text[0] = 0;
	l->rank = rank;
}

/* ---- escaped ---- */

static size_t backslashes(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && p[n] == '\\')
		n++;
	return n;
}

/*
 * One line of an escaped text into *l; where the next begins, NULL: the text ends.  In a string that
 * was escaped once a quote is \" and a line feed \n; twice, they are \\\" and \\n.
 */
static const char *unescape_line(struct scan_line *l, const char *p, const char *end, size_t quote)
{
	while (p < end && !scan_ends_line(*p) && l->n < SCAN_LINE_BYTES - 1) {
		size_t n = backslashes(p, end);
		const char *next = p + n;

		if (next == end)
			return NULL;
		if (*next == '"' && n < quote)
			return NULL; /* the string's own end */
		if (n == (quote + 1) / 2 && (*next == 'n' || *next == 'r'))
			return next + 1;
		if (n && *next == 't')
			add(l, " ", 1);
		else
			add(l, next, 1);
		p = next + 1;
	}
	return NULL;
}

int scan_frame_escaped(struct messages_trace *t, const char *at, const char *end, uint32_t rank)
{
	struct scan_line frame, source;
	const char *p = memchr(at, '\\', (size_t)(end - at));
	size_t quote = p ? backslashes(p, end) : 0;

	if (!p || !quote || quote > ESCAPES_MAX || p + quote >= end || p[quote] != '"')
		return 0;
	start(&frame, rank);
	start(&source, rank);
	p = unescape_line(&frame, at, end, quote);
	if (p)
		unescape_line(&source, p, end, quote);
	scan_trace_frame(t, &frame, p ? &source : NULL);
	return 1;
}

/* ---- in a box ---- */

static const char *behind_blanks(const char *p, const char *end)
{
	while (p < end && *p == ' ')
		p++;
	return p;
}

static const char *before_blanks(const char *p, const char *end)
{
	while (end > p && end[-1] == ' ')
		end--;
	return end;
}

/* What stands between the edges of a box; 0: the line is of none. */
static int inside(const struct scan_line *l, const char **from, const char **to)
{
	const size_t n = sizeof(BOX_EDGE) - 1;
	const char *end = l->text + l->n, *p = memmem(l->text, l->n, BOX_EDGE, n);

	if (!p)
		return 0;
	end = before_blanks(p, end);
	if ((size_t)(end - p) >= 2 * n && !memcmp(end - n, BOX_EDGE, n))
		end -= n;
	*from = behind_blanks(p + n, end);
	*to = before_blanks(*from, end);
	return 1;
}

static const char *last_of(const char *p, const char *end, const char *what)
{
	const size_t n = strlen(what);
	const char *found = NULL;

	while ((p = memmem(p, (size_t)(end - p), what, n))) {
		found = p;
		p += n;
	}
	return found;
}

/* "/home/u/train.py:180 in main" into the line that Python writes; 0: it is no such line. */
static int box_frame(const char *p, const char *end, const char *more, const char *more_end,
		     struct scan_line *frame)
{
	const char *in = last_of(p, end, " in"), *number;

	if (!in || (in + 3 < end && in[3] != ' '))
		return 0;
	for (number = in; number > p && number[-1] >= '0' && number[-1] <= '9'; number--)
		;
	if (number == in || number - p < 2 || number[-1] != ':')
		return 0;
	add(frame, "File \"", 6);
	add(frame, p, (size_t)(number - 1 - p));
	add(frame, "\", line ", 8);
	add(frame, number, (size_t)(in - number));
	add(frame, ", in ", 5);
	if (in + 4 < end)
		add(frame, in + 4, (size_t)(end - in - 4));
	else /* a narrow box: the function's name is on the next line */
		add(frame, more, (size_t)(more_end - more));
	return 1;
}

/* " > 180 |   |   loss.backward()": the code, behind the number and the marks of its indentation. */
static void box_source(const char *p, const char *end, struct scan_line *source)
{
	const size_t n = sizeof(BOX_EDGE) - 1;

	p = memmem(p, (size_t)(end - p), BOX_MARK, sizeof(BOX_MARK) - 1);
	if (!p)
		return;
	p = behind_blanks(p + sizeof(BOX_MARK) - 1, end);
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	p = behind_blanks(p, end);
	while ((size_t)(end - p) >= n && !memcmp(p, BOX_EDGE, n))
		p = behind_blanks(p + n, end);
	add(source, "    ", 4);
	add(source, p, (size_t)(end - p));
}

int scan_frame_boxed(struct messages_trace *t, const char *from, const char *at, const char *stop,
		     uint32_t rank)
{
	struct scan_line line, frame, source;
	const char *p, *end, *more, *more_end;

	scan_line_clean(&line, at, stop, at);
	if (!inside(&line, &p, &end))
		return 0;
	start(&frame, rank);
	start(&source, rank);
	box_source(p, end, &source);
	more = more_end = "";
	for (int i = 0; i < BOX_LINES && at > from; i++) {
		struct scan_line above;

		at--; /* the line feed */
		stop = at;
		at = scan_line_start(from, at);
		scan_line_clean(&above, at, stop, at);
		if (above.rank != line.rank)
			continue;
		if (!inside(&above, &p, &end))
			return 0;
		if (box_frame(p, end, more, more_end, &frame)) {
			scan_trace_frame(t, &frame, &source);
			return 1;
		}
		more = line.text; /* the marked line is done with */
		more_end = more + (end - p);
		memcpy(line.text, p, (size_t)(end - p));
	}
	return 0;
}
