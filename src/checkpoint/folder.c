/*
 * Folders: shards with their index, and what Hugging Face, PEFT and Lightning put beside weights.  Names
 * in an index are looked for in the folder itself, never as paths.
 */
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES 100000

struct folder {
	struct ckpt *ckpt;
	int dir;
	struct folder_names names;
};

/* ---- its entries ---- */

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

enum plim_status folder_list(struct ckpt *c, int dir, struct folder_names *names,
			     struct plim_err *err)
{
	int fd = dup(dir);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	enum plim_status st = PLIM_OK;

	if (!d && fd >= 0)
		close(fd);
	if (!d)
		return err_errno(err, errno, "cannot list '%s'", c->path);
	rewinddir(d);
	while (!st && (e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): a stream of our own
		uint32_t id = model_string(c, e->d_name, strlen(e->d_name), &st, err);

		if (!st && names->n == ENTRIES)
			st = err_set(err, PLIM_E_LIMIT, "'%s' holds more than %d entries", c->path,
				     ENTRIES);
		if (!st)
			st = vec_push(c->mem, names, ckpt_text(c, id), err);
	}
	closedir(d);
	sort_items(names->at, names->n, sizeof(*names->at), by_text);
	return st;
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), k = strlen(with);

	return n > k && !strcmp(name + n - k, with);
}

/* The first entry that ends so, NULL without. */
static const char *with_end(const struct folder *f, const char *with)
{
	for (size_t i = 0; i < f->names.n; i++)
		if (ends(f->names.at[i], with))
			return f->names.at[i];
	return NULL;
}

static bool has(const struct folder *f, const char *name)
{
	for (size_t i = 0; i < f->names.n; i++)
		if (!strcmp(f->names.at[i], name))
			return true;
	return false;
}

/* ---- JSON files ---- */

static const char *const config_keys[] = {
	"model_type",
	"architectures",
	"hidden_size",
	"num_hidden_layers",
	"num_attention_heads",
	"num_key_value_heads",
	"head_dim",
	"intermediate_size",
	"vocab_size",
	"n_embd",
	"n_layer",
	"n_head",
	"n_positions",
	"max_position_embeddings",
	"tie_word_embeddings",
	"torch_dtype",
	"dtype",
	"peft_type",
	"r",
	"lora_alpha",
	"target_modules",
	"base_model_name_or_path",
	NULL,
};
static const char *const trainer_keys[] = {
	"epoch",       "global_step",      "max_steps",
	"best_metric", "best_global_step", "best_model_checkpoint",
	NULL,
};

static bool is_wanted(const char *const *wanted, const char *key)
{
	while (*wanted && strcmp(*wanted, key) != 0)
		wanted++;
	return *wanted != NULL;
}

static enum plim_status config_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				   struct plim_err *err)
{
	struct ckpt_fact fact;
	enum plim_status st = text_scalar(c, j, &fact.value, err);

	(void)ctx;
	if (st || fact.value == CKPT_NONE || !is_wanted(config_keys, key))
		return st;
	fact.name = model_printf(c, &st, err, "%s", key);
	return st ? st : model_fact(c, fact, err);
}

static enum plim_status trainer_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				    struct plim_err *err)
{
	struct ckpt_key k = { 0 };
	enum plim_status st = text_scalar(c, j, &k.what, err);

	(void)ctx;
	if (st || k.what == CKPT_NONE || !is_wanted(trainer_keys, key))
		return st;
	k.name = model_printf(c, &st, err, "%s", key);
	return st ? st : vec_push(c->mem, &c->keys, k, err);
}

/* ---- a file of the folder ---- */

/* "model-00001-of-00009.safetensors": its number and how many there are. */
static bool shard_number(const char *name, unsigned *number, unsigned *of)
{
	const char *at = strstr(name, "-of-");
	const char *from = at;
	char *end;

	while (from && from > name && from[-1] >= '0' && from[-1] <= '9')
		from--;
	if (!at || from == at || at - from > 9)
		return false;
	*number = (unsigned)strtoul(from, &end, 10);
	*of = (unsigned)strtoul(at + 4, &end, 10);
	return end != at + 4;
}

static const char *const weight_names[] = { "model.safetensors", "pytorch_model.bin",
					    "adapter_model.safetensors", "adapter_model.bin",
					    "diffusion_pytorch_model.safetensors" };
