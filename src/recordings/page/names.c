/* Stacks, frames and texts, only those that something refers to, numbered in the order of use. */
#include "parts.h"

#include <stdio.h>
#include <string.h>

enum plim_status names_init(struct names *x, const struct page_input *in, struct plim_err *err)
{
	const struct snapshot *t = in->tl->snapshot;

	*x = (struct names){ .mem = in->mem, .in = in };
	intern_init(&x->texts, in->mem);
	x->stack_of = mem_new(in->mem, t->stacks.n, sizeof(*x->stack_of), err);
	x->frame_of = x->stack_of ? mem_new(in->mem, t->frames.n, sizeof(*x->frame_of), err) : NULL;
	return x->frame_of ? PLIM_OK : mem_status(err);
}

void names_release(struct names *x)
{
	const struct snapshot *t = x->in->tl->snapshot;

	mem_free(x->mem, x->stack_of, t->stacks.n, sizeof(*x->stack_of));
	mem_free(x->mem, x->frame_of, t->frames.n, sizeof(*x->frame_of));
	vec_release(x->mem, &x->stacks);
	vec_release(x->mem, &x->frames);
	vec_release(x->mem, &x->function);
	vec_release(x->mem, &x->file);
	intern_release(&x->texts);
}

/* A name as long as it is useful, so that one of a megabyte is not in the page in each of its places. */
static enum plim_status add_text(struct names *x, const char *text, uint32_t *id,
				 struct plim_err *err)
{
	char cut[TEXT_MOST + 64];
	size_t n = strlen(text), kept = TEXT_MOST;

	if (n <= TEXT_MOST)
		return intern_add(&x->texts, text, n, id, err);
	while (kept && ((uint8_t)text[kept] & 0xc0) == 0x80)
		kept--; /* not inside a character */
	n = (size_t)snprintf(cut, sizeof(cut), "%.*s... (%zu bytes)", (int)kept, text, n);
	x->cut += intern_find(&x->texts, cut, n) == INTERN_NONE;
	return intern_add(&x->texts, cut, n, id, err);
}

enum plim_status names_string(struct names *x, uint32_t string, const char *kind, uint32_t *out,
			      struct plim_err *err)
{
	return add_text(x, x->in->text(x->in->self, string, kind), out, err);
}

enum plim_status names_frame(struct names *x, uint32_t frame, uint32_t *out, struct plim_err *err)
{
	struct page_place place;
	uint32_t function, file;
	enum plim_status st;

	*out = frame == TRACE_NONE ? 0 : x->frame_of[frame];
	if (*out || frame == TRACE_NONE)
		return PLIM_OK;
	x->in->place(x->in->self, frame, &place);
	st = add_text(x, place.name, &function, err);
	if (!st)
		st = add_text(x, place.file, &file, err);
	if (!st)
		st = vec_push(x->mem, &x->function, function, err);
	if (!st)
		st = vec_push(x->mem, &x->file, file, err);
	if (!st)
		st = vec_push(x->mem, &x->frames, frame, err);
	if (!st)
		*out = x->frame_of[frame] = (uint32_t)x->frames.n;
	return st;
}

enum plim_status names_stack(struct names *x, uint32_t stack, uint32_t *out, struct plim_err *err)
{
	const struct snapshot *t = x->in->tl->snapshot;
	enum plim_status st = PLIM_OK;
	const uint32_t *frames;
	uint32_t n, number;

	*out = 0;
	if (snapshot_stackless(t, stack))
		return PLIM_OK;
	*out = x->stack_of[stack];
	if (*out)
		return PLIM_OK;
	frames = snapshot_stack(t, stack, &n);
	for (uint32_t i = 0; !st && i < n; i++)
		st = names_frame(x, frames[i], &number, err);
	if (!st)
		st = vec_push(x->mem, &x->stacks, stack, err);
	if (!st)
		*out = x->stack_of[stack] = (uint32_t)x->stacks.n;
	return st;
}

/* ---- columns ---- */

/* 1 + number of a frame that stacks hold; 0 for none. */
static uint32_t page_name_number_of(const struct names *x, uint32_t frame)
{
	return frame == TRACE_NONE ? 0 : x->frame_of[frame];
}

