/* Texts of a report: frames as people read them, shortened and redacted as was asked. */
#include "verbs/report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *report_take(struct plim_report *r, size_t n, size_t size, struct plim_err *err)
{
	return arena_take(&r->hidden->arena, n, size, err);
}

const char *report_text(struct plim_report *r, struct plim_err *err, const char *fmt, ...)
{
	const char *text;
	va_list ap;

	va_start(ap, fmt);
	text = arena_vtext(&r->hidden->arena, err, fmt, ap);
	va_end(ap);
	return text;
}

/*
 * What --redact leaves readable: packages that everybody has the source of.  Anything else that is
 * installed may be somebody's own.
 */
static const char *const public_packages[] = {
	"torch",
	"torchvision",
	"torchaudio",
	"torchao",
	"torchtune",
	"torchmetrics",
	"torchtitan",
	"transformers",
	"accelerate",
	"peft",
	"trl",
	"diffusers",
	"datasets",
	"safetensors",
	"tokenizers",
	"optimum",
	"deepspeed",
	"megatron",
	"transformer_engine",
	"apex",
	"flash_attn",
	"xformers",
	"bitsandbytes",
	"triton",
	"lightning",
	"pytorch_lightning",
	"lightning_fabric",
	"timm",
	"numpy",
	"vllm",
	"sglang",
	"liger_kernel",
	"unsloth",
	"fairscale",
	"ray",
	"einops",
	"sentence_transformers",
	"tqdm",
	"fsspec",
	"open_clip",
	"ultralytics",
	"monai",
	"torch_geometric",
	"axolotl",
	"llamafactory",
};

/* Symbols without a file: those of PyTorch, the C++ library, CPython and the system. */
static const char *const public_symbols[] = {
	"at::",       "c10::",   "torch::",   "std::",   "caffe2::",     "pybind11::",
	"Py_",        "_Py",     "PyObject_", "PyEval_", "PyRun_",       "PyMethod_",
	"PyCMethod_", "PyDict_", "PyDescr_",  "PyType_", "THP",          "cublas",
	"cudnn",      "__libc_", "__clone",   "_start",  "start_thread",
};

/* "torch/nn/modules/linear.py", "python3.11/runpy.py" */
const char *report_public_part(const char *file)
{
	static const char *const homes[] = { "/site-packages/", "/dist-packages/" };
	static const char python[] = "/lib/python3.";
	const char *at;

	if (!strncmp(file, "<frozen ", 8))
		return file;
	for (size_t h = 0; h < 2; h++) {
		at = strstr(file, homes[h]);
		if (!at)
			continue;
		at += strlen(homes[h]);
		for (size_t i = 0; i < sizeof(public_packages) / sizeof(public_packages[0]); i++) {
			size_t n = strlen(public_packages[i]);

			if (!strncmp(at, public_packages[i], n) && (at[n] == '/' || at[n] == '.'))
				return at;
		}
		return NULL;
	}
	at = strstr(file, python);
	return at && at[sizeof(python) - 1] ? at + strlen("/lib/") : NULL;
}

/*
 * The name of a public C++ or C function without types, which may be the user's: "at::_sum_to" of
 * "at::Tensor at::_sum_to<...>(...)".  0 when it is not public, or a Python function.
 */
static int public_symbol(const char *file, const char *name, char *out, size_t size)
{
	size_t n = strcspn(name, "(<"), from = n;

	if (*file && strcmp(file, "??"))
		return 0;
	while (from && name[from - 1] != ' ')
		from--;
	for (size_t i = 0; i < sizeof(public_symbols) / sizeof(public_symbols[0]); i++) {
		if (!strncmp(name + from, public_symbols[i], strlen(public_symbols[i]))) {
			snprintf(out, size, "%.*s", (int)(n - from), name + from);
			return 1;
		}
	}
	return 0;
}

/* "file-3": the same name always the same word, in the order of first use. */
static const char *redacted(const struct plim_report *r, uint32_t string, const char *kind,
			    char *word, size_t size)
{
	struct plim_report_hidden *h = r->hidden;

	if (!h->words[string])
		h->words[string] = ++h->word_count;
	snprintf(word, size, "%s-%u", kind, h->words[string]);
	return word;
}

static const char *short_file(const struct plim_report *r, const char *file)
{
	const char *prefix = r->hidden->options.strip_prefix,
		   *site = strstr(file, "/site-packages/");

	if (prefix && !strncmp(file, prefix, strlen(prefix)))
		return file + strlen(prefix);
	return site ? site + strlen("/site-packages/") : file;
}

const char *report_name(const struct plim_report *r, uint32_t string, const char *kind, char *word,
			size_t size)
{
	return r->hidden->options.flags & PLIM_REPORT_REDACT
		       ? redacted(r, string, kind, word, size)
		       : snapshot_text(r->hidden->snapshot, string);
}

void report_place(const struct plim_report *r, uint32_t frame, struct report_place *out)
{
	const struct snapshot *t = r->hidden->snapshot;
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename), *name = snapshot_text(t, f->name);

	out->file = file;
	out->name = name;
	if (!(r->hidden->options.flags & PLIM_REPORT_REDACT)) {
		out->file = short_file(r, file);
	} else if (report_public_part(file)) {
		out->file = report_public_part(file);
	} else {
		if (*file && strcmp(file, "??"))
			out->file = redacted(r, f->filename, "file", out->file_word,
					     sizeof(out->file_word));
		if (!public_symbol(file, name, out->name_word, sizeof(out->name_word)))
			redacted(r, f->name, "function", out->name_word, sizeof(out->name_word));
		out->name = out->name_word;
	}
}

const char *report_frame(struct plim_report *r, uint32_t frame, struct plim_err *err)
{
	struct report_place at;
	uint32_t line;

	if (frame == TRACE_NONE)
		return NULL;
	report_place(r, frame, &at);
	line = snapshot_frame(r->hidden->snapshot, frame)->line;
	if (line == TRACE_NONE)
		return report_text(r, err, "%.900s in %.900s", at.file, at.name);
	return report_text(r, err, "%.900s:%u in %.900s", at.file, line, at.name);
}

enum plim_status report_stack(struct plim_report *r, uint32_t stack, const char ***out, size_t *n,
			      struct plim_err *err)
{
	uint32_t count;
	const uint32_t *frames = snapshot_stack(r->hidden->snapshot, stack, &count);

	*n = 0;
	*out = report_take(r, count, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	for (uint32_t i = 0; i < count; i++) {
		(*out)[i] = report_frame(r, frames[i], err);
		if (!(*out)[i])
			return mem_status(err);
	}
	*n = count;
	return PLIM_OK;
}
