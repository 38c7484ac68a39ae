"""With a real PyTorch on the CPU: state restored bitwise, activations, loaders, ranks that agree, frameworks' callbacks.

Skipped, loudly, where it cannot be imported; tools/venv.sh makes an environment that can.
"""
import gc
import contextlib
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

import plimsoll  # noqa: E402
from plimsoll.data import InputWatch, tune_loader  # noqa: E402
from plimsoll.memory import MemoryMonitor, by_owner, release, saved_activations  # noqa: E402
from plimsoll.oom import Restore, retry_on_oom  # noqa: E402

logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
MIB = 1 << 20


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 8))


def train_step(net, optimizer, n=16):
    optimizer.zero_grad()
    net(torch.randn(n, 64)).square().mean().backward()
    optimizer.step()


class Restoring(unittest.TestCase):
    def state(self, net, optimizer):
        tensors = [t.clone() for t in net.state_dict().values()]
        tensors += [p.grad.clone() if p.grad is not None else torch.zeros(0) for p in net.parameters()]
        for state in optimizer.state.values():
            tensors += [v.clone() if isinstance(v, torch.Tensor) else torch.tensor(v) for v in state.values()]
        return tensors, torch.get_rng_state().clone()

    def test_bitwise(self):
        for kind in (torch.optim.AdamW, torch.optim.SGD, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)):
            for steps_before in (0, 3):
                net = model()
                optimizer = kind(net.parameters())
                for _ in range(steps_before):
                    train_step(net, optimizer)
                before = self.state(net, optimizer)
                kept = Restore(net, optimizer)
                addresses = [p.data_ptr() for p in net.parameters()]
                for _ in range(2):
                    train_step(net, optimizer)
                net.eval()
                kept.restore()
                after = self.state(net, optimizer)
                self.assertTrue(net.training)
                self.assertEqual(addresses, [p.data_ptr() for p in net.parameters()])
                self.assertEqual(len(before[0]), len(after[0]))
                for a, b in zip(before[0], after[0]):
                    self.assertTrue(torch.equal(a, b))
                self.assertTrue(torch.equal(before[1], after[1]))

    def test_retry_gives_the_same_numbers_as_an_unbroken_run(self):
        def final(fails):
            net = model()
            optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
            failed = []

            def step(n):
                train_step(net, optimizer, 8)
                if fails and not failed:
                    failed.append(1)
                    raise MemoryError
                return None

            torch.manual_seed(3)
            retry_on_oom(step, 8, restore=Restore(net, optimizer))
            return [p.detach().clone() for p in net.parameters()]

        for a, b in zip(final(False), final(True)):
            self.assertTrue(torch.equal(a, b))


