/* Who holds the memory at a moment: live allocations put together by line, stack or size. */
#include "timeline.h"

#include <stdlib.h>
#include <string.h>

/* Where PyTorch, installed packages and Python itself live; and what has no file. */
static const char *const foreign[] = {
	"/site-packages/",
	"/dist-packages/",
	"/lib/python3",
	"/Python/Python3", /* as Windows has it */
	"<frozen",
	"<string>",
	"<__array",
	"/importlib/",
	"/runpy.py",
	/* PyTorch in a folder of its sources; people call theirs "torch" too */
	"/torch/_",
	"/torch/amp/",
	"/torch/ao/",
	"/torch/autograd/",
	"/torch/cuda/",
	"/torch/distributed/",
	"/torch/functional.py",
	"/torch/fx/",
	"/torch/jit/",
	"/torch/nn/",
	"/torch/optim/",
	"/torch/utils/",
};

/*
 * What torch.compile wrote: "/tmp/torchinductor_me/w5/cw5on4av...py", a hash in base 32 behind a 'c', in
 * a folder named after its second and third letter (torch/_inductor/codecache.py).
 */
static int is_generated(const char *file)
{
	static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567";
	const char *name = strrchr(file, '/');
	size_t n = name ? strspn(name + 1, base32) : 0;

	return n >= 40 && !strcmp(name + 1 + n, ".py") && name[1] == 'c' && name - file >= 3 &&
	       name[-3] == '/' && !memcmp(name - 2, name + 2, 2);
}

const char *timeline_foreign_mark(const char *file, size_t *n)
{
	const char *at = is_generated(file) ? strrchr(file, '/') - 3 : NULL;

	*n = at ? strlen(at) : 0;
	for (size_t i = 0; !at && i < sizeof(foreign) / sizeof(foreign[0]); i++) {
		at = strstr(file, foreign[i]);
		*n = strlen(foreign[i]);
	}
	return at;
}

static int is_users(const char *file)
{
	size_t n;

	return *file && !timeline_foreign_mark(file, &n);
}

/* What is installed is someone's code, too, unless it is PyTorch. */
static int is_code(const char *file)
{
	static const char *const homes[] = { "/site-packages/", "/dist-packages/" };

	for (size_t i = 0; i < sizeof(homes) / sizeof(homes[0]); i++) {
		const char *at = strstr(file, homes[i]);

		if (at)
			return strncmp(at + strlen(homes[i]), "torch/", 6) != 0;
	}
	return is_users(file);
}

uint32_t timeline_code_frame(const struct snapshot *t, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++)
		if (is_code(snapshot_text(t, snapshot_frame(t, frames[i])->filename)))
			return frames[i];
	return TRACE_NONE;
}

uint32_t timeline_user_frame(const struct snapshot *t, uint32_t stack)
{
	uint32_t n;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++)
		if (is_users(snapshot_text(t, snapshot_frame(t, frames[i])->filename)))
			return frames[i];
	return n ? frames[0] : TRACE_NONE;
}

/* Modules' calls; and what checkpointing runs again, on a thread of autograd's. */
static int is_call(const struct snapshot *t, uint32_t frame)
{
	return strstr(snapshot_text(t, snapshot_frame(t, frame)->filename), "/torch/nn/modules/") !=
	       NULL;
}

static int is_again(const struct snapshot *t, uint32_t frame)
{
	const char *name = snapshot_text(t, snapshot_frame(t, frame)->name);

	return strstr(snapshot_text(t, snapshot_frame(t, frame)->filename),
		      "/torch/utils/checkpoint.py") &&
	       (!strcmp(name, "unpack_hook") || !strcmp(name, "recompute_fn") ||
		!strcmp(name, "backward"));
}

uint32_t timeline_loop_frame(const struct snapshot *t, uint32_t stack)
{
	uint32_t n, outside = 0;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);

	for (uint32_t i = 0; i < n; i++) {
		if (is_again(t, frames[i]))
			return TRACE_NONE;
		if (is_call(t, frames[i]))
			outside = i + 1;
	}
	for (uint32_t i = outside; i < n; i++)
		if (is_users(snapshot_text(t, snapshot_frame(t, frames[i])->filename)))
			return frames[i];
	return outside < n ? frames[outside] : TRACE_NONE;
}

/* Decorators and the like, between a module's call and its code. */
static int is_wrapper(const struct snapshot *t, uint32_t frame)
{
	static const char *const files[] = { "/_ops.py", "/generic.py", "/output_capturing.py",
					     "/deprecation.py" };
	static const char *const names[] = { "wrapper", "wrapped",          "wrapped_func", "inner",
					     "_fn",     "decorate_context", "__call__" };
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename), *name = snapshot_text(t, f->name);
	size_t n = strlen(file);

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (n > strlen(files[i]) && !strcmp(file + n - strlen(files[i]), files[i]))
			return 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return 1;
	return !is_code(file);
}

