/*
 * Host memory, as kernel.cu does it: a chunk after another, each by whichever thread comes first, then tensors of chunks and
 * all of tensors in their order.  Everything is summed in double.
 */
#include "parts.h"

#include <math.h>

#define THREADS 64u
#define WORTH_BYTES ((uint64_t)4 << 20) /* below that a thread costs more than it brings */

static float of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

static float of_half(uint16_t h)
{
	uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;

	if (rest >= 0x7c00u)
		return of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	return of_bits(sign | rest << 13) * 0x1p112f;
}

/* Round to nearest, ties to even; x is finite. */
static uint16_t to_half(float x)
{
	uint32_t sign = bits_of(x) >> 16 & 0x8000u, bits = bits_of(x) & 0x7fffffffu;

	if (bits >= 0x47800000u) /* 2^16 */
		return (uint16_t)(sign | 0x7c00u);
	if (bits <
	    0x38800000u) /* 2^-14: subnormal, whose unit is that of 0.5 as a float with 2^-24 */
		return (uint16_t)(sign | (bits_of(of_bits(bits) + 0.5f) - 0x3f000000u));
	return (uint16_t)(sign | ((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13));
}

static uint16_t to_bf16(float x)
{
	uint32_t bits = bits_of(x);

	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void add_value(struct gradients_sums *s, double x)
{
	x = fabs(x);
	if (x < INFINITY) {
		s->max = x > s->max ? x : s->max;
		s->squares += x * x;
	} else if (x == INFINITY) {
		s->inf++;
	} else {
		s->nan++;
	}
}

/* Four sums next to each other, so that none waits for the one before. */
#define SUMS_OF(name, type, as_float)                                           \
	static struct gradients_sums sums_of_##name(const void *at, uint64_t n) \
	{                                                                       \
		const type *v = at;                                             \
		struct gradients_sums s[4] = { { 0 } };                         \
		uint64_t i = 0;                                                 \
                                                                                \
		for (; i + 4 <= n; i += 4)                                      \
			for (unsigned k = 0; k < 4; k++)                        \
				add_value(&s[k], (double)as_float(v[i + k]));   \
		for (; i < n; i++)                                              \
			add_value(&s[0], (double)as_float(v[i]));               \
		for (unsigned k = 1; k < 4; k++) {                              \
			s[0].nan += s[k].nan;                                   \
			s[0].inf += s[k].inf;                                   \
			s[0].max = s[k].max > s[0].max ? s[k].max : s[0].max;   \
			s[0].squares += s[k].squares;                           \
		}                                                               \
		return s[0];                                                    \
	}
#define AS_IT_IS(x) (x)
#define OF_BF16(x) of_bits((uint32_t)(x) << 16)
SUMS_OF(float32, float, AS_IT_IS)
SUMS_OF(float16, uint16_t, of_half)
SUMS_OF(bfloat16, uint16_t, OF_BF16)
SUMS_OF(float64, double, AS_IT_IS)

static void scale_values(void *at, uint64_t n, uint32_t dtype, float by)
{
	float *f = at;
	double *d = at;
	uint16_t *h = at;

	switch (dtype) {
	case PLIM_GRADIENT_FLOAT32:
		for (uint64_t i = 0; i < n; i++)
			f[i] *= by;
		break;
	case PLIM_GRADIENT_FLOAT16:
		for (uint64_t i = 0; i < n; i++)
			h[i] = to_half(of_half(h[i]) * by);
		break;
	case PLIM_GRADIENT_BFLOAT16:
		for (uint64_t i = 0; i < n; i++)
			h[i] = to_bf16(OF_BF16(h[i]) * by);
		break;
	default:
		for (uint64_t i = 0; i < n; i++)
			d[i] *= (double)by;
		break;
	}
}

static const struct {
	uint32_t bytes;
	struct gradients_sums (*sums)(const void *at, uint64_t n);
} kinds[] = { [PLIM_GRADIENT_FLOAT32] = { 4, sums_of_float32 },
	      [PLIM_GRADIENT_FLOAT16] = { 2, sums_of_float16 },
	      [PLIM_GRADIENT_BFLOAT16] = { 2, sums_of_bfloat16 },
	      [PLIM_GRADIENT_FLOAT64] = { 8, sums_of_float64 } };

/* ---- chunks, by threads ---- */

struct work {
	struct plim_gradients *g;
	_Atomic size_t next;
	float scale; /* NAN: sum, do not scale */
};

static void do_chunk(struct work *w, size_t c)
{
	struct gradients_chunk chunk = w->g->chunks.at[c];
	const struct gradients_row *r = &w->g->rows.at[chunk.tensor];
	const uint64_t each = GRADIENTS_CHUNK / kinds[r->dtype].bytes,
		       left = r->count - chunk.index * each;
	void *at = (void *)(uintptr_t)(r->at + chunk.index * GRADIENTS_CHUNK); /* r->at may be 0 */
	const uint64_t n = !r->at ? 0 : left < each ? left : each;

	if (isnan(w->scale))
		w->g->partial.at[c] = kinds[r->dtype].sums(at, n);
	else
		scale_values(at, n, r->dtype, w->scale);
}

static void *run_gradients_host(void *arg)
{
	struct work *w = arg;

	for (size_t c = w->next++; c < w->g->chunks.n; c = w->next++)
		do_chunk(w, c);
	return NULL;
}

static void work_on(struct plim_gradients *g, float scale)
{
	struct work w = { .g = g, .scale = scale };
	pthread_t threads[THREADS];
	uint64_t most = g->options.threads ? g->options.threads : thread_processors();
	uint64_t worth = g->chunks.n / (WORTH_BYTES / GRADIENTS_CHUNK) + 1;
	unsigned n = 0;

	most = most < worth ? most : worth;
	while (n + 1 < most && n < THREADS && !thread_start(&threads[n], run_gradients_host, &w))
		n++;
	(void)run_gradients_host(&w);
	while (n)
		pthread_join(threads[--n], NULL);
}

enum plim_status host_check(struct plim_gradients *g, struct gradients_slot *slot, double scale,
			    struct plim_err *err)
{
	struct gradients_sums all = { 0 };
	double norm;

	if (!(scale > 0))
		return err_set(err, PLIM_E_ARG, "the scale is above 0");
	work_on(g, NAN);
	for (size_t i = 0; i < g->rows.n; i++) {
		const struct gradients_row *r = &g->rows.at[i];
		struct gradients_sums s = { 0 };

		for (uint32_t k = 0; k < r->chunks; k++) {
			const struct gradients_sums *x = &g->partial.at[r->first + k];

			s.nan += x->nan;
			s.inf += x->inf;
			s.max = x->max > s.max ? x->max : s.max;
			s.squares += x->squares;
		}
		slot->out[i] = s;
		all.nan += s.nan;
		all.inf += s.inf;
		all.max = s.max > all.max ? s.max : all.max;
		all.squares += s.squares * r->weight;
	}
	norm = all.nan > 0 ? NAN : all.inf > 0 ? INFINITY : sqrt(all.squares) / scale;
	*slot->told = (struct plim_gradients_summary){ all.nan,
						       all.inf,
						       all.max,
						       all.squares,
						       scale,
						       (float)norm,
						       all.nan > 0 || all.inf > 0 };
	return PLIM_OK;
}

void host_clip(struct plim_gradients *g, float norm, float max_norm)
{
	float by = max_norm / (norm + 1e-6f);

	if (norm < INFINITY && by < 1)
		work_on(g, by);
}
