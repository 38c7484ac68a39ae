/* The rules that a recording was made under, as its keys and its PYTORCH_CUDA_ALLOC_CONF tell them. */
#include "allocator.h"

#include <string.h>

unsigned allocator_release_from_keys(const struct snapshot *t)
{
	for (size_t d = 0; d < t->device_count; d++)
		if (t->devices[d].events.pool)
			return 212;
	return t->settings.have_reuse_key ? 209 : t->settings.have ? 203 : 201;
}

struct allocator_rules allocator_rules_of(const struct snapshot *t, unsigned release)
{
	struct allocator_rules r;

	if (!release) /* nothing in a recording shows 2.9 from later ones: the newest is likelier */
		release = t->settings.have_reuse_key ? 0 : allocator_release_from_keys(t);
	r = allocator_rules_default(release);
	/* The string shows more than the keys; where both do the keys are newer. */
	if (t->settings.conf != TRACE_NONE)
		allocator_rules_parse(snapshot_text(t, t->settings.conf), release, &r, NULL);
	if (t->settings.have) {
		r.max_split_bytes = t->settings.max_split_bytes;
		r.gc_threshold = t->settings.gc_threshold;
		r.expandable = t->settings.expandable_segments;
	}
	memcpy(r.roundup_divisions, t->settings.roundup_divisions, sizeof(r.roundup_divisions));
	return r;
}
