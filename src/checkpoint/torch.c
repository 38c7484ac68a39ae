/*
 * torch.save since 1.6: a zip with one pickle and a record for each storage.  And TorchScript (torch.jit.save), which is
 * the same with code next to it, and with tensors in more than one pickle.
 */
#include "opcodes.h"
#include "parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ORDER_NUMBERS 32 /* that it takes to judge a byte order */

struct archive {
	struct ckpt *ckpt;
	struct zip zip;
	char prefix[1024]; /* of every record, with its slash */
	bool cut;          /* the directory is lost: records are where their own headers are */
	bool broken;       /* and that by damage, not because the file ends too early */
	bool script;
	const char *storages; /* folder of those that a pickle refers to: "data/" */
	uint32_t *by_name;    /* string -> extent + 1 */
	size_t names;
};

/* TorchScript keeps tensors that its code refers to apart. */
#define CONSTANTS "constants.pkl"

static uint32_t record(const struct archive *a, const char *name)
{
	char full[2048];

	snprintf(full, sizeof(full), "%s%s", a->prefix, name);
	return zip_find(a->ckpt, &a->zip, full);
}

/* Records by the number of their name: the first of equal names, as in torch. */
static enum plim_status index_records(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;

	a->names = c->strings.n;
	a->by_name = mem_new(c->mem, a->names, sizeof(*a->by_name), err);
	for (uint32_t i = a->zip.n; a->by_name && i--;)
		a->by_name[c->extents.at[a->zip.first + i].name] = a->zip.first + i + 1;
	return a->by_name ? PLIM_OK : mem_status(err);
}

static enum plim_status find_storage(void *ctx, const struct unpickle_storage *s, uint32_t *extent,
				     struct plim_err *err)
{
	struct archive *a = ctx;
	struct ckpt *c = a->ckpt;
	struct ckpt_extent *x;
	char name[1100];
	uint32_t id;

	snprintf(name, sizeof(name), "%s%s%.60s", a->prefix, a->storages, s->key);
	id = intern_find(&c->strings, name, strlen(name));
	*extent = id < a->names && a->by_name[id] ? a->by_name[id] - 1 : CKPT_NONE;
	if (*extent == CKPT_NONE && a->cut)
		return PLIM_OK;
	if (*extent == CKPT_NONE)
		return s->bytes
			       ? ckpt_model_find(
					 c, CKPT_BAD_FINDING, "missing_record", PLIM_UNKNOWN, err,
					 "record '%.200s' is %s", name,
					 a->zip.damaged ? "not in the directory, which is damaged: "
							  "torch.load fails"
							: "missing: the tensors in it are lost")
			       : PLIM_OK;
	x = &c->extents.at[*extent];
	if (x->bytes == s->bytes || x->state == CKPT_CUT)
		return PLIM_OK;
	x->state = CKPT_CUT; /* which of its bytes are the storage's, no one knows */
	return ckpt_model_find(c, CKPT_BAD_FINDING, "storage_size", x->offset, err,
			       "record '%.200s' has %llu bytes, its storage needs %llu", name,
			       (unsigned long long)x->bytes, (unsigned long long)s->bytes);
}

/*
 * A record that is a pickle: the tensors below it get `prefix` in front of their names; NULL: only what globals it
 * names is of interest.
 */
static enum plim_status read_pickle(struct archive *a, uint32_t at, const char *prefix,
				    struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	struct unpickle u = { .ckpt = c,
			      .prefix = prefix,
			      .storage = find_storage,
			      .ctx = a,
			      .script = a->script,
			      .outermost = prefix && !*prefix };
	struct plim_err why = { 0 };
	struct pickle_value root;
	const char *name = ckpt_text(c, c->extents.at[at].name);
	uint8_t *bytes;
	size_t n, used;
	enum plim_status st = zip_get(c, at, CKPT_PICKLE_BYTES, &bytes, &n, &why);

	pickle_heap_init(&u.heap, c->mem);
	if (!st)
		st = unpickle_decode(&u, name, bytes, n, &root, &used, &why);
	/* What torch does not read behind it another loader may. */
	if (!st && used < n)
		st = globals_seek(c, name, bytes + used, n - used, NULL, &why);
	mem_free(c->mem, bytes, n, 1);
	if (!st && prefix)
		st = unpickle_walk(&u, root, &why);
	if (st == PLIM_E_FORMAT)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "pickle", PLIM_UNKNOWN, err,
				     "'%.200s': %s", name, why.message);
	else if (st && err)
		*err = why;
	else if (!st && used < n)
		st = ckpt_model_find(
			c, CKPT_WARN, "after_pickle", c->extents.at[at].offset + used, err,
			"behind the pickle in '%.200s' there are more bytes, %zu: torch "
			"ignores them, other loaders do not",
			name, n - used);
	pickle_heap_release(&u.heap);
	return st;
}

