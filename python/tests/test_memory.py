"""plimsoll.memory against a fake torch: peaks that nest, phases, leaks, recordings, owners, forks."""
import gc
import hashlib
import logging
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock
import weakref
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
import torch  # noqa: E402  the fake one

import plimsoll  # noqa: E402
from plimsoll import _gauge_page, _job, _native, _torch, gauge  # noqa: E402
from plimsoll.memory import _monitor, _recorder, _sources, _trend  # noqa: E402
from plimsoll.errors import ArgumentError, NotFoundError  # noqa: E402
from plimsoll.memory import (MemoryMonitor, Recorder, by_owner, free_last_exception, release,  # noqa: E402
                             saved_activations)

MIB = 1 << 20
logging.getLogger("plimsoll").setLevel(logging.CRITICAL)


def cuda(mib: int) -> torch.Tensor:
    return torch.empty(mib << 18, device="cuda")


class WithCard(unittest.TestCase):
    def setUp(self):
        gc.collect()
        torch.card.available = True
        torch.card.limit = torch.card.total
        torch.card.reset()
        torch._C._cuda_attach_out_of_memory_observer = torch.card.observers.append
        torch.calls.clear()
        torch.card.started = True
        _torch._attached = False
        _torch._peaks.clear()


class Model(torch.nn.Module):
    def __init__(self, mib: int = 8):
        super().__init__()
        self.weight = torch.nn.Parameter((mib << 18,), device="cuda")

    def forward(self, mib):
        inside = cuda(2 * mib)
        del inside
        return cuda(mib)


class HooksInC(WithCard):
    """The hooks in C say and tell the gauge what those in Python do."""

    def loop(self, peaks, optimizer, in_c):
        gc.collect()
        torch.card.reset()
        with unittest.mock.patch.object(_monitor, "_hooks_in_c", _monitor._hooks_in_c if in_c else lambda phases: None), \
                unittest.mock.patch.object(_gauge_page, "limit_of", lambda device: 7 << 30):
            monitor, model = MemoryMonitor(capacity=1000), Model(2)
            optimizer = torch.optim.Optimizer(model.parameters()) if optimizer else None
            with gauge.Gauge(path=self.path) as page:
                monitor.gauge = page
                handle = monitor.attach(model, optimizer, peaks=peaks)
                phases = monitor._phases
                self.assertEqual(type(phases.functions()[0]).__name__, "builtin_function_or_method" if in_c else "method")
                for step in range(40):
                    model(1 + step % 5)
                    if step % 7 == 3:
                        with torch.no_grad():
                            model(3)
                    with monitor.track("mine"):  # peaks nest
                        cuda(9 if step == 11 else 1)
                    if optimizer:
                        optimizer.step()
                        optimizer.zero_grad()
                seen = gauge.read(path=self.path)
                handle.remove()
            told = [{**use.to_dict(), "seconds": None} for use in monitor.readings()]
            ends = [_monitor._PACKED_END.unpack(end) if in_c else end for end in monitor._step_ends]
            return told, monitor.steps, ends, list(monitor._counts), seen.to_dict()

    def test_they_say_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            self.path = os.path.join(folder, "page")
            for peaks in ("phase", "sampled", "step"):
                for optimizer in (True, False):
                    with self.subTest(peaks, optimizer=optimizer):
                        one, other = (self.loop(peaks, optimizer, in_c) for in_c in (True, False))
                        timed = []
                        for answer in (one, other):
                            page = answer[-1]
                            timed.append([name for name, ns in page.pop("phase_ns").items() if ns])
                            self.assertGreater(page.pop("last_step_ns"), 0)
                            self.assertEqual(page["devices"][0]["limit_bytes"], 7 << 30)
                            # of step 11 the 9 MiB that were held for a moment
                            most = max(page["steps"], key=lambda mark: mark["peak_allocated_bytes"])
                            self.assertGreater(most["peak_allocated_bytes"], page["devices"][0]["allocated_bytes"])
                        self.assertEqual(timed[0], timed[1])
                        self.assertEqual(one, other)

    def test_what_a_reading_raises_goes_on(self):
        model, monitor = Model(), MemoryMonitor()

        def broken(index):
            raise RuntimeError("a broken card")

        for stats, error in ((broken, RuntimeError), (lambda index: {}, KeyError)):
            good = monitor.memory
            with unittest.mock.patch.object(torch._C, "_cuda_memoryStats", stats):
                monitor.memory = _torch.memory_of()
                handle = monitor.attach(model)
                with self.assertRaises(error):
                    model(1)
                    model(1)
            monitor.memory = good
            handle.remove()

    def test_they_keep_nothing(self):
        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())

        def steps(n):
            for _ in range(n):
                model(1)
                optimizer.step()

        monitor = MemoryMonitor(capacity=16)
        handle = monitor.attach(model, optimizer)
        steps(100)
        gc.collect()
        before = sys.getallocatedblocks()
        steps(3000)
        gc.collect()
        self.assertLess(sys.getallocatedblocks() - before, 300)
        kept = weakref.ref(monitor)
        handle.remove()
        del monitor, handle
        gc.collect()
        self.assertIsNone(kept())


