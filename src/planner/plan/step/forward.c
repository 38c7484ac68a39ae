/* What runs a family's blocks. */
#include "plan/step/build.h"

typedef struct value forward_fn(struct builder *b, struct value ids, struct value labels,
				struct value *logits);

static forward_fn *const forwards[MODEL_FORWARDS] = {
	[MODEL_AS_DECODER] = build_decoder, [MODEL_AS_ENCODER] = build_encoder,
	[MODEL_AS_STACKS] = build_t5,       [MODEL_AS_IMAGE] = build_image,
	[MODEL_AS_PAIR] = build_pair,       [MODEL_AS_READ] = build_read,
	[MODEL_AS_LOOK] = build_look,
};

bool build_is_decoder(const struct model *m)
{
	return m->forward == MODEL_AS_DECODER;
}

int build_generates(const struct model *m)
{
	return m->forward == MODEL_AS_DECODER ? m->towers[MODEL_TEXT].causal : m->encoder_decoder;
}

struct value build_forward(struct builder *b, struct value ids, struct value labels,
			   struct value *logits)
{
	return forwards[b->m->forward](b, ids, labels, logits);
}
