/* Any bytes behind GGUF's magic, as a checkpoint and as a model.  Of a file in which nothing is wrong no two tensors share bytes. */
#include "checkpoint_read.h"
#include "model/tables.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A model of it has as many parameters as the file, or there is none. */
static void check_model(const struct ckpt *c)
{
	struct plim_err err = { 0 };
	struct mem mem;
	struct model m;

	mem_init(&mem, (uint64_t)1 << 30);
	model_init(&m, &mem);
	if (model_read_gguf(&m, c, "m.gguf", &err))
		must(err.status && *err.message && !strchr(err.message, '\n'));
	else
		must(m.from_gguf && m.tensors.n);
	model_release(&m);
	must(!mem.used_bytes);
}

static void check(const struct ckpt *c)
{
	uint64_t end = 0;

	check_model(c);
	for (size_t i = 0; i < c->findings.n; i++)
		if (c->findings.at[i].severity == CKPT_BAD_FINDING)
			return;
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[c->tensors.at[i].extent];

		must(x->offset >= end && ckpt_tensor_bytes(&c->tensors.at[i]) == x->bytes);
		end = x->offset + x->bytes;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint8_t *file = malloc(n + 8);

	must(file != NULL);
	memcpy(file, "GGUF\3\0\0\0", 8);
	memcpy(file + 8, bytes, n);
	read_bytes(file, n + 8, check);
	free(file);
	return 0;
}
