/*
 * Filling a file together.
 *
 * It is PATH.filling until it is whole.  Whoever fills a range of samples has a lock on it, of the open file description: the
 * kernel drops it with the process, so that nothing is left behind by one that is killed, and what it had not finished is
 * claimed again.  A record is written before its entry in the index, and an entry is believed for its checksum alone; what a
 * power cut took is found when all records are read back, before the file gets its name.  Nothing is written through a mapping:
 * a full disk is an error.
 *
 * Locks are on bytes beyond any file: LOCK_AT of who fills at all, then one a chunk of samples.
 */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define LOCK_AT ((int64_t)1 << 61) /* shared: someone fills; exclusive: it is begun anew */
#define LOCK_END (LOCK_AT + 1)     /* the file grows */
#define LOCK_SEAL (LOCK_AT + 2)    /* it is finished */
#define LOCK_CHUNKS (LOCK_AT + 3)
#define CHUNK_MOST 64            /* samples that are claimed at once */
#define CHUNKS_LEAST 256         /* fewer samples a chunk, so that there are as many */
#define GROW ((uint64_t)8 << 20) /* by which the file grows for one that fills */
#define TRIES 100

struct plim_samples_filling {
	struct mem mem;
	struct data_layout layout;
	char *path, *filling; /* final name, and until then */
	int fd;
	uint64_t chunk;        /* samples */
	uint64_t held, cursor; /* chunk that is locked (PLIM_UNKNOWN: none), and its next sample */
	uint64_t first;        /* chunks before it are full */
	uint64_t turn;         /* where the search goes on */
	uint64_t room, room_end; /* of the file, for our records of differing size */
	uint8_t *buffer;         /* for a chunk's entries */
	bool ready;              /* others have finished */
};

static const uint8_t zeros[DATA_LINE];

/* ---- locks ---- */

