/* How every command gives its result away: JSON from its table, a snapshot as a file. */
#ifndef API_OUT_H
#define API_OUT_H

#include "result_tables.h"
#include "snapshot/snapshot.h"

#include <plimsoll/report.h>

/*
 * A result of zeros, and behind it in the same memory what it hides; the command's free() frees both at once.
 *
 *	st = OUT_NEW(report, r, &r->hidden->options, options, err);
 *
 * sets `r` and puts the caller's options over the defaults; with a status there is no result.
 */
void *out_new(size_t size, size_t hidden_at, size_t hidden_size);
enum plim_status out_take(void *result, const struct options_table *table, void *to,
			  const void *given, struct plim_err *err);
#define OUT_BARE(verb)                                                            \
	out_new(sizeof(struct plim_##verb), offsetof(struct plim_##verb, hidden), \
		sizeof(struct plim_##verb##_hidden))
#define OUT_NEW(verb, result, to, given, err)                                        \
	(((result) = OUT_BARE(verb))                                                 \
		 ? (plim_##verb##_options_init(to),                                  \
		    out_take((result), &verb##_options_table, (to), (given), (err))) \
		 : err_set((err), PLIM_E_NOMEM, "out of memory"))

/* `what` as a JSON object that begins with its schema and the program's version. */
enum plim_status out_json(struct mem *m, const struct field_table *table, const void *what,
			  plim_write_fn *write, void *ctx, struct plim_err *err);

/* Words that head what follows, an empty line before them; more may stand on their line. */
void out_head(struct text *t, const char *words);

/* The same as a line of its own. */
void out_title(struct text *t, const char *title);

/* Sentences under a title; nothing if there are none.  Names from the file may be in them. */
void out_list(struct text *t, const char *title, const char *const *lines, size_t n);

/* A text that was written, or why it was not. */
enum plim_status out_text(struct text *t, plim_write_fn *write, void *ctx, struct plim_err *err);

/* Bytes that are kept to be looked at before they are written; begin with zeros and `mem`. */
struct out_bytes {
	struct mem *mem;
	VEC(uint8_t) at;
};

/* As the function of a pickle_sink: put behind them. */
enum plim_status out_to_bytes(void *ctx, const void *bytes, size_t n, struct plim_err *err);

/* Read what was packed: it must be `t`. */
enum plim_status out_check_packed(const struct snapshot *t, const struct out_bytes *k,
				  struct plim_err *err);

/* A trace as a pickle that appears whole or not at all. */
enum plim_status out_snapshot(const struct snapshot *t, const char *path, struct plim_err *err);

/* The same as a taker of recording_of_run(); self is the path (char *). */
enum plim_status out_take_snapshot(void *self, const struct snapshot *t, struct plim_err *err);

#endif
