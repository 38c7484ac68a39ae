/*
 * Which of the rows of advice (data/advice.rows) are for a failure that only its text shows, and what they say of it: by its
 * kind, bound, moment and causes, by engine, activity and driver, by what is set already and what kind of work it is.
 */
#include "advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define F(fact) (1ULL << ADVICE_##fact)

#define HUGE_BYTES ((uint64_t)64 << 30)
#define HUGE_ALONE_BYTES ((uint64_t)32 << 30) /* of a GPU that the text does not say */
#define ABSURD_BYTES ((uint64_t)64 << 40)
#define TINY_BYTES ((uint64_t)1 << 20)
#define BIG_BYTES ((uint64_t)1 << 30)
#define LARGE_BYTES ((uint64_t)16 << 30)   /* of one array in host memory: seldom meant */
#define LITTLE_BYTES ((uint64_t)128 << 20) /* every host has as much, unless it is full */
#define BLOCK_BYTES ((uint64_t)4 << 30)    /* what Intel's driver gives in one piece, at most */
#define FEW_TOKENS 1024 /* what hardly any server can be asked to do with less of */
#define SMALL_BYTES ((uint64_t)2 << 30)
#define SCARCE_BYTES ((uint64_t)512 << 20)

_Static_assert(MESSAGES_ENGINES <= 64, "a bit for each engine");

static int advice_fits(uint64_t mask, unsigned value)
{
	return !mask || (mask >> value & 1);
}

int findings_is_pytorch(const struct messages_context *c)
{
	if (c->backend == MESSAGES_BACKEND_TPU ||
	    (!c->engine && (c->is_xla || c->set[MESSAGES_TASK_NATIVE].line)))
		return 0;
	return advice_fits(advice_cached | 1ULL << MESSAGES_ENGINE_UNKNOWN, c->engine);
}

/* Would what others hold have served the request?  Where it would not, they are not the first to look at. */
static int would_serve(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;

	return !messages_known(o->tried) || !messages_known(o->free) ||
	       t->outside.high + o->free.high >= o->tried.low;
}

/* Was it a new process that was refused, for which the machine promises as much as its parent holds? */
static int is_fork(const struct messages_event *e, const struct messages_context *c)
{
	return strstr(e->wording->pattern, "[Errno 12]") && !strstr(e->text, ": '") &&
	       (e->traceback.frames || c->set[MESSAGES_TASK_FORK].line);
}

/* The facts, if it is so. */
static uint64_t when(bool so, uint64_t facts)
{
	return so ? facts : 0;
}

/* How what was asked for stands to what was there. */
static uint64_t facts_of_sizes(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	bool tried = messages_known(o->tried), total = messages_known(o->total);

	return when(tried && total && o->tried.low >= o->total.high / 2, F(HALF)) |
	       when(total && messages_known(o->reserved) && o->reserved.low / 3 > o->total.high / 2,
		    F(LENT)) |
	       when(e->wording->class == MESSAGES_HOST && tried && messages_known(o->free) &&
			    o->tried.low / 2 > o->free.high,
		    F(LENT)) |
	       when(e->wording->class == MESSAGES_BUDGET && messages_known(o->allocated) &&
			    o->allocated.high <= SMALL_BYTES,
		    F(LITTLE)) |
	       when(messages_known(t->request) && messages_known(o->unallocated) &&
			    o->unallocated.low >= t->request.high,
		    F(AMONG));
}

/* What the words tell, whatever the numbers are. */
static uint64_t facts_of_words(const struct messages_event *e)
{
	static const struct {
		const char *words;
		uint64_t facts;
	} in_pattern[] = {
		{ "OOM when allocating", F(POOL) }, { "ran out of memory trying", F(POOL) },
		{ " from device: ", F(DRIVER) },    { "data type <U", F(TEXTS) },
		{ "alloc_req_slots", F(SLOTS) },    { "Dst tensor", F(COPIED) },
		{ "unified memory", F(UNIFIED) },
	};
	const char *words = e->wording->pattern;
	bool bare = findings_bare(e);
	uint64_t facts = when(bare, F(DRIVER));

	for (size_t i = 0; i < sizeof(in_pattern) / sizeof(in_pattern[0]); i++)
		facts |= when(strcasestr(words, in_pattern[i].words) != NULL, in_pattern[i].facts);
	/* PyTorch's own allocator asks in THCStorage, in old releases */
	if (!messages_known(e->oom.tried) && e->wording->family == MESSAGES_CUDA &&
	    !strstr(e->text, "THCStorage"))
		facts |= F(BARE) | when(strstr(words, "CUBLAS_STATUS_ALLOC") != NULL, F(HANDLE));
	return facts | when(e->wording->family == MESSAGES_JAX, F(XLA)) |
	       when(bare && strstr(e->traceback.user.source, "non_blocking=True"), F(COPYING)) |
	       when(bare && strstr(e->traceback.shown.function, "pin_memory"), F(PINNING)) |
	       when(e->code <= FEW_TOKENS && strstr(words, "prefill tokens"), F(FEW_TOKENS)) |
	       when(strcasestr(e->text, "cuda") != NULL, F(CUDA)) |
	       when(e->wording->says && strstr(e->wording->says, "pin host"), F(PINNED));
}

