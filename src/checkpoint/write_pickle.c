/*
 * Pickles of protocol 2, as torch.save writes them: opcodes into a text, and the values of a pickle that was
 * read written anew.  That is how a repaired checkpoint keeps its epoch, its optimizer's groups and its random
 * states.  Only what is on the lists of globals.c is written; whoever finds another global refuses before.
 *
 * Every container is memoized, so that what was shared stays shared.  A tensor that is not whole leaves a dict
 * with its key; in a list or a tuple None stands for it.
 */
#include "write_pickle.h"

#include <stdio.h>
#include <string.h>

#define DEPTH 400 /* containers inside each other */

/* ---- opcodes ---- */

void ckpt_pickle_put_le(struct text *t, uint64_t v, size_t n)
{
	char bytes[8];

	memcpy(bytes, &v, sizeof(bytes)); /* little-endian, as the machine */
	text_put(t, bytes, n);
}

void ckpt_pickle_put_string(struct text *t, const char *s, size_t n)
{
	text_put(t, "X", 1);
	ckpt_pickle_put_le(t, n, 4);
	text_put(t, s, n);
}

void ckpt_pickle_put_int(struct text *t, int64_t v)
{
	bool byte = v >= 0 && v <= UINT8_MAX, word = v >= INT32_MIN && v <= INT32_MAX;

	text_put(t, byte ? "K" : word ? "J" : "\x8a\x08", byte || word ? 1 : 2);
	ckpt_pickle_put_le(t, (uint64_t)v, byte ? 1 : word ? 4 : 8);
}

/* ---- is it whole? ---- */

enum { UNKNOWN, WHOLE, LOST };

static struct pickle_value item(const struct ckpt_pickle_rewrite *w, struct pickle_value v,
				size_t i)
{
	return pickle_item(w->heap, v, i);
}

/* A tuple's item that is a string; its id in heap->strings. */
static bool string_at(const struct ckpt_pickle_rewrite *w, struct pickle_value tuple, size_t i,
		      uint32_t *id)
{
	struct pickle_value v = { 0, PICKLE_NONE };

	if (tuple.kind == PICKLE_TUPLE && i < pickle_len(w->heap, tuple))
		v = item(w, tuple, i);
	*id = (uint32_t)v.bits;
	return v.kind == PICKLE_STR || v.kind == PICKLE_BYTES;
}

/* Which extent a storage's key stands for; CKPT_NONE: none that is there. */
static uint32_t extent_of(const struct ckpt_pickle_rewrite *w, uint32_t key)
{
	char name[1200];
	uint32_t id;

	snprintf(name, sizeof(name), "%s%.60s", w->prefix, intern_text(&w->heap->strings, key));
	id = intern_find(&w->ckpt->strings, name, strlen(name));
	return id < w->names && w->by_name[id] ? w->by_name[id] - 1 : CKPT_NONE;
}

static bool is_storage_whole(const struct ckpt_pickle_rewrite *w, struct pickle_value persid)
{
	struct pickle_value id = item(w, persid, 0);
	uint32_t key, extent;

	if (!string_at(w, id, 2, &key) || pickle_len(w->heap, id) < 5)
		return true; /* no storage: refused when it is written */
	extent = extent_of(w, key);
	if (extent == CKPT_NONE || !item(w, id, 4).bits)
		return !item(w, id, 4).bits; /* of nothing, nothing is lost */
	return w->ckpt->extents.at[extent].state != CKPT_CUT &&
	       w->ckpt->extents.at[extent].state != CKPT_BAD;
}

/* Of torch's own functions all arguments are looked through, of others not the lists and dicts. */
static bool is_of_torch(const struct ckpt_pickle_rewrite *w, struct pickle_value call)
{
	struct pickle_value callee = item(w, call, PICKLE_CALL_CALLEE);

	return callee.kind == PICKLE_GLOBAL &&
	       !strncmp(intern_text(&w->heap->strings, (uint32_t)item(w, callee, 0).bits), "torch",
			5);
}

