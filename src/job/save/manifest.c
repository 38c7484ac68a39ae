/*
 * Manifests of checkpoints: what vouches for the files of a folder, and what is reported of it when folders are listed.
 *
 *	{"schema": "manifest/1", "version": "0.2.0", "step": 1000, "order": 7, "metric": 0.25, "world": 1,
 *	 "files": [{"name": "model.safetensors", "bytes": 123, "xxh3": "0123456789abcdef"}]}
 *
 * `ckpt verify` reads the same file, for its sums.
 */
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_BYTES ((off_t)64 << 20)
#define FIRST "step-"

/* ---- reading ---- */

static bool is_plain(const char *name)
{
	return strlen(name) < SAVE_NAME &&
	       (!strcmp(name, SAVE_METADATA) || (*name && *name != '.' && !strchr(name, '/')));
}

static enum plim_status read_rows(struct mem *m, struct json *j, struct manifest *x,
				  struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	while (!st && t.kind == JSON_OBJECT) {
		struct manifest_row row;

		st = manifest_row_read(j, &t, &row, err);
		if (!st && !is_plain(row.name))
			st = err_at(err, t.offset, "'%.200s' is not the name of a file", row.name);
		if (!st && x->rows.n == MANIFEST_ROWS)
			st = err_at(err, t.offset, "more than %d files", MANIFEST_ROWS);
		if (!st)
			st = vec_push(m, &x->rows, row, err);
		if (!st)
			st = json_next(j, &t, err);
	}
	return st || t.kind == JSON_ARRAY_END ? st : err_at(err, t.offset, "a file is an object");
}

struct reading {
	struct mem *mem;
	struct manifest *to;
};

static enum plim_status read_saved_member(void *ctx, struct json *j, const char *key,
					  struct plim_err *err)
{
	const struct reading *r = ctx;
	struct manifest *x = r->to;
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = { { "step", &x->step }, { "order", &x->order }, { "world", &x->world } };
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (st)
		return st;
	if (!strcmp(key, "files") && t.kind == JSON_ARRAY && !x->rows.n)
		return read_rows(r->mem, j, x, err);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!strcmp(key, numbers[i].key) && json_get_u64(&t, numbers[i].to))
			return PLIM_OK;
	if (!strcmp(key, "metric") && (t.kind == JSON_DOUBLE || t.kind == JSON_INTEGER)) {
		x->metric = isfinite(t.number) ? t.number : NAN;
		return PLIM_OK;
	}
	return json_skip(j, &t, err);
}

static enum plim_status read_saved_object(struct mem *m, struct json *j, struct manifest *x,
					  struct plim_err *err)
{
	struct reading r = { m, x };
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (!st)
		st = json_members(j, &t, read_saved_member, &r, err);
	if (!st)
		st = json_next(j, &t, err);
	return st;
}

enum plim_status manifest_of(struct mem *m, const void *bytes, size_t n, struct manifest *out,
			     struct plim_err *err)
{
	struct source *source;
	struct json j;
	enum plim_status st = source_open_memory(m, SAVE_MANIFEST, bytes, n, SOURCE_MEMORY_PLAIN,
						 NULL, &source, err);

	*out = (struct manifest){ .step = PLIM_UNKNOWN, .metric = NAN };
	if (st)
		return st;
	st = json_init(&j, m, source, JSON_ONE, err);
	if (!st) {
		st = read_saved_object(m, &j, out, err);
		json_release(&j);
	}
	source_close(source);
	if (!st && (out->step == PLIM_UNKNOWN || !out->rows.n))
		st = err_set(err, PLIM_E_FORMAT, "a manifest without step or files");
	return st;
}

enum plim_status manifest_load(struct mem *m, int dir, const char *name, struct manifest *out,
			       struct plim_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat info = { 0 };
	uint8_t *bytes = NULL;
	enum plim_status st = PLIM_OK;

	*out = (struct manifest){ .step = PLIM_UNKNOWN, .metric = NAN };
	if (fd < 0 || fstat(fd, &info))
		st = err_errno(err, errno, "cannot open '%s'", name);
	else if (!S_ISREG(info.st_mode) || info.st_size < 1 || info.st_size > MANIFEST_BYTES)
		st = err_set(err, PLIM_E_FORMAT, "'%s' is not a manifest", name);
	if (!st) {
		bytes = mem_new(m, (size_t)info.st_size, 1, err);
		st = bytes ? PLIM_OK : mem_status(err);
	}
	if (!st && pread(fd, bytes, (size_t)info.st_size, 0) != info.st_size)
		st = err_set(err, PLIM_E_IO, "cannot read '%s'", name);
	if (!st)
		st = manifest_of(m, bytes, (size_t)info.st_size, out, err);
	mem_free(m, bytes, (size_t)info.st_size, 1);
	if (fd >= 0)
		close(fd);
	return st;
}

