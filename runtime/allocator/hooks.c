/* What PyTorch calls, and what Python asks. */
#include "device.h"
#include "raise.h"

#include <errno.h>
#include <stdio.h>

#define TEXT_BYTES 1024
#define OOM_ENTRIES 1000000u /* kept where a snapshot is wanted at a failure */

__attribute__((noinline, cold)) static void *refuse(int is_memory, const char *text)
{
	if (process.on_oom) {
		process.on_oom(text);
		return NULL;
	}
	if (is_memory)
		raise_out_of_memory(text);
	raise_error(text);
}

__attribute__((noinline, cold)) static void *out_of_memory(struct device *d, uint64_t bytes,
							   void *stream)
{
	char text[TEXT_BYTES];
	uint64_t device_free, limit;

	pthread_mutex_lock(&d->lock);
	d->stats.ooms++;
	device_free = device_tell_oom(d, bytes, text, sizeof(text));
	device_event(d, PLIMSOLL_ALLOC_EVENT_OOM, device_free, bytes, (uint64_t)(uintptr_t)stream);
	limit = d->vmm.limit_bytes;
	pthread_mutex_unlock(&d->lock);
	/* without the lock: who looks may take the GIL, ask for numbers, and write a snapshot */
	snapshot_at_oom();
	if (process.observer)
		process.observer(d->ordinal, bytes, limit, device_free);
	return refuse(1, text);
}

void *plimsoll_malloc(ssize_t size, int device, void *stream)
{
	char text[TEXT_BYTES];
	struct device *d;
	uint64_t addr;

	if (size == 0)
		return NULL; /* as PyTorch does: its pointer is empty, and is never freed */
	d = device_get(device, text, sizeof(text));
	if (!d)
		return refuse(0, text);
	if (size < 0)
		return out_of_memory(d, (uint64_t)size, stream);
	pthread_mutex_lock(&d->lock);
	addr = device_malloc(d, (uint64_t)size, stream);
	pthread_mutex_unlock(&d->lock);
	return addr ? (void *)(uintptr_t)addr : out_of_memory(d, (uint64_t)size, stream);
}

void plimsoll_free(void *at, ssize_t size, int device, void *stream)
{
	struct device *d = device_lock(device);

	(void)size, (void)stream;
	if (!d)
		return;
	if (at)
		device_free(d, (uint64_t)(uintptr_t)at);
	pthread_mutex_unlock(&d->lock);
}

void plimsoll_init(int devices)
{
	(void)devices; /* a device is opened by its first request */
}

void plimsoll_reset(void)
{
	for (int i = 0; i < process.devices; i++) {
		struct device *d = device_lock(i);

		if (!d)
			continue;
		if (!d->captures)
			device_settle(d, 1);
		vmm_empty(&d->vmm);
		device_count_reserved(d);
		pthread_mutex_unlock(&d->lock);
	}
}

void plimsoll_fraction(double fraction, int device)
{
	char text[TEXT_BYTES];
	struct device *d = device_get(device, text, sizeof(text));

	if (!d || !(fraction >= 0 && fraction <= 1))
		return;
	pthread_mutex_lock(&d->lock);
	d->fraction = fraction;
	device_set_limit(d);
	pthread_mutex_unlock(&d->lock);
}

double plimsoll_alloc_fraction(int device)
{
	struct device *d = device_lock(device);
	double fraction;

	if (!d)
		return 1;
	fraction = d->fraction;
	pthread_mutex_unlock(&d->lock);
	return fraction;
}

void plimsoll_alloc_limit(int device, uint64_t bytes)
{
	char text[TEXT_BYTES];
	struct device *d = device_get(device, text, sizeof(text));

	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->limit_bytes = bytes;
	device_set_limit(d);
	pthread_mutex_unlock(&d->lock);
}

void *plimsoll_base(void *at, size_t *size)
{
	for (int i = 0; i < process.devices; i++) {
		struct device *d = device_lock(i);
		const struct vmm_node *b;

		if (!d)
			continue;
		b = vmm_block(&d->vmm, (uint64_t)(uintptr_t)at);
		if (b && size)
			*size = b->bytes;
		pthread_mutex_unlock(&d->lock);
		if (b)
			break;
	}
	return at;
}

/* Of which device a block is, is not said. */
static struct device *owner(uint64_t addr)
{
	for (int i = 0; i < process.devices; i++) {
		struct device *d = device_lock(i);

		if (!d)
			continue;
		if (vmm_block(&d->vmm, addr))
			return d; /* locked */
		pthread_mutex_unlock(&d->lock);
	}
	return NULL;
}

