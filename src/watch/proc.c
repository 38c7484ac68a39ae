/*
 * Processes as /proc shows them, in bounded reads.  All of it is foreign: a file that is missing, forbidden or odd leaves its numbers
 * unknown.  A process that goes away in between is no error.
 */
#include "watch/look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define TICKS 100.0 /* of the processes' clock, a second: USER_HZ */
#define CHILDREN 256

/* A small file as text, "" where it cannot be read; false then. */
static bool read_file(char *out, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static bool read_file(char *out, size_t room, const char *fmt, ...)
{
	char path[512];
	va_list ap;
	ssize_t n;
	int fd, wrote;

	*out = 0;
	va_start(ap, fmt);
	wrote = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (wrote < 0 || (size_t)wrote >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	do
		n = read(fd, out, room - 1);
	while (n < 0 && errno == EINTR);
	close(fd);
	out[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* ---- stat ---- */

struct stat_line {
	char name[16], state;
	uint32_t parent;
	double user_s, system_s;
	uint64_t start_time, pages;
};

/* The name stands in parentheses and may hold any byte, parentheses too: the last one ends it. */
static bool parse_stat(const char *text, struct stat_line *out)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long user, system, start, pages;
	unsigned parent;
	size_t n;

	if (!open || !close || close < open)
		return false;
	n = (size_t)(close - open - 1);
	n = n < sizeof(out->name) ? n : sizeof(out->name) - 1;
	memcpy(out->name, open + 1, n);
	out->name[n] = 0;
	if (sscanf(close + 1,
		   " %c %u %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d "
		   "%llu %*u %llu",
		   &out->state, &parent, &user, &system, &start, &pages) != 6)
		return false;
	out->parent = parent;
	out->user_s = (double)user / TICKS;
	out->system_s = (double)system / TICKS;
	out->start_time = start;
	out->pages = pages;
	return true;
}

uint64_t proc_start_time(const char *root, uint32_t pid)
{
	struct stat_line stat;
	char text[1024];

	return read_file(text, sizeof(text), "%s/proc/%u/stat", root, pid) &&
			       parse_stat(text, &stat) && stat.state != 'Z' && stat.state != 'X'
		       ? stat.start_time
		       : 0;
}

/* ---- a process ---- */

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	unsigned long long v;

	return at && sscanf(at + strlen(key), " %llu", &v) == 1 ? v : PLIM_UNKNOWN;
}

bool proc_process(const char *root, uint32_t pid, struct watch_process *out)
{
	struct stat_line stat;
	unsigned long long ns;
	long long call;
	char text[1024];

	if (!read_file(text, sizeof(text), "%s/proc/%u/stat", root, pid) ||
	    !parse_stat(text, &stat))
		return false;
	out->pid = pid;
	out->parent = stat.parent;
	out->start_time = stat.start_time;
	memcpy(out->name, stat.name, sizeof(out->name));
	out->state = stat.state;
	out->user_s = stat.user_s;
	out->system_s = stat.system_s;
	out->resident_bytes = stat.pages * (uint64_t)sysconf(_SC_PAGESIZE);
	if (read_file(text, sizeof(text), "%s/proc/%u/schedstat", root, pid) &&
	    sscanf(text, "%*u %llu", &ns) == 1)
		out->delay_s = (double)ns / 1e9;
	if (stat.state == 'S' && read_file(text, sizeof(text), "%s/proc/%u/wchan", root, pid))
		snprintf(out->sleeps_in, sizeof(out->sleeps_in), "%.40s", text);
	if (stat.state == 'S' && !*out->sleeps_in &&
	    read_file(text, sizeof(text), "%s/proc/%u/syscall", root, pid) &&
	    sscanf(text, "%lld", &call) == 1)
		out->call = call;
	if (read_file(text, sizeof(text), "%s/proc/%u/io", root, pid)) {
		out->written_chars = number_after(text, "wchar:");
		out->read_bytes = number_after(text, "\nread_bytes:");
	}
	return true;
}

/* ---- its workers ---- */

struct children {
	uint32_t at[CHILDREN];
	size_t n;
	bool told; /* the kernel has the list */
};

static void add_children(struct children *c, const char *list)
{
	for (char *end; c->n < CHILDREN; list = end) {
		unsigned long pid = strtoul(list, &end, 10);

		if (end == list)
			return;
		c->at[c->n++] = (uint32_t)pid;
	}
}

/* Children of each of its threads: DataLoaders are made in any of them. */
static void look_for_children(const char *root, uint32_t pid, struct children *c)
{
	char path[512], text[4096];
	struct dirent *e;
	DIR *d;

	*c = (struct children){ .n = 0 };
	snprintf(path, sizeof(path), "%s/proc/%u/task", root, pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (*e->d_name < '0' || *e->d_name > '9')
			continue;
		if (read_file(text, sizeof(text), "%s/%.20s/children", path, e->d_name)) {
			c->told = true;
			add_children(c, text);
		}
	}
	if (d)
		closedir(d);
}

static enum plim_status add_worker(const char *root, uint32_t pid, struct mem *m,
				   struct watch_sample *s, struct plim_err *err)
{
	struct watch_sample empty = { 0 };
	struct watch_process *w = &empty.main;

	watch_sample_clear(&empty);
	if (!proc_process(root, pid, w) || !watch_is_worker(w, &s->main))
		return PLIM_OK;
	return vec_push(m, &s->workers, *w, err);
}

bool proc_sample(const char *root, uint32_t pid, struct mem *m, struct watch_sample *s,
		 struct plim_err *err)
{
	struct stat_line thread;
	struct children children;
	char text[1024];

	if (!proc_process(root, pid, &s->main) || s->main.state == 'Z')
		return false;
	if (read_file(text, sizeof(text), "%s/proc/%u/task/%u/stat", root, pid, pid) &&
	    parse_stat(text, &thread)) {
		s->main_user_s = thread.user_s;
		s->main_system_s = thread.system_s;
		s->main.state = thread.state;
	}
	look_for_children(root, pid, &children);
	for (size_t i = 0; i < children.n; i++)
		if (add_worker(root, children.at[i], m, s, err))
			break;
	return true;
}

/* ---- the host ---- */

/* "0::/path" (v2) or "N:cpu,cpuacct:/path" (v1) of /proc/PID/cgroup. */
static bool cpu_stat(const char *root, uint32_t pid, char *out, size_t room)
{
	char text[4096], *line, *next;

	if (!read_file(text, sizeof(text), "%s/proc/%u/cgroup", root, pid))
		return false;
	for (line = text; line && *line; line = next) {
		const char *path;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!strncmp(line, "0::", 3) &&
		    read_file(out, room, "%s/sys/fs/cgroup%s/cpu.stat", root, line + 3) &&
		    strstr(out, "nr_throttled"))
			return true;
		path = strrchr(line, ':');
		if (path && strstr(line, "cpu") && strncmp(line, "0::", 3) != 0 &&
		    read_file(out, room, "%s/sys/fs/cgroup/cpu%s/cpu.stat", root, path + 1))
			return true;
	}
	return false;
}

void proc_host(const char *root, uint32_t pid, struct watch_host *out)
{
	char text[4096];
	uint64_t us, ns;
	cpu_set_t set;

	if (read_file(text, sizeof(text), "%s/proc/meminfo", root)) {
		uint64_t total = number_after(text, "MemTotal:"),
			 left = number_after(text, "MemAvailable:");

		out->total_bytes = total < UINT64_MAX / 1024 ? total * 1024 : PLIM_UNKNOWN;
		out->available_bytes = left < UINT64_MAX / 1024 ? left * 1024 : PLIM_UNKNOWN;
	}
	if (cpu_stat(root, pid, text, sizeof(text))) {
		out->periods = number_after(text, "nr_periods");
		out->throttled_periods = number_after(text, "nr_throttled");
		us = number_after(text, "throttled_usec");
		ns = number_after(text, "throttled_time");
		if (us != PLIM_UNKNOWN)
			out->throttled_s = (double)us / 1e6;
		else if (ns != PLIM_UNKNOWN)
			out->throttled_s = (double)ns / 1e9;
	}
	if (!*root && !sched_getaffinity((pid_t)pid, sizeof(set), &set))
		out->cores = (uint64_t)CPU_COUNT(&set);
}

/* ---- its name ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* "train.py" of "python -u train.py --lr 1", "pkg.train" of "python -m pkg.train"; else the program, of -c too. */
void proc_name(const char *root, uint32_t pid, char *out, size_t room)
{
	char text[1024];
	size_t n = 0;
	const char *name, *word;

	snprintf(out, room, "pid %u", pid);
	if (!read_file(text, sizeof(text) - 1, "%s/proc/%u/cmdline", root, pid))
		return;
	text[sizeof(text) - 2] = text[sizeof(text) - 1] = 0;
	name = last_part(text);
	for (word = text + strlen(text) + 1; !strncmp(name, "python", 6) && n < 16;
	     word += strlen(word) + 1, n++) {
		if (word >= text + sizeof(text) - 2 || !*word)
			break;
		if (!strcmp(word, "-c"))
			break;
		if (!strcmp(word, "-m") && word[3]) {
			name = word + 3;
			break;
		}
		if (*word != '-') {
			name = last_part(word);
			break;
		}
	}
	snprintf(out, room, "%.60s", name);
}
