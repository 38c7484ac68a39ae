/* Operations: what each takes, saves and computes backward.  Names in comments are derivatives.yaml's. */
#include "plan/step/ops.h"

#define D(v) tape_dtype_bytes[(v).dtype]

enum op {
	OP_CAST,
	OP_FIRST_FUNCTION,
	OP_LAST_FUNCTION = OP_FIRST_FUNCTION + OP_FUNCTIONS - 1,
	OP_ADD,
	OP_MUL,
	OP_MEAN,
	OP_MM,
	OP_ADDMM,
	OP_BMM,
	OP_LAYER_NORM,
	OP_DROPOUT,
	OP_EMBEDDING,
	OP_SOFTMAX,
	OP_HALVES,
	OP_COPY,
	OP_REPEAT,
	OP_SPLIT,
	OP_JOIN,
	OP_SCATTER,
	OP_ATTENTION,
	OP_LOG_SOFTMAX,
	OP_NLL,
	OP_FIRST,
	OP_GATHER,
	OP_FILL,
	OP_ADD_ROWS,
	OP_SUM,
	OP_READY,
	OP_PACKED,
	OP_TILES,
	OP_MARK,
	OP_EXCHANGE,
	OP_PUT,
	OP_CUT,
	OP_TIE,
	OP_LIGER_NORM,
	OP_LIGER_GATE,
	OP_LIGER_TURN,
	OPS
};

static struct tape_grad make_op(struct tape *t, uint64_t n, unsigned dtype)
{
	struct tape_grad g = { n, TAPE_NONE, (uint8_t)dtype, 0 };

	g.store = tape_store(t, n * tape_dtype_bytes[dtype], TIMELINE_AUTOGRAD_DETAIL);
	return g;
}

/* The gradient itself goes on. */
static struct tape_grad pass(struct tape *t, const struct tape_grad *g)
{
	tape_hold(t, g->store);
	return *g;
}

static int wants(const struct tape_node *node, unsigned edge)
{
	return node->in[edge].node != TAPE_NONE || node->in[edge].param != TAPE_NONE;
}

/* What the result of two operands is: the wider, fp32 before the halves. */
static enum tape_dtype promoted(struct value a, struct value b)
{
	return D(a) >= D(b) ? a.dtype : b.dtype;
}

/* ---- elementwise ---- */

struct value op_cast(struct tape *t, struct value x, enum tape_dtype dtype)
{
	struct tape_node *node;
	struct value y;

	if (x.dtype == dtype || x.store == TAPE_NONE)
		return tape_keep(t, x);
	node = tape_node(t, OP_CAST, &x, 1);
	y = tape_result(t, node, x.n, dtype);
	y.apart = x.apart;
	return y;
}

/* The engine casts to the edge's dtype: the same allocation. */
static void cast_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->grad[0].n, node->in[0].dtype);
}

static const struct function {
	uint8_t saves_input, saves_result, steps; /* allocations of the gradient's size */
} functions[OP_FUNCTIONS] = {
	[OP_SCALE] = { 0, 0, 1 }, [OP_SHIFT] = { 0, 0, 0 },   [OP_POW] = { 1, 0, 3 },
	[OP_TANH] = { 0, 1, 1 },  [OP_SIGMOID] = { 0, 1, 1 }, [OP_RSQRT] = { 0, 1, 3 },
	[OP_SILU] = { 1, 0, 1 },  [OP_GELU] = { 1, 0, 1 },    [OP_RELU] = { 0, 1, 1 },
};

struct value op_apply(struct tape *t, enum op_function f, struct value x)
{
	struct tape_node *node;
	struct value in = x, y;

	/* autocast's list of what is computed in fp32 */
	if (t->autocast && (f == OP_POW || f == OP_RSQRT))
		in = op_cast(t, x, TAPE_F32);
	else
		tape_keep(t, x);
	node = tape_node(t, OP_FIRST_FUNCTION + f, &in, 1);
	if (functions[f].saves_input)
		tape_save(t, node, in);
	y = tape_result(t, node, in.n, in.dtype);
	if (functions[f].saves_result)
		tape_save(t, node, y);
	tape_drop(t, &in);
	return y;
}

static void function_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	const struct tape_grad *g = &node->grad[0];
	uint32_t before[2] = { TAPE_NONE, TAPE_NONE };
	unsigned steps = functions[node->op - OP_FIRST_FUNCTION].steps;

	if (!steps) {
		out[0] = pass(t, g);
		return;
	}
	for (unsigned i = 0; i + 1 < steps; i++)
		before[i] = make_op(t, g->n, g->dtype).store;
	out[0] = make_op(t, g->n, g->dtype);
	tape_let(t, before[1]);
	tape_let(t, before[0]);
}

struct value op_add(struct tape *t, struct value a, struct value b)
{
	struct tape_node *node = tape_node(t, OP_ADD, (struct value[]){ a, b }, 2);
	struct value y = tape_result(t, node, a.n > b.n ? a.n : b.n, promoted(a, b));

	y.apart = a.apart || b.apart; /* the sum lies as what it is added to */
	return y;
}

struct value op_add_across(struct tape *t, struct value a, struct value b, uint64_t n)
{
	struct tape_node *node = tape_node(t, OP_ADD, (struct value[]){ a, b }, 2);

	return tape_result(t, node, n, promoted(a, b));
}

struct value op_add_inplace(struct tape *t, struct value a, struct value b)
{
	struct tape_node *node = tape_node(t, OP_ADD, (struct value[]){ a, b }, 2);

	return tape_view(t, node, a, a.n);
}

static void add_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++)
		if (wants(node, i))
			out[i] = pass(t, &node->grad[0]);
}

struct value op_mul(struct tape *t, struct value a, struct value b)
{
	struct tape_node *node = tape_node(t, OP_MUL, (struct value[]){ a, b }, 2);

