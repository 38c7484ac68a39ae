/* What must hold of a checkpoint that was read: every number in the model is of something that is there. */
#include "checkpoint.h"

static bool is_string(const struct ckpt *c, uint32_t s)
{
	return s == CKPT_NONE || s < c->strings.n;
}

static const char *check_extent(const struct ckpt *c, const struct ckpt_extent *x)
{
	if (x->file >= c->files.n || !is_string(c, x->name))
		return "an extent is of a file or a name that does not exist";
	if (x->offset + x->stored_bytes < x->offset)
		return "an extent ends before it begins";
	if (!x->deflated && x->state == CKPT_GOOD &&
	    (x->offset > c->files.at[x->file].bytes ||
	     x->stored_bytes > c->files.at[x->file].bytes - x->offset))
		return "an extent that was read is not in its file";
	return NULL;
}

static const char *check_tensor(const struct ckpt *c, const struct ckpt_tensor *t)
{
	uint64_t numbers = (uint64_t)t->rank * (t->flags & CKPT_CHUNK ? 3 : 2);

	if (!t->dtype || !is_string(c, t->name) || !is_string(c, t->location))
		return "a tensor has no dtype, or a name that does not exist";
	if (t->extent != CKPT_NONE && t->extent >= c->extents.n)
		return "a tensor is in an extent that does not exist";
	if (t->rank > CKPT_DIMS || t->dims > c->dims.n || numbers > c->dims.n - t->dims)
		return "a tensor's sizes are not there";
	if (t->flags & CKPT_JOINED)
		return t->first > c->pieces.n || t->parts > c->pieces.n - t->first
			       ? "a tensor has parts that do not exist"
			       : NULL;
	return t->parts && t->first >= c->tensors.n ? "a tensor is part of one that does not exist"
						    : NULL;
}

const char *ckpt_check(const struct ckpt *c)
{
	const char *broken = NULL;

	for (size_t i = 0; !broken && i < c->extents.n; i++)
		broken = check_extent(c, &c->extents.at[i]);
	for (size_t i = 0; !broken && i < c->tensors.n; i++)
		broken = check_tensor(c, &c->tensors.at[i]);
	for (size_t i = 0; !broken && i < c->pieces.n; i++)
		broken = check_tensor(c, &c->pieces.at[i]);
	for (size_t i = 0; !broken && i < c->findings.n; i++)
		if (!c->findings.at[i].kind || !is_string(c, c->findings.at[i].text))
			broken = "a finding has no kind or no words";
	for (size_t i = 0; !broken && i < c->keys.n; i++)
		if (!is_string(c, c->keys.at[i].name) || !is_string(c, c->keys.at[i].what))
			broken = "a key has a name that does not exist";
	for (size_t i = 0; !broken && i < c->seals.n; i++)
		if (c->seals.at[i].file >= c->files.n)
			broken = "a manifest's line is of a file that does not exist";
	return broken;
}
