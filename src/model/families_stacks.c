/*
 * Encoders with decoders that normalise by layer: BART and those built like it, Whisper.  No run of them was measured.  Names
 * are those of Transformers 5.
 */
#include "tables.h"

#define NORM(name_, role_)                                      \
	{                                                       \
		name_, MODEL_NORM_LAYER, role_, "H", 0, IF_TRUE \
	}
#define LINEAR(name_, role_, shape_)                           \
	{                                                      \
		name_, MODEL_LINEAR, role_, shape_, 0, IF_TRUE \
	}
#define ATTENTION(path, k, v, q, o, key_bias)                                                      \
	{ path ".k_proj", MODEL_LINEAR, k, "H H", 0, key_bias }, LINEAR(path ".v_proj", v, "H H"), \
		LINEAR(path ".q_proj", q, "H H"), LINEAR(path ".out_proj", o, "H H")
#define OWN(key_bias)                                                                             \
	ATTENTION("self_attn", MODEL_ROLE_K, MODEL_ROLE_V, MODEL_ROLE_Q, MODEL_ROLE_O, key_bias), \
		NORM("self_attn_layer_norm", MODEL_ROLE_NORM1)
#define CROSS(key_bias)                                                                       \
	ATTENTION("encoder_attn", MODEL_ROLE_CROSS_K, MODEL_ROLE_CROSS_V, MODEL_ROLE_CROSS_Q, \
		  MODEL_ROLE_CROSS_O, key_bias),                                              \
		NORM("encoder_attn_layer_norm", MODEL_ROLE_CROSS_NORM)
#define MLP                                                                         \
	LINEAR("fc1", MODEL_ROLE_UP, "F H"), LINEAR("fc2", MODEL_ROLE_DOWN, "H F"), \
		NORM("final_layer_norm", MODEL_ROLE_NORM2)

static const struct model_row encoder_block[] = { OWN(IF_TRUE), MLP, ROWS_END };
static const struct model_row decoder_block[] = { OWN(IF_TRUE), CROSS(IF_TRUE), MLP, ROWS_END };

static const struct model_row shared[] = {
	{ "shared", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};
/* Positions behind two that mean padding; or as many as there are. */
static const struct model_row front_behind_two[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_OTHER, "V H", IF_UNTIED },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P+2 H" },
	ROWS_END,
};
static const struct model_row front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_OTHER, "V H", IF_UNTIED },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};
static const struct model_row no_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_OTHER, "V H", IF_UNTIED },
	ROWS_END,
};
static const struct model_row embed_normed[] = { NORM("layernorm_embedding", MODEL_ROLE_EMBED_NORM),
						 ROWS_END };
