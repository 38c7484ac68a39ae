/*
 * A planned run as its parts share it (struct plim_plan is the public result): options to a recipe, the recipe to a
 * program, the program to what is reported.
 *
 * options.c, defaults.c, processes.c	what was asked for, and what was left open
 * planner.c, recordings.c		programs of it; what recordings of such a run teach
 * verdict.c, doubts.c, machine.c	numbers, verdict, what forbids one, the machine's own memory
 * largest.c, ladder.c			what would fit, what to change
 * paste.c, paste_keys.c		what to paste, also in the keys of other tools' files
 * phases.c				phases as one table
 * from.c, data/tools.rows			what other tools' configurations of the run say
 * traced.c, retraced.c			requests that PyTorch made on fake tensors, instead of a model and a recipe
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/base.h"
#include "plan/recipe.h"

#include <plimsoll/plan.h>
#include <plimsoll/why.h>

/* ---- traces (traced.c) ---- */

#define PLAN_TRACE_SCHEMA "trace/1"

/* Arrays as VEC makes them. */
struct plan_texts {
	const char **at;
	size_t n, cap;
};
struct plan_numbers {
	uint32_t *at;
	size_t n, cap;
};

struct plan_sizes {
	uint64_t *at;
	size_t n, cap;
};

/*
 * What a trace says next to its requests; texts are the arena's.  By request: place, operator (both numbers of names), and
 * where the run was traced with another batch as well its bytes with that.
 */
struct plan_traced {
	struct mem *mem;
	struct arena *arena;
	const char *model, *task, *torch, *transformers, *way, *recipe;
	uint64_t parameters, trainable, batch, sequence;
	uint64_t grown_batch; /* 0: it was traced with one batch alone */
	struct plan_sizes grown;
	uint64_t positions;                /* of the model; 0: no one says */
	struct plan_numbers sequences;     /* two others that were traced as well, or none */
	struct plan_sizes longer, longest; /* ... the bytes with either */
	uint64_t unknown_bytes;            /* at most, of what no table has: cuDNN's workspaces */
	struct plan_texts phases, places, operators, assumed;
	struct plan_texts unsure; /* what was guessed and decides the bytes: it forbids a verdict */
	struct plan_texts asked;  /* the options that it was made with, "precision=fp32" each */
	struct plan_numbers place, operator, category;
};

/* Does the file begin as a trace does? */
bool plan_is_trace(struct mem *m, const char *path);

/* Into a zeroed *t with mem and arena set, which plan_release_trace ends; and the plan, which plan_free ends. */
enum plim_status plan_read_trace(struct plan_traced *t, const char *path, struct plan **out,
				 struct plim_err *err);
enum plim_status plan_read_traced(struct plan_traced *t, const char *path, struct source *s,
				  struct plan **out, struct plim_err *err);
void plan_release_trace(struct plan_traced *t);

/*
 * The traced program with another batch, each request by its own law: a line through both batches that were traced.
 * plan_free ends it.  PLIM_E_UNSUPPORTED: there is one alone.
 */
enum plim_status plan_scale_trace(const struct plan_traced *t, const struct plan *traced,
				  uint64_t batch, struct plan **out, struct plim_err *err);
/* Are both between sizes that were traced?  Beyond them laws are not proof. */
bool plan_is_between_traced(const struct plan_traced *t, uint64_t batch, uint64_t sequence);
/* The same with another sequence: a line, or a parabola where a line does not do, through the three that were traced. */
enum plim_status plan_lengthen_trace(const struct plan_traced *t, const struct plan *traced,
				     uint64_t sequence, struct plan **out, struct plim_err *err);
void plan_trust_trace(const struct plan_traced *t, struct plan_trust *out);
/* The same requests once more. */
enum plim_status plan_copy(const struct plan *from, struct plan **out, struct plim_err *err);

/* ---- a trace's other recipes (retraced.c) ---- */

/* A recipe that was traced next to the run's own. */
struct plan_retraced {
	struct plan_recipe recipe;
	struct plan *plan; /* NULL: it could not be */
};

/* Fill p's recipe from what the trace says that it was made with; what it does not say is as plan_recipe_init has it. */
enum plim_status plan_recipe_of_trace(struct plim_plan *p, const struct plim_plan_options *o,
				      struct plim_err *err);

/*
 * The program of another recipe of a run that was traced: by the laws of its sizes, or traced again.  PLIM_E_UNSUPPORTED:
 * PyTorch cannot be asked for it, or not here.
 */
enum plim_status plan_retrace(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err);

/* PLIM_E_UNSUPPORTED, which names it: an option that is given and was not part of what was traced. */
enum plim_status plan_check_asked(const struct plim_plan_options *o, const struct plan_texts *asked,
				  struct plim_err *err);

