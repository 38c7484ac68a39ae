"""The commands as objects: equal to the program's output, errors as exceptions, interruptible, without the GIL."""
import ctypes
import inspect
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import plimsoll
import plimsoll._doctor
from plimsoll import _abi, _input, _native
from plimsoll.errors import ArgumentError, Cancelled, FormatError, LimitError, NotFoundError

SOURCE = os.environ["PLIMSOLL_SOURCE"]
DATA = os.environ["PLIMSOLL_TEST_DATA"]
DIED = os.path.join(SOURCE, "samples/died-moe.pickle.xz")
LEAKS = os.path.join(SOURCE, "samples/leak-eval.pickle.xz")
LIBRARY = _native.load()._name  # in an installed package it is found without PLIMSOLL_LIBRARY
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

    def test_plan_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.yaml")
            with open(path, "w", encoding="utf-8") as f:
                f.write("output_dir: out\nper_device_train_batch_size: 2\nmax_seq_length: 256\nbf16: true\nneftune_noise_alpha: 5\n")
            plan = plimsoll.plan(**MODEL, from_files=path, memory="1 GiB")
            self.assertEqual((plan.batch, plan.sequence, plan.fits), (2, 256, None))
            self.assertEqual([s.key for s in plan.settings_read if s.option is None], ["neftune_noise_alpha"])
            self.assertEqual(plimsoll.plan(**MODEL, from_files=[path], batch=1).batch, 1)  # what is given stays

    def test_verify(self):
        for one in some("checkpoints", 6):
            result = plimsoll.verify(one)
            self.assertEqual(result.to_dict(), json.loads(program("ckpt", "verify", one, "--values", "--json")), one)

    def test_why(self):
        for one in some("oom", 4):
            self.same(plimsoll.why(one), "why", one)

    def test_here(self):
        here = plimsoll.here()
        self.assertEqual(here.pid, os.getpid())
        self.assertGreater(here.machine.total_bytes, 0)
        self.assertEqual(here.bounds[0].room_bytes, min(b.room_bytes for b in here.bounds))


class Keywords(unittest.TestCase):
    """Each option of a command has its keyword, or a reason why it has none."""

    SHOWN = "a result prints as text, .to_dict() is the JSON, .save() writes files, str() has no colours"
    COMMANDS = "the command's exit code; a program looks at .findings"
    LINT = "plimsoll.lint is the package's own: python -m plimsoll.lint --recording"
    NAMES = {"top": "rows", "max_memory": "max_memory_bytes", "limit": "limit_bytes", "allowance": "allowance_bytes",
             "fail_over": "fail_over_bytes", "snapshot": "recording", "search": "search_s", "budget": "search_s"}
    REASONS = {
        **dict.fromkeys(("json", "output", "width", "no_color", "help", "format"), SHOWN),
        ("report", "why"): "str() is the short text; the evidence is in .findings", ("report", "fail_on"): COMMANDS,
        ("report", "baseline"): COMMANDS, ("diff", "fail_on"): COMMANDS, ("report", "source"): LINT, ("why", "source"): LINT,
        ("report", "digest"): "a file of the command's, which report() reads",
        ("whatif", "keep"): "save(path, settings=...)", ("why", "fix"): ".deaths[0].advice has the lines",
        ("why", "here"): "plimsoll.here()", ("why", "root"): "plimsoll.here(root=...)",
        ("record", "print"): "lines to paste into a script: plimsoll.memory.Recorder", ("doctor", "no_python"): "it is Python that asks",
        **dict.fromkeys((("doctor", "gpu"), ("doctor", "time_limit")), "a script is looked at before its Python runs: the program does"),
        ("plan", "trace"): "plan(module, batch)", ("plan", "for"): "a word of Python: paste=",
    }

    def options(self, verb):
        text = program(verb, "--help-all")
        found = re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)", text, re.M)
        self.assertIn("help", found)
        return [name.replace("-", "_") for name in found]

    def test_every_option_has_one(self):
        recipe = plimsoll.verbs.recipe_names()
        used = set()
        for verb in ("report", "diff", "whatif", "plan", "why", "record", "doctor"):
            known = set(inspect.signature(getattr(plimsoll, verb)).parameters)
            known |= recipe if verb in ("plan", "why") else set()
            for option in self.options(verb):
                reason = next((key for key in (option, (verb, option), ("plan" if verb == "why" else verb, option)) if key in self.REASONS),
                              None)
                if reason is None:
                    self.assertIn(self.NAMES.get(option, option), known, f"plimsoll {verb} --{option}")
                else:
                    used.add(reason)
        self.assertEqual(used, set(self.REASONS))  # no reason outlives its option

    def test_they_do_what_the_option_does(self):
        same = SameAsTheProgram().same
        same(plimsoll.report(LEAKS, gpu="A100 80GB"), "report", LEAKS, "--gpu", "A100 80GB")
        same(plimsoll.report([DIED, LEAKS], layout="tp=2", threads=1), "report", DIED, LEAKS, "--layout", "tp=2")
        same(plimsoll.diff(LEAKS, DIED, at="end"), "diff", LEAKS, DIED, "--at", "end")
        same(plimsoll.whatif(DIED, settings=["expandable_segments:True"], threads=1), "whatif", DIED, "--threads", "1",
             "--settings", "expandable_segments:True")
        with self.assertRaises(ArgumentError):
            plimsoll.diff(LEAKS, DIED, at="noon")


