/* config.json to numbers: families by type, class or keys; then each tower takes what its keys name. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

static const struct {
	const char *name;
	enum model_activation activation;
	bool gated; /* T5 names both in one */
} activations[] = {
	{ "silu", MODEL_SILU, false },
	{ "swish", MODEL_SILU, false },
	{ "gelu", MODEL_GELU, false },
	{ "gelu_new", MODEL_GELU_NEW, false },
	{ "gelu_fast", MODEL_GELU_NEW, false },
	{ "gelu_python_tanh", MODEL_GELU_NEW, false },
	{ "gelu_pytorch_tanh", MODEL_GELU_TANH, false },
	{ "quick_gelu", MODEL_QUICK_GELU, false },
	{ "relu", MODEL_RELU, false },
	{ "relu2", MODEL_RELU2, false },
	{ "gelu_10", MODEL_GELU, false },
	{ "gelu_accurate", MODEL_GELU_NEW, false },
	{ "gated-gelu", MODEL_GELU_NEW, true },
	{ "gated-silu", MODEL_SILU, true },
	{ "gated-relu", MODEL_RELU, true },
};

static void take_activation(struct model_numbers *n, const char *name, bool names_gate)
{
	n->activation = MODEL_ACTIVATION_OTHER;
	if (names_gate)
		n->gated = !strncmp(name, "gated-", 6);
	for (size_t i = 0; i < sizeof(activations) / sizeof(activations[0]); i++)
		if (!strcmp(name, activations[i].name))
			n->activation = activations[i].activation;
}

static enum plim_status refuse_config(const struct config *c, const struct model_key *k,
				      struct plim_err *err)
{
	return err_set(err, PLIM_E_FORMAT, "'%.200s': '%s' is a value that no model has", c->path,
		       k->key);
}

static enum plim_status take_size(const struct config *c, uint64_t *at, const struct model_key *k,
				  const struct config_value *v, struct plim_err *err)
{
	if (k->type == KEY_SIZE_IF &&
	    (v->kind == JSON_NULL || v->kind == JSON_STRING || v->negative)) /* "auto" */
		return PLIM_OK;
	if (config_element(c, v, 1)) /* height and width, say */
		v = config_element(c, v, 1);
	if (v->kind != JSON_NULL &&
	    (v->kind != JSON_INTEGER || (v->negative && v->number) || v->number > MODEL_SIZE))
		return refuse_config(c, k, err);
	*at = v->kind == JSON_NULL ? 0 : v->number;
	*at += k->type == KEY_NEXT;
	if (k->type == KEY_HALVES)
		*at /= 2;
	return PLIM_OK;
}

static enum plim_status take_rate(const struct config *c, double *at, const struct model_key *k,
				  const struct config_value *v, struct plim_err *err)
{
	if (v->kind != JSON_NULL && v->kind != JSON_INTEGER &&
	    (v->kind != JSON_DOUBLE || !(v->real >= 0 && v->real <= 1e6)))
		return refuse_config(c, k, err);
	*at = v->kind == JSON_NULL ? 0 : v->real;
	return v->real < 0 ? refuse_config(c, k, err) : PLIM_OK;
}

static enum plim_status take_key(const struct config *c, struct model_numbers *n,
				 const struct model_key *k, const struct config_value *v,
				 struct plim_err *err)
{
	char *at = (char *)n + k->offset;

	switch ((enum key_type)k->type) {
	case KEY_COUNT:
		if (v->kind == JSON_ARRAY || (v->kind == JSON_OBJECT && v->scope == INTERN_NONE))
			*(uint64_t *)(void *)at = v->number;
		return PLIM_OK;
	case KEY_IGNORED:
	case KEY_SPARSE_BLOCKS:
	case KEY_SPARSE_FLAGS:
	case KEY_KINDS:
	case KEY_BLOCKS:
	case KEY_DENSE_BLOCKS: return PLIM_OK; /* take_lists */
	case KEY_SECOND:
		v = config_element(c, v, 2);
		if (v && v->kind == JSON_INTEGER && v->number <= MODEL_SIZE)
			*(uint64_t *)(void *)at = v->number;
		return PLIM_OK;
	case KEY_SIZE_IF:
	case KEY_NEXT:
	case KEY_HALVES:
	case KEY_SIZE: return take_size(c, (uint64_t *)(void *)at, k, v, err);
	case KEY_RATE: return take_rate(c, (double *)(void *)at, k, v, err);
	case KEY_IS_ONE: *(bool *)at = v->kind == JSON_INTEGER && v->number == 1; return PLIM_OK;
	case KEY_OFF:
	case KEY_SWITCH:
		if (v->kind == JSON_TRUE || v->kind == JSON_FALSE)
			*(bool *)at = (v->kind == JSON_TRUE) == (k->type == KEY_SWITCH);
		return PLIM_OK;
	case KEY_ACTIVATION:
	case KEY_GATED_ACTIVATION:
		if (v->kind == JSON_STRING)
			take_activation(n, config_text(c, v), k->type == KEY_GATED_ACTIVATION);
		return PLIM_OK;
	}
	return PLIM_OK;
}

static bool names(const struct model_key *keys, const char *key)
{
	for (; keys && keys->key; keys++)
		if (!strcmp(keys->key, key))
			return true;
	return false;
}

