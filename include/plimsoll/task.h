/*
 * Watching a long call from another thread: how far it is, and stopping it.  And text that is kept in memory.
 *
 *	struct plim_task task = { .size = sizeof(task) };
 *	plim_task_watch(&task);			// of this thread's calls, until plim_task_watch(NULL)
 *	st = plim_report_open(...);		// PLIM_E_CANCELLED soon after another thread sets task.cancel
 */
#ifndef PLIMSOLL_TASK_H
#define PLIMSOLL_TASK_H

#include <plimsoll/status.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each member is read and written whole (__atomic_load_n, __atomic_store_n, relaxed). */
struct plim_task {
	uint32_t size;   /* set to sizeof(struct plim_task) */
	uint32_t cancel; /* anybody sets it to 1: the call ends with PLIM_E_CANCELLED */
	/* of the file that is being read; equal to total_bytes: it is being explained */
	uint64_t done_bytes;
	uint64_t total_bytes; /* PLIM_UNKNOWN: a pipe */
};

/*
 * Calls that this thread makes from here on look at *task (borrowed; NULL: none any more), and so do the threads
 * that they start.  Between two looks lie at most some 50 ms of work.
 */
PLIM_API void plim_task_watch(struct plim_task *task);

/* Text that grows: hand plim_buffer_write and the buffer to what takes a plim_write_fn.  Begin with zeros. */
struct plim_buffer {
	char *text;      /* `bytes` of it, and a NUL */
	size_t bytes;    /* of text, without the NUL */
	size_t capacity; /* the library's own */
};
PLIM_API int plim_buffer_write(void *buffer, const char *text, size_t n);
PLIM_API void plim_buffer_release(struct plim_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
