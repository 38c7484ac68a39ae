/* What files say besides what a command reads of them. */
#ifndef COMMANDS_FILE_H
#define COMMANDS_FILE_H

#include "base/base.h"

/*
 * The log at `path`, or the first of the files in that folder, whose end shows a failure of memory that nothing went on
 * after, as `why` finds it: its path in `log`, of `size` bytes, or "".
 */
void file_find_failure(struct mem *m, const char *path, char *log, size_t size);

#endif
