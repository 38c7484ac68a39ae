/*
 * Texts that show a GPU's memory and no failure: torch.cuda.memory_summary(), memory_stats() as a dictionary,
 * mem_get_info(), DeepSpeed's see_memory_usage, nvidia-smi with its processes.  Formats: torch/cuda/memory.py (memory_summary,
 * _format_size) and deepspeed/runtime/utils.py (see_memory_usage).
 */
#include "scan.h"

#include <string.h>

/* A text of which only [p, end) is there. */
struct part {
	const char *p, *end;
};

static const char *find_state(struct part t, const char *words)
{
	return memmem(t.p, (size_t)(t.end - t.p), words, strlen(words));
}

/* The digits at *at, which is moved behind them; PLIM_UNKNOWN: there are none, or too many. */
static uint64_t digits_at(const char **at, const char *end)
{
	const char *from = *at;
	uint64_t value;

	*at = scan_digits(from, end, &value);
	return *at > from ? value : PLIM_UNKNOWN;
}

#define SKIP_MOST 16 /* signs and blanks between a name and its number */

/* The whole number behind the words and what is not a digit; PLIM_UNKNOWN: there is none near. */
static uint64_t number_behind(struct part t, const char *words)
{
	const char *at = find_state(t, words);

	if (!at)
		return PLIM_UNKNOWN;
	at += strlen(words);
	for (int skip = 0; at < t.end && (*at < '0' || *at > '9') && skip < SKIP_MOST; skip++)
		at++;
	return digits_at(&at, t.end);
}

static int is_at(const char *at, const char *end, const char *words)
{
	size_t n = strlen(words);

	return (size_t)(end - at) >= n && !memcmp(at, words, n);
}

static struct messages_bytes exactly(uint64_t bytes)
{
	return (struct messages_bytes){ bytes, bytes };
}

/* The size at `at`, behind blanks; NULL: there is none. */
static struct messages_bytes size_at(struct part t, const char *at, enum scan_unit_kind units)
{
	struct messages_bytes out;

	while (at && at < t.end && *at == ' ')
		at++;
	return at && scan_size(at, (size_t)(t.end - at), units, &out) ? out : messages_unknown;
}

/* ---- memory_summary() ---- */

/* The cell `column` of the row: "| Allocated memory      |  21300 MiB |  22000 MiB |". */
static struct messages_bytes cell(struct part t, const char *row, int column)
{
	const char *at = find_state(t, row);

	for (int i = 0; at && i <= column; i++) {
		at = memchr(at, '|', (size_t)(t.end - at));
		at = at ? at + 1 : NULL;
	}
	return size_at(t, at, SCAN_UNITS_ANY);
}

static int read_summary(struct part t, struct messages_state *s)
{
	s->device = (uint32_t)number_behind(t, "device ID");
	s->ooms = number_behind(t, "CUDA OOMs:");
	s->retries = number_behind(t, "cudaMalloc retries:");
	s->allocated = cell(t, "| Allocated memory", 1);
	s->allocated_peak = cell(t, "| Allocated memory", 2);
	s->reserved = cell(t, "| GPU reserved memory", 1);
	s->reserved_peak = cell(t, "| GPU reserved memory", 2);
	s->unreleasable = cell(t, "| Non-releasable memory", 1);
	return s->allocated.low != PLIM_UNKNOWN && s->reserved.low != PLIM_UNKNOWN;
}

/* ---- memory_stats() ---- */

static int read_stats(struct part t, struct messages_state *s)
{
	s->ooms = number_behind(t, "num_ooms'");
	s->retries = number_behind(t, "num_alloc_retries'");
	s->allocated = exactly(number_behind(t, "allocated_bytes.all.current'"));
	s->allocated_peak = exactly(number_behind(t, "allocated_bytes.all.peak'"));
	s->reserved = exactly(number_behind(t, "reserved_bytes.all.current'"));
	s->reserved_peak = exactly(number_behind(t, "reserved_bytes.all.peak'"));
	s->unreleasable = exactly(number_behind(t, "inactive_split_bytes.all.current'"));
	return s->allocated.low != PLIM_UNKNOWN && s->reserved.low != PLIM_UNKNOWN;
}

/* ---- mem_get_info() ---- */

