#include "machine.h"

#include <stdio.h>
#include <string.h>

void pickle_heap_init(struct pickle_heap *heap, struct mem *m)
{
	*heap = (struct pickle_heap){ .mem = m };
	intern_init(&heap->strings, m);
}

void pickle_heap_forget_values(struct pickle_heap *heap)
{
	for (size_t i = 0; i < heap->nodes.n; i++)
		mem_free(heap->mem, heap->nodes.at[i].items, heap->nodes.at[i].cap,
			 sizeof(struct pickle_value));
	vec_release(heap->mem, &heap->nodes);
}

void pickle_heap_release(struct pickle_heap *heap)
{
	if (!heap->mem)
		return;
	pickle_heap_forget_values(heap);
	intern_release(&heap->strings);
}

enum plim_status heap_node(struct pickle_heap *h, enum pickle_kind kind, struct pickle_value *v,
			   struct plim_err *err)
{
	*v = (struct pickle_value){ h->nodes.n, kind };
	if (h->nodes.n >= PICKLE_EXT_NUMBERS)
		return err_set(err, PLIM_E_FORMAT, "the pickle holds more than 2^28 containers");
	return vec_push(h->mem, &h->nodes, (struct pickle_node){ 0 }, err);
}

/* Replace a run of consecutive rows by the values themselves. */
static enum plim_status spell_out(struct pickle_heap *h, struct pickle_node *node, size_t extra,
				  struct plim_err *err)
{
	size_t cap = 0;
	void *items = NULL;
	enum plim_status st =
		mem_grow(h->mem, &items, &cap, node->n + extra, sizeof(struct pickle_value), err);

	if (st)
		return st;
	node->items = items;
	node->cap = (uint32_t)cap;
	for (uint32_t i = 0; i < node->n; i++)
		node->items[i] = (struct pickle_value){ node->run + i, PICKLE_EXT };
	return PLIM_OK;
}

/* How many of `values` continue (or begin) the node's run of consecutive rows. */
static size_t run_length(struct pickle_node *node, const struct pickle_value *values, size_t n)
{
	uint64_t next = node->n ? node->run + node->n : n ? values[0].bits : 0;
	size_t i = 0;

	while (i < n && values[i].kind == PICKLE_EXT && values[i].bits == next + i)
		i++;
	return i;
}

enum plim_status heap_append(struct pickle_heap *h, struct pickle_value v,
			     const struct pickle_value *values, size_t n, struct plim_err *err)
{
	struct pickle_node *node = &h->nodes.at[v.bits];
	enum plim_status st = PLIM_OK;
	size_t cap = node->cap;
	void *items = node->items;

	if (node->frozen)
		return err_set(err, PLIM_E_FORMAT,
			       "the pickle changes a row or a list of frames after its use");
	if (!n)
		return PLIM_OK;
	if (n > UINT32_MAX - 1 - node->n)
		return err_set(err, PLIM_E_FORMAT, "a container of more than 2^32 items");
	if (!items && v.kind == PICKLE_LIST && run_length(node, values, n) == n) {
		if (!node->n)
			node->run = values[0].bits;
		node->n += (uint32_t)n;
		return PLIM_OK;
	}
	if (!items && node->n) {
		st = spell_out(h, node, n, err);
	} else if (!items) { /* most never grow: tuples, calls */
		node->items = mem_new(h->mem, n, sizeof(*values), err);
		node->cap = node->items ? (uint32_t)n : 0;
		st = node->items ? PLIM_OK : mem_status(err);
	} else {
		st = mem_grow(h->mem, &items, &cap, node->n + n, sizeof(*values), err);
		node->items = items;
		node->cap = (uint32_t)cap;
	}
	if (st)
		return st;
	memcpy(node->items + node->n, values, n * sizeof(*values));
	node->n += (uint32_t)n;
	return PLIM_OK;
}

