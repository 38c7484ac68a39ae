/*
 * A GPU: the kernel behind the work that is queued on a stream, its result copied behind it to page-locked memory, and an
 * event behind that.  Nothing is waited for but where the list changes, or results are asked for.
 *
 * Calls are made with the GPU's primary context, and as capture mode "relaxed" has it, so that a CUDA graph that another
 * thread captures stays whole.
 */
#include "parts.h"

#include <stdio.h>

extern const unsigned char gradients_ptx[];
extern const size_t gradients_ptx_bytes;

#define KERNEL_THREADS 256
#define CHUNKS_EACH \
	2 /* a block: with no more blocks than run at once an H100 reads 3 to 4 % slower */

/* ---- the driver ---- */

static enum plim_status failed(struct plim_err *err, const char *what, int code)
{
	return err_set(err, code == CUDA_OUT_OF_MEMORY ? PLIM_E_NOMEM : PLIM_E_UNSUPPORTED,
		       "cannot %s: CUDA error %d", what, code);
}

struct entered {
	void *context;
	int mode;
};

static struct entered enter_gradients_device(const struct gradients_device *d)
{
	struct entered e = { NULL, CUDA_CAPTURE_RELAXED };

	(void)d->cuda.context_get(&e.context);
	if (e.context != d->context)
		(void)d->cuda.context_set(d->context);
	(void)d->cuda.capture_mode(&e.mode);
	return e;
}

static void leave_gradients_device(const struct gradients_device *d, struct entered e)
{
	(void)d->cuda.capture_mode(&e.mode);
	if (e.context != d->context)
		(void)d->cuda.context_set(e.context);
}

static enum plim_status load_kernel(struct gradients_device *d, struct mem *m, struct plim_err *err)
{
	char *text = mem_new(m, gradients_ptx_bytes + 1, 1, err);
	int code;

	if (!text)
		return mem_status(err);
	memcpy(text, gradients_ptx, gradients_ptx_bytes);
	code = d->cuda.module_load(&d->module, text);
	mem_free(m, text, gradients_ptx_bytes + 1, 1);
	if (!code)
		code = d->cuda.module_function(&d->check, d->module, "plimsoll_gradients");
	if (!code)
		code = d->cuda.module_function(&d->clip, d->module, "plimsoll_gradients_clip");
	return code ? failed(err, "load the kernel", code) : PLIM_OK;
}

enum plim_status device_open(struct plim_gradients *g, struct plim_err *err)
{
	struct gradients_device *d = &g->gpu;
	const char *missing = cuda_open(&d->cuda, g->cuda_library);
	int code;
	struct entered e;
	enum plim_status st;

	if (missing)
		return err_set(err, PLIM_E_UNSUPPORTED, "the CUDA driver cannot be used: %.300s",
			       missing);
	code = g->options.device > INT32_MAX
		       ? CUDA_NOT_SUPPORTED
		       : d->cuda.context_retain(&d->context, (int)g->options.device);
	if (code)
		return failed(err, "use the GPU", code);
	e = enter_gradients_device(d);
	code = d->cuda.stream_create(&d->upload, CUDA_STREAM_NON_BLOCKING);
	st = code ? failed(err, "create a stream", code) : load_kernel(d, &g->mem, err);
	for (size_t i = 0; !st && i < GRADIENTS_SLOTS; i++) {
		code = d->cuda.event_create(&g->slots[i].event, CUDA_EVENT_DISABLE_TIMING);
		st = code ? failed(err, "create an event", code) : PLIM_OK;
	}
	leave_gradients_device(d, e);
	return st;
}

void device_close(struct plim_gradients *g)
{
	struct gradients_device *d = &g->gpu;
	struct entered e;

	if (!d->context)
		return;
	e = enter_gradients_device(d);
	for (size_t i = 0; i < GRADIENTS_SLOTS; i++)
		if (g->slots[i].event)
			(void)d->cuda.event_destroy(g->slots[i].event);
	if (g->slot_memory)
		(void)d->cuda.host_free(g->slot_memory);
	g->slot_memory = NULL;
	if (d->memory)
		(void)d->cuda.memory_free(d->memory);
	for (size_t i = 0; i < d->kept.n; i++)
		(void)d->cuda.memory_free(d->kept.at[i]);
	vec_release(&g->mem, &d->kept);
	if (d->upload)
		(void)d->cuda.stream_destroy(d->upload);
	if (d->module)
		(void)d->cuda.module_unload(d->module);
	leave_gradients_device(d, e);
}

/* ---- memory ---- */

/* Bytes to the GPU, now: not in the order of anybody's stream. */
static int put_now(struct plim_gradients *g, uint64_t to, const void *from, size_t bytes)
{
	const struct cuda *c = &g->gpu.cuda;
	void *event = NULL;
	int code;

	if (!bytes)
		return CUDA_OK;
	code = c->copy(to, (uint64_t)(uintptr_t)from, bytes, g->gpu.upload);
	if (!code)
		code = c->event_create(&event, CUDA_EVENT_DISABLE_TIMING);
	if (!code)
		code = c->event_record(event, g->gpu.upload);
	if (!code)
		code = c->event_wait(event);
	if (event)
		(void)c->event_destroy(event);
	return code;
}

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

