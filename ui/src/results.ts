// Made of include/plimsoll by tools/results; make docs rewrites it.

export interface ReportSource {
	path: string | null; // the file as given, "-" for standard input
	kind: string | null; // pickle, json, plim, profile or timeline (PyTorch's profiler)
	compression: string | null; // gzip, xz, zstd, bzip2 or zip; null: none
	bytes: number | null; // size as stored; null for a pipe
	decoded_bytes: number | null; // size when decompressed
	events: number; // events of all devices
	complete: boolean; // recording began before the first allocation and lost no event
	notes: string[]; // what the reader found worth telling
}

export interface ReportCategories {
	parameter: number | null; // bytes of the model's weights
	gradient: number | null; // bytes of their gradients
	optimizer_state: number | null; // bytes of what the optimizer keeps from step to step
	activation: number | null; // bytes that a forward pass saved for its backward pass
	input: number | null; // bytes of what goes into the model
	workspace: number | null; // bytes of cuBLAS workspaces
	temporary: number | null; // bytes that end in the phase they were born in
	autograd_detail: number | null; // bytes that a backward pass needs for itself
	kv_cache: number | null; // bytes of keys and values of attention
	buffer: number | null; // bytes of what a module keeps beside its parameters
	unknown: number | null; // bytes that no rule explains
	before_recording: number | null; // bytes that were there before the recording began: usually weights and optimizer state
}

export interface ReportTotals {
	requested_bytes: number | null; // what the program asked for
	active_bytes: number | null; // blocks in use or awaiting another stream
	allocated_bytes: number | null; // blocks in use
	reserved_bytes: number | null; // taken from the driver
	categories: ReportCategories | null; // allocated_bytes by what they are for; null: no stacks were recorded, or before the first event
}

export interface Interval {
	low: number | null; // at least; null: not known
	high: number | null; // at most; null: not known
}

export interface ReportMoment {
	event: number | null; // index of the event that reached it; null: it stood before the first
	time_us: number | null; // microseconds since 1970; null before PyTorch 2.2
	range_bytes: Interval; // what the number may be; low is high: exact
	step: number | null; // index of the step that it lies in; null: there are no steps
	phase: string | null; // as in oom[].phase; null: no stacks were recorded
}

export interface ReportPeak {
	requested_bytes: number | null; // largest sum of what the program asked for (requested_bytes.all.peak)
	active_bytes: number | null; // largest sum of blocks in use or awaiting another stream
	allocated_bytes: number | null; // largest sum of blocks in use (torch.cuda.max_memory_allocated)
	reserved_bytes: number | null; // most memory taken from the driver (torch.cuda.max_memory_reserved)
	requested: ReportMoment; // when requested_bytes was reached
	active: ReportMoment; // when active_bytes was reached
	allocated: ReportMoment; // when allocated_bytes was reached
	reserved: ReportMoment; // when reserved_bytes was reached
	lower_bound: boolean; // the recording does not cover the whole run: its peak may lie outside
}

export interface ReportOwner {
	bytes: number; // what its allocations hold
	count: number; // allocations
	each_bytes: number | null; // grouped by size: the size asked for; else null
	frame: string | null; // the innermost line of the user's own code; null: no Python stack
	stack: string[]; // of its largest allocation, innermost first
	inferred: boolean; // the owner was not recorded but concluded
	code_frame: string | null; // the innermost line of its stack that is not PyTorch's, of the model's code, whoever wrote it; null: no Python stack
	before_recording: boolean; // no stack, for it was there before the recording began
	module: string | null; // where modules were called from, outermost first, "modeling_llama.py:402 > 308 > 240"; of a plan the module's name; null: its stack shows no call of a module
}

export interface ReportTag {
	name: string | null; // null: those that have none
	bytes: number | null; // what they hold together
	count: number | null; // of allocations
}

export interface ReportOwners {
	measure: string | null; // which of the four totals is divided among the owners
	what: string | null; // the moment: peak, oom, end or event
	event: number | null; // index of the moment's event; null: before the first
	total_bytes: number | null; // the sum over all owners
	owners: ReportOwner[]; // largest first
	owners_left_out: number | null; // owners beyond the rows that were asked for
	left_out_bytes: number | null; // what those hold
	categories: ReportCategories | null; // total_bytes by what they are for; null: no stacks were recorded
	annotations: string[]; // as in oom[].annotations
	by_code: ReportOwner[]; // the same memory by code_frame instead: where in a model, if one line calls it; largest first
	tags: ReportTag[]; // the same memory by tag, largest first; none: nothing that lives has one
}

