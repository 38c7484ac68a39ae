/*
 * A run: values of its files go, in order, to the monitor and into thinned curves.
 *
 * Where the step of a series falls, training was resumed from an earlier checkpoint and what was logged
 * from there on is void.  That is known only when it has been read, so the files are then read again, and what is void
 * is set aside (`obey`).  Memory stays bounded, and the common log is read once.
 */
#include "parts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define CUTS_MAX 64  /* resumes of one series; beyond that its steps mean something else */
#define ROUNDS_MAX 8 /* of reading again */

const char *const series_kind_names[] = { "unknown", "trainer_state", "tensorboard", "csv",
					  "json",    "wandb",         "mlflow",      "text" };

void series_row_restart(struct series_run *r)
{
	r->last_epoch = r->epoch_first = r->step_epoch = r->last_row_step = NAN;
	r->clock_first = r->clock_most = r->clock_last = r->first_clock = r->last_of = NAN;
	r->step_base = 0;
}

static void end_gap(struct series_run *r)
{
	if (r->gap_n)
		r->gap = (struct series_titles){ 0 };
	r->gap_n = r->new_titles = r->head_new = r->head_again = 0;
	r->headed = false;
}

static void forget_series_run(struct series_run *r)
{
	r->points = r->set_aside = r->bytes = 0;
	r->first_step = r->last_step = r->first_time = r->last_time = NAN;
	series_row_restart(r);
	r->copies = r->before = r->single = r->results = r->behind = r->nameless = 0;
	r->rows = r->bare = r->rows_step = r->rows_no_step = r->counted_on = r->within = 0;
	r->bad_records = r->skipped_bytes = r->bad_cells = r->time_jumps = 0;
	r->bad_offset = r->unpacked_bytes = PLIM_UNKNOWN;
	r->torn = r->restarted = r->ended = r->guessed = false;
	r->best_metric = r->best_step = r->total_steps = r->runtime = NAN;
	r->sample = r->unread = r->unread_name = NULL;
	r->unread_lines = 0;
	r->best_checkpoint = r->unknown[0] = r->unknown[1] = NULL;
	r->epochs = NAN;
	r->splits = r->over = r->rounds_from_0 = r->stepped = false;
	if (!r->part) /* the run before has read its lines */
		r->head = (struct series_titles){ 0 };
	r->between = (struct series_titles){ 0 };
	end_gap(r);
	r->row.n = r->notes.n = r->cuts.n = 0;
}

void series_run_init(struct series_run *r, struct mem *m, const struct series_options *options)
{
	*r = (struct series_run){ .mem = m, .options = options, .ahead = NAN };
	series_monitor_init(&r->monitor, m);
	intern_init(&r->texts, m);
	intern_init(&r->stepped_only, m);
	forget_series_run(r);
}

static void release_curves(struct series_run *r)
{
	for (size_t i = 0; i < r->curves.n; i++)
		vec_release(r->mem, &r->curves.at[i].buckets);
	r->curves.n = 0;
}

void series_run_release(struct series_run *r)
{
	release_curves(r);
	vec_release(r->mem, &r->curves);
	vec_release(r->mem, &r->files);
	vec_release(r->mem, &r->cuts);
	vec_release(r->mem, &r->obey);
	vec_release(r->mem, &r->row);
	vec_release(r->mem, &r->notes);
	series_monitor_release(&r->monitor);
	intern_release(&r->texts);
	intern_release(&r->stepped_only);
}

void series_run_clear(struct series_run *r)
{
	release_curves(r);
	series_monitor_release(&r->monitor);
	series_monitor_init(&r->monitor, r->mem);
	forget_series_run(r);
	for (size_t i = 0; i < r->files.n; i++) {
		r->files.at[i].offset = r->files.at[i].start;
		r->files.at[i].clock = r->files.at[i].start_clock;
		r->files.at[i].bytes = 0;
		r->files.at[i].unended = false;
		r->files.at[i].mtime_ns = -1;
		if (!r->files.at[i].start)
			r->files.at[i].header = NULL;
	}
}

enum plim_status series_run_add_file(struct series_run *r, const char *path, enum series_kind kind,
				     struct plim_err *err)
{
	struct series_file f = { .kind = kind, .mtime_ns = -1, .clock = NAN, .start_clock = NAN };
	uint32_t id;
	enum plim_status st = intern_add(&r->texts, path, strlen(path), &id, err);

	if (st)
		return st;
	f.path = intern_text(&r->texts, id);
	if (!r->kind)
		r->kind = kind;
	return vec_push(r->mem, &r->files, f, err);
}

enum plim_status series_run_note(struct series_run *r, struct plim_err *err, const char *fmt, ...)
{
	char line[600];
	va_list ap;
	uint32_t id;
	enum plim_status st;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	st = intern_add(&r->texts, line, strlen(line), &id, err);
	return st ? st : vec_push(r->mem, &r->notes, intern_text(&r->texts, id), err);
}

enum plim_status series_run_keep(struct series_run *r, const char *text, size_t n, const char **out,
				 struct plim_err *err)
{
	uint32_t id;
	enum plim_status st = intern_add(&r->texts, text, n, &id, err);

	*out = st ? NULL : intern_text(&r->texts, id);
	return st;
}

void series_bad_record(struct series_run *r, uint64_t offset)
{
	if (!r->bad_records++)
		r->bad_offset = offset;
}

/* ---- series ---- */

enum plim_role series_run_mapped(const struct series_run *r, const char *name, size_t n,
				 bool *given)
{
	for (size_t i = 0; i < r->options->map_count; i++) {
		const char *at = r->options->map[i], *equals = strrchr(at, '=');

		*given = equals && (size_t)(equals - at) == n && !memcmp(at, name, n);
		for (unsigned role = 0; *given && role < PLIM_ROLE_COUNT; role++)
			if (!strcmp(equals + 1, plim_role_name(role)))
				return role;
	}
	*given = false;
	return PLIM_ROLE_OTHER;
}

static void set_stops(const struct series_run *r, struct series_curve *c, enum plim_role role)
{
	for (unsigned i = 0; i < 4; i++) {
		plim_early_stop_init(&c->stop[i], i, r->options->patience);
		c->stop[i].min_delta = r->options->min_delta;
		c->stop[i].maximize = role == PLIM_ROLE_METRIC;
		c->stop_time[i] = NAN;
	}
}

/* What the name of a file says of all its values: "train_loss.txt"; OTHER: nothing.  An error.log holds no metric. */
static enum plim_role file_role(const char *name, size_t n)
{
	enum plim_role role = series_name_of(name, n).role;

	return role == PLIM_ROLE_TRAIN_LOSS || role == PLIM_ROLE_VAL_LOSS ||
			       role == PLIM_ROLE_METRIC
		       ? role
		       : PLIM_ROLE_OTHER;
}

