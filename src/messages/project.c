/*
 * What a program is called that no word of cues.c tells: by the outermost frame of its traceback that is the user's own
 * and the folder that it lies in; by the command that started it; else by the installed package whose code was called
 * first.  The standard library, its helpers and what many are built on are nobody's program.
 */
#include "scan.h"

#include <string.h>
#include <strings.h>

/* Folders inside of a project. */
static const char *const inner[] = {
	"src",      "script",  "scripts",  "tool",    "tools",   "example",  "examples",
	"bin",      "app",     "code",     "test",    "tests",   "utils",    "core",
	"train",    "models",  "model",    "modules", "lib",     "training", "trainer",
	"trainers", "engine",  "runner",   "runners", "nn",      "python",   "apps",
	"main",     "package", "packages", "cli",     "..",      ".",        "eval",
	"common",   "base",    "api",      "server",  "backend", "source",   "cpp",
	"csrc",     "include", "cuda",     "kernels", "gpu",     "network",  "networks"
};
/* Folders that hold projects. */
static const char *const homes[] = { "home",
				     "Users",
				     "root",
				     "content",
				     "workspace",
				     "tmp",
				     "projects",
				     "project",
				     "repos",
				     "repo",
				     "git",
				     "github",
				     "work",
				     "Documents",
				     "Desktop",
				     "Downloads",
				     "drive",
				     "gdrive",
				     "MyDrive",
				     "My Drive",
				     "kaggle",
				     "working",
				     "input",
				     "mnt",
				     "data",
				     "data1",
				     "data2",
				     "opt",
				     "srv",
				     "scratch",
				     "share",
				     "code",
				     "disk",
				     "storage",
				     "workspaces",
				     "usr",
				     "local",
				     "var",
				     "media",
				     "nfs",
				     "ssd",
				     "experiments",
				     "PycharmProject",
				     "PycharmProjects",
				     "dev",
				     "job",
				     "jobs",
				     "ml",
				     "AI" };
/* Packages that many programs are built on. */
static const char *const tools[] = { "torch",
				     "torchvision",
				     "torchaudio",
				     "numpy",
				     "scipy",
				     "pandas",
				     "sklearn",
				     "tqdm",
				     "accelerate",
				     "peft",
				     "tensorflow",
				     "keras",
				     "jax",
				     "jaxlib",
				     "flax",
				     "optax",
				     "datasets",
				     "huggingface_hub",
				     "safetensors",
				     "tokenizers",
				     "transformers",
				     "diffusers",
				     "deepspeed",
				     "bitsandbytes",
				     "xformers",
				     "flash_attn",
				     "triton",
				     "einops",
				     "lightning",
				     "pytorch_lightning",
				     "lightning_fabric",
				     "hydra",
				     "omegaconf",
				     "click",
				     "typer",
				     "fire",
				     "absl",
				     "gin",
				     "wandb",
				     "ray",
				     "dask",
				     "distributed",
				     "joblib",
				     "cupy",
				     "numba",
				     "pyarrow",
				     "PIL",
				     "cv2",
				     "matplotlib",
				     "IPython",
				     "ipykernel",
				     "gradio",
				     "gradio_client",
				     "streamlit",
				     "fastapi",
				     "starlette",
				     "uvicorn",
				     "gunicorn",
				     "flask",
				     "werkzeug",
				     "anyio",
				     "asyncio",
				     "aiohttp",
				     "tornado",
				     "celery",
				     "pydantic",
				     "functools",
				     "pytest",
				     "_pytest",
				     "pluggy",
				     "decorator",
				     "wrapt",
				     "apex",
				     "timm",
				     "mmcv",
				     "mmengine",
				     "ignite",
				     "torch_xla",
				     "torch_npu",
				     "paddle",
				     "mxnet",
				     "onnxruntime",
				     "tensorflow_core",
				     "tensorflow_estimator",
				     "requests",
				     "urllib3",
				     "loguru",
				     "rich",
				     "nbconvert",
				     "nbclient",
				     "papermill",
				     "dill",
				     "cloudpickle",
				     "multiprocess",
				     "torch_geometric",
				     "dgl",
				     "rmm",
				     "cudf",
				     "intel_extension_for_pytorch",
				     "tensorboard",
				     "sacred",
				     "haiku",
				     "chex",
				     "concurrent",
				     "optimum",
				     "spaces",
				     "pyspark",
				     "py4j",
				     "trl",
				     "habana_frameworks",
				     "caffe2",
				     "faster_whisper",
				     "ctranslate2",
				     "whisper",
				     "onnx",
				     "tensorrt",
				     "vllm",
				     "llama_cpp",
				     "chainer",
				     "src",
				     "mindspore",
				     "theano",
				     "nvidia",
				     "six",
				     "llvmlite",
				     "tiktoken",
				     "sentencepiece",
				     "langchain",
				     "langchain_core",
				     "langchain_community",
				     "langchain_huggingface",
				     "mlx" };
