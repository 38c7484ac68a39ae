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

/* Which bytes a text has: one bit for each below 64, digits among them, and one for two or more of the others, "a" and "A". */
struct byte_set {
	uint64_t low, high;
	bool ascii;
};

static struct byte_set text_line_bytes_of(const char *text, size_t n)
{
	uint64_t low = 0, high = 0;
	unsigned char all = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		uint64_t above = c > 63;

		low |= (1 - above) << (c & 63);
		high |= above << (c & 31);
		all |= c;
	}
	return (struct byte_set){ low, high, all < 128 };
}

#define LOW(c) (1ull << (c))
#define HIGH(c) (1ull << ((c)&31))
#define DIGITS (0x3ffull << '0')

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
	"| epoch {epoch} | {step}/{*} batches |{*}| loss {loss} |", /* PyTorch's word language model */
	"s:{step} trl:{train loss} lr:{lr} norm:{grad norm}",       /* llm.c */
	"s:{step} tel:{val loss}",
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
			       "'%.*s' is not a pattern: {name} stands for a number, "
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

/* A side, and the word that says it. */
struct text_side {
	enum series_side side;
	char word[16];
};

/* What the text between two numbers says of the second; a log has the same texts in each line. */
struct told {
	char name[NAME_BYTES]; /* of the number; kept: it is worth keeping */
	char loose
		[NAME_BYTES]; /* a loss or metric that is named before: "loss at epoch 3 is 2.9" */
	size_t n;
	struct text_side about; /* what follows is about */
	uint32_t series;        /* that its values go to; SERIES_NONE: none yet */
	bool kept, known, link, metric, step;
	bool bare;              /* "train=2.5": a side, and nothing that says of what */
	bool column;            /* nothing but wide space is between the name and the number */
	bool average;           /* "(0.66)" behind a value: the mean so far */
	uint64_t lines;         /* that have it */
	uint64_t fractions;     /* its numbers that are not whole */
	const char *line;       /* one that has it */
	bool sided, evaluation; /* the name shows it itself */
};

#define LINE_SHOWN 100  /* bytes of a line that a note shows */
#define SAMPLE_VALUES 4 /* values of it */
#define TOLD_MOST 4096  /* different texts that are remembered */
#define COLUMNS 64
#define HELD 16

struct span {
	const char *at;
	size_t n;
};

/* The head line of a table; names parted by single spaces, and by wider gaps. */
struct columns {
	char line[1024];
	struct span narrow[COLUMNS], wide[COLUMNS];
	size_t narrow_n, wide_n;
};

struct line_reading {
	struct series_run *run;
	struct intern words; /* id: index into told */
	VEC(struct told) told;
	struct plim_err *err;
	enum plim_status status;
	double epoch; /* of a line "Epoch 3/10", for the lines that follow */
	unsigned known;
	/* of a line */
	struct text_side about;    /* as the log said last */
	char loose[NAME_BYTES];    /* a name that waits for its number */
	bool bar;                  /* the line is one of a progress bar */
	bool new_words;            /* no line before had a text of this one */
	bool put;                  /* the number before is a value of the row */
	bool inside, plain_values; /* "[3/10]" of an evaluation; values of training */
	/* of several lines */
	struct text_side heading; /* "Test Error:" is about the line that follows */
	struct text_side lasting; /* "Eval epoch: 3" is about those that follow without a step */
	struct text_side below;   /* "=== Validation Loss ===" is about all that follow */
	struct columns table;
	uint64_t line_at, row_at; /* offsets of a line, and of the first line of its row */
	size_t counter;           /* bytes of "[007", once it has been seen */
	char section[NAME_BYTES]; /* of a block */
	struct series_row_value held[HELD]; /* the last line of an evaluation that goes on */
	size_t held_n;
	double held_step;
	uint64_t clock_at, table_at; /* where the first step or epoch is; the head of the table */
	size_t early;                /* series that had values before it */
	double counted, first;     /* the first of two numbers of a line; that of the first line */
	double bar_length;         /* of the bar of an epoch; 0: none was seen */
	struct series_lists lists; /* "losses: 0.9, 0.8, 0.7" */
	struct span line;          /* a line as it stands, as far as a note shows it */
	struct span title;         /* the words of the line before; its bytes are in: */
	char title_text[NAME_BYTES];
	uint64_t title_at;
	bool traceback; /* of Python, that goes on */
	bool block;     /* within a table of "| name | number |" lines */
	bool clocked,
		fresh; /* there was a first step or epoch; a line of an epoch came before this one */
	bool in_table;            /* the line is a row of the table */
	char clean[LINE_LONGEST]; /* the line without escape sequences and NULs */
};

static bool text_line_is_word(int c)
{
	return isalnum(c) || c == '_' || c == '/' || c == '.' || c == '@' || c == '-';
}

/* Before a number: ':', '=', '(' and quotes, and "tensor(" of a value that was printed as it is. */
static const char *skip_marks(const char *line, const char *p)
{
	const char *word;

	while (p > line && strchr(" \t:='\"[", p[-1]))
		p--;
	if (p <= line + 1 || p[-1] != '(')
		return p;
	word = p - 1;
	while (word > line && text_line_is_word((unsigned char)word[-1]))
		word--;
	if (word == p - 1 || word == line || !strchr(" :='\"[", word[-1]))
		return p;
	while (word > line && strchr(" \t:='\"[", word[-1]))
		word--;
	return word;
}

/* ", NER loss: 3", not "12:00 INFO loss: 3". */
static bool begins_clause(const char *line, const char *word)
{
	return word > line + 1 && word[-1] == ' ' && strchr(",;", word[-2]);
}

/* "training's loss", "valid_0's auc": the apostrophe at `at` is within a word that ends at `end`. */
static bool is_possessive(const char *line, const char *at, const char *end)
{
	return at > line && *at == '\'' && end == at + 2 && at[1] == 's' &&
	       text_line_is_word((unsigned char)at[-1]);
}

/*
 * The words before a number, back from `at`, with ':', '=', '(' and quotes between: "lm loss: ", "'loss': ".
 * At most three, all on one side of a comma or bar.
 */
