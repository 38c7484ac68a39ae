/* plimsoll __fields: the rows of the JSON schemas, for docs/json.md and the ABI list. */
#include "cmd.h"

#include <plimsoll/report.h>

#include <errno.h>
#include <string.h>

static int to_stdout(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	return fwrite(text, 1, n, stdout) == n ? 0 : errno ? errno : EIO;
}

static int fields_run(const void *values, int argc, char **argv)
{
	struct plim_err err;

	(void)values;
	return plim_report_fields(argc && !strcmp(argv[0], "abi"), to_stdout, NULL, &err)
		       ? cmd_fail(&err)
		       : CMD_DONE;
}

const struct cmd cmd_fields = {
	.name = "__fields",
	.summary = "print the fields of report/1",
	.args = "[abi]",
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = fields_run,
};
