/* fdinfo of a GPU: any text is read; what is reported a GPU has a name that ends, and never half of a number. */
#include "gpu/drm.h"

#include "must.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct drm_client client;
	char text[4096];

	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	memcpy(text, bytes, n);
	text[n] = 0;
	must(drm_client_parse(text, &client) == (*client.device != 0));
	must(memchr(client.device, 0, sizeof(client.device)));
	if (!strstr(text, "drm-"))
		must(!*client.device && client.bytes == PLIM_UNKNOWN && !client.id);
	return 0;
}
