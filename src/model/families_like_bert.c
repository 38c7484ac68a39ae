/*
 * Encoders built like BERT, of which no run was measured.  Names are those of Transformers 5.
 */
#include "tables.h"

#define NORM(name_, role_, width)                                 \
	{                                                         \
		name_, MODEL_NORM_LAYER, role_, width, 0, IF_TRUE \
	}
#define LINEAR(name_, role_, shape_)                           \
	{                                                      \
		name_, MODEL_LINEAR, role_, shape_, 0, IF_TRUE \
	}
#define POSITION_IDS(name_)                                                           \
	{                                                                             \
		name_, MODEL_BUFFER, MODEL_ROLE_POSITION_IDS, "1 P", 0, 0, 0, "int64" \
	}
#define TYPE_IDS(name_)                                                        \
	{                                                                      \
		name_, MODEL_BUFFER, MODEL_ROLE_OTHER, "1 P", 0, 0, 0, "int64" \
	}
#define CLASSIFIERS                                                                              \
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },               \
		{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE }, \
	{                                                                                        \
		"qa_outputs", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_ANSWER, IF_TRUE           \
	}
#define HEADS_OF(name_, root)                                 \
	static const struct model_head name_[] = {            \
		{ "ForMaskedLM", IF_LM },                     \
		{ "ForSequenceClassification", IF_CLASS },    \
		{ "ForPreTraining", IF_LM | IF_POOLER },      \
		{ "ForTokenClassification", IF_TOKEN_CLASS }, \
		{ "ForQuestionAnswering", IF_ANSWER },        \
		{ "Model", IF_POOLER, 0, root },              \
		HEADS_END,                                    \
	}

HEADS_OF(roberta_heads, "roberta.");
static const struct model_head distilbert_heads[] = {
	{ "ForMaskedLM", IF_LM },
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "ForQuestionAnswering", IF_ANSWER },
	{ "Model", 0, 0, "distilbert." },
	HEADS_END,
};
HEADS_OF(albert_heads, "albert.");
HEADS_OF(deberta_heads, "deberta.");
HEADS_OF(modern_heads, "model.");

/* ---- ELECTRA: narrow embeddings ---- */

