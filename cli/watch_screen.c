/*
 * The terminal: its other screen, keys as they are typed, lines that changed.  Plain escape sequences of every terminal since the VT100:
 * no library is needed for a cursor that goes home.
 */
#include "watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- the terminal ---- */

static bool can_move(void)
{
	const char *term = getenv("TERM");

	return term && *term && strcmp(term, "dumb") != 0;
}

static void put_screen(const char *text)
{
	for (size_t n = strlen(text); n;) {
		ssize_t wrote = write(STDOUT_FILENO, text, n);

		if (wrote <= 0)
			return; /* a terminal that is gone: SIGHUP ends us */
		text += wrote;
		n -= (size_t)wrote;
	}
}

void watch_screen_begin(struct watch_screen *s, const struct plim_text_style *style)
{
	struct termios raw;

	s->view = (struct plim_watch_view){ .color = style->color,
					    .utf8 = style->utf8,
					    .pid = PLIM_UNKNOWN };
	s->asks = PLIM_UNKNOWN;
	if (!can_move() || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
	    tcgetattr(STDIN_FILENO, &s->before))
		return;
	raw = s->before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	put_screen("\033[?1049h\033[?25l\033[H\033[2J");
	free(s->last);
	s->last = NULL;
	s->on = true;
}

void watch_screen_end(struct watch_screen *s)
{
	if (!s->on)
		return;
	put_screen("\033[0m\033[?25h\033[?1049l");
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &s->before);
	free(s->last);
	s->last = NULL;
	s->on = false;
}

/* ---- drawing ---- */

struct frame {
	char *at;
	size_t n, room;
};

static int keep_screen(void *ctx, const char *text, size_t n)
{
	struct frame *f = ctx;

	if (f->n + n + 1 > f->room) {
		size_t room = 2 * (f->n + n + 1);
		char *more = realloc(f->at, room);

		if (!more)
			return -1;
		f->at = more;
		f->room = room;
	}
	memcpy(f->at + f->n, text, n);
	f->n += n;
	f->at[f->n] = 0;
	return 0;
}

/* Lines that are other than before, each where it belongs. */
static void show_screen(const char *now, const char *before)
{
	char home[32];

	for (unsigned row = 1; *now; row++) {
		size_t n = strcspn(now, "\n"), m = before ? strcspn(before, "\n") : 0;

		if (!before || n != m || memcmp(now, before, n) != 0) {
			(void)snprintf(home, sizeof(home), "\033[%u;1H", row);
			put_screen(home);
			(void)!write(STDOUT_FILENO, now, n);
			put_screen("\033[0m\033[K");
		}
		now += n + (now[n] == '\n');
		if (before)
			before += m + (before[m] == '\n');
	}
}

void watch_screen_draw(struct watch_screen *s, const struct plim_watch *w)
{
	struct winsize size = { .ws_row = 0 };
	struct frame f = { 0 };
	struct plim_err err;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) {
		size.ws_row = 24;
		size.ws_col = 80;
	}
	if (size.ws_row != s->view.height || size.ws_col != s->view.width) {
		s->view.height = size.ws_row;
		s->view.width = size.ws_col;
		put_screen("\033[2J");
		free(s->last);
		s->last = NULL;
	}
	if (watch_now() > s->message_until && s->asks == PLIM_UNKNOWN)
		s->message[0] = 0;
	s->view.message = s->message[0] ? s->message : NULL;
	if (plim_watch_screen(w, &s->view, keep_screen, &f, &err)) {
		watch_screen_end(s);
		s->failed = cmd_fail(&err);
		free(f.at);
		return;
	}
	show_screen(f.at, s->last);
	free(s->last);
	s->last = f.at;
}

/* ---- keys ---- */

enum { KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_ESCAPE };

/* One key of what was read: letters, and the sequences of arrows and pages. */
static int next_key(const char **at, const char *end)
{
	static const struct {
		const char *sequence;
		int key;
	} keys[] = { { "\033[A", KEY_UP },       { "\033OA", KEY_UP },
		     { "\033[B", KEY_DOWN },     { "\033OB", KEY_DOWN },
		     { "\033[5~", KEY_PAGE_UP }, { "\033[6~", KEY_PAGE_DOWN } };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t n = strlen(keys[i].sequence);

		if ((size_t)(end - *at) >= n && !memcmp(*at, keys[i].sequence, n)) {
			*at += n;
			return keys[i].key;
		}
	}
	if (**at == '\033') { /* alone, or a sequence that is not known: all of it is one key */
		bool alone = end - *at == 1;

		*at = end;
		return alone ? KEY_ESCAPE : 0;
	}
	return (unsigned char)*(*at)++;
}

