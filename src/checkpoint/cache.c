/*
 * The cache of components.  One lock guards all that is below struct plim_weights; loading happens outside of
 * it.  An entry that is being loaded has its room reserved, so that the budget holds at every moment.
 */
#include "checkpoint.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNED ((uint64_t)256) /* tensors in the memory of a set: as the GPU reads best */

enum state { ABSENT, LOADING, HELD };

/* What a set owns next to itself. */
struct plim_weights_hidden {
	struct intern names;
	uint64_t *dims;
	size_t dims_n;
	void *block; /* of all tensors, if they are in one */
	uint64_t block_bytes;
};

struct entry {
	char *name, *path, *patterns; /* one block, at name */
	size_t text_bytes;
	enum state state;
	uint64_t pins, last_use, loads; /* loads: that ended, well or not */
	uint64_t waiting;               /* threads that wait for one */
	uint64_t written;               /* ckpt_state of what is held */
	uint64_t reserved_bytes;
	struct plim_weights_set set;
	struct plim_weights_hidden hidden;
	struct plim_err why; /* of the last load that failed */
};

struct plim_weights {
	struct mem mem;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a load ended */
	struct plim_weights_place place;
	struct ckpt_bulk bulk;
	bool own_place; /* the caller gave none */
	uint64_t max_sets, max_bytes, clock, loads;
	VEC(struct entry *) entries;
	struct plim_weights_stats stats;
};

/* ---- host memory ---- */

static enum plim_status host_take(void *ctx, const struct plim_weight *t, void **where,
				  struct plim_err *err)
{
	struct plim_weights *w = ctx;

	*where = mem_new(&w->mem, t->bytes, 1, err);
	return *where ? PLIM_OK : mem_status(err);
}

static enum plim_status host_fill(void *ctx, void *where, uint64_t at, const void *bytes, size_t n,
				  struct plim_err *err)
{
	(void)ctx;
	(void)err;
	memcpy((char *)where + at, bytes, n);
	return PLIM_OK;
}

static void host_drop(void *ctx, const struct plim_weight *t, void *where)
{
	struct plim_weights *w = ctx;

	mem_free(&w->mem, where, t->bytes, 1);
}

/* ---- a set ---- */

/* All its tensors as one. */
static struct plim_weight cached_whole(const struct plim_weights_set *set)
{
	return (struct plim_weight){ .name = set->name, .bytes = set->hidden->block_bytes };
}

static void drop_block(struct plim_weights *w, const struct plim_weights_set *set)
{
	const struct plim_weight all = cached_whole(set);

	if (w->own_place)
		w->bulk.drop(w->bulk.ctx, set->hidden->block, all.bytes);
	else
		w->place.drop(w->place.ctx, &all, set->hidden->block);
}

static void release_set(struct plim_weights *w, struct plim_weights_set *set)
{
	struct plim_weights_hidden *h = set->hidden;

	if (h->block)
		drop_block(w, set);
	for (size_t i = 0; !h->block && i < set->tensor_count; i++)
		if (set->tensors[i].where)
			w->place.drop(w->place.ctx, &set->tensors[i], set->tensors[i].where);
	mem_free(&w->mem, set->tensors, set->tensor_count, sizeof(*set->tensors));
	mem_free(&w->mem, h->dims, h->dims_n, sizeof(*h->dims));
	intern_release(&h->names);
	*h = (struct plim_weights_hidden){ 0 };
	*set = (struct plim_weights_set){ .name = set->name, .hidden = h };
}

/* Names and shapes of what matches, copied out of the checkpoint; `chosen` gets their numbers. */
static enum plim_status describe(struct plim_weights *w, const struct ckpt *c,
				 struct plim_weights_set *set, const uint32_t *chosen,
				 struct plim_err *err)
{
	struct plim_weights_hidden *h = set->hidden;
	size_t dim = 0;
	enum plim_status st = PLIM_OK;

	set->tensors = mem_new(&w->mem, set->tensor_count, sizeof(*set->tensors), err);
	for (size_t i = 0; i < set->tensor_count; i++)
		h->dims_n += c->tensors.at[chosen[i]].rank;
	h->dims = mem_new(&w->mem, h->dims_n, sizeof(*h->dims), err);
	if (!set->tensors || !h->dims)
		return mem_status(err);
	for (size_t i = 0; !st && i < set->tensor_count; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[chosen[i]];
		const char *name = ckpt_text(c, t->name);
		uint32_t id;

		st = intern_add(&h->names, name, strlen(name), &id, err);
		if (st)
			break;
		if (t->rank)
			memcpy(h->dims + dim, ckpt_shape(c, t), t->rank * sizeof(*h->dims));
		set->tensors[i] = (struct plim_weight){ intern_text(&h->names, id),
							t->dtype->name,
							h->dims + dim,
							t->rank,
							ckpt_tensor_bytes(t),
							NULL };
		dim += t->rank;
	}
	return st;
}

