"""GradientMonitor, checks of weights and activations and precision_test with a real PyTorch on the CPU."""
import importlib.util
import logging
import math
import os
import pickle
import subprocess
import sys
import textwrap
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402
from torch import nn  # noqa: E402

from ranks import LEAVE  # noqa: E402
from plimsoll.errors import ArgumentError, UnsupportedError  # noqa: E402
from plimsoll.gradients import (GradientMonitor, NonFiniteError, check_activations, check_tensors,  # noqa: E402
                                precision_test)

logging.getLogger("plimsoll").setLevel(logging.CRITICAL)


def net(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 300), nn.LayerNorm(300), nn.Linear(300, 4)).to(dtype)


def backward(model, scale=1.0):
    dtype = next(model.parameters()).dtype
    (model(torch.randn(16, 20, dtype=dtype)).float().square().mean() * scale).backward()


def norm_of(model):
    return torch.stack([p.grad.double().norm() for p in model.parameters() if p.grad is not None]).norm().item()


def copies(model):
    return [p.detach().clone() for p in model.parameters()]


def same(model, before):
    return all(torch.equal(p, b) for p, b in zip(model.parameters(), before))


class Values(unittest.TestCase):
    def test_beside_torch(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            model = net(dtype)
            backward(model)
            monitor = GradientMonitor(model)
            stats = monitor.check()
            self.assertLess(abs(stats.norm / norm_of(model) - 1), 1e-6)
            self.assertEqual(stats.max_abs, max(p.grad.abs().max().item() for p in model.parameters()))
            self.assertEqual((stats.nan, stats.inf, stats.none, stats.bad, stats.step), (0, 0, 0, (), 0))
            self.assertLess(abs(monitor.total_norm().item() / stats.norm - 1), 1e-6)

    def test_counts(self):
        model = net()
        monitor = GradientMonitor(model)
        for step in range(3):
            model.zero_grad()
            backward(model)
            if step == 2:
                model[2].weight.grad[3:5, 7] = float("nan")
                model[0].bias.grad[1] = -float("inf")
            stats = monitor.check(step + 10)
        finite = math.sqrt(sum(p.grad[p.grad.isfinite()].double().square().sum().item() for p in model.parameters()))
        self.assertLess(abs(stats.finite_norm / finite - 1), 1e-6)
        self.assertTrue(math.isnan(stats.norm) and not stats.finite)
        self.assertEqual((stats.step, stats.nan, stats.inf, stats.bad_count), (12, 2, 1, 2))
        first, second = stats.bad
        self.assertEqual((first.name, first.nan, first.elements, second.name, second.inf), ("2.weight", 2, 90000, "0.bias", 1))
        self.assertEqual([step for step, _ in first.past], [11, 10])
        self.assertEqual(first.past[0][1], monitor._watched.cores[0].results(1)[2].norm)
        self.assertIn(stats.before[0].name, ("2.bias", "3.weight", "3.bias"))  # made before it in the backward pass
        self.assertIn("first in '2.weight' (2 NaN and 0 infinite of 90,000", str(stats))

    def test_order_of_the_backward_pass(self):
        """A model whose modules run in another order than they are listed in."""
        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.last, self.first = nn.Linear(5, 5), nn.Linear(5, 5)

            def forward(self, x):
                return self.last(self.first(x))

        model = Turned()
        monitor = GradientMonitor(model)
        model(torch.randn(3, 5)).sum().backward()
        for p in model.parameters():
            p.grad[0] = float("nan")
        self.assertTrue(monitor.check().bad[0].name.startswith("last"))
        self.assertTrue(monitor.check().bad[-1].name.startswith("first"))

    def test_kinds_of_gradients(self):
        conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        bag, unused, half = nn.EmbeddingBag(50, 6, sparse=True), nn.Linear(2, 2), nn.Linear(6, 6).half()
        frozen = nn.Linear(3, 3).requires_grad_(False)
        model = nn.ModuleList([conv, bag, unused, half, frozen])
        monitor = GradientMonitor(model)
        for words in (5, 9, 2):
            model.zero_grad()
            conv(torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)).sum().backward()
            bag(torch.randint(0, 50, (4, words))).sum().backward()
            half(torch.randn(4, 6).half()).sum().backward()
            stats = monitor.check()
            squares = sum((p.grad._values() if p.grad.is_sparse else p.grad).double().square().sum().item()
                          for p in model.parameters() if p.grad is not None)
            self.assertLess(abs(stats.norm ** 2 / squares - 1), 1e-6)
            self.assertEqual(stats.none, 2)
        self.assertEqual(len(monitor.history), 3)

    def test_refused(self):
        with self.assertRaises(ArgumentError):
            GradientMonitor(nn.Linear(2, 2).requires_grad_(False))
        with self.assertRaises(ArgumentError):
            GradientMonitor(net(), on_bad="ignore")
        with self.assertRaises(ArgumentError):
            GradientMonitor(net(), clip=0)
        with self.assertRaises(ArgumentError):
            GradientMonitor(net()).attach()
        with self.assertRaises(ArgumentError):
            GradientMonitor(net()).clip_(1.0)
        with self.assertRaises(ArgumentError):
            GradientMonitor(net()).wait()
        with self.assertRaises(ArgumentError):
            GradientMonitor(net()).replayed()
        with self.assertRaises(ArgumentError):
            GradientMonitor(net()).total_norm()
        with self.assertRaisesRegex(ArgumentError, "none of these"):
            GradientMonitor(net(), torch.optim.SGD(net().parameters(), 0.1)).attach()
        with self.assertRaisesRegex(ArgumentError, "comes first"):
            GradientMonitor(torch.optim.SGD(net().parameters(), 0.1), net())
        self.assertEqual(check_tensors({"a": torch.tensor([1.0, float("nan")])}).bad[0].name, "a")
        with self.assertRaises(UnsupportedError):
            GradientMonitor(nn.Linear(2, 2, dtype=torch.complex64))
        with self.assertRaises(UnsupportedError):
            pickle.dumps(GradientMonitor(net()))
        model = net()
        optimizer = torch.optim.LBFGS(model.parameters())
        with GradientMonitor(model, optimizer) as monitor, monitor.attach(), self.assertRaises(UnsupportedError):
            optimizer.step(lambda: torch.zeros(()))
        with self.assertRaises(ArgumentError):
            monitor.check()
        parameter = nn.Parameter(torch.zeros(4, 4))
        parameter.grad = torch.zeros(4, 8)[:, ::2]
        with self.assertRaises(UnsupportedError):
            GradientMonitor([("strided", parameter)]).check()

    def test_forked(self):
        monitor = GradientMonitor(net())
        child = os.fork()
        if not child:
            try:
                monitor.check()
            except UnsupportedError:
                os._exit(7)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)


