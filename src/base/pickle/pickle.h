/*
 * The pickle machine: Python's pickle protocols 0 to 5 and PyTorch's C++ pickler, decoded to plain
 * values.  It never imports, calls or builds anything: constructor opcodes yield inert records
 * (PICKLE_GLOBAL, PICKLE_CALL), which a reader may look at or refuse.
 *
 * A consumer that expects many dicts of the same keys (events, frames, blocks) takes them as rows
 * through `pickle_hooks.row` when they close, and keeps them in its own columns; what it takes
 * stands in the values as PICKLE_EXT.  Rows reach the hook by two ways that agree on every input:
 * the general machine, and a straight-line parser for rows whose keys are memo references.
 */
#ifndef PICKLE_PICKLE_H
#define PICKLE_PICKLE_H

#include "base/base.h"

enum pickle_kind {
	PICKLE_NONE,
	PICKLE_BOOL,   /* bits 0 or 1 */
	PICKLE_INT,    /* bits as int64_t */
	PICKLE_UINT,   /* bits above INT64_MAX */
	PICKLE_FLOAT,  /* bits of the double */
	PICKLE_STR,    /* id in heap.strings: UTF-8 as written, not validated */
	PICKLE_BYTES,  /* id in heap.strings */
	PICKLE_BIGINT, /* id in heap.strings: little-endian two's complement of more than 64 bits */
	PICKLE_LIST,   /* the rest: an index into heap.nodes */
	PICKLE_TUPLE,
	PICKLE_DICT, /* items are key, value, key, value ... in written order; a later key wins */
	PICKLE_SET,
	PICKLE_GLOBAL, /* items: module, name (strings) */
	PICKLE_CALL,   /* items: see enum pickle_call_item */
	PICKLE_PERSID, /* items: the id */
	PICKLE_BOX,    /* internal: a memoized value that is none of these */
	PICKLE_MARK,   /* internal */
	PICKLE_EXT,    /* the consumer's; bits = sort << 28 | number, sort below PICKLE_EXT_SORTS */
};

#define PICKLE_EXT_SORTS 6
#define PICKLE_EXT_NUMBERS (1u << 28)

/* What a constructor opcode was given.  Nothing was constructed. */
enum pickle_call_item {
	PICKLE_CALL_CALLEE,   /* usually a PICKLE_GLOBAL */
	PICKLE_CALL_ARGS,     /* PICKLE_TUPLE, or PICKLE_NONE for what was not given */
	PICKLE_CALL_KWARGS,   /* PICKLE_DICT or PICKLE_NONE */
	PICKLE_CALL_STATE,    /* of BUILD, or PICKLE_NONE */
	PICKLE_CALL_APPENDED, /* PICKLE_LIST of what was appended to it, or PICKLE_NONE */
	PICKLE_CALL_SET,      /* PICKLE_DICT of what was set in it, or PICKLE_NONE */
	PICKLE_CALL_ITEMS
};

struct pickle_value {
	uint64_t bits;
	enum pickle_kind kind;
};

/*
 * A container.  A list whose items are consecutive rows of one sort is stored as a run:
 * `items` is NULL and item i is PICKLE_EXT with bits run + i.  Use pickle_item().
 */
struct pickle_node {
	struct pickle_value *items;
	uint32_t n, cap;
	uint64_t run;
	uint64_t ext;     /* PICKLE_EXT bits + 1 when a row hook took it, else 0 */
	uint8_t frozen;   /* part of a row that was taken: may not change any more */
	uint8_t is_call;  /* of a PICKLE_CALL */
	uint8_t is_new;   /* PICKLE_CALL: callee.__new__(...) was meant, not callee(...) */
	uint8_t is_built; /* PICKLE_CALL: its state was set */
	uint8_t changed; /* and was set again after that, or something was appended to it or set in it */
	uint8_t seen, judged; /* free for consumers: shared nodes are to be visited once */
};

/* The values of one pickle.  `nodes` may move while decoding goes on. */
struct pickle_heap {
	struct mem *mem;
	struct intern strings;
	VEC(struct pickle_node) nodes;
};

/* A sequence of keys that some dict had.  Shapes count up from 0. */
struct pickle_shape {
	const uint32_t *keys; /* string ids */
	uint32_t n;
};

#define PICKLE_ROW_KEYS 32 /* dicts of more keys are never offered as rows */

struct pickle;

/*
 * All hooks may be NULL.  They return a status; an error stops the decoding.
 *
 * shape: dicts with these keys were met for the first time; *wanted says whether to offer them as rows.
 * row: values[i] belongs to keys[i].  Set *taken to PICKLE_EXT bits to take the row, or leave it
 *	PICKLE_UNTAKEN: then the dict stays a PICKLE_DICT.  A list among the values is frozen.
 * list: a list stands in a row that is being offered; `n` items.  Take it as above (a list of frames
 *	becomes a stack); the row then sees PICKLE_EXT.  Called once for each distinct list node, and for
 *	a new list in the straight-line path once for each distinct run of memo references.
 * global: a PICKLE_GLOBAL was named at byte `offset`, also one that is thrown away afterwards.
 * built: a PICKLE_CALL's state was set by the opcode that ends at byte `offset`.  The bytes behind it that are not opcodes,
 *	*skip of them (0 before the call), are passed over.
 */
