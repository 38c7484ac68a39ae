/*
 * Options as rows.  The parser, --help, the man page and the completions read the same table, so
 * none of them can drift.  A value is stored by offset into the command's own struct: no globals.
 *
 *	struct watch_opts { uint64_t interval_ms; bool json; };
 *
 *	static const struct opt watch_opt[] = {
 *		OPT_U64('i', "interval", watch_opts, interval_ms, "ms", 100, 60000, 1000,
 *			"time between samples"),
 *		OPT_FLAG(0, "json", watch_opts, json, "print one JSON object per sample"),
 *		OPT_END
 *	};
 *
 * The type of a field is checked when the row is compiled.  A help text has no capital and no stop.
 */
#ifndef CLI_OPT_H
#define CLI_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The default of a number that has none: the field holds this when the option was not given (or what is below `min`). */
#define OPT_NONE UINT64_MAX

enum opt_kind {
	OPT_KIND_END,
	OPT_KIND_HEADING, /* not an option: a title above the rows that follow */
	OPT_KIND_FLAG,    /* bool, or `bit` of a uint32_t; no value */
	OPT_KIND_U64,     /* uint64_t within [min, max]; the unit is only shown */
	OPT_KIND_BYTES,   /* uint64_t: 1024, 24GiB, 24G (the same), 24GB (10^9), 1.5GiB */
	OPT_KIND_COUNT,   /* uint64_t: 8B, 350M; `text` says what it takes */
	OPT_KIND_SIDES,   /* two of them, the other at `second`: 448 (and 0), 672x448; so */
	OPT_KIND_RELEASE, /* unsigned, 100 * major + minor; so */
	OPT_KIND_DOUBLE,  /* double, at least `min`; so */
	OPT_KIND_STRING,  /* const char *, borrowed from argv; NULL when not given and no default */
	OPT_KIND_OPTIONAL, /* the same; the value may be left out; as the next argument it must be one of `names` */
	OPT_KIND_LIST, /* const char **, their number, a size_t, at `second`: may be given again and again */
	OPT_KIND_CHOICE, /* int: index of the given name in `names` */
	OPT_KIND_REFUSED, /* another tool's option that has no meaning here: `help` says what to do instead */
	OPT_KIND_ALIAS, /* another tool's name of the option `value`; not in help */
	OPT_KIND_TABLE  /* not an option: another command's rows stand here; void *, its struct */
};

struct opt_list {
	const char **at; /* borrowed from argv; the array belongs to opt_parse's caller */
	size_t n;
};

struct opt {
	enum opt_kind kind;
	uint32_t bit;      /* FLAG: of a field of flags; 0: the field is a bool */
	char letter;       /* 0: none */
	bool narrow;       /* U64: a uint32_t */
	bool unsaid;       /* help does not say the default */
	const char *name;  /* without the dashes */
	size_t offset;     /* of the field in the command's struct */
	size_t second;     /* of another one that the row stores into */
	uint64_t times;    /* U64: of these the field counts so many for each that is given; 0: 1 */
	const char *value; /* what help calls the value: "ms", "FILE"; NULL: has none */
	const char *const *
		names; /* CHOICE: ends with NULL; OPTIONAL: so, may be NULL; TABLE: the rows that are left out; ALIAS: OPT_ALIAS_WORDS */
	/* STRING: the default, may be NULL; OPTIONAL: what it is without a value; ALIAS: what it stands for, NULL: its value */
	const char *text;
	uint64_t min, max, def; /* numbers; CHOICE uses def */
	double real;            /* DOUBLE: in place of def */
	const char *help;
	const struct opt_table *table; /* TABLE */
};

/* Rows that other commands take in, and the struct that they store into. */
struct opt_table {
	const struct opt *rows;
	size_t size;
};

#define OPT_END                      \
	{                            \
		.kind = OPT_KIND_END \
	}
#define OPT_HEADING(title)                                \
	{                                                 \
		.kind = OPT_KIND_HEADING, .help = (title) \
	}