/* Every call of a module goes through these: "_call_impl", "_wrapped_call_impl" of torch/nn/modules/module.py. */
static int calls_module(const struct snapshot *t, uint32_t frame)
{
	const char *name = snapshot_text(t, snapshot_frame(t, frame)->name);
	const char *file = snapshot_text(t, snapshot_frame(t, frame)->filename);

	return strstr(name, "_call_impl") && strstr(file, "torch/nn/modules/module.py");
}

uint32_t timeline_module_path(const struct snapshot *t, uint32_t stack,
			      uint32_t out[TIMELINE_MODULES_MAX])
{
	uint32_t n, own = timeline_user_frame(t, stack), found = 0, kept = 0;
	const uint32_t *frames = snapshot_python_stack(t, stack, &n);
	int called = 0;

	for (uint32_t i = 0; i < n && found < TIMELINE_MODULES_MAX; i++) {
		if (calls_module(t, frames[i])) {
			called = 1;
		} else if (called && !is_wrapper(t, frames[i])) {
			out[found++] = frames[i];
			called = 0;
		}
	}
	/* the program's own call is the same for all of a model */
	for (uint32_t i = 0; i < found; i++)
		if (out[i] != own)
			out[kept++] = out[i];
	found = kept ? kept : found;
	for (uint32_t i = 0; i < found / 2; i++) { /* outermost first */
		uint32_t other = out[i];

		out[i] = out[found - 1 - i];
		out[found - 1 - i] = other;
	}
	return found;
}

/* Keys to owners: open addressing over owner numbers. */
struct groups {
	struct mem *mem;
	VEC(struct timeline_owner) owners;
	VEC(uint64_t) keys;    /* of each owner */
	VEC(uint64_t) largest; /* of each owner: its largest allocation, whose stack it shows */
	uint32_t *slots;
	size_t mask;
	struct intern paths; /* of modules, by their frames */
};

#define KEY_GUESSED ((uint64_t)1 << 32) /* an owner of its own, next to the one it answers */

/* The number of what a stack is put together by, except for its size. */
static enum plim_status owner_place_of(struct groups *g, const struct snapshot *t, uint32_t stack,
				       enum timeline_group group, uint32_t *out,
				       struct plim_err *err)
{
	uint32_t path[TIMELINE_MODULES_MAX], lines[2 * TIMELINE_MODULES_MAX], n;

	*out = stack;
	if (group == TIMELINE_BY_STACK)
		return PLIM_OK;
	if (group == TIMELINE_BY_FILE) {
		*out = snapshot_frame(t, *snapshot_stack(t, stack, &n))->filename;
		return PLIM_OK;
	}
	if (group == TIMELINE_BY_MODULE) {
		n = timeline_module_path(t, stack, path);
		for (uint32_t i = 0; i < n; i++) {
			lines[2 * i] = snapshot_frame(t, path[i])->filename;
			lines[2 * i + 1] = snapshot_frame(t, path[i])->line;
		}
		return intern_add(&g->paths, lines, 2 * n * sizeof(*lines), out, err);
	}
	*out = timeline_user_frame(t, stack);
	if (group == TIMELINE_BY_CODE) { /* both are said: a library's line serves many callers */
		lines[0] = timeline_code_frame(t, stack);
		lines[1] = *out;
		return intern_add(&g->paths, lines, 2 * sizeof(*lines), out, err);
	}
	return PLIM_OK;
}

static enum plim_status room(struct groups *g, struct plim_err *err)
{
	size_t count = g->slots ? 2 * (g->mask + 1) : 256, old = g->slots ? g->mask + 1 : 0;
	uint32_t *slots;

	if (g->slots && 2 * (g->owners.n + 1) <= g->mask)
		return PLIM_OK;
	slots = mem_new(g->mem, count, sizeof(*slots), err);
	if (!slots)
		return mem_status(err);
	mem_free(g->mem, g->slots, old, sizeof(*slots));
	g->slots = slots;
	g->mask = count - 1;
	for (size_t i = 0; i < g->owners.n; i++) {
		size_t s = (size_t)(g->keys.at[i] * 0x9e3779b97f4a7c15u >> 32) & g->mask;

		while (slots[s])
			s = (s + 1) & g->mask;
		slots[s] = (uint32_t)i + 1;
	}
	return PLIM_OK;
}

static enum plim_status owner_of(struct groups *g, uint64_t key, size_t *owner,
				 struct plim_err *err)
{
	enum plim_status st = room(g, err);
	size_t s;

