/* Page-locked memory on the way to a GPU: slots, each given back to its thread when the event behind the copies out of it is over. */
#include "parts.h"

enum plim_status data_cuda_failed(struct plim_err *err, const char *what, int code)
{
	return code == CUDA_OUT_OF_MEMORY
		       ? err_set(err, PLIM_E_NOMEM, "cannot %s: out of memory", what)
		       : err_set(err, PLIM_E_UNSUPPORTED, "cannot %s: CUDA error %d", what, code);
}

void *data_ring_enter(const struct data_ring *r)
{
	void *before = NULL;

	if (!r->context)
		return NULL;
	(void)r->cuda.context_get(&before);
	if (before != r->context)
		(void)r->cuda.context_set(r->context);
	return before;
}

void data_ring_leave(const struct data_ring *r, void *before)
{
	if (r->context && before != r->context)
		(void)r->cuda.context_set(before);
}

/* In the context. */
static int make_ring(struct data_ring *r)
{
	void *at = NULL;
	int code = r->cuda.host_alloc(&at, (size_t)r->slot_bytes * DATA_SLOTS * r->threads,
				      CUDA_HOST_PORTABLE);

	r->memory = code ? NULL : at;
	if (!code)
		code = r->cuda.stream_create(&r->stream, CUDA_STREAM_NON_BLOCKING);
	for (size_t i = 0; !code && i < r->threads * DATA_SLOTS; i++) {
		struct data_slot *s = &r->slots[i / DATA_SLOTS][i % DATA_SLOTS];

		s->at = r->memory + i * r->slot_bytes;
		code = r->cuda.event_create(&s->event, CUDA_EVENT_DISABLE_TIMING);
	}
	return code;
}

enum plim_status data_ring_open(struct data_ring *r, const struct plim_batches_options *o,
				uint64_t slot_bytes, struct plim_err *err)
{
	const char *missing = cuda_open(&r->cuda, o->cuda_library);
	void *before;
	int code;

	if (missing)
		return err_set(err, PLIM_E_UNSUPPORTED, "the CUDA driver cannot be used: %.300s",
			       missing);
	r->slot_bytes = slot_bytes;
	r->threads = o->threads;
	code = r->cuda.context_retain(&r->context, o->device);
	if (code) {
		r->context = NULL;
		return data_cuda_failed(err, "use the GPU", code);
	}
	before = data_ring_enter(r);
	code = make_ring(r);
	data_ring_leave(r, before);
	return code ? data_cuda_failed(err, "lock memory for the ring", code) : PLIM_OK;
}

void data_ring_close(struct data_ring *r)
{
	void *before;

	if (!r->context)
		return;
	before = data_ring_enter(r);
	for (size_t i = 0; i < r->threads * DATA_SLOTS; i++) {
		struct data_slot *s = &r->slots[i / DATA_SLOTS][i % DATA_SLOTS];

		if (s->used)
			(void)r->cuda.event_wait(s->event);
		if (s->event)
			(void)r->cuda.event_destroy(s->event);
	}
	if (r->stream)
		(void)r->cuda.stream_destroy(r->stream);
	if (r->memory)
		(void)r->cuda.host_free(r->memory);
	data_ring_leave(r, before);
	r->context = NULL;
}

enum plim_status data_ring_slot(struct data_ring *r, size_t thread, struct data_slot **out,
				struct plim_err *err)
{
	struct data_slot *s = &r->slots[thread][r->next[thread]++ % DATA_SLOTS];
	int code = s->used ? r->cuda.event_wait(s->event) : 0;

	*out = s;
	return code ? data_cuda_failed(err, "wait for a copy", code) : PLIM_OK;
}