export interface ReportGapPart {
	kind: string | null; // wholly_free: segments, or pages of expandable ones, that nothing is in; private_pools: free in pools of CUDA graphs or of a MemPool; other_streams: free in segments of a stream that is not the one with the most in use; waiting: freed, but another stream may still use it; splits: free in segments that something is in; rounding: of blocks that are in use
	bytes: number; // 
	kept_by_bytes: number | null; // in use in the same segments, which keeps them; null: nothing does
	frame: string | null; // the user's line that made most of that; null: not known
	gives_back: string | null; // what gives it back
}

export interface ReportGap {
	bytes: number; // the sum of the parts
	parts: ReportGapPart[]; // largest first
}

export interface VerdictCause {
	cause: "unknown" | "capacity" | "fragmentation" | "leak" | "private_pools" | "other_stream"; // capacity, fragmentation, leak
	because: string | null; // what speaks for it
	decided_by: string | null; // what would decide
}

export interface Verdict {
	bound_by: "unknown" | "device" | "limit" | "other_process" | "non_pytorch" | "host" | "cgroup" | "shared_memory"; // what the memory ran into: device, limit, other_process, non_pytorch, unknown; of a log also host, cgroup, shared_memory
	bound_certain: boolean; // false: usually; the same text is also written otherwise
	cause: "unknown" | "capacity" | "fragmentation" | "leak" | "private_pools" | "other_stream"; // capacity, fragmentation, leak; private_pools, other_stream: enough was free, but in a pool, or of a stream, that the request could not use; unknown: it is not decided
	likely_cause: "unknown" | "capacity" | "fragmentation" | "leak" | "private_pools" | "other_stream"; // of an unknown cause: what more speaks for
	basis: string | null; // recording, or text
	causes: VerdictCause[]; // of a log: likeliest first; what is not among them is excluded
	bound_bytes: Interval; // reserved memory: certainly allowed, certainly refused (or the same number)
	request_bytes: Interval; // what was asked for, before rounding up to a segment
	room_bytes: Interval; // under the bound and not allocated, in whatever pieces
	needed_bytes: Interval; // live, request and what was still to come
	still_to_come_bytes: Interval; // what the step had still to allocate
	still_basis: string | null; // repeated: from the same point in earlier repetitions; optimizer: from its state and gradients; planned: from the plan that it is; null: not known
	headline: string | null; // one sentence
	arithmetic: string | null; // the sum that decides, in one sentence, rounded so that it adds up; null: of a log
	evidence: string[]; // sentences with the numbers
	helps: string[]; // what to do, best first, and what does not help
	useless: string[]; // of a log: what people try and does not help here
	certainty: string[]; // of a log: how to get certainty
}

export interface ReportTried {
	settings: string; // PYTORCH_CUDA_ALLOC_CONF
	survives: boolean; // wherever the driver puts the segments
	oom_event: number | null; // at which it failed, too; null: it did not
	limit_bytes: number | null; // that it was held to
	reserved_peak_bytes: number | null; // the most that was taken from the driver
}

export interface ReportOom {
	event: number; // index
	time_us: number | null; // microseconds since 1970; null before PyTorch 2.2
	survived: boolean; // the program caught it and went on
	requested_bytes: number; // what was asked for, as the allocator had rounded it
	segment_bytes: number; // what the driver was asked for ("Tried to allocate")
	stream: number; // cudaStream_t of the request
	pool: string; // small or large
	phase: string | null; // load, forward, backward, optimizer, eval, generate, request or other; null: no stacks were recorded
	step: number | null; // index of the step that it lies in; null: there are no steps
	frame: string | null; // the user's own line; null: no Python stack
	backward_of: string | null; // without a frame, in a backward pass: the line whose backward pass it was, concluded
	code_frame: string | null; // of either, as in owners[]
	stack: string[]; // innermost first
	live_bytes: number | null; // blocks in use at that moment
	reserved_bytes: number | null; // taken from the driver, after the allocator had given back what it could
	bound_bytes: number | null; // reserved memory that was certainly allowed (verdict.bound_bytes.low)
	device_free_bytes: number | null; // free on the device as the driver told
	free_bytes: number | null; // reserved but in no block in use
	largest_free_bytes: number | null; // largest free block that this request's stream and pool could use
	annotations: string[]; // names of the ranges (record_function, external_annotations) that it lies in, the outermost first, at most 16
	verdict: Verdict | null; // null for those between the first and the last four of many
	tried: ReportTried[]; // what other settings would have done; of the last failure, where settings are the question
}

