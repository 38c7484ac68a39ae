/*
 * Stacks of Python programs: memory that was read from CPython 3.10 to 3.14 gives the frames that were there, torn memory none; what
 * stacks say is by the table, and decides between states only where counters leave it open.
 */
#include "../../fuzz/stacks_image.h"
#include "commands/watch/watch.h"
#include "watch/stack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- memory of real programs (tests/data/stacks, made by fuzz/stacks_image.h's rule) ---- */

static size_t image_of(unsigned minor, unsigned char *out, size_t room)
{
	char path[512];
	size_t n;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/stacks/python3.%u.image",
		       getenv("PLIMSOLL_TEST_DATA"), minor);
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(out, 1, room, f);
	(void)fclose(f);
	return n;
}

static enum stacks_status look_at(const unsigned char *bytes, size_t n, struct stacks_look *out)
{
	struct image image;
	struct stacks_memory memory = { image_read, &image };

	assert_true(image_open(&image, bytes, n));
	return stacks_look_at(&memory, &image.module, 1, image.main_thread, out);
}

static void every_release(void **state)
{
	static const char file[] = "/home/ada/проект/train.py";
	static unsigned char bytes[65536];
	static struct stacks_look look;

	(void)state;
	for (unsigned minor = 10; minor <= 14; minor++) {
		size_t n = image_of(minor, bytes, sizeof(bytes));

		assert_int_equal(look_at(bytes, n, &look), STACKS_SEEN);
		assert_int_equal(look.n, 4);
		assert_string_equal(look.at[0].file, file);
		assert_string_equal(look.at[0].function, minor == 10 ? "item" : "Größe.item");
		assert_int_equal(look.at[0].line, 4);
		assert_string_equal(look.at[1].function, "train");
		assert_int_equal(look.at[1].line, 9); /* the second line of an expression */
		assert_string_equal(look.at[2].function, "<module>");
		assert_int_equal(look.at[2].line, 10);
		assert_string_equal(look.at[3].file, "<string>");
		/* 3.10 has no columns. */
		assert_int_equal(look.at[1].column, minor == 10 ? 0 : 18);
		assert_int_equal(look.at[1].end_column, minor == 10 ? 0 : 32);
	}
}

struct counted {
	struct image image;
	unsigned reads;
};

static bool count_read(void *ctx, uint64_t at, void *to, size_t n)
{
	struct counted *c = ctx;

	c->reads++;
	return image_read(&c->image, at, to, n);
}

/* Where the main thread was is looked at first; if it is not there any more, it is looked for. */
static void main_thread_is_kept(void **state)
{
	static unsigned char bytes[65536];
	static struct code codes[CODES];
	static struct stacks_look look;

	(void)state;
	for (unsigned minor = 10; minor <= 14; minor++) {
		struct counted c = { .reads = 0 };
		struct stacks_memory memory = { count_read, &c };
		struct pages pages = { .memory = &memory };
		struct interpreter in;
		uint64_t thread;
		unsigned first, again;

		memset(codes, 0, sizeof(codes));
		assert_true(image_open(&c.image, bytes, image_of(minor, bytes, sizeof(bytes))));
		assert_int_equal(interpreter_find(&pages, &c.image.module, 1, &in), STACKS_SEEN);
		assert_int_equal(frames_look(&pages, &in, codes, c.image.main_thread, &look),
				 STACKS_SEEN);
		thread = in.thread;
		assert_true(thread != 0);
		c.reads = 0;
		assert_int_equal(frames_look(&pages, &in, codes, c.image.main_thread, &look),
				 STACKS_SEEN);
		again = c.reads;
		for (unsigned i = 0; i < 2; i++) {
			in.thread = i ? thread + 64 : 4096; /* what another program had there */
			c.reads = 0;
			assert_int_equal(
				frames_look(&pages, &in, codes, c.image.main_thread, &look),
				STACKS_SEEN);
			first = c.reads;
			assert_true(in.thread == thread);
			/* 3.10 needs a number of the runtime's. */
			assert_true(minor == 10 ? again <= first : again < first);
		}
		assert_int_equal(look.n, 4);
	}
}

/* Whichever eight bytes are others: no look takes long, and nothing that is not a text comes of it. */
static void torn_memory(void **state)
{
	static unsigned char bytes[65536], torn[65536];
	static struct stacks_look look;

	(void)state;
	for (unsigned minor = 10; minor <= 14; minor++) {
		size_t n = image_of(minor, bytes, sizeof(bytes));

		for (size_t i = 16; i + 8 < n; i += 37) {
			memcpy(torn, bytes, n);
			memset(torn + i, i % 2 ? 0xff : 0x10, 8);
			(void)look_at(torn, n, &look);
			assert_true(look.n <= STACKS_FRAMES);
		}
		assert_int_not_equal(look_at(bytes, n / 2, &look), STACKS_SEEN);
	}
}

