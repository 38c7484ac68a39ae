/* What tests tell the driver of fake_cuda.c. */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

extern struct fake_counts {
	uint64_t creates, unmaps, waits, queries;
} fake_counts;

/* Queue work on a range. */
void fake_touch(void *stream, uint64_t addr, uint64_t bytes);
/* All that is queued on a stream is done. */
void fake_complete(void *stream);
void fake_capture(void *stream, int on);
/* From now on a stream is of that device: events of other contexts are refused there. */
void fake_home(void *stream, int device);
/* Devices that may read and write what is mapped at an address, a bit each. */
unsigned fake_reached_by(uint64_t addr);
void fake_card(uint64_t bytes);
/* The n-th call from now on that can fail does; -1: none. */
void fake_fail_at(long call);
/* Called at each wait, without our lock: what it calls must not block. */
void fake_on_wait(void (*call)(void));
/* Queue a kernel that copies bytes of "device memory", which is the test's own; it runs when the stream gets there. */
void fake_kernel(void *stream, void *to, const void *from, size_t bytes);
/*
 * Called for each kernel of a module when its stream gets there, with our lock: its name, and its arguments as they lie in
 * memory.
 */
void fake_on_launch(void (*call)(const char *name, const void *arguments));
/* Allocations of cuMemAlloc that stand. */
uint64_t fake_memory(void);
/* Page-locked memory that stands; streams that stand. */
uint64_t fake_pinned(void);
unsigned fake_streams(void);
/* Bytes of handles that stand. */
uint64_t fake_used(void);

#endif
