/*
 * Tar archives.  torch.load takes a file for one if its first 512 bytes are a tar's header, whatever else they
 * are, before it looks for a pickle; it then unpickles the members "storages", "tensors" and "pickle" (torch
 * before 2017; refused with weights_only).  NeMo puts a checkpoint and its configuration into a tar.
 *
 * Every member that is a pickle is read for its names, every zip as the checkpoint that it is.
 */
#include "opcodes.h"
#include "parts.h"

#include <ctype.h>
#include <stdio.h>

#define MEMBERS 10000
#define MEMBER_BYTES ((uint64_t)64 << 20) /* of a pickle in it */

/* A number as Python's tarfile reads it: base 256, or octal with what int(text, 8) lets through. */
static bool read_tarred_number(const uint8_t *p, size_t n, uint64_t *v)
{
	size_t i = 1;

	*v = 0;
	if (*p == 0x80 || *p == 0xff) {
		for (; i < n; i++)
			*v = *v << 8 | p[i];
		return true;
	}
	for (i = 0; i < n && isspace(p[i]); i++)
		;
	i += i < n && p[i] == '+';
	i += i + 1 < n && p[i] == '0' && (p[i + 1] | 32) == 'o' ? 2 : 0;
	for (; i < n && ((p[i] >= '0' && p[i] <= '7') || p[i] == '_'); i++)
		*v = p[i] == '_' ? *v : *v << 3 | (uint64_t)(p[i] - '0');
	while (i < n && isspace(p[i]))
		i++;
	return i == n || !p[i];
}

bool tarred_is(const uint8_t *head, size_t n)
{
	uint64_t sum;

	return n >= TAR_BLOCK_BYTES && read_tarred_number(head + TAR_SUM_AT, TAR_SUM_BYTES, &sum) &&
	       tar_sum_is(head, sum);
}

struct tarred {
	struct ckpt *ckpt;
	uint32_t file;
	const char *prefix;
	size_t members, old, checkpoints; /* old: of torch's own tars */
};

/* A configuration of NeMo names what is to be called: _target_: package.Class. */
static enum plim_status note_target(struct ckpt *c, const char *name, const uint8_t *p, size_t n,
				    struct plim_err *err)
{
	static const char key[] = "_target_:";
	const uint8_t *at = memmem(p, n, key, sizeof(key) - 1), *end = p + n;
	size_t length = 0;

	if (!at)
		return PLIM_OK;
	at += sizeof(key) - 1;
	while (at < end && *at == ' ')
		at++;
	while (at + length < end && length < 200 && at[length] > ' ')
		length++;
	return ckpt_model_find(c, CKPT_NOTE, "target", PLIM_UNKNOWN, err,
			       "'%.200s' names what NeMo imports and calls (_target_: %.*s), which "
			       "is not looked at",
			       name, (int)length, (const char *)at);
}

static enum plim_status read_tarred_member(struct tarred *t, const struct tar_member *m,
					   struct plim_err *err)
{
	static const char *const old[] = { "storages", "tensors", "pickle" };
	struct ckpt *c = t->ckpt;
	uint64_t n = m->bytes < MEMBER_BYTES ? m->bytes : MEMBER_BYTES;
	uint64_t size = c->files.at[t->file].bytes;
	uint8_t *p;
	char name[1200];
	enum plim_status st;

	t->members++;
	if (m->type != TAR_FILE || !m->bytes)
		return PLIM_OK;
	if (m->offset > size || m->bytes > size - m->offset) {
		c->truncated = true;
		return ckpt_model_find(c, CKPT_BAD_FINDING, "truncated", size, err,
				       "the archive is cut inside its member '%.200s'", m->name);
	}
	snprintf(name, sizeof(name), "%s%.1000s/", t->prefix, m->name);
	st = ckpt_model_read(c, t->file, m->offset, n, n, "a member", &p, err);
	if (st)
		return st;
	if (n >= 4 && !memcmp(p, "PK\3\4", 4)) {
		t->checkpoints++;
		st = torch_read_zip(c, t->file, m->offset, m->bytes, name, err);
	} else if (opcodes_is_pickle(p, n)) {
		t->old += ckpt_text_is_one_of(m->name, old, 3);
		st = globals_seek(c, m->name, p, (size_t)n, NULL, err); /* between raw storages */
		if (!st && n < m->bytes)
			st = ckpt_model_find(c, CKPT_BAD_FINDING, "too_large", m->offset + n, err,
					     "only the first %llu bytes of '%.200s' were looked at",
					     (unsigned long long)n, m->name);
	}
	if (!st && (ckpt_text_ends(m->name, ".yaml") || ckpt_text_ends(m->name, ".yml")))
		st = note_target(c, m->name, p, (size_t)n, err);
	mem_free(c->mem, p, n, 1);
	return st;
}

static enum plim_status tell_tarred(const struct tarred *t, struct plim_err *err)
{
	struct ckpt *c = t->ckpt;
	const char *file = ckpt_model_file(c, t->file);

	if (t->old)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "tar", 0, err,
			"%.200s is a tar of torch before 2017, whose tensors are not read: "
			"convert it with torch <= 2.5 in a sandbox",
			file);
	if (t->checkpoints)
		return ckpt_model_find(
			c, CKPT_NOTE, "tar", 0, err,
			"%.200s is a tar of %zu member%s (NeMo?), %zu of them checkpoints, "
			"which were looked at",
			file, t->members, text_s(t->members), t->checkpoints);
	c->unreadable |= c->kind == CKPT_KIND_TAR;
	return ckpt_model_find(
		c, CKPT_BAD_FINDING, "tar", 0, err,
		"%.200s is a tar file, which torch.load takes for one of before 2017 and "
		"no other checkpoint is: unpack it",
		file);
}

enum plim_status tarred_read(struct ckpt *c, uint32_t file, const char *prefix,
			     struct plim_err *err)
{
	const struct source_options options = { .thread = SOURCE_THREAD_NONE,
						.kinds = SOURCE_REGULAR };
	struct tarred t = { .ckpt = c, .file = file, .prefix = prefix };
	struct tar_member m = { .name = NULL };
	struct plim_err why = { 0 };
	struct source *s = NULL;
	struct tar tar;
	char path[40];
	enum plim_status st;

	if (!c->kind)
		c->kind = CKPT_KIND_TAR;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", c->files.at[file].fd);
	if (c->files.at[file].memory)
		st = source_open_memory(c->mem, "a tar", c->files.at[file].memory,
					(size_t)c->files.at[file].bytes, SOURCE_MEMORY_PLAIN, NULL,
					&s, &why);
	else
		st = source_open(c->mem, path, &options, &s, &why);
	if (!st)
		tar_init(&tar, s);
	while (!st && t.members < MEMBERS && !(st = tar_next(&tar, &m, &why)) && m.name)
		st = read_tarred_member(&t, &m, &why);
	source_close(s);
	if (st == PLIM_E_FORMAT)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "tar_damaged", PLIM_UNKNOWN, err,
				     "%.200s: %s", ckpt_model_file(c, file), why.message);
	else if (st && err)
		*err = why;
	if (!st && t.members == MEMBERS)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "too_large", PLIM_UNKNOWN, err,
				     "more than %d members: the rest was not looked at", MEMBERS);
	return st ? st : tell_tarred(&t, err);
}
