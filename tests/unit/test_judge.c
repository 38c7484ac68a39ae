/* What is reported of a checkpoint: verdicts and their order, groups, what a resume wants, which of a series stay. */
#include "checkpoint/parts.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct plim_err err;
static struct mem mem;
static struct ckpt ckpt;

static void begin(void)
{
	mem_init(&mem, 0);
	ckpt_init(&ckpt, &mem);
}

static void end(void)
{
	ckpt_close(&ckpt);
	assert_int_equal(mem.used_bytes, 0);
}

static uint32_t text(const char *s)
{
	enum plim_status st = PLIM_OK;

	return ckpt_model_string(&ckpt, s, strlen(s), &st, &err);
}

static void name_global(const char *name, enum ckpt_trust trust)
{
	struct ckpt_global g = { .name = text(name), .trust = trust };

	ckpt.pickled = true;
	assert_int_equal(vec_push(&mem, &ckpt.globals, g, &err), 0);
}

static void judged(bool scanned, size_t missing, enum ckpt_verdict verdict,
		   enum ckpt_verdict integrity, const char *words)
{
	struct ckpt_judgement j;

	ckpt_judge(&ckpt, scanned, missing, "epoch", &j);
	assert_int_equal(j.verdict, verdict);
	assert_int_equal(j.integrity, integrity);
	if (!strstr(j.headline, words))
		fail_msg("'%s' does not say '%s'", j.headline, words);
}

static void test_verdicts(void **state)
{
	(void)state;
	begin();
	judged(false, 0, CKPT_NOT_VERIFIED, CKPT_NOT_VERIFIED, "not read");
	ckpt.verified_records = 3;
	judged(true, 0, CKPT_WHOLE, CKPT_WHOLE, "all 3 records");
	ckpt.unprotected_bytes = 7;
	judged(true, 0, CKPT_UNPROVEN, CKPT_UNPROVEN, "7 bytes have no checksum");
	judged(true, 1, CKPT_DAMAGED, CKPT_DAMAGED, "the required key 'epoch' is missing");
	judged(true, 2, CKPT_DAMAGED, CKPT_DAMAGED, "'epoch' for one");
	name_global("torch.Size", CKPT_PLAIN);
	judged(true, 0, CKPT_UNPROVEN, CKPT_UNPROVEN, "structure is right");
	name_global("mine.Model", CKPT_UNKNOWN);
	judged(true, 0, CKPT_UNKNOWN_CODE, CKPT_UNPROVEN, "'mine.Model', which is on no list");
	name_global("mine.Other", CKPT_UNKNOWN);
	judged(true, 0, CKPT_UNKNOWN_CODE, CKPT_UNPROVEN, "and 1 more");
	/* Damage is worse than what is not known, and code that runs worse than damage. */
	ckpt_model_find(&ckpt, CKPT_WARN, "a", 0, &err, "a warning");
	ckpt_model_find(&ckpt, CKPT_BAD_FINDING, "crc_mismatch", 0, &err, "the first damage");
	ckpt_model_find(&ckpt, CKPT_BAD_FINDING, "overlap", 0, &err, "the second");
	judged(true, 0, CKPT_DAMAGED, CKPT_DAMAGED, "the first damage");
	ckpt.truncated = true;
	judged(true, 0, CKPT_TRUNCATED, CKPT_TRUNCATED, "the first damage");
	ckpt_model_find(&ckpt, CKPT_BAD_FINDING, "dangerous_pickle", 0, &err, "names os.system");
	judged(true, 0, CKPT_RUNS_CODE, CKPT_TRUNCATED, "os.system");
	ckpt.unreadable = true;
	judged(true, 0, CKPT_RUNS_CODE, CKPT_NOT_A_CHECKPOINT, "os.system");
	end();
	begin();
	ckpt.pickled = ckpt.many_globals = true;
	judged(true, 0, CKPT_UNKNOWN_CODE, CKPT_WHOLE, "more than can be looked at");
	end();
}

static void add_tensor(const char *name, const char *device)
{
	const uint64_t size = 4;
	struct ckpt_tensor t = { .name = text(name),
				 .location = device ? text(device) : CKPT_NONE,
				 .extent = CKPT_NONE,
				 .dtype = ckpt_dtype_of_torch(strstr(name, "bias") ? "float32"
										   : "bfloat16"),
				 .rank = 1 };

	assert_int_equal(ckpt_model_tensor(&ckpt, t, &size, NULL, NULL, &err), 0);
}