/* ---- byte order ---- */

/* How many of some floats have exponents that no weight has, as read and swapped. */
static void exponents(const uint8_t *p, size_t n, unsigned width, size_t odd[2])
{
	for (size_t i = 0; i + width <= n; i += width) {
		uint16_t top[2] = { (uint16_t)(p[i + width - 1] << 8 | p[i + width - 2]),
				    (uint16_t)(p[i] << 8 | p[i + 1]) };

		for (int k = 0; k < 2; k++) {
			unsigned e = top[k] >> 7 &
				     255; /* 255: infinite or NaN, whichever way it is read */

			odd[k] += (e < 64 || (e > 191 && e < 255)) && top[k] & 0x7fff;
		}
	}
}

/* The first bytes of a record, up to n. */
static enum plim_status peek(struct ckpt *c, uint32_t extent, uint8_t *at, size_t n, size_t *got,
			     struct plim_err *err)
{
	struct extent_reader r;
	enum plim_status st = extent_open(&r, c, extent, 0, err);

	*got = 0;
	if (!st)
		st = extent_next(&r, at, n, got, err);
	extent_close(&r);
	return st;
}

/* Do the first floats look as if they were of the other order than the file says? */
static enum plim_status check_order(struct archive *a, bool big, size_t first, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	size_t odd[2] = { 0, 0 }, seen = 0;
	uint8_t p[4096];
	enum plim_status st = PLIM_OK;

	for (size_t i = first; !st && i < c->tensors.n && seen < 65536; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		size_t got;

		if (t->extent == CKPT_NONE || c->extents.at[t->extent].state == CKPT_CUT ||
		    (t->dtype->number != CKPT_F32 && t->dtype->number != CKPT_BF16))
			continue;
		st = peek(c, t->extent, p, sizeof(p), &got, err);
		exponents(p, got, t->dtype->number == CKPT_F32 ? 4 : 2, odd);
		seen += got / (t->dtype->number == CKPT_F32 ? 4 : 2);
	}
	if (!st && seen >= ORDER_NUMBERS && odd[big] * 4 > seen && odd[!big] * 100 < seen)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "byteorder", PLIM_UNKNOWN, err,
				       "the file says its numbers are %s-endian, but they are not: "
				       "torch would swap every number",
				       big ? "big" : "little");
	if (!st && big)
		st = ckpt_model_find(c, CKPT_WARN, "big_endian", PLIM_UNKNOWN, err,
				     "the numbers are big-endian: values are not looked at");
	return st;
}

/* ---- the small records ---- */

static enum plim_status read_small(struct archive *a, const char *name, char *text, size_t size,
				   bool *there, struct plim_err *err)
{
	uint32_t at = record(a, name);
	uint8_t *bytes;
	size_t n;
	enum plim_status st;

	text[0] = 0;
	*there = at != CKPT_NONE;
	if (!*there || a->ckpt->extents.at[at].state == CKPT_CUT)
		return PLIM_OK;
	st = zip_get(a->ckpt, at, 4096, &bytes, &n, err);
	if (st == PLIM_E_FORMAT || st == PLIM_E_LIMIT)
		return PLIM_OK;
	if (!st)
		snprintf(text, size, "%.*s", (int)n, (const char *)bytes);
	mem_free(a->ckpt->mem, bytes, n, 1);
	return st;
}

/* What `plimsoll ckpt repair` says of what it left out. */
static enum plim_status read_repaired(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	struct ckpt_fact f;
	char text[480];
	bool there;
	enum plim_status st = read_small(a, CKPT_FACT_REPAIRED, text, sizeof(text), &there, err);

	if (st || !text[0])
		return st;
	f.name = ckpt_model_printf(c, &st, err, "%s", CKPT_FACT_REPAIRED);
	f.value = ckpt_model_printf(c, &st, err, "%s", text);
	return st ? st : ckpt_model_fact(c, f, err);
}

