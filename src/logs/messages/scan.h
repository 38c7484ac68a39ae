/* What the parts of the scanner share. */
#ifndef MESSAGES_SCAN_H
#define MESSAGES_SCAN_H

#include "messages.h"

static inline char scan_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whose units are read: c10's format_size, anybody's, or those of who writes GB and means 2^30. */
enum scan_unit_kind { SCAN_UNITS_PYTORCH, SCAN_UNITS_ANY, SCAN_UNITS_BINARY };

/* A number with its unit at the start of `text`: bytes that were read, 0: there is none. */
size_t scan_size(const char *text, size_t n, enum scan_unit_kind which, struct messages_bytes *out);

/* "out of memory", perhaps wrapped between its words, at the start of `text` ("out of" is there). */
int scan_is_trigger(const char *text, size_t n);

/* The length of what a logger put here: a colour, or "[rank3]: " where a line starts. */
size_t scan_decoration(const char *p, size_t n, int line_start);

/* A line as it is compared and shown: without colours and control characters. */
#define SCAN_LINE_BYTES 1024
struct scan_line {
	char text[SCAN_LINE_BYTES];
	size_t n;
	size_t body;   /* where it starts behind "[rank3]: " and the like */
	uint32_t rank; /* UINT32_MAX: not known */
};

int scan_ends_line(char c); /* progress bars end theirs with a carriage return */
const char *scan_line_start(const char *from, const char *at);
const char *scan_line_end(const char *at, const char *end);
/* [start, end) into *l; of more than fits, what stands around `at`. */
void scan_line_clean(struct scan_line *l, const char *start, const char *end, const char *at);
/* A hash of [start, end) in which all digits are the same. */
uint64_t scan_line_shape(const char *start, const char *end);
/* A compiler's "file:12:3: warning: ...", PostgreSQL's statement: text that is shown, not what happened. */
int scan_line_quotes(const struct scan_line *l);
/*
 * "no", "avoid", "if" in the sentence that holds `at` (NULL: in the line): what it names did not happen, or is not reported
 * to have; nor what stands in a comment, a list or a table, but `titled` says that a "# " is that of a title.
 */
int scan_line_denies(const struct scan_line *l, const char *at, int titled);
/* Where the digits at `p` end, `p`: there are none.  A number too large is PLIM_UNKNOWN. */
const char *scan_digits(const char *p, const char *end, uint64_t *out);
/* Where the digits begin that end at `p`. */
const char *scan_digits_before(const char *from, const char *p);
/*
 * How much of [p, end) is the name of a container that docker compose puts in front of a line ("trainer-1  | "); 0: there is
 * none.
 */
size_t scan_container(const char *p, const char *end);
/* The number of up to seven digits at `p`, and where it ends; UINT32_MAX: there is none. */
uint32_t scan_number(const char *p, const char **end);

/* ---- one source ---- */

/* A text that holds zero bytes is none. */
int scan_is_text(const struct source *src);
#define SCAN_HEAD_BYTES 4096 /* that are there before it is asked what a file is */
/* What a file is that is not a log; 0: it may be one. */
int scan_kind(const struct source *src, const char *name, struct messages_kind *out);
/* Search all of it; events get the file's index, and its rank where their lines tell none. */
enum plim_status scan_source(struct messages_log *log, uint32_t file, uint32_t rank,
			     struct source *src, uint64_t *line_feeds, struct plim_err *err);

/* ---- events ---- */

#define SCAN_NONE UINT32_MAX

/* Nothing is known of it. */
void scan_oom_start(struct messages_oom *o);
void scan_event_start(struct messages_event *e);
void scan_event_rank(struct messages_event *e, uint32_t rank);
/* Count it up where it was reported before: its index, or SCAN_NONE. */
uint32_t scan_event_repeat(struct messages_log *log, const struct messages_event *e);
/* When no more fit, the newest takes the last place. */
enum plim_status scan_event_add(struct messages_log *log, const struct messages_event *e,
				struct plim_err *err);
int scan_event_is_kernels(const struct messages_event *e);
int scan_event_is_kill(const struct messages_event *e);
/* What a line of the kernel says of a kill. */
void scan_kill_numbers(struct messages_event *e, const struct scan_line *line);
/* What a line adds to the kill that is being reported. */
void scan_kill_detail(struct messages_event *k, const struct messages_event *e);
/* Whom it killed: completes the event that its details began (SCAN_NONE: none); 0: it is a new one. */
int scan_kill_end(struct messages_log *log, uint32_t kill, const struct messages_event *e);

