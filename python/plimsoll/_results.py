"""The JSON schemas as classes.  Made of include/plimsoll by tools/results; make docs rewrites it."""
# ruff: noqa
from __future__ import annotations

from typing import ClassVar, Literal

from ._object import Object


class Place(Object):
    __slots__ = ()
    frame: str | None
    """the user's line, 'train.py:41 in step'; null: not known"""
    file: str | None
    """null: not known, or the one that was read"""
    line: int | None
    """of the file, from 1; null: not known"""
    offset: int | None
    """byte of the file; null: of no single one"""
    inferred: bool
    """the line was not recorded but concluded"""


class Finding(Object):
    __slots__ = ()
    id: str
    """a word for programs: docs/findings.md and docs/ckpt.md list them"""
    severity: Literal["info", "warning", "error"]
    """error: broke the run or the file, or will; warning: costs a part; info"""
    confidence: float | None
    """0 to 1: that it is what it is called"""
    title: str
    """one sentence: what, how much, where"""
    bytes: int | None
    """what it costs; null: not known"""
    per_period_bytes: int | None
    """more each period; null: it does not grow"""
    period: str | None
    """step, eval iteration, request, forward pass or repetition; null: it does not grow"""
    place: Place
    """where it comes from"""
    evidence: list[str]
    """sentences with the numbers"""
    fix: list[str]
    """what helps, in words and code, best first"""
    see: list[str]
    """commands and pages that tell more"""
    allocations: list[int]
    """numbers of the allocations that it is about, from 0 in the order of the recording, the largest 4,096; empty:
    not known"""
    series: str | None
    """of a training log; null: of none, or of the log as a whole"""
    step: float | None
    """of a training log, where it began; null: of none"""
    detected_step: float | None
    """likewise: where it could first be said"""
    end_step: float | None
    """likewise: where it was over; null: it lasts to the end"""
    _objects: ClassVar[dict[str, type[Object]]] = {"place": Place}


class CkptGlobal(Object):
    __slots__ = ()
    name: str | None
    """module and name that the pickle refers to"""
    record: str | None
    """where it stands"""
    trust: str | None
    """plain: allowed by torch.load(weights_only=True); data: a class of a library that holds data; class: harmless as
    it is used here; torchscript: a class whose code is in the file; allowed: by the caller; unknown: on no list;
    dangerous: runs code"""
    offset: int | None
    """behind its opcode, in that record"""
    times: int | None
    """it is named"""


class CkptKey(Object):
    __slots__ = ()
    name: str | None
    """key of the outermost dict, or file of a folder"""
    what: str | None
    """its value, or what kind of thing it is"""
    tensors: int | None
    """below it"""
    bytes: int | None
    """of these"""


class CkptOptimizer(Object):
    __slots__ = ()
    path: str | None
    """keys that lead to it, empty: the file itself"""
    kind: str | None
    """concluded from what its state holds; null: not known"""
    groups: int | None
    """parameter groups"""
    parameters: int | None
    """that have state"""
    state_tensors: int | None
    """in its state"""
    state_bytes: int | None
    """of these"""
    learning_rate: float | None
    """of the first group; null: not known"""


class CkptFact(Object):
    __slots__ = ()
    name: str | None
    """of a config, of metadata, or a module's place"""
    value: str | None
    """as text"""


class CkptGroup(Object):
    __slots__ = ()
    prefix: str | None
    """of tensors' names"""
    tensors: int | None
    """with it"""
    bytes: int | None
    """of these"""
    dtypes: str | None
    """of these"""
    devices: str | None
    """they were saved from; null: not known"""


class CkptTensor(Object):
    __slots__ = ()
    name: str | None
    """the keys that lead to it"""
    dtype: str | None
    """as torch names it"""
    device: str | None
    """it was saved from; null: not known"""
    file: str | None
    """that holds its bytes; null: has none"""
    bytes: int | None
    """of its elements"""
    elements: int | None
    """count"""
    shape: list[int]
    """elements a dimension"""
    strides: list[int]
    """elements from one to the next of a dimension"""
    offset_bytes: int | None
    """of its first element, in the file; null: has none"""
    storage: int | None
    """tensors of one number share bytes; null: has none"""
    storage_bytes: int | None
    """that were saved for it, others' too"""
    whole: bool
    """its bytes are all there"""
    nan: int | None
    """NaN elements; null: values were not looked at (PLIM_CKPT_VALUES)"""
    infinite: int | None
    """with PLIM_CKPT_VALUES"""
    zero: int | None
    """with PLIM_CKPT_VALUES"""
    min: float | None
    """least finite number, with PLIM_CKPT_VALUES"""
    max: float | None
    """largest finite number, with PLIM_CKPT_VALUES"""
    parts: int | None
    """of files that it is put together from; 0: it lies in one piece"""


class CkptFields(Object):
    """The fields of ckpt/3 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["ckpt/3"]
    version: str
    """of the library"""
    path: str | None
    """as given"""
    kind: str | None
    """torch, torch_legacy, torchscript, exported, zip, pickle, safetensors, sharded, distributed, folder, tar, gguf,
    config; unknown: nothing that is read here"""
    verdict: Literal["not_verified", "whole", "unproven", "damaged", "truncated", "not_a_checkpoint", "unknown_code", "dangerous"]
    """not_verified: only its structure was looked at; whole: every byte has a checksum and all are right; unproven:
    nothing is wrong, but some bytes have none; damaged; truncated; not_a_checkpoint; unknown_code: a pickle names
    what is on no list; dangerous: a pickle names what runs code when it is loaded"""
    integrity: Literal["not_verified", "whole", "unproven", "damaged", "truncated", "not_a_checkpoint", "unknown_code", "dangerous"]
    """the verdict of the bytes alone: never unknown_code or dangerous"""
    headline: str | None
    """one sentence"""
    bytes: int | None
    """of all its files"""
    files: int | None
    """that were read"""
    tensor_bytes: int | None
    """of all tensors, shared ones once each"""
    elements: int | None
    """of all tensors"""
    shared_bytes: int | None
    """of tensors whose bytes another one has too"""
    waste_bytes: int | None
    """that were saved but that no tensor reaches"""
    whole_bytes: int | None
    """of a truncated file: what is whole of it, 0 where no tensor is; null: not truncated"""
    verified_bytes: int | None
    """that match their checksum; null: not verified"""
    unprotected_bytes: int | None
    """that have no checksum; null: not verified"""
    verified_records: int | None
    """that match their checksum; null: not verified"""
    pickle: str | None
    """of its pickles: plain: torch.load(weights_only=True) loads them; listed: they name what is known, of which
    nothing runs code on load; unknown; dangerous; null: no pickle in it"""
    findings: list[Finding]
    """worst first"""
    globals: list[CkptGlobal]
    """names that its pickles refer to, also those thrown away"""
    keys: list[CkptKey]
    """what is in it beside single tensors"""
    required_missing: list[str]
    """of --require"""
    resume_missing: list[str]
    """what a resume would also want, of a training checkpoint"""
    optimizers: list[CkptOptimizer]
    """found in it"""
    facts: list[CkptFact]
    """what tells the architecture"""
    groups: list[CkptGroup]
    """tensors by prefix"""
    tensors: list[CkptTensor]
    """in the file's order"""
    _objects: ClassVar[dict[str, type[Object]]] = {"findings": Finding, "globals": CkptGlobal, "keys": CkptKey, "optimizers": CkptOptimizer, "facts": CkptFact, "groups": CkptGroup, "tensors": CkptTensor}


class CkptCandidate(Object):
    __slots__ = ()
    name: str | None
    """in the folder"""
    verdict: str | None
    """of ckpt verify, or unreadable; null: not looked at"""
    headline: str | None
    """of ckpt verify; null: not looked at"""
    good: bool
    """whole or unproven; false: damaged, or not looked at"""
    best: bool
    """its name, a measure in it, a link or a trainer's state says so"""
    fate: str | None
    """kept, would_be_removed or removed"""


class CkptLastFields(Object):
    """The fields of ckpt_last/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["ckpt_last/2"]
    version: str
    """of the library"""
    folder: str | None
    """as given"""
    last_good: str | None
    """path of the newest that is good; null: none is"""
    good: int | None
    """that were found good; older ones are not looked at"""
    removed: int | None
    """checkpoints"""
    candidates: list[CkptCandidate]
    """newest first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"candidates": CkptCandidate}


class CkptConclusion(Object):
    __slots__ = ()
    kind: str | None
    """same, prefix, training_state, rename, width, depth, vocabulary, positions, dtype, head, tied, lora, lora_rank,
    names, architecture; with --config also loads, does_not_load, not_judged"""
    text: str | None
    """one sentence"""


class CkptDifference(Object):
    __slots__ = ()
    name: str | None
    """in the first, or in the second if only there"""
    change: str | None
    """none (values only), dtype, shape, only_in_first, only_in_second"""
    first: str | None
    """dtype and shape; null: not there"""
    second: str | None
    """dtype and shape; null: not there"""
    changed: int | None
    """numbers that differ; null: not compared"""
    max_difference: float | None
    """of finite numbers; null: not compared"""
    mean_difference: float | None
    """of finite numbers; null: not compared"""


class CkptDiffFields(Object):
    """The fields of ckpt_diff/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["ckpt_diff/2"]
    version: str
    """of the library"""
    first: str | None
    """as given"""
    second: str | None
    """as given"""
    same: bool
    """names, shapes and dtypes"""
    against_config: bool
    """the second is a config.json, without bytes"""
    loads: bool | None
    """against a config: would the first load; null: no config, or a model that is not known"""
    conclusions: list[CkptConclusion]
    """kinds of difference, the most telling first"""
    equal: int | None
    """tensors of the same name, shape and dtype"""
    other_dtype: int | None
    """tensors of another dtype, but the same shape"""
    other_shape: int | None
    """tensors of another shape"""
    only_in_first: int | None
    """tensors"""
    only_in_second: int | None
    """tensors"""
    compared: int | None
    """numbers, with --values"""
    changed: int | None
    """numbers of these that differ"""
    nonfinite: int | None
    """differences that are not finite"""
    not_compared: int | None
    """tensors of one shape whose numbers could not be compared; null: no --values"""
    max_difference: float | None
    """the largest; null: not compared"""
    mean_difference: float | None
    """over all that were compared; null: not compared"""
    bf16_enough: bool
    """the largest is below the threshold"""
    tensors: list[CkptDifference]
    """those that differ"""
    _objects: ClassVar[dict[str, type[Object]]] = {"conclusions": CkptConclusion, "tensors": CkptDifference}


class CurvesBest(Object):
    __slots__ = ()
    series: str | None
    """that it was looked for in; null: no evaluation was logged"""
    step: float | None
    """of the best value"""
    value: float | None
    """the best value"""
    checkpoint: str | None
    """nearest one at or before that step; null: none was found"""
    checkpoint_step: float | None
    """its step"""


class CurvesBack(Object):
    __slots__ = ()
    step: float | None
    """the last step before the trouble, or the best one; null: nothing to go back for"""
    why: str | None
    """one sentence"""
    checkpoint: str | None
    """the newest one at or before that step; null: none was found"""
    checkpoint_step: float | None
    """its step"""


class CurvesSeries(Object):
    __slots__ = ()
    name: str | None
    """as in the log"""
    role: Literal["other", "train_loss", "val_loss", "metric", "error", "grad_norm", "learning_rate", "loss_scale", "skipped_steps", "memory", "entropy"]
    """what it was taken for"""
    role_given: bool
    """the role was given, not told by the name"""
    points: int | None
    """values, those that are not finite included"""
    non_finite: int | None
    """values that are NaN or infinite"""
    first_step: float | None
    """of its first point"""
    last_step: float | None
    """of its last point"""
    first: float | None
    """its first finite value"""
    last: float | None
    """its last finite value"""
    min: float | None
    """its smallest finite value"""
    min_step: float | None
    """where that was"""
    max: float | None
    """its largest finite value"""
    max_step: float | None
    """where that was"""


class CurvesPolicy(Object):
    __slots__ = ()
    policy: Literal["plimsoll", "keras", "lightning", "transformers"]
    """whose rule"""
    patience: int | None
    """evaluations"""
    min_delta: float | None
    """what an improvement has to exceed"""
    stop_step: float | None
    """where it would have stopped; null: it would not"""
    reason: Literal["patience", "non_finite", "threshold", "divergence"] | None
    """why"""
    best_step: float | None
    """the step whose weights it would have kept"""
    best: float | None
    """the value there"""
    saved_steps: float | None
    """steps of this log behind the stop; null: it would not stop"""
    saved_seconds: float | None
    """their time by the log's own clock; null: it has none"""


