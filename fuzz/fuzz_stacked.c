/*
 * Pickles that follow each other, of any protocol: as a file, and opcode by opcode.  What the pickle machine decodes to
 * its end, the reader of opcodes must take for a pickle that is not cut, and every name that the one meets the other
 * must have told.
 */
#include "checkpoint/opcodes.h"
#include "checkpoint_read.h"
#include "pickle/pickle.h"
#define MUTATE_NO_ENTRY
#include "pickle_mutate.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed);

struct heard {
	char names[64][300];
	size_t n;
	const struct pickle_heap *heap;
};

static enum plim_status hear(void *ctx, const char *name, uint64_t offset, struct plim_err *err)
{
	struct heard *h = ctx;

	(void)offset;
	(void)err;
	if (h->n < 64)
		snprintf(h->names[h->n++], sizeof(h->names[0]), "%s", name);
	return PLIM_OK;
}

static enum plim_status count(void *ctx, struct pickle_value v, uint64_t offset,
			      struct plim_err *err)
{
	(void)v;
	(void)offset;
	(void)err;
	++*(size_t *)ctx;
	return PLIM_OK;
}

static void compare(const uint8_t *bytes, size_t n)
{
	static struct heard h;
	struct mem m;
	struct pickle_heap heap;
	struct plim_err err;
	struct source *src;
	struct pickle_value root;
	size_t met = 0, at;
	struct pickle_hooks hooks = { .ctx = &met, .global = count };

	h.n = 0;
	(void)opcodes_name(bytes, n, hear, &h, &err);
	(void)opcodes_doubt(bytes, n, &at);
	mem_init(&m, (uint64_t)64 << 20);
	pickle_heap_init(&heap, &m);
	if (!source_open_memory(&m, "x", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src, &err)) {
		if (!pickle_read(&heap, src, 0, &hooks, &root, &err))
			must(!opcodes_is_cut(bytes, n));
		source_close(src);
	}
	pickle_heap_release(&heap);
	must(!m.used_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	if (n)
		compare(bytes, n);
	read_bytes(bytes, n, NULL);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed)
{
	size_t made = seed % 4 && n > 2 ? mutate_pickle(bytes, n, max, seed) : 0;

	return made ? made : LLVMFuzzerMutate(bytes, n, max);
}
