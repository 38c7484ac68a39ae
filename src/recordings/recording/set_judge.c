/* Over all rows: their order, who died first, which is worst, and what makes it differ. */
#include "set.h"

#include <stdlib.h>
#include <string.h>

/* Clocks of machines that ask a time server differ by milliseconds; by so much they do not. */
#define CLOCKS_DIFFER_US 100000

/* What one has more than the median is explained from this part of the median's peak on. */
#define EXCESS_PART 100

/* ---- rows in order ---- */

static int by_rank(const void *a, const void *b)
{
	const struct set_item *x = *(const struct set_item *const *)a,
			      *y = *(const struct set_item *const *)b;
	int c = (x->row.rank > y->row.rank) - (x->row.rank < y->row.rank); /* unknown is last */

	if (!c)
		c = set_compare_names(set_name(x), set_name(y));
	if (!c)
		c = strcmp(x->path, y->path);
	return c ? c : (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_path(const void *a, const void *b)
{
	const struct plim_ranks_skipped *x = a, *y = b;
	int c = x->path && y->path ? set_compare_names(x->path, y->path) : 0;

	return c ? c : strcmp(x->reason, y->reason);
}

/* What the recording knows itself; else the number in its name.  A digest's row may know that of a name that is redacted. */
static void number_row(struct set_item *item)
{
	struct plim_ranks_row *row = &item->row;
	uint64_t number;

	if (row->rank != PLIM_UNKNOWN && row->rank_from &&
	    !strcmp(row->rank_from, RECORDING_RANK_TOLD))
		return;
	if (set_number(set_name(item), &number)) {
		row->rank = number;
		row->rank_from = RECORDING_RANK_NAMED;
	} else if (item->origin != SET_DIGEST || row->rank == PLIM_UNKNOWN) {
		row->rank = PLIM_UNKNOWN;
		row->rank_from = NULL;
	}
}

/* If nothing shows a rank the names' order does. */
static int number_rows(struct recording_set *s)
{
	int numbered = 0;

	for (size_t i = 0; i < s->items.n; i++) {
		number_row(s->items.at[i]);
		numbered |= !s->items.at[i]->other && s->items.at[i]->row.rank != PLIM_UNKNOWN;
	}
	sort_items(s->items.at, s->items.n, sizeof(*s->items.at), by_rank);
	for (size_t i = 0, n = 0; !numbered && i < s->items.n; i++) {
		if (s->items.at[i]->other)
			continue;
		s->items.at[i]->row.rank = n++;
		s->items.at[i]->row.rank_from = RECORDING_RANK_ORDER;
	}
	return numbered;
}

static enum plim_status take_rows(struct recording_set *s, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	s->out->rows = arena_take(s->arena, s->items.n, sizeof(*s->out->rows), err);
	if (!s->out->rows)
		return mem_status(err);
	for (size_t i = 0; !st && i < s->items.n; i++) {
		struct set_item *item = s->items.at[i];

		if (!item->other) {
			s->out->rows[s->out->row_count++] = item->row;
			s->out->failed += item->row.error != NULL;
			s->out->died += item->row.died != NULL;
		} else if (item->row.error) {
			st = set_skip(s, set_name(item), item->row.error, err);
		}
	}
	s->out->read = s->out->row_count - s->out->failed;
	sort_items(s->out->skipped, s->out->skipped_count, sizeof(*s->out->skipped), by_path);
	return st;
}

/* ---- who died first ---- */

static int died_before(const struct plim_ranks_row *a, const struct plim_ranks_row *b)
{
	return a->died->time_us < b->died->time_us;
}

/* Why the clocks do not say the order; NULL: they do. */
static const char *order_unknown(const struct recording_set *s, const struct plim_ranks_row *first)
{
	for (size_t i = 0; i < s->out->row_count; i++) {
		const struct plim_ranks_row *row = &s->out->rows[i];

		if (row->died && row->died->time_us == PLIM_UNKNOWN)
			return "not every recording has times (PyTorch 2.2 and later write them)";
	}
	for (size_t i = 0; i < s->out->row_count; i++) {
		const struct plim_ranks_row *row = &s->out->rows[i];

		if (row->died && row->first_time_us > first->died->time_us)
			return "the recordings do not overlap in time: they are of different runs, "
			       "their machines' clocks differ, or their rings were too short";
	}
	return NULL;
}

static enum plim_status find_first(struct recording_set *s, struct plim_err *err)
{
	const struct plim_ranks_row *first = NULL;
	struct plim_ranks_first *f;

	for (size_t i = 0; i < s->out->row_count; i++)
		if (s->out->rows[i].died && (!first || died_before(&s->out->rows[i], first)))
			first = &s->out->rows[i];
	if (first && s->out->died > 1)
		s->out->order_unknown = order_unknown(s, first);
	if (!first || s->out->order_unknown)
		return PLIM_OK;
	f = arena_take(s->arena, 1, sizeof(*f), err);
	if (!f)
		return mem_status(err);
	*f = (struct plim_ranks_first){ .row = (uint64_t)(first - s->out->rows),
					.rank = first->rank,
					.time_us = first->died->time_us,
					.next_row = PLIM_UNKNOWN,
					.next_rank = PLIM_UNKNOWN,
					.ahead_us = PLIM_UNKNOWN };
	for (size_t i = 0; i < s->out->row_count; i++) {
		const struct plim_ranks_row *row = &s->out->rows[i];

		if (!row->died || row == first || row->died->time_us - f->time_us >= f->ahead_us)
			continue;
		f->next_row = i;
		f->next_rank = row->rank;
		f->ahead_us = row->died->time_us - f->time_us;
	}
	if (s->out->failed)
		f->doubt = "a recording that could not be read may have died before";
	else if (f->ahead_us < CLOCKS_DIFFER_US)
		f->doubt = "it is so near that it only counts if both ran on one machine: clocks "
			   "of different ones are not that equal";
	f->certain = !f->doubt;
	s->out->first_death = f;
	return PLIM_OK;
}

static uint64_t held(const struct plim_ranks_row *row)
{
	return row->allocated_peak_bytes == PLIM_UNKNOWN ? 0 : row->allocated_peak_bytes;
}

/* Worse: it died, with more; else it held more. */
static int is_worse(const struct plim_ranks_row *a, const struct plim_ranks_row *b)
{
	if (!a->died != !b->died)
		return a->died != NULL;
	if (a->died && a->died->live_bytes != b->died->live_bytes)
		return a->died->live_bytes > b->died->live_bytes;
	return held(a) > held(b);
}

static void find_worst(struct recording_set *s)
{
	uint64_t worst = PLIM_UNKNOWN;

	for (size_t i = 0; i < s->out->row_count; i++)
		if (!s->out->rows[i].error &&
		    (worst == PLIM_UNKNOWN || is_worse(&s->out->rows[i], &s->out->rows[worst])))
			worst = i;
	if (s->out->first_death)
		worst = s->out->first_death->row;
	s->out->worst_row = worst;
	s->out->worst_rank = worst == PLIM_UNKNOWN ? PLIM_UNKNOWN : s->out->rows[worst].rank;
}

/* ---- how they differ ---- */

struct place {
	uint64_t bytes, row;
};

static int set_by_bytes(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int c = (x->bytes > y->bytes) - (x->bytes < y->bytes);

	return c ? c : (x->row > y->row) - (x->row < y->row);
}

static struct plim_ranks_extreme extreme(const struct recording_set *s, const struct place *p)
{
	return (struct plim_ranks_extreme){ p->bytes, s->out->rows[p->row].rank, p->row };
}

/* Of a number of the rows that is known; `measure`: its offset in a row. */
static enum plim_status spread(struct recording_set *s, size_t measure,
			       struct plim_ranks_spread **out, struct plim_err *err)
{
	struct place *places = arena_take(s->arena, s->out->row_count, sizeof(*places), err);
	size_t n = 0;

	if (!places)
		return mem_status(err);
	for (size_t i = 0; i < s->out->row_count; i++) {
		uint64_t bytes;

		memcpy(&bytes, (const char *)&s->out->rows[i] + measure, sizeof(bytes));
		if (!s->out->rows[i].error && bytes != PLIM_UNKNOWN)
			places[n++] = (struct place){ bytes, i };
	}
	if (!n)
		return PLIM_OK;
	sort_items(places, n, sizeof(*places), set_by_bytes);
	*out = arena_take(s->arena, 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	/* of equal ones the first in the order of rows, also at the top */
	for (size_t top = n - 1; top && places[top - 1].bytes == places[n - 1].bytes; top--)
		places[n - 1] = places[top - 1];
	**out = (struct plim_ranks_spread){ .max = extreme(s, &places[n - 1]),
					    .median = extreme(s, &places[(n - 1) / 2]),
					    .min = extreme(s, &places[0]) };
	return PLIM_OK;
}

#define MODEL_PART 4 /* of the weights: so much more is not a uneven division */

#define CATEGORY(field) #field, offsetof(struct plim_report_categories, field)

/*
 * What makes a category differ between ranks that run the same program.  What comes and goes within a step
 * differs already between phases, and shows nothing where two ranks peak in different ones.
 */
static const struct {
	const char *name;
	size_t offset;
	int of_a_phase;
	const char *meaning;
} categories[] = {
	{ CATEGORY(parameter), 0, "the layers, or their shards, are not divided evenly" },
	{ CATEGORY(gradient), 1, "the gradients are not divided evenly" },
	{ CATEGORY(optimizer_state), 0, "the optimizer's state is not divided evenly" },
	{ CATEGORY(activation), 0, "its batch was larger or its sequences were longer" },
	{ CATEGORY(input), 0, "its batch was larger" },
	{ CATEGORY(workspace), 0, NULL },
	{ CATEGORY(temporary), 1, "its batch was larger, or it does what others do not (a loss)" },
	{ CATEGORY(autograd_detail), 1, "its batch was larger or its sequences were longer" },
	{ CATEGORY(kv_cache), 0, "its requests were more or longer" },
	{ CATEGORY(buffer), 0, NULL },
	{ CATEGORY(unknown), 1, NULL },
};

static int64_t category_difference(size_t i, const struct plim_report_categories *a,
				   const struct plim_report_categories *b)
{
	uint64_t x, y;

	memcpy(&x, (const char *)a + categories[i].offset, sizeof(x));
	memcpy(&y, (const char *)b + categories[i].offset, sizeof(y));
	return (int64_t)(x - y);
}

/* By so much that it is worth a sentence. */
static int is_more(const struct plim_ranks_row *row, const struct plim_ranks_row *median)
{
	return held(row) > held(median) + held(median) / EXCESS_PART;
}

/* Do both hold the same weights, as ranks of one program do?  Shards of one model differ by less. */
static int same_model(const struct plim_ranks_row *a, const struct plim_ranks_row *b)
{
	uint64_t x = a->peak_categories->parameter, y = b->peak_categories->parameter;
	uint64_t more = x > y ? x - y : y - x;

	return more <= (x > y ? x : y) / MODEL_PART;
}

void recording_explain_excess(struct plim_ranks_excess *x, const struct plim_ranks_row *row,
			      const struct plim_ranks_row *median, const char *other_model)
{
	int same_phase = row->peak_phase && median->peak_phase &&
			 !strcmp(row->peak_phase, median->peak_phase);
	int same = same_model(row, median);

	x->meaning = same ? NULL : other_model;
	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
		int64_t more =
			category_difference(i, row->peak_categories, median->peak_categories);

		if (more < x->difference_bytes / 2 || more <= x->category_bytes)
			continue;
		x->category = categories[i].name;
		x->category_bytes = more;
		if (same)
			x->meaning = categories[i].of_a_phase && !same_phase
					     ? NULL
					     : categories[i].meaning;
	}
}

static enum plim_status find_excess(struct recording_set *s, struct plim_err *err)
{
	const struct plim_ranks_row *row, *median;
	struct plim_ranks_excess *x;

	if (!s->out->allocated || s->out->read < 2)
		return PLIM_OK;
	row = &s->out->rows[s->out->worst_row];
	median = &s->out->rows[s->out->allocated->median.row];
	if (!is_more(row, median))
		row = &s->out->rows[s->out->allocated->max.row];
	if (!row->peak_categories || !median->peak_categories)
		return PLIM_OK;
	x = arena_take(s->arena, 1, sizeof(*x), err);
	if (!x)
		return mem_status(err);
	s->out->excess = x;
	x->row = (uint64_t)(row - s->out->rows);
	x->median_row = s->out->allocated->median.row;
	x->difference_bytes = (int64_t)(row->allocated_peak_bytes - median->allocated_peak_bytes);
	if (is_more(row, median))
		recording_explain_excess(x, row, median,
					 "another program, or another model: their weights differ");
	return PLIM_OK;
}

/* ---- notes ---- */

static size_t count_twice(const struct recording_set *s, uint64_t *rank)
{
	size_t n = 0;

	for (size_t i = 1; i < s->out->row_count; i++) {
		if (s->out->rows[i].rank == PLIM_UNKNOWN ||
		    s->out->rows[i].rank != s->out->rows[i - 1].rank)
			continue;
		*rank = n++ ? *rank : s->out->rows[i].rank;
	}
	return n;
}

static void tell_notes(const struct recording_set *s, int numbered, struct lines *notes)
{
	size_t unnumbered = 0, alone = 0, partial = 0, inexact = 0, twice;
	uint64_t rank = 0;

	for (size_t i = 0; i < s->items.n; i++)
		alone += !s->items.at[i]->other && s->items.at[i]->read_alone;
	for (size_t i = 0; i < s->out->row_count; i++) {
		unnumbered += s->out->rows[i].rank == PLIM_UNKNOWN && !s->out->rows[i].error;
		partial += !s->out->rows[i].error && s->out->rows[i].lower_bound;
		inexact +=
			!s->out->rows[i].error && s->out->rows[i].events && !s->out->rows[i].exact;
	}
	twice = count_twice(s, &rank);
	if (!numbered && s->out->read)
		lines_add(notes, "no name has a rank's number: numbered in the order of the names");
	if (unnumbered)
		lines_add(notes, "%zu name%s no rank's number", unnumbered,
			  unnumbered == 1 ? " has" : "s have");
	if (twice)
		lines_add(
			notes,
			"%zu recording%s the rank of another (first: rank %llu): several dumps of "
			"a process, or ranks counted anew on each machine",
			twice, twice == 1 ? " has" : "s have", (unsigned long long)rank);
	if (partial)
		lines_add(
			notes,
			"%zu of %llu recordings do not cover the whole run: their peaks are those "
			"of the recorded part",
			partial, (unsigned long long)s->out->read);
	if (inexact)
		lines_add(notes, "%zu of %llu recordings are not reproduced exactly by the replay",
			  inexact, (unsigned long long)s->out->read);
	if (alone)
		lines_add(notes,
			  "%zu recording%s read alone: more memory was needed than a file of that "
			  "size usually needs, or than --max-memory has for several",
			  alone, alone == 1 ? " was" : "s were");
}

enum plim_status recording_set_judge(struct recording_set *s, struct lines *notes,
				     struct plim_err *err)
{
	int numbered = number_rows(s);
	enum plim_status st = take_rows(s, err);

	if (!st)
		st = find_first(s, err);
	if (st)
		return st;
	find_worst(s);
	st = spread(s, offsetof(struct plim_ranks_row, allocated_peak_bytes), &s->out->allocated,
		    err);
	if (!st)
		st = spread(s, offsetof(struct plim_ranks_row, reserved_peak_bytes),
			    &s->out->reserved, err);
	if (!st)
		st = find_excess(s, err);
	tell_notes(s, numbered, notes);
	return st;
}