	if (a.grad)
		tape_save(t, node, b);
	if (b.grad)
		tape_save(t, node, a);
	return tape_result(t, node, a.n > b.n ? a.n : b.n, promoted(a, b));
}

/* `other` before `self` */
static void mul_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 2; i--;)
		if (wants(node, i))
			out[i] = make_op(t, node->grad[0].n, node->grad[0].dtype);
}

struct value op_mean(struct tape *t, struct value x, uint64_t rows)
{
	struct tape_node *node = tape_node(t, OP_MEAN, &x, 1);

	return tape_result(t, node, rows, x.dtype);
}

static void mean_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
}

/* ---- products ---- */

struct value op_operand(struct tape *t, struct value x)
{
	struct tape_param *p = x.param == TAPE_NONE ? NULL : &t->params.at[x.param];
	struct value cast;

	if (!t->autocast || x.dtype != TAPE_F32 || x.store == TAPE_NONE)
		return tape_keep(t, x);
	if (!p || !p->trainable)
		return op_cast(t, x, t->autocast);
	if (p->cast.store != TAPE_NONE)
		return tape_keep(t, p->cast);
	cast = op_cast(t, x, t->autocast);
	if (t->stopped || t->failed)
		return cast;
	p = &t->params.at[x.param];
	p->cast = tape_keep(t, cast);
	tape_fail(t, vec_push(t->mem, &t->cached, x.param, t->err));
	return cast;
}

struct value op_linear(struct tape *t, struct value x, struct value weight, struct value bias,
		       uint64_t out)
{
	/* arguments are cast from right to left */
	int biased = bias.store != TAPE_NONE;
	uint64_t in = weight.n / out, rows = x.n / in;
	struct value w, b, y, c[3];
	struct tape_node *node;

	w = op_operand(t, weight);
	c[0] = op_operand(t, x);
	b = biased ? op_operand(t, bias) : tape_keep(t, bias);
	c[1] = w;
	c[2] = b;
	node = tape_node(t, biased ? OP_ADDMM : OP_MM, c, biased ? 3 : 2);
	if (node) {
		node->a = rows;
		node->b = in;
		node->c = out;
	}
	if (c[0].grad)
		tape_save_turned(t, node, w);
	if (w.grad)
		tape_save(t, node, c[0]);
	y = tape_product(t, node, rows * out, c[0].dtype, biased ? TAPE_OTHER_PRODUCT : TAPE_MM);
	tape_blas(t, biased);
	tape_drop(t, &b);
	tape_drop(t, &c[0]);
	tape_drop(t, &w);
	return y;
}

/* mm: mat2 (the weight) before self; addmm: mat1 (x), mat2, and the bias is the gradient summed. */
static void mm_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	unsigned dtype = node->grad[0].dtype;
	int first = node->op == OP_MM;

	for (unsigned k = 0; k < 2; k++) {
		unsigned i = first ? 1 - k : k;

		if (wants(node, i)) {
			out[i] = make_op(t, i ? node->b * node->c : node->a * node->b, dtype);
			out[i].part = i ? TAPE_TURNED : 0;
			tape_blas(t, 0);
		}
	}
	if (node->op == OP_ADDMM && wants(node, 2))
		out[2] = pass(t, &node->grad[0]);
}

struct value op_matmul(struct tape *t, struct value a, struct value b, struct matmul size)
{
	struct value in[2], y;
	struct tape_node *node;

	in[1] = op_operand(t, b);
	in[0] = op_operand(t, a);
	if (size.copies & MATMUL_COPIES_A)
		tape_set(t, &in[0], op_contiguous(t, in[0]));
	if (size.copies & MATMUL_COPIES_B)
		tape_set(t, &in[1], op_contiguous(t, in[1]));
	node = tape_node(t, OP_BMM, in, 2);
	if (in[0].grad)
		tape_save(t, node, in[1]);
	if (in[1].grad)
		tape_save(t, node, in[0]);
	y = tape_product(t, node, size.batch * size.n * size.m, in[0].dtype, TAPE_OTHER_PRODUCT);
	tape_blas(t, 0);
	tape_drop(t, &in[0]);
	tape_drop(t, &in[1]);
	return y;
}

/* bmm: mat2 before self */
static void bmm_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 2; i--;)
		if (wants(node, i)) {
			out[i] = make_op(t, node->in[i].n, node->grad[0].dtype);
			tape_blas(t, 0);
		}
}

/* ---- quantized weights: bitsandbytes' MatMul4Bit and MatMul8bitLt ---- */

/* dequantize_4bit: the scales first where they are quantized too, then all of the weight. */
static uint32_t unpack_op(struct tape *t, uint64_t n, uint64_t scales, enum tape_dtype dtype,
			  bool half)
{
	uint32_t absmax = tape_store(t, scales * 4, TIMELINE_TEMPORARY);
	uint32_t made =
		tape_store(t, n * tape_dtype_bytes[half ? TAPE_F16 : dtype], TIMELINE_TEMPORARY);
	uint32_t weight;

	tape_let(t, absmax);
	if (!half || dtype == TAPE_F16)
		return made;
	weight = tape_store(t, n * tape_dtype_bytes[dtype], TIMELINE_TEMPORARY);
	tape_let(t, made);
	return weight;
}

/* The weight is made whole for the product; gemv_4bit reads the codes of it for a single row. */
static struct value product_4_bits(struct tape *t, struct tape_node *node, struct value x,
				   const struct packed *w)
{
	uint32_t weight = TAPE_NONE;
	struct value y;

	if (x.n == w->in && !x.grad)
		tape_touch(t, w->scales * 4);
	else
		weight = unpack_op(t, w->in * w->out, w->scales, x.dtype, w->half);
	if (w->kept && x.grad) { /* ctx.tensors; checkpoints were reentrant then, without a graph */
		tape_save(t, node, x);
		if (!t->packing)
			tape_hold_in_graph(t, x);
	}
	y = tape_product(t, node, x.n / w->in * w->out, x.dtype, TAPE_OTHER_PRODUCT);
	tape_blas(t, 0);
	tape_let(t, weight);
	return y;
}

