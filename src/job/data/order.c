/* Which samples per rank's batches have: a shuffle by seed and epoch, dealt out to the ranks in turn. */
#include "parts.h"

struct random {
	uint64_t s[4];
};

/* splitmix64 */
static uint64_t mix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t turn_order(uint64_t x, int k)
{
	return x << k | x >> (64 - k);
}

/* xoshiro256++ */
static uint64_t order_next(struct random *r)
{
	uint64_t out = turn_order(r->s[0] + r->s[3], 23) + r->s[0], t = r->s[1] << 17;

	r->s[2] ^= r->s[0];
	r->s[3] ^= r->s[1];
	r->s[1] ^= r->s[2];
	r->s[0] ^= r->s[3];
	r->s[2] ^= t;
	r->s[3] = turn_order(r->s[3], 45);
	return out;
}

/* Below n, each as likely (Lemire). */
static uint32_t below(struct random *r, uint32_t n)
{
	uint64_t x = (order_next(r) >> 32) * n;

	while ((uint32_t)x < n && (uint32_t)x < -n % n)
		x = (order_next(r) >> 32) * n;
	return (uint32_t)(x >> 32);
}

/* Fisher and Yates. */
static void shuffle(uint32_t *at, uint32_t n, uint64_t seed, uint64_t epoch)
{
	struct random r;
	uint64_t x = seed;

	x = mix(&x) ^ epoch;
	for (int i = 0; i < 4; i++)
		r.s[i] = mix(&x);
	for (uint32_t i = 0; i < n; i++)
		at[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k = below(&r, i), was = at[i - 1];

		at[i - 1] = at[k];
		at[k] = was;
	}
}

/* Samples that a rank has of those behind the start. */
static uint64_t share_order(const struct plim_epoch *e, uint64_t samples, uint64_t rank)
{
	uint64_t left = samples - e->start;

	return left > rank ? (left - rank - 1) / e->world + 1 : 0;
}

enum plim_status plim_epoch_batches(const struct plim_epoch *e, uint64_t samples, uint64_t *batches,
				    struct plim_err *err)
{
	uint64_t least, most;

	*batches = 0;
	if (samples >= UINT32_MAX || e->size != sizeof(*e) ||
	    e->flags & ~(PLIM_EPOCH_SHUFFLE | PLIM_EPOCH_DROP_LAST) || !e->batch_size ||
	    e->rank >= e->world || e->start > samples)
		return err_set(err, PLIM_E_ARG,
			       "an epoch has batches of 1 sample or more, a rank below its ranks, "
			       "and starts at a sample that there is, of fewer than 2^32");
	least = share_order(e, samples, e->world - 1);
	most = share_order(e, samples, 0);
	if (e->flags & PLIM_EPOCH_DROP_LAST)
		*batches = least / e->batch_size;
	else
		*batches = most ? (most - 1) / e->batch_size + 1 : 0;
	if (e->flags & PLIM_EPOCH_DROP_LAST || least >= *batches)
		return PLIM_OK;
	*batches = 0;
	return err_set(
		err, PLIM_E_ARG,
		"%llu samples in batches of %llu leave one of %llu ranks without a sample in "
		"the last batch: drop the last, or take larger batches",
		(unsigned long long)(samples - e->start), (unsigned long long)e->batch_size,
		(unsigned long long)e->world);
}

enum plim_status data_order_make(struct data_order *o, struct mem *m, uint64_t samples,
				 const struct plim_epoch *e, struct plim_err *err)
{
	enum plim_status st;

	*o = (struct data_order){ .mem = m, .epoch = *e, .samples = samples };
	st = plim_epoch_batches(e, samples, &o->batches, err);
	if (!st && e->done > o->batches)
		st = err_set(err, PLIM_E_ARG, "there are no %llu batches",
			     (unsigned long long)e->done);
	if (st || !(e->flags & PLIM_EPOCH_SHUFFLE))
		return st;
	o->shuffled = mem_new(m, (size_t)samples, sizeof(*o->shuffled), err);
	if (!o->shuffled)
		return mem_status(err);
	shuffle(o->shuffled, (uint32_t)samples, e->seed, e->epoch);
	return PLIM_OK;
}

void data_order_release(struct data_order *o)
{
	mem_free(o->mem, o->shuffled, o->shuffled ? (size_t)o->samples : 0, sizeof(*o->shuffled));
	*o = (struct data_order){ .mem = o->mem };
}

/* Samples of the rank that come before its batch k: a last batch without any gets one of the one before it. */
static uint64_t order_before(const struct data_order *o, uint64_t k)
{
	const struct plim_epoch *e = &o->epoch;
	uint64_t mine = share_order(e, o->samples, e->rank);

	if (e->flags & PLIM_EPOCH_DROP_LAST || k < o->batches - 1)
		return k * e->batch_size;
	if (k == o->batches)
		return mine;
	return mine > k * e->batch_size ? k * e->batch_size : mine - 1;
}

size_t data_order_batch(const struct data_order *o, uint64_t k, uint32_t *to)
{
	const struct plim_epoch *e = &o->epoch;
	uint64_t from, end;

	if (k >= o->batches)
		return 0;
	from = order_before(o, k);
	end = order_before(o, k + 1);
	for (uint64_t i = from; to && i < end; i++) {
		uint64_t at = e->start + e->rank + i * e->world;

		to[i - from] = o->shuffled ? o->shuffled[at] : (uint32_t)at;
	}
	return (size_t)(end - from);
}

/* ---- for others ---- */

struct plim_order {
	struct mem mem;
	struct data_order order;
};

enum plim_status plim_order_new(const struct plim_epoch *e, uint64_t samples,
				struct plim_order **out, struct plim_err *err)
{
	struct plim_order *o = calloc(1, sizeof(*o));
	struct plim_epoch all = *e;
	enum plim_status st;

	*out = NULL;
	if (!o)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&o->mem, 0);
	all.done = 0;
	st = data_order_make(&o->order, &o->mem, samples, &all, err);
	if (st)
		plim_order_free(o);
	*out = st ? NULL : o;
	return st;
}

size_t plim_order_batch(const struct plim_order *o, uint64_t k, uint32_t *samples)
{
	return data_order_batch(&o->order, k, samples);
}

void plim_order_free(struct plim_order *o)
{
	if (!o)
		return;
	data_order_release(&o->order);
	free(o);
}
