/*
 * The search for the few places of a log that may be a wording: all anchors at once, without regard
 * to case (Wu and Manber's way: two letters tell how far the next anchor is at least).
 */
#include "scan.h"

#include <string.h>

#define BLOCK 2
#define FAR (SCAN_ANCHOR_BYTES - BLOCK + 1)
#define BEGINS 0x80 /* flag of a shift: some anchor begins with these two letters */

static const struct {
	const char *anchor;
	enum scan_special id;
} specials[] = {
	{ "File \"", SCAN_FRAME },
	{ "File \033[", SCAN_FRAME }, /* Python 3.13 colours names */
	{ "File \\", SCAN_ESCAPED },
	{ "\xe2\x94\x82 \xe2\x9d\xb1", SCAN_BOXED }, /* the edge of a box and Rich's mark */
	{ "File /", SCAN_NOTEBOOK },
	{ "File ~", SCAN_NOTEBOOK },
	{ "Cell In[", SCAN_NOTEBOOK },
	{ "<ipython-input-", SCAN_NOTEBOOK },
	{ "-packages/", SCAN_NOTEBOOK },
	{ "Traceback (most", SCAN_TRACEBACK },
	{ "total_vm", SCAN_TABLE },
	{ "MaxRSS", SCAN_SACCT },
	{ "Limits:", SCAN_LIMITS },
	{ "checkpoint shards: ", SCAN_LOADING }, /* Transformers, vLLM */
	{ "Loading weights: ", SCAN_LOADING },
	/* who says that it goes on: fairseq, ESPnet, ComfyUI, llama.cpp, accelerate, and many a script */
	{ "skipping batch", SCAN_CAUGHT },
	{ "skipping this batch", SCAN_CAUGHT },
	{ "skip this batch", SCAN_CAUGHT },
	{ "skipping update", SCAN_CAUGHT },
	{ "skipping step", SCAN_CAUGHT },
	{ "recover from OOM", SCAN_CAUGHT },
	{ "retrying batch", SCAN_CAUGHT },
	{ "retrying without", SCAN_CAUGHT },
	{ "retrying with", SCAN_CAUGHT },
	{ "will retry", SCAN_CAUGHT },
	{ "trying again with", SCAN_CAUGHT },
	{ "and trying again", SCAN_CAUGHT },
	{ "Retrying with tiled", SCAN_CAUGHT },
	{ "falling back to", SCAN_CAUGHT },
	{ "reducing batch size", SCAN_CAUGHT },
	{ "decreasing batch size", SCAN_CAUGHT },
	{ "reduce batch size to", SCAN_CAUGHT },
	{ "trying batch size", SCAN_CAUGHT },
};
#define SPECIALS (sizeof(specials) / sizeof(specials[0]))
#define ENTRIES (SPECIALS + scan_wording_count + scan_cue_count + scan_setting_count)

static unsigned block_of(char a, char b)
{
	return (unsigned)(unsigned char)b << 8 | (unsigned char)a;
}

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c & ~0x20) : c;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Make the text stop in time for the block of two letters, in each case that they can have. */
static void add_block(struct scan_anchors *a, const char *letters, uint8_t shift, int16_t head)
{
	const char first[2] = { lower(letters[0]), upper(letters[0]) };
	const char second[2] = { lower(letters[1]), upper(letters[1]) };

	for (unsigned i = 0; i < 4; i++) {
		unsigned block = block_of(first[i & 1], second[i >> 1]);

		if (shift < (a->shift[block] & ~BEGINS))
			a->shift[block] = shift | (a->shift[block] & BEGINS);
		if (shift == FAR - 1)
			a->shift[block] |= BEGINS;
		if (!shift)
			a->head[block] = head;
	}
}

static void add(struct scan_anchors *a, const char *anchor, size_t n, int id)
{
	const char *last = anchor + SCAN_ANCHOR_BYTES - BLOCK;
	int16_t entry = (int16_t)a->n++;

	a->entries[entry].anchor = anchor;
	a->entries[entry].n = (uint32_t)n;
	a->entries[entry].id = id;
	a->entries[entry].next = a->head[block_of(lower(last[0]), lower(last[1]))];
	for (int i = 0; i <= SCAN_ANCHOR_BYTES - BLOCK; i++)
		add_block(a, anchor + i, (uint8_t)(FAR - 1 - i), entry);
}

enum plim_status scan_anchors_new(struct mem *m, struct scan_anchors **out, struct plim_err *err)
{
	struct scan_anchors *a = mem_new(m, 1, sizeof(*a), err);
	size_t n;

	*out = NULL;
	if (!a)
		return mem_status(err);
	a->entries = mem_new(m, ENTRIES, sizeof(*a->entries), err);
	if (!a->entries) {
		mem_free(m, a, 1, sizeof(*a));
		return mem_status(err);
	}
	memset(a->shift, FAR, sizeof(a->shift));
	memset(a->head, 0xff, sizeof(a->head));
	for (size_t i = 0; i < SPECIALS; i++)
		add(a, specials[i].anchor, strlen(specials[i].anchor), (int)specials[i].id);
	for (size_t i = 0; i < scan_wording_count; i++) {
		const char *anchor = scan_anchor(scan_wordings[i].pattern, &n);

		add(a, anchor, n, (int)i);
	}
	for (size_t i = 0; i < scan_cue_count; i++)
		add(a, scan_cues[i].word, strlen(scan_cues[i].word), SCAN_CUE + (int)i);
	for (size_t i = 0; i < scan_setting_count; i++)
		add(a, scan_settings[i].word, strlen(scan_settings[i].word), SCAN_SETTING + (int)i);
	*out = a;
	return PLIM_OK;
}

void scan_anchors_free(struct mem *m, struct scan_anchors *a)
{
	if (!a)
		return;
	mem_free(m, a->entries, ENTRIES, sizeof(*a->entries));
	mem_free(m, a, 1, sizeof(*a));
}

/* Without regard to case; a blank of the anchor may be several in the text. */
static int begins(const struct scan_entry *e, const char *p, const char *end)
{
	for (uint32_t i = 0; i < e->n; i++, p++) {
		if (p == end || lower(*p) != lower(e->anchor[i]))
			return 0;
		while (*p == ' ' && end - p > 1 && p[1] == ' ')
			p++;
	}
	return 1;
}

static int16_t first_of(const struct scan_anchors *a, int16_t entry, const char *p, const char *end)
{
	while (entry >= 0 && !begins(&a->entries[entry], p, end))
		entry = a->entries[entry].next;
	return entry;
}

int16_t scan_anchors_next(const struct scan_anchors *a, int16_t entry, const char *at,
			  const char *end)
{
	return first_of(a, a->entries[entry].next, at, end);
}

const char *scan_anchors_find(const struct scan_anchors *a, const char *p, const char *end,
			      int16_t *entry)
{
	const size_t last = SCAN_ANCHOR_BYTES - BLOCK;

	while ((size_t)(end - p) >= SCAN_ANCHOR_BYTES) {
		unsigned block = block_of(p[last], p[last + 1]);
		uint8_t shift = a->shift[block] & (uint8_t)~BEGINS;

		if (shift) {
			p += shift;
			continue;
		}
		if (a->shift[block_of(p[0], p[1])] & BEGINS) {
			*entry = first_of(a, a->head[block], p, end);
			if (*entry >= 0)
				return p;
		}
		p++;
	}
	return end;
}
