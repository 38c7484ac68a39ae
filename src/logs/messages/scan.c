/*
 * A log read once, in windows: anchors are looked for, and only the lines that hold one are looked
 * at.  What is remembered is bounded: the events, one traceback a rank, the line being read.
 */
#include "scan.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* A window; of what was searched before it, the start of a long line and the progress in front of it. */
#define WINDOW_BYTES ((size_t)256 << 10)
#define BEHIND_BYTES ((size_t)4 << 10)
/* What must follow an anchor in the window, unless the input ends: a message with all its clauses. */
#define AHEAD_BYTES ((size_t)8 << 10)
#define LISTED_BYTES (AHEAD_BYTES - SCAN_LINE_BYTES) /* below a line that is no longer than one */
#define LEAD_MAX_BYTES 160     /* in front of "out of memory", the most that belongs to it */
#define STEP_BYTES (64u << 10) /* a progress further back is not reported */
#define LOADING_BYTES 2048     /* the same of weights that were being loaded */
#define CONTAINER_LINES 20     /* of kubectl describe, between a state and the limits */
#define BOX_COLUMN 100         /* bytes in front of a box */
#define TRACES 32              /* ranks that may write their tracebacks among each other */
#define BELOW_MAX 64           /* lines of other ranks between a frame and its line of code */
#define CAUGHT_LINES 12        /* between a failure and the word that it was caught */
#define LOAD_LINES 12          /* between a failure and the next worker's word of what all did */
#define BELOW_LINES 6   /* between a message and the traceback that a logger writes below it */
#define TRACE_LINES 200 /* a message this far behind a traceback's last frame is not its own */

#define SHAPES 1024 /* a power of two */

struct open_trace {
	uint32_t rank;
	uint64_t last_line; /* 0: free */
	struct messages_trace traceback;
	uint32_t above; /* the event whose message stands right above it; SCAN_NONE: none does */
};

struct scan {
	struct messages_log *log;
	struct scan_anchors *anchors;
	uint32_t file;
	uint32_t file_rank; /* as the file's name shows, else UINT32_MAX */
	uint64_t line;      /* of `counted` */
	const char *counted;
	struct open_trace traces[TRACES];
	int best; /* the first row that fits the line at `best_at`; -1: none */
	struct messages_event found;
	struct messages_event
		worded; /* a failure that only someone's words or a title tell; no wording: none does */
	uint32_t harmless;           /* families that say of a refusal that it is not a failure */
	uint64_t found_at;           /* where its line begins, in bytes of the text */
	uint64_t flushed_at;         /* the same of the line that was done last */
	struct scan_columns columns; /* total > 0: in a process table */
	char joint; /* counts as a line's end, too: SCAN_JOINT in a text that was unwrapped, else '\n' */
	struct scan_places places; /* of the line, if `placed` is where it starts */
	const char *placed;
	uint64_t shape;            /* of the line; 0: not known yet */
	uint64_t unproven[SHAPES]; /* shapes of lines in which a cue proves nothing */
	uint64_t code_line;        /* below the last frame: the line of code that it shows */
	uint32_t kill;             /* the kernel's kill that details belong to; UINT32_MAX: none */
	int has_event;             /* a row fitted: maybe a repeat of what another file shows */
	uint64_t caught_at;        /* the line that last said that the program went on; 0: none */
	struct scan_line now,
		below;            /* `now` is cleaned when it is first needed, around `unclean` */
	const char *unclean;      /* NULL: it was */
	const char *from, *end;   /* the window, `origin` bytes into the text */
	const char *start, *stop; /* of the line that is looked at, NULL: none */
	uint64_t origin;
	uint64_t step, step_at; /* of the progress seen last, and where */
	uint64_t stepped;       /* up to where it was looked for */
	uint64_t loading_at;    /* of a bar of weights being loaded that is not full; 0: none */
	uint64_t load_failed;   /* the line that says so; 0: none does */
	struct plim_err *err;
	enum plim_status status;
};

#define COUNTED_AT_ONCE 64 /* few enough for a byte; compilers make a vector of them */

/* Line feeds up to `to`. */
static void count_to(struct scan *s, const char *to)
{
	const char joint = s->joint, *p = s->counted;
	uint64_t lines = 0;

	for (; to - p >= COUNTED_AT_ONCE; p += COUNTED_AT_ONCE) {
		uint8_t n = 0;

		for (int i = 0; i < COUNTED_AT_ONCE; i++)
			n = (uint8_t)(n + ((p[i] == '\n') | (p[i] == joint)));
		lines += n;
	}
	for (; p < to; p++)
		lines += *p == '\n' || *p == joint;
	s->line += lines;
	s->counted = to > s->counted ? to : s->counted;
}

/* ---- tracebacks ---- */

static uint32_t rank_of(const struct scan *s)
{
	return s->now.rank != UINT32_MAX ? s->now.rank : s->file_rank;
}

/* The rank's own, or the one that was quiet for longest. */
static struct open_trace *find_trace(struct scan *s)
{
	for (size_t i = 0; i < TRACES; i++)
		if (s->traces[i].last_line && s->traces[i].rank == rank_of(s))
			return &s->traces[i];
	return NULL;
}

