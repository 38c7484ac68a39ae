/*
 * The hooks of a MemoryMonitor as Python functions written in C (python/plimsoll/memory/_monitor.py has the same in Python, for
 * where this cannot be had).  A hook in a training loop runs with cold caches: a line of Python takes some 0.5 us there,
 * and a step has four hooks.
 *
 * The library is not linked to Python: its functions are found by name, all of its stable ABI.
 */
#include "gauge.h"

#include "base/base.h"

#include <dlfcn.h>
#include <string.h>

typedef intptr_t py_size;

struct method { /* PyMethodDef */
	const char *name;
	void *(*function)(void *self, void *const *arguments, py_size n);
	int flags;
	const char *doc;
};
#define BY_VECTOR 0x80 /* METH_FASTCALL */

struct python {
	void *(*new_function)(struct method *, void *self, void *module);
	void *(*new_capsule)(void *at, const char *name, void (*destroy)(void *));
	void *(*capsule)(void *, const char *name);
	void *(*call)(void *function, void *arguments);
	void *(*call_with)(void *function, ...); /* arguments, NULL */
	void *(*attribute)(void *, void *name);
	int (*set_attribute)(void *, void *name, void *value);
	void *(*key)(void *, void *key);
	void *(*look)(void *dict, void *key); /* borrowed; NULL also without an error */
	void *(*string)(const char *);
	void *(*number)(unsigned long long);
	unsigned long long (*value)(void *);
	void *(*bytes)(const void *, py_size);
	void *(*tuple)(py_size);
	int (*set_item)(void *tuple, py_size, void *stolen);
	void *(*item)(void *tuple, py_size);
	py_size (*list_size)(void *);
	int (*is_true)(void *);
	void *(*error)(void);
	void (*forget)(void);
	void (*take)(void *);
	void (*drop)(void *);
	void *none;
};

struct python_name {
	const char *name;
	size_t at;
};

/* clang-format off */
static const struct python_name names[] = {
	{ "PyCFunction_NewEx", offsetof(struct python, new_function) },
	{ "PyCapsule_New", offsetof(struct python, new_capsule) },
	{ "PyCapsule_GetPointer", offsetof(struct python, capsule) },
	{ "PyObject_CallObject", offsetof(struct python, call) },
	{ "PyObject_CallFunctionObjArgs", offsetof(struct python, call_with) },
	{ "PyObject_GetAttr", offsetof(struct python, attribute) },
	{ "PyObject_SetAttr", offsetof(struct python, set_attribute) },
	{ "PyObject_GetItem", offsetof(struct python, key) },
	{ "PyDict_GetItemWithError", offsetof(struct python, look) },
	{ "PyUnicode_InternFromString", offsetof(struct python, string) },
	{ "PyLong_FromUnsignedLongLong", offsetof(struct python, number) },
	{ "PyLong_AsUnsignedLongLong", offsetof(struct python, value) },
	{ "PyBytes_FromStringAndSize", offsetof(struct python, bytes) },
	{ "PyTuple_New", offsetof(struct python, tuple) },
	{ "PyTuple_SetItem", offsetof(struct python, set_item) },
	{ "PyTuple_GetItem", offsetof(struct python, item) },
	{ "PyList_Size", offsetof(struct python, list_size) },
	{ "PyObject_IsTrue", offsetof(struct python, is_true) },
	{ "PyErr_Occurred", offsetof(struct python, error) },
	{ "PyErr_Clear", offsetof(struct python, forget) },
	{ "Py_IncRef", offsetof(struct python, take) },
	{ "Py_DecRef", offsetof(struct python, drop) },
	{ "_Py_NoneStruct", offsetof(struct python, none) },
};

/* Phases as the gauge numbers them, and the one that peaks="step" has. */
enum { P_NONE, P_BETWEEN, P_FORWARD, P_BACKWARD, P_OPTIMIZER, P_EVAL, P_STEP };

