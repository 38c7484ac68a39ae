/*
 * Commands as rows.  A cmd_NAME.c exports one `const struct cmd cmd_NAME`; main.c lists them; help,
 * man pages and completions are printed from the rows.
 *
 *	static int watch_run(const void *values, int argc, char **argv)
 *	{
 *		const struct watch_opts *o = values;
 *		struct plim_err err;
 *		...
 *		return plim_watch(...) ? cmd_fail(&err) : CMD_DONE;
 *	}
 */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "opt.h"

#include <plimsoll/page.h>

#include <stddef.h>
#include <stdio.h>

/* Exit codes.  docs and man pages print the table of cmd_help.c that explains them. */
enum cmd_exit {
	CMD_DONE = 0,   /* also when what was explained is a death */
	CMD_FAILED = 1, /* the check failed: damaged, does not fit, regression, --fail-on met */
	CMD_USAGE = 2,  /* the command line is wrong */
	CMD_INPUT = 3,  /* the input cannot be read, or the output not written */
	CMD_MACHINE = 4 /* this machine cannot: memory limit, no GPU, permission */
};

enum cmd_flags {
	CMD_WRAPS =
		1, /* runs another program: options end at the first operand, SIGPIPE is left alone */
	CMD_HIDDEN = 2,  /* not listed */
	CMD_STARTS = 8,  /* "-- COMMAND" starts another program: the operands begin with "--" */
	CMD_DASHES = 16, /* the operands are "-- COMMAND..." */
	CMD_PASSES =
		4 /* becomes another program, which reads the options again as they were typed */
};

/* What must be there before `run` is called.  Nothing so far. */
enum cmd_needs { NEED_NOTHING = 0 };

/* Another tool's word for a command of a family. */
struct cmd_word {
	const char *word, *verb;
};

struct cmd_example {
	const char *line; /* the command line, "plimsoll report run.pickle" */
	const char *says; /* what it is for, one line */
};

struct cmd {
	const char *name;
	const char *summary; /* one line, no capital, no stop */
	const char *args;    /* operands in the synopsis: "SNAPSHOT..."; NULL: none */
	const char *about;   /* paragraphs, parted by an empty line; not wrapped by hand */
	const struct cmd_example *examples; /* ends with .line NULL; may be NULL */
	const struct opt *opts;             /* may be NULL */
	const char *
		common; /* names of its commonest options, with spaces between them; NULL: --help shows all */
	size_t opts_size;               /* sizeof the struct that the rows store into */
	int min_args, max_args;         /* operands; max_args -1: any number */
	unsigned flags;                 /* enum cmd_flags */
	unsigned needs;                 /* enum cmd_needs */
	const struct cmd *const *verbs; /* of a command that is a family; ends with NULL */
	const struct cmd_word *words;   /* of a family: other tools' words; ends with .word NULL */
	const char *file_verb; /* of a family: what is suggested for a file in place of a command */
	/* Returns an enum cmd_exit.  argv[0..argc) are the operands, argv[argc] is NULL. */
	int (*run)(const void *values, int argc, char **argv);
};

/* Every command, ends with NULL.  In main.c. */
extern const struct cmd *const cmd_all[];

/* Say that there is no such command, and which may be meant.  Returns CMD_USAGE. */
int cmd_unknown(const char *name);
/* The same of argv[0], which is not a command of a family; what stands behind it is repeated. */
int cmd_unknown_verb(const struct cmd *family, int argc, char **argv);

/* The command that a file, a folder or "-" is for ("report", "ckpt verify"); an exit code, after a message. */
int cmd_of_file(const char *path, const char **command);

/* NULL if there is none of that name. */
const struct cmd *cmd_find(const char *name);

/*
 * A family ("ckpt") has commands, commands of their own with names of two words ("ckpt verify"), and does
 * nothing itself.  The second word, and the command of that word: NULL if there is none.
 */
const char *cmd_verb_word(const struct cmd *verb);
const struct cmd *cmd_find_verb(const struct cmd *family, const char *word);

/* Print "plimsoll: MESSAGE" to stderr and return the exit code that belongs to err->status. */
int cmd_fail(const struct plim_err *err);

/* The same; or, if the file at `path` (NULL: none) is another command's than `own`, which one reads it. */
int cmd_fail_on(const char *path, const char *own, const struct plim_err *err);

/* Says what the file at `path` is, if it is another command's than `own` and `said` has not; whether it is. */
bool cmd_say_else(const char *path, const char *own, const char *said);

