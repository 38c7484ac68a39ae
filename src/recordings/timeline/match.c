/*
 * Which places of one recording are those of another, when the program was edited or moved between
 * them.  Files are matched by the end of their paths, functions by name, and lines by shifts: an edit
 * moves all that stands below it by the same number of lines, so a file is taken as a few pieces that
 * moved by one shift each, those that make most lines meet.
 *
 * A line is matched only on such evidence.  In a file that was not edited nothing moved, and another
 * line of the same function is another place.
 */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE 64      /* lines of either recording whose shifts vote: n log n for any input */
#define SHIFTS 16      /* of a file, that are tried: as many edits of different size */
#define COMPONENTS 256 /* folders of a path that are compared */

/* What a line that meets another is worth, and what it costs to assume an edit: more than one line. */
#define MEETS 2
#define EDIT 3
#define BEGIN_EDITED 1 /* an edit above the first line, which is above all others too */

/* ---- strings and files ---- */

/* A file or function's name that both have is the number it has in A. */
static uint32_t shared_string(const struct timeline_matching *x, int side, uint32_t string)
{
	const struct pickle_heap *heap = &x->snapshot[0]->heap;
	const char *text;
	uint32_t same;

	if (!side || string == TRACE_NONE)
		return string;
	text = snapshot_text(x->snapshot[1], string);
	same = intern_find(&heap->strings, text, x->snapshot[1]->heap.strings.at[string].n);
	return same == INTERN_NONE ? (uint32_t)heap->strings.n + string : same;
}

struct file {
	const char *path;
	size_t n;
	uint32_t string;
	uint32_t shared; /* from the end, folders and name that the next one of the list has too */
	uint8_t side;
};

/* By component from the last to the first, so that paths with a common end stand together. */
static uint32_t common_end(const struct file *a, const struct file *b, int *order)
{
	size_t i = a->n, j = b->n;
	uint32_t components = 0;

	while (i && j && a->path[i - 1] == b->path[j - 1]) {
		components += a->path[i - 1] == '/' && components < COMPONENTS;
		i--;
		j--;
	}
	*order = i && j ? (uint8_t)a->path[i - 1] - (uint8_t)b->path[j - 1] : (i > j) - (i < j);
	/* the last one is whole if it begins in both */
	if ((!i || a->path[i - 1] == '/') && (!j || b->path[j - 1] == '/'))
		components += components < COMPONENTS && i < a->n && a->path[i] != '/';
	return components;
}

static int by_end(const void *a, const void *b)
{
	const struct file *x = a, *y = b;
	int order;

	common_end(x, y, &order);
	return order                ? order
	       : x->side != y->side ? x->side - y->side
				    : (x->string > y->string) - (x->string < y->string);
}

/* Files of one common end while the list is walked: how many of each side, and the last of them. */
struct ending {
	uint32_t shared, n[2], file[2];
};

static void close_ending(struct ending *e, const struct file *files, uint32_t *file_of)
{
	if (e->n[0] != 1 || e->n[1] != 1)
		return;
	file_of[files[e->file[1]].string] = files[e->file[0]].string;
	e->n[0] = e->n[1] = 0;
}

static void join_ending(struct ending *into, const struct ending *e)
{
	for (int s = 0; s < 2; s++) {
		into->n[s] += e->n[s];
		into->file[s] = e->n[s] ? e->file[s] : into->file[s];
	}
}

/*
 * The longest common end decides, if it is of one file of each: those that share the most are closed
 * first.  A stack of endings, each within the one below it.
 */
static void match_files(const struct file *files, size_t n, uint32_t *file_of)
{
	struct ending open[COMPONENTS + 2] = { { 0 } };
	size_t top = 0;

	for (size_t i = 0; i < n; i++) {
		struct ending node = { 0 };

		node.n[files[i].side] = 1;
		node.file[files[i].side] = (uint32_t)i;
		while (open[top].shared > files[i].shared) {
			join_ending(&open[top], &node);
			close_ending(&open[top], files, file_of);
			node = open[top--];
		}
		if (open[top].shared == files[i].shared) {
			join_ending(&open[top], &node);
		} else {
			node.shared = files[i].shared;
			open[++top] = node;
		}
	}
}

