/* How commands show a result: where it goes and in which style. */
#include "cmd.h"
#include "output.h"
#include "progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static enum cmd_stdout state = CMD_STDOUT_GOOD;

enum cmd_stdout cmd_stdout_state(void)
{
	return state;
}

int cmd_to_stdout(void *ctx, const char *text, size_t n)
{
	int number;

	(void)ctx;
	cmd_progress_end();
	if (state == CMD_STDOUT_LEFT || fwrite(text, 1, n, stdout) == n)
		return 0;
	number = errno ? errno : EIO;
	state = number == EPIPE ? CMD_STDOUT_LEFT : CMD_STDOUT_FAILED;
	return state == CMD_STDOUT_LEFT ? 0 : number;
}

void cmd_print(const char *fmt, ...)
{
	va_list ap;

	cmd_progress_end();
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
}

bool cmd_is_page(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot && (!strcmp(dot, ".html") || !strcmp(dot, ".htm"));
}

struct plim_text_style cmd_style(uint64_t width, bool no_color)
{
	const char *lang = getenv("LC_ALL");
	struct plim_text_style s = { .width = 80 };
	struct winsize size;
	int terminal = isatty(STDOUT_FILENO);

	if (!lang || !*lang)
		lang = getenv("LC_CTYPE");
	if (!lang || !*lang)
		lang = getenv("LANG");
	s.utf8 = lang && (strstr(lang, "UTF-8") || strstr(lang, "utf8") || strstr(lang, "UTF8"));
	s.color = terminal && !no_color && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
	if (terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= 40)
		s.width = size.ws_col < 120 ? size.ws_col : 120;
	if (width != OPT_NONE)
		s.width = (uint32_t)width;
	return s;
}

static int show_packing(void *ctx, uint32_t done, uint32_t total)
{
	(void)ctx;
	return cmd_progress_count((char *)(uintptr_t) "% of the page packed",
				  (uint32_t)(100 * (uint64_t)done / total), 100);
}

enum plim_status cmd_page_new(uint64_t max_memory, struct plim_page **page, struct plim_err *err)
{
	struct plim_page_options options;

	plim_page_options_init(&options);
	options.max_memory_bytes = max_memory == OPT_NONE ? 0 : max_memory;
	options.progress = show_packing;
	return plim_page_new(&options, page, err);
}

#define ANSWER_COLUMNS 100

int cmd_collect(void *ctx, const char *text, size_t n)
{
	struct cmd_words *to = ctx;
	char *at = realloc(to->at, to->n + n + 1);

	if (!at)
		return ENOMEM;
	memcpy(at + to->n, text, n);
	to->at = at;
	to->n += n;
	at[to->n] = '\0';
	return 0;
}

struct plim_text_style cmd_answer_style(void)
{
	return (struct plim_text_style){ .width = ANSWER_COLUMNS, .utf8 = true };
}

enum plim_status cmd_answer_end(struct cmd_answer *answer, struct plim_page *page,
				enum plim_status st, struct plim_err *err)
{
	if (!st && answer->text.at && answer->json.at)
		st = plim_page_answer(page, answer->text.at, answer->json.at, err);
	free(answer->text.at);
	free(answer->json.at);
	return st;
}

enum plim_status cmd_page_end(struct plim_page *page, const char *path, struct plim_err *err)
{
	enum plim_status st = plim_page_write(page, path, err);
	struct plim_page_size size;

	plim_page_get_size(page, &size);
	if (!st && !size.recordings)
		cmd_say("%s: a page of %.2f MB", cmd_output_name(path),
			(double)size.file_bytes / 1e6);
	else if (!st)
		cmd_say("%s: %llu recording%s, %llu allocations, %.2f MB", cmd_output_name(path),
			(unsigned long long)size.recordings, size.recordings == 1 ? "" : "s",
			(unsigned long long)size.allocations, (double)size.file_bytes / 1e6);
	plim_page_free(page);
	return st;
}
