/* plimsoll pack: a recording in its packed form, and back. */
#include "cmd.h"
#include "output.h"

#include <plimsoll/recording.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct pack_opts {
	const char *output;
	bool unpack, append, redact;
	uint64_t max_memory;
};

static const struct opt pack_opt[] = {
	OPT_STRING('o', "output", pack_opts, output, "FILE", NULL,
		   "the file to write (default: next to the recording, with the other ending)"),
	OPT_FLAG(0, "unpack", pack_opts, unpack,
		 "unpack: write a snapshot that Python and PyTorch's viewer read"),
	OPT_FLAG(0, "append", pack_opts, append,
		 "append the new events of these later dumps of the same process to -o FILE.plim: "
		 "a recording longer than PyTorch's ring"),
	OPT_FLAG(0, "redact", pack_opts, redact,
		 "replace all names that are not PyTorch's or well known by words, permanently"),
	OPT_BYTES('m', "max-memory", pack_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse input that needs more (half of this machine's)"),
	OPT_END
};

static const char *ending_of(const struct pack_opts *o)
{
	return o->unpack ? ".pickle" : ".plim";
}

/* "dir/run.pickle.xz" to "dir/run.plim". */
static int name_beside(const struct pack_opts *o, const char *path, char *out, size_t size)
{
	static const char *const endings[][4] = { { ".gz", ".xz", ".zst", ".bz2" },
						  { ".pickle", ".pkl", ".json", ".plim" } };
	size_t n = strlen(path);
	struct stat is;

	for (size_t i = 0; i < 8; i++) {
		const char *ending = endings[i / 4][i % 4];
		size_t m = strlen(ending);

		if (n > m && !strncmp(path + n - m, ending, m))
			n -= m;
	}
	if (!strcmp(path, "-"))
		return cmd_usage("standard input has no file name: give -o FILE");
	if (n + 8 > size)
		return cmd_usage("'%.200s' is too long a name", path);
	(void)snprintf(out, size, "%.*s%s", (int)n, path, ending_of(o));
	if (!stat(out, &is))
		return cmd_usage("'%.200s' exists already: name it with -o to replace it", out);
	return CMD_DONE;
}

static uint64_t pack_bytes_of(const char *path)
{
	struct stat is;

	return strcmp(path, "-") && !stat(path, &is) && S_ISREG(is.st_mode) ? (uint64_t)is.st_size
									    : 0;
}

static void say_pack(const struct pack_opts *o, const char *from, const char *to)
{
	double old = (double)pack_bytes_of(from), new = (double)pack_bytes_of(to);

	if (old > 0 && new > 0 && !o->unpack)
		cmd_print("%s: %.0f bytes, %.1f times smaller than %s\n", to, new, old / new, from);
	else
		cmd_print("%s: %.0f bytes\n", to, new);
}

static enum plim_status open_one(const struct pack_opts *o, const char *from,
				 struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording_options options;

	plim_recording_options_init(&options);
	options.max_memory_bytes = o->max_memory == OPT_NONE ? 0 : o->max_memory;
	return plim_recording_open(from, &options, out, err);
}

static int pack_one(const struct pack_opts *o, const char *from, const char *to)
{
	struct plim_recording *r;
	const char *kept = NULL;
	struct plim_err err;
	enum plim_status st = open_one(o, from, &r, &err);

	if (!st && o->redact)
		st = plim_recording_redact(r, &kept, &err);
	if (!st)
		st = plim_recording_snapshot(r, to, &err);
	if (!st && kept)
		cmd_say("%s", kept);
	plim_recording_free(r);
	return st ? cmd_fail_on(from, "report", &err) : CMD_DONE;
}

static int append_one(const struct pack_opts *o, const char *from, const char *to)
{
	struct plim_recording *r;
	struct plim_err err;
	uint64_t fresh = 0;
	enum plim_status st = open_one(o, from, &r, &err);

	if (!st)
		st = plim_recording_extend(r, to, &fresh, &err);
	plim_recording_free(r);
	if (st)
		return cmd_fail(&err);
	cmd_print("%s: %.0f bytes; %llu more events, of %s\n", o->output, (double)pack_bytes_of(to),
		  (unsigned long long)fresh, from);
	return CMD_DONE;
}

/* One behind the other; what came before one that does not go on stays. */
static int append_all(const struct pack_opts *o, int argc, char **argv)
{
	static const char *const packed[] = { ".plim", NULL };
	struct output out;
	int code;

	if (!o->output)
		return cmd_usage("--append needs the file to append to: -o FILE.plim");
	if (o->unpack || o->redact)
		return cmd_usage("--append and --%s exclude each other: do one after the other",
				 o->unpack ? "unpack" : "redact");
	code = cmd_output_begin(&out, o->output, packed, argv, argc);
	if (code != CMD_DONE)
		return code;
	if (out.fd >= 0)
		code = cmd_usage("--append needs a regular file, not '%s'", o->output);
	for (int i = 0; code == CMD_DONE && i < argc; i++)
		code = append_one(o, argv[i], out.path);
	return cmd_output_end(&out, code);
}

static int pack_to(const struct pack_opts *o, char **argv)
{
	static const char *const packed[] = { ".plim", NULL }, *const plain[] = { ".pickle", ".pkl",
										  NULL };
	struct output out;
	int code = cmd_output_begin(&out, o->output, o->unpack ? plain : packed, argv, 1);

	if (code != CMD_DONE)
		return code;
	code = pack_one(o, argv[0], out.path);
	if (code == CMD_DONE && out.fd < 0)
		say_pack(o, argv[0], out.path);
	return cmd_output_end(&out, code);
}

/* All are tried; the first failure decides. */
static int pack_beside(const struct pack_opts *o, int argc, char **argv)
{
	int worst = CMD_DONE;

	for (int i = 0; i < argc; i++) {
		char to[4096];
		int code = name_beside(o, argv[i], to, sizeof(to));

		if (code == CMD_DONE)
			code = pack_one(o, argv[i], to);
		if (code == CMD_DONE)
			say_pack(o, argv[i], to);
		worst = worst == CMD_DONE ? code : worst;
	}
	return worst;
}

static int pack_run(const void *values, int argc, char **argv)
{
	const struct pack_opts *o = values;

	if (o->append)
		return append_all(o, argc, argv);
	if (!o->output)
		return pack_beside(o, argc, argv);
	if (argc > 1)
		return cmd_usage("--output FILE is of one recording; %d were given", argc);
	return pack_to(o, argv);
}

static const struct cmd_example pack_examples[] = {
	{ "plimsoll pack run.pickle",
	  "run.plim: the same recording, 12 to 200 times smaller than its pickle" },
	{ "plimsoll pack --unpack run.plim -o run.pickle", "back, for PyTorch's viewer" },
	{ "plimsoll report run.plim", "every command reads both forms" },
	{ "plimsoll pack --append later.pickle -o run.plim",
	  "append a later dump of the same process to run.plim" },
	{ "plimsoll pack --redact run.pickle -o public.plim",
	  "a copy that may be sent to someone" },
	{ NULL, NULL },
};

const struct cmd cmd_pack = {
	.name = "pack",
	.summary = "make recordings much smaller, without losing what the other commands use",
	.args = "RECORDING...",
	.about = "Writes each recording anew as RUN.plim, and compares what it wrote with what it "
		 "read "
		 "before the file appears. The recording itself stays. All commands read .plim "
		 "files "
		 "as they read snapshots; --unpack makes a snapshot of one again, with the same "
		 "content "
		 "but not the same bytes.\n\n"
		 "The form is described in docs/packed.md.",
	.examples = pack_examples,
	.opts = pack_opt,
	.opts_size = sizeof(struct pack_opts),
	.min_args = 1,
	.max_args = -1,
	.run = pack_run,
};
