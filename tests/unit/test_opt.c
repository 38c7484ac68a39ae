/* The option tables: every kind of row, every way of giving a value, what is refused and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "opt.h"

struct some_opts {
	bool json, quiet;
	uint64_t interval_ms, cap_bytes;
	const char *dir, *mode;
	struct opt_list logs;
	int by;
};

static const char *const by_names[] = { "user-frame", "stack", "size", NULL };

static const struct opt some_opt[] = {
	OPT_HEADING("What to print"),
	OPT_FLAG('j', "json", some_opts, json, "print JSON"),
	OPT_FLAG('q', "quiet", some_opts, quiet, "print less"),
	OPT_U64('i', "interval", some_opts, interval_ms, "ms", 100, 60000, 1000,
		"time between samples"),
	OPT_BYTES(0, "max-memory", some_opts, cap_bytes, 1024, OPT_NONE, OPT_NONE, "memory limit"),
	OPT_STRING('d', "dir", some_opts, dir, "DIR", NULL, "where"),
	OPT_STRING(0, "mode", some_opts, mode, "MODE", "fast", "how"),
	OPT_LIST(0, "log", some_opts, logs, "FILE", "a log"),
	OPT_CHOICE(0, "group-by", some_opts, by, "WHAT", by_names, 1, "owners by what"),
	OPT_END
};

enum { ARGS_MAX = 12 };

struct parsed {
	struct some_opts o;
	struct opt_message message;
	char *argv[ARGS_MAX + 2];
	int argc;
	enum opt_result result;
};

/* `line` is parted at spaces, in place. */
static void parse(struct parsed *p, char *line, unsigned flags)
{
	char *rest = NULL;

	memset(p, 0, sizeof(*p));
	p->argv[p->argc++] = (char *)(uintptr_t) "command";
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		assert_true(p->argc < ARGS_MAX);
		p->argv[p->argc++] = word;
	}
	opt_defaults(some_opt, &p->o);
	p->result = opt_parse(some_opt, &p->o, &p->argc, p->argv, flags, &p->message);
}

static void operands_are(const struct parsed *p, const char *expected)
{
	char got[200] = "";
	size_t n = 0;

	assert_int_equal(p->result, OPT_OK);
	for (int i = 0; i < p->argc; i++)
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s", i ? " " : "", p->argv[i]);
	assert_string_equal(got, expected);
	assert_null(p->argv[p->argc]);
}

static void test_defaults(void **state)
{
	char line[] = "";
	struct parsed p;

	(void)state;
	parse(&p, line, 0);
	operands_are(&p, "");
	assert_false(p.o.json);
	assert_int_equal(p.o.interval_ms, 1000);
	assert_true(p.o.cap_bytes == OPT_NONE);
	assert_null(p.o.dir);
	assert_string_equal(p.o.mode, "fast");
	assert_int_equal(p.o.logs.n, 0);
	assert_int_equal(p.o.by, 1);
	opt_release(some_opt, &p.o);
}

static void test_ways_of_giving_a_value(void **state)
{
	static const char *const lines[] = {
		"a --interval=250 b --dir out --json",
		"a -i250 b -dout -j",
		"-ji 250 a -d out b",
		"-i 250 --dir=out -j a -- b",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char line[100];
		struct parsed p;

		snprintf(line, sizeof(line), "%s", lines[i]);
		parse(&p, line, 0);
		operands_are(&p, "a b");
		assert_true(p.o.json);
		assert_false(p.o.quiet);
		assert_int_equal(p.o.interval_ms, 250);
		assert_string_equal(p.o.dir, "out");
		opt_release(some_opt, &p.o);
	}
}

static void test_values_of_rows(void **state)
{
	char line[] = "--group-by size --log x --log=y --max-memory=24GiB --mode= -";
	struct parsed p;

	(void)state;
	parse(&p, line, 0);
	operands_are(&p, "-");
	assert_int_equal(p.o.by, 2);
	assert_int_equal(p.o.logs.n, 2);
	assert_string_equal(p.o.logs.at[0], "x");
	assert_string_equal(p.o.logs.at[1], "y");
	assert_true(p.o.cap_bytes == 24ull << 30);
	assert_string_equal(p.o.mode, "");
	opt_release(some_opt, &p.o);
	assert_null(p.o.logs.at);
}

