"""Weights with a real PyTorch on the CPU: files as their own loaders read them; one model that is bitwise each of its checkpoints."""
import ctypes
import importlib.util
import os
import pickle
import random
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from plimsoll.weights import _swapper, _weight_cache  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, LimitError, NotFoundError, UnsupportedError  # noqa: E402
from plimsoll.weights import WeightCache, WeightSwapper, load_file  # noqa: E402


def same(a, b):
    """Bit for bit, NaNs too."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


class Folder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)

    def path(self, name):
        return os.path.join(self.holder.name, name)


DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "float8_e4m3fn", "float8_e5m2"]


class LoadFile(Folder):
    def expect(self, state, path):
        found = load_file(path, device="cpu")
        self.assertEqual(sorted(found), sorted(state))
        for name, tensor in state.items():
            self.assertTrue(same(found[name], tensor), name)
        return found

    def test_dtypes_and_sizes(self):
        state = {}
        for name in DTYPES:
            if hasattr(torch, name):
                raw = torch.randint(0, 2 if name == "bool" else 256, (3, 40), dtype=torch.uint8)
                state[name] = raw.view(getattr(torch, name)) if name != "bool" else raw.bool()
        state["scalar"] = torch.tensor(3.5)
        state["empty"] = torch.empty(0, 7)
        state["large"] = torch.randn(3, 1 << 20)
        torch.save(state, self.path("a.pt"))
        self.expect(state, self.path("a.pt"))
        torch.save(state, self.path("old.pt"), _use_new_zipfile_serialization=False)
        self.expect(state, self.path("old.pt"))
        if importlib.util.find_spec("safetensors") is not None:
            from safetensors.torch import save_file

            known = {name: tensor for name, tensor in state.items() if name != "complex64"}
            save_file(known, self.path("a.safetensors"))
            self.expect(known, self.path("a.safetensors"))

    def test_layouts(self):
        whole = torch.randn(64, 3, 5, 5)
        tied = torch.randn(9, 9)
        state = {"turned": torch.randn(7, 9).t(), "last": whole.to(memory_format=torch.channels_last), "part": whole[3:9, :, 1:, ::2],
                 "wide": torch.randn(5, 1).expand(5, 4), "tied": tied, "again": tied, "nested": nn.Parameter(torch.randn(3))}
        torch.save(state, self.path("a.pt"))
        found = self.expect(state, self.path("a.pt"))
        self.assertEqual(found["turned"].stride(), state["turned"].stride())
        self.assertEqual(found["last"].stride(), state["last"].stride())
        self.assertEqual(found["tied"].data_ptr(), found["again"].data_ptr())

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu_it_says_so(self):
        # "AssertionError: Torch not compiled with CUDA enabled"
        path = self.path("there.pt")
        torch.save({"a": torch.ones(3)}, path)
        for call in (lambda: load_file(path), lambda: WeightCache(device="cuda:1"), lambda: load_file(path, "cuda:0")):
            with self.assertRaisesRegex(UnsupportedError, "is not there: PyTorch sees no GPU"):
                call()

    def test_what_is_not_loaded(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + hurt,)

        hurt = self.path("hurt")
        torch.save({"w": torch.ones(2), "x": Evil()}, self.path("evil.pt"))
        with self.assertRaisesRegex(FormatError, "system"):
            load_file(self.path("evil.pt"), device="cpu")
        self.assertFalse(os.path.exists(hurt))
        with self.assertRaises(NotFoundError):
            load_file(self.path("none.pt"), device="cpu")
        torch.save({"w": torch.randn(100000)}, self.path("a.pt"))
        with open(self.path("a.pt"), "r+b") as f:
            f.truncate(200000)
        with self.assertRaises(FormatError):
            load_file(self.path("a.pt"), device="cpu")
        with open(self.path("a.pkl"), "wb") as f:
            pickle.dump([1], f)
        with self.assertRaises(FormatError):
            load_file(self.path("text"), device="cpu") if self.write("text") else None

    def write(self, name):
        with open(self.path(name), "w") as f:
            f.write("no checkpoint")
        return True

    def test_a_flipped_bit(self):
        torch.save({"w": torch.zeros(1 << 20), "v": torch.zeros(10)}, self.path("a.pt"))
        with open(self.path("a.pt"), "r+b") as f:
            f.seek(2 << 20)
            f.write(b"\1")
        with self.assertRaisesRegex(FormatError, "damaged"):
            load_file(self.path("a.pt"), device="cpu")


# ---- models ----


class Net(nn.Module):
    """Tied weights, BatchNorm, a parametrized layer, a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.norm = nn.BatchNorm1d(32)
        self.mid = nn.utils.parametrizations.weight_norm(nn.Linear(32, 32))
        self.out = nn.Linear(32, 50, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, x):
        return self.out(self.mid(self.norm(self.embed(x).mean(1))))


