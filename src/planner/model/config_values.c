/* Scalars of a config.json, read and found again. */
#include "config.h"

#include <stdio.h>

/* ---- reading ---- */

static enum plim_status keep_value(struct config *c, struct config_value v,
				   const struct json_token *t, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	v.kind = t->kind;
	v.real = t->number;
	v.negative = t->negative;
	if (t->kind == JSON_INTEGER && (t->big || t->magnitude > MODEL_SIZE))
		v.number = MODEL_SIZE + 1;
	else
		v.number = t->magnitude;
	if (t->kind == JSON_STRING)
		st = intern_add(&c->model->strings, t->string, t->n, &v.text, err);
	if (!st && c->values.n >= CONFIG_VALUES)
		st = err_set(err, PLIM_E_LIMIT, "'%.200s' holds more than %d values", c->path,
			     CONFIG_VALUES);
	return st ? st : vec_push(c->model->mem, &c->values, v, err);
}

#define DEPTH 8 /* objects in objects whose scalars are kept */

static enum plim_status read_value_object(struct config *c, uint32_t scope, uint32_t key,
					  uint32_t index, unsigned depth, struct plim_err *err);

/* The scope of what an object under `key` holds. */
static enum plim_status scope_in(struct config *c, uint32_t scope, uint32_t key, uint32_t *inner,
				 struct plim_err *err)
{
	const struct intern *strings = &c->model->strings;
	char path[CONFIG_SCOPE_BYTES];
	int n;

	*inner = key;
	if (scope == INTERN_NONE)
		return PLIM_OK;
	n = snprintf(path, sizeof(path), "%s.%s", intern_text(strings, scope),
		     intern_text(strings, key));
	*inner = INTERN_NONE;
	return n < (int)sizeof(path) ? intern_add(&c->model->strings, path, (size_t)n, inner, err)
				     : PLIM_OK;
}

/* A list is a value of its own, with how many there are, before its scalars, in order; objects in it have its index. */
static enum plim_status read_list(struct config *c, struct config_value v, unsigned depth,
				  struct plim_err *err)
{
	struct json_token t = { .kind = JSON_ARRAY };
	size_t list = c->values.n;
	enum plim_status st = keep_value(c, v, &t, err);

	for (v.index = 1; !st; v.index++) {
		st = json_next(&c->json, &t, err);
		if (st || t.kind == JSON_ARRAY_END)
			return st;
		c->values.at[list].number++;
		if (t.kind == JSON_OBJECT)
			st = read_value_object(c, v.scope, v.key, v.index, depth, err);
		else if (t.kind == JSON_ARRAY)
			st = json_skip(&c->json, &t, err);
		else
			st = keep_value(c, v, &t, err);
	}
	return st;
}

/* An object too deep: how much it holds is all that is asked of it. */
static enum plim_status count_object(struct config *c, struct config_value v, struct plim_err *err)
{
	struct json_token t = { .kind = JSON_OBJECT };
	size_t at = c->values.n;
	enum plim_status st = keep_value(c, v, &t, err);

