"""SampleCache and its batches with a real PyTorch: what is read is what the data set makes, once a sample, in the loops of trainers."""
import collections
import contextlib
import ctypes
import functools
import gc
import importlib.util
import io
import itertools
import json
import logging
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from unittest import mock

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

from plimsoll.data import _batches, _fingerprint, _sample_cache  # noqa: E402
from ranks import LEAVE  # noqa: E402
from plimsoll.data import SampleCache, StaleCacheError  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, PlimsollError, UnsupportedError  # noqa: E402

numpy = __import__("numpy") if importlib.util.find_spec("numpy") else None
logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
SCALE = 2
END_S = 1800  # of a process that is not to hang: on a busy machine a start takes a minute
HELD_AT = 10_000  # bytes of a log


def has(name):
    return unittest.skipUnless(importlib.util.find_spec(name), f"there is no {name} here")


def same(a, b):
    """One tree, of the same types, bit for bit."""
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, torch.Tensor):
        a, b = a.contiguous(), b.contiguous()
        size = a.numel() * a.element_size()
        return a.dtype == b.dtype and a.shape == b.shape and (not size or ctypes.string_at(a.data_ptr(), size) ==
                                                              ctypes.string_at(b.data_ptr(), size))
    if numpy is not None and isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return type(a) is type(b) and (a == b or a != a and b != b)


class Rows:
    """Pictures and numbers of theirs."""

    def __init__(self, n, log=None, shape=(3, 5, 4), held=False):
        self.n, self.shape = n, shape
        self._log, self._held = log, held

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        if self._log:
            with open(self._log, "a") as f:
                f.write(f"{i}\n")
        while self._held and os.path.getsize(self._log) >= HELD_AT and not os.path.exists(self._log + ".go"):
            time.sleep(0.02)
        return torch.randint(0, 256, self.shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(i)), i


class Words(Rows):
    def __getitem__(self, i):
        return {"ids": torch.arange(i % 7, dtype=torch.int32) + i, "box": torch.full((2, i % 3 + 1), i / 2), "n": i}


def twice(sample):
    return sample[0] * SCALE, sample[1]


def plain(sample):
    return sample


class Folder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)

    def path(self, name="a.samples"):
        return os.path.join(self.holder.name, name)

    def left(self):
        return sorted(os.listdir(self.holder.name))

    def lines(self, name="log"):
        try:
            with open(self.path(name)) as f:
                return [int(line) for line in f.read().split("\n")[:-1]]
        except FileNotFoundError:
            return []


# ---- what is kept ----


