/* A process: its memory by process_vm_readv, its modules by /proc/PID/maps, its source files. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MODULES 8u
#define FIND_LEAST \
	1.0 /* seconds until what was not found is looked for again; twice as long each time */
#define FIND_MOST 64.0
#define SOURCES 256u
#define SETS 32u /* of processes, by their numbers */
#define WAYS 8u  /* places of a set */
#define MOST_SOURCE (4 << 20)
#define CODE 96u

struct source_text {
	uint32_t pid;
	char file[sizeof(((struct stacks_frame *)0)->file)];
	uint32_t line, column, end_column;
	char code[CODE];
};

struct process {
	uint32_t pid;  /* 0: none */
	uint32_t look; /* the last that was at it */
	uint64_t start_time;
	uint64_t main_thread; /* its number where it runs itself */
	struct interpreter interpreter;
	unsigned odd;                /* looks without a stack, in a row */
	double find_time, find_wait; /* find_time 0: not yet */
	enum stacks_status found;
	char folder[256];
};

struct stacks {
	struct mem *mem;
	struct stacks_memory memory;
	uint32_t reads; /* this process's */
	int refused;    /* errno of the last read that failed */
	struct pages pages;
	uint32_t looks;
	struct process processes[SETS][WAYS];
	struct code codes[CODES];
	struct source_text sources[SOURCES];
};

static double stack_process_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool read_process(void *ctx, uint64_t at, void *to, size_t n)
{
	struct stacks *s = ctx;
	struct iovec here = { to, n };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process */
	struct iovec there = { (void *)(uintptr_t)at, n };
	ssize_t got = process_vm_readv((pid_t)s->reads, &here, 1, &there, 1, 0);

	if (got < 0)
		s->refused = errno;
	return got == (ssize_t)n;
}

struct stacks *stacks_new(struct mem *m, struct plim_err *err)
{
	struct stacks *s = mem_new(m, 1, sizeof(*s), err);

	if (!s)
		return NULL;
	s->mem = m;
	s->memory = (struct stacks_memory){ read_process, s };
	s->pages.memory = &s->memory;
	return s;
}

void stacks_free(struct stacks *s)
{
	if (s)
		mem_free(s->mem, s, 1, sizeof(*s));
}

/* ---- finding the interpreter ---- */

/* The number of the main thread in its own namespace of processes: the last of "NSpid:". */
static uint64_t own_number(uint32_t pid)
{
	char text[4096], *at, *end;
	uint64_t number = pid, next;

	if (!small_file(text, sizeof(text), "/proc/%u/status", pid))
		return pid;
	at = strstr(text, "\nNSpid:");
	for (at = at ? at + 7 : NULL; at && *at != '\n'; at = end) {
		next = strtoul(at, &end, 10);
		if (end == at)
			break;
		number = next;
		end += strspn(end, " \t");
	}
	return number;
}

static bool may_be_python(const char *path, const char *program)
{
	const char *slash = strrchr(path, '/');

	return !strcmp(path, program) ||
	       (slash && (!strncmp(slash, "/libpython3", 11) || !strncmp(slash, "/python3", 8)));
}

