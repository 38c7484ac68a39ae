/* What is not known, in the types of the public API. */
#ifndef BASE_KNOWN_H
#define BASE_KNOWN_H

#include <plimsoll/types.h>

#define INTERVAL_UNKNOWN ((struct plim_interval){ PLIM_UNKNOWN, PLIM_UNKNOWN })

static inline enum plim_tri tri(bool yes)
{
	return yes ? PLIM_TRI_YES : PLIM_TRI_NO;
}

#endif
