"""Records the GPU memory of this process for `plimsoll report`.

Written by `plimsoll record` as sitecustomize.py into a folder of its own in front of PYTHONPATH; or imported by the
installed package if PLIMSOLL_RECORD names a folder (plimsoll/_record_env.py).  It changes nothing of the job: torch is not imported here, every step is guarded, and whatever goes wrong is
one line on stderr.  Python 3.8 and later, standard library only.

With a plan, Plimsoll's allocator takes the place of PyTorch's before the first CUDA use.
"""
import atexit
import gc
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
import traceback

ENV = "PLIMSOLL_RECORD_"
HERE = os.path.dirname(os.path.abspath(__file__))
OOM_DUMPS_MAX = 3  # of a job that catches its failures and goes on
PACK_S = 600  # far more than a recording takes
SOURCES_MAX, SOURCE_BYTES_MAX = 500, 4 << 20  # files of the program that a recording remembers


def say(text):
    try:
        sys.stderr.write("plimsoll: %s\n" % text)
        sys.stderr.flush()
    except Exception:
        pass


class Recorder:
    def __init__(self):
        env = os.environ
        self.folder = env.get(ENV + "DIR", ".")
        self.run = env.get(ENV + "RUN", "run")
        self.entries = int(env.get(ENV + "MAX_ENTRIES", "1000000"))
        self.stacks = env.get(ENV + "STACKS", "python")
        self.packer = env.get(ENV + "PACKER", "")
        self.plan = env.get(ENV + "PLAN", "")
        self.library = env.get(ENV + "ALLOCATOR", "")
        self.pid = os.getpid()
        self.torch = None
        self.started = False
        self.ooms = 0
        self.dumped_oom_events = False
        self.error = None
        self.record_history = None
        self.users_own = False
        self.gauge = None
        self.born = time.time()
        self.deaths_only = False  # nothing is written of a job that does not run out of memory
        try:
            from plimsoll_in_job import _job  # files of the package; they lie in the same folder as long as the run does

            self.job = _job
        except Exception as e:
            self.job = None
            say("recordings do not tell their rank: %s" % e)

    # ---- what to write where ----

    def path(self, why, suffix):
        name = "plimsoll-%s-rank%d-pid%d-%s%s" % (self.run, self.job.rank() if self.job else 0, self.pid, why, suffix)
        return os.path.join(self.folder, name)

    def write(self, path, text):
        part = path + ".part"
        with open(part, "w") as f:
            f.write(text)
        os.replace(part, path)

    def status(self, text):
        """A word for `plimsoll record`, which shows at the end what became of each process."""
        if self.deaths_only:
            return  # no one reads it
        try:
            with open(os.path.join(HERE, "status-%d" % self.pid), "w") as f:
                f.write(text)
        except OSError:
            pass

    def sources(self, snapshot):
        """Size, time and sha256 of the program's own files that have frames, as JSON, so that `plimsoll lint --recording`
        joins what was measured to the source that ran, and to no other."""
        import hashlib
        import json

        frames = {}  # PyTorch shares the frames, not the lists of them
        for part in snapshot.get("device_traces", []) + [s.get("blocks", []) for s in snapshot.get("segments", [])]:
            for row in part:
                for frame in row.get("frames") or ():
                    frames[id(frame)] = frame
        names = {frame.get("filename", "") for frame in frames.values()}
        files = {}
        for name in sorted(names):
            if not name.endswith(".py") or "-packages" in name or len(files) >= SOURCES_MAX:
                continue
            try:
                state = os.stat(name)
                if state.st_size > SOURCE_BYTES_MAX:
                    continue
                with open(name, "rb") as f:
                    digest = hashlib.sha256(f.read()).hexdigest()
            except OSError:
                continue
            files[name] = {"bytes": state.st_size, "mtime": int(state.st_mtime), "sha256": digest, "edited": state.st_mtime > self.born}
        return json.dumps({"schema": "plimsoll-sources/1", "job": self.job.job() if self.job else {}, "files": files})

    def dump(self, why):
        if os.getpid() != self.pid or not self.started:
            return False
        path = self.path(why, ".pickle")
        was_on = gc.isenabled()
        gc.disable()  # it would walk the millions of dicts of a snapshot again and again
        try:
            return self.write_dump(path)
        except Exception as e:
            say("cannot dump the recording to %s: %s" % (path, e))
            try:
                os.unlink(path + ".part")
            except OSError:
                pass
            return False
        finally:
            if was_on:
                gc.enable()

    def write_dump(self, path):
        snapshot = self.torch.cuda.memory._snapshot()
        events = sum(len(t) for t in snapshot.get("device_traces", []))
        if not events:
            self.status("no events")
            say("no GPU memory event was recorded in process %d" % self.pid)
            return False
        import pickle

        try:
            snapshot["plimsoll_sources"] = self.sources(snapshot)  # the last key: a reader finds it at the file's end
        except Exception as e:
            say("the recording does not name its sources: %s" % e)
        with open(path + ".part", "wb") as f:
            pickle.dump(snapshot, f, protocol=4)
        os.replace(path + ".part", path)
        self.status("dumped")
        if self.packer:
            path = self.pack(path)
        say("%s: %d events" % (path, events))
        return True

    def pack(self, path):
        """The dump in its packed form, and where that came out well the pickle is gone; its name."""
        import subprocess

        packed = path[: -len(".pickle")] + ".plim"
        try:
            done = subprocess.run([self.packer, "pack", path, "-o", packed], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=PACK_S)
            if done.returncode == 0:
                os.unlink(path)
                return packed
            why = done.stderr.decode("utf-8", "replace").strip()
        except Exception as e:
            why = e
        say("the recording stays a pickle: %s" % why)
        return path

    # ---- starting ----

    def follow_plan(self):
        """Before CUDA is initialised; once."""
        plan, self.plan = self.plan, ""
        try:
            if self.torch.cuda.is_initialized():
                say("CUDA was in use before the plan could be followed: PyTorch's allocator stays")
                return
            backend = getattr(self.torch.cuda.memory, "get_allocator_backend", None)
            if backend is not None and backend() == "pluggable":
                say("the job has an allocator of its own: it stays, and the plan is not followed")
                return
            from plimsoll_in_job import allocator

            allocator.use(plan=plan, library=self.library)
        except Exception as e:
            say("PyTorch's own allocator stays: %s" % e)

    def start(self):
        """After the first CUDA initialisation."""
        if self.started or os.getpid() != self.pid:
            return
        record = self.record_history or self.torch.cuda.memory._record_memory_history
        try:
            if self.users_own:
                say("the job records its own memory history: its settings stay")
                self.entries = None
            try:
                if self.entries:
                    record(max_entries=self.entries, context="all", stacks=self.stacks)
            except TypeError:  # PyTorch 2.0
                record(True, trace_alloc_max_entries=self.entries, trace_alloc_record_context=True)
            self.started = True
            self.status("started")
        except Exception as e:
            say("this PyTorch does not record memory history: %s" % e)
            return
        self.watch_failures()
        atexit.register(self.at_exit)
        records = self.watch_signal()
        try:
            job = self.job
            of = {"rank": job.rank(), "world": job.number(job.WORLD) or 0} if job else {}
            self.gauge = Gauge(self.torch, os.path.basename(sys.argv[0] or "python"), records, of)
        except Exception as e:
            say("`plimsoll watch` sees this process from outside only: %s" % e)

    def watch_failures(self):
        try:
            self.torch._C._cuda_attach_out_of_memory_observer(self.on_oom)
        except Exception:
            pass  # older: the dump at exit still holds the failure
        previous = sys.excepthook

        def hook(kind, value, trace):
            self.error = "".join(traceback.format_exception(kind, value, trace))
            previous(kind, value, trace)

        sys.excepthook = hook

    def on_oom(self, device, alloc, device_alloc, device_free):
        try:
            if os.getpid() != self.pid:
                return
            self.ooms += 1
            if self.ooms <= OOM_DUMPS_MAX:
                self.dump("oom%d" % self.ooms)
        except Exception as e:
            say("at an out-of-memory error: %s" % e)

    def watch_signal(self):
        try:
            if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
                signal.signal(signal.SIGUSR1, self.on_signal)
                return True
        except (ValueError, OSError, AttributeError):
            pass  # not the main thread, or a system without it
        return False

    def on_signal(self, number, frame):
        self.dump("signal")

    def at_exit(self):
        if os.getpid() != self.pid:
            return
        if self.gauge is not None:
            self.gauge.close()
        memory = self.error and "out of memory" in self.error
        why = "oom%d" % self.ooms if memory and 0 < self.ooms <= OOM_DUMPS_MAX else "end"
        if why == "end" and (memory or not self.deaths_only):
            self.dump(why)
        if memory:
            try:
                self.write(self.path(why, ".txt"), self.error)
            except OSError as e:
                say("cannot write the error's text: %s" % e)
        if self.ooms > OOM_DUMPS_MAX:
            say("%d out-of-memory errors; the first %d are recorded" % (self.ooms, OOM_DUMPS_MAX))

    # ---- waiting for torch ----

    def on_torch_cuda(self, module):
        self.torch = sys.modules.get("torch")
        self.status("torch")
        lazy_init = module._lazy_init
        memory = module.memory
        self.record_history = getattr(memory, "_record_memory_history", None)

        def users_call(*args, **kwargs):
            self.users_own = True
            return self.record_history(*args, **kwargs)

        if callable(self.record_history):
            memory._record_memory_history = users_call

        def wrapped():
            if self.plan and not self.started and os.getpid() == self.pid:
                self.follow_plan()
            lazy_init()
            try:
                if not self.started and self.torch.cuda.is_initialized():
                    self.start()
            except Exception as e:
                say("cannot start recording: %s" % e)

        module._lazy_init = wrapped