static size_t words_before(const char *line, const char *at, char *name)
{
	const char *end, *p = skip_marks(line, at);
	size_t n = 0;
	double number;

	if (p < line + 1 || p == at)
		return 0;
	end = p;
	for (int words = 0; words < WORDS_BEFORE; words++) {
		const char *word = p;

		while (word > line && (text_line_is_word((unsigned char)word[-1]) ||
				       is_possessive(line, word - 1, p)))
			word--;
		if (*word == '/' && word + 1 < p && isdigit((unsigned char)word[1]))
			break; /* "3/10" */
		if (word == p || isdigit((unsigned char)*word) ||
		    series_number(word, (size_t)(p - word), &number) == (size_t)(p - word) ||
		    (words && word > line && isupper((unsigned char)word[0]) &&
		     isupper((unsigned char)word[1]) && !begins_clause(line, word)))
			break;
		p = word;
		if (p == line || p[-1] != ' ' || (p > line + 1 && p[-2] == ' '))
			break;
		if (p > line + 1 && !text_line_is_word((unsigned char)p[-2]))
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

#define VALUED                                                                            \
	(1u << PLIM_ROLE_TRAIN_LOSS | 1u << PLIM_ROLE_VAL_LOSS | 1u << PLIM_ROLE_METRIC | \
	 1u << PLIM_ROLE_ERROR)

/* The last name of a loss or metric in a text; the words next to it say which. */
static void find_loose(const char *text, size_t n, char *loose)
{
	const char *end = text + n, *p = end;
	char name[NAME_BYTES];

	while (p > text) {
		const char *word;
		size_t named;

		while (p > text && !text_line_is_word((unsigned char)p[-1]))
			p--;
		word = p;
		while (word > text && text_line_is_word((unsigned char)word[-1]))
			word--;
		if (word < p && 1u << series_name_of(word, (size_t)(p - word)).role & VALUED) {
			named = p < end ? words_before(text, p + 1, name) : 0;
			if (named) {
				const char *says = telling(name, &named);

				(void)snprintf(loose, NAME_BYTES, "%.*s", (int)named, says);
				return;
			}
		}
		p = word;
	}
}

/* Whole words of a text that tell whether it is about training or evaluation: "test epoch:", "Epoch(val)". */
static void find_side(const char *text, size_t n, struct text_side *about)
{
	const char *end = text + n;

	for (const char *p = text; p < end;) {
		const char *word = p;
		enum series_side side;

		while (p < end && text_line_is_word((unsigned char)*p) && *p != '-')
			p++;
		if (p > word) {
			side = series_side_of(word, (size_t)(p - word));
			if (side) {
				about->side = side;
				(void)snprintf(about->word, sizeof(about->word), "%.*s",
					       (int)(p - word), word);
				for (char *c = about->word; *c; c++)
					*c = (char)tolower((unsigned char)*c);
			}
		} else {
			p++;
		}
	}
}

/* Does a text only join what is before it to the number behind it: " is ", ": "? */
static bool is_link(const char *text, size_t n)
{
	bool space = false, mark = false;

	for (size_t i = 0; i < n; i++) {
		space |= text[i] == ' ';
		mark |= text[i] == ':' || text[i] == '=';
		if (!strchr(" :=)]%", text[i]))
			return n - i >= 3 && space && !strncasecmp(text + i, "is ", 3);
	}
	return space && mark;
}

/* What the name itself shows. */
static void weigh(struct told *t)
{
	struct series_name says = series_name_of(t->name, t->n);

	t->step = series_is_step(t->name, t->n) || series_is_epoch(t->name, t->n);
	/* "val_score=0.7": a name that programs use, of evaluations. */
	t->kept = says.role != PLIM_ROLE_OTHER || t->step || says.objective ||
		  (says.unknown && says.player) ||
		  (says.unknown && says.side == SERIES_EVALUATION && !memchr(t->name, ' ', t->n) &&
		   (memchr(t->name, '_', t->n) || memchr(t->name, '/', t->n)));
	t->known = says.role != PLIM_ROLE_OTHER && says.role != PLIM_ROLE_MEMORY &&
		   says.role != PLIM_ROLE_LEARNING_RATE;
	t->metric = says.role == PLIM_ROLE_METRIC;
	t->sided = (!(1u << says.role & VALUED) && !says.objective &&
		    !(says.unknown && says.player)) ||
		   says.side != SERIES_NO_SIDE;
	t->evaluation = says.side == SERIES_EVALUATION;
}

/* The last byte before the spaces at the end of a text; 0: there is none. */
static char skip_spaces(const char *text, size_t n)
{
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	return n ? text[n - 1] : 0;
}

static struct told tell_text_line(const char *text, size_t n)
{
	char words[NAME_BYTES];
	size_t named = words_before(text, text + n, words);
	const char *name = telling(words, &named);
	enum plim_role role = series_name_of(name, named).role;
	struct told t = { .n = named,
			  .series = SERIES_NONE,
			  .link = is_link(text, n),
			  .column = n > 2 && !memcmp(text + n - 2, "  ", 2) &&
				    text_line_is_word((unsigned char)skip_spaces(text, n)),
			  .average = n >= 2 && n < 16 && text[0] == ' ' && text[1] == '(' };
	bool verb = (named >= 2 && !strncasecmp(name + named - 2, "is", 2)) ||
		    (named >= 3 && !strncasecmp(name + named - 3, "was", 3));

	memcpy(t.name, name, named);
	find_side(text, n, &t.about);
	if (!(1u << role & VALUED) || verb)
		find_loose(text, n, t.loose);
	if (verb && t.loose[0]) {
		t.n = strlen(t.loose);
		memcpy(t.name, t.loose, sizeof(t.name));
		t.loose[0] = 0;
	} else if (verb) {
		t.link = true;
	}
	t.bare = n && text[n - 1] == '=' && named + 6 < NAME_BYTES && !t.loose[0] &&
		 series_side_of(t.name, named);
	if (t.bare) {
		memcpy(t.name + named, " loss", 5);
		t.n += 5;
	}
	weigh(&t);
	return t;
}

/* The same from what was read before; *room is for what is not remembered. */
static struct told *told_of(struct line_reading *g, const char *text, size_t n, struct told *room)
{
	uint32_t id = n < 200 ? intern_find(&g->words, text, n) : INTERN_NONE;
	struct series_name says;
	bool given;

	if (id != INTERN_NONE) {
		g->told.at[id].lines++;
		return &g->told.at[id];
	}
	g->new_words |= n < 200;
	*room = tell_text_line(text, n);
	series_run_mapped(g->run, room->name, room->n, &given);
	says = series_name_of(room->name, room->n);
	given |= (g->run->falls && strlen(g->run->falls) == room->n &&
		  !memcmp(g->run->falls, room->name, room->n)) ||
		 series_may_be_loss(g->run, says) ||
		 (g->run->sides_count && says.unknown && says.side);
	room->kept |= given;
	room->known |= given;
	if (n >= 200 || g->told.n >= TOLD_MOST)
		return room;
	g->status = vec_push(g->run->mem, &g->told, *room, g->err);
	if (!g->status)
		g->status = intern_add(&g->words, text, n, &id, g->err);
	return room;
}

#define TWICE_MOST 10 /* values of one name in a line */

/* Has the name had values with a mark between it and the number? */
static bool is_marked(const struct series_run *r, const struct told *t)
{
	uint32_t series = intern_find(&r->monitor.names, t->name, t->n);

	return series != INTERN_NONE && r->curves.at[series].marked;
}

/* Has the row a value of the series? */
static bool in_row(const struct series_run *r, uint32_t series)
{
	for (size_t i = 0; series != INTERN_NONE && i < r->row.n; i++)
		if (r->row.at[i].series == series)
			return true;
	return false;
}

/*
 * A value of the name; one that shows no side is what the line is about.  "a: acc 0.5, b: acc 0.6": the second is not of the
 * same series.
 */
static void put_named(struct line_reading *g, struct told *t, double value)
{
	struct series_run *r = g->run;
	bool sided = !t->sided && g->about.side == SERIES_EVALUATION, again = false;
	struct series_row_value v = { sided ? SERIES_NONE : t->series, value };
	char name[NAME_BYTES + 32];
	size_t before = r->row.n, n = 0;

	/* "accuracy      0.84" of a report, where the training wrote "accuracy: 0.84". */
	if (t->column && is_marked(r, t))
		return;
	g->known += t->known;
	if (g->status || !t->kept)
		return;
	for (unsigned k = 1; k < TWICE_MOST && (v.series == SERIES_NONE || in_row(r, v.series));
	     k++) {
		n = (size_t)snprintf(name, sizeof(name), "%s%s%.*s", sided ? g->about.word : "",
				     sided ? " " : "", (int)t->n, t->name);
		again = k > 1;
		n += again ? (size_t)snprintf(name + n, sizeof(name) - n, " %u", k) : 0;
		v.series = intern_find(&r->monitor.names, name, n);
		if (v.series == INTERN_NONE)
			break;
	}
	g->plain_values |= t->known && !sided && !(t->sided && t->evaluation);
	g->status = v.series == SERIES_NONE ? series_row_put(r, name, n, value, g->err)
					    : vec_push(r->mem, &r->row, v, g->err);
	if (r->row.n > before && !sided && !again) {
		t->series = r->row.at[before].series;
		r->curves.at[t->series].marked |= !t->column;
	}
}

/* A value of a name that stands by itself; one of a column may be "3/100". */
static void put_text_line(struct line_reading *g, const char *name, size_t n, double value,
			  bool whole)
{
	struct told t = { .n = n < NAME_BYTES ? n : NAME_BYTES - 1, .series = SERIES_NONE };

	memcpy(t.name, name, t.n);
	weigh(&t);
	if (whole || t.step)
		put_named(g, &t, value);
}

/* "100/1000 [00:10<..." of a progress bar, "[1:02:10<..." later. */
static bool is_bar(const char *at, const char *end)
{
	const char *p = at;

	if (p >= end || *p != '/')
		return false;
	for (p++; p < end && isdigit((unsigned char)*p);)
		p++;
	if (end - p < 3 || p[0] != ' ' || p[1] != '[')
		return false;
	return p[2] == '0' || p[2] == '=' || p[2] == '>' ||
	       (end - p > 4 && isdigit((unsigned char)p[2]) && (p[3] == ':' || p[4] == ':'));
}

/* Digits, a comma and more digits: "12,800" where steps are counted or a point follows, else "0,43". */
static size_t with_commas(const char *at, size_t n, size_t took, bool counts, double *value)
{
	char copy[48];
	size_t groups = 0, first = 0, i = took, k = 0;

	for (size_t digits; i < n && at[i] == ','; i += 1 + digits) {
		for (digits = 0; i + 1 + digits < n && isdigit((unsigned char)at[i + 1 + digits]);)
			digits++;
		if (!digits || (groups && digits != 3))
			break;
		first = groups++ ? first : digits;
	}
	counts = first == 3 && (counts || groups > 1 ||
				(i + 1 < n && at[i] == '.' && isdigit((unsigned char)at[i + 1])));
	if (memchr(at, '.', took) || !groups || (!counts && groups > 1))
		return took;
	for (size_t j = 0; j < n && k < sizeof(copy); j++)
		if (at[j] != ',' || j > i)
			copy[k++] = at[j];
		else if (!counts && j < i)
			copy[k++] = '.';
		else if (j == i)
			break;
	return series_number(copy, k, value) + (counts ? groups : 0);
}

/* "[ 10/196]", "(4/5000):" before any value: is it within something that goes on? */
static bool is_inside(const struct series_run *r, const char *line, const char *at, const char *end)
{
	const char *p = at;
	double first, last;
	size_t took;

	while (p > line && p[-1] == ' ')
		p--;
	if (p == line || (p[-1] != '[' && (p[-1] != '(' || r->row.n)))
		return false;
	took = series_number(at, (size_t)(end - at), &first);
	if (!took || at + took >= end || at[took] != '/')
		return false;
	return series_number(at + took + 1, (size_t)(end - at - took - 1), &last) > 0 &&
	       first <= last;
}

/* "iteration:14 step:228/1044": the steps of a round, and how many it has; rounds are counted from 1, unless one is 0. */
static double within(struct series_run *r, double step, double of)
{
	double round = r->row_step;

	r->rounds_from_0 |= round == 0;
	r->row_step = r->row_rank = NAN;
	return (round - !r->rounds_from_0) * of + step;
}

/* "3/100" of a step within a round: the step; "5/20" of an epoch also says how many there are. */
static double of_whole(struct line_reading *g, const struct told *t, const char *p, const char *end,
		       double value)
{
	double of;

	if (!t->step || p >= end || *p != '/' ||
	    !series_number(p + 1, (size_t)(end - p - 1), &of) || of < value)
		return value;
	if (series_is_epoch(t->name, t->n)) {
		g->run->epochs = of;
		return value; /* "iteration 3/80 of epoch 2/10": the round follows */
	}
	return isnan(g->run->row_step) ? value : within(g->run, value, of);
}

/* "9413/10000" of a metric. */
static double fraction(const char *says, const char *p, const char *end, double value)
{
	double of;

	return p < end && *p == '/' && p > says && !memchr(says, '.', (size_t)(p - says)) &&
			       series_number(p + 1, (size_t)(end - p - 1), &of) && of >= value &&
			       of > 1
		       ? value / of
		       : value;
}

/* "Batch 80/2500", "Batch [80]": a step within its epoch. */
static bool is_batch_of(const struct told *t, const char *p, const char *end)
{
	return t->n == 5 && !strncasecmp(t->name, "batch", 5) && p + 1 < end &&
	       (*p == ']' || (*p == '/' && isdigit((unsigned char)p[1])));
}

/* "9.51 avg loss, 0.001 rate": the name of a loss or metric behind a number that nothing names, up to a comma or the end; its bytes. */
static size_t name_behind(const struct told *t, const char *says, const char *p, const char *end)
{
	const char *name = p + 1, *q = name;

	if (t->n || !memchr(says, '.', (size_t)(p - says)) || p >= end || *p != ' ')
		return 0;
	while (q < end && (isalpha((unsigned char)*q) || *q == ' ' || *q == '_'))
		q++;
	while (q > name && q[-1] == ' ')
		q--;
	if (q == name || q - name >= NAME_BYTES ||
	    (q < end && *q != ',' && !isspace((unsigned char)*q)))
		return 0;
	return 1u << series_name_of(name, (size_t)(q - name)).role & VALUED ? (size_t)(q - name)
									    : 0;
}

/* Not a whole number, or "2.0". */
static bool is_fraction(const char *says, const char *p, double value)
{
	return value != floor(value) || memchr(says, '.', (size_t)(p - says));
}

static void take_number(struct line_reading *g, const char *line, const char *gap, const char *says,
			const char **behind, const char *end, double value)
{
	struct told room;
	struct told *t = told_of(g, gap, (size_t)(says - gap), &room);
	const char *p = *behind;
	size_t before;

	t->fractions += is_fraction(says, p, value);
	if (!g->status && t->fractions == SERIES_RECURS)
		g->status = series_run_keep(g->run, g->line.at, g->line.n, &t->line, g->err);
	if (!g->status && is_batch_of(t, p, end))
		t = told_of(g, "step ", 5, &room);
	if (g->status)
		return;
	if (t->step && g->lasting.side) {
		g->about = g->about.side == g->lasting.side ? g->below : g->about;
		g->lasting.side = SERIES_NO_SIDE;
	}
	g->about = t->about.side ? t->about : g->about;
	if (p < end && *p == ',' && says > line && says[-1] != '[' && says[-1] != ',')
		*behind = says + with_commas(says, (size_t)(end - says), (size_t)(p - says),
					     t->step, &value);
	p = *behind;
	value = t->metric ? fraction(says, p, end, value) : value;
	if (!t->kept && g->loose[0] && t->link) {
		put_text_line(g, g->loose, strlen(g->loose), value, true);
		g->loose[0] = 0;
		return;
	}
	before = name_behind(t, says, p, end);
	if (before) {
		put_text_line(g, p + 1, before, value, true);
		*behind = p + 1 + before;
		return;
	}
	/* Of a metric that is named before, or a count. */
	if (t->bare && (g->loose[0] || !memchr(says, '.', (size_t)(p - says))))
		return;
	if (t->average && g->inside && g->about.side == SERIES_EVALUATION && g->put)
		g->run->row.at[g->run->row.n - 1].value = value;
	if (t->loose[0])
		memcpy(g->loose, t->loose, sizeof(g->loose));
	before = g->run->row.n;
	put_named(g, t, of_whole(g, t, p, end, value));
	g->put = g->run->row.n > before;
	if (g->put && value == 0)
		g->run->monitor.watches.at[g->run->row.at[before].series].rounded |=
			series_is_rounded(says, (size_t)(p - says));
}

static bool may_be_number(char c)
{
	return isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.' || (c | 0x20) == 'n' ||
	       (c | 0x20) == 'i';
}

/* "step:12K" is rounded, and all that the log says. */
static bool take_rounded(struct line_reading *g, const char *gap, const char *says, const char *p,
			 const char *end, double value)
{
	struct told room, *t;

	if (p + 1 >= end || (*p != 'K' && *p != 'M') || text_line_is_word((unsigned char)p[1]))
		return false;
	t = told_of(g, gap, (size_t)(says - gap), &room);
	if (g->status || !t->step)
		return false;
	put_named(g, t, value * (*p == 'K' ? 1e3 : 1e6));
	return true;
}

/* "ERROR 11-20 12:00:01": behind a number, the rest of its date. */
static bool skip_date(const char **p, const char *end)
{
	if (*p + 1 >= end || **p != '-' || !isdigit((unsigned char)(*p)[1]))
		return false;
	while (*p < end && (text_line_is_word((unsigned char)**p) || **p == '-'))
		++*p;
	return true;
}

#define UNNAMED 1e6        /* weaker than any name of a step */
#define UNNAMED_BEHIND 1e7 /* an epoch */

/* "[200/3000] loss: 1.2", "[3/25][100/1583] loss: 1.2": what is not named, and named by nothing before, counts steps. */
static void take_place(struct line_reading *g, const char *gap, const char *says, const char *p,
		       const char *end, double value)
{
	struct series_run *r = g->run;
	struct told room;
	double of;
	size_t took = series_number(p + 1, (size_t)(end - p - 1), &of);
	const char *behind;

	/* "[64/1000 (6%)]", but "[05/12 10:00:00]" is a date. */
	behind = p + 1 + took;
	if (end - behind < 2 ||
	    (*behind != ']' && *behind != ')' && memcmp(behind, " (", 2) != 0) || r->no_steps ||
	    told_of(g, gap, (size_t)(says - gap), &room)->n)
		return;
	r->row_of = of;
	if (isnan(r->row_step))
		r->row_step = value;
	else if (r->row_rank == UNNAMED)
		r->row_step = within(r, value, of);
	else
		return;
	r->row_rank = isnan(r->row_epoch) ? UNNAMED : UNNAMED_BEHIND;
}

/* "[3,  2000] loss: 1.2", "[3 :  2000]": an epoch and a step; the bytes from its first number on, 0: it is something else. */
static size_t take_pair(struct line_reading *g, const char *says, const char *end)
{
	const char *p = says;
	double value[2];

	for (int i = 0; i < 2; i++) {
		size_t took = series_number(p, (size_t)(end - p), &value[i]);

		if (!took || !(value[i] >= 0) || value[i] != floor(value[i]))
			return 0;
		for (p += took; p < end && *p == ' ';)
			p++;
		if (p >= end || !strchr(i ? "]" : ",:", *p) || (!i && p + 1 < end && p[1] != ' '))
			return 0;
		for (p += !i; p < end && *p == ' ';)
			p++;
	}
	if (memchr(says, '.', (size_t)(p - says)) || end - p < 3 || p[1] != ' ' ||
	    !isalpha((unsigned char)p[2]))
		return 0;
	put_text_line(g, "epoch", 5, value[0], true);
	put_text_line(g, "step", 4, value[1], true);
	return (size_t)(p - says);
}

/* Keras draws a bar for evaluate(), too: behind no "Epoch 3/20", of another length than those behind one. */
static bool is_evaluate(struct line_reading *g, const char *p, const char *end)
{
	double of;

	if (!series_number(p + 1, (size_t)(end - p - 1), &of))
		return false;
	if (g->fresh || !(g->bar_length > 0)) {
		g->bar_length = g->fresh ? of : 0;
		return false;
	}
	if (of == g->bar_length)
		return false;
	g->about = (struct text_side){ SERIES_EVALUATION, "evaluate" };
	return true;
}

/* Where the text begins that belongs to the next number: "top-1 acc" is a name with this one in it. */
static const char *behind_number(const char *line, const char *says, const char *p)
{
	if (says <= line + 1 || says[-1] != '-' || !isalpha((unsigned char)says[-2]))
		return p;
	while (says > line && text_line_is_word((unsigned char)says[-1]))
		says--;
	return says;
}

/* "epoch1,step20,loss: 0.4": a count joined to its name, which is a word; the bytes of its digits; 0: it is something else. */
static size_t take_joined(struct line_reading *g, const char *line, const char *gap, const char *p,
			  const char *end)
{
	const char *word = p;
	struct told t = { .series = SERIES_NONE };
	double value;
	size_t took = 0;

	while (word > line && isalpha((unsigned char)word[-1]))
		word--;
	t.n = (size_t)(p - word);
	if (!t.n || t.n >= NAME_BYTES ||
	    (word > line && text_line_is_word((unsigned char)word[-1])) ||
	    (!series_is_step(word, t.n) && !series_is_epoch(word, t.n)))
		return 0;
	while (p + took < end && isdigit((unsigned char)p[took]))
		took++;
	if (p + took < end && p[took] != '/' && text_line_is_word((unsigned char)p[took]))
		return 0;
	find_side(gap, (size_t)(word - gap), &g->about);
	memcpy(t.name, word, t.n);
	weigh(&t);
	series_number(p, took, &value);
	put_named(g, &t, of_whole(g, &t, p + took, end, value));
	return took;
}

static void take_numbers(struct line_reading *g, const char *line, size_t n)
{
	const char *end = line + n, *p = line, *gap = line;

	g->loose[0] = 0;
	while (p < end) {
		double value;
		size_t took;
		const char *says;

		if (isdigit((unsigned char)*p) && p > gap && isalpha((unsigned char)p[-1]) &&
		    (took = take_joined(g, line, gap, p, end))) {
			gap = p += took;
			continue;
		}
		if (!may_be_number(*p) ||
		    (p > line && text_line_is_word((unsigned char)p[-1]) && p[-1] != '-') ||
		    !(took = series_number(p, (size_t)(end - p), &value))) {
			p++;
			continue;
		}
		says = p;
		p += took;
		if (says > line && says[-1] == '[' && (took = take_pair(g, says, end))) {
			gap = p = says + took;
			continue;
		}
		if (is_bar(p, end) && !is_evaluate(g, p, end)) {
			g->bar = true;
			if (value > 0)
				put_text_line(g, "step", 4, value, true);
		}
		if (says > line && is_inside(g->run, line, says, end)) {
			g->inside = true;
			take_place(g, gap, says, p, end, value);
		}
		if (take_rounded(g, gap, says, p, end, value)) {
			gap = ++p;
			continue;
		}
		if (skip_date(&p, end)) {
			gap = p;
			continue;
		}
		/* "30ms", "nanosecond", "70%|###": no number that stands for itself. */
		if (p < end && (isalpha((unsigned char)*p) || *p == '_' ||
				(*p == '%' && p + 1 < end && p[1] == '|'))) {
			while (p < end && text_line_is_word((unsigned char)*p))
				p++;
			gap = isdigit((unsigned char)*says) ? p : gap;
			continue;
		}
		take_number(g, line, gap, says, &p, end, value);
		gap = behind_number(line, says, p);
	}
	/* "[1/5] epoch 3": a fold, or something else that epochs are within. */
	if (g->run->row_rank == UNNAMED && !isnan(g->run->row_epoch))
		g->run->row_step = g->run->row_rank = NAN;
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

static bool has_word(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && !isalnum((unsigned char)text[i]))
		i++;
	return i < n;
}

/* Without the escape sequences of a terminal, NULs (a PowerShell that appends writes UTF-16 without a mark), and with plain bars for drawn ones. */
static size_t clean(char *to, const char *line, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		if (line[i] == 0x1b) {
			i++;
			while (i < n && ((line[i] >= 0x20 && line[i] < 0x40) || line[i] == '['))
				i++;
			/* One line up: a bar ends there, and what follows is another line. */
			if (i < n && line[i] == 'A' && has_word(line + i + 1, n - i - 1))
				k = 0;
		} else if (i + 2 < n && !memcmp(line + i, "\xe2\x94", 2) &&
			   (line[i + 2] == '\x82' || line[i + 2] == '\x83')) {
			to[k++] = '|';
			i += 2;
		} else if (line[i]) {
			to[k++] = line[i];
		}
	}
	return k;
}

/* ---- tables ---- */

static bool is_gap(char c)
{
	return c == ' ' || c == '\t' || c == '|' || c == ',' || c == ';';
}

/* Cells of a line, parted by white space (`wide`: by two or more), bars, commas. */
static size_t split_text_line(const char *line, size_t n, bool wide, struct span *out)
{
	size_t k = 0, i = 0;

	while (i < n && k < COLUMNS) {
		size_t from;

		while (i < n && is_gap(line[i]))
			i++;
		from = i;
		while (i < n && !(is_gap(line[i]) &&
				  (!wide || line[i] != ' ' || i + 1 == n || is_gap(line[i + 1]))))
			i++;
		if (i > from)
			out[k++] = (struct span){ line + from, i - from };
	}
	return k;
}

#define HEAD_NAMES 4 /* before a bar */

static const char number_sign[] = "step"; /* "#" counts what was done */

/* The names that a line of names begins with; one of them is of a training. */
static size_t names_of(const char *line, size_t n, bool wide, struct span *out, bool *known)
{
	size_t k = split_text_line(line, n, wide, out), names = 0;

	*known = false;
	for (; names < k && !isdigit((unsigned char)out[names].at[0]); names++) {
		struct span *s = &out[names];

		while (s->n && !isalnum((unsigned char)s->at[0]) && s->at[0] != '_') {
			s->at++;
			s->n--;
		}
		while (s->n && !isalnum((unsigned char)s->at[s->n - 1]))
			s->n--;
		if (!s->n && s->at[-1] == '#')
			*s = (struct span){ number_sign, sizeof(number_sign) - 1 };
		if (!s->n || s->n >= NAME_BYTES)
			return 0;
		*known |= (1u << series_name_of(s->at, s->n).role & VALUED) != 0;
	}
	return names;
}

/* Are all cells of a line numbers, and two or more? */
static bool is_bare(const char *line, size_t n)
{
	struct span cell[COLUMNS];
	size_t k = split_text_line(line, n, false, cell);
	double value;

	for (size_t i = 0; i < k; i++)
		if (series_number(cell[i].at, cell[i].n, &value) != cell[i].n)
			return false;
	return k > 1;
}

static void take_header(struct line_reading *g, const char *line, size_t n)
{
	struct columns *t = &g->table;
	bool known, wide_known;
	struct span probe[COLUMNS];

	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (!n || n >= sizeof(t->line) || line[n - 1] == ':' || line[n - 1] == '.' ||
	    memchr(line, '=', n) || names_of(line, n, false, probe, &known) < 2 || !known)
		return;
	g->table_at = g->line_at;
	memcpy(t->line, line, n);
	t->line[n] = 0;
	t->narrow_n = names_of(t->line, n, false, t->narrow, &known);
	t->wide_n = names_of(t->line, n, true, t->wide, &wide_known);
	t->wide_n = wide_known ? t->wide_n : 0;
}

static bool is_word(const struct span *s, const char *word)
{
	return s->n == strlen(word) && !strncasecmp(s->at, word, s->n);
}

/* A line that is a row of the table: all its cells but one are numbers, or begin as such ("00:12", "10.1G", "640:"). */
static bool take_table_row(struct line_reading *g, const char *line, size_t n)
{
	const struct columns *t = &g->table;
	struct span cell[COLUMNS];
	const struct span *names = t->narrow;
	size_t k = split_text_line(line, n, false, cell), columns = t->narrow_n, words = 0;
	double value;

	/* "| No log | 1.0 | 17 |": a cell may hold spaces as the names of the head do. */
	if (k != columns && k != t->wide_n && t->wide_n)
		k = split_text_line(line, n, true, cell);
	if (k != columns && k == t->wide_n) {
		names = t->wide;
		columns = k;
	}
	if (k < columns || columns < 2 || (k > columns && is_bare(line, n)))
		return false; /* numbers that the head does not name */
	for (size_t i = 0; i < columns; i++)
		if (cell[i].at[0] == '[') /* of a matrix */
			return false;
	if (is_word(names, "class") && isalpha((unsigned char)*cell->at) && !is_word(cell, "all"))
		return true; /* one class: no value of the whole */
	for (size_t i = 0; i < columns; i++)
		words += !isdigit((unsigned char)cell[i].at[0]) &&
			 !series_number(cell[i].at, cell[i].n, &value);
	if (words > (k == columns && k > 2) || isalpha((unsigned char)cell[columns - 1].at[0]))
		return false;
	for (size_t i = 0; i < columns && !g->status; i++) {
		size_t took = series_number(cell[i].at, cell[i].n, &value);

		if (took && (took == cell[i].n || cell[i].at[took] == '/'))
			put_text_line(g, names[i].at, names[i].n, value, took == cell[i].n);
	}
	return g->known > 0;
}

/* ---- blocks: "| train/loss | 2.9 |", a line a value ---- */

static bool block_cells(const char *line, size_t n, struct span *name, struct span *number)
{
	const char *end = line + n, *bar, *last;

	while (end > line && end[-1] == ' ')
		end--;
	if (end - line < 5 || line[0] != '|' || end[-1] != '|')
		return false;
	bar = memchr(line + 1, '|', (size_t)(end - line - 1));
	last = end - 1;
	if (bar == last || memchr(bar + 1, '|', (size_t)(last - bar - 1)))
		return false;
	*name = (struct span){ line + 1, (size_t)(bar - line - 1) };
	*number = (struct span){ bar + 1, (size_t)(last - bar - 1) };
	for (struct span *s = name; s; s = s == name ? number : NULL) {
		while (s->n && s->at[0] == ' ') {
			s->at++;
			s->n--;
		}
		while (s->n && s->at[s->n - 1] == ' ')
			s->n--;
	}
	return name->n && name->n < NAME_BYTES / 2 && isalpha((unsigned char)name->at[0]);
}

static void end_row(struct line_reading *g);

/* Is the line one of a block, or the end of one? */
static bool take_block(struct line_reading *g, const char *line, size_t n)
{
	struct span name, number;
	char full[NAME_BYTES];
	double value;
	size_t took;
	int k;

	if (n && line[0] == '|' && block_cells(line, n, &name, &number)) {
		took = series_number(number.at, number.n, &value);
		if (took == number.n && (took || name.at[name.n - 1] == '/')) {
			if (!g->block) {
				series_row_begin(g->run);
				g->row_at = g->line_at;
				g->known = 0;
				g->section[0] = 0;
			}
			g->block = true;
			if (!took)
				(void)snprintf(g->section, sizeof(g->section) / 2, "%.*s",
					       (int)name.n, name.at);
			k = snprintf(full, sizeof(full), "%s%.*s", g->section, (int)name.n,
				     name.at);
			g->about.side = SERIES_NO_SIDE;
			if (took && k > 0 && (size_t)k < sizeof(full))
				put_text_line(g, full, (size_t)k, value, true);
			return true;
		}
	}
	if (!g->block)
		return false;
	g->block = false;
	end_row(g);
	return false;
}

/* ---- rows ---- */

/* The last line of an evaluation is its result, at the step that training had reached. */
static void give_held(struct line_reading *g)
{
	struct series_run *r = g->run;

	for (size_t i = 0; i < g->held_n && !g->status; i++)
		g->status = series_run_point(r, g->held[i].series, g->held_step, NAN,
					     g->held[i].value, g->err);
	g->held_n = 0;
}

/* A bar shows the result of the last evaluation again and again. */
static void drop_redrawn(struct series_run *r)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->row.n; i++) {
		const struct series_watch *w = &r->monitor.watches.at[r->row.at[i].series];

		if (!(1u << w->role & SERIES_EVALUATED) || r->row.at[i].value != w->last)
			r->row.at[kept++] = r->row.at[i];
	}
	r->row.n = kept;
}

