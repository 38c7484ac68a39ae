"""A checkpoint of one architecture does not load into another one, though all names and shapes are the same."""
import copy
import dataclasses
import importlib.util
import json
import os
import sys
import tempfile
import types
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from plimsoll.checkpoint import Checkpointer  # noqa: E402
from plimsoll.errors import FormatError  # noqa: E402


@dataclasses.dataclass
class Config:
    heads: int = 4
    scale: float = float("inf")
    activation: object = nn.GELU


class A(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.l = nn.Linear(8, 8)
        self.config = config


class B(A):
    pass


class HuggingFace:
    """As transformers.PretrainedConfig."""

    def __init__(self, **values):
        self.values = values

    def to_dict(self):
        return {"_name_or_path": str(id(self)), "transformers_version": str(id(self)), "dtype": torch.bfloat16, **self.values}


class Architecture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def save(self, model):
        with Checkpointer(self.dir) as checkpointer:
            return checkpointer.save(1, model=model).result()

    def load(self, model, **options):
        with Checkpointer(self.dir) as checkpointer:
            return checkpointer.load("latest", model=model, **options)

    def test_another_class_with_other_heads_is_refused_with_the_difference(self):
        # It was loaded, and Loaded.notes was empty.
        self.save(A({"heads": 4}))
        model = B({"heads": 8})
        before = copy.deepcopy(model.state_dict())
        with self.assertRaises(FormatError) as caught:
            self.load(model)
        told = str(caught.exception)
        self.assertIn("the model is a B, in the checkpoint it is a A", told)
        self.assertIn("config.heads is 8 in the model, 4 in the checkpoint", told)
        self.assertIn("strict_architecture=False", told)
        self.assertTrue(all(torch.equal(before[name], value) for name, value in model.state_dict().items()))

    def test_it_is_noted_if_that_is_asked_for(self):
        self.save(A({"heads": 4}))
        for options in ({"strict_architecture": False}, {"partial": ["head.*"]}, {"rename": {"model.": ""}}):
            loaded = self.load(B({"heads": 8}), **options)
            self.assertEqual(loaded.notes[:2], ("the model is a B, in the checkpoint it is a A",
                                                "config.heads is 8 in the model, 4 in the checkpoint"))

    def test_configurations_of_all_kinds(self):
        for kind in (HuggingFace, types.SimpleNamespace, dict, Config):
            with self.subTest(kind.__name__):
                self.save(A(kind(heads=4)))
                self.assertEqual(self.load(A(kind(heads=4))).notes, ())
                with self.assertRaisesRegex(FormatError, "config.heads is 8 in the model, 4 in the checkpoint"):
                    self.load(A(kind(heads=8)))

    def test_a_key_of_one_side_and_one_in_a_part(self):
        self.save(A({"vision": {"patch": 14}}))
        with self.assertRaisesRegex(FormatError, "config.vision.patch is 16 in the model, 14 in"):
            self.load(A({"vision": {"patch": 16}}))
        with self.assertRaisesRegex(FormatError, "config.rope is True in the model, missing in"):
            self.load(A({"vision": {"patch": 14}, "rope": True}))
        self.assertEqual(self.load(A(None)).notes, ())

    def test_a_newer_library_adds_values(self):
        self.save(A({"my_version": "1", "heads": 4}))
        self.assertEqual(self.load(A({"my_version": "2", "heads": 4, "bias": True})).notes, ())
        with self.assertRaisesRegex(FormatError, "config.heads is 8"):
            self.load(A({"my_version": "2", "heads": 8, "bias": True}))

    def test_compiled_and_plain_are_one_architecture(self):
        model = A({"heads": 4})
        self.save(torch.compile(model))
        self.assertEqual(self.load(A({"heads": 4})).notes, ())
        with self.assertRaisesRegex(FormatError, "config.heads"):
            self.load(torch.compile(A({"heads": 8})))

    def test_time_host_and_gpu_are_saved(self):
        path = self.save(A({"heads": 4}))
        with open(os.path.join(path, "state.json"), encoding="utf-8") as f:
            state = json.load(f)
        self.assertEqual(state["architecture"], {"class": "A", "config": {"heads": 4}})
        self.assertIn("gpu", state["versions"])
        loaded = self.load(A({"heads": 4}))
        self.assertEqual(loaded.host, os.uname().nodename)
        self.assertRegex(loaded.time, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")


if __name__ == "__main__":
    unittest.main()
