/* Jobs for a person: the verdict with its evidence, when memory ends, the numbers of now, the time in each state. */
#include "commands/watch/watch.h"

#include "commands/out.h"

#include <stdio.h>

const char *watch_span_text(char out[32], double seconds)
{
	if (seconds < 120)
		snprintf(out, 32, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(out, 32, "%.0f min", seconds / 60);
	else
		snprintf(out, 32, "%.1f h", seconds / 3600);
	return out;
}

const char *watch_state_word(enum plim_watch_state s, char out[32])
{
	snprintf(out, 32, "%s", plim_watch_state_name(s));
	for (char *c = out; *c; c++)
		*c = *c == '_' ? '-' : *c;
	return out;
}

void watch_put_state(struct text *t, enum plim_watch_state s)
{
	char word[32];

	watch_state_word(s, word);
	for (char *c = word; *c; c++)
		*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	text_hue(t, s == PLIM_WATCH_COMPUTE_BOUND                           ? TEXT_GOOD
		    : s == PLIM_WATCH_STARTING || s == PLIM_WATCH_UNDECIDED ? TEXT_HEAD
									    : TEXT_BAD);
	text_puts(t, word);
	text_plain(t);
}

void watch_put_verdict(struct text *t, const struct plim_watch_job *j)
{
	static const char *const sure[] = { "not sure", "fairly sure", "sure" };
	const struct plim_watch_verdict *v = j->verdicts;
	char span[32];

	if (!j->verdict_count) {
		text_puts(t, "  too few samples for a verdict yet\n");
		return;
	}
	text_puts(t, "  ");
	watch_put_state(t, v->state);
	text_wrap(t, (unsigned)(2 + strlen(plim_watch_state_name(v->state))), 4,
		  ": %s (for %s; %s)", v->title, watch_span_text(span, j->last_time - v->since),
		  sure[v->confidence]);
	for (size_t i = 0; i < v->evidence_count; i++) {
		text_puts(t, "    ");
		text_wrap_name(t, 4, 6, v->evidence[i]);
	}
	for (size_t i = 0; i < v->advice_count; i++) {
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, v->advice[i]);
	}
}

void watch_put_forecasts(struct text *t, const struct plim_watch_job *j)
{
	for (size_t i = 0; i < j->forecast_count; i++) {
		const struct plim_watch_forecast *f = &j->forecasts[i];

		text_puts(t, "  ");
		if (f->confidence != PLIM_WATCH_LOW) {
			text_hue(t, TEXT_BAD);
			text_puts(t, "FILLS UP");
			text_plain(t);
			text_puts(t, ": ");
		}
		text_wrap_name(t, f->confidence == PLIM_WATCH_LOW ? 2 : 12, 4, f->title);
		for (size_t k = 0; k < f->evidence_count; k++) {
			text_puts(t, "    ");
			text_wrap_name(t, 4, 6, f->evidence[k]);
		}
	}
}

static void put_memory(struct text *t, const struct plim_watch_now *n)
{
	char used[32], total[32], own[32];

	if (n->gpu_used_bytes == PLIM_UNKNOWN) {
		text_puts(t, "memory not seen");
		return;
	}
	text_printf(t, "%s used", text_size(used, n->gpu_used_bytes));
	if (n->gpu_total_bytes != PLIM_UNKNOWN)
		text_printf(t, " of %s", text_size(total, n->gpu_total_bytes));
	if (n->gpu_job_bytes != PLIM_UNKNOWN && n->gpu_job_bytes)
		text_printf(t, ", %s by this job", text_size(own, n->gpu_job_bytes));
	if (n->allocated_bytes != PLIM_UNKNOWN)
		text_printf(t, "; PyTorch has allocated %s, reserved %s",
			    text_size(own, n->allocated_bytes), text_size(used, n->reserved_bytes));
}

static void put_gpu(struct text *t, const struct plim_watch_job *j)
{
	const struct plim_watch_now *n = &j->now;
	struct text line;

	text_puts(t, "  GPU     ");
	if (!j->gpu && n->gpu_used_bytes == PLIM_UNKNOWN && isnan(n->power_watts)) {
		text_puts(t, "not seen\n");
		return;
	}
	text_init(&line, t->mem, &t->style);
	if (j->gpu)
		text_printf(&line, "%s: ", j->gpu);
	if (!isnan(n->power_watts))
		text_printf(&line, "%.0f W, ", n->power_watts);
	put_memory(&line, n);
	text_wrap_name(t, 10, 10, text_get(&line));
	text_release(&line);
}

