/*
 * make_snapshot RECORDING EVENTS OUT: a snapshot of about EVENTS events, for measuring.
 *
 * Between two steps of training the same parameters and state live at the same addresses.  This finds
 * two such moments in a real recording and repeats what lies between, so the result is as
 * consistent as the recording: it replays exactly and ends with the same blocks.
 */
#include "snapshot/snapshot.h"

#include <stdio.h>
#include <stdlib.h>

struct sink {
	FILE *f;
};

static enum plim_status to_file(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct sink *s = ctx;

	return fwrite(bytes, 1, n, s->f) == n ? PLIM_OK : err_set(err, PLIM_E_IO, "cannot write");
}

struct moment {
	uint64_t live; /* a hash of what lives: addresses and sizes */
	size_t event;
};

static int by_live(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->live != y->live)
		return x->live < y->live ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

/*
 * Two moments, far apart, behind the last segment event, with the same blocks live at the same
 * addresses: then the free blocks are the same too, and what lies between can be done again.
 */
static int find_period(const struct snapshot_device *d, size_t *a, size_t *b)
{
	const struct snapshot_events *ev = &d->events;
	struct moment *m = calloc(ev->n + 1, sizeof(*m));
	uint64_t live = 0;
	size_t n = 0;

	*a = *b = 0;
	for (size_t e = 0; m && e < ev->n; e++) {
		if (ev->action[e] >= TRACE_SEGMENT_ALLOC && ev->action[e] <= TRACE_SEGMENT_UNMAP)
			n = 0;
		else if (ev->action[e] == TRACE_ALLOC || ev->action[e] == TRACE_FREE_COMPLETED)
			live ^= (ev->addr[e] + ev->size[e]) * 0x9e3779b97f4a7c15u;
		if (ev->action[e] == TRACE_FREE_COMPLETED)
			m[n++] = (struct moment){ live, e + 1 };
	}
	if (n)
		qsort(m, n, sizeof(*m), by_live);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i; k < n && m[k].live == m[i].live; k++)
			;
		if (m[k - 1].event - m[i].event > *b - *a) {
			*a = m[i].event;
			*b = m[k - 1].event;
		}
	}
	free(m);
	return *b - *a > 1000;
}

/* Columns of the recording with [a, b) repeated `times` more. */
static int repeat(struct snapshot_device *d, size_t a, size_t b, size_t times)
{
	struct snapshot_events *ev = &d->events, out = *ev;
	size_t n = ev->n + times * (b - a), at = b;
	uint8_t *action = malloc(n);
	uint64_t *addr = malloc(n * 8), *size = malloc(n * 8);
	int64_t *time_us = malloc(n * 8);
	uint32_t *stack = malloc(n * 4);
	uint16_t *stream = malloc(n * 2);

	if (!action || !addr || !size || !time_us || !stack || !stream)
		return 0;
	for (size_t i = 0; i < n; i++) {
		size_t from = i < b ? i : i < b + times * (b - a) ? a + (i - b) % (b - a) : at++;

		action[i] = ev->action[from];
		addr[i] = ev->addr[from];
		size[i] = ev->size[from];
		time_us[i] =
			ev->time_us[0] + (int64_t)i * 3; /* 3 us apart, as busy recordings are */
		stack[i] = ev->stack[from];
		stream[i] = ev->stream[from];
	}
	out.n = n;
	out.action = action;
	out.addr = addr;
	out.size = size;
	out.time_us = time_us;
	out.stack = stack;
	out.stream = stream;
	*ev = out;
	return 1;
}

int main(int argc, char **argv)
{
	struct mem m;
	struct snapshot *t;
	struct plim_err err;
	struct sink sink;
	size_t a = 0, b = 0, want = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;

	mem_init(&m, 0);
	if (argc != 4 || snapshot_read(&m, argv[1], NULL, &t, &err)) {
		fprintf(stderr, "make_snapshot RECORDING EVENTS OUT%s%s\n", argc == 4 ? ": " : "",
			argc == 4 ? err.message : "");
		return 1;
	}
	if (!find_period(&t->devices[0], &a, &b)) {
		fprintf(stderr,
			"make_snapshot: this recording never comes back to what lived before\n");
		return 1;
	}
	if (want > t->devices[0].events.n &&
	    !repeat(&t->devices[0], a, b, (want - t->devices[0].events.n) / (b - a) + 1))
		return 1;
	t->annotations.n = 0;
	sink.f = fopen(argv[3], "wb");
	if (!sink.f || snapshot_write(t, (struct pickle_sink){ &sink, to_file }, &err) ||
	    fclose(sink.f)) {
		fprintf(stderr, "make_snapshot: cannot write %s\n", argv[3]);
		return 1;
	}
	return 0;
}
