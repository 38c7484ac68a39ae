/* Findings in words: what happened, the numbers that show it, what to do.  One function an id. */
#include "parts.h"

#include <stdio.h>

const char *series_step_text(char *buffer, double step)
{
	if (isnan(step))
		return "?";
	if (fabs(step) < 1e15 && step == floor(step)) {
		char number[32];

		snprintf(buffer, 32, "%s%s", step < 0 ? "-" : "",
			 text_number(number, (uint64_t)fabs(step)));
	} else {
		snprintf(buffer, 32, "%.4g", step);
	}
	return buffer;
}

const char *series_value_text(char *buffer, double value)
{
	if (isnan(value))
		return "NaN";
	if (isinf(value))
		return value < 0 ? "-Inf" : "Inf";
	snprintf(buffer, 32, "%.4g", value);
	return buffer;
}

#define S(step) series_step_text((char[32]){ 0 }, step)
#define V(value) series_value_text((char[32]){ 0 }, value)

#define TITLE(...) snprintf(w->title, sizeof(w->title), __VA_ARGS__)
#define SHOW(...)                                                                          \
	do {                                                                               \
		if (w->evidence_count < SERIES_LINES)                                      \
			snprintf(w->evidence[w->evidence_count++], sizeof(w->evidence[0]), \
				 __VA_ARGS__);                                             \
	} while (0)
#define FIX(...)                                                                          \
	do {                                                                              \
		if (w->fix_count < SERIES_LINES)                                          \
			snprintf(w->fix[w->fix_count++], sizeof(w->fix[0]), __VA_ARGS__); \
	} while (0)

static const struct series_watch *with_role(const struct series_monitor *m, enum plim_role role)
{
	for (size_t i = 0; i < m->watches.n; i++)
		if (m->watches.at[i].role == role && m->watches.at[i].points)
			return &m->watches.at[i];
	return NULL;
}

static void fix_nan(const struct series_monitor *m, const struct series_finding *f,
		    struct series_words *w)
{
	bool early = m->watches.at[f->series].finite < 20;

	if (with_role(m, PLIM_ROLE_LOSS_SCALE))
		FIX("train in bf16 if the GPU can: its range is that of fp32, and no loss scale "
		    "is needed");
	if (f->step > m->watches.at[f->series].first_step)
		FIX("go back to a checkpoint before step %s and skip the batches around it; "
		    "weights that have met NaN do not recover",
		    S(f->step));
	else
		FIX("look at the first batch, at the loss that is computed of it, and at the "
		    "weights that were loaded: there was no finite loss to go back to");
	FIX(early ? "lower the learning rate or warm up longer: it died within its first steps"
		  : "clip gradients (max_norm=1.0) with error_if_nonfinite=True, so that the first "
		    "bad step "
		    "raises instead of spreading");
	FIX("find the operation with torch.autograd.set_detect_anomaly(True) on that batch");
}

static void tell_finite(const struct series_monitor *m, const struct series_finding *f,
			struct series_words *w)
{
	const struct series_watch *s = &m->watches.at[f->series];
	const char *what = f->id == PLIM_CURVES_NAN ? "NaN" : "infinite";
	const char *name = series_told_name(m, f->series);

	if (f->kind == 1) {
		TITLE("'%.80s' is 0 from step %s on because the losses are NaN", name, S(f->step));
		SHOW("the loss before was %s; a loss of exactly 0, %u times in a row, is what the "
		     "Trainer's "
		     "logging_nan_inf_filter leaves of NaN",
		     V(f->number[0]), s->zero_run);
		if (f->other != SERIES_NONE)
			SHOW("'%.80s' is not finite in the same steps",
			     series_told_name(m, f->other));
		FIX("set logging_nan_inf_filter=False to see it as it happens");
		fix_nan(m, f, w);
		return;
	}
	TITLE("'%.80s' is %s at step %s%s", name, what, S(f->step),
	      isnan(f->end) ? ", and stays so" : "");
	if (!isnan(f->number[0]))
		SHOW("the value before was %s at step %s", V(f->number[0]), S(f->number[1]));
	else
		SHOW("it was never a finite number");
	SHOW("%llu of %llu values are not finite", (unsigned long long)s->non_finite,
	     (unsigned long long)s->points);
	if (!isnan(f->end))
		SHOW("it is finite again from step %s on", S(f->end));
	if (s->role == PLIM_ROLE_METRIC || s->role == PLIM_ROLE_ERROR)
		FIX("check how it is computed: a metric is NaN if it divides by a count of 0");
	else
		fix_nan(m, f, w);
}

static void tell_spike(const struct series_monitor *m, const struct series_finding *f,
		       struct series_words *w)
{
	bool bump = f->kind == 2, back = !isnan(f->end);

