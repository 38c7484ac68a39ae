/*
 * Reading the bytes: checksums and values in one pass, by several threads.  Work is cut into parts of
 * PART_BYTES, so that one large record keeps all of them busy; the checksums of parts are combined.
 * Memory is a buffer a thread.
 */
#include "parts.h"

#include <fcntl.h>
#include <string.h>
#include <zlib.h>

#define PART_BYTES ((uint64_t)32 << 20)
#define CHUNK_BYTES ((size_t)128 << 10) /* stays in a core's second cache between read and sum */
#define THREADS 64
#define REPEATS ((uint64_t)64) /* times that views may cover the same bytes */

struct part {
	uint32_t extent, crc;
	uint64_t from, bytes;
	bool values;          /* tensors in it are looked at */
	bool shorter, broken; /* the file ends first; it does not inflate */
};

struct scan {
	struct ckpt *ckpt;
	unsigned flags;
	VEC(struct part) parts;
	uint32_t *by_extent, *first; /* tensors sorted by extent; where each extent's begin */
	_Atomic size_t next;
	_Atomic int failed; /* enum plim_status of the first failure */
	pthread_mutex_t lock;
	struct plim_err err;
};

/* ---- values of a chunk ---- */

/* The bytes from `at` on of an extent are at p: what tensors in it cover is looked at. */
static void look_scan(struct scan *s, uint32_t extent, uint64_t at, const uint8_t *p, uint64_t n)
{
	struct ckpt *c = s->ckpt;

	for (uint32_t i = s->first[extent]; i < s->first[extent + 1]; i++) {
		struct ckpt_tensor *t = &c->tensors.at[s->by_extent[i]];
		unsigned bits = t->dtype->bits / t->dtype->parts;
		uint64_t from = t->offset * t->dtype->bits / 8, to = from + ckpt_tensor_bytes(t);
		struct ckpt_values v = { 0 };

		if (from < at)
			from = at;
		if (to > at + n)
			to = at + n;
		if (from >= to || bits % 8 || !ckpt_is_dense(c, t))
			continue;
		values_add(&v, t->dtype->number, bits, p + (from - at),
			   (size_t)((to - from) * 8 / bits));
		pthread_mutex_lock(&s->lock);
		values_merge(&t->values, &v);
		pthread_mutex_unlock(&s->lock);
	}
}

static void take_scan(struct scan *s, struct part *part, uint64_t at, const uint8_t *p, size_t n)
{
	part->crc = crc_add(part->crc, p, n);
	if (part->values)
		look_scan(s, part->extent, at, p, n);
}

/* ---- parts ---- */

static enum plim_status read_stored(struct scan *s, struct part *part, uint8_t *buffer,
				    struct plim_err *err)
{
	const struct ckpt_extent *x = &s->ckpt->extents.at[part->extent];
	enum plim_status st = PLIM_OK;

	for (uint64_t done = 0; !st && done < part->bytes && !part->shorter;) {
		uint64_t left = part->bytes - done;
		size_t n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES, got;

		st = ckpt_pread(s->ckpt, x->file, x->offset + part->from + done, buffer, n, &got,
				err);
		if (!st)
			take_scan(s, part, part->from + done, buffer, got);
		part->shorter = got < n;
		done += got;
	}
	return st;
}

static enum plim_status read_deflated(struct scan *s, struct part *part, uint8_t *buffer,
				      struct plim_err *err)
{
	struct extent_reader r;
	enum plim_status st = extent_open(&r, s->ckpt, part->extent, 0, err);

	for (size_t got = 1; !st && got && !r.broken;) {
		uint64_t at = r.at;

		st = extent_next(&r, buffer, CHUNK_BYTES, &got, err);
		if (!st)
			take_scan(s, part, at, buffer, got);
	}
	part->broken = r.broken || r.at != part->bytes;
	extent_close(&r);
	return st;
}

/* Take parts until none is left or one failed. */
static void work_scan(struct scan *s, uint8_t *buffer)
{
	struct plim_err err = { 0 };
	enum plim_status st = PLIM_OK;
	size_t i;

	while (!st && !s->failed && (i = s->next++) < s->parts.n) {
		struct part *p = &s->parts.at[i];

		st = s->ckpt->extents.at[p->extent].deflated ? read_deflated(s, p, buffer, &err)
							     : read_stored(s, p, buffer, &err);
	}
	if (!st)
		return;
	pthread_mutex_lock(&s->lock);
	if (!s->failed)
		s->err = err;
	s->failed = st;
	pthread_mutex_unlock(&s->lock);
}

/* A helper that gets no memory is not a failure: the others do its part. */
static void *help(void *arg)
{
	struct scan *s = arg;
	uint8_t *buffer = mem_new(s->ckpt->mem, CHUNK_BYTES, 1, NULL);

	if (buffer)
		work_scan(s, buffer);
	mem_free(s->ckpt->mem, buffer, CHUNK_BYTES, 1);
	return NULL;
}

