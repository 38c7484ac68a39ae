#include "verbs/out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct out {
	plim_write_fn *write;
	void *ctx;
};

static enum plim_status pass_on(void *ctx, const char *text, size_t n, struct plim_err *err)
{
	struct out *o = ctx;
	int number = o->write(o->ctx, text, n);

	return number ? err_errno(err, number, "cannot write the output") : PLIM_OK;
}

enum plim_status out_json(struct mem *m, const struct field_table *table, const void *what,
			  plim_write_fn *write, void *ctx, struct plim_err *err)
{
	struct out o = { write, ctx };
	struct json_sink sink = { pass_on, &o };
	struct json_out j;
	struct text text;
	enum plim_status st;

	text_init(&text, m, NULL);
	json_out_init(&j, &text, JSON_PRETTY, &sink);
	json_object(&j, NULL, JSON_LINES);
	json_string(&j, "schema", table->schema);
	json_string(&j, "version", plim_version());
	fields_emit_members(&j, table, what);
	json_object_end(&j);
	st = json_out_finish(&j, err);
	text_release(&text);
	return st;
}

void out_head(struct text *t, const char *words)
{
	text_puts(t, "\n");
	text_hue(t, TEXT_HEAD);
	text_puts(t, words);
	text_plain(t);
}

void out_title(struct text *t, const char *title)
{
	out_head(t, title);
	text_puts(t, "\n");
}

void out_list(struct text *t, const char *title, const char *const *lines, size_t n)
{
	if (n)
		out_title(t, title);
	for (size_t i = 0; i < n; i++) {
		text_puts(t, "  - ");
		text_wrap_name(t, 4, 4, lines[i]);
	}
}

enum plim_status out_text(struct text *t, plim_write_fn *write, void *ctx, struct plim_err *err)
{
	enum plim_status st = text_status(t, err);
	int number = st ? 0 : write(ctx, text_get(t), t->n);

	text_release(t);
	return number ? err_errno(err, number, "cannot write the output") : st;
}

/* A file that appears whole or not at all. */
struct file_out {
	int fd;
	const char *path;
};

static enum plim_status file_write(void *ctx, const void *bytes, size_t n, struct plim_err *err)
{
	struct file_out *f = ctx;
	const char *at = bytes;

	while (n) {
		ssize_t wrote = write(f->fd, at, n);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return err_errno(err, errno, "cannot write '%s'", f->path);
		at += wrote;
		n -= (size_t)wrote;
	}
	return PLIM_OK;
}

enum plim_status out_snapshot(const struct snapshot *t, const char *path, struct plim_err *err)
{
	char part[4096];
	struct file_out f = { .path = path };
	enum plim_status st;

	if ((size_t)snprintf(part, sizeof(part), "%s.part-%d", path, (int)getpid()) >= sizeof(part))
		return err_set(err, PLIM_E_ARG, "the path is too long");
	f.fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (f.fd < 0)
		return err_errno(err, errno, "cannot write '%s'", path);
	st = snapshot_write(t, (struct pickle_sink){ &f, file_write }, err);
	if (close(f.fd) && !st)
		st = err_errno(err, errno, "cannot write '%s'", path);
	if (!st && rename(part, path))
		st = err_errno(err, errno, "cannot write '%s'", path);
	if (st)
		unlink(part);
	return st;
}

enum plim_status out_take_snapshot(void *self, const struct snapshot *t, struct plim_err *err)
{
	return out_snapshot(t, self, err);
}
