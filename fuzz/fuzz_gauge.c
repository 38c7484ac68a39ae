/* Pages of the gauge: what is accepted has numbers that can be shown and text that can be printed. */
#include "gauge/gauge.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct plim_gauge_page page = { 0 };

	memcpy(&page, bytes, n < sizeof(page) ? n : sizeof(page));
	if (gauge_judge(&page, 0, 0))
		return 0;
	if (page.device_count > PLIM_GAUGE_DEVICES || page.phase > PLIM_GAUGE_OTHER)
		abort();
	if (memchr(page.run, 0, sizeof(page.run)) == NULL)
		abort();
	for (const char *c = page.run; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			abort();
	for (uint32_t i = 0; i < page.device_count; i++)
		if (page.devices[i].reserved_bytes != PLIM_UNKNOWN &&
		    page.devices[i].allocated_bytes != PLIM_UNKNOWN &&
		    page.devices[i].allocated_bytes > page.devices[i].reserved_bytes)
			abort();
	return 0;
}
