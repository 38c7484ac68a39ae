/*
 * One file in memory as a checkpoint: read, scanned, written anew.  Whatever it is, nothing may crash, what is said
 * of tensors must lie inside the file, and memory is given back.
 */
#ifndef FUZZ_CHECKPOINT_READ_H
#define FUZZ_CHECKPOINT_READ_H

#include "checkpoint/checkpoint.h"
#include "must.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Extents and tensors lie inside the file. */
static inline void read_check(const struct ckpt *c)
{
	for (size_t i = 0; i < c->extents.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[i];

		if (x->state != CKPT_CUT)
			must(x->offset <= c->files.at[x->file].bytes &&
			     x->stored_bytes <= c->files.at[x->file].bytes - x->offset);
	}
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];

		if (t->extent != CKPT_NONE && c->extents.at[t->extent].state != CKPT_CUT &&
		    ckpt_is_contiguous(c, t) && !t->offset)
			must(ckpt_tensor_bytes(t) <= c->extents.at[t->extent].bytes);
	}
}

/* Calls check (may be NULL) while it is open. */
static inline void read_bytes(const uint8_t *bytes, size_t n, void (*check)(const struct ckpt *c))
{
	struct mem m;
	struct ckpt c;
	struct plim_err err;
	char path[64];
	int fd = memfd_create("checkpoint", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	mem_init(&m, (uint64_t)64 << 20);
	ckpt_init(&c, &m);
	c.allow = "mine.*";
	if (!ckpt_read(&c, path, &err)) {
		read_check(&c);
		if (check)
			check(&c);
		(void)ckpt_scan(&c, CKPT_SCAN_VALUES, 1, &err);
	}
	ckpt_close(&c);
	must(!m.used_bytes);
	close(fd);
}

#endif