/*
 * Rows become bytes with a scale each; the product is of whole numbers, and becomes halves.  What is too large for a byte
 * is looked for (its absolute value, a mask) and multiplied apart.
 */
static struct value product_8_bits(struct tape *t, struct tape_node *node, struct value x,
				   const struct packed *w)
{
	uint64_t rows = x.n / w->in, results = rows * w->out;
	struct value half, y;
	uint32_t codes, scales, sums;

	half = x.dtype == TAPE_F16 ? tape_keep(t, x) : tape_new(t, x.n, TAPE_F16, t->category);
	tape_touch(t, x.n * 2);
	tape_touch(t, x.n);
	scales = tape_store(t, rows * 4, TIMELINE_TEMPORARY);
	codes = tape_store(t, x.n, TIMELINE_TEMPORARY);
	tape_drop(t, &half);
	if (x.grad) /* ctx.tensors, which is not a saved tensor */
		tape_hold_in_graph(t, x);
	sums = tape_store(t, results * 4, TIMELINE_TEMPORARY);
	half = tape_new(t, x.dtype == TAPE_F16 ? 0 : results, TAPE_F16, t->category);
	y = tape_result(t, node, results, x.dtype);
	tape_drop(t, &half);
	tape_let(t, sums);
	tape_let(t, codes);
	tape_let(t, scales);
	return y;
}

enum { PACKED_BYTES = 1, PACKED_FROM_HALF }; /* node->how */

struct value op_packed(struct tape *t, struct value x, const struct packed *w, struct value bias)
{
	/* a bias is cast to what x has */
	struct value b = op_cast(t, bias, x.dtype), y;
	struct tape_node *node = tape_node(t, OP_PACKED, (struct value[]){ x, bias }, 2);

	if (node) {
		node->a = x.n / w->in;
		node->b = w->in * w->out;
		node->c = w->scales;
		node->how = w->bytes ? PACKED_BYTES : w->half ? PACKED_FROM_HALF : 0;
	}
	y = w->bytes ? product_8_bits(t, node, x, w) : product_4_bits(t, node, x, w);
	tape_drop(t, &b);
	return y;
}

/* The weight is made whole once more. */
static void packed_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint32_t weight;

	if (!wants(node, 0))
		return;
	if (node->how == PACKED_BYTES)
		weight = tape_store(t, node->b * tape_dtype_bytes[node->in[0].dtype],
				    TIMELINE_TEMPORARY);
	else
		weight = unpack_op(t, node->b, node->c, node->grad[0].dtype,
				   node->how == PACKED_FROM_HALF);
	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
	tape_blas(t, 0);
	tape_let(t, weight);
}

/* ---- norms, dropout, tables ---- */

struct value op_layer_norm(struct tape *t, struct value x, struct value weight, struct value bias,
			   uint64_t rows)
{
	/* in autocast's fp32 list */
	struct value in = t->autocast ? op_cast(t, x, TAPE_F32) : tape_keep(t, x), y, mean, rstd;
	struct tape_node *node = tape_node(t, OP_LAYER_NORM, (struct value[]){ in, weight, bias },
					   bias.store == TAPE_NONE ? 2 : 3);

	struct value copy =
		in.apart ? tape_new(t, in.n, in.dtype, t->category) : tape_param(t, TAPE_NONE);

	if (node)
		node->a = in.apart;
	tape_save(t, node, in);
	tape_save(t, node, weight);
	tape_save(t, node, bias);
	y = tape_result(t, node, in.n, in.dtype);
	mean = tape_more(t, rows, TAPE_F32, t->category);
	rstd = tape_more(t, rows, TAPE_F32, t->category);
	tape_save(t, node, mean);
	tape_save(t, node, rstd);
	tape_drop(t, &mean);
	tape_drop(t, &rstd);
	tape_drop(t, &copy);
	tape_drop(t, &in);
	return y;
}

/* Both ways the kernel wants its input contiguous. */
static void layer_norm_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint32_t copy = node->a ? make_op(t, node->in[0].n, node->in[0].dtype).store : TAPE_NONE;

	for (unsigned i = 0; i < node->ins; i++)
		if (wants(node, i))
			out[i] = make_op(t, node->in[i].n, node->in[i].dtype);
	tape_let(t, copy);
}

struct value op_dropout(struct tape *t, struct value x, double p)
{
	struct tape_node *node;
	struct value mask, y;

	if (p <= 0 || !t->grad)
		return tape_keep(t, x);
	node = tape_node(t, OP_DROPOUT, &x, 1);
	mask = tape_more(t, x.n, TAPE_BOOL, t->category);
	y = tape_result(t, node, x.n, x.dtype);
	tape_save(t, node, mask);
	tape_drop(t, &mask);
	return y;
}

static void same_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->grad[0].n, node->grad[0].dtype);
}

struct value op_embedding(struct tape *t, struct value ids, struct value table, uint64_t width,
			  int padded)
{
	struct tape_node *node = tape_node(t, OP_EMBEDDING, &table, 1);

	if (node) {
		node->a = ids.n;
		node->b = width;
		node->c = (uint64_t)padded;
	}
	tape_save(t, node, ids);
	/* rows of a table that is held quantized come out in 16 bits */
	return tape_result(t, node, ids.n * width,
			   table.dtype == TAPE_BOOL ? TAPE_BF16 : table.dtype);
}

#define EMBEDDING_SORTS 3072 /* embedding_dense_backward_cuda sorts more indices than that */

