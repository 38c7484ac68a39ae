/*
 * What helps, what does not, and how to be certain: a table whose rows apply to a kind of death, a
 * bound, a moment and the causes that are possible.  Cheapest first, as the rows stand.
 */
#include "verbs/why/why.h"

#define KIND(k) (1u << MESSAGES_##k)
#define AT(m) (1u << MESSAGES_##m)
#define BY(b) (1u << FINDINGS_BOUND_##b)
#define OF(c) (1u << FINDINGS_CAUSE_##c)

#define GPU KIND(DEVICE)
#define KILLS (KIND(CGROUP_KILL) | KIND(HOST_KILL) | KIND(KILLED))
#define HOSTS (KILLS | KIND(HOST))
#define OWN_CARD (BY(DEVICE) | BY(LIMIT) | BY(UNKNOWN))
#define TRAINING (AT(FORWARD) | AT(BACKWARD) | AT(FIRST_STEP) | AT(OPTIMIZER) | AT(MOMENT_UNKNOWN))

enum list { HELPS, USELESS, CERTAINTY, LISTS };

/* A 0 fits everything; `causes` fits when one of them is possible, `only` when no other is. */
static const struct rung {
	enum list list;
	unsigned kinds, bounds, moments, causes, only;
	const char *text;
} rungs[] = {
	/* whose memory it is comes before how much is needed */
	{ HELPS, GPU | KIND(BUDGET), BY(OTHER_PROCESS), 0, 0, 0,
	  "see who holds the card (nvidia-smi, fuser -v /dev/nvidia*) and end what is left over, "
	  "or "
	  "take another card: CUDA_VISIBLE_DEVICES" },
	{ HELPS, GPU, BY(NON_PYTORCH), 0, 0, 0,
	  "look for what in this process takes memory past PyTorch: another framework, a CUDA "
	  "extension, NCCL's buffers, CuPy or RAPIDS pools" },
	{ HELPS, GPU, BY(LIMIT), 0, 0, 0,
	  "raise the process's own limit (set_per_process_memory_fraction, or "
	  "per_process_memory_fraction), if the card may be used further" },
	/* what to change where it died */
	{ HELPS, GPU, OWN_CARD, AT(FIRST_STEP) | AT(OPTIMIZER), 0, 0,
	  "an optimizer with less state: 8-bit Adam, Adafactor, SGD, LoRA; sharded over ranks: "
	  "ZeRO-1 or FSDP" },
	{ HELPS, GPU, OWN_CARD, AT(FIRST_STEP) | AT(OPTIMIZER), 0, 0,
	  "fused=True in torch's own optimizers: it avoids the lists that foreach makes at each "
	  "step" },
	{ HELPS, GPU, OWN_CARD, AT(LOADING), 0, 0,
	  "load in the type it is to run in (dtype=torch.bfloat16), quantised, or over several "
	  "cards or the host (device_map=\"auto\")" },
	{ HELPS, GPU, OWN_CARD, AT(LOADING), 0, 0,
	  "load a checkpoint to the host (map_location=\"cpu\"), and drop the old model before the "
	  "next is loaded" },
	{ HELPS, GPU, OWN_CARD, AT(EVAL), OF(LEAK), 0,
	  "move what evaluation keeps to the host at once (.cpu(), eval_accumulation_steps), and "
	  "keep predictions instead of logits (preprocess_logits_for_metrics)" },
	{ HELPS, GPU, OWN_CARD, AT(EVAL), 0, 0,
	  "torch.inference_mode() around it, and a smaller evaluation batch "
	  "(per_device_eval_batch_size)" },
	{ HELPS, GPU, OWN_CARD, AT(GENERATION), 0, 0,
	  "fewer sequences at a time or shorter ones: the KV cache grows with both; quantise the "
	  "cache, or a server with paged attention" },
	{ HELPS, GPU, OWN_CARD, AT(SAVING), 0, 0,
	  "gather the state on the host or save it sharded (full_state_dict with cpu_offload, "
	  "torch.distributed.checkpoint)" },
	{ HELPS, GPU, OWN_CARD, AT(FORWARD) | AT(BACKWARD) | AT(MOMENT_UNKNOWN), OF(CAPACITY), 0,
	  "a smaller micro-batch with gradient accumulation, and a bound on the longest sequence "
	  "(sort or bucket by length)" },
	{ HELPS, GPU, OWN_CARD, AT(FORWARD) | AT(BACKWARD), OF(CAPACITY), 0,
	  "gradient checkpointing; a fused loss that never holds all logits, where they are what "
	  "was asked for" },
	{ HELPS, GPU, OWN_CARD, TRAINING, OF(LEAK), 0,
	  "if memory climbs from step to step: keep no GPU tensors over a step (x.item() or "
	  "x.detach().cpu() instead of x)" },
	{ HELPS, GPU, OWN_CARD, 0, OF(FRAGMENTATION), 0,
	  "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which is cheap: it helps if gaps "
	  "are the cause, and only then" },
	{ HELPS, KIND(BUDGET), BY(LIMIT), 0, 0, 0,
	  "a larger share of the card (vLLM: --gpu-memory-utilization 0.95, SGLang: "
	  "--mem-fraction-static), if nobody else needs it" },
	{ HELPS, KIND(BUDGET), BY(LIMIT), 0, 0, 0,
	  "less to hold: a shorter context (--max-model-len), fewer sequences (--max-num-seqs), an "
	  "8-bit KV cache, quantised weights, or more cards (--tensor-parallel-size)" },
	/* host memory */
	{ HELPS, KILLS | KIND(HOST), 0, AT(LOADING), 0, 0,
	  "do not hold the checkpoint twice: safetensors, low_cpu_mem_usage=True, mmap=True; let "
	  "one rank load and broadcast" },
	{ HELPS, KILLS, 0, AT(SAVING), 0, 0,
	  "save sharded, or one rank at a time: gathering the whole state costs host memory" },
	{ HELPS, HOSTS, 0, 0, 0, 0,
	  "fewer DataLoader workers (num_workers), a smaller prefetch_factor: each worker may end "
	  "with its own copy of the data set" },
	{ HELPS, HOSTS, 0, 0, 0, 0,
	  "keep the data set in arrays or memory-mapped files (numpy, Arrow), not in Python lists "
	  "of objects: reference counts copy shared pages" },
	{ HELPS, KIND(CGROUP_KILL), 0, 0, 0, 0,
	  "ask for more memory: Slurm --mem or --mem-per-cpu, Kubernetes resources.limits.memory, "
	  "docker --memory; /dev/shm and tmpfs count into it" },
	{ HELPS, KIND(HOST_KILL) | KIND(KILLED) | KIND(HOST), 0, 0, 0, 0,
	  "fewer processes on the machine at a time, or one with more memory" },
	{ HELPS, KIND(SHARED), 0, 0, 0, 0,
	  "a larger /dev/shm: docker --shm-size=16g or --ipc=host; Kubernetes: an emptyDir with "
	  "medium: Memory at /dev/shm" },
	{ HELPS, KIND(SHARED), 0, 0, 0, 0,
	  "fewer workers or a smaller prefetch_factor: each batch under way lies in /dev/shm; "
	  "num_workers=0 needs none" },
	{ HELPS, KIND(SHARED), 0, 0, 0, 0,
	  "remove what dead jobs left behind: ls -l /dev/shm (torch_*, nccl-*, psm_*)" },

	{ USELESS, GPU, BY(OTHER_PROCESS) | BY(NON_PYTORCH), 0, 0, 0,
	  "allocator settings and empty_cache(): the memory is in other hands" },
	{ USELESS, GPU, OWN_CARD, 0, 0, 0,
	  "torch.cuda.empty_cache(): PyTorch had given back what was free in whole segments before "
	  "it failed" },
	{ USELESS, GPU, OWN_CARD, 0, 0, OF(CAPACITY) | OF(LEAK),
	  "expandable_segments or max_split_size_mb: they join gaps, and there is not enough in "
	  "gaps" },
	{ USELESS, GPU, OWN_CARD, 0, OF(LEAK), 0,
	  "a smaller batch, if it is a leak: it only dies later" },
	{ USELESS, GPU, OWN_CARD, AT(FIRST_STEP) | AT(OPTIMIZER), 0, 0,
	  "a smaller batch: the optimizer's state does not depend on it (the activations are gone "
	  "by then)" },
	{ USELESS, GPU, OWN_CARD, AT(LOADING), 0, 0, "a smaller batch: no batch was there yet" },
	{ USELESS, GPU, OWN_CARD, AT(EVAL), 0, 0,
	  "gradient checkpointing: evaluation saves nothing for a backward pass, or should not" },
	{ USELESS, HOSTS, 0, 0, 0, 0,
	  "a smaller model or batch on the GPU, fewer layers, a larger card: it was the host's "
	  "memory" },
	{ USELESS, HOSTS | KIND(SHARED), 0, 0, 0, 0,
	  "torch.cuda.empty_cache() and PYTORCH_CUDA_ALLOC_CONF: they are about the GPU" },
	{ USELESS, KIND(CGROUP_KILL), 0, 0, 0, 0,
	  "that the machine has memory free: the limit is the group's" },
	{ USELESS, KIND(SHARED), 0, 0, 0, 0,
	  "more host memory: /dev/shm has a size of its own (df -h /dev/shm)" },
	{ USELESS, KIND(BUDGET), 0, 0, 0, 0,
	  "PYTORCH_CUDA_ALLOC_CONF: the server decides beforehand what it takes" },

	{ CERTAINTY, GPU, OWN_CARD, 0, 0, 0,
	  "plimsoll record -- python train.py, then plimsoll why LOG --snapshot FILE: the "
	  "recording "
	  "tells who held the memory and what was still to come" },
	{ CERTAINTY, GPU, BY(UNKNOWN), 0, 0, 0,
	  "nvidia-smi at the moment of the failure tells who holds the rest of the card" },
	{ CERTAINTY, KIND(KILLED), 0, 0, 0, 0,
	  "dmesg -T | grep -i -E 'killed process|oom', on the machine that ran it, tells whether "
	  "the kernel did it; pipe it into plimsoll why -" },
	{ CERTAINTY, KIND(KILLED), 0, 0, 0, 0,
	  "sacct -j JOB -o State,MaxRSS,ReqMem,ExitCode, or kubectl describe pod, tells whether a "
	  "limit, preemption or a person did" },
	{ CERTAINTY, KIND(HOST_KILL) | KIND(CGROUP_KILL), 0, 0, 0, 0,
	  "watch it grow: ps -eo pid,rss,comm --sort=-rss | head, every few seconds; steady growth "
	  "is a leak, one jump is a load" },
	{ CERTAINTY, KIND(SHARED), 0, 0, 0, 0, "df -h /dev/shm while it runs" },
	{ CERTAINTY, KIND(HOST), 0, 0, 0, 0,
	  "ulimit -v, free -h, and cat /proc/sys/vm/overcommit_memory (2 refuses early)" },
};

