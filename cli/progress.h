/* How far a command is, on stderr, once it has run for two seconds.  PLIMSOLL_PROGRESS=0 in the environment: never. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdint.h>

/* From here on; `command` is kept.  Calls of the library by this thread are watched (plim_task_watch). */
void cmd_progress_begin(const char *command);

/* No more; its line leaves the screen.  Before the first output, a child, and the end; again it does nothing. */
void cmd_progress_end(void);

/* A plim_progress_fn; `unit` is what is counted ("settings"), a string that stays. */
int cmd_progress_count(void *unit, uint32_t done, uint32_t total);

#endif
