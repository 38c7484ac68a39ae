/*
 * One pass over many tensors: how many values are NaN, how many infinite, the largest magnitude and the sum of squares, of each
 * tensor and of all; and another that scales them, which writes nothing where the norm is within the limit.
 *
 * A chunk is CHUNK bytes of one tensor.  A block takes `each` chunks one after another and writes four numbers for each.
 * Who finishes a tensor's last chunk adds its chunks up, who finishes the last tensor adds the tensors up, always in the
 * order of chunks and tensors: the same tensors at the same places give the same bits, whatever the card and the order of
 * blocks.
 *
 * A chunk is summed in fp32, 64 or 128 values a thread, and in double from there on.  Where that cannot be exact (a value
 * that is not finite, squares that would overflow or vanish) the chunk is read once more, value by value, in double.
 *
 * kernel.ptx is made of this by src/job/gradients/make-ptx.sh; nothing of CUDA's headers is used.
 */
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE __attribute__((device)) static inline
/* volatile: clang takes a variable that is used in one function only for one that a barrier does not change */
#define SHARED static volatile __attribute__((shared))
#ifndef THREADS
#define THREADS 256u
#endif
#define WARPS (THREADS / 32)
#ifndef LOADS
#define LOADS 4u /* of 16 bytes that a thread has in flight */
#endif
#ifndef CHUNK
#define CHUNK 65536u /* gradients.h has it, too */
#endif
#ifndef LOAD
#define LOAD "ld.global.cs.v4.u32" /* what is read once; an H100 is 2 % slower with .nc */
#endif

/* As enum plim_gradient_dtype. */
enum { F32, F16, BF16, F64 };

/* As in parts.h, these three. */
struct row { /* a tensor */
	u64 at, count; /* address, 0: it has no gradient; elements */
	u32 dtype, first; /* one of the above; its first chunk */
	u32 chunks, unused;
	double weight; /* of its squares among all: 1 / how many ranks hold the same */
};
struct chunk {
	u32 tensor, index; /* the index-th CHUNK bytes of it */
};
struct sums {
	double nan, inf, max, squares; /* the last two of the finite values */
};

/* What later work on the GPU reads. */
struct summary {
	struct sums all; /* squares weighted */
	double scale;    /* by which the values are multiplied */
	float norm;      /* without it; NaN or infinite where a value is */
	float found;     /* 1: a value is not finite; 0 */
};

DEVICE u32 thread(void)
{
	return __nvvm_read_ptx_sreg_tid_x();
}

DEVICE u32 block(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x();
}

/* ---- values ---- */

DEVICE float of_bits(u32 bits)
{
	return __builtin_bit_cast(float, bits);
}

DEVICE u32 bits_of(float x)
{
	return __builtin_bit_cast(u32, x);
}

DEVICE float of_half(u32 h)
{
	float x;

	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)h));
	return x;
}

DEVICE u32 to_half(float x)
{
	u16 h;

	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}

/* Of finite values. */
DEVICE u32 to_bf16(float x)
{
	u32 bits = bits_of(x);

	return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

struct vector {
	u32 word[4];
};

DEVICE struct vector load(const struct vector *at)
{
	struct vector v;

	asm volatile(LOAD " {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
		     : "l"(at));
	return v;
}

/* Of what is written afterwards. */
DEVICE struct vector load_written(const struct vector *at)
{
	struct vector v;

	asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
		     : "l"(at)
		     : "memory");
	return v;
}

DEVICE void store(struct vector *at, struct vector v)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]),
		     "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
		     : "memory");
}

DEVICE u32 size_of(u32 dtype)
{
	return dtype == F64 ? 8 : dtype == F32 ? 4 : 2;
}

/* The i-th value. */
DEVICE double value(u64 at, u32 i, u32 dtype)
{
	if (dtype == F64)
		return ((const double *)at)[i];
	if (dtype == F32)
		return ((const float *)at)[i];
	return dtype == BF16 ? of_bits((u32)((const u16 *)at)[i] << 16) : of_half(((const u16 *)at)[i]);
}

/* ---- a chunk ---- */

struct part { /* of a tensor */
	u64 at;
	u32 count, dtype;
	u32 head, whole; /* elements before 16 bytes are aligned; elements of whole vectors behind them */
};

