/* What a run was made with, as far as its own files tell: its recording's paths, and lines of its log. */
#ifndef CLI_VERSIONS_H
#define CLI_VERSIONS_H

#include <plimsoll/doctor.h>
#include <plimsoll/recording.h>

#include <stdbool.h>

/* Rows for `d` of what python3 here has; none that imports torch. */
enum plim_status cmd_doctor_python(struct plim_doctor *d, bool redact, struct plim_err *err);

/* Rows for `d`: what the recording's paths tell (before it is redacted), and what the log does; `log` may be NULL. */
enum plim_status versions_add(struct plim_doctor *d, struct plim_recording *r, const char *log,
			      struct plim_err *err);

#endif