export interface Place {
	frame: string | null; // the user's line, "train.py:41 in step"; null: not known
	file: string | null; // null: not known, or the one that was read
	line: number | null; // of the file, from 1; null: not known
	offset: number | null; // byte of the file; null: of no single one
	inferred: boolean; // the line was not recorded but concluded
}

export interface Finding {
	id: string; // a word for programs: docs/findings.md and docs/ckpt.md list them
	severity: "info" | "warning" | "error"; // error: broke the run or the file, or will; warning: costs a part; info
	confidence: number | null; // 0 to 1: that it is what it is called
	title: string; // one sentence: what, how much, where
	bytes: number | null; // what it costs; null: not known
	per_period_bytes: number | null; // more each period; null: it does not grow
	period: string | null; // step, eval iteration, request, forward pass or repetition; null: it does not grow
	place: Place; // where it comes from
	evidence: string[]; // sentences with the numbers
	fix: string[]; // what helps, in words and code, best first
	see: string[]; // commands and pages that tell more
	allocations: number[]; // numbers of the allocations that it is about, from 0 in the order of the recording, the largest 4,096; empty: not known
	series: string | null; // of a training log; null: of none, or of the log as a whole
	step: number | null; // of a training log, where it began; null: of none
	detected_step: number | null; // likewise: where it could first be said
	end_step: number | null; // likewise: where it was over; null: it lasts to the end
}

export interface ReportLeak {
	finding: number; // index in findings
	grown_bytes: number; // growth from the first repetition to the last, and what it had kept before the recording
	per_repetition_bytes: number; // growth of one repetition
	repetitions: number; // repetitions that grew, one after another
	first_event: number; // start of the first repetition
	last_event: number; // start of the last repetition
	loop: string | null; // the line that is entered once a repetition
	frame: string | null; // the user's line that allocated the largest part of what stays
	stack: string[]; // its stack, innermost first
	part_bytes: number | null; // what that stack allocated and nobody freed
}

export interface ReportFill {
	gpu: string | null; // the card; null: a limit (in whatif)
	limit_bytes: number; // of its memory, what PyTorch can have
	period: string; // as in findings[]
	repetitions: Interval; // how many more are served, counted from the last one that kept something
	step: Interval; // the same as an index of a step; null: of another period
}

export interface ReportPhases {
	load: number | null; // bytes; null: the step had no such phase
	forward: number | null; // bytes, or null
	backward: number | null; // bytes, or null
	optimizer: number | null; // bytes, or null
	eval: number | null; // bytes, or null: a forward pass that no backward pass answers
	generate: number | null; // bytes, or null
	request: number | null; // bytes, or null: a forward pass of a program that never runs backward
	other: number | null; // bytes, or null
}

export interface ReportStep {
	index: number; // from 0; the first begins with the recording
	start_event: number; // first event
	end_event: number; // last event: the optimizer's last, the least memory before the next one, or the recording's last
	requested_peak_bytes: number; // most that was requested in it
	phase_peaks: ReportPhases; // the same by phase
}

export interface ReportStop {
	step: number; // that step
	phase: string | null; // the pass that it stops in or behind: forward or backward
}

export interface ReportCheck {
	events: number; // events that were replayed under the allocator's rules
	faults: number; // of these, the ones that the rules cannot explain
	end_faults: number; // blocks of the snapshot that the replay did not end with
	contradictions: number; // events that contradict each other or the snapshot
	exact: boolean; // the replay explains every event and ends with exactly the snapshot's blocks
}

export interface ReportLine {
	label: string | null; // limit, because, line, refused, since, full or cause; null: it stands alone
	text: string | null; // a sentence, or a place: "model.py:40 in loss < train.py:152"
	brief: string | null; // of a place: the same in fewer columns; null: it is a sentence
}

export interface ReportHolder {
	bytes: number; // 
	text: string | null; // the model's line, and the user's that called it; or what it is
	brief: string | null; // the same in fewer columns
}

