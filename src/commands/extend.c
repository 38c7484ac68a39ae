/* A packed recording that grows: what a later dump of the same process has more is put behind its end. */
#include "commands/out.h"
#include "commands/recording.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

struct extending {
	struct mem *mem;
	struct plim_err *err;
	struct out_bytes was, is; /* the file, and what becomes of it */
	struct snapshot *old;
	size_t fresh;
};

static enum plim_status read_all_extend(struct extending *x, const char *path)
{
	struct source *s;
	enum plim_status st = source_open(x->mem, path, NULL, &s, x->err);

	if (st)
		return st;
	for (size_t n = 1; !st && n;) {
		st = source_need(s, s->p, 1, x->err);
		n = st ? 0 : (size_t)(s->end - s->p);
		if (n)
			st = out_to_bytes(&x->was, s->p, n, x->err);
		s->p += n;
	}
	source_close(s);
	if (!st && !snapshot_is_packed(x->was.at.at, x->was.at.n))
		st = err_set(x->err, PLIM_E_ARG, "'%s' is not a packed recording", path);
	if (!st)
		st = snapshot_read_bytes(x->mem, x->was.at.at, x->was.at.n, NULL, &x->old, x->err);
	return st;
}

/* The file's bytes with `rest` behind them; x->old becomes what they must be read as. */
static enum plim_status write_behind(struct extending *x, const struct snapshot *rest)
{
	struct pickle_sink sink = { &x->is, out_to_bytes };
	int is_full = 0;
	enum plim_status st = snapshot_append(x->old, rest, NULL, NULL, x->err);

	if (!st)
		st = snapshot_pack_behind(rest, x->was.at.at, x->was.at.n, sink, &is_full, x->err);
	if (!st && is_full)
		st = snapshot_pack(x->old, sink, x->err);
	return st ? st : out_check_packed(x->old, &x->is, x->err);
}

static enum plim_status join_extend(struct extending *x, const struct snapshot *now)
{
	struct snapshot_rest there;
	struct snapshot *rest = NULL;
	enum plim_status st = snapshot_follows(x->old, now, &there, x->err);

	x->fresh = there.fresh;
	if (!st && x->fresh)
		st = snapshot_new(x->mem, &rest, x->err);
	if (!st && x->fresh)
		st = snapshot_append(rest, now, &there, NULL, x->err);
	if (!st && x->fresh)
		st = write_behind(x, rest);
	snapshot_free(rest);
	snapshot_rest_release(x->mem, &there);
	return st;
}

enum plim_status plim_recording_extend(struct plim_recording *r, const char *path, uint64_t *fresh,
				       struct plim_err *err)
{
	struct extending x = { .mem = &r->mem };
	struct plim_err own;
	struct stat is;
	enum plim_status st;

	x.err = err = err ? err : &own;
	*fresh = 0;
	st = recording_ready(r, err);
	if (st)
		return st;
	if (stat(path, &is) && errno == ENOENT) {
		*fresh = recording_events(r->recording);
		return out_snapshot(r->recording->snapshot, path, err);
	}
	x.was.mem = x.is.mem = x.mem;
	st = read_all_extend(&x, path);
	if (!st) {
		st = join_extend(&x, r->recording->snapshot);
		if (st == PLIM_E_ARG)
			err_prefix(err, r->path);
	}
	if (!st && x.fresh)
		st = durable_put(x.mem, path, x.is.at.at, x.is.at.n, err);
	*fresh = st ? 0 : x.fresh;
	snapshot_free(x.old);
	vec_release(x.mem, &x.was.at);
	vec_release(x.mem, &x.is.at);
	return st;
}

/* What is in public packages stays. */
static enum plim_status say_kept(struct plim_recording *r, const char **kept, struct plim_err *err)
{
	struct recording_names names;
	enum plim_status st = recording_names_init(&names, r->recording, &r->arena, 1, NULL, err);

	if (!st)
		*kept = recording_kept(&names, err);
	return st || *kept ? st : mem_status(err);
}

enum plim_status plim_recording_redact(struct plim_recording *r, const char **kept,
				       struct plim_err *err)
{
	struct recording *redacted = NULL;
	struct snapshot *t;
	struct plim_err own;
	enum plim_status st;

	err = err ? err : &own;
	if (kept)
		*kept = NULL;
	if (r->appended || r->reports)
		return err_set(err, PLIM_E_ARG,
			       "names are taken out of a recording that was read, before reports "
			       "are made of it");
	st = kept ? say_kept(r, kept, err) : PLIM_OK;
	if (!st)
		st = recording_redacted(r->recording, &t, err);
	if (!st)
		st = recording_of(&r->mem, t, &redacted, err);
	if (st)
		return st;
	recording_free(r->recording);
	r->recording = redacted;
	return PLIM_OK;
}