static void embedding_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint64_t ids = node->a, rows = node->in[0].n / node->b;
	uint64_t segments = ids / 10 + (ids < rows ? ids : rows);
	uint32_t sorted[4];

	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
	if (ids <= EMBEDDING_SORTS && !node->c)
		return;
	for (unsigned i = 0; i < 4; i++)
		sorted[i] = tape_store(t, ids * 8, TIMELINE_WORKSPACE);
	tape_touch(t, segments * node->b * 4);
	for (unsigned i = 4; i--;)
		tape_let(t, sorted[i]);
}

struct value op_softmax(struct tape *t, struct value x, enum tape_dtype dtype)
{
	/* a softmax that is asked for fp32 of fp16 casts inside its kernel, of bf16 before it */
	struct value in = op_cast(t, x, t->autocast ? TAPE_F32 : dtype), y;
	struct tape_node *node = tape_node(t, OP_SOFTMAX, &in, 1);

	y = tape_result(t, node, in.n, in.dtype);
	tape_save(t, node, y);
	tape_drop(t, &in);
	return y;
}

/* ---- layout ---- */

static struct value halves(struct tape *t, struct value x)
{
	struct tape_node *node = tape_node(t, OP_HALVES, &x, 1);

	return tape_result(t, node, x.n, x.dtype);
}

static struct value rotate_half(struct tape *t, struct value x)
{
	/* -x2, then the whole */
	uint32_t negative = tape_store(t, x.n / 2 * D(x), t->category);
	struct value y = halves(t, x);

	tape_let(t, negative);
	return y;
}

struct value op_rotate(struct tape *t, struct value x, struct value cosine, struct value sine)
{
	struct value straight = op_mul(t, x, cosine), half = rotate_half(t, x), y;

	tape_set(t, &half, op_mul(t, half, sine));
	y = op_add(t, straight, half);
	tape_drop(t, &straight);
	tape_drop(t, &half);
	return y;
}

/* cat gives views; neg; each slice is a zero tensor with a half filled in, the second is added to the first */
static void halves_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	const struct tape_grad *g = &node->grad[0];
	struct tape_grad half = make_op(t, g->n / 2, g->dtype), second;

	out[0] = make_op(t, g->n, g->dtype);
	tape_let(t, half.store);
	second = make_op(t, g->n, g->dtype);
	tape_let(t, second.store);
}

struct value op_contiguous(struct tape *t, struct value x)
{
	struct tape_node *node = tape_node(t, OP_COPY, &x, 1);

	return tape_result(t, node, x.n, x.dtype);
}

static void pass_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = pass(t, &node->grad[0]);
}

struct value op_repeat(struct tape *t, struct value x, uint64_t times)
{
	struct tape_node *node;

	if (times <= 1)
		return tape_keep(t, x);
	node = tape_node(t, OP_REPEAT, &x, 1);
	return tape_result(t, node, x.n * times, x.dtype);
}

static void repeat_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
}

void op_split(struct tape *t, struct value x, const uint64_t n[3], struct value out[3])
{
	struct tape_node *node = tape_node(t, OP_SPLIT, &x, 1);

	if (node) {
		node->outs = 3;
		node->a = n[0];
		node->b = n[1];
		node->c = n[2];
	}
	for (unsigned i = 0; i < 3; i++) {
		out[i] = tape_view(t, node, x, n[i]);
		out[i].out = (uint8_t)i;
	}
}

/* What no gradient came for is zeros; then cat. */
static void split_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint64_t n[3] = { node->a, node->b, node->c };
	uint32_t zeros[3];

	for (unsigned i = 0; i < 3; i++)
		zeros[i] = n[i] && node->grad[i].store == TAPE_NONE
				   ? make_op(t, n[i], node->in[0].dtype).store
				   : TAPE_NONE;
	out[0] = make_op(t, node->in[0].n, node->in[0].dtype);
	for (unsigned i = 0; i < 3; i++)
		tape_let(t, zeros[i]);
}

struct value op_join(struct tape *t, struct value x, struct value first, uint64_t times)
{
	struct value in[2] = { op_cast(t, x, promoted(x, first)), first }, y;
	struct tape_node *node = tape_node(t, OP_JOIN, in, 2);

	if (node)
		node->a = first.n * times;
	y = tape_result(t, node, in[0].n + first.n * times, in[0].dtype);
	tape_drop(t, &in[0]);
	return y;
}

/* Views of the gradient; that of what came with each sample is then summed. */
static void join_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!wants(node, i))
			continue;
		out[i] = pass(t, &node->grad[0]);
		out[i].n = i ? node->a : node->in[0].n;
		out[i].part = TAPE_PART;
	}
}

struct value op_scatter(struct tape *t, struct value x, struct value source)
{
	struct tape_node *node = tape_node(t, OP_SCATTER, (struct value[]){ x, source }, 2);
	struct value y = tape_result(t, node, x.n, x.dtype);

	tape_touch(t, x.n * 9); /* the mask of each element, and sums along it */
	return y;
}

static void scatter_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++)
		if (wants(node, i))
			out[i] = make_op(t, node->in[i].n, node->grad[0].dtype);
}

struct value op_put(struct tape *t, struct value x, struct value source)
{
	struct tape_node *node = tape_node(t, OP_PUT, (struct value[]){ x, source }, 2);

	return tape_view(t, node, x, x.n);
}

/* derivatives.yaml: the source's gradient is expanded as the source is, which it saves for that. */
struct value op_index_copy(struct tape *t, struct value x, struct value source)
{
	struct tape_node *node = tape_node(t, OP_PUT, (struct value[]){ x, source }, 2);

	tape_save(t, node, source);
	return tape_view(t, node, x, x.n);
}

/* ---- one tensor in many parts ---- */