/* How large the request was, by itself. */
static uint64_t facts_of_request(const struct messages_event *e)
{
	const struct messages_oom *o = &e->oom;
	bool total = messages_known(o->total);
	int is_alone = !total && e->wording->family == MESSAGES_PYTORCH;
	uint64_t facts =
		when(messages_known(e->used) && total && e->used.low > o->total.high, F(BIG));

	if (!messages_known(o->tried))
		return facts;
	return facts | when(o->tried.low >= ABSURD_BYTES, F(ABSURD)) |
	       when(o->tried.low >= BIG_BYTES, F(BIG)) | when(o->tried.high < TINY_BYTES, F(TINY)) |
	       when(o->tried.low >= (is_alone ? HUGE_ALONE_BYTES : HUGE_BYTES) ||
			    (total && o->tried.low > o->total.high),
		    F(HUGE));
}

/* Is far more than was asked for neither PyTorch's nor known to be free? */
static int is_unseen(const struct messages_oom *o)
{
	return messages_known(o->tried) && messages_known(o->total) &&
	       messages_known(o->reserved) && !messages_known(o->free) &&
	       (o->total.low > o->reserved.high + 2 * o->tried.high ||
		(o->tried.low >= BLOCK_BYTES && o->total.low > o->reserved.high + o->tried.high));
}

/* Who has the GPU's memory, and how much there is of it. */
static uint64_t facts_of_card(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;
	bool total = messages_known(o->total), free = messages_known(o->free);
	bool others = messages_known(o->others), allocated = messages_known(o->allocated);

	return when(t->ranks != 0, F(RANKS)) |
	       when(free && total && e->wording->class == MESSAGES_BUDGET &&
			    o->free.low >= SMALL_BYTES,
		    F(SHARE)) |
	       when(o->processes >= 2 && others && messages_known(o->tried) &&
			    o->others.low >= o->tried.high,
		    F(SIBLINGS)) |
	       when(free && !total && !allocated && o->free.high < SCARCE_BYTES, F(SCARCE)) |
	       when(t->bound_by == FINDINGS_BOUND_UNKNOWN && is_unseen(o), F(UNSEEN)) |
	       when(total && o->total.high <= SMALL_BYTES, F(SMALL)) |
	       when(others && messages_known(o->allowed) && !total && allocated &&
			    o->others.low > o->allowed.high / 5 * 3,
		    F(BESIDE)) |
	       when(o->device != UINT32_MAX && o->device, F(NOT_FIRST));
}

/* Would the gaps have served the request, or does the text not say? */
static int may_have_gaps(const struct messages_event *e, const struct findings_told *t)
{
	const struct messages_oom *o = &e->oom;

	if (messages_known(t->request) && messages_known(t->room))
		return !messages_known(o->unallocated) || o->unallocated.high >= t->request.low;
	return (!messages_known(o->tried) || !messages_known(o->free)) &&
	       e->wording->family != MESSAGES_LIBRARY;
}

/* What the numbers tell, and what they let a row say. */
static uint64_t facts_of_numbers(const struct messages_event *e, const struct findings_told *t)
{
	return facts_of_request(e) | facts_of_card(e, t) |
	       when(e->tokens_fit != PLIM_UNKNOWN && e->tokens_fit, F(TOKENS)) |
	       when(may_have_gaps(e, t), F(GAPS)) |
	       when(messages_known(e->limit) && e->limit.high, F(LIMIT));
}

#define SHARE_MOST 0.97 /* a GPU's context and the driver take the rest */
#define SHARE_FAR 0.1
#define SHARE_ALL 0.97 /* far above vLLM's own 0.9, where the text shows no share */

