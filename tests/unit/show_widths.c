/*
 * show_widths report SNAPSHOT... | diff SNAPSHOT... | why LOG... | plan CONFIG...: renders each result (of
 * two neighbours, for diff; of one of the recipes in turn, for plan) in every width and prints the lines that are wider, save for words that must stay whole.
 * The last line counts.  Includes installed headers only; reading once serves all widths.
 */
#include <plimsoll/plimsoll.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct plim_text_style styles[] = {
	{ .width = 40, .utf8 = true },  { .width = 40 },
	{ .width = 60, .utf8 = true },  { .width = 80, .utf8 = true },
	{ .width = 120, .utf8 = true },
};

struct sheet {
	const char *what, *of;
	uint32_t width;
	uint64_t lines;
	int wrong;
	size_t n;
	char line[8192]; /* what came since the last newline */
};

static size_t columns_of(const char *line)
{
	size_t n = 0;

	for (; *line; line++)
		n += ((unsigned char)*line & 0xC0) != 0x80;
	return n;
}

static bool is_one_word(const char *line)
{
	line += strspn(line, " -");
	line += strcspn(line, " ");
	return !line[strspn(line, " ")];
}

static int take(void *ctx, const char *text, size_t n)
{
	struct sheet *s = ctx;

	for (size_t i = 0; i < n; i++) {
		if (text[i] != '\n') {
			if (s->n + 1 < sizeof(s->line))
				s->line[s->n++] = text[i];
			continue;
		}
		s->line[s->n] = 0;
		s->n = 0;
		s->lines++;
		if (columns_of(s->line) > s->width && !is_one_word(s->line)) {
			printf("%s %s in %u: %s\n", s->what, s->of, s->width, s->line);
			s->wrong++;
		}
	}
	return 0;
}

/* What a command opens, shows and frees; `opened` is one of these. */
union opened {
	struct plim_report *report;
	struct plim_diff *diff;
	struct plim_why *why;
	struct plim_plan *plan;
};

static enum plim_status open_report(const char *path, const char *other, union opened *o,
				    struct plim_err *err)
{
	struct plim_report_options options;

	(void)other;
	plim_report_options_init(&options);
	return plim_report_open(path, &options, &o->report, err);
}

static enum plim_status text_report(const union opened *o, const struct plim_text_style *style,
				    struct sheet *s, struct plim_err *err)
{
	return plim_report_text(o->report, style, take, s, err);
}

static void free_report(union opened *o)
{
	plim_report_free(o->report);
}

static enum plim_status open_diff(const char *path, const char *other, union opened *o,
				  struct plim_err *err)
{
	struct plim_diff_options options;

	plim_diff_options_init(&options);
	options.gate_ppm = 10000;
	return plim_diff_open(path, other, &options, &o->diff, err);
}

static enum plim_status text_diff(const union opened *o, const struct plim_text_style *style,
				  struct sheet *s, struct plim_err *err)
{
	return plim_diff_text(o->diff, style, take, s, err);
}

static void free_diff(union opened *o)
{
	plim_diff_free(o->diff);
}

static enum plim_status open_why(const char *path, const char *other, union opened *o,
				 struct plim_err *err)
{
	struct plim_why_options options;

	(void)other;
	plim_why_options_init(&options);
	return plim_why_open(path, &options, &o->why, err);
}

static enum plim_status text_why(const union opened *o, const struct plim_text_style *style,
				 struct sheet *s, struct plim_err *err)
{
	return plim_why_text(o->why, style, take, s, err);
}

static void free_why(union opened *o)
{
	plim_why_free(o->why);
}

/* Some plans fit, some die, some have every part of the answer. */
static const struct recipe {
	uint32_t flags;
	uint64_t memory_gib, gpus;
	const char *sweep, *optimizer, *parallel, *task;
} recipes[] = {
	{ .memory_gib = 4, .flags = PLIM_PLAN_MAX_BATCH, .sweep = "batch=1,8" },
	{ .memory_gib = 40, .optimizer = "adamw-8bit" },
	{ .memory_gib = 2, .gpus = 4, .parallel = "fsdp2" },
	{ .task = "infer" },
};

static enum plim_status open_plan(const char *path, const char *other, union opened *o,
				  struct plim_err *err)
{
	static unsigned turn;
	const struct recipe *r = &recipes[turn++ % (sizeof(recipes) / sizeof(*recipes))];
	struct plim_plan_options options;

	(void)other;
	plim_plan_options_init(&options);
	options.flags |= r->flags;
	options.sequence = 64;
	if (r->memory_gib)
		options.memory_bytes = r->memory_gib << 30;
	if (r->gpus)
		options.gpus = r->gpus;
	options.sweep = r->sweep;
	options.optimizer = r->optimizer;
	options.parallel = r->parallel;
	options.task = r->task;
	return plim_plan_open(path, &options, &o->plan, err);
}

static enum plim_status text_plan(const union opened *o, const struct plim_text_style *style,
				  struct sheet *s, struct plim_err *err)
{
	return plim_plan_text(o->plan, style, take, s, err);
}

static void free_plan(union opened *o)
{
	plim_plan_free(o->plan);
}

static const struct verb {
	const char *name;
	enum plim_status (*open)(const char *path, const char *other, union opened *o,
				 struct plim_err *err);
	enum plim_status (*text)(const union opened *o, const struct plim_text_style *style,
				 struct sheet *s, struct plim_err *err);
	void (*free)(union opened *o);
} verbs[] = {
	{ "report", open_report, text_report, free_report },
	{ "diff", open_diff, text_diff, free_diff },
	{ "why", open_why, text_why, free_why },
	{ "plan", open_plan, text_plan, free_plan },
};

static int show(const struct verb *v, const char *path, const char *other)
{
	struct sheet s = { .what = v->name, .of = path };
	union opened opened = { 0 };
	struct plim_err err = { 0 };
	enum plim_status st = v->open(path, other, &opened, &err);

	for (size_t i = 0; !st && i < sizeof(styles) / sizeof(*styles); i++) {
		uint64_t before = s.lines;

		s.width = styles[i].width;
		st = v->text(&opened, &styles[i], &s, &err);
		if (!st && s.lines == before) {
			printf("%s %s in %u: nothing was written\n", s.what, s.of, s.width);
			s.wrong++;
		}
	}
	v->free(&opened);
	if (st) {
		printf("%s %s: %s\n", v->name, path, err.message);
		s.wrong++;
	}
	return s.wrong;
}

int main(int argc, char **argv)
{
	const struct verb *v = verbs, *end = verbs + sizeof(verbs) / sizeof(*verbs);
	int wrong = 0;

	while (argc > 1 && v < end && strcmp(v->name, argv[1]))
		v++;
	if (argc < 3 || v == end) {
		fprintf(stderr, "show_widths report|diff|why|plan FILE...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		wrong += show(v, argv[i], argv[i == 2 ? argc - 1 : i - 1]);
	printf("%s: %d shown, %d lines wrong\n", v->name, argc - 2, wrong);
	return wrong != 0;
}
