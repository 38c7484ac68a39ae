/* What tables of decoders share: rows, heads, numbers.  Names are those of Transformers 5. */
#ifndef MODEL_ROWS_H
#define MODEL_ROWS_H

#include "tables.h"

extern const struct model_head model_causal_heads[];

/* A decoder's sections: what is before its blocks, a block, what is behind, the head. */
#define DECODER_SECTIONS(name_, front, block, back, head)  \
	static const struct model_section name_[] = {      \
		{ "model.", front, MODEL_TEXT },           \
		{ "model.layers.%u.", block, MODEL_TEXT }, \
		{ "model.", back, MODEL_TEXT },            \
		{ "", head, MODEL_TEXT },                  \
		SECTIONS_END,                              \
	}

#define QKVO(bias, out)                                                             \
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, bias },         \
		{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", 0, bias }, \
		{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", 0, bias }, \
	{                                                                           \
		"self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, out       \
	}
#define GATED                                                                                 \
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE, IF_MLP_BIAS },     \
		{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE, IF_MLP_BIAS }, \
	{                                                                                     \
		"mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE, IF_MLP_BIAS  \
	}
#define BANKS                                                                                      \
	{ "mlp.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E 2M H", IF_SPARSE }, \
	{                                                                                          \
		"mlp.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E H M",          \
			IF_SPARSE                                                                  \
	}

#define SHARED_EXPERTS                                                                       \
	{ "mlp.shared_experts.gate_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_GATE, "S H",       \
	  IF_SPARSE | IF_SHARED,          IF_MLP_BIAS },                                     \
		{ "mlp.shared_experts.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",   \
		  IF_SPARSE | IF_SHARED,        IF_MLP_BIAS },                               \
	{                                                                                    \
		"mlp.shared_experts.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S", \
			IF_SPARSE | IF_SHARED, IF_MLP_BIAS                                   \
	}

/* Of blocks with a norm in front of each half, and of routers with a correction. */
#define NORMS_BEFORE                                                              \
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },             \
	{                                                                         \
		"post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" \
	}
#define CORRECTED_GATE                                                                   \
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },     \
	{                                                                                \
		"mlp.gate.e_score_correction_bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "E", \
			IF_SPARSE, 0, 0, "float32"                                       \
	}

/* Experts as DeepSeek has them. */
#define DEEPSEEK_KEYS                                                                          \
	SIZE("n_routed_experts", experts), SIZE("num_experts_per_tok", experts_per_token),     \
		SIZE("moe_intermediate_size", expert_intermediate),                            \
		SIZE("n_shared_experts", shared_experts), SIZE("moe_layer_freq", sparse_step), \
		SIZE("first_k_dense_replace", first_dense)

#define TEXT(own_keys, ...) .towers[MODEL_TEXT] = { .keys = own_keys, .defaults = { __VA_ARGS__ } }
#define LLAMA_LIKE                                                                               \
	DECODER(MODEL_RMS_NORM, MODEL_NORM_BEFORE, MODEL_SILU), .position = MODEL_POSITION_ROPE, \
								.use_window = true
#define LAYER_NORMS_AT(position_, activation_)                                                \
	.norm = MODEL_LAYER_NORM, .norm_place = MODEL_NORM_BEFORE, .activation = activation_, \
	.position = position_, .causal = true, .labels = 2
#define LAYER_NORMS(activation_) LAYER_NORMS_AT(MODEL_POSITION_ROPE, activation_)
/* Without a gate. */
#define PLAIN_RMS(activation_)                                                              \
	.norm = MODEL_RMS_NORM, .norm_place = MODEL_NORM_BEFORE, .activation = activation_, \
	.position = MODEL_POSITION_ROPE, .causal = true, .labels = 2, .use_window = true

/* Qwen's linear attention (families_states.c), in the models that see as well. */
#define MODEL_LINEAR_ATTENTION "blocks of linear attention"
#define MODEL_DELTA_RULES                                                                         \
	LLAMA_LIKE, .head_dim = 256, .mixes = true, .attend_every = 4, .attend_at = 3, .conv = 4, \
		    .key_heads = 16, .key_dim = 128, .value_heads = 32, .value_dim = 128,         \
		    .partial_rotary = 0.25
#define MODEL_QWEN3_5                                                                \
	MODEL_DELTA_RULES, .layers = 32, .hidden = 4096, .heads = 16, .kv_heads = 4, \
			   .intermediate = 12288, .vocab = 248320, .positions = 32768
#define MODEL_QWEN3_5_MOE                                                            \
	MODEL_DELTA_RULES, .layers = 40, .hidden = 2048, .heads = 16, .kv_heads = 2, \
			   .vocab = 248320, .positions = 32768, .experts = 256,      \
			   .experts_per_token = 8, .expert_intermediate = 512,       \
			   .shared_intermediate = 512
/* Decoders of families_mixed.c, in the models that see as well. */
#define MODEL_GEMMA4_UNPLANNED "heads of two sizes"
#define MODEL_GEMMA4                                                                       \
	DECODER(MODEL_RMS_NORM, MODEL_NORM_AROUND, MODEL_GELU_TANH),                       \
		.position = MODEL_POSITION_ROPE, .layers = 30, .hidden = 2304, .heads = 8, \
		.kv_heads = 4, .head_dim = 256, .intermediate = 9216, .vocab = 262144,     \
		.positions = 131072, .window = 512, .window_every = 6, .use_window = true, \
		.qk_norm = true, .two_ropes = true, .tied = true, .embed_scale = true,     \
		.whole.head_dim = 512, .layer_vocab = 262144, .layer_input = 256,          \
		.experts_off = true
#define MODEL_MINIMAX_M3                                                                         \
	LLAMA_LIKE, .layers = 60, .hidden = 6144, .heads = 64, .kv_heads = 4, .head_dim = 128,   \
		    .intermediate = 12288, .vocab = 200064, .positions = 524288, .experts = 128, \
		    .experts_per_token = 4, .expert_intermediate = 3072,                         \
		    .shared_intermediate = 3072, .partial_rotary = 0.5, .index_heads = 4,        \
		    .index_dim = 128, .indexes_named = true
#define MODEL_STEP3_UNPLANNED "heads of attention in two numbers, with a gate each,"
#define MODEL_STEP3                                                                              \
	LLAMA_LIKE, .layers = 45, .hidden = 4096, .heads = 64, .kv_heads = 8, .head_dim = 128,   \
		    .intermediate = 11264, .vocab = 128815, .positions = 128000, .experts = 288, \
		    .experts_per_token = 8, .expert_intermediate = 1280,                         \
		    .shared_intermediate = 1280, .first_dense = 3
#define MODEL_MINIMAX_M3_UNPLANNED "the indices by which its attention picks keys"
#define MODEL_LLAMA4_INEXACT                                                           \
	{                                                                              \
		"its experts are planned as though tokens chose all of them", 100, 150 \
	}
#define MODEL_LLAMA4                                                                            \
	LLAMA_LIKE, .layers = 48, .hidden = 5120, .heads = 40, .kv_heads = 8, .head_dim = 128,  \
		    .intermediate = 16384, .vocab = 202048, .positions = 131072, .experts = 16, \
		    .expert_intermediate = 8192, .shared_intermediate = 8192, .window = 8192,   \
		    .window_every = 4
#define MODEL_MLA                                                                               \
	LLAMA_LIKE, .layers = 61, .hidden = 7168, .heads = 128, .intermediate = 18432,          \
		    .vocab = 129280, .positions = 4096, .experts = 256, .experts_per_token = 8, \
		    .expert_intermediate = 2048, .shared_experts = 1, .q_rank = 1536,           \
		    .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128
extern const struct model_row model_phi3_block[], model_gemma4_block[], model_gemma4_back[];
extern const struct model_row model_mla_block[], model_llama4_block[], model_llama4_back[];
extern const struct model_key model_mla_keys[], model_llama4_keys[];
extern const struct model_row model_minimax_m3_block[], model_step3_block[];
extern const struct model_key model_gemma4_keys[], model_minimax_m3_keys[], model_step3_keys[];
extern const struct model_row model_qwen3_5_block[];
extern const struct model_key model_qwen3_5_keys[];

#endif
