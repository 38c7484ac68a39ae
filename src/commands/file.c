/* What a file or folder is, and which command reads it. */
#include <plimsoll/file.h>

#include "base/base.h"
#include "commands/file.h"
#include "messages/messages.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_BYTES ((uint64_t)256 << 20)
#define TAIL_BYTES 16384                  /* of a log, in which a failure stands */
#define END_BYTES 65536                   /* of one that may end with a failure of memory */
#define PACKED_BYTES ((uint64_t)64 << 20) /* of a compressed log, that are read to reach its end */
#define FOLDER_FILES 64                   /* of a folder, that are looked at */
#define FOLDER_DEPTH 3                    /* runs/NAME/version_0/events */

static const struct file_kind file_history = { "metrics", "a training log", "curves", NULL, 1, 0 },
			      file_checkpoints = { "checkpoints",
						   "a folder of checkpoints",
						   "ckpt last-good",
						   NULL,
						   0,
						   0 },
			      file_no_files = { "no_files", "a folder without files", NULL, NULL, 0,
						0 };

static bool file_is_for(const struct file_kind *kind, const char *command)
{
	return kind && kind->command && !strcmp(kind->command, command);
}

/* ---- a log: of a training, or of a failure ---- */

/* "loss=3.83", "val_loss: 0.66", "'loss': 2.1": values of a training. */
static bool file_has_losses(const char *head)
{
	for (const char *at = head; (at = strstr(at, "loss")) != NULL; at++) {
		const char *p = at + strcspn(at, "=:,\n\r ");

		p += strspn(p, "=: ");
		if (*p >= '0' && *p <= '9')
			return true;
	}
	return false;
}

/* The last bytes of a file, or of as much of a compressed one as is read; the window is lost.  Their number. */
static size_t file_tail(struct source *s, char *tail, size_t room)
{
	struct source_info info;
	struct plim_err ignored;
	size_t n = 0;

	source_get_info(s, &info);
	if (source_is_random(s)) {
		uint64_t from = info.raw_bytes > room ? info.raw_bytes - room : 0;

		return source_pread(s, from, tail, room, &n, &ignored) ? 0 : n;
	}
	for (uint64_t read = 0; read < PACKED_BYTES && s->p < s->end;) {
		size_t got = (size_t)(s->end - s->p), take = got < room ? got : room,
		       keep = n < room - take ? n : room - take;

		memmove(tail, tail + n - keep, keep);
		memcpy(tail + keep, s->end - take, take);
		n = keep + take;
		read += got;
		if (source_need(s, s->end, 1, &ignored))
			break;
	}
	return n;
}

/* Does the end of a log speak of a failure?  Then that is the question. */
static bool file_ends_badly(struct source *s)
{
	static const char *const words[] = {
		"Traceback", "Error",   "error", "ERROR",  "Killed",
		"killed",    "signal ", "fault", "memory", "CANCELLED"
	};
	char tail[TAIL_BYTES];
	size_t n = file_tail(s, tail, sizeof(tail));

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (memmem(tail, n, words[i], strlen(words[i])))
			return true;
	return false;
}

/* ---- a file ---- */

/* A text that is of no other kind is a log, and that of a training if it has losses. */
static const struct file_kind *file_of_source(struct source *s, const char *path)
{
	char head[FILE_KIND_HEAD_BYTES + 1];
	size_t n = (size_t)(s->end - s->p);
	const struct file_kind *kind = file_kind_of_file(path, s->p, n);

	/* A tar may be of recordings, or a checkpoint. */
	if (kind && !strcmp(kind->slug, "tar") && file_kind_of_name(path))
		kind = file_kind_of_name(path);
	n = n < FILE_KIND_HEAD_BYTES ? n : FILE_KIND_HEAD_BYTES;
	memcpy(head, s->p, n);
	head[n] = 0;
	if (file_is_for(kind, "why") && file_has_losses(head) && !file_ends_badly(s))
		kind = &file_history;
	return kind;
}

static enum plim_status file_look(struct mem *m, const char *path, enum source_kinds kinds,
				  const struct file_kind **kind, struct plim_err *err)
{
	struct source_options options = { .thread = SOURCE_THREAD_NONE, .kinds = kinds };
	struct source *s;
	enum plim_status st = strcmp(path, "-") ? source_open(m, path, &options, &s, err)
						: source_open_descriptor(m, path, STDIN_FILENO,
									 &options, &s, err);

	*kind = NULL;
	if (st)
		return st;
	st = source_need(s, s->p, FILE_KIND_HEAD_BYTES, err);
	if (!st)
		*kind = file_of_source(s, path);
	source_close(s);
	return st;
}

/* ---- a failure of memory at the end of a log ---- */