/* ---- patterns ---- */

/*
 * A wording as a pattern, matched without regard to case:
 *   *       any text                ^ $   start and end of the line's body
 *   |       not inside a word       space one or more blanks
 *   {name}  a field of the event (pattern.c has them)
 * Its longest literal part of at least SCAN_ANCHOR_BYTES is what the text is searched for.
 */
#define SCAN_ANCHOR_BYTES 6
int scan_match(const char *pattern, const struct scan_line *line, struct messages_event *e);

/* The literal part that is searched for; *n 0: the pattern has none that is long enough. */
const char *scan_anchor(const char *pattern, size_t *n);

/* ---- the tables: data/wordings.rows ---- */

extern const struct messages_wording scan_wordings[];
extern const size_t scan_wording_count;

/* Words that the scanner gives to a failure, by what stands around it; one each. */
extern const struct messages_wording scan_ended_full[], scan_host_words[], scan_impossible[],
	scan_killer_called[], scan_pinned_by_ggml[], scan_pinning_refused[], scan_reason_error[],
	scan_rmm_refused[], scan_semaphore[], scan_spoken_wordings[], scan_table_wording[],
	scan_untold_wording[];
/* Parts of a detail's text that say of a failure by themselves. */
extern const struct messages_wording scan_alone[];
extern const size_t scan_alone_count;
/* States of a job as sacct prints them. */
extern const struct messages_wording scan_sacct_states[];
extern const size_t scan_sacct_state_count;

/* The row whose numbers messages_parse_oom reads. */
#define SCAN_ROW_PYTORCH 1

/* ---- the tables: data/marks.rows, which says what they are ---- */

extern const struct scan_mark {
	const char *word;
	int id; /* enum scan_special */
} scan_marks[];
extern const struct scan_rank_mark {
	const char *open, *close;
} scan_rank_marks[];
extern const struct scan_driver_word {
	const char *word;
	enum messages_backend backend;
} scan_driver_words[];
extern const struct scan_builder {
	enum messages_engine own, other;
} scan_builders[];
extern const struct scan_script_part {
	const char *part;
	enum messages_activity does;
} scan_script_parts[];
enum scan_where { SCAN_BEHIND, SCAN_BEFORE };
extern const struct scan_oom_label {
	size_t field; /* of struct messages_oom */
	enum scan_where where;
	const char *label;
} scan_oom_labels[];
extern const struct scan_unit {
	const char *name;
	int of_pytorch;
	uint64_t low, high, most;
} scan_units[];
extern const struct scan_type {
	const char *name;
	unsigned bytes;
} scan_types[];
extern const size_t scan_oom_label_count, scan_unit_count, scan_type_count;
extern const size_t scan_mark_count, scan_rank_mark_count, scan_driver_word_count,
	scan_builder_count, scan_script_part_count;

/* ---- lists of words: data/words.rows, which says what they are ---- */

extern const struct scan_word {
	const char *word; /* NULL: the list's end */
} scan_loading_words[], scan_card_words[], scan_host_memory[], scan_card_around[],
	scan_memory_parts[], scan_denials[], scan_package_folders[], scan_levels[], scan_wrappers[],
	scan_interpreters[], scan_pytorch_words[], scan_start_words[], scan_jax_cues[],
	scan_tensorflow_cues[], scan_advising[], scan_other_batches[], scan_on[], scan_off[],
	scan_foreign_folders[], scan_foreign_files[], scan_not_steps[], scan_trained[],
	scan_progress_words[], scan_pinning_code[];
/* Does a word of the list stand in [p, end); in the text; in the text, in any letters? */
int scan_has(const char *p, const char *end, const struct scan_word *words);
int scan_holds(const char *text, const struct scan_word *words);
int scan_says(const char *text, const struct scan_word *words);

/* ---- words of programs that no row knows ---- */

enum scan_memory {
	SCAN_MEMORY_NONE, /* the line reports no refusal */
	SCAN_MEMORY_UNTOLD,
	SCAN_MEMORY_CARD,
	SCAN_MEMORY_HOST,
	SCAN_MEMORY_SHARED
};
/* Which memory a program's line says that it was refused; *tried is set if the line has its size. */
enum scan_memory scan_spoken(const struct scan_line *l, struct messages_bytes *tried);

