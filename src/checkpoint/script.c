/*
 * The code in a TorchScript archive: torch.jit.load compiles it and runs what restores states, a call of the module
 * the rest.  It cannot reach Python, only operators; of these a few write files or map them, and those of other libraries
 * no one knows here.  Names stand in it in full: "torch.relu(...)", "ops.quantized.linear(...)",
 * "__torch__.torch.classes.rnn.CellParamsBase".
 */
#include "parts.h"

#include <ctype.h>
#include <stdio.h>

#define CHAIN_BYTES 200

static const char *const dangerous[] = { "torch.save", "torch.from_file", "ops.aten.save",
					 "ops.aten.from_file" };
/* Of operators and of classes: what computes. */
static const char *const computing[] = {
	"aten",      "prim",   "quantized",        "torchvision", "sparse",
	"prepacked", "mkldnn", "mkldnn_prepacked", "xnnpack",     "rnn",
	"metal",     "vulkan", "_caffe2",          "inductor",    "quantized_decomposed"
};

/* Part `i` of "a.b.c"; "" behind the last. */
static void part_of(const char *chain, unsigned i, char *part, size_t size)
{
	while (i-- && *chain) {
		chain += strcspn(chain, ".");
		chain += *chain == '.';
	}
	snprintf(part, size, "%.*s", (int)strcspn(chain, "."), chain);
}

static enum ckpt_trust judge_script(const char *chain)
{
	static const char classes[] = "__torch__.torch.classes.";
	bool class = !strncmp(chain, classes, sizeof(classes) - 1);
	char space[60];

	if (ckpt_text_is_one_of(chain, dangerous, sizeof(dangerous) / sizeof(dangerous[0])))
		return CKPT_DANGEROUS;
	if (!class && strncmp(chain, "ops.", 4) != 0)
		return CKPT_PLAIN;
	part_of(chain, class ? 3 : 1, space, sizeof(space));
	return ckpt_text_is_one_of(space, computing, sizeof(computing) / sizeof(computing[0]))
		       ? CKPT_PLAIN
		       : CKPT_UNKNOWN;
}

static bool is_part(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* Behind a literal that begins at `i`; its text is not a code. */
static size_t skip_literal(const char *code, size_t n, size_t i)
{
	char quote = code[i++];

	while (i < n && code[i] != quote && code[i] != '\n')
		i += code[i] == '\\' ? 2 : 1;
	return i + 1;
}

enum plim_status script_judge(struct ckpt *c, const char *record, const char *code, size_t n,
			      struct plim_err *err)
{
	char chain[CHAIN_BYTES];
	enum plim_status st = PLIM_OK;
	size_t from;

	for (size_t i = 0; !st && i<n; i = from> i ? from : i + 1) {
		enum ckpt_trust trust;

		from = i;
		if (code[i] == '"' || code[i] == '\'') {
			from = skip_literal(code, n, i);
			continue;
		}
		while (code[i] == '#' && from < n && code[from] != '\n')
			from++;
		while (from < n && is_part(code[from]))
			from++;
		if (from == i || code[i] == '#')
			continue;
		snprintf(chain, sizeof(chain), "%.*s",
			 (int)(from - i < CHAIN_BYTES ? from - i : CHAIN_BYTES - 1), code + i);
		trust = judge_script(chain);
		if (trust != CKPT_PLAIN)
			st = globals_tell(c, record, chain, i, trust, err);
	}
	return st;
}
