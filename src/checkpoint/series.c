/*
 * A folder of checkpoints: which there are, newest first, and taking old ones away.
 *
 * Newest: names that differ only in numbers are a series, ordered by the number behind "step", "epoch" or
 * the like; the series that was written to last comes first.  Times alone do not survive a copy.
 */
#include "parts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NESTING 16 /* folders inside a checkpoint that is removed */

/* ---- names ---- */

/* "epoch=3-step=120.ckpt" -> "epoch=#-step=#.ckpt" */
static void pattern_of(const char *name, char *out, size_t size)
{
	size_t n = 0;

	while (*name && n + 1 < size) {
		bool digit = isdigit((unsigned char)*name);

		out[n++] = digit ? '#' : *name;
		name += digit ? strspn(name, "0123456789") : 1;
	}
	out[n] = 0;
}

static bool number_at(const char *at, uint64_t *out)
{
	char *end;

	at += strspn(at, "=_- ");
	if (!isdigit((unsigned char)*at))
		return false;
	errno = 0;
	*out = strtoull(at, &end, 10);
	return !errno;
}

/* How far training was: the number behind a word that says so, else the last one in the name. */
static uint64_t number_of(const char *name)
{
	static const char *const words[] = { "step",  "iter",       "iteration",
					     "epoch", "checkpoint", "ckpt" };
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *at = strcasestr(name, words[i]);

		if (at && number_at(at + strlen(words[i]), &n))
			return n;
	}
	for (const char *at = name; *at; at++)
		if (isdigit((unsigned char)*at) && number_at(at, &n))
			at += strspn(at, "0123456789") - 1;
	return n;
}

/* A measure in the name, as Lightning writes it: smaller is better after the sign is applied. */
static double metric_of(const char *name)
{
	static const struct {
		const char *word;
		int sign;
	} metrics[] = { { "loss=", 1 }, { "ppl=", 1 },       { "wer=", 1 },
			{ "acc=", -1 }, { "accuracy=", -1 }, { "f1=", -1 },
			{ "auc=", -1 }, { "bleu=", -1 },     { "score=", -1 } };

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		const char *at = strcasestr(name, metrics[i].word);
		char *end;
		double v;

		if (!at)
			continue;
		at += strlen(metrics[i].word);
		v = strtod(at, &end);
		if (end > at)
			return metrics[i].sign * v;
	}
	return NAN;
}

/* ---- what there is ---- */

