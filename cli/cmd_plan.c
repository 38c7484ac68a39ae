/* plimsoll plan: options, a call of the public API, an exit code. */
#include "cmd.h"
#include "output.h"

#include <plimsoll/plan.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plan_opts {
	bool quiet; /* what is written goes where the text would */
	bool trace;
	bool redact;
	bool allow_changes, json, no_clip, in_backward, liger, keep_outputs, no_cache, max_batch,
		max_seq, no_color;
	const char *task, *precision, *optimizer, *attention, *checkpointing, *lora_targets, *gpu,
		*settings, *torch, *sweep, *parallel, *output;
	uint64_t layers, hidden, heads, kv_heads, intermediate, vocab;
	uint64_t batch, seq, accumulate, steps, lora, eval_batch, new_tokens;
	struct opt_list extra_tensors, calibrate, recorded;
	uint64_t residents, component_bytes;
	const char *params;
	uint64_t memory, allowance, width, max_memory, gpus;
	const char *schedule;
	uint64_t tp, pp, micro_batches, stage;
	bool sequence_parallel;
	const char *offload_activations, *offload_optimizer, *offload_params, *save, *load;
	uint64_t host_memory;
	const char *loss, *lengths, *quantize, *transformers;
	uint64_t loss_chunk, longest;
	bool padded, grouped;
	const char *image_size, *image_grid, *cache, *paste, *lora_dropout;
	struct opt_list from;
	uint64_t beams;
};

#define SIZE_MOST (1u << 30)

/* Values that may follow an option whose value can be left out. */
static const char *const checkpointings[] = {
	"full", "selective", "vision", "none", "every:", NULL
};
static const char *const activations[] = { "pinned", "save-on-cpu", "checkpoints",
					   "trl",    "none",        NULL };
static const char *const places[] = { "cpu", "nvme", "gpu", NULL };
static const char *const saves[] = { "torch",    "pretrained", "state", "full",
				     "full-gpu", "sharded",    "none",  NULL };

/* Of --zero; a number of FSDP's may be a strategy or a version. */
static const char *const zero_stages[] = { "0",     "ddp", "1",     "zero1", "2",
					   "zero2", "3",   "zero3", NULL };

/* Of weights, not of autocast. */
static const char *const weights_dtypes[] = { "bf16", "bfloat16", "fp16", "float16", NULL };

#define CHANGES_NOTHING "it changes no memory: leave it out"
#define PACKED                                                                          \
	"rows are planned as long as --seq, as packed ones are: leave it out; without " \
	"FlashAttention they have a mask: --padded"

