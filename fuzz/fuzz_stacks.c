/* Memory of another process: whatever it holds, a look at its stack ends, and the names that come of it harm no one. */
#include "must.h"
#include "stacks_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must_be_shown(const char *text, size_t room)
{
	size_t n = strnlen(text, room), taken;
	uint32_t c;

	must(n < room);
	for (size_t i = 0; i < n; i += taken) {
		taken = utf8_decode(text + i, n - i, &c);
		must(taken && utf8_is_safe(c));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static struct stacks_look look;
	struct image image;
	struct stacks_memory memory = { image_read, &image };
	enum stacks_status status;

	if (!image_open(&image, bytes, n))
		return 0;
	status = stacks_look_at(&memory, &image.module, 1, image.main_thread, &look);
	must(look.n <= STACKS_FRAMES && (status == STACKS_SEEN) == (look.n > 0));
	for (size_t i = 0; i < look.n; i++) {
		must_be_shown(look.at[i].file, sizeof(look.at[i].file));
		must_be_shown(look.at[i].function, sizeof(look.at[i].function));
		must(look.at[i].line < 1u << 28);
	}
	return 0;
}