class Kinds:
    def __init__(self):
        self.rows = [self.row(i) for i in range(5)]

    def row(self, i):
        g = torch.Generator().manual_seed(i)
        dtypes = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "bool"]
        tensors = {name: torch.randint(0, 2, (2, 3), generator=g).to(getattr(torch, name)) for name in dtypes}
        row = {"tensors": tensors, "nested": ([torch.tensor(i), torch.zeros(0, 4)], (i, i / 3, i % 2 == 0)), 7: float("nan"),
               "large": 2**62 + i, "turned": torch.randn(3, 4, generator=g).t(), "last": torch.tensor(float("nan"))}
        if numpy is not None:
            row["array"] = numpy.arange(6, dtype=numpy.int16).reshape(2, 3) + i
            row["scalar"] = numpy.float32(i / 7)
        return row

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Kept(Folder):
    def test_all_kinds(self):
        source = Kinds()
        cache = SampleCache(source, self.path())
        self.assertEqual(len(cache), 5)
        for i in range(-5, 5):
            self.assertTrue(same(cache[i], source[i % 5]), i)
        for wrong in (5, -6):
            with self.assertRaises(IndexError):
                cache[wrong]
        self.assertTrue(same(list(cache), source.rows))
        self.assertEqual(self.left(), ["a.samples"])
        self.assertTrue(same(pickle.loads(pickle.dumps(cache))[3], source[3]))

    def test_ragged(self):
        source = Words(40)
        cache = SampleCache(source, self.path())
        for i in range(40):
            self.assertTrue(same(cache[i], source[i]))
        for ahead, size in ((1, 1), (3, 7)):
            seen = 0
            for batch in cache.batches(size, shuffle=4, ahead=ahead):
                for k, i in enumerate(batch["n"].tolist()):
                    self.assertTrue(same(batch["ids"][k], source[i]["ids"]))
                    self.assertTrue(same(batch["box"][k], source[i]["box"]))
                    seen += 1
            self.assertEqual(seen, 40)

    def test_a_shape_that_comes_late(self):
        class Late(Rows):
            def __getitem__(self, i):
                return torch.zeros(4 if i == 333 else 3)

        with self.assertRaisesRegex(ArgumentError, "sample 333 has 4 in dimension 0, not 3.*ragged=True"):
            SampleCache(Late(1000), self.path())
        cache = SampleCache(Late(1000), self.path(), ragged=True)
        self.assertEqual([cache[i].shape[0] for i in (0, 333)], [3, 4])

    def test_what_no_file_holds(self):
        for wrong, said in (({1}, "'[0]' of a sample is a builtins.set"), ({1.5: 3}, "keys"), (2**63, "64 bits"), (object, "builtins.type"),
                            (torch.eye(3).to_sparse(), "sparse")):
            with self.subTest(said), self.assertRaises(UnsupportedError) as told:
                SampleCache([(wrong, 1)], self.path())
            self.assertIn(said, str(told.exception))
        with self.assertRaisesRegex(ArgumentError, "no samples"):
            SampleCache([], self.path())
        self.assertEqual(self.left(), [])

    def test_a_tree_that_changes(self):
        with self.assertRaisesRegex(ArgumentError, "sample 1 is another tree"):
            SampleCache([(1, 2), (1, 2, 3)], self.path())

    def test_in_a_data_loader(self):
        source = Rows(30)
        cache = SampleCache(source, self.path())
        for method in ("fork", "spawn"):
            seen = [x for x in torch.utils.data.DataLoader(cache, batch_size=4, num_workers=2, multiprocessing_context=method)]
            self.assertTrue(same(seen, list(torch.utils.data.DataLoader(source, batch_size=4))))

    def test_damage(self):
        source = Rows(20)
        SampleCache(source, self.path())
        with open(self.path(), "r+b") as f:
            f.seek(-64 * 5 + 3, os.SEEK_END)
            byte = f.read(1)
            f.seek(-64 * 5 + 3, os.SEEK_END)
            f.write(bytes([byte[0] ^ 1]))
        with self.assertRaisesRegex(FormatError, "damaged"):
            SampleCache(source, self.path())
        self.assertTrue(same(SampleCache(source, self.path(), refresh=True)[15], source[15]))
        with open(self.path(), "r+b") as f:
            f.truncate(5000)
        with self.assertRaisesRegex(FormatError, "cut"):
            SampleCache(source, self.path())
        with open(self.path(), "wb") as f:
            pickle.dump(source, f)
        with self.assertRaisesRegex(FormatError, "not a file of samples"):
            SampleCache(source, self.path())


# ---- filling ----


FILLS = """
    import sys
    sys.path.insert(0, {tests!r})
    from test_real_data import Rows, plain
    from plimsoll.data import SampleCache
    cache = SampleCache(Rows({n}, log={log!r}, held={held}), {path!r}, plain, fingerprint="x", workers={workers})
    assert len(cache) == {n}
"""


