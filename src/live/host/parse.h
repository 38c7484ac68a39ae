/*
 * What stands in the files of /proc, /sys/fs/cgroup and /dev/kmsg.  All of it is foreign bytes:
 * nothing here allocates, reads beyond its span or takes a number that does not fit for another.
 */
#ifndef HOST_PARSE_H
#define HOST_PARSE_H

#include <plimsoll/here.h>

#include <stddef.h>

struct host_span {
	const char *at;
	size_t n;
};

/* A string literal as a span. */
#define HOST_SPAN(s) ((struct host_span){ (s), sizeof(s) - 1 })

/* Take the next line off *rest, without its line feed; false at the end. */
bool host_line(struct host_span *rest, struct host_span *line);

/* Take the next word (no blanks) off *rest; false when there is none. */
bool host_word(struct host_span *rest, struct host_span *word);

bool host_is(struct host_span s, const char *text);
bool host_begins(struct host_span s, const char *text);

/* Is `text` in it; *after is then what follows. */
bool host_after(struct host_span s, const char *text, struct host_span *after);

/* The digits in front; false for none and for what reaches PLIM_UNKNOWN.  *s is what follows. */
bool host_digits(struct host_span *s, uint64_t *out);

/* A whole span that is a number, blanks around it allowed. */
bool host_u64(struct host_span s, uint64_t *out);
bool host_i64(struct host_span s, int64_t *out);

/* "max", "unlimited" or a number.  v1 writes "no limit" as the largest number of whole pages. */
bool host_limit(struct host_span s, struct plim_here_limit *out);

/* Where the value of a key belongs: offset of a uint64_t. */
struct host_key {
	const char *name;
	size_t offset;
};

/*
 * Lines "key value", "key: value" or "key: value kB" (then times 1024) into the keys' members of
 * `into`.  Keys that are missing, are not a number or overflow leave theirs alone.
 */
void host_keyed(struct host_span text, const struct host_key *keys, size_t n, void *into);

/* The value of one "Key:\tvalue" line as it stands; false when there is no such line. */
bool host_value(struct host_span text, const char *key, struct host_span *value);

/* Pressure: lines "some avg10=0.12 avg60=... total=123"; what is missing stays. */
void host_pressure(struct host_span text, struct plim_here_pressure *out);

/* One line of /proc/PID/cgroup, "4:memory:/a/b". */
struct host_membership {
	bool unified; /* v2 */
	bool memory;  /* v1 and the memory controller is among its controllers */
	struct host_span path;
};
bool host_membership(struct host_span line, struct host_membership *out);

#define HOST_PATH 1024

/* One line of mountinfo, octal escapes undone. */
struct host_mount {
	char root[HOST_PATH], point[HOST_PATH];
	struct host_span type, super; /* borrowed from the line */
};
bool host_mount(struct host_span line, struct host_mount *out);

/* A mount's "size=64k" in its options. */
bool host_mount_size(struct host_span super, uint64_t *out);

/* One row of /proc/PID/limits that begins with `name`: its soft and hard value. */
bool host_rlimit(struct host_span text, const char *name, struct plim_here_limit *soft,
		 struct plim_here_limit *hard);

/* A line of the kernel log, "6,1234,98765,-;text". */
struct host_log_line {
	uint64_t us; /* since the machine started */
	struct host_span text;
};
bool host_log_line(struct host_span line, struct host_log_line *out);

/* The id of a container in a cgroup's path (64 hex digits; their first 12). */
bool host_container(struct host_span path, struct host_span *id);

#endif
