/*
 * What makes ranks differ.  Those of one program and about one size are a group; a rank is compared with its group alone, and
 * only reported where chance among that many ranks does not make it.
 */
#include "set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define RANKS_LEAST 8 /* below that nothing is usual */
#define GAP_PART 50   /* two neighbours further apart than a 50th are of different groups */
#define GROUP_LEAST 3 /* ranks, and at least a 20th of all */
#define GROUP_PART 20
#define FEW_PART 50 /* a program or release of its own is reported so many at most */
#define OUTLIERS_MAX 100
#define CHANCE_MOST 0.01  /* ranks that would be so far off by chance */
#define EFFECT_PART 0.03  /* and by so much of the usual that it matters */
#define SPREAD_PART 0.005 /* ranks that are alike differ by as much: rounding, messages */
#define BEYOND 5.0    /* times the distance from the middle to the 90th percentile beyond that */
#define STEPS_LEAST 2 /* ranks of one job stop a step apart */

/* ---- measures ---- */

enum measure { ALLOCATED, RESERVED, UNUSED, LEAK, STEPS, MEASURES };

static const char *const measure_names[MEASURES] = {
	[ALLOCATED] = "allocated_peak_bytes",
	[RESERVED] = "reserved_peak_bytes",
	[UNUSED] = "unused_bytes",
	[LEAK] = "leak_bytes",
	[STEPS] = "steps",
};

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* PLIM_UNKNOWN: it is not known. */
static uint64_t value_of(const struct plim_ranks_row *row, enum measure m)
{
	switch (m) {
	case ALLOCATED: return row->allocated_peak_bytes;
	case RESERVED: return row->reserved_peak_bytes;
	case UNUSED:
		return row->reserved_peak_bytes == PLIM_UNKNOWN
			       ? PLIM_UNKNOWN
			       : less(row->reserved_peak_bytes, row->allocated_peak_bytes);
	case LEAK: return row->leak_bytes == PLIM_UNKNOWN ? 0 : row->leak_bytes;
	case STEPS: return row->steps;
	case MEASURES:
	default: return PLIM_UNKNOWN;
	}
}

/* ---- groups ---- */

/* A rank that could be read. */
struct member {
	struct plim_ranks_row *row;
	size_t group; /* of struct differing's; GROUP_NONE */
	int core;     /* it makes the group what it is, and is not only nearest to it */
};
#define GROUP_NONE SIZE_MAX

struct differing {
	struct recording_set *set;
	struct lines *notes;
	struct member *members; /* by program, then by size */
	size_t n;
	size_t groups;
	VEC(struct plim_ranks_outlier) outliers;
	uint64_t *values; /* scratch of a group */
	struct plim_err *err;
};

static const char *text_or(const char *text)
{
	return text ? text : "";
}

static int by_program(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	uint64_t p = x->row->allocated_peak_bytes, q = y->row->allocated_peak_bytes;
	int c = strcmp(text_or(x->row->program), text_or(y->row->program));

	if (!c)
		c = (p > q) - (p < q);
	return c ? c : (x->row > y->row) - (x->row < y->row);
}

static size_t least_of(const struct differing *x)
{
	return x->n / GROUP_PART > GROUP_LEAST ? x->n / GROUP_PART : GROUP_LEAST;
}

static void make_group(struct differing *x, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++)
		x->members[i] = (struct member){ x->members[i].row, x->groups, 1 };
	x->groups++;
}

/* Where the one before is so much smaller that another group begins. */
static int is_gap(const struct differing *x, size_t i)
{
	uint64_t before = x->members[i - 1].row->allocated_peak_bytes;

	return x->members[i].row->allocated_peak_bytes - before > before / GAP_PART;
}

