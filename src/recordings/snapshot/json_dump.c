/*
 * A snapshot that someone wrote as JSON: the same dicts and lists, so the same values and rows.  What the profiler wrote is
 * read by profile*.c, from where it shows itself.
 */
#include "profile.h"

#include <string.h>

static enum plim_status push_scalar(struct pickle *p, const struct json_token *t,
				    struct plim_err *err)
{
	struct pickle_value v = { 0, PICKLE_NONE };
	int64_t i;

	switch (t->kind) {
	case JSON_KEY:
	case JSON_STRING: return pickle_push_str(p, t->string, t->n, err);
	case JSON_TRUE:
	case JSON_FALSE: v = (struct pickle_value){ t->kind == JSON_TRUE, PICKLE_BOOL }; break;
	case JSON_INTEGER:
		if (json_get_i64(t, &i))
			v = (struct pickle_value){ (uint64_t)i, PICKLE_INT };
		else if (json_get_u64(t, &v.bits))
			v.kind = PICKLE_UINT;
		else
			return err_at(err, t->offset, "an integer of more than 64 bits");
		break;
	case JSON_DOUBLE:
		memcpy(&v.bits, &t->number, sizeof(v.bits));
		v.kind = PICKLE_FLOAT;
		break;
	default: break; /* null */
	}
	return pickle_push(p, v, err);
}

/* Counts of what the open containers hold so far: for an object keys and values. */
struct levels {
	size_t at[JSON_DEPTH + 1];
	size_t n;
};

static enum plim_status take_token(struct pickle *p, const struct json_token *t,
				   struct levels *open, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t n = open->at[open->n];

	switch (t->kind) {
	case JSON_OBJECT:
	case JSON_ARRAY: open->at[++open->n] = 0; return PLIM_OK;
	case JSON_OBJECT_END:
	case JSON_ARRAY_END:
		open->n--;
		if (t->kind == JSON_OBJECT_END)
			st = pickle_close(p, PICKLE_DICT, n / 2, err);
		else
			st = pickle_close(p, PICKLE_LIST, n, err);
		break;
	default: st = push_scalar(p, t, err); break;
	}
	open->at[open->n]++;
	return st;
}

/* "[[1": a memory timeline; `lists` counts the lists that it begins with. */
static int is_timeline(const struct json_token *t, int *lists)
{
	int number = t->kind == JSON_INTEGER && *lists == 2;

	*lists = t->kind == JSON_ARRAY && *lists >= 0 ? *lists + 1 : -1;
	return number;
}

static enum plim_status take_profile(struct profile *profile, struct pickle *p, struct json *j,
				     struct levels *open, struct plim_err *err)
{
	static const struct json_token null = { .kind = JSON_NULL };
	enum plim_status st = profile_read_events(profile, j, err);

	return st ? st : take_token(p, &null, open, err);
}

enum plim_status json_dump_read(struct snapshot *t, struct source *src,
				const struct pickle_hooks *hooks, struct profile *profile,
				struct pickle_value *root, struct plim_err *err)
{
	struct pickle *p = pickle_builder_new(&t->heap, hooks, err);
	struct levels open = { .n = 0 };
	struct json_token token = { .kind = JSON_NULL };
	struct json j = { 0 };
	int lists = 0;
	enum plim_status st = p ? json_init(&j, t->mem, src, JSON_ONE, err) : mem_status(err);

	while (!st) {
		st = json_next(&j, &token, err);
		if (st || token.kind == JSON_END)
			break;
		if (is_timeline(&token, &lists)) {
			st = profile_read_timeline(profile, &j, &token, err);
			continue;
		}
		st = take_token(p, &token, &open, err);
		if (!st && open.n == 1 && token.kind == JSON_KEY && json_is(&token, "traceEvents"))
			st = take_profile(profile, p, &j, &open, err);
	}
	if (!st && t->profile.kind != SNAPSHOT_PROFILE_TOTALS)
		st = pickle_take(p, root, err);
	if (p)
		json_release(&j);
	pickle_builder_free(p);
	return st;
}
