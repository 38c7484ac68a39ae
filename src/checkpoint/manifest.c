/*
 * Manifests: sizes and XXH3 sums of files, which vouch for bytes that have no checksum of their own.
 *
 *	{"schema": "manifest/1", "version": "0.2.0",
 *	 "files": [{"name": "model.safetensors", "bytes": 123, "xxh3": "0123456789abcdef"}]}
 *
 * That of a file stands next to it, that of a folder in it.  A sum finds accidents, not forgery.  While a file is
 * replaced its manifest names both, the old one and the new one, and is right for either.
 */
#include "parts.h"

#include <plimsoll/status.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define INSIDE "plimsoll.manifest.json"
#define TEMPORARY ".plimsoll." /* begins names that a durable write uses */
#define READ_BYTES ((size_t)1 << 20)
#define VERSIONS 8 /* of one file, in a manifest next to it */

struct sum {
	const char *name;
	uint64_t bytes, xxh3;
};

/* `path` with something behind it: freed with mem_free(m, *out, *size, 1). */
static enum plim_status join_manifest(struct mem *m, const char *path, const char *more, char **out,
				      size_t *size, struct plim_err *err)
{
	*size = strlen(path) + strlen(more) + 1;
	*out = mem_new(m, *size, 1, err);
	if (!*out)
		return mem_status(err);
	snprintf(*out, *size, "%s%s", path, more);
	return PLIM_OK;
}

/* ---- writing ---- */

void manifest_begin(struct manifest_out *o, struct mem *m)
{
	text_init(&o->text, m, NULL);
	json_out_init(&o->json, &o->text, JSON_PRETTY, NULL);
	json_object(&o->json, NULL, JSON_LINES);
	json_string(&o->json, "schema", "manifest/1");
	json_string(&o->json, "version", plim_version());
}

void manifest_files(struct manifest_out *o)
{
	json_array(&o->json, "files", JSON_LINES);
}

void manifest_file(struct manifest_out *o, const char *name, uint64_t bytes, uint64_t xxh3)
{
	char hex[17];

	snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)xxh3);
	json_object(&o->json, NULL, JSON_LINE);
	json_string(&o->json, "name", name);
	json_u64(&o->json, "bytes", bytes);
	json_string(&o->json, "xxh3", hex);
	json_object_end(&o->json);
}

enum plim_status manifest_end(struct manifest_out *o, struct mem *m, const char *path,
			      struct plim_err *err)
{
	enum plim_status st;

	json_array_end(&o->json);
	json_object_end(&o->json);
	st = json_out_finish(&o->json, err);
	if (!st)
		st = durable_put(m, path, text_get(&o->text), o->text.n, err);
	text_release(&o->text);
	return st;
}

static enum plim_status write_sums(struct mem *m, const char *path, const struct sum *at, size_t n,
				   struct plim_err *err)
{
	struct manifest_out o;

	manifest_begin(&o, m);
	manifest_files(&o);
	for (size_t i = 0; i < n; i++)
		manifest_file(&o, at[i].name, at[i].bytes, at[i].xxh3);
	return manifest_end(&o, m, path, err);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

enum plim_status manifest_write_beside(struct mem *m, const char *path, uint64_t bytes,
				       uint64_t xxh3, struct plim_err *err)
{
	const struct sum one = { base_name(path), bytes, xxh3 };
	size_t size;
	char *full;
	enum plim_status st = join_manifest(m, path, CKPT_MANIFEST_BESIDE, &full, &size, err);

	if (!st)
		st = write_sums(m, full, &one, 1, err);
	mem_free(m, full, size, 1);
	return st;
}

static enum plim_status announce(struct mem *m, const struct ckpt *old, struct sum new,
				 struct plim_err *err)
{
	struct sum versions[VERSIONS];
	size_t n = 0, size;
	char *full;
	enum plim_status st;

	if (!old->seals.n)
		return PLIM_OK; /* one that no one can read vouches for nothing */
	if (old->seals.n == VERSIONS)
		return manifest_remove(m, old->path, err);
	for (; n < old->seals.n; n++)
		versions[n] =
			(struct sum){ new.name, old->seals.at[n].bytes, old->seals.at[n].xxh3 };
	versions[n++] = new;
	st = join_manifest(m, old->path, CKPT_MANIFEST_BESIDE, &full, &size, err);
	if (!st)
		st = write_sums(m, full, versions, n, err);
	mem_free(m, full, size, 1);
	return st;
}

enum plim_status manifest_announce(struct mem *m, const char *path, uint64_t bytes, uint64_t xxh3,
				   struct plim_err *err)
{
	const struct sum new = { base_name(path), bytes, xxh3 };
	struct ckpt old;
	enum plim_status st;

	ckpt_init(&old, m);
	old.path = path;
	st = manifest_read(&old, AT_FDCWD, err);
	if (!st)
		st = announce(m, &old, new, err);
	ckpt_close(&old);
	return st;
}

enum plim_status manifest_remove(struct mem *m, const char *path, struct plim_err *err)
{
	size_t size;
	char *full;
	enum plim_status st = join_manifest(m, path, CKPT_MANIFEST_BESIDE, &full, &size, err);

