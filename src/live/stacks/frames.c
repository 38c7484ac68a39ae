/* From _PyRuntime to the main thread, and along its frames to code objects, their files and lines. */
#include "parts.h"

#include <stdio.h>

#define INTERPRETERS 16u
#define THREADS 1024u
#define MOST_TEXT 4096u         /* letters of a name */
#define MOST_TABLE (256u << 10) /* bytes of a table of lines */
#define MOST_CODE (64u << 20)   /* bytes of bytecode */
#define OBJECT 16u              /* objects stand at multiples of it; what is added are tags */
#define NOT_PYTHON 3            /* frames of owners from this on are the interpreter's own */

/* ---- texts ---- */

/* Letters of 1, 2 or 4 bytes as UTF-8; what no name has (a zero, a surrogate, what is invisible) is shown as "?". */
static size_t to_utf8(const unsigned char *from, size_t letters, unsigned width, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < letters; i++) {
		uint32_t c = from[i * width];

		for (unsigned k = 1; k < width; k++)
			c |= (uint32_t)from[i * width + k] << 8 * k;
		if (!utf8_is_safe(c) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
			c = '?';
		n += utf8_encode(c, out + n);
	}
	return n;
}

/* The end of a text that is too long is what shows: a file's name, a method's. */
static void keep_end(const char *text, size_t n, char *out, size_t room)
{
	size_t from = 0;

	if (n >= room) {
		from = n - (room - 4);
		while (from < n && ((unsigned char)text[from] & 0xc0) == 0x80)
			from++;
		memcpy(out, "...", 3);
		out += 3;
	}
	memcpy(out, text + from, n - from);
	out[n - from] = 0;
}

static bool read_text(struct pages *p, const struct layout *l, uint64_t at, char *out, size_t room)
{
	unsigned char letters[MOST_TEXT];
	char utf8[4 * MOST_TEXT];
	uint32_t state;
	uint64_t length;
	unsigned width;

	if (at % 8 || !pages_read(p, at + l->text_state, &state, sizeof(state)) ||
	    !pages_u64(p, at + l->text_length, &length))
		return false;
	width = state >> l->kind_shift & 7;
	if (!(state & l->compact) || (width != 1 && width != 2 && width != 4) || !length ||
	    length > MOST_TEXT / width)
		return false;
	at += l->text_data + (state & l->ascii ? 0 : l->text_more);
	if (!pages_read(p, at, letters, (size_t)length * width))
		return false;
	keep_end(utf8, to_utf8(letters, (size_t)length, width, utf8), out, room);
	return true;
}

/* ---- code objects ---- */

static bool is_code(struct pages *p, struct interpreter *in, uint64_t at)
{
	uint64_t type, name;
	char text[5];

	if (at % 8 || !pages_u64(p, at + in->layout.object_type, &type))
		return false;
	if (in->code_type)
		return type == in->code_type;
	if (type % 8 || !pages_u64(p, type + in->layout.type_name, &name) ||
	    !pages_read(p, name, text, sizeof(text)) || memcmp(text, "code", 5) != 0)
		return false;
	in->code_type = type;
	return true;
}

static bool read_lines(struct pages *p, const struct layout *l, const struct code *c,
		       uint64_t offset, struct stacks_frame *out)
{
	unsigned char few[4096], *table = few;
	uint64_t size;
	bool found;

	if (!pages_u64(p, c->lines_at + l->bytes_size, &size) || !size || size > MOST_TABLE)
		return false;
	if (size > sizeof(few) && !(table = malloc((size_t)size)))
		return false;
	found = pages_read(p, c->lines_at + l->bytes_data, table, (size_t)size) &&
		lines_find(l->version, table, (size_t)size, c->first_line, offset, out);
	if (table != few)
		free(table);
	return found;
}

/* Bytes from the beginning of the code to what it executes; 0: it has just begun. */
static uint64_t offset_of(const struct layout *l, uint64_t code, uint64_t instruction)
{
	uint64_t first = code + l->code_bytes;

	if (!l->code_bytes) /* 3.10 counts instructions of two bytes, from -1 */
		return (int32_t)instruction < 0 ? 0 : (instruction & 0xffffffff) * 2;
	return instruction >= first && instruction - first < MOST_CODE ? instruction - first : 0;
}

/* Forks have their code at the same addresses. */
static size_t stack_frame_place_of(uint32_t pid, uint64_t at)
{
	return (at / OBJECT ^ at / 4096 ^ (uint64_t)pid * 2654435761u >> 7) % CODES;
}

