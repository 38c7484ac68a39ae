/* What is known as JSON in one line: for --json, and for who follows the server's events. */
#include "watch.h"

#include <string.h>

struct one_line {
	bool begins; /* behind a line feed: what is blank is layout */
	plim_write_fn *write;
	void *ctx;
};

/* A line feed within a text is escaped, so each is layout. */
static int to_line(void *ctx, const char *text, size_t n)
{
	struct one_line *l = ctx;
	int failed = 0;

	for (size_t i = 0; !failed && i < n;) {
		const char *feed;
		size_t m;

		while (l->begins && i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n'))
			i++;
		if (i == n)
			break;
		feed = memchr(text + i, '\n', n - i);
		m = feed ? (size_t)(feed - text) - i : n - i;
		failed = m ? l->write(l->ctx, text + i, m) : 0;
		l->begins = feed != NULL;
		i += m + (feed != NULL);
	}
	return failed;
}

enum plim_status watch_json_line(const struct plim_watch *w, plim_write_fn *write, void *ctx,
				 struct plim_err *err)
{
	struct one_line l = { false, write, ctx };

	return plim_watch_json(w, to_line, &l, err);
}
