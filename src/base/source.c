#include "source.h"

#include "codec.h"
#include "thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Decoded blocks in flight between the threads: one being filled, one being read, one spare.  A block
 * is read where it lies: what is left of the one before is copied in front of it, into its head.
 */
#define RING_SLOTS 3
#define RING_SLOT_BYTES ((size_t)256 << 10)
#define RING_HEAD_PART 4

/* A plain file of fewer blocks is read before a thread has begun. */
#define RING_FILE_SLOTS 16

enum kind { KIND_FILE, KIND_PIPE, KIND_MEMORY, KIND_MEMBER };

static const char *const kind_names[] = { "file", "pipe", "memory", "member" };

struct ring {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	size_t head_bytes, slot_bytes;
	uint8_t *slot[RING_SLOTS]; /* head, block, SOURCE_PAD */
	size_t slot_n[RING_SLOTS];
	uint64_t made, taken;    /* slots, ever */
	size_t pos;              /* in the slot that is being copied; the reader's own */
	bool held;               /* the window is slot `taken`; the reader's own */
	bool stop, finished;     /* asked to; nothing more will come */
	enum plim_status status; /* why it finished; PLIM_OK: the end */
	struct plim_err err;
};

/* `raw_*` is the input as stored and belongs to the thread that decodes; the rest to the reader. */
struct state {
	struct source pub;
	struct mem *mem;
	char *path;
	const char *name; /* for messages */
	size_t path_size;
	enum kind kind;

	int fd;
	int wake[2]; /* a byte in it ends a wait for a pipe */
	uint64_t raw_start, raw_bytes;
	_Atomic uint64_t raw_read;
	const uint8_t *memory;
	struct source *outer;           /* of a member */
	uint8_t head[CODEC_HEAD_BYTES]; /* read ahead to know the format */
	size_t head_pos, head_n;

	struct codec *codec;
	const char *compression;
	uint64_t decoder_bytes;
	struct ring *ring;

	uint8_t *own;    /* a window that can grow */
	size_t own_cap;  /* SOURCE_PAD included */
	uint8_t *window; /* the one in use: our own, or a slot of the ring */
	uint64_t base;   /* decoded offset of window[0]; wraps, where a slot's head is empty */
	uint64_t max_decoded;
	enum plim_status status; /* sticky */
	struct plim_err err;
};

static struct state *source_state_of(const struct source *s)
{
	return (struct state *)s; /* pub is its first member */
}

static enum plim_status status_of(const struct plim_err *err)
{
	return mem_status(err);
}

/* --- the input as stored --- */

static enum plim_status pread_some(const struct state *s, uint64_t offset, uint8_t *at, size_t room,
				   size_t *got, struct plim_err *err)
{
	ssize_t r;

	*got = 0;
	do
		r = pread(s->fd, at, room, (off_t)(s->raw_start + offset));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(err, errno, "cannot read '%s'", s->name);
	if (!r && offset < s->raw_bytes)
		return err_set(err, PLIM_E_IO,
			       "file '%s' was cut while being read: %llu of %llu bytes", s->name,
			       (unsigned long long)offset, (unsigned long long)s->raw_bytes);
	*got = (size_t)r;
	return PLIM_OK;
}

/* Wait for a pipe so that source_close can end the wait. */
static enum plim_status wait_readable(const struct state *s, struct plim_err *err)
{
	struct pollfd fds[2] = { { .fd = s->fd, .events = POLLIN },
				 { .fd = s->wake[0], .events = POLLIN } };
	int r;

	if (s->wake[0] < 0)
		return PLIM_OK;
	do
		r = poll(fds, 2, -1);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(err, errno, "cannot wait for '%s'", s->name);
	if (fds[1].revents)
		return err_set(err, PLIM_E_CANCELLED, "reading '%s' was stopped", s->name);
	return PLIM_OK;
}

static enum plim_status pipe_some(const struct state *s, uint8_t *at, size_t room, size_t *got,
				  struct plim_err *err)
{
	enum plim_status st = wait_readable(s, err);
	ssize_t r;

