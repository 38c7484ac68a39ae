/*
 * Which program wrote a log, and what it was doing: words that only this program, or only this activity, writes.  Advice
 * is chosen by both (diagnose/advice.c), so a cue must not fit another program: names of packages in paths, of commands,
 * of classes in messages.  Of several engines the one whose row stands first counts: what serves or draws stands in front
 * of the libraries it is built on.  No cue is an answer, too.
 */
#include "scan.h"

#include <string.h>

#define E(engine) MESSAGES_ENGINE_##engine
#define A(activity) MESSAGES_DOING_##activity
#define ANY_ENGINE MESSAGES_ENGINE_UNKNOWN
#define ANY_ACTIVITY MESSAGES_DOING_UNKNOWN

const char *const messages_engine_names[MESSAGES_ENGINES] = {
	"unknown",      "vLLM",         "SGLang",
	"TGI",          "TensorRT-LLM", "Triton Inference Server",
	"ollama",       "llama.cpp",    "ComfyUI",
	"A1111",        "InvokeAI",     "diffusers",
	"TensorRT",     "ONNX Runtime", "MLX",
	"PaddlePaddle", "Caffe",        "JAX",
	"TensorFlow",   "RAPIDS",       "DeepSpeed",
	"PyTorch",
};
const char *const messages_activity_names[MESSAGES_DOINGS] = {
	"unknown", "training", "evaluation", "generating",
	"serving", "loading",  "converting", "compiling",
};

