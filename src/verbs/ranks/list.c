/* What paths hold: files, folders of files, archives. */
#include "verbs/ranks/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEEK_BYTES 4096

bool plim_ranks_several(const char *path)
{
	struct source_options how = { .window_bytes = PEEK_BYTES,
				      .thread = SOURCE_THREAD_NONE,
				      .kinds = SOURCE_REGULAR };
	struct source *s;
	struct stat info;
	struct mem m;
	bool several;

	if (!strcmp(path, "-"))
		return false;
	if (!stat(path, &info) && S_ISDIR(info.st_mode))
		return true;
	mem_init(&m, 0);
	if (source_open(&m, path, &how, &s, NULL))
		return false;
	several = !source_need(s, s->p, TAR_BLOCK_BYTES, NULL) &&
		  tar_is(s->p, (size_t)(s->end - s->p));
	source_close(s);
	return several;
}

/* ---- items ---- */

const char *ranks_keep(struct plim_ranks *k, const char *text, struct plim_err *err)
{
	return arena_copy(&k->hidden->arena, text, err);
}

/* What a row says while nothing is known. */
static void forget(struct plim_ranks_row *row)
{
	uint64_t *const unknown[] = { &row->device,
				      &row->devices,
				      &row->events,
				      &row->first_time_us,
				      &row->last_time_us,
				      &row->requested_peak_bytes,
				      &row->allocated_peak_bytes,
				      &row->reserved_peak_bytes,
				      &row->allocated_peak_range_bytes.low,
				      &row->allocated_peak_range_bytes.high,
				      &row->peak_step,
				      &row->deaths,
				      &row->leak_bytes };

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		*unknown[i] = PLIM_UNKNOWN;
}

enum plim_status ranks_add(struct plim_ranks *k, enum ranks_origin origin, const char *path,
			   const char *member, struct ranks_item **out, struct plim_err *err)
{
	struct plim_ranks_hidden *h = k->hidden;
	struct ranks_item *item;
	enum plim_status st = vec_need(&h->mem, &h->items, 1, err);

	if (!st && h->items.n >= RANKS_ITEMS_MAX)
		st = err_set(err, PLIM_E_LIMIT, "more than %d files; give fewer at once",
			     RANKS_ITEMS_MAX);
	item = st ? NULL : arena_take(&h->arena, 1, sizeof(*item), err);
	if (!item)
		return st ? st : mem_status(err);
	forget(&item->row);
	item->origin = origin;
	item->path = ranks_keep(k, path, err);
	item->member = member ? ranks_keep(k, member, err) : NULL;
	if (!item->path || (member && !item->member))
		return mem_status(err);
	if (!(h->options.report.flags & PLIM_REPORT_REDACT)) {
		item->row.path = item->path;
		item->row.member = item->member;
	}
	h->items.at[h->items.n++] = item;
	if (out)
		*out = item;
	return PLIM_OK;
}

enum plim_status ranks_skip(struct plim_ranks *k, const char *path, const char *reason,
			    struct plim_err *err)
{
	int redacts = k->hidden->options.report.flags & PLIM_REPORT_REDACT;
	struct plim_ranks_skipped *one;

	k->skipped_total++;
	if (k->skipped_count == RANKS_SKIPPED_MAX)
		return PLIM_OK;
	if (!k->skipped)
		k->skipped = arena_take(&k->hidden->arena, RANKS_SKIPPED_MAX, sizeof(*one), err);
	if (!k->skipped)
		return mem_status(err);
	one = &k->skipped[k->skipped_count++];
	one->path = redacts ? NULL : ranks_keep(k, path, err);
	one->reason = ranks_keep(k, reason, err);
	return one->reason && (redacts || one->path) ? PLIM_OK : mem_status(err);
}

/* Is it named as a recording is? */
static int is_named_so(const char *name)
{
	uint64_t number;

	return name[ranks_stem(name)] || ranks_number(name, &number);
}