static enum plim_status run_scan(struct scan *s, unsigned threads, struct plim_err *err)
{
	pthread_t ids[THREADS];
	uint8_t *buffer = mem_new(s->ckpt->mem, CHUNK_BYTES, 1, err);
	unsigned n = 0;

	if (!buffer)
		return mem_status(err);
	if (!threads)
		threads = thread_processors();
	if (threads > THREADS)
		threads = THREADS;
	if (threads > s->parts.n)
		threads = (unsigned)s->parts.n;
	/* Nor is a thread that cannot be had. */
	while (n + 1 < threads && !thread_start(&ids[n], help, s))
		n++;
	work_scan(s, buffer);
	while (n)
		pthread_join(ids[--n], NULL);
	mem_free(s->ckpt->mem, buffer, CHUNK_BYTES, 1);
	if (s->failed && err)
		*err = s->err;
	return (enum plim_status)s->failed;
}

/* ---- what is to be read ---- */

/* Counting sort of tensors by extent. */
static enum plim_status sort_tensors(struct scan *s, struct plim_err *err)
{
	struct ckpt *c = s->ckpt;
	uint32_t at = 0;

	s->first = mem_new(c->mem, c->extents.n + 1, sizeof(*s->first), err);
	s->by_extent = mem_new(c->mem, c->tensors.n, sizeof(*s->by_extent), err);
	if (!s->first || !s->by_extent)
		return mem_status(err);
	for (size_t i = 0; i < c->extents.n; i++) {
		s->first[i] = at;
		at += c->extents.at[i].tensors;
	}
	s->first[c->extents.n] = at;
	for (size_t i = c->tensors.n; i--;)
		if (c->tensors.at[i].extent != CKPT_NONE)
			s->by_extent[s->first[c->tensors.at[i].extent] +
				     --c->extents.at[c->tensors.at[i].extent].tensors] =
				(uint32_t)i;
	for (size_t i = 0; i < c->extents.n; i++)
		c->extents.at[i].tensors = s->first[i + 1] - s->first[i];
	return PLIM_OK;
}

/*
 * Are the values of tensors in it worth looking at?  Views may cover the same bytes again and again: a small
 * file must not ask for work without end.
 */
static bool has_values(const struct scan *s, uint32_t extent)
{
	const struct ckpt *c = s->ckpt;
	uint64_t left = c->extents.at[extent].bytes * REPEATS;

	for (uint32_t i = s->first[extent]; i < s->first[extent + 1]; i++) {
		uint64_t n = ckpt_tensor_bytes(&c->tensors.at[s->by_extent[i]]);

		if (n > left)
			return false;
		left -= n;
	}
	return s->flags & CKPT_SCAN_VALUES && !c->big_endian &&
	       s->first[extent] < s->first[extent + 1];
}

static enum plim_status plan(struct scan *s, struct plim_err *err)
{
	struct ckpt *c = s->ckpt;
	enum plim_status st = sort_tensors(s, err);

	for (size_t i = 0; !st && i < c->extents.n; i++) {
		const struct ckpt_extent *x = &c->extents.at[i];
		bool values = has_values(s, (uint32_t)i);
		uint64_t most = x->deflated ? UINT64_MAX : PART_BYTES;

		/* With checksums off the sum is still made: only a sum of 0 is right next to a stored 0. */
		if (x->state == CKPT_CUT || (x->check == CKPT_CHECK_NOTHING && !values))
			continue;
		for (uint64_t from = 0; !st && (from < x->bytes || !from); from += most) {
			struct part p = { .extent = (uint32_t)i, .from = from, .values = values };

			p.bytes = x->bytes - from < most ? x->bytes - from : most;
			st = vec_push(c->mem, &s->parts, p, err);
			if (most == UINT64_MAX)
				break;
		}
	}
	return st;
}

/* ---- what came of it ---- */

static const char *tensor_in(const struct scan *s, uint32_t extent)
{
	const struct ckpt *c = s->ckpt;

	return c->extents.at[extent].tensors
		       ? ckpt_text(c, c->tensors.at[s->by_extent[s->first[extent]]].name)
		       : "";
}

/* Bytes without a checksum of their own: a manifest may vouch for the whole file. */
static void count_unchecked(struct ckpt *c, const struct ckpt_extent *x)
{
	bool sealed = c->files.at[x->file].sealed;

	if (x->inside)
		return;
	*(sealed ? &c->verified_bytes : &c->unprotected_bytes) += x->bytes;
	c->verified_records += sealed;
}