/*
 * "Loss: 6.7" of a model card, "loss_weight=1.0" of the settings: values before the first step or epoch are not of the
 * training, unless one of them comes again without a step of its own.
 */
static void look_for_clock(struct line_reading *g, bool clocked)
{
	struct series_run *r = g->run;

	clocked |= g->fresh;
	if (clocked && !g->clocked) {
		g->clocked = true;
		g->early = 0;
		for (size_t i = 0; i < r->curves.n; i++)
			g->early += r->curves.at[i].ordinal > 0;
		r->before = !g->early     ? 0
			    : g->fresh    ? g->clock_at
			    : g->in_table ? g->table_at
					  : g->row_at;
	}
	for (size_t i = 0; g->clocked && !clocked && i < r->row.n; i++)
		if (r->row.at[i].series < g->early)
			r->before = 0;
	g->fresh = false;
}

#define CLOCKED_LEAST 5

/* Were values with a step and without one found to be of two kinds? */
static bool is_stepped_only(const struct series_run *r, uint32_t series)
{
	const struct intern *names = &r->monitor.names;

	return r->stepped_only.n && intern_find(&r->stepped_only, names->at[series].bytes,
						names->at[series].n) != INTERN_NONE;
}

/* "Loss: 0.4" behind a training whose lines were all "epoch 3, loss: 0.5": not of its course. */
static void drop_behind(struct series_run *r, bool clocked)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->row.n; i++) {
		struct series_curve *c = &r->curves.at[r->row.at[i].series];

		if (!clocked && ((c->clocked >= CLOCKED_LEAST && !c->unclocked) ||
				 is_stepped_only(r, r->row.at[i].series))) {
			r->behind++;
			continue;
		}
		c->clocked += clocked;
		c->unclocked += !clocked;
		r->row.at[kept++] = r->row.at[i];
	}
	r->row.n = kept;
}

