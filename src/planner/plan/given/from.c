/*
 * What other tools' configurations say of a run, as options of plan.  Files are read key by key against the tables of
 * data/tools.rows: a key that is in none of them, and is on, may change memory; it is named, and forbids a verdict.  What is
 * given by the caller stays.  Several keys that make one option (whether FSDP shards again, and in which version) are
 * collected, and settled when all files were read.
 */
#include "plan/given/from.h"
#include "plan/plan.h"

#include <ctype.h>
#include <strings.h>
#include <sys/stat.h>

#define FILES_WITHIN 4 /* files that name one another */
#define ADAPTERS "adapter_config.json"
#define FILES_MOST 64  /* of all, by whatever way */
#define LIST_MOST 1000 /* elements of one that is taken */
#define SHOWN 80       /* columns of a key, a value */

/* Options of data/tools.rows's that are not plan's: of which several make one. */
enum own {
	OWN_ADAPTER,
	OWN_RANK,
	OWN_DROPOUT,
	OWN_DOUBLE,
	OWN_ALL_LINEAR,
	OWN_ATTN_TARGETS,
	OWN_MLP_TARGETS,
	OWN_AUTOCAST,
	OWN_TORCH_AUTOCAST,
	OWN_WEIGHTS,
	OWN_FUSED,
	OWN_EVERY,
	OWN_CKPT_OFFLOAD,
	OWN_EVALUATES,
	OWN_EVAL_BATCH,
	OWN_PACKED,
	OWN_PACKS,
	OWN_FILLS,
	OWN_ZERO,
	OWN_WHOLE,
	OWN_FSDP,
	OWN_FSDP_VERSION,
	OWN_RESHARD,
	OWN_WAY,
	OWN_WRAP,
	OWN_SHARDS,
	OWN_IF_WRAPPED,
	OWN_OVERLAP,
	OWN_LIGER,
	OWN_LIGER_LOSS,
	OWN_LIGER_NORM,
	OWN_LIGER_ROPE,
	OWN_LIGER_GATE,
	OWN_ZERO_BUCKET,
	OWN_ZERO_PREFETCH,
	OWN_ZERO_PERSISTENT,
	OWN_ZERO_REUSE,
	OWN_ZERO_LIVE,
	OWN_ZERO_SUB_GROUP,
	OWNS,
	NOT_OWN = OWNS
};
static const char *const own_names[OWNS] = {
	[OWN_ADAPTER] = "@adapter",
	[OWN_RANK] = "@rank",
	[OWN_DROPOUT] = "@dropout",
	[OWN_DOUBLE] = "@double",
	[OWN_ALL_LINEAR] = "@all-linear",
	[OWN_ATTN_TARGETS] = "@attn-targets",
	[OWN_MLP_TARGETS] = "@mlp-targets",
	[OWN_AUTOCAST] = "@autocast",
	[OWN_TORCH_AUTOCAST] = "@torch-autocast",
	[OWN_WEIGHTS] = "@weights",
	[OWN_FUSED] = "@fused",
	[OWN_EVERY] = "@every",
	[OWN_CKPT_OFFLOAD] = "@ckpt-offload",
	[OWN_EVALUATES] = "@evaluates",
	[OWN_EVAL_BATCH] = "@eval-batch",
	[OWN_PACKED] = "@packed",
	[OWN_PACKS] = "@packs",
	[OWN_FILLS] = "@fills",
	[OWN_ZERO] = "@zero",
	[OWN_WHOLE] = "@whole",
	[OWN_FSDP] = "@fsdp",
	[OWN_FSDP_VERSION] = "@fsdp-version",
	[OWN_RESHARD] = "@reshard",
	[OWN_WAY] = "@way",
	[OWN_WRAP] = "@wrap",
	[OWN_SHARDS] = "@shards",
	[OWN_IF_WRAPPED] = "@fsdp-if-wrapped",
	[OWN_OVERLAP] = "@overlap",
	[OWN_LIGER] = "@liger",
	[OWN_LIGER_LOSS] = "@liger-loss",
	[OWN_LIGER_NORM] = "@liger-norm",
	[OWN_LIGER_ROPE] = "@liger-rope",
	[OWN_LIGER_GATE] = "@liger-gate",
	[OWN_ZERO_BUCKET] = "@zero-bucket",
	[OWN_ZERO_PREFETCH] = "@zero-prefetch",
	[OWN_ZERO_PERSISTENT] = "@zero-persistent",
	[OWN_ZERO_REUSE] = "@zero-reuse",
	[OWN_ZERO_LIVE] = "@zero-live",
	[OWN_ZERO_SUB_GROUP] = "@zero-sub-group",
};

struct row_read {
	struct plim_plan_setting told;
	enum own own;
	const char *file;
	unsigned number; /* of the file, as they were opened */
	size_t place;    /* among all rows */
	bool is_default; /* no key said it */
};

/* What a file switches off, reported only where another has it on. */
struct denial {
	const struct from_row *row;
	const char *text, *file;
	const struct from_tool *tool;
	unsigned number;
};

struct switched {
	const struct from_row *row;
	unsigned number;
};

struct reading {
	bool unwritten; /* there is no file: --for */
	struct plim_plan *p;
	struct plim_plan_options *o;
	struct plim_plan_options given; /* as the caller had them */
	bool autocast_given; /* by the caller, who leaves open what weights are loaded in */
	struct arena *arena;
	struct plim_err *err;
	VEC(struct row_read) rows;
	VEC(struct denial) denials;
	VEC(struct switched) switched;
	const char *own[OWNS];     /* what was read of each, NULL: nothing */
	const char *settled[OWNS]; /* and what it came to */
	size_t unknown;
	unsigned within, files;
	struct stat open[FILES_WITHIN];
	/* the last whose tool has no mixed precision but what it is asked for; NULL: none is */
	const struct from_tool *quiet;
	const char *quiet_file;
	unsigned quiet_number;
	/* what runs it: the last file's that loads weights, has adapters, or several GPUs in a way of its own */
	const struct from_tool *runs;
	const char *runs_file;
	unsigned runs_number;
	/* what leaves the batch to the Trainer; NULL: none does */
	const struct from_tool *left;
	const char *left_file;
	unsigned left_number;
	const char *alpha; /* of adapters; NULL: no file says it */
	bool alpha_unclear;
	/* the file at hand */
	unsigned number;
	const char *file;
	const struct from_tool *tool;
	const struct nested *values;
};

static enum plim_status read_file(struct reading *r, const char *path, enum source_kinds kinds);

/* ---- what is reported ---- */

static bool is_redacted(const struct reading *r)
{
	return r->p->hidden->redacts;
}

/* A word of a file as a terminal may have it. */
static const char *shown(struct reading *r, const char *word)
{
	const struct text_style style = { .width = 0, .color = false, .utf8 = true };
	const char *copy = NULL;
	struct text t;

	text_init(&t, r->arena->mem, &style);
	text_name_fit(&t, word, strlen(word), SHOWN, TEXT_CUT_RIGHT);
	if (!text_status(&t, r->err))
		copy = arena_copy(r->arena, text_get(&t), r->err);
	text_release(&t);
	return copy;
}

static enum plim_status tell_from(struct reading *r, const char *key, const char *value,
				  const char *option, enum own own)
{
	struct row_read row = { .own = own, .file = r->file, .number = r->number };
	bool redacts = is_redacted(r);

	key = shown(r, key);
	value = shown(r, value);
	if (!key || !value)
		return mem_status(r->err);
	row.told = (struct plim_plan_setting){ .file = redacts ? NULL : r->file,
					       .tool = r->tool->name,
					       .key = redacts && !option && own == NOT_OWN ? NULL
											   : key,
					       .value = redacts ? NULL : value,
					       .option = option };
	return vec_push(r->arena->mem, &r->rows, row, r->err);
}