/* What the keys name, save those that `others` name as well. */
static enum plim_status take_keys(const struct config *c, struct model_numbers *n,
				  const char *scope, const struct model_key *keys,
				  const struct model_key *others, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (; !st && keys && keys->key; keys++) {
		const struct config_value *v = config_find(c, scope, keys->key);

		if (v && !names(others, keys->key))
			st = take_key(c, n, keys, v, err);
	}
	return st;
}

static enum plim_status derive_patches(struct model_numbers *n, const char *path,
				       struct plim_err *err)
{
	uint64_t side = n->image_size / n->patch;

	if (!side)
		return err_set(err, PLIM_E_FORMAT, "'%.200s': a patch is larger than the image",
			       path);
	if (side > MODEL_SIZE / side)
		return err_set(err, PLIM_E_LIMIT, "'%.200s': an image of more patches than any has",
			       path);
	n->patches = side * side;
	return PLIM_OK;
}

static void derive_widths(struct model_numbers *n)
{
	if (n->attend_every && n->attend_at >= n->attend_every)
		n->attend_at = n->attend_every - 1;
	if (n->multi_query && !n->new_decoder)
		n->kv_heads = 1;
	if (!n->kv_heads)
		n->kv_heads = n->heads;
	if (n->kv_rank) {
		n->head_dim = n->nope_dim + n->rope_dim;
		n->kv_heads = n->heads;
	}
	if (!n->head_dim)
		n->head_dim = n->hidden / n->heads;
	if (!n->intermediate && n->multiple) {
		uint64_t whole = 8 * n->hidden / 3;
		double third = (double)whole,
		       wide = n->mlp_ratio > 0 ? third * n->mlp_ratio : third;

		n->intermediate = ((uint64_t)wide + n->multiple - 1) / n->multiple * n->multiple;
	}
	if (!n->intermediate)
		n->intermediate = n->mlp_ratio > 0 ? (uint64_t)((double)n->hidden * n->mlp_ratio)
						   : 4 * n->hidden;
}

/* What follows from other numbers where the file does not say it. */
enum plim_status model_derive(struct model_numbers *n, const char *path, struct plim_err *err)
{
	if (!n->layers)
		return PLIM_OK;
	if (n->layers > MODEL_BLOCKS)
		return err_set(err, PLIM_E_LIMIT, "'%.200s' has %llu layers: more than %u", path,
			       (unsigned long long)n->layers, MODEL_BLOCKS);
	if (!n->hidden || !n->heads)
		return err_set(err, PLIM_E_FORMAT,
			       "'%.200s' has no %s; `--trace` plans what Transformers has", path,
			       n->hidden ? "number of attention heads" : "hidden size");
	derive_widths(n);
	if (n->experts_off)
		n->experts = 0;
	if (n->experts && !n->experts_per_token) /* each takes every token */
		n->experts_per_token = n->experts;
	if (!n->expert_intermediate)
		n->expert_intermediate = n->intermediate;
	if (n->shared_experts && !n->shared_intermediate &&
	    __builtin_mul_overflow(n->shared_experts, n->expert_intermediate,
				   &n->shared_intermediate))
		return err_set(err, PLIM_E_LIMIT,
			       "'%.200s' has experts of a size that no model has", path);
	if (n->expand && n->state && !n->dt_rank)
		n->dt_rank = (n->hidden + 15) / 16;
	if (!n->projection)
		n->projection = n->hidden;
	if (!n->head_dim)
		return err_set(err, PLIM_E_FORMAT, "'%.200s' has more heads than its hidden size",
			       path);
	return n->patch && n->image_size ? derive_patches(n, path, err) : PLIM_OK;
}

/* A list of blocks as an array of flags, `layers` long or empty: the file does not have it. */
static enum plim_status flag_blocks(const struct config *c, const char *scope, const char *key,
				    uint64_t layers, bool **flags, struct plim_err *err)
{
	const struct config_value *v = config_find(c, scope, key), *end = config_list_end(c, v);

	*flags = NULL;
	if (!end || !layers)
		return PLIM_OK;
	*flags = mem_new(c->model->mem, layers, sizeof(bool), err);
	if (!*flags)
		return mem_status(err);
	for (v++; v < end; v++)
		if (v->kind == JSON_INTEGER && !v->negative && v->number < layers)
			(*flags)[v->number] = true;
	return PLIM_OK;
}

/* Of the vision tower: which blocks see whole images, which feed the language model. */
static enum plim_status take_seen_lists(struct config *c, const struct model_part_of *part,
					struct plim_err *err)
{
	struct model *m = c->model;
	uint64_t layers = m->towers[MODEL_VISION].layers;
	bool *flags;
	enum plim_status st =
		flag_blocks(c, part->scope, "fullatt_block_indexes", layers, &flags, err);

	if (flags) {
		m->whole_blocks.at = flags;
		m->whole_blocks.n = m->whole_blocks.cap = layers;
	}
	if (!st)
		st = flag_blocks(c, part->scope, "deepstack_visual_indexes", layers, &flags, err);
	if (!st && flags) {
		m->deep_blocks.at = flags;
		m->deep_blocks.n = m->deep_blocks.cap = layers;
	}
	return st;
}

