/* For documentation and tests: the rows of the JSON schemas, and single allocations with their category. */
#include "cmd.h"

#include <plimsoll/ckpt.h>
#include <plimsoll/diff.h>
#include <plimsoll/here.h>
#include <plimsoll/plan.h>
#include <plimsoll/ranks.h>
#include <plimsoll/whatif.h>
#include <plimsoll/why.h>

#include <string.h>

static const struct {
	const char *schema;
	enum plim_status (*print)(int layout, plim_write_fn *write, void *ctx,
				  struct plim_err *err);
} schemas[] = {
	{ "report", plim_report_fields },       { "diff", plim_diff_fields },
	{ "ranks", plim_ranks_fields },         { "whatif", plim_whatif_fields },
	{ "plan", plim_plan_fields },           { "ckpt", plim_ckpt_fields },
	{ "ckpt_diff", plim_ckpt_diff_fields }, { "ckpt_last", plim_ckpt_last_fields },
	{ "here", plim_here_fields },           { "why", plim_why_fields },
};

static int fields_run(const void *values, int argc, char **argv)
{
	int layout = argc && !strcmp(argv[0], "abi"), found = 0;
	struct plim_err err;

	(void)values;
	for (size_t i = 0; i < sizeof(schemas) / sizeof(*schemas); i++) {
		if (!layout && argc && strcmp(argv[0], schemas[i].schema))
			continue;
		found = 1;
		if (schemas[i].print(layout, cmd_to_stdout, NULL, &err))
			return cmd_fail(&err);
	}
	return found ? CMD_DONE : cmd_usage("no schema '%s'", argv[0]);
}

const struct cmd cmd_fields = {
	.name = "__fields",
	.summary = "print the fields of a JSON schema, or the layout of all of them",
	.args = "[SCHEMA|abi]",
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = fields_run,
};

static int live_run(const void *values, int argc, char **argv)
{
	struct plim_report *r;
	struct plim_err err;
	int code = CMD_DONE;

	(void)values;
	(void)argc;
	if (plim_report_open(argv[0], NULL, &r, &err))
		return cmd_fail(&err);
	if (plim_report_live(r, cmd_to_stdout, NULL, &err))
		code = cmd_fail(&err);
	plim_report_free(r);
	return code;
}

const struct cmd cmd_live = {
	.name = "__live",
	.summary = "print what is live at the end, with its category and the rule",
	.args = "SNAPSHOT",
	.min_args = 1,
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = live_run,
};
