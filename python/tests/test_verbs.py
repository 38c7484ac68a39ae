"""The verbs as objects: equal to the program's output, errors as exceptions, interruptible, without the GIL."""
import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import plimsoll
from plimsoll import _abi, _native
from plimsoll.errors import ArgumentError, Cancelled, FormatError, LimitError, NotFoundError

SOURCE = os.environ["PLIMSOLL_SOURCE"]
DATA = os.environ["PLIMSOLL_TEST_DATA"]
DIED = os.path.join(SOURCE, "samples/died-moe.pickle.xz")
LEAKS = os.path.join(SOURCE, "samples/leak-eval.pickle.xz")
MODEL = dict(layers=2, hidden=256, heads=4, vocab=1000)


def program(*arguments: str) -> str:
    environment = dict(os.environ, COLUMNS="80", LC_ALL="C.UTF-8")
    return subprocess.run([os.environ["PLIMSOLL_PROGRAM"], *arguments], capture_output=True, text=True, env=environment).stdout


def some(folder: str, n: int) -> list[str]:
    return [os.path.join(DATA, folder, name) for name in sorted(os.listdir(os.path.join(DATA, folder)))[:n]]


class SameAsTheProgram(unittest.TestCase):
    def same(self, result, *command):
        self.assertEqual(result.to_dict(), json.loads(program(*command, "--json")))
        self.assertEqual(str(result), program(*command, "--width", "80", "--no-color"))

    def test_report(self):
        self.same(plimsoll.report(DIED), "report", DIED)

    def test_report_of_ranks(self):
        self.same(plimsoll.report([DIED, LEAKS]), "report", DIED, LEAKS)

    def test_diff(self):
        self.same(plimsoll.diff(LEAKS, DIED), "diff", LEAKS, DIED)

    def test_whatif(self):
        setting = "expandable_segments:True"
        self.same(plimsoll.whatif(DIED, settings=[setting]), "whatif", DIED, "--settings", setting)

    def test_plan(self):
        plan = plimsoll.plan(**MODEL, batch=2, seq=256, memory="64 MiB")
        self.same(plan, "plan", "--layers", "2", "--hidden", "256", "--heads", "4", "--vocab", "1000", "--batch", "2",
                  "--seq", "256", "--memory", "64MiB")
        self.assertIs(plan.fits, False)

    def test_verify(self):
        for one in some("checkpoints", 6):
            result = plimsoll.verify(one)
            self.assertEqual(result.to_dict(), json.loads(program("ckpt", "verify", one, "--values", "--json")), one)

    def test_why(self):
        for one in some("logs", 4):
            self.same(plimsoll.why(one), "why", one)

    def test_here(self):
        here = plimsoll.here()
        self.assertEqual(here.pid, os.getpid())
        self.assertGreater(here.machine.total_bytes, 0)
        self.assertEqual(here.bounds[0].room_bytes, min(b.room_bytes for b in here.bounds))


class Objects(unittest.TestCase):
    def test_attributes_are_the_json(self):
        died = plimsoll.report(DIED)
        self.assertEqual(died.verdict.cause, "fragmentation")
        self.assertEqual(died.peak.allocated_bytes, died["devices"][0]["peak"]["allocated_bytes"])
        self.assertEqual([f.id for f in died.findings][0], "oom")
        with self.assertRaises(AttributeError):
            died.no_such_key
        with self.assertRaises(AttributeError):
            died.schema = "other"

    def test_pickled_it_keeps_text_and_numbers(self):
        died = plimsoll.report(DIED)
        copy = pickle.loads(pickle.dumps(died))
        self.assertEqual((copy, str(copy)), (died, str(died)))

    def test_save(self):
        died = plimsoll.report(DIED)
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a.html", "a.json", "a.txt", "a.pickle"):
                path = died.save(os.path.join(folder, name))
                self.assertGreater(path.stat().st_size, 100)
            again = plimsoll.report(os.path.join(folder, "a.pickle"))
            self.assertEqual(again.peak.allocated_bytes, died.peak.allocated_bytes)
            with self.assertRaises(ArgumentError):
                died.save(os.path.join(folder, "a.docx"))
            with self.assertRaises(NotFoundError):
                died.save(os.path.join(folder, "none/a.html"))

    def test_notebook(self):
        html = plimsoll.report(DIED)._repr_html_()
        self.assertIn('<iframe sandbox="allow-scripts"', html)
        self.assertNotIn("<script", html)  # escaped: nothing of the page is in the notebook's own document
        self.assertIn("<pre", plimsoll.here()._repr_html_())

    def test_live_objects(self):
        with open(DIED, "rb") as f:
            by_bytes = plimsoll.report(f.read())
        self.assertEqual(by_bytes.source.path, "<bytes>")
        with open(DIED, "rb") as f:
            self.assertEqual(plimsoll.report(f).peak, by_bytes.peak)
        text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB\n"
        self.assertEqual(plimsoll.why(text).outcome, "memory")
        try:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        except RuntimeError as error:
            self.assertEqual(plimsoll.why(error).outcome, "memory")


