/*
 * The names that pickles refer to, and how they are used.  Nothing is ever called here; this says what a
 * loader would call.  Names are logged when their opcode is decoded, so that one which is thrown away at once
 * is reported, too; what some may only be given is looked at when the pickle was read.
 */
#include "opcodes.h"
#include "parts.h"
#include "policy.h"

#include <stdio.h>
#include <string.h>

#define GLOBALS_MAX 4096 /* that are kept, and as many dangerous ones */
#define NAME_BYTES 300
#define GLOBALS_COMPUTED "a name that is computed"
#define SEEK_BYTES ((size_t)1 << 20) /* where pickles are looked for between other bytes */
#define TRIES 1000                   /* places in it */

struct use {
	struct globals_log *log;
	const struct pickle_heap *heap;
	uint8_t *opened; /* of each string that a loader is given, its trust; 0: not opened yet */
	struct {
		uint64_t of; /* the GLOBAL's number, plus 1 */
		struct policy policy;
	} known[64]; /* what was looked up last */
};

/* C's texts end at a NUL, Python's do not. */
static bool has_nul(const struct pickle_heap *h, struct pickle_value v)
{
	return v.kind == PICKLE_STR &&
	       memchr(h->strings.at[v.bits].bytes, 0, h->strings.at[v.bits].n) != NULL;
}

/* A text that this file can compare. */
static bool is_text(const struct pickle_heap *h, struct pickle_value v)
{
	return v.kind == PICKLE_STR && !has_nul(h, v);
}

/* "module.name"; parts that are not strings, or hold a NUL, make the whole a computed name. */
static size_t global_name(const struct pickle_heap *h, struct pickle_value v, char *text,
			  size_t size)
{
	struct pickle_value module = pickle_item(h, v, 0), name = pickle_item(h, v, 1);
	int n;

	if (!is_text(h, module) || !is_text(h, name))
		n = snprintf(text, size, GLOBALS_COMPUTED);
	else
		n = snprintf(text, size, "%s.%s", intern_text(&h->strings, (uint32_t)module.bits),
			     intern_text(&h->strings, (uint32_t)name.bits));
	return n < (int)size ? (size_t)n : size - 1;
}

/* ---- the log ---- */

/* Two looks, however many names there are.  What global_of says is true only if the global says so, too. */
static struct ckpt_global *find_global(const struct ckpt *c, const char *name)
{
	uint32_t id = intern_find(&c->strings, name, strlen(name)), at;

	if (id == INTERN_NONE || id >= c->global_of.n)
		return NULL;
	at = c->global_of.at[id];
	return at < c->globals.n && c->globals.at[at].name == id ? &c->globals.at[at] : NULL;
}

static enum plim_status add_global(struct ckpt *c, struct ckpt_global g, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	while (!st && c->global_of.n <= g.name)
		st = vec_push(c->mem, &c->global_of, 0, err);
	if (st)
		return st;
	c->global_of.at[g.name] = (uint32_t)c->globals.n;
	return vec_push(c->mem, &c->globals, g, err);
}

static struct policy judge_name(const struct globals_log *log, const char *name)
{
	struct policy p = policy_of(name);

	if (!strcmp(name, GLOBALS_COMPUTED))
		return (struct policy){ CKPT_DANGEROUS, POLICY_DATA, 0 };
	if (log->script && !strncmp(name, CKPT_SCRIPT_CLASS, strlen(CKPT_SCRIPT_CLASS)))
		return (struct policy){ CKPT_SCRIPT, POLICY_DATA, 0 };
	if (p.trust == CKPT_UNKNOWN && policy_is_allowed(log->ckpt->allow, name))
		p.trust = CKPT_ALLOWED;
	return p;
}

/* Behind an array's beginning its numbers may read as opcodes: what is no UTF-8, or has a control character, Python cannot import. */
static bool is_of_array(const struct globals_log *log, const char *name)
{
	size_t n = strlen(name), k = 1;
	uint32_t code = ' ';

	for (size_t i = 0; log->arrays && k && code >= ' ' && i < n; i += k)
		k = utf8_decode(name + i, n - i, &code);
	return !k || code < ' ';
}

/* A name met in log->record at `offset`; one that is known is counted. */
static enum plim_status keep_global(struct globals_log *log, const char *name, struct policy p,
				    uint64_t offset, struct plim_err *err)
{
	struct ckpt *c = log->ckpt;
	struct ckpt_global g = { .record = log->record,
				 .offset = offset,
				 .trust = p.trust,
				 .rule = (uint8_t)p.rule,
				 .times = 1 };
	struct ckpt_global *old;
	enum plim_status st = PLIM_OK;

	c->pickled = true;
	old = find_global(c, name);
	if (old) {
		old->times++;
		old->trust = p.trust > old->trust ? p.trust : old->trust;
		return PLIM_OK;
	}
	g.name = ckpt_model_string(c, name, strlen(name), &st, err);
	/* No one reads more; what is dangerous is reported even so. */
	if (c->globals.n >= (g.trust == CKPT_DANGEROUS ? 2 * GLOBALS_MAX : GLOBALS_MAX)) {
		c->many_globals = true;
		return st;
	}
	return st ? st : add_global(c, g, err);
}

