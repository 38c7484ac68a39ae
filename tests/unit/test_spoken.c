/* A refusal in a program's own words: which memory a line says of, and lines that say of none. */
#include "messages/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *line;
	enum scan_memory memory;
	uint64_t tried; /* 0: the line has no size */
} lines[] = {
	/* which memory */
	{ "RuntimeError: Loaded weights leave no GPU memory for the KV cache.", SCAN_MEMORY_CARD,
	  0 },
	{ "RuntimeError: Not enough memory to allocate the tensor on device cuda:0",
	  SCAN_MEMORY_CARD, 0 },
	{ "ERROR: failed to allocate 3221225472 bytes on the GPU", SCAN_MEMORY_CARD, 3221225472 },
	{ "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to allocate 1048576 bytes for "
	  "new "
	  "constant",
	  SCAN_MEMORY_CARD, 1048576 },
	{ "TPU initialization failed: RESOURCE_EXHAUSTED", SCAN_MEMORY_CARD, 0 },
	{ "VkError: OUT_OF_DEVICE_MEMORY", SCAN_MEMORY_CARD, 0 },
	{ "could not reserve a buffer of 2 GiB in VRAM", SCAN_MEMORY_CARD, 2147483648 },
	{ "[E] video memory is not sufficient: VRAM is not enough", SCAN_MEMORY_CARD, 0 },
	{ "engine: Unable to allocate host buffer of 64 MiB", SCAN_MEMORY_HOST, 67108864 },
	{ "fatal: insufficient system RAM", SCAN_MEMORY_HOST, 0 },
	{ "ray::Worker died: node ran out of memory", SCAN_MEMORY_HOST, 0 },
	{ "RuntimeError: unable to allocate shared memory", SCAN_MEMORY_SHARED, 0 },
	{ "MyOutOfMemoryError: the cache did not fit", SCAN_MEMORY_UNTOLD, 0 },
	{ "loader: failed to allocate compute buffers", SCAN_MEMORY_UNTOLD, 0 },
	{ "worker 3 died: OOM", SCAN_MEMORY_UNTOLD, 0 },
	/* none: a warning, what may happen, what was kept from happening, other things that are allocated */
	{ "WARNING: failed to allocate 64 MiB of pinned memory, falling back", SCAN_MEMORY_NONE,
	  0 },
	{ "error: this may run out of memory", SCAN_MEMORY_NONE, 0 },
	{ "error handling: retrying without enough GPU memory", SCAN_MEMORY_NONE, 0 },
	{ "fatal error: failed to allocate a port", SCAN_MEMORY_NONE, 0 },
	{ "Unable to allocate a job id", SCAN_MEMORY_NONE, 0 },
	{ "error: memory leak of 3 MiB", SCAN_MEMORY_NONE, 0 },
	{ "my laptop has not enough memory so I bought another", SCAN_MEMORY_NONE, 0 },
	{ "oom_score_adj: error 0", SCAN_MEMORY_NONE, 0 },
	{ "loss 2.31, memory 14.2 GiB, no errors", SCAN_MEMORY_NONE, 0 },
	{ "", SCAN_MEMORY_NONE, 0 },
};

static void test_lines(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *text = lines[i].line;
		struct messages_bytes tried = { 0, 0 };
		struct scan_line line;
		enum scan_memory memory;

		scan_line_clean(&line, text, text + strlen(text), text);
		memory = scan_spoken(&line, &tried);
		if (memory != lines[i].memory || tried.low > lines[i].tried ||
		    tried.high < lines[i].tried)
			print_error("'%s': %d, %llu bytes\n", text, (int)memory,
				    (unsigned long long)tried.low);
		assert_int_equal(memory, lines[i].memory);
		assert_in_range(lines[i].tried, tried.low, tried.high);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
