"""plimsoll.weights without PyTorch's tensors: what a file holds, the C loader and cache as Python calls them, and a fake driver."""
import ctypes
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake"))
import torch  # noqa: E402  the fake one

from plimsoll import _abi, _loader, _size, _torch  # noqa: E402
from plimsoll.weights import _weight_cache  # noqa: E402
from plimsoll._loader import HOST, Loader, Memory, Opened  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, LimitError, NotFoundError  # noqa: E402
from plimsoll.weights import WeightCache  # noqa: E402

DATA = os.path.join(os.environ["PLIMSOLL_SOURCE"], "tests/data/checkpoints")
STREAM = 3


def value(name, n):
    return bytes((len(name) + i * 7 + (i >> 8)) & 255 for i in range(n))


def make(path, **sizes):
    """A safetensors file of bytes."""
    header, at = {}, 0
    for name, n in sizes.items():
        header[name] = {"dtype": "U8", "shape": [n], "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(value(name, n) for name, n in sizes.items()))


class Folder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)

    def path(self, name):
        return os.path.join(self.holder.name, name)


class Files(Folder):
    def test_rows(self):
        with Opened(os.path.join(DATA, "views.pt")) as opened:
            rows = {row.name: row for row in opened.rows}
            self.assertEqual(sorted(row.number for row in opened.rows), list(range(len(rows))))
        self.assertTrue(any(row.strides is not None for row in rows.values()))  # a transposed one
        for row in rows.values():
            self.assertTrue(row.strides is None or len(row.strides) == len(row.shape))
        with self.assertRaisesRegex(FormatError, "system"):
            Opened(os.path.join(DATA, "evil_reduce.pt"))
        with self.assertRaises(NotFoundError):
            Opened(self.path("none"))

    def test_layouts(self):
        for shape, strides, dense, row_major in (((2, 3), (3, 1), True, True), ((2, 3), (1, 2), True, False), ((2, 3), (6, 1), False, False),
                                                 ((), (), True, True), ((1, 5), (9, 1), True, True), ((5, 4), (1, 0), False, False)):
            self.assertEqual((_loader._is_dense(shape, strides), _loader._is_row_major(shape, strides)), (dense, row_major), (shape, strides))

    def read(self, device):
        make(self.path("a"), x=300000, y=10, z=0)
        loader = Loader(device, threads=2, ring_bytes=1 << 16)
        with Opened(self.path("a")) as opened:
            rooms = [ctypes.create_string_buffer(max(row.bytes, 1)) for row in opened.rows]
            loader.load(opened, [(row.number, ctypes.addressof(room)) for row, room in zip(opened.rows, rooms)])
            return loader, [(row, room) for row, room in zip(opened.rows, rooms)]

    def test_to_host(self):
        for row, room in self.read(HOST)[1]:
            self.assertEqual(room.raw[:row.bytes], value(row.name, row.bytes))

    @unittest.skipUnless("PLIMSOLL_CUDA_LIBRARY" in os.environ, "PLIMSOLL_CUDA_LIBRARY names no fake driver")
    def test_to_a_gpu(self):
        driver = ctypes.CDLL(os.environ["PLIMSOLL_CUDA_LIBRARY"])
        driver.fake_complete.argtypes = [ctypes.c_void_p]
        with mock.patch.object(torch.cuda, "current_stream", lambda *_: types.SimpleNamespace(cuda_stream=STREAM), create=True):
            loader, read = self.read(0)
            driver.fake_complete(STREAM)
            for row, room in read:
                self.assertEqual(room.raw[:row.bytes], value(row.name, row.bytes))
            memory, to = Memory(loader, 100), ctypes.create_string_buffer(100)
            ctypes.memset(memory.address, 5, 100)
            ticket = loader.copy([(ctypes.addressof(to), memory.address, 100)])
            self.assertFalse(loader.is_over(ticket))
            loader.wait(ticket)
            self.assertTrue(loader.is_over(ticket))
            self.assertEqual(to.raw, b"\5" * 100)


class Cache(Folder):
    def cache(self, **options):
        with mock.patch.object(_weight_cache, "device_number", lambda _: HOST):
            cache = WeightCache(device="cpu", **options)
        self.addCleanup(cache.close)
        return cache

    def bytes_of(self, lease):
        return {name: ctypes.string_at(lease.addresses[name], row.bytes) for name, row in lease.rows.items()}

    def test_names(self):
        make(self.path("a"), **{"model.x": 5, "model.lora_A": 7, "other": 9})
        cache = self.cache(budget=1 << 20)
        cache.register("all", self.path("a"))
        cache.register("x", self.path("a"), prefix="model.", include=["x"])
        cache.register("new", self.path("a"), include=["model.*"], rename={"model.": "net."})
        for name, names in (("all", ["model.lora_A", "model.x", "other"]), ("x", ["x"]), ("new", ["net.lora_A", "net.x"])):
            lease = cache.take(name)
            self.assertEqual(sorted(lease.rows), names)
            with Opened(self.path("a")) as opened:
                self.assertEqual(sorted(cache.registered(name).rows_of(opened)), names)
            lease.release()
        lease = cache.take("x")
        self.assertEqual(self.bytes_of(lease), {"x": value("model.x", 5)})
        with self.assertRaisesRegex(ArgumentError, "in use"):
            cache.register("x", self.path("a"))
        lease.release()
        lease.release()  # once more does nothing
        cache.register("x", self.path("a"), include=["other"])
        lease = cache.take("x")
        self.assertEqual(self.bytes_of(lease), {"other": value("other", 9)})
        lease.release()
        with self.assertRaisesRegex(ArgumentError, "these are: all, new, x"):
            cache.take("none")

    def test_budget(self):
        cache = self.cache(budget=1024)
        for name in "abc":
            make(self.path(name), **{name: 500})
            cache.register(name, self.path(name))
        a, b = cache.take("a"), cache.take("b")
        with self.assertRaises(LimitError):
            cache.take("c")
        a.release()
        c = cache.take("c")
        self.assertEqual((self.bytes_of(b)["b"], self.bytes_of(c)["c"]), (value("b", 500), value("c", 500)))
        told = cache.stats().host
        self.assertEqual((told.evictions, told.checkpoints, told.leased, told.bytes, told.max_bytes), (1, 2, 2, 1024, 1024))
        b.release()
        c.release()

    def test_closed(self):
        cache = self.cache(budget=1024)
        make(self.path("a"), a=1)
        cache.register("a", self.path("a"))
        lease = cache.take("a")
        with self.assertRaisesRegex(ArgumentError, "1 of the cache's"):
            cache.close()
        lease.release()
        cache.close()
        cache.close()
        with self.assertRaisesRegex(ArgumentError, "closed"):
            cache.stats()

    def test_percent(self):
        options = _abi.plim_weights_options
        self.assertEqual(_size.bytes_or_percent("10%", "budget"), (0, 10))
        self.assertEqual(_size.bytes_or_percent(5, "budget"), (5, 0))
        self.assertIn("percent", [name for name, _ in options._fields_])
        self.cache(budget="1%")

    def test_after_a_fork(self):
        cache = self.cache(budget=1024)
        with mock.patch.object(_torch, "forks", _torch.forks + 1), self.assertRaisesRegex(Exception, "forked"):
            cache.stats()


if __name__ == "__main__":
    unittest.main()
