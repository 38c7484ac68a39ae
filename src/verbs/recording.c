/* The public recording: see recording.h. */
#include "verbs/recording.h"

#include "verbs/options.h"

#include <stdlib.h>

void plim_recording_options_init(struct plim_recording_options *o)
{
	*o = (struct plim_recording_options){ .size = sizeof(*o) };
}

void plim_recording_free(struct plim_recording *r)
{
	if (r)
		recording_free(r->recording);
	free(r);
}

enum plim_status recording_new(const char *path, struct recording_input *in,
			       uint64_t max_memory_bytes, struct plim_recording **out,
			       struct plim_err *err)
{
	struct plim_recording *r = calloc(1, sizeof(*r));
	enum plim_status st;

	*out = NULL;
	if (!r)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&r->mem, max_memory_bytes);
	st = recording_open(&r->mem, path, in, &r->recording, err);
	if (!st) {
		r->path = arena_copy(&r->recording->arena, path, err);
		st = r->path ? PLIM_OK : mem_status(err);
	}
	if (st)
		plim_recording_free(r);
	else
		*out = r;
	return st;
}

enum plim_status plim_recording_open(const char *path, const struct plim_recording_options *options,
				     struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording_options o;
	struct plim_err own;

	plim_recording_options_init(&o);
	OPTIONS_TAKE(&o, options);
	return recording_new(path, NULL, o.max_memory_bytes, out, err ? err : &own);
}
