/*
 * The table of advice: each row fits a failure that is made of its own columns, and the same failure of no engine, program,
 * activity, driver or kind that the row does not name.
 */
#include "diagnose/advice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A failure, with what its case points to. */
struct failure {
	struct messages_wording wording;
	struct messages_event event;
	struct findings_told told;
	struct messages_context context;
	struct advice_case as;
};

/* The lowest that a set holds; of an empty one, which stands for any, 0. */
static unsigned lowest(uint64_t set)
{
	unsigned i = 0;

	while (set && !(set >> i & 1))
		i++;
	return i;
}

static void make(const struct advice_row *r, struct failure *f)
{
	uint64_t tasks = r->tasks & ~r->not_tasks, set = r->set & ~r->unless;
	uint64_t causes = r->causes && r->only ? r->causes & r->only : r->causes | r->only;

	memset(f, 0, sizeof(*f));
	f->wording.class = (enum messages_class)lowest(r->kinds);
	f->wording.pattern = "made";
	f->event.wording = &f->wording;
	f->event.traceback.moment = (enum messages_moment)lowest(r->moments);
	f->told.bound_by = (enum findings_bound)lowest(r->bounds);
	if (causes) {
		f->told.ranked[0] = (enum findings_cause)lowest(causes);
		f->told.ranked_count = 1;
	}
	f->context.engine = (enum messages_engine)lowest(r->engines);
	f->context.activity = (enum messages_activity)lowest(r->doing);
	/* a load is its own moment, if no frame shows another */
	if (f->context.activity == MESSAGES_DOING_LOADING && r->moments &&
	    !(r->moments >> MESSAGES_LOADING & 1))
		f->event.traceback.moment = (enum messages_moment)lowest(
			r->moments & ~(uint64_t)(1 << MESSAGES_MOMENT_UNKNOWN));
	f->context.backend = (enum messages_backend)lowest(r->backends);
	if (set)
		f->context.set[lowest(set)] = (struct messages_set){ 1, 1, -1 };
	if (tasks)
		f->context.set[MESSAGES_TASKS + lowest(tasks)] = (struct messages_set){ 1, 1, -1 };
	f->as = (struct advice_case){ &f->event, &f->told, &f->context, r->facts & ~r->without };
}

static int holds(uint64_t set, unsigned value)
{
	return !set || (value < 64 && set >> value & 1);
}

/* Does the row fit exactly those values of `*at`, up to `n`, that its set holds? */
static int fits_exactly(const struct advice_row *r, const struct failure *f, unsigned *at,
			uint64_t set, unsigned n, const char *what)
{
	unsigned own = *at;
	int good = 1;

	for (*at = 0; *at < n; ++*at)
		if (advice_row_fits(r, &f->as) !=
		    ((at == (const unsigned *)&f->event.traceback.moment || holds(set, *at)) &&
		     holds(r->moments, findings_moment(&f->event, &f->context)))) {
			print_error("row %zu, \"%.60s\": %s %u\n", (size_t)(r - advice_rows),
				    r->text, what, *at);
			good = 0;
		}
	*at = own;
	return good;
}

/* No row fits a failure of another engine than it names; nor of another activity, driver, kind, bound or moment. */
static void test_no_others(void **state)
{
	int good = 1;

	(void)state;
	assert_true(advice_row_count > 200);
	for (size_t i = 0; i < advice_row_count; i++) {
		const struct advice_row *r = &advice_rows[i];
		struct failure f;

		make(r, &f);
		if (!advice_row_fits(r, &f.as)) {
			print_error("row %zu, \"%.60s\", fits nothing\n", i, r->text);
			good = 0;
			continue;
		}
		good &= fits_exactly(r, &f, (unsigned *)&f.context.engine, r->engines,
				     MESSAGES_ENGINES, "engine");
		good &= fits_exactly(r, &f, (unsigned *)&f.context.activity, r->doing,
				     MESSAGES_DOINGS, "activity");
		good &= fits_exactly(r, &f, (unsigned *)&f.context.backend, r->backends,
				     MESSAGES_BACKEND_OTHER + 1, "driver");
		good &= fits_exactly(r, &f, (unsigned *)&f.wording.class, r->kinds,
				     MESSAGES_STOPPED, "kind");
		good &= fits_exactly(r, &f, (unsigned *)&f.event.traceback.moment, r->moments,
				     MESSAGES_MOMENTS, "moment");
	}
	assert_true(good);
}

/* What the text shows to be spent is not advised. */
static void test_spent(void **state)
{
	(void)state;
	for (size_t i = 0; i < advice_row_count; i++) {
		const struct advice_row *r = &advice_rows[i];
		struct failure f;

		make(r, &f);
		for (unsigned s = 0; s < MESSAGES_TASKS; s++) {
			struct messages_set had = f.context.set[s];

			f.context.set[s] = (struct messages_set){ 1, 1, -1 };
			assert_int_equal(advice_row_fits(r, &f.as), !(r->unless >> s & 1));
			f.context.set[s] = had;
		}
	}
}

#define IN(engine) (1ULL << MESSAGES_ENGINE_##engine)

/* What is of one engine's spelling stands in no row that is for any engine. */
static void test_spelling(void **state)
{
	const struct {
		const char *word;
		uint64_t engines; /* that may be reported so */
	} words[] = {
		{ "--gpu-memory-utilization", IN(VLLM) },
		{ "--mem-fraction-static", IN(SGLANG) },
		{ "-ngl", IN(LLAMA_CPP) },
		{ "num_ctx", IN(OLLAMA) },
		{ "OLLAMA_", IN(OLLAMA) },
		{ "--gpulayers", IN(KOBOLDCPP) },
		{ "--novram", IN(COMFYUI) | IN(FORGE) | IN(SDNEXT) | IN(FOOOCUS) },
		{ "XLA_PYTHON_CLIENT", IN(JAX) },
		{ "set_memory_growth", IN(TENSORFLOW) },
		{ "jax.", IN(JAX) },
		{ "dask_cudf", IN(RAPIDS) },
		{ "-Xmx", IN(JVM) },
		{ "torch.", advice_cached | IN(UNKNOWN) | IN(MEGATRON) | IN(ULTRALYTICS) |
				    IN(WHISPER) | IN(EXLLAMA) | IN(RAY) },
	};
	int good = 1;

	(void)state;
	for (size_t i = 0; i < advice_row_count; i++)
		for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
			const struct advice_row *r = &advice_rows[i];

			if (!strstr(r->text, words[w].word) ||
			    (r->engines && !(r->engines & ~words[w].engines)))
				continue;
			print_error("row %zu, \"%.60s\": '%s'\n", i, r->text, words[w].word);
			good = 0;
		}
	assert_true(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_others),
		cmocka_unit_test(test_spent),
		cmocka_unit_test(test_spelling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