static const struct opt plan_opt[] = {
	OPT_LIST('f', "from", plan_opts, from, "FILE",
		 "take what is not given here from the run's configuration: TrainingArguments, "
		 "Axolotl, LLaMA-Factory, accelerate, DeepSpeed, torchtune or PEFT, JSON or YAML"),
	OPT_U64('b', "batch", plan_opts, batch, "n", 1, 1 << 20, OPT_NONE,
		"samples of a micro-batch (1)"),
	OPT_U64('s', "seq", plan_opts, seq, "tokens", 1, 1 << 26, OPT_NONE,
		"tokens of a sample (1024, or the model's positions if fewer)"),
	OPT_STRING('p', "precision", plan_opts, precision, "NAME", NULL,
		   "fp32, bf16-autocast, fp16-autocast, bf16-pure, bf16-weights, fp16-weights or "
		   "bf16-master "
		   "(bf16-autocast)"),
	OPT_STRING('O', "optimizer", plan_opts, optimizer, "NAME", NULL,
		   "adamw, adamw-fused, adamw-loop, sgd, sgd-momentum, adafactor, ... (adamw)"),
	OPT_STRING('a', "attention", plan_opts, attention, "NAME", NULL,
		   "sdpa, eager or flash (sdpa)"),
	OPT_OPTIONAL('c', "checkpointing", plan_opts, checkpointing, "HOW", "full", checkpointings,
		     "gradient checkpointing: full, selective, every:N, vision or none"),
	OPT_STRING(
		'q', "quantize", plan_opts, quantize, "HOW", NULL,
		"weights as bitsandbytes keeps them: nf4, nf4-double or int8 (as the config says)"),
	OPT_U64(0, "longest", plan_opts, longest, "tokens", 1, 1 << 26, OPT_NONE,
		"tokens of the longest batch, where --seq is what they usually have"),
	OPT_STRING(0, "lengths", plan_opts, lengths, "512,2048", NULL,
		   "tokens of the samples of each step, instead of --seq"),
	OPT_FLAG(0, "padded", plan_opts, padded, "samples are padded: attention is given a mask"),
	OPT_FLAG(0, "grouped", plan_opts, grouped,
		 "samples are grouped by length: the longest come first"),
	OPT_STRING(0, "loss", plan_opts, loss, "KIND", NULL,
		   "loss: whole (full logits), fused (TRL), chunked (TRL before 1.16) or liger, "
		   "which never hold all logits "
		   "(whole)"),
	OPT_FLAG(0, "liger", plan_opts, liger,
		 "Liger's kernels: its loss, and norms, RoPE and gates that keep less "
		 "(use_liger_kernel)"),
	OPT_U64(0, "loss-chunk", plan_opts, loss_chunk, "tokens", 1, 1 << 26, OPT_NONE,
		"a chunked loss, of this many tokens at a time (256)"),
	OPT_U64(0, "accumulate", plan_opts, accumulate, "n", 1, 1 << 16, OPT_NONE,
		"micro-batches a step (1)"),
	OPT_U64(0, "lora", plan_opts, lora, "rank", 1, 65536, OPT_NONE,
		"train adapters of this rank instead of the weights"),
	OPT_STRING(0, "lora-targets", plan_opts, lora_targets, "a,b", NULL,
		   "names of the modules that have adapters (the family's usual ones)"),
	OPT_STRING(0, "lora-dropout", plan_opts, lora_dropout, "RATE", NULL,
		   "dropout in front of adapters, like 0.05 (none)"),
	OPT_FLAG(0, "no-clip", plan_opts, no_clip, "gradients are not clipped"),
	OPT_FLAG(0, "optimizer-in-backward", plan_opts, in_backward,
		 "each parameter is stepped on as soon as its gradient is there, which is then let "
		 "go"),
	OPT_FLAG(0, "keep-outputs", plan_opts, keep_outputs,
		 "the loop keeps a step's logits until the next"),
	OPT_FLAG(0, "no-cache", plan_opts, no_cache,
		 "generate without a cache of keys and values (use_cache=False)"),
	OPT_U64(0, "eval-batch", plan_opts, eval_batch, "n", 1, 1 << 20, OPT_NONE,
		"evaluate after training, or before generating, with this batch"),
	OPT_STRING(0, "image-size", plan_opts, image_size, "pixels", NULL,
		   "side of an image, or height and width like 672x448 (as configured)"),
	OPT_STRING(0, "image-grid", plan_opts, image_grid, "patches", NULL,
		   "the same in patches of the model"),
	OPT_U64(0, "steps", plan_opts, steps, "n", 1, 100, 2, "steps to show"),
	OPT_STRING('t', "task", plan_opts, task, "NAME", NULL, "train, infer or generate (train)"),
	OPT_U64(0, "new-tokens", plan_opts, new_tokens, "n", 1, 1 << 26, OPT_NONE,
		"tokens to generate"),
	OPT_U64(0, "beams", plan_opts, beams, "n", 1, 1024, 1, "beams to generate with"),
	OPT_STRING(0, "cache", plan_opts, cache, "KIND", NULL,
		   "of keys and values: dynamic or static (dynamic)"),
	OPT_LIST(0, "extra-tensor", plan_opts, extra_tensors, "40x1024x1024:fp32",
		 "a tensor beside the model's"),
	OPT_U64(0, "resident", plan_opts, residents, "n", 1, 100000, OPT_NONE,
		"components that stay on the card beside the model"),
	OPT_BYTES(0, "component-bytes", plan_opts, component_bytes, 1, OPT_NONE, OPT_NONE,
		  "the size of each"),
	OPT_LIST(0, "calibrate", plan_opts, calibrate, "SNAPSHOT",
		 "learn from a recording of a run of this model (or from two)"),
	OPT_LIST(0, "recorded", plan_opts, recorded, "batch=2,seq=512",
		 "options in which the recorded run differed from this plan"),
	OPT_FLAG(0, "trace", plan_opts, trace,
		 "PyTorch itself runs the model on fake tensors, without weights or a GPU: a "
		 "config.json of any architecture, timm/NAME, or MODULE:FUNCTION; a command "
		 "behind -- is traced as well"),
	OPT_HEADING("Where it is to run"),
	OPT_STRING('g', "gpu", plan_opts, gpu, "CARD", NULL,
		   "a card's name, \"A100 40GB\", or \"2x H100\""),
	OPT_BYTES('M', "memory", plan_opts, memory, 2 << 20, OPT_NONE, OPT_NONE,
		  "memory that PyTorch may reserve, instead"),
	OPT_BYTES(0, "allowance", plan_opts, allowance, 0, OPT_NONE, OPT_NONE,
		  "of --gpu, for what PyTorch does not allocate (896MiB)"),
	OPT_U64(0, "gpus", plan_opts, gpus, "n", 1, 1 << 20, OPT_NONE,
		"GPUs that train together (1)"),
	OPT_STRING(0, "parallel", plan_opts, parallel, "HOW", NULL,
		   "ddp, zero1, zero2, zero3, fsdp1, fsdp2, fsdp2-zero2, tp, pp, ... (ddp)"),
	OPT_STRING(
		0, "load", plan_opts, load, "HOW", NULL,
		"sharded weights: meta (a unit at a time) or whole (all on each GPU first) (meta)"),
	OPT_U64(0, "tp", plan_opts, tp, "n", 1, 1 << 20, OPT_NONE,
		"tensor-parallel degree: GPUs that share each layer"),
	OPT_U64(0, "pp", plan_opts, pp, "n", 1, 1 << 20, OPT_NONE,
		"pipeline-parallel degree: stages that share the layers"),
	OPT_FLAG(0, "sequence-parallel", plan_opts, sequence_parallel,
		 "with --tp, rows are shared out between layers"),
	OPT_U64(0, "micro-batches", plan_opts, micro_batches, "n", 1, 4096, OPT_NONE,
		"of a pipeline's step (twice its stages)"),
	OPT_STRING(0, "schedule", plan_opts, schedule, "NAME", NULL,
		   "of a pipeline: 1f1b or gpipe (1f1b)"),
	OPT_U64(0, "stage", plan_opts, stage, "n", 1, 1 << 20, OPT_NONE,
		"pipeline stage to plan, from 1 (the one with the highest peak)"),
	OPT_FLAG(0, "max-batch", plan_opts, max_batch, "find the largest batch that fits"),
	OPT_FLAG(0, "max-seq", plan_opts, max_seq, "find the longest sequence that fits"),
	OPT_FLAG(0, "allow-changes", plan_opts, allow_changes,
		 "where it does not fit, also suggest what trains another model"),
	OPT_STRING(0, "sweep", plan_opts, sweep, "batch=1,2,4", NULL,
		   "a table over batches, or seq=512,1024"),
	OPT_STRING(0, "for", plan_opts, paste, "TOOL", NULL,
		   "end with what to paste: trainer, deepspeed, accelerate, torchrun, axolotl, "
		   "llama-factory, torchtune or trl"),
	OPT_STRING(0, "settings", plan_opts, settings, "CONF", NULL, "a PYTORCH_CUDA_ALLOC_CONF"),
	OPT_STRING(0, "torch", plan_opts, torch, "X.Y", NULL,
		   "PyTorch's release (the newest known)"),
	OPT_HEADING("What is kept in the machine's own memory"),
	OPT_OPTIONAL(0, "offload-activations", plan_opts, offload_activations, "HOW", "pinned",
		     activations,
		     "what the backward pass needs: pinned or save-on-cpu (save_on_cpu), "
		     "checkpoints (inputs of checkpointed layers), trl"),
	OPT_OPTIONAL(0, "offload-optimizer", plan_opts, offload_optimizer, "WHERE", "cpu", places,
		     "optimizer, master weights and gradients, as DeepSpeed does: cpu or nvme"),
	OPT_OPTIONAL(0, "offload-params", plan_opts, offload_params, "WHERE", "cpu", places,
		     "sharded parameters with their optimizer: cpu or nvme"),
	OPT_OPTIONAL(0, "save", plan_opts, save, "HOW", "pretrained", saves,
		     "save after training: torch, pretrained, state (accelerate), full "
		     "(FULL_STATE_DICT, offloaded), full-gpu (not offloaded) or sharded"),
	OPT_BYTES(0, "host-memory", plan_opts, host_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "memory of the machine that the job may use"),
	OPT_STRING(0, "transformers", plan_opts, transformers, "X.Y", NULL,
		   "Transformers' release, whose Trainer it is: sets what is not given"),
	OPT_HEADING("A model by numbers, where there is no file"),
	OPT_STRING(0, "params", plan_opts, params, "8B", NULL,
		   "how many parameters it has, where nothing else is known"),
	OPT_U64(0, "layers", plan_opts, layers, "n", 1, 10000, OPT_NONE, "blocks"),
	OPT_U64(0, "hidden", plan_opts, hidden, "n", 1, SIZE_MOST, OPT_NONE, "width"),
	OPT_U64(0, "heads", plan_opts, heads, "n", 1, SIZE_MOST, OPT_NONE, "attention heads"),
	OPT_U64(0, "kv-heads", plan_opts, kv_heads, "n", 1, SIZE_MOST, OPT_NONE,
		"heads of keys and values (as many)"),
	OPT_U64(0, "intermediate", plan_opts, intermediate, "n", 1, SIZE_MOST, OPT_NONE,
		"width of the feed-forward part"),
	OPT_U64(0, "vocab", plan_opts, vocab, "n", 1, SIZE_MOST, OPT_NONE,
		"rows of the embedding (32000)"),
	OPT_HEADING("How to show it"),
	OPT_FLAG('j', "json", plan_opts, json, "print JSON (schema plan/2) instead of text"),
	OPT_FLAG(0, "redact", plan_opts, redact,
		 "nothing of the file's name, and no name that stands in it or in a trace"),
	OPT_STRING('o', "output", plan_opts, output, "FILE", NULL,
		   "also write what a recording of the run would be: FILE.html, a page, or "
		   "FILE.pickle, a "
		   "snapshot for plimsoll diff and PyTorch's viewer"),
	OPT_STYLE(plan_opts),
	OPT_BYTES('m', "max-memory", plan_opts, max_memory, 1 << 20, OPT_NONE, OPT_NONE,
		  "refuse plans that need more of this machine (half of it)"),
	/* as TrainingArguments, TRL, PEFT, LLaMA-Factory, Axolotl, torchrun and vLLM call them */
	OPT_ALIAS("batch-size", "batch", NULL), OPT_ALIAS("micro-batch-size", "batch", NULL),
	OPT_ALIAS("per-device-batch-size", "batch", NULL),
	OPT_ALIAS("per-device-train-batch-size", "batch", NULL),
	OPT_ALIAS("per-device-eval-batch-size", "eval-batch", NULL),
	OPT_ALIAS("seq-len", "seq", NULL), OPT_ALIAS("seq-length", "seq", NULL),
	OPT_ALIAS("sequence-length", "seq", NULL), OPT_ALIAS("sequence-len", "seq", NULL),
	OPT_ALIAS("max-seq-len", "seq", NULL), OPT_ALIAS("max-seq-length", "seq", NULL),
	OPT_ALIAS("max-length", "seq", NULL), OPT_ALIAS("max-model-len", "seq", NULL),
	OPT_ALIAS("cutoff-len", "seq", NULL), OPT_ALIAS("block-size", "seq", NULL),
	OPT_ALIAS("gradient-accumulation-steps", "accumulate", NULL),
	OPT_ALIAS("grad-accum", "accumulate", NULL),
	OPT_ALIAS("gradient-checkpointing", "checkpointing", "full"),
	OPT_ALIAS("activation-checkpointing", "checkpointing", "full"),
	OPT_ALIAS("bf16", "precision", "bf16"), OPT_ALIAS("fp16", "precision", "fp16"),
	OPT_ALIAS_WORDS("dtype", "precision", weights_dtypes),
	OPT_ALIAS_WORDS("torch-dtype", "precision", weights_dtypes),
	OPT_ALIAS("mixed-precision", "precision", NULL),
	OPT_ALIAS("load-in-4bit", "quantize", "nf4"), OPT_ALIAS("load-in-8bit", "quantize", "int8"),
	OPT_ALIAS("quantization", "quantize", NULL),
	OPT_ALIAS("attn-implementation", "attention", NULL),
	OPT_ALIAS("flash-attn", "attention", "flash"),
	OPT_ALIAS("flash-attention", "attention", "flash"), OPT_ALIAS("optim", "optimizer", NULL),
	OPT_ALIAS("lora-r", "lora", NULL), OPT_ALIAS("lora-rank", "lora", NULL),
	OPT_ALIAS("deepspeed", "from", NULL), OPT_ALIAS("config-file", "from", NULL),
	OPT_ALIAS("activation-offloading", "offload-activations", "trl"),
	OPT_ALIAS("cpu-offload", "offload-params", "cpu"), OPT_ALIAS("peft-lora-r", "lora", NULL),
	OPT_ALIAS("use-4bit", "quantize", "nf4"),
	OPT_ALIAS("gradient-accumulation", "accumulate", NULL),
	OPT_ALIAS("pure-bf16", "precision", "bf16-pure"), OPT_ALIAS("context-length", "seq", NULL),
	OPT_ALIAS("fsdp", "parallel", NULL), OPT_ALIAS("deepspeed-config", "from", NULL),
	OPT_ALIAS("lora-target", "lora-targets", NULL),
	OPT_ALIAS("lora-target-modules", "lora-targets", NULL),
	OPT_ALIAS("target-modules", "lora-targets", NULL),
	OPT_ALIAS("max-new-tokens", "new-tokens", NULL), OPT_ALIAS("num-beams", "beams", NULL),
	OPT_ALIAS("inference", "task", "infer"), OPT_ALIAS("use-liger-kernel", "liger", "true"),
	OPT_ALIAS("num-gpus", "gpus", NULL), OPT_ALIAS("nproc-per-node", "gpus", NULL),
	OPT_ALIAS("num-processes", "gpus", NULL), OPT_ALIAS_WORDS("zero", "parallel", zero_stages),
	OPT_ALIAS_WORDS("zero-stage", "parallel", zero_stages),
	OPT_ALIAS("tensor-parallel-size", "tp", NULL),
	OPT_ALIAS("pipeline-parallel-size", "pp", NULL), OPT_ALIAS("gpu-memory", "memory", NULL),
	/* as config.json calls them */
	OPT_ALIAS("hidden-size", "hidden", NULL), OPT_ALIAS("num-hidden-layers", "layers", NULL),
	OPT_ALIAS("num-layers", "layers", NULL), OPT_ALIAS("num-attention-heads", "heads", NULL),
	OPT_ALIAS("num-key-value-heads", "kv-heads", NULL),
	OPT_ALIAS("intermediate-size", "intermediate", NULL),
	OPT_ALIAS("vocab-size", "vocab", NULL), OPT_ALIAS("quantization-bit", "quantize", NULL),
	OPT_ALIAS("double-quantization", "quantize", "nf4-double"),
	OPT_ALIAS("use-bnb-nested-quant", "quantize", "nf4-double"),
	OPT_ALIAS("use-flash-attention-2", "attention", "flash"),
	OPT_ALIAS("use-liger", "liger", "true"), OPT_ALIAS("tp-size", "tp", NULL),
	OPT_ALIAS("world-size", "gpus", NULL),
	OPT_REFUSED("qlora", "QLoRA is --lora RANK with --quantize nf4 (or nf4-double)"),
	OPT_REFUSED("use-peft", "adapters are --lora RANK, with --lora-targets"),
	OPT_REFUSED("finetuning-type", "adapters are --lora RANK; without it all weights train"),
	OPT_REFUSED("lora-alpha", CHANGES_NOTHING), OPT_REFUSED("learning-rate", CHANGES_NOTHING),
	OPT_REFUSED("num-train-epochs", CHANGES_NOTHING), OPT_REFUSED("max-steps", CHANGES_NOTHING),
	OPT_REFUSED("warmup-ratio", CHANGES_NOTHING), OPT_REFUSED("warmup-steps", CHANGES_NOTHING),
	OPT_REFUSED("lr-scheduler-type", CHANGES_NOTHING),
	OPT_REFUSED("weight-decay", CHANGES_NOTHING), OPT_REFUSED("logging-steps", CHANGES_NOTHING),
	OPT_REFUSED("save-steps", CHANGES_NOTHING), OPT_REFUSED("output-dir", CHANGES_NOTHING),
	OPT_REFUSED("do-train", CHANGES_NOTHING), OPT_REFUSED("packing", PACKED),
	OPT_REFUSED("sample-packing", PACKED),
	OPT_REFUSED("neftune-noise-alpha",
		    "noise in the embeddings is not planned: a script that adds it is traced with "
		    "plan -- python train.py"),
	OPT_REFUSED("gpu-memory-utilization",
		    "a server's own share of the card is --memory: 0.9 of 80GiB is 72GiB"),
	OPT_REFUSED("torch-compile",
		    "torch.compile is not planned: without it, what is said is of the eager run; a "
		    "script that compiles is traced with plan -- python train.py"),
	OPT_REFUSED("compile",
		    "torch.compile is not planned: without it, what is said is of the eager run; a "
		    "script that compiles is traced with plan -- python train.py"),
	OPT_REFUSED("use-unsloth",
		    "Unsloth's kernels are not planned: without it, what is said is of "
		    "Transformers' modules, which need more"),
	OPT_REFUSED("kv-cache-dtype",
		    "keys and values are planned in 16 bits alone: --cache dynamic "
		    "or static"),
	OPT_REFUSED("auto-find-batch-size", "--max-batch finds the largest batch that fits"),
	OPT_END
};