class Filling(Folder):
    def start(self, n, workers=0, held=False):
        program = textwrap.dedent(FILLS.format(tests=os.path.dirname(os.path.abspath(__file__)), n=n, path=self.path(), log=self.path("log"),
                                               workers=workers, held=held))
        return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)

    def expect(self, n):
        source = Rows(n)
        cache = SampleCache(source, self.path(), plain, fingerprint="x")
        for i in range(n):
            self.assertTrue(same(cache[i], source[i]))

    def test_workers(self):
        for method in ("fork", "spawn"):
            path = self.path(method)
            cache = SampleCache(Rows(500, log=self.path("log")), path, twice, workers=2, start_method=method)
            self.assertTrue(same(cache[499], twice(Rows(500)[499])))
            self.assertEqual(collections.Counter(self.lines()).keys(), set(range(500)))
            os.unlink(self.path("log"))
        self.assertEqual(self.left(), ["fork", "spawn"])

    def test_several_jobs_at_once(self):
        jobs = [self.start(1500) for _ in range(3)]
        for job in jobs:
            self.assertEqual((job.communicate(timeout=END_S)[1], job.returncode), ("", 0))
        made = collections.Counter(self.lines())
        self.assertEqual(set(made), set(range(1500)))
        again = sum(made.values()) - 1500  # each looks at 32 twice before, and at 32 afterwards
        self.assertLessEqual(again, 3 * 3 * 32)
        self.expect(1500)
        self.assertEqual(self.left(), ["a.samples", "log"])

    def test_killed(self):
        """It is held in the middle until it is killed: no machine is too slow to see it there."""
        for workers in (0, 2):
            n = 6000
            job = self.start(n, workers, held=True)
            while len(self.lines()) < 1500:
                self.assertIsNone(job.poll())
                time.sleep(0.05)
            os.kill(job.pid, signal.SIGKILL)
            with open(self.path("log.go"), "w"):  # its workers see that it is gone
                pass
            job.communicate(timeout=END_S)
            self.assertEqual([name for name in self.left() if name.startswith("a.")], ["a.samples.filling"])
            with open(self.path("log"), "a") as f:
                f.write("-1\n")
            job = self.start(n)
            self.assertEqual((job.communicate(timeout=END_S)[1], job.returncode), ("", 0))
            lines = self.lines()
            later = lines[lines.index(-1) + 1:]
            self.assertLess(len(later), n - 500)  # what was there is there
            self.expect(n)
            for name in self.left():
                os.unlink(self.path(name))

    def test_what_a_transform_raises(self):
        def breaks(sample):
            if sample[1] == 777:
                raise KeyError("no such colour")
            return sample

        with self.assertRaisesRegex(KeyError, "no such colour") as told:
            SampleCache(Rows(1000), self.path(), breaks)
        if hasattr(told.exception, "add_note"):
            self.assertIn("sample 777 of", told.exception.__notes__[0])
        with self.assertRaisesRegex((PlimsollError, KeyError), "no such colour"):
            SampleCache(Rows(1000), self.path(), breaks, workers=2)
        self.assertFalse(os.path.exists(self.path()))
        self.assertTrue(same(SampleCache(Rows(1000), self.path(), plain)[777], Rows(1000)[777]))

    def test_a_worker_that_is_killed(self):
        def dies(sample):
            if os.getpid() != parent:
                os.kill(os.getpid(), signal.SIGKILL)
            return sample

        parent = os.getpid()
        cache = SampleCache(Rows(300), self.path(), dies, workers=2, fingerprint="x")
        self.assertTrue(same(cache[299], Rows(300)[299]))

    def test_random_numbers_stay(self):
        random.seed(1), torch.manual_seed(1)
        want = random.random(), torch.rand(3)
        random.seed(1), torch.manual_seed(1)
        SampleCache(Rows(40), self.path())
        SampleCache(Rows(40), self.path())
        self.assertEqual(random.random(), want[0])
        self.assertTrue(torch.equal(torch.rand(3), want[1]))


# ---- what is random ----


class Random(Folder):
    def refused(self, transform, n=300):
        with self.assertRaisesRegex(ArgumentError, "another one each time"):
            SampleCache(Rows(n), self.path(), transform)
        self.assertEqual(self.left(), [])

    def test_sources(self):
        self.refused(lambda s: (s[0] + torch.randint(0, 2, s[0].shape, dtype=torch.uint8), s[1]))
        self.refused(lambda s: (s[0].roll(random.randrange(5)), s[1]))
        self.refused(lambda s: (s[0], s[1], os.urandom(1)[0]))
        self.refused(lambda s: (s[0], next(count)) if (count := itertools.count(time.time_ns())) else None)
        if numpy is not None:
            self.refused(lambda s: (s[0], float(numpy.random.rand())))
            self.refused(lambda s: (s[0], float(numpy.random.default_rng().random())))
        calls = itertools.count()
        self.refused(lambda s: (s[0], next(calls)))

    def test_seldom(self):
        """Drawn each time, seen in one of fifty."""
        self.refused(lambda s: (s[0].flip(0) if torch.rand(()) < 0.02 else s[0], s[1]), 1000)

    def test_drawn_in_vain(self):
        cache = SampleCache(Rows(300), self.path(), lambda s: (s[0], int(torch.rand(()) < 2)))
        self.assertEqual(cache[7][1], 1)


# ---- what is stale ----


def scaled(by):
    def inner(sample):
        return sample[0] * by, sample[1]
    return inner


def with_default(sample, by=3):
    return sample[0] * by, sample[1]


