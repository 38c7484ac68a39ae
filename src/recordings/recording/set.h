/* What the parts of a set of recordings share. */
#ifndef RECORDING_SET_H
#define RECORDING_SET_H

#include "recording.h"

#define SET_SKIPPED_MAX 1000
#define SET_ITEMS_MAX 65536

enum set_origin {
	SET_NAMED,  /* a file that the user named */
	SET_FOUND,  /* a file in a folder */
	SET_MEMBER, /* of an archive */
	SET_STREAM, /* a compressed archive: its members are known once they were read */
	SET_DIGEST  /* a row of a digest: it was read already */
};

/* What may be a recording, and what became of it. */
struct set_item {
	enum set_origin origin;
	const char *path, *member; /* the row shows them, if nothing is redacted */
	const char
		*beside; /* SET_DIGEST: where its recording would be: in the digest's own folder */
	uint64_t offset; /* of a member's content */
	int taken;       /* someone reads it, or has */
	int read_alone;  /* it needed more memory than was set aside for it */
	int other;       /* no recording at all: `row.error` says what */
	struct plim_ranks_row row;
};

/* The number in a name: "rank12", "rank_12", "snap_r12.pickle", "12.pickle"; its last part counts first. */
int set_number(const char *name, uint64_t *number);

/* Order of names in which "rank2" stands before "rank10". */
int set_compare_names(const char *a, const char *b);

/* A text that lives as long as the result, however long it is. */
const char *set_keep(struct recording_set *s, const char *text, struct plim_err *err);

/* What an item is called: the member's name or the file's path. */
static inline const char *set_name(const struct set_item *item)
{
	return item->member ? item->member : item->path;
}

enum plim_status set_add(struct recording_set *s, enum set_origin origin, const char *path,
			 const char *member, struct set_item **out, struct plim_err *err);
enum plim_status set_skip(struct recording_set *s, const char *path, const char *reason,
			  struct plim_err *err);

/*
 * What tar_next said of an archive: a member that may be a recording is an item (*out, else NULL); its
 * damage (`said`, in *err) is a row, and what came before it counts.
 */
enum plim_status set_add_member(struct recording_set *s, const char *path, enum plim_status said,
				const struct tar_member *m, struct set_item **out,
				struct plim_err *err);

/* Is it named as a digest is? */
int set_is_digest(const char *name);

/* What of `path` was read before `err` is good: it ends there, with a row that says why. */
enum plim_status set_end_damaged(struct recording_set *s, const char *path, struct plim_err *err);

/* The rows of a digest as items that were read. */
enum plim_status set_add_digest(struct recording_set *s, const char *path, enum set_origin origin,
				struct plim_err *err);

/* What cannot be read is a row, if it must be a recording, or else skipped; *err is used up. */
enum plim_status set_fail(struct recording_set *s, struct set_item *item, int is_other,
			  struct plim_err *err);

#endif