/* Certainly not a str?  Python's unpicklers want one, and no other object will do. */
static bool is_no_text(const struct pickle_heap *h, struct pickle_value v)
{
	char name[NAME_BYTES];

	if (v.kind != PICKLE_CALL)
		return v.kind != PICKLE_STR;
	if (!h->nodes.at[v.bits].is_new ||
	    pickle_item(h, v, PICKLE_CALL_CALLEE).kind != PICKLE_GLOBAL)
		return false;
	global_name(h, pickle_item(h, v, PICKLE_CALL_CALLEE), name, sizeof(name));
	return strncmp(name, "builtins.", 9) != 0 && strncmp(name, "__builtin__.", 12) != 0;
}

enum plim_status globals_hook(void *ctx, struct pickle_value v, uint64_t offset,
			      struct plim_err *err)
{
	struct globals_log *log = ctx;
	char name[NAME_BYTES];
	struct pickle_value module = pickle_item(log->heap, v, 0),
			    member = pickle_item(log->heap, v, 1);
	enum plim_status st = PLIM_OK;
	struct policy p;

	global_name(log->heap, v, name, sizeof(name));
	if (is_of_array(log, name) ||
	    (log->arrays && (has_nul(log->heap, module) || has_nul(log->heap, member))))
		return PLIM_OK;
	log->stopped =
		log->arrays && (is_no_text(log->heap, module) || is_no_text(log->heap, member));
	if (log->stopped)
		return err_at(err, offset, "a name that is not text");
	if (!is_text(log->heap, module) || !is_text(log->heap, member))
		return keep_global(log, name, (struct policy){ CKPT_DANGEROUS, POLICY_DATA, 0 },
				   offset, err);
	p = judge_name(log, name);
	/* 'torch' and 'nn.Linear': attributes of a module that no one listed. */
	if (p.trust < CKPT_SCRIPT &&
	    strchr(intern_text(&log->heap->strings, (uint32_t)member.bits), '.'))
		p.trust = CKPT_UNKNOWN;
	if (log->arrays && !log->bytes && p.trust == CKPT_UNKNOWN)
		st = ckpt_model_find(log->ckpt, CKPT_NOTE, "unlisted_use", offset, err,
				     "%.200s is what pickle.load imports behind an array; "
				     "joblib.load reads the array there",
				     name);
	return st ? st : keep_global(log, name, p, offset, err);
}

enum plim_status globals_tell(struct ckpt *c, const char *record, const char *name, uint64_t offset,
			      enum ckpt_trust trust, struct plim_err *err)
{
	struct globals_log log = { .ckpt = c };
	enum plim_status st = PLIM_OK;

	if (trust == CKPT_UNKNOWN && policy_is_allowed(c->allow, name))
		trust = CKPT_ALLOWED;
	log.record = ckpt_model_string(c, record, strlen(record), &st, err);
	return st ? st
		  : keep_global(&log, name, (struct policy){ trust, POLICY_DATA, 0 }, offset, err);
}

enum plim_status globals_take(struct ckpt *c, const struct ckpt *inner, const char *record,
			      struct plim_err *err)
{
	struct globals_log log = { .ckpt = c };
	enum plim_status st = PLIM_OK;

	log.record = ckpt_model_string(c, record, strlen(record), &st, err);
	for (size_t i = 0; !st && i < inner->globals.n; i++) {
		const struct ckpt_global *g = &inner->globals.at[i];

		st = keep_global(&log, ckpt_text(inner, g->name),
				 (struct policy){ g->trust, (enum policy_rule)g->rule, 0 },
				 g->offset, err);
	}
	c->many_globals |= inner->many_globals;
	c->refused |= inner->refused;
	return st;
}

static enum plim_status hear(void *ctx, const char *name, uint64_t offset, struct plim_err *err)
{
	struct globals_log *log = ctx;

	if (!name && log->arrays)
		return PLIM_OK; /* see is_of_array */
	name = name ? name : GLOBALS_COMPUTED;
	return find_global(log->ckpt, name) || is_of_array(log, name)
		       ? PLIM_OK
		       : keep_global(log, name, judge_name(log, name), offset, err);
}

enum plim_status globals_name(struct globals_log *log, const uint8_t *bytes, size_t n,
			      struct plim_err *err)
{
	return opcodes_name(bytes, n, hear, log, err);
}

