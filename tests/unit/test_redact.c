/* Names that --redact hides: word by word, as a whole, in sentences; what is public stays. */
#include "base/redact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct mem mem;
	struct arena arena;
	struct intern words;
	struct plim_err err;
	struct redact r;
};

static void begin_redact(struct fixture *f)
{
	*f = (struct fixture){ .err.status = PLIM_OK };
	mem_init(&f->mem, 0);
	arena_init(&f->arena, &f->mem);
	intern_init(&f->words, &f->mem);
	f->r = (struct redact){ .arena = &f->arena, .words = &f->words, .err = &f->err };
}

static void end_redact(struct fixture *f)
{
	intern_release(&f->words);
	arena_release(&f->arena);
	assert_int_equal(f->mem.used_bytes, 0);
}

static void test_words_and_numbers(void **state)
{
	static const char *const rows[][2] = {
		{ "model.layers.11.self_attn.q_proj.weight",
		  "model.layers.11.self_attn.q_proj.weight" },
		{ "acme_v2.Conv2d.weight", "name-1_v2.Conv2d.weight" },
		{ "other/acme/other2", "name-2/name-1/name-3" },
		{ "acmeModel", "name-1Model" },
		{ "\xc3\xa4hnlich", "name-4" },
		{ "", "" },
	};
	struct fixture f;

	(void)state;
	begin_redact(&f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *name = rows[i][0];

		redact_words(&f.r, "name", &name);
		assert_string_equal(name, rows[i][1]);
	}
	assert_int_equal(f.err.status, PLIM_OK);
	end_redact(&f);
}

static void test_whole_names(void **state)
{
	const char *name = "/jobs/model", *none = NULL;
	struct fixture f;

	(void)state;
	begin_redact(&f);
	redact_name(&f.r, "cgroup", &name);
	redact_name(&f.r, "cgroup", &none);
	assert_string_equal(name, "cgroup-1");
	assert_null(none);
	end_redact(&f);
}

/* A quoted name may hold a quotation mark; an apostrophe does not begin one. */
static void test_sentences(void **state)
{
	static const char *const rows[][2] = {
		{ "the file's end: 'acme's.pt' is cut",
		  "the file's end: 'name-1'name-2.pt' is cut" },
		{ "see /home/acme/x.pt now", "see /name-3/name-1/x.pt now" },
		{ "not a checkpoint: \"acme here\"", "not a checkpoint: \"name-1 name-4\"" },
		{ "nothing to hide", "nothing to hide" },
	};
	struct fixture f;

	(void)state;
	begin_redact(&f);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *sentence = rows[i][0];

		redact_sentence(&f.r, "name", &sentence);
		assert_string_equal(sentence, rows[i][1]);
	}
	end_redact(&f);
}

static void test_public_lists(void **state)
{
	(void)state;
	assert_true(public_is_program("python3.12"));
	assert_false(public_is_program("python-acme"));
	assert_int_equal(public_package("torch/nn/x.py", 13), 5);
	assert_int_equal(public_package("torchacme/x.py", 14), 0);
	assert_int_equal(public_package("torch", 5), 0);
	assert_true(public_begins(public_functions, public_functions_count, "futex_wait"));
	assert_false(public_begins(public_functions, public_functions_count, "acme_wait"));
	for (size_t i = 0; i < public_words_count; i++)
		assert_true(public_is_word(public_words[i].name, strlen(public_words[i].name)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words_and_numbers),
		cmocka_unit_test(test_whole_names),
		cmocka_unit_test(test_sentences),
		cmocka_unit_test(test_public_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
