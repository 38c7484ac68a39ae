/*
 * What trainers print: "step 100 loss 2.31", "{'loss': 0.5, 'epoch': 1.0}", nanoGPT, Megatron, Keras,
 * progress bars.
 *
 * A line is first matched against patterns (built in, and of --patterns FILE); then numbers are
 * taken with the words before them.  A line counts if it holds a loss, a metric or another known series.
 *
 * A pattern is text in which {name} stands for a number, {*} for anything, and a space for any white
 * space; it may match anywhere in a line.  {step} and {epoch} are what they say, other names are series.
 */
#include "parts.h"

#include <ctype.h>

#define TOKENS 64
#define WORDS_BEFORE 3
#define NAME_BYTES 80
#define LINE_LONGEST 8192 /* what stands behind is not looked at */

enum token_kind { TOKEN_TEXT, TOKEN_SPACE, TOKEN_NUMBER, TOKEN_ANY };

struct token {
	enum token_kind kind;
	const char *at; /* TEXT: letters; NUMBER: name */
	size_t n;
};

struct pattern {
	struct token at[TOKENS];
	size_t n;
};

struct series_patterns {
	struct mem *mem;
	struct intern texts;
	VEC(struct pattern) rows;
};

static const char *const built_in[] = {
	"step {step}: train loss {train loss}, val loss {val loss}", /* nanoGPT, evaluation */
	"Epoch: [{epoch}][{step}/{*}]{*}Loss {loss}",            /* PyTorch's ImageNet example */
	"Epoch: [{epoch}] [{step}/{*}]{*}loss: {loss}",          /* torchvision, timm, MAE */
	"Train Epoch: {epoch} [{step}/{*} ({*}]{*}Loss: {loss}", /* PyTorch's MNIST example */
	"Iter(train) [{step}/{*}]{*}loss: {loss}",               /* MMEngine */
	"Epoch(val) [{epoch}][{*}]{*}loss: {val loss}",          /* MMEngine */
	"epoch {epoch}{*}train loss {train loss}{*}valid loss {val loss}",
	"| {step}/{*} batches |{*}| loss {loss} |", /* PyTorch's word language model */
};

/* ---- patterns ---- */

static bool compile(const char *text, struct pattern *p)
{
	p->n = 0;
	while (*text && p->n < TOKENS) {
		struct token *t = &p->at[p->n++];
		size_t n = strcspn(text, " {");

		if (*text == ' ') {
			*t = (struct token){ TOKEN_SPACE, NULL, 0 };
			text += strspn(text, " ");
		} else if (*text == '{') {
			const char *end = strchr(text, '}');

			if (!end || end == text + 1 || end - text > NAME_BYTES)
				return false;
			*t = (struct token){ text[1] == '*' ? TOKEN_ANY : TOKEN_NUMBER, text + 1,
					     (size_t)(end - text - 1) };
			text = end + 1;
		} else {
			*t = (struct token){ TOKEN_TEXT, text, n };
			text += n;
		}
	}
	return !*text && p->n;
}

struct match {
	const struct token *number[TOKENS];
	double value[TOKENS];
	size_t n;
};

static bool match_from(const struct pattern *p, size_t i, const char *at, const char *end,
		       struct match *m)
{
	for (; i < p->n; i++) {
		const struct token *t = &p->at[i];
		size_t n = 0;

		switch (t->kind) {
		case TOKEN_SPACE:
			while (at < end && isspace((unsigned char)*at))
				at++;
			continue;
		case TOKEN_TEXT:
			if ((size_t)(end - at) < t->n || strncasecmp(at, t->at, t->n) != 0)
				return false;
			at += t->n;
			continue;
		case TOKEN_NUMBER:
			while (at < end && (*at == ' ' || *at == '\'' || *at == '"'))
				at++;
			n = series_number(at, (size_t)(end - at), &m->value[m->n]);
			if (!n)
				return false;
			m->number[m->n++] = t;
			at += n;
			continue;
		case TOKEN_ANY: break;
		}
		/* The next token is text in every pattern that ends in reasonable time. */
		for (size_t kept = m->n; at <= end; at++, m->n = kept)
			if (match_from(p, i + 1, at, end, m))
				return true;
		return false;
	}
	return true;
}

