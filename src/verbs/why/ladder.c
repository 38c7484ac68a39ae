/* What the moment of a death means, and the lists of what helps: the rows are in diagnose/advice.c. */
#include "verbs/why/why.h"

enum plim_status why_ladder(struct plim_why *w, const struct messages_event *e,
			    const struct findings_told *t, const struct messages_context *c,
			    struct plim_verdict *v, struct plim_err *err)
{
	struct lines lists[FINDINGS_LISTS];
	enum plim_status st;

	for (int i = 0; i < FINDINGS_LISTS; i++)
		lists[i] = (struct lines){ .arena = &w->hidden->arena, .err = err };
	findings_advise(e, t, c, lists);
	st = lines_keep(&lists[FINDINGS_HELPS], &v->helps, &v->helps_count);
	if (!st)
		st = lines_keep(&lists[FINDINGS_USELESS], &v->useless, &v->useless_count);
	return st ? st : lines_keep(&lists[FINDINGS_CERTAINTY], &v->certainty, &v->certainty_count);
}

/* ---- moments ---- */

static const char *const means[MESSAGES_MOMENTS] = {
	[MESSAGES_LOADING] = "it died while weights were loaded or moved: nothing of a step was "
			     "there yet",
	[MESSAGES_FORWARD] = "it died in a forward pass, which keeps activations for the backward "
			     "pass: in the first step the batch is too large, later it is the "
			     "longest batch or something that was kept",
	[MESSAGES_BACKWARD] =
		"it died in a backward pass: gradients are born there in the first "
		"step; later its own temporaries are what is large, while activations "
		"are given back",
	[MESSAGES_FIRST_STEP] =
		"it died while the optimizer made its state, which happens once, in "
		"its first step: more of it was still to come (Adam: two tensors "
		"of the size of each parameter)",
	[MESSAGES_OPTIMIZER] = "it died in an optimizer step: foreach, PyTorch's default, makes "
			       "lists as large as the parameters there",
	[MESSAGES_EVAL] = "it died in evaluation: outputs that are kept on the GPU pile up there, "
			  "and a graph is kept where no_grad is missing",
	[MESSAGES_GENERATION] = "it died in generation: the KV cache grows with every token, "
				"sequence and layer",
	[MESSAGES_SAVING] = "it died while a checkpoint was saved: gathering the state needs room "
			    "for it once more",
	[MESSAGES_DATA] = "it died while batches were made or moved",
};

const char *why_moment_means(const struct messages_event *e, const struct messages_context *c)
{
	if (e->traceback.moment == MESSAGES_FORWARD && c->activity != MESSAGES_DOING_TRAINING)
		return "it died in a forward pass";
	return e->wording->class == MESSAGES_DEVICE || e->traceback.moment == MESSAGES_LOADING ||
			       e->traceback.moment == MESSAGES_SAVING ||
			       e->traceback.moment == MESSAGES_DATA
		       ? means[e->traceback.moment]
		       : NULL;
}
