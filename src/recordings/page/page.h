/*
 * The page: recordings packed into sections and written as one HTML file with the viewer.
 * docs/formats/page.md has the format; a section is compressed when it is packed, so that a page of several
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

/* What draws the page. */
enum page_viewer { PAGE_RECORDINGS, PAGE_CURVES };

struct page {
	struct mem *mem;
	enum page_viewer viewer;
	VEC(struct page_part) parts;
	struct page_section text, result; /* what the command says; at NULL: nothing */
	/* Asked after each piece of work, may be NULL; not 0 stops (PLIM_E_CANCELLED). */
	int (*progress)(void *ctx, uint32_t done, uint32_t total);
	void *ctx;
};

/* One device of a recording that was explained.  All is borrowed. */
struct page_device {
	struct recording_device *device; /* with all its parts */
	const struct timeline *tl;
	struct recording_names *names;      /* as which frames and settings are shown */
	const struct findings_death *death; /* the report's first finding; NULL: none */
	const struct findings_list *findings;
	const char *title;
	uint64_t
		limit_bytes; /* that the run was to stay under, where no failure shows it; 0: none */
	uint32_t recording;  /* its number on the page */
	void *self;
	void (*report)(void *self, struct json_out *j); /* emits the member "report" */
};

void page_init(struct page *p, struct mem *m);
void page_release(struct page *p);

/* Drop all parts but the first n. */
void page_cut(struct page *p, size_t n);

/* Add a device.  Linear in events. */
enum plim_status page_add_device(struct page *p, const struct page_device *d, struct plim_err *err);

/* Add a part that is a JSON text alone: what the viewer of curves draws. */
enum plim_status page_pack_json(struct page *p, const char *json, size_t n, struct plim_err *err);

/* What the command that makes the page says, as text and as JSON; what was there before is replaced. */
enum plim_status page_pack_answer(struct page *p, const char *text, const char *json,
				  struct plim_err *err);

/* Write the HTML, whole or not at all; *bytes (may be NULL): its size.  The same parts give the same bytes. */
enum plim_status page_write(const struct page *p, const char *path, uint64_t *bytes,
			    struct plim_err *err);

#endif