/* A message without the name in front of it: the row has that. */
static const char *without_name(const char *message, const char *name)
{
	size_t n = strlen(name), quote = message[0] == '\'';
	const char *rest = message + quote + n + quote;

	if (strncmp(message + quote, name, n) || (quote && rest[-1] != '\''))
		return message;
	rest += *rest == ':';
	return *rest == ' ' ? rest + 1 : message;
}

/* "this is a log, not a memory snapshot; what to do" without the first and the last. */
static const char *cut_reason(const char *says, char *out, size_t size)
{
	static const char before[] = "this is ";

	if (!strncmp(says, before, sizeof(before) - 1))
		says += sizeof(before) - 1;
	snprintf(out, size, "%.*s", (int)strcspn(says, ";("), says);
	while (*out && out[strlen(out) - 1] == ' ')
		out[strlen(out) - 1] = 0;
	return out;
}

enum plim_status ranks_fail(struct plim_ranks *k, struct ranks_item *item, int is_other,
			    struct plim_err *err)
{
	int redacts = k->hidden->options.report.flags & PLIM_REPORT_REDACT;
	const char *says = without_name(err->message, ranks_name(item));
	char reason[200];
	struct plim_err own;

	item->other =
		item->origin != RANKS_NAMED &&
		(is_other || (err->status == PLIM_E_FORMAT && !is_named_so(ranks_name(item))));
	if (item->other && !is_other)
		says = "not a memory snapshot";
	else if (item->other)
		says = cut_reason(says, reason, sizeof(reason));
	item->row.status = err->status;
	item->row.error = ranks_keep(k, redacts ? plim_status_name(err->status) : says, &own);
	if (item->row.error)
		return PLIM_OK;
	*err = own;
	return mem_status(err);
}

/* ---- folders ---- */

struct listing {
	struct plim_ranks *k;
	struct mem *mem;
	VEC(const char *)
	names; /* of the owner; sorted, so that the order on the disk tells nothing */
};

static int by_name(const void *a, const void *b)
{
	return ranks_compare_names(*(const char *const *)a, *(const char *const *)b);
}

static enum plim_status read_names(struct listing *l, DIR *d, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	struct dirent *e;

	while (!st && (e = readdir(d)) != NULL) {
		const char *name;

		if (e->d_name[0] == '.') /* those of tools and file systems, too */
			continue;
		name = ranks_keep(l->k, e->d_name, err);
		st = name ? vec_push(l->mem, &l->names, name, err) : mem_status(err);
		if (!st && l->names.n > RANKS_ITEMS_MAX)
			st = err_set(err, PLIM_E_LIMIT, "more than %d files; give fewer at once",
				     RANKS_ITEMS_MAX);
	}
	sort_items(l->names.at, l->names.n, sizeof(*l->names.at), by_name);
	return st;
}

static const char *kind_of(mode_t mode)
{
	return S_ISLNK(mode)    ? "a link; those in folders are not followed"
	       : S_ISFIFO(mode) ? "a FIFO, no file"
	       : S_ISDIR(mode)  ? "a folder in a folder's folder"
				: "no regular file";
}

static enum plim_status list_folder(struct plim_ranks *k, int fd, const char *path, int inner,
				    struct plim_err *err);

/* `fd` is the folder `path`; `inner`: it stands in another one. */
static enum plim_status list_entry(struct plim_ranks *k, int fd, const char *path, int inner,
				   const char *name, struct plim_err *err)
{
	const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
	char whole[PATH_MAX];
	struct ranks_item *item;
	struct stat info;
	enum plim_status st;
	int folder;

	if ((size_t)snprintf(whole, sizeof(whole), "%s%s%s", path, slash, name) >= sizeof(whole))
		return ranks_skip(k, name, strerror(ENAMETOOLONG), err);
	if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW))
		return ranks_skip(k, whole, strerror(errno), err);
	if (S_ISREG(info.st_mode)) {
		st = ranks_add(k, RANKS_FOUND, whole, NULL, &item, err);
		if (!st)
			item->row.bytes = (uint64_t)info.st_size;
		return st;
	}
	if (!S_ISDIR(info.st_mode) || inner)
		return ranks_skip(k, whole, kind_of(info.st_mode), err);
	folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return ranks_skip(k, whole, strerror(errno), err);
	return list_folder(k, folder, whole, 1, err);
}

