/* --baseline: a file of accepted findings is read or refused with its line, and accepts what it names, nothing else. */
#include "cmd.h"
#include "gate.h"
#include "must.h"

#include <stdarg.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static unsigned said;

void cmd_say(const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	must(vsnprintf(text, sizeof(text), fmt, ap) > 0);
	va_end(ap);
	said++;
}

int cmd_usage(const char *fmt, ...)
{
	(void)fmt;
	return CMD_USAGE;
}

/* A finding at a place that no line can name: only a line of its kind with * accepts it. */
static void judge(struct gate *g, const uint8_t *bytes, size_t n)
{
	const char *id;

	for (size_t i = 0; (id = plim_report_finding_id(i)) != NULL; i++) {
		struct plim_finding f = { .id = id, .severity = PLIM_SEVERITY_ERROR };
		size_t before = g->accepted;

		f.place.frame = "/a b/c.py:41 in step";
		if (!gate_fails(g, &f))
			must(g->accepted == before + 1 && memmem(bytes, n, id, strlen(id)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	FILE *f = n ? fmemopen((void *)(uintptr_t)bytes, n, "r") : NULL;
	struct gate g;
	int code;

	if (!f)
		return 0;
	must(gate_init(&g, "any"));
	said = 0;
	code = gate_read_lines(&g, f, "accepted");
	must(code == (said ? CMD_INPUT : CMD_DONE) && said <= 1);
	if (code == CMD_DONE)
		judge(&g, bytes, n);
	gate_release(&g);
	(void)fclose(f);
	return 0;
}
