/* What the reader's parts share while a trace is being read.  No one else includes this. */
#ifndef TRACE_READER_H
#define TRACE_READER_H

#include "snapshot.h"

#define TRACE_COLUMNS 8

/* The growing columns of all devices, in the order in which the rows stand in the file. */
struct snapshot_columns {
	size_t n, cap;              /* rows; room that every column has */
	size_t pause;               /* at this many rows columns_pause is called */
	size_t caps[TRACE_COLUMNS]; /* room of each, in the order of column_list() */
	uint8_t *action;
	uint64_t *addr, *size;
	int64_t *time_us;
	uint32_t *stack, *alloc;
	uint16_t *stream, *pool;   /* pool NULL until a row has one */
	struct follower *follower; /* of the rows, or NULL */
	size_t follow_rows;        /* it is reported each time so many came; 0: no one follows */
};

struct event_row {
	uint64_t addr, size;
	int64_t time_us;
	uint32_t stack;
	uint16_t stream, pool;
	uint8_t action;
};

/* Make room for more, and tell the follower how far the rows are. */
enum plim_status columns_pause(struct mem *m, struct snapshot_columns *c, struct plim_err *err);

static inline enum plim_status columns_push(struct mem *m, struct snapshot_columns *c,
					    const struct event_row *e, struct plim_err *err)
{
	enum plim_status st = c->n == c->pause ? columns_pause(m, c, err) : PLIM_OK;

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

/* Rows [first, first + n) as events. */
struct snapshot_events columns_view(const struct snapshot_columns *c, size_t first, size_t n);
/* From now on rows have a pool; those before are in pool 0. */
enum plim_status columns_add_pool(struct mem *m, struct snapshot_columns *c, struct plim_err *err);
/* Every column is there, and what grew too far is given back. */
enum plim_status columns_finish(struct mem *m, struct snapshot_columns *c, struct plim_err *err);
void columns_release(struct mem *m, struct snapshot_columns *c);

#define ROW_FIELDS_MAX 13

/* Where a shape's values are: field f of a row kind stands at index at[f], or is absent (-1). */
struct row_plan {
	int8_t row; /* enum snapshot_row, or -1: no row of ours */
	int16_t at[ROW_FIELDS_MAX];
	uint32_t unknown_first, unknown_count; /* into reader.shape_unknowns */
};

struct reader {
	struct snapshot *t;
	struct mem *mem;
	VEC(struct row_plan) plans;   /* by shape */
	VEC(uint32_t) shape_unknowns; /* per plan: indexes of trace.unknown */
	VEC(uint8_t) actions;         /* by string id: enum snapshot_action + 1, or 0 */
	VEC(uint32_t) frame_ids;      /* scratch */
	uint16_t last_stream, last_pool;
	uint64_t last_pair;                     /* the tuple that is last_pool; UINT64_MAX: none */
	int is_other;                           /* what was read is not a snapshot */
	uint32_t plain_metadata, plain_context; /* the strings "" and "N/A" as last seen there */
};

void reader_init(struct reader *r, struct snapshot *t);
void reader_release(struct reader *r);
struct pickle_hooks reader_hooks(struct reader *r);

/* The columns, segments and settings from the decoded root. */
enum plim_status reader_assemble(struct reader *r, struct pickle_value root, struct plim_err *err);

struct profile;

/* JSON tokens to the same values, and what is the profiler's to `profile`: t->profile shows that it was. */
enum plim_status json_dump_read(struct snapshot *t, struct source *src,
				const struct pickle_hooks *hooks, struct profile *profile,
				struct pickle_value *root, struct plim_err *err);

/* Drop what is older than a hole, when the ring was re-armed smaller: device.stale_events. */
void window_settle(struct snapshot_device *d, struct snapshot_columns *c, size_t *first, size_t *n);

/* Allocations and their ends, as far as the events go. */
struct pairing {
	struct mem *mem;
	struct addr_map live; /* allocations by address: index + 1 */
	VEC(struct snapshot_alloc) allocs;
	size_t done;             /* events that were looked at */
	uint64_t reserved_bytes; /* what segment events added; wraps */
	uint64_t contradictions;
	uint64_t requested, completed; /* events of either kind of free */
	uint64_t unrequested,
		uncompleted; /* one without the other: contradictions if both kinds were recorded */
	uint32_t before;     /* allocations that were there before the first event */
};
void pairs_init(struct pairing *p, struct mem *m);
void pairs_release(struct pairing *p);
/* Go on to the end of `ev`; alloc_of is its column. */
enum plim_status pairs_walk(struct pairing *p, const struct snapshot_events *ev, uint32_t *alloc_of,
			    struct plim_err *err);
/* The device's allocations.  `ahead` may be NULL, or have walked its first events: it is emptied. */
enum plim_status pairs_find(struct snapshot *t, struct snapshot_device *d, struct pairing *ahead,
			    struct plim_err *err);

/* A second thread that pairs rows while they are read; NULL: there is none.  See follow.c. */
struct follower *follow_start(struct mem *m);
/* Around each change of the columns: `moves` waits until no one reads them. */
void follow_hold(struct follower *f, bool moves);
void follow_go(struct follower *f, const struct snapshot_columns *c);
/* Waits until the thread has done what it was reported: that, or NULL if it failed. */
struct pairing *follow_end(struct follower *f);
void follow_free(struct follower *f);

/* PLIM_E_FORMAT if the first bytes are another file's.  *lost: it stands where a snapshot should be (zeros). */
enum plim_status recognise_bytes(const char *name, const uint8_t *p, size_t n, int *lost,
				 struct plim_err *err);
/* What the decoded value is instead of a snapshot. */
enum plim_status recognise_value(const struct snapshot *t, struct pickle_value root,
				 struct plim_err *err);

#define HOW_TO_RECORD "record one with: plimsoll record -- python train.py"

#endif
