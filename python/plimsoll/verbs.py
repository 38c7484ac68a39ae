"""The commands of the program as functions: report, diff, whatif, plan, why, here, verify, record.

Each returns an object that prints as the program's text, whose attributes are the keys of its JSON (docs/json.md), and
that a notebook shows as the page.  Errors are exceptions (plimsoll.errors).  Calls run without the GIL; Ctrl-C stops them.
"""
from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Callable, Mapping, Sequence, Union, overload

from . import _abi, _input, _native
from ._input import Input, Log, PathLike
from ._result import Result, Source
from ._results import (CkptDiffFields, CkptFields, DiffFields, HereFields, PlanFields, RanksFields, ReportDevice,
                       ReportFields, Finding, ReportPeak, Verdict, WhatifFields, WhyFields)
from .errors import ArgumentError, UnsupportedError

__all__ = ["report", "diff", "whatif", "plan", "why", "here", "verify", "record",
           "Report", "Ranks", "Diff", "Whatif", "Plan", "Why", "Here", "Checkpoint", "Recorded"]

Recording = Union[PathLike, bytes, IO[bytes], Mapping[str, Any]]


# ---- results ----


class Report(Result, ReportFields):
    """An explained recording (report/2)."""

    __slots__ = ()

    @property
    def device(self) -> ReportDevice:
        """The GPU that the report is about: the one that died, else the one that held most."""
        def weight(d: ReportDevice) -> tuple[bool, int]:
            return (any(not o.survived for o in d.oom), (d.peak.allocated_bytes or 0) if d.peak else 0)

        if not self.devices:
            raise ArgumentError("the recording has no device with memory in it")
        return max(self.devices, key=weight)

    @property
    def peak(self) -> ReportPeak:
        """Of `device`."""
        return self.device.peak

    @property
    def findings(self) -> list[Finding]:
        """Of all devices, worst first on each."""
        return [finding for device in self.devices for finding in device.findings]

    @property
    def verdict(self) -> Verdict | None:
        """Of the last failure of `device`; None: no request failed."""
        told = [oom.verdict for oom in self.device.oom if oom.verdict is not None]
        return told[-1] if told else None

    def _page(self, page: Any, error: Any) -> int:
        return int(_native.load().plim_page_add(page, self._source.pointer, ctypes.byref(error)))

    def _snapshot(self, path: str) -> None:
        self._source.to_file("plim_report_snapshot", path)


class Ranks(Result, RanksFields):
    """The recordings of a job's ranks: who died first, how they differ (ranks/2)."""

    __slots__ = ()

    def _page(self, page: Any, error: Any) -> int:
        return _page_of_inputs(self._source, page, error)


def _page_of_inputs(source: Source, page: Any, error: Any) -> int:
    """The recordings of a result, each explained again, next to each other."""
    for given in source.inputs:
        explained: Report = report(given.path, progress=False)
        status = explained._page(page, error)
        if status:
            return status
    return 0


class Diff(Result, DiffFields):
    """What changed between two recordings (diff/2)."""

    __slots__ = ()

    def _page(self, page: Any, error: Any) -> int:
        return _page_of_inputs(self._source, page, error)


class Whatif(Result, WhatifFields):
    """A recording's requests under other settings (whatif/2).

    Its page and its snapshot show one run: the one that is recommended, else the one that reserves least of those that
    survive.  save(..., settings="...") chooses another.
    """

    __slots__ = ("_chosen",)

    def _shown(self) -> str:
        runs = [run for run in self.runs if not run.plan and run.settings is not None]
        if not runs:
            raise ArgumentError("no settings were tried: there is no run to show")
        alive = [run for run in runs if run.outcome == "ok"] or runs
        return self.recommended or str(min(alive, key=lambda run: run.reserved_peak_bytes or 0).settings)

    def _page(self, page: Any, error: Any) -> int:
        return int(_native.load().plim_whatif_page(self._source.pointer, os.fsencode(getattr(self, "_chosen", None) or self._shown()), page,
                                                   ctypes.byref(error)))

    def _snapshot(self, path: str) -> None:
        self._source.to_file("plim_whatif_snapshot", path, os.fsencode(getattr(self, "_chosen", None) or self._shown()))

    def save(self, path: PathLike, *, settings: str | None = None) -> Path:
        """As other results; settings: the run that .html shows next to the recording, or that .pickle holds.  With plan=True
        .plan is what libplimsoll_alloc.so begins with."""
        if Path(path).suffix == ".plan":
            self._source.to_file("plim_whatif_plan", os.fspath(path))
            return Path(path)
        object.__setattr__(self, "_chosen", settings)
        try:
            return super().save(path)
        finally:
            object.__setattr__(self, "_chosen", None)


