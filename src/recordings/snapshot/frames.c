/*
 * C++ frames (stacks="all", PyTorch's default): of interest to who reads a stack, of none to who asks which line of the
 * program allocated.  They are known by their file's ending, or by having none.
 */
#include "snapshot.h"

#include <string.h>

static int ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !memcmp(text + n - m, end, m);
}

/* A script may have no ending at all (/usr/bin/torchrun), and a folder may be called "my.host". */
static int is_native(const struct snapshot *t, uint32_t frame)
{
	static const char *const ends[] = { ".c",  ".cc", ".cpp", ".cxx", ".cu",  ".cuh",
					    ".h",  ".hh", ".hpp", ".hxx", ".inl", ".o",
					    ".so", ".S",  ".s",   ".asm", ".rs" };
	const struct snapshot_frame *f = snapshot_frame(t, frame);
	const char *file = snapshot_text(t, f->filename);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (ends_with(file, ends[i]))
			return 1;
	return !strcmp(file, "??") || strstr(file, ".so.") ||
	       strstr(snapshot_text(t, f->name), "::") ||
	       (!*file && (!f->line || f->line == TRACE_NONE));
}

static size_t count_python(const struct snapshot *t, const uint8_t *native)
{
	size_t kept = 0;

	for (uint32_t s = 0; s < t->stacks.n; s++) {
		uint32_t n;
		const uint32_t *from = snapshot_stack(t, s, &n);

		for (uint32_t i = 0; i < n; i++)
			kept += !native[from[i]];
	}
	return kept;
}

static enum plim_status keep_python(struct snapshot *t, const uint8_t *native, struct plim_err *err)
{
	struct snapshot_python *p = &t->python;
	size_t stacks = t->stacks.n;
	uint32_t at = 0;

	p->kept = count_python(t, native);
	p->first = mem_new(t->mem, stacks + 1, sizeof(*p->first), err);
	p->frames = p->first ? mem_new(t->mem, p->kept, sizeof(*p->frames), err) : NULL;
	if (!p->frames)
		return mem_status(err);
	p->stacks = stacks;
	for (uint32_t s = 0; s < stacks; s++) {
		uint32_t n;
		const uint32_t *from = snapshot_stack(t, s, &n);

		p->first[s] = at;
		for (uint32_t i = 0; i < n; i++)
			if (!native[from[i]])
				p->frames[at++] = from[i];
	}
	p->first[stacks] = at;
	return PLIM_OK;
}

enum plim_status snapshot_find_python(struct snapshot *t, struct plim_err *err)
{
	uint8_t *native = mem_new(t->mem, t->frames.n, 1, err);
	enum plim_status st = native ? PLIM_OK : mem_status(err);
	int any = 0;

	for (uint32_t f = 0; !st && f < t->frames.n; f++)
		any |= native[f] = (uint8_t)is_native(t, f);
	if (any && (!t->profile.kind || t->profile.python)) /* else operations are all there is */
		st = keep_python(t, native, err);
	mem_free(t->mem, native, t->frames.n, 1);
	return st;
}

void snapshot_forget_python(struct snapshot *t)
{
	struct snapshot_python *p = &t->python;

	if (p->first)
		mem_free(t->mem, p->first, t->stacks.n + 1, sizeof(*p->first));
	if (p->frames)
		mem_free(t->mem, p->frames, p->kept, sizeof(*p->frames));
	*p = (struct snapshot_python){ 0 };
}
