/*
 * training FOLDER: a training loop in C with libplimsoll, without Python and without a GPU: samples in one file, batches that
 * threads gather, gradients that are checked and clipped, checkpoints that are written meanwhile, and one of them read back.
 *
 *	cc training.c $(pkg-config --cflags --libs plimsoll) -o training && mkdir -p run && ./training run
 *
 * The model is y = w0 x0 + ... + w3 x3, its loss the squared error.
 */
#include <plimsoll/plimsoll.h>

#include <stdio.h>
#include <string.h>

#define INPUTS 4
#define SAMPLES 512
#define BATCH 32
#define EPOCHS 8

static const uint64_t inputs[] = { INPUTS }, one[] = { 1 };
static const float truth[INPUTS] = { 0.5F, -1.25F, 2.0F, 0.75F };

/* ---- data: made once, by whoever comes first ---- */

static void make_sample(uint64_t i, float *x, float *y)
{
	*y = 0;
	for (uint64_t k = 0; k < INPUTS; k++) {
		x[k] = (float)((i * 37 + k * 101) % 64) / 32 - 1;
		*y += truth[k] * x[k];
	}
}

static enum plim_status fill_claim(struct plim_samples_filling *f, const struct plim_claim *claim,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;

	for (uint64_t i = claim->first; !st && i < claim->first + claim->count; i++) {
		float x[INPUTS], y;
		const struct plim_samples_part parts[] = { { x, inputs }, { &y, one } };

		make_sample(i, x, &y);
		st = plim_samples_put(f, i, parts, err);
	}
	return st;
}

static enum plim_status fill(const char *path, struct plim_err *err)
{
	static const struct plim_samples_field fields[] = {
		{ .name = "x", .dtype = "float32", .shape = inputs, .rank = 1, .item_bytes = 4 },
		{ .name = "y", .dtype = "float32", .shape = one, .rank = 1, .item_bytes = 4 },
	};
	static const char about[] = "version 1";
	const struct plim_samples_schema schema = { .fields = fields,
						    .field_count = 2,
						    .samples = SAMPLES,
						    .about = about,
						    .about_bytes = sizeof(about) - 1 };
	struct plim_samples_filling *f;
	struct plim_claim claim = { .state = PLIM_CLAIM_FILL };
	uint32_t done = 0;
	enum plim_status st = plim_samples_fill(path, &schema, &f, err);

	while (!st && claim.state != PLIM_CLAIM_DONE) { /* WAIT: other processes fill the rest */
		st = plim_samples_claim(f, &claim, err);
		if (!st && claim.state == PLIM_CLAIM_FILL)
			st = fill_claim(f, &claim, err);
	}
	while (!st && !done)
		st = plim_samples_seal(f, &done, err);
	plim_samples_filling_free(f);
	return st;
}

/* ---- the loop ---- */

struct job {
	struct plim_samples *samples;
	struct plim_batches *batches;
	struct plim_gradients *gradients;
	struct plim_checkpointer *checkpointer;
	float x[BATCH][INPUTS], y[BATCH];
	float w[INPUTS], gradient[INPUTS];
	double loss;
	uint64_t step;
};

static enum plim_status open_all(struct job *j, const char *folder, const char *samples,
				 struct plim_err *err)
{
	const struct plim_gradient tensor = { .elements = INPUTS,
					      .dtype = PLIM_GRADIENT_FLOAT32,
					      .copies = 1 };
	struct plim_batches_options batches;
	struct plim_gradients_options gradients;
	struct plim_checkpointer_options checkpointer;
	enum plim_status st = plim_samples_open(samples, NULL, &j->samples, err);

	plim_batches_options_init(&batches); /* no GPU, four threads */
	plim_gradients_options_init(&gradients);
	plim_checkpointer_options_init(&checkpointer);
	batches.device = -1;
	gradients.device = PLIM_UNKNOWN; /* host memory */
	checkpointer.keep_last = 2;
	if (!st)
		st = plim_batches_new(j->samples, &batches, &j->batches, err);
	if (!st)
		st = plim_gradients_open(&gradients, &j->gradients, err);
	if (!st)
		st = plim_gradients_set(j->gradients, &tensor, 1, err);
	if (!st)
		st = plim_checkpointer_open(folder, &checkpointer, &j->checkpointer, err);
	return st;
}

static void close_all(struct job *j)
{
	plim_batches_free(j->batches);
	plim_samples_close(j->samples);
	plim_gradients_free(j->gradients);
	plim_checkpointer_close(j->checkpointer);
}

static void backward(struct job *j, size_t n)
{
	memset(j->gradient, 0, sizeof(j->gradient));
	j->loss = 0;
	for (size_t i = 0; i < n; i++) {
		float error = -j->y[i];

		for (size_t k = 0; k < INPUTS; k++)
			error += j->w[k] * j->x[i][k];
		for (size_t k = 0; k < INPUTS; k++)
			j->gradient[k] += 2 * error * j->x[i][k] / (float)n;
		j->loss += (double)(error * error) / (double)n;
	}
}