/* Commands that start another's program, or none. */
static const char *const starters[] = {
	"torchrun",    "deepspeed", "accelerate", "python",     "python3",
	"pytest",      "ipython",   "jupyter",    "uvicorn",    "gunicorn",
	"celery",      "streamlit", "ray",        "horovodrun", "jupyter-notebook",
	"jupyter-lab", "ds",        "py.test",    "pip",        "conda",
	"env",         "poetry",    "uv"
};
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The last part of a path that ends at `end`. */
static const char *part_of(const char *path, const char *end)
{
	while (end > path && end[-1] != '/' && end[-1] != '\\')
		end--;
	return end;
}

/* Is it one of these, in whatever case? */
static int is_part(const char *part, size_t n, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(names[i]) == n && !strncasecmp(part, names[i], n))
			return 1;
	return 0;
}

/* "/home/ann", "C:\Users\ann": whose, and no project. */
static int is_persons(const char *path, const char *part)
{
	const char *above = part > path + 1 ? part_of(path, part - 1) : part;
	size_t n = part > above ? (size_t)(part - 1 - above) : 0;

	return is_part(above, n, homes, 2) || is_part(above, n, homes + 2, 1);
}

/* The folder of a script that may be a project's name; *n 0: none is. */
static const char *folder_of(const char *path, size_t *n)
{
	const char *end = part_of(path, path + strlen(path));

	while (end > path + 1) {
		const char *part = part_of(path, end - 1);

		*n = (size_t)(end - 1 - part);
		if (is_part(part, *n, inner, COUNT(inner))) {
			end = part;
			continue;
		}
		if (*n < 2 || part == path || memchr(part, ':', *n) ||
		    is_part(part, *n, homes, COUNT(homes)) || is_persons(path, part))
			break;
		return part;
	}
	*n = 0;
	return path;
}

static size_t next_letter(const char *p, size_t i, size_t n)
{
	while (i < n && (p[i] == '-' || p[i] == '_' || p[i] == '.'))
		i++;
	return i;
}

/* "ParlAI" and "parlai", "fish-speech" and "fish_speech", "Foo-main" and "foo". */
static int is_same(const char *a, size_t n, const char *b, size_t m)
{
	size_t i = 0, k = 0;

	if (n > 5 && !strncmp(a + n - 5, "-main", 5))
		n -= 5;
	else if (n > 7 && !strncmp(a + n - 7, "-master", 7))
		n -= 7;
	for (;;) {
		i = next_letter(a, i, n);
		k = next_letter(b, k, m);
		if (i == n || k == m)
			return i == n && k == m;
		if ((a[i++] | 0x20) != (b[k++] | 0x20))
			return 0;
	}
}

/* A folder that holds a package of its own name; *n 0: there is none. */
static const char *doubled(const char *path, size_t *n)
{
	const char *end = part_of(path, path + strlen(path));
	const char *found = path;

	*n = 0;
	while (end > path + 1) {
		const char *part = part_of(path, end - 1), *above;
		size_t len = (size_t)(end - 1 - part);

		above = part > path ? part_of(path, part - 1) : part;
		if (above < part && len > 2 && !is_part(part, len, inner, COUNT(inner)) &&
		    is_same(above, (size_t)(part - 1 - above), part, len)) {
			*n = (size_t)(part - 1 - above);
			found = above;
		}
		end = part;
	}
	return found;
}