static bool holds_checkpoint(struct ckpt_series *s, const char *name)
{
	int fd = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	bool found = false;

	if (!d && fd >= 0)
		close(fd);
	while (d && !found &&
	       (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		found = !strcmp(e->d_name, ".metadata") || folder_is_checkpoint_name(e->d_name);
	if (d)
		closedir(d);
	return found;
}

static enum plim_status add(struct ckpt_series *s, const char *name, struct plim_err *err)
{
	struct ckpt_series_entry e = { .number = number_of(name), .metric = metric_of(name) };
	char pattern[300];
	struct stat info;
	uint32_t id = 0;
	enum plim_status st;

	if (*name == '.' || fstatat(s->dir, name, &info, AT_SYMLINK_NOFOLLOW))
		return PLIM_OK;
	e.folder = S_ISDIR(info.st_mode);
	if (!e.folder && (!S_ISREG(info.st_mode) || !folder_is_checkpoint_name(name)))
		return PLIM_OK;
	if (e.folder && !holds_checkpoint(s, name))
		return PLIM_OK;
	e.bytes = e.folder ? PLIM_UNKNOWN : (uint64_t)info.st_size;
	e.time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
	pattern_of(name, pattern, sizeof(pattern));
	st = intern_add(&s->strings, pattern, strlen(pattern), &id, err);
	e.pattern = id;
	if (!st)
		st = intern_add(&s->strings, name, strlen(name), &id, err);
	if (st)
		return st;
	e.name = intern_text(&s->strings, id);
	e.best = strcasestr(name, "best") != NULL;
	return vec_push(s->mem, &s->entries, e, err);
}

/* In a trainer's folder the checkpoints are folders, and files beside them are something else. */
static void drop_files(struct ckpt_series *s)
{
	size_t n = 0;
	bool folders = false;

	for (size_t i = 0; i < s->entries.n; i++)
		folders |= s->entries.at[i].folder;
	for (size_t i = 0; i < s->entries.n; i++)
		if (s->entries.at[i].folder == folders)
			s->entries.at[n++] = s->entries.at[i];
	s->entries.n = n;
}

static int newest_first(const void *a, const void *b)
{
	const struct ckpt_series_entry *x = a, *y = b;

	if (x->pattern_time_ns != y->pattern_time_ns)
		return x->pattern_time_ns > y->pattern_time_ns ? -1 : 1;
	if (x->pattern != y->pattern)
		return x->pattern < y->pattern ? -1 : 1;
	if (x->number != y->number)
		return x->number > y->number ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* What is known of a pattern. */
struct pattern {
	int64_t time_ns;
	double metric;
};

/* Sort, and mark the best measure of each series. */
static enum plim_status put_in_order(struct ckpt_series *s, struct plim_err *err)
{
	struct ckpt_series_entry *at = s->entries.at;
	size_t patterns = s->strings.n;
	struct pattern *of = mem_new(s->mem, patterns, sizeof(*of), err);

	if (!of)
		return mem_status(err);
	for (size_t i = 0; i < patterns; i++)
		of[i] = (struct pattern){ INT64_MIN, NAN };
	for (size_t i = 0; i < s->entries.n; i++) {
		struct pattern *p = &of[at[i].pattern];

		p->time_ns = at[i].time_ns > p->time_ns ? at[i].time_ns : p->time_ns;
		p->metric = isnan(p->metric) || at[i].metric < p->metric ? at[i].metric : p->metric;
	}
	for (size_t i = 0; i < s->entries.n; i++) {
		at[i].pattern_time_ns = of[at[i].pattern].time_ns;
		at[i].best |=
			at[i].metric <= of[at[i].pattern].metric; /* false where there is none */
	}
	mem_free(s->mem, of, patterns, sizeof(*of));
	if (s->entries.n)
		qsort(at, s->entries.n, sizeof(*at), newest_first);
	return PLIM_OK;
}

void ckpt_series_mark_best(struct ckpt_series *s, const char *path)
{
	size_t n = strlen(path);
	const char *base;

	while (n && path[n - 1] == '/')
		n--;
	base = path + n;
	while (base > path && base[-1] != '/')
		base--;
	n -= (size_t)(base - path);
	for (size_t i = 0; i < s->entries.n; i++)
		s->entries.at[i].best |= strlen(s->entries.at[i].name) == n &&
					 !memcmp(s->entries.at[i].name, base, n);
}

/* What a link of the folder points to is somebody's choice: "best.pt", "latest". */
static void mark_links(struct ckpt_series *s, const struct folder_names *names)
{
	char target[4096];

	for (size_t i = 0; i < names->n; i++) {
		ssize_t n = readlinkat(s->dir, names->at[i], target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		ckpt_series_mark_best(s, target);
	}
}

static bool is_one_checkpoint(const struct folder_names *names)
{
	static const char *const marks[] = {
		".metadata",    "trainer_state.json",           "adapter_config.json",
		"optimizer.pt", "model.safetensors.index.json", "pytorch_model.bin.index.json"
	};

	for (size_t i = 0; i < names->n; i++)
		for (size_t k = 0; k < sizeof(marks) / sizeof(marks[0]); k++)
			if (!strcmp(names->at[i], marks[k]))
				return true;
	return false;
}

enum plim_status ckpt_series_open(struct ckpt_series *s, struct mem *m, const char *path,
				  struct plim_err *err)
{
	struct ckpt names_of = { 0 }; /* holds the texts of the list */
	struct folder_names names = { 0 };
	enum plim_status st;

	*s = (struct ckpt_series){ .mem = m };
	intern_init(&s->strings, m);
	ckpt_init(&names_of, m);
	names_of.path = path;
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	st = s->dir < 0 ? err_errno(err, errno, "cannot open the folder '%s'", path)
			: folder_list(&names_of, s->dir, &names, err);
	for (size_t i = 0; !st && i < names.n; i++)
		st = add(s, names.at[i], err);
	if (!st) {
		drop_files(s);
		if (s->entries.n && !s->entries.at[0].folder && is_one_checkpoint(&names))
			st = err_set(err, PLIM_E_ARG,
				     "'%.200s' is one checkpoint, not a folder of them", path);
	}
	if (!st)
		st = put_in_order(s, err);
	if (!st)
		mark_links(s, &names);
	vec_release(m, &names);
	ckpt_close(&names_of);
	return st;
}

void ckpt_series_close(struct ckpt_series *s)
{
	if (!s->mem)
		return;
	if (s->dir >= 0)
		close(s->dir);
	vec_release(s->mem, &s->entries);
	intern_release(&s->strings);
	s->mem = NULL;
}

/* ---- taking away ---- */

static enum plim_status remove_inside(int dir, const char *name, unsigned depth,
				      struct plim_err *err);

static enum plim_status remove_folder(int dir, const char *name, unsigned depth,
				      struct plim_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	enum plim_status st = PLIM_OK;

	if (!d && fd >= 0)
		close(fd);
	if (!d)
		return err_errno(err, errno, "cannot list '%s'", name);
	while (!st && (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			st = remove_inside(dirfd(d), e->d_name, depth + 1, err);
	closedir(d);
	if (!st && unlinkat(dir, name, AT_REMOVEDIR))
		st = err_errno(err, errno, "cannot remove '%s'", name);
	return st;
}

/* Links are removed, never followed. */
static enum plim_status remove_inside(int dir, const char *name, unsigned depth,
				      struct plim_err *err)
{
	struct stat info;

	if (depth > NESTING)
		return err_set(err, PLIM_E_LIMIT, "'%s' lies too deep: not removed", name);
	if (fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW))
		return err_errno(err, errno, "cannot remove '%s'", name);
	if (S_ISDIR(info.st_mode))
		return remove_folder(dir, name, depth, err);
	return unlinkat(dir, name, 0) ? err_errno(err, errno, "cannot remove '%s'", name) : PLIM_OK;
}

enum plim_status ckpt_series_remove(struct ckpt_series *s, size_t i, struct plim_err *err)
{
	const struct ckpt_series_entry *e = &s->entries.at[i];
	char beside[300];

	if (!e->folder) {
		if (unlinkat(s->dir, e->name, 0))
			return err_errno(err, errno, "cannot remove '%s'", e->name);
		if ((size_t)snprintf(beside, sizeof(beside), "%s" CKPT_MANIFEST_BESIDE, e->name) <
		    sizeof(beside))
			unlinkat(s->dir, beside, 0);
		return PLIM_OK;
	}
	/* Out of sight first: whoever looks for checkpoints never sees half of one. */
	snprintf(beside, sizeof(beside), ".plimsoll.removed.%.250s", e->name);
	remove_folder(s->dir, beside, 0, NULL); /* what an earlier try has left that was killed */
	if (renameat(s->dir, e->name, s->dir, beside))
		return err_errno(err, errno, "cannot remove '%s'", e->name);
	return remove_folder(s->dir, beside, 0, err);
}
