/* The model of a checkpoint: strings, findings, tensors whose every product is checked. */
#include "parts.h"

#include <errno.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FACTS 1000
#define FINDINGS 8 /* of one kind are reported; the rest is counted */

void ckpt_init(struct ckpt *c, struct mem *m)
{
	*c = (struct ckpt){ .mem = m, .root = CKPT_NONE };
	intern_init(&c->strings, m);
}

void ckpt_close(struct ckpt *c)
{
	if (!c->mem)
		return;
	for (size_t i = 0; i < c->files.n; i++)
		if (c->files.at[i].fd >= 0)
			close(c->files.at[i].fd);
	vec_release(c->mem, &c->files);
	vec_release(c->mem, &c->extents);
	vec_release(c->mem, &c->tensors);
	vec_release(c->mem, &c->wholes);
	vec_release(c->mem, &c->pieces);
	vec_release(c->mem, &c->zero);
	vec_release(c->mem, &c->dims);
	vec_release(c->mem, &c->findings);
	vec_release(c->mem, &c->globals);
	vec_release(c->mem, &c->global_of);
	vec_release(c->mem, &c->keys);
	vec_release(c->mem, &c->optimizers);
	vec_release(c->mem, &c->facts);
	vec_release(c->mem, &c->seals);
	intern_release(&c->strings);
	c->mem = NULL;
}

uint32_t ckpt_model_string(struct ckpt *c, const char *text, size_t n, enum plim_status *st,
			   struct plim_err *err)
{
	uint32_t id = CKPT_NONE;

	if (!*st)
		*st = intern_add(&c->strings, text, n, &id, err);
	return id;
}

static uint32_t format(struct ckpt *c, enum plim_status *st, struct plim_err *err, const char *fmt,
		       va_list ap) __attribute__((format(printf, 4, 0)));
static uint32_t format(struct ckpt *c, enum plim_status *st, struct plim_err *err, const char *fmt,
		       va_list ap)
{
	char text[1000];
	int n = vsnprintf(text, sizeof(text), fmt, ap);

	return ckpt_model_string(c, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1, st,
				 err);
}

uint32_t ckpt_model_printf(struct ckpt *c, enum plim_status *st, struct plim_err *err,
			   const char *fmt, ...)
{
	va_list ap;
	uint32_t id;

	va_start(ap, fmt);
	id = format(c, st, err, fmt, ap);
	va_end(ap);
	return id;
}

uint32_t ckpt_model_path(struct ckpt *c, const char *name, enum plim_status *st,
			 struct plim_err *err)
{
	char path[2 * 256 + 600];
	int n = snprintf(path, sizeof(path), "%s%s", c->inside ? c->inside : "", name);

	if (!c->inside || n >= (int)sizeof(path))
		return ckpt_model_string(c, name, strlen(name), st, err);
	return ckpt_model_string(c, path, (size_t)n, st, err);
}

enum plim_status ckpt_model_find(struct ckpt *c, enum ckpt_severity severity, const char *kind,
				 uint64_t offset, struct plim_err *err, const char *fmt, ...)
{
	struct ckpt_finding f = { .severity = severity, .kind = kind, .offset = offset };
	enum plim_status st = PLIM_OK;
	size_t same = 0;
	va_list ap;

	for (size_t i = 0; i < c->findings.n; i++)
		same += !strcmp(c->findings.at[i].kind, kind);
	if (same > FINDINGS)
		return PLIM_OK;
	va_start(ap, fmt);
	f.text = format(c, &st, err, fmt, ap);
	va_end(ap);
	for (size_t i = 0; same && i < c->findings.n; i++)
		if (c->findings.at[i].text == f.text && c->findings.at[i].offset == offset)
			return st; /* of one record for each tensor in it */
	if (same == FINDINGS) {
		f.text = ckpt_model_printf(c, &st, err, "more of the same kind are not listed");
		f.offset = PLIM_UNKNOWN;
	}
	return st ? st : vec_push(c->mem, &c->findings, f, err);
}

const char *ckpt_model_file(const struct ckpt *c, uint32_t file)
{
	const char *name = c->files.at[file].name;

	return strcmp(name, c->path) ? name : "the file";
}

enum plim_status ckpt_model_fact(struct ckpt *c, struct ckpt_fact f, struct plim_err *err)
{
	for (size_t i = 0; i < c->facts.n; i++)
		if (c->facts.at[i].name == f.name && c->facts.at[i].value == f.value)
			return PLIM_OK;
	return c->facts.n < FACTS ? vec_push(c->mem, &c->facts, f, err) : PLIM_OK;
}