static enum plim_status list_folder(struct plim_ranks *k, int fd, const char *path, int inner,
				    struct plim_err *err)
{
	struct listing l = { .k = k, .mem = &k->hidden->mem };
	DIR *d = fdopendir(fd);
	enum plim_status st;

	if (!d) {
		st = err_errno(err, errno, "cannot read '%s'", path);
		close(fd);
		return st;
	}
	st = read_names(&l, d, err);
	for (size_t i = 0; !st && i < l.names.n; i++)
		st = list_entry(k, fd, path, inner, l.names.at[i], err);
	vec_release(l.mem, &l.names);
	closedir(d);
	return st;
}

/* ---- archives ---- */

/* The members before the damage are good. */
static enum plim_status end_damaged(struct plim_ranks *k, const char *path, struct plim_err *err)
{
	struct ranks_item *item;
	struct plim_err why = *err;
	enum plim_status st = ranks_add(k, RANKS_NAMED, path, NULL, &item, err);

	if (st)
		return st;
	item->taken = 1;
	item->row.bytes = PLIM_UNKNOWN;
	st = ranks_fail(k, item, 0, &why);
	if (st)
		*err = why;
	return st;
}

enum plim_status ranks_add_member(struct plim_ranks *k, const char *path, enum plim_status said,
				  const struct tar_member *m, struct ranks_item **out,
				  struct plim_err *err)
{
	const char *base;
	enum plim_status st;

	*out = NULL;
	if (said)
		return end_damaged(k, path, err);
	if (!m->name || m->type == TAR_FOLDER)
		return PLIM_OK;
	if (m->type != TAR_FILE)
		return ranks_skip(k, m->name,
				  m->type == TAR_LINK ? "a link in an archive"
						      : "no plain file in the archive",
				  err);
	base = strrchr(m->name, '/');
	if ((base ? base + 1 : m->name)[0] == '.')
		return PLIM_OK;
	st = ranks_add(k, RANKS_MEMBER, path, m->name, out, err);
	if (st)
		return st;
	(*out)->offset = m->offset;
	(*out)->row.bytes = m->bytes;
	return PLIM_OK;
}

/* The members of an archive that can be jumped about in; else it is read as a stream later. */
static enum plim_status list_archive(struct plim_ranks *k, const char *path, struct plim_err *err)
{
	struct source_options how = { .window_bytes = PEEK_BYTES,
				      .thread = SOURCE_THREAD_NONE,
				      .kinds = SOURCE_REGULAR };
	struct ranks_item *item;
	struct tar_member member;
	struct source *s;
	struct mem m;
	struct tar tar;
	enum plim_status st, said;

	mem_init(&m, 0);
	st = source_open(&m, path, &how, &s, err);
	if (st)
		return st;
	if (!source_is_random(s)) {
		source_close(s);
		return ranks_add(k, RANKS_STREAM, path, NULL, NULL, err);
	}
	tar_init(&tar, s);
	do {
		said = tar_next(&tar, &member, err);
		st = ranks_add_member(k, path, said, &member, &item, err);
	} while (!st && !said && member.name);
	source_close(s);
	return st;
}

static enum plim_status add_named(struct plim_ranks *k, const char *path, struct plim_err *err)
{
	struct ranks_item *item;
	struct stat info;
	enum plim_status st = ranks_add(k, RANKS_NAMED, path, NULL, &item, err);

	if (!st)
		item->row.bytes = stat(path, &info) ? PLIM_UNKNOWN : (uint64_t)info.st_size;
	return st;
}

static enum plim_status list_path(struct plim_ranks *k, const char *path, struct plim_err *err)
{
	struct stat info;
	int fd;

	if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? err_errno(err, errno, "cannot open '%s'", path)
			      : list_folder(k, fd, path, 0, err);
	}
	if (plim_ranks_several(path))
		return list_archive(k, path, err);
	return add_named(k, path, err);
}

enum plim_status ranks_list(struct plim_ranks *k, const char *const *paths, size_t n,
			    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++)
		st = list_path(k, paths[i], err);
	return st;
}
