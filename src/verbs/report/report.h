/* What the parts of the report verb share. */
#ifndef API_REPORT_H
#define API_REPORT_H

#include "base/base.h"
#include "diagnose/diagnose.h"

#include <plimsoll/report.h>

/* One device while it is being explained. */
struct report_device {
	struct allocator_replay *replay;
	struct timeline timeline;
	struct timeline_categories categories; /* mem NULL: no stacks were recorded */
	struct timeline_steps steps;           /* of an optimizer */
	struct timeline_steps periods;         /* where there are none: what repeats instead */
	struct timeline_ranges ranges;         /* that the program named */
	struct findings_death death;           /* the last failure, where there is one */
	struct findings_tried tried[FINDINGS_TRIED]; /* for it */
	size_t tried_count;
	struct findings_list findings;
};

struct plim_report_hidden {
	struct mem mem;
	struct snapshot *snapshot;
	struct report_device *devices; /* as many as the trace has */
	struct arena arena;            /* all that the report points to */
	struct plim_report_options options;
	struct messages_oom message;
	int has_message;
	int summary;     /* as in struct report_input */
	uint32_t *words; /* --redact: names by string id, 0: not yet */
	uint32_t word_count;
	uint64_t limit_bytes; /* of a plan's page; 0: none */
};

/* Where a recording comes from when it is not simply a path. */
struct report_input {
	struct source *source; /* the caller's; NULL: the path is opened */
	unsigned threads;      /* as in struct snapshot_read_options */
	int summary;           /* only numbers are wanted: no settings are tried for the advice */
	int is_other;          /* out: the file is something else, not a damaged snapshot */
};

/* As plim_report_open; `in` may be NULL. */
enum plim_status report_open(const char *path, struct report_input *in,
			     const struct plim_report_options *options, struct plim_report **out,
			     struct plim_err *err);

/* A report of nothing: an owner of texts and arrays. */
enum plim_status report_new(const struct plim_report_options *options, struct plim_report **out,
			    struct plim_err *err);

/* Was it made by plimsoll plan, and never run? */
int report_is_plan(const struct plim_report *r);

/* "optimizer state" of "optimizer_state", for a person; what is no category is given back. */
const char *report_category_of(const char *name);

/* n * size zeroed bytes that live as long as the report. */
void *report_take(struct plim_report *r, size_t n, size_t size, struct plim_err *err);

/* A text that lives as long as the report; NULL and *err on failure. */
const char *report_text(struct plim_report *r, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A name from the file, or with --redact a word for it ("key-3") in a buffer of 32. */
const char *report_name(const struct plim_report *r, uint32_t string, const char *kind, char *word,
			size_t size);

/* The part of a file's name that is public and may be shown with --redact, or NULL. */
const char *report_public_part(const char *file);

/* The file and function of a frame, with --strip-prefix and --redact applied. */
struct report_place {
	const char *file, *name; /* the trace's, or the words here */
	char file_word[32], name_word[256];
};
void report_place(const struct plim_report *r, uint32_t frame, struct report_place *out);

/* "train.py:41 in step", with --strip-prefix and --redact applied; NULL for TRACE_NONE. */
const char *report_frame(struct plim_report *r, uint32_t frame, struct plim_err *err);
enum plim_status report_stack(struct plim_report *r, uint32_t stack, const char ***out, size_t *n,
			      struct plim_err *err);

/* Steps of a device, and phases and categories if its recording has stacks. */
enum plim_status report_categorize(struct plim_report *r, struct report_device *one,
				   struct plim_err *err);

/* What lives after `event` by category; *out NULL where nothing is known. */
enum plim_status report_categories(struct plim_report *r, const struct report_device *one,
				   uint32_t event, struct plim_report_categories **out,
				   struct plim_err *err);

/* What repeats, by whatever is seen of it; ends.n is 0 where nothing is. */
static inline const struct timeline_steps *report_repeats(const struct report_device *one)
{
	return one->steps.ends.n ? &one->steps : &one->periods;
}

/* Names of the ranges (record_function) that an event lies in, the outermost first. */
enum plim_status report_ranges(struct plim_report *r, const struct report_device *one,
			       uint32_t event, const char ***out, size_t *n, struct plim_err *err);

/* The repetition that an event is in, and what the program did; PLIM_UNKNOWN and NULL where that is not known. */
uint64_t report_step_of(const struct report_device *one, uint32_t event);
const char *report_phase_of(const struct report_device *one, uint32_t event);

enum plim_status report_steps(struct plim_report *r, const struct report_device *one,
			      struct plim_report_device *out, struct plim_err *err);

/* Needs the deaths, which are findings too. */
enum plim_status report_findings(struct plim_report *r, struct report_device *one,
				 struct plim_report_device *out, struct plim_err *err);

/* The verdict of a death, with its sentences. */
enum plim_status report_verdict(struct plim_report *r, const struct findings_death *d,
				const struct findings_tried *tried, size_t tried_count,
				struct plim_report_verdict *v, struct plim_err *err);

/* "3.02 GiB" into a buffer of 32. */
static inline const char *report_size(char *buffer, uint64_t bytes)
{
	return text_size(buffer, bytes);
}

#endif
