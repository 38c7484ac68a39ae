/* Files of a log, and what was found in all of them. */
#include "scan.h"

#include <string.h>
#include <strings.h>

/* "rank_3.log", "rank3/out.txt", torchrun's "attempt_0/3/stderr.log". */
static uint32_t rank_of_name(const char *name)
{
	const char *at = strcasestr(name, "rank"), *end, *slash = strrchr(name, '/'), *p = slash;
	uint32_t rank = UINT32_MAX;

	for (; at && rank == UINT32_MAX; at = strcasestr(at + 4, "rank")) {
		end = at + 4 + strspn(at + 4, "_-.=");
		rank = scan_number(end, &end);
	}
	if (rank != UINT32_MAX || !slash || strncmp(slash, "/std", 4))
		return rank;
	while (p > name && p[-1] != '/')
		p--;
	rank = scan_number(p, &end);
	return end == slash ? rank : UINT32_MAX;
}

static enum plim_status add_file(struct messages_log *log, const char *name, struct plim_err *err)
{
	size_t n = strlen(name) + 1;
	struct messages_file file = { .path = mem_new(log->mem, n, 1, err), .cues = SIZE_MAX };
	enum plim_status st;

	if (!file.path)
		return mem_status(err);
	memcpy(file.path, name, n);
	st = vec_push(log->mem, &log->files, file, err);
	if (st)
		mem_free(log->mem, file.path, n, 1);
	return st;
}

static void count_file(struct messages_log *log, const struct source *src, uint64_t line_feeds)
{
	struct messages_file *file = &log->files.at[log->files.n - 1];
	struct source_info info;

	source_get_info(src, &info);
	file->compression = info.compression;
	file->bytes = info.decoded_bytes;
	/* a last line without a line feed is one too */
	file->lines = line_feeds + (src->end > src->p && src->end[-1] != '\n');
	log->bytes += file->bytes;
	log->lines += file->lines;
}

/* Closes the source. */
static enum plim_status scan_opened(struct messages_log *log, const struct messages_scan *what,
				    struct source *src, struct plim_err *err)
{
	uint64_t line_feeds;
	enum plim_status st = source_need(src, src->p, SCAN_HEAD_BYTES, err);

	if (st) {
		source_close(src);
		return st;
	}
	if (what->text_only && !scan_is_text(src)) {
		*what->skipped = 1;
	} else {
		st = add_file(log, what->name, err);
		if (!st && scan_kind(src, what->name, &log->files.at[log->files.n - 1].kind) &&
		    !log->files.at[log->files.n - 1].kind.text) {
			count_file(log, src, 0);
		} else if (!st) {
			st = scan_source(log, (uint32_t)log->files.n - 1, rank_of_name(what->name),
					 src, &line_feeds, err);
			count_file(log, src, line_feeds);
		}
	}
	source_close(src);
	return st;
}

enum plim_status messages_scan(struct messages_log *log, const struct messages_scan *what,
			       struct plim_err *err)
{
	struct source *src;
	struct plim_err own = { .status = PLIM_OK };
	enum plim_status st;

	err = err ? err : &own;
	if (what->skipped)
		*what->skipped = 0;
	st = what->input ? source_open_input(log->mem, what->input, NULL, &src, err)
			 : source_open(log->mem, what->path, NULL, &src, err);
	return st ? st : scan_opened(log, what, src, err);
}

enum plim_status messages_scan_memory(struct messages_log *log, const char *name, const void *bytes,
				      size_t n, struct plim_err *err)
{
	const struct messages_scan what = { .path = name, .name = name };
	struct source *src;
	enum plim_status st =
		source_open_memory(log->mem, name, bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src, err);

	return st ? st : scan_opened(log, &what, src, err);
}

void messages_init(struct messages_log *log, struct mem *m)
{
	*log = (struct messages_log){ .mem = m };
}

void messages_release(struct messages_log *log)
{
	for (size_t i = 0; i < log->files.n; i++)
		mem_free(log->mem, log->files.at[i].path, strlen(log->files.at[i].path) + 1, 1);
	vec_release(log->mem, &log->files);
	vec_release(log->mem, &log->events);
	vec_release(log->mem, &log->states);
	vec_release(log->mem, &log->cues);
}

enum plim_status messages_find_oom(struct mem *m, const char *path, struct messages_oom *out,
				   int *found, struct plim_err *err)
{
	const struct messages_scan what = { .path = path, .name = path };
	struct messages_log log;
	enum plim_status st;

	messages_init(&log, m);
	st = messages_scan(&log, &what, err);
	*found = !st && log.has_newest;
	if (*found)
		*out = log.newest;
	messages_release(&log);
	return st;
}