bool series_may_be_loss(const struct series_run *r, struct series_name says)
{
	return (r->objectives && says.objective) || (r->players && says.unknown && says.player);
}

/* What a name with values that are not whole numbers may be, if the log has no loss. */
void series_run_suppose(struct series_run *r, struct series_name says, uint64_t fractions)
{
	if (fractions < SERIES_RECURS)
		return;
	r->supposed |= says.objective ? 1u << SERIES_NO_PLAYER : 0;
	r->supposed |= says.unknown && says.player ? 1u << says.player : 0;
}

/* "test_error.tsv" of CatBoost, "val_loss.csv": losses in it are those of evaluations.  A "test.log" may be of a trial. */
static bool is_evaluations_file(const struct series_run *r)
{
	const char *slash = strrchr(r->files.at[0].path, '/'),
		   *name = slash ? slash + 1 : r->files.at[0].path;
	struct series_name says = series_name_of(name, strcspn(name, "."));

	return says.side == SERIES_EVALUATION && says.role != PLIM_ROLE_OTHER;
}

/* Is the name the one that was found to fall, or that of its evaluations? */
static bool is_falling(const char *falls, const char *name, size_t n)
{
	struct series_name a = series_name_of(falls, strlen(falls)), b = series_name_of(name, n);

	return (strlen(falls) == n && !memcmp(name, falls, n)) ||
	       (a.side && b.side == SERIES_EVALUATION && a.key == b.key);
}

enum plim_status series_run_series(struct series_run *r, const char *name, size_t n, uint32_t *out,
				   struct plim_err *err)
{
	struct series_curve c = {
		.stride = 1, .time = NAN, .seen_step = NAN, .count = NAN, .count_epoch = NAN
	};
	enum plim_role role;
	bool given;
	enum plim_status st;

	*out = intern_find(&r->monitor.names, name, n);
	if (*out != INTERN_NONE)
		return PLIM_OK;
	st = vec_need(r->mem, &r->curves, 1, err);
	if (!st)
		st = series_monitor_add(&r->monitor, name, n, out, err);
	if (st)
		return st;
	role = series_run_mapped(r, name, n, &given);
	if (given)
		series_monitor_set_role(&r->monitor, *out, role);
	c.role_given = given;
	if (!given && series_may_be_loss(r, series_name_of(name, n)))
		series_monitor_set_role(&r->monitor, *out,
					series_name_of(name, n).side == SERIES_EVALUATION
						? PLIM_ROLE_VAL_LOSS
						: PLIM_ROLE_TRAIN_LOSS);
	if (!given && r->column && series_name_of(name, n).unknown)
		series_monitor_set_role(&r->monitor, *out, file_role(r->column, strlen(r->column)));
	if (!given && r->falls && is_falling(r->falls, name, n))
		series_monitor_set_role(&r->monitor, *out,
					series_name_of(name, n).side == SERIES_EVALUATION
						? PLIM_ROLE_VAL_LOSS
						: PLIM_ROLE_TRAIN_LOSS);
	role = r->monitor.watches.at[*out].role;
	if (!given && role == PLIM_ROLE_TRAIN_LOSS && !series_name_of(name, n).side &&
	    is_evaluations_file(r)) {
		role = PLIM_ROLE_VAL_LOSS;
		series_monitor_set_role(&r->monitor, *out, role);
	}
	c.counts = !given && role == PLIM_ROLE_OTHER && series_name_of(name, n).unknown &&
		   series_name_of(name, n).side != SERIES_EVALUATION;
	c.max = role == PLIM_ROLE_OTHER && *out > 200 ? SERIES_BUCKETS / 8 : SERIES_BUCKETS;
	set_stops(r, &c, role);
	r->curves.at[r->curves.n++] = c;
	return PLIM_OK;
}

void series_bucket_merge(struct series_bucket *a, const struct series_bucket *b)
{
	uint32_t good = a->n - a->bad, more = b->n - b->bad;

	if (more && good) {
		a->mean += (b->mean - a->mean) * more / (good + more);
		a->min = fmin(a->min, b->min);
		a->max = fmax(a->max, b->max);
	} else if (more) {
		a->mean = b->mean;
		a->min = b->min;
		a->max = b->max;
	}
	a->n += b->n;
	a->bad += b->bad;
}

/* The same of one value; this is done for every value of a log. */
static void add_value(struct series_bucket *a, double value)
{
	uint32_t good = a->n++ - a->bad;

	if (!isfinite(value)) {
		a->bad++;
	} else if (good) {
		a->mean += (value - a->mean) / (good + 1);
		a->min = value < a->min ? value : a->min;
		a->max = value > a->max ? value : a->max;
	} else {
		a->mean = a->min = a->max = value;
	}
}

static enum plim_status plot(struct series_run *r, struct series_curve *c, double step,
			     double value, struct plim_err *err)
{
	struct series_bucket one = { step, NAN, NAN, NAN, 0, 0 };
	size_t n = c->buckets.n;

	if (n && c->buckets.at[n - 1].n < c->stride) {
		add_value(&c->buckets.at[n - 1], value);
		return PLIM_OK;
	}
	add_value(&one, value);
	if (n == c->max) {
		for (size_t i = 0; i < n / 2; i++) {
			c->buckets.at[i] = c->buckets.at[2 * i];
			series_bucket_merge(&c->buckets.at[i], &c->buckets.at[2 * i + 1]);
		}
		c->buckets.n = n / 2;
		c->stride *= 2;
	}
	return vec_push(r->mem, &c->buckets, one, err);
}

/* ---- points ---- */

static bool is_void(const struct series_run *r, uint32_t series, uint64_t ordinal, double step)
{
	for (size_t i = 0; i < r->obey.n; i++) {
		const struct series_cut *cut = &r->obey.at[i];

		if (cut->series == series && ordinal < cut->ordinal && step >= cut->step)
			return true;
	}
	return false;
}

/* The step fell: is that known, or must all be read again? */
static enum plim_status fell(struct series_run *r, uint32_t series, uint64_t ordinal, double step,
			     struct plim_err *err)
{
	struct series_cut cut = { series, ordinal, step };
	size_t before = 0;

	for (size_t i = 0; i < r->obey.n; i++) {
		before += r->obey.at[i].series == series;
		if (r->obey.at[i].series == series && r->obey.at[i].ordinal == ordinal)
			return PLIM_OK;
	}
	for (size_t i = 0; i < r->cuts.n; i++)
		before += r->cuts.at[i].series == series;
	r->restarted = true;
	if (before > CUTS_MAX)
		cut.step = NAN; /* by order from now on */
	return before > CUTS_MAX + 1 ? PLIM_OK : vec_push(r->mem, &r->cuts, cut, err);
}

