/*
 * The search for the few places of a log that may be a wording: all anchors at once, without regard
 * to case.  Only every second byte is looked at, in a table of hashes of the letters that stand there
 * in some anchor: no look waits for another, and nearly all of them say no.
 */
#include "scan.h"

#include <string.h>

#define STRIDE 2 /* bytes between two looks */
#define PART_BYTES                    \
	(SCAN_ANCHOR_BYTES - STRIDE + \
	 1)     /* whole in an anchor's first letters, wherever the looks fall */
#define LOOKS 4 /* at once */

#define ENTRIES (scan_mark_count + scan_wording_count + scan_cue_count + scan_setting_count)

/* `n` bytes of text, at most eight, the first letter lowest. */
static inline uint64_t load_letters(const char *p, size_t n)
{
	uint64_t x = 0;

	memcpy(&x, p, n);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = __builtin_bswap64(x);
#endif
	return x;
}

#define LETTERS (SCAN_ANCHOR_BYTES * 8) /* bits of a key */

/* The first letters in one case; two loads that overlap, as one of six bytes would wait for its own stores. */
static uint64_t letters_of(const char *p)
{
	const size_t half = sizeof(uint32_t);
	uint64_t first = load_letters(p, half),
		 last = load_letters(p + SCAN_ANCHOR_BYTES - half, half);
	uint64_t letters = first | last << (LETTERS - 8 * sizeof(uint32_t));

	_Static_assert(SCAN_ANCHOR_BYTES >= sizeof(uint32_t) && SCAN_ANCHOR_BYTES < sizeof(letters),
		       "both halves meet, and a letter more has room");
	return (letters | 0x2020202020202020u) & (((uint64_t)1 << LETTERS) - 1);
}

/* Fibonacci hashing of the letters of a key; `bits` of it. */
static unsigned hash_of(uint64_t key, unsigned bits)
{
	return (unsigned)(((key << (64 - LETTERS)) * 0x9e3779b97f4a7c15u) >> (64 - bits));
}

/* A hash of the lowest PART_BYTES of `letters`, in any case. */
static unsigned hash_of_part(uint64_t letters)
{
	uint64_t part = (letters | 0x2020202020202020u) << (64 - 8 * PART_BYTES);

	return (unsigned)((part * 0x9e3779b97f4a7c15u) >> (64 - SCAN_PART_BITS));
}

/*
 * What decides of nearly all that begin alike: the first letters in one case, and above them the one
 * behind, or behind the blanks there; 0: none.
 */
static uint64_t anchor_key_of(const char *p, const char *end)
{
	uint64_t letters = letters_of(p), behind = 0;

	for (p += SCAN_ANCHOR_BYTES; p < end && *p == ' '; p++)
		;
	if (p < end)
		behind = (uint8_t)*p | 0x20u;
	return letters | behind << LETTERS;
}

/* The chain of all with these first letters. */
static unsigned anchor_head_of(uint64_t key)
{
	return hash_of(key, SCAN_HEAD_BITS);
}

/* May an entry begin with these letters?  Nearly all that none begins with is distinguished here. */
static int is_seen(const struct scan_anchors *a, const char *p)
{
	unsigned bit = hash_of(letters_of(p), SCAN_SEEN_BITS);

	return (int)(a->seen[bit >> 6] >> (bit & 63) & 1);
}

