/* CPython in a process: its runtime, its version, and where its members stand. */
#include "parts.h"

#define COOKIE "xdebugpy"
#define MOST_OFFSET (1u << 20) /* of a member: a table with more is another one */

/* From 3.13 on the numbers of the layout are places in the runtime's own table. */
static bool take_told(struct pages *p, uint64_t runtime, struct layout *l)
{
	static const size_t members[] = { offsetof(struct layout, interpreters_head),
					  offsetof(struct layout, interpreter_next),
					  offsetof(struct layout, threads_head),
					  offsetof(struct layout, thread_next),
					  offsetof(struct layout, thread_native_id),
					  offsetof(struct layout, thread_frame),
					  offsetof(struct layout, frame_previous),
					  offsetof(struct layout, frame_code),
					  offsetof(struct layout, frame_instruction),
					  offsetof(struct layout, frame_owner),
					  offsetof(struct layout, code_file),
					  offsetof(struct layout, code_name),
					  offsetof(struct layout, code_lines),
					  offsetof(struct layout, code_first_line),
					  offsetof(struct layout, code_bytes),
					  offsetof(struct layout, object_type),
					  offsetof(struct layout, type_name),
					  offsetof(struct layout, bytes_size),
					  offsetof(struct layout, bytes_data),
					  offsetof(struct layout, text_state),
					  offsetof(struct layout, text_length),
					  offsetof(struct layout, text_data) };

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		uint32_t *member = (uint32_t *)(void *)((char *)l + members[i]);
		uint64_t value;

		if (!pages_u64(p, runtime + *member, &value) || value > MOST_OFFSET)
			return false;
		*member = (uint32_t)value;
	}
	return true;
}

/* 0: not known.  3.11 and later export it; 3.10 is the first with one function, and the last without that. */
static unsigned version_of(struct pages *p, uint64_t module)
{
	uint64_t at = module_symbol(p, module, "Py_Version"), value;

	if (at)
		return pages_u64(p, at, &value) ? (unsigned)(value >> 16) & 0xffff : 0;
	return module_symbol(p, module, "PyModule_AddObjectRef") ? 0x30a : 0;
}

static enum stacks_status take_interpreter(struct pages *p, uint64_t runtime, unsigned version,
					   struct interpreter *out)
{
	const struct layout *known = layout_of(version);
	char cookie[24]; /* with the version and whether it is free-threaded */
	uint64_t number, free_threaded;

	if (!known)
		return STACKS_UNKNOWN;
	out->layout = *known;
	if (known->told) {
		if (!pages_read(p, runtime, cookie, sizeof(cookie)))
			return STACKS_NOT_NOW;
		memcpy(&number, cookie + 8, 8);
		memcpy(&free_threaded, cookie + 16, 8);
		if (memcmp(cookie, COOKIE, 8) != 0 || number >> 16 != version || free_threaded ||
		    !take_told(p, runtime, &out->layout))
			return STACKS_UNKNOWN;
	}
	out->runtime = runtime;
	return STACKS_SEEN;
}

enum stacks_status interpreter_find(struct pages *p, const uint64_t *modules, size_t n,
				    struct interpreter *out)
{
	*out = (struct interpreter){ 0 };
	for (size_t i = 0; i < n; i++) {
		uint64_t runtime = module_symbol(p, modules[i], "_PyRuntime");

		if (runtime)
			return take_interpreter(p, runtime, version_of(p, modules[i]), out);
	}
	return STACKS_NO_PYTHON;
}
