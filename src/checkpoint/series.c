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
#include <xxhash.h>

#define NESTING 16 /* folders inside a checkpoint that is removed */

/* ---- names ---- */

/* How far training was, the most telling first. */
static const char *const progress[] = {
	"step", "iter", "iteration", "epoch", "checkpoint", "ckpt"
};

/* Measures, as Lightning writes them: smaller is better after the sign is applied. */
static const struct {
	const char *word;
	int sign;
} measures[] = { { "loss=", 1 }, { "ppl=", 1 },       { "wer=", 1 },
		 { "acc=", -1 }, { "accuracy=", -1 }, { "f1=", -1 },
		 { "auc=", -1 }, { "bleu=", -1 },     { "score=", -1 } };

/* Does the text before `at` end with the word?  `from` is where it begins. */
static bool stands_behind(const char *from, const char *at, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(at - from) >= n && !strncasecmp(at - n, word, n);
}

static bool is_progress(const char *name, const char *digits)
{
	while (digits > name && strchr("=_- ", digits[-1]))
		digits--;
	for (size_t i = 0; i < sizeof(progress) / sizeof(progress[0]); i++)
		if (stands_behind(name, digits, progress[i]))
			return true;
	return false;
}

/* A decimal number, whatever the locale; *end == at without one. */
static double decimal_at(const char *at, const char **end)
{
	const char *p = at + (*at == '-' || *at == '+');
	double v = 0, scale = 1;
	int exponent = 0;
	bool less = false;

	*end = at;
	if (!isdigit((unsigned char)*p))
		return NAN;
	for (; isdigit((unsigned char)*p); p++)
		v = v * 10 + (*p - '0');
	if (*p == '.' && isdigit((unsigned char)p[1]))
		for (p++; isdigit((unsigned char)*p); p++, scale *= 10)
			v = v * 10 + (*p - '0');
	if ((*p == 'e' || *p == 'E') &&
	    isdigit((unsigned char)p[1 + (p[1] == '-' || p[1] == '+')])) {
		less = p[1] == '-';
		for (p += 1 + (p[1] == '-' || p[1] == '+'); isdigit((unsigned char)*p); p++)
			exponent = exponent < 100 ? exponent * 10 + (*p - '0') : 999;
	}
	for (v /= scale; exponent; exponent--)
		v = less ? v / 10 : v * 10;
	*end = p;
	return *at == '-' ? -v : v;
}

/* Does the number at `at` stand behind a known measure? */
static bool is_measure(const char *name, const char *at, int *sign)
{
	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
		*sign = measures[i].sign;
		if (stands_behind(name, at, measures[i].word))
			return true;
	}
	return false;
}

/* Where the number at `digits` ends, and is it a decimal fraction? */
static const char *number_end(const char *digits, bool *fraction)
{
	const char *p = digits + strspn(digits, "0123456789");

	*fraction = *p == '.' && isdigit((unsigned char)p[1]);
	return *fraction ? p + 1 + strspn(p + 1, "0123456789") : p;
}

/*
 * Names that differ in progress and measures only are a series: "epoch=3-step=120.ckpt" -> "epoch=#-step=#.ckpt".
 * Where a word says which number is progress, other numbers tell runs, folds and ranks apart:
 * "fold1_epoch3.pt" -> "fold1_epoch#.pt".
 */
