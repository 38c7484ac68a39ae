/* Models from configs: what is refused, what is guessed, and what adapters and quantized weights make of them. */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static struct mem mem;

static int start(void **state)
{
	(void)state;
	mem_init(&mem, (uint64_t)1 << 28);
	return 0;
}

/* Whatever was read was given back. */
static int finish(void **state)
{
	(void)state;
	return mem.used_bytes != 0;
}

static enum plim_status read_text(struct model *m, const char *text, struct plim_err *err)
{
	model_init(m, &mem);
	return model_read_config(m, "config.json", text, strlen(text), err);
}

#define SMALL \
	"\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":100,\"num_hidden_layers\":"

static const struct {
	const char *text;
	enum plim_status status;
	const char *message; /* a part of it */
} refused[] = {
	{ "[]", PLIM_E_FORMAT, "no object" },
	{ "{\"model_type\":\"llama\"", PLIM_E_FORMAT, "" },
	{ "{} {}", PLIM_E_FORMAT, "" },
	{ "{\"model_type\":\"nobody\"}", PLIM_E_FORMAT, "'nobody', without" },
	{ "{\"model_type\":\"llama\",\"hidden_size\":-5}", PLIM_E_FORMAT, "'hidden_size'" },
	{ "{\"model_type\":\"llama\",\"hidden_size\":\"big\"}", PLIM_E_FORMAT, "'hidden_size'" },
	{ "{\"model_type\":\"llama\",\"hidden_size\":1e30}", PLIM_E_FORMAT, "'hidden_size'" },
	{ "{\"model_type\":\"llama\",\"hidden_size\":99999999999999999999999}", PLIM_E_FORMAT,
	  "'hidden_size'" },
	{ "{\"model_type\":\"gpt2\",\"attn_pdrop\":NaN}", PLIM_E_FORMAT, "'attn_pdrop'" },
	{ "{\"model_type\":\"llama\",\"num_hidden_layers\":1000000000}", PLIM_E_LIMIT,
	  "1000000000 layers" },
	{ "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":1099511627776,"
	  "\"mlp_only_layers\":[1099511627775]}",
	  PLIM_E_LIMIT, "layers" },
	{ "{\"model_type\":\"llama\",\"num_attention_heads\":0}", PLIM_E_FORMAT,
	  "attention heads" },
	{ "{\"model_type\":\"llama\",\"num_attention_heads\":8192}", PLIM_E_FORMAT, "more heads" },
	{ "{\"model_type\":\"llama\",\"num_attention_heads\":1099511627776,"
	  "\"head_dim\":1099511627776}",
	  PLIM_E_LIMIT, "'self_attn.q_proj'" },
	{ "{\"model_type\":\"llama\",\"vocab_size\":1099511627776,\"hidden_size\":1099511627776,"
	  "\"num_attention_heads\":4}",
	  PLIM_E_LIMIT, "more elements" },
	{ "{\"model_type\":\"vit\",\"image_size\":8}", PLIM_E_FORMAT, "larger than the image" },
	{ "{\"model_type\":\"vit\",\"image_size\":1099511627776,\"patch_size\":1}", PLIM_E_LIMIT,
	  "patches" },
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct plim_err err = { 0 };
		struct model m;

		print_message("%s\n", refused[i].text);
		assert_int_equal(read_text(&m, refused[i].text, &err), refused[i].status);
		assert_non_null(strstr(err.message, refused[i].message));
		assert_null(strchr(err.message, '\n'));
		model_release(&m);
	}
}

static void test_guessed(void **state)
{
	struct plim_err err = { 0 };
	struct model m, known;

	(void)state;
	assert_int_equal(read_text(&m, "{\"model_type\":\"new\"," SMALL "2}", &err), PLIM_OK);
	assert_true(m.guessed);
	assert_string_equal(m.declared, "new");
	assert_int_equal(
		read_text(&known,
			  "{\"model_type\":\"llama\",\"intermediate_size\":null," SMALL "2}", &err),
		PLIM_OK);
	assert_false(known.guessed);
	assert_int_equal(m.tensors.n, known.tensors.n);
	model_release(&known);
	model_release(&m);
}

