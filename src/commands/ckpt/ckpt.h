/* What the parts of the ckpt commands share. */
#ifndef API_CKPT_H
#define API_CKPT_H

#include "base/base.h"
#include "checkpoint/checkpoint.h"

#include <plimsoll/ckpt.h>

struct plim_ckpt_hidden {
	struct mem mem;
	struct ckpt ckpt;
	struct arena arena;
	bool values; /* were looked at */
	bool redacted;
};

/* --redact: two results may share the words. */
/* The words of a name that are not public ones; what a sentence quotes; and all names of a result. */
void ckpt_hide_words(struct redact *h, const char **name);
void ckpt_hide_quoted(struct redact *h, const char **sentence);
enum plim_status ckpt_hide(struct plim_ckpt *c, struct intern *words, struct plim_err *err);

/* The note below a text. */
void ckpt_tell_kept(struct text *t);
#define CKPT_KEPT                                                                              \
	"redacted, except for sizes, shapes, dtypes, numbers, and words that occur in public " \
	"checkpoints"

/* By enum plim_ckpt_verdict, for people. */
extern const char *const ckpt_verdict_names[];

#endif
