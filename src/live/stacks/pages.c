/* Another process's memory, a page at a time, each once in a look. */
#include "parts.h"

void pages_forget(struct pages *p)
{
	memset(p->number, 0, sizeof(p->number));
}

static const unsigned char *page_of(struct pages *p, uint64_t number)
{
	size_t slot = (number ^ number >> 5) % PAGES;

	if (p->number[slot] != number + 1) {
		p->number[slot] = 0;
		if (!p->memory->read(p->memory->ctx, number * PAGE, p->at[slot], PAGE))
			return NULL;
		p->number[slot] = number + 1;
	}
	return p->at[slot];
}

bool pages_read(struct pages *p, uint64_t at, void *to, size_t n)
{
	unsigned char *out = to;

	if (at < PAGE || at > UINT64_MAX / 2 || n > 1 << 20)
		return false;
	while (n) {
		size_t from = at % PAGE, take = PAGE - from < n ? PAGE - from : n;
		const unsigned char *page = page_of(p, at / PAGE);

		if (!page)
			return false;
		memcpy(out, page + from, take);
		out += take;
		at += take;
		n -= take;
	}
	return true;
}

bool pages_u64(struct pages *p, uint64_t at, uint64_t *out)
{
	return pages_read(p, at, out, sizeof(*out));
}