/* Words with a version behind them that are what a program runs on, and languages' own packages. */
static const char *const systems[] = { "CentOS",
				       "RHEL",
				       "Rocky",
				       "Fedora",
				       "Arch",
				       "Manjaro",
				       "Mint",
				       "WSL2",
				       "Cuda",
				       "Xcode",
				       "Helm",
				       "Chrome",
				       "Firefox",
				       "Monterey",
				       "Ventura",
				       "Sonoma",
				       "OSX",
				       "Android",
				       "CPython",
				       "OpenCL",
				       "Vulkan",
				       "DirectX",
				       "Metal",
				       "MPI",
				       "MPICH",
				       "Boost",
				       "CMake",
				       "ninja",
				       "make",
				       "LLVM",
				       "bash",
				       "Terminal",
				       "Vscode",
				       "PyCharm",
				       "Anaconda",
				       "Miniconda",
				       "flash-attn",
				       "Flash-Attention",
				       "sentence-transformers",
				       "OpenSSL",
				       "glibc",
				       "cudatoolkit",
				       "Powershell",
				       "Hardware",
				       "Software",
				       "Model",
				       "Dataset",
				       "Error",
				       "Warning",
				       "Info",
				       "Note",
				       "Build",
				       "Commit",
				       "Branch",
				       "Tag",
				       "Date",
				       "Name",
				       "Type",
				       "Platform",
				       "Architecture",
				       "Compiler",
				       "Browser",
				       "Device",
				       "Server",
				       "Client",
				       "Container",
				       "Image",
				       "Cluster",
				       "Job",
				       "Node.js",
				       "NodeJS",
				       "podman",
				       "intel",
				       "miniconda3",
				       "program",
				       "cuDNN",
				       "NCCL",
				       "Driver",
				       "Python",
				       "pip",
				       "conda",
				       "GCC",
				       "g++",
				       "clang",
				       "Ubuntu",
				       "Debian",
				       "Linux",
				       "Windows",
				       "macOS",
				       "Docker",
				       "Node",
				       "npm",
				       "Java",
				       "OpenJDK",
				       "Julia",
				       "Rust",
				       "cargo",
				       "rustc",
				       "ROCm",
				       "HIP",
				       "OpenMPI",
				       "GNU",
				       "PyTorch",
				       "R",
				       "Bioconductor",
				       "GPU",
				       "CPU",
				       "RAM",
				       "OS",
				       "Kernel",
				       "Version",
				       "release",
				       "Kubernetes",
				       "Slurm",
				       "WSL",
				       "Ruby",
				       "Perl",
				       "PHP",
				       "Go",
				       "Scala",
				       "MATLAB",
				       "Colab",
				       "Jupyter",
				       "GPUArrays",
				       "GPUCompiler",
				       "CUDAdrv",
				       "CuArrays",
				       "CUDAnative",
				       "Zygote",
				       "ChainRules",
				       "Loading",
				       "Found",
				       "Using",
				       "Total",
				       "devtools",
				       "tidyverse",
				       "dplyr",
				       "ggplot2",
				       "data.table",
				       "Matrix",
				       "parallel",
				       "methods",
				       "typescript",
				       "ts-node",
				       "jest",
				       "Mac",
				       "AMD",
				       "RTX",
				       "GTX",
				       "Tesla",
				       "GeForce",
				       "Epoch",
				       "Step",
				       "loss",
				       "Iteration",
				       "Time",
				       "Speed",
				       "Score",
				       "Size",
				       "Memory",
				       "Batch",
				       "Used",
				       "Free",
				       "Allocated",
				       "Peak",
				       "Elapsed",
				       "Took",
				       "About",
				       "After",
				       "lr",
				       "acc",
				       "mAP",
				       "IoU",
				       "FPS",
				       "VRAM",
				       "Chunk",
				       "Progress",
				       "Average",
				       "Mean" };

