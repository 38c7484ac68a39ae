/* A run of whatif kept as a snapshot, or in a page beside its recording. */
#include "verbs/keep.h"
#include "verbs/whatif/whatif.h"

#include <plimsoll/page.h>

static enum plim_status keep(const struct plim_whatif *w, const char *settings,
			     const struct keeper *to, struct plim_err *err)
{
	struct plim_report_hidden *h = w->hidden->report->hidden;
	struct allocator_rules rules;
	struct keep_run run = { .from = h->snapshot,
				.device = w->hidden->device,
				.program = w->hidden->program,
				.how = { .rules = &rules,
					 .bounds = whatif_bounds(w, w->bound.limit_bytes),
					 .way = ALLOCATOR_RECORDED,
					 .device = w->hidden->device },
				.settings = settings };
	enum plim_status st = whatif_rules(w, settings, &rules, err);

	return st ? st : keep_run(&h->mem, &run, to, err);
}

enum plim_status plim_whatif_snapshot(const struct plim_whatif *w, const char *settings,
				      const char *path, struct plim_err *err)
{
	struct keeper to = { keep_to_file, (void *)(uintptr_t)path };
	struct plim_err own;

	return keep(w, settings, &to, err ? err : &own);
}

enum plim_status plim_whatif_page(const struct plim_whatif *w, const char *settings,
				  struct plim_page *page, struct plim_err *err)
{
	struct plim_report *recorded = w->hidden->report;
	struct plim_report_options options = recorded->hidden->options;
	struct keep_page p = { .mem = &recorded->hidden->mem, .options = &options, .page = page };
	struct keeper to = { keep_to_page, &p };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	options.log_path = NULL; /* it speaks of the recording, not of this run */
	p.title = report_text(recorded, err, "%s under %s", recorded->source.path,
			      *settings ? settings : "default settings");
	st = p.title ? plim_page_add(page, recorded, err) : mem_status(err);
	return st ? st : keep(w, settings, &to, err);
}