static bool by_order(const struct series_run *r, uint32_t series)
{
	for (size_t i = 0; i < r->obey.n; i++)
		if (r->obey.at[i].series == series && isnan(r->obey.at[i].step))
			return true;
	return false;
}

static void keep_time(struct series_run *r, struct series_curve *c, double time)
{
	if (isnan(time))
		return;
	if (isnan(r->first_time))
		r->first_time = time;
	r->time_jumps += time < c->time - 60;
	c->time = time;
	r->last_time = time > r->last_time || isnan(r->last_time) ? time : r->last_time;
}

/* Each policy goes on after its first stop, which is the one that counts, with the best value of then. */
static void replay_stops(struct series_curve *c, double step, double time, double value)
{
	for (unsigned i = 0; i < 4; i++) {
		struct plim_early_stop *s = &c->stop[i];
		bool before = !isnan(s->stop_step);
		enum plim_stop_reason reason = plim_early_stop_feed(s, step, value);

		if (before)
			continue;
		c->best_then[i] = s->best;
		c->best_then_step[i] = s->best_step;
		c->stop_reason[i] = reason;
		c->stop_time[i] = reason ? time : NAN;
	}
}

enum plim_status series_run_point(struct series_run *r, uint32_t series, double step, double time,
				  double value, struct plim_err *err)
{
	struct series_curve *c = &r->curves.at[series];
	struct series_watch *w = &r->monitor.watches.at[series];
	uint64_t ordinal = c->ordinal++;
	bool untold = w->course == SERIES_UNTOLD;
	enum plim_status st = PLIM_OK;

	r->points++;
	c->fractions += value != floor(value);
	if (r->obey.n && by_order(r, series)) {
		step = (double)ordinal;
	} else {
		if (step < c->seen_step)
			st = fell(r, series, ordinal, step, err);
		c->seen_step = step;
		if (r->obey.n && is_void(r, series, ordinal, step)) {
			r->set_aside++;
			return st;
		}
	}
	if (st || !isfinite(step) || step < w->last_step)
		return st;
	keep_time(r, c, time);
	if (!(r->first_step <= step))
		r->first_step = step;
	if (!(r->last_step >= step))
		r->last_step = step;
	st = series_monitor_feed(&r->monitor, series, step, value, err);
	if (!st && untold && w->course == SERIES_BY_COURSE)
		for (unsigned i = 0; i < 4; i++)
			series_replay_stop(w, &c->stop[i]);
	else if (!st && (1u << w->role) & SERIES_EVALUATED)
		replay_stops(c, step, time, value);
	return st ? st : plot(r, c, step, value, err);
}

/* ---- lists ---- */

#define HELD_MOST (1u << 18) /* numbers of lists that wait */

static int run_by_place(const void *a, const void *b)
{
	const struct series_held *x = a, *y = b;

	return x->at != y->at ? (x->at > y->at ? 1 : -1) : x->order > y->order ? 1 : -1;
}

enum plim_status series_give_held(struct series_run *r, struct series_lists *l,
				  struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	if (l->held.n)
		qsort(l->held.at, l->held.n, sizeof(*l->held.at), run_by_place);
	for (size_t i = 0; !st && i < l->held.n; i++)
		st = series_run_point(r, l->held.at[i].series, l->held.at[i].at, NAN,
				      l->held.at[i].value, err);
	l->held.n = 0;
	return st;
}

enum plim_status series_hold(struct series_run *r, struct series_lists *l, uint32_t series,
			     double at, double value, struct plim_err *err)
{
	struct series_held one = { at, value, series, (uint32_t)l->held.n };

	if (l->held.n < HELD_MOST)
		return vec_push(r->mem, &l->held, one, err);
	return series_run_point(r, series, at, NAN, value, err);
}

/* ---- rows ---- */

void series_row_begin(struct series_run *r)
{
	r->row.n = 0;
	r->row_step = r->row_epoch = r->row_time = r->row_rank = NAN;
	r->row_of = NAN;
	r->row_side = SERIES_NO_SIDE;
	r->row_updates = false;
}

void series_row_says(struct series_run *r, const char *key, size_t key_n, const char *text,
		     size_t n)
{
	enum series_side side = series_side_of(text, n);

	if (!side || n >= sizeof(r->row_word) || !series_names_side(key, key_n))
		return;
	r->row_side = side;
	for (size_t i = 0; i <= n; i++)
		r->row_word[i] = (char)(i < n ? tolower((unsigned char)text[i]) : 0);
}

/* The series of a name; rows name them in one order, so it is mostly the one behind that of the value before. */
static uint32_t find_series(const struct series_run *r, const char *name, size_t n)
{
	const struct intern *names = &r->monitor.names;
	uint32_t next = r->row.n ? r->row.at[r->row.n - 1].series + 1 : 0;

	if (next < names->n && names->at[next].n == n && !memcmp(names->at[next].bytes, name, n))
		return next;
	return intern_find(names, name, n);
}

/* Does a value that shows no side get its row's?  A loss is of the training anyhow.  `series`: of its name, if there is one. */
static bool takes_side(const struct series_run *r, uint32_t series, const char *name, size_t n)
{
	const unsigned evaluated = SERIES_EVALUATED, loss = 1u << PLIM_ROLE_TRAIN_LOSS;
	struct series_name says;

	if (!r->row_side || (r->row_side == SERIES_TRAINING && series != INTERN_NONE &&
			     !(1u << r->monitor.watches.at[series].role & evaluated)))
		return false;
	says = series_name_of(name, n);
	return !says.side && ((1u << says.role & evaluated) ||
			      (r->row_side == SERIES_EVALUATION &&
			       (1u << says.role & loss || series_may_be_loss(r, says))));
}

#define COUNTER_RANK 1000 /* below each name that is known */
#define SIDED_BYTES 256   /* a name with its side; longer ones go without */

enum plim_status series_row_put(struct series_run *r, const char *name, size_t n, double value,
				struct plim_err *err)
{
	struct series_row_value v = { find_series(r, name, n), value };
	char sided[SIDED_BYTES];
	unsigned rank;
	enum plim_status st;

	if (n + sizeof(r->row_word) < sizeof(sided) && takes_side(r, v.series, name, n)) {
		n = (size_t)snprintf(sided, sizeof(sided), "%s %.*s", r->row_word, (int)n, name);
		name = sided;
		v.series = find_series(r, name, n);
	}

