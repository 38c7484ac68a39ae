/* plimsoll why: a log or a folder of them read, put together, and explained. */
#include "commands/why/why.h"
#include "host/host.h"

#include "commands/out.h"
#include "commands/told.h"
#include "option_rows.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_DEPTH 6
#define FOLDER_ENTRIES 4096 /* files and folders that are looked at */

void plim_why_options_init(struct plim_why_options *o)
{
	*o = (struct plim_why_options){ WHY_DEFAULTS };
}

void plim_why_free(struct plim_why *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->hidden->plans.n; i++)
		plim_plan_free(w->hidden->plans.at[i]);
	vec_release(&w->hidden->mem, &w->hidden->plans);
	messages_release(&w->hidden->log);
	arena_release(&w->hidden->arena);
	plim_report_free(w->hidden->recorded);
	intern_release(&w->hidden->names);
	free(w);
}

/* ---- names ---- */

static int redacts(const struct plim_why *w)
{
	return (w->hidden->options.flags & PLIM_WHY_REDACT) != 0;
}

const char *why_name(struct plim_why *w, const char *kind, const char *name, struct plim_err *err)
{
	struct plim_why_hidden *h = w->hidden;
	uint32_t id = INTERN_NONE;

	if (!*name)
		return NULL;
	if (!redacts(w))
		return arena_text(&h->arena, err, "%s", name);
	/* the same name is always the same word */
	if (intern_add(&h->names, name, strlen(name), &id, err))
		return NULL;
	return arena_text(&h->arena, err, "%s-%u", kind, id + 1);
}

/* What stands behind the installed packages' folder is short enough to be read. */
static const char *short_file(const char *file)
{
	const char *site = strstr(file, "/site-packages/");

	return site ? site + strlen("/site-packages/") : file;
}

const char *why_frame(struct plim_why *w, const struct messages_frame *f, struct plim_err *err)
{
	const char *file = f->file, *function = f->function, *public;

	if (!*file)
		return NULL;
	public = recording_public_part(file);
	if (!redacts(w)) {
		file = short_file(file);
	} else if (public) {
		file = public;
	} else {
		file = why_name(w, "file", file, err);
		function = *function ? why_name(w, "function", function, err) : function;
		if (!file || !function)
			return NULL;
	}
	return arena_text(&w->hidden->arena, err, "%s:%u%s%s", file, f->line,
			  *function ? " in " : "", function);
}

/* ---- reading ---- */

/* A folder's files, for those whose text they hold: what was looked at, and what not. */
struct folder {
	struct plim_why *w;
	struct lines *notes;
	struct plim_err *err;
	size_t root; /* length of the folder's own path: names are reported without it */
	size_t entries, binary, links;
};

static int why_by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum plim_status read_file(struct folder *f, const char *path)
{
	int skipped = 0;
	const struct messages_scan what = { path, path + f->root, 1, &skipped };
	enum plim_status st = messages_scan(&f->w->hidden->log, &what, f->err);

	f->binary += (size_t)skipped;
	if (st != PLIM_E_IO && st != PLIM_E_FORMAT)
		return st;
	/* one that cannot be read, or is empty, does not keep the others from being read */
	lines_add(f->notes, "%s",
		  redacts(f->w) ? "a file could not be read to its end" : f->err->message);
	return PLIM_OK;
}

static enum plim_status read_folder(struct folder *f, const char *path, int depth);

static enum plim_status read_entry(struct folder *f, const char *path, const char *name, int depth)
{
	char full[4096];
	struct stat st;

	if ((size_t)snprintf(full, sizeof(full), "%s/%s", path, name) >= sizeof(full) ||
	    lstat(full, &st))
		return PLIM_OK;
	if (S_ISLNK(st.st_mode))
		f->links++;
	else if (S_ISDIR(st.st_mode) && depth < FOLDER_DEPTH)
		return read_folder(f, full, depth + 1);
	else if (S_ISREG(st.st_mode) && st.st_size)
		return read_file(f, full);
	return PLIM_OK;
}

/* In the order of their names, so that the same folder gives the same answer. */
static enum plim_status read_folder(struct folder *f, const char *path, int depth)
{
	struct arena *h = &f->w->hidden->arena;
	VEC(const char *) names = { 0 };
	enum plim_status st = PLIM_OK;
	const struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return depth ? PLIM_OK : err_errno(f->err, errno, "cannot open '%s'", path);
	while (!st && (entry = readdir(dir)) && f->entries < FOLDER_ENTRIES) {
		const char *name;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		f->entries++;
		name = arena_text(h, f->err, "%s", entry->d_name);
		st = name ? vec_push(h->mem, &names, name, f->err) : mem_status(f->err);
	}
	closedir(dir);
	sort_items(names.at, names.n, sizeof(*names.at), why_by_name);
	for (size_t i = 0; !st && i < names.n; i++)
		st = read_entry(f, path, names.at[i], depth);
	vec_release(h->mem, &names);
	return st;
}