const struct scan_cue scan_cues[] = {
	{ "vllm serve", E(VLLM), A(SERVING) },
	{ "vllm.entrypoints", E(VLLM), A(SERVING) },
	{ "VllmWorker", E(VLLM), A(SERVING) },
	{ "/vllm/v1/", E(VLLM), A(SERVING) },
	{ "/vllm/worker/", E(VLLM), A(SERVING) },
	{ "/vllm/engine/", E(VLLM), A(SERVING) },
	{ "/vllm/", E(VLLM), ANY_ACTIVITY },
	{ "import vllm", E(VLLM), ANY_ACTIVITY },
	{ "sglang.launch_server", E(SGLANG), A(SERVING) },
	{ "/sglang/srt/", E(SGLANG), A(SERVING) },
	{ "sglang", E(SGLANG), ANY_ACTIVITY },
	{ "text-generation-launcher", E(TGI), A(SERVING) },
	{ "text_generation_server", E(TGI), A(SERVING) },
	{ "tensorrt_llm", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "TensorRT-LLM", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "trtllm-serve", E(TENSORRT_LLM), A(SERVING) },
	{ "trtllm-build", E(TENSORRT_LLM), A(CONVERTING) },
	{ "tritonserver", E(TRITON_SERVER), A(SERVING) },
	{ "ollama", E(OLLAMA), A(SERVING) },
	{ "llama_model_load", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "llama_init_from", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "llama_context", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "llama_kv_cache", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "llama-server", E(LLAMA_CPP), A(SERVING) },
	{ "llama-cli", E(LLAMA_CPP), A(GENERATING) },
	{ "llama.cpp", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "llama_cpp", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "whisper.cpp", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "koboldcpp", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ggml_backend", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ggml_cuda", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ggml_vulkan", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ggml_metal", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ggml_gallocr", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "ComfyUI", E(COMFYUI), A(GENERATING) },
	{ "comfy/model_management", E(COMFYUI), A(GENERATING) },
	{ "comfy_extras", E(COMFYUI), A(GENERATING) },
	{ "stable-diffusion-webui", E(A1111), A(GENERATING) },
	{ "modules/processing.py", E(A1111), A(GENERATING) },
	{ "modules\\processing.py", E(A1111), A(GENERATING) },
	{ "modules/call_queue.py", E(A1111), A(GENERATING) },
	{ "--medvram", E(A1111), A(GENERATING) },
	{ "invokeai", E(INVOKEAI), A(GENERATING) },
	{ "/diffusers/pipelines/", E(DIFFUSERS), A(GENERATING) },
	{ "\\diffusers\\pipelines\\", E(DIFFUSERS), A(GENERATING) },
	{ "StableDiffusionPipeline", E(DIFFUSERS), A(GENERATING) },
	{ "/diffusers/", E(DIFFUSERS), ANY_ACTIVITY },
	{ "tensorrt", E(TENSORRT), ANY_ACTIVITY },
	{ "trtexec", E(TENSORRT), A(CONVERTING) },
	{ "[TRT] ", E(TENSORRT), ANY_ACTIVITY },
	{ "onnxruntime", E(ONNX_RUNTIME), ANY_ACTIVITY },
	{ "mlx_lm", E(MLX), A(GENERATING) },
	{ "mlx.core", E(MLX), ANY_ACTIVITY },
	{ "import mlx", E(MLX), ANY_ACTIVITY },
	{ "/mlx/", E(MLX), ANY_ACTIVITY },
	{ "paddle/fluid", E(PADDLE), ANY_ACTIVITY },
	{ "/paddle/", E(PADDLE), ANY_ACTIVITY },
	{ "PaddlePaddle", E(PADDLE), ANY_ACTIVITY },
	{ "import paddle", E(PADDLE), ANY_ACTIVITY },
	{ "caffe/src", E(CAFFE), ANY_ACTIVITY },
	{ "syncedmem.cpp", E(CAFFE), ANY_ACTIVITY },
	{ "jaxlib", E(JAX), ANY_ACTIVITY },
	{ "/jax/_src/", E(JAX), ANY_ACTIVITY },
	{ "XlaRuntimeError", E(JAX), ANY_ACTIVITY },
	{ "jax.errors", E(JAX), ANY_ACTIVITY },
	{ "import jax", E(JAX), ANY_ACTIVITY },
	{ "tensorflow/", E(TENSORFLOW), ANY_ACTIVITY },
	{ "import tensorflow", E(TENSORFLOW), ANY_ACTIVITY },
	{ "tensorflow.python", E(TENSORFLOW), ANY_ACTIVITY },
	{ "/keras/", E(TENSORFLOW), ANY_ACTIVITY },
	{ "cupy_backends", E(RAPIDS), ANY_ACTIVITY },
	{ "cupy.cuda", E(RAPIDS), ANY_ACTIVITY },
	{ "/cudf/", E(RAPIDS), ANY_ACTIVITY },
	{ "rmm::bad_alloc", E(RAPIDS), ANY_ACTIVITY },
	{ "/rmm/mr/", E(RAPIDS), ANY_ACTIVITY },
	{ "/deepspeed/", E(DEEPSPEED), ANY_ACTIVITY },
	{ "[deepspeed]", E(DEEPSPEED), ANY_ACTIVITY },
	{ "/torch/", E(PYTORCH), ANY_ACTIVITY },
	{ "\\torch\\", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.cuda.", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.OutOf", E(PYTORCH), ANY_ACTIVITY },
	{ "pytorch", E(PYTORCH), ANY_ACTIVITY },
	{ "torchrun", E(PYTORCH), ANY_ACTIVITY },
	/* what it was doing, whoever did it */
	{ "/transformers/trainer.py", ANY_ENGINE, A(TRAINING) },
	{ "/trl/trainer/", ANY_ENGINE, A(TRAINING) },
	{ "lightning/pytorch/loops", ANY_ENGINE, A(TRAINING) },
	{ "pytorch_lightning/", ANY_ENGINE, A(TRAINING) },
	{ "deepspeed/runtime/engine", ANY_ENGINE, A(TRAINING) },
	{ "training_step", ANY_ENGINE, A(TRAINING) },
	{ "train_step", ANY_ENGINE, A(TRAINING) },
	{ "train_one_epoch", ANY_ENGINE, A(TRAINING) },
	{ "trainer.train(", ANY_ENGINE, A(TRAINING) },
	{ "trainer.fit(", ANY_ENGINE, A(TRAINING) },
	{ "model.fit(", ANY_ENGINE, A(TRAINING) },
	{ "loss.backward", ANY_ENGINE, A(TRAINING) },
	{ ".backward(", ANY_ENGINE, A(TRAINING) },
	{ "optimizer.step", ANY_ENGINE, A(TRAINING) },
	{ "grad_norm", ANY_ENGINE, A(TRAINING) },
	{ "train_loss", ANY_ENGINE, A(TRAINING) },
	{ "'loss': ", ANY_ENGINE, A(TRAINING) },
	{ "learning_rate", ANY_ENGINE, A(TRAINING) },
	{ "Epoch: ", ANY_ENGINE, A(TRAINING) },
	{ "Epoch [", ANY_ENGINE, A(TRAINING) },
	{ "epoch=", ANY_ENGINE, A(TRAINING) },
	{ "train.py", ANY_ENGINE, A(TRAINING) },
	{ "finetune", ANY_ENGINE, A(TRAINING) },
	{ "fine-tun", ANY_ENGINE, A(TRAINING) },
	{ "convert_hf_to_gguf", E(LLAMA_CPP), A(CONVERTING) },
	{ "torch.onnx.export", ANY_ENGINE, A(CONVERTING) },
	{ "torch/_inductor/", ANY_ENGINE, A(COMPILING) },
	{ "inference.py", ANY_ENGINE, A(GENERATING) },
	{ "predict.py", ANY_ENGINE, A(GENERATING) },
	{ "model.generate(", ANY_ENGINE, A(GENERATING) },
	{ "pipeline(", ANY_ENGINE, A(GENERATING) },
	{ "uvicorn", ANY_ENGINE, A(SERVING) },
	{ "gunicorn", ANY_ENGINE, A(SERVING) },
};
const size_t scan_cue_count = sizeof(scan_cues) / sizeof(scan_cues[0]);

enum plim_status scan_cues_begin(struct messages_log *log, struct plim_err *err)
{
	enum plim_status st = vec_need(log->mem, &log->cues, scan_cue_count, err);

	if (!st && !log->cues.n) {
		memset(log->cues.at, 0, scan_cue_count * sizeof(*log->cues.at));
		log->cues.n = scan_cue_count;
	}
	return st;
}

void scan_cue_seen(struct messages_log *log, size_t cue, uint32_t file, uint64_t line)
{
	struct messages_cue_seen *seen = &log->cues.at[cue];

	if (!seen->line)
		*seen = (struct messages_cue_seen){ file, line };
}

/* ---- of one failure ---- */

/* Wordings that only one engine writes: a whole family, or parts of a pattern. */
static enum messages_engine engine_of_wording(const struct messages_wording *w)
{
	static const uint8_t engines[MESSAGES_FAMILIES] = {
		[MESSAGES_PYTORCH] = E(PYTORCH),
		[MESSAGES_DATALOADER] = E(PYTORCH),
		[MESSAGES_JAX] = E(JAX),
		[MESSAGES_TENSORFLOW] = E(TENSORFLOW),
		[MESSAGES_LLAMA_CPP] = E(LLAMA_CPP),
		[MESSAGES_SERVING] = E(VLLM),
	};
	static const struct {
		const char *part;
		enum messages_engine engine;
	} parts[] = {
		{ "mem-fraction-static", E(SGLANG) },
		{ "prefill tokens", E(TGI) },
		{ "Requested amount of GPU memory", E(TENSORRT) },
		{ "BFCArena::", E(ONNX_RUNTIME) },
		{ "is smaller than requested bytes", E(ONNX_RUNTIME) },
		{ "(allocated so far", E(RAPIDS) },
		{ "std::bad_alloc: out_of_memory", E(RAPIDS) },
		{ "Out of memory error on GPU", E(PADDLE) },
		{ "requires more system memory", E(OLLAMA) },
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(w->pattern, parts[i].part))
			return parts[i].engine;
	return (enum messages_engine)engines[w->family];
}

/* What the traceback shows is nearer than any word of the log. */
static enum messages_activity activity_of_moment(enum messages_moment moment)
{
	static const uint8_t activities[MESSAGES_MOMENTS] = {
		[MESSAGES_LOADING] = A(LOADING),     [MESSAGES_BACKWARD] = A(TRAINING),
		[MESSAGES_FIRST_STEP] = A(TRAINING), [MESSAGES_OPTIMIZER] = A(TRAINING),
		[MESSAGES_EVAL] = A(EVALUATION),     [MESSAGES_GENERATION] = A(GENERATING),
	};

	return (enum messages_activity)activities[moment];
}

/* Is the first row better than the second, 0: none? */
static int is_before(enum messages_engine a, enum messages_engine b)
{
	/* MLX's Metal errors are worded as ggml's are */
	return a && (!b || a < b || (a == E(MLX) && b == E(LLAMA_CPP)));
}

/* May a log whose failure is written by the first be one of the second?  PyTorch and ggml are inside of others. */
static int may_be(enum messages_engine own, enum messages_engine other)
{
	return !own || own == E(PYTORCH) ||
	       (own == E(LLAMA_CPP) && (other == E(OLLAMA) || other == E(MLX)));
}

/* MPS, XPU, TPU and ROCm have settings of their own; the words that tell them are those of the failure itself. */
static enum messages_backend backend_of(const struct messages_event *e)
{
	static const struct {
		const char *word;
		enum messages_backend backend;
	} words[] = {
		{ "MPS ", MESSAGES_BACKEND_MPS },      { "Metal", MESSAGES_BACKEND_MPS },
		{ "METAL", MESSAGES_BACKEND_MPS },     { "IOGPU", MESSAGES_BACKEND_MPS },
		{ "HIP ", MESSAGES_BACKEND_ROCM },     { "hip", MESSAGES_BACKEND_ROCM },
		{ "ROCm", MESSAGES_BACKEND_ROCM },     { "XPU", MESSAGES_BACKEND_XPU },
		{ "Vulkan", MESSAGES_BACKEND_VULKAN }, { "vk::", MESSAGES_BACKEND_VULKAN },
		{ "hbm", MESSAGES_BACKEND_TPU },       { "TPU", MESSAGES_BACKEND_TPU },
		{ "DEVMEM", MESSAGES_BACKEND_OTHER },
	};

	if (e->wording->family == MESSAGES_ROCM)
		return MESSAGES_BACKEND_ROCM;
	if (e->wording->family == MESSAGES_XPU)
		return MESSAGES_BACKEND_XPU;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(e->text, words[i].word))
			return words[i].backend;
	return MESSAGES_BACKEND_CUDA;
}

/* A word far above a failure, of another run in the same log, still tells the engine: logs are of one program as a rule. */
void messages_find_context(const struct messages_log *log, const struct messages_event *e,
			   struct messages_context *out)
{
	enum messages_engine own = engine_of_wording(e->wording);

	*out = (struct messages_context){ .engine = own,
					  .activity = activity_of_moment(e->traceback.moment),
					  .backend = backend_of(e),
					  .engine_line = own ? e->line : 0 };
	if (out->activity)
		out->activity_line = e->line;
	for (size_t i = 0; i < log->cues.n; i++) {
		const struct scan_cue *cue = &scan_cues[i];
		const struct messages_cue_seen *seen = &log->cues.at[i];

		if (!seen->line)
			continue;
		if (is_before(cue->engine, out->engine) && may_be(own, cue->engine)) {
			out->engine = cue->engine;
			out->engine_line = seen->line;
			out->engine_cue = cue->word;
		}
		if (cue->activity && !out->activity) {
			out->activity = cue->activity;
			out->activity_line = seen->line;
			out->activity_cue = cue->word;
		}
	}
}
