/*
 * The zip that torch.load reads, piece by piece: what stands before, between and behind the bytes of its records.  Who
 * writes it says where a record begins and, once its bytes are known, their checksum.
 *
 *	archive/data.pkl	the object, protocol 2
 *	archive/byteorder
 *	archive/data/0 ...	a storage each; tensors that are one and the same share it
 *	archive/version
 *	[directory] [zip64 end] [locator] [end]
 *
 * Each record: a local header without sizes, padding so that the data begin at a multiple of 64, the data,
 * and a descriptor with checksum and sizes.  .format_version is left out on purpose: with it torch
 * computes where records are instead of reading it.
 */
#include "write_pickle.h"

#include <stdio.h>
#include <string.h>

#define ALIGNMENT 64
#define WIDE UINT32_MAX /* sizes from here on stand in a zip64 block */

enum { FLAG_DESCRIPTOR = 8, FLAG_UTF8 = 0x800, EXTRA_ZIP64 = 1, EXTRA_TORCH = 0x4246 };

/* ---- the zip ---- */

void torch_record_begin(struct text *t, const struct torch_record *r)
{
	size_t wide = r->bytes >= WIDE ? 20 : 0, name_n = strlen(r->name);
	size_t padding = (size_t)(-(r->header + 30 + name_n + wide + 4) % ALIGNMENT);

	ckpt_pickle_put_le(t, 0x04034b50, 4);
	ckpt_pickle_put_le(t, 0, 2);
	ckpt_pickle_put_le(t, FLAG_UTF8 | (r->bytes ? FLAG_DESCRIPTOR : 0), 2);
	for (int i = 0; i < 3; i++) /* method, time and date, crc, both sizes: 18 bytes */
		ckpt_pickle_put_le(t, 0, 6);
	ckpt_pickle_put_le(t, name_n, 2);
	ckpt_pickle_put_le(t, wide + 4 + padding, 2);
	text_put(t, r->name, name_n);
	if (wide) {
		ckpt_pickle_put_le(t, EXTRA_ZIP64, 2);
		ckpt_pickle_put_le(t, 16, 2);
		ckpt_pickle_put_le(t, r->bytes, 8);
		ckpt_pickle_put_le(t, r->bytes, 8);
	}
	ckpt_pickle_put_le(t, EXTRA_TORCH, 2);
	ckpt_pickle_put_le(t, padding, 2);
	text_repeat(t, "Z", (unsigned)padding);
}

void torch_record_end(struct text *t, const struct torch_record *r)
{
	size_t width = r->bytes >= WIDE ? 8 : 4;

	if (!r->bytes)
		return;
	ckpt_pickle_put_le(t, 0x08074b50, 4);
	ckpt_pickle_put_le(t, r->crc, 4);
	ckpt_pickle_put_le(t, r->bytes, width);
	ckpt_pickle_put_le(t, r->bytes, width);
}

void torch_record_list(struct text *t, const struct torch_record *r)
{
	size_t name_n = strlen(r->name),
	       wide = (r->bytes >= WIDE ? 16 : 0) + (r->header >= WIDE ? 8 : 0);

	ckpt_pickle_put_le(t, 0x02014b50, 4);
	ckpt_pickle_put_le(t, 0, 4); /* made by, needed */
	ckpt_pickle_put_le(t, FLAG_UTF8 | (r->bytes ? FLAG_DESCRIPTOR : 0), 2);
	ckpt_pickle_put_le(t, 0, 6); /* stored; no time */
	ckpt_pickle_put_le(t, r->crc, 4);
	ckpt_pickle_put_le(t, r->bytes >= WIDE ? WIDE : r->bytes, 4);
	ckpt_pickle_put_le(t, r->bytes >= WIDE ? WIDE : r->bytes, 4);
	ckpt_pickle_put_le(t, name_n, 2);
	ckpt_pickle_put_le(t, wide ? wide + 4 : 0, 2);
	ckpt_pickle_put_le(t, 0, 6); /* comment, disk, attributes within */
	ckpt_pickle_put_le(t, 0, 4); /* attributes */
	ckpt_pickle_put_le(t, r->header >= WIDE ? WIDE : r->header, 4);
	text_put(t, r->name, name_n);
	if (!wide)
		return;
	ckpt_pickle_put_le(t, EXTRA_ZIP64, 2);
	ckpt_pickle_put_le(t, wide, 2);
	if (r->bytes >= WIDE) {
		ckpt_pickle_put_le(t, r->bytes, 8);
		ckpt_pickle_put_le(t, r->bytes, 8);
	}
	if (r->header >= WIDE)
		ckpt_pickle_put_le(t, r->header, 8);
}

