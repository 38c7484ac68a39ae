/* Rows and numbers to modules and tensors. */
#include "tables.h"

#include <stdio.h>

#define ELEMENTS ((uint64_t)1 << 60) /* of a model, at most: bytes and sums of them fit 64 bits */

/* Too large when it does not fit: what follows refuses sizes beyond MODEL_SIZE. */
static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* many * a + b */
static uint64_t sum(uint64_t many, uint64_t a, uint64_t b)
{
	uint64_t all;

	return __builtin_add_overflow(times(many, a), b, &all) ? UINT64_MAX : all;
}

/* A letter of a shape that is a number of the tower, or the product of two. */
#define ONE(letter, a)                                       \
	{                                                    \
		letter, offsetof(struct model_numbers, a), 0 \
	}
#define TWO(letter, a, b)                                                                    \
	{                                                                                    \
		letter, offsetof(struct model_numbers, a), offsetof(struct model_numbers, b) \
	}
static const struct {
	char letter;
	uint16_t one, other; /* 0: there is no other */
} plain_letters[] = {
	ONE('V', vocab),
	ONE('H', hidden),
	ONE('F', intermediate),
	ONE('L', labels),
	ONE('P', positions),
	ONE('Y', types),
	ONE('J', projection),
	ONE('A', heads),
	ONE('D', head_dim),
	ONE('G', kv_heads),
	ONE('B', buckets),
	ONE('E', experts),
	ONE('M', expert_intermediate),
	ONE('S', shared_intermediate),
	ONE('q', q_rank),
	ONE('r', kv_rank),
	ONE('s', state),
	ONE('c', conv),
	ONE('d', dt_rank),
	ONE('h', state_heads),
	ONE('e', value_heads),
	ONE('f', value_dim),
	ONE('g', index_heads),
	ONE('n', index_dim),
	ONE('U', layer_input),
	ONE('~', layer_vocab),
	ONE('^', rows),
	ONE('_', columns),
	ONE('$', experts_per_token),
	ONE('#', streams),
	ONE('C', channels),
	ONE('p', patch),
	ONE('t', temporal_patch),
	ONE('N', patches),
	TWO('Q', heads, head_dim),
	TWO('K', kv_heads, head_dim),
	TWO('z', heads, value_dim),
	TWO('k', key_heads, key_dim),
	TWO('v', value_heads, value_dim),
	TWO('o', index_heads, index_dim),
	TWO('%', layers, layer_input),
	TWO('O', o_rank, o_groups),
	TWO('m', merge, merge),
};
#undef ONE
#undef TWO

static uint64_t number_at(const struct model_numbers *n, uint16_t offset)
{
	return *(const uint64_t *)(const void *)((const char *)n + offset);
}

/* RoPE turns pairs; in images half of them by rows and half by columns. */
static uint64_t frequencies(const struct model_numbers *n)
{
	uint64_t turned =
		(uint64_t)((double)n->head_dim * (n->partial_rotary > 0 ? n->partial_rotary : 1.0));

	return turned / (n->position == MODEL_POSITION_ROPE_2D ? 4 : 2);
}

static uint64_t letter_size(const struct model *m, const struct model_numbers *n, char letter)
{
	for (size_t i = 0; i < sizeof(plain_letters) / sizeof(plain_letters[0]); i++)
		if (plain_letters[i].letter == letter)
			return times(number_at(n, plain_letters[i].one),
				     plain_letters[i].other ? number_at(n, plain_letters[i].other)
							    : 1);
	switch (letter) {
	case 'W': return times(n->heads + 2 * n->kv_heads, n->head_dim);
	case 'R': return frequencies(n);
	case 'X': return n->expert_hidden ? n->expert_hidden : n->hidden;
	case 'l': return n->kv_rank + n->rope_dim;
	case 'x': return times(n->heads, n->nope_dim + n->rope_dim);
	case 'y': return times(n->heads, n->nope_dim + n->value_dim);
	case 'u': return n->dt_rank + 2 * n->state;
	case 'i':
		return n->state_heads && n->state_dim ? times(n->state_heads, n->state_dim)
						      : times(n->expand, n->hidden);
	case 'a': return sum(2, letter_size(m, n, 'k'), letter_size(m, n, 'v'));
	case 'b': return sum(2, letter_size(m, n, 'k'), times(2, letter_size(m, n, 'v')));
	case 'j': return sum(2, times(n->groups, n->state), letter_size(m, n, 'i'));
	case 'w':
		return sum(1, letter_size(m, n, 'i'),
			   sum(1, letter_size(m, n, 'j'), n->state_heads));
	case '@': return times(n->streams, n->streams + 2);
	case 'Z': return n->o_groups ? times(n->heads, n->head_dim) / n->o_groups : 0;
	case 'T': return m->towers[MODEL_TEXT].hidden;
	default: return 0;
	}
}