	while (!st) {
		st = json_next(&c->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			return st;
		c->values.at[at].number++;
		st = json_next(&c->json, &t, err);
		if (!st && (t.kind == JSON_OBJECT || t.kind == JSON_ARRAY))
			st = json_skip(&c->json, &t, err);
	}
	return st;
}

/* So is an object, before what it holds; `index`: of the list that it stands in, and all that it holds has it; 0: in none. */
static enum plim_status read_value_object(struct config *c, uint32_t scope, uint32_t key,
					  uint32_t index, unsigned depth, struct plim_err *err)
{
	struct json_token t = { .kind = JSON_OBJECT };
	struct config_value object = { .scope = scope, .key = key, .index = index };
	uint32_t inner = INTERN_NONE;
	size_t at;
	enum plim_status st = depth ? scope_in(c, scope, key, &inner, err) : PLIM_OK;

	if (!st && depth &&
	    (inner == INTERN_NONE || depth > DEPTH ||
	     (depth > 1 && c->values.n >= CONFIG_VALUES / 2)))
		return count_object(c, object, err);
	at = c->values.n;
	st = st ? st : keep_value(c, object, &t, err);
	while (!st) {
		struct config_value v = { .scope = inner, .index = index };

		st = json_next(&c->json, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			return st;
		c->values.at[at].number++;
		st = intern_add(&c->model->strings, t.string, t.n, &v.key, err);
		if (!st)
			st = json_next(&c->json, &t, err);
		if (st)
			return st;
		if (t.kind == JSON_OBJECT)
			st = read_value_object(c, inner, v.key, index, depth + 1, err);
		else if (t.kind == JSON_ARRAY)
			st = index ? json_skip(&c->json, &t, err) : read_list(c, v, depth + 1, err);
		else
			st = keep_value(c, v, &t, err);
	}
	return st;
}

/* ---- what was read ---- */

const struct config_value *config_find(const struct config *c, const char *scope, const char *key)
{
	const struct intern *strings = &c->model->strings;
	const char *dot = strrchr(key, '.');
	char path[CONFIG_SCOPE_BYTES];
	uint32_t in, k;

	if (dot) {
		snprintf(path, sizeof(path), "%s%s%.*s", scope ? scope : "", scope ? "." : "",
			 (int)(dot - key), key);
		scope = path;
		key = dot + 1;
	}
	in = scope ? intern_find(strings, scope, strlen(scope)) : INTERN_NONE;
	k = intern_find(strings, key, strlen(key));
	if (k == INTERN_NONE || (scope && in == INTERN_NONE))
		return NULL;
	for (size_t i = c->values.n; i-- > 0;) {
		const struct config_value *v = &c->values.at[i];

		if (v->key == k && v->scope == in && !v->index)
			return v;
	}
	return NULL;
}

const char *config_text(const struct config *c, const struct config_value *v)
{
	return v && v->kind == JSON_STRING ? intern_text(&c->model->strings, v->text) : "";
}

const struct config_value *config_list_end(const struct config *c, const struct config_value *list)
{
	const struct config_value *end = c->values.at + c->values.n, *v = list;

	if (!list || list->kind != JSON_ARRAY)
		return NULL;
	for (v++; v < end && v->index && v->key == list->key && v->scope == list->scope;)
		v++;
	return v;
}

const struct config_value *config_element(const struct config *c, const struct config_value *list,
					  uint32_t index)
{
	const struct config_value *end = config_list_end(c, list);

	for (const struct config_value *v = list + 1; end && v < end; v++)
		if (v->index == index)
			return v;
	return NULL;
}

bool config_is_true(const struct config *c, const char *scope, const char *key)
{
	const struct config_value *v = config_find(c, scope, key);

	return v && v->kind == JSON_TRUE;
}

bool config_is_off(const struct config *c, const struct config_value *v)
{
	switch (v->kind) {
	case JSON_NULL:
	case JSON_FALSE: return true;
	case JSON_STRING: return !*config_text(c, v);
	case JSON_DOUBLE: return v->real == 0;
	case JSON_INTEGER:
	case JSON_ARRAY:
	case JSON_OBJECT: return !v->number;
	default: return false;
	}
}

uint64_t config_count(const struct config *c, const char *scope, const char *key)
{
	const struct config_value *v = config_find(c, scope, key);

	return v && v->kind == JSON_INTEGER && !v->negative ? v->number : 0;
}

uint64_t config_count_objects(const struct config *c, const char *scope, const char *key)
{
	const struct config_value *v = config_find(c, scope, key);

	return v && v->kind == JSON_OBJECT ? v->number : 0;
}

enum plim_status config_read(struct config *c, struct source *s, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_init(&c->json, c->model->mem, s, JSON_ONE, err);

	if (!st)
		st = json_next(&c->json, &t, err);
	if (!st && t.kind != JSON_OBJECT)
		st = err_set(err, PLIM_E_FORMAT, "'%.200s' is not a config of a model: no object",
			     c->path);
	if (!st)
		st = read_value_object(c, INTERN_NONE, INTERN_NONE, 0, 0, err);
	if (!st)
		st = json_next(&c->json, &t, err); /* nothing may follow */
	json_release(&c->json);
	return st;
}
