#include "file_kind.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- by shape ---- */

static int file_is_empty(const uint8_t *p, size_t n)
{
	(void)p;
	return !n;
}

static int file_is_zeros(const uint8_t *p, size_t n)
{
	while (n && !p[n - 1])
		n--;
	return !n;
}

/* The length of its header, which is below 2^32, then the header. */
static int file_is_safetensors(const uint8_t *p, size_t n)
{
	return n > 8 && p[8] == '{' && !memcmp(p + 4, "\0\0\0", 4);
}

/* A pickle of protocol 2 to 5 with the keys of a recording. */
static int file_is_recording(const uint8_t *p, size_t n)
{
	return n && *p == 0x80 &&
	       (memmem(p, n, "device_traces", 13) || memmem(p, n, "segments", 8));
}

static int file_is_pickle(const uint8_t *p, size_t n)
{
	return n > 1 && *p == 0x80 && p[1] <= 5;
}

/* TensorBoard's first record: its length, a checksum, then an event with a version. */
static int file_is_events(const uint8_t *p, size_t n)
{
	return n > 32 && !memcmp(p + 4, "\0\0\0", 4) &&
	       memmem(p + 12, (n < 64 ? n : 64) - 12, "brain.Event:", 12);
}

/* ModelProto (onnx.proto): field 1, the version of the format; field 2, the producer's name. */
static int file_is_onnx(const uint8_t *p, size_t n)
{
	return n > 16 && p[0] == 0x08 && p[1] >= 3 && p[1] <= 20 && p[2] == 0x12 && p[3] &&
	       p[3] < 64 && isalpha(p[4]);
}

/* Behind a byte order mark and spaces. */
static const uint8_t *file_text(const uint8_t *p, const uint8_t *end)
{
	if (end - p >= 3 && !memcmp(p, "\357\273\277", 3))
		p += 3;
	while (p < end && isspace(*p))
		p++;
	return p;
}

static int file_is_web_page(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;

	p = file_text(p, end);
	return end - p >= 5 && (!strncasecmp((const char *)p, "<!doc", 5) ||
				!strncasecmp((const char *)p, "<html", 5) ||
				!strncasecmp((const char *)p, "<?xml", 5));
}

static int file_is_our_page(const uint8_t *p, size_t n)
{
	return file_is_web_page(p, n) && memmem(p, n, "plimsoll", 8);
}

/* torch/profiler/_memory_profiler.py, export_memory_timeline_html */
static int file_is_memory_timeline(const uint8_t *p, size_t n)
{
	static const char title[] = "<title>GPU Memory Timeline HTML</title>";

	return file_is_web_page(p, n) && memmem(p, n, title, sizeof(title) - 1);
}

/* The first line of a text, without its end. */
static size_t file_line(const uint8_t *p, const uint8_t *end)
{
	size_t n = 0;

	while (p + n < end && p[n] != '\n' && p[n] != '\r')
		n++;
	return n;
}

static int file_is_python(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n, *text = file_text(p, end);
	size_t line = file_line(text, end);

	return (line > 7 && !memcmp(text, "import ", 7)) ||
	       (line > 5 && !memcmp(text, "from ", 5) && memmem(text, line, " import ", 8)) ||
	       (line > 2 && !memcmp(text, "#!", 2) && memmem(text, line, "python", 6));
}

/* The names of a table's columns, one of which is a loss. */
static int file_is_table(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n, *text = file_text(p, end);
	size_t line = file_line(text, end);

	for (size_t i = 0; i < line; i++)
		if (!isalnum(text[i]) && !strchr(",\t_-/.\"", text[i]))
			return 0;
	return memmem(text, line, "loss", 4) &&
	       (memchr(text, ',', line) || memchr(text, '\t', line));
}

/* torch/profiler/_memory_profiler.py, export_memory_timeline: [[time, ...], [[bytes, ...], ...]] */
static int file_is_timeline(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;

	p = file_text(p, end);
	if (end - p < 4 || memcmp(p, "[[", 2) != 0 || !memchr(p, ',', (size_t)(end - p)))
		return 0;
	while (p < end && (isdigit(*p) || isspace(*p) || strchr("[],-", *p)))
		p++;
	return p == end;
}

/* Many control characters, but not zeros, which a log has that was cut; a pickle begins with a letter, a
 * bracket or 80. */
