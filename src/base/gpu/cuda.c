#include "cuda.h"

#include <dlfcn.h>
#include <string.h>

const char *cuda_open(struct cuda *c, const char *library)
{
	memset(c, 0, sizeof(*c));
	c->library = dlopen(library ? library : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return dlerror();
#define CUDA_FIND(field, symbol, arguments)            \
	{                                              \
		void *at = dlsym(c->library, #symbol); \
		if (!at)                               \
			return #symbol;                \
		memcpy(&c->field, &at, sizeof(at));    \
	}
	CUDA_SYMBOLS(CUDA_FIND)
#undef CUDA_FIND
	return NULL;
}
