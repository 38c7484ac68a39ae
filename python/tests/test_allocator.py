"""plimsoll.allocator under a fake torch and a fake driver: what PyTorch's wrapper refuses is answered, and the package works on it.

One process has one allocator for good: everything here runs under it.
"""
import ctypes
import gc
import json
import logging
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
import torch  # noqa: E402  the fake one

import plimsoll  # noqa: E402
from plimsoll import _doctor, allocator  # noqa: E402
from plimsoll.memory import MemoryMonitor, Recorder  # noqa: E402
from plimsoll.oom import auto_batch_size, is_oom, oom_guard, retry_on_oom  # noqa: E402

MIB = 1 << 20
told = []


class Kept(logging.Handler):
    def emit(self, record):
        told.append(record.getMessage())


logging.getLogger("plimsoll").addHandler(Kept())
logging.getLogger("plimsoll").propagate = False
torch.card.available = True
torch.cuda.device_count = lambda: 2  # as the driver
allocator.use()
REFUSED = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
refused = REFUSED(torch.card.plug.refused)
allocator.load().plimsoll_alloc_on_oom(refused)


def cuda(mib: int) -> torch.Tensor:
    return torch.empty(mib << 18, device="cuda")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter((8 << 18,), device="cuda")

    def forward(self, mib):
        inside = cuda(2 * mib)
        del inside
        return cuda(mib)


def needed(path):
    """DT_NEEDED of a 64-bit ELF file."""
    with open(path, "rb") as f:
        data = f.read()
    sections, size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    found = [struct.unpack_from("<IIQQQQII", data, sections + i * size) for i in range(count)]
    names = []
    for _, kind, _, _, at, length, link, _ in found:
        for entry in range(at, at + length, 16) if kind == 6 else ():  # SHT_DYNAMIC
            tag, value = struct.unpack_from("<QQ", data, entry)
            if tag == 1:  # DT_NEEDED
                start = found[link][4] + value
                names.append(data[start:data.index(b"\0", start)].decode())
    return names


