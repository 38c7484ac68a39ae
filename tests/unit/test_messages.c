/*
 * Every wording of PyTorch's out-of-memory text since 1.0 as the numbers it stands for.  A number
 * with two decimals is an interval: [x - 0.005, x + 0.005] of its unit, whole bytes up to 1 KiB.
 */
#include "messages/messages.h"
#include "messages/scan.h"
#include "timeline/timeline.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <cmocka.h>

#define ADVICE_1_10                                                                          \
	" If reserved memory is >> allocated memory try setting max_split_size_mb to avoid " \
	"fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"
#define ADVICE_2_2                                                                              \
	" If reserved but unallocated memory is large try setting "                             \
	"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See "        \
	"documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html" \
	"#environment-variables)"

/* Hundredths of a unit, as the text shows it. */
#define B(n)           \
	{              \
		1, (n) \
	}
#define KIB(n)               \
	{                    \
		1 << 10, (n) \
	}
#define MIB(n)               \
	{                    \
		1 << 20, (n) \
	}
#define GIB(n)               \
	{                    \
		1 << 30, (n) \
	}
#define NOT_TOLD     \
	{            \
		0, 0 \
	}

struct shown {
	uint64_t unit, hundredths; /* of bytes: whole ones */
};

static const struct wording {
	const char *name, *text;
	uint32_t device, processes;
	struct shown tried, total, free, allowed, allocated, unallocated, reserved, private_pools,
		this_process;
} wordings[] = {
	{ .name = "1.0 to 1.3",
	  .text = "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB "
		  "total capacity; 9.36 GiB already allocated; 55.12 MiB free; 512 bytes cached)",
	  .tried = MIB(2000),
	  .total = GIB(1092),
	  .allocated = GIB(936),
	  .free = MIB(5512),
	  .unallocated = B(512) },
	{ .name = "1.4 to 1.9",
	  .text = "RuntimeError: CUDA out of memory. Tried to allocate 1.17 GiB (GPU 12; 23.70 GiB "
		  "total "
		  "capacity; 19.02 GiB already allocated; 914.81 MiB free; 20.77 GiB reserved in "
		  "total "
		  "by PyTorch)",
	  .device = 12,
	  .tried = GIB(117),
	  .total = GIB(2370),
	  .allocated = GIB(1902),
	  .free = MIB(91481),
	  .reserved = GIB(2077) },
	{ .name = "1.8 with a limit",
	  .text = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 MiB (GPU 1; 7.80 GiB "
		  "total "
		  "capacity; 0 bytes already allocated; 6.10 GiB free; 798.00 MiB allowed; 0 bytes "
		  "reserved in total by PyTorch)",
	  .device = 1,
	  .tried = MIB(200),
	  .total = GIB(780),
	  .allocated = B(0),
	  .free = GIB(610),
	  .allowed = MIB(79800),
	  .reserved = B(0) },
	{ .name = "1.10 to 2.0",
	  .text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB "
		  "(GPU 0; "
		  "14.75 GiB total capacity; 13.24 GiB already allocated; 136.81 MiB free; 13.30 "
		  "GiB "
		  "reserved in total by PyTorch)" ADVICE_1_10,
	  .tried = MIB(25600),
	  .total = GIB(1475),
	  .allocated = GIB(1324),
	  .free = MIB(13681),
	  .reserved = GIB(1330) },
	{ .name = "2.1, which wrote capacty",
	  .text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB. "
		  "GPU 3 has a "
		  "total capacty of 23.69 GiB of which 64.81 MiB is free. Process 123 has 23.62 "
		  "GiB memory in "
		  "use. Of the allocated memory 22.96 GiB is allocated by PyTorch, and 330.49 MiB "
		  "is reserved "
		  "by PyTorch but unallocated. If reserved but unallocated memory is large try "
		  "setting "
		  "max_split_size_mb to avoid fragmentation.  See documentation for Memory "
		  "Management and "
		  "PYTORCH_CUDA_ALLOC_CONF",
	  .device = 3,
	  .processes = 0, /* it is this one: both together would not fit on the GPU */
	  .this_process = GIB(2362),
	  .tried = MIB(8600),
	  .total = GIB(2369),
	  .free = MIB(6481),
	  .allocated = GIB(2296),
	  .unallocated = MIB(33049) },
	{ .name = "2.2 and 2.3",
	  .text = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. "
		  "GPU 0 has a "
		  "total capacity of 79.11 GiB of which 1.20 GiB is free. Process 5 has 70.00 GiB "
		  "memory in "
		  "use. Including non-PyTorch memory, this process has 7.80 GiB memory in use. "
		  "Process 77 has "
		  "100.50 MiB memory in use. Of the allocated memory 6.00 GiB is allocated by "
		  "PyTorch, and "
		  "1.25 GiB is reserved by PyTorch but unallocated." ADVICE_2_2,
	  .processes = 2,
	  .tried = GIB(196),
	  .total = GIB(7911),
	  .free = GIB(120),
	  .this_process = GIB(780),
	  .allocated = GIB(600),
	  .unallocated = GIB(125) },
	{ .name = "2.4 with private pools, 2.6 with a limit",
	  .text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 "
		  "has a total "
		  "capacity of 79.18 GiB of which 77.78 GiB is free. Including non-PyTorch memory, "
		  "this "
		  "process has 874.00 MiB memory in use. Process 1608 has 540.00 MiB memory in "
		  "use. 3.96 GiB "
		  "allowed; Of the allocated memory 113.63 MiB is allocated by PyTorch, with 34.37 "
		  "MiB "
		  "allocated in private pools (e.g., CUDA Graphs), and 14.37 MiB is reserved by "
		  "PyTorch but "
		  "unallocated." ADVICE_2_2,
	  .processes = 1,
	  .tried = GIB(400),
	  .total = GIB(7918),
	  .free = GIB(7778),
	  .allowed = GIB(396),
	  .this_process = MIB(87400),
	  .allocated = MIB(11363),
	  .private_pools = MIB(3437),
	  .unallocated = MIB(1437) },
	{ .name = "without NVML",
	  .text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 GiB. GPU "
		  "0 has a total "
		  "capacity of 11.99 GiB of which 1.00 KiB is free. Of the allocated memory 1.00 "
		  "MiB is "
		  "allocated by PyTorch, and 1024.00 KiB is reserved by PyTorch but unallocated.",
	  .tried = GIB(102400),
	  .total = GIB(1199),
	  .free = KIB(100),
	  .allocated = MIB(100),
	  .unallocated = KIB(102400) },
	{ .name = "ROCm",
	  .text = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.00 GiB. GPU 0 "
		  "has a total "
		  "capacity of 15.98 GiB of which 5.49 GiB is free. Of the allocated memory 9.21 "
		  "GiB is "
		  "allocated by PyTorch, and 768.61 MiB is reserved by PyTorch but unallocated.",
	  .tried = GIB(600),
	  .total = GIB(1598),
	  .free = GIB(549),
	  .allocated = GIB(921),
	  .unallocated = MIB(76861) },
	{ .name = "XPU, which does not tell what is free",
	  .text = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 "
		  "has a total "
		  "capacity of 15.56 GiB. Of the allocated memory 12.02 GiB is allocated by "
		  "PyTorch, and 2.50 "
		  "GiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release "
		  "all "
		  "unoccupied cached memory.",
	  .tried = GIB(300),
	  .total = GIB(1556),
	  .allocated = GIB(1202),
	  .unallocated = GIB(250) },
	{ .name = "cudaMallocAsync",
	  .text = "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. "
		  "(out of memory)\n"
		  "Currently allocated     : 9.96 GiB\n"
		  "Requested               : 12.50 MiB\n"
		  "Device limit            : 11.00 GiB\n"
		  "Free (according to CUDA): 0 bytes\n"
		  "PyTorch limit (set by user-supplied memory fraction)\n"
		  "                        : 17179869184.00 GiB\n",
	  .device = 1,
	  .tried = MIB(1250),
	  .total = GIB(1100),
	  .free = B(0),
	  .allocated = GIB(996) },
	{ .name = "cudaMallocAsync with a limit",
	  .text = "Allocation on device 0 would exceed allowed memory. (out of memory)\n"
		  "Currently allocated     : 9.96 GiB\n"
		  "Requested               : 700 bytes\n"
		  "Device limit            : 11.00 GiB\n"
		  "Free (according to CUDA): 20.00 MiB\n"
		  "PyTorch limit (set by user-supplied memory fraction)\n"
		  "                        : 10.00 GiB\n",
	  .tried = B(700),
	  .total = GIB(1100),
	  .free = MIB(2000),
	  .allowed = GIB(1000),
	  .allocated = GIB(996) },
	/* Logs prefix each line, colour numbers and wrap at words. */
	{ .name = "rank and colours",
	  .text = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
		  "\033[1;36m20.00\033[0m "
		  "MiB. GPU \033[1;36m3\033[0m has a total capacity of \033[1;36m79.18\033[0m GiB "
		  "of which 8.81 "
		  "MiB is free.",
	  .device = 3,
	  .tried = MIB(2000),
	  .total = GIB(7918),
	  .free = MIB(881) },
	{ .name = "wrapped",
	  .text = "OutOfMemoryError: CUDA out of \n[rank3]: memory. Tried to allocate "
		  "20.00\n[rank3]:   MiB. GPU 3 "
		  "has a total \r\ncapacity of 79.18 GiB of which 8.81\n\tMiB is free. Process 9 "
		  "has 1.00\n GiB "
		  "memory in use.",
	  .device = 3,
	  .processes = 1,
	  .tried = MIB(2000),
	  .total = GIB(7918),
	  .free = MIB(881) },
	{ .name = "another GPU in the log's own words, another failure behind",
	  .text = "worker of GPU 7: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a "
		  "total capacity of "
		  "79.18 GiB of which 8.81 MiB is free.\nGPU 7: CUDA out of memory. Tried to "
		  "allocate 30.00 MiB. "
		  "GPU 4 has a total capacity of 9.00 GiB of which 1.00 MiB is free. 2.00 GiB "
		  "allowed; ",
	  .device = 3,
	  .tried = MIB(2000),
	  .total = GIB(7918),
	  .free = MIB(881) },
};

static void check_shown(const char *name, const char *field, struct shown want,
			struct messages_bytes got)
{
	uint64_t low = PLIM_UNKNOWN, high = PLIM_UNKNOWN;

	if (want.unit == 1) {
		low = high = want.hundredths;
	} else if (want.unit) { /* in 1/200 of the unit, so that halves are whole */
		low = ((2 * want.hundredths - 1) * want.unit + 199) / 200;
		high = (2 * want.hundredths + 1) * want.unit / 200;
		/* the unit itself shows: it is left at 1024 of it, and begins above one of it */
		if (low <= want.unit && high > want.unit)
			low = want.unit + 1;
		if (want.unit < 1 << 30 && high > want.unit << 10)
			high = want.unit << 10;
	}
	if (got.low != low || got.high != high)
		fail_msg("%s: %s is %llu to %llu, not %llu to %llu", name, field,
			 (unsigned long long)got.low, (unsigned long long)got.high,
			 (unsigned long long)low, (unsigned long long)high);
}

static void test_wordings(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wordings) / sizeof(wordings[0]); i++) {
		const struct wording *w = &wordings[i];
		struct messages_oom got;

		if (!messages_parse_oom(w->text, strlen(w->text), &got))
			fail_msg("%s: not understood", w->name);
		check_shown(w->name, "tried", w->tried, got.tried);
		check_shown(w->name, "total", w->total, got.total);
		check_shown(w->name, "free", w->free, got.free);
		check_shown(w->name, "allowed", w->allowed, got.allowed);
		check_shown(w->name, "allocated", w->allocated, got.allocated);
		check_shown(w->name, "private_pools", w->private_pools, got.private_pools);
		check_shown(w->name, "this_process", w->this_process, got.this_process);
		/* of these two the text shows one, the other follows (test_complete) */
		if (w->unallocated.unit)
			check_shown(w->name, "unallocated", w->unallocated, got.unallocated);
		if (w->reserved.unit)
			check_shown(w->name, "reserved", w->reserved, got.reserved);
		if (got.device != w->device || got.processes != w->processes)
			fail_msg("%s: GPU %u, %u other processes", w->name, got.device,
				 got.processes);
	}
}

