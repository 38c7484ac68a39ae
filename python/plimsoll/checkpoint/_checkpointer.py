"""Checkpoints of a job that goes on meanwhile: see plimsoll.checkpoint."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import logging
import math
import operator
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, Iterable, Mapping, Sequence, Union

from .. import _abi, _native, _torch
from .._by_name import by_name
from . import _architecture, _state
from ._load import Compared, Loaded, optimizer_file, read
from ..errors import ArgumentError, FormatError, NotFoundError, PlimsollError, UnsupportedError
from ..training import _any_rank

logger = logging.getLogger("plimsoll")
PathLike = Union[str, "os.PathLike[str]"]
FOREVER_NS = 10 ** 18
TOLD_WAIT_S = 0.5  # longer waits for staging memory are logged
PER_RANK = ("loader", "dataloader", "sampler")
MANIFEST = "plimsoll.manifest.json"
NAMES_TAKEN = {"model", "optimizer", "state", "rank"}


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint of a folder, by its manifest; its bytes are not looked at."""

    path: str
    step: int
    metric: float | None
    bytes: int
    best: bool
    whole: bool  # all its files are there with their sizes


def _group() -> tuple[int, int]:
    """This rank, and how many there are."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return int(distributed.get_rank()), int(distributed.get_world_size())


def _from_first(value: Any) -> Any:
    """Rank 0's value, on all ranks."""
    if _group()[1] == 1:
        return value
    box = [value]
    sys.modules["torch.distributed"].broadcast_object_list(box, src=0)
    return box[0]