static void pattern_of(const char *name, char *out, size_t size)
{
	const char *from = name, *end;
	bool words = false, fraction;
	size_t n = 0;
	int sign;

	for (const char *p = name; *p; p++)
		words |= isdigit((unsigned char)*p) && is_progress(name, p);
	for (; *from && n + 1 < size; from = end) {
		end = number_end(from, &fraction);
		if (end == from) {
			out[n++] = *end++;
			continue;
		}
		if (!words || fraction || is_progress(name, from) ||
		    is_measure(name, from, &sign)) {
			out[n++] = '#';
			continue;
		}
		for (const char *p = from; p < end && n + 1 < size; p++)
			out[n++] = *p;
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

/* The number behind the most telling word, else the last one in the name. */
static uint64_t series_number_of(const char *name)
{
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(progress) / sizeof(progress[0]); i++) {
		const char *at = strcasestr(name, progress[i]);

		if (at && number_at(at + strlen(progress[i]), &n))
			return n;
	}
	for (const char *at = name; *at; at++)
		if (isdigit((unsigned char)*at) && number_at(at, &n))
			at += strspn(at, "0123456789") - 1;
	return n;
}

/* *known: a measure whose better end is known, signed; *other: the last fraction of which it is not.  NaN without. */
static void find_measures(const char *name, double *known, double *other)
{
	const char *p = name, *end;
	int sign;

	*known = *other = NAN;
	for (; *p; p = end) {
		double v = decimal_at(p, &end);
		bool digits = isdigit((unsigned char)*p), fraction = false;

		if (digits)
			number_end(p, &fraction);
		if (end == p) {
			end++;
		} else if (is_measure(name, p, &sign)) {
			*known = isnan(*known) ? sign * v : *known;
		} else if (!digits) {
			end = p + 1; /* a hyphen, as likely as a sign */
		} else if (fraction && !is_progress(name, p)) {
			*other = v;
		}
	}
}

/* ---- what there is ---- */

static uint64_t mark(const struct stat *info)
{
	const int64_t of[] = { (int64_t)info->st_dev,          (int64_t)info->st_ino,
			       (int64_t)info->st_size,         (int64_t)info->st_mtim.tv_sec,
			       (int64_t)info->st_mtim.tv_nsec, (int64_t)info->st_mode };

	return XXH3_64bits(of, sizeof(of));
}

/* Changes when the file, or what lies in the folder, is written, replaced or taken away; 0: it is not there. */
static uint64_t state_in(int dir, const char *name, bool follow)
{
	DIR *d = ckpt_entries(
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)));
	int how = follow ? 0 : AT_SYMLINK_NOFOLLOW;
	const struct dirent *e;
	struct stat info;
	uint64_t state;

	state = fstatat(dir, name, &info, how) ? 0 : mark(&info) | 1;
	while (d && (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (strcmp(e->d_name, "..") != 0 && !fstatat(dirfd(d), e->d_name, &info, how))
			state += 2 * mark(&info); /* in any order */
	if (d)
		closedir(d);
	return state;
}

static uint64_t series_state_of(const struct ckpt_series *s, const char *name)
{
	return state_in(s->dir, name, false);
}

uint64_t ckpt_state(const char *path)
{
	return state_in(AT_FDCWD, path, true);
}

static enum plim_status add_series(struct ckpt_series *s, const char *name, struct plim_err *err)
{
	struct ckpt_series_entry e = { .number = series_number_of(name) };
	char pattern[300];
	struct stat info;
	uint32_t id = 0;
	enum plim_status st;

	if (*name == '.' || fstatat(s->dir, name, &info, AT_SYMLINK_NOFOLLOW))
		return PLIM_OK;
	e.folder = S_ISDIR(info.st_mode);
	if (!e.folder && (!S_ISREG(info.st_mode) || !folder_is_checkpoint_name(name)))
		return PLIM_OK;
	if (e.folder && !folder_holds_checkpoint(s->dir, name))
		return PLIM_OK;
	e.bytes = e.folder ? PLIM_UNKNOWN : (uint64_t)info.st_size;
	e.time_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
	e.state = series_state_of(s, name);
	find_measures(name, &e.measure, &e.fraction);
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

/* In a trainer's folder the checkpoints are folders, and files next to them are something else. */
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
	double measure, least, less_most; /* the last: the largest fraction, negative */
};

static double lesser(double a, double b)
{
	return isnan(a) || b < a ? b : a;
}

static bool is_best(const struct ckpt_series_entry *e, const struct pattern *p)
{
	/* Comparisons are false where there is no measure.  A fraction may be a measure whose better end no one knows. */
	return e->measure <= p->measure ||
	       (p->least < -p->less_most &&
		(e->fraction <= p->least || -e->fraction <= p->less_most));
}

/* Sort, and mark the best measure of each series. */
static enum plim_status put_in_order(struct ckpt_series *s, struct plim_err *err)
{
	struct ckpt_series_entry *at = s->entries.at;
	size_t patterns = s->strings.n;
	struct pattern *of = mem_new(s->mem, patterns, sizeof(*of), err);

	if (!of)
		return mem_status(err);
	for (size_t i = 0; i < patterns; i++)
		of[i] = (struct pattern){ INT64_MIN, NAN, NAN, NAN };
	for (size_t i = 0; i < s->entries.n; i++) {
		struct pattern *p = &of[at[i].pattern];

		p->time_ns = at[i].time_ns > p->time_ns ? at[i].time_ns : p->time_ns;
		p->measure = lesser(p->measure, at[i].measure);
		p->least = lesser(p->least, at[i].fraction);
		p->less_most = lesser(p->less_most, -at[i].fraction);
	}
	for (size_t i = 0; i < s->entries.n; i++) {
		at[i].pattern_time_ns = of[at[i].pattern].time_ns;
		at[i].best |= is_best(&at[i], &of[at[i].pattern]);
	}
	mem_free(s->mem, of, patterns, sizeof(*of));
	sort_items(at, s->entries.n, sizeof(*at), newest_first);
	return PLIM_OK;
}

void ckpt_series_mark_best(struct ckpt_series *s, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		for (size_t i = 0; i < s->entries.n; i++)
			s->entries.at[i].best |= strlen(s->entries.at[i].name) == n &&
						 !memcmp(s->entries.at[i].name, path, n);
		path += n + (path[n] == '/');
	}
}

