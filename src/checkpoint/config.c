/*
 * The tensors that a config.json of Hugging Face promises, as a checkpoint without bytes: next to a real one it
 * says whether that would load.  Families are tables of names and shapes; a shape is a letter a dimension:
 *
 *	V vocabulary  H hidden  I intermediate  Q heads * head size  K key heads * head size  D head size
 *	P positions   T 3 * H (queries, keys and values in one)  Y token types
 *
 * Shapes as transformers 4 and 5 build them.  Of a model that is not in the tables only vocabulary, width and
 * depth are kept, as facts, for compare.c to look for.
 */
#include "parts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LAYERS 100000
#define SIZE ((uint64_t)1 << 40) /* no dimension is larger */

/* When a row applies; 0: always. */
enum { UNTIED = 1, QKV_BIAS = 2, QK_NORM = 4, FOUR_NORMS = 8, ALL_BIAS = 16 };

struct promised {
	const char *name; /* with %u a layer each */
	const char *shape;
	unsigned when;
};

static const struct promised llama[] = {
	{ "model.embed_tokens.weight", "VH", 0 },
	{ "model.layers.%u.input_layernorm.weight", "H", 0 },
	{ "model.layers.%u.self_attn.q_proj.weight", "QH", 0 },
	{ "model.layers.%u.self_attn.k_proj.weight", "KH", 0 },
	{ "model.layers.%u.self_attn.v_proj.weight", "KH", 0 },
	{ "model.layers.%u.self_attn.o_proj.weight", "HQ", 0 },
	{ "model.layers.%u.self_attn.q_proj.bias", "Q", QKV_BIAS },
	{ "model.layers.%u.self_attn.k_proj.bias", "K", QKV_BIAS },
	{ "model.layers.%u.self_attn.v_proj.bias", "K", QKV_BIAS },
	{ "model.layers.%u.self_attn.o_proj.bias", "H", ALL_BIAS },
	{ "model.layers.%u.self_attn.q_norm.weight", "D", QK_NORM },
	{ "model.layers.%u.self_attn.k_norm.weight", "D", QK_NORM },
	{ "model.layers.%u.post_attention_layernorm.weight", "H", 0 },
	{ "model.layers.%u.pre_feedforward_layernorm.weight", "H", FOUR_NORMS },
	{ "model.layers.%u.post_feedforward_layernorm.weight", "H", FOUR_NORMS },
	{ "model.layers.%u.mlp.gate_proj.weight", "IH", 0 },
	{ "model.layers.%u.mlp.up_proj.weight", "IH", 0 },
	{ "model.layers.%u.mlp.down_proj.weight", "HI", 0 },
	{ "model.norm.weight", "H", 0 },
	{ "lm_head.weight", "VH", UNTIED },
	{ NULL, NULL, 0 },
};

/* Its Conv1D keeps weights as [in, out]. */
static const struct promised gpt2[] = {
	{ "transformer.wte.weight", "VH", 0 },
	{ "transformer.wpe.weight", "PH", 0 },
	{ "transformer.h.%u.ln_1.weight", "H", 0 },
	{ "transformer.h.%u.ln_1.bias", "H", 0 },
	{ "transformer.h.%u.attn.c_attn.weight", "HT", 0 },
	{ "transformer.h.%u.attn.c_attn.bias", "T", 0 },
	{ "transformer.h.%u.attn.c_proj.weight", "HH", 0 },
	{ "transformer.h.%u.attn.c_proj.bias", "H", 0 },
	{ "transformer.h.%u.ln_2.weight", "H", 0 },
	{ "transformer.h.%u.ln_2.bias", "H", 0 },
	{ "transformer.h.%u.mlp.c_fc.weight", "HI", 0 },
	{ "transformer.h.%u.mlp.c_fc.bias", "I", 0 },
	{ "transformer.h.%u.mlp.c_proj.weight", "IH", 0 },
	{ "transformer.h.%u.mlp.c_proj.bias", "H", 0 },
	{ "transformer.ln_f.weight", "H", 0 },
	{ "transformer.ln_f.bias", "H", 0 },
	{ "lm_head.weight", "VH", UNTIED },
	{ NULL, NULL, 0 },
};

#define BERT_LINEAR(name, shape, bias)                         \
	{ "bert.encoder.layer.%u." name ".weight", shape, 0 }, \
	{                                                      \
		"bert.encoder.layer.%u." name ".bias", bias, 0 \
	}
