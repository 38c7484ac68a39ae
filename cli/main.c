/*
 * The program: finds the command, reads its options, calls it, and turns what happened into an
 * exit code.  Commands know nothing of each other; everything else is in their rows.
 */
#include "cmd.h"
#include "hints.h"
#include "option_rows.h"
#include "progress.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct cmd *const cmd_all[] = {
	&cmd_report, &cmd_why,    &cmd_whatif, &cmd_plan,       &cmd_fit,  &cmd_gate, &cmd_diff,
	&cmd_record, &cmd_watch,  &cmd_ckpt,   &cmd_curves,     &cmd_lint, &cmd_pack, &cmd_page,
	&cmd_bundle, &cmd_doctor, &cmd_help,   &cmd_completion, &cmd_man,  &cmd_live, NULL,
};

#define CMD_FILE_ARGS 256 /* of a command line that begins with a file */

struct main_opts {
	bool version;
};

static const struct opt main_opt[] = {
	OPT_FLAG('V', "version", main_opts, version, "print the version"), OPT_END
};

static const struct {
	enum plim_status status;
	enum cmd_exit code;
} exit_codes[] = {
	{ PLIM_OK, CMD_DONE },
	{ PLIM_E_ARG, CMD_USAGE },
	{ PLIM_E_IO, CMD_INPUT },
	{ PLIM_E_FORMAT, CMD_INPUT },
	{ PLIM_E_NOMEM, CMD_MACHINE },
	{ PLIM_E_LIMIT, CMD_MACHINE },
	{ PLIM_E_UNSUPPORTED, CMD_MACHINE },
	{ PLIM_E_CANCELLED, CMD_MACHINE },
};

int cmd_exit_code(enum plim_status status)
{
	for (size_t i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++)
		if (exit_codes[i].status == status)
			return exit_codes[i].code;
	return CMD_MACHINE;
}

/* What was typed is shown as data: it must not move the cursor or make a second line. */
static void say_command(const char *fmt, va_list ap) __attribute__((format(printf, 1, 0)));
static void say_command(const char *fmt, va_list ap)
{
	char text[1200];

	cmd_progress_end();
	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	fprintf(stderr, "plimsoll: %s\n", text);
}

void cmd_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_command(fmt, ap);
	va_end(ap);
}

int cmd_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say_command(fmt, ap);
	va_end(ap);
	return CMD_USAGE;
}

/* Options that the library and the command line do not call the same, except for _ and -. */
static const struct {
	const char *member, *flag;
} renamed[] = {
	RENAMED_OPTIONS,
};

/* The flag of the member of an options struct that `word` begins with; *n: the member's length. */
static const char *flag_of(const char *word, size_t *n, char *made, size_t room)
{
	size_t i = 0;

	*n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");
	for (; i < sizeof(renamed) / sizeof(*renamed); i++)
		if (strlen(renamed[i].member) == *n && !strncmp(renamed[i].member, word, *n))
			return renamed[i].flag;
	snprintf(made, room, "%.*s", (int)*n, word);
	for (char *c = made; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return made;
}

/* The library names what its caller sets, options.log_path; here that is --log. */
static void say_with_flags(const char *message)
{
	static const char of[] = "options.";
	char text[2 * sizeof(((struct plim_err *)0)->message)], made[64];
	size_t n = 0;

	for (const char *at = message; *at && n + sizeof(made) + 2 < sizeof(text);) {
		size_t word;

		if (strncmp(at, of, sizeof(of) - 1) != 0 || !islower((unsigned char)at[8])) {
			text[n++] = *at++;
			continue;
		}
		at += sizeof(of) - 1;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "--%s",
				      flag_of(at, &word, made, sizeof(made)));
		at += word;
	}
	text[n] = 0;
	cmd_say("%s", text);
}

int cmd_fail(const struct plim_err *err)
{
	say_with_flags(err->message);
	if (err->status == PLIM_E_IO && strstr(err->message, "cannot open 'http"))
		cmd_say("nothing is fetched from the network: download the file, then give its "
			"path");
	return cmd_exit_code(err->status);
}

