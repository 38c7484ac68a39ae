/*
 * Folders: shards with their index, and what Hugging Face, PEFT and Lightning put next to weights.  Names
 * in an index are looked for in the folder itself, never as paths.
 */
#include "layout.h"
#include "parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

DIR *ckpt_entries(int fd)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int why = errno;

	if (!d && fd >= 0)
		close(fd);
	errno = why;
	return d;
}

enum plim_status folder_list(struct ckpt *c, int dir, struct folder_names *names,
			     struct plim_err *err)
{
	DIR *d = ckpt_entries(dup(dir));
	const struct dirent *e;
	enum plim_status st = PLIM_OK;

	if (!d)
		return err_errno(err, errno, "cannot list '%s'", c->path);
	rewinddir(d);
	while (!st && (e = readdir(d))) { // NOLINT(concurrency-mt-unsafe): a stream of our own
		uint32_t id = ckpt_model_string(c, e->d_name, strlen(e->d_name), &st, err);

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

/* The first entry that ends so, NULL without. */
static const char *with_end(const struct folder *f, const char *with)
{
	for (size_t i = 0; i < f->names.n; i++)
		if (ckpt_text_ends(f->names.at[i], with))
			return f->names.at[i];
	return NULL;
}

static bool folder_has(const struct folder *f, const char *name)
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
	enum plim_status st = ckpt_text_scalar(c, j, &fact.value, err);

	(void)ctx;
	if (st || fact.value == CKPT_NONE || !is_wanted(config_keys, key))
		return st;
	fact.name = ckpt_model_printf(c, &st, err, "%s", key);
	return st ? st : ckpt_model_fact(c, fact, err);
}

static enum plim_status trainer_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				    struct plim_err *err)
{
	struct ckpt_key k = { 0 };
	enum plim_status st = ckpt_text_scalar(c, j, &k.what, err);

	(void)ctx;
	if (st || k.what == CKPT_NONE || !is_wanted(trainer_keys, key))
		return st;
	k.name = ckpt_model_printf(c, &st, err, "%s", key);
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

/* Files of weights, whose tensors keep their names; `before`: the form that is loaded when both are there. */
static const struct {
	const char *name, *before;
} weight_files[] = {
	{ "model.safetensors", NULL },
	{ "pytorch_model.bin", "model.safetensors" },
	{ "adapter_model.safetensors", NULL },
	{ "adapter_model.bin", "adapter_model.safetensors" },
	{ "diffusion_pytorch_model.safetensors", NULL },
	{ "diffusion_pytorch_model.bin", "diffusion_pytorch_model.safetensors" },
};
/* The last one is an ending of other things too. */
static const char *const ends_of_files[] = { ".safetensors", ".pt",      ".pth",
					     ".ckpt",        ".pth.tar", ".pt.tar",
					     ".ckpt.tar",    ".gguf",    ".bin" };
#define SURE_ENDS 8
#define PICKLE_END ".pkl" /* accelerate's random states; alone, it may be a pickle of anything */

bool folder_is_checkpoint_name(const char *name)
{
	for (size_t i = 0; i < sizeof(ends_of_files) / sizeof(ends_of_files[0]); i++)
		if (ckpt_text_ends(name, ends_of_files[i]))
			return true;
	return false;
}

/* A tokenizer's tables end in .bin as well, and OpenVINO's weights: what is known to be one is listed here. */
static bool may_be_else(const char *name)
{
	static const char *const known[] = { "pytorch_model", "model",         "adapter_model",
					     "optimizer",     "scheduler",     "scaler",
					     "rng_state",     "random_states", "training_args",
					     "shard-" };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(name, known[i], strlen(known[i])))
			return false;
	for (size_t i = 0; i < SURE_ENDS; i++)
		if (ckpt_text_ends(name, ends_of_files[i]))
			return false;
	return true;
}

/* Do its tensors keep their names?  Of two forms of the same weights only one's do. */
static enum plim_status find_prefix(struct folder *f, const char *name, char *prefix, size_t size,
				    struct plim_err *err)
{
	unsigned number, of;
	const char *before = NULL;
	bool weights = shard_number(name, &number, &of);

