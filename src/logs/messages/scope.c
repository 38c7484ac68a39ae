/*
 * The scope of one failure: which program, what it was doing, on whose driver, how it was set.  It is found once, and all
 * that is said of the failure goes by it.
 */
#include "scan.h"

#include <string.h>

#define E(engine) MESSAGES_ENGINE_##engine
#define A(activity) MESSAGES_DOING_##activity

/* Words of PyTorch in the message of a library below it; its bridge to XLA is built of TensorFlow's files. */
static int is_pytorchs(const struct messages_event *e)
{
	return scan_holds(e->text, scan_pytorch_words);
}

/* What the traceback shows is nearer than any word of the log. */
static enum messages_activity activity_of_moment(enum messages_moment moment)
{
	static const uint8_t activities[MESSAGES_MOMENTS] = {
		[MESSAGES_LOADING] = A(LOADING),     [MESSAGES_BACKWARD] = A(TRAINING),
		[MESSAGES_FIRST_STEP] = A(TRAINING), [MESSAGES_OPTIMIZER] = A(TRAINING),
		[MESSAGES_EVAL] = A(EVALUATION),     [MESSAGES_GENERATION] = A(GENERATING),
	};

	return (enum messages_activity)activities[moment];
}

static int may_be(enum messages_engine own, enum messages_engine other)
{
	if (!own)
		return 1;
	if (own == E(PYTORCH))
		return messages_engines[other].on_pytorch;
	for (size_t i = 0; i < scan_builder_count; i++)
		if (scan_builders[i].own == own && scan_builders[i].other == other)
			return 1;
	return 0;
}

/* Whose driver the words of the failure itself tell; 0: they do not. */
static enum messages_backend own_backend(const struct messages_event *e)
{
	if (e->wording->family == MESSAGES_ROCM)
		return MESSAGES_BACKEND_ROCM;
	if (e->wording->family == MESSAGES_XPU)
		return MESSAGES_BACKEND_XPU;
	for (size_t i = 0; i < scan_driver_word_count; i++)
		if (strstr(e->text, scan_driver_words[i].word))
			return scan_driver_words[i].backend;
	return MESSAGES_BACKEND_CUDA;
}

/* What the anchored words of one file prove. */
static void find_in(const struct messages_log *log, uint32_t file, enum messages_engine own,
		    struct messages_context *out)
{
	const struct messages_file *f = &log->files.at[file];

	for (size_t i = 0; f->cues != SIZE_MAX && i < scan_cue_count; i++) {
		const struct scan_cue *cue = &scan_cues[i];
		uint64_t line = log->cues.at[f->cues + i];

		if (!line)
			continue;
		if (cue->engine && (!out->engine || cue->engine < out->engine) &&
		    may_be(own, cue->engine)) {
			out->engine = cue->engine;
			out->engine_line = line;
			out->engine_file = file;
			out->engine_cue = cue->word;
		}
	}
	for (size_t i = 0; i < MESSAGES_SETTINGS; i++)
		if (f->set[i].line && !out->set[i].line)
			out->set[i] = f->set[i];
}

/* What it was doing, by words of no one's or of this engine: another's in the log tell what that one does. */
static void find_activity(const struct messages_log *log, uint32_t file, enum messages_engine own,
			  struct messages_context *out)
{
	const struct messages_file *f = &log->files.at[file];

	for (size_t i = 0; f->cues != SIZE_MAX && i < scan_cue_count && !out->activity; i++) {
		const struct scan_cue *cue = &scan_cues[i];
		uint64_t line = log->cues.at[f->cues + i];

		if (!line || !cue->activity || (cue->engine && cue->engine != out->engine))
			continue;
		/* whoever runs llama.cpp, its buffers are made at the load */
		if (cue->activity == A(GENERATING) &&
		    messages_engines[cue->engine ? own : out->engine].dies_loading &&
		    !(cue->engine && messages_engines[cue->engine].dies_loading))
			continue;
		out->activity = cue->activity;
		out->activity_line = line;
		out->activity_file = file;
		out->activity_cue = cue->word;
	}
}

/* The script that the traceback begins in. */
static const char *outer_name(const struct messages_event *e)
{
	const char *file = e->traceback.outer.file, *slash = strrchr(file, '/');

	return slash ? slash + 1 : file;
}

/* What it was doing, by the name of the script that a traceback or a command starts. */
static void find_script(const struct messages_log *log, const struct messages_event *e,
			struct messages_context *out)
{
	const struct messages_file *f = &log->files.at[e->file];

