/*
 * The process table that the kernel prints when it kills (mm/oom_kill.c, dump_tasks).  Columns have
 * been added over the years, so the head of the table says where they are; numbers are pages.
 */
#include "scan.h"

#include <string.h>

#define PAGE_BYTES 4096 /* of x86; arm64 may have 65536, which the table does not say */
#define PAGES_MOST ((uint64_t)1 << 40)
#define WORDS_MAX 16

struct words {
	const char *at[WORDS_MAX];
	size_t n[WORDS_MAX];
	int count;
};

/* The words behind the first '[' that begins a table's row: "[  123]  1000   123  ...". */
static int split_kernel(const struct scan_line *line, const char *start, struct words *w)
{
	const char *p = start, *end = line->text + line->n;

	w->count = 0;
	while (p < end && w->count < WORDS_MAX) {
		while (p < end && (*p == ' ' || *p == '[' || *p == ']' || *p == '\t'))
			p++;
		if (p == end)
			break;
		w->at[w->count] = p;
		while (p < end && *p != ' ' && *p != ']' && *p != '\t')
			p++;
		w->n[w->count] = (size_t)(p - w->at[w->count]);
		w->count++;
	}
	return w->count;
}

static int kernel_is_word(const struct words *w, int i, const char *text)
{
	return w->n[i] == strlen(text) && !memcmp(w->at[i], text, w->n[i]);
}

/* The last '[' of the line starts the row: those before are the log's time stamps. */
static const char *row_start(const struct scan_line *line)
{
	return memrchr(line->text, '[', line->n);
}

int scan_table_head(const struct scan_line *line, struct scan_columns *c)
{
	const char *start = row_start(line);
	struct words w;

	*c = (struct scan_columns){ -1, -1, -1, 0 };
	if (!start || split_kernel(line, start, &w) < 5)
		return 0;
	for (int i = 0; i < w.count; i++) {
		if (kernel_is_word(&w, i, "pid"))
			c->pid = i;
		else if (kernel_is_word(&w, i, "rss"))
			c->rss = i;
		else if (kernel_is_word(&w, i, "name"))
			c->name = i;
	}
	c->total = w.count;
	return c->pid >= 0 && c->rss >= 0 && c->name >= 0;
}

static int kernel_number(const struct words *w, int i, uint64_t *out)
{
	const char *end = w->at[i] + w->n[i];

	return w->n[i] && scan_digits(w->at[i], end, out) == end && *out < PAGES_MOST;
}

static void insert(struct messages_event *e, const struct messages_process *p)
{
	uint32_t at = e->top_count;

	while (at && e->top[at - 1].rss_bytes < p->rss_bytes)
		at--;
	if (at == MESSAGES_TOP)
		return;
	if (e->top_count < MESSAGES_TOP)
		e->top_count++;
	memmove(&e->top[at + 1], &e->top[at], (e->top_count - 1 - at) * sizeof(*e->top));
	e->top[at] = *p;
}

int scan_table_row(const struct scan_line *line, const struct scan_columns *c,
		   struct messages_event *e)
{
	const char *start = row_start(line);
	struct messages_process p = { .pid = 0 };
	struct words w;
	uint64_t pages;

	if (!start || split_kernel(line, start, &w) < c->total ||
	    !kernel_number(&w, c->pid, &p.pid) || !kernel_number(&w, c->rss, &pages))
		return 0;
	p.rss_bytes = pages * PAGE_BYTES;
	snprintf(p.name, sizeof(p.name), "%.*s", (int)w.n[c->name], w.at[c->name]);
	e->table_processes++;
	e->table_rss_bytes += p.rss_bytes;
	insert(e, &p);
	return 1;
}