/* What a link of the folder points to, or into, is someone's choice: "best.pt", "latest". */
enum plim_status ckpt_series_mark_links(struct ckpt_series *s, struct plim_err *err)
{
	struct ckpt names_of = { 0 }; /* holds the texts of the list */
	struct folder_names names = { 0 };
	char target[4096];
	enum plim_status st;

	ckpt_init(&names_of, s->mem);
	names_of.path = s->path;
	st = folder_list(&names_of, s->dir, &names, err);
	for (size_t i = 0; !st && i < names.n; i++) {
		ssize_t n = readlinkat(s->dir, names.at[i], target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = 0;
		ckpt_series_mark_best(s, target);
	}
	vec_release(s->mem, &names);
	ckpt_close(&names_of);
	return st;
}

bool ckpt_series_is_unchanged(const struct ckpt_series *s, size_t i)
{
	return s->entries.at[i].state == series_state_of(s, s->entries.at[i].name);
}

static bool is_one_checkpoint(const struct folder_names *names)
{
	static const char *const marks[] = {
		".metadata",
		"trainer_state.json",
		"adapter_config.json",
		"optimizer.pt",
		"optimizer.bin",
		"random_states_0.pkl",
		"model.safetensors.index.json",
		"pytorch_model.bin.index.json",
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

	*s = (struct ckpt_series){ .mem = m, .path = path };
	intern_init(&s->strings, m);
	ckpt_init(&names_of, m);
	names_of.path = path;
	s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	st = s->dir < 0 ? err_errno(err, errno, "cannot open the folder '%s'", path)
			: folder_list(&names_of, s->dir, &names, err);
	for (size_t i = 0; !st && i < names.n; i++)
		st = add_series(s, names.at[i], err);
	if (!st) {
		drop_files(s);
		if (s->entries.n && !s->entries.at[0].folder && is_one_checkpoint(&names))
			st = err_set(err, PLIM_E_ARG,
				     "'%.200s' is one checkpoint, not a folder of them", path);
	}
	if (!st)
		st = put_in_order(s, err);
	if (!st)
		st = ckpt_series_mark_links(s, err);
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
	DIR *d = ckpt_entries(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	const struct dirent *e;
	enum plim_status st = PLIM_OK;

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