static const char *const ends_of_files[] = { ".safetensors", ".bin", ".pt", ".pth", ".ckpt" };

bool folder_is_checkpoint_name(const char *name)
{
	for (size_t i = 0; i < sizeof(ends_of_files) / sizeof(ends_of_files[0]); i++)
		if (ends(name, ends_of_files[i]))
			return true;
	return false;
}

/* Weights keep their names, tensors of other files get the file's in front. */
static enum plim_status read_beside(struct folder *f, const char *name, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	char prefix[300] = "";
	struct plim_err why = { 0 };
	struct ckpt_key k = { 0 };
	size_t before = c->tensors.n;
	unsigned number, of;
	uint32_t file;
	bool weights = shard_number(name, &number, &of);
	enum plim_status st = open_file(c, f->dir, name, &file, &why);

	if (st == PLIM_E_IO)
		return model_find(c, CKPT_BAD_FINDING, "unreadable_file", PLIM_UNKNOWN, err, "%s",
				  why.message);
	for (size_t i = 0; i < sizeof(weight_names) / sizeof(weight_names[0]); i++)
		weights |= !strcmp(name, weight_names[i]);
	if (!weights)
		snprintf(prefix, sizeof(prefix), "%s/", name);
	if (!st)
		st = open_any(c, file, prefix, err);
	for (size_t i = before; i < c->tensors.n; i++) {
		k.bytes += ckpt_tensor_bytes(&c->tensors.at[i]);
		if (!strncmp(name, "shard-", 6))
			c->tensors.at[i].flags |= CKPT_CHUNK;
	}
	k.tensors = c->tensors.n - before;
	k.name = model_printf(c, &st, err, "%.300s", name);
	k.what = model_printf(c, &st, err, "file");
	return st ? st : vec_push(c->mem, &c->keys, k, err);
}

/* ---- shards with an index ---- */

struct place {
	uint32_t name, file; /* of a tensor, and of the file that should hold it */
};

struct index {
	VEC(struct place) places;
	VEC(uint32_t) files; /* names, each once */
	uint64_t total_bytes;
	uint64_t missing;
};

static enum plim_status map_row(struct ckpt *c, struct index *x, struct json *j,
				const struct json_token *key, struct plim_err *err)
{
	struct place p;
	struct json_token t;
	enum plim_status st = PLIM_OK;
	bool known = false;

	p.name = model_string(c, key->string, key->n, &st, err);
	if (!st)
		st = json_next(j, &t, err);
	if (!st && t.kind != JSON_STRING)
		return err_at(err, t.offset, "a shard's name is no text");
	p.file = st ? CKPT_NONE : model_string(c, t.string, t.n, &st, err);
	for (size_t i = x->files.n; !st && !known && i--;)
		known = x->files.at[i] == p.file;
	if (!st && !known)
		st = x->files.n < ENTRIES ? vec_push(c->mem, &x->files, p.file, err)
					  : err_set(err, PLIM_E_LIMIT, "too many shards");
	return st ? st : vec_push(c->mem, &x->places, p, err);
}

static enum plim_status index_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				  struct plim_err *err)
{
	struct index *x = ctx;
	bool map = !strcmp(key, "weight_map"), meta = !strcmp(key, "metadata"), total;
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (st || t.kind != JSON_OBJECT || (!map && !meta))
		return st ? st : json_skip(j, &t, err);
	while (!st) {
		st = json_next(j, &t, err);
		if (st || t.kind == JSON_OBJECT_END)
			break;
		total = meta && json_is(&t, "total_size");
		if (map) {
			st = map_row(c, x, j, &t, err);
		} else if (total) {
			st = json_next(j, &t, err);
			if (!st && !json_get_u64(&t, &x->total_bytes))
				x->total_bytes = PLIM_UNKNOWN;
			if (!st && (t.kind == JSON_OBJECT || t.kind == JSON_ARRAY))
				st = json_skip(j, &t, err);
		} else {
			st = json_skip(j, &t, err);
		}
	}
	return st;
}

static enum plim_status open_shards(struct folder *f, struct index *x, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < x->files.n; i++) {
		const char *name = ckpt_text(c, x->files.at[i]);
		struct plim_err why = { 0 };
		uint32_t file;

