/*
 * What torch.export.save writes (.pt2): a zip of graphs and of the shapes of weights in JSON, weights as raw bytes, and
 * pickles.  The layout is that of torch/export/pt2_archive/_package.py and torch/_export/serde (PyTorch 2.13); releases
 * before 2.9 kept the weights of a model in one file of torch.save.
 *
 * torch.export.load runs code of the file in four ways.  It unpickles example inputs, some weights and constants without
 * weights_only; it hands expressions of sizes to sympy, which evaluates them; trees of inputs name modules, which are
 * imported (torch/utils/_pytree.py); and a package of AOTInductor is native code.
 */
#include "parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define RECORD_BYTES ((uint64_t)512 << 20) /* of a record that is read whole */
#define NESTED 4                           /* archives inside each other */

struct exported {
	struct ckpt *ckpt;
	const struct zip *zip;
	const uint32_t *by_name; /* string -> record + 1, for the first `names` strings */
	size_t names;
	const char *folder;   /* of every record, with its slash */
	const char *prefix;   /* of the tensors' names */
	const char *payloads; /* "data/weights/" or "data/constants/" */
	uint8_t *loaded;      /* by record: it was read as a file of its own */
	struct json json;
};

/* A row of a payload's configuration. */
struct payload {
	struct ckpt_tensor t;
	char path[200];
	uint64_t sizes[CKPT_DIMS], strides[CKPT_DIMS];
	size_t rank, rank_of_strides;
	uint64_t dtype, layout;
	bool pickled, described;
};

static const char *exported_name_of(const struct exported *x, uint32_t record)
{
	const char *name = ckpt_text(x->ckpt, x->ckpt->extents.at[record].name);
	size_t n = strlen(x->folder);

	return strncmp(name, x->folder, n) != 0 ? name : name + n;
}

/* As torch finds records: the case of letters does not matter. */
static bool exported_begins(const char *name, const char *with)
{
	return !strncasecmp(name, with, strlen(with));
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), k = strlen(with);

	return n >= k && !strcasecmp(name + n - k, with);
}

/* ---- JSON ---- */

typedef enum plim_status read_fn(struct exported *x, uint32_t record, struct plim_err *err);

/* A record of JSON; one that is not JSON, or not as it has to be, is a finding. */
static enum plim_status read_json(struct exported *x, uint32_t record, read_fn *read,
				  struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	struct plim_err why = { 0 };
	struct source *src = NULL;
	uint8_t *bytes;
	size_t n;
	enum plim_status st = zip_get(c, record, RECORD_BYTES, &bytes, &n, &why);

	if (!st)
		st = source_open_memory(c->mem, "a record", bytes, n, SOURCE_MEMORY_PLAIN, NULL,
					&src, &why);
	if (!st)
		st = json_init(&x->json, c->mem, src, JSON_ONE, &why);
	if (!st) {
		st = read(x, record, &why);
		json_release(&x->json);
	}
	source_close(src);
	mem_free(c->mem, bytes, n, 1);
	if (st == PLIM_E_FORMAT) {
		c->pickled = c->many_globals = true; /* expressions in it were not seen */
		return ckpt_model_find(c, CKPT_BAD_FINDING, "exported", why.offset, err,
				       "'%.200s': %.300s", exported_name_of(x, record),
				       why.message);
	}
	if (st && err)
		*err = why;
	return st;
}

/* ---- expressions ---- */

/*
 * sympy.sympify() evaluates a text as Python, where Python's own functions have their names.  Harmless are arithmetic,
 * names in quotes, and calls of what begins with a capital letter (Symbol, Mod, FloorDiv): no function of Python does.
 */
static bool is_harmless(const char *text, size_t n)
{
	size_t word = 0; /* letters, digits and underscores that end here */
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		char c = text[i], before = i ? text[i - 1] : ' ';
		bool letter = isalnum((unsigned char)c) || c == '_';

		if (c == '\'') {
			if (!quoted && word) /* f'...' is evaluated */
				return false;
			quoted = !quoted;
		} else if (!letter && (quoted || !c || !strchr("+-*/%<>=!&|~(), .", c))) {
			return false;
		}
		if ((c == '_' && before == '_') || (c == '.' && !isdigit((unsigned char)before)))
			return false;
		if (c == '(' &&
		    (before == ')' || (word && !isupper((unsigned char)text[i - word]))))
			return false;
		if (c == ' ' && (word || before == ')') &&
		    text[i + 1 + strspn(text + i + 1, " ")] == '(')
			return false; /* "open (x)" calls, too */
		word = letter ? word + 1 : 0;
	}
	return !quoted;
}

