/*
 * The gradients of a step looked at in one pass: NaN, infinities, the largest magnitude and the norm of each tensor and of
 * all, by one kernel behind the work that is queued on a stream.  No one waits: results are there a step later.
 *
 *	plim_gradients_open(&options, &g, &err);
 *	plim_gradients_set(g, tensors, n, &err);	once, and when the list is another
 *	plim_gradients_check(g, &call, &err);		after backward()
 *	plim_gradients_clip(g, max_norm, &call, &err);	by that norm, without reading anything twice; if wanted
 *	while (!plim_gradients_take(g, &stats, &err) && stats.step != PLIM_UNKNOWN)
 *		plim_gradients_results(g, 0, &results, &n);
 *	plim_gradients_free(g);
 *
 * Any tensors will do: weights and activations as well.  The same values at the same places give the same bits each time.
 * Counts and magnitudes are exact; sums are of fp32 products, and in double beyond a chunk of 64 KiB.
 */
#ifndef PLIMSOLL_GRADIENTS_H
#define PLIMSOLL_GRADIENTS_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_gradients;

/* plim_gradients_options_init sets the defaults; then change what is to be different. */
struct plim_gradients_options {
	uint32_t size;   /* set by plim_gradients_options_init */
	uint32_t unused; /* 0 */
	uint64_t device; /* ordinal of the GPU that the tensors are on; PLIM_UNKNOWN: host memory */
	uint64_t history;         /* results that are kept; 16 */
	uint64_t threads;         /* of host memory; 0: as many as processors may be used */
	const char *cuda_library; /* the CUDA driver; NULL: libcuda.so.1 */
};
PLIM_API void plim_gradients_options_init(struct plim_gradients_options *o);

/* PLIM_E_UNSUPPORTED: the driver cannot be used, or does not take the kernel. */
PLIM_API enum plim_status plim_gradients_open(const struct plim_gradients_options *options,
					      struct plim_gradients **out, struct plim_err *err);

/* Waits for checks that are queued. */
PLIM_API void plim_gradients_free(struct plim_gradients *g);

enum plim_gradient_dtype {
	PLIM_GRADIENT_FLOAT32,  /* of IEEE 754 */
	PLIM_GRADIENT_FLOAT16,  /* of IEEE 754 */
	PLIM_GRADIENT_BFLOAT16, /* the upper half of a float32 */
	PLIM_GRADIENT_FLOAT64   /* of IEEE 754 */
};
PLIM_API const char *plim_gradient_dtype_name(enum plim_gradient_dtype value);

/* A tensor whose elements lie together, in whatever order. */
struct plim_gradient {
	uint64_t elements; /* may be 0 */
	uint64_t
		order; /* the lower, the earlier its gradient is made: of bad ones the first is reported */
	uint32_t dtype;  /* enum plim_gradient_dtype */
	uint32_t copies; /* ranks that hold the same values: its squares count 1 / copies; 1 */
};

/* What is looked at from now on.  Waits for checks that are queued; what was not taken of them is gone. */
PLIM_API enum plim_status plim_gradients_set(struct plim_gradients *g,
					     const struct plim_gradient *tensors, size_t n,
					     struct plim_err *err);

/* What a check leaves for work that follows on the GPU (for host memory: on the host). */
struct plim_gradients_summary {
	double nan;      /* values */
	double inf;      /* values */
	double max_abs;  /* of the finite values, as they lie there */
	double squares;  /* sum of those of the finite values, as they lie there */
	double scale;    /* what the values are multiplied by, as *scale was */
	float norm;      /* of the values without the scale; NaN or infinite where a value is */
	float found_inf; /* 1: a value is not finite; 0 */
};

enum plim_gradients_flags {
	PLIM_GRADIENTS_LATER =
		1 /* plim_gradients_collect comes when the summary was changed: summed over ranks */
};

struct plim_gradients_call {
	uint32_t size;         /* of this struct */
	uint32_t flags;        /* enum plim_gradients_flags */
	uint64_t step;         /* comes back with the result */
	const uint64_t *where; /* address of each tensor; 0: it has no gradient this time */
	void *stream;          /* CUstream; NULL: the default stream */
	uint64_t
		scale; /* address of a float that the values are multiplied by (a loss scale); 0: they are not */
	uint64_t summary; /* address of a plim_gradients_summary to fill; 0: one of our own */
};

/*
 * Queue a check on the stream.  In a CUDA graph's capture it becomes part of the graph, with these addresses.  After each
 * replay, as after a check with PLIM_GRADIENTS_LATER, plim_gradients_collect makes its result one to be taken: that of
 * call->summary.
 */
PLIM_API enum plim_status plim_gradients_check(struct plim_gradients *g,
					       const struct plim_gradients_call *call,
					       struct plim_err *err);
PLIM_API enum plim_status plim_gradients_collect(struct plim_gradients *g,
						 const struct plim_gradients_call *call,
						 struct plim_err *err);

/*
 * Multiply what was checked last, on the same stream, by max_norm / (norm + 1e-6) if that is below 1; else, or if the norm
 * is not finite, nothing is written.  The norm is that of call->summary, which others may have changed since.  PLIM_E_ARG:
 * host memory without a call->summary.
 */
PLIM_API enum plim_status plim_gradients_clip(struct plim_gradients *g, double max_norm,
					      const struct plim_gradients_call *call,
					      struct plim_err *err);

/* A step, all tensors together. */
struct plim_gradients_stats {
	uint64_t step;      /* as given; PLIM_UNKNOWN: there is nothing new */
	double norm;        /* without the scale; NaN or infinite where a value is */
	double finite_norm; /* of the finite values alone */
	double max_abs;     /* of the finite values, without the scale */
	double scale;       /* 1: there was none */
	uint64_t nan;       /* values */
	uint64_t inf;       /* values */
	uint64_t none;      /* tensors that had no gradient */
	uint64_t bad;       /* tensors with values that are not finite */
	uint64_t first_bad; /* the first of them by `order`; PLIM_UNKNOWN: there is none */
	uint64_t missed;    /* checks so far whose results no one took in time */
};

/* One tensor at one step. */
struct plim_gradient_result {
	uint64_t nan;    /* values */
	uint64_t inf;    /* values */
	double norm;     /* of the finite values, without the scale */
	double max_abs;  /* of the finite values, without the scale */
	uint64_t is_set; /* 0: it had no gradient */
};

/* The oldest result that is there and was not taken.  Waits for nothing. */
PLIM_API enum plim_status plim_gradients_take(struct plim_gradients *g,
					      struct plim_gradients_stats *out,
					      struct plim_err *err);

/* The same, but waits for the GPU if there is one to come. */
PLIM_API enum plim_status plim_gradients_wait(struct plim_gradients *g,
					      struct plim_gradients_stats *out,
					      struct plim_err *err);

/* The tensors of the result that was taken `ago` takes before the last one (0: of the last), until the next is taken.  NULL and 0: not kept. */
PLIM_API void plim_gradients_results(struct plim_gradients *g, uint64_t ago,
				     const struct plim_gradient_result **out, size_t *n);

/* Of the result taken last: numbers of tensors with values that are not finite, by `order`; at most `most`.  How many. */
PLIM_API size_t plim_gradients_bad(struct plim_gradients *g, uint64_t *out, size_t most);

/* Another order of the tensors, one number each: see plim_gradient.order. */
PLIM_API void plim_gradients_order(struct plim_gradients *g, const uint64_t *order, size_t n);

#ifdef __cplusplus
}
#endif

#endif
