/*
 * What a run asks of memory, without addresses: requests and the order of their births and ends.
 * A recording yields one; later a plan emits one; the allocator model turns one into a trace.
 */
#ifndef PROGRAM_PROGRAM_H
#define PROGRAM_PROGRAM_H

#include "snapshot/snapshot.h"

enum program_op_kind {
	PROGRAM_ALLOC,
	PROGRAM_WORKSPACE, /* an allocation of cuDNN's, which takes another algorithm where it fails */
	PROGRAM_FREE,      /* the program drops it */
	PROGRAM_FREE_DONE, /* other streams are done with it too */
	PROGRAM_ATTEMPT, /* an allocation that failed when recorded: its request lives no longer than that */
	PROGRAM_EMPTY_CACHE, /* torch.cuda.empty_cache(); no request */
	PROGRAM_DROP_POOL, /* no one holds a private pool any more: `request` is the pool's number */
	PROGRAM_PHASE,     /* a part of the run ends: `request` is its number */
};

/* One request; stack, stream and pool as in the trace. */
struct program_request {
	uint64_t bytes; /* unrounded; of an ATTEMPT as the allocator had rounded it */
	uint32_t stack;
	uint16_t stream, pool;
};

/* Does it ask for memory, and get it? */
static inline int program_allocates(uint32_t kind)
{
	return kind == PROGRAM_ALLOC || kind == PROGRAM_WORKSPACE;
}

struct program_op {
	uint32_t
		request; /* TRACE_NONE: of none; of PROGRAM_DROP_POOL a pool, of PROGRAM_PHASE a phase */
	uint32_t event; /* of the recording; TRACE_NONE: before its first */
	uint32_t kind;  /* enum program_op_kind */
};

struct program {
	struct mem *mem;
	VEC(struct program_request) requests;
	VEC(struct program_op) ops;
	size_t pools;           /* requests' pools are below this */
	const int64_t *streams; /* cudaStream_t by number; borrowed */
	size_t stream_count;
	uint32_t
		death; /* event of the failure that ended the run, or TRACE_NONE; what failed before was caught */
	/* Live when the recording began: they come first, as ALLOC ops.  allocs_before[request] is the trace's allocation. */
	uint32_t requests_before;
	uint32_t *allocs_before;
};

/* The request whose refusal ended the recorded run: who survives it must be given it. */
static inline int program_dies_at(const struct program *p, const struct program_op *op)
{
	return op->kind == PROGRAM_ATTEMPT && op->event == p->death;
}

/*
 * The requests of a device's recording.  Those that lived before its first event come first, in the
 * order of their addresses: their true order is not known.
 */
enum plim_status program_from_trace(struct mem *m, const struct snapshot *t,
				    const struct snapshot_device *d, struct program **out,
				    struct plim_err *err);
void program_free(struct program *p);

/*
 * The ops of a run in which other streams take `times` as long to be done with what the program dropped, counted in ops from
 * there; 0: they are done at once.  *out is a copy of p with ops of its own, which program_delayed_free frees, and all else
 * borrowed.  *any: does p wait for other streams at all?  If not, *out is not made.
 */
enum plim_status program_delayed(struct mem *m, const struct program *p, unsigned times,
				 struct program *out, int *any, struct plim_err *err);
void program_delayed_free(struct mem *m, struct program *out);

/* What is broken in it, or NULL (check.c). */
const char *program_check(const struct program *p);

/* One without requests, of one stream and one pool. */
enum plim_status program_new(struct mem *m, struct program **out, struct plim_err *err);

/*
 * Recordings do not show torch.cuda.empty_cache(), nor the end of a private pool; whoever finds out
 * gives each with the number of the op that it preceded, in rising order (ops.n: at the end).
 */
struct program_found {
	uint32_t before;
	uint32_t kind; /* PROGRAM_EMPTY_CACHE or PROGRAM_DROP_POOL */
	uint32_t pool; /* TRACE_NONE: of none */
};

enum plim_status program_add_found(struct program *p, const struct program_found *found, size_t n,
				   struct plim_err *err);

#endif
