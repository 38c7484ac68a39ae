/* Tensors become reads: large ones are cut, small ones that lie side by side are read together. */
#include "parts.h"

#include <zlib.h>

static int piece_by_place(const void *a, const void *b)
{
	const struct load_run *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->at == y->at ? 0 : x->at < y->at ? -1 : 1;
}

static enum plim_status find_runs(struct load_plan *p, const struct load_job *job,
				  struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < job->n; i++) {
		const struct plim_load *x = &job->loads[i];
		struct ckpt_place at;

		if (x->tensor >= job->ckpt->tensors.n)
			return err_set(err, PLIM_E_ARG, "there is no tensor %llu",
				       (unsigned long long)x->tensor);
		if (!ckpt_find(job->ckpt, (size_t)x->tensor, job->flags & PLIM_LOADING_AS_STORED,
			       &at))
			st = vec_push(p->mem, &p->rest, i, err);
		else
			st = vec_push(p->mem, &p->runs,
				      ((struct load_run){ at.file, (uint32_t)x->tensor, at.at,
							  at.bytes, x->where, at.checked, at.crc }),
				      err);
	}
	return st;
}

static enum plim_status cut_piece(struct load_plan *p, size_t run, uint64_t most,
				  struct plim_err *err)
{
	uint64_t left = p->runs.at[run].bytes;
	enum plim_status st = PLIM_OK;

	for (uint64_t at = 0; !st && left; at += most) {
		uint64_t n = left < most ? left : most;

		st = vec_push(
			p->mem, &p->pieces,
			((struct load_piece){ .first = run, .count = 1, .skip = at, .bytes = n }),
			err);
		left -= n;
	}
	return st;
}

/* How many runs from this one on one read takes, and its bytes. */
static size_t together(const struct load_plan *p, size_t first, uint64_t most, uint64_t *bytes)
{
	const struct load_run *a = &p->runs.at[first];
	uint64_t end = a->at + a->bytes;
	size_t n = first + 1;

	for (; n < p->runs.n; n++) {
		const struct load_run *b = &p->runs.at[n];

		if (b->file != a->file || b->at < end || b->at - end > LOAD_GAP ||
		    b->bytes > most || b->at + b->bytes - a->at > most)
			break;
		end = b->at + b->bytes;
	}
	*bytes = end - a->at;
	return n - first;
}

enum plim_status load_plan(struct load_plan *p, struct mem *m, const struct load_job *job,
			   uint64_t most, struct plim_err *err)
{
	enum plim_status st;
	size_t next = 0;

	*p = (struct load_plan){ .mem = m };
	st = find_runs(p, job, err);
	sort_items(p->runs.at, p->runs.n, sizeof(*p->runs.at), piece_by_place);
	while (!st && next < p->runs.n) {
		struct load_piece x = { .first = next };

		if (p->runs.at[next].bytes > most) {
			st = cut_piece(p, next++, most, err);
			continue;
		}
		x.count = together(p, next, most, &x.bytes);
		next += x.count;
		st = vec_push(m, &p->pieces, x, err);
	}
	return st;
}

void load_plan_release(struct load_plan *p)
{
	vec_release(p->mem, &p->runs);
	vec_release(p->mem, &p->pieces);
	vec_release(p->mem, &p->rest);
}

enum plim_status load_damaged(const struct ckpt *c, const struct load_run *r, struct plim_err *err)
{
	return err_set(err, PLIM_E_FORMAT,
		       "'%.200s' is damaged: its bytes do not match their checksum",
		       ckpt_text(c, c->tensors.at[r->tensor].name));
}

enum plim_status load_plan_check(const struct load_plan *p, const struct ckpt *c,
				 struct plim_err *err)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < p->pieces.n; i++) {
		const struct load_piece *x = &p->pieces.at[i];
		const struct load_run *r = &p->runs.at[x->first];

		if (x->count > 1 || !r->checked)
			continue; /* were compared when they were read, or cannot be */
		crc = x->skip ? (uint32_t)crc32_combine(crc, x->crc, (z_off_t)x->bytes) : x->crc;
		if (x->skip + x->bytes == r->bytes && crc != r->crc)
			return load_damaged(c, r, err);
	}
	return PLIM_OK;
}
