/*
 * The page: recordings packed into sections and written as one HTML file with the viewer.
 * docs/page.md has the format; a section is compressed when it is packed, so that a page of several
 * recordings never holds more than one of them as it is.
 */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include "diagnose/diagnose.h"

/* Raw deflate; the HTML has it as base64. */
struct page_section {
	uint8_t *at;
	size_t n, room;
	size_t plain_bytes; /* unpacked */
};

/* The sections of one device of one recording. */
struct page_part {
	struct page_section head, columns;
};

struct page {
	struct mem *mem;
	VEC(struct page_part) parts;
	/* Asked after each piece of work, may be NULL; not 0 stops (PLIM_E_CANCELLED). */
	int (*progress)(void *ctx, uint32_t done, uint32_t total);
	void *ctx;
};

/* Where a frame is, as people shall read it; valid until the next one is asked for. */
struct page_place {
	const char *name, *file;
};

/* What a finding points to; events may be TRACE_NONE, as may stack and frame. */
struct page_show {
	uint32_t event, first_event, last_event;
	uint32_t stack, frame;
};

/* One device of a recording that was explained.  All is borrowed. */
struct page_input {
	struct mem *mem; /* for the work; what stays is taken from the page's */
	const struct timeline *tl;
	const struct timeline_categories *categories; /* mem NULL: no stacks were recorded */
	const char *const *category_names; /* for a person, TIMELINE_CATEGORIES of them */
	const char *title;
	const char *conf; /* PYTORCH_CUDA_ALLOC_CONF as it may be shown, or NULL */
	bool plan;        /* it is no recording, but what one would be */
	uint64_t
		limit_bytes; /* that the run was to stay under, where no failure tells it; 0: none */
	uint32_t recording;
	const struct page_show *show; /* of each finding in the report */
	size_t show_count;
	void *self;
	/* Names from the file come only from here, shortened and redacted. */
	void (*place)(void *self, uint32_t frame, struct page_place *out);
	void (*report)(void *self, struct json_out *j); /* emits the member "report" */
};

void page_init(struct page *p, struct mem *m);
void page_release(struct page *p);

/* Drop all parts but the first n. */
void page_cut(struct page *p, size_t n);

/* Add a device.  Linear in events. */
enum plim_status page_pack(struct page *p, const struct page_input *in, struct plim_err *err);

/* Write the HTML, whole or not at all; *bytes (may be NULL): its size.  The same parts give the same bytes. */
enum plim_status page_write(const struct page *p, const char *path, uint64_t *bytes,
			    struct plim_err *err);

#endif
