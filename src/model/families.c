/* Families of language models.  Names and order as in Transformers 5. */
#include "tables.h"

#define END                                     \
	{                                       \
		NULL, 0, 0, NULL, 0, 0, 0, NULL \
	}

#define SIZE(name, member)                                             \
	{                                                              \
		name, offsetof(struct model_numbers, member), KEY_SIZE \
	}
#define RATE(name, member)                                             \
	{                                                              \
		name, offsetof(struct model_numbers, member), KEY_RATE \
	}
#define SWITCH(name, member)                                             \
	{                                                                \
		name, offsetof(struct model_numbers, member), KEY_SWITCH \
	}
#define ACTIVATION(name)                                                         \
	{                                                                        \
		name, offsetof(struct model_numbers, activation), KEY_ACTIVATION \
	}

/* Keys that mean the same wherever they stand. */
const struct model_key model_keys_common[] = {
	SIZE("hidden_size", hidden),
	SIZE("num_hidden_layers", layers),
	SIZE("num_attention_heads", heads),
	SIZE("num_key_value_heads", kv_heads),
	SIZE("head_dim", head_dim),
	SIZE("intermediate_size", intermediate),
	SIZE("vocab_size", vocab),
	SIZE("max_position_embeddings", positions),
	SIZE("sliding_window", window),
	SWITCH("tie_word_embeddings", tied),
	RATE("attention_dropout", attention_dropout),
	ACTIVATION("hidden_act"),
	ACTIVATION("hidden_activation"),
	{ NULL, 0, 0 },
};

/* ---- Llama and those built like it ---- */

static const struct model_row llama_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H", IF_ALWAYS, IF_NEVER },
	END,
};

static const struct model_row llama_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", IF_ALWAYS, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_ALWAYS, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_ALWAYS, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", IF_ALWAYS, IF_OUTPUT_BIAS },
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D", IF_QK_NORM, IF_NEVER },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D", IF_QK_NORM, IF_NEVER },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE, IF_MLP_BIAS },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H", IF_ALWAYS, IF_NEVER },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H", IF_ALWAYS, IF_NEVER },
	END,
};

static const struct model_row llama_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H", IF_ALWAYS, IF_NEVER },
	{ "rotary_emb.inv_freq", MODEL_BUFFER, MODEL_ROLE_ROPE, "R", IF_ALWAYS, IF_NEVER },
	{ "rotary_emb.original_inv_freq", MODEL_BUFFER, MODEL_ROLE_OTHER, "R", IF_ALWAYS,
	  IF_NEVER },
	END,
};

static const struct model_row lm_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_NEVER, IF_TIED },
	END,
};

static const struct model_section llama_sections[] = {
	{ MODEL_TEXT, "model.", llama_front },
	{ MODEL_TEXT, "model.layers.%u.", llama_block },
	{ MODEL_TEXT, "model.", llama_back },
	{ MODEL_TEXT, "", lm_head },
	{ 0, NULL, NULL },
};

static const struct model_head causal_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "LMHeadModel", IF_LM },
	{ "Model", 0 },
	{ NULL, 0 },
};

static const struct model_key llama_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	{ NULL, 0, 0 },
};

#define LLAMA_LIKE                                                                         \
	.norm = MODEL_RMS_NORM, .norm_place = MODEL_NORM_BEFORE, .activation = MODEL_SILU, \
	.position = MODEL_POSITION_ROPE, .gated = true, .causal = true

static const struct model_family llama = {
	.name = "llama",
	.sections = llama_sections,
	.heads = causal_heads,
	.towers[MODEL_TEXT] = { .keys = llama_keys,
				.defaults = { .layers = 32,
					      .hidden = 4096,
					      .heads = 32,
					      .intermediate = 11008,
					      .vocab = 32000,
					      .positions = 2048,
					      LLAMA_LIKE } },
};

/* ---- GPT-2 ---- */

static const struct model_row gpt2_front[] = {
	{ "wte", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H", IF_ALWAYS, IF_NEVER },
	{ "wpe", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H", IF_ALWAYS, IF_NEVER },
	END,
};

static const struct model_row gpt2_block[] = {
	{ "ln_1", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", IF_ALWAYS, IF_ALWAYS },
	{ "attn.c_attn", MODEL_CONV1D, MODEL_ROLE_QKV, "H 3H", IF_ALWAYS, IF_ALWAYS },
	{ "attn.c_proj", MODEL_CONV1D, MODEL_ROLE_O, "H H", IF_ALWAYS, IF_ALWAYS },
	{ "ln_2", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", IF_ALWAYS, IF_ALWAYS },
	{ "mlp.c_fc", MODEL_CONV1D, MODEL_ROLE_UP, "H F", IF_ALWAYS, IF_ALWAYS },
	{ "mlp.c_proj", MODEL_CONV1D, MODEL_ROLE_DOWN, "F H", IF_ALWAYS, IF_ALWAYS },
	END,
};

static const struct model_row gpt2_back[] = {
	{ "ln_f", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", IF_ALWAYS, IF_ALWAYS },
	END,
};

static const struct model_section gpt2_sections[] = {
	{ MODEL_TEXT, "transformer.", gpt2_front },
	{ MODEL_TEXT, "transformer.h.%u.", gpt2_block },
	{ MODEL_TEXT, "transformer.", gpt2_back },
	{ MODEL_TEXT, "", lm_head },
	{ 0, NULL, NULL },
};

static const struct model_key gpt2_keys[] = {
	SIZE("n_embd", hidden),
	SIZE("n_layer", layers),
	SIZE("n_head", heads),
	SIZE("n_positions", positions),
	SIZE("n_inner", intermediate),
	ACTIVATION("activation_function"),
	RATE("attn_pdrop", attention_dropout),
	RATE("resid_pdrop", hidden_dropout),
	RATE("embd_pdrop", embedding_dropout),
	{ NULL, 0, 0 },
};

static const struct model_family gpt2 = {
	.name = "gpt2",
	.sections = gpt2_sections,
	.heads = causal_heads,
	.towers[MODEL_TEXT] = { .keys = gpt2_keys,
				.defaults = { .layers = 12,
					      .hidden = 768,
					      .heads = 12,
					      .vocab = 50257,
					      .positions = 1024,
					      .attention_dropout = 0.1,
					      .hidden_dropout = 0.1,
					      .embedding_dropout = 0.1,
					      .norm = MODEL_LAYER_NORM,
					      .activation = MODEL_GELU_NEW,
					      .position = MODEL_POSITION_LEARNED,
					      .causal = true,
					      .tied = true } },
};

/* ---- */

const struct model_family model_family_decoder = {
	.name = "transformer",
	.sections = llama_sections,
	.heads = causal_heads,
	.towers[MODEL_TEXT] = { .keys = llama_keys, .defaults = { LLAMA_LIKE } },
};

const struct model_family *const model_families[] = { &llama, &gpt2 };
const size_t model_family_count = sizeof(model_families) / sizeof(model_families[0]);
