/*
 * GPUs as the kernel shows them (drivers amdgpu, i915, xe), in bounded reads.  The files are those of the kernel's documentation
 * (gpu/amdgpu/thermal, gpu/drm-usage-stats, ABI/testing/sysfs-driver-intel-*-hwmon); what is not there leaves its number unknown.
 */
#include "gpu/drm.h"
#include "gpu/looker.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS 512
#define FDS 4096         /* of a process that are looked through */
#define SCAN_SECONDS 5.0 /* between two looks for processes that opened a GPU */
#define AMD 0x1002
#define INTEL 0x8086

struct card {
	char folder[320], monitor[512]; /* .../cardN/device, its hwmon ("": none) */
	char slot[32], name[64], uuid[48];
	unsigned vendor;
	uint64_t kfd; /* AMD's compute driver calls it that; 0: not known */
	/* counters of the look before */
	double time, joules;
	uint64_t busy_ns[DRM_ENGINES], busy_cycles[DRM_ENGINES], all_cycles[DRM_ENGINES];
};

struct opened {
	uint32_t pid;
	int fd;
	bool told;
	struct drm_client client;
};

struct drm {
	char root[256];
	struct card cards[GPU_CARDS];
	unsigned n;
	struct opened opened[CLIENTS];
	size_t opened_count;
	double scanned; /* when */
};

static double drm_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Its first line; false: it has none. */
static bool read_line(char *out, size_t room, const char *folder, const char *name)
{
	return small_file_line(out, room, "%s/%s", folder, name) && *out;
}

/* The number that a file holds; PLIM_UNKNOWN: none. */
static uint64_t read_drm_number(const char *folder, const char *name)
{
	char text[64], *end;
	unsigned long long v;

	if (!*folder || !small_file(text, sizeof(text), "%s/%s", folder, name) || *text == '-')
		return PLIM_UNKNOWN;
	errno = 0;
	v = strtoull(text, &end, 0);
	return end == text || errno ? PLIM_UNKNOWN : v;
}

/* ---- fdinfo ---- */

/* Does `key` of `n` letters begin so?  *rest: behind that. */
static bool drm_begins(const char *key, size_t n, const char *begin, const char **rest,
		       size_t *rest_n)
{
	size_t m = strlen(begin);

	if (n < m || memcmp(key, begin, m) != 0)
		return false;
	*rest = key + m;
	*rest_n = n - m;
	return true;
}

/* A region of the GPU's own memory, not of the host's (gtt, system, stolen). */
static bool is_of_card(const char *region, size_t n)
{
	return (n >= 4 && !memcmp(region, "vram", 4)) || (n >= 5 && !memcmp(region, "local", 5));
}

static int engine_of(const char *name, size_t n)
{
	static const struct {
		const char *name;
		enum drm_engine engine;
	} engines[] = { { "gfx", DRM_RENDER },
			{ "render", DRM_RENDER },
			{ "rcs", DRM_RENDER },
			{ "compute", DRM_COMPUTE },
			{ "ccs", DRM_COMPUTE } };

	for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
		if (strlen(engines[i].name) == n && !memcmp(engines[i].name, name, n))
			return (int)engines[i].engine;
	return -1;
}

static uint64_t drm_amount(const char *value)
{
	char *end;
	unsigned long long v = strtoull(value, &end, 10);
	unsigned shift = 0;

	if (end == value)
		return PLIM_UNKNOWN;
	while (*end == ' ' || *end == '\t')
		end++;
	shift = !strncmp(end, "KiB", 3) ? 10 : !strncmp(end, "MiB", 3) ? 20 : 0;
	return v < UINT64_MAX >> 24 ? (uint64_t)v << shift : PLIM_UNKNOWN;
}

/* Of the three words for memory the best one counts: what is resident, what is there ("memory", the older word), what was made. */
static void take_memory(const char *key, size_t n, const char *value, uint64_t sums[3],
			bool told[3])
{
	static const char *const words[3] = { "drm-resident-", "drm-memory-", "drm-total-" };
	const char *rest;
	size_t rest_n;
	uint64_t v;

	for (unsigned k = 0; k < 3; k++)
		if (drm_begins(key, n, words[k], &rest, &rest_n) && is_of_card(rest, rest_n)) {
			v = drm_amount(value);
			if (v == PLIM_UNKNOWN)
				continue;
			sums[k] += v;
			told[k] = true;
		}
}