/* Reserved is allocated and unallocated together; what the text leaves out has the range of both. */
static void test_complete(void **state)
{
	static const char old[] =
		"CUDA out of memory. Tried to allocate 1 bytes (GPU 0; 8 bytes total capacity; "
		"100 bytes already allocated; 4 bytes free; 1.00 KiB reserved in total by PyTorch)",
			  new[] = "CUDA out of memory. Tried to allocate 1 bytes. GPU 0 has a "
				  "total capacity of 8 "
				  "bytes of which 4 bytes is free. Of the allocated memory 100 "
				  "bytes is allocated by "
				  "PyTorch, and 1.00 KiB is reserved by PyTorch but unallocated.",
			  /* what is reported contradicts itself: nothing follows */
		odd[] = "CUDA out of memory. Tried to allocate 1 bytes (GPU 0; 8 bytes total "
			"capacity; "
			"100 bytes already allocated; 4 bytes free; 9 bytes reserved in total by "
			"PyTorch)";
	struct messages_oom got;

	(void)state;
	assert_true(messages_parse_oom(old, sizeof(old) - 1, &got));
	assert_int_equal(got.unallocated.low, 1025 - 100);
	assert_int_equal(got.unallocated.high, 1029 - 100);
	assert_true(messages_parse_oom(new, sizeof(new) - 1, &got));
	assert_int_equal(got.reserved.low, 1025 + 100);
	assert_int_equal(got.reserved.high, 1029 + 100);
	assert_true(messages_parse_oom(odd, sizeof(odd) - 1, &got));
	assert_true(got.unallocated.low == PLIM_UNKNOWN);
}

