/*
 * What is a log, and which files of a folder are one run.
 *
 * A folder that has checkpoints of Transformers is one run: of its trainer_state.json files the one that
 * went furthest is read, which holds what the others do.  Event files of one folder are one run, as are the metrics of
 * an MLflow run; every other log is a run of its own.  Links are not followed, so a search ends.
 */
#include "parts.h"

#include "wire.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define DEPTH_MAX 12

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);

	return n >= k && !strcmp(name + n - k, end);
}

/*
 * A head line of words, and behind it lines of which most have as many cells, one a whole number.  In prose such as
 * "epoch: 0, loss: 4.17" no cell is a number.
 */
static bool looks_like_csv(const char *head, size_t n)
{
	const char *line = head, *end = memchr(head, '\n', n);
	size_t columns, letters = 0, rows = 0, others = 0, numbers = 0, cells;
	char delimiter;
	bool open = false,
	     within; /* a cell goes on in the next line; the line is behind the begin of one */

	if (!end || isdigit((unsigned char)head[0]) || head[0] == '[')
		return false;
	for (const char *p = head; p < end; p++)
		letters += isalpha((unsigned char)*p) || (unsigned char)*p >= 128;
	delimiter = series_delimiter(head, (size_t)(end - head));
	columns = series_cells(head, (size_t)(end - head), delimiter, &numbers);
	if (columns < 2 || !letters || numbers)
		return false;
	while ((line = end + 1) < head + n) {
		numbers = 0;
		end = memchr(line, '\n', (size_t)(head + n - line));
		if (!end && rows + others)
			break; /* it may be cut */
		end = end ? end : head + n;
		within = open;
		open ^= series_quotes(line, (size_t)(end - line)) % 2;
		if (within)
			continue;
		cells = series_cells(line, (size_t)(end - line), delimiter, &numbers);
		if (end > line + 1 && numbers && (cells == columns || open))
			rows++;
		else if (end > line + 1)
			others++;
	}
	/* Only the head so far: it is being written, and read as text if it is not one after all. */
	return rows > others || rows + others == 0;
}

/* Of lines that begin with a whole object, do most? */
static bool looks_like_json(const char *head, size_t n)
{
	const char *line = head, *end;
	size_t objects = 0, others = 0;

	while ((end = memchr(line, '\n', (size_t)(head + n - line)))) {
		size_t k = (size_t)(end - line);

		while (k && isspace((unsigned char)line[k - 1]))
			k--;
		if (line == head && line[k - 1] != '}')
			return true; /* one document of many lines */
		objects += k && line[0] == '{' && line[k - 1] == '}';
		others += k && line[0] != '{';
		line = end + 1;
	}
	return objects >= others;
}

/* Letters, colours and what a log that was emptied while a program wrote to it begins with: where it begins; NULL: no text. */
static const uint8_t *found_text_of(const uint8_t *head, size_t n)
{
	const uint8_t *p = head;
	size_t text = 0;

	if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < head + n && !*p)
		p++;
	for (const uint8_t *c = p; c < head + n; c++)
		text += *c >= 0x20 || *c == '\n' || *c == '\t' || *c == '\r' || *c == 0x1b ||
			*c == '\b';
	if (!n || text < (size_t)(head + n - p))
		return NULL;
	while (p < head + n && isspace(*p))
		p++;
	return p;
}

/* A list of numbers, as far as it is there. */
static bool is_list(const uint8_t *p, const uint8_t *end)
{
	while (p < end && (isdigit(*p) || isspace(*p) || strchr("[],.+-eE", *p)))
		p++;
	return p == end;
}

/* An object, or a list of them; a dict that Python printed has single quotes: text. */
static bool is_json(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *q = p + 1;

	if (p < end && *p == '[' && is_list(p, end))
		return true;
	if (p >= end || (*p != '{' && (*p != '[' || q >= end || !strchr("{ \n\t\r", *q))))
		return false;
	while (q < end && isspace(*q))
		q++;
	return q < end && *q != '\'' && looks_like_json((const char *)p, (size_t)(end - p));
}

