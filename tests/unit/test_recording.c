/* A recording's parts are computed when they are needed, once, and no one computes what no one reads. */
#include "commands/diff/diff.h"
#include "commands/report/report.h"
#include "commands/whatif/whatif.h"

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
	/* the one detector of leaks: what survives the recording may die of one later */
	assert_int_equal(r->devices[0].have, RECORDING_PARTS);
	assert_memory_equal(&r->counts, (&(struct recording_counts){ .findings = 1 }),
			    sizeof(r->counts));
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
		assert_int_equal(n->deaths, s == COMPARED_B);
	}
	plim_diff_free(d);
}

static void json_of_diff(const struct plim_diff *d, struct plim_buffer *out)
{
	struct plim_err err;

	assert_int_equal(plim_diff_json(d, plim_buffer_write, out, &err), PLIM_OK);
}

/* Recordings that were read before: the same answer, nothing replayed twice, and they are the caller's. */
static void test_diff_of(void **state)
{
	const char *const path[2] = { healthy_path, dying_path };
	struct plim_buffer by_path = { .text = NULL }, of_read = { .text = NULL };
	struct plim_recording *r[2];
	struct plim_report *report;
	const struct allocator_replay *replay;
	struct plim_diff *d;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_diff_open(path[0], path[1], NULL, &d, &err), PLIM_OK);
	json_of_diff(d, &by_path);
	plim_diff_free(d);
	for (int s = 0; s < 2; s++)
		assert_int_equal(plim_recording_open(path[s], NULL, &r[s], &err), PLIM_OK);
	assert_int_equal(plim_report_of(r[1], NULL, &report, &err), PLIM_OK);
	replay = r[1]->recording->devices[0].replay;
	for (int again = 0; again < 2; again++) {
		assert_int_equal(plim_diff_of(r[0], r[1], NULL, &d, &err), PLIM_OK);
		assert_ptr_equal(r[1]->recording->devices[0].replay, replay);
		assert_int_equal(r[1]->reports, 2);
		of_read.bytes = 0;
		json_of_diff(d, &of_read);
		assert_string_equal(of_read.text, by_path.text);
		plim_diff_free(d);
		assert_int_equal(r[1]->reports, 1);
	}
	plim_report_free(report);
	plim_recording_free(r[0]);
	plim_recording_free(r[1]);
	plim_buffer_release(&by_path);
	plim_buffer_release(&of_read);
}

/* ... also where one of them cannot be reported: the other one is let go. */
static void test_diff_of_nothing(void **state)
{
	struct plim_diff_options o;
	struct plim_recording *r;
	struct plim_diff *d;
	struct plim_err err;

	(void)state;
	plim_diff_options_init(&o);
	o.device = 7;
	assert_int_equal(plim_recording_open(healthy_path, NULL, &r, &err), PLIM_OK);
	assert_int_equal(plim_diff_of(r, r, &o, &d, &err), PLIM_E_ARG);
	assert_null(d);
	assert_int_equal(r->reports, 0);
	plim_recording_free(r);
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

/* ---- appending ---- */

static struct plim_recording *new_recording(const char *settings)
{
	struct plim_recording_options o;
	struct plim_recording *r;
	struct plim_err err;

	plim_recording_options_init(&o);
	o.settings = settings;
	if (plim_recording_new("live", &o, &r, &err))
		fail_msg("%s", err.message);
	return r;
}

static struct plim_report *report_of(struct plim_recording *r)
{
	struct plim_report *report;
	struct plim_err err;

	if (plim_report_of(r, NULL, &report, &err))
		fail_msg("%s", err.message);
	return report;
}

/* What an allocator did: the same numbers as of the same events in a file; how it ended is not asked. */
static void test_append_addresses(void **state)
{
	static const uint8_t kind[] = { PLIM_EVENT_SEGMENT_ALLOC, PLIM_EVENT_ALLOC,
					PLIM_EVENT_ALLOC, PLIM_EVENT_FREE };
	static const uint64_t bytes[] = { 20 * MIB, 4 * MIB, 2 * MIB, 4 * MIB };
	static const uint64_t address[] = { BASE, BASE, BASE + 4 * MIB, BASE };
	static const int64_t time_us[] = { 1000, 1001, 1005, 1010 };
	struct plim_events ev = { .size = sizeof(ev),
				  .count = 4,
				  .kind = kind,
				  .bytes = bytes,
				  .address = address,
				  .time_us = time_us };
	struct plim_recording *r = new_recording(NULL);
	struct plim_report *a;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_OK);
	a = report_of(r);
	assert_string_equal(a->source.path, "live");
	assert_int_equal(a->devices[0].events, 5); /* a free is two */
	assert_int_equal(a->devices[0].peak.requested_bytes, 6 * MIB);
	assert_int_equal(a->devices[0].peak.requested.time_us, 1005);
	assert_int_equal(a->devices[0].peak.reserved_bytes, 20 * MIB);
	assert_int_equal(a->devices[0].end.allocated_bytes, 2 * MIB);
	assert_true(a->devices[0].self_check.exact);
	plim_report_free(a);
	plim_recording_free(r);
}