/* Unknown is not zero: without any clause it is not known what others have; with one's own it is. */
static void test_others(void **state)
{
	static const char none
		[] = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has",
	    own[] = "CUDA out of memory. Tried to allocate 1.00 GiB. Including non-PyTorch memory, "
		    "this "
		    "process has 17179869184.00 GiB memory in use. this process has 2 bytes memory",
	    many[] = "CUDA out of memory. Tried to allocate 1 bytes. Process 1 has 8000000000.00 "
		     "GiB memory "
		     "in use. Process 2 has 8000000000.00 GiB memory in use. Process 3 has "
		     "8000000000.00 GiB memory in use. this process has 4 bytes memory in use.";
	struct messages_oom got;

	(void)state;
	assert_true(messages_parse_oom(none, sizeof(none) - 1, &got));
	assert_true(got.others.low == PLIM_UNKNOWN && got.others.high == PLIM_UNKNOWN);
	assert_true(messages_parse_oom(own, sizeof(own) - 1, &got));
	assert_true(got.this_process.low == PLIM_UNKNOWN); /* 2^64 bytes: no number */
	assert_true(messages_parse_oom(many, sizeof(many) - 1, &got));
	assert_int_equal(got.processes, 3);
	assert_true(got.others.low <= got.others.high); /* sums do not wrap */
	assert_true(got.others.high == PLIM_UNKNOWN - 1);
	assert_int_equal(got.this_process.high, 4);
}

