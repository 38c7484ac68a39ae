/*
 * A ring that was re-armed smaller without being cleared (PyTorch up to 2.11): the vector keeps its
 * length, only its first entries are overwritten from then on, and the dump starts at the write
 * index.  So the file holds new events, then old ones, then new ones again, with a hole of lost
 * events before the new.  Only the new part is a window that can be followed: the old is dropped.
 */
#include "reader.h"

#include <string.h>

/* Two threads' clocks differ by microseconds; this is far beyond, and far below any re-arming. */
#define JITTER_US 1000

static void remove_rows(struct snapshot_columns *c, size_t from, size_t to, size_t end)
{
	size_t n = end - to;

	memmove(c->action + from, c->action + to, n * sizeof(*c->action));
	memmove(c->addr + from, c->addr + to, n * sizeof(*c->addr));
	memmove(c->size + from, c->size + to, n * sizeof(*c->size));
	memmove(c->time_us + from, c->time_us + to, n * sizeof(*c->time_us));
	memmove(c->stack + from, c->stack + to, n * sizeof(*c->stack));
	memmove(c->stream + from, c->stream + to, n * sizeof(*c->stream));
	if (c->pool)
		memmove(c->pool + from, c->pool + to, n * sizeof(*c->pool));
}

void window_settle(struct snapshot_device *d, struct snapshot_columns *c, size_t *first, size_t *n)
{
	const int64_t *time = c->time_us + *first;
	size_t old = 0, back = *n;
	int64_t newest = INT64_MIN;

	for (size_t i = 1; i < *n && !old; i++)
		if (time[i] < time[i - 1] - JITTER_US)
			old = i;
	if (!old)
		return;
	for (size_t i = 0; i < old; i++)
		newest = time[i] > newest ? time[i] : newest;
	for (size_t i = old; i < *n && back == *n; i++)
		if (time[i] >= newest - JITTER_US)
			back = i;
	d->stale_events = (uint32_t)(back - old);
	remove_rows(c, *first + old, *first + back, *first + *n);
	*n -= back - old;
}

int snapshot_overflowed(const struct snapshot *t)
{
	static const char key[] = "trace_alloc_overflowed";
	uint32_t name = intern_find(&t->heap.strings, key, sizeof(key) - 1);

	for (size_t i = 0; name != INTERN_NONE && i + 1 < t->settings_values.n; i++) {
		const struct pickle_value *v = &t->settings_values.at[i];

		if (v->kind == PICKLE_STR && v->bits == name && v[1].kind == PICKLE_BOOL)
			return v[1].bits != 0;
	}
	return -1;
}

size_t snapshot_first_row(const struct snapshot *t, const struct snapshot_device *d)
{
	return (size_t)(d->events.action - t->columns->action);
}