static const struct promised bert[] = {
	{ "bert.embeddings.word_embeddings.weight", "VH", 0 },
	{ "bert.embeddings.position_embeddings.weight", "PH", 0 },
	{ "bert.embeddings.token_type_embeddings.weight", "YH", 0 },
	{ "bert.embeddings.LayerNorm.weight", "H", 0 },
	{ "bert.embeddings.LayerNorm.bias", "H", 0 },
	BERT_LINEAR("attention.self.query", "HH", "H"),
	BERT_LINEAR("attention.self.key", "HH", "H"),
	BERT_LINEAR("attention.self.value", "HH", "H"),
	BERT_LINEAR("attention.output.dense", "HH", "H"),
	BERT_LINEAR("attention.output.LayerNorm", "H", "H"),
	BERT_LINEAR("intermediate.dense", "IH", "I"),
	BERT_LINEAR("output.dense", "HI", "H"),
	BERT_LINEAR("output.LayerNorm", "H", "H"),
	{ NULL, NULL, 0 },
};

static const struct {
	const char *model_type;
	const struct promised *rows;
	bool tied;     /* when the config does not say */
	unsigned when; /* what its layers have */
} families[] = {
	{ "llama", llama, false, 0 },        { "mistral", llama, false, 0 },
	{ "qwen2", llama, false, QKV_BIAS }, { "qwen3", llama, false, QK_NORM },
	{ "gemma", llama, true, 0 },         { "gemma2", llama, true, FOUR_NORMS },
	{ "gpt2", gpt2, true, 0 },           { "bert", bert, true, 0 },
};

/* ---- the file ---- */

enum number {
	HIDDEN,
	LAYER_COUNT,
	HEADS,
	KEY_HEADS,
	HEAD_SIZE,
	INTERMEDIATE,
	VOCABULARY,
	POSITIONS,
	TYPES,
	NUMBERS
};

static const struct {
	const char *key;
	enum number number;
} keys[] = {
	{ "hidden_size", HIDDEN },
	{ "n_embd", HIDDEN },
	{ "num_hidden_layers", LAYER_COUNT },
	{ "n_layer", LAYER_COUNT },
	{ "num_attention_heads", HEADS },
	{ "n_head", HEADS },
	{ "num_key_value_heads", KEY_HEADS },
	{ "head_dim", HEAD_SIZE },
	{ "intermediate_size", INTERMEDIATE },
	{ "n_inner", INTERMEDIATE },
	{ "vocab_size", VOCABULARY },
	{ "max_position_embeddings", POSITIONS },
	{ "n_positions", POSITIONS },
	{ "type_vocab_size", TYPES },
};

struct config {
	char model_type[64];
	const struct ckpt_dtype *dtype;
	uint64_t numbers[NUMBERS]; /* 0: not given */
	int tied, attention_bias;  /* -1: not given */
	bool quantized;
};

static enum plim_status config_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				   struct plim_err *err)
{
	struct config *x = ctx;
	struct json_token t;
	uint64_t v;
	enum plim_status st = json_next(j, &t, err);

	(void)c;
	if (st)
		return st;
	x->quantized |= !strcmp(key, "quantization_config") && t.kind == JSON_OBJECT;
	if (t.kind == JSON_OBJECT || t.kind == JSON_ARRAY)
		return json_skip(j, &t, err);
	if (!strcmp(key, "model_type") && t.kind == JSON_STRING)
		snprintf(x->model_type, sizeof(x->model_type), "%s", t.string);
	if ((!strcmp(key, "dtype") || !strcmp(key, "torch_dtype")) && t.kind == JSON_STRING)
		x->dtype = ckpt_dtype_of_torch(t.string);
	if (!strcmp(key, "tie_word_embeddings") && (t.kind == JSON_TRUE || t.kind == JSON_FALSE))
		x->tied = t.kind == JSON_TRUE;
	if (!strcmp(key, "attention_bias") && (t.kind == JSON_TRUE || t.kind == JSON_FALSE))
		x->attention_bias = t.kind == JSON_TRUE;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i].key) && t.kind == JSON_INTEGER && json_get_u64(&t, &v)) {
			if (v > SIZE)
				return err_at(err, t.offset, "a size that no model has");
			x->numbers[keys[i].number] = v;
		}
	return PLIM_OK;
}

/* ---- what it promises ---- */

static uint64_t config_size_of(const struct config *x, char letter)
{
	const uint64_t *n = x->numbers;
	uint64_t head = n[HEAD_SIZE] ? n[HEAD_SIZE] : n[HEADS] ? n[HIDDEN] / n[HEADS] : 0;

	switch (letter) {
	case 'V': return n[VOCABULARY];
	case 'H': return n[HIDDEN];
	case 'I': return n[INTERMEDIATE] ? n[INTERMEDIATE] : 4 * n[HIDDEN];
	case 'Q': return head * n[HEADS];
	case 'K': return head * (n[KEY_HEADS] ? n[KEY_HEADS] : n[HEADS]);
	case 'D': return head;
	case 'P': return n[POSITIONS];
	case 'T': return 3 * n[HIDDEN];
	case 'Y': return n[TYPES] ? n[TYPES] : 2;
	default: return 0;
	}
}

