/*
 * Frames of a traceback that do not stand as Python writes them: escaped inside of a JSON string, as
 * log shippers send them; in the box that Rich draws (also Typer's and Lightning's); and as IPython
 * shows them in notebooks.  All are laid out again as the two lines that Python would have
 * written.
 */
#include "scan.h"

#include <stdio.h>
#include <string.h>

#define ESCAPES_MAX 15 /* backslashes in front of a quote: a string in a string in a string */
#define BOX_LINES 12   /* between a frame of a box and its marked line of code, at most */
#define ARROW_LINES 10 /* between a frame of a notebook and its marked line, at most */
#define BOX_EDGE "\xe2\x94\x82" /* the vertical line */
#define BOX_MARK "\xe2\x9d\xb1" /* stands in front of the line that was running */

struct span {
	const char *at, *end;
};

static void add_line_frame(struct scan_line *l, const char *bytes, size_t n)
{
	size_t room = SCAN_LINE_BYTES - 1 - l->n;

	n = n < room ? n : room;
	memcpy(l->text + l->n, bytes, n);
	l->n += n;
	l->text[l->n] = 0;
}

static void start_frame(struct scan_line *l, uint32_t rank)
{
	l->n = l->body = 0;
	l->text[0] = 0;
	l->rank = rank;
}

struct place {
	struct span file, number, function; /* a part that is not there is empty */
};

static int length(struct span s)
{
	return (int)(s.end - s.at);
}

/* The line that Python writes. */
static void put_frame(struct scan_line *l, const struct place *at)
{
	int n = snprintf(l->text, sizeof(l->text), "File \"%.*s\", line %.*s, in %.*s",
			 length(at->file), at->file.at, length(at->number), at->number.at,
			 length(at->function), at->function.at);

	l->n = n < SCAN_LINE_BYTES ? (size_t)n : SCAN_LINE_BYTES - 1;
}

/* The digits that end at `end`. */
static struct span digits_before(const char *p, const char *end)
{
	return (struct span){ scan_digits_before(p, end), end };
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
			add_line_frame(l, " ", 1);
		else
			add_line_frame(l, next, 1);
		p = next + 1;
	}
	return NULL;
}

int scan_frame_escaped(struct messages_trace *t, const char *at, const char *end, uint32_t rank)
{
	struct scan_line frame, source;
	const char *p = memchr(at, '\\', (size_t)(end - at));
	size_t quote = p ? backslashes(p, end) : 0;

	/* cheap, so that a line made of nothing else takes no longer */
	end = end - at > SCAN_LINE_BYTES ? at + SCAN_LINE_BYTES : end;
	if (!p || !quote || quote > ESCAPES_MAX || p + quote >= end || p[quote] != '"' ||
	    !memmem(p, (size_t)(end - p), "\", line ", 8))
		return 0;
	start_frame(&frame, rank);
	start_frame(&source, rank);
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
/* `more`: the next line, where a narrow box puts the function's name. */
static int box_frame(const char *p, const char *end, struct span more, struct scan_line *frame)
{
	const char *in = last_of(p, end, " in");
	struct place at;

	if (!in || (in + 3 < end && in[3] != ' '))
		return 0;
	at.number = digits_before(p, in);
	if (at.number.at == in || at.number.at - p < 2 || at.number.at[-1] != ':')
		return 0;
	at.file = (struct span){ p, at.number.at - 1 };
	at.function = in + 4 < end ? (struct span){ in + 4, end } : more;
	put_frame(frame, &at);
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
	add_line_frame(source, "    ", 4);
	add_line_frame(source, p, (size_t)(end - p));
}

int scan_frame_boxed(struct messages_trace *t, const char *from, const char *at, const char *stop,
		     uint32_t rank)
{
	struct scan_line line, frame, source;
	struct span more = { line.text, line.text };
	const char *p, *end;

	scan_line_clean(&line, at, stop, at);
	if (!inside(&line, &p, &end))
		return 0;
	start_frame(&frame, rank);
	start_frame(&source, rank);
	box_source(p, end, &source);
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
		if (box_frame(p, end, more, &frame)) {
			scan_trace_frame(t, &frame, &source);
			return 1;
		}
		memcpy(line.text, p, (size_t)(end - p)); /* the marked line is done with */
		more = (struct span){ line.text, line.text + (end - p) };
	}
	return 0;
}