def helper(x):
    return x * 5


def with_helper(sample):
    return helper(sample[0]), sample[1]


class Step:
    def __init__(self, by):
        self.by = by

    def work(self, x):
        return x * self.by

    def __call__(self, sample):
        return self.work(sample[0]), sample[1]


class Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, sample):
        return functools.reduce(lambda x, step: step(x), self.steps, sample)


class Files(Rows):
    def __init__(self, root):
        self.root = root
        self.samples = [(name, k) for k, name in enumerate(sorted(os.listdir(root)))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        with open(os.path.join(self.root, self.samples[i][0]), "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8), self.samples[i][1]


class Stale(Folder):
    def stale(self, dataset, transform, said, **more):
        with self.assertRaises(StaleCacheError) as told:
            SampleCache(dataset, self.path(), transform, **more)
        self.assertRegex(str(told.exception), said)
        self.assertTrue(told.exception.differences)
        return told.exception

    def changes(self, was, now, said):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path())
        SampleCache(Rows(50), self.path(), was)
        SampleCache(Rows(50), self.path(), was)
        self.stale(Rows(50), now, said)

    def test_values(self):
        self.changes(scaled(2), scaled(3), "transform, by: 2 -> 3")
        self.changes(Step(2), Step(3), "transform.by: 2 -> 3")
        self.changes(Compose([Step(1), scaled(2)]), Compose([Step(1), scaled(4)]), r"transform.steps\[1\], by: 2 -> 4")
        self.changes(functools.partial(with_default, by=2), functools.partial(with_default, by=3), r"keywords\['by'\]: 2 -> 3")
        self.changes(scaled(torch.tensor(2)), scaled(torch.tensor(3)), r"transform, by: torch.int64 \[\] ")
        self.changes(None, plain, "transform .plain.: not there -> code")

    def test_code(self):
        SampleCache(Rows(50), self.path(), with_helper)
        with mock.patch.dict(globals(), helper=lambda x: x * 6):
            self.stale(Rows(50), with_helper, "global helper")
        with mock.patch.object(with_default, "__defaults__", (9,)):
            self.stale(Rows(50), with_default, "default 0: not there -> 9")
        os.unlink(self.path())
        SampleCache(Rows(50), self.path(), Step(2))
        with mock.patch.object(Step, "work", lambda self, x: x + self.by):
            self.stale(Rows(50), Step(2), "Step.work")
        os.unlink(self.path())
        SampleCache(Rows(50), self.path(), twice)
        with mock.patch.dict(globals(), SCALE=3):
            self.stale(Rows(50), twice, "global SCALE: 2 -> 3")

        class Other(Rows):
            def __getitem__(self, i):
                return super().__getitem__(i)[::-1]

        self.stale(Other(50), twice, "class of dataset")
        self.stale(Rows(51), twice, "dataset.n: 50 -> 51")

    def test_versions(self):
        SampleCache(Rows(50), self.path())
        with mock.patch.object(torch, "__version__", "9.9"):
            self.stale(Rows(50), None, "version of torch: .* -> 9.9")

    def test_files(self):
        folder = self.path("files")
        os.mkdir(folder)
        for k in range(100):
            with open(os.path.join(folder, f"{k:03}"), "wb") as f:
                f.write(bytes([k] * 5))
        SampleCache(Files(folder), self.path())
        SampleCache(Files(folder), self.path())
        told = os.stat(os.path.join(folder, "050"))
        os.utime(os.path.join(folder, "050"), ns=(told.st_atime_ns, told.st_mtime_ns + 1))
        self.stale(Files(folder), None, "files: 100 of 500 bytes")
        other = self.path("other")
        with open(other, "w") as f:
            f.write("1")
        SampleCache(Rows(50), self.path("b"), files=[other])
        with open(other, "w") as f:
            f.write("22")
        with self.assertRaisesRegex(StaleCacheError, "files: 1 of 1 bytes.* -> 1 of 2 bytes"):
            SampleCache(Rows(50), self.path("b"), files=[other])

    def test_what_no_fingerprint_sees(self):
        def hidden(sample):
            return sample[0] + int(os.environ["HIDDEN"]), sample[1]

        with mock.patch.dict(os.environ, HIDDEN="1"):
            SampleCache(Rows(50), self.path(), hidden)
        with mock.patch.dict(os.environ, HIDDEN="2"):
            self.stale(Rows(50), hidden, r"sample \d+ is not what the data set makes now: '\[0\]' differs in 60 of 60 elements")
            self.stale(Rows(50), hidden, "differs", fingerprint=None)
            cache = SampleCache(Rows(50), self.path(), hidden, refresh=True)
            self.assertTrue(same(cache[3], hidden(Rows(50)[3])))
            SampleCache(Rows(50), self.path(), hidden)

    def test_own_fingerprint(self):
        SampleCache(Rows(50), self.path(), scaled(2), fingerprint="v1")
        SampleCache(Rows(50), self.path(), Step(2), fingerprint="v1")
        self.stale(Rows(50), scaled(2), "fingerprint: v1 -> v2", fingerprint="v2")

    def test_the_same_in_another_process(self):
        """No address and no order of a set is in it."""
        program = ("import sys; sys.path.insert(0, {!r}); import test_real_data as t; from plimsoll.data import _fingerprint; "
                   "print(hash('a')); print(_fingerprint.of(t.Rows(5), t.Compose([t.Step({{'a', 'b', 'c'}}), t.twice, t.scaled(frozenset('xyz'))])))")
        program = program.format(os.path.dirname(os.path.abspath(__file__)))
        said = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                               env={**os.environ, "PYTHONHASHSEED": seed}).stdout.split("\n", 1) for seed in ("1", "2")]
        self.assertNotEqual(said[0][0], said[1][0])
        self.assertEqual(said[0][1], said[1][1])

    def test_replaced_under_a_reader(self):
        cache = SampleCache(Rows(50), self.path(), scaled(2))
        kept = pickle.dumps(cache)
        SampleCache(Rows(50), self.path(), scaled(3), refresh=True)
        self.assertTrue(same(cache[5], scaled(2)(Rows(50)[5])))  # its file is still open
        with self.assertRaisesRegex(StaleCacheError, "replaced"):
            pickle.loads(kept)