static enum plim_status promise(struct ckpt *c, const struct config *x, const struct promised *row,
				unsigned layer, struct plim_err *err)
{
	struct ckpt_tensor t = { .location = CKPT_NONE, .extent = CKPT_NONE, .flags = CKPT_META };
	const char *number = strstr(row->name, "%u");
	uint64_t sizes[4];
	enum plim_status st = PLIM_OK;

	t.dtype = x->dtype ? x->dtype : ckpt_dtype_of_torch("float32");
	for (const char *s = row->shape; *s; s++)
		sizes[t.rank++] = config_size_of(x, *s);
	t.name = number ? ckpt_model_printf(c, &st, err, "%.*s%u%s", (int)(number - row->name),
					    row->name, layer, number + 2)
			: ckpt_model_printf(c, &st, err, "%s", row->name);
	return st ? st : ckpt_model_tensor(c, t, sizes, NULL, NULL, err);
}

static enum plim_status promise_all(struct ckpt *c, const struct config *x,
				    const struct promised *row, unsigned has, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (; !st && row->name; row++) {
		uint64_t times = strstr(row->name, "%u") ? x->numbers[LAYER_COUNT] : 1;

		if (row->when & ~has)
			continue;
		for (unsigned i = 0; !st && i < times; i++)
			st = promise(c, x, row, i, err);
	}
	return st;
}

/* What can be looked for in a model of any kind. */
static enum plim_status keep_facts(struct ckpt *c, const struct config *x, struct plim_err *err)
{
	static const struct {
		const char *name;
		enum number number;
	} facts[] = { { CKPT_FACT_VOCABULARY, VOCABULARY },
		      { CKPT_FACT_HIDDEN, HIDDEN },
		      { CKPT_FACT_LAYERS, LAYER_COUNT } };
	struct ckpt_fact f;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < sizeof(facts) / sizeof(facts[0]); i++) {
		if (!x->numbers[facts[i].number])
			continue;
		f.name = ckpt_model_printf(c, &st, err, "%s", facts[i].name);
		f.value = ckpt_model_printf(c, &st, err, "%llu",
					    (unsigned long long)x->numbers[facts[i].number]);
		if (!st)
			st = ckpt_model_fact(c, f, err);
	}
	f.name = ckpt_model_printf(c, &st, err, "model_type");
	f.value = ckpt_model_printf(c, &st, err, "%s%s", *x->model_type ? x->model_type : "unknown",
				    x->quantized ? ", quantized" : "");
	return st ? st : ckpt_model_fact(c, f, err);
}

enum plim_status ckpt_promise(struct ckpt *c, const char *path, struct plim_err *err)
{
	struct config x = { .tied = -1, .attention_bias = -1 };
	char inside[4096];
	struct stat info;
	bool folder =
		!stat(path, &info) && S_ISDIR(info.st_mode) &&
		(size_t)snprintf(inside, sizeof(inside), "%s/config.json", path) < sizeof(inside);
	enum plim_status st;

	c->path = path;
	c->kind = CKPT_KIND_CONFIG;
	st = ckpt_text_read(c, AT_FDCWD, folder ? inside : path, config_key, &x, err);
	if (!st && c->findings.n)
		st = err_set(err, PLIM_E_FORMAT, "%s", ckpt_text(c, c->findings.at[0].text));
	if (!st && !x.numbers[HIDDEN] && !x.numbers[LAYER_COUNT])
		st = err_set(
			err, PLIM_E_FORMAT,
			"'%.200s' is not a config of a model: hidden_size and num_hidden_layers "
			"are missing",
			path);
	if (!st && x.numbers[LAYER_COUNT] > LAYERS)
		st = err_set(err, PLIM_E_LIMIT, "'%.200s' has more than %d layers", path, LAYERS);
	if (!st)
		st = keep_facts(c, &x, err);
	for (size_t i = 0; !st && !x.quantized && i < sizeof(families) / sizeof(families[0]); i++) {
		unsigned has = families[i].when;

		if (strcmp(x.model_type, families[i].model_type) != 0)
			continue;
		if (!(x.tied < 0 ? families[i].tied : x.tied))
			has |= UNTIED;
		if (x.attention_bias > 0)
			has |= QKV_BIAS | ALL_BIAS;
		return promise_all(c, &x, families[i].rows, has, err);
	}
	return st;
}
