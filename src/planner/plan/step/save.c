/*
 * What saving takes.  torch.save copies one storage after the other to the host; save_pretrained (safetensors) all tensors
 * of a file first, as bytes; torch.distributed.checkpoint pins a copy of all that this process saves.  FULL_STATE_DICT
 * gathers each tensor on the GPU (FSDP 1: each unit, in the dtype that it keeps) and leaves it in the first rank's memory.
 */
#include "plan/step/build.h"

#define FILE_BYTES 50000000000u /* max_shard_size of save_pretrained */
#define STATES 2u               /* of a parameter's size, at most; step counters are small */

static uint64_t saving_bytes_of(const struct tape_param *p, int whole)
{
	return (whole ? p->n : p->own_n) * tape_dtype_bytes[p->own_dtype];
}

static int saving_is_kept(const struct tape_param *p)
{
	return !p->input && p->store != TAPE_NONE;
}

struct sums {
	uint64_t all, largest; /* of the model, or of adapters where only they are saved */
	uint64_t states;       /* of the optimizer, of all that share */
};

static struct sums sums_of(const struct builder *b)
{
	/* PEFT's save_pretrained leaves the model out */
	int adapters = b->r->lora_rank && b->r->save == PLAN_SAVE_PRETRAINED;
	const struct tape *t = &b->t;
	struct sums s = { 0 };

	for (size_t i = 0; i < t->params.n; i++) {
		const struct tape_param *p = &t->params.at[i];
		uint64_t bytes = saving_is_kept(p) && (p->trainable || !adapters)
					 ? saving_bytes_of(p, 1)
					 : 0;

		s.all += bytes;
		s.largest = bytes > s.largest ? bytes : s.largest;
		for (unsigned k = 0; k < STATES; k++)
			if (p->states[k] != TAPE_NONE)
				s.states += t->stores.at[p->states[k]].bytes;
	}
	if (plan_is_sharded(b->r) || b->r->parallel == PLAN_ZERO1)
		s.states *= b->copies;
	return s;
}

static int is_flat(const struct builder *b)
{
	return b->r->parallel == PLAN_FSDP1 || b->r->parallel == PLAN_FSDP1_ZERO2;
}

/* All of it in the first rank's memory, the model and next to it the optimizer. */
static void save_full(struct builder *b, int optimizer)
{
	struct tape *t = &b->t;
	struct sums s = sums_of(b);
	uint32_t model;

	for (size_t i = 0; i < t->params.n; i++)
		if (saving_is_kept(&t->params.at[i]) && plan_is_sharded(b->r) && !is_flat(b))
			tape_touch(t, saving_bytes_of(&t->params.at[i], 1));
	if (is_flat(b))
		build_touch_units(b);
	model = tape_host_store(t, s.all, PLAN_HOST_SAVING, TAPE_ONCE);
	tape_host_touch(t, optimizer ? s.states : s.largest, PLAN_HOST_SAVING, TAPE_ONCE);
	tape_let(t, model);
}

static uint32_t saving_whole(struct builder *b, const struct tape_param *p, unsigned category)
{
	return tape_store(&b->t, saving_bytes_of(p, 1), category);
}

/* The same with offload_to_cpu=False: all of it on the GPU, as long as the state dict lives. */
static void save_full_on_gpu(struct builder *b)
{
	struct tape *t = &b->t;
	VEC(uint32_t) gathered = { 0 };

	for (size_t i = 0; i < t->params.n && plan_is_sharded(b->r) && !t->failed; i++) {
		const struct tape_param *p = &t->params.at[i];

		if (saving_is_kept(p))
			tape_fail(t, vec_push(t->mem, &gathered,
					      saving_whole(b, p, TIMELINE_PARAMETER), t->err));
		for (unsigned k = 0; k < STATES && !t->failed; k++)
			if (p->states[k] != TAPE_NONE)
				tape_fail(t, vec_push(t->mem, &gathered,
						      saving_whole(b, p, TIMELINE_OPTIMIZER_STATE),
						      t->err));
	}
	for (size_t i = 0; i < gathered.n; i++)
		tape_let(t, gathered.at[i]);
	vec_release(t->mem, &gathered);
}

static void save_files(struct builder *b)
{
	struct sums s = sums_of(b);

	tape_host_touch(&b->t, (s.all < FILE_BYTES ? s.all : FILE_BYTES) + s.largest,
			PLAN_HOST_SAVING, TAPE_ONCE);
}

/* What is on the GPU goes by way of pinned memory, which stays.  Copies of DDP are shared out among the processes. */
static void pin_copy(struct builder *b, uint32_t store, uint64_t bytes)
{
	if (store == TAPE_NONE || b->t.stores.at[store].host)
		return;
	if (b->r->parallel == PLAN_DDP)
		bytes = (bytes + b->copies - 1) / b->copies;
	tape_host_store(&b->t, bytes, PLAN_HOST_SAVING, TAPE_PINNED);
}

static void save_own(struct builder *b)
{
	struct tape *t = &b->t;

	for (size_t i = 0; i < t->params.n; i++) {
		const struct tape_param *p = &t->params.at[i];

		if (saving_is_kept(p))
			pin_copy(b, p->store, saving_bytes_of(p, 0));
		for (unsigned k = 0; k < STATES; k++)
			if (p->states[k] != TAPE_NONE)
				pin_copy(b, p->states[k], t->stores.at[p->states[k]].bytes);
	}
}

/* Storages one after the other; what is shared out, each process its own. */
static void save_storages(struct builder *b)
{
	struct sums s = sums_of(b);

	tape_host_touch(&b->t, s.largest, PLAN_HOST_SAVING, TAPE_ONCE);
}

void build_save(struct builder *b)
{
	static void (*const ways[PLAN_SAVES])(struct builder * b) = {
		[PLAN_SAVE_TORCH] = save_storages, [PLAN_SAVE_PRETRAINED] = save_files,
		[PLAN_SAVE_STATE] = save_files,    [PLAN_SAVE_FULL_GPU] = save_full_on_gpu,
		[PLAN_SAVE_SHARDED] = save_own,
	};
	enum plan_save save = b->r->save;

	if (b->t.failed || save == PLAN_SAVE_NONE)
		return;
	if (plan_is_sharded(b->r) && save == PLAN_SAVE_STATE)
		save = PLAN_SAVE_SHARDED; /* what accelerate does unless it is reported otherwise */
	if (save == PLAN_SAVE_FULL || (plan_is_sharded(b->r) && save == PLAN_SAVE_PRETRAINED))
		save_full(b, save == PLAN_SAVE_FULL);
	else
		ways[save](b);
	build_phase(b, "save", PLAN_NO_NUMBER);
}
