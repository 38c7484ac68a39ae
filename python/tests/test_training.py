"""EarlyStopping and TrainingMonitor: one core with `plimsoll curves`, states that go on, trainers where they are."""
import doctest
import importlib.util
import json
import math
import os
import random
import subprocess
import tempfile
import unittest

from plimsoll import training
from plimsoll.errors import ArgumentError, FormatError
from plimsoll.training import EarlyStopping, TrainingMonitor

PROGRAM = os.environ["PLIMSOLL_PROGRAM"]
NAN = float("nan")


def noisy_run(n=400, fault=None, seed=1):
    rng = random.Random(seed)
    for i in range(n):
        loss = 3 * (1 + i / 10) ** -0.3 * math.exp(rng.gauss(0, 0.03))
        row = {"loss": NAN if fault == "nan" and i >= 300 else loss * (3 if fault == "spike" and i in (200, 201) else 1),
               "grad_norm": math.exp(rng.gauss(0, 0.2)) * (30 if fault == "nan" and 295 <= i < 300 else 1)}
        if i % 20 == 19:
            row["val_loss"] = loss + (0.002 * (i - 100) if fault == "overfit" and i > 100 else 0)
        yield i, row


class Doc(unittest.TestCase):
    def test_examples(self):
        self.assertEqual(doctest.testmod(training).failed, 0)


class Stopping(unittest.TestCase):
    def test_resume_keeps_patience(self):
        values = [1.0, 0.9, 0.95, 0.96, NAN, 0.97, 0.98]
        whole = EarlyStopping(patience=4)
        told = [whole.step(v) for v in values]
        for cut in range(len(values)):
            first, second = EarlyStopping(patience=4), EarlyStopping()
            said = [first.step(v) for v in values[:cut]]
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
            said += [second.step(v) for v in values[cut:]]
            self.assertEqual(said, told)
        self.assertEqual(told, [False] * 5 + [True, True])

    def test_arguments(self):
        for bad in ({"policy": "torch"}, {"mode": "auto"}, {"patience": -1}, {"min_delta": NAN}):
            with self.assertRaises(ArgumentError):
                EarlyStopping(**bad)
        with self.assertRaises(FormatError):
            EarlyStopping().load_state_dict({"best": 1.0})

    def test_max_and_delta(self):
        stopping = EarlyStopping(patience=1, mode="max", min_delta=0.05)
        self.assertEqual([stopping.step(v) for v in (0.5, 0.6, 0.63)], [False, False, True])


