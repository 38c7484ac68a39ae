#include "messages.h"

#include <string.h>

#define UNKNOWN                            \
	{                                  \
		PLIM_UNKNOWN, PLIM_UNKNOWN \
	}

/* A message with all its clauses about other processes is shorter. */
#define MESSAGE_MAX_BYTES 4096
/* Of the text in front of "out of memory", the most that belongs to it (cudaMallocAsync's). */
#define LEAD_MAX_BYTES 96
#define WINDOW_BYTES (64u << 10)

/*
 * "1.25 GiB" at the text's start: what it can stand for.  c10's format_size prints whole bytes up to
 * 1 KiB, then two decimals of the largest unit that the number is above.
 */
static int parse_size(const char *text, size_t n, struct messages_bytes *out)
{
	static const struct {
		const char *name;
		uint64_t bytes, most; /* most: a larger number is shown in the next unit */
	} units[] = { { "bytes", 1, 1024 },
		      { "KiB", 1024, 1048576 },
		      { "MiB", 1048576, 1073741824 },
		      { "GiB", 1073741824, UINT64_MAX } };
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
		slack = u ? 0.5 / scale * (double)units[u].bytes : 0;
		whole = whole / scale * (double)units[u].bytes;
		if (whole >= 0x1p63)
			return 0;
		out->low = whole > slack ? (uint64_t)(whole - slack) : 0;
		out->low += (double)out->low < whole - slack;
		out->high = (uint64_t)(whole + slack);
		if (out->low > out->high) /* more decimals than PyTorch writes: between two bytes */
			out->low = out->high;
		if (u && out->low <= units[u].bytes && out->high > units[u].bytes)
			out->low = units[u].bytes + 1;
		if (out->high > units[u].most && out->low <= units[u].most)
			out->high = units[u].most;
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
		if (*start == ' ' || *start == '(')
			words++;
	}
	if (words == 2)
		start++;
	return parse_size(start, (size_t)(at - start), out);
}

enum where { BEHIND, BEFORE };

/* Wordings since 1.0, and cudaMallocAsync's table; the first that is there counts. */
static const struct wording {
	size_t field;
	enum where where;
	const char *label;
} wordings[] = {
	{ offsetof(struct messages_oom, tried), BEHIND, "Tried to allocate " },
	{ offsetof(struct messages_oom, tried), BEHIND, "Requested : " },
	{ offsetof(struct messages_oom, total), BEHIND, "total capacity of " },
	{ offsetof(struct messages_oom, total), BEHIND, "total capacty of " }, /* 2.1 wrote it so */
	{ offsetof(struct messages_oom, total), BEFORE, " total capacity" },
	{ offsetof(struct messages_oom, total), BEHIND, "Device limit : " },
	{ offsetof(struct messages_oom, free), BEHIND, "of which " },
	{ offsetof(struct messages_oom, free), BEFORE, " free;" },
	{ offsetof(struct messages_oom, free), BEHIND, "Free (according to CUDA): " },
	{ offsetof(struct messages_oom, allowed), BEFORE, " allowed;" },
	{ offsetof(struct messages_oom, allowed), BEHIND, "user-supplied memory fraction) : " },
	{ offsetof(struct messages_oom, allocated), BEHIND, "Of the allocated memory " },
	{ offsetof(struct messages_oom, allocated), BEFORE, " already allocated" },
	{ offsetof(struct messages_oom, allocated), BEHIND, "Currently allocated : " },
	{ offsetof(struct messages_oom, private_pools), BEFORE, " allocated in private pools" },
	{ offsetof(struct messages_oom, unallocated), BEFORE,
	  " is reserved by PyTorch but unallocated" },
	{ offsetof(struct messages_oom, reserved), BEFORE, " reserved in total by PyTorch" },
	{ offsetof(struct messages_oom, reserved), BEFORE, " cached)" }, /* up to 1.3 */
	{ offsetof(struct messages_oom, this_process), BEHIND, "this process has " },
};

static uint64_t add(uint64_t a, uint64_t b)
{
	return a < PLIM_UNKNOWN - 1 - b ? a + b : PLIM_UNKNOWN - 1;
}

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
		out->others.low = add(out->others.low, one.low);
		out->others.high = add(out->others.high, one.high);
		out->processes++;
	}
	if (!out->processes && out->this_process.low == PLIM_UNKNOWN)
		out->others = (struct messages_bytes)UNKNOWN; /* no NVML: it cannot tell */
}

/* What is reserved is what is allocated and the rest; each release tells another two of the three. */
static void complete(struct messages_oom *o)
{
	struct messages_bytes *a = &o->allocated, *r = &o->reserved, *u = &o->unallocated;

	if (a->low == PLIM_UNKNOWN)
		return;
	if (r->low == PLIM_UNKNOWN && u->low != PLIM_UNKNOWN)
		*r = (struct messages_bytes){ add(a->low, u->low), add(a->high, u->high) };
	else if (u->low == PLIM_UNKNOWN && r->low != PLIM_UNKNOWN && r->high >= a->low)
		*u = (struct messages_bytes){ r->low > a->high ? r->low - a->high : 0,
					      r->high - a->low };
}

static void find_device(const char *text, size_t n, struct messages_oom *out)
{
	static const char *const labels[] = { "GPU ", "Allocation on device " };

	for (size_t l = 0; l < 2 && out->device == UINT32_MAX; l++) {
		const char *at = memmem(text, n, labels[l], strlen(labels[l])), *end = text + n;
		uint32_t device = 0, digits = 0;

		for (at = at ? at + strlen(labels[l]) : end;
		     at < end && digits < 4 && *at >= '0' && *at <= '9'; at++, digits++)
			device = 10 * device + (uint32_t)(*at - '0');
		if (digits)
			out->device = device;
	}
}