void op_cut(struct tape *t, struct value x, const uint64_t *n, size_t count, struct value *out)
{
	struct tape_node *node = tape_node(t, OP_CUT, &x, 1);

	for (size_t i = 0; i < count; i++) {
		out[i] = tape_view(t, node, x, n[i]);
		out[i].out = i ? TAPE_PIECE : 0; /* the first's gradient is the last to come */
	}
}

static void cut_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
	tape_let_pieces(t, node);
}

struct value op_tie(struct tape *t, struct value a, struct value b)
{
	struct tape_node *node = tape_node(t, OP_TIE, (struct value[]){ a, b }, 2);
	struct value y = tape_param(t, TAPE_NONE);

	y.n = a.n + b.n;
	y.dtype = a.dtype;
	if (node) {
		y.node = (uint32_t)(node - t->nodes.at);
		y.grad = 1;
	}
	tape_drop(t, &a);
	tape_drop(t, &b);
	return y;
}

/* cat() gives views. */
static void tie_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!wants(node, i))
			continue;
		out[i] = pass(t, &node->grad[0]);
		out[i].n = node->in[i].n;
		out[i].part = TAPE_PART;
	}
}

struct value op_index_first(struct tape *t, struct value x, uint64_t n)
{
	struct tape_node *node = tape_node(t, OP_FIRST, &x, 1);

	return tape_view(t, node, x, n);
}

static void whole_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = make_op(t, node->in[0].n, node->grad[0].dtype);
}

/* ---- attention ---- */

/* FlashAttention's sums are as large as its tiles (mha_bwd: seqlen_q_rounded, head_size_rounded). */
#define FLASH_ROWS 128
#define FLASH_WIDTH 32

static uint64_t rounded(const struct attention *a, uint64_t n, uint64_t to)
{
	return a->kernel == OP_FLASH ? (n + to - 1) / to * to : n;
}

struct value op_attention(struct tape *t, struct value q, struct value k, struct value v,
			  const struct attention *a)
{
	struct value in[3], y, seed, offset, lse, mask = tape_param(t, TAPE_NONE);
	struct tape_node *node;

	in[2] = op_operand(t, v);
	in[1] = op_operand(t, k);
	in[0] = op_operand(t, q);
	if (a->bias) { /* convert_boolean_attn_mask: each call makes one of its own, for each sample */
		mask = tape_more(t, a->bias, in[0].dtype, t->category);
		tape_touch(t, a->bias);
	}
	node = tape_node(t, OP_ATTENTION, in, 3);
	if (node) {
		node->a = a->batch * a->heads * rounded(a, a->queries, FLASH_ROWS);
		node->b =
			rounded(a, a->head_dim, a->head_dim > 128 ? 2 * FLASH_WIDTH : FLASH_WIDTH);
		node->c =
			a->kernel |
			(a->heads == a->kv_heads ? 0 : a->batch * a->heads * a->keys * a->head_dim)
				<< 8;
	}
	for (unsigned i = 0; i < 3; i++)
		tape_save_turned(t, node, in[i]);
	if (a->bias)
		tape_save(t, node, mask);
	tape_drop(t, &mask);
	if (a->kernel == OP_CUDNN) {
		seed = tape_product(t, NULL, 1, TAPE_I64, TAPE_ATTENTION);
		offset = tape_product(t, NULL, 1, TAPE_I64, TAPE_ATTENTION);
	}
	y = tape_product(t, node, a->batch * a->heads * a->queries * a->head_dim, in[0].dtype,
			 TAPE_ATTENTION);
	if (t->grad) {
		lse = tape_product(t, NULL, a->batch * a->heads * a->queries, TAPE_F32,
				   TAPE_ATTENTION);
		tape_save(t, node, lse);
		tape_drop(t, &lse);
	}
	tape_save(t, node, y);
	if (a->kernel == OP_CUDNN) {
		tape_save(t, node, seed);
		tape_save(t, node, offset);
		tape_touch(t, 256);
		tape_drop(t, &seed);
		tape_drop(t, &offset);
	}
	for (unsigned i = 3; i--;)
		tape_drop(t, &in[i]);
	return y;
}

/*
 * dq, dk and dv; besides, cuDNN and FlashAttention add up dq in fp32, keep a sum a row, and where heads share keys
 * dk and dv of every head.
 */
static void attention_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint64_t rows = node->a, dim = node->b;
	unsigned dtype = node->grad[0].dtype, kernel = node->c & 255;
	uint64_t shared = 2 * (node->c >> 8) * tape_dtype_bytes[dtype];

	for (unsigned i = 0; i < 3; i++)
		out[i] = make_op(t, node->in[i].n, dtype);
	if (kernel == OP_EFFICIENT)
		tape_touch(t, rows * 4 + (dtype == TAPE_F32 ? 0 : rows * dim * 4));
	else
		tape_touch(t, rows * dim * 4 + shared + rows * 4 + 256);
}

/* ---- experts ---- */

struct value op_grouped(struct tape *t, struct value x, struct value weight, uint64_t experts,
			uint64_t out)
{
	struct value in[2] = { x, weight };
	struct tape_node *node = tape_node(t, OP_MM, in, 2);
	uint64_t width = weight.n / experts / out;

	if (node) {
		node->a = x.n / width;
		node->b = width;
		node->c = experts * out;
	}
	if (x.grad)
		tape_save(t, node, weight);
	if (weight.grad)
		tape_save(t, node, x);
	return tape_result(t, node, x.n / width * out, x.dtype);
}

struct value op_gather(struct tape *t, struct value x, struct value ids, uint64_t n)
{
	struct tape_node *node = tape_node(t, OP_GATHER, &x, 1);

	if (node)
		node->a = ids.n;
	tape_save(t, node, ids);
	return tape_result(t, node, n, x.dtype);
}