static void test_huge(void **state)
{
	static const char huge[] = "CUDA out of memory. Tried to allocate more than 1EB memory.",
			  fine[] = "CUDA out of memory. Tried to allocate 9.999999 bytes (GPU 0; "
				   "1.000123 KiB total capacity";
	struct messages_oom got;

	(void)state;
	assert_true(messages_parse_oom(huge, sizeof(huge) - 1, &got));
	assert_true(got.tried.low == (uint64_t)1 << 60 && got.tried.high == PLIM_UNKNOWN - 1);
	assert_true(got.device == UINT32_MAX && got.total.low == PLIM_UNKNOWN);
	/* more decimals than bytes have was an interval with its ends exchanged */
	assert_true(messages_parse_oom(fine, sizeof(fine) - 1, &got));
	assert_int_equal(got.tried.low, 9);
	assert_int_equal(got.tried.high, 9);
	assert_true(got.total.low <= got.total.high);
}

static void test_no_message(void **state)
{
	static const char *const texts[] = {
		"",
		"out of",
		"out of memory",
		"RuntimeError: CUDA error: out of memory",
		"Killed process 7 (python): Out of memory",
		"Tried to allocate 20.00 MiB",
		"CUDA out of memory. Tried to allocate 20.00 MB (MPS)",
		"CUDA out of memory. Tried to allocate -1.00 MiB",
		"raise torch.cuda.OutOfMemoryError(f\"CUDA out of memory. Tried to allocate {n}\")",
	};
	struct messages_oom got;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (messages_parse_oom(texts[i], strlen(texts[i]), &got))
			fail_msg("taken for a message: %s", texts[i]);
}

/* In a log of several windows the last message counts, wherever a window ends. */
static void test_log(void **state)
{
	char path[] = "/tmp/plimsoll-test-XXXXXX";
	struct messages_oom got;
	struct plim_err err;
	struct mem m;
	int found;

	(void)state;
	mem_init(&m, 0);
	close(mkstemp(path));
	for (size_t fill = 0; fill < 70000; fill += 69) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fputs("[rank0]: CUDA out of memory. Tried to allocate 5.00 GiB (GPU 1; 8 bytes "
		      "free;\n",
		      f);
		for (size_t i = 0; i < fill; i += 69)
			fprintf(f, "%068zu\n", i);
		fputs("[rank0]: CUDA out of\n[rank0]: memory. Tried to allocate 3 bytes (GPU 2; 7 "
		      "bytes\nfree;\n",
		      f);
		assert_int_equal(fclose(f), 0);
		assert_int_equal(messages_find_oom(&m, path, &got, &found, &err), PLIM_OK);
		assert_true(found);
		assert_int_equal(got.tried.low, 3);
		assert_int_equal(got.free.high, 7);
		assert_int_equal(got.device, 2);
		assert_int_equal(got.line, 2 + fill / 69);
	}
	unlink(path);
	assert_int_equal(m.used_bytes, 0);
}

