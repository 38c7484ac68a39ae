/* A recording's parts are computed when they are needed, once, and nobody computes what nobody reads. */
#include "verbs/diff/diff.h"
#include "verbs/report/report.h"
#include "verbs/whatif/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "recording.h"

#define MIB ((uint64_t)1 << 20)

static const struct event healthy[] = {
	{ TRACE_SEGMENT_ALLOC, BASE, 20 * MIB, 0 },  { TRACE_ALLOC, BASE, 4 * MIB, 0 },
	{ TRACE_ALLOC, BASE + 4 * MIB, 2 * MIB, 0 }, { TRACE_FREE_REQUESTED, BASE, 4 * MIB, 0 },
	{ TRACE_FREE_COMPLETED, BASE, 4 * MIB, 0 },
};
static const struct event dies[] = {
	{ TRACE_SEGMENT_ALLOC, BASE, 20 * MIB, 0 },
	{ TRACE_ALLOC, BASE, 4 * MIB, 0 },
	{ TRACE_ALLOC, BASE + 4 * MIB, 2 * MIB, 0 },
	{ TRACE_OOM, 3 * MIB, 64 * MIB, 0 },
};
static const struct block one_block[] = { { BASE + 4 * MIB, 2 * MIB, TRACE_ACTIVE, 0 } };
static const struct block two_blocks[] = { { BASE, 4 * MIB, TRACE_ACTIVE, 0 },
					   { BASE + 4 * MIB, 2 * MIB, TRACE_ACTIVE, 0 } };
static const struct device healthy_device = { healthy, 5, one_block, 1, 20 * MIB, 0 };
static const struct device dying_device = { dies, 4, two_blocks, 2, 20 * MIB, 0 };

static char healthy_path[] = "/tmp/plimsoll-healthy-XXXXXX";
static char dying_path[] = "/tmp/plimsoll-dying-XXXXXX";

static int write_one(char *path, const struct device *d)
{
	struct text js;
	struct mem m;
	int fd = mkstemp(path), bad;

	mem_init(&m, 0);
	text_init(&js, &m, NULL);
	recording_text(&js, d, 1);
	bad = fd < 0 || write(fd, text_get(&js), js.n) != (ssize_t)js.n || close(fd);
	text_release(&js);
	return bad;
}

static int write_files(void **state)
{
	(void)state;
	return write_one(healthy_path, &healthy_device) || write_one(dying_path, &dying_device);
}

static int remove_files(void **state)
{
	(void)state;
	unlink(healthy_path);
	unlink(dying_path);
	return 0;
}

static struct recording *open_healthy(struct mem *m)
{
	struct recording *r;
	struct plim_err err;

	mem_init(m, 0);
	if (recording_open(m, healthy_path, NULL, &r, &err))
		fail_msg("%s", err.message);
	return r;
}

/* Parts bring along what they are computed from, and are not computed again. */
static void test_parts(void **state)
{
	static const struct {
		unsigned wanted, have;
	} cases[] = {
		{ 0, 0 },
		{ RECORDING_REPLAY, RECORDING_REPLAY },
		{ RECORDING_TIMELINE, RECORDING_REPLAY | RECORDING_TIMELINE },
		{ RECORDING_STEPS, RECORDING_PARTS },
	};
	struct plim_err err;
	struct mem m;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct recording *r = open_healthy(&m);
		struct recording_device *d = &r->devices[0];
		const struct allocator_replay *replay;

		assert_int_equal(recording_need(d, cases[i].wanted, &err), PLIM_OK);
		assert_int_equal(d->have, cases[i].have);
		replay = d->replay;
		assert_int_equal(recording_need_all(r, RECORDING_PARTS, &err), PLIM_OK);
		assert_int_equal(d->have, RECORDING_PARTS);
		if (replay)
			assert_ptr_equal(d->replay, replay);
		recording_free(r);
		assert_int_equal(m.used_bytes, 0);
	}
}

