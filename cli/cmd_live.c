/* For tests: single allocations with their category. */
#include "cmd.h"

#include <plimsoll/report.h>

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
