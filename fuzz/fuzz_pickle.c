/*
 * The general machine on anything: without hooks, so every value stays a value.  What may be refused
 * and which path is allowed must not change the values.
 */
#include "pickle/pickle.h"
#include "pickle_mutate.h"

#define LIMIT_BYTES ((uint64_t)256 << 20)

static uint64_t mixed(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29);
}

/* A number that depends on every value; each node is looked at once. */
static uint64_t walked(const struct pickle_heap *h, struct pickle_value root)
{
	uint64_t sum = mixed(root.kind, root.bits);
	char name[300];

	for (size_t i = 0; i < h->nodes.n; i++) {
		struct pickle_node *node = &h->nodes.at[i];

		sum = mixed(sum, node->n);
		for (uint32_t k = 0; k < node->n; k++) {
			struct pickle_value v =
				pickle_item(h, (struct pickle_value){ i, PICKLE_LIST }, k);

			if (pickle_is_container(v) && v.bits >= h->nodes.n)
				abort();
			if (v.kind >= PICKLE_STR && v.kind <= PICKLE_BIGINT) {
				const struct intern_entry *e = &h->strings.at[v.bits];

				for (uint32_t b = 0; b < e->n; b += 1 + e->n / 64)
					sum = mixed(sum, e->bytes[b]);
			}
			sum = mixed(mixed(sum, v.kind), v.bits);
			pickle_name(h, v, name, sizeof(name));
		}
	}
	return sum;
}

static enum plim_status read_once(const uint8_t *bytes, size_t n, unsigned flags, uint64_t *sum)
{
	struct mem m;
	struct pickle_heap heap;
	struct pickle_value root, v;
	struct source *src;
	struct plim_err err;
	enum plim_status st;

	*sum = 0;
	mem_init(&m, LIMIT_BYTES);
	st = source_open_memory(&m, "memory", bytes, n, SOURCE_MEMORY_PLAIN, NULL, &src, &err);
	if (st)
		return st;
	pickle_heap_init(&heap, &m);
	st = pickle_read(&heap, src, flags, NULL, &root, &err);
	if (!st) {
		*sum = walked(&heap, root);
		pickle_get(&heap, root, "segments", &v);
	}
	pickle_heap_release(&heap);
	source_close(src);
	if (m.used_bytes)
		abort();
	return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	uint64_t sum[3];
	enum plim_status st = read_once(bytes, n, 0, &sum[0]);

	if (read_once(bytes, n, PICKLE_NO_ROW_PATH, &sum[1]) != st || sum[0] != sum[1])
		abort();
	/* Refusing constructors may fail where the other does not, never the other way round. */
	if (!read_once(bytes, n, PICKLE_NO_CALLS, &sum[2]) && (st || sum[2] != sum[0]))
		abort();
	return 0;
}
