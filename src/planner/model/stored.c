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
	{ "fp4", NULL, 32, 17, false }, /* DeepSeek V4's experts, as mxfp4 */
	{ "awq", NULL, 0, 0, false },
	{ "gptq", NULL, 0, 0, false },
	{ "compressed-tensors", "float-quantized", 4096, 4098, false },
	{ "compressed-tensors", "int-quantized", 4096, 4098, false },
	{ "compressed-tensors", "pack-quantized", 0, 0, false },
	{ "compressed-tensors", "nvfp4-pack-quantized", 16, 9, false },
	{ "compressed-tensors", "mxfp4-pack-quantized", 32, 17, false },
};

/*
 * `bits` with a scale of 16 bits and perhaps a zero of `bits` for each group: in bytes of so many groups that it comes out even.
 * False: sizes that no such file has.
 */
static bool grouped(uint64_t bits, uint64_t group, bool zeros, uint16_t *block, uint16_t *bytes)
{
	uint64_t each = group * bits + 16 + (zeros ? bits : 0);

	if (!bits || bits > 8 || !group || group > 1024 || group * 8 > UINT16_MAX)
		return false;
	*block = (uint16_t)(group * 8);
	*bytes = (uint16_t)each; /* eight groups, in bytes */
	return true;
}

/*
 * A pattern as one that fnmatch reads, whole or from a start to a dot: "model.layers.*.self_attn", a regular expression's
 * "re:.*mlp\\.gate$" too.  Of names in the file that begin otherwise than a class's, what stands before "layers." is left out.
 */
static const char *of_text(const char *name)
{
	const char *layers = strstr(name, "layers.");
	const char *before = strstr(name, "vision");

	return layers && (!before || before > layers) ? layers : name;
}

#define GLOB_BYTES 400

/* One alternative of the first "(a|b)" in a regular expression; gives how many there are. */
static unsigned choose_stored(const char *in, unsigned which, char out[GLOB_BYTES])
{
	const char *open = strchr(in, '('), *close = open ? strchr(open, ')') : NULL, *at, *end;
	unsigned count = 1;

	snprintf(out, GLOB_BYTES, "%s", in);
	if (!close)
		return 1;
	at = open + 1;
	for (const char *c = at; c < close; c++) {
		if (*c != '|')
			continue;
		if (count == which)
			at = c + 1;
		count++;
	}
	for (end = at; end < close && *end != '|';)
		end++;
	snprintf(out, GLOB_BYTES, "%.*s%.*s%s", (int)(open - in), in, (int)(end - at), at,
		 close + 1);
	return count;
}

/* A regular expression, which is matched at the beginning, as a pattern. */
static void plain(const char *in, char out[GLOB_BYTES])
{
	size_t n = 0;
	bool ends = false;

	for (; *in && n + 2 < GLOB_BYTES; in++) {
		ends = *in == '$';
		if (*in == '\\' || *in == '$' || *in == '^' || (*in == '.' && in[1] == '*'))
			continue;
		out[n++] = *in;
	}
	if (!ends)
		out[n++] = '*';
	out[n] = 0;
}

static bool stored_fits(const char *glob, const char *name)
{
	char whole[GLOB_BYTES + 4];

	snprintf(whole, sizeof(whole), "%s.*", glob);
	if (!fnmatch(glob, name, 0) || !fnmatch(whole, name, 0))
		return true;
	snprintf(whole, sizeof(whole), "*.%s", glob);
	return !fnmatch(whole, name, 0);
}

static bool stored_is_named(const char *pattern, const char *name)
{
	char one[GLOB_BYTES], glob[GLOB_BYTES];
	bool expression = !strncmp(pattern, "re:", 3);
	unsigned count = 1;

	if (!expression)
		return stored_fits(pattern, name) || stored_fits(of_text(pattern), of_text(name));
	for (unsigned i = 0; i < count; i++) {
		count = choose_stored(pattern + 3, i, one);
		plain(one, glob);
		if (stored_fits(glob, name))
			return true;
	}
	return false;
}

static bool is_left(const struct model *m, const struct model_stored *s,
		    const struct model_module *module)
{
	char name[MODEL_NAME_BYTES];

	model_module_name(m, module, name);
	for (size_t i = 0; i < s->left_count; i++)
		if (stored_is_named(s->left[i], name))
			return true;
	return false;
}