void manifest_release(struct mem *m, struct manifest *x)
{
	vec_release(m, &x->rows);
}

/* ---- writing ---- */

enum plim_status manifest_store(struct mem *m, const char *path, const struct manifest *x,
				struct plim_err *err)
{
	struct manifest_out o;

	manifest_begin(&o, m);
	json_u64(&o.json, "step", x->step);
	json_u64(&o.json, "order", x->order);
	json_double(&o.json, "metric", x->metric);
	json_u64(&o.json, "world", x->world);
	manifest_files(&o);
	for (size_t i = 0; i < x->rows.n; i++)
		manifest_file(&o, x->rows.at[i].name, x->rows.at[i].bytes, x->rows.at[i].xxh3);
	return manifest_end(&o, m, path, err);
}

/* ---- the checkpoints of a folder ---- */

static bool saved_is_whole(int dir, const struct manifest *x)
{
	struct stat info;

	for (size_t i = 0; i < x->rows.n; i++)
		if (fstatat(dir, x->rows.at[i].name, &info, 0) || !S_ISREG(info.st_mode) ||
		    (uint64_t)info.st_size != x->rows.at[i].bytes)
			return false;
	return true;
}

static enum plim_status add_saved(struct mem *m, struct save_list *x, const char *name,
				  struct plim_saved saved, struct plim_err *err)
{
	char *copy = mem_new(m, strlen(name) + 1, 1, err);
	enum plim_status st = copy ? PLIM_OK : mem_status(err);

	if (!st)
		st = vec_need(m, &x->names, 1, err);
	if (!st)
		st = vec_need(m, &x->entries, 1, err);
	if (st) {
		mem_free(m, copy, strlen(name) + 1, 1);
		return st;
	}
	memcpy(copy, name, strlen(name) + 1);
	saved.name = copy;
	x->names.at[x->names.n++] = copy;
	x->entries.at[x->entries.n++] = saved;
	return PLIM_OK;
}

/* What cannot be read is not a checkpoint; only memory is an error. */
static enum plim_status look_at_saved(struct mem *m, int dir, const char *name, struct save_list *x,
				      struct plim_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct plim_err why = { 0 };
	struct manifest found = { 0 };
	enum plim_status st =
		fd < 0 ? PLIM_E_IO : manifest_load(m, fd, SAVE_MANIFEST, &found, &why);

	if (!st) {
		struct plim_saved saved = { .step = found.step,
					    .order = found.order,
					    .metric = found.metric,
					    .world = found.world,
					    .whole = saved_is_whole(fd, &found) };

		for (size_t i = 0; i < found.rows.n; i++)
			saved.bytes += found.rows.at[i].bytes;
		st = add_saved(m, x, name, saved, err);
	} else if (st == PLIM_E_NOMEM || st == PLIM_E_LIMIT) {
		(void)err_set(err, st, "%s", why.message);
	} else {
		st = PLIM_OK;
	}
	manifest_release(m, &found);
	if (fd >= 0)
		close(fd);
	return st;
}

static int in_order(const void *a, const void *b)
{
	const struct plim_saved *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return strcmp(x->name, y->name);
}

enum plim_status save_list(struct mem *m, int dir, bool maximize, struct save_list *out,
			   struct plim_err *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	struct plim_saved *best = NULL;
	enum plim_status st = PLIM_OK;

	if (!d)
		st = err_errno(err, errno, "cannot list a folder of checkpoints");
	if (!d && fd >= 0)
		close(fd);
	while (!st && (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (!strncmp(e->d_name, FIRST, strlen(FIRST)))
			st = look_at_saved(m, dir, e->d_name, out, err);
	if (d)
		closedir(d);
	sort_items(out->entries.at, out->entries.n, sizeof(*out->entries.at), in_order);
	for (size_t i = 0; i < out->entries.n; i++) {
		struct plim_saved *x = &out->entries.at[i];

		if (x->whole && !isnan(x->metric) &&
		    (!best || (maximize ? x->metric > best->metric : x->metric < best->metric)))
			best = x;
	}
	if (best)
		best->best = true;
	return st;
}

void save_list_release(struct mem *m, struct save_list *x)
{
	for (size_t i = 0; i < x->names.n; i++)
		mem_free(m, x->names.at[i], strlen(x->names.at[i]) + 1, 1);
	vec_release(m, &x->names);
	vec_release(m, &x->entries);
}
