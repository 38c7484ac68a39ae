/* One builder, fed by the JSON reader or by libyaml's events. */
#include "nested.h"

#include "intern.h"
#include "json.h"

#include <ctype.h>
#include <strings.h>
#include <yaml.h>

struct level {
	size_t length;   /* of the path that leads to it */
	size_t value;    /* its own row, SIZE_MAX of the outermost */
	uint64_t serial; /* of all containers of the file */
	bool is_list;
	bool has_key; /* of an object: the next value is that key's */
};

struct builder {
	struct nested *out;
	struct plim_err *err;
	const char *name;   /* of the file */
	struct intern seen; /* keys, each behind its object's serial number */
	uint64_t serial;
	uint64_t at; /* of the key that is read: a line of YAML, an offset in JSON */
	struct level levels[NESTED_DEPTH];
	unsigned depth;
	size_t length;
	char path[NESTED_PATH];
};

static enum plim_status refuse_nested(const struct builder *b, const char *why)
{
	return err_set(b->err, PLIM_E_FORMAT, "'%.200s' is not a configuration: %s", b->name, why);
}

static struct level *top(struct builder *b)
{
	return b->depth ? &b->levels[b->depth - 1] : NULL;
}

/* Readers take the last of two alike, some the first: neither is what is planned. */
static enum plim_status see_key(struct builder *b, const char *key, size_t n)
{
	char bytes[sizeof(uint64_t) + NESTED_PATH];
	uint32_t id;

	memcpy(bytes, &top(b)->serial, sizeof(uint64_t));
	memcpy(bytes + sizeof(uint64_t), key, n);
	n += sizeof(uint64_t);
	if (intern_find(&b->seen, bytes, n) != INTERN_NONE)
		return err_set(b->err, PLIM_E_FORMAT,
			       "'%.200s' is not a configuration: the key '%.80s' is there a second "
			       "time at %s %llu",
			       b->name, key, b->out->yaml ? "line" : "byte",
			       (unsigned long long)b->at);
	return intern_add(&b->seen, bytes, n, &id, b->err);
}

static enum plim_status put_key(struct builder *b, const char *key, size_t n)
{
	struct level *at = top(b);
	enum plim_status st;

	b->length = at->length;
	if (memchr(key, 0, n) || b->length + n + 2 > sizeof(b->path))
		return refuse_nested(b, "a key is too long, or holds a zero");
	st = see_key(b, key, n);
	if (st)
		return st;
	if (b->length)
		b->path[b->length++] = '.';
	memcpy(b->path + b->length, key, n);
	b->length += n;
	b->path[b->length] = 0;
	at->has_key = true;
	return PLIM_OK;
}

static enum plim_status put_value(struct builder *b, enum nested_kind kind, const char *text,
				  size_t n)
{
	struct level *at = top(b);
	struct nested_value v = { .kind = kind };
	char *copy;

	if (!at)
		return refuse_nested(b, "the outermost value is not an object");
	if (memchr(text, 0, n))
		return refuse_nested(b, "a text holds a zero");
	if (at->is_list) {
		b->length = at->length;
		b->path[b->length] = 0;
	}
	if (at->value != SIZE_MAX)
		b->out->values.at[at->value].elements++;
	if (at->is_list)
		v.index = b->out->values.at[at->value].elements;
	at->has_key = false;
	copy = arena_take(b->out->arena, n + 1, 1, b->err);
	if (!copy)
		return mem_status(b->err);
	memcpy(copy, text, n);
	v.text = copy;
	v.path = arena_copy(b->out->arena, b->path, b->err);
	if (!v.path)
		return mem_status(b->err);
	return vec_push(b->out->arena->mem, &b->out->values, v, b->err);
}

static enum plim_status open_container(struct builder *b, bool is_list)
{
	bool outermost = !b->depth;
	enum plim_status st = PLIM_OK;

	if (outermost && is_list)
		return refuse_nested(b, "the outermost value is a list");
	if (b->depth == NESTED_DEPTH)
		return refuse_nested(b, "too many containers inside each other");
	if (!outermost)
		st = put_value(b, is_list ? NESTED_LIST : NESTED_OBJECT, "", 0);
	if (!st)
		b->levels[b->depth++] =
			(struct level){ .length = b->length,
					.value = outermost ? SIZE_MAX : b->out->values.n - 1,
					.serial = b->serial++,
					.is_list = is_list };
	return st;
}

static void close_container(struct builder *b)
{
	b->depth--;
	b->length = b->levels[b->depth].length;
	b->path[b->length] = 0;
}

/* ---- JSON ---- */

