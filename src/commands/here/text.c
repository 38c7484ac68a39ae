/* The answer for a person: the headroom, then what it rests on. */
#include "commands/here/here.h"

#include "commands/out.h"

#include <stdio.h>
#include <string.h>

#define PROCESSES_SHOWN 10
#define FILES_SHOWN 5
#define KILLS_SHOWN 8

/* ---- pieces ---- */

/* A column: what stands above it, and the narrowest text that has room for it. */
struct column {
	const char *title;
	char align;
	unsigned from;
	void (*write)(struct text *cell, const void *row);
};

static void here_table_text(struct text *t, const struct column *columns, size_t n,
			    const void *rows, size_t row_size, size_t count)
{
	unsigned width = t->style.width ? t->style.width : 80;
	const struct column *shown[16];
	char align[17] = "";
	struct text_table b;
	size_t k = 0;

	for (size_t c = 0; c < n && k < 16; c++) {
		if (columns[c].from > width)
			continue;
		align[k] = columns[c].align;
		shown[k++] = &columns[c];
	}
	text_table_init(&b, t, align, TEXT_CUT_MIDDLE);
	for (size_t c = 0; c < k; c++)
		text_cell_printf(&b, "%s", shown[c]->title);
	for (size_t i = 0; i < count; i++)
		for (size_t c = 0; c < k; c++) {
			shown[c]->write(text_cell(&b), (const char *)rows + i * row_size);
			text_cell_end(&b);
		}
	text_table_write(t, &b, 2);
	text_table_release(&b);
}

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define TABLE(t, columns, rows, count) \
	here_table_text(t, columns, LENGTH(columns), rows, sizeof(*(rows)), count)