static enum plim_status tell_unknown(struct reading *r, const char *key, const char *value)
{
	size_t n = r->rows.n;

	/* elements of one list are one key */
	if (n && !r->rows.at[n - 1].told.option && r->rows.at[n - 1].own == NOT_OWN &&
	    r->rows.at[n - 1].number == r->number && r->rows.at[n - 1].told.key &&
	    !strcmp(r->rows.at[n - 1].told.key, key))
		return PLIM_OK;
	r->unknown++;
	return tell_from(r, key, value, NULL, NOT_OWN);
}

static const char *words(struct reading *r, const char *name, const char *value)
{
	bool flag = plan_option_is_flag(name);

	value = shown(r, value);
	if (!value)
		return NULL;
	return arena_text(r->arena, r->err, flag || is_redacted(r) ? "--%s" : "--%s %s", name,
			  value);
}

static enum own own_of(const char *name)
{
	for (unsigned i = 0; i < OWNS; i++)
		if (!strcmp(own_names[i], name))
			return (enum own)i;
	return NOT_OWN;
}

/* One option takes a value, which is reported next to the key that says so. */
static enum plim_status give_from(struct reading *r, const char *key, const char *shown,
				  const char *option, const char *value)
{
	struct plim_plan_options trial = r->given; /* did the caller give it? */
	enum own own = own_of(option);
	enum plan_given given;
	const char *text;

	if (own == OWN_AUTOCAST && r->autocast_given && strcmp(r->own[own], value) != 0)
		return tell_from(r, key, shown, "--precision was given, and stays", NOT_OWN);
	if (own != NOT_OWN) {
		if (r->own[own] && strcmp(r->own[own], value) != 0)
			return tell_unknown(r, key, shown); /* two files disagree */
		r->own[own] = value;
		return tell_from(r, key, shown, NULL, own);
	}
	given = plan_give_option(&trial, option, value);
	if (given == PLAN_TAKEN_BEFORE) {
		text = arena_text(r->arena, r->err, "--%s was given, and stays", option);
		return text ? tell_from(r, key, shown, text, NOT_OWN) : mem_status(r->err);
	}
	if (given == PLAN_NOT_TAKEN || plan_give_option(r->o, option, value) == PLAN_TAKEN_BEFORE)
		return tell_unknown(r, key, shown);
	text = words(r, option, value);
	return text ? tell_from(r, key, shown, text, NOT_OWN) : mem_status(r->err);
}

/* ---- rows of a tool ---- */

static bool from_begins(const char *key, const char *pattern)
{
	size_t n = strlen(pattern);

	return n && pattern[n - 1] == '*' && !strncmp(key, pattern, n - 1);
}

static const struct from_row *from_row_of(const struct from_tool *tool, const char *key)
{
	const struct from_row *found = NULL;

	for (unsigned i = 0; i < 2 && tool->rows[i]; i++)
		for (const struct from_row *row = tool->rows[i]; row->key; row++) {
			if (!strcmp(row->key, key))
				return row;
			if (row->how == FROM_NEUTRAL && from_begins(key, row->key))
				found = row;
		}
	return found;
}

static bool is_auto(const struct nested_value *v)
{
	return v->kind == NESTED_TEXT && !strcmp(v->text, "auto");
}

static bool same_number(const char *a, const char *b)
{
	char *end_a, *end_b;
	double x = strtod(a, &end_a), y = strtod(b, &end_b);

	return !*end_a && !*end_b && x >= y && x <= y;
}

/* "2e8" as 200000000: what counts is written as a float at times. */
static const char *from_whole(struct reading *r, const struct nested_value *v)
{
	char *end;
	double n;

	if (v->kind != NESTED_NUMBER || !v->text[strspn(v->text, "0123456789")])
		return v->text;
	n = strtod(v->text, &end);
	if (*end || !(n >= 0 && n < 1e15) || n > (double)(uint64_t)n)
		return v->text;
	return arena_text(r->arena, r->err, "%llu", (unsigned long long)n);
}

static enum plim_status take_word(struct reading *r, const struct from_row *row,
				  const struct nested_value *v)
{
	const char *text = v->kind == NESTED_TRUE    ? "true"
			   : v->kind == NESTED_FALSE ? "false"
						     : v->text;

	for (const struct from_word *w = row->words; w->word; w++)
		if (!strcasecmp(w->word, text) ||
		    (v->kind == NESTED_FALSE && !strcmp(w->word, "no")))
			return w->option ? give_from(r, row->key, v->text, w->option, w->value)
					 : PLIM_OK;
	return nested_is_off(v) ? PLIM_OK : tell_unknown(r, row->key, v->text);
}

/* The elements of the list at `v`, or the text itself. */
static enum plim_status take_list(struct reading *r, const struct from_row *row,
				  const struct nested_value *v)
{
	const struct nested_value *end = r->values->values.at + r->values->values.n;
	const char *all = v->kind == NESTED_LIST ? "" : v->text;
	uint32_t n = 0;

	if (nested_is_off(v))
		return PLIM_OK;
	if (v->kind == NESTED_OBJECT)
		return tell_unknown(r, row->key, "a mapping");
	for (const struct nested_value *e = v + 1;
	     all && v->kind == NESTED_LIST && e < end && e->index && !strcmp(e->path, v->path);
	     e++) {
		if (e->kind != NESTED_TEXT || strchr(e->text, ','))
			return tell_unknown(r, row->key, *e->text ? e->text : "a list in a list");
		if (++n > LIST_MOST)
			return tell_unknown(r, row->key, "a long list");
		all = arena_text(r->arena, r->err, *all ? "%s,%s" : "%s%s", all, e->text);
	}
	if (!all)
		return mem_status(r->err);
	if (v->kind == NESTED_LIST && n != v->elements)
		return tell_unknown(r, row->key, "a list with other things between");
	for (const struct from_word *w = row->words; w && w->word; w++)
		if (!strcmp(w->word, all))
			return give_from(r, row->key, v->text, w->option, w->value);
	if (strpbrk(all, "()[]|\\^$+?")) /* a regular expression */
		return tell_unknown(r, row->key, v->text);
	return give_from(r, row->key, all, row->option, all);
}

static enum plim_status take_model(struct reading *r, const struct nested_value *v)
{
	struct plim_plan_hidden *h = r->p->hidden;
	const char *slash = strrchr(r->file, '/'), *beside, *model;
	struct stat info;

