#include "encode.h"
#include "pickle.h"

#include <string.h>

#define FRAME_BYTES (64u << 10)
#define BATCH 1000u /* items an APPENDS, pairs a SETITEMS, as CPython batches them */
#define DEPTH_MAX 32

struct pickle_writer {
	struct mem *mem;
	struct pickle_sink sink;
	uint8_t buffer[9 + FRAME_BYTES +
		       32]; /* room for the frame's head and for one opcode too many */
	size_t n;           /* behind the head */
	struct intern strings;
	VEC(uint32_t) string_memo; /* by string id */
	uint32_t memos, last_memo;
	struct level {
		uint32_t memo, items;
		uint8_t is_dict;
	} levels[DEPTH_MAX];
	size_t depth;
	enum plim_status status;
	struct plim_err err;
};

static void send(struct pickle_writer *w, const void *bytes, size_t n)
{
	if (!w->status)
		w->status = w->sink.write(w->sink.ctx, bytes, n, &w->err);
}

static void flush_writer(struct pickle_writer *w)
{
	uint64_t n = w->n;

	if (!n)
		return;
	w->buffer[0] = 0x95;
	memcpy(w->buffer + 1, &n, sizeof(n));
	send(w, w->buffer, 9 + w->n);
	w->n = 0;
}

/* One opcode with its argument, never parted by a frame. */
static void emit(struct pickle_writer *w, uint8_t op, const void *arg, size_t n)
{
	uint8_t *to = w->buffer + 9 + w->n;

	*to = op;
	if (n)
		memcpy(to + 1, arg, n);
	w->n += 1 + n;
	if (w->n >= FRAME_BYTES)
		flush_writer(w);
}

static void memoize(struct pickle_writer *w, uint32_t *memo)
{
	emit(w, 0x94, NULL, 0);
	*memo = w->memos++;
}

/* A value begins, or ended, inside the open container. */
static void begin_writer(struct pickle_writer *w)
{
	if (w->depth && !w->levels[w->depth - 1].items)
		emit(w, '(', NULL, 0);
}

static void end_writer(struct pickle_writer *w)
{
	struct level *l = w->depth ? &w->levels[w->depth - 1] : NULL;

	if (!l)
		return;
	l->items++;
	if (l->items == (l->is_dict ? 2 * BATCH : BATCH)) {
		emit(w, l->is_dict ? 'u' : 'e', NULL, 0);
		l->items = 0;
	}
}

struct pickle_writer *pickle_writer_new(struct mem *m, struct pickle_sink sink,
					struct plim_err *err)
{
	struct pickle_writer *w = mem_new(m, 1, sizeof(*w), err);

	if (!w)
		return NULL;
	w->mem = m;
	w->sink = sink;
	intern_init(&w->strings, m);
	send(w, "\x80\4", 2);
	return w;
}

void pickle_writer_free(struct pickle_writer *w)
{
	struct mem *m;

	if (!w)
		return;
	m = w->mem;
	vec_release(m, &w->string_memo);
	intern_release(&w->strings);
	mem_free(m, w, 1, sizeof(*w));
}

void pickle_write_none(struct pickle_writer *w)
{
	begin_writer(w);
	emit(w, 'N', NULL, 0);
	end_writer(w);
}

void pickle_write_bool(struct pickle_writer *w, int value)
{
	begin_writer(w);
	emit(w, value ? 0x88 : 0x89, NULL, 0);
	end_writer(w);
}

static void emit_int(struct pickle_writer *w, int64_t value)
{
	uint8_t bytes[PICKLE_INT_BYTES];
	size_t n = pickle_put_int(bytes, value);

	emit(w, bytes[0], bytes + 1, n - 1);
}

void pickle_write_int(struct pickle_writer *w, int64_t value)
{
	begin_writer(w);
	emit_int(w, value);
	end_writer(w);
}

