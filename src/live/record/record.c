#include "record.h"

#include "base/base.h"
#include "result_tables.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ENVIRONMENT = 8 };

struct plim_record {
	struct mem mem;
	char *folder, *dir, *plan, *allocator;
	char run[32]; /* part of the files' names */
	char *environment[ENVIRONMENT + 1];
	VEC(struct plim_record_file) files;
	int folder_made;
};

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}

static enum plim_status write_part(const struct plim_record *r, const char *name,
				   const unsigned char *content, size_t bytes, struct plim_err *err)
{
	char *path = format("%s/%s", r->folder, name);
	enum plim_status st = PLIM_OK;
	size_t done = 0;
	int fd;

	if (!path)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		st = err_errno(err, errno, "cannot write '%s'", path);
	while (!st && done < bytes) {
		ssize_t n = write(fd, content + done, bytes - done);

		if (n < 0 && errno != EINTR)
			st = err_errno(err, errno, "cannot write '%s'", path);
		done += n > 0 ? (size_t)n : 0;
	}
	if (fd >= 0 && close(fd) && !st)
		st = err_errno(err, errno, "cannot write '%s'", path);
	free(path);
	return st;
}

/* The folder in the run's folder with what the recorder needs of the Python package. */
#define IN_JOB "plimsoll_in_job"

static enum plim_status write_payload(const struct plim_record *r, struct plim_err *err)
{
	const struct {
		const char *name;
		const unsigned char *bytes;
		size_t n;
	} parts[] = { { "sitecustomize.py", record_payload, record_payload_bytes },
		      { IN_JOB "/__init__.py", NULL, 0 },
		      { IN_JOB "/_gauge_page.py", record_gauge, record_gauge_bytes },
		      { IN_JOB "/_job.py", record_job, record_job_bytes },
		      { IN_JOB "/allocator.py", record_allocator, record_allocator_bytes },
		      { IN_JOB "/_torch.py", record_torch, record_torch_bytes },
		      { IN_JOB "/errors.py", record_errors, record_errors_bytes } };
	char *within = format("%s/" IN_JOB, r->folder);
	enum plim_status st = PLIM_OK;

	if (!within)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	if (mkdir(within, 0700))
		st = err_errno(err, errno, "cannot make '%s'", within);
	free(within);
	for (size_t i = 0; !st && i < sizeof(parts) / sizeof(*parts); i++)
		st = write_part(r, parts[i].name, parts[i].bytes, parts[i].n, err);
	return st;
}

static enum plim_status make_environment(struct plim_record *r, const struct plim_record_options *o,
					 struct plim_err *err)
{
	const char *path = getenv("PYTHONPATH");
	uint64_t entries = o->max_entries ? o->max_entries : PLIM_RECORD_ENTRIES;
	char **e = r->environment;

	e[0] = path && *path ? format("PYTHONPATH=%s:%s", r->folder, path)
			     : format("PYTHONPATH=%s", r->folder);
	e[1] = format("PLIMSOLL_RECORD_DIR=%s", r->dir);
	e[2] = format("PLIMSOLL_RECORD_RUN=%s", r->run);
	e[3] = format("PLIMSOLL_RECORD_MAX_ENTRIES=%llu", (unsigned long long)entries);
	e[4] = format("PLIMSOLL_RECORD_STACKS=%s", o->stacks ? o->stacks : "python");
	e[5] = format("PLIMSOLL_RECORD_PACKER=%s", o->packer ? o->packer : "");
	e[6] = format("PLIMSOLL_RECORD_PLAN=%s", r->plan ? r->plan : "");
	e[7] = format("PLIMSOLL_RECORD_ALLOCATOR=%s", r->allocator ? r->allocator : "");
	for (int i = 0; i < ENVIRONMENT; i++)
		if (!e[i])
			return err_set(err, PLIM_E_NOMEM, "out of memory");
	return PLIM_OK;
}

