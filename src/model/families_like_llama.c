/*
 * Decoders built like Llama, with RMS norms and a gate or experts, of which no run was measured.  Names are those of
 * Transformers 5, and of MiMo, Qwen and ChatGLM those of their own code.
 */
#include "rows.h"

DECODER_SECTIONS(plain_sections, model_llama_front, model_llama_block, model_llama_back,
		 model_lm_head);

static const struct model_key plain_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	IGNORED("clip_qkv"),
	IGNORED("no_rope_layers"),
	IGNORED("no_rope_layer_interval"),
	SIZE("sliding_window_pattern", window_every),
	KEYS_END,
};

static const struct model_key ernie_keys[] = {
	SWITCH("use_bias", qkv_bias),
	SWITCH("use_bias", output_bias),
	SWITCH("use_bias", mlp_bias),
	KEYS_END,
};

static const struct model_key seed_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_out_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	RATE("residual_dropout", hidden_dropout),
	KEYS_END,
};

/* ---- one thing otherwise ---- */

/* Helium: what attention gives is as wide as what it takes. */
static const struct model_row helium_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H" },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", 0, IF_MLP_BIAS },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_MLP_BIAS },
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(helium_sections, model_llama_front, helium_block, model_llama_back, model_lm_head);

/* GLM: one product for gate and up; GLM 4 norms what is added, too. */
#define GLM_ROWS                                                                                \
	QKVO(IF_QKV_BIAS, 0), { "mlp.gate_up_proj", MODEL_LINEAR, MODEL_ROLE_GATE_UP, "2F H" }, \
		{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },                      \
		{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },                   \
	{                                                                                       \
		"post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H"               \
	}

static const struct model_row glm_block[] = { GLM_ROWS, ROWS_END };
static const struct model_row glm4_block[] = {
	GLM_ROWS,
	{ "post_self_attn_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H" },
	{ "post_mlp_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H" },
	ROWS_END,
};
DECODER_SECTIONS(glm_sections, model_llama_front, glm_block, model_llama_back, model_lm_head);
DECODER_SECTIONS(glm4_sections, model_llama_front, glm4_block, model_llama_back, model_lm_head);

static const struct model_key glm_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	RATE("partial_rotary_factor", partial_rotary),
	KEYS_END,
};

/* EXAONE 4: norms of heads, and of what is added alone. */
static const struct model_row exaone4_block[] = {
	QKVO(0, 0),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D" },
	GATED,
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H" },
	{ "post_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H" },
	ROWS_END,
};
DECODER_SECTIONS(exaone4_sections, model_llama_front, exaone4_block, model_llama_back,
		 model_lm_head);

/* OLMo 3: OLMo 2 with windows. */
static const struct model_row olmo3_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "Q" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "K" },
	GATED,
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H" },
	{ "post_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H" },
	ROWS_END,
};
DECODER_SECTIONS(olmo3_sections, model_llama_front, olmo3_block, model_llama_back, model_lm_head);

/* OLMo: its norms have no weights. */
static const struct model_row olmo_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	GATED,
	ROWS_END,
};
static const struct model_row olmo_back[] = {
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(olmo_sections, model_llama_front, olmo_block, olmo_back, model_lm_head);

/* Arcee and Nemotron: no gate; Nemotron's norms are layer norms. */
static const struct model_row arcee_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_MLP_BIAS },
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(arcee_sections, model_llama_front, arcee_block, model_llama_back, model_lm_head);

/* Apertus: the activation has two numbers of its own. */
static const struct model_row apertus_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D" },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H" },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },
	{ "mlp.act_fn.alpha_p", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1" },
	{ "mlp.act_fn.alpha_n", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1" },
	{ "mlp.act_fn.beta", MODEL_BUFFER, MODEL_ROLE_OTHER, "" },
	{ "mlp.act_fn.eps", MODEL_BUFFER, MODEL_ROLE_OTHER, "" },
	{ "attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	ROWS_END,
};
DECODER_SECTIONS(apertus_sections, model_llama_front, apertus_block, model_llama_back,
		 model_lm_head);

/* Hunyuan: norms of heads under names of its own. */
static const struct model_row hunyuan_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.query_layernorm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.key_layernorm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D" },
	GATED,
	NORMS_BEFORE,
	ROWS_END,
};
static const struct model_head hunyuan_heads[] = {
	{ "HunYuanDenseV1ForCausalLM", IF_LM },
	HEADS_END,
};
DECODER_SECTIONS(hunyuan_sections, model_llama_front, hunyuan_block, model_llama_back,
		 model_lm_head);

/* MiMo: blocks that predict further tokens, which training and inference leave alone. */
static const struct model_row mimo_further[] = {
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H" },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H" },
	{ "token_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H" },
	{ "hidden_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H" },
	{ "input_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H 2H" },
	{ "final_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H" },
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "Q H", 0, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H Q" },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "F H" },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "F H" },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H F" },
	ROWS_END,
};

