/*
 * torch.save before 1.6 (and with _use_new_zipfile_serialization=False): five pickles, then storages.
 *
 *	magic number | version 1001 | system | the object | keys of storages |
 *	for each key: i64 count, count elements
 *
 * No lengths, no checksums: the only proof is that everything adds up to the file's end.  torch.load compares
 * the magic number by its value, so that however it is written the four other pickles are loaded.  A file whose first
 * pickle is something else is a bare pickle, and others may be stacked behind it.
 */
#include "opcodes.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

#define TAIL_BYTES ((uint64_t)64 << 20) /* behind a bare pickle, where others may follow */

struct legacy_storage {
	uint32_t key, extent;
	uint64_t bytes;
};

struct legacy {
	struct ckpt *ckpt;
	uint32_t file;
	VEC(struct legacy_storage) storages;
	uint32_t *slots; /* string id -> storage + 1 */
	size_t slot_count;
};

static enum plim_status find_storage(void *ctx, const struct unpickle_storage *s, uint32_t *extent,
				     struct plim_err *err)
{
	struct legacy *l = ctx;
	struct ckpt *c = l->ckpt;
	struct legacy_storage new = { .bytes = s->bytes };
	struct ckpt_extent x = {
		.file = l->file, .bytes = s->bytes, .stored_bytes = s->bytes, .state = CKPT_CUT
	};
	size_t before = l->slot_count;
	enum plim_status st = PLIM_OK;

	/* torch asks the class for a dtype, which UntypedStorage has not. */
	c->refused |= !strcmp(s->dtype->name, "bytes");
	new.key = ckpt_model_string(c, s->key, strlen(s->key), &st, err);
	if (st)
		return st;
	if (new.key >= l->slot_count) {
		st = mem_grow(c->mem, &l->slots, &l->slot_count, (size_t) new.key + 1,
			      sizeof(*l->slots), err);
		if (st)
			return st;
		memset(l->slots + before, 0, (l->slot_count - before) * sizeof(*l->slots));
	}
	if (l->slots[new.key]) {
		const struct legacy_storage *old = &l->storages.at[l->slots[new.key] - 1];

		*extent = old->bytes == s->bytes ? old->extent : CKPT_NONE;
		return old->bytes == s->bytes
			       ? PLIM_OK
			       : ckpt_model_find(c, CKPT_BAD_FINDING, "storage_size", PLIM_UNKNOWN,
						 err, "storage '%.60s' has two sizes", s->key);
	}
	x.name = new.key;
	new.extent = *extent = (uint32_t)c->extents.n;
	st = vec_push(c->mem, &c->extents, x, err);
	if (!st)
		st = vec_push(c->mem, &l->storages, new, err);
	if (!st)
		l->slots[new.key] = (uint32_t)l->storages.n;
	return st;
}

/* A bare pickle holds no storages; one that refers to some is not whole without them. */
static enum plim_status no_storage(void *ctx, const struct unpickle_storage *s, uint32_t *extent,
				   struct plim_err *err)
{
	struct legacy *l = ctx;

	*extent = CKPT_NONE;
	return ckpt_model_find(l->ckpt, CKPT_BAD_FINDING, "missing_record", PLIM_UNKNOWN, err,
			       "storage '%.60s' is not in the file: a pickle without its data",
			       s->key);
}

/* ---- the storages ---- */

/* Give each key its place; *at moves behind the last one that is whole. */
static enum plim_status place_storages(struct legacy *l, const struct unpickle *u,
				       struct pickle_value keys, uint64_t *at, struct plim_err *err)
{
	struct ckpt *c = l->ckpt;
	uint64_t size = c->files.at[l->file].bytes;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < pickle_len(&u->heap, keys); i++) {
		struct pickle_value v = pickle_item(&u->heap, keys, i);
		uint32_t key =
			v.kind == PICKLE_STR
				? intern_find(&c->strings,
					      intern_text(&u->heap.strings, (uint32_t)v.bits),
					      u->heap.strings.at[v.bits].n)
				: INTERN_NONE;
		struct legacy_storage *s = key < l->slot_count && l->slots[key]
						   ? &l->storages.at[l->slots[key] - 1]
						   : NULL;
		struct ckpt_extent *x = s ? &c->extents.at[s->extent] : NULL;
		uint64_t count = 0;
		size_t got;

		if (!s)
			return ckpt_model_find(c, CKPT_BAD_FINDING, "unknown_storage", *at, err,
					       "the file lists a storage that its pickle does not "
					       "refer to: what follows cannot be placed");
		st = ckpt_pread(c, l->file, *at, &count, 8, &got, err);
		if (st || got < 8)
			break;
		/* Elements, of a size that only the pickle knows. */
		if (s->bytes ? !count || s->bytes % count || s->bytes / count > 16 : count)
			return ckpt_model_find(
				c, CKPT_BAD_FINDING, "storage_size", *at, err,
				"storage '%.60s' has wrong size: the stream is shifted "
				"from here on",
				ckpt_text(c, key));
		x->offset = *at + 8;
		if (size - x->offset < s->bytes) {
			*at = size;
			break;
		}
		x->state = CKPT_UNREAD;
		*at = x->offset + s->bytes;
		c->whole_bytes += s->bytes;
	}
	return st;
}

