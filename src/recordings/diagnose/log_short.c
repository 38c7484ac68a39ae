/*
 * The short answer on a failure that only its text shows: one sentence of what ran out and how far, one of who held it, and
 * what is not decided.  No number stands in two of them.
 */
#include "diagnose.h"

#include <stdio.h>
#include <string.h>

/* A GPU with less free than this part of it is full: the driver's own pieces are some MiB. */
#define FULL_PART 20

/* The sizes of a sentence, each in a buffer of its own. */
struct sizes {
	char at[4][MESSAGES_SIZE];
};

/* "GPU 0", "GPU", "TPU". */
static const char *gpu_name(const struct messages_event *e, const struct messages_context *c,
			    char out[24])
{
	const char *kind = c->backend == MESSAGES_BACKEND_TPU ? "TPU" : "GPU";

	if (e->oom.device != UINT32_MAX)
		snprintf(out, 24, "%s %u", kind, e->oom.device);
	else
		snprintf(out, 24, "%s", kind);
	return out;
}

static const char *own_name(const struct messages_context *c)
{
	return c->engine && messages_engines[c->engine].name ? messages_engines[c->engine].name
							     : "the program";
}

/* ---- what ran out ---- */

/* The GPU's memory, of which the text has numbers. */
static void say_sizes(const struct messages_event *e, const struct messages_context *c,
		      const char *gpu, char *out, size_t size)
{
	const struct messages_oom *o = &e->oom;
	struct sizes z;
	const char *tried = messages_size(z.at[0], o->tried);
	const char *total = messages_size(z.at[1], o->total);

	if (messages_known(o->tried) && messages_known(o->free) && messages_known(o->total))
		snprintf(out, size, "%s%s: %s refused with %s of %s free", gpu,
			 o->free.low < o->total.low / FULL_PART ? " full" : "", tried,
			 messages_size(z.at[2], o->free), total);
	else if (messages_known(e->used) && messages_known(o->total) &&
		 e->wording->family == MESSAGES_JAX)
		snprintf(out, size, "%s too small: the compiled program needs %s, it has %s", gpu,
			 messages_size(z.at[2], e->used), total);
	else if (messages_known(e->limit) && messages_known(e->used) && messages_known(o->tried))
		snprintf(out, size, "%s: %s's pool of %s is full: %s refused, %s in use", gpu,
			 own_name(c), messages_size(z.at[2], e->limit), tried,
			 messages_size(z.at[3], e->used));
	else if (messages_known(o->tried) && messages_known(o->total))
		snprintf(out, size, "%s out of memory: %s refused, it has %s", gpu, tried, total);
	else if (messages_known(o->tried) && messages_known(o->free))
		snprintf(out, size, "%s full: %s refused with %s free", gpu, tried,
			 messages_size(z.at[2], o->free));
	else if (messages_known(o->tried))
		snprintf(out, size, "%s out of memory: %s refused", gpu, tried);
	else if (messages_known(e->used) && messages_known(o->total))
		snprintf(out, size, "%s full: a request was refused with %s of %s in use", gpu,
			 messages_size(z.at[2], e->used), total);
	else
		snprintf(out, size, "%s out of memory: %s", gpu,
			 e->wording->says ? e->wording->says
					  : "a request was refused (the text has no sizes)");
}

/* A limit of this process, or of what the system grants its GPU. */
static void say_limit(const struct messages_event *e, const char *gpu, char *out, size_t size)
{
	const struct messages_oom *o = &e->oom;
	struct sizes z;

	messages_size(z.at[0], o->allowed);
	messages_size(z.at[1], o->tried);
	if (messages_known(o->others) && !messages_known(o->total))
		snprintf(out, size, "%s may use %s of this machine's memory: %s refused", gpu,
			 z.at[0], z.at[1]);
	else
		snprintf(out, size, "%s: this process may use %s of it: %s refused", gpu, z.at[0],
			 z.at[1]);
}