/* ---- real deaths: what the text says holds what the recording knows ---- */

static void check_holds(const char *path, const char *field, struct messages_bytes told,
			uint64_t known)
{
	if (told.low > known || told.high < known)
		fail_msg("%s: %s is %llu, the text says %llu to %llu", path, field,
			 (unsigned long long)known, (unsigned long long)told.low,
			 (unsigned long long)told.high);
}

static void check_death(struct mem *m, const char *text, const char *recording)
{
	struct allocator_replay *replay;
	struct timeline_cursor at;
	struct messages_oom told;
	struct plim_err err;
	struct timeline tl;
	struct snapshot *t;
	const struct snapshot_events *ev;
	uint32_t last;
	int found;

	assert_int_equal(messages_find_oom(m, text, &told, &found, &err), PLIM_OK);
	assert_true(found);
	if (snapshot_read(m, recording, NULL, &t, &err))
		fail_msg("%s", err.message);
	ev = &t->devices[told.device].events;
	assert_int_equal(allocator_replay_own(m, t, &t->devices[told.device], &replay, &err), 0);
	assert_true(replay->ooms.n > 0);
	last = replay->ooms.at[replay->ooms.n - 1].event;
	timeline_walk(&tl, t, &t->devices[told.device], replay);
	timeline_start(&tl, &at);
	timeline_go(&tl, &at, last);
	check_holds(text, "tried", told.tried,
		    allocator_segment_bytes(&replay->rules, ev->size[last]));
	check_holds(text, "free", told.free, ev->addr[last]);
	check_holds(text, "allocated", told.allocated, at.bytes[TIMELINE_ALLOCATED]);
	check_holds(text, "reserved", told.reserved, at.bytes[TIMELINE_RESERVED]);
	check_holds(text, "unallocated", told.unallocated,
		    at.bytes[TIMELINE_RESERVED] - at.bytes[TIMELINE_ALLOCATED]);
	allocator_replay_free(replay);
	snapshot_free(t);
}

static void test_deaths(void **state)
{
	const char *data = getenv("PLIMSOLL_TEST_DATA");
	char pattern[1024], recording[1024];
	glob_t all;
	struct mem m;

	(void)state;
	if (!data)
		skip();
	mem_init(&m, 0);
	snprintf(pattern, sizeof(pattern), "%s/deaths/*.txt", data);
	assert_int_equal(glob(pattern, 0, NULL, &all), 0);
	snprintf(pattern, sizeof(pattern), "%s/oom/*.txt", data);
	assert_int_equal(glob(pattern, GLOB_APPEND, NULL, &all), 0);
	assert_true(all.gl_pathc > 20);
	for (size_t i = 0; i < all.gl_pathc; i++) {
		const char *text = all.gl_pathv[i], *name = strrchr(text, '/') + 1;

		snprintf(recording, sizeof(recording), "%s/%s%.*s.pickle.xz", data,
			 strstr(text, "/deaths/") ? "deaths/" : "", (int)strlen(name) - 4, name);
		check_death(&m, text, recording);
	}
	globfree(&all);
	assert_int_equal(m.used_bytes, 0);
}

/* ---- any log ---- */

static const char kill_text[] =
	"[1.0] python invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0\n"
	"[1.1] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n"
	"[1.2] [   42]  1000   42 20123456  1000 66060288        0             0 python\n"
	"[1.3] Out of memory: Killed process 42 (python) total-vm:8kB, anon-rss:4000kB, "
	"file-rss:0kB\nKilled\n";

/* A log of 8 MiB, whose kill stands at each place of a window, costs no more memory than a short one. */
static void test_flat(void **state)
{
	const size_t size = 8 << 20, step = (256 << 10) - 37;
	char *text = malloc(size);
	struct messages_log log;
	struct plim_err err;
	struct mem m;
	size_t kills = 0;

	(void)state;
	assert_non_null(text);
	memset(text, '.', size);
	for (size_t at = 79; at < size; at += 80)
		text[at] = '\n';
	for (size_t at = 0; at + sizeof(kill_text) < size; at += step, kills++)
		memcpy(text + at, kill_text, sizeof(kill_text) - 1);
	mem_init(&m, 0);
	messages_init(&log, &m);
	assert_int_equal(messages_scan_memory(&log, "a", text, size, &err), PLIM_OK);
	messages_join(&log);
	assert_true(m.peak_bytes < 3 << 20);
	assert_int_equal(log.bytes, size);
	for (size_t i = 0; i < log.events.n; i++)
		kills -= log.events.at[i].wording->class == MESSAGES_HOST_KILL;
	assert_int_equal(kills, 0);
	messages_release(&log);
	assert_int_equal(m.used_bytes, 0);
	free(text);
}