class CurvesRun(Object):
    __slots__ = ()
    name: str | None
    """its folder or file, as short as tells it apart"""
    source: str | None
    """path of the log, the first one if it has several"""
    kind: str | None
    """'trainer_state', 'tensorboard', 'csv', 'json', 'wandb', 'mlflow' or 'text'"""
    files: int | None
    """that were read for it"""
    bytes: int | None
    """of these"""
    points: int | None
    """values, of all series"""
    first_step: float | None
    """of the log"""
    last_step: float | None
    """of the log"""
    seconds: float | None
    """from its first to its last time stamp; null: it has none"""
    verdict: str | None
    """one line"""
    severity: Literal["info", "warning", "error"]
    """of the worst finding; info: nothing is wrong"""
    best: CurvesBest
    """the best evaluation"""
    go_back: CurvesBack
    """where to go back to"""
    series: list[CurvesSeries]
    """in the log's order"""
    findings: list[Finding]
    """the worst first; the id is plim_curves_id_name's, place.file the log"""
    policies: list[CurvesPolicy]
    """early stopping, replayed"""
    notes: list[str]
    """what was skipped, and how the log was understood"""
    _objects: ClassVar[dict[str, type[Object]]] = {"best": CurvesBest, "go_back": CurvesBack, "series": CurvesSeries, "findings": Finding, "policies": CurvesPolicy}


class CurvesFields(Object):
    """The fields of curves/1 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["curves/1"]
    version: str
    """of the library"""
    runs: list[CurvesRun]
    """in the order of the paths, by name within a folder"""
    notes: list[str]
    """what was left out; redacted: what is kept"""
    _objects: ClassVar[dict[str, type[Object]]] = {"runs": CurvesRun}


class DiffGate(Object):
    __slots__ = ()
    exceeded: bool
    """the exit code is 1"""
    certain: bool
    """both peaks are exact and of whole runs that did not die"""
    measure: str | None
    """what was compared"""
    device: int | None
    """that grew furthest beyond its limit, or came nearest to it"""
    grown_bytes: int
    """B's less A's"""
    limit_bytes: int | None
    """by how much it may grow"""


class ReportSource(Object):
    __slots__ = ()
    path: str | None
    """the file as given, '-' for standard input"""
    kind: str | None
    """pickle, json, plim, profile or timeline (PyTorch's profiler)"""
    compression: str | None
    """gzip, xz, zstd, bzip2 or zip; null: none"""
    bytes: int | None
    """size as stored; null for a pipe"""
    decoded_bytes: int | None
    """size when decompressed"""
    events: int
    """events of all devices"""
    complete: bool
    """recording began before the first allocation and lost no event"""
    notes: list[str]
    """what the reader found worth telling"""


class DiffSide(Object):
    __slots__ = ()
    source: ReportSource
    """what was read"""
    torch: str | None
    """the releases that write such keys; null: there are none to tell by"""
    devices: int | None
    """with memory or events"""
    _objects: ClassVar[dict[str, type[Object]]] = {"source": ReportSource}


class DiffSetting(Object):
    __slots__ = ()
    name: str | None
    """what it is"""
    a: str | None
    """in A; null: its recording does not tell"""
    b: str | None
    """in B"""


class DiffAmount(Object):
    __slots__ = ()
    a_bytes: int | None
    """in A"""
    b_bytes: int | None
    """in B"""
    change_bytes: int
    """B's less A's"""


class DiffTotals(Object):
    __slots__ = ()
    requested: DiffAmount
    """what the program asked for"""
    active: DiffAmount
    """blocks in use or awaiting another stream"""
    allocated: DiffAmount
    """blocks in use"""
    reserved: DiffAmount
    """taken from the driver"""
    _objects: ClassVar[dict[str, type[Object]]] = {"requested": DiffAmount, "active": DiffAmount, "allocated": DiffAmount, "reserved": DiffAmount}


class DiffRow(Object):
    __slots__ = ()
    name: str | None
    """line, category, phase or size; before_recording: no stack, for it was there before; null: no Python stack"""
    a_name: str | None
    """the line in A; null: written as in B, or only in one"""
    match: Literal["exact", "moved", "lines", "function", "only_a", "only_b"]
    """exact: the same lines; moved: the same, by an edit above them; lines: the same functions; function: a name with
    similar counts or sizes; only_a, only_b"""
    inferred: bool
    """the owner was not recorded but concluded"""
    a_bytes: int | None
    """live in A"""
    b_bytes: int | None
    """live in B"""
    change_bytes: int
    """B's less A's"""
    a_count: int | None
    """allocations live in A"""
    b_count: int | None
    """allocations live in B"""
    category: str | None
    """what changed most of it is for; null: not known"""
    category_change_bytes: int
    """change of that category in this row"""
    part: str | None
    """of the stack below that changed most, the innermost frame that is not PyTorch's own; null: none"""
    part_change_bytes: int
    """change of that stack"""
    stack: list[str]
    """that stack, innermost frame first"""


class DiffPart(Object):
    __slots__ = ()
    name: str | None
    """category, or phase (before: born before the recording)"""
    a_bytes: int | None
    """live in A"""
    b_bytes: int | None
    """live in B"""
    change_bytes: int
    """B's less A's"""


class DiffMoment(Object):
    __slots__ = ()
    different: bool
    """there are rows, or parts of a kind that changed"""
    a_event: int | None
    """in A; null: before its first"""
    b_event: int | None
    """in B"""
    a_phase: str | None
    """what A was doing; null: no stacks"""
    b_phase: str | None
    """what B was doing"""
    a_step: int | None
    """training step; null: none are seen"""
    b_step: int | None
    """in B"""
    a_bytes: int | None
    """allocated bytes in A"""
    b_bytes: int | None
    """in B"""
    change_bytes: int
    """the sum of the rows' and of the rest"""
    rows: list[DiffRow]
    """what changed, the largest change first"""
    rest_rows: int | None
    """changed too, but beyond --top"""
    rest_a_bytes: int | None
    """their sum in A"""
    rest_b_bytes: int | None
    """in B"""
    rest_change_bytes: int
    """B's less A's"""
    unchanged_rows: int | None
    """with as many bytes and allocations in both"""
    unchanged_bytes: int | None
    """their sum, in each"""
    categories: list[DiffPart]
    """by what it is for; empty where either has no stacks"""
    phases: list[DiffPart]
    """by the phase in which it was allocated"""
    _objects: ClassVar[dict[str, type[Object]]] = {"rows": DiffRow, "categories": DiffPart, "phases": DiffPart}


class DiffStep(Object):
    __slots__ = ()
    index: int | None
    """from 0"""
    a_requested_peak_bytes: int | None
    """most that A requested in it"""
    b_requested_peak_bytes: int | None
    """in B"""
    change_bytes: int
    """B's less A's"""


class DiffFinding(Object):
    __slots__ = ()
    side: str | None
    """a or b"""
    id: str | None
    """as in report/2"""
    severity: Literal["info", "warning", "error"]
    """as in report/2"""
    bytes: int | None
    """as in report/2"""
    title: str | None
    """as in report/2"""


class DiffDevice(Object):
    __slots__ = ()
    device: int | None
    """ordinal"""
    in_a: bool
    """A has memory or events of it"""
    in_b: bool
    """B has"""
    different: bool
    """in anything that is compared"""
    summary: list[str]
    """the change in sentences"""
    a_events: int | None
    """recorded in A"""
    b_events: int | None
    """in B"""
    a_ooms: int | None
    """failures in A"""
    b_ooms: int | None
    """in B"""
    peak: DiffTotals
    """peaks, each at its own event"""
    end: DiffTotals
    """when the snapshots were taken"""
    a_lower_bound: bool
    """the peak of A's run may be higher"""
    b_lower_bound: bool
    """of B's run"""
    a_bound_why: str | None
    """cut: not all of the run was recorded; died: it could not get more"""
    b_bound_why: str | None
    """in B"""
    a_slack_bytes: int | None
    """A's allocated and active bytes may be higher by up to this"""
    b_slack_bytes: int | None
    """B's"""
    a_shared: float | None
    """of the bytes that Python allocated in A in all, the part by lines that B runs too, 0 to 1; null: none"""
    b_shared: float | None
    """the same of B"""
    unrelated: bool
    """both parts are small: lines are not compared"""
    grouped_by: str | None
    """what a row is: user_frame, stack, category, phase, or size (no stacks)"""
    at_peak: DiffMoment | None
    """what lives at the peaks of allocated bytes; null: not asked for"""
    at_end: DiffMoment | None
    """what lives at the ends"""
    a_steps: int | None
    """steps in A"""
    b_steps: int | None
    """in B"""
    steps: list[DiffStep]
    """that both have; none where a recording does not begin with its run"""
    findings: list[DiffFinding]
    """of a kind that only one has"""
    _objects: ClassVar[dict[str, type[Object]]] = {"peak": DiffTotals, "end": DiffTotals, "at_peak": DiffMoment, "at_end": DiffMoment, "steps": DiffStep, "findings": DiffFinding}


class DiffFields(Object):
    """The fields of diff/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["diff/2"]
    version: str
    """of the library"""
    different: bool
    """in anything that is compared"""
    gate: DiffGate | None
    """null: no --fail-over"""
    a: DiffSide
    """before"""
    b: DiffSide
    """after"""
    settings: list[DiffSetting]
    """what changed beside memory"""
    devices: list[DiffDevice]
    """the largest change of the peak first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"gate": DiffGate, "a": DiffSide, "b": DiffSide, "settings": DiffSetting, "devices": DiffDevice}


class DoctorCheck(Object):
    __slots__ = ()
    what: str | None
    """what was looked at: 'NVIDIA driver'"""
    state: Literal["ok", "note", "no"]
    """ok, note, no"""
    says: str | None
    """what was seen"""
    remedy: str | None
    """what to do; null: nothing"""


class DoctorFields(Object):
    """The fields of doctor/1 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["doctor/1"]
    version: str
    """of the library"""
    works: bool
    """no check says no"""
    checks: list[DoctorCheck]
    """of this machine first, then those that were added"""
    _objects: ClassVar[dict[str, type[Object]]] = {"checks": DoctorCheck}


class HereBound(Object):
    __slots__ = ()
    kind: Literal["cgroup", "cgroup_high", "cgroup_memsw", "cgroup_above", "machine", "commit_limit", "rlimit_as", "rlimit_data", "dev_shm"]
    """cgroup_above: a v1 limit of a level that is not visible"""
    effect: Literal["killed", "hangs", "slowed", "refused", "bus_error"]
    """what reaching it does: killed (SIGKILL by the kernel), hangs, slowed, refused (malloc fails), bus_error
    (SIGBUS)"""
    where: str | None
    """a cgroup's path, machine, /dev/shm, RLIMIT_AS, ..."""
    limit_bytes: int | None
    """the bound"""
    used_bytes: int | None
    """of it, now"""
    free_bytes: int | None
    """limit less used; 0 when it is exceeded"""
    droppable_bytes: int | None
    """of used: page cache and slab on the kernel's lists to be dropped, at most"""
    room_bytes: int | None
    """free and droppable: what can still be taken, at most, without swap"""
    swap_room_bytes: int | None
    """free swap that comes on top; null: it does not, or not known"""
    at_most: bool
    """not all of its use is known: there may be less room"""


