/*
 * A GGUF file as a model: its metadata are a config.json in other words (llama.cpp's gguf-py/gguf/constants.py), which is
 * read as one; then each weight gets the dtype that its tensor has in the file.  Norms and biases, which files hold in
 * fp32, are counted in 16 bits, as kernels that read such files take them, unless weights are fp32 as well.  Parameters must come out as they
 * stand in the file, or it is refused.
 */
#include "tables.h"

#include <ctype.h>
#include <stdio.h>

static const struct {
	const char *arch, *type, *class;
} archs[] = {
	{ "llama", "llama", "LlamaForCausalLM" },
	{ "qwen2", "qwen2", "Qwen2ForCausalLM" },
	{ "qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM" },
	{ "qwen3", "qwen3", "Qwen3ForCausalLM" },
	{ "qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM" },
	{ "gemma", "gemma", "GemmaForCausalLM" },
	{ "gemma2", "gemma2", "Gemma2ForCausalLM" },
	{ "gemma3", "gemma3_text", "Gemma3ForCausalLM" },
	{ "phi3", "phi3", "Phi3ForCausalLM" },
	{ "granite", "granite", "GraniteForCausalLM" },
	{ "olmo2", "olmo2", "Olmo2ForCausalLM" },
	{ "glm4", "glm4", "Glm4ForCausalLM" },
	{ "starcoder2", "starcoder2", "Starcoder2ForCausalLM" },
	{ "command-r", "cohere", "CohereForCausalLM" },
	{ "smollm3", "smollm3", "SmolLM3ForCausalLM" },
	{ "exaone4", "exaone4", "Exaone4ForCausalLM" },
	{ "seed_oss", "seed_oss", "SeedOssForCausalLM" },
};

/* Llama with experts is Mixtral. */
#define EXPERT_COUNT "expert_count"

static const struct {
	const char *metadata; /* behind "llama." */
	const char *keys[2];  /* of config.json; families differ */
} numbers[] = {
	{ "block_count", { "num_hidden_layers", NULL } },
	{ "embedding_length", { "hidden_size", NULL } },
	{ "feed_forward_length", { "intermediate_size", NULL } },
	{ "attention.head_count", { "num_attention_heads", NULL } },
	{ "attention.head_count_kv", { "num_key_value_heads", NULL } },
	{ "attention.key_length", { "head_dim", NULL } },
	{ "attention.sliding_window", { "sliding_window", NULL } },
	{ "context_length", { "max_position_embeddings", NULL } },
	{ "expert_used_count", { "num_experts_per_tok", NULL } },
	{ "expert_feed_forward_length", { "moe_intermediate_size", NULL } },
	{ "expert_shared_feed_forward_length", { "shared_expert_intermediate_size", NULL } },
};

/* Of a block's ("blk.7.attn_q.weight") and others: by what they are for. */
static const struct {
	enum model_role role;
	const char *tensor;
} weights[] = {
	{ MODEL_ROLE_EMBED, "token_embd" },
	{ MODEL_ROLE_HEAD, "output" },
	{ MODEL_ROLE_Q, "attn_q" },
	{ MODEL_ROLE_K, "attn_k" },
	{ MODEL_ROLE_V, "attn_v" },
	{ MODEL_ROLE_QKV, "attn_qkv" },
	{ MODEL_ROLE_O, "attn_output" },
	{ MODEL_ROLE_GATE, "ffn_gate" },
	{ MODEL_ROLE_UP, "ffn_up" },
	{ MODEL_ROLE_GATE_UP, "ffn_up" },
	{ MODEL_ROLE_DOWN, "ffn_down" },
	{ MODEL_ROLE_EXPERTS_UP, "ffn_up_exps" }, /* gates are alike */
	{ MODEL_ROLE_EXPERTS_DOWN, "ffn_down_exps" },
	{ MODEL_ROLE_SHARED_GATE, "ffn_gate_shexp" },
	{ MODEL_ROLE_SHARED_UP, "ffn_up_shexp" },
	{ MODEL_ROLE_SHARED_DOWN, "ffn_down_shexp" },
};

struct gguf {
	struct model *model;
	const struct ckpt *file;
	const char *path, *arch;
};

/* The value of a key, "" where there is none. */
static const char *fact(const struct gguf *g, const char *name)
{
	for (size_t i = 0; i < g->file->facts.n; i++)
		if (!strcmp(ckpt_text(g->file, g->file->facts.at[i].name), name))
			return ckpt_text(g->file, g->file->facts.at[i].value);
	return "";
}

