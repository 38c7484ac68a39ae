/*
 * The file: a head with the schema, an index of one entry a sample, and records.
 *
 * All numbers of a head follow from its schema, so a head is read by making the schema's head anew and comparing.  An entry has
 * a checksum that knows its sample, and its sizes give the record's layout; so nothing that a file says is used as a length or a
 * place before it was compared.
 */
#include "parts.h"

#include <errno.h>
#include <unistd.h>
#include <xxhash.h>

static const char magic[8] = "PLIMSMPL";

#define VERSION 1

_Static_assert(sizeof(struct data_front) == 96, "the file's first bytes");
_Static_assert(sizeof(struct data_field) == 160, "a field in the file");
_Static_assert(sizeof(struct data_entry) == 24, "an entry in the file");

enum plim_status data_pread(int fd, void *at, size_t n, uint64_t from, struct plim_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = pread(fd, (uint8_t *)at + got, n - got, (off_t)(from + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_errno(err, errno, "cannot read");
		if (!r)
			return err_set(err, PLIM_E_IO, "it is shorter than it was");
		got += (size_t)r;
	}
	return PLIM_OK;
}

/* ---- records ---- */

uint64_t data_record(const struct data_layout *x, const uint64_t *sizes, uint64_t *skip,
		     uint64_t *bytes)
{
	uint64_t at = 0;

	for (size_t f = 0; f < x->front.field_count; f++) {
		const struct data_field *field = &x->fields[f];
		uint64_t n = field->item_bytes;
		bool over = false;

		for (size_t d = 0; d < field->rank; d++) {
			uint64_t size = field->shape[d];

			size = size == PLIM_UNKNOWN ? *sizes++ : size;
			over |= size > DATA_RECORD || __builtin_mul_overflow(n, size, &n);
		}
		if (over || n > DATA_RECORD || at > DATA_RECORD)
			return PLIM_UNKNOWN;
		skip[f] = at;
		bytes[f] = n;
		at += data_up(n, 8);
	}
	return at > DATA_RECORD ? PLIM_UNKNOWN : at;
}

void data_shape(const struct data_layout *x, const struct data_entry *e, size_t field,
		uint64_t *shape)
{
	const uint64_t *sizes = e->sizes;

	for (size_t f = 0; f <= field; f++)
		for (size_t d = 0; d < x->fields[f].rank; d++) {
			uint64_t size = x->fields[f].shape[d];

			size = size == PLIM_UNKNOWN ? *sizes++ : size;
			if (f == field)
				shape[d] = size;
		}
}

uint32_t data_entry_check(const struct data_layout *x, uint64_t sample, const struct data_entry *e)
{
	const struct data_entry front = { e->at, e->bytes, e->crc, 0 };
	uint64_t sum = XXH3_64bits_withSeed(&front, sizeof(front), sample + 1);

	return (uint32_t)XXH3_64bits_withSeed(e->sizes, x->sizes * sizeof(*e->sizes), sum);
}

bool data_entry_holds(const struct data_layout *x, uint64_t sample, const struct data_entry *e,
		      uint64_t end)
{
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS];

	return e->at >= x->front.data_at && e->check == data_entry_check(x, sample, e) &&
	       e->bytes == data_record(x, e->sizes, skip, bytes) && e->at <= end &&
	       e->bytes <= end - e->at;
}

/* ---- heads ---- */

/* Numbers that follow from the fields. */
static enum plim_status complete(struct data_layout *x, struct plim_err *err)
{
	struct data_front *p = &x->front;
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS], least[DATA_SIZES] = { 0 };
	uint64_t record;

	for (size_t f = 0; f < p->field_count; f++)
		for (size_t d = 0; d < x->fields[f].rank; d++)
			x->sizes += x->fields[f].shape[d] == PLIM_UNKNOWN;
	record = data_record(x, least, skip, bytes);
	if (record == PLIM_UNKNOWN)
		return err_set(err, PLIM_E_ARG, "a sample has more than %llu bytes",
			       (unsigned long long)DATA_RECORD);
	p->record_bytes = x->sizes ? 0 : data_up(record ? record : 1, DATA_LINE);
	p->head_bytes =
		data_up(sizeof(*p) + p->field_count * sizeof(struct data_field) + p->about_bytes,
			DATA_PAGE);
	p->entry_bytes = sizeof(struct data_entry) + x->sizes * sizeof(uint64_t);
	p->data_at = data_up(p->head_bytes + p->samples * p->entry_bytes, DATA_PAGE);
	return PLIM_OK;
}

/* The head as it lies in the file: `about` is at its place. */
static void lay_out(struct data_layout *x)
{
	size_t fields = x->front.field_count * sizeof(struct data_field);

	x->front.sum = 0;
	memcpy(x->head, &x->front, sizeof(x->front));
	memcpy(x->head + sizeof(x->front), x->fields, fields);
	x->front.sum = XXH3_64bits(x->head, (size_t)x->front.head_bytes);
	memcpy(x->head, &x->front, sizeof(x->front));
}

static enum plim_status take_head(struct data_layout *x, struct mem *m, const void *about,
				  struct plim_err *err)
{
	struct data_front *p = &x->front;
	enum plim_status st = complete(x, err);

	if (st)
		return st;
	x->head = mem_new(m, (size_t)p->head_bytes, 1, err);
	if (!x->head)
		return mem_status(err);
	if (p->about_bytes)
		memcpy(x->head + sizeof(*p) + p->field_count * sizeof(struct data_field), about,
		       (size_t)p->about_bytes);
	lay_out(x);
	return PLIM_OK;
}

