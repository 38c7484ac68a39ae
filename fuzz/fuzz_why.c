/*
 * Any log: the scanner must end and give all memory back; what it finds must be in order, the
 * judgement of it too, and the same wherever a window of the text ends.
 */
#include "diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)256 << 10) /* as in src/logs/messages/scan.c */
#define AHEAD_BYTES ((size_t)8 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_bytes(struct messages_bytes b)
{
	if (b.low > b.high)
		abort();
}

static void check_event(const struct messages_log *log, const struct messages_event *e)
{
	struct messages_context context;
	struct findings_told told;

	check_bytes(e->oom.tried);
	check_bytes(e->oom.allocated);
	check_bytes(e->oom.unallocated);
	check_bytes(e->used);
	check_bytes(e->rss);
	if (e->joined >= log->events.n || log->events.at[e->joined].joined != e->joined)
		abort();
	if (e->line > e->last_line + 1 || e->rank_count > MESSAGES_RANKS ||
	    e->top_count > MESSAGES_TOP)
		abort();
	messages_find_context(log, e, &context);
	if (context.engine >= MESSAGES_ENGINES || context.activity >= MESSAGES_DOINGS)
		abort();
	findings_judge_message(e, &context, &told);
	check_bytes(told.room);
	check_bytes(told.request);
	check_bytes(told.bound);
	if ((!told.ranked_count && !told.free_enough && !told.elsewhere) ||
	    (told.cause && told.cause != told.ranked[0]))
		abort();
}

static void scan(struct messages_log *log, struct mem *m, const uint8_t *bytes, size_t n)
{
	struct plim_err err;

	messages_init(log, m);
	if (messages_scan_memory(log, "fuzz", bytes, n, &err))
		return; /* an empty one */
	messages_join(log);
	for (size_t i = 0; i < log->events.n; i++)
		check_event(log, &log->events.at[i]);
}

/* The same behind so many lines that a window ends within it. */
static void check_windows(const struct messages_log *plain, struct mem *m, const uint8_t *bytes,
			  size_t n)
{
	size_t lead = WINDOW_BYTES - AHEAD_BYTES - n / 2;
	uint8_t *longer = malloc(lead + n);
	struct messages_log log;

	if (!longer)
		abort();
	memset(longer, '\n', lead);
	memcpy(longer + lead, bytes, n);
	scan(&log, m, longer, lead + n);
	if (log.events.n != plain->events.n)
		abort();
	for (size_t i = 0; i < log.events.n; i++)
		if (log.events.at[i].wording != plain->events.at[i].wording ||
		    log.events.at[i].line != plain->events.at[i].line + lead ||
		    log.events.at[i].oom.tried.low != plain->events.at[i].oom.tried.low)
			abort();
	messages_release(&log);
	free(longer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct messages_log log;
	struct mem m;

	mem_init(&m, 64 << 20);
	scan(&log, &m, bytes, n);
	/* text of two bytes a character says so in its first two */
	if (n > 2 && n < 64 << 10 && bytes[0] < 0xfe)
		check_windows(&log, &m, bytes, n);
	messages_release(&log);
	if (m.used_bytes)
		abort();
	return 0;
}
