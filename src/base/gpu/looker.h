/*
 * The GPUs of this machine, looked at by a thread of their own: a driver that hangs (a GPU that fell off the bus, a reset, a start
 * without persistence mode) delays no one.
 */
#ifndef GPU_LOOKER_H
#define GPU_LOOKER_H

#include "gpu/card.h"

struct gpu_options {
	const char *nvml_path; /* NULL: where drivers put it */
	const char *root;      /* sys and proc lie below it; "": this machine */
	bool no_nvml;
};

/* Who reports GPUs.  What never changes of a GPU is reported once, by its first look. */
struct gpu_backend {
	/* PLIM_E_UNSUPPORTED with the reason: it has no GPUs here. */
	enum plim_status (*open)(const struct gpu_options *options, void **out,
				 struct plim_err *err);
	unsigned (*count)(void *self);
	void (*look)(void *self, unsigned i, struct gpu_card *out);
	void (*close)(void *self);
};
extern const struct gpu_backend gpu_nvml, gpu_drm;

struct gpu_looker;

/* What the driver said last. */
struct gpu_cards {
	struct gpu_card *at;
	unsigned n, room;
	bool opened;      /* it has reported which GPUs there are, or that there are none */
	bool fresh;       /* an answer has come since the call before */
	double silent_s;  /* that it has not answered for */
	char reason[256]; /* why there are none; "": there are */
};

enum plim_status gpu_looker_start(const struct gpu_options *options, struct gpu_looker **out,
				  struct plim_err *err);

/*
 * Ask for a look at every GPU unless one is under way, wait for it for at most so many seconds, and copy the newest answer to `out`
 * (zeros at first; gpu_cards_release frees it).
 */
enum plim_status gpu_looker_ask(struct gpu_looker *l, double patience_s, struct gpu_cards *out,
				struct plim_err *err);
void gpu_cards_release(struct gpu_cards *c);

/* Does not wait for a driver that hangs: its thread ends when it answers.  NULL is a no-op. */
void gpu_looker_stop(struct gpu_looker *l);

#endif