/* The library that will follow the plan reads it first: what it refuses is said before the job starts. */
static enum plim_status take_plan(struct plim_record *r, const struct plim_record_options *o,
				  struct plim_err *err)
{
	const char *(*check)(const char *path) = NULL;
	const char *why;
	void *library, *at;

	if (!o->plan)
		return PLIM_OK;
	if (!o->allocator)
		return err_set(err, PLIM_E_ARG, "a plan needs libplimsoll_alloc.so");
	r->plan = realpath(o->plan, NULL); /* the job may change its folder */
	if (!r->plan)
		return err_errno(err, errno, "cannot read '%s'", o->plan);
	r->allocator = realpath(o->allocator, NULL);
	if (!r->allocator)
		return err_errno(err, errno, "cannot read '%s'", o->allocator);
	library = dlopen(r->allocator, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, PLIM_E_UNSUPPORTED, "cannot load the allocator: %s", dlerror());
	at = dlsym(library, "plimsoll_alloc_check");
	if (!at)
		return err_set(err, PLIM_E_UNSUPPORTED, "'%s' is not this release's allocator",
			       r->allocator);
	memcpy((void *)&check, (const void *)&at, sizeof(check));
	why = check(r->plan);
	return why ? err_set(err, PLIM_E_FORMAT, "'%s': %s", r->plan, why) : PLIM_OK;
}

void plim_record_options_init(struct plim_record_options *o)
{
	*o = (struct plim_record_options){ .size = sizeof(*o) };
}

/* The folder and those above it, as far as they are not there. */
static void make_folders(const char *path)
{
	char part[PATH_MAX];

	if (strlen(path) >= sizeof(part))
		return; /* realpath says so */
	for (size_t i = 0; path[i]; i++) {
		if (i && path[i] == '/') {
			part[i] = 0;
			mkdir(part, 0777);
		}
		part[i] = path[i];
		part[i + 1] = 0;
	}
	mkdir(part, 0777);
}

enum plim_status plim_record_prepare(const struct plim_record_options *options,
				     struct plim_record **out, struct plim_err *err)
{
	struct plim_record_options o;
	const char *base = getenv("TMPDIR");
	struct plim_record *r = calloc(1, sizeof(*r));
	struct tm now;
	time_t t = time(NULL);
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!r)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	plim_record_options_init(&o);
	st = options_take(&record_options_table, &o, options, err);
	if (st) {
		free(r);
		return st;
	}
	mem_init(&r->mem, 0);
	localtime_r(&t, &now);
	strftime(r->run, sizeof(r->run), "%m%d-%H%M%S", &now);
	snprintf(r->run + strlen(r->run), sizeof(r->run) - strlen(r->run), "-%d", (int)getpid());
	if (o.dir && *o.dir)
		make_folders(o.dir);
	r->dir = realpath(o.dir ? o.dir : ".", NULL); /* the job may change its folder */
	if (!r->dir || access(r->dir, W_OK))
		st = err_errno(err, errno, "cannot write recordings to '%s'", o.dir ? o.dir : ".");
	r->folder = format("%s/plimsoll-record-XXXXXX", base && *base ? base : "/tmp");
	if (!st && (!r->folder || !mkdtemp(r->folder)))
		st = err_errno(err, errno, "cannot make a folder in '%s'",
			       base && *base ? base : "/tmp");
	r->folder_made = !st;
	if (!st)
		st = take_plan(r, &o, err);
	if (!st)
		st = write_payload(r, err);
	if (!st)
		st = make_environment(r, &o, err);
	if (st)
		plim_record_free(r);
	else
		*out = r;
	return st;
}

const char *const *plim_record_environment(const struct plim_record *r)
{
	return (const char *const *)r->environment;
}

/* What the processes wrote into status-PID: the farthest of them counts. */
static enum plim_record_reached read_status(const char *folder, const char *name)
{
	static const struct {
		const char *word;
		enum plim_record_reached reached;
	} words[] = {
		{ "python", PLIM_RECORD_NO_TORCH }, { "torch", PLIM_RECORD_NO_CUDA },
		{ "started", PLIM_RECORD_NO_DUMP }, { "no events", PLIM_RECORD_NO_EVENTS },
		{ "dumped", PLIM_RECORD_DUMPED },
	};
	char text[32];
	enum plim_record_reached reached = PLIM_RECORD_NO_PYTHON;

