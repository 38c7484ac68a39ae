/*
 * ZeRO: the weights of a model that DeepSpeed trained lie in flat groups of fp32, cut into a partition for each rank,
 * next to the optimizer's states; the files of model states say which parameter is where.  Here they become c->wholes,
 * as DeepSpeed's own zero_to_fp32.py (0.19) puts them together:
 *
 *   stages 1, 2: a group's partitions one behind the other hold its parameters one behind the other, each perhaps with
 *       padding behind it; both ends agree when they are rounded up to 2 * ranks.
 *   stage 3: each parameter is cut into equal parts, rounded up; every rank has its part of each, one behind the other.
 *
 * Buffers and frozen parameters are in the model states, of stage 3 frozen ones in parts as well.
 */
#include "walk.h"

#include <stdio.h>
#include <string.h>

#define RANKS 65536

/* ---- what the files say ---- */

static enum plim_status note(struct walk *w, struct ckpt_zero z, const char *name,
			     struct plim_err *err)
{
	struct ckpt *c = w->ckpt;
	enum plim_status st = PLIM_OK;

	if (c->zero.n >= CKPT_TENSORS)
		return err_set(err, PLIM_E_LIMIT, "more than %llu parameters",
			       (unsigned long long)CKPT_TENSORS);
	z.name = ckpt_model_string(c, name, strlen(name), &st, err);
	return st ? st : vec_push(c->mem, &c->zero, z, err);
}

/* {"name": torch.Size([2, 3])} */
static enum plim_status note_shapes(struct walk *w, struct ckpt_zero z, struct pickle_value dict,
				    struct plim_err *err)
{
	struct ckpt *c = w->ckpt;
	enum plim_status st = PLIM_OK;

	dict = walk_as_dict(w, dict);
	for (size_t i = 0; !st && i + 1 < pickle_len(w->heap, dict); i += 2) {
		const char *name = walk_str(w, pickle_item(w->heap, dict, i));
		uint64_t sizes[CKPT_DIMS], none[CKPT_DIMS] = { 0 }, reach;
		size_t rank;

		if (!name || !walk_sizes(w, pickle_item(w->heap, dict, i + 1), sizes, &rank) ||
		    !ckpt_model_reach(sizes, none, rank, 0, &z.count, &reach)) {
			c->apart = "the shapes of its parameters make no sense";
			return PLIM_OK;
		}
		z.rank = (uint16_t)rank;
		z.dims = c->dims.n;
		st = vec_need(c->mem, &c->dims, rank + 1, err);
		for (size_t d = 0; !st && d < rank; d++)
			c->dims.at[c->dims.n++] = sizes[d];
		if (!st)
			st = note(w, z, name, err);
	}
	return st;
}

static enum plim_status note_model(struct walk *w, uint32_t prefix, struct pickle_value dict,
				   struct pickle_value shapes, struct plim_err *err)
{
	struct ckpt_zero z = { .prefix = prefix };
	struct pickle_value v;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < pickle_len(w->heap, shapes); i++) {
		z.group = (uint32_t)i;
		st = note_shapes(w, z, pickle_item(w->heap, shapes, i), err);
	}
	z = (struct ckpt_zero){ .kind = CKPT_ZERO_FROZEN, .prefix = prefix };
	if (!st && pickle_get(w->heap, dict, "frozen_param_shapes", &v))
		st = note_shapes(w, z, v, err);
	z.kind = CKPT_ZERO_BUFFER;
	if (!pickle_get(w->heap, dict, "buffer_names", &v) || v.kind != PICKLE_LIST)
		v = (struct pickle_value){ 0, PICKLE_NONE };
	for (size_t i = 0; !st && i < pickle_len(w->heap, v); i++) {
		const char *name = walk_str(w, pickle_item(w->heap, v, i));

		st = name ? note(w, z, name, err) : PLIM_OK;
	}
	z.kind = CKPT_ZERO_SHARED;
	v = pickle_get(w->heap, dict, "shared_params", &v)
		    ? walk_as_dict(w, v)
		    : (struct pickle_value){ 0, PICKLE_NONE };
	for (size_t i = 0; !st && i + 1 < pickle_len(w->heap, v); i += 2) {
		const char *name = walk_str(w, pickle_item(w->heap, v, i)),
			   *other = walk_str(w, pickle_item(w->heap, v, i + 1));

		if (!name || !other)
			continue;
		z.other = ckpt_model_string(w->ckpt, other, strlen(other), &st, err);
		if (!st)
			st = note(w, z, name, err);
	}
	return st;
}