	TITLE("'%.80s' %s from %s to %s at step %s%s", series_told_name(m, f->series),
	      bump ? "rises" : "jumps", V(f->number[1]), V(f->number[0]), S(f->step),
	      back           ? ", and comes back"
	      : f->kind == 1 ? " and stays up"
			     : "");
	if (bump)
		SHOW("over %s values it is %.2f times the line through those around them: %.1f "
		     "standard "
		     "errors (rule: over 5.5)",
		     S(f->number[3]), f->number[5], f->number[2]);
	else
		SHOW("that is %.1f times what the noise of the values before explains (rule: over "
		     "6 "
		     "for one value, 5.5 for the mean of eight)",
		     f->number[2]);
	if (back)
		SHOW("it is back within the spread at step %s", S(f->end));
	else
		SHOW("it has not come back in the %s values since", S(f->number[3]));
	if (!back)
		FIX("restart some 100 steps before step %s and skip 200 to 500 batches: in PaLM's "
		    "runs the same data did not spike again elsewhere",
		    S(f->step));
	FIX("lower the learning rate, lengthen the warm-up, or lower Adam's beta2 to 0.95 if it "
	    "comes again");
}

static void tell_diverged(const struct series_monitor *m, const struct series_finding *f,
			  struct series_words *w)
{
	TITLE("'%.80s' rises from %s to %s after step %s%s", series_told_name(m, f->series),
	      V(f->number[1]), V(f->number[0]), S(f->step),
	      isnan(f->end) ? "" : ", and comes back");
	SHOW("the mean of the latest parts of the log is %.2f times the lowest such mean (rule: "
	     "over "
	     "1.2, and over 6 standard errors)",
	     f->number[1] > 0 ? f->number[0] / f->number[1] : NAN);
	SHOW("it could be said at step %s", S(f->detected));
	if (!isnan(f->end))
		SHOW("from step %s on it is lower again", S(f->end));
	FIX("go back to a checkpoint before step %s and lower the learning rate", S(f->step));
	FIX("look for a change of the data at that step: order, a new shard, labels");
}

static void tell_explosion(const struct series_monitor *m, const struct series_finding *f,
			   struct series_words *w)
{
	TITLE("gradients grow to %s at step %s%s", V(f->number[0]), S(f->step),
	      f->kind == 1 ? ", before the loss is lost" : "");
	SHOW("the median of '%.80s' before is %s", series_told_name(m, f->series), V(f->number[1]));
	if (f->other != SERIES_NONE)
		SHOW("'%.80s' breaks within the next logs (see there)",
		     series_told_name(m, f->other));
	if (!isnan(f->end))
		SHOW("they are back at step %s", S(f->end));
	FIX("clip at about the median: torch.nn.utils.clip_grad_norm_(..., max_norm=%s)",
	    V(f->number[1]));
	FIX("keep the batches of these steps: one of them may be the cause");
}

static void tell_overfit(const struct series_monitor *m, const struct series_finding *f,
			 struct series_words *w)
{
	const struct series_watch *own = &m->watches.at[f->series];
	const char *name = series_told_name(m, f->series);
	bool falls = own->role == PLIM_ROLE_METRIC;
	double best = series_best_step(own), later;
	uint32_t other = series_better_later(m, f->series, best, &later);

	if (isnan(f->end))
		TITLE("'%.80s' is best at step %s (%s) and has %s to %s since", name, S(best),
		      V(series_best_value(own)), falls ? "fallen" : "risen", V(f->number[0]));
	else
		TITLE("'%.80s' %s from %s to %s after step %s, and comes back", name,
		      falls ? "falls" : "rises", V(f->number[1]), V(f->number[0]), S(f->step));
	SHOW("it could be said at step %s, %s evaluations after it began at step %s",
	     S(f->detected), S(f->number[3]), S(f->step));
	if (f->kind == 0 && f->other != SERIES_NONE)
		SHOW("'%.80s' goes on falling: %s when it began, %s then",
		     series_told_name(m, f->other), V(f->number[4]), V(f->number[5]));
	else if (f->kind == 2 && f->other != SERIES_NONE)
		SHOW("'%.80s' does not rise with it: %s when it began, %s then",
		     series_told_name(m, f->other), V(f->number[4]), V(f->number[5]));
	else
		SHOW("no training loss is logged next to it, so this may also be divergence");
	if (m->watches.at[f->series].course == SERIES_BY_COURSE)
		SHOW("its name does not say which way is better: it %s while the training loss "
		     "fell at first",
		     falls ? "rose" : "fell");
	if (!isnan(f->end))
		SHOW("at step %s it came back", S(f->end));
	if (other != SERIES_NONE)
		SHOW("'%.80s' is best later, at step %s: if that is what counts, go by it",
		     series_told_name(m, other), S(later));
	if (other != SERIES_NONE)
		FIX("keep the weights of step %s, or those of step %s if '%.80s' counts", S(best),
		    S(later), series_told_name(m, other));
	else
		FIX("keep the weights of step %s", S(best));
	FIX("stop there next time: early stopping with a patience of 3 to 5 evaluations");
	FIX("more data or augmentation, weight decay, dropout, a smaller model, or fewer epochs");
}

