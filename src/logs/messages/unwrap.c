/*
 * A text as the program wrote it, before anything is searched.  docker compose names the container in front of each line, a
 * mail has "> "; a terminal or a mail breaks long lines, which are joined again.  The breaks that are taken out stand as
 * SCAN_JOINT behind the joined line, so that lines are counted as in the text.
 */
#include "scan.h"

#include <ctype.h>
#include <string.h>

#define WIDTH_LEAST 72 /* narrower terminals are not known from ordinary short lines */
#define WIDTH_MOST 240 /* a text with a longer line was not broken */

struct piece {
	const char *from, *to; /* a line without its end */
	size_t width;          /* in characters */
};

static size_t characters(const char *p, const char *end)
{
	size_t n = 0;

	for (; p < end; p++)
		n += ((unsigned char)*p & 0xc0) != 0x80;
	return n;
}

/* How much of the line a container's name takes ("trainer-1  | "), or the mark of a quote; 0: it has none. */
static size_t mark_of(const char *p, const char *end)
{
	if (end - p >= 1 && *p == '>')
		return end - p >= 2 && p[1] == ' ' ? 2 : 1;
	return scan_container(p, end);
}

/* Does every line that is not empty have such a mark? */
static int is_marked(const char *p, const char *end)
{
	size_t lines = 0;

	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));

		stop = stop ? stop : end;
		if (stop > p && !(stop - p == 1 && *p == '\r')) {
			lines++;
			if (!mark_of(p, stop))
				return 0;
		}
		p = stop + 1;
	}
	return lines > 0;
}

/* The line at `p`, and in *next where the following one begins; NULL: there is none. */
static struct piece piece_at(const char *p, const char *end, int marked, const char **next)
{
	const char *stop = memchr(p, '\n', (size_t)(end - p));
	struct piece l = { p, stop ? stop : end, 0 };

	*next = stop ? stop + 1 : NULL;
	l.from += marked ? mark_of(l.from, l.to) : 0;
	if (l.to > l.from && l.to[-1] == '\r')
		l.to--;
	l.width = characters(l.from, l.to);
	return l;
}

/* Signs that boxes are drawn with are three bytes, U+2500 to U+259F. */
static int is_drawn(const char *p, const char *end)
{
	return end - p >= 3 && (unsigned char)p[0] == 0xe2 &&
	       ((unsigned char)p[1] == 0x94 || (unsigned char)p[1] == 0x95 ||
		(unsigned char)p[1] == 0x96);
}

/* A row of a table: its cells are far apart. */
static int is_row(struct piece l)
{
	const char *p = l.from;

	while (p < l.to && *p == ' ')
		p++;
	return memmem(p, (size_t)(l.to - p), "    ", 4) != NULL;
}

/* An edge of a box: such lines are all as wide. */
static int is_edge(struct piece l)
{
	return l.width && ((strchr("|+=-*#_", *l.from) && strchr("|+=-*#_", l.to[-1])) ||
			   is_drawn(l.from, l.to));
}

static int wrapped_begins(struct piece l, const char *with)
{
	size_t n = strlen(with);

	return (size_t)(l.to - l.from) >= n && !memcmp(l.from, with, n);
}

static size_t first_word(struct piece l)
{
	size_t n = 0;

	while (l.from + n < l.to && l.from[n] != ' ')
		n++;
	return n;
}

/* "RuntimeError:", "llama_context:", and not "memory:" of a sentence. */
static int is_label(const char *p, size_t n)
{
	return n > 1 && p[n - 1] == ':' && isalpha((unsigned char)*p) &&
	       (isupper((unsigned char)*p) || memchr(p, '_', n) || memchr(p, '.', n));
}

static int is_alike(struct piece a, struct piece b)
{
	size_t n = first_word(a);

	return first_word(b) == n && !memcmp(a.from, b.from, n);
}

/* A frame, "10:00:00", "[rank0]:", "RuntimeError:", "- x", "Killed" alone, or a record as the line in front of it is. */
static int is_start(struct piece l, struct piece before)
{
	size_t n = first_word(l);

	if (!n || is_drawn(l.from, l.to) || strchr("[|+=*#>$-{!", *l.from) ||
	    wrapped_begins(l, "File \"") || wrapped_begins(l, "Traceback ("))
		return 1;
	if (isdigit((unsigned char)*l.from) && (memchr(l.from, '-', n) || memchr(l.from, ':', n) ||
						memchr(l.from, '/', n) || memchr(l.from, '%', n)))
		return 1;
	if (l.from + n == l.to && n > 1 && isupper((unsigned char)*l.from) &&
	    islower((unsigned char)l.from[1]))
		return 1;
	return is_label(l.from, n) || is_alike(before, l);
}

/* What the text shows of its width, and of marks in front of its lines. */
struct shape {
	size_t widest;
	size_t full; /* lines as wide as that, with another one behind */
	int marked;
	int by_words; /* lines are broken between words, not at the last column */
};

static struct shape shape_of(const char *p, const char *end)
{
	struct shape s = { .marked = is_marked(p, end) };