/*
 * A tree of inputs or outputs is JSON in a text, whose contexts are JSON in texts again: an enumeration and a default
 * factory name a module, which is imported.  An escaped letter could hide such a key.
 */
static bool is_plain_tree(const char *text)
{
	return !strstr(text, "__enum__") && !strstr(text, "default_factory") &&
	       !strstr(text, "\\u");
}

/* Every expression and every tree of a graph. */
static enum plim_status judge_graph(struct exported *x, uint32_t record, struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	struct json_token t;
	enum { OTHER, EXPRESSION, TREE } follows = OTHER;
	enum plim_status st;

	while (!(st = json_next(&x->json, &t, err)) && t.kind != JSON_END) {
		bool expression = follows == EXPRESSION && t.kind == JSON_STRING;
		bool tree = follows == TREE && t.kind == JSON_STRING;
		char what[120];

		if ((expression && !is_harmless(t.string, t.n)) ||
		    (tree && (strlen(t.string) < t.n || !is_plain_tree(t.string)))) {
			snprintf(what, sizeof(what), "%s(%.80s)",
				 tree ? "torch.utils._pytree.treespec_loads" : "sympy.sympify",
				 t.string);
			c->pickled = true;
			st = globals_tell(c, exported_name_of(x, record), what, t.offset,
					  CKPT_UNKNOWN, err);
			if (st)
				return st;
		}
		follows = json_is(&t, "expr_str")                             ? EXPRESSION
			  : json_is(&t, "in_spec") || json_is(&t, "out_spec") ? TREE
									      : OTHER;
	}
	return st;
}

/* ---- weights and constants ---- */

/* torch._export.serde.schema.ScalarType; NULL: a number that it does not have. */
static const struct ckpt_dtype *dtype_of(uint64_t number)
{
	static const char *const names[] = {
		[1] = "uint8",
		[2] = "int8",
		[3] = "int16",
		[4] = "int32",
		[5] = "int64",
		[6] = "float16",
		[7] = "float32",
		[8] = "float64",
		[9] = "complex32",
		[10] = "complex64",
		[11] = "complex128",
		[12] = "bool",
		[13] = "bfloat16",
		[28] = "uint16",
		[29] = "float8_e4m3fn",
		[30] = "float8_e5m2",
		[31] = "float8_e4m3fnuz",
		[32] = "float8_e5m2fnuz",
		[33] = "float8_e8m0fnu",
		[34] = "uint32",
		[35] = "uint64",
	};

	return number < sizeof(names) / sizeof(names[0]) && names[number]
		       ? ckpt_dtype_of_torch(names[number])
		       : NULL;
}

/* A size: a number, or {"as_int": a number}. */
static enum plim_status read_size(struct exported *x, struct json_token *t, uint64_t *out,
				  struct plim_err *err)
{
	bool wrapped = t->kind == JSON_OBJECT;
	enum plim_status st = PLIM_OK;

	if (wrapped)
		st = json_next(&x->json, t, err);
	if (!st && wrapped && !json_is(t, "as_int"))
		return err_at(err, t->offset, "a size of a weight is not a number");
	if (!st && wrapped)
		st = json_next(&x->json, t, err);
	if (!st && (!json_get_u64(t, out) || t->negative))
		return err_at(err, t->offset, "a size of a weight is not a number from 0 on");
	if (!st && wrapped)
		st = json_next(&x->json, t, err);
	return !st && wrapped && t->kind != JSON_OBJECT_END
		       ? err_at(err, t->offset, "a size of a weight has two values")
		       : st;
}

