/*
 * The HTML: the viewer and the sections, which are base64, so that nothing from a file can be markup.
 * The policy allows the viewer's script and style by their hashes (tools/embed.py) and nothing else.
 */
#include "parts.h"

#include <string.h>

extern const unsigned char viewer_js[], viewer_css[], curves_js[], curves_css[];
extern const size_t viewer_js_bytes, viewer_css_bytes, curves_js_bytes, curves_css_bytes;
extern const char viewer_js_sha256[], viewer_css_sha256[], curves_js_sha256[], curves_css_sha256[];

/* By enum page_viewer. */
static const struct viewer {
	const unsigned char *js, *css;
	const size_t *js_bytes, *css_bytes;
	const char *js_sha256, *css_sha256;
	const char *draws; /* what the page shows, for who allows no script */
} viewers[] = {
	[PAGE_RECORDINGS] = { viewer_js, viewer_css, &viewer_js_bytes, &viewer_css_bytes,
			      viewer_js_sha256, viewer_css_sha256,
			      "a recording of GPU memory or a checkpoint" },
	[PAGE_CURVES] = { curves_js, curves_css, &curves_js_bytes, &curves_css_bytes,
			  curves_js_sha256, curves_css_sha256, "the curves of training logs" },
};

#define CHUNK_BYTES 49152u /* a multiple of 3: only the last chunk is padded */

struct writing {
	struct durable *file;
	uint64_t bytes;
	enum plim_status status; /* the first failure */
	struct plim_err *err;
};

static void put_page_bytes(struct writing *w, const void *at, size_t n)
{
	if (!w->status && n)
		w->status = durable_write(w->file, at, n, w->err);
	w->bytes += n;
}

static void puts_to(struct writing *w, const char *s)
{
	put_page_bytes(w, s, strlen(s));
}

/* RFC 4648, with padding. */
static size_t base64(const uint8_t *from, size_t n, char *to)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *start = to;

	for (; n; from += 3, n -= n < 3 ? n : 3) {
		uint32_t bits = (uint32_t)from[0] << 16 | (n > 1 ? (uint32_t)from[1] << 8 : 0) |
				(n > 2 ? from[2] : 0u);

		*to++ = letters[bits >> 18];
		*to++ = letters[bits >> 12 & 63];
		*to++ = n > 1 ? letters[bits >> 6 & 63] : '=';
		*to++ = n > 2 ? letters[bits & 63] : '=';
	}
	return (size_t)(to - start);
}

static void put_section(struct writing *w, const char *id, const struct page_section *s)
{
	char text[CHUNK_BYTES / 3 * 4];

	puts_to(w, "<script type=\"application/octet-stream\" id=\"plim-");
	puts_to(w, id);
	puts_to(w, "\">");
	for (size_t at = 0; !w->status && at < s->n; at += CHUNK_BYTES) {
		size_t n = s->n - at < CHUNK_BYTES ? s->n - at : CHUNK_BYTES;

		put_page_bytes(w, text, base64(s->at + at, n, text));
	}
	puts_to(w, "</script>\n");
}

static void put_part(struct writing *w, size_t part, const char *name, const struct page_section *s)
{
	char id[48];

	(void)snprintf(id, sizeof(id), "%zu-%s", part, name);
	put_section(w, id, s);
}

static void put_html(struct writing *w, const struct page *p)
{
	const struct viewer *v = &viewers[p->viewer];

	puts_to(w, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		   "base-uri 'none'; form-action 'none'; script-src 'sha256-");
	puts_to(w, v->js_sha256);
	puts_to(w, "'; style-src 'sha256-");
	puts_to(w, v->css_sha256);
	puts_to(w, "'\">\n<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
		   "<title>plimsoll</title>\n<style>");
	put_page_bytes(w, v->css, *v->css_bytes);
	puts_to(w, "</style></head><body>\n<noscript>This page draws ");
	puts_to(w, v->draws);
	puts_to(w, " with a script that is in it; nothing is loaded or sent. Please allow "
		   "JavaScript for this file.</noscript>\n");
	for (size_t i = 0; i < p->parts.n; i++) {
		put_part(w, i, "head", &p->parts.at[i].head);
		if (p->viewer == PAGE_RECORDINGS)
			put_part(w, i, "columns", &p->parts.at[i].columns);
	}
	if (p->result.at) {
		put_section(w, "answer-text", &p->text);
		put_section(w, "answer-result", &p->result);
	}
	puts_to(w, "<script>");
	put_page_bytes(w, v->js, *v->js_bytes);
	puts_to(w, "</script>\n</body></html>\n");
}

/* More than the file will take. */
static uint64_t expected_bytes(const struct page *p)
{
	uint64_t n = *viewers[p->viewer].js_bytes + *viewers[p->viewer].css_bytes + 4096;

	n += ((uint64_t)p->text.n + p->result.n) / 3 * 4 + 256;
	for (size_t i = 0; i < p->parts.n; i++)
		n += ((uint64_t)p->parts.at[i].head.n + p->parts.at[i].columns.n) / 3 * 4 + 512;
	return n;
}

enum plim_status page_write(const struct page *p, const char *path, uint64_t *bytes,
			    struct plim_err *err)
{
	struct writing w = { .err = err };

	w.status = durable_begin(p->mem, path, expected_bytes(p), &w.file, err);
	if (w.status)
		return w.status;
	put_html(&w, p);
	w.status = durable_end(w.file, w.status, err);
	if (!w.status && bytes)
		*bytes = w.bytes;
	return w.status;
}