class Plan(Result, PlanFields):
    """The memory of a run that has not happened (plan/2)."""

    __slots__ = ()

    def _page(self, page: Any, error: Any) -> int:
        return int(_native.load().plim_plan_page(self._source.pointer, page, ctypes.byref(error)))

    def _snapshot(self, path: str) -> None:
        self._source.to_file("plim_plan_snapshot", path)


class Why(Result, WhyFields):
    """What a log says a job died of (why/3)."""

    __slots__ = ()


class Here(Result, HereFields):
    """What bounds host memory here (here/2)."""

    __slots__ = ()


class Checkpoint(Result, CkptFields):
    """What a checkpoint holds, and whether it is whole (ckpt/3)."""

    __slots__ = ()
    _text_arguments = (_abi.PLIM_CKPT_TEXT_VERIFY,)

    @property
    def ok(self) -> bool:
        """Nothing is wrong with it.  "unproven" is ok too: some of its bytes have no checksum."""
        return self.verdict in ("whole", "unproven") and not self.required_missing


# ---- opening ----


def _open(verb: str, kind: type[Result], inputs: Sequence[Input], arguments: Sequence[Any], options: Any,
          what: str, progress: bool | None, keep: tuple[Any, ...] = (), here: bool = False) -> Any:
    """plim_VERB_open on a thread (`here`: on this one), and its JSON; what `options` points to is in `keep`."""
    library = _native.load()
    function = getattr(library, f"plim_{verb}_open")

    def work() -> Any:
        out, error = ctypes.c_void_p(), _abi.plim_err()
        status = function(*arguments, ctypes.byref(options), ctypes.byref(out), ctypes.byref(error))
        if status:
            error.message = _rename(inputs, error.message)
        _native.check(status, error, inputs[0].shown or inputs[0].path if inputs else None)
        assert out.value is not None
        return kind._of(Source(verb, out.value, list(inputs), keep))

    return work() if here else _native.run(what, work, progress)


def _rename(inputs: Sequence[Input], message: bytes) -> bytes:
    for given in inputs:
        message = given.rename(message.decode("utf-8", "replace")).encode()[:999]
    return message


def _strings(texts: Sequence[str]) -> Any:
    array = (ctypes.c_char_p * max(1, len(texts)))(*[os.fsencode(text) for text in texts])
    return array


def _flags(**given: tuple[bool, int]) -> int:
    return sum(flag for on, flag in given.values() if on)


def _release(text: str | None, what: str) -> int | None:
    """100 * major + minor of "2.11"."""
    if text is None:
        return None
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise ArgumentError(f"{what} takes a release like 2.11, not '{text}'") from None
    return 100 * major + minor


def _group(name: str, names: Mapping[str, int]) -> int:
    if name not in names:
        raise ArgumentError(f"group_by takes {', '.join(names)}, not '{name}'")
    return names[name]


# ---- report ----

_REPORT_GROUPS = {"user_frame": _abi.PLIM_GROUP_USER_FRAME, "stack": _abi.PLIM_GROUP_STACK, "size": _abi.PLIM_GROUP_SIZE,
                  "module": _abi.PLIM_GROUP_MODULE}


