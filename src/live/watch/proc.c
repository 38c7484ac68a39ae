/*
 * Processes as /proc shows them, in bounded reads.  All of it is foreign: a file that is missing, forbidden or odd leaves its numbers
 * unknown.  A process that goes away in between is not an error.
 */
#include "watch/look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICKS 100.0 /* of the processes' clock, a second: USER_HZ */

/* FNV-1a: a number for texts that are compared. */
#define MIX_START 14695981039346656037u

static uint64_t mix(uint64_t sum, const char *text)
{
	for (; text && *text; text++)
		sum = (sum ^ (unsigned char)*text) * 1099511628211u;
	return sum;
}

/* ---- stat ---- */

struct stat_line {
	char name[16], state;
	uint32_t parent;
	double user_s, system_s;
	uint64_t start_time, pages;
};

/* Those behind the state that are used; proc(5) counts them from 4. */
enum {
	STAT_PARENT = 0,
	STAT_USER = 10,
	STAT_SYSTEM = 11,
	STAT_THREADS = 16,
	STAT_START = 18,
	STAT_PAGES = 20,
	STAT_FIELDS = 21
};

/* `n` numbers with a space before each but the first (sscanf took a tenth of all the time); negative ones as 0. */
static bool numbers(const char *text, uint64_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool negative = *text == '-';
		const char *from = text + negative;
		uint64_t v = 0;

		for (text = from; *text >= '0' && *text <= '9'; text++)
			v = v * 10 + (uint64_t)(*text - '0');
		if (text == from || (i + 1 < n && *text++ != ' '))
			return false;
		out[i] = negative ? 0 : v;
	}
	return true;
}

/* The name stands in parentheses and may hold any byte, parentheses too: the last one ends it. */
static bool parse_stat(const char *text, struct stat_line *out)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t at[STAT_FIELDS];
	size_t n;

	if (!open || !close || close < open || close[1] != ' ' || !close[2] || close[3] != ' ')
		return false;
	n = (size_t)(close - open - 1);
	n = n < sizeof(out->name) ? n : sizeof(out->name) - 1;
	memcpy(out->name, open + 1, n);
	out->name[n] = 0;
	out->state = close[2];
	if (!numbers(close + 4, at, STAT_FIELDS))
		return false;
	/* A main thread that has ended is a zombie until the last of the others has, which work on. */
	if (out->state == 'Z' && at[STAT_THREADS] > 1)
		out->state = 'S';
	out->parent = (uint32_t)at[STAT_PARENT];
	out->user_s = (double)at[STAT_USER] / TICKS;
	out->system_s = (double)at[STAT_SYSTEM] / TICKS;
	out->start_time = at[STAT_START];
	out->pages = at[STAT_PAGES];
	return true;
}

uint64_t proc_start_time(struct proc_files *f, const char *root, uint32_t pid)
{
	struct stat_line stat;
	char text[1024];

	return proc_read(f, root, pid, PROC_STAT, text, sizeof(text)) && parse_stat(text, &stat) &&
			       stat.state != 'Z' && stat.state != 'X'
		       ? stat.start_time
		       : 0;
}

/* ---- a process ---- */

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	uint64_t v;

	if (!at)
		return PLIM_UNKNOWN;
	at += strlen(key);
	at += strspn(at, " \t");
	return numbers(at, &v, 1) ? v : PLIM_UNKNOWN;
}

bool proc_met(struct proc_files *f, const char *root, uint32_t pid, struct watch_process *out)
{
	struct stat_line stat;
	char text[1024];

	if (!proc_read(f, root, pid, PROC_STAT, text, sizeof(text)) || !parse_stat(text, &stat))
		return false;
	out->pid = pid;
	out->parent = stat.parent;
	out->start_time = stat.start_time;
	memcpy(out->name, stat.name, sizeof(out->name));
	out->state = stat.state;
	out->user_s = stat.user_s;
	out->system_s = stat.system_s;
	out->resident_bytes = stat.pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}