/* type F_RDLCK, F_WRLCK or F_UNLCK; 0 or errno. */
static int lock(int fd, int type, int64_t at, bool wait)
{
	struct flock l = { .l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
	int r;

	do
		r = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
	while (r && errno == EINTR);
	return r ? errno : 0;
}

/* ---- beginning ---- */

static char *text(struct mem *m, const char *a, const char *b, struct plim_err *err)
{
	size_t size = strlen(a) + strlen(b) + 1;
	char *to = mem_new(m, size, 1, err);

	if (to)
		(void)snprintf(to, size, "%s%s", a, b);
	return to;
}

static void free_text(struct mem *m, char *at)
{
	mem_free(m, at, at ? strlen(at) + 1 : 0, 1);
}

static enum plim_status write_all(int fd, const void *at, size_t n, uint64_t to,
				  struct plim_err *err)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = pwrite(fd, (const uint8_t *)at + done, n - done, (off_t)(to + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return err_errno(err, r ? errno : ENOSPC, "cannot write");
		done += (size_t)r;
	}
	return PLIM_OK;
}

/* Room on the disk for all that is known now: a full one shows at once.  With the lock on who fills. */
static enum plim_status take_room(const struct plim_samples_filling *f, struct plim_err *err)
{
	const struct data_front *p = &f->layout.front;
	uint64_t bytes = p->data_at + p->samples * p->record_bytes;
	int r = fallocate(f->fd, 0, 0, (off_t)bytes) ? errno : 0;
	struct stat now;

	if (r != EOPNOTSUPP && r != ENOSYS)
		goto done;
	r = lock(f->fd, F_WRLCK, LOCK_END, true);
	if (!r && (fstat(f->fd, &now) ||
		   ((uint64_t)now.st_size < bytes && ftruncate(f->fd, (off_t)bytes))))
		r = errno;
	(void)lock(f->fd, F_UNLCK, LOCK_END, false);
done:
	if (r && !lock(f->fd, F_WRLCK, LOCK_AT, false))
		(void)unlink(f->filling); /* no one else is here: what was taken of the room goes */
	return r ? err_errno(err, r, "cannot make room for %llu bytes", (unsigned long long)bytes)
		 : PLIM_OK;
}

/* A file of a head under a name of its own; then the name is `filling`, if no one was first. */
static enum plim_status create(struct plim_samples_filling *f, struct plim_err *err)
{
	char *name = text(&f->mem, f->filling, ".XXXXXX", err);
	enum plim_status st;
	mode_t mask = umask(0);
	int fd = name ? mkostemp(name, O_CLOEXEC) : -1;

	(void)umask(mask);
	if (!name)
		return mem_status(err);
	if (fd < 0) {
		st = err_errno(err, errno, "cannot create '%.200s'", f->filling);
	} else {
		st = write_all(fd, f->layout.head, (size_t)f->layout.front.head_bytes, 0, err);
		if (!st &&
		    (fchmod(fd, 0666 & ~mask) || ftruncate(fd, (off_t)f->layout.front.data_at) ||
		     (link(name, f->filling) && errno != EEXIST)))
			st = err_errno(err, errno, "cannot create '%.200s'", f->filling);
		(void)unlink(name);
		close(fd);
	}
	free_text(&f->mem, name);
	return st;
}

/* Is the open file the one of that name? */
static bool samples_is_named(int fd, const char *name)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(name, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

enum found { SAME, OTHER, UNREADABLE };

/* What the file that is open says of its samples; its last writer may be at its head just now. */
static enum found look_samples(struct plim_samples_filling *f)
{
	struct data_layout found = { 0 };
	struct stat at;
	enum found is = UNREADABLE;

	if (!fstat(f->fd, &at) &&
	    !data_layout_read(&found, &f->mem, f->fd, (uint64_t)at.st_size, NULL))
		is = data_layout_same(&found, &f->layout) ? SAME : OTHER;
	data_layout_release(&found, &f->mem);
	return is;
}

/* Not our schema's: its name goes, if no one fills it. */
static enum plim_status remove_other(struct plim_samples_filling *f, enum found is,
				     struct plim_err *err)
{
	const struct timespec little = { .tv_nsec = 10000000 };

	if (!lock(f->fd, F_WRLCK, LOCK_AT, false)) {
		if (samples_is_named(f->fd, f->filling) && unlink(f->filling))
			return err_errno(err, errno, "cannot remove '%.200s'", f->filling);
		return PLIM_OK;
	}
	if (is == OTHER)
		return err_set(err, PLIM_E_IO,
			       "'%.200s' is being filled with other samples by another process",
			       f->filling);
	(void)nanosleep(&little, NULL);
	return PLIM_OK;
}

/* One try: *done if it is open, of our schema, and locked. */
static enum plim_status open_once(struct plim_samples_filling *f, bool *done, struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	enum found is;

	*done = false;
	f->fd = open(f->filling, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (f->fd < 0 && errno == ENOENT)
		return create(f, err);
	if (f->fd < 0)
		return err_errno(err, errno, "cannot open '%.200s'", f->filling);
	is = look_samples(f);
	if (is != SAME) {
		st = remove_other(f, is, err);
	} else {
		int r = lock(f->fd, F_RDLCK, LOCK_AT, true);

		if (r)
			return err_errno(err, r, "cannot lock '%.200s'", f->filling);
		*done = samples_is_named(f->fd, f->filling) || samples_is_named(f->fd, f->path);
		st = *done ? take_room(f, err) : PLIM_OK;
	}
	if (!*done) {
		close(f->fd);
		f->fd = -1;
	}
	return st;
}

/* Is there a whole file of our schema already, and not the one that is to be replaced? */
static bool is_ready(struct plim_samples_filling *f, uint64_t replaces)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct data_layout found = { 0 };
	struct stat at;
	bool yes = fd >= 0 && !fstat(fd, &at) && S_ISREG(at.st_mode) &&
		   !data_layout_read(&found, &f->mem, fd, (uint64_t)at.st_size, NULL) &&
		   found.front.whole && data_layout_same(&found, &f->layout) &&
		   found.front.sum != replaces;

	data_layout_release(&found, &f->mem);
	if (fd >= 0)
		close(fd);
	return yes;
}

static enum plim_status begin_samples(struct plim_samples_filling *f, uint64_t replaces,
				      struct plim_err *err)
{
	bool done = is_ready(f, replaces);
	enum plim_status st = PLIM_OK;

	f->ready = done;
	for (int i = 0; !st && !done && i < TRIES; i++)
		st = open_once(f, &done, err);
	if (!st && !done)
		st = err_set(err, PLIM_E_IO,
			     "'%.200s' is made and removed by others again and again", f->filling);
	return st;
}

enum plim_status plim_samples_fill(const char *path, const struct plim_samples_schema *schema,
				   struct plim_samples_filling **out, struct plim_err *err)
{
	struct plim_samples_filling *f = calloc(1, sizeof(*f));
	enum plim_status st;

	*out = NULL;
	if (!f)
		return err_set(err, PLIM_E_NOMEM, "out of memory");
	mem_init(&f->mem, 0);
	f->fd = -1;
	f->held = PLIM_UNKNOWN;
	st = data_layout_make(&f->layout, &f->mem, schema, err);
	f->chunk = schema->samples / CHUNKS_LEAST;
	f->chunk = f->chunk < 1 ? 1 : f->chunk > CHUNK_MOST ? CHUNK_MOST : f->chunk;
	if (!st) {
		f->path = text(&f->mem, path, "", err);
		f->filling = f->path ? text(&f->mem, path, ".filling", err) : NULL;
		f->buffer = f->filling ? mem_new(&f->mem, CHUNK_MOST,
						 (size_t)f->layout.front.entry_bytes, err)
				       : NULL;
		st = f->buffer ? begin_samples(f, schema->replaces, err) : mem_status(err);
	}
	if (st)
		plim_samples_filling_free(f);
	*out = st ? NULL : f;
	return st;
}

void plim_samples_filling_free(struct plim_samples_filling *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	mem_free(&f->mem, f->buffer, CHUNK_MOST, (size_t)f->layout.front.entry_bytes);
	data_layout_release(&f->layout, &f->mem);
	free_text(&f->mem, f->filling);
	free_text(&f->mem, f->path);
	free(f);
}

/* ---- claims ---- */

static uint64_t chunks(const struct plim_samples_filling *f)
{
	return (f->layout.front.samples + f->chunk - 1) / f->chunk;
}

static uint64_t entry_at(const struct plim_samples_filling *f, uint64_t sample)
{
	return data_index_at(&f->layout) + sample * f->layout.front.entry_bytes;
}

/* Samples of a chunk that are there, from `from` on in a row (want) or that are not. */
static enum plim_status run_of(struct plim_samples_filling *f, uint64_t chunk, uint64_t from,
			       bool want, uint64_t *to, struct plim_err *err)
{
	uint64_t end = (chunk + 1) * f->chunk, size = f->layout.front.entry_bytes;
	enum plim_status st;

	end = end > f->layout.front.samples ? f->layout.front.samples : end;
	st = data_pread(f->fd, f->buffer, (size_t)((end - from) * size), entry_at(f, from), err);
	for (*to = from; !st && *to < end; ++*to) {
		const struct data_entry *e = (const void *)(f->buffer + (*to - from) * size);

		if (data_entry_holds(&f->layout, *to, e, INT64_MAX) != want)
			break;
	}
	return st;
}

static enum plim_status is_full(struct plim_samples_filling *f, uint64_t chunk, bool *full,
				struct plim_err *err)
{
	uint64_t to, end = (chunk + 1) * f->chunk;
	enum plim_status st = run_of(f, chunk, chunk * f->chunk, true, &to, err);

	*full = !st && (to == end || to == f->layout.front.samples);
	return st;
}

/* What is missing next in the chunk that is held; count 0: nothing, and it is let go. */
static enum plim_status missing(struct plim_samples_filling *f, struct plim_claim *out,
				struct plim_err *err)
{
	uint64_t from = f->cursor, to = from, end = (f->held + 1) * f->chunk;
	enum plim_status st = PLIM_OK;

	end = end > f->layout.front.samples ? f->layout.front.samples : end;
	if (from < end)
		st = run_of(f, f->held, from, true, &from, err);
	to = from;
	if (!st && from < end)
		st = run_of(f, f->held, from, false, &to, err);
	if (st)
		return st;
	f->cursor = to;
	*out = (struct plim_claim){ PLIM_CLAIM_FILL, (uint32_t)(to - from), from };
	if (to == from) {
		(void)lock(f->fd, F_UNLCK, LOCK_CHUNKS + (int64_t)f->held, false);
		f->held = PLIM_UNKNOWN;
	}
	return PLIM_OK;
}

/* The next chunk that is not full and that no one has; *open: there are some that others have. */
static enum plim_status take_chunk(struct plim_samples_filling *f, bool *open, struct plim_err *err)
{
	uint64_t n = chunks(f), begin = f->first, left = n > begin ? n - begin : 0;
	enum plim_status st = PLIM_OK;

	*open = false;
	if (f->turn < begin || f->turn >= n)
		f->turn = begin;
	for (uint64_t i = 0; !st && i < left && f->held == PLIM_UNKNOWN; i++) {
		uint64_t c = begin + (f->turn - begin + i) % left;
		bool full;
		int r;

		st = is_full(f, c, &full, err);
		if (full && c == f->first)
			f->first++;
		if (st || full)
			continue;
		r = lock(f->fd, F_WRLCK, LOCK_CHUNKS + (int64_t)c, false);
		if (r && r != EAGAIN && r != EACCES)
			return err_errno(err, r, "cannot lock '%.200s'", f->filling);
		if (r) {
			*open = true;
			continue;
		}
		f->held = c;
		f->cursor = c * f->chunk;
		f->turn = c + 1;
	}
	return st;
}

enum plim_status plim_samples_claim(struct plim_samples_filling *f, struct plim_claim *out,
				    struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	bool open = false;

	*out = (struct plim_claim){ .state = f->ready ? PLIM_CLAIM_DONE : PLIM_CLAIM_FILL };
	if (f->ready)
		return PLIM_OK;
	if (f->held != PLIM_UNKNOWN)
		st = missing(f, out, err);
	while (!st && !out->count) {
		st = take_chunk(f, &open, err);
		if (st || f->held == PLIM_UNKNOWN)
			break;
		st = missing(f, out, err);
	}
	if (!st && !out->count)
		out->state = open ? PLIM_CLAIM_WAIT : PLIM_CLAIM_DONE;
	return st;
}

/* ---- records ---- */

/* Where the next record of that many bytes goes. */
static enum plim_status samples_place(struct plim_samples_filling *f, uint64_t sample,
				      uint64_t bytes, uint64_t *at, struct plim_err *err)
{
	uint64_t need = data_up(bytes ? bytes : 1, DATA_LINE);
	struct stat now;
	int r;

	*at = f->layout.front.data_at + sample * f->layout.front.record_bytes;
	if (f->layout.front.record_bytes)
		return PLIM_OK;
	if (need > f->room_end - f->room) {
		uint64_t more = need > GROW ? need : GROW;

		r = lock(f->fd, F_WRLCK, LOCK_END, true);
		if (!r)
			r = fstat(f->fd, &now) ||
					    ftruncate(f->fd, (off_t)(data_up((uint64_t)now.st_size,
									     DATA_LINE) +
								     more))
				    ? errno
				    : 0;
		(void)lock(f->fd, F_UNLCK, LOCK_END, false);
		if (r)
			return err_errno(err, r, "cannot make '%.200s' larger", f->filling);
		f->room = data_up((uint64_t)now.st_size, DATA_LINE);
		f->room_end = f->room + more;
	}
	*at = f->room;
	f->room += need;
	return PLIM_OK;
}

/* The sizes that differ; PLIM_E_ARG: one that must not. */
static enum plim_status take_sizes(const struct data_layout *x, uint64_t sample,
				   const struct plim_samples_part *parts, uint64_t *sizes,
				   struct plim_err *err)
{
	for (size_t f = 0; f < x->front.field_count; f++)
		for (size_t d = 0; d < x->fields[f].rank; d++) {
			uint64_t is = parts[f].shape[d], want = x->fields[f].shape[d];

			if (want == PLIM_UNKNOWN)
				*sizes++ = is;
			else if (is != want)
				return err_set(err, PLIM_E_ARG,
					       "'%s' of sample %llu has %llu in dimension %zu, not "
					       "%llu as the samples before it",
					       x->fields[f].name, (unsigned long long)sample,
					       (unsigned long long)is, d, (unsigned long long)want);
		}
	return PLIM_OK;
}

/* Values with what is between them, at `at`; almost always with one call. */
static enum plim_status write_record(const struct plim_samples_filling *f,
				     const struct plim_samples_part *parts, const uint64_t *bytes,
				     uint64_t at, struct plim_err *err)
{
	struct iovec list[2 * DATA_FIELDS];
	size_t n = 0, done;
	ssize_t got;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; i < f->layout.front.field_count; i++) {
		size_t gap = (size_t)(data_up(bytes[i], 8) - bytes[i]);

		if (bytes[i])
			list[n++] = (struct iovec){ (void *)parts[i].where, (size_t)bytes[i] };
		if (gap)
			list[n++] = (struct iovec){ (void *)zeros, gap };
	}
	got = n ? pwritev(f->fd, list, (int)n, (off_t)at) : 0;
	done = got < 0 ? 0 : (size_t)got;
	for (size_t i = 0; !st && i < n; i++) {
		size_t have = done < list[i].iov_len ? done : list[i].iov_len;

		st = write_all(f->fd, (const uint8_t *)list[i].iov_base + have,
			       list[i].iov_len - have, at + have, err);
		done -= have;
		at += list[i].iov_len;
	}
	return st;
}

enum plim_status plim_samples_put(struct plim_samples_filling *f, uint64_t sample,
				  const struct plim_samples_part *parts, struct plim_err *err)
{
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS];
	union {
		struct data_entry entry;
		uint8_t room[DATA_ENTRY];
	} to = { { 0 } };
	struct data_entry *e = &to.entry;
	enum plim_status st;

	if (f->held == PLIM_UNKNOWN || sample / f->chunk != f->held ||
	    sample >= f->layout.front.samples)
		return err_set(err, PLIM_E_ARG, "sample %llu was not claimed",
			       (unsigned long long)sample);
	st = take_sizes(&f->layout, sample, parts, e->sizes, err);
	if (st)
		return st;
	e->bytes = data_record(&f->layout, e->sizes, skip, bytes);
	if (e->bytes == PLIM_UNKNOWN)
		return err_set(err, PLIM_E_ARG, "sample %llu is too large",
			       (unsigned long long)sample);
	for (size_t i = 0; i < f->layout.front.field_count; i++)
		if (bytes[i])
			e->crc = crc_add(e->crc, parts[i].where, (size_t)bytes[i]);
	st = samples_place(f, sample, e->bytes, &e->at, err);
	if (!st)
		st = write_record(f, parts, bytes, e->at, err);
	e->check = data_entry_check(&f->layout, sample, e);
	if (!st)
		st = write_all(f->fd, e, (size_t)f->layout.front.entry_bytes, entry_at(f, sample),
			       err);
	return st;
}

