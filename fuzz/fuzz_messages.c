/*
 * A line of a log as an out-of-memory text: intervals must be in order, counts in their range; and as
 * one of the kernel's lines about a kill: what it names lies in the line.
 */
#include "messages/messages.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void inside(const char *part, size_t part_n, const char *line, size_t n)
{
	if (part_n && (part < line || part + part_n > line + n))
		abort();
}

static void read_kill(const char *line, size_t n)
{
	struct messages_kill k;

	if (messages_kill_reason(line, n, &k))
		inside(k.group, k.group_n, line, n);
	if (messages_kill_done(line, n, &k))
		inside(k.process, k.process_n, line, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct messages_oom oom;
	const struct messages_bytes *all[] = { &oom.tried,         &oom.total,
					       &oom.free,          &oom.allowed,
					       &oom.allocated,     &oom.unallocated,
					       &oom.private_pools, &oom.this_process,
					       &oom.others,        &oom.reserved };

	read_kill((const char *)bytes, n);
	if (!messages_parse_oom((const char *)bytes, n, &oom))
		return 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->low > all[i]->high)
			abort();
	return 0;
}
