/*
 * plimsoll FILE: runs the command that reads the file, which is said on stderr.  "-" is the standard input: what cannot
 * be read twice is put into a file that has no name.
 */
#include "cmd.h"
#include "hints.h"

#include <plimsoll/file.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cmd_spool_stdin(void)
{
	const char *folder = getenv("TMPDIR");
	char name[4096], piece[1 << 16];
	struct stat is;
	ssize_t n;
	int fd;

	if (!fstat(STDIN_FILENO, &is) && S_ISREG(is.st_mode))
		return CMD_DONE;
	snprintf(name, sizeof(name), "%s/plimsoll-XXXXXX", folder && *folder ? folder : "/tmp");
	fd = mkstemp(name);
	if (fd < 0)
		goto failed;
	unlink(name);
	while ((n = read(STDIN_FILENO, piece, sizeof(piece))) > 0 || (n < 0 && errno == EINTR))
		for (ssize_t done = 0, wrote; done < n; done += wrote) {
			wrote = write(fd, piece + done, (size_t)(n - done));
			if (wrote < 0)
				goto failed;
		}
	if (n < 0 || lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0)
		goto failed;
	close(fd);
	return CMD_DONE;
failed:
	cmd_say("cannot keep the standard input in '%s': %s", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return CMD_INPUT;
}

int cmd_of_file(const char *path, const char **command)
{
	struct plim_file file;
	struct plim_err err;
	int code = strcmp(path, "-") ? CMD_DONE : cmd_spool_stdin();

	*command = NULL;
	if (code)
		return code;
	if (plim_file_of(path, &file, &err))
		return cmd_fail(&err);
	*command = file.command;
	if (file.command)
		return CMD_DONE;
	if (file.is)
		return cmd_usage("'%.200s' is %s, which no command reads%s%s", path, file.is,
				 file.remedy ? ": " : "", file.remedy ? file.remedy : "");
	return cmd_usage("'%.200s' was not recognised; name a command, see 'plimsoll --help'",
			 path);
}

/* A script is planned by running its first steps, and read by lint; a model may be known by its name only. */
static void hint_plan(const char *path)
{
	char count[16];

	if (hint_parameters(path, count))
		cmd_say("without a file: plimsoll plan --params %s; with one: a model's "
			"config.json, "
			"or a folder with it",
			count);
	else if (!strchr(path, '.'))
		cmd_say("plan takes a model's config.json, or a folder with it, or --params 8B");
}

/* Anything may be in it. */
static bool is_any(const struct plim_file *file)
{
	return !strcmp(file->is, "a text") || !strcmp(file->is, "a pickle");
}

/* Does a message say it already? */
static bool names(const char *said, const struct plim_file *file)
{
	return strstr(said, file->is) && (!file->command || strstr(said, file->command));
}

static bool is_folder(const char *path)
{
	struct stat is;

	return !stat(path, &is) && S_ISDIR(is.st_mode);
}

/* What else it is than a file of the command `own`; checkpoints are planned, too. */
static bool find_else(const char *path, const char *own, struct plim_file *file)
{
	struct plim_err ignored;

	if ((strcmp(path, "-") != 0 && access(path, F_OK)) || plim_file_of(path, file, &ignored) ||
	    !file->is)
		return false;
	if (!file->command)
		return !is_folder(path);
	return strcmp(file->command, own) != 0 &&
	       (strcmp(own, "plan") != 0 || strcmp(file->command, "ckpt verify") != 0);
}

static void say_else(const char *path, const struct plim_file *file)
{
	const char *holds = is_folder(path) && !strstr(file->is, "folder") ? "holds" : "is";

	if (file->command)
		cmd_say("'%.200s' %s %s: plimsoll %s %.200s", path, holds, file->is, file->command,
			path);
	else
		cmd_say("'%.200s' %s %s, which no command reads%s%s", path, holds, file->is,
			file->remedy ? ": " : "", file->remedy ? file->remedy : "");
}

bool cmd_say_else(const char *path, const char *own, const char *said)
{
	struct plim_file file;
	bool found = find_else(path, own, &file) && (*said || !is_any(&file));

	if (found && !names(said, &file) && !(is_any(&file) && strstr(said, file.is)))
		say_else(path, &file);
	return found;
}

int cmd_fail_on(const char *path, const char *own, const struct plim_err *err)
{
	struct plim_file file;
	bool plans = path && !strcmp(own, "plan");
	int code = cmd_exit_code(err->status);

	if (plans && err->status == PLIM_E_FORMAT && hint_is_script(path)) {
		cmd_say("'%.200s' is Python source: plimsoll plan -- python %.200s plans what it "
			"trains; plimsoll lint %.200s looks for mistakes",
			path, path, path);
		return code;
	}
	if (!path || (err->status != PLIM_E_FORMAT && err->status != PLIM_E_IO) ||
	    !find_else(path, own, &file) || names(err->message, &file) ||
	    (!file.command && !plans) || /* the library has said it */
	    (is_any(&file) && !strstr(err->message, ", not JSON"))) {
		code = cmd_fail(err);
		if (plans && access(path, F_OK))
			hint_plan(path);
		return code;
	}
	/* Of a folder the message says more, and a log may be that of a training which no pattern fits. */
	if (is_folder(path) ||
	    (!strcmp(own, "curves") && file.command && !strcmp(file.command, "why")))
		cmd_fail(err);
	say_else(path, &file);
	return code;
}
