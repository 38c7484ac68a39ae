/* Families of decoders of text.  Names and order are those of Transformers 5, defaults those of its config classes. */
#include "tables.h"

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
	SIZE("type_vocab_size", types),
	SIZE("sliding_window", window),
	SIZE("image_size", image_size),
	SIZE("patch_size", patch),
	SIZE("num_channels", channels),
	SIZE("in_channels", channels),
	SIZE("num_labels", labels),
	KEY("id2label", labels, KEY_COUNT),
	SWITCH("tie_word_embeddings", tied),
	SWITCH("use_sliding_window", use_window),
	RATE("attention_dropout", attention_dropout),
	ACTIVATION("hidden_act"),
	KEYS_END,
};

const struct model_key model_tied_outside[] = {
	SWITCH("tie_word_embeddings", tied),
	KEYS_END,
};

/* ---- Llama and those built like it ---- */

const struct model_row model_llama_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_tokens.embed_scale", MODEL_BUFFER, MODEL_ROLE_OTHER, "", IF_EMBED_SCALE },
	ROWS_END,
};

const struct model_row model_llama_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_QKV_BIAS },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", 0, IF_QKV_BIAS },
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_OUTPUT_BIAS },
	{ "self_attn.q_norm", MODEL_NORM_RMS, MODEL_ROLE_Q_NORM, "D", IF_QK_NORM },
	{ "self_attn.k_norm", MODEL_NORM_RMS, MODEL_ROLE_K_NORM, "D", IF_QK_NORM },
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", IF_DENSE, IF_MLP_BIAS },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_ROUTED },
	{ "mlp.experts.gate_up_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_UP, "E 2M H", IF_SPARSE },
	{ "mlp.experts.down_proj", MODEL_EXPERTS, MODEL_ROLE_EXPERTS_DOWN, "E H M", IF_SPARSE },
	{ "mlp.gate.weight", MODEL_PARAMETER, MODEL_ROLE_ROUTER, "E H", IF_ROUTED_LAST },
	{ "mlp.shared_expert.gate_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_GATE, "S H",
	  IF_SPARSE | IF_SHARED },
	{ "mlp.shared_expert.up_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_UP, "S H",
	  IF_SPARSE | IF_SHARED },
	{ "mlp.shared_expert.down_proj", MODEL_LINEAR, MODEL_ROLE_SHARED_DOWN, "H S",
	  IF_SPARSE | IF_SHARED },
	{ "mlp.shared_expert_gate", MODEL_LINEAR, MODEL_ROLE_SHARED_ROUTER, "1 H",
	  IF_SPARSE | IF_SHARED },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H", IF_BEFORE },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1_OUT, "H", IF_AROUND },
	{ "pre_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H", IF_AROUND },
	{ "post_feedforward_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2_OUT, "H", IF_AROUND },
	ROWS_END,
};

const struct model_row model_llama_back[] = {
	{ "norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R", IF_ONE_ROPE },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R", IF_ONE_ROPE },
	{ "rotary_emb.full_attention_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R",
	  IF_FULL_ROPE },
	{ "rotary_emb.full_attention_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R",
	  IF_FULL_ROPE },
	{ "rotary_emb.sliding_attention_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R",
	  IF_SLIDING_ROPE },
	{ "rotary_emb.sliding_attention_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER,
	  "R", IF_SLIDING_ROPE },
	ROWS_END,
};

const struct model_row model_lm_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_HEAD_BIAS, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE },
	ROWS_END,
};

static const struct model_section llama_sections[] = {
	{ "model.", model_llama_front, MODEL_TEXT },
	{ "model.layers.%u.", model_llama_block, MODEL_TEXT },
	{ "model.", model_llama_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_head causal_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "Model", 0, 0, "model." },
	HEADS_END,
};

static const struct model_key llama_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	KEYS_END,
};

static const struct model_key qwen_keys[] = {
	SIZE("max_window_layers", window_from),
	KEYS_END,
};

static const struct model_key gemma_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	ACTIVATION("hidden_activation"),
	RATE("final_logit_softcapping", logit_softcap),
	RATE("attn_logit_softcapping", attention_softcap),
	SIZE("sliding_window_pattern", window_every),
	KEYS_END,
};

static const struct model_key mixtral_keys[] = {
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SWITCH("output_router_logits", router_loss),
	KEYS_END,
};

static const struct model_key moe_keys[] = {
	SIZE("num_local_experts", experts),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("shared_expert_intermediate_size", shared_intermediate),
	SIZE("decoder_sparse_step", sparse_step),
	KEY("mlp_only_layers", layers, KEY_DENSE_BLOCKS),
	SIZE("max_window_layers", window_from),
	SWITCH("output_router_logits", router_loss),
	SWITCH("qkv_bias", qkv_bias),
	KEYS_END,
};

/* Qwen3's attention_bias, beside the keys of Qwen. */
static const struct model_key qwen3_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SIZE("max_window_layers", window_from),
	KEYS_END,
};