/* Checked, clipped to a norm of 10, and left out if a value is not finite. */
static enum plim_status update(struct job *j, struct plim_err *err)
{
	const uint64_t where = (uint64_t)(uintptr_t)j->gradient;
	struct plim_gradients_summary summary; /* with the norm that it is clipped by */
	const struct plim_gradients_call call = { .size = sizeof(call),
						  .step = ++j->step,
						  .where = &where,
						  .summary = (uint64_t)(uintptr_t)&summary };
	struct plim_gradients_stats stats;
	enum plim_status st = plim_gradients_check(j->gradients, &call, err);

	if (!st)
		st = plim_gradients_clip(j->gradients, 10.0, &call, err);
	if (!st)
		st = plim_gradients_wait(j->gradients, &stats, err);
	for (size_t k = 0; !st && !stats.bad && k < INPUTS; k++)
		j->w[k] -= 0.3F * j->gradient[k];
	return st;
}

static enum plim_status train_epoch(struct job *j, uint64_t epoch, struct plim_err *err)
{
	const struct plim_epoch order = { .size = sizeof(order),
					  .flags = PLIM_EPOCH_SHUFFLE,
					  .epoch = epoch,
					  .batch_size = BATCH,
					  .world = 1 };
	void *const where[] = { j->x, j->y };
	struct plim_batch batch = { 0 };
	enum plim_status st = plim_batches_begin(j->batches, &order, err);

	while (!st) {
		st = plim_batches_peek(j->batches, &batch, err);
		if (st || !batch.count)
			break;
		st = plim_batches_push(j->batches, where, NULL, err);
		do /* one at a time: with several places one is gathered while another is used */
			if (!st)
				st = plim_batches_next(j->batches, NULL, 1000, &batch, err);
		while (!st && !batch.count);
		if (!st)
			backward(j, batch.count);
		if (!st)
			st = update(j, err);
	}
	return st;
}

/* Written by a thread of the library while the next epoch runs. */
static enum plim_status save(struct job *j, struct plim_saving **out, struct plim_err *err)
{
	const struct plim_saving_tensor tensor = { .name = "w",
						   .dtype = "float32",
						   .shape = inputs,
						   .rank = 1,
						   .where = j->w,
						   .device = -1 };
	enum plim_status st = plim_saving_begin(j->checkpointer, j->step, j->loss, out, err);

	if (!st)
		st = plim_saving_add(*out, "model", &tensor, 1, err);
	if (!st)
		st = plim_saving_text(*out, "state.json", "{}\n", 3, err);
	return st ? st : plim_saving_start(*out, NULL, 0, err);
}

static enum plim_status train(struct job *j, struct plim_err *err)
{
	struct plim_saving *saving = NULL;
	enum plim_status st = PLIM_OK;

	for (uint64_t epoch = 0; !st && epoch < EPOCHS; epoch++) {
		st = train_epoch(j, epoch, err);
		if (saving && !st) /* of the epoch before */
			st = plim_saving_wait(saving, PLIM_SAVING_DURABLE, PLIM_UNKNOWN, err);
		plim_saving_free(saving);
		saving = NULL;
		if (!st)
			st = save(j, &saving, err);
		printf("epoch %d: loss %.2g\n", (int)epoch, j->loss);
	}
	if (saving && !st)
		st = plim_saving_wait(saving, PLIM_SAVING_DURABLE, PLIM_UNKNOWN, err);
	plim_saving_free(saving);
	return st;
}

/* ---- what was saved ---- */

static enum plim_status compare(const struct job *j, const char *file, struct plim_err *err)
{
	const struct plim_weights_set *set;
	struct plim_weights *w;
	enum plim_status st = plim_weights_new(NULL, &w, err);

	if (!st)
		st = plim_weights_add(w, "latest", file, "*", err);
	if (!st)
		st = plim_weights_get(w, "latest", &set, err);
	if (!st) {
		const float *found = set->tensors[0].where; /* a set has one tensor at least */
		int same = set->tensor_count == 1 && set->tensors[0].bytes == sizeof(j->w);

		for (size_t i = 0; same && i < INPUTS; i++)
			same = found[i] == j->w[i];
		printf("read back: %s\n", same ? "the same" : "another");
		plim_weights_put(w, set);
		st = same ? PLIM_OK : PLIM_E_FORMAT;
	}
	plim_weights_free(w);
	return st;
}

int main(int argc, char **argv)
{
	static struct job job;
	char samples[4096], latest[4096];
	struct plim_err err = { 0 };
	enum plim_status st;

	if (argc != 2 || snprintf(samples, sizeof(samples), "%s/a.samples", argv[1]) >= 4000) {
		fprintf(stderr, "usage: training FOLDER\n");
		return 2;
	}
	(void)snprintf(latest, sizeof(latest), "%s/latest/model.safetensors", argv[1]);
	st = fill(samples, &err);
	if (!st)
		st = open_all(&job, argv[1], samples, &err);
	if (!st)
		st = train(&job, &err);
	if (!st)
		st = compare(&job, latest, &err);
	close_all(&job);
	if (st)
		fprintf(stderr, "training: %s\n", err.message);
	return st || job.loss > 1e-3;
}
