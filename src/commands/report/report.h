/* What the parts of the report command share. */
#ifndef API_REPORT_H
#define API_REPORT_H

#include "commands/recording.h"
#include "diagnose/diagnose.h"

#include <plimsoll/report.h>

/* One device that is reported. */
struct report_device {
	struct recording_device *device;
	struct timeline timeline;    /* the recording's, or of the part that was asked for */
	struct findings_death death; /* the last failure, where there is one */
	struct findings_list findings;
};

struct plim_report_hidden {
	struct plim_recording *owned;    /* that the report opened itself, or NULL */
	struct plim_recording *borrowed; /* whose `reports` counts this one */
	struct recording *recording;
	struct arena arena; /* all that the report points to */
	struct recording_names names;
	struct report_device *devices; /* as the report's */
	struct plim_report_options options;
	struct messages_oom message;
	int has_message;
};

/* How the devices of one program differ, where they do: r->uneven. */
enum plim_status report_compare_devices(struct plim_report *r, struct plim_err *err);

#endif
