/* Families that see: of images alone, of images beside texts, of texts with images in them. */
#include "rows.h"

/* ---- ViT ---- */

static const struct model_row vit_front[] = {
	{ "embeddings.cls_token", MODEL_PARAMETER, MODEL_ROLE_CLASS_TOKEN, "1 1 H" },
	{ "embeddings.position_embeddings", MODEL_PARAMETER, MODEL_ROLE_POSITIONS, "1 N+1 H" },
	{ "embeddings.patch_embeddings.projection", MODEL_CONV, MODEL_ROLE_PATCH, "H C p p", 0,
	  IF_TRUE },
	ROWS_END,
};

static const struct model_row vit_block[] = {
	{ "attention.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_QKV_BIAS },
	{ "attention.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "Q H", 0, IF_QKV_BIAS },
	{ "attention.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "Q H", 0, IF_QKV_BIAS },
	{ "attention.o_proj", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_TRUE },
	{ "layernorm_before", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "layernorm_after", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	{ "mlp.fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row vit_back[] = {
	{ "layernorm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "pooler.dense", MODEL_LINEAR, MODEL_ROLE_POOLER, "H H", IF_POOLER, IF_TRUE },
	ROWS_END,
};

static const struct model_row image_heads[] = {
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	ROWS_END,
};

static const struct model_section vit_sections[] = {
	{ "vit.", vit_front, MODEL_VISION },
	{ "vit.layers.%u.", vit_block, MODEL_VISION },
	{ "vit.", vit_back, MODEL_VISION },
	{ "", image_heads, MODEL_VISION },
	SECTIONS_END,
};

static const struct model_head vit_heads[] = {
	{ "ForImageClassification", IF_CLASS },
	{ "ViTModel", IF_POOLER, 0, "vit." },
	HEADS_END,
};

static const struct model_key vit_keys[] = {
	SWITCH("qkv_bias", qkv_bias),
	RATE("attention_probs_dropout_prob", attention_dropout),
	RATE("hidden_dropout_prob", hidden_dropout),
	RATE("hidden_dropout_prob", embedding_dropout),
	KEYS_END,
};

#define SEES(norm_, activation_, position_)                                        \
	.norm = norm_, .norm_place = MODEL_NORM_BEFORE, .activation = activation_, \
	.position = position_, .channels = 3, .labels = 2
#define PLAIN(activation_) SEES(MODEL_LAYER_NORM, activation_, MODEL_POSITION_LEARNED)

/* ---- CLIP, SigLIP ---- */

static const struct model_row clip_scale[] = {
	{ "logit_scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "", IF_PAIR },
	ROWS_END,
};

static const struct model_row siglip_scale[] = {
	{ "logit_scale", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1", IF_PAIR },
	{ "logit_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1", IF_PAIR },
	ROWS_END,
};

static const struct model_row text_front[] = {
	{ "embeddings.token_embedding", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embeddings.position_embedding", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 P", 0, 0, 0,
	  "int64" },
	ROWS_END,
};

static const struct model_row clip_vision_front[] = {
	{ "embeddings.class_embedding", MODEL_PARAMETER, MODEL_ROLE_CLASS_TOKEN, "H" },
	{ "embeddings.patch_embedding", MODEL_CONV, MODEL_ROLE_PATCH, "H C p p" },
	{ "embeddings.position_embedding", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "N+1 H" },
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 N+1", 0, 0, 0,
	  "int64" },
	{ "pre_layrnorm", MODEL_NORM_LAYER, MODEL_ROLE_EMBED_NORM, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row siglip_vision_front[] = {
	{ "embeddings.patch_embedding", MODEL_CONV, MODEL_ROLE_PATCH, "H C p p", 0, IF_TRUE },
	{ "embeddings.position_embedding", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "N H" },
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 N", 0, 0, 0,
	  "int64" },
	ROWS_END,
};

#define PAIR_ATTENTION                                                                 \
	{ "self_attn.k_proj", MODEL_LINEAR, MODEL_ROLE_K, "H H", 0, IF_TRUE },         \
		{ "self_attn.v_proj", MODEL_LINEAR, MODEL_ROLE_V, "H H", 0, IF_TRUE }, \
		{ "self_attn.q_proj", MODEL_LINEAR, MODEL_ROLE_Q, "H H", 0, IF_TRUE }, \
	{                                                                              \
		"self_attn.out_proj", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE    \
	}
#define PAIR_MLP                                                            \
	{ "mlp.fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },      \
	{                                                                   \
		"mlp.fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE \
	}
#define PAIR_NORM(number)                                                                        \
	{                                                                                        \
		"layer_norm" #number, MODEL_NORM_LAYER, MODEL_ROLE_NORM##number, "H", 0, IF_TRUE \
	}

static const struct model_row clip_block[] = {
	PAIR_ATTENTION, PAIR_NORM(1), PAIR_MLP, PAIR_NORM(2), ROWS_END,
};

static const struct model_row siglip_block[] = {
	PAIR_NORM(1), PAIR_ATTENTION, PAIR_NORM(2), PAIR_MLP, ROWS_END,
};

static const struct model_row text_back[] = {
	{ "final_layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row siglip_text_back[] = {
	{ "final_layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "head", MODEL_LINEAR, MODEL_ROLE_PROJECTION, "J H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row vision_back[] = {
	{ "post_layernorm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_TRUE },
	{ "head.probe", MODEL_PARAMETER, MODEL_ROLE_POOL_PROBE, "1 1 H", IF_POOL_HEAD },
	{ "head.attention.in_proj_weight", MODEL_PARAMETER, MODEL_ROLE_POOL_IN, "3H H",
	  IF_POOL_HEAD },
	{ "head.attention.in_proj_bias", MODEL_PARAMETER, MODEL_ROLE_POOL_BIAS, "3H",
	  IF_POOL_HEAD },
	{ "head.attention.out_proj", MODEL_LINEAR, MODEL_ROLE_POOL_OUT, "H H", IF_POOL_HEAD,
	  IF_TRUE },
	{ "head.layernorm", MODEL_NORM_LAYER, MODEL_ROLE_POOL_NORM, "H", IF_POOL_HEAD, IF_TRUE },
	{ "head.mlp.fc1", MODEL_LINEAR, MODEL_ROLE_POOL_UP, "F H", IF_POOL_HEAD, IF_TRUE },
	{ "head.mlp.fc2", MODEL_LINEAR, MODEL_ROLE_POOL_DOWN, "H F", IF_POOL_HEAD, IF_TRUE },
	ROWS_END,
};

static const struct model_row visual_projection[] = {
	{ "visual_projection", MODEL_LINEAR, MODEL_ROLE_PROJECTION, "J H", IF_PROJECTED },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	ROWS_END,
};

static const struct model_row text_projection[] = {
	{ "text_projection", MODEL_LINEAR, MODEL_ROLE_PROJECTION, "J H", IF_PROJECTED },
	ROWS_END,
};

static const struct model_section clip_sections[] = {
	{ "", clip_scale, MODEL_TEXT },
	{ "text_model.", text_front, MODEL_TEXT },
	{ "text_model.encoder.layers.%u.", clip_block, MODEL_TEXT },
	{ "text_model.", text_back, MODEL_TEXT },
	{ "vision_model.", clip_vision_front, MODEL_VISION },
	{ "vision_model.encoder.layers.%u.", clip_block, MODEL_VISION },
	{ "vision_model.", vision_back, MODEL_VISION },
	{ "", visual_projection, MODEL_VISION },
	{ "", text_projection, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_section siglip_sections[] = {
	{ "", siglip_scale, MODEL_TEXT },
	{ "text_model.", text_front, MODEL_TEXT },
	{ "text_model.encoder.layers.%u.", siglip_block, MODEL_TEXT },
	{ "text_model.", siglip_text_back, MODEL_TEXT },
	{ "vision_model.", siglip_vision_front, MODEL_VISION },
	{ "vision_model.encoder.layers.%u.", siglip_block, MODEL_VISION },
	{ "vision_model.", vision_back, MODEL_VISION },
	{ "", image_heads, MODEL_VISION },
	SECTIONS_END,
};

static const struct model_head pair_heads[] = {
	{ "Model", IF_PAIR | IF_PROJECTED },
	{ "ForImageClassification", IF_CLASS, 1u << MODEL_VISION },
	HEADS_END,
};

/* One tower of them by itself, in a file of its own. */
static const struct model_head tower_heads[] = {
	{ "WithProjection", IF_PROJECTED },
	{ "TextModel", 0, 0, "text_model." },
	{ "VisionModel", 0, 0, "vision_model." },
	{ "ForImageClassification", IF_CLASS },
	HEADS_END,
};

static const struct model_key pair_outer[] = { SIZE("projection_dim", projection), KEYS_END };
static const struct model_key clip_keys[] = { SIZE("projection_dim", projection), KEYS_END };
static const struct model_key siglip_keys[] = {
	SIZE("projection_size", projection),
	SWITCH("vision_use_head", pool_head),
	KEYS_END,
};

#define CLIP_TEXT                                                                               \
	PLAIN(MODEL_QUICK_GELU), .layers = 12, .hidden = 512, .heads = 8, .intermediate = 2048, \
				 .vocab = 49408, .positions = 77, .projection = 512,            \
				 .causal = true
#define CLIP_VISION                                                                              \
	PLAIN(MODEL_QUICK_GELU), .layers = 12, .hidden = 768, .heads = 12, .intermediate = 3072, \
				 .image_size = 224, .patch = 32, .projection = 512
#define SIGLIP_TEXT                                                                             \
	PLAIN(MODEL_GELU_TANH), .layers = 12, .hidden = 768, .heads = 12, .intermediate = 3072, \
				.vocab = 32000, .positions = 64
#define SIGLIP_VISION                                                                           \
	PLAIN(MODEL_GELU_TANH), .layers = 12, .hidden = 768, .heads = 12, .intermediate = 3072, \
				.image_size = 224, .patch = 16, .pool_head = true

/* ---- Qwen-VL ---- */

#define VL_ATTENTION                                                       \
	{ "attn.qkv", MODEL_LINEAR, MODEL_ROLE_QKV, "3H H", 0, IF_TRUE },  \
	{                                                                  \
		"attn.proj", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE \
	}
#define VL_ROPE                                                                              \
	{ "rotary_pos_emb.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },              \
	{                                                                                    \
		"rotary_pos_emb.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" \
	}

static const struct model_row qwen2_vl_front[] = {
	{ "patch_embed.proj", MODEL_CONV, MODEL_ROLE_PATCH, "H C t p p" },
	VL_ROPE,
	ROWS_END,
};

static const struct model_row qwen2_vl_block[] = {
	{ "norm1", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "norm2", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	VL_ATTENTION,
	{ "mlp.fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row qwen2_vl_merger[] = {
	{ "merger.ln_q", MODEL_NORM_LAYER, MODEL_ROLE_MERGE_NORM, "H", 0, IF_TRUE },
	{ "merger.mlp.0", MODEL_LINEAR, MODEL_ROLE_MERGE1, "mH mH", 0, IF_TRUE },
	{ "merger.mlp.2", MODEL_LINEAR, MODEL_ROLE_MERGE2, "J mH", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row qwen2_5_vl_block[] = {
	{ "norm1", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	{ "norm2", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H" },
	VL_ATTENTION,
	{ "mlp.gate_proj", MODEL_LINEAR, MODEL_ROLE_GATE, "F H", 0, IF_TRUE },
	{ "mlp.up_proj", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.down_proj", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row qwen2_5_vl_merger[] = {
	{ "merger.ln_q", MODEL_NORM_RMS, MODEL_ROLE_MERGE_NORM, "H" },
	{ "merger.mlp.0", MODEL_LINEAR, MODEL_ROLE_MERGE1, "mH mH", 0, IF_TRUE },
	{ "merger.mlp.2", MODEL_LINEAR, MODEL_ROLE_MERGE2, "J mH", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row qwen3_vl_front[] = {
	{ "patch_embed.proj", MODEL_CONV, MODEL_ROLE_PATCH, "H C t p p", 0, IF_TRUE },
	{ "pos_embed", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	VL_ROPE,
	ROWS_END,
};

static const struct model_row qwen3_vl_block[] = {
	{ "norm1", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "norm2", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	VL_ATTENTION,
	{ "mlp.linear_fc1", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "mlp.linear_fc2", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row qwen3_vl_merger[] = {
	{ "norm", MODEL_NORM_LAYER, MODEL_ROLE_MERGE_NORM, "H", 0, IF_TRUE },
	{ "linear_fc1", MODEL_LINEAR, MODEL_ROLE_MERGE1, "mH mH", 0, IF_TRUE },
	{ "linear_fc2", MODEL_LINEAR, MODEL_ROLE_MERGE2, "J mH", 0, IF_TRUE },
	ROWS_END,
};

/* The same for the output of single blocks, normalised after it was merged. */
static const struct model_row qwen3_vl_deepstack[] = {
	{ "norm", MODEL_NORM_LAYER, MODEL_ROLE_MERGE_NORM, "mH", 0, IF_TRUE },
	{ "linear_fc1", MODEL_LINEAR, MODEL_ROLE_MERGE1, "mH mH", 0, IF_TRUE },
	{ "linear_fc2", MODEL_LINEAR, MODEL_ROLE_MERGE2, "J mH", 0, IF_TRUE },
	ROWS_END,
};

#define LANGUAGE_MODEL                                                                \
	{ "model.language_model.", model_llama_front, MODEL_TEXT },                   \
		{ "model.language_model.layers.%u.", model_llama_block, MODEL_TEXT }, \
		{ "model.language_model.", model_llama_back, MODEL_TEXT },            \
	{                                                                             \
		"", model_lm_head, MODEL_TEXT                                         \
	}

static const struct model_section qwen2_vl_sections[] = {
	{ "model.visual.", qwen2_vl_front, MODEL_VISION },
	{ "model.visual.blocks.%u.", qwen2_vl_block, MODEL_VISION },
	{ "model.visual.", qwen2_vl_merger, MODEL_VISION },
	LANGUAGE_MODEL,
	SECTIONS_END,
};

static const struct model_section qwen2_5_vl_sections[] = {
	{ "model.visual.", qwen2_vl_front, MODEL_VISION },
	{ "model.visual.blocks.%u.", qwen2_5_vl_block, MODEL_VISION },
	{ "model.visual.", qwen2_5_vl_merger, MODEL_VISION },
	LANGUAGE_MODEL,
	SECTIONS_END,
};

static const struct model_section qwen3_vl_sections[] = {
	{ "model.visual.", qwen3_vl_front, MODEL_VISION },
	{ "model.visual.blocks.%u.", qwen3_vl_block, MODEL_VISION },
	{ "model.visual.merger.", qwen3_vl_merger, MODEL_VISION },
	{ "model.visual.deepstack_merger_list.%u.", qwen3_vl_deepstack, MODEL_VISION,
	  offsetof(struct model_numbers, deepstack) },
	LANGUAGE_MODEL,
	SECTIONS_END,
};

static const struct model_section qwen3_5_sections[] = {
	{ "model.visual.", qwen3_vl_front, MODEL_VISION },
	{ "model.visual.blocks.%u.", qwen3_vl_block, MODEL_VISION },
	{ "model.visual.merger.", qwen3_vl_merger, MODEL_VISION },
	{ "model.language_model.", model_llama_front, MODEL_TEXT },
	{ "model.language_model.layers.%u.", model_qwen3_5_block, MODEL_TEXT },
	{ "model.language_model.", model_llama_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_head vl_heads[] = {
	{ "ForConditionalGeneration", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "Model", 0, 0, "model." },
	HEADS_END,
};

#define VL_KEYS                                                                                 \
	SIZE("depth", layers), SIZE("num_heads", heads),                                        \
		SIZE("temporal_patch_size", temporal_patch), SIZE("spatial_merge_size", merge), \
		SIZE("in_chans", channels)

/* Its hidden_size is the width that it hands to the language model. */
static const struct model_key qwen2_vl_vision_keys[] = {
	VL_KEYS,
	SIZE("embed_dim", hidden),
	SIZE("hidden_size", projection),
	RATE("mlp_ratio", mlp_ratio),
	KEYS_END,
};

static const struct model_key qwen_vl_vision_keys[] = {
	VL_KEYS,
	SIZE("out_hidden_size", projection),
	SIZE("num_position_embeddings", positions),
	KEY("deepstack_visual_indexes", deepstack, KEY_COUNT),
	KEYS_END,
};

/* Its window is in pixels. */
static const struct model_key qwen2_5_vl_vision_keys[] = {
	VL_KEYS,
	SIZE("out_hidden_size", projection),
	SIZE("window_size", window),
	KEYS_END,
};

static const struct model_key qwen_vl_text_keys[] = {
	SIZE("max_window_layers", window_from),
	SWITCH("use_cache", use_cache),
	KEYS_END,
};

static const struct model_key qwen3_vl_moe_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("use_cache", use_cache),
	SIZE("num_local_experts", experts),
	SIZE("num_experts", experts),
	SIZE("num_experts_per_tok", experts_per_token),
	SIZE("moe_intermediate_size", expert_intermediate),
	SIZE("decoder_sparse_step", sparse_step),
	KEY("mlp_only_layers", layers, KEY_DENSE_BLOCKS),
	SWITCH("output_router_logits", router_loss),
	KEYS_END,
};

static const struct model_key qwen3_vl_text_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("use_cache", use_cache),
	KEYS_END,
};

#define VL_VISION(norm, activation) \
	SEES(norm, activation, MODEL_POSITION_ROPE_2D), .heads = 16, .temporal_patch = 2, .merge = 2
#define VL_TEXT                                                                                   \
	DECODER(MODEL_RMS_NORM, MODEL_NORM_BEFORE, MODEL_SILU), .position = MODEL_POSITION_MROPE, \
								.use_cache = true
#define QWEN2_VL_TEXT                                                                             \
	VL_TEXT, .layers = 80, .hidden = 8192, .heads = 64, .kv_heads = 8, .intermediate = 29568, \
		 .vocab = 152064, .positions = 32768, .qkv_bias = true, .window = 4096,           \
		 .window_from = 80

/* Qwen 3's tower. */
#define QWEN3_VISION                                                                     \
	VL_VISION(MODEL_LAYER_NORM, MODEL_GELU_TANH), .layers = 27, .hidden = 1152,      \
						      .intermediate = 4304, .patch = 16, \
						      .projection = 3584, .positions = 2304

/* ---- Gemma 3 that sees ---- */

static const struct model_row gemma3_projector[] = {
	{ "mm_input_projection_weight", MODEL_PARAMETER, MODEL_ROLE_MERGE1, "H T" },
	{ "mm_soft_emb_norm.weight", MODEL_PARAMETER, MODEL_ROLE_MERGE_NORM, "H" },
	ROWS_END,
};

static const struct model_section gemma3_sections[] = {
	{ "model.vision_tower.", siglip_vision_front, MODEL_VISION },
	{ "model.vision_tower.encoder.layers.%u.", siglip_block, MODEL_VISION },
	{ "model.vision_tower.", vision_back, MODEL_VISION },
	{ "model.multi_modal_projector.", gemma3_projector, MODEL_VISION },
	LANGUAGE_MODEL,
	SECTIONS_END,
};

static const struct model_key gemma3_text_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	ACTIVATION("hidden_activation"),
	RATE("final_logit_softcapping", logit_softcap),
	RATE("attn_logit_softcapping", attention_softcap),
	SIZE("sliding_window_pattern", window_every),
	KEYS_END,
};

static const struct model_key gemma3_outer[] = { SIZE("mm_tokens_per_image", image_tokens),
						 KEYS_END };

/* ---- LLaVA, of Llama and CLIP ---- */

static const struct model_row llava_projector[] = {
	{ "linear_1", MODEL_LINEAR, MODEL_ROLE_MERGE1, "T H", 0, IF_TRUE },
	{ "linear_2", MODEL_LINEAR, MODEL_ROLE_MERGE2, "T T", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_section llava_sections[] = {
	{ "model.vision_tower.", clip_vision_front, MODEL_VISION },
	{ "model.vision_tower.encoder.layers.%u.", clip_block, MODEL_VISION },
	{ "model.vision_tower.", vision_back, MODEL_VISION },
	{ "model.multi_modal_projector.", llava_projector, MODEL_VISION },
	LANGUAGE_MODEL,
	SECTIONS_END,
};

static const struct model_key llava_text_keys[] = {
	SWITCH("attention_bias", qkv_bias),
	SWITCH("attention_bias", output_bias),
	SWITCH("mlp_bias", mlp_bias),
	KEYS_END,
};

static const struct model_key llava_outer[] = {
	SWITCH("tie_word_embeddings", tied),  IGNORED("projector_hidden_act"),
	IGNORED("multimodal_projector_bias"), /* the class's default; read nowhere else */
	IGNORED("vision_feature_layer"),      IGNORED("vision_feature_select_strategy"),
	IGNORED("image_seq_length"),          KEYS_END,
};

/* ---- Phi 3 that sees: CLIP's large tower, whose numbers its file does not say ---- */

static const struct model_row phi3_v_project[] = {
	{ "glb_GN", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1 1 4H" },
	{ "sub_GN", MODEL_PARAMETER, MODEL_ROLE_OTHER, "1 1 1 4H" },
	{ "img_projection.0", MODEL_LINEAR, MODEL_ROLE_OTHER, "T 4H", 0, IF_TRUE },
	{ "img_projection.2", MODEL_LINEAR, MODEL_ROLE_OTHER, "T T", 0, IF_TRUE },
	ROWS_END,
};

#define PHI3_EYE "model.vision_embed_tokens.img_processor.vision_model."
static const struct model_section phi3_v_sections[] = {
	{ "model.", model_llama_front, MODEL_TEXT },
	{ "model.vision_embed_tokens.", phi3_v_project, MODEL_VISION },
	{ PHI3_EYE, clip_vision_front, MODEL_VISION },
	{ PHI3_EYE "encoder.layers.%u.", clip_block, MODEL_VISION },
	{ PHI3_EYE, vision_back, MODEL_VISION },
	{ "model.layers.%u.", model_phi3_block, MODEL_TEXT },
	{ "model.", model_llama_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_head phi3_v_heads[] = {
	{ "Phi3VForCausalLM", IF_LM },
	HEADS_END,
};

static const struct model_key phi3_v_keys[] = {
	RATE("resid_pdrop", hidden_dropout),
	RATE("embd_pdrop", embedding_dropout),
	IGNORED("embd_layer"),
	IGNORED("img_processor"),
	KEYS_END,
};
/* What else it might be made of, nothing here knows. */
static const struct model_key phi3_v_eye_keys[] = {
	SIZE("image_dim_out", hidden),
	SIZE("num_img_tokens", image_tokens),
	IGNORED("name"),
	IGNORED("model_name"),
	KEYS_END,
};

/* ---- all of them ---- */

const struct model_family model_vision_language[] = {
	{ .name = "vit",
	  .forward = MODEL_AS_IMAGE,
	  .sections = vit_sections,
	  .heads = vit_heads,
	  .towers[MODEL_VISION] = { .keys = vit_keys,
				    .defaults = { PLAIN(MODEL_GELU), .layers = 12, .hidden = 768,
						  .heads = 12, .intermediate = 3072,
						  .image_size = 224, .patch = 16,
						  .qkv_bias = true } } },
	{ .name = "clip",
	  .forward = MODEL_AS_PAIR,
	  .sections = clip_sections,
	  .heads = pair_heads,
	  .towers = { [MODEL_TEXT] = { "text_config", clip_keys, pair_outer, { CLIP_TEXT } },
		      [MODEL_VISION] = { "vision_config",
					 clip_keys,
					 pair_outer,
					 { CLIP_VISION } } } },
	{ .name = "clip_text_model",
	  .forward = MODEL_AS_READ,
	  .sections = clip_sections,
	  .heads = tower_heads,
	  .towers[MODEL_TEXT] = { NULL, clip_keys, NULL, { CLIP_TEXT } } },
	{ .name = "clip_vision_model",
	  .forward = MODEL_AS_LOOK,
	  .sections = clip_sections,
	  .heads = tower_heads,
	  .towers[MODEL_VISION] = { NULL, clip_keys, NULL, { CLIP_VISION } } },
	{ .name = "siglip",
	  .forward = MODEL_AS_PAIR,
	  .sections = siglip_sections,
	  .heads = pair_heads,
	  .towers = { [MODEL_TEXT] = { "text_config", siglip_keys, NULL, { SIGLIP_TEXT } },
		      [MODEL_VISION] = { "vision_config",
					 siglip_keys,
					 NULL,
					 { SIGLIP_VISION } } } },
	{ .name = "siglip_text_model",
	  .forward = MODEL_AS_READ,
	  .sections = siglip_sections,
	  .heads = tower_heads,
	  .towers[MODEL_TEXT] = { NULL, siglip_keys, NULL, { SIGLIP_TEXT } } },
	{ .name = "siglip_vision_model",
	  .forward = MODEL_AS_LOOK,
	  .sections = siglip_sections,
	  .heads = tower_heads,
	  .towers[MODEL_VISION] = { NULL, siglip_keys, NULL, { SIGLIP_VISION } } },
	{ .name = "qwen2_vl",
	  .sections = qwen2_vl_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       qwen_vl_text_keys,
				       model_tied_outside,
				       { QWEN2_VL_TEXT } },
		      [MODEL_VISION] = { "vision_config",
					 qwen2_vl_vision_keys,
					 NULL,
					 { VL_VISION(MODEL_LAYER_NORM, MODEL_QUICK_GELU),
					   .layers = 32, .patch = 14, .hidden = 1280,
					   .mlp_ratio = 4, .projection = 3584 } } } },
	{ .name = "qwen2_5_vl",
	  .sections = qwen2_5_vl_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       qwen_vl_text_keys,
				       model_tied_outside,
				       { QWEN2_VL_TEXT } },
		      [MODEL_VISION] = { "vision_config",
					 qwen2_5_vl_vision_keys,
					 NULL,
					 { VL_VISION(MODEL_RMS_NORM, MODEL_SILU), .layers = 32,
					   .patch = 14, .gated = true, .hidden = 3584,
					   .window = 112, .window_every = 8, .use_window = true,
					   .intermediate = 3420, .projection = 3584 } } } },
	{ .name = "qwen3_vl",
	  .sections = qwen3_vl_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       qwen3_vl_text_keys,
				       model_tied_outside,
				       { VL_TEXT, .layers = 32, .hidden = 4096, .heads = 32,
					 .kv_heads = 32, .head_dim = 128, .intermediate = 22016,
					 .vocab = 151936, .positions = 128000, .qk_norm = true } },
		      [MODEL_VISION] = { "vision_config",
					 qwen_vl_vision_keys,
					 NULL,
					 { QWEN3_VISION, .deepstack = 3 } } } },
	{ .name = "qwen3_vl_moe",
	  .sections = qwen3_vl_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       qwen3_vl_moe_keys,
				       model_tied_outside,
				       { VL_TEXT, .layers = 24, .hidden = 2048, .heads = 16,
					 .kv_heads = 16, .head_dim = 128, .intermediate = 5632,
					 .vocab = 151936, .positions = 128000, .qk_norm = true,
					 .experts = 60, .experts_per_token = 4,
					 .expert_intermediate = 1408, .router_last = true } },
		      [MODEL_VISION] = { "vision_config",
					 qwen_vl_vision_keys,
					 NULL,
					 { QWEN3_VISION, .deepstack = 3 } } } },
	{ .name = "qwen3_5",
	  .sections = qwen3_5_sections,
	  .heads = vl_heads,
	  .unplanned = MODEL_LINEAR_ATTENTION,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_qwen3_5_keys,
				       model_tied_outside,
				       { MODEL_QWEN3_5 } },
		      [MODEL_VISION] = { "vision_config",
					 qwen_vl_vision_keys,
					 NULL,
					 { QWEN3_VISION } } } },
	{ .name = "qwen3_5_moe",
	  .sections = qwen3_5_sections,
	  .heads = vl_heads,
	  .unplanned = MODEL_LINEAR_ATTENTION,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_qwen3_5_keys,
				       model_tied_outside,
				       { MODEL_QWEN3_5_MOE } },
		      [MODEL_VISION] = { "vision_config",
					 qwen_vl_vision_keys,
					 NULL,
					 { QWEN3_VISION } } } },
	{ .name = "llava",
	  .sections = llava_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       llava_text_keys,
				       llava_outer,
				       { DECODER(MODEL_RMS_NORM, MODEL_NORM_BEFORE, MODEL_SILU),
					 .position = MODEL_POSITION_ROPE, .layers = 32,
					 .hidden = 4096, .heads = 32, .intermediate = 11008,
					 .vocab = 32000, .positions = 2048 },
				       "llama" },
		      [MODEL_VISION] = { "vision_config",
					 clip_keys,
					 NULL,
					 { CLIP_VISION, .image_tokens = 576 },
					 "clip_vision_model" } } },
	{ .name = "phi3_v",
	  .sections = phi3_v_sections,
	  .heads = phi3_v_heads,
	  .towers = { [MODEL_TEXT] = { NULL,
				       phi3_v_keys,
				       NULL,
				       { LLAMA_LIKE, .layers = 32, .hidden = 3072, .heads = 32,
					 .intermediate = 8192, .vocab = 32064,
					 .positions = 131072 } },
		      [MODEL_VISION] = { "img_processor",
					 phi3_v_eye_keys,
					 NULL,
					 { PLAIN(MODEL_QUICK_GELU), .layers = 24, .hidden = 1024,
					   .heads = 16, .intermediate = 4096, .image_size = 336,
					   .patch = 14, .projection = 768, .image_tokens = 144 },
					 "clip_vision_model" } } },
	{ .name = "gemma3",
	  .sections = gemma3_sections,
	  .heads = vl_heads,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       gemma3_text_keys,
				       model_tied_outside,
				       { DECODER(MODEL_RMS_NORM_GEMMA, MODEL_NORM_AROUND,
						 MODEL_GELU_TANH),
					 .position = MODEL_POSITION_ROPE, .layers = 26,
					 .hidden = 2304, .heads = 8, .kv_heads = 4, .head_dim = 256,
					 .intermediate = 9216, .vocab = 262208, .positions = 131072,
					 .window = 4096, .window_every = 6, .use_window = true,
					 .qk_norm = true, .two_ropes = true, .tied = true,
					 .embed_scale = true } },
		      [MODEL_VISION] = { "vision_config",
					 siglip_keys,
					 gemma3_outer,
					 { SIGLIP_VISION, .image_tokens = 256 } } } },
};
const size_t model_vision_language_count =
	sizeof(model_vision_language) / sizeof(model_vision_language[0]);
