/* What the parts of gradients share. */
#ifndef GRADIENTS_PARTS_H
#define GRADIENTS_PARTS_H

#include "gpu/gpu.h"
#include "gradients.h"

#include <stdbool.h>

/* As in kernel.cu, these four. */
#define GRADIENTS_CHUNK ((uint64_t)65536) /* bytes of a tensor that are summed as one */
struct gradients_row {
	uint64_t at, count;
	uint32_t dtype, first;
	uint32_t chunks, unused;
	double weight;
};
struct gradients_chunk {
	uint32_t tensor, index;
};
struct gradients_sums {
	double nan, inf, max, squares;
};

/* As the kernels take them: each at a multiple of its size. */
struct gradients_check_arguments {
	uint64_t rows;
	uint32_t tensors;
	uint64_t chunks;
	uint32_t n, each;
	uint64_t partial, out, counters, scale, summary;
};
struct gradients_clip_arguments {
	uint64_t rows, chunks;
	uint32_t n, each;
	uint64_t summary;
	float max_norm;
};
/* The driver refuses what is larger than the arguments, as the struct with its padding is. */
#define GRADIENTS_CHECK_BYTES \
	(offsetof(struct gradients_check_arguments, summary) + sizeof(uint64_t))
#define GRADIENTS_CLIP_BYTES (offsetof(struct gradients_clip_arguments, max_norm) + sizeof(float))

#define GRADIENTS_SLOTS 8 /* results on their way; more than anybody runs ahead of a GPU */

/* A result on its way: what the GPU reads and writes of it is page-locked. */
struct gradients_slot {
	uint64_t step;
	void *event;                         /* behind its copies */
	struct gradients_row *rows;          /* to the GPU */
	struct gradients_sums *out;          /* a tensor each, */
	struct plim_gradients_summary *told; /* and all, behind them */
};

/* Of one GPU. */
struct gradients_device {
	struct cuda cuda;
	void *context, *module, *check, *clip;
	void *upload;    /* a stream of our own */
	uint64_t memory; /* holds all below */
	uint64_t rows, chunks, partial, out, counters, summary;
	uint64_t rows_now;  /* of the last check: a CUDA graph has its own */
	bool stale;         /* `rows` is older than g->rows */
	VEC(uint64_t) kept; /* memory that a CUDA graph may use still */
	bool captured;      /* all of this is part of a graph */
	void *last;         /* stream of the last check, */
	void *last_event;   /* and what is recorded behind it; NULL: none */
};

struct plim_gradients {
	struct mem mem;
	struct plim_gradients_options options;
	char *cuda_library;
	size_t cuda_bytes;
	bool on_gpu;
	struct gradients_device gpu;

	VEC(struct plim_gradient) list;
	VEC(uint32_t) row_of;           /* of each tensor; UINT32_MAX: it has no elements */
	VEC(struct gradients_row) rows; /* with the addresses of the last check */
	VEC(struct gradients_chunk) chunks;
	VEC(struct gradients_sums) partial; /* host memory only */

	struct gradients_slot slots[GRADIENTS_SLOTS];
	size_t first, pending; /* slots in use, oldest first */
	bool uncollected;      /* of the slot behind them the rows are on their way */
	void *slot_memory;
	size_t slot_bytes;
	uint64_t missed;

	VEC(struct plim_gradient_result) results; /* options.history times the list */
	uint64_t taken;                           /* results so far */
};

/* What a result takes: a row per tensor and the summary; and with the rows that go to the GPU. */
size_t gradients_out_bytes(const struct plim_gradients *g);
size_t gradients_slot_bytes(const struct plim_gradients *g);
/* The slots lie in this memory, of GRADIENTS_SLOTS times that. */
void gradients_cut_slots(struct plim_gradients *g, void *memory);

/* ---- host.c ---- */

/* All rows at once, into slot->out and *slot->told, by threads; the same for any number of them. */
enum plim_status host_check(struct plim_gradients *g, struct gradients_slot *slot, double scale,
			    struct plim_err *err);
void host_clip(struct plim_gradients *g, float norm, float max_norm);

/* ---- device.c ---- */

enum plim_status device_open(struct plim_gradients *g, struct plim_err *err);
void device_close(struct plim_gradients *g);
/* Memory for g's list there, and slots here; what there was before goes. */
enum plim_status device_set(struct plim_gradients *g, struct plim_err *err);
/* *pending: the slot is used; not if the check is part of a graph, or is to be collected later. */
enum plim_status device_check(struct plim_gradients *g, struct gradients_slot *slot,
			      const struct plim_gradients_call *call, bool *pending,
			      struct plim_err *err);
enum plim_status device_collect(struct plim_gradients *g, struct gradients_slot *slot,
				const struct plim_gradients_call *call, struct plim_err *err);
enum plim_status device_clip(struct plim_gradients *g, float max_norm,
			     const struct plim_gradients_call *call, struct plim_err *err);
/* Is what the slot's event is behind over?  With `wait` it is when this returns. */
enum plim_status device_done(struct plim_gradients *g, const struct gradients_slot *slot, bool wait,
			     bool *done, struct plim_err *err);

#endif