/* What the attributes and keys are called. */
enum word {
	W_ALLOCATED, W_WORDS, W_PAGE_LAST, W_PEAK, W_ALLOCATED_BYTES, W_RESERVED_BYTES, W_ALL, W_CURRENT,
	W_PEAK_KEY, W_RETRIES, W_OOMS, WORDS
};
static const char *const words[WORDS] = {
	"allocated", "words", "last", "peak", "allocated_bytes", "reserved_bytes", "all", "current",
	"peak", "num_alloc_retries", "num_ooms"
};
/* clang-format on */

/* What plim_python_hooks is given, in this order. */
enum given {
	G_COUNTS,     /* array of the monitor, at G_COUNTS_AT */
	G_PHASES,     /* .peak, and what is called for the first turn: */
	G_BEGIN,      /* () */
	G_STATS,      /* *G_ARGUMENTS -> PyTorch's dict, or six numbers */
	G_RESET,      /* *G_ARGUMENTS */
	G_ARGUMENTS,  /* (the device,), or () */
	G_CUT,        /* () -> six numbers: where peaks nest */
	G_OPEN,       /* list of open peaks */
	G_APPEND,     /* a struct reading, as bytes */
	G_APPEND_END, /* a struct step_end, as bytes */
	G_GRAD,       /* () -> is this a training step? */
	G_PAGE,       /* of the gauge, .words and .last; or None */
	G_LIMIT, /* (the slot): its limit to the page, now and then: asking costs more than a step */
	G_DUE,   /* list of dumps that are due */
	G_DUMP,  /* (): makes them */
	G_OBJECTS,             /* behind them numbers: */
	G_ADDRESS = G_OBJECTS, /* of the gauge's mapping; 0: none */
	G_COUNTS_AT,
	G_SLOT,
	G_DICT,      /* 1: G_STATS gives a dict */
	G_BY_PHASE,  /* 0: one reading a step */
	G_SAMPLED,   /* 1: by phase in some steps */
	G_OWN_STEPS, /* 1: a step begins with each forward pass */
	G_FIRST,     /* steps at first that are sampled, and one of how many after them */
	G_EACH,
	G_GIVEN
};

/* What a monitor counts: _monitor.py has the order too. */
struct counts {
	uint64_t steps, kept, retries, ooms;
};

/* What is kept for Python to read when it is asked: one object that the garbage collector does not walk. */
struct reading {
	uint64_t phase, now[6], retries_before, ooms_before, step;
};
struct step_end {
	uint64_t step, allocated_bytes;
};

struct hooks {
	struct python py;
	void *object[G_OBJECTS];
	void *word[WORDS];
	uint64_t number[G_GIVEN - G_OBJECTS];
	struct counts *counts;
	struct plim_gauge *gauge; /* over the page; NULL: none */
	unsigned forks;           /* when it was made */
	unsigned phase;
	int each, begun;
	uint64_t highest, step_peak; /* of all, and of this step so far */
	uint64_t asked;              /* for the limit; by the clock of steps, 0: not yet */
};

#define CAPSULE "plimsoll.hooks"
#define LIMITS_EVERY_NS 2000000000u /* as python/plimsoll/_gauge_page.py has it */

static uint64_t given(const struct hooks *h, enum given which)
{
	return h->number[which - G_OBJECTS];
}

static int python_find(struct python *py)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, names[i].name);

		if (!found)
			return 0;
		memcpy((char *)py + names[i].at, &found, sizeof(found));
	}
	return 1;
}

/* ---- objects ---- */

/* function(the bytes of a struct) */
static int tell_hook(const struct python *py, void *function, const void *what, size_t n)
{
	void *bytes = py->bytes(what, (py_size)n);
	void *result = bytes ? py->call_with(function, bytes, NULL) : NULL;

	if (bytes)
		py->drop(bytes);
	if (result)
		py->drop(result);
	return result != NULL;
}

static int run_hook(const struct python *py, void *function, void *arguments)
{
	void *result = py->call(function, arguments);

	if (result)
		py->drop(result);
	return result != NULL;
}

