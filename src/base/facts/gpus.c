#include "facts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */

#define NAME_BYTES 64

/* What says nothing of the memory. */
static const char *const noise[] = { "nvidia", "geforce", "tesla", "quadro", "amd",  "instinct",
				     "gpu",    "rtx",     "sxm",   "sxm2",   "sxm4", "sxm5",
				     "pcie",   "hbm2",    "hbm2e", "hbm3",   "gb",   "gib" };

static bool is_noise(const char *word)
{
	for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
		if (!strcmp(word, noise[i]))
			return true;
	return false;
}

/* Add a word of a name, in lower case: "80GB" is 80, "RTX4090" is 4090. */
static void add_word(char out[NAME_BYTES], const char *at, size_t n)
{
	char word[NAME_BYTES];
	size_t used = strlen(out), digits;

	if (n >= sizeof(word) - used)
		return;
	for (size_t i = 0; i < n; i++)
		word[i] = (char)tolower((unsigned char)at[i]);
	word[n] = 0;
	digits = strspn(word, "0123456789");
	if (digits && (!strcmp(word + digits, "gb") || !strcmp(word + digits, "g") ||
		       !strcmp(word + digits, "gib")))
		word[digits] = 0;
	if (is_noise(word))
		return;
	at = !strncmp(word, "rtx", 3) ? word + 3 : word;
	memcpy(out + used, at, strlen(at) + 1);
}

static void simplify(const char *name, char out[NAME_BYTES])
{
	*out = 0;
	while (*name) {
		size_t n = 0;

		while (isalnum((unsigned char)name[n]))
			n++;
		if (n)
			add_word(out, name, n);
		name += n + (name[n] != 0);
	}
}

/* "a100" is the beginning of "a10080": what is left out is how much memory it has. */
static bool lacks_memory(const char *asked, const char *known)
{
	size_t n = strlen(asked);

	return n && !strncmp(asked, known, n) && strlen(known + n) == 2 && known[n] != '0' &&
	       strspn(known + n, "0123456789") == 2;
}

/* Letters to change, to add and to take away (Levenshtein). */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_BYTES + 1], n = strlen(b);

	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t kept = corner + (a[i - 1] != b[j - 1]);
			size_t less = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;

			corner = row[j];
			row[j] = kept < less ? kept : less;
		}
	}
	return row[n];
}

#define GPUS_NEAR 3 /* that are proposed at most */

/* "; did you mean RTX 3090 or RTX 4090?": those that are nearest and have something in common. */
static void propose(const char *asked, char *out, size_t room)
{
	char known[NAME_BYTES];
	size_t best = strlen(asked), used = 0, told = 0, near = 0;

	*out = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < facts_gpu_count && told < GPUS_NEAR; i++) {
			size_t d;

			simplify(facts_gpus[i].name, known);
			d = distance(asked, known);
			if (!pass) {
				near = d < best ? 1 : near + (d == best && near);
				best = d < best ? d : best;
			} else if (near && d == best) {
				told++;
				used += (size_t)snprintf(
					out + used, room - used, "%s%s",
					told == 1 ? "; did you mean "
					: told == (near < GPUS_NEAR ? near : GPUS_NEAR) ? " or "
											: ", ",
					facts_gpus[i].name);
			}
		}
	}
	if (told)
		(void)snprintf(out + used, room - used, "?");
}

/* "24GB" is not a name: GPUs that have as much. */
static bool is_size(const char *name, uint64_t *gib)
{
	char *unit = NULL;

	*gib = isdigit((unsigned char)*name) ? strtoull(name, &unit, 10) : 0;
	return *gib &&
	       (!strcasecmp(unit, "g") || !strcasecmp(unit, "gb") || !strcasecmp(unit, "gib"));
}

static enum plim_status refuse_size(const char *name, uint64_t gib, const char *instead,
				    struct plim_err *err)
{
	char cards[600] = "";
	size_t used = 0;

	for (size_t i = 0; i < facts_gpu_count && used < sizeof(cards); i++) {
		const struct facts_gpu *g = &facts_gpus[i];
		uint64_t nominal = (g->total_high_bytes + g->total_high_bytes / 10) >> 30;

		/* a GPU shows a little less than its name has */
		if (g->total_high_bytes >> 30 <= gib && nominal >= gib)
			used += (size_t)snprintf(cards + used, sizeof(cards) - used, "%s%s",
						 used ? ", " : "", g->name);
	}
	return err_set(err, PLIM_E_ARG,
		       "'%.60s' is a size, and a GPU has less for PyTorch than its own: name the "
		       "GPU%s%s, or give %s",
		       name, used ? ", one of " : "", cards, instead);
}

enum plim_status facts_find_gpu(const char *name, const char *instead, const struct facts_gpu **out,
				struct plim_err *err)
{
	char asked[NAME_BYTES], known[NAME_BYTES], several[200];
	size_t used = 0, found = 0;
	uint64_t gib;

	*out = NULL;
	if (is_size(name, &gib))
		return refuse_size(name, gib, instead, err);
	simplify(name, asked);
	for (size_t i = 0; i < facts_gpu_count; i++) {
		const struct facts_gpu *g = &facts_gpus[i];

		simplify(g->name, known);
		if (!strcmp(asked, known)) {
			*out = g;
			return PLIM_OK;
		}
		if (!lacks_memory(asked, known))
			continue;
		used += (size_t)snprintf(several + used, sizeof(several) - used, "%s%s",
					 used ? " or " : "", g->name);
		*out = g;
		found++;
	}
	if (found == 1)
		return PLIM_OK;
	*out = NULL;
	if (found)
		return err_set(err, PLIM_E_ARG, "'%.60s' may be %s", name, several);
	propose(asked, several, sizeof(several));
	return err_set(err, PLIM_E_ARG, "unknown GPU '%.60s'%s%s give %s", name, several,
		       *several ? " Or" : ";", instead);
}