static const struct {
	const char *name;
	enum model_block kind;
	bool sees_all;
	bool everywhere; /* else of families whose keys have a KEY_KINDS */
} kinds_of_blocks[] = {
	{ "full_attention", MODEL_BLOCK_ATTENDS, true, true },
	{ "sliding_attention", MODEL_BLOCK_ATTENDS, false, true },
	{ "chunked_attention", MODEL_BLOCK_ATTENDS, false, false },
	{ "attention", MODEL_BLOCK_ATTENDS, true, false },
	{ "linear_attention", MODEL_BLOCK_MIXES, true, false },
	{ "indexed_attention", MODEL_BLOCK_INDEXED, true, false },
	{ "full", MODEL_BLOCK_INDEXED, true, false }, /* GLM 5's indexer_types */
	{ "shared", MODEL_BLOCK_ATTENDS, true, false },
	{ "F", MODEL_BLOCK_INDEXED, true, false },
	{ "S", MODEL_BLOCK_ATTENDS, true, false },
	{ "minimax_m3_sparse", MODEL_BLOCK_INDEXED, true, false },
	{ "sparse_attention_freq 0", MODEL_BLOCK_ATTENDS, true, false },
	{ "sparse_attention_freq 1", MODEL_BLOCK_INDEXED, true, false },
	{ "compressed_sparse_attention", MODEL_BLOCK_INDEXED, false, false },
	{ "heavily_compressed_attention", MODEL_BLOCK_COMPRESSED, false, false },
	{ "compress_ratios 0", MODEL_BLOCK_ATTENDS, false, false },
	{ "compress_ratios 4", MODEL_BLOCK_INDEXED, false, false },
	{ "compress_ratios 128", MODEL_BLOCK_COMPRESSED, false, false },
	{ "hybrid_layer_pattern 0", MODEL_BLOCK_ATTENDS, true, false }, /* MiMo V2 */
	{ "hybrid_layer_pattern 1", MODEL_BLOCK_ATTENDS, false, false },
	{ "mamba", MODEL_BLOCK_MIXES, true, false },
	{ "mlp", MODEL_BLOCK_MLP, true, false },
	{ "moe", MODEL_BLOCK_EXPERTS, true, false },
	{ "M", MODEL_BLOCK_MIXES, true, false }, /* Nemotron-H's letters */
	{ "*", MODEL_BLOCK_ATTENDS, true, false },
	{ "-", MODEL_BLOCK_MLP, true, false },
	{ "E", MODEL_BLOCK_EXPERTS, true, false },
};

/* How a block's kind is called: by a word, or by a number under a key that says what it means. */
static const char *kind_name(const struct config *c, const struct config_value *v, char out[80])
{
	if (v->kind != JSON_INTEGER)
		return config_text(c, v);
	snprintf(out, 80, "%.40s %llu", intern_text(&c->model->strings, v->key),
		 (unsigned long long)v->number);
	return out;
}

/* One block more; *known turns false where its kind is not. */
static enum plim_status push_kind(struct model *m, const char *name, size_t n, bool here,
				  bool *known, struct plim_err *err)
{
	enum plim_status st;

	for (size_t i = 0; i < sizeof(kinds_of_blocks) / sizeof(kinds_of_blocks[0]); i++) {
		if (strlen(kinds_of_blocks[i].name) != n ||
		    memcmp(kinds_of_blocks[i].name, name, n) ||
		    (!here && !kinds_of_blocks[i].everywhere))
			continue;
		st = vec_push(m->mem, &m->full_blocks, kinds_of_blocks[i].sees_all, err);
		return st || !here
			       ? st
			       : vec_push(m->mem, &m->kinds, (uint8_t)kinds_of_blocks[i].kind, err);
	}
	*known = false;
	return vec_push(m->mem, &m->full_blocks, false, err);
}

/* Which blocks see all tokens, and what they do; a kind of block that is not known is a key that was not read. */
static enum plim_status take_kinds(struct config *c, const char *scope,
				   const struct model_part_of *part, struct plim_err *err)
{
	const struct model_key *k = part->keys;
	const struct config_value *v = config_find(c, scope, "layer_types"), *end;
	struct model *m = c->model;
	bool known = true, here;
	const char *letters;
	char name[80];
	enum plim_status st = PLIM_OK;

	here = false;
	for (; k && k->key; k++) {
		if (k->type != KEY_KINDS)
			continue;
		here = true;
		v = config_find(c, scope, k->key) ? config_find(c, scope, k->key) : v;
	}
	letters = config_text(c, v);
	for (; !st && *letters; letters++)
		st = push_kind(m, letters, 1, here, &known, err);
	end = config_list_end(c, v);
	for (const struct config_value *x = v ? v + 1 : NULL; !st && x < end; x++) {
		const char *kind = kind_name(c, x, name);

		st = push_kind(m, kind, strlen(kind), here, &known, err);
	}
	return st || known ? st : vec_push(m->mem, &m->unread, v->key, err);
}

/* What a block's own object may say, of DeciLM: a search has left out halves of blocks or made them smaller. */
static enum plim_status take_own_size(struct config *c, const struct config_value *v,
				      const char *half, struct plim_err *err)
{
	struct model *m = c->model;
	const struct model_numbers *n = &m->towers[MODEL_TEXT];
	struct model_sizes *s = &m->sizes.at[v->index - 1];
	const char *key = intern_text(&m->strings, v->key);
	bool attention = !strcmp(half, "attention");

	if (!strcmp(key, "no_op") && v->kind == JSON_TRUE)
		*(attention ? &s->attends : &s->feeds) = false;
	else if (!strcmp(key, "replace_with_linear") && v->kind == JSON_TRUE)
		return vec_push(m->mem, &m->unread, v->key, err);
	else if (!strcmp(key, "n_heads_in_group") && v->kind == JSON_INTEGER && v->number &&
		 v->number <= n->heads)
		s->kv_heads = n->heads / v->number;
	else if (!strcmp(key, "ffn_mult") && (v->kind == JSON_DOUBLE || v->kind == JSON_INTEGER) &&
		 v->real > 0 && v->real < 1e3)
		s->intermediate =
			((uint64_t)(2 * v->real * (double)n->hidden / 3) + 255) / 256 * 256;
	else if (!strcmp(key, "intermediate_size") && v->kind == JSON_INTEGER &&
		 v->number <= MODEL_SIZE)
		s->intermediate = v->number;
	return PLIM_OK;
}