static enum plim_status check_records(struct archive *a, size_t first, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	char text[64];
	bool there, there2 = false, big;
	long version;
	enum plim_status st = read_small(a, "version", text, sizeof(text), &there, err);

	if (!st && !there)
		st = read_small(a, ".data/version", text, sizeof(text), &there2, err);
	version = strtol(text, NULL, 10);
	if (!st && !there && !there2 && !a->cut)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "no_version", PLIM_UNKNOWN, err,
				     "the record 'version' is missing: torch.load fails");
	else if (!st && !a->cut && (version < 1 || version > 10))
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "version", PLIM_UNKNOWN, err,
				     "version '%.*s' is none that torch reads",
				     (int)strcspn(text, "\r\n"), text);
	if (!st)
		st = read_small(a, "byteorder", text, sizeof(text), &there, err);
	big = !strcmp(text, "big");
	c->big_endian |= big;
	if (!st && there && !a->cut && !big && strcmp(text, "little") != 0)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "byteorder", PLIM_UNKNOWN, err,
				     "byteorder '%.20s' is neither little nor big", text);
	if (!st)
		st = read_repaired(a, err);
	return st ? st : check_order(a, big, first, err);
}

/* A record that is read as what it is. */
static bool torch_is_known(const struct archive *a, const char *name)
{
	static const char *const known[] = { "data.pkl",           "version",
					     "byteorder",          ".format_version",
					     ".storage_alignment", ".data/serialization_id",
					     ".data/version",      CKPT_FACT_REPAIRED };
	size_t n = strlen(a->prefix);

	if (strncmp(name, a->prefix, n) != 0)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcasecmp(name + n, known[i])) /* as torch looks for them */
			return true;
	return a->script && !strcasecmp(name + n, CONSTANTS);
}

/* Of a record that nothing refers to: a pickle is read for the names in it. */
static enum plim_status check_unused(struct archive *a, uint32_t at, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	const struct ckpt_extent *x = &c->extents.at[at];
	const char *name = ckpt_text(c, x->name);
	uint64_t place = x->offset, bytes = x->bytes;
	uint8_t head[4096];
	size_t got;
	enum plim_status st = peek(c, at, head, sizeof(head), &got, err);
	bool pickle = !st && opcodes_is_pickle(head, got);

	if (pickle)
		st = read_pickle(a, at, NULL, err);
	/* TorchScript has sources, what shows their lines, the shapes of example inputs, and files of its user's. */
	if (st || a->script)
		return st;
	return pickle ? ckpt_model_find(c, CKPT_WARN, "extra_pickle", place, err,
					"'%.200s' holds a second pickle", name)
		      : ckpt_model_find(c, CKPT_NOTE, "unused_record", place, err,
					"'%.200s' (%llu bytes) belongs to no tensor", name,
					(unsigned long long)bytes);
}

static enum plim_status check_rest(struct archive *a, struct plim_err *err)
{
	const struct ckpt *c = a->ckpt;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = a->zip.first; !st && i < a->zip.first + a->zip.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[i];

		if (!x->tensors && x->bytes && x->state != CKPT_CUT &&
		    !torch_is_known(a, ckpt_text(c, x->name)))
			st = check_unused(a, i, err);
	}
	return st;
}

static enum plim_status note_deflated(struct archive *a, struct plim_err *err)
{
	for (uint32_t i = 0; i < a->zip.n; i++)
		if (a->ckpt->extents.at[a->zip.first + i].deflated)
			return ckpt_model_find(
				a->ckpt, CKPT_WARN, "deflated", PLIM_UNKNOWN, err,
				"records are compressed, which torch.save never does: "
				"torch.load(mmap=True) fails");
	return PLIM_OK;
}

/* Are all checksums there, none, or some?  None is a writer's choice. */
static enum plim_status check_protection(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	uint32_t off = 0, on = 0;

	for (uint32_t i = 0; i < a->zip.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[a->zip.first + i];

		off += x->check == CKPT_CHECK_OFF;
		on += x->check == CKPT_CHECK_CRC && x->bytes;
	}
	if (off && on)
		return ckpt_model_find(
			c, CKPT_WARN, "some_unprotected", PLIM_UNKNOWN, err,
			"%u of %u records %s no checksum, the others have: one writer "
			"does not do that",
			off, off + on, off == 1 ? "has" : "have");
	return PLIM_OK;
}

/* ---- a cut file ---- */

#define ZERO_PIECE_BYTES ((size_t)64 << 10)
#define ZEROS_TOLD_BYTES 4096 /* a page: fewer end many a file */

