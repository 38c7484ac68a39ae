/*
 * The operations that models are made of.  Arguments are borrowed, results are the caller's.  `rows` and `width` are of the
 * matrix that a tensor is seen as.
 */
#ifndef PLAN_OPS_H
#define PLAN_OPS_H

#include "plan/step/tape.h"

/* What PyTorch calls the operation of that number (tape_node.op); NULL: there is none. */
const char *op_name(unsigned op);

/* x.to(dtype): x itself if it has that dtype. */
struct value op_cast(struct tape *t, struct value x, enum tape_dtype dtype);

/* What autocast makes of an operand of a product; parameters are cast once while their region lasts. */
struct value op_operand(struct tape *t, struct value x);

/* Elementwise functions, by what they save and how their gradient is computed. */
enum op_function {
	OP_SCALE, /* by a number: saves nothing */
	OP_SHIFT, /* adds a number: the gradient passes */
	OP_POW,   /* a power: saves the input, three kernels backward */
	OP_TANH,  /* saves the result */
	OP_SIGMOID,
	OP_RSQRT, /* saves the result, three kernels backward */
	OP_SILU,  /* saves the input */
	OP_GELU,
	OP_RELU, /* saves the result */
	OP_FUNCTIONS
};
struct value op_apply(struct tape *t, enum op_function f, struct value x);

struct value op_add(struct tape *t, struct value a, struct value b);
/* Both are spread: n elements come out. */
struct value op_add_across(struct tape *t, struct value a, struct value b, uint64_t n);
/* a += b */
struct value op_add_inplace(struct tape *t, struct value a, struct value b);
struct value op_mul(struct tape *t, struct value a, struct value b);

/* The mean of each row: one value a row. */
struct value op_mean(struct tape *t, struct value x, uint64_t rows);

/* x W' + b; bias may be none (store TAPE_NONE).  Casts by autocast are part of it. */
struct value op_linear(struct tape *t, struct value x, struct value weight, struct value bias,
		       uint64_t out);

/* A product with a weight that is kept in codes, none of which takes a gradient (bitsandbytes). */
struct packed {
	uint64_t in, out;
	uint64_t
		scales; /* elements of fp32 that are made of quantized scales, 0: they are not quantized */
	bool bytes; /* LLM.int8(); else 4 bits */
	bool kept;  /* ... of a release that keeps what comes in */
	bool half;  /* ... quantized from fp16: made whole in fp16, and then in the dtype of x */
};
struct value op_packed(struct tape *t, struct value x, const struct packed *w, struct value bias);

/*
 * Batched products [batch, n, k] [batch, k, m].  Operands whose batch dimensions do not lie one behind the other (heads of a
 * projection) are copied first.
 */
enum matmul_copies { MATMUL_COPIES_A = 1, MATMUL_COPIES_B = 2 };
struct matmul {
	uint64_t batch, n, k, m;
	unsigned copies;
};
struct value op_matmul(struct tape *t, struct value a, struct value b, struct matmul size);

struct value op_layer_norm(struct tape *t, struct value x, struct value weight, struct value bias,
			   uint64_t rows);
struct value op_dropout(struct tape *t, struct value x, double p);
/* The rows of a table; `tokens` indices, which the caller holds. */
struct value op_embedding(struct tape *t, struct value ids, struct value table, uint64_t width,
			  int padded);
struct value op_softmax(struct tape *t, struct value x, enum tape_dtype dtype);

/* x * cosine + rotate_half(x) * sine; the half is cat((-x2, x1)) of the halves of x */
struct value op_rotate(struct tape *t, struct value x, struct value cosine, struct value sine);

/* A copy with another layout. */
struct value op_contiguous(struct tape *t, struct value x);
/* Each of x's rows `times` times over: the gradient is summed. */
struct value op_repeat(struct tape *t, struct value x, uint64_t times);

/* x in three parts of a, b and c elements, views; c may be 0. */
void op_split(struct tape *t, struct value x, const uint64_t n[3], struct value out[3]);

