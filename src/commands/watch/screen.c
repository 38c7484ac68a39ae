/*
 * A screen of text: GPUs, jobs, and what there is to say of the one that is chosen.  Lines are made as long as they come and cut at the
 * edges; nothing here knows a terminal.
 */
#include "commands/watch/watch.h"

#include "commands/out.h"

#include <stdio.h>
#include <time.h>

#define LEAST_WIDTH 60 /* narrower or lower: verdicts and GPUs alone */
#define LEAST_HEIGHT 15
#define HEAD_WIDTH 48 /* narrower: without our name */
#define WIDE 110      /* from there on a job's row has room for its host */
#define GIB 1073741824.0

/* ---- graphs ---- */

void watch_history_add(struct watch_history *h, double busy, double sm, double memory)
{
	if (!isnan(sm) && !h->of_sm)
		for (unsigned i = 0; i < h->n; i++)
			h->busy[i] = NAN;
	h->of_sm |= !isnan(sm);
	busy = h->of_sm ? sm : busy;
	if (h->n == WATCH_HISTORY && h->in_last == h->width) {
		for (unsigned i = 0; i < WATCH_HISTORY / 2; i++) {
			float a = h->busy[2 * i], b = h->busy[2 * i + 1];

			h->busy[i] = isnan(a) ? b : isnan(b) ? a : (a + b) / 2;
			h->memory[i] = h->memory[2 * i + 1];
		}
		h->n = WATCH_HISTORY / 2;
		h->width *= 2;
		h->in_last = h->width;
	}
	if (!h->n || h->in_last == h->width) {
		h->busy[h->n] = (float)busy;
		h->memory[h->n++] = (float)memory;
		h->in_last = 1;
		return;
	}
	h->in_last++;
	if (isnan(h->busy[h->n - 1]))
		h->busy[h->n - 1] = (float)busy;
	else if (!isnan(busy))
		h->busy[h->n - 1] += ((float)busy - h->busy[h->n - 1]) / (float)h->in_last;
	h->memory[h->n - 1] = (float)memory;
}