static void end_row(struct line_reading *g)
{
	struct series_run *r = g->run;
	bool evaluation = !g->plain_values && g->about.side == SERIES_EVALUATION;
	uint64_t copies = r->copies;

	if (g->status || !g->known || !r->row.n) {
		r->row.n = 0;
		return;
	}
	look_for_clock(g, !isnan(r->row_step) || !isnan(r->row_epoch));
	drop_behind(r, !isnan(r->row_step) || !isnan(r->row_epoch));
	if (!isnan(r->row_epoch))
		g->epoch = r->row_epoch;
	else
		r->row_epoch = g->epoch;
	r->row_side = evaluation ? SERIES_EVALUATION : SERIES_NO_SIDE;
	if (evaluation && g->inside)
		r->row_step = NAN;
	r->files.at[0].rows++;
	for (size_t i = 0; i < r->row.n; i++)
		r->curves.at[r->row.at[i].series].texts += g->new_words;
	if (g->bar && r->row_epoch == r->last_epoch)
		drop_redrawn(r);
	if (evaluation && g->inside && r->row.n <= HELD) {
		r->within += g->held_n > 0;
		memcpy(g->held, r->row.at, r->row.n * sizeof(*g->held));
		g->held_n = r->row.n;
		g->held_step = series_row_step(r);
		r->row.n = 0;
		return;
	}
	give_held(g);
	if (!g->status)
		g->status = series_row_end(r, g->err);
	if (r->copies > copies && g->epoch < r->last_epoch)
		g->epoch = r->last_epoch;
}