/* [[0, 3, 0], ...]: of each group, of each parameter. */
static enum plim_status note_paddings(struct walk *w, uint32_t prefix, struct pickle_value groups,
				      struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && groups.kind == PICKLE_LIST && i < pickle_len(w->heap, groups);
	     i++) {
		struct pickle_value list = pickle_item(w->heap, groups, i);

		for (size_t k = 0; !st && list.kind == PICKLE_LIST && k < pickle_len(w->heap, list);
		     k++) {
			struct pickle_value n = pickle_item(w->heap, list, k);
			struct ckpt_zero z = { .kind = CKPT_ZERO_PADDING,
					       .prefix = prefix,
					       .group = (uint32_t)i,
					       .count = n.bits };

			if (n.kind != PICKLE_INT || (int64_t)n.bits < 0)
				w->ckpt->apart = "the paddings of its parameters make no sense";
			else
				st = note(w, z, "", err);
		}
	}
	return st;
}

enum plim_status zero_note(struct walk *w, const char *prefix, struct pickle_value dict,
			   struct plim_err *err)
{
	struct pickle_value v, paddings;
	uint32_t id;
	enum plim_status st = PLIM_OK;

	if (pickle_get(w->heap, dict, "param_shapes", &v) && v.kind == PICKLE_LIST) {
		id = ckpt_model_string(w->ckpt, prefix, strlen(prefix), &st, err);
		return st ? st : note_model(w, id, dict, v, err);
	}
	if (!pickle_get(w->heap, dict, "optimizer_state_dict", &v) || v.kind != PICKLE_DICT ||
	    !pickle_get(w->heap, v, "param_alignment_paddings", &paddings))
		return PLIM_OK;
	id = ckpt_model_string(w->ckpt, prefix, strlen(prefix), &st, err);
	return st ? st : note_paddings(w, id, paddings, err);
}

/* ---- what is where ---- */

struct list {
	uint32_t *at;
	size_t n;
};

struct zero {
	struct ckpt *ckpt;
	struct list by_name;  /* tensor + 1, by its name's id */
	struct list whole_of; /* whole + 1, by its name's id */
	struct list optims,
		states; /* prefixes of the ranks' files: optimizer states, of stage 3 model states */
	struct list flats; /* tensors: of each group, of each rank */
	uint32_t model;    /* prefix of rank 0's model states */
	bool sharded;      /* stage 3 */
};

static enum plim_status list_new(struct zero *z, struct list *l, size_t n, struct plim_err *err)
{
	*l = (struct list){ mem_new(z->ckpt->mem, n, sizeof(*l->at), err), n };
	return l->at ? PLIM_OK : mem_status(err);
}

static void list_free(struct zero *z, struct list *l)
{
	mem_free(z->ckpt->mem, l->at, l->n, sizeof(*l->at));
}

/* The tensor of that name in a file; CKPT_NONE: there is none. */
static uint32_t find_zero(const struct zero *z, uint32_t prefix, const char *between,
			  const char *name)
{
	char text[5000];
	int n = snprintf(text, sizeof(text), "%s%s%s", ckpt_text(z->ckpt, prefix), between, name);
	uint32_t id = n < (int)sizeof(text) ? intern_find(&z->ckpt->strings, text, (size_t)n)
					    : INTERN_NONE;

	return id == INTERN_NONE || id >= z->by_name.n || !z->by_name.at[id]
		       ? CKPT_NONE
		       : z->by_name.at[id] - 1;
}

