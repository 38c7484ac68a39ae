/* How a file says that its weights are quantized (stored.c has the methods). */
#include "config.h"

#include <stdio.h>

/* Where the file says how its weights are quantized; in the text tower's object too. */
static const char *quantization_scope(const struct config *c)
{
	static const char *const scopes[] = { "quantization_config",
					      "text_config.quantization_config",
					      "compression_config",
					      "quantization" }; /* of hf_quant_config.json */

	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		const struct config_value *object = config_find(c, NULL, scopes[i]);

		if (object && !config_is_off(c, object))
			return scopes[i];
	}
	return scopes[0];
}

/* As Transformers writes it next to the weights. */
void config_take_quantizer(struct config *c)
{
	const char *scope = quantization_scope(c);
	struct model *m = c->model;
	const struct config_value *object;
	bool nf4 = config_is_true(c, scope, "load_in_4bit"),
	     int8 = config_is_true(c, scope, "load_in_8bit");

	snprintf(m->quantizer, sizeof(m->quantizer), "%s",
		 config_text(c, config_find(c, scope, "quant_method")));
	if (!*m->quantizer) /* ModelOpt's files */
		snprintf(m->quantizer, sizeof(m->quantizer), "%s",
			 config_text(c, config_find(c, scope, "quant_algo")));
	if (!*m->quantizer && (nf4 || int8)) /* files of old releases do not name it */
		snprintf(m->quantizer, sizeof(m->quantizer), "bitsandbytes");
	if (!*m->quantizer && !strcmp(config_text(c, config_find(c, NULL, "dtype")), "fp8"))
		snprintf(m->quantizer, sizeof(m->quantizer), "fp8"); /* DeepSeek's reference */
	object = config_find(c, NULL, scope);
	if (!*m->quantizer && object && !config_is_off(c, object))
		snprintf(m->quantizer, sizeof(m->quantizer), "an unnamed method");
	if (nf4)
		m->quantized = 1 + (config_is_true(c, scope, "bnb_4bit_use_double_quant")
					    ? MODEL_NF4_DOUBLE
					    : MODEL_NF4);
	else if (int8)
		m->quantized = 1 + MODEL_INT8;
}

#define LEFT_MOST 4096 /* patterns of modules that are not quantized */

/* What the method leaves alone. */
static size_t take_left(const struct config *c, const char *scope, const char **left)
{
	static const char *const lists[] = { "modules_to_not_convert", "ignore",
					     "exclude_modules" };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const struct config_value *v = config_find(c, scope, lists[i]),
					  *end = config_list_end(c, v);

		for (v = v ? v + 1 : NULL; v < end && n < LEFT_MOST; v++)
			if (v->kind == JSON_STRING)
				left[n++] = config_text(c, v);
	}
	return n;
}

/* Of a library that has several methods: which. */
static void name_algorithm(struct model *m, const char *algorithm)
{
	size_t n = strlen(m->quantizer);

	if (*algorithm && strcmp(m->quantizer, algorithm) != 0)
		snprintf(m->quantizer + n, sizeof(m->quantizer) - n, "'s %s", algorithm);
}

/* ModelOpt's files of several kinds: each layer, by its name, in an object of its own.  Gives how many there are. */
static size_t take_rules(const struct config *c, const char *scope, struct model_stored_rule *rules,
			 size_t most)
{
	const struct intern *strings = &c->model->strings;
	uint32_t key = intern_find(strings, "quant_algo", strlen("quant_algo"));
	char layers[CONFIG_SCOPE_BYTES];
	size_t n = (size_t)snprintf(layers, sizeof(layers), "%s.quantized_layers.", scope),
	       count = 0;

	for (size_t i = 0; key != INTERN_NONE && i < c->values.n && count < most; i++) {
		const struct config_value *v = &c->values.at[i];

		if (v->key != key || v->scope == INTERN_NONE || v->kind != JSON_STRING ||
		    strncmp(intern_text(strings, v->scope), layers, n) != 0)
			continue;
		rules[count].name = intern_text(strings, v->scope) + n;
		rules[count++].method = config_text(c, v);
	}
	return count;
}

/* As the file says, with its lists, of which there is room for `layers` that are named. */
static enum plim_status store_listed(struct config *c, const char *scope, struct model_stored *s,
				     size_t layers, struct plim_err *err)
{
	struct mem *mem = c->model->mem;
	const char **left = mem_new(mem, LEFT_MOST, sizeof(*left), err);
	struct model_stored_rule *rules =
		left ? mem_new(mem, layers + 1, sizeof(*rules), err) : NULL;
	enum plim_status st = rules ? PLIM_OK : mem_status(err);
	bool known;

	if (!st) {
		s->left = left;
		s->left_count = take_left(c, scope, left);
		s->rules = rules;
		s->rule_count = take_rules(c, scope, rules, layers);
		/* groups of several kinds: which of them a layer is of is not read, unless each is named */
		known = s->rule_count == layers &&
			(layers || config_count_objects(c, scope, "config_groups") <= 1) &&
			model_store(c->model, s);
		if (!known) {
			c->model->stored.name = NULL;
			name_algorithm(c->model,
				       config_text(c, config_find(c, scope, "quant_algo")));
		}
	}
	mem_free(mem, rules, rules ? layers + 1 : 0, sizeof(*rules));
	mem_free(mem, left, left ? LEFT_MOST : 0, sizeof(*left));
	return st;
}

/* Weights of a method other than bitsandbytes', at the size that they have in the file. */
enum plim_status config_take_stored(struct config *c, struct plim_err *err)
{
	const char *scope = quantization_scope(c);
	struct model *m = c->model;
	uint64_t layers;
	struct model_stored s = { .method = m->quantizer,
				  .format = config_text(c, config_find(c, scope, "format")),
				  .bits = config_count(c, scope, "bits"),
				  .group = config_count(c, scope, "group_size"),
				  .experts = config_text(c, config_find(c, NULL, "expert_dtype")) };

	if (!*m->quantizer || m->quantized)
		return PLIM_OK;
	if (!strcmp(m->quantizer, "modelopt") &&
	    *config_text(c, config_find(c, scope, "quant_algo")))
		s.method = config_text(c, config_find(c, scope, "quant_algo"));
	if (!strcmp(m->quantizer, "compressed-tensors")) {
		s.bits = config_count(c, scope, "config_groups.group_0.weights.num_bits");
		s.group = config_count(c, scope, "config_groups.group_0.weights.group_size");
		s.symmetric = config_is_true(c, scope, "config_groups.group_0.weights.symmetric");
	}
	if (*config_text(c, config_find(c, scope, "moe_quant_algo")))
		s.experts = config_text(c, config_find(c, scope, "moe_quant_algo"));
	layers = config_count_objects(c, scope, "quantized_layers");
	return store_listed(c, scope, &s, layers < CONFIG_VALUES ? layers : CONFIG_VALUES, err);
}