#define FLAGS_LEAST 3

/* "epochs=30, iou=0.7, amp=True, cache=False, device=None": settings, whose numbers do not count. */
static bool is_settings(const char *line, size_t n)
{
	static const char *const flags[] = { "True", "False", "None" };
	size_t count = 0;

	for (const char *p = line; (p = memchr(p, n ? '=' : 0, (size_t)(line + n - p))); p++)
		for (int i = 0; i < 3; i++)
			count += (size_t)(line + n - p) > strlen(flags[i]) &&
				 !memcmp(p + 1, flags[i], strlen(flags[i]));
	return count >= FLAGS_LEAST;
}

/* "Class  Images  mAP50: 100% |###| 18/18": the head of a table with a bar behind it; its bytes; 0: it is something else. */
static size_t head_with_bar(const char *line, size_t n)
{
	const char *end = memmem(line, n, "%", 1), *p = end;
	struct span names[COLUMNS];
	bool known;

	while (p && p > line && isdigit((unsigned char)p[-1]))
		p--;
	if (!p || p == end)
		return 0;
	while (p > line && p[-1] == ' ')
		p--;
	if (p == line || p[-1] != ':')
		return 0;
	n = (size_t)(p - 1 - line);
	return names_of(line, n, false, names, &known) >= HEAD_NAMES && known ? n : 0;
}

