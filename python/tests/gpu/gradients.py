#!/usr/bin/env python3
"""gradients.py: GradientMonitor on a real GPU, next to torch and a summing read; exit 77 without a GPU.

Values and the same bits; policies with and without fused optimizers; GradScaler; a step captured as a CUDA graph; FSDP2
on one rank; what a check costs.  PyTorch's own waits are errors while it runs (set_sync_debug_mode).
"""
import logging
import os
import statistics
import sys
import tempfile
import time
import unittest

try:
    import torch
except ImportError:
    print("SKIPPED: no PyTorch", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print("SKIPPED: no GPU", file=sys.stderr)
    sys.exit(77)

from torch import nn  # noqa: E402

from plimsoll.gradients import GradientMonitor, NonFiniteError, check_activations, check_tensors, precision_test  # noqa: E402

logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
WIDTH = 512


def net(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU())]).to("cuda", dtype)


def batch(dtype=torch.float32):
    return torch.randn(64, WIDTH, device="cuda", dtype=dtype)


def loss(model, x, scale=1.0):
    return model(x).float().square().mean() * scale


def norm_of(model):
    return torch.stack([p.grad.double().norm() for p in model.parameters() if p.grad is not None]).norm().item()


def copies(model):
    return [p.detach().clone() for p in model.parameters()]


def same(model, before):
    return all(torch.equal(p, b) for p, b in zip(model.parameters(), before))


class NoWaits:
    def __enter__(self):
        torch.cuda.set_sync_debug_mode("error")

    def __exit__(self, *_):
        torch.cuda.set_sync_debug_mode("default")


