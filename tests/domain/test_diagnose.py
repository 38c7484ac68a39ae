"""plimsoll.diagnose(model, loader, optimizer=...): one call, one page."""
import copy
import importlib.util
import sys
import time
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import plimsoll  # noqa: E402
from plimsoll.errors import ArgumentError  # noqa: E402


class Data(torch.utils.data.Dataset):
    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def __len__(self):
        return 24

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return torch.full((64,), float(i)), i


class Leaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 2048)
        self.seen = []

    def forward(self, x):
        y = self.layer(x)
        self.seen.append(y.detach())
        return y


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x, labels):
        return type("Output", (), {"loss": (self.layer(x).sum(-1) - labels).square().mean()})()


def loader(seconds=0.0, **options):
    return torch.utils.data.DataLoader(Data(seconds), batch_size=8, **options)


class Diagnose(unittest.TestCase):
    def test_a_healthy_loop_is_as_it_was_and_has_no_leak(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 512), nn.Dropout(), nn.BatchNorm1d(512), nn.Linear(512, 8)).eval()
        optimizer = torch.optim.AdamW(model.parameters())
        before, state, numbers = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict()), torch.get_rng_state()
        told = plimsoll.diagnose(model, loader(), optimizer=optimizer)
        self.assertEqual((told.device, told.steps, told.batch_size, told.leak, told.failure), ("host", 16, 8, None, None))
        self.assertLessEqual({"forward", "backward", "optimizer"}, {phase.label for phase in told.phases.phases})
        names = {one.name: one.bytes for one in told.owners.owners}
        size = sum(p.numel() * 4 for p in model.parameters())
        self.assertEqual((names["model: parameters"], names["model: gradients"]), (size, size))
        self.assertGreaterEqual(names["optimizer: state"], 2 * size)
        self.assertGreater(told.activations.saved_bytes, 8 * 512 * 4)
        self.assertIsNone(told.largest_batch)
        self.assertIn("largest batch: not known on a CPU", str(told))
        self.assertTrue(all(torch.equal(before[name], one) for name, one in model.state_dict().items()))
        self.assertEqual(repr(optimizer.state_dict()), repr(state))
        self.assertTrue(torch.equal(torch.get_rng_state(), numbers))
        self.assertFalse(model.training)

    def test_a_leak_is_measured_and_named_and_comes_first(self):
        model = Leaks()
        told = plimsoll.diagnose(model, loader(), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
        self.assertEqual(told.leak.bytes_per_step, 8 * 2048 * 4)
        self.assertIn("model", told.leak.holder)
        self.assertTrue(str(told).startswith("First: stop the leak: 64.00 KiB more after each step"), str(told))

    def test_a_loader_that_the_loop_waits_for(self):
        told = plimsoll.diagnose(nn.Linear(64, 4), loader(0.001), steps=8)  # 8 ms a batch: less than a look at memory takes
        self.assertEqual(told.input.bound, "input")
        self.assertRegex(told.first, r"^input-bound: \d+ % .*tune_loader\(loader\)$")
        self.assertIn("optimizer: none was given", str(told))

    def test_batches_by_name_and_a_loss_of_ones_own(self):
        rows = [{"x": torch.ones(8, 64), "labels": torch.ones(8)}] * 3
        told = plimsoll.diagnose(Named(), rows, steps=4)
        self.assertEqual((told.steps, told.leak), (4, None))
        self.assertIn("leak: not known", str(told))
        self.assertNotIn("mean square", str(told))
        seen = []
        plimsoll.diagnose(nn.Linear(64, 4), loader(), steps=2, loss=lambda output, batch: seen.append(batch[1]) or output.sum())
        self.assertEqual(len(seen), 4)

    def test_out_of_memory_is_part_of_the_answer(self):
        class Dies(nn.Linear):
            def forward(self, x):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        told = plimsoll.diagnose(Dies(64, 4), loader())
        self.assertEqual((told.steps, told.failure), (0, "CUDA out of memory. Tried to allocate 2.00 GiB."))
        self.assertTrue(told.first.startswith("it ran out of memory: CUDA out of memory"))

    def test_what_cannot_be_run(self):
        with self.assertRaisesRegex(ArgumentError, "have memory"):
            plimsoll.diagnose(nn.Linear(4, 4, device="meta"), loader())
        with self.assertRaisesRegex(ArgumentError, "no batch"):
            plimsoll.diagnose(nn.Linear(4, 4), [])
        with self.assertRaisesRegex(ArgumentError, "steps is 1 or more"):
            plimsoll.diagnose(nn.Linear(4, 4), loader(), steps=0)
        model = nn.Linear(64, 4)
        before = model.weight.detach().clone()

        def fails(output, batch):
            raise KeyError("labels")

        with self.assertRaises(KeyError):
            plimsoll.diagnose(model, loader(), loss=fails)
        self.assertTrue(torch.equal(model.weight, before))


if __name__ == "__main__":
    unittest.main()
