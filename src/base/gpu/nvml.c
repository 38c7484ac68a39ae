/* NVML by dlopen; symbols and layouts of nvml.h (API 13), each call optional. */
#include "gpu/nvml.h"
#include "gpu/looker.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

typedef void *device;

/* Result codes. */
enum { OK, NOT_SUPPORTED = 3, TOO_SMALL = 7, LOST = 15, RESET = 16 };

struct memory_v2 {
	uint32_t version, pad;
	uint64_t total, reserved, free, used;
};
struct memory_v1 {
	uint64_t total, free, used;
};
struct use {
	uint32_t gpu, memory;
};
struct event {
	device device;
	unsigned long long type, data;
	unsigned gi, ci;
};
#define EVENT_XID 8ull
#define EVENTS_A_LOOK 16
#define GPM_A_LOOK 2 /* GPUs that are asked for it */
#define GPM_IDS 7
struct gpm_support {
	uint32_t version, supported;
};
struct gpm_row {
	uint32_t id, result;
	double value;
	const char *texts[3];
};
#define GPM_ROWS \
	512 /* the library writes as many as are asked for; older ones believe in 98, newer in 333 */
struct gpm_get {
	uint32_t version, n;
	void *before, *now;
	struct gpm_row rows[GPM_ROWS];
};
_Static_assert(sizeof(struct memory_v2) == 40 && sizeof(struct gpm_row) == 40 &&
		       offsetof(struct gpm_get, rows) == 24,
	       "layouts of nvml.h");

/* field, symbol, arguments */
#define SYMBOLS(SYM)                                                                               \
	SYM(init, nvmlInit_v2, (void))                                                             \
	SYM(shutdown, nvmlShutdown, (void))                                                        \
	SYM(count, nvmlDeviceGetCount_v2, (unsigned *n))                                           \
	SYM(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned i, device *out))                      \
	SYM(name, nvmlDeviceGetName, (device d, char *out, unsigned room))                         \
	SYM(uuid, nvmlDeviceGetUUID, (device d, char *out, unsigned room))                         \
	SYM(memory_v2, nvmlDeviceGetMemoryInfo_v2, (device d, struct memory_v2 * out))             \
	SYM(memory, nvmlDeviceGetMemoryInfo, (device d, struct memory_v1 * out))                   \
	SYM(use, nvmlDeviceGetUtilizationRates, (device d, struct use * out))                      \
	SYM(power, nvmlDeviceGetPowerUsage, (device d, unsigned *mw))                              \
	SYM(power_limit, nvmlDeviceGetEnforcedPowerLimit, (device d, unsigned *mw))                \
	SYM(temperature, nvmlDeviceGetTemperature, (device d, int sensor, unsigned *celsius))      \
	SYM(reasons, nvmlDeviceGetCurrentClocksThrottleReasons, (device d, unsigned long long *))  \
	SYM(compute, nvmlDeviceGetComputeRunningProcesses_v3, (device d, unsigned *n, void *rows)) \
	SYM(compute_v2, nvmlDeviceGetComputeRunningProcesses_v2,                                   \
	    (device d, unsigned *n, void *rows))                                                   \
	SYM(events_new, nvmlEventSetCreate, (void **set))                                          \
	SYM(events_free, nvmlEventSetFree, (void *set))                                            \
	SYM(events_of, nvmlDeviceGetSupportedEventTypes, (device d, unsigned long long *types))    \
	SYM(events_want, nvmlDeviceRegisterEvents,                                                 \
	    (device d, unsigned long long types, void *set))                                       \
	SYM(events_next, nvmlEventSetWait_v2, (void *set, struct event *out, unsigned ms))         \
	SYM(minor, nvmlDeviceGetMinorNumber, (device d, unsigned *out))                            \
	SYM(mig_mode, nvmlDeviceGetMigMode, (device d, unsigned *now, unsigned *next))             \
	SYM(mig_count, nvmlDeviceGetMaxMigDeviceCount, (device d, unsigned *n))                    \
	SYM(mig_handle, nvmlDeviceGetMigDeviceHandleByIndex, (device d, unsigned i, device *out))  \
	SYM(mig_instance, nvmlDeviceGetGpuInstanceId, (device d, unsigned *gi))                    \
	SYM(gpm_mig_sample, nvmlGpmMigSampleGet, (device d, unsigned gi, void *sample))            \
	SYM(gpm_query, nvmlGpmQueryDeviceSupport, (device d, struct gpm_support * out))            \
	SYM(gpm_alloc, nvmlGpmSampleAlloc, (void **out))                                           \
	SYM(gpm_free, nvmlGpmSampleFree, (void *sample))                                           \
	SYM(gpm_sample, nvmlGpmSampleGet, (device d, void *sample))                                \
	SYM(gpm_metrics, nvmlGpmMetricsGet, (struct gpm_get * get))

