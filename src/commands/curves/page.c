/*
 * plimsoll curves -o page.html: each run as one JSON text, its findings and its thinned curves, for the
 * viewer in ui/src/curves.  docs/formats/page.md has the format.
 */
#include "page/page.h"
#include "base/base.h"
#include "commands/curves/curves.h"
#include "result_tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_VALUES (4u << 20) /* buckets in a page of many runs; then each curve gets fewer */
#define PAGE_LEAST 64          /* of a curve that was thinned */
#define PAGE_SERIES 256        /* curves of a run: those with a role first */

/* Seven digits: more than a screen shows, and half of what 17 take. */
static double rounded(double v)
{
	char text[32];

	snprintf(text, sizeof(text), "%.7g", v);
	return strtod(text, NULL);
}

enum column { MEAN, LOW, HIGH };

static void put_values(struct json_out *j, const char *key, const struct series_bucket *at,
		       size_t n, enum column which)
{
	json_array(j, key, JSON_LINE);
	for (size_t i = 0; i < n; i++)
		json_double(j, NULL,
			    rounded(which == MEAN  ? at[i].mean
				    : which == LOW ? at[i].min
						   : at[i].max));
	json_array_end(j);
}

/* Buckets `every` at a time as one; the number of them. */
static size_t thin(const struct series_curve *c, size_t every, struct series_bucket *to)
{
	size_t n = 0;

	for (size_t i = 0; i < c->buckets.n; i++)
		if (i % every)
			series_bucket_merge(&to[n - 1], &c->buckets.at[i]);
		else
			to[n++] = c->buckets.at[i];
	return n;
}

static void put_curve(struct json_out *j, const struct series_run *r, uint32_t series,
		      uint32_t number, size_t every)
{
	struct series_bucket at[SERIES_BUCKETS];
	const char *name = series_told_name(&r->monitor, series);
	size_t n = thin(&r->curves.at[series], every, at);
	bool thinned = false;
	char key[20];

	for (size_t i = 0; i < n; i++)
		thinned |= at[i].n > 1;
	snprintf(key, sizeof(key), "%016llx",
		 (unsigned long long)series_name_of(name, strlen(name)).key);
	json_object(j, NULL, JSON_LINE);
	json_u64(j, "series", number);
	json_string(j, "quantity", key);
	json_array(j, "step", JSON_LINE);
	for (size_t i = 0; i < n; i++)
		json_double(j, NULL, at[i].step);
	json_array_end(j);
	put_values(j, "mean", at, n, MEAN);
	if (thinned) {
		put_values(j, "min", at, n, LOW);
		put_values(j, "max", at, n, HIGH);
	}
	json_array(j, "bad", JSON_LINE);
	for (size_t i = 0; i < n; i++)
		if (at[i].bad)
			json_u64(j, NULL, i);
	json_array_end(j);
	json_object_end(j);
}

/* Curves of what is understood, then of the rest, as many as there is room for. */
static void put_curves(struct json_out *j, const struct series_run *r, size_t every)
{
	uint32_t left = PAGE_SERIES;

	json_array(j, "curves", JSON_LINE);
	for (int known = 1; known >= 0; known--) {
		uint32_t number = 0;

		for (uint32_t i = 0; i < r->monitor.watches.n; i++) {
			const struct series_watch *w = &r->monitor.watches.at[i];

			if (!w->points)
				continue;
			if ((w->role != PLIM_ROLE_OTHER) == known && left) {
				put_curve(j, r, i, number, every);
				left--;
			}
			number++;
		}
	}
	json_array_end(j);
}

static const char *name_or_null(const struct series_run *r, uint32_t series)
{
	return series == SERIES_NONE ? NULL : series_told_name(&r->monitor, series);
}

static enum plim_status add_run(struct page *p, const struct plim_curves *c, size_t i, size_t every,
				struct plim_err *err)
{
	const struct series_run *r = c->hidden->set.runs.at[i];
	struct json_out j;
	struct text text;
	enum plim_status st;

	text_init(&text, p->mem, NULL);
	json_out_init(&j, &text, JSON_COMPACT, NULL);
	json_object(&j, NULL, JSON_LINE);
	json_string(&j, "format", "curves-page/1");
	json_string(&j, "version", plim_version());
	fields_emit_json(&j, "run", &curves_run_table, &c->runs[i]);
	json_string(&j, "train", name_or_null(r, r->monitor.train));
	json_string(&j, "val", name_or_null(r, r->monitor.val));
	put_curves(&j, r, every);
	json_array(&j, "notes", JSON_LINE);
	for (size_t k = 0; !i && k < c->note_count; k++)
		json_string(&j, NULL, c->notes[k]);
	json_array_end(&j);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	if (!st)
		st = page_pack_json(p, text_get(&text), text.n, err);
	text_release(&text);
	return st;
}

/* How many buckets must become one for the page to stay of a size that a browser opens at once. */
static size_t thinning(const struct plim_curves *c)
{
	uint64_t values = 0;
	size_t every = 1;

	for (size_t i = 0; i < c->run_count; i++)
		for (size_t k = 0; k < c->hidden->set.runs.at[i]->curves.n; k++)
			values += c->hidden->set.runs.at[i]->curves.at[k].buckets.n;
	while (values / every > PAGE_VALUES && SERIES_BUCKETS / every > PAGE_LEAST)
		every *= 2;
	return every;
}

enum plim_status plim_curves_page(const struct plim_curves *c, const char *path, uint64_t *bytes,
				  struct plim_err *err)
{
	struct page page;
	struct plim_err own;
	enum plim_status st = PLIM_OK;

	err = err ? err : &own;
	page_init(&page, &c->hidden->mem);
	page.viewer = PAGE_CURVES;
	for (size_t i = 0; !st && i < c->run_count; i++)
		st = add_run(&page, c, i, thinning(c), err);
	if (!st)
		st = page_write(&page, path, bytes, err);
	page_release(&page);
	return st;
}
