/* All of Plimsoll's public API. */
#ifndef PLIMSOLL_PLIMSOLL_H
#define PLIMSOLL_PLIMSOLL_H

#include <plimsoll/checkpointer.h>
#include <plimsoll/ckpt.h>
#include <plimsoll/curves.h>
#include <plimsoll/data.h>
#include <plimsoll/diff.h>
#include <plimsoll/doctor.h>
#include <plimsoll/durable.h>
#include <plimsoll/file.h>
#include <plimsoll/gauge.h>
#include <plimsoll/gradients.h>
#include <plimsoll/here.h>
#include <plimsoll/loader.h>
#include <plimsoll/monitor.h>
#include <plimsoll/page.h>
#include <plimsoll/plan.h>
#include <plimsoll/ranks.h>
#include <plimsoll/record.h>
#include <plimsoll/report.h>
#include <plimsoll/status.h>
#include <plimsoll/task.h>
#include <plimsoll/types.h>
#include <plimsoll/watch.h>
#include <plimsoll/weights.h>
#include <plimsoll/whatif.h>
#include <plimsoll/why.h>

#endif
