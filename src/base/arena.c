/* Blocks and texts that live as long as a result. */
#include "arena.h"

#include <stdio.h>
#include <string.h>

void arena_init(struct arena *a, struct mem *m)
{
	*a = (struct arena){ .mem = m };
	intern_init(&a->strings, m);
}

void arena_release(struct arena *a)
{
	if (!a->mem)
		return;
	for (size_t i = 0; i < a->blocks.n; i++)
		mem_free(a->mem, a->blocks.at[i].at, a->blocks.at[i].bytes, 1);
	vec_release(a->mem, &a->blocks);
	intern_release(&a->strings);
}

void *arena_take(struct arena *a, size_t n, size_t size, struct plim_err *err)
{
	void *p;

	if (vec_need(a->mem, &a->blocks, 1, err))
		return NULL;
	p = mem_new(a->mem, n, size, err);
	if (p)
		a->blocks.at[a->blocks.n++] = (struct arena_block){ p, n * size };
	return p;
}

const char *arena_copy(struct arena *a, const char *text, struct plim_err *err)
{
	uint32_t id;

	return intern_add(&a->strings, text, strlen(text), &id, err) ? NULL
								     : intern_text(&a->strings, id);
}

/* One that does not fit the caller's buffer. */
__attribute__((format(printf, 4, 0))) static const char *
long_text(struct arena *a, size_t bytes, struct plim_err *err, const char *fmt, va_list ap)
{
	char *text = mem_new(a->mem, bytes, 1, err);
	const char *kept;

	if (!text)
		return NULL;
	vsnprintf(text, bytes, fmt, ap);
	kept = arena_copy(a, text, err);
	mem_free(a->mem, text, bytes, 1);
	return kept;
}

const char *arena_vtext(struct arena *a, struct plim_err *err, const char *fmt, va_list ap)
{
	char text[2048];
	const char *kept;
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	kept = n < (int)sizeof(text) ? arena_copy(a, n < 0 ? "" : text, err)
				     : long_text(a, (size_t)n + 1, err, fmt, again);
	va_end(again);
	return kept;
}

const char *arena_text(struct arena *a, struct plim_err *err, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = arena_vtext(a, err, fmt, ap);
	va_end(ap);
	return text;
}

void lines_put(struct lines *l, const char *text)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		const char **at = arena_take(l->arena, cap, sizeof(*at), l->err);

		if (at && l->n)
			memcpy(at, l->at, l->n * sizeof(*at));
		l->at = at ? at : l->at;
		l->cap = at ? cap : l->cap;
	}
	l->failed |= !text || l->n == l->cap;
	if (!l->failed)
		l->at[l->n++] = text;
}

void lines_add(struct lines *l, const char *fmt, ...)
{
	va_list ap;

	if (l->failed)
		return; /* the error that is reported is the first */
	va_start(ap, fmt);
	lines_put(l, arena_vtext(l->arena, l->err, fmt, ap));
	va_end(ap);
}

enum plim_status lines_keep(struct lines *l, const char ***out, size_t *n)
{
	*n = 0;
	*out = l->n || l->failed ? l->at : arena_take(l->arena, 0, sizeof(**out), l->err);
	if (l->failed || !*out)
		return mem_status(l->err);
	*n = l->n;
	return PLIM_OK;
}