/* "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt" with what = "optim_states.pt"; "bf16_" may be missing. */
static bool rank_of(const char *path, const char *what, unsigned *data, unsigned *model)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	int end = 0;

	name += !strncmp(name, "bf16_", 5) || !strncmp(name, "fp16_", 5) ? 5 : 0;
	return sscanf(name, "zero_pp_rank_%u_mp_rank_%u_%n", data, model, &end) == 2 && end &&
	       !strcmp(name + end, what);
}

/* The prefixes of all ranks' files, in the order of ranks; a gap leaves c->apart. */
static enum plim_status list_ranks(struct zero *z, const char *what, struct list *l,
				   struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	unsigned data, model;
	char prefix[1024];
	size_t n = 0;
	enum plim_status st;

	for (size_t i = 0; i < c->files.n; i++)
		n += rank_of(c->files.at[i].name, what, &data, &model);
	st = list_new(z, l, n, err);
	if (n && n < ckpt_fact_number(c, CKPT_FACT_WORLD))
		c->apart = "files of ranks are missing";
	for (size_t i = 0; !st && i < n; i++)
		l->at[i] = CKPT_NONE;
	for (size_t i = 0; !st && i < c->files.n; i++) {
		if (!rank_of(c->files.at[i].name, what, &data, &model))
			continue;
		if (model)
			c->apart = "its tensor-parallel ranks are split along dimensions that only "
				   "the model's code knows";
		else if (data >= n || l->at[data] != CKPT_NONE)
			c->apart = "files of ranks are missing";
		if (c->apart)
			break;
		snprintf(prefix, sizeof(prefix), "%s/", c->files.at[i].name);
		l->at[data] = ckpt_model_string(c, prefix, strlen(prefix), &st, err);
	}
	return st;
}

/* Of groups that are numbered from 0 on, all ranks' tensors. */
static enum plim_status list_flats(struct zero *z, struct plim_err *err)
{
	static const char *const keys[] = { "optimizer_state_dict.single_partition_of_fp32_groups.",
					    "optimizer_state_dict.fp32_flat_groups." };
	const struct ckpt *c = z->ckpt;
	char number[24] = "0";
	size_t groups = 0;
	enum plim_status st;

	z->sharded = find_zero(z, z->optims.at[0], keys[1], number) != CKPT_NONE;
	while (find_zero(z, z->optims.at[0], keys[z->sharded], number) != CKPT_NONE)
		snprintf(number, sizeof(number), "%zu", ++groups);
	st = list_new(z, &z->flats, groups * z->optims.n, err);
	for (size_t i = 0; !st && i < z->flats.n; i++) {
		const struct ckpt_tensor *t;

		snprintf(number, sizeof(number), "%zu", i / z->optims.n);
		z->flats.at[i] =
			find_zero(z, z->optims.at[i % z->optims.n], keys[z->sharded], number);
		t = z->flats.at[i] == CKPT_NONE ? NULL : &c->tensors.at[z->flats.at[i]];
		if (!t || t->rank != 1 || !ckpt_is_contiguous(c, t) ||
		    t->dtype != c->tensors.at[z->flats.at[0]].dtype ||
		    (t->count && t->extent == CKPT_NONE))
			z->ckpt->apart = "ranks have different groups";
		if (z->ckpt->apart)
			break;
	}
	return st;
}

static const struct ckpt_tensor *flat(const struct zero *z, size_t group, size_t rank)
{
	return &z->ckpt->tensors.at[z->flats.at[group * z->optims.n + rank]];
}

/* ---- wholes ---- */

/* A whole of no parts yet. */
static enum plim_status begin_zero(struct zero *z, const struct ckpt_zero *p,
				   const struct ckpt_dtype *dtype, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	struct ckpt_tensor t = { .name = p->name,
				 .location = CKPT_NONE,
				 .extent = CKPT_NONE,
				 .dtype = dtype,
				 .rank = p->rank,
				 .flags = CKPT_JOINED | CKPT_FLAT,
				 .first = (uint32_t)c->pieces.n };
	uint64_t sizes[CKPT_DIMS];
	enum plim_status st;

	for (size_t d = 0; d < p->rank; d++)
		sizes[d] = c->dims.at[p->dims + d];
	st = ckpt_model_lay(c, &t, sizes, NULL, err);
	z->whole_of.at[p->name] = (uint32_t)c->wholes.n + 1;
	return st ? st : vec_push(c->mem, &c->wholes, t, err);
}

