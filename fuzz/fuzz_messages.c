/* A line of a log as an out-of-memory text: intervals must be in order, counts in their range. */
#include "messages/messages.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct messages_oom oom;
	const struct messages_bytes *all[] = { &oom.tried,         &oom.total,
					       &oom.free,          &oom.allowed,
					       &oom.allocated,     &oom.unallocated,
					       &oom.private_pools, &oom.this_process,
					       &oom.others,        &oom.reserved };

	if (!messages_parse_oom((const char *)bytes, n, &oom))
		return 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i]->low > all[i]->high)
			abort();
	return 0;
}