class HereStall(Object):
    __slots__ = ()
    avg10_pct: float | None
    """of the last 10 seconds"""
    avg60_pct: float | None
    """of the last minute"""
    avg300_pct: float | None
    """of the last five minutes"""
    total_us: int | None
    """since the start"""


class HerePressure(Object):
    __slots__ = ()
    some: HereStall
    """time in which at least one task waited for memory"""
    full: HereStall
    """time in which all tasks waited at once"""
    _objects: ClassVar[dict[str, type[Object]]] = {"some": HereStall, "full": HereStall}


class HereMachine(Object):
    __slots__ = ()
    total_bytes: int | None
    """MemTotal"""
    free_bytes: int | None
    """MemFree"""
    available_bytes: int | None
    """MemAvailable: the kernel's estimate, with droppable cache"""
    cached_bytes: int | None
    """Cached, /dev/shm included"""
    shmem_bytes: int | None
    """Shmem: tmpfs and shared memory, not droppable"""
    slab_reclaimable_bytes: int | None
    """SReclaimable"""
    swap_total_bytes: int | None
    """SwapTotal"""
    swap_free_bytes: int | None
    """SwapFree"""
    commit_limit_bytes: int | None
    """CommitLimit; it binds under overcommit never only"""
    committed_bytes: int | None
    """Committed_AS"""
    hugepages_total: int | None
    """reserved huge pages: no use to ordinary memory"""
    hugepages_free: int | None
    """of these, unused"""
    hugepage_bytes: int | None
    """size of one"""
    overcommit: Literal["heuristic", "always", "never"] | None
    """vm.overcommit_memory 0, 1, 2"""
    pressure: HerePressure
    """/proc/pressure/memory"""
    _objects: ClassVar[dict[str, type[Object]]] = {"pressure": HerePressure}


class HereLimit(Object):
    __slots__ = ()
    state: Literal["none", "set"] | None
    """none: there is no limit"""
    bytes: int | None
    """null: none, or not known"""


class HereCgroup(Object):
    __slots__ = ()
    path: str | None
    """as /proc/PID/cgroup shows it"""
    version: int
    """1 or 2"""
    max: HereLimit
    """memory.max, v1: memory.limit_in_bytes"""
    high: HereLimit
    """memory.high: beyond it the kernel slows and reclaims"""
    swap_max: HereLimit
    """memory.swap.max"""
    memsw_max: HereLimit
    """v1: memory.memsw.limit_in_bytes, memory and swap together"""
    current_bytes: int | None
    """memory.current, v1: memory.usage_in_bytes; page cache included"""
    peak_bytes: int | None
    """memory.peak, v1: memory.max_usage_in_bytes"""
    swap_bytes: int | None
    """memory.swap.current, v1: total_swap"""
    memsw_bytes: int | None
    """v1: memory.memsw.usage_in_bytes"""
    anon_bytes: int | None
    """memory of processes that is in no file"""
    file_bytes: int | None
    """page cache, /dev/shm included"""
    inactive_file_bytes: int | None
    """page cache that is dropped first"""
    active_file_bytes: int | None
    """page cache that was used again"""
    shmem_bytes: int | None
    """tmpfs and shared memory: not droppable"""
    slab_reclaimable_bytes: int | None
    """the kernel's own caches; null in v1"""
    droppable_bytes: int | None
    """inactive_file, active_file and slab_reclaimable together"""
    hierarchical_bytes: int | None
    """v1: the smallest limit from here to the root, also where the levels are not visible"""
    high_events: int | None
    """times that memory.high was exceeded"""
    max_events: int | None
    """times that the limit was reached; v1: failcnt"""
    oom_events: int | None
    """times that nothing could be reclaimed"""
    oom_kill_events: int | None
    """processes that the kernel killed, here and below"""
    oom_group_kill_events: int | None
    """times that it killed the whole cgroup"""
    oom_group: int | None
    """1: all of the cgroup is killed at once"""
    oom_kill_disabled: int | None
    """v1, 1: processes wait for memory instead of being killed"""
    pressure: HerePressure
    """memory.pressure"""
    _objects: ClassVar[dict[str, type[Object]]] = {"max": HereLimit, "high": HereLimit, "swap_max": HereLimit, "memsw_max": HereLimit, "pressure": HerePressure}


class HereShmFile(Object):
    __slots__ = ()
    name: str | None
    """below /dev/shm"""
    bytes: int | None
    """pages that were written"""


class HereShm(Object):
    __slots__ = ()
    size_bytes: int | None
    """of the mount"""
    used_bytes: int | None
    """of it"""
    named_bytes: int | None
    """in files that have a name; the rest is held open without one"""
    file_count: int | None
    """files with a name"""
    files: list[HereShmFile]
    """the largest 32"""
    _objects: ClassVar[dict[str, type[Object]]] = {"files": HereShmFile}


class HereRlimit(Object):
    __slots__ = ()
    name: str | None
    """RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, RLIMIT_CORE"""
    soft: HereLimit
    """what binds"""
    hard: HereLimit
    """how far it may be raised"""
    used_bytes: int | None
    """by the process"""
    _objects: ClassVar[dict[str, type[Object]]] = {"soft": HereLimit, "hard": HereLimit}


class HereFiles(Object):
    __slots__ = ()
    soft: int | None
    """RLIMIT_NOFILE; null: none, or not known"""
    hard: int | None
    """how far it may be raised"""
    open: int | None
    """files that the process has open"""


class HereOom(Object):
    __slots__ = ()
    score: int | None
    """oom_score: the highest dies first"""
    adjust: int
    """oom_score_adj, -1000 (never) to 1000"""


class HereProcess(Object):
    __slots__ = ()
    pid: int | None
    """as this namespace counts"""
    parent: int | None
    """its parent"""
    name: str | None
    """its name, up to 15 bytes"""
    state: str | None
    """R (running), S (sleeping), D (disk sleep), Z (zombie), ..."""
    rss_bytes: int | None
    """in memory, shared pages counted in each sharer"""
    anon_bytes: int | None
    """of it: its own"""
    file_bytes: int | None
    """of it: files, libraries"""
    shmem_bytes: int | None
    """of it: shared memory"""
    swap_bytes: int | None
    """in swap"""
    pss_bytes: int | None
    """in memory, shared pages divided by their sharers; of the 32 largest processes"""
    locked_bytes: int | None
    """locked in memory"""
    threads: int | None
    """its threads"""
    shm_files: int | None
    """files in /dev/shm that it has open"""
    shm_unlinked: int | None
    """of these, without a name"""
    oom: HereOom | None
    """of the 32 largest processes"""
    _objects: ClassVar[dict[str, type[Object]]] = {"oom": HereOom}


class HereHolder(Object):
    __slots__ = ()
    device: str | None
    """the device file: /dev/nvidia0"""
    pid: int | None
    """who has it open"""
    parent: int | None
    """its parent"""
    name: str | None
    """its name"""
    state: str | None
    """as of the process"""
    zombie: bool
    """its first thread has ended, another one still holds the card"""
    container: str | None
    """first 12 digits of its container's id; null: in none that shows"""


class HereKill(Object):
    __slots__ = ()
    pid: int | None
    """as the machine counts, also inside a container"""
    name: str | None
    """as the kernel log shows it"""
    ago_s: int | None
    """before now"""
    bound: str | None
    """cgroup, machine, cpuset or policy; null: the log does not tell"""
    cgroup: str | None
    """whose limit was reached; null: not told, or the machine's"""
    virtual_bytes: int | None
    """its address space"""
    anon_bytes: int | None
    """its own memory"""
    file_bytes: int | None
    """its files"""
    shmem_bytes: int | None
    """its shared memory"""


class HereUnseen(Object):
    __slots__ = ()
    what: str | None
    """what could not be seen"""
    why: str | None
    """why"""


class HereFields(Object):
    """The fields of here/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["here/2"]
    version: str
    """of the library"""
    pid: int | None
    """the process whose bounds these are"""
    name: str | None
    """its name"""
    headroom: HereBound | None
    """the bound on memory with the least room; null: none is known"""
    shared: HereBound | None
    """the bound on files in /dev/shm with the least room; null: none is known"""
    bounds: list[HereBound]
    """all, the least room first"""
    machine: HereMachine
    """the whole machine"""
    cgroups: list[HereCgroup]
    """the process's own first, the root last"""
    shm: HereShm
    """/dev/shm"""
    rlimits: list[HereRlimit]
    """limits of the process"""
    open_files: HereFiles
    """its limit of open files, a number"""
    processes: list[HereProcess]
    """the process and all below it, or (none was named) all; the largest first"""
    holders: list[HereHolder]
    """who has a card's device file open"""
    unread_processes: int | None
    """visible processes whose open files may not be read"""
    kills: list[HereKill]
    """by the out-of-memory killer, the newest first, at most 64"""
    notes: list[str]
    """what else matters"""
    unseen: list[HereUnseen]
    """what could not be seen, and why"""
    _objects: ClassVar[dict[str, type[Object]]] = {"headroom": HereBound, "shared": HereBound, "bounds": HereBound, "machine": HereMachine, "cgroups": HereCgroup, "shm": HereShm, "rlimits": HereRlimit, "open_files": HereFiles, "processes": HereProcess, "holders": HereHolder, "kills": HereKill, "unseen": HereUnseen}


class PlanModel(Object):
    __slots__ = ()
    family: str | None
    """the architecture that it is planned as"""
    guessed: bool
    """the architecture is not known: taken for one like `family`"""
    parameters: int | None
    """elements of all parameters, tied ones once"""
    parameter_bytes: int | None
    """the same in the dtype that they are loaded in"""
    trainable: int | None
    """elements that take gradients"""
    doubts: list[str]
    """what of the model is not known, a sentence each; with any, no plan is said to fit"""


class Interval(Object):
    __slots__ = ()
    low: int | None
    """at least; null: not known"""
    high: int | None
    """at most; null: not known"""


class PlanPhase(Object):
    __slots__ = ()
    phase: str | None
    """load, wrap, fwdN, bwdN, optN, zeroN of step N (fwdN.M of its M-th micro-batch), longest (all of a step), save,
    evalN, generate"""
    allocated_bytes: int | None
    """in use when it ends"""
    allocated_peak_bytes: int | None
    """most in use within it"""
    reserved_peak_bytes: int | None
    """most taken from the driver within it"""
    allocated_peak_range_bytes: Interval
    """least and most that allocated_peak_bytes may be"""
    basis: str | None
    """measured, derived or assumed, as of peak"""
    host_bytes: int | None
    """most of the machine's own memory within it"""
    _objects: ClassVar[dict[str, type[Object]]] = {"allocated_peak_range_bytes": Interval}


class PlanCategories(Object):
    __slots__ = ()
    parameter_bytes: int | None
    """weights"""
    gradient_bytes: int | None
    """gradients of parameters"""
    optimizer_state_bytes: int | None
    """moments and step counters"""
    activation_bytes: int | None
    """kept by the forward pass for the backward pass"""
    input_bytes: int | None
    """the batch"""
    workspace_bytes: int | None
    """of libraries"""
    temporary_bytes: int | None
    """intermediate results"""
    autograd_detail_bytes: int | None
    """gradients on their way"""
    kv_cache_bytes: int | None
    """keys and values of generated text"""
    buffer_bytes: int | None
    """buffers of modules"""
    other_bytes: int | None
    """tensors and components beside the model"""
    rounding_bytes: int | None
    """of blocks that were handed out whole"""


