/* The writer's side of the gauge: one mapping, a sequence lock, nothing that can wait. */
#include "gauge.h"

#include "base/base.h"
#include "result_tables.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct plim_gauge_device) == 128, "a slot");
_Static_assert(offsetof(struct plim_gauge_page, run) == 48, "as docs/gauge.md says");
_Static_assert(offsetof(struct plim_gauge_page, sequence) == 128, "as docs/gauge.md says");
_Static_assert(offsetof(struct plim_gauge_page, devices) == 256, "as docs/gauge.md says");
_Static_assert(offsetof(struct plim_gauge_page, marks) == 2304, "as docs/gauge.md says");
_Static_assert(sizeof(struct plim_gauge_page) == PLIM_GAUGE_BYTES, "a page");

struct plim_gauge {
	struct plim_gauge_page *page;
	pid_t pid;        /* the maker; a forked child has the mapping too, and leaves it alone */
	unsigned forks;   /* when it was made */
	uint64_t last_ns; /* when the last step ended */
	char path[512];
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_gauge(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static void put_double(double *at, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	put_gauge((uint64_t *)(void *)at, bits);
}

/* Words are stored one by one, so that a reader never sees half of one. */
static void put_gauge_words(void *to, const void *from, size_t bytes)
{
	uint64_t *at = to, word;

	for (size_t i = 0; i < bytes / 8; i++) {
		memcpy(&word, (const char *)from + 8 * i, 8);
		put_gauge(at + i, word);
	}
}

static unsigned forks;

static void forked(void)
{
	forks++;
}

static void count_forks(void)
{
	(void)pthread_atfork(NULL, NULL, forked);
}

unsigned gauge_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, count_forks);
	return forks;
}

static bool begin_gauge(struct plim_gauge *g)
{
	if (!g || g->forks != forks)
		return false;
	put_gauge(&g->page->sequence, g->page->sequence + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return true;
}

static void end_gauge(struct plim_gauge *g, uint64_t now)
{
	put_gauge(&g->page->updated_ns, now);
	__atomic_store_n(&g->page->sequence, g->page->sequence + 1, __ATOMIC_RELEASE);
}

void plim_gauge_options_init(struct plim_gauge_options *o)
{
	*o = (struct plim_gauge_options){ .size = sizeof(*o),
					  .writer = PLIM_GAUGE_C,
					  .total_steps = PLIM_UNKNOWN };
}

/* Pages of processes that are gone: killed ones cannot remove theirs. */
static void sweep(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d)) != NULL) {
		unsigned pid;
		int n = 0;
		struct plim_gauge_page page;

		if (sscanf(e->d_name, "plimsoll.%10u%n", &pid, &n) != 1 || e->d_name[n] ||
		    gauge_start_time(pid))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		/* another user's, another namespace's, or no page: not ours to remove */
		if (!access("/proc/self/stat", R_OK) && !plim_gauge_read(0, path, &page, NULL))
			unlink(path);
	}
	if (d)
		closedir(d);
}

static enum plim_status gauge_place(struct plim_gauge *g, const char *chosen, struct plim_err *err)
{
	const char *folders[] = { "/dev/shm", getenv("XDG_RUNTIME_DIR") };

	if (chosen) {
		snprintf(g->path, sizeof(g->path), "%s", chosen);
		return PLIM_OK;
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		if (!folders[i] || access(folders[i], W_OK))
			continue;
		sweep(folders[i]);
		snprintf(g->path, sizeof(g->path), "%s/plimsoll.%d", folders[i], (int)g->pid);
		return PLIM_OK;
	}
	return err_set(err, PLIM_E_IO,
		       "there is no folder for the gauge: /dev/shm cannot be written, and "
		       "XDG_RUNTIME_DIR is not set");
}

/* A file of our own: what has the name already is of a process that is gone, or no one's business. */
static enum plim_status map_gauge(struct plim_gauge *g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	void *at;
	int fd;

	unlink(g->path);
	fd = open(g->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, errno, "cannot make '%s'", g->path);
	if (posix_fallocate(fd, 0, PLIM_GAUGE_BYTES)) /* else a full /dev/shm is a signal later */
		st = err_errno(err, ENOSPC, "cannot make '%s'", g->path);
	at = st ? MAP_FAILED
		: mmap(NULL, PLIM_GAUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!st && at == MAP_FAILED)
		st = err_errno(err, errno, "cannot map '%s'", g->path);
	close(fd);
	if (st)
		unlink(g->path);
	else
		g->page = at;
	return st;
}

static void first(struct plim_gauge *g, const struct plim_gauge_options *o)
{
	struct plim_gauge_page *p = g->page;

	p->version = PLIM_GAUGE_VERSION;
	p->bytes = PLIM_GAUGE_BYTES;
	p->pid = (uint32_t)g->pid;
	p->start_time = gauge_start_time(p->pid);
	p->made_ns = now_ns(CLOCK_REALTIME);
	p->writer = (uint32_t)o->writer;
	p->rank = o->rank;
	p->world = o->world;
	p->total_steps = o->total_steps;
	if (o->run)
		snprintf(p->run, sizeof(p->run), "%s", o->run);
	p->loss = p->lr = p->grad_norm = NAN;
	p->last_step_ns = PLIM_UNKNOWN;
	p->updated_ns = p->phase_since_ns = g->last_ns = now_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < PLIM_GAUGE_STEPS; i++)
		p->marks[i].peak_allocated_bytes = PLIM_UNKNOWN;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(p->magic, "PLIMGAGE", 8); /* last: before it is not a page */
}