/* ---- how they are used ---- */

static void worsen(const struct use *u, struct pickle_value global, enum ckpt_trust trust)
{
	char name[NAME_BYTES];
	struct ckpt_global *g;

	global_name(u->heap, global, name, sizeof(name));
	g = find_global(u->log->ckpt, name);
	if (!g || g->trust >= trust)
		return;
	/* That it is used in a way that no one listed, the caller may allow by its name. */
	if (trust == CKPT_UNKNOWN && policy_is_allowed(u->log->ckpt->allow, name))
		trust = CKPT_ALLOWED;
	g->trust = trust > g->trust ? trust : g->trust;
}

/* It is used in a way that no row of the policy lists: `why`, in a sentence behind its name. */
static enum plim_status doubt(const struct use *u, struct pickle_value global, const char *why,
			      struct plim_err *err)
{
	char name[NAME_BYTES];
	struct ckpt_global *g;

	global_name(u->heap, global, name, sizeof(name));
	worsen(u, global, CKPT_UNKNOWN);
	g = find_global(u->log->ckpt, name);
	if (!g || g->trust != CKPT_UNKNOWN)
		return PLIM_OK;
	return ckpt_model_find(u->log->ckpt, CKPT_WARN, "unlisted_use", PLIM_UNKNOWN, err,
			       "%.200s in %.200s %s", name, ckpt_text(u->log->ckpt, u->log->record),
			       why);
}

enum plim_status globals_doubt(struct globals_log *log, struct pickle_value global, const char *why,
			       struct plim_err *err)
{
	const struct use u = { .log = log, .heap = log->heap };

	return doubt(&u, global, why, err);
}

static struct policy policy_known(struct use *u, struct pickle_value v)
{
	size_t slot = v.bits % (sizeof(u->known) / sizeof(u->known[0]));
	char text[NAME_BYTES];

	if (u->known[slot].of != v.bits + 1) {
		global_name(u->heap, v, text, sizeof(text));
		u->known[slot].policy = judge_name(u->log, text);
		u->known[slot].of = v.bits + 1;
	}
	return u->known[slot].policy;
}

static struct policy policy_at(struct use *u, struct pickle_value v, char *name, size_t size)
{
	global_name(u->heap, v, name, size);
	return policy_known(u, v);
}

/* A class or function by itself on a list, and not one of those that call others. */
static bool global_is_known(struct use *u, struct pickle_value v)
{
	char name[NAME_BYTES];
	struct policy p;

	if (v.kind != PICKLE_GLOBAL)
		return false;
	p = policy_at(u, v, name, sizeof(name));
	return p.trust <= CKPT_ALLOWED && p.rule < POLICY_RECONSTRUCT;
}

