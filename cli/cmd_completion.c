/* Completion scripts for bash and zsh, printed from the rows of commands and options. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

/* ---- bash ---- */

/* Options, or a family's commands; the options of its commands are completed behind them. */
static void bash_words(const struct cmd *cmd)
{
	struct opt_walk w = { .at = cmd->opts };

	for (size_t i = 0; cmd->verbs && cmd->verbs[i]; i++)
		printf("%s ", cmd_verb_word(cmd->verbs[i]));
	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w))
		if (o->name)
			printf("--%s%s ", o->name, o->kind == OPT_KIND_FLAG ? "" : "=");
	printf("--help");
}

/* "--group-by=s" reaches the function as three words; `last` is the option, `now` what was typed. */
static void bash_choices(const struct cmd *cmd)
{
	struct opt_walk w = { .at = cmd->opts };

	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w)) {
		if (o->kind != OPT_KIND_CHOICE)
			continue;
		printf("\t%s:--%s) words=\"", cmd->name, o->name);
		for (size_t i = 0; o->names[i]; i++)
			printf("%s%s", i ? " " : "", o->names[i]);
		printf("\" ;;\n");
	}
}

static void bash_commands(void)
{
	for (size_t i = 0; cmd_all[i]; i++)
		if (!(cmd_all[i]->flags & CMD_HIDDEN))
			printf("%s ", cmd_all[i]->name);
}

static void bash_verbs(const struct cmd *family)
{
	printf("\t\t%s) case ${COMP_WORDS[2]} in\n", family->name);
	for (size_t i = 0; family->verbs[i]; i++) {
		printf("\t\t\t%s) words=\"", cmd_verb_word(family->verbs[i]));
		bash_words(family->verbs[i]);
		printf("\" ;;\n");
	}
	printf("\t\t\tesac ;;\n");
}

