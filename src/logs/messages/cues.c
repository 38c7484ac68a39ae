/*
 * Which program wrote a log, and what it was doing: words that only this program, or only this activity, writes.  They count
 * only where they prove that it ran (place.c).  Advice is chosen by both (diagnose/advice.c), so a cue must not fit another
 * program.  Of several engines the one whose row stands first counts: what serves or draws stands in front
 * of the libraries it is built on.  No cue is an answer, too.
 */
#include "scan.h"

#include <string.h>

const char *const messages_family_names[MESSAGES_FAMILIES] = {
	"PyTorch",    "CUDA",      "ROCm",    "XPU",     "NCCL",       "DataLoader", "Python",
	"shell",      "launcher",  "kernel",  "Slurm",   "Kubernetes", "systemd",    "XLA",
	"TensorFlow", "llama.cpp", "serving", "library", "words",
};

const char *const messages_activity_names[MESSAGES_DOINGS] = {
	"unknown", "training",   "evaluation", "generating", "serving",
	"loading", "converting", "compiling",  "starting",
};

enum plim_status scan_cues_begin(struct messages_log *log, uint32_t file, struct plim_err *err)
{
	size_t at = log->cues.n;
	enum plim_status st = vec_need(log->mem, &log->cues, scan_cue_count, err);

	if (st)
		return st;
	memset(log->cues.at + at, 0, scan_cue_count * sizeof(*log->cues.at));
	log->cues.n = at + scan_cue_count;
	log->files.at[file].cues = at;
	return PLIM_OK;
}

void scan_cues_end(struct messages_log *log, uint32_t file)
{
	for (size_t i = log->events.n; i--;)
		if (log->events.at[i].file == file)
			return;
	if (log->files.at[file].cues == SIZE_MAX)
		return;
	log->cues.n = log->files.at[file].cues;
	log->files.at[file].cues = SIZE_MAX;
}

void scan_cue_seen(struct messages_log *log, size_t cue, uint32_t file, uint64_t line)
{
	uint64_t *seen = &log->cues.at[log->files.at[file].cues + cue];

	if (!*seen)
		*seen = line;
}