static void say_device(const struct messages_event *e, const struct findings_told *t,
		       const struct messages_context *c, char *out, size_t size)
{
	const struct messages_oom *o = &e->oom;
	const char *pattern = e->wording->pattern;
	char name[24];
	const char *gpu = gpu_name(e, c, name);
	struct sizes z;
	const char *tried = messages_size(z.at[0], o->tried);

	if (strstr(pattern, "CUBLAS_STATUS_ALLOC"))
		snprintf(out, size,
			 "%s: cuBLAS could not start: the GPU was full, or an index was out of "
			 "range",
			 gpu);
	else if (findings_one_buffer(e, c) && messages_known(o->tried))
		snprintf(out, size, "%s: %s refused in one buffer: the driver gives none so large",
			 gpu, tried);
	else if (strstr(pattern, "unified memory") && messages_known(o->tried))
		snprintf(out, size, "%s: %s of unified memory refused, the host's and the GPU's",
			 gpu, tried);
	else if (messages_known(o->tried) && messages_known(o->total) &&
		 o->tried.low > o->total.high)
		snprintf(out, size, "%s too small: %s was asked for at once, it has %s", gpu, tried,
			 messages_size(z.at[1], o->total));
	else if (t->bound_by == FINDINGS_BOUND_LIMIT && messages_known(o->allowed) &&
		 messages_known(o->tried))
		say_limit(e, gpu, out, size);
	else if (t->free_enough)
		snprintf(out, size, "%s not full: %s refused with %s free", gpu, tried,
			 messages_size(z.at[1], o->free));
	else
		say_sizes(e, c, gpu, out, size);
}

static void say_budget(const struct messages_event *e, const struct messages_context *c, char *out,
		       size_t size)
{
	const struct messages_oom *o = &e->oom;
	const char *named = messages_engines[c->engine].name;
	const char *who = c->engine && named ? named : "the server";
	struct sizes z;

	if (e->wording->says && strstr(e->wording->says, "not the GPU"))
		snprintf(out, size, "%s", e->wording->says);
	else if (e->tokens_wanted != PLIM_UNKNOWN && e->tokens_fit != PLIM_UNKNOWN)
		snprintf(out, size, "%s's KV cache holds %llu tokens; one request may have %llu",
			 who, (unsigned long long)e->tokens_fit,
			 (unsigned long long)e->tokens_wanted);
	else if (messages_known(o->free) && messages_known(o->total) && messages_known(e->limit))
		snprintf(out, size, "%s wants %s of the GPU's %s; %s was free", who,
			 messages_size(z.at[0], e->limit), messages_size(z.at[1], o->total),
			 messages_size(z.at[2], o->free));
	else if (messages_known(o->tried) && messages_known(o->free))
		snprintf(
			out, size,
			"%s's share of the GPU leaves %s for the KV cache; one request may need %s",
			who, messages_size(z.at[1], o->free), messages_size(z.at[0], o->tried));
	else
		snprintf(out, size, "%s's share of the GPU was too small", who);
}

static void say_host(const struct messages_event *e, char *out, size_t size)
{
	const struct messages_oom *o = &e->oom;
	const char *says = e->wording->says ? e->wording->says : "";
	struct sizes z;

	messages_size(z.at[0], o->tried);
	if (strstr(says, "Windows"))
		snprintf(out, size, "Windows' page file is too small: no more memory was promised");
	else if (!strncmp(says, "Ray's monitor", 13))
		snprintf(out, size, "host memory: Ray stopped the task, its node was nearly full");
	else if (findings_own_heap(e) || strstr(says, "guardrail"))
		snprintf(out, size, "host memory: %s", says);
	else if (strstr(says, "pin host"))
		snprintf(out, size, "host memory: %s could not be pinned",
			 messages_known(o->tried) ? z.at[0] : "a part");
	else if (messages_known(o->tried) && messages_known(o->free))
		snprintf(out, size, "host memory full: %s refused with %s free", z.at[0],
			 messages_size(z.at[1], o->free));
	else if (messages_known(o->tried))
		snprintf(out, size, "host memory full: %s refused", z.at[0]);
	else
		snprintf(out, size, "host memory full: a request was refused");
}

