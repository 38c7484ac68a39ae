/* The machine's own state, shared by machine.c, heap.c and rows.c only. */
#ifndef PICKLE_MACHINE_H
#define PICKLE_MACHINE_H

#include "pickle.h"

#define PICKLE_PAIRS 8

struct pickle {
	struct pickle_heap *heap;
	struct source *src;
	const struct pickle_hooks *hooks;
	unsigned flags;
	const uint8_t *p, *end; /* the cursor, and the end of the source's window */
	VEC(struct pickle_value) stack;
	VEC(size_t) marks;
	/*
	 * The memo: one packed value an index (memo_pack), 0 where nothing was put.  Indexes are dense
	 * in every pickle that a pickler wrote; memo_used counts those that are set, as MEMOIZE does.
	 */
	VEC(uint32_t) memo;
	size_t memo_used;
	/* shapes: ids of `shapes` are shape numbers, their bytes the key ids */
	struct intern shapes;
	VEC(uint8_t) wanted;
	uint32_t row_shape; /* of the newest row that was taken, INTERN_NONE before the first */
	/* straight-line path: a run of memo references -> what the list hook took it as, plus 1 */
	struct intern runs;
	VEC(struct pickle_run {
		uint64_t ext;
		uint32_t next; /* the run that followed this one the last time */
	})
	run;
	uint32_t last_run;
	uint64_t empty_list; /* the same for a list of nothing, 0: not asked yet */
	/* the newest pairs of small integers, which rows repeat: packed tuples, 0: none */
	struct pickle_pair {
		uint32_t a, b, packed;
	} pairs[PICKLE_PAIRS];
	VEC(struct pickle_value) scratch;
	int stopped;
};

/* Packed: kind in the upper four bits, index below.  0 is "nothing". */
#define MEMO_STR (1u << 28)
#define MEMO_EXT (10u << 28) /* and all above, by sort */

/* The value and its packed form; a value that cannot be packed is boxed. */
enum plim_status memo_pack(struct pickle *p, struct pickle_value v, uint32_t *packed,
			   struct plim_err *err);
struct pickle_value memo_unpack(const struct pickle_heap *h, uint32_t packed);

enum plim_status heap_node(struct pickle_heap *h, enum pickle_kind kind, struct pickle_value *v,
			   struct plim_err *err);
/* Append to a LIST, TUPLE, SET or DICT node (one value at a time; a dict takes keys and values in turn). */
enum plim_status heap_append(struct pickle_heap *h, struct pickle_value node,
			     const struct pickle_value *values, size_t n, struct plim_err *err);

/*
 * Offer pairs as a row.  *taken as in pickle_hooks.row; PICKLE_UNTAKEN when the keys are not all
 * strings, are too many, or are not wanted.
 */
enum plim_status rows_offer(struct pickle *p, const struct pickle_value *pairs, size_t n,
			    uint64_t *taken, struct plim_err *err);

/* A value that goes into a container: a dict that is a row becomes PICKLE_EXT. */
enum plim_status rows_settle(struct pickle *p, struct pickle_value *v, struct plim_err *err);

/* From p->p, at an EMPTY_DICT: takes as many rows as lie whole in the window; may take none. */
enum plim_status rows_run(struct pickle *p, struct plim_err *err);

#endif
