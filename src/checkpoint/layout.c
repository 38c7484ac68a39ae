/*
 * What must be there is derived from what is there: a folder with an adapter's configuration wants the adapter, ranks
 * of a save want the ranks between them, and without weights nothing is whole.
 *
 * The names are those that the libraries write: transformers' trainer.py, peft's save_and_load.py, deepspeed's
 * runtime/engine.py, Megatron-LM's training/checkpointing.py, accelerate's checkpointing.py.
 */
#include "layout.h"

#include <stdio.h>
#include <string.h>

#define BASE(name) (strrchr(name, '/') ? strrchr(name, '/') + 1 : (name))

static bool layout_begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

static bool layout_has(const struct folder_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->at[i], name))
			return true;
	return false;
}

/* ---- weights ---- */

bool layout_is_state(const char *name)
{
	static const char *const states[] = { "optimizer",     "scheduler",         "lr_scheduler",
					      "scaler",        "rng_state",         "random_states",
					      "training_args", "trainer_state",     "sampler",
					      "dl_state_dict", "custom_checkpoint", "distrib_optim",
					      "tokenizer" };

	name = BASE(name);
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (layout_begins(name, states[i]))
			return true;
	return false;
}

/* ZeRO-3 keeps its weights with the optimizer's states, in flat groups. */
static bool has_weights(const struct ckpt *c)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const struct ckpt_tensor *t = &c->tensors.at[i];

		if (t->extent != CKPT_NONE && t->count &&
		    !layout_is_state(c->files.at[c->extents.at[t->extent].file].name))
			return true;
	}
	return false;
}

/* What a file of a folder says should be there, too. */
static const struct {
	const char *there, *wanted;
} wants[] = {
	{ "adapter_config.json", "adapter_model.safetensors or adapter_model.bin" },
	{ "latest", "the folder of model states that it names (DeepSpeed)" },
	{ "latest_checkpointed_iteration.txt", "the folder of that iteration (Megatron)" },
	{ "model_index.json", "the folders of its parts, with weights in each" },
	{ "trainer_state.json",
	  "model.safetensors, shards with an index, or adapter_model.safetensors" },
	{ "config.json", "model.safetensors, pytorch_model.bin, or shards with an index" },
};

/* Weights of other programs, which are only recognised. */
static const struct {
	const char *ending, *is;
} others[] = {
	{ ".onnx", "ONNX" },
	{ ".h5", "Keras or TensorFlow (HDF5)" },
	{ ".keras", "Keras" },
	{ ".msgpack", "Flax" },
	{ ".tflite", "TensorFlow Lite" },
	{ ".pb", "TensorFlow" },
	{ ".ot", "rust-bert" },
	{ ".mlmodel", "Core ML" },
	{ ".npz", "NumPy (MLX?)" },
	{ ".nemo", "NeMo" },
	{ ".engine", "TensorRT" },
	{ ".xml", "OpenVINO" },
};

const char *layout_other(const char *name)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ckpt_text_ends(name, others[i].ending))
			return others[i].is;
	return NULL;
}

static enum plim_status check_weights(struct ckpt *c, const struct folder_names *names,
				      struct plim_err *err)
{
	const char *there = NULL, *wanted = NULL, *other = NULL;

	for (size_t i = 0; !there && i < sizeof(wants) / sizeof(wants[0]); i++)
		if (layout_has(names, wants[i].there)) {
			there = wants[i].there;
			wanted = wants[i].wanted;
		}
	for (size_t i = 0; !other && i < names->n; i++)
		other = layout_other(names->at[i]) ? names->at[i] : NULL;
	if (other)
		return ckpt_model_find(
			c, CKPT_BAD_FINDING, "no_weights", PLIM_UNKNOWN, err,
			"the only weights are in '%.200s' (%s), which is not read: nothing "
			"is known of them",
			other, layout_other(other));
	return there ? ckpt_model_find(c, CKPT_BAD_FINDING, "no_weights", PLIM_UNKNOWN, err,
				       "there are no weights: next to '%s' belong %s", there,
				       wanted)
		     : ckpt_model_find(c, CKPT_BAD_FINDING, "no_weights", PLIM_UNKNOWN, err,
				       "there are no weights, only the state of a training");
}

/* ---- ranks ---- */

/* Files of a kind, one of each rank: how many there are, and the highest numbers in their names. */
struct ranks {
	unsigned n, data, model, pipe;
};

static void count_rank(struct ranks *r, unsigned data, unsigned model, unsigned pipe)
{
	r->n++;
	r->data = data > r->data ? data : r->data;
	r->model = model > r->model ? model : r->model;
	r->pipe = pipe > r->pipe ? pipe : r->pipe;
}

static enum plim_status check_ranks(struct ckpt *c, const struct ranks *r, uint64_t world,
				    const char *what, struct plim_err *err)
{
	uint64_t data = world > r->data + 1ull ? world : r->data + 1ull,
		 all = data * (r->model + 1ull) * (r->pipe + 1ull);

	if (!r->n || r->n >= all)
		return PLIM_OK;
	return ckpt_model_find(c, CKPT_BAD_FINDING, "missing_rank", PLIM_UNKNOWN, err,
			       "%u of %llu file%s of %s %s there: ranks are missing", r->n,
			       (unsigned long long)all, text_s(all), what, text_are(r->n));
}

