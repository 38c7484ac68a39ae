/* libplimsoll_alloc.so as PyTorch uses it, over a driver whose streams complete when told. */
#include "fake_cuda.h"

#include "../../runtime/allocator/alloc.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static char said[2048];

static void note(const char *text)
{
	snprintf(said, sizeof(said), "%s", text);
}

static void *stream_of(unsigned n)
{
	return (void *)(uintptr_t)n;
}

static uint64_t take(uint64_t bytes, unsigned stream)
{
	uint64_t addr = (uint64_t)(uintptr_t)plimsoll_malloc((ssize_t)bytes, 0, stream_of(stream));

	if (addr)
		fake_touch(stream_of(stream), addr, bytes);
	return addr;
}

static void give(uint64_t addr, uint64_t bytes, unsigned stream)
{
	plimsoll_free((void *)(uintptr_t)addr, (ssize_t)bytes, 0, stream_of(stream));
}

static struct plimsoll_alloc_stats stats(void)
{
	struct plimsoll_alloc_stats s;

	plimsoll_alloc_stats(0, &s);
	return s;
}

static uint64_t now(const struct plimsoll_alloc_stats *s, enum plimsoll_alloc_stat what)
{
	return s->count[what][0].current;
}

static void counts_are_pytorchs(void **state)
{
	struct plimsoll_alloc_stats s;
	uint64_t a = take(1000, 1), b = take(3 * MIB + 1, 1);

	(void)state;
	assert_null(plimsoll_malloc(0, 0, NULL));
	s = stats();
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ALLOCATION), 2);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ALLOCATED_BYTES), 1024 + 3 * MIB + 512);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_REQUESTED_BYTES), 1000 + 3 * MIB + 1);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_RESERVED_BYTES), fake_used());
	assert_int_equal(s.count[PLIMSOLL_ALLOC_RESERVED_BYTES][1].current, 2 * MIB);
	give(a, 1000, 1);
	give(b, 3 * MIB + 1, 1);
	s = stats();
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ALLOCATED_BYTES), 0);
	assert_int_equal(s.count[PLIMSOLL_ALLOC_ALLOCATED_BYTES][0].peak, 1024 + 3 * MIB + 512);
	plimsoll_alloc_reset_peaks(0);
	s = stats();
	assert_int_equal(s.count[PLIMSOLL_ALLOC_ALLOCATED_BYTES][0].peak, 0);
	plimsoll_reset();
	assert_int_equal(fake_used(), 0);
}

static void refusals_say_why(void **state)
{
	uint64_t a;

	(void)state;
	plimsoll_alloc_limit(0, 64 * MIB);
	a = take(40 * MIB, 1);
	assert_int_equal(take(40 * MIB, 1), 0);
	assert_non_null(strstr(said, "CUDA out of memory. Tried to allocate 40.00 MiB. GPU 0 has"));
	assert_non_null(strstr(said, "what stands in the way: the limit"));
	assert_int_equal(stats().ooms, 1);
	give(a, 40 * MIB, 1);
	a = take(40 * MIB, 1);
	assert_true(a);
	give(a, 40 * MIB, 1);
	assert_null(plimsoll_malloc(-1, 0, NULL));
	assert_null(plimsoll_malloc((ssize_t)1 << 50, 0, NULL));
	plimsoll_fraction(0.5, 0);
	assert_true(plimsoll_alloc_fraction(0) == 0.5);
	plimsoll_fraction(1, 0);
	plimsoll_alloc_limit(0, UINT64_MAX);
	assert_null(plimsoll_malloc(5, 99, NULL));
	assert_non_null(strstr(said, "no such device"));
	plimsoll_reset();
}

/* Each move once waited for all that was queued, also if the memory was freed before a wait that was over. */
static void what_no_stream_uses_moves_without_a_wait(void **state)
{
	uint64_t a, b, c, d, e, waits;

	(void)state;
	plimsoll_alloc_limit(0, 500 * MIB);
	a = take(200 * MIB, 1);
	b = take(200 * MIB, 1);
	give(a, 200 * MIB, 1);
	give(b, 200 * MIB, 1);
	waits = fake_counts.waits;
	c = take(150 * MIB, 2);
	assert_true(c && fake_counts.waits > waits);
	waits = fake_counts.waits;
	a = take(10 * MIB, 1); /* more work is queued, on memory that stays */
	d = take(100 * MIB, 2);
	assert_true(a && d);
	assert_int_equal(fake_counts.waits, waits);
	give(a, 10 * MIB, 1);
	e = take(246 * MIB, 2); /* needs what was used since */
	assert_true(e && fake_counts.waits > waits);
	give(c, 150 * MIB, 2);
	give(d, 100 * MIB, 2);
	give(e, 246 * MIB, 2);
	plimsoll_alloc_limit(0, UINT64_MAX);
	plimsoll_reset();
}

