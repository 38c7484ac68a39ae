/* What torch.profiler wrote, while it is read.  Its readers alone include this. */
#ifndef SNAPSHOT_PROFILE_H
#define SNAPSHOT_PROFILE_H

#include "reader.h"

#define PROFILE_KINDS 8 /* categories of a memory timeline; the last one: unknown */

/* A memory event. */
struct profile_row {
	int64_t ns, bytes; /* below 0: freed */
	uint64_t addr, allocated, reserved;
	uint32_t thread, stack, order;
	uint16_t device;
	uint8_t type; /* c10::DeviceType */
};

/* Something that took time on a thread. */
struct profile_range {
	int64_t from_ns, to_ns;
	uint32_t thread, of; /* a frame; of record_function a string */
	uint8_t kind;
};

struct profile_totals {
	uint64_t now[PROFILE_KINDS], put[PROFILE_KINDS]; /* as read; as the rows have it */
	uint32_t stacks[PROFILE_KINDS];
	int64_t time_us, at_ns;
};

struct profile {
	struct snapshot *t;
	struct mem *mem;
	VEC(char) name; /* of the event that is being read */
	VEC(struct profile_row) rows;
	VEC(struct profile_range) ranges;
	struct intern threads;
	VEC(int64_t) times; /* of a memory timeline */
	struct profile_totals totals;
};

void profile_init(struct profile *p, struct snapshot *t);
void profile_release(struct profile *p);

enum plim_status profile_text(struct profile *p, const char *text, size_t n, uint32_t *id,
			      struct plim_err *err);

/* The value of "traceEvents"; its key was just read. */
enum plim_status profile_read_events(struct profile *p, struct json *j, struct plim_err *err);

/* A memory timeline, of which the first number was just read; all of it but the end of the input. */
enum plim_status profile_read_timeline(struct profile *p, struct json *j,
				       const struct json_token *first, struct plim_err *err);

/* The columns of what was read; `root`: what stands in the trace around its events. */
enum plim_status profile_assemble(struct profile *p, struct pickle_value root,
				  struct plim_err *err);

#endif