	*got = 0;
	if (st)
		return st;
	do
		r = read(s->fd, at, room);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(err, errno, "cannot read '%s'", s->name);
	*got = (size_t)r;
	return PLIM_OK;
}

/* From the window of the source around this one. */
static enum plim_status member_some(const struct state *s, uint64_t done, uint8_t *at, size_t room,
				    size_t *got, struct plim_err *err)
{
	struct source *outer = s->outer;
	enum plim_status st = PLIM_OK;
	size_t n;

	*got = 0;
	if (done == s->raw_bytes || !room)
		return PLIM_OK;
	if (outer->p == outer->end)
		st = source_need(outer, outer->p, 1, err);
	n = (size_t)(outer->end - outer->p);
	if (!st && !n)
		st = err_set(err, PLIM_E_FORMAT,
			     "'%s' ends after %llu of %llu bytes: the archive was cut", s->name,
			     (unsigned long long)done, (unsigned long long)s->raw_bytes);
	if (st)
		return st;
	n = n < room ? n : room;
	n = n < s->raw_bytes - done ? n : (size_t)(s->raw_bytes - done);
	memcpy(at, outer->p, n);
	outer->p += n;
	*got = n;
	return PLIM_OK;
}

static enum plim_status raw_some(struct state *s, uint8_t *at, size_t room, size_t *got,
				 struct plim_err *err)
{
	uint64_t done = atomic_load_explicit(&s->raw_read, memory_order_relaxed);
	enum plim_status st = PLIM_OK;

	if (s->kind == KIND_FILE) {
		st = pread_some(s, done, at, room, got, err);
	} else if (s->kind == KIND_PIPE) {
		st = pipe_some(s, at, room, got, err);
	} else if (s->kind == KIND_MEMBER) {
		st = member_some(s, done, at, room, got, err);
	} else {
		*got = s->raw_bytes - done < room ? (size_t)(s->raw_bytes - done) : room;
		if (*got)
			memcpy(at, s->memory + done, *got);
	}
	atomic_store_explicit(&s->raw_read, done + *got, memory_order_relaxed);
	return st;
}

/* Also the codec's input: what was read ahead comes first. */
static enum plim_status raw_read(void *ctx, uint8_t *at, size_t room, size_t *got,
				 struct plim_err *err)
{
	struct state *s = ctx;
	size_t n = s->head_n - s->head_pos;

	if (!n)
		return raw_some(s, at, room, got, err);
	n = n < room ? n : room;
	memcpy(at, s->head + s->head_pos, n);
	s->head_pos += n;
	*got = n;
	return PLIM_OK;
}

static enum plim_status read_head(struct state *s, struct plim_err *err)
{
	enum plim_status st;
	size_t got;

	do {
		st = raw_some(s, s->head + s->head_n, sizeof(s->head) - s->head_n, &got, err);
		s->head_n += got;
	} while (!st && got && s->head_n < sizeof(s->head));
	if (!st && !s->head_n)
		st = err_set(err, PLIM_E_FORMAT, "'%s' is empty", s->name);
	return st;
}

/* --- decoding on its own thread --- */

/* As much as there is room for; less at the end. */
static enum plim_status decode(struct state *s, uint8_t *at, size_t room, size_t *got,
			       struct plim_err *err)
{
	enum plim_status st = PLIM_OK;
	size_t more = 1;

	if (s->codec)
		return codec_decode(s->codec, at, room, got, err);
	for (*got = 0; !st && more && *got < room; *got += more)
		st = raw_read(s, at + *got, room - *got, &more, err);
	return st;
}

static void *ring_run(void *arg)
{
	struct state *s = arg;
	struct ring *r = s->ring;
	bool stop;

	do {
		enum plim_status st;
		size_t got, k;

		pthread_mutex_lock(&r->lock);
		while (!r->stop && r->made - r->taken == RING_SLOTS)
			pthread_cond_wait(&r->moved, &r->lock);
		stop = r->stop;
		k = r->made % RING_SLOTS;
		pthread_mutex_unlock(&r->lock);
		if (stop)
			break;
		st = decode(s, r->slot[k] + r->head_bytes, r->slot_bytes, &got, &r->err);
		memset(r->slot[k] + r->head_bytes + got, 0, SOURCE_PAD);
		pthread_mutex_lock(&r->lock);
		r->slot_n[k] = got;
		r->made += got > 0;
		r->status = st;
		stop = r->finished = st || got < r->slot_bytes;
		pthread_cond_signal(&r->moved);
		pthread_mutex_unlock(&r->lock);
	} while (!stop);
	return NULL;
}