def _report_options(device: int | None, redact: bool, at: str | None, log: Input | None, events: str | None,
                    steps: str | None, group_by: str, strip_prefix: str | None, owners: int | None, gpu: str | None,
                    max_memory_bytes: int) -> Any:
    return _native.options("report", flags=_abi.PLIM_REPORT_REDACT if redact else 0, device=device, at=at,
                           log_path=None if log is None else log.path, events=events, steps=steps,
                           group_by=_group(group_by, _REPORT_GROUPS), strip_prefix=strip_prefix, owners_max=owners,
                           gpu=gpu, max_memory_bytes=max_memory_bytes)


@overload
def report(recording: list[PathLike] | tuple[PathLike, ...], *, device: int | None = ..., redact: bool = ..., at: str | None = ...,
           log: Log | None = ..., events: str | None = ..., steps: str | None = ..., group_by: str = ...,
           strip_prefix: str | None = ..., owners: int | None = ..., gpu: str | None = ..., layout: str | None = ...,
           threads: int = ..., max_memory_bytes: int = ..., progress: bool | None = ...) -> Ranks: ...


@overload
def report(recording: Recording | None = ..., *, device: int | None = ..., redact: bool = ..., at: str | None = ...,
           log: Log | None = ..., events: str | None = ..., steps: str | None = ..., group_by: str = ...,
           strip_prefix: str | None = ..., owners: int | None = ..., gpu: str | None = ..., layout: str | None = ...,
           threads: int = ..., max_memory_bytes: int = ..., progress: bool | None = ...) -> Report: ...


def report(recording: Any = None, *, device: int | None = None, redact: bool = False, at: str | None = None,
           log: Log | None = None, events: str | None = None, steps: str | None = None,
           group_by: str = "user_frame", strip_prefix: str | None = None, owners: int | None = None, gpu: str | None = None,
           layout: str | None = None, threads: int = 0, max_memory_bytes: int = 0, progress: bool | None = None) -> Report | Ranks:
    """Explain a recording of GPU memory: what filled it, who kept it, why it ran out.

    recording: a path, bytes, an open file, or what torch.cuda.memory._snapshot() gave; None: this process, now;
    a list of paths, or a folder or tar archive of recordings: the ranks of a job (gives Ranks).  log: as why takes it.
    at: whose owners are listed ("peak", "oom", "end", "event:N").  events, steps: "A:B", only these.
    owners: rows at most, 0: all.  gpu: the GPU that a leak is to fill.  Of a job's ranks, layout: how they are laid out, the
    innermost first ("tp=8,dp=32"), threads: recordings read at a time, 0: as many as cores.  redact: no name that is not
    PyTorch's.  progress: None shows it where someone looks.

    Raises NotFoundError, FormatError (with .offset), ArgumentError, LimitError.

    >>> import plimsoll
    >>> died = plimsoll.report("samples/died-moe.pickle.xz")
    >>> died.verdict.cause
    'fragmentation'
    """
    told = None if log is None else _input.log(log)
    options = _report_options(device, redact, at, told, events, steps, group_by, strip_prefix, owners, gpu,
                              max_memory_bytes)
    ranks = {"layout": layout, "threads": threads}
    if recording is None:
        recording = snapshot()
    if isinstance(recording, (list, tuple)):
        return _ranks([os.fspath(path) for path in recording], options, told, ranks, progress)
    given = _input.recording(recording)
    path = os.fsencode(given.path)
    if given.shown is None and _native.load().plim_ranks_several(path):
        return _ranks([given.path], options, told, ranks, progress)
    with given:
        result: Report = _open("report", Report, [given, *_those(told)], [path], options, _title("explaining", given), progress)
        return result


def _those(*given: Input | None) -> list[Input]:
    return [one for one in given if one is not None]


def _title(doing: str, given: Input) -> str:
    return f"{doing} {given.shown or os.path.basename(given.path)}"