/* Requests alone, in two parts: placed as PyTorch would, with stacks and phases; more can come after a report. */
static void test_append_requests(void **state)
{
	static const uint8_t kind[] = { PLIM_EVENT_ALLOC, PLIM_EVENT_ALLOC, PLIM_EVENT_FREE,
					PLIM_EVENT_ALLOC };
	static const uint64_t bytes[] = { 4 * MIB, 3 * MIB, 0, 30 * MIB };
	static const uint64_t request[] = { 7, 9, 7, 7 };
	const struct plim_recording_frame frames[] = { { "lab/model.py", "forward", 12 },
						       { "lab/train.py", "main", 40 } };
	struct plim_recording *r = new_recording(NULL);
	uint32_t site[4], phase[4];
	struct plim_events ev = { .size = sizeof(ev),
				  .count = 3,
				  .kind = kind,
				  .bytes = bytes,
				  .request = request,
				  .site = site,
				  .phase = phase };
	struct plim_report *a;
	struct plim_err err;

	(void)state;
	assert_int_equal(plim_recording_site(r, frames, 2, &site[0], &err), PLIM_OK);
	assert_int_equal(plim_recording_site(r, frames, 2, &site[1], &err), PLIM_OK);
	assert_int_equal(site[0], site[1]);
	assert_int_equal(plim_recording_phase(r, "warm up", &phase[0], &err), PLIM_OK);
	site[2] = PLIM_NO_SITE;
	site[3] = site[0];
	phase[1] = phase[2] = phase[3] = phase[0];
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_OK);
	a = report_of(r);
	assert_int_equal(a->devices[0].peak.requested_bytes, 7 * MIB);
	assert_int_equal(a->devices[0].peak.reserved_bytes, 20 * MIB);
	assert_int_equal(a->devices[0].peak.requested.time_us, PLIM_UNKNOWN);
	assert_true(a->devices[0].self_check.exact);
	assert_string_equal(a->devices[0].at_peak.owners[0].frame, "lab/model.py:12 in forward");
	assert_int_equal(a->devices[0].at_peak.annotation_count, 1);
	assert_string_equal(a->devices[0].at_peak.annotations[0], "warm up");
	ev.kind += 3;
	ev.bytes += 3;
	ev.request += 3;
	ev.count = 1;
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_E_ARG); /* the report is there */
	plim_report_free(a);
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_OK);
	a = report_of(r);
	assert_int_equal(a->devices[0].peak.requested_bytes, 33 * MIB);
	assert_int_equal(a->devices[0].peak.reserved_bytes, 50 * MIB);
	plim_report_free(a);
	plim_recording_free(r);
}

