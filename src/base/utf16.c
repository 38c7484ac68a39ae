/*
 * Text in UTF-16 behind its byte order mark, as PowerShell's > writes it, to UTF-8.  Half a pair becomes U+FFFD; half a
 * character at the end is left out, for the file may still be written.
 */
#include "codec_kinds.h"
#include "utf8.h"

#include <string.h>

#define REPLACEMENT 0xfffd

enum plim_status utf16_start(struct codec *c, struct plim_err *err)
{
	(void)err;
	c->u.utf16 = (struct utf16){ 0 };
	return PLIM_OK;
}

void utf16_stop(struct codec *c)
{
	(void)c;
}

/* The next unit; false: all that is there was read. */
static bool next_unit(struct codec *c, uint32_t *unit)
{
	struct utf16 *u = &c->u.utf16;

	while (c->in_pos < c->in_n) {
		uint8_t byte = c->in[c->in_pos++];

		if (!u->has_first) {
			u->first = byte;
			u->has_first = true;
			continue;
		}
		u->has_first = false;
		*unit = u->big ? (uint32_t)u->first << 8 | byte : (uint32_t)byte << 8 | u->first;
		return true;
	}
	return false;
}

/* What a unit makes of the one before, into u->held: nothing, a character, or two. */
static void take_unit(struct utf16 *u, uint32_t unit)
{
	u->at = u->n = 0;
	if (!u->begun) { /* the mark */
		u->begun = true;
		u->big = unit != 0xfeff;
		return;
	}
	if (u->high && unit >= 0xdc00 && unit < 0xe000) {
		u->n = utf8_encode(0x10000 + ((u->high - 0xd800) << 10) + (unit - 0xdc00), u->held);
		u->high = 0;
		return;
	}
	if (u->high)
		u->n = utf8_encode(REPLACEMENT, u->held);
	u->high = unit >= 0xd800 && unit < 0xdc00 ? unit : 0;
	if (!u->high)
		u->n += utf8_encode(unit >= 0xdc00 && unit < 0xe000 ? REPLACEMENT : unit,
				    u->held + u->n);
}

enum plim_status utf16_step(struct codec *c, uint8_t *at, size_t room, size_t *made,
			    struct plim_err *err)
{
	struct utf16 *u = &c->u.utf16;
	uint32_t unit;

	(void)err;
	for (;;) {
		size_t n = u->n - u->at < room - *made ? u->n - u->at : room - *made;

		memcpy(at + *made, u->held + u->at, n);
		*made += n;
		u->at += n;
		c->between = u->at == u->n;
		if (!c->between || !next_unit(c, &unit))
			return PLIM_OK;
		take_unit(u, unit);
	}
}