class Values(unittest.TestCase):
    def test_values(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
            named = []
            for i, n in enumerate((1, 7, 8, 9, 4097, 65536, 100003, (1 << 20) + 1)):
                for at in (0, 1, 3):
                    whole = torch.randn(n + at, device="cuda").to(dtype)
                    if i % 3 == 2:
                        whole[n // 2 + at], whole[at] = float("nan"), -float("inf")
                    named.append((f"{n} at {at}", whole[at:]))
            found = check_tensors(named)
            finite = [x[x.isfinite()].double() for _, x in named]
            squares = sum(x.square().sum().item() for x in finite)
            self.assertEqual(found.nan, sum(x.isnan().sum().item() for _, x in named))
            self.assertEqual(found.inf, sum(x.isinf().sum().item() for _, x in named))
            self.assertEqual(found.max_abs, max(x.abs().max().item() for x in finite if x.numel()))
            self.assertLess(abs(found.finite_norm ** 2 / squares - 1), 1e-6)

    def test_same_bits(self):
        monitor = GradientMonitor([(str(i), p) for i, p in enumerate(net(torch.bfloat16).parameters())])
        for _, p in monitor._watched.named:
            p.grad = torch.randn_like(p)
        seen = set()
        for _ in range(100):
            monitor.check()
            seen.add((monitor.wait().finite_norm, tuple(r.norm for r in monitor._watched.cores[0].results())))
        self.assertEqual(len(seen), 1)

    def test_nobody_waits(self):
        model = net()
        monitor = GradientMonitor(model)
        loss(model, batch()).backward()
        monitor.check()
        torch.cuda.synchronize()
        torch.cuda._sleep(2_000_000_000)
        for _ in range(6):
            monitor.check()
        self.assertFalse(torch.cuda.current_stream().query())
        self.assertTrue(monitor.wait().finite)

    def test_weights_and_activations(self):
        model = net()
        model[4].weight.data[3] = float("nan")
        self.assertEqual(check_tensors(model).bad[0].name, "4.weight")
        self.assertEqual(check_activations(model, batch()).bad[0].name, "4")
        self.assertTrue(precision_test(net(), batch()).exercised)


class Policies(unittest.TestCase):
    def steps(self, on_bad, fused):
        model = net()
        optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
        monitor = GradientMonitor(model, optimizer, on_bad=on_bad, clip=1.0)
        raised = 0
        with monitor.attach():
            for step in range(6):
                optimizer.zero_grad()
                loss(model, batch(), 1000).backward()
                if step == 3:
                    model[9].weight.grad[3, 5], model[0].bias.grad[1] = float("nan"), float("inf")
                before = copies(model)
                torch.cuda.synchronize()
                with NoWaits():
                    try:
                        optimizer.step()
                    except NonFiniteError:
                        raised += 1
                self.assertEqual(same(model, before), step == 3)
        monitor.wait()
        bad = monitor.history[3]
        self.assertEqual((bad.nan, bad.inf, bad.bad_count, bad.bad[0].name), (1, 1, 2, "9.weight"))
        self.assertEqual(optimizer.state[model[0].weight]["step"].item(), 5)
        return raised

    def test_all(self):
        self.assertEqual([self.steps("skip", True), self.steps("skip", False), self.steps("raise", True)], [0, 0, 1])

    def test_clip(self):
        for dtype in (torch.float32, torch.bfloat16):
            ours, theirs, x = net(dtype), net(dtype), batch(dtype)
            loss(ours, x, 1000).backward()
            loss(theirs, x, 1000).backward()
            monitor = GradientMonitor(ours)
            monitor.check()
            monitor.clip_(0.5)
            nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
            for p, q in zip(ours.parameters(), theirs.parameters()):
                self.assertLess((p.grad - q.grad).float().norm(), (1e-5 if dtype is torch.float32 else 1e-2) * q.grad.float().norm())

    def test_scaler(self):
        for fused in (False, True):
            model = net()
            optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
            scaler = torch.amp.GradScaler("cuda", init_scale=4096.0, growth_interval=3)
            monitor = GradientMonitor(model, optimizer, scaler=scaler)
            for step in range(8):
                optimizer.zero_grad()
                with torch.autocast("cuda", torch.float16):
                    value = loss(model, batch())
                scaler.scale(value).backward()
                wanted = norm_of(model) / scaler.get_scale()
                if step == 4:
                    model[0].weight.grad[0, 0] = float("inf")
                if step % 2:
                    scaler.unscale_(optimizer)
                with NoWaits():
                    monitor.check()
                before = copies(model)
                scaler.step(optimizer)
                scaler.update()
                stats = monitor.wait()
                self.assertEqual(same(model, before), step == 4)
                if step == 4:
                    self.assertTrue(stats.inf == 1 and stats.scale > 1)
                else:
                    self.assertLess(abs(stats.norm / wanted - 1), 1e-5)
            with GradientMonitor(model, optimizer, scaler=scaler, clip=1e-3) as other, other.attach():
                optimizer.zero_grad()
                scaler.scale(loss(model, batch())).backward()
                wanted = norm_of(model) / scaler.get_scale()
                scaler.step(optimizer)
                self.assertLess(abs(other.wait().norm / wanted - 1), 1e-5)
                self.assertLess(abs(norm_of(model) / 1e-3 - 1), 1e-2)

    def test_graph(self):
        models = net(), net()
        optimizers = [torch.optim.AdamW(m.parameters(), fused=True, capturable=True) for m in models]
        monitors = [GradientMonitor(m, o, on_bad="skip", clip=0.5) for m, o in zip(models, optimizers)]
        for monitor in monitors:
            monitor.attach()
        x = batch()

        def step(k):
            optimizers[k].zero_grad(set_to_none=True)
            loss(models[k], x, 1000).backward()
            optimizers[k].step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(0)
        torch.cuda.current_stream().wait_stream(side)
        for _ in range(3):
            step(1)
        graph = torch.cuda.CUDAGraph()
        optimizers[0].zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss(models[0], x, 1000).backward()
            optimizers[0].step()
        for i in range(6):
            x.copy_(batch())
            if i == 3:
                x[0, 0] = float("nan")
            before = copies(models[0])
            graph.replay()
            monitors[0].replayed()
            step(1)
            ours, eager = monitors[0].wait(), monitors[1].wait()
            self.assertEqual(same(models[0], before), i == 3)
            self.assertEqual((ours.nan, ours.inf, ours.finite), (eager.nan, eager.inf, i != 3))
            if ours.finite:
                self.assertLess(abs(ours.norm / eager.norm - 1), 1e-5)

    def test_fsdp2(self):
        from torch.distributed.fsdp import fully_shard

        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("nccl", init_method=f"file://{folder}/meet", rank=0, world_size=1,
                                                 device_id=torch.device("cuda", 0))
            model, plain, x = net(), net(), batch()
            fully_shard(model)
            optimizer = torch.optim.AdamW(model.parameters(), fused=True)
            monitor = GradientMonitor(model, optimizer, on_bad="skip", clip=0.5)
            with monitor.attach():
                for step in range(4):
                    optimizer.zero_grad()
                    loss(model, x, 1000).backward()
                    if step == 0:
                        loss(plain, x, 1000).backward()
                    if step == 2:
                        model[0].bias.grad._local_tensor[3] = float("nan")
                    before = [p._local_tensor.clone() for p in model.parameters()]
                    with NoWaits():
                        optimizer.step()
                    stats = monitor.wait()
                    self.assertEqual(all(torch.equal(p._local_tensor, b) for p, b in zip(model.parameters(), before)), step == 2)
                    if step == 0:
                        self.assertLess(abs(stats.norm / norm_of(plain) - 1), 1e-5)
            torch.distributed.destroy_process_group()


def median_ms(call, n=25, behind=False):
    """Of an idle GPU, with what the host takes until it begins; behind: of one that is busy meanwhile, as in a loop."""
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    taken = []
    for _ in range(n):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if behind:
            torch.cuda._sleep(4_000_000)  # 2 ms
        begin.record()
        call()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end))
    return statistics.median(taken)