static void print_bash(void)
{
	printf("# bash completion for plimsoll; made by 'plimsoll completion bash'\n"
	       "_plimsoll() {\n"
	       "\tlocal now=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]} words=\n"
	       "\tCOMPREPLY=()\n"
	       "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	       "\t\tCOMPREPLY=($(compgen -W \"");
	bash_commands();
	printf("--help --version\" -- \"$now\"))\n"
	       "\t\treturn\n"
	       "\tfi\n"
	       "\t[ \"$now\" != = ] || now=\n"
	       "\t[ \"$last\" != = ] || last=${COMP_WORDS[COMP_CWORD-2]}\n"
	       "\tcase ${COMP_WORDS[1]}:$last in\n");
	for (size_t i = 0; cmd_all[i]; i++)
		bash_choices(cmd_all[i]);
	for (size_t i = 0; cmd_all[i]; i++) {
		if (!cmd_all[i]->verbs)
			continue;
		printf("\t%s:%s) words=\"", cmd_all[i]->name, cmd_all[i]->name);
		bash_words(cmd_all[i]);
		printf("\" ;;\n");
	}
	printf("\thelp:*) words=\"");
	bash_commands();
	printf("\" ;;\n\tcompletion:*) words=\"bash zsh\" ;;\n"
	       "\tesac\n"
	       "\tif [ -z \"$words\" ] && [[ $now == -* ]]; then\n"
	       "\t\tcase ${COMP_WORDS[1]} in\n");
	for (size_t i = 0; cmd_all[i]; i++) {
		if (cmd_all[i]->flags & CMD_HIDDEN)
			continue;
		if (cmd_all[i]->verbs) {
			bash_verbs(cmd_all[i]);
			continue;
		}
		printf("\t\t%s) words=\"", cmd_all[i]->name);
		bash_words(cmd_all[i]);
		printf("\" ;;\n");
	}
	printf("\t\tesac\n"
	       "\tfi\n"
	       "\t[ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n"
	       "\t[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace\n"
	       "}\n"
	       "complete -o default -F _plimsoll plimsoll\n");
}

/* ---- zsh ---- */

/* Inside '...' of a spec of _arguments: quotes, brackets and colons mean something there. */
static void zsh_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_value(const struct opt *o)
{
	printf(o->kind == OPT_KIND_OPTIONAL ? "::" : ":");
	zsh_text(o->value);
	if (o->kind == OPT_KIND_CHOICE) {
		printf(":(");
		for (size_t i = 0; o->names[i]; i++)
			printf("%s%s", i ? " " : "", o->names[i]);
		printf(")");
	} else if (o->kind == OPT_KIND_U64 || o->kind == OPT_KIND_BYTES ||
		   o->kind == OPT_KIND_OPTIONAL) {
		printf(": ");
	} else {
		printf(":_files");
	}
}

static void zsh_option(const struct opt *o)
{
	const char *equals = o->kind == OPT_KIND_FLAG ? "" : "=",
		   *many = o->kind == OPT_KIND_LIST ? "*" : "";

	if (o->letter && !*many)
		printf("\t\t\t'(-%c --%s)'{-%c,--%s%s}'[", o->letter, o->name, o->letter, o->name,
		       equals);
	else if (o->letter)
		printf("\t\t\t'*'{-%c,--%s%s}'[", o->letter, o->name, equals);
	else
		printf("\t\t\t'%s--%s%s[", many, o->name, equals);
	zsh_text(o->help);
	printf("]");
	if (o->kind != OPT_KIND_FLAG)
		zsh_value(o);
	printf("' \\\n");
}

static void zsh_command(const struct cmd *cmd)
{
	struct opt_walk w = { .at = cmd->opts };

	if (cmd->verbs) {
		printf("\t%s)\n\t\tif (( CURRENT == 2 )); then\n\t\t\t_values verb", cmd->name);
		for (size_t i = 0; cmd->verbs[i]; i++) {
			printf(" '%s[", cmd_verb_word(cmd->verbs[i]));
			zsh_text(cmd->verbs[i]->summary);
			printf("]'");
		}
		printf("\n\t\telse\n\t\t\t_files\n\t\tfi\n\t\t;;\n");
		return;
	}
	printf("\t%s)\n\t\t_arguments -s \\\n", cmd->name);
	for (const struct opt *o = opt_next(&w); o; o = opt_next(&w))
		if (o->name)
			zsh_option(o);
	printf("\t\t\t'(- *)'{-h,--help}'[show the help]' \\\n\t\t\t%s\n\t\t;;\n",
	       cmd->flags & CMD_WRAPS ? "'*::command:_normal'" : "'*:file:_files'");
}

static void print_zsh(void)
{
	printf("#compdef plimsoll\n"
	       "# made by 'plimsoll completion zsh'\n"
	       "local -a commands=(\n");
	for (size_t i = 0; cmd_all[i]; i++) {
		if (cmd_all[i]->flags & CMD_HIDDEN)
			continue;
		printf("\t'%s:", cmd_all[i]->name);
		zsh_text(cmd_all[i]->summary);
		printf("'\n");
	}
	printf(")\n"
	       "if (( CURRENT == 2 )); then\n"
	       "\t_describe command commands\n"
	       "\treturn\n"
	       "fi\n"
	       "shift words\n"
	       "(( CURRENT-- ))\n"
	       "case $words[1] in\n");
	for (size_t i = 0; cmd_all[i]; i++)
		if (!(cmd_all[i]->flags & CMD_HIDDEN))
			zsh_command(cmd_all[i]);
	printf("esac\n");
}

static int completion_run(const void *values, int argc, char **argv)
{
	(void)values;
	(void)argc;
	if (!strcmp(argv[0], "bash"))
		print_bash();
	else if (!strcmp(argv[0], "zsh"))
		print_zsh();
	else
		return cmd_usage("there is no completion for '%.200s'; bash and zsh have one",
				 argv[0]);
	return CMD_DONE;
}

static const struct cmd_example completion_examples[] = {
	{ "eval \"$(plimsoll completion bash)\"", "in this shell; 'make install' does it for all" },
	{ NULL, NULL },
};

const struct cmd cmd_completion = {
	.name = "completion",
	.summary = "print the completion script of a shell",
	.args = "bash|zsh",
	.about = "Prints a script that completes commands, options and file names.",
	.examples = completion_examples,
	.min_args = 1,
	.max_args = 1,
	.run = completion_run,
};