/* What another stream still uses is not handed out again before it is done. */
static void other_streams_are_waited_for(void **state)
{
	uint64_t a = take(30 * MIB, 1), b;
	struct plimsoll_alloc_stats s;

	(void)state;
	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(2));
	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(2));
	fake_complete(stream_of(1));
	fake_touch(stream_of(2), a, 30 * MIB); /* a slow copy */
	give(a, 30 * MIB, 1);
	s = stats();
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ALLOCATED_BYTES), 0);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ACTIVE_BYTES), 30 * MIB);
	b = take(30 * MIB, 1);
	assert_true(b && b != a);
	give(b, 30 * MIB, 1);
	fake_complete(stream_of(2));
	assert_true(take(512, 1)); /* asks the events */
	s = stats();
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ACTIVE_BYTES), 512);
	plimsoll_alloc_limit(0, 64 * MIB); /* and where memory is short, they are waited for */
	a = take(50 * MIB, 1);
	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(3));
	fake_complete(stream_of(1));
	fake_touch(stream_of(3), a, 50 * MIB);
	give(a, 50 * MIB, 1);
	b = take(50 * MIB, 1);
	assert_true(b);
	give(b, 50 * MIB, 1);
	plimsoll_alloc_limit(0, UINT64_MAX);
	plimsoll_reset();
}

int cuCtxSetCurrent(void *context);

static uint64_t take_of(int device, uint64_t bytes, unsigned stream)
{
	return (uint64_t)(uintptr_t)plimsoll_malloc((ssize_t)bytes, device, stream_of(stream));
}

/* Each has a heap of its own, and both reach what either has from the moment when both are used. */
static void two_cards_in_a_process(void **state)
{
	struct plimsoll_alloc_stats s;
	uint64_t a = take_of(0, 30 * MIB, 1), b, c;

	(void)state;
	assert_int_equal(fake_reached_by(a), 1);
	b = take_of(1, 30 * MIB, 5);
	c = take_of(0, 50 * MIB, 1);
	assert_int_equal(fake_reached_by(a), 3);
	assert_int_equal(fake_reached_by(a + 29 * MIB), 3);
	assert_int_equal(fake_reached_by(b), 3);
	assert_int_equal(fake_reached_by(c), 3);
	plimsoll_alloc_stats(1, &s);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ALLOCATED_BYTES), 30 * MIB);

	/* a block of one is let go of while the other is the thread's */
	fake_home(stream_of(6), 1);
	plimsoll_record_stream((void *)(uintptr_t)b, stream_of(6));
	cuCtxSetCurrent((void *)(uintptr_t)1);
	plimsoll_free((void *)(uintptr_t)b, 30 * MIB, 1, stream_of(5));
	fake_complete(stream_of(6));
	b = take_of(1, 512, 5); /* asks the events */
	plimsoll_alloc_stats(1, &s);
	assert_int_equal(now(&s, PLIMSOLL_ALLOC_ACTIVE_BYTES), 512);
	plimsoll_free((void *)(uintptr_t)b, 512, 1, stream_of(5));

	plimsoll_alloc_limit(1, 64 * MIB);
	assert_int_equal(take_of(1, 100 * MIB, 5), 0);
	assert_non_null(strstr(said, "GPU 1 has"));
	plimsoll_alloc_limit(1, UINT64_MAX);
	give(a, 30 * MIB, 1);
	give(c, 50 * MIB, 1);
	plimsoll_reset();
}

static void graphs_keep_their_memory(void **state)
{
	struct plimsoll_pool pool = { 0, 5 };
	uint64_t a, b, c;

	(void)state;
	a = take(20 * MIB, 1);
	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(2));
	plimsoll_begin(0, pool, NULL);
	fake_capture(stream_of(4), 1);
	b = take(20 * MIB, 4);
	give(a, 20 * MIB, 1); /* while a capture is under way no event may be touched */
	give(b, 20 * MIB, 4);
	c = take(20 * MIB, 4);
	assert_int_equal(c, b); /* within the graph it may be used again */
	give(c, 20 * MIB, 4);
	fake_capture(stream_of(4), 0);
	plimsoll_end(0, pool);
	fake_complete(stream_of(2));
	fake_complete(stream_of(4));
	plimsoll_reset();
	c = take(20 * MIB, 4); /* the same stream, and nothing of the graph's */
	assert_true(c != b);
	assert_int_equal(fake_used() >= 40 * MIB, 1);
	give(c, 20 * MIB, 4);
	plimsoll_release(0, pool);
	plimsoll_reset();
	assert_true(fake_used() <= 2 * MIB);
}

