/*
 * Tar archives as a stream of members, in constant memory: POSIX (ustar, pax) and GNU names and sizes, also of
 * 8 GiB and more.  Nothing is unpacked, and a member's name is only ever shown.
 *
 *	tar_init(&t, source);
 *	while (!(st = tar_next(&t, &member, &err)) && member.name) {
 *		st = source_open_member(m, member.name, source, member.bytes, NULL, &inner, &err);
 *		...
 *		source_close(inner);
 *	}
 */
#ifndef BASE_TAR_H
#define BASE_TAR_H

#include "source.h"

#define TAR_BLOCK_BYTES 512
#define TAR_SUM_AT 148 /* in a header */
#define TAR_SUM_BYTES 8
#define TAR_NAME_MAX 1023 /* bytes of a name that are kept: its end */

enum tar_type {
	TAR_FILE,
	TAR_FOLDER,
	TAR_LINK,
	TAR_OTHER /* a device, a FIFO, a sparse file, or what a later version may bring */
};

struct tar_member {
	const char *name; /* NULL: the archive has ended; valid until the next call */
	enum tar_type type;
	uint64_t offset, bytes; /* of the content in the source's decoded stream */
};

struct tar {
	struct source *source;
	uint64_t next;               /* offset of the next header */
	char name[TAR_NAME_MAX + 1]; /* of the member */
	bool has_name, has_size;     /* a header in front of it reported them */
	bool sparse;
	uint64_t bytes;
};

/* Is this the sum of the header's bytes, those of the sum itself as blanks?  Old programs added signed ones. */
bool tar_sum_is(const uint8_t *header, uint64_t sum);

/* Do these first bytes of a file begin an archive?  Goes by the header's check sum. */
bool tar_is(const uint8_t *bytes, size_t n);

/* `source` stands at the archive's first byte, and stays the caller's. */
void tar_init(struct tar *t, struct source *source);

/*
 * The next member; source->p is the first byte of its content.  Whatever was read of the one before is
 * skipped.  PLIM_E_FORMAT: damaged, or cut off; errors of the source.
 */
enum plim_status tar_next(struct tar *t, struct tar_member *out, struct plim_err *err);

#endif
