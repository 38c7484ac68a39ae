/*
 * The stack of a Python program's main thread, read from outside while it runs: its memory is looked at (process_vm_readv), never
 * stopped, never written.  CPython 3.10 to 3.14, as 64-bit Linux has them, not the free-threaded builds.
 *
 * Another process's memory is foreign: whatever stands there, a look ends soon, and what is odd gives no stack instead of a wrong one.
 * A program that runs while it is looked at may rarely show a stack whose inner part is a moment younger than its outer one.
 */
#ifndef STACKS_STACKS_H
#define STACKS_STACKS_H

#include "base/base.h"

#define STACKS_FRAMES 96 /* of a stack, the innermost ones */

struct stacks_frame {
	char file
		[256]; /* as the code object has it, UTF-8; of a longer one the end, behind "..." */
	char function[96];           /* qualified from Python 3.11 on */
	uint32_t line;               /* 0: not known */
	uint32_t column, end_column; /* bytes, counted from 1, on that one line; 0: not known */
};

struct stacks_look {
	size_t n;
	struct stacks_frame at[STACKS_FRAMES]; /* the innermost first */
};

enum stacks_status {
	STACKS_SEEN,
	STACKS_NOT_NOW,   /* between two states, or it has not begun: at another time perhaps */
	STACKS_NO_PYTHON, /* no CPython is in it */
	STACKS_UNKNOWN,   /* a CPython whose insides are not known here */
	STACKS_DENIED,    /* the kernel does not permit it */
};

/* Memory that is read: n bytes at an address, all or nothing. */
struct stacks_memory {
	bool (*read)(void *ctx, uint64_t at, void *to, size_t n);
	void *ctx;
};

/* Processes that are looked at again and again. */
struct stacks;
struct stacks *stacks_new(struct mem *m, struct plim_err *err);
void stacks_free(struct stacks *s);

/*
 * Where the main thread of a process is.  start_time: field 22 of its stat file, so that a number that is used again is another one;
 * parent: a process that it may be a fork of, which has its interpreter at the same address; 0: none.
 */
enum stacks_status stacks_look(struct stacks *s, uint32_t pid, uint64_t start_time, uint32_t parent,
			       struct stacks_look *out);

/* The working folder of a process that was looked at; "": not seen. */
const char *stacks_folder(const struct stacks *s, uint32_t pid);

/*
 * What a frame of it executes, from its source file: the expression (3.11 and later), or the line.  false: the file cannot be read, or it
 * is another user's process.  The text is UTF-8 without control characters, cut to the room.
 */
bool stacks_code(struct stacks *s, uint32_t pid, const struct stacks_frame *f, char *out,
		 size_t room);

/* The same of memory that is at hand (tests): modules begin at `at`, the main thread has that number. */
enum stacks_status stacks_look_at(const struct stacks_memory *memory, const uint64_t *at, size_t n,
				  uint64_t main_thread, struct stacks_look *out);

#endif