/* Members of one program: groups where most fall into some, else one of all. */
static void group_program(struct differing *x, size_t first, size_t end)
{
	size_t inside = 0, groups = x->groups;

	for (size_t i = first, begin = first; i < end; i++) {
		if (i + 1 < end && !is_gap(x, i + 1))
			continue;
		if (i + 1 - begin >= least_of(x)) {
			make_group(x, begin, i + 1);
			inside += i + 1 - begin;
		}
		begin = i + 1;
	}
	if (end - first < least_of(x) || inside >= (end - first) - (end - first) / 4)
		return;
	x->groups = groups;
	make_group(x, first, end);
}

static uint64_t far(const struct member *a, const struct member *b)
{
	uint64_t p = a->row->allocated_peak_bytes, q = b->row->allocated_peak_bytes;

	return p > q ? p - q : q - p;
}

/* Who is of no group is compared with the nearest of its program, or else of any. */
static void find_nearest(struct differing *x, struct member *m)
{
	const struct member *best = NULL;
	int best_same = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct member *other = &x->members[i];
		int same = !strcmp(text_or(other->row->program), text_or(m->row->program));

		if (other->core && (!best || same > best_same ||
				    (same == best_same && far(m, other) < far(m, best)))) {
			best = other;
			best_same = same;
		}
	}
	m->group = best ? best->group : GROUP_NONE;
}

static void find_groups(struct differing *x)
{
	sort_items(x->members, x->n, sizeof(*x->members), by_program);
	for (size_t i = 0, first = 0; i < x->n; i++) {
		if (i + 1 < x->n && !strcmp(text_or(x->members[i].row->program),
					    text_or(x->members[i + 1].row->program)))
			continue;
		group_program(x, first, i + 1);
		first = i + 1;
	}
	for (size_t i = 0; x->groups && i < x->n; i++)
		if (!x->members[i].core)
			find_nearest(x, &x->members[i]);
}

/* ---- what is usual in a group ---- */

struct usual {
	size_t n;
	double median, low, high; /* 10th and 90th percentile */
	double spread;            /* one standard deviation, were it normal */
	double effect;            /* less than that matters to no one */
};

static int differing_by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int by_distance(const void *a, const void *b)
{
	return differing_by_value(a, b);
}

static size_t collect_differing(struct differing *x, size_t group, enum measure m)
{
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		uint64_t v = value_of(x->members[i].row, m);

		if (x->members[i].group == group && x->members[i].core && v != PLIM_UNKNOWN)
			x->values[n++] = v;
	}
	sort_items(x->values, n, sizeof(*x->values), differing_by_value);
	return n;
}

static double value_at(const struct differing *x, size_t i)
{
	return (double)x->values[i];
}

/* Of what a measure's differences are a part: what is unused of all that is reserved, say. */
static double scale_of(struct differing *x, size_t group, enum measure m)
{
	enum measure of = m == UNUSED ? RESERVED : m == LEAK ? ALLOCATED : m;
	size_t n = collect_differing(x, group, of);

	return n ? value_at(x, (n - 1) / 2) : 0;
}

static struct usual usual_in(struct differing *x, size_t group, enum measure m)
{
	double scale = scale_of(x, group, m);
	struct usual u = { .n = collect_differing(x, group, m), .effect = EFFECT_PART * scale };
	double most;
	size_t n = u.n;

	if (!n)
		return u;
	u.median = value_at(x, (n - 1) / 2);
	u.low = value_at(x, (n - 1) / 10);
	u.high = value_at(x, n - 1 - (n - 1) / 10);
	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)x->values[i] - u.median);

		x->values[i] = (uint64_t)d;
	}
	sort_items(x->values, n, sizeof(*x->values), by_distance);
	u.spread = 1.4826 * value_at(x, (n - 1) / 2);
	most = (u.high - u.low) / 2.563; /* of a normal distribution as well */
	u.spread = most > u.spread ? most : u.spread;
	if (u.spread < SPREAD_PART * scale)
		u.spread = SPREAD_PART * scale;
	if (m == STEPS && u.effect < STEPS_LEAST)
		u.effect = STEPS_LEAST;
	return u;
}

