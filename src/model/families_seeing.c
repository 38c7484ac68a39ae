/*
 * Models that see, and one that hears, whose towers are known to the element and do not run here: with images they are refused,
 * of texts alone the language model is planned as it would be without them.  Names are those of Transformers 5.
 */
#include "rows.h"

#define OTHER(name, kind, shape, bias)                       \
	{                                                    \
		name, kind, MODEL_ROLE_OTHER, shape, 0, bias \
	}
#define NORM(name) OTHER(name, MODEL_NORM_LAYER, "H", IF_TRUE)
#define RMS(name) OTHER(name, MODEL_NORM_RMS, "H", 0)
#define SEES .channels = 3, .labels = 2, .image_tokens = 256

static const struct model_head seeing_heads[] = {
	{ "ForConditionalGeneration", IF_LM },
	{ "MiniMaxM3SparseForConditionalGeneration", IF_LM },
	{ "Model", 0, 0, "model." },
	HEADS_END,
};

/* ---- Gemma 4 ---- */

static const struct model_row gemma4_vision_front[] = {
	OTHER("patch_embedder.position_embedding_table", MODEL_PARAMETER, "2 P H", 0),
	OTHER("patch_embedder.input_proj", MODEL_LINEAR, "H Cpp", 0),
	ROWS_END,
};
static const struct model_row gemma4_vision_block[] = {
	OTHER("self_attn.q_proj.linear", MODEL_LINEAR, "Q H", IF_QKV_BIAS),
	OTHER("self_attn.k_proj.linear", MODEL_LINEAR, "K H", IF_QKV_BIAS),
	OTHER("self_attn.v_proj.linear", MODEL_LINEAR, "K H", IF_QKV_BIAS),
	OTHER("self_attn.o_proj.linear", MODEL_LINEAR, "H Q", IF_QKV_BIAS),
	OTHER("self_attn.q_norm", MODEL_NORM_RMS, "D", 0),
	OTHER("self_attn.k_norm", MODEL_NORM_RMS, "D", 0),
	OTHER("mlp.gate_proj.linear", MODEL_LINEAR, "F H", 0),
	OTHER("mlp.up_proj.linear", MODEL_LINEAR, "F H", 0),
	OTHER("mlp.down_proj.linear", MODEL_LINEAR, "H F", 0),
	RMS("input_layernorm"),
	RMS("post_attention_layernorm"),
	RMS("pre_feedforward_layernorm"),
	RMS("post_feedforward_layernorm"),
	ROWS_END,
};
static const struct model_row gemma4_vision_embed[] = {
	OTHER("embedding_projection", MODEL_LINEAR, "T H", 0),
	ROWS_END,
};
static const struct model_row gemma4_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_tokens.embed_scale", MODEL_BUFFER, MODEL_ROLE_OTHER, "" },
	ROWS_END,
};

/* A conformer behind two convolutions, of a spectrum of 128 that they make a quarter as wide. */
static const struct model_row gemma4_audio_front[] = {
	OTHER("layer0.conv", MODEL_CONV, "C 1 3 3", 0),
	OTHER("layer0.norm", MODEL_NORM_RMS, "C", 0), /* without a bias, though of layers */
	OTHER("layer1.conv", MODEL_CONV, "s C 3 3", 0),
	OTHER("layer1.norm", MODEL_NORM_RMS, "s", 0),
	OTHER("input_proj_linear", MODEL_LINEAR, "H 48s", 0),
	ROWS_END,
};
#define AUDIO_MLP(number)                                                                    \
	OTHER("feed_forward" number ".ffw_layer_1.linear", MODEL_LINEAR, "4H H", 0),         \
		OTHER("feed_forward" number ".ffw_layer_2.linear", MODEL_LINEAR, "H 4H", 0), \
		RMS("feed_forward" number ".pre_layer_norm"),                                \
		RMS("feed_forward" number ".post_layer_norm")
