/* Families and what runs them. */
#include "build.h"

typedef struct value forward_fn(struct builder *b, struct value ids, struct value labels,
				struct value *logits);

static const struct {
	const char *family;
	forward_fn *forward;
} forwards[] = {
	{ "bert", build_encoder },
	{ "roberta", build_encoder },
	{ "t5", build_t5 },
	{ "vit", build_image },
	{ "clip", build_pair },
	{ "siglip", build_pair },
	{ "clip_text_model", build_read },
	{ "clip_vision_model", build_look },
	{ "siglip_text_model", build_read },
	{ "siglip_vision_model", build_look },
};

bool build_is_decoder(const struct model *m)
{
	for (size_t i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++)
		if (!strcmp(m->family, forwards[i].family))
			return false;
	return true;
}

int build_generates(const struct model *m)
{
	for (size_t i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++)
		if (!strcmp(m->family, forwards[i].family))
			return m->encoder_decoder;
	return 1;
}

struct value build_forward(struct builder *b, struct value ids, struct value labels,
			   struct value *logits)
{
	for (size_t i = 0; i < sizeof(forwards) / sizeof(forwards[0]); i++)
		if (!strcmp(b->m->family, forwards[i].family))
			return forwards[i].forward(b, ids, labels, logits);
	return build_decoder(b, ids, labels, logits);
}
