/*
 * The program of a wheel.  Its code is in the package's library, so that the wheel holds it once;
 * this finds the library, which lies in the folder of the Python that it was installed for.
 */
#include <plimsoll/status.h>

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MACHINE 4 /* exit code, as the program's own */

typedef int program_fn(int argc, char **argv);

static const char *const places[] = {
	"libplimsoll.so", /* of the build */
	"../lib*/py*3*/*-packages/.plimsoll*gpu.mesonpy.libs/libplimsoll.so",
	"../.plimsoll*gpu.mesonpy.libs/libplimsoll.so", /* pip install --target */
};

/* The program in a library of this version, else NULL; `why` says what is wrong with it. */
static program_fn *load(const char *path, char *why, size_t size)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *(*version)(void) = NULL;
	program_fn *program = NULL;
	char own[32];

	if (!library) {
		snprintf(why, size, "%s", dlerror());
		return NULL;
	}
	/* ISO C knows no conversion from an object's pointer to a function's; POSIX has this one. */
	*(void **)&version = dlsym(library, "plim_version");
	*(void **)&program = dlsym(library, "plim_program_main");
	snprintf(own, sizeof(own), "%d.%d.%d", PLIM_VERSION_MAJOR, PLIM_VERSION_MINOR,
		 PLIM_VERSION_PATCH);
	if (version && program && !strcmp(version(), own))
		return program;
	snprintf(why, size, "'%s' is not of the wheel of Plimsoll %s", path, own);
	dlclose(library);
	return NULL;
}

/* Of the libraries near this program, the first of its version. */
static program_fn *find_wheel(const char *self, char *why, size_t size)
{
	program_fn *program = NULL;

	snprintf(why, size, "there is no libplimsoll.so in a package folder near '%s'", self);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !program; i++) {
		glob_t found = { .gl_pathc = 0 };
		char pattern[8192];
		int n = snprintf(pattern, sizeof(pattern), "%.*s/%s",
				 (int)(strrchr(self, '/') - self), self, places[i]);

		if (n > 0 && (size_t)n < sizeof(pattern) && !glob(pattern, 0, NULL, &found))
			for (size_t j = 0; j < found.gl_pathc && !program; j++)
				program = load(found.gl_pathv[j], why, size);
		globfree(&found);
	}
	return program;
}

int main(int argc, char **argv)
{
	const char *chosen = getenv("PLIMSOLL_LIBRARY");
	char self[4096] = "/", why[9000];
	program_fn *program;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		self[1] = '\0';
	program = chosen && *chosen ? load(chosen, why, sizeof(why)) : NULL;
	if (!program) /* the one that was chosen may be no wheel's */
		program = find_wheel(self, why, sizeof(why));
	if (program)
		return program(argc, argv);
	fprintf(stderr,
		"plimsoll: %s; install the wheel again, or set PLIMSOLL_LIBRARY to its "
		"libplimsoll.so\n",
		why);
	return MACHINE;
}