class Monitor(WithCard):
    def test_the_peak_inside_is_seen(self):
        monitor = MemoryMonitor()
        with monitor.track("x") as use:
            big = cuda(100)
            del big
        self.assertEqual((use.allocated_bytes, use.peak_allocated_bytes), (0, 100 * MIB))
        self.assertEqual(use.free_bytes, torch.card.total - 100 * MIB)

    def test_tracks_nest(self):
        monitor = MemoryMonitor()
        with monitor.track("outer") as outer:
            a = cuda(300)
            del a
            with monitor.track("inner") as inner:
                b = cuda(20)
                del b
            with monitor.track("second") as second:
                pass
        self.assertEqual([u.peak_allocated_bytes // MIB for u in (outer, inner, second)], [300, 20, 0])

    def test_two_monitors_share_the_one_peak(self):
        one, two = MemoryMonitor(), MemoryMonitor()
        with one.track("a") as a:
            big = cuda(50)
            del big
            with two.track("b") as b:
                pass
        self.assertEqual((a.peak_allocated_bytes, b.peak_allocated_bytes), (50 * MIB, 0))

    def test_an_exception_ends_the_track(self):
        monitor = MemoryMonitor()
        with self.assertRaises(ZeroDivisionError), monitor.track("x"):
            1 / 0
        self.assertEqual([u.label for u in monitor.readings()], ["x"])
        self.assertEqual(_torch.peaks_of(monitor.memory).open, [])

    def test_phases_of_a_loop(self):
        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        monitor = MemoryMonitor()
        handle = monitor.attach(model, optimizer)
        for _ in range(3):
            out = model(10)
            gradient = cuda(40)
            del out, gradient
            optimizer.step()
        with torch.no_grad():
            model(5)
        summary = {row.label: row for row in monitor.summary().phases}
        self.assertEqual(monitor.steps, 3)
        self.assertEqual({k: v.count for k, v in summary.items()}, {"forward": 3, "backward": 3, "optimizer": 3, "between": 1, "eval": 1})
        self.assertEqual(summary["forward"].max_peak_bytes // MIB, 8 + 8 + 20)
        self.assertEqual(summary["backward"].max_peak_bytes // MIB, 8 + 8 + 10 + 40)
        handle.remove()
        self.assertEqual((model._before, model._after, optimizer._before, optimizer._after), ([], [], [], []))
        self.assertEqual(_torch.peaks_of(monitor.memory).open, [])

    def test_one_reading_a_step(self):
        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        monitor = MemoryMonitor()
        with monitor.attach(model, optimizer, peaks="step"):
            for n in (10, 30, 20):
                model(n)
                optimizer.step()
        self.assertEqual([(u.label, u.step) for u in monitor.readings()], [("step", 0), ("step", 1), ("step", 2)])
        self.assertEqual(monitor.readings()[1].peak_allocated_bytes // MIB, 8 + 8 + 60)

    def test_sampled_phases(self):
        # Every phase in the first 32 steps, in each 8th, and in the step after one that was higher than all before.
        model = Model()
        optimizer = torch.optim.Optimizer(model.parameters())
        monitor = MemoryMonitor()
        with monitor.attach(model, optimizer, peaks="sampled"):
            for step in range(64):
                model(30 if step == 45 else 10)
                optimizer.step()
        by_phase = sorted({use.step for use in monitor.readings() if use.label == "forward"})
        self.assertEqual(by_phase, [*range(32), 32, 40, 46, 48, 56])
        whole = [use for use in monitor.readings() if use.label == "step"]
        self.assertEqual(max(whole, key=lambda use: use.peak_allocated_bytes).step, 45)
        self.assertEqual(monitor.steps, 64)
        with self.assertRaises(ArgumentError):
            monitor.attach(model, optimizer, peaks="each")

    def test_the_ring_is_bounded(self):
        monitor = MemoryMonitor(capacity=10)
        for i in range(25):
            monitor.mark(str(i % 2))
        self.assertEqual((len(monitor.readings()), monitor.summary().dropped), (10, 15))

    def test_scalars_are_numbers_with_units(self):
        monitor = MemoryMonitor()
        monitor.mark("x")
        for name, value in monitor.scalars().items():
            self.assertIsInstance(value, float)
            self.assertRegex(name, "_bytes$|retries$|ooms$")

    def test_without_a_gpu_it_is_the_host_s(self):
        torch.card.available = False
        monitor = MemoryMonitor()
        self.assertEqual(monitor.memory.name, "host")
        with monitor.track("x") as use:
            content = bytearray(64 * MIB)
            content[::4096] = b"x" * len(content[::4096])
        self.assertGreater(use.peak_allocated_bytes, 64 * MIB)
        with self.assertRaises(plimsoll.PlimsollError):
            MemoryMonitor("cuda:0")


class Leaks(WithCard):
    def test_growth_is_found_with_its_rate(self):
        monitor, kept = MemoryMonitor(), []
        for i in range(60):
            kept.append(cuda(1 if i % 3 else 4))
            monitor.step()
        leak = monitor.leak()
        self.assertAlmostEqual(leak.bytes_per_step / MIB, 2, delta=0.3)
        self.assertLessEqual(leak.low_bytes_per_step, leak.bytes_per_step)
        self.assertIn("a step", str(leak))
        self.assertGreater(leak.full_in_steps[1], leak.full_in_steps[0] - 1)

    def test_a_healthy_loop_on_the_host(self):
        # The monitor's own records were a leak of half a KiB per step.
        for grows, steps, found in ((0, 400, False), (0, 6000, False), (1 << 10, 400, False), (10 << 10, 400, True)):
            with self.subTest(grows=grows, steps=steps):
                monitor = MemoryMonitor("cpu")
                held = 100 * MIB

                def numbers():
                    own = sum(len(ring) * _monitor._size_of(ring[0]) for ring in (monitor._ring, monitor._step_ends) if ring)
                    return held + own, held + own, held + own, held + own, 0, 0

                monitor.memory.numbers, monitor.memory.reset_peak = numbers, lambda: None
                phases = _monitor._Phases(monitor, "phase")
                for _ in range(steps):
                    held += grows
                    for phase in ("forward", "backward", "optimizer"):
                        phases.turn(phase)
                    phases.turn("between", step=True)
                self.assertEqual(monitor.leak() is not None, found, monitor.leak())
                phases.remove()

    def test_what_only_looks_like_growth_is_none(self):
        shapes = {
            "flat": [100] * 60,
            "warm-up": [100 + min(i, 12) * 10 for i in range(60)],
            "saw-tooth": [100 + i % 7 for i in range(60)],
            "dies away": [1000 * (1 - 0.8**i) for i in range(60)],
            "longest so far": [max(((j * 7919) % 101) ** 3 for j in range(i + 1)) for i in range(60)],
            "few": [1, 2, 3, 4, 5],
        }
        for name, series in shapes.items():
            with self.subTest(name):
                self.assertIsNone(_trend.trend([(i, int(y * 1000)) for i, y in enumerate(series)]))

    def test_the_line_with_a_recorder(self):
        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            monitor, kept = MemoryMonitor(), []
            for _ in range(30):
                work = [cuda(1) for _ in range(8)]
                kept.append(cuda(3))
                del work
                monitor.step()
            leak = monitor.leak()
            self.assertIsNotNone(leak)
            if leak.line is not None:
                self.assertIn("test_memory.py", leak.line)
            self.assertIs(_recorder.active(), recorder)


class Recording(WithCard):
    def test_from_start_to_report(self):
        with tempfile.TemporaryDirectory() as folder:
            with Recorder(folder) as recorder:
                x = cuda(5)
                path = recorder.dump()
                self.assertEqual(plimsoll.report(path).peak.requested_bytes, 5 * MIB)
                self.assertEqual(recorder.report().peak.requested_bytes, 5 * MIB)
            del x
            self.assertEqual([c[1] for c in torch.calls if c[0] == "record"], ["all", None])
            self.assertEqual(list(Path(folder).glob("*.part")), [])

    def test_no_collection_while_a_snapshot_lives(self):
        from plimsoll import _native

        class Told(dict):
            def __del__(self):
                seen.append(("gone", gc.isenabled()))

        def taken():
            seen.append(("snapshot", gc.isenabled()))
            return Told(whole())

        def written(*arguments):
            seen.append(("write", gc.isenabled()))
            return write(*arguments)

        seen, whole, write = [], torch.cuda.memory._snapshot, _native.pickle_to
        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            keep = cuda(1)
            with unittest.mock.patch.object(torch.cuda.memory, "_snapshot", taken), \
                    unittest.mock.patch.object(_native, "pickle_to", written):
                recorder.dump()
            del keep
        self.assertEqual(seen, [("snapshot", False), ("write", False), ("gone", False)])
        self.assertTrue(gc.isenabled())

    def test_packed_dumps(self):
        """pack=True: a .plim file that says the same and knows the same sources; the pickle is gone."""
        from plimsoll.lint import join

        with tempfile.TemporaryDirectory() as folder:
            with Recorder(folder, pack=True, at_exit=True) as recorder:
                x = cuda(5)
                plain = recorder.dump(Path(folder) / "plain.pickle")
                packed = recorder.dump(Path(folder) / "packed.plim")
            self.assertEqual([p.suffix for p in recorder.files], [".pickle", ".plim", ".plim"])
            self.assertEqual(sorted(p.name for p in Path(folder).iterdir()), sorted(p.name for p in recorder.files))
            self.assertEqual(plimsoll.report(packed).peak.requested_bytes, 5 * MIB)
            self.assertEqual(plimsoll.report(packed).to_dict()["devices"], plimsoll.report(plain).to_dict()["devices"])
            known = join.sources_of(str(packed), os.environ["PLIMSOLL_PROGRAM"])
            self.assertEqual(known, join.sources_of(str(plain)))
            self.assertEqual(known[__file__]["sha256"], hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
            del x

    def test_the_sources_are_remembered(self):
        """As `plimsoll record` does: size and sha256 of the program's files that have frames, for `plimsoll lint --recording`."""
        from plimsoll.lint import join

        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            x = cuda(5)
            path = recorder.dump()
            known = join.sources_of(str(path))
            self.assertEqual(known[__file__]["sha256"], hashlib.sha256(Path(__file__).read_bytes()).hexdigest())
            self.assertEqual((known[__file__]["bytes"], known[__file__]["edited"]), (os.path.getsize(__file__), False))
            self.assertTrue(all("-packages" not in name for name in known))
            text = (Path(__file__).parents[2] / "runtime/recorder/plimsoll_record.py").read_text()
            alone = {"__file__": __file__, "__name__": "alone"}
            exec(text, alone)
            snapshot = torch.cuda.memory._snapshot()
            stand_in = types.SimpleNamespace(born=recorder._born, job=_job)
            self.assertEqual(alone["Recorder"].sources(stand_in, snapshot), _sources.sources(_native._files(snapshot), recorder._born))
            del x

    def test_a_failure_is_recorded_where_it_happens(self):
        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            kept = cuda(600)
            with self.assertRaises(torch.OutOfMemoryError):
                cuda(600)
            self.assertEqual([p.name.rsplit("-", 1)[1] for p in recorder.files], ["oom1.pickle"])
            told = plimsoll.report(recorder.files[0])
            self.assertEqual(told.device.oom[0].requested_bytes, 600 * MIB)
            self.assertEqual(told.device.end.allocated_bytes, 600 * MIB)  # live as at the failure
            del kept
        with self.assertRaises(torch.OutOfMemoryError):
            cuda(1200)
        self.assertEqual(len(recorder.files), 1)  # closed: it does not look any more

    def test_cuda_is_not_started_by_it(self):
        torch.card.started = False
        with tempfile.TemporaryDirectory() as folder, Recorder(folder):
            self.assertEqual(torch.calls, [])
            cuda(1)
            self.assertEqual([c[1] for c in torch.calls if c[0] == "record"], ["all"])

    def test_a_history_of_the_user_s_own_stays(self):
        torch.cuda.memory._record_memory_history(max_entries=7)
        with tempfile.TemporaryDirectory() as folder, Recorder(folder):
            pass
        self.assertEqual([c for c in torch.calls if c[0] == "record"], [("record", "all", "all", 7)])

    def test_chosen_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(folder, on_oom=False)
            recorder.steps(2, 4)
            with recorder:
                for i in range(6):
                    x = cuda(1 + i)
                    del x
                    recorder.step()
            self.assertEqual(len(recorder.files), 1)
            sizes = [e["size"] >> 20 for e in pickle.loads(recorder.files[0].read_bytes())["device_traces"][0]
                     if e["action"] == "alloc"]
            self.assertEqual(sizes, [3, 4])

    def test_a_signal_only_sets_a_flag(self):
        with tempfile.TemporaryDirectory() as folder, Recorder(folder, on_signal=signal.SIGUSR1) as recorder:
            x = cuda(1)
            os.kill(os.getpid(), signal.SIGUSR1)
            self.assertEqual(recorder.files, [])
            MemoryMonitor().mark("x")
            self.assertEqual([p.name.rsplit("-", 1)[1] for p in recorder.files], ["signal.pickle"])
            del x
        self.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_DFL)

    def test_a_forked_child_leaves_it_alone(self):
        for how in ("return", "os._exit", "killed"):
            with self.subTest(how), tempfile.TemporaryDirectory() as folder, Recorder(folder, at_exit=True) as recorder:
                x = cuda(1)
                before = len(torch.calls)
                pid = os.fork()
                if pid == 0:
                    recorder.close()
                    try:
                        recorder.dump()
                    except plimsoll.PlimsollError:
                        pass
                    recorder.on_oom(0, 1, 1, 1)
                    recorder.step()
                    if os.listdir(folder) or len(torch.calls) != before:
                        os._exit(9)
                    if how == "killed":
                        os.kill(os.getpid(), signal.SIGKILL)
                    os._exit(0)
                status = os.waitpid(pid, 0)[1]
                self.assertIn(status, (0, signal.SIGKILL))
                self.assertEqual(os.listdir(folder), [])
                self.assertTrue(recorder.running)
                del x

    def test_it_keeps_the_gauge_where_no_monitor_does(self):
        with tempfile.TemporaryDirectory() as folder, Recorder(folder) as recorder:
            x = cuda(7)
            recorder.step()
            page = gauge.read()
            self.assertEqual((page.step, page.devices[0]["allocated_bytes"]), (1, 7 * MIB))
            model = Model(1)
            with plimsoll.attach(model, torch.optim.Optimizer(model.parameters())) as watch:
                for _ in range(5):
                    model(1)
                    watch.phases.turn("between", step=True)
                recorder.step()  # the monitor counts: this changes nothing
                self.assertEqual(gauge.read().step, 5)
            recorder.step()
            self.assertEqual(gauge.read().step, 3)
            del x
        with self.assertRaises(NotFoundError):
            gauge.read()

    def test_where_it_cannot_write_it_says_so(self):
        with self.assertRaises(OSError):
            Recorder("/proc/none").start()
        torch.card.available = False
        with self.assertRaises(plimsoll.PlimsollError):
            Recorder().start()


class Pickled(unittest.TestCase):
    """What the C library writes of Python objects is what the pickle module would."""

    def written(self, value, last=None):
        with tempfile.TemporaryFile() as file:
            file.write(b"before")
            file.flush()
            _native.pickle_to(file.fileno(), value, last)
            file.seek(6)
            return file.read()

    def same(self, value):
        self.assertEqual(pickle.loads(self.written(value)), value)

    def test_values(self):
        frame = {"name": "f", "filename": "\u00fc" * 300, "line": 3}
        self.same({"segments": [], "device_traces": [[{"frames": [frame] * 3, "addr": n, "t": (n,), "x": n / 7} for n in range(2500)]]})
        edges = [0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -1, -129, -2**31, -2**31 - 1, -2**63]
        self.same({"n": edges, "": None, "b": [True, False], "t": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], "f": [0.5, float("inf")]})
        self.same({"long": "x" * 3_000_000, "rows": [str(i) * 9 for i in range(300_000)]})  # more than a buffer

    def test_a_last_key_is_made_of_the_files(self):
        frames = [{"name": "f", "filename": name, "line": 1} for name in ("/a.py", "/b.py", "/a.py", "?")]
        snapshot = {"segments": [{"blocks": [{"frames": [frames[1], frames[3]]}]}], "device_traces": [[{"frames": [f, f]} for f in frames]]}
        for more in ({}, {"odd": b"bytes"}):  # with b"" the pickle module writes it
            told = pickle.loads(self.written({**snapshot, **more}, ("files", lambda names: " ".join(sorted(set(names))))))
            self.assertEqual((list(told)[-1], told["files"]), ("files", "/a.py /b.py ?"))
        with self.assertRaises(ZeroDivisionError):
            self.written(snapshot, ("files", lambda names: str(1 / 0)))

    def test_what_is_shared_stays_shared(self):
        frame = {"line": 1}
        told = pickle.loads(self.written([[frame], [frame]]))
        self.assertIs(told[0][0], told[1][0])
        circle = {}
        circle["x"] = [circle]
        told = pickle.loads(self.written(circle))
        self.assertIs(told["x"][0], told)

    def test_what_it_does_not_know_the_pickle_module_writes(self):
        deep = []
        for _ in range(100):
            deep = [deep]
        for value in ({1: Path("x")}, [2**64], [-2**63 - 1], ["\ud800"], [b"bytes"], deep, [{1, 2}]):
            self.same(value)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb", buffering=0) as file, self.assertRaises(OSError):
            _native.pickle_to(file.fileno(), ["x"])

    def test_without_the_library_recordings_are_kept(self):
        code = ("import os, pickle, plimsoll\nfrom plimsoll import _native\n"
                "fd = os.memfd_create('x')\n_native.pickle_to(fd, {'a': 1})\nos.lseek(fd, 0, 0)\nprint(pickle.loads(os.read(fd, 100)))")
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PLIMSOLL_LIBRARY": "/nowhere.so"}, text=True,
                              capture_output=True)
        self.assertEqual(done.stdout, "{'a': 1}\n", done.stderr)


class Owning(WithCard):
    def test_saved_activations(self):
        model = Model(4)

        def forward():
            x = cuda(6)
            for kept in (x, x, model.weight, cuda(2)):
                torch.save_for_backward(kept)
            return x

        out, use = saved_activations(forward, model=model)
        self.assertEqual((use.saved_bytes // MIB, use.parameter_bytes // MIB, use.tensors), (8, 4, 4))
        self.assertIn("test_memory.py", use.largest[0].line)

    def test_by_owner(self):
        model = Model(4)
        optimizer = torch.optim.Optimizer(model.parameters())
        optimizer.step()
        losses = [cuda(1) for _ in range(3)]
        owners = {o.name: o.bytes // MIB for o in by_owner(model, optimizer).owners if o.device == "cuda:0"}
        self.assertEqual(owners.pop("model: parameters"), 4)
        self.assertEqual(owners.pop("optimizer: state"), 4)
        [(name, n)] = owners.items()
        self.assertRegex(name, r"test_memory.py:\d+ test_by_owner: losses\[...\]")
        self.assertEqual(n, 3)
        del losses

    def test_release_says_who_still_holds(self):
        self.kept = None
        held = Model(4)

        def inner(model):
            return release(model)

        told = inner(held)
        self.assertEqual(int(told), 0)
        self.assertTrue(any("held" in name for name in told.held_by), told)
        globals()["gone"] = Model(4)
        told, before = release(globals()["gone"]), torch.card.allocated
        if sys.version_info >= (3, 11):
            self.assertEqual(int(told), 4 * MIB)
        else:  # the call held it until it returned
            self.assertEqual((int(told), told.held_by[0].partition(",")[0]), (0, "this call itself"))
        self.assertEqual(before, 4 * MIB)  # of `held`
        self.assertNotIn("gone", globals())

    def test_free_last_exception(self):
        def fails():
            big = cuda(64)
            raise ValueError(str(big.shape))

        try:
            fails()
        except ValueError as error:
            sys.last_exc = sys.last_value = error
            sys.last_traceback = error.__traceback__
            del error
        self.assertEqual(torch.card.allocated, 64 * MIB)
        self.assertEqual(free_last_exception(), 64 * MIB)
        self.assertFalse(hasattr(sys, "last_value"))


if __name__ == "__main__":
    unittest.main()