	if (!st && unlink(full) && errno != ENOENT)
		st = err_errno(err, errno, "cannot remove the old manifest '%s'", full);
	mem_free(m, full, size, 1);
	return st;
}

/* ---- sums ---- */

static enum plim_status sum_file(const struct ckpt *c, uint32_t file, struct sum *s,
				 struct plim_err *err)
{
	uint8_t *room = mem_new(c->mem, READ_BYTES, 1, err);
	XXH3_state_t *hash = XXH3_createState();
	size_t got = 1;
	enum plim_status st = room ? PLIM_OK : mem_status(err);

	*s = (struct sum){ .name = c->files.at[file].name };
	if (!st && !hash)
		st = err_set(err, PLIM_E_NOMEM, "out of memory");
	if (!st)
		XXH3_64bits_reset(hash);
	while (!st && got) {
		st = ckpt_pread(c, file, s->bytes, room, READ_BYTES, &got, err);
		if (!st)
			XXH3_64bits_update(hash, room, got);
		s->bytes += got;
	}
	if (!st)
		s->xxh3 = XXH3_64bits_digest(hash);
	XXH3_freeState(hash);
	mem_free(c->mem, room, READ_BYTES, 1);
	return st;
}

/* ---- reading ---- */

/* A file that the checkpoint has open, or one of its folder; CKPT_NONE when it is not there. */
static enum plim_status find_file(struct ckpt *c, int dir, const char *name, uint32_t *file,
				  struct plim_err *err)
{
	struct plim_err why = { 0 };
	enum plim_status st;

	for (*file = 0; *file < c->files.n; ++*file)
		if (!strcmp(c->files.at[*file].name, name))
			return PLIM_OK;
	st = strchr(name, '/') ? PLIM_E_IO : open_file(c, dir, name, file, &why);
	if (st != PLIM_E_IO) {
		if (st && err)
			*err = why;
		return st;
	}
	*file = CKPT_NONE;
	return ckpt_model_find(c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
			       "'%.200s', which the manifest names, is missing or cannot be read",
			       name);
}

struct row {
	struct manifest_row *to;
	unsigned seen;
};

static enum plim_status row_member(void *ctx, struct json *j, const char *key, struct plim_err *err)
{
	struct row *row = ctx;
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (st)
		return st;
	if (!strcmp(key, "name") && t.kind == JSON_STRING && t.n < MANIFEST_NAME &&
	    strlen(t.string) == t.n) {
		memcpy(row->to->name, t.string, t.n + 1);
		row->seen |= 1;
	} else if (!strcmp(key, "bytes") && json_get_u64(&t, &row->to->bytes)) {
		row->seen |= 2;
	} else if (!strcmp(key, "xxh3") && t.kind == JSON_STRING && t.n == 16 &&
		   strspn(t.string, "0123456789abcdef") == 16) {
		row->to->xxh3 = strtoull(t.string, NULL, 16);
		row->seen |= 4;
	} else {
		st = json_skip(j, &t, err);
	}
	return st;
}

enum plim_status manifest_row_read(struct json *j, const struct json_token *first,
				   struct manifest_row *out, struct plim_err *err)
{
	struct row row = { .to = out };
	uint64_t at = first->offset;
	enum plim_status st = json_members(j, first, row_member, &row, err);

	if (!st && row.seen != 7)
		st = err_at(err, at, "a file without name, bytes or xxh3");
	return st;
}

/* One file's object, which begins with `first`. */
static enum plim_status read_manifest_row(struct ckpt *c, int dir, struct json *j,
					  const struct json_token *first, struct plim_err *err)
{
	struct manifest_row row;
	struct ckpt_seal seal = {
		.file = 0
	}; /* it stands next to this one, whatever that was named then */
	enum plim_status st = manifest_row_read(j, first, &row, err);

	if (!st && dir != AT_FDCWD)
		st = find_file(c, dir, row.name, &seal.file, err);
	if (st || seal.file == CKPT_NONE)
		return st;
	seal.bytes = row.bytes;
	seal.xxh3 = row.xxh3;
	return vec_push(c->mem, &c->seals, seal, err);
}

static enum plim_status manifest_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				     struct plim_err *err)
{
	const int *dir = ctx;
	size_t n = 0;
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (st || strcmp(key, "files") != 0 || t.kind != JSON_ARRAY)
		return st ? st : json_skip(j, &t, err);
	while (!st) {
		st = json_next(j, &t, err);
		if (st || t.kind == JSON_ARRAY_END)
			break;
		if (t.kind != JSON_OBJECT || n++ == MANIFEST_ROWS ||
		    (*dir == AT_FDCWD && n > VERSIONS))
			return err_at(err, t.offset, "files must be a list of objects, one a file");
		st = read_manifest_row(c, *dir, j, &t, err);
	}
	return st;
}