static uint64_t stream_of(const struct device *d, uint64_t addr)
{
	const struct vmm_node *b = vmm_block(&d->vmm, addr);

	return d->vmm.lanes.at[d->vmm.regions.at[b->region].lane].stream;
}

void plimsoll_record_stream(void *at, void *stream)
{
	struct user u = { (uint64_t)(uintptr_t)at, stream };
	struct device *d = owner(u.addr);
	struct addr_slot *slot;
	struct plim_err err;

	if (!d)
		return;
	for (size_t i = 0; i < d->users.n; i++)
		if (d->users.at[i].addr == u.addr && d->users.at[i].stream == stream)
			goto out;
	if (stream_of(d, u.addr) == (uint64_t)(uintptr_t)stream)
		goto out;
	if (addr_map_room(&d->used_by, &err) || vec_push(&d->mem, &d->users, u, &err))
		goto out;
	slot = addr_map_find(&d->used_by, u.addr);
	addr_map_put(&d->used_by, slot, u.addr, 1);
out:
	pthread_mutex_unlock(&d->lock);
}

static uint64_t key_of(struct plimsoll_pool pool)
{
	return pool.a << 32 ^ pool.b;
}

static struct pool_uses *uses_of(struct device *d, uint64_t key)
{
	struct plim_err err;

	for (size_t i = 0; i < d->pools.n; i++)
		if (d->pools.at[i].key == key)
			return &d->pools.at[i];
	if (vec_push(&d->mem, &d->pools, ((struct pool_uses){ key, 0 }), &err))
		return NULL;
	return &d->pools.at[d->pools.n - 1];
}

void plimsoll_begin(int device, struct plimsoll_pool pool, void *filter)
{
	char text[TEXT_BYTES];
	struct device *d = device_get(device, text, sizeof(text));
	struct pool_uses *u;

	(void)filter; /* which streams: those that capture, and they can be asked */
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->captures++;
	d->capture_pool = key_of(pool);
	u = uses_of(d, d->capture_pool);
	if (u)
		u->captures++;
	pthread_mutex_unlock(&d->lock);
}

void plimsoll_end(int device, struct plimsoll_pool pool)
{
	struct device *d = device_lock(device);

	(void)pool;
	if (!d)
		return;
	d->captures -= d->captures > 0;
	device_capture_ended(d);
	pthread_mutex_unlock(&d->lock);
}

void plimsoll_begin_stream(int device, void *stream, struct plimsoll_pool pool)
{
	(void)stream; /* as the filter */
	plimsoll_begin(device, pool, NULL);
}

void plimsoll_end_stream(int device, void *stream)
{
	(void)stream;
	plimsoll_end(device, (struct plimsoll_pool){ 0, 0 });
}

void plimsoll_capture_begin(int device, unsigned long long capture, struct plimsoll_pool pool)
{
	(void)capture;
	plimsoll_begin(device, pool, NULL);
}

void plimsoll_capture_end(int device, unsigned long long capture)
{
	(void)capture;
	plimsoll_end(device, (struct plimsoll_pool){ 0, 0 });
}

void plimsoll_release(int device, struct plimsoll_pool pool)
{
	struct device *d = device_lock(device);
	struct pool_uses *u;

	if (!d)
		return;
	u = uses_of(d, key_of(pool));
	if (u && u->captures && !--u->captures)
		vmm_drop_pool(&d->vmm, key_of(pool));
	pthread_mutex_unlock(&d->lock);
}

/* ---- what Python asks ---- */

/* Whatever peaks were reset. */
static uint64_t reserved_most(const struct device *d)
{
	uint64_t before = d->stats.reserved_most_bytes, peak = d->vmm.counts.mapped_peak_bytes;

	return before > peak ? before : peak;
}

void plimsoll_alloc_stats(int device, struct plimsoll_alloc_stats *out)
{
	struct device *d = device_lock(device);

	*out = (struct plimsoll_alloc_stats){ .limit_bytes = 0 };
	if (!d)
		return;
	*out = d->stats;
	out->retries = d->vmm.counts.moves;
	out->moved_bytes = d->vmm.counts.moved_bytes;
	out->moved_ns = d->vmm.counts.moved_ns;
	out->reserved_most_bytes = reserved_most(d);
	out->expandable_most_bytes = d->vmm.counts.expandable_peak_bytes;
	out->plan_conflicts = d->vmm.counts.conflicts;
	for (uint32_t i = 0; i < d->vmm.lanes.n; i++) {
		const struct cycle_counts *c = &d->vmm.lanes.at[i].cycles.counts;

		out->plan_hits += c->hits;
		out->plan_hit_bytes += c->hit_bytes;
		out->plan_misses += c->misses;
		out->plan_lost += c->lost;
		out->plan_found += c->found;
		out->plan_learned += c->learned;
	}
	pthread_mutex_unlock(&d->lock);
}