static int hook_number_of(const struct hooks *h, void *object, enum word name, uint64_t *out)
{
	void *value = h->py.attribute(object, h->word[name]);

	if (!value)
		return 0;
	*out = h->py.value(value);
	h->py.drop(value);
	return !h->py.error();
}

static int set_number(const struct hooks *h, void *object, enum word name, uint64_t n)
{
	void *value = h->py.number(n);
	int failed = !value || h->py.set_attribute(object, h->word[name], value);

	if (value)
		h->py.drop(value);
	return !failed;
}

/* ---- readings ---- */

/* at[name] of a dict that was just made; its reference stays the dict's.  NULL: an error */
static void *inside(const struct hooks *h, void *at, enum word name)
{
	void *found = at ? h->py.look(at, h->word[name]) : NULL;

	if (at && !found && !h->py.error()) {
		found = h->py.key(at, h->word[name]); /* says what is missing */
		if (found)
			h->py.drop(found);
	}
	return found;
}

static int six_of(const struct hooks *h, void *stats, uint64_t six[6])
{
	void *allocated = inside(h, inside(h, stats, W_ALLOCATED_BYTES), W_ALL);
	void *reserved = inside(h, inside(h, stats, W_RESERVED_BYTES), W_ALL);
	void *from[6] = { allocated, reserved, allocated, reserved, stats, stats };
	static const enum word where[6] = { W_CURRENT,  W_CURRENT, W_PEAK_KEY,
					    W_PEAK_KEY, W_RETRIES, W_OOMS };

	for (unsigned i = 0; i < 6; i++) {
		void *value = inside(h, from[i], where[i]);

		if (!value)
			return 0;
		six[i] = h->py.value(value);
	}
	return !h->py.error();
}

static int six_items(const struct hooks *h, void *tuple, uint64_t six[6])
{
	for (py_size i = 0; i < 6; i++) {
		void *value = h->py.item(tuple, i);

		if (!value)
			return 0;
		six[i] = h->py.value(value);
	}
	return !h->py.error();
}

/* Did someone else reset the allocator's peak since ours began?  -1: an error */
static int shared(const struct hooks *h)
{
	void *peak;
	uint64_t allocated = 0;
	int known;

	if (h->py.list_size(h->object[G_OPEN]) != 1)
		return 1;
	peak = h->py.attribute(h->object[G_PHASES], h->word[W_PEAK]);
	if (!peak)
		return -1;
	known = hook_number_of(h, peak, W_ALLOCATED, &allocated);
	h->py.drop(peak);
	return known ? allocated != 0 : -1;
}

/* _torch.Peaks.cut: six numbers, and the peak begins anew. */
static int cut_hook(const struct hooks *h, uint64_t six[6])
{
	int nested = shared(h), done;
	void *stats;

	if (nested < 0)
		return 0;
	stats = nested ? h->py.call(h->object[G_CUT], NULL)
		       : h->py.call(h->object[G_STATS], h->object[G_ARGUMENTS]);
	if (!stats)
		return 0;
	done = !nested && given(h, G_DICT) ? six_of(h, stats, six) : six_items(h, stats, six);
	h->py.drop(stats);
	return done && (nested || run_hook(&h->py, h->object[G_RESET], h->object[G_ARGUMENTS]));
}

/* ring.append(reading); last = now[4:]; kept += 1 */
static int keep_hook(const struct hooks *h, unsigned label, const uint64_t now[6])
{
	struct counts *c = h->counts;
	struct reading r = { .phase = label,
			     .retries_before = c->retries,
			     .ooms_before = c->ooms,
			     .step = c->steps };

	memcpy(r.now, now, sizeof(r.now));
	c->retries = now[4];
	c->ooms = now[5];
	c->kept++;
	return tell_hook(&h->py, h->object[G_APPEND], &r, sizeof(r));
}

/* ---- the gauge ---- */

/* Its writer; NULL: there is none, or it was closed. */
static struct plim_gauge *gauge_of(const struct hooks *h)
{
	void *open;

