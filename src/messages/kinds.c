/* Files that are no logs: what they are, and which verb reads them, by their first bytes. */
#include "scan.h"

#include <string.h>

static const struct kind {
	size_t at; /* where the bytes stand; ANYWHERE: in the head, of a file that begins with `begins` */
	const char *bytes;
	size_t n;
	const char *begins; /* NULL: anything */
	const char *is, *verb;
} kinds[] = {
#define ANYWHERE SIZE_MAX
#define WORD(word, begins, is, verb)                               \
	{                                                          \
		ANYWHERE, word, sizeof(word) - 1, begins, is, verb \
	}
	WORD("device_traces", "\x80", "a recording of GPU memory", "report"),
	WORD("segments", "\x80", "a recording of GPU memory", "report"),
	{ 0, "PLIM\211", 5, NULL, "a recording of GPU memory (packed)", "report" },
	{ 0, "\x80\x02\x8a\x0al\xfc", 6, NULL, "a checkpoint (torch.save, before 1.6)",
	  "ckpt verify" },
	{ 0, "\x80", 1, NULL, "a pickle", "ckpt verify" },
	{ 0, "PK\3\4", 4, NULL, "a checkpoint, or another zip file", "ckpt verify" },
	{ 0, "GGUF", 4, NULL, "a model's weights (GGUF)", "ckpt verify" },
	{ 7, "\0{\"", 3, NULL, "a model's weights (safetensors)", "ckpt verify" },
	WORD("plimsoll", "<", "a page that plimsoll made, for a browser", NULL),
	WORD("\"schema\": \"plimsoll", "{", "an answer of plimsoll in JSON", NULL),
	WORD("\"device_traces\"", "{", "a recording of GPU memory (JSON)", "report"),
	WORD("\"architectures\"", "{", "a model's configuration", "plan"),
	WORD("\"model_type\"", "{", "a model's configuration", "plan"),
	WORD("\"peft_type\"", "{", "an adapter's configuration", NULL),
	WORD("\"log_history\"", "{", "a trainer's history", "curves"),
	WORD("\"weight_map\"", "{", "an index of a model's weights", "ckpt verify"),
	WORD("\"zero_optimization\"", "{", "a configuration of DeepSpeed", "plan"),
	WORD("\"per_device_train_batch_size\"", "{", "a training run's configuration", "plan"),
	{ 0, "\211PNG", 4, NULL, "a picture", NULL },
	{ 0, "\177ELF", 4, NULL, "a program", NULL },
	{ 0, "%PDF", 4, NULL, "a PDF", NULL },
	{ 0, "\211HDF\r\n", 6, NULL, "a file of HDF5 (Keras keeps weights so)", NULL },
	{ 0, "\223NUMPY", 6, NULL, "an array of NumPy", NULL },
#undef WORD
};

static int fits(const struct kind *k, const char *head, size_t n)
{
	const char *p = head;

	if (k->at != ANYWHERE)
		return n >= k->at + k->n && !memcmp(head + k->at, k->bytes, k->n);
	if (*k->begins != '\x80')
		while (p < head + n && strchr(" \t\r\n", *p))
			p++;
	return p < head + n && *p == *k->begins && memmem(head, n, k->bytes, k->n);
}

int scan_kind(const struct source *src, struct messages_kind *out)
{
	const char *head = (const char *)src->p;
	size_t n = (size_t)(src->end - src->p);

	n = n < SCAN_HEAD_BYTES ? n : SCAN_HEAD_BYTES;
	for (size_t i = 0; n && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!fits(&kinds[i], head, n))
			continue;
		out->is = kinds[i].is;
		out->verb = kinds[i].verb;
		out->text = kinds[i].begins && *kinds[i].begins != '\x80';
		return 1;
	}
	return 0;
}