/* A row that is wrong: nothing of the call is appended, and the next call goes on as if it had not been. */
static void test_append_refuses(void **state)
{
	static const struct {
		uint8_t kind;
		uint64_t request;
		uint32_t site;
		const char *says;
	} cases[] = {
		{ PLIM_EVENT_ALLOC, 1, PLIM_NO_SITE, "row 2: request 1 lives already" },
		{ PLIM_EVENT_FREE, 5, PLIM_NO_SITE, "row 2: request 5 does not live" },
		{ PLIM_EVENT_FREE_COMPLETED, 1, PLIM_NO_SITE,
		  "row 2: request 1 was not freed yet" },
		{ PLIM_EVENT_SEGMENT_ALLOC, 1, PLIM_NO_SITE, "without an address" },
		{ 200, 1, PLIM_NO_SITE, "row 2: 200 is not a kind" },
		{ PLIM_EVENT_ALLOC, 3, 17, "row 2: 17 is not a site" },
		{ PLIM_EVENT_ALLOC, UINT64_MAX, PLIM_NO_SITE, "below 2^32" },
	};
	struct plim_recording *r = new_recording(NULL);
	uint32_t site[3] = { PLIM_NO_SITE, PLIM_NO_SITE, PLIM_NO_SITE };
	uint8_t kind[3] = { PLIM_EVENT_ALLOC, PLIM_EVENT_FREE_REQUESTED, 0 };
	uint64_t request[3] = { 1, 0, 0 }, bytes[3] = { MIB, MIB, MIB }, address[3] = { BASE };
	struct plim_events ev = { .size = sizeof(ev),
				  .count = 1,
				  .kind = kind,
				  .bytes = bytes,
				  .request = request,
				  .site = site };
	struct plim_report *a;
	struct plim_err err;

	(void)state;
	request[0] = 0;
	ev.size = 0;
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_E_ARG);
	ev.size = sizeof(ev);
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_OK); /* 0 lives */
	request[0] = 1;
	ev.count = 3;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		kind[2] = cases[i].kind;
		request[2] = cases[i].request;
		site[2] = cases[i].site;
		assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_E_ARG);
		assert_non_null(strstr(err.message, cases[i].says));
	}
	ev.address = address;
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_E_ARG); /* the others had none */
	ev.address = NULL;
	kind[2] = PLIM_EVENT_FREE_COMPLETED;
	request[2] = 0;
	site[2] = PLIM_NO_SITE;
	assert_int_equal(plim_recording_append(r, &ev, &err), PLIM_OK);
	a = report_of(r);
	assert_int_equal(a->devices[0].allocations, 2);
	assert_int_equal(a->devices[0].end.requested_bytes, MIB);
	plim_report_free(a);
	plim_recording_free(r);
	assert_int_equal(plim_recording_new("x",
					    &(struct plim_recording_options){
						    .size = sizeof(struct plim_recording_options),
						    .settings = "nonsense:1" },
					    &r, &err),
			 PLIM_E_ARG);
	assert_null(r);
	if (plim_recording_open(healthy_path, NULL, &r, &err))
		fail_msg("%s", err.message);
	assert_int_equal(plim_recording_append(r, &ev, &err),
			 PLIM_E_ARG); /* a file is what it is */
	plim_recording_free(r);
}

/* Each allocation fails in turn, in appending and in placing. */
static void test_append_no_memory(void **state)
{
	static const uint8_t kind[] = { PLIM_EVENT_ALLOC, PLIM_EVENT_ALLOC, PLIM_EVENT_FREE };
	static const uint64_t bytes[] = { 4 * MIB, 3 * MIB, 0 }, request[] = { 0, 1, 0 };
	struct plim_events ev = {
		.size = sizeof(ev), .count = 3, .kind = kind, .bytes = bytes, .request = request
	};
	enum plim_status st = PLIM_E_NOMEM;
	unsigned failures = 0;

	(void)state;
	for (int64_t at = 0; st; at++) {
		struct plim_recording *r = new_recording(NULL);
		struct plim_err err = { 0 };

		r->mem.fail_after = at;
		st = plim_recording_append(r, &ev, &err);
		if (!st)
			st = recording_ready(r, &err);
		assert_true(!st || st == PLIM_E_NOMEM);
		failures += st != PLIM_OK;
		r->mem.fail_after = -1;
		plim_recording_free(r);
	}
	assert_true(failures > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_whatif),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_diff_of),
		cmocka_unit_test(test_diff_of_nothing),
		cmocka_unit_test(test_two_reports),
		cmocka_unit_test(test_append_addresses),
		cmocka_unit_test(test_append_requests),
		cmocka_unit_test(test_append_refuses),
		cmocka_unit_test(test_append_no_memory),
	};

	return cmocka_run_group_tests(tests, write_files, remove_files);
}
