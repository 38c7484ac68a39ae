/* Stacks of a job's Python, as samples keep them: what they say (does.c), where they are (places.c), how they are had (glance.c). */
#ifndef WATCH_STACK_H
#define WATCH_STACK_H

#include "watch/watch.h"

#define WATCH_STACK_FRAMES 24 /* kept of one */
#define WATCH_STACKS 16       /* different ones of a sample */

/* Could it decide what the stack does? */
bool watch_frame_tells(const struct watch_frame *f);

enum watch_does watch_does_judge(const char *text, size_t n);
enum watch_does watch_does_of(const char *word, size_t n); /* WATCH_DOES_COUNT: none of them */

/* Shares and places of a window. */
void watch_look_at_stacks(const struct watch_sample *const *samples, size_t n,
			  struct watch_features *f);

/* What the stack adds to a judgement by counters; and in sentences. */
void watch_weigh_stacks(const struct watch_features *f, struct watch_judgement *j);
void watch_tell_stacks(const struct watch_features *f, struct lines *evidence);

/* ---- live ---- */

struct stacks;

/*
 * Look at a process and add it (parent: its main one, if it is a worker; else 0); the status of stacks.h.  *does: what it
 * did, WATCH_DOES_COUNT if it was not seen.
 */
int watch_glance(struct stacks *s, struct mem *m, uint32_t pid, uint64_t start_time,
		 uint32_t parent, struct watch_stacks *to, enum watch_does *does,
		 struct plim_err *err);

#endif
