#include "reader.h"

#include <string.h>

/* The columns with what an element takes. */
struct column {
	void *array; /* address of the pointer */
	size_t size;
};

enum { COLUMN_POOL = 7 };

static void column_list(struct snapshot_columns *c, struct column list[TRACE_COLUMNS])
{
	const struct column all[TRACE_COLUMNS] = {
		{ &c->action, sizeof(*c->action) }, { &c->addr, sizeof(*c->addr) },
		{ &c->size, sizeof(*c->size) },     { &c->time_us, sizeof(*c->time_us) },
		{ &c->stack, sizeof(*c->stack) },   { &c->stream, sizeof(*c->stream) },
		{ &c->alloc, sizeof(*c->alloc) },   { &c->pool, sizeof(*c->pool) },
	};

	memcpy(list, all, sizeof(all));
}

/* Every column that is in use grows to the same room, so that one check serves a row. */
static enum plim_status grow_column(struct mem *m, struct snapshot_columns *c, size_t want,
				    struct plim_err *err)
{
	struct column list[TRACE_COLUMNS];
	enum plim_status st = PLIM_OK;

	column_list(c, list);
	for (size_t i = 0; !st && i < TRACE_COLUMNS; i++)
		if (i != COLUMN_POOL || c->pool)
			st = mem_grow(m, list[i].array, &c->caps[i], want, list[i].size, err);
	if (!st)
		c->cap = want;
	return st;
}

enum plim_status columns_pause(struct mem *m, struct snapshot_columns *c, struct plim_err *err)
{
	bool full = c->n == c->cap;
	enum plim_status st = PLIM_OK;

	if (c->follow_rows && !c->follower && c->n >= c->follow_rows) {
		c->follower = follow_start(m);
		c->follow_rows = c->follower ? c->follow_rows : 0;
	}
	if (c->follower)
		follow_hold(c->follower, full);
	if (full)
		st = grow_column(m, c, c->cap ? c->cap + c->cap / 2 : 1024, err);
	if (c->follower)
		follow_go(c->follower, c);
	c->pause =
		c->follow_rows && c->cap - c->n > c->follow_rows ? c->n + c->follow_rows : c->cap;
	return st;
}

struct snapshot_events columns_view(const struct snapshot_columns *c, size_t first, size_t n)
{
	if (!n)
		return (struct snapshot_events){ .n = 0 };
	return (struct snapshot_events){ .n = n,
					 .action = c->action + first,
					 .addr = c->addr + first,
					 .size = c->size + first,
					 .time_us = c->time_us + first,
					 .stack = c->stack + first,
					 .stream = c->stream + first,
					 .alloc = c->alloc + first,
					 .pool = c->pool ? c->pool + first : NULL };
}

enum plim_status columns_add_pool(struct mem *m, struct snapshot_columns *c, struct plim_err *err)
{
	size_t room = c->cap ? c->cap : 1;
	enum plim_status st =
		mem_grow(m, &c->pool, &c->caps[COLUMN_POOL], room, sizeof(*c->pool), err);

	if (!st)
		memset(c->pool, 0, room * sizeof(*c->pool));
	return st;
}

enum plim_status columns_finish(struct mem *m, struct snapshot_columns *c, struct plim_err *err)
{
	struct column list[TRACE_COLUMNS];
	enum plim_status st = c->cap ? PLIM_OK : grow_column(m, c, 1, err);

	column_list(c, list);
	for (size_t i = 0; !st && i < TRACE_COLUMNS; i++)
		if (c->caps[i] > 1)
			mem_trim(m, list[i].array, &c->caps[i], c->n ? c->n : 1, list[i].size);
	c->cap = c->n;
	return st;
}

void columns_release(struct mem *m, struct snapshot_columns *c)
{
	struct column list[TRACE_COLUMNS];

	follow_free(c->follower);
	column_list(c, list);
	for (size_t i = 0; i < TRACE_COLUMNS; i++)
		mem_free(m, *(void **)list[i].array, c->caps[i], list[i].size);
	memset(c, 0, sizeof(*c));
}
