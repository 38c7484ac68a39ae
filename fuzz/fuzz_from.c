/* A configuration of a run, JSON or YAML, of any tool: read within bounded memory or refused in one line; what was not understood forbids a verdict. */
#include "must.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check(const struct plim_plan *p)
{
	size_t unknown = 0;

	for (size_t i = 0; i < p->settings_read_count; i++) {
		const struct plim_plan_setting *s = &p->settings_read[i];

		must(s->file && s->tool && s->key && s->value);
		unknown += !s->option;
	}
	must((unknown > 0) == (p->hidden->doubts.n > 0));
	must((unknown > 0) == p->hidden->partly_read);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	const struct plan_bytes file = { "run.yaml", bytes, n };
	struct plim_plan_options o;
	struct plim_plan_hidden h = { .redacts = false };
	struct plim_plan p = { .hidden = &h };
	struct plim_err err = { 0 };

	mem_init(&h.mem, (uint64_t)1 << 30);
	arena_init(&h.arena, &h.mem);
	plim_plan_options_init(&o);
	o.batch = o.accumulate = o.gpus = 0;
	if (plan_read_from(&p, NULL, &file, &o, &err))
		must(err.status && *err.message && !strchr(err.message, '\n'));
	else
		check(&p);
	must(o.batch && o.accumulate && o.gpus);
	vec_release(&h.mem, &h.doubts);
	vec_release(&h.mem, &h.from_notes);
	arena_release(&h.arena);
	must(!h.mem.used_bytes);
	return 0;
}