const char *scan_project_tool(size_t i)
{
	if (i < COUNT(tools))
		return tools[i];
	return i - COUNT(tools) < COUNT(systems) ? systems[i - COUNT(tools)] : NULL;
}

int scan_project_is_tool(const char *name, size_t n)
{
	return is_part(name, n, tools, COUNT(tools)) || is_part(name, n, systems, COUNT(systems));
}

static void keep(char *to, size_t size, const char *from, size_t n)
{
	n = n < size ? n : 0;
	memcpy(to, from, n);
	to[n] = 0;
}

void scan_project_package(char *to, size_t size, const char *file)
{
	static const char *const installed[] = { "site-packages", "dist-packages" };
	const char *at = NULL;
	size_t n;

	for (size_t i = 0; i < COUNT(installed) && !at; i++)
		at = strstr(file, installed[i]);
	if (!at || (at[13] != '/' && at[13] != '\\'))
		return;
	n = strcspn(at + 14, "/\\");
	if (n > 3 && !strncmp(at + 14 + n - 3, ".py", 3))
		n -= 3;
	if (n > 1 && !is_part(at + 14, n, tools, COUNT(tools)))
		keep(to, size, at + 14, n);
}

/* "/usr/local/bin/ilab": what pip installs to be started. */
void scan_project_command(char *to, size_t size, const char *file)
{
	const char *name = part_of(file, file + strlen(file));
	size_t n = strlen(name);
	const char *above;
	int is_bin;

	/* Windows' "Scripts\\ilab.exe\\__main__.py" */
	if (!strcmp(name, "__main__.py") && name > file + 5 && !strncasecmp(name - 5, ".exe", 4)) {
		const char *end = name - 5;

		name = part_of(file, end);
		n = (size_t)(end - name);
	}
	above = name > file + 1 ? part_of(file, name - 1) : name;
	is_bin = (name - above == 4 && !strncmp(above, "bin", 3)) ||
		 (name - above == 8 && !strncasecmp(above, "Scripts", 7));

	if (n > 4 && !strncasecmp(name + n - 4, ".exe", 4))
		n -= 4;
	if (is_bin && n > 1 && !memchr(name, '.', n) &&
	    !is_part(name, n, starters, COUNT(starters)))
		keep(to, size, name, n);
}

static const char *word_end(const char *p, const char *stop)
{
	while (p < stop && *p != ' ')
		p++;
	return p;
}

int scan_project_job(const char *start, const char *at, const char *stop, char *name, size_t size)
{
	static const char *const others[] = { "sh",          "bash",   "$CMD",      "srun",
					      "mpirun",      "time",   "nohup",     "sudo",
					      "singularity", "docker", "apptainer", "mpiexec" };
	const char *p = at, *end;
	size_t n;

	while (p > start && p[-1] >= '0' && p[-1] <= '9')
		p--;
	if (p == at || !memmem(start, (size_t)(p - start), ": line ", 7))
		return 0;
	p = word_end(at + 1, stop);
	while (p < stop && *p == ' ')
		p++;
	if (stop - p > 14 && !strncmp(p, "(core dumped) ", 14))
		for (p += 14; p < stop && *p == ' '; p++)
			;
	end = word_end(p, stop);
	p = part_of(p, end);
	n = (size_t)(end - p);
	if (n < 2 || n >= size || strchr("$(\"'<", *p) || memchr(p, '=', n) ||
	    is_part(p, n, starters, COUNT(starters)) || is_part(p, n, others, COUNT(others)))
		return 0;
	keep(name, size, p, n);
	return 1;
}

const char *scan_project_prompt(const char *from, const char *at, char *name, size_t size)
{
	for (const char *p = at - from > 5 ? at - 5 : from; p > from; p--) {
		const char *word = p + 2, *end;

		if (!strchr("$#%", *p) || memcmp(p + 1, " ./", 3) != 0 ||
		    (p[-1] == '$' || p[-1] == '#'))
			continue;
		for (end = word; end < at && (unsigned char)*end > ' ';)
			end++;
		word = part_of(word, end);
		if (end - word < 3 || (size_t)(end - word) >= size ||
		    (end - word > 3 && !strncmp(end - 3, ".sh", 3)))
			return NULL;
		keep(name, size, word, (size_t)(end - word));
		return p;
	}
	return NULL;
}

