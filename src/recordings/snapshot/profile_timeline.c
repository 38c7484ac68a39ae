/*
 * Memory timelines of torch.profiler's export_memory_timeline: totals by category alone.  Each category is one block that
 * is freed and allocated anew when its total changes.
 *
 *	timeline.json          [[time in us, ...], [[0, bytes of each category ...], ...]]
 *	timeline.raw.json.gz   [[time in ns, action, bytes, category], ...]: bytes are added to the category's
 */
#include "profile.h"

#include "base/base.h"

#include <string.h>

/* What a memory timeline has for categories, in its order (torch/profiler/_memory_profiler.py, _CATEGORY_TO_COLORS). */
static const char *const timeline_kinds[PROFILE_KINDS] = {
	"parameter",  "optimizer_state", "input",           "temporary",
	"activation", "gradient",        "autograd_detail", "unknown",
};

/* The totals at a moment are complete: what shrank is put down before what grew, so that no sum is too high. */
static enum plim_status put_totals(struct profile *p, struct plim_err *err)
{
	struct profile_totals *x = &p->totals;
	enum plim_status st = PLIM_OK;

	for (int grows = 0; grows < 2; grows++) {
		for (uint32_t k = 0; !st && k < PROFILE_KINDS; k++) {
			uint64_t bytes = (int64_t)x->now[k] < 0 ? 0 : x->now[k];
			struct event_row e = { .addr = ((uint64_t)k + 1) << 40,
					       .time_us = x->time_us,
					       .stack = x->stacks[k] };

			if (bytes == x->put[k] || (bytes > x->put[k]) != grows)
				continue;
			e.size = x->put[k];
			e.action = TRACE_FREE_COMPLETED;
			if (e.size)
				st = columns_push(p->mem, p->t->columns, &e, err);
			e.size = bytes;
			e.action = TRACE_ALLOC;
			if (!st && e.size)
				st = columns_push(p->mem, p->t->columns, &e, err);
			x->put[k] = bytes;
		}
	}
	return st;
}

static enum plim_status name_kinds(struct profile *p, struct plim_err *err)
{
	struct snapshot_frame f = { .line = TRACE_NONE };
	enum plim_status st = profile_text(p, "", 0, &f.filename, err);
	uint32_t frame;

	for (int k = 0; !st && k < PROFILE_KINDS; k++) {
		st = profile_text(p, timeline_kinds[k], strlen(timeline_kinds[k]), &f.name, err);
		if (!st)
			st = intern_add(&p->t->frames, &f, sizeof(f), &frame, err);
		if (!st)
			st = intern_add(&p->t->stacks, &frame, sizeof(frame), &p->totals.stacks[k],
					err);
	}
	return st;
}

#define NUMBER "a memory timeline is expected to have an integer here"

static enum plim_status next_number(struct json *j, struct json_token *t, int64_t *out,
				    struct plim_err *err)
{
	enum plim_status st = json_next(j, t, err);

	if (!st && t->kind != JSON_ARRAY_END && !json_get_i64(t, out))
		return err_at(err, t->offset, NUMBER);
	return st;
}

/* One moment of [times, sizes]: a list that begins with 0, then a total by category. */
static enum plim_status read_sizes(struct profile *p, struct json *j, struct plim_err *err)
{
	struct profile_totals *x = &p->totals;
	struct json_token t = { .kind = JSON_ARRAY };
	int64_t bytes = 0;
	enum plim_status st = PLIM_OK;

	memset(x->now, 0, sizeof(x->now));
	for (size_t i = 0; !st; i++) {
		st = next_number(j, &t, &bytes, err);
		if (st || t.kind == JSON_ARRAY_END)
			break;
		if (i)
			x->now[i <= PROFILE_KINDS ? i - 1 : PROFILE_KINDS - 1] += (uint64_t)bytes;
	}
	return st ? st : put_totals(p, err);
}

#define COUNTS "a memory timeline has as many lists of sizes as times"
#define FOURS "a memory timeline has lists of four numbers"

