/*
 * /dev/shm: how large, how full, and by which files.  DataLoader workers and NCCL keep what they share
 * there, mostly in files without a name, which only those who have them open can tell.
 */
#include "look.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILES_MAX 65536
#define DEPTH_MAX 3 /* folders in folders */

struct walk {
	const char *prefix; /* names so far, "a/b/", or "" */
	unsigned depth;
};

static void take_file(struct host *h, const char *prefix, const char *name, const struct stat *info)
{
	/* a file of tmpfs takes the pages that were written; a recording of it has only its length */
	uint64_t blocks = (uint64_t)info->st_blocks * 512, length = (uint64_t)info->st_size;
	struct plim_here_shm_file f = { .name = host_textf(h, "%s%s", prefix, name),
					.bytes = h->live ? blocks : length };

	host_push(h, &h->shm_files, f);
}

static void take_name(struct host *h, int folder, const char *name, void *ctx)
{
	const struct walk *w = ctx;
	struct stat info;
	char inside[HOST_PATH], path[HOST_PATH];

	if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW))
		return; /* gone again */
	if (S_ISREG(info.st_mode))
		take_file(h, w->prefix, name, &info);
	if (!S_ISDIR(info.st_mode) || w->depth == DEPTH_MAX ||
	    snprintf(inside, sizeof(inside), "%s%s/", w->prefix, name) >= (int)sizeof(inside) ||
	    snprintf(path, sizeof(path), "dev/shm/%s", inside) >= (int)sizeof(path))
		return;
	(void)host_list(h, path, FILES_MAX, take_name, &(struct walk){ inside, w->depth + 1 });
}

static int larger_first(const void *a, const void *b)
{
	const struct plim_here_shm_file *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->name && y->name ? strcmp(x->name, y->name) : 0;
}

static void look_space(struct host *h, uint64_t mount_size)
{
	struct plim_here_shm *shm = &h->out->shm;
	struct statvfs space;
	int fd = h->live ? host_open(h, O_RDONLY | O_DIRECTORY, "dev/shm") : -1;

	shm->size_bytes = mount_size;
	if (!h->live)
		shm->used_bytes = shm->named_bytes; /* at least */
	if (fd < 0)
		return;
	if (!fstatvfs(fd, &space) && space.f_blocks) {
		shm->size_bytes = (uint64_t)space.f_blocks * space.f_frsize;
		shm->used_bytes = (uint64_t)(space.f_blocks - space.f_bfree) * space.f_frsize;
	}
	close(fd);
}

void host_look_shm(struct host *h, uint64_t mount_size)
{
	struct plim_here_shm *shm = &h->out->shm;
	int error = host_list(h, "dev/shm", FILES_MAX, take_name, &(struct walk){ "", 0 });

	if (error) {
		host_unseen(h, strerror(error), "/dev/shm");
		if (error == ENOENT)
			return;
	} else {
		shm->named_bytes = 0;
		shm->file_count = h->shm_files.n;
		for (size_t i = 0; i < h->shm_files.n; i++)
			shm->named_bytes += h->shm_files.at[i].bytes;
	}
	sort_items(h->shm_files.at, h->shm_files.n, sizeof(*h->shm_files.at), larger_first);
	look_space(h, mount_size);
}