/* The next word of a shape: "3H", "P+1"; gives what follows it.  *size is MODEL_SIZE + 1 when it is too large. */
static const char *word_size(const struct model *m, const struct model_numbers *n, const char *s,
			     uint64_t *size)
{
	uint64_t product = 1, more = 0, *number = &more;
	bool fits = true;

	for (; *s && *s != ' '; s++) {
		uint64_t factor = 0;

		if (*s == '+') {
			for (s++; *s >= '0' && *s <= '9'; s++)
				more = more * 10 + (uint64_t)(*s - '0');
			break;
		}
		if (*s >= '0' && *s <= '9')
			factor = (uint64_t)(*s - '0');
		else
			factor = letter_size(m, n, *s);
		fits &= !__builtin_mul_overflow(product, factor, &product);
	}
	fits &= !__builtin_add_overflow(product, *number, &product) && product <= MODEL_SIZE;
	*size = fits ? product : MODEL_SIZE + 1;
	return *s == ' ' ? s + 1 : s;
}

enum plim_status model_push_tensor(struct model *m, uint32_t module, struct model_tensor t,
				   struct plim_err *err)
{
	uint64_t count = 1;
	enum plim_status st = PLIM_OK;

	for (unsigned i = 0; i < t.rank; i++)
		if (__builtin_mul_overflow(count, t.dims[i], &count) || count > ELEMENTS)
			return err_set(
				err, PLIM_E_LIMIT,
				"a tensor of this model has more elements than fit any memory");
	t.count = count;
	if (m->tensors.n >= MODEL_TENSORS)
		return err_set(err, PLIM_E_LIMIT, "the model has more than %zu tensors",
			       MODEL_TENSORS);
	t.module = module;
	st = vec_push(m->mem, &m->tensors, t, err);
	if (!st)
		m->modules.at[module].n++;
	return st;
}

/* Kinds and how their shape reads: where features are, and whether there is a bias of which width. */
static const struct {
	int in, out; /* index of a dimension, -1: no such thing */
	int bias;    /* index of the dimension that a bias has; -1: none */
	enum model_part part;
	uint8_t flags;
} kinds[MODEL_KINDS] = {
	[MODEL_LINEAR] = { 1, 0, 0, MODEL_WEIGHT, 0 },
	[MODEL_CONV1D] = { 0, 1, 1, MODEL_WEIGHT, 0 },
	[MODEL_EMBEDDING] = { 0, 1, -1, MODEL_WEIGHT, 0 },
	[MODEL_NORM_RMS] = { -1, -1, -1, MODEL_WEIGHT, 0 },
	[MODEL_NORM_LAYER] = { -1, -1, 0, MODEL_WEIGHT, 0 },
	[MODEL_CONV] = { 1, 0, 0, MODEL_WEIGHT, 0 },
	[MODEL_EXPERTS] = { 2, 1, -1, MODEL_WHOLE, 0 },
	[MODEL_PARAMETER] = { -1, -1, -1, MODEL_WHOLE, 0 },
	[MODEL_BUFFER] = { -1, -1, -1, MODEL_WHOLE, MODEL_IS_BUFFER },
	[MODEL_FREQUENCIES] = { -1, -1, -1, MODEL_WHOLE, MODEL_IS_BUFFER },
};