static void test_groups(void **state)
{
	static struct ckpt_groups g;
	char name[64];

	(void)state;
	begin();
	add_tensor("a.x.weight", "cpu");
	add_tensor("a.x.bias", "cuda:0");
	add_tensor("a.y.weight", NULL);
	add_tensor("b", NULL);
	assert_int_equal(ckpt_group(&ckpt, &g, &err), 0);
	assert_int_equal(g.prefixes.n, 3);
	assert_string_equal(intern_text(&g.prefixes, 0), "a.x");
	assert_int_equal(g.rows[0].tensors, 2);
	assert_int_equal(g.rows[0].bytes, 24);
	assert_string_equal(g.rows[0].dtypes, "bfloat16, float32");
	assert_string_equal(g.rows[0].devices, "cpu, cuda:0");
	assert_string_equal(intern_text(&g.prefixes, 2), "");
	ckpt_groups_release(&g);
	/* Where the deepest prefixes are too many, shorter ones are taken. */
	for (int i = 0; i < 3 * CKPT_GROUPS; i++) {
		snprintf(name, sizeof(name), "c.%d.weight", i);
		add_tensor(name, NULL);
	}
	assert_int_equal(ckpt_group(&ckpt, &g, &err), 0);
	assert_true(g.prefixes.n <= CKPT_GROUPS);
	assert_int_equal(intern_find(&g.prefixes, "c.0", 3), INTERN_NONE);
	ckpt_groups_release(&g);
	end();
}

static bool misses(const char *what)
{
	const char *missing[CKPT_WANTS];
	size_t n = ckpt_resume_missing(&ckpt, missing);

	for (size_t i = 0; i < n; i++)
		if (strstr(missing[i], what))
			return true;
	return false;
}

static void test_resume(void **state)
{
	struct ckpt_key key = { 0 };

	(void)state;
	begin();
	add_tensor("model.fc.weight", NULL);
	assert_true(ckpt_has_key(&ckpt, "model", 5));
	assert_true(ckpt_has_key(&ckpt, "model.fc", 8));
	assert_false(ckpt_has_key(&ckpt, "mod", 3));
	assert_false(misses("optimizer")); /* weights alone */
	key.name = text("epoch");
	assert_int_equal(vec_push(&mem, &ckpt.keys, key, &err), 0);
	assert_true(misses("optimizer"));
	assert_false(misses("epoch"));
	assert_false(misses("weights"));
	end();
}

/* ---- a series ---- */

struct series {
	char folder[64];
	unsigned good; /* bit i: entry i is */
	unsigned asked;
};

static enum plim_status is_good(void *ctx, size_t i, bool *good, struct plim_err *e)
{
	struct series *s = ctx;

	(void)e;
	s->asked |= 1u << i;
	*good = s->good >> i & 1;
	return PLIM_OK;
}

static void make(const char *folder, const char *name)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
}

/* Newest first: 5, 4, 3, 2, 1. */
static void kept(unsigned good, uint64_t keep, bool dry, uint32_t last, uint64_t removed)
{
	struct series s = { .folder = "/tmp/plimsoll-keep-XXXXXX", .good = good };
	struct ckpt_series c;
	struct ckpt_keep k = { .keep = keep, .dry = dry, .verify = is_good, .ctx = &s };
	struct mem m;
	char path[200];

	assert_non_null(mkdtemp(s.folder));
	for (int i = 1; i <= 5; i++) {
		snprintf(path, sizeof(path), "step_%d.pt", i);
		make(s.folder, path);
	}
	mem_init(&m, 0);
	assert_int_equal(ckpt_series_open(&c, &m, s.folder, &err), 0);
	assert_int_equal(c.entries.n, 5);
	assert_int_equal(ckpt_series_keep(&c, &k, &err), 0);
	assert_int_equal(k.last_good, last);
	assert_int_equal(k.removed, removed);
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/step_%d.pt", s.folder, 5 - (int)i);
		assert_int_equal(unlink(path) != 0, c.entries.at[i].fate == CKPT_GONE);
	}
	ckpt_series_close(&c);
	assert_int_equal(m.used_bytes, 0);
	assert_int_equal(rmdir(s.folder), 0);
}

static void test_keep(void **state)
{
	(void)state;
	kept(0x1f, 0, false, 0, 0);
	kept(0x1c, 0, false, 2, 0); /* the two newest are not good */
	kept(0x00, 2, false, CKPT_NONE, 0);
	kept(0x1f, 2, false, 0, 3);
	kept(0x1f, 2, true, 0, 3);
	kept(0x1a, 2, false, 1, 1); /* good are 4, 2, 1; what lies between the kept ones stays */
	kept(0x10, 2, false, 4, 0); /* fewer than asked: nothing goes */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_keep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