export interface ReportTold {
	kind: string | null; // died, refused (and caught), leak, fine or no_events
	headline: string | null; // "DIED OF FRAGMENTATION, backward of step 15: ..."
	lines: ReportLine[]; // its sum, its limit, its cause, its place
	remedies: string[]; // what to do, best first
	held: string | null; // "Who held 3.02 GiB allocated"; null: nothing was held
	kinds: string | null; // what that was for: "1.74 GiB activations, ..."; null: not known
	holders: ReportHolder[]; // largest first
	peak: string | null; // "3.44 GiB allocated, forward of step 15; 3.97 GiB reserved"
	gap: string | null; // who owns what is reserved and not in use; null: too little, or a failure or leak is reported
	gap_at_peak: string | null; // the same at the peak
	stop: string | null; // where in a step the recording ends; null: between steps, or none are seen
}

export interface ReportDevice {
	device: number; // ordinal
	events: number; // number of events
	allocations: number; // number of allocations
	streams: number; // number of streams with allocations
	before: ReportTotals; // before the first event
	peak: ReportPeak; // of the recording; null without events
	at_peak: ReportOwners; // who held the memory at a moment
	end: ReportTotals; // when the snapshot was taken
	gap: ReportGap | null; // at the end; null: a tenth of what is allocated or less, or nobody looked at the end
	gap_at_peak: ReportGap | null; // the same at the allocated peak; null: a tenth of what is reserved then, or less, or it is not known
	oom: ReportOom[]; // deaths, in turn
	findings: Finding[]; // worst first
	leaks: ReportLeak[]; // those of the findings that are leaks
	fills: ReportFill[]; // when they fill which card; of a run that did not die
	steps: ReportStep[]; // training steps, or what else repeats; the last one may not have ended
	step_basis: string | null; // what ends a step: optimizer; backward: a backward pass, where no optimizer is seen; request: passes of a model, where nothing runs backward; annotation: a range that the program named with record_function; null: no steps
	stop: ReportStop | null; // the step that the recording stops within; null: it stops between steps, or none are seen
	self_check: ReportCheck; // how far the numbers prove themselves
	timeline_first_event: number | null; // first event that the timeline and the peaks cover
	timeline_last_event: number | null; // last event that they cover; null without events
	timeline_bytes: number[]; // largest allocated bytes in equal parts of the events
	timeline_low_bytes: number[]; // smallest allocated bytes in the same parts
	told: ReportTold; // what a person is told first
}

export interface ReportUneven {
	device: number | null; // that held most
	other_device: number | null; // the one in the middle, the lower of two
	bytes: number | null; // the difference
	category: string | null; // that makes at least half of it, and most; null: none does
	category_bytes: number; // what it has more of that
	meaning: string | null; // what makes it differ; null: nothing is known
	frame: string | null; // the line that has most more; null: none has
	frame_bytes: number; // what it has more there
}

export interface Report {
	source: ReportSource; // what was read
	devices: ReportDevice[]; // those with memory or events
	uneven: ReportUneven | null; // null: one device, or they differ by less than a twentieth
}

export interface CurvesBest {
	series: string | null; // that it was looked for in; null: no evaluation was logged
	step: number | null; // of the best value
	value: number | null; // the best value
	checkpoint: string | null; // nearest one at or before that step; null: none was found
	checkpoint_step: number | null; // its step
}

export interface CurvesBack {
	step: number | null; // the last step before the trouble, or the best one; null: nothing to go back for
	why: string | null; // one sentence
	checkpoint: string | null; // the newest one at or before that step; null: none was found
	checkpoint_step: number | null; // its step
}

export interface CurvesSeries {
	name: string | null; // as in the log
	role: "other" | "train_loss" | "val_loss" | "metric" | "error" | "grad_norm" | "learning_rate" | "loss_scale" | "skipped_steps" | "memory" | "entropy"; // what it was taken for
	role_given: boolean; // the role was given, not told by the name
	points: number | null; // values, those that are not finite included
	non_finite: number | null; // values that are NaN or infinite
	first_step: number | null; // of its first point
	last_step: number | null; // of its last point
	first: number | null; // its first finite value
	last: number | null; // its last finite value
	min: number | null; // its smallest finite value
	min_step: number | null; // where that was
	max: number | null; // its largest finite value
	max_step: number | null; // where that was
}

export interface CurvesPolicy {
	policy: "plimsoll" | "keras" | "lightning" | "transformers"; // whose rule
	patience: number | null; // evaluations
	min_delta: number | null; // what an improvement has to exceed
	stop_step: number | null; // where it would have stopped; null: it would not
	reason: null | "patience" | "non_finite" | "threshold" | "divergence"; // why
	best_step: number | null; // the step whose weights it would have kept
	best: number | null; // the value there
	saved_steps: number | null; // steps of this log behind the stop; null: it would not stop
	saved_seconds: number | null; // their time by the log's own clock; null: it has none
}

