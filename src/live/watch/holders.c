/*
 * Who has a GPU open, where its driver does not say, or shows by the process ids of another namespace: those with the files that CUDA
 * opens.  (What only looks at GPUs, as this program does, has not /dev/nvidia-uvm.)
 */
#include "watch/look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define MOST_FILES 4096u /* of a process: CUDA opens its own early */
#define UVM "/dev/nvidia-uvm"
#define CARD "/dev/nvidia"
#define INITIAL "pid:[4026531836]" /* the kernel's own number of the first namespace */

enum proc_held proc_holds(const char *root, uint32_t pid, uint64_t *minors)
{
	char path[512], target[64], *end;
	struct dirent *e;
	bool uvm = false;
	DIR *d;

	*minors = 0;
	(void)snprintf(path, sizeof(path), "%s/proc/%u/fd", root, pid);
	d = opendir(path);
	if (!d)
		return errno == EACCES || errno == EPERM ? PROC_HELD_HIDDEN : PROC_HELD_NO;
	for (unsigned k = 0; k < MOST_FILES && (e = readdir(d)); k++) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);

		if (n <= (ssize_t)strlen(CARD))
			continue;
		target[n] = 0;
		if (strncmp(target, CARD, strlen(CARD)) != 0)
			continue;
		uvm |= !strcmp(target, UVM);
		if (target[strlen(CARD)] >= '0' && target[strlen(CARD)] <= '9') {
			unsigned long minor = strtoul(target + strlen(CARD), &end, 10);

			if (!*end && minor < 64)
				*minors |= UINT64_C(1) << minor;
		}
	}
	(void)closedir(d);
	return uvm && *minors ? PROC_HELD : PROC_HELD_NO;
}

/* A worker has its parent's files, and does nothing with a GPU. */
static void mark_heirs(struct proc_files *f, const char *root, struct proc_holders *h)
{
	struct watch_process main = { .name = "" },
			     child = { .name = "" }; /* what is not met stays empty */

	for (size_t i = 0; i < h->n; i++) {
		if (!proc_met(f, root, h->at[i].pid, &child))
			continue;
		h->at[i].heir = !strcmp(child.name, WATCH_WORKER_NAME);
		for (size_t k = 0; k < h->n && !h->at[i].heir; k++)
			h->at[i].heir = h->at[k].pid == child.parent &&
					proc_met(f, root, h->at[k].pid, &main) &&
					watch_is_worker(&child, &main);
	}
}

void proc_holders(struct proc_files *f, const char *root, struct proc_holders *out)
{
	char path[320];
	struct dirent *e;
	DIR *d;

	out->n = 0;
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	d = opendir(path);
	while (d && out->n < PROC_HOLDERS && (e = readdir(d))) {
		struct proc_holder *h = &out->at[out->n];

		*h = (struct proc_holder){ .pid = (uint32_t)strtoul(e->d_name, NULL, 10) };
		if (h->pid && proc_holds(root, h->pid, &h->minors) == PROC_HELD)
			out->n++;
	}
	if (d)
		(void)closedir(d);
	mark_heirs(f, root, out);
}

bool proc_in_container(const char *root)
{
	char path[320], target[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/proc/self/ns/pid", root);
	n = readlink(path, target, sizeof(target) - 1);
	return n != (ssize_t)strlen(INITIAL) || memcmp(target, INITIAL, strlen(INITIAL)) != 0;
}