	for (const char *next = p; next && next < end;) {
		struct piece l = piece_at(next, end, s.marked, &next);

		if (l.width > s.widest)
			s = (struct shape){ l.width, 0, s.marked };
		s.full += l.width == s.widest && next && next < end && !is_edge(l);
	}
	return s;
}

static int is_terminals(size_t width)
{
	return width == 80 || width == 100 || width == 120 || width == 132 || width == 160;
}

/* Was it broken between two words, because the next one did not fit? */
static int is_filled(struct piece l, struct piece next, const struct shape *s)
{
	return l.width + 1 + characters(next.from, next.from + first_word(next)) > s->widest &&
	       next.width && *next.from != ' ' && *next.from != '\t' && !is_edge(l) && !is_row(l) &&
	       !is_row(next) && !is_start(next, l);
}

/* Are there more lines that end where a word did not fit than lines that end at the last column? */
static int is_by_words(const char *p, const char *end, const struct shape *s)
{
	size_t filled = 0;
	struct piece last = { p, p, 0 };

	for (const char *next = p; next && next < end;) {
		struct piece l = piece_at(next, end, s->marked, &next);

		filled += last.width && last.width < s->widest && is_filled(last, l, s);
		last = l;
	}
	return filled >= s->full || (s->full == 1 && !is_terminals(s->widest));
}

/* Was the line broken at the last column, in the middle of a word or not?  `head` is what the whole line begins with. */
static int is_cut(struct piece l, struct piece next, struct piece head, const struct shape *s)
{
	return l.width == s->widest && (s->full > 1 || is_terminals(s->widest)) && next.width &&
	       !is_edge(l) && (is_terminals(s->widest) || (!is_row(l) && !is_row(next))) &&
	       !is_edge(next) && !wrapped_begins(next, "  File \"") &&
	       !wrapped_begins(next, "Traceback (") && !(first_word(head) && is_alike(next, head));
}

/* Does the next line go on with this one? */
static int is_broken(struct piece l, struct piece next, struct piece head, const struct shape *s)
{
	return s->by_words ? is_filled(l, next, s) : is_cut(l, next, head, s);
}

/* Lines of one width, and the rest behind them, in a text that has longer lines: a message that a terminal broke. */
static int is_alike_wide(struct piece l, struct piece next, struct piece head)
{
	return l.width >= WIDTH_LEAST && next.width && next.width <= l.width &&
	       (next.width == l.width || head.width == l.width) && !is_edge(l) && !is_row(l) &&
	       !is_row(next) && !is_start(next, l);
}

#define AROUND 64 /* bytes on either side of a break, in which a wording may go on */

/* Does a wording begin in the line and go on in the next one? */
static int is_inside_wording(const struct scan_anchors *a, struct piece l, struct piece next)
{
	char text[2 * AROUND + 2];
	size_t left = (size_t)(l.to - l.from), right = (size_t)(next.to - next.from);
	const char *at = text, *end;
	int16_t entry;

	left = left < AROUND ? left : AROUND;
	right = right < AROUND ? right : AROUND;
	if (!left || !right || is_start(next, l))
		return 0;
	memcpy(text, l.to - left, left);
	text[left] = ' ';
	memcpy(text + left + 1, next.from, right);
	for (end = text + left + 1 + right; at < text + left; at++) {
		at = scan_anchors_find(a, at, end, &entry);
		if (at >= text + left)
			return 0;
		for (; entry >= 0; entry = scan_anchors_next(a, entry, at, end))
			if (a->entries[entry].id < SCAN_FRAME &&
			    at + a->entries[entry].n > text + left + 1)
				return 1;
	}
	return 0;
}

size_t scan_unwrap(const struct scan_anchors *a, const char *p, size_t n, char *to)
{
	const char *end = p + n, *next = p;
	struct shape s = shape_of(p, end);
	int may_be_broken = s.widest >= WIDTH_LEAST && s.widest <= WIDTH_MOST;
	size_t written = 0, joints = 0, joined = 0;
	struct piece head = { p, p, 0 };

	s.by_words = is_by_words(p, end, &s);
	while (next && next < end) {
		const char *behind;
		int by_width, alike;
		struct piece l = piece_at(next, end, s.marked, &next), below = { next, next, 0 };

		if (next && next < end)
			below = piece_at(next, end, s.marked, &behind);
		head = joints ? head : l;
		for (const char *c = l.from; c < l.to; c++)
			to[written++] = *c == SCAN_JOINT ? ' ' : *c;
		by_width = may_be_broken && is_broken(l, below, head, &s);
		alike = !by_width && is_alike_wide(l, below, joints ? head : below);
		if (by_width || alike || is_inside_wording(a, l, below)) {
			if (!alike && (s.by_words || !by_width))
				to[written++] = ' ';
			joints++;
			joined++;
			continue;
		}
		for (; joints; joints--)
			to[written++] = SCAN_JOINT;
		if (next)
			to[written++] = '\n';
	}
	return joined || s.marked ? written : 0;
}
