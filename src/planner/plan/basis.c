/*
 * How sure a plan is: what nothing was measured of, a row each.  A row counts from the first phase on that it can show in,
 * so that the weights of a run with an 8-bit optimizer are as sure as those of any other.
 *
 * What has measured runs behind it stands in tests/data/plan*.jsonl.xz, parallel*.jsonl.xz, offload.jsonl.xz and recipes.jsonl.xz;
 * tests/plan.py finds a row here that says otherwise.  A row goes, or gets a narrower range, when runs of it were measured.
 */
#include "plan/recipe.h"

#include <string.h>

const char *const plan_basis_names[PLAN_BASES] = { "measured", "derived", "assumed" };

/* Architectures of which runs were measured; the one by numbers is Llama. */
static const char *const measured_families[] = {
	"llama", "mistral", "qwen2",  "qwen3",      "gemma",    "gemma2",    "gemma3_text",
	"phi3",  "mixtral", "gpt2",   "bert",       "roberta",  "qwen3_moe", "t5",
	"vit",   "clip",    "siglip", "qwen2_5_vl", "qwen2_vl", "qwen3_vl",  "transformer",
};

static bool is_guessed(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->guessed;
}

static bool is_counted(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->counted;
}

/* What plan_take_model() refuses a verdict for. */
static bool is_doubted(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return !m->guessed && (m->other_class || m->unread.n || m->unplanned ||
			       (*m->quantizer && !m->quantized && !m->stored.name));
}

static bool is_foreign(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->foreign;
}

static bool is_partly_read(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->partly_read;
}

static bool is_spared(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->needs_less;
}

static bool is_unnamed_class(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->least_share > 0;
}

static bool is_other_activation(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->towers[MODEL_TEXT].layers &&
	       m->towers[MODEL_TEXT].activation == MODEL_ACTIVATION_OTHER;
}

static bool is_inexact(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->inexact.reason;
}

static bool is_unmeasured_family(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	for (size_t i = 0; i < sizeof(measured_families) / sizeof(measured_families[0]); i++)
		if (!strcmp(m->family, measured_families[i]))
			return false;
	return !m->guessed;
}

/* Of which one run was measured, and was within 1.5 % of the plan (tests/data/plan_families.jsonl.xz). */
static const char *const families_seen_once[] = {
	"albert",      "biogpt",      "codegen",
	"deepseek_v3", "electra",     "ernie4_5",
	"exaone4",     "falcon",      "glm",
	"glm4",        "glm4_moe",    "gptj",
	"gpt_bigcode", "gpt_neo",     "granite",
	"granitemoe",  "helium",      "minimax_m2",
	"olmo2",       "olmo3",       "opt",
	"phi",         "phimoe",      "seed_oss",
	"smollm3",     "xlm-roberta", "hunyuan_v1_dense",
};

static bool is_seen_once(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	for (size_t i = 0; i < sizeof(families_seen_once) / sizeof(families_seen_once[0]); i++)
		if (!strcmp(m->family, families_seen_once[i]))
			return true;
	return false;
}

static bool is_never_seen(const struct model *m, const struct plan_recipe *r)
{
	return is_unmeasured_family(m, r) && !is_seen_once(m, r);
}

static bool is_shared(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->gpus > 1 || plan_is_sharded(r);
}

static bool is_shared_unseen(const struct model *m, const struct plan_recipe *r)
{
	unsigned kinds = (r->gpus / r->tp / r->pp > 1) + (r->tp > 1) + (r->pp > 1);

	(void)m;
	return kinds > 1 || r->sequence_parallel || (kinds && r->task != PLAN_TRAIN);
}

/* DeepSpeed was measured with one process. */
static bool is_zero_on_several(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->gpus > 1 && (plan_is_zero(r) || plan_is_deepspeed(r));
}

/* DeepSpeed's offload was measured with weights of 16 bits. */
static bool is_offloaded_wide(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->optimizer_on == PLAN_ON_HOST && !plan_is_sharded(r) &&
	       r->precision != PLAN_BF16_PURE;
}

/* TRL's offload, and what goes on to NVMe: planned from their sources. */
static bool is_streamed(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->activations == PLAN_OFFLOAD_STREAMS || r->optimizer_on == PLAN_ON_NVME ||
	       r->parameters_on == PLAN_ON_NVME;
}

/* As save.c does it. */
static bool is_gathered(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return plan_is_sharded(r) && (r->save == PLAN_SAVE_FULL || r->save == PLAN_SAVE_FULL_GPU ||
				      r->save == PLAN_SAVE_PRETRAINED);
}

static bool is_checkpointed_where_it_sees(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->task == PLAN_TRAIN && r->checkpointing == PLAN_CHECKPOINT_VISION;
}

