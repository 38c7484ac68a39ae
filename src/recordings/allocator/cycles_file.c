#include "cycles_file.h"

#define HEADER_BYTES 48u
#define CHECKED_FROM 32u /* what the checksum is of begins here */

static const char magic[8] = { 'P', 'L', 'I', 'M', 'P', 'L', 'A', 'N' };

uint64_t cycles_checksum(const void *bytes, size_t n)
{
	const uint8_t *at = bytes;
	uint64_t sum = 0xcbf29ce484222325u;

	for (; n; n -= n < 8 ? n : 8, at += 8) {
		uint64_t word = 0;

		memcpy(&word, at, n < 8 ? n : 8);
		sum = (sum ^ word) * 0x100000001b3u;
		sum ^= sum >> 29;
	}
	return sum;
}

void cycles_release(struct cycles_plan *p)
{
	for (size_t i = 0; i < p->streams.n; i++)
		for (uint32_t k = 0; k < p->streams.at[i].n; k++) {
			struct cycle *c = &p->streams.at[i].cycles[k];

			mem_free(p->mem, c->at, c->n, sizeof(*c->at));
		}
	vec_release(p->mem, &p->streams);
}

/* ---- reading ---- */

struct reader {
	const uint8_t *bytes;
	size_t n, at;
	struct plim_err *err;
};

static uint64_t cycles_number(const struct reader *r, size_t at, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, r->bytes + at, bytes);
	return value;
}

static enum plim_status read_cycles_header(struct reader *r, struct cycles_plan *p,
					   uint32_t *streams)
{
	if (r->n < HEADER_BYTES || memcmp(r->bytes, magic, sizeof(magic)) != 0)
		return err_at(r->err, 0,
			      "not a plan; plimsoll whatif RUN --plan -o FILE writes one");
	if (cycles_number(r, 8, 4) != CYCLES_VERSION)
		return err_at(r->err, 8,
			      "a plan of version %u, and this program reads version %u: write it "
			      "again with plimsoll whatif --plan",
			      (unsigned)cycles_number(r, 8, 4), CYCLES_VERSION);
	if (cycles_number(r, 16, 8) != r->n)
		return err_at(r->err, 16, "a plan of %llu bytes, of which %zu are here",
			      (unsigned long long)cycles_number(r, 16, 8), r->n);
	if (cycles_number(r, 24, 8) !=
	    cycles_checksum(r->bytes + CHECKED_FROM, r->n - CHECKED_FROM))
		return err_at(r->err, 24, "the plan is damaged: its checksum is another");
	*streams = (uint32_t)cycles_number(r, 12, 4);
	if (*streams > CYCLES_STREAMS_MAX)
		return err_at(r->err, 12, "a plan of %u streams", *streams);
	p->live_peak_bytes = cycles_number(r, 32, 8);
	p->reserved_peak_bytes = cycles_number(r, 40, 8);
	r->at = HEADER_BYTES;
	return PLIM_OK;
}

static enum plim_status need(struct reader *r, uint64_t bytes)
{
	return r->n - r->at >= bytes ? PLIM_OK : err_at(r->err, r->at, "the plan ends early");
}

static enum plim_status read_cycle(struct reader *r, struct mem *m, struct cycle *c)
{
	enum plim_status st = need(r, 8);
	uint32_t n = st ? 0 : (uint32_t)cycles_number(r, r->at, 4);

	if (!st && (!n || n > CYCLE_LONGEST))
		st = err_at(r->err, r->at, "a cycle of %u requests", n);
	if (st)
		return st;
	c->peak_units = (uint32_t)cycles_number(r, r->at + 4, 4);
	r->at += 8;
	st = need(r, (uint64_t)n * sizeof(*c->at));
	if (st)
		return st;
	c->at = mem_new(m, n, sizeof(*c->at), r->err);
	if (!c->at)
		return mem_status(r->err);
	c->n = n;
	memcpy(c->at, r->bytes + r->at, n * sizeof(*c->at));
	for (uint32_t i = 0; i < n; i++, r->at += sizeof(*c->at)) {
		const struct cycle_entry *e = &c->at[i];

		if (!e->units || e->life > n ||
		    (e->offset != CYCLE_NONE && (uint64_t)e->offset + e->units > INT32_MAX))
			return err_at(r->err, r->at, "request %u of a cycle cannot be", i);
	}
	return PLIM_OK;
}

static enum plim_status read_stream(struct reader *r, struct cycles_plan *p)
{
	struct cycles_stream *s;
	uint32_t cycles;
	enum plim_status st = need(r, 8);

	if (!st)
		st = vec_push(p->mem, &p->streams, (struct cycles_stream){ .n = 0 }, r->err);
	if (st)
		return st;
	s = &p->streams.at[p->streams.n - 1];
	cycles = (uint32_t)cycles_number(r, r->at, 4);
	if (cycles > CYCLES_MAX)
		return err_at(r->err, r->at, "a stream of %u cycles", cycles);
	r->at += 8;
	while (!st && s->n < cycles)
		st = read_cycle(r, p->mem, &s->cycles[s->n++]);
	return st;
}

