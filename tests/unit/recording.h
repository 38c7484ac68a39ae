/* Small recordings for tests: lists of events and of final blocks, read as the snapshot they make. */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include "snapshot/snapshot.h"

#include "base/text.h"

#define BASE 0x7f0000000000u
#define STREAM_SHOWN 7 /* stream s of an event is cudaStream_t 7 * s */

struct event {
	enum snapshot_action action;
	uint64_t addr, size;
	uint32_t stream;
};

struct block {
	uint64_t addr, requested;
	enum snapshot_block_state state;
	uint64_t bytes; /* 0: requested, rounded up */
};

struct device {
	const struct event *events;
	size_t event_count;
	const struct block *blocks; /* live ones, by address; of one segment at BASE */
	size_t block_count;
	uint64_t segment_bytes; /* 0: none stands at the end */
	int empty_stacks;       /* events have stacks, without a frame */
};

static inline void recording_blocks(struct text *js, const struct device *d)
{
	static const char *const states[] = { "active_allocated", "active_pending_free",
					      "inactive" };

	for (size_t i = 0; i < d->block_count; i++)
		text_printf(
			js,
			"%s{\"address\":%llu,\"size\":%llu,\"requested_size\":%llu,"
			"\"state\":\"%s\"}",
			i ? "," : "", (unsigned long long)d->blocks[i].addr,
			(unsigned long long)(d->blocks[i].bytes
						     ? d->blocks[i].bytes
						     : (d->blocks[i].requested + 511) / 512 * 512),
			(unsigned long long)d->blocks[i].requested, states[d->blocks[i].state]);
}

static inline void recording_text(struct text *js, const struct device *devices, size_t n)
{
	const char *comma = "";

	text_puts(js, "{\"segments\":[");
	for (size_t d = 0; d < n; d++) {
		if (!devices[d].segment_bytes)
			continue;
		text_printf(js,
			    "%s{\"device\":%zu,\"address\":%llu,\"total_size\":%llu,\"stream\":0,"
			    "\"segment_type\":\"large\",\"blocks\":[",
			    comma, d, (unsigned long long)BASE,
			    (unsigned long long)devices[d].segment_bytes);
		recording_blocks(js, &devices[d]);
		text_puts(js, "]}");
		comma = ",";
	}
	text_puts(js, "],\"device_traces\":[");
	for (size_t d = 0; d < n; d++) {
		text_puts(js, d ? ",[" : "[");
		for (size_t i = 0; i < devices[d].event_count; i++) {
			const struct event *e = &devices[d].events[i];

			text_printf(
				js,
				"%s{\"action\":\"%s\",\"%s\":%llu,\"size\":%llu,\"stream\":%u%s}",
				i ? "," : "", snapshot_action_names[e->action],
				e->action == TRACE_OOM ? "device_free" : "addr",
				(unsigned long long)e->addr, (unsigned long long)e->size,
				e->stream * STREAM_SHOWN,
				devices[d].empty_stacks ? ",\"frames\":[]" : "");
		}
		text_puts(js, "]");
	}
	text_puts(js, "]}");
}

/* The trace of it; a test that cannot have one ends here. */
static inline struct snapshot *recording(struct mem *m, const struct device *devices, size_t n)
{
	struct text js;
	struct snapshot *t = NULL;
	struct plim_err err = { .message = "" };

	text_init(&js, m, NULL);
	recording_text(&js, devices, n);
	if (snapshot_read_bytes(m, text_get(&js), js.n, NULL, &t, &err))
		fail_msg("%s", err.message);
	text_release(&js);
	return t;
}

#endif
