/*
 * The machine's own memory: what the run holds there, by what it is for.  Pageable memory comes and goes; pinned memory
 * stays with the process once PyTorch's host allocator has taken it, in blocks of powers of two (tape.h).
 */
#include "plan/step/build.h"

static unsigned bin_of(uint64_t bytes)
{
	unsigned bin = 0;

	while (bin + 1 < TAPE_BINS && (uint64_t)1 << bin < bytes)
		bin++;
	return bin;
}

static void grow_host(struct tape_host *h, unsigned part, uint64_t bytes)
{
	h->now[part] += bytes;
	h->total += bytes;
	h->recent = h->total > h->recent ? h->total : h->recent;
	if (h->total <= h->all.peak_bytes)
		return;
	h->all.peak_bytes = h->total;
	for (unsigned i = 0; i < PLAN_HOST_PARTS; i++)
		h->all.bytes[i] = h->now[i];
}

static void pin(struct tape_host *h, unsigned part, uint64_t bytes)
{
	unsigned bin = bin_of(bytes);

	if (++h->lent[bin] <= h->blocks[bin])
		return;
	h->blocks[bin]++;
	bytes = ((uint64_t)1 << bin) * h->all.processes;
	h->all.pinned_bytes += bytes;
	grow_host(h, part, bytes);
}

static uint64_t of_all(const struct tape_host *h, const struct tape_store *s)
{
	return s->how & TAPE_ONCE ? s->bytes : s->bytes * h->all.processes;
}

uint32_t tape_host_store(struct tape *t, uint64_t bytes, enum plan_host_part part, unsigned flags)
{
	struct tape_store s = { .bytes = bytes,
				.refs = 1,
				.request = TAPE_NONE,
				.host = (uint8_t)(part + 1),
				.how = (uint8_t)flags };

	if (t->failed || t->stopped || !bytes)
		return TAPE_NONE;
	if (flags & TAPE_PINNED)
		pin(&t->host, part, bytes);
	else
		grow_host(&t->host, part, of_all(&t->host, &s));
	return tape_own(t, s);
}

void tape_host_let(struct tape *t, const struct tape_store *s)
{
	struct tape_host *h = &t->host;

	if (s->how & TAPE_PINNED) {
		h->lent[bin_of(s->bytes)]--;
		return;
	}
	h->now[s->host - 1] -= of_all(h, s);
	h->total -= of_all(h, s);
}

void tape_host_touch(struct tape *t, uint64_t bytes, enum plan_host_part part, unsigned flags)
{
	tape_let(t, tape_host_store(t, bytes, part, flags));
}
