/* The stacks of a window: what the main thread did in how many of them, and where that was. */
#include "watch/stack.h"

#include <stdio.h>

#define LEAST_LOOKS 5   /* that shares are reported */
#define MOST_PLACES 32u /* different ones of a window that are counted */
#define REDACTED "file-"

/* ---- adding ---- */

static bool is_redacted(const char *text, size_t n)
{
	return memmem(text, n, "\n" REDACTED, strlen("\n" REDACTED)) ||
	       (n > strlen(REDACTED) && !memcmp(text, REDACTED, strlen(REDACTED)));
}

enum plim_status watch_stacks_add(struct mem *m, struct watch_stacks *to, bool worker,
				  uint32_t count, enum watch_does told, const char *text, size_t n,
				  struct plim_err *err)
{
	struct watch_stack s = { .count = count, .worker = worker, .at = to->text.n, .n = n };
	enum plim_status st;

	for (size_t i = 0; i < to->stack.n; i++) {
		struct watch_stack *k = &to->stack.at[i];

		if (k->worker == worker && k->n == n && !memcmp(to->text.at + k->at, text, n)) {
			k->count += count;
			return PLIM_OK;
		}
	}
	if (to->stack.n == WATCH_STACKS || n > WATCH_STACK_TEXT)
		return PLIM_OK;
	s.does =
		told != WATCH_DOES_COUNT && is_redacted(text, n) ? told : watch_does_judge(text, n);
	st = vec_need(m, &to->text, n, err);
	if (st)
		return st;
	memcpy(to->text.at + to->text.n, text, n);
	to->text.n += n;
	return vec_push(m, &to->stack, s, err);
}

/* ---- places ---- */

static void copy_watch_place(char *to, size_t room, const char *from, size_t n)
{
	size_t skip = n < room ? 0 : n - (room - 1);

	while (skip && skip < n && ((unsigned char)from[skip] & 0xc0) == 0x80)
		skip++;
	memcpy(to, from + skip, n - skip);
	to[n - skip] = 0;
}

/* The innermost frame of the user's own; without one the innermost that is not a part of Python or PyTorch; without one the innermost. */
static bool shown_frame(const char *text, size_t n, struct watch_frame *inner,
			struct watch_frame *out)
{
	static const char torch[] = "site-packages/torch/",
			  worker[] = "torch/utils/data/_utils/worker.py";
	const char *at = text;
	struct watch_frame f;
	bool any = false, package = false;

	while (watch_frame_next(&at, text + n, &f)) {
		if (!any)
			*inner = *out = f;
		any = true;
		/* What is beyond is where its parent was when it forked. */
		if (memmem(f.file, f.file_n, worker, sizeof(worker) - 1))
			return true;
		if (watch_frame_is_own(&f)) {
			*out = f;
			return true;
		}
		if (!package && f.file_n > 14 && !memcmp(f.file, "site-packages/", 14) &&
		    !(f.file_n > sizeof(torch) - 1 && !memcmp(f.file, torch, sizeof(torch) - 1))) {
			*out = f;
			package = true;
		}
	}
	return any;
}

static bool watch_place_of_stack(const struct watch_stacks *s, const struct watch_stack *k,
				 struct watch_place *out)
{
	const char *text = s->text.at + k->at;
	struct watch_frame inner, f;

	*out = (struct watch_place){ .worker = k->worker, .does = k->does, .looks = k->count };
	if (!shown_frame(text, k->n, &inner, &f))
		return false;
	copy_watch_place(out->file, sizeof(out->file), f.file, f.file_n);
	copy_watch_place(out->function, sizeof(out->function), f.function, f.function_n);
	out->line = f.line;
	if (f.code_n < sizeof(out->code))
		copy_watch_place(out->code, sizeof(out->code), f.code, f.code_n);
	if (inner.file != f.file)
		(void)snprintf(out->inside, sizeof(out->inside), "%.*s:%u %.*s", (int)inner.file_n,
			       inner.file, inner.line, (int)inner.function_n, inner.function);
	return true;
}

static bool same(const struct watch_place *a, const struct watch_place *b)
{
	return a->worker == b->worker && a->does == b->does && a->line == b->line &&
	       !strcmp(a->file, b->file);
}

static int by_looks(const void *a, const void *b)
{
	const struct watch_place *x = a, *y = b;

	if (x->worker != y->worker)
		return x->worker - y->worker;
	if (x->looks != y->looks)
		return x->looks < y->looks ? 1 : -1;
	return strcmp(x->file, y->file) ? strcmp(x->file, y->file) : (int)x->line - (int)y->line;
}

/* The last place is a worker's, if there is any. */
static void keep_places(const struct watch_place *all, size_t n, struct watch_features *f)
{
	size_t main = 0;

	while (main < n && !all[main].worker)
		main++;
	for (size_t i = 0; i < n && f->place_count < WATCH_PLACES; i++)
		if (i >= main || f->place_count < WATCH_PLACES - (main < n))
			f->places[f->place_count++] = all[i];
}

void watch_look_at_stacks(const struct watch_sample *const *samples, size_t n,
			  struct watch_features *f)
{
	struct watch_place all[MOST_PLACES], p;
	unsigned did[WATCH_DOES_COUNT] = { 0 }, looks[2] = { 0 };
	size_t count = 0, at;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < samples[i]->stacks.stack.n; k++) {
			const struct watch_stack *s = &samples[i]->stacks.stack.at[k];

			looks[s->worker] += s->count;
			did[s->does] += s->worker ? 0 : s->count;
			if (!watch_place_of_stack(&samples[i]->stacks, s, &p))
				continue;
			for (at = 0; at < count && !same(&all[at], &p); at++)
				;
			if (at < count)
				all[at].looks += p.looks;
			else if (count < MOST_PLACES)
				all[count++] = p;
		}
	for (at = 0; at < count; at++)
		all[at].share = all[at].looks / (double)looks[all[at].worker];
	qsort(all, count, sizeof(*all), by_looks);
	keep_places(all, count, f);
	if (looks[0])
		f->at[WATCH_LOOKS] = looks[0];
	for (unsigned i = 0; looks[0] >= LEAST_LOOKS && i < WATCH_DOES_COUNT; i++)
		f->at[WATCH_DOES + i] = did[i] / (double)looks[0];
}
