#include "mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local struct plim_task *watching;

void mem_watch(struct plim_task *task)
{
	watching = task;
}

struct plim_task *mem_watched(void)
{
	return watching;
}

enum plim_status mem_stopped(struct plim_err *err)
{
	if (!watching || !__atomic_load_n(&watching->cancel, __ATOMIC_RELAXED))
		return PLIM_OK;
	return err_set(err, PLIM_E_CANCELLED, "stopped");
}

void mem_init(struct mem *m, uint64_t limit_bytes)
{
	m->limit_bytes = limit_bytes ? limit_bytes : UINT64_MAX;
	m->decoder_bytes = 0;
	atomic_init(&m->used_bytes, 0);
	atomic_init(&m->peak_bytes, 0);
	atomic_init(&m->fail_after, -1);
}

static enum plim_status take_mem(struct mem *m, uint64_t bytes, struct plim_err *err)
{
	uint64_t used, peak;

	if (watching && mem_stopped(err))
		return PLIM_E_CANCELLED;
	if (atomic_load_explicit(&m->fail_after, memory_order_relaxed) >= 0 &&
	    atomic_fetch_sub(&m->fail_after, 1) == 0)
		return err_set(err, PLIM_E_NOMEM, "out of memory (asked for %llu bytes)",
			       (unsigned long long)bytes);
	used = atomic_fetch_add(&m->used_bytes, bytes) + bytes;
	if (used > m->limit_bytes || used < bytes) {
		atomic_fetch_sub(&m->used_bytes, bytes);
		return err_set(err, PLIM_E_LIMIT,
			       "this input needs more than %llu MiB of memory; allow more with "
			       "options.max_memory_bytes",
			       (unsigned long long)(m->limit_bytes >> 20));
	}
	peak = atomic_load(&m->peak_bytes);
	while (used > peak && !atomic_compare_exchange_weak(&m->peak_bytes, &peak, used))
		;
	return PLIM_OK;
}

static void give_mem(struct mem *m, uint64_t bytes)
{
	atomic_fetch_sub(&m->used_bytes, bytes);
}

/*
 * Large blocks are mappings of their own that begin at a 2 MiB border.  Columns of millions of rows are
 * touched from end to end: with huge pages that costs a hundred page faults instead of tens of
 * thousands, and a mapping that stays aligned keeps them when it grows (it moves by page tables,
 * nothing is copied).  Which kind a block is follows from its size.  AddressSanitizer sees none.
 */
#define HUGE_PAGE ((size_t)2 << 20)
#if defined(__SANITIZE_ADDRESS__)
#define LARGE_BYTES SIZE_MAX
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LARGE_BYTES SIZE_MAX
#endif
#endif
#ifndef LARGE_BYTES
#define LARGE_BYTES HUGE_PAGE
#endif

static int is_large(size_t bytes)
{
	return bytes >= LARGE_BYTES;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

/* Address space for `bytes` from a 2 MiB border on, zeroed when touched; NULL when there is none. */
static void *large_map(size_t bytes)
{
	size_t size = whole_pages(bytes), room = size + HUGE_PAGE, before;
	uint8_t *p = bytes > SIZE_MAX / 2 ? MAP_FAILED
					  : mmap(NULL, room, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (before)
		munmap(p, before);
	munmap(p + before + size, room - before - size);
	(void)madvise(p + before, size, MADV_HUGEPAGE); /* a wish: no matter if refused */
	return p + before;
}

/* On failure the new place is left alone: it may be gone already, and someone else's by now. */
static void *large_resize(void *p, size_t old, size_t bytes)
{
	void *to = p;

	if (whole_pages(bytes) > whole_pages(old)) {
		to = large_map(bytes);
		if (!to)
			return NULL;
	}
	to = mremap(p, whole_pages(old), whole_pages(bytes),
		    to == p ? 0 : MREMAP_MAYMOVE | MREMAP_FIXED, to);
	return to == MAP_FAILED ? NULL : to;
}

static void give_back(void *p, size_t bytes)
{
	if (is_large(bytes))
		munmap(p, whole_pages(bytes));
	else
		free(p);
}

/* As realloc: p NULL or of `old` bytes; NULL on failure, and p stays. */
static void *resize(void *p, size_t old, size_t bytes)
{
	void *to;

	if (!is_large(old) && !is_large(bytes))
		return realloc(p, bytes ? bytes : 1);
	if (is_large(old) && is_large(bytes))
		return large_resize(p, old, bytes);
	to = is_large(bytes) ? large_map(bytes) : malloc(bytes ? bytes : 1);
	if (to && p) {
		memcpy(to, p, old < bytes ? old : bytes);
		give_back(p, old);
	}
	return to;
}

void *mem_new(struct mem *m, size_t n, size_t size, struct plim_err *err)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		err_set(err, PLIM_E_NOMEM, "a size overflows");
		return NULL;
	}
	if (take_mem(m, bytes, err))
		return NULL;
	p = is_large(bytes) ? large_map(bytes) : calloc(1, bytes ? bytes : 1);
	if (!p) {
		give_mem(m, bytes);
		err_set(err, PLIM_E_NOMEM, "out of memory (asked for %zu bytes)", bytes);
	}
	return p;
}

enum plim_status mem_grow(struct mem *m, void *array, size_t *cap, size_t need, size_t size,
			  struct plim_err *err)
{
	void **at = array;
	size_t want = *cap + *cap / 2, bytes;
	enum plim_status st;
	void *p;

	if (need <= *cap)
		return PLIM_OK;
	if (want < need)
		want = need;
	if (want < 16)
		want = 16;
	if (__builtin_mul_overflow(want, size, &bytes))
		return err_set(err, PLIM_E_NOMEM, "a size overflows");
	st = take_mem(m, bytes - *cap * size, err);
	if (st)
		return st;
	p = resize(*at, *cap * size, bytes);
	if (!p) {
		give_mem(m, bytes - *cap * size);
		return err_set(err, PLIM_E_NOMEM, "out of memory (asked for %zu bytes)", bytes);
	}
	*at = p;
	*cap = want;
	return PLIM_OK;
}

void mem_trim(struct mem *m, void *array, size_t *cap, size_t n, size_t size)
{
	void **at = array;
	void *p;

	if (n >= *cap)
		return;
	p = resize(*at, *cap * size, n * size);
	if (!p)
		return;
	*at = p;
	give_mem(m, (*cap - n) * size);
	*cap = n;
}

void mem_free(struct mem *m, void *p, size_t n, size_t size)
{
	if (!p)
		return;
	give_mem(m, (uint64_t)n * size);
	give_back(p, n * size);
}