static bool matches(const struct pattern *p, const char *line, size_t n, struct match *m)
{
	const struct token *first = &p->at[0];
	bool any = first->kind != TOKEN_TEXT;
	char small = any ? 0 : (char)tolower((unsigned char)first->at[0]);
	char large = any ? 0 : (char)toupper((unsigned char)first->at[0]);

	for (size_t i = 0; i < n; i++) {
		if (!any && line[i] != small && line[i] != large)
			continue;
		m->n = 0;
		if (match_from(p, 0, line + i, line + n, m))
			return true;
	}
	return false;
}

static enum plim_status add_pattern(struct series_patterns *p, const char *text, size_t n,
				    struct plim_err *err)
{
	struct pattern one;
	uint32_t id, any = 0;
	enum plim_status st = intern_add(&p->texts, text, n, &id, err);

	if (st)
		return st;
	if (!compile(intern_text(&p->texts, id), &one))
		return err_set(err, PLIM_E_FORMAT,
			       "'%.*s' is no pattern: {name} stands for a number, "
			       "{*} for anything",
			       (int)(n < 200 ? n : 200), text);
	for (size_t i = 0; i < one.n; i++)
		any += one.at[i].kind == TOKEN_ANY;
	if (any > 4)
		return err_set(err, PLIM_E_FORMAT, "'%.*s' has more than four {*}",
			       (int)(n < 200 ? n : 200), text);
	return vec_push(p->mem, &p->rows, one, err);
}

static enum plim_status read_patterns(struct series_patterns *p, const char *path,
				      struct plim_err *err)
{
	struct source *s;
	const char *line;
	const uint8_t *at;
	size_t n;
	enum plim_status st = source_open(p->mem, path, NULL, &s, err);

	if (st)
		return st;
	at = s->p;
	while (!st && series_line(s, &at, &line, &n, true, &st, err))
		if (n && line[0] != '#')
			st = add_pattern(p, line, n, err);
	source_close(s);
	if (st == PLIM_E_FORMAT)
		err_prefix(err, "--patterns: ");
	return st;
}

enum plim_status series_patterns_new(struct mem *m, const char *path, struct series_patterns **out,
				     struct plim_err *err)
{
	struct series_patterns *p = mem_new(m, 1, sizeof(*p), err);
	enum plim_status st = PLIM_OK;

	*out = NULL;
	if (!p)
		return mem_status(err);
	p->mem = m;
	intern_init(&p->texts, m);
	if (path)
		st = read_patterns(p, path, err);
	for (size_t i = 0; !st && i < sizeof(built_in) / sizeof(*built_in); i++)
		st = add_pattern(p, built_in[i], strlen(built_in[i]), err);
	if (st)
		series_patterns_free(p);
	else
		*out = p;
	return st;
}

void series_patterns_free(struct series_patterns *p)
{
	struct mem *m = p ? p->mem : NULL;

	if (!p)
		return;
	vec_release(m, &p->rows);
	intern_release(&p->texts);
	mem_free(m, p, 1, sizeof(*p));
}

/* ---- numbers with the words before them ---- */

/* What the words before a number tell; a log has the same ones in each line. */
struct told {
	size_t skip, n; /* of the words: which of them are the name */
	bool kept, known;
};

#define TOLD_MOST 4096 /* different words that are remembered */

struct line_reading {
	struct series_run *run;
	struct intern words; /* id: index into told */
	VEC(struct told) told;
	struct plim_err *err;
	enum plim_status status;
	double epoch; /* of a line "Epoch 3/10", for the lines that follow */
	unsigned known;
};

static bool is_word(int c)
{
	return isalnum(c) || c == '_' || c == '/' || c == '.' || c == '@' || c == '-';
}

/*
 * The words before a number, back from `at`, with ':', '=', '(' and quotes between: "lm loss: ", "'loss': ".
 * At most three, all on one side of a comma or bar.
 */