	if (nested_is_off(v))
		return PLIM_OK;
	if (v->kind != NESTED_TEXT && v->kind != NESTED_NUMBER)
		return tell_unknown(r, v->path, v->text);
	model = v->text;
	if (stat(model, &info) && slash && *v->text != '/') {
		beside = arena_text(r->arena, r->err, "%.*s/%s", (int)(slash - r->file), r->file,
				    v->text);
		if (!beside)
			return mem_status(r->err);
		model = stat(beside, &info) ? v->text : beside;
	}
	/* a pipe's or device's reader may wait forever */
	if (!stat(model, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
		return tell_unknown(r, v->path, v->text);
	h->from_model = model;
	return tell_from(r, v->path, v->text, "the model, where none is given", NOT_OWN);
}

static bool from_is_open(const struct reading *r, const struct stat *info)
{
	for (unsigned i = 0; i < r->within; i++)
		if (r->open[i].st_dev == info->st_dev && r->open[i].st_ino == info->st_ino)
			return true;
	return false;
}

/* Another configuration, by its path: as it stands, or next to this file. */
static enum plim_status take_file(struct reading *r, const struct nested_value *v)
{
	const char *slash = strrchr(r->file, '/'), *path = v->text;
	struct reading inner;
	struct stat info;
	enum plim_status st;

	if (v->kind == NESTED_OBJECT || nested_is_off(v))
		return PLIM_OK;
	if (v->kind != NESTED_TEXT)
		return tell_unknown(r, v->path, v->text);
	if (stat(path, &info) && slash && *path != '/') {
		path = arena_text(r->arena, r->err, "%.*s/%s", (int)(slash - r->file), r->file,
				  path);
		if (!path)
			return mem_status(r->err);
	}
	if (stat(path, &info) || !S_ISREG(info.st_mode) || r->within == FILES_WITHIN ||
	    r->files >= FILES_MOST || from_is_open(r, &info))
		return tell_unknown(r, v->path, v->text);
	inner = *r;
	st = read_file(r, path, SOURCE_REGULAR);
	r->number = inner.number;
	r->file = inner.file;
	r->tool = inner.tool;
	r->values = inner.values;
	return st;
}

static bool is_same(const struct nested_value *v, const char *value)
{
	struct nested_value wanted = { .kind = NESTED_TEXT, .text = value };
	enum nested_switch is = nested_switch_of(v);

	if (v->kind == NESTED_NUMBER)
		return same_number(v->text, value) || (!strcmp(value, "false") && is == NESTED_OFF);
	return is != NESTED_UNCLEAR && is == nested_switch_of(&wanted);
}

static enum plim_status note_switch(struct reading *r, const struct from_row *row,
				    const struct nested_value *v, bool taken)
{
	const struct switched on = { row, r->number };
	const struct denial no = { row, v->text, r->file, r->tool, r->number };

	return taken ? vec_push(r->arena->mem, &r->switched, on, r->err)
		     : vec_push(r->arena->mem, &r->denials, no, r->err);
}

static const char *switch_text(const struct nested_value *v)
{
	return *v->text ? v->text : "no switch";
}

/* On and off; where it is `which`, the row's option is given. */
static enum plim_status take_switch(struct reading *r, const struct from_row *row,
				    const struct nested_value *v, enum nested_switch which)
{
	enum nested_switch is = nested_switch_of(v);
	enum plim_status st;

	if (is == NESTED_UNSAID || is_auto(v))
		return PLIM_OK;
	if (is == NESTED_UNCLEAR)
		return tell_unknown(r, row->key, switch_text(v));
	/* "none" may be what holds where nothing is said */
	if (which == NESTED_OFF && is == NESTED_OFF && v->kind == NESTED_TEXT &&
	    tolower((unsigned char)*v->text) == 'n' && strcasecmp(v->text, "no") != 0)
		return tell_unknown(r, row->key, v->text);
	st = note_switch(r, row, v, is == which);
	if (st || is != which)
		return st;
	return give_from(r, row->key, v->text, row->option, row->value);
}

/* What a file of DeepSpeed's said itself, or left to the Trainer: it need not be written again. */
static void note_said(struct reading *r, const struct from_row *row, const struct nested_value *v)
{
	static const struct {
		const char *key;
		enum plan_zero_said said, left;
	} keys[] = {
		{ "zero_optimization.stage", PLAN_ZERO_READ, PLAN_ZERO_READ },
		{ "optimizer.type", PLAN_ZERO_HAS_OPTIMIZER, PLAN_ZERO_HAS_OPTIMIZER },
		{ "train_micro_batch_size_per_gpu", 0, PLAN_ZERO_LEFT_BATCH },
		{ "gradient_accumulation_steps", 0, PLAN_ZERO_LEFT_ACCUMULATION },
		{ "torch_autocast.enabled", PLAN_ZERO_AUTOCASTS, PLAN_ZERO_AUTOCASTS },
		{ "bf16.enabled", 0, PLAN_ZERO_LEFT_PRECISION },
		{ "fp16.enabled", 0, PLAN_ZERO_LEFT_PRECISION },
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].key, row->key) != 0 || nested_is_off(v))
			continue;
		r->p->hidden->zero.said |= is_auto(v) ? keys[i].left : keys[i].said;
		if (keys[i].left == PLAN_ZERO_LEFT_BATCH && is_auto(v)) {
			r->left = r->tool;
			r->left_file = r->file;
			r->left_number = r->number;
		}
	}
}

static enum plim_status take_less(struct reading *r, const struct from_row *row,
				  const struct nested_value *v)
{
	if (nested_is_off(v))
		return PLIM_OK;
	r->p->hidden->needs_less = true;
	return tell_from(r, row->key, v->text, "planned without it, which needs no less", NOT_OWN);
}

/* A number, which is on above 0. */
static enum plim_status take_above(struct reading *r, const struct from_row *row,
				   const struct nested_value *v)
{
	if (v->kind == NESTED_NUMBER || v->kind == NESTED_NULL || is_auto(v))
		return take_switch(r, row, v, NESTED_ON);
	return tell_unknown(r, row->key, v->text);
}

/* Is it off, left to the tool, or the only value that is planned? */
static bool is_planned_value(const struct from_row *row, const struct nested_value *v)
{
	return nested_is_off(v) || is_auto(v) || !strcmp(v->text, row->value) ||
	       same_number(v->text, row->value);
}

static enum plim_status take_set(struct reading *r, const struct from_row *row,
				 const struct nested_value *v)
{
	const char *value;

	if (v->kind == NESTED_NULL || (is_auto(v) && row->option[0] != '@'))
		return PLIM_OK;
	value = from_whole(r, v);
	return value ? give_from(r, row->key, v->text, row->option, value) : mem_status(r->err);
}

static enum plim_status take_row(struct reading *r, const struct from_row *row,
				 const struct nested_value *v)
{
	bool container = v->kind == NESTED_LIST || v->kind == NESTED_OBJECT;

	if (v->index && row->how != FROM_WORD)
		return row->how == FROM_LIST ? PLIM_OK : tell_unknown(r, row->key, v->text);
	if (v->kind == NESTED_UNRESOLVED)
		return tell_unknown(r, row->key, v->text);
	switch (row->how) {
	case FROM_WORD: return container ? PLIM_OK : take_word(r, row, v);
	case FROM_LIST: return take_list(r, row, v);
	case FROM_LESS: return container ? PLIM_OK : take_less(r, row, v);
	case FROM_FILE: return take_file(r, v);
	case FROM_MODEL: return take_model(r, v);
	case FROM_IF: return take_switch(r, row, v, NESTED_ON);
	case FROM_UNLESS: return take_switch(r, row, v, NESTED_OFF);
	case FROM_ABOVE: return take_above(r, row, v);
	case FROM_IS:
		return is_planned_value(row, v) ? PLIM_OK : tell_unknown(r, row->key, v->text);
	case FROM_ONLY:
		return v->kind == NESTED_NULL || is_same(v, row->value)
			       ? PLIM_OK
			       : tell_unknown(r, row->key, switch_text(v));
	case FROM_SET:
	default: return take_set(r, row, v);
	}
}

/* A whole configuration of DeepSpeed's inside of another tool's: its keys, without the key that it stands under. */
static const char *inner_key(const struct from_tool *tool, const char *path,
			     const struct from_tool **inner)
{
	*inner = NULL;
	for (unsigned i = 0; i < 2 && tool->rows[i]; i++)
		for (const struct from_row *row = tool->rows[i]; row->key; row++) {
			size_t n = strlen(row->key);

			if (row->how == FROM_FILE && !strncmp(path, row->key, n) &&
			    path[n] == '.') {
				*inner = &from_tools[0];
				return path + n + 1;
			}
		}
	return path;
}

static enum plim_status take_value(struct reading *r, const struct nested_value *v)
{
	const struct from_tool *inner;
	const char *key = inner_key(r->tool, v->path, &inner);
	const struct from_row *row = from_row_of(inner ? inner : r->tool, key);
	bool neutral = row && row->how == FROM_NEUTRAL;