/* A list of objects with two halves each, one a block. */
static enum plim_status take_blocks(struct config *c, const struct model_key *k,
				    struct plim_err *err)
{
	static const char *const halves[] = { "attention", "ffn" };
	struct model *m = c->model;
	const struct config_value *list = config_find(c, NULL, k->key);
	enum plim_status st = PLIM_OK;

	if (!list || list->kind != JSON_ARRAY)
		return PLIM_OK;
	while (!st && m->sizes.n < m->towers[MODEL_TEXT].layers)
		st = vec_push(m->mem, &m->sizes,
			      ((struct model_sizes){ .attends = true, .feeds = true }), err);
	for (unsigned h = 0; h < 2; h++) {
		char path[CONFIG_SCOPE_BYTES];
		uint32_t scope;

		snprintf(path, sizeof(path), "%s.%s", k->key, halves[h]);
		scope = intern_find(&m->strings, path, strlen(path));
		for (size_t i = 0; !st && scope != INTERN_NONE && i < c->values.n; i++) {
			const struct config_value *v = &c->values.at[i];

			if (v->scope == scope && v->key != INTERN_NONE && v->index &&
			    v->index <= m->sizes.n)
				st = take_own_size(c, v, halves[h], err);
		}
	}
	return st;
}

/* A list of blocks that have experts, or of those that have none; of DeepSeek's later ones, a word for each. */
static enum plim_status take_dense(struct config *c, const char *scope, const struct model_key *k,
				   struct plim_err *err)
{
	struct model *m = c->model;
	const struct config_value *v = config_find(c, scope, k->key), *end = config_list_end(c, v);
	bool sparse = k->type == KEY_SPARSE_BLOCKS;
	enum plim_status st = PLIM_OK;

	while (!st && end && m->dense_blocks.n < m->towers[MODEL_TEXT].layers)
		st = vec_push(m->mem, &m->dense_blocks, sparse, err);
	for (const struct config_value *x = v ? v + 1 : NULL; !st && x < end; x++) {
		if (k->type == KEY_SPARSE_FLAGS && x->index && x->index <= m->dense_blocks.n)
			m->dense_blocks.at[x->index - 1] = !x->number;
		else if (x->kind == JSON_STRING && x->index <= m->dense_blocks.n)
			m->dense_blocks.at[x->index - 1] = strcmp(config_text(c, x), "sparse") != 0;
		else if (x->kind == JSON_INTEGER && !x->negative && x->number < m->dense_blocks.n)
			m->dense_blocks.at[x->number] = !sparse;
	}
	return st;
}

/* Lists by block: which have no experts, which see all tokens. */
static enum plim_status take_lists(struct config *c, const struct model_part_of *part,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (const struct model_key *k = part->keys; !st && k && k->key; k++)
		if (k->type == KEY_DENSE_BLOCKS || k->type == KEY_SPARSE_BLOCKS ||
		    k->type == KEY_SPARSE_FLAGS)
			st = take_dense(c, part->scope, k, err);
		else if (k->type == KEY_BLOCKS)
			st = take_blocks(c, k, err);
	return st ? st : take_kinds(c, part->scope, part, err);
}

/* ---- families ---- */

static const struct {
	const struct model_family *at;
	const size_t *n;
} files[] = {
	{ model_decoders, &model_decoder_count },
	{ model_later, &model_later_count },
	{ model_mixed, &model_mixed_count },
	{ model_like_llama, &model_like_llama_count },
	{ model_like_gpt, &model_like_gpt_count },
	{ model_encoders, &model_encoder_count },
	{ model_like_bert, &model_like_bert_count },
	{ model_stacks, &model_stacks_count },
	{ model_states, &model_states_count },
	{ model_vision_language, &model_vision_language_count },
	{ model_seeing, &model_seeing_count },
};

static const struct model_family *family_of(const char *name)
{
	for (size_t file = 0; file < sizeof(files) / sizeof(files[0]); file++)
		for (size_t i = 0; i < *files[file].n; i++)
			if (!strcmp(files[file].at[i].name, name))
				return &files[file].at[i];
	return NULL;
}

/* Letters and digits alone, in lower case: how a class and its model_type are compared. */
static size_t plain_name(const char *name, char *out, size_t room)
{
	size_t n = 0;

	for (; *name && n + 1 < room; name++)
		if (isalnum((unsigned char)*name))
			out[n++] = (char)tolower((unsigned char)*name);
	out[n] = 0;
	return n;
}

/* "Qwen2_5_VLForConditionalGeneration" of qwen2_5_vl, "Gemma3ForCausalLM" of gemma3_text: the type and then the head. */
static bool is_class_of(const char *class, const char *type, const char *ends)
{
	static const char *const dropped[] = { "", "text", "model", "textmodel" };
	char whole[200], prefix[100], head[100];
	size_t n = plain_name(type, prefix, sizeof(prefix));

	plain_name(class, whole, sizeof(whole));
	plain_name(ends, head, sizeof(head));
	if (!strcmp(whole, prefix)) /* CLIPVisionModel of clip_vision_model */
		return true;
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
		size_t less = strlen(dropped[i]);

		if (less < n && !strcmp(prefix + n - less, dropped[i]) &&
		    !strncmp(whole, prefix, n - less) && !strcmp(whole + n - less, head))
			return true;
	}
	return false;
}