/* A folder, a file, or what was given in place of a path. */
static enum plim_status read_all_why(struct plim_why *w, const char *path,
				     const struct plim_input *input, struct lines *notes,
				     struct plim_err *err)
{
	const struct messages_scan what = { .path = path, .name = path, .input = input };
	struct folder f = { .w = w, .notes = notes, .err = err, .root = strlen(path) };
	struct stat st;
	enum plim_status status;

	if (input || !strcmp(path, "-") || stat(path, &st) || !S_ISDIR(st.st_mode))
		return messages_scan(&w->hidden->log, &what, err);
	while (f.root && path[f.root - 1] == '/')
		f.root--;
	f.root++;
	status = read_folder(&f, path, 0);
	if (!status && !w->hidden->log.files.n)
		return err_set(err, PLIM_E_FORMAT,
			       "'%s' holds no log: it is empty, or none of its "
			       "files is text",
			       path);
	if (f.binary)
		lines_add(notes, "left out, as no text: %zu of its files", f.binary);
	if (f.links)
		lines_add(notes, "links that were not followed: %zu", f.links);
	if (f.entries == FOLDER_ENTRIES)
		lines_add(notes, "only %d files and folders were looked at", FOLDER_ENTRIES);
	return status;
}

/* ---- the answer ---- */

static enum plim_status fill_files(struct plim_why *w, struct plim_err *err)
{
	const struct messages_log *log = &w->hidden->log;

	w->files = arena_take(&w->hidden->arena, log->files.n, sizeof(*w->files), err);
	if (!w->files)
		return mem_status(err);
	for (size_t i = 0; i < log->files.n; i++) {
		const struct messages_file *file = &log->files.at[i];

		w->files[i] = (struct plim_why_file){
			.path = redacts(w) ? arena_text(&w->hidden->arena, err, "log-%zu", i + 1)
					   : arena_text(&w->hidden->arena, err, "%s", file->path),
			.compression = strcmp(file->compression, "none") ? file->compression : NULL,
			.bytes = file->bytes,
			.lines = file->lines,
		};
		if (!w->files[i].path)
			return mem_status(err);
	}
	w->file_count = log->files.n;
	w->lines = log->lines;
	w->bytes = log->bytes;
	return PLIM_OK;
}

static enum plim_status fill_other(struct plim_why *w, const struct messages_event *e,
				   struct plim_why_other *o, struct plim_err *err)
{
	*o = (struct plim_why_other){
		.family = messages_family_names[e->wording->family],
		.file = w->files[e->file].path,
		.line = e->line,
		.times = e->times,
		.text = redacts(w) ? NULL : arena_text(&w->hidden->arena, err, "%s", e->text),
		.says = e->wording->says,
		.advice = e->wording->advice,
	};
	return why_ranks(w, e, &o->ranks, &o->rank_count, err);
}

static enum plim_status fill_events(struct plim_why *w, struct plim_err *err)
{
	const struct messages_log *log = &w->hidden->log;
	enum plim_status st = PLIM_OK;

	w->deaths = arena_take(&w->hidden->arena, log->events.n, sizeof(*w->deaths), err);
	w->others = w->deaths
			    ? arena_take(&w->hidden->arena, log->events.n, sizeof(*w->others), err)
			    : NULL;
	if (!w->others)
		return mem_status(err);
	for (size_t i = 0; !st && i < 2 * log->events.n; i++) {
		int caught = i >= log->events.n;
		size_t at = caught ? i - log->events.n : i;
		const struct messages_event *e = &log->events.at[at];

		if (e->joined != at || caught != !!e->caught_line)
			continue;
		if (e->wording->class <= MESSAGES_SHARED)
			st = why_death(w, at, &w->deaths[w->death_count++], err);
		else if (e->wording->class <= MESSAGES_OTHER)
			st = fill_other(w, e, &w->others[w->other_count++], err);
	}
	w->outcome = w->death_count   ? PLIM_WHY_MEMORY
		     : w->other_count ? PLIM_WHY_OTHER
				      : PLIM_WHY_NOTHING;
	return st;
}

/* ---- what is not a log ---- */

/* A checkpoint is a zip file itself. */
static int is_compressed(const char *compression)
{
	return strcmp(compression, "none") != 0 && strcmp(compression, "zip") != 0;
}