static bool is_stored(const struct model_module *module, bool experts_alone)
{
	if (module->kind == MODEL_EXPERTS)
		return true;
	return !experts_alone && module->kind == MODEL_LINEAR && module->block != MODEL_NONE;
}

/* The dtype of weights that a method keeps; NULL: it is not known here, or not of such sizes. */
static const struct method *find_method(const struct model_stored *s, const char *name,
					struct ckpt_dtype *out)
{
	const struct method *found = NULL;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, name) &&
		    (!methods[i].format || !strcmp(methods[i].format, s->format)))
			found = &methods[i];
	if (!found)
		return NULL;
	*out = (struct ckpt_dtype){ .name = found->name,
				    .bits = 8,
				    .parts = 1,
				    .number = CKPT_BITS,
				    .block = found->block,
				    .block_bytes = found->block_bytes };
	if (!found->block &&
	    !grouped(s->bits, s->group, !s->symmetric, &out->block, &out->block_bytes))
		return NULL;
	return found;
}

/* What a rule of the file may name: experts are one parameter a block here, and a name each in the file. */
struct named {
	const char *name;
	size_t length; /* up to the experts' own names; 0: it is all of it */
};

static bool is_rule_of(const struct model_stored_rule *rule, const struct named *own)
{
	const char *of = of_text(rule->name);
	size_t n = own->length;

	return n ? !strncmp(own->name, of, n) && (!of[n] || of[n] == '.') : !strcmp(own->name, of);
}

/* Blocks behind the last one predict further tokens: they do not run, and are not built. */
static bool is_beyond(const struct model *m, const char *name)
{
	const char *layers = strstr(name, "layers.");

	return layers &&
	       strtoull(layers + strlen("layers."), NULL, 10) >= m->towers[MODEL_TEXT].layers;
}

/* Each layer as it is named, in two ways at most. */
static bool store_by_rules(struct model *m, const struct model_stored *s)
{
	struct ckpt_dtype *const both[] = { &m->stored, &m->stored_other };
	const char *names[2] = { NULL, NULL };
	char name[MODEL_NAME_BYTES];

	for (size_t i = 0; i < s->rule_count; i++) {
		const char *how = s->rules[i].method;
		unsigned k = !names[0] || !strcmp(names[0], how) ? 0 : 1;

		if (names[k] ? strcmp(names[k], how) != 0 : !find_method(s, how, both[k]))
			return false;
		names[k] = how;
	}
	for (size_t i = 0; i < m->modules.n; i++) {
		struct model_module *module = &m->modules.at[i];
		struct model_tensor *weight = &m->tensors.at[module->tensors];
		struct named own = { 0 };
		bool found = false;

		if (!module->n || (module->kind != MODEL_EXPERTS && module->kind != MODEL_LINEAR))
			continue;
		model_module_name(m, module, name);
		own.name = of_text(name);
		if (module->kind == MODEL_EXPERTS && strstr(own.name, ".experts"))
			own.length = (size_t)(strstr(own.name, ".experts") - own.name) +
				     strlen(".experts");
		for (size_t k = 0; k < s->rule_count; k++) {
			if (!is_rule_of(&s->rules[k], &own))
				continue;
			s->rules[k].met = true;
			if (!found)
				weight->dtype = both[strcmp(names[0], s->rules[k].method) != 0];
			weight->flags |= MODEL_IS_FROZEN;
			found = true;
		}
	}
	for (size_t i = 0; i < s->rule_count && !*m->unmet; i++)
		if (!s->rules[i].met && !is_beyond(m, s->rules[i].name))
			snprintf(m->unmet, sizeof(m->unmet), "%s", s->rules[i].name);
	return true;
}

bool model_store(struct model *m, const struct model_stored *s)
{
	bool apart = *s->experts;
	const struct method *found;

	if (s->rule_count)
		return store_by_rules(m, s);
	found = find_method(s, s->method, &m->stored);

	if (!found || (apart && !find_method(s, s->experts, &m->stored_other)))
		return false;
	for (size_t i = 0; i < m->modules.n; i++) {
		struct model_module *module = &m->modules.at[i];
		bool experts = apart && module->kind == MODEL_EXPERTS;

		if (!module->n || !is_stored(module, found->experts_alone) || is_left(m, s, module))
			continue;
		m->tensors.at[module->tensors].dtype = experts ? &m->stored_other : &m->stored;
		m->tensors.at[module->tensors].flags |= MODEL_IS_FROZEN;
	}
	return true;
}