class PlanPeak(Object):
    __slots__ = ()
    allocated_bytes: int | None
    """as torch.cuda.max_memory_allocated()"""
    reserved_bytes: int | None
    """as torch.cuda.max_memory_reserved(), where memory is ample"""
    needed_bytes: int | None
    """smallest limit of reserved memory under which the run goes to its end"""
    needed_range_bytes: Interval
    """least and most that may be needed"""
    phase: str | None
    """when most is allocated"""
    categories: PlanCategories
    """what lives then; they add up to allocated_bytes"""
    basis: str | None
    """measured (fitted to a recording of a run of the model), derived (from PyTorch's rules, checked against measured
    runs of the same kind) or assumed (nothing of the kind was measured)"""
    reasons: list[str]
    """why it is no surer"""
    _objects: ClassVar[dict[str, type[Object]]] = {"needed_range_bytes": Interval, "categories": PlanCategories}


class PlanHost(Object):
    __slots__ = ()
    bytes: int | None
    """most that is used at once"""
    range_bytes: Interval
    """least and most that may be used"""
    process_bytes: int | None
    """Python, PyTorch and CUDA's libraries"""
    weight_bytes: int | None
    """parameters that are kept there"""
    gradient_bytes: int | None
    """gradients that are kept there"""
    optimizer_state_bytes: int | None
    """states of the optimizer, with its fp32 weights"""
    activation_bytes: int | None
    """what the forward pass keeps for the backward pass"""
    buffer_bytes: int | None
    """that transfers go through"""
    loading_bytes: int | None
    """the model on its way to the GPU"""
    saving_bytes: int | None
    """what is on its way to a file"""
    pinned_bytes: int | None
    """page-locked by PyTorch in the whole run, in blocks of powers of two"""
    processes: int | None
    """of the job that are taken to be on one machine"""
    limit_bytes: int | None
    """that the job may use; null: none was given"""
    fits: bool | None
    """it stays below; null: no limit was given"""
    dies_at: str | None
    """the first phase that needs more; null: none does"""
    basis: str | None
    """derived (what is kept there was found so in measured runs) or assumed"""
    _objects: ClassVar[dict[str, type[Object]]] = {"range_bytes": Interval}


class PlanSweep(Object):
    __slots__ = ()
    batch: int | None
    """samples of a micro-batch"""
    sequence: int | None
    """tokens of a sample"""
    allocated_bytes: int | None
    """peak of memory in use"""
    reserved_bytes: int | None
    """peak of memory taken, where it is ample"""
    needed_bytes: int | None
    """smallest limit that does"""
    fits: bool | None
    """under the limit; null: none was given, model.doubts, or beyond what was traced"""
    dies_at: str | None
    """phase; null: it does not"""
    needed_range_bytes: Interval
    """least and most that may be needed"""
    basis: str | None
    """measured, derived or assumed, as of peak"""
    _objects: ClassVar[dict[str, type[Object]]] = {"needed_range_bytes": Interval}


class PlanConfig(Object):
    __slots__ = ()
    training_arguments: str | None
    """Transformers' TrainingArguments"""
    from_pretrained: str | None
    """how the model is loaded"""
    peft: str | None
    """PEFT's configuration of adapters"""
    accelerate: str | None
    """a config file of accelerate (YAML)"""
    deepspeed: str | None
    """a config file of DeepSpeed (JSON)"""
    fsdp: str | None
    """fsdp_config (JSON)"""
    environment: str | None
    """to be set before PyTorch starts"""
    torchrun: str | None
    """the command line that starts as many processes as GPUs"""
    script: str | None
    """a line of the program"""
    tool: str | None
    """whose keys tool_config has: the tool of a file that was read, or that is asked for; null: none"""
    tool_config: str | None
    """the same in that tool's own keys (YAML)"""


class PlanRung(Object):
    __slots__ = ()
    rung: str | None
    """the change"""
    cost: str | None
    """what it costs, an estimate"""
    changes_results: bool
    """the model that comes out is another: opt-in"""
    saved_bytes: int | None
    """of needed_bytes, against the rungs before"""
    allocated_peak_bytes: int | None
    """peak of memory in use with it"""
    needed_bytes: int | None
    """smallest limit that does with it"""
    fits: bool | None
    """under the limit"""
    config: PlanConfig
    """all of it up to here, ready to be pasted"""
    needed_range_bytes: Interval
    """least and most that may be needed with it"""
    basis: str | None
    """measured, derived or assumed, as of peak"""
    host_bytes: int | None
    """of the machine's own memory, with it"""
    alone: bool
    """enough by itself, without the rungs before; these come first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"config": PlanConfig, "needed_range_bytes": Interval}


class PlanLearned(Object):
    __slots__ = ()
    quantity: str | None
    """what the recorded run takes another amount of than planned"""
    recorded_bytes: int | None
    """in the recording"""
    planned_bytes: int | None
    """in the plan of the recorded run"""
    learned_bytes: int | None
    """that the planned run is given beyond its plan; 0: the difference is left to the range"""
    evidence: str | None
    """where the recording shows it, and how it is carried over"""


class PlanSetting(Object):
    __slots__ = ()
    file: str | None
    """as it was given; null: redacted"""
    tool: str | None
    """whose configuration it is: 'Axolotl', 'DeepSpeed'"""
    key: str | None
    """with dots where it stands inside of others; null: redacted"""
    value: str | None
    """as the file has it; null: redacted"""
    option: str | None
    """what it is here: an option of plan with its value; null: it was not understood, and may change memory"""


class PlanFields(Object):
    """The fields of plan/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["plan/2"]
    version: str
    """of the library"""
    model: PlanModel
    """what was read"""
    batch: int | None
    """samples of a micro-batch"""
    sequence: int | None
    """tokens of a sample"""
    phases: list[PlanPhase]
    """in turn"""
    peak: PlanPeak
    """of the whole run"""
    host_bytes: int | None
    """of the machine's own memory, as host.bytes"""
    host: PlanHost
    """the machine's own memory at its peak, of all processes on it"""
    limit_bytes: int | None
    """reserved memory that the run may reach; null: none was given"""
    fits: bool | None
    """the run goes to its end under the limit; null: none was given, or model.doubts and what is known is not too
    much"""
    dies_at: str | None
    """the phase in which it runs out; null: it does not"""
    dies_request_bytes: int | None
    """what it asks for then"""
    max_batch: int | None
    """largest batch that fits, with all that is uncertain; null: not looked for, or not proven"""
    max_sequence: int | None
    """the same of the sequence; null: not looked for"""
    sweep: list[PlanSweep]
    """the sizes asked for"""
    assumptions: list[str]
    """what was not told and had to be taken"""
    ladder: list[PlanRung]
    """changes in the order of their cost"""
    max_batch_range: Interval
    """the largest batch that surely fits (max_batch; where that is null, on a line through traced ones), and that
    perhaps does; null: not looked for"""
    max_sequence_range: Interval
    """the same of max_sequence"""
    max_resident: int | None
    """components that surely fit with the model; null: not looked for"""
    max_resident_range: Interval
    """the same, and how many perhaps do"""
    max_basis: str | None
    """of max_batch and max_sequence, as of peak"""
    dies_allocated_bytes: int | None
    """what is allocated when it runs out"""
    learned: list[PlanLearned]
    """with --calibrate: what the recordings show beyond the plan"""
    unexplained_bytes: int | None
    """of the recorded peak, after that; null: nothing was recorded"""
    config: PlanConfig
    """the planned run itself, ready to be pasted"""
    settings_read: list[PlanSetting]
    """what was read from files of the run's configuration"""
    _objects: ClassVar[dict[str, type[Object]]] = {"model": PlanModel, "phases": PlanPhase, "peak": PlanPeak, "host": PlanHost, "sweep": PlanSweep, "ladder": PlanRung, "max_batch_range": Interval, "max_sequence_range": Interval, "max_resident_range": Interval, "learned": PlanLearned, "config": PlanConfig, "settings_read": PlanSetting}


class RanksFirst(Object):
    __slots__ = ()
    row: int | None
    """index into rows"""
    rank: int | None
    """its number; null: not known"""
    time_us: int | None
    """of its last failed request, microseconds since 1970"""
    next_row: int | None
    """the next that died, an index into rows; null: no other died"""
    next_rank: int | None
    """its number"""
    ahead_us: int | None
    """how many microseconds later that was"""
    certain: bool
    """nothing speaks against it"""
    doubt: str | None
    """what does; null: nothing"""


class RanksExtreme(Object):
    __slots__ = ()
    bytes: int | None
    """the peak"""
    rank: int | None
    """whose it is; null: not known"""
    row: int | None
    """the same as an index into rows"""


class RanksSpread(Object):
    __slots__ = ()
    max: RanksExtreme
    """the largest"""
    median: RanksExtreme
    """the one in the middle, the lower of two"""
    min: RanksExtreme
    """the smallest"""
    _objects: ClassVar[dict[str, type[Object]]] = {"max": RanksExtreme, "median": RanksExtreme, "min": RanksExtreme}


class RanksExcess(Object):
    __slots__ = ()
    row: int | None
    """the worst, or if it has no more than the median the one with the largest peak"""
    median_row: int | None
    """the one with the median of the allocated peaks"""
    difference_bytes: int
    """its allocated peak, less the median"""
    category: str | None
    """that makes at least half of it, and most; null: none does"""
    category_bytes: int
    """what it has more of that at its peak"""
    meaning: str | None
    """what makes it differ between ranks of one program; null: nothing is known, or they peak in different phases"""


class RanksGroup(Object):
    __slots__ = ()
    first_rank: int | None
    """the lowest; null: not known"""
    first_row: int | None
    """the same as an index into rows"""
    ranks: int | None
    """how many"""
    allocated_bytes: int | None
    """median of their allocated peaks"""
    name: str | None
    """what of the layout they have in common and no other has: 'pp 2'; null: nothing"""


class RanksOutlier(Object):
    __slots__ = ()
    rank: int | None
    """null: not known"""
    row: int | None
    """index into rows"""
    measure: str | None
    """allocated_peak_bytes, reserved_peak_bytes, leak_bytes, steps, unused_bytes (reserved, less allocated), program
    or release"""
    value: int | None
    """the rank's; null: program, release"""
    median: int | None
    """of its group; null: program, release"""
    expected_by_chance: float | None
    """how many of all ranks would be so far off by chance; 0: the others are all alike"""
    frame: str | None
    """the line that has most more than in the median rank; null: not known"""
    frame_bytes: int
    """how much more"""
    says: str | None
    """the same in words"""


class ReportCategories(Object):
    __slots__ = ()
    parameter: int | None
    """bytes of the model's weights"""
    gradient: int | None
    """bytes of their gradients"""
    optimizer_state: int | None
    """bytes of what the optimizer keeps from step to step"""
    activation: int | None
    """bytes that a forward pass saved for its backward pass"""
    input: int | None
    """bytes of what goes into the model"""
    workspace: int | None
    """bytes of cuBLAS workspaces"""
    temporary: int | None
    """bytes that end in the phase they were born in"""
    autograd_detail: int | None
    """bytes that a backward pass needs for itself"""
    kv_cache: int | None
    """bytes of keys and values of attention"""
    buffer: int | None
    """bytes of what a module keeps beside its parameters"""
    unknown: int | None
    """bytes that no rule explains"""
    before_recording: int | None
    """bytes that were there before the recording began: usually weights and optimizer state"""


class RanksDeath(Object):
    __slots__ = ()
    event: int | None
    """index of the last failed request"""
    time_us: int | None
    """microseconds since 1970; null before PyTorch 2.2"""
    requested_bytes: int | None
    """what was asked for, as the allocator had rounded it"""
    live_bytes: int | None
    """blocks in use at that moment"""
    reserved_bytes: int | None
    """taken from the driver then"""
    phase: str | None
    """as in report/2; null: no stacks were recorded"""
    step: int | None
    """training steps that had ended before it"""
    frame: str | None
    """the user's own line; null: no Python stack"""
    bound_by: Literal["unknown", "device", "limit", "other_process", "non_pytorch", "host", "cgroup", "shared_memory"]
    """what the memory ran into: device, limit, other_process, non_pytorch, unknown"""
    cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """as report tells it"""
    likely_cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """of an unknown cause: what more speaks for"""
    headline: str | None
    """one sentence"""


