/*
 * Reading recordings, several at a time, within one memory limit.  Of each recording only its row stays.
 *
 * Before one is read, as much memory is set aside as one of its size usually needs; what it takes is
 * counted and cannot be more.  If that was too little it is read again, alone, with all there is.  So
 * whether a recording can be read depends on the limit and on nothing that happens next to it.
 */
#include "set.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of the limit: an eighth for rows and for archives that are open while their members wait. */
#define READING_PART(limit) ((limit) - (limit) / 8)

#define SOURCE_BYTES ((uint64_t)4 << 20)  /* a source's windows: 1.5 MiB, and a member has two */
#define DECODER_MOST ((uint64_t)68 << 20) /* xz -9 */
#define LOOK_BYTES 4096

/*
 * What a recording takes next to a fixed part, as a part of its decoded size: 0.55 to 1.0 measured on
 * recordings from 1 MB on.  Pickles of recordings shrink to a 12th (gzip) to a 30th (xz).
 */
#define FIXED_BYTES ((uint64_t)2 << 20)
#define SHRINKS_TO_PART 32
#define PACKED_PART 48 /* of what a .plim file says its columns take: 17 to 32 measured */

struct work {
	struct recording_set *set;
	pthread_mutex_t lock; /* of what follows, and of everything that `k` owns */
	pthread_cond_t room;
	uint64_t reading_bytes, set_aside_bytes;
	size_t next;
	uint32_t done;
	unsigned threads, threads_each; /* recordings at a time; threads that each may use */
	enum plim_status status;        /* the first failure that is not a recording's */
	struct plim_err err;
};

/* ---- memory ---- */

/* What to set aside for a recording: for its source, and for the rest. */
struct need {
	uint64_t source_bytes, report_bytes;
};

static struct need need_of(const struct source *s)
{
	struct source_info info;
	uint64_t bytes, source;

	source_get_info(s, &info);
	source = SOURCE_BYTES + info.decoder_bytes;
	bytes = info.raw_bytes < UINT64_MAX / 64 ? info.raw_bytes : UINT64_MAX / 64;
	if (!info.decoder_bytes && snapshot_is_packed(s->p, (size_t)(s->end - s->p)))
		return (struct need){
			source + bytes,
			FIXED_BYTES +
				PACKED_PART * snapshot_packed_bytes(s->p, (size_t)(s->end - s->p))
		};
	return (struct need){ source,
			      FIXED_BYTES + bytes * (info.decoder_bytes ? SHRINKS_TO_PART : 1) };
}

/* All there is: for the source as much as any usually needs, but no more than half. */
static struct need need_all(uint64_t reading_bytes)
{
	uint64_t most = SOURCE_BYTES + DECODER_MOST;
	uint64_t source = most < reading_bytes / 8 ? reading_bytes / 8 : most;

	source = source < reading_bytes / 2 ? source : reading_bytes / 2;
	return (struct need){ source, reading_bytes - source };
}

static int is_too_much(const struct work *w, const struct need *n)
{
	return n->source_bytes + n->report_bytes > w->reading_bytes;
}

static void set_aside(struct work *w, const struct need *need)
{
	uint64_t bytes = need->source_bytes + need->report_bytes;

	pthread_mutex_lock(&w->lock);
	while (w->set_aside_bytes && w->set_aside_bytes + bytes > w->reading_bytes)
		pthread_cond_wait(&w->room, &w->lock);
	w->set_aside_bytes += bytes;
	pthread_mutex_unlock(&w->lock);
}

static void give_back(struct work *w, const struct need *need)
{
	pthread_mutex_lock(&w->lock);
	w->set_aside_bytes -= need->source_bytes + need->report_bytes;
	pthread_cond_broadcast(&w->room);
	pthread_mutex_unlock(&w->lock);
}

/* ---- one recording ---- */

/* An open item: the file, and in it the member. */
struct opened {
	struct mem mem;
	struct source *file, *member;
};

