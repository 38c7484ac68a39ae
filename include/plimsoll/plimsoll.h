/* All of Plimsoll's public API. */
#ifndef PLIMSOLL_PLIMSOLL_H
#define PLIMSOLL_PLIMSOLL_H

#include <plimsoll/record.h>
#include <plimsoll/report.h>
#include <plimsoll/status.h>
#include <plimsoll/whatif.h>
#include <plimsoll/why.h>

#endif
