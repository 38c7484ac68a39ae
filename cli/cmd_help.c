/* Help, the overview and the man pages: all printed from the rows of commands and options. */
#include "cmd.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define EXAMPLES_FEW 4 /* if only the commonest options are shown */

enum { WIDTH = 80, HELP_COLUMN = 26 };

static const struct {
	enum cmd_exit code;
	const char *says;
} exits[] = {
	{ CMD_DONE, "done, also if the job that is explained had died" },
	{ CMD_FAILED, "the check failed: damaged, does not fit, a regression, --fail-on met" },
	{ CMD_USAGE, "the command line is wrong" },
	{ CMD_INPUT, "the input cannot be read, or the output cannot be written" },
	{ CMD_MACHINE, "this machine cannot: memory limit, no GPU, permission" },
};

static const struct {
	const char *name, *says;
} environment[] = {
	{ "NO_COLOR=1", "no colours" },
	{ "PLIMSOLL_PROGRESS=0", "do not show progress on stderr (shown after 2 s)" },
};

static const char about_all[] =
	"Plimsoll explains where a PyTorch job's GPU memory went, why it ran "
	"out, and what would make it fit.";

/* Print words from column `at`; lines after the first begin at `indent`. */
static void wrap_help(FILE *to, const char *text, size_t at, size_t indent)
{
	bool first = true;

	while (*text) {
		size_t n = strcspn(text, " \n");

		if (!first && at + 1 + n > WIDTH) {
			fprintf(to, "\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		fprintf(to, "%s%.*s", first ? "" : " ", (int)n, text);
		at += n + !first;
		first = false;
		text += n;
		if (!strncmp(text, "\n\n", 2)) {
			fprintf(to, "\n\n%*s", (int)indent, "");
			at = indent;
			first = true;
		}
		text += strspn(text, " \n");
	}
	fputc('\n', to);
}

static void number_text(const struct opt *o, uint64_t n, char *text, size_t size)
{
	if (o->kind == OPT_KIND_BYTES)
		opt_bytes_text(n, text, size);
	else
		snprintf(text, size, "%llu", (unsigned long long)n);
}

/* The range and the default of a number: " (100 to 60000; default 1000)". */
static void number_facts(const struct opt *o, char *text, size_t size)
{
	char def[32], low[32], high[32], range[80] = "";
	bool ranged = o->max != OPT_NONE,
	     has_default = o->def != OPT_NONE && o->def >= o->min && !o->unsaid;

	number_text(o, o->def, def, sizeof(def));
	number_text(o, o->min, low, sizeof(low));
	number_text(o, o->max, high, sizeof(high));
	if (ranged)
		snprintf(range, sizeof(range), "%s to %s%s", low, high, has_default ? "; " : "");
	if (ranged || has_default)
		snprintf(text, size, " (%s%s%s)", range, has_default ? "default " : "",
			 has_default ? def : "");
}

static void choice_facts(const struct opt *o, char *text, size_t size)
{
	size_t n = 0;

	for (int i = 0; o->names[i] && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : ": ", o->names[i]);
	if (n < size && o->def != OPT_NONE)
		snprintf(text + n, size - n, " (default %s)", o->names[o->def]);
}

/* The help of a row with what the row knows besides: choices, range, default. */
static void option_says(const struct opt *o, char *text, size_t size)
{
	char more[300] = "";

	if (o->kind == OPT_KIND_CHOICE)
		choice_facts(o, more, sizeof(more));
	else if (o->kind == OPT_KIND_U64 || o->kind == OPT_KIND_BYTES)
		number_facts(o, more, sizeof(more));
	else if (o->kind == OPT_KIND_DOUBLE)
		snprintf(more, sizeof(more), " (default %g)", o->real);
	else if (o->kind == OPT_KIND_STRING && o->text)
		snprintf(more, sizeof(more), " (default %s)", o->text);
	else if (o->kind == OPT_KIND_LIST)
		snprintf(more, sizeof(more), " (may be given more than once)");
	snprintf(text, size, "%s%s", o->help, more);
}

/* ---- for the terminal ---- */

static void help_entry(FILE *to, const char *left, const char *right)
{
	int n = fprintf(to, "  %s", left);

	if (n + 2 > HELP_COLUMN)
		n = fprintf(to, "\n") - 1;
	fprintf(to, "%*s", HELP_COLUMN - n, "");
	wrap_help(to, right, HELP_COLUMN, HELP_COLUMN);
}

static void print_option(FILE *to, const struct opt *o)
{
	char left[100], right[700];
	bool optional = o->kind == OPT_KIND_OPTIONAL;

	snprintf(left, sizeof(left), "%c%c%s --%s%s%s%s%s", o->letter ? '-' : ' ',
		 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, optional ? "[" : "",
		 o->value ? "=" : "", o->value ? o->value : "", optional ? "]" : "");
	option_says(o, right, sizeof(right));
	help_entry(to, left, right);
}

static void print_options(FILE *to, const struct opt *rows)
{
	struct opt_walk w = { .at = rows };

	fprintf(to, "\nOptions:\n");
	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w)) {
		if (o->kind == OPT_KIND_HEADING)
			fprintf(to, "\n%s:\n", o->help);
		else
			print_option(to, o);
	}
	help_entry(to, "-h, --help", "show this help");
}

