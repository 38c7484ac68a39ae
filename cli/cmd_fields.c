/* plimsoll __fields: the rows of the JSON schemas, for docs/json.md and the ABI list. */
#include "cmd.h"

#include <plimsoll/ckpt.h>
#include <plimsoll/report.h>

#include <string.h>

/* Schemas by name; the first is printed when none is named. */
static const struct {
	const char *name;
	enum plim_status (*fields)(int layout, plim_write_fn *write, void *ctx, struct plim_err *err);
} schemas[] = {
	{ "report", plim_report_fields },
	{ "ckpt", plim_ckpt_fields },
	{ "ckpt_diff", plim_ckpt_diff_fields },
};

static int fields_run(const void *values, int argc, char **argv)
{
	bool abi = argc && !strcmp(argv[0], "abi");
	struct plim_err err;
	size_t n = sizeof(schemas) / sizeof(schemas[0]);

	(void)values;
	for (size_t i = 0; i < n; i++) {
		if (!abi && strcmp(argc ? argv[0] : schemas[0].name, schemas[i].name) != 0)
			continue;
		if (schemas[i].fields(abi, cmd_to_stdout, NULL, &err))
			return cmd_fail(&err);
	}
	return CMD_DONE;
}

const struct cmd cmd_fields = {
	.name = "__fields",
	.summary = "print the fields of a schema",
	.args = "[abi|SCHEMA]",
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = fields_run,
};
