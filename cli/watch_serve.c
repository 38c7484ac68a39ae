/*
 * --listen: sockets that never wait.  A client has ten seconds for its request and its answer; what is asked and what is answered is the
 * library's (plim_watch_answer).  Beyond the loopback everybody needs a token.
 */
#include "watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE 10.0
#define MOST_REQUEST 20000
#define TOKEN_BYTES 24
#define FOLLOWERS 4 /* clients that follow at most: there is room for others */
#define KEPT 128    /* events for those who come back */
#define MOST_KEPT ((size_t)1 << 20)
#define MOST_UNSENT ((size_t)4 << 20)
#define FORGET 120.0 /* seconds without a follower behind which none are kept */

struct client {
	int fd; /* -1: free */
	double until;
	char *in, *out;
	size_t in_n, out_n, out_room, sent;
	bool follows;
	double heard; /* when it was sent something */
};

/* A sample as it was sent to who follows. */
struct event {
	uint64_t id;
	char *at;
	size_t n;
};

struct watch_server {
	int fd;
	bool loopback;
	char token[128]; /* "": none is asked for */
	struct client clients[WATCH_CLIENTS];
	struct event events[KEPT]; /* the oldest first */
	size_t event_count, event_bytes;
	double followed; /* when someone last did */
};

/* ---- where ---- */

/* "[::1]:9478" as host and port; the loopback where there is no host. */
static bool split_client(const char *where, char *host, size_t host_room, char *port,
			 size_t port_room)
{
	const char *colon = strrchr(where, ':'), *from = where, *to;

	(void)snprintf(port, port_room, "%s", colon ? colon + 1 : where);
	(void)snprintf(host, host_room, "127.0.0.1");
	if (!*port || strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
	    strtoul(port, NULL, 10) > 65535)
		return false;
	if (!colon || colon == where)
		return true;
	to = colon;
	if (*from == '[' && to[-1] == ']') {
		from++;
		to--;
	}
	return to > from &&
	       (size_t)snprintf(host, host_room, "%.*s", (int)(to - from), from) < host_room;
}

static bool is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >>
			       24 ==
		       127;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int listen_at(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 16))
		return fd;
	(void)close(fd);
	return -1;
}

static int open_socket(struct watch_server *s, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE };
	struct addrinfo *all = NULL;

	if (getaddrinfo(strcmp(host, "localhost") != 0 ? host : "127.0.0.1", port, &hints, &all))
		return cmd_usage("--listen: '%.200s' is not an address (a number is expected)",
				 host);
	s->fd = listen_at(all);
	s->loopback = is_loopback(all->ai_addr);
	freeaddrinfo(all);
	if (s->fd >= 0)
		return CMD_DONE;
	cmd_say("cannot listen at %s:%s: %s", host, port, strerror(errno));
	return CMD_MACHINE;
}

/* ---- who ---- */