/* The first class that the file names; "": it names none. */
static const char *class_of(const struct config *c)
{
	const struct config_value *list = config_find(c, NULL, "architectures");

	return list && config_list_end(c, list) > list + 1 ? config_text(c, list + 1) : "";
}

static const struct model_head *config_head_of(struct config *c, const struct model_family *f)
{
	const char *class = class_of(c);
	const struct model_head *found = NULL;
	size_t n = strlen(class);

	c->model->other_class = *class && !c->model->guessed;
	for (const struct model_head *h = f->heads; *class && h->ends; h++) {
		size_t ends = strlen(h->ends);

		if (!strcmp(class, h->ends) || is_class_of(class, f->name, h->ends))
			c->model->other_class = false;
		if (!found && n >= ends && !strcmp(class + n - ends, h->ends))
			found = h;
	}
	return found ? found : f->heads;
}

/* The family that has a class of that name. */
static const struct model_family *family_of_class(const char *class)
{
	for (size_t file = 0; *class && file < sizeof(files) / sizeof(files[0]); file++)
		for (size_t i = 0; i < *files[file].n; i++) {
			const struct model_family *f = &files[file].at[i];

			for (const struct model_head *h = f->heads; h->ends; h++)
				if (is_class_of(class, f->name, h->ends))
					return f;
		}
	return NULL;
}

/* Has the file all keys of a list with blanks between? */
static bool has_keys(const struct config *c, const char *keys)
{
	char key[80];

	while (*keys) {
		size_t n = strcspn(keys, " ");

		snprintf(key, sizeof(key), "%.*s", (int)n, keys);
		if (!config_find(c, NULL, key))
			return false;
		keys += n + (keys[n] == ' ');
	}
	return true;
}

/* Of a file without a model_type: by its class, or by the keys of its publisher's own code. */
static const struct model_family *unnamed_family(const struct config *c)
{
	for (size_t i = 0; !*class_of(c) && i < model_reference_count; i++)
		if (has_keys(c, model_reference[i].told_by))
			return &model_reference[i];
	return family_of_class(class_of(c));
}

/* A copy of the text tower's type stands where the whole model's would: its class says which that is. */
static const struct model_family *whole_family(const struct config *c, const struct model_family *f)
{
	const struct model_family *other = family_of_class(class_of(c));
	const char *scope = other ? other->towers[MODEL_TEXT].scope : NULL;

	return scope && !f->towers[MODEL_TEXT].scope && config_find(c, NULL, scope) ? other : f;
}

static enum plim_status take_scope(const struct config *c, struct model_numbers *n,
				   const char *scope, const struct model_part_of *part,
				   struct plim_err *err)
{
	enum plim_status st = take_keys(c, n, scope, model_keys_common, part->keys, err);

	return st ? st : take_keys(c, n, scope, part->keys, NULL, err);
}

static enum plim_status take_tower(struct config *c, const struct model_family *f, unsigned tower,
				   struct plim_err *err)
{
	const struct model_part_of *part = &f->towers[tower];
	struct model_numbers *n = &c->model->towers[tower];
	enum plim_status st = PLIM_OK;

	const struct config_value *object =
		part->optional ? config_find(c, NULL, part->scope) : NULL;

	*n = part->defaults;
	if (part->optional && (!object || object->kind != JSON_OBJECT)) {
		n->layers = 0;
		return PLIM_OK;
	}
	/* Older layouts keep the text tower's keys outside; what stands inside counts. */
	if (!part->scope || tower == MODEL_TEXT)
		st = take_scope(c, n, NULL, part, err);
	if (!st && part->scope)
		st = take_scope(c, n, part->scope, part, err);
	if (!st)
		st = take_keys(c, n, NULL, part->outer, NULL, err);
	if (!st && part->defaults.layers && !n->layers)
		return err_set(err, PLIM_E_FORMAT, "'%.200s' says that a tower has 0 layers",
			       c->path);
	return st ? st : model_derive(n, c->path, err);
}

static void take_facts(struct config *c)
{
	struct model *m = c->model;
	/* what stands outside counts; files of models that see may say it of their text tower alone */
	static const char *const keys[] = { "dtype", "torch_dtype", "text_config.dtype",
					    "text_config.torch_dtype" };

	for (size_t i = 0; !m->dtype && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *name = config_text(c, config_find(c, NULL, keys[i]));

		m->dtype = ckpt_dtype_of_torch(strncmp(name, "torch.", 6) ? name : name + 6);
	}
	snprintf(m->declared, sizeof(m->declared), "%s",
		 config_text(c, config_find(c, NULL, "model_type")));
	snprintf(m->release, sizeof(m->release), "%s",
		 config_text(c, config_find(c, NULL, "transformers_version")));
	config_take_quantizer(c);
}

/* ---- what was not read ---- */