/* The last of equal keys counts; null is derived, what is not there is the class's default. */
static void test_keys(void **state)
{
	static const char text[] = "{\"model_type\":\"mistral\",\"num_key_value_heads\":null,"
				   "\"num_hidden_layers\":7,\"num_hidden_layers\":3}";
	struct plim_err err = { 0 };
	struct model m;

	(void)state;
	assert_int_equal(read_text(&m, text, &err), PLIM_OK);
	assert_int_equal(m.towers[MODEL_TEXT].layers, 3);
	assert_int_equal(m.towers[MODEL_TEXT].kv_heads, 32);
	assert_int_equal(m.towers[MODEL_TEXT].intermediate, 14336);
	assert_false(model_sees_all(&m, MODEL_TEXT, 0));
	model_release(&m);
}

static void test_numbers(void **state)
{
	struct model_numbers n = { .layers = 2, .hidden = 64, .heads = 4, .vocab = 100 };
	struct plim_err err = { 0 };
	struct model_totals totals;
	struct model m;

	(void)state;
	model_init(&m, &mem);
	assert_int_equal(model_by_numbers(&m, &n, &err), PLIM_OK);
	model_get_totals(&m, ckpt_dtype_of_torch("bfloat16"), &totals);
	/* two embeddings, two blocks of four squares, three matrices of 4h and two norms, a norm */
	assert_int_equal(totals.parameters,
			 2 * 100 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 256 + 2 * 64) + 64);
	assert_int_equal(totals.parameter_bytes, 2 * totals.parameters);
	assert_int_equal(m.towers[MODEL_TEXT].norm, MODEL_RMS_NORM);
	model_release(&m);
}

/* 4 bits: half a byte a number and a scale in 64; the head, the embedding and the norms stay. */
static void test_quantized(void **state)
{
	static const struct {
		enum model_quantization how;
		uint64_t weight_bytes, state_bytes; /* of the four squares of 64 x 64 in a block */
	} rows[] = {
		{ MODEL_NF4, 2048, 64 * 4 + 16 * 4 },
		{ MODEL_NF4_DOUBLE, 2048, 64 + 16 * 4 + 4 + 4 },
		{ MODEL_INT8, 4096, 64 * 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct plim_err err = { 0 };
		const struct model_module *q;
		uint64_t state_bytes = 0;
		struct model m;

		assert_int_equal(read_text(&m, "{\"model_type\":\"llama\"," SMALL "1}", &err), 0);
		assert_int_equal(model_quantize(&m, rows[i].how, false, &err), PLIM_OK);
		q = model_module_at(&m, MODEL_TEXT, 0, MODEL_ROLE_Q);
		assert_int_equal(model_tensor_bytes(&m.tensors.at[q->tensors], NULL),
				 rows[i].weight_bytes);
		for (uint32_t k = 1; k < q->n; k++)
			state_bytes += model_tensor_bytes(&m.tensors.at[q->tensors + k], NULL);
		assert_int_equal(state_bytes, rows[i].state_bytes);
		q = model_module_at(&m, MODEL_TEXT, MODEL_NONE, MODEL_ROLE_HEAD);
		assert_int_equal(q->n, 1);
		assert_null(m.tensors.at[q->tensors].dtype);
		model_release(&m);
	}
}

/* Experts that are linear layers: of each a gate and an up, and a down, with scales of their own. */
static void test_quantized_experts(void **state)
{
	static const struct {
		bool experts;
		uint32_t tensors;
		uint64_t bytes;
	} rows[] = { { false, 1, 4 * 2 * 64 * 64 * 2 },
		     { true, 4 * 2 * 3, 4 * 2 * (2048 + 64 * 4 + 16 * 4) } };

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct plim_err err = { 0 };
		const struct model_module *up;
		uint64_t bytes = 0;
		struct model m;

		assert_int_equal(read_text(&m,
					   "{\"model_type\":\"mixtral\",\"num_local_experts\":4,"
					   "\"intermediate_size\":64," SMALL "1}",
					   &err),
				 0);
		assert_int_equal(model_quantize(&m, MODEL_NF4, rows[i].experts, &err), PLIM_OK);
		up = model_module_at(&m, MODEL_TEXT, 0, MODEL_ROLE_EXPERTS_UP);
		assert_int_equal(up->n, rows[i].tensors);
		for (uint32_t k = 0; k < up->n; k++)
			bytes += model_tensor_bytes(&m.tensors.at[up->tensors + k],
						    ckpt_dtype_of_torch("bfloat16"));
		assert_int_equal(bytes, rows[i].bytes);
		model_release(&m);
	}
}

