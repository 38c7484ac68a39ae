/* plimsoll bundle: what a ticket needs of a run, in one tar archive: listed first, then written. */
#include "cmd.h"
#include "output.h"
#include "progress.h"
#include "versions.h"

#include <plimsoll/doctor.h>
#include <plimsoll/durable.h>
#include <plimsoll/report.h>
#include <plimsoll/why.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bundle_opts {
	bool names;
	uint64_t max_memory;
	const char *log, *output;
};

static const struct opt bundle_opt[] = {
	OPT_STRING('o', "output", bundle_opts, output, "FILE.tar", NULL,
		   "the archive to write; without it the contents are only listed"),
	OPT_STRING('l', "log", bundle_opts, log, "FILE", NULL, "the log of the same run"),
	OPT_FLAG(0, "names", bundle_opts, names,
		 "keep all names, and add the log's last lines: only for people who may see them"),
	OPT_BYTES('m', "max-memory", bundle_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse input that needs more (half of this machine's)"),
	OPT_END
};

#define PARTS_MAX 8
#define TAIL_LINES 200
#define TAIL_BYTES ((size_t)64 << 10)
#define WIDTH 100
#define BLOCK ((size_t)512) /* of a tar archive */

struct part {
	const char *name, *what;
	struct cmd_words words;
};

struct bundle {
	const struct bundle_opts *o;
	struct part parts[PARTS_MAX];
	size_t count;
	char *kept; /* what the redaction kept, in words */
};

static const struct plim_text_style plain = { .width = WIDTH, .utf8 = true };

static struct part *add_bundle(struct bundle *b, const char *name, const char *what)
{
	struct part *p = &b->parts[b->count++];

	*p = (struct part){ .name = name, .what = what };
	return p;
}

static enum plim_status fail(struct plim_err *err, const char *path)
{
	*err = (struct plim_err){ .status = PLIM_E_IO };
	(void)snprintf(err->message, sizeof(err->message), "%.200s: %s", path, strerror(errno));
	return PLIM_E_IO;
}

/* ---- what is in it ---- */

static enum plim_status take_file(struct part *p, const char *path, struct plim_err *err)
{
	FILE *f = fopen(path, "re");
	enum plim_status st = PLIM_OK;
	char some[65536];
	size_t n;

	if (!f)
		return fail(err, path);
	while (!st && (n = fread(some, 1, sizeof(some), f)) > 0)
		st = cmd_collect(&p->words, some, n) ? fail(err, path) : PLIM_OK;
	if (ferror(f))
		st = fail(err, path);
	(void)fclose(f);
	return st;
}

/* Packed, and known by the names that it has there: of a redacted one they are words already. */
static enum plim_status add_recording(struct bundle *b, struct plim_recording *r,
				      const char *packed, struct plim_err *err)
{
	const char *kept = NULL;
	enum plim_status st = b->o->names ? PLIM_OK : plim_recording_redact(r, &kept, err);

	if (!st)
		st = plim_recording_snapshot(r, packed, err);
	b->kept = kept ? strdup(kept) : NULL;
	return st ? st
		  : take_file(
			    add_bundle(
				    b, "recording.plim",
				    b->o->names
					    ? "the recording, packed"
					    : "the packed recording, with words in place of names"),
			    packed, err);
}

static enum plim_status add_report(struct bundle *b, struct plim_recording *r, struct plim_err *err)
{
	struct plim_report_options options;
	struct plim_report *report;
	enum plim_status st;

	plim_report_options_init(&options);
	options.flags = PLIM_REPORT_WHY;
	options.log_path = b->o->log;
	st = plim_report_of(r, &options, &report, err);
	if (st)
		return st;
	st = plim_report_text(report, &plain, cmd_collect,
			      &add_bundle(b, "report.txt", "plimsoll report --why")->words, err);
	if (!st)
		st = plim_report_json(report, cmd_collect,
				      &add_bundle(b, "report.json", "the same as JSON")->words,
				      err);
	plim_report_free(report);
	return st;
}

/* The recording in its temporary place, once. */
static enum plim_status add_run(struct bundle *b, const char *path, const char *packed,
				struct plim_doctor *d, struct plim_err *err)
{
	struct plim_input input = { .size = sizeof(input), .path = path, .name = "recording.plim" };
	struct plim_recording_options options;
	struct plim_recording *r;
	enum plim_status st;

	plim_recording_options_init(&options);
	options.max_memory_bytes = b->o->max_memory == OPT_NONE ? 0 : b->o->max_memory;
	st = plim_recording_read(&input, &options, &r, err);
	if (!st)
		st = versions_add(d, r, b->o->log, err);
	if (!st)
		st = add_recording(b, r, packed, err);
	if (!st)
		st = add_report(b, r, err);
	plim_recording_free(r);
	return st;
}

/* The last lines of a text, so many and no more bytes. */
static void keep_tail(struct part *p)
{
	size_t from = p->words.n, lines = 0;

	while (from && p->words.n - from < TAIL_BYTES) {
		if (p->words.at[from - 1] == '\n' && from < p->words.n && ++lines == TAIL_LINES)
			break;
		from--;
	}
	if (p->words.n)
		memmove(p->words.at, p->words.at + from, p->words.n - from + 1);
	p->words.n -= from;
}

/* What why says of the log; its own lines are someone's words, which no rule makes public. */
static enum plim_status add_log(struct bundle *b, const char *packed, struct plim_err *err)
{
	struct plim_why_options options;
	enum plim_status st;
	struct plim_why *w;

	plim_why_options_init(&options);
	options.flags = b->o->names ? 0 : PLIM_WHY_REDACT;
	options.snapshot_path = packed;
	st = plim_why_open(b->o->log, &options, &w, err);
	if (st)
		return st;
	st = plim_why_text(
		w, &plain, cmd_collect,
		&add_bundle(b, "why.txt", "the answer of plimsoll why about the log")->words, err);
	plim_why_free(w);
	if (!st && b->o->names) {
		struct part *tail =
			add_bundle(b, "log-tail.txt", "the log's last lines as they are");

		st = take_file(tail, b->o->log, err);
		keep_tail(tail);
		b->count -= tail->words.n &&
			    memchr(tail->words.at, 0, tail->words.n) != NULL; /* compressed */
	}
	return st;
}

/* Of the run as far as its files tell, and of this machine with its Python. */
static enum plim_status add_versions(struct bundle *b, struct plim_doctor *d, struct plim_err *err)
{
	enum plim_status st = cmd_doctor_python(d, !b->o->names, err);

	if (!st)
		st = plim_doctor_text(
			d, &plain, cmd_collect,
			&add_bundle(b, "versions.txt", "versions of the run and of this machine")
				 ->words,
			err);
	return st;
}

/* ---- the archive ---- */

static void put_octal(char *to, size_t width, size_t value)
{
	(void)snprintf(to, width, "%0*zo", (int)width - 1, value);
}

/*
 * ustar:  name 0..99, mode 100, owner 108, group 116, size 124, time 136, checksum 148, type 156, magic 257
 */
static void bundle_head_of(const struct part *p, char head[BLOCK])
{
	static const char magic[8] = { 'u', 's', 't', 'a', 'r', 0, '0', '0' };
	size_t sum = 0;

	memset(head, 0, BLOCK);
	(void)snprintf(head, 100, "plimsoll-bundle/%s", p->name);
	put_octal(head + 100, 8, 0644);
	put_octal(head + 108, 8, 0);
	put_octal(head + 116, 8, 0);
	put_octal(head + 124, 12, p->words.n);
	put_octal(head + 136, 12, 0);
	memset(head + 148, ' ', 8);
	head[156] = '0';
	memcpy(head + 257, magic, sizeof(magic));
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)head[i];
	put_octal(head + 148, 7, sum);
}

static enum plim_status write_archive(const struct bundle *b, const char *path,
				      struct plim_err *err)
{
	static const char zeros[2 * BLOCK];
	struct plim_durable *d;
	char head[BLOCK];
	enum plim_status st = plim_durable_begin(path, 0, &d, err);

	if (st)
		return st;
	for (size_t i = 0; !st && i < b->count; i++) {
		const struct part *p = &b->parts[i];

		bundle_head_of(p, head);
		st = plim_durable_write(d, head, BLOCK, err);
		if (!st && p->words.n)
			st = plim_durable_write(d, p->words.at, p->words.n, err);
		if (!st && p->words.n % BLOCK)
			st = plim_durable_write(d, zeros, BLOCK - p->words.n % BLOCK, err);
	}
	if (!st)
		st = plim_durable_write(d, zeros, sizeof(zeros), err);
	if (!st)
		return plim_durable_commit(d, NULL, err);
	plim_durable_abort(d);
	return st;
}

/* ---- the command ---- */

/* To the terminal before anything is written, or to the error stream where the archive goes there. */
static void list(const struct bundle *b, FILE *to)
{
	for (size_t i = 0; i < b->count; i++)
		(void)fprintf(to, "%10zu  %-14s  %s\n", b->parts[i].words.n, b->parts[i].name,
			      b->parts[i].what);
	if (b->kept)
		(void)fprintf(to, "%s\n", b->kept);
	if (b->o->names)
		(void)fputs("it holds the names of files and functions, and the log's words, "
			    "unchanged\n",
			    to);
}

static enum plim_status fill_bundle(struct bundle *b, const char *path, struct plim_doctor *d,
				    struct plim_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char folder[200], packed[250];
	enum plim_status st;

	(void)snprintf(folder, sizeof(folder), "%.150s/plimsoll-XXXXXX",
		       tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		return fail(err, folder);
	(void)snprintf(packed, sizeof(packed), "%s/recording.plim", folder);
	st = add_run(b, path, packed, d, err);
	if (!st && b->o->log)
		st = add_log(b, packed, err);
	if (!st)
		st = add_versions(b, d, err);
	(void)unlink(packed);
	(void)rmdir(folder);
	return st;
}

static int bundle_to(struct bundle *b, struct output *out, const char *path)
{
	struct plim_doctor_options options;
	struct plim_doctor *d = NULL;
	enum plim_status st;
	struct plim_err err;

	plim_doctor_options_init(&options);
	options.flags = b->o->names ? 0 : PLIM_DOCTOR_REDACT;
	st = plim_doctor_open(&options, &d, &err);
	if (!st)
		st = fill_bundle(b, path, d, &err);
	plim_doctor_free(d);
	if (st)
		return cmd_fail(&err);
	cmd_progress_end();
	list(b, out && cmd_output_is_stdout(out) ? stderr : stdout);
	if (!out) {
		puts("nothing was written: -o FILE.tar writes it");
		return CMD_DONE;
	}
	(void)fflush(stdout);
	if (write_archive(b, out->path, &err))
		return cmd_fail(&err);
	cmd_say("%s: the bundle", cmd_output_name(out->path));
	return CMD_DONE;
}

static int bundle_run(const void *values, int argc, char **argv)
{
	static const char *const suffixes[] = { ".tar", NULL };
	struct bundle b = { .o = values };
	char *inputs[2] = { argv[0], (char *)(uintptr_t)b.o->log };
	struct output out;
	int code = CMD_DONE;

	(void)argc;
	if (b.o->output)
		code = cmd_output_begin(&out, b.o->output, suffixes, inputs, b.o->log ? 2 : 1);
	if (code != CMD_DONE)
		return code;
	code = bundle_to(&b, b.o->output ? &out : NULL, argv[0]);
	for (size_t i = 0; i < PARTS_MAX; i++)
		free(b.parts[i].words.at);
	free(b.kept);
	return b.o->output ? cmd_output_end(&out, code) : code;
}

static const struct cmd_example bundle_examples[] = {
	{ "plimsoll bundle oom.pickle --log train.log", "list what the bundle would hold" },
	{ "plimsoll bundle oom.pickle --log train.log -o oom.tar", "the same, written" },
	{ NULL, NULL },
};

const struct cmd cmd_bundle = {
	.name = "bundle",
	.summary = "pack the files that a bug report needs into one archive, without names",
	.args = "RECORDING",
	.about = "Lists what will be in the archive, and how large it is, then writes it: the "
		 "recording, packed, with words in place of all names that are not of public "
		 "packages; its report as text and JSON, made of that; the answer of plimsoll why "
		 "about the log; the versions of the run, as far as its recording and log tell "
		 "them, and "
		 "those of this machine.  Nothing is sent anywhere.\n\n"
		 "The log itself is not in it: its lines can hold anything.  With --names its last "
		 "200 lines are, and all names stay.",
	.examples = bundle_examples,
	.opts = bundle_opt,
	.opts_size = sizeof(struct bundle_opts),
	.min_args = 1,
	.max_args = 1,
	.run = bundle_run,
};
