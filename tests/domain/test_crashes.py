"""release() and check() as people call them, in processes that hold objects of any kind."""
import importlib.util
import sys
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import plimsoll  # noqa: E402
from plimsoll.memory import release  # noqa: E402


class Row:
    """A table's row: a list called as an nn.Module calls its dict of parameters."""

    def __init__(self):
        self._parameters, self._buffers, self._modules = ["a", "b"], None, 3


class Proxy:
    """As werkzeug's LocalProxy: out of a request every look at it raises."""

    @property
    def __dict__(self):
        raise RuntimeError("working outside of request context")

    @property
    def __class__(self):
        raise RuntimeError("working outside of request context")


class Bad(dict):
    def items(self):
        raise OSError("the database is gone")


class Release(unittest.TestCase):
    def test_the_holder_is_named_whatever_else_the_process_holds(self):
        # It raised AttributeError: 'list' object has no attribute 'items'.
        others = [Row(), Proxy(), Bad(a=1)]
        model = nn.Linear(64, 64)
        keep = [model]
        freed = release(model)
        self.assertEqual(freed, 0)
        self.assertTrue(any(": keep[...]" in name for name in freed.held_by), freed.held_by)
        del others, keep

    def test_a_lazy_module_that_cannot_be_imported(self):
        class Lazy(type(sys)):
            def __getattribute__(self, name):
                raise ImportError("no such library")

        sys.modules["lazy_of_test"] = Lazy("lazy_of_test")
        self.addCleanup(sys.modules.pop, "lazy_of_test")
        held = [nn.Linear(64, 64)]
        self.assertTrue(release(held[0]).held_by)

    def test_tensors_of_a_list_called_parameters_are_found(self):
        row = Row()
        row._parameters = [torch.zeros(1 << 12)]
        freed = release(row._parameters[0])
        self.assertTrue(any(": row" in name for name in freed.held_by), freed.held_by)


class Check(unittest.TestCase):
    def told(self, model):
        return [p.what for p in plimsoll.check(model, torch.randn(2, 4)).problems if p.severity == "error"]

    def test_a_first_layer_on_meta(self):
        # It crashed: autocast knows no device "meta".
        told = self.told(nn.Sequential(nn.Linear(4, 4).to("meta"), nn.Linear(4, 4)))
        self.assertEqual(told, ["2 parameters have no memory (meta), 0.weight for one"])

    def test_a_whole_model_on_meta(self):
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        self.assertEqual(self.told(model), ["4 parameters have no memory (meta), 0.weight for one"])

    def test_autocast_still_counts_if_the_first_layer_is_on_meta(self):
        model = nn.Sequential(nn.Linear(4, 4).to("meta"), nn.Linear(4, 4))
        batch = torch.randn(2, 4, dtype=torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            told = [p.what for p in plimsoll.check(model, batch).problems]
        self.assertFalse([what for what in told if "bfloat16" in what], told)


if __name__ == "__main__":
    unittest.main()
