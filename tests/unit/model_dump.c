/*
 * model_dump [-n]: for each line of standard input, a dtype and a config.json ("float32 {...}"), a line of totals.
 * -n: the tensors as well, parameters and then buffers, as tests/model.py compares them.
 * model_dump FILE...: a line of totals each, in fp32.
 */
#include "model/model.h"

#include <stdio.h>

static void print_tensors(const struct model *m, unsigned buffers)
{
	for (size_t i = 0; i < m->tensors.n; i++) {
		const struct model_tensor *t = &m->tensors.at[i];
		char name[MODEL_NAME_BYTES];

		if (t->tied_to != MODEL_NONE || (t->flags & MODEL_IS_BUFFER) != buffers)
			continue;
		printf("%s%s %s", buffers ? "b" : "p", t->flags & MODEL_IS_FROZEN ? "*" : "",
		       model_name(m, t, name));
		if (buffers)
			printf(" %s", t->dtype ? t->dtype->name : "float32");
		for (unsigned d = 0; d < t->rank; d++)
			printf(" %llu", (unsigned long long)t->dims[d]);
		putchar('\n');
	}
}

/* "lora=RANK:TARGETS[:dora][:save=NAMES]" and "quantize=KIND" behind the dtype, colons between. */
static enum plim_status change(struct model *m, char *words, struct plim_err *err)
{
	struct model_lora lora = { .dtype = ckpt_dtype_of_torch("float32") };
	char *at = words ? strtok(words, ":") : NULL;

	for (; at; at = strtok(NULL, ":")) {
		if (!strncmp(at, "lora=", 5)) {
			lora.rank = strtoull(at + 5, NULL, 10);
			lora.targets = strtok(NULL, ":");
			if (lora.targets && !strcmp(lora.targets, "default"))
				lora.targets = NULL;
		} else if (!strncmp(at, "save=", 5)) {
			lora.save = at + 5;
		} else if (!strcmp(at, "dora")) {
			lora.dora = true;
		}
	}
	return lora.rank ? model_add_lora(m, &lora, err) : PLIM_OK;
}

static void print_totals(const struct model *m, const char *dtype)
{
	struct model_totals totals;

	model_get_totals(m, ckpt_dtype_of_torch(dtype), &totals);
	printf("total %s %d %llu %llu %llu %llu\n", m->family, m->guessed,
	       (unsigned long long)totals.parameters, (unsigned long long)totals.trainable,
	       (unsigned long long)totals.parameter_bytes, (unsigned long long)totals.buffer_bytes);
}

static int dump_file(const char *path)
{
	struct mem mem;
	struct model m;
	struct plim_err err = { 0 };
	int failed = 1;

	mem_init(&mem, 0);
	model_init(&m, &mem);
	if (model_load(&m, path, &err)) {
		printf("error %s\n", err.message);
	} else {
		print_totals(&m, "float32");
		failed = 0;
	}
	model_release(&m);
	return failed;
}

static int dump(char *line, size_t n, bool names)
{
	char *config = strchr(line, ' '), *words = strchr(line, ':');
	struct mem mem;
	struct model m;
	struct plim_err err = { 0 };
	int failed = 1;

	if (!config)
		return 1;
	*config++ = 0;
	if (words && words < config)
		*words++ = 0;
	else
		words = NULL;
	mem_init(&mem, 0);
	model_init(&m, &mem);
	if (model_read_config(&m, "config.json", config, n - (size_t)(config - line), &err) ||
	    change(&m, words, &err)) {
		printf("error %s\n", err.message);
	} else {
		print_totals(&m, line);
		if (names) {
			print_tensors(&m, 0);
			print_tensors(&m, MODEL_IS_BUFFER);
		}
		failed = 0;
	}
	model_release(&m);
	return failed;
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n = 0;
	int failed = 0, names = argc > 1 && !strcmp(argv[1], "-n");

	for (int i = 1; !names && i < argc; i++)
		failed |= dump_file(argv[i]);
	if (argc > 1 && !names)
		return failed;
	while ((n = getline(&line, &cap, stdin)) > 0)
		failed |= dump(line, (size_t)n, names);
	free(line);
	return failed;
}