static struct open_trace *traceback_of(struct scan *s)
{
	struct open_trace *oldest = &s->traces[0], *own = find_trace(s);

	if (own)
		return own;
	for (size_t i = 0; i < TRACES; i++) {
		if (s->traces[i].last_line < oldest->last_line)
			oldest = &s->traces[i];
	}
	*oldest = (struct open_trace){ .rank = rank_of(s), .above = SCAN_NONE };
	scan_trace_start(&oldest->traceback);
	return oldest;
}

static void take_trace(struct scan *s, struct messages_event *e)
{
	struct open_trace *t = find_trace(s);

	if (!t || t->last_line + TRACE_LINES < s->line || !t->traceback.frames)
		return;
	e->traceback = t->traceback;
}

/* The step that is shown in front of `at`, maybe on the same line: bars end in no line feed. */
static uint64_t step_before(struct scan *s, const char *at)
{
	uint64_t here = s->origin + (uint64_t)(at - s->from), step, most;
	size_t n = (size_t)(at - s->from);

	n = n < BEHIND_BYTES ? n : BEHIND_BYTES;
	if (s->stepped && n > here - s->stepped) /* the rest was looked at before */
		n = here > s->stepped ? (size_t)(here - s->stepped) : 0;
	step = scan_progress(at - n, n, &most);
	s->stepped = here;
	if (step != PLIM_UNKNOWN) {
		if (step || s->step != MESSAGES_STEP_SOME)
			s->step = step;
		s->step_at = here;
	}
	return here - s->step_at <= STEP_BYTES ? s->step : PLIM_UNKNOWN;
}

/*
 * A bar that stands at 0 may be that of the second epoch or of an evaluation: only what is known
 * from the first line on shows that nothing was done before.
 */
static int is_fresh(const struct scan *s)
{
	uint64_t most;

	return !s->origin &&
	       scan_progress(s->from, (size_t)(s->start - s->from), &most) != PLIM_UNKNOWN && !most;
}

/* As far back as every window shows it. */
static const char *seen_from(const struct scan *s, const char *at)
{
	return at - s->from > (ptrdiff_t)BEHIND_BYTES ? at - BEHIND_BYTES : s->from;
}

/* What stands below the line that is looked at, as far as every window shows it. */
static const char *below_end(const struct scan *s)
{
	return s->end - s->stop > (ptrdiff_t)LISTED_BYTES ? s->stop + LISTED_BYTES : s->end;
}

/* The event's index; SCAN_NONE: it was not kept (s->status). */
static uint32_t keep_scan(struct scan *s, struct messages_event *e)
{
	struct messages_log *log = s->log;
	uint32_t old = scan_event_repeat(log, e);

	if (old != SCAN_NONE)
		return old;
	if (e->traceback.step == PLIM_UNKNOWN)
		e->traceback.step = step_before(s, s->start);
	e->traceback.fresh = e->traceback.step == 0 && is_fresh(s);
	if (s->kill != SCAN_NONE && s->kill + 1 == MESSAGES_EVENTS)
		s->kill = SCAN_NONE; /* its place is taken */
	s->status = scan_event_add(log, e, s->err);
	return s->status ? SCAN_NONE : (uint32_t)log->events.n - 1;
}

/* The kernel shows a kill in several lines: who asked, usage, the table, and at last whom it killed. */
static struct messages_event *kill_of(struct scan *s, struct messages_event *e)
{
	if (s->kill == SCAN_NONE)
		s->kill = keep_scan(s, e);
	return s->kill == SCAN_NONE ? NULL : &s->log->events.at[s->kill];
}

/* Does what it says come from the process that wrote the traceback in front of it? */
static int has_trace(const struct messages_event *e)
{
	return e->wording->class < MESSAGES_DETAIL &&
	       (e->wording->family == MESSAGES_DATALOADER || !scan_event_is_kill(e));
}

/* Wordings of who loads weights; llama.cpp names the buffer, and what it was for. */
static int is_of_loading(const struct messages_event *e)
{
	return scan_holds(e->wording->pattern, scan_loading_words) ||
	       scan_holds(e->text, scan_loading_words);
}

/* "Exception in worker while processing method load_model" in front of a failure. */
static int was_loading(const struct scan *s, const struct messages_event *e)
{
	return s->load_failed && s->load_failed + TRACE_LINES >= s->line &&
	       e->wording->class <= MESSAGES_BUDGET &&
	       e->traceback.moment == MESSAGES_MOMENT_UNKNOWN;
}

/* Who is killed writes no traceback; what it did last may tell. */
static void take_moment(const struct scan *s, struct messages_event *e)
{
	uint64_t here = s->origin + (uint64_t)(s->start - s->from) + 1;

	if (strstr(e->text, "Failed to clone() tensor")) /* FSDP, of the state that is saved */
		e->traceback.moment = MESSAGES_SAVING;
	else if (is_of_loading(e) || was_loading(s, e) ||
		 (s->loading_at && s->loading_at + LOADING_BYTES >= here &&
		  e->traceback.moment == MESSAGES_MOMENT_UNKNOWN &&
		  e->wording->class <= MESSAGES_SHARED))
		e->traceback.moment = MESSAGES_LOADING;
}

