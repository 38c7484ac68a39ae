#include "raise.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The names of c10's exceptions (Itanium C++ ABI), as releases 2.6 to 2.11 of PyTorch have them; older ones have the string of
 * the old ABI, and get a RuntimeError.  c10::Error(SourceLocation, std::string): the location is passed by value on the stack, being of
 * 24 bytes, the string by address.
 */
#define C10_CHECK_FAIL "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
#define C10_ERROR \
	"_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define C10_OOM_VTABLE "_ZTVN3c1016OutOfMemoryErrorE"
#define C10_OOM_TYPE "_ZTIN3c1016OutOfMemoryErrorE"
#define ERROR_BYTES 512 /* more than sizeof(c10::Error) in any release */

struct location {
	const char *function, *file;
	uint32_t line;
};

/* std::string as libstdc++ lays it out. */
struct string {
	char *at;
	size_t n;
	char near[16];
};

struct names {
	void (*check_fail)(const char *function, const char *file, uint32_t line, const char *text);
	void (*error)(void *self, struct location where, struct string *text);
	void *(*allocate)(size_t bytes);
	void (*throw_)(void *object, void *type, void (*destroy)(void *));
	void *(*new_)(size_t bytes);
	void **vtable;
	void *type;
};

static void *symbol(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

#define FIND(field, library, name)                   \
	do {                                         \
		void *at_ = symbol(library, name);   \
		memcpy(&(field), &at_, sizeof(at_)); \
	} while (0)

/* Python loads torch's libraries RTLD_LOCAL: they must be asked one by one. */
static struct names find_names(void)
{
	void *c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
	void *cuda = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
	void *cxx = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
	struct names n = { 0 };

	FIND(n.check_fail, c10, C10_CHECK_FAIL);
	FIND(n.error, c10, C10_ERROR);
	FIND(n.allocate, cxx, "__cxa_allocate_exception");
	FIND(n.throw_, cxx, "__cxa_throw");
	FIND(n.new_, cxx, "_Znwm");
	FIND(n.vtable, cuda, C10_OOM_VTABLE);
	FIND(n.type, cuda, C10_OOM_TYPE);
	return n;
}

static int can_type(const struct names *n)
{
	return n->error && n->allocate && n->throw_ && n->new_ && n->vtable && n->type;
}

const char *raise_what(void)
{
	struct names n = find_names();

	return can_type(&n) ? "torch.OutOfMemoryError" : n.check_fail ? "RuntimeError" : "abort";
}

void raise_error(const char *text)
{
	struct names n = find_names();

	if (n.check_fail)
		n.check_fail("plimsoll_malloc", "libplimsoll_alloc.so", 0, text);
	fprintf(stderr, "libplimsoll_alloc.so: %s\n", text);
	abort();
}

void raise_out_of_memory(const char *text)
{
	struct names n = find_names();
	struct location where = { "plimsoll_malloc", "libplimsoll_alloc.so", 0 };
	struct string s = { .n = strlen(text) };
	void *object;

	if (!can_type(&n))
		raise_error(text);
	s.at = n.new_(s.n + 1);
	memcpy(s.at, text, s.n + 1);
	memcpy(s.near, &s.n, sizeof(s.n)); /* the capacity, of a string that is not near */
	object = n.allocate(ERROR_BYTES);
	n.error(object, where, &s);
	*(void ***)object = n.vtable + 2; /* behind the offset and the type */
	n.throw_(object, n.type, NULL);
	abort();
}
