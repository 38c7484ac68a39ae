/*
 * What the public headers promise, by a program that sees only them: options that were forgotten or not
 * understood are an error, never PLIM_OK; outputs are NULL on failure; NULL is taken where the headers say so.
 */
#include <plimsoll/plimsoll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void check(int ok, const char *what, const struct plim_err *err)
{
	if (ok)
		return;
	fprintf(stderr, "%s (%s)\n", what, err ? err->message : "");
	failures++;
}

/* ---- each options struct, through the function that takes it ---- */

static const char *snapshot, *checkpoint;

static enum plim_status report(const void *o, void **out, struct plim_err *err)
{
	return plim_report_open(snapshot, o, (struct plim_report **)out, err);
}
static enum plim_status diff(const void *o, void **out, struct plim_err *err)
{
	return plim_diff_open(snapshot, snapshot, o, (struct plim_diff **)out, err);
}
static enum plim_status whatif(const void *o, void **out, struct plim_err *err)
{
	return plim_whatif_open(snapshot, o, (struct plim_whatif **)out, err);
}
static enum plim_status ranks(const void *o, void **out, struct plim_err *err)
{
	return plim_ranks_open(&snapshot, 1, o, (struct plim_ranks **)out, err);
}
static enum plim_status plan(const void *o, void **out, struct plim_err *err)
{
	return plim_plan_open(NULL, o, (struct plim_plan **)out, err);
}
static enum plim_status why(const void *o, void **out, struct plim_err *err)
{
	return plim_why_open(snapshot, o, (struct plim_why **)out, err);
}
static enum plim_status here(const void *o, void **out, struct plim_err *err)
{
	return plim_here_open(o, (struct plim_here **)out, err);
}
static enum plim_status recording(const void *o, void **out, struct plim_err *err)
{
	return plim_recording_open(snapshot, o, (struct plim_recording **)out, err);
}
static enum plim_status page(const void *o, void **out, struct plim_err *err)
{
	return plim_page_new(o, (struct plim_page **)out, err);
}
static enum plim_status ckpt(const void *o, void **out, struct plim_err *err)
{
	return plim_ckpt_open(checkpoint, o, (struct plim_ckpt **)out, err);
}
static enum plim_status last_good(const void *o, void **out, struct plim_err *err)
{
	return plim_ckpt_last_good("/", o, (struct plim_ckpt_last **)out, err);
}
static enum plim_status weights(const void *o, void **out, struct plim_err *err)
{
	return plim_weights_new(o, (struct plim_weights **)out, err);
}
static enum plim_status record(const void *o, void **out, struct plim_err *err)
{
	return plim_record_prepare(o, (struct plim_record **)out, err);
}
static enum plim_status curves(const void *o, void **out, struct plim_err *err)
{
	return plim_curves_open(&snapshot, 1, o, (struct plim_curves **)out, err);
}
static enum plim_status monitor(const void *o, void **out, struct plim_err *err)
{
	return plim_monitor_new(o, (struct plim_monitor **)out, err);
}

