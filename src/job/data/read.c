/*
 * Reading: the index is in memory, a record goes straight to the places of its fields with one call of the system.  A sample's
 * checksum is compared when it is first read.
 */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- a record ---- */

/* What a call left: `skip` bytes of the list are there. */
static enum plim_status read_rest(int fd, const struct iovec *list, size_t n, uint64_t at,
				  size_t skip, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < n; i++) {
		size_t have = skip < list[i].iov_len ? skip : list[i].iov_len;

		st = data_pread(fd, (uint8_t *)list[i].iov_base + have, list[i].iov_len - have,
				at + have, err);
		skip -= have;
		at += list[i].iov_len;
	}
	return st;
}

enum plim_status data_read(int fd, const struct data_layout *x, const struct data_entry *e,
			   void *const *where, uint32_t *crc, struct plim_err *err)
{
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS];
	struct iovec list[2 * DATA_FIELDS];
	uint8_t gap[DATA_FIELDS][8];
	size_t n = 0, all = 0;
	ssize_t got;
	enum plim_status st = PLIM_OK;

	(void)data_record(x, e->sizes, skip, bytes);
	for (size_t f = 0; f < x->front.field_count; f++) {
		size_t between = (size_t)(data_up(bytes[f], 8) - bytes[f]);

		if (bytes[f])
			list[n++] = (struct iovec){ where[f], (size_t)bytes[f] };
		if (between)
			list[n++] = (struct iovec){ gap[f], between };
		all += (size_t)bytes[f] + between;
	}
	got = n ? preadv(fd, list, (int)n, (off_t)e->at) : 0;
	if (got < 0 && errno != EINTR)
		return err_errno(err, errno, "cannot read");
	if (got < (ssize_t)all)
		st = read_rest(fd, list, n, e->at, got < 0 ? 0 : (size_t)got, err);
	for (size_t f = 0; !st && crc && f < x->front.field_count; f++)
		if (bytes[f])
			*crc = crc_add(*crc, where[f], (size_t)bytes[f]);
	return st;
}

/* ---- a sample ---- */

static bool is_checked(struct plim_samples *s, uint64_t sample)
{
	uint64_t bits;

	if (s->options.flags)
		return s->options.flags & PLIM_SAMPLES_CHECK_NEVER;
	bits = atomic_load_explicit(&s->checked[sample / 64], memory_order_relaxed);
	return bits >> (sample % 64) & 1;
}

enum plim_status data_sample(struct plim_samples *s, uint64_t sample, void *const *where,
			     struct plim_err *err)
{
	const struct data_entry *e = data_entry_of(s, sample);
	bool check = !is_checked(s, sample);
	uint32_t crc = 0;
	enum plim_status st = data_read(s->fd, &s->layout, e, where, check ? &crc : NULL, err);

	if (st || !check)
		return st;
	if (crc != e->crc)
		return err_set(err, PLIM_E_FORMAT, "sample %llu is damaged: its checksum differs",
			       (unsigned long long)sample);
	(void)atomic_fetch_or_explicit(&s->checked[sample / 64], (uint64_t)1 << (sample % 64),
				       memory_order_relaxed);
	return PLIM_OK;
}

static enum plim_status in_range(const struct plim_samples *s, uint64_t sample,
				 struct plim_err *err)
{
	return sample < s->layout.front.samples
		       ? PLIM_OK
		       : err_set(err, PLIM_E_ARG, "there is no sample %llu: there are %llu",
				 (unsigned long long)sample,
				 (unsigned long long)s->layout.front.samples);
}

enum plim_status plim_samples_shape(const struct plim_samples *s, uint64_t sample, size_t field,
				    uint64_t *shape, struct plim_err *err)
{
	enum plim_status st = in_range(s, sample, err);

	if (!st && field >= s->layout.front.field_count)
		st = err_set(err, PLIM_E_ARG, "there is no field %zu", field);
	if (!st)
		data_shape(&s->layout, data_entry_of(s, sample), field, shape);
	return st;
}

/* Fields that are not wanted are read all the same, for the checksum: into *aside, if there are any. */
static enum plim_status all_places(const struct plim_samples *s, uint64_t sample,
				   void *const *where, void **all, void **aside,
				   struct plim_err *err)
{
	const struct data_entry *e = data_entry_of(s, sample);
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS];

	*aside = NULL;
	(void)data_record(&s->layout, e->sizes, skip, bytes);
	for (size_t f = 0; f < s->layout.front.field_count; f++) {
		all[f] = where[f];
		if (where[f] || !bytes[f])
			continue;
		if (!*aside)
			*aside = malloc((size_t)e->bytes);
		if (!*aside)
			return err_set(err, PLIM_E_NOMEM, "out of memory");
		all[f] = (uint8_t *)*aside + skip[f];
	}
	return PLIM_OK;
}