/* ---- the end ---- */

struct sealing {
	struct plim_samples_filling *of;
	VEC(uint8_t) record;
	XXH3_state_t *sum; /* of the index */
	uint64_t end;      /* of the records */
};

/* Read one record back.  PLIM_E_FORMAT: it is not what was written, and its entry goes. */
static enum plim_status check_record(struct sealing *x, uint64_t sample, struct data_entry *e,
				     struct plim_err *err)
{
	struct plim_samples_filling *f = x->of;
	uint64_t skip[DATA_FIELDS], bytes[DATA_FIELDS];
	size_t size = (size_t)f->layout.front.entry_bytes;
	void *where[DATA_FIELDS];
	uint32_t crc = 0;
	enum plim_status st = vec_need(&f->mem, &x->record, (size_t)e->bytes + 1, err);

	(void)data_record(&f->layout, e->sizes, skip, bytes);
	for (size_t i = 0; !st && i < f->layout.front.field_count; i++)
		where[i] = x->record.at + skip[i];
	if (!st)
		st = data_read(f->fd, &f->layout, e, where, &crc, err);
	if (st || crc == e->crc)
		return st;
	memset(e, 0, size);
	f->first = 0;
	st = write_all(f->fd, e, size, entry_at(f, sample), err);
	return st ? st
		  : err_set(err, PLIM_E_FORMAT, "sample %llu was damaged on its way to the disk",
			    (unsigned long long)sample);
}

