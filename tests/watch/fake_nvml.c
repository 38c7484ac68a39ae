/*
 * A driver's NVML that says what the environment asks for: FAKE_NVML="name=value ..." (missing: as an H100 says it).
 *
 *	stride=24|32|16	bytes of a process's row	pid=N,N...	who holds the GPU	bytes=N	each of them
 *	use=N  power=mW  sm=%  graphics=%  used=N  total=N
 *	code_NAME=N	what that call answers	gpm=0	no GPM	GPUs=N	init=N
 *	name@I=value	the same of GPU I alone	xid=N	an error that is reported once
 *	mig=N	each GPU is divided into so many slices: slice K of GPU I is 100 * (I + 1) + K
 *	v2=0	no nvmlDeviceGetMemoryInfo_v2
 *	hang_NAME=FILE	that call does not return while there is such a file
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct gpm_row {
	uint32_t id, result;
	double value;
	const char *texts[3];
};
struct gpm_get {
	uint32_t version, n;
	void *before, *now;
	struct gpm_row rows[];
};

static double number(const char *key, double otherwise)
{
	const char *all = getenv("FAKE_NVML"), *at;
	char name[64];

	snprintf(name, sizeof(name), " %s=", key);
	at = all ? strstr(all, name) : NULL;
	return at ? strtod(at + strlen(name), NULL) : otherwise;
}

/* Of GPU `d`, else of all. */
static double of_card(void *d, const char *key, double otherwise)
{
	char name[64];

	snprintf(name, sizeof(name), "%s@%u", key, (unsigned)(uintptr_t)d - 1);
	return number(name, number(key, otherwise));
}

static void hang(const char *key)
{
	const char *all = getenv("FAKE_NVML"), *at;
	const struct timespec moment = { 0, 20000000 };
	char name[64], path[512];

	snprintf(name, sizeof(name), " hang_%s=", key);
	at = all ? strstr(all, name) : NULL;
	if (!at)
		return;
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(at + strlen(name), " "),
		 at + strlen(name));
	while (!access(path, F_OK))
		nanosleep(&moment, NULL);
}