/* The options that cmd->common names, in its order, and how to see the others. */
static void print_common(FILE *to, const struct cmd *cmd)
{
	char right[120];
	unsigned shown = 0, all = 0;

	fprintf(to, "\nThe commonest options:\n");
	for (const char *name = cmd->common; *name; name += strspn(name, " ")) {
		size_t n = strcspn(name, " ");
		struct opt_walk w = { .at = cmd->opts };
		unsigned before = shown;

		all = 0;
		for (const struct opt *o = opt_next(&w); o; o = opt_next(&w)) {
			all += o->kind != OPT_KIND_HEADING;
			if (o->kind == OPT_KIND_HEADING || strlen(o->name) != n ||
			    memcmp(o->name, name, n) != 0)
				continue;
			print_option(to, o);
			shown++;
		}
		if (shown == before)
			fprintf(to, "  --%.*s is not an option\n", (int)n, name);
		name += n;
	}
	snprintf(right, sizeof(right), "show %u more; 'man plimsoll-%s' has them, too", all - shown,
		 cmd->name);
	help_entry(to, "    --help-all", right);
}

static void print_usage(FILE *to, const struct cmd *cmd)
{
	fprintf(to, "plimsoll %s%s%s%s", cmd->name, cmd->opts ? " [OPTION...]" : "",
		cmd->args ? " " : "", cmd->args ? cmd->args : "");
}

static void print_verbs(FILE *to, const struct cmd *family)
{
	fprintf(to, "\nCommands:\n");
	for (size_t i = 0; family->verbs[i]; i++)
		help_entry(to, cmd_verb_word(family->verbs[i]), family->verbs[i]->summary);
	fprintf(to, "\n'plimsoll %s COMMAND --help' shows its options.\n", family->name);
}

void cmd_print_help(FILE *to, const struct cmd *cmd, bool all)
{
	bool common = cmd->common && !all;
	unsigned left = common ? EXAMPLES_FEW : UINT_MAX;

	fprintf(to, "Usage: ");
	print_usage(to, cmd);
	fprintf(to, "\n\n");
	wrap_help(to, cmd->about ? cmd->about : cmd->summary, 0, 0);
	if (cmd->verbs)
		print_verbs(to, cmd);
	else if (common)
		print_common(to, cmd);
	else
		print_options(to, cmd->opts);
	if (cmd->examples)
		fprintf(to, "\nExamples:\n");
	for (const struct cmd_example *e = cmd->examples; e && e->line && left; e++, left--)
		fprintf(to, "  %s\n      %s\n", e->line, e->says);
}

void cmd_print_overview(FILE *to)
{
	char code[8];

	fprintf(to, "Usage: plimsoll COMMAND [OPTION...] [OPERAND...]\n"
		    "       plimsoll FILE [OPTION...]   the command that fits the file\n\n");
	wrap_help(to, about_all, 0, 0);
	fprintf(to, "\nCommands:\n");
	for (size_t i = 0; cmd_all[i]; i++)
		if (!(cmd_all[i]->flags & CMD_HIDDEN))
			help_entry(to, cmd_all[i]->name, cmd_all[i]->summary);
	fprintf(to, "\nOptions:\n");
	help_entry(to, "-V, --version", "print the version");
	help_entry(to, "-h, --help", "show this help; 'plimsoll COMMAND --help' shows a command's");
	fprintf(to, "\nExit codes:\n");
	for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
		snprintf(code, sizeof(code), "%d", exits[i].code);
		help_entry(to, code, exits[i].says);
	}
	fprintf(to, "\nEnvironment:\n");
	for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]); i++)
		help_entry(to, environment[i].name, environment[i].says);
}

/* ---- for man ---- */

/* Text as roff data: no escapes, no requests, dashes that can be copied. */
static void roff(const char *text)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			fputs("\\&", stdout);
		line_start = *text == '\n';
		if (!strncmp(text, "\n\n", 2)) {
			fputs("\n.PP\n", stdout);
			text++;
		} else if (*text == '\\') {
			fputs("\\e", stdout);
		} else if (*text == '-') {
			fputs("\\-", stdout);
		} else {
			putchar(*text);
		}
	}
}

static void section(const char *title)
{
	printf("\n.SH %s\n", title);
}

/* A bold term and its explanation. */
static void term(const char *name, const char *value, const char *says)
{
	printf(".TP\n\\fB");
	roff(name);
	printf("\\fR");
	if (value) {
		printf("=\\fI");
		roff(value);
		printf("\\fR");
	}
	printf("\n");
	roff(says);
	printf("\n");
}

static void letter_text(const struct opt *o, char *text, size_t size)
{
	if (o->letter)
		snprintf(text, size, "-%c, --%s", o->letter, o->name);
	else
		snprintf(text, size, "--%s", o->name);
}

