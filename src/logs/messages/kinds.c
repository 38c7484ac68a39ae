/* Files that are not logs, by the table of all kinds. */
#include "scan.h"

#include "base/base.h"

#include <string.h>

int scan_kind(const struct source *src, const char *name, struct messages_kind *out)
{
	const struct file_kind *kind = file_kind_of_file(name, src->p, (size_t)(src->end - src->p));

	/* A training log may end with the failure, and a saved web page or a manifest may quote it. */
	if (!kind || src->p == src->end || kind->lost ||
	    (kind->command && !strcmp(kind->command, "why")) || !strcmp(kind->slug, "metrics") ||
	    !strcmp(kind->slug, "html"))
		return 0;
	out->is = kind->is;
	out->verb = kind->command;
	out->text =
		kind->text || !strcmp(kind->slug, "unrecognised"); /* a log may have such bytes */
	return 1;
}
