/*
 * HTTP as far as it is needed: GET and HEAD of five paths, one request a connection.  Requests are foreign bytes.
 *
 * A page of another site must not read this: no CORS header is ever sent, the Host must be a name of the loopback (else a site could
 * point its own name here), and beyond the loopback a token is asked for.
 */
#include "commands/watch/watch.h"

#include "commands/out.h"

#include <ctype.h>
#include <stdio.h>

#define MOST_REQUEST 16384

extern const unsigned char watch_js[], watch_css[];
extern const size_t watch_js_bytes, watch_css_bytes;
extern const char watch_js_sha256[], watch_css_sha256[];

struct answer {
	const char *status, *type;
	bool goes_on; /* its end is not known */
	struct text body;
};

/* ---- the request ---- */

struct request {
	const char *path, *host, *authorization, *last_event, *accept; /* NULL: not known */
	size_t path_n, host_n, authorization_n, last_event_n, accept_n;
	bool head;
};

static bool answer_is_name(const char *at, size_t n, const char *name)
{
	if (strlen(name) != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (tolower((unsigned char)at[i]) != name[i])
			return false;
	return true;
}

static void take_header(struct request *r, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n), *value;
	size_t name;

	if (!colon)
		return;
	name = (size_t)(colon - line);
	for (value = colon + 1; value < line + n && (*value == ' ' || *value == '\t'); value++)
		;
	n -= (size_t)(value - line);
	while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
		n--;
	if (answer_is_name(line, name, "host")) {
		r->host = value;
		r->host_n = n;
	} else if (answer_is_name(line, name, "authorization")) {
		r->authorization = value;
		r->authorization_n = n;
	} else if (answer_is_name(line, name, "accept")) {
		r->accept = value;
		r->accept_n = n;
	} else if (answer_is_name(line, name, "last-event-id")) {
		r->last_event = value;
		r->last_event_n = n;
	}
}

/* The status of what cannot be answered; NULL: it can. */
static const char *parse(const char *at, size_t n, struct request *r)
{
	const char *end = memchr(at, '\r', n), *space, *line;

	*r = (struct request){ .head = n > 5 && !memcmp(at, "HEAD ", 5) };
	if (!end || memchr(at, 0, n))
		return "400 Bad Request";
	if (!r->head && (n < 4 || memcmp(at, "GET ", 4) != 0))
		return "405 Method Not Allowed";
	r->path = at + (r->head ? 5 : 4);
	space = memchr(r->path, ' ', (size_t)(end - r->path));
	if (!space || end - space != 9 || memcmp(space, " HTTP/1.", 8) != 0)
		return "400 Bad Request";
	r->path_n = (size_t)(space - r->path);
	for (line = end + 2; line < at + n; line = end + 2) {
		end = memchr(line, '\r', (size_t)(at + n - line));
		if (!end || end == line)
			break;
		take_header(r, line, (size_t)(end - line));
	}
	return NULL;
}

/* "127.0.0.1:9478", "localhost", "[::1]:9478" */
static bool is_loopback(const char *host, size_t n)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *colon;

	if (!host)
		return false;
	if (n && *host == '[') {
		colon = memchr(host, ']', n);
		n = colon ? (size_t)(colon + 1 - host) : n;
	} else {
		colon = memchr(host, ':', n);
		n = colon ? (size_t)(colon - host) : n;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (answer_is_name(host, n, names[i]))
			return true;
	return false;
}

