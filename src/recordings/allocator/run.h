/* A program that runs through the model: between the files that make it run. */
#ifndef ALLOCATOR_RUN_H
#define ALLOCATOR_RUN_H

#include "placement.h"

struct running {
	const struct program *p;
	const struct allocator_run *how;
	uint32_t op;    /* the one that runs */
	uint32_t until; /* ... and the one that does not any more */
	struct caching model;
	struct placement placement;
	uint32_t *block_of; /* of each request; CACHING_NONE: it is not there */
	int stopped; /* a request failed that had not when recorded: what follows is not known */
	struct allocator_outcome out;
};

/* It stays where it is: the model knows its address.  Release it also after a failure. */
enum plim_status running_init(struct running *r, struct mem *m, const struct program *p,
			      const struct allocator_run *how, struct plim_err *err);
/* On to `until`, the end of the program at first, or until a request fails or would (caching.pauses). */
enum plim_status running_go(struct running *r);

/* Stand where `from` does; both were made for the same program and rules. */
enum plim_status running_copy(struct running *r, const struct running *from);
void running_release(struct running *r, struct mem *m);

#endif