enum plim_status plim_samples_read(struct plim_samples *s, uint64_t sample, void *const *where,
				   struct plim_err *err)
{
	void *all[DATA_FIELDS] = { NULL }, *aside = NULL;
	enum plim_status st = in_range(s, sample, err);

	if (!st)
		st = all_places(s, sample, where, all, &aside, err);
	if (!st)
		st = data_sample(s, sample, all, err);
	free(aside);
	if (st && st != PLIM_E_ARG)
		err_prefix(err, s->path);
	return st;
}

/* ---- opening ---- */

static enum plim_status read_index(struct plim_samples *s, struct plim_err *err)
{
	const struct data_front *p = &s->layout.front;
	size_t n = (size_t)p->samples, size = (size_t)p->entry_bytes;
	enum plim_status st;

	s->index = mem_new(&s->mem, n, size, err);
	s->checked = s->index ? mem_new(&s->mem, n / 64 + 1, sizeof(*s->checked), err) : NULL;
	if (!s->checked)
		return mem_status(err);
	st = data_pread(s->fd, s->index, n * size, data_index_at(&s->layout), err);
	if (!st && XXH3_64bits(s->index, n * size) != p->index_sum)
		st = err_set(err, PLIM_E_FORMAT, "its index is damaged");
	for (size_t i = 0; !st && i < n; i++) {
		const struct data_entry *e = data_entry_of(s, i);

		if (!data_entry_holds(&s->layout, i, e, p->end))
			st = err_set(err, PLIM_E_FORMAT, "its index is damaged at sample %zu", i);
		s->record_most = e->bytes > s->record_most ? e->bytes : s->record_most;
	}
	return st;
}

static void tell_schema(struct plim_samples *s)
{
	const struct data_layout *x = &s->layout;
	size_t n = x->front.field_count;

	for (size_t f = 0; f < n; f++)
		s->fields[f] = (struct plim_samples_field){
			.name = x->fields[f].name,
			.dtype = x->fields[f].dtype,
			.shape = x->fields[f].shape,
			.rank = x->fields[f].rank,
			.item_bytes = x->fields[f].item_bytes,
		};
	s->schema = (struct plim_samples_schema){
		.fields = s->fields,
		.field_count = n,
		.samples = x->front.samples,
		.about = x->head + sizeof(x->front) + n * sizeof(struct data_field),
		.about_bytes = (size_t)x->front.about_bytes,
	};
}

static enum plim_status open_it(struct plim_samples *s, struct plim_err *err)
{
	struct stat at;
	enum plim_status st;

	s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0)
		return err_errno(err, errno, "cannot open");
	if (fstat(s->fd, &at) || !S_ISREG(at.st_mode))
		return err_set(err, PLIM_E_FORMAT, "it is not a file of samples");
	st = data_layout_read(&s->layout, &s->mem, s->fd, (uint64_t)at.st_size, err);
	if (!st && (!s->layout.front.whole || s->layout.front.end > (uint64_t)at.st_size))
		st = err_set(err, PLIM_E_FORMAT, "it is not whole: %s",
			     s->layout.front.whole ? "it was cut" : "it is still being filled");
	if (!st)
		st = read_index(s, err);
	if (!st)
		tell_schema(s);
	return st;
}

enum plim_status samples_open(const char *path, const struct plim_samples_options *o,
			      struct plim_samples **out, struct plim_err *err)
{
	struct plim_samples *s = calloc(1, sizeof(*s));
	enum plim_status st;

	*out = NULL;
	if (!s)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&s->mem, o->max_memory_bytes);
	s->fd = -1;
	s->options = *o;
	s->path = strdup(path);
	st = s->path ? open_it(s, err) : err_set(err, PLIM_E_NOMEM, "out of memory");
	if (st && s->path)
		err_prefix(err, path);
	if (st)
		plim_samples_close(s);
	*out = st ? NULL : s;
	return st;
}

void plim_samples_close(struct plim_samples *s)
{
	size_t n;

	if (!s)
		return;
	n = (size_t)s->layout.front.samples;
	if (s->fd >= 0)
		close(s->fd);
	mem_free(&s->mem, s->checked, s->checked ? n / 64 + 1 : 0, sizeof(*s->checked));
	mem_free(&s->mem, s->index, s->index ? n : 0, (size_t)s->layout.front.entry_bytes);
	data_layout_release(&s->layout, &s->mem);
	free(s->path);
	free(s);
}

const struct plim_samples_schema *plim_samples_info(const struct plim_samples *s)
{
	return &s->schema;
}

uint64_t plim_samples_mark(const struct plim_samples *s)
{
	return s->layout.front.sum;
}
