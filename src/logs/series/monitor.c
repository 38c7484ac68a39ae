/*
 * The monitor: what is kept of each series, and the table of detectors that every value is shown to.
 * A series' state is plain data of a fixed size, so that saving it is copying it.
 */
#include "parts.h"

#include <xxhash.h>

#define MAGIC 0x31766f6d6d696c70ull /* "plimmov1", as a number */

void series_monitor_init(struct series_monitor *m, struct mem *mem)
{
	*m = (struct series_monitor){ .mem = mem, .train = SERIES_NONE, .val = SERIES_NONE };
	m->stop_on = 1u << PLIM_CURVES_NAN | 1u << PLIM_CURVES_INF | 1u << PLIM_CURVES_DIVERGED;
	intern_init(&m->names, mem);
	plim_early_stop_init(&m->stop, PLIM_STOP_PLIMSOLL, PLIM_UNKNOWN);
	m->stop.patience = PLIM_UNKNOWN;
}

void series_monitor_release(struct series_monitor *m)
{
	vec_release(m->mem, &m->watches);
	vec_release(m->mem, &m->findings);
	intern_release(&m->names);
}

/* Which losses train and evaluate the same quantity; the first of the lowest rank counts. */
/* Of two losses that mean the same, the one that is logged far more often: nanoGPT prints "train loss" with each evaluation only. */
static bool is_rather(const struct series_watch *a, const struct series_watch *b)
{
	return a->rank < b->rank || (a->rank == b->rank && a->points > 4 * b->points + 16);
}

static void choose_monitor(struct series_monitor *m)
{
	struct series_watch *w = m->watches.at;

	m->train = m->val = SERIES_NONE;
	for (uint32_t i = 0; i < m->watches.n; i++) {
		uint32_t *best = w[i].role == PLIM_ROLE_TRAIN_LOSS ? &m->train
				 : w[i].role == PLIM_ROLE_VAL_LOSS ? &m->val
								   : NULL;

		if (best && (*best == SERIES_NONE || is_rather(&w[i], &w[*best])))
			*best = i;
	}
	for (uint32_t i = 0; i < m->watches.n; i++) {
		w[i].pair = m->train;
		for (uint32_t j = 0; w[i].role == PLIM_ROLE_VAL_LOSS && j < m->watches.n; j++)
			if (w[j].role == PLIM_ROLE_TRAIN_LOSS && w[j].key == w[i].key)
				w[i].pair = j;
	}
	for (uint32_t i = 0; m->val == SERIES_NONE && i < m->watches.n; i++)
		if ((w[i].role == PLIM_ROLE_METRIC || w[i].role == PLIM_ROLE_ERROR) &&
		    w[i].course != SERIES_PLAYED)
			m->val = i;
}

enum plim_status series_monitor_add(struct series_monitor *m, const char *name, size_t n,
				    uint32_t *out, struct plim_err *err)
{
	struct series_name says;
	enum plim_status st;

	*out = intern_find(&m->names, name, n);
	if (*out != INTERN_NONE)
		return PLIM_OK;
	if (m->watches.n >= SERIES_MAX)
		return err_set(err, PLIM_E_LIMIT, "more than %d series", SERIES_MAX);
	says = series_name_of(name, n);
	st = vec_need(m->mem, &m->watches, 1, err);
	if (!st)
		st = intern_add(&m->names, name, n, out, err);
	if (st)
		return st;
	m->watches.at[m->watches.n++] =
		(struct series_watch){ .role = says.role,
				       .rank = says.rank,
				       .key = says.key,
				       .course = says.played                     ? SERIES_PLAYED
						 : says.unknown && !says.counter ? SERIES_UNTOLD
										 : SERIES_NAMED,
				       .pair = SERIES_NONE,
				       .first = NAN,
				       .last = NAN,
				       .min = NAN,
				       .max = NAN,
				       .min_step = NAN,
				       .max_step = NAN,
				       .first_step = NAN,
				       .last_step = NAN,
				       .history = { .stride = 1 } };
	choose_monitor(m);
	return PLIM_OK;
}