/* ---- states ---- */

/* What [start, end), from the start of its line, shows of a GPU's memory; 0: nothing that can be read. */
int scan_state(enum messages_state_kind kind, const char *start, const char *end,
	       struct messages_state *out);

/* ---- words that tell the engine and the activity ---- */

struct scan_cue {
	const char *word; /* at least SCAN_ANCHOR_BYTES */
	enum messages_engine engine;
	enum messages_activity activity;
};
/* Where on a line per name proves that its program ran (place.c): a logger's prefix, and what a command starts. */
struct scan_places {
	const char *prefix, *message;      /* the prefix, and where the message begins behind it */
	const char *program, *program_end; /* equal: the line is not a command */
	int is_bar;                        /* a progress bar is the program's own */
};
void scan_places_of(const struct scan_line *l, struct scan_places *out);
/* Does the name stand at one of them, or in a frame's location; a name of several words where the message begins? */
int scan_is_vllms_line(const struct scan_line *l);
int scan_is_anchored(const struct scan_line *l, const struct scan_places *places, const char *name);

extern const struct scan_cue scan_cues[]; /* data/cues.rows */
extern const size_t scan_cue_count;

enum plim_status scan_cues_begin(struct messages_log *log, uint32_t file, struct plim_err *err);
/* A file that says of no failure keeps none. */
void scan_cues_end(struct messages_log *log, uint32_t file);
/* Only the first place of each is kept. */
void scan_cue_seen(struct messages_log *log, size_t cue, uint32_t file, uint64_t line);

/* ---- what is set already ---- */

/* How the word's value shows that no more of it can help. */
enum scan_spent {
	SCAN_SET_SEEN,   /* by the word alone; where it stands first */
	SCAN_SET_NONE,   /* by the word alone, on a line that names no layers */
	SCAN_SET_ON,     /* switched on */
	SCAN_SET_OFF,    /* switched off, or 0 */
	SCAN_SET_ONE,    /* 1 or less */
	SCAN_SET_MOST,   /* nearly all: 0.93 and more */
	SCAN_SET_FEW,    /* 4 or less; the value counts */
	SCAN_SET_SHORT,  /* 1024 or less; the value counts */
	SCAN_SET_MUCH,   /* more than 1024 */
	SCAN_SET_LOADER, /* the name of what loads */
	SCAN_SET_LATE    /* the number right behind it is that of an epoch behind many others */
};
struct scan_setting {
	const char *word; /* at least SCAN_ANCHOR_BYTES */
	enum messages_setting setting;
	enum scan_spent spent;
};
extern const struct scan_setting scan_settings[]; /* data/settings.rows */
extern const size_t scan_setting_count;
/* "python x/train.py --batch 8" at `at`: the script's name, without its folder; 0: it starts none. */
int scan_command(const char *at, const char *stop, char *name, size_t size);
/* What a script of that name does, as most of its kind are called. */
enum messages_activity scan_script_does(const char *name);
/* Would one more place of the word change nothing? */
int scan_setting_is_old(const struct messages_set *sets, const struct scan_setting *s);
/* The word at `at`, in the line [start, stop). */
void scan_setting_seen(struct messages_set *set, const struct scan_setting *s, const char *start,
		       const char *at, const char *stop, uint64_t line);

/* ---- the search ---- */

/* Rows and what else is searched for; ids from SCAN_FRAME on are not rows. */
enum scan_special {
	SCAN_FRAME = 0x4000,
	SCAN_ESCAPED,
	SCAN_BOXED,
	SCAN_NOTEBOOK,
	SCAN_TRACEBACK,
	SCAN_TABLE,
	SCAN_LOADING,
	SCAN_LOAD_FAILED,
	SCAN_SACCT,
	SCAN_LIMITS,
	SCAN_CAUGHT,
	SCAN_COMMAND,
	SCAN_STATE, /* and as many behind it as there are kinds */
	SCAN_STATES_END = SCAN_STATE + MESSAGES_STATE_KINDS,
	SCAN_CUE,             /* and as many behind it as there are cues */
	SCAN_SETTING = 0x6000 /* and as many behind it as there are settings */
};

