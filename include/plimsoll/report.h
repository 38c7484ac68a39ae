/*
 * plimsoll report: what filled a GPU's memory, who kept it, and why it ran out, from a PyTorch
 * memory snapshot.
 *
 * All sizes are bytes.  A number that is not known is PLIM_UNKNOWN and a text that is not known is
 * NULL; JSON shows null for both.  Everything a report points to belongs to the report.
 */
#ifndef PLIMSOLL_REPORT_H
#define PLIMSOLL_REPORT_H

#include <plimsoll/recording.h>
#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum plim_report_group {
	PLIM_GROUP_USER_FRAME,
	PLIM_GROUP_STACK,
	PLIM_GROUP_SIZE,
	PLIM_GROUP_MODULE /* the lines that called the modules it lies in, outermost first */
};

enum plim_report_flags {
	/* (--redact, under names) replace all names that are not PyTorch's or well known */
	PLIM_REPORT_REDACT = 1,
	/*
	 * (--why, under why) the evidence too: every finding in full, all totals, the check. Of
	 * the text
	 */
	PLIM_REPORT_WHY = 2
};

/* plim_report_options_init sets the defaults; then change what is to be different. */
struct plim_report_options {
	/* set by plim_report_options_init */
	uint32_t size;
	/* enum plim_report_flags */
	uint32_t flags;
	/*
	 * (-m --max-memory BYTES, from 1MiB, under limits) refuse input that needs more (half of
	 * this machine's)
	 */
	uint64_t max_memory_bytes;
	/*
	 * (-l --log FILE, under log) log file with the out-of-memory message, which has limits and
	 * other processes that a snapshot does not record
	 */
	const char *log_path;
	/* (-d --device N, 0 to 1023, else unknown, under look) only this GPU */
	uint64_t device;
	/*
	 * (--at MOMENT, after --device) whose owners to list: peak, oom, end or event:N (the
	 * failure, else the peak)
	 */
	const char *at;
	/* (--events A:B) peaks and timeline of events A to B only */
	const char *events;
	/* (--steps A:B) the same in training steps, counted from 0 */
	const char *steps;
	/* (-g --group-by WHAT) add up what was held by the user's line, stack, size or module */
	enum plim_report_group group_by;
	/* (--strip-prefix PATH, after --redact) cut this from file names */
	const char *strip_prefix;
	/*
	 * (-n --owners rows, 0 to 1000000, is 12, after --group-by) owners to list in JSON, 0 for
	 * all
	 */
	uint32_t owners_max;
	/*
	 * (--gpu CARD, after --owners) when a leak will have filled this GPU, "RTX 4090" (the
	 * next larger ones)
	 */
	const char *gpu;
};
PLIM_API void plim_report_options_init(struct plim_report_options *o);

struct plim_report_source {
	const char *path;        /* the file as given, "-" for standard input */
	const char *kind;        /* pickle, json, plim, profile or timeline (PyTorch's profiler) */
	const char *compression; /* gzip, xz, zstd, bzip2 or zip; null: none */
	uint64_t bytes;          /* size as stored; null for a pipe */
	uint64_t decoded_bytes;  /* size when decompressed */
	uint64_t events;         /* (never null) events of all devices */
	bool complete;           /* recording began before the first allocation and lost no event */
	const char **notes;      /* what the reader found worth telling */
	size_t note_count;
};

struct plim_report_moment {
	/* index of the event that reached it; null: it stood before the first */
	uint64_t event;
	uint64_t time_us;                 /* microseconds since 1970; null before PyTorch 2.2 */
	struct plim_interval range_bytes; /* what the number may be; low is high: exact */
	/* index of the step that it lies in; null: there are no steps */
	uint64_t step;
	const char *phase; /* as in oom[].phase; null: no stacks were recorded */
};

