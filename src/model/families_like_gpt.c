/*
 * Decoders with layer norms, built like the GPTs, of which no run was measured.  Names are those of Transformers 5; of Orion
 * and Microsoft's first Phi files those of their own code.
 */
#include "rows.h"

#define NORM(name_, role_)                                      \
	{                                                       \
		name_, MODEL_NORM_LAYER, role_, "H", 0, IF_TRUE \
	}
#define LN_NO_BIAS(name_, role_)                    \
	{                                           \
		name_, MODEL_NORM_LAYER, role_, "H" \
	}
#define WTE                                                     \
	{                                                       \
		"wte", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" \
	}
/* A section for what is before the blocks, a block, what is behind, and a head outside. */
#define GPT_SECTIONS(name_, root, block_path, front, block, back, head) \
	static const struct model_section name_[] = {                   \
		{ root, front, MODEL_TEXT },                            \
		{ root block_path "%u.", block, MODEL_TEXT },           \
		{ root, back, MODEL_TEXT },                             \
		{ "", head, MODEL_TEXT },                               \
		SECTIONS_END,                                           \
	}

static const struct model_row gpt_front[] = { WTE, ROWS_END };
static const struct model_row gpt_back[] = { NORM("ln_f", MODEL_ROLE_FINAL_NORM), ROWS_END };
static const struct model_row gpt_front_placed[] = {
	WTE,
	{ "wpe", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};

static const struct model_head gpt_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "LMHeadModel", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "Model", 0, 0, "transformer." },
	HEADS_END,
};

#define GPT_SIZES                                                                         \
	SIZE("n_embd", hidden), SIZE("n_layer", layers), SIZE("n_head", heads),           \
		SIZE("n_positions", positions), SIZE("n_inner", intermediate),            \
		ACTIVATION("activation_function"), RATE("attn_pdrop", attention_dropout), \
		RATE("resid_pdrop", hidden_dropout), RATE("embd_pdrop", embedding_dropout)

/* ---- GPT-J, CodeGen, GPT-Neo, BigCode ---- */