/* The tower whose keys stand in that scope reads the key; NULL: the outermost. */
static bool is_read(const struct model_family *f, const char *scope, const char *key)
{
	for (unsigned i = 0; i < MODEL_TOWERS; i++) {
		const struct model_part_of *part = &f->towers[i];
		bool here = !scope ? !part->scope || i == MODEL_TEXT
				   : part->scope && !strcmp(scope, part->scope);

		if (here && (names(part->keys, key) || names(model_keys_common, key)))
			return true;
		if (!scope &&
		    (names(part->outer, key) || (part->scope && !strcmp(key, part->scope))))
			return true;
	}
	return false;
}

static bool is_scope(const struct model_family *f, const char *scope)
{
	for (unsigned i = 0; scope && i < MODEL_TOWERS; i++)
		if (f->towers[i].scope && !strcmp(scope, f->towers[i].scope))
			return true;
	return !scope;
}

/* Keys that neither the family reads nor are known to change nothing. */
static enum plim_status take_unread(struct config *c, const struct model_family *f,
				    struct plim_err *err)
{
	const struct intern *strings = &c->model->strings;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->values.n; i++) {
		const struct config_value *v = &c->values.at[i];
		const char *scope = v->scope == INTERN_NONE ? NULL : intern_text(strings, v->scope);
		const char *key = v->key == INTERN_NONE ? NULL : intern_text(strings, v->key);

		if (!key || v->index || config_is_off(c, v) || !is_scope(f, scope) ||
		    is_read(f, scope, key) || model_key_is_neutral(key))
			continue;
		st = vec_push(c->model->mem, &c->model->unread, v->key, err);
	}
	return st;
}

/* Of the model's parameters, what the smallest class of the family has that takes some of its towers; 0: none does. */
static double smallest_part(const struct model *m, const struct model_family *f)
{
	double least = 0, whole = 0;

	for (const struct model_head *h = f->heads; h->ends; h++) {
		double part = 0;

		whole = 0;
		for (size_t i = 0; i < m->tensors.n; i++) {
			const struct model_tensor *t = &m->tensors.at[i];
			bool has = h->towers & 1u << m->modules.at[t->module].tower;

			if (t->tied_to != MODEL_NONE || t->flags & MODEL_IS_BUFFER)
				continue;
			whole += (double)t->count;
			part += has ? (double)t->count : 0;
		}
		if (h->towers && (!(least > 0) || part < least))
			least = part;
	}
	return whole > 0 ? least / whole : 0;
}

/* Are the towers of the types that the family's are here? */
static bool has_types(const struct config *c, const struct model_family *f)
{
	for (unsigned i = 0; i < MODEL_TOWERS; i++) {
		const struct model_part_of *part = &f->towers[i];
		const char *type = config_text(c, config_find(c, part->scope, "model_type"));

		if (part->type && *type && strcmp(type, part->type) != 0)
			return false;
	}
	return true;
}

/* Of a file whose own type is not known the text tower, where its type is: a copy of the family that reads there. */
static const struct model_family *nested_family(const struct config *c, struct model_family *copy)
{
	static const char *const scope = "text_config";
	const struct model_family *f =
		family_of(config_text(c, config_find(c, scope, "model_type")));
	const struct model_part_of *text = f ? &f->towers[MODEL_TEXT] : NULL;

	if (!f || f->encoder_decoder || text->scope || !text->defaults.layers)
		return NULL;
	*copy = *f;
	copy->towers[MODEL_TEXT].scope = scope;
	copy->towers[MODEL_TEXT].outer = model_tied_outside;
	copy->unplanned = "parts next to its text_config, which alone is counted,";
	return copy;
}

/* No family is known, and the numbers of a decoder are not there either. */
static enum plim_status refuse_unknown(const struct config *c, struct plim_err *err)
{
	const char *diffusers = config_text(c, config_find(c, NULL, "_class_name"));
	const struct model *m = c->model;

	return err_set(err, PLIM_E_FORMAT,
		       "'%.200s' is not a config of a model that is known here: %s%.60s%s, without "
		       "hidden_size, num_hidden_layers and vocab_size; %s",
		       c->path, *diffusers ? "diffusers' '" : "'",
		       *diffusers     ? diffusers
		       : *m->declared ? m->declared
				      : "no model_type",
		       "'",
		       *diffusers ? "`--trace` plans it" : "`--trace` plans what Transformers has");
}

static enum plim_status take_all(struct config *c, struct plim_err *err)
{
	struct model *m = c->model;
	struct model_family nested;
	const struct model_family *f;
	const struct model_head *head;
	enum plim_status st = PLIM_OK;

	take_facts(c);
	f = *m->declared ? family_of(m->declared) : unnamed_family(c);
	if (f && *m->declared)
		f = whole_family(c, f);
	if (!f || !has_types(c, f))
		f = nested_family(c, &nested);
	m->guessed = !f;
	if (!f)
		f = model_family_decoder;
	m->family = f->name;
	m->adapters = f->adapters;
	m->forward = f->forward;
	m->eager_only = f->eager_only;
	m->unplanned = f->unplanned;
	m->inexact = f->inexact;
	m->encoder_decoder = f->encoder_decoder;
	for (unsigned i = 0; !st && i < MODEL_TOWERS; i++)
		if (f->towers[i].defaults.layers || (m->guessed && i == MODEL_TEXT))
			st = take_tower(c, f, i, err);
	if (!st && m->guessed && (!m->towers[MODEL_TEXT].layers || !m->towers[MODEL_TEXT].vocab))
		st = refuse_unknown(c, err);
	if (!st)
		st = take_unread(c, f, err);
	if (!st)
		st = take_lists(c, &f->towers[MODEL_TEXT], err);
	if (!st)
		st = take_seen_lists(c, &f->towers[MODEL_VISION], err);
	head = config_head_of(c, f);
	m->other_class &= f != &nested; /* its class is of the type that is not known */
	m->strip = head->strip;
	for (unsigned i = 0; head->towers && i < MODEL_TOWERS; i++)
		if (!(head->towers & 1u << i))
			m->towers[i].layers = 0;
	if (!st)
		st = model_build(m, f, head->has, err);
	if (!st && !m->guessed && !config_find(c, NULL, "architectures"))
		m->least_share = smallest_part(m, f);
	return st || m->guessed ? st : config_take_stored(c, err);
}