	*owner = 0;
	if (st)
		return st;
	s = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & g->mask;
	for (; g->slots[s]; s = (s + 1) & g->mask) {
		*owner = g->slots[s] - 1;
		if (g->keys.at[*owner] == key)
			return PLIM_OK;
	}
	*owner = g->owners.n;
	g->slots[s] = (uint32_t)g->owners.n + 1;
	st = vec_push(g->mem, &g->keys, key, err);
	if (!st)
		st = vec_push(g->mem, &g->largest, 0, err);
	return st ? st
		  : vec_push(g->mem, &g->owners,
			     ((struct timeline_owner){ .stack = TRACE_NONE,
						       .frame = TRACE_NONE,
						       .code = TRACE_NONE }),
			     err);
}

static int larger_first(const void *a, const void *b)
{
	const struct timeline_owner *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	if (x->stack != y->stack) /* so that the order never depends on the sort */
		return x->stack < y->stack ? -1 : 1;
	return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static enum plim_status collect_owner(struct groups *g, const struct timeline *tl, uint32_t event,
				      enum timeline_measure measure, enum timeline_group group,
				      const uint32_t *inferred, uint32_t *line,
				      struct plim_err *err)
{
	const struct snapshot *t = tl->snapshot;
	enum plim_status st = PLIM_OK;
	size_t owner;

	for (uint32_t a = 0; !st && a < tl->device->alloc_count; a++) {
		const struct snapshot_alloc *one = &tl->device->allocs[a];
		uint32_t stack = one->stack;
		uint64_t bytes, key;
		int guessed, before;

		if (!timeline_lives(one, measure, event))
			continue;
		if (snapshot_stackless(t, stack))
			stack = TRACE_NONE;
		guessed = stack == TRACE_NONE && inferred && inferred[a] != TRACE_NONE;
		if (guessed)
			stack = inferred[a];
		if (stack != TRACE_NONE && line[stack] == TRACE_NONE)
			st = owner_place_of(g, t, stack, group, &line[stack], err);
		if (st)
			break;
		before = stack == TRACE_NONE && one->flags & TRACE_BEFORE;
		bytes = timeline_bytes(tl, a, measure);
		key = group == TIMELINE_BY_SIZE ? one->requested_bytes
		      : stack == TRACE_NONE     ? UINT64_MAX - (uint64_t)before
						: line[stack];
		if (guessed && group != TIMELINE_BY_SIZE)
			key |= KEY_GUESSED;
		st = owner_of(g, key, &owner, err);
		if (st)
			break;
		g->owners.at[owner].bytes += bytes;
		g->owners.at[owner].count++;
		g->owners.at[owner].size_bytes =
			group == TIMELINE_BY_SIZE ? one->requested_bytes : 0;
		if (bytes > g->largest.at[owner]) {
			g->largest.at[owner] = bytes;
			g->owners.at[owner].stack = stack;
			g->owners.at[owner].inferred = guessed;
			g->owners.at[owner].before = before;
			g->owners.at[owner].frame = TRACE_NONE;
			if (stack != TRACE_NONE) {
				g->owners.at[owner].frame = timeline_user_frame(t, stack);
				g->owners.at[owner].code = timeline_code_frame(t, stack);
			}
		}
	}
	return st;
}

enum plim_status timeline_owners_at(struct mem *m, const struct timeline *tl, uint32_t event,
				    enum timeline_measure measure, enum timeline_group group,
				    const uint32_t *inferred, struct timeline_owners *out,
				    struct plim_err *err)
{
	struct groups g = { .mem = m };
	size_t stacks = tl->snapshot->stacks.n;
	uint32_t *line = mem_new(m, stacks, sizeof(*line), err);
	enum plim_status st = line ? PLIM_OK : mem_status(err);

	*out = (struct timeline_owners){ .mem = m };
	intern_init(&g.paths, m);
	if (line)
		memset(line, 0xff, stacks * sizeof(*line));
	if (!st)
		st = collect_owner(&g, tl, event, measure, group, inferred, line, err);
	mem_free(m, line, stacks, sizeof(*line));
	mem_free(m, g.slots, g.slots ? g.mask + 1 : 0, sizeof(*g.slots));
	vec_release(m, &g.keys);
	vec_release(m, &g.largest);
	intern_release(&g.paths);
	if (st) {
		vec_release(m, &g.owners);
		return st;
	}
	sort_items(g.owners.at, g.owners.n, sizeof(*g.owners.at), larger_first);
	out->at = g.owners.at;
	out->n = g.owners.n;
	out->room = g.owners.cap;
	return PLIM_OK;
}

void timeline_owners_release(struct timeline_owners *o)
{
	if (o->mem)
		mem_free(o->mem, o->at, o->room, sizeof(*o->at));
	o->at = NULL;
	o->n = 0;
}
