/*
 * A snapshot explained and run again: recordings that contradict themselves must be found out, and a
 * run must end with what its statistics say.
 */
#include "allocator/allocator.h"
#include "pickle_mutate.h"

#define LIMIT_BYTES ((uint64_t)256 << 20)

struct sums {
	uint64_t reserved, active, reserved_events;
	uint64_t end; /* of the block before, in one segment */
	uint64_t segment;
};

static void on_event(void *self, const struct allocator_event *e)
{
	struct sums *s = self;

	if (e->action == TRACE_SEGMENT_ALLOC || e->action == TRACE_SEGMENT_MAP)
		s->reserved_events += e->bytes;
	if (e->action == TRACE_SEGMENT_FREE || e->action == TRACE_SEGMENT_UNMAP)
		s->reserved_events -= e->bytes;
}

static void on_block(void *self, const struct allocator_block *b)
{
	struct sums *s = self;

	must(b->segment_addr != s->segment || b->addr == s->end);
	s->segment = b->segment_addr;
	s->end = b->addr + b->bytes;
	s->reserved += b->bytes;
	s->active += b->request == TRACE_NONE ? 0 : b->bytes;
}

static void run(struct mem *m, const struct program *p, const struct snapshot_device *d,
		const char *conf, uint64_t limit)
{
	struct allocator_rules rules;
	struct sums s = { 0 };
	struct allocator_run how = { .rules = &rules,
				     .device = d,
				     .bounds = { .limit_bytes = limit,
						 .capacity_bytes = UINT64_MAX },
				     .self = &s,
				     .event = on_event,
				     .block = on_block };
	struct allocator_outcome out;
	struct plim_err err;

	must(!allocator_rules_parse(conf, 0, &rules, &err));
	if (allocator_run(m, p, &how, &out, &err))
		return; /* memory */
	must(s.reserved == out.stats.count[ALLOCATOR_RESERVED_BYTES][0].current);
	must(s.reserved == s.reserved_events);
	must(s.active == out.stats.count[ALLOCATOR_ACTIVE_BYTES][0].current);
}

static void one_device(struct mem *m, const struct snapshot *t, const struct snapshot_device *d)
{
	struct allocator_replay *replay;
	struct allocator_check check;
	struct program *p;
	struct plim_err err;
	uint64_t packed;

	if (allocator_replay_own(m, t, d, &replay, &err))
		return;
	if (!allocator_explain(m, t, d, replay, &p, &check, &err)) {
		run(m, p, d, "", UINT64_MAX);
		run(m, p, d, "max_split_size_mb:32", (uint64_t)1 << 28);
		run(m, p, d, "expandable_segments:True", (uint64_t)1 << 30);
		run(m, p, d, "garbage_collection_threshold:0.5", (uint64_t)1 << 29);
		allocator_pack(m, p, &packed, &err);
		program_free(p);
	}
	allocator_replay_free(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct snapshot *t;
	struct plim_err err;
	struct mem m;

	mem_init(&m, LIMIT_BYTES);
	if (snapshot_read_bytes(&m, bytes, n, NULL, &t, &err))
		return 0;
	for (size_t i = 0; i < t->device_count; i++)
		one_device(&m, t, &t->devices[i]);
	snapshot_free(t);
	must(m.used_bytes == 0);
	return 0;
}
