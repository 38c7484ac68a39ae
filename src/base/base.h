/*
 * The ground floor: what every other floor may use, and nothing that knows about GPUs.
 * Neighbours include this header; each part is documented in its own.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

/* Out of the way of what runs millions of times. */
#define COLD __attribute__((cold, noinline))

#include "addr_map.h"
#include "arena.h"
#include "check.h"
#include "crc.h"
#include "decimal.h"
#include "durable.h"
#include "error.h"
#include "fields.h"
#include "file_kind.h"
#include "intern.h"
#include "json.h"
#include "known.h"
#include "mem.h"
#include "nested.h"
#include "options.h"
#include "redact.h"
#include "small_file.h"
#include "source.h"
#include "tar.h"
#include "text.h"
#include "thread.h"
#include "utf8.h"

#endif
