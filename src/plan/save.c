/*
 * What saving takes.  torch.save copies one storage after the other to the host; save_pretrained (safetensors) all tensors
 * of a file first, as bytes; the sharded checkpoint of torch.distributed a few at a time.  FULL_STATE_DICT gathers each
 * parameter on the GPU (FSDP 1: each unit, in the dtype that it keeps) and leaves it in the first rank's memory.
 */
#include "build.h"

#define FILE_BYTES 50000000000u /* max_shard_size of save_pretrained */
#define AHEAD_BYTES 10000000u   /* torch.distributed.checkpoint copies so much ahead */

static uint64_t bytes_of(const struct tape_param *p, int whole)
{
	return (whole ? p->n : p->own_n) * tape_dtype_bytes[p->own_dtype];
}

static int is_kept(const struct tape_param *p)
{
	return !p->input && p->store != TAPE_NONE;
}

struct sums {
	uint64_t all, largest; /* of the model, whole or this process's */
};

static struct sums sums_of(const struct builder *b, int whole)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < b->t.params.n; i++) {
		const struct tape_param *p = &b->t.params.at[i];
		uint64_t bytes = is_kept(p) ? bytes_of(p, whole) : 0;

		s.all += bytes;
		s.largest = bytes > s.largest ? bytes : s.largest;
	}
	return s;
}

/* What the optimizer keeps of all parameters; of one process, or of all that share. */
static uint64_t states_of(const struct builder *b, int whole)
{
	const struct tape *t = &b->t;
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->params.n; i++)
		for (unsigned k = 0; k < 2; k++)
			if (t->params.at[i].states[k] != TAPE_NONE)
				bytes += t->stores.at[t->params.at[i].states[k]].bytes;
	return whole ? bytes * b->r->gpus : bytes;
}

/* All of it in the first rank's memory, the model and then the optimizer. */
static void save_full(struct builder *b, int optimizer)
{
	struct tape *t = &b->t;
	struct sums s = sums_of(b, 1);
	uint32_t model;

	for (size_t i = 0; i < t->params.n && build_is_sharded(b); i++)
		if (is_kept(&t->params.at[i]) && b->r->parallel != PLAN_FSDP1)
			tape_touch(t, bytes_of(&t->params.at[i], 1));
	if (b->r->parallel == PLAN_FSDP1)
		build_touch_units(b);
	model = tape_host_store(t, s.all, PLAN_HOST_SAVING, TAPE_ONCE);
	tape_host_touch(t, s.largest, PLAN_HOST_SAVING, TAPE_ONCE);
	tape_let(t, model);
	if (optimizer)
		tape_host_touch(t, states_of(b, 1), PLAN_HOST_SAVING, TAPE_ONCE);
}

static void save_files(struct builder *b)
{
	struct sums s = sums_of(b, 1);
	uint64_t file = s.all < FILE_BYTES ? s.all : FILE_BYTES;

	tape_host_touch(&b->t, file + s.largest, PLAN_HOST_SAVING, TAPE_ONCE);
}

void build_save(struct builder *b)
{
	int sharded = build_is_sharded(b);

	if (b->t.failed || b->r->save == PLAN_SAVE_NONE)
		return;
	if (b->r->save == PLAN_SAVE_FULL || (sharded && b->r->save == PLAN_SAVE_PRETRAINED))
		save_full(b, b->r->save == PLAN_SAVE_FULL);
	else if (!sharded && b->r->save != PLAN_SAVE_TORCH && b->r->save != PLAN_SAVE_SHARDED)
		save_files(b);
	else
		tape_host_touch(&b->t, sums_of(b, 0).largest + AHEAD_BYTES, PLAN_HOST_SAVING,
				sharded ? 0 : TAPE_ONCE);
	build_phase(b, "save", PLAN_NO_NUMBER);
}