static void tell_collapse(const struct series_monitor *m, const struct series_finding *f,
			  struct series_words *w)
{
	const struct series_watch *own = &m->watches.at[f->series];
	const char *name = series_told_name(m, f->series);
	bool training = own->role == PLIM_ROLE_TRAIN_LOSS;
	const char *what = training ? "value" : "evaluation";

	switch (f->kind) {
	case 0:
		TITLE("generalisation gap: '%.80s' is %.1f times the training loss at step %s",
		      name, f->number[2] > 0 ? f->number[0] / f->number[2] : NAN, S(f->detected));
		SHOW("%s against %s; its best is %s at step %s", V(f->number[0]), V(f->number[2]),
		     V(series_best_value(own)), S(series_best_step(own)));
		if (!isnan(f->end))
			SHOW("at step %s it came back", S(f->end));
		FIX("go back to step %s", S(series_best_step(own)));
		FIX("check that training and validation data are of one kind, and dropout and "
		    "label "
		    "smoothing are off in both losses or in none");
		break;
	case 1:
		TITLE("'%.80s' falls from %s to %s at step %s", name, V(f->number[1]),
		      V(f->number[0]), S(f->step));
		SHOW("it began at %s: over 60 %% of what was gained is lost, for three evaluations",
		     V(f->number[3]));
		FIX("go back to a checkpoint before step %s", S(f->step));
		break;
	case 2:
		if (isnan(f->end))
			TITLE("'%.80s' is exactly %s in every %s", name, V(f->number[0]), what);
		else
			TITLE("'%.80s' is exactly %s in every %s before step %s", name,
			      V(f->number[0]), what, S(f->end));
		if (training)
			SHOW("%s values; a training that changes no weight does that",
			     S((double)own->finite));
		else if (isnan(f->end))
			SHOW("%s evaluations; a model that always predicts one class does that",
			     S((double)own->finite));
		else
			SHOW("a model that always predicts one class does that");
		if (training)
			FIX("see that the optimizer has the model's parameters, that its step is "
			    "called, and that the learning rate is not 0");
		else
			FIX("count the predicted classes, and check labels and learning rate");
		break;
	case 4:
		TITLE("'%.80s' is exactly 0 in %s of %s values", name, S(f->number[0]),
		      S(f->number[1]));
		SHOW("the first is at step %s; a loss of 0 has no gradient", S(f->step));
		FIX("check the data: the model may have memorised it, or all labels may be masked "
		    "(-100)");
		FIX("log more digits if it was rounded, and see that it is the loss that is "
		    "logged");
		break;
	case 5:
		TITLE("'%.80s' is %.1f times '%.80s' from the start", series_told_name(m, f->other),
		      f->number[3], name);
		SHOW("the first training loss, %s, is %s times ln(%s): that of %s classes before "
		     "anything is learned, added up over %s batches",
		     V(f->number[0]), S(f->number[1]), S(f->number[2]), S(f->number[2]),
		     S(f->number[1]));
		FIX("see that the loss of each batch is divided by the accumulation steps (%s): "
		    "else "
		    "the gradient is as many times too large",
		    S(f->number[1]));
		break;
	default:
		TITLE("'%.80s' fell below a tenth of its start at step %s", name, S(f->step));
		SHOW("%s, from %s", V(f->number[0]), V(f->number[1]));
		FIX("raise the entropy bonus or the KL penalty, or lower the learning rate");
	}
}

static void tell_plateau(const struct series_monitor *m, const struct series_finding *f,
			 struct series_words *w)
{
	const char *name = series_told_name(m, f->series);

	if (f->kind == 1)
		TITLE("'%.80s' does not fall: %s at first, %s at step %s", name, V(f->number[4]),
		      V(f->number[0]), S(f->detected));
	else
		TITLE("'%.80s' does not improve between steps %s and %s", name, S(f->step),
		      S(f->detected));
	SHOW("the change over the last fifth is %.2f %%%s", -100 * f->number[1],
	     f->kind == 1 ? "" : ", less than its noise explains");
	if (!isnan(f->number[3]))
		SHOW("the learning rate is at %.0f %% of its largest", 100 * f->number[3]);
	if (!isnan(f->end))
		SHOW("at step %s it fell again", S(f->end));
	if (f->kind == 1)
		FIX("check that parameters are in the optimizer and require gradients, and that "
		    "labels "
		    "belong to inputs; try ten times the learning rate and a tenth");
	else
		FIX("lower the learning rate (or let it decay): the remaining gain is below its "
		    "noise; or stop");
}