class RanksOwner(Object):
    __slots__ = ()
    frame: str | None
    """as in report/2; null: no Python stack"""
    bytes: int | None
    """allocated there and live"""


class RanksRow(Object):
    __slots__ = ()
    rank: int | None
    """what the recorder found in its environment (RANK and the like), else the number in its name, else its place in
    the order of names; null: others have one"""
    rank_from: str | None
    """recording, name or order; null: no rank"""
    path: str | None
    """the file, or the archive; null with --redact"""
    member: str | None
    """its name in the archive; null: it is a file"""
    bytes: int | None
    """as stored"""
    error: str | None
    """why it could not be read; then the rest is null or false"""
    device: int | None
    """of several GPUs in a recording the one that died, else the one that held most"""
    devices: int | None
    """GPUs with memory or events in it"""
    events: int | None
    """of all of them"""
    complete: bool
    """recording began before the first allocation and lost no event"""
    exact: bool
    """the replay explains every event, and the snapshot's blocks"""
    first_time_us: int | None
    """of the first event, microseconds since 1970"""
    last_time_us: int | None
    """of the last event"""
    requested_peak_bytes: int | None
    """as devices[].peak of report/2"""
    allocated_peak_bytes: int | None
    """the same"""
    reserved_peak_bytes: int | None
    """the same"""
    allocated_peak_range_bytes: Interval
    """what allocated_peak_bytes may be; low is high: exact"""
    lower_bound: bool
    """the recording does not cover the whole run: its peak may lie outside"""
    peak_phase: str | None
    """what the program did when most was allocated; null: no stacks were recorded"""
    peak_step: int | None
    """training step of that moment; null: no optimizer ran"""
    peak_categories: ReportCategories | None
    """what the allocated bytes were for at that moment; null: not known"""
    deaths: int | None
    """requests that failed"""
    died: RanksDeath | None
    """the last of them; null: none failed"""
    leak_bytes: int | None
    """that grew; null: no leak was found"""
    steps: int | None
    """training steps that ended; null: no optimizer ran"""
    release: str | None
    """of PyTorch, as far as the recording tells: '2.9 or later'"""
    program: str | None
    """of the lines that allocate, without their number of times: equal ones run equal programs; null: no stacks"""
    place: str | None
    """'pp 2, dp 0, tp 5': in the layout, else as the recorder found it in the program (Megatron, vLLM, DeviceMesh,
    PLIMSOLL_LAYOUT); null: not known"""
    owners: list[RanksOwner]
    """who held most at the allocated peak, at most 8, largest first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"allocated_peak_range_bytes": Interval, "peak_categories": ReportCategories, "died": RanksDeath, "owners": RanksOwner}


class RanksSkipped(Object):
    __slots__ = ()
    path: str | None
    """a file, or a name in an archive; null with --redact"""
    reason: str | None
    """what it is instead of a recording"""


class ReportTotals(Object):
    __slots__ = ()
    requested_bytes: int | None
    """what the program asked for"""
    active_bytes: int | None
    """blocks in use or awaiting another stream"""
    allocated_bytes: int | None
    """blocks in use"""
    reserved_bytes: int | None
    """taken from the driver"""
    categories: ReportCategories | None
    """allocated_bytes by what they are for; null: no stacks were recorded, or before the first event"""
    _objects: ClassVar[dict[str, type[Object]]] = {"categories": ReportCategories}


class ReportMoment(Object):
    __slots__ = ()
    event: int | None
    """index of the event that reached it; null: it stood before the first"""
    time_us: int | None
    """microseconds since 1970; null before PyTorch 2.2"""
    range_bytes: Interval
    """what the number may be; low is high: exact"""
    step: int | None
    """index of the step that it lies in; null: there are no steps"""
    phase: str | None
    """as in oom[].phase; null: no stacks were recorded"""
    _objects: ClassVar[dict[str, type[Object]]] = {"range_bytes": Interval}


class ReportPeak(Object):
    __slots__ = ()
    requested_bytes: int | None
    """largest sum of what the program asked for (requested_bytes.all.peak)"""
    active_bytes: int | None
    """largest sum of blocks in use or awaiting another stream"""
    allocated_bytes: int | None
    """largest sum of blocks in use (torch.cuda.max_memory_allocated)"""
    reserved_bytes: int | None
    """most memory taken from the driver (torch.cuda.max_memory_reserved)"""
    requested: ReportMoment
    """when requested_bytes was reached"""
    active: ReportMoment
    """when active_bytes was reached"""
    allocated: ReportMoment
    """when allocated_bytes was reached"""
    reserved: ReportMoment
    """when reserved_bytes was reached"""
    lower_bound: bool
    """the recording does not cover the whole run: its peak may lie outside"""
    _objects: ClassVar[dict[str, type[Object]]] = {"requested": ReportMoment, "active": ReportMoment, "allocated": ReportMoment, "reserved": ReportMoment}


class ReportOwner(Object):
    __slots__ = ()
    bytes: int
    """what its allocations hold"""
    count: int
    """allocations"""
    each_bytes: int | None
    """grouped by size: the size asked for; else null"""
    frame: str | None
    """the innermost line of the user's own code; null: no Python stack"""
    stack: list[str]
    """of its largest allocation, innermost first"""
    inferred: bool
    """the owner was not recorded but concluded"""
    code_frame: str | None
    """the innermost line of its stack that is not PyTorch's, of the model's code, whoever wrote it; null: no Python
    stack"""
    before_recording: bool
    """no stack, for it was there before the recording began"""
    module: str | None
    """where modules were called from, outermost first, 'modeling_llama.py:402 > 308 > 240'; of a plan the module's
    name; null: its stack shows no call of a module"""


class ReportTag(Object):
    __slots__ = ()
    name: str | None
    """null: those that have none"""
    bytes: int | None
    """what they hold together"""
    count: int | None
    """of allocations"""


class ReportOwners(Object):
    __slots__ = ()
    measure: str | None
    """which of the four totals is divided among the owners"""
    what: str | None
    """the moment: peak, oom, end or event"""
    event: int | None
    """index of the moment's event; null: before the first"""
    total_bytes: int | None
    """the sum over all owners"""
    owners: list[ReportOwner]
    """largest first"""
    owners_left_out: int | None
    """owners beyond the rows that were asked for"""
    left_out_bytes: int | None
    """what those hold"""
    categories: ReportCategories | None
    """total_bytes by what they are for; null: no stacks were recorded"""
    annotations: list[str]
    """as in oom[].annotations"""
    by_code: list[ReportOwner]
    """the same memory by code_frame instead: where in a model, if one line calls it; largest first"""
    tags: list[ReportTag]
    """the same memory by tag, largest first; none: nothing that lives has one"""
    _objects: ClassVar[dict[str, type[Object]]] = {"owners": ReportOwner, "categories": ReportCategories, "by_code": ReportOwner, "tags": ReportTag}


class ReportGapPart(Object):
    __slots__ = ()
    kind: str | None
    """wholly_free: segments, or pages of expandable ones, that nothing is in; private_pools: free in pools of CUDA
    graphs or of a MemPool; other_streams: free in segments of a stream that is not the one with the most in use;
    waiting: freed, but another stream may still use it; splits: free in segments that something is in; rounding: of
    blocks that are in use"""
    bytes: int
    """"""
    kept_by_bytes: int | None
    """in use in the same segments, which keeps them; null: nothing does"""
    frame: str | None
    """the user's line that made most of that; null: not known"""
    gives_back: str | None
    """what gives it back"""


class ReportGap(Object):
    __slots__ = ()
    bytes: int
    """the sum of the parts"""
    parts: list[ReportGapPart]
    """largest first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"parts": ReportGapPart}


class VerdictCause(Object):
    __slots__ = ()
    cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """capacity, fragmentation, leak"""
    because: str | None
    """what speaks for it"""
    decided_by: str | None
    """what would decide"""


class Verdict(Object):
    __slots__ = ()
    bound_by: Literal["unknown", "device", "limit", "other_process", "non_pytorch", "host", "cgroup", "shared_memory"]
    """what the memory ran into: device, limit, other_process, non_pytorch, unknown; of a log also host, cgroup,
    shared_memory"""
    bound_certain: bool
    """false: usually; the same text is also written otherwise"""
    cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """capacity, fragmentation, leak; private_pools, other_stream: enough was free, but in a pool, or of a stream,
    that the request could not use; unknown: it is not decided"""
    likely_cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """of an unknown cause: what more speaks for"""
    basis: str | None
    """recording, or text"""
    causes: list[VerdictCause]
    """of a log: likeliest first; what is not among them is excluded"""
    bound_bytes: Interval
    """reserved memory: certainly allowed, certainly refused (or the same number)"""
    request_bytes: Interval
    """what was asked for, before rounding up to a segment"""
    room_bytes: Interval
    """under the bound and not allocated, in whatever pieces"""
    needed_bytes: Interval
    """live, request and what was still to come"""
    still_to_come_bytes: Interval
    """what the step had still to allocate"""
    still_basis: str | None
    """repeated: from the same point in earlier repetitions; optimizer: from its state and gradients; planned: from
    the plan that it is; null: not known"""
    headline: str | None
    """one sentence"""
    arithmetic: str | None
    """the sum that decides, in one sentence, rounded so that it adds up; null: of a log"""
    evidence: list[str]
    """sentences with the numbers"""
    helps: list[str]
    """what to do, best first, and what does not help"""
    useless: list[str]
    """of a log: what people try and does not help here"""
    certainty: list[str]
    """of a log: how to get certainty"""
    _objects: ClassVar[dict[str, type[Object]]] = {"causes": VerdictCause, "bound_bytes": Interval, "request_bytes": Interval, "room_bytes": Interval, "needed_bytes": Interval, "still_to_come_bytes": Interval}


class ReportTried(Object):
    __slots__ = ()
    settings: str
    """PYTORCH_CUDA_ALLOC_CONF"""
    survives: bool
    """wherever the driver puts the segments"""
    oom_event: int | None
    """at which it failed, too; null: it did not"""
    limit_bytes: int | None
    """that it was held to"""
    reserved_peak_bytes: int | None
    """the most that was taken from the driver"""


class ReportOom(Object):
    __slots__ = ()
    event: int
    """index"""
    time_us: int | None
    """microseconds since 1970; null before PyTorch 2.2"""
    survived: bool
    """the program caught it and went on"""
    requested_bytes: int
    """what was asked for, as the allocator had rounded it"""
    segment_bytes: int
    """what the driver was asked for ('Tried to allocate')"""
    stream: int
    """cudaStream_t of the request"""
    pool: str
    """small or large"""
    phase: str | None
    """load, forward, backward, optimizer, eval, generate, request or other; null: no stacks were recorded"""
    step: int | None
    """index of the step that it lies in; null: there are no steps"""
    frame: str | None
    """the user's own line; null: no Python stack"""
    backward_of: str | None
    """without a frame, in a backward pass: the line whose backward pass it was, concluded"""
    code_frame: str | None
    """of either, as in owners[]"""
    stack: list[str]
    """innermost first"""
    live_bytes: int | None
    """blocks in use at that moment"""
    reserved_bytes: int | None
    """taken from the driver, after the allocator had given back what it could"""
    bound_bytes: int | None
    """reserved memory that was certainly allowed (verdict.bound_bytes.low)"""
    device_free_bytes: int | None
    """free on the device as the driver told"""
    free_bytes: int | None
    """reserved but in no block in use"""
    largest_free_bytes: int | None
    """largest free block that this request's stream and pool could use"""
    annotations: list[str]
    """names of the ranges (record_function, external_annotations) that it lies in, the outermost first, at most 16"""
    verdict: Verdict | None
    """null for those between the first and the last four of many"""
    tried: list[ReportTried]
    """what other settings would have done; of the last failure, where settings are the question"""
    _objects: ClassVar[dict[str, type[Object]]] = {"verdict": Verdict, "tried": ReportTried}