/* How many zeros the file ends in. */
static enum plim_status count_zeros(struct ckpt *c, uint32_t file, uint64_t *n,
				    struct plim_err *err)
{
	uint64_t end = c->files.at[file].bytes, at = end;
	uint8_t *p = mem_new(c->mem, ZERO_PIECE_BYTES, 1, err);
	enum plim_status st = p ? PLIM_OK : mem_status(err);
	size_t got = 0, left = 0;

	while (!st && !left && at) {
		size_t piece = at < ZERO_PIECE_BYTES ? (size_t)at : ZERO_PIECE_BYTES;

		at -= piece;
		st = ckpt_pread(c, file, at, p, piece, &got, err);
		for (left = got; left && !p[left - 1]; left--)
			;
	}
	*n = end - at - left;
	mem_free(c->mem, p, ZERO_PIECE_BYTES, 1);
	return st;
}

/* A file system that lost its last writes in a crash leaves the length right, and zeros. */
static enum plim_status note_zeros(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	uint64_t n;
	enum plim_status st = count_zeros(c, a->zip.file, &n, err);

	if (st || n < ZEROS_TOLD_BYTES)
		return st;
	return ckpt_model_find(
		c, CKPT_NOTE, "zero_tail", c->files.at[a->zip.file].bytes - n, err,
		"the last %llu bytes are zeros: never written, or lost when the machine "
		"crashed or the disk was full",
		(unsigned long long)n);
}

static enum plim_status tell_cut(struct archive *a, size_t first, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	uint32_t last = a->zip.n ? a->zip.first + a->zip.n - 1 : CKPT_NONE;
	bool cut = last != CKPT_NONE && c->extents.at[last].state == CKPT_CUT;
	const char *lost;
	size_t whole = ckpt_model_whole(c, first, &lost), all = c->tensors.n - first;

	if (a->broken)
		return ckpt_model_find(
			c, CKPT_NOTE, "salvaged", PLIM_UNKNOWN, err,
			"without the directory, by the records' own headers, %zu of %zu "
			"tensor%s %s whole%s%.200s%s",
			whole, all, text_s(all), text_are(all == 1 ? 1 : whole),
			lost ? "; the first that is not: '" : "", lost ? lost : "",
			lost ? "'" : "");
	c->truncated = true;
	return ckpt_model_find(c, CKPT_BAD_FINDING, "truncated", c->files.at[a->zip.file].bytes,
			       err, "%.200s is cut%s%.100s: %zu of %zu tensor%s %s whole%s%.200s%s",
			       ckpt_model_file(c, a->zip.file),
			       cut    ? " inside record "
			       : lost ? " between two records"
				      : " behind its tensors, in the directory",
			       cut ? ckpt_text(c, c->extents.at[last].name) : "", whole, all,
			       text_s(all), text_are(all == 1 ? 1 : whole),
			       lost ? "; the first that is not: '" : "", lost ? lost : "",
			       lost ? "'" : "");
}

/* ---- what it is ---- */

static void set_prefix(struct archive *a)
{
	const struct ckpt *c = a->ckpt;
	const char *name = a->zip.n ? ckpt_text(c, c->extents.at[a->zip.first].name) : "";
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) + 1 : 0;

	if (n >= sizeof(a->prefix))
		n = 0;
	memcpy(a->prefix, name, n);
	a->prefix[n] = 0;
}

#define AROUND_OTHERS "a zip around other checkpoints (unzip it),"

/* What else a zip is, by a record that only such a one has. */
static const struct {
	const char *ending, *is;
} other_zips[] = {
	{ ".npy", "a zip of NumPy arrays (.npz)" },
	{ "/extern_modules", "a package of torch.package, which is code" },
	{ ".weights.h5", "a model of Keras" },
	{ "/MANIFEST.MF", "a Java archive" },
	{ "_rels/.rels", "an Office document" },
	{ ".pt", AROUND_OTHERS },
	{ ".pth", AROUND_OTHERS },
	{ ".ckpt", AROUND_OTHERS },
	{ ".safetensors", AROUND_OTHERS },
	{ "pytorch_model.bin", AROUND_OTHERS },
};

/* NULL: not known. */
static const char *other_zip(const struct archive *a)
{
	for (size_t k = 0; k < sizeof(other_zips) / sizeof(other_zips[0]); k++)
		for (uint32_t i = 0; i < a->zip.n; i++) {
			const char *name =
				ckpt_text(a->ckpt, a->ckpt->extents.at[a->zip.first + i].name);

			if (ckpt_text_ends(name, other_zips[k].ending))
				return other_zips[k].is;
		}
	return NULL;
}

