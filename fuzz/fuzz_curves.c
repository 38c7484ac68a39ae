/*
 * Training logs: any bytes are read as the kind they look like, and as each kind that has a reader.
 * Reading in two pieces gives what reading at once gives.
 */
#include "must.h"
#include "series/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	series_patterns_free(patterns);
	must(m.used_bytes == 0);
	return 0;
}
