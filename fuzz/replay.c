/*
 * Shows every file of the given folders and files to a fuzz target, once, in the order of their
 * names: what the fuzzer once found stays found, with any compiler.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static unsigned long shown;

static int show_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *bytes = NULL;
	struct stat info;
	int failed = 1;

	if (f && !fstat(fileno(f), &info)) {
		size_t n = (size_t)info.st_size;

		/* Exactly as long as the input, so that a sanitizer sees a read beyond it. */
		bytes = malloc(n ? n : 1);
		if (bytes && fread(bytes, 1, n, f) == n) {
			LLVMFuzzerTestOneInput(bytes, n);
			shown++;
			failed = 0;
		}
	}
	if (failed)
		fprintf(stderr, "replay: cannot read '%s'\n", path);
	free(bytes);
	if (f)
		fclose(f);
	return failed;
}

static int show(const char *path);

static int show_folder(const char *path)
{
	struct dirent **names = NULL;
	int n = scandir(path, &names, NULL, alphasort), failed = n < 0;

	for (int i = 0; i < n; i++) {
		char inner[4096];

		snprintf(inner, sizeof(inner), "%s/%s", path, names[i]->d_name);
		if (names[i]->d_name[0] != '.')
			failed |= show(inner);
		free(names[i]);
	}
	free(names);
	return failed;
}

static int show(const char *path)
{
	struct stat info;

	if (!stat(path, &info) && S_ISDIR(info.st_mode))
		return show_folder(path);
	return show_file(path);
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		failed |= show(argv[i]);
	printf("%lu inputs shown\n", shown);
	return failed || !shown;
}
