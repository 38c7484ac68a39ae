"""WeightCache as an LRU of models: sizes as people write them, a number of checkpoints, and the prefix that was forgotten."""
import importlib.util
import os
import sys
import tempfile
import time
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from plimsoll.checkpoint import _state  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, LimitError  # noqa: E402
from plimsoll.weights import WeightCache, WeightSwapper  # noqa: E402


class Weights(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        for i in range(4):
            model = nn.Linear(64, 64)
            torch.save({"model_state_dict": model.state_dict(), "epoch": i}, self.path(i))

    def path(self, i):
        return os.path.join(self.dir, f"{i}.pt")

    def cache(self, prefix="model_state_dict.", **options):
        cache = WeightCache(device="cpu", **options)
        self.addCleanup(cache.close)
        for i in range(4):
            cache.register(str(i), self.path(i), prefix=prefix)
        return cache

    def use(self, cache, *names):
        for name in names:
            with cache.lease(name):
                pass

    def test_a_budget_as_people_write_it(self):
        # It was an ArgumentError: "pinned_bytes is a number of bytes or '10%'".
        for text, size in (("1 MiB", 1 << 20), ("1.5MiB", 3 << 19), ("2mb", 2_000_000), ("1 GiB", 1 << 30), ("1G", 1 << 30), ("70000", 70000),
                           ("70000 B", 70000), (70000, 70000)):
            with self.subTest(text):
                self.assertEqual(self.cache(budget=text).stats().host.max_bytes, size)
        self.assertIsNone(self.cache(budget="10 %").stats().host.max_bytes)
        for wrong in ("", "MiB", "1 MXB", "-1 MiB", "1,5 MiB", "nan", 0, -1, "0 GiB", "101%", "0%", "1.5%"):
            with self.subTest(wrong), self.assertRaisesRegex(ArgumentError, "budget"):
                WeightCache(budget=wrong, device="cpu")

    def test_at_most_so_many_are_held(self):
        cache = self.cache(max_loaded=2)
        self.use(cache, "0", "1", "2", "2", "1")
        host = cache.stats().host
        self.assertEqual((host.checkpoints, host.evictions, host.hits), (2, 1, 2))
        self.use(cache, "0")  # the one that was used longest ago went
        self.assertEqual((cache.stats().host.misses, cache.stats().host.evictions), (4, 2))
        with cache.lease("0"), cache.lease("1"), self.assertRaises(LimitError):
            self.use(cache, "3")
        with self.assertRaisesRegex(ArgumentError, "max_loaded is 1 or more, not 0"):
            WeightCache(max_loaded=0, device="cpu")

    def test_a_forgotten_prefix_is_named(self):
        cache = self.cache(prefix="")
        with WeightSwapper(nn.Linear(64, 64), cache) as swapper:
            with self.assertRaisesRegex(FormatError, r"register\('0', path, prefix='model_state_dict.'\) would find 2 of the model's 2 tensors"):
                with swapper.use("0"):
                    pass
        with WeightSwapper(nn.Linear(64, 64), self.cache()) as swapper, swapper.use("0"):
            pass

    def test_prefixes_are_found_though_names_are_missing_on_both_sides(self):
        blocks = [f"blocks.{i}.{part}.{kind}" for i in range(40) for part in ("attn", "mlp.fc1") for kind in ("weight", "bias")]
        theirs = {"model.net." + name for name in blocks} | {f"other.{i}.weight" for i in range(100)}
        mine = {*blocks, *(f"a.very.long.name.of.a.new.head.{i}.weight" for i in range(100))}
        self.assertEqual(_state.prefix_of(mine, theirs), ("model.net.", 160))
        self.assertEqual(_state.prefix_of(theirs, mine), ("+model.net.", 160))
        self.assertEqual(_state.prefix_of(mine, mine), ("", 260))
        many = {f"layers.{i}.{j}.weight" for i in range(300) for j in range(100)}
        began = time.process_time()
        self.assertEqual(_state.prefix_of(many, {"module." + name for name in many}), ("module.", 30000))
        self.assertEqual(_state.prefix_of(many, {name + "_other" for name in many}), ("", 0))
        self.assertLess(time.process_time() - began, 5)


if __name__ == "__main__":
    unittest.main()
