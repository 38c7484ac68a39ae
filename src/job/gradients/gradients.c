/* The list of tensors, results on their way, and those that are kept. */
#include "parts.h"

#include <math.h>
#include <stdio.h>

static const uint32_t sizes[] = { [PLIM_GRADIENT_FLOAT32] = 4,
				  [PLIM_GRADIENT_FLOAT16] = 2,
				  [PLIM_GRADIENT_BFLOAT16] = 2,
				  [PLIM_GRADIENT_FLOAT64] = 8 };

size_t gradients_out_bytes(const struct plim_gradients *g)
{
	return g->rows.n * sizeof(struct gradients_sums) + sizeof(struct plim_gradients_summary);
}

enum plim_status gradients_open(const struct plim_gradients_options *o, struct plim_gradients **out,
				struct plim_err *err)
{
	struct plim_gradients *g;
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!o->history || o->history > 4096)
		return err_set(err, PLIM_E_ARG, "options.history is 1 to 4096");
	g = calloc(1, sizeof(*g));
	if (!g)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&g->mem, 0);
	g->options = *o;
	g->options.cuda_library = NULL;
	g->on_gpu = o->device != PLIM_UNKNOWN;
	if (g->on_gpu && o->cuda_library) {
		g->cuda_bytes = strlen(o->cuda_library) + 1;
		g->cuda_library = mem_new(&g->mem, g->cuda_bytes, 1, err);
		if (g->cuda_library)
			memcpy(g->cuda_library, o->cuda_library, g->cuda_bytes);
		else
			st = mem_status(err);
	}
	if (!st && g->on_gpu)
		st = device_open(g, err);
	if (st)
		plim_gradients_free(g);
	else
		*out = g;
	return st;
}

/* ---- the list ---- */

static void forget_gradients(struct plim_gradients *g)
{
	bool gone;

	if (g->uncollected)
		(void)device_done(g, &g->slots[(g->first + g->pending) % GRADIENTS_SLOTS], true,
				  &gone, NULL);
	g->uncollected = false;
	while (g->pending) {
		bool done;

		if (g->on_gpu)
			(void)device_done(g, &g->slots[g->first], true, &done, NULL);
		g->first = (g->first + 1) % GRADIENTS_SLOTS;
		g->pending--;
	}
	g->taken = 0;
}

static enum plim_status check_list(const struct plim_gradient *tensors, size_t n,
				   struct plim_err *err)
{
	uint64_t chunks = 0;

	for (size_t i = 0; i < n; i++) {
		if (tensors[i].dtype > PLIM_GRADIENT_FLOAT64)
			return err_set(err, PLIM_E_ARG, "the dtype of tensor %zu is not known", i);
		if (!tensors[i].copies)
			return err_set(err, PLIM_E_ARG, "tensor %zu has no copies: 1 is itself", i);
		if (tensors[i].elements > UINT64_MAX / 16)
			return err_set(err, PLIM_E_ARG, "tensor %zu is too large", i);
		chunks += tensors[i].elements / (GRADIENTS_CHUNK / sizes[tensors[i].dtype]) + 1;
		if (chunks > UINT32_MAX)
			return err_set(err, PLIM_E_LIMIT, "more than 2^32 chunks of 64 KiB");
	}
	return PLIM_OK;
}

static enum plim_status put_gradients_row(struct plim_gradients *g, const struct plim_gradient *t,
					  struct plim_err *err)
{
	const uint64_t each = GRADIENTS_CHUNK / sizes[t->dtype];
	struct gradients_row r = { .count = t->elements,
				   .dtype = t->dtype,
				   .first = (uint32_t)g->chunks.n,
				   .chunks = (uint32_t)((t->elements + each - 1) / each),
				   .weight = 1.0 / t->copies };
	uint32_t row = r.chunks ? (uint32_t)g->rows.n : UINT32_MAX;
	enum plim_status st = vec_push(&g->mem, &g->row_of, row, err);

	if (!st && r.chunks)
		st = vec_need(&g->mem, &g->chunks, r.chunks, err);
	for (uint32_t i = 0; !st && i < r.chunks; i++)
		g->chunks.at[g->chunks.n++] = (struct gradients_chunk){ row, i };
	if (!st && r.chunks)
		st = vec_push(&g->mem, &g->rows, r, err);
	return st;
}

size_t gradients_slot_bytes(const struct plim_gradients *g)
{
	return g->rows.n * sizeof(struct gradients_row) + gradients_out_bytes(g);
}

void gradients_cut_slots(struct plim_gradients *g, void *memory)
{
	uint8_t *at = memory;

	for (size_t i = 0; i < GRADIENTS_SLOTS; i++, at += gradients_slot_bytes(g)) {
		g->slots[i].rows = (void *)at;
		g->slots[i].out = (void *)(g->slots[i].rows + g->rows.n);
		g->slots[i].told = (void *)(g->slots[i].out + g->rows.n);
	}
}