/* `t` is the first list of sizes; on return what ends them. */
static enum plim_status read_plot(struct profile *p, struct json *j, struct json_token *t,
				  struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t i = 0;

	while (!st && t->kind != JSON_ARRAY_END) {
		if (t->kind != JSON_ARRAY || i == p->times.n)
			return err_at(err, t->offset, COUNTS);
		p->totals.time_us = p->times.at[i++];
		st = read_sizes(p, j, err);
		if (!st)
			st = json_next(j, t, err);
	}
	return st || i == p->times.n ? st : err_at(err, t->offset, COUNTS);
}

/* [time in ns, action, bytes, category] of the raw one, in the order of time; -1: before it began. */
static enum plim_status take_raw(struct profile *p, const int64_t row[4], struct plim_err *err)
{
	struct profile_totals *x = &p->totals;
	int64_t us = row[0] < 0 ? INT64_MIN : row[0] / 1000;
	uint32_t k = row[3] >= 0 && row[3] < PROFILE_KINDS ? (uint32_t)row[3] : PROFILE_KINDS - 1;
	enum plim_status st = PLIM_OK;

	if (x->at_ns != row[0] && x->at_ns >= 0)
		st = put_totals(p, err);
	if (us != INT64_MIN)
		x->time_us = us;
	x->at_ns = row[0];
	x->now[k] += (uint64_t)row[2];
	return st;
}

/* The rest of a list of four, of which `n` are read. */
static enum plim_status read_four(struct profile *p, struct json *j, int64_t row[4], size_t n,
				  struct plim_err *err)
{
	struct json_token t = { .kind = JSON_INTEGER };
	int64_t value = 0;
	enum plim_status st = PLIM_OK;

	while (!st && t.kind != JSON_ARRAY_END) {
		st = next_number(j, &t, &value, err);
		if (st || t.kind == JSON_ARRAY_END)
			break;
		if (n == 4)
			return err_at(err, t.offset, FOURS);
		row[n++] = value;
	}
	if (!st && n != 4)
		return err_at(err, t.offset, FOURS);
	return st ? st : take_raw(p, row, err);
}

/* Four numbers are read.  `t` begins the second of the lists, or ends them. */
static enum plim_status read_raw(struct profile *p, struct json *j, struct json_token *t,
				 struct plim_err *err)
{
	int64_t row[4] = { 0 };
	enum plim_status st;

	memcpy(row, p->times.at, sizeof(row));
	st = take_raw(p, row, err);
	if (!st && t->kind != JSON_ARRAY_END) {
		if (!json_get_i64(t, &row[0]))
			return err_at(err, t->offset, NUMBER);
		st = read_four(p, j, row, 1, err);
		if (!st)
			st = json_next(j, t, err);
	}
	while (!st && t->kind != JSON_ARRAY_END) {
		st = t->kind == JSON_ARRAY ? read_four(p, j, row, 0, err)
					   : err_at(err, t->offset, FOURS);
		if (!st)
			st = json_next(j, t, err);
	}
	return st ? st : put_totals(p, err);
}

enum plim_status profile_read_timeline(struct profile *p, struct json *j,
				       const struct json_token *first, struct plim_err *err)
{
	struct json_token t = *first;
	int64_t number;
	enum plim_status st = name_kinds(p, err);

	p->t->profile.kind = SNAPSHOT_PROFILE_TOTALS;
	p->totals.at_ns = -1;
	if (!json_get_i64(&t, &number))
		return err_at(err, t.offset, NUMBER);
	while (!st && t.kind != JSON_ARRAY_END) {
		st = vec_push(p->mem, &p->times, number, err);
		if (!st)
			st = next_number(j, &t, &number, err);
	}
	if (!st)
		st = json_next(j, &t, err);
	if (!st && t.kind == JSON_ARRAY)
		st = json_next(j, &t, err);
	if (st)
		return st;
	if (p->times.n == 4 && (t.kind == JSON_INTEGER || t.kind == JSON_ARRAY_END))
		return read_raw(p, j, &t, err);
	if (t.kind != JSON_ARRAY)
		return err_at(err, t.offset, COUNTS);
	st = read_plot(p, j, &t, err);
	if (!st)
		st = json_next(j, &t, err);
	return st || t.kind == JSON_ARRAY_END ? st : err_at(err, t.offset, COUNTS);
}