class Gauge:
    """The page that `plimsoll watch` reads: memory once a second, or at the ends of steps where an optimizer makes them."""

    EVERY_S = 1.0
    READ_EVERY_S = 0.1  # in steps that are shorter memory is not read each time: a reading takes 20 to 40 us

    def __init__(self, torch, run, records, of):
        import threading

        from plimsoll_in_job import _gauge_page

        self.torch = torch
        self.page = _gauge_page.Page(run=run, writer=2, records=records, **of)
        self.steps, self.told, self.optimizer = 0, 0.0, None
        self.lock, self.ended = threading.Lock(), threading.Event()
        # Newer releases take the module's name away from torch.optim.
        optimizers = sys.modules.get("torch.optim.optimizer") or getattr(getattr(torch, "optim", None), "optimizer", None)
        hook = getattr(optimizers, "register_optimizer_step_post_hook", None)  # since 2.0
        self.hook = hook(self.after_step) if hook else None
        self.thread = threading.Thread(target=self.look, name="plimsoll-gauge", daemon=True)
        self.thread.start()

    def after_step(self, optimizer, args, kwargs):
        try:
            if self.optimizer is None:
                self.optimizer = id(optimizer)  # of several, as a GAN has, the first counts
            if self.optimizer == id(optimizer):
                self.steps += 1
                self.tell(self.READ_EVERY_S)
        except Exception:
            pass

    def look(self):
        while not self.ended.wait(self.EVERY_S):
            try:
                self.tell(self.EVERY_S)
            except Exception:
                return

    def tell(self, every):
        now = time.monotonic()
        memory = None
        with self.lock:
            if now - self.told >= every:
                self.told = now
                memory = [(device, self.read(device)) for device in range(min(self.torch.cuda.device_count(), 16))]
            for device, numbers in memory or [(0, None)]:
                if memory is None or numbers[1]:  # of the GPUs that this process uses
                    self.page.step(self.steps, numbers, device)

    def read(self, device):
        stats = self.torch._C._cuda_memoryStats(device)
        allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
        return (allocated["current"], reserved["current"], allocated["peak"], reserved["peak"], stats["num_alloc_retries"],
                stats["num_ooms"])

    def close(self):
        self.ended.set()
        if self.hook is not None:
            self.hook.remove()
        self.thread.join(2)
        self.page.close()