#define PICKLE_UNTAKEN UINT64_MAX
struct pickle_hooks {
	void *ctx;
	enum plim_status (*shape)(void *ctx, uint32_t shape, const struct pickle_shape *keys,
				  int *wanted, struct plim_err *err);
	enum plim_status (*row)(void *ctx, uint32_t shape, const struct pickle_value *values,
				uint64_t *taken, struct plim_err *err);
	enum plim_status (*list)(void *ctx, const struct pickle_value *items, uint32_t n,
				 uint64_t *taken, struct plim_err *err);
	enum plim_status (*global)(void *ctx, struct pickle_value v, uint64_t offset,
				   struct plim_err *err);
	enum plim_status (*built)(void *ctx, struct pickle_value v, uint64_t offset, uint64_t *skip,
				  struct plim_err *err);
};

enum {
	PICKLE_NO_CALLS = 1,   /* refuse constructors: the error names the global */
	PICKLE_NO_ROW_PATH = 2 /* general machine only (tests, fuzzing) */
};

/*
 * Decode one pickle from `src` up to its STOP; *root is its value.  `heap` is the caller's (already
 * initialised) and holds the values afterwards; hooks may read it.  Errors: PLIM_E_FORMAT with the
 * byte, and what the source or the hooks report.  Memory grows with the input, within heap->mem.
 */
enum plim_status pickle_read(struct pickle_heap *heap, struct source *src, unsigned flags,
			     const struct pickle_hooks *hooks, struct pickle_value *root,
			     struct plim_err *err);

void pickle_heap_init(struct pickle_heap *heap, struct mem *m);
void pickle_heap_release(struct pickle_heap *heap);
/* Free all containers, keep the strings: for a consumer that has taken what it needs. */
void pickle_heap_forget_values(struct pickle_heap *heap);

/*
 * Building the same values from another notation (JSON): push values, then close containers over the
 * newest n (2n for a dict) of them.  Rows are offered to the same hooks.
 */
struct pickle *pickle_builder_new(struct pickle_heap *heap, const struct pickle_hooks *hooks,
				  struct plim_err *err);
void pickle_builder_free(struct pickle *p);
enum plim_status pickle_push(struct pickle *p, struct pickle_value v, struct plim_err *err);
enum plim_status pickle_push_str(struct pickle *p, const char *text, size_t n,
				 struct plim_err *err);
enum plim_status pickle_close(struct pickle *p, enum pickle_kind kind, size_t items,
			      struct plim_err *err);
enum plim_status pickle_take(struct pickle *p, struct pickle_value *root, struct plim_err *err);

static inline int pickle_is_container(struct pickle_value v)
{
	return v.kind >= PICKLE_LIST && v.kind <= PICKLE_PERSID;
}

/* Item i of a container; None of what is not one, and behind the last. */
static inline struct pickle_value pickle_item(const struct pickle_heap *h, struct pickle_value v,
					      size_t i)
{
	const struct pickle_node *node;

	if (!pickle_is_container(v) || i >= h->nodes.at[v.bits].n)
		return (struct pickle_value){ 0, PICKLE_NONE };
	node = &h->nodes.at[v.bits];
	if (!node->items)
		return (struct pickle_value){ node->run + i, PICKLE_EXT };
	return node->items[i];
}

static inline size_t pickle_len(const struct pickle_heap *h, struct pickle_value v)
{
	return pickle_is_container(v) ? h->nodes.at[v.bits].n : 0;
}

/* The value of a string key in a dict, the last one written; 0 if there is none. */
int pickle_get(const struct pickle_heap *h, struct pickle_value dict, const char *key,
	       struct pickle_value *out);

/* "module.name" of a GLOBAL or of a CALL's callee, for messages; the buffer's content is escaped text. */
void pickle_name(const struct pickle_heap *h, struct pickle_value v, char *text, size_t size);

static inline unsigned pickle_ext_sort(uint64_t bits)
{
	return (unsigned)(bits >> 28);
}

static inline uint32_t pickle_ext_number(uint64_t bits)
{
	return (uint32_t)(bits & (PICKLE_EXT_NUMBERS - 1));
}

static inline uint64_t pickle_ext(unsigned sort, uint32_t number)
{
	return (uint64_t)sort << 28 | number;
}

/*
 * Writing, protocol 4.  The layout is CPython's: PROTO, then frames of about 64 KiB that end between
 * two opcodes; a longer string stands outside of them.  Every container and every distinct string is
 * memoized, and its memo index is the count of those before it.
 */
struct pickle_sink {
	void *ctx;
	enum plim_status (*write)(void *ctx, const void *bytes, size_t n, struct plim_err *err);
};
struct pickle_writer;
struct pickle_writer *pickle_writer_new(struct mem *m, struct pickle_sink sink,
					struct plim_err *err);
void pickle_writer_free(struct pickle_writer *w);
/* Errors stick: calls after one do nothing, and pickle_write_end returns it. */
void pickle_write_none(struct pickle_writer *w);
void pickle_write_bool(struct pickle_writer *w, int value);
void pickle_write_int(struct pickle_writer *w, int64_t value);
void pickle_write_uint(struct pickle_writer *w, uint64_t value);
void pickle_write_float(struct pickle_writer *w, double value);
void pickle_write_str(struct pickle_writer *w, const char *text, size_t n);
/* Open a container; items (or keys and values in turn) follow up to its pickle_write_close. */
void pickle_write_list(struct pickle_writer *w);
void pickle_write_dict(struct pickle_writer *w);
void pickle_write_close(struct pickle_writer *w);
void pickle_write_pair(struct pickle_writer *w, int64_t a, int64_t b); /* a tuple of two integers */
/* The memo index of the container that was closed last, and a reference to it. */
uint32_t pickle_write_memo(struct pickle_writer *w);
void pickle_write_ref(struct pickle_writer *w, uint32_t memo);
enum plim_status pickle_write_end(struct pickle_writer *w, struct plim_err *err);

#endif
