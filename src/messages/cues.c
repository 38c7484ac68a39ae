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
	[E(UNKNOWN)] = "unknown",
	[E(VLLM)] = "vLLM",
	[E(SGLANG)] = "SGLang",
	[E(TGI)] = "TGI",
	[E(TENSORRT_LLM)] = "TensorRT-LLM",
	[E(TRITON_SERVER)] = "Triton Inference Server",
	[E(OLLAMA)] = "ollama",
	[E(LLAMA_CPP)] = "llama.cpp",
	[E(LMDEPLOY)] = "LMDeploy",
	[E(WEBUI)] = "text-generation-webui",
	[E(COMFYUI)] = "ComfyUI",
	[E(A1111)] = "A1111",
	[E(INVOKEAI)] = "InvokeAI",
	[E(KOHYA)] = "sd-scripts",
	[E(DIFFUSERS)] = "diffusers",
	[E(TENSORRT)] = "TensorRT",
	[E(ONNX_RUNTIME)] = "ONNX Runtime",
	[E(CTRANSLATE2)] = "CTranslate2",
	[E(MLX)] = "MLX",
	[E(PADDLE)] = "PaddlePaddle",
	[E(CAFFE)] = "Caffe",
	[E(JAX)] = "JAX",
	[E(TENSORFLOW)] = "TensorFlow",
	[E(RAPIDS)] = "RAPIDS",
	[E(MEGATRON)] = "Megatron-LM",
	[E(DEEPSPEED)] = "DeepSpeed",
	[E(ULTRALYTICS)] = "Ultralytics",
	[E(PYTORCH)] = "PyTorch",
	[E(RAY)] = "Ray",
	[E(JVM)] = "Java",
	[E(NODE)] = "Node.js",
};
const char *const messages_activity_names[MESSAGES_DOINGS] = {
	"unknown", "training",   "evaluation", "generating", "serving",
	"loading", "converting", "compiling",  "starting",
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
	{ "from vllm", E(VLLM), ANY_ACTIVITY },
	{ "\\vllm\\", E(VLLM), ANY_ACTIVITY },
	{ "vllm==", E(VLLM), ANY_ACTIVITY },
	{ "gpu_memory_utilization", E(VLLM), A(SERVING) },
	{ "gpu-memory-utilization", E(VLLM), A(SERVING) },
	{ "EngineCore", E(VLLM), A(SERVING) },
	{ "[gpu_worker.py", E(VLLM), A(SERVING) },
	{ "[gpu_model_runner.py", E(VLLM), A(SERVING) },
	{ "[multiproc_executor.py", E(VLLM), A(SERVING) },
	{ "llm_engine.py", E(VLLM), A(SERVING) },
	{ "sglang.launch_server", E(SGLANG), A(SERVING) },
	{ "/sglang/srt/", E(SGLANG), A(SERVING) },
	{ "sglang", E(SGLANG), A(SERVING) },
	{ "mem_fraction_static", E(SGLANG), A(SERVING) },
	{ "mem-fraction-static", E(SGLANG), A(SERVING) },
	{ "Capture CUDA graph failed", E(SGLANG), A(SERVING) },
	{ "max-batch-prefill-tokens", E(TGI), A(SERVING) },
	{ "text-generation-launcher", E(TGI), A(SERVING) },
	{ "text_generation_server", E(TGI), A(SERVING) },
	{ "text-generation-inference", E(TGI), A(SERVING) },
	{ "text_generation_launcher", E(TGI), A(SERVING) },
	{ "tensorrt_llm", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "TensorRT-LLM", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "[TRT-LLM]", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "[TensorRT-LLM]", E(TENSORRT_LLM), ANY_ACTIVITY },
	{ "trtllm-serve", E(TENSORRT_LLM), A(SERVING) },
	{ "trtllm-build", E(TENSORRT_LLM), A(CONVERTING) },
	{ "tritonserver", E(TRITON_SERVER), A(SERVING) },
	{ "ollama", E(OLLAMA), A(SERVING) },
	{ "source=sched.go", E(OLLAMA), A(LOADING) },
	{ "source=memory.go", E(OLLAMA), A(LOADING) },
	{ "source=ggml.go", E(OLLAMA), A(LOADING) },
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
	{ "llamafile", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "LlamaCpp", E(LLAMA_CPP), ANY_ACTIVITY },
	{ "stable-diffusion.cpp", E(LLAMA_CPP), A(GENERATING) },
	{ "lmdeploy", E(LMDEPLOY), A(SERVING) },
	{ "turbomind", E(LMDEPLOY), A(SERVING) },
	{ "text-generation-webui", E(WEBUI), A(GENERATING) },
	{ "oobabooga", E(WEBUI), A(GENERATING) },
	{ "ComfyUI", E(COMFYUI), A(GENERATING) },
	{ "comfy ui", E(COMFYUI), A(GENERATING) },
	{ "!!! Exception during processing", E(COMFYUI), A(GENERATING) },
	{ "comfy\\", E(COMFYUI), A(GENERATING) },
	{ "comfy.model", E(COMFYUI), A(GENERATING) },
	{ "got prompt", E(COMFYUI), A(GENERATING) },
	{ "comfy/model_management", E(COMFYUI), A(GENERATING) },
	{ "comfy_extras", E(COMFYUI), A(GENERATING) },
	{ "stable-diffusion-webui", E(A1111), A(GENERATING) },
	{ "modules/processing.py", E(A1111), A(GENERATING) },
	{ "modules\\processing.py", E(A1111), A(GENERATING) },
	{ "modules/call_queue.py", E(A1111), A(GENERATING) },
	{ "--medvram", E(A1111), A(GENERATING) },
	{ "stable-diffusion-forge", E(A1111), A(GENERATING) },
	{ "webui-forge", E(A1111), A(GENERATING) },
	{ "modules_forge", E(A1111), A(GENERATING) },
	{ "sd.webui", E(A1111), A(GENERATING) },
	{ "sd_hijack", E(A1111), A(GENERATING) },
	{ "webui-user", E(A1111), A(GENERATING) },
	{ "Fooocus", E(A1111), A(GENERATING) },
	{ "ldm_patched", E(A1111), A(GENERATING) },
	{ "SD.Next", E(A1111), A(GENERATING) },
	{ "automatic1111", E(A1111), A(GENERATING) },
	{ "invokeai", E(INVOKEAI), A(GENERATING) },
	{ "sd-scripts", E(KOHYA), A(TRAINING) },
	{ "kohya_ss", E(KOHYA), A(TRAINING) },
	{ "train_network.py", E(KOHYA), A(TRAINING) },
	{ "train_db.py", E(KOHYA), A(TRAINING) },
	{ "fine_tune.py", ANY_ENGINE, A(TRAINING) },
	{ "flux_train", E(KOHYA), A(TRAINING) },
	{ "/diffusers/pipelines/", E(DIFFUSERS), A(GENERATING) },
	{ "examples/dreambooth", E(DIFFUSERS), A(TRAINING) },
	{ "train_dreambooth", E(DIFFUSERS), A(TRAINING) },
	{ "train_text_to_image", E(DIFFUSERS), A(TRAINING) },
	{ "\\diffusers\\", E(DIFFUSERS), ANY_ACTIVITY },
	{ "from diffusers", E(DIFFUSERS), ANY_ACTIVITY },
	{ "DiffusionPipeline", E(DIFFUSERS), A(GENERATING) },
	{ "FluxPipeline", E(DIFFUSERS), A(GENERATING) },
	{ "\\diffusers\\pipelines\\", E(DIFFUSERS), A(GENERATING) },
	{ "StableDiffusionPipeline", E(DIFFUSERS), A(GENERATING) },
	{ "/diffusers/", E(DIFFUSERS), ANY_ACTIVITY },
	{ "tensorrt", E(TENSORRT), ANY_ACTIVITY },
	{ "trtexec", E(TENSORRT), A(CONVERTING) },
	{ "[TRT] ", E(TENSORRT), ANY_ACTIVITY },
	{ "onnxruntime", E(ONNX_RUNTIME), ANY_ACTIVITY },
	{ "ONNXRuntimeError", E(ONNX_RUNTIME), ANY_ACTIVITY },
	{ "faster_whisper", E(CTRANSLATE2), A(GENERATING) },
	{ "faster-whisper", E(CTRANSLATE2), A(GENERATING) },
	{ "ctranslate2", E(CTRANSLATE2), ANY_ACTIVITY },
	{ "WhisperModel(", E(CTRANSLATE2), ANY_ACTIVITY },
	{ "mlx_lm", E(MLX), A(GENERATING) },
	{ "mlx.core", E(MLX), ANY_ACTIVITY },
	{ "import mlx", E(MLX), ANY_ACTIVITY },
	{ "mlx/nn/", E(MLX), ANY_ACTIVITY },
	{ "mlx_vlm", E(MLX), A(GENERATING) },
	{ "mlx.nn.", E(MLX), ANY_ACTIVITY },
	{ "mlx-lm", E(MLX), A(GENERATING) },
	{ "paddle/fluid", E(PADDLE), ANY_ACTIVITY },
	{ "/paddle/", E(PADDLE), ANY_ACTIVITY },
	{ "PaddlePaddle", E(PADDLE), ANY_ACTIVITY },
	{ "import paddle", E(PADDLE), ANY_ACTIVITY },
	{ "paddle::", E(PADDLE), ANY_ACTIVITY },
	{ "paddleocr", E(PADDLE), ANY_ACTIVITY },
	{ "\\paddle\\", E(PADDLE), ANY_ACTIVITY },
	{ "caffe/src", E(CAFFE), ANY_ACTIVITY },
	{ "syncedmem.cpp", E(CAFFE), ANY_ACTIVITY },
	{ "jaxlib", E(JAX), ANY_ACTIVITY },
	{ "/jax/_src/", E(JAX), ANY_ACTIVITY },
	{ "XlaRuntimeError", E(JAX), ANY_ACTIVITY },
	{ "jax.errors", E(JAX), ANY_ACTIVITY },
	{ "import jax", E(JAX), ANY_ACTIVITY },
	{ "XLA_PYTHON_CLIENT", E(JAX), ANY_ACTIVITY },
	{ "jax.jit", E(JAX), ANY_ACTIVITY },
	{ "/flax/", E(JAX), ANY_ACTIVITY },
	{ "tensorflow/", E(TENSORFLOW), ANY_ACTIVITY },
	{ "import tensorflow", E(TENSORFLOW), ANY_ACTIVITY },
	{ "tensorflow.python", E(TENSORFLOW), ANY_ACTIVITY },
	{ "/keras/", E(TENSORFLOW), ANY_ACTIVITY },
	{ "bfc_allocator.cc", E(TENSORFLOW), ANY_ACTIVITY },
	{ "tensorflow\\", E(TENSORFLOW), ANY_ACTIVITY },
	{ "tf.Session", E(TENSORFLOW), ANY_ACTIVITY },
	{ "tf.errors", E(TENSORFLOW), ANY_ACTIVITY },
	{ "ResourceExhaustedError: OOM", E(TENSORFLOW), ANY_ACTIVITY },
	{ "op: Conv2D", E(TENSORFLOW), ANY_ACTIVITY },
	{ "cupy_backends", E(RAPIDS), ANY_ACTIVITY },
	{ "cupy.cuda", E(RAPIDS), ANY_ACTIVITY },
	{ "/cudf/", E(RAPIDS), ANY_ACTIVITY },
	{ "rmm::bad_alloc", E(RAPIDS), ANY_ACTIVITY },
	{ "/rmm/mr/", E(RAPIDS), ANY_ACTIVITY },
	{ "import cudf", E(RAPIDS), ANY_ACTIVITY },
	{ "import cupy", E(RAPIDS), ANY_ACTIVITY },
	{ "/cupy/", E(RAPIDS), ANY_ACTIVITY },
	{ "/cuml/", E(RAPIDS), ANY_ACTIVITY },
	{ "megatron/", E(MEGATRON), A(TRAINING) },
	{ "Megatron-LM", E(MEGATRON), A(TRAINING) },
	{ "pretrain_gpt.py", E(MEGATRON), A(TRAINING) },
	{ "nemo/collections", E(MEGATRON), ANY_ACTIVITY },
	{ "/deepspeed/", E(DEEPSPEED), ANY_ACTIVITY },
	{ "[deepspeed]", E(DEEPSPEED), ANY_ACTIVITY },
	{ "deepspeed.initialize", E(DEEPSPEED), A(TRAINING) },
	{ "deepspeed.launcher", E(DEEPSPEED), ANY_ACTIVITY },
	{ "[launch.py:", E(DEEPSPEED), ANY_ACTIVITY },
	{ "ultralytics", E(ULTRALYTICS), ANY_ACTIVITY },
	{ "yolo detect train", E(ULTRALYTICS), A(TRAINING) },
	{ "yolo train", E(ULTRALYTICS), A(TRAINING) },
	{ "/torch/", E(PYTORCH), ANY_ACTIVITY },
	{ "\\torch\\", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.cuda.", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.OutOf", E(PYTORCH), ANY_ACTIVITY },
	{ "pytorch", E(PYTORCH), ANY_ACTIVITY },
	{ "torchrun", E(PYTORCH), ANY_ACTIVITY },
	{ "import torch", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.distributed", E(PYTORCH), ANY_ACTIVITY },
	{ "torch==", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.nn", E(PYTORCH), ANY_ACTIVITY },
	{ "torch.load", E(PYTORCH), ANY_ACTIVITY },
	{ "/transformers/", E(PYTORCH), ANY_ACTIVITY },
	{ "/accelerate/", E(PYTORCH), ANY_ACTIVITY },
	{ "bitsandbytes", E(PYTORCH), ANY_ACTIVITY },
	{ "when calling `cublasCreate", E(PYTORCH), ANY_ACTIVITY },
	{ "TORCH_USE_CUDA_DSA", E(PYTORCH), ANY_ACTIVITY },
	{ "TORCH_USE_HIP_DSA", E(PYTORCH), ANY_ACTIVITY },
	{ "DataLoader", E(PYTORCH), ANY_ACTIVITY },
	{ "raylet", E(RAY), ANY_ACTIVITY },
	{ "ray.exceptions", E(RAY), ANY_ACTIVITY },
	{ "java.lang.", E(JVM), ANY_ACTIVITY },
	{ "org.apache.spark", E(JVM), ANY_ACTIVITY },
	{ "OpenJDK", E(JVM), ANY_ACTIVITY },
	{ "hs_err_pid", E(JVM), ANY_ACTIVITY },
	{ "node::", E(NODE), ANY_ACTIVITY },
	{ "v8::internal", E(NODE), ANY_ACTIVITY },
	/* what it was doing, whoever did it */
	{ "/transformers/trainer.py", ANY_ENGINE, A(TRAINING) },
	{ "/trl/trainer/", ANY_ENGINE, A(TRAINING) },
	{ "lightning/pytorch/loops", ANY_ENGINE, A(TRAINING) },
	{ "pytorch_lightning/", ANY_ENGINE, A(TRAINING) },
	{ "deepspeed/runtime/engine", ANY_ENGINE, A(TRAINING) },
	{ "training_step", ANY_ENGINE, A(TRAINING) },
	{ "training_loop", ANY_ENGINE, A(TRAINING) },
	{ "train_epoch", ANY_ENGINE, A(TRAINING) },
	{ "train_loop", ANY_ENGINE, A(TRAINING) },
	{ "trainer.py", ANY_ENGINE, A(TRAINING) },
	{ "do_train", ANY_ENGINE, A(TRAINING) },
	{ "Trainer(", ANY_ENGINE, A(TRAINING) },
	{ "Start training", ANY_ENGINE, A(TRAINING) },
	{ "Training:", ANY_ENGINE, A(TRAINING) },
	{ "***** Running training", ANY_ENGINE, A(TRAINING) },
	{ "fit_generator", ANY_ENGINE, A(TRAINING) },
	{ "train_on_batch", ANY_ENGINE, A(TRAINING) },
	{ "run_clm.py", ANY_ENGINE, A(TRAINING) },
	{ "run_mlm.py", ANY_ENGINE, A(TRAINING) },
	{ "axolotl", ANY_ENGINE, A(TRAINING) },
	{ "llamafactory", ANY_ENGINE, A(TRAINING) },
	{ "LLaMA-Factory", ANY_ENGINE, A(TRAINING) },
	{ "unsloth", ANY_ENGINE, A(TRAINING) },
	{ "gradients/", ANY_ENGINE, A(TRAINING) },
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
	{ "Epoch 1/", ANY_ENGINE, A(TRAINING) },
	{ "Epoch 0", ANY_ENGINE, A(TRAINING) },
	{ "epoch 0", ANY_ENGINE, A(TRAINING) },
	{ "Epoch 1", ANY_ENGINE, A(TRAINING) },
	{ "Epoch [", ANY_ENGINE, A(TRAINING) },
	{ "epoch=", ANY_ENGINE, A(TRAINING) },
	{ "train.py", ANY_ENGINE, A(TRAINING) },
	{ "finetune.py", ANY_ENGINE, A(TRAINING) },
	{ "finetuning", ANY_ENGINE, A(TRAINING) },
	{ "fine-tun", ANY_ENGINE, A(TRAINING) },
	{ "convert_hf_to_gguf", E(LLAMA_CPP), A(CONVERTING) },
	{ "torch.onnx.export", ANY_ENGINE, A(CONVERTING) },
	{ "torch/_inductor/", ANY_ENGINE, A(COMPILING) },
	{ "inference.py", ANY_ENGINE, A(GENERATING) },
	{ "predict.py", ANY_ENGINE, A(GENERATING) },
	{ "model.generate(", ANY_ENGINE, A(GENERATING) },
	{ ".generate(", ANY_ENGINE, A(GENERATING) },
	{ "infer.py", ANY_ENGINE, A(GENERATING) },
	{ "demo.py", ANY_ENGINE, A(GENERATING) },
	{ "sample.py", ANY_ENGINE, A(GENERATING) },
	{ "gradio", ANY_ENGINE, A(GENERATING) },
	{ "transcribe(", ANY_ENGINE, A(GENERATING) },
	{ "model.predict(", ANY_ENGINE, A(GENERATING) },
	{ "trtexec", ANY_ENGINE, A(CONVERTING) },
	{ "from_pretrained(", ANY_ENGINE, A(LOADING) },
	{ "load_model(", ANY_ENGINE, A(LOADING) },
	{ "pipeline(", ANY_ENGINE, A(GENERATING) },
	{ "_cuda_init", ANY_ENGINE, A(STARTING) },
	{ "init_process_group", ANY_ENGINE, A(STARTING) },
	{ "failed to initialize", ANY_ENGINE, A(STARTING) },
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
		{ "out of memory to allocate", E(RAPIDS) },
		{ "Out of memory error on GPU", E(PADDLE) },
		{ "memory on GPU {device}, ", E(PADDLE) },
		{ "Cannot malloc", E(PADDLE) },
		{ "Fail to alloc memory of", E(PADDLE) },
		{ "CUDA failed with error", E(CTRANSLATE2) },
		{ "Error out of memory at line", E(PYTORCH) },
		{ "total tokens", E(TGI) },
		{ "cuDNN algorithm", E(PYTORCH) },
		{ "unable to find an engine", E(PYTORCH) },
		{ "PT_DEVMEM", E(PYTORCH) },
		{ "requires more system memory", E(OLLAMA) },
		{ "may not have enough", E(OLLAMA) },
		{ "local_client.cc", E(JAX) },
		{ "*allocate: 2", E(TENSORRT) },
		{ "[metal::malloc]", E(MLX) },
		{ "[malloc_or_wait]", E(MLX) },
		{ "vs. 0)*out of memory", E(CAFFE) },
		{ "during getBestTactic", E(TENSORRT) },
		{ "Error Code 2: OutOfMemory", E(TENSORRT) },
		{ "OutOfMemory: no further", E(TENSORRT) },
		{ "Tactic Device request", E(TENSORRT) },
		{ "use lower resolution", E(A1111) },
		{ "regular VAE", E(COMFYUI) },
		{ "Loading weights failed because", E(SGLANG) },
		{ "No enough gpu memory for runtime", E(LMDEPLOY) },
		{ "memory to allocate KV cache", E(TENSORRT_LLM) },
		{ "java.lang.OutOf", E(JVM) },
		{ "os::commit_memory", E(JVM) },
		{ "Java Runtime", E(JVM) },
		{ "JavaScript heap", E(NODE) },
		{ "RayOutOfMemory", E(RAY) },
		{ "Workers (tasks / actors)", E(RAY) },
		{ "node running low on memory", E(RAY) },
		{ "in object store because", E(RAY) },
		{ "No executable batch size", E(PYTORCH) },
		{ "quantized model", E(PYTORCH) },
		{ "DefaultCPUAllocator", E(PYTORCH) },
		{ "Buy new", E(PYTORCH) },
		{ "posix_memalign", E(PYTORCH) },
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
	return a && (!b || a < b || (a == E(MLX) && b == E(LLAMA_CPP)) ||
		     (a == E(ONNX_RUNTIME) && b == E(TENSORRT)));
}

/* May a log whose failure is written by the first be one of the second?  PyTorch and ggml are inside of others. */
static int may_be(enum messages_engine own, enum messages_engine other)
{
	return !own || own == E(PYTORCH) ||
	       (own == E(LLAMA_CPP) &&
		(other == E(OLLAMA) || other == E(MLX) || other == E(WEBUI))) ||
	       (own == E(TENSORRT) && (other == E(TENSORRT_LLM) || other == E(ONNX_RUNTIME))) ||
	       ((own == E(TENSORRT) || own == E(ONNX_RUNTIME)) && other == E(TRITON_SERVER)) ||
	       (own == E(VLLM) && other == E(SGLANG));
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
	if (!out->activity && e->wording->family == MESSAGES_SERVING)
		out->activity = A(SERVING);
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
	/* what a server generates, it serves */
	if (out->activity == A(GENERATING) &&
	    (out->engine == E(TGI) || out->engine == E(SGLANG) || out->engine == E(TRITON_SERVER)))
		out->activity = A(SERVING);
}
