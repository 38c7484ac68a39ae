/* Where a request is made, as a number: 22 bits of the place, 8 of the operation, 2 of the pass. */
#include "plan/step/ops.h"

#include <string.h>

#define PLACE_BITS 22
#define OP_BITS 8

uint32_t plan_site_make(uint32_t place, unsigned op, enum plan_pass pass)
{
	uint32_t module = place & (PLAN_BLOCK - 1);

	/* one that has no number (more than two million modules) is nowhere */
	if (place >= 1u << PLACE_BITS || !module)
		place = 0;
	return place | op << PLACE_BITS | (uint32_t)pass << (PLACE_BITS + OP_BITS);
}

/* "model.layers.3" of a module in it; that of the root is "". */
static void read_block(const struct model *m, const struct model_module *x,
		       char out[MODEL_NAME_BYTES])
{
	char whole[MODEL_NAME_BYTES];
	size_t name = strlen(x->name), n;

	model_module_name(m, x, whole);
	n = strlen(whole);
	n = n > name ? n - name : 0;
	while (n && whole[n - 1] == '.')
		n--;
	memcpy(out, whole, n);
	out[n] = 0;
}

void plan_site_read(const struct model *m, uint32_t site, struct plan_site *out)
{
	uint32_t place = site & ((1u << PLACE_BITS) - 1), module = place & (PLAN_BLOCK - 1);
	unsigned op = site >> PLACE_BITS & ((1u << OP_BITS) - 1);

	out->pass = (enum plan_pass)(site >> (PLACE_BITS + OP_BITS));
	out->op = op ? op_name(op - 1) : NULL;
	out->place[0] = 0;
	if (!module || module > m->modules.n)
		return;
	if (place & PLAN_BLOCK)
		read_block(m, &m->modules.at[module - 1], out->place);
	else
		model_module_name(m, &m->modules.at[module - 1], out->place);
}