	for (size_t i = 0; i < sizeof(weight_files) / sizeof(weight_files[0]); i++) {
		if (strcmp(name, weight_files[i].name) != 0)
			continue;
		before = weight_files[i].before;
		before = before && folder_has(f, before) ? before : NULL;
		weights = !before;
	}
	weights &= !f->ckpt->inside;
	snprintf(prefix, size, "%s%s%s", f->ckpt->inside ? f->ckpt->inside : "",
		 weights ? "" : name, weights ? "" : "/");
	return before ? ckpt_model_find(
				f->ckpt, CKPT_NOTE, "two_forms", PLIM_UNKNOWN, err,
				"weights are in '%s' and in '%s': the first is what is loaded",
				before, name)
		      : PLIM_OK;
}

static enum plim_status read_beside(struct folder *f, const char *name, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	char prefix[900] = "";
	struct plim_err why = { 0 };
	struct ckpt_key k = { 0 };
	size_t before = c->tensors.n;
	uint32_t file;
	enum plim_status st = open_file(c, f->dir, name, &file, &why);

	if (st == PLIM_E_IO)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "unreadable_file", PLIM_UNKNOWN, err,
				       "%s", why.message);
	if (!st) {
		c->files.at[file].may_be_else = may_be_else(name);
		st = find_prefix(f, name, prefix, sizeof(prefix), err);
	} else if (err) {
		*err = why;
	}
	if (!st)
		st = open_any(c, file, prefix, err);
	for (size_t i = before; i < c->tensors.n; i++) {
		k.bytes += ckpt_tensor_bytes(&c->tensors.at[i]);
		if (!strncmp(name, "shard-", 6))
			c->tensors.at[i].flags |= CKPT_CHUNK;
	}
	k.tensors = c->tensors.n - before;
	k.name = ckpt_model_path(c, name, &st, err);
	k.what = ckpt_model_printf(c, &st, err, "file");
	return st ? st : vec_push(c->mem, &c->keys, k, err);
}

/* All that is not named as a shard of an index: an optimizer that is cut ends the resume as surely as a shard does. */
static enum plim_status read_files(struct folder *f, const uint32_t *shards, size_t shard_count,
				   size_t *n, struct plim_err *err)
{
	unsigned number, of;
	enum plim_status st = PLIM_OK;

	*n = 0;
	for (size_t i = 0; !st && i < f->names.n; i++) {
		const char *name = f->names.at[i];
		uint32_t id = intern_find(&f->ckpt->strings, name, strlen(name));
		bool left =
			(!folder_is_checkpoint_name(name) && !ckpt_text_ends(name, PICKLE_END)) ||
			(shard_count && shard_number(name, &number, &of));

		for (size_t k = 0; !left && k < shard_count; k++)
			left = shards[k] == id;
		if (left)
			continue;
		st = read_beside(f, name, err);
		++*n;
	}
	return st;
}

/* ---- shards with an index ---- */

struct place {
	uint32_t name, file; /* of a tensor, and of the file that should hold it */
};

struct index {
	VEC(struct place) places;
	VEC(uint32_t) files;   /* names, each once */
	VEC(uint32_t) missing; /* of these, those that are not there */
	uint64_t total_bytes;
};