/* The share that would hold what a server lacks; 0: the text does not say, > SHARE_MOST: none would. */
static double share_wanted(const struct messages_event *e)
{
	const struct messages_oom *o = &e->oom;

	if (!messages_known(e->lacks) || !messages_known(o->total) || e->share <= 0 || e->share > 1)
		return 0;
	return e->share + 0.02 + (double)e->lacks.high / (double)o->total.low;
}

static uint64_t facts_of_share(const struct messages_event *e, const struct messages_context *c)
{
	const struct messages_set *set = &c->set[MESSAGES_SET_SHARE];
	double wanted = share_wanted(e);
	uint64_t facts = wanted > SHARE_MOST ? F(LACKS) : wanted > 0 ? F(RAISE) : 0;

	/* the KV cache fills no more than the share: what is far above it is weights and activations */
	if (e->wording->class == MESSAGES_DEVICE && messages_known(e->oom.allocated) &&
	    messages_known(e->oom.total) &&
	    (double)e->oom.allocated.low >
		    (set->line && set->value > 0 ? set->value + SHARE_FAR : SHARE_ALL) *
			    (double)e->oom.total.high)
		facts |= F(WEIGHTS);
	return facts;
}

/* Whose limit of host memory it was. */
static uint64_t facts_of_limit(const struct messages_event *e)
{
	if (e->wording->family == MESSAGES_SLURM || strstr(e->group, "slurm"))
		return F(SLURM);
	if (e->wording->family == MESSAGES_KUBERNETES || strstr(e->group, "kubepods"))
		return F(KUBERNETES);
	if (strstr(e->group, "docker"))
		return F(DOCKER);
	/* who has words of his own has a setting of his own */
	return findings_own_limit(e) || (e->wording->class == MESSAGES_CGROUP_KILL &&
					 e->wording->family == MESSAGES_LAUNCHER)
		       ? F(OWN_LIMIT)
		       : 0;
}

/* Which system and which of its programs it was. */
static uint64_t facts_of_program(const struct messages_event *e, const struct messages_context *c)
{
	enum messages_class class = e->wording->class;
	enum messages_family family = e->wording->family;
	bool tried = messages_known(e->oom.tried);

	return when(!strncmp(e->process, "python", 6) || family == MESSAGES_PYTHON ||
			    family == MESSAGES_DATALOADER,
		    F(PYTHON)) |
	       when(family == MESSAGES_NCCL, F(NCCL)) |
	       when(family == MESSAGES_LLAMA_CPP, F(GGML)) |
	       when(family == MESSAGES_DATALOADER || strstr(e->text, "/torch_"), F(WORKERS)) |
	       when(tried && e->oom.tried.low >= LARGE_BYTES, F(LARGE)) |
	       when(class == MESSAGES_HOST && family != MESSAGES_DATALOADER && tried &&
			    e->oom.tried.high < LITTLE_BYTES,
		    F(FILLED)) |
	       when((class == MESSAGES_HOST_KILL || class == MESSAGES_CGROUP_KILL) &&
			    messages_known(e->rss) && e->rss.high && e->rss.high < LITTLE_BYTES,
		    F(FILLED)) |
	       when(strstr(e->text, "1455") || strstr(e->traceback.user.file, ":\\") ||
			    c->set[MESSAGES_SET_WINDOWS].line,
		    F(WINDOWS));
}

static uint64_t facts_of(const struct messages_event *e, const struct findings_told *t,
			 const struct messages_context *c)
{
	bool outside = messages_known(t->outside);
	uint64_t facts = when(outside && t->bound_by == FINDINGS_BOUND_UNKNOWN && would_serve(e, t),
			      F(OUTSIDE));

	facts |= facts_of_words(e) | facts_of_numbers(e, t) | facts_of_sizes(e, t) |
		 facts_of_share(e, c) | facts_of_limit(e) | facts_of_program(e, c);
	/* without expandable segments: the words of up to 2.0 */
	return facts | when(t->free_enough, F(FREE)) |
	       when(t->elsewhere || !messages_known(e->oom.reserved) ||
			    (outside && t->outside.low > e->oom.reserved.high),
		    F(ELSEWHERE)) |
	       when(is_fork(e, c), F(FORK)) | when(findings_one_buffer(e, c), F(ONE_BUFFER)) |
	       when(findings_own_heap(e), F(HEAP)) |
	       when(strstr(e->wording->pattern, "THCudaCheck") || strstr(e->text, " cached)"),
		    F(EARLY)) |
	       when(facts & F(OUTSIDE) || t->bound_by == FINDINGS_BOUND_OTHER_PROCESS, F(HELD)) |
	       when(c->set[MESSAGES_SET_DECODING].line, F(DECODING)) |
	       when(facts & F(WINDOWS) || e->oom.old_format ||
			    strstr(e->text, "already allocated;"),
		    F(FIXED));
}