const char *ckpt_model_fact_of(const struct ckpt *c, const char *name)
{
	for (size_t i = 0; i < c->facts.n; i++)
		if (!strcmp(ckpt_text(c, c->facts.at[i].name), name))
			return ckpt_text(c, c->facts.at[i].value);
	return "";
}

enum plim_status ckpt_pread(const struct ckpt *c, uint32_t file, uint64_t offset, void *at,
			    size_t n, size_t *got, struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[file];

	*got = 0;
	if (f->memory) {
		*got = offset > f->bytes       ? 0
		       : n < f->bytes - offset ? n
					       : (size_t)(f->bytes - offset);
		memcpy(at, f->memory + (*got ? offset : 0), *got);
		return PLIM_OK;
	}
	while (*got < n) {
		ssize_t k = pread(f->fd, (char *)at + *got, n - *got, (off_t)(offset + *got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_errno(err, errno, "cannot read '%s' at byte %llu", f->name,
					 (unsigned long long)(offset + *got));
		if (!k)
			break;
		*got += (size_t)k;
	}
	return PLIM_OK;
}

int64_t ckpt_written_ns(const struct stat *info)
{
	return (int64_t)info->st_mtim.tv_sec * 1000000000 + (int64_t)info->st_mtim.tv_nsec;
}

enum plim_status ckpt_same(const struct ckpt *c, struct plim_err *err)
{
	for (size_t i = 0; i < c->files.n; i++) {
		const struct ckpt_file *f = &c->files.at[i];
		struct stat info;

		if (f->fd < 0)
			continue;
		if (fstat(f->fd, &info))
			return err_errno(err, errno, "cannot read '%s'", f->name);
		if ((uint64_t)info.st_size != f->bytes || ckpt_written_ns(&info) != f->written_ns)
			return err_set(err, PLIM_E_IO, "'%s' was changed while it was read",
				       f->name);
	}
	return PLIM_OK;
}

enum plim_status ckpt_model_read(struct ckpt *c, uint32_t file, uint64_t offset, uint64_t n,
				 uint64_t limit, const char *what, uint8_t **out,
				 struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[file];
	enum plim_status st;
	size_t got;

	*out = NULL;
	if (n > limit)
		return err_set(err, PLIM_E_LIMIT,
			       "%s of '%s' has %llu bytes; at most %llu are read", what, f->name,
			       (unsigned long long)n, (unsigned long long)limit);
	if (offset > f->bytes || n > f->bytes - offset)
		return err_set(err, PLIM_E_FORMAT,
			       "%s of '%s' ends %llu bytes behind the end of the file", what,
			       f->name, (unsigned long long)(offset + n - f->bytes));
	*out = mem_new(c->mem, (size_t)n, 1, err);
	if (!*out)
		return mem_status(err);
	st = ckpt_pread(c, file, offset, *out, (size_t)n, &got, err);
	if (!st && got < n)
		st = err_set(err, PLIM_E_IO, "'%s' became shorter while it was read", f->name);
	if (st) {
		mem_free(c->mem, *out, (size_t)n, 1);
		*out = NULL;
	}
	return st;
}

enum plim_status ckpt_model_unchecked(struct ckpt *c, uint32_t file, const char *name,
				      uint64_t offset, uint64_t bytes, struct plim_err *err)
{
	struct ckpt_extent x = {
		.file = file, .offset = offset, .bytes = bytes, .stored_bytes = bytes
	};
	enum plim_status st = PLIM_OK;

	x.name = ckpt_model_string(c, name, strlen(name), &st, err);
	return st ? st : vec_push(c->mem, &c->extents, x, err);
}

bool ckpt_model_reach(const uint64_t *sizes, const uint64_t *strides, size_t rank, uint64_t offset,
		      uint64_t *count, uint64_t *reach)
{
	uint64_t step;

	*count = 1;
	*reach = offset;
	for (size_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(*count, sizes[i], count) || *count > INT64_MAX)
			return false;
	if (!*count) {
		*reach = 0;
		return true;
	}
	for (size_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
		    __builtin_add_overflow(*reach, step, reach))
			return false;
	return !__builtin_add_overflow(*reach, 1, reach) && *reach <= INT64_MAX;
}

static void row_major(const uint64_t *sizes, size_t rank, uint64_t *strides)
{
	uint64_t step = 1;

	for (size_t i = rank; i--;) {
		strides[i] = step;
		/* An overflow is found where the count is made. */
		step *= sizes[i] ? sizes[i] : 1;
	}
}

/* Fills t->count and t->dims; *fits: its size is a number. */
static enum plim_status lay(struct ckpt *c, struct ckpt_tensor *t, const uint64_t *sizes,
			    const uint64_t *strides, const uint64_t *origin, bool *fits,
			    struct plim_err *err)
{
	uint64_t made[CKPT_DIMS], reach;
	size_t rank = t->rank;
	enum plim_status st;

	if (!strides) {
		row_major(sizes, rank, made);
		strides = made;
	}
	*fits = ckpt_model_reach(sizes, strides, rank, t->offset, &t->count, &reach) &&
		(!t->dtype || t->count <= UINT64_MAX / 128);
	if (!*fits)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "overflow", PLIM_UNKNOWN, err,
				       "the size of tensor '%.200s' overflows",
				       ckpt_text(c, t->name));
	/* Room for one more: a model of scalars has none, and no offset may be added to a pointer to nothing. */
	st = vec_need(c->mem, &c->dims, 3 * rank + 1, err);
	t->dims = c->dims.n;
	for (size_t i = 0; !st && i < 3 * rank; i++)
		c->dims.at[c->dims.n++] = i < rank       ? sizes[i]
					  : i < 2 * rank ? strides[i - rank]
					  : origin       ? origin[i - 2 * rank]
							 : 0;
	return st;
}

enum plim_status ckpt_model_lay(struct ckpt *c, struct ckpt_tensor *t, const uint64_t *sizes,
				const uint64_t *origin, struct plim_err *err)
{
	bool fits;
	enum plim_status st = lay(c, t, sizes, NULL, origin, &fits, err);

	return st || fits ? st : err_set(err, PLIM_E_FORMAT, "a tensor's size overflows");
}

enum plim_status ckpt_model_tensor(struct ckpt *c, struct ckpt_tensor t, const uint64_t *sizes,
				   const uint64_t *strides, const uint64_t *origin,
				   struct plim_err *err)
{
	bool fits;
	enum plim_status st;

	if (c->tensors.n >= CKPT_TENSORS)
		return err_set(err, PLIM_E_LIMIT, "more than %llu tensors",
			       (unsigned long long)CKPT_TENSORS);
	st = vec_need(c->mem, &c->tensors, 1, err);
	if (!st)
		st = lay(c, &t, sizes, strides, origin, &fits, err);
	if (st || !fits)
		return st;
	c->tensors.at[c->tensors.n++] = t;
	if (t.extent != CKPT_NONE)
		c->extents.at[t.extent].tensors++;
	return PLIM_OK;
}

static bool has_its_bytes(const struct ckpt *c, const struct ckpt_tensor *t)
{
	return !t->count || t->flags & (CKPT_META | CKPT_JOINED) ||
	       (t->extent != CKPT_NONE && c->extents.at[t->extent].state != CKPT_CUT &&
		c->extents.at[t->extent].state != CKPT_BAD);
}

bool ckpt_is_whole(const struct ckpt *c, size_t tensor)
{
	const struct ckpt_tensor *t = &c->tensors.at[tensor];
	bool whole = has_its_bytes(c, t);

	for (uint32_t i = 0; whole && i < t->parts; i++)
		whole = has_its_bytes(c, t->flags & CKPT_JOINED ? &c->pieces.at[t->first + i]
								: &c->tensors.at[t->first + i]);
	return whole;
}

size_t ckpt_model_whole(const struct ckpt *c, size_t first, const char **lost)
{
	size_t whole = 0;

	*lost = NULL;
	for (size_t i = first; i < c->tensors.n; i++) {
		bool ok = ckpt_is_whole(c, i);

		whole += ok;
		*lost = ok || *lost ? *lost : ckpt_text(c, c->tensors.at[i].name);
	}
	return whole;
}

bool ckpt_is_contiguous(const struct ckpt *c, const struct ckpt_tensor *t)
{
	const uint64_t *size = ckpt_shape(c, t), *stride = ckpt_strides(c, t);
	uint64_t step = 1;

	for (size_t i = t->rank; t->count && i--;) {
		if (size[i] != 1 && stride[i] != step)
			return false;
		step *= size[i];
	}
	return true;
}

bool ckpt_is_dense(const struct ckpt *c, const struct ckpt_tensor *t)
{
	const uint64_t *size = ckpt_shape(c, t), *stride = ckpt_strides(c, t);
	uint64_t step = 1;
	size_t used = 0;

	/* Dimensions in the order of their strides must follow each other without a gap. */
	for (size_t i = 0; i < t->rank; i++)
		used += size[i] == 1;
	while (t->count && used < t->rank) {
		size_t i = 0;

		while (i < t->rank && (size[i] == 1 || stride[i] != step))
			i++;
		if (i == t->rank)
			return false;
		step *= size[i];
		used++;
	}
	return true;
}
