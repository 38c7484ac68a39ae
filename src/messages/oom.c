#include "messages.h"

#include <stdlib.h>
#include <string.h>

#define UNKNOWN                            \
	{                                  \
		PLIM_UNKNOWN, PLIM_UNKNOWN \
	}

/* A line of a log that is longer than this is cut: PyTorch's message has some 1,000 characters. */
#define LINE_MAX_BYTES (64u << 10)

/*
 * "1.25 GiB" at the text's start: what it can stand for.  c10's format_size prints two decimals,
 * or whole bytes up to 1 KiB.
 */
static int parse_size(const char *text, size_t n, struct messages_bytes *out)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = { { "bytes", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 } };
	size_t i = 0;
	double whole = 0, scale = 1, slack;

	while (i < n && text[i] >= '0' && text[i] <= '9')
		whole = 10 * whole + (text[i++] - '0');
	if (!i || i > 15)
		return 0;
	if (i < n && text[i] == '.')
		for (i++; i < n && text[i] >= '0' && text[i] <= '9' && scale < 1e6; scale *= 10)
			whole = 10 * whole + (text[i++] - '0');
	if (i < n && text[i] == ' ')
		i++;
	for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
		size_t len = strlen(units[u].name);

		if (n - i < len || memcmp(text + i, units[u].name, len))
			continue;
		slack = u ? 0.5 / scale * units[u].bytes : 0;
		whole = whole / scale * units[u].bytes;
		if (whole >= 0x1p63)
			return 0;
		out->low = whole > slack ? (uint64_t)(whole - slack) : 0;
		out->high = (uint64_t)(whole + slack);
		return 1;
	}
	return 0;
}

/* The number right behind `label`, or right in front of it. */
static int behind(const char *text, size_t n, const char *label, struct messages_bytes *out)
{
	const char *at = memmem(text, n, label, strlen(label));

	return at && parse_size(at + strlen(label), n - (size_t)(at - text) - strlen(label), out);
}

static int before(const char *text, size_t n, const char *label, struct messages_bytes *out)
{
	const char *at = memmem(text, n, label, strlen(label)), *start = at;
	int words = 0;

	if (!at)
		return 0;
	while (start > text && words < 2) { /* "12.00 GiB" are two words */
		start--;
		if (*start == ' ' || *start == '(' || *start == '\n')
			words++;
	}
	if (words == 2)
		start++;
	return parse_size(start, (size_t)(at - start), out);
}

enum where { BEHIND, BEFORE };

/* Wordings since 1.0; the first that is there counts. */
static const struct wording {
	size_t field;
	enum where where;
	const char *label;
} wordings[] = {
	{ offsetof(struct messages_oom, tried), BEHIND, "Tried to allocate " },
	{ offsetof(struct messages_oom, total), BEHIND, "total capacity of " },
	{ offsetof(struct messages_oom, total), BEHIND, "total capacty of " }, /* 2.1 wrote it so */
	{ offsetof(struct messages_oom, total), BEFORE, " total capacity" },
	{ offsetof(struct messages_oom, free), BEHIND, "of which " },
	{ offsetof(struct messages_oom, free), BEFORE, " free;" },
	{ offsetof(struct messages_oom, allowed), BEFORE, " allowed;" },
	{ offsetof(struct messages_oom, allocated), BEHIND, "Of the allocated memory " },
	{ offsetof(struct messages_oom, allocated), BEFORE, " already allocated" },
	{ offsetof(struct messages_oom, private_pools), BEFORE, " allocated in private pools" },
	{ offsetof(struct messages_oom, unallocated), BEFORE,
	  " is reserved by PyTorch but unallocated" },
	{ offsetof(struct messages_oom, this_process), BEHIND, "this process has " },
};

static void find_processes(const char *text, size_t n, struct messages_oom *out)
{
	static const char label[] = "Process ", has[] = " has ";
	const char *at = text, *end = text + n;
	struct messages_bytes one;

	out->others = (struct messages_bytes){ 0, 0 };
	while ((at = memmem(at, (size_t)(end - at), label, sizeof(label) - 1))) {
		at += sizeof(label) - 1;
		while (at < end && *at >= '0' && *at <= '9')
			at++;
		if ((size_t)(end - at) < sizeof(has) || memcmp(at, has, sizeof(has) - 1))
			continue;
		at += sizeof(has) - 1;
		if (!parse_size(at, (size_t)(end - at), &one))
			continue;
		out->others.low += one.low;
		out->others.high += one.high;
		out->processes++;
	}
	if (!out->processes && out->this_process.low == PLIM_UNKNOWN)
		out->others = (struct messages_bytes)UNKNOWN; /* no NVML: it cannot tell */
}

int messages_parse_oom(const char *text, size_t n, struct messages_oom *out)
{
	const char *gpu;

	*out = (struct messages_oom){ UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,    UNKNOWN, UNKNOWN,
				      UNKNOWN, UNKNOWN, UNKNOWN, UINT32_MAX, 0,       0 };
	if (!memmem(text, n, "out of memory", 13))
		return 0;
	for (size_t i = 0; i < sizeof(wordings) / sizeof(wordings[0]); i++) {
		struct messages_bytes *field = (void *)((char *)out + wordings[i].field);

		if (field->low == PLIM_UNKNOWN)
			(wordings[i].where == BEHIND ? behind : before)(text, n, wordings[i].label,
									field);
	}
	if (out->tried.low == PLIM_UNKNOWN)
		return 0;
	gpu = memmem(text, n, "GPU ", 4);
	if (gpu && (size_t)(gpu - text) + 4 < n && gpu[4] >= '0' && gpu[4] <= '9')
		out->device = (uint32_t)(gpu[4] - '0');
	find_processes(text, n, out);
	return 1;
}

enum plim_status messages_find_oom(struct mem *m, const char *path, struct messages_oom *out,
				   int *found, struct plim_err *err)
{
	struct source *src;
	enum plim_status st = source_open(m, path, NULL, &src, err);
	struct messages_oom one;
	uint64_t line = 0;

	*found = 0;
	if (st)
		return st;
	while (!st) {
		const uint8_t *nl;
		size_t n;

		st = source_need(src, src->p, LINE_MAX_BYTES, err);
		n = (size_t)(src->end - src->p);
		if (st || !n)
			break;
		nl = memchr(src->p, '\n', n);
		n = nl ? (size_t)(nl - src->p) + 1 : n;
		line++;
		if (messages_parse_oom((const char *)src->p, n, &one)) {
			one.line = line;
			*out = one;
			*found = 1;
		}
		src->p += n;
	}
	source_close(src);
	return st;
}