static void event_place(struct scan *s, struct messages_event *e)
{
	e->file = s->file;
	e->line = e->last_line = s->line;
	e->times = 1;
	e->caught_line = s->caught_at == s->line ? s->line : 0;
	scan_event_rank(e, rank_of(s));
	if (has_trace(e))
		take_trace(s, e);
	if (e->traceback.semaphore && strstr(e->wording->pattern, "No space left"))
		e->wording = scan_semaphore;
	snprintf(e->text, sizeof(e->text), "%s", s->now.text + s->now.body);
	take_moment(s, e);
}

static void take_scan(struct scan *s, struct messages_event *e)
{
	struct messages_event *k;

	/* a launcher that does not know why leaves it to someone's words */
	s->has_event |= e->wording->class < MESSAGES_OTHER ||
			(e->wording->class == MESSAGES_OTHER &&
			 (e->wording->sure || e->wording->family != MESSAGES_LAUNCHER));
	if (e->wording->class == MESSAGES_DETAIL && scan_event_is_kernels(e)) {
		k = kill_of(s, e);
		if (k)
			scan_kill_detail(k, e);
	} else if (scan_event_is_kernels(e) && e->wording->class <= MESSAGES_HOST_KILL) {
		if (!scan_kill_end(s->log, s->kill, e))
			keep_scan(s, e);
		s->kill = SCAN_NONE;
	} else {
		keep_scan(s, e);
	}
}

/* "OOM" alone may be of any memory. */
static int is_of_a_card(const struct scan_line *l)
{
	return scan_says(l->text, scan_card_words);
}

static int is_of_the_host(const char *p, const char *end)
{
	return scan_has(p, end, scan_host_memory);
}

/* Nothing stands right above the line. */
static int is_alone_above(const struct scan *s)
{
	const char *p = s->start;

	p -= p > s->from; /* the end of the line above */
	p -= p > s->from && *p == '\n' && p[-1] == '\r';
	return p == s->from || scan_ends_line(p[-1]);
}

/* Where the paragraph begins, or ends, that holds the line. */
static const char *paragraph_start(const struct scan *s, const char *from)
{
	for (const char *p = s->start; p > from + 1; p--)
		if (p[-1] == '\n' && (p[-2] == '\n' || (p > from + 2 && p[-3] == '\n')))
			return p;
	return from;
}

static const char *paragraph_end(const struct scan *s, const char *end)
{
	const char *p = memmem(s->stop, (size_t)(end - s->stop), "\n\n", 2);
	const char *q = memmem(s->stop, (size_t)(end - s->stop), "\r\n\r\n", 4);

	return p ? p : q ? q : end;
}

/* Words around a line that names no memory itself: 1: a GPU's alone, -1: the host's alone. */
static int around(const char *p, const char *end)
{
	int card = scan_has(p, end, scan_card_around);
	int host = is_of_the_host(p, end);

	return card - host;
}

/* Which memory a line's words say of; NULL: they do not report a failure, or of another memory. */
static const struct messages_wording *as_told(const struct messages_event *e,
					      const struct scan_line *l, int titled)
{
	enum messages_class class = e->wording->class;
	const char *anchor;
	char literal[64];
	size_t n;

	anchor = scan_anchor(e->wording->pattern, &n);
	if (n < sizeof(literal)) {
		memcpy(literal, anchor, n);
		literal[n] = 0;
	}
	if (!strstr(e->wording->pattern, "not enough") &&
	    scan_line_denies(l, n < sizeof(literal) ? strcasestr(l->text, literal) : NULL, titled))
		return NULL;
	if (class != MESSAGES_DEVICE || is_of_a_card(l))
		return e->wording;
	return is_of_the_host(l->text, l->text + l->n) ? scan_host_words : scan_untold_wording;
}

/* The same, by the lines around it if its own does not name the memory. */
static const struct messages_wording *as_told_around(const struct scan *s,
						     const struct messages_event *e)
{
	const struct messages_wording *told = as_told(e, &s->now, is_alone_above(s));
	int where;

	if (told != scan_untold_wording)
		return told;
	where = around(paragraph_start(s, seen_from(s, s->start)), paragraph_end(s, below_end(s)));
	return where > 0 ? e->wording : where < 0 ? scan_host_words : told;
}

/* "# CUDA out of memory" of a report. */
static int is_title(const struct scan_line *l)
{
	return !strncmp(l->text + l->body, "# ", 2);
}

/* The program whose logger wrote the failure, if the form of its lines alone shows it. */
static void see_logger(struct scan *s)
{
	size_t i = 0;

	if (s->found.wording != &scan_wordings[SCAN_ROW_PYTORCH] || !scan_is_vllms_line(&s->now))
		return;
	while (scan_cues[i].engine != MESSAGES_ENGINE_VLLM || scan_cues[i].activity)
		i++;
	scan_cue_seen(s->log, i, s->file, s->line);
}