static int applies(const struct rung *r, const struct messages_event *e,
		   const struct findings_told *t)
{
	unsigned possible = 0;

	for (size_t i = 0; i < t->ranked_count; i++)
		possible |= 1u << t->ranked[i];
	return r->kinds & 1u << e->wording->class &&
	       (!r->bounds || r->bounds & 1u << t->bound_by) &&
	       (!r->moments || r->moments & 1u << e->snapshot.moment) &&
	       (!r->causes || r->causes & possible) && (!r->only || !(possible & ~r->only));
}

static int is_later(const struct rung *r, const struct findings_told *t)
{
	return r->causes && !(r->causes & 1u << t->ranked[0]);
}

enum plim_status why_ladder(struct plim_why *w, const struct messages_event *e,
			    const struct findings_told *t, struct plim_why_verdict *v,
			    struct plim_err *err)
{
	struct lines lines[LISTS];
	enum plim_status st;

	for (int i = 0; i < LISTS; i++)
		lines[i] = (struct lines){ .arena = &w->hidden->arena, .err = err };
	if (e->wording->advice)
		lines_add(&lines[HELPS], "%s", e->wording->advice);
	if (t->free_enough)
		lines_add(
			&lines[HELPS],
			"look for a limit of this process first (set_per_process_memory_fraction, "
			"per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF, a server's share "
			"of the card): the card was not full");
	/* those that are about the likeliest cause come before those that are about the others */
	for (int later = 0; later < 2; later++)
		for (size_t i = 0; i < sizeof(rungs) / sizeof(rungs[0]); i++)
			if (applies(&rungs[i], e, t) && is_later(&rungs[i], t) == later)
				lines_add(&lines[rungs[i].list], "%s", rungs[i].text);
	st = lines_keep(&lines[HELPS], &v->helps, &v->helps_count);
	if (!st)
		st = lines_keep(&lines[USELESS], &v->useless, &v->useless_count);
	return st ? st : lines_keep(&lines[CERTAINTY], &v->certainty, &v->certainty_count);
}

