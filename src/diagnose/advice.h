/* The rows of advice on a failure that only its text tells (advice_rows.c), and whom each is for. */
#ifndef PLIMSOLL_DIAGNOSE_ADVICE_H
#define PLIMSOLL_DIAGNOSE_ADVICE_H

#include "diagnose.h"

#define KIND(k) (1u << MESSAGES_##k)
#define AT(m) (1u << MESSAGES_##m)
#define BY(b) (1u << FINDINGS_BOUND_##b)
#define OF(c) (1u << FINDINGS_CAUSE_##c)
#define IN(e) ((uint64_t)1 << MESSAGES_ENGINE_##e)
#define DOING(a) (1u << MESSAGES_DOING_##a)
#define ON(b) (1u << MESSAGES_BACKEND_##b)

#define GPU KIND(DEVICE)
#define KILLS (KIND(CGROUP_KILL) | KIND(HOST_KILL) | KIND(KILLED))
#define HOSTS (KILLS | KIND(HOST))
#define OWN_CARD (BY(DEVICE) | BY(LIMIT) | BY(UNKNOWN))
#define SET(s) ((uint64_t)1 << MESSAGES_SET_##s)
#define TASK(t) ((uint64_t)1 << (MESSAGES_TASK_##t - MESSAGES_TASKS))
#define TRAINERS (IN(AXOLOTL) | IN(LLAMA_FACTORY) | IN(UNSLOTH) | IN(VERL) | IN(TRL))
#define OTHER_TRAINERS (IN(MEGATRON) | IN(ULTRALYTICS)) /* on PyTorch, with flags of their own */
#define TORCH (IN(PYTORCH) | IN(DEEPSPEED) | TRAINERS | OTHER_TRAINERS)
#define WEB_PICTURES (IN(A1111) | IN(FORGE))
#define PICTURES (IN(COMFYUI) | WEB_PICTURES | IN(DIFFUSERS))
#define GGML_TEXT (IN(OLLAMA) | IN(LLAMA_CPP) | IN(LLAMA_CPP_PYTHON))
/* whose tensors PyTorch's caching allocator holds */
#define CACHED (TORCH | PICTURES | IN(VLLM) | IN(SGLANG) | IN(TGI))
/* of whose flags no list is kept */
#define OTHERS                                                                         \
	(~(IN(UNKNOWN) | TORCH | CACHED | GGML_TEXT | PICTURES | IN(KOHYA) | IN(JAX) | \
	   IN(TENSORFLOW)))
#define RUNS (DOING(GENERATING) | DOING(SERVING))
#define CUDA_LIKE (ON(CUDA) | ON(ROCM))
#define LOADED \
	(~AT(LOADING) & ((1u << MESSAGES_MOMENTS) - 1)) /* weights are there, or it is not known */

/* What is known beside the context. */
enum {
	F_OUTSIDE = 1, /* a large part of the card is neither free nor this program's */
	F_FREE = 2,    /* the driver had more than it was asked for */
	F_WINDOWS = 4,
	F_LARGE = 8, /* one request, of host memory */
	F_PYTHON = 16,
	F_SHARE = 32,          /* what is free of how much: {share} */
	F_TOKENS = 64,         /* how many fit into the KV cache: {tokens} */
	F_SIBLINGS = 128,      /* several other processes hold more than was asked for */
	F_POOL = 256,          /* the engine's own pool was full, not the driver's memory */
	F_BARE = 512,          /* the driver's code alone: no allocator tells what it holds */
	F_BIG = 1024,          /* one request of the card's memory: no other program is to blame */
	F_PINNED = 4096,       /* host memory that the driver pins */
	F_HANDLE = 8192,       /* cuBLAS made no handle: a full card, or a bad index before it */
	F_HUGE = 16384,        /* one request that no card has, or few do */
	F_RAISE = 32768,       /* a larger share would hold what the server lacks: {raise} */
	F_LACKS = 65536,       /* a whole card would not */
	F_ONE_BUFFER = 524288, /* the driver gives no single buffer of that size */
	F_RANKS = 262144,      /* the others on the card may be ranks of this job */
	F_WEIGHTS = 131072,    /* a server's weights alone are more than its share */
	F_FIXED = 1048576,     /* no expandable segments: PyTorch up to 2.0, or Windows */
	F_LIMIT = 2048,        /* of the group's host memory: {more} */
	F_SLURM = 1 << 21,     /* whose limit it was */
	F_KUBERNETES = 1 << 22,
	F_DOCKER = 1 << 23,
	F_OWN_LIMIT = 1 << 24, /* no cgroup's: the program's own (Dask, YARN) */
	F_UNIFIED = 1 << 25,   /* memory that lies in the host's and the card's together */
	F_COPYING = 1 << 30,   /* a copy that does not wait, which pins host memory */
	F_TINY = 1 << 27,      /* next to nothing was asked for */
	F_BESIDE = 1 << 28,    /* of the GPU's share, others hold more than this program */
	F_NOT_FIRST = 1 << 29, /* not the first card */
	F_GAPS = 1 << 26 /* as much lay in gaps as was asked for, or the text has no numbers */
};
#define F_SCARCE     \
	((uint64_t)1 \
	 << 32) /* next to nothing was free, and the text does not tell who has the rest */
