/*
 * A plan: the cycles of a run, stream by stream, as a file.
 *
 *	header   "PLIMPLAN"  u32 version  u32 streams  u64 file_bytes  u64 checksum
 *	         u64 live_peak_bytes  u64 reserved_peak_bytes           (of the run it was made from)
 *	stream   u32 cycles  u32 0                                       in the order in which they first ask for memory
 *	cycle    u32 requests  u32 peak_units
 *	request  u32 units  u32 life  u32 offset  u32 live               as struct cycle_entry
 *
 * All little-endian.  The checksum is cycles_checksum() of everything behind it.  Nothing of a file is trusted: a plan that lies
 * costs memory, never bytes (vmm.h: the heap alone knows what is free).
 */
#ifndef ALLOCATOR_CYCLES_FILE_H
#define ALLOCATOR_CYCLES_FILE_H

#include "cycle.h"

#define CYCLES_VERSION 1u
#define CYCLES_STREAMS_MAX 64u
#define CYCLES_BYTES_MAX ((uint64_t)16 << 20)

struct cycles_stream {
	struct cycle cycles[CYCLES_MAX]; /* without places */
	uint32_t n;
};

struct cycles_plan {
	struct mem *mem;
	VEC(struct cycles_stream) streams;
	uint64_t live_peak_bytes, reserved_peak_bytes;
};

typedef VEC(uint8_t) cycles_bytes;

/* PLIM_E_FORMAT says what is wrong and where; *out is empty then. */
enum plim_status cycles_read(struct cycles_plan *out, struct mem *m, const void *bytes, size_t n,
			     struct plim_err *err);
void cycles_release(struct cycles_plan *p);

enum plim_status cycles_write(const struct cycles_plan *p, cycles_bytes *out, struct plim_err *err);

/* Requests in the longest cycle of a file; 0: it has none. */
enum plim_status cycles_longest(struct mem *m, const void *bytes, size_t n, uint64_t *requests,
				struct plim_err *err);

/* FNV-1a over 64-bit words, the last one filled up with zeros. */
uint64_t cycles_checksum(const void *bytes, size_t n);

/* Take over copies of a lane's cycles, as the next stream. */
enum plim_status cycles_add_lane(struct cycles_plan *p, const struct cycle_lane *lane,
				 struct plim_err *err);

/* Begin a lane with a stream's cycles; number beyond the last: nothing. */
enum plim_status cycles_give_lane(const struct cycles_plan *p, size_t number,
				  struct cycle_lane *lane, struct plim_err *err);

#endif