/* ModelOpt's files of some releases say next to the config how the weights are quantized: what stands there comes first. */
static enum plim_status read_beside(struct config *c, struct plim_err *err)
{
	static const char *const own_name = "config.json";
	size_t n = strlen(c->path), less = strlen(own_name);
	const char *path = c->path;
	struct source *s = NULL;
	struct stat info;
	char beside[4096];
	enum plim_status st;

	if (n < less || strcmp(path + n - less, own_name) != 0 ||
	    snprintf(beside, sizeof(beside), "%.*shf_quant_config.json", (int)(n - less), path) >=
		    (int)sizeof(beside) ||
	    stat(beside, &info) != 0)
		return PLIM_OK;
	c->path = beside;
	st = source_open(c->model->mem, beside, NULL, &s, err);
	if (!st)
		st = config_read(c, s, err);
	source_close(s);
	c->path = path;
	return st;
}

/* `file`: it lies on a disk, and others may lie next to it. */
static enum plim_status read_config_source(struct model *m, const char *name, struct source *s,
					   bool file, struct plim_err *err)
{
	struct config c = { .model = m, .path = name };
	enum plim_status st = file ? read_beside(&c, err) : PLIM_OK;

	if (!st)
		st = config_read(&c, s, err);
	if (!st)
		st = take_all(&c, err);
	vec_release(m->mem, &c.values);
	return st;
}

enum plim_status model_read_config(struct model *m, const char *name, const void *bytes, size_t n,
				   struct plim_err *err)
{
	struct source *s = NULL;
	enum plim_status st =
		source_open_memory(m->mem, name, bytes, n, SOURCE_MEMORY_PLAIN, NULL, &s, err);

	if (!st)
		st = read_config_source(m, name, s, false, err);
	source_close(s);
	return st;
}

#define INDEX ".index.json" /* of checkpoints in several files: names of tensors, without sizes */

static bool is_index(const char *path)
{
	size_t n = strlen(path), ends = strlen(INDEX);

	return n >= ends && !strcmp(path + n - ends, INDEX);
}

#define LEAST_COUNT 1000000 /* of a language model */

/* How many parameters an index says there are, by its total of bytes in 16 bits where it says no more; 0: it does not. */
static uint64_t count_of_index(struct model *m, const char *path)
{
	const struct source_options options = { .max_decoded_bytes = NESTED_BYTES };
	struct arena arena;
	struct nested values = { .arena = &arena };
	struct plim_err err = { 0 };
	struct source *s = NULL;
	uint64_t parameters = 0, bytes = 0;

	arena_init(&arena, m->mem);
	if (!source_open(m->mem, path, &options, &s, &err) && !nested_read(&values, s, path, &err))
		for (size_t i = 0; i < values.values.n; i++) {
			const struct nested_value *v = &values.values.at[i];

			if (!strcmp(v->path, "metadata.total_parameters"))
				parameters = strtoull(v->text, NULL, 10);
			if (!strcmp(v->path, "metadata.total_size"))
				bytes = strtoull(v->text, NULL, 10);
		}
	nested_release(&values);
	source_close(s);
	arena_release(&arena);
	return parameters ? parameters : bytes / 2;
}

/* What lies next to an index: config.json, or the files that it names, whose headers have the sizes. */
static enum plim_status load_indexed(struct model *m, const char *path, struct plim_err *err)
{
	const char *slash = strrchr(path, '/');
	char folder[4096];
	struct plim_err own;
	uint64_t count;
	int n = snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
			 slash ? path : ".");

	if (n < (int)sizeof(folder) && !model_load(m, folder, &own))
		return PLIM_OK;
	count = count_of_index(m, path);
	if (count >= LEAST_COUNT)
		return err_set(err, PLIM_E_FORMAT,
			       "'%.200s' has names of tensors, without sizes, and next to it are "
			       "neither config.json nor the files that it names: give them, or "
			       "--params %.3gB (in 16 bits, by its total)",
			       path, (double)count / 1e9);
	return err_set(err, PLIM_E_FORMAT,
		       "'%.200s' has names of tensors, without sizes, and next to it are neither "
		       "config.json nor the files that it names: give them, or --params 8B",
		       path);
}

/* A folder's config.json, or what else is there. */
enum plim_status model_load(struct model *m, const char *path, struct plim_err *err)
{
	struct source *s = NULL;
	struct stat info;
	char config[4096];
	enum plim_status st;
	bool json;

	if (is_index(path) && !stat(path, &info))
		return load_indexed(m, path, err);
	if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
		if (snprintf(config, sizeof(config), "%s/config.json", path) <
			    (int)sizeof(config) &&
		    !stat(config, &info))
			return model_load(m, config, err);
		return model_read_header(m, path, err);
	}
	st = source_open(m->mem, path, NULL, &s, err);
	if (st)
		return st;
	/* the length that a safetensors file begins with has zeros, a zip too; text has none */
	st = source_need(s, s->p, 8, err);
	json = st || !s->p || s->end - s->p < 8 || !memchr(s->p, 0, 8);
	if (!st && json)
		st = read_config_source(m, path, s, true, err);
	source_close(s);
	return json ? st : model_read_header(m, path, err);
}