/* Of which settings the text shows that no more of them can help. */
static uint64_t spent_of(const struct messages_context *c)
{
	uint64_t spent = 0;

	_Static_assert(MESSAGES_TASKS <= 64, "a bit for each setting");
	for (unsigned i = 0; i < MESSAGES_TASKS; i++)
		spent |= c->set[i].line && c->set[i].spent ? (uint64_t)1 << i : 0;
	return spent;
}

static uint64_t tasks_of(const struct messages_context *c)
{
	uint64_t tasks = 0;

	for (unsigned i = MESSAGES_TASKS; i < MESSAGES_SETTINGS; i++)
		tasks |= c->set[i].line ? (uint64_t)1 << (i - MESSAGES_TASKS) : 0;
	return tasks;
}

/* What only a program in Python can be reported. */
static int is_pythons(const char *text)
{
	static const char *const words[] = { "torch.",      "tf.",         "jax.",
					     "cudf",        "rmm.",        "python ",
					     "DataLoader",  "num_workers", "x.item()",
					     "numpy",       "per_device_", "from_pretrained",
					     "Transformers" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (text && strstr(text, words[i]))
			return 1;
	return 0;
}

int advice_row_fits(const struct advice_row *r, const struct advice_case *x)
{
	const struct messages_context *c = x->context;
	uint64_t spent = spent_of(c), tasks = tasks_of(c);
	unsigned possible = 0;

	for (size_t i = 0; i < x->told->ranked_count; i++)
		possible |= 1u << x->told->ranked[i];
	if (r->unless & spent || (r->set && !(r->set & spent)))
		return 0;
	if (x->facts & F(HEAP) && !(r->facts & F(HEAP)))
		return 0;
	if (tasks & 1ULL << (MESSAGES_TASK_NATIVE - MESSAGES_TASKS) &&
	    (is_pythons(r->text) || is_pythons(r->first) || is_pythons(r->fix)))
		return 0;
	if (r->not_tasks & tasks || (r->tasks && !(r->tasks & tasks)))
		return 0;
	return advice_fits(r->kinds, x->event->wording->class) &&
	       advice_fits(r->bounds, x->told->bound_by) &&
	       advice_fits(r->moments, findings_moment(x->event, c)) &&
	       advice_fits(r->engines, c->engine) && advice_fits(r->doing, c->activity) &&
	       advice_fits(r->backends, c->backend) && (r->facts & x->facts) == r->facts &&
	       !(r->without & x->facts) && (!r->causes || r->causes & possible) &&
	       (!r->only || !(possible & ~r->only));
}

static int is_later(const struct advice_row *r, const struct findings_told *t)
{
	return r->last || (r->causes && t->ranked_count && !(r->causes & 1u << t->ranked[0]));
}

/* ---- what a row says of this failure ---- */

#define MORE_NUM 3 /* of a limit that did not do: half as much again, in whole GiB */
#define MORE_DEN 2

/* A step below a share that is set, half of a size, if that is at most what is advised otherwise. */
#define STEP_DOWN 0.1
static double lowered(const struct messages_context *c, enum messages_setting s, double otherwise)
{
	double value = c->set[s].line ? c->set[s].value : -1;

	if (otherwise < 1)
		return value > 2 * STEP_DOWN && value <= 1 ? value - STEP_DOWN : otherwise;
	if (!(value >= 1))
		return otherwise;
	return value <= 1 ? 1 : value <= otherwise ? floor(value / 2) : otherwise;
}

#define GRID 32 /* an edge is a multiple of it */

/* An edge of three quarters of what is set; 0: it is not known, or none is smaller. */
static unsigned smaller_edge(const struct messages_context *c)
{
	const struct messages_set *set = &c->set[MESSAGES_SET_IMAGE];

	return set->line && set->value > GRID && set->value < 1e5
		       ? (unsigned)(set->value * 3 / 4) / GRID * GRID
		       : 0;
}

/* Sizes that a program is started with. */
static const struct {
	const char *name;
	enum messages_setting set;
	double otherwise; /* below 1: a share */
} sizes[] = {
	{ "sequences}", MESSAGES_SET_SEQUENCES, 64 }, { "batched}", MESSAGES_SET_BATCHED, 4096 },
	{ "length}", MESSAGES_SET_LENGTH, 8192 },     { "chunk}", MESSAGES_SET_CHUNK, 2048 },
	{ "running}", MESSAGES_SET_RUNNING, 32 },     { "context}", MESSAGES_SET_CONTEXT, 8192 },
	{ "graphs}", MESSAGES_SET_GRAPH_BATCH, 16 },  { "few}", MESSAGES_SET_SEQUENCES, 16 },
	{ "short}", MESSAGES_SET_CONTEXT, 4096 },     { "sequence}", MESSAGES_SET_LENGTH, 2048 },
	{ "batch}", MESSAGES_SET_BATCH, 8 },          { "static}", MESSAGES_SET_STATIC, 0.8 },
	{ "utilization}", MESSAGES_SET_SHARE, 0.8 },
};

static void value_of(const char *name, const struct messages_event *e,
		     const struct messages_context *c, char *out, size_t size)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (strncmp(name, sizes[i].name, strlen(sizes[i].name)) != 0)
			continue;
		snprintf(out, size, sizes[i].otherwise < 1 ? "%.2f" : "%.0f",
			 lowered(c, sizes[i].set, sizes[i].otherwise));
		return;
	}
	if (!strncmp(name, "resolution}", 11)) {
		snprintf(out, size, "%u", smaller_edge(c) ? smaller_edge(c) : 512);
	} else if (!strncmp(name, "share}", 6)) {
		snprintf(out, size, "%.2f",
			 floor(100 * (double)e->oom.free.low / (double)e->oom.total.high) / 100);
	} else if (!strncmp(name, "raise}", 6)) {
		snprintf(out, size, "%.2f", (double)(int)(share_wanted(e) * 100 + 0.99) / 100);
	} else if (!strncmp(name, "tokens}", 7)) {
		snprintf(out, size, "%llu", (unsigned long long)e->tokens_fit);
	} else {
		snprintf(out, size, "%lluG",
			 (unsigned long long)((e->limit.high / MORE_DEN * MORE_NUM >> 30) + 1));
	}
}