	if (v.series != INTERN_NONE) /* what is a series is not a step, epoch or time */
		return vec_push(r->mem, &r->row, v, err);
	rank = r->counter && strlen(r->counter) == n && !memcmp(name, r->counter, n)
		       ? COUNTER_RANK
		       : series_is_step(name, n);
	if ((rank || series_is_epoch(name, n)) && value < 0)
		return PLIM_OK; /* "-1": none yet */
	if (rank && isfinite(value)) {
		if (!r->no_steps && !(r->row_rank <= rank)) {
			r->row_step = value;
			r->row_rank = rank;
			r->row_updates = series_counts_updates(name, n);
		}
		return PLIM_OK;
	}
	if (series_is_epoch(name, n)) {
		r->row_epoch = value;
		return PLIM_OK;
	}
	if (series_is_time(name, n)) {
		r->row_time = value > 1e12 ? value / 1000 : value > 1e8 ? value : NAN;
		return PLIM_OK;
	}
	st = series_run_series(r, name, n, &v.series, err);
	if (st == PLIM_E_LIMIT && r->monitor.watches.n >= SERIES_MAX) {
		r->bad_cells++;
		return PLIM_OK;
	}
	return st ? st : vec_push(r->mem, &r->row, v, err);
}

#define RECENT 16 /* values that tell where a loss was */

/*
 * Is the row the first of another run: is its loss that of the run's beginning, and none that it had of late?  The loss
 * that is minimised counts: a part of it may begin low.  *known: can that be reported?
 */
static bool begins_anew(const struct series_run *r, bool *known)
{
	const struct series_watch *loss = NULL;
	double v = NAN, most = -INFINITY;

	for (size_t i = 0; i < r->row.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[r->row.at[i].series];

		if ((w->role != PLIM_ROLE_TRAIN_LOSS && w->role != PLIM_ROLE_VAL_LOSS) ||
		    w->finite < 2 || !isfinite(r->row.at[i].value) ||
		    (loss && w->rank >= loss->rank))
			continue;
		loss = w;
		v = r->row.at[i].value;
	}
	*known = loss;
	if (!loss)
		return false;
	for (uint32_t k = 1; k <= RECENT && k <= loss->ring_n && 2 * k <= loss->finite; k++)
		most = fmax(most, loss->ring[(loss->ring_at + SERIES_RING - k) % SERIES_RING]);
	return v > most && fabs(v - loss->first) <= fabs(v - loss->last);
}

#define RUNS_MAX 256  /* of one file */
#define ALIKE_LEAST 5 /* values of a run that the next one repeats */

/* Without a clock: the loss jumps from where it was back to its first value, to the digit, by over half of its range. */
static bool begins_as_first(const struct series_run *r)
{
	bool known, may = r->splits && r->part + 1 < RUNS_MAX;

	for (size_t i = 0; may && i < r->row.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[r->row.at[i].series];

		if (1u << w->role & (1u << PLIM_ROLE_TRAIN_LOSS | 1u << PLIM_ROLE_VAL_LOSS) &&
		    w->finite >= ALIKE_LEAST && r->row.at[i].value == w->first &&
		    w->first - w->last > (w->max - w->min) / 2 && w->first != floor(w->first))
			return begins_anew(r, &known);
	}
	return false;
}

#define STARTS 2       /* lines of the head that are repeated for the first time; */
#define STARTS_WHOLE 8 /* or again: no epoch has so long a head */
#define BEGINNING 0.02 /* of a run's steps */
#define EPOCHS_LEAST 2 /* after the first one, if the log does not say how many there are */

void series_row_heading(struct series_run *r, const char *line, size_t n)
{
	uint64_t key = 1469598103934665603u, bit;
	bool letters = false, again;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)line[i];

		letters |= isalpha(c) || c >= 128;
		if (!isdigit(c) && !isspace(c))
			key = (key ^ c) * 1099511628211u;
	}
	bit = 1ull << key % 64;
	key = key / 64 % 64;
	if (!letters || r->gap.at[key] & bit)
		return;
	r->gap.at[key] |= bit;
	r->gap_n++;
	if (!r->rows && !r->part)
		r->head.at[key] |= bit;
	again = (r->head.at[key] & bit) != 0;
	r->head_again += again;
	if (r->between.at[key] & bit)
		return;
	r->new_titles++;
	r->head_new += again;
	if (r->rows)
		r->between.at[key] |= bit;
}

/*
 * Lines of the head, or its heading, come again, and then a step of the first epoch that is not behind the first one, or one
 * of another number of steps.
 */
static bool starts_again(const struct series_run *r, double clock)
{
	if (r->head_new >= STARTS && fabs(r->row_of - r->last_of) > 0)
		return true;
	return r->head_again >= (r->headed ? 1 : STARTS) && !isnan(r->row_step) &&
	       r->row_epoch <= r->epoch_first && clock <= r->clock_first &&
	       r->monitor.watches.at[r->row.at[0].series].last_step >= r->step_base + clock;
}

/*
 * Where the rows' clock falls to its beginning, no training was resumed: another run begins, if the loss is that of
 * a beginning, and else only the count does.  True: the row belongs to another run.
 */
static bool look_at_clock(struct series_run *r)
{
	double clock = isnan(r->row_step) && isnan(r->last_row_step) ? r->row_epoch : r->row_step;
	bool falls = clock < r->clock_last &&
		     clock <= r->clock_first + BEGINNING * (r->clock_most - r->clock_first);
	bool fell = falls && !(r->row_epoch > r->epoch_first),
	     starts = r->head_new >= STARTS || r->head_again >= STARTS_WHOLE;
	bool known = false, anew;

	if (isnan(clock))
		return begins_as_first(r);
	/* Batches begin anew with each epoch; epochs do so with another training only. */
	anew = r->row_epoch <= r->epoch_first && r->row_epoch < r->last_epoch &&
	       (r->last_epoch >= r->epoch_first + EPOCHS_LEAST || r->last_epoch >= r->epochs ||
		r->new_titles) &&
	       (isnan(r->row_step) ? isnan(r->last_row_step) : r->row_step <= r->last_row_step);
	/* A program that starts again prints again what it printed first; one line of that may head each epoch. */
	anew |= fell && (starts || (r->kind == SERIES_KIND_CSV && r->new_titles));
	anew |= starts_again(r, clock);
	falls = fell || (falls && starts);
	if ((anew || (falls && begins_anew(r, &known))) && r->splits && r->part + 1 < RUNS_MAX)
		return true;
	if (fell && known) {
		r->guessed = true;
		r->step_base += r->clock_most + (clock == 0) - (clock > 1 ? clock - 1 : 0);
		r->counted_on++;
		r->clock_most = clock;
		r->last_row_step = isnan(r->row_step) ? r->last_row_step : clock;
	}
	r->clock_last = clock;
	r->clock_first = r->clock_first <= clock ? r->clock_first : clock;
	r->clock_most = r->clock_most >= clock ? r->clock_most : clock;
	return false;
}