static enum plim_status map_row(struct ckpt *c, struct index *x, struct json *j,
				const struct json_token *key, struct plim_err *err)
{
	struct place p;
	struct json_token t;
	enum plim_status st = PLIM_OK;
	bool known = false;

	p.name = ckpt_model_string(c, key->string, key->n, &st, err);
	if (!st)
		st = json_next(j, &t, err);
	if (!st && t.kind != JSON_STRING)
		return err_at(err, t.offset, "a shard's name is not text");
	p.file = st ? CKPT_NONE : ckpt_model_string(c, t.string, t.n, &st, err);
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

/* How much of the model is not there. */
static enum plim_status tell_missing(struct folder *f, const struct index *x, struct plim_err *err)
{
	size_t lost = 0;

	for (size_t i = 0; i < x->places.n; i++)
		for (size_t k = 0; k < x->missing.n; k++)
			lost += x->places.at[i].file == x->missing.at[k];
	return x->missing.n
		       ? ckpt_model_find(
				 f->ckpt, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
				 "%zu of %zu shard%s %s not there, '%.200s'%s, and with %s %zu "
				 "of %zu "
				 "tensor%s",
				 x->missing.n, x->files.n, text_s(x->files.n),
				 text_are(x->files.n == 1 ? 1 : x->missing.n),
				 ckpt_text(f->ckpt, x->missing.at[0]),
				 x->missing.n == 1 ? "" : " for one",
				 x->missing.n == 1 ? "it" : "them", lost, x->places.n,
				 text_s(x->places.n))
		       : PLIM_OK;
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
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "unsafe_name", PLIM_UNKNOWN, err,
					     "the index names '%.200s', which is not a plain file "
					     "name: not opened",
					     name);
			continue;
		}
		st = open_file(c, f->dir, name, &file, &why);
		if (!st) {
			st = open_any(c, file, "", err);
			continue;
		}
		if (st != PLIM_E_IO) {
			if (err)
				*err = why;
			return st;
		}
		st = vec_push(c->mem, &x->missing, x->files.at[i], err);
		if (!st && why.native != ENOENT)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
					     "%s", why.message);
	}
	return st ? st : tell_missing(f, x, err);
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
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "duplicate", PLIM_UNKNOWN, err,
					     "tensor '%.200s' is in two shards",
					     ckpt_text(c, t->name));
		if (t->name < n)
			found[t->name] = name + 1;
	}
	for (size_t i = 0; !st && i < x->places.n; i++) {
		const struct place *p = &x->places.at[i];

		if (!found[p->name] && !x->missing.n && !c->truncated)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "missing_tensor", PLIM_UNKNOWN,
					     err, "tensor '%.200s' is in no shard",
					     ckpt_text(c, p->name));
		else if (found[p->name] && found[p->name] != p->file + 1)
			st = ckpt_model_find(
				c, CKPT_BAD_FINDING, "wrong_shard", PLIM_UNKNOWN, err,
				"tensor '%.200s' is in '%.200s', not where the index says",
				ckpt_text(c, p->name), ckpt_text(c, found[p->name] - 1));
		found[p->name] = 0;
	}
	for (size_t i = 0; !st && i < n; i++)
		if (found[i])
			st = ckpt_model_find(c, CKPT_WARN, "unmapped_tensor", PLIM_UNKNOWN, err,
					     "tensor '%.200s' is in a shard but not in the index",
					     ckpt_text(c, (uint32_t)i));
	mem_free(c->mem, found, n, sizeof(*found));
	if (!st && x->total_bytes != PLIM_UNKNOWN && x->total_bytes != bytes && !x->missing.n &&
	    !c->truncated)
		st = ckpt_model_find(c, CKPT_WARN, "total_size", PLIM_UNKNOWN, err,
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
		bool named = !ckpt_text_ends(name, ".safetensors") && !ckpt_text_ends(name, ".bin");

		for (size_t k = 0; !named && k < x->files.n; k++)
			named = !strcmp(ckpt_text(c, x->files.at[k]), name);
		if (!named && shard_number(name, &number, &of))
			st = ckpt_model_find(c, CKPT_WARN, "stale_file", PLIM_UNKNOWN, err,
					     "'%.200s' is a shard that the index does not name: of "
					     "another save?",
					     name);
	}
	return st;
}

static enum plim_status read_sharded(struct folder *f, const char *name, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	struct index x = { .total_bytes = PLIM_UNKNOWN };
	size_t n;
	enum plim_status st = ckpt_text_read(c, f->dir, name, index_key, &x, err);

	c->kind = CKPT_KIND_SHARDED;
	if (!st && !x.places.n)
		st = ckpt_model_find(
			c, CKPT_BAD_FINDING, "index", PLIM_UNKNOWN, err,
			"'%.200s' maps no tensor to a file: shards are looked at without it", name);
	else if (!st)
		st = open_shards(f, &x, err);
	if (!st && x.places.n)
		st = check_places(f, &x, err);
	if (!st && x.places.n)
		st = check_unreferenced(f, &x, err);
	if (!st)
		st = read_files(f, x.files.at, x.files.n, &n, err);
	vec_release(c->mem, &x.places);
	vec_release(c->mem, &x.files);
	vec_release(c->mem, &x.missing);
	return st;
}

/* ---- files without an index ---- */

