"""Training curves watched inside the loop: when to stop, and what goes wrong before anybody looks.

    monitor = plimsoll.training.TrainingMonitor(patience=5)
    for step, batch in enumerate(loader):
        loss = train_step(batch)
        for finding in monitor.log(step, loss=loss, grad_norm=norm):
            print(finding)
        if monitor.should_stop:
            break

The rules are those of `plimsoll curves` (docs/curves.md): one C core, so that a log read later shows the same.
Nothing here synchronises a GPU: what is logged must be numbers, so call .item() where you log anyway.
"""
from __future__ import annotations

import base64
import ctypes
import math
import numbers
import sys
import weakref
from dataclasses import dataclass
from typing import Any, Mapping

from .. import _abi, _native
from ._trainer_callbacks import Look, lightning_callback, transformers_callback
from ..errors import ArgumentError, FormatError

__all__ = ["EarlyStopping", "Finding", "TrainingMonitor"]

POLICIES = ("plimsoll", "keras", "lightning", "transformers")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found; str() is one line."""

    id: str  # "nan", "spike", "overfit" ... (docs/curves.md)
    severity: str  # "info", "warning", "error"
    confidence: float  # 0 to 1
    step: float  # where it began
    detected_step: float  # where it could first be said
    end_step: float | None  # where it was over; None: it goes on
    series: str
    title: str
    evidence: tuple[str, ...]
    fix: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.severity}: {self.id}: {self.title}"


def _number(value: Any) -> float:
    """A float of a number, a numpy scalar or a tensor of one element (which waits for its device)."""
    if isinstance(value, numbers.Real):
        return float(value)
    item = getattr(value, "item", None)
    if item is None:
        raise ArgumentError(f"{type(value).__name__} is not a number")
    return float(item())


def _any_rank(stop: bool) -> bool:
    """True on all ranks if it is on one.  Alone, or without torch.distributed, it is what was given."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return stop
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor([int(stop)], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())