struct plim_plan_hidden {
	struct mem mem;
	struct arena arena;
	struct model model;
	struct model
		quantized; /* a copy with its weights quantized as `quantize` says, for recipes that want it */
	enum plan_quantize quantize;
	bool litgpt; /* ... and its modules are LitGPT's */
	struct plan_recipe recipe;
	uint64_t shown_steps; /* of those that the recipe has; 0: all */
	struct allocator_rules rules;
	struct allocator_bounds bounds;
	struct text lora_targets; /* the option, cut at its commas */
	VEC(const char *) lora_names;
	VEC(uint64_t) extra;   /* bytes of tensors next to the model's */
	size_t extra_used;     /* of the recipe; the rest is for the search of what fits */
	VEC(uint64_t) lengths; /* tokens, step by step */
	VEC(char *) strings;   /* that the result points to */
	VEC(const char *) assumptions, defaults, doubts, from_notes;
	struct plan_zero zero;
	struct plan *plan;
	struct plan_trust trust; /* of the whole run */
	uint64_t floor_bytes; /* of what is counted, where that alone is too much; 0: it is not */
	bool bounded;
	bool foreign;     /* the run is another library's, with modules of its own */
	bool partly_read; /* of the run's own configuration some keys were not understood */
	bool needs_less;  /* ... some take less than is planned without them */
	bool loads_stored; /* its precision is autocast's alone: weights are loaded without a dtype */
	bool stored;       /* ... and so in the checkpoint's own 16 bits */
	bool redacts;      /* no word of the file goes into what is reported */
	bool gpu_by_size;       /* the size of the GPU was named: "24GB" */
	const char *otherwise;  /* what it needs where they are loaded as fp32; NULL: no question */
	const char *from_model; /* that a configuration names, where the caller gives none; NULL */
	const char *
		lora_alpha; /* that a configuration gives adapters; NULL: none, or several differ */
	const char *title;  /* of a page: "config.json, batch 8, sequence 2048" */
	const char *paste, *pasted; /* the tool that the text ends with, and what it is given */
	const char *
		tool; /* in whose keys all is written, too: that of --from, or of --for; static; NULL: none */
	const char *settings;        /* PYTORCH_CUDA_ALLOC_CONF, "" without */
	const struct facts_gpu *gpu; /* static storage; NULL: none was named */
	struct plan_learned learned; /* of recordings: */
	size_t recordings;           /* ... that were read; 0: none were given */
	struct plan_recipe recorded; /* ... the last one's recipe, except for what it borrows */
	struct plan_traced traced;   /* mem NULL: it was not a trace */
	bool traced_recipe;          /* ... and says all of its recipe */
	bool traces_rungs;           /* ... of which others were traced, too */
	bool beyond; /* requests may be reported beyond what was traced: who asks gives no verdict */
	VEC(struct plan_retraced) retraced;
	const struct plim_plan_options *options; /* while it is planned */
	uint64_t less_bytes,
		more_bytes; /* ... that the planned run may need less or more for what they leave open */
};