static void put_host(struct text *t, const struct plim_watch_job *j)
{
	const struct plim_watch_now *n = &j->now;
	char own[32], left[32];
	struct text line;

	text_init(&line, t->mem, &t->style);
	text_printf(&line, "main thread %.0f %% of a core",
		    100 * (isnan(n->main_cores) ? 0 : n->main_cores));
	if (n->worker_count)
		text_printf(&line, ", %llu workers at %.0f %% each",
			    (unsigned long long)n->worker_count,
			    100 * (isnan(n->worker_cores) ? 0 : n->worker_cores));
	if (n->resident_bytes != PLIM_UNKNOWN && n->resident_bytes)
		text_printf(&line, ", %s resident", text_size(own, n->resident_bytes));
	if (n->host_available_bytes != PLIM_UNKNOWN)
		text_printf(&line, ", %s available on the machine",
			    text_size(left, n->host_available_bytes));
	text_puts(t, "  host    ");
	text_wrap_name(t, 10, 10, text_get(&line));
	text_release(&line);
	if (n->step != PLIM_UNKNOWN) {
		text_printf(t, "  job     step %s", text_number(own, n->step));
		if (!isnan(n->loss))
			text_printf(t, ", loss %.4g", n->loss);
		if (n->phase)
			text_printf(t, ", now %s", n->phase);
		text_puts(t, "\n");
	}
}

static void put_shares(struct text *t, const struct plim_watch_job *j)
{
	double sum = 0;
	const char *between = "";
	struct text line;

	for (size_t i = 0; i < j->share_count; i++)
		sum += j->shares[i].seconds;
	/* Of one that goes on the verdict above says the same. */
	if (!(sum > 0) || (j->share_count < 2 && !j->ended))
		return;
	text_init(&line, t->mem, &t->style);
	for (size_t i = 0; i < j->share_count && i < 5; i++) {
		text_printf(&line, "%s%s %.0f %%", between,
			    plim_watch_state_name(j->shares[i].state),
			    100 * j->shares[i].seconds / sum);
		between = ", ";
	}
	text_puts(t, j->ended ? "  in all  " : "  so far  ");
	text_wrap(t, 10, 10, "%s", text_get(&line));
	text_release(&line);
}

void watch_put_numbers(struct text *t, const struct plim_watch_job *j)
{
	put_gpu(t, j);
	put_host(t, j);
	put_shares(t, j);
}

void watch_put_job(struct text *t, const struct plim_watch_job *j)
{
	char span[32];

	text_hue(t, TEXT_HEAD);
	text_name_fit(t, j->name, strlen(j->name), 50, TEXT_CUT_LEFT);
	text_plain(t);
	if (j->pid != PLIM_UNKNOWN)
		text_printf(t, " [%llu]", (unsigned long long)j->pid);
	if (j->rank != PLIM_UNKNOWN)
		text_printf(t, " rank %llu", (unsigned long long)j->rank);
	text_printf(t, "  watched for %s, %llu samples%s\n",
		    watch_span_text(span, j->last_time - j->first_time),
		    (unsigned long long)j->samples, j->ended ? "; it has ended" : "");
	watch_put_verdict(t, j);
	watch_put_forecasts(t, j);
	watch_put_numbers(t, j);
}

enum plim_status plim_watch_text(const struct plim_watch *w, const struct plim_text_style *style,
				 plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct text_style s = { style->width, style->color, style->utf8 };
	struct text t;

	text_init(&t, &w->hidden->mem, &s);
	for (size_t i = 0; i < w->job_count; i++) {
		if (i)
			text_puts(&t, "\n");
		watch_put_job(&t, &w->jobs[i]);
	}
	if (!w->job_count)
		text_puts(&t, "no job holds a GPU here\n");
	for (size_t i = 0; i < w->group_count; i++) {
		text_printf(&t, "%llu ranks: %s\n", (unsigned long long)w->groups[i].ranks,
			    w->groups[i].title);
		for (size_t k = 0; k < w->groups[i].evidence_count; k++) {
			text_puts(&t, "    ");
			text_wrap_name(&t, 4, 6, w->groups[i].evidence[k]);
		}
	}
	out_list(&t, "Notes", w->notes, w->note_count);
	return out_text(&t, write, ctx, err);
}