static bool is_lost(const struct ckpt_pickle_rewrite *w, struct pickle_value v, unsigned depth,
		    bool inside)
{
	bool call = v.kind == PICKLE_CALL, lost = false;
	bool open = call || v.kind == PICKLE_TUPLE ||
		    (inside && (v.kind == PICKLE_LIST || v.kind == PICKLE_DICT));
	struct pickle_value in = call ? item(w, v, PICKLE_CALL_ARGS) : v;

	if ((!open && v.kind != PICKLE_PERSID) || depth > DEPTH)
		return false;
	if (w->fate[v.bits])
		return w->fate[v.bits] == LOST;
	w->fate[v.bits] = WHOLE; /* until it is known; a loop ends here */
	if (v.kind == PICKLE_PERSID)
		lost = !is_storage_whole(w, v);
	inside = call ? is_of_torch(w, v) : inside;
	for (size_t i = 0; open && !lost && i < pickle_len(w->heap, in); i++)
		lost = is_lost(w, item(w, in, i), depth + 1, inside);
	w->fate[v.bits] = lost ? LOST : WHOLE;
	return lost;
}

/* A tensor or storage that is not all there; a tuple that has some is written with None in it. */
static bool leaves(const struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	return (v.kind == PICKLE_CALL || v.kind == PICKLE_PERSID) && is_lost(w, v, 0, false);
}

/* ---- values ---- */

static void write(struct ckpt_pickle_rewrite *w, struct pickle_value v);

static void refuse_rewrite(struct ckpt_pickle_rewrite *w, const char *why)
{
	w->why = w->why ? w->why : why;
}

static void memoize(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	uint32_t n = w->memos++;

	w->memo[v.bits] = n + 1;
	text_put(w->out, n <= UINT8_MAX ? "q" : "r", 1);
	ckpt_pickle_put_le(w->out, n, n <= UINT8_MAX ? 1 : 4);
}

static bool recall(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	uint32_t n = w->memo[v.bits];

	if (n--) {
		text_put(w->out, n <= UINT8_MAX ? "h" : "j", 1);
		ckpt_pickle_put_le(w->out, n, n <= UINT8_MAX ? 1 : 4);
	}
	return w->memo[v.bits] != 0;
}

static void write_items(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	struct pickle_value none = { 0, PICKLE_NONE };

	for (size_t i = 0; i < pickle_len(w->heap, v); i++)
		write(w, leaves(w, item(w, v, i)) ? none : item(w, v, i));
}

static void write_appended(struct ckpt_pickle_rewrite *w, struct pickle_value list)
{
	if (!pickle_len(w->heap, list))
		return;
	text_puts(w->out, "(");
	write_items(w, list);
	text_puts(w->out, "e");
}

static void write_pairs(struct ckpt_pickle_rewrite *w, struct pickle_value dict)
{
	size_t n = pickle_len(w->heap, dict);

	if (!n)
		return;
	text_puts(w->out, "(");
	for (size_t i = 0; i + 1 < n; i += 2) {
		if (leaves(w, item(w, dict, i + 1)))
			continue;
		write(w, item(w, dict, i));
		write(w, item(w, dict, i + 1));
	}
	text_puts(w->out, "u");
}

static void write_tuple(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	size_t n = pickle_len(w->heap, v);

	text_puts(w->out, n > 3 ? "(" : "");
	write_items(w, v);
	text_puts(w->out, n > 3 ? "t" : n == 3 ? "\x87" : n == 2 ? "\x86" : n ? "\x85" : ")");
	if (n)
		memoize(w, v);
}

static void write_global(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	for (size_t i = 0; i < 2; i++) {
		const char *part = intern_text(&w->heap->strings, (uint32_t)item(w, v, i).bits);

		if (item(w, v, i).kind != PICKLE_STR || strpbrk(part, "\r\n"))
			return refuse_rewrite(w, "a name in it is none that Python has");
		text_puts(w->out, i ? "" : "c");
		text_puts(w->out, part);
		text_puts(w->out, "\n");
	}
	memoize(w, v);
}