/* One more tensor in the memory of a set. */
static void grow_cached(uint64_t *all, uint64_t bytes)
{
	if (__builtin_add_overflow(bytes, ALIGNED - 1, &bytes) ||
	    __builtin_add_overflow(*all, bytes & ~(ALIGNED - 1), all))
		*all = UINT64_MAX;
}

static enum plim_status choose_cached(struct plim_weights *w, const struct ckpt *c, struct entry *e,
				      uint32_t **chosen, struct plim_err *err)
{
	struct plim_weights_set *set = &e->set;

	intern_init(&e->hidden.names, &w->mem);
	*chosen = mem_new(&w->mem, c->tensors.n, sizeof(**chosen), err);
	if (!*chosen)
		return mem_status(err);
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];

		if (!ckpt_is_wanted(ckpt_text(c, t->name), e->patterns))
			continue;
		(*chosen)[set->tensor_count++] = (uint32_t)i;
		if (__builtin_add_overflow(set->bytes, ckpt_tensor_bytes(t), &set->bytes))
			set->bytes = UINT64_MAX;
		grow_cached(&e->hidden.block_bytes, ckpt_tensor_bytes(t));
	}
	if (!set->tensor_count)
		return err_set(err, PLIM_E_ARG, "no tensor of '%.200s' matches '%.200s'", e->path,
			       e->patterns);
	return describe(w, c, set, *chosen, err);
}

struct filling {
	struct plim_weights *w;
	void *where;
};

static enum plim_status fill_cached(void *ctx, uint64_t at, const void *bytes, size_t n,
				    struct plim_err *err)
{
	const struct filling *f = ctx;

	return f->w->place.fill(f->w->place.ctx, f->where, at, bytes, n, err);
}

/* Into one piece of memory. */
static enum plim_status load_block(struct plim_weights *w, struct ckpt *c,
				   struct plim_weights_set *set, const uint32_t *chosen,
				   struct plim_err *err)
{
	const struct plim_weight all = cached_whole(set);
	void *stream = w->place.stream;
	uint64_t at = 0;
	void *block = NULL;
	enum plim_status st = w->own_place ? w->bulk.take(w->bulk.ctx, all.bytes, &block, err)
					   : w->place.take(w->place.ctx, &all, &block, err);

	if (st)
		return st;
	set->hidden->block = block;
	for (size_t i = 0; i < set->tensor_count; i++) {
		set->tensors[i].where = (uint8_t *)block + at;
		grow_cached(&at, set->tensors[i].bytes);
	}
	return w->bulk.fill(w->bulk.ctx, c, chosen, set, w->own_place ? NULL : &stream, err);
}

static enum plim_status load_tensors(struct plim_weights *w, struct ckpt *c,
				     struct plim_weights_set *set, const uint32_t *chosen,
				     struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (w->bulk.fill)
		return load_block(w, c, set, chosen, err);
	for (size_t i = 0; !st && i < set->tensor_count; i++) {
		struct plim_weight *t = &set->tensors[i];
		struct filling f = { .w = w };

		st = w->place.take(w->place.ctx, t, &f.where, err);
		if (st)
			break;
		t->where = f.where;
		st = ckpt_load(c, chosen[i], fill_cached, &f, err);
	}
	return st;
}

/* ---- the budget; called with the lock ---- */

static void evict(struct plim_weights *w, struct entry *e)
{
	struct plim_weights_set set = e->set;
	struct plim_weights_hidden hidden = e->hidden;

	e->state = ABSENT;
	e->hidden = (struct plim_weights_hidden){ 0 };
	e->set = (struct plim_weights_set){ .name = e->name, .hidden = &e->hidden };
	w->stats.sets--;
	w->stats.bytes -= e->reserved_bytes;
	e->reserved_bytes = 0;
	set.hidden = &hidden;
	release_set(w, &set);
}

static struct entry *least_recent(const struct plim_weights *w)
{
	struct entry *least = NULL;

	for (size_t i = 0; i < w->entries.n; i++) {
		struct entry *e = w->entries.at[i];

		if (e->state == HELD && !e->pins && (!least || e->last_use < least->last_use))
			least = e;
	}
	return least;
}

static bool cached_fits(const struct plim_weights *w, uint64_t bytes)
{
	return (!w->max_sets || w->stats.sets < w->max_sets) && bytes <= w->max_bytes &&
	       w->stats.bytes <= w->max_bytes - bytes;
}

