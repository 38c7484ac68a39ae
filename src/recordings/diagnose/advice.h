/* The rows of advice on a failure that only its text shows (data/advice.rows), and whom each is for. */
#ifndef PLIMSOLL_DIAGNOSE_ADVICE_H
#define PLIMSOLL_DIAGNOSE_ADVICE_H

#include "diagnose.h"

/* What is known with the context: a bit each of advice_row's and advice_case's `facts`. */
enum advice_fact {
	ADVICE_OUTSIDE, /* a large part of the GPU is neither free nor this program's */
	ADVICE_FREE,    /* the driver had more than it was asked for */
	ADVICE_WINDOWS,
	ADVICE_LARGE, /* one request, of host memory */
	ADVICE_PYTHON,
	ADVICE_SHARE,      /* what is free of how much: {share} */
	ADVICE_TOKENS,     /* how many fit into the KV cache: {tokens} */
	ADVICE_SIBLINGS,   /* several other processes hold more than was asked for */
	ADVICE_POOL,       /* the engine's own pool was full, not the driver's memory */
	ADVICE_BARE,       /* the driver's code alone: no allocator says what it holds */
	ADVICE_BIG,        /* one request of the GPU's memory: no other program is to blame */
	ADVICE_PINNED,     /* host memory that the driver pins */
	ADVICE_HANDLE,     /* cuBLAS made no handle: a full GPU, or a bad index before it */
	ADVICE_HUGE,       /* one request that no GPU has, or few do */
	ADVICE_RAISE,      /* a larger share would hold what the server lacks: {raise} */
	ADVICE_LACKS,      /* a whole GPU would not */
	ADVICE_ONE_BUFFER, /* the driver gives no single buffer of that size */
	ADVICE_RANKS,      /* the others on the GPU may be ranks of this job */
	ADVICE_WEIGHTS,    /* a server's weights alone are more than its share */
	ADVICE_FIXED,      /* no expandable segments: PyTorch up to 2.0, or Windows */
	ADVICE_LIMIT,      /* of the group's host memory: {more} */
	ADVICE_SLURM,      /* whose limit it was */
	ADVICE_KUBERNETES,
	ADVICE_DOCKER,
	ADVICE_OWN_LIMIT, /* no cgroup's: the program's own (Dask, YARN) */
	ADVICE_UNIFIED,   /* memory that lies in the host's and the GPU's together */
	ADVICE_COPYING,   /* a copy that does not wait, which pins host memory */
	ADVICE_TINY,      /* next to nothing was asked for */
	ADVICE_BESIDE,    /* of the GPU's share, others hold more than this program */
	ADVICE_NOT_FIRST, /* not the first GPU */
	ADVICE_GAPS,      /* as much lay in gaps as was asked for, or the text has no numbers */
	ADVICE_SCARCE,    /* next to nothing was free, and the text does not say who has the rest */
	ADVICE_UNSEEN, /* what was free is not reported, and far more than was asked for is not this program's */
	ADVICE_HALF,       /* one request of half the GPU, or more */
	ADVICE_ELSEWHERE,  /* ... and more of it than PyTorch holds */
	ADVICE_SMALL,      /* a GPU of 2 GiB or less */
	ADVICE_FEW_TOKENS, /* so small a batch did not fit */
	ADVICE_ABSURD,     /* more than any machine has */
	ADVICE_DECODING,   /* a picture or video out of its latents */
	ADVICE_HEAP,       /* a heap with a limit of its own: no other row is for it */
	ADVICE_COPIED,     /* a tensor that TensorFlow copied to the GPU */
	ADVICE_HELD,       /* F_OUTSIDE, or by another process that is listed */
	ADVICE_SLOTS,      /* a server's table of requests was full, and no memory */
	ADVICE_AMONG,      /* gaps that would have served it, whoever else has the rest */
	ADVICE_XLA,        /* XLA's words, whoever calls it */
	ADVICE_TEXTS,      /* an array of texts of one width */
	ADVICE_DRIVER,     /* refused by the driver, not by an allocator of the program */
	ADVICE_LENT,       /* it holds, or needs, far more than there is */
	ADVICE_LITTLE,     /* a server's weights are next to nothing */
	ADVICE_CUDA,       /* the message itself says so */
	ADVICE_FORK,       /* a process was refused */
	ADVICE_FILLED, /* a host that was full already: little was refused, or held by who was killed */
	ADVICE_NCCL,    /* its own segments in /dev/shm */
	ADVICE_WORKERS, /* a DataLoader's worker died, or a tensor that processes share had no room */
	ADVICE_PINNING, /* batches were being put into pinned memory */
	ADVICE_GGML,    /* a buffer of llama.cpp's, whoever runs it */
	ADVICE_EARLY,   /* a release of PyTorch that records nothing */
	ADVICE_FACTS
};
_Static_assert(ADVICE_FACTS <= 64, "a bit for each fact");

struct advice_row {
	enum findings_advice list;
	/* Sets, a bit for each enumerator; 0: any.  `only`: no other cause is possible. */
	uint64_t kinds, bounds, moments, causes, only, engines, doing, backends;
	uint64_t facts;            /* all of them ... */
	uint64_t without;          /* ... and none of these */
	uint64_t set, unless;      /* settings: one of them is spent; none of them is */
	uint64_t tasks, not_tasks; /* the same of the kinds of work */
	const char *text;
	/* what to do first, for the first sentence; NULL: the text up to its first colon, semicolon or bracket */
	const char *first;
	const char *fix; /* the command or line to change, alone; NULL: there is none */
	int example;     /* its values are examples: the amount is the reader's to choose */
	int last;        /* behind all others, whatever is likeliest */
};
extern const struct advice_row advice_rows[]; /* data/advice.rows */
extern const size_t advice_row_count;
extern const uint64_t advice_torch;  /* engines that work on PyTorch, servers and pictures apart */
extern const uint64_t advice_cached; /* engines whose tensors PyTorch's caching allocator holds */

/* A failure, and what is known of it. */
struct advice_case {
	const struct messages_event *event;
	const struct findings_told *told;
	const struct messages_context *context;
	uint64_t facts;
};

int advice_row_fits(const struct advice_row *r, const struct advice_case *x);

#endif