/* Wait for slot `k`, counted from the first ever.  False: nothing comes any more. */
static bool ring_wait(struct ring *r, uint64_t k)
{
	bool have;

	pthread_mutex_lock(&r->lock);
	while (r->made == k && !r->finished)
		pthread_cond_wait(&r->moved, &r->lock);
	have = r->made != k;
	pthread_mutex_unlock(&r->lock);
	return have;
}

/* The oldest slot may be filled again. */
static void ring_release(struct ring *r)
{
	pthread_mutex_lock(&r->lock);
	r->taken++;
	pthread_cond_signal(&r->moved);
	pthread_mutex_unlock(&r->lock);
	r->held = false;
	r->pos = 0;
}

/* Copy from the oldest slot, which is not the window. */
static enum plim_status ring_take(struct ring *r, uint8_t *at, size_t room, size_t *got,
				  struct plim_err *err)
{
	size_t k = r->taken % RING_SLOTS;

	*got = 0;
	if (!ring_wait(r, r->taken)) {
		if (r->status && err)
			*err = r->err;
		return r->status;
	}
	*got = r->slot_n[k] - r->pos < room ? r->slot_n[k] - r->pos : room;
	memcpy(at, r->slot[k] + r->head_bytes + r->pos, *got);
	r->pos += *got;
	if (r->pos == r->slot_n[k])
		ring_release(r);
	return PLIM_OK;
}

/*
 * Make the next slot the window, with the bytes from `keep` on in its head.  False, and nothing has
 * changed, if they are too many, or the slot would not make it `n` bytes, or there is none.
 */
static bool ring_turn(struct state *s, const uint8_t *keep, size_t n)
{
	struct ring *r = s->ring;
	size_t tail = (size_t)(s->pub.end - keep), k = (r->taken + r->held) % RING_SLOTS;
	uint8_t *at;

	if (tail > r->head_bytes || r->pos || !ring_wait(r, r->taken + r->held) ||
	    tail + r->slot_n[k] < n)
		return false;
	at = r->slot[k] + r->head_bytes - tail;
	memcpy(at, keep, tail);
	s->base = source_offset(&s->pub, keep) - (uint64_t)(at - r->slot[k]);
	s->window = r->slot[k];
	s->pub.p = at;
	s->pub.end = at + tail + r->slot_n[k];
	if (r->held)
		ring_release(r);
	r->held = true;
	return true;
}

static size_t ring_room(const struct ring *r)
{
	return r->head_bytes + r->slot_bytes + SOURCE_PAD;
}

static void ring_free(struct state *s)
{
	struct ring *r = s->ring;

	if (!r)
		return;
	for (size_t k = 0; k < RING_SLOTS; k++)
		mem_free(s->mem, r->slot[k], ring_room(r), 1);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->moved);
	mem_free(s->mem, r, 1, sizeof(*r));
	s->ring = NULL;
}

static void ring_stop(struct state *s)
{
	if (!s->ring)
		return;
	pthread_mutex_lock(&s->ring->lock);
	s->ring->stop = true;
	pthread_cond_signal(&s->ring->moved);
	pthread_mutex_unlock(&s->ring->lock);
	if (s->wake[1] >= 0) {
		close(s->wake[1]); /* the other end becomes readable */
		s->wake[1] = -1;
	}
	pthread_join(s->ring->thread, NULL);
	ring_free(s);
}

static enum plim_status ring_start(struct state *s, struct plim_err *err)
{
	struct ring *r = mem_new(s->mem, 1, sizeof(*r), err);

