/*
 * A snapshot in which no name of a file, a function or a range is left that is not public: what may be sent to someone.
 * What shows a program's parts apart stays: a name is always the same word, what is installed is still seen to be, and so
 * are the functions by whose names phases are known.
 */
#include "recording.h"

#include <stdio.h>
#include <string.h>

#define WORD_BYTES 400 /* "/site-packages/" and a public file, or a mark and a word */

struct redacting {
	struct recording_names names;
	char file[WORD_BYTES], name[WORD_BYTES], word[WORD_BYTES];
};

/* What a file ends in shows C++ from Python; the rest of its name is the user's. */
static const char *ending_of(const char *file)
{
	static const char *const endings[] = { ".c",   ".cc", ".cpp", ".cxx", ".cu",
					       ".cuh", ".h",  ".hpp", ".o",   ".so" };
	size_t n = strlen(file);

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		size_t m = strlen(endings[i]);

		if (n > m && !strcmp(file + n - m, endings[i]))
			return endings[i];
	}
	return strstr(file, ".so.") ? ".so" : "";
}

/* A public file from the folder on that says where it is installed. */
static void keep_public(const char *file, const char *part, char *out)
{
	static const char *const homes[] = { "/site-packages/", "/dist-packages/", "/lib/" };

	for (size_t i = 0; i < sizeof(homes) / sizeof(*homes); i++) {
		size_t n = strlen(homes[i]);

		if ((size_t)(part - file) < n || strncmp(part - n, homes[i], n) != 0)
			continue;
		snprintf(out, WORD_BYTES, "%s%.*s", homes[i], WORD_BYTES - 20, part);
		return;
	}
	snprintf(out, WORD_BYTES, "%s", part);
}

static void redact_file(struct redacting *r, const struct snapshot_frame *f)
{
	const char *file = snapshot_text(r->names.of->snapshot, f->filename), *mark;
	const char *part = recording_public_part(file);
	char word[32];
	size_t n = 0;

	if (part) {
		keep_public(file, part, r->file);
		return;
	}
	mark = timeline_foreign_mark(file, &n);
	if (!*file || !strcmp(file, "??") || (mark && !mark[n] && n < WORD_BYTES)) {
		snprintf(r->file, WORD_BYTES, "%.*s", WORD_BYTES - 1, mark ? mark : file);
		return;
	}
	recording_word(&r->names, f->filename, "file", word, sizeof(word));
	snprintf(r->file, WORD_BYTES, "%.*s%s%s", mark ? (int)(n < 100 ? n : 100) : 0,
		 mark ? mark : "", word, ending_of(file));
}

static void redact_frame(void *self, const struct snapshot_frame *f, const char **name,
			 const char **file)
{
	struct redacting *r = self;
	const struct snapshot *t = r->names.of->snapshot;
	const char *was = snapshot_text(t, f->name), *of = snapshot_text(t, f->filename);
	char word[32];

	redact_file(r, f);
	if (recording_public_part(of) || timeline_is_cue(was)) {
		snprintf(r->name, WORD_BYTES, "%.*s", WORD_BYTES - 1, was);
	} else if (!recording_public_symbol(of, was, r->name, WORD_BYTES)) {
		recording_word(&r->names, f->name, "function", word, sizeof(word));
		snprintf(r->name, WORD_BYTES, "%s%s", strstr(was, "::") ? "::" : "", word);
	}
	*name = r->name;
	*file = r->file;
}

/* "0/1": graph and frame of the compiler; anything else may be a name. */
static int redacted_is_number(const char *text)
{
	return text[strspn(text, "0123456789/ ")] == 0;
}

static const char *redact_word(void *self, enum snapshot_word kind, uint32_t string)
{
	static const char *const kinds[] = { [SNAPSHOT_WORD_RANGE] = "range",
					     [SNAPSHOT_WORD_LABEL] = "label",
					     [SNAPSHOT_WORD_CONTEXT] = "context",
					     [SNAPSHOT_WORD_KEY] = "key",
					     [SNAPSHOT_WORD_SOURCES] = NULL };
	static const char *const kept[] = { TIMELINE_STEP_MARK, RECORDING_PLAN_PEAK,
					    RECORDING_PLAN_MARK };
	struct redacting *r = self;
	const char *was = snapshot_text(r->names.of->snapshot, string), *head = "";
	char word[32];

	if (!kinds[kind])
		return NULL; /* it is a list of names and of their sums */
	if (redacted_is_number(was))
		return was;
	if (kind == SNAPSHOT_WORD_RANGE && recording_is_plan(r->names.of))
		return was; /* these are the planner's */
	for (size_t i = 0; kind == SNAPSHOT_WORD_RANGE && i < sizeof(kept) / sizeof(*kept); i++)
		if (!*head && !strncmp(was, kept[i], strlen(kept[i])))
			head = kept[i];
	recording_word(&r->names, string, kinds[kind], word, sizeof(word));
	snprintf(r->word, WORD_BYTES, "%s%s", head, word);
	return r->word;
}

enum plim_status recording_redacted(struct recording *of, struct snapshot **out,
				    struct plim_err *err)
{
	struct redacting *r = mem_new(of->mem, 1, sizeof(*r), err);
	struct snapshot_renaming as = { r, redact_frame, redact_word };
	struct snapshot *t = NULL;
	struct arena words;
	enum plim_status st;

	*out = NULL;
	if (!r)
		return mem_status(err);
	arena_init(&words, of->mem);
	st = recording_names_init(&r->names, of, &words, 1, NULL, err);
	if (!st)
		st = snapshot_new(of->mem, &t, err);
	if (!st)
		st = snapshot_append(t, of->snapshot, NULL, &as, err);
	if (!st)
		st = snapshot_settle(t, err);
	if (!st) {
		t->kind = of->snapshot->kind;
		t->compression = of->snapshot->compression;
		t->file_bytes = of->snapshot->file_bytes;
		t->decoded_bytes = of->snapshot->decoded_bytes;
		*out = t;
	} else {
		snapshot_free(t);
	}
	arena_release(&words);
	mem_free(of->mem, r, 1, sizeof(*r));
	return st;
}
