"""The gauge: what is written is read; foreign bytes, torn pages and forks do no harm."""
import ctypes
import os
import signal
import struct
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

from plimsoll import _abi, _gauge_page, _native, gauge
from plimsoll.errors import ArgumentError, FormatError, NotFoundError


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "page")

    def tearDown(self):
        self.folder.cleanup()

    def test_the_limit_of_a_process_is_told(self):
        cuda = types.SimpleNamespace(get_per_process_memory_fraction=lambda device: 0.25 if device == 1 else 1.0,
                                     get_device_properties=lambda device: types.SimpleNamespace(total_memory=80 << 30))
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)), gauge.Gauge(path=self.path) as page:
            for device in 0, 1:
                page.step(1, memory=(10, 5000, 20, 30, 1, 0), device=device)
            seen = gauge.read(os.getpid(), path=self.path)
            self.assertEqual([d["limit_bytes"] for d in seen.devices[:2]], [None, 20 << 30])
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=None)):
            self.assertEqual(_gauge_page.limit_of(0), _gauge_page.UNKNOWN)

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
            self.assertIsNone(seen.devices[0]["limit_bytes"])
            with self.assertRaises(ArgumentError):
                page.phase("lunch")
        self.assertFalse(os.path.exists(self.path))
        page.step(3)  # closed: nothing happens

    def test_python_writes_where_the_structs_have_it(self):
        page = _abi.plim_gauge_page
        at = {name: getattr(page, name).offset for name, *_ in page._fields_}
        self.assertEqual((at["sequence"], at["updated_ns"], at["phase"], at["phase_since_ns"], at["last_step_ns"], at["phase_ns"]),
                         tuple(8 * word for word in (_gauge_page.SEQUENCE, _gauge_page.UPDATED, _gauge_page.PHASE, _gauge_page.PHASE_SINCE,
                                                     _gauge_page.LAST_STEP, _gauge_page.BEFORE_PHASES + 1)))
        self.assertEqual((at["device_count"], at["step"], at["devices"], at["marks"]),
                         (_gauge_page.AT_COUNT, _gauge_page.AT_DONE, _gauge_page.AT_DEVICES, _gauge_page.AT_MARKS))
        self.assertEqual((ctypes.sizeof(page), page.marks.size, page.devices.size), (_gauge_page.BYTES, 16 * _gauge_page.STEPS, 128 * 16))
        names = [row[0] for row in _abi.plim_gauge_device._fields_]
        self.assertEqual(names[1:9], ["allocated_bytes", "reserved_bytes", "active_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
                                      "limit_bytes", "alloc_retries", "ooms"])
        with gauge.Gauge(path=self.path, run="r\u00fcn" * 40, rank=3, world=4, total_steps=9) as made:
            made.step(7, memory=(11, 12, 13, 14, 15, 16), loss=1.5, lr=2.5, grad_norm=3.5, epoch=9)
            made.phase("backward")
            with open(self.path, "rb") as f:
                told = page.from_buffer_copy(f.read())
        values = {name: getattr(told, name) for name in at if name not in ("devices", "marks", "phase_ns", "run")}
        self.assertEqual((values["magic"], values["version"], values["bytes"], values["pid"], values["device_count"], values["writer"]),
                         (b"PLIMGAGE", 1, 4096, os.getpid(), 1, 1))
        self.assertEqual((values["rank"], values["world"], values["total_steps"], values["step"], values["phase"], values["epoch"]),
                         (3, 4, 9, 7, 3, 9))
        self.assertEqual((values["loss"], values["lr"], values["grad_norm"], len(told.run), values["sequence"] % 2), (1.5, 2.5, 3.5, 63, 0))
        self.assertGreater(values["start_time"], 0)
        known = {name: number for name in names[1:-1] if (number := getattr(told.devices[0], name)) != 2**64 - 1}
        self.assertEqual(known, {"allocated_bytes": 11, "reserved_bytes": 12, "peak_allocated_bytes": 13, "peak_reserved_bytes": 14,
                                 "alloc_retries": 15, "ooms": 16})

    def test_the_c_writer_does_the_same(self):
        library, error, handle = _native.load(), _abi.plim_err(), ctypes.c_void_p()
        options = _native.options("gauge", path=self.path, rank=2, world=8)
        _native.check(library.plim_gauge_open(ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)), error)
        library.plim_gauge_set_phase(handle, 2)
        told = _abi.plim_gauge_step(step=5, loss=2.5, lr=float("nan"), grad_norm=float("nan"), epoch=3, peak_allocated_bytes=10)
        library.plim_gauge_set_step(handle, ctypes.byref(told))
        seen = gauge.read(path=self.path)
        self.assertEqual((seen.step, seen.phase, seen.loss, seen.lr, seen.epoch, seen.rank), (5, "forward", 2.5, None, 3, 2))
        library.plim_gauge_close(handle)
        self.assertFalse(os.path.exists(self.path))

    def test_pages_of_the_dead_are_removed(self):
        def leave(name):
            path = os.path.join(self.folder.name, name)
            with open(self.path, "rb") as f, open(path, "wb") as to:
                to.write(f.read())
            return path

        with gauge.Gauge(path=self.path):
            dead, alive, other = leave("plimsoll.4194304"), leave(f"plimsoll.{os.getpid()}"), leave("plimsoll.4194304.old")
            _gauge_page.sweep(self.folder.name)
        self.assertEqual([os.path.exists(path) for path in (dead, alive, other)], [False, True, True])

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