class Finder(importlib.abc.MetaPathFinder):
    """Sees torch.cuda being imported, lets the others find it, and comes back when it is loaded."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.busy = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda" or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.loader is None:
            return None
        loader, recorder = spec.loader, self.recorder
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            try:
                recorder.on_torch_cuda(module)
            except Exception as e:
                say("cannot watch torch.cuda: %s" % e)

        loader.exec_module = exec_module
        return spec


def chain():
    """The sitecustomize that this one hides, if there is one."""
    for folder in sys.path:
        if os.path.abspath(folder or ".") == HERE:
            continue
        path = os.path.join(folder or ".", "sitecustomize.py")
        if os.path.isfile(path):
            spec = importlib.util.spec_from_file_location("sitecustomize", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules["sitecustomize"] = module
            spec.loader.exec_module(module)
            return


def main(folder=None):
    """folder: of recordings at deaths alone, without `plimsoll record`."""
    try:
        recorder = Recorder()
        if folder is not None:
            recorder.deaths_only = True
            recorder.folder = folder
            recorder.run = time.strftime("%m%d-%H%M%S")
        recorder.status("python")
        sys.meta_path.insert(0, Finder(recorder))
    except Exception as e:
        say("cannot record: %s" % e)


if __name__ == "sitecustomize":
    main()
    chain()