static int file_is_binary(const uint8_t *p, size_t n)
{
	size_t control = 0;

	for (size_t i = 0; i < n; i++)
		control += p[i] && p[i] < 0x20 && !strchr("\t\n\r\f\033\b", p[i]);
	return (*p < 0x20 || *p > 0x80) && control > n / 32;
}

/* One row per line. */
/* clang-format off */
#define BYTES(text) text, sizeof(text) - 1
#define RECORDING "a recording of GPU memory"
#define CONFIG "a model's configuration"
#define RUN_CONFIG "a training run's configuration"
#define HISTORY "a training log"

/* The first that fits: bytes at a place, or a shape.  {slug, what it is, the command that reads it, remedy, text, lost} */
static const struct file_row {
	size_t at;
	const char *bytes;
	size_t n;
	int (*fits)(const uint8_t *head, size_t n);
	struct file_kind kind;
} rows[] = {
	{ 0, NULL, 0, file_is_empty, { "empty", "empty", NULL, "nothing was written to it, or the disk was full", 0, 1 } },
	{ 0, NULL, 0, file_is_zeros, { "zeros", "zeros only", NULL, "the file was never written (disk full, or lost in a crash)", 0, 1 } },
	{ 0, NULL, 0, file_is_safetensors, { "safetensors", "a model's weights (safetensors)", "ckpt verify", NULL, 0, 0 } },
	{ 0, NULL, 0, file_is_events, { "events", "a training log (TensorBoard)", "curves", NULL, 0, 0 } },
	{ 0, BYTES("version https://git-lfs"), NULL, { "lfs_pointer", "a Git LFS pointer", NULL, "the file itself was not fetched (git lfs pull)", 1, 1 } },
	{ 0, BYTES("{\"schema\":\"trace/"), NULL, { "plan_trace", "a trace by plimsoll plan", "plan", NULL, 1, 0 } },
	{ 0, BYTES("PLIM\211"), NULL, { "packed_recording", "a recording of GPU memory (packed)", "report", NULL, 0, 0 } },
	{ 0, BYTES("\200\002\212\012l\374\234F\371 j\250P"), NULL, { "torch_legacy", "a checkpoint (torch.save before 1.6)", "ckpt verify", NULL, 0, 0 } },
	{ 0, BYTES("PK\3\4"), NULL, { "zip", "a checkpoint or another zip file", "ckpt verify", NULL, 0, 0 } },
	{ 0, BYTES("GGUF"), NULL, { "gguf", "a model's weights (GGUF)", "ckpt verify", NULL, 0, 0 } },
	{ 0, BYTES("PYTORCH1"), NULL, { "preview_archive", "an archive of a PyTorch preview", NULL, "torch refuses it too", 0, 0 } },
	{ 0, BYTES("\n\016\n\005<unk>"), NULL, { "sentencepiece", "a SentencePiece tokenizer", NULL, NULL, 0, 0 } },
	{ 0, BYTES(":W&B"), NULL, { "wandb", "a training log (Weights & Biases)", "curves", NULL, 0, 0 } },
	{ 0, BYTES("\037\213"), NULL, { "gzip", "compressed with gzip", NULL, "decompress it first", 0, 0 } },
	{ 0, BYTES("(\265/\375"), NULL, { "zstd", "compressed with zstd", NULL, "decompress it first", 0, 0 } },
	{ 0, BYTES("\3757zXZ"), NULL, { "xz", "compressed with xz", NULL, "decompress it first", 0, 0 } },
	{ 0, BYTES("BZh"), NULL, { "bzip2", "compressed with bzip2", NULL, "decompress it first", 0, 0 } },
	{ 0, BYTES("\004\"M\030"), NULL, { "lz4", "compressed with lz4", NULL, "decompress it first", 0, 0 } },
	{ 0, BYTES("7z\274\257\047\034"), NULL, { "seven_zip", "a 7z archive", NULL, "torch cannot load it, and it is used to hide pickles from scanners", 0, 0 } },
	{ 0, BYTES("Rar!\032\007"), NULL, { "rar", "a RAR archive", NULL, "unpack it first", 0, 0 } },
	{ 0, BYTES("SQLite format 3"), NULL, { "sqlite", "an SQLite database", NULL, NULL, 0, 0 } },
	{ 4, BYTES("TFL3"), NULL, { "tflite", "a model of TensorFlow Lite", NULL, NULL, 0, 0 } },
	{ 0, BYTES("\223NUMPY"), NULL, { "numpy", "a NumPy array", NULL, NULL, 0, 0 } },
	{ 0, BYTES("\211HDF"), NULL, { "hdf5", "an HDF5 file (Keras keeps weights so)", NULL, NULL, 0, 0 } },
	{ 0, BYTES("\211PNG"), NULL, { "png", "a picture", NULL, NULL, 0, 0 } },
	{ 0, BYTES("\177ELF"), NULL, { "program", "a program", NULL, NULL, 0, 0 } },
	{ 0, BYTES("%PDF"), NULL, { "pdf", "a PDF", NULL, NULL, 0, 0 } },
	{ 257, BYTES("ustar"), NULL, { "tar", "a tar file", NULL, "unpack it first", 0, 0 } },
	{ 0, BYTES("\377\376"), NULL, { "utf16", "text in UTF-16", NULL, NULL, 0, 0 } },
	{ 0, BYTES("\376\377"), NULL, { "utf16", "text in UTF-16", NULL, NULL, 0, 0 } },
	{ 0, NULL, 0, file_is_recording, { "recording", RECORDING, "report", NULL, 0, 0 } },
	{ 0, NULL, 0, file_is_pickle, { "pickle", "a pickle", "ckpt verify", NULL, 0, 0 } },
	{ 0, NULL, 0, file_is_onnx, { "onnx", "an ONNX model", NULL, NULL, 0, 0 } },
	{ 0, NULL, 0, file_is_our_page, { "page", "a page that plimsoll made", NULL, "open it in a browser", 1, 0 } },
	{ 0, NULL, 0, file_is_memory_timeline, { "memory_timeline_page", "a picture that export_memory_timeline drew", NULL, "it has no numbers: export_memory_timeline('timeline.json') writes what 'plimsoll report' reads", 1, 0 } },
	{ 0, NULL, 0, file_is_web_page, { "html", "a web page", NULL, "give the file that it was made from (a download that failed leaves an error page)", 1, 0 } },
	{ 0, BYTES("Traceback (most recent call last)"), NULL, { "log", "a log", "why", NULL, 1, 0 } },
	{ 0, NULL, 0, file_is_timeline, { "timeline", "a memory timeline of torch.profiler", "report", NULL, 1, 0 } },
	{ 0, NULL, 0, file_is_python, { "python", "Python source", "lint", NULL, 1, 0 } },
	{ 0, NULL, 0, file_is_table, { "metrics", HISTORY, "curves", NULL, 1, 0 } },
};

