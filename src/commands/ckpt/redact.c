/*
 * --redact of the ckpt verbs.  What a file's names are made of is looked at word by word: numbers and words that public
 * checkpoints have stay, any other becomes "name-3", the same word always the same.  In sentences, that is
 * done with all between the first quotation mark and the last, for a name may hold one itself, and with paths.
 */
#include "commands/ckpt/ckpt.h"

#include <ctype.h>
#include <string.h>

/* Words of names that everybody's checkpoints have, and those of our own about values; in the order of the alphabet. */
static const char *const public_words[] = {
	"A_log",
	"Adafactor",
	"Adam",
	"AdamW",
	"B",
	"BFloat16Storage",
	"Byte",
	"Conv1d",
	"Conv2d",
	"D",
	"DoubleStorage",
	"Embedding",
	"False",
	"FloatStorage",
	"GiB",
	"HalfStorage",
	"IntStorage",
	"KiB",
	"LORA",
	"LayerNorm",
	"Linear",
	"LongStorage",
	"LoraConfig",
	"MiB",
	"None",
	"OrderedDict",
	"Parameter",
	"Path",
	"PosixPath",
	"SGD",
	"Size",
	"Tensor",
	"TrainingArguments",
	"True",
	"UntypedStorage",
	"__builtin__",
	"__main__",
	"_codecs",
	"_logical_shape",
	"_metadata_cache",
	"_orig_mod",
	"_rebuild_device_tensor_from_numpy",
	"_rebuild_from_type_v2",
	"_rebuild_parameter",
	"_rebuild_qtensor",
	"_rebuild_sparse_tensor",
	"_rebuild_tensor",
	"_rebuild_tensor_v2",
	"_reconstruct",
	"_tensor",
	"_utils",
	"accelerate",
	"adapter_config",
	"adapter_model",
	"amax",
	"amsgrad",
	"and",
	"arch",
	"architecture",
	"args",
	"array",
	"attention",
	"attn",
	"base",
	"base_model",
	"beta",
	"beta1",
	"beta2",
	"betas",
	"bfloat16",
	"bias",
	"bin",
	"bool",
	"bos_token_id",
	"builtins",
	"bytes",
	"c_attn",
	"c_fc",
	"c_proj",
	"capturable",
	"ckpt",
	"class",
	"classifier",
	"code",
	"collections",
	"config",
	"conv",
	"conv1",
	"conv1d",
	"conv2",
	"conv3",
	"coo",
	"core",
	"cpu",
	"cross_attn",
	"csr",
	"cuda",
	"d",
	"data",
	"dataset",
	"date",
	"decay",
	"decoder",
	"deepspeed",
	"default",
	"defaultdict",
	"dense",
	"device",
	"dict",
	"differentiable",
	"dim",
	"dist",
	"distcp",
	"down",
	"down_proj",
	"downsample",
	"dropout",
	"dt_proj",
	"dtype",
	"ema",
	"embed",
	"embed_tokens",
	"embedding",
	"embeddings",
	"encode",
	"encoder",
	"enum",
	"eos_token_id",
	"epoch",
	"epochs",
	"eps",
	"eval",
	"exec",
	"exp_avg",
	"exp_avg_sq",
	"exp_avg_sq_col",
	"exp_avg_sq_row",
	"experts",
	"fairscale",
	"fc",
	"fc1",
	"fc2",
	"file",
	"files",
	"final_layer_norm",
	"fixed",
	"float",
	"float16",
	"float32",
	"float64",
	"folder",
	"foreach",
	"format",
	"fused",
	"gamma",
	"gate",
	"gate_proj",
	"gate_up_proj",
	"generator",
	"getattr",
	"gguf",
	"git",
	"global_step",
	"grad_scaler",
	"group",
	"groups",
	"growth_tracker",
	"h",
	"head",
	"heads",
	"hidden_size",
	"hyper_parameters",
	"in",
	"in_proj",
	"in_proj_bias",
	"in_proj_weight",
	"index",
	"initial_lr",
	"input_layernorm",
	"int",
	"int16",
	"int32",
	"int64",
	"int8",
	"intermediate",
	"intermediate_size",
	"inv_freq",
	"iter",
	"iteration",
	"jit",
	"json",
	"k",
	"k_norm",
	"k_proj",
	"key",
	"keys",
	"kv",
	"last_epoch",
	"layer",
	"layer1",
	"layer2",
	"layer3",
	"layer4",
	"layer_norm",
	"layernorm",
	"layers",
	"lightning",
	"list",
	"lm_head",
	"ln_1",
	"ln_2",
	"ln_f",
	"load",
	"lora_A",
	"lora_B",
	"lora_alpha",
	"lora_embedding_A",
	"loss",
	"lr",
	"lr_scheduler",
	"lr_schedulers",
	"map_location",
	"master",
	"max_exp_avg_sq",
	"max_position_embeddings",
	"max_steps",
	"maximize",
	"meta",
	"metadata",
	"metric",
	"metrics",
	"mixer",
	"mlp",
	"model",
	"model_state_dict",
	"model_type",
	"module",
	"modules",
	"momentum",
	"momentum_buffer",
	"mp_rank_00_model_states",
	"multiarray",
	"name",
	"ndarray",
	"nested",
	"net",
	"network",
	"nn",
	"no",
	"norm",
	"norm1",
	"norm2",
	"norm3",
	"norm_f",
	"not",
	"np",
	"npu",
	"num_attention_heads",
	"num_batches_tracked",
	"num_hidden_layers",
	"num_key_value_heads",
	"num_layers",
	"number",
	"numbers",
	"numpy",
	"o_proj",
	"of",
	"open",
	"optim",
	"optimizer",
	"optimizer_state_dict",
	"optimizer_states",
	"optimizers",
	"os",
	"out_proj",
	"output",
	"pad_token_id",
	"param_groups",
	"parametrizations",
	"params",
	"patch_embed",
	"pathlib",
	"peft",
	"peft_type",
	"pickle",
	"pkl",
	"pooler",
	"popen",
	"pos_embed",
	"position_embeddings",
	"position_ids",
	"posix",
	"post_attention_layernorm",
	"pre",
	"pretrained",
	"proj",
	"projection",
	"pt",
	"pth",
	"pytorch",
	"pytorch_lightning",
	"pytorch_model",
	"pytorch_version",
	"q",
	"q_norm",
	"q_proj",
	"qint8",
	"qkv",
	"quantizer",
	"query",
	"query_key_value",
	"r",
	"random",
	"random_state",
	"random_states_0",
	"rank",
	"relative_attention_bias",
	"rng_state",
	"rope_theta",
	"rotary_emb",
	"router",
	"running_mean",
	"running_var",
	"safetensors",
	"scale",
	"scaler",
	"scheduler",
	"scheduler_state_dict",
	"seed",
	"self",
	"self_attention",
	"self_attn",
	"set",
	"shape",
	"shared",
	"size",
	"square_avg",
	"state",
	"state_dict",
	"step",
	"steps",
	"storage",
	"str",
	"subprocess",
	"sum",
	"system",
	"target_modules",
	"tensor",
	"tensors",
	"tgz",
	"this",
	"timestamp",
	"tok_embeddings",
	"token_type_embeddings",
	"tokenizer",
	"torch",
	"torch_version",
	"torchvision",
	"train",
	"trainer",
	"trainer_state",
	"training_args",
	"transformer",
	"transformers",
	"tuple",
	"typing",
	"uint8",
	"up",
	"up_proj",
	"use_cache",
	"utils",
	"v",
	"v_norm",
	"v_proj",
	"value",
	"version",
	"versions",
	"vision_model",
	"visual",
	"vocab_size",
	"warmup",
	"weight",
	"weight_decay",
	"weights",
	"weights_only",
	"wpe",
	"wte",
	"x",
	"xpu",
	"zero",
	"zip",
};