class Policies(unittest.TestCase):
    def steps(self, on_bad, fused, clip=None):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), fused=fused, weight_decay=0.1)
        monitor = GradientMonitor(model, optimizer, on_bad=on_bad, clip=clip)
        kept, raised = [], 0
        with monitor.attach():
            for step in range(5):
                model.zero_grad()
                backward(model)
                if step == 2:
                    model[4].bias.grad[0] = float("nan")
                before, gradient = copies(model), model[0].weight.grad
                try:
                    optimizer.step()
                except NonFiniteError as error:
                    raised += 1
                    self.assertEqual(error.stats.bad[0].name, "4.bias")
                kept.append(same(model, before))
                self.assertIs(model[0].weight.grad, gradient)
        updates = optimizer.state[model[0].weight]["step"].item()
        before = copies(model)
        backward(model)
        optimizer.step()  # the hooks are gone
        self.assertEqual(monitor.steps, 5)
        self.assertFalse(same(model, before) or hasattr(optimizer, "found_inf"))
        return kept, raised, updates, monitor.decides

    def test_all(self):
        skipped = [False, False, True, False, False]
        self.assertEqual(self.steps("skip", True), (skipped, 0, 4, "device"))
        self.assertEqual(self.steps("skip", False), (skipped, 0, 4, "host"))
        for fused in (True, False):
            self.assertEqual(self.steps("raise", fused)[:3], (skipped, 1, 4))
            self.assertEqual(self.steps("report", fused)[1:3], (0, 5))

    def test_clip(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            ours, theirs = net(dtype), net(dtype)
            torch.manual_seed(3)
            backward(ours, 100)
            torch.manual_seed(3)
            backward(theirs, 100)
            monitor = GradientMonitor(ours)
            monitor.check()
            norm = monitor.clip_(0.5).item()
            wanted = nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            self.assertLess(abs(norm / wanted.item() - 1), 1e-5 if dtype != torch.bfloat16 else 1e-2)
            for p, q in zip(ours.parameters(), theirs.parameters()):
                self.assertLess((p.grad.double() - q.grad.double()).norm(), (1e-6 if dtype != torch.bfloat16 else 1e-2) * q.grad.double().norm())
            before = [p.grad.clone() for p in ours.parameters()]
            monitor.check()
            monitor.clip_(1.0)
            self.assertTrue(all(torch.equal(p.grad, b) for p, b in zip(ours.parameters(), before)))

    def test_scaler(self):
        for fused in (False, True):
            model = net()
            optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=fused)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
            monitor = GradientMonitor(model, optimizer, scaler=scaler, on_bad="raise")
            for step in range(6):
                model.zero_grad()
                dtype_loss = model(torch.randn(16, 20)).square().mean()
                scaler.scale(dtype_loss).backward()
                wanted = norm_of(model) / scaler.get_scale()
                if step == 3:
                    model[0].weight.grad[0, 0] = float("inf")
                if step % 2 == 0:
                    scaler.unscale_(optimizer)
                stats = monitor.check()  # infinities under the scale are the scaler's
                before = copies(model)
                scaler.step(optimizer)
                scaler.update()
                self.assertEqual(same(model, before), step == 3)
                if step == 3:
                    self.assertTrue(stats.inf == 1 and stats.scale > 1 and "scaler skips" in str(stats))
                else:
                    self.assertLess(abs(stats.norm / wanted - 1), 1e-5)
                    self.assertEqual(stats.scale == 1, step % 2 == 0)
            self.assertEqual(monitor.decides, "scaler")
            with GradientMonitor(model, optimizer, scaler=scaler, clip=1e-4) as other, other.attach():
                model.zero_grad()
                scaler.scale(model(torch.randn(16, 20)).square().mean()).backward()
                wanted = norm_of(model) / scaler.get_scale()
                scaler.step(optimizer)
                self.assertLess(abs(other.wait().norm / wanted - 1), 1e-5)
                self.assertLess(abs(norm_of(model) / 1e-4 - 1), 1e-2)  # a fused step leaves gradients without the scale