	if (!r)
		return status_of(err);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->moved, NULL);
	s->ring = r;
	r->slot_bytes = s->own_cap - SOURCE_PAD < RING_SLOT_BYTES ? s->own_cap - SOURCE_PAD
								  : RING_SLOT_BYTES;
	r->head_bytes = r->slot_bytes / RING_HEAD_PART;
	for (size_t k = 0; k < RING_SLOTS; k++) {
		r->slot[k] = mem_new(s->mem, ring_room(r), 1, err);
		if (!r->slot[k]) {
			ring_free(s);
			return status_of(err);
		}
	}
	if (s->kind == KIND_PIPE && pipe(s->wake) == 0) {
		fcntl(s->wake[0], F_SETFD, FD_CLOEXEC);
		fcntl(s->wake[1], F_SETFD, FD_CLOEXEC);
	}
	/* No thread, or no way to stop one that waits for a pipe: decode in the caller's instead. */
	if ((s->kind == KIND_PIPE && s->wake[0] < 0) || thread_start(&s->ring->thread, ring_run, s))
		ring_free(s);
	return PLIM_OK;
}

/* --- the window --- */

static enum plim_status decoded_some(struct state *s, uint8_t *at, size_t room, size_t *got,
				     struct plim_err *err)
{
	if (s->ring)
		return ring_take(s->ring, at, room, got, err);
	if (s->codec)
		return codec_decode(s->codec, at, room, got, err);
	return raw_read(s, at, room, got, err);
}

static void check_limit(struct state *s)
{
	if (!s->status && s->max_decoded && source_offset(&s->pub, s->pub.end) > s->max_decoded)
		s->status = err_set(&s->err, PLIM_E_LIMIT,
				    "'%s' holds more than the allowed %llu bytes", s->name,
				    (unsigned long long)s->max_decoded);
}

/* Read once behind s->pub.end in our own window; there is room. */
static enum plim_status window_fill(struct state *s, struct plim_err *err)
{
	uint8_t *end = s->own + (s->pub.end - s->own);
	size_t room = s->own_cap - SOURCE_PAD - (size_t)(end - s->own), got = 0;

	if (!s->status) {
		s->status = decoded_some(s, end, room, &got, &s->err);
		s->pub.end = end + got;
		memset(end + got, 0, SOURCE_PAD);
		s->pub.eof = !s->status && !got;
	}
	check_limit(s);
	/* Bytes that came with the error are delivered first, the error the next time. */
	if (s->status && !got && err)
		*err = s->err;
	return got ? PLIM_OK : s->status;
}

/* Our own window from now on, with the bytes from `keep` at its start. */
static enum plim_status window_slide(struct state *s, const uint8_t *keep, struct plim_err *err)
{
	size_t tail = (size_t)(s->pub.end - keep);
	uint64_t offset = source_offset(&s->pub, keep);
	enum plim_status st = PLIM_OK;

	if (s->window != s->own)
		st = mem_grow(s->mem, &s->own, &s->own_cap, tail + SOURCE_PAD + 1, 1, err);
	if (st)
		return st;
	memmove(s->own, keep, tail + SOURCE_PAD);
	if (s->window != s->own)
		ring_release(s->ring);
	s->window = s->own;
	s->base = offset;
	s->pub.p = s->own;
	s->pub.end = s->own + tail;
	return PLIM_OK;
}

/* How far it is, once a window; PLIM_E_CANCELLED. */
static enum plim_status tell_task(const struct state *s, struct plim_err *err)
{
	struct plim_task *task = mem_watched();

	if (task && s->kind == KIND_FILE) {
		__atomic_store_n(&task->total_bytes, s->raw_bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&task->done_bytes,
				 atomic_load_explicit(&s->raw_read, memory_order_relaxed),
				 __ATOMIC_RELAXED);
	}
	return mem_stopped(err);
}

enum plim_status source_need(struct source *pub, const uint8_t *keep, size_t n,
			     struct plim_err *err)
{
	struct state *s = source_state_of(pub);
	enum plim_status st;