/* The last whole goes on, at its element `at`, with n elements of a tensor. */
static enum plim_status go_on(struct zero *z, const struct ckpt_tensor *from, uint64_t offset,
			      uint64_t n, uint64_t at, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	struct ckpt_tensor t = *from;
	enum plim_status st;

	if (!n)
		return PLIM_OK;
	if (c->pieces.n >= UINT32_MAX / 2)
		return err_set(err, PLIM_E_LIMIT, "more parts of tensors than can be counted");
	t.rank = 1;
	t.parts = 0;
	t.offset += offset;
	st = ckpt_model_lay(c, &t, &n, &at, err);
	if (!st)
		st = vec_push(c->mem, &c->pieces, t, err);
	if (!st)
		c->wholes.at[c->wholes.n - 1].parts++;
	return st;
}

/* A tensor that lies in one piece, under a parameter's name. */
static enum plim_status take_as(struct zero *z, uint32_t tensor, uint32_t name,
				struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	struct ckpt_tensor t = c->tensors.at[tensor];

	t.name = name;
	t.parts = 0;
	z->whole_of.at[name] = (uint32_t)c->wholes.n + 1;
	return vec_push(c->mem, &c->wholes, t, err);
}

static const struct ckpt_zero *zero_entry(const struct zero *z, size_t i, enum ckpt_zero_kind kind,
					  uint32_t prefix)
{
	const struct ckpt_zero *p = &z->ckpt->zero.at[i];

	return p->kind == kind && p->prefix == prefix ? p : NULL;
}

/* ---- stages 1 and 2 ---- */

/* The next padding of a group, from *cursor on; false: there is none. */
static bool next_padding(const struct zero *z, size_t group, size_t *cursor, uint64_t *n)
{
	for (; *cursor < z->ckpt->zero.n; ++*cursor) {
		const struct ckpt_zero *p =
			zero_entry(z, *cursor, CKPT_ZERO_PADDING, z->optims.at[0]);

		if (!p || p->group != group)
			continue;
		*n = p->count;
		++*cursor;
		return true;
	}
	*n = 0;
	return false;
}

static uint64_t aligned(uint64_t n, size_t ranks)
{
	uint64_t to = 2 * (uint64_t)ranks;

	return (n + to - 1) / to * to;
}

static enum plim_status merge_group(struct zero *z, size_t group, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	uint64_t total = 0, at = 0, before = 0,
		 padding; /* before: elements of ranks below `rank` */
	size_t rank = 0, cursor = 0, n = c->zero.n;
	bool padded = next_padding(z, group, &cursor, &padding);
	enum plim_status st = PLIM_OK;

	cursor = 0;
	for (size_t r = 0; r < z->optims.n; r++)
		total += flat(z, group, r)->count;
	for (size_t i = 0; !st && i < n; i++) {
		const struct ckpt_zero *p = zero_entry(z, i, CKPT_ZERO_PARAMETER, z->model);

		if (!p || p->group != group)
			continue;
		if (p->count > total - at) {
			c->apart = "the groups are shorter than their parameters";
			return PLIM_OK;
		}
		st = begin_zero(z, p, flat(z, group, 0)->dtype, err);
		for (uint64_t done = 0; !st && done < p->count;) {
			const struct ckpt_tensor *t = flat(z, group, rank);
			uint64_t left = before + t->count - at, some = p->count - done;

			some = some < left ? some : left;
			st = go_on(z, t, at - before, some, done, err);
			done += some;
			at += some;
			if (at == before + t->count && rank + 1 < z->optims.n) {
				before = at;
				rank++;
			}
		}
		if (padded && !next_padding(z, group, &cursor, &padding))
			c->apart = "there are fewer paddings than parameters";
		if (padding > total - at)
			c->apart = "the groups are shorter than their parameters";
		if (c->apart)
			return st;
		for (at += padding;
		     rank + 1 < z->optims.n && at >= before + flat(z, group, rank)->count;)
			before += flat(z, group, rank++)->count;
	}
	if (!st && aligned(at, z->optims.n) != aligned(total, z->optims.n))
		c->apart = "the groups are longer than their parameters";
	return st;
}