/* The line is done: what fitted it best is an event. */
static void flush_scan(struct scan *s)
{
	struct messages_event *e = &s->found;

	if (s->best < 0)
		return;
	e->wording = &scan_wordings[s->best];
	s->best = -1;
	s->flushed_at = s->found_at;
	if (e->wording->class == MESSAGES_NOTHING)
		s->harmless |= 1u << e->wording->family;
	if (e->wording->class == MESSAGES_NOTHING || scan_line_quotes(&s->now))
		return;
	/* a title cites a failure: the text below it has more of it */
	if (e->wording->family == MESSAGES_WORDS || is_title(&s->now)) {
		if (e->wording->family == MESSAGES_WORDS)
			e->wording = as_told_around(s, e);
		if (!s->worded.wording && e->wording && e->wording->class < MESSAGES_DETAIL) {
			event_place(s, e);
			s->worded = *e;
		}
		return;
	}
	if (scan_event_is_kernels(e))
		scan_kill_numbers(e, &s->now);
	event_place(s, e);
	see_logger(s);
	if (e->wording == &scan_wordings[SCAN_ROW_PYTORCH]) {
		s->log->newest = e->oom;
		s->log->newest.line = e->line;
		s->log->has_newest = 1;
	}
	take_scan(s, e);
}

/* ---- what an anchor may begin ---- */

/* A message whose figure cannot be read is one still: what else it shows was kept. */
static int is_request(const char *at, const char *end)
{
	static const char label[] = "Tried to allocate ";
	const char *next =
		at + 6 < end ? memmem(at + 6, (size_t)(end - at - 6), "out of", 6) : NULL;
	const char *p;

	end = next ? next : end; /* "Ran out of memory with exception: CUDA out of memory. Tried" */
	p = memmem(at, (size_t)(end - at), label, sizeof(label) - 1);
	p = p ? p + sizeof(label) - 1 : end;
	return p < end && *p >= '0' && *p <= '9';
}

/* Cheap, and most that is "out of memory" has no numbers. */
static int may_be_pytorch(const struct scan *s, const char *at)
{
	const char *end = s->end - at > (ptrdiff_t)AHEAD_BYTES ? at + AHEAD_BYTES : s->end;

	return scan_is_trigger(at, (size_t)(s->end - at)) &&
	       (memmem(at, (size_t)(end - at), "allocate", 8) ||
		memmem(at, (size_t)(end - at), "Requested", 9));
}

static int read_pytorch(const struct scan *s, const char *at, struct messages_oom *oom)
{
	const char *lead = at - s->start > LEAD_MAX_BYTES ? at - LEAD_MAX_BYTES : s->start;
	const char *end = s->end - at > (ptrdiff_t)AHEAD_BYTES ? at + AHEAD_BYTES : s->end;

	/* "Ran out of memory with exception: CUDA out of memory. Tried ...": the numbers are the second's */
	for (const char *p = lead; (p = memmem(p, (size_t)(at - p), "out of", 6)); p += 6)
		lead = p + 6;
	return messages_parse_oom(lead, (size_t)(end - lead), oom) || is_request(at, s->stop);
}

static void try_row(struct scan *s, int row, const char *at)
{
	uint64_t line_at = s->origin + (uint64_t)(s->start - s->from);
	struct messages_event e;

	if ((s->best >= 0 && s->best <= row) || s->flushed_at == line_at)
		return;
	/* the row that fits most often, for nothing: an event is large */
	if (row == SCAN_ROW_PYTORCH && !may_be_pytorch(s, at))
		return;
	scan_event_start(&e);
	if (row == SCAN_ROW_PYTORCH ? !read_pytorch(s, at, &e.oom)
				    : !scan_match(scan_wordings[row].pattern, &s->now, &e))
		return;
	s->found = e;
	s->best = row;
	s->found_at = line_at;
}

/* The line of code below a frame: the next one of the same rank. */
static const struct scan_line *line_below(struct scan *s)
{
	const char *p = s->stop;

	for (int i = 0; i < BELOW_MAX && p < s->end; i++) {
		const char *from = p + (*p == '\r');
		const char *stop;

		from += from < s->end && *from == '\n';
		stop = scan_line_end(from, s->end);
		scan_line_clean(&s->below, from, stop, from);
		if (s->below.rank == s->now.rank)
			return &s->below;
		p = stop;
	}
	return NULL;
}

/* A logger writes the message first and the traceback below it: it is that message's. */
static void give_above(struct scan *s, const struct open_trace *t)
{
	struct messages_event *e;
	uint64_t step;

	if (t->above >= s->log->events.n)
		return;
	e = &s->log->events.at[t->above];
	if (e->file != s->file)
		return;
	step = e->traceback.step;
	e->traceback = t->traceback;
	e->traceback.step = step;
}

/* A frame's path begins with a drive: File "G:\. */
static void note_drive(struct scan *s)
{
	const char *at = strstr(s->now.text, "File \"");
	struct messages_set *set = &s->log->files.at[s->file].set[MESSAGES_SET_WINDOWS];

	if (at && isalpha((unsigned char)at[6]) && at[7] == ':' && at[8] == '\\')
		*set = (struct messages_set){ .line = s->line, .value = -1 };
}

static void scan_frame(struct scan *s)
{
	struct open_trace *t;

	if (s->code_line == s->line + 1)
		return; /* all frames of a line were read with its first one */
	t = traceback_of(s);
	t->last_line = s->line;
	s->code_line = s->line + 1;
	note_drive(s);
	scan_trace_frame(&t->traceback, &s->now, line_below(s));
	give_above(s, t);
}

