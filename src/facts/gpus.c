#include "facts.h"

/*
 * Totals in units of 0.01 GiB: the lowest and the highest that were seen (drivers, ECC and hosts
 * differ).  M: measured here with driver 580; T: total capacity in public out-of-memory texts and
 * torch.cuda.get_device_properties dumps, collected 2026-11.
 */
#define GPU(gpu, low, high, from)                                                  \
	{                                                                          \
		gpu, (low) * (1ull << 30) / 100, (high) * (1ull << 30) / 100, from \
	}

const struct facts_gpu facts_gpus[] = {
	GPU("RTX 3080", 964, 964, "T"),      GPU("RTX 2080 Ti", 1075, 1075, "T"),
	GPU("RTX 3060", 1163, 1166, "T"),    GPU("T4", 1456, 1474, "T"),
	GPU("RTX 5060 Ti", 1547, 1547, "T"), GPU("RTX 4070 Ti SUPER", 1556, 1556, "T"),
	GPU("V100 16GB", 1577, 1590, "T"),   GPU("A10G or L4", 2203, 2206, "T"),
	GPU("RTX 4090", 2352, 2364, "T"),    GPU("RTX 3090", 2355, 2369, "T"),
	GPU("RTX 5090", 3136, 3140, "T"),    GPU("V100 32GB", 3173, 3174, "T"),
	GPU("A100 40GB", 3938, 3956, "T"),   GPU("A40 or L40S", 4434, 4452, "T"),
	GPU("RTX A6000", 4743, 4754, "T"),   GPU("A100 80GB", 7915, 7933, "T"),
	GPU("H100 80GB", 7910, 7925, "M"),   GPU("H100 NVL", 9309, 9310, "T"),
	GPU("GH200 96GB", 9450, 9500, "T"),  GPU("RTX PRO 6000", 9497, 9497, "T"),
	GPU("H20", 9500, 9510, "T"),         GPU("H200", 13972, 13983, "M"),
	GPU("B200", 17835, 17836, "T"),      GPU("MI300X", 19145, 19198, "T"),
	GPU("B300", 26769, 26769, "T"),
};
const size_t facts_gpu_count = sizeof(facts_gpus) / sizeof(facts_gpus[0]);
