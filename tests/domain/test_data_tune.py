"""tune_loader() says what to paste, and what each option of it brings."""
import importlib.util
import sys
import time
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

from plimsoll.data import _tune  # noqa: E402
from plimsoll.data import tune_loader  # noqa: E402


class Slow(torch.utils.data.Dataset):
    """A picture that takes 4 ms of waiting, as from a disk; a worker takes 0.2 s to start, as with imports."""

    def __len__(self):
        return 400

    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.zeros(3, 8, 8), i


def start_slowly(worker):
    time.sleep(0.2)


class Tune(unittest.TestCase):
    def test_each_option_is_tried_and_the_line_can_be_pasted(self):
        data = Slow()
        advice = tune_loader(torch.utils.data.DataLoader(data, batch_size=4, worker_init_fn=start_slowly), budget_s=6, max_workers=2)
        tried = {(one.option, one.value): one for one in advice.tried}
        self.assertLessEqual({("persistent_workers", True), ("prefetch_factor", 4), ("pin_memory", True)}, set(tried))
        stays = tried["persistent_workers", True]
        self.assertTrue(stays.taken)
        self.assertGreater(stays.saved_s, 0.15)
        self.assertIn("each epoch begins ", str(advice))
        self.assertTrue(tried["prefetch_factor", 4].gain or tried["prefetch_factor", 4].note)
        if not torch.cuda.is_available():
            self.assertIn("pin_memory=True: not tried: PyTorch sees no GPU here", str(advice))
            self.assertNotIn("pin_memory", advice.kwargs)
        self.assertEqual(str(advice).splitlines()[0], advice.line)
        made = eval(advice.line.replace("...", "data, batch_size=4"), {"DataLoader": torch.utils.data.DataLoader, "data": data})
        self.assertEqual((made.num_workers, made.persistent_workers), (2, True))

    def test_noise_is_not_a_gain(self):
        """Runs of one setting that differ by a half: +77 % was advised."""
        paces = iter([100.0, 170.0, 110.0, 190.0])
        real = _tune.measure
        self.addCleanup(lambda: setattr(_tune, "measure", real))
        _tune.measure = lambda loader, workers, *_, **__: _tune.Measured(workers, (rate := next(paces)), rate, 0.1, 10)
        one = _tune.try_option(None, 2, "prefetch_factor", 4, 10.0, {})
        self.assertTrue(one.taken)
        paces = iter([100.0, 170.0, 180.0, 190.0])
        one = _tune.try_option(None, 2, "prefetch_factor", 4, 10.0, {})
        self.assertFalse(one.taken)

    def test_gains_decide(self):
        """Rates are given, so that the answer does not depend on the machine."""
        rates = {2: 100.0, 4: 120.0, 8: 123.0}
        real = _tune.measure, _tune.later_epoch_s, torch.cuda.is_available
        self.addCleanup(lambda: (setattr(_tune, "measure", real[0]), setattr(_tune, "later_epoch_s", real[1]),
                                 setattr(torch.cuda, "is_available", real[2])))

        def measure(loader, workers, seconds, copied=False, prefetch_factor=2, pin_memory=False):
            rate = rates[prefetch_factor] * (1.3 if pin_memory else 1.0)
            return _tune.Measured(workers, rate, rate, 0.1, 10)

        _tune.measure, _tune.later_epoch_s = measure, lambda made: 0.1
        torch.cuda.is_available = lambda: True
        loader = torch.utils.data.DataLoader(Slow(), batch_size=4)
        tried = list(_tune.try_options(loader, {"num_workers": 2, "prefetch_factor": 2}, time.monotonic() + 60))
        self.assertEqual([str(one) for one in tried], [
            "persistent_workers=True: each epoch begins 0.00 s earlier", "prefetch_factor=4: +20 % samples/s",
            "prefetch_factor=8: +2 % samples/s, not more than two runs of one setting differ", "pin_memory=True: +30 % samples/s"])
        over = list(_tune.try_options(loader, {"num_workers": 0}, time.monotonic()))
        self.assertEqual([str(one) for one in over], ["pin_memory=True: not tried in the time that budget_s leaves (0.0 s)"])


if __name__ == "__main__":
    unittest.main()