static uint64_t given(uint64_t n)
{
	return n == OPT_NONE ? 0 : n;
}

/* What is not given is as files say it, or 1. */
static uint64_t or_one(const struct plan_opts *o, uint64_t n)
{
	return n != OPT_NONE ? n : !o->from.n;
}

static uint32_t flags_of(const struct plan_opts *o)
{
	const struct {
		bool given;
		uint32_t flag;
	} flags[] = {
		{ o->no_clip, PLIM_PLAN_NO_CLIP },
		{ o->in_backward, PLIM_PLAN_OPTIMIZER_IN_BACKWARD },
		{ o->liger, PLIM_PLAN_LIGER },
		{ o->keep_outputs, PLIM_PLAN_KEEP_OUTPUTS },
		{ o->no_cache, PLIM_PLAN_NO_CACHE },
		{ o->sequence_parallel, PLIM_PLAN_SEQUENCE_PARALLEL },
		{ o->max_batch, PLIM_PLAN_MAX_BATCH },
		{ o->max_seq, PLIM_PLAN_MAX_SEQUENCE },
		{ o->allow_changes, PLIM_PLAN_ALLOW_CHANGES },
		{ o->padded, PLIM_PLAN_PADDED },
		{ o->grouped, PLIM_PLAN_GROUPED },
		{ o->redact, PLIM_PLAN_REDACT },
	};
	uint32_t all = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		all |= flags[i].given ? flags[i].flag : 0;
	return all;
}

