"""Checkpointer with a real PyTorch on the CPU: bitwise resume, one list of differences, ranks, preemption, files that others read."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
import warnings

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import copy  # noqa: E402
import random  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import plimsoll  # noqa: E402
from plimsoll.checkpoint import Checkpointer, rng_state, set_rng_state  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, NotFoundError, UnsupportedError  # noqa: E402
from ranks import LEAVE  # noqa: E402


END_S = 1800  # of a process that is not to hang: on a busy machine a start takes a minute


class Net(nn.Module):
    """Tied weights, BatchNorm, dropout, a buffer that is not saved."""

    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(width, 50, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.out(self.drop(self.norm(self.embed(x).mean(1))))


class Job:
    """A training job with all that a resume needs."""

    def __init__(self, kind="plain", seed=0):
        torch.manual_seed(seed)
        random.seed(seed)
        self.kind = kind
        self.model = Net()
        self.ema = copy.deepcopy(self.model)
        make = {"sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)}.get(kind, lambda p: torch.optim.AdamW(p, 1e-2))
        self.optimizer = make(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 40)
        self.generator = torch.Generator().manual_seed(7)
        self.seen = {"tokens": 0}

    def state(self):
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "ema": self.ema,
                "data": self.generator}

    def run(self, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            for _ in range(3 if self.kind == "accumulation" else 1):
                x = torch.randint(0, 50, (8, 4), generator=self.generator) if random.random() < 2 else None
                with torch.autocast("cpu", torch.bfloat16, enabled=self.kind == "amp"):
                    loss = self.model(x).square().mean()
                loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            with torch.no_grad():
                for a, b in zip(self.ema.parameters(), self.model.parameters()):
                    a.lerp_(b, 0.1)

    def tensors(self):
        found = [*self.model.state_dict().values(), *self.ema.state_dict().values()]
        return found + [v for state in self.optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]


class Folder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.top = self.holder.name
        self.addCleanup(self.holder.cleanup)


class Resume(Folder):
    def test_bitwise(self):
        for kind, format in (("plain", "safetensors"), ("sgd", "torch"), ("amp", "safetensors"), ("accumulation", "torch")):
            with self.subTest(kind), Checkpointer(os.path.join(self.top, kind + format), format=format) as checkpointer:
                whole = Job(kind)
                whole.run(5)
                saving = checkpointer.save(5, **whole.state(), tokens={"seen": 40, "nan": float("nan")})
                whole.run(5)  # while it is written
                other = Job(kind, seed=3)
                other.run(2)
                loaded = checkpointer.load(**other.state())
                self.assertEqual((loaded.step, loaded.path, loaded.notes), (5, saving.path, ()))
                self.assertEqual(loaded.values["tokens"]["seen"], 40)
                other.run(5)
                for a, b in zip(whole.tensors(), other.tensors()):
                    self.assertTrue(torch.equal(a, b))
                self.assertIs(other.model.out.weight, other.model.embed.weight)

    def test_generators(self):
        generator = torch.Generator().manual_seed(3)
        state = rng_state(generator)
        json.dumps(sorted(state))  # plain
        drawn = (random.random(), torch.rand(3).tolist(), torch.rand(3, generator=generator).tolist())
        self.assertEqual(set_rng_state(state, generator), [])
        self.assertEqual((random.random(), torch.rand(3).tolist(), torch.rand(3, generator=generator).tolist()), drawn)
        self.assertEqual(set_rng_state(state), ["generator 0"])

    def test_others_read_it(self):
        job = Job()
        job.run(1)
        with Checkpointer(self.top, monitor="loss") as checkpointer:
            path = checkpointer.save(3, **job.state(), metrics={"loss": 0.5}).result()
        told = plimsoll.verify(path)
        self.assertEqual(told.verdict, "whole")
        # It did not know state.json and rank-00000.json, and wanted what they hold.
        self.assertEqual([want for want in told.resume_missing if "scaler" not in want and "commit" not in want], [])
        self.assertEqual(os.readlink(os.path.join(self.top, "latest")), "step-00000003")
        self.assertEqual(os.readlink(os.path.join(self.top, "best")), "step-00000003")
        if importlib.util.find_spec("safetensors") is None:
            return
        from safetensors.torch import load_file, load_model

        theirs = load_file(os.path.join(path, "model.safetensors"))
        for name, tensor in job.model.state_dict().items():
            if name != "out.weight":  # is embed.weight
                self.assertTrue(torch.equal(theirs[name], tensor))
        fresh = Net()
        load_model(fresh, os.path.join(path, "model.safetensors"))
        self.assertTrue(torch.equal(fresh.out.weight, job.model.out.weight))

    def test_torch_reads_it(self):
        """Without this package, by weights_only, and as the state_dict()s themselves."""
        class Odd(Net):
            def __init__(self):
                super().__init__()
                self.register_buffer("none", torch.zeros(0, 3))
                self.register_buffer("wave", torch.randn(3, dtype=torch.complex128))
                self.register_buffer("small", torch.randn(4).to(torch.float8_e4m3fn))

            def get_extra_state(self):
                return {"a": (1, -2.5, float("inf"), [], {}, None, True), "b": b"\x00\xff", 3: torch.bfloat16, "ü": 2 ** 40}

            def set_extra_state(self, state):
                self.extra = state

        job = Job()
        job.run(2)
        model = Odd()
        with Checkpointer(self.top, format="torch") as checkpointer:
            path = checkpointer.save(3, **{**job.state(), "ema": model}, note={"seen": [1, {2}]}, loader=job.generator).result()
            self.assertTrue(checkpointer.validate(path))
        self.assertEqual(sorted(name for name in os.listdir(path) if name.endswith(".pt")),
                         ["ema.pt", "model.pt", "note.pt", "optimizer.pt", "scheduler.pt"])
        code = "import sys, torch; [torch.load(one, weights_only=True) for one in sys.argv[1:]]; assert 'plimsoll' not in sys.modules"
        subprocess.run([sys.executable, "-c", code, *(os.path.join(path, n) for n in os.listdir(path) if n.endswith(".pt"))], check=True)
        read = {name: torch.load(os.path.join(path, name + ".pt"), weights_only=True) for name in ("ema", "model", "note", "optimizer", "scheduler")}
        self.assertEqual(list(read["ema"]), list(model.state_dict()))
        for name, tensor in model.state_dict().items():
            if isinstance(tensor, torch.Tensor):
                self.assertEqual((read["ema"][name].dtype, read["ema"][name].shape), (tensor.dtype, tensor.shape))
                self.assertEqual(read["ema"][name].reshape(-1).view(torch.uint8).tolist(), tensor.reshape(-1).view(torch.uint8).tolist())
        self.assertEqual(read["ema"]["_extra_state"], model.get_extra_state())
        self.assertEqual(read["note"], {"seen": [1, [2]]})
        self.assertEqual(read["scheduler"], job.scheduler.state_dict())
        self.assertEqual(read["model"]["out.weight"].data_ptr(), read["model"]["embed.weight"].data_ptr())
        other = Job(seed=5)
        other.model.load_state_dict(read["model"])
        other.optimizer.load_state_dict(read["optimizer"])
        self.assertEqual(other.optimizer.state_dict()["param_groups"], job.optimizer.state_dict()["param_groups"])
        mine, theirs = job.optimizer.state_dict()["state"], other.optimizer.state_dict()["state"]
        self.assertEqual(list(mine), list(theirs))
        for i, state in mine.items():
            for key, value in state.items():
                self.assertTrue(torch.equal(value, theirs[i][key]))

    def test_ddp_and_compile_keep_names(self):
        class Wrapped(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self._orig_mod = inner

        net = Net()
        with Checkpointer(self.top) as checkpointer:
            checkpointer.save(1, model=Wrapped(net))
            fresh = Net()
            checkpointer.load(model=fresh)
        self.assertTrue(torch.equal(fresh.embed.weight, net.embed.weight))


class Refusals(Folder):
    def test_all_differences_at_once(self):
        job = Job()
        job.run(1)
        with Checkpointer(self.top) as checkpointer:
            checkpointer.save(1, **job.state()).result()
            other = nn.ModuleDict({"embed": nn.Embedding(50, 16), "norm": nn.BatchNorm1d(32), "new": nn.Linear(2, 2)})
            before = {name: value.clone() for name, value in other.state_dict().items()}
            with self.assertRaises(FormatError) as caught:
                checkpointer.load(model=other, optimizer=torch.optim.SGD(other.parameters(), 0.1), nothing=job.scheduler)
            text = str(caught.exception)
            for part in ("'embed.weight' is float32 [50, 16] in the model, float32 [50, 32] in the checkpoint", "'new.bias' is only in the model",
                         "'out.weight' is only in the checkpoint", "is SGD, in the checkpoint it is AdamW", "group 0 has 'new.weight'",
                         "'nothing' is not in the checkpoint"):
                self.assertIn(part, text)
            for name, value in other.state_dict().items():
                self.assertTrue(torch.equal(value, before[name]))

    def test_the_name_that_it_was_saved_by(self):
        # save(optim=...) was "the optimizer is not in the checkpoint", which did not say what is.
        with tempfile.TemporaryDirectory() as folder, Checkpointer(folder) as checkpointer:
            job, other = Job(), Job()
            job.run(2)
            job.optimizer.param_groups[0]["lr"] = 0.125
            checkpointer.save(1, model=job.model, optim=job.optimizer, ema=job.ema, tokens=3).result()
            for given, said in (
                    ({"optimizer": other.optimizer}, "the optimizer is not in the checkpoint, which has 'optim', an optimizer: load with optim=optimizer"),
                    ({"opt": other.optimizer}, "load with optim=opt"),
                    ({"scheduler": other.scheduler},
                     r"'scheduler' is not in the checkpoint, which has model \(a module\), optim \(an optimizer\), ema .*, tokens \(a value\)")):
                with self.assertRaisesRegex(FormatError, said):
                    checkpointer.load(model=other.model, **given)
            checkpointer.load(model=other.model, optim=other.optimizer)
            self.assertEqual(other.optimizer.param_groups[0]["lr"], 0.125)
            checkpointer.save(2, net=job.model, optimizer={"g": job.optimizer}).result()
            for given, said in (({"model": other.model}, "the model is not in the checkpoint, which has 'net', .*: load with net=model"),
                                ({"optim": other.optimizer}, r"which has optimizer\['g'\] \(an optimizer\), net")):
                with self.assertRaisesRegex(FormatError, said):
                    checkpointer.load(**given)
            checkpointer.save(3, model=job.model, optimizer=job.optimizer).result()
            with self.assertRaisesRegex(FormatError, "which has 'optimizer', an optimizer: load with optimizer=optim"):
                checkpointer.load(optim=other.optimizer)
            with self.assertRaisesRegex(ArgumentError, r"'parts/b' is .*AdamW inside of another object; .*save\(step, b=...\)"):
                checkpointer.save(4, model=job.model, parts={"b": job.optimizer})

    def test_by_position(self):
        # save(step, model, optimizer) was Python's "takes 2 positional arguments but 4 were given".
        with tempfile.TemporaryDirectory() as folder, Checkpointer(folder) as checkpointer:
            job = Job()
            for call, said in ((lambda: checkpointer.save(1, job.model, job.optimizer), r"save\(step, model=model, optimizer=optimizer\)"),
                               (lambda: checkpointer.load("latest", job.model), r"load\(path, model=model, optimizer=optimizer\)"),
                               (lambda: checkpointer.prepare(job.model), r"prepare\(model=model, optimizer=optimizer\)"),
                               (lambda: plimsoll.checkpoint.load("x.pt", job.model), r"load\(path, model=model, optimizer=optimizer\)")):
                with self.assertRaisesRegex(ArgumentError, said):
                    call()

    def test_converted_weights_load(self):
        # {"model": ..., "optimizer": ...} became names that begin with "model.", and the optimizer's: no model loaded them.
        import torch.distributed.checkpoint as dcp

        job = Job()
        job.run(1)
        state = {"model": job.model.state_dict(), "optimizer": job.optimizer.state_dict(), "epoch": 3}
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = os.path.join(folder, "weights.safetensors")
            torch.save(state, os.path.join(folder, "full.pt"))
            dcp.save(state, checkpoint_id=os.path.join(folder, "dcp"))
            with Checkpointer(os.path.join(folder, "own")) as checkpointer:
                checkpointer.save(1, model=job.model, optimizer=job.optimizer).result()
            for name in ("full.pt", "dcp", "own/latest"):
                with self.subTest(name):
                    done = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "ckpt", "convert", os.path.join(folder, name), "-o", out],
                                          capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("and not the other", done.stderr)
                    other = Job(seed=3).model
                    plimsoll.checkpoint.load(out, model=other)
                    for key, tensor in other.state_dict().items():
                        self.assertTrue(torch.equal(tensor, state["model"][key]), key)

    def test_a_file_without_the_models_names(self):
        # "no tensors that are called as the model's" named none of either side.
        with tempfile.TemporaryDirectory() as folder:
            path, model = folder + "/other.pt", nn.ModuleDict({"a": nn.Linear(2, 2)})
            weights = nn.Sequential(nn.Linear(2, 2)).state_dict()
            for value, more, said in ((weights, {}, "no name matches: the file has 0.weight, the model a.weight$"),
                                      ({"net": weights, "epoch": 1}, {}, "no name matches: the file has 0.weight in 'net', the model a.weight$"),
                                      ({"net": weights, "ema": weights}, {}, "the model a.weight; mappings of tensors in the file: 'net', 'ema'$"),
                                      ({"net": weights}, {"model_key": "n"}, "no tensors under 'n'; it has some in: 'net'$"),
                                      ({"epoch": 1}, {}, "has no tensors$")):
                torch.save(value, path)
                with self.assertRaisesRegex(FormatError, said):
                    plimsoll.checkpoint.load(path, model=model, **more)
            torch.save({"net": weights, "epoch": 1}, path)
            with self.assertRaisesRegex(FormatError, "no state of an optimizer; the file has 'net', 'epoch'"):
                plimsoll.checkpoint.load(path, optimizer=torch.optim.SGD(model.parameters(), 0.1))

    def test_partial_and_renamed(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        with Checkpointer(self.top) as checkpointer:
            checkpointer.save(1, model=net).result()
            wider = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
            with self.assertRaises(FormatError):
                checkpointer.load(model=wider)
            checkpointer.load(model=wider, partial=["1.*"])
            self.assertTrue(torch.equal(wider[0].weight, net[0].weight))
            inner = nn.Module()
            inner.model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
            with self.assertRaises(FormatError) as caught:
                checkpointer.load(model=inner)
            self.assertIn("rename={'': 'model.'}", str(caught.exception))
            checkpointer.load(model=inner, rename={"": "model."})
            self.assertTrue(torch.equal(inner.model[1].bias, net[1].bias))

    def test_a_damaged_one_is_passed_over(self):
        net = nn.Linear(4, 4)
        with Checkpointer(self.top) as checkpointer:
            first = checkpointer.save(1, model=net).result()
            want = net.weight.detach().clone()
            with torch.no_grad():
                net.weight.add_(1)
            second = checkpointer.save(2, model=net).result()
            with open(os.path.join(second, "model.safetensors"), "r+b") as f:
                f.seek(-4, 2)
                f.write(b"\0\0\0\x7f")
            loaded = checkpointer.load(model=net)
            self.assertEqual((loaded.path, loaded.skipped), (first, ("step-00000002",)))
            self.assertTrue(torch.equal(net.weight, want))
            self.assertFalse(checkpointer.validate(second))
            with self.assertRaises(NotFoundError):
                checkpointer.load(second, model=net)
            with self.assertRaises(NotFoundError):
                checkpointer.load("best", model=net)

    def test_what_is_no_plain_value(self):
        with Checkpointer(self.top) as checkpointer:
            with self.assertRaisesRegex(ArgumentError, "'meta/inner' is .*only plain values"):
                checkpointer.save(1, meta={"inner": object()})
            with self.assertRaises(ArgumentError):
                checkpointer.save(1, state=3)
            self.assertEqual(checkpointer.checkpoints(), [])

    def test_arguments(self):
        """Each is reported before anything is written."""
        with Checkpointer(self.top) as checkpointer:
            for words, wrong in (("no number", {"metrics": {"loss": "low"}}), ("is a module, not a dict", {"model": {}}),
                                 ("StatefulDataLoader", {"loader": torch.utils.data.DataLoader([1])}), ("no tensor in what", {"epoch": 3})):
                with self.assertRaises(ArgumentError) as told:
                    checkpointer.save(1, **{"model": Net(), **wrong} if words != "no tensor in what" else wrong)
                self.assertIn(words.replace("no number", "not a number"), str(told.exception))
            for step in (-1, 1.0, "1"):
                with self.assertRaises(ArgumentError):
                    checkpointer.save(step, model=Net())
            self.assertEqual(checkpointer.checkpoints(), [])
        for wrong in ({"on_signal": ("SIGKILL",)}, {"on_signal": "NOSUCH"}, {"staging_bytes": -1}, {"keep_last": 0}, {"keep_best": -1}):
            with self.assertRaises(ArgumentError):
                Checkpointer(self.top, **wrong)
        Checkpointer(self.top, on_signal="SIGUSR2").close()

    def test_kinds_are_compared(self):
        """What is not a place for what was saved is a difference, ahead of any change."""
        net, generator = Net(), torch.Generator()
        with Checkpointer(self.top) as checkpointer:
            checkpointer.save(1, model=net, optimizer=torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), ema=copy.deepcopy(net),
                              data=generator).result()
            other = Net()
            before = copy.deepcopy(other.state_dict())
            with self.assertRaises(FormatError) as told:
                checkpointer.load(model=other, ema=3, data=random.Random())
            self.assertIn("'ema' has a state_dict() in the checkpoint, here it is builtins.int", str(told.exception))
            self.assertIn("'data' is a generator of another kind", str(told.exception))
            self.assertTrue(all(torch.equal(before[key], value) for key, value in other.state_dict().items()))
            with self.assertRaisesRegex(FormatError, "give model="):
                checkpointer.load(optimizer=torch.optim.SGD(other.parameters(), 0.1))

    def test_names_of_checkpoints(self):
        with Checkpointer(self.top) as checkpointer:
            checkpointer.save(3, model=Net()).result()
            for path in ("latest", 3, "step-00000003", os.path.join(self.top, "step-00000003")):
                self.assertEqual(checkpointer.load(path, model=Net()).step, 3)
                self.assertTrue(checkpointer.validate(path))
            for path in (4, "nope", os.path.join(self.top, "step-00000003", "model.safetensors")):
                self.assertFalse(checkpointer.validate(path))
                with self.assertRaisesRegex(NotFoundError, "there is no checkpoint"):
                    checkpointer.load(path, model=Net())

    def test_forked(self):
        checkpointer = Checkpointer(self.top)
        pid = os.fork()
        if not pid:
            try:
                checkpointer.save(1, model=nn.Linear(2, 2))
            except UnsupportedError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        checkpointer.close()


class Keeping(Folder):
    def test_best_last_every(self):
        net = nn.Linear(2, 2)
        with Checkpointer(self.top, keep_last=2, keep_every=100, monitor="accuracy", mode="max") as checkpointer:
            for step, accuracy in ((100, 0.1), (110, 0.9), (120, 0.3), (130, 0.5), (140, 0.4)):
                checkpointer.save(step, model=net, metrics={"accuracy": accuracy})
            checkpointer.wait()
            self.assertEqual([(one.step, one.best) for one in checkpointer.checkpoints()],
                             [(100, False), (110, True), (130, False), (140, False)])
            self.assertEqual(checkpointer.load("best", model=net).step, 110)

    def test_a_metric_that_is_no_number(self):
        """It is saved all the same, and never the best."""
        with Checkpointer(self.top, monitor="loss", mode="max") as checkpointer:
            for step, loss in enumerate((0.5, float("nan"), float("inf"), torch.tensor(0.25, requires_grad=True)), 1):
                checkpointer.save(step, model=Net(), metrics={"loss": loss}).result()
            with self.assertLogs("plimsoll", "WARNING") as said:
                checkpointer.save(5, model=Net(), metrics={"los": 9}).result()
            self.assertIn("have no 'loss'", said.output[0])
            self.assertEqual(checkpointer.load("best", model=Net()).step, 1)
            self.assertEqual(checkpointer.load(3, model=Net()).metrics, {"loss": float("inf")})
            self.assertEqual(checkpointer.load(4, model=Net()).metrics, {"loss": 0.25})

    def test_a_full_disk_is_told(self):
        net = nn.Linear(200, 200)
        program = textwrap.dedent("""
            import resource, signal, sys, torch
            from torch import nn
            from plimsoll.checkpoint import Checkpointer
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            checkpointer = Checkpointer(sys.argv[1])
            net = nn.Linear(200, 200)
            checkpointer.save(1, model=net).result()
            resource.setrlimit(resource.RLIMIT_FSIZE, (50000, resource.RLIM_INFINITY))
            saving = checkpointer.save(2, model=net)
            try:
                saving.result()
            except OSError as why:
                print(why.errno, [one.step for one in checkpointer.checkpoints()])
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            checkpointer.save(3, model=net).result()
        """)
        out = subprocess.run([sys.executable, "-c", program, self.top], check=True, capture_output=True, text=True)
        self.assertEqual(out.stdout.split(None, 1)[1].strip(), "[1]")
        with Checkpointer(self.top) as checkpointer:
            self.assertEqual(checkpointer.load(model=net).step, 3)
        self.assertFalse([name for name in os.listdir(self.top) if name.endswith(".plimsoll")])


    def test_waiting_for_staging_memory_is_told(self):
        """A state larger than staging memory goes through in rounds."""
        from plimsoll.checkpoint import _checkpointer

        model = nn.Linear(3000, 3000)
        limit, _checkpointer.TOLD_WAIT_S = _checkpointer.TOLD_WAIT_S, 0.0
        try:
            with self.assertLogs("plimsoll", "WARNING") as said, Checkpointer(self.top, staging_bytes=1) as checkpointer:
                saving = checkpointer.save(1, model=model)
                self.assertGreaterEqual(saving.blocked_s, saving.waited_s)
                saving.result(240)
        finally:
            _checkpointer.TOLD_WAIT_S = limit
        self.assertIn("for staging memory", said.output[0])


class Preemption(Folder):
    def test_saves_and_leaves(self):
        program = textwrap.dedent("""
            import os, signal, sys, torch
            from torch import nn
            from plimsoll.checkpoint import Checkpointer
            net = nn.Linear(4, 4)
            with Checkpointer(sys.argv[1], on_signal=("SIGTERM",), grace_s=60) as checkpointer:
                for step in range(1, 1000):
                    if step == 7:
                        os.kill(os.getpid(), signal.SIGTERM)
                    if checkpointer.preempted():
                        checkpointer.save_and_exit(step, model=net)
        """)
        done = subprocess.run([sys.executable, "-c", program, self.top], check=False)
        self.assertEqual(done.returncode, 75)
        with Checkpointer(self.top) as checkpointer:
            self.assertEqual(checkpointer.load(model=nn.Linear(4, 4)).step, 7)


RANKS = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
from plimsoll.checkpoint import _checkpointer
from plimsoll.checkpoint import Checkpointer
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(rank)
net = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
optimizer = torch.optim.AdamW(net.parameters())
class Position:
    def __init__(self): self.at = 0
    def state_dict(self): return {"at": self.at}
    def load_state_dict(self, state): self.at = state["at"]
loader = Position()
with Checkpointer(sys.argv[1], on_signal=("SIGUSR2",)) as checkpointer:
    def step():
        optimizer.zero_grad(); net(torch.randn(4, 8)).square().mean().backward(); optimizer.step(); loader.at += 1 + rank
    step()
    checkpointer.save(1, model=net, optimizer=optimizer, loader=loader)
    step()
    want, draw, at = [p.clone() for p in net.parameters()], torch.rand(3), loader.at
    checkpointer.load(model=net, optimizer=optimizer, loader=loader)
    assert loader.at == 1 + rank
    step()
    assert all(torch.equal(a, b) for a, b in zip(want, net.parameters())) and torch.equal(draw, torch.rand(3)) and loader.at == at
    assert checkpointer.host_ranks == 2  # who shares the staging memory of this machine
    if rank == 1:
        os.kill(os.getpid(), 12)
    assert checkpointer.preempted()
_checkpointer._machine = lambda: f"machine {rank}"
with Checkpointer(sys.argv[1]) as checkpointer:
    assert checkpointer.host_ranks == 1
""" + LEAVE


