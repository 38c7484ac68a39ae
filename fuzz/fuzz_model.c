/*
 * config.json: read within bounded memory or refused in one line; then every tensor has a name, a size that its
 * dimensions make, and a module that holds it, also with adapters and with quantized weights.
 */
#include "model/model.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_tensor(const struct model *m, size_t i)
{
	const struct model_tensor *t = &m->tensors.at[i];
	const struct model_module *module = &m->modules.at[t->module];
	uint64_t count = 1;
	char name[MODEL_NAME_BYTES];

	if (t->module >= m->modules.n || i < module->tensors || i - module->tensors >= module->n)
		abort();
	if (t->rank > MODEL_RANK || (t->tied_to != MODEL_NONE && t->tied_to >= m->tensors.n))
		abort();
	for (unsigned d = 0; d < t->rank; d++)
		count *= t->dims[d];
	if (count != t->count || !*model_name(m, t, name))
		abort();
}

static void check(const struct model *m)
{
	struct model_totals totals;

	for (size_t i = 0; i < m->tensors.n; i++)
		check_tensor(m, i);
	model_get_totals(m, ckpt_dtype_of_torch("float32"), &totals);
	if (totals.trainable > totals.parameters || totals.parameter_bytes > 4 * totals.parameters)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const struct model_lora lora = { .rank = 8, .targets = "all-linear" };
	struct plim_err err = { 0 };
	struct mem mem;
	struct model m;

	mem_init(&mem, (uint64_t)1 << 30);
	model_init(&m, &mem);
	if (model_read_config(&m, "config.json", bytes, n, &err)) {
		if (!err.status || !*err.message || strchr(err.message, '\n'))
			abort();
	} else {
		check(&m);
		if (!model_quantize(&m, MODEL_NF4_DOUBLE, false, &err))
			check(&m);
		if (!model_add_lora(&m, &lora, &err))
			check(&m);
	}
	model_release(&m);
	if (mem.used_bytes)
		abort();
	return 0;
}