/* A batch of 1 is not made smaller: "a smaller batch or input" is "a smaller input". */
static void leave_batch(char *text)
{
	char *at = strstr(text, "a smaller batch");
	size_t n;

	if (!at)
		return;
	at += strlen("a smaller ");
	n = !strncmp(at, "batch or ", 9) ? 9 : !strncmp(at, "batch, input", 12) ? 7 : 0;
	memmove(at, at + n, strlen(at + n) + 1);
}

/* The text with its {names} replaced; of at most `n` bytes of it. */
static const char *filled(const char *text, size_t n, const struct messages_event *e,
			  const struct messages_context *c, char *out, size_t size)
{
	size_t to = 0;

	for (size_t i = 0; i < n && to + 32 < size;) {
		size_t skip = text[i] == '{' ? strcspn(text + i, "} ") : 0;

		if (skip && text[i + skip] == '}') {
			value_of(text + i + 1, e, c, out + to, size - to);
			to += strlen(out + to);
			i += skip + 1;
		} else {
			out[to++] = text[i++];
		}
	}
	out[to] = 0;
	if (c->set[MESSAGES_SET_BATCH].line && c->set[MESSAGES_SET_BATCH].spent)
		leave_batch(out);
	return out;
}

/* Up to the first colon, semicolon or bracket. */
static size_t brief(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if ((strchr(":;", text[i]) && text[i + 1] == ' ') ||
		    (text[i] == ' ' && text[i + 1] == '('))
			return i;
	return n;
}

/* Is this, `n` bytes long, the beginning of what is there already, as one of several alternatives? */
static int is_offered(const struct findings_advised *out, const char *what, size_t n)
{
	for (size_t i = 0; i < out->action_count; i++) {
		const char *words = out->actions[i].what;

		if (!strncmp(words, what, n) &&
		    (!words[n] || words[n] == ',' || !strncmp(words + n, " or ", 4)))
			return 1;
	}
	return 0;
}

/* "A, or B b" after "A" is "B b". */
static const char *not_offered(const struct findings_advised *out, const char *what)
{
	const char *other = strstr(what, " or ");
	size_t n = other ? (size_t)(other - what) : 0;

	n -= n && what[n - 1] == ',';
	if (n && strchr(other + strlen(" or "), ' ') && is_offered(out, what, n))
		return other + strlen(" or ");
	return what;
}