class Elsewhere(unittest.TestCase):
    def test_weights_and_activations(self):
        model = net()
        model.register_buffer("count", torch.zeros(3, dtype=torch.int64))
        self.assertTrue(check_tensors(model).finite)
        self.assertTrue(check_activations(model, torch.randn(2, 20)).finite)
        model[2].weight.data[3, 4] = float("nan")
        self.assertEqual([b.name for b in check_tensors(model).bad], ["2.weight"])
        found = check_activations(model, torch.randn(2, 20))
        self.assertEqual((found.bad[0].name, found.bad[0].nan), ("2", 2))
        self.assertEqual(found.before[0].name, "1")
        with self.assertRaises(ArgumentError):
            check_tensors([("numbers", torch.zeros(3, dtype=torch.int64))])
        self.assertEqual(check_tensors([("turned", torch.ones(3, 4)[:, ::2])]).finite_norm, math.sqrt(6))

    def test_precision(self):
        model = net()
        before, generator = copies(model), torch.get_rng_state()
        result = precision_test(model, torch.randn(8, 20))
        self.assertTrue(result.exercised and "addmm" in result.operations)
        self.assertTrue(same(model, before) and all(p.grad is None for p in model.parameters()))
        output = result.outputs[0]
        self.assertEqual(output.dtype, "bfloat16")
        self.assertTrue(1e-4 < output.relative < 0.05 and output.cosine > 0.99 and output.largest_ulp < 100)
        self.assertEqual([d.name for d in result.modules], ["0", "1", "2", "3", "4"])
        self.assertTrue(all(d.own <= d.relative * 2 for d in result.modules))
        self.assertEqual([d.name for d in result.gradients], [name for name, _ in model.named_parameters()])
        self.assertLess(precision_test(model, torch.randn(8, 20), dtype=torch.float16).outputs[0].relative, output.relative)
        self.assertEqual(len(generator), len(torch.get_rng_state()))

    def test_precision_finds(self):
        class Large(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(8, 8), nn.Identity()

            def forward(self, x):
                return self.b(self.a(x) * 1e5) * 1e-5

        result = precision_test(Large(), torch.ones(4, 8), dtype=torch.float16)
        self.assertGreater(result.worst.inf, 0)
        self.assertEqual(result.worst.name, "b")

    def test_precision_not_exercised(self):
        constant = torch.randn(6)
        result = precision_test(lambda x: constant.sin() * 3, torch.randn(4))
        self.assertFalse(result.exercised)
        self.assertIn("not exercised", str(result))
        self.assertFalse(precision_test(lambda x: x.float().exp(), torch.randn(4), cast=False).exercised)
        with self.assertRaises(ArgumentError):
            precision_test(net(), torch.randn(4, 20), dtype=torch.float64)

    def test_dropout_is_the_same_in_both(self):
        model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.5), nn.Linear(64, 4))
        self.assertLess(precision_test(model, torch.randn(8, 20)).outputs[0].relative, 0.05)


