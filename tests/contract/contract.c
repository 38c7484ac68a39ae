/*
 * What the public headers promise, by a program that sees only them: options that were forgotten or not
 * understood are an error, never PLIM_OK; outputs are NULL on failure; NULL is taken where the headers say so.
 */
#include <plimsoll/plimsoll.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
static enum plim_status doctor(const void *o, void **out, struct plim_err *err)
{
	return plim_doctor_open(o, (struct plim_doctor **)out, err);
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
static enum plim_status checkpointer(const void *o, void **out, struct plim_err *err)
{
	return plim_checkpointer_open("/nowhere/at/all", o, (struct plim_checkpointer **)out, err);
}
static enum plim_status gradients(const void *o, void **out, struct plim_err *err)
{
	return plim_gradients_open(o, (struct plim_gradients **)out, err);
}
static enum plim_status last_good(const void *o, void **out, struct plim_err *err)
{
	return plim_ckpt_last_good("/", o, (struct plim_ckpt_last **)out, err);
}
static enum plim_status ckpt_diff(const void *o, void **out, struct plim_err *err)
{
	struct plim_ckpt *c = NULL;
	enum plim_status st = plim_ckpt_open(checkpoint, NULL, &c, err);

	if (!st)
		st = plim_ckpt_diff(c, c, o, (struct plim_ckpt_diff **)out, err);
	plim_ckpt_free(c);
	return st;
}
static enum plim_status gauge(const void *o, void **out, struct plim_err *err)
{
	return plim_gauge_open(o, (struct plim_gauge **)out, err);
}
static enum plim_status weights(const void *o, void **out, struct plim_err *err)
{
	return plim_weights_new(o, (struct plim_weights **)out, err);
}
static enum plim_status loader(const void *o, void **out, struct plim_err *err)
{
	return plim_loader_new(o, (struct plim_loader **)out, err);
}
static enum plim_status samples(const void *o, void **out, struct plim_err *err)
{
	return plim_samples_open(snapshot, o, (struct plim_samples **)out, err);
}
static enum plim_status batches(const void *o, void **out, struct plim_err *err)
{
	return plim_batches_new(NULL, o, (struct plim_batches **)out, err);
}
static enum plim_status record(const void *o, void **out, struct plim_err *err)
{
	return plim_record_prepare(o, (struct plim_record **)out, err);
}
static enum plim_status curves(const void *o, void **out, struct plim_err *err)
{
	return plim_curves_open(&snapshot, 1, o, (struct plim_curves **)out, err);
}
static enum plim_status watch(const void *o, void **out, struct plim_err *err)
{
	return plim_watch_open(o, (struct plim_watch **)out, err);
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
	ROW(doctor, doctor_options, 1),       ROW(here, here_options, 1),
	ROW(recording, recording_options, 0), ROW(page, page_options, 0),
	ROW(ckpt, ckpt_options, 1),           ROW(last_good, ckpt_last_options, 1),
	ROW(weights, weights_options, 0),     ROW(record, record_options, 0),
	ROW(curves, curves_options, 1),       ROW(monitor, monitor_options, 0),
	ROW(watch, watch_options, 1),         ROW(ckpt_diff, ckpt_diff_options, 1),
	ROW(gauge, gauge_options, 1),         ROW(checkpointer, checkpointer_options, 1),
	ROW(gradients, gradients_options, 0), ROW(loader, loader_options, 0),
	ROW(samples, samples_options, 1),     ROW(batches, batches_options, 0),
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
	o.at = "nonsense";
	check(plim_report_open(snapshot, &o, &out, &err) == PLIM_E_ARG && !out &&
		      strstr(err.message, "options.at") && !strstr(err.message, "--"),
	      "an option is not called as its caller calls it", &err);
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
	plim_doctor_free(NULL);
	plim_here_free(NULL);
	plim_recording_free(NULL);
	plim_page_free(NULL);
	plim_ckpt_free(NULL);
	plim_ckpt_last_free(NULL);
	plim_checkpointer_close(NULL);
	plim_saving_free(NULL);
	plim_gradients_free(NULL);
	plim_samples_close(NULL);
	plim_samples_filling_free(NULL);
	plim_order_free(NULL);
	plim_batches_free(NULL);
	plim_saved_free(NULL);
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

/* ---- input that is not a path ---- */

/* The whole of a file; NULL: it cannot be read. */
static char *slurp(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	size_t room = 1 << 24;
	char *at = malloc(room);

	*n = f && at ? fread(at, 1, room, f) : 0;
	if (f)
		fclose(f);
	return at;
}

/* What the report of an input says, as JSON. */
static void json_of(const struct plim_input *input, struct plim_buffer *out, const char *what)
{
	struct plim_recording *recorded = NULL;
	struct plim_report *r = NULL;
	struct plim_err err = { .status = PLIM_OK };

	check(!plim_recording_read(input, NULL, &recorded, &err), what, &err);
	if (recorded)
		check(!plim_report_of(recorded, NULL, &r, &err) &&
			      !plim_report_json(r, plim_buffer_write, out, &err),
		      what, &err);
	plim_report_free(r);
	plim_recording_free(recorded);
}

/* Of one run, as memory and as a descriptor: nothing differs. */
static void try_diff(const struct plim_input *a, const struct plim_input *b)
{
	const struct plim_input *const by[2] = { a, b };
	struct plim_recording *r[2] = { NULL, NULL };
	struct plim_diff *d = NULL;
	struct plim_err err;

	for (int i = 0; i < 2; i++)
		check(!plim_recording_read(by[i], NULL, &r[i], &err), "a recording", &err);
	if (r[0] && r[1])
		check(!plim_diff_of(r[0], r[1], NULL, &d, &err) && d && !d->different &&
			      d->device_count,
		      "a comparison of what was read", &err);
	plim_diff_free(d);
	plim_recording_free(r[0]);
	plim_recording_free(r[1]);
}

static void try_input(void)
{
	struct plim_input by[3] = { { .size = sizeof(*by), .path = snapshot, .name = "it" },
				    { .size = sizeof(*by), .name = "it" },
				    { .size = sizeof(*by), .name = "it" } };
	struct plim_buffer json[3] = { { .text = NULL } };
	struct plim_recording *recorded = (struct plim_recording *)(size_t)1;
	FILE *f = fopen(snapshot, "rb");
	char *bytes = slurp(snapshot, &by[1].byte_count);
	struct plim_err err;

	by[1].bytes = bytes;
	by[2].descriptor = f ? fileno(f) : -1;
	for (int i = 0; i < 3; i++)
		json_of(&by[i], &json[i],
			by[i].path    ? "a path"
			: by[i].bytes ? "memory"
				      : "a descriptor");
	for (int i = 1; i < 3; i++)
		check(json[i].bytes && json[i].bytes == json[0].bytes &&
			      !memcmp(json[i].text, json[0].text, json[0].bytes),
		      i == 1 ? "memory is not told as a path is" : "a descriptor is not", NULL);
	check(f && fgetc(f) != EOF, "the descriptor was closed", NULL);
	if (f)
		rewind(f);
	try_diff(&by[1], &by[2]);
	by[1].size = 0;
	check(plim_recording_read(&by[1], NULL, &recorded, &err) == PLIM_E_ARG && !recorded,
	      "an input without its size", &err);
	by[2].descriptor = -1;
	check(plim_recording_read(&by[2], NULL, &recorded, &err) == PLIM_E_IO && !recorded,
	      "an input of nothing", &err);
	for (int i = 0; i < 3; i++)
		plim_buffer_release(&json[i]);
	free(bytes);
	if (f)
		fclose(f);
}

static void try_text(void)
{
	static const char text[] = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
				   "2.00 GiB. GPU 0 has a "
				   "total capacity of 79.10 GiB of which 1.21 GiB is free. Process "
				   "41 has 77.88 GiB memory "
				   "in use. Of the allocated memory 76.20 GiB is allocated by "
				   "PyTorch, and 1.10 GiB is "
				   "reserved by PyTorch but unallocated.\n";
	struct plim_input input = { .size = sizeof(input),
				    .bytes = text,
				    .byte_count = sizeof(text) - 1 };
	struct plim_why *why = NULL;
	struct plim_err err;

	check(!plim_why_read(&input, NULL, &why, &err) && why && why->death_count == 1 &&
		      !strcmp(why->files[0].path, "memory"),
	      "a text in memory", &err);
	plim_why_free(why);
}

/* ---- columns ---- */

#define AT(type, column, stride, row) \
	(*(const type *)(const void *)((const char *)(column) + (row) * (stride)))

/* The rows that can be appended, appended to another recording. */
static struct plim_recording *copy_of(const struct plim_event_columns *c)
{
	struct plim_recording *to = NULL;
	struct plim_err err = { .status = PLIM_OK };