/* Memory that is refused anywhere is an error, and all that was taken is given back. */
static void test_refused(void **state)
{
	(void)state;
	for (int64_t n = 0;; n++) {
		struct messages_log log;
		struct plim_err err;
		struct mem m;
		enum plim_status st;

		mem_init(&m, 0);
		atomic_store(&m.fail_after, n);
		messages_init(&log, &m);
		st = messages_scan_memory(&log, "a", kill_text, sizeof(kill_text) - 1, &err);
		messages_release(&log);
		assert_int_equal(m.used_bytes, 0);
		if (!st) {
			assert_true(n > 3);
			break;
		}
		assert_int_equal(st, PLIM_E_NOMEM);
	}
}

static int is_part(const char *at, size_t n, const char *text)
{
	return n == strlen(text) && !memcmp(at, text, n);
}

static int read_line(int (*read)(const char *, size_t, struct messages_kill *), const char *line,
		     struct messages_kill *k)
{
	return read(line, strlen(line), k);
}

/* Names of processes and cgroups may hold what looks like the rest of the line. */
static void test_kills(void **state)
{
	struct messages_kill k;

	(void)state;
	assert_true(read_line(messages_kill_reason,
			      "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,pid=1,b,"
			      "task_memcg=/c,task=x,pid=7,pid=4242,uid=0",
			      &k));
	assert_int_equal(k.pid, 4242);
	assert_int_equal(k.constraint, MESSAGES_CONSTRAINT_CGROUP);
	assert_true(is_part(k.group, k.group_n, "/a,pid=1,b"));
	/* RHEL 7, with the user in between */
	assert_true(read_line(messages_kill_done,
			      "Killed process 12, UID 0, (a b) total-vm:8kB, anon-rss:4kB", &k));
	assert_int_equal(k.pid, 12);
	assert_true(is_part(k.process, k.process_n, "a b"));
	assert_int_equal(k.constraint, MESSAGES_CONSTRAINT_UNKNOWN);
	assert_int_equal(k.virtual_bytes, 8192);
	assert_int_equal(k.anon_bytes, 4096);
	assert_int_equal(k.file_bytes, PLIM_UNKNOWN);
	assert_true(read_line(messages_kill_done,
			      "Out of memory: Killed process 5 (x) total-vm:1kB) total-vm:8kB, "
			      "anon-rss:99999999999999999999kB",
			      &k));
	assert_true(is_part(k.process, k.process_n, "x) total-vm:1kB"));
	assert_int_equal(k.constraint, MESSAGES_CONSTRAINT_MACHINE);
	assert_int_equal(k.anon_bytes, PLIM_UNKNOWN);
	/* the announcement of older kernels has no sizes: it is not yet the kill */
	assert_true(read_line(messages_kill_done,
			      "Memory cgroup out of memory: Kill process 9 (x) score 999 or "
			      "sacrifice child",
			      &k));
	assert_true(is_part(k.process, k.process_n, "x"));
	assert_int_equal(k.virtual_bytes, PLIM_UNKNOWN);
	assert_false(read_line(messages_kill_done, "Killed process 18446744073709551616 (x)", &k));
}

static int is_anchored(const char *text, const char *name)
{
	struct scan_line l;
	struct scan_places places;

	scan_line_clean(&l, text, text + strlen(text), text);
	scan_places_of(&l, &places);
	return scan_is_anchored(&l, &places, name);
}