static void take_engine(const char *key, size_t n, const char *value, struct drm_client *out)
{
	const char *rest;
	size_t rest_n;
	uint64_t v = drm_amount(value);
	int e;

	if (v == PLIM_UNKNOWN)
		return;
	if (drm_begins(key, n, "drm-engine-", &rest, &rest_n)) {
		e = engine_of(rest, rest_n);
		if (e >= 0)
			out->busy_ns[e] = v;
	} else if (drm_begins(key, n, "drm-cycles-", &rest, &rest_n)) {
		e = engine_of(rest, rest_n);
		if (e >= 0)
			out->busy_cycles[e] = v;
	} else if (drm_begins(key, n, "drm-total-cycles-", &rest, &rest_n)) {
		e = engine_of(rest, rest_n);
		if (e >= 0)
			out->all_cycles[e] = v;
	}
}

bool drm_client_parse(const char *text, struct drm_client *out)
{
	uint64_t sums[3] = { 0 };
	bool told[3] = { false };

	*out = (struct drm_client){ .bytes = PLIM_UNKNOWN };
	for (const char *line = text, *next; *line; line = next) {
		size_t end = strcspn(line, "\n"), n = strcspn(line, ":\n");
		const char *value = line + n;

		next = line + end + (line[end] == '\n');
		if (*value != ':')
			continue;
		value += 1 + strspn(value + 1, " \t");
		if (n == 8 && !memcmp(line, "drm-pdev", 8))
			(void)snprintf(out->device, sizeof(out->device), "%.*s",
				       (int)strcspn(value, " \t\n"), value);
		else if (n == 13 && !memcmp(line, "drm-client-id", 13))
			out->id = strtoull(value, NULL, 10);
		take_memory(line, n, value, sums, told);
		take_engine(line, n, value, out);
	}
	for (unsigned k = 3; k-- > 0;)
		if (told[k])
			out->bytes = sums[k];
	return *out->device != 0;
}

/* ---- which GPUs ---- */

static void find_monitor(struct card *c)
{
	char path[400];
	struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/hwmon", c->folder);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "hwmon", 5))
			(void)snprintf(c->monitor, sizeof(c->monitor), "%s/%.60s", path, e->d_name);
	if (d)
		(void)closedir(d);
}

static void name_card(struct card *c)
{
	char text[64], link[512];
	ssize_t n = readlink(c->folder, link, sizeof(link) - 1);
	const char *slash;

	link[n > 0 ? n : 0] = 0;
	slash = strrchr(link, '/');
	(void)snprintf(c->slot, sizeof(c->slot), "%s", slash ? slash + 1 : link);
	if (read_line(text, sizeof(text), c->folder, "product_name"))
		(void)snprintf(c->name, sizeof(c->name), "%s", text);
	else
		(void)snprintf(c->name, sizeof(c->name), "%s GPU %04llx",
			       c->vendor == AMD ? "AMD" : "Intel",
			       (unsigned long long)(read_drm_number(c->folder, "device") & 0xffff));
	if (read_line(text, sizeof(text), c->folder, "unique_id"))
		(void)snprintf(c->uuid, sizeof(c->uuid), "%.40s", text);
	else
		memcpy(c->uuid, c->slot, sizeof(c->slot));
}

/* AMD's compute driver has numbers of its own; a node's properties tell where its GPU sits. */
static void find_kfd(struct drm *self)
{
	char path[400], text[4096], slot[32];
	struct dirent *e;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/topology/nodes", self->root);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		unsigned long long where, domain = 0;
		const char *at;
		char node[480];

		(void)snprintf(node, sizeof(node), "%s/%.20s", path, e->d_name);
		if (*e->d_name == '.' || !small_file(text, sizeof(text), "%s/properties", node))
			continue;
		at = strstr(text, "location_id ");
		if (!at || sscanf(at + 12, "%llu", &where) != 1)
			continue;
		at = strstr(text, "domain ");
		if (at)
			(void)sscanf(at + 7, "%llu", &domain);
		(void)snprintf(slot, sizeof(slot), "%04llx:%02llx:%02llx.%llx", domain & 0xffff,
			       where >> 8 & 0xff, where >> 3 & 0x1f, where & 7);
		for (unsigned i = 0; i < self->n; i++)
			if (!strcmp(self->cards[i].slot, slot))
				self->cards[i].kfd = read_drm_number(node, "gpu_id");
	}
	if (d)
		(void)closedir(d);
}

