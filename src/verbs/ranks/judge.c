/* Over all rows: their order, who died first, which is worst, and what makes it differ. */
#include "verbs/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* Clocks of machines that ask a time server differ by milliseconds; by so much they do not. */
#define CLOCKS_DIFFER_US 100000

/* What one has more than the median is explained from this part of the median's peak on. */
#define EXCESS_PART 100

/* ---- rows in order ---- */

static int by_rank(const void *a, const void *b)
{
	const struct ranks_item *x = *(const struct ranks_item *const *)a,
				*y = *(const struct ranks_item *const *)b;
	int c = (x->row.rank > y->row.rank) - (x->row.rank < y->row.rank); /* unknown is last */

	if (!c)
		c = ranks_compare_names(ranks_name(x), ranks_name(y));
	if (!c)
		c = strcmp(x->path, y->path);
	return c ? c : (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_path(const void *a, const void *b)
{
	const struct plim_ranks_skipped *x = a, *y = b;
	int c = x->path && y->path ? ranks_compare_names(x->path, y->path) : 0;

	return c ? c : strcmp(x->reason, y->reason);
}

/* The numbers of the names, or if no name has one their order. */
static int number_rows(struct plim_ranks *k)
{
	struct plim_ranks_hidden *h = k->hidden;
	int numbered = 0;
	uint64_t number;

	for (size_t i = 0; i < h->items.n; i++) {
		struct ranks_item *item = h->items.at[i];

		item->row.rank = PLIM_UNKNOWN;
		if (item->other || !ranks_number(ranks_name(item), &number))
			continue;
		item->row.rank = number;
		numbered = 1;
	}
	sort_items(h->items.at, h->items.n, sizeof(*h->items.at), by_rank);
	for (size_t i = 0, n = 0; !numbered && i < h->items.n; i++)
		if (!h->items.at[i]->other)
			h->items.at[i]->row.rank = n++;
	return numbered;
}

static enum plim_status take_rows(struct plim_ranks *k, struct plim_err *err)
{
	struct plim_ranks_hidden *h = k->hidden;
	enum plim_status st = PLIM_OK;

	k->rows = arena_take(&h->arena, h->items.n, sizeof(*k->rows), err);
	if (!k->rows)
		return mem_status(err);
	for (size_t i = 0; !st && i < h->items.n; i++) {
		struct ranks_item *item = h->items.at[i];

		if (!item->other) {
			k->rows[k->row_count++] = item->row;
			k->failed += item->row.error != NULL;
			k->died += item->row.died != NULL;
		} else if (item->origin != RANKS_STREAM) {
			st = ranks_skip(k, ranks_name(item), item->row.error, err);
		}
	}
	k->read = k->row_count - k->failed;
	sort_items(k->skipped, k->skipped_count, sizeof(*k->skipped), by_path);
	return st;
}

/* ---- who died first ---- */

static int died_before(const struct plim_ranks_row *a, const struct plim_ranks_row *b)
{
	return a->died->time_us < b->died->time_us;
}

/* Why the clocks do not tell the order; NULL: they do. */
static const char *order_unknown(const struct plim_ranks *k, const struct plim_ranks_row *first)
{
	for (size_t i = 0; i < k->row_count; i++) {
		const struct plim_ranks_row *row = &k->rows[i];

		if (row->died && row->died->time_us == PLIM_UNKNOWN)
			return "not every recording has times (PyTorch 2.2 and later write them)";
	}
	for (size_t i = 0; i < k->row_count; i++) {
		const struct plim_ranks_row *row = &k->rows[i];

		if (row->died && row->first_time_us > first->died->time_us)
			return "the recordings do not overlap in time: they are of different runs, "
			       "their machines' clocks differ, or their rings were too short";
	}
	return NULL;
}

static enum plim_status find_first(struct plim_ranks *k, struct plim_err *err)
{
	const struct plim_ranks_row *first = NULL;
	struct plim_ranks_first *f;

	for (size_t i = 0; i < k->row_count; i++)
		if (k->rows[i].died && (!first || died_before(&k->rows[i], first)))
			first = &k->rows[i];
	if (first && k->died > 1)
		k->order_unknown = order_unknown(k, first);
	if (!first || k->order_unknown)
		return PLIM_OK;
	f = arena_take(&k->hidden->arena, 1, sizeof(*f), err);
	if (!f)
		return mem_status(err);
	*f = (struct plim_ranks_first){ .row = (uint64_t)(first - k->rows),
					.rank = first->rank,
					.time_us = first->died->time_us,
					.next_row = PLIM_UNKNOWN,
					.next_rank = PLIM_UNKNOWN,
					.ahead_us = PLIM_UNKNOWN };
	for (size_t i = 0; i < k->row_count; i++) {
		const struct plim_ranks_row *row = &k->rows[i];

		if (!row->died || row == first || row->died->time_us - f->time_us >= f->ahead_us)
			continue;
		f->next_row = i;
		f->next_rank = row->rank;
		f->ahead_us = row->died->time_us - f->time_us;
	}
	if (k->failed)
		f->doubt = "a recording that could not be read may have died before";
	else if (f->ahead_us < CLOCKS_DIFFER_US)
		f->doubt = "it is so near that it only counts if both ran on one machine: clocks "
			   "of different ones are not that equal";
	f->certain = !f->doubt;
	k->first_death = f;
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

static void find_worst(struct plim_ranks *k)
{
	uint64_t worst = PLIM_UNKNOWN;

	for (size_t i = 0; i < k->row_count; i++)
		if (!k->rows[i].error &&
		    (worst == PLIM_UNKNOWN || is_worse(&k->rows[i], &k->rows[worst])))
			worst = i;
	if (k->first_death)
		worst = k->first_death->row;
	k->worst_row = worst;
	k->worst_rank = worst == PLIM_UNKNOWN ? PLIM_UNKNOWN : k->rows[worst].rank;
}

/* ---- how they differ ---- */

struct place {
	uint64_t bytes, row;
};

static int by_bytes(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int c = (x->bytes > y->bytes) - (x->bytes < y->bytes);

	return c ? c : (x->row > y->row) - (x->row < y->row);
}

static struct plim_ranks_extreme extreme(const struct plim_ranks *k, const struct place *p)
{
	return (struct plim_ranks_extreme){ p->bytes, k->rows[p->row].rank, p->row };
}

/* Of a number of the rows that is known; `measure`: its offset in a row. */
static enum plim_status spread(struct plim_ranks *k, size_t measure, struct plim_ranks_spread **out,
			       struct plim_err *err)
{
	struct place *places = arena_take(&k->hidden->arena, k->row_count, sizeof(*places), err);
	size_t n = 0;

	if (!places)
		return mem_status(err);
	for (size_t i = 0; i < k->row_count; i++) {
		uint64_t bytes;

		memcpy(&bytes, (const char *)&k->rows[i] + measure, sizeof(bytes));
		if (!k->rows[i].error && bytes != PLIM_UNKNOWN)
			places[n++] = (struct place){ bytes, i };
	}
	if (!n)
		return PLIM_OK;
	sort_items(places, n, sizeof(*places), by_bytes);
	*out = arena_take(&k->hidden->arena, 1, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	/* of equal ones the first in the order of rows, also at the top */
	for (size_t top = n - 1; top && places[top - 1].bytes == places[n - 1].bytes; top--)
		places[n - 1] = places[top - 1];
	**out = (struct plim_ranks_spread){ .max = extreme(k, &places[n - 1]),
					    .median = extreme(k, &places[(n - 1) / 2]),
					    .min = extreme(k, &places[0]) };
	return PLIM_OK;
}

#define CATEGORY(field) #field, offsetof(struct plim_report_categories, field)

/*
 * What makes a category differ between ranks that run the same program.  What comes and goes within a step
 * differs already between phases, and tells nothing where two ranks peak in different ones.
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

/* The category that makes at least half of the difference, and most. */
static void explain_excess(struct plim_ranks_excess *x, const struct plim_ranks_row *row,
			   const struct plim_ranks_row *median)
{
	int same_phase = row->peak_phase && median->peak_phase &&
			 !strcmp(row->peak_phase, median->peak_phase);

	for (size_t i = 0; i < sizeof(categories) / sizeof(*categories); i++) {
		int64_t more =
			category_difference(i, row->peak_categories, median->peak_categories);

		if (more < x->difference_bytes / 2 || more <= x->category_bytes)
			continue;
		x->category = categories[i].name;
		x->category_bytes = more;
		x->meaning = categories[i].of_a_phase && !same_phase ? NULL : categories[i].meaning;
	}
}

static enum plim_status find_excess(struct plim_ranks *k, struct plim_err *err)
{
	const struct plim_ranks_row *row, *median;
	struct plim_ranks_excess *x;

	if (!k->allocated || k->read < 2)
		return PLIM_OK;
	row = &k->rows[k->worst_row];
	median = &k->rows[k->allocated->median.row];
	if (!is_more(row, median))
		row = &k->rows[k->allocated->max.row];
	if (!row->peak_categories || !median->peak_categories)
		return PLIM_OK;
	x = arena_take(&k->hidden->arena, 1, sizeof(*x), err);
	if (!x)
		return mem_status(err);
	k->excess = x;
	x->row = (uint64_t)(row - k->rows);
	x->median_row = k->allocated->median.row;
	x->difference_bytes = (int64_t)(row->allocated_peak_bytes - median->allocated_peak_bytes);
	if (is_more(row, median))
		explain_excess(x, row, median);
	return PLIM_OK;
}

/* ---- notes ---- */

static size_t count_twice(const struct plim_ranks *k, uint64_t *rank)
{
	size_t n = 0;

	for (size_t i = 1; i < k->row_count; i++) {
		if (k->rows[i].rank == PLIM_UNKNOWN || k->rows[i].rank != k->rows[i - 1].rank)
			continue;
		*rank = n++ ? *rank : k->rows[i].rank;
	}
	return n;
}

static void tell_notes(const struct plim_ranks *k, int numbered, struct lines *notes)
{
	const struct plim_ranks_hidden *h = k->hidden;
	size_t unnumbered = 0, alone = 0, partial = 0, inexact = 0, twice;
	uint64_t rank = 0;

	for (size_t i = 0; i < h->items.n; i++)
		alone += !h->items.at[i]->other && h->items.at[i]->read_alone;
	for (size_t i = 0; i < k->row_count; i++) {
		unnumbered += k->rows[i].rank == PLIM_UNKNOWN && !k->rows[i].error;
		partial += !k->rows[i].error && k->rows[i].lower_bound;
		inexact += !k->rows[i].error && k->rows[i].events && !k->rows[i].exact;
	}
	twice = count_twice(k, &rank);
	if (!numbered && k->read)
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
			partial, (unsigned long long)k->read);
	if (inexact)
		lines_add(notes, "%zu of %llu recordings are not reproduced exactly by the replay",
			  inexact, (unsigned long long)k->read);
	if (alone)
		lines_add(notes,
			  "%zu recording%s read alone: more memory was needed than a file of that "
			  "size usually needs, or than --max-memory has for several",
			  alone, alone == 1 ? " was" : "s were");
}

enum plim_status ranks_judge(struct plim_ranks *k, struct lines *notes, struct plim_err *err)
{
	int numbered = number_rows(k);
	enum plim_status st = take_rows(k, err);

	if (!st)
		st = find_first(k, err);
	if (st)
		return st;
	find_worst(k);
	st = spread(k, offsetof(struct plim_ranks_row, allocated_peak_bytes), &k->allocated, err);
	if (!st)
		st = spread(k, offsetof(struct plim_ranks_row, reserved_peak_bytes), &k->reserved,
			    err);
	if (!st)
		st = find_excess(k, err);
	tell_notes(k, numbered, notes);
	return st;
}
