/*
 * Files in a checkpoint's folder, and in the folders below it, that the folder's own reader has not opened: whoever loads the
 * folder may load them, too.  What may be unpickled, by its bytes, is judged as a file of its own: its names and its damage
 * count as the folder's.  The rest is counted.  Code that a configuration names (auto_map) is unknown.
 */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES 100000
#define DEPTH 16
#define HEAD_BYTES 4096

struct unchecked {
	struct ckpt *ckpt;
	uint8_t *opened; /* by the id of a name: the folder's reader has read the file */
	size_t names;
	size_t entries, n; /* n: files that were not checked */
	uint32_t first;
	bool more; /* than is looked at */
};

static int unchecked_by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* ---- auto_map ---- */

struct unchecked_map {
	struct ckpt *outer;
	int dir;
	const char *path; /* of the configuration */
};

/* "modeling_x.Model", or "owner/repository--modeling_x.Model": transformers imports it if remote code is trusted. */
static enum plim_status unchecked_class(const struct unchecked_map *m, const char *class,
					struct plim_err *err)
{
	char file[300];

	snprintf(file, sizeof(file), "%.*s.py", (int)strcspn(class, "."), class);
	if (!strstr(class, "--") && faccessat(m->dir, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return PLIM_OK;
	return globals_tell(m->outer, m->path, class, 0, CKPT_UNKNOWN, err);
}

static enum plim_status unchecked_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				      struct plim_err *err)
{
	struct json_token t;
	unsigned depth = 0;
	enum plim_status st = json_next(j, &t, err);

	(void)c;
	if (st || strcmp(key, "auto_map") != 0)
		return st ? st : json_skip(j, &t, err);
	do {
		depth += t.kind == JSON_OBJECT || t.kind == JSON_ARRAY;
		depth -= t.kind == JSON_OBJECT_END || t.kind == JSON_ARRAY_END;
		if (t.kind == JSON_STRING)
			st = unchecked_class(ctx, t.string, err);
		if (!st && depth)
			st = json_next(j, &t, err);
	} while (!st && depth);
	return st;
}

static enum plim_status unchecked_config(struct unchecked *u, int dir, const char *name,
					 const char *path, struct plim_err *err)
{
	struct unchecked_map map = { u->ckpt, dir, path };
	struct ckpt inner;
	enum plim_status st;

	if (strcmp(name, "config.json") != 0 && !ckpt_text_ends(name, "_config.json"))
		return PLIM_OK;
	ckpt_init(&inner, u->ckpt->mem);
	st = ckpt_text_read(&inner, dir, name, unchecked_key, &map, err);
	ckpt_close(&inner);
	return st;
}

/* ---- a file ---- */

/* What was found of a file that may be unpickled, as the folder's. */
static enum plim_status unchecked_take(struct unchecked *u, const struct ckpt *inner,
				       const char *path, struct plim_err *err)
{
	struct ckpt *c = u->ckpt;
	enum plim_status st = globals_take(c, inner, path, err);

	c->pickled |= inner->pickled;
	for (size_t i = 0; !st && !inner->unreadable && i < inner->findings.n; i++)
		if (inner->findings.at[i].severity == CKPT_BAD_FINDING)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, inner->findings.at[i].kind,
					     PLIM_UNKNOWN, err, "'%.200s': %.600s", path,
					     ckpt_text(inner, inner->findings.at[i].text));
	return st;
}

static enum plim_status unchecked_judge(struct unchecked *u, int dir, const char *name,
					const char *path, struct plim_err *err)
{
	struct ckpt *c = u->ckpt, inner;
	struct plim_err why = { 0 };
	uint8_t head[HEAD_BYTES];
	uint32_t file;
	size_t n = 0;
	enum plim_status st;

	ckpt_init(&inner, c->mem);
	inner.allow = c->allow;
	inner.path = c->path;
	st = open_file(&inner, dir, name, &file, &why);
	if (!st)
		st = ckpt_pread(&inner, file, 0, head, sizeof(head), &n, &why);
	if (st == PLIM_E_IO) { /* a link, a FIFO, or nothing that this user may read */
		ckpt_close(&inner);
		return PLIM_OK;
	}
	if (!st && open_may_unpickle(head, n)) {
		st = open_any(&inner, file, "", &why);
		if (!st)
			st = unchecked_take(u, &inner, path, &why);
		if (st == PLIM_E_FORMAT || st == PLIM_E_LIMIT || st == PLIM_E_UNSUPPORTED) {
			c->pickled = c->many_globals = true;
			st = ckpt_model_find(c, CKPT_WARN, "not_checked", PLIM_UNKNOWN, &why,
					     "'%.200s' cannot be looked at: %.600s", path,
					     why.message);
		}
	}
	if (st && err)
		*err = why;
	ckpt_close(&inner);
	return st;
}