static void fill(const struct plan_opts *o, struct plim_plan_options *to)
{
	plim_plan_options_init(to);
	to->flags = flags_of(o);
	to->max_memory_bytes = given(o->max_memory);
	to->layers = given(o->layers);
	to->hidden = given(o->hidden);
	to->heads = given(o->heads);
	to->kv_heads = given(o->kv_heads);
	to->intermediate = given(o->intermediate);
	to->vocab = given(o->vocab);
	to->task = o->task;
	to->precision = o->precision;
	to->optimizer = o->optimizer;
	to->attention = o->attention;
	to->checkpointing = o->checkpointing;
	to->batch = or_one(o, o->batch);
	to->sequence = given(o->seq);
	to->accumulate = or_one(o, o->accumulate);
	to->steps = o->steps;
	to->lora_rank = given(o->lora);
	to->lora_targets = o->lora_targets;
	to->eval_batch = given(o->eval_batch);
	to->new_tokens = given(o->new_tokens);
	to->settings = o->settings;
	to->extra_tensors = o->extra_tensors.at;
	to->extra_tensor_count = o->extra_tensors.n;
	to->calibrate = o->calibrate.at;
	to->calibrate_count = o->calibrate.n;
	to->recorded = o->recorded.at;
	to->recorded_count = o->recorded.n;
	to->residents = given(o->residents);
	to->component_bytes = given(o->component_bytes);
	to->gpus = or_one(o, o->gpus);
	to->parallel = o->parallel;
	to->tensor_parallel = given(o->tp);
	to->pipeline_parallel = given(o->pp);
	to->micro_batches = given(o->micro_batches);
	to->schedule = o->schedule;
	to->stage = given(o->stage);
	to->memory_bytes = o->memory == OPT_NONE ? PLIM_UNKNOWN : o->memory;
	to->gpu = o->gpu;
	to->sweep = o->sweep;
	to->activations = o->offload_activations;
	to->optimizer_on = o->offload_optimizer;
	to->parameters_on = o->offload_params;
	to->save = o->save;
	to->load = o->load;
	to->host_memory_bytes = o->host_memory == OPT_NONE ? PLIM_UNKNOWN : o->host_memory;
	to->loss = o->loss;
	to->loss_chunk = given(o->loss_chunk);
	to->longest = given(o->longest);
	to->lengths = o->lengths;
	to->quantize = o->quantize;
	if (o->allowance != OPT_NONE)
		to->allowance_bytes = o->allowance;
	to->beams = o->beams;
	to->cache = o->cache;
	to->paste = o->paste;
	to->from_files = o->from.at;
	to->from_count = o->from.n;
	to->lora_dropout = o->lora_dropout;
}