	if (row && (inner ? inner : r->tool) == &from_tools[0])
		note_said(r, row, v);
	if (row && !neutral)
		return take_row(r, row, v);
	if (neutral || nested_is_off(v) || v->kind == NESTED_LIST || v->kind == NESTED_OBJECT)
		return PLIM_OK;
	return tell_unknown(r, v->path, v->text);
}

/* What changes no memory, and is pasted again next to the rank. */
static enum plim_status take_alpha(struct reading *r, const struct nested_value *v)
{
	const char *last = strrchr(v->path, '.');

	if (strcmp(last ? last + 1 : v->path, "lora_alpha") != 0 || is_redacted(r))
		return PLIM_OK;
	if (v->kind != NESTED_NUMBER || (r->alpha && !same_number(r->alpha, v->text))) {
		r->alpha_unclear = true;
		return PLIM_OK;
	}
	r->alpha = arena_copy(r->arena, v->text, r->err);
	return r->alpha ? PLIM_OK : mem_status(r->err);
}

/* Does the file have one of the keys, which have spaces between them? */
static bool says(const struct nested *n, const char *keys)
{
	for (size_t length; *keys; keys += length + (keys[length] == ' ')) {
		length = strcspn(keys, " ");
		for (size_t i = 0; i < n->values.n; i++)
			if (!n->values.at[i].index && strlen(n->values.at[i].path) == length &&
			    !memcmp(n->values.at[i].path, keys, length))
				return true;
	}
	return false;
}

static const struct from_tool *tool_of(const struct nested *n)
{
	for (size_t i = 0; i < from_tool_count; i++)
		if (says(n, from_tools[i].marks) && !says(n, from_tools[i].others))
			return &from_tools[i];
	return NULL;
}

/* null stands for what holds where nothing is said. */
static bool is_said(const struct nested *n, const char *key)
{
	for (size_t i = 0; i < n->values.n; i++)
		if (n->values.at[i].kind != NESTED_NULL && !strcmp(n->values.at[i].path, key))
			return true;
	return false;
}

/* Did the caller give it, or lengths in place of one? */
static bool is_given(const struct reading *r, const struct from_default *d)
{
	struct plim_plan_options trial = r->given;

	return (r->given.lengths && !strcmp(d->option, "seq")) ||
	       (own_of(d->option) == NOT_OWN &&
		plan_give_option(&trial, d->option, d->value) == PLAN_TAKEN_BEFORE);
}

static enum plim_status take_defaults(struct reading *r)
{
	enum plim_status st = PLIM_OK;

	for (const struct from_default *d = r->tool->defaults; !st && d && d->key; d++) {
		enum own own = own_of(d->option);

		if ((own != NOT_OWN && r->own[own]) || is_said(r->values, d->key))
			continue;
		/* another key said all of it */
		if ((own == OWN_AUTOCAST && r->o->precision && !r->given.precision) ||
		    (!strcmp(d->option, "loss") && ((r->o->loss && !r->given.loss) ||
						    r->own[OWN_LIGER] || r->own[OWN_LIGER_LOSS])))
			continue;
		if (r->unwritten && is_given(r, d))
			continue;
		st = give_from(r, d->key, r->unwritten ? "its default" : "not given: the default",
			       d->option, d->value);
		if (!st && r->rows.n)
			r->rows.at[r->rows.n - 1].is_default = true;
	}
	return st;
}

/* Axolotl's bf16 is "auto" where nothing is said. */
static bool is_quiet(const struct from_tool *tool, const struct nested *n)
{
	if (!strcmp(tool->name, "DeepSpeed") || !strcmp(tool->name, "accelerate"))
		return true;
	for (size_t i = 0; !strcmp(tool->name, "Axolotl") && i < n->values.n; i++)
		if (!strcmp(n->values.at[i].path, "bf16"))
			return nested_is_off(&n->values.at[i]);
	return false;
}

/* All that a configuration of r->tool says, and its defaults for what it does not say. */
static enum plim_status take_values(struct reading *r, const struct nested *values)
{
	enum plim_status st = PLIM_OK;

	if (is_quiet(r->tool, values)) {
		r->quiet = r->tool;
		r->quiet_file = r->file;
		r->quiet_number = r->number;
	}
	if (r->tool->loads || r->tool->rank || r->tool->parallel) {
		r->runs = r->tool;
		r->runs_file = r->file;
		r->runs_number = r->number;
	}
	for (size_t i = 0; !st && i < values->values.n; i++)
		st = take_alpha(r, &values->values.at[i]);
	for (size_t i = 0; !st && i < values->values.n; i++)
		st = take_value(r, &values->values.at[i]);
	if (!st)
		st = take_defaults(r);
	if (!st && r->tool->assumed)
		r->p->hidden->foreign = true;
	if (!st && r->tool->assumed)
		st = vec_push(&r->p->hidden->mem, &r->p->hidden->from_notes, r->tool->assumed,
			      r->err);
	return st;
}

static enum plim_status read_from_source(struct reading *r, struct source *s)
{
	struct nested values = { .arena = r->arena };
	const struct nested *before = r->values;
	enum plim_status st = nested_read(&values, s, r->file, r->err);

	r->values = &values;
	if (!st) {
		r->tool = tool_of(&values);
		if (!r->tool)
			st = err_set(r->err, PLIM_E_FORMAT,
				     "'%.200s' is not a configuration of a run that is known here: "
				     "known are those of TrainingArguments, TRL, Axolotl, "
				     "LLaMA-Factory, accelerate, DeepSpeed, torchtune and PEFT",
				     r->file);
	}
	if (!st)
		st = take_values(r, &values);
	r->values = before;
	nested_release(&values);
	return st;
}

static enum plim_status read_file(struct reading *r, const char *path, enum source_kinds kinds)
{
	const struct source_options options = { .max_decoded_bytes = NESTED_BYTES, .kinds = kinds };
	struct source *s = NULL;
	enum plim_status st = source_open(r->arena->mem, path, &options, &s, r->err);

	if (stat(path, &r->open[r->within]))
		memset(&r->open[r->within], 0, sizeof(r->open[0]));
	r->within++;
	r->number = ++r->files;
	r->file = arena_copy(r->arena, path, r->err);
	if (!st)
		st = r->file ? read_from_source(r, s) : mem_status(r->err);
	source_close(s);
	r->within--;
	return st;
}

/* ---- several keys that make one option ---- */

/* Sets plan's option, unless the caller has, and shows it next to the keys of `owns`. */
static enum plim_status settle_from(struct reading *r, const char *option, const char *value,
				    const enum own *owns, size_t n)
{
	enum plan_given given = plan_give_option(r->o, option, value);
	const char *text =
		given == PLAN_TAKEN_BEFORE
			? arena_text(r->arena, r->err, "--%s was given, and stays", option)
			: words(r, option, value);

	if (!text)
		return mem_status(r->err);
	if (given == PLAN_NOT_TAKEN)
		return PLIM_OK; /* it stays not understood */
	for (size_t i = 0; i < n; i++)
		r->settled[owns[i]] = text;
	return PLIM_OK;
}
#define SETTLE(r, option, value, ...)                                    \
	settle_from(r, option, value, (const enum own[]){ __VA_ARGS__ }, \
		    sizeof((const enum own[]){ __VA_ARGS__ }) / sizeof(enum own))

static bool is_set(const struct reading *r, enum own own, const char *value)
{
	return r->own[own] && !strcmp(r->own[own], value);
}

/* "0", "0.0": nothing is dropped. */
static bool is_zero(const char *number)
{
	return !number[strspn(number, "0.")];
}