/* The standard input: it can be opened once, and its size is not known before. */
static int is_pipe(const struct set_item *item)
{
	return item->origin == SET_NAMED && !strcmp(item->path, "-");
}

static void close_item(struct opened *o)
{
	source_close(o->member);
	source_close(o->file);
}

static enum plim_status open_item(const struct set_item *item, uint64_t memory_bytes,
				  struct source_options how, struct opened *o, struct plim_err *err)
{
	enum plim_status st;

	how.kinds = is_pipe(item)               ? 0
		    : item->origin == SET_FOUND ? SOURCE_REGULAR_HERE
						: SOURCE_REGULAR;
	*o = (struct opened){ .file = NULL };
	mem_init(&o->mem, memory_bytes);
	st = source_open(&o->mem, item->path, &how, &o->file, err);
	if (!st && item->member)
		st = source_skip_to(o->file, item->offset, err);
	if (!st && item->member)
		st = source_open_member(&o->mem, item->member, o->file, item->row.bytes, &how,
					&o->member, err);
	if (st)
		close_item(o);
	return st;
}

/* With the lock held: the first failure that is not a recording's ends all. */
static void end_with(struct work *w, enum plim_status st, const struct plim_err *err)
{
	if (!st || w->status)
		return;
	w->status = st;
	w->err = *err;
}

/* The row and what it points to, in the memory of the set. */
static enum plim_status keep_row(struct recording_set *s, struct plim_ranks_row *row,
				 struct plim_err *err)
{
	struct arena *a = s->arena;
	struct plim_report_categories *kinds = row->peak_categories;
	struct plim_ranks_death *died = row->died;
	const struct plim_ranks_owner *owners = row->owners;

	row->peak_categories = kinds ? arena_take(a, 1, sizeof(*kinds), err) : NULL;
	row->died = died ? arena_take(a, 1, sizeof(*died), err) : NULL;
	if ((kinds && !row->peak_categories) || (died && !row->died))
		return mem_status(err);
	if (kinds)
		*row->peak_categories = *kinds;
	row->owners = arena_take(a, row->owner_count, sizeof(*row->owners), err);
	if (!row->owners)
		return mem_status(err);
	for (size_t i = 0; i < row->owner_count; i++) {
		row->owners[i] = owners[i];
		row->owners[i].frame = owners[i].frame ? set_keep(s, owners[i].frame, err) : NULL;
		if (owners[i].frame && !row->owners[i].frame)
			return mem_status(err);
	}
	row->program = row->program ? set_keep(s, row->program, err) : NULL;
	row->place = row->place ? set_keep(s, row->place, err) : NULL;
	if (!died)
		return PLIM_OK;
	*row->died = *died;
	row->died->headline = set_keep(s, died->headline, err);
	row->died->frame = died->frame ? set_keep(s, died->frame, err) : NULL;
	return row->died->headline && (row->died->frame || !died->frame) ? PLIM_OK
									 : mem_status(err);
}

/* Read what `s` holds and keep its row.  PLIM_E_LIMIT: with that much memory it cannot be done. */
static enum plim_status read_member_source(struct work *w, struct set_item *item, struct source *s,
					   uint64_t memory_bytes, int last_try,
					   struct plim_err *err)
{
	struct recording_input in = { .source = s, .threads = w->threads_each };
	struct plim_ranks_row row = item->row;
	struct recording *r = NULL;
	struct arena texts;
	struct mem m;
	enum plim_status st;

	mem_init(&m, memory_bytes);
	arena_init(&texts, &m);
	st = recording_open(&m, set_name(item), &in, &r, err);
	if (!st)
		st = w->set->summarise(&w->set->options->report, r, &texts, &row, err);
	if (st != PLIM_E_LIMIT || last_try) {
		pthread_mutex_lock(&w->lock);
		if (!st)
			item->row = row;
		st = st ? set_fail(w->set, item, in.is_other, err)
			: keep_row(w->set, &item->row, err);
		end_with(w, st, err);
		pthread_mutex_unlock(&w->lock);
		st = PLIM_OK;
	}
	arena_release(&texts);
	recording_free(r);
	return st;
}