struct plim_report_peak {
	/* largest sum of what the program asked for (requested_bytes.all.peak) */
	uint64_t requested_bytes;
	/* largest sum of blocks in use or awaiting another stream */
	uint64_t active_bytes;
	/* largest sum of blocks in use (torch.cuda.max_memory_allocated) */
	uint64_t allocated_bytes;
	/* most memory taken from the driver (torch.cuda.max_memory_reserved) */
	uint64_t reserved_bytes;
	struct plim_report_moment requested; /* when requested_bytes was reached */
	struct plim_report_moment active;    /* when active_bytes was reached */
	struct plim_report_moment allocated; /* when allocated_bytes was reached */
	struct plim_report_moment reserved;  /* when reserved_bytes was reached */
	/* the recording does not cover the whole run: its peak may lie outside */
	bool lower_bound;
};

/* Bytes of live blocks by what they are for; they add up to allocated_bytes of the moment. */
struct plim_report_categories {
	uint64_t parameter;       /* bytes of the model's weights */
	uint64_t gradient;        /* bytes of their gradients */
	uint64_t optimizer_state; /* bytes of what the optimizer keeps from step to step */
	uint64_t activation;      /* bytes that a forward pass saved for its backward pass */
	uint64_t input;           /* bytes of what goes into the model */
	uint64_t workspace;       /* bytes of cuBLAS workspaces */
	uint64_t temporary;       /* bytes that end in the phase they were allocated in */
	uint64_t autograd_detail; /* bytes that a backward pass needs for itself */
	uint64_t kv_cache;        /* bytes of keys and values of attention */
	uint64_t buffer;          /* bytes of what a module keeps next to its parameters */
	uint64_t unknown;         /* bytes that no rule explains */
	/* bytes that were there before the recording began: usually weights and optimizer state */
	uint64_t before_recording;
};

struct plim_report_totals {
	uint64_t requested_bytes; /* what the program asked for */
	uint64_t active_bytes;    /* blocks in use or awaiting another stream */
	uint64_t allocated_bytes; /* blocks in use */
	uint64_t reserved_bytes;  /* taken from the driver */
	/*
	 * allocated_bytes by what they are for; null: no stacks were recorded, or before the first
	 * event
	 */
	struct plim_report_categories *categories;
};

/* The most that was requested in each phase of a step; PLIM_UNKNOWN: it was not in that phase. */
struct plim_report_phases {
	uint64_t load;      /* bytes; null: the step had no such phase */
	uint64_t forward;   /* bytes, or null */
	uint64_t backward;  /* bytes, or null */
	uint64_t optimizer; /* bytes, or null */
	uint64_t eval;      /* bytes, or null: a forward pass that no backward pass answers */
	uint64_t generate;  /* bytes, or null */
	/* bytes, or null: a forward pass of a program that never runs backward */
	uint64_t request;
	uint64_t other; /* bytes, or null */
};

struct plim_report_step {
	/* (never null) from 0; the first begins with the recording */
	uint64_t index;
	uint64_t start_event; /* (never null) first event */
	/*
	 * (never null) last event: the optimizer's last, the least memory before the next one, or
	 * the recording's last
	 */
	uint64_t end_event;
	uint64_t requested_peak_bytes;         /* (never null) most that was requested in it */
	struct plim_report_phases phase_peaks; /* the same by phase */
};

/* Where a recording of training stops that holds a part of its last step only. */
struct plim_report_stop {
	uint64_t step;     /* (never null) that step */
	const char *phase; /* the pass that it stops in or behind: forward or backward */
};

struct plim_report_owner {
	uint64_t bytes;      /* (never null) what its allocations hold */
	uint64_t count;      /* (never null) allocations */
	uint64_t each_bytes; /* grouped by size: the size asked for; else null */
	const char *frame;   /* the innermost line of the user's own code; null: no Python stack */
	const char **stack;  /* of its largest allocation, innermost first */
	size_t stack_count;
	bool inferred; /* the owner was not recorded but concluded */
	/*
	 * the innermost line of its stack that is not PyTorch's, of the model's code, whoever wrote
	 * it; null: no Python stack
	 */
	const char *code_frame;
	/* no stack, for it was there before the recording began */
	bool before_recording;
	/*
	 * where modules were called from, outermost first, "modeling_llama.py:402 > 308 > 240"; of a plan the module's
	 * name; null: its stack shows no call of a module
	 */
	const char *module;
};

