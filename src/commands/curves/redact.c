/*
 * --redact: names of runs, files and series are looked at word by word before anything is reported.  Numbers and words that
 * everybody's logs have stay; any other becomes "name-3", in a path "file-3", the same word always the same number.
 */
#include "commands/curves/curves.h"

static enum plim_status hide(struct plim_curves_hidden *h, const char *kind, const char **name,
			     struct plim_err *err)
{
	struct plim_err own = { .status = PLIM_OK };
	struct redact r = { &h->arena, &h->words, &own, series_is_public_word };

	if (!(h->given.flags & PLIM_CURVES_REDACT))
		return PLIM_OK;
	redact_words(&r, kind, name);
	if (own.status)
		*err = own;
	return own.status;
}

enum plim_status curves_hide_path(struct plim_curves_hidden *h, const char **path,
				  struct plim_err *err)
{
	return hide(h, "file", path, err);
}

enum plim_status curves_hide_series(struct plim_curves_hidden *h, struct series_monitor *m,
				    struct plim_err *err)
{
	const char **shown;
	enum plim_status st = PLIM_OK;

	if (!(h->given.flags & PLIM_CURVES_REDACT))
		return PLIM_OK;
	m->shown = NULL;
	shown = arena_take(&h->arena, m->names.n, sizeof(*shown), err);
	if (!shown)
		return mem_status(err);
	for (uint32_t i = 0; !st && i < m->names.n; i++) {
		shown[i] = intern_text(&m->names, i);
		st = hide(h, "name", &shown[i], err);
	}
	if (st)
		return st;
	m->shown = shown;
	m->shown_count = m->names.n;
	return PLIM_OK;
}

void curves_tell_kept(const struct plim_curves_hidden *h, struct lines *notes)
{
	if (h->given.flags & PLIM_CURVES_REDACT)
		lines_add(notes, "redacted, except for steps, values, numbers, and common words of "
				 "logs (loss, eval, grad_norm)");
}