static bool is_quantized_and_shared(const struct model *m, const struct plan_recipe *r)
{
	return r->quantize != PLAN_NOT_QUANTIZED && is_shared(m, r);
}

static bool is_stored(const struct model *m, const struct plan_recipe *r)
{
	(void)r;
	return m->stored.name != NULL;
}

/* Families whose layers Liger's kernels were measured in, or whose layers are the same. */
static bool is_liger_unseen(const struct model *m, const struct plan_recipe *r)
{
	static const char *const seen[] = { "llama", "mistral", "qwen2", "transformer" };

	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (!strcmp(m->family, seen[i]))
			return false;
	return r->task == PLAN_TRAIN && r->liger;
}

static bool is_liger_in_part(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->liger && (r->liger != PLAN_LIGER_ALL || r->loss != PLAN_LOSS_LIGER);
}

static bool selects_ops(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->selects_ops;
}

static bool is_part_frozen(const struct model *m, const struct plan_recipe *r)
{
	return r->freeze != PLAN_FREEZE_NONE && m->towers[MODEL_VISION].layers;
}

static bool is_dora(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->dora;
}

static bool is_adapted_by_hand(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->narrow_adapters;
}

static bool is_quantized_by_old(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->old_bitsandbytes;
}

static bool is_litgpt(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->litgpt;
}

static bool is_mixed_by_hand(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->task == PLAN_TRAIN && r->precision == PLAN_BF16_MASTER;
}

static bool is_padded(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->padded;
}

static bool is_old(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->wide_logits || r->copies_logits || r->keeps_keys || r->repeats_heads ||
	       r->outer_checkpoints;
}

static bool is_narrow(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->narrow_loss || r->loss == PLAN_LOSS_NARROW;
}

static bool is_looped(const struct model *m, const struct plan_recipe *r)
{
	return r->quantize && plan_has_linear_experts(m, r->transformers);
}

