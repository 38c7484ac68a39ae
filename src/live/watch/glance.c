/* A look at the stack of a process that runs, as a text of the frames that tell something. */
#include "stacks/stacks.h"
#include "watch/stack.h"

#include <stdio.h>

#define INNERMOST 10u /* frames that are kept whatever they are */

/* What every call of a module has, and what wraps functions: one of each is enough. */
static bool is_noise(const struct watch_frame *f, const char *text, size_t n)
{
	static const char *const wrappers[] = { "torch/nn/modules/module.py",
						"torch/utils/_contextlib.py" };

	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++)
		if (memmem(f->file, f->file_n, wrappers[i], strlen(wrappers[i])))
			return memmem(text, n, wrappers[i], strlen(wrappers[i]));
	return false;
}

/* Behind its folder, where that is the working one, Python's own or that of installed packages: "train.py", "site-packages/torch/...". */
static const char *short_name(const char *file, const char *folder)
{
	static const char *const packages[] = { "/site-packages/", "/dist-packages/" };
	size_t n = strlen(folder);
	const char *at;

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		at = strstr(file, packages[i]);
		if (at)
			return at + strlen(packages[i]);
	}
	at = strstr(file, "/lib/python3.");
	if (at)
		return at + strlen("/lib/");
	return n > 1 && !strncmp(file, folder, n) && file[n] == '/' ? file + n + 1 : file;
}

static bool is_package(const char *file)
{
	return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/");
}

static size_t put_frame(char *out, size_t room, const struct stacks_frame *f, const char *folder,
			const char *code)
{
	int n = snprintf(out, room, "%s%s:%u %s%s%s\n", is_package(f->file) ? "site-packages/" : "",
			 short_name(f->file, folder), f->line, f->function, *code ? "\t" : "",
			 code);

	return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* What the innermost frame executes, and the innermost of the user's own, is read from their files. */
static size_t put_stack(struct stacks *s, uint32_t pid, const struct stacks_look *look, char *out,
			size_t room)
{
	const char *folder = stacks_folder(s, pid);
	bool own = false;
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < look->n && kept < WATCH_STACK_FRAMES; i++) {
		const char *at = out + n;
		struct watch_frame f;
		char code[80] = "";
		size_t m = put_frame(out + n, room - n, &look->at[i], folder, code);

		if (!m || !watch_frame_next(&at, out + n + m, &f))
			break;
		if (is_noise(&f, out, n))
			continue;
		if (kept >= INNERMOST && !watch_frame_is_own(&f) &&
		    (!watch_frame_tells(&f) || memmem(out, n, f.file, f.file_n)))
			continue;
		if ((!kept || (!own && watch_frame_is_own(&f))) &&
		    stacks_code(s, pid, &look->at[i], code, sizeof(code)))
			m = put_frame(out + n, room - n, &look->at[i], folder, code);
		own |= watch_frame_is_own(&f);
		n += m;
		kept++;
	}
	return n;
}

int watch_glance(struct stacks *s, struct mem *m, uint32_t pid, uint64_t start_time,
		 uint32_t parent, struct watch_stacks *to, enum watch_does *does,
		 struct plim_err *err)
{
	struct stacks_look look;
	char text[WATCH_STACK_TEXT];
	enum stacks_status status = stacks_look(s, pid, start_time, parent, &look);
	size_t n;

	*does = WATCH_DOES_COUNT;
	if (status != STACKS_SEEN)
		return (int)status;
	n = put_stack(s, pid, &look, text, sizeof(text));
	if (n)
		*does = watch_does_judge(text, n);
	/* Without memory there is one look less. */
	if (n && watch_stacks_add(m, to, parent != 0, 1, WATCH_DOES_COUNT, text, n, err))
		return STACKS_NOT_NOW;
	return STACKS_SEEN;
}