static enum plim_status read_sizes(struct exported *x, uint64_t *out, size_t *n,
				   struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&x->json, &t, err);

	*n = 0;
	if (!st && t.kind != JSON_ARRAY)
		return err_at(err, t.offset, "a list of sizes is expected");
	while (!st && !(st = json_next(&x->json, &t, err)) && t.kind != JSON_ARRAY_END) {
		if (*n == CKPT_DIMS)
			return err_at(err, t.offset, "a weight has more than %d dimensions",
				      CKPT_DIMS);
		st = read_size(x, &t, &out[(*n)++], err);
	}
	return st;
}

static enum plim_status read_exported_number(struct exported *x, uint64_t *out,
					     struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&x->json, &t, err);

	return st ? st : read_size(x, &t, out, err);
}

static enum plim_status read_meta(struct exported *x, struct payload *p, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&x->json, &t, err);

	if (st || t.kind == JSON_NULL)
		return st;
	if (t.kind != JSON_OBJECT)
		return err_at(err, t.offset, "tensor_meta is not an object");
	p->described = true;
	while (!st && !(st = json_next(&x->json, &t, err)) && t.kind != JSON_OBJECT_END) {
		if (json_is(&t, "dtype"))
			st = read_exported_number(x, &p->dtype, err);
		else if (json_is(&t, "sizes"))
			st = read_sizes(x, p->sizes, &p->rank, err);
		else if (json_is(&t, "strides"))
			st = read_sizes(x, p->strides, &p->rank_of_strides, err);
		else if (json_is(&t, "storage_offset"))
			st = read_exported_number(x, &p->t.offset, err);
		else if (json_is(&t, "layout"))
			st = read_exported_number(x, &p->layout, err);
		else
			st = json_skip(&x->json, &t, err);
	}
	return st;
}

static enum plim_status read_payload(struct exported *x, struct payload *p, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(&x->json, &t, err);

	if (!st && t.kind != JSON_OBJECT)
		return err_at(err, t.offset, "a weight's entry is not an object");
	while (!st && !(st = json_next(&x->json, &t, err)) && t.kind != JSON_OBJECT_END) {
		bool path = json_is(&t, "path_name"), pickled = json_is(&t, "use_pickle");

		if (json_is(&t, "tensor_meta")) {
			st = read_meta(x, p, err);
			continue;
		}
		if (!path && !pickled) {
			st = json_skip(&x->json, &t, err);
			continue;
		}
		st = json_next(&x->json, &t, err);
		if (!st && path && (t.kind != JSON_STRING || t.n >= sizeof(p->path)))
			return err_at(err, t.offset, "path_name is not a record's name");
		if (!st && path)
			memcpy(p->path, t.string, t.n + 1);
		else if (!st)
			p->pickled = t.kind != JSON_FALSE;
	}
	return st;
}

/* A record that is a file of its own, which a loader of pickles reads. */
static enum plim_status judge_loaded(struct exported *x, uint32_t record, struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	struct globals_log log = { .ckpt = c, .record = c->extents.at[record].name };
	enum ckpt_trust trust = CKPT_UNKNOWN;
	struct plim_err why = { 0 };
	uint8_t *bytes;
	size_t n;
	enum plim_status st = zip_get(c, record, RECORD_BYTES, &bytes, &n, &why);

	if (!st)
		st = inside_judge(&log, bytes, n, &trust, &why);
	mem_free(c->mem, bytes, n, 1);
	c->pickled = true;
	c->many_globals |= trust == CKPT_UNKNOWN;
	if (st && st != PLIM_E_FORMAT && err)
		*err = why;
	return st == PLIM_E_FORMAT ? PLIM_OK : st; /* the scan says what cannot be read */
}

/* The same, with its tensors, which get `prefix` in front of their names. */
static enum plim_status read_loaded(struct exported *x, uint32_t record, const char *prefix,
				    struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	struct ckpt_extent e = c->extents.at[record];
	char head[4] = "";
	size_t got = 0;
	enum plim_status st = PLIM_OK;

	if (x->loaded[record - x->zip->first]++)
		return PLIM_OK; /* two names of one tensor */
	if (!e.deflated && e.state != CKPT_CUT && c->nested < NESTED)
		st = ckpt_pread(c, e.file, e.offset, head, sizeof(head), &got, err);
	if (st || got < sizeof(head) || memcmp(head, "PK\3\4", sizeof(head)) != 0)
		return st ? st : judge_loaded(x, record, err);
	c->pickled = true;
	c->nested++;
	st = torch_read_zip(c, e.file, e.offset, e.bytes, prefix, err);
	c->nested--;
	return st;
}