void torch_directory_end(struct text *t, uint64_t from, uint64_t bytes, uint64_t n)
{
	ckpt_pickle_put_le(t, 0x06064b50, 4);
	ckpt_pickle_put_le(t, 44, 8);
	ckpt_pickle_put_le(t, 0x002d031e, 4); /* made by, needed: as torch writes them */
	ckpt_pickle_put_le(t, 0, 8);          /* disks */
	ckpt_pickle_put_le(t, n, 8);
	ckpt_pickle_put_le(t, n, 8);
	ckpt_pickle_put_le(t, bytes, 8);
	ckpt_pickle_put_le(t, from, 8);
	ckpt_pickle_put_le(t, 0x07064b50, 4);
	ckpt_pickle_put_le(t, 0, 4);
	ckpt_pickle_put_le(t, from + bytes, 8);
	ckpt_pickle_put_le(t, 1, 4);
	ckpt_pickle_put_le(t, 0x06054b50, 4);
	ckpt_pickle_put_le(t, 0, 4);
	ckpt_pickle_put_le(t, n < UINT16_MAX ? n : UINT16_MAX, 2);
	ckpt_pickle_put_le(t, n < UINT16_MAX ? n : UINT16_MAX, 2);
	ckpt_pickle_put_le(t, bytes < WIDE ? bytes : WIDE, 4);
	ckpt_pickle_put_le(t, from < WIDE ? from : WIDE, 4);
	ckpt_pickle_put_le(t, 0, 2);
}

/* ---- tensors ---- */

static void put_ints(struct text *t, const uint64_t *v, size_t n)
{
	text_puts(t, "(");
	for (size_t i = 0; i < n; i++)
		ckpt_pickle_put_int(t, (int64_t)v[i]);
	text_puts(t, "t");
}

static void row_major(uint64_t *strides, const uint64_t *sizes, size_t n)
{
	uint64_t step = 1;

	for (size_t i = n; i--;) {
		strides[i] = step;
		step *= sizes[i];
		step = step ? step : 1;
	}
}

void torch_pickle_string(struct text *t, const char *s, size_t n)
{
	ckpt_pickle_put_string(t, s, n);
}

void torch_pickle_tensor(struct text *t, const struct torch_tensor *x)
{
	const struct ckpt_dtype *d = x->dtype;
	uint64_t strides[CKPT_DIMS], count = 1;
	char key[16];
	int n = snprintf(key, sizeof(key), "%u", x->storage);

	for (size_t i = 0; i < x->rank; i++)
		count *= x->shape[i];
	row_major(strides, x->shape, x->rank);
	text_printf(t, "ctorch._utils\n_rebuild_tensor_v%d\n((", d->storage ? 2 : 3);
	ckpt_pickle_put_string(t, "storage", 7);
	text_printf(t, "ctorch%s\n%s\n", d->storage ? "" : ".storage",
		    d->storage ? d->storage : "UntypedStorage");
	ckpt_pickle_put_string(t, key, (size_t)n);
	ckpt_pickle_put_string(t, "cpu", 3);
	ckpt_pickle_put_int(t, (int64_t)(d->storage ? count : count * d->bits / 8));
	text_puts(t, "tQ");
	ckpt_pickle_put_int(t, 0);
	put_ints(t, x->shape, x->rank);
	put_ints(t, strides, x->rank);
	text_puts(t, "\x89"
		     "ccollections\nOrderedDict\n)R");
	if (!d->storage)
		text_printf(t, "ctorch\n%s\n", d->name);
	text_puts(t, "tR");
}