export interface CurvesRun {
	name: string | null; // its folder or file, as short as tells it apart
	source: string | null; // path of the log, the first one if it has several
	kind: string | null; // "trainer_state", "tensorboard", "csv", "json", "wandb", "mlflow" or "text"
	files: number | null; // that were read for it
	bytes: number | null; // of these
	points: number | null; // values, of all series
	first_step: number | null; // of the log
	last_step: number | null; // of the log
	seconds: number | null; // from its first to its last time stamp; null: it has none
	verdict: string | null; // one line
	severity: "info" | "warning" | "error"; // of the worst finding; info: nothing is wrong
	best: CurvesBest; // the best evaluation
	go_back: CurvesBack; // where to go back to
	series: CurvesSeries[]; // in the log's order
	findings: Finding[]; // the worst first; the id is plim_curves_id_name's, place.file the log
	policies: CurvesPolicy[]; // early stopping, replayed
	notes: string[]; // what was skipped, and how the log was understood
}

export interface Curves {
	runs: CurvesRun[]; // in the order of the paths, by name within a folder
	notes: string[]; // what was left out; redacted: what is kept
}

export interface WatchNow {
	time: number | null; // of the sample
	gpu_busy_percent: number | null; // time with any kernel at all
	sm_active_percent: number | null; // of the card's multiprocessors, by GPM
	sm_occupancy_percent: number | null; // of the card's warps, by GPM
	tensor_active_percent: number | null; // by GPM
	dram_active_percent: number | null; // by GPM
	receive_bytes_per_second: number | null; // of the card, over PCIe
	transmit_bytes_per_second: number | null; // of the card, over PCIe
	power_watts: number | null; // of the card
	gpu_total_bytes: number | null; // of the card
	gpu_used_bytes: number | null; // of the card, by everyone
	gpu_reserved_bytes: number | null; // of the card, by the driver
	gpu_job_bytes: number | null; // of the card, by this job
	allocated_bytes: number | null; // PyTorch's, from the gauge
	reserved_bytes: number | null; // PyTorch's, from the gauge
	step: number | null; // from the gauge
	loss: number | null; // from the gauge
	phase: string | null; // from the gauge
	main_cores: number | null; // that the main thread used
	worker_count: number | null; // DataLoader workers
	worker_cores: number | null; // that one of them used, on average
	resident_bytes: number | null; // of the main process and its workers
	host_available_bytes: number | null; // of the machine
	host_total_bytes: number | null; // of the machine
}

export interface WatchProcess {
	pid: number | null; // of the process
	what: string; // main, or worker
	state: string; // R, S, D, Z, T as /proc has it; "?": not known
	cores: number | null; // that it used since the sample before
	resident_bytes: number | null; // of its memory
	read_bytes_per_second: number | null; // from disks
	sleeps_in: string | null; // the kernel's function; null: it runs, or nobody may know
}

export interface WatchPlace {
	who: string; // main: the main thread; worker: a DataLoader worker
	does: string; // input, queue, starting, saving, collective, sync, copy, launch, sleep, wait; python: none of these
	looks: number | null; // that found it there
	share: number | null; // of all looks at who
	file: string | null; // of the user's own code, as far as there is any on the stack; null: not told
	line: number | null; // in it; null: not told
	function: string | null; // null: not told
	code: string | null; // what the line executes, from its file; null: not read
	inside: string | null; // FILE:LINE FUNCTION of the innermost frame; null: it is that line
}

export interface WatchVerdict {
	state: "undecided" | "starting" | "compute_bound" | "busy_thin" | "input_cpu" | "input_disk" | "input_source" | "input_main" | "input_unknown" | "main_system" | "main_python" | "launch_bound" | "sync_bound" | "host_paced" | "copy_bound" | "saving" | "sleeping" | "idle" | "throttled" | "stalled" | "deadlock"; // what holds the job back
	confidence: "low" | "medium" | "high"; // how sure that is
	since: number | null; // when it began
	until: number | null; // when it was over; null: it goes on
	title: string; // one sentence
	evidence: string[]; // sentences with the numbers
	advice: string[]; // what to change, best first
}

