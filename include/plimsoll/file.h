/*
 * What a file or folder is, and which command of plimsoll reads it.  `plimsoll FILE` asks this.
 */
#ifndef PLIMSOLL_FILE_H
#define PLIMSOLL_FILE_H

#include <plimsoll/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Texts in static storage. */
struct plim_file {
	const char *is; /* "a training log"; NULL: it is not known */
	const char
		*command; /* "curves", "ckpt verify": the command that reads it; NULL: none does */
	const char *
		remedy; /* if there is no command: what to do, "decompress it first"; may be NULL */
};

/*
 * Looks at the first bytes of the file at `path` (decompressed, if it is compressed), then at its name, then at the end
 * of a log; of a folder at a few of its files.  "-" is the standard input, which must be a file, as `plimsoll - <FILE`
 * makes it, and is read from its beginning again.  PLIM_E_IO if it cannot be read.
 */
PLIM_API enum plim_status plim_file_of(const char *path, struct plim_file *out,
				       struct plim_err *err);

#ifdef __cplusplus
}
#endif

#endif
