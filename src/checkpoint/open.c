/* Opening: files by their bytes, never by their name; folders without following links. */
#include "opcodes.h"
#include "parts.h"

#include <errno.h>

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES 4096

/*
 * Hugging Face's cache keeps its files as ../../blobs/HEX, with a link of each name to them: the only links
 * inside a folder that are followed, as they lead nowhere else.
 */
static bool is_cache_link(int dir, const char *name, char *target, size_t size)
{
	static const char up[] = "../", blobs[] = "blobs/";
	ssize_t n = readlinkat(dir, name, target, size - 1);
	const char *p = target;
	size_t digits;

	if (n <= 0 || (size_t)n == size - 1)
		return false;
	target[n] = 0;
	while (!strncmp(p, up, sizeof(up) - 1))
		p += sizeof(up) - 1;
	if (p - target < 2 * (ptrdiff_t)(sizeof(up) - 1) || strncmp(p, blobs, sizeof(blobs) - 1))
		return false;
	p += sizeof(blobs) - 1;
	digits = strspn(p, "0123456789abcdef");
	return (digits == 40 || digits == 64) && !p[digits];
}

static int open_patiently(int dir, const char *name, int flags)
{
	int fd;

	do
		fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
	while (fd < 0 && errno == EINTR);
	return fd;
}

static enum plim_status open_at(int dir, const char *name, int flags, int *fd, struct stat *info,
				struct plim_err *err)
{
	char target[128];

	*fd = open_patiently(dir, name, flags);
	if (*fd < 0 && errno == ELOOP && flags & O_NOFOLLOW) {
		if (!is_cache_link(dir, name, target, sizeof(target)))
			return err_set(err, PLIM_E_IO,
				       "'%s' is a link: not followed inside a folder (cp -L makes "
				       "files of links)",
				       name);
		*fd = open_patiently(dir, target, flags);
	}
	if (*fd < 0)
		return err_errno(err, errno, "cannot open '%s'", name);
	if (!fstat(*fd, info))
		return PLIM_OK;
	close(*fd);
	return err_errno(err, errno, "cannot read '%s'", name);
}

static enum plim_status keep_file(struct ckpt *c, int fd, const struct stat *info, const char *name,
				  uint32_t *file, struct plim_err *err)
{
	struct ckpt_file f = { .fd = fd,
			       .bytes = (uint64_t)info->st_size,
			       .written_ns = ckpt_written_ns(info) };
	enum plim_status st = PLIM_OK;
	uint32_t id;

	if (!S_ISREG(info->st_mode))
		st = err_set(err, PLIM_E_IO, "cannot read '%s': a checkpoint is a file or a folder",
			     name);
	id = ckpt_model_path(c, name, &st, err);
	if (!st) {
		f.name = ckpt_text(c, id);
		*file = (uint32_t)c->files.n;
		st = vec_push(c->mem, &c->files, f, err);
	}
	if (st)
		close(fd);
	else
		c->bytes += f.bytes;
	return st;
}

enum plim_status open_file(struct ckpt *c, int dir, const char *name, uint32_t *file,
			   struct plim_err *err)
{
	struct stat info = { 0 };
	int fd;
	enum plim_status st = open_at(dir, name, dir == AT_FDCWD ? 0 : O_NOFOLLOW, &fd, &info, err);

	return st ? st : keep_file(c, fd, &info, name, file, err);
}

/* Another file, which is not a checkpoint; NULL: it may be one. */
static const struct file_kind *open_else(const uint8_t *head, size_t n)
{
	const struct file_kind *kind = file_kind_of(head, n);

	return kind && kind->command && !strncmp(kind->command, "ckpt", 4) ? NULL : kind;
}

/* Its bytes leave no doubt: text, and what another command reads, may begin as a pickle of protocol 0 does. */
static bool open_is_else(const uint8_t *head, size_t n)
{
	const struct file_kind *kind = file_kind_of_bytes(head, n);

	return kind && !kind->command;
}

/* "oid sha256:..." and "size N" of a pointer, for the message. */
static void lfs_facts(const uint8_t *head, size_t n, char *text, size_t size)
{
	size_t out = 0;

	for (size_t i = 0; i < n && out + 1 < size && head[i]; i++) {
		const char *line = (const char *)head + i;
		const uint8_t *end = memchr(line, '\n', n - i);
		size_t length = end ? (size_t)(end - head) - i : n - i;

		if (length < 120 && ((length >= 4 && !memcmp(line, "oid ", 4)) ||
				     (length >= 5 && !memcmp(line, "size ", 5))))
			out += (size_t)snprintf(text + out, size - out, ", %.*s", (int)length,
						line);
		i += length;
	}
}

