/* Texts of a report: frames as people read them, shortened and redacted as was asked. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *report_take(struct plim_report *r, size_t n, size_t size, struct plim_err *err)
{
	struct plim_report_hidden *h = r->hidden;
	void *p;

	if (vec_need(&h->mem, &h->chunks, 1, err))
		return NULL;
	p = mem_new(&h->mem, n, size, err);
	if (p)
		h->chunks.at[h->chunks.n++] = (struct report_chunk){ p, n * size };
	return p;
}

const char *report_text(struct plim_report *r, struct plim_err *err, const char *fmt, ...)
{
	char text[2048];
	uint32_t id;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (intern_add(&r->hidden->strings, text, strlen(text), &id, err))
		return NULL;
	return intern_text(&r->hidden->strings, id);
}

const char *report_size(char *buffer, uint64_t bytes)
{
	static const struct {
		uint64_t from;
		const char *name;
	} units[] = { { 1ull << 30, "GiB" }, { 1ull << 20, "MiB" }, { 1ull << 10, "KiB" } };

	if (bytes == PLIM_UNKNOWN)
		return "-";
	for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
		if (bytes >= units[u].from) {
			snprintf(buffer, 32, "%.2f %s", (double)bytes / (double)units[u].from,
				 units[u].name);
			return buffer;
		}
	}
	snprintf(buffer, 32, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
	return buffer;
}

/* Names of PyTorch, of installed packages and of Python are no secret. */
static int is_public(const char *file)
{
	return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") ||
	       strstr(file, "/lib/python3") || strstr(file, "/torch/") ||
	       !strncmp(file, "<frozen", 7) || !*file || !strcmp(file, "??");
}

/* "file-3": the same name always the same word, in the order of first use. */
static const char *redacted(struct plim_report *r, uint32_t string, const char *kind, char *word,
			    size_t size)
{
	struct plim_report_hidden *h = r->hidden;

	if (!h->words[string])
		h->words[string] = ++h->word_count;
	snprintf(word, size, "%s-%u", kind, h->words[string]);
	return word;
}

static const char *short_file(const struct plim_report *r, const char *file)
{
	const char *prefix = r->hidden->options.strip_prefix,
		   *site = strstr(file, "/site-packages/");

	if (prefix && !strncmp(file, prefix, strlen(prefix)))
		return file + strlen(prefix);
	return site ? site + strlen("/site-packages/") : file;
}

const char *report_frame(struct plim_report *r, uint32_t frame, struct plim_err *err)
{
	const struct trace *t = r->hidden->trace;
	const struct trace_frame *f;
	const char *file, *name;
	char file_word[32], name_word[32];

	if (frame == TRACE_NONE)
		return NULL;
	f = trace_frame(t, frame);
	file = trace_text(t, f->filename);
	name = trace_text(t, f->name);
	if (r->hidden->options.flags & PLIM_REPORT_REDACT && !is_public(file)) {
		file = redacted(r, f->filename, "file", file_word, sizeof(file_word));
		name = redacted(r, f->name, "function", name_word, sizeof(name_word));
	} else {
		file = short_file(r, file);
	}
	if (f->line == TRACE_NONE)
		return report_text(r, err, "%.900s in %.900s", file, name);
	return report_text(r, err, "%.900s:%u in %.900s", file, f->line, name);
}

enum plim_status report_stack(struct plim_report *r, uint32_t stack, const char ***out, size_t *n,
			      struct plim_err *err)
{
	uint32_t count;
	const uint32_t *frames = trace_stack(r->hidden->trace, stack, &count);

	*n = 0;
	*out = report_take(r, count, sizeof(**out), err);
	if (!*out)
		return err ? err->status : PLIM_E_NOMEM;
	for (uint32_t i = 0; i < count; i++) {
		(*out)[i] = report_frame(r, frames[i], err);
		if (!(*out)[i])
			return err ? err->status : PLIM_E_NOMEM;
	}
	*n = count;
	return PLIM_OK;
}
