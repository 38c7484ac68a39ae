/* A model's life, and what is asked of it. */
#include "tables.h"

#include <stdio.h>

void model_init(struct model *m, struct mem *mem)
{
	memset(m, 0, sizeof(*m));
	m->mem = mem;
	intern_init(&m->strings, mem);
}

void model_release(struct model *m)
{
	vec_release(m->mem, &m->modules);
	vec_release(m->mem, &m->tensors);
	vec_release(m->mem, &m->unread);
	vec_release(m->mem, &m->dense_blocks);
	vec_release(m->mem, &m->full_blocks);
	vec_release(m->mem, &m->kinds);
	vec_release(m->mem, &m->sizes);
	vec_release(m->mem, &m->whole_blocks);
	vec_release(m->mem, &m->deep_blocks);
	intern_release(&m->strings);
}

#define copy_list(mem, to, from, err)                                                  \
	({                                                                             \
		enum plim_status copied_ = vec_need(mem, to, (from)->n, err);          \
		if (!copied_ && (from)->n)                                             \
			memcpy((to)->at, (from)->at, (from)->n * sizeof(*(from)->at)); \
		(to)->n = copied_ ? 0 : (from)->n;                                     \
		copied_;                                                               \
	})

enum plim_status model_copy(struct model *to, const struct model *from, struct plim_err *err)
{
	struct model lists;
	enum plim_status st;

	model_init(&lists, from->mem);
	*to = *from;
	to->modules = lists.modules;
	to->tensors = lists.tensors;
	to->dense_blocks = lists.dense_blocks;
	to->full_blocks = lists.full_blocks;
	to->kinds = lists.kinds;
	to->sizes = lists.sizes;
	to->whole_blocks = lists.whole_blocks;
	to->deep_blocks = lists.deep_blocks;
	to->unread = lists.unread;
	to->strings = lists.strings;
	st = copy_list(to->mem, &to->modules, &from->modules, err);
	if (!st)
		st = copy_list(to->mem, &to->tensors, &from->tensors, err);
	if (!st)
		st = copy_list(to->mem, &to->dense_blocks, &from->dense_blocks, err);
	if (!st)
		st = copy_list(to->mem, &to->full_blocks, &from->full_blocks, err);
	if (!st)
		st = copy_list(to->mem, &to->kinds, &from->kinds, err);
	if (!st)
		st = copy_list(to->mem, &to->sizes, &from->sizes, err);
	if (!st)
		st = copy_list(to->mem, &to->whole_blocks, &from->whole_blocks, err);
	if (!st)
		st = copy_list(to->mem, &to->deep_blocks, &from->deep_blocks, err);
	return st;
}

static const char *const parts[] = {
	[MODEL_WEIGHT] = ".weight",
	[MODEL_BIAS] = ".bias",
	[MODEL_WHOLE] = "",
	[MODEL_LORA_A] = ".lora_A.default.weight",
	[MODEL_LORA_B] = ".lora_B.default.weight",
	[MODEL_LORA_EMBEDDING_A] = ".lora_embedding_A.default",
	[MODEL_LORA_EMBEDDING_B] = ".lora_embedding_B.default",
	[MODEL_LORA_MAGNITUDE] = ".lora_magnitude_vector.default.weight",
	[MODEL_WEIGHT_COPY] = ".modules_to_save.default.weight",
	[MODEL_BIAS_COPY] = ".modules_to_save.default.bias",
	[MODEL_QUANT_STATE] = ".weight.quant_state",
};

const char *model_module_name(const struct model *m, const struct model_module *module,
			      char out[MODEL_NAME_BYTES])
{
	const char *prefix = module->prefix, *block;
	size_t strip = m->strip ? strlen(m->strip) : 0;

	if (strip && !strncmp(prefix, m->strip, strip))
		prefix += strip;
	block = strstr(prefix, "%u");
	if (block)
		snprintf(out, MODEL_NAME_BYTES, "%.*s%u%s%s", (int)(block - prefix), prefix,
			 module->block, block + 2, module->name);
	else
		snprintf(out, MODEL_NAME_BYTES, "%s%s", prefix, module->name);
	return out;
}

const char *model_name(const struct model *m, const struct model_tensor *t,
		       char out[MODEL_NAME_BYTES])
{
	const struct model_module *module = &m->modules.at[t->module];
	size_t n;

	model_module_name(m, module, out);
	n = strlen(out);
	snprintf(out + n, MODEL_NAME_BYTES - n, "%s", parts[t->part]);
	return out;
}

const struct model_module *model_module_at(const struct model *m, enum model_tower tower,
					   uint32_t block, enum model_role role)
{
	for (size_t i = 0; i < m->modules.n; i++) {
		const struct model_module *x = &m->modules.at[i];

		if (x->tower == tower && x->block == block && x->role == role)
			return x;
	}
	return NULL;
}

enum model_block model_block_kind(const struct model *m, uint32_t block)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	if (block < m->kinds.n)
		return (enum model_block)m->kinds.at[block];
	if (n->attend_every)
		return block % n->attend_every == n->attend_at ? MODEL_BLOCK_ATTENDS
							       : MODEL_BLOCK_MIXES;
	if (n->index_dim && !n->indexes_named &&
	    (!n->index_every || block < n->index_from ||
	     (block - n->index_from + 1) % n->index_every == 0))
		return MODEL_BLOCK_INDEXED;
	return n->mixes ? MODEL_BLOCK_MIXES : MODEL_BLOCK_ATTENDS;
}

static uint64_t own(uint64_t of_block, uint64_t of_tower)
{
	return of_block ? of_block : of_tower;
}