/* Steps that begin anew with every epoch go on counting.  A row without a step stands at the step before it. */
double series_row_step(struct series_run *r)
{
	double step = r->row_step;

	if (isnan(step)) {
		r->rows_no_step++;
		if (!isnan(r->last_row_step))
			return r->step_base + r->last_row_step;
		if (!isnan(r->ahead) && r->first_is_step)
			return r->ahead;
		if (isnan(r->row_epoch))
			return isnan(r->ahead) ? (double)r->rows : r->ahead;
		return r->step_base + r->row_epoch;
	}
	r->rows_step++;
	if ((step < r->last_row_step && r->row_epoch > r->step_epoch) ||
	    (step == r->last_row_step && r->step_in_epoch && r->row_epoch >= r->step_epoch + 1)) {
		r->step_base += r->last_row_step + (step == 0);
		r->counted_on++;
	}
	r->last_row_step = step;
	r->step_in_epoch = !isnan(r->row_epoch);
	r->step_epoch = r->step_in_epoch ? r->row_epoch : r->step_epoch;
	return r->step_base + step;
}

/* Does the row's first name, whose meaning is not known, count the rows, in whole numbers, within each epoch? */
static void look_counter(struct series_run *r)
{
	struct series_curve *c = &r->curves.at[r->row.at[0].series];
	double value = r->row.at[0].value, by = value - c->count;

	if (!c->counts)
		return;
	c->counts = value >= 0 && value == floor(value) && c->ordinal == r->rows;
	if (c->ordinal && !(r->row_epoch > c->count_epoch)) {
		c->counts_by = c->rises || c->breaks ? c->counts_by : by;
		c->rises += by > 0;
		c->steady += by > 0 && by == c->counts_by;
		c->breaks += !(by > 0) && value != r->monitor.watches.at[r->row.at[0].series].first;
	}
	c->count = value;
	c->count_epoch = r->row_epoch;
}

/* Each rank may log the same row: is it the one before, its step and all of its values? */
static bool is_copy(const struct series_run *r)
{
	if (isnan(r->row_step) || r->row_step != r->last_row_step ||
	    (!isnan(r->row_epoch) && r->row_epoch != r->last_epoch))
		return false;
	for (size_t i = 0; i < r->row.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[r->row.at[i].series];

		if (!w->finite || w->last != r->row.at[i].value ||
		    w->last_step != r->step_base + r->row_step)
			return false;
	}
	return true;
}

/* The first row with a step or epoch: did more rows come before than it counts, or is their epoch a higher number? */
static void look_at_first(struct series_run *r)
{
	bool stepped = !isnan(r->row_step), first = isnan(r->clock_last);
	double clock = stepped ? r->row_step : r->row_epoch;

	if (stepped)
		first = isnan(r->last_row_step) && !(r->last_epoch > r->epoch_first);
	if (first && r->rows_no_step == r->rows &&
	    (clock + 1 < (double)r->rows || (stepped && clock < r->last_step))) {
		r->first_clock = clock;
		r->first_is_step = stepped;
	}
}

/* "Best: epoch 25, val_acc 0.87", behind the last epoch: a row of epochs with the best value, at the epoch that had it. */
static bool is_best_again(const struct series_run *r)
{
	if (!isnan(r->last_row_step) || !isnan(r->row_step) || !(r->row_epoch < r->clock_last))
		return false;
	for (size_t i = 0; i < r->row.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[r->row.at[i].series];
		bool most = w->role == PLIM_ROLE_METRIC;

		if (1u << w->role & SERIES_EVALUATED &&
		    (most ? w->max : w->min) == r->row.at[i].value &&
		    (most ? w->max_step : w->min_step) == r->step_base + r->row_epoch)
			return true;
	}
	return false;
}

/* An evaluation that counts its own batches is at the step that training had reached. */
static void place_evaluation(struct series_run *r)
{
	bool evaluation = r->row_side == SERIES_EVALUATION;

	if (evaluation && r->stepped && !r->row_updates &&
	    (r->row_step < r->last_row_step || r->counted_on))
		r->row_step = NAN;
	r->stepped |= !evaluation && !isnan(r->row_step);
}

enum plim_status series_row_end(struct series_run *r, struct plim_err *err)
{
	double step;
	enum plim_status st = PLIM_OK;

	if (!r->row.n)
		return PLIM_OK;
	place_evaluation(r);
	if (is_copy(r) || is_best_again(r)) {
		r->copies++;
		r->row.n = 0;
		return PLIM_OK;
	}
	look_at_first(r);
	if (look_at_clock(r)) {
		r->over = true;
		r->row.n = 0;
		return PLIM_OK;
	}
	end_gap(r);
	r->last_of = isnan(r->row_of) ? r->last_of : r->row_of;
	look_counter(r);
	step = series_row_step(r);
	if (!isnan(r->row_epoch))
		r->last_epoch = r->row_epoch;
	r->epoch_first = fmin(r->epoch_first, r->row_epoch);
	r->rows++;
	for (size_t i = 0; !st && i < r->row.n; i++)
		st = series_run_point(r, r->row.at[i].series, step, r->row_time, r->row.at[i].value,
				      err);
	r->row.n = 0;
	return st;
}

/* ---- files ---- */

static enum plim_status read_kind(struct series_input *in, struct plim_err *err)
{
	switch (in->file->kind) {
	case SERIES_KIND_TENSORBOARD: return series_read_tensorboard(in, err);
	case SERIES_KIND_WANDB: return series_read_wandb(in, err);
	case SERIES_KIND_TRAINER_STATE:
	case SERIES_KIND_JSON: return series_read_json(in, err);
	case SERIES_KIND_CSV: return series_read_csv(in, err);
	case SERIES_KIND_MLFLOW: return series_read_mlflow(in, err);
	default: return series_read_text(in, err);
	}
}

/* A pipe's kind shows only when it is open. */
static enum series_kind kind_of_source(struct source *s, const char *path, struct plim_err *err)
{
	/* Of damaged compressed data what came out before it is there. */
	if (source_need(s, s->p, SERIES_HEAD, err) && s->end == s->p)
		return SERIES_KIND_UNKNOWN;
	return series_recognise(s->p, (size_t)(s->end - s->p), path);
}

/* Compressed data that is cut or damaged: what came out before counts. */
static bool damaged_behind(const struct series_input *in)
{
	struct source_info info;

	source_get_info(in->source, &info);
	if (!in->file->offset || !strcmp(info.compression, "none"))
		return false;
	in->run->unpacked_bytes = in->file->offset;
	return true;
}

static enum plim_status refuse_series_run(const struct source *s, const char *path,
					  struct plim_err *err)
{
	const struct file_kind *kind = file_kind_of_file(path, s->p, (size_t)(s->end - s->p));