/* Text that another command reads, and that names no loss. */
static bool file_is_other(const char *name, const uint8_t *head, size_t n)
{
	const struct file_kind *kind = file_kind_of_file(name, head, n);

	return kind && kind->text && !memmem(head, n, "loss\"", 5) &&
	       (!kind->command ||
		(strcmp(kind->command, "curves") != 0 && strcmp(kind->command, "why") != 0));
}

/* `head` has a NUL behind its n bytes. */
static enum series_kind kind_of(const uint8_t *head, size_t n, const char *name)
{
	const struct file_kind *kind = file_kind_of_bytes(head, n);
	const char *slug = kind ? kind->slug : "", *metrics = strstr(name, "/metrics/");
	const uint8_t *p;

	if (!strcmp(slug, "wandb"))
		return SERIES_KIND_WANDB;
	if (wire_is_event_file(head, n))
		return SERIES_KIND_TENSORBOARD;
	if (metrics && n && isdigit(head[0]) && !strchr(metrics + 9, '.'))
		return SERIES_KIND_MLFLOW;
	p = found_text_of(head, n);
	if (!p || file_is_other(name, head, n))
		return SERIES_KIND_UNKNOWN;
	if (is_json(p, head + n))
		return ends_with(name, "trainer_state.json") ? SERIES_KIND_TRAINER_STATE
							     : SERIES_KIND_JSON;
	return looks_like_csv((const char *)p, (size_t)(head + n - p)) ? SERIES_KIND_CSV
								       : SERIES_KIND_TEXT;
}

enum series_kind series_recognise(const uint8_t *bytes, size_t n, const char *path)
{
	uint8_t head[SERIES_HEAD + 1];
	char name[4096];
	size_t length = file_plain_length(path);

	n = n < SERIES_HEAD ? n : SERIES_HEAD;
	memcpy(head, bytes, n);
	head[n] = 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(length < 4000 ? length : 4000), path);
	return kind_of(head, n, name);
}

/* ---- a folder ---- */

struct entry {
	uint32_t run, path; /* texts */
	enum series_kind kind;
	uint64_t step; /* of a trainer_state: its checkpoint's; UINT64_MAX: the run's own */
	bool dropped;
};

struct search {
	struct mem *mem;
	struct intern texts;
	VEC(struct entry) entries;
	uint64_t left_out;
	struct plim_err *err;
};

/* Only what is likely to be one, by name, is opened: a folder of a run holds gigabytes of other things. */
static bool may_be_log(const char *path, const char *name)
{
	static const char *const ends[] = { ".jsonl", ".ndjson", ".csv",   ".tsv",
					    ".log",   ".out",    ".wandb", ".txt" };
	static const char *const not_logs[] = { "requirements.txt",   "README.txt",  "vocab.txt",
						"merges.txt",         "LICENSE.txt", "debug.log",
						"debug-internal.log", NULL };

	for (size_t i = 0; not_logs[i]; i++)
		if (!strcmp(name, not_logs[i]))
			return false;
	if (strstr(name, "tfevents") || strstr(path, "/metrics/"))
		return true;
	if (!strcmp(name, "trainer_state.json") || !strcmp(name, "metrics.json") ||
	    !strcmp(name, "history.json") || !strcmp(name, "log.json") ||
	    !strcmp(name, "training_log.json") || !strcmp(name, "log_history.json"))
		return true;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends_with(name, ends[i]))
			return true;
	return false;
}

static bool may_be_packed_log(const char *path, const char *name)
{
	size_t n = file_plain_length(name);
	char plain[256];

	(void)snprintf(plain, sizeof(plain), "%.*s", (int)(n < 255 ? n : 255), name);
	return may_be_log(path, plain);
}

