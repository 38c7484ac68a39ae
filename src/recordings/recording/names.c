/* Names of a file as people read them, shortened and redacted as was asked. */
#include "recording.h"

#include <stdio.h>
#include <string.h>

enum plim_status recording_names_init(struct recording_names *n, const struct recording *of,
				      struct arena *arena, int redact, const char *strip_prefix,
				      struct plim_err *err)
{
	*n = (struct recording_names){
		.of = of, .arena = arena, .redact = redact, .strip_prefix = strip_prefix
	};
	n->words = arena_take(arena, redact ? of->snapshot->heap.strings.n : 0, sizeof(*n->words),
			      err);
	return n->words ? PLIM_OK : mem_status(err);
}

/* "torch/nn/modules/linear.py", "python3.11/runpy.py" */
const char *recording_public_part(const char *file)
{
	static const char *const homes[] = { "/site-packages/", "/dist-packages/" };
	static const char python[] = "/lib/python3.";
	const char *at;

	if (!strncmp(file, "<frozen ", 8))
		return file;
	for (size_t h = 0; h < 2; h++) {
		at = strstr(file, homes[h]);
		if (!at)
			continue;
		at += strlen(homes[h]);
		return public_package(at, strlen(at)) ? at : NULL;
	}
	at = strstr(file, python);
	return at && at[sizeof(python) - 1] ? at + strlen("/lib/") : NULL;
}

/* Of a file's name, what comes behind `part` up to the next '/'; 0: it has no such part. */
static size_t part_behind(const char *file, const char *part, const char **at)
{
	const char *found = strstr(file, part);

	*at = found ? found + strlen(part) : file;
	return found ? strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
}

#define KEPT_MAX 12 /* names of a kind that are reported */

struct kept {
	const char *at[KEPT_MAX];
	size_t length[KEPT_MAX], n, all;
};

static void keep_name(struct kept *k, const char *at, size_t length)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->length[i] == length && !strncmp(k->at[i], at, length))
			return;
	k->all++;
	if (k->n == KEPT_MAX)
		return;
	k->at[k->n] = at;
	k->length[k->n++] = length;
}

static void list_kept(const struct kept *k, char *out, size_t size)
{
	size_t n = 0;

	*out = 0;
	for (size_t i = 0; i < k->n && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%.*s", i ? ", " : "",
				      (int)(k->length[i] < 40 ? k->length[i] : 40), k->at[i]);
	if (k->all > k->n && n < size)
		snprintf(out + n, size - n, " and %zu more", k->all - k->n);
}

const char *recording_kept(const struct recording_names *n, struct plim_err *err)
{
	const struct snapshot *s = n->of->snapshot;
	struct kept packages = { .n = 0 }, models = packages;
	char some[600], families[600];
	const char *at;

	for (uint32_t f = 0; f < s->frames.n; f++) {
		const char *file =
			recording_public_part(snapshot_text(s, snapshot_frame(s, f)->filename));
		size_t length;

		if (!file || *file == '<' || !strncmp(file, "python3.", 8))
			continue;
		keep_name(&packages, file, strcspn(file, "/."));
		length = part_behind(file, "/models/", &at);
		if (length && at[length] == '/')
			keep_name(&models, at, length);
	}
	list_kept(&packages, some, sizeof(some));
	list_kept(&models, families, sizeof(families));
	if (!packages.n)
		return arena_text(
			n->arena, err,
			"redacted: no name of a file or function is kept; sizes, times and "
			"numbers of lines are");
	return arena_text(
		n->arena, err,
		"redacted, except for sizes, times, numbers of lines, and names in public "
		"packages: %s%s%s",
		some, models.n ? "; models: " : "", families);
}

/*
 * The name of a public C++ or C function without types, which may be the user's: "at::_sum_to" of
 * "at::Tensor at::_sum_to<...>(...)".  0 when it is not public, or a Python function.
 */
int recording_public_symbol(const char *file, const char *name, char *out, size_t size)
{
	size_t n = strcspn(name, "(<"), from = n;

	if (*file && strcmp(file, "??"))
		return 0;
	while (from && name[from - 1] != ' ')
		from--;
	if (!public_begins(public_symbols, public_symbols_count, name + from))
		return 0;
	snprintf(out, size, "%.*s", (int)(n - from), name + from);
	return 1;
}

/* "file-3": the same name always the same word, in the order of first use. */
const char *recording_word(struct recording_names *n, uint32_t string, const char *kind, char *word,
			   size_t size)
{
	if (!n->words[string])
		n->words[string] = ++n->word_count;
	snprintf(word, size, "%s-%u", kind, n->words[string]);
	return word;
}

static const char *short_file(const struct recording_names *n, const char *file)
{
	const char *site = strstr(file, "/site-packages/");

	if (n->strip_prefix && !strncmp(file, n->strip_prefix, strlen(n->strip_prefix)))
		return file + strlen(n->strip_prefix);
	return site ? site + strlen("/site-packages/") : file;
}

const char *recording_name(struct recording_names *n, uint32_t string, const char *kind, char *word,
			   size_t size)
{
	return n->redact ? recording_word(n, string, kind, word, size)
			 : snapshot_text(n->of->snapshot, string);
}

void recording_place(struct recording_names *n, uint32_t frame, struct recording_place *out)
{
	const struct snapshot *t = n->of->snapshot;
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename), *name = snapshot_text(t, f->name);

	out->file = file;
	out->name = name;
	if (!n->redact) {
		out->file = short_file(n, file);
	} else if (recording_public_part(file)) {
		out->file = recording_public_part(file);
	} else {
		if (*file && strcmp(file, "??"))
			out->file = recording_word(n, f->filename, "file", out->file_word,
						   sizeof(out->file_word));
		if (!recording_public_symbol(file, name, out->name_word, sizeof(out->name_word)))
			recording_word(n, f->name, "function", out->name_word,
				       sizeof(out->name_word));
		out->name = out->name_word;
	}
}

const char *recording_frame(struct recording_names *n, uint32_t frame, struct plim_err *err)
{
	struct recording_place at;
	uint32_t line;

	if (frame == TRACE_NONE)
		return NULL;
	recording_place(n, frame, &at);
	line = snapshot_frame(n->of->snapshot, frame)->line;
	if (!*at.file || !*at.name) /* of a profiler's trace: an operation, or a range */
		return arena_text(n->arena, err, "%.900s", *at.file ? at.file : at.name);
	if (line == TRACE_NONE)
		return arena_text(n->arena, err, "%.900s in %.900s", at.file, at.name);
	return arena_text(n->arena, err, "%.900s:%u in %.900s", at.file, line, at.name);
}

enum plim_status recording_stack(struct recording_names *n, uint32_t stack, const char ***out,
				 size_t *count, struct plim_err *err)
{
	uint32_t all;
	const uint32_t *frames = snapshot_stack(n->of->snapshot, stack, &all);

	*count = 0;
	*out = arena_take(n->arena, all, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (uint32_t i = 0; i < all; i++) {
		(*out)[i] = recording_frame(n, frames[i], err);
		if (!(*out)[i])
			return mem_status(err);
	}
	*count = all;
	return PLIM_OK;
}