static void test_end_of_options(void **state)
{
	char anywhere[] = "-- --json -q", wrapped[] = "-j python train.py --json -- -q",
	     dashed[] = "-j -- python -q";
	struct parsed p;

	(void)state;
	parse(&p, anywhere, 0);
	operands_are(&p, "--json -q");
	assert_false(p.o.json);
	parse(&p, wrapped, OPT_STOP_AT_OPERAND);
	operands_are(&p, "python train.py --json -- -q");
	assert_true(p.o.json);
	assert_false(p.o.quiet);
	parse(&p, dashed, OPT_STOP_AT_OPERAND);
	operands_are(&p, "python -q");
	assert_false(p.o.quiet);
}

static void test_refused(void **state)
{
	static const struct {
		const char *line, *message;
	} rows[] = {
		{ "--jsno", "unknown option '--jsno'; did you mean '--json'?" },
		{ "--groupby=size", "unknown option '--groupby'; did you mean '--group-by'?" },
		{ "--max", "unknown option '--max'; did you mean '--max-memory'?" },
		{ "--hlep", "unknown option '--hlep'; did you mean '--help'?" },
		{ "--frobnicate", "unknown option '--frobnicate'" },
		{ "-x", "unknown option '-x'" },
		{ "-jx", "unknown option '-x'" },
		{ "--json=1", "option '--json' takes no value" },
		{ "--interval", "option '--interval' wants a value (ms): time between samples" },
		{ "-i n=20", "option '-i' wants 100 to 60000, not 'n=20'" },
		{ "-i", "option '-i' wants a value (ms): time between samples" },
		{ "-i 99", "option '-i' wants 100 to 60000, not '99'" },
		{ "-i 60001", "option '-i' wants 100 to 60000, not '60001'" },
		{ "-i -5", "option '-i' wants a whole number, not '-5'" },
		{ "-i 5s", "option '-i' wants a whole number, not '5s'" },
		{ "-i 18446744073709551616",
		  "option '-i' wants a whole number, not '18446744073709551616'" },
		{ "--max-memory=12Q",
		  "option '--max-memory' wants a size such as 24GiB, 24GB or 1000, not '12Q'" },
		{ "--max-memory=0.5KiB",
		  "option '--max-memory' wants at least 1KiB, not '0.5KiB'" },
		{ "--max-memory=24",
		  "option '--max-memory' wants a size with its unit: did you mean '24GiB'?" },
		{ "--group-by=colour",
		  "option '--group-by' wants one of user-frame, stack, size; not 'colour'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[100];
		struct parsed p;

		snprintf(line, sizeof(line), "%s", rows[i].line);
		parse(&p, line, 0);
		assert_int_equal(p.result, OPT_ERROR);
		assert_string_equal(p.message.text, rows[i].message);
		assert_int_equal(p.message.suggests, strstr(rows[i].message, "did you mean") ||
							     strstr(rows[i].message, " meant?"));
		opt_release(some_opt, &p.o);
	}
}

static void test_help_wins(void **state)
{
	char line[] = "--log x --help --unknown";
	struct parsed p;

	(void)state;
	parse(&p, line, 0);
	assert_int_equal(p.result, OPT_HELP);
	opt_release(some_opt, &p.o);
}

static void test_long_words(void **state)
{
	char line[400] = "--";
	struct parsed p;

	(void)state;
	memset(line + 2, 'j', 390);
	parse(&p, line, 0);
	assert_int_equal(p.result, OPT_ERROR);
	assert_true(strlen(p.message.text) < sizeof(p.message.text) - 1);
}

static void test_bytes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes; /* OPT_NONE: refused */
	} rows[] = {
		{ "0", 0 },
		{ "1000", 1000 },
		{ "1000B", 1000 },
		{ "24GiB", 24ull << 30 },
		{ "24gib", 24ull << 30 },
		{ "24G", 24ull << 30 },
		{ "24GB", 24000000000 },
		{ "1.5GiB", 3ull << 29 },
		{ "0.5KiB", 512 },
		{ "79.25GiB", 317ull << 28 },
		{ "24 GB", 24000000000 },
		{ "1TB", 1000000000000 },
		{ "16777215TiB", 16777215ull << 40 },
		{ "", OPT_NONE },
		{ "GiB", OPT_NONE },
		{ "-1", OPT_NONE },
		{ " 1", OPT_NONE },
		{ "1  GiB", OPT_NONE },
		{ "1.", OPT_NONE },
		{ ".5GiB", OPT_NONE },
		{ "1.5", OPT_NONE },
		{ "1.5B", OPT_NONE },
		{ "1.0000000001GiB", OPT_NONE },
		{ "1e3", OPT_NONE },
		{ "16777216TiB", OPT_NONE },
		{ "18446744073709551615", OPT_NONE },
		{ "0x10", OPT_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t bytes = 1;
		bool ok = opt_bytes(rows[i].text, &bytes);

		assert_int_equal(ok, rows[i].bytes != OPT_NONE);
		assert_true(bytes == (ok ? rows[i].bytes : 0));
	}
}

