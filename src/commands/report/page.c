/* plimsoll report -o page.html: explained recordings as one page. */
#include "page/page.h"
#include "commands/page.h"
#include "commands/recording.h"
#include "commands/report/report.h"
#include "host/host.h"
#include "result_tables.h"

#include <plimsoll/page.h>

#include <stdlib.h>
#include <string.h>

struct plim_page {
	struct mem mem;
	struct page page;
	struct plim_page_size size;
};

/* Who emits the report of a device. */
struct asking {
	const struct plim_report *report;
	struct plim_report_device *device;
};

void plim_page_options_init(struct plim_page_options *o)
{
	*o = (struct plim_page_options){ .size = sizeof(*o) };
}

enum plim_status plim_page_new(const struct plim_page_options *options, struct plim_page **out,
			       struct plim_err *err)
{
	struct plim_page *p = calloc(1, sizeof(*p));
	struct plim_page_options o;
	enum plim_status st;

	*out = NULL;
	if (!p)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	plim_page_options_init(&o);
	st = options_take(&page_options_table, &o, options, err);
	if (st) {
		free(p);
		return st;
	}
	host_mem_init(&p->mem, o.max_memory_bytes);
	page_init(&p->page, &p->mem);
	p->page.progress = o.progress;
	p->page.ctx = o.ctx;
	*out = p;
	return PLIM_OK;
}

void plim_page_free(struct plim_page *p)
{
	if (p)
		page_release(&p->page);
	free(p);
}

/* The report with this device alone. */
static void emit_report(void *self, struct json_out *j)
{
	struct asking *a = self;
	struct plim_report one = *a->report;

	one.devices = a->device;
	one.device_count = 1;
	fields_emit_json(j, "report", &report_table, &one);
}

static const char *title_of(const struct plim_report *r)
{
	const char *slash = strrchr(r->source.path, '/');

	return !strcmp(r->source.path, "-") ? "standard input" : slash ? slash + 1 : r->source.path;
}

static enum plim_status add_device(struct plim_page *p, const struct plim_report *r,
				   const struct report_device *one,
				   struct plim_report_device *device, uint64_t limit_bytes,
				   struct plim_err *err)
{
	struct asking asking = { .report = r, .device = device };
	struct page_device of = { .device = one->device,
				  .tl = &one->timeline,
				  .names = &r->hidden->names,
				  .death = device->finding_count > one->findings.all.n ? &one->death
										       : NULL,
				  .findings = &one->findings,
				  .title = title_of(r),
				  .limit_bytes = limit_bytes,
				  .recording = (uint32_t)p->size.recordings,
				  .self = &asking,
				  .report = emit_report };

	return page_add_device(&p->page, &of, err);
}

static enum plim_status add_report(struct plim_page *p, const struct plim_report *r,
				   uint64_t limit_bytes, struct plim_err *err)
{
	size_t before = p->page.parts.n;
	enum plim_status st = PLIM_OK;
	uint64_t allocations = 0;

	if (r->hidden->options.events || r->hidden->options.steps)
		return err_set(err, PLIM_E_ARG,
			       "a page holds all events: the report must not be of a part");
	for (size_t i = 0; !st && i < r->device_count; i++) {
		st = add_device(p, r, &r->hidden->devices[i], &r->devices[i], limit_bytes, err);
		allocations += r->devices[i].allocations;
	}
	if (st) {
		page_cut(&p->page, before);
		return st;
	}
	p->size.recordings++;
	p->size.allocations += allocations;
	return PLIM_OK;
}

enum plim_status plim_page_add(struct plim_page *p, const struct plim_report *r,
			       struct plim_err *err)
{
	struct plim_err own;

	return add_report(p, r, 0, err ? err : &own);
}

enum plim_status plim_page_answer(struct plim_page *p, const char *text, const char *json,
				  struct plim_err *err)
{
	struct plim_err own;

	return page_pack_answer(&p->page, text, json, err ? err : &own);
}

/* ---- runs of the model ---- */

static enum plim_status collect_report_page(void *ctx, const void *bytes, size_t n,
					    struct plim_err *err)
{
	struct page_run *p = ctx;
	enum plim_status st = vec_need(p->mem, &p->bytes, n, err);

	if (!st && n)
		memcpy(p->bytes.at + p->bytes.n, bytes, n);
	p->bytes.n += st ? 0 : n;
	return st;
}

/* A snapshot as bytes does not say where the program of a run failed. */
static void keep_end(struct snapshot *to, const struct snapshot *from)
{
	for (size_t i = 0; i < from->device_count && i < to->device_count; i++)
		to->devices[i].survived = from->devices[i].survived;
}

/* It is read as a snapshot is: all that a report says of a recording can then be said of the run. */
enum plim_status page_take_run(void *self, const struct snapshot *t, struct plim_err *err)
{
	struct page_run *p = self;
	struct recording_input in = { .source = NULL };
	struct plim_recording *recording = NULL;
	struct plim_report *r = NULL;
	enum plim_status st =
		snapshot_write(t, (struct pickle_sink){ p, collect_report_page }, err);

	if (!st)
		st = source_open_memory(p->mem, p->title, p->bytes.at, p->bytes.n,
					SOURCE_MEMORY_PLAIN, NULL, &in.source, err);
	if (!st)
		st = recording_new(p->title, &in, p->options->max_memory_bytes, &recording, err);
	if (!st)
		keep_end(recording->recording->snapshot, t);
	if (!st)
		st = plim_report_of(recording, p->options, &r, err);
	if (!st)
		st = add_report(p->page, r, p->limit_bytes, err);
	plim_report_free(r);
	plim_recording_free(recording);
	source_close(in.source);
	vec_release(p->mem, &p->bytes);
	return st;
}

enum plim_status plim_page_write(struct plim_page *p, const char *path, struct plim_err *err)
{
	struct plim_err own;

	if (!p->page.parts.n && !p->page.result.at)
		return err_set(err, PLIM_E_ARG,
			       "there is nothing to show: no device has memory or events");
	return page_write(&p->page, path, &p->size.file_bytes, err ? err : &own);
}

enum plim_status plim_page_viewer(const char *path, uint64_t *bytes, struct plim_err *err)
{
	struct plim_err own;
	struct page page;
	enum plim_status st;
	struct mem m;

	host_mem_init(&m, 0);
	page_init(&page, &m);
	st = page_write(&page, path, bytes, err ? err : &own);
	page_release(&page);
	return st;
}

void plim_page_get_size(const struct plim_page *p, struct plim_page_size *out)
{
	*out = p->size;
	for (size_t i = 0; i < p->page.parts.n; i++) {
		const struct page_part *part = &p->page.parts.at[i];

		out->head_bytes += part->head.plain_bytes;
		out->columns_bytes += part->columns.plain_bytes;
		out->packed_head_bytes += part->head.n;
		out->packed_columns_bytes += part->columns.n;
	}
}
