/* The newest of a series that is good, and taking away what is older than enough of these. */
#include "parts.h"

/*
 * The newest numbered series is what is thinned out.  A file without a number may be anything that someone
 * saved: it can be the last good one, but it is neither counted nor removed.
 */
static uint32_t series_to_keep(const struct ckpt_series *s)
{
	for (size_t i = 0; i < s->entries.n; i++)
		if (strchr(intern_text(&s->strings, s->entries.at[i].pattern), '#'))
			return s->entries.at[i].pattern;
	return CKPT_NONE;
}

/* Reading takes minutes, in which a job may replace or remove what was found good. */
static enum plim_status check_good(const struct ckpt_series *s, struct plim_err *err)
{
	for (size_t i = 0; i < s->entries.n; i++)
		if (s->entries.at[i].good && !ckpt_series_is_unchanged(s, i))
			return err_set(err, PLIM_E_IO,
				       "'%.200s' was good, but changed since it was looked at",
				       s->entries.at[i].name);
	return PLIM_OK;
}

/*
 * Whatever of the series is older than those that were looked at goes, good or not, except the best, and what
 * was written anew meanwhile.  Before each that goes, those it goes for are looked for again.
 */
static enum plim_status retain(struct ckpt_series *s, struct ckpt_keep *k, size_t from,
			       uint32_t series, struct plim_err *err)
{
	struct plim_err why = { 0 };
	enum plim_status st = ckpt_series_mark_links(s, &why);

	for (size_t i = from; !st && i < s->entries.n; i++) {
		struct ckpt_series_entry *e = &s->entries.at[i];

		if (e->best || e->pattern != series || !ckpt_series_is_unchanged(s, i))
			continue;
		st = check_good(s, &why);
		if (!st && !k->dry)
			st = ckpt_series_remove(s, i, &why);
		if (st)
			break;
		e->fate = k->dry ? CKPT_WOULD_GO : CKPT_GONE;
		k->removed++;
	}
	return st ? err_set(err, st, "%.700s: %llu removed before, no more are", why.message,
			    (unsigned long long)k->removed)
		  : PLIM_OK;
}

enum plim_status ckpt_series_keep(struct ckpt_series *s, struct ckpt_keep *k, struct plim_err *err)
{
	uint32_t series = series_to_keep(s);
	uint64_t good = 0;
	size_t i = 0;
	enum plim_status st = PLIM_OK;

	k->last_good = CKPT_NONE;
	k->removed = 0;
	for (; !st && i < s->entries.n && (k->last_good == CKPT_NONE || good < k->keep); i++) {
		struct ckpt_series_entry *e = &s->entries.at[i];
		bool counts = e->pattern == series;

		if (k->last_good != CKPT_NONE && !counts)
			continue;
		st = k->verify(k->ctx, i, &e->good, err);
		good += counts && e->good;
		if (e->good && k->last_good == CKPT_NONE)
			k->last_good = (uint32_t)i;
	}
	if (!st && k->keep && good == k->keep)
		st = retain(s, k, i, series, err);
	return st;
}