static const uint8_t packed_kind[] = {
	[PICKLE_STR] = MEMO_STR >> 28,
	[PICKLE_BYTES] = 2,
	[PICKLE_LIST] = 3,
	[PICKLE_TUPLE] = 4,
	[PICKLE_DICT] = 5,
	[PICKLE_SET] = 6,
	[PICKLE_GLOBAL] = 7,
	[PICKLE_CALL] = 8,
	[PICKLE_BOX] = 9,
	[PICKLE_EXT] = MEMO_EXT >> 28,
};
static const enum pickle_kind unpacked_kind[] = {
	PICKLE_NONE, PICKLE_STR, PICKLE_BYTES,  PICKLE_LIST, PICKLE_TUPLE,
	PICKLE_DICT, PICKLE_SET, PICKLE_GLOBAL, PICKLE_CALL, PICKLE_BOX,
};

enum plim_status memo_pack(struct pickle *p, struct pickle_value v, uint32_t *packed,
			   struct plim_err *err)
{
	unsigned code = packed_kind[v.kind];
	struct pickle_value box;
	enum plim_status st;

	if (v.kind == PICKLE_EXT) {
		*packed = (code << 28) + (uint32_t)v.bits;
		return PLIM_OK;
	}
	if (!code) {
		st = heap_node(p->heap, PICKLE_BOX, &box, err);
		if (!st)
			st = heap_append(p->heap, box, &v, 1, err);
		if (st)
			return st;
		v = box;
		code = packed_kind[PICKLE_BOX];
	}
	if (v.bits >= PICKLE_EXT_NUMBERS)
		return err_set(err, PLIM_E_FORMAT, "the pickle holds more than 2^28 strings");
	*packed = code << 28 | (uint32_t)v.bits;
	return PLIM_OK;
}

struct pickle_value memo_unpack(const struct pickle_heap *h, uint32_t packed)
{
	unsigned code = packed >> 28;
	struct pickle_value v;

	if (code >= packed_kind[PICKLE_EXT])
		return (struct pickle_value){ packed - ((uint32_t)packed_kind[PICKLE_EXT] << 28),
					      PICKLE_EXT };
	v = (struct pickle_value){ packed & (PICKLE_EXT_NUMBERS - 1), unpacked_kind[code] };
	if (v.kind == PICKLE_BOX)
		return h->nodes.at[v.bits].items[0];
	if ((v.kind == PICKLE_DICT || v.kind == PICKLE_LIST) && h->nodes.at[v.bits].ext)
		return (struct pickle_value){ h->nodes.at[v.bits].ext - 1, PICKLE_EXT };
	return v;
}

int pickle_get(const struct pickle_heap *h, struct pickle_value dict, const char *key,
	       struct pickle_value *out)
{
	uint32_t id = intern_find(&h->strings, key, strlen(key));
	const struct pickle_node *node;

	*out = (struct pickle_value){ 0, PICKLE_NONE };
	if (dict.kind != PICKLE_DICT || id == INTERN_NONE)
		return 0;
	node = &h->nodes.at[dict.bits];
	for (size_t i = node->n; i >= 2; i -= 2) {
		if (node->items[i - 2].kind == PICKLE_STR && node->items[i - 2].bits == id) {
			*out = node->items[i - 1];
			return 1;
		}
	}
	return 0;
}

void pickle_name(const struct pickle_heap *h, struct pickle_value v, char *text, size_t size)
{
	const char *part[2] = { "?", "?" };

	if (v.kind == PICKLE_CALL)
		v = pickle_item(h, v, PICKLE_CALL_CALLEE);
	for (size_t i = 0; v.kind == PICKLE_GLOBAL && i < 2; i++) {
		struct pickle_value s = pickle_item(h, v, i);

		if (s.kind == PICKLE_STR)
			part[i] = intern_text(&h->strings, (uint32_t)s.bits);
	}
	snprintf(text, size, "%.100s.%.100s", part[0], part[1]);
}