static const struct model_row gemma4_audio_block[] = {
	AUDIO_MLP("1"),
	AUDIO_MLP("2"),
	OTHER("self_attn.per_dim_scale", MODEL_PARAMETER, "D", 0),
	OTHER("self_attn.q_proj.linear", MODEL_LINEAR, "Q H", 0),
	OTHER("self_attn.k_proj.linear", MODEL_LINEAR, "Q H", 0),
	OTHER("self_attn.v_proj.linear", MODEL_LINEAR, "Q H", 0),
	OTHER("self_attn.post.linear", MODEL_LINEAR, "H Q", 0),
	OTHER("self_attn.relative_k_proj", MODEL_LINEAR, "Q H", 0),
	OTHER("lconv1d.linear_start.linear", MODEL_LINEAR, "2H H", 0),
	OTHER("lconv1d.linear_end.linear", MODEL_LINEAR, "H H", 0),
	OTHER("lconv1d.depthwise_conv1d", MODEL_CONV, "H 1 c", 0),
	RMS("lconv1d.pre_layer_norm"),
	RMS("lconv1d.conv_norm"),
	RMS("norm_pre_attn"),
	RMS("norm_post_attn"),
	RMS("norm_out"),
	ROWS_END,
};
static const struct model_row gemma4_audio_back[] = {
	OTHER("output_proj", MODEL_LINEAR, "J H", IF_TRUE),
	ROWS_END,
};
static const struct model_row gemma4_audio_embed[] = {
	OTHER("embedding_projection", MODEL_LINEAR, "T J", 0),
	ROWS_END,
};