/* A row of blocks, the newest at the right; 0 to 100 percent. */
static void put_graph(struct text *t, const float *y, unsigned n, unsigned columns)
{
	static const char *const blocks[] = { "\u2581", "\u2582", "\u2583", "\u2584",
					      "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const letters[] = { "_", ".", "-", "=", "+", "*", "#", "@" };
	unsigned from = n > columns ? n - columns : 0;

	for (unsigned i = from; i < n; i++) {
		int level = isnan(y[i]) ? -1 : (int)(y[i] / 12.5f);

		level = level > 7 ? 7 : level;
		text_puts(t, level < 0 ? " " : t->style.utf8 ? blocks[level] : letters[level]);
	}
}

static void put_bar(struct text *t, double share, unsigned columns)
{
	unsigned full = share >= 1 ? columns : share > 0 ? (unsigned)(share * columns + 0.5) : 0;

	text_puts(t, "[");
	text_repeat(t, "#", full);
	text_repeat(t, ".", columns - full);
	text_puts(t, "]");
}

static void put_percent(struct text *t, const char *what, double v)
{
	if (isnan(v))
		text_printf(t, "%s   - ", what);
	else
		text_printf(t, "%s %3.0f %%", what, v);
}

/* ---- parts ---- */

/* The name of all GPUs; NULL: they differ. */
static const char *name_of_all(const struct plim_watch *w)
{
	for (size_t i = 1; i < w->card_count; i++)
		if (strcmp(w->cards[0].name, w->cards[i].name) != 0)
			return NULL;
	return w->card_count ? w->cards[0].name : NULL;
}

static void put_head(struct text *t, const struct plim_watch *w, enum plim_watch_order order)
{
	static const char *const orders[] = { [PLIM_WATCH_BY_PID] = "",
					      [PLIM_WATCH_BY_MEMORY] = " by memory",
					      [PLIM_WATCH_BY_USE] = " by use",
					      [PLIM_WATCH_BY_STATE] = " by state" };
	const struct plim_watch_hidden *h = w->hidden;
	time_t when = (time_t)h->time;
	const char *name = name_of_all(w);
	char clock[16] = "";
	struct tm tm;

	if (localtime_r(&when, &tm))
		(void)strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	if (t->style.width >= HEAD_WIDTH) {
		text_hue(t, TEXT_HEAD);
		text_puts(t, "plimsoll watch  ");
		text_plain(t);
	}
	text_printf(t, "%s  %zu job%s%s  %zu GPU%s", clock, w->job_count, text_s(w->job_count),
		    orders[order], w->card_count, text_s(w->card_count));
	if (name) {
		text_puts(t, ": ");
		text_name_fit(t, name, strlen(name), 40, TEXT_CUT_RIGHT);
	}
	text_puts(t, "\n");
}

static void put_alerts(struct text *t, const struct plim_watch *w, size_t most)
{
	for (size_t i = 0; i < w->alert_count && i < most; i++) {
		const struct plim_watch_alert *a = &w->alerts[i];
		char who[32] = "";

		if (a->pid != PLIM_UNKNOWN && w->job_count > 1)
			(void)snprintf(who, sizeof(who), "%llu: ", (unsigned long long)a->pid);
		text_hue(t, TEXT_BAD);
		text_puts(t, "! ");
		text_plain(t);
		text_puts(t, who);
		text_name_fit(t, a->title, strlen(a->title),
			      t->style.width > 2 + strlen(who)
				      ? t->style.width - 2 - (unsigned)strlen(who)
				      : 1,
			      TEXT_CUT_RIGHT);
		text_puts(t, "\n");
	}
	if (w->alert_count > most)
		text_printf(t, "! and %zu alerts more\n", w->alert_count - most);
}

/* What a GPU's line does without where it is too long, first to last. */
enum { WITHOUT_NOTHING, WITHOUT_BAR, WITHOUT_HEAT };

static void card_numbers(struct text *t, const struct plim_watch_card *c, unsigned without)
{
	put_percent(t, "busy", c->gpu_busy_percent);
	put_percent(t, "  SM", c->sm_active_percent);
	if (c->used_bytes != PLIM_UNKNOWN && c->total_bytes != PLIM_UNKNOWN) {
		text_puts(t, "  ");
		if (without < WITHOUT_BAR) {
			put_bar(t, (double)c->used_bytes / (double)c->total_bytes, 10);
			text_puts(t, " ");
		}
		text_printf(t, "%.1f of %.1f GiB", (double)c->used_bytes / GIB,
			    (double)c->total_bytes / GIB);
	}
	if (c->slowed)
		text_printf(t, "  slowed: %s", c->slowed);
	if (!isnan(c->power_watts) && !isnan(c->power_limit_watts))
		text_printf(t, "  %3.0f/%.0f W", c->power_watts, c->power_limit_watts);
	if (!isnan(c->temperature_celsius) && without < WITHOUT_HEAT)
		text_printf(t, " %2.0f C", c->temperature_celsius);
}

#define CARD_SHORTLY 34 /* columns: with the word, without the power */

/* A GPU in half a line, or less. */
static void card_shortly(struct text *t, const struct plim_watch_card *c, unsigned without)
{
	put_percent(t, "", c->gpu_busy_percent);
	put_percent(t, " SM", c->sm_active_percent);
	if (c->used_bytes != PLIM_UNKNOWN && c->total_bytes != PLIM_UNKNOWN)
		text_printf(t, " %3.0f/%.0f GiB", (double)c->used_bytes / GIB,
			    (double)c->total_bytes / GIB);
	if (c->slowed)
		text_puts(t, " slowed");
	else if (!isnan(c->power_watts) && without < WITHOUT_BAR)
		text_printf(t, " %3.0f W", c->power_watts);
}

/* A GPU in so many columns, with as much as fits; name: NULL, or of this GPU.  Gives the columns that it took. */
static unsigned put_card(struct text *t, const struct plim_watch_card *c, bool silent,
			 unsigned columns, bool shortly, const char *name)
{
	unsigned took = 0;

	for (unsigned without = WITHOUT_NOTHING; without <= WITHOUT_HEAT; without++) {
		struct text line;

		text_init(&line, t->mem, &t->style);
		text_printf(&line,
			    !shortly                  ? "GPU %-2llu "
			    : columns >= CARD_SHORTLY ? "GPU %-2llu"
						      : "%-2llu",
			    (unsigned long long)c->index);
		if (c->lost)
			text_puts(&line, shortly ? " fell off the bus" : "has fallen off the bus");
		else
			(shortly ? card_shortly : card_numbers)(&line, c, without);
		took = text_width(text_get(&line), line.n);
		if (took <= columns || without == WITHOUT_HEAT) {
			if (c->lost || silent)
				text_hue(t, c->lost ? TEXT_BAD : TEXT_DIM);
			text_puts(t, text_get(&line));
			without = WITHOUT_HEAT;
		}
		text_release(&line);
	}
	if (name && columns >= took + 10) {
		text_puts(t, "  ");
		text_name_fit(t, name, strlen(name), columns - took - 2, TEXT_CUT_RIGHT);
	}
	text_plain(t);
	return took;
}

/* Several of them in a line, where they would take too many lines. */
static size_t put_cards_shortly(struct text *t, const struct plim_watch *w, bool silent,
				size_t lines)
{
	size_t i = 0, each = t->style.width / 30 ? t->style.width / 30 : 1;
	unsigned columns;

	while (each > 1 && (w->card_count + each - 2) / (each - 1) <= lines)
		each--;
	columns = t->style.width / (unsigned)each;
	for (; i < w->card_count && i < lines * each; i++) {
		unsigned took = put_card(t, &w->cards[i], silent, columns - 1, true, NULL);

		if ((i + 1) % each == 0 || i + 1 == w->card_count || i + 1 == lines * each)
			text_puts(t, "\n");
		else
			text_repeat(t, " ", took < columns ? columns - took : 1);
	}
	return i;
}

static void put_cards(struct text *t, const struct plim_watch *w, size_t most)
{
	bool silent = w->driver_silent_seconds >= 2, alike = name_of_all(w) != NULL;
	size_t i = 0;

	if (silent) {
		text_hue(t, TEXT_BAD);
		text_printf(t, "the GPU's driver has not answered for %.0f s",
			    w->driver_silent_seconds);
		text_plain(t);
		text_puts(t, w->card_count ? "; the numbers below are its last ones\n" : "\n");
	}
	if (w->card_count > most)
		i = put_cards_shortly(t, w, silent, most);
	else
		for (; i < w->card_count; i++) {
			(void)put_card(t, &w->cards[i], silent, t->style.width, false,
				       alike ? NULL : w->cards[i].name);
			text_puts(t, "\n");
		}
	if (i < w->card_count)
		text_printf(t, "and %zu GPU%s more\n", w->card_count - i,
			    text_s(w->card_count - i));
}

/* Columns of the table of jobs, by how wide the screen is. */
struct row_form {
	unsigned name;
	bool ranks, memory, host;
};

static struct row_form form_of(const struct plim_watch *w, unsigned width)
{
	struct row_form f = { width >= 160  ? 40
			      : width >= 96 ? 24
			      : width >= 72 ? 16
					    : 13,
			      false, width >= 72, width >= WIDE };

	for (size_t i = 0; i < w->job_count; i++)
		f.ranks |= w->jobs[i].rank != PLIM_UNKNOWN;
	return f;
}

#define STATE_COLUMNS 13 /* the longest one */

/* How long it will go on, where that is known; else how long it has. */
static void put_time(struct text *t, const struct plim_watch_job *j, unsigned columns)
{
	char low[32], high[32], whole[96];
	const struct plim_watch_forecast *f = j->forecasts;
	bool alike;

	if (!j->forecast_count || f->confidence == PLIM_WATCH_LOW) {
		text_puts(t, watch_span_text(low, j->last_time - j->verdicts->since));
		return;
	}
	(void)watch_span_text(low, (double)f->seconds_range.low);
	(void)watch_span_text(high, (double)f->seconds_range.high);
	alike = !strcmp(low + strcspn(low, " "), high + strcspn(high, " ")); /* their units */
	(void)snprintf(whole, sizeof(whole), "full in %.*s to %s",
		       (int)(alike ? strcspn(low, " ") : strlen(low)), low, high);
	text_hue(t, TEXT_BAD);
	if (strlen(whole) <= columns)
		text_puts(t, whole);
	else
		text_printf(t, "full in %s", low);
	text_plain(t);
}

static void put_row_head(struct text *t, const struct row_form *f)
{
	text_hue(t, TEXT_DIM);
	text_printf(t, "      pid %-*s%s   use%s%s  state\n", (int)f->name, "name",
		    f->ranks ? " rank" : "", f->memory ? "     memory" : "",
		    f->host ? "    on host  cores" : "");
	text_plain(t);
}

/* What the job takes of the host: resident memory, and cores of all of its processes. */
static void put_on_host(struct text *t, const struct plim_watch_job *j)
{
	double cores = j->process_count ? 0 : NAN;
	char size[32];

	for (size_t i = 0; i < j->process_count; i++)
		cores += isnan(j->processes[i].cores) ? 0 : j->processes[i].cores;
	text_printf(t, " %10s", text_size(size, j->now.resident_bytes));
	if (isnan(cores))
		text_puts(t, "      -");
	else
		text_printf(t, " %6.1f", cores);
}

static void put_watch_screen_row(struct text *t, const struct plim_watch_job *j,
				 const struct row_form *f, bool chosen)
{
	unsigned before = 10 + f->name + (f->ranks ? 5 : 0) + 6 + (f->memory ? 11 : 0) +
			  (f->host ? 18 : 0) + 2,
		 n;
	struct text name;
	char size[32], word[32];

	text_puts(t, chosen ? "> " : "  ");
	if (j->pid == PLIM_UNKNOWN)
		text_puts(t, "      - ");
	else
		text_printf(t, "%7llu ", (unsigned long long)j->pid);
	text_init(&name, t->mem, &t->style);
	text_name_fit(&name, j->name, strlen(j->name), f->name, TEXT_CUT_LEFT);
	n = text_width(text_get(&name), name.n);
	text_puts(t, text_get(&name));
	text_repeat(t, " ", n < f->name ? f->name - n : 0);
	text_release(&name);
	if (j->rank != PLIM_UNKNOWN)
		text_printf(t, " r%-3llu", (unsigned long long)j->rank);
	else if (f->ranks)
		text_puts(t, "     ");
	put_percent(t, "",
		    isnan(j->now.sm_active_percent) ? j->now.gpu_busy_percent
						    : j->now.sm_active_percent);
	if (f->memory)
		text_printf(t, " %10s", text_size(size, j->now.gpu_job_bytes));
	if (f->host)
		put_on_host(t, j);
	text_puts(t, "  ");
	if (j->ended) {
		text_puts(t, "ended");
	} else if (!j->verdict_count) {
		text_puts(t, "looking");
	} else {
		watch_put_state(t, j->verdicts->state);
		n = (unsigned)strlen(watch_state_word(j->verdicts->state, word));
		text_repeat(t, " ", n < STATE_COLUMNS ? STATE_COLUMNS + 1 - n : 1);
		n = before + STATE_COLUMNS + 1;
		put_time(t, j, t->style.width > n ? t->style.width - n : 0);
	}
	text_puts(t, "\n");
}

static void put_graphs(struct text *t, const struct watch_known *k)
{
	unsigned columns = t->style.width > 40 ? t->style.width - 20 : 20;
	const struct watch_history *h = &k->history;
	double seconds = h->n * h->width * h->every_s;
	char span[32];

	if (h->n < 2)
		return;
	if (h->n > columns)
		seconds = columns * h->width * h->every_s;
	(void)watch_span_text(span, seconds);
	text_printf(t, "  %-8s", h->of_sm ? "SM" : "busy");
	put_graph(t, h->busy, h->n, columns);
	text_printf(t, "  %s\n  memory  ", span);
	put_graph(t, h->memory, h->n, columns);
	text_puts(t, "\n");
}

static size_t lines_of(const char *body)
{
	size_t n = 0;

	for (; *body; body++)
		n += *body == '\n';
	return n;
}

/* In that many lines, with the head. */
static void put_processes(struct text *t, const struct plim_watch_job *j, size_t lines)
{
	size_t n = j->process_count < lines ? j->process_count : lines - 2;
	static const char *const heads[] = { "pid",    "what",  "state",    "core",
					     "memory", "reads", "sleeps in" };
	struct text_table table;

	text_table_init(&table, t, "rllrrrl", TEXT_CUT_RIGHT);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		text_cell_printf(&table, "%s", heads[i]);
	for (size_t i = 0; i < n; i++) {
		const struct plim_watch_process *p = &j->processes[i];

		text_cell_printf(&table, "%llu", (unsigned long long)p->pid);
		text_cell_printf(&table, "%s", p->what);
		text_cell_name(&table, p->state, strlen(p->state));
		if (isnan(p->cores))
			text_cell_printf(&table, "-");
		else
			text_cell_printf(&table, "%.0f %%", 100 * p->cores);
		text_cell_bytes(&table, p->resident_bytes);
		if (isnan(p->read_bytes_per_second))
			text_cell_printf(&table, "-");
		else
			text_cell_printf(&table, "%.0f MB/s", p->read_bytes_per_second / 1e6);
		text_cell_name(&table, p->sleeps_in ? p->sleeps_in : "-",
			       p->sleeps_in ? strlen(p->sleeps_in) : 1);
	}
	text_table_write(t, &table, 2);
	text_table_release(&table);
	if (n < j->process_count)
		text_printf(t, "  and %zu process%s more: d\n", j->process_count - n,
			    j->process_count - n == 1 ? "" : "es");
}

static void put_help(struct text *t)
{
	text_puts(t, "\n  arrows, j k     choose a job\n"
		     "  Enter, d        the job with its processes, and back\n"
		     "  e               all the evidence\n"
		     "  s               sort: process, memory, use, state\n"
		     "  r               ask the job for a recording (a job under plimsoll record)\n"
		     "  T               end the job (SIGTERM), after a question\n"
		     "  PgUp, PgDn      further up and down\n"
		     "  h, ?            this page, and back\n"
		     "  q               quit\n\n");
	text_puts(t, "  ");
	text_wrap(t, 2, 2,
		  "busy is the share of time with any kernel at all; SM is the share of the GPU's "
		  "multiprocessors that work, which only Hopper and later report.");
}

/* ---- which job ---- */

static double watch_screen_key_of(const struct plim_watch_job *j, enum plim_watch_order order)
{
	switch (order) {
	case PLIM_WATCH_BY_MEMORY:
		return j->now.gpu_job_bytes == PLIM_UNKNOWN ? 1 : -(double)j->now.gpu_job_bytes;
	case PLIM_WATCH_BY_USE:
		return isnan(j->now.gpu_busy_percent) ? 1 : -j->now.gpu_busy_percent;
	case PLIM_WATCH_BY_STATE:
		return !j->verdict_count || j->verdicts->state == PLIM_WATCH_COMPUTE_BOUND
			       ? 0
			       : -(double)j->verdicts->state;
	case PLIM_WATCH_BY_PID:
	default: return (double)j->pid;
	}
}

#define ORDERED 320 /* jobs: a replay has 256 at most */

/* Indices of the jobs in that order; those that ended stand last. */
static size_t order_jobs(const struct plim_watch *w, enum plim_watch_order order,
			 size_t out[ORDERED])
{
	size_t n = 0;

	for (size_t i = 0; i < w->job_count && n < ORDERED; i++) {
		const struct plim_watch_job *j = &w->jobs[i];
		size_t at = n++;

		for (; at; at--) {
			const struct plim_watch_job *before = &w->jobs[out[at - 1]];

			if (before->ended < j->ended ||
			    (before->ended == j->ended &&
			     watch_screen_key_of(before, order) <= watch_screen_key_of(j, order)))
				break;
			out[at] = out[at - 1];
		}
		out[at] = i;
	}
	return n;
}

static size_t watch_screen_place_of(const struct plim_watch *w, const size_t *order, size_t n,
				    uint64_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (w->jobs[order[i]].pid == pid)
			return i;
	return 0;
}

uint64_t plim_watch_beside(const struct plim_watch *w, enum plim_watch_order order, uint64_t pid,
			   int64_t by)
{
	size_t at[ORDERED], n = order_jobs(w, order, at);
	int64_t place;

	if (!n)
		return PLIM_UNKNOWN;
	place = (int64_t)watch_screen_place_of(w, at, n, pid) + (pid == PLIM_UNKNOWN ? 0 : by);
	place = place < 0 ? 0 : place >= (int64_t)n ? (int64_t)n - 1 : place;
	return w->jobs[at[place]].pid;
}

/* ---- pages ---- */

static const struct watch_known *known_of(const struct plim_watch *w,
					  const struct plim_watch_job *j)
{
	for (size_t i = 0; i < w->hidden->jobs.n; i++)
		if (w->hidden->jobs.at[i].pid == j->pid &&
		    w->hidden->jobs.at[i].job->first_time == j->first_time)
			return &w->hidden->jobs.at[i];
	return NULL;
}

static void put_chosen(struct text *t, const struct plim_watch *w, const struct plim_watch_job *j)
{
	const struct watch_known *k = known_of(w, j);

	text_hue(t, TEXT_HEAD);
	text_name_fit(t, j->name, strlen(j->name), 40, TEXT_CUT_LEFT);
	text_plain(t);
	text_printf(t, " [%llu]%s\n", (unsigned long long)j->pid, j->ended ? " has ended" : "");
	watch_put_verdict(t, j);
	watch_put_forecasts(t, j);
	if (k)
		put_graphs(t, k);
	watch_put_numbers(t, j);
}

static void put_groups(struct text *t, const struct plim_watch *w)
{
	for (size_t i = 0; i < w->group_count; i++) {
		if (w->groups[i].late_pid == PLIM_UNKNOWN)
			continue;
		text_hue(t, TEXT_BAD);
		text_puts(t, "! ");
		text_plain(t);
		text_wrap_name(t, 2, 2, w->groups[i].title);
	}
}

/* Jobs above, so many that the chosen one is among them; below what is said of it. */
static void put_jobs(struct text *t, const struct plim_watch *w, const struct plim_watch_view *v,
		     bool small)
{
	size_t order[ORDERED] = { 0 }, n = order_jobs(w, v->order, order);
	size_t most = v->height / 3 > 2 ? v->height / 3 : 2, chosen, from, taken;
	struct row_form form = form_of(w, t->style.width);

	chosen = watch_screen_place_of(w, order, n, v->pid);
	put_alerts(t, w, small ? 1 : 3);
	put_cards(t, w, small ? 1 : v->height / 4);
	put_groups(t, w);
	from = chosen >= most ? chosen - most + 1 : 0;
	if (n && !small)
		put_row_head(t, &form);
	for (size_t i = from; i < n && i < from + most; i++)
		put_watch_screen_row(t, &w->jobs[order[i]], &form, i == chosen);
	if (n > from + most)
		text_printf(t, "  and %zu job%s more\n", n - from - most, text_s(n - from - most));
	if (!n)
		text_puts(t, "no job holds a GPU here\n");
	for (size_t i = 0; i < w->note_count && !small; i++)
		text_wrap_name(t, 0, 2, w->notes[i]);
	if (n)
		put_chosen(t, w, &w->jobs[order[chosen]]);
	taken = lines_of(text_get(t)) + 2;         /* and the head and the foot */
	if (n && !small && v->height >= taken + 3) /* a head without rows says nothing */
		put_processes(t, &w->jobs[order[chosen]], v->height - taken);
}

static void put_page(struct text *t, const struct plim_watch *w, const struct plim_watch_view *v)
{
	size_t order[ORDERED], n = order_jobs(w, v->order, order);
	const struct plim_watch_job *j =
		n ? &w->jobs[order[watch_screen_place_of(w, order, n, v->pid)]] : NULL;
	bool small = v->width < LEAST_WIDTH || v->height < LEAST_HEIGHT;

	/* Without a job the pages of one show what there is else. */
	switch (j || v->page == PLIM_WATCH_PAGE_HELP ? v->page : PLIM_WATCH_PAGE_JOBS) {
	case PLIM_WATCH_PAGE_HELP: put_help(t); break;
	case PLIM_WATCH_PAGE_JOB:
		put_chosen(t, w, j);
		put_processes(t, j, SIZE_MAX);
		break;
	case PLIM_WATCH_PAGE_EVIDENCE:
		watch_put_job(t, j);
		out_list(t, "Notes", w->notes, w->note_count);
		break;
	case PLIM_WATCH_PAGE_JOBS:
	default: put_jobs(t, w, v, small); break;
	}
}

/* ---- edges ---- */

/* Bytes of a line that fit; a sequence of colours takes no column. */
static size_t fitting(const char *line, size_t n, unsigned columns)
{
	size_t at = 0, last = 0;

	while (at < n) {
		size_t next = at + 1;

		if (line[at] == '\033')
			while (next < n && line[next - 1] != 'm')
				next++;
		else
			while (next < n && ((unsigned char)line[next] & 0xc0) == 0x80)
				next++;
		if (text_width(line, next) > columns)
			break;
		at = last = next;
	}
	return last;
}

/* Lines `from` and on of `body`, `lines` of them at most, cut at the right edge. */
static void put_lines(struct text *t, const char *body, uint64_t from, size_t lines)
{
	for (; *body && lines; from = from ? from - 1 : 0) {
		size_t n = strcspn(body, "\n");

		if (!from) {
			text_put(t, body, fitting(body, n, t->style.width));
			text_plain(t);
			text_puts(t, "\n");
			lines--;
		}
		body += n + (body[n] == '\n');
	}
	text_repeat(t, "\n", (unsigned)lines);
}

static void put_foot(struct text *t, const struct plim_watch_view *v)
{
	/* The longest that fits; the last way out is the page that shows all keys. */
	static const char *const keys[] = {
		"q quit  arrows choose  d job  e evidence  s sort  T end it  ? help",
		"q quit  arrows choose  d job  e evidence  s sort  ? help",
		"q quit  d job  e evidence  s sort  ? help", "q quit  d job  ? help", "q  ?"
	};
	const char *words = v->message;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !words; i++)
		if (strlen(keys[i]) <= t->style.width || i + 1 == sizeof(keys) / sizeof(keys[0]))
			words = keys[i];
	if (!v->message)
		text_hue(t, TEXT_DIM);
	text_name_fit(t, words, strlen(words), t->style.width, TEXT_CUT_RIGHT);
	if (!v->message)
		text_plain(t);
}

