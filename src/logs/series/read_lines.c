/* Logs of lines: CSV, MLflow's metric files, and what they share with plain text. */
#include "parts.h"

#include <ctype.h>
#include <stdlib.h>

#define LINE_MAX_BYTES (1u << 20)

bool series_line(struct source *s, const uint8_t **p, const char **line, size_t *n, bool all,
		 enum plim_status *st, struct plim_err *err)
{
	size_t seen = 0;
	const uint8_t *end;

	for (;;) {
		size_t have = (size_t)(s->end - *p);

		end = have > seen ? memchr(*p + seen, '\n', have - seen) : NULL;
		if (end || have >= LINE_MAX_BYTES)
			break;
		seen = have;
		*st = source_need(s, *p, have + 4096, err);
		*p = s->p;
		if (*st)
			return false;
		if ((size_t)(s->end - *p) == have) {
			if (!all || !have)
				return false;
			end = s->end;
			break;
		}
	}
	end = end ? end : *p + LINE_MAX_BYTES;
	*line = (const char *)*p;
	*n = (size_t)(end - *p);
	*p = end + (end < s->end && *end == '\n');
	while (*n && (*line)[*n - 1] == '\r')
		--*n;
	return true;
}

#define BUFFER_BYTES \
	4096 /* buffers of files are such, or multiples: a killed job leaves whole ones */

bool series_reads_last(const struct series_input *in)
{
	return !in->run->options->grows && in->file->bytes % BUFFER_BYTES;
}

size_t series_number(const char *at, size_t n, double *out)
{
	char copy[64];
	size_t i = n && (at[0] == '-' || at[0] == '+');

	if (n - i >= 3 && (at[i] | 0x20) == 'n' && !strncasecmp(at + i, "nan", 3)) {
		*out = NAN;
		return i + 3;
	}
	if (n - i >= 3 && (at[i] | 0x20) == 'i' && !strncasecmp(at + i, "inf", 3)) {
		*out = at[0] == '-' ? -INFINITY : INFINITY;
		return i + (n - i >= 8 && !strncasecmp(at + i, "infinity", 8) ? 8 : 3);
	}
	if (decimal_read(at, n, &i, out) || !i)
		return i;
	if (i >= sizeof(copy))
		return 0;
	memcpy(copy, at, i);
	copy[i] = 0;
	*out = strtod(copy, NULL); /* the program never sets a locale; the library's users may */
	return i;
}

bool series_is_rounded(const char *at, size_t n)
{
	const char *point = memchr(at, '.', n);
	size_t zeros = n;

	while (zeros && at[zeros - 1] == '0')
		zeros--;
	return point && at + zeros == point + 1 && n - zeros > 1;
}

/* ---- CSV ---- */

struct cell {
	const char *at;
	size_t n;
};

static void trim(struct cell *c)
{
	while (c->n && isspace((unsigned char)c->at[0])) {
		c->at++;
		c->n--;
	}
	while (c->n && isspace((unsigned char)c->at[c->n - 1]))
		c->n--;
}

/* The next cell of a line; quoted ones without their quotes (a doubled quote stays double). */
static bool next_cell(const char **p, const char *end, char delimiter, struct cell *c)
{
	const char *stop;

	if (!*p)
		return false;
	if (*p < end && **p == '"') {
		stop = *p + 1;
		while (stop < end && !(*stop == '"' && (stop + 1 >= end || stop[1] != '"')))
			stop += 1 + (*stop == '"');
		*c = (struct cell){ *p + 1, (size_t)((stop < end ? stop : end) - *p - 1) };
		stop = stop < end ? memchr(stop, delimiter, (size_t)(end - stop)) : NULL;
	} else {
		stop = memchr(*p, delimiter, (size_t)(end - *p));
		*c = (struct cell){ *p, (size_t)((stop ? stop : end) - *p) };
	}
	*p = stop ? stop + 1 : NULL;
	trim(c);
	return true;
}

size_t series_quotes(const char *line, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += line[i] == '"';
	return count;
}

