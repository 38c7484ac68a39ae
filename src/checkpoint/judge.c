/* The verdict of a checkpoint: of its bytes, of its code, and in one sentence. */
#include "parts.h"

#include <stdio.h>

#define DANGEROUS "dangerous_pickle" /* the finding that is of code, not of bytes */

enum ckpt_trust ckpt_trust_of(const struct ckpt *c)
{
	enum ckpt_trust worst = CKPT_PLAIN;

	for (size_t i = 0; i < c->globals.n; i++)
		worst = c->globals.at[i].trust > worst ? c->globals.at[i].trust : worst;
	return c->many_globals && worst < CKPT_UNKNOWN ? CKPT_UNKNOWN : worst;
}

bool ckpt_is_plain(const struct ckpt *c)
{
	bool reads = c->kind == CKPT_KIND_TORCH || c->kind == CKPT_KIND_LEGACY ||
		     c->kind == CKPT_KIND_FOLDER || c->kind == CKPT_KIND_SHARDED;

	return reads && !c->refused && ckpt_trust_of(c) == CKPT_PLAIN;
}

/* The first finding of damage, or of dangerous code; NULL: there is none. */
static const char *first_bad(const struct ckpt *c, bool of_code)
{
	for (size_t i = 0; i < c->findings.n; i++) {
		const struct ckpt_finding *f = &c->findings.at[i];

		if (f->severity == CKPT_BAD_FINDING && !strcmp(f->kind, DANGEROUS) == of_code)
			return ckpt_text(c, f->text);
	}
	return NULL;
}

static enum ckpt_verdict judge_bytes(const struct ckpt *c, bool bad, bool scanned)
{
	if (c->unreadable)
		return CKPT_NOT_A_CHECKPOINT;
	if (c->truncated)
		return CKPT_TRUNCATED;
	if (bad)
		return CKPT_DAMAGED;
	if (!scanned)
		return CKPT_NOT_VERIFIED;
	return c->unprotected_bytes ? CKPT_UNPROVEN : CKPT_WHOLE;
}

/* The bytes in a sentence; `bad`: the worst that was found of them, or NULL. */
static void tell_bytes(const struct ckpt *c, struct ckpt_judgement *j, const char *bad,
		       size_t missing, const char *first)
{
	if (bad)
		j->headline = bad;
	else if (missing)
		snprintf(j->room, sizeof(j->room),
			 missing == 1 ? "the required key '%.200s' is missing"
				      : "required keys are missing, '%.200s' for one",
			 first);
	else if (j->integrity == CKPT_WHOLE)
		snprintf(j->room, sizeof(j->room), "all %llu records match their checksums",
			 (unsigned long long)c->verified_records);
	else if (j->integrity == CKPT_UNPROVEN)
		snprintf(j->room, sizeof(j->room),
			 "the structure is right; %llu bytes have no checksum, so a "
			 "changed bit in them cannot be seen",
			 (unsigned long long)c->unprotected_bytes);
	else
		snprintf(j->room, sizeof(j->room),
			 "the structure is right; contents were not read");
}

static void tell_unknown(const struct ckpt *c, struct ckpt_judgement *j)
{
	const char *first = NULL, *record = "";
	size_t n = 0;

	for (size_t i = 0; i < c->globals.n; i++)
		if (c->globals.at[i].trust == CKPT_UNKNOWN && !n++) {
			first = ckpt_text(c, c->globals.at[i].name);
			record = ckpt_text(c, c->globals.at[i].record);
		}
	if (!first)
		snprintf(j->room, sizeof(j->room), "it holds more than can be looked at");
	else if (n == 1 && (ckpt_text_ends(record, ".json") || ckpt_text_ends(record, ".so")))
		snprintf(j->room, sizeof(j->room),
			 "'%.200s' names '%.200s', code that is loaded with the checkpoint", record,
			 first);
	else if (n == 1)
		snprintf(j->room, sizeof(j->room), "its pickle names '%.200s', which is on no list",
			 first);
	else
		snprintf(j->room, sizeof(j->room),
			 "its pickles name '%.200s' and %zu more that are on no list", first,
			 n - 1);
}

/* What is dangerous comes first, then damage, then what is not known. */
void ckpt_judge(const struct ckpt *c, bool scanned, size_t missing, const char *first,
		struct ckpt_judgement *j)
{
	const char *bad = first_bad(c, false), *runs = first_bad(c, true);

	j->headline = j->room;
	j->trust = ckpt_trust_of(c);
	j->verdict = j->integrity = judge_bytes(c, bad || missing, scanned);
	if (runs) {
		j->verdict = CKPT_RUNS_CODE;
		j->headline = runs;
	} else if (c->pickled && j->trust == CKPT_UNKNOWN && j->integrity < CKPT_DAMAGED) {
		j->verdict = CKPT_UNKNOWN_CODE;
		tell_unknown(c, j);
	} else {
		tell_bytes(c, j, bad, missing, first);
	}
}