/* As a file would have it: with no more digits than tell it from its neighbours. */
static int put_number(char *out, size_t room, const struct json_token *t)
{
	int n;

	if (t->kind == JSON_INTEGER && !t->big)
		return snprintf(out, room, "%s%llu", t->negative ? "-" : "",
				(unsigned long long)t->magnitude);
	n = snprintf(out, room, "%.15g", t->number);
	return strtod(out, NULL) < t->number || strtod(out, NULL) > t->number
		       ? snprintf(out, room, "%.17g", t->number)
		       : n;
}

static enum plim_status take_token(struct builder *b, const struct json_token *t)
{
	char number[40];
	int n;

	switch (t->kind) {
	case JSON_OBJECT:
	case JSON_ARRAY: return open_container(b, t->kind == JSON_ARRAY);
	case JSON_OBJECT_END:
	case JSON_ARRAY_END: close_container(b); return PLIM_OK;
	case JSON_KEY: b->at = t->offset; return put_key(b, t->string, t->n);
	case JSON_STRING: return put_value(b, NESTED_TEXT, t->string, t->n);
	case JSON_TRUE: return put_value(b, NESTED_TRUE, "true", 4);
	case JSON_FALSE: return put_value(b, NESTED_FALSE, "false", 5);
	case JSON_NULL: return put_value(b, NESTED_NULL, "null", 4);
	case JSON_INTEGER:
	case JSON_DOUBLE:
		n = put_number(number, sizeof(number), t);
		return put_value(b, NESTED_NUMBER, number, (size_t)n);
	case JSON_END:
	default: return PLIM_OK;
	}
}

static enum plim_status read_json(struct builder *b, struct source *s)
{
	struct json j;
	struct json_token t = { .kind = JSON_NULL };
	enum plim_status st = json_init(&j, b->out->arena->mem, s, JSON_ONE, b->err);

	while (!st) {
		st = json_next(&j, &t, b->err);
		if (st || t.kind == JSON_END)
			break;
		st = take_token(b, &t);
	}
	json_release(&j);
	return st;
}

/* ---- YAML ---- */

static bool nested_is_word(const char *text, const char *const *words)
{
	for (; *words; words++) {
		size_t n = strlen(*words);

		/* yes, Yes and YES, but not yEs */
		if (strlen(text) == n && tolower((unsigned char)text[0]) == (*words)[0] &&
		    (!strcmp(text + 1, *words + 1) ||
		     (isupper((unsigned char)text[0]) && !strcasecmp(text, *words) &&
		      isupper((unsigned char)text[n - 1]))))
			return true;
	}
	return false;
}

static bool nested_is_number(const char *text)
{
	size_t digits = 0, n;

	text += *text == '-' || *text == '+';
	for (; isdigit((unsigned char)*text) || (*text == '_' && digits); text++)
		digits++;
	if (*text == '.') {
		n = strspn(text + 1, "0123456789");
		digits += n;
		text += n + 1;
	}
	if (digits && (*text == 'e' || *text == 'E')) {
		text++;
		text += *text == '-' || *text == '+';
		n = strspn(text, "0123456789");
		text += n;
		digits = n;
	}
	return digits && !*text;
}

static enum nested_kind kind_of(const char *text, bool plain)
{
	static const char *const nulls[] = { "null", "~", NULL };
	static const char *const truths[] = { "true", "yes", "on", NULL };
	static const char *const lies[] = { "false", "no", "off", NULL };

	if (!plain)
		return NESTED_TEXT;
	if (!*text || nested_is_word(text, nulls))
		return NESTED_NULL;
	if (nested_is_word(text, truths))
		return NESTED_TRUE;
	if (nested_is_word(text, lies))
		return NESTED_FALSE;
	return nested_is_number(text) ? NESTED_NUMBER : NESTED_TEXT;
}

static enum plim_status take_scalar(struct builder *b, const yaml_event_t *e)
{
	const char *text = (const char *)e->data.scalar.value;
	size_t n = e->data.scalar.length;
	struct level *at = top(b);
	bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	b->at = (uint64_t)e->start_mark.line + 1;
	if (at && !at->is_list && !at->has_key)
		return put_key(b, text, n);
	return put_value(b, kind_of(text, plain), text, n);
}

static enum plim_status take_event(struct builder *b, const yaml_event_t *e)
{
	struct level *at = top(b);
	bool is_key = at && !at->is_list && !at->has_key;