class Objects(unittest.TestCase):
    def test_attributes_are_the_json(self):
        died = plimsoll.report(DIED)
        self.assertEqual(died.verdict.cause, "fragmentation")
        self.assertEqual(str(died.verdict), died.verdict.headline)
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

    def test_what_a_page_shows_of_whatif(self):
        with open(DIED, "rb") as f:
            tried = plimsoll.whatif(f.read(), settings=["expandable_segments:True", "max_split_size_mb:64"])
        self.assertIn("<iframe", tried._repr_html_())
        with tempfile.TemporaryDirectory() as folder:
            chosen = tried.save(os.path.join(folder, "a.pickle"), settings="max_split_size_mb:64")
            self.assertGreater(plimsoll.report(chosen).peak.allocated_bytes, 0)
            pages = [tried.save(os.path.join(folder, "a.html"), settings=settings).read_text()
                     for settings in (None, "expandable_segments:True", "max_split_size_mb:64")]
            self.assertTrue(all('id="plim-1-head"' in page for page in pages))  # the recording, and the run next to it
            self.assertEqual(len(set(pages)), 2)  # None is one of them
            with self.assertRaises(ArgumentError):
                tried.save(os.path.join(folder, "b.html"), settings="nonsense")
            self.assertEqual(sorted(os.listdir(folder)), ["a.html", "a.pickle"])
            planned = plimsoll.whatif(LEAKS, settings=["max_split_size_mb:64"], plan=True)
            self.assertTrue(any(run.plan for run in planned.runs))
            self.assertGreater(planned.save(os.path.join(folder, "a.plan")).stat().st_size, 0)

    def test_pages_of_what_was_no_file(self):
        with open(DIED, "rb") as died, open(LEAKS, "rb") as leaks:
            both = plimsoll.diff(leaks.read(), died.read())
        self.assertIn("<iframe", both._repr_html_())

    def test_every_result_shows_and_saves(self):
        # In a notebook each shows something, and each is kept as text and JSON; what has no page says so.
        results = [plimsoll.report(DIED), plimsoll.report([DIED, LEAKS]), plimsoll.diff(LEAKS, DIED), plimsoll.here(),
                   plimsoll.whatif(DIED, settings="max_split_size_mb:64"), plimsoll.plan(**MODEL, batch=2, seq=256),
                   plimsoll.why("CUDA out of memory. Tried to allocate 2.00 GiB.\n"), plimsoll.verify(some("checkpoints", 1)[0])]
        pages = 0
        with tempfile.TemporaryDirectory() as folder:
            for result in results:
                with self.subTest(type(result).__name__):
                    shown = result._repr_html_()
                    self.assertTrue(shown.startswith(("<iframe", "<pre")), shown[:50])
                    for name in ("a.txt", "a.json"):
                        self.assertGreater(result.save(os.path.join(folder, name)).stat().st_size, 50)
                    if shown.startswith("<iframe"):
                        pages += 1
                    else:
                        with self.assertRaisesRegex(ArgumentError, "has no page; .txt and .json it has"):
                            result.save(os.path.join(folder, "a.html"))
        self.assertEqual(pages, 5)

    def test_text_or_path(self):
        # "CUDA out of memory ..." without a line break was a path that cannot be opened.
        message = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(folder, "error: a log")
            with open(odd, "w", encoding="utf-8") as file:
                file.write(message)
            texts = [message, "CUDA out of memory", "CUDA error: out of memory", "RuntimeError: cannot read model.safetensors",
                     '{"model_type":"gpt2"}', "a\nb"]
            paths = [odd, "train.log", "my run.log", "./a b", f"{folder}/no such", "", "runs", "x.json", os.path.join(folder, "y")]
            for text in texts:
                self.assertFalse(_input.is_path(text), text)
            for path in paths:
                self.assertTrue(_input.is_path(path), path)
            for log in (message, message.encode(), RuntimeError(message), odd, Path(odd)):
                self.assertEqual(plimsoll.why(log).outcome, "memory", log)
                self.assertEqual(plimsoll.report(DIED, log=log).verdict.cause, "fragmentation")
                plimsoll.whatif(DIED, log=log, settings=["expandable_segments:True"])
            self.assertEqual(plimsoll.report(DIED, log=io.BytesIO(message.encode())).verdict.cause, "fragmentation")
            for log in ("train.log", Path(message)):
                with self.assertRaises(NotFoundError):
                    plimsoll.why(log)
        config = '{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":2,"vocab_size":512}'
        self.assertEqual(plimsoll.plan(config, batch=1, seq=16).to_dict(), plimsoll.plan(json.loads(config), batch=1, seq=16).to_dict())
        self.assertEqual(plimsoll.why(message, config=config).outcome, "memory")

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