/* ---- outliers ---- */

static double half_width(const struct usual *u, int above)
{
	double d = above ? u->high - u->median : u->median - u->low;

	return d > u->spread / 2 ? d : u->spread / 2;
}

/* How many of all ranks would be so far off by chance; more than CHANCE_MOST where it is nothing. */
static double chance_of(const struct differing *x, const struct usual *u, double v)
{
	double d = fabs(v - u->median), half = half_width(u, v > u->median);

	if (d < u->effect || d < half + BEYOND * half || u->spread <= 0)
		return 1;
	return erfc(d / u->spread / sqrt(2)) * (double)x->n;
}

static const struct plim_ranks_row *median_row(const struct differing *x, size_t group,
					       const struct usual *u)
{
	const struct plim_ranks_row *best = NULL;
	double best_far = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct member *m = &x->members[i];
		double d = fabs((double)m->row->allocated_peak_bytes - u->median);

		if (m->group == group && m->core && (!best || d < best_far)) {
			best = m->row;
			best_far = d;
		}
	}
	return best;
}

/* What the row holds there; of a list that is cut at most what its last one has. */
static uint64_t held_at(const struct plim_ranks_row *row, const char *frame)
{
	for (size_t i = 0; i < row->owner_count; i++)
		if (row->owners[i].frame && !strcmp(row->owners[i].frame, frame))
			return row->owners[i].bytes;
	return row->owner_count == RECORDING_OWNERS ? row->owners[RECORDING_OWNERS - 1].bytes : 0;
}

/* The line that makes most of the difference, if it makes a quarter. */
static void explain(struct plim_ranks_outlier *o, const struct plim_ranks_row *row,
		    const struct plim_ranks_row *median)
{
	int64_t most = (int64_t)(o->value - o->median) / 4;

	if (!median || o->value <= o->median)
		return;
	for (size_t i = 0; i < row->owner_count; i++) {
		const struct plim_ranks_owner *owner = &row->owners[i];
		int64_t more;

		if (!owner->frame)
			continue;
		more = (int64_t)(owner->bytes - held_at(median, owner->frame));
		if (more < most || more <= o->frame_bytes)
			continue;
		o->frame = owner->frame;
		o->frame_bytes = more;
	}
}

static enum plim_status add_differing(struct differing *x, const struct member *m,
				      struct plim_ranks_outlier one)
{
	one.row = (uint64_t)(m->row - x->set->out->rows);
	one.rank = m->row->rank;
	return vec_push(x->set->mem, &x->outliers, one, x->err);
}

static enum plim_status compare_differing(struct differing *x, size_t group, enum measure m)
{
	struct usual u = usual_in(x, group, m), peaks = usual_in(x, group, ALLOCATED);
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && u.n >= GROUP_LEAST && i < x->n; i++) {
		const struct member *member = &x->members[i];
		uint64_t v = value_of(member->row, m);
		struct plim_ranks_outlier one = { .measure = measure_names[m],
						  .value = v,
						  .median = (uint64_t)u.median };

		if (member->group != group || v == PLIM_UNKNOWN)
			continue;
		one.expected_by_chance = chance_of(x, &u, (double)v);
		if (one.expected_by_chance > CHANCE_MOST)
			continue;
		if (m != STEPS)
			explain(&one, member->row, median_row(x, group, &peaks));
		st = add_differing(x, member, one);
	}
	return st;
}

/* A text of a row, to find equal ones. */
struct texted {
	const char *text;
	size_t member;
};

static int by_text(const void *a, const void *b)
{
	const struct texted *x = a, *y = b;
	int c = strcmp(x->text, y->text);

	return c ? c : (x->member > y->member) - (x->member < y->member);
}