static bool is_other_card(const struct model *m, const struct plan_recipe *r)
{
	(void)m;
	return r->device.capability != plan_device_default.capability;
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
	uint16_t below, above; /* thousandths; or as range_of() has it of the file */
	const char *reason;    /* NULL: the family's own */
} doubts[] = {
	{ is_guessed, NULL, PLAN_ASSUMED, 150, 250, "an architecture that is not known here" },
	{ is_doubted, NULL, PLAN_ASSUMED, 150, 250, "part of the model is not known here" },
	{ is_partly_read, NULL, PLAN_ASSUMED, 150, 250,
	  "part of the run's configuration is not known here" },
	{ is_spared, "fwd", PLAN_ASSUMED, 300, 0, "kernels that are not planned here take less" },
	{ is_foreign, NULL, PLAN_ASSUMED, 150, 150,
	  "the library that trains has modules of its own" },
	{ is_counted, NULL, PLAN_ASSUMED, 150, 200,
	  "of the model only the number of parameters is known: the rest is as Llama's usually "
	  "is" },
	{ is_unnamed_class, NULL, PLAN_ASSUMED, 0, 0,
	  "the file names no class: one of the family has fewer parameters" },
	{ is_other_activation, "fwd", PLAN_ASSUMED, 50, 100,
	  "what its activation function keeps is not known here" },
	{ is_inexact, NULL, PLAN_ASSUMED, 0, 0, NULL },
	{ is_seen_once, NULL, PLAN_ASSUMED, 25, 25,
	  "one run alone of this architecture was measured" },
	{ is_never_seen, NULL, PLAN_ASSUMED, 50, 50, "no run of this architecture was measured" },
	{ is_shared, NULL, PLAN_DERIVED, 30, 40,
	  "with several GPUs or FSDP the peak depends on timing: streams run ahead of each other "
	  "more or less" },
	{ is_shared_unseen, NULL, PLAN_ASSUMED, 100, 100,
	  "no run that shares the work this way was measured" },
	{ is_zero_on_several, NULL, PLAN_ASSUMED, 100, 100,
	  "no run of DeepSpeed on several GPUs was measured" },
	{ is_offloaded_wide, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run of DeepSpeed's offload under PyTorch's autocast was measured" },
	{ is_streamed, "fwd", PLAN_ASSUMED, 200, 250,
	  "no run that keeps this on the host was measured, and copies take as long as "
	  "the machine takes" },
	{ is_gathered, "save", PLAN_ASSUMED, 50, 50,
	  "no run that gathers its shards to save them was measured" },
	{ is_quantized_and_shared, NULL, PLAN_ASSUMED, 100, 100,
	  "no run that shares weights quantized by bitsandbytes out was measured, but one of FSDP "
	  "2 on one GPU" },
	{ is_stored, NULL, PLAN_ASSUMED, 30, 50,
	  "no run with weights that the file holds quantized was measured: they are at their size, "
	  "and "
	  "kernels are taken to read them as they are" },
	{ is_liger_unseen, "fwd", PLAN_ASSUMED, 30, 30,
	  "no run of this architecture with Liger's kernels was measured" },
	{ is_liger_in_part, "fwd", PLAN_ASSUMED, 30, 30,
	  "no run with some of Liger's kernels, and not all, was measured" },
	{ selects_ops, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run that keeps every second product was measured" },
	{ is_dora, "fwd", PLAN_ASSUMED, 50, 50, "no run with DoRA was measured" },
	{ is_part_frozen, "fwd", PLAN_ASSUMED, 50, 50, "no run with a frozen tower was measured" },
	{ is_adapted_by_hand, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run with adapters of 16 bits was measured" },
	{ is_quantized_by_old, "fwd", PLAN_ASSUMED, 50, 100,
	  "no run with an old release of bitsandbytes was measured" },
	{ is_litgpt, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run of LitGPT was measured but those that others published" },
	{ is_mixed_by_hand, NULL, PLAN_ASSUMED, 50, 50,
	  "no run with 16-bit weights and fp32 copies was measured" },
	{ is_padded, "fwd", PLAN_ASSUMED, 50, 50, "no run with padded samples was measured" },
	{ is_old, "fwd", PLAN_ASSUMED, 50, 50, "no run of this release was measured" },
	{ is_narrow, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run with a loss of the class's own, as old releases have it, was measured" },
	{ is_looped, "fwd", PLAN_ASSUMED, 50, 50,
	  "no run of experts that are called one after the other was measured" },
	{ is_flash, "fwd", PLAN_ASSUMED, 20, 20,
	  "no run with the flash-attn package was measured" },
	{ is_checkpointed_where_it_sees, "fwd", PLAN_ASSUMED, 20, 20,
	  "no run that checkpoints the vision tower alone was measured" },
	{ is_other_card, "fwd", PLAN_DERIVED, 30, 30, "only Hopper GPUs were measured" },
};

/* What is reported of a run that was measured like it; half of it is how segments are placed. */
#define BELOW 10
#define ABOVE 15

static bool is_reached(const struct doubt *d, const struct plan_phase *phases, size_t n)
{
	size_t length = d->since ? strlen(d->since) : 0;
	bool forward = d->since && !strcmp(d->since, "fwd"); /* generate() is made of them */

	for (size_t i = 0; i < n; i++)
		if (!strncmp(phases[i].name, length ? d->since : "", length) ||
		    (forward && !strcmp(phases[i].name, "generate")))
			return true;
	return !d->since;
}

/* The range of a doubt, with what the file itself leaves open. */
static void basis_range_of(const struct doubt *d, const struct model *m, unsigned *below,
			   unsigned *above)
{
	*below = d->below;
	*above = d->above;
	if (d->applies == is_unnamed_class)
		*below = (unsigned)(1000 * (1 - m->least_share)) + 1;
	if (d->applies == is_inexact) {
		*below = m->inexact.below;
		*above = m->inexact.above;
	}
}

/* A doubt that the recorded run was under as well is settled by it, except for what another size may change. */
#define SETTLED 5 /* its range is divided by so much */

void plan_trust_of(const struct model *m, const struct plan_recipe *r,
		   const struct plan_recipe *recorded, const struct plan_phase *phases, size_t n,
		   struct plan_trust *out)
{
	*out = (struct plan_trust){ .basis = recorded ? PLAN_MEASURED : PLAN_DERIVED,
				    .below = BELOW,
				    .above = ABOVE };
	for (size_t i = 0; i < sizeof(doubts) / sizeof(doubts[0]); i++) {
		const struct doubt *d = &doubts[i];
		bool settled = recorded && d->applies(m, recorded);
		unsigned below, above;

		if (!d->applies(m, r) || !is_reached(d, phases, n))
			continue;
		basis_range_of(d, m, &below, &above);
		below = settled ? below / SETTLED : below;
		above = settled ? above / SETTLED : above;
		out->below = below > out->below ? below : out->below;
		out->above = above > out->above ? above : out->above;
		if (settled)
			continue;
		out->basis = d->basis > out->basis ? d->basis : out->basis;
		if (out->reason_count < PLAN_REASONS)
			out->reasons[out->reason_count++] =
				d->reason ? d->reason : m->inexact.reason;
	}
}

void plan_trust_range(const struct plan_trust *t, uint64_t bytes, uint64_t range[2])
{
	uint64_t least = bytes - bytes / 1000 * t->below;

	range[0] = least - (t->less_bytes < least ? t->less_bytes : least);
	range[1] = bytes + bytes / 1000 * t->above + t->more_bytes;
}