/* The same time whatever is wrong. */
static bool has_token(const struct request *r, const char *token)
{
	static const char bearer[] = "Bearer ";
	size_t n = strlen(token), skip = sizeof(bearer) - 1;
	unsigned char differs = 0;

	if (!r->authorization || r->authorization_n != skip + n ||
	    memcmp(r->authorization, bearer, skip) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		differs |= (unsigned char)(r->authorization[skip + i] ^ token[i]);
	return !differs;
}

/* ---- what is answered ---- */

static int to_text(void *ctx, const char *at, size_t n)
{
	text_put(ctx, at, n);
	return 0;
}

static void put_page(struct text *t)
{
	text_puts(t, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
		     "<meta name=\"viewport\" content=\"width=device-width\">"
		     "<title>plimsoll watch</title><link rel=\"icon\" href=\"data:,\"><style>");
	text_put(t, (const char *)watch_css, watch_css_bytes);
	text_puts(t, "</style></head><body><main id=\"watch\"><noscript>This page needs JavaScript."
		     "</noscript></main><script>");
	text_put(t, (const char *)watch_js, watch_js_bytes);
	text_puts(t, "</script></body></html>\n");
}

static enum plim_status put_health(const struct plim_watch *w, struct answer *a)
{
	if (w->driver_silent_seconds >= 10) {
		a->status = "503 Service Unavailable";
		text_printf(&a->body, "the GPU's driver has not answered for %.0f s\n",
			    w->driver_silent_seconds);
	} else {
		text_puts(&a->body, "ok\n");
	}
	return PLIM_OK;
}

static bool is_path(const struct request *r, const char *path)
{
	return r->path_n == strlen(path) && !memcmp(r->path, path, r->path_n);
}

/* The status of what may not be answered to whoever asks; NULL: it may. */
static const char *refuses(const struct plim_watch_request *given, const struct request *r)
{
	if (!given->any_host && !is_loopback(r->host, r->host_n))
		return "421 Misdirected Request";
	/* The page holds nothing: what it shows it asks for. */
	if (given->token && !is_path(r, "/") && !has_token(r, given->token))
		return "401 Unauthorized";
	return NULL;
}

/* Does it name that kind? */
static bool accepts(const struct request *r, const char *kind)
{
	return r->accept_n && memmem(r->accept, r->accept_n, kind, strlen(kind));
}

static enum plim_status choose_answer(const struct plim_watch *w, const struct request *r,
				      struct answer *a, struct plim_err *err)
{
	if (is_path(r, "/")) {
		a->type = "text/html; charset=utf-8";
		put_page(&a->body);
		return PLIM_OK;
	}
	if (is_path(r, "/metrics") && accepts(r, "text/plain") &&
	    !accepts(r, "application/openmetrics-text")) {
		a->type = "text/plain; version=0.0.4; charset=utf-8";
		return plim_watch_metrics_plain(w, to_text, &a->body, err);
	}
	if (is_path(r, "/metrics")) {
		a->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
		return plim_watch_metrics(w, to_text, &a->body, err);
	}
	if (is_path(r, "/watch.json")) {
		a->type = "application/json";
		return plim_watch_json(w, to_text, &a->body, err);
	}
	if (is_path(r, "/events")) {
		a->type = "text/event-stream";
		a->goes_on = true;
		text_puts(&a->body, "retry: 2000\n\n");
		return PLIM_OK;
	}
	if (is_path(r, "/healthz"))
		return put_health(w, a);
	a->status = "404 Not Found";
	text_puts(&a->body, "there are /, /watch.json, /events, /metrics and /healthz\n");
	return PLIM_OK;
}

static void put_headers(struct text *t, const struct answer *a)
{
	text_printf(t, "HTTP/1.1 %s\r\nContent-Type: %s\r\n", a->status, a->type);
	if (!a->goes_on)
		text_printf(t, "Content-Length: %zu\r\n", a->body.n);
	text_printf(t,
		    "Connection: close\r\nCache-Control: no-store\r\n"
		    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
		    "Cross-Origin-Resource-Policy: same-origin\r\n"
		    "Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; "
		    "style-src 'sha256-%s'; connect-src 'self'; img-src data:; base-uri 'none'; "
		    "form-action 'none'; frame-ancestors 'none'\r\n",
		    watch_js_sha256, watch_css_sha256);
	if (!strncmp(a->status, "405", 3))
		text_puts(t, "Allow: GET, HEAD\r\n");
	if (!strncmp(a->status, "401", 3))
		text_puts(t, "WWW-Authenticate: Bearer\r\n");
	text_puts(t, "\r\n");
}

static bool answer_is_whole(const char *at, size_t n)
{
	for (size_t i = 3; i < n; i++)
		if (!memcmp(at + i - 3, "\r\n\r\n", 4))
			return true;
	return false;
}

enum plim_status plim_watch_answer(const struct plim_watch *w,
				   const struct plim_watch_request *given, bool *whole,
				   plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct answer a = { .status = "200 OK", .type = "text/plain; charset=utf-8" };
	struct request r = { .head = false };
	const char *wrong = NULL;
	struct text out;
	enum plim_status st = PLIM_OK;

	*whole = answer_is_whole(given->at, given->n) || given->n > MOST_REQUEST;
	if (!*whole)
		return PLIM_OK;
	text_init(&a.body, &w->hidden->mem, NULL);
	text_init(&out, &w->hidden->mem, NULL);
	wrong = given->n > MOST_REQUEST ? "431 Request Header Fields Too Large"
					: parse(given->at, given->n, &r);
	if (!wrong)
		wrong = refuses(given, &r);
	if (wrong) {
		a.status = wrong;
		text_printf(&a.body, "%s\n", wrong + 4);
	} else {
		st = choose_answer(w, &r, &a, err);
	}
	if (!st)
		st = text_status(&a.body, err);
	if (!st) {
		put_headers(&out, &a);
		if (!r.head)
			text_put(&out, text_get(&a.body), a.body.n);
	}
	text_release(&a.body);
	if (st) {
		text_release(&out);
		return st;
	}
	return out_text(&out, write, ctx, err);
}

bool plim_watch_follows(const struct plim_watch_request *given, uint64_t *after)
{
	struct request r;
	uint64_t n = 0;

	*after = PLIM_UNKNOWN;
	if (!answer_is_whole(given->at, given->n) || given->n > MOST_REQUEST ||
	    parse(given->at, given->n, &r) || refuses(given, &r) || r.head ||
	    !is_path(&r, "/events"))
		return false;
	for (size_t i = 0; i < r.last_event_n; i++) {
		if (r.last_event[i] < '0' || r.last_event[i] > '9' || n > PLIM_UNKNOWN / 100)
			return true;
		n = 10 * n + (uint64_t)(r.last_event[i] - '0');
	}
	if (r.last_event_n)
		*after = n;
	return true;
}