/* "8B", "0.5b", "350M", "8030261248"; false: none of them. */
static bool read_count(const char *text, uint64_t *count)
{
	static const struct {
		char letter;
		double times;
	} suffixes[] = { { 0, 1 }, { 'K', 1e3 }, { 'M', 1e6 }, { 'B', 1e9 }, { 'T', 1e12 } };
	char *end;
	double n = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;

	for (size_t i = 0; n > 0 && n < 1e15 && i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (toupper((unsigned char)*end) == suffixes[i].letter && (!*end || !end[1])) {
			*count = (uint64_t)(n * suffixes[i].times);
			return *count > 0 && n * suffixes[i].times < 1e15;
		}
	return false;
}

#define SIDE_MOST 65536u

/* "448" or "672x448". */
static bool read_sides(const char *text, uint64_t *height, uint64_t *width)
{
	uint64_t *const side[] = { height, width };

	for (unsigned i = 0; text && i < 2; i++) {
		char *end;

		*side[i] = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
		if (!*side[i] || *side[i] > SIDE_MOST || (*end && (i || *end != 'x')))
			return false;
		text = *end ? end + 1 : NULL;
	}
	return true;
}

const struct opt_table plan_recipe = { plan_opt, sizeof(struct plan_opts) };

int plan_recipe_take(const void *values, struct plim_plan_options *out)
{
	const struct plan_opts *o = values;

	if (!o) {
		cmd_say("out of memory");
		return CMD_MACHINE;
	}
	fill(o, out);
	if (!read_sides(o->image_size, &out->image_size, &out->image_width))
		return cmd_usage("--image-size takes pixels, like 448 or 672x448, not '%s'",
				 o->image_size);
	if (!read_sides(o->image_grid, &out->image_grid, &out->image_grid_width))
		return cmd_usage("--image-grid takes patches, like 32 or 48x32, not '%s'",
				 o->image_grid);
	if (o->params && !read_count(o->params, &out->parameters))
		return cmd_usage("--params takes a number of parameters, like 8B or 350M, not '%s'",
				 o->params);
	if (o->transformers && !cmd_release(o->transformers, 4, 9, &out->transformers))
		return cmd_usage("--transformers takes a release from 4.0 on, like 4.46, not '%s'",
				 o->transformers);
	if (o->memory != OPT_NONE && o->gpu)
		return cmd_usage("--memory and --gpu exclude each other");
	if (o->torch && !cmd_torch_release(o->torch, &out->torch))
		return cmd_usage("--torch takes a release from 2.1 on, like 2.11, not '%s'",
				 o->torch);
	return CMD_DONE;
}

/* What is printed is on the page too. */
static enum plim_status answer(const struct plim_plan *p, struct plim_page *page,
			       struct plim_err *err)
{
	struct plim_text_style style = cmd_answer_style();
	struct cmd_answer words = { 0 };
	enum plim_status st = plim_plan_text(p, &style, cmd_collect, &words.text, err);

	if (!st)
		st = plim_plan_json(p, cmd_collect, &words.json, err);
	return cmd_answer_end(&words, page, st, err);
}

static enum plim_status keep(const struct plan_opts *o, const struct plim_plan *p,
			     struct plim_err *err)
{
	struct plim_page *page;
	enum plim_status st;

	if (!cmd_is_page(o->output))
		return plim_plan_snapshot(p, o->output, err);
	st = cmd_page_new(o->max_memory, &page, err);
	if (!st)
		st = plim_plan_page(p, page, err);
	if (!st)
		st = answer(p, page, err);
	if (!st)
		return cmd_page_end(page, o->output, err);
	plim_page_free(page);
	return st;
}

/* Where a limit was given: does it surely fit?  What cannot be judged does not. */
static bool fits(const struct plim_plan *p)
{
	if (p->limit_bytes != PLIM_UNKNOWN && p->fits != PLIM_TRI_YES)
		return false;
	return p->host.fits != PLIM_TRI_NO;
}

/* Is it named so that the trace itself is what is kept? */
static bool is_trace(const char *path)
{
	size_t n = path ? strlen(path) : 0;

	return n > 8 && !strcmp(path + n - 8, ".json.gz");
}

/* A file for a trace that nobody keeps. */
static int spare_file(char path[4096])
{
	const char *folder = getenv("TMPDIR");
	int fd;

	(void)snprintf(path, 4096, "%s/plimsoll-trace-XXXXXX.json.gz",
		       folder && *folder ? folder : "/tmp");
	fd = mkstemps(path, 8);
	if (fd < 0) {
		cmd_say("cannot write '%s': %s", path, strerror(errno));
		*path = 0;
		return CMD_MACHINE;
	}
	close(fd);
	return CMD_DONE;
}

/* Where the trace is kept: in a file that is gone afterwards, unless it is asked for. */
static int trace_file(const struct plan_opts *o, char path[4096])
{
	if (!is_trace(o->output))
		return spare_file(path);
	(void)snprintf(path, 4096, "%s", o->output);
	return CMD_DONE;
}

/* The other batch that is to be traced for a sweep or the largest batch: the largest of the sweep, or twice this one. */
static uint64_t other_batch(const struct plan_opts *o)
{
	uint64_t batch = or_one(o, o->batch), most = o->max_batch ? 2 * batch : 0;
	const char *s = o->sweep && !strncmp(o->sweep, "batch=", 6) ? o->sweep + 6 : "";

	while (isdigit((unsigned char)*s)) {
		char *end;
		uint64_t n = strtoull(s, &end, 10);

		most = n > most ? n : most;
		s = *end == ',' ? end + 1 : end;
	}
	return most == batch && *s != ',' && o->sweep ? 2 * most : most;
}

/* Does a script's command line take a size: "--batch-size {batch}"? */
static bool takes(int argc, char **argv, const char *mark)
{
	for (int i = 0; i < argc; i++)
		if (strstr(argv[i], mark))
			return true;
	return false;
}

/* What is looked for needs sizes that only the script's command line can be given. */
static int refuse_sizes(const struct plan_opts *o, int argc, char **argv)
{
	bool batches = o->max_batch || (o->sweep && !strncmp(o->sweep, "batch", 5));
	bool sequences = o->max_seq || (o->sweep && !strncmp(o->sweep, "seq", 3));

	if (batches && sequences)
		return cmd_usage(
			"of a trace batches or sequences are looked for, not both at once");
	if (argc > 1 && ((batches && !takes(argc, argv, "{batch}")) ||
			 (sequences && !takes(argc, argv, "{seq}"))))
		return cmd_usage("a script says its %s itself; where it takes it as an argument, "
				 "write %s in its place: plan --max-%s -- python train.py --%s %s",
				 batches ? "batch" : "sequence", batches ? "{batch}" : "{seq}",
				 batches ? "batch" : "seq", batches ? "batch-size" : "length",
				 batches ? "{batch}" : "{seq}");
	return CMD_DONE;
}

/* A trace runs PyTorch as these options say, and no others: none is left out without a word. */
static int refuse_untraced(const struct plan_opts *o, int argc, char **argv)
{
	bool script = argc > 1;
	const struct {
		bool given, of_scripts; /* alone: a script says these itself */
		const char *name;
	} rows[] = {
		{ o->quantize, false, "--quantize" },
		{ o->longest != OPT_NONE || o->lengths || o->padded || o->grouped, false,
		  "--longest, --lengths, --padded or --grouped" },
		{ o->loss || o->loss_chunk != OPT_NONE, false, "--loss" },
		{ o->eval_batch != OPT_NONE, false, "--eval-batch" },
		{ o->image_size || o->image_grid, false, "--image-size" },
		{ o->beams > 1 || o->cache || o->no_cache, false,
		  "--beams, --cache or --no-cache" },
		{ o->extra_tensors.n || o->residents != OPT_NONE, false,
		  "--extra-tensor or --resident" },
		{ o->tp != OPT_NONE || o->pp != OPT_NONE, false,
		  "--tp or --pp: without --trace, tables do: plan CONFIG --gpus N --tp N; a trace "
		  "does --parallel fsdp2 or ddp" },
		{ (o->gpus != OPT_NONE && o->gpus > 1) || o->parallel, true,
		  "--gpus or --parallel" },
		{ o->from.n || o->lora_dropout, false, "--from or --lora-dropout" },
		{ o->offload_activations || o->offload_optimizer || o->offload_params || o->save,
		  false, "offloading or --save" },
		{ o->batch != OPT_NONE && !takes(argc, argv, "{batch}"), true, "--batch" },
		{ o->seq != OPT_NONE && !takes(argc, argv, "{seq}"), true, "--seq" },
		{ o->accumulate != OPT_NONE, true, "--accumulate" },
		{ o->precision || o->optimizer || o->attention || o->checkpointing, true,
		  "--precision, --optimizer, --attention or --checkpointing" },
		{ o->lora != OPT_NONE || o->lora_targets, true, "--lora" },
		{ o->task || o->new_tokens != OPT_NONE, true, "--task or --new-tokens" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].given && !rows[i].of_scripts)
			return cmd_usage("a trace does not do %s", rows[i].name);
		if (rows[i].given && script)
			return cmd_usage("%s: a script that is traced says that itself",
					 rows[i].name);
	}
	return refuse_sizes(o, argc, argv);
}