static int is_public(const char *word, size_t n)
{
	for (size_t i = 0; i < sizeof(public_words) / sizeof(public_words[0]); i++)
		if (!strncmp(public_words[i], word, n) && !public_words[i][n])
			return 1;
	return strspn(word, "0123456789") >= n;
}

static int is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* The words of a stretch of text; the rest of it stays. */
static void put_hidden(struct ckpt_hiding *h, struct text *out, const char *at, size_t size)
{
	while (size && !h->err->status) {
		size_t n = 0;
		uint32_t id;

		while (n < size && is_word(at[n]))
			n++;
		if (!n || is_public(at, n))
			text_put(out, at, n ? n : 1);
		else if (!intern_add(h->words, at, n, &id, h->err))
			text_printf(out, "name-%u", id + 1);
		at += n ? n : 1;
		size -= n ? n : 1;
	}
}

void ckpt_hide_words(struct ckpt_hiding *h, const char **name)
{
	struct text out;

	if (!*name || h->err->status)
		return;
	text_init(&out, h->arena->mem, NULL);
	put_hidden(h, &out, *name, strlen(*name));
	*name = arena_copy(h->arena, text_get(&out), h->err);
	text_release(&out);
}

/* Where a quotation begins, not where a word's own apostrophe stands; NULL: there is none. */
static const char *first_quote(const char *text)
{
	for (const char *at = text; (at = strchr(at, '\'')) != NULL; at++)
		if (at == text || !is_word(at[-1]))
			return at;
	return NULL;
}

static const char *last_quote(const char *from)
{
	const char *last = NULL;

	for (const char *at = from + 1; (at = strchr(at, '\'')) != NULL; at++)
		if (!is_word(at[1]))
			last = at;
	return last ? last : from + strlen(from);
}

