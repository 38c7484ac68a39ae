/*
 * A packed recording: as a file, or, where the input does not begin as one, as the columns of one, around which the checksums
 * are put that no mutation would find.  What can be read must come back the same from being packed again, and as a pickle.
 */
#include "must.h"
#include "snapshot/packed.h"

#include <xxhash.h>
#include <zstd.h>

#define LIMIT_BYTES ((uint64_t)256 << 20)

struct written {
	struct mem *mem;
	VEC(uint8_t) bytes;
};

static enum plim_status keep(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct written *w = ctx;
	enum plim_status st = vec_need(w->mem, &w->bytes, n, err);

	if (st)
		return st;
	memcpy(w->bytes.at + w->bytes.n, bytes, n);
	w->bytes.n += n;
	return PLIM_OK;
}

static size_t varint(uint8_t *at, uint64_t value)
{
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		at[n++] = (uint8_t)(value | 0x80);
	at[n++] = (uint8_t)value;
	return n;
}

/* A file around columns. */
static uint8_t *wrap(const uint8_t *plain, size_t n, size_t *size)
{
	static const uint8_t head[PACKED_HEAD_BYTES] = PACKED_MAGIC "\1";
	size_t room = ZSTD_compressBound(n), at = sizeof(head), packed;
	uint8_t *zstd = malloc(room), *file = malloc(room + 100);
	uint64_t sum = XXH3_64bits(plain, n);

	must(zstd && file);
	packed = ZSTD_compress(zstd, room, plain, n, 1);
	must(!ZSTD_isError(packed));
	memcpy(file, head, at);
	file[at++] = PACKED_RECORDING;
	at += varint(file + at, packed);
	at += varint(file + at, n);
	memcpy(file + at, zstd, packed);
	memcpy(file + at + packed, &sum, sizeof(sum));
	at += packed + sizeof(sum);
	file[at++] = PACKED_END;
	sum = XXH3_64bits(file, at);
	memcpy(file + at, &sum, sizeof(sum));
	*size = at + sizeof(sum);
	free(zstd);
	return file;
}

static void again(struct mem *m, const struct snapshot *t, int packed)
{
	struct written w = { .mem = m };
	struct pickle_sink sink = { &w, keep };
	struct snapshot *back = NULL;
	struct plim_err err = { 0 };
	enum plim_status st = packed ? snapshot_pack(t, sink, &err) : snapshot_write(t, sink, &err);
	const char *differs;

	if (!st)
		st = snapshot_read_bytes(m, w.bytes.at, w.bytes.n, NULL, &back, &err);
	if (st == PLIM_E_FORMAT)
		fprintf(stderr, "fuzz_packed: written, then: %s\n", err.message);
	must(st != PLIM_E_FORMAT);
	differs = !st && packed ? snapshot_differs(t, back) : NULL;
	if (differs)
		fprintf(stderr, "fuzz_packed: %s\n", differs);
	must(!differs);
	snapshot_free(back);
	vec_release(m, &w.bytes);
}

static int is_file(const uint8_t *bytes, size_t n)
{
	return n >= PACKED_MAGIC_BYTES && !memcmp(bytes, PACKED_MAGIC, PACKED_MAGIC_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct snapshot *t = NULL;
	struct plim_err err;
	struct mem m;
	size_t size = n;
	uint8_t *own = is_file(bytes, n) ? NULL : wrap(bytes, n, &size);

	mem_init(&m, LIMIT_BYTES);
	if (!snapshot_read_bytes(&m, own ? own : bytes, size, NULL, &t, &err)) {
		again(&m, t, 1);
		again(&m, t, 0);
		snapshot_free(t);
	}
	must(!m.used_bytes);
	free(own);
	return 0;
}