def _ranks(paths: list[str], report_options: Any, log: Input | None, more: Mapping[str, Any], progress: bool | None) -> Ranks:
    if not paths:
        raise ArgumentError("no recording was given")
    options = _native.options("ranks", **more)
    options.report = report_options
    inputs = [Input(path) for path in paths]
    strings = _strings(paths)
    result: Ranks = _open("ranks", Ranks, inputs, [strings, len(paths)], options, "explaining the ranks", progress,
                          keep=(strings, report_options, log))
    return result


def snapshot() -> Mapping[str, Any]:
    """The memory of this process as torch.cuda.memory._snapshot() gives it.  Raises UnsupportedError without CUDA."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise UnsupportedError("this process has not imported torch", remedy="give a recording")
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        raise UnsupportedError("this process has used no GPU", remedy="give a recording")
    taken: Mapping[str, Any] = torch.cuda.memory._snapshot()
    return taken


# ---- diff, whatif ----

_DIFF_GROUPS = {"user_frame": _abi.PLIM_DIFF_BY_USER_FRAME, "stack": _abi.PLIM_DIFF_BY_STACK,
                "category": _abi.PLIM_DIFF_BY_CATEGORY, "phase": _abi.PLIM_DIFF_BY_PHASE, "size": _abi.PLIM_DIFF_BY_SIZE}
_DIFF_AT = {"peak": _abi.PLIM_DIFF_NO_END, "end": _abi.PLIM_DIFF_NO_PEAK, "both": 0}


def diff(a: Recording, b: Recording, *, device: int | None = None, group_by: str = "user_frame", rows: int | None = None,
         at: str = "both", redact: bool = False, strip_prefix: str | None = None, fail_over_bytes: int | None = None,
         fail_over_pct: float | None = None, max_memory_bytes: int = 0, progress: bool | None = None) -> Diff:
    """What changed in memory from recording a to recording b, by how much, and at which lines.

    at: whose owners are compared ("peak", "end", "both").  fail_over_bytes, fail_over_pct: judge the growth of the allocated peak (.gate).  Errors as report's.
    """
    if at not in _DIFF_AT:
        raise ArgumentError(f"at takes {', '.join(_DIFF_AT)}, not '{at}'")
    gated = fail_over_bytes is not None or fail_over_pct is not None
    options = _native.options(
        "diff", device=device, rows_max=rows, strip_prefix=strip_prefix, max_memory_bytes=max_memory_bytes,
        group_by=_group(group_by, _DIFF_GROUPS), gate_bytes=fail_over_bytes,
        gate_ppm=None if fail_over_pct is None else round(fail_over_pct * 1e4),
        flags=_DIFF_AT[at] | _flags(redact=(redact, _abi.PLIM_DIFF_REDACT), gate=(gated, _abi.PLIM_DIFF_GATE)))
    first, second = _input.recording(a), _input.recording(b)  # stay open with the result: its page reads them again
    result: Diff = _open("diff", Diff, [first, second], [os.fsencode(first.path), os.fsencode(second.path)], options,
                         "comparing", progress)
    return result


def whatif(recording: Recording | None = None, *, settings: Sequence[str] = (), gpu: str | None = None,
           limit_bytes: int | None = None, device: int | None = None, log: Log | None = None,
           smallest: bool = False, search_s: float | None = None, plan: bool = False, redact: bool = False, torch: str | None = None,
           allowance_bytes: int | None = None, threads: int = 0, max_memory_bytes: int = 0, progress: bool | None = None) -> Whatif:
    """A recording's requests once more: under other PYTORCH_CUDA_ALLOC_CONF settings, another limit, another GPU.

    settings: those to try; none: a set that is worth trying.  recording None: this process, now (with its history).
    plan: also under Plimsoll's own allocator (docs/allocator.md).  threads: runs at a time, 0: as many as cores.  Errors as report's.
    """
    settings = [settings] if isinstance(settings, str) else list(settings)
    strings = _strings(settings)
    told = None if log is None else _input.log(log)
    options = _native.options(
        "whatif", device=device, limit_bytes=limit_bytes, gpu=gpu, allowance_bytes=allowance_bytes,
        log_path=None if told is None else told.path, torch=_release(torch, "torch"), max_memory_bytes=max_memory_bytes,
        search_ms=None if search_s is None else round(search_s * 1e3), threads=threads,
        flags=_flags(smallest=(smallest, _abi.PLIM_WHATIF_SMALLEST), redact=(redact, _abi.PLIM_WHATIF_REDACT),
                     plan=(plan, _abi.PLIM_WHATIF_PLAN),
                     search=(search_s is not None, _abi.PLIM_WHATIF_SEARCH)))
    if settings:
        options.settings = strings
        options.settings_count = len(settings)
    given = _input.recording(snapshot() if recording is None else recording)  # stays open: the page reads it again
    result: Whatif = _open("whatif", Whatif, [given, *_those(told)], [os.fsencode(given.path)], options, _title("replaying", given), progress,
                           keep=(strings,))
    return result


# ---- plan ----

_PLAN: dict[str, Any] = _abi.OPTIONS["plan"]


def plan(config: PathLike | Mapping[str, Any] | Any | None = None, batch: Any = None, *, step: Any = None,
         progress: bool | None = None, **recipe: Any) -> Plan:
    """The memory of a run before it runs: does it fit, and if not what is the cheapest change that makes it fit.

    config: a config.json, a safetensors file or a folder of either; the config as a dict or as text; a model of transformers;
    None: by numbers (layers=, hidden=, heads=, or parameters= alone).  recipe: the options of `plimsoll plan` by name, with underscores
    (batch=2, seq=512, precision="bf16-autocast", optimizer="adamw", lora=16, gpu="RTX 4090", max_batch=True, ...).

    A torch.nn.Module with a batch of its inputs (a tensor, a tuple of them, or a dict) is traced: PyTorch runs two steps of
    it on fake tensors, without a GPU (docs/trace.md); step(module, batch) gives the loss, else it is the output's.  Both are
    left as they are.  Of the recipe precision, optimizer, checkpointing, lora, accumulate, steps, task, no_clip and the GPU
    count then.  Where it does not fit, changes that PyTorch can be asked for are traced as well, and are the ladder.

    Raises ArgumentError for a name that is not known, FormatError, NotFoundError.

    >>> import plimsoll
    >>> plan = plimsoll.plan(layers=2, hidden=256, heads=4, vocab=1000, batch=2, seq=256, memory="1GiB")
    >>> plan.fits
    True
    """
    if batch is not None and not isinstance(batch, int):
        return _plan_traced(config, batch, step, progress, recipe)
    options, keep = _recipe(recipe if batch is None else {"batch": batch, **recipe})
    if config is None and not options.parameters and not (options.layers and options.hidden and options.heads):
        raise ArgumentError("plan was given no model",
                            remedy="give a config.json, a folder, a model, parameters=, or layers=, hidden= and heads=")
    given = _input.model(config)
    path = None if given is None else os.fsencode(given.path)
    with given or Input(""):
        result: Plan = _open("plan", Plan, [given] if given else [], [path], options, "planning", progress, keep=keep)
        return result


_TRACED = {"precision", "optimizer", "checkpointing", "lora", "lora_targets", "accumulate", "steps", "task"}


def _plan_traced(module: Any, batch: Any, step: Any, progress: bool | None, recipe: Mapping[str, Any]) -> Plan:
    import tempfile

    from .tracing import loop, tables

    card = {name: value for name, value in recipe.items() if name not in _TRACED | {"no_clip"}}
    options = loop.Options(capability=tables.capability_of(str(recipe.get("gpu") or "")),
                           clip=not recipe.get("no_clip", False), **{"steps": 2, **{
                               name: recipe[name] for name in _TRACED if name in recipe}})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json.gz")
        loop.trace_module(module, batch, options, step).write(path)
        asked, keep = _recipe(card)
        again = _Again(module, batch, step, options, os.path.join(folder, "again.json.gz"))
        call = _TRACE(again.trace)
        asked.trace = ctypes.cast(call, ctypes.c_void_p)
        try:
            result: Plan = _open("plan", Plan, [Input(path)], [os.fsencode(path)], asked, "planning", progress, keep=(*keep, call), here=True)
        finally:
            if again.stopped is not None:
                raise again.stopped
        return result


_TRACE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_abi.plim_plan_options), ctypes.POINTER(ctypes.c_char_p))


class _Again:
    """Traces a module once more, as a rung of the ladder wants it."""

    def __init__(self, module: Any, batch: Any, step: Any, options: Any, path: str) -> None:
        self.given, self.options, self.path = (module, batch, step), options, os.fsencode(path)
        self.stopped: BaseException | None = None

    def trace(self, _: Any, wanted: Any, path: Any) -> int:
        """0: the trace is in *path.  What a module does not do is not a rung."""
        if self.stopped is not None:
            return 1
        try:
            self.write(wanted.contents)
        except Exception:  # noqa: BLE001 - as the command line has it: what stops such a trace is no news
            return 1
        except BaseException as e:
            self.stopped = e
            return 1
        path[0] = self.path
        return 0

    def write(self, o: Any) -> None:
        from dataclasses import replace

        from .tracing import loop

        module, batch, step = self.given
        options = replace(self.options, precision=os.fsdecode(o.precision), optimizer=os.fsdecode(o.optimizer), accumulate=o.accumulate,
                          checkpointing=os.fsdecode(o.checkpointing or b"none"), lora=o.lora_rank)
        rows = loop.rows_of(batch)
        loop.trace_module(module, batch, options, step, o.batch if rows and o.batch < rows else 0).write(os.fsdecode(self.path))


def recipe_names() -> set[str]:
    """What plan() takes as its recipe."""
    return {field[0] for field in _abi.plim_plan_options._fields_} - {"size", "flags", "trace", "trace_ctx"} | {*_PLAN["flags"], *_PLAN["names"]}


def _meant(given: str, known: set[str]) -> str | None:
    """The parameter for another tool's word, or the one that is spelled nearly so."""
    import difflib

    also: dict[str, str] = _PLAN["also"]
    if given in also:
        return f"use {also[given]}"
    near = difflib.get_close_matches(given, [*known, *also], 1)
    return f"is {also.get(near[0], near[0]).rstrip('=')} meant?" if near else None


