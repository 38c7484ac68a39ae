/*
 * plimsoll FILE: what the file is for, by its first bytes and, where these do not decide, its name.  The
 * command that is run is said on stderr; it reads the file and decides what it really is.
 */
#include "cmd.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 4096 /* looked at; the keys of a JSON that matter come first */
#define TAIL_BYTES 16384

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

/* ---- by name ---- */

/* Ends of names, the longest first where one ends another; how files and the contents of folders are told apart. */
static const struct {
	const char *end;
	const char *command;
} names[] = {
	{ ".safetensors", "ckpt verify" },
	{ ".safetensors.index.json", "ckpt verify" },
	{ ".gguf", "ckpt verify" },
	{ ".pt", "ckpt verify" },
	{ ".pth", "ckpt verify" },
	{ ".ckpt", "ckpt verify" },
	{ ".bin", "ckpt verify" },
	{ ".distcp", "ckpt verify" },
	{ ".metadata", "ckpt verify" },
	{ ".pickle", "report" },
	{ ".pkl", "report" },
	{ ".plim", "report" },
	{ ".tar", "report" },
	{ "trainer_state.json", "curves" },
	{ ".jsonl", "curves" },
	{ ".csv", "curves" },
	{ ".tsv", "curves" },
	{ "config.json", "plan" },
	{ ".yaml", "plan" },
	{ ".yml", "plan" },
	{ ".py", "lint" },
	{ ".log", "why" },
	{ ".txt", "why" },
	{ ".out", "why" },
	{ ".err", "why" },
};

/* Without the end of a compressed file. */
static void strip(char *out, size_t size, const char *path)
{
	static const char *const packed[] = { ".gz", ".xz", ".zst" };

	snprintf(out, size, "%s", path);
	for (size_t i = 0; i < sizeof(packed) / sizeof(*packed); i++)
		if (ends_with(out, packed[i]))
			out[strlen(out) - strlen(packed[i])] = 0;
}

static const char *by_name(const char *path)
{
	char plain[4096];

	strip(plain, sizeof(plain), path);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (ends_with(plain, names[i].end))
			return names[i].command;
	return NULL;
}

/* A folder is for what most of its files are for; a checkpoint's folder has a config.json too. */
static const char *by_content(const char *path)
{
	const char *best = NULL;
	DIR *dir = opendir(path);
	struct dirent *e;

	while (dir && (e = readdir(dir)) != NULL) {
		const char *command = by_name(e->d_name);

		if (command && (!best || !strcmp(command, "ckpt verify") || !strcmp(best, "plan")))
			best = command;
	}
	if (dir)
		closedir(dir);
	return best;
}

/* ---- by its first bytes ---- */

static const struct {
	const char *word;
	const char *command;
} keys[] = { /* of JSON, in the order in which they decide */
	     { "\"device_traces\"", "report" },
	     { "\"segments\"", "report" },
	     { "\"log_history\"", "curves" },
	     { "\"architectures\"", "plan" },
	     { "\"model_type\"", "plan" },
	     { "\"hidden_size\"", "plan" },
	     /* how a run is configured: plan tells what to give beside it */
	     { "\"zero_optimization\"", "plan" },
	     { "\"per_device_train_batch_size\"", "plan" },
	     { "\"loss\"", "curves" }
};

static const char *by_head(const char *head, size_t n)
{
	if (n > 8 && head[8] == '{' && !head[7])
		return "ckpt verify"; /* safetensors: the length of its header, then the header */
	if (n >= 4 && (!memcmp(head, "PK\3\4", 4) || !memcmp(head, "GGUF", 4)))
		return "ckpt verify";
	if (n >= 5 && !memcmp(head, "PLIM\211", 5))
		return "report";
	if (strstr(head, "apiVersion:"))
		return "why"; /* YAML of Kubernetes, no run's configuration */
	for (size_t i = 0; *head == '{' && i < sizeof(keys) / sizeof(*keys); i++)
		if (strstr(head, keys[i].word))
			return keys[i].command;
	return NULL;
}

/* Text, but for what is not printed: a log. */
static bool is_text(const char *head, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)head[i] < 0x20 && !strchr("\t\n\r\f\033\b", head[i]))
			return false;
	return n > 0;
}

/* "loss=3.83", "val_loss: 0.66", "'loss': 2.1": values of a training. */
static bool has_losses(const char *head)
{
	for (const char *at = head; (at = strstr(at, "loss")) != NULL; at++) {
		const char *p = at + strcspn(at, "=:,\n\r ");

		p += strspn(p, "=: ");
		if (*p >= '0' && *p <= '9')
			return true;
	}
	return false;
}

/* Does the end of a log speak of a failure?  Then that is the question. */
static bool ends_badly(FILE *f)
{
	static const char *const words[] = {
		"Traceback", "Error",   "error", "ERROR",  "Killed",
		"killed",    "signal ", "fault", "memory", "CANCELLED"
	};
	char tail[TAIL_BYTES + 1];
	size_t n;

	if (fseek(f, -TAIL_BYTES, SEEK_END))
		rewind(f);
	n = fread(tail, 1, TAIL_BYTES, f);
	for (size_t i = 0; i < n; i++)
		tail[i] = tail[i] ? tail[i] : ' ';
	tail[n] = 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(tail, words[i]))
			return true;
	return false;
}

static const char *by_bytes(const char *path)
{
	char head[HEAD_BYTES + 1];
	FILE *f = fopen(path, "rbe");
	size_t n = f ? fread(head, 1, HEAD_BYTES, f) : 0;
	const char *command;

	head[n] = 0;
	command = n ? by_head(head, n) : NULL;
	if (!command)
		command = by_name(path);
	if (!command && n && head[0] == '\x80')
		command = "report";
	if (!command && is_text(head, n))
		command = "why";
	if (f && command && !strcmp(command, "why") && has_losses(head) && !ends_badly(f))
		command = "curves";
	if (f)
		fclose(f);
	return command;
}

const char *cmd_of_file(const char *path)
{
	struct stat info;

	if (stat(path, &info))
		return NULL;
	return S_ISDIR(info.st_mode) ? by_content(path) : by_bytes(path);
}