/* Room for all of the list on the GPU; *bytes of it, counters last. */
static uint64_t cut_memory(struct plim_gradients *g, uint64_t at)
{
	struct gradients_device *d = &g->gpu;
	const uint64_t begin = at;

	d->rows = at;
	at += aligned(g->rows.n * sizeof(*g->rows.at));
	d->chunks = at;
	at += aligned(g->chunks.n * sizeof(*g->chunks.at));
	d->partial = at;
	at += aligned(g->chunks.n * sizeof(struct gradients_sums));
	d->out = at;
	at += aligned(gradients_out_bytes(g));
	d->summary = at;
	at += aligned(sizeof(struct plim_gradients_summary));
	d->counters = at;
	at += aligned((g->rows.n + 1) * sizeof(uint32_t));
	return at - begin;
}

static void drop_memory(struct plim_gradients *g)
{
	struct gradients_device *d = &g->gpu;

	if (g->slot_memory)
		(void)d->cuda.host_free(g->slot_memory);
	g->slot_memory = NULL;
	if (d->memory && !d->captured)
		(void)d->cuda.memory_free(d->memory);
	else if (d->memory)
		d->kept.at[d->kept.n++] = d->memory;
	d->memory = 0;
	d->captured = false;
	d->last_event = NULL;
}

static enum plim_status fill_memory(struct plim_gradients *g, struct plim_err *err)
{
	struct gradients_device *d = &g->gpu;
	const size_t bytes = (g->rows.n + 1) * sizeof(uint32_t);
	void *zeros = mem_new(&g->mem, bytes, 1, err);
	int code;

	if (!zeros)
		return mem_status(err);
	code = put_now(g, d->counters, zeros, bytes);
	mem_free(&g->mem, zeros, bytes, 1);
	if (!code)
		code = put_now(g, d->chunks, g->chunks.at, g->chunks.n * sizeof(*g->chunks.at));
	return code ? failed(err, "copy to the GPU", code) : PLIM_OK;
}

enum plim_status device_set(struct plim_gradients *g, struct plim_err *err)
{
	struct gradients_device *d = &g->gpu;
	struct entered e;
	int code;
	enum plim_status st = vec_need(&g->mem, &d->kept, 1, err);

	if (st)
		return st;
	e = enter_gradients_device(d);
	drop_memory(g);
	code = d->cuda.host_alloc(&g->slot_memory, gradients_slot_bytes(g) * GRADIENTS_SLOTS,
				  CUDA_HOST_PORTABLE);
	if (code)
		g->slot_memory = NULL;
	if (!code)
		code = d->cuda.memory_alloc(&d->memory, cut_memory(g, 0));
	if (code) {
		d->memory = 0;
		st = failed(err, "take memory for the results", code);
	} else {
		(void)cut_memory(g, d->memory);
		gradients_cut_slots(g, g->slot_memory);
		d->rows_now = d->rows;
		d->stale = true;
		st = fill_memory(g, err);
	}
	leave_gradients_device(d, e);
	return st;
}

/* ---- checks ---- */

static int launch(const struct plim_gradients *g, void *kernel, void *arguments, size_t bytes,
		  void *stream)
{
	void *extra[] = { CUDA_LAUNCH_BUFFER, arguments, CUDA_LAUNCH_BYTES, &bytes, NULL };
	const size_t blocks = (g->chunks.n + CHUNKS_EACH - 1) / CHUNKS_EACH;

	return g->gpu.cuda.launch(kernel, blocks ? (unsigned)blocks : 1, 1, 1, KERNEL_THREADS, 1, 1,
				  0, stream, NULL, extra);
}

/* Rows that only this graph reads, there when this returns. */
static int put_captured_rows(struct plim_gradients *g)
{
	struct gradients_device *d = &g->gpu;
	const size_t bytes = g->rows.n * sizeof(*g->rows.at);
	uint64_t at = 0;
	int code = d->cuda.memory_alloc(&at, bytes ? bytes : 1);

	if (code)
		return code;
	d->kept.at[d->kept.n++] = at;
	d->captured = true;
	d->rows_now = at;
	return put_now(g, at, g->rows.at, bytes);
}

/* On the stream: rows if they are others, behind the check before if that was on another stream. */
static int put_rows(struct plim_gradients *g, struct gradients_slot *slot, void *stream)
{
	struct gradients_device *d = &g->gpu;
	int code = CUDA_OK;

	if (d->last_event && d->last != stream)
		code = d->cuda.stream_wait(stream, d->last_event, 0);
	if (!code && d->stale && g->rows.n)
		code = d->cuda.copy(d->rows, (uint64_t)(uintptr_t)slot->rows,
				    g->rows.n * sizeof(*slot->rows), stream);
	d->stale &= code != CUDA_OK;
	d->rows_now = d->rows;
	return code;
}

