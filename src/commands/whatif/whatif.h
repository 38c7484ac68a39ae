/* What the parts of the whatif command share. */
#ifndef API_WHATIF_H
#define API_WHATIF_H

#include "commands/recording.h"
#include "diagnose/diagnose.h"

#include <plimsoll/whatif.h>

struct plim_whatif_hidden {
	struct plim_recording *recording; /* whose `reports` counts this one */
	struct plim_recording *owned;     /* the same, or NULL: it is borrowed */
	struct recording_device *device;  /* that is run */
	struct arena arena;               /* of the result */
	struct recording_names names;
	struct findings_death death; /* the device's last failure */
	int died;                    /* ... if there is one */
	struct program *program;
	struct allocator_check check;
	struct plim_whatif_options options;
	struct allocator_search search;
};

/* GPUs that the recording says of. */
size_t whatif_devices(const struct plim_whatif *w);

/* Was there no room for what was there before the recording began? */
int whatif_fails_at_once(const struct plim_whatif_run *run);

/* Did the recorded settings come to what the recording did?  Not without its limit, nor where its beginning was lost. */
int whatif_as_it_was(const struct plim_whatif *w);

/* It survives; does what it reserves differ between runs, by so much that it is shown? */
int whatif_is_range(const struct plim_whatif_run *run);

/* Does a leak decide, rather than a setting?  What survives the recording dies of it later. */
int whatif_leaks_to_death(const struct plim_whatif *w);

#endif