/* What the program called its allocations (user_metadata of their events, PyTorch 2.10 and later). */
struct plim_report_tag {
	const char *name; /* null: those that have none */
	uint64_t bytes;   /* what they hold together */
	uint64_t count;   /* of allocations */
};

struct plim_report_owners {
	const char *measure;              /* which of the four totals is divided among the owners */
	const char *what;                 /* the moment: peak, oom, end or event */
	uint64_t event;                   /* index of the moment's event; null: before the first */
	uint64_t total_bytes;             /* the sum over all owners */
	struct plim_report_owner *owners; /* largest first */
	size_t owner_count;
	uint64_t owners_left_out; /* owners beyond the rows that were asked for */
	uint64_t left_out_bytes;  /* what those hold */
	/* total_bytes by what they are for; null: no stacks were recorded */
	struct plim_report_categories *categories;
	const char **annotations; /* as in oom[].annotations */
	size_t annotation_count;
	/* the same memory by code_frame instead: where in a model, if one line calls it; largest first */
	struct plim_report_owner *by_code;
	size_t by_code_count;
	struct plim_report_tag
		*tags; /* the same memory by tag, largest first; none: nothing that lives has one */
	size_t tag_count;
};

struct plim_report_leak {
	uint64_t finding; /* (never null) index in findings */
	/* (never null) growth from the first repetition to the last, and what it had kept before the recording */
	uint64_t grown_bytes;
	uint64_t per_repetition_bytes; /* (never null) growth of one repetition */
	uint64_t repetitions;          /* (never null) repetitions that grew, one after another */
	uint64_t first_event;          /* (never null) start of the first repetition */
	uint64_t last_event;           /* (never null) start of the last repetition */
	const char *loop;              /* the line that is entered once a repetition */
	/* the user's line that allocated the largest part of what stays */
	const char *frame;
	const char **stack; /* its stack, innermost first */
	size_t stack_count;
	uint64_t part_bytes; /* what that stack allocated and no one freed */
};

/* When the leaks will have filled a GPU, if the program goes on as it did. */
struct plim_report_fill {
	const char *gpu;      /* the GPU; null: a limit (in whatif) */
	uint64_t limit_bytes; /* (never null) of its memory, what PyTorch can have */
	const char *period;   /* (never null) as in findings[] */
	/* how many more are served, counted from the last one that kept something */
	struct plim_interval repetitions;
	struct plim_interval step; /* the same as an index of a step; null: of another period */
};

/* A replay of the same requests, up to the recording's end, under the bound of the failure: whatif's numbers. */
struct plim_report_tried {
	const char *settings;         /* (never null) PYTORCH_CUDA_ALLOC_CONF */
	bool survives;                /* wherever the driver puts the segments */
	uint64_t oom_event;           /* at which it failed, too; null: it did not */
	uint64_t limit_bytes;         /* that it was held to */
	uint64_t reserved_peak_bytes; /* the most that was taken from the driver */
};

struct plim_report_oom {
	uint64_t event;   /* (never null) index */
	uint64_t time_us; /* microseconds since 1970; null before PyTorch 2.2 */
	bool survived;    /* the program caught it and went on */
	/* (never null) what was asked for, as the allocator had rounded it */
	uint64_t requested_bytes;
	/* (never null) what the driver was asked for ("Tried to allocate") */
	uint64_t segment_bytes;
	int64_t stream;   /* cudaStream_t of the request */
	const char *pool; /* (never null) small or large */
	/*
	 * load, forward, backward, optimizer, eval, generate, request or other; null: no stacks
	 * were recorded
	 */
	const char *phase;
	uint64_t step;     /* index of the step that it lies in; null: there are no steps */
	const char *frame; /* the user's own line; null: no Python stack */
	/* without a frame, in a backward pass: the line whose backward pass it was, concluded */
	const char *backward_of;
	const char *code_frame; /* of either, as in owners[] */
	const char **stack;     /* innermost first */
	size_t stack_count;
	uint64_t live_bytes; /* blocks in use at that moment */
	/* taken from the driver, after the allocator had given back what it could */
	uint64_t reserved_bytes;
	/* reserved memory that was certainly allowed (verdict.bound_bytes.low) */
	uint64_t bound_bytes;
	uint64_t device_free_bytes; /* free on the device as the driver reported */
	uint64_t free_bytes;        /* reserved but in no block in use */
	/* largest free block that this request's stream and pool could use */
	uint64_t largest_free_bytes;
	/*
	 * names of the ranges (record_function, external_annotations) that it lies in, the
	 * outermost first, at most 16
	 */
	const char **annotations;
	size_t annotation_count;
	/* null for those between the first and the last four of many */
	struct plim_verdict *verdict;
	/* what other settings would have done; of the last failure, where settings are the question */
	struct plim_report_tried *tried;
	size_t tried_count;
};