void series_monitor_set_role(struct series_monitor *m, uint32_t series, enum plim_role role)
{
	m->watches.at[series].role = role;
	m->watches.at[series].course = SERIES_NAMED;
	m->watches.at[series].rank = 0; /* whoever says so means this one */
	choose_monitor(m);
}

/* ---- history: all values as at most SERIES_CELLS cells ---- */

static void merge_cell(struct series_cell *a, const struct series_cell *b)
{
	uint32_t n = a->n + b->n;

	if (a->n && b->n) {
		a->mean += (b->mean - a->mean) * b->n / n;
		a->min = b->min < a->min ? b->min : a->min;
		a->max = b->max > a->max ? b->max : a->max;
		a->other = isnan(b->other)   ? a->other
			   : isnan(a->other) ? b->other
					     : (a->other + b->other) / 2;
	} else if (b->n) {
		*a = *b;
	}
	a->n = n;
	a->last_step = b->last_step;
}

void series_push_history(struct series_history *h, double step, double value, double other)
{
	struct series_cell one = { step, step, value, value, value, other, 1, 0 };

	if (h->open.n)
		merge_cell(&h->open, &one);
	else
		h->open = one;
	if (h->open.n < h->stride)
		return;
	h->at[h->n++] = h->open;
	h->open = (struct series_cell){ 0 };
	if (h->n < SERIES_CELLS)
		return;
	for (uint32_t i = 0; i < SERIES_CELLS / 2; i++) {
		h->at[i] = h->at[2 * i];
		merge_cell(&h->at[i], &h->at[2 * i + 1]);
	}
	h->n = SERIES_CELLS / 2;
	h->stride *= 2;
}

/* ---- one value ---- */

static void summarise(struct series_watch *w, double step, double value)
{
	if (!w->points++)
		w->first_step = step;
	w->last_step = step;
	if (!isfinite(value)) {
		w->non_finite++;
		return;
	}
	if (!w->finite++)
		w->first = value;
	w->same_run = w->finite > 1 && value == w->last ? w->same_run + 1 : 0;
	w->last = value;
	if (!(w->min <= value)) {
		w->min = value;
		w->min_step = step;
	}
	if (!(w->max >= value)) {
		w->max = value;
		w->max_step = step;
	}
	if (value <= 0)
		w->negative = 1;
	w->zeros += value == 0;
}

static void keep_monitor(struct series_monitor *m, struct series_watch *w, double step,
			 double value)
{
	double other = NAN;

	w->ring[w->ring_at] = value;
	w->ring_step[w->ring_at] = step;
	w->ring_at = (w->ring_at + 1) % SERIES_RING;
	w->ring_n += w->ring_n < SERIES_RING;
	w->stale++;
	if ((1u << w->role & SERIES_EVALUATED || w->course) && w->pair != SERIES_NONE) {
		const struct series_watch *train = &m->watches.at[w->pair];

		/* What was trained since the last evaluation; if nothing was logged, the last value. */
		other = train->finite > w->pair_finite
				? (train->total - w->pair_total) /
					  (double)(train->finite - w->pair_finite)
			: train->finite ? train->last
					: NAN;
		w->pair_total = train->total;
		w->pair_finite = train->finite;
	}
	w->total += value;
	series_push_history(&w->history, step, value, other);
}

static enum series_player player_of(const struct series_monitor *m, uint32_t series)
{
	const char *name = intern_text(&m->names, series);

	return series_name_of(name, strlen(name)).player;
}

static bool plays_against(enum series_player a, enum series_player b)
{
	return (a == SERIES_JUDGES_ALL && b != SERIES_JUDGES_ALL) ||
	       (a == SERIES_JUDGES && b == SERIES_GENERATES);
}

