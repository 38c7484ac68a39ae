"""Every public object with a real PyTorch: nothing is said at exit, its repr shows its state, it pickles or says why not."""
import importlib
import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: PyTorch is not installed; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

import plimsoll  # noqa: E402
from plimsoll._object import Object  # noqa: E402
from plimsoll import checkpoint, data, errors, gauge, gradients, memory, oom, training, weights  # noqa: E402

MODULES = ("allocator", "checkpoint", "data", "errors", "gauge", "gradients", "memory", "oom", "training", "verbs", "weights")


def public():
    """Every public class of the package."""
    found = {value for value in map(plimsoll.__getattr__, plimsoll.__all__) if inspect.isclass(value)}
    for name in MODULES:
        module = importlib.import_module(f"plimsoll.{name}")
        found |= {getattr(module, one) for one in getattr(module, "__all__", ()) if inspect.isclass(getattr(module, one))}
    return sorted(found, key=lambda kind: kind.__qualname__)


def made(folder):
    """Objects of all public classes that hold a state; the rest are dataclasses, results and exceptions."""
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    keeper = checkpoint.Checkpointer(os.path.join(folder, "kept"))
    saving = keeper.save(1, model=model)
    saving.result()
    curves, stopping = training.TrainingMonitor(patience=3, roles={"x": "metric"}), training.EarlyStopping(2)
    for step in range(40):
        curves.log(step, loss=2 - step / 40, val_loss=3 - step / 40)
        stopping.step(1.0, step)
    cache = data.SampleCache([torch.zeros(2)] * 8, os.path.join(folder, "samples"))
    held = weights.WeightCache(budget=1 << 20, device="cpu")
    watch = data.InputWatch([1, 2])
    list(watch)
    attached = plimsoll.attach(model, optimizer, [1], run="objects")
    attached.remove()
    yield from (keeper, saving, keeper.checkpoints()[0], keeper.load(model=model), curves, stopping, cache,
                cache.batches(2, device="cpu"), held, watch, attached, gradients.GradientMonitor(model, optimizer),
                memory.MemoryMonitor(), memory.Recorder(folder), memory.by_owner(model), memory.release(), oom.Restore(model, optimizer),
                oom.oom_guard(), gauge.Gauge(path=os.path.join(folder, "gauge")), weights.WeightSwapper(model, held),
                plimsoll.why("CUDA out of memory"), plimsoll.plan(layers=1, hidden=8, heads=1, vocab=8, batch=1, seq=8),
                oom.is_oom(MemoryError("x")), errors.FormatError("x", path="y", offset=3), errors.NotFoundError("x", errno=2),
                errors.NonFiniteError("x"), data.StaleCacheError("x", ["y"], path="z"))


class Objects(unittest.TestCase):
    def test_repr_and_pickle(self):
        with tempfile.TemporaryDirectory() as folder:
            kinds = set()
            for one in made(folder):
                with self.subTest(kind=type(one).__name__):
                    kinds.add(type(one))
                    self.assertNotIn(" object at 0x", repr(one))
                    try:
                        again = pickle.loads(pickle.dumps(one))
                    except (TypeError, errors.UnsupportedError) as why:
                        self.assertRegex(str(why), "pickle")
                        self.assertRegex(str(why), "process")
                    else:
                        if isinstance(one, (training.TrainingMonitor, training.EarlyStopping)):
                            self.assertEqual((repr(again), repr(again.state_dict())), (repr(one), repr(one.state_dict())))
                        if isinstance(one, errors.PlimsollError):
                            self.assertEqual((type(again), str(again), vars(again)), (type(one), str(one), vars(one)))
                if isinstance(one, (checkpoint.Checkpointer, weights.WeightCache)):
                    self.addCleanup(one.close)
            for kind in public():
                with self.subTest(kind=kind.__name__):
                    self.assertIsNot(kind.__repr__, object.__repr__)
                    stateful = "__init__" in vars(kind) and not hasattr(kind, "__dataclass_fields__")
                    if stateful and not issubclass(kind, (Exception, Object)):
                        self.assertIn(kind, kinds)  # else it is not tested above


# Kept until everything else is gone: modules lose their globals before builtins do.
LATE = """
import builtins, tempfile
import torch
from plimsoll import _input
from plimsoll.checkpoint import Checkpointer
from plimsoll.gradients import GradientMonitor
from plimsoll.training import EarlyStopping, TrainingMonitor

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
monitor = GradientMonitor(model, optimizer)
with monitor.attach():
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
curves = TrainingMonitor()
curves.log(1, loss=1.0)
folder = tempfile.TemporaryDirectory()
keeper = Checkpointer(folder.name)
saving = keeper.save(1, model=model)
builtins.kept = [monitor, curves, EarlyStopping(), _input.Input.of_bytes(b"x", "x"), keeper, saving]
builtins.kept.append(builtins.kept)
"""


class AtExit(unittest.TestCase):
    def test_silence(self):
        # "Exception ignored in: <function TrainingMonitor.__del__ ...>", where module globals were gone before the object.
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", LATE], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