static size_t words_before(const char *line, const char *at, char *name)
{
	const char *end, *p = at;
	size_t n = 0;
	double number;

	while (p > line && strchr(" \t:='\"", p[-1]))
		p--;
	if (p < line + 1 || p == at)
		return 0;
	end = p;
	for (int words = 0; words < WORDS_BEFORE; words++) {
		const char *word = p;

		while (word > line && is_word((unsigned char)word[-1]))
			word--;
		if (word == p || isdigit((unsigned char)*word) ||
		    series_number(word, (size_t)(p - word), &number) == (size_t)(p - word) ||
		    (words && (isupper((unsigned char)word[0]) && isupper((unsigned char)word[1]))))
			break;
		p = word;
		if (p == line || p[-1] != ' ' || (p > line + 1 && p[-2] == ' '))
			break;
		if (p > line + 1 && !is_word((unsigned char)p[-2]))
			break;
		p--;
	}
	while (p < end && (*p == ' ' || *p == '-' || *p == '.'))
		p++;
	n = (size_t)(end - p);
	if (n >= NAME_BYTES)
		return 0;
	memcpy(name, p, n);
	return n;
}

/* "lm loss", but "step" of "training at step": the shortest end of the words that is known, then one more if it says more. */
static const char *telling(const char *name, size_t *n)
{
	const char *last = name + *n;
	struct series_name all, one;

	while (last > name && last[-1] != ' ')
		last--;
	if (series_is_step(name, *n) || series_is_epoch(name, *n))
		return name;
	if (series_is_step(last, *n - (size_t)(last - name)) ||
	    series_is_epoch(last, *n - (size_t)(last - name))) {
		*n -= (size_t)(last - name);
		return last;
	}
	all = series_name_of(name, *n);
	one = series_name_of(last, *n - (size_t)(last - name));
	if (one.role && one.role == all.role && last > name) {
		/* "lm loss" is one name, "for batch loss" is not worth more than "loss". */
		const char *before = last - 1;

		while (before > name && before[-1] != ' ')
			before--;
		*n -= (size_t)(before - name);
		return before;
	}
	return name;
}

static struct told tell(const char *words, size_t n)
{
	size_t named = n;
	const char *name = telling(words, &named);
	enum plim_role role = series_name_of(name, named).role;

	return (struct told){ .skip = (size_t)(name - words),
			      .n = named,
			      .kept = role != PLIM_ROLE_OTHER || series_is_step(name, named) ||
				      series_is_epoch(name, named),
			      .known = role != PLIM_ROLE_OTHER && role != PLIM_ROLE_MEMORY &&
				       role != PLIM_ROLE_LEARNING_RATE };
}

/* The same from what was told before. */
static struct told told_of(struct line_reading *g, const char *words, size_t n)
{
	uint32_t id = intern_find(&g->words, words, n);
	struct told t;

	if (id != INTERN_NONE)
		return g->told.at[id];
	t = tell(words, n);
	if (g->told.n < TOLD_MOST)
		g->status = vec_push(g->run->mem, &g->told, t, g->err);
	if (!g->status && g->told.n > g->words.n)
		g->status = intern_add(&g->words, words, n, &id, g->err);
	return t;
}

static void put(struct line_reading *g, const char *words, size_t n, double value)
{
	struct told t;

	if (g->status)
		return;
	t = told_of(g, words, n);
	g->known += t.known;
	if (!g->status && t.kept)
		g->status = series_row_put(g->run, words + t.skip, t.n, value, g->err);
}

/* "100/1000 [00:10<..." of a progress bar. */
static bool is_bar(const char *at, const char *end)
{
	const char *p = at;

	if (p >= end || *p != '/')
		return false;
	for (p++; p < end && isdigit((unsigned char)*p);)
		p++;
	return end - p > 2 && p[0] == ' ' && p[1] == '[' &&
	       (p[2] == '0' || p[2] == '=' || p[2] == '>');
}