struct plim_report_check {
	/* (never null) events that were replayed under the allocator's rules */
	uint64_t events;
	uint64_t faults; /* (never null) of these, the ones that the rules cannot explain */
	/* (never null) blocks of the snapshot that the replay did not end with */
	uint64_t end_faults;
	/* (never null) events that contradict each other or the snapshot */
	uint64_t contradictions;
	/* the replay explains every event and ends with exactly the snapshot's blocks */
	bool exact;
};

/* A part of what is reserved and not asked for. */
struct plim_report_gap_part {
	/*
	 * wholly_free: segments, or pages of expandable ones, that nothing is in; private_pools: free
	 * in pools of CUDA graphs or of a MemPool; other_streams: free in segments of a stream that is
	 * not the one with the most in use; waiting: freed, but another stream may still use it;
	 * splits: free in segments that something is in; rounding: of blocks that are in use
	 */
	const char *kind;
	uint64_t bytes; /* (never null) */
	uint64_t
		kept_by_bytes; /* in use in the same segments, which keeps them; null: nothing does */
	const char *frame;     /* the user's line that made most of that; null: not known */
	const char *gives_back; /* what gives it back */
};

/* What is reserved and not asked for, by who owns it. */
struct plim_report_gap {
	uint64_t bytes;                     /* (never null) the sum of the parts */
	struct plim_report_gap_part *parts; /* largest first */
	size_t part_count;
};

/* A line below the headline of what is reported first. */
struct plim_report_line {
	/* limit, because, line, refused, since, full or cause; null: it stands alone */
	const char *label;
	const char *text;  /* a sentence, or a place: "model.py:40 in loss < train.py:152" */
	const char *brief; /* of a place: the same in fewer columns; null: it is a sentence */
};

/* Who held memory, as people read it. */
struct plim_report_holder {
	uint64_t bytes;    /* (never null) */
	const char *text;  /* the model's line, and the user's that called it; or what it is */
	const char *brief; /* the same in fewer columns */
};

/*
 * What a person reads of a device first, in this order: the text, the page and `why --snapshot` show these words and no
 * others.
 */
struct plim_report_told {
	const char *kind;               /* died, refused (and caught), leak, fine or no_events */
	const char *headline;           /* "DIED OF FRAGMENTATION, backward of step 15: ..." */
	struct plim_report_line *lines; /* its sum, its limit, its cause, its place */
	size_t line_count;
	const char **remedies; /* what to do, best first */
	size_t remedy_count;
	const char *held;  /* "Who held 3.02 GiB allocated"; null: nothing was held */
	const char *kinds; /* what that was for: "1.74 GiB activations, ..."; null: not known */
	struct plim_report_holder *holders; /* largest first */
	size_t holder_count;
	const char *peak; /* "3.44 GiB allocated, forward of step 15; 3.97 GiB reserved" */
	/* who owns what is reserved and not in use; null: too little, or a failure or leak is reported */
	const char *gap;
	const char *gap_at_peak; /* the same at the peak */
	const char *
		stop; /* where in a step the recording ends; null: between steps, or none are seen */
};

