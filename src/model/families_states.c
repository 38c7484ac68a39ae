/*
 * Models whose blocks mix tokens without attention, some or all of them: state spaces, linear attention.  Their parameters are
 * known; what their kernels take is not planned, as it depends on packages that are installed or not.
 */
#include "rows.h"

#define NOT_PLANNED "blocks that mix tokens without attention"

static const struct model_row backbone_front[] = {
	{ "embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};
static const struct model_row backbone_back[] = {
	{ "norm_f", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	ROWS_END,
};
static const struct model_head state_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "Model", 0, 0, "backbone." },
	HEADS_END,
};

#define BACKBONE(name_, root, block)                      \
	static const struct model_section name_[] = {     \
		{ root, backbone_front, MODEL_TEXT },     \
		{ root "layers.%u.", block, MODEL_TEXT }, \
		{ root, backbone_back, MODEL_TEXT },      \
		{ "", model_lm_head, MODEL_TEXT },        \
		SECTIONS_END,                             \
	}

/* ---- Mamba, Mamba 2 ---- */

static const struct model_row mamba_block[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "mixer.A_log", MODEL_PARAMETER, MODEL_ROLE_OTHER, "i s" },
	{ "mixer.D", MODEL_PARAMETER, MODEL_ROLE_OTHER, "i" },
	{ "mixer.conv1d", MODEL_CONV, MODEL_ROLE_OTHER, "i 1 c", 0, IF_CONV_BIAS },
	{ "mixer.in_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2i H", 0, IF_STATE_BIAS },
	{ "mixer.x_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "u i" },
	{ "mixer.dt_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "i d", 0, IF_TRUE },
	{ "mixer.out_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H i", 0, IF_STATE_BIAS },
	ROWS_END,
};
#define MAMBA2_MIXER(when)                                                                       \
	{ "mixer.dt_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "h", when },                       \
		{ "mixer.A_log", MODEL_PARAMETER, MODEL_ROLE_OTHER, "h", when },                 \
		{ "mixer.D", MODEL_PARAMETER, MODEL_ROLE_OTHER, "h", when },                     \
		{ "mixer.conv1d", MODEL_CONV, MODEL_ROLE_OTHER, "j 1 c", when, IF_CONV_BIAS },   \
		{ "mixer.in_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "w H", when, IF_STATE_BIAS }, \
		{ "mixer.norm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "i", when },                   \
	{                                                                                        \
		"mixer.out_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H i", when, IF_STATE_BIAS     \
	}
static const struct model_row mamba2_block[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	MAMBA2_MIXER(IF_MIXES),
	ROWS_END,
};
BACKBONE(mamba_sections, "backbone.", mamba_block);
BACKBONE(mamba2_sections, "backbone.", mamba2_block);

#define MAMBA_KEYS                                                                      \
	SIZE("state_size", state), SIZE("conv_kernel", conv), SIZE("expand", expand),   \
		SWITCH("use_bias", state_bias), SWITCH("use_conv_bias", conv_bias),     \
		IGNORED("intermediate_size"), IGNORED("d_inner"), IGNORED("d_model"),   \
		IGNORED("n_layer"), IGNORED("residual_in_fp32"), IGNORED("ssm_cfg"),    \
		IGNORED("rms_norm"), IGNORED("fused_add_norm"), IGNORED("use_mambapy"), \
		IGNORED("use_associative_scan"), IGNORED("use_mamba_kernels"),          \
		IGNORED("pad_vocab_size_multiple")

static const struct model_key mamba_keys[] = {
	MAMBA_KEYS,
	KEY("time_step_rank", dt_rank, KEY_SIZE_IF),
	KEYS_END,
};
static const struct model_key mamba2_keys[] = {
	MAMBA_KEYS,
	SIZE("num_heads", state_heads),
	SIZE("head_dim", state_dim),
	SIZE("n_groups", groups),
	IGNORED("chunk_size"),
	IGNORED("norm_before_gate"),
	KEYS_END,
};

/* ---- Jamba ---- */

static const struct model_row jamba_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", IF_ATTENDS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_ATTENDS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_ATTENDS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", IF_ATTENDS },
	{ "mamba.A_log", MODEL_PARAMETER, MODEL_ROLE_OTHER, "i s", IF_MIXES },
	{ "mamba.D", MODEL_PARAMETER, MODEL_ROLE_OTHER, "i", IF_MIXES },
	{ "mamba.conv1d", MODEL_CONV, MODEL_ROLE_OTHER, "i 1 c", IF_MIXES, IF_CONV_BIAS },
	{ "mamba.in_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "2i H", IF_MIXES, IF_STATE_BIAS },
	{ "mamba.x_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "u i", IF_MIXES },
	{ "mamba.dt_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "i d", IF_MIXES, IF_TRUE },
	{ "mamba.out_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H i", IF_MIXES, IF_STATE_BIAS },
	{ "mamba.dt_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "d", IF_MIXES },
	{ "mamba.b_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "s", IF_MIXES },
	{ "mamba.c_layernorm", MODEL_NORM_RMS, MODEL_ROLE_OTHER, "s", IF_MIXES },
	{ "feed_forward.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE },
	{ "feed_forward.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE },
	{ "feed_forward.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE },
	{ "feed_forward.router", MODEL_LINEAR, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	{ "feed_forward.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E 2F H",
	  IF_SPARSE },
	{ "feed_forward.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E H F",
	  IF_SPARSE },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "pre_ff_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	ROWS_END,
};
static const struct model_row jamba_back[] = {
	{ "final_layernorm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	ROWS_END,
};
DECODER_SECTIONS(jamba_sections, model_llama_front, jamba_block, jamba_back, model_lm_head);

static const struct model_key jamba_keys[] = {
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("expert_layer_period", sparse_step),
	KEY("expert_layer_offset", sparse_at, KEY_NEXT),
	SIZE("attn_layer_period", attend_every),
	SIZE("attn_layer_offset", attend_at),
	SIZE("mamba_d_state", state),
	SIZE("mamba_d_conv", conv),
	SIZE("mamba_expand", expand),
	KEY("mamba_dt_rank", dt_rank, KEY_SIZE_IF),
	SWITCH("mamba_conv_bias", conv_bias),
	SWITCH("mamba_proj_bias", state_bias),
	SWITCH("output_router_logits", router_loss),
	KEY("layers_block_type", layers, KEY_KINDS),
	IGNORED("use_mamba_kernels"),
	IGNORED("use_mambapy"),
	IGNORED("use_associative_scan"),
	IGNORED("num_logits_to_keep"),
	KEYS_END,
};

/* ---- Nemotron-H: a block is one of four ---- */

static const struct model_row nemotron_h_block[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	MAMBA2_MIXER(IF_MIXES),
	{ "mixer.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", IF_ATTENDS, IF_QKV_BIAS },
	{ "mixer.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_ATTENDS, IF_QKV_BIAS },
	{ "mixer.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_ATTENDS, IF_QKV_BIAS },
	{ "mixer.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", IF_ATTENDS, IF_QKV_BIAS },
	{ "mixer.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_MLP_ONLY, IF_MLP_BIAS },
	{ "mixer.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_MLP_ONLY, IF_MLP_BIAS },
	{ "mixer.experts.up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E M X", IF_SPARSE },
	{ "mixer.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E X M", IF_SPARSE },
	{ "mixer.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	{ "mixer.gate.e_score_correction_bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "E", IF_SPARSE, 0,
	  0, "float32" },
	{ "mixer.shared_experts.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",
	  IF_SPARSE | IF_SHARED, IF_MLP_BIAS },
	{ "mixer.shared_experts.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S",
	  IF_SPARSE | IF_SHARED, IF_MLP_BIAS },
	{ "mixer.fc1_latent_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "X H", IF_SPARSE | IF_LATENT,
	  IF_MLP_BIAS },
	{ "mixer.fc2_latent_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "H X", IF_SPARSE | IF_LATENT,
	  IF_MLP_BIAS },
	ROWS_END,
};
BACKBONE(nemotron_h_sections, "model.", nemotron_h_block);

static const struct model_key nemotron_h_keys[] = {
	KEY("layers_block_type", layers, KEY_COUNT),
	KEY("layers_block_type", layers, KEY_KINDS),
	KEY("hybrid_override_pattern", layers, KEY_KINDS),
	SIZE("ssm_state_size", state),
	SIZE("mamba_num_heads", state_heads),
	SIZE("mamba_head_dim", state_dim),
	SIZE("n_groups", groups),
	SIZE("conv_kernel", conv),
	SIZE("expand", expand),
	SWITCH("use_conv_bias", conv_bias),
	SWITCH("mamba_proj_bias", state_bias),
	SWITCH("attention_bias", qkv_bias),
	SIZE("attention_head_dim", head_dim),
	SIZE("n_routed_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("moe_shared_expert_intermediate_size", shared_intermediate),
	SIZE("moe_latent_size", expert_hidden),
	ACTIVATION("mlp_hidden_act"),
	IGNORED("partial_rotary_factor"), /* it has no positions */
	IGNORED("n_shared_experts"),
	IGNORED("moe_shared_expert_overlap"),
	IGNORED("chunk_size"),
	IGNORED("use_mamba_kernels"),
	IGNORED("mamba_hidden_act"),
	IGNORED("mamba_ssm_cache_dtype"),
	IGNORED("num_logits_to_keep"),
	IGNORED("rescale_prenorm_residual"),
	IGNORED("use_bias"),
	IGNORED("num_nextn_predict_layers"), /* the class has no such blocks */
	IGNORED("mtp_layers_block_type"),
	IGNORED("mtp_hybrid_override_pattern"),
	KEYS_END,
};

/* ---- Qwen's later ones: linear attention (gated delta rules) in three of four blocks ---- */

#define GATED_ATTENTION                                                                             \
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "2Q H", IF_ATTENDS, IF_QKV_BIAS },        \
		{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", IF_ATTENDS, IF_QKV_BIAS }, \
		{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", IF_ATTENDS, IF_QKV_BIAS }, \
		{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", IF_ATTENDS, IF_QKV_BIAS }, \
		{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D", IF_ATTENDS },         \
	{                                                                                           \
		"self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D", IF_ATTENDS              \
	}
#define DELTA(name, kind, shape)                                             \
	{                                                                    \
		"linear_attn." name, kind, MODEL_ROLE_OTHER, shape, IF_MIXES \
	}
#define QWEN_MLP                                                                                   \
	GATED, { "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE }, BANKS, \
		{ "mlp.shared_expert.gate_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_GATE, "S H",      \
		  IF_SPARSE },                                                                     \
		{ "mlp.shared_expert.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",          \
		  IF_SPARSE },                                                                     \
		{ "mlp.shared_expert.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S",      \
		  IF_SPARSE },                                                                     \
		{ "mlp.shared_expert_gate", MODEL_LINEAR, MODEL_ROLE_SHARED_ROUTER, "1 H",         \
		  IF_SPARSE },                                                                     \
		NORMS_BEFORE

static const struct model_row qwen3_next_block[] = {
	DELTA("dt_bias", MODEL_PARAMETER, "e"),
	DELTA("A_log", MODEL_PARAMETER, "e"),
	DELTA("conv1d", MODEL_CONV, "a 1 c"),
	DELTA("in_proj_qkvz", MODEL_LINEAR, "b H"),
	DELTA("in_proj_ba", MODEL_LINEAR, "2e H"),
	DELTA("norm", MODEL_NORM_RMS, "f"),
	DELTA("out_proj", MODEL_LINEAR, "H v"),
	GATED_ATTENTION,
	QWEN_MLP,
	ROWS_END,
};
DECODER_SECTIONS(qwen3_next_sections, model_llama_front, qwen3_next_block, model_llama_back,
		 model_lm_head);

const struct model_row model_qwen3_5_block[] = {
	DELTA("dt_bias", MODEL_PARAMETER, "e"),
	DELTA("A_log", MODEL_PARAMETER, "e"),
	DELTA("conv1d", MODEL_CONV, "a 1 c"),
	DELTA("norm", MODEL_NORM_RMS, "f"),
	DELTA("out_proj", MODEL_LINEAR, "H v"),
	DELTA("in_proj_qkv", MODEL_LINEAR, "a H"),
	DELTA("in_proj_z", MODEL_LINEAR, "v H"),
	DELTA("in_proj_b", MODEL_LINEAR, "e H"),
	DELTA("in_proj_a", MODEL_LINEAR, "e H"),
	GATED_ATTENTION,
	QWEN_MLP,
	ROWS_END,
};
DECODER_SECTIONS(qwen3_5_sections, model_llama_front, model_qwen3_5_block, model_llama_back,
		 model_lm_head);

const struct model_key model_qwen3_5_keys[] = {
	KEY("layer_types", layers, KEY_KINDS),
	SIZE("full_attention_interval", attend_every),
	SIZE("linear_conv_kernel_dim", conv),
	SIZE("linear_key_head_dim", key_dim),
	SIZE("linear_value_head_dim", value_dim),
	SIZE("linear_num_key_heads", key_heads),
	SIZE("linear_num_value_heads", value_heads),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("shared_expert_intermediate_size", shared_intermediate),
	SIZE("decoder_sparse_step", sparse_step),
	KEY("mlp_only_layers", layers, KEY_DENSE_BLOCKS),
	SWITCH("attention_bias", qkv_bias),
	SWITCH("output_router_logits", router_loss),
	RATE("partial_rotary_factor", partial_rotary),
	IGNORED("attn_output_gate"),
	IGNORED("mamba_ssm_dtype"),
	IGNORED("mtp_num_hidden_layers"), /* the class has no such blocks */
	IGNORED("mtp_use_dedicated_embeddings"),
	KEYS_END,
};

/* ---- all of them ---- */

#define STATES LLAMA_LIKE, .mixes = true, .conv = 4, .expand = 2, .conv_bias = true

const struct model_family model_states[] = {
	{ .name = "mamba",
	  .sections = mamba_sections,
	  .heads = state_heads,
	  .adapters = "x_proj,in_proj,out_proj",
	  .unplanned = NOT_PLANNED,
	  TEXT(mamba_keys, STATES, .layers = 32, .hidden = 768, .heads = 1, .vocab = 50280,
	       .state = 16, .tied = true) },
	{ .name = "mamba2",
	  .sections = mamba2_sections,
	  .heads = state_heads,
	  .adapters = "in_proj,out_proj",
	  .unplanned = NOT_PLANNED,
	  TEXT(mamba2_keys, STATES, .layers = 64, .hidden = 4096, .heads = 1, .vocab = 32768,
	       .state = 128, .groups = 8, .state_heads = 128, .state_dim = 64) },
	{ .name = "jamba",
	  .sections = jamba_sections,
	  .heads = model_causal_heads,
	  .unplanned = NOT_PLANNED,
	  TEXT(jamba_keys, STATES, .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .intermediate = 14336, .vocab = 65536, .positions = 262144, .experts = 16,
	       .experts_per_token = 2, .sparse_step = 2, .sparse_at = 2, .attend_every = 8,
	       .attend_at = 4, .state = 16, .dt_rank = 256) },
	{ .name = "nemotron_h",
	  .sections = nemotron_h_sections,
	  .heads = model_causal_heads,
	  .unplanned = NOT_PLANNED,
	  TEXT(nemotron_h_keys, PLAIN_RMS(MODEL_RELU2), .mixes = true, .conv = 4, .expand = 2,
	       .conv_bias = true, .layers = 4, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .head_dim = 128, .intermediate = 21504, .vocab = 131072, .positions = 4096,
	       .state = 128, .groups = 8, .state_heads = 128, .state_dim = 64, .experts = 8,
	       .experts_per_token = 2, .expert_intermediate = 7688, .shared_intermediate = 7688) },
	{ .name = "qwen3_next",
	  .sections = qwen3_next_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_LINEAR_ATTENTION,
	  TEXT(model_qwen3_5_keys, MODEL_DELTA_RULES, .layers = 48, .hidden = 2048, .heads = 16,
	       .kv_heads = 2, .intermediate = 5632, .vocab = 151936, .positions = 32768,
	       .experts = 512, .experts_per_token = 10, .expert_intermediate = 512,
	       .shared_intermediate = 512) },
	{ .name = "qwen3_5_text",
	  .sections = qwen3_5_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_LINEAR_ATTENTION,
	  TEXT(model_qwen3_5_keys, MODEL_QWEN3_5) },
	{ .name = "qwen3_5_moe_text",
	  .sections = qwen3_5_sections,
	  .heads = model_causal_heads,
	  .unplanned = MODEL_LINEAR_ATTENTION,
	  TEXT(model_qwen3_5_keys, MODEL_QWEN3_5_MOE) },
};
const size_t model_states_count = sizeof(model_states) / sizeof(model_states[0]);
