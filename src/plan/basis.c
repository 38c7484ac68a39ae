/*
 * How sure a plan is: what nothing was measured of, a row each.  A row counts from the first phase on that it can show in,
 * so that the weights of a run with an 8-bit optimizer are as sure as those of any other.
 *
 * What has measured runs behind it stands in tests/data/plan.jsonl.xz and parallel.jsonl.xz; tests/plan.py finds a row
 * here that says otherwise.  A row goes, or gets a narrower range, when runs of it were measured.
 */
#include "plan.h"

#include <string.h>

const char *const plan_basis_names[PLAN_BASES] = { "measured", "derived", "assumed" };

/* Architectures of which runs were measured; the one by numbers is Llama. */
static const char *const measured_families[] = {
	"llama",       "mistral", "qwen2",   "qwen3", "gemma",     "gemma2",
	"gemma3_text", "phi3",    "mixtral", "gpt2",  "qwen3_moe", "bert",
	"roberta",     "t5",      "vit",     "clip",  "qwen2_vl",  "transformer",
};

static bool is_guessed(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->guessed;
}

static bool is_unmeasured_family(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	for (size_t i = 0; i < sizeof(measured_families) / sizeof(measured_families[0]); i++)
		if (!strcmp(m->family, measured_families[i]))
			return false;
	return !m->guessed;
}

static bool is_shared(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->parallel != PLAN_ALONE;
}

static bool is_shared_by_others(const struct model *m, const struct plan_recipe *r)
{
	return is_shared(m, r) && r->gpus != 2;
}

static bool is_bitsandbytes(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->task == PLAN_TRAIN &&
	       (r->optimizer == PLAN_ADAMW_8BIT || r->optimizer == PLAN_ADAMW_PAGED);
}

static bool is_checkpointed_in_part(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->task == PLAN_TRAIN && (r->checkpointing == PLAN_CHECKPOINT_VISION ||
					 (r->checkpointing && r->checkpoint_every > 1));
}

static bool is_flash(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->attention == PLAN_FLASH;
}

static const struct doubt {
	bool (*applies)(const struct model *m, const struct plan_recipe *r);
	const char *
		since; /* how the first phase is called that it can show in; NULL: from the start */
	enum plan_basis basis;
	uint16_t below, above; /* thousandths */
	const char *reason;
} doubts[] = {
	{ is_guessed, NULL, PLAN_ASSUMED, 150, 250, "an architecture that is not known here" },
	{ is_unmeasured_family, NULL, PLAN_ASSUMED, 50, 50,
	  "no run of this architecture was measured" },
	{ is_shared, NULL, PLAN_DERIVED, 130, 100,
	  "with several GPUs 14 runs were measured, and planned less exactly" },
	{ is_shared_by_others, NULL, PLAN_ASSUMED, 130, 100,
	  "runs of two GPUs were measured, of other numbers none" },
	{ is_flash, "fwd", PLAN_ASSUMED, 20, 20,
	  "no run with the flash-attn package was measured" },
	{ is_checkpointed_in_part, "fwd", PLAN_ASSUMED, 20, 20,
	  "no run that checkpoints a part of the layers was measured" },
	{ is_bitsandbytes, "opt", PLAN_ASSUMED, 50, 50,
	  "no run with an optimizer of bitsandbytes was measured" },
};

/* What is told of a run that was measured like it; half of it is how segments are placed. */
#define BELOW 10
#define ABOVE 15

static bool is_reached(const struct doubt *d, const struct plan_phase *phases, size_t n)
{
	size_t length = d->since ? strlen(d->since) : 0;

	for (size_t i = 0; i < n; i++)
		if (!strncmp(phases[i].name, length ? d->since : "", length))
			return true;
	return !d->since;
}

void plan_trust_of(const struct model *m, const struct plan_recipe *r,
		   const struct plan_phase *phases, size_t n, struct plan_trust *out)
{
	*out = (struct plan_trust){ .basis = PLAN_DERIVED, .below = BELOW, .above = ABOVE };
	for (size_t i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
		const struct doubt *d = &doubts[i];

		if (!d->applies(m, r) || !is_reached(d, phases, n))
			continue;
		out->basis = d->basis > out->basis ? d->basis : out->basis;
		out->below = d->below > out->below ? d->below : out->below;
		out->above = d->above > out->above ? d->above : out->above;
		if (out->reason_count < PLAN_REASONS)
			out->reasons[out->reason_count++] = d->reason;
	}
}

void plan_trust_range(const struct plan_trust *t, uint64_t bytes, uint64_t range[2])
{
	range[0] = bytes - bytes / 1000 * t->below;
	range[1] = bytes + bytes / 1000 * t->above;
}