static void tables_of_lines(void **state)
{
	/* two units on line +1 (a delta of +1), three of the short form at columns 8 to 12, one without a line */
	static const unsigned char entries[] = { 0xe9, 2, 0x80 | 1 << 3 | 2, 0x04, 0xf8 };
	static const unsigned char older[] = { 4, 1, 6, 0x80, 8, 0xff }; /* 3.10: +1, none, -1 */
	struct stacks_frame f;

	(void)state;
	assert_true(lines_find(0x30c, entries, sizeof(entries), 10, 2, &f));
	assert_int_equal(f.line, 11);
	assert_true(lines_find(0x30c, entries, sizeof(entries), 10, 4, &f));
	assert_int_equal(f.line, 11);
	assert_int_equal(f.column, 9);
	assert_int_equal(f.end_column, 13);
	assert_true(lines_find(0x30c, entries, sizeof(entries), 10, 10, &f));
	assert_int_equal(f.line, 0);
	assert_false(lines_find(0x30c, entries, sizeof(entries), 10, 12, &f));
	assert_false(lines_find(0x30c, entries, 1, 10, 0, &f));
	assert_true(lines_find(0x30a, older, sizeof(older), 10, 2, &f));
	assert_int_equal(f.line, 11);
	assert_true(lines_find(0x30a, older, sizeof(older), 10, 8, &f));
	assert_int_equal(f.line, 0);
	assert_true(lines_find(0x30a, older, sizeof(older), 10, 10, &f));
	assert_int_equal(f.line, 10);
	assert_false(lines_find(0x30a, older, sizeof(older), 10, 18, &f));
}

/* ---- what a stack says ---- */

#define PT "site-packages/torch/"

