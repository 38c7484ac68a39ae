/*
 * Decoders whose parameters are known to the element but of which no run was measured: what their blocks compute is planned as
 * those of the nearest family (src/plan/decoder.c), and the basis says so.  Names are those of Transformers 5; of InternLM 2
 * and Baichuan those of their own code.
 */
#include "rows.h"

const struct model_head model_causal_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "DeepseekV3ForCausalLM", IF_LM }, /* Kimi K2's class */
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "Model", 0, 0, "model." },
	HEADS_END,
};

/* ---- gpt-oss: sinks, biases everywhere, all blocks with experts ---- */

static const struct model_row gpt_oss_block[] = {
	{ "self_attn.sinks", MODEL_PARAMETER, MODEL_ROLE_OTHER, "A" },
	QKVO(IF_QKV_BIAS, IF_QKV_BIAS),
	{ "mlp.router.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H" },
	{ "mlp.router.bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "E" },
	{ "mlp.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E H 2M", IF_SPARSE },
	{ "mlp.experts.gate_up_proj_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "E 2M" },
	{ "mlp.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E M H", IF_SPARSE },
	{ "mlp.experts.down_proj_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "E H" },
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(gpt_oss_sections, model_llama_front, gpt_oss_block, model_llama_back,
		 model_lm_head);

static const struct model_key gpt_oss_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("experts_per_token", experts_per_token),
	IGNORED("initial_context_length"), /* where YaRN starts from, not what the model was made for */
	SWITCH("output_router_logits", router_loss),
	IGNORED("swiglu_alpha"),
	KEYS_END,
};

/* ---- DeepSeek: attention through ranks, experts behind the first blocks ---- */

/* Queries go through a rank where there is one: IF_QUERY_RANK, else IF_QUERY. */
#define MLA_ATTENTION                                                                       \
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "x H", IF_QUERY },                \
		{ "self_attn.q_a_proj", MODEL_LINEAR, MODEL_ROLE_Q_A, "q H",                \
		  IF_QUERY_RANK,        IF_QKV_BIAS },                                      \
		{ "self_attn.q_a_layernorm", MODEL_NORM_RMS, MODEL_ROLE_Q_A_NORM, "q",      \
		  IF_QUERY_RANK },                                                          \
		{ "self_attn.q_b_proj", MODEL_LINEAR, MODEL_ROLE_Q, "x q", IF_QUERY_RANK }, \
		{ "self_attn.kv_a_proj_with_mqa",                                           \
		  MODEL_LINEAR,                                                             \
		  MODEL_ROLE_KV_A,                                                          \
		  "l H",                                                                    \
		  0,                                                                        \
		  IF_QKV_BIAS },                                                            \
		{ "self_attn.kv_a_layernorm", MODEL_NORM_RMS, MODEL_ROLE_KV_A_NORM, "r" },  \
		{ "self_attn.kv_b_proj", MODEL_LINEAR, MODEL_ROLE_KV_B, "y r" },            \
	{                                                                                   \
		"self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H z", 0, IF_QKV_BIAS       \
	}
#define MLA_REST GATED, BANKS, CORRECTED_GATE, SHARED_EXPERTS, NORMS_BEFORE

const struct model_row model_mla_block[] = { MLA_ATTENTION, MLA_REST, ROWS_END };
DECODER_SECTIONS(mla_sections, model_llama_front, model_mla_block, model_llama_back, model_lm_head);

/* The later ones pick keys by an index before they attend. */
static const struct model_row indexed_mla_block[] = {
	MLA_ATTENTION,
	{ "self_attn.indexer.wq_b", MODEL_LINEAR, MODEL_ROLE_OTHER, "o q", IF_INDEXED },
	{ "self_attn.indexer.wk", MODEL_LINEAR, MODEL_ROLE_OTHER, "n H", IF_INDEXED },
	{ "self_attn.indexer.k_norm", MODEL_NORM_LAYER, MODEL_ROLE_OTHER, "n", IF_INDEXED,
	  IF_TRUE },
	{ "self_attn.indexer.weights_proj", MODEL_LINEAR, MODEL_ROLE_OTHER, "g H", IF_INDEXED },
	MLA_REST,
	ROWS_END,
};
DECODER_SECTIONS(indexed_mla_sections, model_llama_front, indexed_mla_block, model_llama_back,
		 model_lm_head);

static const struct model_row deepseek_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	GATED,
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_SPARSE },
	BANKS,
	SHARED_EXPERTS,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(deepseek_sections, model_llama_front, deepseek_block, model_llama_back,
		 model_lm_head);

static const struct model_key deepseek_keys[] = {
	DEEPSEEK_KEYS,
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	KEYS_END,
};

/* qk_head_dim is the sum of two others; blocks that predict further tokens stay in the file: the class has none. */
#define MLA_KEYS                                                                                 \
	DEEPSEEK_KEYS, SIZE("q_lora_rank", q_rank), SIZE("kv_lora_rank", kv_rank),               \
		SIZE("qk_nope_head_dim", nope_dim), SIZE("qk_rope_head_dim", rope_dim),          \
		SIZE("v_head_dim", value_dim), SWITCH("mlp_bias", mlp_bias), IGNORED("ep_size"), \
		IGNORED("qk_head_dim"), KEY("mlp_layer_types", layers, KEY_SPARSE_BLOCKS),       \
		IGNORED("num_nextn_predict_layers"), SWITCH("attention_bias", qkv_bias)

const struct model_key model_mla_keys[] = { MLA_KEYS, KEYS_END };

static const struct model_key indexed_mla_keys[] = {
	MLA_KEYS,
	SIZE("index_n_heads", index_heads),
	SIZE("index_head_dim", index_dim),
	IGNORED("index_topk"),
	IGNORED("indexer_rope_interleave"),
	KEY("layer_types", layers, KEY_KINDS),
	/* GLM 5.2: which blocks have an index, and which take that of one before */
	SIZE("index_topk_freq", index_every),
	SIZE("index_skip_topk_offset", index_from),
	KEY("index_topk_pattern", layers, KEY_KINDS),
	KEY("indexer_types", layers, KEY_KINDS),
	SIZE("num_experts", experts),
	IGNORED("index_share_for_mtp_iteration"),
	IGNORED("moe_router_dtype"),
	KEYS_END,
};

/* ---- norms across all heads: OLMo 2, OLMoE ---- */

static const struct model_row olmo2_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "Q" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "K" },
	GATED,
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H" },
	{ "post_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H" },
	ROWS_END,
};
DECODER_SECTIONS(olmo2_sections, model_llama_front, olmo2_block, model_llama_back, model_lm_head);

