/*
 * PyTorch's eager autograd, as far as memory goes: operations on tensors that have a size, a dtype and owners, but no
 * values.  Each operation takes memory as its CUDA implementation does, keeps for the backward pass what autograd
 * saves, and backward() runs the graph in the engine's order.  What comes out is a program: requests and their ends.
 *
 * Rules and their origin (PyTorch 2.11): derivatives.yaml (what is saved, what backward computes, in which order),
 * torch/csrc/autograd/engine.cpp and input_buffer.cpp (order, gradients added in place where no one else holds them),
 * accumulate_grad.cpp (the first gradient is taken over, not copied), autocast_mode.cpp (casts and their cache).
 *
 * After the first failure (memory) operations do nothing; tape.failed shows.
 */
#ifndef PLAN_TAPE_H
#define PLAN_TAPE_H

#include "plan/recipe.h"

#define TAPE_NONE UINT32_MAX
#define TAPE_EDGES 3   /* inputs of an operation that can take a gradient */
#define TAPE_SAVES 8   /* tensors that an operation saves, at most */
#define TAPE_PIECE 255 /* value.out: one of many results, whose gradients are kept apart */

enum tape_dtype { TAPE_F32, TAPE_BF16, TAPE_F16, TAPE_I64, TAPE_I32, TAPE_BOOL, TAPE_DTYPES };
extern const uint8_t tape_dtype_bytes[TAPE_DTYPES];

/* Memory, owned by whoever counts in `refs`. */
struct tape_store {
	uint64_t bytes;
	uint32_t refs;
	uint32_t request; /* of the program; TAPE_NONE: of none, it is not the GPU's */
	uint8_t host;   /* enum plan_host_part + 1: in the machine's own memory; 0: in the GPU's */
	uint8_t how;    /* ... TAPE_PINNED, TAPE_ONCE */
	uint8_t packed; /* a copy was sent to the host already */
};

/* A tensor, or a view of one.  A value that an operation returns owns one reference: tape_drop gives it back. */
struct value {
	uint64_t n;     /* elements */
	uint32_t store; /* TAPE_NONE: there is none */
	uint32_t node;  /* the operation whose result it is, or TAPE_NONE */
	uint32_t param; /* the parameter that it is, or TAPE_NONE */
	uint8_t dtype;  /* enum tape_dtype */
	uint8_t out;    /* which result of `node` */
	uint8_t grad;   /* takes part in the graph */
	uint8_t part; /* a view of a part only: a gradient that is one cannot be added to in place */
	uint8_t apart; /* the elements of a row do not lie one behind the other */
};

/* A parameter or a buffer. */
struct tape_param {
	uint64_t n;
	uint32_t store;
	uint32_t grad;      /* store, or TAPE_NONE */
	uint32_t pending;   /* gradient that awaits further uses of the parameter */
	uint32_t uses;      /* edges of the graph that lead here and have not been followed */
	uint32_t states[3]; /* of the optimizer */
	struct value cast;  /* the copy that autocast keeps; store TAPE_NONE: none */
	uint8_t dtype, trainable, pending_part;
	uint8_t input;  /* no parameter: an input that wants a gradient */
	uint8_t others; /* another process steps on it */
	uint8_t own_dtype;
	uint64_t own_n; /* what this process keeps and steps on */
	uint32_t place; /* as tape.place */
	uint32_t ready; /* when in the last backward pass its gradient was */
};

struct tape_edge {
	uint64_t n;
	uint32_t node, param; /* both TAPE_NONE: takes no gradient */
	uint8_t dtype, out;
};

/* Why a gradient cannot be added to in place. */
enum {
	TAPE_PART = 1, /* a view of a part: it cannot become .grad either */
	TAPE_TURNED =
		2 /* a transposed view: the gradient of a linear layer's weight where nothing is cast */
};

struct tape_grad {
	uint64_t n;
	uint32_t store;
	uint8_t dtype, part; /* part: TAPE_PART, TAPE_TURNED */
};

struct tape_node {
	uint64_t a, b, c; /* sizes, as the operation defines them */
	struct tape_edge in[TAPE_EDGES];
	struct tape_grad grad[3]; /* of its results */
	uint32_t saved[TAPE_SAVES];
	uint32_t region; /* of checkpointing, or TAPE_NONE */
	uint32_t place;  /* as tape.place */
	uint16_t how;    /* as the operation defines it */
	uint8_t op, ins, saves, outs;
	uint8_t away; /* what it saved waits on the host */
	uint8_t used; /* by the part whose backward pass begins */
};

/* The gradient of one of a node's many results. */
struct tape_piece {
	uint32_t node, store;
};

/* Runs the checkpointed function once more; the result is the caller's. */
typedef struct value tape_again_fn(void *self, uint32_t block, struct value input);

