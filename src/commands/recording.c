/* The public recording: see recording.h. */
#include "commands/recording.h"
#include "host/host.h"

#include "commands/out.h"
#include "result_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void plim_recording_options_init(struct plim_recording_options *o)
{
	*o = (struct plim_recording_options){ .size = sizeof(*o) };
}

void plim_recording_free(struct plim_recording *r)
{
	if (!r)
		return;
	recording_free(r->recording);
	appended_free(r->appended);
	arena_release(&r->arena);
	free(r);
}

/*
 * What a recording can need by its size: a row is shorter than what is kept of it is large, and compression makes the same
 * rows a hundred times shorter at the best.  More is a file that was made to fill the memory.  Whoever gives a limit knows
 * better.
 */
#define LEAST_BYTES ((uint64_t)48 << 20)
#define BYTES_A_BYTE 128

/* xz and zstd look back up to so far, as much as a file says; that is theirs alone.  What repeats they make shorter still. */
#define DICTIONARY_BYTES ((uint64_t)144 << 20)
#define BYTES_A_BYTE_FAR 512

/* What repeats costs next to nothing when it is packed. */
#define PACKED_LEAST_BYTES ((uint64_t)256 << 20)
#define PACKED_BYTES_A_BYTE 4096

static uint64_t most_of(const char *path)
{
	static const char *const looks_back[] = { "\xfd"
						  "7zX",
						  "\x28\xb5\x2f\xfd" };
	uint64_t by_byte = BYTES_A_BYTE;
	char head[5] = "";
	struct stat is;
	FILE *f;

	if (!strcmp(path, "-") || stat(path, &is) || !S_ISREG(is.st_mode))
		return UINT64_MAX;
	f = fopen(path, "rbe");
	if (!f)
		return UINT64_MAX; /* whoever reads it will say why not */
	if (fread(head, 1, sizeof(head), f) == sizeof(head))
		for (size_t i = 0; i < 2; i++)
			by_byte = memcmp(head, looks_back[i], 4) ? by_byte : BYTES_A_BYTE_FAR;
	fclose(f);
	if (!memcmp(head, "PLIM\211", sizeof(head)))
		return PACKED_LEAST_BYTES + PACKED_BYTES_A_BYTE * (uint64_t)is.st_size;
	return LEAST_BYTES + by_byte * (uint64_t)is.st_size;
}

/* One without content. */
static enum plim_status begin_open(const char *path, uint64_t max_memory_bytes,
				   struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording *r = calloc(1, sizeof(*r));

	*out = r;
	if (!r)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	host_mem_init(&r->mem, max_memory_bytes);
	if (!max_memory_bytes && most_of(path) < r->mem.limit_bytes) {
		r->mem.limit_bytes = most_of(path);
		r->mem.decoder_bytes = DICTIONARY_BYTES;
	}
	arena_init(&r->arena, &r->mem);
	r->path = arena_copy(&r->arena, path, err);
	return r->path ? PLIM_OK : mem_status(err);
}

static enum plim_status end_open(struct plim_recording **out, enum plim_status st)
{
	if (st) {
		plim_recording_free(*out);
		*out = NULL;
	}
	return st;
}

enum plim_status recording_new(const char *path, struct recording_input *in,
			       uint64_t max_memory_bytes, struct plim_recording **out,
			       struct plim_err *err)
{
	enum plim_status st = begin_open(path, max_memory_bytes, out, err);

	if (!st)
		st = recording_open(&(*out)->mem, path, in, &(*out)->recording, err);
	if (st == PLIM_E_IO && err && err->native == EISDIR)
		err_more(err, "give one recording in it (plimsoll report with the folder "
			      "says which one died first)");
	return end_open(out, st);
}

enum plim_status plim_recording_open(const char *path, const struct plim_recording_options *options,
				     struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording_options o;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	plim_recording_options_init(&o);
	st = options_take(&recording_options_table, &o, options, err);
	return st ? st : recording_new(path, NULL, o.max_memory_bytes, out, err ? err : &own);
}

enum plim_status plim_recording_read(const struct plim_input *input,
				     const struct plim_recording_options *options,
				     struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording_options o;
	struct recording_input in = { .source = NULL };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	*out = NULL;
	plim_recording_options_init(&o);
	st = options_take(&recording_options_table, &o, options, err);
	if (!st)
		st = begin_open(source_input_name(input), o.max_memory_bytes, out, err);
	if (!*out)
		return st;
	if (!st)
		st = source_open_input(&(*out)->mem, input, NULL, &in.source, err);
	if (!st)
		st = recording_open(&(*out)->mem, (*out)->path, &in, &(*out)->recording, err);
	source_close(in.source);
	return end_open(out, st);
}

enum plim_status plim_recording_new(const char *name, const struct plim_recording_options *options,
				    struct plim_recording **out, struct plim_err *err)
{
	struct plim_recording_options o;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	plim_recording_options_init(&o);
	*out = NULL;
	st = options_take(&recording_options_table, &o, options, err);
	if (st)
		return st;
	st = begin_open(name, o.max_memory_bytes, out, err);
	if (!st)
		st = appended_new(&(*out)->mem, o.device, o.settings, &(*out)->appended, err);
	return end_open(out, st);
}

enum plim_status recording_ready(struct plim_recording *r, struct plim_err *err)
{
	return r->recording ? PLIM_OK : recording_of_events(r->appended, &r->recording, err);
}

/* May it be appended to?  What was computed of it is then of the past. */
static enum plim_status open_for_more(struct plim_recording *r, struct plim_err *err)
{
	if (!r->appended)
		return err_set(
			err, PLIM_E_ARG,
			"events are appended to what plim_recording_new made, not to a file");
	if (r->reports)
		return err_set(err, PLIM_E_ARG, "%u report%s of this recording: free them first",
			       r->reports, text_s(r->reports));
	return PLIM_OK;
}

enum plim_status plim_recording_append(struct plim_recording *r, const struct plim_events *events,
				       struct plim_err *err)
{
	struct plim_events ev = { .size = sizeof(ev) };
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	if (events->size < sizeof(ev))
		return err_set(err, PLIM_E_ARG, "plim_events: size is not set");
	memcpy(&ev, events, sizeof(ev));
	st = open_for_more(r, err);
	if (!st)
		st = appended_add(r->appended, &ev, err);
	if (!st) {
		recording_free(r->recording);
		r->recording = NULL;
	}
	return st;
}

enum plim_status plim_recording_site(struct plim_recording *r,
				     const struct plim_recording_frame *frames, size_t n,
				     uint32_t *out, struct plim_err *err)
{
	struct plim_err own;

	err = err ? err : &own;
	return r->appended ? appended_site(r->appended, frames, n, out, err)
			   : open_for_more(r, err);
}

enum plim_status plim_recording_phase(struct plim_recording *r, const char *name, uint32_t *out,
				      struct plim_err *err)
{
	struct plim_err own;

	err = err ? err : &own;
	return r->appended ? appended_phase(r->appended, name, out, err) : open_for_more(r, err);
}

enum plim_status plim_recording_snapshot(struct plim_recording *r, const char *path,
					 struct plim_err *err)
{
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	st = recording_ready(r, err);
	return st ? st : out_snapshot(r->recording->snapshot, path, err);
}
