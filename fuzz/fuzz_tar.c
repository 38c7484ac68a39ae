/*
 * An archive through a large window, a small one and a thread: the same members with the same content, and
 * the same kind of end.  How much a decoder gives out before it finds damage depends on the room it
 * has, so of what is compressed and damaged only that it ends counts.
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define LIMIT_BYTES ((uint64_t)128 << 20)
#define DECODED_BYTES ((uint64_t)4 << 20)
#define MEMBERS_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

struct outcome {
	enum plim_status status;
	int compressed;
	uint64_t sum, members;
};

static void add(struct outcome *r, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		r->sum = (r->sum ^ p[i]) * 0x100000001b3u;
}

static int is_compressed(const struct source *s)
{
	struct source_info info;

	source_get_info(s, &info);
	return strcmp(info.compression, "none") != 0;
}

/* Part of a member, so that the rest is skipped. */
static void read_member(struct mem *m, struct source *s, const struct tar_member *member,
			const struct source_options *o, struct outcome *r)
{
	struct source *inner;
	struct plim_err err;

	if (source_open_member(m, member->name, s, member->bytes, o, &inner, &err))
		return;
	if (!source_need(inner, inner->p, 600, &err) && !is_compressed(inner)) {
		size_t n = (size_t)(inner->end - inner->p);

		add(r, inner->p, n < 600 ? n : 600);
	}
	source_close(inner);
}

static struct outcome walk(const uint8_t *bytes, size_t n, const struct source_options *o)
{
	struct outcome r = { .sum = 0 };
	struct tar_member member;
	struct plim_err err;
	struct source *s;
	struct tar tar;
	struct mem m;

	mem_init(&m, LIMIT_BYTES);
	r.status = source_open_memory(&m, "memory", bytes, n, SOURCE_MEMORY_DETECT, o, &s, &err);
	if (r.status)
		goto out;
	r.compressed = is_compressed(s);
	tar_init(&tar, s);
	while (r.members < MEMBERS_MAX) {
		r.status = tar_next(&tar, &member, &err);
		if (r.status || !member.name)
			break;
		if (strlen(member.name) > TAR_NAME_MAX || source_offset(s, s->p) != member.offset)
			abort();
		r.members++;
		add(&r, member.name, strlen(member.name) + 1);
		add(&r, &member.bytes, sizeof(member.bytes));
		add(&r, &member.type, sizeof(member.type));
		if (member.type == TAR_FILE)
			read_member(&m, s, &member, o, &r);
	}
	source_close(s);
out:
	if (m.used_bytes)
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct source_options ways[] = {
		{ .max_decoded_bytes = DECODED_BYTES, .thread = SOURCE_THREAD_NONE },
		{ .max_decoded_bytes = DECODED_BYTES,
		  .window_bytes = 600,
		  .thread = SOURCE_THREAD_NONE },
		{ .max_decoded_bytes = DECODED_BYTES,
		  .window_bytes = 4096,
		  .thread = SOURCE_THREAD_ALWAYS },
	};
	struct outcome first = walk(bytes, n, &ways[0]);

	/* Near the limit the size of the window may decide; elsewhere nothing may differ. */
	for (size_t i = 1; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct outcome r = walk(bytes, n, &ways[i]);

		if (first.status == PLIM_E_LIMIT || r.status == PLIM_E_LIMIT ||
		    (first.compressed && (first.status || r.status)))
			continue;
		if (r.status != first.status || r.sum != first.sum || r.members != first.members)
			abort();
	}
	return 0;
}
