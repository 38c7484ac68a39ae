"""check(model, batch): what does not fit together, before the first step finds out."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterator

from . import _torch
from .memory._owners import tensors_of
from .errors import ArgumentError


@dataclass(frozen=True)
class Problem:
    """One row: "error" (the step will fail), "warning" (it will be slow, or not what is meant), "info"."""

    severity: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.severity:7} {self.what}\n        {self.fix}"


@dataclass(frozen=True)
class Checked:
    """Problems, errors first."""

    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not any(p.severity == "error" for p in self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems)) or "nothing is wrong with devices and dtypes"

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "problems": [vars(p) for p in self.problems]}


def check(model: Any, batch: Any, *, optimizer: Any = None) -> Checked:
    """Look at a model and one batch, without running them: devices and dtypes that do not fit, tensors that are copied each
    step, tensors that the model has but that .to() does not move, parameters that the optimizer does not know.

    batch: a tensor, or a dict, list, tuple or object of them.
    """
    if not hasattr(model, "named_parameters"):
        raise ArgumentError(f"check takes a torch.nn.Module, not {type(model).__name__}")
    parameters = list(model.named_parameters())
    inputs = list(tensors_of(batch, "batch"))
    found = [*devices(parameters, inputs), *dtypes(parameters, inputs), *left_behind(model, parameters), *gradients(inputs),
             *known_to(optimizer, parameters)]
    order = {"error": 0, "warning": 1, "info": 2}
    return Checked(tuple(sorted(found, key=lambda p: order[p.severity])))


def devices(parameters: list[tuple[str, Any]], inputs: list[tuple[str, Any]]) -> Iterator[Problem]:
    where = Counter(str(p.device) for _, p in parameters)
    if "meta" in where:
        name = next(name for name, p in parameters if str(p.device) == "meta")
        yield Problem("error", f"{where['meta']} parameters have no memory (meta), {name} for one",
                      "load weights into them, or model.to_empty(device=...)")
    real = [device for device, _ in where.most_common() if device != "meta"]
    if len(real) > 1:
        few = real[-1]
        name = next(name for name, p in parameters if str(p.device) == few)
        yield Problem("warning", f"parameters lie on {', '.join(real)}; {name} is on {few}",
                      "meant so (device_map)? else model.to(device)")
    if not real:
        return
    main = real[0]
    for name, tensor in inputs:
        device = str(tensor.device)
        if device == main or len(real) > 1:
            continue
        if device == "cpu":
            pinned = tensor.is_pinned()
            size = tensor.untyped_storage().nbytes() / 2**20
            yield Problem("error", f"{name} is on the CPU, the model on {main}",
                          f"{name}.to('{main}', non_blocking=True): {size:.1f} MiB copied each step"
                          + ("" if pinned else "; from pageable memory the copy waits: DataLoader(pin_memory=True)"))
        else:
            yield Problem("error", f"{name} is on {device}, the model on {main}", f"{name}.to('{main}')")


def dtypes(parameters: list[tuple[str, Any]], inputs: list[tuple[str, Any]]) -> Iterator[Problem]:
    kinds = Counter(short(p.dtype) for _, p in parameters if p.dtype.is_floating_point)
    if not kinds:
        return
    main = kinds.most_common(1)[0][0]
    autocast = autocasts(parameters)
    for name, tensor in inputs:
        kind = short(tensor.dtype)
        if kind == "float64":
            yield Problem("error" if main != "float64" else "warning",
                          f"{name} is float64 (NumPy's default), the weights are {main}", f"{name}.to(torch.{main})")
        elif tensor.dtype.is_floating_point and kind != main and not autocast:
            yield Problem("error", f"{name} is {kind}, the weights are {main}",
                          f"{name}.to(torch.{main}), or torch.autocast around the forward pass")
        elif kind == "int32" and tensor.dim() <= 2:
            yield Problem("info", f"{name} is int32: as a target or an index some operations want int64", f"{name}.long()")
    rare = [kind for kind, n in kinds.items() if n * 10 < sum(kinds.values())]
    for kind in rare:
        name = next(name for name, p in parameters if short(p.dtype) == kind)
        yield Problem("info", f"{kinds[kind]} parameters are {kind}, the others {main}; {name} for one", "meant so (norms in float32)?")


def autocasts(parameters: list[tuple[str, Any]]) -> bool:
    """Is autocast on for the model's device?  A parameter on the meta device does not say where it will be."""
    enabled = getattr(_torch.torch(), "is_autocast_enabled", lambda *a: False)
    device = next((p.device.type for _, p in parameters if p.device.type != "meta"), None)
    if device is None:
        return False
    try:
        return bool(enabled(device))
    except TypeError:  # before PyTorch 2.4 it was CUDA's
        return bool(enabled())


def left_behind(model: Any, parameters: list[tuple[str, Any]]) -> Iterator[Problem]:
    """Tensors that are plain attributes of modules: .to() leaves them where they are, and state_dict() without them."""
    tensor = _torch.torch().Tensor
    main = Counter(str(p.device) for _, p in parameters).most_common(1)
    for prefix, module in model.named_modules():
        for name, value in list(vars(module).items()):
            if not issubclass(type(value), tensor):
                continue
            full = f"{prefix}.{name}" if prefix else name
            moved = main and str(value.device) != main[0][0]
            yield Problem("error" if moved else "warning",
                          f"{full} is a plain attribute" + (f" on {value.device}, the model is on {main[0][0]}" if moved else
                                                            ": .to() does not move it, state_dict() does not hold it"),
                          f"register_buffer('{name}', ..., persistent=False)")


def gradients(inputs: list[tuple[str, Any]]) -> Iterator[Problem]:
    for name, tensor in inputs:
        if tensor.requires_grad and not tensor.is_leaf:
            yield Problem("error", f"{name} carries the graph of another step: backward goes through it again",
                          f"{name}.detach()")
        elif tensor.requires_grad:
            yield Problem("info", f"{name} needs a gradient: its own is computed and kept", "meant so? else requires_grad_(False)")


def known_to(optimizer: Any, parameters: list[tuple[str, Any]]) -> Iterator[Problem]:
    if optimizer is None:
        return
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    here = {id(p) for _, p in parameters}
    missing = [name for name, p in parameters if p.requires_grad and id(p) not in known]
    if missing:
        yield Problem("warning", f"the optimizer does not know {len(missing)} parameters that need gradients, {missing[0]} for one",
                      "make it after the model is complete, or freeze them")
    strange = len(known - here)
    if strange:
        yield Problem("error", f"the optimizer has {strange} parameters that are not the model's",
                      "make the optimizer after model.to(), wrapping and replacing of modules")


def short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