/* offsetof, and an error at compile time if the field is not of the type that the row stores. */
#define OPT_FIELD(record, field, type)                                                        \
	(offsetof(struct record, field) +                                                     \
	 0 * sizeof(struct {                                                                  \
		 _Static_assert(_Generic(((struct record *)0)->field, type : 1, default : 0), \
				#record "." #field " must be " #type);                        \
		 int unused;                                                                  \
	 }))

#define OPT_FLAG(c, n, record, field, h)                              \
	{                                                             \
		.kind = OPT_KIND_FLAG, .letter = (c), .name = (n),    \
		.offset = OPT_FIELD(record, field, bool), .help = (h) \
	}
#define OPT_U64(c, n, record, field, unit, lo, hi, d, h)                                    \
	{                                                                                   \
		.kind = OPT_KIND_U64, .letter = (c), .name = (n),                           \
		.offset = OPT_FIELD(record, field, uint64_t), .value = (unit), .min = (lo), \
		.max = (hi), .def = (d), .help = (h)                                        \
	}
#define OPT_BYTES(c, n, record, field, lo, hi, d, h)                                         \
	{                                                                                    \
		.kind = OPT_KIND_BYTES, .letter = (c), .name = (n),                          \
		.offset = OPT_FIELD(record, field, uint64_t), .value = "BYTES", .min = (lo), \
		.max = (hi), .def = (d), .help = (h)                                         \
	}
#define OPT_STRING(c, n, record, field, v, d, h)                                             \
	{                                                                                    \
		.kind = OPT_KIND_STRING, .letter = (c), .name = (n),                         \
		.offset = OPT_FIELD(record, field, const char *), .value = (v), .text = (d), \
		.help = (h)                                                                  \
	}
#define OPT_OPTIONAL(c, n, record, field, v, alone, known, h)                                    \
	{                                                                                        \
		.kind = OPT_KIND_OPTIONAL, .letter = (c), .name = (n),                           \
		.offset = OPT_FIELD(record, field, const char *), .value = (v), .text = (alone), \
		.names = (known), .help = (h)                                                    \
	}
/* How wide a command's text is, and its colours; fields `width` and `no_color`. */
#define OPT_STYLE(record)                                                  \
	OPT_U64('w', "width", record, width, "columns", 40, 500, OPT_NONE, \
		"of the text (the terminal's, or 80)"),                    \
		OPT_FLAG(0, "no-color", record, no_color, "no colours (also NO_COLOR)")
/* What another tool calls it: OPT_ALIAS("bf16", "precision", "bf16"). */
#define OPT_ALIAS(n, option, v)                                                     \
	{                                                                           \
		.kind = OPT_KIND_ALIAS, .name = (n), .value = (option), .text = (v) \
	}
/* The same where values are other words: pairs of its word and the option's, NULL; others are taken as they are. */
#define OPT_ALIAS_WORDS(n, option, pairs)                                                \
	{                                                                                \
		.kind = OPT_KIND_ALIAS, .name = (n), .value = (option), .names = (pairs) \
	}
/* OPT_REFUSED("torch-compile", "torch.compile is not planned: ..."). */
#define OPT_REFUSED(n, h)                                          \
	{                                                          \
		.kind = OPT_KIND_REFUSED, .name = (n), .help = (h) \
	}
#define OPT_LIST(c, long_name, record, field, v, h)                                      \
	{                                                                                \
		.kind = OPT_KIND_LIST, .letter = (c), .name = (long_name),               \
		.offset = OPT_FIELD(record, field, struct opt_list),                     \
		.second = offsetof(struct record, field) + offsetof(struct opt_list, n), \
		.value = (v), .help = (h)                                                \
	}
#define OPT_CHOICE(c, n, record, field, v, choices, d, h)                                  \
	{                                                                                  \
		.kind = OPT_KIND_CHOICE, .letter = (c), .name = (n),                       \
		.offset = OPT_FIELD(record, field, int), .value = (v), .names = (choices), \
		.def = (d), .help = (h)                                                    \
	}

/* The rows of `t` except for those of the names `except`; they have no letters here.  The field holds their struct. */
#define OPT_TABLE(record, field, t, except)                                                        \
	{                                                                                          \
		.kind = OPT_KIND_TABLE, .offset = OPT_FIELD(record, field, void *), .table = &(t), \
		.names = (except)                                                                  \
	}

/*
 * Every row in turn, with those of tables: a copy that holds until the next one, NULL behind the last.
 *
 *	struct opt_walk w = { cmd->opts };
 *	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w))
 */
struct opt_walk {
	const struct opt *at;     /* the next row, or NULL */
	const struct opt *inside; /* the TABLE row whose rows are walked, or NULL */
	bool aliases;             /* are walked, too */
	struct opt row;
};
const struct opt *opt_next(struct opt_walk *w);

enum opt_result {
	OPT_OK,
	OPT_HELP,     /* -h or --help was given; nothing after it was read */
	OPT_HELP_ALL, /* --help-all */
	OPT_ERROR     /* *message says what is wrong */
};

enum opt_flags {
	OPT_STOP_AT_OPERAND = 1, /* what follows the first operand belongs to another program */
	OPT_KEEP_DASHES = 2      /* "--" is an operand too: a command stands behind it */
};

struct opt_message {
	char text[400];
	bool suggests; /* names what may have been meant: no need to point at --help */
};

/* Fill the struct at `values` with the rows' defaults.  Fields without a row are left alone. */
void opt_defaults(const struct opt *rows, void *values);

/*
 * Read argv[1..*argc) into *values, which opt_defaults has filled; argv[0] is not looked at.
 * "--name=value", "--name value", "-n value", "-nvalue", "-ab" for flags, "--" ends options, "-" is
 * an operand.  A name may be written with underscores; an alias that stands for a value may be followed by
 * True or False, as Hugging Face's scripts have it.  Options may follow operands unless OPT_STOP_AT_OPERAND.  On OPT_OK the operands
 * stand in argv[0..*argc), a NULL after them.  The caller ends with opt_release in every case.
 */
enum opt_result opt_parse(const struct opt *rows, void *values, int *argc, char **argv,
			  unsigned flags, struct opt_message *message);

/* Free what opt_parse took for LIST rows. */
void opt_release(const struct opt *rows, void *values);

/* "4.46" to 446, from `least` to `most`; what is behind a second point does not count. */
bool opt_version(const char *text, uint64_t least, uint64_t most, unsigned *out);

/* "24GiB" to bytes.  False: not a size, or over 2^64 - 2. */
bool opt_bytes(const char *text, uint64_t *out);

/* Bytes as opt_bytes reads them back, in the largest unit that is exact: "24GiB", "1000". */
void opt_bytes_text(uint64_t bytes, char *text, size_t size);

/* Edits (insert, delete, change, swap neighbours) from one word to the other. */
unsigned opt_distance(const char *a, const char *b);

/* Whether `name` is near enough to what was typed to be what was meant; smaller *score is nearer. */
bool opt_near(const char *typed, const char *name, unsigned *score);

#endif