static void test_bytes_text_reads_back(void **state)
{
	static const uint64_t sizes[] = { 0,    1,           1000,        1024,
					  1536, 24ull << 30, 24000000000, OPT_NONE - 1 };
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t back;

		opt_bytes_text(sizes[i], text, sizeof(text));
		assert_true(opt_bytes(text, &back));
		assert_true(back == sizes[i]);
	}
	opt_bytes_text(24ull << 30, text, sizeof(text));
	assert_string_equal(text, "24GiB");
}

static void test_distance(void **state)
{
	unsigned score;

	(void)state;
	assert_int_equal(opt_distance("", ""), 0);
	assert_int_equal(opt_distance("", "abc"), 3);
	assert_int_equal(opt_distance("reprot", "report"), 1); /* neighbours swapped */
	assert_int_equal(opt_distance("kitten", "sitting"), 3);
	assert_int_equal(opt_distance("repor", "report"), 1);
	assert_true(opt_near("rep", "report", &score));
	assert_false(opt_near("x", "report", &score));
	assert_false(opt_near("whatif", "report", &score));
}

/* A table that another command takes in: its rows have no letters, and some are left out. */
struct outer_opts {
	bool json;
	void *inner;
};
static const struct opt_table some_table = { some_opt, sizeof(struct some_opts) };
static const char *const left_out[] = { "json", "mode", NULL };
static const struct opt outer_opt[] = {
	OPT_FLAG('q', "json", outer_opts, json, "print JSON"),
	OPT_TABLE(outer_opts, inner, some_table, left_out),
	OPT_END,
};

static enum opt_result parse_outer(struct outer_opts *o, struct opt_message *message,
				   const char *const *words)
{
	char *argv[ARGS_MAX + 2] = { NULL };
	int argc = 0;

	for (; words[argc]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc];
	opt_defaults(outer_opt, o);
	return opt_parse(outer_opt, o, &argc, argv, 0, message);
}

static void test_table(void **state)
{
	static const char *const good[] = { "command", "-q",      "--interval", "500",
					    "--log=a", "--log=b", NULL };
	static const char *const letter[] = { "command", "-i", "500", NULL };
	static const char *const out[] = { "command", "--mode=slow", NULL };
	struct opt_walk w = { .at = outer_opt };
	struct opt_message message;
	struct outer_opts o;
	const struct some_opts *inner;
	size_t rows = 0;

	(void)state;
	assert_int_equal(parse_outer(&o, &message, good), OPT_OK);
	inner = o.inner;
	assert_true(o.json && !inner->quiet && !inner->json);
	assert_int_equal(inner->interval_ms, 500);
	assert_int_equal(inner->logs.n, 2);
	assert_string_equal(inner->mode, "fast");
	opt_release(outer_opt, &o);
	assert_null(o.inner);
	assert_int_equal(parse_outer(&o, &message, letter), OPT_ERROR);
	opt_release(outer_opt, &o);
	assert_int_equal(parse_outer(&o, &message, out), OPT_ERROR);
	opt_release(outer_opt, &o);
	for (const struct opt *row = opt_next(&w); row; row = opt_next(&w)) {
		assert_true(!w.inside || !row->letter);
		rows++;
	}
	assert_int_equal(rows, 1 + sizeof(some_opt) / sizeof(some_opt[0]) - 1 - 2);
	assert_null(opt_next(&w));
}