static uint32_t embedding_of(const struct model *m)
{
	for (size_t i = 0; i < m->modules.n; i++)
		if (m->modules.at[i].role == MODEL_ROLE_EMBED)
			return m->modules.at[i].tensors;
	return MODEL_NONE;
}

static enum plim_status model_add_row(struct model *m, const struct model_section *s,
				      const struct model_row *row, const struct model_numbers *n,
				      uint32_t block, uint64_t has, struct plim_err *err)
{
	struct model_tensor t = { .tied_to = MODEL_NONE,
				  .part = (uint8_t)kinds[row->kind].part,
				  .flags = kinds[row->kind].flags };
	uint32_t at = (uint32_t)m->modules.n;
	struct model_module module = { .prefix = s->prefix,
				       .name = row->name,
				       .block = block,
				       .tensors = (uint32_t)m->tensors.n,
				       .tower = (uint8_t)s->tower,
				       .kind = (uint8_t)row->kind,
				       .role = (uint8_t)row->role };
	enum plim_status st = PLIM_OK;

	for (const char *shape = row->shape; *shape; t.rank++) {
		shape = word_size(m, n, shape, &t.dims[t.rank]);
		if (t.dims[t.rank] > MODEL_SIZE)
			return err_set(err, PLIM_E_LIMIT, "'%s' has a size that no model has",
				       row->name);
	}
	if (kinds[row->kind].in >= 0) {
		module.in = t.dims[kinds[row->kind].in];
		module.out = t.dims[kinds[row->kind].out];
	}
	if (row->tied && !(row->tied & ~has))
		t.tied_to = embedding_of(m);
	if (row->dtype)
		t.dtype = ckpt_dtype_of_torch(row->dtype);
	else if (row->kind == MODEL_FREQUENCIES && m->dtype)
		t.dtype = ckpt_dtype_of_torch("float32");
	st = vec_push(m->mem, &m->modules, module, err);
	if (!st)
		st = model_push_tensor(m, at, t, err);
	if (st || kinds[row->kind].bias < 0 || !row->bias || (row->bias & ~has))
		return st;
	t.dims[0] = t.dims[kinds[row->kind].bias];
	t.rank = 1;
	t.part = MODEL_BIAS;
	t.tied_to = MODEL_NONE;
	return model_push_tensor(m, at, t, err);
}

/* Of the numbers that say what attention is. */
static uint64_t attention_conditions(const struct model_numbers *n)
{
	uint64_t has = n->qkv_bias ? IF(QKV_BIAS) : 0u;

	has |= n->output_bias ? IF(OUTPUT_BIAS) : 0u;
	has |= n->qk_norm ? IF(QK_NORM) : 0u;
	has |= n->cross_attention ? IF(CROSS) : IF(ALONE);
	has |= n->two_ropes ? 0u : IF(ONE_ROPE);
	has |= n->q_rank ? IF(QUERY_RANK) : IF(QUERY);
	has |= n->relative ? IF(RELATIVE) : 0u;
	has |= n->alibi ? 0u : IF(ROPE);
	has |= n->position_input ? IF(POSITION_INPUT) : 0u;
	has |= n->new_decoder && !n->one_norm ? IF(TWO_NORMS) : IF(ONE_NORM);
	return has;
}