class Memory(unittest.TestCase):
    def test_saved_activations_are_exact(self):
        net = nn.Sequential(nn.Linear(256, 512, bias=False), nn.ReLU())
        x = torch.randn(64, 256)
        out, use = saved_activations(lambda: net(x), model=net)
        # Linear keeps its input (and its weight: a parameter), ReLU its output.
        self.assertEqual(use.saved_bytes, 64 * 256 * 4 + 64 * 512 * 4)
        self.assertEqual(out.shape, (64, 512))

    def test_by_owner_counts_each_storage_once(self):
        net = nn.Linear(512, 512, bias=False)
        views = [net.weight.detach()[i] for i in range(10)]
        owners = {o.name: o for o in by_owner(net).owners}
        self.assertEqual(owners["model: parameters"].bytes, MIB)
        self.assertFalse(any("views" in name for name in owners))
        del views

    def test_release(self):
        global held_here
        held_here = torch.empty(4 * MIB, dtype=torch.uint8)
        freed = release(held_here)
        self.assertEqual(int(freed), 4 * MIB)

    def test_attach_to_a_real_loop(self):
        net = model()
        optimizer = torch.optim.AdamW(net.parameters())
        monitor = MemoryMonitor("cpu")
        with monitor.attach(net, optimizer):
            for _ in range(4):
                train_step(net, optimizer)
            with torch.no_grad():
                net(torch.randn(4, 64))
        self.assertEqual({p.label: p.count for p in monitor.summary().phases},
                         {"forward": 4, "backward": 4, "optimizer": 4, "between": 1, "eval": 1})
        self.assertEqual((len(net._forward_hooks), len(net._forward_pre_hooks)), (0, 0))

    def test_check(self):
        net = model()
        self.assertTrue(plimsoll.check(net, torch.randn(4, 64)).ok)
        self.assertFalse(plimsoll.check(net, torch.randn(4, 64, dtype=torch.float64)).ok)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertTrue(plimsoll.check(net, torch.randn(4, 64, dtype=torch.bfloat16)).ok)
        net.extra = torch.zeros(3)
        self.assertIn("plain attribute", str(plimsoll.check(net, torch.randn(4, 64))))

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu_errors_say_so(self):
        for call in (lambda: plimsoll.report(), lambda: plimsoll.memory.Recorder().start(),
                     lambda: plimsoll.oom.find_batch_size(lambda n: None)):
            with self.assertRaisesRegex(plimsoll.PlimsollError, "GPU"):
                call()


class Slow(torch.utils.data.Dataset):
    def __init__(self, n=400, seconds=0.002):
        self.n, self.seconds = n, seconds

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(self.seconds)
        return torch.full((8,), float(i))


class Loading(unittest.TestCase):
    def test_the_watch_gives_what_the_loader_gives(self):
        for workers in (0, 2):
            loader = torch.utils.data.DataLoader(Slow(64, 0), batch_size=8, num_workers=workers)
            watch = InputWatch(loader)
            for epoch in range(2):
                seen = torch.cat(list(watch))
                self.assertTrue(torch.equal(seen[:, 0], torch.arange(64.0)))
            self.assertEqual((len(watch), watch.batches), (8, 16))

    def test_tune_loader_measures(self):
        loader = torch.utils.data.DataLoader(Slow(), batch_size=8)
        advice = tune_loader(loader, budget_s=4, max_workers=4)
        # How fast each is depends on what else runs here (test_data.py has the rule, on times that are given).
        rates = {m.workers: m.samples_per_s for m in advice.measured}
        self.assertGreaterEqual(rates[advice.kwargs["num_workers"]], 0.95 * max(rates.values()), advice)
        self.assertTrue(all(rate > 0 for rate in rates.values()), advice)
        made = torch.utils.data.DataLoader(loader.dataset, batch_size=8, **advice.kwargs)
        self.assertEqual(len(list(made)), 50)

    def test_a_broken_dataset_says_so(self):
        class Broken(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, i):
                raise RuntimeError("no such image")

        with self.assertRaisesRegex(plimsoll.PlimsollError, "no such image"):
            tune_loader(torch.utils.data.DataLoader(Broken()), budget_s=1, max_workers=1)


RANKS = """
import os, sys, time, torch, torch.distributed as dist
from plimsoll.oom import retry_on_oom
rank, case, store = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
def step(n):
    x = torch.ones(4)
    if case == "before" and rank == 1 and n > 4:
        raise MemoryError
    if case == "dies" and rank == 1:
        os._exit(9)
    if case == "other" and rank == 1:
        raise ValueError("bug")
    if case == "after" and rank == 0 and n > 4:
        raise MemoryError
    if case == "inside" and rank == 1 and n > 4:
        raise MemoryError  # the other one is in the all-reduce below and would wait for ever
    if case == "inside":
        dist.all_reduce(x)
    return n
try:
    # where both live on nobody has to be given up, however slow this machine is now
    done = retry_on_oom(step, 16, group=True, timeout_s=300 if case in ("before", "after") else 8)
    print(f"rank {rank} size {done.size}")
except Exception as error:
    print(f"rank {rank} raised {type(error).__name__}")
sys.stdout.flush()
os._exit(0)
"""