/* It could not be opened: that is its row. */
static enum plim_status fail(struct work *w, struct set_item *item, struct plim_err *err)
{
	pthread_mutex_lock(&w->lock);
	end_with(w, set_fail(w->set, item, 0, err), err);
	pthread_mutex_unlock(&w->lock);
	return PLIM_OK;
}

static enum plim_status read_with(struct work *w, struct set_item *item, struct need need,
				  int last_try)
{
	struct source_options how = { .thread = w->threads_each == 1 ? SOURCE_THREAD_NONE
								     : SOURCE_THREAD_AUTO };
	struct plim_err err;
	struct opened o;
	enum plim_status st;

	set_aside(w, &need);
	st = open_item(item, need.source_bytes, how, &o, &err);
	if (!st) {
		st = read_member_source(w, item, o.member ? o.member : o.file, need.report_bytes,
					last_try, &err);
		close_item(&o);
	} else if (st != PLIM_E_LIMIT || last_try) {
		st = fail(w, item, &err);
	}
	give_back(w, &need);
	return st;
}

static void read_alone(struct work *w, struct set_item *item)
{
	item->read_alone = 1;
	read_with(w, item, need_all(w->reading_bytes), 1);
}

static void read_item(struct work *w, struct set_item *item)
{
	struct source_options how = { .window_bytes = LOOK_BYTES, .thread = SOURCE_THREAD_NONE };
	struct need need = need_all(w->reading_bytes);
	struct plim_err err;
	struct opened o;

	if (is_pipe(item)) {
		(void)read_with(w, item, need, 1);
		return;
	}
	/* if it cannot be opened, whoever reads it says why */
	if (!open_item(item, need.source_bytes, how, &o, &err)) {
		need = need_of(o.member ? o.member : o.file);
		close_item(&o);
	} else {
		need = (struct need){ SOURCE_BYTES, FIXED_BYTES };
	}
	if (is_too_much(w, &need) || read_with(w, item, need, 0))
		read_alone(w, item);
}

/* With the lock held. */
static void count_done(struct work *w)
{
	const struct plim_ranks_options *o = w->set->options;
	uint32_t total = (uint32_t)w->set->items.n;

	w->done++;
	if (o->progress && !w->status && o->progress(o->progress_ctx, w->done, total))
		w->status = err_set(&w->err, PLIM_E_CANCELLED, "stopped");
}

/* ---- a compressed archive ---- */

/* A member that the stream has come to. */
static void read_set_member(struct work *w, struct set_item *item, struct source *file)
{
	struct source_options how = { .thread = SOURCE_THREAD_NONE };
	struct source *member;
	struct plim_err err;
	struct need need = need_all(w->reading_bytes);
	struct mem mem;
	enum plim_status st;

	mem_init(&mem, need.source_bytes);
	st = source_open_member(&mem, item->member, file, item->row.bytes, &how, &member, &err);
	if (!st) {
		need = need_of(member);
		mem.limit_bytes = need.source_bytes;
		st = PLIM_E_LIMIT;
		if (!is_too_much(w, &need)) {
			set_aside(w, &need);
			st = read_member_source(w, item, member, need.report_bytes, 0, &err);
			give_back(w, &need);
		}
		source_close(member);
	} else if (st != PLIM_E_LIMIT) {
		st = fail(w, item, &err);
	}
	if (st)
		read_alone(w, item);
}

