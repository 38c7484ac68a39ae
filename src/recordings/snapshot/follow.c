/*
 * Pairing while decoding: a second thread follows the rows as they come and pairs allocations as
 * though all rows were events of one device.  Nearly all recordings are so, and the walk is then
 * done when the last row is read.  For the others what it did is dropped and done again in turn,
 * as is a walk that failed: the result is the same in any case.
 *
 * The reader says now and then how many rows stand; the follower takes the columns as they are then
 * and walks without the lock.  Only when columns grow, and may move, does the reader wait for it.
 */
#include "reader.h"

struct follower {
	struct mem *mem;
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t work, idle; /* there is something to do; nothing is being done */
	/* under the lock */
	struct snapshot_columns columns; /* as they stand */
	bool busy, end, drop;
	/* the thread's own until it has ended */
	struct pairing pairs;
	enum plim_status status;
};

static bool has_work(const struct follower *f)
{
	return !f->status && f->pairs.done < f->columns.n;
}

static void *follow_followed(void *arg)
{
	struct follower *f = arg;
	struct snapshot_events rows;

	pthread_mutex_lock(&f->lock);
	while (!f->drop && (!f->end || has_work(f))) {
		struct snapshot_columns c = f->columns;

		if (!has_work(f)) {
			pthread_cond_wait(&f->work, &f->lock);
			continue;
		}
		f->busy = true;
		pthread_mutex_unlock(&f->lock);
		rows = columns_view(&c, 0, c.n);
		f->status = pairs_walk(&f->pairs, &rows, c.alloc, NULL);
		pthread_mutex_lock(&f->lock);
		f->busy = false;
		pthread_cond_signal(&f->idle);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

struct follower *follow_start(struct mem *m)
{
	struct follower *f = mem_new(m, 1, sizeof(*f), NULL);

	if (!f)
		return NULL;
	f->mem = m;
	pairs_init(&f->pairs, m);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->work, NULL);
	pthread_cond_init(&f->idle, NULL);
	f->running = !thread_start(&f->thread, follow_followed, f);
	if (f->running)
		return f;
	follow_free(f);
	return NULL;
}

void follow_hold(struct follower *f, bool moves)
{
	pthread_mutex_lock(&f->lock);
	while (moves && f->busy)
		pthread_cond_wait(&f->idle, &f->lock);
}

void follow_go(struct follower *f, const struct snapshot_columns *c)
{
	f->columns = *c;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->lock);
}

static void stop(struct follower *f, bool drop)
{
	if (!f->running)
		return;
	pthread_mutex_lock(&f->lock);
	f->end = true;
	f->drop = drop;
	pthread_cond_signal(&f->work);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	f->running = false;
}

struct pairing *follow_end(struct follower *f)
{
	if (!f)
		return NULL;
	stop(f, false);
	return f->status ? NULL : &f->pairs;
}

void follow_free(struct follower *f)
{
	if (!f)
		return;
	stop(f, true);
	pairs_release(&f->pairs);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->work);
	pthread_cond_destroy(&f->idle);
	mem_free(f->mem, f, 1, sizeof(*f));
}