	if (!h->gauge)
		return NULL;
	open = h->py.attribute(h->object[G_PAGE], h->word[W_WORDS]);
	if (!open) {
		h->py.forget();
		return NULL;
	}
	h->py.drop(open);
	return open == h->py.none ? NULL : h->gauge;
}

static int ask_limit(const struct hooks *h)
{
	void *slot = h->py.number(given(h, G_SLOT)), *arguments = slot ? h->py.tuple(1) : NULL;
	int done;

	if (!arguments) {
		if (slot)
			h->py.drop(slot);
		return 0;
	}
	h->py.set_item(arguments, 0, slot);
	done = run_hook(&h->py, h->object[G_LIMIT], arguments);
	h->py.drop(arguments);
	return done;
}

/* A step's numbers, to its page; its clock is shared with Python, which may tell steps too. */
static int page_step(struct hooks *h, uint64_t steps, const uint64_t now[6], unsigned phase)
{
	struct plim_gauge *gauge = gauge_of(h);
	uint64_t ended;

	if (!gauge)
		return 1;
	if (!hook_number_of(h, h->object[G_PAGE], W_PAGE_LAST, &ended))
		return 0;
	ended = gauge_page_step(gauge, steps, now, h->step_peak, (uint32_t)given(h, G_SLOT), phase,
				ended);
	if (!set_number(h, h->object[G_PAGE], W_PAGE_LAST, ended))
		return 0;
	if (h->asked && ended - h->asked < LIMITS_EVERY_NS)
		return 1;
	h->asked = ended;
	return ask_limit(h);
}

static int end_step(struct hooks *h, const uint64_t now[6], unsigned phase)
{
	struct step_end end = { h->counts->steps++, now[0] };

	return tell_hook(&h->py, h->object[G_APPEND_END], &end, sizeof(end)) &&
	       page_step(h, end.step + 1, now, given(h, G_BY_PHASE) ? phase : P_NONE) &&
	       (!h->py.list_size(h->object[G_DUE]) || run_hook(&h->py, h->object[G_DUMP], NULL));
}

/* ---- turns ---- */

/* _Phases.turn: a phase is over, and perhaps the step.  0: an exception is set */
static int turn_hook(struct hooks *h, unsigned phase, int step)
{
	unsigned before = h->phase, label;
	uint64_t now[6], steps;
	int done;

	h->phase = phase;
	if (!step && given(h, G_BY_PHASE))
		plim_gauge_set_phase(gauge_of(h), (enum plim_gauge_phase)phase);
	if (!h->begun) {
		if (!run_hook(&h->py, h->object[G_BEGIN], NULL))
			return 0;
		h->begun = 1;
		if (!step)
			return 1;
	}
	if (!step &&
	    (!h->each || (phase == P_FORWARD && (before == P_BETWEEN || before == P_NONE))))
		return 1;
	if (!cut_hook(h, now))
		return 0;
	h->step_peak = now[2] > h->step_peak ? now[2] : h->step_peak;
	label = !h->each ? P_STEP : before ? before : P_BETWEEN;
	done = keep_hook(h, label, now) && (!step || end_step(h, now, phase));
	if (step)
		h->step_peak = 0;
	if (done && step && given(h, G_SAMPLED)) {
		steps = h->counts->steps;
		h->each = steps < given(h, G_FIRST) || steps % given(h, G_EACH) == 0 ||
			  now[2] > h->highest;
	}
	h->highest = now[2] > h->highest ? now[2] : h->highest;
	return done;
}

/* In a forked child: nothing.  -1: an exception is set */
static int trains(const struct hooks *h)
{
	void *answer = h->py.call(h->object[G_GRAD], NULL);
	int yes = answer ? h->py.is_true(answer) : -1;

	if (answer)
		h->py.drop(answer);
	return yes;
}

static int next_pass(struct hooks *h)
{
	int training = trains(h), done = 1;

	if (training <= 0)
		return training + 1;
	if (h->phase)
		done = turn_hook(h, P_BETWEEN, 1);
	h->phase = P_STEP;
	return done;
}