def costs():
    """Printed, not judged: another GPU has other numbers."""
    for label, size, n, dtype in (("1.3 B bfloat16, 292 tensors", 1_300_000_000, 292, torch.bfloat16),
                                  ("350 M float32, 292 tensors", 350_000_000, 292, torch.float32),
                                  ("350 M float32, 1,500 tensors", 350_000_000, 1500, torch.float32),
                                  ("700 M float16, 292 tensors", 700_000_000, 292, torch.float16)):
        named = [(str(i), nn.Parameter(torch.empty(size // n, device="cuda", dtype=dtype))) for i in range(n)]
        for _, p in named:
            p.grad = torch.randn_like(p).mul_(1e-3)
        flat = torch.zeros(sum(p.numel() * p.element_size() for _, p in named) // 4, device="cuda")
        read = median_ms(lambda: flat.sum())
        scaled = median_ms(lambda: flat.mul_(0.5))
        del flat
        monitor = GradientMonitor(named)
        monitor.check()
        limit = [monitor.wait().norm]

        def unclipped():
            monitor.check()
            monitor.clip_(1e9)

        def clipped():
            limit[0] *= 0.95
            monitor.check()
            monitor.clip_(limit[0])

        rows = {name: (median_ms(call), median_ms(call, behind=True))
                for name, call in (("check", monitor.check), ("with clip_ that writes nothing", unclipped), ("that clips", clipped))}
        theirs = median_ms(lambda: nn.utils.clip_grad_norm_([p for _, p in named], 1e9), 9)
        moved = [p.grad.clone() for _, p in named]

        def host_ms(move):
            taken = []
            for _ in range(12):
                for i, (_, p) in enumerate(named if move else ()):
                    moved[i], p.grad = p.grad, moved[i]
                begin = time.perf_counter()
                monitor.check()
                taken.append(1e3 * (time.perf_counter() - begin))
                torch.cuda.synchronize()
            return statistics.median(taken)

        said = ", ".join(f"{name} {idle:.3f} / {busy:.3f}" for name, (idle, busy) in rows.items())
        print(f"{label}: read-sum {read:.3f} ms, scaling in place {scaled:.3f}; of an idle GPU / behind other work: {said}, clip_grad_norm_ {theirs:.3f}; check is "
              f"{100 * read / rows['check'][0]:.0f} / {100 * read / rows['check'][1]:.0f} %; the call takes {host_ms(False):.3f} ms of the "
              f"host, {host_ms(True):.3f} with other addresses", flush=True)
        monitor.close()
        del named, moved, monitor
        torch.cuda.empty_cache()


if __name__ == "__main__":
    os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
    tests = unittest.main(exit=False)
    costs()
    sys.exit(not tests.result.wasSuccessful())