		if (!*name || strchr(name, '/') || !strcmp(name, "..") || !strcmp(name, ".")) {
			st = model_find(
				c, CKPT_BAD_FINDING, "unsafe_name", PLIM_UNKNOWN, err,
				"the index names '%.200s', which is no plain file name: not opened",
				name);
			continue;
		}
		st = open_file(c, f->dir, name, &file, &why);
		if (st == PLIM_E_IO) {
			x->missing++;
			st = model_find(c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
					"%s", why.message);
		} else if (!st) {
			st = open_any(c, file, "", err);
		}
	}
	return st;
}

/* Is every tensor in the file that the index says, and only there? */
static enum plim_status check_places(struct folder *f, const struct index *x, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	size_t n = c->strings.n;
	uint32_t *found =
		mem_new(c->mem, n, sizeof(*found), err); /* tensor's name -> file's name + 1 */
	enum plim_status st = found ? PLIM_OK : mem_status(err);
	uint64_t bytes = 0;

	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		uint32_t file = t->extent == CKPT_NONE ? 0 : c->extents.at[t->extent].file;
		uint32_t name = intern_find(&c->strings, c->files.at[file].name,
					    strlen(c->files.at[file].name));

		bytes += ckpt_tensor_bytes(t);
		if (t->name < n && found[t->name])
			st = model_find(c, CKPT_BAD_FINDING, "duplicate", PLIM_UNKNOWN, err,
					"tensor '%.200s' is in two shards", ckpt_text(c, t->name));
		if (t->name < n)
			found[t->name] = name + 1;
	}
	for (size_t i = 0; !st && i < x->places.n; i++) {
		const struct place *p = &x->places.at[i];

		if (!found[p->name] && !x->missing && !c->truncated)
			st = model_find(c, CKPT_BAD_FINDING, "missing_tensor", PLIM_UNKNOWN, err,
					"tensor '%.200s' is in no shard", ckpt_text(c, p->name));
		else if (found[p->name] && found[p->name] != p->file + 1)
			st = model_find(c, CKPT_BAD_FINDING, "wrong_shard", PLIM_UNKNOWN, err,
					"tensor '%.200s' is in '%.200s', not where the index says",
					ckpt_text(c, p->name), ckpt_text(c, found[p->name] - 1));
		found[p->name] = 0;
	}
	for (size_t i = 0; !st && i < n; i++)
		if (found[i])
			st = model_find(c, CKPT_WARN, "unmapped_tensor", PLIM_UNKNOWN, err,
					"tensor '%.200s' is in a shard but not in the index",
					ckpt_text(c, (uint32_t)i));
	mem_free(c->mem, found, n, sizeof(*found));
	if (!st && x->total_bytes != PLIM_UNKNOWN && x->total_bytes != bytes && !x->missing &&
	    !c->truncated)
		st = model_find(c, CKPT_WARN, "total_size", PLIM_UNKNOWN, err,
				"the index says %llu bytes of tensors, there are %llu",
				(unsigned long long)x->total_bytes, (unsigned long long)bytes);
	return st;
}

/* Shards that the index does not name: another set's. */
static enum plim_status check_unreferenced(struct folder *f, const struct index *x,
					   struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	enum plim_status st = PLIM_OK;
	unsigned number, of;

	for (size_t i = 0; !st && i < f->names.n; i++) {
		const char *name = f->names.at[i];
		bool named = !ends(name, ".safetensors") && !ends(name, ".bin");

		for (size_t k = 0; !named && k < x->files.n; k++)
			named = !strcmp(ckpt_text(c, x->files.at[k]), name);
		if (!named && shard_number(name, &number, &of))
			st = model_find(c, CKPT_WARN, "stale_file", PLIM_UNKNOWN, err,
					"'%.200s' is a shard that the index does not name: of "
					"another save?",
					name);
	}
	return st;
}

/* An optimizer, a scheduler, random states: cut, they end the resume as surely as a shard does. */
static enum plim_status read_others(struct folder *f, const struct index *x, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	unsigned number, of;

	for (size_t i = 0; !st && i < f->names.n; i++) {
		const char *name = f->names.at[i];
		uint32_t id = intern_find(&f->ckpt->strings, name, strlen(name));
		bool shard = !folder_is_checkpoint_name(name) || shard_number(name, &number, &of);

		for (size_t k = 0; !shard && k < x->files.n; k++)
			shard = x->files.at[k] == id;
		if (!shard)
			st = read_beside(f, name, err);
	}
	return st;
}