/* A checkpointed part of the forward pass: what it saved is made again in the backward pass. */
struct tape_region {
	uint32_t first, end; /* nodes */
	uint32_t saves;
	uint32_t block;
	struct value input;
	tape_again_fn *again;
	uint32_t kept, kept_end; /* of t->kept: results that the second run takes, in order */
	uint8_t filled, selective;
};

#define TAPE_BINS 64
#define TAPE_FLIES 5 /* TRL's max_fwd_stash_size */

/*
 * The machine's own memory.  What is pinned comes from a cache (CachingHostAllocator.h) of blocks of powers of two that
 * are never split and never given back.
 */
struct tape_host {
	struct plan_host all;
	uint64_t now[PLAN_HOST_PARTS], total, recent; /* recent: most since a phase ended */
	uint64_t lent[TAPE_BINS], blocks[TAPE_BINS];  /* pinned, by the power of two */
};

struct tape {
	struct mem *mem;
	struct plim_err *err;
	enum plim_status failed;
	struct program *program;
	VEC(uint8_t) categories; /* of each request: enum timeline_category */
	VEC(struct tape_store) stores;
	VEC(uint32_t) spare;
	VEC(struct tape_node) nodes;
	VEC(struct tape_region) regions;
	VEC(struct tape_param) params;
	VEC(uint32_t) cached; /* parameters with a cast copy */
	/* what nodes keep next to what autograd saves, as long as there are nodes: of this graph, and of the one before */
	VEC(uint32_t) held, past;
	VEC(uint32_t) kept; /* stores that selective checkpointing keeps for its regions */
	tape_again_fn *again;
	void *again_self;
	/* the backward pass reaches a unit that was marked, from its end (or `begins`: has left it) */
	void (*unit)(void *self, uint32_t unit, int begins);
	const struct plan_device *device;
	uint8_t grad;                  /* gradients are enabled */
	uint8_t autocast;              /* enum tape_dtype of autocast, TAPE_F32: off */
	uint8_t backward;              /* the backward thread has its own cuBLAS handle */
	VEC(struct tape_piece) pieces; /* gradients that await the others of their node */
	uint8_t packing, refilling, stopped;
	uint8_t workspace[2], lt_workspace[2]; /* was taken, forward and backward */
	uint8_t selective; /* checkpointing keeps results of products and attention; 2: of every second mm alone */
	uint32_t products; /* mm of the block that runs */
	struct tape_node
		again_node; /* stands for all operations of a block that is computed again */
	uint32_t region, refill_node, refill_slot, refill_saves;
	uint8_t category; /* of new requests */
	/* where requests are made (plan.h): what the model runs, what the operation belongs to, the operation + 1 */
	uint32_t home, place;
	uint8_t op;
	uint8_t away;  /* enum plan_activations: what is done with what operations save */
	uint8_t stays; /* except for now it stays */
	struct tape_host host;
	uint32_t flying[TAPE_FLIES]; /* stores whose copies are on their way to the host */
	uint32_t landed[TAPE_SAVES]; /* stores that came back for the node before */
	unsigned flies, lands;
	/* a parameter's gradient is there; NULL: no one listens */
	void (*accumulated)(void *self, struct tape_param *p);
	uint16_t stream; /* of new requests: a number of program->streams */
	uint32_t ready;  /* gradients of parameters in this backward pass so far */
};

enum plim_status tape_init(struct tape *t, struct mem *m, const struct plan_device *device,
			   struct plim_err *err);
/* The program stays the caller's. */
void tape_release(struct tape *t);

/* Keeps the first failure; PLIM_OK is none and takes none back. */
void tape_fail(struct tape *t, enum plim_status st);

/* What is broken in it between two operations, or NULL (check.c). */
const char *tape_check(const struct tape *t);

/* Another reference; and one less. */
struct value tape_keep(struct tape *t, struct value v);
/* An attribute of the node (ctx.x = x): neither checkpointing nor the backward pass lets it go, but the graph's end. */
void tape_hold_in_graph(struct tape *t, struct value v);
/* A graph begins: the one before is past, and ends when its loss is let go. */
void tape_begin_graph(struct tape *t);
void tape_end_graph(struct tape *t);
void tape_drop(struct tape *t, struct value *v);
/* *v becomes `by`, as a Python name is bound to another object. */
void tape_set(struct tape *t, struct value *v, struct value by);

/* A tensor without history; `category` as in enum timeline_category. */
struct value tape_new(struct tape *t, uint64_t n, enum tape_dtype dtype, unsigned category);
/* The same as one more result of the operation that runs. */
struct value tape_more(struct tape *t, uint64_t n, enum tape_dtype dtype, unsigned category);
/* Memory that an operation needs only while it runs. */
void tape_touch(struct tape *t, uint64_t bytes);