	if (!kind)
		return err_set(err, PLIM_E_FORMAT, "'%s' is not a training log that is known here",
			       path);
	if (!kind->command)
		return err_set(err, PLIM_E_FORMAT, "'%s' is %s, not a training log", path,
			       kind->is);
	return err_set(err, PLIM_E_FORMAT, "'%s' is %s, not a training log: 'plimsoll %s' reads it",
		       path, kind->is, kind->command);
}

static enum plim_status read_file(struct series_run *r, struct series_file *f, struct plim_err *err)
{
	struct series_input in = { r, f, NULL };
	enum plim_status st = source_open(r->mem, f->path, NULL, &in.source, err);

	if (st)
		return st;
	if (!f->kind)
		f->kind = kind_of_source(in.source, f->path, err);
	if (!f->kind)
		st = refuse_series_run(in.source, f->path, err);
	if (!r->kind)
		r->kind = f->kind;
	if (!st && f->offset)
		st = source_skip_to(in.source, f->offset, err);
	if (!st)
		st = read_kind(&in, err);
	if (st == PLIM_E_FORMAT && damaged_behind(&in))
		st = PLIM_OK;
	source_close(in.source);
	return st;
}

static bool is_document(const struct series_file *f)
{
	return f->kind == SERIES_KIND_TRAINER_STATE;
}

/* What is there now of each file; *rewritten: some must be read from the start. */
static enum plim_status look_series_run(struct series_run *r, bool *changed, bool *rewritten,
					struct plim_err *err)
{
	*changed = *rewritten = false;
	for (size_t i = 0; i < r->files.n; i++) {
		struct series_file *f = &r->files.at[i];
		struct stat s;
		int64_t ns;

		if (!strcmp(f->path, "-")) {
			*changed |= f->mtime_ns == -1;
			f->mtime_ns = f->mtime_ns == -1 ? -2 : 0;
			continue;
		}
		if (stat(f->path, &s))
			return err_errno(err, errno, "cannot open '%s'", f->path);
		ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
		if ((uint64_t)s.st_size == f->bytes && ns == f->mtime_ns)
			continue;
		*changed = true;
		*rewritten |= f->mtime_ns != -1 &&
			      (is_document(f) || f->unended || (uint64_t)s.st_size < f->bytes);
		f->bytes = (uint64_t)s.st_size;
		f->mtime_ns = -2 - ns; /* to be read; real times are positive */
	}
	return PLIM_OK;
}

static enum plim_status read_files(struct series_run *r, bool all, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	r->torn = false;
	r->bytes = 0;
	for (size_t i = 0; !st && i < r->files.n; i++) {
		struct series_file *f = &r->files.at[i];

		r->bytes += f->bytes;
		if (!all && f->mtime_ns > -2)
			continue;
		if ((f->bytes > f->start || !strcmp(f->path, "-")) && !r->over)
			st = read_file(r, f, err);
		if (f->mtime_ns < -1)
			f->mtime_ns = -2 - f->mtime_ns;
	}
	return st;
}

/* What was found while reading is obeyed when reading again. */
static enum plim_status obey_cuts(struct series_run *r, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < r->cuts.n; i++)
		st = vec_push(r->mem, &r->obey, r->cuts.at[i], err);
	return st;
}

static enum plim_status read_again(struct series_run *r, struct plim_err *err)
{
	enum plim_status st = obey_cuts(r, err);
	bool changed, rewritten;

	series_run_clear(r);
	if (!st)
		st = look_series_run(r, &changed, &rewritten, err);
	return st ? st : read_files(r, true, err);
}

/*
 * The kind of a log is that of most of its lines.  Where the reader that its first lines asked for understood
 * fewer lines than not, it is read as text; where text holds nothing either, what comes yet may tell.
 */
static enum plim_status read_as_text(struct series_run *r, struct plim_err *err)
{
	struct series_file *f = &r->files.at[0];
	enum series_kind as = f->kind;
	enum plim_status st = PLIM_OK;
	bool pipe = !strcmp(f->path, "-"), none;

	if (r->files.n > 1 || r->part || pipe ||
	    (as != SERIES_KIND_CSV && as != SERIES_KIND_JSON) || r->bad_records < r->rows ||
	    (r->points && !r->bad_records))
		return st;
	none = !r->points;
	for (int i = 0; !st && i < 2; i++) {
		r->obey.n = 0;
		r->kind = f->kind = i ? as : SERIES_KIND_TEXT;
		st = read_again(r, err);
		if (r->points)
			return st;
	}
	if (none)
		r->kind = f->kind = SERIES_KIND_UNKNOWN;
	return st;
}

#define STRAY_ROWS 20 /* without a step, for each with one */

#define COUNTER_ROWS 6

/* If hardly a row has a step and epochs are logged, or all steps are the same, that is not a step: "31/1330", "1/1" of a bar. */
static enum plim_status drop_strays(struct series_run *r, struct plim_err *err)
{
	bool stands = r->rows_step >= COUNTER_ROWS && r->first_step == r->last_step;

	if (r->no_steps || !r->rows_step || !strcmp(r->files.at[0].path, "-") ||
	    (!stands && (isnan(r->last_epoch) || r->rows_no_step < STRAY_ROWS * r->rows_step)))
		return PLIM_OK;
	r->no_steps = true;
	r->obey.n = 0;
	return read_again(r, err);
}

/* Where no step is known and epochs do not part the rows, what counts them is the step: "batch", "frame". */
static enum plim_status find_counter(struct series_run *r, struct plim_err *err)
{
	if (r->counter || !r->rows_no_step || r->rows_step || r->rows < COUNTER_ROWS ||
	    !strcmp(r->files.at[0].path, "-"))
		return PLIM_OK;
	for (uint32_t i = 0; i < r->curves.n; i++) {
		const struct series_curve *c = &r->curves.at[i];
		uint32_t id;
		enum plim_status st;

		/* One that falls counts only if it mostly rises by the same. */
		if (!c->counts || c->ordinal != r->rows || 2 * c->rises < r->rows ||
		    (c->breaks && 4 * c->steady < 3 * r->rows))
			continue;
		st = intern_add(&r->texts, r->monitor.names.at[i].bytes, r->monitor.names.at[i].n,
				&id, err);
		if (st)
			return st;
		r->counter = intern_text(&r->texts, id);
		r->obey.n = 0;
		return read_again(r, err);
	}
	return PLIM_OK;
}

/* Several arrays of rows, of phases or sides, are read as the keys say that they stand under. */
static enum plim_status name_arrays(struct series_run *r, struct plim_err *err)
{
	if (!r->titles || r->titled)
		return PLIM_OK;
	r->titled = true;
	r->obey.n = r->cuts.n = 0;
	return read_again(r, err);
}