static const struct model_key qwen3_moe_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("use_qk_norm", qk_norm),
	SIZE("num_experts", experts),
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("decoder_sparse_step", sparse_step),
	KEY("mlp_only_layers", layers, KEY_DENSE_BLOCKS),
	SIZE("max_window_layers", window_from),
	SWITCH("output_router_logits", router_loss),
	KEYS_END,
};

#define ROTATED .position = MODEL_POSITION_ROPE
#define LLAMA_LIKE \
	DECODER(MODEL_RMS_NORM, MODEL_NORM_BEFORE, MODEL_SILU), ROTATED, .use_window = true
#define QWEN_LIKE                                                                        \
	DECODER(MODEL_RMS_NORM, MODEL_NORM_BEFORE, MODEL_SILU), ROTATED, .window = 4096, \
									 .window_from = 28
#define GEMMA_LIKE(place)                                               \
	DECODER(MODEL_RMS_NORM_GEMMA, place, MODEL_GELU_TANH), ROTATED, \
		.use_window = true, .tied = true, .embed_scale = true

/* ---- Phi ---- */

const struct model_row model_phi3_block[] = {
	{ "self_attn.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q" },
	{ "self_attn.qkv_proj", MODEL_LINEAR, MODEL_ROLE_QKV, "W H" },
	{ "mlp.gate_up_proj", MODEL_LINEAR, MODEL_ROLE_GATE_UP, "2F H" },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F" },
	{ "input_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "post_attention_layernorm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	ROWS_END,
};

static const struct model_section phi3_sections[] = {
	{ "model.", model_llama_front, MODEL_TEXT },
	{ "model.layers.%u.", model_phi3_block, MODEL_TEXT },
	{ "model.", model_llama_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_key phi3_keys[] = {
	RATE("resid_pdrop", hidden_dropout),
	RATE("embd_pdrop", embedding_dropout),
	RATE("partial_rotary_factor", partial_rotary),
	KEYS_END,
};

static const struct model_row phi_block[] = {
	{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_TRUE },
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "K H", 0, IF_TRUE },
	{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "K H", 0, IF_TRUE },
	{ "self_attn.dense", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_TRUE },
	{ "self_attn.q_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_Q_NORM, "D", IF_QK_NORM, IF_TRUE },
	{ "self_attn.k_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_K_NORM, "D", IF_QK_NORM, IF_TRUE },
	{ "mlp.fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row phi_back[] = {
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "final_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_section phi_sections[] = {
	{ "model.", model_llama_front, MODEL_TEXT },
	{ "model.layers.%u.", phi_block, MODEL_TEXT },
	{ "model.", phi_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_key phi_keys[] = {
	RATE("resid_pdrop", hidden_dropout),
	RATE("embd_pdrop", embedding_dropout),
	RATE("partial_rotary_factor", partial_rotary),
	SWITCH("qk_layernorm", qk_norm),
	KEYS_END,
};

/* ---- GPT-2 ---- */

static const struct model_row gpt2_front[] = {
	{ "wte", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "wpe", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};

static const struct model_row gpt2_block[] = {
	{ "ln_1", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "attn.c_attn", MODEL_CONV1D, MODEL_ROLE_QKV, "H 3H", 0, IF_TRUE },
	{ "attn.c_proj", MODEL_CONV1D, MODEL_ROLE_O, "H H", 0, IF_TRUE },
	{ "ln_2", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	{ "crossattention.c_attn", MODEL_CONV1D, MODEL_ROLE_CROSS_K, "H 2H", IF_CROSS, IF_TRUE },
	{ "crossattention.q_attn", MODEL_CONV1D, MODEL_ROLE_CROSS_Q, "H H", IF_CROSS, IF_TRUE },
	{ "crossattention.c_proj", MODEL_CONV1D, MODEL_ROLE_CROSS_O, "H H", IF_CROSS, IF_TRUE },
	{ "ln_cross_attn", MODEL_NORM_LAYER, MODEL_ROLE_CROSS_NORM, "H", IF_CROSS, IF_TRUE },
	{ "mlp.c_fc", MODEL_CONV1D, MODEL_ROLE_UP, "H F", 0, IF_TRUE },
	{ "mlp.c_proj", MODEL_CONV1D, MODEL_ROLE_DOWN, "F H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row gpt2_back[] = {
	{ "ln_f", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row gpt2_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE },
	{ "multiple_choice_head.summary", MODEL_LINEAR, MODEL_ROLE_OTHER, "1 H", IF_POOLER,
	  IF_TRUE },
	ROWS_END,
};

static const struct model_head gpt2_heads[] = {
	{ "LMHeadModel", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "DoubleHeadsModel", IF_LM | IF_POOLER },
	{ "Model", 0, 0, "transformer." },
	HEADS_END,
};

static const struct model_section gpt2_sections[] = {
	{ "transformer.", gpt2_front, MODEL_TEXT },
	{ "transformer.h.%u.", gpt2_block, MODEL_TEXT },
	{ "transformer.", gpt2_back, MODEL_TEXT },
	{ "", gpt2_head, MODEL_TEXT },
	SECTIONS_END,
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
	SWITCH("add_cross_attention", cross_attention),
	KEYS_END,
};

/* ---- all of them ---- */

#define TEXT(own_keys, ...) .towers[MODEL_TEXT] = { .keys = own_keys, .defaults = { __VA_ARGS__ } }

const struct model_family model_decoders[] = {
	{ .name = "llama",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(llama_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32,
	       .intermediate = 11008, .vocab = 32000, .positions = 2048) },
	{ .name = "mistral",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(NULL, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .intermediate = 14336, .vocab = 32000, .positions = 131072, .window = 4096) },
	{ .name = "qwen2",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(qwen_keys, QWEN_LIKE, .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 32,
	       .intermediate = 22016, .vocab = 151936, .positions = 32768, .qkv_bias = true) },
	{ .name = "qwen3",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(qwen3_keys, QWEN_LIKE, .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 32,
	       .head_dim = 128, .intermediate = 22016, .vocab = 151936, .positions = 32768,
	       .qk_norm = true) },
	{ .name = "gemma",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(gemma_keys, GEMMA_LIKE(MODEL_NORM_BEFORE), .layers = 28, .hidden = 3072, .heads = 16,
	       .kv_heads = 16, .head_dim = 256, .intermediate = 24576, .vocab = 256000,
	       .positions = 8192) },
	{ .name = "gemma2",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(gemma_keys, GEMMA_LIKE(MODEL_NORM_AROUND), .layers = 26, .hidden = 2304, .heads = 8,
	       .kv_heads = 4, .head_dim = 256, .intermediate = 9216, .vocab = 256000,
	       .positions = 8192, .window = 4096, .window_every = 2, .logit_softcap = 30,
	       .attention_softcap = 50) },
	{ .name = "gemma3_text",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(gemma_keys, GEMMA_LIKE(MODEL_NORM_AROUND), .layers = 26, .hidden = 2304, .heads = 8,
	       .kv_heads = 4, .head_dim = 256, .intermediate = 9216, .vocab = 262208,
	       .positions = 131072, .window = 4096, .window_every = 6, .qk_norm = true,
	       .two_ropes = true) },
	{ .name = "phi3",
	  .sections = phi3_sections,
	  .heads = causal_heads,
	  TEXT(phi3_keys, LLAMA_LIKE, .layers = 32, .hidden = 3072, .heads = 32,
	       .intermediate = 8192, .vocab = 32064, .positions = 4096) },
	{ .name = "phi",
	  .sections = phi_sections,
	  .heads = causal_heads,
	  .adapters = "q_proj,v_proj,fc1,fc2",
	  TEXT(phi_keys, .layers = 24, .hidden = 2048, .heads = 32, .intermediate = 8192,
	       .vocab = 51200, .positions = 2048, .norm = MODEL_LAYER_NORM,
	       .activation = MODEL_GELU_NEW, .position = MODEL_POSITION_ROPE, .causal = true,
	       .partial_rotary = 0.5, .head_bias = true, .labels = 2) },
	{ .name = "mixtral",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(mixtral_keys, LLAMA_LIKE, .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8,
	       .intermediate = 14336, .vocab = 32000, .positions = 131072, .experts = 8,
	       .experts_per_token = 2, .wide_scores = true) },
	{ .name = "qwen2_moe",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(moe_keys, QWEN_LIKE, .layers = 24, .hidden = 2048, .heads = 16, .kv_heads = 16,
	       .intermediate = 5632, .vocab = 151936, .positions = 32768, .qkv_bias = true,
	       .experts = 60, .experts_per_token = 4, .expert_intermediate = 1408,
	       .shared_intermediate = 5632) },
	{ .name = "qwen3_moe",
	  .sections = llama_sections,
	  .heads = causal_heads,
	  TEXT(qwen3_moe_keys, QWEN_LIKE, .layers = 24, .hidden = 2048, .heads = 32, .kv_heads = 4,
	       .intermediate = 6144, .vocab = 151936, .positions = 32768, .qk_norm = true,
	       .router_last = true, .experts = 128, .experts_per_token = 8,
	       .expert_intermediate = 768) },
	{ .name = "gpt2",
	  .sections = gpt2_sections,
	  .heads = gpt2_heads,
	  .adapters = "c_attn",
	  TEXT(gpt2_keys, .narrow_loss_before = 448, .layers = 12, .hidden = 768, .heads = 12,
	       .vocab = 50257, .positions = 1024, .attention_dropout = 0.1, .hidden_dropout = 0.1,
	       .embedding_dropout = 0.1, .norm = MODEL_LAYER_NORM, .activation = MODEL_GELU_NEW,
	       .position = MODEL_POSITION_LEARNED, .causal = true, .tied = true, .labels = 2) },
};
const size_t model_decoder_count = sizeof(model_decoders) / sizeof(model_decoders[0]);

const struct model_family model_family_decoder = {
	.name = "transformer",
	.sections = llama_sections,
	.heads = causal_heads,
	TEXT(llama_keys, LLAMA_LIKE),
};