/* A reward that the training collects is what counts: the loss next to it need not fall. */
static uint32_t reward_of(const struct series_monitor *m)
{
	for (uint32_t i = 0; i < m->watches.n; i++)
		if (m->watches.at[i].course == SERIES_PLAYED)
			return i;
	return SERIES_NONE;
}

/* Another loss of the same side that plays against the series; SERIES_NONE: none does. */
static uint32_t player_against(const struct series_monitor *m, uint32_t series)
{
	enum series_player player = player_of(m, series), other;

	for (uint32_t i = 0; i < m->watches.n; i++) {
		other = player_of(m, i);
		if (m->watches.at[i].role == m->watches.at[series].role &&
		    (plays_against(player, other) || plays_against(other, player)))
			return i;
	}
	return SERIES_NONE;
}

/*
 * Of two losses that play against each other one rises because the other falls: that is information, and of evaluations
 * nothing at all.
 */
static void temper(struct series_monitor *m, size_t from)
{
	for (; from < m->findings.n; from++) {
		struct series_finding *f = &m->findings.at[from];
		uint32_t reward = reward_of(m), role = m->watches.at[f->series].role, against;

		if ((role != PLIM_ROLE_TRAIN_LOSS && role != PLIM_ROLE_VAL_LOSS) ||
		    f->id == PLIM_CURVES_NAN || f->id == PLIM_CURVES_INF)
			continue;
		against = player_against(m, f->series);
		if (role == PLIM_ROLE_VAL_LOSS) {
			f->taken_back |= against != SERIES_NONE; /* it stays open: once is enough */
			continue;
		}
		against = against == SERIES_NONE ? reward : against;
		if (against == SERIES_NONE)
			continue;
		f->severity = PLIM_SEVERITY_INFO;
		f->other = against;
		f->against = 1;
	}
}

static enum series_side side_of(const struct series_monitor *m, uint32_t series)
{
	const char *name = intern_text(&m->names, series);

	return series_name_of(name, strlen(name)).side;
}

/* Of "accuracy" and "val_accuracy" the first is the training's. */
static bool has_evaluated_twin(const struct series_monitor *m, uint32_t series)
{
	const struct series_watch *w = &m->watches.at[series];

	for (uint32_t i = 0; i < m->watches.n; i++)
		if (m->watches.at[i].role == w->role && m->watches.at[i].key == w->key &&
		    side_of(m, i) == SERIES_EVALUATION)
			return true;
	return false;
}

#define SELDOM 4 /* times as many values of the training loss */

/* Is a series without a word that says what it is one of evaluations?  It says so, or is logged far more seldom than the training loss. */
static bool may_be_evaluated(const struct series_monitor *m, uint32_t series)
{
	enum series_side side = side_of(m, series);

	if (side != SERIES_NO_SIDE || m->train == SERIES_NONE)
		return side == SERIES_EVALUATION;
	return !has_evaluated_twin(m, series) &&
	       m->watches.at[m->train].points >= SELDOM * m->watches.at[series].points;
}

/* Does nothing in the log say that it evaluates, and is the series logged as often as the training loss? */
static bool is_of_training(const struct series_monitor *m, uint32_t series)
{
	return m->train != SERIES_NONE && m->val != SERIES_NONE &&
	       side_of(m, m->train) == SERIES_NO_SIDE && side_of(m, m->val) == SERIES_NO_SIDE &&
	       m->watches.at[m->train].points < SELDOM * m->watches.at[series].points;
}

#define COURSE_WAITS 16 /* values, after which a series that cannot be one of evaluations is none */
#define COURSE_TURNS 4.0 /* times what was won */