def _recipe(recipe: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    options = _native.options("plan")
    known = recipe_names()
    keep: list[Any] = []
    for given, value in recipe.items():
        if given not in known:
            raise ArgumentError(f"plan has no '{given}'", remedy=_meant(given, known))
        name = _PLAN["names"].get(given, given)
        if value is None or value is False:
            continue
        if name in _PLAN["flags"]:
            options.flags |= _PLAN["flags"][name]
        elif name in _PLAN["alone"] and value is True:
            setattr(options, name, _PLAN["alone"][name].encode())
        elif name in _PLAN["counts"]:
            values = [value] if isinstance(value, (str, os.PathLike)) else list(value)
            keep.append(_strings([os.fspath(v) for v in values]))
            setattr(options, name, keep[-1])
            setattr(options, _PLAN["counts"][name], len(values))
        elif name in _PLAN["releases"]:
            setattr(options, name, _release(str(value), name))
        elif name in _PLAN["sides"]:
            height, width = _sides(name, value)
            setattr(options, name, height)
            setattr(options, _PLAN["sides"][name], width)
        elif name.endswith("_bytes"):
            setattr(options, name, to_bytes(value, name))
        else:
            try:
                _native.put(options, name, _count(value) if name == "parameters" else value, given)
            except TypeError:
                raise ArgumentError(f"{given} cannot be {value!r}") from None
    return options, tuple(keep)


def _sides(name: str, value: Any) -> tuple[int, int]:
    """448, (672, 448) or "672x448" as height and width; width 0: square."""
    sides = value.split("x") if isinstance(value, str) else value if isinstance(value, (tuple, list)) else [value]
    try:
        numbers = [int(side) for side in sides]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (1, 2):
        raise ArgumentError(f"{name} takes a side or height and width, like 448 or 672x448, not {value!r}")
    return numbers[0], numbers[1] if len(numbers) == 2 else 0


def _count(value: Any) -> Any:
    """"8B" as a number; numbers are as they are."""
    if not isinstance(value, str):
        return value
    text = value.strip().upper()
    times = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}.get(text[-1:])
    try:
        return round(float(text[:-1]) * times) if times else int(text)
    except (ValueError, OverflowError):
        raise ArgumentError(f"params takes a number of parameters, like 8B or 350M, not {value!r}") from None


