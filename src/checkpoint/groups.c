/* Tensors by what their names begin with, as deep as fits into a table. */
#include "parts.h"

#include <stdio.h>

#define DEPTH 8

/* Length of the first `depth` parts of a name, without its last part. */
static size_t prefix_of(const char *name, unsigned depth)
{
	size_t n = 0, at = 0;

	for (unsigned i = 0; i < depth; i++) {
		size_t part = strcspn(name + at, "./");

		if (!name[at + part])
			break;
		n = at + part;
		at = n + 1;
	}
	return n;
}

static void add_word(char *text, size_t size, const char *word)
{
	size_t n = strlen(text), k = strlen(word);
	const char *at = strstr(text, word);

	if (at && (at == text || at[-1] == ' ') && (!at[k] || at[k] == ','))
		return;
	snprintf(text + n, size - n, "%s%s", n ? ", " : "", word);
}

/* All tensors by prefixes of some depth; false when that makes too many rows. */
static bool group(const struct ckpt *c, struct ckpt_groups *g, unsigned depth, enum plim_status *st,
		  struct plim_err *err)
{
	intern_init(&g->prefixes, c->mem);
	memset(g->rows, 0, sizeof(g->rows));
	for (size_t i = 0; !*st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const char *name = ckpt_text(c, t->name);
		uint32_t id;

		*st = intern_add(&g->prefixes, name, prefix_of(name, depth), &id, err);
		if (*st || id >= CKPT_GROUPS)
			return false;
		g->rows[id].tensors++;
		g->rows[id].bytes += ckpt_tensor_bytes(t);
		add_word(g->rows[id].dtypes, sizeof(g->rows[id].dtypes), t->dtype->name);
		if (t->location != CKPT_NONE)
			add_word(g->rows[id].devices, sizeof(g->rows[id].devices),
				 ckpt_text(c, t->location));
	}
	return true;
}

enum plim_status ckpt_group(const struct ckpt *c, struct ckpt_groups *g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	unsigned depth = DEPTH;

	while (depth && !group(c, g, depth, &st, err)) {
		intern_release(&g->prefixes);
		depth--;
	}
	if (!depth)
		group(c, g, 0, &st, err);
	return st;
}

void ckpt_groups_release(struct ckpt_groups *g)
{
	intern_release(&g->prefixes);
}
