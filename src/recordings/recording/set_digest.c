/*
 * Digests: rows of recordings that were read elsewhere, a line of JSON each.  What a digest names is only shown; the one file
 * that is looked for is a recording of that name in the digest's own folder.
 */
#include "set.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define DIGEST_SCHEMA "digest/1"

int set_is_digest(const char *name)
{
	static const char end[] = ".digest";
	size_t n = strlen(name);

	return n >= sizeof(end) && !strcmp(name + n - (sizeof(end) - 1), end);
}

/* ---- reading ---- */

/* The recording of a row, if it lies next to the digest: the last part of its name there. */
static const char *digest_beside(struct recording_set *s, const char *digest, const char *recording,
				 struct plim_err *err)
{
	const char *slash = strrchr(digest, '/'), *base = strrchr(recording, '/');
	char whole[PATH_MAX];
	int folder = slash ? (int)(slash + 1 - digest) : 0;

	base = base ? base + 1 : recording;
	if (!*base || !strcmp(base, ".") || !strcmp(base, "..") ||
	    (size_t)snprintf(whole, sizeof(whole), "%.*s%s", folder, digest, base) >= sizeof(whole))
		return "";
	return set_keep(s, whole, err);
}

/* Names that a digest has and that are not to be shown. */
static void redact(struct plim_ranks_row *row)
{
	row->path = row->member = row->place = NULL;
	if (row->died)
		row->died->frame = NULL;
	for (size_t i = 0; i < row->owner_count; i++)
		row->owners[i].frame = NULL;
}

static enum plim_status digest_add_row(struct recording_set *s, const char *digest,
				       struct plim_ranks_row *row, struct plim_err *err)
{
	/* what came from a pipe is called by its digest */
	const char *path = row->path && strcmp(row->path, "-") ? row->path : digest;
	struct set_item *item;
	enum plim_status st = set_add(s, SET_DIGEST, path, row->member, &item, err);

	if (st)
		return st;
	item->beside = row->member ? "" : digest_beside(s, digest, path, err);
	if (!item->beside)
		return mem_status(err);
	if (s->options->report.flags & PLIM_REPORT_REDACT)
		redact(row);
	else
		row->path = item->row.path;
	item->taken = 1;
	item->row = *row;
	item->row.error = NULL;
	return PLIM_OK;
}

/* {"schema": "digest/1", ...} of which `t` is the brace. */
static enum plim_status read_digest_row(struct recording_set *s, struct json *json,
					const struct json_token *t, struct plim_ranks_row *row,
					struct plim_err *err)
{
	struct json_token key, value;
	enum plim_status st = t->kind == JSON_OBJECT ? json_next(json, &key, err) : PLIM_E_FORMAT;

	if (t->kind != JSON_OBJECT || (!st && (key.kind != JSON_KEY || !json_is(&key, "schema"))))
		return err_at(err, t->offset, "this is not a digest of recordings");
	if (!st)
		st = json_next(json, &value, err);
	if (!st && (value.kind != JSON_STRING || !json_is(&value, DIGEST_SCHEMA)))
		st = err_at(
			err, value.offset,
			"this is not a digest that this release of Plimsoll reads (" DIGEST_SCHEMA
			")");
	if (!st)
		st = fields_read_json(json, s->arena, s->row_table, row, err);
	if (!st && row->allocated_peak_bytes == PLIM_UNKNOWN)
		st = err_at(err, t->offset, "this row of a digest has no peak");
	return st;
}

static enum plim_status read_rows(struct recording_set *s, struct source *src, const char *path,
				  struct plim_err *err)
{
	struct json json;
	struct json_token t;
	enum plim_status st = json_init(&json, s->mem, src, JSON_MANY, err);

	while (!st) {
		struct plim_ranks_row row = { .path = NULL };

		st = json_next(&json, &t, err);
		if (st || t.kind == JSON_END)
			break;
		st = read_digest_row(s, &json, &t, &row, err);
		if (!st)
			st = digest_add_row(s, path, &row, err);
	}
	json_release(&json);
	return st;
}

enum plim_status set_add_digest(struct recording_set *s, const char *path, enum set_origin origin,
				struct plim_err *err)
{
	struct source_options how = { .thread = SOURCE_THREAD_NONE,
				      .kinds = origin == SET_FOUND ? SOURCE_REGULAR_HERE
								   : SOURCE_REGULAR };
	struct plim_err why;
	struct source *src;
	enum plim_status st = source_open(s->mem, path, &how, &src, &why);

	if (!st) {
		st = read_rows(s, src, path, &why);
		source_close(src);
	}
	if (!st)
		return st;
	*err = why;
	return st == PLIM_E_NOMEM || st == PLIM_E_LIMIT ? st : set_end_damaged(s, path, err);
}

/* ---- writing ---- */

static enum plim_status to_file(void *ctx, const char *at, size_t n, struct plim_err *err)
{
	return durable_write(ctx, at, n, err);
}

static enum plim_status put_digest_row(const struct recording_set *s, struct durable *file,
				       struct plim_ranks_row row, struct plim_err *err)
{
	struct json_sink sink = { to_file, file };
	struct json_out j;
	struct text text;
	enum plim_status st;

	/* the order of names is another one elsewhere */
	if (row.rank_from && !strcmp(row.rank_from, RECORDING_RANK_ORDER)) {
		row.rank = PLIM_UNKNOWN;
		row.rank_from = NULL;
	}
	text_init(&text, s->mem, NULL);
	json_out_init(&j, &text, JSON_COMPACT, &sink);
	json_object(&j, NULL, JSON_LINE);
	json_string(&j, "schema", DIGEST_SCHEMA);
	json_string(&j, "version", plim_version());
	fields_emit_members(&j, s->row_table, &row);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	text_release(&text);
	return st;
}

enum plim_status recording_set_digest(const struct recording_set *s, const char *path,
				      struct plim_err *err)
{
	const struct plim_ranks *k = s->out;
	struct durable *file = NULL;
	enum plim_status st;

	if (k->failed)
		return err_set(err, PLIM_E_FORMAT,
			       "%llu of %zu recordings could not be read: a digest of the others "
			       "would hide that",
			       (unsigned long long)k->failed, k->row_count);
	st = durable_begin(s->mem, path, 0, &file, err);
	for (size_t i = 0; !st && i < k->row_count; i++)
		st = put_digest_row(s, file, k->rows[i], err);
	return durable_end(file, st, err);
}