static const struct model_row olmoe_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "Q" },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "K" },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H" },
	BANKS,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(olmoe_sections, model_llama_front, olmoe_block, model_llama_back, model_lm_head);

static const struct model_key olmo_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SWITCH("output_router_logits", router_loss),
	KEYS_END,
};

/* ---- layer norms: GPT-NeoX, StableLM, StarCoder 2, Cohere ---- */

static const struct model_row neox_front[] = {
	{ "embed_in", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};

static const struct model_row neox_block[] = {
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "post_attention_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	{ "attention.query_key_value", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_QKV_BIAS },
	{ "attention.dense", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_QKV_BIAS },
	{ "mlp.dense_h_to_4h", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.dense_4h_to_h", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row neox_back[] = {
	{ "final_layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};

static const struct model_row neox_head[] = {
	{ "embed_out", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS },
	ROWS_END,
};

static const struct model_section neox_sections[] = {
	{ "gpt_neox.", neox_front, MODEL_TEXT },
	{ "gpt_neox.layers.%u.", neox_block, MODEL_TEXT },
	{ "gpt_neox.", neox_back, MODEL_TEXT },
	{ "", neox_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_head neox_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "Model", 0, 0, "gpt_neox." },
	HEADS_END,
};

static const struct model_key neox_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	RATE("rotary_pct", partial_rotary),
	RATE("partial_rotary_factor", partial_rotary),
	SWITCH("use_parallel_residual", parallel),
	RATE("hidden_dropout", hidden_dropout),
	KEYS_END,
};

static const struct model_row stablelm_block[] = {
	QKVO(IF_QKV_BIAS, 0),
	GATED,
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "post_attention_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", IF_SERIAL, IF_TRUE },
	ROWS_END,
};

static const struct model_row layer_norm_back[] = {
	{ "norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(stablelm_sections, model_llama_front, stablelm_block, layer_norm_back,
		 model_lm_head);

static const struct model_key stablelm_keys[] = {
	SWITCH("use_qkv_bias", qkv_bias),
	SWITCH("use_parallel_residual", parallel),
	RATE("partial_rotary_factor", partial_rotary),
	RATE("hidden_dropout", hidden_dropout),
	KEYS_END,
};

static const struct model_row starcoder2_block[] = {
	QKVO(IF_QKV_BIAS, IF_QKV_BIAS),
	{ "mlp.c_fc", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_QKV_BIAS },
	{ "mlp.c_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_QKV_BIAS },
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "post_attention_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	ROWS_END,
};
DECODER_SECTIONS(starcoder2_sections, model_llama_front, starcoder2_block, layer_norm_back,
		 model_lm_head);

static const struct model_key starcoder2_keys[] = {
	SWITCH("use_bias", qkv_bias),
	RATE("residual_dropout", hidden_dropout),
	RATE("embedding_dropout", embedding_dropout),
	ACTIVATION("hidden_act"),
	IGNORED("activation_function"),
	IGNORED("attention_softmax_in_fp32"),
	IGNORED("scale_attention_softmax_in_fp32"),
	IGNORED("mlp_type"),
	IGNORED("norm_type"),
	KEYS_END,
};

static const struct model_row cohere_block[] = {
	QKVO(IF_QKV_BIAS, IF_QKV_BIAS),
	{ "self_attn.q_norm", MODEL_NORM_LAYER, MODEL_ROLE_Q_NORM, "A D", IF_QK_NORM },
	{ "self_attn.k_norm", MODEL_NORM_LAYER, MODEL_ROLE_K_NORM, "G D", IF_QK_NORM },
	GATED,
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H" },
	ROWS_END,
};

static const struct model_row cohere_back[] = {
	{ "norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H" },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(cohere_sections, model_llama_front, cohere_block, cohere_back, model_lm_head);

static const struct model_key bias_keys[] = {
	SWITCH("use_qk_norm", qk_norm),        SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias), SWITCH("bias", qkv_bias),
	SWITCH("bias", output_bias),           KEYS_END,
};

/* ---- Llama under other names ---- */

static const struct model_row internlm2_front[] = {
	{ "tok_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};

static const struct model_row internlm2_block[] = {
	{ "attention.wqkv", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_QKV_BIAS },
	{ "attention.wo", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_OUTPUT_BIAS },
	{ "feed_forward.w1", MODEL_LINEAR, MODEL_ROLE_GATE, "F H" },
	{ "feed_forward.w3", MODEL_LINEAR, MODEL_ROLE_UP, "F H" },
	{ "feed_forward.w2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },
	{ "attention_norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "ffn_norm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	ROWS_END,
};

static const struct model_row plain_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	ROWS_END,
};

static const struct model_row internlm2_head[] = {
	{ "output", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	ROWS_END,
};
DECODER_SECTIONS(internlm2_sections, internlm2_front, internlm2_block, plain_back, internlm2_head);

static const struct model_row baichuan_block[] = {
	{ "self_attn.W_pack", MODEL_LINEAR, MODEL_ROLE_QKV, "W H" },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q" },
	GATED,
	NORMS_BEFORE,
	ROWS_END,
};
DECODER_SECTIONS(baichuan_sections, model_llama_front, baichuan_block, plain_back, model_lm_head);

DECODER_SECTIONS(llama_sections, model_llama_front, model_llama_block, model_llama_back,
		 model_lm_head);

static const struct model_key minicpm_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	KEYS_END,
};

/* ---- all of them ---- */

#define INDICES "the indices by which its attention picks keys"

const struct model_family model_later[] = {
	{ .name = "gpt_oss",
	  .eager_only = true,
	  .sections = gpt_oss_sections,
	  .heads = model_causal_heads,
	  TEXT(gpt_oss_keys, LLAMA_LIKE, .layers = 36, .hidden = 2880, .heads = 64, .kv_heads = 8,
	       .head_dim = 64, .intermediate = 2880, .vocab = 201088, .positions = 131072,
	       .window = 128, .window_every = 2, .experts = 128, .experts_per_token = 4,
	       .qkv_bias = true) },
	{ .name = "deepseek_v3",
	  .sections = mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  TEXT(model_mla_keys, MODEL_MLA, .first_dense = 3) },
	{ .name = "deepseek_v32",
	  .sections = indexed_mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  .unplanned = INDICES,
	  TEXT(indexed_mla_keys, MODEL_MLA, .first_dense = 3, .index_heads = 64,
	       .index_dim = 128) },
	{ .name = "glm_moe_dsa",
	  .sections = indexed_mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  .unplanned = INDICES,
	  TEXT(indexed_mla_keys, LLAMA_LIKE, .layers = 78, .hidden = 6144, .heads = 64,
	       .intermediate = 12288, .vocab = 154880, .positions = 202752, .experts = 256,
	       .experts_per_token = 8, .expert_intermediate = 2048, .shared_experts = 1,
	       .q_rank = 2048, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256,
	       .first_dense = 3, .index_heads = 32, .index_dim = 128, .index_from = 2) },
	{ .name = "kimi_k2",
	  .sections = mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  TEXT(model_mla_keys, MODEL_MLA, .first_dense = 3) },
	{ .name = "deepseek_v2",
	  .sections = mla_sections,
	  .heads = model_causal_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  TEXT(model_mla_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 32000, .positions = 2048, .experts = 64,
	       .experts_per_token = 6, .expert_intermediate = 1407, .shared_experts = 2,
	       .q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128) },
	{ .name = "deepseek",
	  .sections = deepseek_sections,
	  .heads = model_causal_heads,
	  TEXT(deepseek_keys, LLAMA_LIKE, .layers = 30, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 102400, .positions = 2048, .experts_per_token = 6,
	       .expert_intermediate = 1407) },
	{ .name = "olmo2",
	  .sections = olmo2_sections,
	  .heads = model_causal_heads,
	  TEXT(olmo_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 50304, .positions = 2048, .head_norm = true) },
	{ .name = "olmoe",
	  .sections = olmoe_sections,
	  .heads = model_causal_heads,
	  TEXT(olmo_keys, LLAMA_LIKE, .layers = 16, .hidden = 2048, .heads = 16,
	       .intermediate = 1024, .vocab = 50304, .positions = 4096, .experts = 64,
	       .experts_per_token = 8, .head_norm = true) },
	{ .name = "gpt_neox",
	  .sections = neox_sections,
	  .heads = neox_heads,
	  .adapters = "query_key_value",
	  TEXT(neox_keys, LAYER_NORMS(MODEL_GELU), .narrow_loss_before = 449, .layers = 44,
	       .hidden = 6144, .heads = 64, .intermediate = 24576, .vocab = 50432,
	       .positions = 2048, .partial_rotary = 0.25, .qkv_bias = true, .parallel = true) },
	{ .name = "stablelm",
	  .sections = stablelm_sections,
	  .heads = model_causal_heads,
	  TEXT(stablelm_keys, LAYER_NORMS(MODEL_SILU), .gated = true, .narrow_loss_before = 448,
	       .layers = 32, .hidden = 2560, .heads = 32, .intermediate = 6912, .vocab = 50304,
	       .positions = 4096, .partial_rotary = 0.25) },
	{ .name = "starcoder2",
	  .sections = starcoder2_sections,
	  .heads = model_causal_heads,
	  TEXT(starcoder2_keys, LAYER_NORMS(MODEL_GELU_TANH), .layers = 30, .hidden = 3072,
	       .heads = 24, .kv_heads = 2, .intermediate = 12288, .vocab = 49152, .positions = 4096,
	       .qkv_bias = true, .tied = true, .use_window = true) },
	{ .name = "cohere",
	  .sections = cohere_sections,
	  .heads = model_causal_heads,
	  TEXT(bias_keys, LAYER_NORMS(MODEL_SILU), .gated = true, .layers = 40, .hidden = 8192,
	       .heads = 64, .intermediate = 22528, .vocab = 256000, .positions = 8192, .tied = true,
	       .parallel = true) },
	{ .name = "internlm",
	  .sections = llama_sections,
	  .heads = model_causal_heads,
	  TEXT(bias_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 103168, .positions = 2048, .qkv_bias = true,
	       .output_bias = true) },
	{ .name = "internlm2",
	  .sections = internlm2_sections,
	  .heads = model_causal_heads,
	  .adapters = "wqkv",
	  TEXT(bias_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 103168, .positions = 2048) },
	{ .name = "baichuan",
	  .sections = baichuan_sections,
	  .heads = model_causal_heads,
	  .adapters = "W_pack",
	  TEXT(NULL, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32, .intermediate = 11008,
	       .vocab = 125696, .positions = 4096) },
	{ .name = "minicpm",
	  .sections = llama_sections,
	  .heads = model_causal_heads,
	  TEXT(minicpm_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 32000, .positions = 2048, .tied = true) },
};
const size_t model_later_count = sizeof(model_later) / sizeof(model_later[0]);