/* Text that may be shown. */
static bool samples_format_is_name(const char *name, size_t room)
{
	size_t n = strnlen(name, room), at = 0;
	uint32_t c = 0;

	while (at < n) {
		size_t here = utf8_decode(name + at, n - at, &c);

		if (!here || !utf8_is_safe(c))
			return false;
		at += here;
	}
	return n && n < room;
}

static enum plim_status take_field(struct data_field *to, const struct plim_samples_field *from,
				   struct plim_err *err)
{
	if (!from->name || !samples_format_is_name(from->name, sizeof(to->name)) || !from->dtype ||
	    !samples_format_is_name(from->dtype, sizeof(to->dtype)) || from->rank > DATA_RANK ||
	    !from->item_bytes || from->item_bytes > DATA_ITEM)
		return err_set(err, PLIM_E_ARG,
			       "a field has a name of at most 63 bytes, a dtype of at most 23, at "
			       "most 8 sizes, and elements of 1 to 16 bytes");
	*to = (struct data_field){ .rank = from->rank, .item_bytes = from->item_bytes };
	memcpy(to->name, from->name, strlen(from->name));
	memcpy(to->dtype, from->dtype, strlen(from->dtype));
	for (size_t d = 0; d < from->rank; d++)
		to->shape[d] = from->shape[d];
	return PLIM_OK;
}

enum plim_status data_layout_make(struct data_layout *x, struct mem *m,
				  const struct plim_samples_schema *schema, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	memset(x, 0, sizeof(*x));
	if (!schema->field_count || schema->field_count > DATA_FIELDS ||
	    schema->samples >= UINT32_MAX || schema->about_bytes > DATA_HEAD - ((size_t)1 << 20))
		return err_set(err, PLIM_E_ARG,
			       "there are 1 to 64 fields, fewer than 2^32 samples, and at most 15 "
			       "MiB about them");
	memcpy(x->front.magic, magic, sizeof(magic));
	x->front.version = VERSION;
	x->front.samples = schema->samples;
	x->front.about_bytes = schema->about_bytes;
	x->front.field_count = (uint32_t)schema->field_count;
	for (size_t f = 0; !st && f < schema->field_count; f++)
		st = take_field(&x->fields[f], &schema->fields[f], err);
	return st ? st : take_head(x, m, schema->about, err);
}

/* The front says no more than a head may have. */
static enum plim_status read_front(struct data_layout *x, int fd, uint64_t bytes,
				   struct plim_err *err)
{
	struct data_front *p = &x->front;

	if (bytes < sizeof(*p) || data_pread(fd, p, sizeof(*p), 0, NULL) ||
	    memcmp(p->magic, magic, sizeof(magic)))
		return err_set(err, PLIM_E_FORMAT, "it is not a file of samples");
	if (p->version != VERSION)
		return err_set(err, PLIM_E_FORMAT, "it is of version %u; this reads version %d",
			       p->version, VERSION);
	if (!p->field_count || p->field_count > DATA_FIELDS || p->samples >= UINT32_MAX ||
	    p->head_bytes > DATA_HEAD || p->head_bytes > bytes || p->about_bytes > DATA_HEAD ||
	    p->head_bytes <
		    sizeof(*p) + p->field_count * sizeof(struct data_field) + p->about_bytes)
		return err_set(err, PLIM_E_FORMAT, "its head is damaged");
	return PLIM_OK;
}

static bool is_field(const struct data_field *f)
{
	return samples_format_is_name(f->name, sizeof(f->name)) &&
	       samples_format_is_name(f->dtype, sizeof(f->dtype)) && f->rank <= DATA_RANK &&
	       f->item_bytes && f->item_bytes <= DATA_ITEM;
}

enum plim_status data_layout_read(struct data_layout *x, struct mem *m, int fd, uint64_t bytes,
				  struct plim_err *err)
{
	struct data_front was;
	size_t n, fields;
	uint8_t *head;
	enum plim_status st;

	memset(x, 0, sizeof(*x));
	st = read_front(x, fd, bytes, err);
	if (st)
		return st;
	was = x->front;
	n = (size_t)was.head_bytes;
	fields = was.field_count * sizeof(struct data_field);
	head = mem_new(m, n, 1, err);
	if (!head)
		return mem_status(err);
	st = data_pread(fd, head, n, 0, err);
	if (!st) {
		bool good = true;

		memcpy(x->fields, head + sizeof(was), fields);
		for (size_t f = 0; f < was.field_count; f++)
			good &= is_field(&x->fields[f]);
		good = good && !take_head(x, m, head + sizeof(was) + fields, err);
		good = good && x->front.head_bytes == n && !memcmp(x->head, head, n) &&
		       x->front.data_at <= bytes;
		st = good ? PLIM_OK : err_set(err, PLIM_E_FORMAT, "its head is damaged or was cut");
	}
	mem_free(m, head, n, 1);
	return st;
}

void data_layout_release(struct data_layout *x, struct mem *m)
{
	mem_free(m, x->head, (size_t)x->front.head_bytes, 1);
	x->head = NULL;
}

bool data_layout_same(const struct data_layout *a, const struct data_layout *b)
{
	return a->front.head_bytes == b->front.head_bytes && a->front.samples == b->front.samples &&
	       a->front.field_count == b->front.field_count &&
	       a->front.about_bytes == b->front.about_bytes &&
	       !memcmp(a->head + sizeof(a->front), b->head + sizeof(b->front),
		       (size_t)a->front.head_bytes - sizeof(a->front));
}

void data_head_end(struct data_layout *x, uint64_t end, uint64_t index_sum)
{
	x->front.whole = end != 0;
	x->front.end = end;
	x->front.index_sum = index_sum;
	lay_out(x);
}
