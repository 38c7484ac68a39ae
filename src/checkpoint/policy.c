/*
 * What a name in a pickle may do to the process that loads it: the tables of data/pickled.rows, and the names that no list
 * can hold (torch's types, what leads through a module).
 */
#include "policy.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Python 2 names what moved. */
static const char *const moved[][2] = {
	{ "__builtin__.", "builtins." },
	{ "copy_reg.", "copyreg." },
	{ "cPickle.", "pickle." },
	{ "UserDict.", "collections." },
	{ "_functools.partial", "functools.partial" },
};

static bool is_one_of(const char *s, size_t n, const struct policy_name *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(rows[i].name) == n && !memcmp(rows[i].name, s, n))
			return true;
	return false;
}

/* "__class__", "__globals__": steps that attacks take, and classes do not. */
static bool is_dunder(const char *s, size_t n)
{
	bool of_file = n == 8 && (!memcmp(s, "__main__", n) || !memcmp(s, "__init__", n));

	return n > 4 && !memcmp(s, "__", 2) && !memcmp(s + n - 2, "__", 2) && !of_file;
}

/* Does a part behind the first name a module, or a dunder? */
static bool leads_through_module(const char *name)
{
	for (const char *at = strchr(name, '.'); at; at = strchr(at, '.')) {
		size_t n = strcspn(++at, ".");

		if (is_one_of(at, n, policy_modules, policy_modules_count) || is_dunder(at, n))
			return true;
	}
	return false;
}

/* Is it one of the rows, or below one? */
static bool is_below(const char *name, const struct policy_name *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(rows[i].name);

		if (!strncmp(name, rows[i].name, n) && (!name[n] || name[n] == '.'))
			return true;
	}
	return false;
}

/* torch.float16, torch.cuda.HalfStorage, torch.sparse.FloatTensor. */
static bool is_torch_type(const char *name)
{
	static const char *const places[] = { "torch.cuda.sparse.", "torch.cuda.", "torch.sparse.",
					      "torch." };
	static const char *const kinds[] = { "Double",  "Float",  "Half",         "BFloat16",
					     "Long",    "Int",    "Short",        "Char",
					     "Byte",    "Bool",   "ComplexFloat", "ComplexDouble",
					     "QInt8",   "QUInt8", "QInt32",       "QUInt4x2",
					     "QUInt2x4" };
	const struct ckpt_dtype *dtype;

	for (size_t i = 0; i < COUNT(places); i++) {
		size_t n = strlen(places[i]);

		if (strncmp(name, places[i], n) != 0)
			continue;
		dtype = i == 3 ? ckpt_dtype_of_torch(name + n) : NULL;
		if (dtype && !dtype->block && strcmp(name + n, "bytes") != 0)
			return true;
		for (size_t k = 0; k < COUNT(kinds); k++) {
			size_t m = strlen(kinds[k]);

			if (!strncmp(name + n, kinds[k], m) &&
			    (!strcmp(name + n + m, "Storage") || !strcmp(name + n + m, "Tensor")))
				return true;
		}
		if (!strcmp(name + n, "UntypedStorage"))
			return true;
	}
	return false;
}

/* "Linear", "_LRScheduler": a class by its spelling. */
static bool is_class(const char *s)
{
	s += strspn(s, "_");
	return isupper((unsigned char)*s) &&
	       !s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")];
}

/* Does a name match a row's: exact, "below.*", "below.^"? */
static bool matches(const char *row, const char *name)
{
	size_t n = strlen(row);
	char kind = row[n - 1];

	const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
	char pattern[100];

	if (kind != '*' && kind != '^')
		return !strcmp(row, name);
	if (memchr(row, '*', n - 1)) {
		snprintf(pattern, sizeof(pattern), "%.*s*", (int)n - 1, row);
		return !fnmatch(pattern, name, 0) && is_class(last);
	}
	if (strncmp(row, name, n - 1) != 0)
		return false;
	return kind == '*' ? is_one_of(name + n - 1, strlen(name + n - 1), policy_functions,
				       policy_functions_count)
			   : is_class(last) &&
				     !is_below(name, policy_unpickling, policy_unpickling_count);
}

const char *policy_new_name(const char *name, char *text, size_t size)
{
	for (size_t i = 0; i < COUNT(moved); i++) {
		size_t n = strlen(moved[i][0]);

		if (strncmp(name, moved[i][0], n) != 0)
			continue;
		snprintf(text, size, "%s%s", moved[i][1], name + n);
		return text;
	}
	return name;
}

/* Of several the one that names it exactly. */
static size_t find_row(const char *name)
{
	size_t found = policy_harmless_count;

	for (size_t i = 0; i < policy_harmless_count; i++) {
		if (!strcmp(policy_harmless[i].name, name))
			return i;
		if (found == policy_harmless_count && matches(policy_harmless[i].name, name))
			found = i;
	}
	return found;
}

struct policy policy_of(const char *name)
{
	struct policy p = { CKPT_UNKNOWN, POLICY_DATA, 0 };
	char text[300];
	size_t n, row;

	name = policy_new_name(name, text, sizeof(text));
	n = strlen(name);
	if (is_one_of(name, n, policy_sequences, policy_sequences_count))
		p.fills = POLICY_SEQUENCE;
	else if (is_one_of(name, n, policy_mappings, policy_mappings_count))
		p.fills = POLICY_MAPPING;
	row = find_row(name);
	if (is_one_of(name, n, policy_plain, policy_plain_count) || is_torch_type(name)) {
		p.trust = CKPT_PLAIN;
	} else if (row < policy_harmless_count && !leads_through_module(name)) {
		p.rule = policy_harmless[row].rule;
		p.trust = p.rule == POLICY_DATA ? CKPT_DATA : CKPT_CLASS;
	} else if (is_below(name, policy_dangerous, policy_dangerous_count) ||
		   leads_through_module(name)) {
		p.trust = CKPT_DANGEROUS;
	}
	return p;
}

bool policy_is_allowed(const char *allow, const char *name)
{
	while (allow && *allow) {
		size_t n = strcspn(allow, ",\n#"), end = n, from;

		from = strspn(allow, " \t\r");
		while (end > from && strchr(" \t\r", allow[end - 1]))
			end--;
		if (end > from && end - from > 2 && !memcmp(allow + end - 2, ".*", 2)) {
			if (!strncmp(name, allow + from, end - from - 1))
				return true;
		} else if (end > from && strlen(name) == end - from &&
			   !memcmp(name, allow + from, end - from)) {
			return true;
		}
		if (allow[n] == '#')
			n += strcspn(allow + n, "\n");
		allow += n + (allow[n] != 0);
	}
	return false;
}