/* Take a role from the course, and give it back where the series falls so far behind its beginning: that was a dip. */
static void look_course(struct series_monitor *m, uint32_t series, double value)
{
	struct series_watch *w = &m->watches.at[series];
	enum plim_role role;

	if (w->course == SERIES_BY_COURSE) {
		double won = w->role == PLIM_ROLE_METRIC ? w->max - w->first : w->first - w->min;
		double lost = w->role == PLIM_ROLE_METRIC ? w->first - value : value - w->first;

		if (!(lost > COURSE_TURNS * won))
			return;
		series_take_back(m, series_open(m, PLIM_CURVES_OVERFIT, series));
		w->course = SERIES_NAMED;
		w->role = PLIM_ROLE_OTHER;
		choose_monitor(m);
		return;
	}
	if (w->history.open.n || (w->points < COURSE_WAITS && w->history.n < 4))
		return;
	if (!may_be_evaluated(m, series)) {
		if (w->points >= COURSE_WAITS)
			w->course = SERIES_NAMED;
		return;
	}
	role = series_course(w);
	if (role == PLIM_ROLE_OTHER)
		return;
	w->course = SERIES_BY_COURSE;
	w->role = role;
	choose_monitor(m);
}

void series_replay_stop(const struct series_watch *w, struct plim_early_stop *stop)
{
	stop->maximize = w->role == PLIM_ROLE_METRIC;
	for (uint32_t i = 0; i < w->history.n; i++)
		plim_early_stop_feed(stop, w->history.at[i].step, w->history.at[i].mean);
}

enum plim_status series_monitor_feed(struct series_monitor *m, uint32_t series, double step,
				     double value, struct plim_err *err)
{
	struct series_watch *w = &m->watches.at[series];
	uint32_t bit = 1u << w->role;
	size_t before = m->findings.n;
	/* Room for what detectors may raise, so that they need not fail. */
	enum plim_status st = vec_need(m->mem, &m->findings, 8, err);

	if (st)
		return st;
	summarise(w, step, value);
	if (w->role == PLIM_ROLE_OTHER && !w->course)
		return PLIM_OK;
	if (w->role == PLIM_ROLE_TRAIN_LOSS && m->train != SERIES_NONE &&
	    is_rather(w, &m->watches.at[m->train]))
		choose_monitor(m);
	for (size_t i = 0; i < series_detector_count; i++)
		if (series_detectors[i].roles & bit)
			series_detectors[i].look(m, series, step, value);
	if (m->findings.n > before)
		temper(m, before);
	if (isfinite(value))
		keep_monitor(m, w, step, value);
	if (w->course && w->course != SERIES_PLAYED && isfinite(value)) {
		bool untold = w->course == SERIES_UNTOLD;

		look_course(m, series, value);
		if (untold && w->course == SERIES_BY_COURSE && series == m->val &&
		    m->stop.patience != PLIM_UNKNOWN) {
			series_replay_stop(w, &m->stop);
			return PLIM_OK;
		}
	}
	if (series == m->val && m->stop.patience != PLIM_UNKNOWN) {
		m->stop.maximize = w->role == PLIM_ROLE_METRIC;
		plim_early_stop_feed(&m->stop, step, value);
	}
	return PLIM_OK;
}

/* ---- findings ---- */

struct series_finding *series_open(struct series_monitor *m, enum plim_curves_id id,
				   uint32_t series)
{
	uint32_t open = m->watches.at[series].open[id];

	return open ? &m->findings.at[open - 1] : NULL;
}

struct series_finding *series_raise(struct series_monitor *m, enum plim_curves_id id,
				    uint32_t series, double step, double detected)
{
	struct series_finding *f = series_open(m, id, series);
	size_t same = 0;

	if (f)
		return f;
	for (size_t i = 0; i < m->findings.n; i++)
		same += m->findings.at[i].id == (uint32_t)id;
	if (same >= SERIES_FINDINGS / 4 || m->findings.n >= m->findings.cap) {
		m->lost++;
		return NULL;
	}
	f = &m->findings.at[m->findings.n++];
	*f = (struct series_finding){ .id = id,
				      .series = series,
				      .severity = PLIM_SEVERITY_WARNING,
				      .step = step,
				      .detected = detected,
				      .end = NAN,
				      .other = SERIES_NONE };
	m->watches.at[series].open[id] = (uint32_t)m->findings.n;
	return f;
}