/* A frame, a logger's prefix and a launch command prove that a program ran; everything else only names it. */
static void test_anchors(void **state)
{
	static const struct {
		const char *text, *name;
		int is;
	} lines[] = {
		{ "  File \"/opt/venv/lib/python3.11/site-packages/vllm/worker/model.py\", line 3, "
		  "in run",
		  "/vllm/", 1 },
		{ "/home/ann/ComfyUI/execution.py:151 in recursive_execute", "ComfyUI", 1 },
		{ "  File \"/srv/ComfyUI/venv/lib/python3.11/site-packages/torch/nn/x.py\", line 3",
		  "ComfyUI", 0 },
		{ "  File \"train.py\", line 7, in train_epoch", "train_epoch", 1 },
		{ "F0601 10:00:00.1 12 syncedmem.cpp:78] Check failed", "syncedmem.cpp", 1 },
		{ "ERROR 05-01 10:00:00 [gpu_worker.py:99] out of memory", "[gpu_worker.py", 1 },
		{ "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9 MiB", "ggml_backend",
		  1 },
		{ "[TRT-LLM] [E] out of memory", "[TRT-LLM]", 1 },
		{ "(EngineCore_0 pid=7) ERROR: it failed", "EngineCore", 1 },
		{ "time=2024-01-01T00:00:00 level=INFO source=sched.go:445 msg=x",
		  "source=sched.go", 1 },
		{ "$ python -m vllm.entrypoints.openai.api_server --model x", "vllm.entrypoints",
		  1 },
		{ "vllm serve org/model --max-model-len 4096", "vllm serve", 1 },
		{ "CUDA_VISIBLE_DEVICES=1 sudo ollama run x/y", "ollama", 1 },
		{ "torchrun --nproc_per_node 2 /work/axolotl/cli.py x.yml", "axolotl", 1 },
		{ "  --gpu-memory-utilization 0.9 \\", "gpu-memory-utilization", 1 },
		{ "got prompt", "got prompt", 1 },
		/* names, and no proof */
		{ "- vLLM version: not installed", "vllm", 0 },
		{ "vLLM Version: 0.6.5", "vllm", 0 },
		{ "vllm: 0.6.5", "vllm", 0 },
		{ "vllm==0.6.5", "vllm==", 0 },
		{ "[pip3] onnxruntime-gpu==1.20.0", "onnxruntime", 0 },
		{ "sglang                            0.4.5", "sglang", 0 },
		{ "|    7   N/A  N/A  4077  C  python -m vllm.entrypoints.openai  9120MiB |",
		  "vllm.entrypoints", 0 },
		{ "wandb: Run data is saved locally in /mnt/vllm/runs/exp7/wandb", "/vllm/", 0 },
		{ "The same model works in ollama.", "ollama", 0 },
		{ "ComfyUI runs fine on this card.", "ComfyUI", 0 },
		{ "python train.py --output_dir /data/ollama/out", "ollama", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (is_anchored(lines[i].text, lines[i].name) != lines[i].is)
			fail_msg("'%s' in \"%s\"", lines[i].name, lines[i].text);
}

static const char summary_text[] =
	"|                  PyTorch CUDA memory summary, device ID 1                 |\n"
	"|            CUDA OOMs: 1            |        cudaMalloc retries: 3         |\n"
	"| Allocated memory      |  21300 MiB |  22000 MiB |  99999 MiB |  78699 MiB |\n"
	"| GPU reserved memory   |  37900 MiB |  37901 MiB |  37900 MiB |      0 B   |\n"
	"| Non-releasable memory |  16600 MiB |  16600 MiB |  99999 MiB |  83399 MiB |\n";

/* A GPU's memory that is shown without a failure, in each of its formats; and what only looks like one. */
static void test_states(void **state)
{
	static const struct {
		enum messages_state_kind kind;
		const char *text;
		uint64_t allocated, reserved, used, total, pid;
	} texts[] = {
		{ MESSAGES_STATE_STATS,
		  "OrderedDict([('allocated_bytes.all.current', 22), "
		  "('reserved_bytes.all.current', 33)])",
		  22, 33, PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN },
		{ MESSAGES_STATE_INFO, "mem_get_info() -> (1000, 85017493504)", PLIM_UNKNOWN,
		  PLIM_UNKNOWN, PLIM_UNKNOWN, 85017493504, PLIM_UNKNOWN },
		{ MESSAGES_STATE_SMI,
		  "| N/A   33C    P0   65W / 400W |   71234MiB /  81920MiB |  98% |", PLIM_UNKNOWN,
		  PLIM_UNKNOWN, 71234ull << 20, 81920ull << 20, PLIM_UNKNOWN },
		{ MESSAGES_STATE_PROCESS,
		  "|    0   N/A  N/A    1893    C   python train.py    71220MiB |", PLIM_UNKNOWN,
		  PLIM_UNKNOWN, 71220ull << 20, PLIM_UNKNOWN, 1893 },
		{ MESSAGES_STATE_PROCESS, "|    0      1893      C   python    71220MiB |",
		  PLIM_UNKNOWN, PLIM_UNKNOWN, 71220ull << 20, PLIM_UNKNOWN, 1893 },
	};
	static const char *const none[] = { "mem_get_info() -> (5, 4)", "12MiB / 4MiB", "MiB / ",
					    "99999999999999999999MiB / 4MiB" };
	struct messages_state s;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text = texts[i].text;

		assert_true(scan_state(texts[i].kind, text, text + strlen(text), &s));
		assert_int_equal(s.allocated.low, texts[i].allocated);
		assert_int_equal(s.reserved.low, texts[i].reserved);
		assert_int_equal(s.used.low, texts[i].used);
		assert_int_equal(s.total.low, texts[i].total);
		assert_int_equal(s.pid, texts[i].pid);
	}
	assert_true(scan_state(MESSAGES_STATE_SUMMARY, summary_text,
			       summary_text + sizeof(summary_text) - 1, &s));
	assert_int_equal(s.device, 1);
	assert_int_equal(s.ooms, 1);
	assert_int_equal(s.retries, 3);
	assert_true(s.allocated.low <= 21300ull << 20 && s.allocated.high >= 21300ull << 20);
	assert_true(s.unreleasable.low <= 16600ull << 20 && s.unreleasable.high >= 16600ull << 20);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		for (int k = MESSAGES_STATE_SUMMARY; k < MESSAGES_STATE_KINDS; k++)
			assert_false(scan_state((enum messages_state_kind)k, none[i],
						none[i] + strlen(none[i]), &s));
}

/* What is searched for by its first letters has so many: less is read past its end. */
static void test_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < scan_setting_count; i++)
		if (strlen(scan_settings[i].word) < SCAN_ANCHOR_BYTES)
			fail_msg("\"%s\" is too short", scan_settings[i].word);
	for (size_t i = 0; i < scan_cue_count; i++)
		if (strlen(scan_cues[i].word) < SCAN_ANCHOR_BYTES)
			fail_msg("\"%s\" is too short", scan_cues[i].word);
}

