/*
 * Status codes and error text of the Plimsoll library.
 *
 * Defaults for every function of the public API, stated once:
 *   - 0 (PLIM_OK) is success, errors are negative; values are never renumbered.
 *   - On failure outputs are zero or NULL, and *err (which may be NULL) says what failed.
 *   - close/free functions take NULL.
 *   - plim_ENUM_name is the name that JSON shows for an enumerator, in static storage; NULL where it
 *     shows null, and for what is not a value of the enum.
 *   - One thread per object at a time; different objects may be used from different threads.
 *   - The library never prints, exits, changes the locale or keeps a global "last error".
 *
 * The API is unstable until 1.0.
 */
#ifndef PLIMSOLL_STATUS_H
#define PLIMSOLL_STATUS_H

#include <stdint.h>

#if defined(__GNUC__)
#define PLIM_API __attribute__((visibility("default")))
#else
#define PLIM_API
#endif

/* A number that is not known.  JSON shows null, the terminal "-".  Never a measured value. */
#define PLIM_UNKNOWN UINT64_MAX

#ifdef __cplusplus
extern "C" {
#endif

enum plim_status {
	PLIM_OK = 0,
	PLIM_E_NOMEM = -1,      /* the system refused memory */
	PLIM_E_LIMIT = -2,      /* the work needs more than the memory limit that was given */
	PLIM_E_IO = -3,         /* a file cannot be opened, read or written; err->native is errno */
	PLIM_E_FORMAT = -4,     /* the input is damaged or is not what was asked for */
	PLIM_E_ARG = -5,        /* an argument is out of its range */
	PLIM_E_CANCELLED = -6,  /* the caller asked to stop */
	PLIM_E_UNSUPPORTED = -7 /* this machine or build cannot do it */
};

/*
 * What failed.  One line, lower case, no full stop; the subject is quoted.  "options.NAME" is a member of the options
 * that were given.
 */
struct plim_err {
	enum plim_status status; /* as returned */
	int native;              /* errno, or 0 */
	uint64_t offset;         /* byte of the (decompressed) input, or PLIM_UNKNOWN */
	char message[1000];      /* what failed */
};

/* A short name of a status ("out of memory").  Static storage, never NULL. */
PLIM_API const char *plim_status_name(enum plim_status status);

/*
 * The version of these headers.  plim_version is that of the library, "0.2.0", in static storage: a program
 * may compare, and refuse another minor version before 1.0.
 */
#define PLIM_VERSION_MAJOR 0
#define PLIM_VERSION_MINOR 2
#define PLIM_VERSION_PATCH 0
#define PLIM_VERSION_NUMBER \
	(PLIM_VERSION_MAJOR * 10000 + PLIM_VERSION_MINOR * 100 + PLIM_VERSION_PATCH)
PLIM_API const char *plim_version(void);

#ifdef __cplusplus
}
#endif

#endif
