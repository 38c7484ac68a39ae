/* What the parts of the verb for several recordings share. */
#ifndef API_RANKS_H
#define API_RANKS_H

#include "diagnose/diagnose.h"
#include "verbs/recording.h"

#include <plimsoll/ranks.h>

#define RANKS_SKIPPED_MAX 1000
#define RANKS_ITEMS_MAX 65536

enum ranks_origin {
	RANKS_NAMED,  /* a file that the user named */
	RANKS_FOUND,  /* a file in a folder */
	RANKS_MEMBER, /* of an archive */
	RANKS_STREAM  /* a compressed archive: its members are known once they were read */
};

/* What may be a recording, and what became of it. */
struct ranks_item {
	enum ranks_origin origin;
	const char *path, *member; /* the row shows them, if nothing is redacted */
	uint64_t offset;           /* of a member's content */
	int taken;                 /* somebody reads it, or has */
	int read_alone;            /* it needed more memory than was set aside for it */
	int other;                 /* no recording at all: `row.error` tells what */
	struct plim_ranks_row row;
};

struct plim_ranks_hidden {
	struct mem mem;
	struct arena arena;           /* of all texts and arrays */
	struct plim_recording *worst; /* the one that is told in full, or NULL */
	struct plim_ranks_options options;
	uint64_t limit_bytes;           /* of everything together */
	VEC(struct ranks_item *) items; /* from the arena */
};

/* The number in a name: "rank12", "rank_12", "snap_r12.pickle", "12.pickle"; its last part counts first. */
int ranks_number(const char *name, uint64_t *number);

/* Length of a name without ".pickle.xz" and the like. */
size_t ranks_stem(const char *name);

/* Order of names in which "rank2" stands before "rank10". */
int ranks_compare_names(const char *a, const char *b);

/* A text that lives as long as the result, however long it is. */
const char *ranks_keep(struct plim_ranks *k, const char *text, struct plim_err *err);

/* What an item is called: the member's name or the file's path. */
static inline const char *ranks_name(const struct ranks_item *item)
{
	return item->member ? item->member : item->path;
}

enum plim_status ranks_add(struct plim_ranks *k, enum ranks_origin origin, const char *path,
			   const char *member, struct ranks_item **out, struct plim_err *err);
enum plim_status ranks_skip(struct plim_ranks *k, const char *path, const char *reason,
			    struct plim_err *err);

/* What the paths hold, as items. */
enum plim_status ranks_list(struct plim_ranks *k, const char *const *paths, size_t n,
			    struct plim_err *err);
/*
 * What tar_next said of an archive: a member that may be a recording is an item (*out, else NULL); its
 * damage (`said`, in *err) is a row, and what came before it counts.
 */
enum plim_status ranks_add_member(struct plim_ranks *k, const char *path, enum plim_status said,
				  const struct tar_member *m, struct ranks_item **out,
				  struct plim_err *err);

/* What cannot be read is a row, if it must be a recording, or else skipped; *err is used up. */
enum plim_status ranks_fail(struct plim_ranks *k, struct ranks_item *item, int is_other,
			    struct plim_err *err);

/* Fill the rows of all items. */
enum plim_status ranks_read_all(struct plim_ranks *k, struct plim_err *err);
/* One item in full. */
enum plim_status ranks_read_full(struct plim_ranks *k, const struct ranks_item *item,
				 struct plim_err *err);

/*
 * What of a recording is kept: computed without the lock, as texts of an arena of the recording's memory, then copied with it
 * into the result.
 */
enum plim_status ranks_summarise(const struct plim_report_options *o, struct recording *r,
				 struct arena *a, struct plim_ranks_row *row, struct plim_err *err);
enum plim_status ranks_keep_row(struct plim_ranks *k, struct plim_ranks_row *row,
				struct plim_err *err);

/* Rows in their order; then who died first, which is worst, how they differ; and what is not as usual, as notes. */
enum plim_status ranks_judge(struct plim_ranks *k, struct lines *notes, struct plim_err *err);

#endif