/* Where the program and a libpython are mapped, the beginnings of their files. */
static size_t find_modules(uint32_t pid, uint64_t *out)
{
	char name[64], program[4096] = "", line[4400];
	unsigned long long at, offset;
	ssize_t n;
	size_t found = 0;
	FILE *f;

	(void)snprintf(name, sizeof(name), "/proc/%u/exe", pid);
	n = readlink(name, program, sizeof(program) - 1);
	program[n > 0 ? n : 0] = 0;
	(void)snprintf(name, sizeof(name), "/proc/%u/maps", pid);
	f = fopen(name, "re");
	while (f && found < MODULES && fgets(line, sizeof(line), f)) {
		const char *path = strchr(line, '/');

		line[strcspn(line, "\n")] = 0;
		if (path && sscanf(line, "%llx-%*x %*s %llx", &at, &offset) == 2 && !offset &&
		    may_be_python(path, program))
			out[found++] = at;
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void find_stack_process(struct stacks *s, struct process *p)
{
	uint64_t modules[MODULES];
	char path[64];
	size_t n = find_modules(p->pid, modules);
	ssize_t got;

	s->refused = 0;
	pages_forget(&s->pages);
	p->found = interpreter_find(&s->pages, modules, n, &p->interpreter);
	p->interpreter.pid = p->pid;
	if (!n || s->refused == EPERM || s->refused == EACCES)
		p->found = STACKS_DENIED;
	else if (s->refused == ENOSYS)
		p->found = STACKS_UNKNOWN;
	p->main_thread = own_number(p->pid);
	(void)snprintf(path, sizeof(path), "/proc/%u/cwd", p->pid);
	got = readlink(path, p->folder, sizeof(p->folder) - 1);
	p->folder[got > 0 ? got : 0] = 0;
}

/* A shell becomes the program that it starts, and what was there before is gone then: it is looked for again, ever more rarely. */
static enum stacks_status find_again(struct stacks *s, struct process *p)
{
	double t = stack_process_now();

	if (p->found == STACKS_SEEN && p->odd < 8)
		return STACKS_SEEN;
	if (p->find_time > 0 && t - p->find_time < p->find_wait)
		return p->found == STACKS_SEEN ? STACKS_NOT_NOW : p->found;
	p->find_wait = p->find_time > 0 ? fmin(2 * p->find_wait, FIND_MOST) : FIND_LEAST;
	p->find_time = t;
	p->odd = 0;
	find_stack_process(s, p);
	return p->found;
}

static const struct process *met_before(const struct stacks *s, uint32_t pid)
{
	for (size_t i = 0; pid && i < WAYS; i++)
		if (s->processes[pid % SETS][i].pid == pid)
			return &s->processes[pid % SETS][i];
	return NULL;
}

/* Its place: where it was, else that of who was not looked at the longest. */
static struct process *stack_process_place_of(struct stacks *s, uint32_t pid)
{
	struct process *set = s->processes[pid % SETS], *p = &set[0];

	for (size_t i = 0; i < WAYS && p->pid != pid; i++)
		if (set[i].pid == pid || set[i].look < p->look)
			p = &set[i];
	p->look = ++s->looks;
	return p;
}

/* What a fork has of its parent is tried first: maps of a large program take milliseconds to read. */
static void begin_stack_process(struct stacks *s, struct process *p, uint32_t pid,
				uint64_t start_time, uint32_t parent)
{
	const struct process *like = met_before(s, parent);
	bool fork = like && like != p && like->found == STACKS_SEEN;
	uint32_t look = p->look;

	if (fork)
		*p = *like;
	else
		*p = (struct process){ .found = STACKS_NOT_NOW };
	p->pid = p->interpreter.pid = pid;
	p->look = look;
	p->start_time = start_time;
	p->find_time = 0;
	p->odd = 0;
	if (fork)
		p->main_thread = own_number(pid);
}

enum stacks_status stacks_look(struct stacks *s, uint32_t pid, uint64_t start_time, uint32_t parent,
			       struct stacks_look *out)
{
	struct process *p = stack_process_place_of(s, pid);
	enum stacks_status status;

	out->n = 0;
	if (p->pid != pid || p->start_time != start_time)
		begin_stack_process(s, p, pid, start_time, parent);
	s->reads = pid;
	status = find_again(s, p);
	if (status != STACKS_SEEN)
		return status;
	status = frames_look(&s->pages, &p->interpreter, s->codes, p->main_thread, out);
	p->odd = status == STACKS_SEEN ? 0 : p->odd + 1;
	if (status == STACKS_SEEN)
		p->find_wait = FIND_LEAST;
	return status;
}

const char *stacks_folder(const struct stacks *s, uint32_t pid)
{
	const struct process *p = met_before(s, pid);

	return p ? p->folder : "";
}

/* ---- source files ---- */

/* A file of ours, that the process has by that name; -1: there is none. */
static int open_source(uint32_t pid, const char *file)
{
	char path[400];
	struct stat its, source;
	size_t n = strlen(file);
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u", pid);
	if (n < 4 || strcmp(file + n - 3, ".py") != 0 || stat(path, &its) ||
	    its.st_uid != geteuid())
		return -1;
	(void)snprintf(path, sizeof(path), *file == '/' ? "/proc/%u/root%s" : "/proc/%u/cwd/%s",
		       pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 &&
	    (fstat(fd, &source) || !S_ISREG(source.st_mode) || source.st_size > MOST_SOURCE)) {
		(void)close(fd);
		fd = -1;
	}
	return fd;
}

/* Part of a line as text that harms no terminal. */
static void keep_code(const char *from, size_t n, char *out, size_t room)
{
	size_t k = 0, taken;
	uint32_t c;

	for (; n && (*from == ' ' || *from == '\t'); from++)
		n--;
	for (; n && k + 4 < room; from += taken, n -= taken) {
		taken = utf8_decode(from, n, &c);
		if (!taken || !utf8_is_safe(c)) {
			c = *from == '\t' ? ' ' : '?';
			taken = taken ? taken : 1;
		}
		k += utf8_encode(c, out + k);
	}
	out[k] = 0;
}

static void read_stack_process_source(uint32_t pid, struct source_text *t)
{
	int fd = open_source(pid, t->file);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[1024];
	uint32_t at = 1;

	if (fd >= 0 && !f)
		(void)close(fd);
	while (f && fgets(line, sizeof(line), f)) {
		size_t n = strcspn(line, "\n");

		if (at == t->line) {
			size_t from = t->column && t->column <= n ? t->column - 1 : 0;
			size_t to = from && t->end_column > t->column && t->end_column - 1 <= n
					    ? t->end_column - 1
					    : n;

			keep_code(line + from, to - from, t->code, sizeof(t->code));
			break;
		}
		at += line[n] == '\n';
	}
	if (f)
		(void)fclose(f);
}

bool stacks_code(struct stacks *s, uint32_t pid, const struct stacks_frame *f, char *out,
		 size_t room)
{
	size_t n = strlen(f->file);
	uint32_t sum = f->line * 31 + f->column;
	struct source_text *t;

	for (size_t i = n > 24 ? n - 24 : 0; i < n; i++)
		sum = sum * 31 + (unsigned char)f->file[i];
	t = &s->sources[sum % SOURCES];
	if (t->pid != pid || t->line != f->line || t->column != f->column ||
	    t->end_column != f->end_column || strcmp(t->file, f->file) != 0) {
		*t = (struct source_text){ .pid = pid,
					   .line = f->line,
					   .column = f->column,
					   .end_column = f->end_column };
		memcpy(t->file, f->file, sizeof(t->file));
		if (f->line)
			read_stack_process_source(pid, t);
	}
	(void)snprintf(out, room, "%s", t->code);
	return *t->code;
}

/* ---- memory at hand ---- */

enum stacks_status stacks_look_at(const struct stacks_memory *memory, const uint64_t *at, size_t n,
				  uint64_t main_thread, struct stacks_look *out)
{
	struct pages *p = calloc(1, sizeof(*p));
	struct code *codes = calloc(CODES, sizeof(*codes));
	enum stacks_status status = STACKS_NOT_NOW;
	struct interpreter in;

	out->n = 0;
	if (p && codes) {
		p->memory = memory;
		status = interpreter_find(p, at, n, &in);
		if (status == STACKS_SEEN)
			status = frames_look(p, &in, codes, main_thread, out);
	}
	free(codes);
	free(p);
	return status;
}