/* A rung of the ladder is traced again; what stops that is no news. */
struct again {
	char **argv;
	int argc;
	char path[4096];
};

static int trace_rung(void *ctx, const struct plim_plan_options *o, const char **path)
{
	struct again *a = ctx;

	if (isatty(STDERR_FILENO)) /* elsewhere the trace says what it does if it takes long */
		cmd_say("tracing what may help: batch %llu%s, %s, %s%s%s ...",
			(unsigned long long)o->batch, o->accumulate > 1 ? " at a time" : "",
			o->precision, o->optimizer, o->checkpointing ? ", checkpointed" : "",
			o->lora_rank ? ", with LoRA" : "");
	*path = a->path;
	return cmd_trace(o, a->argv, a->argc, NULL, a->path, true);
}

#define PROOFS 3

/*
 * The answer of --max-batch or --max-seq, if it is one that was not traced itself; one sample is nothing to draw a line
 * from (plan_last traces it).
 */
static uint64_t unproven(const struct plan_opts *o, const struct plim_plan *p, uint64_t proven)
{
	uint64_t most = o->max_batch ? p->max_batch_range.low
			: o->max_seq ? p->max_sequence_range.low
				     : PLIM_UNKNOWN;
	uint64_t traced = o->max_batch ? p->batch : p->sequence;

	return most == PLIM_UNKNOWN || most < 2 || most == proven || most == traced ? 0 : most;
}