/* Capitals: how the members of enums are spelled. */
static bool is_member_name(const char *s)
{
	return *s >= 'A' && *s <= 'Z' && !s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

static struct pickle_value arg(const struct use *u, struct pickle_value args, size_t i)
{
	if (args.kind != PICKLE_TUPLE || i >= pickle_len(u->heap, args))
		return (struct pickle_value){ 0, PICKLE_NONE };
	return pickle_item(u->heap, args, i);
}

static const char *global_text_of(const struct use *u, struct pickle_value v)
{
	return v.kind == PICKLE_STR ? intern_text(&u->heap->strings, (uint32_t)v.bits) : "";
}

/* builtins.object and the like, whose __new__ copyreg calls. */
static bool is_builtin(struct use *u, struct pickle_value v)
{
	char name[NAME_BYTES];
	struct policy p;

	if (v.kind != PICKLE_GLOBAL)
		return false;
	p = policy_at(u, v, name, sizeof(name));
	return p.trust == CKPT_DATA &&
	       (!strncmp(name, "builtins.", 9) || !strncmp(name, "__builtin__.", 12));
}

/* getattr given anything else than a member of an enum. */
static enum ckpt_trust judge_getattr(struct use *u, struct pickle_value args)
{
	struct pickle_value of = arg(u, args, 0), member = arg(u, args, 1);
	const char *name = global_text_of(u, member);
	char class[NAME_BYTES];
	enum ckpt_trust trust;

	if (member.kind != PICKLE_STR || !strncmp(name, "__", 2))
		return CKPT_DANGEROUS;
	if (of.kind != PICKLE_GLOBAL) /* a bound method, of what was made before */
		return of.kind == PICKLE_CALL ? CKPT_UNKNOWN : CKPT_DANGEROUS;
	trust = policy_at(u, of, class, sizeof(class)).trust;
	return trust == CKPT_DANGEROUS                         ? CKPT_DANGEROUS
	       : trust <= CKPT_ALLOWED && is_member_name(name) ? CKPT_CLASS
							       : CKPT_UNKNOWN;
}

/* Whoever calls the partial calls its function: one of numbers, or a module of torch. */
static bool is_harmless_called(struct use *u, struct pickle_value v)
{
	char name[NAME_BYTES];
	struct policy p;

	if (v.kind != PICKLE_GLOBAL)
		return false;
	p = policy_at(u, v, name, sizeof(name));
	return p.trust == CKPT_ALLOWED ||
	       (p.trust == CKPT_CLASS && ((p.rule == POLICY_VALUE && !strncmp(name, "torch.", 6)) ||
					  !strncmp(name, "torch.nn.modules.", 17)));
}

static bool is_known_partial(struct use *u, const struct pickle_value *call)
{
	struct pickle_value state = call[PICKLE_CALL_STATE], of = arg(u, call[PICKLE_CALL_ARGS], 0);

	/* partial(f) is written as partial.__new__(partial, f), and then its state (f, args, kwargs, dict). */
	return is_harmless_called(u, of) &&
	       (state.kind == PICKLE_NONE || is_harmless_called(u, arg(u, state, 0)));
}

/* Is every global that it is given, or that made what it is given, of its library or one that weights_only allows? */
static bool is_family(struct use *u, struct pickle_value callee, struct pickle_value args)
{
	char own[NAME_BYTES], name[NAME_BYTES];

	global_name(u->heap, callee, own, sizeof(own));
	for (size_t i = 0; i < pickle_len(u->heap, args); i++) {
		struct pickle_value v = pickle_item(u->heap, args, i);

		if (v.kind == PICKLE_CALL)
			v = pickle_item(u->heap, v, PICKLE_CALL_CALLEE);
		else if (v.kind != PICKLE_GLOBAL)
			continue;
		if (v.kind != PICKLE_GLOBAL ||
		    (policy_at(u, v, name, sizeof(name)).trust != CKPT_PLAIN &&
		     strncmp(name, own, strcspn(own, ".") + 1) != 0))
			return false;
	}
	return true;
}

/* _codecs.encode('...', 'latin1'), as protocols below 3 write bytes. */
static bool is_encoded(struct use *u, struct pickle_value v, struct pickle_value *text)
{
	struct pickle_value args;
	char name[NAME_BYTES];

	if (v.kind != PICKLE_CALL ||
	    pickle_item(u->heap, v, PICKLE_CALL_CALLEE).kind != PICKLE_GLOBAL)
		return false;
	policy_at(u, pickle_item(u->heap, v, PICKLE_CALL_CALLEE), name, sizeof(name));
	args = pickle_item(u->heap, v, PICKLE_CALL_ARGS);
	*text = arg(u, args, 0);
	return !strcmp(name, "_codecs.encode") && text->kind == PICKLE_STR &&
	       !strcmp(global_text_of(u, arg(u, args, 1)), "latin1");
}

/* Text of which each character stands for a byte; NULL in *bytes: some do not. */
static enum plim_status bytes_of_text(const struct use *u, struct pickle_value v, uint8_t **bytes,
				      size_t *count, struct plim_err *err)
{
	const char *text = intern_text(&u->heap->strings, (uint32_t)v.bits);
	size_t n = u->heap->strings.at[v.bits].n, k = 1;

	*count = 0;
	*bytes = mem_new(u->log->ckpt->mem, n, 1, err);
	if (!*bytes)
		return mem_status(err);
	for (size_t i = 0; k && i < n; i += k) {
		uint32_t code;

		k = utf8_decode(text + i, n - i, &code);
		k = code > UINT8_MAX ? 0 : k;
		(*bytes)[(*count)++] = (uint8_t)code;
	}
	if (k)
		return PLIM_OK;
	mem_free(u->log->ckpt->mem, *bytes, n, 1);
	*bytes = NULL;
	return PLIM_OK;
}

/* bytes(), as protocols below 3 write no bytes at all. */
static bool is_no_bytes(const struct use *u, struct pickle_value v)
{
	struct pickle_value callee, args;
	char name[NAME_BYTES];

	if (v.kind != PICKLE_CALL)
		return false;
	callee = pickle_item(u->heap, v, PICKLE_CALL_CALLEE);
	args = pickle_item(u->heap, v, PICKLE_CALL_ARGS);
	global_name(u->heap, callee, name, sizeof(name));
	return callee.kind == PICKLE_GLOBAL && args.kind == PICKLE_TUPLE &&
	       !pickle_len(u->heap, args) &&
	       (!strcmp(name, "__builtin__.bytes") || !strcmp(name, "builtins.bytes"));
}

/* What a loader is given: b'...', or text that stands for bytes.  The same value is opened once. */
static enum plim_status judge_bytes(struct use *u, struct pickle_value v, enum ckpt_trust *trust,
				    struct plim_err *err)
{
	struct mem *m = u->log->ckpt->mem;
	bool none = is_no_bytes(u, v), encoded = is_encoded(u, v, &v);
	uint8_t *p = NULL;
	size_t n;
	enum plim_status st = PLIM_OK;

	*trust = none ? CKPT_CLASS : CKPT_UNKNOWN;
	if (v.kind != PICKLE_BYTES && !encoded)
		return PLIM_OK;
	if (!u->opened)
		u->opened = mem_new(m, u->heap->strings.n, 1, err);
	if (!u->opened)
		return mem_status(err);
	if (u->opened[v.bits]) {
		*trust = (enum ckpt_trust)u->opened[v.bits];
		return PLIM_OK;
	}
	n = u->heap->strings.at[v.bits].n;
	if (encoded)
		st = bytes_of_text(u, v, &p, &n, err);
	if (!st && (p || !encoded))
		st = inside_judge(
			u->log,
			p ? p : (const uint8_t *)intern_text(&u->heap->strings, (uint32_t)v.bits),
			n, trust, err);
	mem_free(m, p, u->heap->strings.at[v.bits].n, 1);
	u->opened[v.bits] = (uint8_t)*trust;
	return st;
}

/* _load_from_bytes(bytes); io.BytesIO(bytes), or made empty and given (bytes, position, attributes). */
static enum plim_status judge_stream(struct use *u, const struct pickle_value *call, size_t n,
				     enum ckpt_trust *trust, struct plim_err *err)
{
	struct pickle_value state = call[PICKLE_CALL_STATE];
	enum ckpt_trust given = CKPT_CLASS;
	enum plim_status st = PLIM_OK;

	*trust = CKPT_CLASS;
	if (n)
		st = judge_bytes(u, arg(u, call[PICKLE_CALL_ARGS], 0), trust, err);
	if (!st && state.kind != PICKLE_NONE)
		st = judge_bytes(u, arg(u, state, 0), &given, err);
	*trust = given > *trust ? given : *trust;
	return st;
}

static enum ckpt_trust judge_use(struct use *u, const struct pickle_node *node,
				 enum policy_rule rule)
{
	const struct pickle_value *call = node->items;
	struct pickle_value args = call[PICKLE_CALL_ARGS], first = arg(u, args, 0);
	size_t n = args.kind == PICKLE_TUPLE ? pickle_len(u->heap, args) : 0;
	bool ok = true;

	switch (rule) {
	case POLICY_DATA: break;
	case POLICY_VALUE: ok = false; break;
	case POLICY_FAMILY: ok = is_family(u, call[PICKLE_CALL_CALLEE], args); break;
	case POLICY_NEW: ok = node->is_new; break;
	case POLICY_NEW_OR_ENUM:
		ok = node->is_new ||
		     (n == 1 && (first.kind == PICKLE_STR || first.kind == PICKLE_INT));
		break;
	case POLICY_RECONSTRUCT:
		ok = global_is_known(u, first) && is_builtin(u, arg(u, args, 1));
		break;
	case POLICY_MEMBER: return judge_getattr(u, args);
	case POLICY_PARTIAL: ok = is_known_partial(u, call); break;
	case POLICY_BYTES: break; /* see judge_call */
	}
	return ok ? CKPT_CLASS : CKPT_UNKNOWN;
}

/* Before 1.6 a module's class came with its source, as a persistent id: ('module', class, file, source). */
static struct pickle_value class_of(const struct use *u, struct pickle_value callee)
{
	struct pickle_value id;

	if (callee.kind != PICKLE_PERSID)
		return callee;
	id = pickle_item(u->heap, callee, 0);
	return !strcmp(global_text_of(u, arg(u, id, 0)), "module") ? arg(u, id, 1) : callee;
}

/* What a call gave is called: of what is known, nothing gives what may be called. */
static enum plim_status judge_result(struct use *u, struct pickle_value call, struct plim_err *err)
{
	struct pickle_value callee = pickle_item(u->heap, call, PICKLE_CALL_CALLEE);
	char name[NAME_BYTES], text[NAME_BYTES + 32];
	struct policy p = { CKPT_UNKNOWN, POLICY_DATA, 0 };

	if (callee.kind != PICKLE_GLOBAL)
		return PLIM_OK; /* reported of the innermost */
	p = policy_at(u, callee, name, sizeof(name));
	if (p.rule == POLICY_MEMBER) {
		worsen(u, callee, CKPT_DANGEROUS);
		return PLIM_OK;
	}
	snprintf(text, sizeof(text), "what %s returns, called", name);
	if (find_global(u->log->ckpt, text))
		return PLIM_OK;
	return keep_global(u->log, text, (struct policy){ CKPT_UNKNOWN, POLICY_DATA, 0 }, 0, err);
}

/* APPEND and SETITEM on what is not a list or dict; and what is done to an object whose attributes are set already. */
static enum plim_status judge_fill(struct use *u, const struct pickle_node *node,
				   struct pickle_value callee, struct policy p,
				   struct plim_err *err)
{
	if (p.trust > CKPT_CLASS)
		return PLIM_OK;
	if (node->changed)
		return doubt(u, callee,
			     "makes an object that is changed after its state was set: attributes "
			     "that were set are called",
			     err);
	if (node->items[PICKLE_CALL_APPENDED].kind != PICKLE_NONE && p.fills != POLICY_SEQUENCE)
		return doubt(u, callee, "makes no list, and is appended to", err);
	if (node->items[PICKLE_CALL_SET].kind != PICKLE_NONE && p.fills != POLICY_MAPPING)
		return doubt(u, callee, "makes no dict, and items are set in it", err);
	return PLIM_OK;
}

/* _rebuild_from_type_v2(function, class, arguments, state) calls the function, which torch's own pickles rebuild with. */
static enum plim_status judge_rebuild(struct use *u, struct pickle_value callee,
				      struct pickle_value func, struct plim_err *err)
{
	char name[NAME_BYTES];

	if (func.kind != PICKLE_GLOBAL)
		return doubt(u, callee, "is given a function that was made", err);
	policy_at(u, func, name, sizeof(name));
	if (!strncmp(name, "torch._utils._rebuild_", 22) ||
	    !strcmp(name, "torch.nested._internal.nested_tensor._rebuild_njt"))
		return PLIM_OK;
	return doubt(u, func, "is called by _rebuild_from_type_v2", err);
}

static enum plim_status judge_call(struct use *u, const struct pickle_node *node,
				   struct plim_err *err)
{
	struct pickle_value callee = class_of(u, node->items[PICKLE_CALL_CALLEE]),
			    args = node->items[PICKLE_CALL_ARGS];
	enum ckpt_trust trust;
	char name[NAME_BYTES];
	struct policy p;
	enum plim_status st = PLIM_OK;

	if (callee.kind == PICKLE_CALL)
		return judge_result(u, callee, err);
	if (callee.kind != PICKLE_GLOBAL)
		return PLIM_OK; /* cannot be called */
	p = policy_at(u, callee, name, sizeof(name));
	if (args.kind != PICKLE_TUPLE && args.kind != PICKLE_NONE && p.trust <= CKPT_CLASS)
		return doubt(u, callee, "is given arguments that were made", err);
	if (p.rule == POLICY_BYTES || p.trust == CKPT_DANGEROUS) { /* pickle.loads(b'...') */
		st = judge_stream(u, node->items, pickle_len(u->heap, args), &trust, err);
		worsen(u, callee, trust);
	} else if (p.trust == CKPT_CLASS) {
		worsen(u, callee, judge_use(u, node, p.rule));
	}
	if (!st && !strcmp(name, "torch._tensor._rebuild_from_type_v2"))
		st = judge_rebuild(u, callee, arg(u, args, 0), err);
	return st ? st : judge_fill(u, node, callee, p, err);
}

/* Can it be called, for all that is known here?  *who: the name to blame. */
static bool is_callable(struct use *u, struct pickle_value v, struct pickle_value *who)
{
	bool made = v.kind == PICKLE_CALL;
	struct policy p;

	*who = made ? pickle_item(u->heap, v, PICKLE_CALL_CALLEE) : v;
	if (who->kind != PICKLE_GLOBAL)
		return false;
	p = policy_known(u, *who);
	return p.trust == CKPT_CLASS && !(made && p.rule == POLICY_FAMILY);
}

/* scalar(dtype('i8'), b'...'): a number of NumPy, whose state cannot make another type of it. */
static bool is_made_number(struct use *u, struct pickle_value v, const char *maker)
{
	struct pickle_value dtype = arg(u, pickle_item(u->heap, v, PICKLE_CALL_ARGS), 0);
	char name[NAME_BYTES];
	const char *code;

	if (!ckpt_text_ends(maker, ".multiarray.scalar") || dtype.kind != PICKLE_CALL ||
	    pickle_item(u->heap, dtype, PICKLE_CALL_CALLEE).kind != PICKLE_GLOBAL)
		return false;
	global_name(u->heap, pickle_item(u->heap, dtype, PICKLE_CALL_CALLEE), name, sizeof(name));
	code = global_text_of(u, arg(u, pickle_item(u->heap, dtype, PICKLE_CALL_ARGS), 0));
	return !strcmp(name, "numpy.dtype") && *code && strchr("biufc", *code) && code[1] &&
	       !code[1 + strspn(code + 1, "0123456789")];
}

/* May what was made be a text that no one reads here?  str(), numpy.str_, a text that copyreg makes anew. */
static bool is_made_text(struct use *u, struct pickle_value v)
{
	static const char *const makers[] = { "builtins.", "__builtin__.", "numpy.",
					      "copyreg.",  "copy_reg.",    "torch.torch_version." };
	struct pickle_value maker;
	char name[NAME_BYTES];

	if (v.kind != PICKLE_CALL)
		return false;
	maker = pickle_item(u->heap, v, PICKLE_CALL_CALLEE);
	if (maker.kind != PICKLE_GLOBAL)
		return true;
	global_name(u->heap, maker, name, sizeof(name));
	if (is_made_number(u, v, name))
		return false;
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		if (!strncmp(name, makers[i], strlen(makers[i])))
			return true;
	return false;
}

static bool is_special(const char *s)
{
	size_t n = strlen(s);

	return n > 4 && !strncmp(s, "__", 2) && !strcmp(s + n - 2, "__");
}

/*
 * A method of Python's own (__setstate__) that is something callable: whoever makes an object of the dict or the pairs lets
 * the next opcode call it.  A key that is made may be such a name, too.
 */
static enum plim_status judge_pair(struct use *u, struct pickle_value key, struct pickle_value v,
				   bool in_dict, struct plim_err *err)
{
	struct pickle_value who;

	if (!(key.kind == PICKLE_STR && is_special(global_text_of(u, key))) &&
	    !(in_dict && is_made_text(u, key)))
		return PLIM_OK;
	return is_callable(u, v, &who) ? doubt(u, who, "is set as a method of Python's own", err)
				       : PLIM_OK;
}

static enum plim_status judge_dict(struct use *u, struct pickle_value dict, struct plim_err *err)
{
	const struct pickle_node *node = &u->heap->nodes.at[dict.bits];
	enum plim_status st = PLIM_OK;

	for (uint32_t k = 0; !st && node->items && k + 1 < node->n; k += 2)
		st = judge_pair(u, node->items[k], node->items[k + 1], true, err);
	return st;
}

/* What calls others is not a value to hand about. */
static void judge_value(struct use *u, struct pickle_value v)
{
	char name[NAME_BYTES];
	struct policy p;

	if (v.kind != PICKLE_GLOBAL)
		return;
	p = policy_at(u, v, name, sizeof(name));
	if (p.trust == CKPT_CLASS && p.rule >= POLICY_RECONSTRUCT)
		worsen(u, v, p.rule == POLICY_MEMBER ? CKPT_DANGEROUS : CKPT_UNKNOWN);
}

/* What a list, dict or call holds: values that may only be called or named as the policy says. */
static enum plim_status judge_items(struct use *u, const struct pickle_node *node,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (uint32_t k = node->is_call; !st && node->items && k < node->n; k++) {
		struct pickle_value v = node->items[k];

		judge_value(u, v);
		if (v.kind == PICKLE_STR && k + 1 < node->n)
			st = judge_pair(u, v, node->items[k + 1], false, err);
		if (v.kind != PICKLE_DICT || u->heap->nodes.at[v.bits].judged)
			continue;
		u->heap->nodes.at[v.bits].judged = 1;
		st = st ? st : judge_dict(u, v, err);
	}
	return st;
}

enum plim_status globals_settle(struct globals_log *log, struct plim_err *err)
{
	struct use u = { .log = log, .heap = log->heap };
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < u.heap->nodes.n; i++) {
		const struct pickle_node *node = &u.heap->nodes.at[i];

		st = judge_items(&u, node, err);
		if (!st && node->is_call)
			st = judge_call(&u, node, err);
	}
	mem_free(log->ckpt->mem, u.opened, u.heap->strings.n, 1);
	return st;
}