/* ---- in a notebook ---- */

static struct span digits_at(const char *p, const char *end)
{
	uint64_t number;

	return (struct span){ p, scan_digits(p, end, &number) };
}

/* "in Tensor.backward(self, gradient)": the name in front of its arguments. */
static struct span function_at(const char *p, const char *end)
{
	struct span s = { p, p };

	while (s.end < end && *s.end != '(')
		s.end++;
	return s;
}

/* "File /a/b.py:525, in f(x)": IPython 8. */
static int file_place(const char *p, const char *in, const char *end, struct place *at)
{
	if (strncmp(p, "File ", 5))
		return 0;
	at->number = digits_before(p, in && in[-1] == ',' ? in - 1 : end);
	if (at->number.at == at->number.end || at->number.at[-1] != ':')
		return 0;
	at->file = (struct span){ p + 5, at->number.at - 1 };
	return 1;
}

/* "Cell In[5], line 3, in f(x)": the same of what was typed. */
static int cell_place(const char *p, const char *end, struct place *at)
{
	const char *line = memmem(p, (size_t)(end - p), "], line ", 8);

	if (!line || strncmp(p, "Cell In[", 8))
		return 0;
	at->file = (struct span){ p, line + 1 };
	at->number = digits_at(line + 8, end);
	return at->number.end > at->number.at;
}

/*
 * "/a/b.py in f(x)", "<ipython-input-5-0a1b> in <module>": IPython 7, the number is at the arrow.  Colab makes a link of
 * the file: "[/a/b.py](https://localhost:8080/#) in f(x)".
 */
static int old_place(const char *p, const char *in, const char *end, struct place *at)
{
	const char *link = in && *p == '[' ? memmem(p, (size_t)(in - p), "](", 2) : NULL;
	const char *stop = link ? link : in;

	p += link != NULL;
	if (!in || (*p != '/' && strncmp(p, "<ipython-input-", 15)) ||
	    memchr(p, ' ', (size_t)(in - p)))
		return 0;
	at->file = (struct span){ p, stop };
	at->number = (struct span){ end, end };
	return 1;
}

/* "--> 525     torch.autograd.backward(": the number, and the code into *source. */
static int arrow(const struct scan_line *l, struct span *number, struct scan_line *source)
{
	const char *p = l->text + l->body, *end = l->text + l->n;
	size_t dashes;

	p = behind_blanks(p, end);
	dashes = strspn(p, "-");
	if (!dashes || p[dashes] != '>')
		return 0;
	*number = digits_at(behind_blanks(p + dashes + 1, end), end);
	if (number->at == number->end)
		return 0;
	p = behind_blanks(number->end, end);
	add_line_frame(source, "    ", 4);
	add_line_frame(source, p, (size_t)(end - p));
	return 1;
}

int scan_frame_notebook(struct messages_trace *t, const struct scan_line *line, const char *p,
			const char *end)
{
	const char *text = line->text + line->body, *stop = line->text + line->n;
	const char *in = memmem(text, (size_t)(stop - text), " in ", 4);
	struct scan_line frame, source, below;
	struct span marked;
	struct place at;

	at.function = in ? function_at(in + 4, stop) : (struct span){ stop, stop };
	if (!file_place(text, in, stop, &at) && !cell_place(text, stop, &at) &&
	    !old_place(text, in, stop, &at))
		return 0;
	start_frame(&frame, line->rank);
	start_frame(&source, line->rank);
	for (int i = 0; i < ARROW_LINES && p < end && !source.n; i++) {
		const char *from = p + 1;

		from += *p == '\r' && from < end && *from == '\n';
		p = scan_line_end(from, end);
		scan_line_clean(&below, from, p, from);
		if (arrow(&below, &marked, &source) && at.number.at == at.number.end)
			at.number = marked;
	}
	if (at.number.at == at.number.end)
		return 0;
	put_frame(&frame, &at);
	scan_trace_frame(t, &frame, &source);
	return 1;
}