/* index_put with sorted indices; a gradient that is a view is copied first */
static void gather_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	const struct tape_grad *g = &node->grad[0];
	uint32_t copy = g->part ? make_op(t, g->n, g->dtype).store : TAPE_NONE, sorted[4];

	out[0] = make_op(t, node->in[0].n, g->dtype);
	for (unsigned i = 0; i < 4; i++)
		sorted[i] = tape_store(t, node->a * 8, TIMELINE_WORKSPACE);
	for (unsigned i = 4; i--;)
		tape_let(t, sorted[i]);
	tape_let(t, copy);
}

struct value op_add_rows(struct tape *t, struct value x, struct value rows, struct value ids)
{
	struct tape_node *node = tape_node(t, OP_ADD_ROWS, (struct value[]){ x, rows }, 2);

	tape_save(t, node, ids);
	return tape_view(t, node, x, x.n);
}

/* The gradient goes on as it is; its rows are picked out. */
static void add_rows_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	if (wants(node, 1))
		out[1] = make_op(t, node->in[1].n, node->grad[0].dtype);
	if (wants(node, 0))
		out[0] = pass(t, &node->grad[0]);
}

struct value op_fill(struct tape *t, struct value x, struct value mask, int inplace)
{
	struct tape_node *node = tape_node(t, OP_FILL, &x, 1);

	tape_save(t, node, mask);
	return inplace ? tape_view(t, node, x, x.n) : tape_result(t, node, x.n, x.dtype);
}

struct value op_sum(struct tape *t, struct value x, uint64_t n)
{
	struct tape_node *node = tape_node(t, OP_SUM, &x, 1);

	return tape_result(t, node, n, x.dtype);
}

static void sum_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = pass(t, &node->grad[0]);
	out[0].n = node->in[0].n;
	out[0].part = 1;
}

/* ---- units of sharded parameters ---- */

struct value op_mark(struct tape *t, struct value x, uint32_t unit, int begins)
{
	struct tape_node *node = tape_node(t, OP_MARK, &x, 1);
	struct value y;

	if (!node)
		return x;
	node->a = unit;
	node->b = (uint64_t)begins;
	y = tape_view(t, node, x, x.n);
	tape_drop(t, &x);
	return y;
}

static void mark_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	t->unit(t->again_self, (uint32_t)node->a, node->b != 0);
	out[0] = pass(t, &node->grad[0]);
}

/* ---- messages ---- */

/* What each does to the size, and whether what comes in goes on as it is. */
static const struct {
	bool is_view; /* forward: nothing is sent */
	bool passes;  /* backward: nothing is sent */
	bool grows, shrinks;
	bool is_staged; /* columns come rank by rank and are put side by side */
} messages[] = {
	[OP_REPLICATED] = { .is_view = true },
	[OP_REDUCED] = { .passes = true },
	[OP_COLLECTED] = { .grows = true, .is_staged = true },
	[OP_SPREAD_OUT] = { .grows = true },
	[OP_BROUGHT_IN] = { .shrinks = true },
};

struct value op_exchange(struct tape *t, struct value x, enum op_message message, uint64_t ways)
{
	uint64_t n = messages[message].grows     ? x.n * ways
		     : messages[message].shrinks ? (x.n + ways - 1) / ways
						 : x.n;
	struct tape_node *node = tape_node(t, OP_EXCHANGE, &x, 1);
	struct value y, staged;

	if (node)
		node->a = messages[message].passes;
	if (messages[message].is_view)
		return tape_view(t, node, x, x.n);
	if (!messages[message].is_staged)
		return tape_result(t, node, n, x.dtype);
	staged = tape_new(t, n, x.dtype, TIMELINE_WORKSPACE);
	y = tape_result(t, node, n, x.dtype);
	tape_drop(t, &staged);
	return y;
}

static void exchange_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	out[0] = node->a ? pass(t, &node->grad[0]) : make_op(t, node->in[0].n, node->grad[0].dtype);
}

struct value op_keep(struct tape *t, struct value x, uint64_t bytes)
{
	struct tape_node *node = bytes ? tape_node(t, OP_COPY, &x, 1) : NULL;
	struct value y, kept;

	if (!node)
		return x;
	kept = tape_new(t, bytes, TAPE_BOOL, t->category);
	tape_save(t, node, kept);
	tape_drop(t, &kept);
	y = tape_view(t, node, x, x.n);
	tape_drop(t, &x);
	return y;
}

/* ---- loss ---- */

struct value op_cross_entropy(struct tape *t, struct value logits, struct value labels,
			      uint64_t rows)
{
	struct tape_node *node = tape_node(t, OP_LOG_SOFTMAX, &logits, 1);
	struct value log = tape_result(t, node, logits.n, logits.dtype), in, loss, weight;

	(void)rows;
	tape_save(t, node, log);
	/* autocast looks at nll_loss, which is asked for in fp32, not at the softmax inside */
	in = t->autocast ? op_cast(t, log, TAPE_F32) : tape_keep(t, log);
	node = tape_node(t, OP_NLL, &in, 1);
	tape_save(t, node, in);
	tape_save(t, node, labels);
	loss = tape_result(t, node, 1, in.dtype);
	weight = tape_more(t, 1, in.dtype, t->category);
	tape_save(t, node, weight);
	tape_drop(t, &weight);
	tape_drop(t, &log);
	tape_drop(t, &in);
	return loss;
}