/* The first whose word stands in the head of a text that begins with `begins` (0: with anything). */
static const struct file_word {
	uint8_t begins;
	const char *word;
	struct file_kind kind;
} words[] = {
	{ '{', "\"schema\": \"plimsoll", { "answer", "an answer of plimsoll in JSON", NULL, NULL, 1, 0 } },
	{ '{', "\"device_traces\"", { "recording_json", "a recording of GPU memory (JSON)", "report", NULL, 1, 0 } },
	{ '{', "\"segments\"", { "recording_json", "a recording of GPU memory (JSON)", "report", NULL, 1, 0 } },
	{ '{', "\"traceEvents\"", { "profile", "a profiler's trace", "report", NULL, 1, 0 } },
	{ '{', "\"deviceProperties\"", { "profile", "a profiler's trace", "report", NULL, 1, 0 } }, /* "traceEvents" stands behind those of all GPUs */
	{ '{', "\"log_history\"", { "trainer_state", HISTORY, "curves", NULL, 1, 0 } },
	{ '{', "\"weight_map\"", { "weight_index", "an index of a model's weights", "ckpt verify", NULL, 1, 0 } },
	{ '{', "\"peft_type\"", { "adapter_config", "an adapter's configuration", NULL, NULL, 1, 0 } },
	{ '{', "\"architectures\"", { "config", CONFIG, "plan", NULL, 1, 0 } },
	{ '{', "\"model_type\"", { "config", CONFIG, "plan", NULL, 1, 0 } },
	{ '{', "\"hidden_size\"", { "config", CONFIG, "plan", NULL, 1, 0 } },
	{ '{', "\"zero_optimization\"", { "run_config", "a configuration of DeepSpeed", "plan", NULL, 1, 0 } },
	{ '{', "\"per_device_train_batch_size\"", { "run_config", RUN_CONFIG, "plan", NULL, 1, 0 } },
	{ '{', "\"cells\"", { "notebook", "a notebook", "lint", NULL, 1, 0 } },
	{ '{', "\"loss\"", { "metrics", HISTORY, "curves", NULL, 1, 0 } },
	{ 0, "NVIDIA-SMI ", { "nvidia_smi", "what nvidia-smi printed", "why", NULL, 1, 0 } },
	{ 0, "apiVersion:", { "kubernetes", "a text of Kubernetes", "why", NULL, 1, 0 } },
};

