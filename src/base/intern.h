/*
 * Interned byte sequences: the same content always has the same id, ids count up from 0.
 * Used for strings, frames and stacks.  Content is NUL-terminated, 8-byte aligned, and does not
 * move while the table lives.  Reading is safe from several threads while no one adds.
 */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include "mem.h"

#define INTERN_NONE UINT32_MAX

struct intern_entry {
	const uint8_t *bytes;
	uint32_t n; /* length without the NUL */
	uint32_t hash;
};

struct intern {
	struct mem *mem;
	struct intern_entry *at;
	size_t n, cap;
	uint32_t *slots; /* id + 1, or 0; a power of two of them */
	size_t slot_count;
	struct intern_chunk *chunk; /* newest first */
};

/* `m` must outlive the table. */
void intern_init(struct intern *t, struct mem *m);
void intern_release(struct intern *t);

/* The id of `n` bytes, added if new: *id; fails for 2^32 - 2 entries, for 4 GiB of bytes, or without memory. */
enum plim_status intern_add(struct intern *t, const void *bytes, size_t n, uint32_t *id,
			    struct plim_err *err);

/* The id of `n` bytes, or INTERN_NONE when they were never added. */
uint32_t intern_find(const struct intern *t, const void *bytes, size_t n);

static inline const char *intern_text(const struct intern *t, uint32_t id)
{
	return (const char *)t->at[id].bytes;
}

#endif