static void find_cards(struct drm *self)
{
	for (unsigned i = 0; i < 2 * GPU_CARDS && self->n < GPU_CARDS; i++) {
		struct card *c = &self->cards[self->n];
		char folder[320];
		uint64_t vendor;

		(void)snprintf(folder, sizeof(folder), "%s/sys/class/drm/card%u/device", self->root,
			       i);
		vendor = read_drm_number(folder, "vendor");
		if (vendor != AMD && vendor != INTEL)
			continue;
		*c = (struct card){ .vendor = (unsigned)vendor, .joules = NAN };
		memcpy(c->folder, folder, sizeof(folder));
		name_card(c);
		find_monitor(c);
		/* A processor's own graphics has no memory of its own, and no one trains on it. */
		if (vendor == INTEL && !*c->monitor)
			continue;
		self->n++;
	}
}

static enum plim_status open_backend(const struct gpu_options *options, void **out,
				     struct plim_err *err)
{
	struct drm *self = calloc(1, sizeof(*self));

	*out = NULL;
	if (!self)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	(void)snprintf(self->root, sizeof(self->root), "%s", options->root ? options->root : "");
	self->scanned = -INFINITY;
	find_cards(self);
	if (!self->n) {
		free(self);
		return err_set(err, PLIM_E_UNSUPPORTED, "no GPU of AMD or Intel here");
	}
	find_kfd(self);
	*out = self;
	return PLIM_OK;
}

static unsigned count_drm(void *self)
{
	return ((struct drm *)self)->n;
}

static void close_backend(void *self)
{
	free(self);
}

/* ---- who opened one ---- */

static void scan_process(struct drm *self, uint32_t pid)
{
	char path[320], link[64];
	struct dirent *e;
	unsigned seen = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "%s/proc/%u/fd", self->root, pid);
	d = opendir(path);
	while (d && (e = readdir(d)) && seen++ < FDS && self->opened_count < CLIENTS) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = 0;
		if (strncmp(link, "/dev/dri/", 9) != 0)
			continue;
		self->opened[self->opened_count++] =
			(struct opened){ .pid = pid, .fd = (int)strtol(e->d_name, NULL, 10) };
	}
	if (d)
		(void)closedir(d);
}

static void scan(struct drm *self)
{
	char path[300];
	struct dirent *e;
	DIR *d;

	self->opened_count = 0;
	(void)snprintf(path, sizeof(path), "%s/proc", self->root);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (*e->d_name >= '1' && *e->d_name <= '9')
			scan_process(self, (uint32_t)strtoul(e->d_name, NULL, 10));
	if (d)
		(void)closedir(d);
}

/* A client that several descriptors share is known by the first. */
static void look_at_clients(struct drm *self)
{
	char text[4096];

	for (size_t i = 0; i < self->opened_count; i++) {
		struct opened *o = &self->opened[i];

		o->told = small_file(text, sizeof(text), "%s/proc/%u/fdinfo/%d", self->root, o->pid,
				     o->fd) &&
			  drm_client_parse(text, &o->client);
		for (size_t k = 0; o->told && k < i; k++)
			if (self->opened[k].told && self->opened[k].pid == o->pid &&
			    self->opened[k].client.id == o->client.id &&
			    !strcmp(self->opened[k].client.device, o->client.device))
				o->told = false;
	}
}

/* ---- a GPU ---- */

static void add_process(struct gpu_card *out, uint32_t pid, uint64_t bytes)
{
	for (size_t i = 0; i < out->process_count; i++)
		if (out->processes[i].pid == pid) {
			if (bytes != PLIM_UNKNOWN)
				out->processes[i].bytes = (out->processes[i].bytes == PLIM_UNKNOWN
								   ? 0
								   : out->processes[i].bytes) +
							  bytes;
			return;
		}
	if (out->process_count < GPU_PROCESSES)
		out->processes[out->process_count++] = (struct gpu_process){ pid, bytes };
}

/* ROCm's memory goes by /dev/kfd and does not always show in fdinfo: the larger of both is what the process has. */
static void add_kfd(const struct drm *self, const struct card *c, struct gpu_card *out)
{
	char path[400], name[64];
	struct dirent *e;
	DIR *d;

	if (!c->kfd || c->kfd == PLIM_UNKNOWN)
		return;
	(void)snprintf(path, sizeof(path), "%s/sys/class/kfd/kfd/proc", self->root);
	(void)snprintf(name, sizeof(name), "vram_%llu", (unsigned long long)c->kfd);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		char folder[480];
		uint32_t pid = (uint32_t)strtoul(e->d_name, NULL, 10);
		uint64_t bytes;
		size_t k = 0;

		if (!pid)
			continue;
		(void)snprintf(folder, sizeof(folder), "%s/%.20s", path, e->d_name);
		bytes = read_drm_number(folder, name);
		if (bytes == PLIM_UNKNOWN || !bytes)
			continue;
		while (k < out->process_count && out->processes[k].pid != pid)
			k++;
		if (k == out->process_count)
			add_process(out, pid, bytes);
		else if (out->processes[k].bytes == PLIM_UNKNOWN || out->processes[k].bytes < bytes)
			out->processes[k].bytes = bytes;
	}
	if (d)
		(void)closedir(d);
}