/* Host memory: slots and partial sums; device_set does it for a GPU. */
static enum plim_status host_set(struct plim_gradients *g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	mem_free(&g->mem, g->slot_memory, g->slot_bytes, 1);
	g->slot_bytes = gradients_slot_bytes(g) * GRADIENTS_SLOTS;
	g->slot_memory = mem_new(&g->mem, g->slot_bytes, 1, err);
	if (!g->slot_memory) {
		g->slot_bytes = 0;
		return mem_status(err);
	}
	gradients_cut_slots(g, g->slot_memory);
	g->partial.n = 0;
	st = vec_need(&g->mem, &g->partial, g->chunks.n, err);
	g->partial.n = st ? 0 : g->chunks.n;
	return st;
}

enum plim_status plim_gradients_set(struct plim_gradients *g, const struct plim_gradient *tensors,
				    size_t n, struct plim_err *err)
{
	enum plim_status st = check_list(tensors, n, err);

	if (st)
		return st;
	forget_gradients(g);
	g->list.n = g->row_of.n = g->rows.n = g->chunks.n = g->results.n = 0;
	st = vec_need(&g->mem, &g->list, n, err);
	for (size_t i = 0; !st && i < n; i++) {
		g->list.at[g->list.n++] = tensors[i];
		st = put_gradients_row(g, &tensors[i], err);
	}
	if (!st)
		st = vec_need(&g->mem, &g->results, n * g->options.history, err);
	if (!st)
		st = g->on_gpu ? device_set(g, err) : host_set(g, err);
	if (st)
		g->list.n = g->row_of.n = g->rows.n = g->chunks.n = 0;
	return st;
}

void plim_gradients_order(struct plim_gradients *g, const uint64_t *order, size_t n)
{
	for (size_t i = 0; i < n && i < g->list.n; i++)
		g->list.at[i].order = order[i];
}

void plim_gradients_free(struct plim_gradients *g)
{
	if (!g)
		return;
	forget_gradients(g);
	if (g->on_gpu)
		device_close(g);
	mem_free(&g->mem, g->slot_memory, g->slot_bytes, 1);
	mem_free(&g->mem, g->cuda_library, g->cuda_bytes, 1);
	vec_release(&g->mem, &g->list);
	vec_release(&g->mem, &g->row_of);
	vec_release(&g->mem, &g->rows);
	vec_release(&g->mem, &g->chunks);
	vec_release(&g->mem, &g->partial);
	vec_release(&g->mem, &g->results);
	free(g);
}

/* ---- checks ---- */

/* The next slot, with the rows as they are; of results that no one takes the oldest goes. */
static enum plim_status next_slot(struct plim_gradients *g, uint64_t step,
				  struct gradients_slot **out, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (g->pending == GRADIENTS_SLOTS) {
		bool done;

		if (g->on_gpu)
			st = device_done(g, &g->slots[g->first], true, &done, err);
		g->first = (g->first + 1) % GRADIENTS_SLOTS;
		g->pending--;
		g->missed++;
	}
	*out = &g->slots[(g->first + g->pending) % GRADIENTS_SLOTS];
	(*out)->step = step;
	if (!st && g->uncollected) {
		bool done;

		st = device_done(g, *out, true, &done, err);
		g->uncollected = false;
	}
	if (!st && g->rows.n)
		memcpy((*out)->rows, g->rows.at, g->rows.n * sizeof(*g->rows.at));
	return st;
}

/* Addresses into the rows; are they others than before? */
static bool place_rows(struct plim_gradients *g, const uint64_t *where)
{
	bool moved = false;

	for (size_t i = 0; i < g->list.n; i++) {
		if (g->row_of.at[i] == UINT32_MAX)
			continue;
		moved |= g->rows.at[g->row_of.at[i]].at != where[i];
		g->rows.at[g->row_of.at[i]].at = where[i];
	}
	return moved;
}

static enum plim_status check_call(const struct plim_gradients_call *call, struct plim_err *err)
{
	return call->size < sizeof(*call) || call->flags > PLIM_GRADIENTS_LATER
		       ? err_set(err, PLIM_E_ARG,
				 "the size of the call is not set, or a flag is not known")
		       : PLIM_OK;
}

enum plim_status plim_gradients_check(struct plim_gradients *g,
				      const struct plim_gradients_call *call, struct plim_err *err)
{
	struct gradients_slot *slot;
	bool pending = !(call->flags & PLIM_GRADIENTS_LATER);
	enum plim_status st = check_call(call, err);

	if (st)
		return st;
	g->gpu.stale |= place_rows(g, call->where);
	st = next_slot(g, call->step, &slot, err);
	if (st)
		return st;
	if (g->on_gpu) {
		st = device_check(g, slot, call, &pending, err);
	} else {
		const float *scale = (const float *)(uintptr_t)call->scale;

		st = host_check(g, slot, scale ? (double)*scale : 1, err);
		if (!st && call->summary)
			*(struct plim_gradients_summary *)(uintptr_t)call->summary = *slot->told;
	}
	g->pending += !st && pending;
	g->uncollected = !st && g->on_gpu && (call->flags & PLIM_GRADIENTS_LATER);
	return st;
}