class Errors(unittest.TestCase):
    def test_kinds(self):
        with self.assertRaises(NotFoundError) as no_file:
            plimsoll.report("/nowhere/at.all")
        self.assertIsInstance(no_file.exception, OSError)
        self.assertEqual((no_file.exception.errno, no_file.exception.path), (2, "/nowhere/at.all"))
        with self.assertRaises(FormatError) as damaged:
            plimsoll.report(b"garbage")
        self.assertIsNotNone(damaged.exception.offset)
        with self.assertRaises(LimitError):
            plimsoll.report(DIED, max_memory_bytes=1 << 20)
        with self.assertRaisesRegex(ArgumentError, "is batch meant"):
            plimsoll.plan(**MODEL, batc=3)
        with self.assertRaises(ArgumentError):
            plimsoll.plan(**MODEL, optimizer="none such")
        with self.assertRaises(ArgumentError):
            plimsoll.report(42)

    def test_sizes(self):
        from plimsoll.verbs import to_bytes

        self.assertEqual([to_bytes("3 GiB"), to_bytes("3.2GB"), to_bytes(7)], [3 << 30, 3200000000, 7])
        for wrong in ("3 parsecs", "", True, None):
            with self.assertRaises(ArgumentError):
                to_bytes(wrong)


class LongCalls(unittest.TestCase):
    """A recording of many events, made here: alloc and free in turn."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "long.pickle")
        actions = ("alloc", "free_requested", "free_completed")
        trace = [{"action": action, "addr": 0x7F0000000000 + i % 1000 * 1024, "size": 1024, "stream": 0, "frames": []}
                 for i in range(60_000) for action in actions]
        with open(cls.path, "wb") as f:
            pickle.dump({"segments": [], "device_traces": [trace]}, f)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_interrupted(self):
        # A fifo that nobody closes is a report without an end; SIGINT must raise all the same, and soon.
        fifo = os.path.join(self.folder.name, "fifo")
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        with open(self.path, "rb") as f:
            os.write(keep, f.read(1000))
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            plimsoll.report(fifo)
        self.assertLess(time.monotonic() - began, 3)
        os.close(keep)

    def test_cancel_is_obeyed(self):
        def work():
            running.cancel()
            out, error = ctypes.c_void_p(), _abi.plim_err()
            status = _native.load().plim_report_open(os.fsencode(self.path), None, ctypes.byref(out), ctypes.byref(error))
            _native.check(status, error)

        running = _native.Running(work)
        running.run()
        self.assertIsInstance(running.error, Cancelled)

    def test_the_gil_is_free(self):
        counted, stop = [0], threading.Event()

        def count():
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        other = threading.Thread(target=count)
        other.start()
        before = counted[0]
        plimsoll.report(self.path)
        stop.set()
        other.join()
        self.assertGreater(counted[0] - before, 2)

    def test_progress_is_told(self):
        from plimsoll._progress import sentence

        self.assertEqual(sentence("x", (50_000_000, 200_000_000)), "x: 25 % of 200 MB read")


class Record(unittest.TestCase):
    def test_a_job_without_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            done = plimsoll.record([sys.executable, "-c", "raise SystemExit(3)"], dir=folder)
        self.assertEqual((done.returncode, done.files, done.reached), (3, (), "no_torch"))


if __name__ == "__main__":
    unittest.main()