SHARDED = """
import os, sys, torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard
from plimsoll.checkpoint import _checkpointer
from plimsoll.checkpoint import Checkpointer
from plimsoll.errors import ArgumentError, FormatError
folder, meet, rank = sys.argv[1], sys.argv[2], int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=2)
def make(seed, width=17):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(9, width), nn.BatchNorm1d(width), nn.Linear(width, 5))
    for one in (net[0], net[2], net):
        fully_shard(one)
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)
def step(net, optimizer):
    optimizer.zero_grad(); net(torch.randn(8, 9)).square().mean().backward(); optimizer.step()
def whole(net):
    return {name: (t.full_tensor() if hasattr(t, "full_tensor") else t).clone() for name, t in net.state_dict().items()}
def same(a, b):
    return sorted(a) == sorted(b) and all(torch.equal(a[name], b[name]) for name in a)
with Checkpointer(folder) as checkpointer:
    net, optimizer = make(0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    for _ in range(2):
        step(net, optimizer); scheduler.step()
    saved = whole(net)
    saving = checkpointer.save(2, model=net, optimizer=optimizer, scheduler=scheduler, ema=net)
    step(net, optimizer)  # while it is written
    path, want = saving.result(), whole(net)
    # as it was, bit for bit
    other, others = make(5)
    ema, _ = make(6)
    again = torch.optim.lr_scheduler.CosineAnnealingLR(others, 30)
    assert checkpointer.load(model=other, optimizer=others, scheduler=again, ema=ema).step == 2
    assert same(whole(other), saved) and same(whole(ema), saved) and again.last_epoch == 2
    step(other, others)
    assert same(whole(other), want)
    # torch reads it without this package
    plain, _ = make(7)
    state = {"model": get_model_state_dict(plain)}
    dcp.load(state, checkpoint_id=path)
    assert same(whole(plain), saved)
    # renamed, partial, all differences before anything is changed
    inner, inners = make(8)
    outer = nn.ModuleDict({"inner": inner})
    checkpointer.load(model=outer, rename={"": "inner."}, rng=False)
    assert same(whole(inner), saved)
    wide, wides = make(9, 18)
    before = whole(wide)
    try:
        checkpointer.load(model=wide, optimizer=wides)
        raise SystemExit("it fits")
    except FormatError as why:
        told = str(why)
    assert told.count("[18, 9]") == 3 and "'1.running_mean'" in told and "optimizer.state.2.weight.exp_avg" in told, told
    assert same(whole(wide), before)
    checkpointer.load(model=wide, partial=["0.*", "1.*", "2.weight"], rng=False)
    assert torch.equal(whole(wide)["2.bias"], saved["2.bias"]) and torch.equal(whole(wide)["0.weight"], before["0.weight"])
    # a rank that cannot hand its part over: all learn it, and nothing is there
    def refuse(*_):
        raise ArgumentError("no room for it")
    for what in ("_rows", "_own"):
        kept = getattr(_checkpointer._Collected, what)
        if rank:
            setattr(_checkpointer._Collected, what, refuse)
        try:
            checkpointer.save(3, model=net, optimizer=optimizer).result()
            raise SystemExit("it was saved")
        except ArgumentError as why:
            assert "no room for it" in str(why), why
        setattr(_checkpointer._Collected, what, kept)
    assert [one.step for one in checkpointer.checkpoints()] == [2]
if rank == 0:
    torch.save(saved, folder + ".saved")
""" + LEAVE