class Doctor(unittest.TestCase):
    def test_the_program_and_python_see_the_same(self):
        def rows(checks, *without):
            return [(c["state"], c["what"], c["remedy"]) for c in checks if c["what"] not in ("library", *without)]

        told = plimsoll.doctor()
        self.assertEqual([c.what for c in told.checks][:2], ["plimsoll", "NVIDIA driver"])
        env = dict(os.environ, PATH=os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
        done = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "doctor", "--json"], capture_output=True, text=True, env=env)
        theirs = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if theirs["works"] else 1)
        pythons = [next(c["says"] for c in checks if c["what"] == "Python").partition(",")[0]
                   for checks in (told.to_dict()["checks"], theirs["checks"])]
        if "package" in [c["what"] for c in theirs["checks"]] and pythons[0] == pythons[1]:  # it asked a Python like this one
            self.assertEqual({row[1] for row in rows(told.to_dict()["checks"])} - {row[1] for row in rows(theirs["checks"])}, set())

    def test_redacted_it_names_no_folder(self):
        text = str(plimsoll.doctor(redact=True))
        for folder in {os.path.dirname(sys.executable), os.path.dirname(LIBRARY), SOURCE}:
            self.assertNotIn(folder, text)

    def test_a_python_without_the_package_is_a_row(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "python3")
            with open(fake, "w") as f:
                f.write("#!/bin/sh\nexit 3\n")
            os.chmod(fake, 0o755)
            # A copy of the program: an installed one lies next to a Python that has the package, and asks that one.
            copy = shutil.copy(os.environ["PLIMSOLL_PROGRAM"], folder)
            done = subprocess.run([copy, "doctor"], capture_output=True, text=True,
                                  env={"PATH": folder, "LC_ALL": "C", "PLIMSOLL_LIBRARY": LIBRARY})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("python3 cannot be run", done.stdout)

    def test_a_driver_without_its_device_is_no(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(root + "/proc/driver/nvidia")
            with open(root + "/proc/driver/nvidia/version", "w") as f:
                f.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n")

            def look():
                out, error = ctypes.c_void_p(), _abi.plim_err()
                options = _native.options("doctor", root=root)
                _native.check(_native.load().plim_doctor_open(ctypes.byref(options), ctypes.byref(out), ctypes.byref(error)), error)
                return plimsoll._doctor.Doctor._of(plimsoll._doctor.Source("doctor", out.value, []))

            told = look()
            self.assertIs(told.works, False)
            self.assertIn("580.95.05, but /dev/nvidiactl cannot be opened", str(told))
            self.assertIn("--gpus all", str(told))
            os.makedirs(root + "/dev")
            open(root + "/dev/nvidiactl", "w").close()
            self.assertEqual((look().works, look().checks[1].says), (True, "580.95.05"))


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
        # Words of the command line and of other tools named no parameter.
        for given, said in (("batch_size", "use batch="), ("strategy", "use parallel="), ("zero3", "use parallel='zero3'"),
                            ("per_device_train_batch_size", "use batch="), ("gradient_checkpointing", "use checkpointing='full'")):
            with self.assertRaisesRegex(ArgumentError, f"plan has no '{given}'; {said}"):
                plimsoll.plan(**MODEL, **{given: 3})
        # A number was taken for the address of a text: the process ended with a segmentation fault.
        with self.assertRaisesRegex(ArgumentError, "gpu takes a text, not 24"):
            plimsoll.plan(**MODEL, gpu=24)
        with self.assertRaisesRegex(ArgumentError, "gpu takes a text, not 24"):
            plimsoll.whatif(DIED, gpu=24)
        # "8B" was for the program only.
        self.assertEqual(str(plimsoll.plan(params="8B")), str(plimsoll.plan(params=8 * 10**9)))
        with self.assertRaisesRegex(ArgumentError, "like 8B or 350M, not 'large'"):
            plimsoll.plan(params="large")
        # A text was taken for the list of its letters.
        with self.assertRaisesRegex(ArgumentError, "the words of a command"):
            plimsoll.record("python train.py")
        with self.assertRaises(ArgumentError):
            plimsoll.plan(**MODEL, optimizer="none such")
        with self.assertRaisesRegex(ArgumentError, "no model; give a config.json"):
            plimsoll.plan(seq=256)
        with self.assertRaises(ArgumentError):
            plimsoll.report(42)

    def test_commands_that_are_no_functions(self):
        # docs/tasks/in-python.md said that every command is a function.
        for name, said in (("curves", "plimsoll curves"), ("ckpt", "plimsoll.verify"), ("watch", "plimsoll watch"), ("gate", "plimsoll gate"),
                           ("find_batch_size", "it is plimsoll.oom.find_batch_size"), ("MemoryMonitor", "it is plimsoll.memory.MemoryMonitor"),
                           ("none_such", "no attribute 'none_such'$")):
            with self.assertRaisesRegex(AttributeError, said):
                getattr(plimsoll, name)
        with open(os.path.join(os.environ["PLIMSOLL_SOURCE"], "docs/tasks/in-python.md"), encoding="utf-8") as f:
            named = set(re.findall(r"plimsoll\.(\w+)", f.read()))
        self.assertGreater(len(named), 12)
        self.assertEqual([name for name in sorted(named - {"integrations"}) if name not in plimsoll.__all__], [])

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
        # A fifo that no one closes is a report without an end; SIGINT must raise all the same.
        fifo = os.path.join(self.folder.name, "fifo")
        os.mkfifo(fifo)
        keep = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, keep)  # also where something else is raised: who reads it would keep this process
        # a job in a shell's background ignores it from the start
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        with open(self.path, "rb") as f:
            os.write(keep, f.read(1000))
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        self.addCleanup(timer.cancel)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            plimsoll.report(fifo)

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
