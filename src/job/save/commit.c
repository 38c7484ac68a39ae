/*
 * How a folder of files becomes a checkpoint.
 *
 * Files are written into ".step-00001000.RUN.plimsoll".  Each rank then adds part-00003.json, which names its files with
 * their sums; when all parts are there rank 0 writes the manifest and gives the folder its name with one rename, which the
 * others see.  A rank that fails leaves "failed", and rank 0 removes the folder.  So no one has to talk to anybody, and a
 * folder with a name is whole.
 *
 * Where the name is taken (a step that is saved again) the folders change places in one step, and the old one goes.
 */
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMPORARY_FIRST ".step-"
#define TEMPORARY_LAST ".plimsoll"
#define FAILED "failed"
#define LOOK_EVERY_NS 20000000 /* at the other ranks */
#define RENAME_EXCHANGE_FLAG 2 /* linux/fs.h */

enum plim_status save_path(char *path, struct plim_err *err, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(path, SAVE_PATH, fmt, ap);
	va_end(ap);
	return n >= 0 && n < SAVE_PATH
		       ? PLIM_OK
		       : err_set(err, PLIM_E_ARG, "a path is too long: '%.200s'", path);
}

static void commit_name_of(char *name, uint64_t step)
{
	snprintf(name, SAVE_NAME, "step-%08llu", (unsigned long long)step);
}

static void part_of(char *name, uint32_t rank)
{
	snprintf(name, SAVE_NAME, "part-%05u.json", rank);
}

/* ---- removing ---- */

/* A folder of files, which has a name that no one looks for. */
static void remove_folder(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}

static bool is_temporary(const char *name)
{
	size_t n = strlen(name), last = strlen(TEMPORARY_LAST);

	return n > last && !strncmp(name, TEMPORARY_FIRST, strlen(TEMPORARY_FIRST)) &&
	       !strcmp(name + n - last, TEMPORARY_LAST);
}

