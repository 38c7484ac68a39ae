/* Keys that a resume needs: those that someone asks for, and those that a resume which goes on exactly wants. */
#include "parts.h"

/* Is it `key`, or what lies below it? */
static bool is_below(const char *name, const char *key, size_t n)
{
	return !strncmp(name, key, n) && (!name[n] || name[n] == '.');
}

bool ckpt_has_key(const struct ckpt *c, const char *key, size_t n)
{
	for (size_t i = 0; i < c->keys.n; i++)
		if (is_below(ckpt_text(c, c->keys.at[i].name), key, n))
			return true;
	for (size_t i = 0; i < c->tensors.n; i++)
		if (is_below(ckpt_text(c, c->tensors.at[i].name), key, n))
			return true;
	return false;
}

/* What it is, and the names that it goes by. */
static const struct {
	const char *what, *names[11];
} wants[] = {
	{ "weights",
	  { "model", "state_dict", "model_state_dict", "module", "net", "network", "weights",
	    "pytorch_model", "adapter_model" } },
	{ "optimizer",
	  { "optimizer", "optimizer_state_dict", "optimizer_states", "optim", "opt",
	    "optimizer_state" } },
	{ "learning rate scheduler",
	  { "scheduler", "lr_scheduler", "scheduler_state_dict", "lr_schedulers",
	    "lr_scheduler_state_dict", "sched" } },
	{ "gradient scaler (only of fp16 runs)",
	  { "scaler", "grad_scaler", "scaler_state_dict", "amp", "MixedPrecisionPlugin" } },
	{ "epoch or step",
	  { "epoch", "step", "global_step", "global_steps", "iteration", "iter", "trainer_state",
	    "last_epoch" } },
	{ "random state of Python",
	  { "python_rng_state", "rng_python", "rng", "rng_state", "rng_states", "random_state",
	    "random", "random_states_0" } },
	{ "random state of NumPy",
	  { "numpy_rng_state", "np_rng_state", "rng_numpy", "numpy", "rng", "rng_state",
	    "rng_states", "random_state", "random_states_0" } },
	{ "random state of torch",
	  { "torch_rng_state", "rng_torch", "cpu_rng_state", "rng", "rng_state", "rng_states",
	    "random_state", "random_states_0" } },
	{ "random state of CUDA",
	  { "cuda_rng_state", "cuda_rng_state_all", "rng_cuda", "rng", "rng_state", "rng_states",
	    "random_state", "random_states_0" } },
	{ "metrics",
	  { "metrics", "best_metric", "loss", "val_loss", "best_loss", "best_acc", "best_acc1",
	    "best_score", "callbacks", "history" } },
	{ "versions",
	  { "versions", "version", "torch_version", "pytorch-lightning_version", "env",
	    "pytorch_version" } },
	{ "commit of the code", { "commit", "git_commit", "git_sha", "sha", "git" } },
};
_Static_assert(sizeof(wants) / sizeof(wants[0]) == CKPT_WANTS, "room for all of them");
/* Rows that only a training run's checkpoint has: optimizer, scheduler, scaler, epoch. */
#define FIRST_OF_TRAINING 1
#define LAST_OF_TRAINING 4

static bool has_want(const struct ckpt *c, size_t i)
{
	size_t most = sizeof(wants[i].names) / sizeof(wants[i].names[0]);
	bool found = (i == 0 && c->tensors.n && c->kind == CKPT_KIND_FOLDER) ||
		     (i == FIRST_OF_TRAINING && c->optimizers.n);

	for (size_t k = 0; !found && k < most && wants[i].names[k]; k++)
		found = ckpt_has_key(c, wants[i].names[k], strlen(wants[i].names[k]));
	return found;
}

size_t ckpt_resume_missing(const struct ckpt *c, const char *missing[CKPT_WANTS])
{
	bool training = c->optimizers.n > 0;
	size_t n = 0;

	/* Weights alone are not meant to be resumed from. */
	for (size_t i = FIRST_OF_TRAINING; i <= LAST_OF_TRAINING; i++)
		training |= has_want(c, i);
	for (size_t i = 0; training && i < CKPT_WANTS; i++)
		if (!has_want(c, i))
			missing[n++] = wants[i].what;
	return n;
}
