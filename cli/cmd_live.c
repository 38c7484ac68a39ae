/* For tests: single allocations with their category. */
#include "cmd.h"

#include <plimsoll/recording.h>

#include <stdio.h>

/* The value of a row in a column of that stride. */
#define AT(type, column, stride, row) \
	(*(const type *)(const void *)((const char *)(column) + (row) * (stride)))

static enum plim_status print_device(struct plim_recording *r, uint64_t device,
				     struct plim_err *err)
{
	struct plim_allocation_columns c;
	enum plim_status st = plim_recording_allocations(r, device, &c, err);

	for (uint64_t i = 0; !st && c.rule && i < c.count; i++)
		if (AT(uint32_t, c.free_completed, c.stride, i) == PLIM_NO_EVENT)
			printf("%llu %llu %s\n",
			       (unsigned long long)AT(uint64_t, c.address, c.stride, i),
			       (unsigned long long)AT(uint64_t, c.requested_bytes, c.stride, i),
			       c.rules[c.rule[i]].category);
	return st;
}

static int live_run(const void *values, int argc, char **argv)
{
	struct plim_recording *r;
	struct plim_err err;
	uint64_t devices = 0;
	enum plim_status st;

	(void)values;
	(void)argc;
	if (plim_recording_open(argv[0], NULL, &r, &err))
		return cmd_fail(&err);
	st = plim_recording_devices(r, &devices, &err);
	for (uint64_t i = 0; !st && i < devices; i++)
		st = print_device(r, i, &err);
	plim_recording_free(r);
	return st ? cmd_fail(&err) : CMD_DONE;
}

const struct cmd cmd_live = {
	.name = "__live",
	.summary = "print what is live at the end, with its category",
	.args = "RECORDING",
	.min_args = 1,
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = live_run,
};