/* ---- stage 3 ---- */

/* Elements that each rank has of n. */
static uint64_t part_of(uint64_t n, size_t ranks)
{
	return n / ranks + (n % ranks != 0);
}

/* n elements of a rank, of which `from` lie before them in its groups. */
static enum plim_status take_run(struct zero *z, size_t rank, uint64_t from, uint64_t n,
				 uint64_t at, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t g = 0; !st && n && g < z->flats.n / z->optims.n; g++) {
		const struct ckpt_tensor *t = flat(z, g, rank);
		uint64_t some = from < t->count ? t->count - from : 0;

		some = some < n ? some : n;
		st = go_on(z, t, from, some, at, err);
		from = some ? 0 : from - t->count;
		at += some;
		n -= some;
	}
	if (n)
		z->ckpt->apart = "the groups are shorter than their parameters";
	return st;
}

static enum plim_status merge_parts(struct zero *z, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	uint64_t from = 0, total = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && !c->apart && i < c->zero.n; i++) {
		const struct ckpt_zero *p = zero_entry(z, i, CKPT_ZERO_PARAMETER, z->model);
		uint64_t part = p ? part_of(p->count, z->optims.n) : 0, n = p ? p->count : 0;

		if (!p)
			continue;
		st = begin_zero(z, p, flat(z, 0, 0)->dtype, err);
		for (size_t r = 0; !st && n && !c->apart; r++) {
			uint64_t some = part < n ? part : n;

			st = take_run(z, r, from, some, p->count - n, err);
			n -= some;
		}
		from += part;
	}
	for (size_t g = 0; g < z->flats.n / z->optims.n; g++)
		total += flat(z, g, 0)->count;
	if (!st && !c->apart && from != total)
		c->apart = "the groups are longer than their parameters";
	return st;
}

/* ---- what is in no group ---- */

static enum plim_status merge_frozen(struct zero *z, const struct ckpt_zero *p,
				     struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	const char *name = ckpt_text(c, p->name);
	uint32_t tensor = find_zero(z, z->model, "frozen_param_fragments.", name);
	uint64_t n = p->count;
	enum plim_status st;

	if (tensor == CKPT_NONE) {
		c->apart = "a frozen parameter is not there";
		return PLIM_OK;
	}
	if (!z->sharded)
		return take_as(z, tensor, p->name, err);
	st = begin_zero(z, p, c->tensors.at[tensor].dtype, err);
	for (size_t r = 0; !st && n && r < z->states.n; r++) {
		const struct ckpt_tensor *t;
		uint64_t some;

		tensor = find_zero(z, z->states.at[r], "frozen_param_fragments.", name);
		t = tensor == CKPT_NONE ? NULL : &c->tensors.at[tensor];
		if (!t || !ckpt_is_contiguous(c, t) || t->extent == CKPT_NONE)
			break;
		some = t->count < n ? t->count : n;
		st = go_on(z, t, 0, some, p->count - n, err);
		n -= some;
	}
	if (!st && n)
		c->apart = "a frozen parameter is not there";
	return st;
}

static enum plim_status merge_others(struct zero *z, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && !c->apart && i < c->zero.n; i++) {
		const struct ckpt_zero p = c->zero.at[i];
		uint32_t at;

