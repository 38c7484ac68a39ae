#include "hints.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *typed, *command;
} commands[] = {
	{ "analyse", "report" },
	{ "analyze", "report" },
	{ "explain", "report" },
	{ "show", "report" },
	{ "summary", "report" },
	{ "view", "report" },
	{ "visualize", "report" },
	{ "compare", "diff" },
	{ "debug", "why" },
	{ "diagnose", "why" },
	{ "log", "why" },
	{ "oom", "why" },
	{ "simulate", "whatif" },
	{ "replay", "whatif" },
	{ "estimate", "plan" },
	{ "predict", "plan" },
	{ "size", "plan" },
	{ "profile", "record" },
	{ "run", "record" },
	{ "snapshot", "record" },
	{ "monitor", "watch" },
	{ "top", "watch" },
	{ "ps", "watch" },
	{ "plot", "curves" },
	{ "loss", "curves" },
	{ "train", "fit" },
	{ "check", "lint" },
	{ "verify", "ckpt verify" },
	{ "convert", "ckpt convert" },
	{ "inspect", "ckpt show" },
	{ "compress", "pack" },
	{ "env", "doctor" },
	{ "info", "doctor" },
	{ "ci", "gate" },
};

static const struct {
	const char *command, *instead;
} operands[] = {
	{ "gate", "it plans the commands of one TOML file; for two recordings: plimsoll diff A B" },
	{ "report", "one recording at a time; to compare two: plimsoll diff A B" },
	{ "whatif", "one recording at a time; settings follow -s: plimsoll whatif FILE -s CONF" },
	{ "diff", "two recordings at a time: plimsoll diff A B" },
};

const char *hint_command(const char *typed)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (!strcmp(commands[i].typed, typed))
			return commands[i].command;
	return NULL;
}

const char *hint_operand(const char *command)
{
	for (size_t i = 0; i < sizeof(operands) / sizeof(*operands); i++)
		if (!strcmp(operands[i].command, command))
			return operands[i].instead;
	return NULL;
}

bool hint_is_script(const char *word)
{
	size_t n = strlen(word);

	return n > 3 && !strcmp(word + n - 3, ".py") &&
	       (!strchr(word, '/') || access(word, X_OK) != 0);
}

const char *hint_settings(const char *typed)
{
	size_t variable = strspn(typed, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

	if (variable && typed[variable] == '=')
		typed += variable + 1;
	for (char *at = strchr((char *)(uintptr_t)typed, '='); at; at = strchr(at, '='))
		*at = ':';
	return typed;
}

/* The length of "8B", "0.5b" or "350M" at `at`, which nothing follows that is part of the word. */
static size_t parameters_at(const char *at)
{
	size_t n = strspn(at, "0123456789.");

	if (!isdigit((unsigned char)*at) || n > 7 || !strchr("bBmM", at[n]) || !at[n])
		return 0;
	return isalnum((unsigned char)at[n + 1]) ? 0 : n + 1;
}

bool hint_parameters(const char *name, char *out)
{
	for (const char *at = name; *at; at++) {
		size_t n = at > name && isalnum((unsigned char)at[-1]) ? 0 : parameters_at(at);

		if (!n || (at > name && at[-1] == '.'))
			continue;
		snprintf(out, 16, "%.*s", (int)n, at);
		out[n - 1] = (char)toupper((unsigned char)out[n - 1]);
		return true;
	}
	return false;
}
