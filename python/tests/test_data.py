"""plimsoll.data, check and attach: verdicts on constructed loops, workers measured, what does not fit together."""
import gc
import logging
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
import torch  # noqa: E402  the fake one

import plimsoll  # noqa: E402
from plimsoll.data import _input_watch, _tune  # noqa: E402
from plimsoll import _torch  # noqa: E402
from plimsoll.data import InputWatch  # noqa: E402

logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
STEP_S = 0.004


class Clock:
    """Time that passes only where a test says so: verdicts do not depend on how busy the machine is."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


clock = Clock()


def batches(n, each_s, first_s=0.0):
    clock.sleep(first_s)
    for i in range(n):
        clock.sleep(each_s)
        yield i


class Ahead:
    """A loader whose batches are made next to the loop, as by workers: at most `ready` of them wait."""

    num_workers = 2

    def __init__(self, n, each_s, ready=4):
        self.n, self.each_s, self.ready = n, each_s, ready

    def __iter__(self):
        return Made(self)


class Made:
    def __init__(self, loader):
        self.loader, self.taken, self.done = loader, [], []
        self._data_queue = self
        self.free = clock.now  # when the worker can begin the next

    def make(self):
        while len(self.done) < self.loader.n:
            i = len(self.done)
            room = self.taken[i - self.loader.ready] if i >= self.loader.ready and i - self.loader.ready < len(self.taken) else None
            if i >= self.loader.ready and room is None:
                return
            self.free = max(self.free, room or 0.0) + self.loader.each_s
            self.done.append(self.free)

    def qsize(self):
        self.make()
        return sum(at <= clock.now for at in self.done[len(self.taken):])

    def __iter__(self):
        return self

    def __next__(self):
        self.make()
        if len(self.taken) == self.loader.n:
            raise StopIteration
        clock.now = max(clock.now, self.done[len(self.taken)])
        self.taken.append(clock.now)
        return len(self.taken)


def run(loader, work_s=STEP_S):
    watch = InputWatch(loader)
    for _ in watch:
        clock.sleep(work_s)
    return watch.verdict()


class Verdicts(unittest.TestCase):
    def setUp(self):
        torch.card.started = False
        _input_watch._clock = clock

    def tearDown(self):
        _input_watch._clock = time.perf_counter

    LOOPS = {
        # name: (loader, work, truth)
        "a list": (lambda: list(range(40)), STEP_S, "compute"),
        "a slow generator": (lambda: batches(40, STEP_S), STEP_S, "input"),
        "a fast generator": (lambda: batches(40, STEP_S / 100), 2 * STEP_S, "compute"),
        "no work at all": (lambda: batches(40, STEP_S), 0, "input"),
        "slow first batch only": (lambda: batches(40, 0, first_s=0.2), STEP_S, "compute"),
        "workers ahead": (lambda: Ahead(40, STEP_S / 8), STEP_S, "compute"),
        "workers behind": (lambda: Ahead(40, 3 * STEP_S), STEP_S, "input"),
        "one batch": (lambda: [1], STEP_S, "start"),
        "nothing": (lambda: [], STEP_S, "start"),
        "every tenth is slow": (lambda: (clock.sleep(0.1 * (i % 10 == 0)) or i for i in range(40)), STEP_S, "input"),
        "a few slow ones": (lambda: (clock.sleep(0.002 * (i == 20)) or i for i in range(40)), STEP_S, "compute"),
        "half and half": (lambda: batches(30, 2 * STEP_S), 2 * STEP_S, "input"),
    }

    def test_twelve_loops(self):
        self.assertEqual(len(self.LOOPS), 12)
        for name, (loader, work, truth) in self.LOOPS.items():
            with self.subTest(name):
                verdict = run(loader(), work)
                self.assertEqual(verdict.bound, truth, verdict)

    def test_a_wait_that_the_gpu_works_through_is_none(self):
        torch.card.started = torch.card.available = True
        torch.cuda.Event.idle_ms = 0.0
        verdict = run(batches(80, STEP_S), STEP_S)
        self.assertEqual((verdict.bound, verdict.gpu_idle_share), ("compute", 0.0))
        self.assertIn("meanwhile the GPU works", verdict.says)
        torch.cuda.Event.idle_ms = 1e3 * STEP_S
        verdict = run(batches(80, STEP_S), STEP_S)
        self.assertEqual(verdict.bound, "input")
        self.assertAlmostEqual(verdict.gpu_idle_share, 0.5, delta=0.05)

    def test_it_says_why(self):
        self.assertIn("workers", run(Ahead(30, 3 * STEP_S)).says)
        self.assertIn("not input-bound", run([1] * 20).says)

    def test_the_loader_is_as_before(self):
        class Loader(list):
            dataset = "data"

        watch = InputWatch(Loader([1, 2, 3]))
        self.assertEqual((len(watch), watch.dataset, list(watch), list(watch)), (3, "data", [1, 2, 3], [1, 2, 3]))
        import pickle
        self.assertEqual(list(pickle.loads(pickle.dumps(InputWatch([1, 2])))), [1, 2])

    def test_an_exception_passes(self):
        def bad():
            yield 1
            raise OSError("disk")

        with self.assertRaises(OSError):
            list(InputWatch(bad()))


class Cores(unittest.TestCase):
    def test_candidates(self):
        self.assertEqual(_tune.candidates(24), [0, 1, 2, 4, 8, 16, 24])
        self.assertEqual(_tune.candidates(1), [0, 1])

    def test_bursts_are_not_taken_for_speed(self):
        # 16 workers whose batches come together every 0.5 s: 32 a second, however short one looks.
        times = [1.0 + 0.5 * (i // 16) + 0.001 * (i % 16) for i in range(40)]
        self.assertAlmostEqual(_tune.steady(times, 16, 0.0), 32, delta=0.1)
        self.assertLess(_tune.steady(times[:20], 16, 0.0), 15)  # not one whole round: the start counts
        self.assertAlmostEqual(_tune.steady([0.1 * i for i in range(1, 30)], 1, 0.0), 10, delta=0.1)

    def test_cores_are_this_process_s(self):
        self.assertLessEqual(_tune.usable_cores(), len(os.sched_getaffinity(0)))
        self.assertGreater(_tune.usable_cores(), 0)

    def test_advice_takes_the_fewest_that_do(self):
        rates = {0: 100, 1: 95, 2: 190, 4: 360, 8: 365, 16: 340}
        measured = [_tune.Measured(w, r, r * 64, 0.5, 10) for w, r in rates.items()]

        class Loader:
            prefetch_factor = None

        self.assertEqual(_tune.advise(Loader, measured, None, 8, []).kwargs["num_workers"], 4)
        self.assertEqual(_tune.advise(Loader, measured, 1 / 60, 8, []).kwargs, {"num_workers": 0})
        self.assertEqual(_tune.advise(Loader, measured, 1 / 120, 8, []).kwargs["num_workers"], 2)


class Checks(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.card.available = torch.card.started = True
        torch.card.reset()
        torch.is_autocast_enabled = lambda *a: False

    def model(self, device="cuda", dtype=torch.float32):
        model = torch.nn.Module()
        for i in range(12):
            setattr(model, f"w{i}", torch.nn.Parameter((4,), dtype, device))
        return model

    def words(self, model, batch, **more):
        return [(p.severity, p.what) for p in plimsoll.check(model, batch, **more).problems]

    def test_nothing_wrong(self):
        checked = plimsoll.check(self.model(), {"x": torch.empty(4, device="cuda")})
        self.assertTrue(checked.ok)
        self.assertEqual(str(checked), "nothing is wrong with devices and dtypes")

    def test_devices(self):
        [(severity, what)] = self.words(self.model(), {"x": torch.empty(1 << 20)})
        self.assertEqual((severity, what), ("error", "batch['x'] is on the CPU, the model on cuda:0"))
        self.assertIn("4.0 MiB copied each step", str(plimsoll.check(self.model(), torch.empty(1 << 20))))
        model = self.model()
        model.head = torch.nn.Parameter((4,), device="cpu")
        self.assertIn("head is on cpu", str(plimsoll.check(model, torch.empty(4, device="cuda"))))

    def test_dtypes(self):
        [(severity, what)] = self.words(self.model("cpu"), [torch.empty(4, dtype=torch.float64)])
        self.assertEqual((severity, what[:24]), ("error", "batch[...] is float64 (N"))
        self.assertEqual(self.words(self.model("cpu", torch.bfloat16), torch.empty(4))[0][0], "error")
        torch.is_autocast_enabled = lambda *a: True
        self.assertEqual(self.words(self.model("cpu", torch.bfloat16), torch.empty(4)), [])

    def test_left_behind(self):
        model = self.model()
        model.mask = torch.empty(4)
        self.assertIn(("error", "mask is a plain attribute on cpu, the model is on cuda:0"), self.words(model, {}))

    def test_optimizer(self):
        model = self.model()
        optimizer = torch.optim.Optimizer([model.w0])
        self.assertIn("does not know 11 parameters", self.words(model, {}, optimizer=optimizer)[0][1])
        other = torch.optim.Optimizer([*model.parameters(), torch.nn.Parameter((1,))])
        self.assertIn("not the model's", self.words(model, {}, optimizer=other)[0][1])


class Attach(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.card.available = torch.card.started = True
        torch.card.limit = torch.card.total
        torch.card.reset()
        _torch._attached = False
        _torch._peaks.clear()

    def test_all_in_one(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter((1 << 18,), device="cuda")

            def forward(self, n):
                return torch.empty(1 << 18, device="cuda")

        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        with plimsoll.attach(model, optimizer, [1, 2, 3], run="x") as watch:
            for n in watch.loader:
                out = model(n)
                del out
                optimizer.step()
                watch.log(loss=1.5)
            if watch.gauge is not None:
                seen = plimsoll.gauge.read()
                self.assertEqual((seen.step, seen.loss, seen.run), (3, 1.5, "x"))
                self.assertEqual(seen.devices[0]["allocated_bytes"], 2 << 20)
            self.assertEqual(watch.monitor.steps, 3)
            self.assertIn("forward", str(watch.summary()))
            self.assertTrue(all(isinstance(v, float) for v in watch.scalars().values()))
        self.assertEqual((model._before, optimizer._after), ([], []))
        self.assertFalse(os.path.exists(f"/dev/shm/plimsoll.{os.getpid()}"))

    def test_a_failure_has_its_verdict(self):
        model = torch.nn.Module()
        with self.assertRaises(torch.OutOfMemoryError) as raised, plimsoll.attach(model):
            torch.empty(1 << 30, device="cuda")
        self.assertIn("plimsoll:", raised.exception.__notes__[0])


if __name__ == "__main__":
    unittest.main()
