/*
 * Python objects of this process as a pickle: what torch.cuda.memory._snapshot() gives, a million dicts of eight keys,
 * written five times as fast as the pickle module does.  Three things make the difference: an object that only one other
 * refers to cannot come again, so it is not remembered; a key that was written is two bytes found by its address; and
 * nothing is looked up by type.
 *
 * The library is not linked to Python.  Where it is loaded into one, Python's functions are found by name; all of them
 * are of its stable ABI, except for the first word of an object, which counts references.
 */
#include "encode.h"
#include "pickle.h"

#include "base/base.h"

#include <plimsoll/recording.h>

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BATCH 1000u
#define DEEPEST 64u
#define BUFFER_BYTES (1u << 20)
#define SLACK_BYTES 4096u /* behind a full buffer: the ends of DEEPEST containers, and an opcode */
#define MEMORY_BYTES (1ull << 30) /* of what is remembered: 24 bytes a shared object */

typedef intptr_t py_size;

struct object {              /* with the GIL */
	uint32_t references; /* its low half; 1: one other object refers to it */
	uint32_t more;
	const void *type;
};

struct python {
	int (*dict_next)(void *, py_size *, void **, void **);
	py_size (*dict_size)(void *);
	py_size (*list_size)(void *);
	void *(*list_item)(void *, py_size);
	py_size (*tuple_size)(void *);
	void *(*tuple_item)(void *, py_size);
	const char *(*text)(void *, py_size *);
	long long (*number)(void *, int *);
	unsigned long long (*large)(void *);
	double (*real)(void *);
	void *(*error)(void);
	void (*forget)(void);
	void *(*call)(void *, void *);
	void (*release)(void *);
	const void *dict, *list, *tuple, *string, *integer, *floating, *none, *yes, *no;
};

struct python_name {
	const char *name;
	size_t at;
};

/* clang-format off */
static const struct python_name names[] = {
	{ "PyDict_Next", offsetof(struct python, dict_next) },
	{ "PyDict_Size", offsetof(struct python, dict_size) },
	{ "PyList_Size", offsetof(struct python, list_size) },
	{ "PyList_GetItem", offsetof(struct python, list_item) },
	{ "PyTuple_Size", offsetof(struct python, tuple_size) },
	{ "PyTuple_GetItem", offsetof(struct python, tuple_item) },
	{ "PyUnicode_AsUTF8AndSize", offsetof(struct python, text) },
	{ "PyLong_AsLongLongAndOverflow", offsetof(struct python, number) },
	{ "PyLong_AsUnsignedLongLong", offsetof(struct python, large) },
	{ "PyFloat_AsDouble", offsetof(struct python, real) },
	{ "PyErr_Occurred", offsetof(struct python, error) },
	{ "PyErr_Clear", offsetof(struct python, forget) },
	{ "PyObject_CallObject", offsetof(struct python, call) },
	{ "Py_DecRef", offsetof(struct python, release) },
	{ "PyDict_Type", offsetof(struct python, dict) },
	{ "PyList_Type", offsetof(struct python, list) },
	{ "PyTuple_Type", offsetof(struct python, tuple) },
	{ "PyUnicode_Type", offsetof(struct python, string) },
	{ "PyLong_Type", offsetof(struct python, integer) },
	{ "PyFloat_Type", offsetof(struct python, floating) },
	{ "_Py_NoneStruct", offsetof(struct python, none) },
	{ "_Py_TrueStruct", offsetof(struct python, yes) },
	{ "_Py_FalseStruct", offsetof(struct python, no) },
};
/* clang-format on */

struct writing {
	struct python py;
	struct addr_map memo; /* address of an object -> its number in the memo, from 1 */
	uint32_t memos;
	void *late;                /* is called where it stands; NULL: nothing is */
	const void *file_key;      /* the string "filename", once it was written */
	struct plim_buffer *files; /* values of that key, a line each; may be NULL */
	int fd;
	size_t n;
	uint8_t *buffer; /* BUFFER_BYTES + SLACK_BYTES */
	struct plim_err *err;
};

static enum plim_status put_python(struct writing *w, void *object, unsigned depth);

static enum plim_status python_find(struct python *py, struct plim_err *err)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, names[i].name);

		if (!found)
			return err_set(err, PLIM_E_UNSUPPORTED,
				       "this process has no Python with '%s'", names[i].name);
		memcpy((char *)py + names[i].at, &found, sizeof(found));
	}
	return PLIM_OK;
}

static enum plim_status flush_python(struct writing *w)
{
	size_t done = 0;

