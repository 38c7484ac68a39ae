"""In the job: `plimsoll fit` starts the user's command with PLIMSOLL_FIT, and this comes in as Python starts.

PLIMSOLL_FIT is JSON: {"loop", "parts", "checkpointed", "way", "blocks", "loader"} of a run, of a kept one with "made_with" and "stale"; with "probe": the file that the answer goes to,
of a probe, with "parts", "checkpointed" (a number of layers, -1: all), "limit_bytes" as asked, and what an earlier probe left.
"""
from __future__ import annotations

import importlib.abc
import importlib.util
import json
import os
import sys
import tempfile
from types import ModuleType
from typing import Any, Callable, Iterator

from ._ranks import EXIT, count, number as rank, refusal, stop


class Finder(importlib.abc.MetaPathFinder):
    """Calls a function with a module once that is loaded, and imports nothing by itself."""

    def __init__(self, wanted: dict[str, Callable[[ModuleType], None]]) -> None:
        self.wanted = wanted
        self.busy = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.wanted or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.loader is None:
            return None
        execute, then = spec.loader.exec_module, self.wanted[name]

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                then(module)
            except Exception as error:
                stop(f"the job is not cut: {error}")

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _check(asked: dict[str, Any], accelerator: Any, model: Any, samples: int) -> None:
    """Ends the process if it is not one process, DDP or FSDP2; with a line in the file asked["stale"], if the result that it runs with was made with something else."""
    from ._file import made_with
    why = refusal(accelerator, model)
    if why:
        stop(f"refused: {why}")
    if "made_with" not in asked:
        return
    now, before = made_with(accelerator.unwrap_model(model), samples), asked["made_with"]
    if now != before:
        with open(asked["stale"], "w", encoding="utf-8") as f:
            f.write(next((f"this is {a}, not {b}" for a, b in zip(now, before) if a != b), "other libraries are installed"))
        sys.stdout.flush()
        os._exit(EXIT)


def _checkpoint(asked: dict[str, Any], model: Any) -> str:
    """Switch the layers on that the result has; in words."""
    from . import _checkpointing
    counts = asked["checkpointed"]
    if not any(counts):
        return ""
    try:
        _checkpointing.switch(model, counts)
    except ValueError as error:
        stop(f"refused: {error}")
    return _checkpointing.text(counts, _checkpointing.sizes(model))


def _cut(samples: int, parts: int, checkpointed: str, of: str) -> str:
    changes = [f"in {min(parts, samples)} parts"] * (parts > 1) + [f"with {checkpointed}"] * bool(checkpointed) or ["whole"]
    return f"plimsoll fit: {of}{f' on each of {count()} ranks' if count() > 1 else ''} {' '.join(changes)}"


def _say(line: str) -> None:
    if rank() == 0:
        sys.stderr.write(line + "\n")


def _run_accelerate(asked: dict[str, Any]) -> dict[str, Callable[[ModuleType], None]]:
    """Every batch of a prepared loader in parts."""
    parts, way, number = asked["parts"], asked.get("way") or "samples", asked.get("loader")

    def patch(_: ModuleType) -> None:
        from . import _accelerate
        from ._parts import samples_of
        said: list[int] = []

        def batches(loop: _accelerate.Loop, loader: Any, accelerator: Any, own: Iterator[Any]) -> Iterator[Any]:
            if getattr(loader, "plimsoll_number", number) != number:  # a loader that begins later has none
                yield from own
                return
            for batch in own:
                if not said:
                    said.append(samples_of(batch) or 0)
                    if not said[0]:
                        stop("the tensors of a batch do not agree in their first dimension; nothing was trained")
                    _check(asked, accelerator, loop.model, said[0])
                    layers = _checkpoint(asked, accelerator.unwrap_model(loop.model))
                    _say(_cut(said[0], parts, layers, f"each batch of {said[0]} samples") + (";\n  what the script prints of a batch is a part's" if parts > 1 else ""))
                yield from loop.parts(batch, parts, way)

        _accelerate.patch(batches)

    return {"accelerate.accelerator": patch}


def _run(asked: dict[str, Any]) -> dict[str, Callable[[ModuleType], None]]:
    """Every training step in parts."""
    parts, way, blocks = asked["parts"], asked.get("way") or "own", asked.get("blocks") or 1

    def patch(module: ModuleType) -> None:
        from . import _trainer
        from ._parts import samples_of
        said: list[int] = []

        def around(step: _trainer.Step, trainer: Any, model: Any, inputs: Any, items: Any) -> Any:
            if not said:
                said.append(samples_of(inputs, blocks) or 0)
                if not said[0]:
                    stop("the tensors of a batch do not agree in their first dimension; nothing was trained")
                _check(asked, trainer.accelerator, model, said[0])
                layers = _checkpoint(asked, trainer.accelerator.unwrap_model(model))
                _say(_cut(said[0], parts, layers, f"each step's {said[0]} samples"))
            return _trainer.cut_step(step, trainer, model, inputs, items, parts, way, blocks)

        _trainer.patch(module, around)

    return {"transformers.trainer": patch}


def _probe(path: str, asked: dict[str, Any]) -> dict[str, Callable[[ModuleType], None]]:
    folder = tempfile.mkdtemp(prefix="output-", dir=os.path.dirname(path))

    def arguments(module: ModuleType) -> None:
        from . import _probe
        _probe.quieten(module, folder)

    trainers: list[object] = []

    def patch(module: ModuleType) -> None:
        from . import _probe, _trainer
        _trainer.patch(module, _probe.trainer_probe(path, asked))
        _probe.quieten_trainer(module, folder)
        made = module.Trainer.__init__

        def __init__(self: Any, *words: Any, **named: Any) -> None:
            trainers.append(self)
            made(self, *words, **named)

        module.Trainer.__init__ = __init__

    def loops(module: ModuleType) -> None:
        from . import _accelerate, _probe
        module.Accelerator.init_trackers = lambda *_, **__: None
        _accelerate.patch(_probe.accelerate_probe(path, asked), lambda: bool(trainers))

    def shards(module: ModuleType) -> None:
        from ._ranks import shard_in_fp32
        if "certified" not in asked:
            shard_in_fp32(module)

    def optimizers(module: ModuleType) -> None:
        from . import _probe
        _probe.refuse_other_loops(module, path)

    return {"transformers.training_args": arguments, "transformers.trainer": patch, "torch.optim.optimizer": optimizers,
            "accelerate.accelerator": loops, "torch.distributed.fsdp": shards}


def enter(text: str) -> None:
    """Of the variable's text."""
    asked = json.loads(text)
    if "probe" in asked:
        wanted = _probe(asked["probe"], asked)
    elif asked["loop"] == "accelerate":
        wanted = _run_accelerate(asked)
    else:
        wanted = _run(asked)
    late = [name for name in wanted if name in sys.modules]
    if late:
        stop(f"{late[0]} was imported before this could come in")
    sys.meta_path.insert(0, Finder(wanted))