/* ---- one after the other ---- */

enum plim_status globals_stacked(struct globals_log *log, const uint8_t *bytes, size_t n,
				 size_t *used, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t at = 0, one;

	while (!st && at < n && opcodes_is_pickle(bytes + at, n - at)) {
		struct unpickle u = { .ckpt = log->ckpt,
				      .script = log->script,
				      .record = log->record,
				      .arrays = true };
		struct pickle_value root;

		pickle_heap_init(&u.heap, log->ckpt->mem);
		st = unpickle_decode(&u, NULL, bytes + at, n - at, &root, &one, err);
		pickle_heap_release(&u.heap);
		at += one;
	}
	if (used)
		*used = at;
	return st;
}

enum plim_status globals_read(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
			      size_t *used, struct plim_err *err)
{
	struct globals_log log = { .ckpt = c };
	struct plim_err why = { 0 };
	enum plim_status st = PLIM_OK;

	log.record = ckpt_model_string(c, name, strlen(name), &st, err);
	if (st)
		return st;
	st = globals_stacked(&log, bytes, n, used, &why);
	if (st == PLIM_E_FORMAT)
		return ckpt_model_find(c, CKPT_BAD_FINDING, "pickle", PLIM_UNKNOWN, err,
				       "'%.200s': %s", name, why.message);
	if (st && err)
		*err = why;
	return st;
}

