/*
 * A file of samples, whatever it says: it is refused, or each of its samples is read or found damaged, into no more room than its
 * sizes need, and batches of it have each once.
 */
#include "data/parts.h"
#include "must.h"

#include <sys/mman.h>
#include <unistd.h>

#define LIMIT_BYTES ((uint64_t)16 << 20)
#define RECORD_MOST ((uint64_t)1 << 16)

/* One sample; false: too large for here. */
static bool read_one(struct plim_samples *s, uint64_t sample)
{
	const struct data_entry *e = data_entry_of(s, sample);
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS], shape[DATA_RANK];
	void *where[DATA_FIELDS];
	size_t n = plim_samples_info(s)->field_count;
	struct plim_err err = { 0 };

	must(data_record(&s->layout, e->sizes, skip, bytes) == e->bytes);
	if (e->bytes > RECORD_MOST)
		return false;
	for (size_t f = 0; f < n; f++) {
		must(!plim_samples_shape(s, sample, f, shape, NULL));
		where[f] = malloc(bytes[f] + 1); /* a sanitizer sees a byte more */
	}
	switch (plim_samples_read(s, sample, where, &err)) {
	case PLIM_OK: break;
	case PLIM_E_FORMAT:
	case PLIM_E_IO: must(err.message[0]); break;
	default: must(false);
	}
	for (size_t f = 0; f < n; f++)
		free(where[f]);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const struct plim_samples_options options = { .size = sizeof(options),
						      .max_memory_bytes = LIMIT_BYTES };
	struct plim_samples *s = NULL;
	int fd = memfd_create("fuzz", 0);
	char path[64];

	must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!samples_open(path, &options, &s, NULL)) {
		const struct plim_samples_schema *told = plim_samples_info(s);

		must(told->field_count && told->field_count <= DATA_FIELDS);
		for (size_t f = 0; f < told->field_count; f++)
			must(told->fields[f].rank <= DATA_RANK && *told->fields[f].name);
		for (uint64_t i = 0; i < told->samples && i < 64; i++)
			if (!read_one(s, i))
				break;
	}
	plim_samples_close(s);
	close(fd);
	return 0;
}