static int read_token(struct watch_server *s, const char *path)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f || !fgets(s->token, sizeof(s->token), f)) {
		cmd_say("cannot read a token from '%s'", path);
		if (f)
			(void)fclose(f);
		return CMD_INPUT;
	}
	(void)fclose(f);
	n = strcspn(s->token, "\r\n");
	s->token[n] = 0;
	if (n < 16 || strspn(s->token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789-._~+/=") != n)
		return cmd_usage("--token-file: a token has 16 to 126 letters, digits and -._~+/=");
	return CMD_DONE;
}

static int make_token(struct watch_server *s)
{
	unsigned char bytes[TOKEN_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		cmd_say("there are no random numbers for a token");
		return CMD_MACHINE;
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		(void)snprintf(s->token + 2 * i, 3, "%02x", bytes[i]);
	return CMD_DONE;
}

/* To the standard error, so that a script finds the port that was free. */
static void say_where(const struct watch_server *s, bool made)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	char host[64], port[8];

	if (getsockname(s->fd, (struct sockaddr *)&a, &n) ||
	    getnameinfo((struct sockaddr *)&a, n, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV))
		return;
	cmd_say("live page at http://%s%s%s:%s/%s%s, metrics at /metrics%s",
		strchr(host, ':') ? "[" : "", host, strchr(host, ':') ? "]" : "", port,
		made ? "#" : "", made ? s->token : "",
		*s->token ? " (Authorization: Bearer TOKEN)" : "");
}

int watch_server_begin(const char *where, const char *token_file, struct watch_server **out)
{
	struct watch_server *s;
	char host[128], port[64];
	int code = CMD_DONE;
	bool made = false;

	*out = NULL;
	if (!split_client(where, host, sizeof(host), port, sizeof(port)))
		return cmd_usage("--listen wants PORT or ADDRESS:PORT, not '%.200s'", where);
	s = calloc(1, sizeof(*s));
	if (!s) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	s->fd = -1;
	s->followed = -INFINITY;
	for (size_t i = 0; i < WATCH_CLIENTS; i++)
		s->clients[i].fd = -1;
	if (token_file)
		code = read_token(s, token_file);
	if (!code)
		code = open_socket(s, host, port);
	if (!code && !s->loopback && !*s->token) {
		code = make_token(s);
		made = true;
	}
	if (code) {
		watch_server_end(s);
		return code;
	}
	say_where(s, made);
	*out = s;
	return CMD_DONE;
}

/* ---- turns ---- */

static void drop_client(struct client *c)
{
	(void)close(c->fd);
	free(c->in);
	free(c->out);
	*c = (struct client){ .fd = -1 };
}

size_t watch_server_wants(const struct watch_server *s, struct pollfd *out)
{
	size_t n = 0;

	if (!s)
		return 0;
	out[n++] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
	for (size_t i = 0; i < WATCH_CLIENTS; i++)
		if (s->clients[i].fd >= 0)
			out[n++] =
				(struct pollfd){ .fd = s->clients[i].fd,
						 .events = s->clients[i].sent < s->clients[i].out_n
								   ? POLLOUT
								   : POLLIN };
	return n;
}

static void take_clients(struct watch_server *s)
{
	for (size_t i = 0; i < WATCH_CLIENTS; i++) {
		struct client *c = &s->clients[i];

		if (c->fd >= 0)
			continue;
		c->fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (c->fd < 0)
			return;
		c->until = watch_now() + PATIENCE;
		c->in = malloc(MOST_REQUEST);
		if (!c->in)
			drop_client(c);
	}
}

static int keep_client(void *ctx, const char *text, size_t n)
{
	struct client *c = ctx;

	if (c->out_n + n > c->out_room) {
		size_t room = 2 * (c->out_n + n);
		char *more = realloc(c->out, room);

		if (!more)
			return -1;
		c->out = more;
		c->out_room = room;
	}
	memcpy(c->out + c->out_n, text, n);
	c->out_n += n;
	return 0;
}

/* ---- who follows ---- */

static unsigned followers(const struct watch_server *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < WATCH_CLIENTS; i++)
		n += s->clients[i].fd >= 0 && s->clients[i].follows;
	return n;
}

static void forget_oldest(struct watch_server *s)
{
	s->event_bytes -= s->events[0].n;
	free(s->events[0].at);
	s->event_count--;
	memmove(&s->events[0], &s->events[1], s->event_count * sizeof(s->events[0]));
}

