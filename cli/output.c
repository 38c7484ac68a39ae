#include "output.h"

#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_suffix(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n > m && !strcmp(path + n - m, end);
}

static int wrong_suffix(const char *given, const char *const *suffixes)
{
	char names[200] = "";

	for (size_t i = 0; suffixes[i]; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%sNAME%s",
			 !i                ? ""
			 : suffixes[i + 1] ? ", "
					   : " or ",
			 suffixes[i]);
	return cmd_usage("--output takes %s, not '%.200s'; JSON and text go to the standard "
			 "output",
			 names, given);
}

/* What a file of the output is called for people: where it is sent. */
static char sent[4096];
static const char *sent_to;

/* A file without a name of its own, to be sent on. */
static int output_beside(struct output *o, const char *suffix)
{
	const char *folder = getenv("TMPDIR");
	int fd;

	snprintf(o->path, sizeof(o->path), "%s/plimsoll-XXXXXX%s",
		 folder && *folder ? folder : "/tmp", suffix);
	fd = mkstemps(o->path, (int)strlen(suffix));
	if (fd < 0) {
		cmd_say("cannot make '%s': %s", o->path, strerror(errno));
		return CMD_INPUT;
	}
	close(fd);
	return CMD_DONE;
}

static int send_to(struct output *o, const char *suffix, int fd)
{
	int code;

	if (fd < 0) {
		cmd_say("cannot write '%s': %s", o->given, strerror(errno));
		return CMD_INPUT;
	}
	o->fd = fd;
	code = output_beside(o, suffix);
	snprintf(sent, sizeof(sent), "%s", o->path);
	sent_to = strcmp(o->given, "-") ? o->given : "standard output";
	return code;
}

static bool is_input(const struct stat *out, char *const *inputs, int n)
{
	struct stat in;

	for (int i = 0; i < n; i++)
		if (inputs[i] && !stat(inputs[i], &in) && in.st_dev == out->st_dev &&
		    in.st_ino == out->st_ino)
			return true;
	return false;
}

const char *cmd_output_name(const char *path)
{
	return sent_to && !strcmp(path, sent) ? sent_to : path;
}

int cmd_output_begin(struct output *o, const char *given, const char *const *suffixes,
		     char *const *inputs, int input_count)
{
	struct stat is;
	size_t i = 0;

	*o = (struct output){ .given = given, .fd = -1 };
	if (!strcmp(given, "-"))
		return send_to(o, suffixes[0], dup(STDOUT_FILENO));
	if (!stat(given, &is) && S_ISDIR(is.st_mode))
		return cmd_usage("--output '%.200s' is a folder", given);
	if (!stat(given, &is) && !S_ISREG(is.st_mode))
		return send_to(o, suffixes[0], open(given, O_WRONLY | O_CLOEXEC));
	while (suffixes[i] && !has_suffix(given, suffixes[i]))
		i++;
	if (!suffixes[i])
		return wrong_suffix(given, suffixes);
	if (!stat(given, &is) && is_input(&is, inputs, input_count))
		return cmd_usage("--output '%.200s' is the input itself", given);
	/* a link stays one: what it points to is written */
	if (!realpath(given, o->path))
		snprintf(o->path, sizeof(o->path), "%s", given);
	return CMD_DONE;
}

bool cmd_output_is_stdout(const struct output *o)
{
	struct stat a, b;

	return o->fd >= 0 && !fstat(o->fd, &a) && !fstat(STDOUT_FILENO, &b) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int copy_to(int from, int to)
{
	char block[65536];
	ssize_t n, wrote;

	while ((n = read(from, block, sizeof(block))) > 0) {
		for (char *at = block; n; at += wrote, n -= wrote) {
			wrote = write(to, at, (size_t)n);
			if (wrote < 0)
				return errno == EPIPE ? 0 : errno;
		}
	}
	return n < 0 ? errno : 0;
}

int cmd_output_end(struct output *o, int code)
{
	int from, failed = 0;

	if (o->fd < 0)
		return code;
	/* a check that failed has written, too */
	from = code <= CMD_FAILED ? open(o->path, O_RDONLY | O_CLOEXEC) : -1;
	if (from >= 0)
		failed = copy_to(from, o->fd);
	if (close(o->fd) && !failed)
		failed = errno;
	if (from >= 0)
		close(from);
	unlink(o->path);
	if (!failed)
		return code;
	cmd_say("cannot write '%s': %s", o->given, strerror(failed));
	return CMD_INPUT;
}