#define RULE_LEAST 3 /* marks on both sides of a heading */

/*
 * "=== Validation Loss (12:00:01) ===": between marks, it parts what is below from what was before.  If the training has no
 * such heading, what is below ends with the next step.
 */
static void take_section(struct line_reading *g, const char *line, size_t n)
{
	struct text_side says = { 0 };

	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (n <= 2 * RULE_LEAST || !strchr("=-*#", *line))
		return;
	for (size_t i = 0; i < RULE_LEAST; i++)
		if (line[i] != *line || line[n - 1 - i] != *line)
			return;
	g->run->headed = true;
	find_side(line + RULE_LEAST, n - RULE_LEAST, &says);
	g->run->sections |= says.side == SERIES_TRAINING;
	if (g->run->sections)
		g->below = says;
	else if (says.side)
		g->lasting = says;
}

/* A line of words only: the head of a table, or a heading. */
static void take_words(struct line_reading *g, const char *line, size_t n)
{
	series_row_heading(g->run, line, n);
	take_header(g, line, n);
	take_section(g, line, n);
	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (!n || line[n - 1] != ':')
		return;
	g->heading.side = SERIES_NO_SIDE;
	find_side(line, n, &g->heading);
}

/* A head with a bar behind it, or settings. */
static bool take_head(struct line_reading *g, const char *line, size_t n)
{
	size_t bar = head_with_bar(line, n);

	if (!bar && !is_settings(line, n))
		return false;
	take_words(g, line, bar ? bar : n);
	return true;
}

/*
 * "[007] train_loss: 0.4": a number with zeros in front, or as wide as one that had them, counts epochs; so does one that is a
 * column, with a tab behind it.  Its bytes up to the name; 0: it is something else, a rank's "[1]" for one.
 */
static size_t counter_at(struct line_reading *g, const char *line, size_t n, double *value)
{
	size_t k = 1;

	if (n < 4 || *line != '[')
		return 0;
	while (k < n && isdigit((unsigned char)line[k]))
		k++;
	if (k < 2 || k + 2 >= n || line[k] != ']' || !isalpha((unsigned char)line[k + 2]))
		return 0;
	if (line[k + 1] != '\t' &&
	    (line[k + 1] != ' ' || k < 3 || (line[1] != '0' && k != g->counter)))
		return 0;
	g->counter = k;
	series_number(line + 1, k - 1, value);
	return k + 2;
}

/* Where the next counter of a line begins that has several; n: there is none. */
static size_t next_counter(struct line_reading *g, const char *line, size_t n)
{
	double value;

	if (!g->counter)
		(void)counter_at(g, line, n, &value); /* of the first line */
	for (size_t i = 1; g->counter && i < n; i++) {
		const char *open = memchr(line + i, '[', n - i);

		if (!open)
			break;
		i = (size_t)(open - line);
		if (counter_at(g, open, n - i, &value))
			return i;
	}
	return n;
}

/* "ValueError: 34464": all of a line, by the names that Python's exceptions have; "MAE error: 3" and "RMSError: 0.3" are values. */
static bool is_exception(const char *line, size_t n)
{
	size_t name = 0, digits;

	while (name < n && (isalpha((unsigned char)line[name]) || line[name] == '.'))
		name++;
	digits = name + 2 + (name + 2 < n && line[name + 2] == '-');
	if (digits >= n || !isupper((unsigned char)*line) || memcmp(line + name, ": ", 2) ||
	    name < 6 ||
	    (memcmp(line + name - 5, "Error", 5) &&
	     (name < 10 || memcmp(line + name - 9, "Exception", 9))))
		return false;
	while (digits < n && isdigit((unsigned char)line[digits]))
		digits++;
	return digits == n;
}

/* Of a traceback all is indented but its last line.  A rank may be in front. */
static bool is_traceback(struct line_reading *g, const char *line, size_t n)
{
	static const char end[] = "(most recent call last):";
	bool within = g->traceback;
	size_t m = sizeof(end) - 1;
	const char *rank = n && *line == '[' ? memmem(line, n < 32 ? n : 32, "]: ", 3) : NULL;

	if (rank) {
		n -= (size_t)(rank + 3 - line);
		line = rank + 3;
	}
	g->traceback = (n >= m && !memcmp(line + n - m, end, m)) ||
		       (within && n && isspace((unsigned char)*line));
	return within || g->traceback;
}

/* "loss: nan" is a number without a digit. */
static bool has_lost_number(const struct byte_set *has, const char *line, size_t n)
{
	double value;

	for (size_t i = 1; has->high & HIGH('n') && i + 2 < n; i++) {
		size_t took = 0;

		if ((line[i] | 0x20) == 'n' || (line[i] | 0x20) == 'i')
			took = text_line_is_word((unsigned char)line[i - 1])
				       ? 0
				       : series_number(line + i, n - i, &value);
		if (took && (i + took == n || !text_line_is_word((unsigned char)line[i + took])))
			return true;
	}
	return false;
}

#define LEADING "number at the start of the line"

/* "12 loss: 0.3": if a row has no step, the number that it begins with may count the rows. */
static void put_leading(struct line_reading *g, const char *line, size_t n)
{
	struct series_run *r = g->run;
	struct series_row_value first;
	size_t took = 0, k;
	double value;

	for (; n && *line == ' '; n--)
		line++;
	while (took < n && isdigit((unsigned char)line[took]))
		took++;
	k = took;
	k += k < n && (line[k] == ':' || line[k] == ',');
	if (!took || took > 9 || k + 1 >= n || !isspace((unsigned char)line[k]) ||
	    !(isalpha((unsigned char)line[k + 1]) || (line[took] == ':' && took < k)) ||
	    g->status || !g->known || !r->row.n || !isnan(r->row_step) || !isnan(r->row_epoch))
		return;
	series_number(line, took, &value);
	g->status = series_row_put(r, LEADING, sizeof(LEADING) - 1, value, g->err);
	if (g->status || !isnan(r->row_step))
		return;
	first = r->row.at[r->row.n - 1];
	r->row.at[r->row.n - 1] = r->row.at[0];
	r->row.at[0] = first;
}

/* A line that is a number. */
static bool is_alone(const char *line, size_t n, double *value)
{
	while (n && isspace((unsigned char)*line)) {
		line++;
		n--;
	}
	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (n > 2 && strchr("'\"", *line) && line[n - 1] == *line) {
		line++;
		n -= 2;
	}
	return n && series_number(line, n, value) == n;
}

/* Of a file of such lines, whose name is that of the values; a number before them that rises, or begins anew, is the step. */
static bool take_column(struct line_reading *g, const char *line, size_t n)
{
	const char *name = g->run->column;
	struct span cell[COLUMNS];
	double value, step = NAN;

	if (!is_alone(line, n, &value)) {
		if (!is_bare(line, n) || split_text_line(line, n, false, cell) != 2)
			return false;
		series_number(cell[0].at, cell[0].n, &step);
		series_number(cell[1].at, cell[1].n, &value);
		g->first = g->counted < 0 ? step : g->first;
		if (!(step > g->counted || step == g->first) || step != floor(step))
			return false;
		g->counted = step;
	} else if (g->run->listed) {
		return true;
	}
	g->run->single++;
	if (name && !isnan(step))
		put_text_line(g, "step", 4, step, true);
	if (name)
		put_text_line(g, name, strlen(name), value, true);
	return name;
}

/* Of a file without names: each column is named by its place. */
static bool take_places(struct line_reading *g, const char *line, size_t n)
{
	struct span cell[COLUMNS];
	char name[NAME_BYTES];
	double value;
	size_t k = g->run->by_place && (is_bare(line, n) || is_alone(line, n, &value))
			   ? split_text_line(line, n, false, cell)
			   : 0;

	for (size_t i = 0; i < k && !g->status; i++) {
		int named = snprintf(name, sizeof(name), "column %zu", i + 1);

		series_number(cell[i].at, cell[i].n, &value);
		g->status = series_row_put(g->run, name, (size_t)named, value, g->err);
		g->known = 1;
	}
	return k;
}