/* As PyTorch calls them, for a person; functions by enum op_function. */
static const char *const names[OPS] = {
	[OP_CAST] = "to",
	[OP_FIRST_FUNCTION + OP_SCALE] = "mul",
	[OP_FIRST_FUNCTION + OP_SHIFT] = "add",
	[OP_FIRST_FUNCTION + OP_POW] = "pow",
	[OP_FIRST_FUNCTION + OP_TANH] = "tanh",
	[OP_FIRST_FUNCTION + OP_SIGMOID] = "sigmoid",
	[OP_FIRST_FUNCTION + OP_RSQRT] = "rsqrt",
	[OP_FIRST_FUNCTION + OP_SILU] = "silu",
	[OP_FIRST_FUNCTION + OP_GELU] = "gelu",
	[OP_FIRST_FUNCTION + OP_RELU] = "relu",
	[OP_ADD] = "add",
	[OP_MUL] = "mul",
	[OP_MEAN] = "mean",
	[OP_MM] = "mm",
	[OP_ADDMM] = "addmm",
	[OP_BMM] = "bmm",
	[OP_LAYER_NORM] = "layer_norm",
	[OP_DROPOUT] = "dropout",
	[OP_EMBEDDING] = "embedding",
	[OP_SOFTMAX] = "softmax",
	[OP_HALVES] = "rotate_half",
	[OP_COPY] = "contiguous",
	[OP_REPEAT] = "repeat_kv",
	[OP_SPLIT] = "split",
	[OP_JOIN] = "cat",
	[OP_SCATTER] = "masked_scatter",
	[OP_ATTENTION] = "scaled_dot_product_attention",
	[OP_LOG_SOFTMAX] = "log_softmax",
	[OP_NLL] = "nll_loss",
	[OP_FIRST] = "select",
	[OP_GATHER] = "index",
	[OP_FILL] = "masked_fill",
	[OP_ADD_ROWS] = "index_add",
	[OP_SUM] = "sum",
	[OP_MARK] = "hook",
	[OP_LIGER_NORM] = "LigerRMSNormFunction",
	[OP_LIGER_GATE] = "LigerSiLUMulFunction",
	[OP_LIGER_TURN] = "LigerRopeFunction",
};

const char *op_name(unsigned op)
{
	return op < OPS ? names[op] : NULL;
}

struct value op_ready(struct tape *t, const struct value in[2], const struct value grads[2])
{
	struct tape_node *node = tape_node(t, OP_READY, in, 2);

	for (unsigned i = 0; i < 2; i++)
		tape_save(t, node, grads[i]);
	return tape_result(t, node, 1, TAPE_F32);
}

/* In the order in which they were saved, those that there are. */
static void ready_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0, saved = 0; i < 2; i++) {
		if (!wants(node, i))
			continue;
		out[i] = (struct tape_grad){ node->in[i].n, node->saved[saved++], node->in[i].dtype,
					     0 };
		tape_hold(t, out[i].store);
	}
}

/* ---- TRL's fused head (trl/kernels/chunked_logprob.py, 1.16) ---- */

#define TILE_ROWS 4096
#define TILE_COLUMNS 32768
#define TILE_SUMS 7 /* of each row, in fp32, while tiles are folded */

#define TILE_STORES 4

/*
 * A tile of logits, and what is cast for it: in[0] are rows of states, in[1] the head, of which the tile before is still there
 * when the next is cast.
 */
static void tile_at(struct tape *t, const struct tape_edge in[2], uint64_t rows,
		    enum tape_dtype dtype, uint32_t of[TILE_STORES])
{
	uint64_t width = in[0].n / rows, n = rows < TILE_ROWS ? rows : TILE_ROWS;
	uint64_t columns = in[1].n / width < TILE_COLUMNS ? in[1].n / width : TILE_COLUMNS;
	uint64_t bytes = tape_dtype_bytes[dtype];

	of[0] = tape_store(t, n * TILE_COLUMNS * bytes, TIMELINE_WORKSPACE);
	of[1] = in[0].dtype == dtype ? TAPE_NONE
				     : tape_store(t, n * width * bytes, TIMELINE_TEMPORARY);
	of[2] = in[1].dtype == dtype ? TAPE_NONE
				     : tape_store(t, columns * width * bytes, TIMELINE_TEMPORARY);
	of[3] = of[2] == TAPE_NONE || columns * width == in[1].n
			? TAPE_NONE
			: tape_store(t, columns * width * bytes, TIMELINE_TEMPORARY);
	tape_blas(t, 0);
}

static void tile_end(struct tape *t, const uint32_t of[TILE_STORES])
{
	for (unsigned i = TILE_STORES; i--;)
		tape_let(t, of[i]);
}

struct value op_tiles(struct tape *t, struct value x, struct value weight, struct value targets,
		      uint64_t rows)
{
	enum tape_dtype dtype = t->autocast ? t->autocast : x.dtype;
	struct value in[2] = { x, weight }, sums[TILE_SUMS], log, entropy, y;
	struct tape_node *node = tape_node(t, OP_TILES, in, 2);
	struct tape_edge edges[2] = { { .n = x.n, .dtype = (uint8_t)x.dtype },
				      { .n = weight.n, .dtype = (uint8_t)weight.dtype } };
	uint32_t tile[TILE_STORES];

	if (node) {
		node->a = rows;
		node->how = (uint16_t)dtype;
	}
	for (unsigned i = 0; i < TILE_SUMS; i++)
		sums[i] = tape_new(t, rows, TAPE_F32, t->category);
	tile_at(t, edges, rows, dtype, tile);
	log = tape_new(t, rows, TAPE_F32, t->category);
	y = tape_result(t, node, rows, TAPE_F32);
	entropy = tape_new(t, rows, TAPE_F32, t->category);
	tape_save(t, node, x);
	tape_save(t, node, weight);
	tape_save(t, node, targets);
	tape_save(t, node, log);
	tape_save(t, node, entropy);
	tape_drop(t, &log);
	tape_drop(t, &entropy);
	tile_end(t, tile);
	for (unsigned i = 0; i < TILE_SUMS; i++)
		tape_drop(t, &sums[i]);
	return y;
}

