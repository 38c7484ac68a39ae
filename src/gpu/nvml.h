/*
 * NVML, opened at run time: what the driver tells of each card and of who holds its memory.
 *
 * Each number that a card, a driver or a container does not tell is PLIM_UNKNOWN or NaN; a symbol that is missing makes its number
 * unknown, never a failure.  One thread.  Layouts are those of nvml.h by their width (docs/watch.md).
 */
#ifndef GPU_NVML_H
#define GPU_NVML_H

#include "base/base.h"

#define NVML_CARDS 64
#define NVML_PROCESSES 256 /* of a card */

struct nvml;

struct nvml_process {
	uint32_t pid;   /* as the driver sees it: perhaps of another namespace */
	uint64_t bytes; /* PLIM_UNKNOWN: not told */
};

/* A card at one moment. */
struct nvml_card {
	char name[64], uuid[48];
	uint32_t minor; /* of /dev/nvidiaN; UINT32_MAX: not told */
	uint64_t total_bytes, used_bytes, reserved_bytes; /* used: without the reserved ones */
	double use;                                       /* percent */
	double power_w, power_limit_w;
	double graphics, sm, occupancy, tensor, dram; /* percent, since the look before */
	double receive_mib, transmit_mib;             /* a second */
	uint64_t
		slowed; /* reasons why clocks are down: 8 hardware, 0x20 and 0x40 heat, 0x80 power brake */
	bool lost; /* it has fallen off the bus */
	struct nvml_process processes[NVML_PROCESSES];
	size_t process_count;
	bool processes_told;
};

/*
 * path NULL: where drivers put it.  PLIM_E_UNSUPPORTED with the reason: there is no driver, or it does not work.
 */
enum plim_status nvml_open(const char *path, struct nvml **out, struct plim_err *err);
void nvml_close(struct nvml *n);

unsigned nvml_count(const struct nvml *n);

/* Look at card `i` now.  Never fails: what cannot be had is unknown. */
void nvml_look(struct nvml *n, unsigned i, struct nvml_card *out);

#endif