#define JUDGED_BYTES ((uint64_t)64 << 20) /* of a record of a zip that is not a checkpoint */

/* A record that is not read whole: if it begins as what may be unpickled, it is unknown. */
static enum plim_status judge_large(struct ckpt *c, uint32_t record, struct plim_err *err)
{
	uint8_t head[4096];
	struct extent_reader r;
	size_t n = 0;
	enum plim_status st = extent_open(&r, c, record, 0, err);

	if (!st)
		st = extent_next(&r, head, sizeof(head), &n, err);
	extent_close(&r);
	if (!st && (opcodes_is_pickle(head, n) || globals_is_objects(head, n)))
		c->pickled = c->many_globals = true;
	return st;
}

/* Other programs load what torch does not: pickles in a zip, arrays of objects in an .npz. */
static enum plim_status judge_others(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = a->zip.first; !st && i < a->zip.first + a->zip.n; i++) {
		struct plim_err why = { 0 };
		uint8_t *bytes;
		size_t n;

		if (c->extents.at[i].state == CKPT_CUT || c->extents.at[i].tensors)
			continue;
		if (c->extents.at[i].bytes > JUDGED_BYTES) {
			st = judge_large(c, i, err);
			continue;
		}
		st = zip_get(c, i, JUDGED_BYTES, &bytes, &n, &why);
		if (!st)
			st = globals_inside(c, ckpt_text(c, c->extents.at[i].name), bytes, n, &why);
		mem_free(c->mem, bytes, n, 1);
		if (st == PLIM_E_FORMAT)
			st = PLIM_OK; /* the scan says what cannot be read */
		else if (st && err)
			*err = why;
	}
	return st;
}

/* No pickle, or none that is whole. */
static enum plim_status refuse_zip(struct archive *a, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	const char *file = ckpt_model_file(c, a->zip.file);
	/* An object that cannot be pickled: the version is written last of all the same. */
	bool failed = record(a, "version") != CKPT_NONE && record(a, "data/0") == CKPT_NONE;
	const char *other = other_zip(a);

	enum plim_status st = judge_others(a, err);

	if (st)
		return st;
	c->truncated |= a->cut && !a->broken;
	c->unreadable |= !c->kind && !a->cut;
	if (!c->kind)
		c->kind = CKPT_KIND_ZIP;
	if (a->cut)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "truncated", PLIM_UNKNOWN, err,
				       "%.200s is cut before its first pickle ends: nothing can be "
				       "recovered",
				       file);
	if (failed && !other)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "no_pickle", PLIM_UNKNOWN, err,
			"%.200s was begun by torch.save, which then failed: the record "
			"data.pkl is not there",
			file);
	return ckpt_model_find(
		c, CKPT_BAD_FINDING, "no_pickle", PLIM_UNKNOWN, err,
		"%.200s is %s without the record data.pkl: not a checkpoint of torch", file,
		other ? other : "a zip");
}

/* ---- TorchScript ---- */

/* Is it a source file? */
static bool is_code(const struct archive *a, uint32_t at)
{
	const char *name = ckpt_text(a->ckpt, a->ckpt->extents.at[at].name);
	size_t n = strlen(a->prefix);

	return !strncmp(name, a->prefix, n) && !strncmp(name + n, "code/", 5) &&
	       ckpt_text_ends(name, ".py");
}

/* torch.load hands a file with that record to torch.jit.load; a cut one may have lost it. */
static bool is_script(const struct archive *a)
{
	bool found = record(a, CONSTANTS) != CKPT_NONE;

	for (uint32_t i = 0; a->cut && !found && i < a->zip.n; i++)
		found = is_code(a, a->zip.first + i);
	return found;
}

static enum plim_status judge_code(struct archive *a, uint32_t at, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	const char *name = ckpt_text(c, c->extents.at[at].name);
	struct plim_err why = { 0 };
	uint8_t *code;
	size_t n;
	enum plim_status st = zip_get(c, at, JUDGED_BYTES, &code, &n, &why);

	if (!st)
		st = script_judge(c, name, (const char *)code, n, &why);
	mem_free(c->mem, code, n, 1);
	if (st == PLIM_E_FORMAT) /* it cannot be read, or is larger than any code */
		return ckpt_model_find(c, CKPT_BAD_FINDING, "code", c->extents.at[at].offset, err,
				       "the code in '%.200s' cannot be looked at", name);
	if (st && err)
		*err = why;
	return st;
}