def _restored(kind: Any, options: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    made = kind(**options)
    made.load_state_dict(state)
    return made


def _names(state: Any) -> list[str]:
    return [field[0] for field in state._fields_ if field[0] not in ("size", "unused")]


class EarlyStopping:
    """Early stopping by the rule of Plimsoll (NaN is never an improvement), Keras, Lightning or Transformers.

    patience: evaluations without improvement; None: the policy's own default (5, 0, 3, 1).
    min_delta: what an improvement has to exceed.  mode: "min" or "max".
    all_ranks: with torch.distributed all ranks stop as soon as one does; every rank has to call step().

    >>> stopping = EarlyStopping(patience=2)
    >>> [stopping.step(value) for value in (1.0, 0.8, 0.9, float("nan"), 0.7)]
    [False, False, False, True, True]
    >>> stopping.best, stopping.best_step
    (0.7, 4.0)
    """

    __slots__ = ("_state", "_stopped", "all_ranks")

    def __init__(self, patience: int | None = None, *, min_delta: float = 0.0, mode: str = "min",
                 policy: str = "plimsoll", baseline: float | None = None, start_from: int = 0,
                 stopping_threshold: float | None = None, divergence_threshold: float | None = None,
                 all_ranks: bool = True) -> None:
        if policy not in POLICIES:
            raise ArgumentError(f"policy is one of {', '.join(POLICIES)}, not '{policy}'")
        if mode not in ("min", "max"):
            raise ArgumentError(f"mode is 'min' or 'max', not '{mode}'")
        if patience is not None and patience < 0:
            raise ArgumentError(f"patience is 0 or more, not {patience}")
        if not min_delta >= 0:
            raise ArgumentError(f"min_delta is 0 or more, not {min_delta}")
        self._state = _abi.plim_early_stop()
        _native.load().plim_early_stop_init(ctypes.byref(self._state), POLICIES.index(policy),
                                            _native.UNKNOWN if patience is None else patience)
        self._state.min_delta, self._state.maximize = min_delta, int(mode == "max")
        self._state.start_from = start_from
        for name, value in (("baseline", baseline), ("stopping_threshold", stopping_threshold),
                            ("divergence_threshold", divergence_threshold)):
            if value is not None:
                setattr(self._state, name, value)
        self._stopped = False
        self.all_ranks = all_ranks

    def __repr__(self) -> str:
        best = "none yet" if self.best is None else f"{self.best:.6g} at step {self.best_step:g}"
        return f"<EarlyStopping: {'stop' if self._stopped else 'go on'}; best {best}; waited {self.wait} of {self.patience}>"

    def __reduce__(self) -> Any:
        return _restored, (EarlyStopping, {"all_ranks": self.all_ranks}, self.state_dict())

    def step(self, value: Any, step: float | None = None) -> bool:
        """One evaluation; True: stop.  step None: evaluations are counted from 0."""
        at = float(self._state.seen) if step is None else float(step)
        reason = _native.load().plim_early_stop_feed(ctypes.byref(self._state), at, _number(value))
        stop = self._stopped or bool(reason)
        self._stopped = _any_rank(stop) if self.all_ranks else stop
        return self._stopped

    @property
    def should_stop(self) -> bool:
        """What step() last said."""
        return self._stopped

    @property
    def best(self) -> float | None:
        """The best value; None: there is none yet."""
        return self._state.best if self._state.has_best else None

    @property
    def best_step(self) -> float | None:
        """Its step: the one whose weights to keep."""
        return self._state.best_step if self._state.has_best else None

    @property
    def wait(self) -> int:
        """Evaluations without improvement."""
        return int(self._state.wait)

    @property
    def patience(self) -> int:
        return int(self._state.patience)

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain numbers and text, for a checkpoint; patience goes on where it was after load_state_dict."""
        fields = {name: getattr(self._state, name) for name in _names(self._state)}
        return {**fields, "policy": POLICIES[self._state.policy], "stopped": self._stopped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What state_dict() gave.  FormatError: it is something else."""
        fresh = _abi.plim_early_stop(size=ctypes.sizeof(_abi.plim_early_stop))
        try:
            for name in _names(fresh):
                setattr(fresh, name, POLICIES.index(state[name]) if name == "policy" else state[name])
            stopped = bool(state["stopped"])
        except (KeyError, ValueError, TypeError) as why:
            raise FormatError(f"this is not a state of EarlyStopping: {why!r}") from None
        self._state, self._stopped = fresh, stopped


    # ---- trainers ----

    def transformers_callback(self, metric: str = "eval_loss") -> Any:
        """A TrainerCallback: step() with this metric at each evaluation, and stops the Trainer.

        Its state is in each checkpoint; TrainingArguments(restore_callback_states_from_checkpoint=True) goes on with it.
        Raises ArgumentError at the first evaluation that has no such metric.
        """
        return transformers_callback(self, "EarlyStoppingOfPlimsoll", on_evaluate=self._evaluated(metric))

    def lightning_callback(self, metric: str = "val_loss") -> Any:
        """A Lightning Callback: step() with this metric after each validation, and stops the trainer.  Errors as above."""
        return lightning_callback(self, f"plimsoll.EarlyStopping.{metric}", None, self._evaluated(metric))

    def _evaluated(self, metric: str) -> Look:
        def evaluated(step: int, values: Mapping[str, Any], first_rank: bool) -> bool:
            if metric not in values:
                raise ArgumentError(f"no '{metric}' was evaluated; there is {', '.join(sorted(values)) or 'nothing'}")
            return self.step(values[metric], step)

        return evaluated


class TrainingMonitor:
    """Finds NaN (also hidden ones), spikes, divergence, exploding gradients, overfitting and more as values come.

    patience: also stop after so many evaluations without improvement; None: never for that.
    stop_on: ids of findings that say stop.  roles: what a series is, where its name does not say
    ("train_loss", "val_loss", "metric", "error", "grad_norm", "learning_rate", "loss_scale", "skipped_steps", "memory",
    "entropy", "other").
    all_ranks: with torch.distributed should_stop is True on all ranks as soon as it is on one; it is then a collective,
    so every rank has to ask.

    >>> monitor = TrainingMonitor()
    >>> found = [f for step in range(40) for f in monitor.log(step, loss=float("nan") if step == 30 else 2 - step / 40)]
    >>> [(f.id, f.step) for f in found]
    [('nan', 30.0)]
    """

    IDS = ("nan", "inf", "spike", "diverged", "explosion", "overfit", "collapse", "plateau", "early_stop",
           "scaler_skips", "memory_creep", "learning_rate", "log_damage")
    ROLES = ("other", "train_loss", "val_loss", "metric", "error", "grad_norm", "learning_rate", "loss_scale",
             "skipped_steps", "memory", "entropy")

    def __init__(self, patience: int | None = None, *, min_delta: float = 0.0,
                 stop_on: tuple[str, ...] = ("nan", "inf", "diverged"), roles: Mapping[str, str] | None = None,
                 all_ranks: bool = True) -> None:
        unknown = [word for word in stop_on if word not in self.IDS]
        if unknown:
            raise ArgumentError(f"stop_on knows {', '.join(self.IDS)}, not '{unknown[0]}'")
        self.all_ranks = all_ranks
        self._options = {"patience": patience, "min_delta": min_delta, "stop_on": stop_on, "roles": dict(roles or {}),
                         "all_ranks": all_ranks}
        self._told = 0
        self._core = ctypes.c_void_p()
        options = _native.options("monitor", min_delta=min_delta,
                                  patience=_native.UNKNOWN if patience is None else patience,
                                  # A bit that no finding has, so that 0 is not taken for the default.
                                  stop_on=sum(1 << self.IDS.index(word) for word in set(stop_on)) or 1 << 31)
        self._call("plim_monitor_new", ctypes.byref(options), ctypes.byref(self._core), core=False)
        weakref.finalize(self, _native.load().plim_monitor_free, self._core).atexit = False
        for name, role in (roles or {}).items():
            if role not in self.ROLES:
                raise ArgumentError(f"a role is one of {', '.join(self.ROLES)}, not '{role}'")
            self._call("plim_monitor_set_role", name.encode(), self.ROLES.index(role))

    def __repr__(self) -> str:
        best = "" if self.best is None else f"; best {self.best[1]:.6g} at step {self.best[0]:g}"
        return f"<TrainingMonitor: {len(self.findings)} findings; {self.why_stop or 'go on'}{best}>"

    def __reduce__(self) -> Any:
        return _restored, (TrainingMonitor, self._options, self.state_dict())

    def _call(self, name: str, *arguments: Any, core: bool = True) -> None:
        error = _abi.plim_err()
        function = getattr(_native.load(), name)
        _native.check(function(*((self._core,) if core else ()), *arguments, ctypes.byref(error)), error)

    def log(self, step: float, values: Mapping[str, Any] | None = None, **more: Any) -> list[Finding]:
        """Values of a step by name; what is new.  Names tell what they are: loss, val_loss, grad_norm, lr, loss_scale ...

        A step that falls is a resume: what was found at or after it is taken back.  None is left out, so are texts.
        """
        news = _abi.plim_monitor_news()
        found = False
        for name, value in {**(values or {}), **more}.items():
            if value is None or isinstance(value, (str, bytes, Mapping)):
                continue
            self._call("plim_monitor_feed", name.encode(), float(step), _number(value), ctypes.byref(news))
            found |= bool(news.found)
        findings = self.findings if found else []
        new, self._told = findings[self._told:] if findings else [], len(findings) if findings else self._told
        return new

    @property
    def findings(self) -> list[Finding]:
        """All so far, in the order in which they could be said."""
        return [self._finding(i) for i in range(_native.load().plim_monitor_finding_count(self._core))]

    def _finding(self, i: int) -> Finding:
        f = _abi.plim_monitor_finding()
        self._call("plim_monitor_get_finding", i, ctypes.byref(f))

        def texts(at: Any, n: int) -> tuple[str, ...]:
            lines = ctypes.cast(at, ctypes.POINTER(ctypes.c_char_p))
            return tuple((lines[j] or b"").decode("utf-8", "replace") for j in range(n))

        return Finding(id=self.IDS[f.id], severity=("info", "warning", "error")[f.severity], confidence=f.confidence,
                       step=f.step, detected_step=f.detected_step,
                       end_step=None if math.isnan(f.end_step) else f.end_step, series=f.series.decode("utf-8", "replace"),
                       title=f.title.decode("utf-8", "replace"), evidence=texts(f.evidence, f.evidence_count),
                       fix=texts(f.fix, f.fix_count))

    @property
    def why_stop(self) -> str | None:
        """Why this rank says stop; None: it does not."""
        why = _native.load().plim_monitor_should_stop(self._core)
        return why.decode("utf-8", "replace") if why else None

    @property
    def should_stop(self) -> bool:
        """Whether to stop; with all_ranks whether any rank says so."""
        stop = self.why_stop is not None
        return _any_rank(stop) if self.all_ranks else stop

    @property
    def best(self) -> tuple[float, float] | None:
        """(step, value) of the best evaluation; None: there was none."""
        step, value = ctypes.c_double(), ctypes.c_double()
        _native.load().plim_monitor_get_best(self._core, ctypes.byref(step), ctypes.byref(value))
        return None if math.isnan(step.value) else (step.value, value.value)

    def state_dict(self) -> dict[str, Any]:
        """All of it for a checkpoint: a resume goes on as if nothing had been between."""
        n = ctypes.c_size_t()
        self._call("plim_monitor_save", None, 0, ctypes.byref(n))
        buffer = ctypes.create_string_buffer(n.value)
        self._call("plim_monitor_save", buffer, n.value, ctypes.byref(n))
        return {"version": 1, "told": self._told, "core": base64.b64encode(buffer.raw[:n.value]).decode("ascii")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What state_dict() gave, of the same release.  FormatError: it is damaged, or another release's."""
        try:
            core, told = base64.b64decode(state["core"], validate=True), int(state["told"])
        except (KeyError, ValueError, TypeError) as why:
            raise FormatError(f"this is not a state of TrainingMonitor: {why!r}") from None
        self._call("plim_monitor_restore", core, len(core))
        self._told = told

    # ---- trainers ----

    def _watch(self, step: int, values: Mapping[str, Any], first_rank: bool) -> bool:
        for finding in self.log(step, values):
            if first_rank:
                print(f"plimsoll: {finding}", file=sys.stderr)
        return self.should_stop

    def transformers_callback(self) -> Any:
        """A TrainerCallback: logs everything the Trainer logs, stops it, and prints findings once, on rank 0.

        Its state is in each checkpoint; TrainingArguments(restore_callback_states_from_checkpoint=True) goes on with it.
        """
        return transformers_callback(self, "Callback", on_log=self._watch)

    def lightning_callback(self) -> Any:
        """A Lightning Callback: watches trainer.callback_metrics after batches and validations, and stops the trainer."""
        def after_batch(step: int, values: Mapping[str, Any], first_rank: bool) -> bool:
            return self._watch(step, {k: v for k, v in values.items() if not k.startswith(("val", "test"))}, first_rank)

        def after_validation(step: int, values: Mapping[str, Any], first_rank: bool) -> bool:
            return self._watch(step, {k: v for k, v in values.items() if k.startswith("val")}, first_rank)

        return lightning_callback(self, "plimsoll.TrainingMonitor", after_batch, after_validation)
