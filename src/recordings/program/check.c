/* What must hold of any program: each request is made once, and before its end. */
#include "program.h"

#include <stdlib.h>

enum life { UNBORN, BORN };

/* What an op makes of its request, or what is wrong with it. */
static const char *program_step(uint8_t *life, enum program_op_kind kind)
{
	switch (kind) {
	case PROGRAM_ALLOC:
	case PROGRAM_WORKSPACE:
	case PROGRAM_ATTEMPT:
		if (*life != UNBORN)
			return "a request is made twice";
		*life = BORN;
		return NULL;
	case PROGRAM_FREE:
	case PROGRAM_FREE_DONE:
		/* A recording that contradicts itself may end one twice. */
		return *life == UNBORN ? "a request ends before it is made" : NULL;
	default: return NULL;
	}
}

static const char *check_ops(const struct program *p, uint8_t *lives)
{
	const char *broken = NULL;
	size_t made = 0;

	for (size_t i = 0; !broken && i < p->ops.n; i++) {
		const struct program_op *op = &p->ops.at[i];
		int of_request = op->kind <= PROGRAM_ATTEMPT;

		if (of_request && op->request >= p->requests.n)
			return "an op is of a request that does not exist";
		if (op->kind == PROGRAM_DROP_POOL && op->request >= p->pools)
			return "a pool is dropped that does not exist";
		if (program_allocates(op->kind) || op->kind == PROGRAM_ATTEMPT) {
			if (made < p->requests_before && op->request != made)
				return "what lived before does not come first";
			made++;
		}
		broken = of_request ? program_step(&lives[op->request], op->kind) : NULL;
	}
	return broken ? broken : made != p->requests.n ? "a request is never made" : NULL;
}

const char *program_check(const struct program *p)
{
	uint8_t *lives = calloc(p->requests.n + 1, 1);
	const char *broken = lives ? check_ops(p, lives) : NULL;

	for (size_t i = 0; lives && !broken && i < p->requests.n; i++)
		if (p->requests.at[i].pool >= p->pools ||
		    p->requests.at[i].stream >= p->stream_count)
			broken = "a request is of a pool or a stream that does not exist";
	free(lives);
	return broken;
}