/* "1m 16s (- 18m 6s) (5000 6%) 3.52" of PyTorch's tutorials: a step, its share, a loss without a name. */
static bool take_share(struct line_reading *g, const char *line, size_t n)
{
	const char *end = line + n, *close = memrchr(line, ')', n),
		   *open = close ? memrchr(line, '(', (size_t)(close - line)) : NULL;
	double step, share, loss;
	size_t took;

	if (!open || close < open + 4 || close[-1] != '%' ||
	    !is_alone(close + 1, (size_t)(end - close - 1), &loss))
		return false;
	took = series_number(open + 1, (size_t)(close - open - 1), &step);
	if (!took || open[1 + took] != ' ' || !(step >= 0) || step != floor(step) ||
	    !is_alone(open + 1 + took, (size_t)(close - open - took - 2), &share))
		return false;
	put_text_line(g, "step", 4, step, true);
	put_text_line(g, "loss", 4, loss, true);
	return true;
}

/* A line whose numbers no word in it names. */
static bool take_nameless(struct line_reading *g, const char *line, size_t n)
{
	return take_column(g, line, n) || take_places(g, line, n) || take_share(g, line, n);
}

#define LIST_LEAST 5 /* numbers of a list; fewer may be parts of one loss */

/* Nothing but numbers with commas between, or spaces if there are none, in brackets or not: how many; each is held for the series, if there is one. */
static size_t list_numbers(struct line_reading *g, const char *p, const char *end, uint32_t series)
{
	size_t count = 0;
	bool spaced = !memchr(p, ',', (size_t)(end - p)), comma = true;

	while (p < end && !g->status) {
		double value;
		size_t took;

		if (isspace((unsigned char)*p) || strchr("[](),}'\"", *p)) {
			comma |= spaced || *p == ',';
			p++;
			continue;
		}
		took = comma ? series_number(p, (size_t)(end - p), &value) : 0;
		if (!took)
			return 0;
		p += took;
		comma = false;
		count++;
		if (series != SERIES_NONE)
			g->status = series_hold(g->run, &g->lists, series, (double)count, value,
						g->err);
	}
	return count;
}

/* What a list is of: the words in front of it, or the line before; of a file that is one line, its name. */
static const char *list_name(struct line_reading *g, const char *line, const char *list, size_t *n)
{
	const char *end = list;

	while (end > line && strchr(" :=[(\t'\"", end[-1]))
		end--;
	while (line < end && strchr(" {'", *line))
		line++;
	*n = (size_t)(end - line);
	if (*n)
		return line;
	*n = g->title.n;
	if (*n && 1u << series_name_of(g->title.at, *n).role & VALUED)
		return g->title.at;
	*n = g->run->lone ? strlen(g->run->column) : 0;
	return g->run->column;
}

/* The line may name the list that is the next one. */
static void keep_title(struct line_reading *g, const char *line, size_t n)
{
	while (n && strchr(" \t:=[(#*-", *line)) {
		line++;
		n--;
	}
	while (n && strchr(" \t:=[(*-", line[n - 1]))
		n--;
	if (!n)
		return;
	g->title = (struct span){ g->title_text, n < NAME_BYTES ? n : 0 };
	memcpy(g->title_text, line, g->title.n);
	g->title_at = g->line_at;
}

/* A series in one line.  One that has a list already is another run's. */
static bool take_list(struct line_reading *g, const char *line, size_t n)
{
	const char *list = line, *end = line + n, *name;
	uint32_t series;
	size_t named, count = 0;
	bool spaced;
	struct series_name says;

	while (list < end && !isdigit((unsigned char)*list))
		list++;
	while (list > line && strchr("-+.", list[-1]))
		list--;
	spaced = !memchr(line, ',', n);
	if (!spaced || n > 2 * (size_t)COLUMNS)
		count = list_numbers(g, list, end, SERIES_NONE);
	if (count < (spaced ? COLUMNS + 1 : LIST_LEAST)) { /* perhaps a row of a table */
		keep_title(g, line, n);
		return false;
	}
	name = list_name(g, line, list, &named);
	says = series_name_of(name, named);
	if (!named || named >= NAME_BYTES || !(1u << says.role & VALUED)) {
		g->run->single += count;
		g->run->nameless++;
		g->title.n = 0;
		return spaced;
	}
	series = intern_find(&g->run->monitor.names, name, named);
	for (size_t i = 0; series != INTERN_NONE && i < g->lists.held.n; i++)
		g->run->over |= g->lists.held.at[i].series == series;
	g->row_at = name == g->title.at ? g->title_at : g->line_at;
	g->title.n = 0;
	if (g->run->over)
		return true;
	g->status = series_run_series(g->run, name, named, &series, g->err);
	if (!g->status)
		(void)list_numbers(g, list, end, series);
	return true;
}

/* A line "Epoch 3" is about those that follow. */
static void keep_epoch(struct line_reading *g)
{
	g->fresh = g->run->row_epoch != g->epoch;
	g->clock_at = g->clock_at ? g->clock_at : g->line_at;
	g->epoch = g->run->row_epoch;
	g->lasting = g->about;
}

/* Of lines of numbers only, that nothing names. */
static void keep_unread(struct line_reading *g, const char *line, size_t n)
{
	double value;

	if (!is_alone(line, n, &value) && !is_bare(line, n))
		return;
	if (!g->status && !g->run->unread_lines++)
		g->status = series_run_keep(g->run, g->line.at, g->line.n, &g->run->unread, g->err);
}

/* The row of the first line with values, and the line as it stands. */
static void keep_sample(struct line_reading *g)
{
	struct series_run *r = g->run;
	char text[2 * LINE_SHOWN + 4 * NAME_BYTES];
	size_t k = 0;

	if (!isnan(r->row_epoch))
		k += (size_t)snprintf(text, sizeof(text), "epoch %.15g, ", r->row_epoch);
	if (!isnan(r->row_step))
		k += (size_t)snprintf(text + k, sizeof(text) - k, "step %.15g, ", r->row_step);
	for (size_t i = 0; i < r->row.n && i < SAMPLE_VALUES; i++)
		k += (size_t)snprintf(text + k, sizeof(text) - k, "%.40s %.6g, ",
				      intern_text(&r->monitor.names, r->row.at[i].series),
				      r->row.at[i].value);
	k += (size_t)snprintf(text + k, sizeof(text) - k, "of \"%.*s\"", (int)g->line.n,
			      g->line.at);
	if (!g->status)
		g->status = series_run_keep(r, text, k, &r->sample, g->err);
}

/* What a line is that was read, or was not. */
static void keep_line(struct line_reading *g, const char *line, size_t n)
{
	if (g->known) {
		if (!g->run->sample)
			keep_sample(g);
		return;
	}
	if (isnan(g->run->row_epoch) || g->run->row.n)
		series_row_heading(g->run, line, n);
	take_header(g, line, n);
	take_section(g, line, n);
	g->run->bare += is_bare(line, n);
	keep_unread(g, line, n);
}

static void take_line(struct line_reading *g, const char *line, size_t n)
{
	struct byte_set has;
	double counted;
	size_t counter;

	for (; n && !*line; n--)
		line++;
	if (take_list(g, line, n))
		return;
	n = n < LINE_LONGEST ? n : LINE_LONGEST;
	g->line = (struct span){ line, n < LINE_SHOWN ? n : LINE_SHOWN };
	has = text_line_bytes_of(line, n);
	if (!has.ascii || has.low & (LOW(0) | LOW(0x1b))) {
		n = clean(g->clean, line, n);
		line = g->clean;
	}
	if (is_traceback(g, line, n) || is_exception(line, n) || take_head(g, line, n))
		return;
	if (take_block(g, line, n) || g->run->over || is_part_of_bar(line, n))
		return;
	if ((!(has.low & DIGITS) && !has_lost_number(&has, line, n)) ||
	    !(has.low & (LOW(':') | LOW('=') | LOW(' ') | LOW(',') | LOW('\t')) ||
	      has.high & HIGH('|'))) {
		if (!is_alone(line, n, &counted)) {
			take_words(g, line, n);
			return;
		}
	}
	series_row_begin(g->run);
	g->row_at = g->line_at;
	g->known = 0;
	g->inside = g->plain_values = g->bar = g->put = g->new_words = false;
	g->about = g->heading.side ? g->heading : g->lasting.side ? g->lasting : g->below;
	g->heading.side = SERIES_NO_SIDE;
	counter = counter_at(g, line, n, &counted);
	if (counter)
		put_text_line(g, "epoch", 5, counted, true);
	g->in_table = g->table.narrow_n && take_table_row(g, line, n);
	if (!g->in_table && !by_pattern(g, line, n) && !take_nameless(g, line, n))
		take_numbers(g, line + counter, n - counter);
	put_leading(g, line, n);
	if (!g->run->row.n && !isnan(g->run->row_epoch))
		keep_epoch(g);
	keep_line(g, line, n);
	end_row(g);
}

