/* The gauge (plimsoll/gauge.h): what neighbours need beyond it. */
#ifndef GAUGE_GAUGE_H
#define GAUGE_GAUGE_H

#include <plimsoll/gauge.h>

/* Is `page` what a writer of process `pid` leaves?  Repairs what is only odd; else why not.  For readers and fuzzers. */
const char *gauge_judge(struct plim_gauge_page *page, uint32_t pid, uint64_t start_time);

/* Field 22 of /proc/PID/stat; 0: not known. */
uint64_t gauge_start_time(uint32_t pid);

/* Of this process since it first asked: whoever counts another number is a child.  Less than getpid(). */
unsigned gauge_forks(void);

/* A writer over a page that this process keeps mapped otherwise; NULL: no memory.  Free it with gauge_forget, before the page goes. */
struct plim_gauge *gauge_over(void *page);
void gauge_forget(struct plim_gauge *gauge);

/*
 * A step and what PyTorch's allocator says at its end: allocated, reserved, their peaks, retries, failures; phase 0: as it was.
 * The step before ended at `ended`; returns when this one did.
 */
uint64_t gauge_page_step(struct plim_gauge *gauge, uint64_t step, const uint64_t numbers[6],
			 uint64_t peak, uint32_t slot, uint32_t phase, uint64_t ended);

#endif
