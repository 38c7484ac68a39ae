/*
 * What schedulers list of a job, where a line alone does not say: the columns of Slurm's sacct, the
 * limits of a container in kubectl describe.  Only lines below the head are looked at, as far as they
 * are in the window.
 */
#include "scan.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define ROWS_MAX 64
#define BLOCK_LINES 6 /* "Limits:" has cpu, memory, ephemeral-storage, GPUs */

/* ---- lines below ---- */

struct below {
	const char *p, *end;
	uint32_t line; /* below the head, from 1 */
	struct scan_line now;
};

static int next_line(struct below *b)
{
	const char *from = b->p;

	if (from < b->end && *from == '\r')
		from++;
	if (from >= b->end || *from != '\n')
		return 0;
	from++;
	b->p = scan_line_end(from, b->end);
	b->line++;
	scan_line_clean(&b->now, from, b->p, from);
	return 1;
}

/* ---- sacct ---- */

enum { JOB, STATE, MAX_RSS, REQ_MEM, COLUMNS };

struct sacct {
	int bars;        /* columns are parted by '|' (-p, -P), else they lie below dashes */
	int at[COLUMNS]; /* which column; -1: there is none */
};

struct cell {
	const char *at;
	size_t n;
};

/* The column of that number: by bars, or by the runs of dashes in `dashes`. */
static struct cell cell_of(const struct sacct *t, const struct scan_line *dashes,
			   const struct scan_line *row, int column)
{
	struct cell c = { row->text, 0 };
	size_t from = 0, to = 0;

	if (column < 0)
		return c;
	for (int i = 0; i <= column; i++) {
		const char *text = t->bars ? row->text : dashes->text;

		from = i && t->bars ? to + 1 : to;
		if (from > row->n || text[from ? from - 1 : 0] == 0)
			return c;
		if (!t->bars)
			from += strspn(text + from, " ");
		to = from + (t->bars ? strcspn(text + from, "|") : strspn(text + from, "-"));
	}
	if (from >= row->n)
		return c;
	to = to < row->n ? to : row->n;
	while (from < to && row->text[from] == ' ')
		from++;
	while (to > from && row->text[to - 1] == ' ')
		to--;
	return (struct cell){ row->text + from, to - from };
}

static int read_head(const struct scan_line *head, struct sacct *t)
{
	static const char *const names[COLUMNS] = { "JobID", "State", "MaxRSS", "ReqMem" };
	const char *p = head->text;

	t->bars = strchr(p, '|') != NULL;
	for (int c = 0; c < COLUMNS; c++)
		t->at[c] = -1;
	for (int i = 0;; i++) {
		size_t n;

		p += strspn(p, t->bars ? "|" : " ");
		n = strcspn(p, t->bars ? "|" : " ");
		if (!n)
			break;
		for (int c = 0; c < COLUMNS; c++)
			if (strlen(names[c]) == n && !memcmp(names[c], p, n))
				t->at[c] = i;
		p += n;
	}
	return t->at[JOB] >= 0 && t->at[STATE] >= 0;
}

/* "33543212K", "32G", "32Gn" (a node); "4Gc" is of a core and no limit of the job.  Units are 2^10. */
static struct messages_bytes job_amount(struct cell c)
{
	size_t n = c.n - (c.n && c.at[c.n - 1] == 'n');
	struct messages_bytes b;

	if (!n || isdigit((unsigned char)c.at[n - 1]) ||
	    scan_size(c.at, n, SCAN_UNITS_BINARY, &b) != n)
		return messages_unknown;
	b.low = b.high = b.low + (b.high - b.low) / 2; /* not rounded: no other numbers are meant */
	return b;
}

static const struct messages_wording *job_state_of(struct cell c)
{
	for (size_t i = 0; i < scan_sacct_state_count; i++) {
		size_t n = strlen(scan_sacct_states[i].pattern);

		if (c.n >= n && !memcmp(c.at, scan_sacct_states[i].pattern, n))
			return &scan_sacct_states[i];
	}
	return NULL;
}

/* The row's own job: what stands in front of ".batch". */
static struct cell job_of(struct cell id)
{
	const char *dot = memchr(id.at, '.', id.n);

	return (struct cell){ id.at, dot ? (size_t)(dot - id.at) : id.n };
}

static void take_row(struct scan_job *job, const struct sacct *t, const struct scan_line *dashes,
		     const struct scan_line *row)
{
	struct messages_bytes used = job_amount(cell_of(t, dashes, row, t->at[MAX_RSS]));
	struct messages_bytes limit = job_amount(cell_of(t, dashes, row, t->at[REQ_MEM]));
	const struct messages_wording *w = job_state_of(cell_of(t, dashes, row, t->at[STATE]));

	if (used.low != PLIM_UNKNOWN && (job->used.low == PLIM_UNKNOWN || used.low > job->used.low))
		job->used = used;
	if (limit.low != PLIM_UNKNOWN && limit.low)
		job->limit = limit;
	job->wording = job->wording ? job->wording : w;
}

void scan_sacct(const struct scan_line *head, const char *p, const char *end, scan_job_fn *each,
		void *ctx)
{
	struct below b = { .p = p, .end = end };
	struct scan_job job = { .id = "" };
	struct scan_line dashes;
	struct sacct t;

	if (!read_head(head, &t) || (!t.bars && !next_line(&b)))
		return;
	dashes = b.now;
	for (int i = 0; i < ROWS_MAX && next_line(&b); i++) {
		struct cell id = job_of(cell_of(&t, &dashes, &b.now, t.at[JOB]));

		if (!id.n || id.n >= sizeof(job.id) || *id.at < '0' || *id.at > '9')
			break;
		if (strlen(job.id) != id.n || memcmp(job.id, id.at, id.n)) {
			if (job.wording)
				each(ctx, &job);
			job = (struct scan_job){ .used = messages_unknown,
						 .limit = messages_unknown,
						 .below = b.line };
			snprintf(job.text, sizeof(job.text), "%s", b.now.text);
			memcpy(job.id, id.at, id.n);
		}
		take_row(&job, &t, &dashes, &b.now);
	}
	if (job.wording)
		each(ctx, &job);
}

/* ---- kubectl describe ---- */

int scan_limits(const char *p, const char *end, struct messages_bytes *limit)
{
	static const char memory[] = "memory:";
	struct below b = { .p = p, .end = end };

	for (int i = 0; i < BLOCK_LINES && next_line(&b); i++) {
		const char *text = b.now.text + strspn(b.now.text, " ");

		if (!strncmp(text, "Requests:", 9) || !strchr(text, ':'))
			return 0;
		if (strncasecmp(text, memory, sizeof(memory) - 1))
			continue;
		text += sizeof(memory) - 1;
		text += strspn(text, " ");
		return scan_size(text, strlen(text), SCAN_UNITS_ANY, limit) != 0;
	}
	return 0;
}