static enum series_kind look_at_found(struct mem *m, const char *path)
{
	struct source_options options = { .thread = SOURCE_THREAD_NONE,
					  .kinds = SOURCE_REGULAR_HERE };
	enum series_kind kind = SERIES_KIND_UNKNOWN;
	struct source *s;
	struct plim_err ignored;

	if (source_open(m, path, &options, &s, &ignored))
		return kind;
	if (!source_need(s, s->p, SERIES_HEAD, &ignored) || s->end > s->p)
		kind = series_recognise(s->p, (size_t)(s->end - s->p), path);
	source_close(s);
	return kind;
}

static uint64_t step_of_folder(const char *folder)
{
	const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;

	return strncmp(name, "checkpoint-", 11) ? UINT64_MAX : strtoull(name + 11, NULL, 10);
}

static enum plim_status add_found(struct search *s, const char *folder, const char *path,
				  enum series_kind kind)
{
	struct entry e = { .kind = kind, .step = UINT64_MAX };
	char run[4096];
	const char *cut;
	enum plim_status st;

	snprintf(run, sizeof(run), "%s", folder);
	if (kind == SERIES_KIND_TRAINER_STATE) {
		e.step = step_of_folder(folder);
		if (e.step != UINT64_MAX && strrchr(run, '/'))
			*strrchr(run, '/') = 0;
	}
	cut = kind == SERIES_KIND_MLFLOW ? strstr(run, "/metrics") : NULL;
	if (cut)
		run[cut - run] = 0;
	st = intern_add(&s->texts, run, strlen(run), &e.run, s->err);
	if (!st)
		st = intern_add(&s->texts, path, strlen(path), &e.path, s->err);
	return st ? st : vec_push(s->mem, &s->entries, e, s->err);
}

static int not_dots(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

static enum plim_status walk_found(struct search *s, const char *folder, unsigned depth)
{
	struct dirent **list;
	int n = scandir(folder, &list, not_dots, alphasort);
	enum plim_status st = PLIM_OK;

	if (n < 0)
		return depth ? PLIM_OK : err_errno(s->err, errno, "cannot open '%s'", folder);
	for (int i = 0; i < n; i++) {
		char path[4096];
		struct stat x;
		enum series_kind kind;

		if (st ||
		    (size_t)snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name) >=
			    sizeof(path) ||
		    lstat(path, &x)) {
			free(list[i]);
			continue;
		}
		if (S_ISDIR(x.st_mode) && depth < DEPTH_MAX) {
			st = walk_found(s, path, depth + 1);
		} else if (S_ISREG(x.st_mode) && may_be_packed_log(path, list[i]->d_name)) {
			kind = look_at_found(s->mem, path);
			if (kind)
				st = add_found(s, folder, path, kind);
		}
		free(list[i]);
	}
	free(list);
	return st;
}

/* Of the states of one run only the furthest; and of a run that has one, no event files below it. */
static void drop_doubles(struct search *s)
{
	for (size_t i = 0; i < s->entries.n; i++) {
		struct entry *a = &s->entries.at[i];
		const char *run = intern_text(&s->texts, a->run);
		size_t n = strlen(run);

		if (a->kind != SERIES_KIND_TRAINER_STATE || a->dropped)
			continue;
		for (size_t j = 0; j < s->entries.n; j++) {
			struct entry *b = &s->entries.at[j];
			const char *other = intern_text(&s->texts, b->run);

			if (i == j || b->dropped)
				continue;
			if (b->kind == SERIES_KIND_TRAINER_STATE && b->run == a->run) {
				struct entry *less = b->step <= a->step ? b : a;

				less->dropped = true;
				if (less == a)
					break;
			} else if (b->kind == SERIES_KIND_TENSORBOARD && !strncmp(other, run, n) &&
				   (!other[n] || other[n] == '/')) {
				b->dropped = true;
				s->left_out++;
			}
		}
	}
}

