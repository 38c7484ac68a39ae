/* A monitor's saved state: refused, or taken back as what it was; a monitor that was restored takes any values. */
#include "must.h"
#include "series/series.h"

#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void feed(struct series_monitor *m, const uint8_t *bytes, size_t n)
{
	static const char *const names[] = { "loss",       "val_loss", "grad_norm", "lr",
					     "loss_scale", "memory",   "val_acc" };
	struct plim_err err;
	double step = 0, value;
	uint32_t series;

	for (size_t i = 0; i + 8 <= n; i += 8) {
		const char *name = names[bytes[i] % 7];

		must(!series_monitor_add(m, name, strlen(name), &series, &err));
		memcpy(&value, bytes + i, 8);
		if (bytes[i + 7] == 0xee) {
			step = bytes[i + 1];
			series_monitor_rewind(m, step);
		}
		must(!series_monitor_feed(m, series, step++, value, &err));
	}
}

/* The fuzzer cannot guess a checksum: give it the right one. */
static void repair(uint8_t *at, size_t n)
{
	uint64_t front[3] = { 0x31766f6d6d696c70ull, n, 0 };

	if (n < sizeof(front))
		return;
	front[2] = XXH3_64bits(at + sizeof(front), n - sizeof(front));
	memcpy(at, front, sizeof(front));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct series_monitor m, other;
	struct series_words words;
	struct plim_err err;
	struct mem mem;
	uint8_t *saved;
	size_t size, again;

	mem_init(&mem, 256u << 20);
	series_monitor_init(&m, &mem);
	series_monitor_init(&other, &mem);
	feed(&m, bytes, n);
	must(!series_monitor_save(&m, NULL, 0, &size, &err));
	saved = malloc(size);
	must(saved && !series_monitor_save(&m, saved, size, &size, &err));
	must(!series_monitor_restore(&other, saved, size, &err));
	must(!series_monitor_save(&other, NULL, 0, &again, &err) && again == size);
	/* Then with bytes of the state replaced. */
	for (size_t i = 0; i + 4 <= n; i += 4) {
		uint32_t at;

		memcpy(&at, bytes + i, 4);
		saved[at % size] ^= bytes[i];
	}
	repair(saved, size);
	if (!series_monitor_restore(&other, saved, size, &err)) {
		for (size_t i = 0; i < other.findings.n; i++)
			series_tell(&other, &other.findings.at[i], &words);
		feed(&other, bytes, n);
	}
	free(saved);
	series_monitor_release(&m);
	series_monitor_release(&other);
	must(mem.used_bytes == 0);
	return 0;
}
