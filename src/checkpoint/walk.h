/* The walk through a pickle's values: unpickle.c, rebuild.c, optimizers.c. */
#ifndef CHECKPOINT_WALK_H
#define CHECKPOINT_WALK_H

#include "parts.h"

#define WALK_DEPTH 400 /* containers inside each other */

struct walk {
	struct unpickle *u;
	struct ckpt *ckpt;
	const struct pickle_heap *heap;
	VEC(char) name; /* of keys that lead here, terminated; see walk_name */
	unsigned depth;
	uint64_t path[WALK_DEPTH]; /* containers that this one is in */
	size_t visits, most_visits;
	uint16_t flags;    /* of the tensors below */
	uint32_t location; /* that is said from outside, or CKPT_NONE */
	bool told;
	bool only_new; /* leave out what another path has led to */
};

/* A value and all below it; the same under one more name. */
enum plim_status walk_value(struct walk *w, struct pickle_value v, struct plim_err *err);
enum plim_status walk_as(struct walk *w, const char *key, struct pickle_value v,
			 struct plim_err *err);

/* *known: it is one of torch's rebuild functions, and what it makes was added. */
enum plim_status walk_rebuild(struct walk *w, const char *name, struct pickle_value args,
			      bool *known, struct plim_err *err);
/* A storage that no tensor stands around. */
enum plim_status walk_storage(struct walk *w, struct pickle_value v, struct plim_err *err);
/* A dict that has both keys of an optimizer's state_dict; its tensors are from `first` on. */
enum plim_status walk_optimizer(struct walk *w, struct pickle_value dict, size_t first,
				struct plim_err *err);

/* "module.name" of a GLOBAL, or of a class that came with its source; "" of anything else. */
const char *walk_global(const struct walk *w, struct pickle_value v, char *text, size_t size);
/* A dict, or the items of a call that makes one (OrderedDict); else NONE. */
struct pickle_value walk_as_dict(const struct walk *w, struct pickle_value v);
/* ('storage', class, key, location, numel) of a persistent id; the texts are the heap's. */
bool walk_get_storage(const struct walk *w, struct pickle_value v, struct unpickle_storage *s);
/*
 * The same of a storage inside the pickle's own bytes, a call of _load_from_bytes: *s's dtype and bytes, where it was
 * saved from, its extent; !*ok: a finding says that it cannot be looked at.
 */
enum plim_status embedded_place(struct walk *w, struct pickle_value call,
				struct unpickle_storage *s, uint32_t *location, uint32_t *extent,
				bool *ok, struct plim_err *err);
/* (2, 3) or torch.Size((2, 3)): at most CKPT_DIMS sizes; false: it is something else. */
bool walk_sizes(const struct walk *w, struct pickle_value v, uint64_t *sizes, size_t *rank);
/* Of a float or an integer; NaN of anything else. */
double walk_number(struct pickle_value v);

/* Of what is looked at; "" at the outermost. */
static inline const char *walk_name(const struct walk *w)
{
	return w->name.at ? w->name.at : "";
}

static inline const char *walk_str(const struct walk *w, struct pickle_value v)
{
	return v.kind == PICKLE_STR || v.kind == PICKLE_BYTES
		       ? intern_text(&w->heap->strings, (uint32_t)v.bits)
		       : NULL;
}

static inline struct pickle_value walk_part(const struct walk *w, struct pickle_value call,
					    enum pickle_call_item which)
{
	return pickle_item(w->heap, call, which);
}

/* Argument i of a call, NONE if it has not so many. */
static inline struct pickle_value walk_arg(const struct walk *w, struct pickle_value args, size_t i)
{
	if (args.kind != PICKLE_TUPLE || i >= pickle_len(w->heap, args))
		return (struct pickle_value){ 0, PICKLE_NONE };
	return pickle_item(w->heap, args, i);
}

static inline bool walk_is_true(struct pickle_value v)
{
	return v.kind == PICKLE_BOOL && v.bits;
}

#endif