enum plim_status plim_gradients_collect(struct plim_gradients *g,
					const struct plim_gradients_call *call,
					struct plim_err *err)
{
	struct gradients_slot *slot;
	enum plim_status st = check_call(call, err);

	if (!st && !g->on_gpu && !call->summary)
		st = err_set(err, PLIM_E_ARG, "in host memory the summary has the result");
	g->uncollected = false; /* the rows are as they were */
	if (!st)
		st = next_slot(g, call->step, &slot, err);
	if (st)
		return st;
	if (g->on_gpu)
		st = device_collect(g, slot, call, err);
	else
		*slot->told = *(struct plim_gradients_summary *)(uintptr_t)call->summary;
	g->pending += !st;
	return st;
}

enum plim_status plim_gradients_clip(struct plim_gradients *g, double max_norm,
				     const struct plim_gradients_call *call, struct plim_err *err)
{
	enum plim_status st = check_call(call, err);

	if (!st && !(max_norm > 0))
		st = err_set(err, PLIM_E_ARG, "max_norm is above 0");
	if (st)
		return st;
	if (g->on_gpu)
		return device_clip(g, (float)max_norm, call, err);
	if (!call->summary)
		return err_set(err, PLIM_E_ARG, "in host memory the summary has the norm");
	host_clip(g, ((struct plim_gradients_summary *)(uintptr_t)call->summary)->norm,
		  (float)max_norm);
	return PLIM_OK;
}

/* ---- results ---- */

static struct plim_gradient_result *kept(struct plim_gradients *g, uint64_t number)
{
	return g->results.at + number % g->options.history * g->list.n;
}

static void keep_gradients(struct plim_gradients *g, const struct gradients_slot *slot,
			   struct plim_gradients_stats *s)
{
	const struct plim_gradients_summary *all = slot->told;
	struct plim_gradient_result *to = kept(g, g->taken++);

	*s = (struct plim_gradients_stats){ .step = slot->step,
					    .norm = all->norm,
					    .finite_norm = sqrt(all->squares) / all->scale,
					    .max_abs = all->max_abs / all->scale,
					    .scale = all->scale,
					    .nan = (uint64_t)all->nan,
					    .inf = (uint64_t)all->inf,
					    .first_bad = PLIM_UNKNOWN,
					    .missed = g->missed };
	for (size_t i = 0; i < g->list.n; i++) {
		uint32_t row = g->row_of.at[i];
		const struct gradients_sums none = { 0 };
		const struct gradients_sums *x = row == UINT32_MAX ? &none : &slot->out[row];

		to[i] = (struct plim_gradient_result){ (uint64_t)x->nan, (uint64_t)x->inf,
						       sqrt(x->squares) / all->scale,
						       x->max / all->scale,
						       row == UINT32_MAX || slot->rows[row].at };
		s->none += !to[i].is_set;
		if (!to[i].nan && !to[i].inf)
			continue;
		s->bad++;
		if (s->first_bad == PLIM_UNKNOWN ||
		    g->list.at[i].order < g->list.at[s->first_bad].order)
			s->first_bad = i;
	}
}

static enum plim_status take_gradients(struct plim_gradients *g, bool wait,
				       struct plim_gradients_stats *out, struct plim_err *err)
{
	struct gradients_slot *slot = &g->slots[g->first];
	bool done = true;
	enum plim_status st = PLIM_OK;

	*out = (struct plim_gradients_stats){ .step = PLIM_UNKNOWN, .first_bad = PLIM_UNKNOWN };
	if (!g->pending)
		return PLIM_OK;
	if (g->on_gpu)
		st = device_done(g, slot, wait, &done, err);
	if (st || !done)
		return st;
	keep_gradients(g, slot, out);
	g->first = (g->first + 1) % GRADIENTS_SLOTS;
	g->pending--;
	return PLIM_OK;
}

enum plim_status plim_gradients_take(struct plim_gradients *g, struct plim_gradients_stats *out,
				     struct plim_err *err)
{
	return take_gradients(g, false, out, err);
}

enum plim_status plim_gradients_wait(struct plim_gradients *g, struct plim_gradients_stats *out,
				     struct plim_err *err)
{
	return take_gradients(g, true, out, err);
}

void plim_gradients_results(struct plim_gradients *g, uint64_t ago,
			    const struct plim_gradient_result **out, size_t *n)
{
	bool there = ago < g->taken && ago < g->options.history;

	*out = there ? kept(g, g->taken - 1 - ago) : NULL;
	*n = there ? g->list.n : 0;
}

size_t plim_gradients_bad(struct plim_gradients *g, uint64_t *out, size_t most)
{
	const struct plim_gradient_result *at;
	size_t n, found = 0;

	plim_gradients_results(g, 0, &at, &n);
	for (size_t i = 0; i < n; i++) {
		size_t to = found < most ? found : most;

		if (!at[i].nan && !at[i].inf)
			continue;
		while (to && g->list.at[out[to - 1]].order > g->list.at[i].order) {
			if (to < most)
				out[to] = out[to - 1];
			to--;
		}
		if (to < most)
			out[to] = i;
		found += found < most;
	}
	return found;
}