/* "id: N", "data: {...}" of this sample, as a client's output; kept for those who come back. */
static bool make_event(const struct plim_watch *w, struct client *out)
{
	struct timespec t;
	struct plim_err err;
	char head[64];
	int n;

	/* Milliseconds since 1970, so that a number means the same behind a new start. */
	(void)clock_gettime(CLOCK_REALTIME, &t);
	n = snprintf(head, sizeof(head),
		     "id: %lld\ndata: ", (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000);
	return !keep_client(out, head, (size_t)n) && !watch_json_line(w, keep_client, out, &err) &&
	       !keep_client(out, "\n\n", 2);
}

void watch_server_sample(struct watch_server *s, const struct plim_watch *w)
{
	struct client made = { .fd = -1 };

	if (!s)
		return;
	if (followers(s))
		s->followed = watch_now();
	if (watch_now() - s->followed > FORGET || !make_event(w, &made)) {
		while (s->event_count)
			forget_oldest(s);
		free(made.out);
		return;
	}
	while (s->event_count &&
	       (s->event_count == KEPT || s->event_bytes + made.out_n > MOST_KEPT))
		forget_oldest(s);
	s->events[s->event_count++] =
		(struct event){ strtoull(made.out + 4, NULL, 10), made.out, made.out_n };
	s->event_bytes += made.out_n;
	for (size_t i = 0; i < WATCH_CLIENTS; i++) {
		struct client *c = &s->clients[i];

		if (c->fd < 0 || !c->follows)
			continue;
		if (c->out_n - c->sent > MOST_UNSENT || keep_client(c, made.out, made.out_n))
			drop_client(c); /* it does not read */
	}
}

/* It gets what it missed, as far as that is kept; a new one the newest. */
static bool follow_client(struct watch_server *s, struct client *c, uint64_t after)
{
	size_t i = s->event_count ? s->event_count - 1 : 0;

	while (after != PLIM_UNKNOWN && i && s->events[i - 1].id > after)
		i--;
	for (; i < s->event_count; i++)
		if ((after == PLIM_UNKNOWN || s->events[i].id > after) &&
		    keep_client(c, s->events[i].at, s->events[i].n))
			return false;
	c->follows = true;
	c->heard = s->followed = watch_now();
	return true;
}

/* ---- one client ---- */

/* false: there is no one any more. */
static bool read_request(struct watch_server *s, struct client *c, const struct plim_watch *w)
{
	static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
				   "Connection: close\r\n\r\n";
	ssize_t n = recv(c->fd, c->in + c->in_n, MOST_REQUEST - c->in_n, 0);
	struct plim_watch_request request = { .token = *s->token ? s->token : NULL,
					      .any_host = !s->loopback };
	struct plim_err err;
	uint64_t after;
	bool whole;

	if (n <= 0)
		return n < 0 && (errno == EAGAIN || errno == EINTR);
	c->in_n += (size_t)n;
	request.at = c->in;
	request.n = c->in_n;
	if (plim_watch_follows(&request, &after)) {
		if (followers(s) >= FOLLOWERS)
			return !keep_client(c, full, sizeof(full) - 1);
		return !plim_watch_answer(w, &request, &whole, keep_client, c, &err) &&
		       follow_client(s, c, after);
	}
	return !plim_watch_answer(w, &request, &whole, keep_client, c, &err) &&
	       (whole || c->in_n < MOST_REQUEST);
}

static bool send_answer(struct client *c)
{
	ssize_t n = send(c->fd, c->out + c->sent, c->out_n - c->sent, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->sent += (size_t)n;
	c->heard = watch_now();
	if (c->sent < c->out_n)
		return true;
	if (!c->follows) {
		(void)shutdown(c->fd, SHUT_WR);
		return false;
	}
	c->sent = c->out_n = 0;
	return true;
}

/* Nothing is expected of it but its end. */
static bool still_follows(struct client *c)
{
	char nothing[256];
	ssize_t n = recv(c->fd, nothing, sizeof(nothing), 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	return watch_now() - c->heard < WATCH_BEAT || !keep_client(c, ":\n\n", 3);
}

static bool serve(struct watch_server *s, struct client *c, const struct plim_watch *w)
{
	if (c->follows)
		return still_follows(c) && (c->sent == c->out_n || send_answer(c));
	return watch_now() <= c->until && (c->out || read_request(s, c, w)) &&
	       (!c->out || send_answer(c));
}

void watch_server_turn(struct watch_server *s, const struct plim_watch *w)
{
	if (!s)
		return;
	take_clients(s);
	for (size_t i = 0; i < WATCH_CLIENTS; i++)
		if (s->clients[i].fd >= 0 && !serve(s, &s->clients[i], w))
			drop_client(&s->clients[i]);
}

void watch_server_end(struct watch_server *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < WATCH_CLIENTS; i++)
		if (s->clients[i].fd >= 0)
			drop_client(&s->clients[i]);
	while (s->event_count)
		forget_oldest(s);
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s);
}
