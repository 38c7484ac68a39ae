/* make_events FILE POINTS: a TensorBoard event file of so many scalars, of five tags, as tf.summary writes them. */
#include "series/wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static size_t varint(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	for (; v >= 128; v >>= 7)
		p[n++] = (uint8_t)(v | 128);
	p[n++] = (uint8_t)v;
	return n;
}

static size_t event(uint8_t *p, double time, uint64_t step, const char *tag, float value)
{
	size_t tag_n = strlen(tag), n = 0, inner = 2 + tag_n + 5;

	p[n++] = 0x09; /* wall_time */
	memcpy(p + n, &time, 8);
	n += 8;
	p[n++] = 0x10; /* step */
	n += varint(p + n, step);
	p[n++] = 0x2a; /* summary { value { tag, simple_value } } */
	p[n++] = (uint8_t)(inner + 2);
	p[n++] = 0x0a;
	p[n++] = (uint8_t)inner;
	p[n++] = 0x0a;
	p[n++] = (uint8_t)tag_n;
	memcpy(p + n, tag, tag_n);
	n += tag_n;
	p[n++] = 0x15;
	memcpy(p + n, &value, 4);
	return n + 4;
}

int main(int argc, char **argv)
{
	static const char *const tags[] = { "train/loss", "train/grad_norm", "train/learning_rate",
					    "system/memory_gb", "train/tokens" };
	uint64_t points = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, seed = 88172645463325252u;
	FILE *f = argc > 2 ? fopen(argv[1], "wb") : NULL;
	uint8_t record[256];

	if (!f)
		return 2;
	for (uint64_t i = 0; i < points; i++) {
		uint64_t step = i / 5, length;
		uint32_t crc;
		float noise, values[5];

		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		noise = (float)((double)(seed >> 11) / 9007199254740992.0 - 0.5);
		values[0] = (float)(3 * pow(1 + (double)step / 1000, -0.2)) * (1 + 0.1f * noise);
		values[1] = 1 + 0.5f * noise;
		values[2] = 1e-4f;
		values[3] = 40 + noise;
		values[4] = (float)step * 4096;
		length = event(record + 12, 1.7e9 + (double)step, step, tags[i % 5], values[i % 5]);
		memcpy(record, &length, 8);
		crc = wire_masked(wire_crc32c(record, 8));
		memcpy(record + 8, &crc, 4);
		crc = wire_masked(wire_crc32c(record + 12, length));
		memcpy(record + 12 + length, &crc, 4);
		if (fwrite(record, 1, length + 16, f) != length + 16)
			return 1;
	}
	return fclose(f) ? 1 : 0;
}