class Adapted(nn.Module):
    """As PEFT puts an adapter around a layer."""

    def __init__(self, base, adapter="default"):
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({adapter: nn.Linear(32, 4, bias=False)})
        self.lora_B = nn.ModuleDict({adapter: nn.Linear(4, 32, bias=False)})
        self.adapter, self.merged = adapter, False

    def forward(self, x):
        return self.base_layer(x) + self.lora_B[self.adapter](self.lora_A[self.adapter](x))


def made(kind, seed):
    torch.manual_seed(seed)
    net = Net().train()
    if kind == "lora":
        net.mid = Adapted(nn.Linear(32, 32))
    for _ in range(3):
        net(torch.randint(0, 50, (8, 4)))  # its running statistics
    return net.eval()


X = torch.arange(32).reshape(8, 4)


class Swaps(Folder):
    def cache(self, kind="plain", names="abc", **options):
        cache = WeightCache(**{"budget": 1 << 24, "device": "cpu", **options})
        self.addCleanup(cache.close)
        for name in names:
            torch.save(made(kind, ord(name)).state_dict(), self.path(name))
            cache.register(name, self.path(name))
        return cache

    def expect(self, swapper, name, kind="plain"):
        fresh = made(kind, ord(name))
        with swapper.use(name) as model, torch.no_grad():
            self.assertTrue(same(model(X), fresh(X)), name)
        for key, tensor in fresh.state_dict().items():
            self.assertTrue(same(swapper.model.state_dict()[key], tensor), (name, key))

    def test_bitwise_a_fresh_model(self):
        for limit in (1 << 24, 60000, 100):  # all are held; two are; none is: read straight into the model
            with self.subTest(limit):
                model = made("plain", 1)
                own = model(X)
                addresses = [p.data_ptr() for p in model.parameters()]
                cache = self.cache(budget=limit)
                with WeightSwapper(model, cache) as swapper:
                    for name in "abacbbca":
                        self.expect(swapper, name)
                        self.assertEqual(swapper.current, name)
                    swapper.restore()
                    self.assertTrue(same(model(X), own))
                self.assertEqual([p.data_ptr() for p in model.parameters()], addresses)
                self.assertEqual(cache.stats().host.leased, 0)

    def test_compiled(self):
        model = made("plain", 1)
        compiled = torch.compile(model, backend="aot_eager")
        swapper = WeightSwapper(compiled, self.cache())
        for name in "abca":
            with swapper.use(name) as running, torch.no_grad():
                self.assertTrue(same(running(X), torch.compile(made("plain", ord(name)), backend="aot_eager")(X)))
        part = made("plain", 1)
        part.out = torch.compile(part.out, backend="aot_eager")  # its names have _orig_mod. within
        with WeightSwapper(part, swapper.cache).use("b") as running, torch.no_grad():
            self.assertTrue(same(running(X), made("plain", ord("b"))(X)))

    def test_freezing_is_refused(self):
        cache = self.cache()
        for frozen in (torch.compile(made("plain", 1), options={"freezing": True}), made("plain", 1)):
            if not hasattr(frozen, "_orig_mod"):
                frozen.mid.compile(options={"freezing": True})
            with self.assertRaisesRegex(UnsupportedError, "freezing"):
                WeightSwapper(frozen, cache)

    def test_adapters_move_alone(self):
        model = made("lora", 1)
        cache = WeightCache(budget=1 << 20, device="cpu")
        adapters = {}
        for name in "ab":
            torch.manual_seed(ord(name))
            adapters[name] = {"base.mid.lora_A.weight": torch.randn(4, 32), "base.mid.lora_B.weight": torch.randn(32, 4)}
            torch.save(adapters[name], self.path(name))
            cache.register(name, self.path(name), prefix="base.")
        with torch.no_grad(), WeightSwapper(model, cache) as swapper:
            own = model(X)
            for name in "abab":
                told = swapper.load(name)
                self.assertEqual(told.tensors, 2)
                self.assertLess(told.bytes, 2000)  # two matrices of 512 bytes, and BatchNorm's buffers
                fresh = made("lora", 1)
                fresh.mid.lora_A["default"].weight.copy_(adapters[name]["base.mid.lora_A.weight"])
                fresh.mid.lora_B["default"].weight.copy_(adapters[name]["base.mid.lora_B.weight"])
                self.assertTrue(same(model(X), fresh(X)))
            swapper.restore()
            self.assertTrue(same(model(X), own))
        model.mid.merged = True
        with self.assertRaisesRegex(UnsupportedError, "merged"):
            WeightSwapper(model, cache)

    def test_changed_without_a_trace(self):
        """As the replay of a captured training step does it: the parameter's version says nothing."""
        model = made("plain", 1)
        swapper = WeightSwapper(model, self.cache(names="a"))
        swapper.load("a")
        model.mid.weight.grad = torch.zeros_like(model.mid.weight)
        version = model.mid.weight._version
        model.mid.weight.data.add_(1)
        self.assertEqual(model.mid.weight._version, version)
        swapper.load("a")
        self.expect(swapper, "a")

    def test_nothing_bleeds(self):
        model = made("plain", 1)
        cache = self.cache(names="a")
        torch.save({"mid.bias": torch.ones(32)}, self.path("part"))
        cache.register("part", self.path("part"))
        swapper = WeightSwapper(model, cache)
        own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with swapper.use("a"):
            model.train()(X)  # changes running statistics
            with torch.no_grad():
                model.mid.bias.add_(1)
            model.eval()
        self.expect(swapper, "a")
        told = swapper.load("part")
        self.assertGreater(told.base_tensors, 3)
        for name, tensor in model.state_dict().items():
            self.assertTrue(same(tensor, torch.ones(32) if name == "mid.bias" else own[name]), name)
        swapper.restore()
        for name, tensor in model.state_dict().items():
            self.assertTrue(same(tensor, own[name]), name)
        with torch.no_grad():
            model.mid.bias.fill_(7)  # the model's own weights now
        swapper.load("a")
        swapper.restore()
        self.assertTrue(same(model.mid.bias, torch.full((32,), 7.0)))

    def test_any_sequence(self):
        """Parts of a model in any order, changed meanwhile, with room for all, some or none: each tensor is what it must be."""
        for seed, limit in enumerate((1 << 20, 3000, 1, 3000)):
            rng = random.Random(seed)
            model = nn.Module()
            for i in range(6):
                setattr(model, f"p{i}", nn.Parameter(torch.randn(rng.choice([1, 30, 200]))))
            model.register_buffer("b", torch.zeros(5))
            cache = WeightCache(budget=limit, device="cpu")
            own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            files = {}
            for k in range(5):
                files[str(k)] = {name: torch.randn_like(own[name]) for name in rng.sample(sorted(own), rng.randint(1, 7))}
                torch.save(files[str(k)], self.path(f"{seed}.{k}"))
                cache.register(str(k), self.path(f"{seed}.{k}"))
            swapper = WeightSwapper(model, cache)
            for _ in range(120):
                name = rng.choice([*files, None])
                swapper.restore() if name is None else swapper.load(name)
                self.settle()
                for one, tensor in model.state_dict().items():
                    self.assertTrue(same(tensor, files.get(name, {}).get(one, own[one])), (seed, name, one))
                if rng.random() < 0.5:
                    touched = rng.choice(sorted(own if name is None else {**files[name], "b": 0}))
                    with torch.no_grad():
                        model.state_dict()[touched].add_(1)
                    if name is None:
                        own[touched] = model.state_dict()[touched].clone()
            swapper.close()

    def settle(self):
        """All copies are over."""

    def test_a_graph_of_other_weights_is_refused(self):
        model = made("plain", 1)
        swapper = WeightSwapper(model, self.cache())
        with swapper.use("a"):
            loss = model(X).sum()
        swapper.load("b")
        if hasattr(torch.autograd.graph, "increment_version"):
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_differences_are_told_at_once(self):
        model = made("plain", 1)
        cache = self.cache(names="a")
        state = made("plain", 2).state_dict()
        state["mid.bias"] = torch.zeros(31)
        state["norm.weight"] = state["norm.weight"].half()
        state["other"] = torch.zeros(1)
        del state["norm.bias"]
        torch.save(state, self.path("odd"))
        torch.save({"module." + name: tensor for name, tensor in made("plain", 3).state_dict().items()}, self.path("ddp"))
        cache.register("odd", self.path("odd"))
        cache.register("ddp", self.path("ddp"))
        before = model(X)
        with self.assertRaises(FormatError) as caught:
            WeightSwapper(model, cache, missing="error").load("odd")
        for said in ("'mid.bias' is float32 [32] in the model, float32 [31]", "'norm.weight' is float32 [32] in the model, float16",
                     "'other' is only in the checkpoint", "'norm.bias' is only in the model"):
            self.assertIn(said, str(caught.exception))
        for options in ({}, {"unexpected": "ignore"}):
            with self.assertRaises(FormatError):
                WeightSwapper(model, cache, **options).load("ddp")
        self.assertTrue(same(model(X), before))
        cache.register("ddp", self.path("ddp"), prefix="module.")
        with WeightSwapper(model, cache, missing="error").use("ddp"):
            self.assertTrue(same(model(X), made("plain", 3)(X)))

    def test_cast(self):
        model = made("plain", 1).bfloat16()
        cache = self.cache()
        with self.assertRaises(FormatError):
            WeightSwapper(model, cache).load("a")
        for limit in (1 << 24, 100):
            swapper = WeightSwapper(model, self.cache(budget=limit), cast=True)
            for name in "ab":
                fresh = made("plain", 2).bfloat16()
                fresh.load_state_dict(made("plain", ord(name)).state_dict())
                with swapper.use(name):
                    self.assertTrue(same(model(X), fresh(X)))

    def test_channels_last(self):
        model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        other = nn.Conv2d(3, 8, 3)
        own = model.weight.detach().clone()
        torch.save(other.state_dict(), self.path("conv"))
        cache = WeightCache(budget=1 << 20, device="cpu")
        cache.register("conv", self.path("conv"))
        swapper = WeightSwapper(model, cache)
        with swapper.use("conv"):
            self.assertTrue(same(model.weight, other.weight))
            self.assertTrue(model.weight.is_contiguous(memory_format=torch.channels_last))
        swapper.restore()
        self.assertTrue(same(model.weight, own))

    def test_one_at_a_time(self):
        swapper = WeightSwapper(made("plain", 1), self.cache())
        with swapper.use("a"):
            with self.assertRaisesRegex(ArgumentError, "in use by this thread"):
                with swapper.use("b"):
                    pass
            with self.assertRaises(ArgumentError):
                swapper.restore()
        with self.assertRaises(ZeroDivisionError), swapper.use("b"):
            raise ZeroDivisionError
        self.expect(swapper, "a")
        with self.assertRaisesRegex(ArgumentError, "these are: a, b, c"):
            swapper.load("z")

    def test_threads(self):
        cache = self.cache(budget=60000)  # two of three
        swapper = WeightSwapper(made("plain", 1), cache)
        expected = {name: made("plain", ord(name))(X) for name in "abc"}
        wrong = []

        def work(first):
            for i in range(30):
                name = "abc"[(i * first + i // 3) % 3]
                with swapper.use(name) as model, torch.no_grad():
                    if not same(model(X), expected[name]):
                        wrong.append(name)

        threads = [threading.Thread(target=work, args=(i + 1,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_compare(self):
        model = made("plain", 1).train()
        cache = self.cache()
        swapper = WeightSwapper(model, cache)

        class Told:
            def __init__(self, y):
                self.y, self.all = y, [y, {"w": model.embed.weight}]

        found = swapper.compare(lambda m: Told(m(X)), "abc")
        for name in "abc":
            fresh = made("plain", ord(name))
            self.assertTrue(same(found[name].y, fresh(X)))
            self.assertTrue(same(found[name].all[1]["w"], fresh.embed.weight))
            self.assertFalse(found[name].y.requires_grad)
        self.assertTrue(model.training and model.norm.training)
        self.assertIsNone(swapper.current)
        self.assertTrue(same(model.embed.weight, made("plain", 1).embed.weight))
        with self.assertRaisesRegex(ArgumentError, "Net"):
            swapper.compare(lambda m: m, "a")
        self.assertIsNone(swapper.current)

    def test_refused(self):
        cache = self.cache()
        with torch.device("meta"):
            meta = Net()
        with self.assertRaisesRegex(UnsupportedError, "meta"):
            WeightSwapper(meta, cache)
        model = made("plain", 1)
        swapper = WeightSwapper(model, cache)
        with nn.utils.parametrize.cached(), self.assertRaisesRegex(UnsupportedError, "cached"):
            swapper.load("a")
        model.embed.weight.data = model.embed.weight.data.clone()
        with self.assertRaisesRegex(UnsupportedError, "moved"):
            swapper.load("a")

    def test_quantized_and_subclasses(self):
        class Odd(torch.Tensor):
            pass

        model = nn.Linear(2, 2)
        model.weight = nn.Parameter(torch.Tensor._make_subclass(Odd, torch.zeros(2, 2)))
        with self.assertRaisesRegex(UnsupportedError, "weight"):
            WeightSwapper(model, self.cache(names="a"))


class Caches(Folder):
    def test_leases_and_budget(self):
        cache = WeightCache(budget=3000, device="cpu")
        for i, name in enumerate("abc"):
            torch.save({"w": torch.full((300,), float(i))}, self.path(name))
            cache.register(name, self.path(name))
        with cache.lease("a") as a, cache.lease("b") as b:
            self.assertTrue(same(a["w"], torch.zeros(300)) and same(b["w"], torch.ones(300)))
            with self.assertRaises(LimitError), cache.lease("c"):
                pass
            with self.assertRaisesRegex(ArgumentError, "in use"):
                cache.register("a", self.path("b"))
        with cache.lease("c"):
            self.assertEqual(cache.stats().host.evictions, 1)
            self.assertEqual(cache.stats().host.leased, 1)
        self.assertEqual(cache.stats().host.leased, 0)
        self.assertLessEqual(cache.stats().host.bytes, 3000)

    def test_a_rewritten_file_is_not_served_stale(self):
        with WeightCache(budget=1 << 20, device="cpu") as cache:
            torch.save({"w": torch.zeros(3)}, self.path("a"))
            cache.register("a", self.path("a"))
            model = nn.Module()
            model.w = nn.Parameter(torch.full((3,), 5.0))
            swapper = WeightSwapper(model, cache)
            swapper.load("a")
            torch.save({"w": torch.ones(3), "more": torch.ones(30)}, self.path("new"))
            os.replace(self.path("new"), self.path("a"))
            swapper.unexpected = "ignore"
            told = swapper.load("a")
            self.assertEqual((told.tensors, told.unexpected), (1, ("more",)))
            self.assertTrue(same(model.w.detach(), torch.ones(3)))
            cache.register("a", self.path("a"), include=["more"])
            with cache.lease("a") as tensors:
                self.assertEqual(list(tensors), ["more"])
            swapper.close()

    def test_prefetch(self):
        with WeightCache(budget=1 << 20, device="cpu") as cache:
            torch.save({"w": torch.zeros(3)}, self.path("a"))
            cache.register("a", self.path("a"))
            cache.register("gone", self.path("gone"))
            cache.prefetch("gone", "a")
            cache._ahead.put(None)
            cache._thread.join()
            self.assertEqual((cache.stats().host.misses, cache.stats().host.failures, cache.stats().host.checkpoints), (2, 1, 1))
            with cache.lease("a"):
                self.assertEqual(cache.stats().host.hits, 1)
            with self.assertRaises(NotFoundError), cache.lease("gone"):
                pass

    def test_arguments(self):
        for size in ("ten", "0%", "101%", "x%", 0, -1):
            with self.assertRaises(ArgumentError):
                WeightCache(budget=size, device="cpu")
        with self.assertRaises(ArgumentError):
            WeightCache(gpu_bytes=1, device="cpu")
        with WeightCache(device="cpu") as cache, self.assertRaises(ArgumentError):
            cache.register("a", self.path("a"), include=["a|b"])

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_after_a_fork(self):
        cache = WeightCache(budget=1 << 20, device="cpu")
        pid = os.fork()
        if not pid:
            try:
                cache.stats()
            except UnsupportedError:
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)


FAKE = os.environ.get("PLIMSOLL_FAKE_CUDA", "")


@unittest.skipUnless(FAKE, "PLIMSOLL_FAKE_CUDA names no fake driver")
class OnAGpu(Swaps):
    """The same with a driver whose copies run only when their stream is waited for, and which ends the process when page-locked
    memory is changed or freed before: tensors of the host stand for those of the GPU.
    """

    STREAM = 3

    def setUp(self):
        super().setUp()
        self.driver = ctypes.CDLL(FAKE)
        self.driver.fake_complete.argtypes = [ctypes.c_void_p]
        self.driver.fake_pinned.restype = ctypes.c_uint64
        made_of = _swapper._targets

        def targets(model, device):
            found = made_of(model, -1)
            self.assertEqual(device, 0)
            return found

        for patched in (mock.patch.dict(os.environ, PLIMSOLL_CUDA_LIBRARY=FAKE), mock.patch.object(_weight_cache, "device_number", lambda _: 0),
                        mock.patch.object(_swapper, "_targets", targets),
                        mock.patch.object(torch.cuda, "current_stream", lambda _: types.SimpleNamespace(cuda_stream=self.STREAM)),
                        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: False),
                        mock.patch.object(WeightSwapper, "_swap", self.then_complete(WeightSwapper._swap)),
                        mock.patch.object(WeightSwapper, "_restore", self.then_complete(WeightSwapper._restore))):
            patched.start()
            self.addCleanup(patched.stop)

    def settle(self):
        self.driver.fake_complete(self.STREAM)

    def then_complete(self, method):
        """What the GPU does some time after the call."""
        def call(swapper, *arguments):
            try:
                return method(swapper, *arguments)
            finally:
                self.driver.fake_complete(self.STREAM)
        return call

    test_threads = test_cast = test_channels_last = None  # others would run these copies; torch itself copies there
    test_compiled = test_freezing_is_refused = test_quantized_and_subclasses = None  # nothing else there

    def test_leases_last_until_copies_are_over(self):
        cache = self.cache(budget=30000)  # one of three
        model = made("plain", 1)
        swapper = WeightSwapper(model, cache)
        with mock.patch.object(WeightSwapper, "_swap", WeightSwapper._swap.__closure__[0].cell_contents):
            for name in "abc":  # the copies of one go on when the next is asked for, which needs its memory
                swapper.load(name)
                self.assertEqual(cache.stats().host.leased, 1)
        self.driver.fake_complete(self.STREAM)
        self.assertTrue(same(model(X), made("plain", ord("c"))(X)))
        swapper.close()
        self.assertEqual(cache.stats().host.leased, 0)


if __name__ == "__main__":
    unittest.main()
