/*
 * Writing a file so that it is there whole, or the old one still is: a file without a name in the same folder, fsync,
 * read back and compared, linked and renamed, fsync of the folder.  A process that is killed leaves nothing, or a
 * ".plimsoll.HEX.tmp" that the next write in the folder removes.
 */
#ifndef PLIMSOLL_DURABLE_H
#define PLIMSOLL_DURABLE_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_durable;

/* `bytes`: how many will be written at most, so that a full disk shows at once; 0: not known.  PLIM_E_IO. */
PLIM_API enum plim_status plim_durable_begin(const char *path, uint64_t bytes,
					     struct plim_durable **out, struct plim_err *err);
PLIM_API enum plim_status plim_durable_write(struct plim_durable *d, const void *at, size_t n,
					     struct plim_err *err);
/*
 * Make it the file of that name; ends *d in every case.  On failure the old file stands and the temporary
 * one is gone.  *xxh3 (may be NULL): XXH3 with 64 bits of what was written.
 */
PLIM_API enum plim_status plim_durable_commit(struct plim_durable *d, uint64_t *xxh3,
					      struct plim_err *err);
PLIM_API void plim_durable_abort(struct plim_durable *d);

#ifdef __cplusplus
}
#endif

#endif
