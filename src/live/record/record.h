/* What `plimsoll record` puts into a Python job: runtime/recorder/plimsoll_record.py, built in. */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/base.h"

#include <plimsoll/record.h>

extern const unsigned char record_payload[];
extern const size_t record_payload_bytes;
extern const unsigned char record_gauge[]; /* python/plimsoll/_gauge_page.py */
extern const size_t record_gauge_bytes;
extern const unsigned char record_job[]; /* python/plimsoll/_job.py */
extern const size_t record_job_bytes;
/* python/plimsoll/allocator.py and what it imports */
extern const unsigned char record_allocator[];
extern const size_t record_allocator_bytes;
extern const unsigned char record_torch[];
extern const size_t record_torch_bytes;
extern const unsigned char record_errors[];
extern const size_t record_errors_bytes;

#endif
