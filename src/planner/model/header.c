/*
 * A checkpoint without its config: the family is the one whose rows its tensors' names are, and the numbers are read
 * off their shapes.  What shapes do not say (how wide a head is, where nothing is normalised by head) is guessed,
 * so the model is; but its parameters must come out as they stand in the file.
 */
#include "tables.h"

#include <stdio.h>

struct header {
	struct ckpt ckpt;
	uint32_t *tensor_of;   /* of a name's id: tensor + 1 */
	uint64_t letters[128]; /* what shapes say */
	uint64_t elements;
};

static const struct ckpt_tensor *find_header(const struct header *h, const struct model_section *s,
					     const char *row, const char *part, uint32_t block)
{
	const char *number = strstr(s->prefix, "%u");
	char name[MODEL_NAME_BYTES];
	uint32_t id;

	if (number)
		snprintf(name, sizeof(name), "%.*s%u%s%s%s", (int)(number - s->prefix), s->prefix,
			 block, number + 2, row, part);
	else
		snprintf(name, sizeof(name), "%s%s%s", s->prefix, row, part);
	id = intern_find(&h->ckpt.strings, name, strlen(name));
	return id == INTERN_NONE || !h->tensor_of[id] ? NULL
						      : &h->ckpt.tensors.at[h->tensor_of[id] - 1];
}

static const struct ckpt_tensor *find_row(const struct header *h, const struct model_section *s,
					  const struct model_row *row, uint32_t block)
{
	bool whole = row->kind == MODEL_PARAMETER || row->kind == MODEL_EXPERTS;

	return find_header(h, s, row->name, whole ? "" : ".weight", block);
}

/* All rows that a family's first block has in any case are there. */
static bool is_family(const struct header *h, const struct model_family *f)
{
	size_t found = 0;

	for (const struct model_section *s = f->sections; s->prefix; s++)
		for (const struct model_row *row = s->rows; strstr(s->prefix, "%u") && row->name;
		     row++) {
			if (row->when)
				continue;
			if (!find_row(h, s, row, 0))
				return false;
			found++;
		}
	return found > 0;
}

static const struct {
	char letter;
	uint16_t offset;
} sizes[] = {
	{ 'V', offsetof(struct model_numbers, vocab) },
	{ 'H', offsetof(struct model_numbers, hidden) },
	{ 'F', offsetof(struct model_numbers, intermediate) },
	{ 'P', offsetof(struct model_numbers, positions) },
	{ 'Y', offsetof(struct model_numbers, types) },
	{ 'D', offsetof(struct model_numbers, head_dim) },
	{ 'E', offsetof(struct model_numbers, experts) },
	{ 'M', offsetof(struct model_numbers, expert_intermediate) },
	{ 'S', offsetof(struct model_numbers, shared_intermediate) },
};

static const struct {
	unsigned condition;
	uint16_t offset;
} switches[] = {
	{ IF(QKV_BIAS), offsetof(struct model_numbers, qkv_bias) },
	{ IF(OUTPUT_BIAS), offsetof(struct model_numbers, output_bias) },
	{ IF(MLP_BIAS), offsetof(struct model_numbers, mlp_bias) },
	{ IF(HEAD_BIAS), offsetof(struct model_numbers, head_bias) },
	{ IF(QK_NORM), offsetof(struct model_numbers, qk_norm) },
};

static void set_switch(struct model_numbers *n, uint64_t condition, bool is)
{
	for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
		if (condition == switches[i].condition)
			*((bool *)n + switches[i].offset) = is;
}

/* Words of one letter, perhaps behind a digit, say what the letter is. */
static void read_shape(struct header *h, const struct model_row *row, const struct ckpt_tensor *t)
{
	const uint64_t *dims = ckpt_shape(&h->ckpt, t);
	const char *s = row->shape;

	for (uint16_t i = 0; i < t->rank && *s; i++) {
		uint64_t times = *s >= '1' && *s <= '9' ? (uint64_t)(*s++ - '0') : 1;

		if (*s && (!s[1] || s[1] == ' '))
			h->letters[(unsigned char)*s & 127] = dims[i] / times;
		s += strcspn(s, " ");
		s += *s == ' ';
	}
}

static void read_rows(struct header *h, const struct model_family *f, struct model_numbers *n)
{
	for (const struct model_section *s = f->sections; s->prefix; s++)
		for (const struct model_row *row = s->rows; row->name; row++) {
			const struct ckpt_tensor *t = find_row(h, s, row, 0);

			set_switch(n, row->bias, find_header(h, s, row->name, ".bias", 0));
			set_switch(n, row->when, t);
			if (t && row->role == MODEL_ROLE_NORM2_OUT)
				n->norm_place = MODEL_NORM_AROUND;
			if (row->role == MODEL_ROLE_HEAD && row->when & IF(LM))
				n->tied = !t;
			if (t)
				read_shape(h, row, t);
		}
}

static uint64_t count_blocks(const struct header *h, const struct model_family *f)
{
	const struct model_section *s = f->sections;
	uint32_t n = 0;

	while (!strstr(s->prefix, "%u"))
		s++;
	while (n < MODEL_BLOCKS && find_row(h, s, s->rows, n))
		n++;
	return n;
}