export interface WatchForecast {
	bound: "gpu" | "process" | "cgroup" | "machine" | "shm"; // what will be full
	confidence: "low" | "medium" | "high"; // low: it grows, but the end is too far beyond what was seen to be foretold
	what: string; // the memory that grows
	room_bytes: number | null; // left now
	growth_bytes_per_hour_range: Interval; // 95 %
	seconds_range: Interval; // until it is full, from the two ends of the growth
	step_range: Interval; // of the training, then; null: steps are not seen
	since: number | null; // begin of the samples it rests on
	title: string; // one sentence
	evidence: string[]; // sentences with the numbers
}

export interface WatchShare {
	state: "undecided" | "starting" | "compute_bound" | "busy_thin" | "input_cpu" | "input_disk" | "input_source" | "input_main" | "input_unknown" | "main_system" | "main_python" | "launch_bound" | "sync_bound" | "host_paced" | "copy_bound" | "saving" | "sleeping" | "idle" | "throttled" | "stalled" | "deadlock"; // that was said
	seconds: number | null; // in total
}

export interface WatchWindow {
	time: number | null; // its end
	state: "undecided" | "starting" | "compute_bound" | "busy_thin" | "input_cpu" | "input_disk" | "input_source" | "input_main" | "input_unknown" | "main_system" | "main_python" | "launch_bound" | "sync_bound" | "host_paced" | "copy_bound" | "saving" | "sleeping" | "idle" | "throttled" | "stalled" | "deadlock"; // what it alone tells
	confidence: "low" | "medium" | "high"; // how sure that is
}

export interface WatchJob {
	pid: number | null; // null: not known
	name: string; // of the program, as short as tells it
	gpu: string | null; // name and number of its card; null: it has none
	first_time: number | null; // of the samples
	last_time: number | null; // of the samples
	samples: number | null; // that were taken
	rank: number | null; // of a job of several processes; null: it is alone
	world: number | null; // how many ranks that job has; null: not told
	now: WatchNow; // the latest sample
	processes: WatchProcess[]; // the main process, then the workers
	places: WatchPlace[]; // the main thread's first, the most frequent first
	verdicts: WatchVerdict[]; // the newest first
	forecasts: WatchForecast[]; // the nearest first
	shares: WatchShare[]; // the longest first
	windows: WatchWindow[]; // of a replay: every window
	ended: boolean; // the process is gone
}

export interface WatchGroup {
	ranks: number | null; // that are seen here
	world: number | null; // that the job has; null: not told
	late_pid: number | null; // the one that the others wait for; null: none
	late_rank: number | null; // its rank; null: none, or not told
	title: string; // one sentence
	evidence: string[]; // sentences with the numbers
}

export interface WatchCard {
	index: number | null; // as its driver counts
	name: string; // of the product
	uuid: string | null; // null: not told
	total_bytes: number | null; // of its memory
	used_bytes: number | null; // by everyone
	reserved_bytes: number | null; // by the driver
	gpu_busy_percent: number | null; // time with any kernel at all
	sm_active_percent: number | null; // of its multiprocessors, by GPM
	power_watts: number | null; // now
	power_limit_watts: number | null; // that it keeps below
	temperature_celsius: number | null; // of the chip
	slowed: string | null; // why its clocks are down: heat, hardware; null: they are not
	xid: number | null; // the newest error of the driver since watch began; null: none
	processes: number | null; // that hold it; null: not told
	lost: boolean; // it has fallen off the bus
}

export interface WatchAlert {
	event: "creep" | "oom_soon" | "idle_long" | "stall" | "input_bound" | "slowed" | "card_lost" | "xid" | "died" | "ended" | "tight_shm" | "late_rank" | "driver_silent"; // what
	pid: number | null; // of the job; null: it is about a card
	since: number | null; // when it began
	fresh: boolean; // with this very sample
	title: string; // one sentence
}

export interface Watch {
	jobs: WatchJob[]; // those that end stay, up to 64 of them
	groups: WatchGroup[]; // jobs that are ranks of one
	cards: WatchCard[]; // of this machine
	alerts: WatchAlert[]; // that hold now, the newest first
	driver_silent_seconds: number | null; // that the GPU's driver owes an answer for; null: it answers
	cpu_seconds: number | null; // of processor time that watching has taken
	ended: boolean; // the process that was asked for is gone, or all of a replay is read
	notes: string[]; // what could not be seen, and why; redacted: what is kept
}