/* Both gradients are summed in fp32, and are cast at the end. */
static void tiles_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint32_t sums[2] = { TAPE_NONE, TAPE_NONE }, tile[TILE_STORES];

	for (unsigned i = 0; i < 2; i++)
		if (wants(node, i))
			sums[i] = tape_store(t, node->in[i].n * 4, TIMELINE_AUTOGRAD_DETAIL);
	tile_at(t, node->in, node->a, (enum tape_dtype)node->how, tile);
	for (unsigned i = 0; i < 2; i++) {
		if (!wants(node, i))
			continue;
		if (node->in[i].dtype == TAPE_F32) {
			out[i] = (struct tape_grad){ node->in[i].n, sums[i], TAPE_F32, 0 };
			tape_hold(t, sums[i]);
		} else {
			out[i] = make_op(t, node->in[i].n, node->in[i].dtype);
		}
	}
	tile_end(t, tile);
	for (unsigned i = 2; i--;)
		tape_let(t, sums[i]);
}

/* ---- Liger's kernels (liger_kernel/ops, 0.8) ---- */

struct value op_liger_norm(struct tape *t, struct value x, struct value weight, int in_place)
{
	struct tape_node *node = tape_node(t, OP_LIGER_NORM, (struct value[]){ x, weight }, 2);
	struct value y, rstd;

	if (node)
		node->how = (uint16_t)in_place;
	tape_save(t, node, x);
	tape_save(t, node, weight);
	y = tape_result(t, node, x.n, x.dtype);
	rstd = tape_more(t, x.n / weight.n, TAPE_F32, t->category);
	tape_save(t, node, rstd);
	tape_drop(t, &rstd);
	return y;
}

/* The gradient is written where it came; of the weight each multiprocessor has its own sum. */
static void liger_norm_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	uint64_t n = node->in[1].n;
	uint32_t sums = wants(node, 1) ? tape_store(t, t->device->multiprocessors * n * 4,
						    TIMELINE_WORKSPACE)
				       : TAPE_NONE;

	if (wants(node, 0))
		out[0] = node->how ? pass(t, &node->grad[0])
				   : make_op(t, node->grad[0].n, node->grad[0].dtype);
	if (wants(node, 1)) {
		struct tape_grad sum = make_op(t, n, TAPE_F32);

		out[1] = node->in[1].dtype == TAPE_F32 ? sum : make_op(t, n, node->in[1].dtype);
		if (node->in[1].dtype != TAPE_F32)
			tape_let(t, sum.store);
	}
	tape_let(t, sums);
}

struct value op_liger_gate(struct tape *t, struct value gate, struct value up)
{
	struct tape_node *node = tape_node(t, OP_LIGER_GATE, (struct value[]){ gate, up }, 2);

	tape_save(t, node, gate);
	tape_save(t, node, up);
	return tape_result(t, node, up.n, up.dtype);
}

/* Both gradients are written over what was saved. */
static void liger_gate_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++) {
		if (!wants(node, i))
			continue;
		out[i] = (struct tape_grad){ node->in[i].n, node->saved[i], node->in[i].dtype, 0 };
		tape_hold(t, out[i].store);
	}
}

void op_liger_turn(struct tape *t, const struct value in[2], struct value cosine, struct value sine,
		   struct value out[2])
{
	struct tape_node *node = tape_node(t, OP_LIGER_TURN, in, 2);

	if (node)
		node->outs = 2;
	tape_save(t, node, cosine);
	tape_save(t, node, sine);
	for (unsigned i = 0; i < 2; i++) {
		out[i] = tape_view(t, node, in[i], in[i].n);
		out[i].out = (uint8_t)i;
	}
}

static void liger_turn_backward(struct tape *t, const struct tape_node *node, struct tape_grad *out)
{
	for (unsigned i = 0; i < 2; i++)
		if (wants(node, i) && node->grad[i].store != TAPE_NONE)
			out[i] = pass(t, &node->grad[i]);
}

tape_backward_fn *const tape_backward_of[OPS] = {
	[OP_CAST] = cast_backward,
	[OP_FIRST_FUNCTION... OP_LAST_FUNCTION] = function_backward,
	[OP_ADD] = add_backward,
	[OP_MUL] = mul_backward,
	[OP_MEAN] = mean_backward,
	[OP_MM] = mm_backward,
	[OP_ADDMM] = mm_backward,
	[OP_BMM] = bmm_backward,
	[OP_LAYER_NORM] = layer_norm_backward,
	[OP_DROPOUT] = same_backward,
	[OP_EMBEDDING] = embedding_backward,
	[OP_SOFTMAX] = same_backward,
	[OP_HALVES] = halves_backward,
	[OP_COPY] = pass_backward,
	[OP_REPEAT] = repeat_backward,
	[OP_SPLIT] = split_backward,
	[OP_JOIN] = join_backward,
	[OP_SCATTER] = scatter_backward,
	[OP_ATTENTION] = attention_backward,
	[OP_LOG_SOFTMAX] = same_backward,
	[OP_NLL] = whole_backward,
	[OP_FIRST] = whole_backward,
	[OP_GATHER] = gather_backward,
	[OP_FILL] = same_backward,
	[OP_ADD_ROWS] = add_rows_backward,
	[OP_SUM] = sum_backward,
	[OP_READY] = ready_backward,
	[OP_PACKED] = packed_backward,
	[OP_TILES] = tiles_backward,
	[OP_MARK] = mark_backward,
	[OP_EXCHANGE] = exchange_backward,
	[OP_PUT] = scatter_backward,
	[OP_CUT] = cut_backward,
	[OP_TIE] = tie_backward,
	[OP_LIGER_NORM] = liger_norm_backward,
	[OP_LIGER_GATE] = liger_gate_backward,
	[OP_LIGER_TURN] = liger_turn_backward,
};