/* A number of the architecture; 0: the file has none, or a list of them. */
static uint64_t gguf_number(const struct gguf *g, const char *metadata)
{
	char name[200];
	const char *text;
	char *end;
	uint64_t n;

	(void)snprintf(name, sizeof(name), "%s.%s", g->arch, metadata);
	text = fact(g, name);
	n = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	return n && !*end ? n : 0;
}

static const struct ckpt_tensor *find_gguf(const struct gguf *g, const char *name)
{
	uint32_t id = intern_find(&g->file->strings, name, strlen(name));

	for (size_t i = 0; id != INTERN_NONE && i < g->file->tensors.n; i++)
		if (g->file->tensors.at[i].name == id)
			return &g->file->tensors.at[i];
	return NULL;
}

static bool gguf_has(const struct gguf *g, const char *name)
{
	return find_gguf(g, name) != NULL;
}

static void put_config(struct text *t, const struct gguf *g, const char *type, const char *class)
{
	const struct ckpt_tensor *embedding = find_gguf(g, "token_embd.weight");
	uint64_t experts = gguf_number(g, EXPERT_COUNT);
	bool mixtral = experts && !strcmp(type, "llama");

	text_printf(t, "{\"model_type\":\"%s\",\"architectures\":[\"%s\"]",
		    mixtral ? "mixtral" : type, mixtral ? "MixtralForCausalLM" : class);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		for (unsigned k = 0; k < 2 && numbers[i].keys[k]; k++)
			if (gguf_number(g, numbers[i].metadata))
				text_printf(
					t, ",\"%s\":%llu", numbers[i].keys[k],
					(unsigned long long)gguf_number(g, numbers[i].metadata));
	if (experts)
		text_printf(t, ",\"%s\":%llu", mixtral ? "num_local_experts" : "num_experts",
			    (unsigned long long)experts);
	if (embedding && embedding->rank == 2)
		text_printf(t, ",\"vocab_size\":%llu",
			    (unsigned long long)ckpt_shape(g->file, embedding)[0]);
	text_printf(t, ",\"tie_word_embeddings\":%s",
		    gguf_has(g, "output.weight") ? "false" : "true");
	if (!strcmp(type, "llama") && !mixtral)
		text_printf(t, ",\"attention_bias\":%s",
			    gguf_has(g, "blk.0.attn_q.bias") ? "true" : "false");
	text_puts(t, "}");
}

/* Tables of frequencies are not parameters. */
static uint64_t elements(const struct ckpt *c)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < c->tensors.n; i++)
		if (strncmp(ckpt_text(c, c->tensors.at[i].name), "rope_", 5) != 0)
			sum = c->tensors.at[i].count > UINT64_MAX - sum
				      ? UINT64_MAX
				      : sum + c->tensors.at[i].count;
	return sum;
}

static const struct ckpt_tensor *tensor_of(const struct gguf *g, const struct model_module *module)
{
	char name[80];

	for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
		if (weights[i].role != module->role)
			continue;
		if (module->block == MODEL_NONE)
			(void)snprintf(name, sizeof(name), "%s.weight", weights[i].tensor);
		else
			(void)snprintf(name, sizeof(name), "blk.%u.%s.weight", module->block,
				       weights[i].tensor);
		return find_gguf(g, name);
	}
	return NULL;
}

/* What is quantized has its own size; the rest is of 16 bits, or of 32 where a weight is. */
static void take_dtypes(const struct gguf *g)
{
	struct model *m = g->model;

	m->from_gguf = true;
	m->dtype = ckpt_dtype_of_torch("bfloat16");
	for (size_t i = 0; i < m->modules.n; i++) {
		const struct model_module *module = &m->modules.at[i];
		const struct ckpt_tensor *t = module->n ? tensor_of(g, module) : NULL;

		if (t && t->dtype->bits >= 32)
			m->dtype = ckpt_dtype_of_torch("float32");
		if (!t || !t->dtype->block)
			continue;
		m->tensors.at[module->tensors].dtype = t->dtype;
		m->tensors.at[module->tensors].flags |= MODEL_IS_FROZEN;
		m->stored = *t->dtype;
		m->stored.name = "GGUF";
	}
}

/* ---- is it planned as it is? ---- */

static enum plim_status refuse_tensor(const struct gguf *g, const struct ckpt_tensor *t,
				      const char *why, struct plim_err *err)
{
	return err_set(err, PLIM_E_UNSUPPORTED,
		       "'%.200s': tensor '%.80s' (%s) %s: give the config.json that it was made of",
		       g->path, ckpt_text(g->file, t->name), t->dtype->name, why);
}