enum { SEEN = 1, IN_BOTH };

/* Files that only one of both has; file_of gets what the others are in A.  Returns how many. */
static size_t list_files(const struct timeline_matching *x, uint8_t *in_a, uint32_t *file_of,
			 struct file *files)
{
	size_t n = 0, kept = 0;

	for (int side = 0; side < 2; side++) {
		const struct snapshot *t = x->snapshot[side];

		for (uint32_t f = 0; f < t->frames.n; f++) {
			uint32_t string = snapshot_frame(t, f)->filename, same;
			const struct intern_entry *e;

			if (string == TRACE_NONE ||
			    (side ? file_of[string] != TRACE_NONE : in_a[string]))
				continue;
			same = shared_string(x, side, string);
			e = &t->heap.strings.at[string];
			if (side)
				file_of[string] = same;
			if (same < x->snapshot[0]->heap.strings.n) {
				if (!side || in_a[same] == SEEN)
					in_a[same]++;
				if (side && in_a[same] == IN_BOTH)
					continue;
			}
			files[n++] = (struct file){ (const char *)e->bytes, e->n, string, 0,
						    (uint8_t)side };
		}
	}
	for (size_t i = 0; i < n; i++)
		if (files[i].side || in_a[files[i].string] != IN_BOTH)
			files[kept++] = files[i];
	return kept;
}

/* file_of: of each string of B that is a file, the one of A, or a number of its own. */
static enum plim_status find_files(const struct timeline_matching *x, uint32_t *file_of,
				   struct plim_err *err)
{
	size_t strings = x->snapshot[0]->heap.strings.n, frames = x->frames[0] + x->frames[1], n;
	uint8_t *in_a = mem_new(x->mem, strings, 1, err);
	struct file *files = in_a ? mem_new(x->mem, frames, sizeof(*files), err) : NULL;
	enum plim_status st = files ? PLIM_OK : mem_status(err);

	n = st ? 0 : list_files(x, in_a, file_of, files);
	if (n) {
		int order;

		sort_items(files, n, sizeof(*files), by_end);
		for (size_t i = 0; i + 1 < n; i++)
			files[i].shared = common_end(&files[i], &files[i + 1], &order);
		match_files(files, n, file_of);
	}
	mem_free(x->mem, files, frames, sizeof(*files));
	mem_free(x->mem, in_a, strings, 1);
	return st;
}

/* ---- lines ---- */

struct line {
	uint32_t file, function;
	int64_t line; /* 0: not known */
	uint32_t frame;
};

struct span {
	const struct line *at;
	size_t n;
};

struct aligning {
	struct timeline_matching *x;
	int64_t *votes;   /* SAMPLE for each line of either */
	uint8_t *came_by; /* SHIFTS for each line of A: the shift of the line before it */
};

