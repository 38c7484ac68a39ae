/* The faces of `plimsoll watch`: a terminal's screen, a small server, commands that alerts start. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cmd.h"

#include <plimsoll/watch.h>

#include <poll.h>
#include <sys/types.h>
#include <termios.h>

/* What is known as JSON in one line, without its line feed. */
enum plim_status watch_json_line(const struct plim_watch *w, plim_write_fn *write, void *ctx,
				 struct plim_err *err);

/* ---- the screen ---- */

struct watch_screen {
	bool on;
	struct termios before;
	struct plim_watch_view view;
	char message[160], *last; /* what is shown now */
	double message_until;
	uint64_t asks; /* process that will be ended by "y"; PLIM_UNKNOWN: none */
	int failed;    /* an exit code: it could not be drawn */
};

/* Take the terminal, unless there is none that can move its cursor (TERM=dumb). */
void watch_screen_begin(struct watch_screen *s, const struct plim_text_style *style);
/* Give it back as it was.  May be called again and again. */
void watch_screen_end(struct watch_screen *s);
void watch_screen_draw(struct watch_screen *s, const struct plim_watch *w);
/* What was typed; true: the user wants to end. */
bool watch_screen_keys(struct watch_screen *s, const struct plim_watch *w);

/* Seconds of a clock that only goes forward. */
double watch_now(void);

/* ---- the server ---- */

#define WATCH_CLIENTS 8
#define WATCH_BEAT 15.0 /* seconds after which one who follows hears something */

struct watch_server;

/* "PORT", "ADDRESS:PORT", "[ADDRESS]:PORT"; 0: any free port.  Says on stderr where it is.  An exit code. */
int watch_server_begin(const char *where, const char *token_file, struct watch_server **out);
/* Its descriptors, WATCH_CLIENTS + 1 of them at most; how many. */
size_t watch_server_wants(const struct watch_server *s, struct pollfd *out);
/* A new sample: those that follow /events get it. */
void watch_server_sample(struct watch_server *s, const struct plim_watch *w);
/* Accept, read, answer, write, as far as no one has to be waited for. */
void watch_server_turn(struct watch_server *s, const struct plim_watch *w);
void watch_server_end(struct watch_server *s);

/* ---- commands ---- */

#define WATCH_WAITING 32

struct watch_doing {
	const char *list, *command; /* of --on and --do; NULL: none */
	pid_t child;                /* 0: none runs */
	double until;               /* when it is ended */
	struct {
		enum plim_watch_event event;
		uint64_t pid;
		char title[256];
	} waiting[WATCH_WAITING];
	size_t n;
};

/* Are all words of --on known?  An exit code, after a message. */
int watch_do_check(const struct watch_doing *d);
/* Queue what is new, start what waits, end what takes too long. */
void watch_do_turn(struct watch_doing *d, const struct plim_watch *w);
/* Run all that waits and wait for it, as long as each may take. */
void watch_do_finish(struct watch_doing *d);
/* "oom-soon" */
const char *watch_event_word(enum plim_watch_event e, char out[32]);

#endif