/* The frame of a code object and an instruction; what was met before is not read again, as long as the object is the same. */
static bool read_code(struct pages *p, struct interpreter *in, struct code *codes, uint64_t at,
		      uint64_t instruction, struct stacks_frame *out)
{
	const struct layout *l = &in->layout;
	struct code *c = &codes[stack_frame_place_of(in->pid, at)],
		    now = { .pid = in->pid, .at = at };

	if (!is_code(p, in, at) || !pages_u64(p, at + l->code_file, &now.file_at) ||
	    !pages_u64(p, at + l->code_name, &now.name_at) ||
	    !pages_u64(p, at + l->code_lines, &now.lines_at) ||
	    !pages_read(p, at + l->code_first_line, &now.first_line, sizeof(now.first_line)))
		return false;
	if (c->at != at || c->pid != in->pid || c->file_at != now.file_at ||
	    c->name_at != now.name_at || c->lines_at != now.lines_at ||
	    c->first_line != now.first_line) {
		if (!read_text(p, l, now.file_at, now.frame.file, sizeof(now.frame.file)) ||
		    !read_text(p, l, now.name_at, now.frame.function, sizeof(now.frame.function)))
			return false;
		*c = now;
		c->instruction = 0;
	}
	if (c->instruction != instruction) {
		if (!read_lines(p, l, c, offset_of(l, at, instruction), &c->frame)) {
			c->at = 0;
			return false;
		}
		c->instruction = instruction;
	}
	*out = c->frame;
	return true;
}

/* ---- threads ---- */

static bool is_main(struct pages *p, const struct interpreter *in, uint64_t thread,
		    uint64_t main_thread)
{
	const struct layout *l = &in->layout;
	uint64_t its;

	if (l->thread_native_id)
		return pages_u64(p, thread + l->thread_native_id, &its) && its == main_thread;
	/* 3.10 knows the numbers of the C library alone, and which of them is the main thread's. */
	return pages_u64(p, thread + l->thread_id, &its) &&
	       pages_u64(p, in->runtime + l->main_thread_id, &main_thread) && its == main_thread;
}

/* 0: it is not there. */
static uint64_t find_thread(struct pages *p, const struct interpreter *in, uint64_t main_thread)
{
	const struct layout *l = &in->layout;
	uint64_t interpreter, thread;

	if (!pages_u64(p, in->runtime + l->interpreters_head, &interpreter))
		return 0;
	for (unsigned i = 0; interpreter && i < INTERPRETERS; i++) {
		if (!pages_u64(p, interpreter + l->threads_head, &thread))
			return 0;
		for (unsigned k = 0; thread && k < THREADS; k++) {
			if (is_main(p, in, thread, main_thread))
				return thread;
			if (!pages_u64(p, thread + l->thread_next, &thread))
				return 0;
		}
		if (!pages_u64(p, interpreter + l->interpreter_next, &interpreter))
			return 0;
	}
	return 0;
}

/* A program may have hundreds of threads before it in the list: where it was is looked at first. */
static uint64_t main_thread_of(struct pages *p, struct interpreter *in, uint64_t main_thread)
{
	if (!in->thread || !is_main(p, in, in->thread, main_thread))
		in->thread = find_thread(p, in, main_thread);
	return in->thread;
}

static bool first_frame(struct pages *p, const struct layout *l, uint64_t thread, uint64_t *frame)
{
	return pages_u64(p, thread + l->thread_frame, frame) &&
	       (!l->held || pages_u64(p, *frame + l->holder_frame, frame));
}

/* ---- a stack ---- */

struct raw {
	uint64_t code, instruction, previous;
	unsigned char owner;
};

static bool read_raw(struct pages *p, const struct layout *l, uint64_t at, struct raw *out)
{
	size_t wide = l->code_bytes ? 8 : 4;

	*out = (struct raw){ 0 };
	if (at % 8 || !pages_u64(p, at + l->frame_previous, &out->previous) ||
	    !pages_u64(p, at + l->frame_code, &out->code) ||
	    !pages_read(p, at + l->frame_instruction, &out->instruction, wide))
		return false;
	out->code &= ~(uint64_t)7; /* tags of 3.14 */
	return !l->frame_owner || pages_read(p, at + l->frame_owner, &out->owner, 1);
}

static bool walk_stack_frame(struct pages *p, struct interpreter *in, struct code *codes,
			     uint64_t frame, struct stacks_look *out)
{
	/* Frames of the interpreter's own are between those of Python. */
	for (unsigned i = 0; frame && i < 4 * STACKS_FRAMES && out->n < STACKS_FRAMES; i++) {
		struct raw raw;

		if (!read_raw(p, &in->layout, frame, &raw))
			return false;
		if (raw.owner < NOT_PYTHON) {
			if (!read_code(p, in, codes, raw.code, raw.instruction, &out->at[out->n]))
				return false;
			out->n++;
		}
		frame = raw.previous;
	}
	return out->n > 0;
}

enum stacks_status frames_look(struct pages *p, struct interpreter *in, struct code *codes,
			       uint64_t main_thread, struct stacks_look *out)
{
	for (unsigned tries = 0; tries < 3; tries++) {
		uint64_t thread, frame;

		pages_forget(p);
		out->n = 0;
		thread = main_thread_of(p, in, main_thread);
		if (thread && first_frame(p, &in->layout, thread, &frame) &&
		    walk_stack_frame(p, in, codes, frame, out))
			return STACKS_SEEN;
		in->thread = 0;
	}
	out->n = 0;
	return STACKS_NOT_NOW;
}
