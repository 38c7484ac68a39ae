"""Traces and memory timelines that this PyTorch's profiler writes: peaks are PyTorch's own, to the byte."""
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: PyTorch is not installed; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function, schedule  # noqa: E402

import plimsoll  # noqa: E402

STEPS = 4


def train(model, steps=STEPS):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        with record_function("the forward pass"):
            loss = model(torch.randn(64, 256)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Profiler(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        torch.manual_seed(0)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def traced(self, name, work=train, **options):
        model = nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(256, 256), nn.ReLU())))
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, **options) as p:
            work(model)
        p.export_chrome_trace(self.path(name))
        with (gzip.open if name.endswith(".gz") else open)(self.path(name), "rt", encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("name") == "[memory]"]
        return p, events, plimsoll.report(self.path(name))

    def assert_peak(self, events, report):
        device = report.devices[0]
        ordered = sorted(events, key=lambda e: e["ts"])
        self.assertEqual(device.peak.allocated_bytes, max(e["args"]["Total Allocated"] for e in events))
        self.assertEqual(device.end.allocated_bytes, ordered[-1]["args"]["Total Allocated"])
        self.assertEqual(device.events, len(events) + 1)
        self.assertIsNone(device.peak.reserved_bytes)
        self.assertTrue(any("memory of the CPU" in n for n in report.source.notes), report.source.notes)
        self.assertFalse(any("Total Allocated" in n for n in report.source.notes), report.source.notes)
        return device

    def test_without_stacks_owners_are_operations_and_ranges(self):
        _, events, report = self.traced("plain.json")
        device = self.assert_peak(events, report)
        kinds = device.at_peak.categories
        state = 2 * 3 * (256 * 256 + 256) * 4
        self.assertEqual(kinds.optimizer_state, state + 6 * 4)  # and a step of 4 bytes for each parameter
        self.assertIn("Optimizer.step#AdamW.step in aten::zeros_like", [o.frame for o in device.at_peak.owners])
        self.assertIn("optimizer", device.peak.allocated.phase)
        text = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "report", self.path("plain.json")], check=True,
                              capture_output=True, text=True).stdout
        self.assertNotIn("reserved", text)
        self.assertNotIn("replay exact", text)

    def test_with_stacks_owners_are_lines_and_the_file_may_be_compressed(self):
        _, events, report = self.traced("stack.json.gz", with_stack=True)
        device = self.assert_peak(events, report)
        frames = [o.frame for o in device.at_peak.owners if o.frame]
        self.assertTrue(any("test_profiler.py" in f for f in frames), frames)
        self.assertGreater(device.at_peak.categories.gradient, 0)
        self.assertTrue(any("their def" in n for n in report.source.notes), report.source.notes)

    def test_a_window_of_a_schedule_says_what_was_there_before(self):
        model = nn.Linear(256, 256)
        optimizer = torch.optim.AdamW(model.parameters())
        path = self.path("window.json")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, schedule=schedule(wait=1, warmup=1, active=3),
                     on_trace_ready=lambda p: p.export_chrome_trace(path)) as p:
            for _ in range(5):
                model(torch.randn(64, 256)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                p.step()
        with open(path, encoding="utf-8") as f:
            events = sorted((e for e in json.load(f)["traceEvents"] if e.get("name") == "[memory]"), key=lambda e: e["ts"])
        report = plimsoll.report(path)
        device = self.assert_peak(events, report)
        first = events[0]["args"]
        self.assertEqual(device.before.allocated_bytes, first["Total Allocated"] - first["Bytes"])
        self.assertTrue(device.peak.lower_bound)
        self.assertFalse(report.source.complete)

    def test_without_memory_events_it_is_said_how_to_record_them(self):
        with profile(activities=[ProfilerActivity.CPU]) as p:
            torch.ones(8) + 1
        p.export_chrome_trace(self.path("none.json"))
        with self.assertRaisesRegex(plimsoll.PlimsollError, r"without memory events.*profile_memory=True"):
            plimsoll.report(self.path("none.json"))

    def test_memory_timelines(self):
        p, _, _ = self.traced("again.json", with_stack=True, record_shapes=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated, and still what guides say
            if not hasattr(p, "export_memory_timeline"):
                self.skipTest("this PyTorch has no export_memory_timeline")
            for name in ("timeline.json", "timeline.json.gz", "timeline.raw.json.gz"):
                p.export_memory_timeline(self.path(name), device="cpu")
        with open(self.path("timeline.json"), encoding="utf-8") as f:
            _, sizes = json.load(f)
        most = max(map(sum, sizes))
        for name in ("timeline.json", "timeline.json.gz", "timeline.raw.json.gz"):
            with self.subTest(name):
                report = plimsoll.report(self.path(name))
                device = report.devices[0]
                self.assertEqual(device.end.allocated_bytes, sum(sizes[-1]))
                if "raw" not in name:  # which keeps moments apart that are one microsecond there
                    self.assertEqual(device.peak.allocated_bytes, most)
                    at = max(range(len(sizes)), key=lambda i: sum(sizes[i]))
                    kinds = device.at_peak.categories
                    self.assertEqual([kinds.parameter, kinds.optimizer_state, kinds.input, kinds.temporary,
                                      kinds.activation, kinds.gradient, kinds.autograd_detail, kinds.unknown], sizes[at][1:])
                self.assertGreaterEqual(device.peak.allocated_bytes, most)


if __name__ == "__main__":
    unittest.main()