/* One of the frames of each stack. */
static enum plim_status pack_chosen(struct names *x, struct planes *c, struct plane_values v,
				    uint32_t (*choose)(const struct snapshot *t, uint32_t stack),
				    struct plim_err *err)
{
	for (size_t i = 0; i < x->stacks.n; i++)
		v.at[i] = page_name_number_of(x, choose(x->in->tl->snapshot, x->stacks.at[i]));
	return planes_add(c, v, CODING_PLAIN, NULL, x->stacks.n, err);
}

static enum plim_status pack_stacks(struct names *x, struct planes *c, uint64_t *v, size_t frames,
				    struct plim_err *err)
{
	const struct snapshot *t = x->in->tl->snapshot;
	size_t at = 0;
	enum plim_status st;

	for (size_t i = 0; i < x->stacks.n; i++) {
		uint32_t n;

		snapshot_stack(t, x->stacks.at[i], &n);
		v[i] = at;
		at += n;
	}
	v[x->stacks.n] = at;
	st = planes_add(c, (struct plane_values){ "stacks.first", v }, CODING_DELTA, NULL,
			x->stacks.n + 1, err);
	if (!st)
		st = pack_chosen(x, c, (struct plane_values){ "stacks.user", v },
				 timeline_user_frame, err);
	if (!st)
		st = pack_chosen(x, c, (struct plane_values){ "stacks.code", v },
				 timeline_code_frame, err);
	at = 0;
	for (size_t i = 0; i < x->stacks.n; i++) {
		uint32_t n;
		const uint32_t *from = snapshot_stack(t, x->stacks.at[i], &n);

		for (uint32_t k = 0; k < n; k++)
			v[at++] = x->frame_of[from[k]] - 1;
	}
	return st ? st
		  : planes_add(c, (struct plane_values){ "stacks.frames", v }, CODING_PLAIN, NULL,
			       frames, err);
}

static enum plim_status pack_frames(struct names *x, struct planes *c, uint64_t *v,
				    struct plim_err *err)
{
	const struct snapshot *t = x->in->tl->snapshot;
	enum plim_status st;
	size_t n = x->frames.n;

	for (size_t i = 0; i < n; i++)
		v[i] = x->function.at[i];
	st = planes_add(c, (struct plane_values){ "frames.name", v }, CODING_PLAIN, NULL, n, err);
	for (size_t i = 0; i < n; i++)
		v[i] = x->file.at[i];
	if (!st)
		st = planes_add(c, (struct plane_values){ "frames.file", v }, CODING_PLAIN, NULL, n,
				err);
	for (size_t i = 0; i < n; i++) {
		uint32_t line = snapshot_frame(t, x->frames.at[i])->line;

		v[i] = line == TRACE_NONE ? 0 : line;
	}
	return st ? st
		  : planes_add(c, (struct plane_values){ "frames.line", v }, CODING_PLAIN, NULL, n,
			       err);
}

enum plim_status names_pack(struct names *x, struct planes *c, struct plim_err *err)
{
	size_t frames = 0, room;
	enum plim_status st;
	uint64_t *v;

	for (size_t i = 0; i < x->stacks.n; i++) {
		uint32_t n;

		snapshot_stack(x->in->tl->snapshot, x->stacks.at[i], &n);
		frames += n;
	}
	room = frames > x->stacks.n + 1 ? frames : x->stacks.n + 1;
	room = x->frames.n > room ? x->frames.n : room;
	v = mem_new(x->mem, room, sizeof(*v), err);
	if (!v)
		return mem_status(err);
	st = pack_stacks(x, c, v, frames, err);
	if (!st)
		st = pack_frames(x, c, v, err);
	mem_free(x->mem, v, room, sizeof(*v));
	return st;
}

void names_emit(const struct names *x, struct json_out *j)
{
	json_array(j, "strings", JSON_LINES);
	for (size_t i = 0; i < x->texts.n; i++)
		json_string_n(j, NULL, intern_text(&x->texts, (uint32_t)i), x->texts.at[i].n);
	json_array_end(j);
}