/* Room for a set that is going to be loaded; nothing is evicted in vain for one that can never fit. */
static enum plim_status reserve_cached(struct plim_weights *w, struct entry *e, uint64_t bytes,
				       struct plim_err *err)
{
	while (bytes <= w->max_bytes && !cached_fits(w, bytes)) {
		struct entry *old = least_recent(w);

		if (!old)
			break;
		evict(w, old);
		w->stats.evictions++;
	}
	if (!cached_fits(w, bytes))
		return err_set(
			err, PLIM_E_LIMIT,
			"'%.200s' has %llu bytes: next to %llu sets of %llu bytes in use it does "
			"not fit into %llu",
			e->name, (unsigned long long)bytes, (unsigned long long)w->stats.sets,
			(unsigned long long)w->stats.bytes, (unsigned long long)w->max_bytes);
	e->reserved_bytes = bytes;
	w->stats.sets++;
	w->stats.bytes += bytes;
	return PLIM_OK;
}

/* ---- loading; called without the lock, for an entry that is LOADING ---- */

static enum plim_status load(struct plim_weights *w, struct entry *e, struct plim_err *err)
{
	struct ckpt c;
	uint32_t *chosen = NULL;
	size_t room;
	bool reserved = false;
	enum plim_status st;

	e->written = ckpt_state(e->path);
	ckpt_init(&c, &w->mem);
	st = ckpt_read(&c, e->path, err);
	if (!st)
		st = ckpt_join(&c, err);
	room = c.tensors.n;
	if (!st && c.unreadable)
		st = err_set(err, PLIM_E_FORMAT, "'%.200s': %.600s", e->path,
			     c.findings.n ? ckpt_text(&c, c.findings.at[0].text) : "no checkpoint");
	if (!st)
		st = choose_cached(w, &c, e, &chosen, err);
	if (!st) {
		pthread_mutex_lock(&w->lock);
		st = reserve_cached(w, e, w->bulk.fill ? e->hidden.block_bytes : e->set.bytes, err);
		pthread_mutex_unlock(&w->lock);
		reserved = !st;
	}
	if (!st)
		st = load_tensors(w, &c, &e->set, chosen, err);
	if (!st && ckpt_state(e->path) != e->written)
		st = err_set(err, PLIM_E_IO, "'%.200s' was changed while it was read", e->path);
	mem_free(&w->mem, chosen, chosen ? room : 0, sizeof(*chosen));
	ckpt_close(&c);
	if (!st)
		return PLIM_OK;
	release_set(w, &e->set);
	pthread_mutex_lock(&w->lock);
	if (reserved) {
		w->stats.sets--;
		w->stats.bytes -= e->reserved_bytes;
		e->reserved_bytes = 0;
	}
	pthread_mutex_unlock(&w->lock);
	return st;
}

/* ---- the public functions ---- */

enum plim_status ckpt_cache_new(const struct plim_weights_options *o, const struct ckpt_bulk *bulk,
				struct plim_weights **out, struct plim_err *err)
{
	struct plim_weights *w = calloc(1, sizeof(*w));

	*out = w;
	if (!w)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&w->mem, 0);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->place = o->place ? *o->place
			    : (struct plim_weights_place){ host_take, host_fill, host_drop, w };
	w->own_place = !o->place;
	w->bulk = bulk ? *bulk : (struct ckpt_bulk){ 0 };
	w->max_sets = o->max_sets;
	w->max_bytes = o->max_bytes;
	return PLIM_OK;
}

static void free_entry(struct plim_weights *w, struct entry *e)
{
	mem_free(&w->mem, e->name, e->text_bytes, 1);
	mem_free(&w->mem, e, 1, sizeof(*e));
}

void plim_weights_free(struct plim_weights *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->entries.n; i++) {
		release_set(w, &w->entries.at[i]->set);
		free_entry(w, w->entries.at[i]);
	}
	vec_release(&w->mem, &w->entries);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static struct entry *find_cached(const struct plim_weights *w, const char *name)
{
	for (size_t i = 0; i < w->entries.n; i++)
		if (!strcmp(w->entries.at[i]->name, name))
			return w->entries.at[i];
	return NULL;
}

static struct entry *new_entry(struct plim_weights *w, const char *name, const char *path,
			       const char *patterns, struct plim_err *err)
{
	size_t a = strlen(name) + 1, b = strlen(path) + 1, n = strlen(patterns) + 1;
	struct entry *e = mem_new(&w->mem, 1, sizeof(*e), err);

	if (!e)
		return NULL;
	e->text_bytes = a + b + n;
	e->name = mem_new(&w->mem, e->text_bytes, 1, err);
	if (!e->name) {
		mem_free(&w->mem, e, 1, sizeof(*e));
		return NULL;
	}
	e->path = e->name + a;
	e->patterns = e->path + b;
	memcpy(e->name, name, a);
	memcpy(e->path, path, b);
	memcpy(e->patterns, patterns, n);
	e->set = (struct plim_weights_set){ .name = e->name, .hidden = &e->hidden };
	return e;
}

