/*
 * Text for a terminal, written into a growing buffer: numbers in one style, names that cannot
 * harm a terminal, wrapping, tables, bars and charts.  Nothing here knows stdout or the locale.
 *
 * Functions return nothing: the first failure (memory) sticks, later calls do nothing, and
 * text_status shows at the end.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "mem.h"

#include <stdarg.h>
#include <stdbool.h>

struct text_style {
	unsigned width; /* columns, 0: 80 */
	bool color;     /* escape sequences may be written */
	bool utf8;      /* else everything written by these functions, save text_put, is ASCII */
};

struct text {
	struct mem *mem;
	struct text_style style;
	char *at; /* NUL-terminated once anything was written */
	size_t n, cap;
	struct plim_err err; /* the first failure; err.status 0: none */
};

/* style NULL: 80 columns, no colour, ASCII. */
void text_init(struct text *t, struct mem *m, const struct text_style *style);
void text_release(struct text *t);

/* The first failure since text_init, copied to *err. */
enum plim_status text_status(const struct text *t, struct plim_err *err);

/* What was written, "" when nothing was. */
const char *text_get(const struct text *t);

/* As they are, trusted. */
void text_put(struct text *t, const char *s, size_t n);
void text_puts(struct text *t, const char *s);
void text_printf(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_repeat(struct text *t, const char *s, unsigned times);

/* "3.02 GiB", "584.68 MiB", "1.50 KiB", "512 bytes", "1 byte"; PLIM_UNKNOWN: "-". */
void text_bytes(struct text *t, uint64_t bytes);

/* The same into a buffer of 32. */
const char *text_size(char *buffer, uint64_t bytes);

/* "2,000,000"; PLIM_UNKNOWN: "-". */
void text_count(struct text *t, uint64_t n);

/* The same into a buffer of 32. */
const char *text_number(char *buffer, uint64_t n);

/* What a noun of `n` things ends in: "" or "s". */
static inline const char *text_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* What they do: "is" or "are". */
static inline const char *text_are(uint64_t n)
{
	return n == 1 ? "is" : "are";
}

/* Columns that trusted text takes; colour sequences take none. */
unsigned text_width(const char *s, size_t n);

/*
 * A name from a file: control, bidi and other invisible characters are shown as \u{202E}, bytes
 * that are not UTF-8 as \xNN, a backslash as it is; without utf8 everything beyond ASCII.
 */
void text_name(struct text *t, const char *s, size_t n);

/* Where text that is too long loses its middle part, its start or its end. */
enum text_cut { TEXT_CUT_MIDDLE, TEXT_CUT_LEFT, TEXT_CUT_RIGHT };

/* The same in at most `columns` columns, cut with an ellipsis. */
void text_name_fit(struct text *t, const char *s, size_t n, unsigned columns, enum text_cut cut);

/* Meaning, not colours; nothing is written when colour is off.  Each ends with text_plain. */
enum text_hue { TEXT_BAD, TEXT_GOOD, TEXT_DIM, TEXT_HEAD };

void text_hue(struct text *t, enum text_hue hue);
void text_plain(struct text *t);

/*
 * Words of trusted text wrapped to the width.  The cursor stands in column `first` now; further
 * lines start with `hang` spaces.  Ends with a line feed.
 */
void text_wrap(struct text *t, unsigned first, unsigned hang, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for what is to be copied: no word is broken, however long. */
void text_wrap_code(struct text *t, unsigned first, unsigned hang, const char *words);

/* The same for words in which names from a file may be, which are shown as text_name shows them. */
void text_wrap_name(struct text *t, unsigned first, unsigned hang, const char *words);

/*
 * A table: `align` has a letter a column, 'l' or 'r'; cells are filled row by row.  Columns are
 * as wide as needed, two spaces apart; the last one, if left-aligned, is cut to the width.
 */
struct text_table {
	const char *align; /* borrowed */
	size_t columns;
	enum text_cut cut; /* of the last column */
	struct text cells; /* one behind the other */
	VEC(size_t) ends;
};

void text_table_init(struct text_table *b, struct text *like, const char *align, enum text_cut cut);
void text_table_release(struct text_table *b);

/* The next cell: write into what it returns, then call text_cell_end. */
struct text *text_cell(struct text_table *b);
void text_cell_end(struct text_table *b);
void text_cell_printf(struct text_table *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void text_cell_bytes(struct text_table *b, uint64_t bytes);
void text_cell_count(struct text_table *b, uint64_t n);
void text_cell_name(struct text_table *b, const char *s, size_t n);

/* Write the table, each row behind `indent` spaces.  A last row with cells missing is padded. */
void text_table_write(struct text *t, const struct text_table *b, unsigned indent);

/* A bar of `value` of `most`, which would have `columns` columns.  It stands last in its line: nothing is filled up. */
void text_bar(struct text *t, uint64_t value, uint64_t most, unsigned columns);

/*
 * An area chart: `n` values, each column shows the largest of those that fall into it.  With `low` it is dense up to
 * the smallest, and light from there on.
 */
struct text_chart {
	const uint64_t *y;
	const uint64_t *low; /* `n` values as well; NULL: dense up to the largest */
	size_t n;
	uint64_t most;            /* value of the upper edge; 0: the largest of y */
	unsigned columns;         /* of the whole, labels included; 0: the width */
	unsigned rows;            /* of the area */
	size_t mark;              /* index into y that gets a '^' below; SIZE_MAX: none */
	const char *left, *right; /* below the axis; may be NULL; trusted */
};

void text_chart(struct text *t, const struct text_chart *chart);

#endif
