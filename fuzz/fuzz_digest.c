/* A digest of recordings: rows that are reported, compared and written again whatever they say. */
#include "must.h"
#include "recording/set.h"
#include "result_tables.h"

#include <sys/mman.h>
#include <unistd.h>

#define LIMIT_BYTES ((uint64_t)64 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct plim_ranks_options options = { .size = sizeof(options),
					      .layout = n % 2 ? "tp=2,pp=4" : NULL };
	struct plim_err err = { 0 }, of_notes = { 0 };
	struct lines notes = { .err = &of_notes };
	struct plim_ranks out = { 0 };
	struct recording_set s = { .options = &options,
				   .out = &out,
				   .row_table = &ranks_row_table };
	struct arena arena;
	struct mem m;
	char path[64];
	int fd = memfd_create("digest", 0);

	must(fd >= 0 && (!n || write(fd, bytes, n) == (ssize_t)n));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	mem_init(&m, LIMIT_BYTES);
	arena_init(&arena, &m);
	s.mem = &m;
	s.arena = notes.arena = &arena;
	if (!set_add_digest(&s, path, SET_NAMED, &err) && !recording_set_judge(&s, &notes, &err) &&
	    !recording_set_differ(&s, &notes, &err)) {
		must(out.row_count == s.items.n);
		for (size_t i = 0; i < out.outlier_count; i++)
			must(out.outliers[i].row < out.row_count && out.outliers[i].says);
		must(!out.read || out.sentence);
	}
	vec_release(&m, &s.items);
	arena_release(&arena);
	must(!m.used_bytes);
	close(fd);
	return 0;
}