/* A server's answer: {"error": "..."}, "Entry not found".  The length of its first line, 0 when it is not a text. */
static size_t ckpt_text_line(const uint8_t *head, size_t n)
{
	size_t line = 0;

	if (n < 4 || !file_is_text(head, n))
		return 0;
	while (line < n && line < 60 && head[line] != '\n' && head[line] != '\r')
		line++;
	while (line && line < n && (head[line] & 0xc0) == 0x80) /* no part of a letter */
		line--;
	return line;
}

#define ARRAY_BYTES ((uint64_t)64 << 20)

/* An array of objects is a pickle behind a header. */
static enum plim_status judge_array(struct ckpt *c, uint32_t file, struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[file];
	uint64_t n = f->bytes < ARRAY_BYTES ? f->bytes : ARRAY_BYTES;
	uint8_t *p;
	enum plim_status st = ckpt_model_read(c, file, 0, n, n, "the array", &p, err);

	if (!st)
		st = globals_inside(c, "the array", p, (size_t)n, err);
	c->many_globals |= !st && n < f->bytes && globals_is_objects(p, (size_t)n);
	mem_free(c->mem, p, (size_t)n, 1);
	return st;
}

/* Why it is not a checkpoint. */
static enum plim_status open_refuse(struct ckpt *c, uint32_t file, const uint8_t *head, size_t n,
				    struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[file];
	const struct file_kind *kind = open_else(head, n);
	/* A page or a pointer is bad whatever its name; what cannot be reported may be right as it is. */
	bool is_bad = !f->may_be_else || (kind && (!kind->text || !kind->command));
	enum ckpt_severity severity = is_bad ? CKPT_BAD_FINDING : CKPT_WARN;
	char facts[400] = "";
	size_t line = ckpt_text_line(head, n);
	enum plim_status st = PLIM_OK;

	c->unreadable |= !c->kind; /* of a folder, the others can be read */
	if (kind && !strcmp(kind->slug, "numpy"))
		st = judge_array(c, file, err);
	if (st)
		return st;
	if (!kind && line)
		return ckpt_model_find(
			c, severity, "text", 0, err,
			"'%s' is a text file, not a checkpoint (a saved error page?): \"%.*s\"",
			f->name, (int)line, (const char *)head);
	if (!kind)
		return ckpt_model_find(
			c, severity, "unrecognised", 0, err,
			"'%s' is not a checkpoint that is known here: it begins with %02x "
			"%02x %02x %02x",
			f->name, n > 0 ? head[0] : 0, n > 1 ? head[1] : 0, n > 2 ? head[2] : 0,
			n > 3 ? head[3] : 0);
	if (kind->command)
		return ckpt_model_find(c, severity, kind->slug, PLIM_UNKNOWN, err,
				       "'%s' is %s, not a checkpoint: 'plimsoll %s' reads it",
				       f->name, kind->is, kind->command);
	if (!strcmp(kind->slug, "lfs_pointer"))
		lfs_facts(head, n, facts, sizeof(facts));
	return ckpt_model_find(c, severity, kind->slug, PLIM_UNKNOWN, err, "'%s' is %s%s%s%s%s",
			       f->name, kind->is, kind->lost ? "" : ", not a checkpoint",
			       kind->remedy ? ": " : "", kind->remedy ? kind->remedy : "", facts);
}

/* A zip with something in front: torch looks at the first bytes only, and refuses it. */
static uint64_t zip_behind(const uint8_t *head, size_t n)
{
	const uint8_t *at = memmem(head, n, "PK\3\4", 4);

	return at && at != head ? (uint64_t)(at - head) : 0;
}

/* `strict`: its length fits the file too.  A header of 640 bytes begins as pickles do: 80 02. */
static bool is_safetensors(const uint8_t *head, size_t n, uint64_t bytes, bool strict)
{
	uint64_t header = 0;
	size_t i = 8;

	if (n < 8)
		return false;
	memcpy(&header, head, 8);
	while (i < n && strchr(" \t\r\n", head[i]) && head[i])
		i++;
	if (strict)
		return i < n && head[i] == '{' && header <= CKPT_HEADER_BYTES &&
		       header <= bytes - 8;
	/* A wrong length before a right beginning is a damaged one. */
	return i < n && head[i] == '{' && (header <= CKPT_HEADER_BYTES || n > 9) && bytes >= 8;
}

