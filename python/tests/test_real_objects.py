"""Every public object with a real PyTorch: nothing is said at exit, its repr shows its state, it pickles or says why not."""
import importlib.util
import subprocess
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv makes an environment with one", file=sys.stderr)
    sys.exit(77)

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