static int read_odd(struct scan *s, enum scan_special id, const char *at, struct messages_trace *t)
{
	switch (id) {
	case SCAN_ESCAPED: return scan_frame_escaped(t, at, s->end, s->now.rank);
	case SCAN_BOXED: /* only a logger's words stand in front of a box */
		return at - s->start < BOX_COLUMN &&
		       scan_frame_boxed(t, seen_from(s, at), s->start, s->stop, s->now.rank);
	default: return scan_frame_notebook(t, &s->now, s->stop, below_end(s));
	}
}

static void odd_frame(struct scan *s, enum scan_special id, const char *at)
{
	struct messages_trace t;
	struct open_trace *open = find_trace(s);

	scan_trace_start(&t);
	if (open)
		t = open->traceback;
	if (!read_odd(s, id, at, &t))
		return;
	open = traceback_of(s);
	open->traceback = t;
	open->last_line = s->line;
	give_above(s, open);
}

/* The failure whose message stands right above the line, and had no traceback of its own. */
static uint32_t event_above(const struct scan *s, uint64_t lines)
{
	for (size_t i = s->log->events.n; i--;) {
		const struct messages_event *e = &s->log->events.at[i];

		if (e->file != s->file || e->last_line + lines < s->line)
			break;
		if (e->wording->class <= MESSAGES_HOST && !e->traceback.frames)
			return (uint32_t)i;
	}
	return SCAN_NONE;
}

static void traceback(struct scan *s, const char *at)
{
	struct open_trace *t = traceback_of(s);

	step_before(s, at);
	if (!s->load_failed || s->load_failed + BELOW_LINES < s->line)
		t->above = event_above(s, BELOW_LINES);
	else
		t->above = SCAN_NONE; /* this one is of the worker that said so */
	scan_trace_start(&t->traceback);
	t->last_line = s->line;
}

/* One of several workers says so, which all do the same: the failure right above is of another one. */
static void load_failed(struct scan *s)
{
	uint32_t above = event_above(s, LOAD_LINES);

	s->load_failed = s->line;
	if (above != SCAN_NONE)
		s->log->events.at[above].traceback.moment = MESSAGES_LOADING;
}

/* "Loading checkpoint shards:  33%|": the weights are being loaded until it stands at 100. */
static void loading(struct scan *s, const char *at)
{
	const char *percent = memchr(at, '%', (size_t)(s->stop - at));

	if (percent)
		s->loading_at = percent - at >= 3 && !memcmp(percent - 3, "100", 3)
					? 0
					: s->origin + (uint64_t)(at - s->from) + 1;
}

/* A table's head: its rows follow. */
static void scan_table(struct scan *s)
{
	struct messages_event e;
	struct scan_columns columns;

	if (!scan_table_head(&s->now, &columns))
		return;
	scan_event_start(&e);
	e.wording = scan_table_wording;
	event_place(s, &e);
	if (kill_of(s, &e))
		s->columns = columns;
}

static void take_job(void *ctx, const struct scan_job *job)
{
	struct scan *s = ctx;
	struct messages_event e;

	scan_event_start(&e);
	e.wording = job->wording;
	e.used = job->used;
	e.limit = job->limit;
	memcpy(e.group, job->id, sizeof(job->id));
	event_place(s, &e);
	snprintf(e.text, sizeof(e.text), "%s", job->text);
	e.line = e.last_line = s->line + job->below;
	if (!s->status)
		take_scan(s, &e);
}

/* "MaxRSSNode" may be another column of the same head. */
static void sacct(struct scan *s, const char *at)
{
	if (at == memmem(s->start, (size_t)(s->stop - s->start), "MaxRSS", 6))
		scan_sacct(&s->now, s->stop, below_end(s), take_job, s);
}

/* A container's limits stand below its state; above them may be another container's. */
static void limits(struct scan *s)
{
	struct messages_bytes limit;

	if (!scan_limits(s->stop, below_end(s), &limit))
		return;
	for (size_t i = s->log->events.n; i--;) {
		struct messages_event *e = &s->log->events.at[i];

		if (e->file != s->file || e->last_line + CONTAINER_LINES < s->line)
			break;
		if (scan_event_is_kill(e) && e->limit.low == PLIM_UNKNOWN)
			e->limit = limit;
	}
}

/* The failure right above was caught; one on this line is marked when it is placed. */
static void caught(struct scan *s)
{
	s->caught_at = s->line;
	if (s->best >= 0)
		return;
	for (size_t i = s->log->events.n; i--;) {
		struct messages_event *e = &s->log->events.at[i];

		if (e->file != s->file || e->last_line + CAUGHT_LINES < s->line)
			break;
		if (e->wording->class <= MESSAGES_HOST && !e->caught_line) {
			e->caught_line = s->line;
			break;
		}
	}
}

static void clean_now(struct scan *s)
{
	if (s->unclean)
		scan_line_clean(&s->now, s->start, s->stop, s->unclean);
	s->unclean = NULL;
}

/* The line's places are found once, for all the names in it. */
static int is_anchored(struct scan *s, const char *name)
{
	clean_now(s);
	if (s->placed != s->start)
		scan_places_of(&s->now, &s->places);
	s->placed = s->start;
	return scan_is_anchored(&s->now, &s->places, name);
}

/* Is this the line of code that a frame shows? */
static int is_in_code(const struct scan *s)
{
	return s->line == s->code_line;
}