/* What failed is made when it is asked for again; nothing leaks. */
static void test_no_memory(void **state)
{
	enum plim_status st = PLIM_E_NOMEM;
	unsigned failures = 0;

	(void)state;
	for (int64_t at = 0; st; at++) {
		struct plim_err err = { 0 };
		struct mem m;
		struct recording *r = open_healthy(&m);

		m.fail_after = at;
		st = recording_need_all(r, RECORDING_PARTS, &err);
		assert_true(!st || st == PLIM_E_NOMEM);
		failures += st != PLIM_OK;
		m.fail_after = -1;
		assert_int_equal(recording_need_all(r, RECORDING_PARTS, &err), PLIM_OK);
		recording_free(r);
		assert_int_equal(m.used_bytes, 0);
	}
	assert_true(failures > 3);
}

static struct plim_whatif *whatif_of(const char *path)
{
	struct plim_whatif_options o;
	struct plim_whatif *w;
	struct plim_err err;

	plim_whatif_options_init(&o);
	o.limit_bytes = 512 * MIB;
	if (plim_whatif_open(path, &o, &w, &err))
		fail_msg("%s", err.message);
	return w;
}

/* whatif opened a whole report: owners, findings, verdicts, and two replays of which it made one again. */
static void test_whatif(void **state)
{
	struct plim_whatif *w = whatif_of(healthy_path);
	const struct recording *r = w->hidden->recording->recording;

	(void)state;
	assert_int_equal(r->devices[0].have, RECORDING_REPLAY | RECORDING_TIMELINE);
	assert_memory_equal(&r->counts, &(struct recording_counts){ 0 }, sizeof(r->counts));
	plim_whatif_free(w);

	w = whatif_of(dying_path); /* its bound and what was still to come are shown */
	r = w->hidden->recording->recording;
	assert_non_null(w->death);
	assert_memory_equal(&r->counts, (&(struct recording_counts){ .deaths = 1 }),
			    sizeof(r->counts));
	plim_whatif_free(w);
}

static void test_diff(void **state)
{
	struct plim_diff *d;
	struct plim_err err;

	(void)state;
	if (plim_diff_open(healthy_path, dying_path, NULL, &d, &err))
		fail_msg("%s", err.message);
	for (int s = 0; s < 2; s++) {
		const struct recording_counts *n = &d->hidden->recording[s]->counts;

		assert_int_equal(n->owners, 0); /* its own are of both recordings at once */
		assert_int_equal(n->findings, 1);
		assert_int_equal(n->deaths, s == DIFF_B);
	}
	plim_diff_free(d);
}

/* Two reports of one recording: the second finds done what the first did. */
static void test_two_reports(void **state)
{
	struct plim_report_options o;
	struct plim_recording *r;
	struct plim_report *a, *b;
	const struct allocator_replay *replay;
	struct plim_err err;

	(void)state;
	if (plim_recording_open(dying_path, NULL, &r, &err))
		fail_msg("%s", err.message);
	assert_int_equal(plim_report_of(r, NULL, &a, &err), PLIM_OK);
	replay = r->recording->devices[0].replay;
	plim_report_options_init(&o);
	o.events = "0:1";
	o.at = "end";
	assert_int_equal(plim_report_of(r, &o, &b, &err), PLIM_OK);
	assert_ptr_equal(r->recording->devices[0].replay, replay);
	assert_int_equal(a->devices[0].peak.requested_bytes, 6 * MIB);
	assert_int_equal(b->devices[0].peak.requested_bytes, 4 * MIB); /* of its events alone */
	assert_string_equal(a->devices[0].at_peak.what, "oom");
	assert_string_equal(b->devices[0].at_peak.what, "end");
	plim_report_free(a);
	assert_string_equal(b->source.path, dying_path);
	plim_report_free(b);
	plim_recording_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),       cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_whatif),      cmocka_unit_test(test_diff),
		cmocka_unit_test(test_two_reports),
	};

	return cmocka_run_group_tests(tests, write_files, remove_files);
}
