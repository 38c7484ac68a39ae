/* Where a program ran, as the names of its frames tell. */
#include "snapshot.h"

#include <string.h>

/* Parts of names and files that only this backend's allocator, libraries or compilers have, with '/' between folders. */
static const struct platform_mark {
	enum snapshot_backend backend;
	const char *part;
} platform_marks[] = {
	{ SNAPSHOT_HIP, "HIPCachingAllocator" },
	{ SNAPSHOT_HIP, "c10::hip::" },
	{ SNAPSHOT_HIP, "c10/hip/" },
	{ SNAPSHOT_HIP, "ATen/hip/" },
	{ SNAPSHOT_HIP, "libc10_hip" },
	{ SNAPSHOT_HIP, "libtorch_hip" },
	{ SNAPSHOT_HIP, "triton/backends/amd/" },
	{ SNAPSHOT_XPU, "XPUCachingAllocator" },
	{ SNAPSHOT_XPU, "c10::xpu::" },
	{ SNAPSHOT_XPU, "c10/xpu/" },
	{ SNAPSHOT_XPU, "ATen/xpu/" },
	{ SNAPSHOT_XPU, "libc10_xpu" },
	{ SNAPSHOT_XPU, "libtorch_xpu" },
	{ SNAPSHOT_XPU, "torch/xpu/memory.py" },
	{ SNAPSHOT_XPU, "intel_extension_for_pytorch/" },
	{ SNAPSHOT_XPU, "triton/backends/intel/" },
};

/* PyTorch 2.9 gave all backends one variable; it reads CUDA's and HIP's own as before. */
static const struct snapshot_platform platforms[] = {
	[SNAPSHOT_CUDA] = { .variable = "PYTORCH_CUDA_ALLOC_CONF",
			    .monitor = "nvidia-smi",
			    .holders = "nvidia-smi, or fuser -v /dev/nvidia*" },
	[SNAPSHOT_HIP] = { .variable = "PYTORCH_HIP_ALLOC_CONF",
			   .monitor = "rocm-smi",
			   .holders = "rocm-smi --showpids" },
	[SNAPSHOT_XPU] = { .variable = "PYTORCH_ALLOC_CONF",
			   .monitor = "xpu-smi",
			   .holders = "xpu-smi ps" },
};

/* Does `text` contain `part`, whichever way its slashes lean? */
static int platform_contains(const char *text, const char *part)
{
	for (const char *at = text; (at = strchr(at, *part)) != NULL; at++) {
		size_t n = 0;

		while (part[n] && (at[n] == part[n] || (part[n] == '/' && at[n] == '\\')))
			n++;
		if (!part[n])
			return 1;
	}
	return 0;
}

/* "C:\\Users\\...", as Windows alone writes it. */
static int platform_has_drive(const char *file)
{
	int letter = (*file >= 'A' && *file <= 'Z') || (*file >= 'a' && *file <= 'z');

	return letter && file[1] == ':' && (file[2] == '\\' || file[2] == '/');
}

struct snapshot_platform snapshot_platform_of(const struct snapshot *t)
{
	enum snapshot_backend backend = SNAPSHOT_CUDA;
	struct snapshot_platform p;
	size_t drives = 0, roots = 0;

	for (uint32_t f = 0; f < t->frames.n; f++) {
		const struct snapshot_frame *frame = snapshot_frame(t, f);
		const char *name = snapshot_text(t, frame->name);
		const char *file = snapshot_text(t, frame->filename);

		drives += platform_has_drive(file) != 0;
		roots += *file == '/';
		for (size_t i = 0; backend == SNAPSHOT_CUDA &&
				   i < sizeof(platform_marks) / sizeof(platform_marks[0]);
		     i++)
			if (platform_contains(file, platform_marks[i].part) ||
			    platform_contains(name, platform_marks[i].part))
				backend = platform_marks[i].backend;
	}
	p = platforms[backend];
	p.backend = backend;
	/* frames of a library that was built elsewhere keep the paths of that machine */
	p.windows = drives > roots;
	if (p.windows && backend == SNAPSHOT_CUDA)
		p.holders = p.monitor;
	return p;
}
