/* Options of every verb, as a caller hands them in. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include <string.h>

/*
 * Over what *to was initialised to; NULL: nothing is.  A caller that was built against an older header has a shorter
 * struct (`size`): what it lacks stays as it is.
 */
#define OPTIONS_TAKE(to, from)                                                              \
	((from) ? (void)memcpy((to), (from),                                                \
			       (from)->size < sizeof(*(to)) ? (from)->size : sizeof(*(to))) \
		: (void)0)

#endif
