/* What paths hold: files, folders of files, archives. */
#include "set.h"

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
	if (set_is_digest(path))
		return true;
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

const char *set_keep(struct recording_set *s, const char *text, struct plim_err *err)
{
	return arena_copy(s->arena, text, err);
}

/* What a row says while nothing is known. */
static void forget_listed(struct plim_ranks_row *row)
{
	uint64_t *const unknown[] = { &row->rank,
				      &row->device,
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
				      &row->leak_bytes,
				      &row->steps };

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++)
		*unknown[i] = PLIM_UNKNOWN;
}

enum plim_status set_add(struct recording_set *s, enum set_origin origin, const char *path,
			 const char *member, struct set_item **out, struct plim_err *err)
{
	struct set_item *item;
	enum plim_status st = vec_need(s->mem, &s->items, 1, err);

	if (!st && s->items.n >= SET_ITEMS_MAX)
		st = err_set(err, PLIM_E_LIMIT, "more than %d files; give fewer at once",
			     SET_ITEMS_MAX);
	item = st ? NULL : arena_take(s->arena, 1, sizeof(*item), err);
	if (!item)
		return st ? st : mem_status(err);
	forget_listed(&item->row);
	item->origin = origin;
	item->path = set_keep(s, path, err);
	item->member = member ? set_keep(s, member, err) : NULL;
	if (!item->path || (member && !item->member))
		return mem_status(err);
	if (!(s->options->report.flags & PLIM_REPORT_REDACT)) {
		item->row.path = item->path;
		item->row.member = item->member;
	}
	s->items.at[s->items.n++] = item;
	if (out)
		*out = item;
	return PLIM_OK;
}

enum plim_status set_skip(struct recording_set *s, const char *path, const char *reason,
			  struct plim_err *err)
{
	int redacts = s->options->report.flags & PLIM_REPORT_REDACT;
	struct plim_ranks_skipped *one;

	s->out->skipped_total++;
	if (s->out->skipped_count == SET_SKIPPED_MAX)
		return PLIM_OK;
	if (!s->out->skipped)
		s->out->skipped = arena_take(s->arena, SET_SKIPPED_MAX, sizeof(*one), err);
	if (!s->out->skipped)
		return mem_status(err);
	one = &s->out->skipped[s->out->skipped_count++];
	one->path = redacts ? NULL : set_keep(s, path, err);
	one->reason = set_keep(s, reason, err);
	return one->reason && (redacts || one->path) ? PLIM_OK : mem_status(err);
}

/* Is it named as a recording is? */
static int is_named_so(const char *name)
{
	uint64_t number;

	return name[recording_set_stem(name)] || set_number(name, &number);
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

enum plim_status set_fail(struct recording_set *s, struct set_item *item, int is_other,
			  struct plim_err *err)
{
	int redacts = s->options->report.flags & PLIM_REPORT_REDACT;
	const char *says = without_name(err->message, set_name(item));
	char reason[200];
	struct plim_err own;

	item->other = item->origin != SET_NAMED &&
		      (is_other || (err->status == PLIM_E_FORMAT && !is_named_so(set_name(item))));
	if (err->status == PLIM_E_LIMIT)
		says = cut_reason(says, reason,
				  sizeof(reason)); /* the remedy is reported once, for all */
	if (item->other && !is_other)
		says = "not a memory snapshot";
	else if (item->other)
		says = cut_reason(says, reason, sizeof(reason));
	item->row.status = err->status;
	item->row.error = set_keep(s, redacts ? plim_status_name(err->status) : says, &own);
	if (item->row.error)
		return PLIM_OK;
	*err = own;
	return mem_status(err);
}

/* ---- folders ---- */

struct listing {
	struct recording_set *set;
	struct mem *mem;
	VEC(const char *)
	names; /* of the owner; sorted, so that the order on the disk shows nothing */
};

static int listed_by_name(const void *a, const void *b)
{
	return set_compare_names(*(const char *const *)a, *(const char *const *)b);
}

static enum plim_status read_names(struct listing *l, DIR *d, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	struct dirent *e;

	while (!st && (e = readdir(d)) != NULL) {
		const char *name;

		if (e->d_name[0] == '.') /* those of tools and file systems, too */
			continue;
		name = set_keep(l->set, e->d_name, err);
		st = name ? vec_push(l->mem, &l->names, name, err) : mem_status(err);
		if (!st && l->names.n > SET_ITEMS_MAX)
			st = err_set(err, PLIM_E_LIMIT, "more than %d files; give fewer at once",
				     SET_ITEMS_MAX);
	}
	sort_items(l->names.at, l->names.n, sizeof(*l->names.at), listed_by_name);
	return st;
}

static const char *kind_of(mode_t mode)
{
	return S_ISLNK(mode)    ? "a link; those in folders are not followed"
	       : S_ISFIFO(mode) ? "a FIFO, no file"
	       : S_ISDIR(mode)  ? "a folder in a folder's folder"
				: "no regular file";
}

static enum plim_status list_folder(struct recording_set *s, int fd, const char *path, int inner,
				    struct plim_err *err);

/* `fd` is the folder `path`; `inner`: it stands in another one. */
static enum plim_status list_entry(struct recording_set *s, int fd, const char *path, int inner,
				   const char *name, struct plim_err *err)
{
	const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
	char whole[PATH_MAX];
	struct set_item *item;
	struct stat info;
	enum plim_status st;
	int folder;

	if ((size_t)snprintf(whole, sizeof(whole), "%s%s%s", path, slash, name) >= sizeof(whole))
		return set_skip(s, name, strerror(ENAMETOOLONG), err);
	if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW))
		return set_skip(s, whole, strerror(errno), err);
	if (S_ISREG(info.st_mode) && set_is_digest(name))
		return set_add_digest(s, whole, SET_FOUND, err);
	if (S_ISREG(info.st_mode)) {
		st = set_add(s, SET_FOUND, whole, NULL, &item, err);
		if (!st)
			item->row.bytes = (uint64_t)info.st_size;
		return st;
	}
	if (!S_ISDIR(info.st_mode) || inner)
		return set_skip(s, whole, kind_of(info.st_mode), err);
	folder = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return set_skip(s, whole, strerror(errno), err);
	return list_folder(s, folder, whole, 1, err);
}