DEVICE struct part place(const struct row *r, u32 index)
{
	u32 size = size_of(r->dtype), each = CHUNK / size;
	u64 left = r->count - (u64)index * each;
	struct part p = { r->at + (u64)index * CHUNK, r->at ? left < each ? (u32)left : each : 0, r->dtype, 0, 0 };

	p.head = (u32)(16 - p.at % 16) % 16 / size;
	p.head = p.head < p.count ? p.head : p.count;
	p.whole = (p.count - p.head) / (16 / size) * (16 / size);
	return p;
}

struct quick {
	float squares[4], max;
};

DEVICE void quick_add(struct quick *q, u32 i, float x)
{
	q->squares[i] = __builtin_fmaf(x, x, q->squares[i]);
	q->max = __nvvm_fmax_f(q->max, __builtin_fabsf(x)); /* NaN is seen in the squares */
}

template <u32 dtype> DEVICE void quick_vector(struct quick *q, struct vector v)
{
#pragma unroll
	for (u32 i = 0; i < 4; i++) {
		u32 w = v.word[i];

		if (dtype == F32) {
			quick_add(q, i, of_bits(w));
		} else if (dtype == BF16) {
			quick_add(q, i, of_bits(w << 16));
			quick_add(q, i, of_bits(w & 0xffff0000u));
		} else {
			quick_add(q, i, of_half(w & 0xffffu));
			quick_add(q, i, of_half(w >> 16));
		}
	}
}

template <u32 dtype> DEVICE struct quick quick_sums(struct part p)
{
	struct quick q = { { 0, 0, 0, 0 }, 0 };
	const struct vector *v = (const struct vector *)(p.at + p.head * size_of(dtype));
	u32 n = p.whole / (16 / size_of(dtype)), i = thread();

	for (; i + (LOADS - 1) * THREADS < n; i += LOADS * THREADS) {
		struct vector x[LOADS];

#pragma unroll
		for (u32 k = 0; k < LOADS; k++)
			x[k] = load(v + i + k * THREADS);
#pragma unroll
		for (u32 k = 0; k < LOADS; k++)
			quick_vector<dtype>(&q, x[k]);
	}
#pragma unroll 1
	for (; i < n; i += THREADS)
		quick_vector<dtype>(&q, load(v + i));
	if (thread() < p.head)
		quick_add(&q, 0, (float)value(p.at, thread(), dtype));
	if (thread() < p.count - p.head - p.whole)
		quick_add(&q, 0, (float)value(p.at, p.head + p.whole + thread(), dtype));
	return q;
}

/* ---- sums over threads ---- */

DEVICE u32 down(u32 x, u32 by)
{
	return (u32)__nvvm_shfl_sync_down_i32(0xffffffffu, (int)x, (int)by, 31);
}

DEVICE double down_double(double x, u32 by)
{
	u64 bits = __builtin_bit_cast(u64, x);
	u64 moved = (u64)down((u32)(bits >> 32), by) << 32 | down((u32)bits, by);

	return __builtin_bit_cast(double, moved);
}

DEVICE void add(struct sums *to, struct sums x)
{
	to->nan += x.nan;
	to->inf += x.inf;
	to->max = x.max > to->max ? x.max : to->max;
	to->squares += x.squares;
}

/* The sum over the block, in thread 0: warps by halves, then warp after warp. */
DEVICE struct sums block_sum(struct sums s)
{
	SHARED double nan[WARPS], inf[WARPS], max[WARPS], squares[WARPS];
	u32 t = thread();

#pragma unroll 1
	for (u32 by = 16; by; by /= 2) {
		struct sums x = { down_double(s.nan, by), down_double(s.inf, by), down_double(s.max, by),
				  down_double(s.squares, by) };

		add(&s, x);
	}
	__syncthreads();
	if (t % 32 == 0) {
		nan[t / 32] = s.nan;
		inf[t / 32] = s.inf;
		max[t / 32] = s.max;
		squares[t / 32] = s.squares;
	}
	__syncthreads();
	if (t == 0)
#pragma unroll 1
		for (u32 i = 1; i < WARPS; i++) {
			struct sums x = { nan[i], inf[i], max[i], squares[i] };

			add(&s, x);
		}
	return s;
}

