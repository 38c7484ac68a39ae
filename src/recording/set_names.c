/* Which rank a file is of, as its name tells, and the order of names. */
#include "set.h"

#include <ctype.h>
#include <string.h>

#define DIGITS_MAX 9

/* Words in front of the number, best first.  "local_rank" is only right on one machine, so it comes last. */
static const struct word {
	const char *text;
	int not_after_local;
} words[] = { { "rank", 1 }, { "rank", 0 }, { "r", 1 }, { "worker", 1 }, { "gpu", 1 } };

static int is_separator(char c)
{
	return c == '_' || c == '-' || c == '.' || c == '=';
}

/* Digits at `at` that nothing but a separator follows. */
static int digits(const char *at, uint64_t *number)
{
	size_t n = 0;

	*number = 0;
	for (; isdigit((unsigned char)at[n]) && n <= DIGITS_MAX; n++)
		*number = *number * 10 + (uint64_t)(at[n] - '0');
	return n && n <= DIGITS_MAX && !isalpha((unsigned char)at[n]);
}

static int after_local(const char *name, const char *at)
{
	return at - name >= 6 && !strncasecmp(at - 6, "local", 5) && is_separator(at[-1]);
}

/* The word begins where no letter stands before it: "rank" is no part of "frank", "r" none of "iter". */
static int number_behind(const char *name, const struct word *w, uint64_t *number)
{
	size_t n = strlen(w->text);
	int found = 0;

	for (const char *at = name; *at; at++) {
		const char *behind = at + n;
		uint64_t one;

		if (strncasecmp(at, w->text, n) || (at > name && isalnum((unsigned char)at[-1])) ||
		    (w->not_after_local && after_local(name, at)))
			continue;
		if (is_separator(*behind))
			behind++;
		if (digits(behind, &one)) {
			*number = one;
			found = 1;
		}
	}
	return found;
}

static int number_in(const char *part, uint64_t *number)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (number_behind(part, &words[i], number))
			return 1;
	return digits(part, number) && part[strspn(part, "0123456789")] == '.';
}

size_t recording_set_stem(const char *name)
{
	static const char *const endings[] = { ".pickle", ".pkl", ".json", ".plim" };
	size_t n = file_plain_length(name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
		const char *ending = endings[i];
		size_t m = strlen(ending);

		if (n > m && !strncasecmp(name + n - m, ending, m))
			n -= m;
	}
	return n;
}

int set_number(const char *name, uint64_t *number)
{
	const char *slash = strrchr(name, '/');
	char folder[256];
	size_t n;

	if (number_in(slash ? slash + 1 : name, number))
		return 1;
	n = slash ? (size_t)(slash - name) : 0;
	while (n && name[n - 1] == '/')
		n--;
	slash = n ? memrchr(name, '/', n) : NULL;
	if (slash) {
		n -= (size_t)(slash + 1 - name);
		name = slash + 1;
	}
	if (!n || n >= sizeof(folder))
		return 0;
	memcpy(folder, name, n);
	folder[n] = 0;
	return number_in(folder, number);
}

static size_t without_zeros(const char **digit)
{
	*digit += strspn(*digit, "0");
	return strspn(*digit, "0123456789");
}

int set_compare_names(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		if (isdigit((unsigned char)*x) && isdigit((unsigned char)*y)) {
			size_t n = without_zeros(&x), m = without_zeros(&y);
			int c = n == m ? strncmp(x, y, n) : n < m ? -1 : 1;

			if (c)
				return c;
			x += n;
			y += m;
		} else if (*x != *y) {
			break;
		} else {
			x++;
			y++;
		}
	}
	return *x != *y ? (unsigned char)*x - (unsigned char)*y : strcmp(a, b);
}
