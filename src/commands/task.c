/* Watching a long call from another thread (base/mem.h looks), and text kept in memory. */
#include <plimsoll/task.h>

#include "base/base.h"

#include <errno.h>

void plim_task_watch(struct plim_task *task)
{
	mem_watch(task);
}

int plim_buffer_write(void *buffer, const char *text, size_t n)
{
	struct plim_buffer *b = buffer;

	if (b->capacity - b->bytes <= n) {
		size_t capacity = b->bytes + n + b->capacity / 2 + 4096;
		char *at = capacity > n ? realloc(b->text, capacity) : NULL;

		if (!at)
			return ENOMEM;
		b->text = at;
		b->capacity = capacity;
	}
	memcpy(b->text + b->bytes, text, n);
	b->bytes += n;
	b->text[b->bytes] = 0;
	return 0;
}

void plim_buffer_release(struct plim_buffer *b)
{
	if (!b)
		return;
	free(b->text);
	*b = (struct plim_buffer){ 0 };
}