/* Hashes of letters tell where an entry may begin; `head`: by the first letters, the entries that may. */
#define SCAN_HEAD_BITS 13
#define SCAN_SEEN_BITS 16
#define SCAN_PART_BITS 17
struct scan_anchors {
	uint64_t seen[1 << (SCAN_SEEN_BITS - 6)]; /* a bit for each hash of first letters */
	uint8_t parts[1 << SCAN_PART_BITS];       /* a byte for each hash of a part of them */
	int16_t head[1 << SCAN_HEAD_BITS];
	struct scan_entry {
		uint64_t key; /* of its first letters */
		const char *anchor;
		uint32_t n;
		int id;
		int16_t next; /* -1: the last */
	} * entries;
	size_t n;
};
enum plim_status scan_anchors_new(struct mem *m, struct scan_anchors **out, struct plim_err *err);
void scan_anchors_free(struct mem *m, struct scan_anchors *a);

/* The first place in [p, end) where an anchor begins, and its entry; else `end`. */
const char *scan_anchors_find(const struct scan_anchors *a, const char *p, const char *end,
			      int16_t *entry);
/* The next entry that begins there too, or -1. */
int16_t scan_anchors_next(const struct scan_anchors *a, int16_t entry, const char *at,
			  const char *end);

/* ---- lines that were broken ---- */

/* A break that was taken out, behind the line that was joined; it counts as a line's end. */
#define SCAN_JOINT '\x1e'
/*
 * `n` bytes of a whole text with the lines joined that a terminal, a mail or a page broke, and those of a wording, into `to` of 2 * n + 1 bytes; how
 * many were written, 0: none is broken.
 */
size_t scan_unwrap(const struct scan_anchors *a, const char *p, size_t n, char *to);

/* ---- tracebacks ---- */

/* A frame that says what was being done: data/moments.rows.  NULL: any. */
struct scan_moment_cue {
	enum messages_moment moment;
	const char *file, *function, *source;
};
extern const struct scan_moment_cue scan_moment_cues[];
extern const size_t scan_moment_cue_count;

void scan_trace_start(struct messages_trace *t);
/* A line `File "x.py", line 3, in f` and the line of code below it (may be NULL). */
void scan_trace_frame(struct messages_trace *t, const struct scan_line *line,
		      const struct scan_line *source);
/* The same of a frame at `at` whose quotes are escaped, in a JSON string: 0: it is none. */
int scan_frame_escaped(struct messages_trace *t, const char *at, const char *end, uint32_t rank);
/*
 * The same of the box that Rich draws: [at, stop) is the marked line of code, its frame stands some
 * lines above it, not before `from`.
 */
int scan_frame_boxed(struct messages_trace *t, const char *from, const char *at, const char *stop,
		     uint32_t rank);
/* The same of a frame of a notebook; [p, end) is behind its line. */
int scan_frame_notebook(struct messages_trace *t, const struct scan_line *line, const char *p,
			const char *end);
/*
 * The last training step that a progress bar or a line shows in a text, and *most of all of them.  PLIM_UNKNOWN: none;
 * MESSAGES_STEP_SOME: losses were logged, of steps without a number.
 */
uint64_t scan_progress(const char *text, size_t n, uint64_t *most);

/* ---- the kernel's process table ---- */

/* Where the columns of a table are, from its head; 0: it is none. */
struct scan_columns {
	int pid, rss, name, total;
};
int scan_table_head(const struct scan_line *line, struct scan_columns *c);
/* 0: the line is not a row, the table has ended. */
int scan_table_row(const struct scan_line *line, const struct scan_columns *c,
		   struct messages_event *e);

/* ---- what schedulers list ---- */

/* A job of a table of sacct, if its state says why it ended. */
struct scan_job {
	char id[64];
	const struct messages_wording *wording;
	struct messages_bytes used, limit; /* MaxRSS of its largest step, ReqMem */
	uint32_t below;                    /* lines below the table's head */
	char text[256];                    /* of its first row, the end cut */
};
typedef void scan_job_fn(void *ctx, const struct scan_job *job);
/* [p, end) is what stands behind the head's line. */
void scan_sacct(const struct scan_line *head, const char *p, const char *end, scan_job_fn *each,
		void *ctx);

/* The memory of a "Limits:" of kubectl describe, in the lines behind it; 0: there is none. */
int scan_limits(const char *p, const char *end, struct messages_bytes *limit);

#endif
