/* How commands show a result: where it goes and in which style. */
#include "cmd.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int cmd_to_stdout(void *ctx, const char *text, size_t n)
{
	(void)ctx;
	return fwrite(text, 1, n, stdout) == n ? 0 : errno ? errno : EIO;
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