#define WIDE_HEAD 128 /* in models of that width and more */
#define WIDE_MODEL 2048
#define NARROW_HEAD 64

static void take_numbers(struct header *h, const struct model_family *f, struct model_numbers *n)
{
	uint64_t queries, keys;

	*n = f->towers[MODEL_TEXT].defaults;
	n->head_dim = n->kv_heads = 0;
	read_rows(h, f, n);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (h->letters[(unsigned char)sizes[i].letter])
			*(uint64_t *)(void *)((char *)n + sizes[i].offset) =
				h->letters[(unsigned char)sizes[i].letter];
	n->layers = count_blocks(h, f);
	queries = h->letters['Q'] ? h->letters['Q'] : n->hidden;
	keys = h->letters['K'] ? h->letters['K'] : queries;
	if (h->letters['W'] > queries) /* all three in one */
		keys = (h->letters['W'] - queries) / 2;
	if (!n->head_dim) {
		n->head_dim = n->hidden >= WIDE_MODEL ? WIDE_HEAD : NARROW_HEAD;
		while (n->head_dim > 1 && (queries % n->head_dim || keys % n->head_dim))
			n->head_dim /= 2;
	}
	n->heads = queries / n->head_dim;
	n->kv_heads = keys / n->head_dim;
}

/* What is not a parameter in spite of standing in the file. */
static bool is_buffer(const char *name)
{
	static const char *const ends[] = { "inv_freq", "position_ids", ".attn.bias",
					    ".masked_bias" };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t n = strlen(ends[i]);

		if (length >= n && !strcmp(name + length - n, ends[i]))
			return true;
	}
	return false;
}

static enum plim_status index_names(struct header *h, struct model *m, struct plim_err *err)
{
	h->tensor_of = mem_new(m->mem, h->ckpt.strings.n, sizeof(*h->tensor_of), err);
	if (!h->tensor_of)
		return mem_status(err);
	for (size_t i = 0; i < h->ckpt.tensors.n; i++) {
		const struct ckpt_tensor *t = &h->ckpt.tensors.at[i];

		if (is_buffer(ckpt_text(&h->ckpt, t->name)))
			continue;
		h->tensor_of[t->name] = (uint32_t)i + 1;
		h->elements += t->count;
		if (!m->dtype)
			m->dtype = t->dtype;
	}
	return PLIM_OK;
}

static const struct model_family *family_of(const struct header *h)
{
	const struct model_family *const files[] = { model_decoders, model_encoders };
	const size_t counts[] = { model_decoder_count, model_encoder_count };

	for (size_t file = 0; file < sizeof(files) / sizeof(files[0]); file++)
		for (size_t i = 0; i < counts[file]; i++)
			if (!files[file][i].towers[MODEL_ENCODER].defaults.layers &&
			    is_family(h, &files[file][i]))
				return &files[file][i];
	return NULL;
}

static enum plim_status read_model_header(struct header *h, struct model *m, const char *path,
					  struct plim_err *err)
{
	const struct model_family *f;
	struct model_totals totals;
	enum plim_status st = ckpt_read(&h->ckpt, path, err);

	if (!st && h->ckpt.kind == CKPT_KIND_GGUF)
		return model_read_gguf(m, &h->ckpt, path, err);
	if (!st)
		st = ckpt_join(&h->ckpt, err);
	if (!st)
		st = index_names(h, m, err);
	if (st)
		return st;
	if (!h->ckpt.tensors.n)
		return err_set(
			err, PLIM_E_FORMAT,
			"'%.200s' is neither a config.json nor a checkpoint, and has none in it",
			path);
	f = family_of(h);
	if (!f)
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "'%.200s' has tensors of no architecture that is known by their "
			       "names: give its config.json",
			       path);
	m->family = f->name;
	m->adapters = f->adapters;
	m->forward = f->forward;
	m->guessed = m->from_header = true;
	take_numbers(h, f, &m->towers[MODEL_TEXT]);
	st = model_derive(&m->towers[MODEL_TEXT], path, err);
	if (!st)
		st = model_build(m, f, f->heads->has, err);
	if (st)
		return st;
	model_get_totals(m, ckpt_dtype_of_torch("float32"), &totals);
	if (totals.parameters == h->elements)
		return PLIM_OK;
	return err_set(err, PLIM_E_UNSUPPORTED,
		       "'%.200s' has %llu parameters, one like %s would have %llu: give its "
		       "config.json",
		       path, (unsigned long long)h->elements, f->name,
		       (unsigned long long)totals.parameters);
}

enum plim_status model_read_header(struct model *m, const char *path, struct plim_err *err)
{
	struct header h = { .tensor_of = NULL };
	enum plim_status st;

	ckpt_init(&h.ckpt, m->mem);
	st = read_model_header(&h, m, path, err);
	mem_free(m->mem, h.tensor_of, h.tensor_of ? h.ckpt.strings.n : 0, sizeof(*h.tensor_of));
	ckpt_close(&h.ckpt);
	return st;
}