const struct cmd *cmd_find(const char *name)
{
	for (size_t i = 0; cmd_all[i]; i++)
		if (!strcmp(cmd_all[i]->name, name))
			return cmd_all[i];
	return NULL;
}

const char *cmd_verb_word(const struct cmd *verb)
{
	return strchr(verb->name, ' ') + 1;
}

const struct cmd *cmd_find_verb(const struct cmd *family, const char *word)
{
	for (size_t i = 0; family->verbs && word && family->verbs[i]; i++)
		if (!strcmp(cmd_verb_word(family->verbs[i]), word))
			return family->verbs[i];
	return NULL;
}

int cmd_unknown(const char *name)
{
	const char *best = hint_command(name);
	unsigned best_score = 0, score;

	for (size_t i = 0; !(best && !best_score) && cmd_all[i]; i++) {
		if (!(cmd_all[i]->flags & CMD_HIDDEN) && opt_near(name, cmd_all[i]->name, &score) &&
		    (!best || score < best_score)) {
			best = cmd_all[i]->name;
			best_score = score;
		}
	}
	if (best)
		return cmd_usage("unknown command '%.200s'; did you mean '%s'?", name, best);
	return cmd_usage("unknown command '%.200s'; see 'plimsoll --help'", name);
}

/* ---- one command ---- */

static int check_operands(const struct cmd *cmd, int n, char **operands)
{
	if (n < cmd->min_args)
		return cmd_usage("%s wants %s; see 'plimsoll %s --help'", cmd->name,
				 cmd->args ? cmd->args : "more", cmd->name);
	if (cmd->max_args >= 0 && n > cmd->max_args && !cmd->max_args &&
	    cmd_say_else(operands[0], cmd->name, "it"))
		return CMD_USAGE;
	if (cmd->max_args >= 0 && n > cmd->max_args)
		return hint_operand(cmd->name)
			       ? cmd_usage("%s does not take '%.200s': %s", cmd->name,
					   operands[cmd->max_args], hint_operand(cmd->name))
			       : cmd_usage("%s does not take '%.200s'; see 'plimsoll %s --help'",
					   cmd->name, operands[cmd->max_args], cmd->name);
	if (cmd->flags & CMD_DASHES && strcmp(operands[0], "--") != 0)
		return cmd_usage(
			"%s wants -- in front of the command: plimsoll %s -- %s%.200s%s%.200s",
			cmd->name, cmd->name, hint_is_script(operands[0]) ? "python " : "",
			operands[0], n > 1 ? " " : "", n > 1 ? operands[1] : "");
	if (cmd->flags & CMD_DASHES && n < 2)
		return cmd_usage("%s wants a command after --: plimsoll %s -- python train.py",
				 cmd->name, cmd->name);
	if (cmd->flags & CMD_DASHES && hint_is_script(operands[1]))
		return cmd_usage("'%.200s' is not a program: plimsoll %s -- python %.200s",
				 operands[1], cmd->name, operands[1]);
	return CMD_DONE;
}

static int wrong_options(const struct cmd *cmd, const struct opt_message *message)
{
	return message->suggests
		       ? cmd_usage("%s", message->text)
		       : cmd_usage("%s; see 'plimsoll %s --help'", message->text, cmd->name);
}

/* What a program that a command starts must find. */
static void (*inherited_sigpipe)(int);

static int run_parsed(const struct cmd *cmd, int argc, char **argv)
{
	unsigned flags = (cmd->flags & CMD_WRAPS ? OPT_STOP_AT_OPERAND : 0) |
			 (cmd->flags & CMD_STARTS ? OPT_KEEP_DASHES : 0);
	void *values = calloc(1, cmd->opts_size ? cmd->opts_size : 1);
	struct opt_message message;
	int code = CMD_DONE;

	if (!values) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	opt_defaults(cmd->opts, values);
	if (cmd->flags & CMD_WRAPS)
		signal(SIGPIPE, inherited_sigpipe);
	switch (opt_parse(cmd->opts, values, &argc, argv, flags, &message)) {
	case OPT_HELP: cmd_print_help(stdout, cmd, false); break;
	case OPT_HELP_ALL: cmd_print_help(stdout, cmd, true); break;
	case OPT_ERROR: code = wrong_options(cmd, &message); break;
	case OPT_OK:
		code = check_operands(cmd, argc, argv);
		if (!code && !(cmd->flags & (CMD_WRAPS | CMD_STARTS | CMD_HIDDEN)))
			cmd_progress_begin(cmd->name);
		if (!code)
			code = cmd->run(values, argc, argv);
		cmd_progress_end();
		break;
	}
	opt_release(cmd->opts, values);
	free(values);
	return code;
}

