"""plimsoll.checkpoint.load() of the files that people have, saved as people save them."""
import argparse
import copy
import importlib.util
import json
import os
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from plimsoll import checkpoint  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, NotFoundError, UnsupportedError  # noqa: E402

RAN = []


class Ours:
    """A class whose objects people put into checkpoints; it notes whether anything of it ran."""

    def __init__(self):
        self.lr = 0.1

    def __setstate__(self, state):
        RAN.append("__setstate__")


class AttributeDict(dict):
    """As Lightning's hyper_parameters."""


def runs(*_):
    RAN.append("runs")
    return 1


class Hostile:
    def __reduce__(self):
        return runs, ()


def make(seed=0, width=6):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    return model, optimizer, scheduler


def trained(steps=3):
    model, optimizer, scheduler = make()
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        scheduler.step()
    return model, optimizer, scheduler


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return all(torch.equal(a[name], b[name]) for name in b)


class Load(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.path = os.path.join(folder.name, "a.pt")
        self.model, self.optimizer, self.scheduler = trained()
        self.weights = self.model.state_dict()
        RAN.clear()
        self.addCleanup(lambda: self.assertEqual(RAN, []))

    def loads(self, saved, **options):
        """Into a fresh model; what load() says."""
        torch.save(saved, self.path)
        model = make(1)[0]
        told = checkpoint.load(self.path, model=model, **options)
        self.assertTrue(same(model, self.model))
        return told

    def refused(self, words, kind=FormatError, **what):
        """Nothing changes."""
        before = {name: copy.deepcopy(one.state_dict()) for name, one in what.items() if hasattr(one, "state_dict")}
        with self.assertRaisesRegex(kind, words):
            checkpoint.load(self.path, **what)
        for name, state in before.items():
            self.assertEqual(repr(what[name].state_dict()), repr(state))

    def test_the_dictionary_of_every_tutorial_goes_on_bit_for_bit(self):
        torch.save({"epoch": 3, "model_state_dict": self.weights, "optimizer_state_dict": self.optimizer.state_dict(),
                    "scheduler_state_dict": self.scheduler.state_dict(), "loss": 0.5, "torch_version": torch.__version__}, self.path)
        model, optimizer, scheduler = make(1)
        told = checkpoint.load(self.path, model=model, optimizer=optimizer, scheduler=scheduler)
        self.assertEqual((told.model_key, told.prefix, told.complete), ("model_state_dict", "", True))
        self.assertEqual(told.values, {"epoch": 3, "loss": 0.5, "torch_version": str(torch.__version__)})
        batch = torch.randn(8, 4)
        for one, other, plan in ((model, optimizer, scheduler), (self.model, self.optimizer, self.scheduler)):
            other.zero_grad()
            one(batch).square().mean().backward()
            other.step()
            plan.step()
        self.assertTrue(same(model, self.model))
        self.assertEqual(optimizer.param_groups[0]["lr"], self.optimizer.param_groups[0]["lr"])

    def test_prefixes_of_both_sides(self):
        for prefix in ("module.", "_orig_mod.", "model.", "module._orig_mod.", "net.backbone."):
            told = self.loads({prefix + name: one for name, one in self.weights.items()})
            self.assertEqual(told.prefix, prefix.replace("_orig_mod.", ""))
        self.assertEqual(self.loads(self.weights).prefix, "")
        holder = nn.Module()
        holder.model = make(1)[0]
        self.assertEqual(checkpoint.load(self.path, model=holder).prefix, "+model.")
        self.assertTrue(same(holder.model, self.model))
        compiled = torch.compile(make(1)[0])
        checkpoint.load(self.path, model=compiled)
        self.assertTrue(same(compiled._orig_mod, self.model))

    def test_lightning(self):
        hyper = AttributeDict(lr=0.1)
        told = self.loads({"epoch": 2, "global_step": 7, "state_dict": {"model." + name: one for name, one in self.weights.items()},
                           "optimizer_states": [self.optimizer.state_dict()], "lr_schedulers": [self.scheduler.state_dict()],
                           "hyper_parameters": hyper, "args": argparse.Namespace(a=1)}, optimizer=make()[1], scheduler=make()[2])
        self.assertEqual((told.model_key, told.prefix, told.values["global_step"]), ("state_dict", "model.", 7))
        self.assertIn("argparse.Namespace, which was not made", repr(told.values["args"]))

    def test_a_module_that_was_saved_whole_and_the_old_format(self):
        self.loads(self.model)
        torch.save(self.weights, self.path, _use_new_zipfile_serialization=False)
        model = make(1)[0]
        self.assertRegex(checkpoint.load(self.path, model=model).notes[0], "no checksums")
        self.assertTrue(same(model, self.model))

    @unittest.skipUnless(importlib.util.find_spec("safetensors"), "there is no safetensors here")
    def test_a_folder_of_transformers_trainer(self):
        from safetensors.torch import save_file

        save_file(self.weights, os.path.join(self.dir, "model.safetensors"))
        torch.save(self.optimizer.state_dict(), os.path.join(self.dir, "optimizer.pt"))
        torch.save(self.scheduler.state_dict(), os.path.join(self.dir, "scheduler.pt"))
        torch.save(Ours(), os.path.join(self.dir, "training_args.bin"))
        with open(os.path.join(self.dir, "trainer_state.json"), "w", encoding="utf-8") as f:
            json.dump({"global_step": 3, "log_history": []}, f)
        model, optimizer, scheduler = make(1)
        told = checkpoint.load(self.dir, model=model, optimizer=optimizer, scheduler=scheduler)
        self.assertEqual(told.values, {"global_step": 3})
        self.assertTrue(same(model, self.model))
        self.assertEqual(scheduler.last_epoch, 3)
        os.remove(os.path.join(self.dir, "model.safetensors"))
        for i, name in enumerate(self.weights):
            torch.save({name: self.weights[name]}, os.path.join(self.dir, f"pytorch_model-{i}.bin"))
        with open(os.path.join(self.dir, "pytorch_model.bin.index.json"), "w", encoding="utf-8") as f:
            json.dump({"weight_map": {name: f"pytorch_model-{i}.bin" for i, name in enumerate(self.weights)}}, f)
        model = make(1)[0]
        checkpoint.load(self.dir, model=model)
        self.assertTrue(same(model, self.model))

    def test_nothing_in_the_file_runs(self):
        told = self.loads({"model": self.weights, "ours": Ours(), "class": Ours, "hostile": Hostile(), "more": [AttributeDict(a=Hostile())]})
        self.assertIn("Ours, which was not made", repr(told.values["ours"]))
        self.assertIn("runs, which was not made", repr(told.values["hostile"]))
        torch.save({"model": self.weights, "e": type("E", (), {"__reduce__": lambda self: (os.system, ("exit 1",))})()}, self.path)
        self.refused("runs code", model=make(1)[0])
        torch.jit.script(self.model).save(self.path)
        self.refused("torchscript", UnsupportedError, model=make(1)[0])

    def test_a_damaged_file_changes_nothing(self):
        torch.save({"model": self.weights, "optimizer": self.optimizer.state_dict()}, self.path)
        with open(self.path, "rb") as f:
            data = f.read()
        place = data.index(self.weights["0.weight"].numpy().tobytes())
        for changed in (data[:-700], data[:place] + bytes([data[place] ^ 1]) + data[place + 1:], b"", b"no checkpoint"):
            with open(self.path, "wb") as f:
                f.write(changed)
            model, optimizer, _ = make(1)
            self.refused("", (FormatError, UnsupportedError), model=model, optimizer=optimizer)

    def test_partial_loads_say_what_was_left_out(self):
        saved = {**self.weights, "2.weight": torch.zeros(5, 6), "head.weight": torch.zeros(3)}
        del saved["0.bias"]
        torch.save(saved, self.path)
        model = make(1)[0]
        self.refused(r"(?s)'0.bias' is only in the model.*'head.weight' is only in the file.*'2.weight' is \[2, 6\] in the model, "
                     r"\[5, 6\] in the file.*strict=False", model=model)
        told = checkpoint.load(self.path, model=model, strict=False)
        self.assertEqual((told.missing, told.unexpected, told.complete), (("0.bias",), ("head.weight",), False))
        self.assertEqual(told.other_shapes, ("'2.weight' is [2, 6] in the model, [5, 6] in the file",))
        self.assertTrue(torch.equal(model[0].weight, self.model[0].weight))
        self.assertFalse(torch.equal(model[2].weight, self.model[2].weight))
        self.assertIn("'0.bias' is only in the model", str(told))

    def test_a_name_without_the_prefix_is_not_the_models(self):
        told = self.loads({"0.weight": torch.zeros(6, 4), **{"model." + name: one for name, one in self.weights.items()}}, strict=False)
        self.assertEqual(told.unexpected, ("0.weight",))

    def test_tied_weights_are_there_under_one_name(self):
        def tied():
            model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
            model[1].weight = model[0].weight
            return model

        torch.save({"0.weight": torch.ones(4, 4)}, self.path)
        model = tied()
        self.assertTrue(checkpoint.load(self.path, model=model).complete)
        self.assertEqual(float(model[1].weight.sum()), 16)

    def test_two_states_and_other_optimizers_are_not_guessed(self):
        torch.save({"model": self.weights, "ema": {name: one * 0 for name, one in self.weights.items()},
                    "optimizer": self.optimizer.state_dict()}, self.path)
        model, optimizer, scheduler = make(1)
        self.refused("2 states of the model: 'model', 'ema'; model_key='model'", ArgumentError, model=model)
        checkpoint.load(self.path, model=model, model_key="ema")
        self.assertEqual(float(model[0].weight.abs().sum()), 0)
        self.refused("it is another one", model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), model_key="ema")
        self.refused("2 groups of parameters, in the file 1", optimizer=torch.optim.AdamW(
            [{"params": list(model[0].parameters())}, {"params": list(model[1].parameters())}]))
        wide = make(1, width=7)[1]
        self.refused(r"parameter 0 of the optimizer is \[7, 4\], its state in the file \[6, 4\]", optimizer=wide)
        self.refused("no state of a scheduler", scheduler=scheduler)

    def test_dtypes_are_noted_and_values_go_where_map_location_says(self):
        torch.save({"model": {name: one.half() for name, one in self.weights.items()}, "extra": torch.ones(2)}, self.path)
        told = checkpoint.load(self.path, model=make(1)[0], map_location=torch.device("cpu"))
        self.assertIn("float16 in the file and become float32", "; ".join(told.notes))
        self.assertEqual(told.values["extra"].device.type, "cpu")

    def test_wrong_files_name_the_way(self):
        self.refused("there is no", NotFoundError, model=self.model)
        torch.save({"other": torch.zeros(2)}, self.path)
        self.refused("no name matches: the file has other, the model 0.weight", model=self.model)
        with self.assertRaisesRegex(NotFoundError, "weights of Transformers"):
            checkpoint.load(self.dir, model=self.model)
        with torch.device("meta"):
            empty = make()[0]
        torch.save(self.weights, self.path)
        self.refused("to_empty", ArgumentError, model=empty)
        folder = os.path.join(self.dir, "own")
        with checkpoint.Checkpointer(folder) as checkpointer:
            own = checkpointer.save(1, model=self.model).result()
            with self.assertRaisesRegex(NotFoundError, r"plimsoll.checkpoint.load\(path, model=model\)"):
                checkpointer.load(self.path, model=self.model)
        with self.assertRaisesRegex(UnsupportedError, r"Checkpointer\('.*own'\).load\('step-00000001'"):
            checkpoint.load(own, model=self.model)


if __name__ == "__main__":
    unittest.main()
