/*
 * Tensors out of a checkpoint into a new file, streaming: which of them, and their bytes in row-major order.
 * The formats are write_safetensors.c and write_torch.c.  What a format cannot carry is refused by name,
 * never left out in silence.
 */
#include "layout.h"
#include "parts.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COPY_BYTES ((size_t)1 << 20)
#define WEIGHTS_KEYS 64 /* more outermost keys are not those of a training checkpoint */
#define REPEATS 64      /* times that views may read or write the same bytes */

/* ---- bytes ---- */

enum plim_status ckpt_out_put(struct ckpt_out *o, const void *at, size_t n, struct plim_err *err)
{
	uint64_t from = o->at;

	o->at += n;
	o->crc = crc_add(o->crc, at, n);
	return o->to ? durable_write(o->to, at, n, err) : o->sink(o->ctx, from, at, n, err);
}

enum plim_status ckpt_out_tensor(struct ckpt *c, const struct ckpt_tensor *t, struct ckpt_out *o,
				 struct plim_err *err)
{
	uint64_t bytes = ckpt_tensor_bytes(t);
	size_t most = bytes < COPY_BYTES ? (size_t)bytes : COPY_BYTES; /* most tensors are small */
	uint8_t *room = mem_new(c->mem, most, 1, err);
	struct tensor_reader r;
	enum plim_status st = tensor_open(&r, c, t, err);

	if (!room)
		st = mem_status(err);
	for (uint64_t done = 0; !st && done < bytes; done += most) {
		size_t n = bytes - done < most ? (size_t)(bytes - done) : most;

		st = tensor_next(&r, room, n, err);
		if (!st)
			st = ckpt_out_put(o, room, n, err);
	}
	tensor_close(&r);
	mem_free(c->mem, room, most, 1);
	return st;
}

enum plim_status ckpt_out_extent(struct ckpt *c, uint32_t extent, struct ckpt_out *o,
				 struct plim_err *err)
{
	const struct ckpt_extent *x = &c->extents.at[extent];
	size_t most = x->bytes < COPY_BYTES ? (size_t)x->bytes : COPY_BYTES;
	uint8_t *room = mem_new(c->mem, most, 1, err);
	struct extent_reader r;
	enum plim_status st = extent_open(&r, c, extent, 0, err);

	if (!room)
		st = mem_status(err);
	while (!st && r.at < x->bytes) {
		size_t n;

		st = extent_next(&r, room, most, &n, err);
		if (!st && (!n || r.broken))
			st = err_set(err, PLIM_E_FORMAT, "record '%.200s' cannot be read",
				     ckpt_text(c, x->name));
		if (!st)
			st = ckpt_out_put(o, room, n, err);
	}
	extent_close(&r);
	mem_free(c->mem, room, most, 1);
	return st;
}

enum plim_status ckpt_out_end(struct ckpt *c, struct ckpt_out *o, const char *path,
			      enum plim_status st, struct ckpt_extracted *told,
			      struct plim_err *err)
{
	told->file_bytes = o->at;
	if (!st)
		st = manifest_announce(c->mem, path, o->at, durable_sum(o->to), err);
	if (!st)
		return durable_commit(o->to, &told->xxh3, err);
	durable_abort(o->to);
	return st;
}

/* ---- which ---- */

bool ckpt_is_wanted(const char *name, const char *patterns)
{
	char one[512];

	while (*patterns) {
		size_t n = strcspn(patterns, "|");

		snprintf(one, sizeof(one), "%.*s", (int)n, patterns);
		if (n < sizeof(one) && !fnmatch(one, name, 0))
			return true;
		patterns += n + (patterns[n] == '|');
	}
	return false;
}

static enum plim_status check_extract(const struct ckpt *c, const struct ckpt_tensor *t,
				      struct plim_err *err)
{
	const char *why = t->flags & CKPT_META        ? "has no bytes"
			  : t->flags & CKPT_QUANTIZED ? "is quantized: its scales would be lost"
			  : t->flags & CKPT_CONJUGATE ? "is a conjugate or negative view"
			  : t->flags & (CKPT_CHUNK | CKPT_SHARD)
				  ? "is only a part of a larger tensor"
			  : c->big_endian ? "is big-endian"
					  : NULL;

