/* Files of /proc and cgroups: any bytes are read or refused, and what was read lies in them. */
#include "host/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void inside(struct host_span part, struct host_span whole)
{
	if (part.n && (part.at < whole.at || part.at + part.n > whole.at + whole.n))
		abort();
}

static void limit_is_sane(const struct plim_here_limit *l)
{
	if ((l->state == PLIM_HERE_LIMIT_SET) != (l->bytes != PLIM_UNKNOWN))
		abort();
}

static void read_line(struct host_span line, struct host_span all)
{
	struct plim_here_limit limit = { PLIM_HERE_LIMIT_UNKNOWN, PLIM_UNKNOWN };
	struct host_log_line record;
	struct host_membership in;
	struct host_mount mount;
	struct host_span id;
	uint64_t v = 0;
	int64_t s;

	inside(line, all);
	(void)host_u64(line, &v);
	(void)host_i64(line, &s);
	(void)host_limit(line, &limit);
	limit_is_sane(&limit);
	if (host_membership(line, &in))
		inside(in.path, all);
	if (host_mount(line, &mount)) {
		inside(mount.type, all);
		inside(mount.super, all);
		if (!memchr(mount.root, 0, HOST_PATH) || !memchr(mount.point, 0, HOST_PATH))
			abort();
	}
	if (host_mount_size(line, &v) && v == PLIM_UNKNOWN)
		abort();
	if (host_log_line(line, &record))
		inside(record.text, all);
	if (host_container(line, &id)) {
		inside(id, all);
		if (id.n != 12)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct host_key keys[] = { { "VmRSS", 0 }, { "file", 8 }, { "MemTotal", 16 } };
	struct plim_here_limit soft = { PLIM_HERE_LIMIT_UNKNOWN, PLIM_UNKNOWN }, hard = soft;
	struct host_span all = { (const char *)bytes, n }, rest = all, line, value;
	struct plim_here_pressure pressure = { 0 };
	uint64_t into[3] = { PLIM_UNKNOWN, PLIM_UNKNOWN, PLIM_UNKNOWN };
	size_t seen = 0;

	while (host_line(&rest, &line)) {
		read_line(line, all);
		seen += line.n;
	}
	if (seen > n)
		abort();
	host_keyed(all, keys, 3, into);
	host_pressure(all, &pressure);
	if (pressure.some.avg10_pct < 0 || pressure.full.avg300_pct > 101)
		abort();
	if (host_value(all, "Name", &value))
		inside(value, all);
	if (host_rlimit(all, "Max address space", &soft, &hard)) {
		limit_is_sane(&soft);
		limit_is_sane(&hard);
	}
	return 0;
}