char series_delimiter(const char *line, size_t n)
{
	static const char marks[] = ",\t;";
	char best = ',';
	size_t most = 0;

	for (const char *m = marks; *m; m++) {
		size_t count = 0;

		for (size_t i = 0; i < n; i++)
			count += line[i] == *m;
		if (count > most) {
			most = count;
			best = *m;
		}
	}
	return best;
}

/* "tensor(2.9, device='cuda:0')" of a value that was written as it is, "[0.5]" of an array: the number within. */
static bool cell_printed(const struct cell *c, double *out)
{
	size_t open = 0, took;
	bool call;

	while (open < c->n && (isalnum((unsigned char)c->at[open]) || strchr("._", c->at[open])))
		open++;
	if (open >= c->n || (c->at[open] != '[' && (!open || c->at[open] != '(')))
		return false;
	call = c->at[open++] == '(';
	took = series_number(c->at + open, c->n - open, out);
	return took && open + took < c->n && strchr(call ? ",)" : "]", c->at[open + took]);
}

/* A whole cell as a number; where commas do not part the cells, one may be the decimal point: "2,31". */
static bool cell_number(const struct cell *c, char delimiter, double *out)
{
	const char *comma = delimiter == ',' ? NULL : memchr(c->at, ',', c->n);
	char copy[64];

	if (c->n && strchr(")]", c->at[c->n - 1]))
		return cell_printed(c, out);
	if (!comma || c->n >= sizeof(copy))
		return series_number(c->at, c->n, out) == c->n;
	memcpy(copy, c->at, c->n);
	copy[comma - c->at] = '.';
	return series_number(copy, c->n, out) == c->n;
}

size_t series_cells(const char *line, size_t n, char delimiter, size_t *numbers)
{
	const char *p = line;
	struct cell c;
	double value;
	size_t k = 0;

	for (; next_cell(&p, line + n, delimiter, &c); k++)
		if (numbers && c.n && cell_number(&c, delimiter, &value))
			++*numbers;
	return k;
}

static bool is_missing(const struct cell *c)
{
	static const char *const words[] = { "NA", "N/A", "None", "null", "-", "" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strlen(words[i]) == c->n && !strncasecmp(words[i], c->at, c->n))
			return true;
	return !c->n;
}

struct column {
	struct cell name, cell; /* of the head, and of the line */
	uint32_t series;        /* NONE: not known yet, or no series */
};

struct table {
	const char *header;
	size_t header_n;
	char delimiter;
	bool sided; /* a column may say of which side a row is */
	VEC(struct column) columns;
};

static enum plim_status read_line_header(struct series_run *r, const char *header, struct table *t,
					 struct plim_err *err)
{
	const char *p = header;
	struct column c = { .series = SERIES_NONE };
	enum plim_status st = PLIM_OK;

	*t = (struct table){ .header = header,
			     .header_n = strlen(header),
			     .delimiter = series_delimiter(header, strlen(header)) };
	while (!st && next_cell(&p, header + t->header_n, t->delimiter, &c.name)) {
		t->sided |= series_names_side(c.name.at, c.name.n);
		st = vec_push(r->mem, &t->columns, c, err);
	}
	return st;
}

/* Are there as many cells in the line as in the head?  *open: a cell goes on in the next line, what comes after it is left out. */
static bool split_line(struct table *t, const char *line, size_t n, bool *open)
{
	const char *p = line;
	struct cell more;
	size_t i = 0;

	for (; i < t->columns.n; i++)
		if (!next_cell(&p, line + n, t->delimiter, &t->columns.at[i].cell))
			break;
	*open = i > 1 && i < t->columns.n && series_quotes(line, n) % 2;
	for (size_t k = *open ? i : t->columns.n; k < t->columns.n; k++)
		t->columns.at[k].cell.n = 0;
	return *open || (i == t->columns.n && !next_cell(&p, line + n, t->delimiter, &more));
}