	pub->p = keep;
	if ((size_t)(pub->end - keep) >= n || pub->eof)
		return PLIM_OK;
	if (tell_task(s, err))
		return PLIM_E_CANCELLED;
	if (s->ring && !s->status && ring_turn(s, keep, n)) {
		check_limit(s);
		return PLIM_OK;
	}
	st = window_slide(s, keep, err);
	while (!st && !pub->eof && (size_t)(pub->end - pub->p) < n) {
		size_t have = (size_t)(pub->end - pub->p);

		if (have + SOURCE_PAD == s->own_cap) {
			st = mem_grow(s->mem, &s->own, &s->own_cap, 2 * s->own_cap, 1, err);
			s->window = s->own;
			pub->p = s->own;
			pub->end = s->own + have;
		}
		if (!st)
			st = window_fill(s, err);
	}
	return st;
}

uint64_t source_offset(const struct source *pub, const uint8_t *at)
{
	const struct state *s = source_state_of(pub);

	return s->base + (uint64_t)(at - s->window);
}

/* An empty window of our own at `offset` of a plain file. */
static void window_jump(struct state *s, uint64_t offset)
{
	atomic_store_explicit(&s->raw_read, offset, memory_order_relaxed);
	s->base = offset;
	s->pub.p = s->pub.end = s->own;
	memset(s->own, 0, SOURCE_PAD);
}

enum plim_status source_skip_to(struct source *pub, uint64_t offset, struct plim_err *err)
{
	struct state *s = source_state_of(pub);
	bool jumps = s->kind == KIND_FILE && !s->codec && !s->ring && !s->status &&
		     s->head_pos == s->head_n;
	enum plim_status st = PLIM_OK;

	if (jumps && offset > source_offset(pub, pub->end) && offset <= s->raw_bytes)
		window_jump(s, offset);
	while (!st && !pub->eof && source_offset(pub, pub->end) < offset)
		st = source_need(pub, pub->end, 1, err);
	if (!st && source_offset(pub, pub->end) < offset)
		st = err_set(err, PLIM_E_FORMAT, "'%s' ends at byte %llu: it was cut", s->name,
			     (unsigned long long)source_offset(pub, pub->end));
	pub->p = st ? pub->end : pub->end - (source_offset(pub, pub->end) - offset);
	return st;
}

/* --- opening --- */

/* What s->fd is; `given`: someone else opened it, and it may stand somewhere in its middle. */
static enum plim_status look_at_file(struct state *s, bool given, enum source_kinds kinds,
				     struct plim_err *err)
{
	struct stat info;

	if (fstat(s->fd, &info))
		return err_errno(err, errno, "cannot read '%s'", s->name);
	if (S_ISDIR(info.st_mode)) {
		err_set(err, PLIM_E_IO, "'%s' is a folder: give a file in it", s->name);
		if (err)
			err->native = EISDIR;
		return PLIM_E_IO;
	}
	if (!S_ISREG(info.st_mode) && kinds != SOURCE_ANY)
		return err_set(err, PLIM_E_IO, "cannot read '%s': is not a regular file", s->name);
	if (S_ISREG(info.st_mode)) {
		off_t at = given ? lseek(s->fd, 0, SEEK_CUR) : 0;

		s->kind = KIND_FILE;
		s->raw_start = at > 0 ? (uint64_t)at : 0;
		s->raw_bytes = (uint64_t)info.st_size > s->raw_start
				       ? (uint64_t)info.st_size - s->raw_start
				       : 0;
#ifdef POSIX_FADV_SEQUENTIAL
		posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
	}
	return PLIM_OK;
}

static enum plim_status open_descriptor(struct state *s, int descriptor, enum source_kinds kinds,
					struct plim_err *err)
{
	do
		s->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	while (s->fd < 0 && errno == EINTR);
	if (s->fd < 0)
		return err_errno(err, errno, "cannot open '%s'", s->name);
	return look_at_file(s, true, kinds, err);
}

static enum plim_status open_file(struct state *s, enum source_kinds kinds, struct plim_err *err)
{
	/* without O_NONBLOCK a FIFO waits for its writer; regular files know no difference */
	static const int how[] = { [SOURCE_ANY] = 0,
				   [SOURCE_REGULAR] = O_NONBLOCK,
				   [SOURCE_REGULAR_HERE] = O_NONBLOCK | O_NOFOLLOW };

