/* What the files of this folder share. */
#ifndef PAGE_PARTS_H
#define PAGE_PARTS_H

#include "page.h"

/* How a column's values become the numbers that are stored; docs/formats/page.md. */
enum coding {
	CODING_PLAIN,
	CODING_DELTA, /* differences between neighbours, wrapping in the column's width */
	CODING_PLUS,  /* what is added to another column's value */
	CODING_AFTER  /* 0: never, which is 0; else 1 more than what is added to another's value */
};

struct column {
	const char *name;
	size_t at, rows;
	unsigned bytes; /* of a value: so many planes */
	enum coding coding;
	const char *other; /* of CODING_PLUS and CODING_AFTER */
};

struct planes {
	struct mem *mem;
	VEC(uint8_t) bytes;
	VEC(struct column) list;
};

void planes_release(struct planes *c);

struct plane_values {
	const char *name;
	uint64_t *at;
};

/*
 * Add a column of n values, which are overwritten.  `other` is the column that the coding refers to, by name
 * and values; where a value lies below it, or it is not there itself, the column is stored plain.  A column
 * of zeros is left out.
 */
enum plim_status planes_add(struct planes *c, struct plane_values v, enum coding coding,
			    const struct plane_values *other, size_t n, struct plim_err *err);

/* The member "columns". */
void planes_emit(const struct planes *c, struct json_out *j);

/*
 * The stacks, frames and texts that a device's allocations and findings refer to, numbered anew in the
 * order in which they are first asked for.
 */
struct names {
	struct mem *mem;
	const struct page_input *in;
	uint32_t *stack_of, *frame_of; /* of the trace's: 1 + number here, or 0 */
	VEC(uint32_t) stacks, frames;  /* the trace's, by number */
	struct intern texts;           /* cut to TEXT_MOST */
	size_t cut;                    /* names that were */
	VEC(uint32_t) function, file;  /* of each frame, into texts */
};
#define TEXT_MOST 4096u

enum plim_status names_init(struct names *x, const struct page_input *in, struct plim_err *err);
void names_release(struct names *x);

/* 1 + number; 0 for TRACE_NONE. */
enum plim_status names_stack(struct names *x, uint32_t stack, uint32_t *out, struct plim_err *err);
enum plim_status names_frame(struct names *x, uint32_t frame, uint32_t *out, struct plim_err *err);

/* The number of a text of the recording's, as it may be shown; `kind`: what it is called where it may not. */
enum plim_status names_string(struct names *x, uint32_t string, const char *kind, uint32_t *out,
			      struct plim_err *err);

/* The columns of stacks and frames. */
enum plim_status names_pack(struct names *x, struct planes *c, struct plim_err *err);

/* The member "strings". */
void names_emit(const struct names *x, struct json_out *j);

/* A range that the program named, in moments: what is allocated in it is allocated in (from, to]. */
struct range {
	uint32_t from, to, name, flags; /* as in docs/page.md */
};
struct ranges {
	struct mem *mem;
	VEC(struct range) rows;
};
enum plim_status ranges_find(struct ranges *x, struct names *n, struct plim_err *err);
enum plim_status ranges_pack(const struct ranges *x, struct planes *c, struct plim_err *err);
void ranges_release(struct ranges *x);

/* Where a frame is, as people shall read it; valid until the next one is asked for. */
struct page_place {
	const char *name, *file;
};

/* What a finding points to; events may be TRACE_NONE, as may stack and frame. */
struct page_show {
	uint32_t event, first_event, last_event;
	uint32_t stack, frame;
	const uint32_t *allocs; /* that it is about, alloc_count of them */
	size_t alloc_count;
};

/* One device of a recording that was explained.  All is borrowed. */
struct page_input {
	struct mem *mem; /* for the work; what stays is taken from the page's */
	const struct timeline *tl;
	const struct timeline_categories *categories; /* mem NULL: no stacks were recorded */
	const char *const *category_names; /* for a person, TIMELINE_CATEGORIES of them */
	const char *title;
	const char *conf; /* PYTORCH_CUDA_ALLOC_CONF as it may be shown, or NULL */
	bool plan;        /* it is not a recording, but what one would be */
	uint64_t
		limit_bytes; /* that the run was to stay under, where no failure shows it; 0: none */
	uint32_t recording;
	const struct page_show *show; /* of each finding in the report */
	size_t show_count;
	const struct timeline_ranges *ranges; /* NULL: not known */
	void *self;
	/* Names from the file come only from here, shortened and redacted. */
	void (*place)(void *self, uint32_t frame, struct page_place *out);
	const char *(*text)(void *self, uint32_t string, const char *kind);
	void (*report)(void *self, struct json_out *j); /* emits the member "report" */
};

enum plim_status page_pack(struct page *p, const struct page_input *in, struct plim_err *err);

#endif