/* torchtune's names of modules, as Transformers has them. */
static enum plim_status settle_targets(struct reading *r)
{
	static const char output[] = "output_proj";
	const char *targets = r->own[OWN_ATTN_TARGETS], *at = strstr(targets, output);

	if (at)
		targets = arena_text(r->arena, r->err, "%.*so_proj%s", (int)(at - targets), targets,
				     at + sizeof(output) - 1);
	if (targets && r->own[OWN_MLP_TARGETS])
		targets = arena_text(r->arena, r->err, "%s,gate_proj,up_proj,down_proj", targets);
	return targets ? SETTLE(r, "lora-targets", targets, OWN_ATTN_TARGETS, OWN_MLP_TARGETS)
		       : mem_status(r->err);
}

/* Are all of them linear layers of the blocks, by their names? */
static bool are_projections(const char *targets)
{
	static const char end[] = "_proj";

	while (*targets) {
		size_t n = strcspn(targets, ",");

		if (n < sizeof(end) ||
		    strncmp(targets + n - (sizeof(end) - 1), end, sizeof(end) - 1) != 0)
			return false;
		targets += n + (targets[n] == ',');
	}
	return true;
}

/* Every linear layer, next to those that a list names: they are the same, unless it names others. */
static enum plim_status settle_linear(struct reading *r)
{
	const char *listed = r->o->lora_targets;

	if (listed && !r->given.lora_targets && strcmp(listed, "all-linear") != 0) {
		if (!are_projections(listed))
			return PLIM_OK; /* it stays not understood */
		r->o->lora_targets = NULL;
	}
	return SETTLE(r, "lora-targets", "all-linear", OWN_ALL_LINEAR);
}

static bool makes(const struct from_row *row, enum own own)
{
	bool does = row->option && own_of(row->option) == own;

	for (const struct from_word *w = row->words; !does && w && w->word; w++)
		does = w->option && own_of(w->option) == own;
	return does;
}

/* The key of a tool's files that says that adapters are trained; NULL: it has none. */
static const char *adapter_key(const char *tool)
{
	const struct from_tool *t = from_tools;

	while (strcmp(t->name, tool) != 0)
		t++;
	for (unsigned k = 0; k < 2 && t->rows[k]; k++)
		for (const struct from_row *row = t->rows[k]; row->key; row++)
			if (makes(row, OWN_ADAPTER))
				return row->key;
	return NULL;
}

/* Ranks and targets without the key that switches adapters on; PEFT's own file needs none. */
static enum plim_status settle_none(struct reading *r)
{
	const char *key = NULL, *text = "nothing: no adapters are trained";

	for (size_t i = 0; i < r->rows.n; i++) {
		struct plim_plan_setting *s = &r->rows.at[i].told;
		bool targets = s->option && !strncmp(s->option, "--lora-targets", 14);

		if (!targets && r->rows.at[i].own != OWN_RANK && r->rows.at[i].own != OWN_DROPOUT &&
		    r->rows.at[i].own != OWN_ALL_LINEAR)
			continue;
		key = adapter_key(s->tool);
		if (key)
			text = arena_text(r->arena, r->err, "nothing without %s (or --lora RANK)",
					  key);
		if (!text)
			return mem_status(r->err);
		if (targets)
			s->option = text;
	}
	r->o->lora_targets = r->given.lora_targets;
	r->settled[OWN_RANK] = r->settled[OWN_DROPOUT] = r->settled[OWN_ALL_LINEAR] = text;
	return PLIM_OK;
}

/* What a tool does where its file says nothing of it. */
static enum plim_status tell_habit(struct reading *r, const struct from_tool *tool,
				   const char *file, unsigned number, const char *what,
				   const char *value, const char *option)
{
	r->file = file;
	r->tool = tool;
	r->number = number;
	return tell_from(r, what, value, option, NOT_OWN);
}

/* Made under set_default_dtype(), as all of the model is (torchtune's recipes). */
static enum plim_status settle_dtype(struct reading *r)
{
	r->o->flags |= PLIM_PLAN_NARROW_ADAPTERS;
	return tell_habit(r, r->runs, r->runs_file, r->runs_number, "adapters",
			  "in the dtype of the weights", "--narrow-adapters");
}

static enum plim_status settle_adapters(struct reading *r)
{
	struct plim_plan_options *o = r->o;
	enum plim_status st = PLIM_OK;

	if (r->own[OWN_ADAPTER] && !o->lora_rank)
		st = SETTLE(r, "lora",
			    r->own[OWN_RANK]           ? r->own[OWN_RANK]
			    : r->runs && r->runs->rank ? r->runs->rank
						       : "8",
			    OWN_ADAPTER, OWN_RANK);
	if (!st && is_set(r, OWN_ADAPTER, "qlora") && !o->quantize)
		st = SETTLE(r, "quantize", "nf4-double", OWN_ADAPTER); /* Axolotl's */
	if (!st && !o->lora_rank)
		return settle_none(r);
	if (!st && r->own[OWN_ALL_LINEAR])
		st = settle_linear(r);
	if (!st && r->own[OWN_DROPOUT] && is_zero(r->own[OWN_DROPOUT]))
		r->settled[OWN_DROPOUT] = "none";
	else if (!st && r->own[OWN_DROPOUT])
		st = SETTLE(r, "lora-dropout", r->own[OWN_DROPOUT], OWN_DROPOUT);
	if (!st && r->runs && r->runs->narrow_adapters)
		st = settle_dtype(r);
	return !st && r->own[OWN_ATTN_TARGETS] ? settle_targets(r) : st;
}

/* A tool that was asked for no mixed precision, or that has none where nothing is said. */
static enum plim_status settle_fp32(struct reading *r)
{
	bool left = r->p->hidden->zero.said & PLAN_ZERO_LEFT_PRECISION;

	r->o->precision = "fp32";
	return tell_habit(r, r->quiet, r->quiet_file, r->quiet_number, "mixed precision",
			  left ? "auto, and no file says it (--bf16)" : "none is on",
			  is_redacted(r) ? "--precision" : "--precision fp32");
}

/*
 * Axolotl casts what prepare_model_for_kbit_training() made fp32 (norms, embeddings, the head) back where adapters are trained;
 * with FSDP over quantized weights it does not call it, so that all that is shared out has one dtype (axolotl/loaders/model.py).
 */
static bool narrows_rest(const struct reading *r)
{
	return r->runs && r->runs->loads == FROM_LOADS_NARROW && r->o->lora_rank;
}

/* Of weights under autocast that a key says nothing of; r->own has what it said. */
static bool loads_narrow(const struct reading *r)
{
	enum from_loads loads = r->runs ? r->runs->loads : FROM_LOADS_WIDE;

	/* accelerate makes weights of 16 bits fp32 again for FSDP 1, except for codes and what lies next to them */
	if (r->o->parallel && !strncmp(r->o->parallel, "fsdp1", 5) &&
	    !(r->o->quantize && narrows_rest(r)))
		return false;
	return !r->own[OWN_WEIGHTS] &&
	       (loads == FROM_LOADS_NARROW || (loads == FROM_LOADS_FROZEN && r->o->lora_rank));
}

static enum plim_status settle_weights(struct reading *r)
{
	r->o->precision = "bf16-weights";
	return tell_habit(r, r->runs, r->runs_file, r->runs_number, "weights",
			  "loaded in bf16 under autocast",
			  is_redacted(r) ? "--precision" : "--precision bf16-weights");
}

static bool is_offloaded(const struct reading *r)
{
	return r->o->optimizer_on || r->o->parameters_on;
}