/* ---- moments ---- */

static const char *const means[MESSAGES_MOMENTS] = {
	[MESSAGES_LOADING] = "it died while weights were loaded or moved: nothing of a step was "
			     "there yet",
	[MESSAGES_FORWARD] = "it died in a forward pass, which keeps activations for the backward "
			     "pass: in the first step the batch is too large, later it is the "
			     "longest batch or something that was kept",
	[MESSAGES_BACKWARD] =
		"it died in a backward pass: gradients are born there in the first "
		"step; later its own temporaries are what is large, while activations "
		"are given back",
	[MESSAGES_FIRST_STEP] =
		"it died while the optimizer made its state, which happens once, in "
		"its first step: more of it was still to come (Adam: two tensors "
		"of the size of each parameter)",
	[MESSAGES_OPTIMIZER] = "it died in an optimizer step: foreach, PyTorch's default, makes "
			       "lists as large as the parameters there",
	[MESSAGES_EVAL] = "it died in evaluation: outputs that are kept on the GPU pile up there, "
			  "and a graph is kept where no_grad is missing",
	[MESSAGES_GENERATION] = "it died in generation: the KV cache grows with every token, "
				"sequence and layer",
	[MESSAGES_SAVING] = "it died while a checkpoint was saved: gathering the state needs room "
			    "for it once more",
	[MESSAGES_DATA] = "it died while batches were made or moved",
};

const char *why_moment_means(const struct messages_event *e)
{
	return e->wording->class == MESSAGES_DEVICE || e->snapshot.moment == MESSAGES_LOADING ||
			       e->snapshot.moment == MESSAGES_SAVING ||
			       e->snapshot.moment == MESSAGES_DATA
		       ? means[e->snapshot.moment]
		       : NULL;
}