/* Is anything left to be traced: changes of what does not fit, or sizes that are not between those that were? */
static bool is_open(const struct plan_opts *o, const struct plim_plan *p)
{
	bool open = p->fits == PLIM_TRI_NO || (o->max_batch && p->max_batch == PLIM_UNKNOWN) ||
		    (o->max_seq && p->max_sequence == PLIM_UNKNOWN);

	for (size_t i = 0; i < p->sweep_count; i++)
		open = open || (p->fits && !p->sweep[i].fits);
	return open;
}

/*
 * Traces and plans.  The largest batch or sequence that fits is first one on a line through others; then it is traced
 * itself, until the answer is one that was.
 */
static int plan_traced(const struct plan_opts *o, const struct plim_plan_options *options, int argc,
		       char **argv, const char *path, struct plim_plan **out)
{
	bool sweeps = o->sweep && !strncmp(o->sweep, "seq=", 4);
	struct cmd_trace_others others = { other_batch(o), sweeps       ? o->sweep + 4
							   : o->max_seq ? "0"
									: NULL };
	uint64_t proven = others.batch;
	char number[24];
	struct plim_err err;
	int code;

	*out = NULL;
	for (int i = 0; i <= PROOFS; i++) {
		code = cmd_trace(options, argv, argc, &others, path, false);
		if (code)
			return code;
		plim_plan_free(*out);
		*out = NULL;
		if (plim_plan_open(path, options, out, &err))
			return cmd_fail(&err);
		proven = unproven(o, *out, proven);
		if (!proven)
			return CMD_DONE;
		(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)proven);
		if (o->max_batch)
			others.batch = proven;
		else
			others.sequences = number;
	}
	return CMD_DONE;
}

/* The same trace, with what is left open traced as well: rungs, and sizes by themselves. */
static int plan_last(const struct plim_plan_options *options, struct again *again, const char *path,
		     struct plim_plan **out)
{
	struct plim_plan_options o = *options;
	struct plim_err err;
	int code = spare_file(again->path);

