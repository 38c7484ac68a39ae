/*
 * What language models see: the vision towers of Qwen2-VL, Qwen2.5-VL and Qwen3-VL, whose merged patches take the
 * place of tokens.  Lines follow Transformers 5.17.
 */
#include "plan/step/build.h"

/* ---- patches and windows ---- */

#define PIECES_MOST 256 /* attended to one by one; of more, several count as one call */

/* Windows of an image of so many rows and columns of merged patches. */
static void cut_windows(struct builder *b, uint64_t rows, uint64_t columns, uint64_t side,
			uint64_t at_once)
{
	uint64_t merged = b->m->towers[MODEL_VISION].merge * b->m->towers[MODEL_VISION].merge;
	struct seen_piece piece = { 0, 0 };
	struct tape *t = &b->t;

	for (uint64_t y = 0; y < rows && !t->failed; y += side)
		for (uint64_t x = 0; x < columns && !t->failed; x += side) {
			uint64_t height = rows - y < side ? rows - y : side;
			uint64_t width = columns - x < side ? columns - x : side;

			piece.patches += height * width * merged;
			if (++piece.windows < at_once && (y + side < rows || x + side < columns))
				continue;
			tape_fail(t, vec_push(t->mem, &b->windows, piece, t->err));
			piece = (struct seen_piece){ 0, 0 };
		}
}

/* Of all images of the batch; none where each block sees whole images. */
static void find_windows(struct builder *b, uint64_t patches)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	uint64_t width = b->r->image_width ? b->r->image_width : b->r->image_size;
	uint64_t unit = n->patch * n->merge, side, rows, columns, count;

	b->windows.n = 0;
	if (!n->use_window || !n->merge || !unit || !width)
		return;
	side = n->window / unit;
	if (!side)
		return;
	columns = width / unit ? width / unit : 1;
	rows = patches / b->batch / n->merge / n->merge / columns;
	count = ((rows + side - 1) / side) * ((columns + side - 1) / side);
	for (uint64_t i = 0; i < b->batch && !b->t.failed; i++)
		cut_windows(b, rows, columns, side,
			    (count * b->batch + PIECES_MOST - 1) / PIECES_MOST);
}

/* Window behind window, and back: the rows of x in another order. */
static struct value reorder(struct builder *b, struct value x, uint64_t rows)
{
	struct tape *t = &b->t;
	struct value ids, y;

	if (!b->windows.n)
		return tape_keep(t, x);
	ids = tape_new(t, rows, TAPE_I64, TIMELINE_TEMPORARY);
	y = op_gather(t, x, ids, x.n);
	tape_drop(t, &ids);
	return y;
}

/* cos and sin of the rows and columns of all patches, in fp32. */
static void rotary(struct builder *b, uint64_t patches)
{
	struct tape *t = &b->t;
	uint64_t size = patches * b->m->towers[MODEL_VISION].head_dim;
	uint64_t rows =
		patches / b->m->towers[MODEL_VISION].merge / b->m->towers[MODEL_VISION].merge;
	struct value angles, *const both[] = { &b->seen_cos, &b->seen_sin };
	uint8_t grad = t->grad;

	t->grad = 0;
	angles = tape_new(t, size / 2, TAPE_F32, TIMELINE_TEMPORARY);
	for (unsigned i = 0; i < 2; i++) {
		*both[i] = op_apply(t, OP_SCALE, angles);
		tape_set(t, both[i], op_apply(t, OP_SCALE, *both[i]));
	}
	for (unsigned i = 0; i < 2; i++) { /* rows next to columns, then twice */
		struct value half = tape_new(t, size / 2, TAPE_F32, TIMELINE_TEMPORARY);

		tape_set(t, both[i], tape_new(t, size, TAPE_F32, TIMELINE_ACTIVATION));
		tape_drop(t, &half);
	}
	tape_drop(t, &angles);
	for (unsigned i = 0; i < 2; i++)
		tape_set(t, both[i], reorder(b, *both[i], rows));
	t->grad = grad;
}

/* ---- blocks ---- */