/* Raw bytes, as JSON describes them. */
static enum plim_status add_tensor(struct exported *x, struct payload *p, uint32_t record,
				   struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	const char *name = ckpt_text(c, p->t.name);
	struct ckpt_extent *e = &c->extents.at[record];
	uint64_t reach, bits;

	p->t.dtype = p->described ? dtype_of(p->dtype) : NULL;
	if (!p->t.dtype || p->rank != p->rank_of_strides)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "exported", e->offset, err,
				       "weight '%.200s' has %s", name,
				       p->t.dtype ? "other strides than sizes"
						  : "no dtype that PyTorch 2.13 writes");
	p->t.rank = (uint16_t)p->rank;
	p->t.location = CKPT_NONE;
	p->t.extent = record;
	if (!ckpt_model_reach(p->sizes, p->strides, p->rank, p->t.offset, &p->t.count, &reach) ||
	    __builtin_mul_overflow(reach, p->t.dtype->bits, &bits) || bits / 8 > e->bytes) {
		e->state = CKPT_CUT;
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "storage_size", e->offset, err,
			"record '%.200s' has %llu bytes, weight '%.200s' in it needs "
			"more",
			exported_name_of(x, record), (unsigned long long)e->bytes, name);
	}
	return ckpt_model_tensor(c, p->t, p->sizes, p->strides, NULL, err);
}

static enum plim_status add_payload(struct exported *x, struct payload *p, struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	const char *name = ckpt_text(c, p->t.name);
	char full[1400];
	uint32_t id, record;

	snprintf(full, sizeof(full), "%s%s%s", x->folder, x->payloads, p->path);
	id = intern_find(&c->strings, full, strlen(full));
	record = id < x->names && x->by_name[id] ? x->by_name[id] - 1 : CKPT_NONE;
	if (record == CKPT_NONE)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "missing_record", PLIM_UNKNOWN, err,
				       "record '%s%.200s' is missing: weight '%.200s' is lost",
				       x->payloads, p->path, name);
	/* A constant is unpickled if its record's name does not begin as a tensor's, whatever else is said of it. */
	if (p->pickled || !p->described ||
	    (exported_begins(x->payloads, "data/constants/") &&
	     !exported_begins(p->path, "tensor_")))
		return read_loaded(x, record, name, err);
	return add_tensor(x, p, record, err);
}

/* {"config": {NAME: {"path_name": ..., "use_pickle": ..., "tensor_meta": ...}}} */
static enum plim_status read_payloads(struct exported *x, uint32_t record, struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	struct json_token t;
	enum plim_status st = json_next(&x->json, &t, err);

	(void)record;
	if (!st && t.kind != JSON_OBJECT)
		return err_at(err, t.offset, "an object is expected");
	while (!st && !(st = json_next(&x->json, &t, err)) && t.kind == JSON_KEY) {
		if (!json_is(&t, "config")) {
			st = json_skip(&x->json, &t, err);
			continue;
		}
		st = json_next(&x->json, &t, err);
		if (!st && t.kind != JSON_OBJECT)
			return err_at(err, t.offset, "config is not an object");
		while (!st && !(st = json_next(&x->json, &t, err)) && t.kind == JSON_KEY) {
			struct payload p = { .layout = 0 };

			p.t.name = ckpt_model_printf(c, &st, err, "%s%s", x->prefix, t.string);
			if (!st)
				st = read_payload(x, &p, err);
			if (!st)
				st = add_payload(x, &p, err);
		}
	}
	return st;
}

/* ---- the whole ---- */