static void take_numbers(struct line_reading *g, const char *line, size_t n)
{
	const char *end = line + n, *p = line;
	char name[NAME_BYTES];

	while (p < end) {
		double value;
		size_t took, named;
		const char *says;
		bool starts = p == line || !is_word((unsigned char)p[-1]) || p[-1] == '-';

		if (!starts || (!isdigit((unsigned char)*p) && !strchr("+-.nNiI", *p)) ||
		    !(took = series_number(p, (size_t)(end - p), &value))) {
			p++;
			continue;
		}
		says = p;
		p += took;
		if (is_bar(p, end) && value > 0)
			put(g, "step", 4, value);
		/* "30ms", "3s", "nanosecond": no number that stands for itself. */
		if (p < end && (isalpha((unsigned char)*p) || *p == '_'))
			continue;
		named = words_before(line, says, name);
		if (named)
			put(g, name, named, value);
	}
}

/* ---- lines ---- */

static bool by_pattern(struct line_reading *g, const char *line, size_t n)
{
	const struct series_patterns *patterns = g->run->options->patterns;
	struct match m;

	for (size_t i = 0; patterns && i < patterns->rows.n; i++) {
		if (!matches(&patterns->rows.at[i], line, n, &m))
			continue;
		for (size_t j = 0; j < m.n; j++)
			if (!g->status)
				g->status = series_row_put(g->run, m.number[j]->at, m.number[j]->n,
							   m.value[j], g->err);
		g->known = 1;
		return true;
	}
	return false;
}

/* Keras draws its bar again and again: only the whole one is the epoch's. */
static bool is_part_of_bar(const char *line, size_t n)
{
	double a, b;
	size_t k = 0, took;

	while (k < n && (line[k] == ' ' || line[k] == '\b'))
		k++;
	took = series_number(line + k, n - k, &a);
	if (!took || k + took >= n || line[k + took] != '/')
		return false;
	k += took + 1;
	took = series_number(line + k, n - k, &b);
	return took && a < b && k + took + 1 < n && line[k + took] == ' ' &&
	       (line[k + took + 1] == '[' || !strncmp(line + k + took + 1, "\xe2\x94", 2));
}

static bool may_hold_numbers(const char *line, size_t n)
{
	bool digit = false, sign = false;

	for (size_t i = 0; i < n; i++) {
		digit |= isdigit((unsigned char)line[i]) != 0;
		sign |= line[i] == ':' || line[i] == '=' || line[i] == ' ' || line[i] == '|';
	}
	return digit && sign;
}

static void take_line(struct line_reading *g, const char *line, size_t n)
{
	bool only_epoch;

	n = n < LINE_LONGEST ? n : LINE_LONGEST;
	if (!may_hold_numbers(line, n) || is_part_of_bar(line, n))
		return;
	series_row_begin(g->run);
	g->run->row.n = 0;
	g->known = 0;
	if (!by_pattern(g, line, n))
		take_numbers(g, line, n);
	only_epoch = !g->run->row.n && !isnan(g->run->row_epoch) && isnan(g->run->row_step);
	if (only_epoch)
		g->epoch = g->run->row_epoch;
	if (g->status || !g->known || !g->run->row.n) {
		g->run->row.n = 0;
		return;
	}
	if (isnan(g->run->row_epoch))
		g->run->row_epoch = g->epoch;
	g->status = series_row_end(g->run, g->err);
	g->run->files.at[0].rows++;
}

enum plim_status series_read_text(struct series_input *in, struct plim_err *err)
{
	struct line_reading g = { .run = in->run, .err = err, .epoch = in->file->clock };
	struct source *s = in->source;
	const uint8_t *p = s->p;
	const char *line;
	size_t n;
	enum plim_status st = PLIM_OK;

	intern_init(&g.words, in->run->mem);
	while (!g.status && series_line(s, &p, &line, &n, false, &st, err)) {
		/* A progress bar is drawn again and again on one line. */
		while (n) {
			const char *back = memchr(line, '\r', n);
			size_t k = back ? (size_t)(back - line) : n;

			take_line(&g, line, k);
			line += k + (back != NULL);
			n -= k + (back != NULL);
		}
		in->file->offset = source_offset(s, p);
	}
	in->file->clock = g.epoch;
	intern_release(&g.words);
	vec_release(in->run->mem, &g.told);
	return g.status ? g.status : st;
}