/* May a pickle begin here?  Protocols 0 and 1 have no mark: then a name, or a mark and a name, which all that runs code has. */
static bool may_begin(const uint8_t *p, size_t n)
{
	if (n > 2 && *p == 0x80)
		return p[1] <= 5;
	return n > 4 && strchr("c(", *p) && *p && opcodes_is_pickle(p, n < 4096 ? n : 4096);
}

enum plim_status globals_seek(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
			      size_t *used, struct plim_err *err)
{
	struct globals_log log = { .ckpt = c };
	size_t most = n < SEEK_BYTES ? n : SEEK_BYTES, tries = 0, first = 0, step;
	bool many;
	enum plim_status st = globals_read(c, name, bytes, n, &first, err);

	if (!st)
		log.record = ckpt_model_string(c, name, strlen(name), &st, err);
	for (size_t at = first; !st && at < most && tries < TRIES; at += step ? step : 1) {
		step = 0;
		if (!may_begin(bytes + at, n - at))
			continue;
		tries++;
		many = c->many_globals;
		st = globals_stacked(&log, bytes + at, n - at, &step, err);
		if (st == PLIM_E_FORMAT) { /* most of what may begin a pickle is none */
			c->many_globals = many;
			st = PLIM_OK;
		}
	}
	c->many_globals |= tries == TRIES || (first < n && most < n);
	if (used)
		*used = first;
	return st;
}