# ---- batches ----


class Batches(Folder):
    def cache(self, n=100, source=None):
        return SampleCache(source or Rows(n), self.path(f"{n}"))

    def test_as_a_data_loader(self):
        for source in (Rows(50), Kinds()):
            cache = SampleCache(source, self.path(type(source).__name__))
            for drop in (False, True):
                want = list(torch.utils.data.DataLoader(source, batch_size=4, drop_last=drop))
                batches = cache.batches(4, drop_last=drop)
                self.assertEqual(len(batches), len(want))
                self.assertTrue(same(list(batches), want))

    def test_arguments(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                yield torch.zeros(1)

        with self.assertRaisesRegex(ArgumentError, "a Stream has no len"):
            SampleCache(Stream(), self.path())
        for size in (0, -3):
            with self.assertRaisesRegex(ArgumentError, "batch_size is 1 or more"):
                self.cache().batches(size)

    def test_shuffle(self):
        batches = self.cache().batches(7, shuffle=3)
        epochs = [torch.cat([y for _, y in batches]).tolist() for _ in range(3)]
        for epoch in epochs:
            self.assertEqual(sorted(epoch), list(range(100)))
        self.assertEqual(len(set(map(tuple, epochs))), 3)
        again = self.cache().batches(7, shuffle=3)
        again.set_epoch(1)
        self.assertEqual(torch.cat([y for _, y in again]).tolist(), epochs[1])
        self.assertNotEqual(torch.cat([y for _, y in self.cache().batches(7, shuffle=4)]).tolist(), epochs[0])
        for wrong in (True, -1):
            with self.assertRaises(ArgumentError):
                self.cache().batches(7, shuffle=wrong)

    def test_content(self):
        source = Rows(100)
        for x, y in self.cache().batches(9, shuffle=0, threads=3, ahead=3):
            for row, i in zip(x, y.tolist()):
                self.assertTrue(torch.equal(row, source[i][0]))

    def test_memory(self):
        """What someone holds is not written; what no one holds is used again."""
        batches = self.cache(600).batches(10, ahead=2)
        held = list(batches)
        for k, (x, y) in enumerate(held):
            self.assertEqual(y.tolist(), list(range(10 * k, 10 * k + 10)))
        part = held[3][0][2]
        want, addresses = part.clone(), set()
        del held, x, y
        for _ in range(3):
            for x, y in batches:
                addresses.add(x.data_ptr())
        self.assertTrue(torch.equal(part, want))
        self.assertLessEqual(len(addresses), 64 + 8)
        addresses.clear()
        for x, y in batches:
            addresses.add(x.data_ptr())
        self.assertLessEqual(len(addresses), 8)

    def test_left_in_the_middle(self):
        batches = self.cache(600).batches(10, shuffle=1, ahead=8, threads=4)
        for k in range(30):
            for i, _ in enumerate(batches):
                if i == k % 4:
                    break
            del _
            gc.collect()
        self.assertEqual(batches.state_dict()["epoch"], 29)

    def test_ranks(self):
        for n, size, world in ((100, 7, 3), (101, 5, 2), (64, 8, 4), (97, 3, 5)):
            cache = self.cache(n)
            ranks = [cache.batches(size, shuffle=2, rank=rank, world=world) for rank in range(world)]
            dealt = [[y.tolist() for _, y in batches] for batches in ranks]
            self.assertEqual(sorted(i for rank in dealt for batch in rank for i in batch), list(range(n)))
            self.assertEqual({len(rank) for rank in dealt}, {len(ranks[0])})
        with self.assertRaisesRegex(ArgumentError, "without a sample"):
            self.cache(97).batches(1, rank=0, world=2)
        with self.assertRaises(ArgumentError):
            self.cache(97).batches(1, rank=0)

    def test_resume(self):
        cache = self.cache()
        whole = cache.batches(7, shuffle=5)
        want = [y.tolist() for _ in range(3) for _, y in whole]
        for stop in range(0, 33, 4):
            first = cache.batches(7, shuffle=5, ahead=3)
            seen = []
            while len(seen) < stop:
                for _, y in first:
                    seen.append(y.tolist())
                    if len(seen) == stop:
                        break
            state = json.loads(json.dumps(first.state_dict()))
            second = cache.batches(7, shuffle=5)
            second.load_state_dict(state)
            while len(seen) < len(want):
                for _, y in second:
                    seen.append(y.tolist())
            self.assertEqual(seen[:len(want)], want, stop)

    def test_resume_with_other_ranks(self):
        cache = self.cache(100)
        seen = []
        for rank in range(2):
            batches = cache.batches(6, shuffle=5, rank=rank, world=2)
            for _, (_, y) in zip(range(4), batches):
                seen += y.tolist()
        state = batches.state_dict()
        for rank in range(3):
            batches = cache.batches(5, shuffle=5, rank=rank, world=3)
            batches.load_state_dict(state)
            for _, y in batches:
                seen += y.tolist()
        self.assertEqual(sorted(seen), list(range(100)))
        for wrong in ({"shuffle": 6}, {"samples": 99}, {"version": 2}):
            with self.assertRaises(ArgumentError):
                batches.load_state_dict({**state, **wrong})

    def test_set_epoch_keeps_the_place(self):
        cache = self.cache()
        batches = cache.batches(10, shuffle=1)
        batches.set_epoch(4)
        want = [y.tolist() for _, y in batches]
        batches.load_state_dict({**batches.state_dict(), "epoch": 4, "done": 3})
        batches.set_epoch(4)  # as trainers do before each epoch
        self.assertEqual([y.tolist() for _, y in batches], want[3:])
        batches.set_epoch(4)
        self.assertEqual([y.tolist() for _, y in batches], want)

    def test_two_iterations(self):
        batches = self.cache().batches(10)
        first, second = iter(batches), iter(batches)
        next(second)
        with self.assertRaisesRegex(UnsupportedError, "another iteration"):
            next(first)
        self.assertEqual(len(list(second)), 9)

    def test_normalize(self):
        source = Rows(20)
        mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        cache = self.cache(20)
        for x, y in cache.batches(6, normalize=(mean, std)):
            for row, i in zip(x, y.tolist()):
                want = (source[i][0].double() / 255 - torch.tensor(mean).double().view(3, 1, 1)) / torch.tensor(std).double().view(3, 1, 1)
                self.assertEqual(row.dtype, torch.float32)
                self.assertLess(float((row - want).abs().max()), 1e-5)
        for wrong in (((0.5,) * 4, (0.5,) * 4), ((0.5,), (0.0,)), ((0.5, 0.5), (0.5,))):
            with self.assertRaises(ArgumentError):
                cache.batches(6, normalize=wrong)

    def test_a_damaged_sample(self):
        cache = pickle.loads(pickle.dumps(self.cache(100)))  # no sample of it was read yet
        self.assertEqual(os.path.getsize(cache.path) % 128, 0)
        with open(cache.path, "r+b") as f:
            f.seek(-128 * 30, os.SEEK_END)
            f.write(b"damaged")
        batches = cache.batches(10)
        with self.assertRaisesRegex(FormatError, "sample 70 is damaged"):
            for k, _ in enumerate(batches):
                self.assertLess(k, 7)
        self.assertEqual(len(list(SampleCache.batches(cache, 10, rank=1, world=2))), 5)

    def test_after_a_fork(self):
        batches = self.cache().batches(10)
        running = iter(batches)
        next(running)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                next(running)
            except UnsupportedError:
                code = 0 if len(list(batches)) == 10 and same(self.cache()[3], Rows(100)[3]) else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(len(list(running)), 9)

    def test_input_watch(self):
        from plimsoll.data import InputWatch

        watch = InputWatch(self.cache().batches(10))
        self.assertEqual(len(list(watch)), 10)


FAKE = os.environ.get("PLIMSOLL_FAKE_CUDA", "")


@unittest.skipUnless(FAKE, "PLIMSOLL_FAKE_CUDA names no fake driver")
class OnAGpu(Folder):
    """With a driver whose copies run only when their stream is waited for, and which ends the process when page-locked memory is changed
    before: tensors of the host stand for those of the GPU.
    """

    STREAM = 3

    def test_epochs(self):
        driver = ctypes.CDLL(FAKE)
        driver.fake_complete.argtypes = [ctypes.c_void_p]
        driver.fake_pinned.restype = ctypes.c_uint64
        source = Rows(300)
        cache = SampleCache(source, self.path())
        with mock.patch.dict(os.environ, PLIMSOLL_CUDA_LIBRARY=FAKE), mock.patch.object(_batches._loader, "device_number", lambda _: 0), \
                mock.patch.object(torch.cuda, "current_stream", lambda _: types.SimpleNamespace(cuda_stream=self.STREAM)):
            batches = cache.batches(16, shuffle=1, threads=3, ahead=3)
            for _ in range(3):
                seen = []
                for x, y in batches:
                    driver.fake_complete(self.STREAM)
                    seen += y.tolist()
                    for row, i in zip(x, y.tolist()):
                        self.assertTrue(torch.equal(row, source[i][0]))
                self.assertEqual(sorted(seen), list(range(300)))
            del batches
        gc.collect()
        driver.fake_complete(self.STREAM)
        self.assertEqual(driver.fake_pinned(), 0)


# ---- trainers ----


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line, self.seen = torch.nn.Linear(4, 1), []

    def forward(self, x, labels, number):
        self.seen += number.tolist()
        return {"loss": torch.nn.functional.mse_loss(self.line(x), labels), "logits": labels}


class Lines:
    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = torch.randn(4, generator=torch.Generator().manual_seed(i))
        return {"x": x, "labels": x.sum(0, keepdim=True), "number": i}


class Trainers(Folder):
    def cache(self):
        return SampleCache(Lines(), self.path())

    @has("transformers")
    @has("accelerate")
    def test_transformers(self):
        import transformers

        batches = self.cache().batches(8, shuffle=1)

        class Trainer(transformers.Trainer):
            def get_train_dataloader(self):
                return batches

        def train(model, **more):
            arguments = transformers.TrainingArguments(self.path("out"), num_train_epochs=2, report_to=[], disable_tqdm=True, use_cpu=True,
                                                       save_steps=5, logging_strategy="no", **more)
            with contextlib.redirect_stdout(io.StringIO()):
                return Trainer(model, arguments, train_dataset=self.cache())

        model = Line()
        train(model).train()
        self.assertEqual(sorted(model.seen), sorted(list(range(64)) * 2))
        self.assertNotEqual(model.seen[:64], model.seen[64:])
        want, again = model.seen, Line()
        batches = self.cache().batches(8, shuffle=1)
        train(again).train(resume_from_checkpoint=os.path.join(self.path("out"), "checkpoint-5"))
        self.assertEqual(again.seen, want[5 * 8:])

    @has("lightning")
    def test_lightning(self):
        import lightning

        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = Line()

            def training_step(self, batch, number):
                return self.model(**batch)["loss"]

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.01)

        module = Module()
        trainer = lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
                                    default_root_dir=self.holder.name, enable_checkpointing=False)
        with contextlib.redirect_stderr(io.StringIO()):
            trainer.fit(module, self.cache().batches(8, shuffle=1))
        self.assertEqual(trainer.global_step, 16)
        self.assertEqual(sorted(module.model.seen), sorted(list(range(64)) * 2))

    @has("accelerate")
    def test_accelerate_on_two_ranks(self):
        """Each sample once, in as many steps on both."""
        self.ranks("""
            import accelerate
            accelerator = accelerate.Accelerator(cpu=True)
            model = Line()
            model, optimizer, batches = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01), batches)
            for _ in range(2):
                for batch in batches:
                    loss = model(**batch)["loss"]
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
            seen = accelerator.unwrap_model(model).seen
        """)

    @has("transformers")
    @has("accelerate")
    def test_transformers_on_two_ranks(self):
        self.ranks("""
            import transformers
            class Trainer(transformers.Trainer):
                def get_train_dataloader(self):
                    return batches
            model = Line()
            arguments = transformers.TrainingArguments(sys.argv[2] + ".out", num_train_epochs=2, report_to=[], disable_tqdm=True, use_cpu=True,
                                                       save_strategy="no", logging_strategy="no", ddp_backend="gloo")
            Trainer(model, arguments, train_dataset=batches.dataset).train()
            seen = model.seen
        """)

    @has("lightning")
    def test_lightning_on_two_ranks(self):
        self.ranks("""
            import lightning
            from lightning.pytorch.plugins.environments import TorchElasticEnvironment
            from lightning.pytorch.strategies import DDPStrategy

            class Module(lightning.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = Line()

                def training_step(self, batch, number):
                    return self.model(**batch)["loss"]

                def configure_optimizers(self):
                    return torch.optim.SGD(self.parameters(), 0.01)

            os.environ.update(GROUP_RANK="0", LOCAL_WORLD_SIZE="2")
            module = Module()
            strategy = DDPStrategy(cluster_environment=TorchElasticEnvironment(), process_group_backend="gloo")
            lightning.Trainer(max_epochs=2, logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu", devices=2,
                              strategy=strategy, default_root_dir=sys.argv[2] + ".out", enable_checkpointing=False).fit(module, batches)
            seen = module.model.seen
        """)

    def test_two_ranks(self):
        self.ranks("""
            model = torch.nn.parallel.DistributedDataParallel(Line())
            for _ in range(2):
                for batch in batches:
                    model(**batch)["loss"].backward()
            seen = model.module.seen
        """)

    def ranks(self, body):
        """Both fill one file, too."""
        program = textwrap.dedent("""
            import json, os, sys
            import torch
            sys.path.insert(0, sys.argv[1])
            from test_real_data import Line, Lines
            from plimsoll.data import SampleCache
            batches = SampleCache(Lines(), sys.argv[2]).batches(6, shuffle=1)
            torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=int(os.environ["RANK"]), world_size=2)
        """) + textwrap.dedent(body) + textwrap.dedent("""
            with open(sys.argv[2] + ".rank" + os.environ["RANK"], "w") as f:
                json.dump(seen, f)
        """) + LEAVE
        jobs = [subprocess.Popen([sys.executable, "-c", program, os.path.dirname(os.path.abspath(__file__)), self.path(), self.path("store")],
                                 env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                                      "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        while all(job.poll() is None for job in jobs) or all(job.poll() in (None, 0) for job in jobs) and any(job.poll() is None for job in jobs):
            time.sleep(0.05)
        for job in jobs:  # of one that failed the other would wait
            if job.poll() is None:
                job.kill()
        said = [job.communicate()[1] for job in jobs]
        self.assertEqual([job.returncode for job in jobs], [0, 0], said)
        seen = []
        for rank in range(2):
            with open(self.path(f"a.samples.rank{rank}")) as f:
                seen.append(json.load(f))
        self.assertEqual(sorted(seen[0][:32] + seen[1][:32]), list(range(64)))
        self.assertEqual(sorted(seen[0][32:] + seen[1][32:]), list(range(64)))
        self.assertEqual([len(one) for one in seen], [64, 64])


if __name__ == "__main__":
    unittest.main()