static enum plim_status judge_legacy(struct legacy *l, size_t listed, uint64_t at, size_t first,
				     struct plim_err *err)
{
	struct ckpt *c = l->ckpt;
	uint64_t size = c->files.at[l->file].bytes;
	const char *lost;
	size_t whole = ckpt_model_whole(c, first, &lost), all = c->tensors.n - first;
	bool cut = false;

	for (size_t i = 0; i < l->storages.n; i++)
		cut |= c->extents.at[l->storages.at[i].extent].state == CKPT_CUT;
	if (listed < l->storages.n && at < size)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "missing_record", PLIM_UNKNOWN, err,
				       "%zu storages are used, %zu are listed", l->storages.n,
				       listed);
	if (cut) {
		c->truncated = true;
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "truncated", size, err,
			"%.200s is cut or shifted: %zu of %zu tensor%s %s whole%s%.200s%s",
			ckpt_model_file(c, l->file), whole, all, text_s(all),
			text_are(all == 1 ? 1 : whole), lost ? "; the first that is not: '" : "",
			lost ? lost : "", lost ? "'" : "");
	}
	if (at < size)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "trailing_bytes", at, err,
			"behind the last storage there are more bytes, %llu: torch ignores them",
			(unsigned long long)(size - at));
	return PLIM_OK;
}

/* ---- the pickles ---- */

struct stream {
	uint8_t *bytes;
	size_t n, cap, at, begin; /* begin: of the pickle that was read last */
};

/* Did the pickle want more than is in memory?  *err says where; `used` is where its last opcode began. */
static bool wants_more(const struct stream *s, size_t used, const struct plim_err *err)
{
	return s->at + used >= s->n || (err->offset != PLIM_UNKNOWN && err->offset >= s->n - s->at);
}

/*
 * The next pickle.  How long it is, is only known when it was read: when it reaches the end of what is
 * in memory, four times as much of the file is taken.
 */
static enum plim_status next_pickle(struct legacy *l, struct stream *s, struct unpickle *u,
				    const char *what, struct pickle_value *root,
				    struct plim_err *err)
{
	struct ckpt *c = l->ckpt;
	uint64_t size = c->files.at[l->file].bytes;
	size_t used;
	enum plim_status st;

	s->begin = s->at;
	for (;;) {
		size_t globals = c->globals.n;

		st = unpickle_decode(u, what, s->bytes + s->at, s->n - s->at, root, &used, err);
		if (st != PLIM_E_FORMAT || !wants_more(s, used, err) || s->n == size)
			break;
		if (s->n >= CKPT_PICKLE_BYTES)
			return err_set(err, PLIM_E_LIMIT, "a pickle of more than %llu bytes",
				       (unsigned long long)CKPT_PICKLE_BYTES);
		c->globals.n = globals;
		mem_free(c->mem, s->bytes, s->cap, 1);
		s->cap = s->n = s->n * 4 < size ? s->n * 4 : (size_t)size;
		st = ckpt_model_read(c, l->file, 0, s->n, CKPT_PICKLE_BYTES * 4, "the pickles",
				     &s->bytes, err);
		if (st)
			return st;
	}
	s->at += used;
	return st;
}

static enum plim_status read_stream(struct legacy *l, struct stream *s, struct unpickle *u,
				    struct plim_err *err)
{
	static const char *const what[] = { "", "the version", "the system's facts", "the pickle" };
	struct ckpt *c = l->ckpt;
	struct pickle_value root = { 0 }, little;
	uint64_t at;
	size_t first = c->tensors.n, begin = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 1; !st && i < 4; i++) {
		begin = s->at;
		st = next_pickle(l, s, u, what[i], &root, err);
		if (!st && i == 2 && root.kind == PICKLE_DICT &&
		    pickle_get(&u->heap, root, "little_endian", &little) && !little.bits) {
			c->big_endian = true;
			st = ckpt_model_find(c, CKPT_WARN, "big_endian", PLIM_UNKNOWN, err,
					     "the numbers are big-endian");
		}
	}
	if (!st && c->kind == CKPT_KIND_LEGACY) {
		c->root_at = begin;
		c->root_bytes = s->at - begin;
	}
	if (!st)
		st = unpickle_walk(u, root, err);
	/* torch computes the sizes of a nested tensor before it has read the storage that holds them. */
	c->refused |= u->nested;
	if (!st)
		st = unpickle_storages(u, err);
	if (!st)
		st = next_pickle(l, s, u, "the list of storages", &root, err);
	if (!st)
		st = ckpt_model_unchecked(c, l->file, "the pickles", 0, s->at, err);
	if (!st && root.kind != PICKLE_LIST)
		return err_set(err, PLIM_E_FORMAT, "the list of storages is none");
	at = s->at;
	if (!st)
		st = place_storages(l, u, root, &at, err);
	return st ? st : judge_legacy(l, pickle_len(&u->heap, root), at, first, err);
}