void series_end(struct series_monitor *m, enum plim_curves_id id, uint32_t series, double step)
{
	struct series_finding *f = series_open(m, id, series);

	if (f)
		f->end = step;
	m->watches.at[series].open[id] = 0;
}

void series_take_back(struct series_monitor *m, struct series_finding *f)
{
	if (!f)
		return;
	f->taken_back = 1;
	m->watches.at[f->series].open[f->id] = 0;
}

bool series_is_evaluated(const struct series_monitor *m, uint32_t series)
{
	uint32_t role = m->watches.at[series].role;
	enum series_side side;

	if (role == PLIM_ROLE_VAL_LOSS || !(1u << role & SERIES_EVALUATED))
		return role == PLIM_ROLE_VAL_LOSS;
	side = side_of(m, series);
	if (side != SERIES_NO_SIDE || m->watches.at[series].course == SERIES_PLAYED)
		return side == SERIES_EVALUATION;
	if (m->watches.at[series].course == SERIES_BY_COURSE)
		return true;
	if (has_evaluated_twin(m, series) || is_of_training(m, series))
		return false;
	/* Next to "loss" and "val_loss" one without a side is the training's. */
	return m->train == SERIES_NONE || m->val == SERIES_NONE ||
	       side_of(m, m->train) != SERIES_NO_SIDE || side_of(m, m->val) != SERIES_EVALUATION;
}

uint32_t series_better_later(const struct series_monitor *m, uint32_t series, double since,
			     double *best_step)
{
	bool by_course = m->watches.at[series].course == SERIES_BY_COURSE;

	for (uint32_t i = 0; i < m->watches.n; i++) {
		const struct series_watch *w = &m->watches.at[i];

		*best_step = series_best_step(w);
		if (i != series && w->finite > 1 && *best_step > since &&
		    (by_course || w->course != SERIES_BY_COURSE) && series_is_evaluated(m, i))
			return i;
	}
	*best_step = NAN;
	return SERIES_NONE;
}

/* Parts of a loss are watched as it is, but only what is not finite in them is reported. */
bool series_finding_counts(const struct series_monitor *m, const struct series_finding *f)
{
	bool part = m->watches.at[f->series].role == PLIM_ROLE_TRAIN_LOSS && f->series != m->train;

	return !f->taken_back && (!part || f->id == PLIM_CURVES_NAN || f->id == PLIM_CURVES_INF);
}

/* ---- a resume ---- */

static void rewind_history(struct series_history *h, double step)
{
	while (h->n && h->at[h->n - 1].last_step >= step)
		h->n--;
	h->open = (struct series_cell){ 0 };
}

static void rewind_watch(struct series_watch *w, double step)
{
	uint32_t at = w->ring_at;

	while (w->ring_n && w->ring_step[(at + SERIES_RING - 1) % SERIES_RING] >= step) {
		at = (at + SERIES_RING - 1) % SERIES_RING;
		w->ring_n--;
	}
	w->ring_at = at;
	w->stale = SERIES_RING;
	w->measured = 0;
	w->bad_run = w->zero_run = w->same_run = w->jumps = 0;
	w->sum = 0;
	w->level = 0;
	rewind_history(&w->history, step);
	w->last_step = w->ring_n ? w->ring_step[(at + SERIES_RING - 1) % SERIES_RING] : NAN;
	w->last = w->ring_n ? w->ring[(at + SERIES_RING - 1) % SERIES_RING] : NAN;
	if (w->min_step >= step || w->max_step >= step) {
		w->min = w->max = w->min_step = w->max_step = NAN;
		for (uint32_t i = 0; i < w->history.n; i++) {
			const struct series_cell *c = &w->history.at[i];

			if (!(w->min <= c->min)) {
				w->min = c->min;
				w->min_step = c->step;
			}
			if (!(w->max >= c->max)) {
				w->max = c->max;
				w->max_step = c->step;
			}
		}
	}
}