		if (p.prefix != z->model)
			continue;
		if (p.kind == CKPT_ZERO_FROZEN) {
			st = merge_frozen(z, &p, err);
		} else if (p.kind == CKPT_ZERO_BUFFER) {
			at = find_zero(z, z->model, "module.", ckpt_text(c, p.name));
			st = at == CKPT_NONE ? PLIM_OK : take_as(z, at, p.name, err);
		} else if (p.kind == CKPT_ZERO_SHARED && z->whole_of.at[p.other]) {
			struct ckpt_tensor t = c->wholes.at[z->whole_of.at[p.other] - 1];

			t.name = p.name;
			z->whole_of.at[p.name] = z->whole_of.at[p.other];
			st = vec_push(c->mem, &c->wholes, t, err);
		}
	}
	return st;
}

/* ---- all ---- */

static enum plim_status index_names(struct zero *z, struct plim_err *err)
{
	const struct ckpt *c = z->ckpt;
	enum plim_status st = list_new(z, &z->by_name, c->strings.n, err);

	if (!st)
		st = list_new(z, &z->whole_of, c->strings.n, err);
	for (size_t i = 0; !st && i < c->tensors.n; i++)
		z->by_name.at[c->tensors.at[i].name] = (uint32_t)i + 1;
	return st;
}

/* Which file the parameters are taken from: all of stage 3 say the same. */
static bool find_model(struct zero *z)
{
	static const char *const firsts[] = { "zero_pp_rank_0_mp_rank_00_model_states.pt/",
					      "mp_rank_00_model_states.pt/" };
	const struct ckpt *c = z->ckpt;

	for (size_t i = 0; i < c->zero.n; i++) {
		const char *prefix = ckpt_text(c, c->zero.at[i].prefix);
		const char *name = prefix + strlen(prefix);

		/* the last part, with its slash */
		for (name -= name > prefix; name > prefix && name[-1] != '/';)
			name--;
		z->model = c->zero.at[i].prefix;
		if (c->zero.at[i].kind == CKPT_ZERO_PARAMETER &&
		    ckpt_text_is_one_of(name, firsts, 2))
			return true;
	}
	return false;
}

static enum plim_status merge(struct zero *z, struct plim_err *err)
{
	struct ckpt *c = z->ckpt;
	enum plim_status st = list_ranks(z, "optim_states.pt", &z->optims, err);

	if (!st && !c->apart && !z->optims.n) /* DeepSpeed without ZeRO: weights are in one piece */
		return PLIM_OK;
	if (!st && !c->apart)
		st = list_ranks(z, "model_states.pt", &z->states, err);
	if (!st && !c->apart)
		st = index_names(z, err);
	if (!st && !c->apart)
		st = list_flats(z, err);
	if (!st && !c->apart && !z->flats.n)
		c->apart = "the optimizer's states hold no groups of fp32";
	for (size_t g = 0; !st && !c->apart && !z->sharded && g < z->flats.n / z->optims.n; g++)
		st = merge_group(z, g, err);
	if (!st && !c->apart && z->sharded)
		st = merge_parts(z, err);
	if (!st && !c->apart)
		st = merge_others(z, err);
	return st;
}

enum plim_status zero_plan(struct ckpt *c, struct plim_err *err)
{
	struct zero z = { .ckpt = c };
	enum plim_status st;

	if (!find_model(&z) || c->apart)
		return PLIM_OK;
	st = merge(&z, err);
	c->merged = !st && !c->apart && c->wholes.n;
	if (c->merged)
		st = ckpt_model_find(
			c, CKPT_NOTE, "merged", PLIM_UNKNOWN, err,
			"the weights are put together from the fp32 partitions of %zu rank%s "
			"(ZeRO-%s), as zero_to_fp32.py does; %zu tensor%s of the files, the "
			"optimizer's among them, %s not listed",
			z.optims.n, text_s(z.optims.n), z.sharded ? "3" : "1 or 2", c->tensors.n,
			text_s(c->tensors.n), text_are(c->tensors.n));
	else
		vec_release(c->mem, &c->wholes);
	list_free(&z, &z.by_name);
	list_free(&z, &z.whole_of);
	list_free(&z, &z.optims);
	list_free(&z, &z.states);
	list_free(&z, &z.flats);
	return st;
}
