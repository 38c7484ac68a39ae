/* A checkpoint's manifest, whatever it says: names of files in it are plain names. */
#include "must.h"
#include "save/parts.h"

#include <math.h>
#include <string.h>

#define LIMIT_BYTES ((uint64_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct manifest x;
	struct mem m;

	mem_init(&m, LIMIT_BYTES);
	if (!manifest_of(&m, bytes, n, &x, NULL)) {
		must(x.rows.n && x.step != PLIM_UNKNOWN && !isinf(x.metric));
		for (size_t i = 0; i < x.rows.n; i++) {
			const char *name = x.rows.at[i].name;

			must(*name && (*name != '.' || !strcmp(name, SAVE_METADATA)) &&
			     !strchr(name, '/') && strlen(name) < SAVE_NAME);
		}
	}
	manifest_release(&m, &x);
	must(!m.used_bytes);
	return 0;
}