static int is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* The length of what a logger put here: a colour, or "[rank3]: " where a line starts. */
static size_t decoration(const char *p, size_t n, int line_start)
{
	size_t i;

	if (n > 1 && p[0] == '\033' && p[1] == '[') {
		for (i = 2; i < n && (unsigned char)p[i] < '@'; i++)
			;
		return i < n ? i + 1 : n;
	}
	if (!line_start || n < 5 || memcmp(p, "[rank", 5))
		return 0;
	for (i = 5; i < n && p[i] >= '0' && p[i] <= '9'; i++)
		;
	return i + 1 < n && p[i] == ']' && p[i + 1] == ':' ? i + 2 : 0;
}

/* "out of memory", perhaps wrapped between its words; NULL when it is not there. */
static const char *find_trigger(const char *text, size_t n)
{
	const char *end = text + n;

	while ((text = memmem(text, (size_t)(end - text), "out of", 6))) {
		const char *p = text + 6;
		size_t skip = 1;

		while (p < end && skip) {
			skip = is_blank(*p) ? 1 : decoration(p, (size_t)(end - p), p[-1] == '\n');
			p += skip;
		}
		if (p > text + 6 && (size_t)(end - p) >= 6 && !memcmp(p, "memory", 6))
			return text;
		text += 6;
	}
	return NULL;
}

/* One line with single spaces into `flat`: logs wrap, colour and prefix what they are given. */
static size_t flatten(const char *text, size_t n, char flat[static MESSAGE_MAX_BYTES])
{
	size_t to = 0, skip;
	int line_start = 1;

	for (size_t i = 0; i < n && to < MESSAGE_MAX_BYTES; i += skip) {
		skip = decoration(text + i, n - i, line_start);
		if (skip)
			continue;
		skip = 1;
		if (!is_blank(text[i]))
			flat[to++] = text[i];
		else if (to && flat[to - 1] != ' ')
			flat[to++] = ' ';
		line_start = text[i] == '\n' || (line_start && is_blank(text[i]));
	}
	return to;
}

int messages_parse_oom(const char *text, size_t n, struct messages_oom *out)
{
	static const char huge[] = "Tried to allocate more than 1EB memory";
	char flat[MESSAGE_MAX_BYTES];
	const char *trigger, *body, *next;

	*out = (struct messages_oom){ UNKNOWN,    UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
				      UNKNOWN,    UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN,
				      UINT32_MAX, 0,       0 };
	n = flatten(text, n, flat);
	trigger = find_trigger(flat, n);
	if (!trigger)
		return 0;
	body = trigger + 6;
	n -= (size_t)(body - flat);
	next = find_trigger(body, n);
	n = next ? (size_t)(next - body) : n;
	for (size_t i = 0; i < sizeof(wordings) / sizeof(wordings[0]); i++) {
		struct messages_bytes *field = (void *)((char *)out + wordings[i].field);

		if (field->low == PLIM_UNKNOWN)
			(wordings[i].where == BEHIND ? behind : before)(body, n, wordings[i].label,
									field);
	}
	if (out->tried.low == PLIM_UNKNOWN && memmem(body, n, huge, sizeof(huge) - 1))
		out->tried = (struct messages_bytes){ (uint64_t)1 << 60, PLIM_UNKNOWN - 1 };
	if (out->tried.low == PLIM_UNKNOWN)
		return 0;
	complete(out);
	find_device(body, n, out);
	find_device(flat, (size_t)(body - flat), out);
	find_processes(body, n, out);
	return 1;
}

/* Where the text of a message begins whose "out of memory" stands at `at`. */
static const char *lead(const char *from, const char *at)
{
	const char *p = at;

	while (p > from && p[-1] != '\n' && at - p < LEAD_MAX_BYTES)
		p--;
	return p;
}

/* How much of the window is done with; *out and *line are those of a message found there. */
static size_t scan(const char *p, size_t n, int last, struct messages_oom *out, int *found)
{
	const char *at = find_trigger(p, n), *end = p + n, *from, *next;

	*found = 0;
	if (!at)
		return last ? n : n - LEAD_MAX_BYTES;
	from = lead(p, at);
	if (!last && end - at < MESSAGE_MAX_BYTES)
		return (size_t)(from - p); /* see it whole in the next window */
	next = find_trigger(at + 6, (size_t)(end - at) - 6);
	*found = messages_parse_oom(from, (size_t)((next ? next : end) - from), out);
	return (size_t)(at - p) + 6;
}

static uint64_t count_lines(const char *p, size_t n)
{
	const char *end = p + n;
	uint64_t lines = 0;

	for (; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;
	return lines;
}

enum plim_status messages_find_oom(struct mem *m, const char *path, struct messages_oom *out,
				   int *found, struct plim_err *err)
{
	struct source *src;
	enum plim_status st = source_open(m, path, NULL, &src, err);
	uint64_t line = 1;

	*found = 0;
	if (st)
		return st;
	for (;;) {
		struct messages_oom one;
		const char *p;
		size_t n, done;
		int is_one;

		st = source_need(src, src->p, WINDOW_BYTES, err);
		p = (const char *)src->p;
		n = (size_t)(src->end - src->p);
		if (st || !n)
			break;
		done = scan(p, n, n < WINDOW_BYTES, &one, &is_one);
		line += count_lines(p, done);
		if (is_one) {
			*out = one;
			out->line = line;
			*found = 1;
		}
		src->p += done;
	}
	source_close(src);
	return st;
}
