/* A run of whatif kept as a snapshot, or in a page next to its recording; and the plan that was made. */
#include "commands/out.h"
#include "commands/page.h"
#include "commands/whatif/whatif.h"

static enum plim_status keep_replayed(const struct plim_whatif *w, const char *settings,
				      const struct recording_taker *to, struct plim_err *err)
{
	const struct recording_device *d = w->hidden->device;
	struct allocator_rules rules;
	struct recording_run run = { .from = d->of->snapshot,
				     .device = d->device,
				     .program = w->hidden->program,
				     .how = { .rules = &rules,
					      .bounds = allocator_search_bounds(
						      &w->hidden->search, w->bound.limit_bytes),
					      .way = ALLOCATOR_RECORDED,
					      .device = d->device },
				     .settings = settings };
	enum plim_status st = allocator_search_rules(&w->hidden->search, settings, &rules, err);

	return st ? st : recording_of_run(d->of->mem, &run, to, err);
}

enum plim_status plim_whatif_snapshot(const struct plim_whatif *w, const char *settings,
				      const char *path, struct plim_err *err)
{
	struct recording_taker to = { out_take_snapshot, (void *)(uintptr_t)path };
	struct plim_err own;

	return keep_replayed(w, settings, &to, err ? err : &own);
}

static enum plim_status add_recorded(const struct plim_whatif *w,
				     const struct plim_report_options *options,
				     struct plim_page *page, struct plim_err *err)
{
	struct plim_report *recorded;
	enum plim_status st = plim_report_of(w->hidden->recording, options, &recorded, err);

	if (!st)
		st = plim_page_add(page, recorded, err);
	plim_report_free(recorded);
	return st;
}

enum plim_status plim_whatif_page(const struct plim_whatif *w, const char *settings,
				  struct plim_page *page, struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	const struct plim_whatif_options *o = &h->options;
	struct plim_report_options options;
	struct page_run run = { .mem = &h->recording->mem, .options = &options, .page = page };
	struct recording_taker to = { page_take_run, &run };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	plim_report_options_init(&options);
	options.flags = o->flags & PLIM_WHATIF_REDACT ? PLIM_REPORT_REDACT : 0;
	options.max_memory_bytes = o->max_memory_bytes;
	options.log_path = o->log_path;
	options.device = o->device;
	run.title = arena_text(&h->arena, err, "%s under %s", w->source.path,
			       *settings ? settings : "default settings");
	st = run.title ? add_recorded(w, &options, page, err) : mem_status(err);
	options.log_path = NULL; /* it speaks of the recording, not of this run */
	return st ? st : keep_replayed(w, settings, &to, err);
}

enum plim_status plim_whatif_plan(const struct plim_whatif *w, const char *path,
				  struct plim_err *err)
{
	struct plim_whatif_hidden *h = w->hidden;
	struct plim_err own;

	err = err ? err : &own;
	if (!(h->options.flags & PLIM_WHATIF_PLAN))
		return err_set(err, PLIM_E_ARG, "a plan is made with PLIM_WHATIF_PLAN only");
	if (!w->plan_requests)
		return err_set(err, PLIM_E_ARG,
			       "%s: nothing repeats, so there is nothing to plan; "
			       "plimsoll.allocator.use() needs no plan",
			       w->source.path);
	return durable_put(&h->recording->mem, path, h->search.plan.at, h->search.plan.n, err);
}
