/*
 * Packed recordings (.plim): what the parts of their writer and reader share.  No one else includes this.
 * The format is described in docs/formats/packed.md.
 *
 * A table is written and read by one function: packed_code() puts a value down when it writes, and when it reads
 * gives the one that stands there.  So there is one place that says what comes after what.
 */
#ifndef SNAPSHOT_PACKED_H
#define SNAPSHOT_PACKED_H

#include "reader.h"

#define PACKED_MAGIC "PLIM\211\r\n\032"
#define PACKED_MAGIC_BYTES 8
#define PACKED_HEAD_BYTES 16 /* magic, u16 major, u16 minor, u32 flags */
#define PACKED_MAJOR 1
#define PACKED_MINOR 0
#define PACKED_SUM_BYTES 8 /* XXH3 with 64 bits */

/* Kinds of chunks.  One that is not known is refused, but from PACKED_MAY_SKIP on passed over. */
enum packed_chunk {
	PACKED_END = 0,
	PACKED_RECORDING = 1, /* the first of all that are not passed over */
	PACKED_FOLLOWING = 2, /* what comes behind it */
	PACKED_MAY_SKIP = 128
};

/* The columns of a recording, in the order in which they stand. */
enum packed_column {
	PACKED_NUMBERS, /* flags, counts, settings: few numbers of many kinds */
	PACKED_TEXT_BYTES,
	PACKED_TEXT,
	PACKED_FRAME_NAME,
	PACKED_FRAME_FILE,
	PACKED_FRAME_LINE,
	PACKED_STACK_LEFT, /* frames that are left of the stack before, and that are entered */
	PACKED_STACK_ENTERED,
	PACKED_STACK_FRAME,
	PACKED_SEGMENT,
	PACKED_SEGMENT_ADDR,
	PACKED_BLOCK_STATE,
	PACKED_BLOCK_BYTES,
	PACKED_BLOCK_REQUESTED,
	PACKED_BLOCK_STACK,
	PACKED_ANNOTATION_TIME,
	PACKED_ANNOTATION_NAME,
	PACKED_LABEL_ROW,
	PACKED_LABEL_TEXT,
	PACKED_SITE, /* which site an event is of, and the sites */
	PACKED_SITE_ACTION,
	PACKED_SITE_STACK,
	PACKED_SITE_STREAM,
	PACKED_SITE_POOL,
	PACKED_SIZE,
	PACKED_ADDR,
	PACKED_REQUESTED, /* whose free is asked for, and done */
	PACKED_COMPLETED,
	PACKED_UNKNOWN_ADDR, /* frees of what is not known to live */
	PACKED_UNKNOWN_SIZE,
	PACKED_TIME, /* one column for each action */
	PACKED_COLUMNS = PACKED_TIME + TRACE_ACTIONS
};

struct packed_bytes {
	uint8_t *at;
	size_t n, cap; /* cap 0: borrowed */
	size_t p;      /* reading: the next byte */
};

struct packing {
	struct mem *mem;
	struct snapshot *t; /* only read when `writing` */
	int writing;
	struct packed_bytes column[PACKED_COLUMNS];
	uint32_t *strings; /* writing: by string 1 + its number in the file, or 0 */
	size_t strings_n;
	uint32_t next_string, next_stack; /* one more than the highest that was named so far */
	uint32_t rows_before;             /* events of the devices before this one */
	size_t label;
	enum plim_status status; /* the first failure */
	struct plim_err *err;
};

/* "the packed recording is damaged: WHAT", unless something failed before. */
void packed_bad(struct packing *p, const char *what);

void packed_put_more(struct packing *p, struct packed_bytes *c, uint64_t value);
uint64_t packed_get_more(struct packing *p, struct packed_bytes *c);

/* LEB128. */
static inline void packed_put(struct packing *p, unsigned column, uint64_t value)
{
	struct packed_bytes *c = &p->column[column];

	if (value < 0x80 && c->n < c->cap)
		c->at[c->n++] = (uint8_t)value;
	else
		packed_put_more(p, c, value);
}

static inline uint64_t packed_get(struct packing *p, unsigned column)
{
	struct packed_bytes *c = &p->column[column];

	if (c->p < c->n && c->at[c->p] < 0x80)
		return c->at[c->p++];
	return packed_get_more(p, c);
}

static inline uint64_t packed_zigzag(uint64_t v)
{
	return v << 1 ^ (uint64_t)((int64_t)v >> 63);
}

static inline uint64_t packed_unzigzag(uint64_t v)
{
	return v >> 1 ^ -(v & 1);
}

/* Put `value` down, or read one. */
static inline uint64_t packed_code(struct packing *p, unsigned column, uint64_t value)
{
	if (!p->writing)
		return packed_get(p, column);
	packed_put(p, column, value);
	return value;
}

/* The same of one that must be below `limit`; 0 and a failure where it is not. */
uint64_t packed_below(struct packing *p, unsigned column, uint64_t value, uint64_t limit);

/* The same as the zigzag difference to `from`. */
static inline uint64_t packed_from(struct packing *p, unsigned column, uint64_t value,
				   uint64_t from)
{
	return from + packed_unzigzag(packed_code(p, column, packed_zigzag(value - from)));
}

/* A time: what has passed since *now, which becomes it. */
int64_t packed_time(struct packing *p, unsigned column, int64_t value, int64_t *now);

/* Strings and stacks, or TRACE_NONE: 0 none, 1 the first that was not named before, 2 + number. */
uint32_t packed_string(struct packing *p, unsigned column, uint32_t id);
uint32_t packed_stack(struct packing *p, unsigned column, uint32_t id);

/* The events of a device; their count is known. */
void packed_events(struct packing *p, struct snapshot_events *ev);

/* All of it; reading, the columns come to t->columns and views of them to the devices. */
void packed_snapshot(struct packing *p);

void packing_release(struct packing *p);

/* Read on behind the first bytes of a source that begins with PACKED_MAGIC. */
enum plim_status packed_read(struct snapshot *t, struct source *src, struct plim_err *err);

#endif