	check(!plim_recording_new("copy", NULL, &to, &err), "a new recording", &err);
	for (uint64_t i = 0; to && i < c->count; i++) {
		int64_t stream = c->streams[c->stream[i]];
		struct plim_events one = { .size = sizeof(one),
					   .count = 1,
					   .kind = c->kind + i,
					   .bytes = c->bytes + i,
					   .address = c->address + i,
					   .stream = &stream };

		if (c->kind[i] < PLIM_EVENT_SNAPSHOT && plim_recording_append(to, &one, &err)) {
			check(0, "an event that was read is not taken back", &err);
			break;
		}
	}
	return to;
}

static uint64_t peak_of(struct plim_recording *r)
{
	struct plim_report *report = NULL;
	struct plim_err err;
	uint64_t peak = 0;

	if (!plim_report_of(r, NULL, &report, &err) && report->device_count)
		peak = report->devices[0].peak.allocated_bytes;
	plim_report_free(report);
	return peak;
}

/* Events report allocations what the allocations' columns tell. */
static void compare_columns(const struct plim_event_columns *e,
			    const struct plim_allocation_columns *a)
{
	uint64_t births = 0;

	for (uint64_t i = 0; i < e->count; i++) {
		uint32_t row = e->allocation[i];

		if (e->kind[i] != PLIM_EVENT_ALLOC)
			continue;
		births++;
		check(row < a->count && AT(uint32_t, a->born, a->stride, row) == i &&
			      AT(uint64_t, a->address, a->stride, row) == e->address[i] &&
			      AT(uint64_t, a->requested_bytes, a->stride, row) == e->bytes[i] &&
			      a->block_bytes[row] >= e->bytes[i],
		      "an allocation is not its event's", NULL);
	}
	check(births && births <= a->count, "no births", NULL);
	for (uint64_t i = 0; a->rule && i < a->count; i++)
		check(a->rule[i] < a->rule_count && a->rules[a->rule[i]].category, "a rule", NULL);
}

static void try_columns(void)
{
	struct plim_recording *r = NULL, *copy;
	struct plim_recording_frame frames[4];
	struct plim_allocation_columns a;
	struct plim_event_columns e;
	struct plim_whatif *w = NULL;
	struct plim_err err;
	uint64_t devices = 0;
	size_t n = 0;

	check(!plim_recording_open(snapshot, NULL, &r, &err) &&
		      !plim_recording_devices(r, &devices, &err) && devices,
	      "a recording with devices", &err);
	check(!plim_recording_events(r, 0, &e, &err) && e.count, "columns of events", &err);
	check(!plim_recording_allocations(r, 0, &a, &err) && a.count, "columns of allocations",
	      &err);
	check(plim_recording_events(r, devices, &e, &err) == PLIM_E_ARG && !e.count,
	      "events of no device", &err);
	check(plim_recording_allocations(r, UINT64_MAX, &a, &err) == PLIM_E_ARG && !a.count,
	      "allocations of all devices", &err);
	plim_recording_events(r, 0, &e, NULL);
	plim_recording_allocations(r, 0, &a, NULL);
	compare_columns(&e, &a);
	for (uint64_t i = 0; i < e.count && !n; i++)
		if (e.site[i] != PLIM_NO_SITE)
			check(!plim_recording_stack(r, e.site[i], frames, 4, &n, &err) && n,
			      "a stack", &err);
	check(n && *frames[0].function, "no stack", NULL);
	check(plim_recording_stack(r, PLIM_NO_SITE, frames, 4, &n, &err) == PLIM_E_ARG && !n,
	      "a stack of no site", &err);
	copy = copy_of(&e);
	check(copy && peak_of(copy) && peak_of(copy) == peak_of(r), "a copy has another peak",
	      NULL);
	plim_recording_free(copy);
	check(!plim_whatif_of(r, NULL, &w, &err) && w && w->self_check.exact,
	      "a recording run again", &err);
	plim_whatif_free(w);
	plim_recording_free(r);
}

/* The durable write, whose text is there whole or not at all. */
static void try_durable(void)
{
	char folder[] = "/tmp/plimsoll-contract-XXXXXX", path[64], got[16] = "";
	struct plim_durable *d = NULL;
	struct plim_err err;
	FILE *f;

	if (!mkdtemp(folder))
		return;
	snprintf(path, sizeof(path), "%s/file", folder);
	check(!plim_durable_begin(path, 5, &d, &err) && !plim_durable_write(d, "whole", 5, &err),
	      "a durable write", &err);
	f = fopen(path, "rb");
	check(!f, "it is there before it is whole", NULL);
	check(!plim_durable_commit(d, NULL, &err), "a durable commit", &err);
	check(!plim_durable_begin(path, 4, &d, &err) && !plim_durable_write(d, "part", 4, &err),
	      "another one", &err);
	plim_durable_abort(d);
	f = fopen(path, "rb");
	check(f && fread(got, 1, sizeof(got) - 1, f) == 5 && !strcmp(got, "whole"),
	      "an abort touched what was there", NULL);
	if (f)
		fclose(f);
	remove(path);
	check(!remove(folder), "something was left beside it", NULL);
	check(plim_durable_begin("/no/such/folder/file", 0, &d, &err) == PLIM_E_IO && !d,
	      "a folder that is not there", &err);
}

/* A checkpoint from a descriptor, whose file has no name any more. */
static void try_descriptor(void)
{
	struct plim_ckpt_options o;
	struct plim_ckpt *by_path = NULL, *c = NULL;
	struct plim_err err;
	FILE *f = tmpfile();
	char path[32], *bytes;
	size_t n;

	plim_ckpt_options_init(&o);
	o.flags = PLIM_CKPT_VERIFY;
	bytes = slurp(checkpoint, &n);
	check(f && fwrite(bytes, 1, n, f) == n && !fflush(f), "a file without a name", NULL);
	snprintf(path, sizeof(path), "/dev/fd/%d", f ? fileno(f) : -1);
	check(!plim_ckpt_open(checkpoint, &o, &by_path, &err) &&
		      !plim_ckpt_open(path, &o, &c, &err),
	      "a checkpoint of a descriptor", &err);
	check(by_path && c && c->verdict == by_path->verdict && c->tensor_count &&
		      c->tensor_count == by_path->tensor_count &&
		      c->tensor_bytes == by_path->tensor_bytes,
	      "a descriptor's checkpoint is told otherwise", NULL);
	plim_ckpt_free(by_path);
	plim_ckpt_free(c);
	free(bytes);
	if (f)
		fclose(f);
}

static void try_extract_flags(void)
{
	struct plim_ckpt_extracted out = { .bytes = 1 };
	struct plim_ckpt *c = NULL;
	struct plim_err err;

	check(!plim_ckpt_open(checkpoint, NULL, &c, &err), "a checkpoint", &err);
	if (!c)
		return;
	check(plim_ckpt_extract(c, "*", UINT32_C(1) << 31, "/nowhere/at.all", &out, &err) ==
			      PLIM_E_ARG &&
		      !out.bytes,
	      "a flag of extract that nobody knows", &err);
	plim_ckpt_free(c);
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
	try_input();
	try_text();
	try_columns();
	try_durable();
	try_descriptor();
	try_extract_flags();
	if (!failures)
		printf("%zu options structs\n", sizeof(rows) / sizeof(*rows));
	return failures != 0;
}