#define COLUMN_LINES 5

/* Is there a loss, or another series that is judged? */
static bool has_judged(const struct series_run *r)
{
	for (size_t i = 0; i < r->monitor.watches.n; i++)
		if (r->monitor.watches.at[i].role != PLIM_ROLE_OTHER)
			return true;
	return false;
}

static bool has_loss(const struct series_run *r)
{
	for (size_t i = 0; i < r->monitor.watches.n; i++)
		if (r->monitor.watches.at[i].role == PLIM_ROLE_TRAIN_LOSS ||
		    r->monitor.watches.at[i].role == PLIM_ROLE_VAL_LOSS)
			return true;
	return false;
}

/* A log without a loss: names of objectives, and of a generator and a discriminator, are losses. */
static bool suppose_losses(struct series_run *r)
{
	unsigned judges = 1u << SERIES_JUDGES | 1u << SERIES_JUDGES_ALL,
		 others = 1u << SERIES_GENERATES | 1u << SERIES_NO_PLAYER;

	for (uint32_t i = 0; i < r->curves.n; i++)
		series_run_suppose(r,
				   series_name_of((const char *)r->monitor.names.at[i].bytes,
						  r->monitor.names.at[i].n),
				   r->curves.at[i].fractions);
	if (r->objectives || r->players || has_loss(r))
		return false;
	r->objectives = r->supposed & 1u << SERIES_NO_PLAYER;
	r->players = r->supposed & judges && r->supposed & others;
	return r->objectives || r->players;
}

/* Values without a known name: are those names of losses that play against each other, or does the file's say what they are? */
static enum plim_status name_values(struct series_run *r, struct plim_err *err)
{
	const char *path = r->files.at[0].path, *name = strrchr(path, '/');
	uint32_t id;
	enum plim_status st = PLIM_OK;

	name = name ? name + 1 : path;
	if (strcmp(path, "-") != 0 && suppose_losses(r)) {
		r->obey.n = r->cuts.n = 0;
		return read_again(r, err);
	}
	if (r->column || r->players || r->objectives || r->by_place || !strcmp(path, "-") ||
	    has_judged(r))
		return PLIM_OK;
	if (file_role(name, strcspn(name, ".")) != PLIM_ROLE_OTHER &&
	    (r->points || (r->single >= COLUMN_LINES && r->nameless < COLUMN_LINES))) {
		st = intern_add(&r->texts, name, strcspn(name, "."), &id, err);
		r->column = st ? NULL : intern_text(&r->texts, id);
		r->lone = r->column && r->bare <= 1;
		r->listed = r->lone && r->nameless;
	} else if (!r->points && (r->bare >= COLUMN_LINES || r->single >= COLUMN_LINES) &&
		   (file_role(name, strcspn(name, ".")) == PLIM_ROLE_TRAIN_LOSS ||
		    series_name_of(name, strcspn(name, ".")).side == SERIES_TRAINING)) {
		r->by_place = true;
	} else if (r->both_sides && !r->sides_count) {
		r->sides_count = true;
	} else {
		return PLIM_OK;
	}
	r->obey.n = r->cuts.n = 0;
	return st ? st : read_again(r, err);
}

/* Is a name that is not known one of another script in a table, a side, or of the training with one of the evaluations next to it? */
static bool may_be_loss(const struct series_run *r, const char *name)
{
	struct series_name says = series_name_of(name, strlen(name));

	if (r->by_place || series_is_bare_side(says) ||
	    ((unsigned char)*name >= 128 && r->kind == SERIES_KIND_CSV))
		return true;
	for (uint32_t i = 0; says.side == SERIES_TRAINING && i < r->monitor.names.n; i++) {
		struct series_name other = series_name_of(
			(const char *)r->monitor.names.at[i].bytes, r->monitor.names.at[i].n);

		if (other.side == SERIES_EVALUATION && other.key == says.key)
			return true;
	}
	return false;
}

/* Of such names, the first whose values are positive and fall is the training's loss. */
static enum plim_status find_falling(struct series_run *r, struct plim_err *err)
{
	if (r->falls || !strcmp(r->files.at[0].path, "-") || has_judged(r))
		return PLIM_OK;
	for (uint32_t i = 0; i < r->monitor.watches.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[i];
		const char *name = intern_text(&r->monitor.names, i);
		uint32_t id;
		enum plim_status st;

		if (!may_be_loss(r, name) || w->finite < COLUMN_LINES || !(w->min > 0) ||
		    !(w->first - w->last > (w->max - w->min) / 2))
			continue;
		st = intern_add(&r->texts, name, strlen(name), &id, err);
		if (st)
			return st;
		r->falls = intern_text(&r->texts, id);
		r->obey.n = r->cuts.n = 0;
		return read_again(r, err);
	}
	if (!r->sides_count && !r->by_place)
		return PLIM_OK;
	r->sides_count = r->by_place = false; /* the names stay unknown, which the error says */
	return read_again(r, err);
}

/* Rows before the first one with a step or epoch that are more than it counts get its step: none was resumed from. */
static enum plim_status place_ahead(struct series_run *r, struct plim_err *err)
{
	if (isnan(r->first_clock) || !isnan(r->ahead) || !strcmp(r->files.at[0].path, "-"))
		return PLIM_OK;
	r->ahead = r->first_clock;
	r->obey.n = r->cuts.n = 0;
	return read_again(r, err);
}

/* What was printed before the first step or epoch is left out. */
static enum plim_status drop_before(struct series_run *r, struct plim_err *err)
{
	struct series_file *f = &r->files.at[0];

	if (!r->before || r->part || !strcmp(f->path, "-"))
		return PLIM_OK;
	f->start = r->before;
	f->header = NULL;
	r->obey.n = r->cuts.n = 0;
	return read_again(r, err);
}

#define KINDS_LEAST 5 /* values with a step, and without one */

/* "Loss: 0.5" of each batch, and "[10/500] Loss 0.5" of each tenth: with a step and without one they are of two kinds. */
static enum plim_status part_kinds(struct series_run *r, struct plim_err *err)
{
	bool found = false;
	enum plim_status st = PLIM_OK;
	uint32_t id;

	if (r->stepped_only.n || !strcmp(r->files.at[0].path, "-"))
		return PLIM_OK;
	for (uint32_t i = 0; !st && i < r->curves.n; i++) {
		const struct series_curve *c = &r->curves.at[i];

		if (c->clocked < KINDS_LEAST || c->unclocked < KINDS_LEAST)
			continue;
		found = true;
		st = intern_add(&r->stepped_only, r->monitor.names.at[i].bytes,
				r->monitor.names.at[i].n, &id, err);
	}
	if (st || !found)
		return st;
	r->obey.n = r->cuts.n = 0;
	return read_again(r, err);
}

