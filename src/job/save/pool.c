/* Staging memory: slots of one size that are made when they are first needed, and kept. */
#include "parts.h"

#include <sys/mman.h>

uint64_t save_staging_share(uint64_t room_bytes, uint32_t host_ranks)
{
	return room_bytes / 4 / host_ranks;
}

void pool_init(struct pool *p, struct mem *m, uint64_t bytes)
{
	*p = (struct pool){ .mem = m };
	p->limit = (size_t)(bytes / SAVE_SLOT_BYTES);
	p->limit = p->limit < 2 ? 2 : p->limit;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->freed, NULL);
}

/* Page-locked where a GPU copies into it. */
static struct pool_slot make_pool(const struct pool *p)
{
	struct pool_slot x = { .locked = p->cuda != NULL };

	if (x.locked) {
		if (p->cuda->host_alloc(&x.at, SAVE_SLOT_BYTES, CUDA_HOST_PORTABLE))
			x.at = NULL;
		return x;
	}
	x.at = mmap(NULL, SAVE_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	x.at = x.at == MAP_FAILED ? NULL : x.at;
	return x;
}

static void unmake(const struct pool *p, struct pool_slot x)
{
	if (x.locked)
		(void)p->cuda->host_free(x.at);
	else
		munmap(x.at, SAVE_SLOT_BYTES);
}

/* With the lock, which is let go meanwhile: NULL if there may be no more, or memory is refused. */
static void *grow_pool(struct pool *p)
{
	struct pool_slot x;

	if (p->taken >= p->limit)
		return NULL;
	p->taken++;
	pthread_mutex_unlock(&p->lock);
	x = make_pool(p);
	pthread_mutex_lock(&p->lock);
	if (x.at && (vec_need(p->mem, &p->free, p->all.n + 1, NULL) ||
		     vec_push(p->mem, &p->all, x, NULL))) {
		unmake(p, x);
		x.at = NULL;
	}
	if (!x.at) { /* it will not be given later either */
		p->taken--;
		p->limit = p->taken;
		pthread_cond_broadcast(&p->freed);
	}
	return x.at;
}

enum plim_status pool_take(struct pool *p, void **slot, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	*slot = NULL;
	pthread_mutex_lock(&p->lock);
	while (!st && !*slot) {
		if (p->free.n)
			*slot = p->free.at[--p->free.n];
		else if (p->taken < p->limit)
			*slot = grow_pool(p);
		else if (!p->taken)
			st = err_set(err, PLIM_E_NOMEM,
				     "no staging memory: %zu MiB at once are refused",
				     SAVE_SLOT_BYTES >> 20);
		else
			pthread_cond_wait(&p->freed, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return st;
}

void pool_give(struct pool *p, void *slot)
{
	if (!slot)
		return;
	pthread_mutex_lock(&p->lock);
	CHECK(p->free.n < p->free.cap);
	p->free.at[p->free.n++] = slot;
	pthread_cond_signal(&p->freed);
	pthread_mutex_unlock(&p->lock);
}

bool pool_add(struct pool *p)
{
	void *at;

	pthread_mutex_lock(&p->lock);
	at = grow_pool(p);
	pthread_mutex_unlock(&p->lock);
	pool_give(p, at);
	return at != NULL;
}

void pool_release(struct pool *p)
{
	for (size_t i = 0; i < p->all.n; i++)
		unmake(p, p->all.at[i]);
	vec_release(p->mem, &p->all);
	vec_release(p->mem, &p->free);
	pthread_cond_destroy(&p->freed);
	pthread_mutex_destroy(&p->lock);
}
