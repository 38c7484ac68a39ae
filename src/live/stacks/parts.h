/* What the files of `stacks` share. */
#ifndef STACKS_PARTS_H
#define STACKS_PARTS_H

#include "stacks/stacks.h"

/*
 * Where members stand in the objects of one minor release (layouts.c).  `told`: the numbers are places in _Py_DebugOffsets, at the
 * beginning of _PyRuntime, where that release says where they stand.
 */
struct layout {
	unsigned version; /* 0x30c */
	bool told, held;  /* held: the thread points to what points to the frame */
	uint32_t interpreters_head, main_thread_id, interpreter_next, threads_head;
	uint32_t thread_next, thread_id, thread_native_id, thread_frame, holder_frame;
	uint32_t frame_previous, frame_code, frame_instruction, frame_owner;
	uint32_t code_file, code_name, code_lines, code_first_line, code_bytes;
	uint32_t object_type, type_name, bytes_size, bytes_data;
	uint32_t text_state, text_length, text_data;
	uint32_t text_more; /* between that and the letters of what is not ASCII */
	uint32_t kind_shift, compact, ascii;
};
const struct layout *layout_of(unsigned version);

/* ---- memory, by pages: what is read once in a look stays as it was ---- */

#define PAGE 4096u
#define PAGES 32u

struct pages {
	const struct stacks_memory *memory;
	uint64_t number[PAGES]; /* + 1; 0: empty */
	unsigned char at[PAGES][PAGE];
};
void pages_forget(struct pages *p);
bool pages_read(struct pages *p, uint64_t at, void *to, size_t n);
bool pages_u64(struct pages *p, uint64_t at, uint64_t *out);

/* ---- modules and what they export ---- */

/* The address of a name that the ELF file mapped at `base` exports; 0: it does not. */
uint64_t module_symbol(struct pages *p, uint64_t base, const char *name);

/* ---- the interpreter ---- */

struct interpreter {
	uint32_t pid;         /* code objects are distinguished by it */
	uint64_t runtime;     /* 0: not found */
	struct layout layout; /* with the numbers themselves */
	uint64_t code_type;   /* 0: not met yet */
	uint64_t thread;      /* the main one, where it was found last; 0: not yet */
};
enum stacks_status interpreter_find(struct pages *p, const uint64_t *modules, size_t n,
				    struct interpreter *out);

/* ---- code objects that were met ---- */

#define CODES 1024u

struct code {
	uint32_t pid;
	uint64_t at, file_at, name_at, lines_at, instruction;
	uint32_t first_line;
	struct stacks_frame frame; /* as of `instruction` */
};

enum stacks_status frames_look(struct pages *p, struct interpreter *in, struct code *codes,
			       uint64_t main_thread, struct stacks_look *out);

/* The place of byte `offset` of the code; false: the table is odd. */
bool lines_find(unsigned version, const unsigned char *table, size_t n, uint32_t first_line,
		uint64_t offset, struct stacks_frame *out);

#endif
