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

#define SIZE_MOST_GIB 512 /* a number without a unit beyond it is a name: 4090 */

/* "24GB", "24 GB", "24": as much memory as a GPU's name says. */
static bool is_size(const char *name, uint64_t *gib)
{
	char *unit = NULL;

	*gib = isdigit((unsigned char)*name) ? strtoull(name, &unit, 10) : 0;
	if (!*gib)
		return false;
	while (*unit == ' ')
		unit++;
	return (!*unit && *gib <= SIZE_MOST_GIB) || !strcasecmp(unit, "g") ||
	       !strcasecmp(unit, "gb") || !strcasecmp(unit, "gib");
}

#define GIB ((uint64_t)1 << 30)

/* Is `gib` what its name says?  A GPU shows a little less than its name has. */
static bool is_nominal(const struct facts_gpu *g, uint64_t gib)
{
	uint64_t least = (g->total_high_bytes + GIB - 1) / GIB;

	/* sizes that are sold are even, except for those that are shown whole (11, 141) */
	return gib == least || (gib > least && gib % 2 == 0 &&
				gib * GIB <= g->total_high_bytes + g->total_high_bytes / 10);
}

const struct facts_gpu *facts_gpu_of_size(const char *name, char *others, size_t room)
{
	const struct facts_gpu *least = NULL;
	size_t used = 0;
	uint64_t gib;

	*others = 0;
	if (!is_size(name, &gib))
		return NULL;
	for (size_t i = 0; i < facts_gpu_count; i++)
		if (is_nominal(&facts_gpus[i], gib) &&
		    (!least || facts_gpus[i].total_low_bytes < least->total_low_bytes))
			least = &facts_gpus[i];
	for (size_t i = 0; least && i < facts_gpu_count && used < room; i++)
		if (is_nominal(&facts_gpus[i], gib) && &facts_gpus[i] != least)
			used += (size_t)snprintf(others + used, room - used, "%s%s",
						 used ? ", " : "", facts_gpus[i].name);
	return least;
}

/* "RTX 4090 24GB": a name, and the size that it has anyway. */
static bool find_with_size(const char *name, const struct facts_gpu **out)
{
	const char *last = strrchr(name, ' ');
	char before[NAME_BYTES];
	uint64_t gib;

	if (!last || !is_size(last + 1, &gib) || (size_t)(last - name) >= sizeof(before))
		return false;
	memcpy(before, name, (size_t)(last - name));
	before[last - name] = 0;
	if (facts_find_gpu(before, "", out, NULL) || !is_nominal(*out, gib))
		*out = NULL;
	return *out;
}

enum plim_status facts_find_gpu(const char *name, const char *instead, const struct facts_gpu **out,
				struct plim_err *err)
{
	char asked[NAME_BYTES], known[NAME_BYTES], several[200];
	size_t used = 0, found = 0;

	simplify(name, asked);
	*out = NULL;
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
	*out = found ? NULL : facts_gpu_of_size(name, several, sizeof(several));
	if (*out)
		return PLIM_OK;
	if (found)
		return err_set(err, PLIM_E_ARG, "'%.60s' may be %s", name, several);
	if (find_with_size(name, out))
		return PLIM_OK;
	propose(asked, several, sizeof(several));
	return err_set(err, PLIM_E_ARG, "unknown GPU '%.60s'%s%s give %s", name, several,
		       *several ? " Or" : ";", instead);
}