MANY = """
import os, signal, sys, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from plimsoll.checkpoint import _sharded
from plimsoll.checkpoint import Checkpointer
from plimsoll.errors import UnsupportedError
folder, meet, rank, world = sys.argv[1], sys.argv[2], int(os.environ["RANK"]), int(sys.argv[3])
dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world)
def make(kind, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 6))
    mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("first", "second"))
    if kind == "both":  # tensor parallelism within FSDP
        parallelize_module(net, mesh["second"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net, mesh=mesh["first"] if kind == "both" else mesh if kind == "copies" else None)
    return net, torch.optim.AdamW(net.parameters(), lr=0.01)
def whole(net, optimizer):
    parts = dict(net.named_parameters())
    for name, one in list(parts.items()):
        parts.update({f"{name}/{key}": optimizer.state[one][key] for key in ("exp_avg", "exp_avg_sq")})
    return {name: one.detach().full_tensor() for name, one in parts.items()}
def step(net, optimizer):
    optimizer.zero_grad(); net(torch.ones(8, 9)).square().mean().backward(); optimizer.step()
for kind in ("plain", "copies", "both"):
    with Checkpointer(os.path.join(folder, kind), rank_wait_s=1500) as checkpointer:
        net, optimizer = make(kind, 0 if world == 4 else 5)
        if world == 4:
            step(net, optimizer); step(net, optimizer)
            checkpointer.save(2, model=net, optimizer=optimizer).result()
            saved = whole(net, optimizer)
            if rank == 0:
                torch.save(saved, os.path.join(folder, kind + ".pt"))
        else:
            assert checkpointer.load(model=net, optimizer=optimizer).step == 2
            want, found = torch.load(os.path.join(folder, kind + ".pt")), whole(net, optimizer)
            assert sorted(want) == sorted(found) and all(torch.equal(want[name], found[name]) for name in want), kind
            step(net, optimizer)
if world == 2:  # of the old kind no rank can be sure that it can load it
    with Checkpointer(os.path.join(folder, "old")) as checkpointer:
        try:
            checkpointer.save(1, model=FullyShardedDataParallel(nn.Linear(9, 3), device_id=torch.device("cpu")))
            raise SystemExit("it was saved")
        except UnsupportedError as why:
            assert "device_mesh" in why.remedy and not checkpointer.checkpoints(), why
if world == 4:  # one dies while it hands its part over: the others are told, and nothing is there
    checkpointer, put = Checkpointer(os.path.join(folder, "plain")), _sharded._Writer.write_data
    net, optimizer = make("plain", 0)
    step(net, optimizer)
    if rank == 3:
        _sharded._Writer.write_data = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    try:
        checkpointer.save(3, model=net, optimizer=optimizer)
        raise SystemExit("it was saved")
    except Exception as why:
        print(rank, type(why).__name__, str(why)[:100], file=sys.stderr)
    assert [one.step for one in checkpointer.checkpoints()] == [2]
    os._exit(0)  # nobody can be waited for any more
""" + LEAVE