enum plim_status series_search(struct mem *m, const char *folder, series_found_fn *found, void *ctx,
			       uint64_t *left_out, struct plim_err *err)
{
	struct search s = { .mem = m, .err = err };
	char top[4096];
	size_t n = (size_t)snprintf(top, sizeof(top), "%s", folder);
	enum plim_status st;

	if (n >= sizeof(top))
		return err_set(err, PLIM_E_ARG, "the path is too long");
	while (n > 1 && top[n - 1] == '/')
		top[--n] = 0;
	intern_init(&s.texts, m);
	st = walk_found(&s, top, 0);
	drop_doubles(&s);
	for (size_t i = 0; !st && i < s.entries.n; i++) {
		const struct entry *e = &s.entries.at[i];

		if (!e->dropped)
			st = found(ctx, intern_text(&s.texts, e->run),
				   intern_text(&s.texts, e->path), e->kind, err);
	}
	*left_out += s.left_out;
	vec_release(m, &s.entries);
	intern_release(&s.texts);
	return st;
}

/* ---- checkpoints ---- */

/* The step that a name shows: checkpoint-500, epoch=3-step=32.ckpt, step_100.pt, iter_0001000, global_step500, ckpt_4000.pt. */
static double step_of_name(const char *name)
{
	static const char *const words[] = { "step", "iter", "checkpoint", "ckpt" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		const char *at = strstr(name, words[i]);

		if (!at)
			continue;
		at += strlen(words[i]);
		if (!strncmp(at, "ation", 5))
			at += 5;
		at += strspn(at, "=_-");
		if (isdigit((unsigned char)*at))
			return (double)strtoull(at, NULL, 10);
	}
	return NAN;
}

struct nearest {
	double step, at;
	unsigned
		folders; /* within the log's, that have one: of two it is not known which is this run's */
	char path[4096];
};

static bool is_checkpoint(const char *name, bool folder)
{
	static const char *const ends[] = { ".pt",          ".pth", ".ckpt",  ".bin",
					    ".safetensors", ".tar", ".keras", ".h5" };

	if (folder)
		return true;
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (ends_with(name, ends[i]))
			return true;
	return false;
}

/* In the log's folder, and in those within it. */
static void look_for(struct nearest *best, const char *folder, bool within)
{
	struct dirent **list;
	int n = scandir(folder, &list, not_dots, alphasort);

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		char path[4096];
		struct stat x;
		double step;

		if ((size_t)snprintf(path, sizeof(path), "%s/%s", folder, name) < sizeof(path) &&
		    !lstat(path, &x) && (S_ISREG(x.st_mode) || S_ISDIR(x.st_mode))) {
			step = step_of_name(name);
			if (is_checkpoint(name, S_ISDIR(x.st_mode)) && step <= best->step &&
			    !(step <= best->at)) {
				best->at = step;
				snprintf(best->path, sizeof(best->path), "%s", path);
			} else if (S_ISDIR(x.st_mode) && isnan(step) && !within) {
				struct nearest inner = { .step = best->step, .at = NAN };

				look_for(&inner, path, true);
				best->folders += !isnan(inner.at);
				if (!(inner.at <= best->at) && !isnan(inner.at)) {
					best->at = inner.at;
					memcpy(best->path, inner.path, sizeof(inner.path));
				}
			}
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

enum plim_status series_checkpoint(struct mem *m, struct intern *texts, const char *folder,
				   double step, const char **path, double *at, struct plim_err *err)
{
	struct nearest *best = mem_new(m, 1, sizeof(*best), err);
	uint32_t id;
	enum plim_status st = PLIM_OK;

	*path = NULL;
	*at = NAN;
	if (!best)
		return mem_status(err);
	best->step = step;
	best->at = NAN;
	look_for(best, folder, false);
	if (!isnan(best->at) && best->folders < 2) {
		st = intern_add(texts, best->path, strlen(best->path), &id, err);
		*path = st ? NULL : intern_text(texts, id);
		*at = best->at;
	}
	mem_free(m, best, 1, sizeof(*best));
	return st;
}
