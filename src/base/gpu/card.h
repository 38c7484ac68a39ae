/*
 * A GPU at one moment, whoever made it: what its driver says of it and of who holds its memory.
 *
 * Each number that a GPU, a driver or a container does not say is PLIM_UNKNOWN or NaN.
 */
#ifndef GPU_CARD_H
#define GPU_CARD_H

#include "base/base.h"

#define GPU_CARDS 64
#define GPU_PROCESSES 256 /* of a GPU */

struct gpu_process {
	uint32_t pid;   /* as the driver sees it: perhaps of another namespace */
	uint64_t bytes; /* PLIM_UNKNOWN: not known */
};

enum gpu_slowed { GPU_SLOWED_HARDWARE = 8, GPU_SLOWED_HEAT = 0x60, GPU_SLOWED_BRAKE = 0x80 };

struct gpu_card {
	char name[64], uuid[48];
	uint64_t total_bytes, used_bytes, reserved_bytes; /* used: without the reserved ones */
	double use;                                       /* percent of the time with any kernel */
	double power_w, power_limit_w, temperature_c;
	/* NVML's GPM, percent, since the look before: */
	double graphics, sm, occupancy, tensor, dram;
	double receive_mib, transmit_mib; /* a second */
	uint64_t slowed;                  /* why clocks are down: enum gpu_slowed, together */
	uint64_t xid;                     /* the newest error that the driver told; 0: none */
	unsigned minor;                   /* of /dev/nvidiaN; UINT32_MAX: not known */
	bool lost;                        /* it has fallen off the bus */
	struct gpu_process processes[GPU_PROCESSES];
	size_t process_count;
	bool processes_told;
};

/* Everything unknown, except for its names. */
void gpu_card_clear(struct gpu_card *c);

#endif