/* Gates and what goes up are one weight here, of one dtype. */
static enum plim_status check_gates(const struct gguf *g, struct plim_err *err)
{
	char name[80];

	for (size_t i = 0; i < g->model->modules.n; i++) {
		const struct model_module *module = &g->model->modules.at[i];
		const struct ckpt_tensor *gate, *up = tensor_of(g, module);

		if (module->role != MODEL_ROLE_EXPERTS_UP || !up)
			continue;
		(void)snprintf(name, sizeof(name), "blk.%u.ffn_gate_exps.weight", module->block);
		gate = find_gguf(g, name);
		if (gate && gate->dtype != up->dtype)
			return refuse_tensor(g, gate,
					     "is of another dtype than what goes up next to it, "
					     "which is not planned",
					     err);
	}
	return PLIM_OK;
}

/* What is quantized takes as many bytes here as in the file. */
static enum plim_status check_bytes(const struct gguf *g, struct plim_err *err)
{
	const struct ckpt_tensor *last = NULL;
	uint64_t held = 0, planned = 0;

	for (size_t i = 0; i < g->file->tensors.n; i++) {
		const struct ckpt_tensor *t = &g->file->tensors.at[i];

		if (!t->dtype->block)
			continue;
		if (ckpt_tensor_bytes(t) > UINT64_MAX - held)
			return refuse_tensor(g, t, "is larger than can be counted", err);
		held += ckpt_tensor_bytes(t);
		last = t;
	}
	for (size_t i = 0; i < g->model->tensors.n; i++) {
		const struct model_tensor *x = &g->model->tensors.at[i];

		if (x->dtype && x->dtype->block && x->tied_to == MODEL_NONE)
			planned += model_tensor_bytes(x, x->dtype);
	}
	if (planned == held || !last)
		return PLIM_OK;
	return err_set(err, PLIM_E_UNSUPPORTED,
		       "'%.200s' has %llu bytes of quantized tensors (such as '%.80s'), %llu would "
		       "be planned: give the config.json that it was made of",
		       g->path, (unsigned long long)held, ckpt_text(g->file, last->name),
		       (unsigned long long)planned);
}

static enum plim_status refuse_arch(const struct gguf *g, struct plim_err *err)
{
	char known[400] = "";

	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		size_t n = strlen(known);

		(void)snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", archs[i].arch);
	}
	return err_set(err, PLIM_E_UNSUPPORTED,
		       "'%.200s' is of architecture '%.60s', which is not read from GGUF here (%s "
		       "are): give the config.json that it was made of",
		       g->path, g->arch, known);
}

/* A tensor that is said but not counted. */
static bool overflows(const struct ckpt *c)
{
	for (size_t i = 0; i < c->findings.n; i++)
		if (!strcmp(c->findings.at[i].kind, "overflow"))
			return true;
	return false;
}

static enum plim_status read_as(struct gguf *g, const char *type, const char *class,
				struct plim_err *err)
{
	struct model_totals totals;
	struct text config;
	enum plim_status st;

	if (overflows(g->file))
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' has a tensor whose size overflows: it is damaged",
			       g->path);
	text_init(&config, g->model->mem, NULL);
	put_config(&config, g, type, class);
	st = text_status(&config, err);
	if (!st)
		st = model_read_config(g->model, g->path, text_get(&config),
				       strlen(text_get(&config)), err);
	text_release(&config);
	if (st)
		return st;
	model_get_totals(g->model, ckpt_dtype_of_torch("float32"), &totals);
	if (elements(g->file) < totals.parameters &&
	    (g->file->truncated || strtoull(fact(g, "split.count"), NULL, 10) > 1))
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' has %llu of %llu parameters: its header is cut, or it is "
			       "one of several files: give the config.json that they were made of",
			       g->path, (unsigned long long)elements(g->file),
			       (unsigned long long)totals.parameters);
	if (totals.parameters != elements(g->file))
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' has %llu parameters, %s by its metadata would have %llu: "
			       "give the config.json that it was made of",
			       g->path, (unsigned long long)elements(g->file), type,
			       (unsigned long long)totals.parameters);
	take_dtypes(g);
	st = check_gates(g, err);
	return st ? st : check_bytes(g, err);
}

enum plim_status model_read_gguf(struct model *m, const struct ckpt *c, const char *path,
				 struct plim_err *err)
{
	struct gguf g = { .model = m, .file = c, .path = path };

	g.arch = fact(&g, "general.architecture");
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
		if (!strcmp(archs[i].arch, g.arch))
			return read_as(&g, archs[i].type, archs[i].class, err);
	return refuse_arch(&g, err);
}
