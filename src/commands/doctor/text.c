/* A row per line: how it stands, what was looked at, what was seen; below it what to do. */
#include "commands/doctor/doctor.h"

#include "commands/out.h"

#include <stdio.h>
#include <string.h>

enum { STATE = 6 };

static void doctor_row(struct text *t, const struct plim_doctor_check *c, unsigned wide)
{
	static const enum text_hue hues[] = { TEXT_GOOD, TEXT_DIM, TEXT_BAD };
	unsigned n = (unsigned)strlen(c->what);

	text_hue(t, hues[c->state]);
	text_printf(t, "%-*s", STATE, plim_doctor_state_name(c->state));
	text_plain(t);
	text_name(t, c->what, n);
	text_repeat(t, " ", wide - n + 2);
	text_wrap_name(t, STATE + wide + 2, STATE + wide + 2, c->says);
	if (!c->remedy)
		return;
	text_repeat(t, " ", STATE + wide + 2);
	text_wrap_name(t, STATE + wide + 2, STATE + wide + 2, c->remedy);
}

enum plim_status plim_doctor_text(const struct plim_doctor *d, const struct plim_text_style *style,
				  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	unsigned wide = 0;
	struct text t;

	text_init(&t, &d->hidden->mem, &s);
	for (size_t i = 0; i < d->check_count; i++) {
		size_t n = strlen(d->checks[i].what);

		wide = n > wide ? (unsigned)n : wide;
	}
	for (size_t i = 0; i < d->check_count; i++)
		doctor_row(&t, &d->checks[i], wide);
	return out_text(&t, write, ctx, err);
}