static int before_forward(struct hooks *h)
{
	int training = trains(h);

	if (training < 0)
		return 0;
	if (given(h, G_OWN_STEPS) && training && h->phase == P_BACKWARD &&
	    !turn_hook(h, P_BETWEEN, 1))
		return 0;
	return turn_hook(h, training ? P_FORWARD : P_EVAL, 0);
}

static int after_forward(struct hooks *h)
{
	return turn_hook(h, h->phase == P_FORWARD ? P_BACKWARD : P_BETWEEN, 0);
}

static int before_optimizer(struct hooks *h)
{
	return turn_hook(h, P_OPTIMIZER, 0);
}

static int after_optimizer(struct hooks *h)
{
	return turn_hook(h, P_BETWEEN, 1);
}

/* ---- as Python sees them ---- */

static struct python *found_python(void)
{
	static struct python py;

	return py.none || python_find(&py) ? &py : NULL;
}

static void *hook(void *self, int (*does)(struct hooks *))
{
	struct python *py = found_python();
	struct hooks *h = py->capsule(self, CAPSULE);

	if (!h || (h->forks == gauge_forks() && !does(h)))
		return NULL;
	py->take(py->none);
	return py->none;
}

#define HOOK(name)                                                              \
	static void *call_##name(void *self, void *const *arguments, py_size n) \
	{                                                                       \
		(void)arguments, (void)n;                                       \
		return hook(self, name);                                        \
	}
HOOK(next_pass)
HOOK(before_forward)
HOOK(after_forward)
HOOK(before_optimizer)
HOOK(after_optimizer)

static struct method methods[] = {
	{ "next_pass", call_next_pass, BY_VECTOR, NULL },
	{ "before_forward", call_before_forward, BY_VECTOR, NULL },
	{ "after_forward", call_after_forward, BY_VECTOR, NULL },
	{ "before_optimizer", call_before_optimizer, BY_VECTOR, NULL },
	{ "after_optimizer", call_after_optimizer, BY_VECTOR, NULL },
};
#define METHODS ((py_size)(sizeof(methods) / sizeof(methods[0])))

static void drop_all(const struct python *py, void *const *objects, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (objects[i])
			py->drop(objects[i]);
}

static void hooks_free(void *capsule)
{
	struct python *py = found_python();
	struct hooks *h = py->capsule(capsule, CAPSULE);

	drop_all(py, h->object, G_OBJECTS);
	drop_all(py, h->word, WORDS);
	gauge_forget(h->gauge);
	free(h);
}

static int take_given(struct hooks *h, void *arguments)
{
	for (py_size i = 0; i < G_GIVEN; i++) {
		void *item = h->py.item(arguments, i);

		if (!item)
			return 0;
		if (i >= G_OBJECTS) {
			h->number[i - G_OBJECTS] = h->py.value(item);
			continue;
		}
		h->py.take(item);
		h->object[i] = item;
	}
	for (unsigned i = 0; i < WORDS; i++)
		h->word[i] = h->py.string(words[i]);
	h->forks = gauge_forks();
	h->each = given(h, G_BY_PHASE) != 0;
	h->counts = (struct counts *)(uintptr_t)given(h, G_COUNTS_AT);
	if (given(h, G_ADDRESS))
		h->gauge = gauge_over((void *)(uintptr_t)given(h, G_ADDRESS));
	return !h->py.error();
}

void *plim_python_hooks(void *arguments)
{
	struct python *py = found_python();
	struct hooks *h = py ? calloc(1, sizeof(*h)) : NULL;
	void *capsule, *made;

	if (!h)
		return NULL;
	h->py = *py;
	capsule = py->new_capsule(h, CAPSULE, hooks_free);
	if (!capsule) {
		free(h);
		return NULL;
	}
	made = take_given(h, arguments) ? py->tuple(METHODS) : NULL;
	for (py_size i = 0; made && i < METHODS; i++) {
		void *function = py->new_function(&methods[i], capsule, NULL);

		if (!function) {
			py->drop(made);
			made = NULL;
			break;
		}
		py->set_item(made, i, function);
	}
	py->drop(capsule);
	return made;
}