/* Value by value, for what quick_sums() cannot tell exactly. */
__attribute__((noinline)) DEVICE struct sums careful_sums(struct part p)
{
	struct sums s = { 0, 0, 0, 0 };

#pragma unroll 1
	for (u32 i = thread(); i < p.count; i += THREADS) {
		double x = __builtin_fabs(value(p.at, i, p.dtype));

		if (x < __builtin_inf()) {
			s.max = x > s.max ? x : s.max;
			s.squares = __builtin_fma(x, x, s.squares);
		} else if (x == __builtin_inf()) {
			s.inf++;
		} else {
			s.nan++;
		}
	}
	return block_sum(s);
}

#define SQUARES_OVERFLOW 0x1p60f /* a chunk's sum of them is then below 2^128 */
#define SQUARES_VANISH 0x1p-50f  /* those of values below 2^-75 then matter to no digit */

/* In thread 0.  turn: counts up with each call of the block. */
DEVICE struct sums chunk_sums(struct part p, u32 turn)
{
	SHARED double squares[2][WARPS];
	SHARED float largest[2][WARPS];
	struct quick q = p.dtype == BF16 ? quick_sums<BF16>(p) :
			 p.dtype == F32	 ? quick_sums<F32>(p) :
			 p.dtype == F16	 ? quick_sums<F16>(p) :
					   (struct quick){ { __builtin_nanf(""), 0, 0, 0 }, 0 };
	struct sums s = { 0, 0, 0, (double)((q.squares[0] + q.squares[1]) + (q.squares[2] + q.squares[3])) };
	u32 t = thread(), mine = turn % 2;
	bool careful = false;
	float max = q.max;

	for (u32 by = 16; by; by /= 2) {
		s.squares += down_double(s.squares, by);
		max = __nvvm_fmax_f(max, of_bits(down(bits_of(max), by)));
	}
	if (t % 32 == 0) {
		squares[mine][t / 32] = s.squares;
		largest[mine][t / 32] = max;
	}
	__syncthreads(); /* the other halves of both are free from here on */
	max = largest[mine][0];
#pragma unroll
	for (u32 i = 0; i < WARPS; i++) {
		max = __nvvm_fmax_f(max, largest[mine][i]);
		careful |= !(squares[mine][i] < __builtin_inf());
	}
	if (careful || max >= SQUARES_OVERFLOW || (max > 0 && max < SQUARES_VANISH))
		return careful_sums(p);
	if (t == 0)
#pragma unroll
		for (u32 i = 1; i < WARPS; i++)
			s.squares += squares[mine][i];
	s.max = max;
	return s;
}

/* ---- tensors, and all ---- */

/* What other blocks wrote. */
DEVICE struct sums seen(const struct sums *at)
{
	struct sums s;

	asm volatile("ld.global.cg.v2.f64 {%0, %1}, [%2];" : "=d"(s.nan), "=d"(s.inf) : "l"(at));
	asm volatile("ld.global.cg.v2.f64 {%0, %1}, [%2];" : "=d"(s.max), "=d"(s.squares) : "l"(&at->max));
	return s;
}

/* Does the block that adds `n` to the counter bring it to `all`?  Then it is 0 again.  For all its threads. */
DEVICE bool is_last(u32 *counter, u32 n, u32 all)
{
	SHARED u32 last;

	__syncthreads();
	if (thread() == 0) {
		__nvvm_membar_gl();
		last = __atomic_fetch_add(counter, n, __ATOMIC_RELAXED) + n == all;
		if (last) {
			*counter = 0;
			__nvvm_membar_gl();
		}
	}
	__syncthreads();
	return last;
}

DEVICE void total(const struct row *rows, u32 n, struct sums *out, const float *scale, struct summary *also)
{
	struct sums s = { 0, 0, 0, 0 };

	for (u32 i = thread(); i < n; i += THREADS) {
		struct sums x = seen(out + i);

		x.squares *= rows[i].weight;
		add(&s, x);
	}
	s = block_sum(s);
	if (thread() == 0) {
		double by = scale ? *scale : 1, root = __nvvm_sqrt_rn_d(s.squares) / by;
		struct summary all = { s, by, 0, 0 };

		all.norm = s.nan > 0 ? __builtin_nanf("") : s.inf > 0 ? __builtin_inff() : (float)root;
		all.found = s.nan > 0 || s.inf > 0;
		*(struct summary *)(out + n) = all;
		*also = all;
	}
}

/*
 * out: a row a tensor, then a summary; also: the same summary, where others may change it.
 * counters: one a tensor and one for all, 0 before and after.
 */
