/* What the parts of the here verb share. */
#ifndef API_HERE_H
#define API_HERE_H

#include "base/base.h"
#include "host/host.h"

#include <plimsoll/here.h>

struct plim_here_hidden {
	struct mem mem;
	struct host host;   /* owns what was seen */
	struct arena arena; /* the words of --redact */
	VEC(struct plim_here_bound) bounds;
};

/* A program that kills before the kernel does. */
int here_is_killer(const char *name);

/* Put words for all names that are not well known. */
enum plim_status here_redact(struct plim_here *h, struct plim_err *err);

#endif