/* Outside of quotation marks: what has a '/', '_' or '.' within is a path or a name. */
static void put_outside(struct ckpt_hiding *h, struct text *out, const char *at, size_t size)
{
	while (size) {
		size_t n = 0, marks = 0;

		for (; n < size && at[n] != ' '; n++)
			marks += n + 1 < size && is_word(at[n + 1]) && strchr("/_.", at[n]) != NULL;
		if (marks)
			put_hidden(h, out, at, n);
		else
			text_put(out, at, n);
		if (n < size)
			text_put(out, at + n++, 1);
		at += n;
		size -= n;
	}
}

/* Behind the names: what a file holds stands in double quotation marks. */
static void put_rest(struct ckpt_hiding *h, struct text *out, const char *at)
{
	const char *first = strchr(at, '"'), *last = strrchr(at, '"');

	first = first ? first : at + strlen(at);
	last = last ? last : first;
	put_outside(h, out, at, (size_t)(first - at));
	put_hidden(h, out, first, (size_t)(last - first));
	put_outside(h, out, last, strlen(last));
}

void ckpt_hide_quoted(struct ckpt_hiding *h, const char **sentence)
{
	const char *first, *last, *end;
	struct text out;

	if (!*sentence || h->err->status)
		return;
	end = *sentence + strlen(*sentence);
	first = first_quote(*sentence);
	last = first ? last_quote(first) : end;
	first = first ? first : end;
	text_init(&out, h->arena->mem, NULL);
	put_outside(h, &out, *sentence, (size_t)(first - *sentence));
	put_hidden(h, &out, first, (size_t)(last - first));
	put_rest(h, &out, last);
	*sentence = arena_copy(h->arena, text_get(&out), h->err);
	text_release(&out);
}

/* Some sentences report a device or a class without quotation marks. */
static void hide_known(struct ckpt_hiding *h, const char **sentence, const char *name,
		       const char *word)
{
	const char *at = name && *name && strcmp(name, word) != 0 && *sentence
				 ? strstr(*sentence, name)
				 : NULL;

	if (at && !h->err->status)
		*sentence = arena_text(h->arena, h->err, "%.*s%s%s", (int)(at - *sentence),
				       *sentence, word, at + strlen(name));
}

static void hide_sentence(struct ckpt_hiding *h, const struct plim_ckpt *c, const char **sentence)
{
	const char *was = NULL;

	hide_known(h, sentence, c->path, "checkpoint");
	for (size_t i = 0; i < c->global_count; i++) {
		const char *word = c->globals[i].name;

		ckpt_hide_words(h, &word);
		hide_known(h, sentence, c->globals[i].name, word);
		word = c->globals[i].record;
		ckpt_hide_words(h, &word);
		hide_known(h, sentence, c->globals[i].record, word);
	}
	for (size_t i = 0; i < c->tensor_count; i++) {
		const char *word = c->tensors[i].device;

		if (!word || word == was)
			continue;
		was = word;
		ckpt_hide_words(h, &word);
		hide_known(h, sentence, was, word);
	}
	ckpt_hide_quoted(h, sentence);
}

static void hide_rows(struct ckpt_hiding *h, struct plim_ckpt *c)
{
	for (size_t i = 0; i < c->tensor_count; i++) {
		ckpt_hide_words(h, &c->tensors[i].name);
		ckpt_hide_words(h, &c->tensors[i].device);
		ckpt_hide_words(h, &c->tensors[i].file);
	}
	for (size_t i = 0; i < c->global_count; i++) {
		ckpt_hide_words(h, &c->globals[i].name);
		ckpt_hide_words(h, &c->globals[i].record);
	}
	for (size_t i = 0; i < c->key_count; i++) {
		ckpt_hide_words(h, &c->keys[i].name);
		ckpt_hide_words(h, &c->keys[i].what);
	}
	for (size_t i = 0; i < c->required_missing_count; i++)
		ckpt_hide_words(h, &c->required_missing[i]);
	for (size_t i = 0; i < c->optimizer_count; i++)
		ckpt_hide_words(h, &c->optimizers[i].path);
	for (size_t i = 0; i < c->fact_count; i++) {
		ckpt_hide_words(h, &c->facts[i].name);
		ckpt_hide_words(h, &c->facts[i].value);
	}
	for (size_t i = 0; i < c->group_count; i++) {
		ckpt_hide_words(h, &c->groups[i].prefix);
		ckpt_hide_words(h, &c->groups[i].devices);
	}
}

enum plim_status ckpt_hide(struct plim_ckpt *c, struct intern *words, struct plim_err *err)
{
	struct ckpt_hiding h = { .arena = &c->hidden->arena, .words = words, .err = err };

	err->status = PLIM_OK;
	for (size_t i = 0; i < c->finding_count; i++)
		hide_sentence(&h, c, &c->findings[i].title);
	hide_sentence(&h, c, &c->headline);
	hide_rows(&h, c);
	c->path = "checkpoint";
	return err->status;
}