/* Who sleeps and has not run since is not asked again at once: the kernel adds that file up over all threads. */
#define IO_TURNS 3u

static void look_at_io(struct proc_files *f, const char *root, struct watch_process *out)
{
	struct proc_io *kept = proc_io_kept(f, out->pid);
	double ran_s = out->user_s + out->system_s;
	char text[1024];

	if (kept && kept->turn && out->state == 'S' && kept->ran_s == ran_s &&
	    f->turn - kept->turn < IO_TURNS) {
		out->written_chars = kept->written_chars;
		out->read_bytes = kept->read_bytes;
		out->stored_bytes = kept->stored_bytes;
		return;
	}
	if (!proc_read(f, root, out->pid, PROC_IO, text, sizeof(text)))
		return;
	out->written_chars = number_after(text, "wchar:");
	out->read_bytes = number_after(text, "\nread_bytes:");
	out->stored_bytes = number_after(text, "\nwrite_bytes:");
	kept = proc_io_kept(f, out->pid);
	if (kept)
		*kept = (struct proc_io){ f->turn, ran_s, out->written_chars, out->read_bytes,
					  out->stored_bytes };
}

/* What it sleeps in, what it read and wrote. */
static void look_closer(struct proc_files *f, const char *root, struct watch_process *out)
{
	long long call;
	char text[1024];

	if ((out->state == 'S' || out->state == 'D') &&
	    proc_read(f, root, out->pid, PROC_WCHAN, text, sizeof(text)))
		(void)snprintf(out->sleeps_in, sizeof(out->sleeps_in), "%.40s", text);
	/* poll() and select() sleep in one function. */
	if (out->state == 'S' && (!*out->sleeps_in || !strncmp(out->sleeps_in, "poll_", 5)) &&
	    proc_read(f, root, out->pid, PROC_SYSCALL, text, sizeof(text)) &&
	    sscanf(text, "%lld", &call) == 1)
		out->call = call;
	look_at_io(f, root, out);
}

/* ---- its workers ---- */

/* Is that thread in futex() without a time limit?  Then nothing but another thread wakes it. */
static bool waits_for_lock(const char *root, uint32_t pid, uint32_t thread)
{
	unsigned long long limit;
	char text[1024];
	long call;

	return small_file(text, sizeof(text), "%s/proc/%u/task/%u/syscall", root, pid, thread) &&
	       sscanf(text, "%ld %*x %*x %*x %llx", &call, &limit) == 2 && call == SYS_futex &&
	       !limit;
}

/* Each of its threads does: none sleeps for a while, reads, or waits for a network, and would wake the others then. */
static bool all_wait_for_locks(const char *root, uint32_t pid)
{
	char path[400];
	struct dirent *e;
	bool all = true;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/proc/%u/task", root, pid);
	d = opendir(path);
	if (!d)
		return false;
	while (all && (e = readdir(d)))
		if (e->d_name[0] != '.')
			all = waits_for_lock(root, pid, (uint32_t)strtoul(e->d_name, NULL, 10));
	(void)closedir(d);
	return all;
}

static void add_children(struct proc_children *c, const char *list)
{
	for (char *end; c->n < PROC_CHILDREN; list = end) {
		unsigned long pid = strtoul(list, &end, 10);

		if (end == list)
			return;
		c->at[c->n++] = (uint32_t)pid;
	}
}

/* Those that one of its threads started. */
static bool children_of_thread(const char *root, uint32_t pid, uint32_t thread, char *out,
			       size_t room)
{
	return small_file(out, room, "%s/proc/%u/task/%u/children", root, pid, thread);
}

static uint64_t of_main(struct proc_files *f, const char *root, uint32_t pid)
{
	char text[4096];

	return proc_read(f, root, pid, PROC_OF_MAIN, text, sizeof(text)) ? mix(MIX_START, text) : 0;
}

bool proc_children_changed(struct proc_files *f, const char *root, uint32_t pid,
			   const struct proc_children *c)
{
	return of_main(f, root, pid) != c->of_main;
}

