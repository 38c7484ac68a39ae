#include "facts.h"

/* Totals measured with torch.cuda.mem_get_info on the card, driver 580. */
const struct facts_gpu facts_gpus[] = {
	{ "H100 80GB", 85017493504u, "tests/data, device_total of recordings made on it, 2026-11" },
	{ "H200", 150109880320u, "tests/data, device_total of recordings made on it, 2026-11" },
};
const size_t facts_gpu_count = sizeof(facts_gpus) / sizeof(facts_gpus[0]);

/* Vendors' product pages, 2026. */
const uint16_t facts_nominal_gib[] = { 4,  6,  8,  10, 11, 12,  16,  20,  22,  24,  32,  40, 44,
				       48, 64, 80, 94, 96, 128, 141, 144, 180, 192, 256, 288 };
const size_t facts_nominal_count = sizeof(facts_nominal_gib) / sizeof(facts_nominal_gib[0]);