/* Cells: one function a member. */
#define BYTES(S, member)                                                               \
	static void S##_##member(struct text *cell, const void *row)                   \
	{                                                                              \
		text_bytes(cell, ((const struct plim_here_##S *)row)->member##_bytes); \
	}
#define COUNT(S, member)                                                       \
	static void S##_##member(struct text *cell, const void *row)           \
	{                                                                      \
		text_count(cell, ((const struct plim_here_##S *)row)->member); \
	}
/* Of a process: no thousands in it, no one can type them. */
#define NUMBER(S, member)                                                       \
	static void S##_##member(struct text *cell, const void *row)            \
	{                                                                       \
		here_number(cell, ((const struct plim_here_##S *)row)->member); \
	}
#define NAME(S, member)                                                  \
	static void S##_##member(struct text *cell, const void *row)     \
	{                                                                \
		name(cell, ((const struct plim_here_##S *)row)->member); \
	}
#define LIMIT(S, member)                                                   \
	static void S##_##member(struct text *cell, const void *row)       \
	{                                                                  \
		limit(cell, &((const struct plim_here_##S *)row)->member); \
	}

static void name(struct text *cell, const char *s)
{
	text_name(cell, s ? s : "-", s ? strlen(s) : 1);
}

static void here_number(struct text *cell, uint64_t pid)
{
	if (pid == PLIM_UNKNOWN)
		text_puts(cell, "-");
	else
		text_printf(cell, "%llu", (unsigned long long)pid);
}

static void limit(struct text *cell, const struct plim_here_limit *l)
{
	if (l->state == PLIM_HERE_LIMIT_NONE)
		text_puts(cell, "none");
	else
		text_bytes(cell, l->bytes);
}

/* ---- the headroom ---- */

static const char *const kinds[] = {
	[PLIM_HERE_CGROUP] = "the limit of cgroup",
	[PLIM_HERE_CGROUP_HIGH] = "memory.high of cgroup",
	[PLIM_HERE_CGROUP_MEMSW] = "the limit of memory and swap of cgroup",
	[PLIM_HERE_CGROUP_ABOVE] = "the limit of a cgroup that is not visible,",
	[PLIM_HERE_MACHINE] = "the memory of the",
	[PLIM_HERE_COMMIT_LIMIT] = "overcommit is off (vm.overcommit_memory=2):",
	[PLIM_HERE_RLIMIT_AS] = "ulimit -v,",
	[PLIM_HERE_RLIMIT_DATA] = "ulimit -d,",
	[PLIM_HERE_DEV_SHM] = "the size of",
};

static const char *const effects[] = {
	[PLIM_HERE_KILLED] = "then the kernel kills",
	[PLIM_HERE_HANGS] = "then processes hang",
	[PLIM_HERE_SLOWED] = "then the kernel slows down",
	[PLIM_HERE_REFUSED] = "then malloc fails",
	[PLIM_HERE_BUS_ERROR] = "then Bus error",
};

static void evidence(struct text *t, const struct plim_here_bound *b)
{
	struct text line;

	text_init(&line, t->mem, &t->style);
	text_puts(&line, "limit ");
	text_bytes(&line, b->limit_bytes);
	if (b->used_bytes == PLIM_UNKNOWN) {
		text_puts(&line, "; its use is not known");
	} else {
		text_puts(&line, b->at_most ? ", used at least " : ", used ");
		text_bytes(&line, b->used_bytes);
	}
	if (b->droppable_bytes != PLIM_UNKNOWN && b->droppable_bytes) {
		text_puts(&line, ", of which up to ");
		text_bytes(&line, b->droppable_bytes);
		text_puts(&line, " is cache that the kernel can drop");
	}
	if (b->swap_room_bytes != PLIM_UNKNOWN && b->swap_room_bytes) {
		text_puts(&line, "; swap has ");
		text_bytes(&line, b->swap_room_bytes);
		text_puts(&line, " more");
	}
	text_puts(t, "  ");
	text_wrap(t, 2, 2, "%s", text_get(&line));
	text_release(&line);
}

/* "Memory: 3.21 GiB left, then the kernel kills (the limit of cgroup /a/b)" */
static void here_verdict(struct text *t, const char *what, const struct plim_here_bound *b)
{
	unsigned width = t->style.width ? t->style.width : 80;
	struct text line;

	text_init(&line, t->mem, &t->style);
	text_puts(&line, b->at_most ? "at most " : "");
	text_bytes(&line, b->room_bytes);
	text_printf(&line, " left, %s (%s ", effects[b->effect], kinds[b->kind]);
	text_name_fit(&line, b->where, strlen(b->where), width > 48 ? width - 30 : 18,
		      TEXT_CUT_MIDDLE);
	text_puts(&line, ")");
	text_hue(t, TEXT_HEAD);
	text_puts(t, what);
	text_plain(t);
	text_wrap(t, (unsigned)strlen(what), 2, "%s", text_get(&line));
	text_release(&line);
	evidence(t, b);
}

static void verdicts(struct text *t, const struct plim_here *h)
{
	if (h->headroom) {
		here_verdict(t, "Memory: ", h->headroom);
	} else {
		text_hue(t, TEXT_HEAD);
		text_puts(t, "Memory: ");
		text_plain(t);
		text_wrap(t, 8, 2, "how much is left is not known: no bound could be read");
	}
	if (h->shared && h->shared->kind == PLIM_HERE_DEV_SHM)
		here_verdict(t, "Shared memory: ", h->shared);
}

static void bound_room(struct text *cell, const void *row)
{
	const struct plim_here_bound *b = row;

	text_puts(cell, b->at_most ? "<= " : "");
	text_bytes(cell, b->room_bytes);
}
BYTES(bound, limit)
BYTES(bound, used)
BYTES(bound, droppable)

static void bound_where(struct text *cell, const void *row)
{
	static const char *const prefix[] = {
		[PLIM_HERE_CGROUP] = "cgroup ",
		[PLIM_HERE_CGROUP_HIGH] = "high (slows) ",
		[PLIM_HERE_CGROUP_MEMSW] = "with swap ",
		[PLIM_HERE_CGROUP_ABOVE] = "cgroup ",
		[PLIM_HERE_DEV_SHM] = "",
	};
	const struct plim_here_bound *b = row;

	if (b->kind < LENGTH(prefix) && prefix[b->kind])
		text_puts(cell, prefix[b->kind]);
	name(cell, b->where);
}

static const struct column bound_columns[] = {
	{ "left", 'r', 0, bound_room },   { "limit", 'r', 0, bound_limit },
	{ "used", 'r', 56, bound_used },  { "cache", 'r', 72, bound_droppable },
	{ "bound", 'l', 0, bound_where },
};

/* ---- who was killed ---- */

static void ago(struct text *cell, uint64_t s)
{
	static const struct {
		uint64_t from;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 0, "s" } };

	if (s == PLIM_UNKNOWN) {
		text_puts(cell, "-");
		return;
	}
	for (size_t i = 0; i < LENGTH(units); i++)
		if (s >= units[i].from) {
			text_count(cell, units[i].from ? s / units[i].from : s);
			text_printf(cell, " %s ago", units[i].unit);
			return;
		}
}

static void kill_ago(struct text *cell, const void *row)
{
	ago(cell, ((const struct plim_here_kill *)row)->ago_s);
}

BYTES(kill, anon)
BYTES(kill, shmem)
NUMBER(kill, pid)

/* The kernel's names have 15 bytes; what is longer is not a name, and would push the rest away. */
static void kill_name(struct text *cell, const void *row)
{
	const char *s = ((const struct plim_here_kill *)row)->name;

	text_name_fit(cell, s ? s : "-", s ? strlen(s) : 1, 20, TEXT_CUT_RIGHT);
}

static void kill_bound(struct text *cell, const void *row)
{
	const struct plim_here_kill *k = row;

	text_puts(cell, k->bound ? k->bound : "-");
	if (k->cgroup) {
		text_puts(cell, " ");
		name(cell, k->cgroup);
	}
}

static const struct column kill_columns[] = {
	{ "when", 'r', 0, kill_ago },      { "its own", 'r', 0, kill_anon },
	{ "shared", 'r', 72, kill_shmem }, { "pid", 'r', 56, kill_pid },
	{ "name", 'l', 0, kill_name },     { "bound", 'l', 56, kill_bound },
};

static void kills(struct text *t, const struct plim_here *h)
{
	size_t shown = h->kill_count < KILLS_SHOWN ? h->kill_count : KILLS_SHOWN;

	if (!h->kill_count)
		return;
	out_title(t, "Killed by the kernel, the newest first");
	TABLE(t, kill_columns, h->kills, shown);
	if (shown < h->kill_count)
		text_printf(t, "  and %zu more\n", h->kill_count - shown);
}

/* ---- cgroups ---- */

LIMIT(cgroup, max)
BYTES(cgroup, current)
BYTES(cgroup, peak)
BYTES(cgroup, droppable)
COUNT(cgroup, max_events)
COUNT(cgroup, oom_kill_events)
NAME(cgroup, path)

static const struct column cgroup_columns[] = {
	{ "limit", 'r', 0, cgroup_max },
	{ "used", 'r', 0, cgroup_current },
	{ "peak", 'r', 72, cgroup_peak },
	{ "cache", 'r', 100, cgroup_droppable },
	{ "at limit", 'r', 72, cgroup_max_events },
	{ "kills", 'r', 0, cgroup_oom_kill_events },
	{ "cgroup, own first", 'l', 0, cgroup_path },
};

static void cgroups(struct text *t, const struct plim_here *h)
{
	if (!h->cgroup_count)
		return;
	text_puts(t, "\n");
	TABLE(t, cgroup_columns, h->cgroups, h->cgroup_count);
}

/* ---- the machine ---- */

static int pressed(const struct plim_here_pressure *p)
{
	return p->some.avg10_pct > 0 || p->some.avg60_pct > 0 || p->some.avg300_pct > 0;
}

static void pressure(struct text *t, const char *of, const struct plim_here_pressure *p)
{
	struct text safe;

	text_init(&safe, t->mem, &t->style);
	text_name(&safe, of, strlen(of));
	text_puts(t, "  ");
	text_wrap(t, 2, 4,
		  "waiting for memory (%s): some task %.2f %% of the last 10 s, %.2f %% of 60 s, "
		  "%.2f %% of 300 s; all tasks %.2f, %.2f, %.2f %%",
		  text_get(&safe), p->some.avg10_pct, p->some.avg60_pct, p->some.avg300_pct,
		  p->full.avg10_pct, p->full.avg60_pct, p->full.avg300_pct);
	text_release(&safe);
}

static void pressures(struct text *t, const struct plim_here *h)
{
	if (pressed(&h->machine.pressure))
		pressure(t, "machine", &h->machine.pressure);
	else if (h->machine.pressure.some.avg10_pct == 0)
		text_puts(t, "  nothing waits for memory (PSI)\n");
	for (size_t i = 0; i < h->cgroup_count; i++)
		if (h->cgroups[i].path && pressed(&h->cgroups[i].pressure))
			pressure(t, h->cgroups[i].path, &h->cgroups[i].pressure);
}

static void machine(struct text *t, const struct plim_here *h)
{
	static const char *const overcommit[] = { "-", "heuristic", "always", "never" };
	const struct plim_here_machine *m = &h->machine;
	struct text line;

	out_title(t, "Machine");
	text_init(&line, t->mem, &t->style);
	text_bytes(&line, m->total_bytes);
	text_puts(&line, ", available ");
	text_bytes(&line, m->available_bytes);
	text_puts(&line, "; shared memory ");
	text_bytes(&line, m->shmem_bytes);
	text_puts(&line, "; swap ");
	text_bytes(&line, m->swap_total_bytes);
	text_puts(&line, ", free ");
	text_bytes(&line, m->swap_free_bytes);
	text_printf(&line, "; overcommit %s, promised ", overcommit[m->overcommit]);
	text_bytes(&line, m->committed_bytes);
	text_puts(&line, " of ");
	text_bytes(&line, m->commit_limit_bytes);
	if (m->hugepages_total && m->hugepages_total != PLIM_UNKNOWN) {
		text_puts(&line, "; huge pages ");
		text_count(&line, m->hugepages_total);
		text_puts(&line, " of ");
		text_bytes(&line, m->hugepage_bytes);
		text_puts(&line, ", free ");
		text_count(&line, m->hugepages_free);
	}
	text_puts(t, "  ");
	text_wrap(t, 2, 4, "%s", text_get(&line));
	text_release(&line);
	pressures(t, h);
}

LIMIT(rlimit, soft)
LIMIT(rlimit, hard)
BYTES(rlimit, used)
NAME(rlimit, name)

static const struct column rlimit_columns[] = {
	{ "limit", 'r', 0, rlimit_soft },
	{ "may become", 'r', 56, rlimit_hard },
	{ "used", 'r', 0, rlimit_used },
	{ "of the process", 'l', 0, rlimit_name },
};

static void rlimits(struct text *t, const struct plim_here *h)
{
	text_puts(t, "\n");
	TABLE(t, rlimit_columns, h->rlimits, h->rlimit_count);
	text_puts(t, "  open files: ");
	text_count(t, h->open_files.open);
	text_puts(t, " of ");
	text_count(t, h->open_files.soft);
	text_puts(t, " (RLIMIT_NOFILE)\n");
}

/* ---- /dev/shm ---- */

BYTES(process, rss)
BYTES(process, anon)
BYTES(process, shmem)
BYTES(process, pss)
NUMBER(process, pid)
NAME(process, name)

static void process_score(struct text *cell, const void *row)
{
	const struct plim_here_process *p = row;

	text_count(cell, p->oom ? p->oom->score : PLIM_UNKNOWN);
}

static void process_state(struct text *cell, const void *row)
{
	const struct plim_here_process *p = row;

	text_name(cell, p->state ? p->state : "-", 1);
}

static void shm_file_bytes(struct text *cell, const void *row)
{
	text_bytes(cell, ((const struct plim_here_shm_file *)row)->bytes);
}

NAME(shm_file, name)

static const struct column shm_columns[] = {
	{ "size", 'r', 0, shm_file_bytes },
	{ "file in /dev/shm", 'l', 0, shm_file_name },
};

/* Those who have files open there, "python [12] 34". */
static void shm_users(struct text *t, const struct plim_here *h)
{
	struct text line;
	unsigned n = 0;

	text_init(&line, t->mem, &t->style);
	for (size_t i = 0; i < h->process_count && n < PROCESSES_SHOWN; i++) {
		const struct plim_here_process *p = &h->processes[i];

		if (!p->shm_files || p->shm_files == PLIM_UNKNOWN)
			continue;
		text_puts(&line, n++ ? ", " : "open: ");
		name(&line, p->name);
		text_printf(&line, " [%llu] ", (unsigned long long)p->pid);
		text_count(&line, p->shm_files);
		text_puts(&line, p->shm_files == 1 ? " file" : " files");
		if (p->shm_unlinked) {
			text_puts(&line, " (");
			text_count(&line, p->shm_unlinked);
			text_puts(&line, " without a name)");
		}
	}
	if (n) {
		text_puts(t, "  ");
		text_wrap(t, 2, 4, "%s", text_get(&line));
	}
	text_release(&line);
}

static void shm(struct text *t, const struct plim_here *h)
{
	size_t shown = h->shm.shown_count < FILES_SHOWN ? h->shm.shown_count : FILES_SHOWN;
	struct text line;

	if (h->shm.used_bytes == PLIM_UNKNOWN && h->shm.named_bytes == PLIM_UNKNOWN)
		return;
	out_title(t, "/dev/shm");
	text_init(&line, t->mem, &t->style);
	text_bytes(&line, h->shm.used_bytes);
	text_puts(&line, " of ");
	text_bytes(&line, h->shm.size_bytes);
	text_puts(&line, ", ");
	text_bytes(&line, h->shm.named_bytes);
	text_puts(&line, " in ");
	text_count(&line, h->shm.file_count);
	text_puts(&line, h->shm.file_count == 1 ? " named file" : " named files");
	if (h->shm.used_bytes != PLIM_UNKNOWN && h->shm.named_bytes != PLIM_UNKNOWN &&
	    h->shm.used_bytes > h->shm.named_bytes) {
		text_puts(&line, ", ");
		text_bytes(&line, h->shm.used_bytes - h->shm.named_bytes);
		text_puts(&line, " without a name");
	}
	text_puts(t, "  ");
	text_wrap(t, 2, 4, "%s", text_get(&line));
	text_release(&line);
	if (shown)
		TABLE(t, shm_columns, h->shm.files, shown);
	shm_users(t, h);
}

/* ---- processes and GPUs ---- */

static const struct column process_columns[] = {
	{ "in memory", 'r', 0, process_rss }, { "its own", 'r', 56, process_anon },
	{ "shared", 'r', 0, process_shmem },  { "PSS", 'r', 72, process_pss },
	{ "oom", 'r', 72, process_score },    { "", 'l', 72, process_state },
	{ "pid", 'r', 0, process_pid },       { "name", 'l', 0, process_name },
};

static void here_processes(struct text *t, const struct plim_here *h)
{
	size_t shown = h->process_count < PROCESSES_SHOWN ? h->process_count : PROCESSES_SHOWN;
	uint64_t sum = 0;

	if (!shown)
		return;
	out_title(t, "Processes, the largest first");
	TABLE(t, process_columns, h->processes, shown);
	for (size_t i = shown; i < h->process_count; i++)
		if (h->processes[i].rss_bytes != PLIM_UNKNOWN &&
		    __builtin_add_overflow(sum, h->processes[i].rss_bytes, &sum))
			sum = PLIM_UNKNOWN;
	if (shown < h->process_count) {
		text_printf(t, "  and %zu more, together ", h->process_count - shown);
		text_bytes(t, sum);
		text_puts(t, "\n");
	}
}

NUMBER(holder, pid)
NUMBER(holder, parent)
NAME(holder, device)

static void holder_state(struct text *cell, const void *row)
{
	const struct plim_here_holder *p = row;

	if (p->zombie)
		text_puts(cell, "ZOMBIE, a thread lives");
	else
		name(cell, p->state);
}

static void holder_container(struct text *cell, const void *row)
{
	const struct plim_here_holder *p = row;

	name(cell, p->name);
	if (p->container) {
		text_puts(cell, " in container ");
		name(cell, p->container);
	}
}

static const struct column holder_columns[] = {
	{ "device", 'l', 0, holder_device },  { "pid", 'r', 0, holder_pid },
	{ "parent", 'r', 72, holder_parent }, { "state", 'l', 56, holder_state },
	{ "name", 'l', 0, holder_container },
};

static void cards(struct text *t, const struct plim_here *h)
{
	if (!h->holder_count)
		return;
	out_title(t, "Who has a GPU open");
	TABLE(t, holder_columns, h->holders, h->holder_count);
}

/* ---- the rest ---- */

static void unseen(struct text *t, const struct plim_here *h)
{
	struct text line;

	if (h->unseen_count)
		out_title(t, "Not seen");
	for (size_t i = 0; i < h->unseen_count; i++) {
		text_init(&line, t->mem, &t->style);
		text_printf(&line, "%s: %s", h->unseen[i].what, h->unseen[i].why);
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, text_get(&line));
		text_release(&line);
	}
}

enum plim_status plim_here_text(const struct plim_here *h, const struct plim_text_style *style,
				plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style ? style->width : 0, style && style->color,
				style && style->utf8 };
	struct text t;

	text_init(&t, &h->hidden->mem, &s);
	verdicts(&t, h);
	if (h->bound_count) {
		out_title(&t, "Limits, the nearest first");
		TABLE(&t, bound_columns, h->bounds, h->bound_count);
	}
	kills(&t, h);
	cgroups(&t, h);
	machine(&t, h);
	rlimits(&t, h);
	shm(&t, h);
	here_processes(&t, h);
	cards(&t, h);
	out_list(&t, "Notes", h->notes, h->note_count);
	unseen(&t, h);
	return out_text(&t, write, ctx, err);
}