/* What was left by who was killed; of this run of the job nothing can be left. */
void commit_sweep(struct plim_checkpointer *c)
{
	int fd = openat(c->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		if (is_temporary(e->d_name) && (!*c->run || !strstr(e->d_name, c->run)))
			remove_folder(c->fd, e->d_name);
	if (d)
		closedir(d);
}

/* ---- beginning ---- */

enum plim_status commit_begin(struct plim_saving *s, struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	char name[SAVE_NAME];

	commit_name_of(name, s->step);
	snprintf(s->temporary, sizeof(s->temporary), ".%.40s.%.40s" TEMPORARY_LAST, name,
		 *c->run ? c->run : "alone");
	if (c->options.world == 1)
		remove_folder(c->fd, s->temporary);
	if (mkdirat(c->fd, s->temporary, 0777) && errno != EEXIST)
		return err_errno(err, errno, "cannot make a folder in '%s'", c->folder);
	s->begun = true;
	return PLIM_OK;
}

/* ---- ranks ---- */

static enum plim_status write_part(struct plim_saving *s, struct manifest *own,
				   struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	char path[SAVE_PATH], name[SAVE_NAME];
	enum plim_status st = PLIM_OK;

	*own = (struct manifest){ .step = s->step, .metric = s->metric, .world = c->options.world };
	for (size_t i = 0; !st && i < s->files.n; i++) {
		struct manifest_row row = { .bytes = s->files.at[i]->bytes,
					    .xxh3 = s->files.at[i]->sum };

		memcpy(row.name, s->files.at[i]->name, SAVE_NAME);
		st = vec_push(&c->mem, &own->rows, row, err);
	}
	part_of(name, c->options.rank);
	if (!st)
		st = save_path(path, err, "%s/%s/%s", c->folder, s->temporary, name);
	return st || c->options.world == 1 ? st : manifest_store(&c->mem, path, own, err);
}

static void pause_looking(void)
{
	struct timespec t = { .tv_nsec = LOOK_EVERY_NS };

	(void)nanosleep(&t, NULL);
}

static enum plim_status too_late(const struct plim_saving *s, uint64_t since, const char *for_whom,
				 struct plim_err *err)
{
	if (save_now_ns() - since < s->of->options.rank_wait_ns)
		return PLIM_OK;
	return err_set(err, PLIM_E_IO, "%s did not finish the checkpoint of step %llu in %llu s",
		       for_whom, (unsigned long long)s->step,
		       (unsigned long long)(s->of->options.rank_wait_ns / 1000000000u));
}

/* Rank 0: add what each of the others wrote, when it has. */
static enum plim_status gather_commit(struct plim_saving *s, int dir, struct manifest *all,
				      struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	uint64_t since = save_now_ns();
	enum plim_status st = PLIM_OK;

	for (uint32_t r = 1; !st && r < c->options.world; r++) {
		struct manifest part = { 0 };
		char name[SAVE_NAME], whom[32];

		part_of(name, r);
		snprintf(whom, sizeof(whom), "rank %u", r);
		while (!st && faccessat(dir, name, F_OK, 0)) {
			if (!faccessat(dir, FAILED, F_OK, 0))
				st = err_set(err, PLIM_E_IO, "another rank failed");
			if (!st)
				st = too_late(s, since, whom, err);
			pause_looking();
		}
		if (!st)
			st = manifest_load(&c->mem, dir, name, &part, err);
		for (size_t i = 0; !st && i < part.rows.n; i++)
			st = vec_push(&c->mem, &all->rows, part.rows.at[i], err);
		manifest_release(&c->mem, &part);
	}
	return st;
}

/* The others: until the folder that they wrote into has the name, or is gone. */
static enum plim_status await_name(struct plim_saving *s, int dir, struct plim_err *err)
{
	uint64_t since = save_now_ns();
	struct stat mine, named;
	char name[SAVE_NAME];
	enum plim_status st = PLIM_OK;

	commit_name_of(name, s->step);
	while (!st) {
		if (fstat(dir, &mine))
			return err_errno(err, errno, "cannot look at the checkpoint's folder");
		if (!fstatat(s->of->fd, name, &named, AT_SYMLINK_NOFOLLOW) &&
		    mine.st_dev == named.st_dev && mine.st_ino == named.st_ino)
			return PLIM_OK;
		if (fstatat(s->of->fd, s->temporary, &named, AT_SYMLINK_NOFOLLOW) &&
		    fstatat(s->of->fd, name, &named, AT_SYMLINK_NOFOLLOW))
			return err_set(err, PLIM_E_IO, "another rank failed");
		st = too_late(s, since, "rank 0", err);
		pause_looking();
	}
	return st;
}

/* ---- the name ---- */

static enum plim_status give_name(struct plim_saving *s, struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	char name[SAVE_NAME];

	commit_name_of(name, s->step);
	if (renameat(c->fd, s->temporary, c->fd, name)) {
		if (errno != EEXIST && errno != ENOTEMPTY)
			return err_errno(err, errno, "cannot name '%s' in '%s'", name, c->folder);
		if (renameat2(c->fd, s->temporary, c->fd, name, RENAME_EXCHANGE_FLAG))
			return err_errno(err, errno,
					 "'%s' is there already, and cannot be replaced in '%s'",
					 name, c->folder);
		if (fsync(c->fd))
			return err_errno(err, errno, "cannot sync '%s'", c->folder);
		remove_folder(c->fd, s->temporary);
	}
	s->begun = false;
	return fsync(c->fd) ? err_errno(err, errno, "cannot sync '%s'", c->folder) : PLIM_OK;
}

/* A link that is there, or the new one: never none. */
static bool set_link(const struct plim_checkpointer *c, const char *link, const char *target)
{
	char temporary[64];

	snprintf(temporary, sizeof(temporary), ".%s.link", link);
	(void)unlinkat(c->fd, temporary, 0);
	if (symlinkat(target, c->fd, temporary))
		return false;
	if (!renameat(c->fd, temporary, c->fd, link))
		return true;
	(void)unlinkat(c->fd, temporary, 0);
	return false;
}

/* ---- which stay ---- */

static size_t better_than(const struct save_list *l, size_t i, bool maximize)
{
	const struct plim_saved *x = &l->entries.at[i], *y;
	size_t n = 0;

	for (size_t k = 0; k < l->entries.n; k++) {
		y = &l->entries.at[k];
		if (k != i && y->whole && !isnan(y->metric) &&
		    (maximize ? y->metric > x->metric : y->metric < x->metric))
			n++;
		else
			n += k < i && y->metric == x->metric;
	}
	return n;
}

static bool stays(const struct plim_checkpointer *c, const struct save_list *l, size_t i)
{
	const struct plim_checkpointer_options *o = &c->options;
	const struct plim_saved *x = &l->entries.at[i];
	uint64_t newer = 0;

	for (size_t k = i + 1; k < l->entries.n; k++)
		newer += l->entries.at[k].whole;
	return o->flags & PLIM_CHECKPOINTER_KEEP_ALL || newer < o->keep_last || x->best ||
	       (o->keep_every && x->step % o->keep_every == 0) ||
	       (!isnan(x->metric) &&
		better_than(l, i, (o->flags & PLIM_CHECKPOINTER_MAXIMIZE) != 0) < o->keep_best);
}

static void take_away(const struct plim_checkpointer *c, const char *name)
{
	char gone[SAVE_NAME + 32];

	snprintf(gone, sizeof(gone), ".%.100s.gone" TEMPORARY_LAST, name);
	remove_folder(c->fd, gone);
	if (!renameat(c->fd, name, c->fd, gone))
		remove_folder(c->fd, gone);
}

/* The checkpoint stands: what goes wrong from here on is not a failure of it, and removes nothing. */
static void tidy(struct plim_saving *s)
{
	struct plim_checkpointer *c = s->of;
	struct save_list l = { 0 };
	struct plim_err ignored = { 0 };
	uint32_t removed = 0;
	bool good = !save_list(&c->mem, c->fd, (c->options.flags & PLIM_CHECKPOINTER_MAXIMIZE) != 0,
			       &l, &ignored);

	for (size_t i = 0; good && i < l.entries.n; i++)
		if (l.entries.at[i].best)
			good = set_link(c, "best", l.entries.at[i].name);
	if (good && l.entries.n)
		good = set_link(c, "latest", l.entries.at[l.entries.n - 1].name);
	for (size_t i = 0; good && i < l.entries.n; i++)
		if (!stays(c, &l, i)) {
			take_away(c, l.entries.at[i].name);
			removed++;
		}
	pthread_mutex_lock(&s->lock);
	s->told.removed = removed;
	pthread_mutex_unlock(&s->lock);
	save_list_release(&c->mem, &l);
}

/* ---- the end ---- */

static enum plim_status next_order(struct plim_checkpointer *c, uint64_t *order,
				   struct plim_err *err)
{
	struct save_list l = { 0 };
	enum plim_status st = save_list(&c->mem, c->fd, false, &l, err);

	*order = st || !l.entries.n ? 1 : l.entries.at[l.entries.n - 1].order + 1;
	save_list_release(&c->mem, &l);
	return st;
}

static enum plim_status lead(struct plim_saving *s, int dir, struct manifest *all,
			     struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	char path[SAVE_PATH], name[SAVE_NAME];
	enum plim_status st = gather_commit(s, dir, all, err);

	if (!st)
		st = next_order(c, &all->order, err);
	if (!st)
		st = save_path(path, err, "%s/%s/" SAVE_MANIFEST, c->folder, s->temporary);
	if (!st)
		st = manifest_store(&c->mem, path, all, err);
	for (uint32_t r = 0; !st && c->options.world > 1 && r < c->options.world; r++) {
		part_of(name, r);
		(void)unlinkat(dir, name, 0);
	}
	if (!st)
		st = give_name(s, err);
	if (!st)
		tidy(s);
	return st;
}

enum plim_status commit_end(struct plim_saving *s, struct plim_err *err)
{
	struct plim_checkpointer *c = s->of;
	int dir = openat(c->fd, s->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct manifest own = { 0 };
	enum plim_status st = dir < 0 ? err_errno(err, errno, "the checkpoint's folder is gone")
				      : write_part(s, &own, err);

	if (!st)
		st = c->options.rank ? await_name(s, dir, err) : lead(s, dir, &own, err);
	manifest_release(&c->mem, &own);
	if (dir >= 0)
		close(dir);
	return st;
}

void commit_abort(struct plim_saving *s)
{
	struct plim_checkpointer *c = s->of;
	char path[SAVE_PATH];
	int fd;

	if (!s->begun)
		return;
	s->begun = false;
	if (!c->options.rank) {
		remove_folder(c->fd, s->temporary);
		return;
	}
	snprintf(path, sizeof(path), "%s/" FAILED, s->temporary);
	fd = openat(c->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close(fd);
}