static const struct model_row gptj_block[] = {
	NORM("ln_1", MODEL_ROLE_NORM1),
	{ "attn.embed_positions", MODEL_BUFFER, MODEL_ROLE_OTHER, "P B" },
	{ "attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "H H" },
	{ "attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "H H" },
	{ "attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "H H" },
	{ "attn.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H" },
	{ "mlp.fc_in", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc_out", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};
static const struct model_row codegen_block[] = {
	NORM("ln_1", MODEL_ROLE_NORM1),
	{ "attn.embed_positions", MODEL_BUFFER, MODEL_ROLE_OTHER, "P B" },
	{ "attn.qkv_proj", MODEL_LINEAR, MODEL_ROLE_QKV, "W H" },
	{ "attn.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H" },
	{ "mlp.fc_in", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc_out", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};
static const struct model_row biased_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_TRUE, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS },
	ROWS_END,
};
GPT_SECTIONS(gptj_sections, "transformer.", "h.", gpt_front, gptj_block, gpt_back, biased_head);
GPT_SECTIONS(codegen_sections, "transformer.", "h.", gpt_front, codegen_block, gpt_back,
	     biased_head);

static const struct model_key gptj_keys[] = {
	GPT_SIZES, SIZE("rotary_dim", buckets), IGNORED("n_ctx"), IGNORED("rotary"), KEYS_END,
};

static const struct model_row neo_block[] = {
	NORM("ln_1", MODEL_ROLE_NORM1),
	{ "attn.attention.bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "1 1 P P", 0, 0, 0, "bool" },
	{ "attn.attention.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "H H" },
	{ "attn.attention.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "H H" },
	{ "attn.attention.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "H H" },
	{ "attn.attention.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE },
	NORM("ln_2", MODEL_ROLE_NORM2),
	{ "mlp.c_fc", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.c_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};
GPT_SECTIONS(neo_sections, "transformer.", "h.", gpt_front_placed, neo_block, gpt_back,
	     model_lm_head);

static const struct model_key neo_keys[] = {
	SIZE("num_layers", layers),
	SIZE("num_heads", heads),
	SIZE("window_size", window),
	RATE("resid_dropout", hidden_dropout),
	RATE("embed_dropout", embedding_dropout),
	ACTIVATION("activation_function"),
	IGNORED("attention_types"),
	IGNORED("attention_layers"),
	IGNORED("classifier_dropout"),
	KEYS_END,
};

static const struct model_row bigcode_back[] = {
	NORM("ln_f", MODEL_ROLE_FINAL_NORM),
	{ "bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "P P", 0, 0, 0, "bool" },
	ROWS_END,
};
static const struct model_row bigcode_block[] = {
	NORM("ln_1", MODEL_ROLE_NORM1),
	{ "attn.c_attn", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_TRUE },
	{ "attn.c_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE },
	NORM("ln_2", MODEL_ROLE_NORM2),
	{ "mlp.c_fc", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.c_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};
GPT_SECTIONS(bigcode_sections, "transformer.", "h.", gpt_front_placed, bigcode_block, bigcode_back,
	     model_lm_head);

static const struct model_key bigcode_keys[] = {
	GPT_SIZES,
	SWITCH("multi_query", multi_query),
	SWITCH("add_cross_attention", cross_attention),
	IGNORED("num_key_value_heads"), /* multi_query says it */
	IGNORED("attention_softmax_in_fp32"),
	IGNORED("scale_attention_softmax_in_fp32"),
	IGNORED("attn_implementation"),
	IGNORED("inference_runner"),
	KEYS_END,
};

/* ---- Falcon, BLOOM, MPT ---- */

static const struct model_row words_front[] = {
	{ "word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R", IF_ROPE },
	ROWS_END,
};
static const struct model_row falcon_block[] = {
	{ "self_attention.query_key_value", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_QKV_BIAS },
	{ "self_attention.dense", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_QKV_BIAS },
	{ "mlp.dense_h_to_4h", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_QKV_BIAS },
	{ "mlp.dense_4h_to_h", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_QKV_BIAS },
	{ "ln_attn", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", IF_TWO_NORMS, IF_TRUE },
	{ "ln_mlp", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", IF_TWO_NORMS, IF_TRUE },
	{ "post_attention_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H",
	  IF_ONE_NORM | IF_SERIAL, IF_TRUE },
	{ "input_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", IF_ONE_NORM, IF_TRUE },
	ROWS_END,
};
GPT_SECTIONS(falcon_sections, "transformer.", "h.", words_front, falcon_block, gpt_back,
	     model_lm_head);

static const struct model_key falcon_keys[] = {
	SIZE("n_layer", layers), /* of the first files */
	SIZE("n_head", heads),
	SIZE("n_head_kv", kv_heads),
	SIZE("num_kv_heads", kv_heads),
	SIZE("ffn_hidden_size", intermediate),
	ACTIVATION("activation"),
	SWITCH("bias", qkv_bias),
	SWITCH("multi_query", multi_query),
	SWITCH("new_decoder_architecture", new_decoder),
	SWITCH("parallel_attn", parallel),
	SWITCH("alibi", alibi),
	KEY("num_ln_in_parallel_attn", one_norm, KEY_IS_ONE),
	RATE("hidden_dropout", hidden_dropout),
	KEYS_END,
};

static const struct model_row bloom_front[] = {
	{ "word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	NORM("word_embeddings_layernorm", MODEL_ROLE_EMBED_NORM),
	ROWS_END,
};
static const struct model_row bloom_block[] = {
	NORM("input_layernorm", MODEL_ROLE_NORM1),
	{ "self_attention.query_key_value", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_TRUE },
	{ "self_attention.dense", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE },
	NORM("post_attention_layernorm", MODEL_ROLE_NORM2),
	{ "mlp.dense_h_to_4h", MODEL_LINEAR, MODEL_ROLE_UP, "4H H", 0, IF_TRUE },
	{ "mlp.dense_4h_to_h", MODEL_LINEAR, MODEL_ROLE_DOWN, "H 4H", 0, IF_TRUE },
	ROWS_END,
};
GPT_SECTIONS(bloom_sections, "transformer.", "h.", bloom_front, bloom_block, gpt_back,
	     model_lm_head);

static const struct model_key bloom_keys[] = {
	SIZE("n_layer", layers),
	SIZE("n_head", heads),
	SIZE("n_embed", hidden),
	SIZE("num_hidden_layers", layers),
	SIZE("seq_length", positions),
	RATE("hidden_dropout", hidden_dropout),
	IGNORED("apply_residual_connection_post_layernorm"),
	IGNORED("attention_softmax_in_fp32"),
	IGNORED("slow_but_exact"),
	IGNORED("skip_bias_add"),
	IGNORED("skip_bias_add_qkv"),
	IGNORED("masked_softmax_fusion"),
	IGNORED("bias_dropout_fusion"),
	IGNORED("offset_alibi"),
	IGNORED("unk_token_id"),
	KEYS_END,
};

static const struct model_row mpt_block[] = {
	LN_NO_BIAS("norm_1", MODEL_ROLE_NORM1),
	{ "attn.Wqkv", MODEL_LINEAR, MODEL_ROLE_QKV, "W H" },
	{ "attn.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H" },
	LN_NO_BIAS("norm_2", MODEL_ROLE_NORM2),
	{ "ffn.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "4H H" },
	{ "ffn.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H 4H" },
	ROWS_END,
};
static const struct model_row mpt_back[] = { LN_NO_BIAS("norm_f", MODEL_ROLE_FINAL_NORM),
					     ROWS_END };
GPT_SECTIONS(mpt_sections, "transformer.", "blocks.", gpt_front, mpt_block, mpt_back,
	     model_lm_head);

static const struct model_key mpt_keys[] = {
	SIZE("d_model", hidden),
	SIZE("n_heads", heads),
	SIZE("n_layers", layers),
	SIZE("max_seq_len", positions),
	RATE("resid_pdrop", hidden_dropout),
	RATE("emb_pdrop", embedding_dropout),
	IGNORED("expansion_ratio"), /* Transformers' class takes 4 */
	IGNORED("learned_pos_emb"), /* alibi, in Transformers' class */
	IGNORED("attn_config"),
	IGNORED("init_config"),
	IGNORED("init_device"),
	IGNORED("no_bias"), /* Transformers' class has none */
	IGNORED("norm_type"),
	IGNORED("embedding_fraction"),
	IGNORED("verbose"),
	IGNORED("tokenizer_name"),
	KEYS_END,
};

/* ---- OPT, XGLM, BioGPT ---- */

#define BART_ATTENTION                                                                     \
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "H H", 0, IF_QKV_BIAS },         \
		{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "H H", 0, IF_QKV_BIAS }, \
		{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "H H", 0, IF_QKV_BIAS }, \
	{                                                                                  \
		"self_attn.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_QKV_BIAS    \
	}

static const struct model_row opt_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V J" },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P+2 H" },
	{ "project_out", MODEL_LINEAR, MODEL_ROLE_OTHER, "J H", IF_NARROW },
	{ "project_in", MODEL_LINEAR, MODEL_ROLE_EMBED_PROJECT, "H J", IF_NARROW },
	{ "final_layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", IF_POSITION_INPUT,
	  IF_TRUE },
	ROWS_END,
};
static const struct model_row opt_block[] = {
	BART_ATTENTION,
	NORM("self_attn_layer_norm", MODEL_ROLE_NORM1),
	{ "fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_QKV_BIAS },
	{ "fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_QKV_BIAS },
	NORM("final_layer_norm", MODEL_ROLE_NORM2),
	ROWS_END,
};
static const struct model_row narrow_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V J", IF_LM, 0, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L J", IF_CLASS },
	ROWS_END,
};
static const struct model_section opt_sections[] = {
	{ "model.decoder.", opt_front, MODEL_TEXT },
	{ "model.decoder.layers.%u.", opt_block, MODEL_TEXT },
	{ "", narrow_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key opt_keys[] = {
	SIZE("ffn_dim", intermediate),
	SIZE("word_embed_proj_dim", projection),
	ACTIVATION("activation_function"),
	SWITCH("enable_bias", qkv_bias),
	SWITCH("do_layer_norm_before", position_input), /* only then is there a last norm */
	RATE("dropout", hidden_dropout),
	IGNORED("_remove_final_layer_norm"),
	IGNORED("layer_norm_elementwise_affine"),
	IGNORED("layerdrop"),
	IGNORED("activation_dropout"),
	KEYS_END,
};

static const struct model_row xglm_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_positions.weights", MODEL_BUFFER, MODEL_ROLE_OTHER, "P+2 H" },
	ROWS_END,
};
static const struct model_row biogpt_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P+2 H" },
	ROWS_END,
};
static const struct model_row layer_norm_last[] = { NORM("layer_norm", MODEL_ROLE_FINAL_NORM),
						    ROWS_END };
static const struct model_row biogpt_head[] = {
	{ "output_projection", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	{ "score", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS },
	ROWS_END,
};
GPT_SECTIONS(xglm_sections, "model.", "layers.", xglm_front, opt_block, layer_norm_last,
	     model_lm_head);
GPT_SECTIONS(biogpt_sections, "biogpt.", "layers.", biogpt_front, opt_block, layer_norm_last,
	     biogpt_head);

static const struct model_head biogpt_heads[] = {
	{ "ForCausalLM", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "Model", 0, 0, "biogpt." },
	HEADS_END,
};
static const struct model_key xglm_keys[] = {
	SIZE("d_model", hidden),
	SIZE("ffn_dim", intermediate),
	SIZE("num_layers", layers),
	SIZE("attention_heads", heads),
	ACTIVATION("activation_function"),
	RATE("dropout", hidden_dropout),
	SWITCH("add_cross_attention", cross_attention),
	IGNORED("layerdrop"),
	IGNORED("activation_dropout"),
	IGNORED("scale_embedding"),
	KEYS_END,
};
static const struct model_key biogpt_keys[] = {
	RATE("hidden_dropout_prob", hidden_dropout),
	RATE("attention_probs_dropout_prob", attention_dropout),
	IGNORED("layerdrop"),
	IGNORED("activation_dropout"),
	IGNORED("scale_embedding"),
	KEYS_END,
};

/* ---- with RoPE: Nemotron, Persimmon, Cohere 2, PhiMoE, Orion, Microsoft's first Phi files ---- */

static const struct model_row nemotron_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_MLP_BIAS },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_MLP_BIAS },
	NORM("input_layernorm", MODEL_ROLE_NORM1),
	NORM("post_attention_layernorm", MODEL_ROLE_NORM2),
	ROWS_END,
};
static const struct model_row normed_back[] = {
	NORM("norm", MODEL_ROLE_FINAL_NORM),
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(nemotron_sections, model_llama_front, nemotron_block, normed_back, model_lm_head);

static const struct model_key nemotron_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	RATE("partial_rotary_factor", partial_rotary),
	KEYS_END,
};

static const struct model_row persimmon_block[] = {
	{ "self_attn.query_key_value", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_TRUE },
	{ "self_attn.dense", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_TRUE },
	{ "self_attn.q_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_Q_NORM, "D", IF_QK_NORM, IF_TRUE },
	{ "self_attn.k_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_K_NORM, "D", IF_QK_NORM, IF_TRUE },
	{ "mlp.dense_h_to_4h", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.dense_4h_to_h", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	NORM("input_layernorm", MODEL_ROLE_NORM1),
	NORM("post_attention_layernorm", MODEL_ROLE_NORM2),
	ROWS_END,
};
static const struct model_row persimmon_back[] = {
	NORM("final_layernorm", MODEL_ROLE_FINAL_NORM),
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(persimmon_sections, model_llama_front, persimmon_block, persimmon_back,
		 model_lm_head);

static const struct model_key persimmon_keys[] = {
	SWITCH("qk_layernorm", qk_norm),
	RATE("hidden_dropout", hidden_dropout),
	RATE("partial_rotary_factor", partial_rotary),
	KEYS_END,
};

static const struct model_row cohere2_block[] = {
	QKVO(IF_QKV_BIAS, IF_QKV_BIAS),
	GATED,
	LN_NO_BIAS("input_layernorm", MODEL_ROLE_NORM1),
	ROWS_END,
};
static const struct model_row cohere2_back[] = {
	LN_NO_BIAS("norm", MODEL_ROLE_FINAL_NORM),
	{ "rotary_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	ROWS_END,
};
DECODER_SECTIONS(cohere2_sections, model_llama_front, cohere2_block, cohere2_back, model_lm_head);

static const struct model_key cohere2_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SIZE("sliding_window_pattern", window_every),
	IGNORED("order_of_interleaved_layers"),
	KEYS_END,
};

static const struct model_row phimoe_block[] = {
	QKVO(IF_QKV_BIAS, IF_OUTPUT_BIAS),
	{ "mlp.router", MODEL_LINEAR, MODEL_ROLE_ROUTER, "E H" },
	BANKS,
	NORM("input_layernorm", MODEL_ROLE_NORM1),
	NORM("post_attention_layernorm", MODEL_ROLE_NORM2),
	ROWS_END,
};
DECODER_SECTIONS(phimoe_sections, model_llama_front, phimoe_block, normed_back, model_lm_head);

static const struct model_key phimoe_keys[] = {
	SIZE("num_local_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SWITCH("output_router_logits", router_loss),
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("lm_head_bias", head_bias),
	RATE("hidden_dropout", hidden_dropout),
	IGNORED("input_jitter_noise"),
	KEYS_END,
};

static const struct model_row orion_block[] = {
	QKVO(0, 0),
	GATED,
	NORM("input_layernorm", MODEL_ROLE_NORM1),
	NORM("post_attention_layernorm", MODEL_ROLE_NORM2),
	ROWS_END,
};
DECODER_SECTIONS(orion_sections, model_llama_front, orion_block, normed_back, model_lm_head);

static const struct model_key orion_keys[] = {
	IGNORED("max_sequence_length"),
	KEYS_END,
};

static const struct model_row msft_front[] = {
	{ "embd.wte", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};
static const struct model_row msft_block[] = {
	NORM("ln", MODEL_ROLE_NORM1),
	{ "mixer.Wqkv", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_TRUE },
	{ "mixer.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_TRUE },
	{ "mlp.fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};
static const struct model_row msft_head[] = {
	{ "lm_head.ln", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "lm_head.linear", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_TRUE },
	ROWS_END,
};
static const struct model_section msft_sections[] = {
	{ "transformer.", msft_front, MODEL_TEXT },
	{ "transformer.h.%u.", msft_block, MODEL_TEXT },
	{ "", msft_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_head msft_heads[] = { { "PhiForCausalLM", IF_LM }, HEADS_END };
static const struct model_key msft_keys[] = {
	GPT_SIZES,
	SIZE("n_head_kv", kv_heads),
	IGNORED("rotary_dim"),
	IGNORED("flash_rotary"),
	IGNORED("fused_dense"),
	KEYS_END,
};

/* ---- all of them ---- */

#define DISTANCES "distances are added to its scores, which is not planned"
#define PLACED(activation_) LAYER_NORMS_AT(MODEL_POSITION_LEARNED, activation_)
#define UNPLACED(activation_) LAYER_NORMS_AT(MODEL_POSITION_NONE, activation_)

const struct model_family model_like_gpt[] = {
	{ .name = "gptj",
	  .sections = gptj_sections,
	  .heads = gpt_heads,
	  .eager_only = true,
	  TEXT(gptj_keys, LAYER_NORMS(MODEL_GELU_NEW), .layers = 28, .hidden = 4096, .heads = 16,
	       .vocab = 50400, .positions = 2048, .buckets = 64, .parallel = true) },
	{ .name = "codegen",
	  .sections = codegen_sections,
	  .heads = gpt_heads,
	  .adapters = "qkv_proj",
	  .eager_only = true,
	  TEXT(gptj_keys, LAYER_NORMS(MODEL_GELU_NEW), .layers = 28, .hidden = 4096, .heads = 16,
	       .vocab = 50400, .positions = 2048, .buckets = 64, .parallel = true) },
	{ .name = "gpt_neo",
	  .sections = neo_sections,
	  .heads = gpt_heads,
	  .eager_only = true,
	  TEXT(neo_keys, PLACED(MODEL_GELU_NEW), .layers = 24, .hidden = 2048, .heads = 16,
	       .vocab = 50257, .positions = 2048, .window = 256, .tied = true) },
	{ .name = "gpt_bigcode",
	  .sections = bigcode_sections,
	  .heads = gpt_heads,
	  .adapters = "c_attn",
	  TEXT(bigcode_keys, PLACED(MODEL_GELU_TANH), .narrow_loss_before = 448, .layers = 12,
	       .hidden = 768, .heads = 12, .vocab = 50257, .positions = 1024,
	       .attention_dropout = 0.1, .hidden_dropout = 0.1, .embedding_dropout = 0.1,
	       .multi_query = true, .tied = true) },
	{ .name = "falcon",
	  .sections = falcon_sections,
	  .heads = gpt_heads,
	  .adapters = "query_key_value",
	  TEXT(falcon_keys, LAYER_NORMS(MODEL_GELU), .narrow_loss_before = 448, .layers = 32,
	       .hidden = 4544, .heads = 71, .vocab = 65024, .positions = 2048, .multi_query = true,
	       .parallel = true, .tied = true, .broadcasts_keys = true) },
	{ .name = "bloom",
	  .sections = bloom_sections,
	  .heads = gpt_heads,
	  .adapters = "query_key_value",
	  .eager_only = true,
	  .inexact = { "its scores are planned as those of other models", 200, 50 },
	  TEXT(bloom_keys, UNPLACED(MODEL_GELU_NEW), .narrow_loss_before = 448, .layers = 2,
	       .hidden = 64, .heads = 8, .vocab = 250880, .positions = 2048, .tied = true) },
	{ .name = "mpt",
	  .sections = mpt_sections,
	  .heads = gpt_heads,
	  .adapters = "Wqkv",
	  .eager_only = true,
	  .inexact = { DISTANCES, 50, 150 },
	  TEXT(mpt_keys, UNPLACED(MODEL_GELU), .narrow_loss_before = 448, .layers = 24,
	       .hidden = 2048, .heads = 16, .vocab = 50368, .positions = 2048, .tied = true) },
	{ .name = "opt",
	  .sections = opt_sections,
	  .heads = gpt_heads,
	  TEXT(opt_keys, PLACED(MODEL_RELU), .narrow_loss_before = 448, .layers = 12, .hidden = 768,
	       .heads = 12, .intermediate = 3072, .vocab = 50272, .positions = 2048,
	       .hidden_dropout = 0.1, .qkv_bias = true, .position_input = true, .tied = true) },
	{ .name = "xglm",
	  .sections = xglm_sections,
	  .heads = gpt_heads,
	  .eager_only = true,
	  .inexact = { "its scores are kept in fp32, which is not planned", 50, 120 },
	  TEXT(xglm_keys, UNPLACED(MODEL_GELU), .layers = 24, .hidden = 1024, .heads = 16,
	       .intermediate = 4096, .vocab = 256008, .positions = 2048, .hidden_dropout = 0.1,
	       .attention_dropout = 0.1, .qkv_bias = true, .tied = true) },
	{ .name = "biogpt",
	  .sections = biogpt_sections,
	  .heads = biogpt_heads,
	  TEXT(biogpt_keys, PLACED(MODEL_GELU), .narrow_loss_before = 448, .layers = 24,
	       .hidden = 1024, .heads = 16, .intermediate = 4096, .vocab = 42384, .positions = 1024,
	       .hidden_dropout = 0.1, .attention_dropout = 0.1, .qkv_bias = true, .tied = true) },
	{ .name = "nemotron",
	  .sections = nemotron_sections,
	  .heads = model_causal_heads,
	  TEXT(nemotron_keys, LAYER_NORMS(MODEL_RELU2), .layers = 32, .hidden = 6144, .heads = 48,
	       .intermediate = 24576, .vocab = 256000, .positions = 4096, .partial_rotary = 0.5) },
	{ .name = "persimmon",
	  .sections = persimmon_sections,
	  .heads = model_causal_heads,
	  .adapters = "query_key_value",
	  .inexact = { "norms of queries and keys are not planned", 50, 100 },
	  TEXT(persimmon_keys, LAYER_NORMS(MODEL_RELU2), .narrow_loss_before = 448, .layers = 36,
	       .hidden = 4096, .heads = 64, .intermediate = 16384, .vocab = 262144,
	       .positions = 16384, .partial_rotary = 0.5, .qk_norm = true) },
	{ .name = "cohere2",
	  .sections = cohere2_sections,
	  .heads = model_causal_heads,
	  TEXT(cohere2_keys, LAYER_NORMS(MODEL_SILU), .gated = true, .use_window = true,
	       .layers = 40, .hidden = 8192, .heads = 64, .intermediate = 22528, .vocab = 256000,
	       .positions = 8192, .window = 4096, .window_every = 4, .tied = true,
	       .parallel = true) },
	{ .name = "phimoe",
	  .sections = phimoe_sections,
	  .heads = model_causal_heads,
	  TEXT(phimoe_keys, LAYER_NORMS(MODEL_SILU), .gated = true, .layers = 32, .hidden = 4096,
	       .heads = 32, .kv_heads = 8, .intermediate = 6400, .vocab = 32064,
	       .positions = 131072, .experts = 16, .experts_per_token = 2) },
	{ .name = "orion",
	  .sections = orion_sections,
	  .heads = model_causal_heads,
	  TEXT(orion_keys, LAYER_NORMS(MODEL_SILU), .gated = true, .layers = 40, .hidden = 5120,
	       .heads = 40, .intermediate = 15360, .vocab = 84608, .positions = 4096) },
	{ .name = "phi-msft",
	  .sections = msft_sections,
	  .heads = msft_heads,
	  .adapters = "Wqkv",
	  TEXT(msft_keys, LAYER_NORMS(MODEL_GELU_NEW), .layers = 24, .hidden = 2048, .heads = 32,
	       .vocab = 51200, .positions = 2048, .parallel = true) },
};
const size_t model_like_gpt_count = sizeof(model_like_gpt) / sizeof(model_like_gpt[0]);
