/*
 * What a text shows to be set already.  A word counts with its value behind it, on a line that does not only advise it: of
 * several the newest.  Advice to set what is set, or to lower what is at its end, is not given (diagnose/advice.c).
 */
#include "scan.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST 0.93
#define FEWEST 4
#define SHORTEST 1024
#define VALUE_BYTES 24
#define ADVISED_BYTES 120 /* in front of a word, that may say that it is only advised */

static int setting_is_name(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

/* Does one of the words, in small letters, stand in the last `far` bytes of [from, to), in any letters? */
static int says_any(const char *from, const char *to, ptrdiff_t far, const struct scan_word *words)
{
	char text[ADVISED_BYTES];
	size_t length = 0;

	for (const char *p = to - from > far ? to - far : from; p < to; p++)
		text[length++] = scan_lower(*p);
	return scan_has(text, text + length, words);
}

/* "try setting X=1": a text's advice is not a setting. */
static int is_advised(const char *start, const char *at, const char *stop)
{
	return memmem(at, (size_t)(stop - at), " to avoid", 9) ||
	       says_any(start, at, ADVISED_BYTES, scan_advising);
}

#define VALUE_FAR 64 /* between a word and its value, in a table or a list with leaders */

/* What stands between a word and its value: signs, a table's edges. */
static const char *skip_signs(const char *p, const char *stop)
{
	const char *from = p, *last = NULL;

	while (p < stop && p - from < VALUE_FAR && p != last) {
		last = p;
		if (strchr("\"'`=: \t([|", *p))
			p++;
	}
	return p;
}

/* "batch size of 1", "batch size per device / (the same in another language): 1" */
static const char *skip_words(const char *p, const char *stop)
{
	static const char *const words[] = { "\xe8\xae\xbe\xe7\xbd\xae\xe4\xb8\xba",
					     "\xe8\xae\xbe\xe4\xb8\xba",
					     " is already ",
					     " was already ",
					     " already ",
					     " is set to ",
					     " set to ",
					     " of ",
					     " to ",
					     " is ",
					     " was ",
					     " at " };
	const char *colon;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if ((size_t)(stop - p) > strlen(words[i]) && !memcmp(p, words[i], strlen(words[i])))
			return p + strlen(words[i]) - (words[i][0] == ' ');
	colon = stop - p > 3 && !memcmp(p, " / ", 3) ? memchr(p, ':', (size_t)(stop - p)) : NULL;
	return colon && colon - p < VALUE_FAR ? colon : p;
}

/* The value behind a word: "=0.9", "': true", " 1"; its length, 0: there is none. */
static size_t value_behind(const char *p, const char *stop, char value[VALUE_BYTES])
{
	const char *from = p;
	size_t n = 0;

	p = skip_signs(skip_words(p, stop), stop);
	while (p < stop && n + 1 < VALUE_BYTES && (setting_is_name(*p) || *p == '.' || *p == '-'))
		value[n++] = *p++;
	value[n] = 0;
	return p > from && from < stop ? n : 0;
}

static int is_one_of(const char *value, const struct scan_word *words)
{
	for (; words->word; words++)
		if (!strcasecmp(value, words->word))
			return 1;
	return 0;
}

/* Is it spent?  < 0: the value does not say. */
static int judge_setting(enum scan_spent how, const char *value, double number)
{
	int is_off = is_one_of(value, scan_off) || number == 0;
	int is_on = is_one_of(value, scan_on) || number > 0;

	switch (how) {
	case SCAN_SET_ONE: return number < 0 ? -1 : number <= 1;
	case SCAN_SET_MOST: return number <= 0 || number > 1 ? -1 : number >= MOST;
	case SCAN_SET_FEW: return number < 0 ? -1 : number <= FEWEST;
	case SCAN_SET_SHORT: return number <= 0 ? -1 : number <= SHORTEST;
	case SCAN_SET_MUCH: return number <= 0 ? -1 : number > SHORTEST;
	case SCAN_SET_LOADER: return strstr(value, "Loader") ? 1 : -1;
	case SCAN_SET_OFF: return is_off ? 1 : number > 0 ? 0 : -1;
	default: return is_off ? 0 : is_on ? 1 : -1;
	}
}

/* "total train batch size": of all devices and steps together, or of another loop. */
static int is_anothers(const struct scan_setting *s, const char *start, const char *at)
{
	return s->setting == MESSAGES_SET_BATCH && !strncasecmp(s->word, "batch", 5) &&
	       says_any(start, at, 24, scan_other_batches);
}

#define LATE 10 /* of epochs: what fits in so many fits in the next, if nothing grows */

/* The number of an epoch right behind the word; .line 0: it is not late. */
static struct messages_set epoch_seen(const char *p, const char *stop, uint64_t line)
{
	double number = 0;

	while (p < stop && *p == ' ')
		p++;
	for (; p < stop && *p >= '0' && *p <= '9' && number < 1e9; p++)
		number = 10 * number + (*p - '0');
	return (struct messages_set){ number >= LATE ? line : 0, 1, number };
}

/* A value that judge() does not know: a section of DeepSpeed's that opens, a flag alone ("--enforce-eager --port 80"). */
static int is_switched(const struct scan_setting *s, const char *start, const char *at,
		       const char *behind, const char *stop, const char *value)
{
	if (!*value && s->setting == MESSAGES_SET_OFFLOADED &&
	    memchr(behind, '{', (size_t)(stop - behind)) &&
	    !memmem(behind, (size_t)(stop - behind), "none", 4))
		return 1;
	return s->spent == SCAN_SET_ON && at - start >= 2 && at[-1] == '-' && at[-2] == '-' &&
	       (!*value || value[0] == '-');
}

int scan_setting_is_old(const struct messages_set *sets, const struct scan_setting *s)
{
	const struct messages_set *set = &sets[s->setting];

	return s->spent == SCAN_SET_SEEN && set->line && set->spent == 1 && set->value < 0;
}

#define TRIED_FAR 32 /* between a word and what was tried of it */

/* "a smaller batch size. I tried 4, 2 and 1": the last one; without such words the value as it is. */
static const char *last_tried(const char *behind, const char *stop)
{
	size_t n = (size_t)(stop - behind);
	const char *p = memmem(behind, n < TRIED_FAR ? n : TRIED_FAR, "tried ", 6), *last = behind;

	for (p = p ? p + 6 : stop; p < stop && strchr("0123456789, and", *p); p++)
		if (isdigit((unsigned char)*p) && !isdigit((unsigned char)p[-1]))
			last = p;
	return last;
}

/* What the value behind the word shows; .line 0: nothing. */
static struct messages_set value_seen(const struct scan_setting *s, const char *start,
				      const char *at, const char *stop, uint64_t line)
{
	const char *behind = at + strlen(s->word);
	char value[VALUE_BYTES];
	size_t n;
	double number;
	char *end;
	int spent;

	while (s->spent == SCAN_SET_MUCH && behind[-1] >= '0' && behind[-1] <= '9')
		behind--; /* a value's first digit, in a word that was too short without it */
	if (behind < stop && setting_is_name(*behind) && setting_is_name(behind[-1]))
		return (struct messages_set){ 0 }; /* another name */
	if (s->spent == SCAN_SET_ONE)
		behind = last_tried(behind, stop);
	n = value_behind(behind, stop, value);
	number = strtod(value, &end);
	if (!n || *end || value[0] == '-')
		number = -1;
	spent = judge_setting(s->spent, value, number);
	if (spent < 0 && is_switched(s, start, at, behind, stop, n ? value : ""))
		spent = 1;
	return (struct messages_set){ spent >= 0 ? line : 0, spent, number };
}

void scan_setting_seen(struct messages_set *set, const struct scan_setting *s, const char *start,
		       const char *at, const char *stop, uint64_t line)
{
	struct messages_set seen = { line, 1, -1 };
	int has_value = s->spent > SCAN_SET_NONE;

	if (stop - at < (ptrdiff_t)strlen(s->word) ||
	    (has_value && at > start && setting_is_name(at[-1]) && setting_is_name(*at)))
		return;
	if (has_value && at - start > 2 && !memcmp(at - 2, "/ ", 2))
		return; /* "tokens / sequences = 20000" is of the quotient */
	if (s->spent == SCAN_SET_LATE)
		seen = epoch_seen(at + strlen(s->word), stop, line);
	else if (has_value)
		seen = value_seen(s, start, at, stop, line);
	if (s->spent == SCAN_SET_NONE && (memmem(start, (size_t)(stop - start), "-ngl", 4) ||
					  memmem(start, (size_t)(stop - start), "layers", 6)))
		return;
	/* most say once more what is known, and need no closer look */
	if (!seen.line ||
	    (s->spent < SCAN_SET_LATE && has_value && set->line && set->spent == seen.spent &&
	     set->value <= seen.value && set->value >= seen.value))
		return;
	if (!is_anothers(s, start, at) && !is_advised(start, at, stop))
		*set = seen;
}

/* ---- scripts ---- */

#define WORDS_MAX 24 /* of a command, before its script */

int scan_command(const char *at, const char *stop, char *name, size_t size)
{
	for (int words = 0; at < stop && words < WORDS_MAX; words++) {
		const char *end = at, *from;

		while (end < stop && !strchr(" \t;|&\"'`<>", *end))
			end++;
		for (from = end; from > at && from[-1] != '/' && from[-1] != '\\';)
			from--;
		if (end - from > 3 && !memcmp(end - 3, ".py", 3)) {
			if ((size_t)(end - from) >= size)
				return 0;
			memcpy(name, from, (size_t)(end - from));
			name[end - from] = 0;
			return 1;
		}
		if (end < stop && *end != ' ' && *end != '\t')
			return 0;
		for (at = end; at < stop && (*at == ' ' || *at == '\t');)
			at++;
	}
	return 0;
}

enum messages_activity scan_script_does(const char *name)
{
	for (size_t i = 0; i < scan_script_part_count; i++)
		if (strcasestr(name, scan_script_parts[i].part))
			return scan_script_parts[i].does;
	return MESSAGES_DOING_UNKNOWN;
}