struct plim_report_device {
	uint64_t device;                   /* (never null) ordinal */
	uint64_t events;                   /* (never null) number of events */
	uint64_t allocations;              /* (never null) number of allocations */
	uint64_t streams;                  /* (never null) number of streams with allocations */
	struct plim_report_totals before;  /* before the first event */
	struct plim_report_peak peak;      /* of the recording; null without events */
	struct plim_report_owners at_peak; /* who held the memory at a moment */
	struct plim_report_totals end;     /* when the snapshot was taken */
	/* at the end; null: a tenth of what is allocated or less, or no one looked at the end */
	struct plim_report_gap *gap;
	/* the same at the allocated peak; null: a tenth of what is reserved then, or less, or it is not known */
	struct plim_report_gap *gap_at_peak;
	struct plim_report_oom *oom; /* deaths, in turn */
	size_t oom_count;
	struct plim_finding *findings; /* worst first */
	size_t finding_count;
	struct plim_report_leak *leaks; /* those of the findings that are leaks */
	size_t leak_count;
	/* when they fill which GPU; of a run that did not die */
	struct plim_report_fill *fills;
	size_t fill_count;
	/* training steps, or what else repeats; the last one may not have ended */
	struct plim_report_step *steps;
	size_t step_count;
	/*
	 * what ends a step: optimizer; backward: a backward pass, where no optimizer is seen;
	 * request: passes of a model, where nothing runs backward; annotation: a range that the
	 * program named with record_function; null: no steps
	 */
	const char *step_basis;
	/* the step that the recording stops within; null: it stops between steps, or none are seen */
	struct plim_report_stop *stop;
	struct plim_report_check self_check; /* how far the numbers prove themselves */
	uint64_t timeline_first_event;       /* first event that the timeline and the peaks cover */
	uint64_t timeline_last_event;        /* last event that they cover; null without events */
	/* largest allocated bytes in equal parts of the events */
	uint64_t *timeline_bytes;
	size_t timeline_count;
	/* smallest allocated bytes in the same parts */
	uint64_t *timeline_low_bytes;
	size_t timeline_low_count;
	struct plim_report_told told; /* what a person is shown first */
};

/* What the device that held most has beyond another of the same program, each at its peak or last failure. */
struct plim_report_uneven {
	uint64_t device;        /* that held most */
	uint64_t other_device;  /* the one in the middle, the lower of two */
	uint64_t bytes;         /* the difference */
	const char *category;   /* that makes at least half of it, and most; null: none does */
	int64_t category_bytes; /* what it has more of that */
	const char *meaning;    /* what makes it differ; null: nothing is known */
	const char *frame;      /* the line that has most more; null: none has */
	int64_t frame_bytes;    /* what it has more there */
};

struct plim_report {
	struct plim_report_source source;   /* what was read */
	struct plim_report_device *devices; /* those with memory or events */
	size_t device_count;
	struct plim_report_uneven
		*uneven; /* null: one device, or they differ by less than a twentieth */
	struct plim_report_hidden *hidden; /* what owns the memory */
};

/*
 * Read and explain a snapshot ("-": standard input).  PLIM_E_IO, PLIM_E_FORMAT: it cannot be read or
 * is something else; PLIM_E_ARG: an option does not fit the recording; PLIM_E_LIMIT: more memory is
 * needed than allowed.
 */
PLIM_API enum plim_status plim_report_open(const char *path,
					   const struct plim_report_options *options,
					   struct plim_report **out, struct plim_err *err);
/* The same of a recording that was read, which the report borrows; max_memory_bytes is the recording's. */
PLIM_API enum plim_status plim_report_of(struct plim_recording *recording,
					 const struct plim_report_options *options,
					 struct plim_report **out, struct plim_err *err);
PLIM_API void plim_report_free(struct plim_report *report);

/* The ids that findings of a recording can have (docs/findings.md), from 0; NULL behind the last. */
PLIM_API const char *plim_report_finding_id(size_t i);

/* The report as JSON, schema report/2 (docs/json.md). */
PLIM_API enum plim_status plim_report_json(const struct plim_report *report, plim_write_fn *write,
					   void *ctx, struct plim_err *err);

/* The report as text for a person. */
PLIM_API enum plim_status plim_report_text(const struct plim_report *report,
					   const struct plim_text_style *style,
					   plim_write_fn *write, void *ctx, struct plim_err *err);

/* Write the snapshot that was read: packed where the name ends in ".plim", else as a pickle that PyTorch's viewer opens. */
PLIM_API enum plim_status plim_report_snapshot(const struct plim_report *report, const char *path,
					       struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
