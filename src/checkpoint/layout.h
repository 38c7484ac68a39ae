/* The folders of training libraries: what must be in one. */
#ifndef CHECKPOINT_LAYOUT_H
#define CHECKPOINT_LAYOUT_H

#include "parts.h"

/* Is a file of that name the state of a training, and no weights? */
bool layout_is_state(const char *name);
/* What other program's weights a file of that name holds, NULL: none that is known. */
const char *layout_other(const char *name);
/* Once all files were read: is something missing?  `names` are the folder's own entries. */
enum plim_status layout_check(struct ckpt *c, const struct folder_names *names,
			      struct plim_err *err);

#endif