/* No key says a precision or a dtype of weights: the tool's habit decides, unless an option does. */
static enum plim_status settle_unsaid(struct reading *r)
{
	if (r->o->precision)
		return PLIM_OK;
	if (r->quiet)
		return settle_fp32(r);
	if (!r->o->quantize && loads_narrow(r) && r->runs->loads == FROM_LOADS_NARROW)
		return settle_weights(r);
	return PLIM_OK;
}

/* DeepSpeed's own bf16 makes weights of 16 bits, with fp32 copies where its optimizer is; torch_autocast does not. */
static const char *autocast_said(const struct reading *r)
{
	const char *autocast = r->own[OWN_AUTOCAST];

	if (r->own[OWN_TORCH_AUTOCAST] && (!autocast || !strcmp(autocast, "no")))
		return r->own[OWN_TORCH_AUTOCAST];
	if (r->own[OWN_ZERO] && is_offloaded(r) && is_set(r, OWN_AUTOCAST, "bf16"))
		return "bf16-pure";
	return autocast;
}

/* All weights are trained in 16 bits, with a GradScaler. */
static bool scales_narrow_gradients(const struct reading *r, const char *autocast, bool narrow)
{
	return narrow && autocast && !strcmp(autocast, "fp16") && !r->o->quantize &&
	       !r->o->lora_rank;
}

/* --precision's word for an autocast over weights that are loaded in 16 bits, or in fp32. */
static const char *precision_word(const struct reading *r, const char *autocast, bool narrow)
{
	if (!autocast || !strcmp(autocast, "no"))
		return narrow ? "bf16-pure" : "fp32";
	if (narrow && !strcmp(autocast, "bf16") && (!r->o->quantize || narrows_rest(r)))
		return "bf16-weights";
	if (narrow && !strcmp(autocast, "fp16") && !r->o->quantize)
		return "fp16-weights";
	return r->p->hidden->loads_stored ? autocast : plan_value("precision", autocast, true);
}

static enum plim_status settle_precision(struct reading *r)
{
	const char *weights = r->own[OWN_WEIGHTS], *autocast = autocast_said(r);
	bool narrow = (weights && strcmp(weights, "fp32") != 0) || loads_narrow(r);
	enum plim_status st = PLIM_OK;

	if (!autocast && !weights)
		return settle_unsaid(r);
	if (r->o->precision && !r->given.precision)
		return PLIM_OK;
	/* autocast says nothing of weights; DeepSpeed casts them itself */
	r->p->hidden->loads_stored = !r->given.precision && r->runs &&
				     r->runs->loads == FROM_LOADS_STORED && !weights &&
				     !r->own[OWN_ZERO];
	if (scales_narrow_gradients(r, autocast, narrow))
		st = vec_push(
			&r->p->hidden->mem, &r->p->hidden->from_notes,
			"weights are planned in fp32: in 16 bits, as they would be loaded, the "
			"run stops at its first step (a GradScaler does not unscale gradients "
			"of 16 bits)",
			r->err);
	else
		autocast = precision_word(r, autocast, narrow);
	if (st)
		return st;
	return SETTLE(r, "precision", autocast, OWN_AUTOCAST, OWN_WEIGHTS, OWN_TORCH_AUTOCAST);
}

/* As many as are trained at a time, or the Trainer's 8. */
static enum plim_status settle_eval(struct reading *r)
{
	const char *batch = r->own[OWN_EVAL_BATCH];

	if (!batch)
		batch = r->runs && r->runs->evaluates_alike && r->o->batch
				? arena_text(r->arena, r->err, "%llu",
					     (unsigned long long)r->o->batch)
				: "8";
	return batch ? SETTLE(r, "eval-batch", batch, OWN_EVALUATES, OWN_EVAL_BATCH)
		     : mem_status(r->err);
}

/*
 * Samples that share a row fill it, as is planned.  Each sees its own tokens alone: FlashAttention is reported where they begin, others
 * are given a mask, of each row or (in one row of the whole batch, without padding) of all of them.
 */
static enum plim_status settle_rows(struct reading *r)
{
	const char *attention = plan_value("attention", r->o->attention, true);
	bool flash = attention && !strcmp(attention, "flash");
	bool masked =
		!flash && !is_set(r, OWN_PACKED, "unmasked") && !is_set(r, OWN_PACKS, "wrapped");
	bool alone = is_set(r, OWN_PACKED, "rows") || r->o->batch == 1;

	r->settled[OWN_FILLS] = "rows are filled to the sequence";
	if (!r->own[OWN_PACKED] && !is_set(r, OWN_PACKS, "neat")) {
		r->settled[OWN_PACKS] = "nothing: samples are not packed";
		return r->own[OWN_FILLS] && !flash ? SETTLE(r, "padded", "1", OWN_FILLS) : PLIM_OK;
	}
	if (is_set(r, OWN_PACKS, "neat") && !flash)
		return PLIM_OK; /* masks of floats are not planned: it stays not understood */
	if (!masked || flash)
		r->settled[OWN_PACKED] = r->settled[OWN_PACKS] =
			"rows are filled to the sequence, without a mask";
	else if (alone)
		return SETTLE(r, "padded", "1", OWN_PACKED, OWN_PACKS);
	return PLIM_OK;
}

/* All of Liger's kernels but those that are switched off; or, where no key has all, those that are switched on. */
static enum plim_status settle_liger(struct reading *r)
{
	static const struct {
		enum own own;
		const char *name;
	} kernels[] = { { OWN_LIGER_LOSS, "loss" },
			{ OWN_LIGER_NORM, "norm" },
			{ OWN_LIGER_ROPE, "rope" },
			{ OWN_LIGER_GATE, "swiglu" } };
	const char *all = r->own[OWN_LIGER], *names = "";
	bool each = true;

	for (size_t i = 0; names && i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		const char *own = r->own[kernels[i].own];

		if (own ? *own != '1' : !all) {
			each = false;
			r->settled[kernels[i].own] = "nothing: no such kernel of Liger's";
		} else {
			names = arena_text(r->arena, r->err, "%s%s%s", names, *names ? "," : "",
					   kernels[i].name);
		}
	}
	if (!names)
		return mem_status(r->err);
	if (!*names) {
		r->settled[OWN_LIGER] = "nothing: all of Liger's kernels are off";
		return PLIM_OK;
	}
	return SETTLE(r, "liger", each ? "all" : names, OWN_LIGER, OWN_LIGER_LOSS, OWN_LIGER_NORM,
		      OWN_LIGER_ROPE, OWN_LIGER_GATE);
}

static enum plim_status settle_step(struct reading *r)
{
	enum plim_status st = settle_liger(r);
	const char *every;

	if (st)
		return st;
	if (r->own[OWN_EVERY] && r->o->checkpointing && !strcmp(r->o->checkpointing, "full")) {
		every = arena_text(r->arena, r->err, "every:%s", r->own[OWN_EVERY]);
		if (!every)
			return mem_status(r->err);
		r->o->checkpointing = every;
		r->settled[OWN_EVERY] = words(r, "checkpointing", every);
	}
	if (r->own[OWN_CKPT_OFFLOAD]) {
		st = SETTLE(r, "checkpointing", "full", OWN_CKPT_OFFLOAD);
		if (!st)
			st = SETTLE(r, "offload-activations", "checkpoints", OWN_CKPT_OFFLOAD);
	}
	if (!st && r->own[OWN_DOUBLE] && r->o->quantize && !strcmp(r->o->quantize, "nf4") &&
	    !r->given.quantize) {
		r->o->quantize = "nf4-double";
		r->settled[OWN_DOUBLE] = words(r, "quantize", "nf4-double");
	}
	if (!r->o->quantize || strncmp(r->o->quantize, "nf4", 3) != 0)
		r->settled[OWN_DOUBLE] = "nothing: no weights of 4 bits";
	if (!st && r->own[OWN_FUSED] && r->o->optimizer && !strcmp(r->o->optimizer, "adamw")) {
		r->o->optimizer = "adamw-fused";
		r->settled[OWN_FUSED] = words(r, "optimizer", "adamw-fused");
	}
	if (!st && r->own[OWN_EVALUATES])
		st = settle_eval(r);
	else
		r->settled[OWN_EVAL_BATCH] = "nothing: no evaluation";
	return st;
}