	return why ? err_set(err, PLIM_E_UNSUPPORTED, "'%.200s' %s: not written",
			     ckpt_text(c, t->name), why)
		   : PLIM_OK;
}

enum plim_status ckpt_load(struct ckpt *c, size_t tensor, ckpt_sink_fn *sink, void *ctx,
			   struct plim_err *err)
{
	const struct ckpt_tensor *t = &c->tensors.at[tensor];
	const struct ckpt_extent *x = t->extent == CKPT_NONE ? NULL : &c->extents.at[t->extent];
	struct ckpt_out o = { .sink = sink, .ctx = ctx };
	enum plim_status st = check_extract(c, t, err);

	if (!st && !ckpt_is_whole(c, tensor))
		st = err_set(err, PLIM_E_FORMAT, "'%.200s' is not whole", ckpt_text(c, t->name));
	if (!st)
		st = ckpt_out_tensor(c, t, &o, err);
	if (!st && x && x->check == CKPT_CHECK_CRC && ckpt_is_contiguous(c, t) &&
	    ckpt_tensor_bytes(t) == x->bytes && o.crc != x->crc)
		st = err_set(err, PLIM_E_FORMAT,
			     "'%.200s' is damaged: its bytes do not match their checksum",
			     ckpt_text(c, t->name));
	return st;
}

bool ckpt_find(const struct ckpt *c, size_t tensor, bool as_stored, struct ckpt_place *out)
{
	const struct ckpt_tensor *t = &c->tensors.at[tensor];
	const struct ckpt_extent *x = t->extent == CKPT_NONE ? NULL : &c->extents.at[t->extent];

	if (!x || x->deflated || t->flags & CKPT_JOINED || check_extract(c, t, NULL) ||
	    !ckpt_is_whole(c, tensor) ||
	    !(ckpt_is_contiguous(c, t) || (as_stored && ckpt_is_dense(c, t))))
		return false;
	*out = (struct ckpt_place){ .file = x->file,
				    .at = x->offset + t->offset * t->dtype->bits / 8,
				    .bytes = ckpt_tensor_bytes(t),
				    .crc = x->crc };
	out->checked = x->check == CKPT_CHECK_CRC && out->bytes == x->bytes;
	return out->bytes > 0;
}

/* Bytes that are read for it: a view's whole reach, and of a deflated record all that is before it. */
static uint64_t read_for(const struct ckpt *c, const struct ckpt_tensor *t)
{
	uint64_t count, reach = t->count;

	if (!ckpt_is_contiguous(c, t))
		ckpt_model_reach(ckpt_shape(c, t), ckpt_strides(c, t), t->rank, 0, &count, &reach);
	if (t->extent != CKPT_NONE && c->extents.at[t->extent].deflated)
		reach += t->offset; /* both within the record */
	return reach * t->dtype->bits / 8;
}

/* Views may repeat a few bytes without end: no time and no disk for what no file of that size holds. */
static enum plim_status check_total(const struct ckpt *c, const uint32_t *at,
				    const struct ckpt_extracted *told, struct plim_err *err)
{
	uint64_t held = c->bytes + ((uint64_t)1 << 24), work = told->bytes;

	for (size_t i = 0; i < c->extents.n; i++)
		held += c->extents.at[i].deflated ? c->extents.at[i].bytes : 0;
	for (size_t i = 0; i < told->tensors && work / REPEATS <= held; i++)
		work += read_for(c, &c->tensors.at[at[i]]);
	return work / REPEATS <= held
		       ? PLIM_OK
		       : err_set(err, PLIM_E_LIMIT,
				 "views repeat the same bytes again and again: not written");
}

/* The file stands; whoever reads that its manifest failed must not take the file for failed. */
static enum plim_status write_manifest(struct ckpt *c, const char *path, unsigned flags,
				       const struct ckpt_extracted *told, struct plim_err *err)
{
	struct plim_err why = { 0 };
	enum plim_status st =
		flags & CKPT_NO_MANIFEST
			? manifest_remove(c->mem, path, &why)
			: manifest_write_beside(c->mem, path, told->file_bytes, told->xxh3, &why);

	return st ? err_set(err, st, "'%.200s' is written and whole, but not its manifest: %.600s",
			    path, why.message)
		  : PLIM_OK;
}