static const struct model_row both_normed[] = {
	NORM("layernorm_embedding", MODEL_ROLE_EMBED_NORM),
	NORM("layer_norm", MODEL_ROLE_FINAL_NORM),
	ROWS_END,
};
static const struct model_row normed[] = { NORM("layer_norm", MODEL_ROLE_FINAL_NORM), ROWS_END };
static const struct model_row no_back[] = { ROWS_END };
static const struct model_row head[] = {
	{ "final_logits_bias", MODEL_BUFFER, MODEL_ROLE_OTHER, "1 V", IF_LM },
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	{ "classification_head.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_CLASS,
	  IF_TRUE },
	{ "classification_head.out_proj", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	ROWS_END,
};
static const struct model_row bare_head[] = {
	{ "lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	ROWS_END,
};

#define STACKS(name_, front_, back_, head_)                                   \
	static const struct model_section name_[] = {                         \
		{ "model.", shared, MODEL_ENCODER },                          \
		{ "model.encoder.", front_, MODEL_ENCODER },                  \
		{ "model.encoder.layers.%u.", encoder_block, MODEL_ENCODER }, \
		{ "model.encoder.", back_, MODEL_ENCODER },                   \
		{ "model.decoder.", front_, MODEL_TEXT },                     \
		{ "model.decoder.layers.%u.", decoder_block, MODEL_TEXT },    \
		{ "model.decoder.", back_, MODEL_TEXT },                      \
		{ "", head_, MODEL_TEXT },                                    \
		SECTIONS_END,                                                 \
	}

STACKS(bart_sections, front_behind_two, embed_normed, head);
STACKS(mbart_sections, front_behind_two, both_normed, head);
STACKS(pegasus_sections, front, normed, head);
STACKS(marian_sections, front, no_back, head);
STACKS(m2m_sections, no_front, normed, bare_head);

static const struct model_head stack_heads[] = {
	{ "ForConditionalGeneration", IF_LM },
	{ "MTModel", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "Model", 0 },
	HEADS_END,
};

/* ---- Whisper ---- */

static const struct model_row whisper_front[] = {
	{ "conv1", MODEL_CONV, MODEL_ROLE_OTHER, "H C 3", 0, IF_TRUE },
	{ "conv2", MODEL_CONV, MODEL_ROLE_OTHER, "H H 3", 0, IF_TRUE },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};
static const struct model_row whisper_encoder_block[] = { OWN(0), MLP, ROWS_END };
static const struct model_row whisper_decoder_block[] = { OWN(0), CROSS(0), MLP, ROWS_END };
static const struct model_row whisper_decoder_front[] = {
	{ "embed_tokens", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embed_positions", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};
static const struct model_row whisper_head[] = {
	{ "proj_out", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, 0, IF_TIED },
	ROWS_END,
};
static const struct model_section whisper_sections[] = {
	{ "model.encoder.", whisper_front, MODEL_ENCODER },
	{ "model.encoder.layers.%u.", whisper_encoder_block, MODEL_ENCODER },
	{ "model.encoder.", normed, MODEL_ENCODER },
	{ "model.decoder.", whisper_decoder_front, MODEL_TEXT },
	{ "model.decoder.layers.%u.", whisper_decoder_block, MODEL_TEXT },
	{ "model.decoder.", normed, MODEL_TEXT },
	{ "", whisper_head, MODEL_TEXT },
	SECTIONS_END,
};

/* ---- keys ---- */

#define BOTH                                                                        \
	SIZE("d_model", hidden), SIZE("max_position_embeddings", positions),        \
		ACTIVATION("activation_function"), RATE("dropout", hidden_dropout), \
		RATE("dropout", embedding_dropout), IGNORED("activation_dropout"),  \
		IGNORED("encoder_layerdrop"), IGNORED("decoder_layerdrop"),         \
		IGNORED("scale_embedding"), IGNORED("classifier_dropout"),          \
		IGNORED("num_hidden_layers"), IGNORED("normalize_before"),          \
		IGNORED("normalize_embedding"), IGNORED("add_final_layer_norm"),    \
		IGNORED("add_bias_logits"), IGNORED("static_position_embeddings"),  \
		IGNORED("extra_pos_embeddings"), IGNORED("classif_dropout"),        \
		IGNORED("share_encoder_decoder_embeddings"), IGNORED("decoder_vocab_size")

static const struct model_key encoder_keys[] = {
	BOTH,
	SIZE("encoder_layers", layers),
	SIZE("encoder_attention_heads", heads),
	SIZE("encoder_ffn_dim", intermediate),
	SIZE("num_mel_bins", channels),
	SIZE("max_source_positions", positions),
	KEYS_END,
};
static const struct model_key decoder_keys[] = {
	BOTH,
	SIZE("decoder_layers", layers),
	SIZE("decoder_attention_heads", heads),
	SIZE("decoder_ffn_dim", intermediate),
	SIZE("max_target_positions", positions),
	IGNORED("encoder_layers"),
	IGNORED("encoder_attention_heads"),
	IGNORED("encoder_ffn_dim"),
	IGNORED("num_mel_bins"),
	IGNORED("max_source_positions"),
	IGNORED("use_weighted_layer_sum"),
	IGNORED("classifier_proj_size"),
	IGNORED("apply_spec_augment"),
	IGNORED("median_filter_width"),
	IGNORED("mask_time_prob"),
	IGNORED("mask_time_length"),
	IGNORED("mask_time_min_masks"),
	IGNORED("mask_feature_prob"),
	IGNORED("mask_feature_length"),
	IGNORED("mask_feature_min_masks"),
	KEYS_END,
};

#define LIKE_BART                                                                           \
	.layers = 12, .hidden = 1024, .heads = 16, .intermediate = 4096, .positions = 1024, \
	.hidden_dropout = 0.1, .embedding_dropout = 0.1, .norm = MODEL_LAYER_NORM,          \
	.activation = MODEL_GELU, .position = MODEL_POSITION_LEARNED, .tied = true, .labels = 3
#define DECODES .causal = true, .cross_attention = true
#define TWO_STACKS(...)                                                                      \
	.towers = { [MODEL_ENCODER] = { .keys = encoder_keys, .defaults = { __VA_ARGS__ } }, \
		    [MODEL_TEXT] = { .keys = decoder_keys,                                   \
				     .defaults = { __VA_ARGS__, DECODES } } }

const struct model_family model_stacks[] = {
	{ .name = "bart",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = bart_sections,
	  .heads = stack_heads,
	  TWO_STACKS(LIKE_BART, .vocab = 50265, .norm_place = MODEL_NORM_AFTER) },
	{ .name = "mbart",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = mbart_sections,
	  .heads = stack_heads,
	  TWO_STACKS(LIKE_BART, .vocab = 50265, .norm_place = MODEL_NORM_BEFORE) },
	{ .name = "pegasus",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = pegasus_sections,
	  .heads = stack_heads,
	  TWO_STACKS(LIKE_BART, .vocab = 50265, .norm_place = MODEL_NORM_BEFORE) },
	{ .name = "marian",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = marian_sections,
	  .heads = stack_heads,
	  TWO_STACKS(LIKE_BART, .vocab = 58101, .norm_place = MODEL_NORM_AFTER) },
	{ .name = "m2m_100",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = m2m_sections,
	  .heads = stack_heads,
	  TWO_STACKS(.layers = 12, .hidden = 1024, .heads = 16, .intermediate = 4096,
		     .positions = 1024, .hidden_dropout = 0.1, .attention_dropout = 0.1,
		     .norm = MODEL_LAYER_NORM, .activation = MODEL_RELU, .tied = true,
		     .vocab = 128112, .norm_place = MODEL_NORM_BEFORE) },
	{ .name = "whisper",
	  .forward = MODEL_AS_STACKS,
	  .encoder_decoder = true,
	  .sections = whisper_sections,
	  .heads = stack_heads,
	  .unplanned = "convolutions over sound",
	  .towers = { [MODEL_ENCODER] = { .keys = encoder_keys,
					  .defaults = { .layers = 4,
							.hidden = 384,
							.heads = 6,
							.intermediate = 1536,
							.positions = 1500,
							.channels = 80,
							.vocab = 51865,
							.norm = MODEL_LAYER_NORM,
							.activation = MODEL_GELU,
							.tied = true,
							.position = MODEL_POSITION_LEARNED } },
		      [MODEL_TEXT] = { .keys = decoder_keys,
				       .defaults = { .layers = 4,
						     .hidden = 384,
						     .heads = 6,
						     .intermediate = 1536,
						     .positions = 448,
						     .vocab = 51865,
						     .norm = MODEL_LAYER_NORM,
						     .activation = MODEL_GELU,
						     .tied = true,
						     .position = MODEL_POSITION_LEARNED,
						     DECODES } } } },
};
const size_t model_stacks_count = sizeof(model_stacks) / sizeof(model_stacks[0]);
