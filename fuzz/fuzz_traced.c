/* Traces of plan --trace: a plan whose program is whole and goes through the allocator, or a refusal in one line. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(struct plan *plan)
{
	struct allocator_rules rules = allocator_rules_default(0);
	struct allocator_bounds bounds = { UINT64_MAX, UINT64_MAX };
	struct plan_result result;
	struct plim_err err;

	if (program_check(plan->program) || !plan->phases.n)
		abort();
	(void)plan_measure(plan, &rules, &bounds, &result, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct plim_err err = { 0 };
	struct plan *plan = NULL;
	struct source *s = NULL;
	struct arena arena;
	struct mem mem;

	mem_init(&mem, (uint64_t)1 << 28);
	arena_init(&arena, &mem);
	struct plan_traced t = { .mem = &mem, .arena = &arena };

	if (!source_open_memory(&mem, "trace", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &s, &err) &&
	    !plan_read_traced(&t, "trace", s, &plan, &err))
		check(plan);
	else if (!err.status || !*err.message || strchr(err.message, '\n'))
		abort();
	source_close(s);
	plan_free(plan);
	plan_release_trace(&t);
	arena_release(&arena);
	if (mem.used_bytes)
		abort();
	return 0;
}