/*
 * Does a header say numbers, in the very words that NumPy writes?  NumPy evaluates it as Python, in which objects have
 * more than one spelling ('O', 'object', an escape, a second 'descr'); whatever is spelled otherwise may be objects.
 */
static bool is_of_numbers(const uint8_t *p, size_t n)
{
	static const char begin[] = "{'descr': '", order[] = "', 'fortran_order': ";
	const uint8_t *end = p + n;

	if (n < sizeof(begin) || memcmp(p, begin, sizeof(begin) - 1) != 0)
		return false;
	p += sizeof(begin) - 1;
	p += *p && strchr("<>|=", *p);
	if (p == end || !*p || !strchr("?bBiufcSUVmM", *p++))
		return false;
	while (p < end && *p && strchr("0123456789[]nspfauDhms", *p)) /* 8, 8[ns] */
		p++;
	return (size_t)(end - p) >= sizeof(order) && !memcmp(p, order, sizeof(order) - 1) &&
	       !memchr(p, '\\', (size_t)(end - p)) && !memmem(p, (size_t)(end - p), "descr", 5);
}

/* Where a NumPy array's data begins (numpy/lib/format.py); 0: it is none, or of numbers. */
static size_t numpy_objects(const uint8_t *p, size_t n)
{
	size_t header, at;

	if (n < 12 || memcmp(p, "\223NUMPY", 6) != 0)
		return 0;
	at = p[6] == 1 ? 10 : 12;
	header = (size_t)p[8] | (size_t)p[9] << 8;
	if (p[6] > 1)
		header |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	return header <= n - at && !is_of_numbers(p + at, header) ? at + header : 0;
}

