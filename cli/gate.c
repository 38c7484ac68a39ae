#include "gate.h"

#include "cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An accepted finding. */
struct gate_entry {
	char id[48], place[200];
	bool used;
};

#define BASELINE_LINES_MAX 100000

/* ---- --fail-on ---- */

static bool is_finding(const char *id)
{
	const char *one;

	for (size_t i = 0; (one = plim_report_finding_id(i)) != NULL; i++)
		if (!strcmp(one, id))
			return true;
	return false;
}

/* A finding's id, or a word for several. */
static bool gate_is_known(const char *id)
{
	return is_finding(id) || !strcmp(id, "any") || !strcmp(id, "never");
}

static void say_known(const char *words)
{
	char all[1000] = "";
	const char *one;
	size_t n = 0;

	for (size_t i = 0; (one = plim_report_finding_id(i)) != NULL && n < sizeof(all); i++) {
		int more = snprintf(all + n, sizeof(all) - n, ", %s", one);

		n += more > 0 ? (size_t)more : 0;
	}
	cmd_usage("--fail-on takes any, leak=RATE (leak=1MiB per repetition), or ids of findings, "
		  "separated by commas; not '%s': any%s",
		  words, all);
}

static bool take_word(struct gate *g, const char *word, size_t n)
{
	struct gate_word *to = &g->words[g->word_count];
	const char *rate = memchr(word, '=', n);
	size_t id = rate ? (size_t)(rate - word) : n;
	char text[32];

	if (!id || id >= sizeof(to->id) || g->word_count == GATE_WORDS)
		return false;
	*to = (struct gate_word){ .bytes_per_period = 0 };
	memcpy(to->id, word, id);
	for (size_t i = 0; i < id; i++)
		if (!islower((unsigned char)to->id[i]) && to->id[i] != '_')
			return false;
	if (rate) {
		n -= id + 1;
		if (n >= sizeof(text) || strcmp(to->id, "leak") != 0)
			return false;
		memcpy(text, rate + 1, n);
		text[n] = 0;
		if (!opt_bytes(text, &to->bytes_per_period))
			return false;
	}
	g->word_count += strcmp(to->id, "never") != 0;
	return gate_is_known(to->id);
}

bool gate_init(struct gate *g, const char *words)
{
	const char *at = words;

	*g = (struct gate){ .word_count = 0 };
	while (at && *at) {
		size_t n = strcspn(at, ",");

		if (!take_word(g, at, n)) {
			say_known(words);
			return false;
		}
		at += n + (at[n] == ',');
	}
	return true;
}

/* ---- --baseline ---- */

static bool read_line(struct gate *g, char *line)
{
	struct gate_entry *e = &g->entries[g->entry_count];
	size_t n = strspn(line, " \t");

	line += n;
	line[strcspn(line, "\r\n")] = 0;
	if (!*line || *line == '#')
		return true;
	n = strcspn(line, " \t");
	if (n >= sizeof(e->id))
		return false;
	snprintf(e->id, sizeof(e->id), "%.*s", (int)n, line);
	line += n + strspn(line + n, " \t");
	if (!is_finding(e->id))
		return false;
	n = strcspn(line, " \t");
	if (!n || n >= sizeof(e->place))
		return false;
	snprintf(e->place, sizeof(e->place), "%.*s", (int)n, line);
	line += n + strspn(line + n, " \t");
	g->entry_count += *line != 0;
	return *line != 0; /* a reason is asked for: who accepts says why */
}

/* What is left of a line that did not fit: the rest of its reason, or of a comment. */
static void skip_rest(FILE *f, const char *line)
{
	int c = strchr(line, '\n') ? '\n' : 0;

	while (c != '\n' && c != EOF)
		c = fgetc(f);
}