/* Tensors that stand in the code, and how much code there is. */
static enum plim_status read_script(struct archive *a, const char *prefix, struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	char name[400];
	unsigned files = 0;
	uint64_t bytes = 0;
	uint32_t at = record(a, CONSTANTS);
	enum plim_status st = PLIM_OK;

	if (at != CKPT_NONE && c->extents.at[at].state != CKPT_CUT) {
		snprintf(name, sizeof(name), "%sconstants/", prefix);
		a->storages = "constants/";
		st = read_pickle(a, at, name, err);
	}
	for (uint32_t i = a->zip.first; !st && i < a->zip.first + a->zip.n; i++) {
		if (!is_code(a, i))
			continue;
		files++;
		bytes += c->extents.at[i].bytes;
		st = judge_code(a, i, err);
	}
	return st ? st
		  : ckpt_model_find(
			    c, CKPT_WARN, "torchscript", PLIM_UNKNOWN, err,
			    "code is inside (TorchScript, %u file%s of %llu bytes): torch.jit.load "
			    "compiles it, torch.load(weights_only=True) refuses it",
			    files, text_s(files), (unsigned long long)bytes);
}

/* ---- torch.export ---- */

static enum plim_status read_exported(struct archive *a, const char *prefix, struct plim_err *err)
{
	size_t first = a->ckpt->tensors.n;
	enum plim_status st =
		exported_read(a->ckpt, &a->zip, a->by_name, a->names, a->prefix, prefix, err);

	if (!st)
		st = judge_others(a, err);
	return st ? st : check_records(a, first, err);
}

/* ---- all ---- */

/* A file of torch, `root` its pickle: all that is in it, and what must agree with it. */
static enum plim_status read_archive(struct archive *a, uint32_t root, const char *prefix,
				     struct plim_err *err)
{
	struct ckpt *c = a->ckpt;
	size_t first = c->tensors.n;
	enum plim_status st = PLIM_OK;

	if (!c->kind)
		c->kind = a->script ? CKPT_KIND_SCRIPT : CKPT_KIND_TORCH;
	if (c->kind == CKPT_KIND_TORCH) {
		c->root = root;
		c->root_bytes = c->extents.at[root].bytes;
	}
	if (!*a->prefix)
		st = ckpt_model_find(c, CKPT_BAD_FINDING, "no_folder", PLIM_UNKNOWN, err,
				     "%.200s was packed without the folder around its records: "
				     "torch.load refuses it",
				     ckpt_model_file(c, a->zip.file));
	if (!st)
		st = read_pickle(a, root, prefix, err);
	if (!st && a->script)
		st = read_script(a, prefix, err);
	if (!st)
		st = check_records(a, first, err);
	if (!st && !a->cut)
		st = check_rest(a, err);
	if (!st && !a->script)
		st = note_deflated(a, err);
	if (!st && a->cut)
		st = tell_cut(a, first, err);
	return !st && a->cut && !a->broken ? note_zeros(a, err) : st;
}

enum plim_status torch_read_zip(struct ckpt *c, uint32_t file, uint64_t base, uint64_t bytes,
				const char *prefix, struct plim_err *err)
{
	struct archive *a = mem_new(c->mem, 1, sizeof(*a), err);
	struct plim_err why = { 0 };
	uint32_t root;
	enum plim_status st;

	if (!a)
		return mem_status(err);
	a->ckpt = c;
	a->storages = "data/";
	st = zip_read(c, file, base, bytes, &a->zip, &why);
	a->broken = !st && a->zip.broken;
	if (st == PLIM_E_FORMAT || a->broken) {
		a->cut = true;
		c->extents.n = a->zip.first;
		st = zip_salvage(c, file, base, bytes, &a->zip, &why);
	}
	if (st && err)
		*err = why;
	set_prefix(a);
	a->script = is_script(a);
	if (!st)
		st = index_records(a, err);
	root = record(a, "data.pkl");
	if (!st && !a->cut && exported_is(c, &a->zip))
		st = read_exported(a, prefix, err);
	else if (!st && (root == CKPT_NONE || (a->cut && c->extents.at[root].state == CKPT_CUT)))
		st = refuse_zip(a, err);
	else if (!st)
		st = read_archive(a, root, prefix, err);
	if (!st)
		st = check_protection(a, err);
	mem_free(c->mem, a->by_name, a->names, sizeof(*a->by_name));
	mem_free(c->mem, a, 1, sizeof(*a));
	return st;
}