	if (!strcmp(s->path, "-"))
		return open_descriptor(s, 0, kinds, err);
	do
		s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | how[kinds]);
	while (s->fd < 0 && errno == EINTR);
	if (s->fd < 0)
		return err_errno(err, errno, "cannot open '%s'", s->name);
	return look_at_file(s, false, kinds, err);
}

static enum plim_status state_new(struct mem *m, const char *path,
				  const struct source_options *options, struct state **out,
				  struct plim_err *err)
{
	struct state *s = mem_new(m, 1, sizeof(*s), err);
	size_t window =
		options && options->window_bytes ? options->window_bytes : SOURCE_WINDOW_BYTES;

	*out = s;
	if (!s)
		return status_of(err);
	s->mem = m;
	s->fd = s->wake[0] = s->wake[1] = -1;
	s->kind = KIND_PIPE;
	s->raw_bytes = PLIM_UNKNOWN;
	s->compression = "none";
	s->max_decoded = options ? options->max_decoded_bytes : 0;
	s->path_size = strlen(path) + 1;
	s->path = mem_new(m, s->path_size, 1, err);
	if (!s->path)
		return status_of(err);
	memcpy(s->path, path, s->path_size);
	s->name = strcmp(path, "-") ? s->path : "standard input";
	s->own = s->window = mem_new(m, window + SOURCE_PAD, 1, err);
	if (!s->own)
		return status_of(err);
	s->own_cap = window + SOURCE_PAD;
	s->pub.p = s->pub.end = s->own;
	return PLIM_OK;
}

static bool wants_thread(const struct state *s, enum source_thread thread)
{
	if (thread != SOURCE_THREAD_AUTO || s->codec)
		return thread != SOURCE_THREAD_NONE;
	return s->kind == KIND_FILE && s->raw_bytes >= RING_FILE_SLOTS * RING_SLOT_BYTES &&
	       thread_processors() > 1;
}

/* The input is open: find out what it is, start decoding, put the first bytes into the window. */
static enum plim_status start_source(struct state *s, bool detect,
				     const struct source_options *options, struct plim_err *err)
{
	enum plim_status st = read_head(s, err);
	const struct codec_kind *kind = detect ? codec_detect(s->head, s->head_n) : NULL;

	if (!st && kind) {
		s->compression = codec_kind_name(kind);
		s->decoder_bytes = codec_kind_bytes(kind);
		st = codec_open(s->mem, kind, (struct codec_input){ raw_read, s, s->name },
				&s->codec, err);
	}
	if (!st && wants_thread(s, options ? options->thread : SOURCE_THREAD_AUTO))
		st = ring_start(s, err);
	if (!st)
		st = source_need(&s->pub, s->pub.p, 1, err);
	if (!st && s->pub.p == s->pub.end)
		st = err_set(err, PLIM_E_FORMAT, "'%s' is empty inside its %s compression", s->name,
			     s->compression);
	return st;
}

/* Of a state that is filled in, or of a failure before: the source, or nothing of it. */
static enum plim_status finish_source(struct state *s, enum plim_status st, bool detect,
				      const struct source_options *options, struct source **out,
				      struct plim_err *err)
{
	if (!st)
		st = start_source(s, detect, options, err);
	*out = st ? NULL : &s->pub;
	if (st && s)
		source_close(&s->pub);
	return st;
}

enum plim_status source_open(struct mem *m, const char *path, const struct source_options *options,
			     struct source **out, struct plim_err *err)
{
	struct plim_err local;
	struct state *s;
	enum plim_status st;

	err = err ? err : &local;
	st = state_new(m, path, options, &s, err);
	if (!st)
		st = open_file(s, options ? options->kinds : SOURCE_ANY, err);
	return finish_source(s, st, true, options, out, err);
}

enum plim_status source_open_descriptor(struct mem *m, const char *name, int descriptor,
					const struct source_options *options, struct source **out,
					struct plim_err *err)
{
	struct plim_err local;
	struct state *s;
	enum plim_status st;

	err = err ? err : &local;
	st = state_new(m, name, options, &s, err);
	if (!st)
		st = open_descriptor(s, descriptor, options ? options->kinds : SOURCE_ANY, err);
	return finish_source(s, st, true, options, out, err);
}