/* One more thing to do, if there is room and it is not there yet. */
static struct findings_action *add_action(struct findings_advised *out, const char *what)
{
	struct findings_action *to = &out->actions[out->action_count];

	what = not_offered(out, what);
	if (out->action_count == FINDINGS_ACTIONS || !*what || is_offered(out, what, strlen(what)))
		return NULL;
	snprintf(to->what, sizeof(to->what), "%s", what);
	*to->fix = 0;
	to->example = 0;
	out->action_count++;
	return to;
}

/* The value that the text shows to be set of the first {size} in the words; < 0: none. */
static double value_set(const char *words, const struct messages_context *c)
{
	const char *at = strchr(words, '{');
	const struct messages_set *set = NULL;

	for (size_t i = 0; at && !set && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (!strncmp(at + 1, sizes[i].name, strlen(sizes[i].name)))
			set = &c->set[sizes[i].set];
	return set && set->line && set->value > 0 ? set->value : -1;
}

/* What the row says to do, with the value that is set: "--gpu-memory-utilization 0.80 (0.9 now)". */
static const char *action_of(const struct advice_row *r, const struct messages_event *e,
			     const struct messages_context *c, char *out, size_t size)
{
	const char *words = r->first ? r->first : r->text;
	double now = value_set(words, c);
	size_t n;

	filled(words, r->first ? strlen(words) : brief(words), e, c, out, size);
	n = strlen(out);
	if (now > 0)
		snprintf(out + n, size - n, " (%.10g now)", now);
	return out;
}

static void advise_action(const struct advice_row *r, const struct messages_event *e,
			  const struct messages_context *c, struct findings_advised *out)
{
	char text[512];
	struct findings_action *action = add_action(out, action_of(r, e, c, text, sizeof(text)));

	if (action && r->fix) {
		filled(r->fix, strlen(r->fix), e, c, action->fix, sizeof(action->fix));
		action->example = r->example;
	}
}

static void advise(const struct advice_row *r, const struct messages_event *e,
		   const struct messages_context *c, struct findings_advised *out)
{
	char text[512];

	lines_add(&out->lists[r->list], "%s",
		  filled(r->text, strlen(r->text), e, c, text, sizeof(text)));
	if (r->list == FINDINGS_HELPS)
		advise_action(r, e, c, out);
}

/* What helps against gaps alone, where they would have served the request; NULL: they would not, or nothing helps. */
static const struct advice_row *against_gaps(const struct advice_case *x)
{
	for (size_t i = 0; x->facts & F(AMONG) && i < advice_row_count; i++) {
		const struct advice_row *r = &advice_rows[i];

		if (r->list == FINDINGS_HELPS && !r->last &&
		    r->causes == 1u << FINDINGS_CAUSE_FRAGMENTATION && advice_row_fits(r, x))
			return r;
	}
	return NULL;
}

static void advise_all(const struct messages_event *e, const struct findings_told *t,
		       const struct messages_context *c, struct findings_advised *out)
{
	const struct advice_case x = { e, t, c, facts_of(e, t, c) };
	const struct advice_row *gaps = against_gaps(&x);

	/* those that are about the likeliest cause come before those that are about the others */
	for (int later = 0; later < 2; later++)
		for (size_t i = 0; i < advice_row_count; i++) {
			const struct advice_row *r = &advice_rows[i];

			if (!advice_row_fits(r, &x) || is_later(r, t) != later)
				continue;
			/* the last place is for what the numbers show, though it is not the likeliest */
			if (gaps && out->action_count + 1 == FINDINGS_ACTIONS)
				advise_action(gaps, e, c, out);
			advise(r, e, c, out);
		}
}

void findings_advise(const struct messages_event *e, const struct findings_told *t,
		     const struct messages_context *c, struct findings_advised *out)
{
	const char *own = c->set[MESSAGES_TASK_NATIVE].line && is_pythons(e->wording->advice)
				  ? NULL
				  : e->wording->advice;
	struct messages_context unnamed = *c;

	char text[512];

	out->action_count = 0;
	if (own) {
		lines_add(&out->lists[FINDINGS_HELPS], "%s", own);
		add_action(out, filled(own, brief(own), e, c, text, sizeof(text)));
	}
	if (findings_untold(e))
		return;
	advise_all(e, t, c, out);
	/* a program without rows here gets the general advice */
	unnamed.engine = MESSAGES_ENGINE_UNKNOWN;
	if (!out->action_count)
		advise_all(e, t, &unnamed, out);
}
