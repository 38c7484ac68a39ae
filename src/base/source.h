/*
 * Input as one forward stream of decoded bytes seen through a window: plain files, pipes, memory,
 * and gzip, xz, lzma, zstd, bzip2 and a zip of one file of each (known by content, not by name).
 *
 * A reader keeps its own cursor in [s->p, s->end) and asks for more when it runs short:
 *
 *	if ((size_t)(s->end - p) < 8) {
 *		st = source_need(s, p, 8, &err);
 *		p = s->p;			// the same byte, perhaps elsewhere
 *	}					// s->end - p < 8 now: the input ends here
 *
 * SOURCE_PAD zero bytes behind s->end are always readable, so a fast path may look ahead.
 * Files are read, not mapped: one that is cut while being read gives an error, not a signal.
 * What takes time is read, and decompressed, on a thread of its own.  One thread per source, save
 * source_pread.
 */
#ifndef BASE_SOURCE_H
#define BASE_SOURCE_H

#include <plimsoll/types.h>

#include "mem.h"

#include <stdbool.h>

#define SOURCE_WINDOW_BYTES ((size_t)512 << 10)
#define SOURCE_PAD 16

struct source {
	const uint8_t *p;   /* after source_open and source_need: the byte that was asked for */
	const uint8_t *end; /* end of what is in the window */
	bool eof;           /* nothing follows `end` */
};

enum source_thread {
	SOURCE_THREAD_AUTO, /* compressed input and large files are read on a thread of their own */
	SOURCE_THREAD_NONE, /* everything happens in source_need */
	SOURCE_THREAD_ALWAYS /* tests */
};

/* What may be opened.  Names that no one typed may lead elsewhere, or to a FIFO without a writer. */
enum source_kinds {
	SOURCE_ANY,         /* whatever can be read */
	SOURCE_REGULAR,     /* regular files, also through a link */
	SOURCE_REGULAR_HERE /* regular files; a link as the last part of the path is refused */
};

struct source_options {
	uint64_t max_decoded_bytes; /* refuse beyond this; 0: no limit, memory stays flat anyway */
	size_t window_bytes;        /* 0: SOURCE_WINDOW_BYTES; tests use small ones */
	enum source_thread thread;
	enum source_kinds kinds; /* else PLIM_E_IO, at once */
};

/* What is known about an input; text is borrowed from the source. */
struct source_info {
	const char *path;        /* as given */
	const char *kind;        /* "file", "pipe", "memory", "member" */
	const char *compression; /* "none", "gzip", "xz", "lzma", "zstd", "bzip2", "zip" */
	uint64_t decoder_bytes;  /* what decoding usually takes; 0: nothing is compressed */
	uint64_t raw_bytes;      /* size as stored, PLIM_UNKNOWN for a pipe */
	uint64_t raw_read_bytes; /* of these, how many were read so far (for progress) */
	uint64_t decoded_bytes;  /* how many bytes came out so far, s->end included */
};

/*
 * Open `path`, "-" for standard input.  options may be NULL.  An empty input is refused
 * (PLIM_E_FORMAT, "'x' is empty"), as are directories and what cannot be opened (PLIM_E_IO).
 * Opening a FIFO waits for its writer.  On success something is in the window.
 */
enum plim_status source_open(struct mem *m, const char *path, const struct source_options *options,
			     struct source **out, struct plim_err *err);

/*
 * The same of an open descriptor, from where it stands; a file's position stays as it is, and it is not closed.  `name`
 * stands for the path in messages.  PLIM_E_IO: it is none.
 */
enum plim_status source_open_descriptor(struct mem *m, const char *name, int descriptor,
					const struct source_options *options, struct source **out,
					struct plim_err *err);

/*
 * The same over `n` bytes of memory, borrowed until source_close.  `name` stands for the path in
 * messages.  SOURCE_MEMORY_PLAIN: the bytes are what they are, compressed or not.
 */
enum source_memory { SOURCE_MEMORY_PLAIN, SOURCE_MEMORY_DETECT };

enum plim_status source_open_memory(struct mem *m, const char *name, const void *bytes, size_t n,
				    enum source_memory mode, const struct source_options *options,
				    struct source **out, struct plim_err *err);

/* What a caller gave; PLIM_E_ARG: nothing, or its size is not set. */
enum plim_status source_open_input(struct mem *m, const struct plim_input *input,
				   const struct source_options *options, struct source **out,
				   struct plim_err *err);

/* How messages and results call it. */
const char *source_input_name(const struct plim_input *input);

/*
 * The next `n` decoded bytes of `outer` (from outer->p) as a source of their own: a member of an
 * archive, compressed or not.  `outer` must not be used until it is closed; outer->p then stands somewhere
 * in them.  PLIM_E_FORMAT when `outer` ends before they do.
 */
enum plim_status source_open_member(struct mem *m, const char *name, struct source *outer,
				    uint64_t n, const struct source_options *options,
				    struct source **out, struct plim_err *err);

/*
 * Make at least `n` bytes from `keep` (a pointer into the window, s->end allowed) contiguous:
 * s->p is then the byte that was `keep`; all other pointers into the window are void.
 * Fewer than n bytes with PLIM_OK: the input ends there, and s->eof is set.  The window grows
 * only as bytes really arrive, so an n that is a lie costs no memory.
 * Errors: PLIM_E_IO; PLIM_E_FORMAT, damaged compressed data with its compressed offset;
 * PLIM_E_LIMIT, PLIM_E_NOMEM.  The window stays valid, bytes before the damage are still delivered.
 */
enum plim_status source_need(struct source *s, const uint8_t *keep, size_t n, struct plim_err *err);

/*
 * Go forward: s->p becomes the byte at `offset`, which is not before it.  What lies between is not
 * read where that can be helped (plain files).  PLIM_E_FORMAT when the input ends before.
 */
enum plim_status source_skip_to(struct source *s, uint64_t offset, struct plim_err *err);

/* Absolute offset in the decoded stream of a pointer into the window. */
uint64_t source_offset(const struct source *s, const uint8_t *at);

/* Can source_pread be used: an uncompressed regular file, or plain memory. */
bool source_is_random(const struct source *s);

/*
 * Read up to `n` decoded bytes at `offset`, wherever the stream stands; *got < n at the end.
 * May be called from any thread.  PLIM_E_UNSUPPORTED when the source is not random.
 */
enum plim_status source_pread(const struct source *s, uint64_t offset, void *at, size_t n,
			      size_t *got, struct plim_err *err);

void source_get_info(const struct source *s, struct source_info *out);

/* Stops the thread, closes the file.  NULL is a no-op. */
void source_close(struct source *s);

#endif