enum plim_status series_run_read(struct series_run *r, bool *changed, struct plim_err *err)
{
	bool rewritten;
	enum plim_status st = look_series_run(r, changed, &rewritten, err);

	if (st || !*changed)
		return st;
	if (rewritten) {
		r->obey.n = 0;
		st = read_again(r, err);
	} else {
		st = read_files(r, false, err);
	}
	if (!st)
		st = read_as_text(r, err);
	if (!st && !r->points)
		st = name_values(r, err);
	if (!st)
		st = name_arrays(r, err);
	if (!st)
		st = drop_before(r, err);
	if (!st)
		st = part_kinds(r, err);
	if (!st)
		st = place_ahead(r, err);
	if (!st)
		st = drop_strays(r, err);
	if (!st)
		st = find_counter(r, err);
	if (!st)
		st = name_values(r, err);
	if (!st)
		st = find_falling(r, err);
	for (int i = 0; !st && r->restarted && i < ROUNDS_MAX && strcmp(r->files.at[0].path, "-");
	     i++)
		st = read_again(r, err);
	return st;
}

/* ---- what is said of the reading ---- */

/* Values that do not count: these notes come first. */
static enum plim_status note_asides(struct series_run *r, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t resumes = 0, ordered = 0;
	double from = INFINITY;

	for (size_t i = 0; i < r->obey.n; i++) {
		ordered += isnan(r->obey.at[i].step);
		resumes += r->obey.at[i].series == r->obey.at[0].series;
		from = fmin(from, r->obey.at[i].step);
	}
	if (ordered)
		st = series_run_note(r, err,
				     "steps of %zu series fall again and again: their values are "
				     "counted instead",
				     ordered);
	else if (resumes)
		st = series_run_note(r, err,
				     "resumed %zu time%s, the earliest at step %.15g; set aside: "
				     "%llu value%s of the "
				     "attempts before",
				     resumes, text_s(resumes), from,
				     (unsigned long long)r->set_aside, text_s(r->set_aside));
	if (!st && r->within)
		st = series_run_note(r, err,
				     "%llu lines from within an evaluation were left out: its last "
				     "line counts",
				     (unsigned long long)r->within);
	if (!st && r->files.at[0].start && !r->part)
		st = series_run_note(
			r, err,
			"values before the first step or epoch are not of the training: "
			"left out");
	if (!st && r->results)
		st = series_run_note(
			r, err,
			"the values of %llu series have no step, and are in lines with "
			"other words each, or all at one place: results, not a course, "
			"and not judged",
			(unsigned long long)r->results);
	if (!st && r->behind)
		st = series_run_note(r, err,
				     "%llu value%s in a line without a step, while others of the "
				     "series have one: left out",
				     (unsigned long long)r->behind,
				     r->behind == 1 ? " is" : "s are");
	if (!st && r->copies)
		st = series_run_note(r, err, "%llu row%s the same as a row before: they count once",
				     (unsigned long long)r->copies,
				     r->copies == 1 ? " is" : "s are");
	if (!st && r->over && !r->followed)
		st = series_run_note(r, err,
				     "another run begins at byte %llu and was not read: the input "
				     "cannot be read twice, name a file",
				     (unsigned long long)r->files.at[0].offset);
	return st;
}

/* What was guessed, and what was not read: the reader may know better. */
static enum plim_status note_guesses(struct series_run *r, struct plim_err *err)
{
	size_t before = r->notes.n;
	enum plim_status st = PLIM_OK;

	if (r->counted_on && r->guessed)
		st = series_run_note(r, err, "steps begin anew and were counted on (%llu time%s)",
				     (unsigned long long)r->counted_on, text_s(r->counted_on));
	if (!st && r->counter)
		st = series_run_note(r, err,
				     "no step is logged by a name that is known: '%s' counts the "
				     "rows and is used instead",
				     r->counter);
	if (!st && r->falls)
		st = series_run_note(r, err,
				     "'%.80s' is taken for the training loss by its course: --map "
				     "NAME=ROLE says what the columns are",
				     r->falls);
	if (!st && (r->objectives || r->players))
		st = series_run_note(r, err,
				     "no name is that of a loss: those of objectives, or of a "
				     "generator and a discriminator, are taken for losses");
	if (!st && r->unread && !r->options->redact)
		st = series_run_note(
			r, err, "left out: %s%.160s%s in %llu lines, such as \"%s\"",
			r->unread_name ? "'" : "numbers", r->unread_name ? r->unread_name : "",
			r->unread_name ? "'" : "", (unsigned long long)r->unread_lines, r->unread);
	if (!st && r->notes.n > before && r->sample && !r->options->redact)
		st = series_run_note(r, err, "the first line was read as %s", r->sample);
	return st;
}

enum plim_status series_run_conclude(struct series_run *r, struct plim_err *err)
{
	enum plim_status st;

	r->notes.n = 0;
	st = note_asides(r, err);
	st = st ? st : note_guesses(r, err);
	r->asides = r->notes.n;
	if (!st && r->counted_on && !r->guessed)
		st = series_run_note(r, err, "steps begin anew and were counted on (%llu time%s)",
				     (unsigned long long)r->counted_on, text_s(r->counted_on));
	if (!st && r->rows_no_step && isnan(r->last_row_step))
		st = series_run_note(r, err, "no step is logged: %s are used instead",
				     isnan(r->last_epoch) ? "rows, counted from 0," : "epochs");
	if (!st && r->bad_records)
		st = series_run_note(
			r, err, "%llu damaged record%s skipped, the first at byte %llu",
			(unsigned long long)r->bad_records, r->bad_records == 1 ? " was" : "s were",
			(unsigned long long)r->bad_offset);
	if (!st && r->bad_cells)
		st = series_run_note(r, err, "%llu cells that hold no number were skipped",
				     (unsigned long long)r->bad_cells);
	if (!st && r->torn)
		st = series_run_note(r, err,
				     "the log ends within a record: it is being written, or the "
				     "job was killed");
	if (!st && r->unpacked_bytes != PLIM_UNKNOWN)
		st = series_run_note(r, err,
				     "the compressed data is damaged or cut behind %llu bytes of "
				     "the log: the part before was read",
				     (unsigned long long)r->unpacked_bytes);
	if (!st && r->time_jumps)
		st = series_run_note(r, err, "time goes back %llu time%s by over a minute",
				     (unsigned long long)r->time_jumps, text_s(r->time_jumps));
	if (!st && r->monitor.lost)
		st = series_run_note(r, err, "%u further findings are left out", r->monitor.lost);
	return st;
}