static enum plim_status judge_extent(struct scan *s, uint32_t i, uint32_t crc, bool shorter,
				     bool broken, struct plim_err *err)
{
	struct ckpt *c = s->ckpt;
	struct ckpt_extent *x = &c->extents.at[i];
	const char *name = ckpt_text(c, x->name), *tensor = tensor_in(s, i);

	if (shorter) {
		x->state = CKPT_CUT;
		return ckpt_model_find(c, CKPT_BAD_FINDING, "truncated", x->offset, err,
				       "the file became shorter while '%.200s' was read", name);
	}
	/* A checksum that was left out reads 0; a sum that is truly 0 is protected all the same. */
	if ((x->check == CKPT_CHECK_OFF && crc && !broken) || x->check == CKPT_CHECK_NOTHING) {
		count_unchecked(c, x);
		return PLIM_OK;
	}
	x->state = crc == x->crc && !broken ? CKPT_GOOD : CKPT_BAD;
	if (x->state == CKPT_GOOD) {
		c->verified_bytes += x->bytes;
		c->verified_records++;
		return PLIM_OK;
	}
	return ckpt_model_find(c, CKPT_BAD_FINDING, "crc_mismatch", x->offset, err,
			       "record '%.200s'%s%.200s%s is damaged: its bytes do not match their "
			       "checksum (%08x, stored %08x)",
			       name, *tensor ? " (tensor '" : "", tensor, *tensor ? "')" : "", crc,
			       x->crc);
}

static enum plim_status judge_parts(struct scan *s, struct plim_err *err)
{
	struct ckpt *c = s->ckpt;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < s->parts.n;) {
		uint32_t extent = s->parts.at[i].extent, crc = s->parts.at[i].crc;
		bool shorter = s->parts.at[i].shorter, broken = s->parts.at[i].broken;

		for (i++; i < s->parts.n && s->parts.at[i].extent == extent; i++) {
			crc = (uint32_t)crc32_combine(crc, s->parts.at[i].crc,
						      (z_off_t)s->parts.at[i].bytes);
			shorter |= s->parts.at[i].shorter;
		}
		st = judge_extent(s, extent, crc, shorter, broken, err);
	}
	for (size_t i = 0; i < c->extents.n; i++) /* not read, and nothing says that it is whole */
		if (c->extents.at[i].state == CKPT_UNREAD &&
		    c->extents.at[i].check == CKPT_CHECK_NOTHING &&
		    !(s->flags & CKPT_SCAN_VALUES && c->extents.at[i].tensors))
			count_unchecked(c, &c->extents.at[i]);
	return st;
}

/* Weights of that kind start at zero, and masks hold infinities on purpose. */
static bool starts_at_zero(const char *name)
{
	static const char *const parts[] = { "lora_B",    "lora_up", ".state.",
					     "bias",      "exp_avg", "momentum",
					     "optimizer", "mask",    "running_mean" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

static enum plim_status judge_values(struct ckpt *c, struct plim_err *err)
{
	size_t skipped = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];
		const struct ckpt_values *v = &t->values;
		const char *name = ckpt_text(c, t->name);
		bool mask = strstr(name, "mask") && !v->nan;

		skipped += t->count && t->extent != CKPT_NONE && !v->numbers &&
			   t->dtype->number != CKPT_BITS;
		if (v->nan || v->infinite)
			st = ckpt_model_find(
				c, mask ? CKPT_NOTE : CKPT_BAD_FINDING, "nonfinite", PLIM_UNKNOWN,
				err,
				"tensor '%.200s' holds %llu NaN and %llu infinite of %llu numbers",
				name, (unsigned long long)v->nan, (unsigned long long)v->infinite,
				(unsigned long long)v->numbers);
		else if (t->dtype->number == CKPT_BOOL && v->numbers && v->max > 1)
			st = ckpt_model_find(
				c, CKPT_WARN, "not_bool", PLIM_UNKNOWN, err,
				"tensor '%.200s' is bool and holds other bytes than 0 and 1, up "
				"to %.0f",
				name, v->max);
		else if (t->rank >= 2 && v->numbers >= 16 && v->constant && !starts_at_zero(name) &&
			 !(t->flags & CKPT_PART))
			st = ckpt_model_find(
				c, CKPT_WARN, v->zero == v->numbers ? "all_zero" : "constant",
				PLIM_UNKNOWN, err, "tensor '%.200s' holds %llu times %.9g", name,
				(unsigned long long)v->numbers, v->min);
	}
	if (!st && skipped)
		st = ckpt_model_find(c, CKPT_NOTE, "values_skipped", PLIM_UNKNOWN, err,
				     "the values of %zu tensor%s were not looked at (views with "
				     "gaps or repeats, "
				     "damaged or of another byte order)",
				     skipped, text_s(skipped));
	return st;
}

enum plim_status ckpt_scan(struct ckpt *c, unsigned flags, unsigned threads, struct plim_err *err)
{
	struct scan s = { .ckpt = c, .flags = flags };
	enum plim_status st = PLIM_OK;

	pthread_mutex_init(&s.lock, NULL);
	for (size_t i = 0; i < c->files.n; i++)
		posix_fadvise(c->files.at[i].fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	st = manifest_check(c, err);
	if (!st)
		st = plan(&s, err);
	if (!st)
		st = run_scan(&s, threads, err);
	if (!st)
		st = judge_parts(&s, err);
	if (!st && flags & CKPT_SCAN_VALUES)
		st = judge_values(c, err);
	vec_release(c->mem, &s.parts);
	mem_free(c->mem, s.first, c->extents.n + 1, sizeof(*s.first));
	mem_free(c->mem, s.by_extent, c->tensors.n, sizeof(*s.by_extent));
	pthread_mutex_destroy(&s.lock);
	return st;
}