/* What the rows of public headers store: bits, numbers of 32 bits, texts that are kept as numbers. */
struct made_opts {
	uint32_t flags, threads;
	uint64_t ms, count, height, width;
	unsigned release;
	double least;
	const char *const *files;
	size_t file_count;
};

static const struct opt made_opt[] = {
	{ .kind = OPT_KIND_FLAG, .name = "fast", .bit = 4, .help = "" },
	{ .kind = OPT_KIND_U64,
	  .name = "threads",
	  .offset = offsetof(struct made_opts, threads),
	  .min = 1,
	  .max = 9,
	  .narrow = true,
	  .help = "" },
	{ .kind = OPT_KIND_U64,
	  .name = "seconds",
	  .offset = offsetof(struct made_opts, ms),
	  .min = 1,
	  .max = 9,
	  .def = 6,
	  .times = 1000,
	  .help = "" },
	{ .kind = OPT_KIND_COUNT,
	  .name = "count",
	  .offset = offsetof(struct made_opts, count),
	  .text = "takes 8B",
	  .help = "" },
	{ .kind = OPT_KIND_SIDES,
	  .name = "size",
	  .offset = offsetof(struct made_opts, height),
	  .second = offsetof(struct made_opts, width),
	  .min = 1,
	  .max = 100,
	  .text = "takes 4x3",
	  .help = "" },
	{ .kind = OPT_KIND_RELEASE,
	  .name = "release",
	  .offset = offsetof(struct made_opts, release),
	  .min = 201,
	  .max = 299,
	  .text = "takes 2.1",
	  .help = "" },
	{ .kind = OPT_KIND_DOUBLE,
	  .name = "least",
	  .offset = offsetof(struct made_opts, least),
	  .max = OPT_NONE,
	  .text = "wants 0.5",
	  .help = "" },
	{ .kind = OPT_KIND_LIST,
	  .name = "file",
	  .offset = offsetof(struct made_opts, files),
	  .second = offsetof(struct made_opts, file_count),
	  .help = "" },
	OPT_END
};

static struct opt_message parse_made(struct made_opts *o, const char *option)
{
	char *argv[] = { NULL, (char *)(uintptr_t)option, NULL };
	struct opt_message message;
	int argc = 2;
	enum opt_result result = opt_parse(made_opt, o, &argc, argv, 0, &message);

	assert_int_equal(result, message.text[0] ? OPT_ERROR : OPT_OK);
	return message;
}

static void test_made(void **state)
{
	static const char *const good[] = { "--fast",       "--threads=3",  "--seconds=5",
					    "--count=1.5K", "--size=40x30", "--release=2.11.1",
					    "--least=0.5",  "--file=a",     "--file=b" };
	static const char *const bad[] = { "--threads=0", "--count=8Q",     "--count=0",
					   "--size=40x",  "--size=40x30x2", "--size=101",
					   "--size=0",    "--release=1.9",  "--release=2",
					   "--least=-1",  "--least=x",      "--least=nan" };
	struct made_opts o = { .flags = 7 }, before;

	(void)state;
	opt_defaults(made_opt, &o);
	assert_int_equal(o.flags, 3);
	assert_int_equal(o.ms, 6000);
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_string_equal(parse_made(&o, good[i]).text, "");
	assert_int_equal(o.flags, 7);
	assert_int_equal(o.threads, 3);
	assert_int_equal(o.ms, 5000);
	assert_int_equal(o.count, 1500);
	assert_int_equal(o.height, 40);
	assert_int_equal(o.width, 30);
	assert_int_equal(o.release, 211);
	assert_true(o.least == 0.5);
	assert_int_equal(o.file_count, 2);
	assert_string_equal(o.files[1], "b");
	assert_string_equal(parse_made(&o, "--size=7").text, "");
	assert_int_equal(o.width, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_string_not_equal(parse_made(&o, bad[i]).text, "");
	assert_string_equal(parse_made(&o, "--size=x").text, "--size takes 4x3, not 'x'");
	before = o;
	opt_release(made_opt, &o);
	assert_non_null(before.files);
	assert_null(o.files);
	assert_int_equal(o.file_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_ways_of_giving_a_value),
		cmocka_unit_test(test_values_of_rows),
		cmocka_unit_test(test_end_of_options),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_help_wins),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bytes_text_reads_back),
		cmocka_unit_test(test_distance),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