static void tell_skips(const struct series_monitor *m, const struct series_finding *f,
		       struct series_words *w)
{
	const char *name = series_told_name(m, f->series);

	if (f->kind == 0)
		TITLE("the GradScaler skips %.0f %% of the steps from step %s on",
		      100 * f->number[0], S(f->step));
	else if (f->kind == 1)
		TITLE("'%.80s' falls below 1 at step %s", name, S(f->detected));
	else
		TITLE("'%.80s' was halved %s times since step %s without one recovery", name,
		      S(f->number[0]), S(f->step));
	SHOW("a skipped step changes no weights; one in some 2000 is how the scaler works");
	if (f->kind)
		SHOW("so small a scale cannot be overflow: the values themselves are NaN or "
		     "infinite");
	FIX("train in bf16, or keep the part that overflows in fp32");
	FIX("clip gradients after scaler.unscale_(optimizer)");
}

static void tell_memory(const struct series_monitor *m, const struct series_finding *f,
			struct series_words *w)
{
	double steps = f->number[2] - f->number[4];

	TITLE("'%.80s' grows from %s to %s between steps %s and %s", series_told_name(m, f->series),
	      V(f->number[1]), V(f->number[0]), S(f->number[4]), S(f->number[2]));
	if (steps > 0)
		SHOW("that is %s every 1,000 steps; the smallest values of six parts rise one "
		     "after the "
		     "other",
		     V(1000 * (f->number[0] - f->number[1]) / steps));
	FIX("record it and see which line keeps it: plimsoll record, then plimsoll report");
	FIX("look for losses or outputs that are kept in a list without .item() or .detach()");
}

static void tell_rate(const struct series_monitor *m, const struct series_finding *f,
		      struct series_words *w)
{
	const char *name = series_told_name(m, f->series);

	if (f->kind == 1) {
		TITLE("'%.80s' is negative (%s) at step %s", name, V(f->number[0]), S(f->step));
		SHOW("training climbs instead of descending from there on");
		FIX("the schedule has fewer steps than the training: set its total to max_steps");
		return;
	}
	TITLE("'%.80s' is 0 from step %s on while training goes on", name, S(f->step));
	SHOW("five logs in a row; nothing is learned from there");
	if (!isnan(f->number[1]))
		SHOW("the last value of all is %s", V(m->watches.at[f->series].last));
	FIX("the schedule has fewer steps than the training: set its total to max_steps (count "
	    "optimizer "
	    "steps, not batches)");
}

static void tell_none(const struct series_monitor *m, const struct series_finding *f,
		      struct series_words *w)
{
	(void)m;
	(void)f;
	TITLE("see the notes");
}

void series_tell(const struct series_monitor *m, const struct series_finding *f,
		 struct series_words *out)
{
	static void (*const tellers[])(const struct series_monitor *, const struct series_finding *,
				       struct series_words *) = {
		[PLIM_CURVES_NAN] = tell_finite,          [PLIM_CURVES_INF] = tell_finite,
		[PLIM_CURVES_SPIKE] = tell_spike,         [PLIM_CURVES_DIVERGED] = tell_diverged,
		[PLIM_CURVES_EXPLOSION] = tell_explosion, [PLIM_CURVES_OVERFIT] = tell_overfit,
		[PLIM_CURVES_COLLAPSE] = tell_collapse,   [PLIM_CURVES_PLATEAU] = tell_plateau,
		[PLIM_CURVES_EARLY_STOP] = tell_none,     [PLIM_CURVES_SCALER_SKIPS] = tell_skips,
		[PLIM_CURVES_MEMORY_CREEP] = tell_memory, [PLIM_CURVES_LEARNING_RATE] = tell_rate,
		[PLIM_CURVES_LOG_DAMAGE] = tell_none,
	};

	out->evidence_count = out->fix_count = 0;
	out->title[0] = 0;
	tellers[f->id](m, f, out);
	if (f->against && out->evidence_count < SERIES_LINES)
		snprintf(out->evidence[out->evidence_count++], sizeof(out->evidence[0]),
			 m->watches.at[f->other].course == SERIES_PLAYED
				 ? "training maximises '%.80s': the loss next to it need not fall"
				 : "'%.80s' plays against it: one rises because the other falls",
			 series_told_name(m, f->other));
}
