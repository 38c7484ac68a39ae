/* A plan of libplimsoll_alloc.so: what is read is written and read again the same; whatever it says, requests go through its cycles. */
#include "allocator/cycles_file.h"

#include "must.h"

#include <string.h>

#define MEMORY ((uint64_t)64 << 20)
#define MOST ((size_t)1 << 16) /* of an input: longer ones show nothing more */
#define REQUESTS 512u
#define CHECKSUM_AT 24u
#define BODY_AT 32u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Requests of the first cycle in turn, now and then another one. */
static void follow(const struct cycles_plan *p, size_t stream, struct mem *m)
{
	const struct cycles_stream *s = &p->streams.at[stream];
	const struct cycle *c = &s->cycles[0];
	struct cycle_lane lane;
	struct plim_err err;

	cycle_lane_init(&lane, m, 1);
	if (!cycles_give_lane(p, stream, &lane, &err))
		for (uint32_t i = 0; i < REQUESTS; i++) {
			uint32_t units = s->n && c->n && i % 7 ? c->at[i % c->n].units : 1 + i;

			(void)cycle_next(&lane, units ? units : 1);
			if (i % 3)
				cycle_freed(&lane, lane.position, units ? units : 1);
			if (i % 11 == 0)
				cycle_conflict(&lane);
		}
	cycle_lane_release(&lane);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static uint8_t file[MOST];
	cycles_bytes once = { 0 }, twice = { 0 };
	struct cycles_plan p, q;
	struct plim_err err;
	uint64_t checksum;
	struct mem m;

	n = n < MOST ? n : MOST;
	memcpy(file, bytes, n);
	if (n >= BODY_AT) { /* so that what is behind it is looked at */
		checksum = cycles_checksum(file + BODY_AT, n - BODY_AT);
		memcpy(file + CHECKSUM_AT, &checksum, sizeof(checksum));
	}
	mem_init(&m, MEMORY);
	if (cycles_read(&p, &m, file, n, &err)) {
		must(*err.message && !p.streams.n);
		return 0;
	}
	for (size_t i = 0; i < p.streams.n; i++)
		follow(&p, i, &m);
	if (!cycles_write(&p, &once, &err)) {
		must(!cycles_read(&q, &m, once.at, once.n, &err));
		must(!cycles_write(&q, &twice, &err));
		must(once.n == twice.n && !memcmp(once.at, twice.at, once.n));
		cycles_release(&q);
	}
	cycles_release(&p);
	vec_release(&m, &once);
	vec_release(&m, &twice);
	return 0;
}
