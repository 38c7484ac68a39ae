/*
 * Writing a file so that it is there whole, or the old one still is: a file without a name in the same folder, fsync,
 * read back and compared, linked and renamed, fsync of the folder.  Whenever the process or the machine dies, the name
 * shows the old file or the new one, never a part; what else is left, for one, where the file system has no files without
 * names, the next write in that folder removes.
 */
#ifndef BASE_DURABLE_H
#define BASE_DURABLE_H

#include "mem.h"

struct durable;

/* `bytes`: how many will be written at most, so that a full disk shows at once; 0: not known. */
enum plim_status durable_begin(struct mem *m, const char *path, uint64_t bytes,
			       struct durable **out, struct plim_err *err);

enum plim_status durable_write(struct durable *d, const void *at, size_t n, struct plim_err *err);

/*
 * From here on write past the page cache what is aligned for it (whole MiB from memory at a border of 4096), where the file
 * system can; it is read back that way, too.  For files that no one reads soon.
 */
void durable_direct(struct durable *d);

/* XXH3 with 64 bits of what was written so far. */
uint64_t durable_sum(const struct durable *d);

/*
 * Make it the file of that name.  Frees *d in every case; on failure the old file stands and the
 * temporary one is gone.  *sum (may be NULL): XXH3 with 64 bits of what was written.
 */
enum plim_status durable_commit(struct durable *d, uint64_t *sum, struct plim_err *err);

/* The end of some writes: commits where `st` is PLIM_OK; else removes what was written, and gives `st` back. */
enum plim_status durable_end(struct durable *d, enum plim_status st, struct plim_err *err);

/* A file of these bytes. */
enum plim_status durable_put(struct mem *m, const char *path, const void *at, size_t n,
			     struct plim_err *err);

/* Remove the temporary file.  NULL is a no-op. */
void durable_abort(struct durable *d);

#endif