void series_monitor_rewind(struct series_monitor *m, double step)
{
	for (uint32_t i = 0; i < m->watches.n; i++)
		rewind_watch(&m->watches.at[i], step);
	for (size_t i = 0; i < m->findings.n; i++) {
		struct series_finding *f = &m->findings.at[i];

		if (f->step >= step && !f->taken_back) {
			f->taken_back = 1;
			m->watches.at[f->series].open[f->id] = 0;
		}
	}
	/* Patience goes on: what was spent on steps that are trained again was spent. */
	if (m->stop.stop_step >= step)
		m->stop.stop_step = NAN;
}

/* ---- saving ---- */

/*
 * u64 magic, u64 bytes in all, u64 XXH3 of what follows, then head, watches, findings, and of each
 * name its length (u32) and bytes.
 */
struct head {
	uint32_t watch_size, finding_size;
	uint32_t watches, findings;
	uint32_t train, val, stop_on, lost;
	struct plim_early_stop stop;
};

static uint8_t *put_monitor(uint8_t *to, const void *from, size_t n)
{
	if (n)
		memcpy(to, from, n);
	return to + n;
}

enum plim_status series_monitor_save(const struct series_monitor *m, void *at, size_t room,
				     size_t *n, struct plim_err *err)
{
	struct head h = { sizeof(struct series_watch),
			  sizeof(struct series_finding),
			  (uint32_t)m->watches.n,
			  (uint32_t)m->findings.n,
			  m->train,
			  m->val,
			  m->stop_on,
			  m->lost,
			  m->stop };
	uint64_t front[3] = { MAGIC, 0, 0 };
	uint8_t *p = at;

	*n = sizeof(front) + sizeof(h) + m->watches.n * sizeof(*m->watches.at) +
	     m->findings.n * sizeof(*m->findings.at);
	for (size_t i = 0; i < m->names.n; i++)
		*n += 4 + m->names.at[i].n;
	if (!at)
		return PLIM_OK;
	if (room < *n)
		return err_set(err, PLIM_E_ARG, "the monitor's state takes %zu bytes, not %zu", *n,
			       room);
	p += sizeof(front);
	p = put_monitor(p, &h, sizeof(h));
	p = put_monitor(p, m->watches.at, m->watches.n * sizeof(*m->watches.at));
	p = put_monitor(p, m->findings.at, m->findings.n * sizeof(*m->findings.at));
	for (size_t i = 0; i < m->names.n; i++) {
		p = put_monitor(p, &m->names.at[i].n, 4);
		p = put_monitor(p, m->names.at[i].bytes, m->names.at[i].n);
	}
	front[1] = *n;
	front[2] = XXH3_64bits((uint8_t *)at + sizeof(front), *n - sizeof(front));
	memcpy(at, front, sizeof(front));
	return PLIM_OK;
}

/* Every index that is followed later must be inside: the sum proves no more than that no one erred. */
static bool is_sane(const struct series_monitor *m)
{
	size_t n = m->watches.n;

	if ((m->train != SERIES_NONE && m->train >= n) || (m->val != SERIES_NONE && m->val >= n))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct series_watch *w = &m->watches.at[i];

		if (w->role >= PLIM_ROLE_COUNT || w->course > SERIES_PLAYED ||
		    w->ring_n > SERIES_RING || w->ring_at >= SERIES_RING ||
		    w->history.n >= SERIES_CELLS || !w->history.stride || w->skips > 8 ||
		    (w->pair != SERIES_NONE && w->pair >= n))
			return false;
		for (size_t j = 0; j < PLIM_CURVES_ID_COUNT; j++)
			if (w->open[j] > m->findings.n || w->level > m->findings.n)
				return false;
	}
	for (size_t i = 0; i < m->findings.n; i++) {
		const struct series_finding *f = &m->findings.at[i];

		if (f->id >= PLIM_CURVES_ID_COUNT || f->series >= n ||
		    f->severity > PLIM_SEVERITY_ERROR || (f->other != SERIES_NONE && f->other >= n))
			return false;
	}
	return m->stop.policy < 4 && m->stop.size == sizeof(m->stop);
}