static int by_text(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* {"a.b": x, "a": {"b": y}}: two tensors of one name, of which a reader of the new file would see one. */
static enum plim_status check_extract_names(const struct ckpt *c, const uint32_t *at, size_t n,
					    struct plim_err *err)
{
	const char **names = mem_new(c->mem, n, sizeof(*names), err);
	enum plim_status st = names ? PLIM_OK : mem_status(err);

	for (size_t i = 0; !st && i < n; i++)
		names[i] = ckpt_text(c, c->tensors.at[at[i]].name);
	if (!st && n)
		sort_items(names, n, sizeof(*names), by_text);
	for (size_t i = 1; !st && i < n; i++)
		if (!strcmp(names[i - 1], names[i]))
			st = err_set(err, PLIM_E_UNSUPPORTED,
				     "two tensors are named '%.200s': not written", names[i]);
	mem_free(c->mem, names, n, sizeof(*names));
	return st;
}

/* ---- what is not a tensor ---- */

static bool has_state(const struct ckpt *c)
{
	for (size_t i = 0; i < c->keys.n; i++)
		if (!c->keys.at[i].tensors)
			return true;
	for (size_t i = 0; i < c->globals.n; i++)
		if (c->globals.at[i].trust > CKPT_DATA)
			return true;
	return c->optimizers.n > 0;
}

/* Why the file cannot keep its form; NULL: nothing that is known yet is in the way. */
static const char *why_tensors_only(const struct ckpt *c, unsigned flags)
{
	if (!(flags & CKPT_AS_TORCH))
		return "safetensors holds nothing else";
	if (c->pieces.n)
		return "they were put together from parts";
	if (c->kind == CKPT_KIND_SCRIPT || c->kind == CKPT_KIND_EXPORTED)
		return "code is not written anew";
	if (!c->root_bytes)
		return "they come from several files or from another format";
	for (size_t i = 0; i < c->globals.n; i++)
		if (c->globals.at[i].trust > CKPT_DATA)
			return "its pickle names what is on no list, which is not written anew";
	for (size_t i = 0; i < c->findings.n; i++)
		if (!strcmp(c->findings.at[i].kind, "malformed_tensor") ||
		    !strcmp(c->findings.at[i].kind, "overflow"))
			return "some of its tensors make no sense";
	return NULL;
}

/* Names and shapes are in the pickle: where that is damaged, nothing is known to be whole. */
static enum plim_status check_pickles(const struct ckpt *c, struct plim_err *err)
{
	static const char tail[] = "data.pkl";

	for (size_t i = 0; i < c->extents.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[i];
		const char *name = ckpt_text(c, x->name);
		size_t n = strlen(name), k = sizeof(tail) - 1;

		if (x->state == CKPT_BAD && n >= k && !strcasecmp(name + n - k, tail))
			return err_set(
				err, PLIM_E_FORMAT,
				"'%.200s', which names the tensors, is damaged itself: which "
				"bytes are whose is not certain, so nothing is written",
				name);
	}
	return PLIM_OK;
}

/* ---- what a repaired file says of itself ---- */

/* Whoever loads it later knows by this that it is less than was saved; what was left out before stays said. */
static void sign(const struct ckpt *c, const char *lost, struct ckpt_extracted *told)
{
	const char *before = ckpt_model_fact_of(c, CKPT_FACT_REPAIRED),
		   *slash = strrchr(c->path, '/');
	size_t all = told->tensors + told->left_out;

	if (!told->left_out)
		snprintf(told->repaired, sizeof(told->repaired), "%s", before);
	else
		snprintf(told->repaired, sizeof(told->repaired),
			 "%zu of the %zu tensors of '%.100s' were not whole and are left out, "
			 "'%.100s' "
			 "first%s%.200s",
			 told->left_out, all, slash ? slash + 1 : c->path, lost,
			 *before ? "; before: " : "", before);
}

/* ---- a part of it ---- */

/* The tensors below a name, which they lose; or of a folder those of files whose tensors keep their names. */
struct part {
	const char *below; /* with the separator behind it */
	size_t skip;       /* its length; 0: of all names */
	bool own_names;
	char parts[200]; /* mappings of which each may be the weights */
};

/* Does the name begin with that of the file in a folder that the tensor lies in? */
static const char *file_in_name(const struct ckpt *c, const struct ckpt_tensor *t)
{
	const char *name = ckpt_text(c, t->name), *file;
	size_t n;

	if (t->extent == CKPT_NONE)
		return NULL;
	file = c->files.at[c->extents.at[t->extent].file].name;
	n = strlen(file);
	return !strncmp(name, file, n) && name[n] == '/' ? file : NULL;
}

static bool is_of_part(const struct ckpt *c, const struct ckpt_tensor *t, const struct part *part)
{
	return !strncmp(ckpt_text(c, t->name), part->below, part->skip) &&
	       !(part->own_names && file_in_name(c, t));
}

static bool is_below(const char *name, const char *key)
{
	size_t n = strlen(key);

	return !strncmp(name, key, n) && (name[n] == '.' || name[n] == '/') && name[n + 1];
}

static enum plim_status find_below(const struct ckpt *c, const char *name, struct part *part,
				   struct plim_err *err)
{
	char there[300] = "";
	size_t n = strlen(name), used = 0;

	n -= n && (name[n - 1] == '.' || name[n - 1] == '/');
	for (size_t i = 0; i < c->tensors.n; i++) {
		const char *one = ckpt_text(c, c->tensors.at[i].name);

		if (n && !strncmp(one, name, n) && (one[n] == '.' || one[n] == '/') && one[n + 1]) {
			part->below = one;
			part->skip = n + 1;
			return PLIM_OK;
		}
	}
	for (size_t i = 0; i < c->keys.n && used < 200; i++)
		if (c->keys.at[i].tensors)
			used += (size_t)snprintf(there + used, sizeof(there) - used, "%s'%.60s'",
						 used ? ", " : "; tensors are below ",
						 ckpt_text(c, c->keys.at[i].name));
	return err_set(err, PLIM_E_ARG, "no tensor is below '%.200s'%s", name, there);
}

static bool is_number_of_weights(const struct ckpt_tensor *t)
{
	return t->rank && t->dtype->number >= CKPT_F16 && t->dtype->number <= CKPT_F64;
}

static bool is_optimizers(const struct ckpt *c, const char *key)
{
	for (size_t i = 0; i < c->optimizers.n; i++) {
		const char *path = ckpt_text(c, c->optimizers.at[i].path);

		if (!*path || !strcmp(path, key) || is_below(path, key))
			return true;
	}
	return false;
}

/* Is that key of the outermost dict a mapping that has numbers as a model's state has them? */
static bool may_be_weights(const struct ckpt *c, const struct ckpt_key *k)
{
	const char *key = ckpt_text(c, k->name);

	if (!k->tensors || strncmp(ckpt_text(c, k->what), "dict of ", 8) != 0 ||
	    is_optimizers(c, key))
		return false;
	for (size_t i = 0; i < c->tensors.n; i++)
		if (is_below(ckpt_text(c, c->tensors.at[i].name), key) &&
		    is_number_of_weights(&c->tensors.at[i]))
			return true;
	return false;
}

/* Weights that are below no key: then the file itself is the mapping. */
static bool has_loose_weights(const struct ckpt *c)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		bool loose = is_number_of_weights(t);

		for (size_t k = 0; loose && k < c->keys.n; k++)
			loose = !is_below(ckpt_text(c, t->name), ckpt_text(c, c->keys.at[k].name));
		if (loose)
			return true;
	}
	return false;
}