/* q and k in fp32 are names until both are turned and cast back. */
static void turn_both(struct builder *b, struct value p[3])
{
	struct tape *t = &b->t;
	struct value wide[2], turned[2];

	for (unsigned i = 0; i < 2; i++)
		wide[i] = op_cast(t, p[i], TAPE_F32);
	for (unsigned i = 0; i < 2; i++)
		turned[i] = op_rotate(t, wide[i], b->seen_cos, b->seen_sin);
	for (unsigned i = 0; i < 2; i++) {
		tape_set(t, &p[i], op_cast(t, turned[i], p[i].dtype));
		tape_drop(t, &turned[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		tape_drop(t, &wide[i]);
}

/* Views of q, k and v that are attended to one by one. */
static enum plim_status cut_pictures(struct builder *b, struct value p[3],
				     const struct seen_piece *pieces, size_t n)
{
	uint64_t *sizes = mem_new(b->t.mem, n, sizeof(*sizes), b->t.err);
	enum plim_status st = sizes ? PLIM_OK : mem_status(b->t.err);

	b->cuts.n = 0;
	if (!st)
		st = vec_need(b->t.mem, &b->cuts, 3 * n, b->t.err);
	for (size_t i = 0; !st && i < n; i++)
		sizes[i] = pieces[i].patches * b->m->towers[MODEL_VISION].hidden;
	for (unsigned k = 0; !st && k < 3; k++)
		op_cut(&b->t, p[k], sizes, n, b->cuts.at + k * n);
	mem_free(b->t.mem, sizes, sizes ? n : 0, sizeof(*sizes));
	return st;
}

/* Windows, or images, one after the other, put together by one cat(). */
static struct value attend_pieces(struct builder *b, uint32_t block, struct value p[3],
				  const struct seen_piece *pieces, size_t n)
{
	const struct model_numbers *numbers = &b->m->towers[MODEL_VISION];
	struct tape *t = &b->t;
	struct value all = tape_param(t, TAPE_NONE), y;

	if (!t->failed)
		tape_fail(t, cut_pictures(b, p, pieces, n));
	for (size_t i = 0; i < n && !t->failed; i++) {
		uint64_t patches = pieces[i].patches / pieces[i].windows;
		struct attention a = { .batch = 1,
				       .heads = numbers->heads * pieces[i].windows,
				       .kv_heads = numbers->heads * pieces[i].windows,
				       .queries = patches,
				       .keys = patches,
				       .head_dim = numbers->head_dim,
				       .dropout = numbers->attention_dropout };

		y = build_attention_of(b, MODEL_VISION, block, b->cuts.at[i], b->cuts.at[n + i],
				       b->cuts.at[2 * n + i], &a);
		all = i ? op_tie(t, all, y) : y;
	}
	for (size_t i = 0; i < 3 * n && !t->failed; i++)
		tape_drop(t, &b->cuts.at[i]);
	y = op_contiguous(t, all);
	tape_drop(t, &all);
	return y;
}

/* Attention parts that a block has: those of the windows, or the images. */
static struct value attend_all(struct builder *b, uint32_t block, struct value p[3])
{
	uint64_t patches = p[0].n / b->m->towers[MODEL_VISION].hidden / b->batch;
	struct seen_piece *images;
	struct tape *t = &b->t;
	struct value y;

	if (b->windows.n && !model_sees_all(b->m, MODEL_VISION, block))
		return attend_pieces(b, block, p, b->windows.at, b->windows.n);
	images = mem_new(t->mem, b->batch, sizeof(*images), t->err);
	if (!images) {
		t->failed = mem_status(t->err);
		return tape_param(t, TAPE_NONE);
	}
	for (uint64_t i = 0; i < b->batch; i++)
		images[i] = (struct seen_piece){ patches, 1 };
	y = attend_pieces(b, block, p, images, b->batch);
	mem_free(t->mem, images, b->batch, sizeof(*images));
	return y;
}

static struct value attend(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value all = build_linear(b, MODEL_VISION, block, MODEL_ROLE_QKV, x), p[3], y;

	op_split(t, all, (uint64_t[3]){ x.n, x.n, x.n }, p);
	tape_drop(t, &all);
	turn_both(b, p);
	y = attend_all(b, block, p);
	tape_set(t, &y, build_linear(b, MODEL_VISION, block, MODEL_ROLE_O, y));
	for (unsigned i = 0; i < 3; i++)
		tape_drop(t, &p[i]);
	return y;
}

static struct value feed(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h, up;

	if (build_has(b, MODEL_VISION, block, MODEL_ROLE_GATE)) {
		h = build_linear(b, MODEL_VISION, block, MODEL_ROLE_GATE, x);
		tape_set(t, &h, build_activation(b, MODEL_VISION, h));
		up = build_linear(b, MODEL_VISION, block, MODEL_ROLE_UP, x);
		tape_set(t, &h, op_mul(t, h, up));
		tape_drop(t, &up);
	} else {
		h = build_linear(b, MODEL_VISION, block, MODEL_ROLE_UP, x);
		tape_set(t, &h, build_activation(b, MODEL_VISION, h));
	}
	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_DOWN, h));
	return h;
}

static struct value seer_block(void *self, uint32_t block, struct value x)
{
	struct builder *b = self;
	struct tape *t = &b->t;
	struct value h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_NORM1, x), y;

	tape_set(t, &h, attend(b, block, h));
	y = op_add(t, x, h);
	tape_drop(t, &h);
	h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_NORM2, y);
	tape_set(t, &h, feed(b, block, h));
	tape_set(t, &y, op_add(t, y, h));
	tape_drop(t, &h);
	return y;
}