enum plim_status plim_watch_screen(const struct plim_watch *w, const struct plim_watch_view *v,
				   plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style style = { v->width > 1 ? v->width : 1, v->color, v->utf8 };
	struct text body, out;
	uint64_t from = v->page == PLIM_WATCH_PAGE_JOB || v->page == PLIM_WATCH_PAGE_EVIDENCE
				? v->first_line
				: 0;
	enum plim_status st;

	text_init(&body, &w->hidden->mem, &style);
	text_init(&out, &w->hidden->mem, &style);
	put_page(&body, w, v);
	st = text_status(&body, err);
	if (!st) {
		size_t all = lines_of(text_get(&body)), room = v->height > 3 ? v->height - 3 : 0;
		struct text head;

		if (from > (all > room ? all - room : 0))
			from = all > room ? all - room : 0;

		text_init(&head, &w->hidden->mem, &style);
		put_head(&head, w, v->order);
		if (v->height > 2)
			put_lines(&out, text_get(&head), 0, 1);
		if (v->height > 1)
			put_lines(&out, text_get(&body), from, v->height - (v->height > 2 ? 2 : 1));
		put_foot(&out, v);
		st = text_status(&head, err);
		text_release(&head);
	}
	text_release(&body);
	if (st) {
		text_release(&out);
		return st;
	}
	return out_text(&out, write, ctx, err);
}