/* DeepSpeed's sizes, elements: its own where nothing is said, by the width of the model where that is left to the Trainer. */
static void settle_zero(struct reading *r, enum own own, uint64_t *to)
{
	const char *text = r->own[own];

	if (!text || (own >= OWN_ZERO_REUSE && !strcmp(text, "auto")))
		return; /* nothing sets those */
	*to = !strcmp(text, "auto") ? PLAN_ZERO_AUTO : strtoull(text, NULL, 10);
	if (strcmp(text, "auto") != 0 &&
	    (text[strspn(text, "0123456789")] || !*to || *to > MODEL_SIZE))
		*to = 0;
	else
		r->settled[own] =
			*to == PLAN_ZERO_AUTO ? "by the width of the model" : "so many elements";
}

#define ZERO_BUCKET 500000000u /* reduce_bucket_size where nothing is said */

static enum plim_status settle_deepspeed(struct reading *r)
{
	struct plan_zero *z = &r->p->hidden->zero;
	const struct {
		enum own own;
		uint64_t *to;
	} sizes[] = {
		{ OWN_ZERO_BUCKET, &z->bucket },
		{ OWN_ZERO_PREFETCH, &z->prefetch },
		{ OWN_ZERO_PERSISTENT, &z->persistent },
		{ OWN_ZERO_REUSE, &z->reuse },
		{ OWN_ZERO_LIVE, &z->live },
		{ OWN_ZERO_SUB_GROUP, &z->sub_group },
	};
	bool offloads = is_offloaded(r);
	enum plim_status st = PLIM_OK;

	z->overlap = is_set(r, OWN_ZERO, "2") && r->own[OWN_OVERLAP];
	r->settled[OWN_OVERLAP] = z->overlap ? "two buckets" : "as it is planned";
	if (is_set(r, OWN_ZERO, "0"))
		r->settled[OWN_ZERO] = "ddp";
	else if (is_set(r, OWN_ZERO, "3"))
		st = SETTLE(r, "parallel", "zero3", OWN_ZERO);
	else if (r->own[OWN_ZERO])
		st = SETTLE(r, "parallel", "zero2", OWN_ZERO);
	if (!st && r->own[OWN_WHOLE] && is_set(r, OWN_ZERO, "3"))
		st = SETTLE(r, "load", "whole", OWN_WHOLE);
	else
		r->settled[OWN_WHOLE] = "nothing: weights are not sharded";
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		settle_zero(r, sizes[i].own, sizes[i].to);
	if (offloads && !z->bucket)
		z->bucket = ZERO_BUCKET;
	return st;
}

/* Whether units are layers.  Without a policy all is one unit, which is not planned: such keys stay not understood. */
static bool take_wraps(struct reading *r)
{
	if (r->own[OWN_IF_WRAPPED] && !r->own[OWN_FSDP])
		r->own[OWN_FSDP] = r->own[OWN_IF_WRAPPED];
	if (r->own[OWN_SHARDS] && !r->own[OWN_RESHARD])
		r->own[OWN_RESHARD] = r->own[OWN_SHARDS];
	return r->own[OWN_WRAP] != NULL;
}

static enum plim_status settle_parallel(struct reading *r)
{
	bool wrapped = take_wraps(r);
	bool again = !is_set(r, OWN_RESHARD, "false");
	bool second = is_set(r, OWN_FSDP_VERSION, "2");
	const char *way =
		second ? (again ? "fsdp2" : "fsdp2-zero2") : (again ? "fsdp1" : "fsdp1-zero2");
	enum plim_status st = PLIM_OK;

	if (r->own[OWN_WAY] && !r->own[OWN_FSDP])
		r->settled[OWN_WAY] = "ddp, as several GPUs are without more";
	if (r->own[OWN_ZERO])
		return settle_deepspeed(r);
	if (r->own[OWN_WAY] && !r->own[OWN_RESHARD])
		return PLIM_OK;
	/* shares in host memory are FSDP's with one GPU as well */
	if (r->runs && r->runs->parallel && !r->o->parallel &&
	    (r->o->gpus > 1 || r->o->parameters_on)) {
		way = r->own[OWN_RESHARD] && !again ? "fsdp2-zero2" : r->runs->parallel;
		st = SETTLE(r, "parallel", way, OWN_RESHARD);
		if (!st)
			st = tell_habit(r, r->runs, r->runs_file, r->runs_number, "several GPUs",
					"shared out",
					is_redacted(r) ? "--parallel" : "--parallel fsdp2");
	} else if (r->own[OWN_FSDP] || r->own[OWN_FSDP_VERSION] || r->own[OWN_RESHARD])
		st = SETTLE(r, "parallel", way, OWN_FSDP, OWN_FSDP_VERSION, OWN_RESHARD);
	if (wrapped)
		r->settled[OWN_IF_WRAPPED] = r->settled[OWN_SHARDS] = r->settled[OWN_WRAP] =
			r->settled[OWN_FSDP] ? r->settled[OWN_FSDP] : "nothing: no FSDP";
	return st;
}

/* "auto" where no file says how many samples there are. */
static enum plim_status settle_batch(struct reading *r)
{
	if (!r->left || r->o->batch)
		return PLIM_OK;
	return tell_habit(r, r->left, r->left_file, r->left_number,
			  "train_micro_batch_size_per_gpu", "auto, and no file says it",
			  is_redacted(r) ? "--batch" : "--batch 1");
}

/* Two files of which one has a key on and the other off. */
static enum plim_status settle_denials(struct reading *r)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < r->denials.n; i++) {
		const struct denial *no = &r->denials.at[i];
		bool denied = false;

		for (size_t k = 0; k < r->switched.n; k++)
			denied |= r->switched.at[k].number != no->number &&
				  (r->switched.at[k].row == no->row ||
				   (own_of(no->row->option) == OWN_AUTOCAST &&
				    own_of(r->switched.at[k].row->option) == OWN_AUTOCAST &&
				    !strcmp(r->switched.at[k].row->value, no->row->value)));
		if (!denied)
			continue;
		r->file = no->file;
		r->tool = no->tool;
		r->number = no->number;
		st = tell_unknown(r, no->row->key, no->text);
	}
	return st;
}

/* Offloading is of what is sharded: where nothing is, the keys of FSDP and DeepSpeed say nothing. */
static enum plim_status settle_all(struct reading *r)
{
	static enum plim_status (*const steps[])(struct reading *) = {
		settle_denials, settle_adapters, settle_parallel, settle_precision,
		settle_rows,    settle_step,     settle_batch
	};
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < sizeof(steps) / sizeof(steps[0]); i++)
		st = steps[i](r);
	for (size_t i = 0; i < r->rows.n; i++) {
		struct row_read *row = &r->rows.at[i];

		if (row->own == NOT_OWN)
			continue;
		row->told.option = r->settled[row->own];
		r->unknown += !row->told.option;
	}
	return st;
}

/* ---- the result ---- */

#define UNKNOWN_SHOWN 8

static enum plim_status doubt(struct reading *r)
{
	struct plim_plan_hidden *h = r->p->hidden;
	const char *sentence = "", *last = NULL;
	size_t shown = 0;