/* Numbered shards without an index: all there, and of one set? */
static enum plim_status check_set(struct folder *f, struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	unsigned number, of, set = 0, seen = 0;
	bool mixed = false, gguf = false;

	for (size_t i = 0; i < f->names.n; i++) {
		if (!ckpt_text_ends(f->names.at[i], ".safetensors") &&
		    !ckpt_text_ends(f->names.at[i], ".gguf") &&
		    !ckpt_text_ends(f->names.at[i], ".bin"))
			continue;
		gguf |= ckpt_text_ends(f->names.at[i], ".gguf");
		/* torch.distributed's own form numbers ranks in front. */
		if (!strncmp(f->names.at[i], "shard-", 6) ||
		    !shard_number(f->names.at[i], &number, &of))
			continue;
		mixed |= set && set != of;
		set = of;
		seen++;
	}
	if (mixed)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "mixed_shards", PLIM_UNKNOWN, err,
				       "shards of several sets lie in one folder");
	if (seen < set)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "missing_file", PLIM_UNKNOWN, err,
				       "%u of %u shards %s there, and no index", seen, set,
				       text_are(seen));
	if (set > 1 && !gguf)
		return ckpt_model_find(
			c, CKPT_WARN, "no_index", PLIM_UNKNOWN, err,
			"the shards have no index: transformers cannot load them so");
	return PLIM_OK;
}

