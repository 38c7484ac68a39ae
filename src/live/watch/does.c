/*
 * What a program was doing when its stack was looked at, by a table of files, functions and expressions of Python, PyTorch and the
 * libraries around it.  The first row that one of the frames fits decides, so what a row means must hold wherever it is on a stack:
 * a decoder of images below the DataLoader is input, whoever called it.
 */
#include "watch/stack.h"

#include <stdio.h>

enum where {
	ANY,   /* a frame that is in such a file */
	INNER, /* the innermost frame alone */
	OWN,   /* a frame of the user's own files */
	CODE   /* the expression that the innermost frame executes has this */
};

struct row {
	enum watch_does does;
	enum where where;
	const char *file; /* part of the file's name, or of the expression; NULL: any */
	const char
		*function; /* its last part; with "*" at the end: what it begins with; NULL: any */
};

#define TORCH "torch/"
#define DYNAMO TORCH "_dynamo/"
#define INDUCTOR TORCH "_inductor/"

static const struct row rows[] = {
	{ WATCH_DOES_QUEUE, ANY, TORCH "utils/data/dataloader.py", "_try_get_data" },
	{ WATCH_DOES_QUEUE, ANY, TORCH "utils/data/dataloader.py", "_get_data" },
	/* Batches: within these nothing else counts.  A worker that makes none waits for work. */
	{ WATCH_DOES_INPUT, ANY, TORCH "utils/data/_utils/fetch.py", NULL },
	{ WATCH_DOES_QUEUE, ANY, TORCH "utils/data/_utils/worker.py", NULL },
	{ WATCH_DOES_INPUT, ANY, TORCH "utils/data/_utils/", NULL },
	{ WATCH_DOES_INPUT, ANY, TORCH "utils/data/sampler.py", NULL },
	{ WATCH_DOES_INPUT, ANY, TORCH "utils/data/dataloader.py", NULL },
	/* Compiling, importing, loading. */
	{ WATCH_DOES_START, ANY, DYNAMO "convert_frame.py", NULL },
	{ WATCH_DOES_START, ANY, INDUCTOR "compile_fx.py", "*compile*" },
	{ WATCH_DOES_START, ANY, INDUCTOR "async_compile.py", NULL },
	{ WATCH_DOES_START, ANY, INDUCTOR "scheduler.py", NULL },
	{ WATCH_DOES_START, ANY, INDUCTOR "graph.py", NULL },
	{ WATCH_DOES_START, ANY, INDUCTOR "select_algorithm.py", NULL },
	{ WATCH_DOES_START, ANY, INDUCTOR "runtime/triton_heuristics.py", "precompile" },
	{ WATCH_DOES_START, ANY, INDUCTOR "runtime/triton_heuristics.py", "autotune*" },
	{ WATCH_DOES_START, ANY, INDUCTOR "runtime/triton_heuristics.py", "bench*" },
	{ WATCH_DOES_START, ANY, INDUCTOR "runtime/triton_heuristics.py", "_precompile*" },
	{ WATCH_DOES_START, ANY, "triton/compiler/", NULL },
	{ WATCH_DOES_START, ANY, "triton/runtime/autotuner.py", "_bench" },
	{ WATCH_DOES_START, ANY, TORCH "utils/cpp_extension.py", NULL },
	{ WATCH_DOES_START, ANY, "<frozen importlib", NULL },
	{ WATCH_DOES_START, ANY, TORCH "cuda/__init__.py", "_lazy_init" },
	{ WATCH_DOES_START, ANY, TORCH "nn/init.py", NULL },
	{ WATCH_DOES_START, ANY, NULL, "from_pretrained" },
	{ WATCH_DOES_START, ANY, NULL, "load_state_dict" },
	{ WATCH_DOES_START, ANY, TORCH "serialization.py", "load" },
	{ WATCH_DOES_START, ANY, TORCH "serialization.py", "_load" },
	{ WATCH_DOES_START, ANY, TORCH "serialization.py", "_legacy_load" },
	{ WATCH_DOES_START, ANY, "safetensors/", "load_*" },
	{ WATCH_DOES_START, ANY, TORCH "distributed/checkpoint/state_dict_loader.py", NULL },
	{ WATCH_DOES_START, ANY, TORCH "hub.py", NULL },
	{ WATCH_DOES_START, ANY, "huggingface_hub/file_download.py", NULL },
	/* Saving. */
	{ WATCH_DOES_SAVE, ANY, TORCH "serialization.py", "save" },
	{ WATCH_DOES_SAVE, ANY, TORCH "serialization.py", "_save" },
	{ WATCH_DOES_SAVE, ANY, TORCH "serialization.py", "_legacy_save" },
	{ WATCH_DOES_SAVE, ANY, "safetensors/", "save*" },
	{ WATCH_DOES_SAVE, ANY, "safetensors/", "_tobytes" },
	{ WATCH_DOES_SAVE, ANY, "safetensors/", "_flatten" },
	{ WATCH_DOES_SAVE, ANY, TORCH "distributed/checkpoint/state_dict_saver.py", NULL },
	{ WATCH_DOES_SAVE, ANY, NULL, "save_pretrained" },
	{ WATCH_DOES_SAVE, ANY, NULL, "save_checkpoint" },
	{ WATCH_DOES_SAVE, ANY, NULL, "_save_checkpoint" },
	{ WATCH_DOES_SAVE, ANY, NULL, "save_model" },
	{ WATCH_DOES_SAVE, ANY, NULL, "save_state*" },
	{ WATCH_DOES_SAVE, OWN, NULL, "save" },
	{ WATCH_DOES_SAVE, OWN, NULL, "save_ckpt*" },
	{ WATCH_DOES_SAVE, OWN, NULL, "save_weights*" },
	/* What blocks until other ranks are there, on the host. */
	{ WATCH_DOES_RANKS, ANY, TORCH "distributed/distributed_c10d.py", NULL },
	{ WATCH_DOES_RANKS, ANY, TORCH "distributed/rendezvous.py", NULL },
	/* Behind the GPU. */
	{ WATCH_DOES_SYNC, ANY, TORCH "_tensor_str.py", NULL },
	{ WATCH_DOES_SYNC, ANY, TORCH "cuda/__init__.py", "synchronize" },
	{ WATCH_DOES_SYNC, ANY, TORCH "cuda/streams.py", "synchronize" },
	{ WATCH_DOES_SYNC, ANY, TORCH "accelerator/__init__.py", "synchronize" },
	{ WATCH_DOES_SYNC, INNER, TORCH "amp/grad_scaler.py", NULL },
	/* To the GPU, and of it: a whole model's is its start. */
	{ WATCH_DOES_START, ANY, TORCH "nn/modules/module.py", "_apply" },
	{ WATCH_DOES_START, ANY, TORCH "nn/modules/module.py", "convert" },
	{ WATCH_DOES_COPY, ANY, "accelerate/utils/operations.py", "send_to_device" },
	{ WATCH_DOES_COPY, ANY, "transformers/tokenization_utils_base.py", "to" },
	{ WATCH_DOES_COPY, ANY, "transformers/feature_extraction_utils.py", "to" },
	/* Optimizers read their own counters of steps, which are on the host. */
	{ WATCH_DOES_LAUNCH, ANY, TORCH "optim/", NULL },
	/* What makes batches without a DataLoader. */
	{ WATCH_DOES_INPUT, ANY, "PIL/", NULL },
	{ WATCH_DOES_INPUT, ANY, "cv2/", NULL },
	{ WATCH_DOES_INPUT, ANY, "torchvision/transforms/", NULL },
	{ WATCH_DOES_INPUT, ANY, "torchvision/datasets/", NULL },
	{ WATCH_DOES_INPUT, ANY, "torchvision/io/", NULL },
	{ WATCH_DOES_INPUT, ANY, "torchaudio/", NULL },
	{ WATCH_DOES_INPUT, ANY, "librosa/", NULL },
	{ WATCH_DOES_INPUT, ANY, "soundfile", NULL },
	{ WATCH_DOES_INPUT, ANY, "albumentations/", NULL },
	{ WATCH_DOES_INPUT, ANY, "imageio/", NULL },
	{ WATCH_DOES_INPUT, ANY, "pandas/", NULL },
	{ WATCH_DOES_INPUT, ANY, "pyarrow/", NULL },
	{ WATCH_DOES_INPUT, ANY, "h5py/", NULL },
	{ WATCH_DOES_INPUT, ANY, "zarr/", NULL },
	{ WATCH_DOES_INPUT, ANY, "webdataset/", NULL },
	{ WATCH_DOES_INPUT, ANY, "streaming/base/", NULL },
	{ WATCH_DOES_INPUT, ANY, "site-packages/datasets/", NULL },
	{ WATCH_DOES_INPUT, ANY, "tokenizers/", NULL },
	{ WATCH_DOES_INPUT, ANY, "tiktoken/", NULL },
	{ WATCH_DOES_INPUT, ANY, "sentencepiece/", NULL },
	{ WATCH_DOES_INPUT, ANY, "transformers/tokenization_", NULL },
	{ WATCH_DOES_INPUT, ANY, "transformers/image_processing", NULL },
	{ WATCH_DOES_INPUT, ANY, "transformers/feature_extraction_", NULL },
	{ WATCH_DOES_INPUT, ANY, "transformers/data/", NULL },
	{ WATCH_DOES_INPUT, ANY, "json/decoder.py", NULL },
	{ WATCH_DOES_INPUT, ANY, "/csv.py", NULL },
	{ WATCH_DOES_INPUT, ANY, "/gzip.py", NULL },
	{ WATCH_DOES_INPUT, ANY, "/tarfile.py", NULL },
	{ WATCH_DOES_INPUT, ANY, "numpy/lib/_npyio", NULL },
	{ WATCH_DOES_INPUT, ANY, "numpy/lib/npyio", NULL },
	{ WATCH_DOES_INPUT, OWN, NULL, "__getitem__" },
	{ WATCH_DOES_INPUT, OWN, NULL, "get_batch*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "next_batch*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "make_batch*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "load_batch*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "collate*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "tokenize*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "preprocess*" },
	{ WATCH_DOES_INPUT, OWN, NULL, "augment*" },
	/* By what is executed: a C function has no frame of its own. */
	{ WATCH_DOES_SYNC, CODE, ".item()", NULL },
	{ WATCH_DOES_SYNC, CODE, ".cpu()", NULL },
	{ WATCH_DOES_SYNC, CODE, ".tolist()", NULL },
	{ WATCH_DOES_SYNC, CODE, ".numpy()", NULL },
	{ WATCH_DOES_SYNC, CODE, ".synchronize(", NULL },
	{ WATCH_DOES_SYNC, CODE, "nonzero(", NULL },
	{ WATCH_DOES_SYNC, CODE, "masked_select(", NULL },
	{ WATCH_DOES_SYNC, CODE, "torch.unique(", NULL },
	{ WATCH_DOES_SYNC, CODE, "torch.equal(", NULL },
	{ WATCH_DOES_SYNC, CODE, ".to(\"cpu\"", NULL },
	{ WATCH_DOES_SYNC, CODE, ".to('cpu'", NULL },
	{ WATCH_DOES_COPY, CODE, ".to(", NULL },
	{ WATCH_DOES_COPY, CODE, ".cuda(", NULL },
	{ WATCH_DOES_COPY, CODE, ".copy_(", NULL },
	{ WATCH_DOES_COPY, CODE, "pin_memory(", NULL },
	{ WATCH_DOES_SLEEP, CODE, "sleep(", NULL },
	{ WATCH_DOES_WAIT, CODE, "os.read(", NULL },
	{ WATCH_DOES_WAIT, CODE, ".recv(", NULL },
	/* Kernels are handed out. */
	{ WATCH_DOES_LAUNCH, ANY, TORCH "autograd/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "_tensor.py", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "nn/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "functional.py", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "distributions/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "_ops.py", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "cuda/graphs.py", NULL },
	{ WATCH_DOES_LAUNCH, ANY, TORCH "_functorch/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, INDUCTOR, NULL },
	{ WATCH_DOES_LAUNCH, ANY, DYNAMO "eval_frame.py", NULL },
	{ WATCH_DOES_LAUNCH, ANY, "triton/runtime/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, "flash_attn/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, "xformers/", NULL },
	{ WATCH_DOES_LAUNCH, ANY, "bitsandbytes/", NULL },
	{ WATCH_DOES_LAUNCH, CODE, "torch.", NULL },
	/* Something else than the GPU or a DataLoader. */
	{ WATCH_DOES_WAIT, ANY, "/selectors.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/socket.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/ssl.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/http/client.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/subprocess.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/multiprocessing/", NULL },
	{ WATCH_DOES_WAIT, INNER, "/queue.py", NULL },
	{ WATCH_DOES_WAIT, INNER, "/threading.py", NULL },
	{ WATCH_DOES_WAIT, ANY, "/concurrent/futures/", NULL },
	{ WATCH_DOES_WAIT, ANY, "zmq/", NULL },
};

static const char *const words[WATCH_DOES_COUNT] = {
	[WATCH_DOES_PYTHON] = "python", [WATCH_DOES_INPUT] = "input",
	[WATCH_DOES_QUEUE] = "queue",   [WATCH_DOES_START] = "starting",
	[WATCH_DOES_SAVE] = "saving",   [WATCH_DOES_RANKS] = "collective",
	[WATCH_DOES_SYNC] = "sync",     [WATCH_DOES_COPY] = "copy",
	[WATCH_DOES_LAUNCH] = "launch", [WATCH_DOES_SLEEP] = "sleep",
	[WATCH_DOES_WAIT] = "wait",
};

const char *watch_does_word(enum watch_does does)
{
	return words[does];
}

enum watch_does watch_does_of(const char *word, size_t n)
{
	for (unsigned i = 0; i < WATCH_DOES_COUNT; i++)
		if (strlen(words[i]) == n && !memcmp(words[i], word, n))
			return (enum watch_does)i;
	return WATCH_DOES_COUNT;
}

/* ---- frames as text ---- */

/* "FILE:LINE FUNCTION", a tab, what it executes. */
bool watch_frame_next(const char **at, const char *end, struct watch_frame *f)
{
	const char *stop = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL, *tab, *space,
		   *colon;

	if (!stop)
		return false;
	*f = (struct watch_frame){ .file = *at, .code = stop, .function = stop };
	tab = memchr(*at, '\t', (size_t)(stop - *at));
	if (tab) {
		f->code = tab + 1;
		f->code_n = (size_t)(stop - f->code);
	} else {
		tab = stop;
	}
	/* No function has a space; "<frozen importlib._bootstrap>" as a file does. */
	for (space = tab; space > *at && space[-1] != ' '; space--)
		;
	if (space > *at) {
		f->function = space;
		f->function_n = (size_t)(tab - space);
		tab = space - 1;
	}
	for (colon = tab; colon > *at && colon[-1] >= '0' && colon[-1] <= '9'; colon--)
		;
	f->file_n = (size_t)(tab - *at);
	if (colon > *at && colon[-1] == ':') {
		f->file_n = (size_t)(colon - 1 - *at);
		for (; colon < tab && f->line < 1u << 27; colon++)
			f->line = f->line * 10 + (uint32_t)(*colon - '0');
	}
	*at = stop + 1;
	return true;
}

static bool does_begins(const char *at, size_t n, const char *what)
{
	size_t m = strlen(what);

	return n >= m && !memcmp(at, what, m);
}

bool watch_frame_is_own(const struct watch_frame *f)
{
	return f->file_n && *f->file != '<' && !does_begins(f->file, f->file_n, "site-packages/") &&
	       !does_begins(f->file, f->file_n, "python3");
}

static bool fits_function(const struct watch_frame *f, const char *pattern)
{
	const char *at = f->function;
	size_t n = f->function_n, m = strlen(pattern);

	for (size_t i = 0; i < f->function_n; i++)
		if (f->function[i] == '.') {
			at = f->function + i + 1;
			n = f->function_n - i - 1;
		}
	if (*pattern == '*')
		return m > 2 && memmem(at, n, pattern + 1, m - 2);
	return pattern[m - 1] == '*' ? n >= m - 1 && !memcmp(at, pattern, m - 1)
				     : n == m && !memcmp(at, pattern, m);
}

static bool does_fits(const struct row *r, const struct watch_frame *f, bool innermost)
{
	if ((r->where == INNER || r->where == CODE) && !innermost)
		return false;
	if (r->where == CODE)
		return memmem(f->code, f->code_n, r->file, strlen(r->file));
	if (r->file && !memmem(f->file, f->file_n, r->file, strlen(r->file)))
		return false;
	if (r->function && !fits_function(f, r->function))
		return false;
	return r->where != OWN || watch_frame_is_own(f);
}

bool watch_frame_tells(const struct watch_frame *f)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (does_fits(&rows[i], f, false))
			return true;
	return false;
}

enum watch_does watch_does_judge(const char *text, size_t n)
{
	struct watch_frame frames[WATCH_STACK_FRAMES];
	const char *at = text;
	size_t count = 0;

	while (count < WATCH_STACK_FRAMES && watch_frame_next(&at, text + n, &frames[count]))
		count++;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t k = 0; k < count; k++)
			if (does_fits(&rows[i], &frames[k], !k))
				return rows[i].does;
	return WATCH_DOES_PYTHON;
}