class Monitor(unittest.TestCase):
    def feed(self, monitor, rows):
        return [f for step, row in rows for f in monitor.log(step, row)]

    def test_same_as_the_program(self):
        """The streaming API and the reader of logs say the same of the same values, at the same steps."""
        for fault in (None, "nan", "spike", "overfit"):
            rows = list(noisy_run(fault=fault))
            monitor = TrainingMonitor()
            self.feed(monitor, rows)
            with tempfile.TemporaryDirectory() as top:
                path = os.path.join(top, "log.jsonl")
                with open(path, "w", encoding="ascii") as f:
                    f.writelines(json.dumps({"step": step, **row}) + "\n" for step, row in rows)
                run = json.loads(subprocess.run([PROGRAM, "curves", "--json", path], check=True, capture_output=True).stdout)["runs"][0]
            want = sorted((f["id"], f["step"], f["detected_step"], f["end_step"], f["title"]) for f in run["findings"]
                          if f["id"] != "early_stop")
            got = sorted((f.id, f.step, f.detected_step, f.end_step, f.title) for f in monitor.findings
                         if not (f.id == "plateau" and f.end_step is not None))
            self.assertEqual(got, want)
            if fault:
                self.assertIn(fault, {f.id for f in monitor.findings})

    def test_metric_by_its_course(self):
        """A name that says nothing: which way is better shows while the training loss falls; noise shows nothing."""
        accuracy = [0.50, 0.58, 0.64, 0.68, 0.70, 0.71, 0.69, 0.67, 0.65, 0.63, 0.61, 0.59, 0.58]
        noise = random.Random(3)
        for values, role in ((accuracy, "metric"), ([1 - a for a in accuracy], "error"),
                             ([0.6] * 13, None), ([0.6 + noise.gauss(0, 0.02) for _ in accuracy], None)):
            monitor = TrainingMonitor(patience=4)
            for step in range(130):
                monitor.log(step, loss=2 * math.exp(-step / 60))
                if step % 10 == 9:
                    monitor.log(step, my_metric=values[step // 10])
            with self.subTest(role=role):
                found = [(f.id, f.severity, f.step) for f in monitor.findings if f.id != "early_stop"]
                self.assertEqual(found, [("overfit", "warning", 59.0)] if role else [])
                self.assertEqual(monitor.best, (59.0, values[5]) if role else None)
                self.assertEqual(bool(monitor.why_stop), bool(role))

    def test_resume_goes_on(self):
        rows = list(noisy_run(fault="nan"))
        whole = TrainingMonitor(patience=3)
        self.feed(whole, rows)
        first, second = TrainingMonitor(patience=3), TrainingMonitor()
        self.feed(first, rows[:150])
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        self.feed(second, rows[150:])
        self.assertEqual(second.findings, whole.findings)
        self.assertEqual(second.why_stop, whole.why_stop)
        self.assertEqual(second.best, whole.best)

    def test_going_back_takes_findings_back(self):
        monitor = TrainingMonitor()
        self.feed(monitor, noisy_run(fault="nan"))
        self.assertTrue(monitor.should_stop)
        monitor.log(250, loss=1.0)
        self.assertFalse(monitor.should_stop)
        self.assertEqual([f.id for f in monitor.findings if f.step >= 250], [])

    def test_a_rise_that_may_come_back_does_not_stop(self):
        for level, last, stops in ((1.5, 130, False), (1.5, 400, True), (9.5, 130, True)):
            monitor = TrainingMonitor(stop_on=("diverged",))
            self.feed(monitor, ((i, {"loss": (1.9 - 0.008 * i if i <= 100 else level) + 0.001 * (i % 3)}) for i in range(1, last)))
            self.assertIn("diverged", [f.id for f in monitor.findings])
            self.assertEqual(monitor.should_stop, stops)

    def test_damaged_state(self):
        monitor = TrainingMonitor()
        self.feed(monitor, noisy_run(n=50))
        state = monitor.state_dict()
        for core in ("", "AAAA", state["core"][:-8], state["core"][:200] + "B" + state["core"][201:]):
            with self.assertRaises(FormatError):
                TrainingMonitor().load_state_dict({**state, "core": core})

    def test_arguments(self):
        with self.assertRaises(ArgumentError):
            TrainingMonitor(stop_on=("overfitting",))
        with self.assertRaises(ArgumentError):
            TrainingMonitor(roles={"x": "loss"})
        monitor = TrainingMonitor(roles={"objective": "train_loss"}, stop_on=())
        self.assertEqual([f.id for f in monitor.log(1, objective=NAN, note="text", nothing=None)], ["nan"])
        self.assertFalse(monitor.should_stop)
        with self.assertRaises(ArgumentError):
            monitor.log(NAN, loss=1.0)


@unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
class Ranks(unittest.TestCase):
    def test_all_stop_together(self):
        import torch.multiprocessing as mp

        with tempfile.TemporaryDirectory() as top:
            context = mp.get_context("spawn")
            results = context.SimpleQueue()
            ranks = [context.Process(target=_rank, args=(rank, top, results)) for rank in range(2)]
            for process in ranks:
                process.start()
            got = dict(results.get() for _ in ranks)
            for process in ranks:
                process.join()
        self.assertEqual(got[0], got[1])
        self.assertEqual(got[0], [False, False, True, True])


def _rank(rank, top, results):
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{top}/meet", rank=rank, world_size=2)
    stopping = EarlyStopping(patience=1)
    # Only rank 1 sees its value get worse at the third evaluation.
    results.put((rank, [stopping.step(v) for v in ((4, 3, 2, 1) if rank == 0 else (4, 3, 3.5, 1))]))
    dist.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
