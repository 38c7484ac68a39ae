/* Samples in one file: its options; the rest is src/job/data. */
#include "data/data.h"
#include "result_tables.h"

void plim_samples_options_init(struct plim_samples_options *o)
{
	*o = (struct plim_samples_options){ .size = sizeof(*o) };
}

enum plim_status plim_samples_open(const char *path, const struct plim_samples_options *options,
				   struct plim_samples **out, struct plim_err *err)
{
	struct plim_samples_options o;
	enum plim_status st;

	plim_samples_options_init(&o);
	st = options_take(&samples_options_table, &o, options, err);
	*out = NULL;
	return st ? st : samples_open(path, &o, out, err);
}

void plim_batches_options_init(struct plim_batches_options *o)
{
	*o = (struct plim_batches_options){
		.size = sizeof(*o), .device = -1, .threads = 4, .ahead = 2
	};
}

enum plim_status plim_batches_new(struct plim_samples *samples,
				  const struct plim_batches_options *options,
				  struct plim_batches **out, struct plim_err *err)
{
	struct plim_batches_options o;
	enum plim_status st;

	plim_batches_options_init(&o);
	st = options_take(&batches_options_table, &o, options, err);
	*out = NULL;
	return st ? st : batches_new(samples, &o, out, err);
}