static void write_call(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	struct pickle_value state = item(w, v, PICKLE_CALL_STATE),
			    args = item(w, v, PICKLE_CALL_ARGS);

	if (item(w, v, PICKLE_CALL_CALLEE).kind != PICKLE_GLOBAL || args.kind != PICKLE_TUPLE ||
	    item(w, v, PICKLE_CALL_KWARGS).kind != PICKLE_NONE)
		return refuse_rewrite(w, "it makes objects in a way that torch.save does not");
	write(w, item(w, v, PICKLE_CALL_CALLEE));
	write(w, args);
	text_puts(w->out, w->heap->nodes.at[v.bits].is_new ? "\x81" : "R");
	memoize(w, v);
	write_appended(w, item(w, v, PICKLE_CALL_APPENDED));
	write_pairs(w, item(w, v, PICKLE_CALL_SET));
	if (state.kind == PICKLE_NONE)
		return;
	write(w, state);
	text_puts(w->out, "b");
}

/* Protocol 2 has no sets: set([...]). */
static void write_set(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	text_puts(w->out, "c__builtin__\nset\n](");
	write_items(w, v);
	text_puts(w->out, "e\x85R");
	memoize(w, v);
}

/* Nor bytes: _codecs.encode('...', 'latin1'). */
static void write_bytes(struct ckpt_pickle_rewrite *w, const char *s, size_t n)
{
	struct text t;

	text_init(&t, w->ckpt->mem, NULL);
	for (size_t i = 0; i < n; i++) {
		char utf8[8];

		text_put(&t, utf8, utf8_encode((unsigned char)s[i], utf8));
	}
	text_puts(w->out, "c_codecs\nencode\n");
	ckpt_pickle_put_string(w->out, text_get(&t), t.n);
	ckpt_pickle_put_string(w->out, "latin1", 6);
	text_puts(w->out, "\x86R");
	if (text_status(&t, NULL))
		refuse_rewrite(w, "out of memory");
	text_release(&t);
}

/* Storages are numbered anew, in the order of their first use, as torch.save does. */
static bool number_storage(struct ckpt_pickle_rewrite *w, uint32_t key, uint64_t numel,
			   uint32_t *number)
{
	uint32_t extent = numel ? extent_of(w, key) : CKPT_NONE;

	if (!w->slot[key]) {
		if (extent == CKPT_NONE && numel)
			return false;
		w->storages[w->storage_count++] = extent;
		w->slot[key] = (uint32_t)w->storage_count;
	}
	*number = w->slot[key] - 1;
	return true;
}

static void write_storage(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	struct pickle_value id = item(w, v, 0);
	size_t n = pickle_len(w->heap, id);
	uint32_t tag, key, location, number;
	char text[16];

	if (!string_at(w, id, 0, &tag) || !string_at(w, id, 2, &key) ||
	    !string_at(w, id, 3, &location) ||
	    strcmp(intern_text(&w->heap->strings, tag), "storage") != 0 || n < 5 || n > 6 ||
	    (n == 6 && item(w, id, 5).kind != PICKLE_NONE) ||
	    !strcmp(intern_text(&w->heap->strings, location), "meta") ||
	    !number_storage(w, key, item(w, id, 4).bits, &number))
		return refuse_rewrite(w, "it refers to what is not a storage of its own");
	text_puts(w->out, "(");
	write(w, item(w, id, 0));
	write(w, item(w, id, 1));
	snprintf(text, sizeof(text), "%u", number);
	ckpt_pickle_put_string(w->out, text, strlen(text));
	write(w, item(w, id, 3));
	write(w, item(w, id, 4));
	text_puts(w->out, "tQ");
	memoize(w, v);
}

static void write_container(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	if (recall(w, v))
		return;
	if (w->depth++ >= DEPTH)
		refuse_rewrite(w, "it nests too deeply");
	if (w->why)
		return;
	switch (v.kind) {
	case PICKLE_TUPLE: write_tuple(w, v); break;
	case PICKLE_GLOBAL: write_global(w, v); break;
	case PICKLE_CALL: write_call(w, v); break;
	case PICKLE_SET: write_set(w, v); break;
	case PICKLE_PERSID: write_storage(w, v); break;
	default: /* may hold itself: known before what is in it */
		text_puts(w->out, v.kind == PICKLE_LIST ? "]" : "}");
		memoize(w, v);
		(v.kind == PICKLE_LIST ? write_appended : write_pairs)(w, v);
	}
	w->depth--;
}