/* zero_pp_rank_1_mp_rank_00_optim_states.pt, bf16_zero_pp_rank_..., mp_rank_00_model_states.pt */
static enum plim_status check_deepspeed(struct ckpt *c, struct plim_err *err)
{
	struct ranks optim = { 0 }, zero = { 0 }, model = { 0 };
	uint64_t world = ckpt_fact_number(c, CKPT_FACT_WORLD);
	enum plim_status st;

	for (size_t i = 0; i < c->files.n; i++) {
		const char *name = BASE(c->files.at[i].name);
		unsigned data, mp;
		int end = 0;

		name += layout_begins(name, "bf16_") || layout_begins(name, "fp16_") ? 5 : 0;
		if (sscanf(name, "zero_pp_rank_%u_mp_rank_%u_%n", &data, &mp, &end) == 2 && end)
			count_rank(layout_begins(name + end, "optim") ? &optim : &zero, data, mp,
				   0);
		else if (sscanf(name, "mp_rank_%u_model_states%n", &mp, &end) == 1 && end)
			count_rank(&model, 0, mp, 0);
	}
	st = check_ranks(c, &optim, world, "the optimizer's states (ZeRO)", err);
	if (!st)
		st = check_ranks(c, &zero, world, "model states (ZeRO-3)", err);
	if (!st)
		st = check_ranks(c, &model, 1, "model states", err);
	if (!st && zero.n && !optim.n)
		st = ckpt_model_find(
			c, CKPT_BAD_FINDING, "no_weights", PLIM_UNKNOWN, err,
			"there are no optim_states: the weights of ZeRO-3 are in them");
	return st;
}

/* mp_rank_01_002/model_optim_rng.pt: tensor and pipeline ranks. */
static enum plim_status check_megatron(struct ckpt *c, struct plim_err *err)
{
	struct ranks r = { 0 };

	for (size_t i = 0; i < c->files.n; i++) {
		const char *at = strstr(c->files.at[i].name, "mp_rank_");
		unsigned tensor, pipe = 0;

		if (at && strstr(at, "/model_optim_rng.pt") &&
		    sscanf(at, "mp_rank_%u_%u", &tensor, &pipe) >= 1)
			count_rank(&r, 0, tensor, pipe);
	}
	if (r.n > 1)
		c->apart =
			"its tensor- and pipeline-parallel ranks are split along dimensions that "
			"only Megatron's code knows (its own tools/checkpoint/convert.py merges "
			"them; or convert each rank's file)";
	return check_ranks(c, &r, 1, "Megatron's ranks", err);
}

/* transformers writes rng_state_0.pth ... of each rank, or rng_state.pth of one. */
static enum plim_status check_trainer(struct ckpt *c, const struct folder_names *names,
				      struct plim_err *err)
{
	struct ranks rng = { 0 };
	bool optimizer = false,
	     scheduler = layout_has(names, "scheduler.pt") || layout_has(names, "scheduler.bin");
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < names->n; i++) {
		unsigned rank;
		int end = 0;

		if (sscanf(names->at[i], "rng_state_%u.pth%n", &rank, &end) == 1 && end)
			count_rank(&rng, rank, 0, 0);
		optimizer |= layout_begins(names->at[i], "optimizer") ||
			     layout_begins(names->at[i], "global_step");
	}
	if (rng.n && rng.n < rng.data + 1)
		st = ckpt_model_find(c, CKPT_WARN, "missing_rank", PLIM_UNKNOWN, err,
				     "%u of %u files of random states %s there", rng.n,
				     rng.data + 1, text_are(rng.n));
	if (!st && layout_has(names, "trainer_state.json") && !optimizer)
		st = ckpt_model_find(
			c, CKPT_WARN, "no_optimizer", PLIM_UNKNOWN, err,
			"no optimizer's state (save_only_model?): a resume begins it anew");
	else if (!st && layout_has(names, "trainer_state.json") && !scheduler &&
		 !layout_has(names, "latest"))
		st = ckpt_model_find(
			c, CKPT_WARN, "no_scheduler", PLIM_UNKNOWN, err,
			"no scheduler's state: a resume begins the learning rate's schedule anew");
	return st;
}

/* Which of several good files is the adapter's does not matter where the adapter's is none of them. */
static enum plim_status check_adapter(struct ckpt *c, const struct folder_names *names,
				      struct plim_err *err)
{
	if (!layout_has(names, "adapter_config.json") ||
	    layout_has(names, "adapter_model.safetensors") ||
	    layout_has(names, "adapter_model.bin"))
		return PLIM_OK;
	return ckpt_model_find(
		c, CKPT_WARN, "no_adapter", PLIM_UNKNOWN, err,
		"'adapter_config.json' is there, but no adapter_model.safetensors or .bin");
}

enum plim_status layout_check(struct ckpt *c, const struct folder_names *names,
			      struct plim_err *err)
{
	enum plim_status st = check_deepspeed(c, err);
	bool bad = c->unreadable;

	if (!st)
		st = check_megatron(c, err);
	for (size_t i = 0; i < c->findings.n; i++)
		bad |= c->findings.at[i].severity == CKPT_BAD_FINDING;
	if (!st && !bad && !has_weights(c)) /* what is damaged is reported better */
		return check_weights(c, names, err);
	if (!st)
		st = check_trainer(c, names, err);
	return st ? st : check_adapter(c, names, err);
}
