/*
 * Samples as JSON lines: one object a moment, {"t": seconds, ...}; docs/formats/watch-samples.md has the members.  A first object without "t" shows
 * what was recorded.  Members that are not known are skipped, those that are missing are unknown.
 */
#include "watch/stack.h"

#include <stdio.h>

#define TICKS 100.0 /* of a process's clock, a second: USER_HZ, fixed in the kernel's interface */

struct watch_lines {
	struct mem *mem;
	struct source *source;
	struct json json;
	char name[64];
	uint64_t pid;
	uint64_t page_bytes;
};

/* One object or array is being read into `to`. */
typedef enum plim_status member_fn(struct watch_lines *l, struct watch_sample *s, void *to,
				   const struct json_token *value, struct plim_err *err);

struct member {
	const char *key;
	enum { DOUBLE, U64, KB, I64, TEXT, PART, INNER } kind;
	size_t offset;
	size_t room;  /* TEXT */
	double scale; /* DOUBLE */
	member_fn *part;
	const struct member *inner; /* INNER: an object's own members, read into the same thing */
};
#define END                                       \
	{                                         \
		NULL, DOUBLE, 0, 0, 0, NULL, NULL \
	}

static void take_text(char *to, size_t room, const struct json_token *t)
{
	size_t n = t->kind == JSON_STRING ? t->n : 0;

	n = n < room ? n : room - 1;
	if (n)
		memcpy(to, t->string, n);
	memset(to + n, 0, room - n);
}

static enum plim_status object(struct watch_lines *l, struct watch_sample *s,
			       const struct member *members, void *to, struct plim_err *err);

static enum plim_status take_watch_line(struct watch_lines *l, struct watch_sample *s,
					const struct member *m, void *to,
					const struct json_token *t, struct plim_err *err)
{
	char *at = (char *)to + m->offset;
	bool number = t->kind == JSON_INTEGER || t->kind == JSON_DOUBLE;
	uint64_t u;

	if (m->kind == PART)
		return m->part(l, s, at, t, err);
	if (m->kind == INNER && t->kind == JSON_OBJECT)
		return object(l, s, m->inner, at, err);
	if (m->kind == TEXT)
		take_text(at, m->room, t);
	else if (m->kind == DOUBLE && number)
		*(double *)(void *)at = t->number * m->scale;
	else if ((m->kind == U64 || m->kind == KB) && json_get_u64(t, &u) && u < (uint64_t)1 << 53)
		*(uint64_t *)(void *)at = m->kind == KB ? u * 1024 : u;
	else if (m->kind == I64)
		json_get_i64(t, (int64_t *)(void *)at);
	return json_skip(&l->json, t, err);
}