static enum plim_status check_chunk(struct sealing *x, uint64_t chunk, struct plim_err *err)
{
	struct plim_samples_filling *f = x->of;
	uint64_t from = chunk * f->chunk, to = from, size = f->layout.front.entry_bytes;
	uint64_t all = f->layout.front.samples - from;
	enum plim_status st = run_of(f, chunk, from, true, &to, err);

	all = all < f->chunk ? all : f->chunk;
	if (!st && to - from < all)
		return err_set(err, PLIM_E_ARG, "sample %llu is missing", (unsigned long long)to);
	if (!st)
		(void)XXH3_64bits_update(x->sum, f->buffer, (size_t)(all * size));
	for (uint64_t i = from; !st && i < to; i++) {
		struct data_entry *e = (void *)(f->buffer + (i - from) * size);
		uint64_t end = data_up(e->at + (e->bytes ? e->bytes : 1), DATA_LINE);

		x->end = end > x->end ? end : x->end;
		st = mem_stopped(err);
		if (!st)
			st = check_record(x, i, e, err);
	}
	return st;
}

static enum plim_status sync_file(int fd, const char *name, struct plim_err *err)
{
	return fsync(fd) ? err_errno(err, errno, "cannot sync '%.200s'", name) : PLIM_OK;
}

/* The file has its name, and the folder is on the disk. */
static enum plim_status give_name(const struct plim_samples_filling *f, struct plim_err *err)
{
	const char *slash = strrchr(f->path, '/');
	char *folder = strndup(slash ? f->path : ".", slash ? (size_t)(slash - f->path) + 1 : 1);
	int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	enum plim_status st = PLIM_OK;

