/*
 * Any bytes as a checkpoint file: zip, legacy, safetensors and what is inside them, then the scan of
 * checksums and values, then a comparison with itself.  Whatever is found, nothing may crash, and what is
 * said of tensors must lie inside the file.
 */
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_tensors(const struct ckpt *c)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const struct ckpt_extent *x = t->extent == CKPT_NONE ? NULL : &c->extents.at[t->extent];

		if (!x || x->state == CKPT_CUT)
			continue;
		if (x->offset > c->files.at[x->file].bytes ||
		    x->stored_bytes > c->files.at[x->file].bytes - x->offset)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct mem m;
	struct ckpt c;
	struct ckpt_compare d = { 0 };
	struct plim_err err;
	char path[64];
	int fd = memfd_create("checkpoint", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	mem_init(&m, (uint64_t)64 << 20);
	ckpt_init(&c, &m);
	if (!ckpt_read(&c, path, &err)) {
		check_tensors(&c);
		if (!ckpt_scan(&c, CKPT_SCAN_VALUES, 1, &err) && c.tensors.n < 1000)
			(void)ckpt_compare(&d, &c, &c, true, &err);
		ckpt_compare_release(&d);
	}
	ckpt_close(&c);
	close(fd);
	if (m.used_bytes)
		abort();
	return 0;
}