static void find_weights_of_folder(const struct ckpt *c, struct part *part)
{
	for (size_t i = 0; !part->own_names && i < c->tensors.n; i++)
		part->own_names = !file_in_name(c, &c->tensors.at[i]);
}

/* torch.distributed.checkpoint joins keys by dots: one word in front of all but an optimizer's "optim.state.0.exp_avg". */
static void find_weights_of_names(const struct ckpt *c, struct part *part)
{
	const char *weights = NULL;
	size_t skip = 0;
	bool state = false;

	for (size_t i = 0; i < c->tensors.n; i++) {
		const char *name = ckpt_text(c, c->tensors.at[i].name);
		size_t n = strcspn(name, ".");

		if (!strncmp(name + n, ".state.", 7) || !strncmp(name + n, ".param_groups.", 14)) {
			state = true;
			continue;
		}
		if (!name[n] || (weights && (n + 1 != skip || strncmp(name, weights, skip) != 0)))
			return;
		weights = name;
		skip = n + 1;
	}
	if (weights && state) {
		part->below = weights;
		part->skip = skip;
	}
}

/*
 * The weights as a model names them: below the one key that is a mapping of them.  If there are several, all of the
 * file is taken, and part->parts names them.
 */
static void find_weights(const struct ckpt *c, struct part *part)
{
	const char *found = NULL;
	size_t n = 0, used = 0;

	if (c->kind == CKPT_KIND_DISTRIBUTED)
		find_weights_of_names(c, part);
	if (c->pieces.n || c->kind == CKPT_KIND_DISTRIBUTED)
		return;
	if (c->kind == CKPT_KIND_FOLDER || c->kind == CKPT_KIND_SHARDED) {
		find_weights_of_folder(c, part);
		return;
	}
	if (!c->keys.n || c->keys.n > WEIGHTS_KEYS || has_loose_weights(c))
		return;
	for (size_t i = 0; i < c->keys.n; i++) {
		if (!may_be_weights(c, &c->keys.at[i]))
			continue;
		found = ckpt_text(c, c->keys.at[i].name);
		if (used < sizeof(part->parts))
			used += (size_t)snprintf(part->parts + used, sizeof(part->parts) - used,
						 "%s%.60s", n ? ", " : "", found);
		n++;
	}
	if (n == 1)
		*part->parts = 0;
	for (size_t i = 0; n == 1 && !part->skip && i < c->tensors.n; i++) {
		const char *name = ckpt_text(c, c->tensors.at[i].name);

		if (is_below(name, found)) {
			part->below = name;
			part->skip = strlen(found) + 1;
		}
	}
}