class ReportLeak(Object):
    __slots__ = ()
    finding: int
    """index in findings"""
    grown_bytes: int
    """growth from the first repetition to the last, and what it had kept before the recording"""
    per_repetition_bytes: int
    """growth of one repetition"""
    repetitions: int
    """repetitions that grew, one after another"""
    first_event: int
    """start of the first repetition"""
    last_event: int
    """start of the last repetition"""
    loop: str | None
    """the line that is entered once a repetition"""
    frame: str | None
    """the user's line that allocated the largest part of what stays"""
    stack: list[str]
    """its stack, innermost first"""
    part_bytes: int | None
    """what that stack allocated and nobody freed"""


class ReportFill(Object):
    __slots__ = ()
    gpu: str | None
    """the card; null: a limit (in whatif)"""
    limit_bytes: int
    """of its memory, what PyTorch can have"""
    period: str
    """as in findings[]"""
    repetitions: Interval
    """how many more are served, counted from the last one that kept something"""
    step: Interval
    """the same as an index of a step; null: of another period"""
    _objects: ClassVar[dict[str, type[Object]]] = {"repetitions": Interval, "step": Interval}


class ReportPhases(Object):
    __slots__ = ()
    load: int | None
    """bytes; null: the step had no such phase"""
    forward: int | None
    """bytes, or null"""
    backward: int | None
    """bytes, or null"""
    optimizer: int | None
    """bytes, or null"""
    eval: int | None
    """bytes, or null: a forward pass that no backward pass answers"""
    generate: int | None
    """bytes, or null"""
    request: int | None
    """bytes, or null: a forward pass of a program that never runs backward"""
    other: int | None
    """bytes, or null"""


class ReportStep(Object):
    __slots__ = ()
    index: int
    """from 0; the first begins with the recording"""
    start_event: int
    """first event"""
    end_event: int
    """last event: the optimizer's last, the least memory before the next one, or the recording's last"""
    requested_peak_bytes: int
    """most that was requested in it"""
    phase_peaks: ReportPhases
    """the same by phase"""
    _objects: ClassVar[dict[str, type[Object]]] = {"phase_peaks": ReportPhases}


class ReportStop(Object):
    __slots__ = ()
    step: int
    """that step"""
    phase: str | None
    """the pass that it stops in or behind: forward or backward"""


class ReportCheck(Object):
    __slots__ = ()
    events: int
    """events that were replayed under the allocator's rules"""
    faults: int
    """of these, the ones that the rules cannot explain"""
    end_faults: int
    """blocks of the snapshot that the replay did not end with"""
    contradictions: int
    """events that contradict each other or the snapshot"""
    exact: bool
    """the replay explains every event and ends with exactly the snapshot's blocks"""


class ReportLine(Object):
    __slots__ = ()
    label: str | None
    """limit, because, line, refused, since, full or cause; null: it stands alone"""
    text: str | None
    """a sentence, or a place: 'model.py:40 in loss < train.py:152'"""
    brief: str | None
    """of a place: the same in fewer columns; null: it is a sentence"""


class ReportHolder(Object):
    __slots__ = ()
    bytes: int
    """"""
    text: str | None
    """the model's line, and the user's that called it; or what it is"""
    brief: str | None
    """the same in fewer columns"""


class ReportTold(Object):
    __slots__ = ()
    kind: str | None
    """died, refused (and caught), leak, fine or no_events"""
    headline: str | None
    """'DIED OF FRAGMENTATION, backward of step 15: ...'"""
    lines: list[ReportLine]
    """its sum, its limit, its cause, its place"""
    remedies: list[str]
    """what to do, best first"""
    held: str | None
    """'Who held 3.02 GiB allocated'; null: nothing was held"""
    kinds: str | None
    """what that was for: '1.74 GiB activations, ...'; null: not known"""
    holders: list[ReportHolder]
    """largest first"""
    peak: str | None
    """'3.44 GiB allocated, forward of step 15; 3.97 GiB reserved'"""
    gap: str | None
    """who owns what is reserved and not in use; null: too little, or a failure or leak is reported"""
    gap_at_peak: str | None
    """the same at the peak"""
    stop: str | None
    """where in a step the recording ends; null: between steps, or none are seen"""
    _objects: ClassVar[dict[str, type[Object]]] = {"lines": ReportLine, "holders": ReportHolder}


class ReportDevice(Object):
    __slots__ = ()
    device: int
    """ordinal"""
    events: int
    """number of events"""
    allocations: int
    """number of allocations"""
    streams: int
    """number of streams with allocations"""
    before: ReportTotals
    """before the first event"""
    peak: ReportPeak
    """of the recording; null without events"""
    at_peak: ReportOwners
    """who held the memory at a moment"""
    end: ReportTotals
    """when the snapshot was taken"""
    gap: ReportGap | None
    """at the end; null: a tenth of what is allocated or less, or nobody looked at the end"""
    gap_at_peak: ReportGap | None
    """the same at the allocated peak; null: a tenth of what is reserved then, or less, or it is not known"""
    oom: list[ReportOom]
    """deaths, in turn"""
    findings: list[Finding]
    """worst first"""
    leaks: list[ReportLeak]
    """those of the findings that are leaks"""
    fills: list[ReportFill]
    """when they fill which card; of a run that did not die"""
    steps: list[ReportStep]
    """training steps, or what else repeats; the last one may not have ended"""
    step_basis: str | None
    """what ends a step: optimizer; backward: a backward pass, where no optimizer is seen; request: passes of a model,
    where nothing runs backward; annotation: a range that the program named with record_function; null: no steps"""
    stop: ReportStop | None
    """the step that the recording stops within; null: it stops between steps, or none are seen"""
    self_check: ReportCheck
    """how far the numbers prove themselves"""
    timeline_first_event: int | None
    """first event that the timeline and the peaks cover"""
    timeline_last_event: int | None
    """last event that they cover; null without events"""
    timeline_bytes: list[int]
    """largest allocated bytes in equal parts of the events"""
    timeline_low_bytes: list[int]
    """smallest allocated bytes in the same parts"""
    told: ReportTold
    """what a person is told first"""
    _objects: ClassVar[dict[str, type[Object]]] = {"before": ReportTotals, "peak": ReportPeak, "at_peak": ReportOwners, "end": ReportTotals, "gap": ReportGap, "gap_at_peak": ReportGap, "oom": ReportOom, "findings": Finding, "leaks": ReportLeak, "fills": ReportFill, "steps": ReportStep, "stop": ReportStop, "self_check": ReportCheck, "told": ReportTold}


class ReportUneven(Object):
    __slots__ = ()
    device: int | None
    """that held most"""
    other_device: int | None
    """the one in the middle, the lower of two"""
    bytes: int | None
    """the difference"""
    category: str | None
    """that makes at least half of it, and most; null: none does"""
    category_bytes: int
    """what it has more of that"""
    meaning: str | None
    """what makes it differ; null: nothing is known"""
    frame: str | None
    """the line that has most more; null: none has"""
    frame_bytes: int
    """what it has more there"""


class ReportFields(Object):
    """The fields of report/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["report/2"]
    version: str
    """of the library"""
    source: ReportSource
    """what was read"""
    devices: list[ReportDevice]
    """those with memory or events"""
    uneven: ReportUneven | None
    """null: one device, or they differ by less than a twentieth"""
    _objects: ClassVar[dict[str, type[Object]]] = {"source": ReportSource, "devices": ReportDevice, "uneven": ReportUneven}


class RanksTold(Object):
    __slots__ = ()
    rank: int | None
    """null: not known"""
    row: int | None
    """the same as an index into rows"""
    why: str | None
    """what is unlike the others, in words"""
    report: ReportFields | None
    """as report/2"""
    _objects: ClassVar[dict[str, type[Object]]] = {"report": ReportFields}


class RanksFields(Object):
    """The fields of ranks/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["ranks/2"]
    version: str
    """of the library"""
    read: int | None
    """recordings that were read"""
    failed: int | None
    """recordings that could not be"""
    died: int | None
    """recordings in which a request failed"""
    worst_rank: int | None
    """the first that died; else of those that died the one with most memory; else the one with the largest allocated
    peak; null: nothing was read"""
    worst_row: int | None
    """the same as an index into rows"""
    first_death: RanksFirst | None
    """null: none died, or see order_unknown"""
    order_unknown: str | None
    """why it is not known which of several died first"""
    allocated: RanksSpread | None
    """allocated peaks over all recordings; null: nothing was read"""
    reserved: RanksSpread | None
    """reserved peaks; null: no recording tells them"""
    excess: RanksExcess | None
    """what one has beyond the median; null: fewer than two, or no categories"""
    sentence: str | None
    """which died first, why, and what is different about it; null: nothing was read"""
    groups: list[RanksGroup]
    """ranks of equal programs and sizes, the largest group first"""
    outliers: list[RanksOutlier]
    """ranks that are not as the others of their group, the least likely first; at most 100"""
    rows: list[RanksRow]
    """recordings by rank, then by name; without a rank last"""
    skipped: list[RanksSkipped]
    """files that are no recordings, the first thousand"""
    skipped_total: int | None
    """how many there were"""
    notes: list[str]
    """what limits these numbers"""
    worst: ReportFields | None
    """the worst in full, as report/2; null: nothing was read, or see the notes"""
    also: list[RanksTold]
    """of ranks that are unlike the others, each in something else, the least likely two, where their recordings are
    at hand"""
    _objects: ClassVar[dict[str, type[Object]]] = {"first_death": RanksFirst, "allocated": RanksSpread, "reserved": RanksSpread, "excess": RanksExcess, "groups": RanksGroup, "outliers": RanksOutlier, "rows": RanksRow, "skipped": RanksSkipped, "worst": ReportFields, "also": RanksTold}


class WatchNow(Object):
    __slots__ = ()
    time: float | None
    """of the sample"""
    gpu_busy_percent: float | None
    """time with any kernel at all"""
    sm_active_percent: float | None
    """of the card's multiprocessors, by GPM"""
    sm_occupancy_percent: float | None
    """of the card's warps, by GPM"""
    tensor_active_percent: float | None
    """by GPM"""
    dram_active_percent: float | None
    """by GPM"""
    receive_bytes_per_second: float | None
    """of the card, over PCIe"""
    transmit_bytes_per_second: float | None
    """of the card, over PCIe"""
    power_watts: float | None
    """of the card"""
    gpu_total_bytes: int | None
    """of the card"""
    gpu_used_bytes: int | None
    """of the card, by everyone"""
    gpu_reserved_bytes: int | None
    """of the card, by the driver"""
    gpu_job_bytes: int | None
    """of the card, by this job"""
    allocated_bytes: int | None
    """PyTorch's, from the gauge"""
    reserved_bytes: int | None
    """PyTorch's, from the gauge"""
    step: int | None
    """from the gauge"""
    loss: float | None
    """from the gauge"""
    phase: str | None
    """from the gauge"""
    main_cores: float | None
    """that the main thread used"""
    worker_count: int | None
    """DataLoader workers"""
    worker_cores: float | None
    """that one of them used, on average"""
    resident_bytes: int | None
    """of the main process and its workers"""
    host_available_bytes: int | None
    """of the machine"""
    host_total_bytes: int | None
    """of the machine"""


class WatchProcess(Object):
    __slots__ = ()
    pid: int | None
    """of the process"""
    what: str
    """main, or worker"""
    state: str
    """R, S, D, Z, T as /proc has it; '?': not known"""
    cores: float | None
    """that it used since the sample before"""
    resident_bytes: int | None
    """of its memory"""
    read_bytes_per_second: float | None
    """from disks"""
    sleeps_in: str | None
    """the kernel's function; null: it runs, or nobody may know"""