/* Those whose text so few have, at the front; their number. */
static size_t keep_few(struct texted *all, size_t n, size_t few)
{
	size_t kept = 0;

	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && !strcmp(all[end].text, all[i].text);)
			end++;
		if (end - i > few || !*all[i].text)
			continue;
		for (size_t k = i; k < end; k++)
			all[kept++] = all[k];
	}
	return kept;
}

/* Ranks that have a text of their own, where few do. */
static enum plim_status compare_texts(struct differing *x, const char *measure, size_t offset)
{
	size_t few = x->n / FEW_PART > 1 ? x->n / FEW_PART : 1, n = x->n;
	struct texted *all = mem_new(x->set->mem, x->n, sizeof(*all), x->err);
	enum plim_status st = all ? PLIM_OK : mem_status(x->err);

	for (size_t i = 0; !st && i < n; i++) {
		memcpy(&all[i].text, (const char *)x->members[i].row + offset, sizeof(char *));
		all[i] = (struct texted){ text_or(all[i].text), i };
	}
	if (!st) {
		sort_items(all, n, sizeof(*all), by_text);
		n = keep_few(all, n, few);
	}
	for (size_t i = 0; !st && n <= few && i < n; i++)
		st = add_differing(x, &x->members[all[i].member],
				   (struct plim_ranks_outlier){ .measure = measure,
								.value = PLIM_UNKNOWN,
								.median = PLIM_UNKNOWN });
	mem_free(x->set->mem, all, x->n, sizeof(*all));
	return st;
}

static double off_by(const struct plim_ranks_outlier *o)
{
	double of = o->median && o->median != PLIM_UNKNOWN ? (double)o->median : 1;

	return o->value == PLIM_UNKNOWN ? 0 : fabs((double)o->value - (double)o->median) / of;
}

#define CERTAIN 1e-6 /* less is as certain */

/* What explains most first. */
static size_t weight_of(const struct plim_ranks_outlier *o)
{
	static const enum measure order[] = { LEAK, ALLOCATED, RESERVED, UNUSED, STEPS };
	size_t i = 0;

	while (i < MEASURES && strcmp(o->measure, measure_names[order[i]]))
		i++;
	return i;
}

static double chance_to_sort(const struct plim_ranks_outlier *o)
{
	return o->expected_by_chance < CERTAIN ? 0 : o->expected_by_chance;
}

static int by_chance(const void *a, const void *b)
{
	const struct plim_ranks_outlier *x = a, *y = b;
	double p = off_by(x), q = off_by(y);
	size_t v = weight_of(x), w = weight_of(y);
	int c = (chance_to_sort(x) > chance_to_sort(y)) - (chance_to_sort(x) < chance_to_sort(y));

	if (!c)
		c = (v > w) - (v < w);
	if (!c)
		c = (p < q) - (p > q);
	if (!c)
		c = (x->row > y->row) - (x->row < y->row);
	return c ? c : strcmp(x->measure, y->measure);
}

static enum plim_status find_outliers(struct differing *x)
{
	struct plim_ranks *k = x->set->out;
	enum plim_status st = PLIM_OK;

	for (size_t g = 0; g < x->groups; g++)
		for (int m = 0; !st && m < MEASURES; m++)
			st = compare_differing(x, g, (enum measure)m);
	if (!st)
		st = compare_texts(x, "program", offsetof(struct plim_ranks_row, program));
	if (!st)
		st = compare_texts(x, "release", offsetof(struct plim_ranks_row, release));
	if (st)
		return st;
	sort_items(x->outliers.at, x->outliers.n, sizeof(*x->outliers.at), by_chance);
	k->outlier_count = x->outliers.n < OUTLIERS_MAX ? x->outliers.n : OUTLIERS_MAX;
	k->outliers = arena_take(x->set->arena, k->outlier_count, sizeof(*k->outliers), x->err);
	if (!k->outliers)
		return mem_status(x->err);
	if (k->outlier_count)
		memcpy(k->outliers, x->outliers.at, k->outlier_count * sizeof(*k->outliers));
	return PLIM_OK;
}