	if (code)
		return code;
	plim_plan_free(*out);
	o.trace = trace_rung;
	o.trace_ctx = again;
	return plim_plan_open(path, &o, out, &err) ? cmd_fail(&err) : CMD_DONE;
}

static int plan_open(const struct plan_opts *o, const struct plim_plan_options *options, int argc,
		     char **argv, struct plim_plan **out)
{
	bool traces = o->trace || argc > 1;
	struct again again = { .argv = argv, .argc = argc };
	char path[4096] = "";
	struct plim_err err;
	int code;

	if (!traces)
		return plim_plan_open(argc ? argv[0] : NULL, options, out, &err)
			       ? cmd_fail_on(argc ? argv[0] : NULL, "plan", &err)
			       : CMD_DONE;
	code = refuse_untraced(o, argc, argv);
	if (!code)
		code = trace_file(o, path);
	if (!code)
		code = plan_traced(o, options, argc, argv, path, out);
	if (!code && argc == 1 && is_open(o, *out)) /* a script says its recipe itself */
		code = plan_last(options, &again, path, out);
	if (*path && !is_trace(o->output))
		unlink(path);
	if (*again.path)
		unlink(again.path);
	return code;
}

static int plan_shown(const struct plan_opts *o, int argc, char **argv)
{
	bool traces = o->trace || argc > 1;
	struct plim_text_style style = cmd_style(o->width, o->no_color);
	struct plim_plan_options options;
	struct plim_plan *p = NULL;
	struct plim_err err;
	int code = plan_recipe_take(o, &options);

	if (code)
		return code;
	if (argc > 1 && !strstr(argv[0], "python") && !strstr(argv[0], "torchrun") &&
	    !strstr(argv[0], "accelerate"))
		return cmd_usage("one model; or a command to trace: plan -- python train.py");
	if (traces && !argc)
		return cmd_usage(
			"--trace what: a config.json, MODULE:FUNCTION, or -- python train.py");
	if (o->redact && o->output && traces)
		return cmd_usage("what is kept of a trace has the names of its modules: not with "
				 "--redact");
	code = plan_open(o, &options, argc, argv, &p);
	if (code) {
		plim_plan_free(p);
		return code;
	}
	if (!o->quiet && (o->json ? plim_plan_json(p, cmd_to_stdout, NULL, &err)
				  : plim_plan_text(p, &style, cmd_to_stdout, NULL, &err)))
		code = cmd_fail(&err);
	if (code == CMD_DONE && o->output && !(traces && is_trace(o->output)) && keep(o, p, &err))
		code = cmd_fail(&err);
	if (code == CMD_DONE && !fits(p))
		code = CMD_FAILED;
	plim_plan_free(p);
	return code;
}

static int plan_run(const void *values, int argc, char **argv)
{
	static const char *const suffixes[] = { ".html", ".htm",     ".pickle", ".pkl",
						".plim", ".json.gz", NULL };
	struct plan_opts o = *(const struct plan_opts *)values;
	struct output out;
	int code;

	if (!o.output)
		return plan_shown(&o, argc, argv);
	code = cmd_output_begin(&out, o.output, suffixes, argv, argc);
	if (code != CMD_DONE)
		return code;
	o.quiet = cmd_output_is_stdout(&out);
	o.output = out.path;
	return cmd_output_end(&out, plan_shown(&o, argc, argv));
}

static const struct cmd_example plan_examples[] = {
	{ "plimsoll plan config.json --batch 8 --seq 2048 --gpu \"A100 40GB\"",
	  "does it fit, and if not when does it die" },
	{ "plimsoll plan config.json --seq 4096 --checkpointing --memory 24GiB --max-batch",
	  "the largest batch" },
	{ "plimsoll plan config.json --sweep batch=1,2,4,8", "a table" },
	{ "plimsoll plan config.json --batch 16 --calibrate run.pickle --recorded batch=2",
	  "learn from a recording of a small run, plan a large one" },
	{ "plimsoll plan --layers 24 --hidden 2048 --heads 16 --task generate --new-tokens 256",
	  "a model by numbers" },
	{ "plimsoll plan --trace config.json --batch 4 --gpu H100",
	  "an architecture that is not known here: PyTorch runs it, without a GPU" },
	{ "plimsoll plan --gpu H100 -- python train.py", "a script as it is, for two steps" },
	{ "plimsoll plan config.json --memory 24GiB -o plan.html",
	  "the same as a page, up to where it dies" },
	{ NULL, NULL },
};

const struct cmd cmd_plan = {
	.name = "plan",
	.summary = "what a run will need, phase by phase, before it runs",
	.args = "[MODEL | -- COMMAND...]",
	.about = "Reads a model (config.json of Hugging Face, a safetensors file, a folder of "
		 "either, or numbers) and makes the requests that PyTorch would make of the GPU's "
		 "memory in a run: every tensor as autograd, autocast and the optimizer take and "
		 "drop it.  They go through the model of PyTorch's caching allocator.  Nothing is "
		 "run, and no GPU is needed.\n\n"
		 "The answer is \"needed\": the smallest memory limit under which the run "
		 "completes.  It lies between allocated and reserved memory.\n\n"
		 "A model that is not known here, and any module or script of yours, is traced: "
		 "--trace "
		 "(docs/trace.md).",
	.examples = plan_examples,
	.opts = plan_opt,
	.opts_size = sizeof(struct plan_opts),
	.min_args = 0,
	.max_args = -1,
	.run = plan_run,
};
