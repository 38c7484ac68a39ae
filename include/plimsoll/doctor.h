/*
 * plimsoll doctor: what works here and what does not, one paste for a ticket.  Nothing is written, started or waited
 * for.
 *
 * Everything a result points to belongs to the result.  A text that is not known is NULL; JSON shows null.
 */
#ifndef PLIMSOLL_DOCTOR_H
#define PLIMSOLL_DOCTOR_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_doctor_flags {
	PLIM_DOCTOR_REDACT = 1 /* no path of this machine */
};

/* plim_doctor_options_init sets the defaults; then change what is to be different. */
struct plim_doctor_options {
	uint32_t size;    /* set by plim_doctor_options_init */
	uint32_t flags;   /* enum plim_doctor_flags */
	const char *root; /* where proc, sys and dev lie; NULL: "/". Borrowed */
};
PLIM_API void plim_doctor_options_init(struct plim_doctor_options *o);

enum plim_doctor_state {
	PLIM_DOCTOR_OK,   /* ok: it works */
	PLIM_DOCTOR_NOTE, /* note: it is not there, and only what needs it does not work */
	PLIM_DOCTOR_NO    /* no: it does not work */
};
PLIM_API const char *plim_doctor_state_name(enum plim_doctor_state value);

struct plim_doctor_check {
	const char *what;             /* what was looked at: "NVIDIA driver" */
	enum plim_doctor_state state; /* ok, note, no */
	const char *says;             /* what was seen */
	const char *remedy;           /* what to do; null: nothing */
};

struct plim_doctor {
	bool works; /* no check says no */
	/* of this machine first, then those that were added */
	struct plim_doctor_check *checks;
	size_t check_count;
	struct plim_doctor_hidden *hidden;
};

/* Look around; needs no privileges and no GPU.  `options` may be NULL.  PLIM_E_ARG, PLIM_E_NOMEM. */
PLIM_API enum plim_status plim_doctor_open(const struct plim_doctor_options *options,
					   struct plim_doctor **out, struct plim_err *err);
PLIM_API void plim_doctor_free(struct plim_doctor *d);

/*
 * Add a row that the caller found out: of Python, of its packages.  The texts are copied; `remedy` may be NULL.
 * PLIM_E_NOMEM.
 */
PLIM_API enum plim_status
plim_doctor_add(struct plim_doctor *d, const struct plim_doctor_check *check, struct plim_err *err);

/* As JSON, schema doctor/1 (docs/json.md), and as text for a person. */
PLIM_API enum plim_status plim_doctor_json(const struct plim_doctor *d, plim_write_fn *write,
					   void *ctx, struct plim_err *err);
PLIM_API enum plim_status plim_doctor_text(const struct plim_doctor *d,
					   const struct plim_text_style *style,
					   plim_write_fn *write, void *ctx, struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
