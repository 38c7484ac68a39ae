/* Names of statuses, and the version. */
#include <plimsoll/status.h>

static const struct {
	enum plim_status status;
	const char *name;
} names[] = {
	{ PLIM_OK, "done" },
	{ PLIM_E_NOMEM, "out of memory" },
	{ PLIM_E_LIMIT, "over the memory limit" },
	{ PLIM_E_IO, "cannot read or write" },
	{ PLIM_E_FORMAT, "damaged or unknown input" },
	{ PLIM_E_ARG, "wrong argument" },
	{ PLIM_E_CANCELLED, "cancelled" },
	{ PLIM_E_UNSUPPORTED, "not possible here" },
};

const char *plim_status_name(enum plim_status status)
{
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].status == status)
			return names[i].name;
	return "unknown status";
}

const char *plim_version(void)
{
	return PLIM_VERSION;
}