static void scan_one_setting(struct scan *s, const struct scan_setting *what, const char *at)
{
	struct messages_file *file = &s->log->files.at[s->file];

	/* a path counts as a frame's, or where a command starts it */
	if (what->spent <= SCAN_SET_NONE && strpbrk(what->word, "/\\") && !is_in_code(s) &&
	    !is_anchored(s, what->word))
		return;
	scan_setting_seen(&file->set[what->setting], what, s->start, at, s->stop, s->line);
}

/* A command that starts a script. */
static void command(struct scan *s, const char *at)
{
	struct messages_file *file = &s->log->files.at[s->file];

	if (scan_command(at, s->stop, file->script, sizeof(file->script)))
		file->script_line = s->line;
}

/* A log repeats its lines with other numbers: where a cue proved nothing it does not in the next one. */
static uint64_t *unproven_of(struct scan *s, size_t index, uint64_t *shape)
{
	if (!s->shape)
		s->shape = scan_line_shape(s->start, s->stop);
	*shape = s->shape + index;
	return &s->unproven[*shape % SHAPES];
}

/* The name of a program, or of what it was doing: it counts where it proves that it ran. */
static void cue(struct scan *s, size_t index)
{
	uint64_t shape, *unproven = unproven_of(s, index, &shape);

	if (is_in_code(s) || (*unproven != shape && is_anchored(s, scan_cues[index].word)))
		scan_cue_seen(s->log, index, s->file, s->line);
	else
		*unproven = shape;
}

#define SMI_LINES 6 /* between a GPU's row and the next one's */

static void keep_state(struct scan *s, struct messages_state *state, uint64_t line)
{
	struct messages_log *log = s->log;
	struct messages_state *last = log->states.n ? &log->states.at[log->states.n - 1] : NULL;

	if (last && last->file == s->file && last->line == line && last->kind == state->kind)
		return;
	state->file = s->file;
	state->line = line;
	if (state->kind == MESSAGES_STATE_SMI)
		state->device = last && last->kind == state->kind && line - last->line <= SMI_LINES
					? last->device + 1
					: 0;
	if (log->states.n == MESSAGES_STATES)
		*last = *state;
	else if (!(s->status = vec_need(log->mem, &log->states, 1, s->err)))
		log->states.at[log->states.n++] = *state;
}

/* The rows below "Processes:" of nvidia-smi. */
static void scan_processes(struct scan *s)
{
	const char *end = below_end(s), *p = s->stop;
	struct messages_state state;

	for (uint64_t line = s->line; p < end && !s->status; line++) {
		const char *stop = scan_line_end(p, end);

		if (scan_state(MESSAGES_STATE_PROCESS, p, stop, &state))
			keep_state(s, &state, line);
		p = stop + (stop < end);
		if (p < end && *stop == '\r' && *p == '\n')
			p++;
	}
}

/* Tables and dictionaries go on below the line; what a line alone shows ends with it. */
static void state(struct scan *s, enum messages_state_kind kind)
{
	int is_line = kind == MESSAGES_STATE_SMI || kind == MESSAGES_STATE_DEEPSPEED;
	struct messages_state state;

	if (kind == MESSAGES_STATE_PROCESS)
		scan_processes(s);
	else if (scan_state(kind, s->start, is_line ? s->stop : below_end(s), &state))
		keep_state(s, &state, s->line);
}

/* All that may begin at an anchor of the current line. */
static void look_at_scan(struct scan *s, int16_t entry, const char *at)
{
	const struct scan_anchors *a = s->anchors;

	for (; entry >= 0; entry = scan_anchors_next(a, entry, at, s->end)) {
		int id = a->entries[entry].id;

		if (id < SCAN_CUE)
			clean_now(s);
		switch (id) {
		case SCAN_FRAME: scan_frame(s); break;
		case SCAN_ESCAPED:
		case SCAN_BOXED:
		case SCAN_NOTEBOOK: odd_frame(s, (enum scan_special)id, at); break;
		case SCAN_TRACEBACK: traceback(s, at); break;
		case SCAN_TABLE: scan_table(s); break;
		case SCAN_LOADING: loading(s, at); break;
		case SCAN_LOAD_FAILED: load_failed(s); break;
		case SCAN_SACCT: sacct(s, at); break;
		case SCAN_LIMITS: limits(s); break;
		case SCAN_CAUGHT: caught(s); break;
		case SCAN_COMMAND: command(s, at); break;
		default:
			if (id >= SCAN_STATE && id < SCAN_STATES_END)
				state(s, (enum messages_state_kind)(id - SCAN_STATE));
			else if (id >= SCAN_SETTING)
				scan_one_setting(s, &scan_settings[id - SCAN_SETTING], at);
			else if (id >= SCAN_CUE)
				cue(s, (size_t)(id - SCAN_CUE));
			else
				try_row(s, id, at);
		}
	}
}

/* ---- windows ---- */

/*
 * Is `at` in the line that is looked at?  A line that is longer than what is kept of one is looked
 * at in pieces, so that a gigabyte without a line feed takes no longer than another.
 */