/* scaled_dot_product_attention by a fused kernel. */
struct attention {
	uint64_t batch, heads, kv_heads, queries, keys, head_dim;
	double dropout;
	uint8_t causal, kernel; /* enum op_kernel */
	uint64_t bias;          /* elements of a mask, 0: none */
};
enum op_kernel { OP_CUDNN, OP_EFFICIENT, OP_FLASH };
struct value op_attention(struct tape *t, struct value q, struct value k, struct value v,
			  const struct attention *a);

/* The mean loss of `rows` rows of logits; `labels` are held by the graph. */
struct value op_cross_entropy(struct tape *t, struct value logits, struct value labels,
			      uint64_t rows);

/* torch's grouped_mm of tokens sorted by expert: no autocast, out features of each of `experts`. */
struct value op_grouped(struct tape *t, struct value x, struct value weight, uint64_t experts,
			uint64_t out);
/* x[ids] along the rows: n elements. */
struct value op_gather(struct tape *t, struct value x, struct value ids, uint64_t n);
/* index_add_: rows are added to those of x that ids name */
struct value op_add_rows(struct tape *t, struct value x, struct value rows, struct value ids);
/* masked_fill, or masked_fill_ where `inplace` */
struct value op_fill(struct tape *t, struct value x, struct value mask, int inplace);
/* The sum of groups of rows: n elements are left, the gradient is spread as a view. */
struct value op_sum(struct tape *t, struct value x, uint64_t n);

/* cat() of x with `first` in front of each of `times` samples. */
struct value op_join(struct tape *t, struct value x, struct value first, uint64_t times);

/* masked_scatter(): x with `source` in the place of some of its rows. */
struct value op_scatter(struct tape *t, struct value x, struct value source);

/* A scalar whose gradients, of `in`, were made in the forward pass; both are borrowed, none where store TAPE_NONE. */
/* The negative log likelihood of rows, which never has all logits: x and weight in tiles. */
struct value op_tiles(struct tape *t, struct value x, struct value weight, struct value targets,
		      uint64_t rows);
struct value op_ready(struct tape *t, const struct value in[2], const struct value grads[2]);

/*
 * Liger's kernels: a norm whose gradient is written where it comes (`in_place`); a gate's activation times `up`, whose gradients
 * are written over what was saved; RoPE of queries and keys where they lie.
 */
struct value op_liger_norm(struct tape *t, struct value x, struct value weight, int in_place);
struct value op_liger_gate(struct tape *t, struct value gate, struct value up);
void op_liger_turn(struct tape *t, const struct value in[2], struct value cosine, struct value sine,
		   struct value out[2]);

/* x[mask] = source, in place. */
struct value op_put(struct tape *t, struct value x, struct value source);

/* x.index_copy_(source), in place, which keeps the source, too. */
struct value op_index_copy(struct tape *t, struct value x, struct value source);

/* torch.split() into `count` parts of n[i] elements, views. */
void op_cut(struct tape *t, struct value x, const uint64_t *n, size_t count, struct value *out);
/* Two parts of what one cat() will join; it takes its memory with op_contiguous().  Both are taken. */
struct value op_tie(struct tape *t, struct value a, struct value b);

/* Marks where a unit begins or ends: tape.unit is called when the backward pass is there.  x is taken. */
struct value op_mark(struct tape *t, struct value x, uint32_t unit, int begins);

/*
 * Messages between processes that share tensors out, forward / backward.  `ways` is their number.
 * REPLICATED the same / summed; REDUCED summed / the same; COLLECTED columns of all / one's own;
 * SPREAD_OUT rows of all / summed, one's own; BROUGHT_IN summed, one's own rows / those of all.
 */
enum op_message { OP_REPLICATED, OP_REDUCED, OP_COLLECTED, OP_SPREAD_OUT, OP_BROUGHT_IN };
struct value op_exchange(struct tape *t, struct value x, enum op_message message, uint64_t ways);

/* x, and with it so many bytes that its backward pass wants.  x is taken. */
struct value op_keep(struct tape *t, struct value x, uint64_t bytes);

/* Views that autograd knows: of one element, say. */
struct value op_index_first(struct tape *t, struct value x, uint64_t n);

#endif