class Under(unittest.TestCase):
    def setUp(self):
        gc.collect()
        allocator.limit(None)
        torch.cuda.empty_cache()

    def test_what_is_refused_is_said_at_load(self):
        self.assertEqual(len([text for text in told if "reduce-overhead" in text and "cudagraph_trees = False" in text]), 1)
        with self.assertRaisesRegex(RuntimeError, "already in use"):
            allocator.use()

    def test_the_doctor_knows_it(self):
        told = _doctor.history()
        self.assertEqual((told.state, "without stacks" in told.says), ("ok", True))

    def test_memory_is_not_shared_with_other_processes(self):
        class Storage:
            def _share_cuda_(self):
                return "handle"

        torch.UntypedStorage = Storage
        self.addCleanup(delattr, torch, "UntypedStorage")
        allocator._refuse_sharing(torch)
        with self.assertRaisesRegex(RuntimeError, "send tensor.cpu"):
            Storage()._share_cuda_()

    def test_it_needs_libc_alone(self):
        needs = needed(os.environ["PLIMSOLL_ALLOC_LIBRARY"])
        if any(name.startswith(("libasan", "libubsan", "libtsan", "libclang_rt")) for name in needs):
            self.skipTest("built with a sanitizer")
        self.assertEqual([name for name in needs if not name.startswith(("libc.", "ld-"))], [])
        self.assertTrue(needs)

    def test_all_hooks_are_set(self):
        self.assertEqual(set(torch.card.plug.hooks), set(torch.card.plug.HOOKS.values()))

    def test_statistics(self):
        a = cuda(30)
        stats = torch._C._cuda_memoryStats(0)
        self.assertEqual(stats["allocated_bytes"]["all"]["current"], 30 * MIB)
        self.assertGreaterEqual(stats["reserved_bytes"]["all"]["current"], 30 * MIB)
        self.assertEqual(stats["allocated_bytes"]["large_pool"]["current"], 30 * MIB)
        self.assertEqual(allocator.numbers(0)[:2], (30 * MIB, stats["reserved_bytes"]["all"]["current"]))
        flat = allocator.memory_stats()
        self.assertEqual(flat["allocated_bytes.all.current"], 30 * MIB)
        self.assertEqual(flat["plan.learned"], 0)
        self.assertEqual(list(flat), sorted(flat))
        del a
        torch._C._cuda_resetPeakMemoryStats(0)
        self.assertEqual(allocator.numbers(0)[2], 0)

    def test_a_monitor_reads_it(self):
        monitor = MemoryMonitor()
        with monitor.track("x") as use:
            a = cuda(50)
            del a
        self.assertEqual((use.allocated_bytes, use.peak_allocated_bytes), (0, 50 * MIB))
        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        with plimsoll.attach(model, optimizer) as watch:
            for _ in range(3):
                out = model(4)
                optimizer.step()
                optimizer.zero_grad()
                del out
        self.assertEqual(watch.monitor.steps, 3)
        # weights, the state of the first step, and 8 MiB inside of the forward pass
        self.assertEqual(max(p.max_peak_bytes for p in watch.summary().phases if p.label == "forward"), 24 * MIB)

    def test_a_recording_and_its_report(self):
        with tempfile.TemporaryDirectory() as folder:
            with Recorder(folder, max_entries=1000) as recorder:
                kept = [cuda(3) for _ in range(5)]
                path = recorder.dump()
                del kept[2:]
                report = recorder.report()
            self.assertEqual(plimsoll.report(path).peak.allocated_bytes, 15 * MIB)
            self.assertEqual(report.peak.allocated_bytes, 15 * MIB)
            self.assertTrue(report.device.self_check.exact)

    def test_the_librarys_own_dump_is_the_same(self):
        allocator.record(1000)
        kept = [cuda(3), cuda(40), torch.empty(100, device="cuda")]
        del kept[0]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.pickle"
            allocator.dump_snapshot(path)
            with open(path, "rb") as f:
                self.assertEqual(pickle.load(f), allocator.snapshot())
            self.assertEqual(os.listdir(folder), ["x.pickle"])
            self.assertTrue(plimsoll.report(path).device.self_check.exact)
            with self.assertRaisesRegex(OSError, "No such file"):
                allocator.dump_snapshot(Path(folder) / "none" / "x.pickle")
        allocator.record(0)
        del kept

    def test_a_failure_is_recorded_and_told(self):
        allocator.limit(256 * MIB)
        kept = []
        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            with self.assertRaises(torch.OutOfMemoryError) as caught:
                with oom_guard() as guard:
                    while True:
                        kept.append(cuda(40))
            del kept
            self.assertEqual(recorder.ooms, 1)
            self.assertEqual(guard.recording, recorder.files[0])
            death = plimsoll.report(guard.recording).device.oom[-1]
            self.assertEqual(death.live_bytes, 240 * MIB)
            self.assertEqual(guard.at_failure["allocated_bytes"], 240 * MIB)
        said = is_oom(caught.exception)
        self.assertTrue(said.on_device)
        self.assertIn("what stands in the way: the limit", str(caught.exception))
        self.assertEqual(allocator.memory_stats()["num_ooms"] > 0, True)

    def test_the_next_attempt_is_smaller(self):
        allocator.limit(256 * MIB)

        def step(size):
            out = cuda(size)
            return out.numel()

        self.assertEqual(retry_on_oom(step, 1024).size, 256)

        @auto_batch_size(1000)
        def train(batch_size):
            return step(batch_size)

        self.assertLessEqual(train(), 256 << 18)
        self.assertEqual(allocator.numbers(0)[0], 0)

    def test_a_hard_limit_by_fraction(self):
        torch.cuda.set_per_process_memory_fraction(0.01)
        self.assertEqual(torch._C._cuda_getMemoryFraction(0), 0.01)
        with self.assertRaises(torch.OutOfMemoryError):
            cuda(100)
        torch.cuda.set_per_process_memory_fraction(1.0)
        self.assertEqual(cuda(100).numel(), 100 << 18)

    def test_a_plan_that_is_damaged_changes_nothing(self):
        with tempfile.NamedTemporaryFile(suffix=".plan") as f:
            f.write(b"not a plan")
            f.flush()
            why = allocator.load().plimsoll_alloc_plan(os.fsencode(f.name))
        self.assertTrue(why)
        self.assertEqual(cuda(3).numel(), 3 << 18)

    def test_by_hand_the_environment_configures(self):
        program = """
import ctypes, os, sys
library = ctypes.CDLL(os.environ["PLIMSOLL_ALLOC_LIBRARY"])
said = []
refused = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(said.append)
library.plimsoll_alloc_on_oom(refused)
library.plimsoll_malloc.restype = ctypes.c_void_p
library.plimsoll_malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
for _ in range(5):  # the first is met, three of the others are written down
    library.plimsoll_malloc(40 << 20, 0, None)
assert len(said) == 4, said
"""
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PLIMSOLL_ALLOC_OOM_DIR": folder, "PLIMSOLL_ALLOC_LIMIT": str(64 * MIB)}
            subprocess.run([sys.executable, "-c", program], env=env, check=True)
            files = sorted(os.listdir(folder))
            self.assertEqual([name[-len("oom1.pickle"):] for name in files], ["oom1.pickle", "oom2.pickle", "oom3.pickle"])
            with open(os.path.join(folder, files[2]), "rb") as f:
                events = pickle.load(f)["device_traces"][0]
        self.assertEqual([e["size"] for e in events if e["action"] == "oom"], [40 * MIB] * 3)
        self.assertEqual([e["size"] for e in events if e["action"] == "alloc"], [40 * MIB])

    def test_record_puts_it_under_a_job(self):
        stub = Path(__file__).resolve().parents[2] / "tests/record/stub"
        prepare = """
import torch
from plimsoll import allocator
allocator.use()
allocator.record()
for _ in range(6):
    torch.cuda.step()
allocator.dump_snapshot("learned.pickle")
"""
        job = """
import json, sys, torch
torch.cuda._lazy_init()
if torch.cuda.memory.plug:
    for _ in range(2):
        torch.cuda.step()
stats = torch._C._cuda_memoryStats(0)
json.dump([stats.get("plan"), torch.cuda.memory.get_allocator_backend()], open("said.json", "w"))
"""

        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PYTHONPATH": f"{stub}:{os.environ['PYTHONPATH']}", "PLIMSOLL_ALLOC_LEARN": "0", "TMPDIR": folder}
            env.pop("PYTHONDONTWRITEBYTECODE", None)  # what Python keeps next to our files goes with them
            plan = Path(folder) / "run.plan"

            def run(program, **options):
                """What it said, and how it ended; the recordings."""
                (Path(folder) / "said.json").unlink(missing_ok=True)
                recorded = plimsoll.record([sys.executable, "-c", program], dir=folder, env=env, cwd=folder, capture_output=True,
                                           run=lambda *a, **k: seen.append(subprocess.run(*a, text=True, **k)) or seen[-1], **options)
                self.assertEqual((recorded.returncode, seen[-1].stderr if recorded.returncode else ""), (0, ""))
                self.assertEqual([name for name in os.listdir(folder) if name.startswith("plimsoll-record-")], [])
                with open(Path(folder) / "said.json", encoding="utf-8") as f:
                    return json.load(f), seen[-1].stderr, recorded.files

            seen = []
            subprocess.run([sys.executable, "-c", prepare], env={**env, "PLIMSOLL_ALLOC_LEARN": "1"}, check=True, cwd=folder,
                           capture_output=True)
            plimsoll.whatif(Path(folder) / "learned.pickle", plan=True).save(plan)
            (counts, backend), said, files = run(job, plan=plan)
            self.assertEqual((backend, counts["learned"], counts["hits"] + counts["misses"]), ("pluggable", 0, 96), said)
            self.assertLess(counts["misses"], 8)  # as many say where in the plan the job is
            self.assertEqual(plimsoll.report(files[0]).peak.allocated_bytes, (48 + 49) * MIB)
            (counts, backend), said, _ = run(job)
            self.assertEqual((counts, backend), (None, "native"))
            own = "import torch\ntorch.cuda.memory.plug = 'mine'\ntorch.cuda._lazy_init()\ntorch.cuda.memory.plug = None\n" + job
            (_, backend), said, _ = run(own, plan=plan)
            self.assertEqual((backend, "allocator of its own" in said), ("native", True))
            (_, backend), said, _ = run("import torch\ntorch.cuda._initialized = True\n" + job, plan=plan)
            self.assertEqual((backend, "in use before" in said), ("native", True))
            with open(plan, "r+b") as f:
                f.seek(70)
                f.write(b"xxx")
            with self.assertRaisesRegex(plimsoll.errors.FormatError, "run.plan"):
                run(job, plan=plan)
            with self.assertRaisesRegex(plimsoll.errors.NotFoundError, "none.plan"):
                run(job, plan=Path(folder) / "none.plan")

    def test_it_says_at_exit_what_it_was_worth(self):
        a = cuda(100)
        del a
        allocator.reset_peak_memory_stats(0)
        torch.cuda.empty_cache()
        allocator.reset_peak_memory_stats(0)  # what it was worth is of the whole process
        self.assertRegex(allocator._worth(0), r"^\d+\.\d\d GiB reserved at most, \d+\.\d\d (less|more) than with expandable segments; "
                                              r"moving memory took \d+\.\d s")
        self.assertGreaterEqual(dict(zip(allocator._AFTER, list(allocator._raw(0))[-len(allocator._AFTER):]))["reserved_most_bytes"], 100 * MIB)
        self.assertIsNone(allocator._worth(1))
        job = ("import sys; sys.path.insert(0, sys.argv[1]); import torch; torch.card.available = True\n"
               "import plimsoll; plimsoll.allocator.use(); a = torch.empty(40 << 18, device='cuda')")
        fake = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake")
        done = subprocess.run([sys.executable, "-c", job, fake], capture_output=True, text=True)
        self.assertRegex(done.stderr.splitlines()[-1], "^plimsoll.allocator, GPU 0: 0.04 GiB reserved at most, 0.00 less than")

    def test_a_child_has_none(self):
        a = cuda(3)
        child = os.fork()
        if not child:
            try:
                good = allocator.numbers(0) == (0,) * 6 and not allocator._trace(0)
                del a  # a deleter of the parent's tensor
                try:
                    cuda(3)
                except torch.OutOfMemoryError as error:
                    good = good and "forked child" in str(error)
                else:
                    good = False
            finally:
                os._exit(0 if good else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(allocator.numbers(0)[0], a.numel() * 4)


if __name__ == "__main__":
    unittest.main()
