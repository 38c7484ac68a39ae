/*
 * Training logs: any bytes are read as the kind they look like, and as each kind that has a reader.  Of the two binary
 * formats also with checksums that are right, as nearly no change would be looked at otherwise; and in two pieces,
 * as a log that grows is, which gives the values that reading at once gives.
 */
#include "must.h"
#include "series/series.h"
#include "series/wire.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libdeflate.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char path[64];

static void put(const uint8_t *bytes, size_t n)
{
	static int fd = -1;

	if (fd < 0) {
		snprintf(path, sizeof(path), "/tmp/fuzz_curves_XXXXXX");
		fd = mkstemp(path);
		must(fd >= 0);
	}
	must(!ftruncate(fd, 0) && pwrite(fd, bytes, n, 0) == (ssize_t)n);
}

static void look(const struct series_run *r)
{
	const struct series_monitor *m = &r->monitor;
	struct series_words words;

	must(r->curves.n == m->watches.n);
	for (size_t i = 0; i < m->watches.n; i++) {
		must(r->curves.at[i].buckets.n <= r->curves.at[i].max);
		must(m->watches.at[i].history.n < SERIES_CELLS);
	}
	for (size_t i = 0; i < m->findings.n; i++) {
		must(m->findings.at[i].confidence >= 0 && m->findings.at[i].confidence <= 1);
		series_tell(m, &m->findings.at[i], &words);
		must(words.title[0] && words.evidence_count <= SERIES_LINES);
	}
}

static void read_as(struct mem *m, const struct series_options *o, enum series_kind kind)
{
	struct series_run r;
	struct plim_err err;
	bool changed;

	series_run_init(&r, m, o);
	if (!series_run_add_file(&r, path, kind, &err) && !series_run_read(&r, &changed, &err)) {
		must(!series_run_conclude(&r, &err));
		look(&r);
		must(!series_run_read(&r, &changed, &err) && !changed);
	}
	series_run_release(&r);
}

/* ---- checksums that are right ---- */

static void put_u32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
}

static void mend_events(uint8_t *p, size_t n)
{
	for (size_t at = 0; n - at >= 16;) {
		uint64_t length;

		memcpy(&length, p + at, 8);
		if (length > n - at - 16)
			length = length % (n - at - 15);
		memcpy(p + at, &length, 8);
		put_u32(p + at + 8, wire_masked(wire_crc32c(p + at, 8)));
		put_u32(p + at + 12 + length, wire_masked(wire_crc32c(p + at + 12, length)));
		at += length + 16;
	}
}

/* Chunks of blocks of 32 KiB: u32 crc32 of type and data, u16 length, u8 type; the file begins with 7 bytes. */
static void mend_wandb(uint8_t *p, size_t n)
{
	static const uint8_t head[7] = { ':', 'W', '&', 'B', 0xe1, 0xbe, 0 };

	if (n < sizeof(head))
		return;
	memcpy(p, head, sizeof(head));
	for (size_t at = sizeof(head); at + 7 <= n;) {
		size_t left = 32768 - at % 32768;
		uint16_t length;

		if (left < 7) {
			at += left;
			continue;
		}
		memcpy(&length, p + at + 4, 2);
		if (length > left - 7)
			length = (uint16_t)(length % (left - 6));
		if (length > n - at - 7)
			length = (uint16_t)(n - at - 7);
		memcpy(p + at + 4, &length, 2);
		p[at + 6] = (uint8_t)(p[at + 6] % 5);
		put_u32(p + at, libdeflate_crc32(0, p + at + 6, 1u + length));
		at += 7u + length;
	}
}

static uint64_t points_of(struct mem *m, const struct series_options *o, enum series_kind kind,
			  const uint8_t *bytes, size_t n, size_t first)
{
	struct series_run r;
	struct plim_err err;
	bool changed;
	uint64_t points = 0;

	put(bytes, first);
	series_run_init(&r, m, o);
	must(!series_run_add_file(&r, path, kind, &err));
	if (!series_run_read(&r, &changed, &err)) {
		if (first < n) {
			put(bytes, n);
			must(!series_run_read(&r, &changed, &err));
		}
		must(!series_run_conclude(&r, &err));
		look(&r);
		points = r.points;
	}
	series_run_release(&r);
	return points;
}

static void read_mended(struct mem *m, const struct series_options *o, const uint8_t *bytes,
			size_t n)
{
	uint8_t *copy = malloc(n);

	must(copy != NULL);
	for (int wandb = 0; wandb < 2; wandb++) {
		enum series_kind kind = wandb ? SERIES_KIND_WANDB : SERIES_KIND_TENSORBOARD;

		memcpy(copy, bytes, n);
		if (wandb)
			mend_wandb(copy, n);
		else
			mend_events(copy, n);
		must(points_of(m, o, kind, copy, n, n) ==
		     points_of(m, o, kind, copy, n, 1 + bytes[n - 1] * (n - 1) / 256));
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct series_options o = { .patience = PLIM_UNKNOWN };
	struct series_patterns *patterns;
	struct plim_err err;
	struct mem m;

	if (!n)
		return 0;
	mem_init(&m, 256u << 20);
	put(bytes, n);
	must(!series_patterns_new(&m, NULL, &patterns, &err));
	o.patterns = patterns;
	for (unsigned kind = SERIES_KIND_UNKNOWN; kind <= SERIES_KIND_TEXT; kind++)
		read_as(&m, &o, kind);
	read_mended(&m, &o, bytes, n);
	series_patterns_free(patterns);
	must(m.used_bytes == 0);
	return 0;
}