bool open_may_unpickle(const uint8_t *head, size_t n)
{
	return (n >= 4 && !memcmp(head, "PK\3\4", 4)) || zip_behind(head, n) ||
	       tarred_is(head, n) || (n >= 2 && head[0] == 0x80 && head[1] <= 5) ||
	       opcodes_is_pickle(head, n) || (n >= 6 && !memcmp(head, "\223NUMPY", 6)) ||
	       compressed_is(head, n);
}

enum plim_status open_any(struct ckpt *c, uint32_t file, const char *prefix, struct plim_err *err)
{
	const struct ckpt_file *f = &c->files.at[file];
	uint8_t head[HEAD_BYTES];
	uint64_t before;
	size_t n;
	enum plim_status st = ckpt_pread(c, file, 0, head, sizeof(head), &n, err);

	if (st)
		return st;
	if (is_safetensors(head, n, f->bytes, true))
		return safetensors_read(c, file, prefix, err);
	if (n >= 4 && !memcmp(head, "PK\3\4", 4))
		return torch_read_zip(c, file, 0, f->bytes, prefix, err);
	if (tarred_is(head, n)) /* as torch.load: before a pickle */
		return tarred_read(c, file, prefix, err);
	if (n >= 2 && head[0] == 0x80 && head[1] <= 5)
		return legacy_read(c, file, prefix, err);
	if (is_safetensors(head, n, f->bytes, false))
		return safetensors_read(c, file, prefix, err);
	if (n >= 4 && !memcmp(head, "GGUF", 4))
		return gguf_read(c, file, prefix, err);
	if (!open_is_else(head, n) && opcodes_is_pickle(head, n)) /* of protocol 0 or 1 */
		return legacy_read(c, file, prefix, err);
	if (compressed_is(head, n)) {
		bool known;

		st = compressed_read(c, file, &known, err);
		if (st || known)
			return st;
	}
	before = zip_behind(head, n);
	if (before && !open_is_else(head, n)) { /* a tar has zips inside */
		st = ckpt_model_find(
			c, CKPT_BAD_FINDING, "prefix", 0, err,
			"%llu bytes stand before the zip: torch.load refuses it, other "
			"tools do not",
			(unsigned long long)before);
		return st ? st : torch_read_zip(c, file, before, f->bytes - before, prefix, err);
	}
	return open_refuse(c, file, head, n, err);
}

/* The first device that a machine may lack. */
static enum plim_status note_device(struct ckpt *c, struct plim_err *err)
{
	for (size_t i = 0; i < c->tensors.n; i++) {
		const char *device = ckpt_text(c, c->tensors.at[i].location);

		if (*device && strcmp(device, "cpu") != 0 && strcmp(device, "meta") != 0)
			return ckpt_model_find(c, CKPT_NOTE, "device", PLIM_UNKNOWN, err,
					       "saved from %.60s: without that device, load with "
					       "map_location='cpu'",
					       device);
	}
	return PLIM_OK;
}

/* It may be whole as a file and yet less than was saved. */
static enum plim_status note_repaired(struct ckpt *c, struct plim_err *err)
{
	const char *what = ckpt_model_fact_of(c, CKPT_FACT_REPAIRED);

	return !*what ? PLIM_OK
		      : ckpt_model_find(c, CKPT_NOTE, "repaired", PLIM_UNKNOWN, err,
					"'plimsoll ckpt repair' wrote it: %.400s", what);
}

enum plim_status ckpt_read(struct ckpt *c, const char *path, struct plim_err *err)
{
	struct plim_err local;
	struct stat info = { 0 };
	uint32_t file;
	int fd;
	enum plim_status st;

	err = err ? err : &local;
	c->path = path;
	st = open_at(AT_FDCWD, path, 0, &fd, &info, err);
	if (st)
		return st;
	if (S_ISDIR(info.st_mode)) {
		st = folder_read(c, fd, err);
		if (!st)
			st = manifest_read(c, fd, err);
		if (!st)
			st = unchecked_look(c, fd, err);
		close(fd);
	} else {
		st = keep_file(c, fd, &info, path, &file, err);
		if (!st)
			st = open_any(c, file, "", err);
		if (!st)
			st = manifest_read(c, AT_FDCWD, err);
	}
	if (!st)
		st = globals_judge(c, err);
	if (!st)
		st = note_device(c, err);
	if (!st)
		st = note_repaired(c, err);
	if (!st)
		CHECKED(ckpt_check(c));
	return st;
}