	if (fd < 0)
		st = err_errno(err, folder ? errno : ENOMEM, "cannot open the folder of '%.200s'",
			       f->path);
	else if (rename(f->filling, f->path))
		st = err_errno(err, errno, "cannot name '%.200s'", f->path);
	else
		st = sync_file(fd, folder, err);
	if (fd >= 0)
		close(fd);
	free(folder);
	return st;
}

/* With the lock. */
static enum plim_status seal(struct plim_samples_filling *f, struct plim_err *err)
{
	struct sealing x = { .of = f, .end = f->layout.front.data_at, .sum = XXH3_createState() };
	enum plim_status st = x.sum ? sync_file(f->fd, f->filling, err)
				    : err_set(err, PLIM_E_NOMEM, "out of memory");

	if (!st)
		(void)XXH3_64bits_reset(x.sum);
	for (uint64_t c = 0; !st && c < chunks(f); c++)
		st = check_chunk(&x, c, err);
	if (!st && ftruncate(f->fd, (off_t)x.end))
		st = err_errno(err, errno, "cannot cut '%.200s'", f->filling);
	if (!st) {
		data_head_end(&f->layout, x.end, XXH3_64bits_digest(x.sum));
		st = write_all(f->fd, f->layout.head, sizeof(f->layout.front), 0, err);
	}
	if (!st)
		st = sync_file(f->fd, f->filling, err);
	if (!st)
		st = give_name(f, err);
	(void)XXH3_freeState(x.sum);
	vec_release(&f->mem, &x.record);
	return st;
}

enum plim_status plim_samples_seal(struct plim_samples_filling *f, uint32_t *done,
				   struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	int r;

	*done = f->ready;
	if (f->ready)
		return PLIM_OK;
	r = lock(f->fd, F_WRLCK, LOCK_SEAL, false);
	if (r == EAGAIN || r == EACCES)
		return PLIM_OK;
	if (r)
		return err_errno(err, r, "cannot lock '%.200s'", f->filling);
	if (!samples_is_named(f->fd, f->path))
		st = samples_is_named(f->fd, f->filling)
			     ? seal(f, err)
			     : err_set(err, PLIM_E_IO, "'%.200s' was removed by others",
				       f->filling);
	(void)lock(f->fd, F_UNLCK, LOCK_SEAL, false);
	*done = !st;
	return st;
}