/*
 * A command that becomes another program: what that would refuse is refused here, in the words of all commands, and the
 * line goes on as it was typed.
 */
static int run_passed(const struct cmd *cmd, int argc, char **argv)
{
	unsigned flags = cmd->flags & CMD_DASHES ? OPT_KEEP_DASHES | OPT_STOP_AT_OPERAND : 0;
	char **line = calloc((size_t)argc + 1, sizeof(*line));
	void *values = calloc(1, cmd->opts_size);
	struct opt_message message;
	int n = argc, code = CMD_MACHINE;

	if (!line || !values) {
		cmd_say("out of memory");
		goto out;
	}
	memcpy(line, argv, (size_t)argc * sizeof(*line));
	opt_defaults(cmd->opts, values);
	switch (opt_parse(cmd->opts, values, &n, line, flags, &message)) {
	case OPT_HELP:
		cmd_print_help(stdout, cmd, false);
		code = CMD_DONE;
		break;
	case OPT_HELP_ALL:
		cmd_print_help(stdout, cmd, true);
		code = CMD_DONE;
		break;
	case OPT_ERROR: code = wrong_options(cmd, &message); break;
	case OPT_OK:
		code = check_operands(cmd, n, line);
		code = code ? code : cmd->run(NULL, argc - 1, argv + 1);
		break;
	}
	opt_release(cmd->opts, values);
out:
	free(values);
	free(line);
	return code;
}

static bool asks_version(int argc, char **argv)
{
	return argc == 2 && (!strcmp(argv[1], "-V") || !strcmp(argv[1], "--version"));
}

static int run_command(const struct cmd *cmd, int argc, char **argv)
{
	if (!(cmd->flags & CMD_PASSES))
		return run_parsed(cmd, argc, argv);
	return asks_version(argc, argv) ? cmd->run(NULL, argc - 1, argv + 1)
					: run_passed(cmd, argc, argv);
}

/* The command of the family that is meant by a word, or NULL. */
static const char *meant_verb(const struct cmd *family, const char *word)
{
	const char *best = NULL;
	unsigned best_score = 0, score;

	for (const struct cmd_word *w = family->words; w && w->word; w++)
		if (!strcmp(w->word, word))
			return w->verb;
	for (size_t i = 0; family->verbs[i]; i++) {
		const char *name = cmd_verb_word(family->verbs[i]);

		if (opt_near(word, name, &score) && (!best || score < best_score)) {
			best = name;
			best_score = score;
		}
	}
	return best;
}

int cmd_unknown_verb(const struct cmd *family, int argc, char **argv)
{
	const char *word = argv[0], *meant;
	bool is_file = family->file_verb && (!access(word, F_OK) || strpbrk(word, "./"));
	char rest[300] = "";
	size_t used = 0;

	meant = is_file ? family->file_verb : meant_verb(family, word);
	for (int i = is_file ? 0 : 1; i < argc && used < sizeof(rest); i++)
		used += (size_t)snprintf(rest + used, sizeof(rest) - used, " %s", argv[i]);
	if (meant)
		return cmd_usage("%s has no command '%.200s'; did you mean 'plimsoll %s %s%s'?",
				 family->name, word, family->name, meant, rest);
	return cmd_usage("%s has no command '%.200s'; see 'plimsoll %s --help'", family->name, word,
			 family->name);
}

/* The second word of the command line is a command of the family. */
static int run_family(const struct cmd *family, int argc, char **argv)
{
	const struct cmd *verb = cmd_find_verb(family, argc > 1 ? argv[1] : NULL);

	if (verb)
		return run_command(verb, argc - 1, argv + 1);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		cmd_print_help(stdout, family, true);
		return CMD_DONE;
	}
	if (argc > 1)
		return cmd_unknown_verb(family, argc - 1, argv + 1);
	return cmd_usage("%s wants a command; see 'plimsoll %s --help'", family->name,
			 family->name);
}