/* Who was killed, and at which limit. */
static void say_victim(const struct diagnose_text *x, const struct findings_told *t, char *out,
		       size_t size)
{
	const struct messages_event *e = x->event;
	const char *who = x->process ? x->process : "the process";
	char used[80] = "";
	struct sizes z;

	if (messages_known(e->used) && messages_known(e->limit))
		snprintf(used, sizeof(used), ": %s of %s in use", messages_size(z.at[0], e->used),
			 messages_size(z.at[1], e->limit));
	else if (messages_known(e->limit))
		snprintf(used, sizeof(used), " of %s", messages_size(z.at[1], e->limit));
	if (e->wording->class == MESSAGES_CGROUP_KILL)
		snprintf(out, size, "host memory: %s was killed at the limit of its %s%s%s", who,
			 e->wording->family == MESSAGES_SLURM ? "job" : "job or container", used,
			 t->bound_certain ? "" : " (usually; the text does not prove it)");
	else if (e->wording->class == MESSAGES_HOST_KILL)
		snprintf(out, size, "host memory: %s was killed because the machine ran short%s%s",
			 who, used, t->bound_certain ? "" : ", or its limit did");
	else if (e->wording->family == MESSAGES_KUBERNETES)
		snprintf(out, size, "the container was killed, not at its own memory limit");
	else if (!e->wording->sure)
		snprintf(out, size, "%s",
			 e->wording->says && e->wording->family != MESSAGES_WORDS
				 ? e->wording->says
				 : "a process ended without a word: killed for host "
				   "memory, or a crash");
	else
		snprintf(out, size, "%s was killed (SIGKILL), usually for host memory", who);
}

const char *diagnose_headline(const struct diagnose_text *x, const struct findings_told *t,
			      const struct messages_context *c, struct plim_err *err)
{
	const struct messages_event *e = x->event;
	char words[320];

	switch (e->wording->class) {
	case MESSAGES_DEVICE: say_device(e, t, c, words, sizeof(words)); break;
	case MESSAGES_BUDGET: say_budget(e, c, words, sizeof(words)); break;
	case MESSAGES_HOST: say_host(e, words, sizeof(words)); break;
	case MESSAGES_SHARED:
		snprintf(words, sizeof(words), "/dev/shm ran out, not the GPU");
		break;
	default:
		if (findings_untold(e))
			snprintf(
				words, sizeof(words),
				"out of memory, the GPU's or the machine's: the text does not say");
		else
			say_victim(x, t, words, sizeof(words));
	}
	if (e->caught_line)
		return arena_text(x->arena, err, "%s; caught, it went on%s", words,
				  e->traceback.moment == MESSAGES_SAVING ? ": check what it saved"
									 : "");
	return arena_text(x->arena, err, "%s%s", words,
			  e->wording->family == MESSAGES_WORDS && !findings_untold(e)
				  ? " (a sentence says so, no message)"
				  : "");
}

/* ---- who held it ---- */

#define HOLDERS_NAMED 3

/* ", PID 441650 30.51 GiB, PID 449657 1022 MiB" */
static void say_holders(const struct messages_oom *o, char *out, size_t size)
{
	uint32_t n = o->processes < HOLDERS_NAMED ? o->processes : HOLDERS_NAMED;
	char a[MESSAGES_SIZE];

	for (uint32_t i = 0; i < n && strlen(out) + 64 < size; i++)
		snprintf(out + strlen(out), size - strlen(out), ", PID %llu%s%s",
			 (unsigned long long)o->holders[i].pid, o->holders[i].bytes.high ? " " : "",
			 o->holders[i].bytes.high ? messages_size(a, o->holders[i].bytes) : "");
	if (o->processes > n && strlen(out) + 24 < size)
		snprintf(out + strlen(out), size - strlen(out), " and %u more", o->processes - n);
}

/* "94.2 GiB", with what of it lay outside PyTorch or was not in use. */
static void say_own(const struct messages_event *e, const struct findings_told *t, char *out,
		    size_t size)
{
	const struct messages_oom *o = &e->oom;
	struct sizes z;

	/* what is mapped twice, or not at all (a server that sleeps), is counted all the same */
	int is_known = messages_known(o->this_process);
	int over = is_known && o->this_process.high < o->reserved.low;
	/* a limit is PyTorch's own, and counts no context */
	int is_whole = is_known && (over || t->bound_by != FINDINGS_BOUND_LIMIT);

	if (messages_known(t->own_outside) && t->own_outside.low >= (uint64_t)1 << 30) {
		snprintf(out, size, "this process, %s in PyTorch and %s outside it",
			 messages_size(z.at[0], over ? o->this_process : o->reserved),
			 messages_size(z.at[1], t->own_outside));
		return;
	}
	messages_size(z.at[0], is_whole ? o->this_process : o->reserved);
	if (!over && messages_known(o->unallocated) && messages_known(o->tried) &&
	    o->unallocated.low >= o->tried.high)
		snprintf(out, size, "this process, %s (%s unused)", z.at[0],
			 messages_size(z.at[1], o->unallocated));
	else
		snprintf(out, size, "this process, %s%s", z.at[0],
			 over || !is_known || o->processes ? ""
			 : is_whole                        ? ", nearly all PyTorch's"
							   : ", all PyTorch's");
}