static void settle_gradients_device(struct plim_gradients *g, const struct gradients_slot *slot,
				    void *stream)
{
	int capturing = 0;

	if (!g->gpu.cuda.stream_capturing(stream, &capturing) && !capturing &&
	    !g->gpu.cuda.event_record(slot->event, stream))
		(void)g->gpu.cuda.event_wait(slot->event);
}

/* With the context: the result into the slot; of the summary what is at `told`, if not 0. */
static int bring(struct plim_gradients *g, struct gradients_slot *slot, void *stream, uint64_t told)
{
	struct gradients_device *d = &g->gpu;
	const size_t told_bytes = sizeof(*slot->told), all = gradients_out_bytes(g);
	const size_t bytes = told ? all - told_bytes : all;
	int code = bytes ? d->cuda.copy_down(slot->out, d->out, bytes, stream) : CUDA_OK;

	if (!code && told)
		code = d->cuda.copy_down(slot->told, told, told_bytes, stream);
	if (!code)
		code = d->cuda.event_record(slot->event, stream);
	d->last = stream;
	d->last_event = slot->event;
	return code;
}

enum plim_status device_check(struct plim_gradients *g, struct gradients_slot *slot,
			      const struct plim_gradients_call *call, bool *pending,
			      struct plim_err *err)
{
	struct gradients_device *d = &g->gpu;
	struct gradients_check_arguments a = { .tensors = (uint32_t)g->rows.n,
					       .chunks = d->chunks,
					       .n = (uint32_t)g->chunks.n,
					       .each = CHUNKS_EACH,
					       .partial = d->partial,
					       .out = d->out,
					       .counters = d->counters,
					       .scale = call->scale,
					       .summary =
						       call->summary ? call->summary : d->summary };
	int capturing = 0, code;
	bool captured;
	struct entered e;
	enum plim_status st = d->memory ? vec_need(&g->mem, &d->kept, 2, err)
					: err_set(err, PLIM_E_ARG, "no tensors are set");

	if (st)
		return st;
	e = enter_gradients_device(d);
	code = d->cuda.stream_capturing(call->stream, &capturing);
	captured = capturing == CUDA_CAPTURING;
	*pending = !captured && !(call->flags & PLIM_GRADIENTS_LATER);
	if (!code)
		code = captured ? put_captured_rows(g) : put_rows(g, slot, call->stream);
	a.rows = d->rows_now;
	if (!code)
		code = launch(g, d->check, &a, GRADIENTS_CHECK_BYTES, call->stream);
	if (!code && *pending)
		code = bring(g, slot, call->stream, 0);
	else if (!code && !captured) /* behind the copy of its rows */
		code = d->cuda.event_record(slot->event, call->stream);
	if (code) /* no one uses the slot before what is queued on it is over */
		settle_gradients_device(g, slot, call->stream);
	leave_gradients_device(d, e);
	return code ? failed(err, "check tensors on the GPU", code) : PLIM_OK;
}

enum plim_status device_collect(struct plim_gradients *g, struct gradients_slot *slot,
				const struct plim_gradients_call *call, struct plim_err *err)
{
	struct entered e;
	int code;

	if (!g->gpu.memory)
		return err_set(err, PLIM_E_ARG, "no tensors are set");
	e = enter_gradients_device(&g->gpu);
	code = bring(g, slot, call->stream, call->summary);
	if (code)
		settle_gradients_device(g, slot, call->stream);
	leave_gradients_device(&g->gpu, e);
	return code ? failed(err, "copy results from the GPU", code) : PLIM_OK;
}

enum plim_status device_clip(struct plim_gradients *g, float max_norm,
			     const struct plim_gradients_call *call, struct plim_err *err)
{
	struct gradients_device *d = &g->gpu;
	struct gradients_clip_arguments a = { .rows = d->rows_now,
					      .chunks = d->chunks,
					      .n = (uint32_t)g->chunks.n,
					      .each = CHUNKS_EACH,
					      .summary = call->summary ? call->summary : d->summary,
					      .max_norm = max_norm };
	struct entered e;
	int code;

	if (!g->chunks.n)
		return PLIM_OK;
	e = enter_gradients_device(d);
	code = launch(g, d->clip, &a, GRADIENTS_CLIP_BYTES, call->stream);
	leave_gradients_device(d, e);
	return code ? failed(err, "scale tensors on the GPU", code) : PLIM_OK;
}

enum plim_status device_done(struct plim_gradients *g, const struct gradients_slot *slot, bool wait,
			     bool *done, struct plim_err *err)
{
	struct entered e = enter_gradients_device(&g->gpu);
	int code = (wait ? g->gpu.cuda.event_wait : g->gpu.cuda.event_query)(slot->event);

	leave_gradients_device(&g->gpu, e);
	*done = code == CUDA_OK;
	return code && code != CUDA_NOT_READY ? failed(err, "look for results", code) : PLIM_OK;
}