struct nvml {
	void *library;
#define SYM(field, symbol, arguments) int(*field) arguments;
	SYMBOLS(SYM)
#undef SYM
	unsigned n;
	struct {
		device handle;
		device whole;   /* the GPU that a MIG slice is of; else the same */
		unsigned slice; /* its GPU instance */
		bool sliced;
		unsigned minor; /* UINT32_MAX: not known */
		char name[64], uuid[48];
		bool gpm, primed;         /* `before` holds a sample */
		void *before, *now;       /* GPM samples */
		uint64_t xid;             /* the newest; 0: none */
		unsigned stride;          /* bytes of a process's row; 0: not known yet */
		double gpm_told[GPM_IDS]; /* NaN: not known */
	} cards[GPU_CARDS];
	unsigned turn; /* the first GPU that is asked for these */
	void *events;  /* NULL: none are reported */
	struct gpm_get get;
	unsigned char rows[(GPU_PROCESSES + 1) * 32];
};

static void *find_nvml(const char *path)
{
	static const char *const places[] = { "libnvidia-ml.so.1",
					      "/usr/lib/wsl/lib/libnvidia-ml.so.1",
					      "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
					      "/run/opengl-driver/lib/libnvidia-ml.so.1" };
	void *library = NULL;

	if (path)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < sizeof(places) / sizeof(*places); i++)
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static const char *why(int code)
{
	switch (code) {
	case 4: return "no permission";
	case 9: return "the driver is not loaded";
	case 18:
		return "its version is not the kernel module's: the driver was upgraded, restart "
		       "the container or the machine";
	case LOST: return "a GPU has fallen off the bus";
	default: return "it does not start";
	}
}

/* Once a GPU or a slice: what never changes, and whether it has GPM. */
static void meet(struct nvml *n, unsigned i)
{
	struct gpm_support support = { 1, 0 };
	device d = n->cards[i].handle;

	n->cards[i].minor = UINT32_MAX;
	if (!d)
		return;
	/* Slices share their GPU's: that a process has it open does not say which is its own. */
	if (!n->minor || n->cards[i].sliced || n->minor(d, &n->cards[i].minor))
		n->cards[i].minor = UINT32_MAX;
	if (!n->name || n->name(d, n->cards[i].name, sizeof(n->cards[i].name)))
		snprintf(n->cards[i].name, sizeof(n->cards[i].name), "GPU");
	if (!n->uuid || n->uuid(d, n->cards[i].uuid, sizeof(n->cards[i].uuid)))
		n->cards[i].uuid[0] = 0;
	if (n->gpm_query && n->gpm_alloc && n->gpm_free && n->gpm_sample && n->gpm_metrics &&
	    (!n->cards[i].sliced || n->gpm_mig_sample) &&
	    !n->gpm_query(n->cards[i].whole, &support) && support.supported)
		n->cards[i].gpm =
			!n->gpm_alloc(&n->cards[i].before) && !n->gpm_alloc(&n->cards[i].now);
}

