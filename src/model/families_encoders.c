/* Families of encoders, and of encoders with decoders. */
#include "tables.h"

/* ---- BERT, RoBERTa ---- */

static const struct model_row bert_front[] = {
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	{ "embeddings.token_type_embeddings", MODEL_EMBEDDING, MODEL_ROLE_TYPES, "Y H" },
	{ "embeddings.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_EMBED_NORM, "H", 0, IF_TRUE },
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 P", 0, 0, 0,
	  "int64" },
	{ "embeddings.token_type_ids", MODEL_BUFFER, MODEL_ROLE_OTHER, "1 P", 0, 0, 0, "int64" },
	ROWS_END,
};

static const struct model_row roberta_front[] = {
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embeddings.token_type_embeddings", MODEL_EMBEDDING, MODEL_ROLE_TYPES, "Y H" },
	{ "embeddings.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_EMBED_NORM, "H", 0, IF_TRUE },
	{ "embeddings.position_ids", MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 P", 0, 0, 0,
	  "int64" },
	{ "embeddings.token_type_ids", MODEL_BUFFER, MODEL_ROLE_OTHER, "1 P", 0, 0, 0, "int64" },
	{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	ROWS_END,
};

const struct model_row model_bert_block[] = {
	{ "attention.self.query", MODEL_LINEAR, MODEL_ROLE_Q, "Q H", 0, IF_TRUE },
	{ "attention.self.key", MODEL_LINEAR, MODEL_ROLE_K, "Q H", 0, IF_TRUE },
	{ "attention.self.value", MODEL_LINEAR, MODEL_ROLE_V, "Q H", 0, IF_TRUE },
	{ "attention.output.dense", MODEL_LINEAR, MODEL_ROLE_O, "H H", 0, IF_TRUE },
	{ "attention.output.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", 0, IF_TRUE },
	{ "intermediate.dense", MODEL_LINEAR, MODEL_ROLE_UP, "F H", 0, IF_TRUE },
	{ "output.dense", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_TRUE },
	{ "output.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_TRUE },
	ROWS_END,
};

static const struct model_row bert_pooler[] = {
	{ "pooler.dense", MODEL_LINEAR, MODEL_ROLE_POOLER, "H H", IF_POOLER, IF_TRUE },
	ROWS_END,
};

static const struct model_row bert_heads[] = {
	{ "cls.predictions.bias", MODEL_PARAMETER, MODEL_ROLE_HEAD_BIAS, "V", IF_LM },
	{ "cls.predictions.transform.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_LM,
	  IF_TRUE },
	{ "cls.predictions.transform.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_LM,
	  IF_TRUE },
	{ "cls.predictions.decoder", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_UNTIED,
	  IF_TIED },
	{ "cls.seq_relationship", MODEL_LINEAR, MODEL_ROLE_OTHER, "2 H", IF_LM | IF_POOLER,
	  IF_TRUE },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE },
	{ "qa_outputs", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_ANSWER, IF_TRUE },
	ROWS_END,
};

static const struct model_row roberta_heads[] = {
	{ "lm_head.bias", MODEL_PARAMETER, MODEL_ROLE_HEAD_BIAS, "V", IF_LM },
	{ "lm_head.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_LM, IF_TRUE },
	{ "lm_head.layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_LM, IF_TRUE },
	{ "lm_head.decoder", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_UNTIED, IF_TIED },
	{ "classifier.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_CLASS, IF_TRUE },
	{ "classifier.out_proj", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE },
	{ "qa_outputs", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_ANSWER, IF_TRUE },
	ROWS_END,
};

static const struct model_section bert_sections[] = {
	{ "bert.", bert_front, MODEL_TEXT },
	{ "bert.encoder.layer.%u.", model_bert_block, MODEL_TEXT },
	{ "bert.", bert_pooler, MODEL_TEXT },
	{ "", bert_heads, MODEL_TEXT },
	SECTIONS_END,
};

const struct model_section model_roberta_sections[] = {
	{ "roberta.", roberta_front, MODEL_TEXT },
	{ "roberta.encoder.layer.%u.", model_bert_block, MODEL_TEXT },
	{ "roberta.", bert_pooler, MODEL_TEXT },
	{ "", roberta_heads, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_head bert_head_list[] = {
	{ "ForMaskedLM", IF_LM },
	{ "ForPreTraining", IF_LM | IF_POOLER },
	{ "ForSequenceClassification", IF_CLASS | IF_POOLER },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "ForQuestionAnswering", IF_ANSWER },
	{ "BertModel", IF_POOLER, 0, "bert." },
	HEADS_END,
};

static const struct model_head roberta_head_list[] = {
	{ "ForMaskedLM", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "ForQuestionAnswering", IF_ANSWER },
	{ "RobertaModel", IF_POOLER, 0, "roberta." },
	HEADS_END,
};

const struct model_key model_bert_keys[] = {
	RATE("attention_probs_dropout_prob", attention_dropout),
	RATE("hidden_dropout_prob", hidden_dropout),
	RATE("hidden_dropout_prob", embedding_dropout),
	KEYS_END,
};

#define BERT_LIKE                                                                                \
	.layers = 12, .hidden = 768, .heads = 12, .intermediate = 3072, .types = 2, .labels = 2, \
	.attention_dropout = 0.1, .hidden_dropout = 0.1, .embedding_dropout = 0.1,               \
	.norm = MODEL_LAYER_NORM, .norm_place = MODEL_NORM_AFTER, .activation = MODEL_GELU,      \
	.position = MODEL_POSITION_LEARNED, .tied = true

/* ---- T5 ---- */

static const struct model_row t5_shared[] = {
	{ "shared", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	ROWS_END,
};

/* The MLP of a block is its second layer, or the third where it attends to the encoder. */
#define T5_MLP(layer, when)                                                                    \
	{ layer ".DenseReluDense.wi", MODEL_LINEAR, MODEL_ROLE_UP, "F H", (when) | IF_PLAIN }, \
		{ layer ".DenseReluDense.wi_0", MODEL_LINEAR, MODEL_ROLE_GATE, "F H",          \
		  (when) | IF_GATED },                                                         \
		{ layer ".DenseReluDense.wi_1", MODEL_LINEAR, MODEL_ROLE_UP, "F H",            \
		  (when) | IF_GATED },                                                         \
		{ layer ".DenseReluDense.wo", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", when },    \
	{                                                                                      \
		layer ".layer_norm", MODEL_NORM_RMS, MODEL_ROLE_NORM2, "H", when               \
	}

static const struct model_row t5_block[] = {
	{ "layer.0.SelfAttention.q", MODEL_LINEAR, MODEL_ROLE_Q, "Q H" },
	{ "layer.0.SelfAttention.k", MODEL_LINEAR, MODEL_ROLE_K, "Q H" },
	{ "layer.0.SelfAttention.v", MODEL_LINEAR, MODEL_ROLE_V, "Q H" },
	{ "layer.0.SelfAttention.o", MODEL_LINEAR, MODEL_ROLE_O, "H Q" },
	{ "layer.0.SelfAttention.relative_attention_bias", MODEL_EMBEDDING, MODEL_ROLE_BIAS, "B A",
	  IF_FIRST },
	{ "layer.0.layer_norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	T5_MLP("layer.1", IF_ALONE),
	{ "layer.1.EncDecAttention.q", MODEL_LINEAR, MODEL_ROLE_CROSS_Q, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.k", MODEL_LINEAR, MODEL_ROLE_CROSS_K, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.v", MODEL_LINEAR, MODEL_ROLE_CROSS_V, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.o", MODEL_LINEAR, MODEL_ROLE_CROSS_O, "H Q", IF_CROSS },
	{ "layer.1.layer_norm", MODEL_NORM_RMS, MODEL_ROLE_CROSS_NORM, "H", IF_CROSS },
	T5_MLP("layer.2", IF_CROSS),
	ROWS_END,
};

/* UMT5: a table of distances in every block. */
static const struct model_row umt5_block[] = {
	{ "layer.0.SelfAttention.q", MODEL_LINEAR, MODEL_ROLE_Q, "Q H" },
	{ "layer.0.SelfAttention.k", MODEL_LINEAR, MODEL_ROLE_K, "Q H" },
	{ "layer.0.SelfAttention.v", MODEL_LINEAR, MODEL_ROLE_V, "Q H" },
	{ "layer.0.SelfAttention.o", MODEL_LINEAR, MODEL_ROLE_O, "H Q" },
	{ "layer.0.SelfAttention.relative_attention_bias", MODEL_EMBEDDING, MODEL_ROLE_BIAS,
	  "B A" },
	{ "layer.0.layer_norm", MODEL_NORM_RMS, MODEL_ROLE_NORM1, "H" },
	T5_MLP("layer.1", IF_ALONE),
	{ "layer.1.EncDecAttention.q", MODEL_LINEAR, MODEL_ROLE_CROSS_Q, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.k", MODEL_LINEAR, MODEL_ROLE_CROSS_K, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.v", MODEL_LINEAR, MODEL_ROLE_CROSS_V, "Q H", IF_CROSS },
	{ "layer.1.EncDecAttention.o", MODEL_LINEAR, MODEL_ROLE_CROSS_O, "H Q", IF_CROSS },
	{ "layer.1.layer_norm", MODEL_NORM_RMS, MODEL_ROLE_CROSS_NORM, "H", IF_CROSS },
	T5_MLP("layer.2", IF_CROSS),
	ROWS_END,
};

static const struct model_row t5_back[] = {
	{ "final_layer_norm", MODEL_NORM_RMS, MODEL_ROLE_FINAL_NORM, "H" },
	ROWS_END,
};

const struct model_section model_t5_sections[] = {
	{ "", t5_shared, MODEL_ENCODER },
	{ "encoder.block.%u.", t5_block, MODEL_ENCODER },
	{ "encoder.", t5_back, MODEL_ENCODER },
	{ "decoder.block.%u.", t5_block, MODEL_TEXT },
	{ "decoder.", t5_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

static const struct model_section umt5_sections[] = {
	{ "", t5_shared, MODEL_ENCODER },
	{ "encoder.block.%u.", umt5_block, MODEL_ENCODER },
	{ "encoder.", t5_back, MODEL_ENCODER },
	{ "decoder.block.%u.", umt5_block, MODEL_TEXT },
	{ "decoder.", t5_back, MODEL_TEXT },
	{ "", model_lm_head, MODEL_TEXT },
	SECTIONS_END,
};

const struct model_head model_t5_heads[] = {
	{ "ForConditionalGeneration", IF_LM },
	{ "WithLMHeadModel", IF_LM },
	{ "EncoderModel", 0, 1u << MODEL_ENCODER },
	{ "Model", 0 },
	HEADS_END,
};

#define T5_KEYS                                                                                \
	SIZE("d_model", hidden), SIZE("d_kv", head_dim), SIZE("d_ff", intermediate),           \
		SIZE("num_heads", heads), SIZE("num_layers", layers),                          \
		SIZE("relative_attention_num_buckets", buckets),                               \
		KEY("feed_forward_proj", activation, KEY_GATED_ACTIVATION),                    \
		ACTIVATION("dense_act_fn"), SWITCH("is_gated_act", gated),                     \
		RATE("dropout_rate", attention_dropout), RATE("dropout_rate", hidden_dropout), \
		RATE("dropout_rate", embedding_dropout)

static const struct model_key t5_encoder_keys[] = { T5_KEYS, KEYS_END };
static const struct model_key t5_decoder_keys[] = {
	T5_KEYS,
	KEY("num_decoder_layers", layers, KEY_SIZE_IF),
	KEYS_END,
};

#define T5_LIKE                                                                            \
	.layers = 6, .hidden = 512, .heads = 8, .head_dim = 64, .intermediate = 2048,      \
	.vocab = 32128, .buckets = 32, .attention_dropout = 0.1, .hidden_dropout = 0.1,    \
	.embedding_dropout = 0.1, .norm = MODEL_RMS_NORM, .norm_place = MODEL_NORM_BEFORE, \
	.activation = MODEL_RELU, .position = MODEL_POSITION_BIAS, .tied = true

#define MT5_LIKE                                                                           \
	.layers = 8, .hidden = 512, .heads = 6, .head_dim = 64, .intermediate = 1024,      \
	.vocab = 250112, .buckets = 32, .attention_dropout = 0.1, .hidden_dropout = 0.1,   \
	.embedding_dropout = 0.1, .norm = MODEL_RMS_NORM, .norm_place = MODEL_NORM_BEFORE, \
	.activation = MODEL_GELU_NEW, .gated = true, .position = MODEL_POSITION_BIAS, .tied = true

/* ---- all of them ---- */

const struct model_family model_encoders[] = {
	{ .name = "bert",
	  .forward = MODEL_AS_ENCODER,
	  .sections = bert_sections,
	  .heads = bert_head_list,
	  .adapters = "query,value",
	  .towers[MODEL_TEXT] = { .keys = model_bert_keys,
				  .defaults = { BERT_LIKE, .vocab = 30522, .positions = 512 } } },
	{ .name = "roberta",
	  .forward = MODEL_AS_ENCODER,
	  .sections = model_roberta_sections,
	  .heads = roberta_head_list,
	  .adapters = "query,value",
	  .towers[MODEL_TEXT] = { .keys = model_bert_keys,
				  .defaults = { BERT_LIKE, .vocab = 50265, .positions = 512,
						.counts_positions = true } } },
	{ .name = "t5",
	  .forward = MODEL_AS_STACKS,
	  .sections = model_t5_sections,
	  .heads = model_t5_heads,
	  .adapters = "q,v",
	  .encoder_decoder = true,
	  .towers = { [MODEL_ENCODER] = { .keys = t5_encoder_keys, .defaults = { T5_LIKE } },
		      [MODEL_TEXT] = { .keys = t5_decoder_keys,
				       .defaults = { T5_LIKE, .causal = true,
						     .cross_attention = true } } } },
	{ .name = "mt5",
	  .forward = MODEL_AS_STACKS,
	  .sections = model_t5_sections,
	  .heads = model_t5_heads,
	  .adapters = "q,v",
	  .encoder_decoder = true,
	  .towers = { [MODEL_ENCODER] = { .keys = t5_encoder_keys, .defaults = { MT5_LIKE } },
		      [MODEL_TEXT] = { .keys = t5_decoder_keys,
				       .defaults = { MT5_LIKE, .causal = true,
						     .cross_attention = true } } } },
	{ .name = "umt5",
	  .forward = MODEL_AS_STACKS,
	  .sections = umt5_sections,
	  .heads = model_t5_heads,
	  .adapters = "q,v",
	  .inexact = { "a table of distances in every block is planned as one", 50, 100 },
	  .encoder_decoder = true,
	  .towers = { [MODEL_ENCODER] = { .keys = t5_encoder_keys, .defaults = { MT5_LIKE } },
		      [MODEL_TEXT] = { .keys = t5_decoder_keys,
				       .defaults = { MT5_LIKE, .causal = true,
						     .cross_attention = true } } } },
};
const size_t model_encoder_count = sizeof(model_encoders) / sizeof(model_encoders[0]);