static void reset(int device, int accumulated)
{
	struct device *d = device_lock(device);

	if (!d)
		return;
	for (unsigned i = 0; i < PLIMSOLL_ALLOC_STATS; i++)
		for (unsigned k = 0; k < 3; k++) {
			struct plimsoll_alloc_count *c = &d->stats.count[i][k];

			if (accumulated)
				c->allocated = c->freed = 0;
			else
				c->peak = c->current;
		}
	if (!accumulated) {
		d->stats.reserved_most_bytes = reserved_most(d);
		d->vmm.counts.mapped_peak_bytes = d->vmm.counts.mapped_bytes;
	}
	pthread_mutex_unlock(&d->lock);
}

void plimsoll_alloc_reset_peaks(int device)
{
	reset(device, 0);
}

void plimsoll_alloc_reset_accumulated(int device)
{
	reset(device, 1);
}

static const char *read_plan(struct cycles_plan *plan, struct mem *m, const char *path)
{
	static struct plim_err err;
	uint8_t *bytes = malloc(CYCLES_BYTES_MAX);
	FILE *f = bytes ? fopen(path, "re") : NULL;
	const char *why = bytes ? "the file cannot be opened" : "out of host memory";

	if (f) {
		size_t n = fread(bytes, 1, CYCLES_BYTES_MAX, f);

		mem_init(m, CYCLES_BYTES_MAX * 4);
		why = cycles_read(plan, m, bytes, n, &err) ? err.message : NULL;
		fclose(f);
	}
	free(bytes);
	return why;
}

const char *plimsoll_alloc_plan(const char *path)
{
	static struct mem m;
	const char *why;

	if (process.has_plan)
		return "there is a plan already";
	why = read_plan(&process.plan, &m, path);
	process.has_plan = !why;
	return why;
}

const char *plimsoll_alloc_check(const char *path)
{
	struct cycles_plan plan;
	struct mem m;
	const char *why = read_plan(&plan, &m, path);

	if (!why)
		cycles_release(&plan);
	return why;
}

void plimsoll_alloc_learn(int on)
{
	process.learns = on;
}

const char *plimsoll_alloc_throws(void)
{
	return raise_what();
}

void plimsoll_alloc_on_oom(void (*raise)(const char *text))
{
	process.on_oom = raise;
}

void plimsoll_alloc_observe(plimsoll_alloc_observer observer)
{
	process.observer = observer;
}

/* A number of a variable, or what stands for none. */
static uint64_t number_of(const char *name, uint64_t none)
{
	const char *text = getenv(name);
	char *end = NULL;
	unsigned long long value;

	if (!text || !*text)
		return none;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (!errno && !*end && *text >= '0' && *text <= '9')
		return value;
	fprintf(stderr, "plimsoll: %s=%s is not a number; going on without it\n", name, text);
	return none;
}

/* PLIMSOLL_ALLOC_PLAN, _LEARN, _LIMIT, _RECORD, _OOM_DIR: without code. */
__attribute__((constructor)) static void from_environment(void)
{
	const char *plan = getenv("PLIMSOLL_ALLOC_PLAN"), *learn = getenv("PLIMSOLL_ALLOC_LEARN");
	const char *why = plan && *plan ? plimsoll_alloc_plan(plan) : NULL;
	const char *oom_dir = getenv("PLIMSOLL_ALLOC_OOM_DIR");

	if (why)
		fprintf(stderr, "plimsoll: %s: %s; going on without a plan\n", plan, why);
	if (learn && !strcmp(learn, "0"))
		process.learns = 0;
	process.oom_dir = oom_dir && *oom_dir ? oom_dir : NULL;
	process.limit_bytes = number_of("PLIMSOLL_ALLOC_LIMIT", UINT64_MAX);
	process.entries = number_of("PLIMSOLL_ALLOC_RECORD", process.oom_dir ? OOM_ENTRIES : 0);
}