static const struct model_row electra_front[] = {
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V J" },
	{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P J" },
	{ "embeddings.token_type_embeddings", MODEL_EMBEDDING, MODEL_ROLE_TYPES, "Y J" },
	NORM("embeddings.LayerNorm", MODEL_ROLE_EMBED_NORM, "J"),
	POSITION_IDS("embeddings.position_ids"),
	TYPE_IDS("embeddings.token_type_ids"),
	{ "embeddings_project", MODEL_LINEAR, MODEL_ROLE_EMBED_PROJECT, "H J", IF_NARROW, IF_TRUE },
	ROWS_END,
};
static const struct model_row electra_head[] = {
	{ "generator_predictions.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "J", IF_LM,
	  IF_TRUE },
	{ "generator_predictions.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "J H", IF_LM,
	  IF_TRUE },
	{ "generator_lm_head", MODEL_LINEAR, MODEL_ROLE_HEAD, "V J", IF_LM, IF_TRUE, IF_TIED },
	{ "discriminator_predictions.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_PAIR,
	  IF_TRUE },
	{ "discriminator_predictions.dense_prediction", MODEL_LINEAR, MODEL_ROLE_HEAD, "1 H",
	  IF_PAIR, IF_TRUE },
	{ "classifier.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_CLASS, IF_TRUE },
	{ "classifier.out_proj", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_TOKEN_CLASS, IF_TRUE },
	{ "qa_outputs", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_ANSWER, IF_TRUE },
	ROWS_END,
};
static const struct model_section electra_sections[] = {
	{ "electra.", electra_front, MODEL_TEXT },
	{ "electra.encoder.layer.%u.", model_bert_block, MODEL_TEXT },
	{ "", electra_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_head electra_heads[] = {
	{ "ForMaskedLM", IF_LM },
	{ "ForPreTraining", IF_PAIR }, /* tells replaced words from others */
	{ "ForSequenceClassification", IF_CLASS },
	{ "ForTokenClassification", IF_TOKEN_CLASS },
	{ "ForQuestionAnswering", IF_ANSWER },
	{ "Model", 0, 0, "electra." },
	HEADS_END,
};

#define BERT_KEYS                                                \
	RATE("attention_probs_dropout_prob", attention_dropout), \
		RATE("hidden_dropout_prob", hidden_dropout),     \
		RATE("hidden_dropout_prob", embedding_dropout)

static const struct model_key electra_keys[] = {
	BERT_KEYS,
	SIZE("embedding_size", projection),
	IGNORED("embedding_dynamic"),
	KEYS_END,
};

/* ---- DistilBERT ---- */

static const struct model_row distilbert_front[] = {
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H" },
	NORM("embeddings.LayerNorm", MODEL_ROLE_EMBED_NORM, "H"),
	POSITION_IDS("embeddings.position_ids"),
	ROWS_END,
};
static const struct model_row distilbert_block[] = {
	LINEAR("attention.q_lin", MODEL_ROLE_Q, "H H"),
	LINEAR("attention.k_lin", MODEL_ROLE_K, "H H"),
	LINEAR("attention.v_lin", MODEL_ROLE_V, "H H"),
	LINEAR("attention.out_lin", MODEL_ROLE_O, "H H"),
	NORM("sa_layer_norm", MODEL_ROLE_NORM1, "H"),
	LINEAR("ffn.lin1", MODEL_ROLE_UP, "F H"),
	LINEAR("ffn.lin2", MODEL_ROLE_DOWN, "H F"),
	NORM("output_layer_norm", MODEL_ROLE_NORM2, "H"),
	ROWS_END,
};
static const struct model_row distilbert_head[] = {
	{ "vocab_transform", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_LM, IF_TRUE },
	{ "vocab_layer_norm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_LM, IF_TRUE },
	{ "vocab_projector", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_TRUE, IF_TIED },
	{ "pre_classifier", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_CLASS, IF_TRUE },
	CLASSIFIERS,
	ROWS_END,
};
static const struct model_section distilbert_sections[] = {
	{ "distilbert.", distilbert_front, MODEL_TEXT },
	{ "distilbert.transformer.layer.%u.", distilbert_block, MODEL_TEXT },
	{ "", distilbert_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key distilbert_keys[] = {
	SIZE("dim", hidden),
	SIZE("hidden_dim", intermediate),
	SIZE("n_layers", layers),
	SIZE("n_heads", heads),
	ACTIVATION("activation"),
	RATE("dropout", hidden_dropout),
	RATE("dropout", embedding_dropout),
	IGNORED("sinusoidal_pos_embds"),
	IGNORED("qa_dropout"),
	IGNORED("seq_classif_dropout"),
	KEYS_END,
};

/* ---- ALBERT: blocks of a group are one ---- */

static const struct model_row albert_front[] = {
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V J" },
	{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P J" },
	{ "embeddings.token_type_embeddings", MODEL_EMBEDDING, MODEL_ROLE_TYPES, "Y J" },
	NORM("embeddings.LayerNorm", MODEL_ROLE_EMBED_NORM, "J"),
	POSITION_IDS("embeddings.position_ids"),
	TYPE_IDS("embeddings.token_type_ids"),
	LINEAR("encoder.embedding_hidden_mapping_in", MODEL_ROLE_EMBED_PROJECT, "H J"),
	ROWS_END,
};
static const struct model_row albert_block[] = {
	NORM("full_layer_layer_norm", MODEL_ROLE_NORM2, "H"),
	LINEAR("attention.query", MODEL_ROLE_Q, "H H"),
	LINEAR("attention.key", MODEL_ROLE_K, "H H"),
	LINEAR("attention.value", MODEL_ROLE_V, "H H"),
	LINEAR("attention.dense", MODEL_ROLE_O, "H H"),
	NORM("attention.LayerNorm", MODEL_ROLE_NORM1, "H"),
	LINEAR("ffn", MODEL_ROLE_UP, "F H"),
	LINEAR("ffn_output", MODEL_ROLE_DOWN, "H F"),
	ROWS_END,
};
static const struct model_row albert_head[] = {
	{ "albert.pooler", MODEL_LINEAR, MODEL_ROLE_POOLER, "H H", IF_POOLER, IF_TRUE },
	{ "predictions.bias", MODEL_PARAMETER, MODEL_ROLE_HEAD_BIAS, "V", IF_LM },
	{ "predictions.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "J", IF_LM, IF_TRUE },
	{ "predictions.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "J H", IF_LM, IF_TRUE },
	{ "predictions.decoder", MODEL_LINEAR, MODEL_ROLE_HEAD, "V J", IF_LM, IF_UNTIED, IF_TIED },
	{ "sop_classifier.classifier", MODEL_LINEAR, MODEL_ROLE_OTHER, "L H", IF_LM | IF_POOLER,
	  IF_TRUE },
	CLASSIFIERS,
	ROWS_END,
};
static const struct model_section albert_sections[] = {
	{ "albert.", albert_front, MODEL_TEXT },
	{ "albert.encoder.albert_layer_groups.%u.albert_layers.0.", albert_block, MODEL_TEXT,
	  offsetof(struct model_numbers, block_groups) },
	{ "", albert_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key albert_keys[] = {
	BERT_KEYS,
	SIZE("embedding_size", projection),
	SIZE("num_hidden_groups", block_groups),
	IGNORED("inner_group_num"),
	IGNORED("classifier_dropout_prob"),
	IGNORED("net_structure_type"),
	IGNORED("num_memory_blocks"),
	IGNORED("gap_size"),
	IGNORED("down_scale_factor"),
	KEYS_END,
};

/* ---- DeBERTa: scores by distance ---- */

#define DEBERTA_FRONT                                                                             \
	{ "embeddings.word_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },               \
		{ "embeddings.position_embeddings", MODEL_EMBEDDING, MODEL_ROLE_POSITIONS, "P H", \
		  IF_POSITION_INPUT },                                                            \
		{ "embeddings.token_type_embeddings", MODEL_EMBEDDING, MODEL_ROLE_TYPES, "Y H",   \
		  IF_TYPES },                                                                     \
		NORM("embeddings.LayerNorm", MODEL_ROLE_EMBED_NORM, "H"),                         \
		POSITION_IDS("embeddings.position_ids")
#define DEBERTA_OUT                                                        \
	LINEAR("attention.output.dense", MODEL_ROLE_O, "H H"),             \
		NORM("attention.output.LayerNorm", MODEL_ROLE_NORM1, "H"), \
		LINEAR("intermediate.dense", MODEL_ROLE_UP, "F H"),        \
		LINEAR("output.dense", MODEL_ROLE_DOWN, "H F"),            \
		NORM("output.LayerNorm", MODEL_ROLE_NORM2, "H")

static const struct model_row deberta_front[] = { DEBERTA_FRONT, ROWS_END };
static const struct model_row deberta_block[] = {
	{ "attention.self.q_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "H" },
	{ "attention.self.v_bias", MODEL_PARAMETER, MODEL_ROLE_OTHER, "H" },
	{ "attention.self.in_proj", MODEL_LINEAR, MODEL_ROLE_QKV, "W H" },
	DEBERTA_OUT,
	ROWS_END,
};
static const struct model_row deberta2_block[] = {
	LINEAR("attention.self.query_proj", MODEL_ROLE_Q, "H H"),
	LINEAR("attention.self.key_proj", MODEL_ROLE_K, "H H"),
	LINEAR("attention.self.value_proj", MODEL_ROLE_V, "H H"),
	DEBERTA_OUT,
	ROWS_END,
};
static const struct model_row deberta2_back[] = {
	{ "encoder.rel_embeddings", MODEL_EMBEDDING, MODEL_ROLE_OTHER, "2B H", IF_RELATIVE },
	{ "encoder.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_OTHER, "H", IF_RELATIVE, IF_TRUE },
	ROWS_END,
};
static const struct model_row deberta_head[] = {
	{ "pooler.dense", MODEL_LINEAR, MODEL_ROLE_POOLER, "H H", IF_CLASS, IF_TRUE },
	{ "cls.predictions.bias", MODEL_PARAMETER, MODEL_ROLE_HEAD_BIAS, "V", IF_LM },
	{ "cls.predictions.transform.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_LM,
	  IF_TRUE },
	{ "cls.predictions.transform.LayerNorm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_LM,
	  IF_TRUE },
	{ "cls.predictions.decoder", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_UNTIED,
	  IF_TIED },
	CLASSIFIERS,
	ROWS_END,
};
static const struct model_section deberta_sections[] = {
	{ "deberta.", deberta_front, MODEL_TEXT },
	{ "deberta.encoder.layer.%u.", deberta_block, MODEL_TEXT },
	{ "", deberta_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_section deberta2_sections[] = {
	{ "deberta.", deberta_front, MODEL_TEXT },
	{ "deberta.encoder.layer.%u.", deberta2_block, MODEL_TEXT },
	{ "deberta.", deberta2_back, MODEL_TEXT },
	{ "", deberta_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key deberta_keys[] = {
	BERT_KEYS,
	SWITCH("position_biased_input", position_input),
	SWITCH("legacy", ignored_switch),
	IGNORED("max_relative_positions"),
	KEYS_END,
};
/* Of DeBERTa v2 and v3: keys and queries of distances are those of words (share_att_key), distances are in buckets. */
static const struct model_key deberta2_keys[] = {
	BERT_KEYS,
	SWITCH("position_biased_input", position_input),
	SWITCH("relative_attention", relative),
	SIZE("position_buckets", buckets),
	SWITCH("legacy", ignored_switch),
	IGNORED("share_att_key"),
	IGNORED("pos_att_type"),
	IGNORED("norm_rel_ebd"),
	IGNORED("max_relative_positions"),
	KEYS_END,
};

/* ---- ModernBERT: norms before, RoPE, windows, a gate ---- */

static const struct model_row modern_front[] = {
	{ "embeddings.tok_embeddings", MODEL_EMBEDDING, MODEL_ROLE_EMBED, "V H" },
	{ "embeddings.norm", MODEL_NORM_LAYER, MODEL_ROLE_EMBED_NORM, "H", 0, IF_NORM_BIAS },
	ROWS_END,
};
static const struct model_row modern_block[] = {
	{ "attn_norm", MODEL_NORM_LAYER, MODEL_ROLE_NORM1, "H", IF_LATER, IF_NORM_BIAS },
	{ "attn.Wqkv", MODEL_LINEAR, MODEL_ROLE_QKV, "W H", 0, IF_QKV_BIAS },
	{ "attn.Wo", MODEL_LINEAR, MODEL_ROLE_O, "H Q", 0, IF_QKV_BIAS },
	{ "mlp_norm", MODEL_NORM_LAYER, MODEL_ROLE_NORM2, "H", 0, IF_NORM_BIAS },
	{ "mlp.Wi", MODEL_LINEAR, MODEL_ROLE_GATE_UP, "2F H", 0, IF_MLP_BIAS },
	{ "mlp.Wo", MODEL_LINEAR, MODEL_ROLE_DOWN, "H F", 0, IF_MLP_BIAS },
	ROWS_END,
};
static const struct model_row modern_back[] = {
	{ "final_norm", MODEL_NORM_LAYER, MODEL_ROLE_FINAL_NORM, "H", 0, IF_NORM_BIAS },
	{ "rotary_emb.full_attention_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_ROPE, "R" },
	{ "rotary_emb.full_attention_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "rotary_emb.sliding_attention_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER, "R" },
	{ "rotary_emb.sliding_attention_original_inv_freq", MODEL_FREQUENCIES, MODEL_ROLE_OTHER,
	  "R" },
	ROWS_END,
};
static const struct model_row modern_head[] = {
	{ "head.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_LM, IF_STATE_BIAS },
	{ "head.norm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_LM, IF_NORM_BIAS },
	{ "decoder", MODEL_LINEAR, MODEL_ROLE_HEAD, "V H", IF_LM, IF_HEAD_BIAS, IF_TIED },
	{ "head.dense", MODEL_LINEAR, MODEL_ROLE_HEAD_DENSE, "H H", IF_CLASS, IF_STATE_BIAS },
	{ "head.norm", MODEL_NORM_LAYER, MODEL_ROLE_HEAD_NORM, "H", IF_CLASS, IF_NORM_BIAS },
	{ "classifier", MODEL_LINEAR, MODEL_ROLE_HEAD, "L H", IF_CLASS, IF_TRUE },
	ROWS_END,
};
static const struct model_section modern_sections[] = {
	{ "model.", modern_front, MODEL_TEXT },
	{ "model.layers.%u.", modern_block, MODEL_TEXT },
	{ "model.", modern_back, MODEL_TEXT },
	{ "", modern_head, MODEL_TEXT },
	SECTIONS_END,
};
static const struct model_key modern_keys[] = {
	ACTIVATION("hidden_activation"),
	SWITCH("attention_bias", qkv_bias),
	SWITCH("mlp_bias", mlp_bias),
	SWITCH("norm_bias", norm_bias),
	SWITCH("classifier_bias", state_bias),
	SWITCH("decoder_bias", head_bias),
	SIZE("local_attention", window),
	RATE("mlp_dropout", hidden_dropout),
	RATE("embedding_dropout", embedding_dropout),
	IGNORED("global_attn_every_n_layers"),
	IGNORED("global_rope_theta"),
	IGNORED("local_rope_theta"),
	IGNORED("initializer_cutoff_factor"),
	IGNORED("classifier_activation"),
	IGNORED("classifier_pooling"),
	IGNORED("classifier_dropout"),
	IGNORED("deterministic_flash_attn"),
	IGNORED("sparse_prediction"),
	IGNORED("sparse_pred_ignore_index"),
	IGNORED("reference_compile"),
	IGNORED("repad_logits_with_grad"),
	KEYS_END,
};

/* ---- all of them ---- */

#define BERT_LIKE                                                                                \
	.norm = MODEL_LAYER_NORM, .norm_place = MODEL_NORM_AFTER, .activation = MODEL_GELU,      \
	.position = MODEL_POSITION_LEARNED, .tied = true, .labels = 2, .attention_dropout = 0.1, \
	.hidden_dropout = 0.1, .embedding_dropout = 0.1, .positions = 512
#define BASE .layers = 12, .hidden = 768, .heads = 12, .intermediate = 3072
#define TOWER(keys_, ...) .towers[MODEL_TEXT] = { .keys = keys_, .defaults = { __VA_ARGS__ } }

const struct model_family model_like_bert[] = {
	{ .name = "xlm-roberta",
	  .forward = MODEL_AS_ENCODER,
	  .sections = model_roberta_sections,
	  .heads = roberta_heads,
	  .adapters = "query,value",
	  TOWER(model_bert_keys, BERT_LIKE, BASE, .vocab = 30522, .types = 2,
		.counts_positions = true) },
	{ .name = "camembert",
	  .forward = MODEL_AS_ENCODER,
	  .sections = model_roberta_sections,
	  .heads = roberta_heads,
	  .adapters = "query,value",
	  TOWER(model_bert_keys, BERT_LIKE, BASE, .vocab = 30522, .types = 2,
		.counts_positions = true) },
	{ .name = "electra",
	  .forward = MODEL_AS_ENCODER,
	  .sections = electra_sections,
	  .heads = electra_heads,
	  .adapters = "query,value",
	  TOWER(electra_keys, BERT_LIKE, .layers = 12, .hidden = 256, .heads = 4,
		.intermediate = 1024, .vocab = 30522, .types = 2, .projection = 128) },
	{ .name = "distilbert",
	  .forward = MODEL_AS_ENCODER,
	  .sections = distilbert_sections,
	  .heads = distilbert_heads,
	  .adapters = "q_lin,v_lin",
	  TOWER(distilbert_keys, BERT_LIKE, .layers = 6, .hidden = 768, .heads = 12,
		.intermediate = 3072, .vocab = 30522) },
	{ .name = "albert",
	  .forward = MODEL_AS_ENCODER,
	  .sections = albert_sections,
	  .heads = albert_heads,
	  .adapters = "query,value",
	  TOWER(albert_keys, .norm = MODEL_LAYER_NORM, .norm_place = MODEL_NORM_AFTER,
		.activation = MODEL_GELU_NEW, .position = MODEL_POSITION_LEARNED, .tied = true,
		.labels = 2, .positions = 512, .layers = 12, .hidden = 4096, .heads = 64,
		.intermediate = 16384, .vocab = 30000, .types = 2, .projection = 128,
		.block_groups = 1) },
	{ .name = "deberta",
	  .forward = MODEL_AS_ENCODER,
	  .sections = deberta_sections,
	  .heads = deberta_heads,
	  .adapters = "in_proj",
	  .eager_only = true,
	  .unplanned = "scores by distance",
	  TOWER(deberta_keys, BERT_LIKE, BASE, .vocab = 50265, .position_input = true) },
	{ .name = "deberta-v2",
	  .forward = MODEL_AS_ENCODER,
	  .sections = deberta2_sections,
	  .heads = deberta_heads,
	  .adapters = "query_proj,value_proj",
	  .eager_only = true,
	  .unplanned = "scores by distance",
	  TOWER(deberta2_keys, BERT_LIKE, .layers = 24, .hidden = 1536, .heads = 24,
		.intermediate = 6144, .vocab = 128100, .position_input = true) },
	{ .name = "modernbert",
	  .sections = modern_sections,
	  .heads = modern_heads,
	  .adapters = "Wqkv",
	  .inexact = { "its blocks and its head are planned as a decoder's", 50, 100 },
	  TOWER(modern_keys, .norm = MODEL_LAYER_NORM, .norm_place = MODEL_NORM_BEFORE,
		.activation = MODEL_GELU, .gated = true, .position = MODEL_POSITION_ROPE,
		.tied = true, .labels = 2, .positions = 8192, .layers = 22, .hidden = 768,
		.heads = 12, .intermediate = 1152, .vocab = 50368, .window = 128, .window_every = 3,
		.use_window = true, .head_bias = true) },
};
const size_t model_like_bert_count = sizeof(model_like_bert) / sizeof(model_like_bert[0]);