class Ranks(unittest.TestCase):
    def run_case(self, case):
        with tempfile.TemporaryDirectory() as folder:
            jobs = [subprocess.Popen([sys.executable, "-c", RANKS, str(r), case, os.path.join(folder, "store")], text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for r in range(2)]
            try:
                return [job.communicate(timeout=600)[0].split() for job in jobs]
            finally:
                for job in jobs:
                    job.kill()

    def test_all_shrink_where_one_fails(self):
        for case in ("before", "after"):
            with self.subTest(case):
                self.assertEqual([words[:4] for words in self.run_case(case)],
                                 [["rank", "0", "size", "4"], ["rank", "1", "size", "4"]])

    def test_all_raise_in_time_where_one_dies_or_fails_otherwise(self):
        for case in ("dies", "other", "inside"):
            with self.subTest(case):
                for words in self.run_case(case):
                    if words:
                        self.assertEqual(words[2], "raised", words)


@unittest.skipUnless(has("transformers") and has("accelerate"), "transformers is not there")
class Transformers(unittest.TestCase):
    def test_trainer(self):
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

        from plimsoll.integrations.hf import PlimsollCallback

        net = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=16))
        data = [{"input_ids": torch.arange(16) % 64, "labels": torch.arange(16) % 64} for _ in range(24)]
        callback = PlimsollCallback()
        with tempfile.TemporaryDirectory() as folder:
            args = TrainingArguments(folder, per_device_train_batch_size=4, num_train_epochs=1, logging_steps=2, report_to=[],
                                     use_cpu=not torch.cuda.is_available(), save_strategy="no", disable_tqdm=True)
            trainer = Trainer(net, args, train_dataset=data, callbacks=[callback])
            trainer.train()
        self.assertEqual(callback.attached.monitor.steps, 6)
        self.assertEqual({p.label for p in callback.summary().phases}, {"forward", "backward", "optimizer"})
        where = "memory" if torch.cuda.is_available() else "host_memory"
        rows = [{key for key in row if "memory" in key} for row in trainer.state.log_history if "loss" in row]
        self.assertEqual(rows, [{f"{where}/peak_gib", f"{where}/reserved_gib"}] * 3)
        self.assertFalse(os.path.exists(f"/dev/shm/plimsoll.{os.getpid()}"))

    def test_a_failure_anywhere(self):
        # The exception had no verdict, and two hooks stayed on the model.
        from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

        from plimsoll.integrations.hf import PlimsollCallback

        class Dies(Trainer):
            def training_step(self, *arguments, **named):
                if dies == "step" and self.state.global_step == 2:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
                return super().training_step(*arguments, **named)

        class Optimizer(torch.optim.SGD):
            def step(self, *arguments, **named):
                if dies == "optimizer":
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
                return super().step(*arguments, **named)

        data = [{"input_ids": torch.arange(16) % 64, "labels": torch.arange(16) % 64} for _ in range(24)]
        for dies, later in (("step", False), ("optimizer", False), ("step", True)):
            with self.subTest(dies=dies, later=later), tempfile.TemporaryDirectory() as folder:
                net = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=64, n_positions=16))
                optimizer = Optimizer(net.parameters(), 0.1)
                callback = PlimsollCallback(record_dir=None if torch.cuda.is_available() else folder, log="all")
                args = TrainingArguments(folder, max_steps=6, logging_steps=1, report_to=[], use_cpu=not torch.cuda.is_available(),
                                         save_strategy="no", disable_tqdm=True)
                trainer = Dies(net, args, train_dataset=data, callbacks=[] if later else [callback], optimizers=(optimizer, None))
                if later:
                    trainer.add_callback(callback)
                with self.assertLogs("plimsoll", "WARNING") if not torch.cuda.is_available() else contextlib.nullcontext():
                    with self.assertRaises(torch.OutOfMemoryError) as raised:
                        trainer.train()
                notes = [note for note in getattr(raised.exception, "__notes__", []) if note.startswith("plimsoll: ")]
                self.assertEqual(len(notes), 1 if sys.version_info >= (3, 11) else len(notes))
                hooks = [hook for module in net.modules() for hook in (*module._forward_hooks.values(), *module._forward_pre_hooks.values())]
                hooks += [*optimizer._optimizer_step_pre_hooks.values(), *optimizer._optimizer_step_post_hooks.values()]
                self.assertEqual([hook for hook in hooks if "plimsoll" in str(getattr(hook, "__module__", hook))], [])
                self.assertEqual(len(net._forward_hooks) + len(net._forward_pre_hooks), 0)
                if dies == "step":
                    self.assertIn("memory/allocated_bytes", trainer.state.log_history[-1])

    def test_plan_takes_the_model(self):
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=100)
        net = GPT2LMHeadModel(config)
        plan = plimsoll.plan(net, batch=2, seq=32)
        self.assertEqual(plan.model.parameters, sum(p.numel() for p in net.parameters()))
        self.assertGreater(plan.peak.allocated_bytes, 0)


