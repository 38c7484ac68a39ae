/* --fail-on and --baseline: which findings of a report make a command exit with 1. */
#ifndef CLI_GATE_H
#define CLI_GATE_H

#include <plimsoll/report.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GATE_WORDS 16

struct gate_word {
	char id[48]; /* a finding's, or "any" */
	uint64_t bytes_per_period;
};

struct gate_entry;

struct gate {
	struct gate_word words[GATE_WORDS];
	size_t word_count;
	struct gate_entry *entries; /* of the baseline */
	size_t entry_count, accepted;
	const char *baseline; /* its file's name, or NULL */
};

/*
 * `words` is "oom", "leak", "leak=1MiB" (bytes a repetition), "any", the id of another finding, or several of them with
 * commas; NULL or "never": nothing fails.  False after a message: it is none of these.
 */
bool gate_init(struct gate *g, const char *words);

/*
 * Read accepted findings: a line each, "ID PLACE reason", PLACE a file's name and line or * ("leak train.py:41 the replay
 * buffer, on purpose"); empty lines and those that begin with # do not count.  Returns an enum cmd_exit, after a message.
 */
int gate_read_baseline(struct gate *g, const char *path);
/* The same of a stream; `path` is what messages call it. */
int gate_read_lines(struct gate *g, FILE *f, const char *path);
void gate_release(struct gate *g);

/* Is the finding one that fails, and not accepted?  Counts those that are. */
bool gate_fails(struct gate *g, const struct plim_finding *f);
bool gate_fails_report(struct gate *g, const struct plim_report *r);

/* A word that only a report of one recording can answer; NULL: there is none. */
const char *gate_of_one(const struct gate *g);
/* The same of a rank's row, which has no findings. */
bool gate_fails_rank(const struct gate *g, bool died, bool leaks);

#endif
