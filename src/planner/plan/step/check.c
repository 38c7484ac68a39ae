/* What must hold of a tape between two operations: who owns memory, and that the program knows. */
#include "plan/step/tape.h"

#include <stdlib.h>

enum { SPARE = 1 };

/* Stores by what is known of them: a byte each, in memory of the check's own; NULL: there is none. */
static uint8_t *spare_stores(const struct tape *t, const char **broken)
{
	uint8_t *known = calloc(t->stores.n + 1, 1);

	for (size_t i = 0; known && i < t->spare.n; i++) {
		uint32_t s = t->spare.at[i];

		if (s >= t->stores.n || known[s] == SPARE || t->stores.at[s].refs)
			*broken = "a store is spare twice, or has an owner";
		else
			known[s] = SPARE;
	}
	return known;
}

static const char *check_owned(const struct tape *t, const uint8_t *known, uint32_t store)
{
	if (store == TAPE_NONE)
		return NULL;
	return store >= t->stores.n || known[store] == SPARE ? "a store that is gone has an owner"
							     : NULL;
}

static const char *check_node(const struct tape *t, const struct tape_node *node)
{
	const char *broken = NULL;

	if (node->ins > TAPE_EDGES || node->saves > TAPE_SAVES)
		return "an operation has too many edges, or saves too much";
	for (unsigned i = 0; !broken && i < node->ins; i++) {
		const struct tape_edge *e = &node->in[i];

		if ((e->node != TAPE_NONE && e->node >= t->nodes.n) ||
		    (e->param != TAPE_NONE && e->param >= t->params.n))
			broken = "an edge leads nowhere";
	}
	return broken;
}

static const char *check_param(const struct tape *t, const uint8_t *known,
			       const struct tape_param *p)
{
	const char *broken = check_owned(t, known, p->store);

	if (!broken)
		broken = check_owned(t, known, p->grad);
	if (!broken)
		broken = check_owned(t, known, p->cast.store);
	return broken;
}

const char *tape_check(const struct tape *t)
{
	const char *broken = NULL;
	uint8_t *known = t->failed ? NULL : spare_stores(t, &broken);

	for (size_t i = 0; known && !broken && i < t->stores.n; i++)
		if (known[i] != SPARE && !t->stores.at[i].refs)
			broken = "a store has no owner, and is not spare";
	for (size_t i = 0; known && !broken && i < t->params.n; i++)
		broken = check_param(t, known, &t->params.at[i]);
	for (size_t i = 0; known && !broken && i < t->nodes.n; i++)
		broken = check_node(t, &t->nodes.at[i]);
	if (known && !broken && t->categories.n != t->program->requests.n)
		broken = "a request has no category, or a category no request";
	free(known);
	return broken;
}