static enum plim_status list_folder(struct recording_set *s, int fd, const char *path, int inner,
				    struct plim_err *err)
{
	struct listing l = { .set = s, .mem = s->mem };
	DIR *d = fdopendir(fd);
	enum plim_status st;

	if (!d) {
		st = err_errno(err, errno, "cannot read '%s'", path);
		close(fd);
		return st;
	}
	st = read_names(&l, d, err);
	for (size_t i = 0; !st && i < l.names.n; i++)
		st = list_entry(s, fd, path, inner, l.names.at[i], err);
	vec_release(l.mem, &l.names);
	closedir(d);
	return st;
}

/* ---- archives ---- */

enum plim_status set_end_damaged(struct recording_set *s, const char *path, struct plim_err *err)
{
	struct set_item *item;
	struct plim_err why = *err;
	enum plim_status st = set_add(s, SET_NAMED, path, NULL, &item, err);

	if (st)
		return st;
	item->taken = 1;
	item->row.bytes = PLIM_UNKNOWN;
	st = set_fail(s, item, 0, &why);
	if (st)
		*err = why;
	return st;
}

enum plim_status set_add_member(struct recording_set *s, const char *path, enum plim_status said,
				const struct tar_member *m, struct set_item **out,
				struct plim_err *err)
{
	const char *base;
	enum plim_status st;

	*out = NULL;
	if (said)
		return set_end_damaged(s, path, err);
	if (!m->name || m->type == TAR_FOLDER)
		return PLIM_OK;
	if (m->type != TAR_FILE)
		return set_skip(s, m->name,
				m->type == TAR_LINK ? "a link in an archive"
						    : "no plain file in the archive",
				err);
	base = strrchr(m->name, '/');
	if ((base ? base + 1 : m->name)[0] == '.')
		return PLIM_OK;
	st = set_add(s, SET_MEMBER, path, m->name, out, err);
	if (st)
		return st;
	(*out)->offset = m->offset;
	(*out)->row.bytes = m->bytes;
	return PLIM_OK;
}

/* The members of an archive that can be jumped about in; else it is read as a stream later. */
static enum plim_status list_archive(struct recording_set *set, const char *path,
				     struct plim_err *err)
{
	struct source_options how = { .window_bytes = PEEK_BYTES,
				      .thread = SOURCE_THREAD_NONE,
				      .kinds = SOURCE_REGULAR };
	struct set_item *item;
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
		return set_add(set, SET_STREAM, path, NULL, NULL, err);
	}
	tar_init(&tar, s);
	do {
		said = tar_next(&tar, &member, err);
		st = set_add_member(set, path, said, &member, &item, err);
	} while (!st && !said && member.name);
	source_close(s);
	return st;
}

static enum plim_status add_named(struct recording_set *s, const char *path, struct plim_err *err)
{
	struct set_item *item;
	struct stat info;
	enum plim_status st = set_add(s, SET_NAMED, path, NULL, &item, err);

	if (!st)
		item->row.bytes = stat(path, &info) ? PLIM_UNKNOWN : (uint64_t)info.st_size;
	return st;
}

static enum plim_status list_path(struct recording_set *s, const char *path, struct plim_err *err)
{
	struct stat info;
	int fd;

	if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? err_errno(err, errno, "cannot open '%s'", path)
			      : list_folder(s, fd, path, 0, err);
	}
	if (set_is_digest(path))
		return set_add_digest(s, path, SET_NAMED, err);
	if (plim_ranks_several(path))
		return list_archive(s, path, err);
	return add_named(s, path, err);
}

/* ---- the same twice ---- */

static int is_packed(const char *path, size_t stem)
{
	return !strncmp(path + stem, ".plim", 5);
}

/* In a folder: a recording that a digest speaks of, and one that lies packed next to it, is read once. */
static enum plim_status drop_doubles(struct recording_set *s, struct plim_err *err)
{
	struct intern told, packed; /* names without their endings */
	enum plim_status st = PLIM_OK;
	uint32_t id;

	intern_init(&told, s->mem);
	intern_init(&packed, s->mem);
	for (size_t i = 0; !st && i < s->items.n; i++) {
		const struct set_item *item = s->items.at[i];
		const char *name = item->origin == SET_DIGEST ? item->beside : item->path;
		size_t stem = recording_set_stem(name);

		if (item->origin == SET_DIGEST && stem)
			st = intern_add(&told, name, stem, &id, err);
		else if (item->origin == SET_FOUND && is_packed(name, stem))
			st = intern_add(&packed, name, stem, &id, err);
	}
	for (size_t i = 0; !st && i < s->items.n; i++) {
		struct set_item *item = s->items.at[i];
		size_t stem = recording_set_stem(item->path);

		if (item->origin == SET_FOUND && item->path[stem] &&
		    (intern_find(&told, item->path, stem) != INTERN_NONE ||
		     (!is_packed(item->path, stem) &&
		      intern_find(&packed, item->path, stem) != INTERN_NONE)))
			item->taken = item->other = 1;
	}
	intern_release(&told);
	intern_release(&packed);
	return st;
}

enum plim_status recording_set_list(struct recording_set *s, const char *const *paths, size_t n,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++)
		st = list_path(s, paths[i], err);
	return st ? st : drop_doubles(s, err);
}
