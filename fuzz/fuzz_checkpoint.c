/*
 * Any bytes as a checkpoint: zip, legacy and safetensors files with what is inside them, and, when they
 * begin with FOLDER, the files of a folder: distributed metadata, shards with their index, a manifest.
 * Then the scan of checksums and values, a comparison with itself and of a folder with what is in it, tensors loaded,
 * and all of it into a new file, which must be whole.
 * Whatever is found, nothing may crash, and what is said of tensors must lie inside the files.
 */
#include "checkpoint/checkpoint.h"
#include "checkpoint_mutate.h"
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder's files, by the first byte of each part; then 4 bytes of length, then its bytes. */
static const char *const names[] = {
	".metadata",
	"__0_0.distcp",
	"__1_0.distcp",
	"model.safetensors.index.json",
	"model-00001-of-00002.safetensors",
	"model-00002-of-00002.safetensors",
	"config.json",
	"trainer_state.json",
	"plimsoll.manifest.json",
	"optimizer.pt",
	"adapter_model.safetensors",
	"mp_rank_00_model_states.pt",
	"zero_pp_rank_0_mp_rank_00_optim_states.pt",
	"zero_pp_rank_1_mp_rank_00_optim_states.pt",
	"zero_pp_rank_0_mp_rank_00_model_states.pt",
	"zero_pp_rank_1_mp_rank_00_model_states.pt",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

static char folder[64];

static void remove_files(void)
{
	char path[200];

	for (size_t i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/out.pt", folder);
	unlink(path);
}

static void remove_folder(void)
{
	remove_files();
	rmdir(folder);
}

static void make_folder(void)
{
	if (*folder)
		return;
	snprintf(folder, sizeof(folder), "/dev/shm/plimsoll-fuzz-XXXXXX");
	must(mkdtemp(folder) != NULL);
	atexit(remove_folder);
}

static void write_parts(const uint8_t *p, size_t n)
{
	while (n >= 5) {
		uint32_t length;
		char path[200];
		int fd;

		memcpy(&length, p + 1, 4);
		length = length > n - 5 ? (uint32_t)(n - 5) : length;
		snprintf(path, sizeof(path), "%s/%s", folder, names[*p % NAMES]);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		must(fd >= 0 && write(fd, p + 5, length) == (ssize_t)length);
		close(fd);
		p += 5 + length;
		n -= 5 + length;
	}
}

static void check_tensors(const struct ckpt *c)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const struct ckpt_extent *x =
			t->extent == CKPT_NONE ? NULL : &c->extents.at[t->extent];
		uint64_t last = t->offset;

		if (!x || x->state == CKPT_CUT)
			continue;
		must(x->offset <= c->files.at[x->file].bytes &&
		     x->stored_bytes <= c->files.at[x->file].bytes - x->offset);
		for (size_t d = 0; t->count && d < t->rank; d++)
			last += (ckpt_shape(c, t)[d] - 1) * ckpt_strides(c, t)[d];
		must(!t->count || (last * t->dtype->bits + t->dtype->bits + 7) / 8 <= x->bytes);
	}
}

/*
 * What was written must be whole, as it was reported to be; of a storage that is lost nothing is left, not even a view
 * of nothing.
 */
static void check_written(const struct ckpt *from, const char *path,
			  const struct ckpt_extracted *told)
{
	struct ckpt c;
	struct plim_err err;
	size_t empty = 0;

	for (size_t i = 0; i < from->tensors.n; i++)
		empty += !from->tensors.at[i].count;
	ckpt_init(&c, from->mem);
	must(!ckpt_read(&c, path, &err) && !ckpt_scan(&c, 0, 1, &err));
	for (size_t i = 0; i < c.findings.n; i++)
		must(c.findings.at[i].severity != CKPT_BAD_FINDING);
	must(c.tensors.n <= told->tensors && c.tensors.n + empty >= told->tensors);
	ckpt_close(&c);
}

static void write_all(struct ckpt *c)
{
	static const unsigned ways[] = { 0, CKPT_ALL, CKPT_AS_TORCH, CKPT_AS_TORCH | CKPT_ALL };
	unsigned way = ways[c->bytes % 4];
	struct ckpt_extracted told;
	struct plim_err err;
	char out[100];

	snprintf(out, sizeof(out), "%s/out.pt", folder);
	if (!ckpt_extract(c, "*", CKPT_WHOLE_ONLY | CKPT_NO_MANIFEST | way, out, &told, &err))
		check_written(c, out, &told);
}

static enum plim_status count_bytes(void *ctx, uint64_t at, const void *bytes, size_t n,
				    struct plim_err *err)
{
	uint64_t *total = ctx;

	(void)bytes;
	(void)err;
	must(at == *total);
	*total += n;
	return PLIM_OK;
}

/* What can be loaded has as many bytes as it is said to have. */
static void load_all(struct ckpt *c)
{
	struct plim_err err;

	for (size_t i = 0; i < c->tensors.n && i < 16; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		uint64_t total = 0;

		if (ckpt_tensor_bytes(t) < MUTATE_ROOM &&
		    !ckpt_load(c, i, count_bytes, &total, &err))
			must(total == ckpt_tensor_bytes(t));
	}
}

static void compare(const struct ckpt *a, const struct ckpt *b)
{
	struct ckpt_compare d = { 0 };
	struct plim_err err;

	if (a->tensors.n < 1000 && b->tensors.n < 1000)
		(void)ckpt_compare(&d, a, b, true, &err);
	ckpt_compare_release(&d);
}

/* A folder next to its own config, and next to each of its files. */
static void compare_inside(struct ckpt *c)
{
	struct ckpt b;
	struct plim_err err;
	char path[200];

	for (size_t i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		ckpt_init(&b, c->mem);
		if (!strcmp(names[i], "config.json") ? !ckpt_promise(&b, path, &err)
						     : !ckpt_read(&b, path, &err))
			compare(c, &b);
		ckpt_close(&b);
	}
}

static void read_all(const char *path)
{
	struct mem m;
	struct ckpt c;
	struct plim_err err;

	mem_init(&m, (uint64_t)64 << 20);
	ckpt_init(&c, &m);
	if (!ckpt_read(&c, path, &err)) {
		check_tensors(&c);
		if (!ckpt_scan(&c, CKPT_SCAN_VALUES, 1, &err) && !ckpt_join(&c, &err)) {
			must(!ckpt_check(&c));
			compare(&c, &c);
		}
		if (path == folder)
			compare_inside(&c);
		load_all(&c);
		if (c.tensors.n < 100)
			write_all(&c);
	}
	ckpt_close(&c);
	must(!m.used_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	size_t magic = strlen(MUTATE_FOLDER);
	char path[64];
	int fd;

	make_folder();
	if (n >= magic && !memcmp(bytes, MUTATE_FOLDER, magic)) {
		write_parts(bytes + magic, n - magic);
		read_all(folder);
		remove_files();
		return 0;
	}
	fd = memfd_create("checkpoint", MFD_CLOEXEC);
	must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_all(path);
	close(fd);
	return 0;
}