	if (!r->unknown)
		return PLIM_OK;
	h->partly_read = true;
	for (size_t i = 0; sentence && i < r->rows.n; i++) {
		const struct plim_plan_setting *s = &r->rows.at[i].told;

		if (s->option || !s->key || shown++ >= UNKNOWN_SHOWN)
			continue;
		sentence = s->tool == last
				   ? arena_text(r->arena, r->err, "%s, %s", sentence, s->key)
				   : arena_text(r->arena, r->err, "%s%s%s (%s)", sentence,
						*sentence ? ", " : "", s->key, s->tool);
		last = s->tool;
	}
	if (sentence && shown > UNKNOWN_SHOWN)
		sentence = arena_text(r->arena, r->err, "%s and %zu more", sentence,
				      shown - UNKNOWN_SHOWN);
	if (sentence)
		sentence = arena_text(
			r->arena, r->err,
			is_redacted(r)
				? "the run's configuration has keys that are not planned here and "
				  "may change memory%s"
				: "the run's configuration has keys that are not planned here and "
				  "may change memory: %s",
			is_redacted(r) ? "" : sentence);
	return sentence ? vec_push(&h->mem, &h->doubts, sentence, r->err) : mem_status(r->err);
}

static int by_file(const void *a, const void *b)
{
	const struct row_read *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

/* A default that comes to nothing was not set by anyone. */
static void drop_idle(struct reading *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->rows.n; i++) {
		const struct row_read *row = &r->rows.at[i];

		if (row->is_default && row->told.option && !strncmp(row->told.option, "nothing", 7))
			continue;
		r->rows.at[n++] = *row;
	}
	r->rows.n = n;
}

static enum plim_status keep_from(struct reading *r)
{
	struct plim_plan *p = r->p;

	drop_idle(r);
	p->settings_read = arena_take(r->arena, r->rows.n, sizeof(*p->settings_read), r->err);
	if (!p->settings_read)
		return mem_status(r->err);
	/* a file at a time, though some name others in between */
	for (size_t i = 0; i < r->rows.n; i++)
		r->rows.at[i].place = i;
	sort_items(r->rows.at, r->rows.n, sizeof(*r->rows.at), by_file);
	for (size_t i = 0; i < r->rows.n; i++)
		p->settings_read[p->settings_read_count++] = r->rows.at[i].told;
	return doubt(r);
}

/* The adapters' configuration that lies next to a model's; NULL: none does. */
static const char *adapters_beside(struct arena *a, const char *model, struct plim_err *err)
{
	const char *slash = model ? strrchr(model, '/') : NULL;
	struct stat info;
	const char *path;

	if (!model || stat(model, &info))
		return NULL;
	if (S_ISDIR(info.st_mode))
		path = arena_text(a, err, "%s/%s", model, ADAPTERS);
	else
		path = arena_text(a, err, "%.*s%s", slash ? (int)(slash - model + 1) : 0, model,
				  ADAPTERS);
	return path && !stat(path, &info) && S_ISREG(info.st_mode) ? path : NULL;
}

static bool trains(const struct plim_plan_options *o)
{
	const char *task = plan_value("task", o->task, true);

	return !task || !strcmp(task, "train");
}

/* --for: the run is that tool's, as though a configuration of its own said nothing. */
static enum plim_status read_tool(struct reading *r, const char *name)
{
	struct nested nothing = { .arena = r->arena };
	enum plim_status st;

	for (size_t i = 0; i < from_tool_count; i++)
		if (!strcmp(from_tools[i].name, name))
			r->tool = &from_tools[i];
	r->file = arena_text(r->arena, r->err, "--for %s", r->o->paste);
	r->number = ++r->files;
	r->values = &nothing;
	r->unwritten = true;
	st = r->file ? take_values(r, &nothing) : mem_status(r->err);
	r->values = NULL;
	return st;
}

/* What no one named: told as not understood where it cannot be read. */
static enum plim_status read_adapters(struct reading *r, const char *path)
{
	enum plim_status st = read_file(r, path, SOURCE_REGULAR);

	if (!st || st == PLIM_E_NOMEM)
		return st;
	*r->err = (struct plim_err){ 0 };
	r->tool = &from_tools[1]; /* PEFT */
	return tell_unknown(r, ADAPTERS, "not readable");
}

/* A traced run has a recipe of its own. */
static bool starts_from_tool(const struct reading *r, const char *model)
{
	return r->o->paste && plan_keys_tool(r->o->paste) && trains(r->o) &&
	       !(model && plan_is_trace(r->arena->mem, model));
}

/* Files of the caller's, or one that is in memory. */
static enum plim_status read_all_from(struct reading *r, const char *model,
				      const struct plan_bytes *one)
{
	const char *adapters = NULL;
	struct source *s = NULL;
	enum plim_status st = PLIM_OK;

	if (one) {
		r->file = one->name;
		st = source_open_memory(r->arena->mem, one->name, one->at, one->n,
					SOURCE_MEMORY_PLAIN, NULL, &s, r->err);
		if (!st)
			st = read_from_source(r, s);
		source_close(s);
		return st;
	}
	for (size_t i = 0; !st && i < r->o->from_count; i++)
		st = read_file(r, r->o->from_files[i], SOURCE_ANY);
	if (!st && !r->runs && starts_from_tool(r, model))
		st = read_tool(r, plan_keys_tool(r->o->paste));
	if (!st && r->o->from_count && trains(r->o) && !r->o->lora_rank && !r->own[OWN_ADAPTER])
		adapters =
			adapters_beside(r->arena, model ? model : r->p->hidden->from_model, r->err);
	return st || !adapters ? st : read_adapters(r, adapters);
}

enum plim_status plan_read_from(struct plim_plan *p, const char *model,
				const struct plan_bytes *one, struct plim_plan_options *o,
				struct plim_err *err)
{
	struct reading r = { .p = p, .o = o, .arena = &p->hidden->arena, .err = err };
	enum plim_status st;

	if (!o->from_count && !one && !starts_from_tool(&r, model)) /* no file has a say */
		plan_settle_counts(o);
	if ((o->from_count || one || starts_from_tool(&r, model)) &&
	    plan_says_autocast_alone(o->precision, trains(o))) {
		bool halves = !strcmp(plan_value("precision", o->precision, true), "fp16-autocast");

		r.own[OWN_AUTOCAST] = halves ? "fp16" : "bf16";
		r.autocast_given = true;
		o->precision = NULL;
	}
	r.given = *o;
	st = read_all_from(&r, model, one);
	if (!st)
		st = settle_all(&r);
	if (!o->lora_rank && !(r.given.flags & PLIM_PLAN_DORA))
		o->flags &=
			~(unsigned)PLIM_PLAN_DORA; /* of adapters that the file does not train */
	if (!st)
		st = keep_from(&r);
	p->hidden->lora_alpha = r.alpha_unclear ? NULL : r.alpha;
	p->hidden->tool = r.runs ? plan_keys_tool(r.runs->name) : NULL;
	vec_release(r.arena->mem, &r.rows);
	vec_release(r.arena->mem, &r.denials);
	vec_release(r.arena->mem, &r.switched);
	plan_settle_counts(o);
	return st;
}

const char *plan_tool_of(struct mem *m, const char *path)
{
	const struct source_options options = { .max_decoded_bytes = NESTED_BYTES,
						.kinds = SOURCE_REGULAR };
	const struct from_tool *tool = NULL;
	struct plim_err err = { 0 };
	struct source *s = NULL;
	struct arena arena;
	struct nested values = { .arena = &arena };

	arena_init(&arena, m);
	if (!source_open(m, path, &options, &s, &err) && !nested_read(&values, s, path, &err))
		tool = tool_of(&values);
	nested_release(&values);
	source_close(s);
	arena_release(&arena);
	return tool ? tool->name : NULL;
}