class Ranks(Folder):
    def test_other_numbers(self):
        """FSDP, with copies, with tensor parallelism: four ranks save, two load; and one of four is killed while it saves."""
        for world, want in ((4, [0, 0, 0, -9]), (2, [0, 0])):
            run = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", MANY, self.top, os.path.join(self.top, f"meet{world}"), str(world)],
                                    env=dict(os.environ, RANK=str(rank), LOCAL_WORLD_SIZE=str(world), OMP_NUM_THREADS="1"),
                                    stderr=subprocess.PIPE, text=True) for rank in range(world)]
            said = [one.communicate(timeout=END_S)[1] for one in run]
            self.assertEqual([one.returncode for one in run], want, said)
        self.assertEqual(sorted(os.listdir(os.path.join(self.top, "plain"))), ["latest", "step-00000002"])

    def test_sharded(self):
        """FSDP2 on two ranks; then one process, without any, reads what they saved."""
        ckpts = os.path.join(self.top, "ckpts")
        run = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", SHARDED, ckpts, os.path.join(self.top, "meet")],
                                env=dict(os.environ, RANK=str(rank), LOCAL_WORLD_SIZE="2")) for rank in range(2)]
        self.assertEqual([one.wait(END_S) for one in run], [0, 0])
        self.assertEqual(sorted(os.listdir(os.path.join(ckpts, "latest"))),
                         [".metadata", "__0_0.distcp", "__1_0.distcp", "plimsoll.manifest.json", "rank-00000.json", "rank-00001.json",
                          "state.json"])
        saved = torch.load(ckpts + ".saved", weights_only=True)
        net = nn.Sequential(nn.Linear(9, 17), nn.BatchNorm1d(17), nn.Linear(17, 5))
        optimizer = torch.optim.AdamW(net.parameters())
        with Checkpointer(ckpts) as checkpointer:
            self.assertTrue(checkpointer.validate(os.path.join(ckpts, "latest")))
            loaded = checkpointer.load(model=net, optimizer=optimizer)
            self.assertIn("2 ranks saved, 1 load", loaded.notes[0])
            for name, tensor in net.state_dict().items():
                self.assertTrue(torch.equal(tensor, saved[name]), name)
            self.assertEqual(optimizer.state[net[0].weight]["step"], 2)
            metadata = os.path.join(ckpts, "evil")
            os.rename(os.path.join(ckpts, "step-00000002"), metadata)
            with open(os.path.join(metadata, ".metadata"), "wb") as f:
                f.write(b"cos\nsystem\n(S'touch " + self.top.encode() + b"/ran'\ntR.")
            with self.assertRaises((FormatError, NotFoundError)):
                checkpointer.load(metadata, model=net)
            from plimsoll.checkpoint._sharded import Shards

            with self.assertRaises(FormatError):  # nor where its sums were made to match
                Shards(metadata, lambda name: name, ())
            self.assertFalse(os.path.exists(os.path.join(self.top, "ran")))

    def test_two(self):
        run = [subprocess.Popen([sys.executable, "-c", RANKS, os.path.join(self.top, "ckpts"), os.path.join(self.top, "meet")],
                                env={key: value for key, value in os.environ.items() if key != "LOCAL_WORLD_SIZE"} | {"RANK": str(rank)}) for rank in range(2)]
        self.assertEqual([one.wait(END_S) for one in run], [0, 0])
        found = os.listdir(os.path.join(self.top, "ckpts", "latest"))
        self.assertEqual(sorted(found), ["model.safetensors", "optimizer.safetensors", "plimsoll.manifest.json", "rank-00000.json",
                                         "rank-00001.json", "state.json"])


if __name__ == "__main__":
    unittest.main()