_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "kb": 10**3, "mb": 10**6,
          "gb": 10**9, "tb": 10**12, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def to_bytes(value: int | str, what: str = "a size") -> int:
    """Bytes of 3221225472, "3 GiB" or "3.2 GB".

    >>> to_bytes("1.5 GiB")
    1610612736
    """
    if isinstance(value, str):
        text = value.strip().lower()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = text[len(number):].strip()
        try:
            size = float(number) * _UNITS[unit]
        except (ValueError, KeyError):
            raise ArgumentError(f"{what} takes bytes or a size like '3 GiB', not '{value}'") from None
        return round(size)
    if isinstance(value, bool) or not hasattr(value, "__index__") and not isinstance(value, float):
        raise ArgumentError(f"{what} takes bytes or a size like '3 GiB', not {value!r}")
    return int(value)


# ---- why, here, verify ----


def why(log: Log, *, recording: Recording | None = None, config: PathLike | Mapping[str, Any] | Any | None = None,
        recipe: Mapping[str, Any] | None = None, redact: bool = False,
        more: bool = False, max_memory_bytes: int = 0, progress: bool | None = None) -> Why:
    """Every failure of memory that a log says of, explained.

    log: a path (of a log, or of a folder of them), text, bytes, an open file, an exception.  A string that names no file and
    reads like a message is text.  recording: of the same run, as report takes it.  config, recipe: its model, as plan takes
    them.  more: the text has the evidence and all that helps.  Nothing found is not an error (.outcome).
    """
    plan_options, keep = _recipe(recipe or {})
    of_run = None if recording is None else _input.recording(recording)
    of_model = _input.model(config)
    options = _native.options("why", flags=(_abi.PLIM_WHY_REDACT if redact else 0) | (_abi.PLIM_WHY_MORE if more else 0),
                              max_memory_bytes=max_memory_bytes,
                              snapshot_path=None if of_run is None else of_run.path,
                              config_path=None if of_model is None else of_model.path)
    if recipe is not None:
        options.recipe = ctypes.addressof(plan_options) if _is_void(options, "recipe") else ctypes.pointer(plan_options)
    with _input.log(log) as given:
        result: Why = _open("why", Why, [given, *_those(of_run, of_model)], [os.fsencode(given.path)], options, _title("reading", given), progress,
                            keep=(plan_options, *keep))
        return result