/* ---- the layout ---- */

#define DIMENSIONS_MAX 8

struct layout {
	struct {
		char name[16];
		uint64_t size;
	} at[DIMENSIONS_MAX]; /* the one whose neighbours follow each other first */
	size_t n;
};

static enum plim_status bad_layout(const char *text, struct plim_err *err)
{
	return err_set(err, PLIM_E_ARG,
		       "options.layout takes NAME=SIZE,..., the innermost first (tp=8,dp=32,pp=4), "
		       "not '%.100s'",
		       text);
}

static enum plim_status parse_layout(const char *text, struct layout *l, struct plim_err *err)
{
	const char *p = text;

	l->n = 0;
	while (p && *p) {
		unsigned long long size = 0;
		int used = 0;

		if (l->n == DIMENSIONS_MAX ||
		    sscanf(p, "%15[a-z]=%8llu%n", l->at[l->n].name, &size, &used) != 2 || !size ||
		    (p[used] && p[used] != ','))
			return bad_layout(text, err);
		l->at[l->n++].size = size;
		p += used + (p[used] == ',');
	}
	return PLIM_OK;
}

static uint64_t coordinate(const struct layout *l, size_t dimension, uint64_t rank)
{
	for (size_t i = 0; i < dimension; i++)
		rank /= l->at[i].size;
	return rank % l->at[dimension].size;
}

/* "pp 2, dp 0, tp 5", the outermost first. */
static enum plim_status place_rows(struct differing *x, const struct layout *l)
{
	for (size_t i = 0; l->n && i < x->n; i++) {
		struct plim_ranks_row *row = x->members[i].row;
		char text[DIMENSIONS_MAX * 40] = "";

		if (row->rank == PLIM_UNKNOWN)
			continue;
		for (size_t d = l->n; d-- > 0;)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %llu",
				 *text ? ", " : "", l->at[d].name,
				 (unsigned long long)coordinate(l, d, row->rank));
		row->place = set_keep(x->set, text, x->err);
		if (!row->place)
			return mem_status(x->err);
	}
	return PLIM_OK;
}

/* Is "pp 2" one of "pp 2, dp 0, tp 5"? */
static int is_part(const char *place, const char *part, size_t n)
{
	for (const char *at = place; at && *at;) {
		size_t m = strcspn(at, ",");

		if (m == n && !strncmp(at, part, n))
			return 1;
		at += m + strspn(at + m, ", ");
	}
	return 0;
}

/* Do all of a group have that part of their place, and no one else, of whom there are some? */
static int is_own(const struct differing *x, size_t group, const char *part, size_t n)
{
	int others = 0;

	for (size_t i = 0; i < x->n; i++) {
		const struct member *m = &x->members[i];
		int has = m->row->place && is_part(m->row->place, part, n);

		if (m->core && m->row->place && has != (m->group == group))
			return 0;
		others |= m->row->place && !has;
	}
	return others;
}

/* What of their place all of a group have in common, and no one else, the outermost first. */
static const char *name_group(struct differing *x, size_t group)
{
	const char *place = NULL;

	for (size_t i = 0; i < x->n && !place; i++)
		if (x->members[i].core && x->members[i].group == group)
			place = x->members[i].row->place;
	for (const char *at = place; at && *at;) {
		size_t n = strcspn(at, ",");

		if (is_own(x, group, at, n))
			return arena_text(x->set->arena, x->err, "%.*s", (int)n, at);
		at += n + strspn(at + n, ", ");
	}
	return NULL;
}

static int differing_by_size(const void *a, const void *b)
{
	const struct plim_ranks_group *x = a, *y = b;

	if (x->ranks != y->ranks)
		return x->ranks > y->ranks ? -1 : 1;
	return (x->first_row > y->first_row) - (x->first_row < y->first_row);
}

static enum plim_status tell_groups(struct differing *x)
{
	struct plim_ranks *k = x->set->out;