/* What the call answers; of GPU `d`, else of all. */
#define CODE_OF(d, name)                                       \
	do {                                                   \
		int code_ = (int)of_card(d, "code_" #name, 0); \
		hang(#name);                                   \
		if (code_)                                     \
			return code_;                          \
	} while (0)
#define CODE(name) CODE_OF(NULL, name)

int nvmlInit_v2(void)
{
	CODE(init);
	return (int)number("init", 0);
}
int nvmlShutdown(void)
{
	return 0;
}
int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = (unsigned)number("cards", 1);
	return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out)
{
	CODE(handle);
	*out = (void *)(uintptr_t)(i + 1);
	return 0;
}
int nvmlDeviceGetName(void *d, char *out, unsigned room)
{
	CODE(name);
	snprintf(out, room, "NVIDIA H100 80GB HBM3%s", (uintptr_t)d > 100 ? " MIG 3g.40gb" : "");
	return 0;
}
int nvmlDeviceGetUUID(void *d, char *out, unsigned room)
{
	snprintf(out, room, "%s-%lu", (uintptr_t)d > 100 ? "MIG" : "GPU",
		 (unsigned long)(uintptr_t)d);
	return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void *d, uint64_t *out)
{
	uint64_t total = (uint64_t)number("total", 85520809984.0),
		 used = (uint64_t)number("used", 61e9);

	CODE_OF(d, memory);
	if (number("v2", 1) < 1)
		return 13;
	if ((uint32_t)out[0] != (40u | 2u << 24))
		return 25;
	out[1] = total;
	out[2] = 503316480;
	out[4] = used;
	out[3] = total - used - 503316480;
	return 0;
}
int nvmlDeviceGetMemoryInfo(void *d, uint64_t *out)
{
	CODE_OF(d, memory);
	out[0] = (uint64_t)number("total", 85520809984.0);
	out[2] = (uint64_t)number("used", 61e9);
	out[1] = out[0] - out[2];
	return 0;
}
int nvmlDeviceGetUtilizationRates(void *d, uint32_t *out)
{
	CODE(use);
	if (number("mig", 0) > 0)
		return 3;
	out[0] = (uint32_t)of_card(d, "use", 100);
	out[1] = 0;
	return 0;
}
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw)
{
	CODE(power);
	*mw = (unsigned)of_card(d, "power", 459000);
	return 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw)
{
	(void)d;
	*mw = 700000;
	return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, unsigned char *rows)
{
	unsigned stride = (unsigned)number("stride", 24), room = *n;
	const char *all = getenv("FAKE_NVML"), *at;
	uint64_t bytes = (uint64_t)number("bytes", 60e9);
	char own[32];

	CODE(processes);
	snprintf(own, sizeof(own), " pid@%u=", (unsigned)(uintptr_t)d - 1);
	at = all ? strstr(all, own) : NULL;
	if (!at)
		at = all ? strstr(all, " pid=") : NULL;
	for (*n = 0, at = at ? strchr(at, '=') + 1 : NULL; at && *at >= '0' && *at <= '9'; ++*n) {
		char *end;
		uint32_t pid = (uint32_t)strtoul(at, &end, 10);

		if (*n >= room)
			return 7;
		memset(rows + (size_t)*n * stride, 0, stride);
		memcpy(rows + (size_t)*n * stride, &pid, sizeof(pid));
		memcpy(rows + (size_t)*n * stride + 8, &bytes, sizeof(bytes));
		at = *end == ',' ? end + 1 : NULL;
	}
	return 0;
}
int nvmlDeviceGetMinorNumber(void *d, unsigned *out)
{
	CODE(minor);
	*out = (unsigned)(uintptr_t)d - 1;
	return 0;
}
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *next)
{
	(void)d;
	CODE(mig);
	*now = *next = number("mig", 0) > 0;
	return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n)
{
	(void)d;
	*n = 7;
	return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **out)
{
	/* There may be holes. */
	if (i % 2 || i / 2 >= (unsigned)number("mig", 0))
		return 6;
	*out = (void *)((uintptr_t)d * 100 + i / 2 + 1);
	return 0;
}
int nvmlDeviceGetGpuInstanceId(void *d, unsigned *gi)
{
	*gi = (unsigned)((uintptr_t)d % 100);
	return 0;
}
int nvmlGpmQueryDeviceSupport(void *d, uint32_t *out)
{
	(void)d;
	out[1] = (uint32_t)number("gpm", 1);
	return 0;
}
int nvmlGpmSampleAlloc(void **out)
{
	*out = malloc(8);
	return *out ? 0 : 20;
}
int nvmlGpmSampleFree(void *sample)
{
	free(sample);
	return 0;
}
int nvmlGpmSampleGet(void *d, void *sample)
{
	CODE(sample);
	memcpy(sample, &d, sizeof(d));
	return 0;
}
int nvmlGpmMigSampleGet(void *d, unsigned gi, void *sample)
{
	void *slice = (void *)((uintptr_t)d * 100 + gi);

	memcpy(sample, &slice, sizeof(slice));
	return 0;
}
int nvmlGpmMetricsGet(struct gpm_get *get)
{
	void *d;

	memcpy(&d, get->now, sizeof(d));
	for (uint32_t i = 0; i < get->n; i++) {
		struct gpm_row *r = &get->rows[i];

		r->result = 0;
		r->value = r->id == 1    ? of_card(d, "graphics", 95)
			   : r->id == 2  ? of_card(d, "sm", 90)
			   : r->id == 10 ? NAN
					 : 10;
	}
	return 0;
}

/* ---- events ---- */

struct event {
	void *device;
	unsigned long long type, data;
	unsigned gi, ci;
};

int nvmlEventSetCreate(void **set)
{
	*set = calloc(1, 1);
	return *set ? 0 : 20;
}
int nvmlEventSetFree(void *set)
{
	free(set);
	return 0;
}
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set)
{
	(void)d;
	(void)types;
	(void)set;
	CODE(events);
	return 0;
}
int nvmlEventSetWait_v2(unsigned char *set, struct event *out, unsigned ms)
{
	(void)ms;
	if (number("xid", 0) < 1 || *set)
		return 10;
	*set = 1;
	*out = (struct event){ (void *)(uintptr_t)1, 8, (unsigned long long)number("xid", 0), 0,
			       0 };
	return 0;
}