/* Files of a folder that have nothing to do with each other are not one checkpoint. */
static enum plim_status check_folder(const struct ckpt *c, struct plim_err *err)
{
	const char *first = NULL;
	bool weights = false;

	if (c->kind != CKPT_KIND_FOLDER || c->pieces.n)
		return PLIM_OK;
	for (size_t i = 0; i < c->tensors.n && !weights; i++)
		weights = !file_in_name(c, &c->tensors.at[i]);
	for (size_t i = 0; i < c->tensors.n && !weights; i++) {
		const char *file = file_in_name(c, &c->tensors.at[i]);

		if (!file || strchr(file, '/') || layout_is_state(file))
			continue;
		if (first && strcmp(first, file) != 0)
			return err_set(err, PLIM_E_ARG,
				       "'%.200s' holds files that are not shards of one checkpoint "
				       "('%.100s', '%.100s'): convert each by itself",
				       c->path, first, file);
		first = file;
	}
	return PLIM_OK;
}

/* ---- all ---- */

static enum plim_status choose_extract(struct ckpt *c, const char *patterns,
				       const struct part *part, unsigned flags, bool any_form,
				       uint32_t *at, struct ckpt_extracted *told,
				       struct plim_err *err)
{
	bool whole_only = flags & CKPT_WHOLE_ONLY;
	const char *lost = "";
	size_t broken = 0;
	enum plim_status st = PLIM_OK;

	*told = (struct ckpt_extracted){ .skip = part->skip };
	snprintf(told->below, sizeof(told->below), "%.*s", (int)part->skip, part->below);
	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		bool whole = ckpt_is_whole(c, i), of_part = is_of_part(c, t, part);