/* Of two values of a counter: what came between them; 0: it began anew. */
static double gone(uint64_t *before, uint64_t value)
{
	double d = value >= *before ? (double)(value - *before) : 0;

	*before = value;
	return d;
}

/* Where the driver has no figure for the GPU: the busier of its engines, by the clients' counters. */
static void take_use(struct card *c, const struct drm_client *sum, double seconds,
		     struct gpu_card *out)
{
	double most = NAN;

	for (unsigned e = 0; e < DRM_ENGINES; e++) {
		double ns = gone(&c->busy_ns[e], sum->busy_ns[e]);
		double cycles = gone(&c->busy_cycles[e], sum->busy_cycles[e]);
		double all = gone(&c->all_cycles[e], sum->all_cycles[e]);
		double use = sum->all_cycles[e] ? (all > 0 ? 100 * cycles / all : 0)
						: 100 * ns / 1e9 / seconds;

		most = isnan(most) || use > most ? use : most;
	}
	if (isnan(out->use) && seconds > 0 && most >= 0)
		out->use = most < 100 ? most : 100;
}

static void look_at_monitor(struct card *c, double seconds, struct gpu_card *out)
{
	uint64_t power = read_drm_number(c->monitor, "power1_average"),
		 limit = read_drm_number(c->monitor, "power1_cap"),
		 heat = read_drm_number(c->monitor, "temp1_input"),
		 energy = read_drm_number(c->monitor, "energy1_input");
	double joules = energy == PLIM_UNKNOWN ? NAN : (double)energy / 1e6;

	if (power == PLIM_UNKNOWN)
		power = read_drm_number(c->monitor, "power1_input");
	if (limit == PLIM_UNKNOWN)
		limit = read_drm_number(c->monitor, "power1_max");
	if (power != PLIM_UNKNOWN)
		out->power_w = (double)power / 1e6;
	else if (joules >= c->joules && seconds > 0)
		out->power_w = (joules - c->joules) / seconds;
	if (limit != PLIM_UNKNOWN && limit)
		out->power_limit_w = (double)limit / 1e6;
	if (heat != PLIM_UNKNOWN && heat < 200000)
		out->temperature_c = (double)heat / 1e3;
	c->joules = joules;
}

static void look_drm(void *at, unsigned i, struct gpu_card *out)
{
	struct drm *self = at;
	struct card *c = &self->cards[i];
	struct drm_client sum = { .bytes = 0 };
	double t = drm_now(), seconds = c->time > 0 ? t - c->time : 0;
	uint64_t use, unseen = 0;

	if (!i && t - self->scanned >= SCAN_SECONDS) {
		scan(self);
		self->scanned = t;
	}
	if (!i)
		look_at_clients(self);
	gpu_card_clear(out);
	memcpy(out->name, c->name, sizeof(out->name));
	memcpy(out->uuid, c->uuid, sizeof(out->uuid));
	out->processes_told = true;
	for (size_t k = 0; k < self->opened_count; k++) {
		const struct drm_client *x = &self->opened[k].client;

		if (!self->opened[k].told || strcmp(x->device, c->slot) != 0)
			continue;
		add_process(out, self->opened[k].pid, x->bytes);
		sum.bytes += x->bytes == PLIM_UNKNOWN ? 0 : x->bytes;
		unseen += x->bytes == PLIM_UNKNOWN;
		for (unsigned e = 0; e < DRM_ENGINES; e++) {
			sum.busy_ns[e] += x->busy_ns[e];
			sum.busy_cycles[e] += x->busy_cycles[e];
			sum.all_cycles[e] = x->all_cycles[e] > sum.all_cycles[e]
						    ? x->all_cycles[e]
						    : sum.all_cycles[e];
		}
	}
	add_kfd(self, c, out);
	out->total_bytes = read_drm_number(c->folder, "mem_info_vram_total");
	out->used_bytes = read_drm_number(c->folder, "mem_info_vram_used");
	if (out->used_bytes == PLIM_UNKNOWN && out->process_count && !unseen)
		out->used_bytes = sum.bytes;
	use = read_drm_number(c->folder, "gpu_busy_percent");
	if (use <= 100)
		out->use = (double)use;
	take_use(c, &sum, seconds, out);
	look_at_monitor(c, seconds, out);
	c->time = t;
}

const struct gpu_backend gpu_drm = { open_backend, count_drm, look_drm, close_backend };