	(void)small_file(text, sizeof(text), "%s/%s", folder, name);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(text, words[i].word))
			reached = words[i].reached;
	return reached;
}

#define FOLDERS_DEEP 3 /* the run's, the package's, that of Python's cache */

/* Takes everything out of a folder of ours; fd is closed. */
static void empty_folder(int fd, int deep)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    !unlinkat(dirfd(d), e->d_name, 0) || deep <= 1)
			continue;
		empty_folder(openat(dirfd(d), e->d_name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
			     deep - 1);
		unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

static enum plim_record_reached clear_folder(struct plim_record *r)
{
	enum plim_record_reached most = PLIM_RECORD_NO_PYTHON, one;
	DIR *d = r->folder_made ? opendir(r->folder) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, "status-", 7))
			continue;
		one = read_status(r->folder, e->d_name);
		most = one > most ? one : most;
	}
	if (d)
		closedir(d);
	if (r->folder_made) {
		empty_folder(open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), FOLDERS_DEEP);
		rmdir(r->folder);
	}
	r->folder_made = 0;
	return most;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct plim_record_file *)a)->path,
		      ((const struct plim_record_file *)b)->path);
}

/* A recording of ours, packed or not; not the text of an error next to one. */
static int is_recording(const char *name)
{
	const char *end = strrchr(name, '.');

	return end && (!strcmp(end, ".pickle") || !strcmp(end, ".plim"));
}

static enum plim_status list_files(struct plim_record *r, struct plim_err *err)
{
	char *prefix = format("plimsoll-%s-", r->run);
	DIR *d = opendir(r->dir);
	enum plim_status st = PLIM_OK;
	struct dirent *e;
	struct stat info;

	while (prefix && d && !st && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, prefix, strlen(prefix)) || !is_recording(e->d_name) ||
		    fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW))
			continue;
		st = vec_push(&r->mem, &r->files,
			      ((struct plim_record_file){ format("%s/%s", r->dir, e->d_name),
							  (uint64_t)info.st_size }),
			      err);
	}
	sort_items(r->files.at, r->files.n, sizeof(*r->files.at), by_path);
	if (d)
		closedir(d);
	free(prefix);
	return st;
}

enum plim_status plim_record_finish(struct plim_record *r, const struct plim_record_file **files,
				    size_t *n, enum plim_record_reached *reached,
				    struct plim_err *err)
{
	enum plim_record_reached most = clear_folder(r);
	enum plim_status st = list_files(r, err);

	*files = r->files.at;
	*n = st ? 0 : r->files.n;
	if (reached)
		*reached = *n ? PLIM_RECORD_DUMPED : most;
	return st;
}

void plim_record_free(struct plim_record *r)
{
	if (!r)
		return;
	clear_folder(r);
	for (size_t i = 0; i < r->files.n; i++)
		free((char *)(uintptr_t)r->files.at[i].path);
	vec_release(&r->mem, &r->files);
	for (int i = 0; i < ENVIRONMENT; i++)
		free(r->environment[i]);
	free(r->folder);
	free(r->dir);
	free(r->plan);
	free(r->allocator);
	free(r);
}

const char *plim_record_lines(void)
{
	return "# at the start, before the first tensor on the GPU\n"
	       "import torch\n"
	       "torch.cuda.memory._record_memory_history(max_entries=1000000, stacks=\"python\")\n"
	       "torch._C._cuda_attach_out_of_memory_observer(\n"
	       "    lambda *a: torch.cuda.memory._dump_snapshot(\"oom.pickle\"))\n"
	       "# where you want to see the memory, or at the end\n"
	       "torch.cuda.memory._dump_snapshot(\"end.pickle\")\n";
}