	switch (e->type) {
	case YAML_SCALAR_EVENT: return take_scalar(b, e);
	case YAML_ALIAS_EVENT:
		return is_key ? refuse_nested(b, "a key is an alias")
			      : put_value(b, NESTED_UNRESOLVED, "an alias", 8);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return is_key ? refuse_nested(b, "a key is not a word")
			      : open_container(b, e->type == YAML_SEQUENCE_START_EVENT);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT: close_container(b); return PLIM_OK;
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
	default: return PLIM_OK;
	}
}

struct yaml_input {
	struct source *s;
	struct plim_err *err;
};

static int read_some(void *ctx, unsigned char *to, size_t room, size_t *got)
{
	struct yaml_input *in = ctx;
	size_t n;

	if (source_need(in->s, in->s->p, 1, in->err))
		return 0;
	n = (size_t)(in->s->end - in->s->p);
	n = n < room ? n : room;
	memcpy(to, in->s->p, n);
	in->s->p += n;
	*got = n;
	return 1;
}

static enum plim_status yaml_failure(const struct builder *b, const yaml_parser_t *parser)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return err_set(b->err, PLIM_E_NOMEM, "out of memory");
	if (parser->error == YAML_READER_ERROR && b->err->status)
		return b->err->status;
	return err_set(b->err, PLIM_E_FORMAT,
		       "'%.200s' is neither JSON nor YAML: line %llu: %.200s", b->name,
		       (unsigned long long)parser->problem_mark.line + 1,
		       parser->problem ? parser->problem : "not readable");
}

static enum plim_status read_yaml(struct builder *b, struct source *s)
{
	struct yaml_input in = { s, b->err };
	yaml_parser_t parser;
	yaml_event_t e;
	unsigned documents = 0;
	bool ended = false;
	enum plim_status st = PLIM_OK;

	if (!yaml_parser_initialize(&parser))
		return err_set(b->err, PLIM_E_NOMEM, "out of memory");
	yaml_parser_set_input(&parser, read_some, &in);
	while (!st && !ended) {
		if (!yaml_parser_parse(&parser, &e)) {
			st = yaml_failure(b, &parser);
			break;
		}
		ended = e.type == YAML_STREAM_END_EVENT;
		documents += e.type == YAML_DOCUMENT_START_EVENT;
		st = documents > 1 ? refuse_nested(b, "it has several documents")
				   : take_event(b, &e);
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&parser);
	if (!st && !documents)
		st = refuse_nested(b, "there is nothing in it");
	return st;
}

enum plim_status nested_read(struct nested *n, struct source *s, const char *name,
			     struct plim_err *err)
{
	struct builder b = { .out = n, .name = name, .err = err };
	const uint8_t *at;
	enum plim_status st;

	err->status = PLIM_OK;
	intern_init(&b.seen, n->arena->mem);
	for (at = s->p; at < s->end && isspace(*at); at++)
		;
	n->yaml = at == s->end || *at != '{';
	st = n->yaml ? read_yaml(&b, s) : read_json(&b, s);
	intern_release(&b.seen);
	return st;
}

void nested_release(struct nested *n)
{
	vec_release(n->arena->mem, &n->values);
}

enum nested_switch nested_switch_of(const struct nested_value *v)
{
	static const char *const offs[] = { "false", "no", "off", "none", "null" };
	static const char *const ons[] = { "true", "yes", "on" };
	const char *text = v->text;

	if (v->kind == NESTED_NULL)
		return NESTED_UNSAID;
	if (v->kind == NESTED_TRUE)
		return NESTED_ON;
	if (v->kind == NESTED_FALSE)
		return NESTED_OFF;
	if (v->kind != NESTED_NUMBER && v->kind != NESTED_TEXT)
		return NESTED_UNCLEAR;
	if (!*text)
		return NESTED_OFF;
	if (nested_is_number(text))
		return text[strspn(text, "-+0.")] ? NESTED_ON : NESTED_OFF;
	for (size_t i = 0; i < sizeof(offs) / sizeof(offs[0]); i++)
		if (!strcasecmp(text, offs[i]))
			return NESTED_OFF;
	for (size_t i = 0; i < sizeof(ons) / sizeof(ons[0]); i++)
		if (!strcasecmp(text, ons[i]))
			return NESTED_ON;
	return NESTED_UNCLEAR;
}

bool nested_is_off(const struct nested_value *v)
{
	switch (v->kind) {
	case NESTED_NULL:
	case NESTED_FALSE: return true;
	case NESTED_TEXT: return !*v->text;
	case NESTED_NUMBER: return !v->text[strspn(v->text, "-+0.")];
	case NESTED_LIST:
	case NESTED_OBJECT: return !v->elements;
	case NESTED_TRUE:
	case NESTED_UNRESOLVED:
	default: return false;
	}
}
