/*
 * Weights that a file already holds quantized: a row a method, with how many bytes so many numbers take, their scales among
 * them.  Kernels read the codes; nothing is made whole.  bitsandbytes' own, which also trains, is quantize.c's.
 *
 * Sources: Transformers' quantizers and integrations (fp8: finegrained_fp8.py; mxfp4.py; awq.py; gptq), compressed-tensors'
 * and ModelOpt's formats; the OCP's microscaling formats (a scale of a byte for 32 numbers).
 */
#include "tables.h"

#include <fnmatch.h>
#include <stdio.h>

static const struct method {
	const char *name;            /* quant_method, or ModelOpt's quant_algo */
	const char *format;          /* compressed-tensors' `format`; NULL: any */
	uint16_t block, block_bytes; /* 0: of `bits` and `group_size` in the file */
	bool experts_alone;
} methods[] = {
	{ "fp8", NULL, 16384, 16388, false }, /* an fp32 scale for 128 x 128 */
	{ "fbgemm_fp8", NULL, 4096, 4100, false },
	{ "FP8", NULL, 4096, 4096, false },
	{ "FP8_PER_CHANNEL_PER_TOKEN", NULL, 4096, 4100, false },
	{ "NVFP4", NULL, 16, 9, false }, /* a byte of scale for 16 */
	{ "mxfp4", NULL, 32, 17, true },
	{ "awq", NULL, 0, 0, false },
	{ "gptq", NULL, 0, 0, false },
	{ "compressed-tensors", "float-quantized", 4096, 4098, false },
	{ "compressed-tensors", "int-quantized", 4096, 4098, false },
	{ "compressed-tensors", "nvfp4-pack-quantized", 16, 9, false },
	{ "compressed-tensors", "mxfp4-pack-quantized", 32, 17, false },
};

/*
 * `bits` with a scale of 16 bits and a zero of `bits` for each group: in bytes of so many groups that it comes out even.
 * False: sizes that no such file has.
 */
static bool grouped(uint64_t bits, uint64_t group, uint16_t *block, uint16_t *bytes)
{
	uint64_t each = group * bits + 16 + bits;

	if (!bits || bits > 8 || !group || group > 1024 || group * 8 > UINT16_MAX)
		return false;
	*block = (uint16_t)(group * 8);
	*bytes = (uint16_t)each; /* eight groups, in bytes */
	return true;
}

/* Of what the file leaves out: "lm_head", "model.layers.*.self_attn", "re:.*mlp\.gate$", or a part of the name. */
static bool is_named(const char *pattern, const char *name)
{
	char glob[300];
	size_t n = 0;

	if (!strncmp(pattern, "re:", 3))
		pattern += 3;
	glob[n++] = '*';
	for (; *pattern && n + 2 < sizeof(glob); pattern++) {
		if (*pattern == '\\' || *pattern == '$' || *pattern == '^')
			continue;
		if (*pattern == '.' && pattern[1] == '*')
			continue;
		glob[n++] = *pattern;
	}
	glob[n++] = '*';
	glob[n] = 0;
	return !fnmatch(glob, name, 0);
}

static bool is_left(const struct model *m, const struct model_stored *s,
		    const struct model_module *module)
{
	char name[MODEL_NAME_BYTES];

	model_module_name(m, module, name);
	for (size_t i = 0; i < s->left_count; i++)
		if (is_named(s->left[i], name))
			return true;
	return false;
}

static bool is_stored(const struct model_module *module, bool experts_alone)
{
	if (module->kind == MODEL_EXPERTS)
		return true;
	return !experts_alone && module->kind == MODEL_LINEAR && module->block != MODEL_NONE;
}

bool model_store(struct model *m, const struct model_stored *s)
{
	const struct method *found = NULL;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, s->method) &&
		    (!methods[i].format || !strcmp(methods[i].format, s->format)))
			found = &methods[i];
	if (!found)
		return false;
	m->stored = (struct ckpt_dtype){ .name = found->name,
					 .bits = 8,
					 .parts = 1,
					 .number = CKPT_BITS,
					 .block = found->block,
					 .block_bytes = found->block_bytes };
	if (!found->block && !grouped(s->bits, s->group, &m->stored.block, &m->stored.block_bytes))
		return false;
	for (size_t i = 0; i < m->modules.n; i++) {
		struct model_module *module = &m->modules.at[i];

		if (!module->n || !is_stored(module, found->experts_alone) || is_left(m, s, module))
			continue;
		m->tensors.at[module->tensors].dtype = &m->stored;
		m->tensors.at[module->tensors].flags |= MODEL_IS_FROZEN;
	}
	return true;
}