/* The slices of a GPU that MIG divides: each has its own memory, processes and GPM, and stands for itself.  0: it is whole. */
static unsigned add_slices(struct nvml *n, device whole)
{
	unsigned now = 0, next, most = 0, from = n->n;
	device d;

	if (!n->mig_mode || !n->mig_count || !n->mig_handle || !n->mig_instance ||
	    n->mig_mode(whole, &now, &next) || !now || n->mig_count(whole, &most))
		return 0;
	for (unsigned k = 0; k < most && n->n < GPU_CARDS; k++) {
		unsigned gi;

		if (n->mig_handle(whole, k, &d) || n->mig_instance(d, &gi))
			continue; /* there is none of that number */
		n->cards[n->n].handle = d;
		n->cards[n->n].whole = whole;
		n->cards[n->n].slice = gi;
		n->cards[n->n].sliced = true;
		meet(n, n->n++);
	}
	return n->n - from;
}

static void add_card(struct nvml *n, unsigned number)
{
	device d;

	if (!n->handle || n->handle(number, &d))
		d = NULL;
	if (n->n >= GPU_CARDS || (d && add_slices(n, d)))
		return;
	n->cards[n->n].handle = n->cards[n->n].whole = d;
	meet(n, n->n++);
}

/* Only errors behind this moment are reported. */
static void want_events(struct nvml *n)
{
	unsigned long long types;
	bool any = false;

	if (!n->events_new || !n->events_free || !n->events_want || !n->events_next ||
	    n->events_new(&n->events)) {
		n->events = NULL;
		return;
	}
	for (unsigned i = 0; i < n->n; i++)
		any |= n->cards[i].handle && (!i || n->cards[i].whole != n->cards[i - 1].whole) &&
		       (!n->events_of ||
			(!n->events_of(n->cards[i].whole, &types) && (types & EVENT_XID))) &&
		       !n->events_want(n->cards[i].whole, EVENT_XID, n->events);
	if (any)
		return;
	(void)n->events_free(n->events);
	n->events = NULL;
}

static void take_events(struct nvml *n)
{
	struct event e = { 0 };

	for (unsigned k = 0; n->events && k < EVENTS_A_LOOK && !n->events_next(n->events, &e, 0);
	     k++)
		for (unsigned i = 0; i < n->n; i++)
			if (e.type == EVENT_XID && e.device == n->cards[i].whole)
				n->cards[i].xid = e.data;
}

enum plim_status nvml_open(const char *path, struct nvml **out, struct plim_err *err)
{
	struct nvml *n = calloc(1, sizeof(*n));
	unsigned count = 0;
	int code;

	*out = NULL;
	if (!n)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	n->library = find_nvml(path);
	if (!n->library) {
		free(n);
		return err_set(err, PLIM_E_UNSUPPORTED,
			       "no NVIDIA driver here (libnvidia-ml.so.1 is not found)");
	}
#define SYM(field, symbol, arguments) *(void **)(void *)&n->field = dlsym(n->library, #symbol);
	SYMBOLS(SYM)
#undef SYM
	code = n->init && n->count ? n->init() : NOT_SUPPORTED;
	if (!code)
		code = n->count(&count);
	if (code) {
		dlclose(n->library);
		free(n);
		return err_set(err, PLIM_E_UNSUPPORTED, "NVML: %s (code %d)", why(code), code);
	}
	for (unsigned i = 0; i < count; i++)
		add_card(n, i);
	want_events(n);
	*out = n;
	return PLIM_OK;
}

void nvml_close(struct nvml *n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n->n; i++) {
		if (n->cards[i].before)
			n->gpm_free(n->cards[i].before);
		if (n->cards[i].now)
			n->gpm_free(n->cards[i].now);
	}
	if (n->events)
		(void)n->events_free(n->events);
	if (n->shutdown)
		n->shutdown();
	dlclose(n->library);
	free(n);
}

unsigned nvml_count(const struct nvml *n)
{
	return n->n;
}

/* ---- memory, power ---- */