static int in_line(const struct scan *s, const char *at)
{
	if (!s->start || at >= s->stop)
		return 0;
	return (s->stop < s->end && scan_ends_line(*s->stop)) ||
	       at - s->start < SCAN_LINE_BYTES / 2;
}

static void open_line(struct scan *s, const char *at)
{
	const char *from = seen_from(s, at);
	const char *end = s->end - at > SCAN_LINE_BYTES ? at + SCAN_LINE_BYTES : s->end;

	flush_scan(s);
	count_to(s, at);
	s->placed = NULL;
	s->start = scan_line_start(from, at);
	s->stop = scan_line_end(at, end);
	if (s->stop - s->start >= SCAN_LINE_BYTES && at - s->start > SCAN_LINE_BYTES / 4)
		s->start = at - SCAN_LINE_BYTES / 4;
	s->unclean = at;
	s->shape = 0;
}

/* Rows of a process table, from a line's start; where they end. */
static const char *table_rows(struct scan *s, const char *p, const char *end, int last)
{
	while (s->columns.total && p < end) {
		const char *stop = scan_line_end(p, end);

		if (stop == end && !last)
			return p;
		scan_line_clean(&s->now, p, stop, p);
		if (s->kill == SCAN_NONE ||
		    !scan_table_row(&s->now, &s->columns, &s->log->events.at[s->kill]))
			s->columns.total = 0;
		else
			p = stop < end ? stop + 1 : stop;
		if (p < end && p > stop && *stop == '\r' && *p == '\n')
			p++;
	}
	return p;
}

/* Nothing begins there but words that count once and stood before: their line need not be looked at. */
static int is_old(const struct scan *s, int16_t entry, const char *at)
{
	const struct messages_file *file = &s->log->files.at[s->file];
	int old = 1;

	for (; old && entry >= 0; entry = scan_anchors_next(s->anchors, entry, at, s->end)) {
		int id = s->anchors->entries[entry].id;

		if (id >= SCAN_SETTING)
			old = scan_setting_is_old(file->set, &scan_settings[id - SCAN_SETTING]);
		else
			old = id >= SCAN_CUE &&
			      s->log->cues.at[file->cues + (size_t)(id - SCAN_CUE)];
	}
	return old;
}

/* A line is looked at only if it has one of these. */
static int may_speak(const char *p, const char *end)
{
	return scan_has(p, end, scan_memory_parts);
}

/* Is the line a row's, of a detail? */
static int scan_is_known(const struct scan *s, uint64_t line)
{
	for (size_t i = 0; i < s->log->events.n; i++)
		if (s->log->events.at[i].file == s->file && s->log->events.at[i].line == line)
			return 1;
	return 0;
}

/*
 * No row fits in the text that ends here: the first line of the window in which a program says in its own words that
 * memory was refused.  `p` is where its lines are counted from, `line` that line's number.
 */
static void speak(struct scan *s, const char *p, uint64_t line)
{
	for (const char *next; p < s->end; p = next) {
		const char *stop = scan_line_end(p, s->end);
		enum scan_memory memory = SCAN_MEMORY_NONE;
		struct messages_event *e = &s->worded;

		next = stop + (stop < s->end);
		if (may_speak(p, stop)) {
			scan_event_start(e);
			scan_line_clean(&s->now, p, stop, p);
			memory = scan_line_quotes(&s->now) ? SCAN_MEMORY_NONE
							   : scan_spoken(&s->now, &e->oom.tried);
		}
		if (memory == SCAN_MEMORY_NONE || scan_is_known(s, line)) {
			line += stop < s->end && (*stop == '\n' || *stop == s->joint);
			continue;
		}
		s->start = p;
		s->stop = stop;
		s->line = line;
		e->wording = memory == SCAN_MEMORY_UNTOLD
				     ? scan_untold_wording
				     : &scan_spoken_wordings[memory - SCAN_MEMORY_CARD];
		event_place(s, e);
		return;
	}
}

/*
 * Look for anchors in [p, end); `from` is the start of what is still there before p.  Returns where
 * to go on: what is behind is too near to the end to be judged.
 */
static const char *scan_window(struct scan *s, const char *from, const char *p, const char *end,
			       int last)
{
	const char *safe = last ? end : end - AHEAD_BYTES, *first = p;
	uint64_t line = s->line;

	s->from = from;
	s->end = end;
	s->counted = p;
	s->start = s->stop = s->unclean = NULL;
	while (p < safe && !s->status) {
		int16_t entry;

		if (s->columns.total) {
			p = table_rows(s, p, end, last);
			if (s->columns.total)
				break; /* the next row is cut by the window's end */
			continue;
		}
		p = scan_anchors_find(s->anchors, p, end, &entry);
		if (p >= safe)
			break;
		if (is_old(s, entry, p)) {
			p++;
			continue;
		}
		if (!in_line(s, p))
			open_line(s, p);
		look_at_scan(s, entry, p);
		p = s->columns.total ? s->stop + (s->stop < end) : p + 1;
	}
	flush_scan(s);
	p = p < safe ? safe : p;
	count_to(s, p);
	if (last && !s->worded.wording && !s->has_event) {
		uint64_t lines = s->line;

		speak(s, first, line);
		s->line = lines;
	}
	return p;
}

/* ---- a source ---- */