	out->script = f->script[0] ? f->script : NULL;
	if (out->activity || messages_engines[out->engine].dies_loading)
		return;
	out->activity = scan_script_does(outer_name(e));
	out->activity_line = out->activity ? e->line : 0;
	if (!out->activity && out->script) {
		out->activity = scan_script_does(out->script);
		out->activity_line = out->activity ? f->script_line : 0;
		out->activity_cue = out->activity ? out->script : NULL;
	}
}

/* Words of another file belong to a failure only where the two report one death. */
static void find_everywhere(const struct messages_log *log, const struct messages_event *e,
			    enum messages_engine own, struct messages_context *out)
{
	uint32_t index = (uint32_t)(e - log->events.at);

	find_in(log, e->file, own, out);
	for (size_t i = 0; i < log->events.n; i++)
		if (log->events.at[i].joined == index && log->events.at[i].file != e->file)
			find_in(log, log->events.at[i].file, own, out);
	find_activity(log, e->file, own, out);
	find_script(log, e, out);
}

/* Does a word of these stand in the file? */
static int has_word(const struct messages_log *log, uint32_t file, const struct scan_word *words)
{
	const struct messages_file *f = &log->files.at[file];

	for (size_t i = 0; f->cues != SIZE_MAX && i < scan_cue_count; i++)
		if (log->cues.at[f->cues + i] && scan_says(scan_cues[i].word, words))
			return 1;
	return 0;
}

/* XLA is in JAX, in TensorFlow, next to PyTorch and elsewhere: its words are of who calls it. */
static enum messages_engine of_xla(const struct messages_log *log, uint32_t file)
{
	if (has_word(log, file, scan_jax_cues))
		return E(JAX);
	return has_word(log, file, scan_tensorflow_cues) ? E(TENSORFLOW) : E(UNKNOWN);
}

/* Python shows its frames, and its scripts are called by it: what shows neither may be written in C++. */
static int is_python(const struct messages_log *log, const struct messages_event *e)
{
	const struct messages_file *f = &log->files.at[e->file];

	return e->traceback.frames || strstr(f->script, ".py") || strstr(e->text, ".py\"") ||
	       e->wording->family == MESSAGES_PYTHON || e->wording->family == MESSAGES_DATALOADER;
}

static void find_language(const struct messages_log *log, const struct messages_event *e,
			  struct messages_context *out)
{
	struct messages_set *native = &out->set[MESSAGES_TASK_NATIVE];

	if (out->set[MESSAGES_TASK_JVM].line)
		*native = out->set[MESSAGES_TASK_JVM];
	if (is_python(log, e))
		native->line = out->set[MESSAGES_TASK_JVM].line = 0;
}

/* A server shares out the GPU when it starts; what runs out or is put off later says so. */
static int is_starting(const struct messages_event *e)
{
	return scan_says(e->text, scan_start_words) ||
	       (e->wording->class == MESSAGES_BUDGET &&
		!strstr(e->wording->pattern, "out of memory") &&
		!strstr(e->wording->pattern, "preempted"));
}

/* What the engine and the other words make of the activity. */
static void settle_activity(const struct messages_event *e, struct messages_context *out)
{
	if ((out->activity == A(SERVING) ||
	     (!out->activity && messages_engines[out->engine].trains_never)) &&
	    (is_starting(e) || out->set[MESSAGES_SET_KV_ROOM].line ||
	     out->set[MESSAGES_SET_BUFFERS].line))
		out->activity = A(STARTING);
	/* a training script that loads or draws by a pipeline trains */
	if ((out->activity == A(GENERATING) || out->activity == A(LOADING)) &&
	    out->engine == E(DIFFUSERS) && scan_script_does(outer_name(e)) == A(TRAINING))
		out->activity = A(TRAINING);
}

/* A word far above a failure, of another run in the same log, still shows the engine: a log is usually of one program. */
void messages_find_context(const struct messages_log *log, const struct messages_event *e,
			   struct messages_context *out)
{
	enum messages_engine own = e->wording->engine;

	if (is_pytorchs(e))
		own = E(PYTORCH);
	if (own == E(JAX))
		own = of_xla(log, e->file);
	*out = (struct messages_context){ .engine = own,
					  .activity = activity_of_moment(e->traceback.moment),
					  .backend = own_backend(e),
					  .is_xla = e->wording->family == MESSAGES_JAX,
					  .engine_line = own ? e->line : 0,
					  .engine_file = e->file,
					  .activity_file = e->file };
	if (!out->activity && e->wording->family == MESSAGES_SERVING)
		out->activity = A(SERVING);
	if (out->activity)
		out->activity_line = e->line;
	find_everywhere(log, e, own, out);
	find_language(log, e, out);
	settle_activity(e, out);
}
