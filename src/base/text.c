#include "text.h"

#include "utf8.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

void text_init(struct text *t, struct mem *m, const struct text_style *style)
{
	*t = (struct text){ .mem = m };
	if (style)
		t->style = *style;
	if (!t->style.width)
		t->style.width = 80;
}

void text_release(struct text *t)
{
	mem_free(t->mem, t->at, t->cap, 1);
	t->at = NULL;
	t->n = t->cap = 0;
}

enum plim_status text_status(const struct text *t, struct plim_err *err)
{
	if (t->err.status && err)
		*err = t->err;
	return t->err.status;
}

const char *text_get(const struct text *t)
{
	return t->at ? t->at : "";
}

/* Room for n more bytes and a NUL. */
static bool need(struct text *t, size_t n)
{
	if (!t->err.status && t->cap - t->n <= n)
		mem_grow(t->mem, &t->at, &t->cap, t->n + n + 1, 1, &t->err);
	return !t->err.status;
}

void text_put(struct text *t, const char *s, size_t n)
{
	if (!need(t, n))
		return;
	if (n)
		memcpy(t->at + t->n, s, n);
	t->n += n;
	t->at[t->n] = 0;
}

void text_puts(struct text *t, const char *s)
{
	text_put(t, s, strlen(s));
}

static void vprint(struct text *t, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void vprint(struct text *t, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	if (!need(t, 80))
		return;
	va_copy(again, ap);
	n = vsnprintf(t->at + t->n, t->cap - t->n, fmt, ap);
	if (n >= 0 && (size_t)n >= t->cap - t->n) {
		if (need(t, (size_t)n))
			vsnprintf(t->at + t->n, t->cap - t->n, fmt, again);
		else
			n = 0;
	}
	va_end(again);
	t->n += n > 0 ? (size_t)n : 0;
	t->at[t->n] = 0;
}

void text_printf(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprint(t, fmt, ap);
	va_end(ap);
}

void text_repeat(struct text *t, const char *s, unsigned times)
{
	size_t n = strlen(s);

	while (times--)
		text_put(t, s, n);
}

/* --- numbers --- */

const char *text_size(char *buffer, uint64_t bytes)
{
	static const struct {
		uint64_t size;
		const char *name;
	} units[] = {
		{ 1ull << 40, "TiB" }, { 1ull << 30, "GiB" }, { 1ull << 20, "MiB" }, { 1024, "KiB" }
	};
	size_t k = 0;
	uint64_t whole, hundredths;

	if (bytes == PLIM_UNKNOWN)
		return "-";
	while (k < LENGTH(units) && bytes < units[k].size)
		k++;
	if (k == LENGTH(units)) {
		snprintf(buffer, 32, "%u byte%s", (unsigned)bytes, text_s(bytes));
		return buffer;
	}
	/* In integers, so that the same bytes are the same text everywhere; halves go up. */
	whole = bytes / units[k].size;
	hundredths = (bytes % units[k].size * 100 + units[k].size / 2) / units[k].size;
	whole += hundredths / 100;
	hundredths %= 100;
	if (whole == 1024 && k) {
		whole = 1;
		k--;
	}
	snprintf(buffer, 32, "%llu.%02llu %s", (unsigned long long)whole,
		 (unsigned long long)hundredths, units[k].name);
	return buffer;
}

void text_bytes(struct text *t, uint64_t bytes)
{
	char size[32];

	text_puts(t, text_size(size, bytes));
}

const char *text_number(char *buffer, uint64_t n)
{
	char digits[24], *to = buffer;
	int have = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	if (n == PLIM_UNKNOWN)
		have = snprintf(digits, sizeof(digits), "-");
	for (int i = 0; i < have; i++) {
		if (i && (have - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return buffer;
}

void text_count(struct text *t, uint64_t n)
{
	char number[32];

	text_puts(t, text_number(number, n));
}

/* --- characters --- */

/* Length of a colour sequence at s, 0 when there is none. */
static size_t sequence(const char *s, size_t n)
{
	size_t i = 2;

	if (n < 3 || s[0] != 0x1b || s[1] != '[')
		return 0;
	while (i < n && s[i] != 'm')
		i++;
	return i < n ? i + 1 : 0;
}

unsigned text_width(const char *s, size_t n)
{
	unsigned w = 0;

	for (size_t i = 0; i < n;) {
		size_t len = sequence(s + i, n - i);
		uint32_t c;

		if (!len) {
			len = utf8_decode(s + i, n - i, &c);
			w += len ? utf8_columns(c) : 1;
		}
		i += len ? len : 1;
	}
	return w;
}

/* --- names --- */

/* One character of a name as it is shown: its text in `out`, how many bytes it took, its columns. */
struct glyph {
	char out[12];
	size_t out_n, in_n;
	unsigned columns;
};

static void glyph_get(struct glyph *g, const char *s, size_t n, bool utf8)
{
	uint32_t c;

	g->in_n = utf8_decode(s, n, &c);
	if (g->in_n && utf8_is_safe(c) && (c < 0x80 || utf8)) {
		memcpy(g->out, s, g->in_n);
		g->out_n = g->in_n;
		g->columns = utf8_columns(c);
		return;
	}
	if (g->in_n && c >= 0x80)
		snprintf(g->out, sizeof(g->out), "\\u{%X}", (unsigned)(c & 0x1fffff));
	else
		snprintf(g->out, sizeof(g->out), "\\x%02X", (unsigned)(c & 0xff));
	g->out_n = strlen(g->out);
	g->columns = (unsigned)g->out_n;
	g->in_n = g->in_n ? g->in_n : 1;
}

void text_name(struct text *t, const char *s, size_t n)
{
	struct glyph g;

	for (size_t i = 0; i < n; i += g.in_n) {
		glyph_get(&g, s + i, n - i, t->style.utf8);
		text_put(t, g.out, g.out_n);
	}
}

/* Columns of shown text that text_name would write. */
static size_t name_columns(const char *s, size_t n, bool utf8)
{
	struct glyph g;
	size_t w = 0;

	for (size_t i = 0; i < n; i += g.in_n) {
		glyph_get(&g, s + i, n - i, utf8);
		w += g.columns;
	}
	return w;
}

/* The last `tail` of `all` columns, or somewhat less: from a '/' on, so that a path is cut between folders. */
static unsigned tail_of_folders(const char *s, size_t n, size_t all, unsigned tail, bool utf8)
{
	struct glyph g;
	size_t at = 0;

	for (size_t i = 0; i < n; i += g.in_n, at += g.columns) {
		glyph_get(&g, s + i, n - i, utf8);
		if (s[i] == '/' && at >= all - tail)
			return (all - at) * 2 >= tail ? (unsigned)(all - at) : tail;
	}
	return tail;
}

void text_name_fit(struct text *t, const char *s, size_t n, unsigned columns, enum text_cut cut)
{
	const char *dots = t->style.utf8 ? "\u2026" : "...";
	unsigned dots_w = t->style.utf8 ? 1 : 3, room, head, tail;
	size_t all = name_columns(s, n, t->style.utf8), at = 0;
	bool cut_now = false;
	struct glyph g;

	if (all <= columns) {
		text_name(t, s, n);
		return;
	}
	if (columns <= dots_w) {
		text_repeat(t, ".", columns);
		return;
	}
	room = columns - dots_w;
	head = cut == TEXT_CUT_LEFT ? 0 : cut == TEXT_CUT_RIGHT ? room : (room + 1) / 2;
	tail = room - head;
	if (cut == TEXT_CUT_LEFT)
		tail = tail_of_folders(s, n, all, tail, t->style.utf8);
	for (size_t i = 0; i < n; i += g.in_n) {
		glyph_get(&g, s + i, n - i, t->style.utf8);
		if (!cut_now && at + g.columns > head) {
			text_puts(t, dots);
			cut_now = true;
		}
		/* `at >= all - tail` also keeps a combining mark away from a base that is gone. */
		if (!cut_now || (at >= all - tail && tail && g.columns + at <= all))
			text_put(t, g.out, g.out_n);
		at += g.columns;
	}
}

/* --- colour --- */

void text_hue(struct text *t, enum text_hue hue)
{
	static const char *const sequences[] = {
		[TEXT_BAD] = "\x1b[1;31m",
		[TEXT_GOOD] = "\x1b[32m",
		[TEXT_DIM] = "\x1b[2m",
		[TEXT_HEAD] = "\x1b[1m",
	};

	if (t->style.color)
		text_puts(t, sequences[hue]);
}

void text_plain(struct text *t)
{
	if (t->style.color)
		text_puts(t, "\x1b[0m");
}

/* --- paragraphs --- */

/* Paths and commands stay whole, to be copied; a longer word, a name from a file, may be broken. */
#define WHOLE_WORD 72

/* A word that is longer than a line goes on in the next one. */
static unsigned put_long(struct text *t, unsigned at, unsigned hang, const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		unsigned w = 0;
		uint32_t c;

		len = sequence(s + i, n - i);
		if (!len) {
			len = utf8_decode(s + i, n - i, &c);
			w = len ? utf8_columns(c) : 1;
			len = len ? len : 1;
		}
		if (at > hang && at + w > t->style.width) {
			text_puts(t, "\n");
			text_repeat(t, " ", hang);
			at = hang;
		}
		text_put(t, s + i, len);
		at += w;
	}
	return at;
}

static void wrap_text(struct text *t, unsigned first, unsigned hang, unsigned whole, const char *s,
		      size_t n)
{
	unsigned at = first;
	bool fresh = true; /* nothing of this text on the line yet */

	for (size_t i = 0; i < n;) {
		size_t end = i;
		unsigned w;

		while (end < n && s[end] != ' ' && s[end] != '\n')
			end++;
		w = text_width(s + i, end - i);
		if (end > i) {
			if (!fresh && at + 1 + w > t->style.width) {
				text_puts(t, "\n");
				text_repeat(t, " ", hang);
				at = hang;
			} else if (!fresh) {
				text_puts(t, " ");
				at++;
			}
			if (w > whole) {
				at = put_long(t, at, hang, s + i, end - i);
			} else {
				text_put(t, s + i, end - i);
				at += w;
			}
			fresh = false;
		}
		if (end < n && s[end] == '\n') {
			text_puts(t, "\n");
			text_repeat(t, " ", end + 1 < n ? hang : 0);
			at = hang;
			fresh = true;
		}
		i = end + 1;
	}
	if (!fresh || !n)
		text_puts(t, "\n");
}

void text_wrap(struct text *t, unsigned first, unsigned hang, const char *fmt, ...)
{
	struct text whole;
	va_list ap;

	text_init(&whole, t->mem, &t->style);
	va_start(ap, fmt);
	vprint(&whole, fmt, ap);
	va_end(ap);
	if (whole.err.status && !t->err.status)
		t->err = whole.err;
	wrap_text(t, first, hang, WHOLE_WORD, text_get(&whole), whole.n);
	text_release(&whole);
}

void text_wrap_code(struct text *t, unsigned first, unsigned hang, const char *words)
{
	wrap_text(t, first, hang, UINT_MAX, words, strlen(words));
}

void text_wrap_name(struct text *t, unsigned first, unsigned hang, const char *words)
{
	struct text safe;

	text_init(&safe, t->mem, &t->style);
	text_name(&safe, words, strlen(words));
	text_wrap(t, first, hang, "%s", text_get(&safe));
	text_release(&safe);
}

/* --- tables --- */

void text_table_init(struct text_table *b, struct text *like, const char *align, enum text_cut cut)
{
	*b = (struct text_table){ .align = align, .columns = strlen(align), .cut = cut };
	text_init(&b->cells, like->mem, &like->style);
}

void text_table_release(struct text_table *b)
{
	vec_release(b->cells.mem, &b->ends);
	text_release(&b->cells);
}

struct text *text_cell(struct text_table *b)
{
	return &b->cells;
}

void text_cell_end(struct text_table *b)
{
	if (!b->cells.err.status)
		vec_push(b->cells.mem, &b->ends, b->cells.n, &b->cells.err);
}

void text_cell_printf(struct text_table *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprint(&b->cells, fmt, ap);
	va_end(ap);
	text_cell_end(b);
}

void text_cell_bytes(struct text_table *b, uint64_t bytes)
{
	text_bytes(&b->cells, bytes);
	text_cell_end(b);
}

void text_cell_count(struct text_table *b, uint64_t n)
{
	text_count(&b->cells, n);
	text_cell_end(b);
}

void text_cell_name(struct text_table *b, const char *s, size_t n)
{
	text_name(&b->cells, s, n);
	text_cell_end(b);
}

static const char *cell_at(const struct text_table *b, size_t i, size_t *n)
{
	size_t from = i ? b->ends.at[i - 1] : 0;

	*n = b->ends.at[i] - from;
	return b->cells.at + from;
}

static void write_cell(struct text *t, const struct text_table *b, size_t i, unsigned width)
{
	bool last = i % b->columns + 1 == b->columns, right = b->align[i % b->columns] == 'r';
	size_t n;
	const char *s = cell_at(b, i, &n);
	unsigned w = text_width(s, n), pad = w < width ? width - w : 0;

	if (right)
		text_repeat(t, " ", pad);
	/* What is coloured is short; cutting it would need to close its sequence. */
	if (w > width && !memchr(s, 0x1b, n))
		text_name_fit(t, s, n, width, b->cut);
	else
		text_put(t, s, n);
	if (!right && !last)
		text_repeat(t, " ", pad);
	text_puts(t, last ? "\n" : "  ");
}

void text_table_write(struct text *t, const struct text_table *b, unsigned indent)
{
	unsigned widths[32] = { 0 }, used = indent, most;
	size_t columns = b->columns, n;

	if (b->cells.err.status && !t->err.status)
		t->err = b->cells.err;
	if (t->err.status || !columns || columns > LENGTH(widths) || !b->ends.n)
		return;
	for (size_t i = 0; i < b->ends.n; i++) {
		const char *s = cell_at(b, i, &n);
		unsigned w = text_width(s, n);

		if (w > widths[i % columns])
			widths[i % columns] = w;
	}
	for (size_t c = 0; c + 1 < columns; c++)
		used += widths[c] + 2;
	/* Never less than 8 columns: a terminal that narrow breaks the line anyway. */
	most = t->style.width > used + 8 ? t->style.width - used : 8;
	if (b->align[columns - 1] == 'l' && widths[columns - 1] > most)
		widths[columns - 1] = most;
	for (size_t i = 0; i < b->ends.n; i++) {
		if (i % columns == 0)
			text_repeat(t, " ", indent);
		write_cell(t, b, i, widths[i % columns]);
	}
	if (b->ends.n % columns)
		text_puts(t, "\n");
}

/* --- pictures --- */

/* a * b / c without overflow, c > 0. */
static uint64_t scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((unsigned __int128)a * b / c);
}

void text_bar(struct text *t, uint64_t value, uint64_t most, unsigned columns)
{
	static const char *const parts[] = { "\u258f", "\u258e", "\u258d", "\u258c",
					     "\u258b", "\u258a", "\u2589" };
	uint64_t eighths, full, part;

	value = value == PLIM_UNKNOWN ? 0 : value < most ? value : most;
	eighths = most ? scale(value, 8ull * columns, most) : 0;
	if (value && !eighths)
		eighths = 1; /* something is not nothing */
	full = eighths / 8;
	part = eighths % 8;
	if (!t->style.utf8) {
		full += part >= 4 || (part && !full);
		part = 0;
	}
	text_repeat(t, t->style.utf8 ? "\u2588" : "#", (unsigned)full);
	if (part)
		text_puts(t, parts[part - 1]);
}

static uint64_t smallest(const uint64_t *y, size_t from, size_t to)
{
	uint64_t m = UINT64_MAX;

	for (; from < to; from++)
		if (y[from] < m)
			m = y[from];
	return m;
}

static uint64_t text_largest(const uint64_t *y, size_t from, size_t to)
{
	uint64_t m = 0;

	for (; from < to; from++)
		if (y[from] != PLIM_UNKNOWN && y[from] > m)
			m = y[from];
	return m;
}

/* A column of a chart in eighths of a cell: how high it is, and how far up it is dense. */
struct chart_column {
	uint64_t high, dense;
};

static struct chart_column chart_column(const struct text_chart *c, uint64_t most, unsigned x,
					unsigned w)
{
	size_t from = (size_t)scale(x, c->n, w), to = (size_t)scale(x + 1ull, c->n, w);
	struct chart_column column;
	uint64_t v, low;

	to = to > from ? to : from + 1;
	v = text_largest(c->y, from, to);
	v = v < most ? v : most;
	column.high = scale(v, 8ull * c->rows, most);
	if (v && !column.high)
		column.high = 1;
	low = c->low ? smallest(c->low, from, to) : v;
	column.dense = low < v ? scale(low, 8ull * c->rows, most) : column.high;
	return column;
}

/* A cell that is light is whole: there are no light blocks of parts of a cell. */
static const char *chart_cell(const struct chart_column *c, uint64_t floor, bool utf8)
{
	static const char *const blocks[] = { " ",      "\u2581", "\u2582", "\u2583", "\u2584",
					      "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const ascii[] = { " ", ".", ".", ".", ":", ":", ":", ":", "#" };
	uint64_t h = c->high > floor ? c->high - floor : 0;

	if (h >= 8 && c->dense < floor + 4)
		return utf8 ? "\u2591" : ":";
	h = h < 8 ? h : 8;
	return utf8 ? blocks[h] : ascii[h];
}

static void chart_row(struct text *t, const struct chart_column *columns, unsigned w,
		      uint64_t floor)
{
	for (unsigned x = 0; x < w; x++)
		text_puts(t, chart_cell(&columns[x], floor, t->style.utf8));
	while (t->n && t->at[t->n - 1] == ' ') /* nothing to see at the right edge */
		t->n--;
	if (t->at)
		t->at[t->n] = 0;
	text_puts(t, "\n");
}

static void chart_foot(struct text *t, const struct text_chart *c, unsigned gutter, unsigned w)
{
	const char *left = c->left ? c->left : "", *right = c->right ? c->right : "";
	unsigned lw = text_width(left, strlen(left)), rw = text_width(right, strlen(right));

	text_repeat(t, " ", gutter - 2);
	text_puts(t, t->style.utf8 ? "0\u2514" : "0+");
	text_repeat(t, t->style.utf8 ? "\u2500" : "-", w);
	text_puts(t, "\n");
	if (c->mark < c->n) {
		text_repeat(t, " ", gutter + (unsigned)scale(c->mark, w, c->n));
		text_puts(t, "^\n");
	}
	if (!*left && !*right)
		return;
	text_repeat(t, " ", gutter);
	text_puts(t, left);
	text_repeat(t, " ", lw + rw < w ? w - lw - rw : 1);
	text_puts(t, right);
	text_puts(t, "\n");
}

void text_chart(struct text *t, const struct text_chart *c)
{
	unsigned columns = c->columns ? c->columns : t->style.width, gutter, w;
	struct chart_column shown[512];
	uint64_t most = c->most ? c->most : text_largest(c->y, 0, c->n);
	struct text label;

	if (!c->n || !c->rows)
		return;
	most = most ? most : 1;
	text_init(&label, t->mem, &t->style);
	text_bytes(&label, most);
	gutter = (unsigned)label.n + 1;
	w = columns > gutter + 8 ? columns - gutter : 8;
	w = w < LENGTH(shown) ? w : LENGTH(shown);
	for (unsigned x = 0; x < w; x++)
		shown[x] = chart_column(c, most, x, w);
	for (unsigned r = c->rows; r-- > 0;) {
		text_printf(t, "%*s", (int)gutter - 1, r + 1 == c->rows ? text_get(&label) : "");
		text_puts(t, t->style.utf8 ? (r + 1 == c->rows ? "\u2524" : "\u2502") : "|");
		chart_row(t, shown, w, 8ull * r);
	}
	chart_foot(t, c, gutter, w);
	text_release(&label);
}