/* Folders at the top of a project, which hold its sources and those that it is built with. */
static int is_top(const char *part, size_t n)
{
	static const char *const tops[] = { "src",    "source",     "include",     "csrc",
					    "cpp",    "thirdparty", "third_party", "lib",
					    "extern", "external",   "deps",        "crates" };

	return is_part(part, n, tops, COUNT(tops));
}

/* The folder above the first one that is at the top of a project. */
static int source_of(char *to, size_t size, const char *path, const char *end)
{
	const char *above = path, *part = path;

	for (const char *p = path; p < end; p++) {
		size_t n = (size_t)(p - part), had = part > above ? (size_t)(part - 1 - above) : 0;

		if (*p != '/' && *p != '\\')
			continue;
		if (is_top(part, n) && had > 2 && !is_part(above, had, inner, COUNT(inner)) &&
		    !is_part(above, had, homes, COUNT(homes)) && above > path + 1 &&
		    !is_persons(path, above) && !memchr(above, '.', had)) {
			keep(to, size, above, had);
			return to[0] != 0;
		}
		above = part;
		part = p + 1;
	}
	return 0;
}

void scan_project_source(char *to, size_t size, const char *text)
{
	static const char *const kinds[] = { ".cu:",     ".cpp:",    ".cc:",  ".hpp:", ".cuh:",
					     ".h:",      ".cu(",     ".cpp(", ".hpp(", ".cuh(",
					     ".rs:",     ".c:",      ".fpp",  ".f90",  ".cu\"",
					     ".cu line", ".cpp line" };

	for (size_t i = 0; i < COUNT(kinds); i++) {
		const char *end = strstr(text, kinds[i]), *p = end;

		while (p && p > text && !strchr(" '\"([<,=", p[-1]))
			p--;
		if (p && (*p == '/' || (p[0] && p[1] == ':')) && source_of(to, size, p, end))
			return;
	}
}

/* What was started, and no part that is called. */
static int is_started(const struct messages_frame *f)
{
	return !f->function[0] || !strcmp(f->function, "<module>") ||
	       !strncmp(f->function, "main", 4) || !strcmp(f->function, "train");
}

void scan_project_find(const struct messages_trace *t, struct messages_project *out)
{
	const struct messages_frame *outer = &t->outer;
	const char *name = part_of(outer->file, outer->file + strlen(outer->file)), *folder;
	size_t n = 0;

	memset(out, 0, sizeof(*out));
	if (is_started(outer) && strlen(name) > 3 && !strcmp(name + strlen(name) - 3, ".py") &&
	    strcmp(name, "__main__.py") != 0 && strcmp(name, "launch.py") != 0 &&
	    strcmp(name, "wsgi.py") != 0)
		keep(out->script, sizeof(out->script), name, strlen(name));
	folder = doubled(outer->file, &n);
	if (!n)
		folder = doubled(t->user.file, &n);
	if (!n && out->script[0])
		folder = folder_of(outer->file, &n);
	if (!n && out->script[0] && t->caller_count)
		folder = folder_of(t->user.file, &n);
	keep(out->name, sizeof(out->name), folder, n);
	if (!out->name[0] && t->command[0])
		keep(out->name, sizeof(out->name), t->command, strlen(t->command));
	if (!out->name[0])
		keep(out->package, sizeof(out->package), t->package, strlen(t->package));
}

int scan_project_folder(const char *path, char *name, size_t size)
{
	const char *folder;
	size_t n = 0;

	if (strstr(path, "-packages") || strstr(path, "/lib/python"))
		return 0;
	folder = doubled(path, &n);
	if (!n)
		folder = folder_of(path, &n);
	keep(name, size, folder, n);
	return n && n < size && !scan_project_is_tool(name, n);
}
