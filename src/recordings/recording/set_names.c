/* Which rank a file is of, as its name shows, the order of names, and the part that differs. */
#include "set.h"

#include <ctype.h>
#include <stdint.h>
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

/* The word begins where no letter stands before it: "rank" is not a part of "frank", "r" none of "iter". */
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

/* ---- what a name has that others have not ---- */

/* Bytes that both begin with, or end with. */
static size_t common_bytes(const char *a, size_t n, const char *b, size_t m, int at_end)
{
	size_t same = 0;

	while (same < n && same < m &&
	       (at_end ? a[n - 1 - same] == b[m - 1 - same] : a[same] == b[same]))
		same++;
	return same;
}

static int is_edge(char c, int folders_only)
{
	return c == '/' || (!folders_only && is_separator(c));
}

/* A cut in the middle of a word leaves what no one knows: it goes back to where the word begins, or ends. */
static void cut_at_words(const char *name, size_t stem, int folders_only,
			 struct recording_name_cut *cut)
{
	while (cut->front && !is_edge(name[cut->front - 1], folders_only))
		cut->front--;
	while (cut->back && !is_edge(name[stem - cut->back], 0))
		cut->back--;
}

/* Of no name is nothing left. */
static struct recording_name_cut leave_some(struct recording_name_cut cut, size_t shortest)
{
	if (cut.front + cut.back >= shortest)
		cut.back = 0;
	if (cut.front >= shortest)
		cut.front = 0;
	return cut;
}

struct recording_name_cut recording_set_cut(const struct plim_ranks *k, size_t columns)
{
	struct recording_name_cut cut = { 0 }, folders;
	const char *first = NULL;
	size_t stem = 0, longest = 0, shortest = SIZE_MAX, names = 0;

	for (size_t i = 0; i < k->row_count; i++) {
		const char *name = recording_row_name(&k->rows[i]);
		size_t n = name ? recording_set_stem(name) : 0, front, back;

		if (!name)
			continue;
		if (!names++) {
			first = name;
			stem = cut.front = cut.back = n;
		}
		front = common_bytes(first, stem, name, n, 0);
		back = common_bytes(first, stem, name, n, 1);
		cut.front = front < cut.front ? front : cut.front;
		cut.back = back < cut.back ? back : cut.back;
		longest = n > longest ? n : longest;
		shortest = n < shortest ? n : shortest;
	}
	if (names < 2)
		return (struct recording_name_cut){ 0 };
	folders = cut;
	cut_at_words(first, stem, 1, &folders);
	folders = leave_some(folders, shortest);
	if (longest - folders.front - folders.back <= columns)
		return folders;
	cut_at_words(first, stem, 0, &cut);
	return leave_some(cut, shortest);
}