def _machine() -> str:
    """What ranks that share this machine's memory have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
            return f.read().strip()
    except OSError:
        return socket.gethostname()


def _host_ranks() -> int:
    """How many ranks share this machine.  Asked of the ranks: who starts them without torchrun sets no LOCAL_WORLD_SIZE."""
    world = _group()[1]
    if world == 1:
        return 1
    machines: list[Any] = [None] * world
    mine = _machine()
    sys.modules["torch.distributed"].all_gather_object(machines, mine)
    return machines.count(mine)


def _metrics(given: Mapping[str, Any] | None) -> dict[str, float]:
    """Numbers by name; of tensors and arrays of one element theirs."""
    found = {}
    for name, value in (given or {}).items():
        try:
            found[str(name)] = float(value.detach() if hasattr(value, "detach") else value)
        except (TypeError, ValueError):
            raise ArgumentError(f"metrics['{name}'] is a {type(value).__qualname__}, not a number") from None
    return found


def _commit() -> str | None:
    """Of the folder of the program that runs, with a + if files are changed; None: there is no git, or no repository."""
    try:
        at = os.path.dirname(os.path.abspath(sys.argv[0])) if sys.argv and sys.argv[0] else os.getcwd()
        asked = [subprocess.run(["git", "-C", at, *words], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
                 for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))]
    except (OSError, subprocess.SubprocessError):
        return None
    return asked[0] + ("+" if asked[1] else "")


class Saving:
    """A save that goes on: what it holds is released when it is staged.  Made by Checkpointer.save()."""

    def __init__(self, owner: Checkpointer, step: int, path: str) -> None:
        self.step, self.path = step, path
        self._owner = owner
        self._handle: Any = None
        self._held: list[Any] = []  # tensors that are still read
        self._ended = threading.Event()
        self._error: PlimsollError | None = None
        self._told = _abi.plim_saving_progress()

    def _look(self) -> int:
        if self._handle is not None:
            with self._owner._lock:
                if self._handle is not None:
                    _native.load().plim_saving_progress(self._handle, ctypes.byref(self._told))
                    self._settle()
        return int(self._told.state)

    def _settle(self) -> None:
        """With the lock."""
        if self._told.state >= _abi.PLIM_SAVING_WRITING:
            self._held.clear()
        if self._told.state >= _abi.PLIM_SAVING_DURABLE:
            error = _abi.plim_err()
            try:
                _native.check(_native.load().plim_saving_wait(self._handle, 0, 0, ctypes.byref(error)), error, self.path)
            except PlimsollError as why:
                self._error = why
                logger.error("checkpoint of step %d was not saved: %s", self.step, why)
            _native.load().plim_saving_free(self._handle)
            self._handle = None
            self._ended.set()

    def _wait(self, state: int, timeout: float | None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        error = _abi.plim_err()
        while self._look() < state and self._handle is not None:
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            if left <= 0:
                break
            # In slices, so that Ctrl-C is obeyed; the handle is freed by no one else while its owner is in here.
            handle = self._handle
            if handle is not None:
                _native.load().plim_saving_wait(handle, state, int(left * 1e9), ctypes.byref(error))
        return self._look()

    @property
    def staged(self) -> bool:
        """All copies are over: tensors may change in any way."""
        return self._look() >= _abi.PLIM_SAVING_WRITING

    @property
    def durable(self) -> bool:
        """Under its name, synced, read back and compared, on all ranks."""
        return self._look() == _abi.PLIM_SAVING_DURABLE

    @property
    def bytes(self) -> int:
        """Of the files of this rank."""
        self._look()
        return int(self._told.bytes)

    @property
    def blocked_s(self) -> float:
        """How long save() held the loop for staging; of it waited_s for staging memory."""
        self._look()
        return float(self._told.blocked_ns) / 1e9

    @property
    def waited_s(self) -> float:
        """For staging memory to be taken for the first time, or to be written and free again."""
        self._look()
        return float(self._told.waited_ns) / 1e9

    @property
    def staged_s(self) -> float | None:
        """From the start until all was staged, as far as someone looked; None: not yet."""
        self._look()
        return None if self._told.staged_ns == _native.UNKNOWN else float(self._told.staged_ns) / 1e9

    @property
    def durable_s(self) -> float | None:
        """From the start until it was durable, or had failed; None: not yet."""
        self._look()
        return None if self._told.finished_ns == _native.UNKNOWN else float(self._told.finished_ns) / 1e9

    def exception(self) -> PlimsollError | None:
        """Why it failed; None: it did not, or not yet."""
        self._look()
        return self._error

    def result(self, timeout: float | None = None) -> str:
        """The checkpoint's folder, when it is durable.  Raises what went wrong; TimeoutError after timeout seconds."""
        state = self._wait(_abi.PLIM_SAVING_DURABLE, timeout)
        if self._error is not None:
            raise self._error
        if state < _abi.PLIM_SAVING_DURABLE:
            raise TimeoutError(f"the checkpoint of step {self.step} is not durable after {timeout} s")
        return self.path

    def __repr__(self) -> str:
        names = ("staging", "writing", "durable", "failed")
        return f"<Saving of step {self.step}: {names[self._look()]}>"