bool folder_holds_checkpoint(int dir, const char *name)
{
	DIR *d = ckpt_entries(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	const struct dirent *e;
	bool found = false;

	while (d && !found &&
	       (e = readdir(d))) // NOLINT(concurrency-mt-unsafe): a stream of our own
		found = !strcmp(e->d_name, ".metadata") || folder_is_checkpoint_name(e->d_name);
	if (d)
		closedir(d);
	return found;
}

/* Nothing to read: what there is instead. */
static enum plim_status tell_nothing(struct folder *f, struct plim_err *err)
{
	const char *inside = NULL;
	size_t n = 0;

	for (size_t i = 0; i < f->names.n; i++)
		if (*f->names.at[i] != '.' && folder_holds_checkpoint(f->dir, f->names.at[i])) {
			inside = inside ? inside : f->names.at[i];
			n++;
		}
	f->ckpt->unreadable = true;
	if (n)
		return ckpt_model_find(
			f->ckpt, CKPT_BAD_FINDING, "no_checkpoint", PLIM_UNKNOWN, err,
			"the folder itself holds no checkpoint, but '%.200s' in it does%s", inside,
			n > 1 ? ", and others: verify each" : ": verify that");
	return ckpt_model_find(f->ckpt, CKPT_BAD_FINDING, "no_checkpoint", PLIM_UNKNOWN, err,
			       folder_has(f, "adapter_config.json") || folder_has(f, "config.json")
				       ? "the folder holds a config, but no weights"
				       : "the folder holds no checkpoint that is known here");
}

/* ---- folders inside ---- */

/* What stands in a short text file: "global_step500". */
static bool read_word(const struct folder *f, const char *name, char *word, size_t size)
{
	int fd = openat(f->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, word, size - 1);

	if (fd >= 0)
		close(fd);
	word[n < 0 ? 0 : n] = 0;
	word[strcspn(word, " \t\r\n")] = 0;
	return *word && !strchr(word, '/') && *word != '.';
}

/* A part of one save, in the form of torch.distributed.checkpoint: accelerate's.  Other folders are saves of their own. */
static bool is_data_folder(int dir, const char *name)
{
	static const char *const parts[] = { "pytorch_model_fsdp", "optimizer", "model" };
	char path[300];
	bool part = false;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		part |= !strncmp(name, parts[i], strlen(parts[i]));
	if (!part)
		return false;

	snprintf(path, sizeof(path), "%.250s/.metadata", name);
	return !faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

/* The files of a folder of this one, and of those in it that are a rank's. */
static enum plim_status read_below(struct folder *f, const char *name, bool *there,
				   struct plim_err *err)
{
	struct ckpt *c = f->ckpt;
	const char *before = c->inside;
	struct folder sub = { .ckpt = c };
	char inside[600];
	size_t n;
	enum plim_status st = PLIM_OK;

	sub.dir = openat(f->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*there = sub.dir >= 0;
	if (!*there)
		return PLIM_OK;
	snprintf(inside, sizeof(inside), "%s%.250s/", before ? before : "", name);
	c->inside = inside;
	st = folder_list(c, sub.dir, &sub.names, err);
	if (!st && folder_has(&sub, ".metadata"))
		st = distributed_read(c, sub.dir, err);
	else if (!st)
		st = read_files(&sub, NULL, 0, &n, err);
	for (size_t i = 0; !st && !before && i < sub.names.n; i++)
		if (!strncmp(sub.names.at[i], "mp_rank_", 8) && !strchr(sub.names.at[i], '.'))
			st = read_below(&sub, sub.names.at[i], there, err);
	*there = true;
	c->inside = before;
	vec_release(c->mem, &sub.names);
	close(sub.dir);
	return st;
}

/* DeepSpeed and Megatron name the folder of the newest save in a file; accelerate puts a folder for each part. */
static enum plim_status read_folders(struct folder *f, size_t *n, struct plim_err *err)
{
	char word[200], name[220];
	bool there, deepspeed = read_word(f, "latest", word, sizeof(word)),
		    megatron = !deepspeed && read_word(f, "latest_checkpointed_iteration.txt", word,
						       sizeof(word));
	enum plim_status st = PLIM_OK;

	if (megatron && strspn(word, "0123456789") == strlen(word))
		snprintf(name, sizeof(name), "iter_%07lu", strtoul(word, NULL, 10));
	else
		snprintf(name, sizeof(name), "%s", word);
	if (deepspeed || megatron) {
		st = read_below(f, name, &there, err);
		++*n;
		if (!st && !there)
			st = ckpt_model_find(
				f->ckpt, CKPT_BAD_FINDING, "missing_folder", PLIM_UNKNOWN, err,
				"'%s' names the folder '%.200s', which is not there",
				deepspeed ? "latest" : "latest_checkpointed_iteration.txt", name);
	}
	for (size_t i = 0; !st && i < f->names.n; i++)
		if (*f->names.at[i] != '.' && is_data_folder(f->dir, f->names.at[i])) {
			st = read_below(f, f->names.at[i], &there, err);
			++*n;
		}
	/* Megatron's folder of an iteration by itself. */
	for (size_t i = 0; !st && i < f->names.n; i++)
		if (!strncmp(f->names.at[i], "mp_rank_", 8) && !strchr(f->names.at[i], '.')) {
			st = read_below(f, f->names.at[i], &there, err);
			*n += there;
		}
	return st;
}

static enum plim_status note_others(struct folder *f, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < f->names.n; i++)
		if (layout_other(f->names.at[i]))
			st = ckpt_model_find(f->ckpt, CKPT_NOTE, "other_format", PLIM_UNKNOWN, err,
					     "'%.200s' is of %s, which is not read", f->names.at[i],
					     layout_other(f->names.at[i]));
	return st;
}

static enum plim_status read_all_folder(struct folder *f, struct plim_err *err)
{
	size_t n;
	enum plim_status st;

	f->ckpt->kind = CKPT_KIND_FOLDER;
	st = read_files(f, NULL, 0, &n, err);
	if (!st)
		st = read_folders(f, &n, err);
	if (!st)
		st = note_others(f, err);
	if (!st && !n)
		st = tell_nothing(f, err);
	return st ? st : check_set(f, err);
}

/* ---- the texts of a Checkpointer: state.json and rank-00000.json (python/plimsoll/checkpoint) ---- */

static enum plim_status job_push(struct ckpt *c, const char *name, struct plim_err *err)
{
	struct ckpt_key k = { 0 };
	enum plim_status st = PLIM_OK;

	k.name = ckpt_model_printf(c, &st, err, "%.300s", name);
	k.what = ckpt_model_printf(c, &st, err, "in the job's state");
	return st ? st : vec_push(c->mem, &c->keys, k, err);
}

/* A scheduler, a scaler, ...: by the name that save() was given. */
static enum plim_status job_object(void *ctx, struct json *j, const char *key, struct plim_err *err)
{
	struct json_token t;
	enum plim_status st = json_next(j, &t, err);

	if (!st)
		st = json_skip(j, &t, err);
	return st ? st : job_push(ctx, key, err);
}

static enum plim_status job_key(struct ckpt *c, struct json *j, const char *key, void *ctx,
				struct plim_err *err)
{
	static const char *const wanted[] = {
		"step", "metrics", "versions", "commit", "rng", NULL
	};
	struct json_token t;
	bool *ours = ctx; /* the schema comes first */
	enum plim_status st = json_next(j, &t, err);

	if (st)
		return st;
	if (!strcmp(key, "schema") && t.kind == JSON_STRING)
		*ours = !strcmp(t.string, "state/1") || !strcmp(t.string, "rank/1");
	if (*ours && !strcmp(key, "stateful") && t.kind == JSON_OBJECT)
		return json_members(j, &t, job_object, c, err);
	if (*ours && t.kind != JSON_NULL && is_wanted(wanted, key))
		st = job_push(c, key, err);
	return st ? st : json_skip(j, &t, err);
}

static enum plim_status read_texts_job(struct folder *f, struct plim_err *err)
{
	static const char *const names[] = { "state.json", "rank-00000.json" };
	enum plim_status st = PLIM_OK;

	/* Without the manifest such a name may be of any program. */
	for (size_t i = 0; !st && folder_has(f, "plimsoll.manifest.json") && i < 2; i++) {
		bool ours = false;

		if (folder_has(f, names[i]))
			st = ckpt_text_read(f->ckpt, f->dir, names[i], job_key, &ours, err);
	}
	return st;
}

static enum plim_status read_texts(struct folder *f, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (folder_has(f, "config.json"))
		st = ckpt_text_read(f->ckpt, f->dir, "config.json", config_key, NULL, err);
	if (!st && folder_has(f, "adapter_config.json"))
		st = ckpt_text_read(f->ckpt, f->dir, "adapter_config.json", config_key, NULL, err);
	if (!st && folder_has(f, "trainer_state.json"))
		st = ckpt_text_read(f->ckpt, f->dir, "trainer_state.json", trainer_key, NULL, err);
	return st ? st : read_texts_job(f, err);
}

/* PEFT makes every adapter of the rank that the config says, except for those that rank_pattern names. */
static enum plim_status check_rank(struct ckpt *c, struct plim_err *err)
{
	static const char down[] = "lora_A.weight";
	uint64_t rank = ckpt_fact_number(c, "r"), other = 0;

	for (size_t i = 0; rank && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const char *name = ckpt_text(c, t->name);
		size_t n = strlen(name);

		if (t->rank != 2 || n < sizeof(down) ||
		    strcmp(name + n - (sizeof(down) - 1), down) != 0)
			continue;
		if (ckpt_shape(c, t)[0] == rank)
			return PLIM_OK;
		other = ckpt_shape(c, t)[0];
	}
	if (!other)
		return PLIM_OK;
	return ckpt_model_find(
		c, CKPT_WARN, "adapter_rank", PLIM_UNKNOWN, err,
		"'adapter_config.json' says r=%llu, and no adapter has that rank (%llu): "
		"unless its rank_pattern names them all, PEFT cannot load them",
		(unsigned long long)rank, (unsigned long long)other);
}

enum plim_status folder_read(struct ckpt *c, int dir, struct plim_err *err)
{
	struct folder f = { .ckpt = c, .dir = dir };
	const char *index;
	enum plim_status st = folder_list(c, dir, &f.names, err);

	index = with_end(&f, ".safetensors.index.json");
	if (!index)
		index = with_end(&f, ".bin.index.json");
	if (!st && (folder_has(&f, ".metadata") || with_end(&f, ".distcp")))
		st = distributed_read(c, dir, err);
	else if (!st && index)
		st = read_sharded(&f, index, err);
	else if (!st)
		st = read_all_folder(&f, err);
	if (!st &&
	    (folder_has(&f, "adapter_model.safetensors") || folder_has(&f, "adapter_model.bin")) &&
	    !folder_has(&f, "adapter_config.json"))
		st = ckpt_model_find(
			c, CKPT_WARN, "no_config", PLIM_UNKNOWN, err,
			"'adapter_config.json' is missing: PEFT cannot load the adapter "
			"without it");
	if (!st && folder_has(&f, ".metadata.tmp"))
		st = ckpt_model_find(c, CKPT_WARN, "leftover", PLIM_UNKNOWN, err,
				     "'.metadata.tmp' is left: a save died while it finished");
	if (!st)
		st = read_texts(&f, err);
	if (!st && folder_has(&f, "adapter_config.json"))
		st = check_rank(c, err);
	if (!st)
		st = layout_check(c, &f.names, err);
	if (!st)
		st = zero_plan(c, err);
	vec_release(c->mem, &f.names);
	return st;
}