static void snapshots_and_events(void **state)
{
	struct plimsoll_alloc_piece pieces[64];
	struct plimsoll_alloc_event events[16];
	uint64_t a, bytes = 0, used = 0;
	size_t n, size = 0;

	(void)state;
	assert_true(plimsoll_alloc_record(0, 16));
	a = take(5 * MIB, 1);
	n = plimsoll_alloc_pieces(0, pieces, 64);
	for (size_t i = 0; i < n; i++) {
		bytes += pieces[i].bytes;
		used += pieces[i].state ? pieces[i].bytes : 0;
	}
	assert_int_equal(bytes, fake_used());
	assert_true(used >= 5 * MIB);
	assert_true(plimsoll_base((void *)(uintptr_t)a, &size) == (void *)(uintptr_t)a);
	assert_int_equal(size, 5 * MIB);
	give(a, 5 * MIB, 1);
	n = plimsoll_alloc_events(0, events, 16);
	assert_true(n >= 4 && n <= 16);
	assert_int_equal(events[n - 3].action, PLIMSOLL_ALLOC_EVENT_ALLOC);
	assert_int_equal(events[n - 2].action, PLIMSOLL_ALLOC_EVENT_FREE_REQUESTED);
	assert_int_equal(events[n - 1].action, PLIMSOLL_ALLOC_EVENT_FREE_COMPLETED);
	assert_int_equal(events[n - 1].addr, a);
	assert_true(plimsoll_alloc_record(0, 0));
	plimsoll_reset();
}

/* Each call of the driver fails once: the request gets memory all the same, or says that there is none. */
static void a_driver_that_fails(void **state)
{
	(void)state;
	for (long at = 0; at < 40; at++) {
		uint64_t a, b;

		fake_fail_at(at);
		a = take(9 * MIB, 5);
		b = take(3 * MIB, 6);
		fake_fail_at(-1);
		if (a)
			give(a, 9 * MIB, 5);
		if (b)
			give(b, 3 * MIB, 6);
		assert_true((a = take(9 * MIB, 5)));
		give(a, 9 * MIB, 5);
		plimsoll_reset();
	}
	assert_true(fake_used() <= 2 * MIB);
}

static void ask(void)
{
	stats(); /* blocks for ever where the lock is held */
}

static uint32_t next_random(uint32_t *x)
{
	*x = *x * 1664525u + 1013904223u;
	return *x >> 8;
}

static void *churn(void *arg)
{
	uint64_t live[64] = { 0 }, size[64];
	unsigned own = 1 + (unsigned)(uintptr_t)arg % 3;
	uint32_t x = (uint32_t)(uintptr_t)arg * 7919 + 1;

	for (unsigned i = 0; i < 4000; i++) {
		unsigned k = next_random(&x) % 64;

		if (live[k]) {
			give(live[k], size[k], own);
			live[k] = 0;
		} else {
			size[k] = 1 + next_random(&x) % (next_random(&x) % 3 ? 5000 : 30 * MIB);
			live[k] = take(size[k], own);
			if (live[k] && next_random(&x) % 8 == 0)
				plimsoll_record_stream((void *)(uintptr_t)live[k],
						       stream_of(8 + own));
		}
		if (i % 16 == 0)
			fake_complete(stream_of(own));
		if (i % 1999 == 0)
			plimsoll_reset();
	}
	for (unsigned k = 0; k < 64; k++)
		if (live[k])
			give(live[k], size[k], own);
	return NULL;
}

static void threads_share_a_card(void **state)
{
	pthread_t t[4];

	(void)state;
	fake_on_wait(ask);
	plimsoll_alloc_limit(0, 900 * MIB);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)(i + 1)), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	plimsoll_alloc_limit(0, UINT64_MAX);
	fake_on_wait(NULL);
	for (unsigned i = 0; i < 16; i++)
		fake_complete(stream_of(i));
	plimsoll_reset();
	assert_true(fake_used() <= 4 * MIB);
}

/* ---- children ---- */

static uint64_t inherited;
static pid_t made_within; /* by a call of the allocator's */

static int is_refused(void)
{
	give(inherited, 4 * MIB, 1); /* the deleters of tensors that were inherited */
	plimsoll_reset();
	said[0] = 0;
	return !plimsoll_malloc(10, 0, NULL) && strstr(said, "forked child") &&
	       !stats().count[PLIMSOLL_ALLOC_ALLOCATION][0].current &&
	       !plimsoll_alloc_pieces(0, NULL, 0);
}