/* ---- the process ---- */

/* With 0, 1 or 2 closed, the next file opened would become one of them, and be written to. */
static bool fill_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= 2);
	if (fd < 0)
		return false;
	close(fd);
	return true;
}

/* Whether what was printed has arrived.  A reader that left early is not worth a message. */
static int close_stdout(int code)
{
	struct pollfd reader = { .fd = STDOUT_FILENO, .events = POLLOUT };
	bool failed = ferror(stdout), gone = poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR);

	errno = 0;
	if (!fclose(stdout) && !failed)
		return code;
	if (gone || errno == EPIPE || cmd_stdout_state() == CMD_STDOUT_LEFT)
		return code; /* it has read what it wanted */
	if (cmd_stdout_state() == CMD_STDOUT_FAILED)
		return CMD_INPUT;
	if (errno)
		cmd_say("cannot write the output: %s", strerror(errno));
	else
		cmd_say("cannot write the output");
	return CMD_INPUT;
}

/* A command, or a command of a family by both its words. */
static const struct cmd *find_full(const char *name)
{
	for (size_t i = 0; cmd_all[i]; i++) {
		if (!strcmp(cmd_all[i]->name, name))
			return cmd_all[i];
		for (size_t k = 0; cmd_all[i]->verbs && cmd_all[i]->verbs[k]; k++)
			if (!strcmp(cmd_all[i]->verbs[k]->name, name))
				return cmd_all[i]->verbs[k];
	}
	return NULL;
}

/* A file instead of a command: what it is for, with the options that stand behind it. */
static int run_file(int argc, char **argv)
{
	const char *name;
	const struct cmd *cmd;
	char *own[CMD_FILE_ARGS];
	int n = 0, code;

	if (strcmp(argv[0], "-") != 0 && access(argv[0], F_OK))
		return strpbrk(argv[0], "./") ? cmd_usage("there is no file '%.200s'", argv[0])
					      : cmd_unknown(argv[0]);
	code = cmd_of_file(argv[0], &name);
	if (code)
		return code;
	cmd = find_full(name); /* the library may know of a command that this program lacks */
	if (!cmd)
		return cmd_usage("'%.200s' is for 'plimsoll %s', which is not here", argv[0], name);
	if (argc >= CMD_FILE_ARGS - 1)
		return cmd_usage("too many arguments after a file; name the command: plimsoll %s",
				 cmd->name);
	own[n++] = (char *)cmd->name;
	for (int i = 0; i < argc; i++)
		own[n++] = argv[i];
	own[n] = NULL;
	cmd_say("%s %.200s", cmd->name, argv[0]);
	return run_command(cmd, n, own);
}

static int dispatch(int argc, char **argv)
{
	struct main_opts o;
	struct opt_message message;
	const struct cmd *cmd;

	opt_defaults(main_opt, &o);
	switch (opt_parse(main_opt, &o, &argc, argv, OPT_STOP_AT_OPERAND, &message)) {
	case OPT_HELP:
	case OPT_HELP_ALL: cmd_print_overview(stdout); return CMD_DONE;
	case OPT_ERROR: return cmd_usage("%s", message.text);
	case OPT_OK: break;
	}
	if (o.version) {
		printf("plimsoll %s\n", plim_version());
		return CMD_DONE;
	}
	if (!argc) {
		cmd_print_overview(stderr);
		return CMD_USAGE;
	}
	cmd = cmd_find(argv[0]);
	if (!cmd)
		return run_file(argc, argv);
	return cmd->verbs ? run_family(cmd, argc, argv) : run_command(cmd, argc, argv);
}

/* In a wheel all this is part of the library (cli/wheel.c). */
#ifdef PLIM_IN_LIBRARY
PLIM_API int plim_program_main(int argc, char **argv);
#define main plim_program_main
#endif

int main(int argc, char **argv)
{
	if (!fill_standard_files())
		return CMD_MACHINE;
	/* A reader that leaves is seen when stdout is closed. */
	inherited_sigpipe = signal(SIGPIPE, SIG_IGN);
	return close_stdout(dispatch(argc, argv));
}