int gate_read_lines(struct gate *g, FILE *f, const char *path)
{
	char line[1000];

	g->baseline = path;
	for (size_t number = 1; fgets(line, sizeof(line), f); number++) {
		struct gate_entry *more =
			reallocarray(g->entries, g->entry_count + 1, sizeof(*more));

		if (more) {
			g->entries = more;
			g->entries[g->entry_count] = (struct gate_entry){ .used = false };
		}
		skip_rest(f, line);
		if (more && number <= BASELINE_LINES_MAX && read_line(g, line))
			continue;
		cmd_say("%s:%zu: a line of a baseline is ID PLACE reason, as in \"leak "
			"train.py:41 kept on purpose\", with a finding's ID (docs/findings.md)",
			path, number);
		return CMD_INPUT;
	}
	if (!ferror(f))
		return CMD_DONE;
	cmd_say("cannot read '%s': %s", path, strerror(errno));
	return CMD_INPUT;
}

int gate_read_baseline(struct gate *g, const char *path)
{
	FILE *f = fopen(path, "re");
	int code;

	if (!f) {
		cmd_say("cannot read '%s': %s", path, strerror(errno));
		return CMD_INPUT;
	}
	code = gate_read_lines(g, f, path);
	fclose(f);
	return code;
}

void gate_release(struct gate *g)
{
	free(g->entries);
	g->entries = NULL;
	g->entry_count = 0;
}

/* "train.py:41" against "/home/me/train.py:41 in step": the end of the file's name, whole parts of it. */
static bool is_place(const char *place, const char *frame)
{
	size_t n = strlen(place);

	if (!strcmp(place, "*"))
		return true;
	for (const char *at = frame; at && (at = strstr(at, place)) != NULL; at++)
		if ((at == frame || at[-1] == '/') && (!at[n] || at[n] == ' ' || at[n] == ':'))
			return true;
	return false;
}

static bool is_accepted(struct gate *g, const struct plim_finding *f)
{
	for (size_t i = 0; i < g->entry_count; i++) {
		struct gate_entry *e = &g->entries[i];

		if (strcmp(e->id, f->id) != 0 || !is_place(e->place, f->place.frame))
			continue;
		e->used = true;
		return true;
	}
	return false;
}

/* ---- what fails ---- */

static bool gate_is_named(const struct gate_word *w, const struct plim_finding *f)
{
	/* a leak fails at any size: it grows, and the text calls it one */
	if (!strcmp(w->id, "any"))
		return f->severity == PLIM_SEVERITY_ERROR || !strcmp(f->id, "leak");
	if (strcmp(w->id, f->id) != 0)
		return false;
	if (!strcmp(f->id, "oom"))
		return f->severity == PLIM_SEVERITY_ERROR; /* one that was caught is none */
	return !w->bytes_per_period ||
	       (f->per_period_bytes != PLIM_UNKNOWN && f->per_period_bytes >= w->bytes_per_period);
}

bool gate_fails(struct gate *g, const struct plim_finding *f)
{
	bool accepted = g->entry_count && is_accepted(g, f);

	g->accepted += accepted;
	for (size_t i = 0; !accepted && i < g->word_count; i++)
		if (gate_is_named(&g->words[i], f))
			return true;
	return false;
}

bool gate_fails_report(struct gate *g, const struct plim_report *r)
{
	bool fails = false;

	for (size_t d = 0; d < r->device_count; d++)
		for (size_t i = 0; i < r->devices[d].finding_count; i++)
			fails |= gate_fails(g, &r->devices[d].findings[i]);
	return fails;
}

const char *gate_of_one(const struct gate *g)
{
	for (size_t i = 0; i < g->word_count; i++) {
		const struct gate_word *w = &g->words[i];

		if (w->bytes_per_period ||
		    (strcmp(w->id, "any") != 0 && strcmp(w->id, "oom") != 0 &&
		     strcmp(w->id, "leak") != 0))
			return w->id;
	}
	return NULL;
}

bool gate_fails_rank(const struct gate *g, bool died, bool leaks)
{
	for (size_t i = 0; i < g->word_count; i++) {
		bool any = !strcmp(g->words[i].id, "any");

		if ((died && (any || !strcmp(g->words[i].id, "oom"))) ||
		    (leaks && (any || !strcmp(g->words[i].id, "leak"))))
			return true;
	}
	return false;
}
