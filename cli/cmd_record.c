/* plimsoll record: run a command with the recorder in its environment, and tell what came of it. */
#include "cmd.h"
#include "hints.h"

#include <plimsoll/record.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const stack_names[] = { "python", "all", NULL };

struct record_opts {
	uint64_t max_entries;
	const char *dir, *plan;
	int stacks;
	bool pack, print;
};

static const struct opt record_opt[] = {
	OPT_U64('n', "max-entries", record_opts, max_entries, "events", 1000, 1000000000,
		PLIM_RECORD_ENTRIES,
		"keep the newest events; a million take some 400 MB of host memory"),
	OPT_STRING('d', "dir", record_opts, dir, "FOLDER", ".", "where recordings go"),
	OPT_CHOICE(0, "stacks", record_opts, stacks, "WHICH", stack_names, 0,
		   "Python's stacks, or C++ ones too (slow)"),
	OPT_FLAG(0, "pack", record_opts, pack,
		 "pack each dump in the job, to a .plim file that is 12 to 200 times smaller"),
	OPT_STRING(0, "plan", record_opts, plan, "FILE", NULL,
		   "run under Plimsoll's allocator with this plan, of whatif --plan -o "
		   "(recordings then have no stacks)"),
	OPT_FLAG('p', "print", record_opts, print,
		 "print the lines to paste into a script instead"),
	OPT_END
};

static volatile pid_t child;

static void forward_record(int number)
{
	if (child > 0)
		kill(child, number);
}

/* Python ignores PYTHONPATH or sitecustomize under these. */
static void warn_of_flags(char **argv)
{
	for (int i = 1; argv[0] && strstr(argv[0], "python") && argv[i] && argv[i][0] == '-' &&
			argv[i][1] != '-';
	     i++)
		if (argv[i][1] != 'm' && argv[i][1] != 'c' && strpbrk(argv[i] + 1, "IES"))
			cmd_say("python %s ignores its environment: nothing will be recorded",
				argv[i]);
}

/* What the child writes if the command cannot be started: the number of the error. */
static void become(char **argv, const char *const *environment, int out)
{
	int number;

	for (; *environment; environment++)
		putenv((char *)(uintptr_t)*environment);
	execvp(argv[0], argv);
	number = errno;
	if (write(out, &number, sizeof(number)) < 0)
		cmd_say("cannot run '%s': %s", argv[0], strerror(number));
	_exit(number == ENOENT ? 127 : 126);
}

/* An error's number if the command could not be started, for which *status has the exit code. */
static int run_command(char **argv, const char *const *environment, int *status)
{
	static const int signals[] = { SIGTERM, SIGHUP, SIGUSR1 };
	struct sigaction act = { .sa_handler = forward_record };
	int pipes[2], number = 0;

	if (pipe2(pipes, O_CLOEXEC))
		return errno;
	child = fork();
	if (child < 0)
		return errno;
	if (!child)
		become(argv, environment, pipes[1]);
	close(pipes[1]);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &act, NULL);
	act.sa_handler =
		SIG_IGN; /* the terminal sends it to the job too; we stay to tell what was written */
	sigaction(SIGINT, &act, NULL);
	while (waitpid(child, status, 0) < 0)
		if (errno != EINTR)
			return errno;
	if (read(pipes[0], &number, sizeof(number)) != sizeof(number))
		number = 0;
	close(pipes[0]);
	return number;
}

static void tell_record(const struct plim_record_file *files, size_t n,
			enum plim_record_reached reached, int status)
{
	static const char *const why[] = {
		[PLIM_RECORD_NO_PYTHON] =
			"no Python ran with the recorder (another program, or python -I, -E or -S)",
		[PLIM_RECORD_NO_TORCH] = "the job did not import torch",
		[PLIM_RECORD_NO_CUDA] = "the job did not use CUDA",
		[PLIM_RECORD_NO_EVENTS] = "PyTorch recorded no event",
		[PLIM_RECORD_NO_DUMP] =
			"the Python process did not exit normally (killed, or os._exit)",
		[PLIM_RECORD_DUMPED] = "the files are gone",
	};

	for (size_t i = 0; i < n; i++)
		cmd_say("recorded %s (%.2f MB)", files[i].path, (double)files[i].bytes / 1e6);
	if (n)
		cmd_say("explain it with: plimsoll report %s", files[n - 1].path);
	if (!n)
		cmd_say("nothing was recorded: %s", why[reached]);
	if (WIFSIGNALED(status))
		cmd_say("the job was killed by signal %d%s", WTERMSIG(status),
			WTERMSIG(status) == SIGKILL
				? " (usually for host memory, not the GPU's: see dmesg)"
				: "");
}

/* This program's file; NULL: not known. */
static const char *own_path(char *path, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", path, size - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return path;
}