/* Makes the standard input a file, which can be read twice; an exit code. */
int cmd_spool_stdin(void);

/* Print "plimsoll: MESSAGE" to stderr and return CMD_USAGE: for what a row cannot check. */
int cmd_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Print "plimsoll: MESSAGE" to stderr, control characters replaced; the exit code stays the caller's. */
void cmd_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Is an output of this name a page (.html, .htm)? */
bool cmd_is_page(const char *path);

/* A page that shows its progress on a terminal; max_memory is an option's value. */
enum plim_status cmd_page_new(uint64_t max_memory, struct plim_page **page, struct plim_err *err);

/* What is collected instead of printed; zeroed before, `at` is freed by the caller. */
struct cmd_words {
	char *at; /* ends with a 0 */
	size_t n;
};
/* A plim_write_fn that appends; ctx is the struct cmd_words. */
int cmd_collect(void *ctx, const char *text, size_t n);

/* What a command says, collected for its page. */
struct cmd_answer {
	struct cmd_words text, json;
};
struct plim_text_style cmd_answer_style(void);

/* Give it to the page, if `st` is not a failure.  Frees it. */
enum plim_status cmd_answer_end(struct cmd_answer *answer, struct plim_page *page,
				enum plim_status st, struct plim_err *err);

/* Write what was added, and say how much that is.  Frees it. */
enum plim_status cmd_page_end(struct plim_page *page, const char *path, struct plim_err *err);

/* What became of the standard output: a reader that left (head) is not a failure; a failure was reported. */
enum cmd_stdout { CMD_STDOUT_GOOD, CMD_STDOUT_LEFT, CMD_STDOUT_FAILED };
enum cmd_stdout cmd_stdout_state(void);

/* A plim_write_fn for the standard output. */
int cmd_to_stdout(void *ctx, const char *text, size_t n);

/* printf, behind the line that shows progress. */
void cmd_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The terminal's width and colours; `width` OPT_NONE: as it is, or 80. */
struct plim_text_style cmd_style(uint64_t width, bool no_color);

/* The exit code of a status; one table. */
int cmd_exit_code(enum plim_status status);
/*
 * The Python to run for a part of the package: the one next to this program, or python3.  Where the package lies next to
 * the program with this file in it ("lint/cli.py"), it is put in front of PYTHONPATH.  `buffer` may hold the result.
 */
const char *cmd_python(const char *file, char *buffer, size_t size);
/* Becomes this program, a text, in that Python; PLIMSOLL, if it is not set, says where this one is.  needs: "lint needs Python 3.10", for the line if it cannot; gives its exit code then. */
int cmd_become_python(const char *needs, const char *file, const char *program, int argc,
		      char **argv);

/*
 * Print what the linter finds in `source` (a file or folder) at the lines that a recording or a log points at.
 * `kind` is "--recording" or "--log".  Returns an exit code, after a message where it is not CMD_DONE.
 */
int cmd_lint_beside(const char *kind, const char *file, const char *source, uint64_t width);

/* In a child: the package that lies next to this program comes first in PYTHONPATH. */
void cmd_show_python(void);

/* Trace a model (count 1), or a command, as the options say into a file; an exit code of the program. */
struct plim_plan_options;
struct cmd_trace_others {      /* other sizes that are traced as well */
	uint64_t batch;        /* 0: none */
	const char *sequences; /* "512,4096", "0": any two; NULL: none */
};
int cmd_trace(const struct plim_plan_options *o, char **what, int count,
	      const struct cmd_trace_others *others, const char *path, bool quiet);

/* plan's options, for commands that take a recipe; and what they say.  Returns an enum cmd_exit, after a message. */
struct plim_plan_options;
extern const struct opt_table plan_recipe;
int plan_recipe_take(const void *values, struct plim_plan_options *out);

/* The help of a command, and the overview of all. */
/* `all`: every option, also of a command that has `common` ones. */
void cmd_print_help(FILE *to, const struct cmd *cmd, bool all);
void cmd_print_overview(FILE *to);

extern const struct cmd cmd_ckpt, cmd_curves, cmd_doctor, cmd_watch, cmd_record, cmd_pack, cmd_page,
	cmd_bundle, cmd_report, cmd_diff, cmd_whatif, cmd_plan, cmd_why, cmd_lint, cmd_fit,
	cmd_gate, cmd_help, cmd_completion, cmd_man, cmd_live;

#endif
