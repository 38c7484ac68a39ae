/*
 * One HTML file that shows recordings in a browser, without a network: docs/page.md.
 *
 *	plim_page_new(&page, ...), plim_page_add(page, report, ...) for each recording,
 *	plim_page_write(page, "page.html", ...), plim_page_free(page)
 */
#ifndef PLIMSOLL_PAGE_H
#define PLIMSOLL_PAGE_H

#include <plimsoll/report.h>

#ifdef __cplusplus
extern "C" {
#endif

struct plim_page;

struct plim_page_options {
	uint32_t size;              /* set by plim_page_options_init */
	uint64_t max_memory_bytes;  /* of what is kept, which is compressed; 0: as elsewhere */
	plim_progress_fn *progress; /* of one plim_page_add after the other; NULL: none */
	void *ctx;                  /* its first argument */
};
PLIM_API void plim_page_options_init(struct plim_page_options *o);

/* What a page takes. */
struct plim_page_size {
	uint64_t recordings;           /* that were added */
	uint64_t allocations;          /* of all recordings */
	uint64_t head_bytes;           /* of all recordings, unpacked */
	uint64_t columns_bytes;        /* of all recordings, unpacked */
	uint64_t packed_head_bytes;    /* deflated; in the file a third more */
	uint64_t packed_columns_bytes; /* deflated; in the file a third more */
	uint64_t file_bytes;           /* with the viewer; 0: not written yet */
};

/* `options` may be NULL. */
PLIM_API enum plim_status plim_page_new(const struct plim_page_options *options,
					struct plim_page **out, struct plim_err *err);
PLIM_API void plim_page_free(struct plim_page *page);

/*
 * Add all devices of a recording that was explained, with the names as its report's options want them.
 * The report may be freed afterwards.  PLIM_E_ARG: it is of a part of the events; PLIM_E_LIMIT; PLIM_E_CANCELLED.
 * On failure nothing of it is added.
 */
PLIM_API enum plim_status plim_page_add(struct plim_page *page, const struct plim_report *report,
					struct plim_err *err);

/*
 * What the command that makes the page says, as its text and its JSON (of report of several, plan, whatif, diff):
 * the page shows it next to its recordings.  What `ckpt show` and `ckpt diff` say is a page without recordings.
 * A second call replaces the first.
 */
PLIM_API enum plim_status plim_page_answer(struct plim_page *page, const char *text,
					   const char *json, struct plim_err *err);

/* Write the file, whole or not at all.  PLIM_E_ARG: nothing was added, and no answer; PLIM_E_IO. */
PLIM_API enum plim_status plim_page_write(struct plim_page *page, const char *path,
					  struct plim_err *err);

/* Write the viewer alone: recordings are dropped on it.  *bytes (may be NULL): its size.  PLIM_E_IO. */
PLIM_API enum plim_status plim_page_viewer(const char *path, uint64_t *bytes, struct plim_err *err);

PLIM_API void plim_page_get_size(const struct plim_page *page, struct plim_page_size *out);

#ifdef __cplusplus
}
#endif

#endif