enum plim_status plim_gauge_open(const struct plim_gauge_options *options, struct plim_gauge **out,
				 struct plim_err *err)
{
	struct plim_gauge_options o;
	struct plim_gauge *g;
	enum plim_status st;

	*out = NULL;
	plim_gauge_options_init(&o);
	st = options_take(&gauge_options_table, &o, options, err);
	if (st)
		return st;
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	g->pid = getpid();
	g->forks = gauge_forks();
	st = gauge_place(g, o.path, err);
	if (!st)
		st = map_gauge(g, err);
	if (st) {
		free(g);
		return st;
	}
	first(g, &o);
	*out = g;
	return PLIM_OK;
}

void plim_gauge_close(struct plim_gauge *g)
{
	if (!g)
		return;
	if (g->pid == getpid())
		unlink(g->path);
	munmap(g->page, PLIM_GAUGE_BYTES);
	free(g);
}

const char *plim_gauge_path(const struct plim_gauge *g)
{
	return g->path;
}

static void turn_gauge(struct plim_gauge_page *p, uint32_t phase, uint64_t now)
{
	if (p->phase >= 1 && p->phase <= 7)
		put_gauge(&p->phase_ns[p->phase - 1],
			  p->phase_ns[p->phase - 1] + (now - p->phase_since_ns));
	__atomic_store_n(&p->phase, phase, __ATOMIC_RELAXED);
	put_gauge(&p->phase_since_ns, now);
}

void plim_gauge_set_phase(struct plim_gauge *g, enum plim_gauge_phase phase)
{
	uint64_t now;

	if (!begin_gauge(g))
		return;
	now = now_ns(CLOCK_MONOTONIC);
	turn_gauge(g->page, phase, now);
	end_gauge(g, now);
}

void plim_gauge_set_step(struct plim_gauge *g, const struct plim_gauge_step *s)
{
	struct plim_gauge_page *p;
	struct plim_gauge_mark mark = { (uint32_t)s->step, s->flags, s->peak_allocated_bytes };
	uint64_t now;

	if (!begin_gauge(g))
		return;
	p = g->page;
	now = now_ns(CLOCK_MONOTONIC);
	put_gauge(&p->step, s->step);
	put_gauge(&p->last_step_ns, now - g->last_ns);
	g->last_ns = now;
	if (!isnan(s->loss))
		put_double(&p->loss, s->loss);
	if (!isnan(s->lr))
		put_double(&p->lr, s->lr);
	if (!isnan(s->grad_norm))
		put_double(&p->grad_norm, s->grad_norm);
	__atomic_store_n(&p->epoch, s->epoch, __ATOMIC_RELAXED);
	put_gauge_words(&p->marks[s->step % PLIM_GAUGE_STEPS], &mark, sizeof(mark));
	end_gauge(g, now);
}

void plim_gauge_set_device(struct plim_gauge *g, uint32_t slot,
			   const struct plim_gauge_device *device)
{
	if (slot >= PLIM_GAUGE_DEVICES || !begin_gauge(g))
		return;
	put_gauge_words(&g->page->devices[slot], device, sizeof(*device));
	if (slot >= g->page->device_count)
		__atomic_store_n(&g->page->device_count, slot + 1, __ATOMIC_RELAXED);
	end_gauge(g, now_ns(CLOCK_MONOTONIC));
}

struct plim_gauge *gauge_over(void *page)
{
	struct plim_gauge *g = calloc(1, sizeof(*g));

	if (g) {
		g->page = page;
		g->pid = getpid();
		g->forks = gauge_forks();
	}
	return g;
}

void gauge_forget(struct plim_gauge *gauge)
{
	free(gauge);
}

uint64_t gauge_page_step(struct plim_gauge *g, uint64_t step, const uint64_t numbers[6],
			 uint64_t peak, uint32_t slot, uint32_t phase, uint64_t ended)
{
	struct plim_gauge_mark mark = { (uint32_t)step, 0, peak };
	struct plim_gauge_device *d;
	uint64_t now;

	if (slot >= PLIM_GAUGE_DEVICES || !begin_gauge(g))
		return ended;
	now = now_ns(CLOCK_MONOTONIC);
	if (phase)
		turn_gauge(g->page, phase, now);
	put_gauge(&g->page->step, step);
	put_gauge(&g->page->last_step_ns, now - ended);
	d = &g->page->devices[slot];
	put_gauge(&d->allocated_bytes, numbers[0]);
	put_gauge(&d->reserved_bytes, numbers[1]);
	put_gauge(&d->peak_allocated_bytes, numbers[2]);
	put_gauge(&d->peak_reserved_bytes, numbers[3]);
	put_gauge(&d->alloc_retries, numbers[4]);
	put_gauge(&d->ooms, numbers[5]);
	if (slot >= g->page->device_count)
		__atomic_store_n(&g->page->device_count, slot + 1, __ATOMIC_RELAXED);
	put_gauge_words(&g->page->marks[step % PLIM_GAUGE_STEPS], &mark, sizeof(mark));
	end_gauge(g, now);
	return now;
}