/* A copy that lives as long as the plan; NULL: *err is set. */
const char *plan_string(struct plim_plan *p, struct plim_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Options to a recipe; PLIM_E_ARG names what is not known. */
void plan_settle_counts(
	struct plim_plan_options *o); /* batch, accumulate and gpus: 1 unless given */
enum plim_status plan_read_options(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err);

/* The value of an option as this project calls it, of what other tools do; `given` itself where none does. */
const char *plan_value(const char *option, const char *given, bool trains);

/* Does a precision say what products are computed in, and leave open what weights are loaded in, as the Trainer's bf16 does? */
bool plan_says_autocast_alone(const char *precision, bool trains);

/*
 * One option by its name on the command line, as --recorded shows it; `value` is borrowed.  PLIM_E_ARG: it is none that
 * says what a step is, or no number.
 */
enum plim_status plan_tell_option(struct plim_plan_options *o, const char *name, const char *value,
				  struct plim_err *err);

/* One option by its name, where it is not given already; `value` is borrowed. */
enum plan_given {
	PLAN_NOT_TAKEN,    /* there is no such option, or it has no such value */
	PLAN_TAKEN,        /* it has this value now */
	PLAN_TAKEN_BEFORE, /* another value was given: that one stays */
};
enum plan_given plan_give_option(struct plim_plan_options *o, const char *name, const char *value);
/* Has it no value? */
bool plan_option_is_flag(const char *name);

/*
 * What files of the run's configuration say, into o; and the adapter_config.json that lies next to the model (from.c).
 * Fills p->settings_read, and hidden->doubts with what was not understood.  `one`: a file in memory instead; NULL: none.
 */
struct plan_bytes {
	const char *name; /* stands for the path */
	const void *at;
	size_t n;
};
enum plim_status plan_read_from(struct plim_plan *p, const char *model,
				const struct plan_bytes *one, struct plim_plan_options *o,
				struct plim_err *err);

/* Whose configuration a file is, where it is one of a run: "DeepSpeed"; NULL: it is none. */
const char *plan_tool_of(struct mem *m, const char *path);

/* Options, the GPU and the model to a recipe, which is made anew: plan_read_options, then plan_take_defaults. */
enum plim_status plan_read_recipe(struct plim_plan *p, const struct plim_plan_options *o,
				  struct plim_err *err);

/* What the options leave open, by the releases and the model that was read; says what it took for granted. */
extern const char plan_stored_words[]; /* a sentence without its end */
enum plim_status plan_take_defaults(struct plim_plan *p, const struct plim_plan_options *o,
				    struct plim_err *err);

/* Are there more tokens than the model was made for? */
bool plan_is_beyond(const struct model *m, const struct plan_recipe *r);

/* Where it is to run: p->limit_bytes. */
enum plim_status plan_find_limit(struct plim_plan *p, const struct plim_plan_options *o,
				 struct plim_err *err);

/* The model with its weights as a recipe keeps them; borrowed, until it is asked for other ones. */
enum plim_status plan_model_for(struct plim_plan *p, const struct plan_recipe *r,
				const struct model **out, struct plim_err *err);

/* Fill p->model, and what forbids a verdict (doubts.c). */
enum plim_status plan_take_model(struct plim_plan *p, struct plim_err *err);

/* Fill p->phases and p->peak from a measured program; then p->fits and what dies; then p->assumptions (verdict.c). */
enum plim_status plan_take_peak(struct plim_plan *p, const struct plan_result *result,
				uint64_t needed, struct plim_err *err);
enum plim_status plan_judge(struct plim_plan *p, struct plim_err *err);
enum plim_status plan_take_assumptions(struct plim_plan *p, const struct plim_plan_options *o,
				       struct plim_err *err);

/* What fits at most, and several sizes ("batch=1,2,4"; NULL: none), where they are asked for (largest.c). */
enum plim_status plan_find_largest(struct plim_plan *p, const struct plim_plan_options *o,
				   struct plim_err *err);
enum plim_status plan_sweep(struct plim_plan *p, const char *text, struct plim_err *err);

/* The program of a recipe, for the model as the recipe has its weights; plan_free it. */
enum plim_status plan_program(struct plim_plan *p, const struct plan_recipe *r, struct plan **out,
			      struct plim_err *err);

/* One more run of the same model under a limit, UINT64_MAX: none. */
struct plan_trial {
	uint64_t allocated_bytes, reserved_bytes;
	const char *died; /* phase, static or of `name`; NULL: it goes to its end */
	char name[12];
	uint64_t request_bytes;
	struct plan_trust trust;
};
/* What the caller has a use for: of a run that needs more no more is found out than that. */
struct plan_goal {
	uint64_t most_bytes; /* UINT64_MAX: whatever it needs */
	bool fits;           /* ... and only if it surely fits */
};

/*
 * The recipe's program and what it needs, with steps until one more needs no more: outputs that a step leaves to the next, as
 * an encoder's states, come to their full size in the third.  *needed: UINT64_MAX where the goal (NULL: any) is missed.  *out
 * is freed with plan_free, on failure as well.
 */
enum plim_status plan_settle(struct plim_plan *p, struct plan_recipe *r,
			     const struct plan_goal *goal, struct plan **out,
			     struct plan_result *result, uint64_t *needed, struct plim_err *err);
/* A copy for what is measured and not shown, with no more micro-batches than decide it. */
void plan_repeat_less(const struct plim_plan *p, struct plan_recipe *r);
/* The planned run's, with at least the steps that are shown. */
enum plim_status plan_show_steps(struct plim_plan *p, struct plan_result *result, uint64_t *needed,
				 struct plim_err *err);

enum plim_status plan_try(struct plim_plan *p, const struct plan_recipe *r, uint64_t limit_bytes,
			  struct plan_trial *out, struct plim_err *err);

/* How sure what the first `n` phases of a plan tell is; of one that recipe `r` made. */
struct plan_trust plan_trust(const struct plim_plan *p, const struct plan_recipe *r,
			     const struct plan *plan, size_t n);

/* Module and operation that make a request, of a model's plan or of a trace. */
void plan_site_of(const struct plim_plan *p, uint32_t request, struct plan_site *out);

/* Two sizes, kept as long as the plan: `bytes` with what is uncertain.  NULL: *err is set. */
struct plim_interval plan_range(const struct plan_trust *t, uint64_t bytes);

/* The most that a run may need to fit for sure. */
uint64_t plan_most_that_fits(const struct plim_plan *p, const struct plan_trust *trust);

/* A kind of phase, by how its name begins (phases.c). */
struct plan_phase_kind {
	const char *begins;
	const char *words;                 /* for a person */
	const char *brief;                 /* in a table; NULL: as it is called */
	bool numbered;                     /* by steps of training */
	enum plim_why_moment first, later; /* what a log says of it: in step 0, and else */
	struct plan_frame {
		const char *file, *name;
	} frames[2]; /* of PyTorch's around its requests, the inner one first; NULL: none */
};
const struct plan_phase_kind *plan_phase_kind(const char *phase); /* NULL: one of its own */

uint64_t plan_phase_step(const char *phase); /* 1 of "bwd1" or "fwd1.2"; PLIM_UNKNOWN of "load" */
enum plim_why_moment plan_phase_moment(const char *phase);

/* "the forward pass of step 1" of fwd1; into a buffer of 64. */
const char *plan_phase_words(char *buffer, const char *phase);

/* "forward 1" of fwd1, "forward 0.1" of its second micro-batch; short, for tables. */
void plan_put_phase(struct text *t, const char *phase);

/* What a moment of a log is called among phases; NULL: it is none. */
const char *plan_moment_words(enum plim_why_moment moment);

/* "a, b" and one more, for a message; what has no room is left out. */
#define PLAN_KNOWN 500
void plan_add_known(char known[PLAN_KNOWN], const char *name);

/* Several GPUs (processes.c): options to a recipe, as plan_read_options. */
enum plim_status plan_read_parallel(struct plan_recipe *r, const struct plim_plan_options *o,
				    struct plim_err *err);
/* What of a GPU is not PyTorch's: with several GPUs, NCCL's buffers next to what is usual; or what the caller says. */
uint64_t plan_allowance(const struct plan_recipe *r, const struct plim_plan_options *o);
enum plim_status plan_assume_parallel(struct plim_plan *p, struct plim_err *err);
/* Of a pipeline whose stage is not given, the one that needs most becomes the recipe's. */
enum plim_status plan_pick_stage(struct plim_plan *p, const struct plim_plan_options *o,
				 struct plim_err *err);
/* Both ends of what depends on time: DDP's first buckets go when the second forward pass begins, or after it. */
enum plim_status plan_linger(struct plim_plan *p, uint64_t range[2], struct plim_err *err);

/* The machine's own memory: fill p->host (machine.c); and what may be needed of it where `host` is reported. */
void plan_take_host(struct plim_plan *p, const struct plim_plan_options *o);
uint64_t plan_host_at_most(const struct plan_host *host, const struct plan_recipe *r);
/* A sentence on what was taken for granted, static or plan_string's (NULL: *err is set); and all on that memory. */
enum plim_status plan_assume(struct plim_plan *p, const char *text, struct plim_err *err);
enum plim_status plan_assume_host(struct plim_plan *p, struct plim_err *err);

#define PLAN_LEARNED_MOST 16 /* rows */

/* Learn from o->calibrate; the recipe is then p's own again, with what was learned.  Nothing to do without. */
enum plim_status plan_calibrate(struct plim_plan *p, const struct plim_plan_options *o,
				struct plim_err *err);

#define PLAN_LADDER_STEPS 64 /* rungs that are reported, at most */

/* Fill p->ladder for a run that does not fit. */
enum plim_status plan_climb(struct plim_plan *p, const struct plim_plan_options *o,
			    struct plim_err *err);
enum plim_status plan_write_config(struct plim_plan *p, const struct plan_choice *c,
				   struct plim_plan_config *out, struct plim_err *err);

/* Is it DeepSpeed that shares states out, or keeps copies in fp32?  And the optimizer's name in quotes, as the Trainer has it. */
bool plan_by_deepspeed(const struct plan_recipe *r);
const char *plan_optim_name(enum plan_optimizer optimizer);

/*
 * In the keys of the tool's own files (paste_keys.c): those that --from reads, by their name or by that of --for; NULL: none
 * is written so.
 */
const char *plan_keys_tool(const char *name);
const char *plan_keys_option(const char *name);
/* Are the model and its adapters loaded by code of the user's own, next to the file? */
bool plan_keys_leave_model(const char *name);
void plan_keys_known(char known[PLAN_KNOWN]);
void plan_write_keys(struct text *t, const char *name, const struct plan_recipe *r);
/* What of a recipe its files have no key for, a bit each; 0: all can be said. */
unsigned plan_keys_unsaid(const char *name, const struct plan_recipe *r);

/* What a tool ("trainer" ...) is given of a configuration; NULL in *out: it has no way to do this.  PLIM_E_ARG. */
enum plim_status plan_paste_for(const struct plim_plan_config *c, const char *tool,
				const char **out, struct plim_err *err);

/* "2x H100", "8xA100-80GB": the GPU's name, and how many; a name alone leaves *gpus. */
const char *plan_card_of(struct plim_plan *p, const char *name, uint64_t *gpus,
			 struct plim_err *err);

#endif
