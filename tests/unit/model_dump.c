/*
 * model_dump [-n]: for each line of standard input, a config.json, a line of totals: parameters, trainable, bytes of
 * parameters and buffers at the dtype that stands before the config ("float32 {...}").  -n: the tensors' names and
 * shapes as well.  For tests/model.py.
 */
#include "model/model.h"

#include <stdio.h>

static void print_tensors(const struct model *m)
{
	for (size_t i = 0; i < m->tensors.n; i++) {
		const struct model_tensor *t = &m->tensors.at[i];
		char name[MODEL_NAME_BYTES];

		if (t->tied_to != MODEL_NONE)
			continue;
		printf("%c %s", t->flags & MODEL_IS_BUFFER ? 'b' : 'p', model_name(m, t, name));
		for (unsigned d = 0; d < t->rank; d++)
			printf(" %llu", (unsigned long long)t->dims[d]);
		putchar('\n');
	}
}

static int dump(char *line, size_t n, bool names)
{
	char *config = strchr(line, ' ');
	struct mem mem;
	struct model m;
	struct model_totals totals;
	struct plim_err err = { 0 };
	int failed = 1;

	if (!config)
		return 1;
	*config++ = 0;
	mem_init(&mem, 0);
	model_init(&m, &mem);
	if (model_read_config(&m, "config.json", config, n - (size_t)(config - line), &err)) {
		printf("error %s\n", err.message);
	} else {
		model_get_totals(&m, ckpt_dtype_of_torch(line), &totals);
		printf("total %s %d %llu %llu %llu %llu\n", m.family, m.guessed,
		       (unsigned long long)totals.parameters, (unsigned long long)totals.trainable,
		       (unsigned long long)totals.parameter_bytes,
		       (unsigned long long)totals.buffer_bytes);
		if (names)
			print_tensors(&m);
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
	int failed = 0;

	while ((n = getline(&line, &cap, stdin)) > 0)
		failed |= dump(line, (size_t)n, argc > 1 && !strcmp(argv[1], "-n"));
	free(line);
	return failed;
}