		told->passed_over += !of_part;
		/* A damaged file is not converted without being asked for the part that is whole. */
		if ((!of_part && (whole || !(flags & CKPT_WEIGHTS))) ||
		    !ckpt_is_wanted(ckpt_text(c, t->name), patterns))
			continue;
		if (!whole && !whole_only)
			return err_set(err, PLIM_E_FORMAT,
				       "'%.200s' is not whole: not written (see ckpt repair)",
				       ckpt_text(c, t->name));
		if (!of_part)
			continue;
		st = whole && !any_form ? check_extract(c, t, err) : PLIM_OK;
		if (!whole || (st == PLIM_E_UNSUPPORTED && whole_only)) {
			broken += !whole;
			lost = told->left_out++ ? lost : ckpt_text(c, t->name);
			st = PLIM_OK;
			continue;
		}
		at[told->tensors++] = (uint32_t)i;
		if (__builtin_add_overflow(told->bytes, ckpt_tensor_bytes(t), &told->bytes))
			told->bytes = UINT64_MAX;
	}
	if (flags & CKPT_ALL)
		sign(c, lost, told);
	if (!st && !told->tensors && broken && broken == told->left_out)
		return err_set(
			err, PLIM_E_FORMAT,
			"no tensor of '%.200s' is whole: nothing to write, take another copy",
			c->path);
	/* A scheduler's state has none: all of it can be written all the same. */
	if (!st && !told->tensors && (c->tensors.n || !any_form))
		st = c->tensors.n ? err_set(err, PLIM_E_ARG,
					    "no tensor that is whole matches '%.200s': nothing to "
					    "write",
					    patterns)
				  : err_set(err, PLIM_E_UNSUPPORTED,
					    "'%.200s' holds no tensors: nothing to write", c->path);
	return st;
}

static enum plim_status write_flat(struct ckpt *c, const uint32_t *at, unsigned flags,
				   const char *path, struct ckpt_extracted *told,
				   struct plim_err *err)
{
	enum plim_status st = check_extract_names(c, at, told->tensors, err);

	if (!st)
		st = check_total(c, at, told, err);
	return st ? st
		  : (flags & CKPT_AS_TORCH ? torch_write : safetensors_write)(c, at, path, told,
									      err);
}

enum plim_status ckpt_extract(struct ckpt *c, const char *patterns, unsigned flags,
			      const char *path, struct ckpt_extracted *told, struct plim_err *err)
{
	uint32_t *at = mem_new(c->mem, c->tensors.n, sizeof(*at), err);
	const char *why = why_tensors_only(c, flags);
	struct plim_err refused = { 0 };
	struct part part = { .below = "" };
	bool below = flags & CKPT_BELOW, all = flags & CKPT_ALL, state = has_state(c),
	     kept = all && !why && !below;
	enum plim_status st = at ? check_pickles(c, err) : mem_status(err);

	*told = (struct ckpt_extracted){ 0 };
	if (!st && all && c->apart)
		st = err_set(err, PLIM_E_UNSUPPORTED,
			     "'%.200s' holds tensors in parts that are not joined: %s", c->path,
			     c->apart);
	if (!st && kept) {
		st = choose_extract(c, patterns, &part, flags, true, at, told, err);
		if (!st)
			st = torch_rewrite(c, path, told, &refused);
		kept = st != PLIM_E_UNSUPPORTED;
		if (!kept)
			st = PLIM_OK;
		else if (refused.message[0] && err)
			*err = refused;
	}
	if (!st && all)
		st = check_folder(c, err);
	if (!st && below)
		st = find_below(c, patterns, &part, err);
	if (!st && !kept) {
		if (flags & CKPT_WEIGHTS && !below)
			find_weights(c, &part);
		st = choose_extract(c, below ? "*" : patterns, &part, flags, false, at, told, err);
		snprintf(told->parts, sizeof(told->parts), "%s", part.parts);
		if (!st)
			st = write_flat(c, at, flags, path, told, err);
		why = why ? why : refused.message;
	}
	told->state = kept && state;
	if (all && !kept && state && !below)
		snprintf(told->left_behind, sizeof(told->left_behind), "%s", why);
	if (!st)
		st = write_manifest(c, path, flags, told, err);
	mem_free(c->mem, at, c->tensors.n, sizeof(*at));
	return st;
}
