// What the words of the page mean, for who points at one; the help lists them all.

const words: Record<string, string> = {
	// measures
	requested: "what the program asked for",
	allocated: "blocks in use: what was asked for, rounded up (torch.cuda.memory_allocated)",
	active: "blocks in use, or freed while another stream still uses them",
	reserved: "what the allocator has taken from the driver (torch.cuda.memory_reserved)",
	memory: "four measures of it, as torch.cuda.memory_stats has them",
	peak: "the most that it was",
	"at event": "when; a press goes there",
	"at the end": "after the last event of the recording",

	// what memory is for
	parameters: "weights: made while a module was built, alive in every pass",
	gradients: "of parameters: made in a backward pass, alive until zero_grad",
	"optimizer state": "what the optimizer keeps from step to step, as Adam's two averages",
	activations: "made in a forward pass and kept for the backward pass",
	inputs: "batches, before a model takes them",
	"cuBLAS workspace": "scratch memory of matrix products, kept for the next one",
	temporaries: "freed in the very pass that they were made in",
	"backward temporaries": "made in a backward pass and freed in it",
	"keys and values": "the cache of a model that generates: it grows with each token",
	buffers: "as parameters, but never trained",
	"outputs kept": "made in a forward pass, and kept by the program itself",
	"outputs kept, or unknown": "kept by the program itself, or nothing says what for",
	unknown: "no rule says what it is for",
	"there before the recording began": "alive at the first event: nothing says who made it",
	"all others": "what is in no band of its own",

	// phases
	phases: "what the program was doing, by the functions on the stacks",
	load: "a model is built or loaded",
	forward: "a forward pass of training",
	backward: "autograd's backward pass",
	optimizer: "a step of the optimizer",
	eval: "a forward pass without training",
	generate: "generation, token by token",
	request: "a request to a server",
	other: "none of the phases that are known",

	// an allocation
	line: "the program's own line that it came from, not the library's",
	stack: "the calls at the moment of the allocation",
	size: "bytes that were asked for, and the block that was given",
	block: "a piece of a segment: the bytes that an allocation takes, rounded up",
	for: "what it was made for, how sure that is, and by which rule",
	rounding: "what the block has more than was asked for",
	category: "what the memory is for",
	address: "on the GPU",
	born: "the event that allocated it",
	freed: "the event at which the program dropped it",
	"given back": "the allocator had its block back later: another stream still used it",
	lived: "from birth to the free",
	"same line": "all that lives at the cursor from the same line of the program",
	below: "the next block at lower addresses",
	above: "the next block at higher addresses",
	"here before": "what had the address last",
	"here after": "what had the address next",

	// lists
	event: "allocations, frees and calls of the driver, counted from 0",
	time: "since the recording's first event; of a change: what it costs in speed",
	what: "the event, as PyTorch names it; or what memory is for",
	bytes: "how large",
	held: "alive at the cursor",
	"of live": "its part of all that lives at the cursor",
	allocations: "how many",
	"change since the mark": "what it has more at the cursor than at the mark",
	"live at the cursor": "of what was found, what is allocated at the cursor's moment",
	"over all time": "of what was found, all that was ever allocated",
	step: "one iteration of the training loop, up to the optimizer's step",
	"from event": "its first event",
	to: "its last event",
	highest: "the most that was allocated in it",
	lowest: "the least that was allocated in it: what climbs from step to step stays",
	"model code": "the innermost line that is not PyTorch's own, whoever wrote it",
	"module path": "the modules that were called on the way, the outermost first",
	lifetime: "events from birth to the free",
	"step of birth": "the step that it was allocated in",

	// the allocator
	segment: "memory that the allocator took from the driver in one call, and hands out in blocks",
	pool: "segments that share blocks: small (up to 1 MiB) or large ones, of the default pool or of a private one",
	stream: "the queue of the GPU that it was allocated on; other streams' free blocks do not serve it",
	"in use": "bytes of its blocks that are allocated",
	blocks: "how many pieces it is divided into",
	"taken at event": "when the driver was asked for it",
	"asked for at": "the line whose request needed it",

	"expandable segments": "segments that grow in place, so that free memory stays in one piece",
	"largest split": "max_split_size_mb: larger free blocks are not divided",
	"collects at": "garbage_collection_threshold: unused segments go back to the driver from there on",
	"rounds up by": "roundup_power2_divisions: parts of a power of two that a request is rounded up to",

	// kinds of events
	failures: "requests that were refused",
	"driver calls": "memory that was taken from the driver, or given back",
	"frees that wait":
		"freed while another stream still used the block (record_stream): its reuse came later",

	// the gap: what is reserved and not allocated
	"idle segments": "nothing is in them: empty_cache() gives them back to the driver",
	"remainders of splits":
		"free next to what is in use in the same segment: given back when all of that is freed",
	"waiting for another stream":
		"freed, but another stream may still use it: free when that has done its work",
	"free in private":
		"serves only its CUDA graph or MemPool; given back when those that own the pool are gone",
	"free in stream":
		"serves only that stream; empty_cache() gives it back when what is in the same segments is freed",
	"free in other": "serves only its own pool or stream",
	"pool not recorded": "of segments that are gone older versions of PyTorch do not tell the pool",
	"private pools": "memory that CUDA graphs or a MemPool keep for themselves",
	owner: "who could use it, or give it back",
	"at the cursor": "at the moment that is looked at",
	most: "the most that it ever was",
	"kept by": "in use in the same segments, so that they cannot be given back",
	"most of that from": "the line that made most of what keeps it",

	// ranges that the program named
	range: "what the program named: record_function, or user_metadata of its allocations",
	kind: "how it was named",
	times: "how many ranges have this name",
	"allocated within": "blocks that were allocated from its start to its end, freed or not",
	"peak within": "the most that was allocated in it, whoever allocated it",

	// the verdict
	limit: "what refused the memory: the GPU, this process's share, a cgroup",
	because: "what made this moment need more than others",
	refused: "what failed, and how much was asked for",
	since: "when it began, and what it comes to",
	full: "when it fills GPUs of these sizes, at this rate",
	cause: "what it looks like",
	why: "what was seen",
	fix: "what to do, the likeliest first",
	see: "a command that shows more, or a page to read",

	// views
	Findings: "what stands out in this recording",
	Owners: "who holds what lives at the cursor",
	"Flame graph": "what lives at the cursor, by calls; with a mark, what changed",
	Gap: "who owns what is reserved and not allocated, at the cursor",
	Ranges: "what the program named, with totals by name",
	Segments: "how blocks lie in the memory that was taken from the driver, at the cursor",
	Allocations: "all that lives at the cursor",
	Events: "what happened in what the picture shows",
	Steps: "peaks of each iteration of the training loop",
	Found: "what the filter found",
	Finding: "the allocations that a finding counts",
	Ranks: "all processes of the job",
	Plan: "what a run needs that has not happened",
	"What if": "the same requests under other settings of the allocator",
	Difference: "who holds more or less in the second recording",

	// answers of commands
	rank: "the number of a process in its job",
	"peak in": "what the program was doing at its peak",
	"asked for": "the request that failed",
	"what happened": "how it ended",
	file: "where it was read from",
	change: "what is different, and by how much",
	A: "the first recording",
	B: "the second recording",
	"found as": "how it was found in both: the same lines, moved ones, or only in one",
	who: "the line that holds it",
	settings: "PYTORCH_CUDA_ALLOC_CONF",
	outcome: "whether the requests are served under them",
	"least limit": "the smallest limit under which it survives",
	retries: "how often it gave back what it cached and asked again",
	phase: "what the program does, and in which step",
	"peak allocated": "the most that is in use in it",
	"peak reserved": "the most that is taken from the driver by then",
	"left allocated": "what is still in use after it",
	batch: "samples of a micro-batch",
	sequence: "tokens of a sample",
	saves: "how much less it needs with this change",
	needed: "the least memory with which it runs",
	fits: "under the limit that was given",

	// checkpoints
	name: "as the checkpoint has it",
	share: "of all",
	tensors: "how many",
	dtype: "the type of its numbers",
	shape: "its dimensions",
	device: "where it was when it was saved",
	first: "what the first checkpoint has",
	second: "what the second checkpoint has",
	"largest difference": "of any two numbers at the same place",
};

// "" for what is not a word of the page.  "Findings (3)" and "peak_bytes" are known by their word.
export function meaning(name: string): string {
	return words[name] ?? words[name.replace(/ *\(.*| \d+.*$/, "")] ?? "";
}

// In the order of letters.
export function all_words(): [string, string][] {
	const order = ([word]: [string, string]) => word.toLowerCase();
	return Object.entries(words).sort((a, b) => (order(a) < order(b) ? -1 : 1));
}
