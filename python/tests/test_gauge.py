"""The gauge: what is written is read; foreign bytes, torn pages and forks do no harm."""
import os
import signal
import struct
import sys
import tempfile
import threading
import unittest

from plimsoll import gauge
from plimsoll.errors import ArgumentError, FormatError, NotFoundError


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "page")

    def tearDown(self):
        self.folder.cleanup()

    def test_what_is_written_is_read(self):
        with gauge.Gauge(run="llama", rank=2, world=8, total_steps=100, path=self.path) as page:
            self.assertEqual(oct(os.stat(self.path).st_mode & 0o777), "0o600")
            page.phase("forward")
            for step in range(1, 200):
                page.step(step, memory=(10 * step, 5000, 20, 30, 1, 0), loss=2.5 if step < 150 else None, epoch=3)
            seen = gauge.read(os.getpid(), path=self.path)
            self.assertEqual((seen.run, seen.rank, seen.world, seen.total_steps, seen.step), ("llama", 2, 8, 100, 199))
            self.assertEqual((seen.phase, seen.loss, seen.lr, seen.epoch), ("forward", 2.5, None, 3))
            self.assertEqual(seen.devices[0]["allocated_bytes"], 1990)
            self.assertIsNone(seen.devices[0]["driver_free_bytes"])
            self.assertEqual([seen.steps[0]["step"], seen.steps[-1]["step"], len(seen.steps)], [88, 199, 112])
            self.assertGreater(seen.last_step_ns, 0)
            with self.assertRaises(ArgumentError):
                page.phase("lunch")
        self.assertFalse(os.path.exists(self.path))
        page.step(3)  # closed: nothing happens

    def test_phases_add_up(self):
        with gauge.Gauge(path=self.path) as page:
            for _ in range(3):
                for name in ("data", "forward", "backward", "optimizer"):
                    page.phase(name)
            seen = gauge.read(path=self.path)
            self.assertTrue(all(seen.phase_ns[name] > 0 for name in ("data", "forward", "backward")))
            self.assertEqual(seen.phase_ns["eval"], 0)

    def test_foreign_bytes(self):
        with gauge.Gauge(path=self.path) as page:
            page.step(1, memory=(1, 2, 3, 4, 0, 0))
            with open(self.path, "rb") as f:
                good = f.read()

            def read(content):
                other = self.path + ".other"
                with open(other, "wb") as f:
                    f.write(content)
                return gauge.read(path=other)

            self.assertEqual(read(good).step, 1)
            for name, wrong in {
                "empty": b"", "cut": good[:4095], "magic": b"x" + good[1:], "version": good[:8] + b"\x02" + good[9:],
                "torn": good[:128] + struct.pack("<Q", 7) + good[136:], "devices": good[:28] + struct.pack("<I", 17) + good[32:],
            }.items():
                with self.subTest(name), self.assertRaises(FormatError):
                    read(wrong)
            bent = bytearray(good)
            struct.pack_into("<QQ", bent, 256 + 16, 1 << 60, 5)  # allocated more than reserved, and absurd
            struct.pack_into("<I", bent, 176, 99)  # no such phase
            bent[48:112] = b"\x1b[31m" + b"A" * 59  # a name without an end, that moves cursors
            seen = read(bytes(bent))
            self.assertIsNone(seen.devices[0]["allocated_bytes"])
            self.assertEqual((seen.phase, seen.run), ("unknown", "?[31m" + "A" * 58))
            os.symlink(self.path, self.path + ".link")
            with self.assertRaises(NotFoundError):
                gauge.read(path=self.path + ".link")
            with self.assertRaises(NotFoundError):
                gauge.read(path=self.path + ".none")
            os.mkfifo(self.path + ".fifo")
            with self.assertRaises(FormatError):
                gauge.read(path=self.path + ".fifo")
        self.assertRaises(FormatError, gauge.read, 1, path=self.path + ".other")  # of another process

    def test_readers_see_whole_pages(self):
        with gauge.Gauge(path=self.path) as page:
            stop = threading.Event()

            def write():
                n = 0
                while not stop.is_set():
                    n += 1
                    page.step(n, memory=(n, n, n, n, n, n))

            writer = threading.Thread(target=write)
            writer.start()
            try:
                for _ in range(200):
                    try:
                        seen = gauge.read(path=self.path)
                    except FormatError:
                        continue  # 64 tries were not enough on a busy machine
                    if seen.devices:
                        device = seen.devices[0]
                        self.assertEqual(len({device["allocated_bytes"], device["reserved_bytes"], device["ooms"]}), 1)
            finally:
                stop.set()
                writer.join()

    def test_forks_leave_it_alone(self):
        for how in ("return", "exit", "os._exit", "killed"):
            with self.subTest(how), gauge.Gauge(path=self.path) as page:
                page.step(5)
                pid = os.fork()
                if pid == 0:
                    page.step(99)
                    page.phase("save")
                    page.close()
                    if how == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                    if how == "exit":
                        signal.alarm(5)
                        try:
                            sys.exit(0)
                        except SystemExit:
                            pass
                    os._exit(0)
                os.waitpid(pid, 0)
                seen = gauge.read(path=self.path)
                self.assertEqual((seen.step, seen.phase), (5, "unknown"))

    def test_of_this_process(self):
        page = gauge.current("x")
        if page is None:
            self.skipTest("no /dev/shm")
        self.assertIs(gauge.current(), page)
        page.step(4)
        self.assertEqual(gauge.read().step, 4)
        page.close()
        with self.assertRaises(NotFoundError):
            gauge.read()


if __name__ == "__main__":
    unittest.main()
