/* Numbers with units as logs write them, each the interval that it can stand for. */
#include "scan.h"

#include <stdio.h>
#include <string.h>

const struct messages_bytes messages_unknown = { PLIM_UNKNOWN, PLIM_UNKNOWN };

#define KIB ((uint64_t)1 << 10)

/* "1900,00 MiB": how many digits stand behind a comma, which parts thousands only if they are three. */
static size_t digits_at(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && text[i] >= '0' && text[i] <= '9')
		i++;
	return i;
}

/* Digits, with commas between thousands where units are anybody's. */
static size_t parse_digits(const char *text, size_t n, int commas, double *whole)
{
	size_t i = 0, digits = 0;

	for (; i < n && digits <= 19; i++) {
		if (text[i] >= '0' && text[i] <= '9') {
			*whole = 10 * *whole + (text[i] - '0');
			digits++;
		} else if (!commas || text[i] != ',' || !digits ||
			   digits_at(text + i + 1, n - i - 1) != 3) {
			break;
		}
	}
	return digits && digits <= 19 ? i : 0;
}

static int is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static const struct scan_unit *find_unit(const char *text, size_t n, enum scan_unit_kind which)
{
	for (size_t u = 0; u < scan_unit_count; u++) {
		size_t len = strlen(scan_units[u].name);

		if ((which == SCAN_UNITS_PYTORCH && !scan_units[u].of_pytorch) || n < len ||
		    memcmp(text, scan_units[u].name, len))
			continue;
		/* "12 Messages" are not mebibytes */
		if (which != SCAN_UNITS_PYTORCH && len && n > len && is_letter(text[len]))
			continue;
		return &scan_units[u];
	}
	return NULL;
}

/* Digits behind a point, or numpy's "926. GiB": where they end. */
static size_t parse_part(const char *text, size_t n, size_t i, enum scan_unit_kind which,
			 double *whole, double *scale)
{
	if (i + 1 < n && (text[i] == '.' || (text[i] == ',' && which != SCAN_UNITS_PYTORCH)) &&
	    text[i + 1] >= '0' && text[i + 1] <= '9') {
		for (i++; i < n && text[i] >= '0' && text[i] <= '9' && *scale < 1e6; *scale *= 10)
			*whole = 10 * *whole + (text[i++] - '0');
		return i;
	}
	return i + (i + 1 < n && text[i] == '.' && text[i + 1] == ' ');
}

size_t scan_size(const char *text, size_t n, enum scan_unit_kind which, struct messages_bytes *out)
{
	double whole = 0, scale = 1, low, high, slack;
	size_t i = parse_digits(text, n, which != SCAN_UNITS_PYTORCH, &whole), at;
	const struct scan_unit *unit;

	if (!i)
		return 0;
	i = parse_part(text, n, i, which, &whole, &scale);
	at = i < n && text[i] == ' ' ? i + 1 : i;
	unit = find_unit(text + at, n - at, which);
	if (!unit || (!*unit->name && scale > 1)) /* a part of a byte is another number */
		return 0;
	/* the kernel's whole kB are exact, larger units are rounded */
	slack = unit->low > (which == SCAN_UNITS_PYTORCH || scale > 1 ? 1 : KIB) ? 0.5 / scale : 0;
	low = (whole / scale - slack) *
	      (double)(which == SCAN_UNITS_BINARY ? unit->high : unit->low);
	low = low > 0 ? low : 0;
	high = whole / scale * (double)unit->high + slack * (double)unit->high;
	if (high >= 0x1p63)
		return 0;
	out->low = (uint64_t)low;
	out->low += (double)out->low < low;
	out->high = (uint64_t)high;
	if (out->low > out->high) /* more decimals than there are bytes: between two */
		out->low = out->high;
	if (unit->of_pytorch && which == SCAN_UNITS_PYTORCH) {
		if (unit->low > 1 && out->low <= unit->low && out->high > unit->low)
			out->low = unit->low + 1;
		if (out->high > unit->most && out->low <= unit->most)
			out->high = unit->most;
	}
	return *unit->name ? at + strlen(unit->name) : i;
}

/* A range wider than this part of it is shown by both its ends: it is a difference of rounded numbers. */
#define WIDE_PART 32

const char *messages_size(char *buffer, struct messages_bytes b)
{
	char low[32], high[32], *unit;

	if (b.low == PLIM_UNKNOWN || b.high - b.low <= b.high / WIDE_PART)
		return text_size(buffer, b.low != PLIM_UNKNOWN ? b.low + (b.high - b.low) / 2
							       : PLIM_UNKNOWN);
	text_size(low, b.low);
	text_size(high, b.high);
	/* "163.84 to 184.32 MiB" */
	unit = strchr(low, ' ');
	if (unit && strchr(high, ' ') && !strcmp(unit, strchr(high, ' ')))
		*unit = 0;
	snprintf(buffer, MESSAGES_SIZE, "%s to %s", low, high);
	return buffer;
}

struct messages_bytes messages_plus(struct messages_bytes a, struct messages_bytes b)
{
	const uint64_t most = PLIM_UNKNOWN - 1;

	return (struct messages_bytes){ a.low < most - b.low ? a.low + b.low : most,
					a.high < most - b.high ? a.high + b.high : most };
}

struct messages_bytes messages_less(struct messages_bytes a, struct messages_bytes b)
{
	return (struct messages_bytes){ a.low > b.high ? a.low - b.high : 0,
					a.high > b.low ? a.high - b.low : 0 };
}
