/* What a result points to: blocks and texts that live as long as it does. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "intern.h"
#include "mem.h"

#include <stdarg.h>

struct arena {
	struct mem *mem;
	struct intern strings; /* every text, each once */
	VEC(struct arena_block {
		void *at;
		size_t bytes;
	})
	blocks;
};

void arena_init(struct arena *a, struct mem *m);
void arena_release(struct arena *a); /* one of zeros is a no-op */

/* n * size zeroed bytes; NULL and *err on failure. */
void *arena_take(struct arena *a, size_t n, size_t size, struct plim_err *err);

/* A text as it is; NULL and *err on failure. */
const char *arena_copy(struct arena *a, const char *text, struct plim_err *err);
/* One that is made, however long it is. */
const char *arena_text(struct arena *a, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
const char *arena_vtext(struct arena *a, struct plim_err *err, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/*
 * Sentences that are put down one by one, as many as there are: struct lines l = { .arena = a, .err = err }.  The first
 * failure sticks: lines_keep() returns it.
 */
struct lines {
	struct arena *arena;
	struct plim_err *err;
	const char **at; /* of the arena */
	size_t n, cap;
	int failed;
};
void lines_add(struct lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One that lives as long as the arena; NULL: it could not be had, which is a failure. */
void lines_put(struct lines *l, const char *text);

/* The lines as an array of the arena (never NULL); after a failure *n is 0. */
enum plim_status lines_keep(struct lines *l, const char ***out, size_t *n);

#endif
