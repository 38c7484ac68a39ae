// The headers as C++ sees them: they compile, and what they declare links.
#include <plimsoll/plimsoll.h>

#include <cstdio>
#include <string>

static int keep(void *ctx, const char *text, size_t n)
{
	static_cast<std::string *>(ctx)->append(text, n);
	return 0;
}

int main(int argc, char **argv)
{
	plim_report_options options;
	plim_report *report = nullptr;
	plim_err err;
	std::string json;

	if (argc != 2)
		return 2;
	plim_report_options_init(&options);
	if (plim_report_open(argv[1], &options, &report, &err) ||
	    plim_report_json(report, keep, &json, &err)) {
		std::fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	plim_interval range = report->devices[0].peak.allocated.range_bytes;
	plim_report_free(report);
	return json.find("\"report/2\"") == std::string::npos || range.low > range.high;
}
