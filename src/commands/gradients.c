/* Gradients looked at: its options; the rest is src/job/gradients. */
#include "gradients/gradients.h"
#include "result_tables.h"

void plim_gradients_options_init(struct plim_gradients_options *o)
{
	*o = (struct plim_gradients_options){ .size = sizeof(*o),
					      .device = PLIM_UNKNOWN,
					      .history = 16 };
}

enum plim_status plim_gradients_open(const struct plim_gradients_options *options,
				     struct plim_gradients **out, struct plim_err *err)
{
	struct plim_gradients_options o;
	enum plim_status st;

	plim_gradients_options_init(&o);
	st = options_take(&gradients_options_table, &o, options, err);
	*out = NULL;
	return st ? st : gradients_open(&o, out, err);
}