/* The values of a line; its row ends with the line. */
static enum plim_status take_line(struct series_run *r, struct table *t, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	series_row_begin(r);
	for (size_t i = 0; t->sided && i < t->columns.n; i++)
		series_row_says(r, t->columns.at[i].name.at, t->columns.at[i].name.n,
				t->columns.at[i].cell.at, t->columns.at[i].cell.n);
	for (size_t i = 0; !st && i < t->columns.n; i++) {
		struct column *c = &t->columns.at[i];
		struct series_row_value v = { c->series, 0 };
		size_t before = r->row.n;

		if (!c->name.n || !c->cell.n)
			continue;
		if (!cell_number(&c->cell, t->delimiter, &v.value)) {
			/* Text where numbers were, or that says of what the row is. */
			series_row_heading(r, c->cell.at, c->cell.n);
			r->bad_cells += !is_missing(&c->cell) &&
					intern_find(&r->monitor.names, c->name.at, c->name.n) !=
						INTERN_NONE;
			continue;
		}
		st = c->series == SERIES_NONE || t->sided
			     ? series_row_put(r, c->name.at, c->name.n, v.value, err)
			     : vec_push(r->mem, &r->row, v, err);
		if (r->row.n > before) {
			c->series = r->row.at[before].series;
			if (v.value == 0)
				r->monitor.watches.at[c->series].rounded |=
					series_is_rounded(c->cell.at, c->cell.n);
		}
	}
	return st;
}

#define CELL_LINES 4096 /* that a cell may have: more are a quote that nothing ends */

enum plim_status series_read_csv(struct series_input *in, struct plim_err *err)
{
	struct series_run *r = in->run;
	struct source *s = in->source;
	const uint8_t *p = s->p;
	const char *line;
	struct table t;
	size_t n;
	uint64_t from = 0;
	uint32_t id;
	bool open = false, last = series_reads_last(in);
	unsigned lines = 0;
	enum plim_status st = PLIM_OK;

	if (s->end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3) && !in->file->offset)
		p += 3;
	if (!in->file->header) {
		if (!series_line(s, &p, &line, &n, false, &st, err))
			return st;
		st = intern_add(&r->texts, line, n, &id, err);
		if (st)
			return st;
		in->file->header = intern_text(&r->texts, id);
		in->file->offset = source_offset(s, p);
		series_row_heading(r, line, n);
	}
	st = read_line_header(r, in->file->header, &t, err);
	r->splits = true;
	while (!st && !r->over && series_line(s, &p, &line, &n, last, &st, err)) {
		in->file->unended |= last && p == s->end && p[-1] != '\n';
		if (open) {
			open = ++lines < CELL_LINES && series_quotes(line, n) % 2 == 0;
		} else {
			from = in->file->offset;
			lines = 0;
			r->row.n = 0;
			if (n == t.header_n && !memcmp(line, t.header, n)) {
				/* A log that is written on may repeat its head. */
				series_row_heading(r, line, n);
			} else if (n) {
				if (split_line(&t, line, n, &open))
					st = take_line(r, &t, err);
				else
					series_bad_record(r, from);
			}
		}
		if (open)
			continue;
		in->file->offset = source_offset(s, p);
		if (!st)
			st = series_row_end(r, err);
		if (r->over)
			in->file->offset = from;
	}
	r->torn |= !st && !r->over && s->end > p;
	vec_release(r->mem, &t.columns);
	return st;
}

/* ---- MLflow: metrics/NAME holds lines "milliseconds value step" ---- */

static const char *metric_name(const char *path)
{
	const char *at = path, *found = path;

	while ((at = strstr(at, "/metrics/")))
		found = at += 9;
	return found;
}

enum plim_status series_read_mlflow(struct series_input *in, struct plim_err *err)
{
	const char *name = metric_name(in->file->path), *line;
	struct source *s = in->source;
	const uint8_t *p = s->p;
	uint32_t series;
	size_t n;
	enum plim_status st = series_run_series(in->run, name, strlen(name), &series, err);

	while (!st && series_line(s, &p, &line, &n, false, &st, err)) {
		double v[3] = { NAN, NAN, 0 };
		size_t k = 0, at = 0;

		for (; k < 3 && at < n; k++) {
			size_t took = series_number(line + at, n - at, &v[k]);

			if (!took)
				break;
			at += took;
			while (at < n && line[at] == ' ')
				at++;
		}
		if (k < 2 || at < n)
			series_bad_record(in->run, in->file->offset);
		else
			st = series_run_point(in->run, series, v[2], v[0] / 1000, v[1], err);
		in->file->offset = source_offset(s, p);
	}
	return st;
}