	k->groups = arena_take(x->set->arena, x->groups, sizeof(*k->groups), x->err);
	if (!k->groups)
		return mem_status(x->err);
	k->group_count = x->groups;
	for (size_t g = 0; g < x->groups; g++) {
		struct plim_ranks_group *group = &k->groups[g];

		*group = (struct plim_ranks_group){
			.first_row = PLIM_UNKNOWN,
			.allocated_bytes = (uint64_t)usual_in(x, g, ALLOCATED).median,
			.name = name_group(x, g)
		};
		for (size_t i = 0; i < x->n; i++) {
			uint64_t row = (uint64_t)(x->members[i].row - k->rows);

			if (x->members[i].group != g)
				continue;
			group->ranks++;
			group->first_row = row < group->first_row ? row : group->first_row;
		}
		group->first_rank = k->rows[group->first_row].rank;
	}
	sort_items(k->groups, k->group_count, sizeof(*k->groups), differing_by_size);
	return PLIM_OK;
}

/* ---- the sentence ---- */

static void who(struct text *t, const struct plim_ranks_row *row)
{
	if (row->rank == PLIM_UNKNOWN)
		text_puts(t, row->member ? row->member : row->path ? row->path : "one");
	else
		text_printf(t, "rank %llu", (unsigned long long)row->rank);
	if (row->place)
		text_printf(t, " (%s)", row->place);
}

static void differing_number(struct text *t, const struct plim_ranks_outlier *o, uint64_t v)
{
	if (!strcmp(o->measure, "steps"))
		text_printf(t, "%llu", (unsigned long long)v);
	else
		text_bytes(t, v);
}

