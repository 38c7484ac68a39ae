/*
 * Versions of the run that a ticket is about, which need not be those of the machine that the ticket is written on.  Only
 * numbers leave a file: what stands around them is someone's words.
 */
#include "versions.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FRAMES_MAX 256
#define VERSION_MAX 32
#define LINE_ROOM 4096

/* What stands in front of a version, in any case; `path`: in files' names, too. */
static const struct mark {
	const char *what, *before;
	bool path;
} marks[] = {
	{ "Python", "/lib/python", true },
	{ "Python", "Python version: ", false },
	{ "PyTorch", "/torch-", true }, /* torch-2.6.0.dist-info */
	{ "PyTorch", "torch==", false },
	{ "PyTorch", "torch version: ", false }, /* PyTorch version:, of collect_env, too */
	{ "CUDA", "CUDA version: ", false },
	{ "CUDA", "CUDA used to build PyTorch: ", false },
	{ "NVIDIA driver", "driver version: ", false },
	{ "transformers", "transformers==", false },
	{ "transformers", "transformers version: ", false },
	{ "accelerate", "accelerate version: ", false },
	{ "DeepSpeed", "deepspeed info: version=", false },
	{ "vLLM", "vLLM API server version ", false },
};
#define MARKS (sizeof(marks) / sizeof(marks[0]))

struct found {
	const struct mark *mark;
	char version[VERSION_MAX];
	const char *where;
};

struct versions {
	struct found at[MARKS];
	size_t n;
};

/* "2.6.0+cu124" of what follows a mark; 0: no version does. */
static size_t version_at(const char *text)
{
	size_t n = strspn(text, "0123456789."), build;

	while (n && text[n - 1] == '.')
		n--;
	if (!n || !isdigit((unsigned char)*text) || !memchr(text, '.', n))
		return 0;
	build = !strncmp(text + n, "+cu", 3) ? strspn(text + n + 3, "0123456789") : 0;
	n += build ? 3 + build : 0;
	return n < VERSION_MAX ? n : 0;
}

/* The first of each thing is kept. */
static void look_version(struct versions *v, const char *text, bool path, const char *where)
{
	for (size_t m = 0; m < MARKS; m++) {
		const char *at = text;
		size_t n = 0, k = 0;

		if (path && !marks[m].path)
			continue;
		while (k < v->n && strcmp(v->at[k].mark->what, marks[m].what) != 0)
			k++;
		if (k < v->n)
			continue;
		while (!n && (at = strcasestr(at, marks[m].before)) != NULL) {
			at += strlen(marks[m].before);
			n = version_at(at);
		}
		if (!n)
			continue;
		v->at[v->n] = (struct found){ .mark = &marks[m], .where = where };
		(void)snprintf(v->at[v->n].version, VERSION_MAX, "%.*s", (int)n, at);
		v->n++;
	}
}

/* Every stack of a recording, by its number, until there is none. */
static void look_at_recording(struct versions *v, struct plim_recording *r)
{
	struct plim_recording_frame frames[FRAMES_MAX];
	struct plim_err none;
	size_t n;

	for (uint32_t site = 0; site < PLIM_NO_SITE; site++) {
		if (plim_recording_stack(r, site, frames, FRAMES_MAX, &n, &none))
			return;
		for (size_t i = 0; i < n && i < FRAMES_MAX; i++)
			look_version(v, frames[i].file, true, "by paths in the recording");
	}
}

static enum plim_status look_at_log(struct versions *v, const char *path, struct plim_err *err)
{
	FILE *f = fopen(path, "re");
	char line[LINE_ROOM]; /* a longer one comes in parts */

	if (!f) {
		*err = (struct plim_err){ .status = PLIM_E_IO };
		(void)snprintf(err->message, sizeof(err->message), "%.200s: %s", path,
			       strerror(errno));
		return PLIM_E_IO;
	}
	while (fgets(line, sizeof(line), f))
		look_version(v, line, false, "by the log");
	(void)fclose(f);
	return PLIM_OK;
}

enum plim_status versions_add(struct plim_doctor *d, struct plim_recording *r, const char *log,
			      struct plim_err *err)
{
	static const struct plim_doctor_check none = {
		"of the run", PLIM_DOCTOR_NOTE,
		"neither the recording nor the log shows with which versions it was made",
		"add the output of: python -m torch.utils.collect_env"
	};
	struct versions v = { .n = 0 };
	enum plim_status st = PLIM_OK;

	look_at_recording(&v, r);
	if (log)
		st = look_at_log(&v, log, err);
	for (size_t i = 0; !st && i < v.n; i++) {
		char what[64], says[96];

		(void)snprintf(what, sizeof(what), "run: %s", v.at[i].mark->what);
		(void)snprintf(says, sizeof(says), "%s, %s", v.at[i].version, v.at[i].where);
		st = plim_doctor_add(
			d, &(struct plim_doctor_check){ what, PLIM_DOCTOR_OK, says, NULL }, err);
	}
	return st || v.n ? st : plim_doctor_add(d, &none, err);
}