static int by_line(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static int by_shift(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The shifts between a sample of `of` and all of `to`; `sign` when they run from B to A. */
static size_t vote(int64_t *votes, struct span of, struct span to, int sign)
{
	size_t step = (of.n + SAMPLE - 1) / SAMPLE, n = 0;

	for (size_t i = 0; i < of.n; i += step)
		for (size_t k = 0; k < to.n; k++)
			if (of.at[i].function == to.at[k].function)
				votes[n++] = sign * (to.at[k].line - of.at[i].line);
	return n;
}

struct shift {
	int64_t lines;
	size_t votes;
};

/* Most votes first, then the least movement. */
static int better_shift(const struct shift *x, const struct shift *y)
{
	if (x->votes != y->votes)
		return x->votes > y->votes;
	return llabs(x->lines) < llabs(y->lines);
}

/* The shifts that most votes are for, 0 among them; how many. */
static size_t find_shifts(const struct aligning *g, struct span a, struct span b,
			  struct shift best[SHIFTS])
{
	size_t n = vote(g->votes, a, b, 1), found = 1;

	if (a.n > SAMPLE || b.n > SAMPLE)
		n += vote(g->votes + n, b, a, -1);
	sort_items(g->votes, n, sizeof(*g->votes), by_shift);
	best[0] = (struct shift){ 0, SIZE_MAX };
	for (size_t i = 0, end; i < n; i = end) {
		struct shift now = { g->votes[i], 0 };
		size_t at = found < SHIFTS ? found : SHIFTS - 1;

		for (end = i; end < n && g->votes[end] == now.lines; end++)
			;
		now.votes = end - i;
		if (!now.lines || (found == SHIFTS && !better_shift(&now, &best[at])))
			continue;
		for (; at > 1 && better_shift(&now, &best[at - 1]); at--)
			best[at] = best[at - 1];
		best[at] = now;
		found += found < SHIFTS;
	}
	return found;
}

/* The line of B to which `shift` takes a line of A, or NULL. */
static const struct line *line_at(struct span b, const struct line *of, int64_t shift)
{
	size_t low = 0, high = b.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct line *l = &b.at[mid];

		if (l->line == of->line + shift && l->function == of->function)
			return l;
		if (l->line < of->line + shift ||
		    (l->line == of->line + shift && l->function < of->function))
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

/* The best way to have come to `line` with shift k, from any shift of the line before it; its score. */
static int64_t step_to(const struct shift *shifts, size_t n, const int64_t *score, size_t k,
		       const struct line *before, const struct line *line, uint8_t *from)
{
	int64_t best = score[k];

	*from = (uint8_t)k;
	for (size_t j = 0; j < n; j++) {
		/* lines stay in their order */
		if (line->line + shifts[k].lines <= before->line + shifts[j].lines ||
		    score[j] - EDIT <= best)
			continue;
		best = score[j] - EDIT;
		*from = (uint8_t)j;
	}
	return best;
}

/*
 * A file's lines from top to bottom, each under the shift that makes most lines of the whole file meet:
 * a line that meets counts, an edit between two lines costs.
 */
static void align(const struct aligning *g, struct span a, struct span b)
{
	struct shift shifts[SHIFTS];
	size_t n = find_shifts(g, a, b, shifts), at = 0;
	int64_t score[SHIFTS] = { 0 }, next[SHIFTS];

	for (size_t i = 0; i < a.n; i++) {
		for (size_t k = 0; k < n; k++) {
			uint8_t *from = &g->came_by[i * SHIFTS + k];

			next[k] = i ? step_to(shifts, n, score, k, &a.at[i - 1], &a.at[i], from)
				    : -(int64_t)(k != 0) * BEGIN_EDITED;
			next[k] += line_at(b, &a.at[i], shifts[k].lines) ? MEETS : 0;
		}
		memcpy(score, next, n * sizeof(*score));
	}
	for (size_t k = 1; k < n; k++)
		at = score[k] > score[at] ? k : at;
	for (size_t i = a.n; i-- > 0; at = g->came_by[i * SHIFTS + at]) {
		const struct line *same = line_at(b, &a.at[i], shifts[at].lines);

		if (!same)
			continue;
		g->x->place[1][same->frame] = a.at[i].frame;
		g->x->moved[same->frame] = shifts[at].lines != 0;
	}
}

static struct span next_file(const struct line *lines, size_t n, size_t *at)
{
	size_t from = *at;

	while (*at < n && lines[*at].file == lines[from].file)
		(*at)++;
	return (struct span){ lines + from, *at - from };
}

static void align_files(const struct aligning *g, struct line *const lines[2])
{
	size_t n[2] = { g->x->frames[0], g->x->frames[1] }, at[2] = { 0, 0 };

	while (at[0] < n[0] && at[1] < n[1]) {
		uint32_t a = lines[0][at[0]].file, b = lines[1][at[1]].file;
		struct span one, other;

		if (a == b) {
			one = next_file(lines[0], n[0], &at[0]);
			other = next_file(lines[1], n[1], &at[1]);
			align(g, one, other);
		} else if (a < b) {
			next_file(lines[0], n[0], &at[0]);
		} else {
			next_file(lines[1], n[1], &at[1]);
		}
	}
}

/* ---- together ---- */

static enum plim_status number_functions(struct timeline_matching *x, const uint32_t *file_of,
					 struct line *const lines[2], struct plim_err *err)
{
	struct intern functions;
	enum plim_status st = PLIM_OK;

	intern_init(&functions, x->mem);
	for (int side = 0; side < 2; side++) {
		for (uint32_t f = 0; !st && f < x->frames[side]; f++) {
			const struct snapshot_frame *frame = snapshot_frame(x->snapshot[side], f);
			struct line *l = &lines[side][f];
			uint32_t key[2];

			l->file = side && frame->filename != TRACE_NONE ? file_of[frame->filename]
									: frame->filename;
			if (side)
				x->file[f] = l->file;
			l->function = shared_string(x, side, frame->name);
			l->line = frame->line == TRACE_NONE ? 0 : frame->line;
			l->frame = f;
			key[0] = l->file;
			key[1] = l->function;
			x->name[side][f] = l->function;
			st = intern_add(&functions, key, sizeof(key), &x->function[side][f], err);
		}
		if (x->frames[side])
			sort_items(lines[side], x->frames[side], sizeof(**lines), by_line);
	}
	intern_release(&functions);
	return st;
}

static enum plim_status take_match(struct timeline_matching *x, struct line *lines[2],
				   struct aligning *g, uint32_t **file_of, struct plim_err *err)
{
	for (int side = 0; side < 2; side++) {
		size_t n = x->frames[side];

		lines[side] = mem_new(x->mem, n, sizeof(**lines), err);
		x->place[side] = mem_new(x->mem, n, sizeof(uint32_t), err);
		x->function[side] = mem_new(x->mem, n, sizeof(uint32_t), err);
		x->name[side] = mem_new(x->mem, n, sizeof(uint32_t), err);
		if (!lines[side] || !x->place[side] || !x->function[side] || !x->name[side])
			return mem_status(err);
	}
	g->votes = mem_new(x->mem, SAMPLE * (x->frames[0] + x->frames[1]), sizeof(*g->votes), err);
	g->came_by = mem_new(x->mem, x->frames[0], SHIFTS, err);
	*file_of = mem_new(x->mem, x->snapshot[1]->heap.strings.n, sizeof(**file_of), err);
	x->moved = mem_new(x->mem, x->frames[1], 1, err);
	x->file = mem_new(x->mem, x->frames[1], sizeof(*x->file), err);
	return g->votes && g->came_by && *file_of && x->moved && x->file ? PLIM_OK
									 : mem_status(err);
}

enum plim_status timeline_match(struct mem *m, const struct snapshot *a, const struct snapshot *b,
				struct timeline_matching *x, struct plim_err *err)
{
	struct line *lines[2] = { NULL, NULL };
	struct aligning g = { .x = x };
	uint32_t *file_of = NULL;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	*x = (struct timeline_matching){ .mem = m,
					 .snapshot = { a, b },
					 .frames = { a->frames.n, b->frames.n } };
	st = take_match(x, lines, &g, &file_of, err);
	if (!st) {
		memset(file_of, 0xff, b->heap.strings.n * sizeof(*file_of));
		st = find_files(x, file_of, err);
	}
	if (!st)
		st = number_functions(x, file_of, lines, err);
	for (uint32_t f = 0; !st && f < x->frames[0]; f++)
		x->place[0][f] = f;
	for (uint32_t f = 0; !st && f < x->frames[1]; f++)
		x->place[1][f] = (uint32_t)x->frames[0] + f;
	if (!st)
		align_files(&g, lines);
	mem_free(m, g.votes, SAMPLE * (x->frames[0] + x->frames[1]), sizeof(*g.votes));
	mem_free(m, g.came_by, x->frames[0], SHIFTS);
	mem_free(m, file_of, b->heap.strings.n, sizeof(*file_of));
	for (int side = 0; side < 2; side++)
		mem_free(m, lines[side], x->frames[side], sizeof(**lines));
	if (st)
		timeline_matching_release(x);
	return st;
}

void timeline_matching_release(struct timeline_matching *x)
{
	for (int side = 0; side < 2 && x->mem; side++) {
		mem_free(x->mem, x->place[side], x->frames[side], sizeof(uint32_t));
		mem_free(x->mem, x->function[side], x->frames[side], sizeof(uint32_t));
		mem_free(x->mem, x->name[side], x->frames[side], sizeof(uint32_t));
	}
	if (x->mem) {
		mem_free(x->mem, x->moved, x->frames[1], 1);
		mem_free(x->mem, x->file, x->frames[1], sizeof(*x->file));
	}
	*x = (struct timeline_matching){ 0 };
}