enum plim_status source_open_memory(struct mem *m, const char *name, const void *bytes, size_t n,
				    enum source_memory mode, const struct source_options *options,
				    struct source **out, struct plim_err *err)
{
	struct plim_err local;
	struct state *s;
	enum plim_status st;

	err = err ? err : &local;
	st = state_new(m, name, options, &s, err);
	if (!st) {
		s->kind = KIND_MEMORY;
		s->memory = bytes;
		s->raw_bytes = n;
	}
	return finish_source(s, st, mode == SOURCE_MEMORY_DETECT, options, out, err);
}

const char *source_input_name(const struct plim_input *input)
{
	return input->name    ? input->name
	       : input->path  ? input->path
	       : input->bytes ? "memory"
			      : "descriptor";
}

enum plim_status source_open_input(struct mem *m, const struct plim_input *input,
				   const struct source_options *options, struct source **out,
				   struct plim_err *err)
{
	const char *name = source_input_name(input);

	*out = NULL;
	if (input->size != sizeof(*input))
		return err_set(err, PLIM_E_ARG, "plim_input: its size is not that of this library");
	if (input->path)
		return source_open(m, input->path, options, out, err);
	if (input->bytes)
		return source_open_memory(m, name, input->bytes, input->byte_count,
					  SOURCE_MEMORY_DETECT, options, out, err);
	return source_open_descriptor(m, name, input->descriptor, options, out, err);
}

enum plim_status source_open_member(struct mem *m, const char *name, struct source *outer,
				    uint64_t n, const struct source_options *options,
				    struct source **out, struct plim_err *err)
{
	struct plim_err local;
	struct state *s;
	enum plim_status st;

	err = err ? err : &local;
	st = state_new(m, name, options, &s, err);
	if (!st) {
		s->kind = KIND_MEMBER;
		s->outer = outer;
		s->raw_bytes = n;
	}
	return finish_source(s, st, true, options, out, err);
}

/* --- random access, facts, the end --- */

bool source_is_random(const struct source *pub)
{
	const struct state *s = source_state_of(pub);

	return !s->codec && (s->kind == KIND_FILE || s->kind == KIND_MEMORY);
}

enum plim_status source_pread(const struct source *pub, uint64_t offset, void *at, size_t n,
			      size_t *got, struct plim_err *err)
{
	const struct state *s = source_state_of(pub);
	enum plim_status st = PLIM_OK;

	*got = 0;
	if (!source_is_random(pub))
		return err_set(err, PLIM_E_UNSUPPORTED, "'%s' can only be read from its start",
			       s->name);
	if (s->kind == KIND_MEMORY) {
		uint64_t left = offset < s->raw_bytes ? s->raw_bytes - offset : 0;

		*got = left < n ? (size_t)left : n;
		if (*got)
			memcpy(at, s->memory + offset, *got);
		return PLIM_OK;
	}
	while (!st && *got < n) {
		size_t r;

		st = pread_some(s, offset + *got, (uint8_t *)at + *got, n - *got, &r, err);
		if (!st && !r)
			break;
		*got += r;
	}
	return st;
}

void source_get_info(const struct source *pub, struct source_info *out)
{
	const struct state *s = source_state_of(pub);

	*out = (struct source_info){
		.path = s->path,
		.kind = kind_names[s->kind],
		.compression = s->compression,
		.decoder_bytes = s->decoder_bytes,
		.raw_bytes = s->raw_bytes,
		.raw_read_bytes = atomic_load_explicit(&s->raw_read, memory_order_relaxed),
		.decoded_bytes = source_offset(pub, pub->end),
	};
}

void source_close(struct source *pub)
{
	struct state *s = pub ? source_state_of(pub) : NULL;

	if (!s)
		return;
	ring_stop(s);
	codec_close(s->codec);
	for (size_t k = 0; k < 2; k++)
		if (s->wake[k] >= 0)
			close(s->wake[k]);
	if (s->fd >= 0)
		close(s->fd);
	mem_free(s->mem, s->own, s->own_cap, 1);
	mem_free(s->mem, s->path, s->path_size, 1);
	mem_free(s->mem, s, 1, sizeof(*s));
}