class WatchPlace(Object):
    __slots__ = ()
    who: str
    """main: the main thread; worker: a DataLoader worker"""
    does: str
    """input, queue, starting, saving, collective, sync, copy, launch, sleep, wait; python: none of these"""
    looks: int | None
    """that found it there"""
    share: float | None
    """of all looks at who"""
    file: str | None
    """of the user's own code, as far as there is any on the stack; null: not told"""
    line: int | None
    """in it; null: not told"""
    function: str | None
    """null: not told"""
    code: str | None
    """what the line executes, from its file; null: not read"""
    inside: str | None
    """FILE:LINE FUNCTION of the innermost frame; null: it is that line"""


class WatchVerdict(Object):
    __slots__ = ()
    state: Literal["undecided", "starting", "compute_bound", "busy_thin", "input_cpu", "input_disk", "input_source", "input_main", "input_unknown", "main_system", "main_python", "launch_bound", "sync_bound", "host_paced", "copy_bound", "saving", "sleeping", "idle", "throttled", "stalled", "deadlock"]
    """what holds the job back"""
    confidence: Literal["low", "medium", "high"]
    """how sure that is"""
    since: float | None
    """when it began"""
    until: float | None
    """when it was over; null: it goes on"""
    title: str
    """one sentence"""
    evidence: list[str]
    """sentences with the numbers"""
    advice: list[str]
    """what to change, best first"""


class WatchForecast(Object):
    __slots__ = ()
    bound: Literal["gpu", "process", "cgroup", "machine", "shm"]
    """what will be full"""
    confidence: Literal["low", "medium", "high"]
    """low: it grows, but the end is too far beyond what was seen to be foretold"""
    what: str
    """the memory that grows"""
    room_bytes: int | None
    """left now"""
    growth_bytes_per_hour_range: Interval
    """95 %"""
    seconds_range: Interval
    """until it is full, from the two ends of the growth"""
    step_range: Interval
    """of the training, then; null: steps are not seen"""
    since: float | None
    """begin of the samples it rests on"""
    title: str
    """one sentence"""
    evidence: list[str]
    """sentences with the numbers"""
    _objects: ClassVar[dict[str, type[Object]]] = {"growth_bytes_per_hour_range": Interval, "seconds_range": Interval, "step_range": Interval}


class WatchShare(Object):
    __slots__ = ()
    state: Literal["undecided", "starting", "compute_bound", "busy_thin", "input_cpu", "input_disk", "input_source", "input_main", "input_unknown", "main_system", "main_python", "launch_bound", "sync_bound", "host_paced", "copy_bound", "saving", "sleeping", "idle", "throttled", "stalled", "deadlock"]
    """that was said"""
    seconds: float | None
    """in total"""


class WatchWindow(Object):
    __slots__ = ()
    time: float | None
    """its end"""
    state: Literal["undecided", "starting", "compute_bound", "busy_thin", "input_cpu", "input_disk", "input_source", "input_main", "input_unknown", "main_system", "main_python", "launch_bound", "sync_bound", "host_paced", "copy_bound", "saving", "sleeping", "idle", "throttled", "stalled", "deadlock"]
    """what it alone tells"""
    confidence: Literal["low", "medium", "high"]
    """how sure that is"""


class WatchJob(Object):
    __slots__ = ()
    pid: int | None
    """null: not known"""
    name: str
    """of the program, as short as tells it"""
    gpu: str | None
    """name and number of its card; null: it has none"""
    first_time: float | None
    """of the samples"""
    last_time: float | None
    """of the samples"""
    samples: int | None
    """that were taken"""
    rank: int | None
    """of a job of several processes; null: it is alone"""
    world: int | None
    """how many ranks that job has; null: not told"""
    now: WatchNow
    """the latest sample"""
    processes: list[WatchProcess]
    """the main process, then the workers"""
    places: list[WatchPlace]
    """the main thread's first, the most frequent first"""
    verdicts: list[WatchVerdict]
    """the newest first"""
    forecasts: list[WatchForecast]
    """the nearest first"""
    shares: list[WatchShare]
    """the longest first"""
    windows: list[WatchWindow]
    """of a replay: every window"""
    ended: bool
    """the process is gone"""
    _objects: ClassVar[dict[str, type[Object]]] = {"now": WatchNow, "processes": WatchProcess, "places": WatchPlace, "verdicts": WatchVerdict, "forecasts": WatchForecast, "shares": WatchShare, "windows": WatchWindow}


class WatchGroup(Object):
    __slots__ = ()
    ranks: int | None
    """that are seen here"""
    world: int | None
    """that the job has; null: not told"""
    late_pid: int | None
    """the one that the others wait for; null: none"""
    late_rank: int | None
    """its rank; null: none, or not told"""
    title: str
    """one sentence"""
    evidence: list[str]
    """sentences with the numbers"""


class WatchCard(Object):
    __slots__ = ()
    index: int | None
    """as its driver counts"""
    name: str
    """of the product"""
    uuid: str | None
    """null: not told"""
    total_bytes: int | None
    """of its memory"""
    used_bytes: int | None
    """by everyone"""
    reserved_bytes: int | None
    """by the driver"""
    gpu_busy_percent: float | None
    """time with any kernel at all"""
    sm_active_percent: float | None
    """of its multiprocessors, by GPM"""
    power_watts: float | None
    """now"""
    power_limit_watts: float | None
    """that it keeps below"""
    temperature_celsius: float | None
    """of the chip"""
    slowed: str | None
    """why its clocks are down: heat, hardware; null: they are not"""
    xid: int | None
    """the newest error of the driver since watch began; null: none"""
    processes: int | None
    """that hold it; null: not told"""
    lost: bool
    """it has fallen off the bus"""


class WatchAlert(Object):
    __slots__ = ()
    event: Literal["creep", "oom_soon", "idle_long", "stall", "input_bound", "slowed", "card_lost", "xid", "died", "ended", "tight_shm", "late_rank", "driver_silent"]
    """what"""
    pid: int | None
    """of the job; null: it is about a card"""
    since: float | None
    """when it began"""
    fresh: bool
    """with this very sample"""
    title: str
    """one sentence"""


class WatchFields(Object):
    """The fields of watch/1 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["watch/1"]
    version: str
    """of the library"""
    jobs: list[WatchJob]
    """those that end stay, up to 64 of them"""
    groups: list[WatchGroup]
    """jobs that are ranks of one"""
    cards: list[WatchCard]
    """of this machine"""
    alerts: list[WatchAlert]
    """that hold now, the newest first"""
    driver_silent_seconds: float | None
    """that the GPU's driver owes an answer for; null: it answers"""
    cpu_seconds: float | None
    """of processor time that watching has taken"""
    ended: bool
    """the process that was asked for is gone, or all of a replay is read"""
    notes: list[str]
    """what could not be seen, and why; redacted: what is kept"""
    _objects: ClassVar[dict[str, type[Object]]] = {"jobs": WatchJob, "groups": WatchGroup, "cards": WatchCard, "alerts": WatchAlert}


class WhatifCount(Object):
    __slots__ = ()
    current: int | None
    """when the recording ends"""
    peak: int | None
    """the most there ever was"""
    allocated: int | None
    """all that was ever added"""
    freed: int | None
    """all that was ever taken away"""


class WhatifStat(Object):
    __slots__ = ()
    all: WhatifCount
    """both pools"""
    small_pool: WhatifCount
    """requests up to 1 MiB"""
    large_pool: WhatifCount
    """larger requests"""
    _objects: ClassVar[dict[str, type[Object]]] = {"all": WhatifCount, "small_pool": WhatifCount, "large_pool": WhatifCount}


class WhatifStatistics(Object):
    __slots__ = ()
    allocation: WhatifStat
    """blocks that the program holds, counted"""
    segment: WhatifStat
    """calls of cudaMalloc that stand, counted"""
    active: WhatifStat
    """blocks that the program holds or other streams still use, counted"""
    inactive_split: WhatifStat
    """free parts of segments, counted"""
    allocated_bytes: WhatifStat
    """blocks that the program holds"""
    reserved_bytes: WhatifStat
    """taken from the driver"""
    active_bytes: WhatifStat
    """blocks that the program holds or other streams still use"""
    inactive_split_bytes: WhatifStat
    """free parts of segments"""
    requested_bytes: WhatifStat
    """what the program asked for"""
    oversize_allocations: WhatifCount
    """blocks of at least max_split_size"""
    oversize_segments: WhatifCount
    """segments of at least max_split_size"""
    num_alloc_retries: int | None
    """releases of the whole cache that a request led to"""
    num_ooms: int | None
    """requests that failed"""
    num_device_alloc: int | None
    """calls of cudaMalloc, or mappings"""
    num_device_free: int | None
    """calls of cudaFree, or unmappings"""
    _objects: ClassVar[dict[str, type[Object]]] = {"allocation": WhatifStat, "segment": WhatifStat, "active": WhatifStat, "inactive_split": WhatifStat, "allocated_bytes": WhatifStat, "reserved_bytes": WhatifStat, "active_bytes": WhatifStat, "inactive_split_bytes": WhatifStat, "requested_bytes": WhatifStat, "oversize_allocations": WhatifCount, "oversize_segments": WhatifCount}


class WhatifCheck(Object):
    __slots__ = ()
    events: int | None
    """events that the model predicted from the requests before them"""
    exact: bool
    """every event came out as recorded: addresses, sizes, order"""
    diverged_at: int | None
    """the first event that did not; null: none"""
    empty_caches: int | None
    """calls of empty_cache() that the recording shows by what they released"""
    statistics: WhatifStatistics
    """the model's, by the names of torch.cuda.memory_stats()"""
    _objects: ClassVar[dict[str, type[Object]]] = {"statistics": WhatifStatistics}


class WhatifBound(Object):
    __slots__ = ()
    limit_bytes: int | None
    """reserved memory that the runs may reach; null: no limit"""
    basis: str | None
    """given (--limit), gpu (--gpu), recorded (what the recording ran into) or none"""
    gpu: str | None
    """the card; null: none was named"""
    allowance_bytes: int | None
    """of the card, for what PyTorch does not allocate; null: no card was named"""
    recorded_bytes: Interval
    """recorded: reserved memory that was certainly allowed, certainly refused; else null"""
    _objects: ClassVar[dict[str, type[Object]]] = {"recorded_bytes": Interval}


class WhatifDeath(Object):
    __slots__ = ()
    event: int | None
    """the recording's last failed request"""
    cause: Literal["unknown", "capacity", "fragmentation", "leak", "private_pools", "other_stream"]
    """as report tells it"""
    still_to_come_bytes: int | None
    """what the step had still to allocate after it, at least; null: not known"""
    needed_bytes: int | None
    """live, request and what was still to come, at least; null: not known"""


class WhatifLeak(Object):
    __slots__ = ()
    per_period_bytes: int
    """how much more each, of the line that keeps most"""
    period: str
    """'step', 'eval iteration', as in a report's findings[]"""
    fill: ReportFill | None
    """when the limit will be reached, with the recorded settings; null: there is no limit"""
    _objects: ClassVar[dict[str, type[Object]]] = {"fill": ReportFill}


class WhatifRun(Object):
    __slots__ = ()
    settings: str | None
    """PYTORCH_CUDA_ALLOC_CONF; with `plan` the call that puts libplimsoll_alloc.so in its place"""
    plan: bool
    """run by libplimsoll_alloc.so's allocator, not by PyTorch's"""
    limit_bytes: int | None
    """reserved memory that it may reach; null: no limit"""
    outcome: Literal["ok", "oom"]
    """ok: it survives to the end of the recording; oom"""
    outcome_certain: bool
    """the same wherever the driver puts the segments, and no workspace was refused"""
    oom_event: int | None
    """event of the recording whose request failed; null: none, or (oom) one that was there before the recording
    began"""
    oom_request_bytes: int | None
    """what it asked for; null: none failed"""
    reserved_peak_bytes: int | None
    """most memory taken from the driver"""
    reserved_peak_range_bytes: Interval
    """least and most, over the placements that the driver may choose"""
    allocated_peak_bytes: int | None
    """largest sum of blocks in use"""
    active_peak_bytes: int | None
    """the same with blocks that await another stream"""
    retries: int | None
    """releases of the whole cache that a request led to: they cost time; with `plan` waits for a stream, after which
    free memory was moved"""
    device_allocs: int | None
    """calls of cudaMalloc or mappings of pages"""
    segments: int | None
    """segments at the end (expandable ones are not counted)"""
    smallest_limit_bytes: int | None
    """smallest limit that it survives, to 2 MiB; null: not looked for"""
    refused_workspaces: int | None
    """workspaces that cuDNN asked for and did not get: it takes slower algorithms, whose needs are not known"""
    warnings: list[str]
    """known costs of the settings, with their source"""
    _objects: ClassVar[dict[str, type[Object]]] = {"reserved_peak_range_bytes": Interval}


