#include "mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t read_limit(const char *path)
{
	char text[64] = "";
	FILE *f = fopen(path, "re");
	uint64_t n = UINT64_MAX;

	if (!f)
		return n;
	if (fgets(text, sizeof(text), f) && text[0] >= '0' && text[0] <= '9')
		n = strtoull(text, NULL, 10);
	fclose(f);
	return n ? n : UINT64_MAX;
}

/* Every level of the cgroup path can hold a limit; the smallest one binds. */
static uint64_t cgroup_limit(void)
{
	static const struct {
		const char *controller, *root, *file;
	} kinds[] = {
		{ "0::", "/sys/fs/cgroup", "memory.max" },
		{ ":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes" },
	};
	char line[1024], path[2048];
	FILE *f = fopen("/proc/self/cgroup", "re");
	uint64_t best = UINT64_MAX;

	if (!f)
		return best;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			char *at = strstr(line, kinds[k].controller);
			char *dir = at ? at + strlen(kinds[k].controller) : NULL;

			while (dir) {
				char *slash = strrchr(dir, '/');
				uint64_t n;

				snprintf(path, sizeof(path), "%s%s/%s", kinds[k].root, dir,
					 kinds[k].file);
				n = read_limit(path);
				best = n < best ? n : best;
				if (slash)
					*slash = 0;
				else
					dir = NULL;
			}
		}
	}
	fclose(f);
	return best;
}

uint64_t mem_default_limit(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	uint64_t ram = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 32;
	uint64_t group = cgroup_limit();

	return (group < ram ? group : ram) / 2;
}

void mem_init(struct mem *m, uint64_t limit_bytes)
{
	m->limit_bytes = limit_bytes ? limit_bytes : mem_default_limit();
	atomic_init(&m->used_bytes, 0);
	atomic_init(&m->peak_bytes, 0);
	atomic_init(&m->fail_after, -1);
}

static enum plim_status take(struct mem *m, uint64_t bytes, struct plim_err *err)
{
	uint64_t used, peak;

	if (atomic_load_explicit(&m->fail_after, memory_order_relaxed) >= 0 &&
	    atomic_fetch_sub(&m->fail_after, 1) == 0)
		return err_set(err, PLIM_E_NOMEM, "out of memory (asked for %llu bytes)",
			       (unsigned long long)bytes);
	used = atomic_fetch_add(&m->used_bytes, bytes) + bytes;
	if (used > m->limit_bytes || used < bytes) {
		atomic_fetch_sub(&m->used_bytes, bytes);
		return err_set(err, PLIM_E_LIMIT,
			       "this input needs more than %llu MiB of memory; allow more with "
			       "--max-memory",
			       (unsigned long long)(m->limit_bytes >> 20));
	}
	peak = atomic_load(&m->peak_bytes);
	while (used > peak && !atomic_compare_exchange_weak(&m->peak_bytes, &peak, used))
		;
	return PLIM_OK;
}

static void give(struct mem *m, uint64_t bytes)
{
	atomic_fetch_sub(&m->used_bytes, bytes);
}

/*
 * Columns of millions of rows are touched from end to end: with 2 MiB pages that costs a few hundred
 * page faults instead of tens of thousands (a tenth of the time of reading a large snapshot).
 */
#define HUGE_PAGE ((uintptr_t)2 << 20)

static void advise_huge(void *p, size_t bytes)
{
	uintptr_t from = ((uintptr_t)p + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	uintptr_t to = ((uintptr_t)p + bytes) & ~(HUGE_PAGE - 1);

	if (bytes >= 4 * HUGE_PAGE && to > from)
		(void)madvise((void *)from, to - from,
			      MADV_HUGEPAGE); /* a wish: no matter if refused */
}

void *mem_new(struct mem *m, size_t n, size_t size, struct plim_err *err)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		err_set(err, PLIM_E_NOMEM, "a size overflows");
		return NULL;
	}
	if (take(m, bytes, err))
		return NULL;
	p = calloc(1, bytes ? bytes : 1);
	if (!p) {
		give(m, bytes);
		err_set(err, PLIM_E_NOMEM, "out of memory (asked for %zu bytes)", bytes);
	} else {
		advise_huge(p, bytes);
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
	st = take(m, bytes - *cap * size, err);
	if (st)
		return st;
	p = realloc(*at, bytes);
	if (!p) {
		give(m, bytes - *cap * size);
		return err_set(err, PLIM_E_NOMEM, "out of memory (asked for %zu bytes)", bytes);
	}
	advise_huge(p, bytes);
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
	p = realloc(*at, n > 0 ? n * size : 1);
	if (!p)
		return;
	*at = p;
	give(m, (*cap - n) * size);
	*cap = n;
}

void mem_free(struct mem *m, void *p, size_t n, size_t size)
{
	if (!p)
		return;
	give(m, (uint64_t)n * size);
	free(p);
}