/* How much of [base, done) stays in front of the next window. */
static size_t stays(struct scan *s, const char *base, const char *done)
{
	size_t behind = (size_t)(done - base);

	behind = behind < BEHIND_BYTES ? behind : BEHIND_BYTES;
	s->origin += (uint64_t)(done - base) - behind;
	return behind;
}

/* A text that is there whole: with its broken lines joined.  *done: it had some, and was searched. */
static enum plim_status scan_unwrapped(struct scan *s, struct source *src, int *done)
{
	enum plim_status st = source_need(src, src->p, WINDOW_BYTES, s->err);
	size_t n = (size_t)(src->end - src->p), room = 2 * n + 1;
	char *text;

	*done = 0;
	if (n >= WINDOW_BYTES)
		return PLIM_OK;
	text = mem_new(s->log->mem, room, 1, s->err);
	if (!text)
		return mem_status(s->err);
	n = scan_unwrap(s->anchors, (const char *)src->p, n, text);
	if (n) {
		s->joint = SCAN_JOINT;
		scan_window(s, text, text, text + n, 1);
		src->p = src->end;
		*done = 1;
	}
	mem_free(s->log->mem, text, room, 1);
	return *done ? (st ? st : s->status) : PLIM_OK;
}

static enum plim_status scan_windows(struct scan *s, struct source *src)
{
	const uint8_t *keep = src->p;
	size_t behind = 0;

	for (;;) {
		enum plim_status st = source_need(src, keep, behind + WINDOW_BYTES, s->err);
		const char *base = (const char *)src->p, *end = (const char *)src->end, *done;
		int last = st || (size_t)(end - base) < behind + WINDOW_BYTES;

		done = scan_window(s, base, base + behind, end, last);
		if (last || s->status)
			return st ? st : s->status;
		behind = stays(s, base, done);
		keep = (const uint8_t *)done - behind;
	}
}

static enum plim_status scan_text(struct scan *s, struct source *src)
{
	int done;
	enum plim_status st = scan_unwrapped(s, src, &done);

	return st || done ? st : scan_windows(s, src);
}

int scan_is_text(const struct source *src)
{
	size_t n = (size_t)(src->end - src->p);

	return !memchr(src->p, 0, n < SCAN_HEAD_BYTES ? n : SCAN_HEAD_BYTES);
}

#define NEARLY_FULL 0.8 /* of the machine's memory, in use right before processes were ended */

/* DeepSpeed's last words of the machine's memory, and its launcher's that it ends the ranks: by whom, nothing shows. */
static void end_nearly_full(struct scan *s)
{
	double share = -1;

	for (size_t i = 0; i < s->log->events.n && !s->has_event; i++) {
		struct messages_event *e = &s->log->events.at[i];

		if (e->file != s->file || e->wording->class != MESSAGES_DETAIL)
			continue;
		if (strstr(e->wording->pattern, "CPU Virtual Memory"))
			share = e->share;
		else if (share >= NEARLY_FULL &&
			 strstr(e->wording->pattern, "Killing subprocess")) {
			e->wording = scan_ended_full;
			s->has_event = 1;
		}
	}
}

/* Details that say of a failure by themselves (scan_alone), if the log has no line that says so: it was cut, or searched. */
static void end_details(struct scan *s)
{
	int alone = 0;

	if (s->has_event)
		return;
	for (size_t i = 0; i < s->log->events.n; i++) {
		struct messages_event *e = &s->log->events.at[i];

		for (size_t k = 0; k < scan_alone_count; k++)
			if (e->file == s->file && e->wording->class == MESSAGES_DETAIL &&
			    strstr(e->text, scan_alone[k].pattern)) {
				e->wording = &scan_alone[k];
				alone = 1;
				if (e->wording->family == MESSAGES_LLAMA_CPP) /* it goes on */
					e->caught_line = e->line;
			}
	}
	s->has_event = alone;
	end_nearly_full(s);
}

/* Words count where no message does. */
static enum plim_status take_words(struct scan *s)
{
	struct messages_event *e = &s->worded;

	if (!e->wording || s->has_event || s->harmless & 1u << e->wording->family)
		return PLIM_OK;
	return scan_event_add(s->log, e, s->err);
}

enum plim_status scan_source(struct messages_log *log, uint32_t file, uint32_t rank,
			     struct source *src, uint64_t *line_feeds, struct plim_err *err)
{
	struct scan *s = mem_new(log->mem, 1, sizeof(*s), err);
	enum plim_status st;

	*line_feeds = 0;
	if (!s)
		return mem_status(err);
	s->log = log;
	s->file = file;
	s->file_rank = rank;
	s->err = err;
	s->best = -1;
	s->kill = SCAN_NONE;
	s->line = 1;
	s->flushed_at = PLIM_UNKNOWN;
	s->joint = '\n';
	s->step = PLIM_UNKNOWN;
	st = scan_cues_begin(log, file, err);
	if (!st)
		st = scan_anchors_new(log->mem, &s->anchors, err);
	if (!st)
		st = scan_text(s, src);
	end_details(s);
	if (!st)
		st = take_words(s);
	*line_feeds = s->line - 1;
	scan_cues_end(log, file);
	scan_anchors_free(log->mem, s->anchors);
	mem_free(log->mem, s, 1, sizeof(*s));
	return st;
}
