/* The gauge (plimsoll/gauge.h): what neighbours need beyond it. */
#ifndef GAUGE_GAUGE_H
#define GAUGE_GAUGE_H

#include <plimsoll/gauge.h>

/* Is `page` what a writer of process `pid` leaves?  Repairs what is only odd; else why not.  For readers and fuzzers. */
const char *gauge_judge(struct plim_gauge_page *page, uint32_t pid, uint64_t start_time);

/* Field 22 of /proc/PID/stat; 0: not known. */
uint64_t gauge_start_time(uint32_t pid);

#endif