enum plim_status manifest_read(struct ckpt *c, int dir, struct plim_err *err)
{
	char *path = NULL;
	size_t size = 0;
	struct stat info;
	enum plim_status st = PLIM_OK;

	if (dir == AT_FDCWD)
		st = join_manifest(c->mem, c->path, CKPT_MANIFEST_BESIDE, &path, &size, err);
	if (!st && !fstatat(dir, path ? path : INSIDE, &info, AT_SYMLINK_NOFOLLOW) &&
	    S_ISREG(info.st_mode))
		st = ckpt_text_read(c, dir, path ? path : INSIDE, manifest_key, &dir, err);
	mem_free(c->mem, path, size, 1);
	return st;
}

static enum plim_status tell_mismatch(struct ckpt *c, const struct ckpt_seal *seal,
				      struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[seal->file];

	if (f->bytes != seal->bytes)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "manifest", PLIM_UNKNOWN, err,
			"'%.200s' has %llu bytes, its manifest says %llu: damaged, or "
			"written anew since",
			f->name, (unsigned long long)f->bytes, (unsigned long long)seal->bytes);
	return ckpt_model_find(
		c, CKPT_BAD_FINDING, "manifest", PLIM_UNKNOWN, err,
		"'%.200s' has another sum than its manifest says, %016llx: damaged, or "
		"written anew since",
		f->name, (unsigned long long)seal->xxh3);
}

enum plim_status manifest_check(struct ckpt *c, struct plim_err *err)
{
	struct sum s = { 0 };
	uint32_t summed = CKPT_NONE; /* the file that s is of */
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->seals.n; i++) {
		const struct ckpt_seal *seal = &c->seals.at[i];
		struct ckpt_file *f = &c->files.at[seal->file];

		if (f->sealed || f->bytes != seal->bytes)
			continue;
		if (summed != seal->file)
			st = sum_file(c, seal->file, &s, err);
		summed = seal->file;
		f->sealed = !st && s.bytes == seal->bytes && s.xxh3 == seal->xxh3;
	}
	/* Of several versions of a file one must match; the last shows. */
	for (size_t i = 0; !st && i < c->seals.n; i++)
		if (!c->files.at[c->seals.at[i].file].sealed &&
		    (i + 1 == c->seals.n || c->seals.at[i + 1].file != c->seals.at[i].file))
			st = tell_mismatch(c, &c->seals.at[i], err);
	return st;
}

/* ---- sealing ---- */

/* Open what else is in the folder: a config that changed is no longer the same checkpoint. */
static enum plim_status open_rest(struct ckpt *c, int dir, struct plim_err *err)
{
	struct folder_names names = { 0 };
	struct stat info;
	uint32_t file;
	enum plim_status st = folder_list(c, dir, &names, err);

	for (size_t i = 0; !st && i < names.n; i++) {
		const char *name = names.at[i];

		if (!strcmp(name, INSIDE) || !strncmp(name, TEMPORARY, strlen(TEMPORARY)) ||
		    fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode))
			continue;
		for (file = 0; file < c->files.n && strcmp(c->files.at[file].name, name) != 0;)
			file++;
		if (file == c->files.n)
			st = open_file(c, dir, name, &file, err);
	}
	vec_release(c->mem, &names);
	return st;
}

/* The sums of all files that are open, without the manifest's own; sorted as they were opened. */
static enum plim_status sum_all(const struct ckpt *c, bool folder, struct sum *at, size_t *n,
				struct ckpt_sealed *told, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; !st && i < (folder ? c->files.n : 1); i++) {
		if (folder && !strcmp(c->files.at[i].name, INSIDE))
			continue;
		st = sum_file(c, i, &at[*n], err);
		told->files++;
		told->bytes += at[(*n)++].bytes;
	}
	return st;
}

enum plim_status ckpt_seal(struct ckpt *c, struct ckpt_sealed *told, struct plim_err *err)
{
	int dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool folder = dir >= 0;
	struct sum *at = NULL;
	size_t n = 0, room = 0, size;
	char *path;
	enum plim_status st = folder ? open_rest(c, dir, err) : PLIM_OK;

	*told = (struct ckpt_sealed){ 0 };
	if (!st) {
		room = c->files.n;
		at = mem_new(c->mem, room, sizeof(*at), err);
		st = at ? sum_all(c, folder, at, &n, told, err) : mem_status(err);
	}
	if (!st && !folder) {
		st = manifest_write_beside(c->mem, c->path, at->bytes, at->xxh3, err);
	} else if (!st) {
		st = join_manifest(c->mem, c->path, "/" INSIDE, &path, &size, err);
		if (!st)
			st = write_sums(c->mem, path, at, n, err);
		mem_free(c->mem, path, size, 1);
	}
	mem_free(c->mem, at, room, sizeof(*at));
	if (folder)
		close(dir);
	return st;
}