static int ended_well(pid_t child)
{
	int status = 1;

	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

static pid_t a_child(void)
{
	pid_t child = fork();

	if (!child)
		_exit(!is_refused());
	return child;
}

static void fork_within(void)
{
	if (!made_within)
		made_within = a_child();
}

static struct plimsoll_pool graph = { 0, 9 };

static void nothing(void)
{
}

static void begin_pending(void)
{
	uint64_t a = take(6 * MIB, 1);

	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(2));
	fake_complete(stream_of(1));
	fake_touch(stream_of(2), a, 6 * MIB);
	give(a, 6 * MIB, 1);
}

static void end_pending(void)
{
	fake_complete(stream_of(2));
}

static void begin_capture(void)
{
	plimsoll_begin(0, graph, NULL);
	fake_capture(stream_of(4), 1);
	give(take(6 * MIB, 4), 6 * MIB, 4);
}

static void end_capture(void)
{
	fake_capture(stream_of(4), 0);
	plimsoll_end(0, graph);
	plimsoll_release(0, graph);
}

static void begin_recording(void)
{
	(void)plimsoll_alloc_record(0, 8);
}

static void end_recording(void)
{
	(void)plimsoll_alloc_record(0, 0);
}

/* The lock is given up while a stream is waited for: the child is made there. */
static void begin_waiting(void)
{
	uint64_t a, b;

	made_within = 0;
	plimsoll_alloc_limit(0, 64 * MIB);
	a = take(40 * MIB, 1);
	plimsoll_record_stream((void *)(uintptr_t)a, stream_of(3));
	fake_complete(stream_of(1));
	fake_touch(stream_of(3), a, 40 * MIB);
	give(a, 40 * MIB, 1);
	fake_on_wait(fork_within);
	b = take(40 * MIB, 1);
	fake_on_wait(NULL);
	assert_true(b);
	give(b, 40 * MIB, 1);
	plimsoll_alloc_limit(0, UINT64_MAX);
	assert_true(ended_well(made_within));
}

static void observe(int device, uint64_t requested, uint64_t limit, uint64_t device_free)
{
	(void)device, (void)requested, (void)limit, (void)device_free;
	fork_within();
}

static void begin_refusal(void)
{
	made_within = 0;
	plimsoll_alloc_observe(observe);
	assert_false(take((uint64_t)1 << 45, 1));
	plimsoll_alloc_observe(NULL);
	assert_true(ended_well(made_within));
}

static _Atomic int stop;

static void *busy(void *arg)
{
	(void)arg;
	while (!stop) {
		give(take(3 * MIB, 7), 3 * MIB, 7);
		fake_complete((void *)7); /* else a slow child lets the driver's queue fill up */
	}
	return NULL;
}

static pthread_t other;

static void begin_thread(void)
{
	stop = 0;
	assert_int_equal(pthread_create(&other, NULL, busy, NULL), 0);
}

static void end_thread(void)
{
	stop = 1;
	pthread_join(other, NULL);
}

static void children_are_refused_in_each_state(void **state)
{
	static const struct {
		const char *name;
		void (*begin)(void), (*end)(void);
	} states[] = {
		{ "live blocks", nothing, nothing },
		{ "another stream still reads", begin_pending, end_pending },
		{ "a capture", begin_capture, end_capture },
		{ "recording", begin_recording, end_recording },
		{ "a wait", begin_waiting, nothing },
		{ "a refusal", begin_refusal, nothing },
		{ "another thread", begin_thread, end_thread },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		inherited = take(4 * MIB, 1);
		states[i].begin();
		if (!ended_well(a_child()))
			fail_msg("a child during: %s", states[i].name);
		states[i].end();
		give(inherited, 4 * MIB, 1);
		give(take(5 * MIB, 1), 5 * MIB, 1); /* the parent goes on */
	}
	plimsoll_reset();
}

/* Before the first request a child may have the GPU for itself. */
static void a_child_of_no_state(void **state)
{
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(!take(4 * MIB, 1));
	assert_true(ended_well(child));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_of_no_state),
		cmocka_unit_test(counts_are_pytorchs),
		cmocka_unit_test(refusals_say_why),
		cmocka_unit_test(what_no_stream_uses_moves_without_a_wait),
		cmocka_unit_test(other_streams_are_waited_for),
		cmocka_unit_test(graphs_keep_their_memory),
		cmocka_unit_test(snapshots_and_events),
		cmocka_unit_test(a_driver_that_fails),
		cmocka_unit_test(threads_share_a_card),
		cmocka_unit_test(two_cards_in_a_process),
		cmocka_unit_test(children_are_refused_in_each_state),
	};

	plimsoll_alloc_on_oom(note);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
