/*
 * A whole small machine: the bytes are the files of /proc, /sys and /dev one after the other, parted by
 * 0x1e.  Whatever stands in them, --here must come to an answer that can be shown, with its bounds
 * in order, and give all memory back.
 */
#include <plimsoll/here.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define PARTED_BY 0x1e

/* Folders before what is in them. */
static const char *const folders[] = {
	"proc",        "proc/7",        "proc/7/fd",       "proc/8",        "proc/8/fd",
	"proc/8/task", "proc/sys",      "proc/sys/vm",     "proc/pressure", "sys",
	"sys/fs",      "sys/fs/cgroup", "sys/fs/cgroup/a", "dev",           "dev/shm",
};

static const char *const files[] = {
	"proc/7/cgroup",
	"proc/self/mountinfo",
	"sys/fs/cgroup/a/memory.max",
	"sys/fs/cgroup/a/memory.current",
	"sys/fs/cgroup/a/memory.stat",
	"sys/fs/cgroup/a/memory.events",
	"sys/fs/cgroup/a/memory.pressure",
	"sys/fs/cgroup/a/memory.high",
	"sys/fs/cgroup/a/memory.swap.max",
	"sys/fs/cgroup/memory.max",
	"proc/meminfo",
	"proc/7/limits",
	"proc/7/status",
	"proc/8/status",
	"proc/8/cgroup",
	"proc/8/smaps_rollup",
	"proc/8/oom_score",
	"proc/8/oom_score_adj",
	"proc/pressure/memory",
	"proc/sys/vm/overcommit_memory",
	"proc/uptime",
	"dev/kmsg",
	"dev/shm/torch_1",
};

static char root[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_tree(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Absolute, below the root. */
static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void make_tree(void)
{
	snprintf(root, sizeof(root), "/tmp/plimsoll-here-XXXXXX");
	if (!mkdtemp(root))
		abort();
	atexit(remove_tree);
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (mkdir(path_of(folders[i]), 0700))
			abort();
	if (symlink("7", path_of("proc/self")) || symlink("/dev/nvidia0", path_of("proc/8/fd/3")) ||
	    symlink("/dev/shm/torch_1 (deleted)", path_of("proc/8/fd/4")))
		abort();
}

static void put(const char *name, const uint8_t *bytes, size_t n)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd))
		abort();
}

static int swallow(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	if (memchr(text, '\033', n) || memchr(text, 0, n))
		abort(); /* names are foreign, and may not reach a terminal as they are */
	return 0;
}

static void check(const struct plim_here *h)
{
	for (size_t i = 0; i < h->bound_count; i++) {
		const struct plim_here_bound *b = &h->bounds[i];

		if (i && h->bounds[i - 1].room_bytes > b->room_bytes)
			abort();
		if (b->room_bytes != PLIM_UNKNOWN && b->room_bytes > b->limit_bytes)
			abort();
	}
	if (h->headroom && (h->headroom < h->bounds || h->headroom >= h->bounds + h->bound_count))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct plim_text_style style = { .width = 60 };
	struct plim_here_options options;
	struct plim_here *h;
	struct plim_err err;

	if (!*root)
		make_tree();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const uint8_t *end = n ? memchr(bytes, PARTED_BY, n) : NULL;
		size_t part = end ? (size_t)(end - bytes) : n;

		put(files[i], bytes, part);
		bytes += part + (end != NULL);
		n -= part + (end != NULL);
	}
	plim_here_options_init(&options);
	options.root = root;
	options.flags = n & 1 ? PLIM_HERE_REDACT : 0;
	if (plim_here_open(&options, &h, &err))
		return 0;
	check(h);
	if (plim_here_text(h, &style, swallow, NULL, &err) ||
	    plim_here_json(h, swallow, NULL, &err))
		abort();
	plim_here_free(h);
	return 0;
}