struct model_sizes model_sizes_of(const struct model *m, enum model_tower tower, uint32_t block)
{
	const struct model_numbers *n = &m->towers[tower];
	bool read = tower == MODEL_TEXT && block != MODEL_NONE;
	const struct model_sizes *own_sizes = NULL;
	struct model_sizes s = { n->heads,        n->kv_heads, n->head_dim, n->value_dim,
				 n->intermediate, true,        true };

	if (read && block < m->sizes.n)
		own_sizes = &m->sizes.at[block];
	else if (read)
		own_sizes = model_sees_all(m, tower, block) ? &n->whole : &n->sliding;
	if (!own_sizes)
		return s;
	s.heads = own(own_sizes->heads, s.heads);
	s.kv_heads = own(own_sizes->kv_heads, s.kv_heads);
	s.head_dim = own(own_sizes->head_dim, s.head_dim);
	s.value_dim = own(own_sizes->value_dim, s.value_dim);
	s.intermediate = own(own_sizes->intermediate, s.intermediate);
	s.attends = block >= m->sizes.n || own_sizes->attends;
	s.feeds = block >= m->sizes.n || own_sizes->feeds;
	if (n->wide_sharers && model_shares_keys(m, block))
		s.intermediate *= 2;
	return s;
}

bool model_shares_keys(const struct model *m, uint32_t block)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	return n->shared_kv && block + n->shared_kv >= n->layers;
}

/* Do the kinds of blocks say which have experts? */
static bool kinds_tell_experts(const struct model *m)
{
	for (size_t i = 0; i < m->kinds.n; i++)
		if (m->kinds.at[i] >= MODEL_BLOCK_MLP)
			return true;
	return false;
}

bool model_is_sparse(const struct model *m, enum model_tower tower, uint32_t block)
{
	const struct model_numbers *n = &m->towers[tower];

	if (!n->experts)
		return false;
	if (tower == MODEL_TEXT && kinds_tell_experts(m))
		return model_block_kind(m, block) == MODEL_BLOCK_EXPERTS;
	if (block < n->first_dense || (n->sparse_end && block > n->sparse_end) ||
	    (block < m->dense_blocks.n && m->dense_blocks.at[block]))
		return false;
	if (n->sparse_step <= 1)
		return true;
	return block % n->sparse_step == (n->sparse_at ? n->sparse_at : n->sparse_step) - 1;
}

bool model_sees_all(const struct model *m, enum model_tower tower, uint32_t block)
{
	const struct model_numbers *n = &m->towers[tower];

	if (!n->window || !n->use_window)
		return true;
	if (tower == MODEL_TEXT && block < m->full_blocks.n)
		return m->full_blocks.at[block];
	if (tower == MODEL_VISION && m->whole_blocks.n)
		return block < m->whole_blocks.n && m->whole_blocks.at[block];
	return block < n->window_from || (n->window_every && (block + 1) % n->window_every == 0);
}

bool model_has_windows(const struct model *m, enum model_tower tower)
{
	for (uint32_t i = 0; i < m->towers[tower].layers; i++)
		if (!model_sees_all(m, tower, i))
			return true;
	return false;
}

#define DEEP_EVERY 8 /* Qwen3VLVisionConfig's deepstack_visual_indexes: 8, 16, 24 */

bool model_goes_deep(const struct model *m, uint32_t block)
{
	if (m->deep_blocks.n)
		return block < m->deep_blocks.n && m->deep_blocks.at[block];
	return block && block % DEEP_EVERY == 0 &&
	       block / DEEP_EVERY <= m->towers[MODEL_VISION].deepstack;
}

const struct ckpt_dtype *model_dtype(const struct model_tensor *t, const struct ckpt_dtype *weights)
{
	return t->dtype ? t->dtype : weights;
}

uint64_t model_block_bytes(const struct ckpt_dtype *dtype, uint64_t count)
{
	uint64_t rest = count % dtype->block * dtype->block_bytes;

	return count / dtype->block * dtype->block_bytes + (rest + dtype->block - 1) / dtype->block;
}

uint64_t model_tensor_bytes(const struct model_tensor *t, const struct ckpt_dtype *weights)
{
	const struct ckpt_dtype *dtype = model_dtype(t, weights);

	if (dtype->block)
		return model_block_bytes(dtype, t->count);
	return (t->count * dtype->bits + 7) / 8;
}

void model_freeze_vision(struct model *m, bool projector)
{
	for (size_t i = 0; i < m->modules.n; i++) {
		const struct model_module *x = &m->modules.at[i];
		bool merges = x->role >= MODEL_ROLE_MERGE_NORM && x->role <= MODEL_ROLE_MERGE2;

		for (uint32_t k = 0; x->tower == MODEL_VISION && (projector || !merges) && k < x->n;
		     k++)
			m->tensors.at[x->tensors + k].flags |= MODEL_IS_FROZEN;
	}
}

void model_get_totals(const struct model *m, const struct ckpt_dtype *weights,
		      struct model_totals *out)
{
	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < m->tensors.n; i++) {
		const struct model_tensor *t = &m->tensors.at[i];
		uint64_t bytes = model_tensor_bytes(t, weights);

		if (t->tied_to != MODEL_NONE)
			continue;
		if (t->flags & MODEL_IS_BUFFER) {
			out->buffer_bytes += bytes;
			continue;
		}
		if (t->flags & MODEL_IS_STATE) {
			out->state_bytes += bytes;
			continue;
		}
		out->parameters += t->count;
		out->parameter_bytes += bytes;
		if (t->count > out->largest_elements)
			out->largest_elements = t->count;
		if (t->flags & MODEL_IS_FROZEN)
			continue;
		out->trainable += t->count;
		out->trainable_bytes += bytes;
	}
}
