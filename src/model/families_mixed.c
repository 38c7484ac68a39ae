/*
 * Decoders whose blocks are unlike each other: heads of two sizes, keys that earlier blocks made, an index in some, halves that a
 * search left out.  Names are those of Transformers 5; of DeciLM those of its own code.
 */
#include "rows.h"

#define CORRECTION                                                                       \
	{                                                                                \
		"mlp.gate.e_score_correction_bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "E", \
			IF_SPARSE | IF_SCORED, 0, 0, "float32"                           \
	}

/* ---- Gemma 4: blocks that see all have wider heads; some of it is as Gemma 3n had it ---- */

static const struct model_row gemma4_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_tokens.embed_scale", MODEL_BUFFER, MODEL_ROLE_OTHER, "" },
	ROWS_END,
};

const struct model_row model_gemma4_block[] = {
	{ "layer_scalar", MODEL_BUFFER, MODEL_ROLE_OTHER, "1" },
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_QKV_BIAS },
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D", IF_OWN_KEYS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_OWN_KEYS, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_OWN_VALUES, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_QKV_BIAS },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H" },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H" },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H" },
	{ "pre_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	{ "post_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H" },
	{ "per_layer_input_gate", MODEL_LINEAR, MODEL_ROLE_OTHER, "U H", IF_LAYER_INPUT },
	{ "per_layer_projection", MODEL_LINEAR, MODEL_ROLE_OTHER, "H U", IF_LAYER_INPUT },
	{ "post_per_layer_input_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H", IF_LAYER_INPUT },
	{ "router.scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "H", IF_SPARSE },
	{ "router.per_expert_scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "E", IF_SPARSE },
	{ "router.proj", MODEL_LINEAR, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	{ "experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E 2M H", IF_SPARSE },
	{ "experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E H M", IF_SPARSE },
	{ "post_feedforward_layernorm_1", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H", IF_SPARSE },
	{ "post_feedforward_layernorm_2", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H", IF_SPARSE },
	{ "pre_feedforward_layernorm_2", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "H", IF_SPARSE },
	ROWS_END,
};

const struct model_row model_gemma4_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	{ "embed_tokens_per_layer", MODEL_EMBEDDING, MODEL_ROLE_OTHER, "~ %", IF_LAYER_INPUT },
	{ "per_layer_model_projection", MODEL_LINEAR, MODEL_ROLE_OTHER, "% H", IF_LAYER_INPUT },
	{ "per_layer_projection_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "U", IF_LAYER_INPUT },
	ROWS_END,
};
DECODER_SECTIONS(gemma4_sections, gemma4_front, model_gemma4_block, model_gemma4_back,
		 model_lm_head);

const struct model_key model_gemma4_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	ACTIVATION("hidden_activation"),
	RATE("final_logit_softcapping", logit_softcap),
	SIZE("global_head_dim", whole.head_dim),
	SIZE("num_global_key_value_heads", whole.kv_heads),
	SWITCH("attention_k_eq_v", keys_are_values),
	SIZE("num_kv_shared_layers", shared_kv),
	SWITCH("use_double_wide_mlp", wide_sharers),
	SIZE("hidden_size_per_layer_input", layer_input),
	SIZE("vocab_size_per_layer_input", layer_vocab),
	KEY("enable_moe_block", experts_off, KEY_OFF),
	SIZE("num_experts", experts),
	SIZE("top_k_experts", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	IGNORED("expert_intermediate_size"), /* of no class */
	KEYS_END,
};

/* ---- DeepSeek V4: keys that stand for many tokens, several residual streams ---- */

#define STREAMS(name)                                                     \
	{ name ".fn", MODEL_PARAMETER, MODEL_ROLE_OTHER, "@ #H" },        \
		{ name ".base", MODEL_PARAMETER, MODEL_ROLE_OTHER, "@" }, \
	{                                                                 \
		name ".scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "3"     \
	}
/* c tokens become one, two of which overlap; s tokens where keys are few. */
static const struct model_row deepseek_v4_block[] = {
	{ "self_attn.sinks", MODEL_PARAMETER, MODEL_ROLE_OTHER, "A" },
	{ "self_attn.q_a_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "q H" },
	{ "self_attn.q_a_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "q" },
	{ "self_attn.q_b_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "Q q" },
	{ "self_attn.kv_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "D H" },
	{ "self_attn.kv_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "D" },
	{ "self_attn.o_a_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "O Z" },
	{ "self_attn.o_b_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H O" },
	{ "self_attn.compressor.position_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "c 2D",
	  IF_INDEXED },
	{ "self_attn.compressor.kv_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2D H", IF_INDEXED },
	{ "self_attn.compressor.gate_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2D H", IF_INDEXED },
	{ "self_attn.compressor.kv_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "D", IF_INDEXED },
	{ "self_attn.compressor.indexer.position_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "c 2n",
	  IF_INDEXED },
	{ "self_attn.compressor.indexer.kv_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2n H",
	  IF_INDEXED },
	{ "self_attn.compressor.indexer.gate_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2n H",
	  IF_INDEXED },
	{ "self_attn.compressor.indexer.kv_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "n",
	  IF_INDEXED },
	{ "self_attn.compressor.indexer.q_b_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "o q",
	  IF_INDEXED },
	{ "self_attn.compressor.indexer.scorer.weights_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "g H",
	  IF_INDEXED },
	{ "self_attn.compressor.position_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "s D",
	  IF_COMPRESSED },
	{ "self_attn.compressor.kv_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "D H", IF_COMPRESSED },
	{ "self_attn.compressor.gate_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "D H", IF_COMPRESSED },
	{ "self_attn.compressor.kv_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "D", IF_COMPRESSED },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H" },
	{ "mlp.gate.tid2eid", MODEL_BUFFER, MODEL_ROLE_OTHER, "V $", IF_HASHED, 0, 0, "int64" },
	CORRECTION,
	BANKS,
	SHARED_EXPERTS,
	NORMS_BEFORE,
	STREAMS("attn_hc"),
	STREAMS("ffn_hc"),
	ROWS_END,
};

static const struct model_row deepseek_v4_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	{ "rotary_emb.main_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.main_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "rotary_emb.compress_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "rotary_emb.compress_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "hc_head.hc_fn", MODEL_PARAMETER, MODEL_ROLE_OTHER, "# #H" },
	{ "hc_head.hc_base", MODEL_PARAMETER, MODEL_ROLE_OTHER, "#" },
	{ "hc_head.hc_scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1" },
	ROWS_END,
};
DECODER_SECTIONS(deepseek_v4_sections, model_llama_front, deepseek_v4_block, deepseek_v4_back,
		 model_lm_head);

/* Files that name their reference's code as type name this class. */
static const struct model_head deepseek_v4_heads[] = {
	{ "DeepseekV4ForCausalLM", IF_LM },
	{ "ForCausalLM", IF_LM },
	{ "Model", 0, 0, "model." },
	HEADS_END,
};

static const struct model_key deepseek_v4_keys[] = {
	DEEPSEEK_KEYS,
	SIZE("q_lora_rank", q_rank),
	SIZE("o_lora_rank", o_rank),
	SIZE("o_groups", o_groups),
	SIZE("hc_mult", streams),
	SIZE("num_hash_layers", hash_blocks),
	SIZE("index_n_heads", index_heads),
	SIZE("index_head_dim", index_dim),
	RATE("partial_rotary_factor", partial_rotary),
	KEY("compress_ratios", layers, KEY_KINDS),
	KEY("layer_types", layers, KEY_KINDS),
	SIZE("compress_rates.compressed_sparse_attention", conv),
	SIZE("compress_rates.heavily_compressed_attention", state),
	IGNORED("compress_rates"),
	IGNORED("mlp_layer_types"), /* which experts tokens choose by their own number */
	IGNORED("qk_rope_head_dim"),
	IGNORED("index_topk"),
	IGNORED("hc_sinkhorn_iters"),
	IGNORED("num_nextn_predict_layers"), /* the class has no such blocks */
	IGNORED("expert_dtype"),             /* beside quantization_config (config.c) */
	IGNORED("attention_bias"),
	KEYS_END,
};

/* ---- MiniMax M3 ---- */

const struct model_row model_minimax_m3_block[] = {
	QKVO(0, 0),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D" },
	{ "self_attn.indexer.q_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "o H", IF_INDEXED },
	{ "self_attn.indexer.k_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "n H", IF_INDEXED },
	{ "self_attn.indexer.q_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "n", IF_INDEXED },
	{ "self_attn.indexer.k_norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "n", IF_INDEXED },
	{ "mlp.gate_up_proj", MODEL_LINEAR, MODEL_ROLE_GATE_UP, "2F H", IF_DENSE },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	CORRECTION,
	BANKS,
	{ "mlp.shared_experts.gate_up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "2S H",
	  IF_SPARSE },
	{ "mlp.shared_experts.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S", IF_SPARSE },
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(minimax_m3_sections, model_llama_front, model_minimax_m3_block, model_llama_back,
		 model_lm_head);

const struct model_key model_minimax_m3_keys[] = {
	SIZE("dense_intermediate_size", intermediate),
	SIZE("intermediate_size", expert_intermediate),
	SIZE("shared_intermediate_size", shared_intermediate),
	SIZE("num_local_experts", experts),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("index_n_heads", index_heads),
	SIZE("index_head_dim", index_dim),
	SIZE("sparse_attention_config.sparse_num_index_heads", index_heads),
	SIZE("sparse_attention_config.sparse_index_dim", index_dim),
	KEY("sparse_attention_config.sparse_attention_freq", layers, KEY_KINDS),
	IGNORED("sparse_attention_config"),
	KEY("layer_types", layers, KEY_KINDS),
	KEY("moe_layer_freq", layers, KEY_SPARSE_FLAGS),
	KEY("mlp_layer_types", layers, KEY_SPARSE_BLOCKS),
	RATE("partial_rotary_factor", partial_rotary),
	IGNORED("moe_intermediate_size"), /* as intermediate_size */
	IGNORED("first_k_dense_replace"), /* as moe_layer_freq */
	IGNORED("n_shared_experts"),
	IGNORED("index_block_size"),
	IGNORED("index_topk_blocks"),
	IGNORED("index_local_blocks"),
	IGNORED("rotary_dim"),
	IGNORED("swiglu_alpha"),
	IGNORED("qk_norm_type"),
	IGNORED("use_qk_norm"),
	IGNORED("use_gemma_norm"),
	IGNORED("use_routing_bias"),
	IGNORED("hidden_act"),
	IGNORED("num_mtp_modules"), /* the class has no such blocks */
	IGNORED("num_nextn_predict_layers"),
	KEYS_END,
};

/* ---- MiMo V2: twice as many heads of keys in blocks that slide, and sinks; values narrower than keys ---- */

static const struct model_row mimo_v2_block[] = {
	{ "self_attn.sinks", MODEL_PARAMETER, MODEL_ROLE_OTHER, "A", IF_SLIDES },
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "Q H", 0, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "K H", IF_SEES_ALL, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2K H", IF_SLIDES, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "Gf H", IF_SEES_ALL, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2Gf H", IF_SLIDES, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H Af" },
	GATED,
	BANKS,
	CORRECTED_GATE,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(mimo_v2_sections, model_llama_front, mimo_v2_block, model_llama_back,
		 model_lm_head);

static const struct model_key mimo_v2_keys[] = {
	SIZE("n_routed_experts", experts),
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("v_head_dim", value_dim),
	SWITCH("attention_bias", qkv_bias),
	RATE("partial_rotary_factor", partial_rotary),
	KEY("hybrid_layer_pattern", layers, KEY_KINDS),
	KEY("layer_types", layers, KEY_KINDS),
	KEY("moe_layer_freq", layers, KEY_SPARSE_FLAGS),
	KEY("mlp_layer_types", layers, KEY_SPARSE_BLOCKS),
	IGNORED("swa_num_attention_heads"), /* the class takes what the rest has, and twice the keys' heads */
	IGNORED("swa_num_key_value_heads"),
	IGNORED("swa_head_dim"),
	IGNORED("swa_v_head_dim"),
	IGNORED("add_swa_attention_sink_bias"),
	IGNORED("attention_value_scale"),
	IGNORED("attention_chunk_size"),
	KEYS_END,
};

/* ---- Step 3.5: more heads in blocks that slide ---- */

const struct model_row model_step3_block[] = {
	QKVO(IF_QKV_BIAS, IF_QKV_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D" },
	{ "self_attn.g_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "A H" },
	GATED,
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	CORRECTION,
	BANKS,
	SHARED_EXPERTS,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(step3_sections, model_llama_front, model_step3_block, model_llama_back,
		 model_lm_head);

const struct model_key model_step3_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("mlp_bias", mlp_bias),
	SIZE("num_attention_groups", kv_heads),
	SIZE("num_sliding_attention_heads", sliding.heads),
	SIZE("attention_other_setting.num_attention_heads", sliding.heads),
	IGNORED("attention_other_setting"),
	SIZE("moe_num_experts", experts),
	SIZE("num_local_experts", experts),
	SIZE("num_experts", experts),
	SIZE("n_routed_experts", experts),
	SIZE("moe_top_k", experts_per_token),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("share_expert_dim", shared_intermediate),
	SIZE("share_expert_dims", shared_intermediate),
	SIZE("first_k_dense_replace", first_dense),
	KEY("moe_layers_enum", layers, KEY_SPARSE_BLOCKS),
	KEY("mlp_layer_types", layers, KEY_SPARSE_BLOCKS),
	IGNORED("n_shared_experts"),
	IGNORED("swiglu_limits"),
	IGNORED("swiglu_limits_shared"),
	IGNORED("use_moe_router_bias"),
	IGNORED("num_nextn_predict_layers"), /* the class has no such blocks */
	IGNORED("mtp_layer_types"),
	IGNORED("mtp_mlp_layer_types"),
	IGNORED("per_layer_config"), /* as the numbers above */
	KEYS_END,
};

/* ---- DeciLM: Llama whose blocks a search has made smaller ---- */

static const struct model_row decilm_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", IF_ATTENDS, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_ATTENDS, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_ATTENDS, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", IF_ATTENDS, IF_QKV_BIAS },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_FEEDS, IF_MLP_BIAS },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_FEEDS, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_FEEDS, IF_MLP_BIAS },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H", IF_ATTENDS },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H", IF_FEEDS },
	ROWS_END,
};
DECODER_SECTIONS(decilm_sections, model_llama_front, decilm_block, model_llama_back, model_lm_head);

static const struct model_head decilm_heads[] = {
	{ "DeciLMForCausalLM", IF_LM },
	HEADS_END,
};

static const struct model_key decilm_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("mlp_bias", mlp_bias),
	KEY("block_configs", layers, KEY_BLOCKS),
	KEYS_END,
};

/* ---- all of them ---- */

#define DEEPSEEK_V4                                                                                \
	LLAMA_LIKE, .layers = 43, .hidden = 4096, .heads = 64, .kv_heads = 1, .head_dim = 512,     \
		    .intermediate = 2048, .vocab = 129280, .positions = 1048576, .experts = 256,   \
		    .experts_per_token = 6, .expert_intermediate = 2048, .shared_experts = 1,      \
		    .q_rank = 1024, .o_rank = 1024, .o_groups = 8, .streams = 4, .hash_blocks = 3, \
		    .index_heads = 64, .index_dim = 128, .conv = 4, .state = 128, .window = 128,   \
		    .partial_rotary = 0.125

const struct model_family model_mixed[] = {
	{ .name = "gemma4_text",
	  .sections = gemma4_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_GEMMA4_UNPLANNED,
	  TEXT(model_gemma4_keys, MODEL_GEMMA4) },
	{ .name = "deepseek_v4",
	  .sections = deepseek_v4_sections,
	  .heads = deepseek_v4_heads,
	  .unplanned = "compressed keys and several residual streams",
	  TEXT(deepseek_v4_keys, DEEPSEEK_V4) },
	{ .name = "deepseek_ref",
	  .sections = deepseek_v4_sections,
	  .heads = deepseek_v4_heads,
	  .unplanned = "compressed keys and several residual streams",
	  TEXT(deepseek_v4_keys, DEEPSEEK_V4) },
	{ .name = "minimax_m3",
	  .sections = minimax_m3_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_MINIMAX_M3_UNPLANNED,
	  TEXT(model_minimax_m3_keys, MODEL_MINIMAX_M3) },
	{ .name = "minimax_m3_vl_text",
	  .sections = minimax_m3_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_MINIMAX_M3_UNPLANNED,
	  TEXT(model_minimax_m3_keys, MODEL_MINIMAX_M3) },
	{ .name = "mimo_v2_flash",
	  .sections = mimo_v2_sections,
	  .heads = model_causal_heads,
	  .unplanned = "values of another width than keys",
	  TEXT(mimo_v2_keys, LLAMA_LIKE, .layers = 48, .hidden = 4096, .heads = 64, .kv_heads = 4,
	       .head_dim = 192, .value_dim = 128, .intermediate = 16384, .vocab = 152576,
	       .positions = 131072, .experts = 256, .experts_per_token = 8,
	       .expert_intermediate = 2048, .first_dense = 1, .window = 129, .window_from = 1,
	       .window_every = 6) },
	{ .name = "step3p5",
	  .sections = step3_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_STEP3_UNPLANNED,
	  TEXT(model_step3_keys, MODEL_STEP3) },
	{ .name = "nemotron-nas",
	  .sections = decilm_sections,
	  .heads = decilm_heads,
	  TEXT(decilm_keys, LLAMA_LIKE, .layers = 80, .hidden = 8192, .heads = 64,
	       .intermediate = 28672, .vocab = 128256, .positions = 131072) },
};
const size_t model_mixed_count = sizeof(model_mixed) / sizeof(model_mixed[0]);