static void read_stream(struct work *w, struct set_item *archive)
{
	struct source_options how = { .kinds = SOURCE_REGULAR };
	struct tar_member member;
	struct set_item *item;
	struct source *file;
	struct plim_err err;
	struct mem mem;
	struct tar tar;
	int stop;

	mem_init(&mem, need_all(w->reading_bytes).source_bytes);
	if (source_open(&mem, archive->path, &how, &file, &err)) {
		archive->origin = SET_NAMED;
		fail(w, archive, &err);
		return;
	}
	archive->other = 1; /* only its members count */
	tar_init(&tar, file);
	do {
		enum plim_status said = tar_next(&tar, &member, &err);

		stop = said || !member.name;
		pthread_mutex_lock(&w->lock);
		end_with(w, set_add_member(w->set, archive->path, said, &member, &item, &err),
			 &err);
		if (item)
			item->taken = 1;
		pthread_mutex_unlock(&w->lock);
		if (item)
			read_set_member(w, item, file);
		pthread_mutex_lock(&w->lock);
		if (item)
			count_done(w);
		stop |= w->status != PLIM_OK;
		pthread_mutex_unlock(&w->lock);
	} while (!stop);
	source_close(file);
}

/* ---- all of them ---- */

static struct set_item *take_item(struct work *w)
{
	const struct recording_set *s = w->set;

	while (w->next < s->items.n) {
		struct set_item *item = s->items.at[w->next++];

		if (!item->taken) {
			item->taken = 1;
			return item;
		}
	}
	return NULL;
}

static void *worker(void *arg)
{
	struct work *w = arg;
	struct set_item *item;

	pthread_mutex_lock(&w->lock);
	while (!w->status && (item = take_item(w)) != NULL) {
		pthread_mutex_unlock(&w->lock);
		if (item->origin == SET_STREAM)
			read_stream(w, item);
		else
			read_item(w, item);
		pthread_mutex_lock(&w->lock);
		count_done(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* Threads that cannot be had are done without. */
static void work_member(struct work *w)
{
	pthread_t *others = calloc(w->threads, sizeof(*others));
	unsigned n = 0;

	while (others && n + 1 < w->threads && !thread_start(&others[n], worker, w))
		n++;
	worker(w);
	while (n)
		pthread_join(others[--n], NULL);
	free(others);
}

enum plim_status recording_set_read(struct recording_set *s, struct plim_err *err)
{
	struct work w = { .set = s, .reading_bytes = READING_PART(s->limit_bytes) };

	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.room, NULL);
	w.threads = s->options->threads ? s->options->threads : thread_processors();
	if (w.threads > s->items.n)
		w.threads = s->items.n ? (unsigned)s->items.n : 1;
	/* not by how many read: what a recording needs must not depend on it */
	w.threads_each = s->items.n > 1 ? 1 : 0;
	work_member(&w);
	pthread_mutex_destroy(&w.lock);
	pthread_cond_destroy(&w.room);
	if (w.status)
		*err = w.err;
	return w.status;
}

/* ---- one once more ---- */

static const struct set_item *item_of(const struct recording_set *s, uint64_t row)
{
	uint64_t at = 0;

	for (size_t i = 0; i < s->items.n; i++)
		if (!s->items.at[i]->other && at++ == row)
			return s->items.at[i];
	return NULL;
}

enum plim_status recording_set_reopen(const struct recording_set *s, uint64_t row,
				      const struct recording_set_taker *to, struct plim_err *err)
{
	const struct set_item *item = item_of(s, row);
	struct need need = need_all(READING_PART(s->limit_bytes));
	struct recording_input in = { .source = NULL };
	struct set_item own;
	struct opened o;
	enum plim_status st;

	if (is_pipe(item))
		return err_set(err, PLIM_E_IO, "the standard input is read once");
	if (item->origin == SET_DIGEST) {
		own = (struct set_item){ .origin = SET_FOUND, .path = item->beside };
		item = &own;
		if (!*own.path)
			return err_set(err, PLIM_E_IO, "its recording is not next to its digest");
	}
	st = open_item(item, need.source_bytes, (struct source_options){ .window_bytes = 0 }, &o,
		       err);
	if (st)
		return st;
	in.source = o.member ? o.member : o.file;
	st = to->take(to->self, set_name(item), &in, need.report_bytes, err);
	close_item(&o);
	return st;
}