/* ---- the tree ---- */

static enum plim_status unchecked_folder(struct unchecked *u, int dir, const char *inside,
					 unsigned depth, struct plim_err *err);

static bool unchecked_is_known(const struct unchecked *u, const char *name, const char *path)
{
	uint32_t id = intern_find(&u->ckpt->strings, path, strlen(path));

	return (id < u->names && u->opened[id]) || !strcmp(name, "plimsoll" CKPT_MANIFEST_BESIDE) ||
	       ckpt_text_ends(name, CKPT_MANIFEST_BESIDE);
}

static enum plim_status unchecked_entry(struct unchecked *u, int dir, const char *inside,
					const char *name, unsigned depth, struct plim_err *err)
{
	char path[2048];
	int below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int n = snprintf(path, sizeof(path), "%s%s%s", inside, name, below >= 0 ? "/" : "");
	enum plim_status st = PLIM_OK;

	if (n >= (int)sizeof(path) || depth == DEPTH) {
		u->more = true;
	} else if (below >= 0) {
		st = unchecked_folder(u, below, path, depth + 1, err);
	} else {
		st = unchecked_config(u, dir, name, path, err);
		if (!st && !unchecked_is_known(u, name, path)) {
			u->first = u->n++ ? u->first
					  : ckpt_model_string(u->ckpt, path, (size_t)n, &st, err);
			st = st ? st : unchecked_judge(u, dir, name, path, err);
		}
	}
	if (below >= 0)
		close(below);
	return st;
}

/* `inside`: its name within the outermost one, with a slash. */
static enum plim_status unchecked_folder(struct unchecked *u, int dir, const char *inside,
					 unsigned depth, struct plim_err *err)
{
	struct ckpt *c = u->ckpt;
	struct folder_names names = { 0 };
	DIR *d = ckpt_entries(dup(dir));
	const struct dirent *e;
	enum plim_status st = PLIM_OK;

	u->more |= !d;
	if (d)
		rewinddir(d);
	while (d && !st && (e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): a stream of our own
		uint32_t id;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		u->more |= u->entries == ENTRIES;
		if (u->more)
			break;
		u->entries++;
		id = ckpt_model_string(c, e->d_name, strlen(e->d_name), &st, err);
		if (!st)
			st = vec_push(c->mem, &names, ckpt_text(c, id), err);
	}
	if (d)
		closedir(d);
	sort_items(names.at, names.n, sizeof(*names.at), unchecked_by_text);
	for (size_t i = 0; !st && i < names.n; i++)
		st = unchecked_entry(u, dir, inside, names.at[i], depth, err);
	vec_release(c->mem, &names);
	return st;
}

static enum plim_status unchecked_tell(struct unchecked *u, struct plim_err *err)
{
	struct ckpt *c = u->ckpt;
	enum plim_status st = PLIM_OK;

	if (u->n)
		st = ckpt_model_find(c, CKPT_NOTE, "not_checked", PLIM_UNKNOWN, err,
				     "not checked: %zu file%s, %s'%.300s'; only code in %s was "
				     "looked for",
				     u->n, text_s(u->n), u->n == 1 ? "" : "the first ",
				     ckpt_text(c, u->first), u->n == 1 ? "it" : "them");
	if (st || !u->more)
		return st;
	c->pickled = c->many_globals = true;
	return ckpt_model_find(c, CKPT_WARN, "too_large", PLIM_UNKNOWN, err,
			       "the folder holds more than %d entries, folders deeper than %d, or "
			       "some that cannot be listed: not all were looked at",
			       ENTRIES, DEPTH);
}

enum plim_status unchecked_look(struct ckpt *c, int dir, struct plim_err *err)
{
	struct unchecked u = { .ckpt = c, .names = c->strings.n };
	enum plim_status st = PLIM_OK;

	u.opened = mem_new(c->mem, u.names, 1, err);
	if (!u.opened)
		return mem_status(err);
	for (size_t i = 0; i < c->files.n; i++) {
		uint32_t id =
			intern_find(&c->strings, c->files.at[i].name, strlen(c->files.at[i].name));

		if (id < u.names)
			u.opened[id] = 1;
	}
	st = unchecked_folder(&u, dir, "", 0, err);
	if (!st)
		st = unchecked_tell(&u, err);
	mem_free(c->mem, u.opened, u.names, 1);
	return st;
}
