/* plimsoll doctor: a table of looks, each gives a row. */
#include "commands/doctor/doctor.h"

#include "commands/out.h"
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#define MEMORY_BYTES (64u << 20)

struct looking {
	struct plim_doctor *d;
	const char *root; /* "" is this machine */
	struct plim_here *here;
	bool redact;
	struct plim_err *err;
};

void plim_doctor_options_init(struct plim_doctor_options *o)
{
	*o = (struct plim_doctor_options){ .size = sizeof(*o) };
}

static enum plim_status say_doctor(struct looking *x, const char *what,
				   enum plim_doctor_state state, const char *remedy,
				   const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static enum plim_status say_doctor(struct looking *x, const char *what,
				   enum plim_doctor_state state, const char *remedy,
				   const char *fmt, ...)
{
	char says[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(says, sizeof(says), fmt, ap);
	va_end(ap);
	return plim_doctor_add(x->d, &(struct plim_doctor_check){ what, state, says, remedy },
			       x->err);
}

/* ---- the looks ---- */

static enum plim_status look_program(struct looking *x)
{
	struct utsname u;
	const char *libc = "";

	if (uname(&u))
		snprintf(u.machine, sizeof(u.machine), "?");
#ifdef __GLIBC__
	libc = gnu_get_libc_version();
#endif
	return say_doctor(x, "plimsoll", PLIM_DOCTOR_OK, NULL, "%s, %s %s %s, glibc %s",
			  plim_version(), u.sysname, u.release, u.machine, libc);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue ...": the first word that is a release. */
static void release_of(const char *line, char *out, size_t size)
{
	while (*line) {
		size_t n = strspn(line, "0123456789.");

		if (n > 3 && (line[n] == ' ' || !line[n]) && memchr(line, '.', n)) {
			snprintf(out, size, "%.*s", (int)n, line);
			return;
		}
		line += strcspn(line, " ");
		line += strspn(line, " ");
	}
	snprintf(out, size, "of unknown release");
}

static enum plim_status look_driver(struct looking *x)
{
	char line[256], release[64], path[512];

	if (!small_file_line(line, sizeof(line), "%s/proc/driver/nvidia/version", x->root))
		return say_doctor(x, "NVIDIA driver", PLIM_DOCTOR_NOTE, NULL,
				  "not loaded; recordings, plans and checkpoints need none");
	release_of(line, release, sizeof(release));
	snprintf(path, sizeof(path), "%s/dev/nvidiactl", x->root);
	if (access(path, R_OK | W_OK))
		return say_doctor(x, "NVIDIA driver", PLIM_DOCTOR_NO,
				  "give the container its devices (docker run --gpus all)",
				  "%s, but /dev/nvidiactl cannot be opened: %s", release,
				  strerror(errno));
	return say_doctor(x, "NVIDIA driver", PLIM_DOCTOR_OK, NULL, "%s", release);
}

static enum plim_status look_memory(struct looking *x)
{
	const struct plim_here_bound *b = x->here ? x->here->headroom : NULL;
	char room[32];

	if (!b || b->room_bytes == PLIM_UNKNOWN)
		return say_doctor(x, "host memory", PLIM_DOCTOR_NOTE, NULL, "no bound is seen");
	return say_doctor(x, "host memory", PLIM_DOCTOR_OK, NULL,
			  "%s left before %s is full; then: %s", text_size(room, b->room_bytes),
			  b->where ? b->where : "?", plim_here_effect_name(b->effect));
}

static enum plim_status look_gauge(struct looking *x)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/dev/shm", x->root);
	if (access(path, W_OK))
		return say_doctor(x, "gauge", PLIM_DOCTOR_NOTE,
				  "set XDG_RUNTIME_DIR to a folder that can be written",
				  "/dev/shm cannot be written: jobs are seen from outside only");
	return say_doctor(x, "gauge", PLIM_DOCTOR_OK, NULL, "/dev/shm can be written");
}

static enum plim_status look_reading(struct looking *x)
{
	char size[32];

	return say_doctor(x, "reading", PLIM_DOCTOR_OK, NULL,
			  "files may take %s of memory (--max-memory)",
			  text_size(size, host_memory_limit()));
}

static enum plim_status (*const looks[])(struct looking *x) = { look_program, look_driver,
								look_memory, look_gauge,
								look_reading };

/* ---- the object ---- */

void plim_doctor_free(struct plim_doctor *d)
{
	if (!d)
		return;
	arena_release(&d->hidden->words);
	vec_release(&d->hidden->mem, &d->hidden->checks);
	free(d);
}

static const char *keep_doctor(struct plim_doctor *d, const char *text, struct plim_err *err)
{
	return text ? arena_copy(&d->hidden->words, text, err) : NULL;
}

enum plim_status plim_doctor_add(struct plim_doctor *d, const struct plim_doctor_check *check,
				 struct plim_err *err)
{
	struct plim_doctor_check row = { .state = check->state };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	row.what = keep_doctor(d, check->what, err);
	row.says = keep_doctor(d, check->says, err);
	row.remedy = keep_doctor(d, check->remedy, err);
	if (!row.what || !row.says || (check->remedy && !row.remedy))
		return mem_status(err);
	st = vec_push(&d->hidden->mem, &d->hidden->checks, row, err);
	if (st)
		return st;
	d->checks = d->hidden->checks.at;
	d->check_count = d->hidden->checks.n;
	d->works = d->works && check->state != PLIM_DOCTOR_NO;
	return PLIM_OK;
}

static enum plim_status look_around(struct plim_doctor *d, const struct plim_doctor_options *o,
				    struct plim_err *err)
{
	struct looking x = { .d = d,
			     .root = o->root ? o->root : "",
			     .redact = (o->flags & PLIM_DOCTOR_REDACT) != 0,
			     .err = err };
	enum plim_status st = PLIM_OK;
	struct host host = { 0 };
	struct plim_here here = { 0 };

	if (!host_look(&host, &d->hidden->mem,
		       &(struct host_options){ .root = o->root, .pid = PLIM_UNKNOWN }, &here,
		       NULL) &&
	    !host_judge(&host, x.redact, NULL))
		x.here = &here;
	for (size_t i = 0; !st && i < sizeof(looks) / sizeof(looks[0]); i++)
		st = looks[i](&x);
	host_release(&host);
	return st;
}

enum plim_status plim_doctor_open(const struct plim_doctor_options *options,
				  struct plim_doctor **out, struct plim_err *err)
{
	struct plim_doctor *d;
	struct plim_doctor_options o;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own;
	st = OUT_NEW(doctor, d, &o, options, err);
	if (st)
		return st;
	mem_init(&d->hidden->mem, MEMORY_BYTES);
	arena_init(&d->hidden->words, &d->hidden->mem);
	d->works = true;
	st = look_around(d, &o, err);
	if (st)
		plim_doctor_free(d);
	else
		*out = d;
	return st;
}

enum plim_status plim_doctor_json(const struct plim_doctor *d, plim_write_fn *write, void *ctx,
				  struct plim_err *err)
{
	return out_json(&d->hidden->mem, &doctor_table, d, write, ctx, err);
}
