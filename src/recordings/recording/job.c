/* Which rank of a job a recording is of: what our recorders wrote of it into the list of the program's files. */
#include "recording.h"

#include <string.h>

#define PLACE_MAX 200 /* letters */

/* "pp 2, dp 0, tp 5": words of the program's own that go into names of groups. */
static int is_place(const char *text, size_t n)
{
	return n && n < PLACE_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_, ") == n;
}

static enum plim_status read_job_member(struct json *j, struct recording_job *job, struct arena *a,
					struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	while (!st && t.kind == JSON_KEY) {
		int rank = json_is(&t, "rank"), place = json_is(&t, "place");

		st = rank || place ? json_next(j, &t, err) : json_skip(j, &t, err);
		if (!st && rank && !json_get_u64(&t, &job->rank))
			job->rank = PLIM_UNKNOWN;
		if (!st && place && t.kind == JSON_STRING && is_place(t.string, t.n))
			job->place = arena_copy(a, t.string, err);
		if (!st && (t.kind == JSON_OBJECT || t.kind == JSON_ARRAY))
			st = json_skip(j, &t, err);
		if (!st)
			st = json_next(j, &t, err);
	}
	return st;
}

/* {"schema": ..., "job": {...}, "files": ...}; what stands behind the job is not looked at. */
static enum plim_status find_job(struct json *j, struct recording_job *job, struct arena *a,
				 struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (!st && t.kind != JSON_OBJECT)
		return PLIM_OK;
	while (!st) {
		int found;

		st = json_next(j, &t, err);
		if (st || t.kind != JSON_KEY)
			break;
		found = json_is(&t, "job");
		st = found ? json_next(j, &t, err) : json_skip(j, &t, err);
		if (!st && found)
			return t.kind == JSON_OBJECT ? read_job_member(j, job, a, err) : PLIM_OK;
	}
	return st;
}

void recording_job(const struct recording *r, struct arena *a, struct recording_job *job)
{
	static const struct source_options how = { .thread = SOURCE_THREAD_NONE };
	const struct intern_entry *text;
	struct source *s;
	struct plim_err err;
	struct json j;

	*job = (struct recording_job){ .rank = PLIM_UNKNOWN };
	if (r->snapshot->sources == TRACE_NONE)
		return;
	text = &r->snapshot->heap.strings.at[r->snapshot->sources];
	if (source_open_memory(r->mem, "job", text->bytes, text->n, SOURCE_MEMORY_PLAIN, &how, &s,
			       &err))
		return;
	if (!json_init(&j, r->mem, s, JSON_ONE, &err)) {
		if (find_job(&j, job, a, &err))
			*job = (struct recording_job){ .rank = PLIM_UNKNOWN };
		json_release(&j);
	}
	source_close(s);
}