enum plim_status plim_weights_add(struct plim_weights *w, const char *name, const char *path,
				  const char *patterns, struct plim_err *err)
{
	struct entry *e = new_entry(w, name, path, patterns, err);
	enum plim_status st = e ? PLIM_OK : mem_status(err);

	if (st)
		return st;
	pthread_mutex_lock(&w->lock);
	st = find_cached(w, name) ? err_set(err, PLIM_E_ARG, "'%.200s' is registered already", name)
				  : vec_push(&w->mem, &w->entries, e, err);
	pthread_mutex_unlock(&w->lock);
	if (st)
		free_entry(w, e);
	return st;
}

enum plim_status plim_weights_remove(struct plim_weights *w, const char *name, struct plim_err *err)
{
	struct entry *e;
	enum plim_status st = PLIM_OK;

	pthread_mutex_lock(&w->lock);
	e = find_cached(w, name);
	if (!e)
		st = err_set(err, PLIM_E_ARG, "'%.200s' is not registered", name);
	else if (e->pins || e->waiting || e->state == LOADING)
		st = err_set(err, PLIM_E_ARG, "'%.200s' is in use", name);
	if (!st && e->state == HELD)
		evict(w, e);
	for (size_t i = 0; !st && i < w->entries.n; i++)
		if (w->entries.at[i] == e) {
			w->entries.at[i] = w->entries.at[--w->entries.n];
			free_entry(w, e);
			break;
		}
	pthread_mutex_unlock(&w->lock);
	return st;
}

/* With the lock: wait until the load that is going on has ended. */
static void wait_for_cached(struct plim_weights *w, struct entry *e)
{
	uint64_t before = e->loads;

	w->stats.waits++;
	e->waiting++;
	while (e->loads == before)
		pthread_cond_wait(&w->changed, &w->lock);
	e->waiting--;
}

/* With the lock, which is let go meanwhile. */
static enum plim_status load_entry(struct plim_weights *w, struct entry *e)
{
	enum plim_status st;

	w->stats.misses++;
	e->state = LOADING;
	e->why = (struct plim_err){ 0 };
	pthread_mutex_unlock(&w->lock);
	st = load(w, e, &e->why);
	pthread_mutex_lock(&w->lock);
	e->why.status = st;
	e->state = st ? ABSENT : HELD;
	e->set.load = ++w->loads;
	e->loads++;
	w->stats.failures += st != PLIM_OK;
	pthread_cond_broadcast(&w->changed);
	return st;
}

/* With the lock: what is held must be what the file is.  PLIM_E_IO: it is not, and someone uses it. */
static enum plim_status renew(struct plim_weights *w, struct entry *e, struct plim_err *err)
{
	if (e->state != HELD || ckpt_state(e->path) == e->written)
		return PLIM_OK;
	if (e->pins)
		return err_set(err, PLIM_E_IO, "'%.200s' was changed while '%.200s' is in use",
			       e->path, e->name);
	evict(w, e);
	w->stats.evictions++;
	return PLIM_OK;
}

/* With the lock: when this is PLIM_OK the entry is HELD, else *err says why it could not be loaded. */
static enum plim_status bring(struct plim_weights *w, struct entry *e, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st &&
	       e->state == LOADING) { /* or evicted before this thread woke, and loaded again */
		wait_for_cached(w, e);
		st = e->why.status;
	}
	w->stats.hits += !st && e->state == HELD;
	if (!st && e->state == ABSENT)
		st = load_entry(w, e);
	if (st && err)
		*err = e->why;
	return st;
}

enum plim_status plim_weights_get(struct plim_weights *w, const char *name,
				  const struct plim_weights_set **out, struct plim_err *err)
{
	struct entry *e;
	enum plim_status st;

	*out = NULL;
	pthread_mutex_lock(&w->lock);
	e = find_cached(w, name);
	st = e ? renew(w, e, err) : err_set(err, PLIM_E_ARG, "'%.200s' is not registered", name);
	if (!st)
		st = bring(w, e, err);
	if (!st) {
		w->stats.pinned += !e->pins++;
		e->last_use = ++w->clock;
		*out = &e->set;
	}
	pthread_mutex_unlock(&w->lock);
	return st;
}

void plim_weights_put(struct plim_weights *w, const struct plim_weights_set *set)
{
	struct entry *e;

	if (!set)
		return;
	pthread_mutex_lock(&w->lock);
	e = find_cached(w, set->name);
	if (e && e->pins)
		w->stats.pinned -= !--e->pins;
	pthread_mutex_unlock(&w->lock);
}

void plim_weights_stats(struct plim_weights *w, struct plim_weights_stats *out)
{
	pthread_mutex_lock(&w->lock);
	*out = w->stats;
	pthread_mutex_unlock(&w->lock);
}
