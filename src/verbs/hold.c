/* Blocks and texts that live as long as a result. */
#include "verbs/hold.h"

#include <stdio.h>
#include <string.h>

void hold_init(struct hold *h, struct mem *m)
{
	*h = (struct hold){ .mem = m };
	intern_init(&h->strings, m);
}

void hold_release(struct hold *h)
{
	for (size_t i = 0; i < h->blocks.n; i++)
		mem_free(h->mem, h->blocks.at[i].at, h->blocks.at[i].bytes, 1);
	vec_release(h->mem, &h->blocks);
	intern_release(&h->strings);
}

void *hold_take(struct hold *h, size_t n, size_t size, struct plim_err *err)
{
	void *p;

	if (vec_need(h->mem, &h->blocks, 1, err))
		return NULL;
	p = mem_new(h->mem, n, size, err);
	if (p)
		h->blocks.at[h->blocks.n++] = (struct hold_block){ p, n * size };
	return p;
}

const char *hold_copy(struct hold *h, const char *text, struct plim_err *err)
{
	uint32_t id;

	return intern_add(&h->strings, text, strlen(text), &id, err) ? NULL
								     : intern_text(&h->strings, id);
}

const char *hold_vtext(struct hold *h, struct plim_err *err, const char *fmt, va_list ap)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	return hold_copy(h, text, err);
}

const char *hold_text(struct hold *h, struct plim_err *err, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = hold_vtext(h, err, fmt, ap);
	va_end(ap);
	return text;
}

void hold_add(struct hold_lines *l, const char *fmt, ...)
{
	va_list ap;

	if (l->n == HOLD_LINES)
		return;
	va_start(ap, fmt);
	l->at[l->n] = hold_vtext(l->hold, l->err, fmt, ap);
	va_end(ap);
	l->failed |= !l->at[l->n++];
}

enum plim_status hold_keep(struct hold_lines *l, const char ***out, size_t *n)
{
	*out = hold_take(l->hold, l->n, sizeof(**out), l->err);
	*n = 0;
	if (l->failed || !*out)
		return mem_status(l->err);
	*n = l->n;
	memcpy(*out, l->at, l->n * sizeof(**out));
	return PLIM_OK;
}
