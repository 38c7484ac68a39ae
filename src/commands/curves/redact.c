/*
 * --redact: names of runs, files and series are looked at word by word before anything is reported.  Numbers and words that
 * everybody's logs have stay; any other becomes "name-3", in a path "file-3", the same word always the same number.
 */
#include "commands/curves/curves.h"

#include <ctype.h>

static bool is_letter(char c)
{
	return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Bytes of the word that `at` begins with: up to what is not a letter or digit, or to a capital behind a small one. */
static size_t word_at(const char *at)
{
	size_t n = 0;

	while (is_letter(at[n]) &&
	       !(n && isupper((unsigned char)at[n]) && islower((unsigned char)at[n - 1])))
		n++;
	return n;
}

static enum plim_status hide(struct plim_curves_hidden *h, const char *kind, const char **name,
			     struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	struct text out;
	uint32_t id;

	if (!(h->given.flags & PLIM_CURVES_REDACT) || !*name)
		return PLIM_OK;
	text_init(&out, &h->mem, NULL);
	for (const char *at = *name; *at && !st;) {
		size_t n = word_at(at);

		if (!n || series_is_public_word(at, n)) {
			text_put(&out, at, n ? n : 1);
		} else {
			st = intern_add(&h->words, at, n, &id, err);
			if (!st)
				text_printf(&out, "%s-%u", kind, id + 1);
		}
		at += n ? n : 1;
	}
	if (!st) {
		*name = arena_copy(&h->arena, text_get(&out), err);
		st = *name ? PLIM_OK : mem_status(err);
	}
	text_release(&out);
	return st;
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
		lines_add(notes, "redacted; kept are steps, values, numbers, and words that "
				 "everybody's logs have (loss, eval, grad_norm)");
}