	while (done < w->n) {
		ssize_t n = write(w->fd, w->buffer + done, w->n - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(w->err, errno, "cannot write");
		done += (size_t)n;
	}
	w->n = 0;
	return PLIM_OK;
}

/* An opcode with its argument of at most 16 bytes. */
static inline void emit(struct writing *w, uint8_t op, const void *argument, size_t n)
{
	w->buffer[w->n] = op;
	memcpy(w->buffer + w->n + 1, argument, n);
	w->n += 1 + n;
}

static enum plim_status emit_bytes(struct writing *w, const char *at, size_t n)
{
	enum plim_status st = PLIM_OK;

	if (w->n + n > BUFFER_BYTES)
		st = flush_python(w);
	while (!st && n) {
		size_t part = n < BUFFER_BYTES ? n : BUFFER_BYTES;

		memcpy(w->buffer + w->n, at, part);
		w->n += part;
		at += part;
		n -= part;
		if (n)
			st = flush_python(w);
	}
	return st;
}

static void emit_get(struct writing *w, uint32_t memo)
{
	emit(w, memo < 256 ? 'h' : 'j', &memo, memo < 256 ? 1 : 4);
}

static enum plim_status refuse_python(struct writing *w, const char *what)
{
	w->py.forget();
	return err_set(w->err, PLIM_E_UNSUPPORTED, "%s is not of a snapshot", what);
}

static enum plim_status put_number(struct writing *w, void *object)
{
	uint8_t wide[10] = { 9 };
	unsigned long long large;
	int overflow = 0;
	long long value = w->py.number(object, &overflow);

	if (!overflow) {
		w->n += pickle_put_int(w->buffer + w->n, value);
		return PLIM_OK;
	}
	large = overflow > 0 ? w->py.large(object) : 0;
	if (overflow < 0 || w->py.error())
		return refuse_python(w, "a number beyond 64 bits");
	memcpy(wide + 1, &large, sizeof(large));
	emit(w, 0x8a, wide, 10);
	return PLIM_OK;
}

static enum plim_status put_text(struct writing *w, void *object)
{
	py_size n = 0;
	const char *text = w->py.text(object, &n);
	uint64_t bytes = (uint64_t)n;

	if (!text)
		return refuse_python(w, "text that is not UTF-8");
	if (bytes == 8 && !w->file_key && !memcmp(text, "filename", 8))
		w->file_key = object;
	if (bytes < 256)
		emit(w, 0x8c, &bytes, 1);
	else if (bytes <= UINT32_MAX)
		emit(w, 'X', &bytes, 4);
	else
		emit(w, 0x8d, &bytes, 8);
	return emit_bytes(w, text, (size_t)bytes);
}

static enum plim_status put_real(struct writing *w, void *object)
{
	double value = w->py.real(object);
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits = __builtin_bswap64(bits);
	emit(w, 'G', &bits, 8);
	return PLIM_OK;
}

static enum plim_status memoize(struct writing *w, const void *object)
{
	/* The map is made for addresses of a GPU, whose low 9 bits are 0. */
	uint64_t address = (uint64_t)(uintptr_t)object << 5;
	enum plim_status st = addr_map_room(&w->memo, w->err);

	if (st)
		return st;
	addr_map_put(&w->memo, addr_map_find(&w->memo, address), address, ++w->memos);
	emit(w, 0x94, "", 0);
	return PLIM_OK;
}

static const struct addr_slot *python_known(const struct writing *w, const void *object)
{
	return addr_map_find(&w->memo, (uint64_t)(uintptr_t)object << 5);
}

static bool put_again(struct writing *w, const void *object)
{
	const struct addr_slot *slot = python_known(w, object);

	if (!slot->value)
		return false;
	emit_get(w, slot->value - 1);
	return true;
}

/* Frames and keys were mostly written before: then not even the object is looked at. */
static enum plim_status put_likely_again(struct writing *w, void *object, unsigned depth)
{
	if (w->n < BUFFER_BYTES && put_again(w, object))
		return PLIM_OK;
	return put_python(w, object, depth);
}

static enum plim_status put_tuple(struct writing *w, void *object, unsigned depth)
{
	py_size n = w->py.tuple_size(object);
	enum plim_status st = PLIM_OK;

	if (n > 3)
		emit(w, '(', "", 0);
	for (py_size i = 0; !st && i < n; i++)
		st = put_python(w, w->py.tuple_item(object, i), depth + 1);
	if (!st)
		emit(w, (uint8_t)(n == 0 ? ')' : n > 3 ? 't' : 0x84 + n), "", 0);
	return st;
}

/* Frames are dicts that are written once, so each file is noted a few hundred times at most. */
static enum plim_status note_file(struct writing *w, void *name)
{
	py_size n = 0;
	const char *text =
		((const struct object *)name)->type == w->py.string && !python_known(w, name)->value
			? w->py.text(name, &n)
			: NULL;