/* Whoever reads one pickle behind the other loads them all. */
static enum plim_status read_tail(struct legacy *l, const struct stream *s, struct plim_err *err)
{
	struct ckpt *c = l->ckpt;
	uint64_t left = c->files.at[l->file].bytes - s->at,
		 n = left < TAIL_BYTES ? left : TAIL_BYTES;
	uint8_t *p;
	size_t used = 0;
	enum plim_status st = ckpt_model_read(c, l->file, s->at, n, n, "the pickles", &p, err);

	if (!st)
		st = globals_seek(c, "a pickle behind the first", p, n, &used, err);
	mem_free(c->mem, p, n, 1);
	if (!st && used && n < left)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "too_large", s->at + n, err,
			"behind the first pickle others are stacked; only %llu bytes of "
			"them were looked at",
			(unsigned long long)n);
	if (st || left == used)
		return st ? st
			  : ckpt_model_find(
				    c, CKPT_NOTE, "stacked", s->at, err,
				    "behind the first pickle others are stacked, %llu bytes: "
				    "only their names were looked at",
				    (unsigned long long)used);
	return ckpt_model_find(c, CKPT_WARN, "after_pickle", s->at + used, err,
			       "behind the pickle there are more bytes, %llu",
			       (unsigned long long)(left - used));
}

/* *root: of the first pickle, which was read. */
static enum plim_status read_bare(struct legacy *l, const struct stream *s, struct unpickle *u,
				  struct pickle_value root, struct plim_err *err)
{
	struct pickle_value key;
	enum plim_status st;

	u->storage = no_storage;
	u->raw = s->bytes;
	u->raw_bytes = s->at;
	u->raw_first = l->ckpt->extents.n;
	u->raw_file = l->file;
	st = unpickle_walk(u, root, err);
	if (!st)
		st = ckpt_model_unchecked(l->ckpt, l->file, "the pickle", 0, s->at, err);
	if (!st && s->at < l->ckpt->files.at[l->file].bytes)
		st = read_tail(l, s, err);
	if (!st && u->outermost && pickle_get(&u->heap, root, "segments", &key) &&
	    pickle_get(&u->heap, root, "device_traces", &key)) {
		l->ckpt->unreadable = true;
		st = ckpt_model_find(l->ckpt, CKPT_BAD_FINDING, "recording", PLIM_UNKNOWN, err,
				     "%s is a recording of GPU memory, not a checkpoint: "
				     "'plimsoll report' reads it",
				     ckpt_model_file(l->ckpt, l->file));
	}
	return st;
}

/* 0x1950a86a20f9469cfc6c, however its pickle wrote it. */
static bool is_magic(const struct pickle_heap *h, struct pickle_value v)
{
	static const uint8_t magic[] = {
		0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19
	};
	const uint8_t *p;
	size_t n;

	if (v.kind != PICKLE_BIGINT)
		return false;
	p = (const uint8_t *)intern_text(&h->strings, (uint32_t)v.bits);
	n = h->strings.at[v.bits].n;
	while (n > sizeof(magic) && !p[n - 1])
		n--;
	return n == sizeof(magic) && !memcmp(p, magic, n);
}

enum plim_status legacy_read(struct ckpt *c, uint32_t file, const char *prefix,
			     struct plim_err *err)
{
	struct legacy l = { .ckpt = c, .file = file };
	struct unpickle u = { .ckpt = c,
			      .prefix = prefix,
			      .storage = find_storage,
			      .ctx = &l,
			      .outermost = !*prefix,
			      .arrays = true };
	struct stream s = { 0 };
	struct plim_err why = { 0 };
	struct pickle_value root;
	uint64_t size = c->files.at[file].bytes;
	enum plim_status st;
	bool magic;

	pickle_heap_init(&u.heap, c->mem);
	s.cap = s.n = size < 1 << 20 ? (size_t)size : 1 << 20;
	st = ckpt_model_read(c, file, 0, s.n, s.n, "the pickles", &s.bytes, &why);
	if (!st)
		st = next_pickle(&l, &s, &u, "the pickle", &root, &why);
	magic = !st && is_magic(&u.heap, root);
	if (!c->kind)
		c->kind = magic ? CKPT_KIND_LEGACY : CKPT_KIND_PICKLE;
	if (!st)
		st = magic ? read_stream(&l, &s, &u, &why) : read_bare(&l, &s, &u, root, &why);
	if (st == PLIM_E_FORMAT) {
		c->truncated =
			s.n == size && (u.cut || opcodes_is_cut(s.bytes + s.begin, s.n - s.begin));
		st = ckpt_model_find(c, CKPT_BAD_FINDING, c->truncated ? "truncated" : "pickle",
				     s.begin, err, "%.200s%s: %.600s", ckpt_model_file(c, file),
				     c->truncated ? " is cut before its first tensor" : "",
				     why.message);
	} else if (st && err) {
		*err = why;
	}
	pickle_heap_release(&u.heap);
	vec_release(c->mem, &l.storages);
	mem_free(c->mem, l.slots, l.slot_count, sizeof(*l.slots));
	mem_free(c->mem, s.bytes, s.cap, 1);
	return st;
}