/* By the ends of names, the first that fits. */
static const struct file_name {
	const char *ends; /* with a space behind each */
	struct file_kind kind;
} names[] = {
	{ ".safetensors .safetensors.index.json .gguf .pt .pth .ckpt .bin .distcp .metadata ", { "checkpoint", "a checkpoint", "ckpt verify", NULL, 0, 0 } },
	{ ".pickle .pkl .plim .tar ", { "recording", RECORDING, "report", NULL, 0, 0 } },
	{ "trainer_state.json .jsonl .csv .tsv .wandb ", { "metrics", HISTORY, "curves", NULL, 1, 0 } },
	{ "config.json ", { "config", CONFIG, "plan", NULL, 1, 0 } },
	{ ".yaml .yml ", { "run_config", RUN_CONFIG, "plan", NULL, 1, 0 } },
	{ ".py ", { "python", "Python source", "lint", NULL, 1, 0 } },
	{ ".ipynb ", { "notebook", "a notebook", "lint", NULL, 1, 0 } },
	{ ".log .out .err ", { "log", "a log", "why", NULL, 1, 0 } },
	{ ".txt ", { "text", "a text", "why", NULL, 1, 0 } },
};

static const struct file_kind file_text_kind = { "text", "a text", "why", NULL, 1, 0 },
			      file_binary = { "unrecognised", "binary data of no kind that is known here", NULL, "it may be damaged; copy it again", 0, 0 };
/* clang-format on */

#define COUNT(rows) (sizeof(rows) / sizeof(*(rows)))

const struct file_kind *file_kind_of_bytes(const uint8_t *p, size_t n)
{
	n = n < FILE_KIND_HEAD_BYTES ? n : FILE_KIND_HEAD_BYTES;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct file_row *row = &rows[i];

		if (row->fits ? row->fits(p, n)
			      : n >= row->at + row->n && !memcmp(p + row->at, row->bytes, row->n))
			return &row->kind;
	}
	return NULL;
}

const struct file_kind *file_kind_of(const uint8_t *p, size_t n)
{
	const struct file_kind *kind = file_kind_of_bytes(p, n);
	const uint8_t *text;

	if (kind)
		return kind;
	n = n < FILE_KIND_HEAD_BYTES ? n : FILE_KIND_HEAD_BYTES;
	text = file_text(p, p + n);
	for (size_t i = 0; i < COUNT(words); i++)
		if ((!words[i].begins || (text < p + n && *text == words[i].begins)) &&
		    memmem(p, n, words[i].word, strlen(words[i].word)))
			return &words[i].kind;
	return NULL;
}

const struct file_kind *file_kind_of_file(const char *name, const uint8_t *head, size_t n)
{
	const struct file_kind *kind = file_kind_of(head, n), *named;
	int text;

	if (kind)
		return kind;
	n = n < FILE_KIND_HEAD_BYTES ? n : FILE_KIND_HEAD_BYTES;
	if (file_is_binary(head, n))
		return &file_binary;
	text = file_is_text(head, n);
	named = file_kind_of_name(name);
	if (named && named->text == text)
		return named;
	return text ? &file_text_kind : NULL;
}

/* Does the name end with one of the texts that have a space behind them?  That one's length; 0: with none. */
static size_t file_ends(const char *name, size_t n, const char *ends)
{
	for (size_t m; *ends; ends += m + 1) {
		m = strcspn(ends, " ");
		if (n >= m && !strncasecmp(name + n - m, ends, m))
			return m;
	}
	return 0;
}

size_t file_plain_length(const char *name)
{
	size_t n = strlen(name);

	return n - file_ends(name, n, ".gz .xz .zst .bz2 "); /* what base/source.h decompresses */
}

const struct file_kind *file_kind_of_name(const char *name)
{
	size_t n = file_plain_length(name);

	for (size_t i = 0; i < COUNT(names); i++)
		if (file_ends(name, n, names[i].ends))
			return &names[i].kind;
	return NULL;
}

int file_is_text(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] < 0x20 && (!p[i] || !strchr("\t\n\r\f\033\b", p[i])))
			return 0;
	return n > 0;
}