/* Binary files are never logs; text that looks like another file is none where it says of nothing. */
static enum plim_status refuse_other(const struct plim_why *w, const char *path,
				     struct plim_err *err)
{
	const struct messages_log *log = &w->hidden->log;
	const struct messages_kind *kind;

	for (size_t i = 0; i < log->files.n && log->files.n > 1; i++)
		if (w->outcome != PLIM_WHY_NOTHING || !log->files.at[i].kind.is)
			return PLIM_OK;
	if (log->files.n > 1)
		return err_set(err, PLIM_E_FORMAT, "'%s' holds no log", path);
	if (log->files.n != 1)
		return PLIM_OK;
	kind = &log->files.at[0].kind;
	if (!kind->is || (kind->text && w->outcome != PLIM_WHY_NOTHING))
		return PLIM_OK;
	if (!kind->verb)
		return err_set(err, PLIM_E_FORMAT, "'%s' is %s, not a log", path, kind->is);
	/* checkpoints are read where they lie, as a whole */
	if (!strncmp(kind->verb, "ckpt ", 5) && is_compressed(log->files.at[0].compression))
		return err_set(
			err, PLIM_E_FORMAT,
			"'%s' is %s, compressed with %s, not a log: decompress it, then plimsoll "
			"%s FILE",
			path, kind->is, log->files.at[0].compression, kind->verb);
	return err_set(err, PLIM_E_FORMAT, "'%s' is %s, not a log: plimsoll %s %s", path, kind->is,
		       kind->verb,
		       !strcmp(path, "-") && !strncmp(kind->verb, "ckpt ", 5) ? "FILE" : path);
}

/* ---- the recording ---- */

static int within(uint64_t bytes, struct plim_interval r)
{
	return r.low != PLIM_UNKNOWN && bytes >= r.low && bytes <= r.high;
}

/* The recorded failure that the text says of, else the last one that was explained; *told as far as it. */
static void find_recorded(const struct plim_report_device *all, const struct plim_why_death *d,
			  struct plim_why_recorded *out, struct plim_report_device *told)
{
	for (size_t i = 0; i < all->oom_count; i++) {
		const struct plim_report_oom *oom = &all->oom[i];
		int same = within(oom->segment_bytes, d->numbers.tried_bytes);

		if (!oom->verdict || (out->same_death && !same))
			continue;
		out->device = all->device;
		out->event = oom->event;
		out->same_death = same;
		out->verdict = oom->verdict;
		*told = *all;
		told->oom_count = i + 1;
	}
}

/* What the recording shows takes the place of what the text leaves open. */
static void take_over(struct plim_why_death *d, const struct plim_verdict *r)
{
	struct plim_verdict *v = &d->verdict;

	v->basis = "recording";
	v->bound_by = r->bound_by;
	v->bound_certain = r->bound_by != PLIM_BOUND_UNKNOWN;
	v->cause = r->cause;
	v->likely_cause = r->likely_cause;
	v->headline = r->headline;
	v->evidence = r->evidence;
	v->evidence_count = r->evidence_count;
	v->helps = r->helps;
	v->helps_count = r->helps_count;
	v->useless_count = v->certainty_count = 0;
	if (r->cause)
		v->cause_count = 0;
}

static enum plim_status take_found(struct plim_why *w, const struct plim_why_recorded *found,
				   const char *path, struct lines *notes, struct plim_err *err)
{
	struct arena *a = &w->hidden->arena;
	int any = 0;

	for (size_t i = 0; i < w->death_count; i++) {
		struct plim_why_death *d = &w->deaths[i];

		if (!found[i].verdict)
			continue;
		d->recorded = arena_take(a, 1, sizeof(*d->recorded), err);
		if (!d->recorded)
			return mem_status(err);
		*d->recorded = found[i];
		d->recorded->path = arena_text(a, err, "%s", redacts(w) ? "recording" : path);
		if (!d->recorded->path)
			return mem_status(err);
		any |= found[i].same_death;
		if (found[i].same_death)
			take_over(d, found[i].verdict);
	}
	if (!any)
		lines_add(notes, "the recording has no death that this log shows: the answer is "
				 "from the text alone");
	return PLIM_OK;
}

/* A failure that is not the last is reported without what is known of the last one alone. */
static enum plim_status tell_again(struct plim_why *w, struct plim_report_device *d,
				   size_t all_failures, struct plim_err *err)
{
	if (!d->oom_count || d->oom_count == all_failures)
		return PLIM_OK;
	d->finding_count = 0;
	d->at_peak = (struct plim_report_owners){ .what = NULL };
	return told_fill(TOLD_FRAMES, PLIM_GROUP_USER_FRAME, &w->hidden->arena, d, err);
}