class Checkpointer:
    """Saves while the loop goes on, and loads what fits.

    keep_last, keep_best, keep_every: which checkpoints stay; the best by metrics[monitor], mode "min" or "max".
    format: "safetensors", or "torch": files that torch.load(weights_only=True) reads, the state_dict()s themselves.
    stage: "async" lets copies run next to the work of the GPU, and the optimizer's update waits for them on the GPU;
    "sync": save() returns when all is staged.
    staging_bytes: page-locked memory; None: a quarter of the room that this machine has, shared by its ranks.
    per_rank: names in save() whose state differs by rank, next to loaders and samplers.
    on_signal: what preempted() says of; grace_s: from then until the machine is taken away.
    Raises NotFoundError: the folder cannot be used, or another Checkpointer that is open holds it.  StorageError: the disk is
    full, over quota or read-only.  With torch.distributed all ranks make one, together.
    """

    def __init__(self, dir: PathLike, *, keep_last: int = 3, keep_best: int = 1, keep_every: int | None = None,
                 monitor: str | None = None, mode: str = "min", format: str = "safetensors", stage: str = "async",
                 staging_bytes: int | None = None, per_rank: Sequence[str] = (), on_signal: str | Sequence[str] = (), grace_s: float = 60.0,
                 rank_wait_s: float = 1800.0) -> None:
        if mode not in ("min", "max"):
            raise ArgumentError(f"mode is 'min' or 'max', not '{mode}'")
        if format not in ("safetensors", "torch"):
            raise ArgumentError(f"format is 'safetensors' or 'torch', not '{format}'")
        if stage not in ("async", "sync"):
            raise ArgumentError(f"stage is 'async' or 'sync', not '{stage}'")
        for name, number in (("keep_last", keep_last), ("keep_best", keep_best), ("keep_every", keep_every), ("staging_bytes", staging_bytes)):
            if number is not None and number < 0:
                raise ArgumentError(f"{name} is 0 or more, not {number}")
        self._handle: Any = None
        self.format = format
        self.dir, self.monitor, self.stage, self.grace_s = os.path.abspath(os.fspath(dir)), monitor, stage, grace_s
        self.rank, self.world = _group()
        self._maximize = mode == "max"
        self._per_rank = {*PER_RANK, *per_rank}
        self._forks = _torch.forks
        self._lock = threading.RLock()
        self._savings: list[Saving] = []
        self._hooked: dict[int, Any] = {}
        self._commit = _commit() if self.rank == 0 else None
        self._signalled: float | None = None
        self._handlers: list[tuple[int, Any]] = []
        self.host_ranks = _host_ranks()
        run = _from_first(secrets.token_hex(8))
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        flags = (_abi.PLIM_CHECKPOINTER_MAXIMIZE if self._maximize else 0) | (_abi.PLIM_CHECKPOINTER_TORCH if format == "torch" else 0)
        options = _native.options(
            "checkpointer", flags=flags, keep_last=keep_last, keep_best=keep_best,
            keep_every=keep_every, staging_bytes=staging_bytes, rank=self.rank, world=self.world, run=run,
            host_ranks=self.host_ranks, rank_wait_ns=int(rank_wait_s * 1e9),
            cuda_library=os.environ.get("PLIMSOLL_CUDA_LIBRARY"))
        _native.check(_native.load().plim_checkpointer_open(os.fsencode(self.dir), ctypes.byref(options), ctypes.byref(handle),
                                                            ctypes.byref(error)), error, self.dir)
        self._handle = handle
        me = weakref.ref(self)

        def end() -> None:
            one = me()
            if one is not None:
                one._end_quietly()

        self._at_exit = atexit.register(end)  # modules are still whole then, which they need not be when it is collected
        for name in (on_signal,) if isinstance(on_signal, str) else on_signal:
            self._listen(name)

    # ---- saving ----

    @by_name("prepare(model=model, optimizer=optimizer)", 1)
    def prepare(self, *, model: Any = None, optimizer: Any = None, bytes: int | None = None) -> None:
        """Take staging memory on a thread, so that the first save() finds it: page-locking takes 0.45 s a GiB.

        The size is that of the model's state, with two moments a parameter if an optimizer is given that has no state yet.
        """
        self._check()
        room, device = bytes or 0, -1
        if bytes is None:
            if model is not None:
                for tensor in _state.bare(model).state_dict().values():
                    if hasattr(tensor, "numel"):
                        tensor = _state.local(tensor)
                        room += tensor.numel() * tensor.element_size()
                        device = tensor.device.index if tensor.device.type == "cuda" else device
            for one in _optimizers(optimizer).values():
                held = [_state.local(v) for state in one.state.values() for v in state.values() if hasattr(v, "numel")]
                parameters = [_state.local(p) for group in one.param_groups for p in group["params"]]
                room += sum(v.numel() * v.element_size() for v in held) or 2 * sum(p.numel() * p.element_size() for p in parameters)
        elif _torch.cuda_started():
            device = int(_torch.torch().cuda.current_device())
        error = _abi.plim_err()
        with self._lock:
            _native.check(_native.load().plim_checkpointer_prepare(self._handle, room, device, ctypes.byref(error)), error)

    @by_name("save(step, model=model, optimizer=optimizer)", 2)
    def save(self, step: int, *, model: Any = None, optimizer: Any = None, metrics: Mapping[str, float] | None = None,
             **stateful: Any) -> Saving:
        """Stage the state of this step and let it be written; returns at once (Saving.blocked_s shows).

        optimizer: one, or several by name.  stateful: what has state_dict() (a scheduler, a GradScaler, an EMA model, a
        StatefulDataLoader), generators, or plain values; its name is what load() finds it by.  Random generators of Python,
        NumPy and torch, the model's class and config, the commit, versions, time, host and GPU are always saved.  With torch.distributed all ranks call it.
        """
        self._check()
        step = _step(step)
        values = _metrics(metrics)
        if model is not None and not hasattr(model, "state_dict"):
            raise ArgumentError(f"model= is a module, not a {type(model).__qualname__}: a dict of tensors is saved under another name")
        taken = sorted(NAMES_TAKEN & set(stateful))
        if taken:
            raise ArgumentError(f"'{taken[0]}' is a name that the checkpoint uses itself")
        state = _Collected(self, step, values)
        state.collect(model, _optimizers(optimizer), stateful)
        metric = values.get(self.monitor, math.nan) if self.monitor is not None else math.nan
        metric = metric if math.isfinite(metric) else math.nan  # which is never the best
        if values and self.monitor is not None and self.monitor not in values:
            logger.warning("metrics of step %d have no '%s', so it is never the best", step, self.monitor)
        self._reap()
        saving = Saving(self, step, _folder(self.dir, step))
        with self._lock:
            self._start(saving, state, metric)
            self._savings.append(saving)
        if self.stage == "sync":
            saving._wait(_abi.PLIM_SAVING_WRITING, None)
        else:
            self._hook(_optimizers(optimizer))
        if saving.waited_s > TOLD_WAIT_S:
            logger.warning("save() of step %d held the loop for %.1f s, %.1f of them for staging memory: prepare() takes it ahead, "
                           "staging_bytes allows more", step, saving.blocked_s, saving.waited_s)
        return saving

    def _start(self, saving: Saving, state: _Collected, metric: float) -> None:
        library, error, handle = _native.load(), _abi.plim_err(), ctypes.c_void_p()
        try:
            _native.check(library.plim_saving_begin(self._handle, saving.step, metric, ctypes.byref(handle), ctypes.byref(error)), error,
                          self.dir)
        except PlimsollError as why:
            state.refuse(why)
            raise
        try:
            streams = state.hand_over(library, handle)
            saving._held = state.held
            _native.check(library.plim_saving_start(handle, streams, len(streams), ctypes.byref(error)), error, saving.path)
        except BaseException:
            library.plim_saving_free(handle)
            saving._held = []
            raise
        saving._handle = handle

    def before_update(self) -> None:
        """Let the current streams wait for copies that go on.  An optimizer that save() was given does it before each step();
        call it before tensors of the model or the optimizer are changed in other ways.
        """
        if self._forks != _torch.forks:
            return
        torch = _torch.torch()
        error = _abi.plim_err()
        with self._lock:
            for saving in self._savings:
                if saving._handle is None or saving._look() != _abi.PLIM_SAVING_STAGING:
                    continue
                for device in {t.device.index for t in saving._held if t.device.type == "cuda"}:
                    stream = torch.cuda.current_stream(device).cuda_stream
                    _native.check(_native.load().plim_saving_guard(saving._handle, device, stream, ctypes.byref(error)), error)

    def _hook(self, optimizers: Mapping[str, Any]) -> None:
        me = weakref.ref(self)

        def before(*_: Any) -> None:
            owner = me()
            if owner is not None:
                owner.before_update()

        for one in optimizers.values():
            if id(one) not in self._hooked:
                self._hooked[id(one)] = (weakref.ref(one), one.register_step_pre_hook(before))

    def guards(self, optimizer: Any) -> bool:
        """Can this optimizer's update be held back?"""
        return self.stage == "async" and hasattr(optimizer, "register_step_pre_hook")

    def _reap(self) -> None:
        self._savings = [saving for saving in self._savings if saving._look() < _abi.PLIM_SAVING_DURABLE]

    def wait(self) -> None:
        """Until all that was saved is durable.  Raises the first failure of these."""
        failed = None
        for saving in list(self._savings):
            saving._wait(_abi.PLIM_SAVING_DURABLE, None)
            failed = failed or saving.exception()
        self._reap()
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Wait, and end.  Raises the first failure of what was being saved."""
        if getattr(self, "_handle", None) is None or self._forks != _torch.forks:
            return
        try:
            self.wait()
        finally:
            atexit.unregister(self._at_exit)
            for number, handler in self._handlers:
                signal.signal(number, handler)
            self._handlers.clear()
            for _, hook in self._hooked.values():
                hook.remove()
            self._hooked.clear()
            _native.load().plim_checkpointer_close(self._handle)
            self._handle = None

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        how = "closed" if self._handle is None else f"{sum(not saving.durable for saving in self._savings)} saves under way"
        return f"<Checkpointer of {self.dir}: {how}>"

    def _end_quietly(self) -> None:
        try:
            self.close()
        except Exception as why:  # no one is there to hear it
            logger.error("%s", why)

    __del__ = _end_quietly

    def __reduce__(self) -> Any:
        raise UnsupportedError("a Checkpointer belongs to its process; it cannot be pickled")

    def _check(self) -> None:
        if self._handle is None:
            raise ArgumentError("this Checkpointer is closed")
        if self._forks != _torch.forks:
            raise UnsupportedError("a Checkpointer works in the process that made it, not in one that was forked from it")

    # ---- preemption ----

    def _listen(self, name: str) -> None:
        number = getattr(signal, name, None)
        if not isinstance(number, signal.Signals) or number in (signal.SIGKILL, signal.SIGSTOP):
            raise ArgumentError(f"'{name}' is not a signal that a process can listen to")
        before = signal.getsignal(number)
        me = weakref.ref(self)

        def handler(got: int, frame: Any) -> None:
            owner = me()
            if owner is not None and owner._signalled is None:
                owner._signalled = time.monotonic()
            if callable(before):
                before(got, frame)

        signal.signal(number, handler)
        self._handlers.append((number, before))

    def preempted(self) -> bool:
        """Did a signal of on_signal arrive on any rank?  All ranks call it, at the same steps, and get the same answer."""
        return _any_rank(self._signalled is not None)

    @by_name("save_and_exit(step, model=model, optimizer=optimizer)", 2)
    def save_and_exit(self, step: int, *, exit_code: int = 75, **what: Any) -> None:
        """save(), wait for it as long as grace_s allows, and leave with exit_code, so that the job is queued again.

        75 is EX_TEMPFAIL.  What could not be saved in time leaves with 1; the checkpoints before it stand.
        """
        saving = self.save(step, **what)
        left = self.grace_s if self._signalled is None else self._signalled + self.grace_s - time.monotonic()
        try:
            saving.result(max(left, 0.0))
        except (PlimsollError, TimeoutError) as why:
            logger.error("%s", why)
            exit_code = 1
        raise SystemExit(exit_code)

    # ---- loading ----

    def checkpoints(self) -> list[Saved]:
        """Those of the folder, the latest last.  Their bytes are not looked at."""
        return _listed(self.dir, self._maximize)

    def validate(self, path: PathLike | int = "latest") -> bool:
        """Does every byte of the checkpoint match its sums?  path: as load() takes it.  plimsoll.verify() shows more."""
        found = list(self._candidates(path))
        return bool(found) and _is_good(found[0])

    @by_name("load(path, model=model, optimizer=optimizer)", 2)
    def load(self, path: PathLike | int = "latest", *, model: Any = None, optimizer: Any = None, partial: Sequence[str] = (),
             rename: Mapping[str, str] | Callable[[str], str] | None = None, rng: bool = True, strict_architecture: bool = True,
             **stateful: Any) -> Loaded:
        """Verify a checkpoint, compare all that it holds with all that is given, and only then copy.

        path: "latest", "best", a step's number, its folder, or that one's name.  Of "latest" one that is damaged is passed over (Loaded.skipped).
        partial: patterns of names of the model that may differ.  rename: beginnings of names -> what they become, or a function.
        rng: put the generators back as well.  strict_architecture: another class or configuration of the model is a difference;
        False, or with partial or rename, it is one of Loaded.notes.  Nothing is changed when it raises FormatError, which names all differences;
        NotFoundError: there is none.
        """
        self._check()
        self.wait()
        found, skipped, missing = _from_first(self._find(path) if self.rank == 0 else None)
        if missing:
            there = os.path.exists(missing[0])
            raise NotFoundError(f"there is no checkpoint of a Checkpointer at '{missing[0]}'", path=missing[0],
                                remedy="plimsoll.checkpoint.load(path, model=model) loads what others wrote" if there else None)
        if found is None:
            raise NotFoundError(f"'{self.dir}' has no checkpoint that is whole" + (f" ({', '.join(skipped)} damaged)" if skipped else ""),
                                path=self.dir)
        return read(Compared(found, self.rank, self.world, model, _optimizers(optimizer), stateful, partial, rename,
                             strict_architecture), rng, skipped)

    def _find(self, path: PathLike | int) -> tuple[str | None, list[str], list[str]]:
        """The checkpoint; those that are damaged ahead of it; those that are named and are none."""
        skipped: list[str] = []
        for one in self._candidates(path):
            if not os.path.exists(os.path.join(one, MANIFEST)):
                return None, skipped, [one]
            if _is_good(one):
                return one, skipped, []
            skipped.append(os.path.basename(one))
        return None, skipped, []

    def _candidates(self, path: PathLike | int) -> Iterable[str]:
        if isinstance(path, int):
            return [_folder(self.dir, path)]
        name = os.fspath(path)
        if name not in ("latest", "best"):
            return [name if os.path.exists(name) else os.path.join(self.dir, name)]
        known = self.checkpoints()
        if name == "best":
            return [one.path for one in known if one.best]
        return [one.path for one in reversed(known)]


def _folder(dir: str, step: int) -> str:
    return os.path.join(dir, f"step-{step:08d}")


def _is_good(path: str) -> bool:
    from ..verbs import verify

    if not os.path.exists(os.path.join(path, MANIFEST)):
        return False
    try:
        return verify(path).verdict == "whole"
    except PlimsollError:
        return False


def _listed(dir: str, maximize: bool) -> list[Saved]:
    error, found = _abi.plim_err(), ctypes.c_void_p()
    library = _native.load()
    _native.check(library.plim_saved_open(os.fsencode(dir), int(maximize), ctypes.byref(found), ctypes.byref(error)), error, dir)
    listed = ctypes.cast(found, ctypes.POINTER(_abi.plim_saved_list))
    try:
        return [Saved(os.path.join(dir, os.fsdecode(one.name)), one.step, None if math.isnan(one.metric) else one.metric, one.bytes,
                      one.best, one.whole)
                for one in listed.contents.at[:listed.contents.n]]
    finally:
        library.plim_saved_free(listed)


def _optimizers(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    return dict(given) if isinstance(given, Mapping) else {"": given}


@dataclass
class _Collected:
    """What one save() writes: tensors by file, and the two texts."""

    owner: Checkpointer
    step: int
    metrics: Mapping[str, float]
    files: dict[str, _state.Packer] = field(default_factory=dict)
    guarded: set[int] = field(default_factory=set)  # data pointers that only the optimizers' update writes
    texts: dict[str, bytes] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)
    shards: dict[str, Any] = field(default_factory=dict)  # state that lies in parts on the ranks
    devices: set[int] = field(default_factory=set)

    def collect(self, model: Any, optimizers: Mapping[str, Any], stateful: Mapping[str, Any]) -> None:
        for one in optimizers.values():
            if self.owner.guards(one):
                self._guard(one)
        own = {name for name, value in stateful.items() if name in self.owner._per_rank or _state.is_generator(value)}
        shared = {key: value for key, value in stateful.items() if key not in own}
        apart = {key: value for key, value in shared.items() if _state.is_sharded(value)}
        whole = {key: value for key, value in shared.items() if key not in apart}
        sharded = model is not None and _state.is_sharded(model)
        if sharded or apart:
            from . import _sharded

            self.shards = _sharded.state_of(model if sharded else None,
                                            {optimizer_file(name): one for name, one in optimizers.items()} if sharded else {}, apart)
        try:
            self._own({key: stateful[key] for key in sorted(own)})
            if self.owner.rank == 0:
                self._shared(None if sharded else model, {} if sharded else optimizers, whole, model)
                if not self.shards and not any(one.tensors for one in self.files.values()):
                    raise ArgumentError("there is no tensor in what is to be saved: give model=")
        except Exception as why:
            self.refuse(why)
            raise

    def _own(self, stateful: Mapping[str, Any]) -> None:
        name, packer = f"rank-{self.owner.rank:05d}", _state.Packer()
        self.files[name] = packer
        self._text(name + ".json", {"schema": "rank/1", "step": self.step, "rank": self.owner.rank,
                                    "rng": packer.pack(_state.rng_state(), "rng"),
                                    "stateful": {key: _stateful(packer, key, value) for key, value in stateful.items()}})

    def _guard(self, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            self.guarded.update(_state.local(p).data_ptr() for p in group["params"])
        for state in optimizer.state.values():
            self.guarded.update(_state.local(v).data_ptr() for v in state.values() if hasattr(v, "data_ptr"))

    def _shared(self, model: Any, optimizers: Mapping[str, Any], stateful: Mapping[str, Any], whole_model: Any) -> None:
        torch = self.owner.format == "torch"
        packer = _state.Packer(torch)
        state: dict[str, Any] = {"schema": "state/1", "step": self.step, "world": self.owner.world,
                                 "time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "host": socket.gethostname(),
                                 "architecture": None if whole_model is None else _architecture.of(whole_model),
                                 "metrics": _state.Packer().pack(dict(self.metrics), "metrics"),
                                 "commit": self.owner._commit, "versions": _state.versions(), "model": None, "optimizers": {},
                                 "stateful": {}, "sharded": sorted(self.shards)}
        if model is not None:
            extra, tree = {}, {}
            for name, value in _state.bare(model).state_dict().items():
                if hasattr(value, "data_ptr"):
                    tree[name] = {"$tensor": packer.tensor(name, value.detach())}
                else:
                    tree[name] = extra[name] = packer.pack(value, name)
            rows = _state.rows_of(packer.tensors, packer.ties)
            packer.tree = tree
            state["model"] = {"class": type(_state.bare(model)).__qualname__, "ties": packer.ties, "extra": extra,
                              "tensors": {name: [dtype, shape] for name, (dtype, shape) in rows.items()}}
            self.files["model"] = packer
        for name, one in optimizers.items():
            file = optimizer_file(name)
            self.files[file] = packer = _state.Packer(torch)
            state["optimizers"][name] = _optimizer(packer, one, _state.parameter_names(one, model))
        for name, value in stateful.items():
            self.files[name] = packer = _state.Packer(torch)
            state["stateful"][name] = _stateful(packer, name, value)
            packer.tree = state["stateful"][name]["value"]
        self._text("state.json", state)

    def _text(self, name: str, value: Any) -> None:
        self.texts[name] = _dumped(value)

    def hand_over(self, library: Any, handle: Any) -> Any:
        """Everything goes to the library; the streams that tensors were made on."""
        error = _abi.plim_err()
        if self.shards:
            self._hand_over_shards(library, handle)
        for file, packer in self.files.items():
            rows = self._rows([(name, tensor, _state.dtype_name(tensor.dtype)) for name, tensor in packer.tensors.items()])
            if packer.torch and packer.tree is not None:
                tree = _dumped(packer.tree)
                _native.check(library.plim_saving_tree(handle, file.encode(), tree, len(tree), ctypes.byref(error)), error)
            if not len(rows):
                continue
            _native.check(library.plim_saving_add(handle, file.encode(), rows, len(rows), ctypes.byref(error)), error)
            for name, stored in packer.ties.items() if file == "model" else ():
                _native.check(library.plim_saving_note(handle, file.encode(), name.encode(), stored.encode(), ctypes.byref(error)), error)
        for name, text in self.texts.items():
            _native.check(library.plim_saving_text(handle, name.encode(), text, len(text), ctypes.byref(error)), error)
        cuda = _torch.torch().cuda
        self.devices.discard(-1)
        streams = (_abi.plim_saving_stream * len(self.devices))()
        for stream, device in zip(streams, sorted(self.devices)):
            stream.device, stream.stream = device, cuda.current_stream(device).cuda_stream
        return streams

    def _rows(self, tensors: Sequence[tuple[str, Any, str]]) -> Any:
        """(name, tensor, dtype) as the library takes them; they are held until they are staged."""
        shapes: dict[Any, Any] = {}
        rows = (_abi.plim_saving_tensor * len(tensors))()
        for i, (name, tensor, dtype) in enumerate(tensors):
            guarded = tensor.data_ptr() in self.guarded
            tensor = tensor.resolve_conj().resolve_neg().contiguous()  # itself, if it lies as it is stored
            self.held.append(tensor)
            shape, device = tensor.shape, tensor.device
            if shape not in shapes:
                shapes[shape] = (ctypes.c_uint64 * max(len(shape), 1))(*shape)
            ordinal = device.index if device.type == "cuda" else -1
            rows[i] = _abi.plim_saving_tensor(name.encode(), dtype.encode(), shapes[shape], len(shape), tensor.data_ptr(), ordinal, guarded)
            self.devices.add(ordinal)
        return rows

    def refuse(self, why: Exception) -> None:
        """The other ranks are not to wait for this one's parts."""
        if self.shards:
            from . import _sharded

            def put(*_: object) -> list[tuple[int, int]]:
                raise why

            with contextlib.suppress(PlimsollError):
                _sharded.save(self.shards, self.owner.rank, put)

    def _hand_over_shards(self, library: Any, handle: Any) -> None:
        from . import _sharded

        def put(file: str, tensors: Sequence[tuple[str, Any, str]]) -> list[tuple[int, int]]:
            error, rows = _abi.plim_err(), self._rows(tensors)
            places = (_abi.plim_saving_part * len(rows))()
            _native.check(library.plim_saving_parts(handle, file.encode(), rows, len(rows), places, ctypes.byref(error)), error)
            return [(one.offset, one.bytes) for one in places]

        metadata = _sharded.save(self.shards, self.owner.rank, put)
        if self.owner.rank == 0:
            self.texts[_sharded.METADATA] = metadata


