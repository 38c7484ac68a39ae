/*
 * A refusal in the words of a program that no row knows.  Programs say it in few ways: something could not be allocated, or a
 * memory was not enough.  A line is read as words in small letters ("OutOfMemoryError" is four), and the words around say which
 * memory.  It counts only if no row fits in the whole text.
 */
#include "scan.h"

#include <ctype.h>
#include <string.h>

#define WORDS_MAX 160
#define WORD_BYTES 16 /* longer words are cut: none of them is looked for */
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct words {
	const struct scan_line *line;
	size_t n;
	struct word {
		char text[WORD_BYTES];
		size_t at; /* where it begins in the line */
	} at[WORDS_MAX];
};

static int ends_word(const char *p)
{
	return !isalnum((unsigned char)p[1]) ||
	       (islower((unsigned char)p[0]) && isupper((unsigned char)p[1]));
}

static void words_of(struct words *w, const struct scan_line *l)
{
	size_t n = 0;

	w->line = l;
	w->n = 0;
	for (const char *p = l->text + l->body; *p && w->n < WORDS_MAX; p++) {
		struct word *word = &w->at[w->n];

		if (!isalnum((unsigned char)*p))
			continue;
		if (!n)
			word->at = (size_t)(p - l->text);
		if (n < WORD_BYTES - 1)
			word->text[n++] = (char)tolower((unsigned char)*p);
		if (!ends_word(p))
			continue;
		word->text[n] = 0;
		n = 0;
		w->n++;
	}
}

/* Is the word one of those, which stand with spaces around each? */
static int is_one(const struct words *w, size_t i, const char *list)
{
	char spaced[WORD_BYTES + 2];
	size_t n;

	if (i >= w->n)
		return 0;
	n = strlen(w->at[i].text);
	spaced[0] = spaced[n + 1] = ' ';
	memcpy(spaced + 1, w->at[i].text, n);
	spaced[n + 2 - (n + 2 > sizeof(spaced))] = 0;
	return memmem(list, strlen(list), spaced, n + 2) != NULL;
}

/* The first of [from, from + within) that is in the list, and one more; 0: none. */
static size_t next_one(const struct words *w, size_t from, size_t within, const char *list)
{
	for (size_t i = from; i < from + within && i < w->n; i++)
		if (is_one(w, i, list))
			return i + 1;
	return 0;
}

#define MEMORY " memory vram ram hbm "
#define HOLDS                                                                                      \
	" memory vram ram hbm buffer buffers tensor tensors bytes array block blocks kib mib gib " \
	"kb mb gb cache "

/* "out of GPU memory", "insufficient VRAM", "leave no GPU memory", "not enough free memory". */
static size_t lacks(const struct words *w, size_t i)
{
	if (is_one(w, i, " out ") && is_one(w, i + 1, " of "))
		return next_one(w, i + 2, 3, MEMORY);
	if (is_one(w, i, " not ") && is_one(w, i + 1, " enough "))
		return next_one(w, i + 2, 4, MEMORY);
	if (is_one(w, i, " insufficient exceed exceeds exceeded exceeding "))
		return next_one(w, i + 1, 5, MEMORY);
	if (is_one(w, i, " leave leaves left ") && is_one(w, i + 1, " no "))
		return next_one(w, i + 2, 3, MEMORY);
	if (is_one(w, i, MEMORY) && is_one(w, i + 1, " is ") && is_one(w, i + 2, " not ") &&
	    is_one(w, i + 3, " enough sufficient "))
		return i + 4;
	if (is_one(w, i, MEMORY) && is_one(w, i + 1, " exhausted exceeded overflow insufficient "))
		return i + 2;
	if (is_one(w, i, " resource resources ") && is_one(w, i + 1, " exhausted "))
		return i + 2;
	if (is_one(w, i, " oom ") && !is_one(w, i + 1, " kill killed killer score adj event "))
		return i + 1;
	return 0;
}

/* "failed to allocate 3 GiB", "could not reserve a buffer", "memory allocation failed", "allocation of 9 bytes failed". */
static size_t refuses(const struct words *w, size_t i)
{
	size_t verb;

	if (is_one(w, i, " fail fails failed failure unable cannot impossible ") ||
	    (is_one(w, i, " can could couldn able ") && is_one(w, i + 1, " not t to "))) {
		verb = next_one(w, i + 1, 4,
				" allocate alloc calloc malloc reserve allocating allocation ");
		return verb ? next_one(w, verb, 10, HOLDS) : 0;
	}
	if (is_one(w, i, " allocation alloc ") && is_one(w, i + 1, " failed failure error "))
		return next_one(w, i > 4 ? i - 4 : 0, 10, HOLDS) ? i + 2 : 0;
	if (is_one(w, i, " allocation ") && is_one(w, i + 1, " of ")) {
		verb = next_one(w, i + 2, 6, " failed fails ");
		return verb && next_one(w, i + 2, verb - i - 2, HOLDS) ? verb : 0;
	}
	return 0;
}

