/*
 * Requests over HTTP: whatever comes, there is one whole answer or a wait for more; what is known is reported only to who may ask.  The first
 * byte says whether a token is asked for, and whether any name of the host will do.
 */
#include "must.h"

#include <plimsoll/watch.h>

#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define TOKEN "0123456789abcdef"

static struct plim_watch *watch;

/* One made sample. */
static void make_watch(void)
{
	static const char line[] = "{\"t\":1,\"total\":85520809984,\"used\":1,\"procs\":[[7,1]],"
				   "\"tree\":[{\"pid\":7,\"comm\":\"secret\",\"state\":\"R\"}]}\n";
	char path[] = "/tmp/fuzz_answer_XXXXXX";
	struct plim_err err;
	int fd = mkstemp(path);

	must(fd >= 0 && write(fd, line, sizeof(line) - 1) == (ssize_t)sizeof(line) - 1);
	must(!plim_watch_replay(path, NULL, &watch, &err));
	(void)close(fd);
	(void)unlink(path);
}

struct got {
	char text[1 << 18];
	size_t n;
};

static int take(void *ctx, const char *text, size_t n)
{
	struct got *g = ctx;

	must(n < sizeof(g->text) - g->n);
	memcpy(g->text + g->n, text, n);
	g->n += n;
	g->text[g->n] = 0;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static struct got got;
	struct plim_watch_request request = { .n = n ? n - 1 : 0 };
	struct plim_err err;
	const char *body, *length;
	bool whole, follows, streams;
	uint64_t after;

	if (!n)
		return 0;
	if (!watch)
		make_watch();
	request.at = (const char *)bytes + 1;
	request.token = bytes[0] & 1 ? TOKEN : NULL;
	request.any_host = bytes[0] & 2;
	got.n = 0;
	must(!plim_watch_answer(watch, &request, &whole, take, &got, &err));
	must(whole == (got.n > 0));
	if (!whole)
		return 0;
	must(!strncmp(got.text, "HTTP/1.1 ", 9));
	body = strstr(got.text, "\r\n\r\n");
	length = strstr(got.text, "\r\nContent-Length: ");
	follows = plim_watch_follows(&request, &after);
	/* A stream has no length, also when its head alone is asked for. */
	streams = strstr(got.text, "\r\nContent-Type: text/event-stream") != NULL;
	must(body && (streams ? !length : length && length < body));
	must(!follows || (streams && (!request.token ||
				      memmem(request.at, request.n, TOKEN, sizeof(TOKEN) - 1))));
	must(!strstr(got.text, "Access-Control"));
	if (!streams && request.n >= 5 && memcmp(request.at, "HEAD ", 5) != 0)
		must(strtoul(length + 18, NULL, 10) == got.n - (size_t)(body + 4 - got.text));
	if (request.token && strstr(body, "secret"))
		must(memmem(request.at, request.n, TOKEN, sizeof(TOKEN) - 1));
	return 0;
}
