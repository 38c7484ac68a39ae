/* Devices of one snapshot (DataParallel, layers on several GPUs), compared as the ranks of a job are. */
#include "commands/report/report.h"

#include <stdlib.h>
#include <string.h>

#define ALIKE_PART 20 /* of the smaller peak: devices that differ by less are alike */

/* Of each the moment is compared that its owners are of: its peak, or the failure that ended it. */
static int is_comparable(const struct plim_report_device *d)
{
	return d->events && (!strcmp(d->at_peak.what, "peak") || !strcmp(d->at_peak.what, "oom"));
}

static int by_total(const void *a, const void *b)
{
	const struct plim_report_device *const *x = a, *const *y = b;
	uint64_t p = (*x)->at_peak.total_bytes, q = (*y)->at_peak.total_bytes;

	return p != q ? (p > q ? 1 : -1) : (*x > *y) - (*x < *y);
}

/* What a set of recordings says of one, as far as two are compared by it. */
static struct plim_ranks_row report_device_row_of(const struct plim_report_device *d)
{
	int died = !strcmp(d->at_peak.what, "oom");

	return (struct plim_ranks_row){ .peak_phase = died ? d->oom[d->oom_count - 1].phase
							   : d->peak.allocated.phase,
					.peak_categories = d->at_peak.categories };
}

/* Several owners may have one line: its backward is listed apart. */
static uint64_t bytes_at(const struct plim_report_device *d, const char *frame)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < d->at_peak.owner_count; i++)
		if (d->at_peak.owners[i].frame && !strcmp(d->at_peak.owners[i].frame, frame))
			bytes += d->at_peak.owners[i].bytes;
	return bytes;
}

static void find_line(struct plim_report_uneven *u, const struct plim_report_device *most,
		      const struct plim_report_device *other)
{
	for (size_t i = 0; i < most->at_peak.owner_count; i++) {
		const char *frame = most->at_peak.owners[i].frame;
		int64_t more =
			frame ? (int64_t)(bytes_at(most, frame) - bytes_at(other, frame)) : 0;

		if (more <= 0 || more <= u->frame_bytes)
			continue;
		u->frame = frame;
		u->frame_bytes = more;
	}
}

enum plim_status report_compare_devices(struct plim_report *r, struct plim_err *err)
{
	const struct plim_report_device **all =
		arena_take(&r->hidden->arena, r->device_count, sizeof(*all), err);
	const struct plim_report_device *most, *other;
	struct plim_ranks_excess excess = { 0 };
	struct plim_ranks_row row, median;
	size_t n = 0;

	if (!all)
		return mem_status(err);
	for (size_t i = 0; i < r->device_count; i++)
		if (is_comparable(&r->devices[i]))
			all[n++] = &r->devices[i];
	if (n < 2)
		return PLIM_OK;
	qsort(all, n, sizeof(*all), by_total);
	most = all[n - 1];
	other = all[(n - 1) / 2];
	excess.difference_bytes = (int64_t)(most->at_peak.total_bytes - other->at_peak.total_bytes);
	if ((uint64_t)excess.difference_bytes <= other->at_peak.total_bytes / ALIKE_PART)
		return PLIM_OK;
	r->uneven = arena_take(&r->hidden->arena, 1, sizeof(*r->uneven), err);
	if (!r->uneven)
		return mem_status(err);
	row = report_device_row_of(most);
	median = report_device_row_of(other);
	if (row.peak_categories && median.peak_categories)
		recording_explain_excess(&excess, &row, &median,
					 "the layers are not divided evenly");
	*r->uneven = (struct plim_report_uneven){ .device = most->device,
						  .other_device = other->device,
						  .bytes = (uint64_t)excess.difference_bytes,
						  .category = excess.category,
						  .category_bytes = excess.category_bytes,
						  .meaning = excess.meaning };
	find_line(r->uneven, most, other);
	return PLIM_OK;
}