/* What holds in all blocks of a tower. */
static uint64_t tower_conditions(const struct model *m, enum model_tower tower)
{
	const struct model_numbers *n = &m->towers[tower];
	uint64_t has = IF(TRUE) | attention_conditions(n);

	for (uint32_t i = 0; n->two_ropes && i < n->layers; i++)
		has |= model_sees_all(m, tower, i) ? IF(FULL_ROPE) : IF(SLIDING_ROPE);
	has |= n->tied ? IF(TIED) : IF(UNTIED);
	has |= n->mlp_bias ? IF(MLP_BIAS) : 0u;
	has |= n->head_bias ? IF(HEAD_BIAS) : 0u;
	has |= n->norm_place == MODEL_NORM_AROUND ? IF(AROUND) : IF(BEFORE);
	has |= n->gated ? IF(GATED) : IF(PLAIN);
	has |= n->embed_scale ? IF(EMBED_SCALE) : 0u;
	has |= n->shared_intermediate ? IF(SHARED) : 0u;
	has |= n->expert_hidden ? IF(LATENT) : 0u;
	has |= n->pool_head ? IF(POOL_HEAD) : 0u;
	has |= n->projection != n->hidden ? IF(NARROW) : 0u;
	has |= n->parallel ? IF(PARALLEL) : IF(SERIAL);
	has |= n->types ? IF(TYPES) : 0u;
	has |= n->norm_bias ? IF(NORM_BIAS) : 0u;
	has |= n->conv_bias ? IF(CONV_BIAS) : 0u;
	has |= n->state_bias ? IF(STATE_BIAS) : 0u;
	has |= n->layer_input ? IF(LAYER_INPUT) : 0u;
	return has;
}

static uint64_t kind_conditions(const struct model *m, uint32_t block)
{
	static const uint64_t has[] = {
		[MODEL_BLOCK_ATTENDS] = IF(ATTENDS),
		[MODEL_BLOCK_INDEXED] = IF(ATTENDS) | IF(INDEXED),
		[MODEL_BLOCK_COMPRESSED] = IF(ATTENDS) | IF(COMPRESSED),
		[MODEL_BLOCK_MIXES] = IF(MIXES),
		[MODEL_BLOCK_MLP] = IF(MLP_ONLY),
		[MODEL_BLOCK_EXPERTS] = 0,
	};

	return has[model_block_kind(m, block)];
}

/* Of the text tower, where blocks differ. */
static uint64_t own_conditions(const struct model *m, uint32_t block, struct model_sizes sizes)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];
	uint64_t has = kind_conditions(m, block);
	bool all = model_sees_all(m, MODEL_TEXT, block);

	if (!sizes.attends)
		has &= ~IF(ATTENDS);
	has |= sizes.feeds ? IF(FEEDS) : 0;
	has |= all ? IF(SEES_ALL) : IF(SLIDES);
	has |= block < n->hash_blocks ? IF(HASHED) : IF(SCORED);
	if (model_shares_keys(m, block))
		return has;
	return has | IF(OWN_KEYS) | (all && n->keys_are_values ? 0 : IF(OWN_VALUES));
}

static uint64_t block_conditions(const struct model *m, enum model_tower tower, uint32_t block,
				 struct model_sizes sizes)
{
	uint64_t has = block ? IF(LATER) : IF(FIRST);

	has |= tower == MODEL_TEXT ? own_conditions(m, block, sizes) : IF(ATTENDS);
	if (!model_is_sparse(m, tower, block))
		return has | IF(DENSE);
	return has | IF(SPARSE) | (m->towers[tower].router_last ? IF(ROUTED_LAST) : IF(ROUTED));
}

/* The tower's numbers as this block has them. */
static struct model_numbers numbers_of(const struct model *m, enum model_tower tower,
				       struct model_sizes sizes)
{
	struct model_numbers n = m->towers[tower];

	n.heads = sizes.heads;
	n.kv_heads = sizes.kv_heads;
	n.head_dim = sizes.head_dim;
	n.value_dim = sizes.value_dim;
	n.intermediate = sizes.intermediate;
	return n;
}

static enum plim_status add_section(struct model *m, const struct model_section *s, uint64_t has,
				    struct plim_err *err)
{
	const struct model_numbers *n = &m->towers[s->tower];
	bool repeated = strstr(s->prefix, "%u");
	uint64_t count =
		repeated ? *(const uint64_t *)(const void *)((const char *)n + s->times) : 1;
	enum plim_status st = PLIM_OK;

