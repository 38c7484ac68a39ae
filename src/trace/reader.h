/* What the reader's parts share while a trace is being read.  Nobody else includes this. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include "trace.h"

#define TRACE_COLUMNS 8

/* The growing columns of all devices, in the order in which the rows stand in the file. */
struct trace_columns {
	size_t n, cap;              /* rows; room that every column has */
	size_t caps[TRACE_COLUMNS]; /* room of each, in the order of column_list() */
	uint8_t *action;
	uint64_t *addr, *size;
	int64_t *time_us;
	uint32_t *stack, *alloc;
	uint16_t *stream, *pool; /* pool NULL until a row has one */
};

struct event_row {
	uint64_t addr, size;
	int64_t time_us;
	uint32_t stack;
	uint16_t stream, pool;
	uint8_t action;
};

enum plim_status columns_grow(struct mem *m, struct trace_columns *c, struct plim_err *err);

static inline enum plim_status columns_push(struct mem *m, struct trace_columns *c,
					    const struct event_row *e, struct plim_err *err)
{
	enum plim_status st = c->n == c->cap ? columns_grow(m, c, err) : PLIM_OK;

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

/* From now on rows have a pool; those before are in pool 0. */
enum plim_status columns_add_pool(struct mem *m, struct trace_columns *c, struct plim_err *err);
/* Make room for the alloc column and give back what grew too far. */
enum plim_status columns_finish(struct mem *m, struct trace_columns *c, struct plim_err *err);
void columns_release(struct mem *m, struct trace_columns *c);

#define ROW_FIELDS_MAX 13

/* Where a shape's values are: field f of a row kind stands at index at[f], or is absent (-1). */
struct row_plan {
	int8_t row; /* enum trace_row, or -1: no row of ours */
	int16_t at[ROW_FIELDS_MAX];
	uint32_t unknown_first, unknown_count; /* into reader.shape_unknowns */
};

struct reader {
	struct trace *t;
	struct mem *mem;
	VEC(struct row_plan) plans;   /* by shape */
	VEC(uint32_t) shape_unknowns; /* per plan: indexes of trace.unknown */
	VEC(uint8_t) actions;         /* by string id: enum trace_action + 1, or 0 */
	VEC(uint32_t) frame_ids;      /* scratch */
	uint16_t last_stream;
	uint32_t plain_metadata, plain_context; /* the strings "" and "N/A" as last seen there */
};

void reader_init(struct reader *r, struct trace *t);
void reader_release(struct reader *r);
struct pickle_hooks reader_hooks(struct reader *r);

/* The columns, segments and settings from the decoded root. */
enum plim_status reader_assemble(struct reader *r, struct pickle_value root, struct plim_err *err);

/* JSON tokens to the same values. */
enum plim_status json_dump_read(struct trace *t, struct source *src,
				const struct pickle_hooks *hooks, struct pickle_value *root,
				struct plim_err *err);

/* Drop what is older than a hole, when the ring was re-armed smaller: device.stale_events. */
void window_settle(struct trace_device *d, struct trace_columns *c, size_t *first, size_t *n);

/* Allocations and their ends; contradictions are counted. */
enum plim_status pairs_find(struct trace *t, struct trace_device *d, struct plim_err *err);

/* What the first bytes are, when they are no snapshot: the message, or NULL for "might be one". */
const char *recognise_bytes(const uint8_t *p, size_t n);
/* What the decoded value is instead of a snapshot. */
enum plim_status recognise_value(const struct trace *t, struct pickle_value root,
				 struct plim_err *err);

#define HOW_TO_RECORD "record one with: plimsoll record -- python train.py"

#endif