/* "{'loss': [0.9, 0.8], 'acc': [0.5, 0.6]}" of Python: the bytes before the second list's name; n: there is none. */
static size_t next_list(const char *line, size_t n)
{
	const char *end = line + n, *open = memchr(line, '[', n), *p;

	if (!open || open < line + 4 || open[-1] != ' ' || open[-2] != ':' ||
	    isalnum((unsigned char)open[-3]))
		return n;
	p = memchr(open, ']', (size_t)(end - open));
	return p && p + 3 < end && p[1] == ',' && p[2] == ' ' && p[3] == open[-3]
		       ? (size_t)(p + 3 - line)
		       : n;
}

/* A progress bar is drawn again and again on one line, and a program may forget to end its lines. */
static void take_pieces(struct line_reading *g, struct source *s, const char *line, size_t n)
{
	do {
		const char *back = memchr(line, '\r', n);
		size_t all = back ? (size_t)(back - line) : n, k = next_counter(g, line, all);

		k = next_list(line, k);
		back = k < all ? NULL : back;
		g->line_at = source_offset(s, (const uint8_t *)line);
		take_line(g, line, k);
		line += k + (back != NULL);
		n -= k + (back != NULL);
	} while (n && !g->run->over && !g->status);
}

/* "tr_x: 0.2  va_x: 0.3": is there a name that recurs on both sides?  Or a side without a name: "learn: 0.2". */
static bool has_both_sides(const struct line_reading *g)
{
	for (size_t i = 0; i < g->told.n; i++) {
		const struct told *t = &g->told.at[i];
		struct series_name a = series_name_of(t->name, t->n);

		if (t->n && t->fractions >= SERIES_RECURS && series_is_bare_side(a))
			return true;
		for (size_t k = 0;
		     t->lines >= SERIES_RECURS && a.unknown && a.side && k < g->told.n; k++) {
			const struct told *u = &g->told.at[k];
			struct series_name b = series_name_of(u->name, u->n);

			if (u->lines >= SERIES_RECURS && b.key == a.key && b.side &&
			    b.side != a.side)
				return true;
		}
	}
	return false;
}

/* Has a text of the line a name without a meaning, that as many lines have? */
static bool is_unread(const struct told *t, uint64_t least)
{
	struct series_name says;

	if (!t->n || !t->line || t->known || t->step || t->fractions < least)
		return false;
	says = series_name_of(t->name, t->n);
	return says.unknown && says.side != SERIES_EVALUATION;
}

#define UNREAD_MOST 3 /* names that are shown */

/* The names without a meaning that most lines have, if half as many as were read; else lines of numbers, if they are as many. */
static void name_unread(struct line_reading *g)
{
	struct series_run *r = g->run;
	uint64_t least = r->rows / 2 > SERIES_RECURS ? r->rows / 2 : SERIES_RECURS;
	const struct told *most = NULL;
	char names[UNREAD_MOST * (NAME_BYTES + 4)];
	size_t k = 0;

	for (size_t i = 0; i < g->told.n; i++) {
		const struct told *t = &g->told.at[i];

		series_run_suppose(r, series_name_of(t->name, t->n), t->fractions);
		if (is_unread(t, most ? most->fractions + 1 : least))
			most = t;
	}
	if (!most && r->unread_lines < least)
		r->unread = NULL;
	if (!most || g->status)
		return;
	r->unread = most->line;
	r->unread_lines = 0;
	for (size_t i = 0, count = 0; i < g->told.n; i++) {
		const struct told *t = &g->told.at[i];

		if (t->n == most->n && !memcmp(t->name, most->name, most->n))
			r->unread_lines += 1 + t->fractions; /* and the first */
		if (is_unread(t, most->fractions) && count++ < UNREAD_MOST)
			k += (size_t)snprintf(names + k, sizeof(names) - k, "%s%.*s",
					      k ? "', '" : "", (int)t->n, t->name);
	}
	g->status = series_run_keep(r, names, k, &r->unread_name, g->err);
}

/* Of a log without a known name: the two others that most lines have. */
static void name_unknown(struct line_reading *g)
{
	const char **names = g->run->unknown;

	g->run->both_sides = has_both_sides(g);
	for (int k = 0; k < 2 && !g->status; k++) {
		const struct told *most = NULL;
		uint32_t id;

		for (size_t i = 0; i < g->told.n; i++) {
			const struct told *t = &g->told.at[i];

			if (t->lines >= (most ? most->lines + 1 : SERIES_RECURS) && t->n &&
			    !t->step && series_name_of(t->name, t->n).unknown &&
			    !(k && strlen(names[0]) == t->n && !memcmp(t->name, names[0], t->n)))
				most = t;
		}
		if (!most)
			return;
		g->status = intern_add(&g->run->texts, most->name, most->n, &id, g->err);
		names[k] = g->status ? NULL : intern_text(&g->run->texts, id);
	}
}

#define RESULTS_LEAST 3

/*
 * "Optimizer: SGD, accuracy: 0.9", "Optimizer: Adam, accuracy: 0.8": a training repeats its words.  Without a step, values of
 * lines that mostly do not are results; so are values that are all at one step.
 */
static void drop_results(struct series_run *r)
{
	bool clock = r->rows_step || !isnan(r->last_epoch);

	for (uint32_t i = 0; i < r->curves.n; i++) {
		const struct series_curve *c = &r->curves.at[i];
		const struct series_watch *w = &r->monitor.watches.at[i];

		if (c->role_given || c->ordinal < RESULTS_LEAST || w->role == PLIM_ROLE_OTHER ||
		    (clock ? c->clocked || w->first_step != w->last_step
			   : 2 * c->texts <= c->ordinal))
			continue;
		series_monitor_set_role(&r->monitor, i, PLIM_ROLE_OTHER);
		for (size_t k = 0; k < r->monitor.findings.n; k++)
			if (r->monitor.findings.at[k].series == i)
				r->monitor.findings.at[k].taken_back = 1;
		r->results++;
	}
}

/* A line without an end, at `p`. */
static enum plim_status take_last(struct line_reading *g, struct series_input *in, const uint8_t *p)
{
	const char *line;
	size_t n;
	enum plim_status st = PLIM_OK;

	if (!series_reads_last(in) || !series_line(in->source, &p, &line, &n, true, &st, g->err)) {
		in->run->torn |= !in->run->options->grows;
		return st;
	}
	in->file->unended = true;
	take_pieces(g, in->source, line, n);
	in->file->offset = in->run->over ? g->row_at : source_offset(in->source, p);
	return st;
}

enum plim_status series_read_text(struct series_input *in, struct plim_err *err)
{
	struct line_reading *g = mem_new(in->run->mem, 1, sizeof(*g), err);
	struct source *s = in->source;
	const uint8_t *p = s->p;
	const char *line, *head = in->file->header;
	size_t n;
	uint32_t id;
	enum plim_status st = PLIM_OK;

	if (!g)
		return mem_status(err);
	g->run = in->run;
	g->err = err;
	g->epoch = in->file->clock;
	g->counted = -1;
	intern_init(&g->words, in->run->mem);
	if (head)
		take_header(g, head, strlen(head));
	in->run->splits = true;
	while (!g->status && !in->run->over && series_line(s, &p, &line, &n, false, &st, err)) {
		take_pieces(g, s, line, n);
		if (in->run->over)
			in->file->offset = g->row_at;
		else if (!g->block)
			in->file->offset = source_offset(s, p);
	}
	/* A line that is still being drawn, or a file whose lines end as those of old Macintoshes. */
	if (!g->status && !in->run->over && s->end > p && memrchr(p, '\r', (size_t)(s->end - p))) {
		const uint8_t *last = memrchr(p, '\r', (size_t)(s->end - p));

		take_pieces(g, s, (const char *)p, (size_t)(last - p));
		in->file->offset = in->run->over ? g->row_at
				   : g->block    ? in->file->offset
						 : source_offset(s, last + 1);
		p = last + 1;
	}
	if (!g->status && !in->run->over && s->end > p)
		st = take_last(g, in, p);
	if (!g->status)
		give_held(g);
	/* Lists behind a training repeat what it logged. */
	if (!g->status && !in->run->rows_step && isnan(in->run->last_epoch))
		g->status = series_give_held(in->run, &g->lists, err);
	drop_results(in->run);
	name_unread(g);
	if (!in->run->points)
		name_unknown(g);
	in->file->clock = g->epoch;
	st = g->status ? g->status : st;
	if (!st && g->table.narrow_n) {
		st = intern_add(&in->run->texts, g->table.line, strlen(g->table.line), &id, err);
		in->file->header = st ? NULL : intern_text(&in->run->texts, id);
	}
	intern_release(&g->words);
	vec_release(in->run->mem, &g->lists.held);
	vec_release(in->run->mem, &g->told);
	mem_free(in->run->mem, g, 1, sizeof(*g));
	return st;
}