def _is_void(struct: Any, name: str) -> bool:
    return dict(struct._fields_)[name] is ctypes.c_void_p


def here(pid: int | None = None, *, root: PathLike | None = None, redact: bool = False) -> Here:
    """What bounds host memory for this process (or for pid), and how near each bound is; who was killed.

    root: a folder with proc, sys and dev that were recorded elsewhere.
    """
    options = _native.options("here", pid=os.getpid() if pid is None and root is None else pid,
                              root=None if root is None else os.fspath(root),
                              flags=_abi.PLIM_HERE_REDACT if redact else 0)
    result: Here = _open("here", Here, [], [], options, "looking around", None)
    return result


def verify(path: PathLike, *, values: bool = True, require: Sequence[str] = (), threads: int = 0,
           max_memory_bytes: int = 0, redact: bool = False, progress: bool | None = None) -> Checkpoint:
    """Is a checkpoint whole?  Reads every byte, compares checksums, executes nothing.

    values: look for NaN and infinities too.  require: keys that must be there.  redact: words in place of names that
    public checkpoints do not have.  See .verdict, .ok and .findings.
    """
    options = _native.options(
        "ckpt", flags=_abi.PLIM_CKPT_VERIFY | _flags(values=(values, _abi.PLIM_CKPT_VALUES),
                                                     redact=(redact, _abi.PLIM_CKPT_REDACT)), threads=threads,
        max_memory_bytes=max_memory_bytes, require=",".join(require) or None)
    given = Input(os.fspath(path))
    result: Checkpoint = _open("ckpt", Checkpoint, [given], [os.fsencode(given.path)], options,
                               _title("verifying", given), progress)
    return result