uint32_t proc_parent(const char *root, uint32_t pid)
{
	struct stat_line stat;
	char text[1024];

	return small_file(text, sizeof(text), "%s/proc/%u/stat", root, pid) &&
			       parse_stat(text, &stat)
		       ? stat.parent
		       : 0;
}

static bool is_worker_by_name(struct proc_files *f, const char *root, uint32_t pid)
{
	struct stat_line stat;
	char text[1024];

	return proc_read(f, root, pid, PROC_STAT, text, sizeof(text)) && parse_stat(text, &stat) &&
	       !strcmp(stat.name, WATCH_WORKER_NAME);
}

void proc_children(struct proc_files *f, const char *root, uint32_t pid, struct proc_children *c)
{
	char path[512], text[4096];
	struct dirent *e;
	size_t direct;
	DIR *d;

	*c = (struct proc_children){ .of_main = of_main(f, root, pid) };
	(void)snprintf(path, sizeof(path), "%s/proc/%u/task", root, pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		uint32_t thread = (uint32_t)strtoul(e->d_name, NULL, 10);

		if (thread && children_of_thread(root, pid, thread, text, sizeof(text)))
			add_children(c, text);
	}
	if (d)
		(void)closedir(d);
	direct = c->n;
	for (size_t i = 0; i < direct; i++)
		if (!is_worker_by_name(f, root, c->at[i]) &&
		    children_of_thread(root, c->at[i], c->at[i], text, sizeof(text)))
			add_children(c, text);
}

static enum plim_status add_worker(struct proc_files *f, const char *root, uint32_t pid,
				   struct mem *m, struct watch_sample *s, struct plim_err *err)
{
	struct watch_sample empty = { 0 };
	struct watch_process *w = &empty.main;

	watch_sample_clear(&empty);
	if (!proc_met(f, root, pid, w) || !watch_is_worker(w, &s->main))
		return PLIM_OK;
	look_closer(f, root, w);
	w->locked =
		w->state == 'S' && waits_for_lock(root, pid, pid) && all_wait_for_locks(root, pid);
	return vec_push(m, &s->workers, *w, err);
}

bool proc_sample(struct proc_files *f, const char *root, const struct proc_children *children,
		 struct mem *m, struct watch_sample *s, struct plim_err *err)
{
	uint32_t pid = s->main.pid;
	struct stat_line thread;
	unsigned long long ns;
	char text[1024];

	if (s->main.state == 'Z')
		return false;
	look_closer(f, root, &s->main);
	if (proc_read(f, root, pid, PROC_SCHEDSTAT, text, sizeof(text)) &&
	    sscanf(text, "%*u %llu", &ns) == 1)
		s->main.delay_s = (double)ns / 1e9;
	if (proc_read(f, root, pid, PROC_THREAD, text, sizeof(text)) && parse_stat(text, &thread)) {
		s->main_user_s = thread.user_s;
		s->main_system_s = thread.system_s;
		s->main.state = thread.state;
	}
	for (size_t i = 0; i < children->n; i++)
		if (add_worker(f, root, children->at[i], m, s, err))
			break;
	watch_keep_workers(s);
	return true;
}

/* ---- its relatives ---- */

bool proc_descends(struct proc_files *f, const char *root, uint32_t pid, uint32_t ancestor)
{
	struct stat_line stat;
	char text[1024];

	for (unsigned i = 0; pid > 1 && i < 64; i++, pid = stat.parent) {
		if (pid == ancestor)
			return true;
		if (!proc_read(f, root, pid, PROC_STAT, text, sizeof(text)) ||
		    !parse_stat(text, &stat))
			return false;
	}
	return false;
}

