/*
 * Keys and values of tokens that were seen: Transformers' DynamicCache, and StaticCache, layer by layer.  Lines follow
 * cache_utils.py of Transformers 5.17.
 */
#include "plan/step/build.h"

static uint64_t cached_entries(const struct builder *b)
{
	return 2 * b->m->towers[MODEL_TEXT].layers;
}

static uint64_t entries(const struct builder *b)
{
	return cached_entries(b) + BUILD_STATES;
}

static int slides(const struct builder *b, uint32_t block)
{
	return !model_sees_all(b->m, MODEL_TEXT, block);
}

/* Tokens before this pass's that a block can attend to: layers that slide keep one less than the window. */
static uint64_t cache_before(const struct builder *b, uint32_t block)
{
	uint64_t window = b->m->towers[MODEL_TEXT].window;

	return slides(b, block) && b->cached >= window ? window - 1 : b->cached;
}

/* What a static layer is made for: all tokens but the last, which is not fed back. */
static uint64_t room(const struct builder *b, uint32_t block)
{
	uint64_t all = b->r->sequence + (b->r->new_tokens ? b->r->new_tokens - 1 : 0);
	uint64_t window = b->m->towers[MODEL_TEXT].window;

	return slides(b, block) && window < all ? window : all;
}

static int is_static(const struct builder *b)
{
	return b->cache && b->generating && b->r->cache == PLAN_CACHE_STATIC;
}

int build_masks_all(const struct builder *b, int windowed)
{
	return is_static(b) && (windowed || b->cached);
}

void build_cache_open(struct builder *b)
{
	struct tape *t = &b->t;

	for (unsigned k = 0; k < 2 && !t->failed; k++) {
		b->caches[k] = mem_new(t->mem, entries(b), sizeof(struct value), t->err);
		if (!b->caches[k])
			t->failed = mem_status(t->err);
		for (uint64_t i = 0; !t->failed && i < entries(b); i++)
			b->caches[k][i] = tape_param(t, TAPE_NONE);
	}
}

void build_cache_close(struct builder *b)
{
	for (unsigned k = 0; k < 2; k++)
		mem_free(b->t.mem, b->caches[k], b->caches[k] ? entries(b) : 0,
			 sizeof(struct value));
}

void build_cache_begin(struct builder *b)
{
	/* Transformers turns it off where blocks are checkpointed */
	int again = b->t.grad && b->r->checkpointing == PLAN_CHECKPOINT_FULL;

	b->cached = 0;
	b->cache = b->generating                ? (b->r->no_cache ? NULL : b->caches[0])
		   : b->r->keep_cache && !again ? b->caches[0]
						: NULL;
}

void build_cache_drop(struct builder *b, unsigned which)
{
	for (uint64_t i = 0; b->caches[which] && i < entries(b); i++)
		tape_drop(&b->t, &b->caches[which][i]);
	b->cached = 0;
}

void build_cache_keep(struct builder *b)
{
	struct value *now = b->caches[0];

	b->caches[0] = b->caches[1];
	b->caches[1] = now;
	build_cache_drop(b, 0);
	b->cache = NULL;
}

/* torch.cat of what is there and what is new; the first time with an empty tensor of the keys' dtype. */
static struct value grown(struct builder *b, struct value now, uint64_t tokens, uint8_t dtype)
{
	struct tape *t = &b->t;
	uint8_t category = t->category;
	struct value y;

	t->category = TIMELINE_KV_CACHE;
	if (b->cached)
		y = tape_new(t, now.n / b->sequence * tokens, now.dtype, TIMELINE_KV_CACHE);
	else
		y = now.dtype == dtype ? op_contiguous(t, now) : op_cast(t, now, dtype);
	t->category = category;
	return y;
}

/* Views of what was joined: the whole stays until the next pass replaces it, also where the layer slides. */
static void grow_cache(struct builder *b, struct value cache[2], uint64_t tokens, struct value p[3])
{
	uint8_t dtype = p[1].dtype;

	for (unsigned i = 0; i < 2; i++) {
		struct value y = grown(b, p[1 + i], tokens, dtype);

		tape_set(&b->t, &cache[i], y);
	}
	for (unsigned i = 0; i < 2; i++)
		tape_set(&b->t, &p[1 + i], tape_keep(&b->t, cache[i]));
}

/*
 * New tokens are written into the layer's room, and all of it is attended to; a layer that slides attends to a prompt
 * longer than its room as it is, and once full to a copy that has moved by a token.
 */
static uint64_t write_static(struct builder *b, uint32_t block, struct value cache[2],
			     struct value p[3])
{
	uint64_t tokens = room(b, block), width = p[1].n / b->sequence;
	struct tape *t = &b->t;

	for (unsigned i = 0; i < 2; i++)
		if (cache[i].store == TAPE_NONE)
			cache[i] = tape_new(t, width * tokens, p[1 + i].dtype, TIMELINE_KV_CACHE);
	if (b->sequence > tokens || (slides(b, block) && !b->cached && b->sequence == tokens))
		return b->sequence;
	for (unsigned i = 0; i < 2; i++)
		tape_set(t, &p[1 + i],
			 slides(b, block) && b->cached >= tokens
				 ? tape_new(t, width * tokens, p[1 + i].dtype, TIMELINE_TEMPORARY)
				 : tape_keep(t, cache[i]));
	return tokens;
}

uint64_t build_remember(struct builder *b, uint32_t block, struct value p[3])
{
	uint64_t tokens = cache_before(b, block) + b->sequence;

	if (!b->cache)
		return b->cached + b->sequence;
	if (is_static(b))
		return write_static(b, block, b->cache + 2 * block, p);
	grow_cache(b, b->cache + 2 * block, tokens, p);
	return tokens;
}

void build_keep_projected(struct builder *b, uint32_t block, struct value all)
{
	if (b->r->keeps_keys && !b->generating && !b->cache && !b->t.refilling)
		tape_set(&b->t, &b->caches[0][2 * block], tape_keep(&b->t, all));
}

void build_hold_state(struct builder *b, unsigned which, struct value x)
{
	tape_set(&b->t, &b->caches[0][cached_entries(b) + which], x);
}

void build_cache_reorder(struct builder *b)
{
	struct tape *t = &b->t;

	for (uint64_t i = 0; b->cache && i < cached_entries(b); i++) {
		struct value *at = &b->cache[i];

		if (at->store == TAPE_NONE)
			continue;
		tape_set(t, at, tape_new(t, at->n, at->dtype, TIMELINE_KV_CACHE));
	}
}