enum plim_status model_by_numbers(struct model *m, const struct model_numbers *numbers,
				  struct plim_err *err)
{
	const struct model_numbers *style = &model_family_decoder->towers[MODEL_TEXT].defaults;
	struct model_numbers *n = &m->towers[MODEL_TEXT];
	enum plim_status st;

	m->family = model_family_decoder->name;
	*n = *numbers;
	if (!n->vocab)
		n->vocab = MODEL_USUAL_VOCAB;
	n->norm = style->norm;
	n->norm_place = style->norm_place;
	n->activation = style->activation;
	n->position = style->position;
	n->gated = n->causal = n->use_window = true;
	st = model_derive(n, "the model", err);
	return st ? st
		  : model_build(m, model_family_decoder, model_family_decoder->heads->has, err);
}

/* Shapes of published models (their config.json): SmolLM2, Qwen 2.5, TinyLlama, Llama 2, 3.1 and 3.2, Mistral 7B and Large. */
static const struct published {
	uint64_t layers, hidden, heads, kv_heads, intermediate, vocab;
	bool tied;
} published[] = {
	{ 30, 576, 9, 3, 1536, 49152, true },         { 32, 960, 15, 5, 2560, 49152, true },
	{ 24, 896, 14, 2, 4864, 151936, true },       { 22, 2048, 32, 4, 5632, 32000, false },
	{ 16, 2048, 32, 8, 8192, 128256, true },      { 28, 3072, 24, 8, 8192, 128256, true },
	{ 32, 4096, 32, 32, 11008, 32000, false },    { 32, 4096, 32, 8, 14336, 32000, false },
	{ 32, 4096, 32, 8, 14336, 128256, false },    { 40, 5120, 40, 40, 13824, 32000, false },
	{ 64, 5120, 40, 8, 27648, 152064, false },    { 80, 8192, 64, 8, 28672, 32000, false },
	{ 80, 8192, 64, 8, 28672, 128256, false },    { 88, 12288, 96, 8, 28672, 32768, false },
	{ 126, 16384, 128, 8, 53248, 128256, false },
};

#define COUNT_MOST ((uint64_t)1 << 42)
#define AS_PUBLISHED_PERCENT 1
#define WIDTH_MULTIPLE 64 /* of an MLP: kernels and tensor parallelism divide it */

static uint64_t outside_mlps(const struct model_numbers *n)
{
	uint64_t block =
		2 * n->hidden * n->hidden / n->heads * (n->heads + n->kv_heads) + 2 * n->hidden;

	return (n->tied ? 1 : 2) * n->vocab * n->hidden + n->layers * block + n->hidden;
}

static uint64_t parameters_of(const struct model_numbers *n)
{
	return outside_mlps(n) + 3 * n->layers * n->hidden * n->intermediate;
}

/* The published shape of the nearest size, by ratio. */
static struct model_numbers nearest_published(uint64_t parameters, uint64_t vocab)
{
	struct model_numbers nearest = { 0 };
	double least = 0;

	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		const struct published *row = &published[i];
		struct model_numbers n = { .layers = row->layers,
					   .hidden = row->hidden,
					   .heads = row->heads,
					   .kv_heads = row->kv_heads,
					   .intermediate = row->intermediate,
					   .vocab = vocab ? vocab : row->vocab,
					   .tied = row->tied };
		double ratio = (double)parameters_of(&n) / (double)parameters;

		ratio = ratio < 1 ? 1 / ratio : ratio;
		if (!i || ratio < least) {
			least = ratio;
			nearest = n;
		}
	}
	return nearest;
}

/* As many blocks of the nearest published shape as come nearest, their MLPs as wide as the rest asks for. */
enum plim_status model_by_count(struct model *m, uint64_t parameters, uint64_t vocab,
				struct plim_err *err)
{
	struct model_numbers n;
	uint64_t count, block, ends;
	enum plim_status st;

	if (!parameters || parameters > COUNT_MOST || vocab > COUNT_MOST)
		return err_set(err, PLIM_E_ARG, "no model has so many parameters");
	n = nearest_published(parameters, vocab);
	count = parameters_of(&n);
	if (count > parameters + parameters / 100 * AS_PUBLISHED_PERCENT ||
	    count < parameters - parameters / 100 * AS_PUBLISHED_PERCENT) {
		ends = (n.tied ? 1 : 2) * n.vocab * n.hidden + n.hidden;
		block = (count - ends) / n.layers;
		n.layers = parameters > ends ? (parameters - ends + block / 2) / block : 0;
		if (!n.layers || parameters <= outside_mlps(&n))
			return err_set(err, PLIM_E_ARG,
				       "a language model of %llu parameters is smaller than any: "
				       "give --layers, --hidden and --heads",
				       (unsigned long long)parameters);
		n.intermediate = (parameters - outside_mlps(&n)) / (3 * n.layers * n.hidden);
		n.intermediate = (n.intermediate / WIDTH_MULTIPLE + 1) * WIDTH_MULTIPLE;
	}
	st = model_by_numbers(m, &n, err);
	m->dtype = ckpt_dtype_of_torch("bfloat16"); /* as all of these are published */
	m->counted = true;
	return st;
}