/* Squares of patches become one token each. */
static struct value merge(struct builder *b, uint32_t block, struct value x)
{
	struct tape *t = &b->t;
	struct value h = build_norm(b, MODEL_VISION, block, MODEL_ROLE_MERGE_NORM, x);

	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_MERGE1, h));
	tape_set(t, &h, op_apply(t, OP_GELU, h));
	tape_set(t, &h, build_linear(b, MODEL_VISION, block, MODEL_ROLE_MERGE2, h));
	return h;
}

void build_look_inside(struct builder *b, uint32_t block, struct value x)
{
	size_t n = 0;

	for (uint32_t i = 0; i < block; i++)
		n += model_goes_deep(b->m, i);
	if (n < BUILD_DEEP && model_goes_deep(b->m, block))
		b->seen_deep[n] = merge(b, (uint32_t)n, x);
}

/*
 * Learned positions of Qwen3-VL: of each patch the four around it, weighted and summed.  The sum keeps its name until
 * the tower is done.
 */
static struct value add_places(struct builder *b, struct value x, struct value *places)
{
	uint64_t width = b->m->towers[MODEL_VISION].hidden;
	struct value table, ids, four, weights, cast;
	struct tape *t = &b->t;

	*places = tape_param(t, TAPE_NONE);
	table = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_POSITIONS, MODEL_WEIGHT);
	if (table.store == TAPE_NONE)
		return x;
	ids = tape_new(t, 4 * x.n / width, TAPE_I64, TIMELINE_TEMPORARY);
	weights = tape_new(t, 4 * x.n / width, table.dtype, TIMELINE_TEMPORARY);
	four = op_embedding(t, ids, table, width, 0);
	tape_set(t, &four, op_mul(t, four, weights));
	*places = op_sum(t, four, x.n);
	tape_drop(t, &four);
	cast = op_cast(t, *places, x.dtype);
	tape_set(t, &x, op_add(t, x, cast));
	tape_drop(t, &cast);
	tape_drop(t, &ids);
	tape_drop(t, &weights);
	return x;
}

struct value build_deepen(struct builder *b, uint32_t block, struct value x)
{
	struct value features, y, local;
	struct tape *t = &b->t;

	if (block >= BUILD_DEEP || b->seen_deep[block].store == TAPE_NONE)
		return x;
	features = op_cast(t, b->seen_deep[block], x.dtype);
	y = op_contiguous(t, x);
	local = op_gather(t, y, tape_param(t, TAPE_NONE), features.n);
	tape_set(t, &local, op_add(t, local, features));
	tape_set(t, &y, op_put(t, y, local));
	tape_drop(t, &features);
	tape_drop(t, &local);
	tape_drop(t, &x);
	return y;
}

void build_forget_seen(struct builder *b)
{
	for (unsigned i = 0; i < 3; i++)
		tape_drop(&b->t, &b->seen_kept[i]);
	for (unsigned i = 0; i < BUILD_DEEP; i++)
		tape_drop(&b->t, &b->seen_deep[i]);
}

/* What the tower gives for the language model, which has it in seen_kept as well; *places lives as long. */
static struct value look_pictures(struct builder *b, struct value *places)
{
	const struct model_numbers *n = &b->m->towers[MODEL_VISION];
	struct tape *t = &b->t;
	struct value weight, bias, pixels, x, tokens;
	uint64_t rows;

	weight = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_WEIGHT);
	bias = build_param(b, MODEL_VISION, MODEL_NONE, MODEL_ROLE_PATCH, MODEL_BIAS);
	pixels = op_cast(t, b->pixels, weight.dtype);
	x = add_places(b, op_linear(t, pixels, weight, bias, n->hidden), places);
	rows = x.n / n->hidden / n->merge / n->merge;
	find_windows(b, x.n / n->hidden);
	tape_set(t, &x, reorder(b, x, rows));
	rotary(b, x.n / n->hidden);
	x = build_blocks(b, MODEL_VISION, seer_block, x);
	tokens = merge(b, MODEL_NONE, x);
	tape_set(t, &tokens, reorder(b, tokens, rows));
	tape_drop(t, &pixels);
	b->seen_kept[0] = x;
	return tokens;
}

struct value build_seen(struct builder *b, struct value words)
{
	struct tape *t = &b->t;
	uint64_t sequence = b->sequence;
	struct value places = tape_param(t, TAPE_NONE), x, tokens;

	tokens = b->m->towers[MODEL_VISION].merge ? look_pictures(b, &places)
						  : build_tokens_of_image(b);
	tape_drop(t, &places);
	if (!t->regions.n) {
		tape_drop(t, &b->seen_cos);
		tape_drop(t, &b->seen_sin);
	}
	b->seen_kept[1] = tokens;
	tokens = op_contiguous(t, tokens);
	tape_set(t, &tokens, op_cast(t, tokens, words.dtype));
	b->seen_kept[2] = tokens;
	x = op_scatter(t, words, tokens);
	tape_drop(t, &words);
	if (!b->m->towers[MODEL_VISION].deepstack)
		build_forget_seen(b); /* Qwen2-VL and Qwen2.5-VL hand on the words alone */
	b->sequence = sequence;
	return x;
}
