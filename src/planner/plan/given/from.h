/* Keys of other tools' configurations of a run, as rows (data/tools.rows); from.c reads files by them. */
#ifndef PLAN_FROM_H
#define PLAN_FROM_H

#include <stdbool.h>
#include <stddef.h>

enum from_how {
	FROM_SET,    /* the option takes the value; "auto": another file has it */
	FROM_LIST,   /* the same of a list, or of a text with commas */
	FROM_IF,     /* where it is on, the option takes `value` */
	FROM_UNLESS, /* where it is off */
	FROM_ABOVE,  /* where it is a number above 0 */
	FROM_IS,     /* changes no memory if it is `value`, "auto" or off */
	FROM_ONLY,   /* changes no memory if it is `value` and nothing else */
	FROM_LESS,   /* where it is on, less is needed than is planned without it */
	FROM_WORD,   /* one of the words of the row, or several in a list */
	FROM_FILE,   /* DeepSpeed's configuration: its file, or all of it */
	FROM_MODEL,  /* the model: a folder, a file or a name of the hub */
	FROM_NEUTRAL /* changes no memory; a key that ends with a star: all that begin so */
};

/* What a word means; option NULL: no memory. */
struct from_word {
	const char *word, *option, *value;
};

/* An option that begins with @ is one of from.c's own, of which several make one of plan's. */
struct from_row {
	const char *key;
	enum from_how how;
	const char *option, *value;
	const struct from_word *words; /* ends with NULL */
};

/* What holds where no key of the file says otherwise. */
struct from_default {
	const char *key, *option, *value;
};

/* In what a tool loads weights that are under autocast. */
enum from_loads {
	FROM_LOADS_WIDE,   /* fp32, unless a key says otherwise */
	FROM_LOADS_NARROW, /* autocast's own 16 bits; bf16 where nothing is said */
	FROM_LOADS_FROZEN, /* those of what is frozen; what is trained is fp32 */
	FROM_LOADS_STORED  /* the checkpoint's own dtype since Transformers 5, fp32 before */
};

struct from_tool {
	const char *name;
	/* Keys with spaces between them: one is in each of its files, none of the others is. */
	const char *marks, *others;
	const struct from_row *rows[2];      /* each ends with NULL */
	const struct from_default *defaults; /* ends with NULL; may be NULL */
	const char *assumed;  /* a sentence on what is planned in place of it; NULL: nothing is */
	const char *rank;     /* of adapters, where nothing is said; NULL: PEFT's */
	const char *parallel; /* of several GPUs, where nothing is said; NULL: as plan has it */
	enum from_loads loads;
	bool evaluates_alike; /* with as many samples as it trains with, where nothing is said */
	bool narrow_adapters; /* adapters have the dtype of the weights, not fp32 */
};

/* In the order in which they are tried; the first is DeepSpeed. */
extern const struct from_tool from_tools[];
extern const size_t from_tool_count;

#endif