@unittest.skipUnless(has("lightning"), "lightning is not there")
class Lightning(unittest.TestCase):
    def test_trainer(self):
        import lightning as L
        from lightning.pytorch.loggers import CSVLogger

        from plimsoll.integrations.lightning import PlimsollCallback

        class Module(L.LightningModule):
            def __init__(self, fails=False):
                super().__init__()
                self.net, self.fails = model(), fails

            def training_step(self, batch, i):
                if self.fails and i == 2:
                    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
                return self.net(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters())

        loader = torch.utils.data.DataLoader(torch.randn(48, 64), batch_size=8)
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        def fit(module, folder, log=True):
            callback = PlimsollCallback(log=log)
            trainer = L.Trainer(max_epochs=1, accelerator="cpu", callbacks=[callback], log_every_n_steps=1,
                                logger=CSVLogger(os.path.join(folder, str(log))), enable_progress_bar=False,
                                enable_checkpointing=False, enable_model_summary=False)
            trainer.fit(module, loader)
            path = os.path.join(trainer.logger.log_dir, "metrics.csv")
            columns.append(set(open(path).readline().strip().split(",")) if os.path.exists(path) else set())
            return callback

        columns = []
        with tempfile.TemporaryDirectory() as folder:
            callback = fit(Module(), folder)
            self.assertEqual(callback.attached.monitor.steps, 6)
            phases = {p.label: p.count for p in callback.summary().phases}
            self.assertEqual((phases["forward"], phases["backward"], phases["optimizer"]), (6, 6, 6))
            fit(Module(), folder, log="all")
            fit(Module(), folder, log=False)
            # it has run on the CPU
            self.assertEqual([{one for one in row if "memory" in one} for row in (columns[0], columns[2])],
                             [{"host_memory/peak_gib", "host_memory/reserved_gib"}, set()])
            self.assertIn("memory/forward/peak_allocated_bytes", columns[1])
            with self.assertRaises(RuntimeError) as raised:
                fit(Module(fails=True), folder)
            self.assertTrue(any("plimsoll:" in note for note in getattr(raised.exception, "__notes__", [])))


@unittest.skipUnless(has("accelerate"), "accelerate is not there")
class Accelerate(unittest.TestCase):
    def test_register(self):
        from accelerate import Accelerator

        from plimsoll.integrations.accelerate import register

        accelerator = Accelerator(cpu=not torch.cuda.is_available())
        net = model()
        net, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters()))
        attached = register(accelerator, net, optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            accelerator.backward(net(torch.randn(8, 64)).square().mean())
            optimizer.step()
        self.assertEqual(attached.monitor.steps, 3)
        attached.remove()


if __name__ == "__main__":
    gc.collect()
    unittest.main()