bool globals_is_objects(const uint8_t *p, size_t n)
{
	return numpy_objects(p, n) != 0;
}

enum plim_status globals_inside(struct ckpt *c, const char *name, const uint8_t *bytes, size_t n,
				struct plim_err *err)
{
	size_t skip = numpy_objects(bytes, n);

	return globals_read(c, name, bytes + skip, n - skip, NULL, err);
}

/* ---- findings ---- */

enum plim_status globals_judge(struct ckpt *c, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->globals.n; i++) {
		const struct ckpt_global *g = &c->globals.at[i];

		if (g->trust == CKPT_DANGEROUS)
			st = ckpt_model_find(
				c, CKPT_BAD_FINDING, "dangerous_pickle", g->offset, err,
				"%.200s names '%.200s' at byte %llu: loading it without "
				"weights_only runs code",
				ckpt_text(c, g->record), ckpt_text(c, g->name),
				(unsigned long long)g->offset);
		else if (!strcmp(ckpt_text(c, g->name), "torch.torch_version.TorchVersion"))
			st = ckpt_model_find(
				c, CKPT_NOTE, "torch_version", g->offset, err,
				"torch.__version__ was saved in it, which is a TorchVersion: "
				"torch.load(weights_only=True) refuses the file; "
				"str(torch.__version__) it would load");
	}
	return st;
}