/* Is it a configuration of payloads, and of which? */
static const char *payloads_of(const char *name)
{
	static const char *const folders[] = { "data/weights/", "data/constants/" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (exported_begins(name, folders[i]) && ends(name, "_config.json"))
			return folders[i];
	return NULL;
}

/* What JSON describes: graphs, and which records are raw bytes. */
static enum plim_status read_described(struct exported *x, uint32_t record, struct plim_err *err)
{
	const char *name = exported_name_of(x, record);

	x->payloads = payloads_of(name);
	if (x->payloads)
		return read_json(x, record, read_payloads, err);
	if (exported_begins(name, "models/") || ends(name, "exported_program.json"))
		return read_json(x, record, judge_graph, err);
	return PLIM_OK;
}

#define TAR_BYTES 512 /* of the shortest tar */

/* May a loader find a file in these bytes that is more than a pickle?  Pickles are looked for in every record. */
static enum plim_status may_hold_file(struct exported *x, uint32_t record, bool *may,
				      struct plim_err *err)
{
	const struct ckpt_extent *e = &x->ckpt->extents.at[record];
	char head[4] = "";
	size_t got = 0;
	enum plim_status st = PLIM_OK;

	*may = e->bytes >= TAR_BYTES || ends(exported_name_of(x, record), ".pt");
	if (!*may && e->state != CKPT_CUT && !e->deflated)
		st = ckpt_pread(x->ckpt, e->file, e->offset, head, sizeof(head), &got, err);
	*may |= e->deflated || (got == sizeof(head) && !memcmp(head, "PK\3\4", sizeof(head)));
	return st;
}

/* Any other record: a loader may take it for a file of its own. */
static enum plim_status read_other(struct exported *x, uint32_t record, struct plim_err *err)
{
	struct ckpt *c = x->ckpt;
	const struct ckpt_extent *e = &c->extents.at[record];
	const char *name = exported_name_of(x, record);
	bool in_payloads = exported_begins(name, "data/weights/") ||
			   exported_begins(name, "data/constants/"),
	     may;
	enum plim_status st;

	if (ends(name, ".so")) {
		c->pickled = true;
		return globals_tell(c, name, "native code", e->offset, CKPT_UNKNOWN, err);
	}
	if (e->tensors || x->loaded[record - x->zip->first] || exported_begins(name, "extra/") ||
	    exported_begins(name, "models/") || ends(name, "exported_program.json") ||
	    payloads_of(name))
		return PLIM_OK;
	if ((in_payloads && ends(name, ".pt")) || ends(name, "serialized_state_dict.pt") ||
	    ends(name, "serialized_state_dict.json"))
		return read_loaded(x, record, x->prefix, err);
	st = may_hold_file(x, record, &may, err);
	return !st && may ? judge_loaded(x, record, err) : st;
}

bool exported_is(const struct ckpt *c, const struct zip *zip)
{
	for (uint32_t i = zip->first; i < zip->first + zip->n; i++) {
		const char *name = ckpt_text(c, c->extents.at[i].name);

		if (ends(name, "/archive_format") || ends(name, "exported_program.json"))
			return true;
	}
	return false;
}

enum plim_status exported_read(struct ckpt *c, const struct zip *zip, const uint32_t *by_name,
			       size_t names, const char *folder, const char *prefix,
			       struct plim_err *err)
{
	struct exported x = { .ckpt = c,
			      .zip = zip,
			      .by_name = by_name,
			      .names = names,
			      .folder = folder,
			      .prefix = prefix };
	enum plim_status st = PLIM_OK;

	x.loaded = mem_new(c->mem, zip->n, 1, err);
	if (!x.loaded)
		return mem_status(err);
	if (!c->kind)
		c->kind = CKPT_KIND_EXPORTED;
	for (uint32_t i = zip->first; !st && i < zip->first + zip->n; i++)
		st = read_described(&x, i, err);
	for (uint32_t i = zip->first; !st && i < zip->first + zip->n; i++)
		st = read_other(&x, i, err);
	mem_free(c->mem, x.loaded, zip->n, 1);
	return st ? st
		  : ckpt_model_find(
			    c, CKPT_WARN, "exported_program", PLIM_UNKNOWN, err,
			    "a program is inside (torch.export): torch.export.load reads it, "
			    "torch.load does not");
}