def _step(value: Any) -> int:
    try:
        step = operator.index(value)
    except TypeError:
        step = -1
    if step < 0:
        raise ArgumentError(f"step is an integer of 0 or more, not {value!r}")
    return step


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _stateful(packer: _state.Packer, name: str, value: Any) -> dict[str, Any]:
    if _state.is_generator(value):
        return {"kind": "generator", "value": packer.pack(_state.generator_state(value), name)}
    if hasattr(value, "state_dict"):
        return {"kind": "state_dict", "value": packer.pack(value.state_dict(), name)}
    return {"kind": "value", "value": packer.pack(value, name)}


def _optimizer(packer: _state.Packer, optimizer: Any, names: list[str]) -> dict[str, Any]:
    if len(set(names)) < len(names):
        raise ArgumentError("the optimizer holds a parameter twice")
    state = optimizer.state_dict()
    groups = packer.pack([{**group, "params": [names[i] for i in group["params"]]} for group in state["param_groups"]], "groups")
    rest = packer.pack({key: value for key, value in state.items() if key not in ("state", "param_groups")}, "rest")
    packed = {i: packer.pack(value, names[i]) for i, value in state["state"].items()}
    if packer.torch:  # as state_dict() has it: parameters by their numbers
        numbered = [{**group, "params": numbers["params"]} for group, numbers in zip(groups, state["param_groups"])]
        packer.tree = {"$items": [["state", {"$items": [[i, value] for i, value in packed.items()]}], ["param_groups", numbered],
                                  *rest.get("$items", rest.items())]}
    return {"class": type(optimizer).__qualname__, "groups": groups, "rest": rest,
            "state": {names[i]: value for i, value in packed.items()}}


__all__ = ["Checkpointer", "FormatError", "Loaded", "Saved", "Saving"]
