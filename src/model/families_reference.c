/*
 * Files of the publishers' own code, which have no model_type: params.json of Mistral and of Meta, the configuration of DeepSeek's
 * reference.  They are told by their keys, and are the models that Transformers has of them.
 */
#include "rows.h"

#define PARAMS                                                                 \
	SIZE("dim", hidden), SIZE("n_layers", layers), SIZE("n_heads", heads), \
		SIZE("n_kv_heads", kv_heads), IGNORED("model_parallel"),       \
		IGNORED("use_scaled_rope")

static const struct model_key mistral_keys[] = {
	PARAMS,
	SIZE("hidden_dim", intermediate),
	SIZE("max_seq_len", positions),
	SIZE("max_position_embeddings", positions),
	SWITCH("tied_embeddings", tied),
	KEYS_END,
};

static const struct model_key mixtral_keys[] = {
	PARAMS,
	SIZE("hidden_dim", intermediate),
	SIZE("hidden_dim", expert_intermediate),
	SIZE("moe.num_experts", experts),
	SIZE("moe.num_experts_per_tok", experts_per_token),
	IGNORED("moe"),
	KEYS_END,
};

static const struct model_key meta_keys[] = {
	PARAMS,
	SIZE("multiple_of", multiple),
	RATE("ffn_dim_multiplier", mlp_ratio),
	KEY("vocab_size", vocab, KEY_SIZE_IF), /* -1: the tokenizer tells */
	KEYS_END,
};

static const struct model_key deepseek_keys[] = {
	SIZE("dim", hidden),
	SIZE("inter_dim", intermediate),
	SIZE("moe_inter_dim", expert_intermediate),
	SIZE("n_layers", layers),
	SIZE("n_dense_layers", first_dense),
	SIZE("n_heads", heads),
	SIZE("n_routed_experts", experts),
	SIZE("n_shared_experts", shared_experts),
	SIZE("n_activated_experts", experts_per_token),
	SIZE("q_lora_rank", q_rank),
	SIZE("kv_lora_rank", kv_rank),
	SIZE("qk_nope_head_dim", nope_dim),
	SIZE("qk_rope_head_dim", rope_dim),
	SIZE("v_head_dim", value_dim),
	IGNORED("n_expert_groups"),
	IGNORED("n_limited_groups"),
	IGNORED("route_scale"),
	IGNORED("score_func"),
	IGNORED("mscale"),
	IGNORED("max_batch_size"),
	IGNORED("max_seq_len"),
	KEYS_END,
};

DECODER_SECTIONS(llama_sections, model_llama_front, model_llama_block, model_llama_back,
		 model_lm_head);
DECODER_SECTIONS(mla_sections, model_llama_front, model_mla_block, model_llama_back, model_lm_head);

const struct model_family model_reference[] = {
	{ .name = "mixtral",
	  .told_by = "dim n_layers n_heads hidden_dim moe.num_experts",
	  .sections = llama_sections,
	  .heads = model_causal_heads,
	  TEXT(mixtral_keys, LLAMA_LIKE, .layers = 32, .vocab = 32000, .positions = 32768,
	       .wide_scores = true) },
	{ .name = "mistral",
	  .told_by = "dim n_layers n_heads hidden_dim head_dim",
	  .sections = llama_sections,
	  .heads = model_causal_heads,
	  TEXT(mistral_keys, LLAMA_LIKE, .layers = 32, .vocab = 32000, .positions = 32768) },
	{ .name = "llama",
	  .told_by = "dim n_layers n_heads multiple_of norm_eps",
	  .sections = llama_sections,
	  .heads = model_causal_heads,
	  TEXT(meta_keys, LLAMA_LIKE, .layers = 32, .vocab = 32000, .positions = 131072) },
	{ .name = "deepseek_v3",
	  .told_by = "dim n_layers inter_dim moe_inter_dim n_activated_experts kv_lora_rank",
	  .sections = mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  TEXT(deepseek_keys, MODEL_MLA, .first_dense = 1) },
};
const size_t model_reference_count = sizeof(model_reference) / sizeof(model_reference[0]);