#define F_UNSEEN     \
	((uint64_t)1 \
	 << 33) /* what was free is not told, and far more than was asked for is not this program's */
#define F_HALF ((uint64_t)1 << 34)       /* one request of half the card, or more */
#define F_ELSEWHERE ((uint64_t)1 << 36)  /* ... and more of it than PyTorch holds */
#define F_SMALL ((uint64_t)1 << 37)      /* a card of 2 GiB or less */
#define F_FEW_TOKENS ((uint64_t)1 << 38) /* so small a batch did not fit */
#define F_ABSURD ((uint64_t)1 << 39)     /* more than any machine has */
#define F_DECODING ((uint64_t)1 << 40)   /* a picture or video out of its latents */
#define F_STORAGE ((uint64_t)1 << 41)    /* the driver's code, for tensors of PyTorch before 1.0 */
#define F_HEAP ((uint64_t)1 << 42)    /* a heap with a limit of its own: no other row is for it */
#define F_COPIED ((uint64_t)1 << 43)  /* a tensor that TensorFlow copied to the card */
#define F_HELD ((uint64_t)1 << 45)    /* F_OUTSIDE, or by another process that is listed */
#define F_UNGIVEN ((uint64_t)1 << 44) /* no layers were given to the GPU by the command */
#define F_SLOTS ((uint64_t)1 << 46)   /* a server's table of requests was full, and no memory */
#define F_AMONG ((uint64_t)1 << 51)  /* gaps that would have served it, whoever else has the rest */
#define F_XLA ((uint64_t)1 << 56)    /* XLA's words, whoever calls it */
#define F_TEXTS ((uint64_t)1 << 57)  /* an array of texts of one width */
#define F_DRIVER ((uint64_t)1 << 58) /* refused by the driver, not by PyTorch's allocator */
#define F_LENT ((uint64_t)1 << 54)   /* it holds far more than the card has */
#define F_LITTLE ((uint64_t)1 << 55) /* a server's weights are next to nothing */
#define F_CUDA ((uint64_t)1 << 60)   /* the message itself says so */
#define F_TOTAL ((uint64_t)1 << 59)  /* tokens of all requests together did not fit */
#define F_FORK ((uint64_t)1 << 52)   /* a process was refused */
#define F_FILLED ((uint64_t)1 << 49) /* little of a host that was full already */
#define F_NCCL ((uint64_t)1 << 48)   /* its own segments in /dev/shm */
#define F_PINNING ((uint64_t)1 << 35) /* batches were being put into pinned memory */

struct advice_row {
	enum findings_advice list;
	unsigned kinds, bounds, moments, causes,
		only;              /* 0: any; `only`: no other cause is possible */
	uint64_t engines;          /* 0: any */
	unsigned doing, backends;  /* 0: any */
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
extern const struct advice_row advice_rows[];
extern const size_t advice_row_count;

/* A failure, and what is known of it. */
struct advice_case {
	const struct messages_event *event;
	const struct findings_told *told;
	const struct messages_context *context;
	uint64_t facts;
};

int advice_row_fits(const struct advice_row *r, const struct advice_case *x);

#endif
