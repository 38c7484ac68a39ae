/* What a result points to: blocks and texts that live as long as it does. */
#ifndef API_HOLD_H
#define API_HOLD_H

#include "base/base.h"

struct hold {
	struct mem *mem;
	struct intern strings; /* every text of the result, each once */
	VEC(struct hold_block {
		void *at;
		size_t bytes;
	})
	blocks;
};

void hold_init(struct hold *h, struct mem *m);
void hold_release(struct hold *h);

/* n * size zeroed bytes. */
void *hold_take(struct hold *h, size_t n, size_t size, struct plim_err *err);

/* A text as it is; NULL and *err on failure. */
const char *hold_copy(struct hold *h, const char *text, struct plim_err *err);
/* One that is made, cut behind 2047 bytes. */
const char *hold_text(struct hold *h, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
const char *hold_vtext(struct hold *h, struct plim_err *err, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* Sentences that are put down one by one.  The first failure sticks in `failed`. */
#define HOLD_LINES 16
struct hold_lines {
	struct hold *hold;
	struct plim_err *err;
	const char *at[HOLD_LINES];
	size_t n;
	int failed;
};
void hold_add(struct hold_lines *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
enum plim_status hold_keep(struct hold_lines *l, const char ***out, size_t *n);

#endif