static void what_it_does(void **state)
{
	static const struct {
		const char *text, *does;
	} cases[] = {
		{ "train.py:88 main\tloss.item()\n", "sync" },
		{ "train.py:88 main\tprint(step)\n", "python" },
		{ "train.py:9 main\ttime.sleep(1)\n", "sleep" },
		{ "train.py:9 main\tx.to(device)\n", "copy" },
		{ PT "nn/modules/module.py:1370 Module.to.<locals>.convert\tt.to(device)\n"
		     "train.py:5 main\tmodel.to(device)\n",
		  "starting" },
		{ "kernel.py:202 loop\tos.read(r, 1)\n", "wait" },
		{ "train.py:9 main\tloss.to('cpu')\n", "sync" },
		{ PT "optim/adam.py:544 step\tx.item()\ntrain.py:20 main\topt.step()\n", "launch" },
		{ PT "autograd/graph.py:979 _engine_run_backward\ntrain.py:19 main\n", "launch" },
		{ "model.py:7 Net.forward\tx @ w\n" PT
		  "nn/modules/module.py:1775 Module._call_impl\n"
		  "train.py:3 main\n",
		  "launch" },
		/* within a batch nothing else counts */
		{ "site-packages/PIL/Image.py:984 Image.convert\ndata.py:31 D.__getitem__\n" PT
		  "utils/data/_utils/fetch.py:54 fetch\n" PT "utils/data/dataloader.py:789 "
		  "_SingleProcessDataLoaderIter._next_data\ntrain.py:3 f\n",
		  "input" },
		{ PT "serialization.py:1460 load\ndata.py:31 D.__getitem__\n" PT
		     "utils/data/_utils/fetch.py:54 _MapDatasetFetcher.fetch\ntrain.py:3 f\n",
		  "input" },
		{ "python3.12/selectors.py:415 select\npython3.12/multiprocessing/queues.py:113 "
		  "Queue.get\n" PT "utils/data/dataloader.py:1275 "
		  "_MultiProcessingDataLoaderIter._try_get_data\nt.py:1 f\n",
		  "queue" },
		{ "python3.12/multiprocessing/queues.py:113 Queue.get\n" PT
		  "utils/data/_utils/worker.py:300 _worker_loop\ntrain.py:13 main\titer(dl)\n",
		  "queue" },
		{ "<frozen importlib._bootstrap>:488 _call_with_frames_removed\ntrain.py:1 "
		  "<module>\n",
		  "starting" },
		{ PT "_inductor/scheduler.py:1 f\n" PT
		     "_dynamo/convert_frame.py:2 g\ntrain.py:3 main\n",
		  "starting" },
		{ PT "_dynamo/eval_frame.py:2 compile_wrapper\ntrain.py:3 main\n", "launch" },
		{ PT "serialization.py:967 save\ntrain.py:3 main\n", "saving" },
		{ "python3.12/shutil.py:3 copyfile\ntrain.py:50 Trainer.save_checkpoint\n",
		  "saving" },
		{ PT "distributed/distributed_c10d.py:4 barrier\ntrain.py:3 main\n", "collective" },
		{ "python3.12/socket.py:720 SocketIO.readinto\nclient.py:3 main\n", "wait" },
		{ "python3.12/json/decoder.py:355 JSONDecoder.raw_decode\ntrain.py:3 main\n",
		  "input" },
		{ "python3.12/json/encoder.py:258 JSONEncoder.iterencode\ntrain.py:3 main\n",
		  "python" },
		{ "data.py:5 get_batch\ttorch.stack(rows)\ntrain.py:3 main\n", "input" },
		{ "", "python" },
		{ "\n\n", "python" },
		{ ":\n", "python" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(
			watch_does_word(watch_does_judge(cases[i].text, strlen(cases[i].text))),
			cases[i].does);
}

static void frames_of_text(void **state)
{
	static const char text[] = "a b.py:12 D.f\tx: 3\n<frozen x.y>:7 g\nno line\n::1 \n";
	const char *at = text, *end = text + sizeof(text) - 1;
	struct watch_frame f;

	(void)state;
	assert_true(watch_frame_next(&at, end, &f));
	assert_memory_equal(f.file, "a b.py", f.file_n);
	assert_int_equal(f.file_n, 6);
	assert_int_equal(f.line, 12);
	assert_memory_equal(f.function, "D.f", f.function_n);
	assert_memory_equal(f.code, "x: 3", f.code_n);
	assert_true(watch_frame_is_own(&f));
	assert_true(watch_frame_next(&at, end, &f));
	assert_int_equal(f.line, 7);
	assert_int_equal(f.file_n, 12);
	assert_false(watch_frame_is_own(&f));
	assert_true(watch_frame_next(&at, end, &f));
	assert_int_equal(f.line, 0);
	assert_true(watch_frame_next(&at, end, &f));
	assert_false(watch_frame_next(&at, end, &f));
}

/* ---- samples ---- */

struct made {
	struct mem mem;
	struct watch_sample at[10];
};

/* Ten samples of a job whose counters say no more than that the host sets the pace, with two looks each. */
static void make(struct made *m, const char *text, unsigned of_ten, const char *else_text)
{
	struct plim_err err;

	mem_init(&m->mem, 0);
	for (size_t i = 0; i < 10; i++) {
		struct watch_sample *s = &m->at[i];
		const char *t = i < of_ten ? text : else_text;

		*s = (struct watch_sample){ 0 };
		watch_sample_clear(s);
		s->time = 100 + 0.5 * (double)i;
		s->main.pid = 4711;
		s->main.state = 'R';
		s->main_user_s = s->main.user_s = 0.5 * (double)i;
		s->main_system_s = s->main.system_s = 0;
		s->card.use = 40;
		s->card.job_bytes = (uint64_t)1 << 33;
		assert_int_equal(watch_stacks_add(&m->mem, &s->stacks, false, 2, WATCH_DOES_COUNT,
						  t, strlen(t), &err),
				 PLIM_OK);
	}
}

static void judge_made(struct made *m, struct watch_features *f, struct watch_judgement *j)
{
	const struct watch_sample *samples[10];

	for (size_t i = 0; i < 10; i++)
		samples[i] = &m->at[i];
	watch_features(samples, 10, 1, f);
	*j = watch_judge(f);
}

static void release(struct made *m)
{
	for (size_t i = 0; i < 10; i++)
		watch_sample_release(&m->mem, &m->at[i]);
}

static const char sync_text[] = "train.py:88 main\tloss.item()\n",
		  launch_text[] = PT
		  "nn/modules/linear.py:134 Linear.forward\ntrain.py:80 main\tmodel(x)\n",
		  start_text[] =
			  PT "_dynamo/convert_frame.py:700 _compile\ntrain.py:60 main\tmodel(x)\n",
		  own_text[] = "train.py:70 main\tf(x)\n";

static void decides_what_is_open(void **state)
{
	static const struct {
		const char *text;
		unsigned of_ten;
		const char *rest;
		double use;
		enum plim_watch_state is;
	} cases[] = {
		{ sync_text, 7, launch_text, 40, PLIM_WATCH_SYNC_BOUND },
		{ launch_text, 7, sync_text, 40, PLIM_WATCH_LAUNCH_BOUND },
		/* A GPU that works most of the time: launching is not what takes it. */
		{ launch_text, 10, "", 80, PLIM_WATCH_HOST_PACED },
		{ own_text, 10, "", 10, PLIM_WATCH_MAIN_PYTHON },
		/* It may be arithmetic of tensors. */
		{ own_text, 10, "", 40, PLIM_WATCH_HOST_PACED },
		{ sync_text, 4, own_text, 40, PLIM_WATCH_HOST_PACED },
		{ "data.py:5 get_batch\n", 6, own_text, 40, PLIM_WATCH_INPUT_MAIN },
		{ start_text, 8, own_text, 2, PLIM_WATCH_STARTING },
		{ start_text, 8, own_text, 40, PLIM_WATCH_HOST_PACED },
	};
	struct watch_judgement j;
	struct watch_features f;
	struct watch_words words;
	struct arena arena;
	struct plim_err err;
	struct made m;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make(&m, cases[i].text, cases[i].of_ten, cases[i].rest);
		for (size_t k = 0; k < 10; k++)
			m.at[k].card.use = cases[i].use;
		judge_made(&m, &f, &j);
		assert_int_equal(j.state, cases[i].is);
		assert_true(j.confidence < PLIM_WATCH_HIGH);
		assert_int_equal(f.at[WATCH_LOOKS], 20);
		/* No number that was not seen is reported. */
		arena_init(&arena, &m.mem);
		assert_int_equal(watch_tell(&j, &f, 5, &arena, &words, &err), PLIM_OK);
		for (size_t k = 0; k < words.evidence_count; k++)
			assert_null(strstr(words.evidence[k], "nan"));
		arena_release(&arena);
		release(&m);
	}
}

/* A GPU that is busy, one that does nothing, and what the counters are sure of are no matter of stacks. */
static void overrules_no_counter(void **state)
{
	struct watch_judgement j;
	struct watch_features f;
	struct made m;

	(void)state;
	make(&m, sync_text, 10, "");
	for (size_t i = 0; i < 10; i++) {
		m.at[i].card.use = 97;
		m.at[i].card.sm = m.at[i].card.graphics = 90;
	}
	judge_made(&m, &f, &j);
	assert_int_equal(j.state, PLIM_WATCH_COMPUTE_BOUND);
	for (size_t i = 0; i < 10; i++)
		m.at[i].card.use = m.at[i].card.sm = m.at[i].card.graphics = 0;
	judge_made(&m, &f, &j);
	assert_int_not_equal(j.state, PLIM_WATCH_SYNC_BOUND); /* .item() of a tensor on the host */
	release(&m);
}

static void both_are_sure(void **state)
{
	struct watch_features f;
	struct watch_judgement j = { .state = PLIM_WATCH_SYNC_BOUND,
				     .confidence = PLIM_WATCH_MEDIUM };
	struct made m;

	(void)state;
	make(&m, sync_text, 7, launch_text);
	judge_made(&m, &f, &(struct watch_judgement){ 0 });
	watch_weigh_stacks(&f, &j);
	assert_int_equal(j.state, PLIM_WATCH_SYNC_BOUND);
	assert_int_equal(j.confidence, PLIM_WATCH_HIGH);
	/* Seven of ten looks do not make another state of an unsure one. */
	j = (struct watch_judgement){ .state = PLIM_WATCH_LAUNCH_BOUND,
				      .confidence = PLIM_WATCH_MEDIUM };
	watch_weigh_stacks(&f, &j);
	assert_int_equal(j.state, PLIM_WATCH_LAUNCH_BOUND);
	assert_int_equal(j.confidence, PLIM_WATCH_MEDIUM);
	/* Others hold the GPU, too. */
	f.at[WATCH_OTHERS] = 8;
	j = (struct watch_judgement){ .state = PLIM_WATCH_SYNC_BOUND,
				      .confidence = PLIM_WATCH_MEDIUM };
	watch_weigh_stacks(&f, &j);
	assert_int_equal(j.confidence, PLIM_WATCH_MEDIUM);
	f.at[WATCH_OTHERS] = NAN;
	/* With other ranks a collective may be what it waits for. */
	f.at[WATCH_RANKS] = 2;
	j = (struct watch_judgement){ .state = PLIM_WATCH_SYNC_BOUND,
				      .confidence = PLIM_WATCH_MEDIUM };
	watch_weigh_stacks(&f, &j);
	assert_int_equal(j.confidence, PLIM_WATCH_MEDIUM);
	/* Where no GPU is seen, the same calls may compute on the processor. */
	f.at[WATCH_RANKS] = 1;
	f.at[WATCH_BUSY] = NAN;
	j = (struct watch_judgement){ .state = PLIM_WATCH_UNDECIDED };
	watch_weigh_stacks(&f, &j);
	assert_int_equal(j.state, PLIM_WATCH_UNDECIDED);
	release(&m);
}

static void told_in_words(void **state)
{
	struct watch_judgement j;
	struct watch_features f;
	struct watch_words words;
	struct plim_err err;
	struct arena arena;
	struct made m;
	bool told = false;

	(void)state;
	make(&m, sync_text, 7, own_text);
	judge_made(&m, &f, &j);
	arena_init(&arena, &m.mem);
	assert_int_equal(watch_tell(&j, &f, 5, &arena, &words, &err), PLIM_OK);
	for (size_t i = 0; i < words.evidence_count; i++)
		told |= strstr(words.evidence[i], "in 70 % of 20 looks") &&
			strstr(words.evidence[i], "train.py:88 `loss.item()`");
	assert_true(told);
	for (size_t i = 0; i < words.advice_count; i++)
		assert_null(strstr(words.advice[i], "py-spy"));
	arena_release(&arena);
	release(&m);
}

/* What --log writes, --replay reads: the same stacks, also those whose names were hidden. */
static void recorded(void **state)
{
	struct plim_watch_hidden h = { .options = { .flags = PLIM_WATCH_REDACT } };
	struct watch_sample back = { 0 };
	struct watch_lines *lines;
	struct plim_err err;
	struct text t;
	struct made m;
	char path[] = "/tmp/plimsoll_stacks_XXXXXX";
	int fd = mkstemp(path);
	bool more;

	(void)state;
	make(&m, sync_text, 10, "");
	assert_int_equal(watch_stacks_add(&m.mem, &m.at[1].stacks, true, 3, WATCH_DOES_COUNT,
					  own_text, strlen(own_text), &err),
			 PLIM_OK);
	mem_init(&h.mem, 0);
	intern_init(&h.words, &h.mem);
	for (size_t k = 1; k < 3; k++) {
		struct watch_stacks *s = &m.at[k].stacks;

		if (k == 2)
			assert_int_equal(watch_redact_stacks(&h, s, &err), PLIM_OK);
		text_init(&t, &m.mem, NULL);
		watch_line(&m.at[k], 4096, &t);
		assert_int_equal(text_status(&t, &err), PLIM_OK);
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, text_get(&t), t.n, 0), t.n);
		assert_int_equal(watch_lines_open(&m.mem, path, &lines, &err), PLIM_OK);
		assert_int_equal(watch_lines_next(lines, &back, &more, &err), PLIM_OK);
		assert_true(more && back.stacks.stack.n == s->stack.n &&
			    back.stacks.text.n == s->text.n);
		assert_memory_equal(back.stacks.text.at, s->text.at, s->text.n);
		for (size_t i = 0; i < s->stack.n; i++) {
			assert_int_equal(back.stacks.stack.at[i].does, s->stack.at[i].does);
			assert_int_equal(back.stacks.stack.at[i].count, s->stack.at[i].count);
			assert_int_equal(back.stacks.stack.at[i].worker, s->stack.at[i].worker);
		}
		assert_int_equal(s->stack.at[0].does, WATCH_DOES_SYNC);
		assert_int_equal(!!strstr(text_get(&t), "train.py"), k == 1);
		watch_lines_close(lines);
		text_release(&t);
	}
	(void)close(fd);
	(void)unlink(path);
	watch_sample_release(&m.mem, &back);
	intern_release(&h.words);
	release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_release),
		cmocka_unit_test(torn_memory),
		cmocka_unit_test(main_thread_is_kept),
		cmocka_unit_test(tables_of_lines),
		cmocka_unit_test(what_it_does),
		cmocka_unit_test(frames_of_text),
		cmocka_unit_test(decides_what_is_open),
		cmocka_unit_test(overrules_no_counter),
		cmocka_unit_test(both_are_sure),
		cmocka_unit_test(told_in_words),
		cmocka_unit_test(recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