static const char *device_held(const struct diagnose_text *x, const struct findings_told *t,
			       struct plim_err *err)
{
	const struct messages_oom *o = &x->event->oom;
	char own[160] = "", others[400] = "", a[MESSAGES_SIZE];

	if (!messages_known(o->reserved) && !messages_known(o->allocated))
		return NULL;
	if (messages_known(o->reserved))
		say_own(x->event, t, own, sizeof(own));
	else
		snprintf(own, sizeof(own), "this process, %s",
			 messages_size(a, messages_known(o->this_process) ? o->this_process
									  : o->allocated));
	if (o->processes)
		say_holders(o, others, sizeof(others));
	else if (messages_known(t->outside) && t->bound_by == FINDINGS_BOUND_UNKNOWN)
		snprintf(others, sizeof(others), "; %s by others or outside PyTorch",
			 messages_size(a, t->outside));
	else if (messages_known(o->total) && messages_known(o->allocated) &&
		 !messages_known(o->reserved) && !messages_known(o->free) &&
		 o->total.low > o->allocated.high)
		snprintf(others, sizeof(others), "; %s cached, free or held by others",
			 messages_size(a, messages_less(o->total, o->allocated)));
	else if (messages_known(o->others) && o->others.high && !messages_known(o->total))
		snprintf(others, sizeof(others), "; %s by other allocations",
			 messages_size(a, o->others));
	return arena_text(x->arena, err, "%s%s%s", own, others,
			  t->ranks == 2   ? ": ranks of this job on one GPU"
			  : t->ranks == 1 ? " (maybe a rank of this job)"
			  : o->own_listed && !messages_known(o->others)
				  ? " (one of these is this process)"
				  : "");
}

const char *diagnose_held(const struct diagnose_text *x, const struct findings_told *t,
			  struct plim_err *err)
{
	const struct messages_event *e = x->event;
	char a[MESSAGES_SIZE];

	if (e->wording->class == MESSAGES_DEVICE)
		return device_held(x, t, err);
	if (!messages_known(e->rss) || !e->rss.high)
		return NULL;
	return arena_text(x->arena, err, "%s, %s", x->process ? x->process : "that process",
			  messages_size(a, e->rss));
}

/* ---- what is not decided ---- */

static int may_be(const struct findings_told *t, enum findings_cause cause)
{
	for (size_t i = 0; i < t->ranked_count; i++)
		if (t->ranked[i] == cause)
			return 1;
	return 0;
}

/* More was asked for at once than this process holds: neither what it kept nor its gaps are in question. */
static int held_little(const struct messages_oom *o)
{
	struct messages_bytes own = messages_known(o->reserved) ? o->reserved : o->allocated;

	return messages_known(own) && messages_known(o->tried) && own.high < o->tried.low;
}

/* A recording decides it, if one is advised (data/advice.rows), of a program that works step by step. */
const char *diagnose_open(const struct diagnose_text *x, const struct findings_told *t,
			  const struct messages_context *c, const struct lines *certainty)
{
	const char *leak = may_be(t, FINDINGS_CAUSE_LEAK) ? "a leak" : NULL;
	const char *gaps = may_be(t, FINDINGS_CAUSE_FRAGMENTATION) ? "gaps" : NULL;
	int shown = c->script && !x->redacts;

	if (t->cause || (!leak && !gaps) || held_little(&x->event->oom) || !certainty->n ||
	    !strstr(certainty->at[0], "plimsoll record -- python train.py"))
		return NULL;
	return arena_text(x->arena, certainty->err, "%s%s%s or too much? plimsoll record -- %s%s",
			  leak ? leak : "", leak && gaps ? "," : "",
			  gaps ? (leak ? " gaps" : gaps) : "", shown ? "python " : "",
			  shown ? c->script : "COMMAND");
}
