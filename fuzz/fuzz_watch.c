/* Samples as JSON lines: any bytes are read and judged; what was read is written, and reads as the same again. */
#include "must.h"
#include "watch/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char path[64];

static void put(const void *bytes, size_t n)
{
	static int fd = -1;

	if (fd < 0) {
		snprintf(path, sizeof(path), "/tmp/fuzz_watch_XXXXXX");
		fd = mkstemp(path);
		must(fd >= 0);
	}
	must(!ftruncate(fd, 0) && pwrite(fd, bytes, n, 0) == (ssize_t)n);
}

static void again(struct mem *m, const struct watch_sample *s)
{
	struct watch_sample back = { 0 };
	struct watch_lines *lines;
	struct plim_err err;
	struct text t;
	bool more;

	text_init(&t, m, NULL);
	watch_line(s, 4096, &t);
	must(!text_status(&t, &err));
	put(text_get(&t), t.n);
	if (!watch_lines_open(m, path, &lines, &err)) {
		if (!watch_lines_next(lines, &back, &more, &err) && more)
			must(back.time == s->time && back.workers.n <= s->workers.n);
		watch_lines_close(lines);
	}
	watch_sample_release(m, &back);
	text_release(&t);
}

static void look(struct mem *m, struct watch_job *job)
{
	struct plim_watch_forecast *forecasts;
	const struct watch_features *f = watch_job_window(job);
	struct watch_words words;
	struct plim_err err;
	struct arena arena;
	size_t n;

	arena_init(&arena, m);
	if (job->samples && f) {
		struct watch_judgement j = watch_judge(f);

		must(j.state < PLIM_WATCH_STATE_COUNT);
		must(!watch_tell(&j, f, 1, &arena, &words, &err) && *words.title);
	}
	must(!watch_forecast(job, &arena, &forecasts, &n, &err) && n <= WATCH_MEM_COUNT);
	arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct watch_job job;
	struct watch_lines *lines;
	struct plim_err err;
	struct mem m;
	bool more = true;

	if (!n)
		return 0;
	mem_init(&m, (uint64_t)64 << 20);
	watch_job_init(&job, &m, 2);
	put(bytes, n);
	if (!watch_lines_open(&m, path, &lines, &err)) {
		while (!watch_lines_next(lines, watch_job_slot(&job), &more, &err) && more)
			must(!watch_job_add(&job, &err));
		watch_lines_close(lines);
	}
	look(&m, &job);
	if (job.samples)
		again(&m, watch_job_last(&job));
	watch_job_release(&job);
	must(!m.used_bytes);
	return 0;
}
