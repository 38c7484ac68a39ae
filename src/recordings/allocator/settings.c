/*
 * PYTORCH_CUDA_ALLOC_CONF: a comma list of key:value.  PyTorch drops blanks wherever they stand and
 * takes , : [ ] as words of their own, so that is how it is read here.
 */
#include "allocator.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define WORD_MAX 64

struct reading {
	const char *at;
	char word[WORD_MAX]; /* the current one; "" at the end */
	const char *key;     /* whose value is being read, for errors */
	struct allocator_rules *rules;
	unsigned release; /* 100 * major + minor; 0: the newest */
	struct plim_err *err;
};

static int is_mark(char c)
{
	return c && strchr(",:[]", c) != NULL;
}

/* The next word.  One that is too long for any key or value is cut, and then matches none. */
static void setting_next(struct reading *r)
{
	size_t n = 0;

	while (*r->at == ' ')
		r->at++;
	if (is_mark(*r->at))
		r->word[n++] = *r->at++;
	else
		for (; *r->at && !is_mark(*r->at); r->at++)
			if (*r->at != ' ' && n + 1 < WORD_MAX)
				r->word[n++] = *r->at;
	r->word[n] = 0;
}

static int is(const struct reading *r, const char *word)
{
	return !strcmp(r->word, word);
}

static enum plim_status refuse_setting(struct reading *r, const char *wanted)
{
	return err_set(r->err, PLIM_E_ARG, "setting '%s' takes %s, not '%s'", r->key, wanted,
		       r->word);
}

static enum plim_status take_setting(struct reading *r, const char *word)
{
	if (!is(r, word))
		return err_set(r->err, PLIM_E_ARG, "setting '%s': expected '%s', not '%s'", r->key,
			       word, r->word);
	setting_next(r);
	return PLIM_OK;
}

/* A whole number without sign. */
static int setting_number(const char *word, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long v;

	errno = 0;
	v = isdigit((unsigned char)*word) ? strtoull(word, &end, 10) : 0;
	if (!isdigit((unsigned char)*word) || *end || errno || v > max)
		return 0;
	*out = v;
	return 1;
}

static enum plim_status mebibytes(struct reading *r, uint64_t min, const char *wanted,
				  uint64_t *bytes)
{
	uint64_t v;

	if (!setting_number(r->word, UINT64_MAX / MIB, &v) || v < min)
		return refuse_setting(r, wanted);
	*bytes = v * MIB;
	setting_next(r);
	return PLIM_OK;
}

static enum plim_status more_than_20(struct reading *r, uint64_t *bytes)
{
	if (r->rules->release->split_above_20)
		return mebibytes(r, 21, "MiB, more than 20", bytes);
	return mebibytes(r, 20, "MiB, at least 20", bytes);
}

static enum plim_status set_max_split(struct reading *r)
{
	return more_than_20(r, &r->rules->max_split_bytes);
}

static enum plim_status set_nonsplit_rounding(struct reading *r)
{
	return more_than_20(r, &r->rules->max_nonsplit_rounding_bytes);
}

static enum plim_status set_large_segment(struct reading *r)
{
	return mebibytes(r, 20, "MiB, at least 20", &r->rules->large_segment_bytes);
}

static enum plim_status fraction(struct reading *r, const char *wanted, double max, double *out)
{
	char *end;
	double v = strtod(r->word, &end);

	if (end == r->word || *end || !(v > 0 && v <= max))
		return refuse_setting(r, wanted);
	*out = v;
	setting_next(r);
	return PLIM_OK;
}

static enum plim_status set_gc_threshold(struct reading *r)
{
	return fraction(r, "a fraction between 0 and 1", 0x1.fffffffffffffp-1,
			&r->rules->gc_threshold);
}

static enum plim_status set_memory_fraction(struct reading *r)
{
	return fraction(r, "a fraction, above 0 and up to 1", 1, &r->rules->memory_fraction);
}

static enum plim_status boolean(struct reading *r, uint8_t *out)
{
	if (!is(r, "True") && !is(r, "False"))
		return refuse_setting(r, "True or False");
	*out = is(r, "True") ? 1 : 0;
	setting_next(r);
	return PLIM_OK;
}

static enum plim_status set_expandable(struct reading *r)
{
	return boolean(r, &r->rules->expandable);
}

/* Read, checked, and without effect on the memory of the device. */
static enum plim_status set_other_flag(struct reading *r)
{
	uint8_t ignored;

	return boolean(r, &ignored);
}

static enum plim_status set_other_number(struct reading *r)
{
	uint64_t ignored;

	if (!setting_number(r->word, INT64_MAX, &ignored))
		return refuse_setting(r, "a whole number");
	setting_next(r);
	return PLIM_OK;
}

static enum plim_status set_backend(struct reading *r)
{
	if (!is(r, "native") && !is(r, "cudaMallocAsync"))
		return refuse_setting(r, "native or cudaMallocAsync");
	r->rules->not_modelled = is(r, "native") ? 0 : 1;
	setting_next(r);
	return PLIM_OK;
}

static enum plim_status divisions(struct reading *r, uint32_t *out)
{
	uint64_t v;

	if (!setting_number(r->word, 1u << 30, &v) || (v & (v - 1)))
		return refuse_setting(r, "divisions that are a power of two");
	*out = (uint32_t)v;
	setting_next(r);
	return PLIM_OK;
}

static void fill_setting(struct reading *r, unsigned from, unsigned to, uint32_t value)
{
	for (unsigned i = from; i < to; i++)
		r->rules->roundup_divisions[i] = value;
}