static void man_options(const struct opt *rows)
{
	struct opt_walk w = { .at = rows };
	char left[100], right[700];

	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w)) {
		if (o->kind == OPT_KIND_HEADING) {
			printf(".SS ");
			roff(o->help);
			printf("\n");
			continue;
		}
		letter_text(o, left, sizeof(left));
		option_says(o, right, sizeof(right));
		term(left, o->value, right);
	}
	term("-h, --help", NULL, "show the help");
}

static void man_end(const char *see_also)
{
	char code[8];

	section("EXIT STATUS");
	for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
		snprintf(code, sizeof(code), "%d", exits[i].code);
		term(code, NULL, exits[i].says);
	}
	section("ENVIRONMENT");
	for (size_t i = 0; i < sizeof(environment) / sizeof(environment[0]); i++)
		term(environment[i].name, NULL, environment[i].says);
	section("SEE ALSO");
	printf("%s\n", see_also);
}

/* A command has a section of its family's page. */
static void man_verb(const struct cmd *verb)
{
	printf("\n.SH ");
	for (const char *c = cmd_verb_word(verb); *c; c++)
		putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
	printf("\n\\fBplimsoll %s\\fR [\\fIOPTION\\fR...] ", verb->name);
	roff(verb->args ? verb->args : "");
	printf("\n.PP\n");
	roff(verb->about ? verb->about : verb->summary);
	printf("\n");
	man_options(verb->opts);
	for (const struct cmd_example *e = verb->examples; e && e->line; e++)
		term(e->line, NULL, e->says);
}

static void man_command(const struct cmd *cmd)
{
	printf(".TH PLIMSOLL\\-");
	for (const char *c = cmd->name; *c; c++)
		putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
	printf(" 1 \"\" \"plimsoll %s\" \"User Commands\"\n.nh", plim_version());
	section("NAME");
	printf("plimsoll\\-%s \\- ", cmd->name);
	roff(cmd->summary);
	section("SYNOPSIS");
	printf("\\fBplimsoll %s\\fR%s%s", cmd->name, cmd->opts ? " [\\fIOPTION\\fR...]" : "",
	       cmd->args ? " " : "");
	roff(cmd->args ? cmd->args : "");
	section("DESCRIPTION");
	roff(cmd->about ? cmd->about : cmd->summary);
	if (!cmd->verbs)
		section("OPTIONS");
	if (!cmd->verbs)
		man_options(cmd->opts);
	for (size_t i = 0; cmd->verbs && cmd->verbs[i]; i++)
		man_verb(cmd->verbs[i]);
	if (cmd->examples)
		section("EXAMPLES");
	for (const struct cmd_example *e = cmd->examples; e && e->line; e++)
		term(e->line, NULL, e->says);
	man_end(".BR plimsoll (1)");
}

static void man_overview(void)
{
	printf(".TH PLIMSOLL 1 \"\" \"plimsoll %s\" \"User Commands\"\n.nh", plim_version());
	section("NAME");
	printf("plimsoll \\- explain the memory of a GPU");
	section("SYNOPSIS");
	printf("\\fBplimsoll\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIOPERAND\\fR...]");
	section("DESCRIPTION");
	roff(about_all);
	section("COMMANDS");
	for (size_t i = 0; cmd_all[i]; i++)
		if (!(cmd_all[i]->flags & CMD_HIDDEN))
			term(cmd_all[i]->name, NULL, cmd_all[i]->summary);
	man_end(".BR plimsoll\\-report (1)");
}

/* ---- the commands ---- */

static int help_run(const void *values, int argc, char **argv)
{
	const struct cmd *cmd = argc ? cmd_find(argv[0]) : NULL;

	(void)values;
	if (argc && !cmd)
		return cmd_unknown(argv[0]);
	if (cmd && argc > 1 && !cmd_find_verb(cmd, argv[1]))
		return cmd->verbs ? cmd_unknown_verb(cmd, 1, argv + 1)
				  : cmd_usage("%s has no commands of its own: 'plimsoll help %s'",
					      cmd->name, cmd->name);
	if (cmd)
		cmd_print_help(stdout, argc > 1 ? cmd_find_verb(cmd, argv[1]) : cmd, false);
	else
		cmd_print_overview(stdout);
	return CMD_DONE;
}

const struct cmd cmd_help = {
	.name = "help",
	.summary = "show the help of a command",
	.args = "[COMMAND [COMMAND]]",
	.max_args = 2,
	.run = help_run,
};

static int man_run(const void *values, int argc, char **argv)
{
	const struct cmd *cmd = argc ? cmd_find(argv[0]) : NULL;

	(void)values;
	if (argc && !cmd)
		return cmd_unknown(argv[0]);
	if (cmd)
		man_command(cmd);
	else
		man_overview();
	return CMD_DONE;
}

const struct cmd cmd_man = {
	.name = "__man",
	.summary = "print a man page",
	.args = "[COMMAND]",
	.max_args = 1,
	.flags = CMD_HIDDEN,
	.run = man_run,
};
