/*
 * Accounted memory.  Everything whose size depends on the input is taken through a struct mem, so
 * that --max-memory is a promise and tests can make every allocation fail in turn.
 * A struct mem may be shared by threads; what was taken from it is given back to the same one.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "error.h"

#include <plimsoll/task.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct mem {
	uint64_t limit_bytes;        /* refuse beyond this */
	_Atomic uint64_t used_bytes; /* taken now */
	_Atomic uint64_t peak_bytes; /* the most that was taken */
	uint64_t
		decoder_bytes; /* what a decompressor may take next to the limit; 0: what that leaves */
	_Atomic int64_t fail_after; /* tests: < 0 never; else fail when it has counted down to 0 */
};

/* limit_bytes 0: none.  What this machine or container can spare is known to the host floor (host_memory_limit). */
void mem_init(struct mem *m, uint64_t limit_bytes);

/* What this thread does from here on, and threads that it starts, looks at *task (NULL: at none). */
void mem_watch(struct plim_task *task);
struct plim_task *mem_watched(void);

/* PLIM_E_CANCELLED if the task asks to stop.  Whoever takes memory looks; so should loops of a tenth of a second that take none. */
enum plim_status mem_stopped(struct plim_err *err);

/* n * size bytes, zeroed; NULL and *err set on failure.  n or size 0 gives a valid pointer. */
void *mem_new(struct mem *m, size_t n, size_t size, struct plim_err *err);

/* Why mem_new gave NULL: memory or the limit. */
static inline enum plim_status mem_status(const struct plim_err *err)
{
	return err && err->status ? err->status : PLIM_E_NOMEM;
}

/* Make *array hold at least `need` elements: grows by half, keeps the content.  The rest is not zeroed. */
enum plim_status mem_grow(struct mem *m, void *array, size_t *cap, size_t need, size_t size,
			  struct plim_err *err);

/* Shrink *array to exactly n elements (n may be 0).  Never fails. */
void mem_trim(struct mem *m, void *array, size_t *cap, size_t n, size_t size);

/* Give back `n * size` bytes as they were taken.  NULL is a no-op. */
void mem_free(struct mem *m, void *p, size_t n, size_t size);

/*
 * A typed growing array: VEC(uint64_t) v = {0};
 *   st = vec_need(m, &v, extra, err);	room for `extra` more elements
 *   st = vec_push(m, &v, value, err);
 *   st = vec_copy(m, &v, &other, err);
 *   vec_release(m, &v);
 */
#define VEC(type)           \
	struct {            \
		type *at;   \
		size_t n;   \
		size_t cap; \
	}

#define vec_need(m, v, extra, err)                                                               \
	((v)->cap - (v)->n >= (size_t)(extra)                                                    \
		 ? PLIM_OK                                                                       \
		 : mem_grow((m), &(v)->at, &(v)->cap, (v)->n + (size_t)(extra), sizeof *(v)->at, \
			    (err)))

#define vec_push(m, v, value, err)                             \
	({                                                     \
		enum plim_status st_ = vec_need(m, v, 1, err); \
		if (!st_)                                      \
			(v)->at[(v)->n++] = (value);           \
		st_;                                           \
	})

/* *to holds what *from does; both of one type. */
#define vec_copy(m, to, from, err)                                                               \
	({                                                                                       \
		enum plim_status st_ = (to)->cap >= (from)->n                                    \
					       ? PLIM_OK                                         \
					       : mem_grow((m), &(to)->at, &(to)->cap, (from)->n, \
							  sizeof *(to)->at, (err));              \
		if (!st_ && (from)->n)                                                           \
			memcpy((to)->at, (from)->at, (from)->n * sizeof *(to)->at);              \
		if (!st_)                                                                        \
			(to)->n = (from)->n;                                                     \
		st_;                                                                             \
	})

#define vec_release(m, v)                                          \
	do {                                                       \
		mem_free((m), (v)->at, (v)->cap, sizeof *(v)->at); \
		(v)->at = NULL;                                    \
		(v)->n = (v)->cap = 0;                             \
	} while (0)

/* qsort() for lists that may be empty, and then have no place in memory, which qsort() may not be given. */
static inline void sort_items(void *at, size_t n, size_t size,
			      int (*order)(const void *, const void *))
{
	if (n)
		qsort(at, n, size, order);
}

#endif