	if (!n->layers)
		return PLIM_OK;
	has |= tower_conditions(m, s->tower);
	for (uint32_t i = 0; !st && i < count; i++) {
		uint32_t block = repeated ? i : MODEL_NONE;
		struct model_sizes sizes = model_sizes_of(m, s->tower, block);
		struct model_numbers own = numbers_of(m, s->tower, sizes);
		uint64_t here = has | block_conditions(m, s->tower, i, sizes);

		for (const struct model_row *row = s->rows; !st && row->name; row++)
			if (!(row->when & ~here))
				st = model_add_row(m, s, row, &own, block, here, err);
	}
	return st;
}

static enum model_loss loss_of(const struct model *m, uint64_t has)
{
	const struct model_numbers *n = &m->towers[MODEL_TEXT];

	if (has & IF(PAIR) || n->router_loss)
		return MODEL_LOSS_OF_PAIRS;
	if (!n->layers)
		return MODEL_LOSS_OF_ALL_TOKENS; /* classes of images hand the count on */
	if (has & (IF(CLASS) | IF(ANSWER)))
		return MODEL_LOSS_OF_SAMPLES;
	if (has & IF(TOKEN_CLASS) || (has & IF(LM) && (!n->causal || m->encoder_decoder)))
		return MODEL_LOSS_OF_TOKENS;
	return MODEL_LOSS_OF_ALL_TOKENS;
}

enum plim_status model_build(struct model *m, const struct model_family *f, uint64_t has,
			     struct plim_err *err)
{
	uint64_t sum = 0;
	enum plim_status st = PLIM_OK;

	m->loss = loss_of(m, has);
	for (const struct model_section *s = f->sections; !st && s->prefix; s++)
		st = add_section(m, s, has, err);
	for (size_t i = 0; !st && i < m->tensors.n; i++) {
		/* A table of no rows is looked up by none: DeBERTa's without relative positions. */
		if (!m->tensors.at[i].count &&
		    m->modules.at[m->tensors.at[i].module].kind != MODEL_EMBEDDING)
			return err_set(err, PLIM_E_FORMAT,
				       "weight '%s' of this model has no values: a size of its "
				       "configuration is 0",
				       m->modules.at[m->tensors.at[i].module].name);
		sum += m->tensors.at[i].count;
		if (sum > ELEMENTS)
			st = err_set(err, PLIM_E_LIMIT,
				     "this model has more elements than fit any memory");
	}
	return st;
}

/* Where each tensor went, for those that are tied to one. */
static void follow_ties(struct model *m, const uint32_t *went)
{
	for (size_t i = 0; i < m->tensors.n; i++) {
		struct model_tensor *t = &m->tensors.at[i];

		if (t->tied_to != MODEL_NONE)
			t->tied_to = went[t->tied_to];
	}
}

enum plim_status model_rebuild(struct model *m, model_change_fn *change, void *ctx,
			       struct plim_err *err)
{
	struct model_tensor *old = m->tensors.at;
	size_t n = m->tensors.n, cap = m->tensors.cap;
	uint32_t *went = mem_new(m->mem, n, sizeof(*went), err);
	enum plim_status st = went ? PLIM_OK : mem_status(err);

	if (st)
		return st;
	m->tensors.at = NULL;
	m->tensors.n = m->tensors.cap = 0;
	for (uint32_t i = 0; !st && i < m->modules.n; i++) {
		struct model_module *module = &m->modules.at[i];
		uint32_t from = module->tensors, count = module->n;

		module->tensors = (uint32_t)m->tensors.n;
		module->n = 0;
		for (uint32_t k = 0; !st && k < count; k++) {
			went[from + k] = (uint32_t)m->tensors.n;
			st = model_push_tensor(m, i, old[from + k], err);
		}
		if (!st)
			st = change(m, module, ctx, err);
	}
	if (!st)
		follow_ties(m, went);
	mem_free(m->mem, old, cap, sizeof(*old));
	mem_free(m->mem, went, n, sizeof(*went));
	return st;
}