/* Programs that start another one and wait for it. */
static bool is_launcher(const char *name)
{
	static const char *const names[] = { "sh",     "bash",     "dash",       "zsh",
					     "fish",   "env",      "time",       "nice",
					     "ionice", "nohup",    "timeout",    "stdbuf",
					     "sudo",   "setsid",   "taskset",    "numactl",
					     "conda",  "uv",       "poetry",     "accelerate",
					     "srun",   "torchrun", "pt_elastic", "deepspeed" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

uint32_t proc_behind_launchers(const char *root, uint32_t pid)
{
	for (unsigned depth = 0; depth < 8; depth++) {
		struct stat_line stat;
		struct proc_children c;
		char text[1024];

		if (!small_file(text, sizeof(text), "%s/proc/%u/stat", root, pid) ||
		    !parse_stat(text, &stat) || !is_launcher(stat.name))
			return pid;
		c.n = 0;
		if (children_of_thread(root, pid, pid, text, sizeof(text)))
			add_children(&c, text);
		if (c.n != 1)
			return pid;
		pid = c.at[0];
	}
	return pid;
}

/* ---- of several processes ---- */

/* The value of `name` in an environment block; NULL: it is not there. */
static const char *variable(const char *block, size_t n, const char *name)
{
	size_t m = strlen(name);

	for (const char *at = block; at < block + n; at += strlen(at) + 1)
		if (!strncmp(at, name, m) && at[m] == '=')
			return at + m + 1;
	return NULL;
}

static uint64_t proc_number_of(const char *block, size_t n, const char *const *names)
{
	for (; *names; names++) {
		const char *value = variable(block, n, *names);
		char *end;
		unsigned long v = value ? strtoul(value, &end, 10) : 0;

		if (value && end != value && !*end && v < 1u << 24)
			return v;
	}
	return PLIM_UNKNOWN;
}

void proc_rank(const char *root, uint32_t pid, struct proc_rank *out)
{
	static const char *const ranks[] = { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", NULL };
	static const char *const worlds[] = { "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE",
					      NULL };
	static const char *const same[] = { "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
					    "SLURM_JOB_ID", "SLURM_STEP_ID" };
	size_t room = 65536, n;
	char path[320], *block = malloc(room);
	int fd;
	ssize_t got = -1;

	*out = (struct proc_rank){ PLIM_UNKNOWN, PLIM_UNKNOWN, 0 };
	snprintf(path, sizeof(path), "%s/proc/%u/environ", root, pid);
	fd = block ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	if (fd >= 0) {
		got = read(fd, block, room - 1);
		(void)close(fd);
	}
	n = got > 0 ? (size_t)got : 0;
	if (n) {
		block[n] = 0;
		out->rank = proc_number_of(block, n, ranks);
		out->world = proc_number_of(block, n, worlds);
		out->job = MIX_START;
		for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
			out->job = mix(mix(out->job, variable(block, n, same[i])), "\n");
	}
	free(block);
}

/* ---- may it be asked? ---- */

bool watch_catches(uint32_t pid, int number)
{
	char text[4096], *at;
	unsigned long long mask;

	return small_file(text, sizeof(text), "/proc/%u/status", pid) &&
	       (at = strstr(text, "\nSigCgt:")) != NULL && sscanf(at + 8, " %llx", &mask) == 1 &&
	       (mask >> (number - 1) & 1);
}

/* Lines of maps end with the path.  A process has tens of thousands of them at most. */
bool watch_maps(uint32_t pid, const char *path)
{
	char name[320], line[4400];
	size_t n = strlen(path), m;
	bool found = false;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%u/maps", pid);
	f = fopen(name, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		m = strcspn(line, "\n");
		found = m > n && !memcmp(line + m - n, path, n) && line[m - n - 1] == ' ';
	}
	if (f)
		(void)fclose(f);
	return found;
}

/* ---- limits of processor time ---- */

/* Is `name` one of "cpu,cpuacct"?  (cpuset is another one.) */
static bool names_controller(const char *list, size_t n, const char *name)
{
	size_t m = strlen(name);

	for (const char *at = list; at + m <= list + n;) {
		const char *comma = memchr(at, ',', (size_t)(list + n - at));
		size_t k = comma ? (size_t)(comma - at) : (size_t)(list + n - at);

		if (k == m && !memcmp(at, name, m))
			return true;
		if (!comma)
			break;
		at = comma + 1;
	}
	return false;
}

/* Cores that a level of the tree allows; INFINITY: as many as there are. */
static double quota_of(const char *folder)
{
	char text[64], other[64];
	double quota, period;

	if (small_file(text, sizeof(text), "%s/cpu.max", folder))
		return sscanf(text, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period
										   : INFINITY;
	if (!small_file(text, sizeof(text), "%s/cpu.cfs_quota_us", folder) ||
	    !small_file(other, sizeof(other), "%s/cpu.cfs_period_us", folder))
		return INFINITY;
	quota = strtod(text, NULL);
	period = strtod(other, NULL);
	return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* The tightest level from `folder` (below `top` letters) upwards. */
static void tightest(char *folder, size_t top, struct proc_quota *out)
{
	for (;;) {
		double cores = quota_of(folder);
		char *slash;

		if (cores < out->cores &&
		    (size_t)snprintf(out->cpu_stat, sizeof(out->cpu_stat), "%s/cpu.stat", folder) <
			    sizeof(out->cpu_stat))
			out->cores = cores;
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < top)
			return;
		*slash = 0;
	}
}

/* "0::/path" (v2) or "N:cpu,cpuacct:/path" (v1) of /proc/PID/cgroup. */
void proc_quota(const char *root, uint32_t pid, struct proc_quota *out)
{
	char text[4096], folder[400], *line, *next;

	*out = (struct proc_quota){ .cores = INFINITY };
	if (!small_file(text, sizeof(text), "%s/proc/%u/cgroup", root, pid))
		return;
	for (line = text; line && *line; line = next) {
		bool unified = !strncmp(line, "0::", 3);
		const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
		size_t top;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!path ||
		    (!unified && !names_controller(list + 1, (size_t)(path - list - 1), "cpu")))
			continue;
		top = (size_t)snprintf(folder, sizeof(folder), "%s/sys/fs/cgroup%s", root,
				       unified ? "" : "/cpu");
		if (top < sizeof(folder) && (size_t)snprintf(folder + top, sizeof(folder) - top,
							     "%s", path + 1) < sizeof(folder) - top)
			tightest(folder, top, out);
	}
}

void proc_throttled(const char *path, struct watch_host *out)
{
	char text[2048];
	uint64_t us, ns;

	if (!*path || !small_file(text, sizeof(text), "%s", path))
		return;
	out->periods = number_after(text, "nr_periods");
	out->throttled_periods = number_after(text, "nr_throttled");
	us = number_after(text, "throttled_usec");
	ns = number_after(text, "throttled_time");
	if (us != PLIM_UNKNOWN)
		out->throttled_s = (double)us / 1e6;
	else if (ns != PLIM_UNKNOWN)
		out->throttled_s = (double)ns / 1e9;
}

/* ---- who is here ---- */

/* The path of the hierarchy with those controllers (NULL: of the first that is not its root); false: there is none. */
static bool path_in(const char *root, const char *pid, const char *controllers,
		    struct proc_here *out)
{
	char text[4096], *line, *next;

	if (!small_file(text, sizeof(text), "%s/proc/%s/cgroup", root, pid))
		return false;
	for (line = text; line && *line; line = next) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (!path)
			continue;
		*path++ = 0;
		if (controllers ? strcmp(list + 1, controllers) != 0 : !strcmp(path, "/"))
			continue;
		if ((size_t)snprintf(out->controllers, sizeof(out->controllers), "%s", list + 1) <
			    sizeof(out->controllers) &&
		    (size_t)snprintf(out->path, sizeof(out->path), "%s", path) < sizeof(out->path))
			return true;
	}
	return false;
}

/* Letters of "job_4711" (Slurm: all of its steps) or "user-1000.slice" (all sessions); 0: it is neither. */
static size_t encloses(const char *part)
{
	size_t n = strcspn(part, "/"), at;

	if (!strncmp(part, "job_", 4)) {
		at = 4 + strspn(part + 4, "0123456789");
		return at == n && n > 4 ? n : 0;
	}
	if (strncmp(part, "user-", 5) != 0)
		return 0;
	at = 5 + strspn(part + 5, "0123456789");
	return at > 5 && n == at + 6 && !strncmp(part + at, ".slice", 6) ? n : 0;
}

void proc_here(const char *root, struct proc_here *out)
{
	*out = (struct proc_here){ .path = "" };
	if (!path_in(root, "self", NULL, out)) {
		out->path[0] = 0;
		return;
	}
	for (char *slash = out->path; slash; slash = strchr(slash + 1, '/')) {
		size_t n = encloses(slash + 1);

		if (n)
			slash[1 + n] = 0;
	}
}

bool proc_is_here(const char *root, uint32_t pid, const struct proc_here *here)
{
	struct proc_here its;
	size_t n = strlen(here->path);
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", pid);
	return !n || (path_in(root, number, here->controllers, &its) &&
		      !strncmp(its.path, here->path, n) && (!its.path[n] || its.path[n] == '/'));
}

/* ---- the host ---- */

void proc_cgroup(const char *root, uint32_t pid, char *out, size_t room)
{
	char text[4096], *line;

	*out = 0;
	if (!small_file(text, sizeof(text), "%s/proc/%u/cgroup", root, pid))
		return;
	line = !strncmp(text, "0::", 3) ? text : strstr(text, "\n0::");
	if (!line)
		return;
	line += line == text ? 3 : 4;
	line[strcspn(line, "\n")] = 0;
	if ((size_t)snprintf(out, room, "%s/sys/fs/cgroup%s", root, line) >= room)
		*out = 0;
}

uint64_t proc_cgroup_kills(const char *folder)
{
	char text[1024];

	return *folder && small_file(text, sizeof(text), "%s/memory.events", folder)
		       ? number_after(text, "\noom_kill ")
		       : PLIM_UNKNOWN;
}

void proc_machine(const char *root, struct watch_host *out)
{
	char text[4096];
	uint64_t total, left;

	if (!small_file(text, sizeof(text), "%s/proc/meminfo", root))
		return;
	total = number_after(text, "MemTotal:");
	left = number_after(text, "MemAvailable:");
	out->total_bytes = total < UINT64_MAX / 1024 ? total * 1024 : PLIM_UNKNOWN;
	out->available_bytes = left < UINT64_MAX / 1024 ? left * 1024 : PLIM_UNKNOWN;
}

uint64_t proc_cores(const char *root, uint32_t pid)
{
	cpu_set_t set;

	return !*root && !sched_getaffinity((pid_t)pid, sizeof(set), &set)
		       ? (uint64_t)CPU_COUNT(&set)
		       : PLIM_UNKNOWN;
}

uint64_t proc_place(const char *root, uint32_t pid)
{
	static const char *const links[] = { "ns/mnt", "root" };
	uint64_t sum = MIX_START;
	char text[4096], path[400];

	(void)small_file(text, sizeof(text), "%s/proc/%u/cgroup", root, pid);
	sum = mix(sum, text);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		ssize_t n;

		(void)snprintf(path, sizeof(path), "%s/proc/%u/%s", root, pid, links[i]);
		n = readlink(path, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = 0;
		sum = mix(mix(sum, "\n"), text);
	}
	return sum;
}

/* ---- its name ---- */

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* "train.py" of "python -u train.py --lr 1", "pkg.train" of "python -m pkg.train"; else the program, of -c too. */
bool proc_name(const char *root, uint32_t pid, char *out, size_t room)
{
	char text[1024];
	size_t n = 0;
	const char *name, *word;

	/* Who has ended has no command line, nor has who is starting, or a thread of the kernel's. */
	if (!small_file(text, sizeof(text) - 1, "%s/proc/%u/cmdline", root, pid) || !*text) {
		if (!*out)
			snprintf(out, room, "pid %u", pid);
		return false;
	}
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
	return true;
}
