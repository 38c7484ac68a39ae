/*
 * Training logs, piece by piece: checksums and numbers, names, statistics, each detector on a small curve that has the
 * fault and one that nearly has it, the monitor's memory, damaged files, and every allocation failing in turn.
 */
#include "series/parts.h"
#include "series/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- bytes and words ---- */

static void test_crc32c(void **state)
{
	uint8_t bytes[300];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 3);
	assert_int_equal(wire_crc32c((const uint8_t *)"123456789", 9), 0xe3069283u);
	assert_int_equal(wire_masked(wire_crc32c(bytes, 0)), 0xa282ead8u);
	for (size_t n = 0; n < sizeof(bytes); n++)
		assert_int_equal(wire_crc32c(bytes, n), wire_crc32c_by_table(bytes, n));
}

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		size_t length;
		double value;
	} cases[] = { { "1", 1, 1 },
		      { "-2.5e-3,", 7, -0.0025 },
		      { "1e4 ", 3, 1e4 },
		      { "nan]", 3, NAN },
		      { "NaN", 3, NAN },
		      { "inf", 3, INFINITY },
		      { "-Infinity", 9, -INFINITY },
		      { "x", 0, 0 },
		      { "", 0, 0 },
		      { "-", 0, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		double v = 0;
		size_t n = series_number(cases[i].text, strlen(cases[i].text), &v);

		if (n != cases[i].length)
			fail_msg("'%s': %zu", cases[i].text, n);
		assert_true(!n || v == cases[i].value || (isnan(v) && isnan(cases[i].value)));
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		enum plim_role role;
	} cases[] = {
		{ "loss", PLIM_ROLE_TRAIN_LOSS },
		{ "train/loss", PLIM_ROLE_TRAIN_LOSS },
		{ "lm loss", PLIM_ROLE_TRAIN_LOSS },
		{ "eval_loss", PLIM_ROLE_VAL_LOSS },
		{ "val/epoch_loss", PLIM_ROLE_VAL_LOSS },
		{ "validLoss", PLIM_ROLE_VAL_LOSS },
		{ "eval_accuracy", PLIM_ROLE_METRIC },
		{ "val_f1", PLIM_ROLE_METRIC },
		{ "eval_wer", PLIM_ROLE_ERROR },
		{ "perplexity", PLIM_ROLE_ERROR },
		{ "grad_norm", PLIM_ROLE_GRAD_NORM },
		{ "train/gradient_norm", PLIM_ROLE_GRAD_NORM },
		{ "lr-AdamW", PLIM_ROLE_LEARNING_RATE },
		{ "learning rate", PLIM_ROLE_LEARNING_RATE },
		{ "loss scale", PLIM_ROLE_LOSS_SCALE },
		{ "number of skipped iterations", PLIM_ROLE_SKIPPED_STEPS },
		{ "memory_gb", PLIM_ROLE_MEMORY },
		{ "policy/entropy", PLIM_ROLE_ENTROPY },
		{ "eval_runtime", PLIM_ROLE_OTHER },
		{ "tokens_per_second", PLIM_ROLE_OTHER },
		{ "floss", PLIM_ROLE_OTHER },
		{ "binary_logloss", PLIM_ROLE_TRAIN_LOSS },
		{ "reward", PLIM_ROLE_METRIC },
		{ "rollout/ep_rew_mean", PLIM_ROLE_METRIC },
		{ "reward_std", PLIM_ROLE_OTHER },
		{ "eval_rewards/chosen", PLIM_ROLE_OTHER },
		{ "eval_rewards/margins", PLIM_ROLE_METRIC },
		{ "episodic_return", PLIM_ROLE_METRIC },
		{ "return code", PLIM_ROLE_OTHER },
		{ "", PLIM_ROLE_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (plim_role_of(cases[i].name) != cases[i].role)
			fail_msg("'%s' is %s", cases[i].name,
				 plim_role_name(plim_role_of(cases[i].name)));
	assert_true(series_name_of("train/loss", 10).key == series_name_of("eval_loss", 9).key);
	assert_true(series_name_of("acc", 3).key != series_name_of("loss", 4).key);
}

/* ---- statistics ---- */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static uint64_t seed = 88172645463325252u;

static double random_unit(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (double)(seed >> 11) / 9007199254740992.0;
}

/* Near enough to a normal distribution: twelve added. */
static double random_normal(void)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += random_unit();
	return sum;
}

static void test_median(void **state)
{
	(void)state;
	assert_true(isnan(series_median(NULL, 0)));
	for (int round = 0; round < 2000; round++) {
		double a[64], b[64];
		size_t n = 1 + (size_t)(random_unit() * 63.99);

		for (size_t i = 0; i < n; i++)
			a[i] = b[i] = round % 3 ? random_unit() : floor(random_unit() * 4);
		qsort(b, n, sizeof(*b), by_size);
		assert_true(series_median(a, n) ==
			    (n % 2 ? b[n / 2] : (b[n / 2 - 1] + b[n / 2]) / 2));
	}
}

/* All values are in the cells, whatever their number. */
static void test_history(void **state)
{
	struct series_history h = { .stride = 1 };

	(void)state;
	for (int i = 0; i < 5000; i++) {
		double sum = h.open.n * h.open.mean;
		uint64_t n = h.open.n;

		for (uint32_t k = 0; k < h.n; k++) {
			assert_true(h.at[k].min <= h.at[k].mean && h.at[k].mean <= h.at[k].max);
			assert_int_equal(h.at[k].n, h.stride);
			sum += h.at[k].mean * h.at[k].n;
			n += h.at[k].n;
		}
		assert_int_equal(n, i);
		assert_true(fabs(sum - (double)i * (i - 1) / 2) <= 1e-6 * sum + 1e-9);
		series_push_history(&h, i, i, NAN);
		assert_true(h.n < SERIES_CELLS);
	}
}

/* ---- detectors, through a monitor ---- */

struct fed {
	struct mem mem;
	struct series_monitor m;
};

static void begin(struct fed *f)
{
	mem_init(&f->mem, (uint64_t)64 << 20);
	series_monitor_init(&f->m, &f->mem);
}

static void end(struct fed *f)
{
	series_monitor_release(&f->m);
	assert_int_equal(f->mem.used_bytes, 0);
}

static void feed(struct fed *f, const char *name, double step, double value)
{
	struct plim_err err;
	uint32_t series;

	assert_int_equal(series_monitor_add(&f->m, name, strlen(name), &series, &err), PLIM_OK);
	assert_int_equal(series_monitor_feed(&f->m, series, step, value, &err), PLIM_OK);
}

/* The first finding of that id that counts, or NULL. */
static const struct series_finding *find(const struct fed *f, enum plim_curves_id id)
{
	for (size_t i = 0; i < f->m.findings.n; i++)
		if (f->m.findings.at[i].id == (uint32_t)id &&
		    series_finding_counts(&f->m, &f->m.findings.at[i]))
			return &f->m.findings.at[i];
	return NULL;
}

static double healthy(int i, double noise)
{
	return 4 * pow(1 + i / 20.0, -0.3) * exp(noise * random_normal());
}

static void test_healthy(void **state)
{
	(void)state;
	for (int run = 0; run < 20; run++) {
		struct fed f;

		begin(&f);
		for (int i = 1; i < 600; i++) {
			feed(&f, "loss", i, healthy(i, 0.03));
			feed(&f, "grad_norm", i, exp(0.3 * random_normal()));
			feed(&f, "lr", i, 1e-4 * (1 - i / 600.0));
			if (i % 30 == 0)
				feed(&f, "eval_loss", i, 1.1 * healthy(i, 0.005));
		}
		for (size_t i = 0; i < f.m.findings.n; i++)
			if (f.m.findings.at[i].severity != PLIM_SEVERITY_INFO)
				fail_msg("run %d: %s at %g", run,
					 plim_curves_id_name(f.m.findings.at[i].id),
					 f.m.findings.at[i].step);
		end(&f);
	}
}

static void test_not_finite(void **state)
{
	struct fed f;

	(void)state;
	begin(&f);
	for (int i = 1; i < 100; i++) {
		feed(&f, "loss", i, i < 60 ? healthy(i, 0.01) : NAN);
		/* A GradScaler makes single ones. */
		feed(&f, "grad_norm", i, i % 20 ? 1 : INFINITY);
	}
	assert_non_null(find(&f, PLIM_CURVES_NAN));
	assert_true(find(&f, PLIM_CURVES_NAN)->step == 60 &&
		    find(&f, PLIM_CURVES_NAN)->detected == 60 &&
		    find(&f, PLIM_CURVES_NAN)->severity == PLIM_SEVERITY_ERROR);
	assert_null(find(&f, PLIM_CURVES_INF));
	end(&f);
	begin(&f);
	for (int i = 1; i < 100; i++) {
		feed(&f, "grad_norm", i, i < 60 ? 1 : NAN);
		feed(&f, "loss", i, i < 60 ? healthy(i, 0.01) : 0);
	}
	assert_non_null(find(&f, PLIM_CURVES_NAN));
	assert_true(find(&f, PLIM_CURVES_NAN)->step == 60);
	end(&f);
}

/* A bump of three times the noise that lasts twelve values is seen when it is over; the same without it is not. */
static void test_bump(void **state)
{
	int found = 0;

	(void)state;
	for (int run = 0; run < 100; run++) {
		const struct series_finding *x;
		struct fed f;
		bool with = run % 2;

		begin(&f);
		for (int i = 1; i < 200; i++)
			feed(&f, "loss", i,
			     healthy(i, 0.06) * (with && i >= 100 && i < 112 ? exp(0.25) : 1));
		x = find(&f, PLIM_CURVES_SPIKE);
		if (with && x && x->step >= 94 && x->step <= 112 && x->detected <= 140)
			found++;
		assert_true(with || !x);
		end(&f);
	}
	assert_true(found >= 47);
}

/* A spike that stays is a new level; when it is left it has come back. */
static void test_new_level(void **state)
{
	const struct series_finding *x;
	struct fed f;

	(void)state;
	begin(&f);
	for (int i = 1; i < 300; i++)
		feed(&f, "loss", i, 2 + 0.01 * random_normal() + (i >= 150) * 2);
	x = find(&f, PLIM_CURVES_SPIKE);
	assert_true(x && x->step == 150 && isnan(x->end) && x->severity == PLIM_SEVERITY_WARNING);
	for (int i = 300; i < 310; i++)
		feed(&f, "loss", i, 2 + 0.01 * random_normal());
	x = find(&f, PLIM_CURVES_SPIKE);
	assert_true(x->end >= 300 && x->end <= 302 && x->severity == PLIM_SEVERITY_INFO);
	end(&f);
}

/* Warm restarts raise the loss to where it was: no divergence, no spike. */
static void test_restart(void **state)
{
	struct fed f;

	(void)state;
	begin(&f);
	for (int i = 1; i < 400; i++) {
		int phase = i % 100;

		feed(&f, "lr", i, 1e-3 * (1 - phase / 100.0));
		feed(&f, "loss", i, 2 - 0.008 * phase + 0.005 * random_normal());
	}
	assert_null(find(&f, PLIM_CURVES_DIVERGED));
	assert_null(find(&f, PLIM_CURVES_SPIKE));
	end(&f);
}

static void overfit(struct fed *f, double train_slope, double val_rise)
{
	for (int i = 1; i <= 300; i++) {
		feed(f, "loss", i,
		     3 * exp(-0.004 * fmin(i, train_slope > 0 ? 150 : 120)) *
			     exp(-train_slope * fmax(0, i - 150)));
		if (i % 15 == 0)
			feed(f, "val_loss", i,
			     (i <= 150 ? 3.3 * exp(-0.004 * i)
				       : 3.3 * exp(-0.6) + val_rise * (i - 150)) *
				     exp(0.003 * random_normal()));
	}
}

static void test_overfit(void **state)
{
	const struct series_finding *x;
	struct fed f;

	(void)state;
	begin(&f);
	overfit(&f, 0.004, 0.004); /* training goes on falling */
	x = find(&f, PLIM_CURVES_OVERFIT);
	assert_true(x && fabs(x->step - 150) <= 30 && x->detected <= 240);
	end(&f);
	begin(&f);
	overfit(&f, 0, 0.004); /* training stands still */
	x = find(&f, PLIM_CURVES_OVERFIT);
	assert_true(x && x->confidence <= 0.75);
	end(&f);
	begin(&f);
	overfit(&f, -0.004, 0.004); /* both rise: that is divergence */
	assert_null(find(&f, PLIM_CURVES_OVERFIT));
	end(&f);
	begin(&f);
	overfit(&f, 0.004, 0.0001); /* it stands still */
	assert_null(find(&f, PLIM_CURVES_OVERFIT));
	end(&f);
}

static void test_others(void **state)
{
	struct fed f;

	(void)state;
	begin(&f);
	for (int i = 1; i <= 600; i++) {
		feed(&f, "memory_gb", i, 10 + 0.01 * i + 0.05 * random_unit());
		feed(&f, "gpu_memory", i, 10 + 5 * (1 - exp(-i / 20.0)) + 0.05 * random_unit());
		feed(&f, "loss_scale", i, i < 400 ? 65536 : ldexp(65536, -(i - 400) / 4));
		feed(&f, "lr", i, i < 500 ? 1e-4 : 0);
		feed(&f, "loss", i, 2.3 + 0.01 * random_normal());
		feed(&f, "grad_norm", i, i > 300 && i < 306 ? 50 : 1 + 0.1 * random_unit());
	}
	assert_non_null(find(&f, PLIM_CURVES_MEMORY_CREEP));
	assert_int_equal(find(&f, PLIM_CURVES_MEMORY_CREEP)->series, 0);
	assert_true(find(&f, PLIM_CURVES_SCALER_SKIPS)->step >= 400);
	assert_true(find(&f, PLIM_CURVES_LEARNING_RATE)->step == 500);
	assert_true(find(&f, PLIM_CURVES_EXPLOSION)->step == 301);
	assert_non_null(find(&f, PLIM_CURVES_PLATEAU));
	for (size_t i = 0; i < f.m.findings.n; i++) {
		struct series_words words;

		series_tell(&f.m, &f.m.findings.at[i], &words);
		assert_true(*words.title && words.evidence_count && !strstr(words.title, "nan"));
	}
	end(&f);
}

/* ---- a monitor that was saved goes on as if it never was ---- */

static double curve(int i)
{
	seed = (uint64_t)i * 2654435761u + 88172645463325252u;
	random_unit();
	return healthy(i, 0.05) * (i > 350 && i < 366 ? 1.5 : 1);
}

static void test_saved(void **state)
{
	struct fed whole, part, other;
	struct plim_err err;
	size_t n, again;
	uint8_t *bytes, *end_state;

	(void)state;
	begin(&whole);
	begin(&part);
	begin(&other);
	for (int i = 1; i <= 300; i++) {
		feed(&whole, "loss", i, curve(i));
		feed(&part, "loss", i, curve(i));
	}
	assert_int_equal(series_monitor_save(&part.m, NULL, 0, &n, &err), PLIM_OK);
	bytes = calloc(1, n);
	assert_int_equal(series_monitor_save(&part.m, bytes, n - 1, &n, &err), PLIM_E_ARG);
	assert_int_equal(series_monitor_save(&part.m, bytes, n, &n, &err), PLIM_OK);
	assert_int_equal(series_monitor_restore(&other.m, bytes, n, &err), PLIM_OK);
	for (int i = 301; i <= 500; i++) {
		feed(&whole, "loss", i, curve(i));
		feed(&other, "loss", i, curve(i));
	}
	assert_true(whole.m.findings.n && whole.m.findings.n == other.m.findings.n);
	assert_int_equal(series_monitor_save(&whole.m, NULL, 0, &n, &err), PLIM_OK);
	end_state = calloc(2, n);
	assert_int_equal(series_monitor_save(&whole.m, end_state, n, &n, &err), PLIM_OK);
	assert_int_equal(series_monitor_save(&other.m, end_state + n, n, &again, &err), PLIM_OK);
	assert_memory_equal(end_state, end_state + n, n);
	/* No byte may be another. */
	for (size_t i = 0; i < n; i += 97) {
		end_state[i] ^= 4;
		assert_int_equal(series_monitor_restore(&part.m, end_state, n, &err),
				 PLIM_E_FORMAT);
		end_state[i] ^= 4;
	}
	free(bytes);
	free(end_state);
	end(&whole);
	end(&part);
	end(&other);
}

/* What was found in steps that are trained again is taken back. */
static void test_resumed(void **state)
{
	struct fed f;

	(void)state;
	begin(&f);
	for (int i = 1; i <= 100; i++)
		feed(&f, "loss", i, i < 90 ? healthy(i, 0.01) : NAN);
	assert_non_null(find(&f, PLIM_CURVES_NAN));
	series_monitor_rewind(&f.m, 80);
	assert_null(find(&f, PLIM_CURVES_NAN));
	for (int i = 80; i <= 120; i++)
		feed(&f, "loss", i, healthy(i, 0.01));
	assert_null(find(&f, PLIM_CURVES_NAN));
	end(&f);
}

/* ---- files ---- */

static char path[] = "/tmp/plimsoll-test-series-XXXXXX";

static void put_file(const void *bytes, size_t n)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static size_t event(uint8_t *to, uint64_t step, float value)
{
	uint8_t data[] = { 0x10, 0,   0x2a, 13,   0x0a, 11, 0x0a, 4, 'l',
			   'o',  's', 's',  0x15, 0,    0,  0,    0 };
	uint64_t length = sizeof(data);
	uint32_t crc;

	data[1] = (uint8_t)step;
	memcpy(data + 13, &value, 4);
	memcpy(to, &length, 8);
	crc = wire_masked(wire_crc32c(to, 8));
	memcpy(to + 8, &crc, 4);
	memcpy(to + 12, data, length);
	crc = wire_masked(wire_crc32c(data, length));
	memcpy(to + 12 + length, &crc, 4);
	return length + 16;
}

struct reading {
	struct mem mem;
	struct series_run run;
};

static enum plim_status read_file(struct reading *r, int64_t fail_after, struct plim_err *err)
{
	static const struct series_options options = { .patience = PLIM_UNKNOWN };
	enum plim_status st;
	bool changed;

	mem_init(&r->mem, (uint64_t)64 << 20);
	if (fail_after >= 0)
		r->mem.fail_after = fail_after;
	series_run_init(&r->run, &r->mem, &options);
	st = series_run_add_file(&r->run, path, SERIES_KIND_UNKNOWN, err);
	return st ? st : series_run_read(&r->run, &changed, err);
}

static void read_end(struct reading *r)
{
	series_run_release(&r->run);
	assert_int_equal(r->mem.used_bytes, 0);
}

static void test_events(void **state)
{
	uint8_t bytes[100 * 40];
	size_t n = 0, one = 0;
	struct reading r;
	struct plim_err err;
	bool changed;

	(void)state;
	for (uint64_t i = 1; i <= 50; i++) {
		one = event(bytes + n, i, 2.5f);
		n += one;
	}
	put_file(bytes, n);
	assert_int_equal(read_file(&r, -1, &err), PLIM_OK);
	assert_true(r.run.points == 50 && !r.run.bad_records && !r.run.torn &&
		    r.run.last_step == 50);
	read_end(&r);

	bytes[10 * one + 20] ^= 1; /* in the data of the 11th */
	bytes[20 * one + 3] ^= 1;  /* in the length of the 21st */
	put_file(bytes, n - 5);    /* and the last is torn */
	assert_int_equal(read_file(&r, -1, &err), PLIM_OK);
	assert_int_equal(r.run.points, 47);
	assert_int_equal(r.run.bad_records, 2);
	assert_true(r.run.torn && r.run.bad_offset == 10 * one);
	put_file(bytes, n); /* it was being written */
	assert_int_equal(series_run_read(&r.run, &changed, &err), PLIM_OK);
	assert_true(changed && r.run.points == 48 && !r.run.torn && r.run.last_step == 50);
	assert_int_equal(series_run_read(&r.run, &changed, &err), PLIM_OK);
	assert_false(changed);
	read_end(&r);
}

/* A last line without an end was read; when it goes on, its number was only the beginning of one. */
static void test_unended(void **state)
{
	static const char *const texts[] = { "epoch,loss\n1,0.9\n2,0.8",
					     "epoch 1 loss 0.9\nepoch 2 loss 0.8" };
	static const char *const more[] = { "5\n3,0.7\n", "5\nepoch 3 loss 0.7\n" };
	struct reading r;
	struct plim_err err;
	bool changed;

	(void)state;
	for (int i = 0; i < 2; i++) {
		char bytes[80];
		int n = snprintf(bytes, sizeof(bytes), "%s", texts[i]);

		put_file((uint8_t *)bytes, (size_t)n);
		assert_int_equal(read_file(&r, -1, &err), PLIM_OK);
		assert_true(r.run.points == 2 && r.run.monitor.watches.at[0].last == 0.8);
		n = snprintf(bytes, sizeof(bytes), "%s%s", texts[i], more[i]);
		put_file((uint8_t *)bytes, (size_t)n);
		assert_int_equal(series_run_read(&r.run, &changed, &err), PLIM_OK);
		assert_true(r.run.points == 3 && r.run.monitor.watches.at[0].max == 0.9 &&
			    r.run.monitor.watches.at[0].total > 2.44);
		read_end(&r);
	}
}

/* What is not a row is counted, the rest is read; bare NaN is a number. */
static void test_damaged_text(void **state)
{
	static const char json[] = "{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"lo\n"
				   "{\"step\": 3, \"loss\": NaN}\n{\"step\": 4, \"loss\": \"x\"}\n"
				   "{\"step\": 5, \"loss\": 1.5}";
	static const char csv[] = "step,loss,eval_loss\n1,2.5,\n2,oops,\n3,2.25,3\n4,2,";
	struct reading r;
	struct plim_err err;

	(void)state;
	put_file(json, sizeof(json) - 1);
	assert_int_equal(read_file(&r, -1, &err), PLIM_OK);
	assert_true(r.run.kind == SERIES_KIND_JSON && r.run.monitor.watches.at[0].non_finite == 1 &&
		    r.run.points >= 2);
	read_end(&r);
	put_file(csv, sizeof(csv) - 1);
	assert_int_equal(read_file(&r, -1, &err), PLIM_OK);
	assert_true(r.run.kind == SERIES_KIND_CSV && r.run.bad_cells == 1);
	read_end(&r);
}

static void test_out_of_memory(void **state)
{
	uint8_t bytes[40 * 40];
	enum plim_status st = PLIM_E_NOMEM;
	struct reading r;
	struct plim_err err;
	size_t n = 0;
	int64_t after = 0;

	(void)state;
	for (uint64_t i = 0; i < 40; i++) /* with a resume, so that it is read twice */
		n += event(bytes + n, i < 25 ? i : i - 5, (float)i);
	put_file(bytes, n);
	for (; st && after < 10000; after++) {
		st = read_file(&r, after, &err);
		assert_true(!st || (st == PLIM_E_NOMEM && *err.message));
		read_end(&r);
	}
	assert_true(!st && after > 5);
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? 1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

/*
 * A turn was said after four evaluations, as its rise was held against the last three alone; and what noise had begun
 * stayed a warning, though the loss came back to where it was.
 */
static void test_turn(void **state)
{
	static const double wobble[] = { 0.004, -0.003, 0.001, -0.004, 0.002, 0.003, -0.002 };
	const struct series_finding *x;
	struct fed f;

	(void)state;
	for (int comes_back = 0; comes_back < 2; comes_back++) {
		begin(&f);
		for (int i = 1; i <= 240; i++) {
			int evaluation = i / 10, over = evaluation - 12;
			double up = over <= 0 ? -0.03 * over : 0.015 * over;

			feed(&f, "loss", i,
			     3 * exp(-0.005 * i) * exp(0.02 * wobble[i % 7] / 0.004));
			if (comes_back && over > 4)
				up = 0;
			if (i % 10 == 0)
				feed(&f, "val_loss", i, 2 * exp(up + wobble[evaluation % 7]));
		}
		x = find(&f, PLIM_CURVES_OVERFIT);
		assert_true(x && x->detected > 120 && x->detected <= 150);
		assert_int_equal(x->severity,
				 comes_back ? PLIM_SEVERITY_INFO : PLIM_SEVERITY_WARNING);
		assert_true(comes_back ? x->end <= 200 : isnan(x->end) && x->confidence > 0.9);
		end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32c),       cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_names),        cmocka_unit_test(test_median),
		cmocka_unit_test(test_history),      cmocka_unit_test(test_healthy),
		cmocka_unit_test(test_not_finite),   cmocka_unit_test(test_bump),
		cmocka_unit_test(test_new_level),    cmocka_unit_test(test_restart),
		cmocka_unit_test(test_overfit),      cmocka_unit_test(test_turn),
		cmocka_unit_test(test_others),       cmocka_unit_test(test_saved),
		cmocka_unit_test(test_resumed),      cmocka_unit_test(test_events),
		cmocka_unit_test(test_damaged_text), cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_unended),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