static void add_anchor(struct scan_anchors *a, const char *anchor, size_t n, int id)
{
	uint64_t key = anchor_key_of(anchor, anchor + n);
	int16_t *head = &a->head[anchor_head_of(key)];
	int16_t entry = (int16_t)a->n++;
	unsigned bit = hash_of(key, SCAN_SEEN_BITS);

	a->seen[bit >> 6] |= (uint64_t)1 << (bit & 63);
	a->entries[entry] = (struct scan_entry){ key, anchor, (uint32_t)n, id, *head };
	*head = entry;
	for (size_t i = 0; i < STRIDE; i++)
		a->parts[hash_of_part(key >> (8 * i))] = 1;
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
	memset(a->head, 0xff, sizeof(a->head));
	for (size_t i = 0; i < scan_mark_count; i++)
		add_anchor(a, scan_marks[i].word, strlen(scan_marks[i].word), scan_marks[i].id);
	for (size_t i = 0; i < scan_wording_count; i++) {
		const char *anchor = scan_anchor(scan_wordings[i].pattern, &n);

		add_anchor(a, anchor, n, (int)i);
	}
	for (size_t i = 0; i < scan_cue_count; i++)
		add_anchor(a, scan_cues[i].word, strlen(scan_cues[i].word), SCAN_CUE + (int)i);
	for (size_t i = 0; i < scan_setting_count; i++)
		add_anchor(a, scan_settings[i].word, strlen(scan_settings[i].word),
			   SCAN_SETTING + (int)i);
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
static int anchor_begins(const struct scan_entry *e, const char *p, const char *end)
{
	for (uint32_t i = 0; i < e->n; i++, p++) {
		if (p == end || scan_lower(*p) != scan_lower(e->anchor[i]))
			return 0;
		while (*p == ' ' && end - p > 1 && p[1] == ' ')
			p++;
	}
	return 1;
}

static int may_begin(const struct scan_entry *e, uint64_t key)
{
	uint64_t differ = e->key ^ key;

	return !(e->key >> LETTERS ? differ : differ << (64 - LETTERS));
}

/* `key` is that of the text at `p`. */
static int16_t first_of(const struct scan_anchors *a, int16_t entry, uint64_t key, const char *p,
			const char *end)
{
	while (entry >= 0 &&
	       !(may_begin(&a->entries[entry], key) && anchor_begins(&a->entries[entry], p, end)))
		entry = a->entries[entry].next;
	return entry;
}

int16_t scan_anchors_next(const struct scan_anchors *a, int16_t entry, const char *at,
			  const char *end)
{
	return first_of(a, a->entries[entry].next, anchor_key_of(at, end), at, end);
}

/* The first place in [from, to) where an entry begins, `end` is that of the text; NULL: none does. */
static const char *begins_among(const struct scan_anchors *a, const char *from, const char *to,
				const char *end, int16_t *entry)
{
	for (; from < to; from++) {
		uint64_t key;

		if (!is_seen(a, from))
			continue;
		key = anchor_key_of(from, end);
		*entry = first_of(a, a->head[anchor_head_of(key)], key, from, end);
		if (*entry >= 0)
			return from;
	}
	return NULL;
}

/* May an entry begin at `p`, or less than a stride in front of it? */
static unsigned look_at_part(const struct scan_anchors *a, const char *p)
{
	return a->parts[hash_of_part(load_letters(p, sizeof(uint64_t)))];
}

/* The first place that a look at `last` shows, in a text that is searched from `from` on. */
static const char *behind(const char *from, const char *last)
{
	return last - from < STRIDE ? from : last - STRIDE + 1;
}

const char *scan_anchors_find(const struct scan_anchors *a, const char *p, const char *end,
			      int16_t *entry)
{
	const char *from = p, *found;

	for (; end - p >= STRIDE * LOOKS + (ptrdiff_t)sizeof(uint64_t); p += STRIDE * LOOKS) {
		unsigned any = 0;

		for (int i = 0; i < LOOKS; i++)
			any |= look_at_part(a, p + STRIDE * i);
		for (int i = 0; any && i < LOOKS; i++) {
			const char *last = p + STRIDE * i;

			if (!look_at_part(a, last))
				continue;
			found = begins_among(a, behind(from, last), last + 1, end, entry);
			if (found)
				return found;
		}
	}
	found = end - p < SCAN_ANCHOR_BYTES
			? NULL
			: begins_among(a, behind(from, p), end - SCAN_ANCHOR_BYTES + 1, end, entry);
	return found ? found : end;
}
