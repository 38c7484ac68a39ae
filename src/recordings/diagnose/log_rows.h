/* The tables of data/causes.rows, which says what they are: of a failure that only its text shows. */
#ifndef PLIMSOLL_DIAGNOSE_LOG_ROWS_H
#define PLIMSOLL_DIAGNOSE_LOG_ROWS_H

#include "diagnose.h"

/* What is known next to the moment: a bit each of log_ranking's `facts`. */
enum log_fact {
	LOG_NO_ROOM,   /* the request is larger than all room */
	LOG_BEGINNING, /* nothing can have piled up: no step is done, or the model is loaded */
	LOG_HEADROOM,  /* some of the bound would have been left behind the request */
	LOG_HEADROOM_LARGE,
	LOG_NUMBERS, /* the text shows them */
	LOG_GPU,
	LOG_SHARE, /* a server's own, which it measured itself */
	LOG_LATE   /* whole epochs had fitted: each batch of the data set had */
};
extern const struct log_ranking {
	unsigned facts, moments; /* moments: 0: any */
	enum findings_cause causes[FINDINGS_CAUSES];
} log_rankings[];

enum log_place {
	LOG_ON_GPU,
	LOG_ON_OTHER_GPU, /* that torch.cuda and recordings do not know, or without Python */
	LOG_ON_GPU_ALONE, /* of engines that keep no cache of blocks */
	LOG_ON_HOST,
	LOG_IN_SHM
};
extern const struct log_reason {
	enum log_place place;
	enum findings_cause cause;
	const char *because, *decided_by;
} log_reasons[];

extern const struct log_moment {
	const char *means; /* NULL: nothing is known of it */
} log_moments[];           /* by enum messages_moment */

#endif