#define AROUND 20 /* more bytes than are looked at together */

/* Each word is found at every place and however near the text's end is. */
static void test_found(void **state)
{
	struct scan_anchors *a;
	struct plim_err err;
	struct mem m;

	(void)state;
	mem_init(&m, UINT64_MAX);
	assert_int_equal(scan_anchors_new(&m, &a, &err), PLIM_OK);
	for (size_t i = 0; i < a->n; i++)
		for (size_t before = 0; before < AROUND; before++) {
			size_t n = a->entries[i].n, size = 2 * before + n;
			char *text = test_malloc(size);
			const char *at;
			int16_t entry;

			memset(text, '#', size);
			memcpy(text + before, a->entries[i].anchor, n);
			for (size_t end = before + n; end <= size; end++) {
				at = scan_anchors_find(a, text, text + end, &entry);
				while (at == text + before && entry >= 0 && (size_t)entry != i)
					entry = scan_anchors_next(a, entry, at, text + end);
				if (at != text + before || entry < 0)
					fail_msg("\"%.*s\" is not found", (int)n, text + before);
			}
			assert_ptr_equal(scan_anchors_find(a, text, text + before, &entry),
					 text + before);
			test_free(text);
		}
	scan_anchors_free(&m, a);
}

/* Of one shape are lines that differ in digits alone. */
static void test_shapes(void **state)
{
	static const struct {
		const char *a, *b;
		int same;
	} lines[] = {
		{ "", "", 1 },
		{ "step 0 of 90, 1.25", "step 9 of 17, 8.03", 1 },
		{ "step 0", "step 10", 0 },
		{ "step 1", "step /", 0 },
		{ "step 1", "step :", 0 },
		{ "step 1", "stop 1", 0 },
		{ "12345678", "87654321", 1 },
		{ "\xb1\xb2", "\xb2\xb1", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		const char *a = lines[i].a, *b = lines[i].b;

		assert_int_equal(scan_line_shape(a, a + strlen(a)) ==
					 scan_line_shape(b, b + strlen(b)),
				 lines[i].same);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wordings),   cmocka_unit_test(test_complete),
		cmocka_unit_test(test_others),     cmocka_unit_test(test_huge),
		cmocka_unit_test(test_no_message), cmocka_unit_test(test_log),
		cmocka_unit_test(test_deaths),     cmocka_unit_test(test_flat),
		cmocka_unit_test(test_refused),    cmocka_unit_test(test_kills),
		cmocka_unit_test(test_anchors),    cmocka_unit_test(test_states),
		cmocka_unit_test(test_words),      cmocka_unit_test(test_found),
		cmocka_unit_test(test_shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