/* The failures that the recording's report explains, next to those of the log. */
static enum plim_status look_at_report(struct plim_why *w, struct plim_why_recorded *found,
				       struct plim_err *err)
{
	const struct plim_report *r = w->hidden->recorded;
	enum plim_status st = PLIM_OK;

	for (size_t k = 0; k < r->device_count; k++)
		for (size_t i = 0; !st && i < w->death_count; i++) {
			struct plim_report_device *told = &w->hidden->told[i];

			if (w->deaths[i].kind != PLIM_WHY_DEVICE)
				continue;
			find_recorded(&r->devices[k], &w->deaths[i], &found[i], told);
			if (found[i].device == r->devices[k].device)
				st = tell_again(w, told, r->devices[k].oom_count, err);
		}
	return st;
}

static enum plim_status join_recording(struct plim_why *w, const char *path, struct lines *notes,
				       struct plim_err *err)
{
	struct plim_why_hidden *h = w->hidden;
	struct plim_report_options o;
	struct plim_why_recorded *found;
	enum plim_status st;

	if (!h->options.snapshot_path)
		return PLIM_OK;
	plim_report_options_init(&o);
	o.flags = redacts(w) ? PLIM_REPORT_REDACT : 0;
	o.max_memory_bytes = h->options.max_memory_bytes;
	if (path && w->file_count == 1 && strcmp(path, "-") &&
	    !strcmp(h->log.files.at[0].path, path))
		o.log_path = path;
	st = plim_report_open(h->options.snapshot_path, &o, &h->recorded, err);
	found = st ? NULL : arena_take(&h->arena, w->death_count, sizeof(*found), err);
	h->told = found ? arena_take(&h->arena, w->death_count, sizeof(*h->told), err) : NULL;
	if (!h->told)
		return mem_status(err);
	st = look_at_report(w, found, err);
	return st ? st : take_found(w, found, h->options.snapshot_path, notes, err);
}

/* ---- the command ---- */

static enum plim_status answer_why(struct plim_why *w, const struct plim_input *input,
				   struct plim_err *err)
{
	struct lines notes = { .arena = &w->hidden->arena, .err = err };
	const char *path = source_input_name(input);
	enum plim_status st = read_all_why(w, path, input->path ? NULL : input, &notes, err);

	for (size_t i = 0; !st && i < w->hidden->options.also_count; i++)
		st = read_all_why(w, w->hidden->options.also_paths[i], NULL, &notes, err);
	if (st)
		return st;
	messages_join(&w->hidden->log);
	if (w->hidden->log.left_out)
		lines_add(&notes, "%llu more failures than fit here were left out",
			  (unsigned long long)w->hidden->log.left_out);
	st = fill_files(w, err);
	if (!st)
		st = fill_events(w, err);
	if (!st)
		st = why_states(w, err);
	if (!st)
		st = refuse_other(w, input->path, err);
	if (!st)
		st = join_recording(w, input->path, &notes, err);
	if (!st)
		st = why_plan(w, &notes, err);
	if (redacts(w))
		lines_add(&notes, "redacted, except for sizes, times, numbers of lines, ranks and "
				  "processes, the engine, and names in public packages");
	return st ? st : lines_keep(&notes, &w->notes, &w->note_count);
}

enum plim_status plim_why_open(const char *path, const struct plim_why_options *options,
			       struct plim_why **out, struct plim_err *err)
{
	struct plim_input input = { .size = sizeof(input), .path = path };

	return plim_why_read(&input, options, out, err);
}

enum plim_status plim_why_read(const struct plim_input *input,
			       const struct plim_why_options *options, struct plim_why **out,
			       struct plim_err *err)
{
	struct plim_why *w;
	struct plim_why_hidden *h;
	struct plim_err own;
	enum plim_status st;

	*out = NULL;
	err = err ? err : &own; /* inner floors read the status back from it */
	st = OUT_NEW(why, w, &w->hidden->options, options, err);
	if (st)
		return st;
	err->status = PLIM_OK;
	h = w->hidden;
	host_mem_init(&h->mem, h->options.max_memory_bytes);
	arena_init(&h->arena, &h->mem);
	intern_init(&h->names, &h->mem);
	messages_init(&h->log, &h->mem);
	st = answer_why(w, input, err);
	if (st)
		plim_why_free(w);
	else
		*out = w;
	return st;
}

enum plim_status plim_why_json(const struct plim_why *w, plim_write_fn *write, void *ctx,
			       struct plim_err *err)
{
	return out_json(&w->hidden->mem, &why_table, w, write, ctx, err);
}