/* The members of an object that has begun. */
static enum plim_status object(struct watch_lines *l, struct watch_sample *s,
			       const struct member *members, void *to, struct plim_err *err)
{
	struct json_token t;
	const struct member *m;
	enum plim_status st;

	for (;;) {
		st = json_next(&l->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			return st;
		for (m = members; m->key && !json_is(&t, m->key); m++)
			;
		st = m->key ? json_next(&l->json, &t, err) : json_skip(&l->json, &t, err);
		if (!st && m->key)
			st = take_watch_line(l, s, m, to, &t, err);
		if (st)
			return st;
	}
}

/* ---- the parts ---- */

static const struct member gpm_members[] = {
	{ "graphics", DOUBLE, offsetof(struct watch_card, graphics), 0, 1, NULL, NULL },
	{ "sm_util", DOUBLE, offsetof(struct watch_card, sm), 0, 1, NULL, NULL },
	{ "sm_occ", DOUBLE, offsetof(struct watch_card, occupancy), 0, 1, NULL, NULL },
	{ "tensor", DOUBLE, offsetof(struct watch_card, tensor), 0, 1, NULL, NULL },
	{ "dram", DOUBLE, offsetof(struct watch_card, dram), 0, 1, NULL, NULL },
	{ "pcie_rx", DOUBLE, offsetof(struct watch_card, receive_mib), 0, 1, NULL, NULL },
	{ "pcie_tx", DOUBLE, offsetof(struct watch_card, transmit_mib), 0, 1, NULL, NULL },
	END
};

static const struct member mem_members[] = {
	{ "MemTotal", KB, offsetof(struct watch_host, total_bytes), 0, 0, NULL, NULL },
	{ "MemAvailable", KB, offsetof(struct watch_host, available_bytes), 0, 0, NULL, NULL },
	END
};

/* Bounds of the host, as this program writes them. */
static const struct member host_members[] = {
	{ "cores", U64, offsetof(struct watch_host, cores), 0, 0, NULL, NULL },
	{ "limit", U64, offsetof(struct watch_host, limit_bytes), 0, 0, NULL, NULL },
	{ "limit_used", U64, offsetof(struct watch_host, limit_used_bytes), 0, 0, NULL, NULL },
	{ "shm_total", U64, offsetof(struct watch_host, shm_total_bytes), 0, 0, NULL, NULL },
	{ "shm_used", U64, offsetof(struct watch_host, shm_used_bytes), 0, 0, NULL, NULL },
	{ "throttled_s", DOUBLE, offsetof(struct watch_host, throttled_s), 0, 1, NULL, NULL },
	{ "quota_cores", DOUBLE, offsetof(struct watch_host, quota_cores), 0, 1, NULL, NULL },
	{ "periods", U64, offsetof(struct watch_host, periods), 0, 0, NULL, NULL },
	{ "throttled_periods", U64, offsetof(struct watch_host, throttled_periods), 0, 0, NULL,
	  NULL },
	END
};

static const struct member gauge_members[] = {
	{ "step", U64, offsetof(struct watch_gauge, step), 0, 0, NULL, NULL },
	{ "allocated", U64, offsetof(struct watch_gauge, allocated_bytes), 0, 0, NULL, NULL },
	{ "reserved", U64, offsetof(struct watch_gauge, reserved_bytes), 0, 0, NULL, NULL },
	{ "limit", U64, offsetof(struct watch_gauge, limit_bytes), 0, 0, NULL, NULL },
	{ "peak", U64, offsetof(struct watch_gauge, peak_bytes), 0, 0, NULL, NULL },
	{ "phase", U64, offsetof(struct watch_gauge, phase), 0, 0, NULL, NULL },
	{ "loss", DOUBLE, offsetof(struct watch_gauge, loss), 0, 1, NULL, NULL },
	{ "data_s", DOUBLE, offsetof(struct watch_gauge, data_s), 0, 1, NULL, NULL },
	{ "total_s", DOUBLE, offsetof(struct watch_gauge, total_s), 0, 1, NULL, NULL },
	END
};

static enum plim_status take_gauge(struct watch_lines *l, struct watch_sample *s, void *to,
				   const struct json_token *t, struct plim_err *err)
{
	if (t->kind != JSON_OBJECT)
		return json_skip(&l->json, t, err);
	((struct watch_gauge *)to)->here = true;
	return object(l, s, gauge_members, to, err);
}

/* ---- processes ---- */

static const struct member io_members[] = {
	{ "wchar", U64, offsetof(struct watch_process, written_chars), 0, 0, NULL, NULL },
	{ "read_bytes", U64, offsetof(struct watch_process, read_bytes), 0, 0, NULL, NULL },
	{ "write_bytes", U64, offsetof(struct watch_process, stored_bytes), 0, 0, NULL, NULL },
	END
};

/* "12302241602 8220431 195": ns on a processor, ns waiting for one, slices. */
static enum plim_status take_sched(struct watch_lines *l, struct watch_sample *s, void *to,
				   const struct json_token *t, struct plim_err *err)
{
	struct watch_process *p = to;
	unsigned long long ns;

	(void)s;
	if (t->kind == JSON_STRING && sscanf(t->string, "%*u %llu", &ns) == 1)
		p->delay_s = (double)ns / 1e9;
	return json_skip(&l->json, t, err);
}

/* "running", "-1", or the number first; sometimes a number. */
static enum plim_status take_call(struct watch_lines *l, struct watch_sample *s, void *to,
				  const struct json_token *t, struct plim_err *err)
{
	struct watch_process *p = to;
	long long number;

	(void)s;
	if (t->kind == JSON_STRING && sscanf(t->string, "%lld", &number) == 1)
		p->call = number;
	else if (t->kind == JSON_INTEGER)
		json_get_i64(t, &p->call);
	return json_skip(&l->json, t, err);
}

static enum plim_status take_state(struct watch_lines *l, struct watch_sample *s, void *to,
				   const struct json_token *t, struct plim_err *err)
{
	(void)s;
	if (t->kind == JSON_STRING && t->n == 1)
		((struct watch_process *)to)->state = t->string[0];
	return json_skip(&l->json, t, err);
}

struct read_process {
	struct watch_process p;
	uint64_t pid, parent, pages;
};

static const struct member process_members[] = {
	{ "pid", U64, offsetof(struct read_process, pid), 0, 0, NULL, NULL },
	{ "ppid", U64, offsetof(struct read_process, parent), 0, 0, NULL, NULL },
	{ "start", U64, offsetof(struct read_process, p.start_time), 0, 0, NULL, NULL },
	{ "comm", TEXT, offsetof(struct read_process, p.name),
	  sizeof(((struct watch_process *)0)->name), 0, NULL, NULL },
	{ "wchan", TEXT, offsetof(struct read_process, p.sleeps_in),
	  sizeof(((struct watch_process *)0)->sleeps_in), 0, NULL, NULL },
	{ "state", PART, offsetof(struct read_process, p), 0, 0, take_state, NULL },
	{ "utime", DOUBLE, offsetof(struct read_process, p.user_s), 0, 1 / TICKS, NULL, NULL },
	{ "stime", DOUBLE, offsetof(struct read_process, p.system_s), 0, 1 / TICKS, NULL, NULL },
	{ "locked", U64, offsetof(struct read_process, p.locked), 0, 0, NULL, NULL },
	{ "workless", U64, offsetof(struct read_process, p.workless), 0, 0, NULL, NULL },
	{ "rss", U64, offsetof(struct read_process, pages), 0, 0, NULL, NULL },
	{ "io", INNER, offsetof(struct read_process, p), 0, 0, NULL, io_members },
	{ "sched", PART, offsetof(struct read_process, p), 0, 0, take_sched, NULL },
	{ "syscall", PART, offsetof(struct read_process, p), 0, 0, take_call, NULL },
	END
};

/* The first process of the tree is the job's main one; those that are named as DataLoader workers are workers. */
static enum plim_status take_tree(struct watch_lines *l, struct watch_sample *s, void *to,
				  const struct json_token *t, struct plim_err *err)
{
	struct json_token item;
	enum plim_status st = PLIM_OK;

	(void)to;
	if (t->kind != JSON_ARRAY)
		return json_skip(&l->json, t, err);
	for (bool first = true; !st; first = false) {
		struct watch_sample empty = { 0 };
		struct read_process r;

		st = json_next(&l->json, &item, err);
		if (st || item.kind == JSON_ARRAY_END)
			break;
		watch_sample_clear(&empty);
		r = (struct read_process){ empty.main, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN };
		st = item.kind == JSON_OBJECT ? object(l, s, process_members, &r, err)
					      : json_skip(&l->json, &item, err);
		r.p.pid = (uint32_t)r.pid;
		r.p.parent = (uint32_t)r.parent;
		r.p.resident_bytes = r.pages > UINT64_MAX / l->page_bytes ? PLIM_UNKNOWN
									  : r.pages * l->page_bytes;
		if (!st && first)
			s->main = r.p;
		else if (!st && watch_is_worker(&r.p, &s->main))
			st = vec_push(l->mem, &s->workers, r.p, err);
	}
	watch_keep_workers(s);
	return st;
}

/* [[...], ...]: each value that is not a list of its own, with the numbers of its row and column. */
static enum plim_status each_value(struct watch_lines *l, const struct json_token *t,
				   void (*take_value)(void *to, unsigned row, unsigned column,
						      const struct json_token *t),
				   void *to, struct plim_err *err)
{
	struct json_token item;
	unsigned depth = 1, row = 0, column = 0;
	enum plim_status st;

	if (t->kind != JSON_ARRAY)
		return json_skip(&l->json, t, err);
	while (depth) {
		st = json_next(&l->json, &item, err);
		if (st)
			return st;
		if (item.kind == JSON_ARRAY || item.kind == JSON_OBJECT) {
			depth++;
			column = 0;
		} else if (item.kind == JSON_ARRAY_END || item.kind == JSON_OBJECT_END) {
			depth--;
			row++;
		} else if (item.kind != JSON_KEY) {
			take_value(to, row, column++, &item);
		}
	}
	return PLIM_OK;
}

static void take_ticks(void *to, unsigned row, unsigned column, const struct json_token *t)
{
	struct watch_sample *s = to;

	if (!row && column == 3)
		s->main_user_s = t->number / TICKS;
	if (!row && column == 4)
		s->main_system_s = t->number / TICKS;
}

/* [[tid, name, state, user ticks, system ticks], ...]: of the main process; the first is its main thread. */
static enum plim_status take_threads(struct watch_lines *l, struct watch_sample *s, void *to,
				     const struct json_token *t, struct plim_err *err)
{
	(void)to;
	return each_value(l, t, take_ticks, s, err);
}

static void add_bytes(void *to, unsigned row, unsigned column, const struct json_token *t)
{
	uint64_t bytes, *sum = to;

	(void)row;
	if (column == 1 && json_get_u64(t, &bytes) && bytes < (uint64_t)1 << 50)
		*sum += bytes;
}

/* [[pid, bytes], ...] of the GPU: all are the job's. */
static enum plim_status take_procs(struct watch_lines *l, struct watch_sample *s, void *to,
				   const struct json_token *t, struct plim_err *err)
{
	uint64_t sum = 0;
	enum plim_status st = each_value(l, t, add_bytes, &sum, err);

	(void)to;
	if (!st && t->kind == JSON_ARRAY)
		s->card.job_bytes = sum;
	return st;
}

/* ---- stacks ---- */

struct read_stack {
	uint64_t count, worker;
	char does[16];
	size_t n;
	char text[WATCH_STACK_TEXT];
};

/* Frames are lines of a text: none has a line feed. */
static enum plim_status take_frames(struct watch_lines *l, struct watch_sample *s, void *to,
				    const struct json_token *t, struct plim_err *err)
{
	struct read_stack *r = to;
	struct json_token item;
	enum plim_status st;

	(void)s;
	if (t->kind != JSON_ARRAY)
		return json_skip(&l->json, t, err);
	for (;;) {
		st = json_next(&l->json, &item, err);
		if (st || item.kind == JSON_ARRAY_END)
			return st;
		if (item.kind == JSON_STRING && item.n && item.n < sizeof(r->text) - r->n &&
		    !memchr(item.string, '\n', item.n)) {
			memcpy(r->text + r->n, item.string, item.n);
			r->n += item.n;
			r->text[r->n++] = '\n';
		}
		st = json_skip(&l->json, &item, err);
		if (st)
			return st;
	}
}

static const struct member stack_members[] = {
	{ "n", U64, offsetof(struct read_stack, count), 0, 0, NULL, NULL },
	{ "worker", U64, offsetof(struct read_stack, worker), 0, 0, NULL, NULL },
	{ "does", TEXT, offsetof(struct read_stack, does), sizeof(((struct read_stack *)0)->does),
	  0, NULL, NULL },
	{ "frames", PART, 0, 0, 0, take_frames, NULL },
	END
};

/* [{"n": 3, "worker": 1, "does": "sync", "frames": ["train.py:88 main\tloss.item()", ...]}, ...]; the innermost frame first. */
static enum plim_status take_stacks(struct watch_lines *l, struct watch_sample *s, void *to,
				    const struct json_token *t, struct plim_err *err)
{
	struct json_token item;
	enum plim_status st = PLIM_OK;

	(void)to;
	if (t->kind != JSON_ARRAY)
		return json_skip(&l->json, t, err);
	while (!st) {
		struct read_stack r;

		st = json_next(&l->json, &item, err);
		if (st || item.kind == JSON_ARRAY_END)
			break;
		r.count = 1;
		r.worker = r.n = 0;
		*r.does = 0;
		st = item.kind == JSON_OBJECT ? object(l, s, stack_members, &r, err)
					      : json_skip(&l->json, &item, err);
		if (!st && r.n && r.count && r.count < 1u << 20)
			st = watch_stacks_add(l->mem, &s->stacks, r.worker == 1, (uint32_t)r.count,
					      watch_does_of(r.does, strlen(r.does)), r.text, r.n,
					      err);
	}
	return st;
}

static const struct member sample_members[] = {
	{ "t", DOUBLE, offsetof(struct watch_sample, time), 0, 1, NULL, NULL },
	{ "age", DOUBLE, offsetof(struct watch_sample, age_s), 0, 1, NULL, NULL },
	{ "world", U64, offsetof(struct watch_sample, world), 0, 0, NULL, NULL },
	{ "used", U64, offsetof(struct watch_sample, card.used_bytes), 0, 0, NULL, NULL },
	{ "reserved", U64, offsetof(struct watch_sample, card.reserved_bytes), 0, 0, NULL, NULL },
	{ "total", U64, offsetof(struct watch_sample, card.total_bytes), 0, 0, NULL, NULL },
	{ "held", U64, offsetof(struct watch_sample, card.held), 0, 0, NULL, NULL },
	{ "util", DOUBLE, offsetof(struct watch_sample, card.use), 0, 1, NULL, NULL },
	{ "power_mw", DOUBLE, offsetof(struct watch_sample, card.power_w), 0, 1e-3, NULL },
	{ "power_limit_mw", DOUBLE, offsetof(struct watch_sample, card.power_limit_w), 0, 1e-3,
	  NULL },
	{ "gpm", INNER, offsetof(struct watch_sample, card), 0, 0, NULL, gpm_members },
	{ "mem", INNER, offsetof(struct watch_sample, host), 0, 0, NULL, mem_members },
	{ "host", INNER, offsetof(struct watch_sample, host), 0, 0, NULL, host_members },
	{ "gauge", PART, offsetof(struct watch_sample, gauge), 0, 0, take_gauge, NULL },
	{ "tree", PART, 0, 0, 0, take_tree, NULL },
	{ "threads", PART, 0, 0, 0, take_threads, NULL },
	{ "procs", PART, 0, 0, 0, take_procs, NULL },
	{ "stacks", PART, 0, 0, 0, take_stacks, NULL },
	END
};

/* ---- the file ---- */

static const struct member head_members[] = {
	{ "job", TEXT, offsetof(struct watch_lines, name), sizeof(((struct watch_lines *)0)->name),
	  0, NULL, NULL },
	{ "pid", U64, offsetof(struct watch_lines, pid), 0, 0, NULL, NULL },
	{ "page_bytes", U64, offsetof(struct watch_lines, page_bytes), 0, 0, NULL, NULL },
	END
};

/* A line may be a head or a sample: both tables look at it. */
static enum plim_status read_line(struct watch_lines *l, struct watch_sample *s,
				  struct plim_err *err)
{
	struct json_token t;
	const struct member *m;
	enum plim_status st;

	for (;;) {
		st = json_next(&l->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			return st;
		for (m = sample_members; m->key && !json_is(&t, m->key); m++)
			;
		if (m->key) {
			st = json_next(&l->json, &t, err);
			if (!st)
				st = take_watch_line(l, s, m, s, &t, err);
		} else {
			for (m = head_members; m->key && !json_is(&t, m->key); m++)
				;
			st = m->key ? json_next(&l->json, &t, err) : json_skip(&l->json, &t, err);
			if (!st && m->key)
				st = take_watch_line(l, s, m, l, &t, err);
		}
		if (st)
			return st;
	}
}

enum plim_status watch_lines_open(struct mem *m, const char *path, struct watch_lines **out,
				  struct plim_err *err)
{
	struct watch_lines *l = mem_new(m, 1, sizeof(*l), err);
	enum plim_status st;

	if (!l)
		return mem_status(err);
	*l = (struct watch_lines){ .mem = m, .pid = PLIM_UNKNOWN, .page_bytes = 4096 };
	st = source_open(m, path, NULL, &l->source, err);
	if (!st)
		st = json_init(&l->json, m, l->source, JSON_MANY, err);
	if (st) {
		source_close(l->source);
		mem_free(m, l, 1, sizeof(*l));
		return st;
	}
	*out = l;
	return PLIM_OK;
}

enum plim_status watch_lines_next(struct watch_lines *l, struct watch_sample *s, bool *more,
				  struct plim_err *err)
{
	struct json_token t;
	enum plim_status st;

	for (;;) {
		watch_sample_clear(s);
		st = json_next(&l->json, &t, err);
		*more = !st && t.kind != JSON_END;
		if (st || !*more)
			return st;
		if (t.kind != JSON_OBJECT)
			return err_at(err, t.offset, "no sample: an object is expected");
		st = read_line(l, s, err);
		if (!l->page_bytes || l->page_bytes > 1 << 20)
			l->page_bytes = 4096;
		if (st || isfinite(s->time))
			return st;
	}
}

const char *watch_lines_name(const struct watch_lines *l)
{
	return l->name;
}

void watch_lines_close(struct watch_lines *l)
{
	if (!l)
		return;
	json_release(&l->json);
	source_close(l->source);
	mem_free(l->mem, l, 1, sizeof(*l));
}

/* ---- and written ---- */

static void put_u64(struct json_out *o, const char *key, uint64_t v)
{
	if (v != PLIM_UNKNOWN)
		json_u64(o, key, v);
}

static void put_double(struct json_out *o, const char *key, double v)
{
	if (isfinite(v))
		json_double(o, key, v);
}

static void put_process(struct json_out *o, const struct watch_process *p, uint64_t page_bytes)
{
	char state[2] = { p->state, 0 }, sched[40], call[24];

	json_object(o, NULL, JSON_LINE);
	json_u64(o, "pid", p->pid);
	json_u64(o, "ppid", p->parent);
	json_u64(o, "start", p->start_time);
	json_string(o, "comm", p->name);
	json_string(o, "state", state);
	json_string(o, "wchan", p->sleeps_in);
	if (p->call != WATCH_NO_CALL) {
		snprintf(call, sizeof(call), "%lld", (long long)p->call);
		json_string(o, "syscall", call);
	}
	if (p->locked)
		json_u64(o, "locked", 1);
	if (p->workless)
		json_u64(o, "workless", 1);
	put_double(o, "utime", round(p->user_s * TICKS));
	put_double(o, "stime", round(p->system_s * TICKS));
	if (p->resident_bytes != PLIM_UNKNOWN)
		json_u64(o, "rss", p->resident_bytes / page_bytes);
	if (isfinite(p->delay_s)) {
		snprintf(sched, sizeof(sched), "0 %.0f 0", p->delay_s * 1e9);
		json_string(o, "sched", sched);
	}
	json_object(o, "io", JSON_LINE);
	put_u64(o, "wchar", p->written_chars);
	put_u64(o, "read_bytes", p->read_bytes);
	put_u64(o, "write_bytes", p->stored_bytes);
	json_object_end(o);
	json_object_end(o);
}

static void put_processes(struct json_out *o, const struct watch_sample *s, uint64_t page_bytes)
{
	json_array(o, "tree", JSON_LINE);
	put_process(o, &s->main, page_bytes);
	for (size_t i = 0; i < s->workers.n; i++)
		put_process(o, &s->workers.at[i], page_bytes);
	json_array_end(o);
	json_array(o, "threads", JSON_LINE);
	json_array(o, NULL, JSON_LINE);
	json_u64(o, NULL, s->main.pid);
	json_string(o, NULL, s->main.name);
	json_string(o, NULL, (char[2]){ s->main.state, 0 });
	json_double(o, NULL, round(s->main_user_s * TICKS));
	json_double(o, NULL, round(s->main_system_s * TICKS));
	json_array_end(o);
	json_array_end(o);
	if (s->card.job_bytes == PLIM_UNKNOWN)
		return;
	json_array(o, "procs", JSON_LINE);
	json_array(o, NULL, JSON_LINE);
	json_u64(o, NULL, s->main.pid);
	json_u64(o, NULL, s->card.job_bytes);
	json_array_end(o);
	json_array_end(o);
}

static void put_frames(struct json_out *o, const char *text, size_t n)
{
	json_array(o, "frames", JSON_LINE);
	for (size_t from = 0, i = 0; i < n; i++)
		if (text[i] == '\n') {
			json_string_n(o, NULL, text + from, i - from);
			from = i + 1;
		}
	json_array_end(o);
}

static void put_stacks(struct json_out *o, const struct watch_stacks *s)
{
	json_array(o, "stacks", JSON_LINE);
	for (size_t i = 0; i < s->stack.n; i++) {
		const struct watch_stack *k = &s->stack.at[i];

		json_object(o, NULL, JSON_LINE);
		json_u64(o, "n", k->count);
		if (k->worker)
			json_u64(o, "worker", 1);
		json_string(o, "does", watch_does_word(k->does));
		put_frames(o, s->text.at + k->at, k->n);
		json_object_end(o);
	}
	json_array_end(o);
}

/* The members of a table that are plain numbers, as they are read. */
static void put_members(struct json_out *o, const struct member *m, const void *from)
{
	for (; m->key; m++) {
		const char *at = (const char *)from + m->offset;

		if (m->kind == DOUBLE)
			put_double(o, m->key, *(const double *)(const void *)at / m->scale);
		else if (m->kind == U64)
			put_u64(o, m->key, *(const uint64_t *)(const void *)at);
		else if (m->kind == KB && *(const uint64_t *)(const void *)at != PLIM_UNKNOWN)
			put_u64(o, m->key, *(const uint64_t *)(const void *)at / 1024);
	}
}

static void put_part(struct json_out *o, const char *key, const struct member *m, const void *from)
{
	json_object(o, key, JSON_LINE);
	put_members(o, m, from);
	json_object_end(o);
}

void watch_line(const struct watch_sample *s, uint64_t page_bytes, struct text *out)
{
	struct json_out o;

	json_out_init(&o, out, JSON_COMPACT, NULL);
	json_object(&o, NULL, JSON_LINE);
	put_members(&o, sample_members, s);
	if (!isnan(s->card.graphics))
		put_part(&o, "gpm", gpm_members, &s->card);
	put_part(&o, "mem", mem_members, &s->host);
	put_part(&o, "host", host_members, &s->host);
	if (s->gauge.here)
		put_part(&o, "gauge", gauge_members, &s->gauge);
	put_processes(&o, s, page_bytes);
	if (s->stacks.stack.n)
		put_stacks(&o, &s->stacks);
	json_object_end(&o);
	text_puts(out, "\n");
}