static void look_at_memory(struct nvml *n, device d, struct gpu_card *out)
{
	struct memory_v2 two = { .version = sizeof(two) | 2u << 24 };
	struct memory_v1 one;
	int code = n->memory_v2 ? n->memory_v2(d, &two) : NOT_SUPPORTED;

	out->lost = code == LOST || code == RESET;
	if (!code && two.total) {
		out->total_bytes = two.total;
		out->used_bytes = two.used;
		out->reserved_bytes = two.reserved;
	} else if (n->memory && !n->memory(d, &one) && one.total) {
		out->total_bytes = one.total;
		out->used_bytes = one.used;
	}
}

/* A slice has no power of its own; heat and clocks are its GPU's. */
static void look_at_power(struct nvml *n, unsigned i, struct gpu_card *out)
{
	device d = n->cards[i].handle, whole = n->cards[i].whole;
	unsigned long long reasons;
	struct use use;
	unsigned v;

	if (n->use && !n->use(d, &use) && use.gpu <= 100)
		out->use = use.gpu;
	if (!n->cards[i].sliced && n->power && !n->power(d, &v) && v != UINT32_MAX)
		out->power_w = v / 1e3;
	if (!n->cards[i].sliced && n->power_limit && !n->power_limit(d, &v) && v && v != UINT32_MAX)
		out->power_limit_w = v / 1e3;
	if (n->temperature && !n->temperature(whole, 0, &v) && v < 200)
		out->temperature_c = v;
	if (n->reasons && !n->reasons(whole, &reasons))
		out->slowed = reasons & (8 | 0x20 | 0x40 | 0x80);
}

/* ---- what the GPU really does ---- */

static const uint32_t gpm_ids[GPM_IDS] = { 1, 2, 3, 5, 10, 20, 21 };

/* What came between two samples. */
static void ask_gpm(struct nvml *n, unsigned i)
{
	double *told = n->cards[i].gpm_told;

	memset(&n->get, 0, offsetof(struct gpm_get, rows[0]) + GPM_IDS * sizeof(n->get.rows[0]));
	n->get.version = 1;
	n->get.n = GPM_IDS;
	n->get.before = n->cards[i].before;
	n->get.now = n->cards[i].now;
	for (unsigned k = 0; k < GPM_IDS; k++)
		n->get.rows[k].id = gpm_ids[k];
	for (unsigned k = 0; k < GPM_IDS; k++)
		told[k] = NAN;
	if (!n->gpm_metrics(&n->get))
		for (unsigned k = 0; k < GPM_IDS; k++)
			if (!n->get.rows[k].result && n->get.rows[k].value >= 0)
				told[k] = n->get.rows[k].value;
}

/*
 * A sample and its metrics take the driver a millisecond, more than all else together: of many GPUs some are asked in turn, and what the
 * others reported stands.  With two GPUs each look has its own; with eight a number is the mean of four looks, and up to three looks old.
 */
static bool is_its_turn(const struct nvml *n, unsigned i)
{
	return !n->cards[i].primed || (i + n->n - n->turn) % n->n < GPM_A_LOOK;
}

static int take_gpm(struct nvml *n, unsigned i)
{
	return n->cards[i].sliced
		       ? n->gpm_mig_sample(n->cards[i].whole, n->cards[i].slice, n->cards[i].now)
		       : n->gpm_sample(n->cards[i].handle, n->cards[i].now);
}

static void look_at_gpm(struct nvml *n, unsigned i, struct gpu_card *out)
{
	double *const to[GPM_IDS] = { &out->graphics,   &out->sm,   &out->occupancy,
				      &out->tensor,     &out->dram, &out->transmit_mib,
				      &out->receive_mib };
	bool primed = n->cards[i].primed;
	void *old;

	if (!n->cards[i].gpm)
		return;
	if (is_its_turn(n, i)) {
		if (take_gpm(n, i)) {
			n->cards[i].primed = false;
			return;
		}
		if (primed)
			ask_gpm(n, i);
		else
			for (unsigned k = 0; k < GPM_IDS; k++)
				n->cards[i].gpm_told[k] = NAN;
		old = n->cards[i].before;
		n->cards[i].before = n->cards[i].now;
		n->cards[i].now = old;
		n->cards[i].primed = true;
	}
	for (unsigned k = 0; k < GPM_IDS; k++)
		*to[k] = n->cards[i].gpm_told[k];
}