/* Cheap, for nearly all logs; the messages decide. */
static bool file_may_have_failed(const char *tail, size_t n)
{
	static const char *const words[] = {
		"emory", "OOM", "oom", "illed", "RESOURCE_EXHAUSTED", "ALLOC_FAILED"
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (memmem(tail, n, words[i], strlen(words[i])))
			return true;
	return false;
}

/* What stands behind the first `lines` lines. */
static const char *file_behind(const char *text, uint64_t lines)
{
	for (; lines && *text; lines--) {
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return text;
}

/* One that the program did not go on after: no value of a training follows. */
static bool file_has_failure(const struct messages_log *log, const char *tail)
{
	for (size_t i = 0; i < log->events.n; i++) {
		const struct messages_event *e = &log->events.at[i];

		if (e->joined == i && !e->caught_line && e->wording->class <= MESSAGES_SHARED &&
		    !file_has_losses(file_behind(tail, e->last_line)))
			return true;
	}
	return false;
}

static bool file_failed(struct mem *m, const char *path, enum source_kinds kinds)
{
	struct source_options options = { .thread = SOURCE_THREAD_NONE, .kinds = kinds };
	struct messages_log log;
	struct plim_err ignored;
	struct source *s;
	size_t n = 0;
	bool failed = false;
	char *tail;

	if (source_open(m, path, &options, &s, &ignored))
		return false;
	tail = mem_new(m, END_BYTES + 1, 1, &ignored);
	/* Of a folder's compressed files not each is read to its end. */
	if (tail && !source_need(s, s->p, FILE_KIND_HEAD_BYTES, &ignored) &&
	    file_is_text(s->p, (size_t)(s->end - s->p)) &&
	    (kinds == SOURCE_ANY || source_is_random(s)))
		n = file_tail(s, tail, END_BYTES);
	source_close(s);
	if (n && file_may_have_failed(tail, n)) {
		messages_init(&log, m);
		if (!messages_scan_memory(&log, path, tail, n, &ignored)) {
			messages_join(&log);
			failed = file_has_failure(&log, tail);
		}
		messages_release(&log);
	}
	mem_free(m, tail, END_BYTES + 1, 1);
	return failed;
}

/* ---- a folder ---- */

struct file_folder {
	struct mem *mem;
	unsigned left;                /* files that are still looked at */
	const struct file_kind *best; /* so far */
	unsigned depth;               /* below the folder, of the best */
	char *failed; /* of `room` bytes: a log that ends with a failure of memory is looked for instead; NULL: not */
	size_t room;
};

/* What a folder is for if it holds several kinds: the earlier one. */
static unsigned file_rank(const struct file_kind *kind)
{
	static const char *const order[] = { "ckpt verify", "report", "curves",
					     "why",         "plan",   "lint" };

	for (unsigned i = 0; i < sizeof(order) / sizeof(*order); i++)
		if (file_is_for(kind, order[i]))
			return i;
	return UINT32_MAX;
}

static void file_folder_take(struct file_folder *f, const char *path, unsigned depth)
{
	const struct file_kind *kind = NULL;
	struct plim_err ignored;

	f->left--;
	if (f->failed) {
		if (!*f->failed && file_failed(f->mem, path, SOURCE_REGULAR_HERE))
			snprintf(f->failed, f->room, "%s", path);
		return;
	}
	(void)file_look(f->mem, path, SOURCE_REGULAR_HERE, &kind, &ignored);
	/* README.txt and requirements.txt say nothing of a folder. */
	if (kind && strcmp(kind->slug, "text") != 0 &&
	    (!f->best || file_rank(kind) < file_rank(f->best))) {
		f->best = kind;
		f->depth = depth;
	}
}

static void file_folder_walk(struct file_folder *f, const char *path, unsigned depth)
{
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char below[4096];
		struct stat is;
		int room = snprintf(below, sizeof(below), "%s/%s", path, names[i]->d_name);

		if (*names[i]->d_name != '.' && room < (int)sizeof(below) && f->left &&
		    !lstat(below, &is)) {
			if (S_ISREG(is.st_mode) && is.st_size)
				file_folder_take(f, below, depth);
			else if (S_ISDIR(is.st_mode) && depth < FOLDER_DEPTH)
				file_folder_walk(f, below, depth + 1);
		}
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

static const struct file_kind *file_of_folder(struct mem *m, const char *path)
{
	struct file_folder f = { .mem = m, .left = FOLDER_FILES };

	file_folder_walk(&f, path, 0);
	if (f.left == FOLDER_FILES)
		return &file_no_files;
	return file_is_for(f.best, "ckpt verify") && f.depth ? &file_checkpoints : f.best;
}

enum plim_status plim_file_of(const char *path, struct plim_file *out, struct plim_err *err)
{
	const struct file_kind *kind = NULL;
	struct mem m;
	struct stat is = { 0 };
	bool named = strcmp(path, "-") != 0;
	enum plim_status st = PLIM_OK;

	*out = (struct plim_file){ NULL, NULL, NULL };
	mem_init(&m, MEMORY_BYTES);
	if (named && stat(path, &is))
		return err_errno(err, errno, "cannot open '%s'", path);
	if (named && S_ISDIR(is.st_mode))
		kind = file_of_folder(&m, path);
	else
		st = file_look(&m, path, SOURCE_ANY, &kind, err);
	if (kind)
		*out = (struct plim_file){ kind->is, kind->command, kind->remedy };
	return st;
}

void file_find_failure(struct mem *m, const char *path, char *log, size_t size)
{
	struct file_folder f = { .mem = m, .left = FOLDER_FILES, .failed = log, .room = size };
	struct stat is;

	*log = 0;
	if (!strcmp(path, "-") || stat(path, &is))
		return;
	if (S_ISDIR(is.st_mode))
		file_folder_walk(&f, path, 0);
	else if (S_ISREG(is.st_mode) && file_failed(m, path, SOURCE_ANY))
		snprintf(log, size, "%s", path);
}