static void say_screen(struct watch_screen *s, const char *words)
{
	(void)snprintf(s->message, sizeof(s->message), "%s", words);
	s->message_until = watch_now() + 5;
}

static size_t chosen(const struct watch_screen *s, const struct plim_watch *w)
{
	uint64_t pid = plim_watch_beside(w, s->view.order, s->view.pid, 0);

	for (size_t i = 0; i < w->job_count; i++)
		if (w->jobs[i].pid == pid)
			return i;
	return SIZE_MAX;
}

static void ask_to_end(struct watch_screen *s, const struct plim_watch *w)
{
	size_t i = chosen(s, w);

	if (i == SIZE_MAX || w->jobs[i].ended)
		return;
	s->asks = w->jobs[i].pid;
	(void)snprintf(s->message, sizeof(s->message),
		       "send SIGTERM to %llu?  y: yes, any other key: no  (%.40s)",
		       (unsigned long long)s->asks, w->jobs[i].name);
}

static void answer_screen(struct watch_screen *s, const struct plim_watch *w, int key)
{
	struct plim_err err;
	uint64_t pid = s->asks;

	s->asks = PLIM_UNKNOWN;
	s->message[0] = 0;
	for (size_t i = 0; key == 'y' && i < w->job_count; i++)
		if (w->jobs[i].pid == pid)
			say_screen(s, plim_watch_signal(w, i, SIGTERM, &err) ? err.message
									     : "SIGTERM was sent");
}

static void ask_for_recording(struct watch_screen *s, const struct plim_watch *w)
{
	size_t i = chosen(s, w);
	struct plim_err err;

	if (i != SIZE_MAX)
		say_screen(s,
			   plim_watch_ask(w, i, &err)
				   ? err.message
				   : "asked: the recording goes where plimsoll record --dir says");
}

static void turn_page(struct watch_screen *s, enum plim_watch_page page)
{
	s->view.page = s->view.page == page ? PLIM_WATCH_PAGE_JOBS : page;
	s->view.first_line = 0;
}

static void scroll(struct watch_screen *s, int lines)
{
	if (lines < 0)
		s->view.first_line -= s->view.first_line < (uint64_t)-lines ? s->view.first_line
									    : (uint64_t)-lines;
	else if (s->view.first_line < 10000)
		s->view.first_line += (uint64_t)lines;
}

/* true: the user wants to end. */
static bool press(struct watch_screen *s, const struct plim_watch *w, int key)
{
	int page = s->view.height > 4 ? (int)s->view.height - 4 : 1;

	if (s->asks != PLIM_UNKNOWN) {
		answer_screen(s, w, key);
		return false;
	}
	switch (key) {
	case 'q': return true;
	case KEY_ESCAPE:
		if (s->view.page == PLIM_WATCH_PAGE_JOBS)
			return true;
		turn_page(s, s->view.page);
		break;
	case KEY_UP:
	case 'k': s->view.pid = plim_watch_beside(w, s->view.order, s->view.pid, -1); break;
	case KEY_DOWN:
	case 'j':
		/* Before one is chosen the first one is. */
		if (s->view.pid == PLIM_UNKNOWN)
			s->view.pid = plim_watch_beside(w, s->view.order, s->view.pid, 0);
		s->view.pid = plim_watch_beside(w, s->view.order, s->view.pid, 1);
		break;
	case KEY_PAGE_UP: scroll(s, -page); break;
	case KEY_PAGE_DOWN: scroll(s, page); break;
	case 'd':
	case '\r':
	case '\n': turn_page(s, PLIM_WATCH_PAGE_JOB); break;
	case 'e': turn_page(s, PLIM_WATCH_PAGE_EVIDENCE); break;
	case 'h':
	case '?': turn_page(s, PLIM_WATCH_PAGE_HELP); break;
	case 's':
		s->view.order = (enum plim_watch_order)((s->view.order + 1) % 4);
		say_screen(s, s->view.order == PLIM_WATCH_BY_PID      ? "by process"
			      : s->view.order == PLIM_WATCH_BY_MEMORY ? "by memory"
			      : s->view.order == PLIM_WATCH_BY_USE    ? "by use of the GPU"
								      : "by state");
		break;
	case 'T': ask_to_end(s, w); break;
	case 'r': ask_for_recording(s, w); break;
	default: break;
	}
	return false;
}

bool watch_screen_keys(struct watch_screen *s, const struct plim_watch *w)
{
	char typed[64];
	ssize_t n = read(STDIN_FILENO, typed, sizeof(typed));
	const char *at = typed, *end = typed + (n > 0 ? n : 0);
	bool ends = n == 0; /* the terminal is gone */

	while (at < end && !ends)
		ends = press(s, w, next_key(&at, end));
	return ends;
}
