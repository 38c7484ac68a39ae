/* A device that was explained, for a page: what its findings point to, and how its frames are named. */
#include "parts.h"

/* What page_pack asks back. */
struct asking {
	const struct page_device *of;
	struct recording_place place;
	char word[32];
};

static void page_device_place(void *self, uint32_t frame, struct page_place *out)
{
	struct asking *a = self;

	recording_place(a->of->names, frame, &a->place);
	*out = (struct page_place){ a->place.name, a->place.file };
}

static const char *text(void *self, uint32_t string, const char *kind)
{
	struct asking *a = self;

	return recording_name(a->of->names, string, kind, a->word, sizeof(a->word));
}

static void emit_report(void *self, struct json_out *j)
{
	const struct asking *a = self;

	a->of->report(a->of->self, j);
}

static void show_death(const struct page_device *d, struct page_show *show)
{
	const struct snapshot_events *ev = &d->tl->device->events;

	show->event = d->death->event;
	show->stack = ev->stack[d->death->event];
	show->frame = timeline_user_frame(d->tl->snapshot, show->stack);
}

static void show_finding(const struct finding *f, struct page_show *show)
{
	show->stack = f->stack;
	show->frame = f->frame;
	show->allocs = f->about.at;
	show->alloc_count = f->about.n;
	if (f->leak.repetitions) {
		show->event = show->last_event = f->leak.last_event;
		show->first_event = f->leak.first_event;
	}
}

/* What the findings point to, in the order of the report: a death first, if there is one. */
static struct page_show *find_shown(const struct page_device *d, size_t n, struct mem *m,
				    struct plim_err *err)
{
	struct page_show *show = mem_new(m, n, sizeof(*show), err);
	size_t deaths = n - d->findings->all.n;

	for (size_t i = 0; show && i < n; i++) {
		show[i] = (struct page_show){ .event = TRACE_NONE,
					      .first_event = TRACE_NONE,
					      .last_event = TRACE_NONE };
		if (i < deaths)
			show_death(d, &show[i]);
		else
			show_finding(&d->findings->all.at[i - deaths], &show[i]);
	}
	return show;
}

enum plim_status page_add_device(struct page *p, const struct page_device *d, struct plim_err *err)
{
	const struct recording *of = d->device->of;
	const struct snapshot_settings *settings = &of->snapshot->settings;
	size_t n = d->findings->all.n + (d->death != NULL);
	const char *categories[TIMELINE_CATEGORIES];
	struct asking asking = { .of = d };
	struct page_show *show = find_shown(d, n, of->mem, err);
	char word[32];
	struct page_input in = { .mem = of->mem,
				 .tl = d->tl,
				 .categories = &d->device->categories,
				 .category_names = categories,
				 .title = d->title,
				 .plan = recording_is_plan(of),
				 .limit_bytes = d->limit_bytes,
				 .recording = d->recording,
				 .show = show,
				 .show_count = n,
				 .ranges = &d->device->ranges,
				 .self = &asking,
				 .place = page_device_place,
				 .text = text,
				 .report = emit_report };
	enum plim_status st;

	if (!show)
		return mem_status(err);
	if (settings->conf != TRACE_NONE)
		in.conf = recording_name(d->names, settings->conf, "conf", word, sizeof(word));
	for (int k = 0; k < TIMELINE_CATEGORIES; k++)
		categories[k] = recording_category_words(timeline_category_names[k]);
	st = page_pack(p, &in, err);
	mem_free(of->mem, show, n, sizeof(*show));
	return st;
}