static void difference(struct text *t, const struct plim_ranks_outlier *o)
{
	static const char *const words[][2] = {
		{ "allocated_peak_bytes", "allocated" },
		{ "reserved_peak_bytes", "reserved" },
		{ "unused_bytes", "reserved but unused" },
		{ "leak_bytes", "leaked" },
		{ "steps", "steps" },
	};
	const char *word = o->measure;

	if (o->value == PLIM_UNKNOWN) {
		text_printf(t, "its %s is another one", o->measure);
		return;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		word = strcmp(words[i][0], word) ? word : words[i][1];
	differing_number(t, o, o->value);
	text_printf(t, " %s where the others of its group have ", word);
	differing_number(t, o, o->median);
	if (!o->frame)
		return;
	text_puts(t, ", ");
	text_bytes(t, (uint64_t)o->frame_bytes);
	text_printf(t, " of it at %s", o->frame);
}

static enum plim_status put_in_words(struct differing *x)
{
	struct plim_ranks *k = x->set->out;

	for (size_t i = 0; i < k->outlier_count; i++) {
		struct text t;

		text_init(&t, x->set->mem, NULL);
		difference(&t, &k->outliers[i]);
		k->outliers[i].says = set_keep(x->set, text_get(&t), x->err);
		text_release(&t);
		if (!k->outliers[i].says)
			return mem_status(x->err);
	}
	return PLIM_OK;
}

static const struct plim_ranks_outlier *outlier_of(const struct plim_ranks *k, uint64_t row)
{
	for (size_t i = 0; i < k->outlier_count; i++)
		if (k->outliers[i].row == row)
			return &k->outliers[i];
	return NULL;
}

static void death(struct text *t, const struct plim_ranks *k)
{
	const struct plim_ranks_row *row = &k->rows[k->first_death->row];
	const struct plim_ranks_outlier *o = outlier_of(k, k->first_death->row);

	who(t, row);
	text_puts(t, " died first: ");
	text_bytes(t, row->died->requested_bytes);
	text_puts(t, " was refused");
	if (row->died->phase)
		text_printf(t, " in %s", row->died->phase);
	text_printf(t, ", %s", recording_cause_words(row->died->cause));
	if (o) {
		text_puts(t, "; different about it: ");
		difference(t, o);
	} else if (k->group_count) {
		text_puts(t, "; nothing about it differs from its group by more than chance");
	}
}

static enum plim_status tell_sentence(struct differing *x)
{
	struct plim_ranks *k = x->set->out;
	struct text t;

	if (!k->read)
		return PLIM_OK;
	text_init(&t, x->set->mem, NULL);
	if (k->first_death) {
		death(&t, k);
	} else {
		text_puts(&t, k->died ? "which rank died first is not known" : "no rank died");
		if (k->outlier_count) {
			text_puts(&t, "; ");
			who(&t, &k->rows[k->outliers[0].row]);
			text_puts(&t, " differs most: ");
			difference(&t, &k->outliers[0]);
		}
	}
	k->sentence = set_keep(x->set, text_get(&t), x->err);
	text_release(&t);
	return k->sentence ? PLIM_OK : mem_status(x->err);
}

/* ---- notes ---- */

static void note_missing(const struct differing *x)
{
	const struct plim_ranks *k = x->set->out;
	uint64_t missing = 0, first = PLIM_UNKNOWN, next = 0;

	for (size_t i = 0; i < k->row_count && k->rows[i].rank != PLIM_UNKNOWN; i++) {
		uint64_t rank = k->rows[i].rank;

		if (rank > next && rank - next < SET_ITEMS_MAX) {
			first = first == PLIM_UNKNOWN ? next : first;
			missing += rank - next;
		}
		next = rank >= next ? rank + 1 : next;
	}
	if (missing && missing <= k->row_count / 2) /* else a few were chosen */
		lines_add(x->notes, "%llu rank%s no recording (first: rank %llu)",
			  (unsigned long long)missing, missing == 1 ? " has" : "s have",
			  (unsigned long long)first);
}

static void note_releases(const struct differing *x)
{
	const char *first = NULL, *other = NULL;
	size_t n = 0;

	for (size_t i = 0; i < x->n; i++) {
		const char *release = x->members[i].row->release;

		first = first ? first : release;
		if (!release || !strcmp(release, first))
			continue;
		other = other ? other : release;
		n++;
	}
	if (other)
		lines_add(x->notes,
			  "the recordings are of different releases of PyTorch: %s, and %s (%zu of "
			  "%zu)",
			  first, other, n, x->n);
}

/* ---- all ---- */

static enum plim_status take_members(struct differing *x)
{
	struct plim_ranks *k = x->set->out;

	x->members = mem_new(x->set->mem, k->row_count, sizeof(*x->members), x->err);
	x->values = mem_new(x->set->mem, k->row_count, sizeof(*x->values), x->err);
	if (!x->members || !x->values)
		return mem_status(x->err);
	for (size_t i = 0; i < k->row_count; i++)
		if (!k->rows[i].error && k->rows[i].allocated_peak_bytes != PLIM_UNKNOWN)
			x->members[x->n++] =
				(struct member){ .row = &k->rows[i], .group = GROUP_NONE };
	return PLIM_OK;
}

enum plim_status recording_set_differ(struct recording_set *s, struct lines *notes,
				      struct plim_err *err)
{
	struct differing x = { .set = s, .notes = notes, .err = err };
	struct layout layout;
	enum plim_status st = parse_layout(s->options->layout, &layout, err);

	if (!st)
		st = take_members(&x);
	if (!st)
		st = place_rows(&x, &layout);
	if (!st && x.n >= RANKS_LEAST) {
		find_groups(&x);
		st = tell_groups(&x);
		if (!st)
			st = find_outliers(&x);
	}
	if (!st)
		st = put_in_words(&x);
	if (!st) {
		note_missing(&x);
		note_releases(&x);
		st = tell_sentence(&x);
	}
	mem_free(s->mem, x.values, s->out->row_count, sizeof(*x.values));
	mem_free(s->mem, x.members, s->out->row_count, sizeof(*x.members));
	vec_release(s->mem, &x.outliers);
	return st;
}
