#include "scan.h"

#include <string.h>

/* A message with all its clauses about other processes is shorter. */
#define MESSAGE_MAX_BYTES 4096

/* The number right behind `label`, or right in front of it. */
static int behind(const char *text, size_t n, const char *label, struct messages_bytes *out)
{
	const char *at = memmem(text, n, label, strlen(label));

	return at && scan_size(at + strlen(label), n - (size_t)(at - text) - strlen(label),
			       SCAN_UNITS_PYTORCH, out);
}

static int oom_before(const char *text, size_t n, const char *label, struct messages_bytes *out)
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
	return scan_size(start, (size_t)(at - start), SCAN_UNITS_PYTORCH, out) != 0;
}

void scan_oom_start(struct messages_oom *o)
{
	*o = (struct messages_oom){ .device = UINT32_MAX };
	o->tried = o->total = o->free = o->allowed = o->allocated = o->unallocated =
		messages_unknown;
	o->private_pools = o->reserved = o->this_process = o->others = messages_unknown;
}

/* This process is not another one that holds memory. */
static void forget_holder(struct messages_oom *o, const struct messages_bytes *own)
{
	uint32_t n = o->processes <= MESSAGES_HOLDERS ? o->processes : MESSAGES_HOLDERS + 1, i = 0;

	while (i < n && memcmp(&o->holders[i].bytes, own, sizeof(*own)))
		i++;
	for (; i + 1 < n; i++)
		o->holders[i] = o->holders[i + 1];
}

/* What this process held at least: a message that is cut shows no more than what was allocated. */
static uint64_t own_least(const struct messages_oom *o)
{
	return o->reserved.low != PLIM_UNKNOWN ? o->reserved.low : o->allocated.low;
}

/*
 * In a container NVML numbers processes as the machine does, so PyTorch lists this very process as
 * another one.  It must be among them when what they hold and what it has reserved itself are more
 * than all that is in use; which one it is, its size shows, if only one is large enough.
 */
static void find_own(struct messages_oom *o, const struct messages_bytes *own, uint32_t candidates)
{
	uint64_t held = own_least(o);

	if (!o->processes || o->this_process.low != PLIM_UNKNOWN || held == PLIM_UNKNOWN ||
	    o->total.low == PLIM_UNKNOWN || o->free.low == PLIM_UNKNOWN ||
	    o->total.high < o->free.low ||
	    messages_plus(o->others, (struct messages_bytes){ held, held }).low <=
		    o->total.high - o->free.low)
		return;
	o->own_listed = 1;
	if (candidates != 1 || o->others.high < own->low) {
		o->others = messages_unknown;
		return;
	}
	o->this_process = *own;
	forget_holder(o, own);
	if (o->processes-- == 1)
		o->others = (struct messages_bytes){ 0, 0 };
	else
		o->others = (struct messages_bytes){
			o->others.low > own->low ? o->others.low - own->low : 0,
			o->others.high - own->high,
		};
}

static void find_processes(const char *text, size_t n, struct messages_oom *out)
{
	static const char label[] = "Process ", has[] = " has ";
	const char *at = text, *end = text + n;
	struct messages_bytes one, own = messages_unknown;
	uint32_t candidates = 0;
	uint64_t pid;

	out->others = (struct messages_bytes){ 0, 0 };
	while ((at = memmem(at, (size_t)(end - at), label, sizeof(label) - 1))) {
		at = scan_digits(at + sizeof(label) - 1, end, &pid);
		if ((size_t)(end - at) < sizeof(has) || memcmp(at, has, sizeof(has) - 1))
			continue;
		at += sizeof(has) - 1;
		if (!scan_size(at, (size_t)(end - at), SCAN_UNITS_PYTORCH, &one))
			continue;
		out->others = messages_plus(out->others, one);
		if (out->processes <= MESSAGES_HOLDERS)
			out->holders[out->processes] = (struct messages_holder){ pid, one };
		out->processes++;
		if (own_least(out) != PLIM_UNKNOWN && one.high >= own_least(out)) {
			own = one;
			candidates++;
		}
	}
	if (!out->processes && out->this_process.low == PLIM_UNKNOWN)
		out->others = messages_unknown; /* no NVML: it cannot know */
	/* no one holds nothing: the driver reported no sizes, as under MIG and in some containers */
	if (out->processes && !out->others.high) {
		out->others = messages_unknown;
		out->this_process = messages_unknown;
		return;
	}
	find_own(out, &own, candidates);
}