/* ---- who holds it ---- */

/*
 * Rows are {u32 pid, pad, u64 bytes, ...} of 24 bytes, of 32 in drivers 535.43 to 535.86 under the same name, of 16 in an old
 * version and at one vendor: the stride is the one that makes every row plausible.
 */
static bool plausible(const unsigned char *rows, unsigned n, unsigned stride, uint64_t total)
{
	for (unsigned k = 0; k < n; k++) {
		uint32_t pid;
		uint64_t bytes;

		memcpy(&pid, rows + (size_t)k * stride, sizeof(pid));
		memcpy(&bytes, rows + (size_t)k * stride + 8, sizeof(bytes));
		if (!pid || pid >= 1u << 22 || (bytes > total && bytes != UINT64_MAX))
			return false;
	}
	return true;
}

static unsigned stride_of(const unsigned char *rows, unsigned n, uint64_t total)
{
	static const unsigned strides[] = { 24, 32, 16 };

	for (size_t i = 0; i < sizeof(strides) / sizeof(*strides); i++)
		if (plausible(rows, n, strides[i], total))
			return strides[i];
	return 0;
}

static void look_at_processes(struct nvml *n, unsigned i, struct gpu_card *out)
{
	int (*list)(device d, unsigned *n, void *rows) = n->compute ? n->compute : n->compute_v2;
	unsigned char *rows = n->rows;
	unsigned count = GPU_PROCESSES, stride = n->cards[i].stride;

	memset(rows, 0xA5, sizeof(n->rows));
	if (!list || list(n->cards[i].handle, &count, rows) || count > GPU_PROCESSES)
		return;
	out->processes_told = true;
	if (!stride || !plausible(rows, count, stride, out->total_bytes))
		stride = stride_of(rows, count, out->total_bytes);
	if (!stride) {
		out->processes_told = false;
		return;
	}
	if (count > 1)
		n->cards[i].stride = stride; /* one row fits any of them */
	for (unsigned k = 0; k < count; k++) {
		struct gpu_process *p = &out->processes[out->process_count++];

		memcpy(&p->pid, rows + (size_t)k * stride, sizeof(p->pid));
		memcpy(&p->bytes, rows + (size_t)k * stride + 8, sizeof(p->bytes));
	}
}

void nvml_look(struct nvml *n, unsigned i, struct gpu_card *out)
{
	gpu_card_clear(out);
	memcpy(out->name, n->cards[i].name, sizeof(out->name));
	memcpy(out->uuid, n->cards[i].uuid, sizeof(out->uuid));
	if (!i)
		take_events(n);
	out->xid = n->cards[i].xid;
	out->minor = n->cards[i].minor;
	if (!i) /* whatever becomes of a GPU, the turn goes on */
		n->turn = (n->turn + GPM_A_LOOK) % n->n;
	if (!n->cards[i].handle)
		return;
	look_at_memory(n, n->cards[i].handle, out);
	if (out->lost)
		return;
	look_at_power(n, i, out);
	look_at_gpm(n, i, out);
	look_at_processes(n, i, out);
}

/* ---- as a backend ---- */

static enum plim_status open_backend(const struct gpu_options *options, void **out,
				     struct plim_err *err)
{
	struct nvml *n = NULL;
	enum plim_status st = options->no_nvml ? err_set(err, PLIM_E_UNSUPPORTED,
							 "the NVIDIA driver was not asked")
					       : nvml_open(options->nvml_path, &n, err);

	*out = n;
	return st;
}

static unsigned count_nvml(void *self)
{
	return nvml_count(self);
}

static void look_nvml(void *self, unsigned i, struct gpu_card *out)
{
	nvml_look(self, i, out);
}

static void close_backend(void *self)
{
	nvml_close(self);
}

const struct gpu_backend gpu_nvml = { open_backend, count_nvml, look_nvml, close_backend };