/* The file says how it was quantized, or by whom in a way that is not known here; a copy is changed alone. */
static void test_says_quantized(void **state)
{
	static const struct {
		const char *text, *quantizer;
		unsigned quantized;
	} rows[] = {
		{ "", "", 0 },
		{ ",\"quantization_config\":{\"load_in_4bit\":true,\"quant_method\":"
		  "\"bitsandbytes\"}",
		  "bitsandbytes", 1 + MODEL_NF4 },
		{ ",\"quantization_config\":{\"load_in_4bit\":true,"
		  "\"bnb_4bit_use_double_quant\":true}",
		  "bitsandbytes", 1 + MODEL_NF4_DOUBLE },
		{ ",\"quantization_config\":{\"load_in_8bit\":true}", "bitsandbytes",
		  1 + MODEL_INT8 },
		{ ",\"quantization_config\":{\"bits\":4,\"quant_method\":\"gptq\"}", "gptq", 0 },
		{ ",\"quantization_config\":{\"quant_algo\":\"FP8\"}", "FP8", 0 },
		{ ",\"quantization_config\":7", "an unnamed method", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct plim_err err = { 0 };
		char text[400];
		struct model m, copy;

		snprintf(text, sizeof(text), "{\"model_type\":\"llama\"," SMALL "1%s}",
			 rows[i].text);
		assert_int_equal(read_text(&m, text, &err), 0);
		assert_string_equal(m.quantizer, rows[i].quantizer);
		assert_int_equal(m.quantized, rows[i].quantized);
		assert_int_equal(model_copy(&copy, &m, &err), PLIM_OK);
		assert_int_equal(model_quantize(&copy, MODEL_NF4, false, &err), PLIM_OK);
		assert_int_equal(m.modules.n, copy.modules.n);
		assert_true(copy.tensors.n > m.tensors.n);
		for (size_t k = 0; k < m.tensors.n; k++)
			assert_true(m.tensors.at[k].part != MODEL_QUANT_STATE);
		model_release(&copy);
		model_release(&m);
	}
}

static void test_adapters(void **state)
{
	static const struct {
		const char *targets;
		uint64_t trainable;
		enum plim_status status;
	} rows[] = {
		{ NULL, 2 * 2 * 8 * (64 + 64), PLIM_OK },
		{ "q_proj", 2 * 8 * (64 + 64), PLIM_OK },
		{ "layers.1.*", 0, PLIM_E_ARG }, /* of the whole name */
		{ "*.layers.1.*_proj", 8 * (4 * 128 + 3 * (64 + 256)), PLIM_OK },
		{ "all-linear", 2 * 8 * (4 * 128 + 3 * (64 + 256)), PLIM_OK },
		{ "embed_tokens", 8 * (100 + 64), PLIM_OK },
		{ "proj", 0, PLIM_E_ARG },
		{ ",,", 0, PLIM_E_ARG },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct model_lora lora = { .rank = 8, .targets = rows[i].targets };
		struct plim_err err = { 0 };
		struct model_totals totals;
		struct model m;

		assert_int_equal(
			read_text(&m,
				  "{\"model_type\":\"llama\",\"intermediate_size\":256," SMALL "2}",
				  &err),
			0);
		assert_int_equal(model_add_lora(&m, &lora, &err), rows[i].status);
		model_get_totals(&m, ckpt_dtype_of_torch("float32"), &totals);
		assert_int_equal(totals.trainable, rows[i].trainable);
		model_release(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_refused, start, finish),
		cmocka_unit_test_setup_teardown(test_guessed, start, finish),
		cmocka_unit_test_setup_teardown(test_keys, start, finish),
		cmocka_unit_test_setup_teardown(test_numbers, start, finish),
		cmocka_unit_test_setup_teardown(test_quantized, start, finish),
		cmocka_unit_test_setup_teardown(test_quantized_experts, start, finish),
		cmocka_unit_test_setup_teardown(test_says_quantized, start, finish),
		cmocka_unit_test_setup_teardown(test_adapters, start, finish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