/* What is reserved is what is allocated and the rest; each release shows another two of the three. */
static void complete(struct messages_oom *o)
{
	struct messages_bytes *a = &o->allocated, *r = &o->reserved, *u = &o->unallocated;

	if (a->low == PLIM_UNKNOWN)
		return;
	if (r->low == PLIM_UNKNOWN && u->low != PLIM_UNKNOWN)
		*r = messages_plus(*a, *u);
	else if (u->low == PLIM_UNKNOWN && r->low != PLIM_UNKNOWN && r->high >= a->low)
		*u = messages_less(*r, *a);
}

static void find_device(const char *text, size_t n, struct messages_oom *out)
{
	static const char *const labels[] = { "GPU ", "Allocation on device " };

	for (size_t l = 0; l < 2 && out->device == UINT32_MAX; l++) {
		const char *at = memmem(text, n, labels[l], strlen(labels[l]));
		const char *from = at ? at + strlen(labels[l]) : text + n;
		uint64_t device;

		if (scan_digits(from, text + n, &device) > from && device < UINT32_MAX)
			out->device = (uint32_t)device;
	}
}

static int is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == SCAN_JOINT;
}

size_t scan_decoration(const char *p, size_t n, int line_start)
{
	static const char *const prefixes[] = { "[rank", "[default" };
	size_t i;

	if (n > 1 && p[0] == '\033' && p[1] == '[') {
		for (i = 2; i < n && (unsigned char)p[i] < '@'; i++)
			;
		return i < n ? i + 1 : n;
	}
	for (size_t k = 0; line_start && k < sizeof(prefixes) / sizeof(prefixes[0]); k++) {
		i = strlen(prefixes[k]);
		if (n <= i || memcmp(p, prefixes[k], i))
			continue;
		for (; i < n && p[i] >= '0' && p[i] <= '9'; i++)
			;
		if (n - i >= 2 && !memcmp(p + i, "]:", 2))
			return i + 2;
	}
	return line_start ? scan_container(p, p + n) : 0;
}

int scan_is_trigger(const char *text, size_t n)
{
	const char *p = text + 6, *end = text + n;
	size_t skip = 1;

	while (p < end && skip) {
		skip = is_blank(*p) ? 1 : scan_decoration(p, (size_t)(end - p), p[-1] == '\n');
		p += skip;
	}
	return p > text + 6 && (size_t)(end - p) >= 6 && !memcmp(p, "memory", 6);
}

static const char *find_trigger(const char *text, size_t n)
{
	const char *end = text + n;

	while ((text = memmem(text, (size_t)(end - text), "out of", 6))) {
		if (scan_is_trigger(text, (size_t)(end - text)))
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
		skip = scan_decoration(text + i, n - i, line_start);
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
	const char *trigger, *body, *next, *lead; /* behind a progress bar on its line */

	scan_oom_start(out);
	n = flatten(text, n, flat);
	trigger = find_trigger(flat, n);
	if (!trigger)
		return 0;
	body = lead = trigger + 6;
	n -= (size_t)(body - flat);
	next = find_trigger(body, n);
	n = next ? (size_t)(next - body) : n;
	for (size_t i = 0; i < scan_oom_label_count; i++) {
		struct messages_bytes *field = (void *)((char *)out + scan_oom_labels[i].field);

		if (field->low == PLIM_UNKNOWN)
			(scan_oom_labels[i].where == SCAN_BEHIND ? behind : oom_before)(
				body, n, scan_oom_labels[i].label, field);
	}
	if (out->tried.low == PLIM_UNKNOWN && memmem(body, n, huge, sizeof(huge) - 1))
		out->tried = (struct messages_bytes){ (uint64_t)1 << 60, PLIM_UNKNOWN - 1 };
	if (out->tried.low == PLIM_UNKNOWN)
		return 0;
	complete(out);
	out->old_format = memmem(body, n, "total capacity;", 15) != NULL;
	find_device(body, n, out);
	while (lead > flat && !strchr("|%", lead[-1]))
		lead--;
	find_device(lead, (size_t)(body - lead), out);
	find_processes(body, n, out);
	return 1;
}