KERNEL plimsoll_gradients(const struct row *rows, u32 tensors, const struct chunk *chunks, u32 n, u32 each, struct sums *partial,
			  struct sums *out, u32 *counters, const float *scale, struct summary *also)
{
	u32 first = block() * each, end = n - first < each ? n : first + each, begun = first;

	if (tensors == 0) {
		total(rows, 0, out, scale, also);
		return;
	}
	for (u32 c = first; c < end; c++) {
		struct chunk chunk = chunks[c];
		const struct row *r = rows + chunk.tensor;
		struct part p = place(r, chunk.index);
		struct sums s = chunk_sums(p, c);

		if (thread() == 0)
			partial[c] = s;
		if (c + 1 < end && chunk.index + 1 < r->chunks)
			continue;
		if (is_last(counters + chunk.tensor, c + 1 - begun, r->chunks)) {
			struct sums sum = { 0, 0, 0, 0 };

			for (u32 i = thread(); i < r->chunks; i += THREADS)
				add(&sum, seen(partial + r->first + i));
			sum = block_sum(sum);
			if (thread() == 0)
				out[chunk.tensor] = sum;
			if (is_last(counters + tensors, 1, tensors))
				total(rows, tensors, out, scale, also);
		}
		begun = c + 1;
	}
}

/* ---- scaling ---- */

DEVICE u32 scaled_word(u32 w, float by, u32 dtype)
{
	if (dtype == F32)
		return bits_of(of_bits(w) * by);
	if (dtype == BF16)
		return to_bf16(of_bits(w << 16) * by) | to_bf16(of_bits(w & 0xffff0000u) * by) << 16;
	return to_half(of_half(w & 0xffffu) * by) | to_half(of_half(w >> 16) * by) << 16;
}

template <u32 dtype> DEVICE void scale_part(struct part p, float by)
{
	struct vector *v = (struct vector *)(p.at + p.head * size_of(dtype));
	u32 n = p.whole / (16 / size_of(dtype)), i = thread();

	for (; i + (LOADS - 1) * THREADS < n; i += LOADS * THREADS) {
		struct vector x[LOADS];

#pragma unroll
		for (u32 k = 0; k < LOADS; k++)
			x[k] = load_written(v + i + k * THREADS);
#pragma unroll
		for (u32 k = 0; k < LOADS; k++) {
			for (u32 j = 0; j < 4; j++)
				x[k].word[j] = scaled_word(x[k].word[j], by, dtype);
			store(v + i + k * THREADS, x[k]);
		}
	}
#pragma unroll 1
	for (; i < n; i += THREADS) {
		struct vector x = load_written(v + i);

		for (u32 j = 0; j < 4; j++)
			x.word[j] = scaled_word(x.word[j], by, dtype);
		store(v + i, x);
	}
}

DEVICE void scale_value(struct part p, u32 i, double by)
{
	if (p.dtype == F64)
		((double *)p.at)[i] *= by;
	else if (p.dtype == F32)
		((float *)p.at)[i] *= (float)by;
	else
		((u16 *)p.at)[i] = (u16)(p.dtype == BF16 ? to_bf16((float)value(p.at, i, BF16) * (float)by) :
							    to_half((float)value(p.at, i, F16) * (float)by));
}

/* As clip_grad_norm_: times max / (norm + 1e-6) where that is below 1; else, or where the norm is not finite, nothing is written. */
KERNEL plimsoll_gradients_clip(const struct row *rows, const struct chunk *chunks, u32 n, u32 each, const struct summary *of, float max)
{
	float norm = of->norm, by = max / (norm + 1e-6f);
	u32 first = block() * each, end = n - first < each ? n : first + each;

	if (!(norm < __builtin_inff()) || by >= 1)
		return;
	for (u32 c = first; c < end; c++) {
		struct chunk chunk = chunks[n - 1 - c]; /* what was read last is still near */
		struct part p = place(rows + chunk.tensor, chunk.index);

		if (p.dtype == BF16)
			scale_part<BF16>(p, by);
		else if (p.dtype == F32)
			scale_part<F32>(p, by);
		else if (p.dtype == F16)
			scale_part<F16>(p, by);
		else
			p.head = p.count, p.whole = 0;
		for (u32 i = thread(); i < p.count - p.whole; i += THREADS)
			scale_value(p, i < p.head ? i : i + p.whole, by);
	}
}