static const char *packer(char *path, size_t size)
{
	if (!own_path(path, size)) {
		cmd_say("--pack: this program is not found: recordings stay pickles");
		return NULL;
	}
	return path;
}

/* libplimsoll_alloc.so of a build, an installation or a wheel; NULL: it lies nowhere near this program. */
static const char *allocator_path(char *path, size_t size)
{
	static const char *const places[] = {
		"libplimsoll_alloc.so",
		"../lib*/libplimsoll_alloc.so",
		"../lib/*/libplimsoll_alloc.so",
		"../lib*/python3*/*-packages/.plimsoll*gpu.mesonpy.libs/libplimsoll_alloc.so",
	};
	const char *chosen = getenv("PLIMSOLL_ALLOC_LIBRARY");
	char *name;

	if (chosen && *chosen)
		return chosen;
	if (!own_path(path, size))
		return NULL;
	name = strrchr(path, '/') + 1;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		size_t room = size - (size_t)(name - path);
		glob_t found = { .gl_pathc = 0 };
		int n = snprintf(name, room, "%s", places[i]);

		if (n > 0 && (size_t)n < room && !glob(path, 0, NULL, &found) &&
		    strlen(found.gl_pathv[0]) < size) {
			memcpy(path, found.gl_pathv[0], strlen(found.gl_pathv[0]) + 1);
			globfree(&found);
			return path;
		}
		globfree(&found);
	}
	return NULL;
}

static int record_run(const void *values, int argc, char **argv)
{
	const struct record_opts *o = values;
	struct plim_record_options options = { .size = sizeof(options),
					       .dir = o->dir,
					       .stacks = stack_names[o->stacks],
					       .plan = o->plan,
					       .max_entries = o->max_entries };
	const struct plim_record_file *files;
	enum plim_record_reached reached;
	struct plim_record *r;
	struct plim_err err;
	char self[4096], library[4096];
	int status = 0, failed;
	size_t n;

	if (o->print) {
		fputs(plim_record_lines(), stdout);
		return CMD_DONE;
	}
	if (!argc)
		return cmd_usage("record needs a command: plimsoll record -- python train.py");
	if (hint_is_script(argv[0]))
		return cmd_usage("'%.200s' is not a program: plimsoll record -- python %.200s",
				 argv[0], argv[0]);
	if (o->pack)
		options.packer = packer(self, sizeof(self));
	if (o->plan) {
		options.allocator = allocator_path(library, sizeof(library));
		if (!options.allocator)
			return cmd_usage("--plan: libplimsoll_alloc.so is not found next to this "
					 "program: set PLIMSOLL_ALLOC_LIBRARY to it");
	}
	if (plim_record_prepare(&options, &r, &err))
		return cmd_fail(&err);
	warn_of_flags(argv);
	failed = run_command(argv, plim_record_environment(r), &status);
	if (failed) {
		cmd_say("cannot run '%s': %s", argv[0], strerror(failed));
		cmd_say_else(argv[0], "record", "it");
	}
	if (plim_record_finish(r, &files, &n, &reached, &err))
		cmd_fail(&err);
	else if (!failed)
		tell_record(files, n, reached, status);
	plim_record_free(r);
	if (failed && !status)
		return CMD_MACHINE;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const struct cmd_example record_examples[] = {
	{ "plimsoll record -- python train.py", "record to the current folder" },
	{ "plimsoll record --dir /scratch -- torchrun --nproc-per-node=8 train.py",
	  "one file a rank" },
	{ "plimsoll record --plan run.plan -- python train.py",
	  "under Plimsoll's allocator, which knows a step beforehand" },
	{ "kill -USR1 PID", "dump what was recorded so far, PID being the Python process" },
	{ NULL, NULL },
};

const struct cmd cmd_record = {
	.name = "record",
	.summary = "run a job so that it leaves a recording, even if it dies",
	.args = "[--] COMMAND...",
	.about =
		"Starts PyTorch's memory history at the job's first CUDA use, without changing "
		"the job, and dumps it at an "
		"out-of-memory error (with the error's text next to it, for report --log), at exit "
		"and at SIGUSR1; one file a "
		"process.  Works through torchrun and other launchers.  Without a GPU or torch it "
		"does nothing.\n\n"
		"With --plan, memory comes from libplimsoll_alloc.so instead of PyTorch's own "
		"allocator, in every Python process of the job.  A plan that does not fit costs "
		"nothing but its reading; one that is damaged is refused before the job starts.  "
		"Where PyTorch's allocator stays, a line of the process says why.\n\n"
		"The exit code is the command's, or 128 and the signal that ended it.",
	.examples = record_examples,
	.opts = record_opt,
	.opts_size = sizeof(struct record_opts),
	.min_args = 0,
	.max_args = -1,
	.flags = CMD_WRAPS,
	.run = record_run,
};