class WhatifFloor(Object):
    __slots__ = ()
    requested_peak_bytes: int | None
    """largest sum of requests, with the one that was refused if the recording died: no allocator can do with less"""
    packed_peak_bytes: int | None
    """what is certainly enough: the least of several packings that know all requests beforehand, and of what the runs
    need"""


class WhatifFields(Object):
    """The fields of whatif/2 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["whatif/2"]
    version: str
    """of the library"""
    source: ReportSource
    """what was read"""
    device: int | None
    """ordinal of the GPU"""
    self_check: WhatifCheck
    """how far the model gives the recording back under its own settings"""
    bound: WhatifBound
    """what the runs may reserve"""
    death: WhatifDeath | None
    """null: no request failed in the recording"""
    leak: WhatifLeak | None
    """null: none is seen, or a request failed"""
    as_recorded: WhatifRun | None
    """under the recording's own settings"""
    runs: list[WhatifRun]
    """in the order given"""
    floor: WhatifFloor
    """what any settings need at least"""
    plan_requests: int | None
    """--plan: large requests in the longest sequence that repeats, of any stream; 0: nothing repeats; null: not asked
    for"""
    recommended: str | None
    """settings of the run that is clearly better; null: none, or withheld"""
    withheld: str | None
    """why there is no advice; null: it is not withheld"""
    notes: list[str]
    """what limits these numbers"""
    _objects: ClassVar[dict[str, type[Object]]] = {"source": ReportSource, "self_check": WhatifCheck, "bound": WhatifBound, "death": WhatifDeath, "leak": WhatifLeak, "as_recorded": WhatifRun, "runs": WhatifRun, "floor": WhatifFloor}


class WhyFile(Object):
    __slots__ = ()
    path: str | None
    """the file as given, '-' for standard input"""
    compression: str | None
    """gzip, xz, zstd, bzip2 or zip; null: none"""
    bytes: int | None
    """of the text"""
    lines: int | None
    """of the text"""


class WhyNumbers(Object):
    __slots__ = ()
    tried_bytes: Interval
    """what the driver was asked for ('Tried to allocate')"""
    total_bytes: Interval
    """of the card"""
    free_bytes: Interval
    """that the driver had left"""
    allowed_bytes: Interval
    """to this process, by a limit of its own"""
    allocated_bytes: Interval
    """by PyTorch"""
    unallocated_bytes: Interval
    """reserved by PyTorch, in no block in use"""
    private_pools_bytes: Interval
    """of allocated, in pools of CUDA graphs"""
    reserved_bytes: Interval
    """by PyTorch, in all"""
    this_process_bytes: Interval
    """of the card, with what is outside PyTorch"""
    other_processes_bytes: Interval
    """of the card"""
    used_bytes: Interval
    """of a cgroup, a job or a node"""
    limit_bytes: Interval
    """of a cgroup, a job or a node"""
    resident_bytes: Interval
    """of the process that was killed"""
    _objects: ClassVar[dict[str, type[Object]]] = {"tried_bytes": Interval, "total_bytes": Interval, "free_bytes": Interval, "allowed_bytes": Interval, "allocated_bytes": Interval, "unallocated_bytes": Interval, "private_pools_bytes": Interval, "reserved_bytes": Interval, "this_process_bytes": Interval, "other_processes_bytes": Interval, "used_bytes": Interval, "limit_bytes": Interval, "resident_bytes": Interval}


class WhyProcess(Object):
    __slots__ = ()
    pid: int | None
    """as the kernel numbers it"""
    name: str | None
    """its command"""
    resident_bytes: int | None
    """in memory, pages of 4 KiB assumed"""


class WhyRecorded(Object):
    __slots__ = ()
    path: str | None
    """the recording"""
    device: int | None
    """ordinal of the GPU"""
    event: int | None
    """of the recording: the request that failed"""
    same_death: bool
    """its request is what the text tells"""
    verdict: Verdict | None
    """as report tells it"""
    _objects: ClassVar[dict[str, type[Object]]] = {"verdict": Verdict}


class WhyPlanned(Object):
    __slots__ = ()
    path: str | None
    """the model's file"""
    limit_bytes: int | None
    """of reserved memory, under which it was planned"""
    limit_told: bool
    """the log told the limit; false: the options did"""
    agrees: bool | None
    """the plan dies as the log tells; null: the log tells too little to compare"""
    says: str | None
    """one sentence"""
    evidence: list[str]
    """what they agree in, and what not"""
    fits: bool | None
    """the planned run goes to its end under the limit"""
    dies_at: str | None
    """its phase, as in plan; null: it does not"""
    moment: Literal["loading", "forward", "backward", "first_step", "optimizer", "eval", "generation", "saving", "data"] | None
    """that this phase is; as above"""
    allocated_bytes: int | None
    """when it dies"""
    request_bytes: int | None
    """that fails then"""
    needed_bytes: int | None
    """smallest limit under which it goes to its end"""
    needed_range_bytes: Interval
    """least and most that may be needed"""
    basis: str | None
    """as in plan"""
    ladder: list[PlanRung]
    """changes to the planned run, in the order of their cost"""
    _objects: ClassVar[dict[str, type[Object]]] = {"needed_range_bytes": Interval, "ladder": PlanRung}


class WhyDeath(Object):
    __slots__ = ()
    kind: Literal["device", "budget", "host", "cgroup_kill", "host_kill", "killed", "shared_memory"]
    """device, budget (a program's own share of it), host, cgroup_kill, host_kill, killed (by whom is not told),
    shared_memory"""
    family: str | None
    """who wrote it"""
    engine: str | None
    """the program: 'PyTorch', 'vLLM', 'llama.cpp', ...; null: no word of the log tells"""
    engine_line: int | None
    """of the log, that tells the engine"""
    program: str | None
    """the script that a launch command of the log starts; null: none is shown"""
    activity: str | None
    """what it was doing: training, evaluation, generating, serving, loading, converting, compiling, starting; null:
    not told"""
    activity_line: int | None
    """of the log, that tells the activity"""
    file: str | None
    """where it stands"""
    line: int | None
    """where it stands first, from 1"""
    last_line: int | None
    """where it stands last"""
    times: int | None
    """how often it stands there"""
    text: str | None
    """its line, the end cut; null with --redact"""
    device: int | None
    """ordinal of the GPU; null: not told"""
    ranks: list[int]
    """that told it"""
    ranks_left_out: int | None
    """beyond those"""
    moment: Literal["loading", "forward", "backward", "first_step", "optimizer", "eval", "generation", "saving", "data"] | None
    """loading, forward, backward, first_step (of the optimizer), optimizer, eval, generation, saving, data; null: no
    traceback shows it"""
    moment_frame: str | None
    """the frame that shows it"""
    frame: str | None
    """the innermost line of the user's own code"""
    source: str | None
    """that line; null with --redact"""
    frames: list[str]
    """that frame and those of the user's own code that led to it, innermost first; at most 8"""
    step: int | None
    """the last step that the log showed before; null: none"""
    pid: int | None
    """of the process that was killed"""
    process: str | None
    """its command"""
    group: str | None
    """cgroup, job or unit"""
    numbers: WhyNumbers
    """as the log tells them"""
    processes: list[WhyProcess]
    """of the kernel's table, the largest"""
    table_processes: int | None
    """rows of that table"""
    table_resident_bytes: int | None
    """of all its rows"""
    also: list[str]
    """other lines that say more of this death"""
    caught_line: int | None
    """where the log says that the program went on; null: it does not"""
    held: str | None
    """who held the memory, in words; null: the log does not say"""
    first: str | None
    """the first of the actions; null: nothing is known"""
    actions: list[str]
    """what to do, the first first; at most 3"""
    fixes: list[str]
    """the commands and lines that the actions change, alone, in their order"""
    first_is_typed: bool
    """is the first of them the first action's"""
    open: str | None
    """what is not decided, and what decides it; null: nothing"""
    verdict: Verdict
    """why it happened"""
    recorded: WhyRecorded | None
    """from --snapshot; null: none was given, or it shows no death"""
    planned: WhyPlanned | None
    """from --config; null: none was given, or it is not the GPU's memory"""
    _objects: ClassVar[dict[str, type[Object]]] = {"numbers": WhyNumbers, "processes": WhyProcess, "verdict": Verdict, "recorded": WhyRecorded, "planned": WhyPlanned}


class WhyOther(Object):
    __slots__ = ()
    family: str | None
    """who wrote it"""
    file: str | None
    """where it stands"""
    line: int | None
    """where it stands first, from 1"""
    times: int | None
    """how often it stands there"""
    text: str | None
    """its line, the end cut; null with --redact"""
    says: str | None
    """what it is"""
    advice: str | None
    """what to do; null: nothing in general"""
    ranks: list[int]
    """that told it"""


class WhyState(Object):
    __slots__ = ()
    kind: Literal["memory_summary", "memory_stats", "mem_get_info", "see_memory_usage", "nvidia_smi", "nvidia_process"]
    """memory_summary, memory_stats, mem_get_info, see_memory_usage, nvidia_smi (a GPU), nvidia_process"""
    file: str | None
    """where it stands"""
    line: int | None
    """where it begins"""
    device: int | None
    """ordinal of the GPU; null: not shown"""
    pid: int | None
    """of a process"""
    ooms: int | None
    """out-of-memory errors that PyTorch counted"""
    retries: int | None
    """how often PyTorch gave its cache back and asked again"""
    allocated_bytes: Interval
    """by PyTorch"""
    allocated_peak_bytes: Interval
    """the most of it"""
    reserved_bytes: Interval
    """by PyTorch, with its cache"""
    reserved_peak_bytes: Interval
    """the most of it"""
    unreleasable_bytes: Interval
    """free, in segments that hold live blocks"""
    used_bytes: Interval
    """of the GPU, or by the process"""
    free_bytes: Interval
    """of the GPU"""
    total_bytes: Interval
    """of the GPU"""
    says: str | None
    """what the numbers mean together"""
    action: str | None
    """what to do; null: nothing"""
    _objects: ClassVar[dict[str, type[Object]]] = {"allocated_bytes": Interval, "allocated_peak_bytes": Interval, "reserved_bytes": Interval, "reserved_peak_bytes": Interval, "unreleasable_bytes": Interval, "used_bytes": Interval, "free_bytes": Interval, "total_bytes": Interval}


class WhyFields(Object):
    """The fields of why/3 (docs/json.md)."""

    __slots__ = ()
    schema: Literal["why/3"]
    version: str
    """of the library"""
    outcome: Literal["nothing", "other", "memory"]
    """memory: a failure of memory was found; other: only others; nothing"""
    files: list[WhyFile]
    """what was read"""
    lines: int | None
    """of all files"""
    bytes: int | None
    """of all files, decompressed"""
    deaths: list[WhyDeath]
    """failures of memory, in the order of the log; those that were caught come last"""
    others: list[WhyOther]
    """failures that are not memory"""
    states: list[WhyState]
    """a GPU's memory that the log shows without a failure"""
    notes: list[str]
    """what limits this answer"""
    _objects: ClassVar[dict[str, type[Object]]] = {"files": WhyFile, "deaths": WhyDeath, "others": WhyOther, "states": WhyState}