uint32_t tape_store(struct tape *t, uint64_t bytes, unsigned category);
/* The owner of a store that was asked for. */
uint32_t tape_own(struct tape *t, struct tape_store s);
/* A store on the meta device: it has no memory anywhere. */
uint32_t tape_meta(struct tape *t);
void tape_hold(struct tape *t, uint32_t store);
void tape_let(struct tape *t, uint32_t store);
/* Memory of another stream than that of operations. */
uint32_t tape_store_on(struct tape *t, uint16_t stream, uint64_t bytes, unsigned category);
/* Its only owner drops it, but another stream still uses it: tape_let says when that is done. */
void tape_let_early(struct tape *t, uint32_t store);

/* Memory of the machine (host.c): held and let as the GPU's. */
enum {
	TAPE_PINNED = 1, /* page-locked, from PyTorch's cache of such blocks */
	TAPE_ONCE = 2    /* by one process only, not by each that is on the machine */
};
uint32_t tape_host_store(struct tape *t, uint64_t bytes, enum plan_host_part part, unsigned flags);
void tape_host_let(struct tape *t, const struct tape_store *s);
/* Memory of the machine that is needed only for a moment. */
void tape_host_touch(struct tape *t, uint64_t bytes, enum plan_host_part part, unsigned flags);

/* The parameter as a value, borrowed. */
struct value tape_param(const struct tape *t, uint32_t param);

/*
 * A node for an operation on `in`, NULL where nothing takes a gradient; then save what it keeps, in the order in which
 * the engine lets it go.  Inputs are saved before the result is allocated.
 */
struct tape_node *tape_node(struct tape *t, unsigned op, const struct value *in, unsigned n);
void tape_save(struct tape *t, struct tape_node *node, struct value v);
/* ... what is a transposed view: packing it for the host makes a copy on the GPU. */
void tape_save_turned(struct tape *t, struct tape_node *node, struct value v);
/*
 * Where saved tensors go to the host (offload.c): a copy there; all that a node saved comes back before it runs, and
 * goes when it has run.  tape_landed: no copies are on their way any more.
 */
uint32_t tape_pack(struct tape *t, struct value v, int turned);
void tape_unpack(struct tape *t, struct tape_node *node);
void tape_unpacked(struct tape *t, struct tape_node *node);
/* The same for the input of a checkpointed part. */
struct value tape_recall(struct tape *t, struct value input);
void tape_recalled(struct tape *t, struct value *input);
void tape_landed(struct tape *t);
/* A new result of the node. */
struct value tape_result(struct tape *t, const struct tape_node *node, uint64_t n,
			 enum tape_dtype dtype);
/*
 * The same of a product or of attention: selective checkpointing keeps it, and a block that is computed again takes what
 * was kept instead.
 */
#define TAPE_SELECTS_OPS 2
enum tape_product { TAPE_MM, TAPE_OTHER_PRODUCT, TAPE_ATTENTION };
struct value tape_product(struct tape *t, const struct tape_node *node, uint64_t n,
			  enum tape_dtype dtype, enum tape_product kind);
/* A view of `of` that `node` (or NULL) made. */
struct value tape_view(struct tape *t, const struct tape_node *node, struct value of, uint64_t n);

/* The forward pass of a checkpointed block, by t->again; the value is what it gives. */
struct value tape_checkpoint(struct tape *t, uint32_t block, struct value input);

/* From a scalar; the graph is gone then. */
void tape_backward(struct tape *t, struct value root);

/*
 * Several graphs at a time: the part of one forward pass is the nodes [first, end), which may use casts that the first
 * part has made, the nodes below `shared`.  From `root` with the gradient `seed` (a store, or TAPE_NONE where it is a scalar); the part is gone then,
 * and all of the graph with tape_forget.
 */
struct tape_part {
	uint32_t first, end, shared;
};
void tape_backward_part(struct tape *t, struct value root, uint32_t seed, struct tape_part part);
/* The graph goes without having been used. */
void tape_forget(struct tape *t);

/* The gradients of a node's pieces go. */
void tape_let_pieces(struct tape *t, const struct tape_node *node);

/* The autocast region ends. */
void tape_uncache(struct tape *t);

/* cuBLAS takes its workspace with the first product of a thread. */
void tape_blas(struct tape *t, int lt);

/* Sum of `rows` rows of `n` outputs, contiguous along the outputs: the result (a store), and what it needs meanwhile. */
uint32_t tape_sum_rows(struct tape *t, uint64_t rows, uint64_t n, enum tape_dtype dtype);

/* No operation runs: what is asked for is of `place`. */
void tape_at(struct tape *t, uint32_t place);

/* What each operation does in the backward pass: a gradient for each edge that takes one (ops.c). */
typedef void tape_backward_fn(struct tape *t, const struct tape_node *node, struct tape_grad *out);
extern tape_backward_fn *const tape_backward_of[];

#endif
