/*
 * Shows every input of the given corpora (NAME.tar.zst, see tools/corpus.sh) and every other given file to
 * a fuzz target, once, in order: what the fuzzer once found stays found, with any compiler.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

enum { BLOCK = 512 }; /* of a tar: headers and contents are rounded up to it */

/* Where a tar's header has what counts here: POSIX ustar. */
enum { TAR_SIZE = 124, TAR_SIZE_DIGITS = 12, TAR_TYPE = 156 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

struct content {
	uint8_t *bytes;
	size_t n;
};

static unsigned long shown;

static bool show(const uint8_t *bytes, size_t n)
{
	/* Exactly as long as the input, so that a sanitizer sees a read beyond it. */
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		return false;
	if (n)
		memcpy(copy, bytes, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
	shown++;
	return true;
}

static bool read_file(const char *path, struct content *out)
{
	FILE *f = fopen(path, "rb");
	bool ok = f && !fseek(f, 0, SEEK_END);
	long n = ok ? ftell(f) : -1;

	out->n = n < 0 ? 0 : (size_t)n;
	out->bytes = malloc(out->n + 1);
	ok = n >= 0 && out->bytes && !fseek(f, 0, SEEK_SET) &&
	     fread(out->bytes, 1, out->n, f) == out->n;
	if (f)
		fclose(f);
	return ok;
}

/* Piped into zstd, a tar does not say how long it is: the room for it grows. */
static bool unpack(struct content *c)
{
	ZSTD_DStream *z = ZSTD_createDStream();
	ZSTD_inBuffer in = { c->bytes, c->n, 0 };
	ZSTD_outBuffer out = { NULL, 0, 0 };
	size_t left = 1;

	while (z && left && !ZSTD_isError(left) && (in.pos < in.size || out.pos == out.size)) {
		if (out.pos == out.size) {
			out.size = 2 * out.size + (1 << 20);
			out.dst = realloc(out.dst, out.size);
			if (!out.dst)
				abort();
		}
		left = ZSTD_decompressStream(z, &out, &in);
	}
	ZSTD_freeDStream(z);
	free(c->bytes);
	c->bytes = out.dst;
	c->n = out.pos;
	return !left;
}

static bool show_corpus(const struct content *tar)
{
	size_t at = 0;

	while (at + BLOCK <= tar->n && tar->bytes[at]) {
		char digits[TAR_SIZE_DIGITS + 1] = "";
		uint8_t type = tar->bytes[at + TAR_TYPE];
		size_t n;

		memcpy(digits, tar->bytes + at + TAR_SIZE, TAR_SIZE_DIGITS);
		n = strtoull(digits, NULL, 8);
		at += BLOCK;
		if (n > tar->n - at || (type == '0' && !show(tar->bytes + at, n)))
			return false;
		at += (n + BLOCK - 1) / BLOCK * BLOCK;
	}
	/* Two empty blocks end it; a tar that was cut off has none. */
	return at + BLOCK <= tar->n;
}

static bool replay(const char *path)
{
	const char *dot = strstr(path, ".tar.zst");
	struct content c = { 0 };
	bool ok = read_file(path, &c);

	if (ok)
		ok = dot && !dot[8] ? unpack(&c) && show_corpus(&c) : show(c.bytes, c.n);
	if (!ok)
		fprintf(stderr, "replay: cannot read '%s'\n", path);
	free(c.bytes);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = true;

	for (int i = 1; i < argc; i++)
		ok &= replay(argv[i]);
	printf("%lu inputs shown\n", shown);
	return !ok || !shown;
}
