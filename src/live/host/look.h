/* What the parts of the host floor share. */
#ifndef HOST_LOOK_H
#define HOST_LOOK_H

#include "host.h"
#include "parse.h"

#define HOST_FILE \
	((size_t)64 << 10) /* the longest file that is read whole; memory.stat has 2 KiB */
#define HOST_LARGEST 32    /* processes, files in /dev/shm: of so many the details */
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* `n` bytes as text of the result; a failure sticks in h->err and gives NULL. */
const char *host_text(struct host *h, struct host_span s);
const char *host_textf(struct host *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append to one of the arrays of h; a failure sticks. */
#define host_push(h, v, value) \
	((h)->err.status ? (void)0 : (void)vec_push((h)->mem, (v), (value), &(h)->err))

/* One line of what could not be seen. */
void host_unseen(struct host *h, const char *why, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Open a path below the root; -1 and errno.  Never waits, never follows a link at its end.  */
int host_open(const struct host *h, int flags, const char *path);

/*
 * Read a whole file into h->buffer: 0, or an errno.  EFBIG: longer than HOST_FILE.
 * The span is good until the next read.
 */
int host_read(struct host *h, const char *path, struct host_span *out);

/* The same; what stops it becomes a line in `unseen`, save that this machine has no such thing. */
bool host_have(struct host *h, const char *path, struct host_span *out);

/* A line of text at a time of a file of any length; lines beyond HOST_LINE are cut there. */
#define HOST_LINE ((size_t)16 << 10)
struct host_lines {
	int fd;
	size_t n, next;
	bool cut;        /* the rest of a line that was too long is still to come */
	uint64_t budget; /* bytes that may still be read */
	int error;       /* what ended the reading; 0: its end */
	char at[HOST_LINE];
};
bool host_lines_open(struct host_lines *l, const struct host *h, const char *path, int flags,
		     uint64_t budget);
bool host_lines_next(struct host_lines *l, struct host_span *line);
void host_lines_close(struct host_lines *l);

/* Call `each` for every name in a folder, at most `most`; 0, or an errno. */
typedef void host_name_fn(struct host *h, int folder, const char *name, void *ctx);
int host_list(struct host *h, const char *path, size_t most, host_name_fn *each, void *ctx);

/* Where a link points; false when it cannot be read. */
bool host_link(int folder, const char *name, char *out, size_t room);

/* An empty one below a root (NULL: "/"); host_release either way. */
enum plim_status host_begin(struct host *h, struct mem *m, const char *root, struct plim_here *out,
			    struct plim_err *err);

/* The number of this process as the tree has it; PLIM_UNKNOWN: it does not say. */
uint64_t host_own_pid(const struct host *h);

void host_look_machine(struct host *h);
struct host_mounts;
void host_look_cgroups(struct host *h, const struct host_mounts *mounts);
void host_look_limits(struct host *h);
void host_look_shm(struct host *h, uint64_t mount_size);
void host_look_processes(struct host *h, uint64_t root_pid);
void host_look_kills(struct host *h);

/* Mounts that matter here. */
struct host_mounts {
	struct host_mount memory,
		unified;    /* cgroup v1 with memory, v2; .point "" when there is none */
	uint64_t shm_bytes; /* size= of /dev/shm, PLIM_UNKNOWN when it does not say */
};
void host_look_mounts(struct host *h, struct host_mounts *out);

/* A program that kills before the kernel does. */
int host_is_killer(const char *name);

/* Put words for all names that are not well known. */
enum plim_status host_redact(struct host *h, struct plim_err *err);

#endif
