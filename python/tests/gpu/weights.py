#!/usr/bin/env python3
"""weights.py [FOLDER]: plimsoll.weights on a real GPU next to its anchors; exit 77 without a GPU.

Makes three checkpoints of 4.03 GB in FOLDER (/dev/shm), loads them, and swaps them in one model: GB/s, and whether what
arrives, and what the model computes with it, is bitwise what a fresh model computes.  One line each: what, and the numbers.
"""
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time

try:
    import torch
    from safetensors.torch import load_file as theirs, save_file
except ImportError:
    print("SKIPPED: no PyTorch, or no safetensors", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available():
    print("SKIPPED: no GPU", file=sys.stderr)
    sys.exit(77)

from torch import nn

from plimsoll.weights import WeightCache, WeightSwapper, load_file

WIDTH, BLOCKS, REPEATS = 4096, 40, 8
failed = []


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.a, self.b, self.c = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x):
        h = self.norm(x)
        return x + self.c(torch.tanh(self.a(h)) * self.b(h))


class Net(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def made(seed, blocks=BLOCKS):
    torch.manual_seed(seed)
    with torch.device("cuda"), torch.no_grad():
        net = Net(blocks).to(torch.bfloat16).eval()
        for parameter in net.parameters():
            parameter.normal_(0, 0.02)
        net.norm.running_mean.normal_()
        net.norm.running_var.uniform_(0.5, 2)
    return net


def seconds(work):
    torch.cuda.synchronize()
    began = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return time.perf_counter() - began, found


def tell(what, *told, good=True):
    print(f"{what}: {' '.join(map(str, told))}{'' if good else '   NOT BITWISE EQUAL'}", flush=True)
    if not good:
        failed.append(what)


def rate(size, times):
    return f"{size / min(times) / 1e9:.1f} GB/s, median {size / statistics.median(times) / 1e9:.1f}"


def loads(files, size):
    with torch.no_grad():
        for name, times, anchor in (("a", 4, lambda path: theirs(path, device="cuda")),
                                    ("c", 2, lambda path: torch.load(path, map_location="cuda", weights_only=True))):
            ours, anchors = [], []
            for _ in range(times):
                took, state = seconds(lambda: load_file(files[name]))
                ours.append(took)
                took, other = seconds(lambda: anchor(files[name]))
                anchors.append(took)
                good = sorted(state) == sorted(other) and all(torch.equal(state[key], other[key]) for key in other)
                del state, other
            tell(f"load_file {os.path.basename(files[name])}", rate(size, ours), "; anchor", rate(size, anchors), good=good)


def swaps(model, files, wanted, x, size):
    at = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    host = torch.empty(1 << 30, dtype=torch.uint8).pin_memory()
    tell("anchor: a copy of 1 GiB", rate(1 << 30, [seconds(lambda: at.copy_(host, non_blocking=True))[0] for _ in range(5)]))
    del at, host
    for what, options in (("page-locked", {"budget": 10 << 30}), ("through the ring", {"budget": 1 << 20}),
                          ("through the ring, 8 threads", {"budget": 1 << 20, "threads": 8}),
                          ("on the GPU", {"budget": 1 << 20, "gpu_bytes": 10 << 30})):
        with WeightCache(**options) as cache, torch.no_grad():
            for name in "ab":
                cache.register(name, files[name])
            with WeightSwapper(model, cache, missing="error", keep_base=False) as swapper:
                times, good = [], True
                for i in range(REPEATS + 2):
                    name = "ab"[i % 2]
                    took, told = seconds(lambda: swapper.load(name))
                    times += [took] if i > 1 else []
                    good = good and torch.equal(model(x), wanted[name])
                queued = []
                for name in "abbaabab":  # nothing waits in between
                    with swapper.use(name):
                        queued.append((name, model(x)))
                good = good and all(torch.equal(y, wanted[name]) for name, y in queued)
        tell(f"swap, {what} ({told.tier})", rate(size, times), f"; queued in {told.seconds * 1e3:.1f} ms", good=good)


def overlap(model, files, wanted, x, size):
    def work():
        for _ in range(10):
            y = model(x)
        return y

    with torch.no_grad():
        alone = min(seconds(work)[0] for _ in range(3))
        for ahead in (False, True):
            with WeightCache(budget=int(size * 2.1)) as cache:  # two of three
                for name, path in files.items():
                    cache.register(name, path)
                with WeightSwapper(model, cache, missing="error", keep_base=False) as swapper:
                    for name in files:
                        swapper.load(name)
                    good, order = True, [*files] * 3
                    began = time.perf_counter()
                    for i, name in enumerate(order):
                        with swapper.use(name):
                            if ahead:
                                cache.prefetch(*order[i + 1:i + 2])
                            good = good and torch.equal(work(), wanted[name])
                    each = (time.perf_counter() - began) / len(order)
            tell("the next is read ahead" if ahead else "each is read when it is used",
                 f"{each * 1e3:.0f} ms a checkpoint, of these {alone * 1e3:.0f} computing", good=good)


def swapped(fresh, model, folder, run):
    """Is what run() gives with each checkpoint what it gave with a model of its own?"""
    with WeightCache(budget=2 << 30) as cache:
        for name in fresh:
            cache.register(name, os.path.join(folder, name))
        with WeightSwapper(model, cache) as swapper:
            good = True
            for name in "pqpqqpp":
                with swapper.use(name):
                    good = all(map(torch.equal, run(), fresh[name])) and good
    return good


def captured(work):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = work()

    def run():
        graph.replay()
        return [t.detach().clone() for t in out]

    return run


def inference(net, x):
    def work():
        with torch.no_grad():
            return [net(x)]

    return captured(work)


def training(net, x):
    """A step that changes parameters and running statistics; what it leaves."""
    net.train()

    def work():
        net.zero_grad(set_to_none=False)
        net(x).float().square().mean().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(parameter.grad, alpha=0.125)
        return [*net.parameters(), *net.buffers()]

    return captured(work)


def compiled(mode):
    def make(net, x):
        run = torch.compile(net, mode=mode)

        def work():
            with torch.no_grad():
                return [run(x).clone()]

        for _ in range(4):  # records its graphs
            work()
        return work

    return make


def graphs(folder):
    """Captured and compiled modules: the same program on swapped weights, next to a fresh model with a program of its own."""
    x = torch.randn(512, WIDTH, device="cuda", dtype=torch.bfloat16)
    for name, seed in (("p", 8), ("q", 9)):
        save_file(made(seed, 2).state_dict(), os.path.join(folder, name))
    for what, make in (("a captured graph", inference), ("a captured training step", training),
                       ("compiled, reduce-overhead", compiled("reduce-overhead")), ("compiled, default", compiled("default"))):
        began, fresh = time.perf_counter(), {}
        for name, seed in (("p", 8), ("q", 9)):
            torch._dynamo.reset()
            net = made(seed, 2)
            run = make(net, x)
            net.load_state_dict(theirs(os.path.join(folder, name), device="cuda"))  # what warming up has changed
            fresh[name] = run()
            del net, run
        torch._dynamo.reset()
        net = made(7, 2)
        good = swapped(fresh, net, folder, make(net, x))
        tell(what, f"{time.perf_counter() - began:.1f} s", good=good)
        del net
        gc.collect()
        torch.cuda.empty_cache()


def main():
    folder = tempfile.mkdtemp(prefix="plimsoll-weights-", dir=sys.argv[1] if len(sys.argv) > 1 else "/dev/shm")
    try:
        tell("PyTorch", torch.__version__, "on", torch.cuda.get_device_name(), f", {os.cpu_count()} cores")
        graphs(folder)
        model = made(1)
        size = sum(t.numel() * t.element_size() for t in model.state_dict().values())
        x = torch.randn(4096, WIDTH, device="cuda", dtype=torch.bfloat16)
        files, wanted = {name: os.path.join(folder, name) for name in "abc"}, {}
        for seed, (name, path) in enumerate(files.items(), 2):
            net = made(seed)
            with torch.no_grad():
                wanted[name] = net(x)
            torch.save(net.state_dict(), path) if name == "c" else save_file(net.state_dict(), path)
            del net
        gc.collect()
        torch.cuda.empty_cache()
        tell(f"{size / 1e9:.2f} GB")
        loads(files, size)
        swaps(model, files, wanted, x, size)
        overlap(model, files, wanted, x, size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