#define ROW(name, options, flags)                                     \
	{                                                             \
#name, name, (void (*)(void *))plim_##options##_init, \
			sizeof(struct plim_##options), flags          \
	}
static const struct row {
	const char *name;
	enum plim_status (*call)(const void *options, void **out, struct plim_err *err);
	void (*init)(void *options);
	size_t size;
	int flags; /* it has flags behind its size */
} rows[] = {
	ROW(report, report_options, 1),       ROW(diff, diff_options, 1),
	ROW(whatif, whatif_options, 1),       ROW(ranks, ranks_options, 0),
	ROW(plan, plan_options, 1),           ROW(why, why_options, 1),
	ROW(here, here_options, 1),           ROW(recording, recording_options, 0),
	ROW(page, page_options, 0),           ROW(ckpt, ckpt_options, 1),
	ROW(last_good, ckpt_last_options, 1), ROW(weights, weights_options, 0),
	ROW(record, record_options, 0),       ROW(curves, curves_options, 1),
	ROW(monitor, monitor_options, 0),
};

static void refused(const struct row *r, const void *options, const char *what)
{
	struct plim_err err = { .status = PLIM_OK };
	void *out = (void *)(size_t)1;
	enum plim_status st = r->call(options, &out, &err);
	char words[200];

	snprintf(words, sizeof(words), "%s: %s: status %d", r->name, what, (int)st);
	check(st == PLIM_E_ARG && err.status == PLIM_E_ARG && !out && *err.message, words, &err);
	snprintf(words, sizeof(words), "%s: %s: without an err", r->name, what);
	check(r->call(options, &out, NULL) == PLIM_E_ARG, words, NULL);
}

static void try_row(const struct row *r)
{
	unsigned char options[2048];
	uint32_t size = 0, flags = UINT32_C(1) << 31;

	memset(options, 0, sizeof(options));
	r->init(options);
	memcpy(&size, options, sizeof(size));
	check(size == r->size, r->name, NULL);
	size = 0;
	memcpy(options, &size, sizeof(size));
	refused(r, options, "a size that was forgotten");
	size = 7;
	memcpy(options, &size, sizeof(size));
	refused(r, options, "a size that ends inside of a member");
	size = (uint32_t)r->size + 8;
	memcpy(options, &size, sizeof(size));
	options[r->size + 3] = 1;
	refused(r, options, "an option of a newer header");
	options[r->size + 3] = 0;
	r->init(options);
	if (!r->flags)
		return;
	memcpy(options + 4, &flags, sizeof(flags));
	refused(r, options, "a flag that nobody knows");
}

static void try_values(void)
{
	struct plim_report_options o;
	struct plim_report *out = NULL;
	struct plim_err err;

	plim_report_options_init(&o);
	o.group_by = (enum plim_report_group)99;
	check(plim_report_open(snapshot, &o, &out, &err) == PLIM_E_ARG && !out,
	      "a value of an enum", &err);
	check(strstr(err.message, "group_by") != NULL, "the member is not named", &err);
	check(!strstr(err.message, "--"), "a flag of the command line is named", &err);
	plim_report_options_init(&o);
	o.size = (uint32_t)offsetof(struct plim_report_options, log_path);
	o.log_path = "/none";
	check(plim_report_open(snapshot, &o, &out, &err) == PLIM_OK && out,
	      "a struct of an older header", &err);
	check(out && out->device_count && out->devices[0].peak.allocated_bytes != PLIM_UNKNOWN,
	      "a report without numbers", NULL);
	plim_report_free(out);
}

static void try_names(void)
{
	check(!strcmp(plim_cause_name(PLIM_CAUSE_LEAK), "leak"), "the name of a cause", NULL);
	check(!plim_cause_name((enum plim_cause)99), "the name of nothing", NULL);
	check(!plim_why_moment_name(PLIM_WHY_MOMENT_UNKNOWN), "what JSON shows as null", NULL);
	check(!strcmp(plim_status_name(PLIM_E_ARG), "wrong argument"), "the name of a status",
	      NULL);
	check(!strncmp(plim_version(), "0.2.", 4) && PLIM_VERSION_NUMBER / 100 == 2, "the version",
	      NULL);
}

static void try_nothing(void)
{
	plim_report_free(NULL);
	plim_diff_free(NULL);
	plim_whatif_free(NULL);
	plim_ranks_free(NULL);
	plim_plan_free(NULL);
	plim_why_free(NULL);
	plim_here_free(NULL);
	plim_recording_free(NULL);
	plim_page_free(NULL);
	plim_ckpt_free(NULL);
	plim_ckpt_last_free(NULL);
	plim_ckpt_diff_free(NULL);
	plim_record_free(NULL);
	plim_curves_free(NULL);
	plim_monitor_free(NULL);
}

static int keep(void *ctx, const char *text, size_t n)
{
	(void)text;
	*(size_t *)ctx += n;
	return 0;
}

static int refuse(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	(void)text;
	(void)n;
	return 28; /* ENOSPC */
}

static void try_output(void)
{
	struct plim_text_style style = { .width = 60 };
	struct plim_recording *recorded = NULL;
	struct plim_report *r = NULL;
	struct plim_err err;
	size_t n = 0;

	check(!plim_recording_open(snapshot, NULL, &recorded, &err), "a recording", &err);
	plim_recording_free(recorded);
	check(!plim_report_open(snapshot, NULL, &r, &err) && r, "a report", &err);
	if (!r)
		return;
	check(!plim_report_json(r, keep, &n, &err) && n > 1000, "its JSON", &err);
	n = 0;
	check(!plim_report_text(r, &style, keep, &n, &err) && n > 500, "its text", &err);
	check(plim_report_json(r, refuse, NULL, &err) == PLIM_E_IO && err.native == 28,
	      "a callback that fails", &err);
	plim_report_free(r);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	snapshot = argv[1];
	checkpoint = argv[2];
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		try_row(&rows[i]);
	try_values();
	try_names();
	try_nothing();
	try_output();
	if (!failures)
		printf("%zu options structs\n", sizeof(rows) / sizeof(*rows));
	return failures != 0;
}