static enum plim_status read_sharded(struct folder *f, const char *name, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	struct index x = { .total_bytes = PLIM_UNKNOWN };
	enum plim_status st = text_read(c, f->dir, name, index_key, &x, err);

	c->kind = CKPT_KIND_SHARDED;
	if (!st && !x.places.n)
		st = model_find(c, CKPT_BAD_FINDING, "index", PLIM_UNKNOWN, err,
				"'%.200s' maps no tensor to a file", name);
	if (!st)
		st = open_shards(f, &x, err);
	if (!st && x.places.n)
		st = check_places(f, &x, err);
	if (!st)
		st = check_unreferenced(f, &x, err);
	if (!st)
		st = read_others(f, &x, err);
	vec_release(c->mem, &x.places);
	vec_release(c->mem, &x.files);
	return st;
}

/* ---- files without an index ---- */

/* Numbered shards without an index: all there, and of one set? */
static enum plim_status check_set(struct folder *f, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	unsigned number, of, set = 0, seen = 0;
	bool mixed = false;

	for (size_t i = 0; i < f->names.n; i++) {
		if (!ends(f->names.at[i], ".safetensors") && !ends(f->names.at[i], ".bin"))
			continue;
		/* torch.distributed's own form numbers ranks in front. */
		if (!strncmp(f->names.at[i], "shard-", 6) ||
		    !shard_number(f->names.at[i], &number, &of))
			continue;
		mixed |= set && set != of;
		set = of;
		seen++;
	}
	if (mixed)
		return model_find(c, CKPT_BAD_FINDING, "mixed_shards", PLIM_UNKNOWN, err,
				  "shards of several sets lie in one folder");
	if (seen < set)
		return model_find(c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
				  "%u of %u shards are there, and no index", seen, set);
	if (set > 1)
		return model_find(c, CKPT_WARN, "no_index", PLIM_UNKNOWN, err,
				  "the shards have no index: transformers cannot load them so");
	return PLIM_OK;
}

static enum plim_status read_all(struct folder *f, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	size_t n = 0;
	enum plim_status st = PLIM_OK;

	c->kind = CKPT_KIND_FOLDER;
	for (size_t i = 0; !st && i < f->names.n; i++) {
		if (!folder_is_checkpoint_name(f->names.at[i]))
			continue;
		st = read_beside(f, f->names.at[i], err);
		n++;
	}
	if (!st && !n) {
		c->unreadable = true;
		st = model_find(c, CKPT_BAD_FINDING, "no_checkpoint", PLIM_UNKNOWN, err,
				"the folder holds no checkpoint that is known here");
	}
	return st ? st : check_set(f, err);
}

static enum plim_status read_texts(struct folder *f, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (has(f, "config.json"))
		st = text_read(f->ckpt, f->dir, "config.json", config_key, NULL, err);
	if (!st && has(f, "adapter_config.json"))
		st = text_read(f->ckpt, f->dir, "adapter_config.json", config_key, NULL, err);
	if (!st && has(f, "trainer_state.json"))
		st = text_read(f->ckpt, f->dir, "trainer_state.json", trainer_key, NULL, err);
	return st;
}

enum plim_status folder_read(struct ckpt *c, int dir, struct plim_err *err)
{
	struct folder f = { .ckpt = c, .dir = dir };
	const char *index;
	enum plim_status st = folder_list(c, dir, &f.names, err);

	index = with_end(&f, ".safetensors.index.json");
	if (!index)
		index = with_end(&f, ".bin.index.json");
	if (!st && (has(&f, ".metadata") || with_end(&f, ".distcp")))
		st = distributed_read(c, dir, err);
	else if (!st && index)
		st = read_sharded(&f, index, err);
	else if (!st)
		st = read_all(&f, err);
	if (!st && has(&f, ".metadata.tmp"))
		st = model_find(c, CKPT_WARN, "leftover", PLIM_UNKNOWN, err,
				"'.metadata.tmp' is left: a save died while it finished");
	if (!st)
		st = read_texts(&f, err);
	vec_release(c->mem, &f.names);
	return st;
}