class Ranks(unittest.TestCase):
    def test_two(self):
        """Shards of DTensors: one norm, one decision, on both ranks."""
        program = textwrap.dedent("""
            import logging, sys, torch, torch.distributed as dist
            from torch import nn
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
            from plimsoll.gradients import GradientMonitor
            logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
            dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[1]), world_size=2)
            mesh = init_device_mesh("cpu", (2,))
            torch.manual_seed(0)
            whole = [torch.randn(7, 5), torch.randn(4), torch.randn(3, 3)]
            grads = [torch.randn_like(w) for w in whole]
            names = ["sharded", "replicated", "plain"]
            parameters = [nn.Parameter(distribute_tensor(whole[0], mesh, [Shard(0)])),
                          nn.Parameter(distribute_tensor(whole[1], mesh, [Replicate()])), nn.Parameter(whole[2].clone())]
            gradients = [distribute_tensor(grads[0], mesh, [Shard(0)]), distribute_tensor(grads[1], mesh, [Replicate()]), grads[2].clone()]
            optimizer = torch.optim.AdamW(parameters[2:], fused=True)
            monitor = GradientMonitor(zip(names, parameters), optimizer, on_bad="skip", clip=0.5)
            for step in range(3):
                for p, g in zip(parameters, gradients):
                    p.grad = g.clone()
                if step == 1 and dist.get_rank() == 1:
                    parameters[0].grad._local_tensor[0, 0] = float("nan")
                before = parameters[2].detach().clone()
                with monitor.attach():
                    optimizer.step()
                stats = monitor.wait()
                norm = torch.stack([g.double().norm() for g in grads]).norm().item()
                skipped = torch.equal(parameters[2], before)
                assert skipped == (step == 1), step
                if step == 1:
                    assert stats.nan == 1 and stats.bad_count == dist.get_rank(), stats
                    assert dist.get_rank() or "none of them on this rank" in str(stats)
                else:
                    assert abs(stats.norm / norm - 1) < 1e-6, (stats, norm)
                    assert abs(parameters[0].grad.full_tensor().norm() / (0.5 * grads[0].norm() / norm) - 1) < 1e-4
            """) + LEAVE
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            jobs = [subprocess.Popen([sys.executable, "-c", program, str(rank), os.path.join(folder, "meet")], stderr=subprocess.PIPE, text=True)
                    for rank in range(2)]
            for job in jobs:
                said = job.communicate(timeout=1800)[1]
                self.assertEqual(job.returncode, 0, said)


if __name__ == "__main__":
    unittest.main()
