#include "reader.h"

/* Every column grows to the same capacity, so that one check serves a row. */
static enum plim_status grow(struct mem *m, struct trace_columns *c, struct plim_err *err)
{
	struct {
		void *array;
		size_t size;
	} const columns[] = {
		{ &c->action, sizeof(*c->action) },   { &c->addr, sizeof(*c->addr) },
		{ &c->size, sizeof(*c->size) },	      { &c->time_us, sizeof(*c->time_us) },
		{ &c->stack, sizeof(*c->stack) },     { &c->stream, sizeof(*c->stream) },
		{ &c->pool, sizeof(*c->pool) },
	};
	size_t want = c->cap ? c->cap + c->cap / 2 : 1024, count = c->pool ? 7 : 6;

	for (size_t i = 0; i < count; i++) {
		size_t cap = c->cap;
		enum plim_status st = mem_grow(m, columns[i].array, &cap, want, columns[i].size, err);

		if (st) /* columns of different capacities: forget none of them */
			return st;
		want = cap;
	}
	c->cap = want;
	return PLIM_OK;
}

enum plim_status columns_push(struct mem *m, struct trace_columns *c, const struct event_row *e,
			      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (c->n == c->cap)
		st = grow(m, c, err);
	if (st)
		return st;
	c->action[c->n] = e->action;
	c->addr[c->n] = e->addr;
	c->size[c->n] = e->size;
	c->time_us[c->n] = e->time_us;
	c->stack[c->n] = e->stack;
	c->stream[c->n] = e->stream;
	if (c->pool)
		c->pool[c->n] = e->pool;
	c->n++;
	return PLIM_OK;
}