void pickle_write_uint(struct pickle_writer *w, uint64_t value)
{
	uint8_t bytes[10] = { 9 };

	if (value <= INT64_MAX) {
		pickle_write_int(w, (int64_t)value);
		return;
	}
	begin_writer(w);
	memcpy(bytes + 1, &value, sizeof(value));
	emit(w, 0x8a, bytes, sizeof(bytes));
	end_writer(w);
}

void pickle_write_float(struct pickle_writer *w, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits = __builtin_bswap64(bits);
	begin_writer(w);
	emit(w, 'G', &bits, sizeof(bits));
	end_writer(w);
}

static void emit_ref(struct pickle_writer *w, uint32_t memo)
{
	if (memo <= 0xff)
		emit(w, 'h', &memo, 1);
	else
		emit(w, 'j', &memo, 4);
}

void pickle_write_ref(struct pickle_writer *w, uint32_t memo)
{
	begin_writer(w);
	emit_ref(w, memo);
	end_writer(w);
}

static void emit_string(struct pickle_writer *w, const char *text, uint32_t n)
{
	uint8_t head[5] = { 'X' };

	if (n <= 0xff) {
		uint8_t *to = w->buffer + 9 + w->n;

		if (w->n + n + 2 >= FRAME_BYTES) {
			flush_writer(w);
			to = w->buffer + 9;
		}
		to[0] = 0x8c;
		to[1] = (uint8_t)n;
		memcpy(to + 2, text, n);
		w->n += 2 + n;
		return;
	}
	flush_writer(w); /* outside a frame, which readers accept for any string */
	memcpy(head + 1, &n, sizeof(n));
	send(w, head, sizeof(head));
	send(w, text, n);
}

void pickle_write_str(struct pickle_writer *w, const char *text, size_t n)
{
	uint32_t id, memo;

	if (!w->status)
		w->status = intern_add(&w->strings, text, n, &id, &w->err);
	if (w->status)
		return;
	begin_writer(w);
	if (id < w->string_memo.n) {
		emit_ref(w, w->string_memo.at[id]);
	} else {
		emit_string(w, text, (uint32_t)n);
		memoize(w, &memo);
		w->status = vec_push(w->mem, &w->string_memo, memo, &w->err);
	}
	end_writer(w);
}

static void open_container(struct pickle_writer *w, uint8_t op, uint8_t is_dict)
{
	struct level *l;

	begin_writer(w);
	emit(w, op, NULL, 0);
	if (w->status) /* nothing is closed any more, so the depth means nothing */
		return;
	if (w->depth == DEPTH_MAX) {
		w->status = err_set(&w->err, PLIM_E_ARG,
				    "more than %d containers inside each other", DEPTH_MAX);
		return;
	}
	l = &w->levels[w->depth++];
	*l = (struct level){ .is_dict = is_dict };
	memoize(w, &l->memo);
}

void pickle_write_list(struct pickle_writer *w)
{
	open_container(w, ']', 0);
}

void pickle_write_dict(struct pickle_writer *w)
{
	open_container(w, '}', 1);
}

void pickle_write_close(struct pickle_writer *w)
{
	struct level *l;

	if (w->status || !w->depth)
		return;
	l = &w->levels[--w->depth];
	if (l->items)
		emit(w, l->is_dict ? 'u' : 'e', NULL, 0);
	w->last_memo = l->memo;
	end_writer(w);
}

void pickle_write_pair(struct pickle_writer *w, int64_t a, int64_t b)
{
	begin_writer(w);
	emit_int(w, a);
	emit_int(w, b);
	emit(w, 0x86, NULL, 0);
	memoize(w, &w->last_memo);
	end_writer(w);
}

uint32_t pickle_write_memo(struct pickle_writer *w)
{
	return w->last_memo;
}

enum plim_status pickle_write_end(struct pickle_writer *w, struct plim_err *err)
{
	emit(w, '.', NULL, 0);
	flush_writer(w);
	if (w->status && err)
		*err = w->err;
	return w->status;
}