/* The table's entry for an interval named by its size in MiB. */
static enum plim_status interval(struct reading *r, unsigned *entry)
{
	uint64_t v;

	if (!setting_number(r->word, UINT64_MAX, &v) || !v || (v & (v - 1)))
		return refuse_setting(r, "intervals that are a power of two in MiB, or >");
	*entry = 63u - (unsigned)__builtin_clzll(v);
	if (*entry >= TRACE_ROUNDUP_ENTRIES)
		*entry = TRACE_ROUNDUP_ENTRIES - 1;
	setting_next(r);
	return PLIM_OK;
}

/* [256:1,512:2,>:4]: the first interval's value also holds below it, `>` holds for the rest. */
static enum plim_status set_roundup_list(struct reading *r)
{
	unsigned last = 0, first = 1, rest;
	enum plim_status st = take_setting(r, "[");

	while (!st && !is(r, "]")) {
		unsigned entry = 0;
		uint32_t value = 0;

		rest = is(r, ">");
		if (rest)
			setting_next(r);
		else
			st = interval(r, &entry);
		if (!st)
			st = take_setting(r, ":");
		if (!st)
			st = divisions(r, &value);
		if (st)
			break;
		if (rest) {
			int after = !first && !r->rules->release->rest_includes_last;

			fill_setting(r, last + (unsigned)after, TRACE_ROUNDUP_ENTRIES, value);
		} else {
			fill_setting(r, first ? 0 : entry, entry + 1, value);
			first = 0;
			last = entry;
		}
		if (!is(r, "]"))
			st = take_setting(r, ",");
	}
	return st ? st : take_setting(r, "]");
}

static enum plim_status set_roundup(struct reading *r)
{
	uint32_t value = 0;
	enum plim_status st;

	if (is(r, "["))
		return set_roundup_list(r);
	st = divisions(r, &value);
	if (!st)
		fill_setting(r, 0, TRACE_ROUNDUP_ENTRIES, value);
	return st;
}

static const struct setting {
	const char *name;
	unsigned since; /* the release that first took it */
	enum plim_status (*set)(struct reading *);
} settings[] = {
	{ "backend", 0, set_backend },
	{ "expandable_segments", 0, set_expandable },
	{ "garbage_collection_threshold", 0, set_gc_threshold },
	{ "graph_capture_record_stream_reuse", 209, set_other_flag },
	{ "large_segment_size_mb", 210, set_large_segment },
	{ "max_non_split_rounding_mb", 205, set_nonsplit_rounding },
	{ "max_split_size_mb", 0, set_max_split },
	{ "per_process_memory_fraction", 210, set_memory_fraction },
	{ "pinned_num_register_threads", 0, set_other_number },
	{ "pinned_reserve_segment_size_mb", 210, set_other_number },
	{ "pinned_use_background_threads", 0, set_other_flag },
	{ "pinned_use_cuda_host_register", 0, set_other_flag },
	{ "release_lock_on_cudamalloc", 0, set_other_flag },
	{ "roundup_power2_divisions", 0, set_roundup },
	{ "throw_on_cudamalloc_oom", 210, set_other_flag },
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

/* Letters that both begin and end with, if these are three of four letters of the longer one. */
static size_t alike(const char *a, const char *b)
{
	size_t na = strlen(a), nb = strlen(b), begin = 0, end = 0, shorter = na < nb ? na : nb;

	while (begin < shorter && a[begin] == b[begin])
		begin++;
	while (end < shorter - begin && a[na - 1 - end] == b[nb - 1 - end])
		end++;
	return 4 * (begin + end) >= 3 * (na > nb ? na : nb) ? begin + end : 0;
}

static enum plim_status unknown(const struct reading *r)
{
	char known[600] = "", near[80] = "";
	size_t n = 0, most = 0;

	for (size_t i = 0; i < SETTINGS; i++) {
		int more;

		if (r->release && settings[i].since > r->release)
			continue;
		if (alike(r->word, settings[i].name) > most) {
			most = alike(r->word, settings[i].name);
			snprintf(near, sizeof(near), "; did you mean %s?", settings[i].name);
		}
		more = snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
				settings[i].name);
		if (more < 0 || (size_t)more >= sizeof(known) - n) {
			known[n] = '\0'; /* no half of a name */
			break;
		}
		n += (size_t)more;
	}
	return err_set(r->err, PLIM_E_ARG, "unknown allocator setting '%s'%s%s", r->word,
		       most ? near : "; known are ", most ? "" : known);
}

static enum plim_status setting_one(struct reading *r)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		enum plim_status st;

		if (!is(r, settings[i].name) || (r->release && settings[i].since > r->release))
			continue;
		r->key = settings[i].name;
		setting_next(r);
		st = take_setting(r, ":");
		return st ? st : settings[i].set(r);
	}
	return unknown(r);
}

enum plim_status allocator_rules_parse(const char *conf, unsigned release,
				       struct allocator_rules *out, struct plim_err *err)
{
	struct allocator_rules rules = allocator_rules_default(release);
	struct reading r = { .at = conf, .rules = &rules, .release = release, .err = err };
	enum plim_status st = PLIM_OK;

	setting_next(&r);
	while (!st && *r.word) {
		st = setting_one(&r);
		if (st || !*r.word)
			break;
		st = take_setting(&r, ",");
	}
	*out = st ? allocator_rules_default(release) : rules;
	return st;
}