/* Of the words in the sentence: it did not happen, or the program goes on. */
static int is_denied(const struct words *w, size_t at, size_t end)
{
	static const char list[] =
		" if unless avoid avoids avoiding prevent prevents may might would will should "
		"retry retrying fallback falling skipping warning warn info debug without fixed "
		"fixes caught handled recovered isinstance raise except import estimated "
		"predicted ";
	const char *text = w->line->text;
	size_t from = at, to = end;

	while (from &&
	       !(strchr(".;!?", text[w->at[from].at - 2]) && text[w->at[from].at - 1] == ' '))
		from--;
	while (to < w->n &&
	       !(strchr(".;!?", text[w->at[to].at - 2]) && text[w->at[to].at - 1] == ' '))
		to++;
	for (size_t i = from; i < to; i++)
		if (is_one(w, i, list))
			return 1;
	return 0;
}

static int spoken_has(const struct words *w, const char *list)
{
	for (size_t i = 0; i < w->n; i++)
		if (is_one(w, i, list))
			return 1;
	return 0;
}

/* Does a program say that it failed?  A person's sentence does not count here. */
static int is_error(const struct words *w, size_t at)
{
	const char *text = w->line->text, *phrase = text + w->at[at].at;

	if (spoken_has(
		    w,
		    " error errors exception fatal critical panicked panic assertion abort aborted "
		    "terminate terminated terminating err died "))
		return 1;
	if (!strncmp(phrase, "OUT_OF_", 7))
		return 1;
	/* a message of its own, perhaps behind who says it, or in brackets behind what failed */
	return at == 0 || (phrase >= text + 2 && phrase[-1] == ' ' && strchr(":]", phrase[-2])) ||
	       (phrase >= text + 2 && phrase[-1] == '(' && phrase[strcspn(phrase, ")\n")] == ')' &&
		!phrase[strcspn(phrase, ")\n") + 1]);
}

static enum scan_memory which(const struct words *w)
{
	int card = spoken_has(
		w, " gpu gpus cuda device vram video hbm tpu npu xpu hpu metal mps mtl hip rocm "
		   "sycl vulkan vk d3d12 dxgi directml triton xla graphics kv nccl cudnn cublas "
		   "tensorrt trt nvidia ");
	int host = spoken_has(
		w, " host ram cpu system swap paging pagefile machine node heap pinned numpy ");

	for (size_t i = 0; i < w->n; i++)
		if (!card && (is_one(w, i, " shm ") ||
			      (is_one(w, i, " shared ") && is_one(w, i + 1, " memory "))))
			return SCAN_MEMORY_SHARED;
	return card > host ? SCAN_MEMORY_CARD : host > card ? SCAN_MEMORY_HOST : SCAN_MEMORY_UNTOLD;
}

/* The size behind the phrase's first word, if there is one. */
static void read_size(const struct words *w, size_t at, size_t end, struct messages_bytes *out)
{
	const struct scan_line *l = w->line;

	for (size_t i = at; i < w->n && i < end + 8; i++)
		if (isdigit((unsigned char)w->at[i].text[0]) &&
		    scan_size(l->text + w->at[i].at, l->n - w->at[i].at, SCAN_UNITS_ANY, out))
			return;
}

enum scan_memory scan_spoken(const struct scan_line *l, struct messages_bytes *tried)
{
	struct words w;

	words_of(&w, l);
	for (size_t i = 0; i < w.n; i++) {
		size_t lack = lacks(&w, i), end = lack ? lack : refuses(&w, i);

		if (!end || is_one(&w, end, " leak leaks ") || !is_error(&w, i))
			continue;
		if (is_denied(&w, i, end))
			return SCAN_MEMORY_NONE;
		end = lack ? next_one(&w, end, 4, " allocate allocating requested ") : i + 1;
		if (end)
			read_size(&w, end - 1, end, tried);
		return which(&w);
	}
	return SCAN_MEMORY_NONE;
}
