/* Names of GPUs as people write them. */
#include "facts/facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *name;
	const char *is; /* NULL: none, or several */
	const char *message;
} names[] = {
	{ "A100 40GB", "A100 40GB", NULL },
	{ "NVIDIA A100-SXM4-80GB", "A100 80GB", NULL },
	{ "a100-80g", "A100 80GB", NULL },
	{ "A100", NULL, "A100 40GB or A100 80GB" },
	{ "NVIDIA H100 80GB HBM3", "H100 80GB", NULL },
	{ "h100 pcie", "H100 80GB", NULL },
	{ "H100 NVL", "H100 NVL", NULL },
	{ "h200", "H200", NULL },
	{ "H20", "H20", NULL },
	{ "H2", NULL, "unknown GPU 'H2'" },
	{ "4090", "RTX 4090", NULL },
	{ "NVIDIA GeForce RTX 4090", "RTX 4090", NULL },
	{ "rtx3090", "RTX 3090", NULL },
	{ "Tesla T4", "T4", NULL },
	{ "V100-SXM2-16GB", "V100 16GB", NULL },
	{ "L4", "L4", NULL },
	{ "L40", NULL, "unknown GPU" },
	{ "RTX 9999", NULL,
	  "unknown GPU 'RTX 9999'; did you mean RTX 4090, RTX 3090 or RTX 5090? Or give --memory" },
	{ "H200 141", NULL, "did you mean H200?" },
	{ "zzzzz", NULL, "unknown GPU 'zzzzz'; give --memory" },
	{ "", NULL, "unknown GPU ''; give --memory" },
};

static void test_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct facts_gpu *gpu = NULL;
		struct plim_err err = { 0 };
		enum plim_status st = facts_find_gpu(names[i].name, "--memory", &gpu, &err);

		print_message("%s\n", names[i].name);
		assert_int_equal(st, names[i].is ? PLIM_OK : PLIM_E_ARG);
		if (names[i].is)
			assert_string_equal(gpu->name, names[i].is);
		else
			assert_non_null(strstr(err.message, names[i].message));
	}
}

/* Every GPU is found by the name that the table gives it. */
static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < facts_gpu_count; i++) {
		const struct facts_gpu *gpu = NULL;
		struct plim_err err = { 0 };

		assert_int_equal(facts_find_gpu(facts_gpus[i].name, "", &gpu, &err), PLIM_OK);
		assert_ptr_equal(gpu, &facts_gpus[i]);
		assert_true(gpu->total_low_bytes <= gpu->total_high_bytes);
		assert_in_range(gpu->multiprocessors, 28, 304);
		assert_true(!gpu->capability || (gpu->capability >= 60 && gpu->capability < 130));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