	if (text &&
	    (plim_buffer_write(w->files, text, (size_t)n) || plim_buffer_write(w->files, "\n", 1)))
		return err_set(w->err, PLIM_E_NOMEM, "out of memory");
	return PLIM_OK;
}

/* The container itself stands already: its items follow. */
static enum plim_status put_items(struct writing *w, void *object, unsigned depth)
{
	py_size n = w->py.list_size(object);
	enum plim_status st = PLIM_OK;

	for (py_size i = 0; !st && i < n; i++) {
		if (i % BATCH == 0)
			emit(w, '(', "", 0);
		st = put_likely_again(w, w->py.list_item(object, i), depth + 1);
		if (i % BATCH == BATCH - 1 || i == n - 1)
			emit(w, 'e', "", 0);
	}
	return st;
}

static enum plim_status put_pairs(struct writing *w, void *object, unsigned depth)
{
	py_size n = w->py.dict_size(object), at = 0, i = 0;
	enum plim_status st = PLIM_OK;
	void *key, *value;

	for (; !st && i < n && w->py.dict_next(object, &at, &key, &value); i++) {
		if (i % BATCH == 0)
			emit(w, '(', "", 0);
		st = put_likely_again(w, key, depth + 1);
		if (!st && key == w->file_key && w->files)
			st = note_file(w, value);
		if (!st)
			st = put_python(w, value, depth + 1);
		if (i % BATCH == BATCH - 1 || i == n - 1)
			emit(w, 'u', "", 0);
	}
	return st;
}

/* What other objects may refer to too; a tuple is not remembered, so one in a circle is refused by its depth. */
static enum plim_status put_object(struct writing *w, void *object, const void *type,
				   unsigned depth)
{
	bool shared = ((const struct object *)object)->references != 1;
	enum plim_status st = PLIM_OK;

	if (shared && put_again(w, object))
		return PLIM_OK;
	if (type == w->py.string)
		st = put_text(w, object);
	else if (type == w->py.dict || type == w->py.list)
		emit(w, type == w->py.dict ? '}' : ']', "", 0);
	else
		return refuse_python(w, "an object of this type");
	if (!st && shared)
		st = memoize(w, object);
	if (!st && type == w->py.dict)
		st = put_pairs(w, object, depth);
	if (!st && type == w->py.list)
		st = put_items(w, object, depth);
	return st;
}

/* What is only known now: of what was written before it. */
static enum plim_status put_late(struct writing *w, unsigned depth)
{
	void *object = w->py.call(w->late, NULL);
	enum plim_status st;

	if (!object)
		return refuse_python(w, "a function that fails");
	w->late = NULL;
	st = put_python(w, object, depth + 1);
	w->py.release(object);
	return st;
}

static enum plim_status put_python(struct writing *w, void *object, unsigned depth)
{
	const struct python *py = &w->py;
	const void *type = ((const struct object *)object)->type;

	if (depth > DEEPEST)
		return refuse_python(w, "so deep an object");
	if (w->n >= BUFFER_BYTES) {
		enum plim_status st = flush_python(w);

		if (st)
			return st;
	}
	if (type == py->integer)
		return put_number(w, object);
	if (object == py->none || object == py->yes || object == py->no) {
		emit(w, object == py->none ? 'N' : object == py->yes ? 0x88 : 0x89, "", 0);
		return PLIM_OK;
	}
	if (type == py->floating)
		return put_real(w, object);
	if (type == py->tuple)
		return put_tuple(w, object, depth);
	if (object == w->late)
		return put_late(w, depth);
	return put_object(w, object, type, depth);
}

enum plim_status plim_python_pickle(void *object, int fd, struct plim_buffer *files, void *late,
				    struct plim_err *err)
{
	struct mem mem;
	struct writing w = {
		.fd = fd, .files = files, .late = late, .err = err, .memo = { .mem = &mem }
	};
	enum plim_status st = python_find(&w.py, err);

	if (st)
		return st;
	mem_init(&mem, MEMORY_BYTES);
	w.buffer = mem_new(&mem, BUFFER_BYTES + SLACK_BYTES, 1, err);
	st = w.buffer ? addr_map_room(&w.memo, err) : mem_status(err);
	if (!st) {
		emit(&w, 0x80, "\4", 1);
		st = put_python(&w, object, 0);
	}
	if (!st) {
		emit(&w, '.', "", 0);
		st = flush_python(&w);
	}
	addr_map_release(&w.memo);
	mem_free(&mem, w.buffer, BUFFER_BYTES + SLACK_BYTES, 1);
	return st;
}