# ---- record ----


@dataclass(frozen=True)
class Recorded:
    """What a recorded job left."""

    returncode: int
    files: tuple[Path, ...]
    reached: str
    """"no_python", "no_torch", "no_cuda", "no_events", "no_dump" or "dumped": how far its processes came"""

    def report(self, **options: Any) -> Report | Ranks:
        """Explain the last of its recordings, or of several ranks all."""
        if not self.files:
            raise ArgumentError(f"nothing was recorded ({self.reached})")
        first, *others = self.files
        return report([first, *others], **options) if others else report(first, **options)


_REACHED = ("no_python", "no_torch", "no_cuda", "no_events", "no_dump", "dumped")


def record(command: Sequence[str], *, dir: PathLike = ".", max_entries: int = 0, stacks: str = "python", pack: bool = False,
           plan: PathLike | None = None, run: Callable[..., Any] = subprocess.run, **popen: Any) -> Recorded:
    """Run a Python job as a process of its own that leaves a recording, also when it dies (`plimsoll record`).

    For this process use plimsoll.memory.Recorder.  pack: dumps are packed in the job (.plim).  plan: the job runs under Plimsoll's
    allocator and follows this file of `whatif(..., plan=True).save()`.  popen: as subprocess.run takes it (cwd=, env=, timeout=).
    """
    if isinstance(command, (str, bytes)):
        raise ArgumentError(f"record takes the words of a command, like ['python', 'train.py'], not {command!r}")
    library, error = _native.load(), _abi.plim_err()
    packer = None
    if pack:
        from .__main__ import program

        packer = program()
        if packer is None:
            raise UnsupportedError("recordings are packed by the program, which is not there", remedy="pack=False")
    allocator = None
    if plan is not None:
        from .allocator import library_path

        allocator = library_path()
    options = _native.options("record", dir=os.fspath(dir), stacks=stacks, max_entries=max_entries, packer=packer,
                              plan=None if plan is None else os.fspath(plan), allocator=allocator)
    handle = ctypes.c_void_p()
    _native.check(library.plim_record_prepare(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
    try:
        environment = dict(popen.pop("env", None) or os.environ)
        variables = library.plim_record_environment(handle)
        pointer = ctypes.cast(variables, ctypes.POINTER(ctypes.c_char_p))
        for text in iter_strings(pointer):
            name, _, value = text.partition("=")
            if name == "PYTHONPATH":  # ours in front of the job's, which need not be this process's
                value = os.pathsep.join([value.split(os.pathsep)[0], *filter(None, [environment.get(name)])])
            environment[name] = value
        done = run(list(command), env=environment, **popen)
        files, count, reached = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int()
        _native.check(library.plim_record_finish(handle, ctypes.byref(files), ctypes.byref(count), ctypes.byref(reached),
                                                 ctypes.byref(error)), error)
        rows = ctypes.cast(files, ctypes.POINTER(_abi.plim_record_file))
        found = tuple(Path(os.fsdecode(rows[i].path)) for i in range(count.value))
        return Recorded(done.returncode, found, _REACHED[reached.value])
    finally:
        library.plim_record_free(handle)


def iter_strings(pointer: Any) -> list[str]:
    """The strings of a NULL-ended array."""
    found = []
    i = 0
    while pointer[i] is not None:
        found.append(os.fsdecode(pointer[i]))
        i += 1
    return found