static enum plim_status take_names(struct series_monitor *m, const uint8_t *p, const uint8_t *end,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	uint32_t n, id;

	for (size_t i = 0; !st && i < m->watches.n; i++) {
		if (end - p < 4)
			return err_set(err, PLIM_E_FORMAT, "the monitor's state is cut");
		memcpy(&n, p, 4);
		p += 4;
		if ((size_t)(end - p) < n)
			return err_set(err, PLIM_E_FORMAT, "the monitor's state is cut");
		st = intern_add(&m->names, p, n, &id, err);
		if (!st && id != i)
			return err_set(err, PLIM_E_FORMAT,
				       "the monitor's state names a series twice");
		p += n;
	}
	return st;
}

static enum plim_status take_monitor(struct series_monitor *m, const uint8_t *at, size_t n,
				     struct plim_err *err)
{
	struct head h;
	size_t watches, findings;
	enum plim_status st;

	memcpy(&h, at, sizeof(h));
	at += sizeof(h);
	n -= sizeof(h);
	watches = (size_t)h.watches * sizeof(*m->watches.at);
	findings = (size_t)h.findings * sizeof(*m->findings.at);
	if (h.watch_size != sizeof(*m->watches.at) || h.finding_size != sizeof(*m->findings.at))
		return err_set(err, PLIM_E_FORMAT, "the monitor's state is of another release");
	if (h.watches > SERIES_MAX || watches > n || findings > n - watches)
		return err_set(err, PLIM_E_FORMAT, "the monitor's state is cut");
	st = vec_need(m->mem, &m->watches, h.watches, err);
	if (!st)
		st = vec_need(m->mem, &m->findings, h.findings + 8, err);
	if (st)
		return st;
	if (watches)
		memcpy(m->watches.at, at, watches);
	if (findings)
		memcpy(m->findings.at, at + watches, findings);
	m->watches.n = h.watches;
	m->findings.n = h.findings;
	m->train = h.train;
	m->val = h.val;
	m->stop_on = h.stop_on;
	m->lost = h.lost;
	m->stop = h.stop;
	st = take_names(m, at + watches + findings, at + n, err);
	if (!st && !is_sane(m))
		st = err_set(err, PLIM_E_FORMAT, "the monitor's state contradicts itself");
	return st;
}

enum plim_status series_monitor_restore(struct series_monitor *m, const void *at, size_t n,
					struct plim_err *err)
{
	struct series_monitor fresh;
	uint64_t front[3];
	enum plim_status st;

	if (n < sizeof(front) + sizeof(struct head))
		return err_set(err, PLIM_E_FORMAT, "these %zu bytes are not a monitor's state", n);
	memcpy(front, at, sizeof(front));
	if (front[0] != MAGIC || front[1] != n)
		return err_set(err, PLIM_E_FORMAT, "these %zu bytes are not a monitor's state", n);
	if (front[2] != XXH3_64bits((const uint8_t *)at + sizeof(front), n - sizeof(front)))
		return err_set(err, PLIM_E_FORMAT,
			       "the monitor's state is damaged: its checksum is wrong");
	series_monitor_init(&fresh, m->mem);
	st = take_monitor(&fresh, (const uint8_t *)at + sizeof(front), n - sizeof(front), err);
	if (st) {
		series_monitor_release(&fresh);
		return st;
	}
	series_monitor_release(m);
	*m = fresh;
	return PLIM_OK;
}