static void write_long(struct text *t, const void *bytes, size_t n)
{
	text_put(t, n <= UINT8_MAX ? "\x8a" : "\x8b", 1);
	ckpt_pickle_put_le(t, n, n <= UINT8_MAX ? 1 : 4);
	text_put(t, bytes, n);
}

static void write(struct ckpt_pickle_rewrite *w, struct pickle_value v)
{
	const struct intern *s = &w->heap->strings;
	uint8_t wide[9] = { 0 };
	uint64_t turned = __builtin_bswap64(v.bits);

	if (w->why)
		return;
	switch (v.kind) {
	case PICKLE_NONE: text_puts(w->out, "N"); break;
	case PICKLE_BOOL: text_puts(w->out, v.bits ? "\x88" : "\x89"); break;
	case PICKLE_INT: ckpt_pickle_put_int(w->out, (int64_t)v.bits); break;
	case PICKLE_UINT:
		memcpy(wide, &v.bits, 8);
		write_long(w->out, wide, sizeof(wide));
		break;
	case PICKLE_FLOAT: /* the only number that pickles write big-endian */
		text_put(w->out, "G", 1);
		ckpt_pickle_put_le(w->out, turned, 8);
		break;
	case PICKLE_STR:
		ckpt_pickle_put_string(w->out, intern_text(s, (uint32_t)v.bits), s->at[v.bits].n);
		break;
	case PICKLE_BYTES: write_bytes(w, intern_text(s, (uint32_t)v.bits), s->at[v.bits].n); break;
	case PICKLE_BIGINT:
		write_long(w->out, intern_text(s, (uint32_t)v.bits), s->at[v.bits].n);
		break;
	default:
		if (pickle_is_container(v))
			write_container(w, v);
		else
			refuse_rewrite(w, "it holds something that is not known");
	}
}

/* ---- all ---- */

static enum plim_status make_room(struct ckpt_pickle_rewrite *w, struct plim_err *err)
{
	struct ckpt *c = w->ckpt;

	w->names = c->strings.n;
	w->by_name = mem_new(c->mem, w->names, sizeof(*w->by_name), err);
	w->memo = mem_new(c->mem, w->heap->nodes.n, sizeof(*w->memo), err);
	w->fate = mem_new(c->mem, w->heap->nodes.n, sizeof(*w->fate), err);
	w->slot = mem_new(c->mem, w->heap->strings.n, sizeof(*w->slot), err);
	w->storages = mem_new(c->mem, w->heap->strings.n, sizeof(*w->storages), err);
	if (!w->by_name || !w->memo || !w->fate || !w->slot || !w->storages)
		return mem_status(err);
	for (uint32_t i = (uint32_t)c->extents.n; i--;) /* the first of equal names, as in torch */
		w->by_name[c->extents.at[i].name] = i + 1;
	return PLIM_OK;
}

enum plim_status ckpt_pickle_rewrite(struct ckpt_pickle_rewrite *w, struct pickle_value root,
				     struct plim_err *err)
{
	enum plim_status st = make_room(w, err);

	if (st)
		return st;
	if (leaves(w, root))
		refuse_rewrite(w, "all that it holds is not whole");
	text_puts(w->out, "\x80\x02");
	write(w, root);
	text_puts(w->out, ".");
	return w->why ? err_set(err, PLIM_E_UNSUPPORTED, "%s", w->why) : text_status(w->out, err);
}

void ckpt_pickle_rewrite_release(struct ckpt_pickle_rewrite *w)
{
	struct mem *m = w->ckpt->mem;

	mem_free(m, w->by_name, w->names, sizeof(*w->by_name));
	mem_free(m, w->memo, w->heap->nodes.n, sizeof(*w->memo));
	mem_free(m, w->fate, w->heap->nodes.n, sizeof(*w->fate));
	mem_free(m, w->slot, w->heap->strings.n, sizeof(*w->slot));
	mem_free(m, w->storages, w->heap->strings.n, sizeof(*w->storages));
}