static const struct model_section mimo_sections[] = {
	{ "model.", model_llama_front, MODEL_TEXT },
	{ "model.layers.%u.", model_llama_block, MODEL_TEXT },
	{ "model.", model_llama_back, MODEL_TEXT },
	{ "model.mtp_layers.%u.", mimo_further, MODEL_TEXT,
	  offsetof(struct model_numbers, further) },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_key mimo_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SIZE("num_nextn_predict_layers", further),
	KEYS_END,
};

/* ---- Qwen (the first), ChatGLM: names and keys of their own ---- */

static const struct model_row qwen_front[] = {
	{ "wte", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};
static const struct model_row qwen_block[] = {
	{ "ln_1", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "attn.c_attn", MODEL_LINEAR, MODEL_ROLE_QKV, "3Q H", 0, IF_TRUE },
	{ "attn.c_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q" },
	{ "ln_2", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	{ "mlp.w2", MODEL_LINEAR, MODEL_ROLE_GATE, "F H" },
	{ "mlp.w1", MODEL_LINEAR, MODEL_ROLE_UP, "F H" },
	{ "mlp.c_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },
	ROWS_END,
};
static const struct model_row qwen_back[] = {
	{ "ln_f", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	ROWS_END,
};
static const struct model_section qwen_sections[] = {
	{ "transformer.", qwen_front, MODEL_TEXT },
	{ "transformer.h.%u.", qwen_block, MODEL_TEXT },
	{ "transformer.", qwen_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_head qwen_heads[] = {
	{ "LMHeadModel", IF_LM },
	{ "QWenModel", 0, 0, "transformer." },
	HEADS_END,
};
static const struct model_key qwen_keys[] = {
	KEY("intermediate_size", intermediate, KEY_HALVES), /* of gate and up together */
	SIZE("kv_channels", head_dim),
	SIZE("seq_length", positions),
	RATE("attn_dropout_prob", attention_dropout),
	RATE("emb_dropout_prob", embedding_dropout),
	IGNORED("rotary_pct"),
	IGNORED("no_bias"), /* of all but c_attn */
	IGNORED("use_dynamic_ntk"),
	IGNORED("use_logn_attn"),
	KEYS_END,
};

static const struct model_row chatglm_front[] = {
	{ "embedding.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};
static const struct model_row chatglm_block[] = {
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "self_attention.query_key_value", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_QKV_BIAS },
	{ "self_attention.dense", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_MLP_BIAS },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	{ "mlp.dense_h_to_4h", MODEL_LINEAR, MODEL_ROLE_GATE_UP, "2F H", 0, IF_MLP_BIAS },
	{ "mlp.dense_4h_to_h", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_MLP_BIAS },
	ROWS_END,
};
static const struct model_row chatglm_back[] = {
	{ "encoder.final_layernorm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	{ "output_layer", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM },
	ROWS_END,
};
static const struct model_section chatglm_sections[] = {
	{ "transformer.", chatglm_front, MODEL_TEXT },
	{ "transformer.encoder.layers.%u.", chatglm_block, MODEL_TEXT },
	{ "transformer.", chatglm_back, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_head chatglm_heads[] = {
	{ "ForConditionalGeneration", IF_LM },
	{ "ChatGLMModel", IF_LM },
	HEADS_END,
};
static const struct model_key chatglm_keys[] = {
	SIZE("num_layers", layers),
	SIZE("padded_vocab_size", vocab),
	SIZE("ffn_hidden_size", intermediate),
	SIZE("kv_channels", head_dim),
	SIZE("multi_query_group_num", kv_heads),
	SIZE("seq_length", positions),
	SWITCH("add_qkv_bias", qkv_bias),
	SWITCH("add_bias_linear", mlp_bias),
	IGNORED("multi_query_attention"), /* multi_query_group_num says how far */
	IGNORED("rmsnorm"),
	IGNORED("post_layer_norm"),
	IGNORED("apply_residual_connection_post_layernorm"),
	IGNORED("apply_query_key_layer_scaling"),
	IGNORED("attention_softmax_in_fp32"),
	IGNORED("fp32_residual_connection"),
	IGNORED("original_rope"),
	IGNORED("bias_dropout_fusion"),
	IGNORED("layernorm_epsilon"),
	KEYS_END,
};

/* ---- experts ---- */

static const struct model_row glm4_moe_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D", IF_QK_NORM },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D", IF_QK_NORM },
	GATED,
	BANKS,
	CORRECTED_GATE,
	SHARED_EXPERTS,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(glm4_moe_sections, model_llama_front, glm4_moe_block, model_llama_back,
		 model_lm_head);

#define GLM4_MOE_KEYS DEEPSEEK_KEYS, SWITCH("attention_bias", qkv_bias)

static const struct model_key dots1_keys[] = {
	GLM4_MOE_KEYS,
	SWITCH("attention_bias", output_bias),
	KEYS_END,
};

static const struct model_key glm4_moe_keys[] = {
	GLM4_MOE_KEYS,
	SWITCH("use_qk_norm", qk_norm),
	RATE("partial_rotary_factor", partial_rotary),
	SWITCH("output_router_logits", router_loss),
	IGNORED("num_nextn_predict_layers"), /* the class has no such blocks */
	KEYS_END,
};

static const struct model_row minimax_m2_block[] = {
	QKVO(0, 0),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "Q" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "K" },
	{ "mlp.e_score_correction_bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "E" },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H" },
	BANKS,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(minimax_m2_sections, model_llama_front, minimax_m2_block, model_llama_back,
		 model_lm_head);

static const struct model_key minimax_m2_keys[] = {
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SWITCH("output_router_logits", router_loss),
	/* heads for further tokens are in the file, not in the class */
	RATE("partial_rotary_factor", partial_rotary),
	IGNORED("use_mtp"),
	IGNORED("mtp_transformer_layers"),
	IGNORED("num_mtp_modules"),
	IGNORED("attn_type_list"),
	IGNORED("rotary_dim"),
	IGNORED("use_qk_norm"),
	IGNORED("qk_norm_type"),
	IGNORED("use_routing_bias"),
	KEYS_END,
};

static const struct model_row ernie_moe_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	{ "mlp.gate.moe_statics.e_score_correction_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1 E",
	  IF_SPARSE },
	BANKS,
	{ "mlp.shared_experts.gate_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_GATE, "S H",
	  IF_SPARSE | IF_SHARED, IF_MLP_BIAS },
	{ "mlp.shared_experts.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",
	  IF_SPARSE | IF_SHARED, IF_MLP_BIAS },
	{ "mlp.shared_experts.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S",
	  IF_SPARSE | IF_SHARED, IF_MLP_BIAS },
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(ernie_moe_sections, model_llama_front, ernie_moe_block, model_llama_back,
		 model_lm_head);

static const struct model_key ernie_moe_keys[] = {
	SWITCH("use_bias", qkv_bias),
	SWITCH("use_bias", output_bias),
	SWITCH("use_bias", mlp_bias),
	SWITCH("use_bias", head_bias),
	SIZE("moe_num_experts", experts),
	SIZE("moe_k", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("moe_num_shared_experts", shared_experts),
	SIZE("moe_layer_start_index", first_dense),
	KEY("moe_layer_end_index", sparse_end, KEY_SIZE_IF),
	SIZE("moe_layer_interval", sparse_step),
	IGNORED("moe_norm_min"),
	SWITCH("output_router_logits", router_loss),
	KEYS_END,
};

static const struct model_row granite_moe_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	NORMS_BEFORE,
	{ "block_sparse_moe.router", MODEL_LINEAR, MODEL_ROLE_ROUTER, "E H" },
	{ "block_sparse_moe.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E 2M H" },
	{ "block_sparse_moe.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E H M" },
	ROWS_END,
};
DECODER_SECTIONS(granite_moe_sections, model_llama_front, granite_moe_block, model_llama_back,
		 model_lm_head);

static const struct model_key mixture_keys[] = {
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SWITCH("output_router_logits", router_loss),
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("lm_head_bias", head_bias),
	IGNORED("input_jitter_noise"),
	KEYS_END,
};

/* Llama 4: each expert takes every token. */
const struct model_row model_llama4_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "feed_forward.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE },
	{ "feed_forward.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE },
	{ "feed_forward.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE },
	{ "feed_forward.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E H 2M",
	  IF_SPARSE },
	{ "feed_forward.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E M H",
	  IF_SPARSE },
	{ "feed_forward.router", MODEL_LINEAR, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	{ "feed_forward.shared_expert.gate_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_GATE, "S H",
	  IF_SPARSE },
	{ "feed_forward.shared_expert.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",
	  IF_SPARSE },
	{ "feed_forward.shared_expert.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S",
	  IF_SPARSE },
	NORMS_BEFORE,
	ROWS_END,
};
const struct model_row model_llama4_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(llama4_sections, model_llama_front, model_llama4_block, model_llama4_back,
		 model_lm_head);

const struct model_key model_llama4_keys[] = {
	SIZE("intermediate_size_mlp", intermediate),
	SIZE("intermediate_size", expert_intermediate),
	SIZE("intermediate_size", shared_intermediate),
	SIZE("num_local_experts", experts),
	KEY("num_experts_per_tok", layers, KEY_IGNORED), /* no size goes by it */
	SIZE("interleave_moe_layer_step", sparse_step),
	KEY("moe_layers", layers, KEY_SPARSE_BLOCKS),
	KEY("layer_types", layers, KEY_KINDS),
	SIZE("attention_chunk_size", window),
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("output_router_logits", router_loss),
	IGNORED("use_qk_norm"), /* without weights */
	IGNORED("no_rope_layers"),
	IGNORED("no_rope_layer_interval"),
	IGNORED("attn_temperature_tuning"),
	IGNORED("attn_scale"),
	IGNORED("floor_scale"),
	IGNORED("for_llm_compressor"),
	KEYS_END,
};

/* ---- all of them ---- */

#define SEVEN_B .layers = 32, .hidden = 4096, .heads = 32, .intermediate = 11008

const struct model_family model_like_llama[] = {
	{ .name = "granite",
	  .sections = plain_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, SEVEN_B, .vocab = 32000, .positions = 2048) },
	{ .name = "smollm3",
	  .sections = plain_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, .layers = 36, .hidden = 2048, .heads = 16, .kv_heads = 4,
	       .intermediate = 11008, .vocab = 128256, .positions = 32768, .tied = true) },
	{ .name = "helium",
	  .sections = helium_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, .layers = 24, .hidden = 2560, .heads = 20, .kv_heads = 20,
	       .head_dim = 128, .intermediate = 7040, .vocab = 48000, .positions = 4096) },
	{ .name = "ministral3",
	  .sections = plain_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, .layers = 34, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .head_dim = 128, .intermediate = 14336, .vocab = 131072, .positions = 262144) },
	{ .name = "ernie4_5",
	  .sections = plain_sections,
	  .heads = model_causal_heads,
	  TEXT(ernie_keys, LLAMA_LIKE, .layers = 18, .hidden = 1024, .heads = 16, .kv_heads = 2,
	       .head_dim = 128, .intermediate = 3072, .vocab = 103424, .positions = 131072,
	       .tied = true) },
	{ .name = "seed_oss",
	  .sections = plain_sections,
	  .heads = model_causal_heads,
	  TEXT(seed_keys, LLAMA_LIKE, .layers = 64, .hidden = 4096, .heads = 80, .kv_heads = 8,
	       .head_dim = 128, .intermediate = 27648, .vocab = 155136, .positions = 524288,
	       .qkv_bias = true, .attention_dropout = 0.1, .hidden_dropout = 0.1) },
	{ .name = "mimo",
	  .sections = mimo_sections,
	  .heads = model_causal_heads,
	  TEXT(mimo_keys, LLAMA_LIKE, .layers = 36, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .intermediate = 11008, .vocab = 151680, .positions = 32768, .qkv_bias = true) },
	{ .name = "glm",
	  .sections = glm_sections,
	  .heads = model_causal_heads,
	  TEXT(glm_keys, LLAMA_LIKE, .layers = 40, .hidden = 4096, .heads = 32, .kv_heads = 2,
	       .head_dim = 128, .intermediate = 13696, .vocab = 151552, .positions = 131072,
	       .partial_rotary = 0.5, .qkv_bias = true) },
	{ .name = "glm4",
	  .sections = glm4_sections,
	  .heads = model_causal_heads,
	  TEXT(glm_keys, LLAMA_LIKE, .layers = 40, .hidden = 4096, .heads = 32, .kv_heads = 2,
	       .head_dim = 128, .intermediate = 13696, .vocab = 151552, .positions = 131072,
	       .partial_rotary = 0.5, .qkv_bias = true) },
	{ .name = "exaone4",
	  .sections = exaone4_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 16384, .vocab = 102400, .positions = 2048, .window = 4096,
	       .window_every = 4) },
	{ .name = "olmo",
	  .sections = olmo_sections,
	  .heads = model_causal_heads,
	  .inexact = { "its norms, which have no weights, are not planned", 150, 150 },
	  TEXT(plain_keys, LLAMA_LIKE, SEVEN_B, .vocab = 50304, .positions = 2048) },
	{ .name = "olmo3",
	  .sections = olmo3_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, LLAMA_LIKE, SEVEN_B, .vocab = 50304, .positions = 2048, .window = 4096,
	       .window_every = 4, .head_norm = true) },
	{ .name = "arcee",
	  .sections = arcee_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, PLAIN_RMS(MODEL_RELU2), .layers = 32, .hidden = 2560, .heads = 32,
	       .intermediate = 18432, .vocab = 32000, .positions = 4096) },
	{ .name = "apertus",
	  .sections = apertus_sections,
	  .heads = model_causal_heads,
	  TEXT(plain_keys, PLAIN_RMS(MODEL_ACTIVATION_OTHER), .layers = 32, .hidden = 4096,
	       .heads = 32, .intermediate = 14336, .vocab = 131072, .positions = 65536) },
	{ .name = "hunyuan_v1_dense",
	  .sections = hunyuan_sections,
	  .heads = hunyuan_heads,
	  TEXT(plain_keys, LLAMA_LIKE, SEVEN_B, .vocab = 290943, .positions = 2048) },
	{ .name = "qwen",
	  .sections = qwen_sections,
	  .heads = qwen_heads,
	  .adapters = "c_attn",
	  TEXT(qwen_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 151936, .positions = 8192) },
	{ .name = "chatglm",
	  .sections = chatglm_sections,
	  .heads = chatglm_heads,
	  .adapters = "query_key_value",
	  TEXT(chatglm_keys, LLAMA_LIKE, .layers = 28, .hidden = 4096, .heads = 32, .head_dim = 128,
	       .intermediate = 13696, .vocab = 65024, .positions = 8192) },
	{ .name = "glm4_moe",
	  .sections = glm4_moe_sections,
	  .heads = model_causal_heads,
	  TEXT(glm4_moe_keys, LLAMA_LIKE, .layers = 46, .hidden = 4096, .heads = 96, .kv_heads = 8,
	       .intermediate = 10944, .vocab = 151552, .positions = 131072, .partial_rotary = 0.5,
	       .experts = 128, .experts_per_token = 8, .expert_intermediate = 1408,
	       .shared_experts = 1, .first_dense = 1) },
	{ .name = "dots1",
	  .sections = glm4_moe_sections,
	  .heads = model_causal_heads,
	  TEXT(dots1_keys, LLAMA_LIKE, .layers = 62, .hidden = 4096, .heads = 32,
	       .intermediate = 10944, .vocab = 152064, .positions = 2048, .qk_norm = true,
	       .first_dense = 0) },
	{ .name = "minimax_m2",
	  .sections = minimax_m2_sections,
	  .heads = model_causal_heads,
	  TEXT(minimax_m2_keys, LLAMA_LIKE, .layers = 62, .hidden = 3072, .heads = 48,
	       .kv_heads = 8, .head_dim = 128, .intermediate = 1536, .vocab = 200064,
	       .positions = 196608, .experts = 256, .experts_per_token = 8, .head_norm = true) },
	{ .name = "ernie4_5_moe",
	  .sections = ernie_moe_sections,
	  .heads = model_causal_heads,
	  TEXT(ernie_moe_keys, LLAMA_LIKE, .layers = 28, .hidden = 2560, .heads = 20, .kv_heads = 4,
	       .intermediate = 12288, .vocab = 103424, .positions = 131072, .experts = 64,
	       .experts_per_token = 6, .expert_intermediate = 1536, .shared_experts = 2,
	       .first_dense = 1, .tied = true) },
	{ .name = "granitemoe",
	  .sections = granite_moe_sections,
	  .heads = model_causal_heads,
	  TEXT(mixture_keys, LLAMA_LIKE, SEVEN_B, .vocab = 32000, .positions = 2048, .experts = 8,
	       .experts_per_token = 2) },
	{ .name = "llama4_text",
	  .sections = llama4_sections,
	  .heads = model_causal_heads,
	  .inexact = MODEL_LLAMA4_INEXACT,
	  TEXT(model_llama4_keys, MODEL_LLAMA4) },
};
const size_t model_like_llama_count = sizeof(model_like_llama) / sizeof(model_like_llama[0]);