static const struct model_section gemma4_sections[] = {
	{ "model.vision_tower.", gemma4_vision_front, MODEL_VISION },
	{ "model.vision_tower.encoder.layers.%u.", gemma4_vision_block, MODEL_VISION },
	{ "model.language_model.", gemma4_front, MODEL_TEXT },
	{ "model.language_model.layers.%u.", model_gemma4_block, MODEL_TEXT },
	{ "model.language_model.", model_gemma4_back, MODEL_TEXT },
	{ "model.audio_tower.subsample_conv_projection.", gemma4_audio_front, MODEL_ENCODER },
	{ "model.audio_tower.layers.%u.", gemma4_audio_block, MODEL_ENCODER },
	{ "model.audio_tower.", gemma4_audio_back, MODEL_ENCODER },
	{ "model.embed_vision.", gemma4_vision_embed, MODEL_VISION },
	{ "model.embed_audio.", gemma4_audio_embed, MODEL_ENCODER },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_key gemma4_vision_keys[] = {
	SIZE("position_embedding_size", positions),
	SIZE("default_output_length", image_tokens),
	SWITCH("attention_bias", qkv_bias),
	ACTIVATION("hidden_activation"),
	IGNORED("max_position_embeddings"),
	IGNORED("global_head_dim"),
	IGNORED("pooling_kernel_size"),
	IGNORED("standardize"),         /* buffers of 2 hidden sizes */
	IGNORED("use_clipped_linears"), /* buffers of four numbers each */
	IGNORED("image_seq_length"),
	IGNORED("video_seq_length"),
	KEYS_END,
};
static const struct model_key gemma4_audio_keys[] = {
	SIZE("subsampling_conv_channels", channels),
	KEY("subsampling_conv_channels", state, KEY_SECOND),
	SIZE("conv_kernel_size", conv),
	SIZE("output_proj_dims", projection),
	IGNORED("residual_weight"),
	IGNORED("attention_chunk_size"),
	IGNORED("attention_context_left"),
	IGNORED("attention_context_right"),
	IGNORED("attention_logit_cap"),
	IGNORED("attention_invalid_logits_value"),
	IGNORED("use_clipped_linears"),
	KEYS_END,
};
static const struct model_key gemma4_outer[] = {
	SWITCH("tie_word_embeddings", tied),
	IGNORED("vision_soft_tokens_per_image"),
	KEYS_END,
};

/* ---- Kimi K2.5: MoonViT before DeepSeek V3 ---- */

static const struct model_row moonvit_front[] = {
	OTHER("proj", MODEL_CONV, "H C p p", IF_TRUE),
	OTHER("pos_emb.position_embeddings", MODEL_PARAMETER, "^ _ H", 0),
	{ "pos_emb.time_position_embeddings", MODEL_BUFFER, MODEL_ROLE_OTHER, "t+1 H", 0, 0, 0,
	  "float32" },
	ROWS_END,
};
static const struct model_row moonvit_block[] = {
	NORM("norm1"),
	NORM("norm2"),
	OTHER("attn.proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("attn.q_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("attn.k_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("attn.v_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("mlp.fc1", MODEL_LINEAR, "F H", IF_TRUE),
	OTHER("mlp.fc2", MODEL_LINEAR, "H F", IF_TRUE),
	ROWS_END,
};
static const struct model_row moonvit_back[] = { NORM("final_layernorm"), ROWS_END };
static const struct model_row moonvit_projector[] = {
	NORM("pre_norm"),
	OTHER("in_proj", MODEL_LINEAR, "mH mH", IF_TRUE),
	OTHER("out_proj", MODEL_LINEAR, "T mH", IF_TRUE),
	ROWS_END,
};
static const struct model_section kimi_sections[] = {
	{ "model.vision_tower.patch_embed.", moonvit_front, MODEL_VISION },
	{ "model.vision_tower.layers.%u.", moonvit_block, MODEL_VISION },
	{ "model.vision_tower.", moonvit_back, MODEL_VISION },
	{ "model.language_model.", model_llama_front, MODEL_TEXT },
	{ "model.language_model.layers.%u.", model_mla_block, MODEL_TEXT },
	{ "model.language_model.", model_llama_back, MODEL_TEXT },
	{ "model.mm_projector.", moonvit_projector, MODEL_VISION },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key moonvit_keys[] = {
	SIZE("vt_hidden_size", hidden),
	SIZE("vt_num_hidden_layers", layers),
	SIZE("vt_num_attention_heads", heads),
	SIZE("vt_intermediate_size", intermediate),
	SIZE("init_pos_emb_height", rows),
	SIZE("pos_emb_height", rows),
	SIZE("init_pos_emb_width", columns),
	SIZE("pos_emb_width", columns),
	SIZE("init_pos_emb_time", temporal_patch),
	SIZE("pos_emb_time", temporal_patch),
	SIZE("merge_kernel_size", merge),
	IGNORED("merge_type"),
	IGNORED("mm_hidden_size"), /* as vt_hidden_size */
	IGNORED("mm_projector_type"),
	IGNORED("pos_emb_type"),
	IGNORED("projector_hidden_act"),
	IGNORED("text_hidden_size"),
	IGNORED("video_attn_type"),
	KEYS_END,
};
static const struct model_key kimi_outer[] = {
	SWITCH("tie_word_embeddings", tied),
	IGNORED("use_unified_vision_chunk"),
	IGNORED("projection_hidden_size"),
	KEYS_END,
};

/* ---- Mistral 3: Pixtral's tower ---- */

static const struct model_row pixtral_front[] = {
	OTHER("patch_conv", MODEL_CONV, "H C p p", 0),
	RMS("ln_pre"),
	ROWS_END,
};
static const struct model_row pixtral_block[] = {
	RMS("attention_norm"),
	OTHER("feed_forward.gate_proj", MODEL_LINEAR, "F H", 0),
	OTHER("feed_forward.up_proj", MODEL_LINEAR, "F H", 0),
	OTHER("feed_forward.down_proj", MODEL_LINEAR, "H F", 0),
	OTHER("attention.k_proj", MODEL_LINEAR, "H H", 0),
	OTHER("attention.v_proj", MODEL_LINEAR, "H H", 0),
	OTHER("attention.q_proj", MODEL_LINEAR, "H H", 0),
	OTHER("attention.o_proj", MODEL_LINEAR, "H H", 0),
	RMS("ffn_norm"),
	ROWS_END,
};
static const struct model_row pixtral_back[] = {
	{ "patch_positional_embedding.inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "patch_positional_embedding.original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER,
	  "R" },
	ROWS_END,
};
static const struct model_row mistral3_projector[] = {
	RMS("norm"),
	OTHER("patch_merger.merging_layer", MODEL_LINEAR, "H mH", 0),
	OTHER("linear_1", MODEL_LINEAR, "T H", IF_OUTPUT_BIAS),
	OTHER("linear_2", MODEL_LINEAR, "T T", IF_OUTPUT_BIAS),
	ROWS_END,
};
#define LLAMA_THAT_READS(root)                                        \
	{ root, model_llama_front, MODEL_TEXT },                      \
		{ root "layers.%u.", model_llama_block, MODEL_TEXT }, \
	{                                                             \
		root, model_llama_back, MODEL_TEXT                    \
	}
static const struct model_section mistral3_sections[] = {
	{ "model.vision_tower.", pixtral_front, MODEL_VISION },
	{ "model.vision_tower.transformer.layers.%u.", pixtral_block, MODEL_VISION },
	{ "model.vision_tower.", pixtral_back, MODEL_VISION },
	{ "model.multi_modal_projector.", mistral3_projector, MODEL_VISION },
	LLAMA_THAT_READS("model.language_model."),
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key mistral3_outer[] = {
	SWITCH("tie_word_embeddings", tied),
	IGNORED("projector_hidden_act"),
	IGNORED("vision_feature_layer"),
	KEYS_END,
};
static const struct model_key mistral3_vision_outer[] = {
	SIZE("spatial_merge_size", merge),
	SWITCH("multimodal_projector_bias", output_bias),
	KEYS_END,
};
#define MISTRAL3                                                                               \
	.sections = mistral3_sections, .heads = seeing_heads,                                  \
	.towers = { [MODEL_TEXT] = { "text_config",                                            \
				     NULL,                                                     \
				     mistral3_outer,                                           \
				     { LLAMA_LIKE, .layers = 40, .hidden = 5120, .heads = 32,  \
				       .kv_heads = 8, .head_dim = 128, .intermediate = 32768,  \
				       .vocab = 131072, .positions = 131072, .tied = true } }, \
		    [MODEL_VISION] = { "vision_config",                                        \
				       NULL,                                                   \
				       mistral3_vision_outer,                                  \
				       { SEES, .layers = 24, .hidden = 1024, .heads = 16,      \
					 .head_dim = 64, .intermediate = 4096, .patch = 14,    \
					 .merge = 2 },                                         \
				       "pixtral" } }

/* ---- Llama 4 ---- */

static const struct model_row llama4_vision_front[] = {
	OTHER("class_embedding", MODEL_PARAMETER, "H", 0),
	OTHER("positional_embedding_vlm", MODEL_PARAMETER, "N+1 H", 0),
	OTHER("patch_embedding.linear", MODEL_LINEAR, "H Cpp", 0),
	NORM("layernorm_pre"),
	NORM("layernorm_post"),
	ROWS_END,
};
static const struct model_row llama4_vision_block[] = {
	OTHER("self_attn.q_proj", MODEL_LINEAR, "Q H", IF_TRUE),
	OTHER("self_attn.k_proj", MODEL_LINEAR, "Q H", IF_TRUE),
	OTHER("self_attn.v_proj", MODEL_LINEAR, "Q H", IF_TRUE),
	OTHER("self_attn.o_proj", MODEL_LINEAR, "H Q", IF_TRUE),
	OTHER("mlp.fc1", MODEL_LINEAR, "F H", IF_TRUE),
	OTHER("mlp.fc2", MODEL_LINEAR, "H F", IF_TRUE),
	NORM("input_layernorm"),
	NORM("post_attention_layernorm"),
	ROWS_END,
};
/* X into the adapter, P out of it, J out of the tower. */
static const struct model_row llama4_adapter[] = {
	OTHER("vision_model.vision_adapter.mlp.fc1", MODEL_LINEAR, "X F", 0),
	OTHER("vision_model.vision_adapter.mlp.fc2", MODEL_LINEAR, "P P", 0),
	OTHER("multi_modal_projector.linear_1", MODEL_LINEAR, "T J", 0),
	ROWS_END,
};
static const struct model_section llama4_sections[] = {
	{ "vision_model.", llama4_vision_front, MODEL_VISION },
	{ "vision_model.model.layers.%u.", llama4_vision_block, MODEL_VISION },
	{ "", llama4_adapter, MODEL_VISION },
	{ "language_model.model.", model_llama_front, MODEL_TEXT },
	{ "language_model.model.layers.%u.", model_llama4_block, MODEL_TEXT },
	{ "language_model.model.", model_llama4_back, MODEL_TEXT },
	{ "language_model.", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key llama4_vision_keys[] = {
	SIZE("projector_input_dim", expert_hidden),
	SIZE("projector_output_dim", positions),
	SIZE("vision_output_dim", projection),
	IGNORED("pixel_shuffle_ratio"),
	IGNORED("vision_feature_select_strategy"),
	IGNORED("vision_feature_layer"),
	KEYS_END,
};

/* ---- MiniMax M3 ---- */

static const struct model_row minimax_vision_front[] = {
	OTHER("embeddings.proj", MODEL_CONV, "H C t p p", 0),
	NORM("pre_layrnorm"),
	ROWS_END,
};
static const struct model_row minimax_vision_block[] = {
	OTHER("self_attn.k_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.v_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.q_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.out_proj", MODEL_LINEAR, "H H", IF_TRUE),
	NORM("layer_norm1"),
	OTHER("mlp.fc1", MODEL_LINEAR, "F H", IF_TRUE),
	OTHER("mlp.fc2", MODEL_LINEAR, "H F", IF_TRUE),
	NORM("layer_norm2"),
	ROWS_END,
};
static const struct model_row minimax_projector[] = {
	OTHER("linear_1", MODEL_LINEAR, "J H", IF_TRUE),
	OTHER("linear_2", MODEL_LINEAR, "T J", IF_TRUE),
	OTHER("merge_linear_1", MODEL_LINEAR, "J mT", IF_TRUE),
	OTHER("merge_linear_2", MODEL_LINEAR, "T J", IF_TRUE),
	ROWS_END,
};
static const struct model_section minimax_sections[] = {
	{ "model.vision_tower.", minimax_vision_front, MODEL_VISION },
	{ "model.vision_tower.layers.%u.", minimax_vision_block, MODEL_VISION },
	{ "model.multi_modal_projector.", minimax_projector, MODEL_VISION },
	{ "model.language_model.", model_llama_front, MODEL_TEXT },
	{ "model.language_model.layers.%u.", model_minimax_m3_block, MODEL_TEXT },
	{ "model.language_model.", model_llama_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key minimax_vision_keys[] = {
	SIZE("spatial_merge_size", merge),
	SIZE("img_token_compression_config.spatial_merge_size", merge),
	SIZE("temporal_patch_size", temporal_patch),
	SIZE("img_token_compression_config.temporal_patch_size", temporal_patch),
	IGNORED("img_token_compression_config"),
	IGNORED("projection_dim"),
	IGNORED("vision_segment_max_frames"),
	IGNORED("vocab_size"),
	KEYS_END,
};
static const struct model_key minimax_vision_outer[] = {
	SIZE("projector_hidden_size", projection),
	KEYS_END,
};
static const struct model_key minimax_outer[] = {
	SWITCH("tie_word_embeddings", tied),  IGNORED("img_token_compression_config"),
	IGNORED("image_grid_pinpoints"),      IGNORED("image_seq_length"),
	IGNORED("multimodal_projector_bias"), /* the class always has it */
	IGNORED("process_image_mode"),        IGNORED("projector_hidden_act"),
	IGNORED("vision_feature_layer"),      IGNORED("vision_feature_select_strategy"),
	IGNORED("num_reward_heads"),          KEYS_END,
};

/* ---- Step 3.7 ---- */

static const struct model_row step3_vision_front[] = {
	OTHER("embeddings.patch_embedding", MODEL_CONV, "H C p p", 0),
	OTHER("embeddings.position_embedding", MODEL_EMBEDDING, "N H", 0),
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_OTHER, "1 N", 0, 0, 0, "int64" },
	NORM("pre_layernorm"),
	ROWS_END,
};
static const struct model_row step3_vision_block[] = {
	OTHER("lambda_1", MODEL_PARAMETER, "H", 0),
	OTHER("lambda_2", MODEL_PARAMETER, "H", 0),
	OTHER("self_attn.k_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.v_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.q_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("self_attn.out_proj", MODEL_LINEAR, "H H", IF_TRUE),
	OTHER("mlp.fc1", MODEL_LINEAR, "F H", IF_TRUE),
	OTHER("mlp.fc2", MODEL_LINEAR, "H F", IF_TRUE),
	NORM("layernorm_before"),
	NORM("layernorm_after"),
	ROWS_END,
};
static const struct model_row step3_vision_back[] = {
	OTHER("downsampler1", MODEL_CONV, "2H H 3 3", IF_TRUE),
	OTHER("downsampler2", MODEL_CONV, "4H 2H 3 3", IF_TRUE),
	ROWS_END,
};
static const struct model_row step3_projector[] = {
	OTHER("multi_modal_projector", MODEL_LINEAR, "T 4H", IF_OUTPUT_BIAS),
	ROWS_END,
};
static const struct model_section step3_sections[] = {
	{ "model.vision_model.", step3_vision_front, MODEL_VISION },
	{ "model.vision_model.layers.%u.", step3_vision_block, MODEL_VISION },
	{ "model.vision_model.", step3_vision_back, MODEL_VISION },
	{ "model.language_model.", model_llama_front, MODEL_TEXT },
	{ "model.language_model.layers.%u.", model_step3_block, MODEL_TEXT },
	{ "model.language_model.", model_llama_back, MODEL_TEXT },
	{ "model.", step3_projector, MODEL_VISION },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key step3_vision_keys[] = {
	SIZE("width", hidden),
	SIZE("layers", layers),
	SIZE("heads", heads),
	RATE("mlp_ratio", mlp_ratio),
	IGNORED("intermediate_size"), /* hidden_size * mlp_ratio, always */
	IGNORED("ls_init_value"),
	IGNORED("layer_scale_init_value"),
	KEYS_END,
};
static const struct model_key step3_vision_outer[] = {
	SWITCH("projector_bias", output_bias),
	KEYS_END,
};

/* ---- all of them ---- */

const struct model_family model_seeing[] = {
	{ .name = "gemma4",
	  .sections = gemma4_sections,
	  .heads = seeing_heads,
	  .unplanned = MODEL_GEMMA4_UNPLANNED,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_gemma4_keys,
				       gemma4_outer,
				       { MODEL_GEMMA4 } },
		      [MODEL_VISION] = { "vision_config",
					 gemma4_vision_keys,
					 NULL,
					 { SEES, .layers = 16, .hidden = 768, .heads = 12,
					   .head_dim = 64, .intermediate = 3072, .patch = 16,
					   .positions = 10240 },
					 .optional = true },
		      [MODEL_ENCODER] = { "audio_config",
					  gemma4_audio_keys,
					  NULL,
					  { .layers = 12,
					    .hidden = 1024,
					    .heads = 8,
					    .channels = 128,
					    .state = 32,
					    .conv = 5,
					    .projection = 1536 },
					  .optional = true } } },
	{ .name = "kimi_k25",
	  .sections = kimi_sections,
	  .heads = seeing_heads,
	  .adapters = "q_proj,q_a_proj,q_b_proj,kv_b_proj",
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_mla_keys,
				       kimi_outer,
				       { MODEL_MLA, .first_dense = 3, .tied = true } },
		      [MODEL_VISION] = { "vision_config",
					 moonvit_keys,
					 NULL,
					 { SEES, .layers = 27, .hidden = 1152, .heads = 16,
					   .intermediate = 4304, .patch = 14, .merge = 2,
					   .rows = 64, .columns = 64, .temporal_patch = 4 } } } },
	{ .name = "mistral3", MISTRAL3 },
	{ .name = "llama4",
	  .sections = llama4_sections,
	  .heads = seeing_heads,
	  .inexact = MODEL_LLAMA4_INEXACT,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_llama4_keys,
				       model_tied_outside,
				       { MODEL_LLAMA4 } },
		      [MODEL_VISION] = { "vision_config",
					 llama4_vision_keys,
					 NULL,
					 { SEES, .layers = 34, .hidden = 768, .heads = 16,
					   .intermediate = 5632, .image_size = 448, .patch = 14,
					   .expert_hidden = 4096, .positions = 4096,
					   .projection = 7680 } } } },
	{ .name = "minimax_m3_vl",
	  .sections = minimax_sections,
	  .heads = seeing_heads,
	  .unplanned = MODEL_MINIMAX_M3_UNPLANNED,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_minimax_m3_keys,
				       minimax_outer,
				       { MODEL_MINIMAX_M3 } },
		      [MODEL_VISION] = { "vision_config",
					 minimax_vision_keys,
					 minimax_vision_outer,
					 { SEES, .layers = 32, .hidden = 1280, .heads = 16,
					   .intermediate = 5120, .image_size = 2016, .patch = 14,
					   .temporal_patch = 2, .merge = 2,
					   .projection = 6144 } } } },
	{ .name = "step3p7",
	  .sections = step3_sections,
	  .heads = seeing_heads,
	  .unplanned = MODEL_STEP3_UNPLANNED,
	  .towers = { [MODEL_TEXT] = { "text_config",
				       model_step3_keys,
				       model_tied_outside,
				       { MODEL_STEP3 } },
		      [MODEL_VISION] = { "vision_config",
					 step3_vision_keys,
					 step3_vision_outer,
					 { SEES, .layers = 47, .hidden = 1536, .heads = 16,
					   .mlp_ratio = 8960.0 / 1536, .image_size = 728,
					   .patch = 14 } } } },
};
const size_t model_seeing_count = sizeof(model_seeing) / sizeof(model_seeing[0]);
