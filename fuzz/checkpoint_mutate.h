/*
 * Mutations that leave right what a reader looks at first: a zip's directory and checksums, the length of
 * safetensors' header, the parts of a folder.  What is inside is changed, a pickle by its opcodes.  One in four
 * mutations is plain, and breaks these too.
 */
#ifndef FUZZ_CHECKPOINT_MUTATE_H
#define FUZZ_CHECKPOINT_MUTATE_H

#define MUTATE_NO_ENTRY
#include "pickle_mutate.h"

#include <libdeflate.h>

#define MUTATE_FOLDER "FOLDER" /* then parts: a byte, four of length, the bytes */
#define MUTATE_MEMBERS 64
#define MUTATE_ROOM ((size_t)1 << 18)

struct mutate_member {
	const uint8_t *name;
	uint8_t *data;
	size_t name_n, n;
};

static uint64_t mutate_le(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

/* What the bytes are in: their buffers are in use, so another inside is changed as bytes. */
enum { MUTATE_IN_FOLDER = 1, MUTATE_IN_ZIP = 2 };

static size_t mutate_any(uint8_t *p, size_t n, size_t max, unsigned in, uint32_t *seed);

/* ---- zip ---- */

/* The record of a directory entry, inflated into what is left of `room`; false: it makes no sense. */
static bool mutate_member(const uint8_t *p, size_t n, const uint8_t *entry, struct mutate_member *m,
			  uint8_t *room, size_t left)
{
	size_t stored = mutate_le(entry + 20, 4), header = mutate_le(entry + 42, 4), data;
	struct libdeflate_decompressor *d;
	bool whole;

	*m = (struct mutate_member){ entry + 46, room, mutate_le(entry + 28, 2),
				     mutate_le(entry + 24, 4) };
	if (header > n || n - header < 30 || m->n > left)
		return false;
	data = header + 30 + mutate_le(p + header + 26, 2) + mutate_le(p + header + 28, 2);
	if (data > n || stored > n - data || (!mutate_le(entry + 10, 2) && stored != m->n))
		return false;
	if (!mutate_le(entry + 10, 2)) {
		memcpy(room, p + data, stored);
		return true;
	}
	d = libdeflate_alloc_decompressor();
	whole = d && !libdeflate_deflate_decompress(d, p + data, stored, room, m->n, NULL);
	libdeflate_free_decompressor(d);
	return whole;
}

static size_t mutate_members(const uint8_t *p, size_t n, struct mutate_member *m, uint8_t *room)
{
	size_t end = n < 22 ? 0 : n - 22, at, count = 0, used = 0;

	while (end && memcmp(p + end, "PK\5\6", 4) != 0)
		end--;
	at = end ? mutate_le(p + end + 16, 4) : n;
	while (count < MUTATE_MEMBERS && at + 46 <= end && !memcmp(p + at, "PK\1\2", 4)) {
		size_t name = mutate_le(p + at + 28, 2);

		if (at + 46 + name > end ||
		    !mutate_member(p, n, p + at, &m[count], room + used, MUTATE_ROOM - used))
			break;
		used += m[count++].n;
		at += 46 + name + mutate_le(p + at + 30, 2) + mutate_le(p + at + 32, 2);
	}
	return count;
}

static size_t mutate_put(uint8_t *out, size_t at, uint64_t v, size_t n)
{
	memcpy(out + at, &v, n);
	return at + n;
}

/* What a local header and a directory entry have in common, from the version needed on. */
static size_t mutate_put_facts(uint8_t *out, size_t at, const struct mutate_member *m)
{
	at = mutate_put(out, at, 20, 2);
	at = mutate_put(out, at, 0, 8); /* flags, stored, time */
	at = mutate_put(out, at, libdeflate_crc32(0, m->data, m->n), 4);
	at = mutate_put(out, at, m->n, 4);
	at = mutate_put(out, at, m->n, 4);
	at = mutate_put(out, at, m->name_n, 2);
	return mutate_put(out, at, 0, 2); /* no extra field */
}

/* A zip of stored records; 0: there is no room for it. */
static size_t mutate_write_zip(uint8_t *out, size_t max, const struct mutate_member *m,
			       size_t count)
{
	size_t at = 0, headers[MUTATE_MEMBERS], size = 22, directory;

	for (size_t i = 0; i < count; i++)
		size += 76 + 2 * m[i].name_n + m[i].n;
	if (size > max)
		return 0;
	for (size_t i = 0; i < count; i++) {
		headers[i] = at;
		at = mutate_put_facts(out, mutate_put(out, at, 0x04034b50, 4), &m[i]);
		memcpy(out + at, m[i].name, m[i].name_n);
		memcpy(out + at + m[i].name_n, m[i].data, m[i].n);
		at += m[i].name_n + m[i].n;
	}
	directory = at;
	for (size_t i = 0; i < count; i++) {
		at = mutate_put(out, mutate_put(out, at, 0x02014b50, 4), 20, 2);
		at = mutate_put_facts(out, at, &m[i]);
		at = mutate_put(out, at, 0, 6); /* comment, disk, attributes */
		at = mutate_put(out, at, 0, 4);
		at = mutate_put(out, at, headers[i], 4);
		memcpy(out + at, m[i].name, m[i].name_n);
		at += m[i].name_n;
	}
	size = at - directory;
	at = mutate_put(out, mutate_put(out, at, 0x06054b50, 4), 0, 4);
	at = mutate_put(out, mutate_put(out, at, count, 2), count, 2);
	at = mutate_put(out, mutate_put(out, at, size, 4), directory, 4);
	return mutate_put(out, at, 0, 2);
}

/* One record is changed, left out, or takes another's name. */
static size_t mutate_zip(uint8_t *p, size_t n, size_t max, unsigned in, uint32_t *seed)
{
	static uint8_t room[MUTATE_ROOM], changed[MUTATE_ROOM], out[MUTATE_ROOM];
	struct mutate_member m[MUTATE_MEMBERS];
	size_t count = mutate_members(p, n, m, room), i, size;

	if (!count)
		return 0;
	i = mutate_next(seed) % (mutate_next(seed) % 2 ? count : 1);
	switch (mutate_next(seed) % 16) {
	case 0: m[i] = m[--count]; break;
	case 1:
		m[i].name = m[mutate_next(seed) % count].name;
		m[i].name_n = m[mutate_next(seed) % count].name_n;
		break;
	default:
		memcpy(changed, m[i].data, m[i].n);
		m[i].data = changed;
		m[i].n = mutate_any(changed, m[i].n, max < MUTATE_ROOM ? max : MUTATE_ROOM,
				    in | MUTATE_IN_ZIP, seed);
	}
	size = mutate_write_zip(out, max < MUTATE_ROOM ? max : MUTATE_ROOM, m, count);
	memcpy(p, out, size);
	return size;
}

/* ---- a folder, safetensors ---- */

static size_t mutate_folder(uint8_t *p, size_t n, size_t max, unsigned in, uint32_t *seed)
{
	size_t starts[MUTATE_MEMBERS], count = 0, at = sizeof(MUTATE_FOLDER) - 1, length, size;
	static uint8_t part[MUTATE_ROOM];

	for (; count < MUTATE_MEMBERS && n - at >= 5; at += 5 + length) {
		starts[count++] = at;
		length = mutate_le(p + at + 1, 4);
		length = length > n - at - 5 ? n - at - 5 : length;
	}
	if (!count)
		return 0;
	at = starts[mutate_next(seed) % count];
	length = mutate_le(p + at + 1, 4);
	length = length > n - at - 5 ? n - at - 5 : length;
	if (length > MUTATE_ROOM || max - (n - length) > MUTATE_ROOM)
		return 0;
	memcpy(part, p + at + 5, length);
	size = mutate_any(part, length, max - (n - length), in | MUTATE_IN_FOLDER, seed);
	n = mutate_replace(p, n, max, at + 5, at + 5 + length, part, size);
	mutate_put(p, at + 1, size, 4);
	return n;
}

static size_t mutate_safetensors(uint8_t *p, size_t n, size_t max)
{
	static uint8_t header[MUTATE_ROOM];
	uint64_t length = mutate_le(p, 8), size;

	if (length > MUTATE_ROOM || max - (n - length) > MUTATE_ROOM)
		return 0;
	memcpy(header, p + 8, length);
	size = LLVMFuzzerMutate(header, length, max - (n - length));
	n = mutate_replace(p, n, max, 8, 8 + length, header, size);
	mutate_put(p, 0, size, 8);
	return n;
}

/* ---- all ---- */

static size_t mutate_any(uint8_t *p, size_t n, size_t max, unsigned in, uint32_t *seed)
{
	size_t folder = sizeof(MUTATE_FOLDER) - 1, made = 0;

	if (mutate_next(seed) % 4 == 0)
		return LLVMFuzzerMutate(p, n, max);
	if (!(in & MUTATE_IN_FOLDER) && n >= folder && !memcmp(p, MUTATE_FOLDER, folder))
		made = mutate_folder(p, n, max, in, seed);
	else if (!(in & MUTATE_IN_ZIP) && n >= 30 && !memcmp(p, "PK\3\4", 4))
		made = mutate_zip(p, n, max, in, seed);
	else if (n > 9 && p[8] == '{' && mutate_le(p, 8) <= n - 8)
		made = mutate_safetensors(p, n, max);
	else if (n > 2 && p[0] == 0x80)
		made = mutate_pickle(p, n, max, mutate_next(seed));
	return made ? made : LLVMFuzzerMutate(p, n, max);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed)
{
	uint32_t next = seed * 2654435761u + 1;

	return mutate_any(bytes, n, max, 0, &next);
}

#endif