#define NEAR_BYTES 200         /* between the call and what it printed */
#define LEAST_TOTAL (1u << 28) /* a GPU has more: other pairs of numbers are none */

static int read_info(struct part t, struct messages_state *s)
{
	const char *end = t.end - t.p > NEAR_BYTES ? t.p + NEAR_BYTES : t.end;

	for (const char *open = t.p; open < end; open++) {
		const char *at = open + 1;
		uint64_t free_bytes, total;

		if (*open != '(')
			continue;
		free_bytes = digits_at(&at, end);
		if (free_bytes == PLIM_UNKNOWN || !is_at(at, end, ", "))
			continue;
		at += 2;
		total = digits_at(&at, end);
		if (total == PLIM_UNKNOWN || !is_at(at, end, ")") || total < LEAST_TOTAL ||
		    free_bytes > total)
			continue;
		s->free = exactly(free_bytes);
		s->total = exactly(total);
		return 1;
	}
	return 0;
}

/* ---- see_memory_usage ---- */

static struct messages_bytes size_behind(struct part t, const char *words)
{
	const char *at = find_state(t, words);

	return size_at(t, at ? at + strlen(words) : NULL, SCAN_UNITS_BINARY);
}

static int read_deepspeed(struct part t, struct messages_state *s)
{
	s->allocated = size_behind(t, "MA ");
	s->allocated_peak = size_behind(t, "Max_MA ");
	s->reserved = size_behind(t, " CA ");
	s->reserved_peak = size_behind(t, "Max_CA ");
	return s->allocated.low != PLIM_UNKNOWN && s->reserved.low != PLIM_UNKNOWN;
}

/* ---- nvidia-smi ---- */

#define MIB_MOST (1u << 24)

/* "22000MiB / 24576MiB" in the line. */
static int read_smi(struct part t, struct messages_state *s)
{
	const char *slash = find_state(t, "MiB / "), *at;
	const char *from = slash ? scan_digits_before(t.p, slash) : NULL;
	uint64_t used, total;

	if (!slash || from == slash)
		return 0;
	for (at = slash + strlen("MiB /"); at < t.end && *at == ' ';)
		at++;
	used = digits_at(&from, slash);
	total = digits_at(&at, t.end);
	if (used == PLIM_UNKNOWN || total == PLIM_UNKNOWN || !is_at(at, t.end, "MiB") ||
	    used > total || total > MIB_MOST)
		return 0;
	s->used = exactly(used << 20);
	s->total = exactly(total << 20);
	return 1;
}

/* "|    0   N/A  N/A      1893      C   python train.py    9120MiB |", without the two columns of MIG in older ones. */
static int read_process(struct part t, struct messages_state *s)
{
	const char *at = t.p, *ids = find_state(t, "N/A  N/A"), *unit = find_state(t, "MiB |");
	const char *from = unit ? scan_digits_before(t.p, unit) : NULL;
	uint64_t device, bytes;

	if (!unit || from == unit)
		return 0;
	while (at < unit && (*at < '0' || *at > '9'))
		at++;
	device = digits_at(&at, unit);
	at = ids ? ids + strlen("N/A  N/A") : at;
	while (at < unit && *at == ' ')
		at++;
	s->device = device < UINT32_MAX ? (uint32_t)device : UINT32_MAX;
	s->pid = digits_at(&at, unit);
	bytes = digits_at(&from, unit);
	if (s->pid == PLIM_UNKNOWN || bytes == PLIM_UNKNOWN || bytes > MIB_MOST)
		return 0;
	s->used = exactly(bytes << 20);
	return 1;
}

/* ---- all ---- */

int scan_state(enum messages_state_kind kind, const char *start, const char *end,
	       struct messages_state *out)
{
	static int (*const readers[])(struct part, struct messages_state *) = {
		[MESSAGES_STATE_SUMMARY] = read_summary,
		[MESSAGES_STATE_STATS] = read_stats,
		[MESSAGES_STATE_INFO] = read_info,
		[MESSAGES_STATE_SMI] = read_smi,
		[MESSAGES_STATE_DEEPSPEED] = read_deepspeed,
		[MESSAGES_STATE_PROCESS] = read_process,
	};
	const struct part t = { start, end };

	/* all of it unknown */
	memset(out, 0xff, sizeof(*out));
	out->kind = kind;
	return readers[kind](t, out);
}
