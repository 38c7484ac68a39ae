/* What the parts of the command for several recordings share. */
#ifndef API_RANKS_H
#define API_RANKS_H

#include "commands/recording.h"
#include "diagnose/diagnose.h"

#include <plimsoll/ranks.h>

struct plim_ranks_hidden {
	struct mem mem;
	struct arena arena;           /* of all texts and arrays */
	struct plim_recording *worst; /* the one that is reported in full, or NULL */
#define RANKS_ALSO 2
	struct plim_recording *also[RANKS_ALSO]; /* those of also[] */
	struct plim_ranks_options options;
	struct recording_set set;
};

#endif