enum plim_status cycles_read(struct cycles_plan *out, struct mem *m, const void *bytes, size_t n,
			     struct plim_err *err)
{
	struct reader r = { .bytes = bytes, .n = n, .err = err };
	uint32_t streams = 0;
	enum plim_status st;

	*out = (struct cycles_plan){ .mem = m };
	st = read_cycles_header(&r, out, &streams);
	for (uint32_t i = 0; !st && i < streams; i++)
		st = read_stream(&r, out);
	if (!st && r.at != n)
		st = err_at(err, r.at, "%zu bytes behind the plan", n - r.at);
	if (st) {
		cycles_release(out);
		*out = (struct cycles_plan){ .mem = m };
	}
	return st;
}

enum plim_status cycles_longest(struct mem *m, const void *bytes, size_t n, uint64_t *requests,
				struct plim_err *err)
{
	struct cycles_plan p;
	enum plim_status st = cycles_read(&p, m, bytes, n, err);

	*requests = 0;
	for (size_t i = 0; i < p.streams.n; i++)
		for (uint32_t k = 0; k < p.streams.at[i].n; k++)
			if (p.streams.at[i].cycles[k].n > *requests)
				*requests = p.streams.at[i].cycles[k].n;
	cycles_release(&p);
	return st;
}

/* ---- writing ---- */

struct writer {
	struct mem *mem;
	cycles_bytes *out;
	struct plim_err *err;
};

static enum plim_status put_cycles(struct writer *w, const void *bytes, size_t n)
{
	enum plim_status st = vec_need(w->mem, w->out, n, w->err);

	if (st)
		return st;
	memcpy(w->out->at + w->out->n, bytes, n);
	w->out->n += n;
	return PLIM_OK;
}

static enum plim_status put_two(struct writer *w, uint32_t a, uint32_t b)
{
	uint32_t both[2] = { a, b };

	return put_cycles(w, both, sizeof(both));
}

enum plim_status cycles_write(const struct cycles_plan *p, cycles_bytes *out, struct plim_err *err)
{
	struct writer w = { p->mem, out, err };
	uint64_t header[3] = { 0, 0, p->live_peak_bytes };
	enum plim_status st = put_cycles(&w, magic, sizeof(magic));

	if (!st)
		st = put_two(&w, CYCLES_VERSION, (uint32_t)p->streams.n);
	if (!st)
		st = put_cycles(&w, header, sizeof(header));
	if (!st)
		st = put_cycles(&w, &p->reserved_peak_bytes, 8);
	for (size_t i = 0; !st && i < p->streams.n; i++) {
		const struct cycles_stream *s = &p->streams.at[i];

		st = put_two(&w, s->n, 0);
		for (uint32_t k = 0; !st && k < s->n; k++) {
			const struct cycle *c = &s->cycles[k];

			st = put_two(&w, c->n, c->peak_units);
			if (!st)
				st = put_cycles(&w, c->at, c->n * sizeof(*c->at));
		}
	}
	if (st)
		return st;
	header[0] = out->n;
	header[1] = cycles_checksum(out->at + CHECKED_FROM, out->n - CHECKED_FROM);
	memcpy(out->at + 16, header, 16);
	return PLIM_OK;
}

/* ---- lanes ---- */

static enum plim_status copy_entries(struct mem *m, const struct cycle *from,
				     struct cycle_entry **out, struct plim_err *err)
{
	*out = mem_new(m, from->n, sizeof(**out), err);
	if (!*out)
		return mem_status(err);
	memcpy(*out, from->at, from->n * sizeof(**out));
	return PLIM_OK;
}

enum plim_status cycles_add_lane(struct cycles_plan *p, const struct cycle_lane *lane,
				 struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	struct cycles_stream *s;

	if (p->streams.n == CYCLES_STREAMS_MAX)
		return PLIM_OK;
	st = vec_push(p->mem, &p->streams, (struct cycles_stream){ .n = 0 }, err);
	s = &p->streams.at[p->streams.n - 1];
	for (uint32_t i = 0; !st && i < lane->cycle_count; i++) {
		struct cycle *c = &s->cycles[s->n];

		st = copy_entries(p->mem, &lane->cycles[i], &c->at, err);
		if (st)
			break;
		c->n = lane->cycles[i].n;
		c->peak_units = lane->cycles[i].peak_units;
		s->n++;
	}
	return st;
}

enum plim_status cycles_give_lane(const struct cycles_plan *p, size_t number,
				  struct cycle_lane *lane, struct plim_err *err)
{
	const struct cycles_stream *s = number < p->streams.n ? &p->streams.at[number] : NULL;
	enum plim_status st = PLIM_OK;

	for (uint32_t i = 0; s && !st && i < s->n; i++) {
		struct cycle_entry *at;

		st = copy_entries(lane->mem, &s->cycles[i], &at, err);
		if (!st)
			st = cycle_add(lane, at, s->cycles[i].n, s->cycles[i].peak_units, err);
	}
	return st;
}
