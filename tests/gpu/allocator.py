#!/usr/bin/env python3
"""allocator.py run MODE PROGRAM | check MODE | all OUT [TRIPLES [PROGRAM[=TRIPLES]...]]: libplimsoll_alloc.so on a real GPU.

MODE is native, es (expandable segments) or plimsoll; needs PyTorch with CUDA, and PLIMSOLL_ALLOC_LIBRARY.  `run` trains one program
and prints JSON; `check` fills every block with its number on its stream and reads it back; `all` runs interleaved triples, each
run a fork of this process before CUDA starts (a process of its own, less the import), and prints a table with intervals.
SECONDS_MAX: `all` begins no run after them.  Exits with 77 where there is no GPU.
"""
import json
import math
import os
import signal
import statistics
import sys
import time
import traceback

MODES = ("native", "es", "plimsoll")
PROGRAMS = ("gpt2", "ckpt", "llama_var", "tiny=5", "serve")
RUN_S = 60  # a run that takes longer hangs
MARGIN = 1.01, 64 << 20  # of live memory, that a plan may take


def start(mode):
    if mode == "es":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    import torch
    if mode.startswith("plimsoll"):
        import plimsoll
        plimsoll.allocator.use(learn=mode != "plimsoll_nolearn", plan=os.environ.get("PLAN"))
    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    return torch


def llama(torch, width, layers, heads, vocab, checkpoint=False):
    nn, F = torch.nn, torch.nn.functional
    from torch.utils.checkpoint import checkpoint as run_checkpoint

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            inner = width * 8 // 3 // 64 * 64
            self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
            self.down = nn.Linear(inner, width, bias=False)

        def forward(self, x):
            b, s, _ = x.shape
            q, k, v = (t.view(b, s, heads, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
            x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, width))
            h = self.n2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(vocab, width), nn.RMSNorm(width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.head = nn.Linear(width, vocab, bias=False)

        def forward(self, ids, labels=None):
            x = self.embed(ids)
            for layer in self.layers:
                x = run_checkpoint(layer, x, use_reentrant=False) if checkpoint else layer(x)
            logits = self.head(self.norm(x))
            return logits if labels is None else F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    with torch.device("cuda"):
        return Model()


def train(torch, model, batches):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for ids in batches:
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return times, float(loss.detach())


def program(torch, name):
    torch.manual_seed(0)

    def ids(batch, length, vocab):
        return torch.randint(vocab, (batch, length), device="cuda")

    if name == "gpt2":
        return train(torch, llama(torch, 768, 12, 12, 50257), [ids(8, 1024, 50257)] * 24)
    if name == "ckpt":
        return train(torch, llama(torch, 768, 12, 12, 32000, checkpoint=True), [ids(8, 2048, 32000)] * 16)
    if name == "llama":
        return train(torch, llama(torch, 1024, 24, 16, 32000), [ids(6, 1024, 32000)] * 12)
    if name == "tiny":
        return train(torch, llama(torch, 256, 4, 4, 1000), [ids(2, 128, 1000)] * 150)
    if name == "llama_var":
        lengths = [2048, 700, 1300, 350, 1900, 900, 1600, 500, 1100, 2000, 240, 1450, 820, 1750]
        return train(torch, llama(torch, 1024, 24, 16, 32000), [ids(6, n, 32000) for n in lengths * 2])
    model = llama(torch, 768, 12, 12, 32000).bfloat16()
    kept, times = [], []
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for i in range(70):
            batch, length = (int(torch.randint(1, m, (1,), generator=generator)) for m in (9, 1500))
            torch.cuda.synchronize()
            began = time.perf_counter()
            out = model(ids(batch, length, 32000))
            kept.append(out[:, -64:].clone())
            if len(kept) > 12:
                kept.pop(int(torch.randint(12, (1,), generator=generator)))
            del out
            torch.cuda.synchronize()
            times.append(time.perf_counter() - began)
    return times, 0.0


def run(mode, name):
    torch = start(mode)
    times, loss = program(torch, name)
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    late = sorted(times[len(times) // 3:])
    print(json.dumps({
        "mode": mode, "program": name, "ms": late[len(late) // 2] * 1e3, "total_ms": sum(times) * 1e3,
        "first_ms": [t * 1e3 for t in times[:6]], "loss": loss,
        "reserved_peak": stats["reserved_bytes.all.peak"], "allocated_peak": stats["allocated_bytes.all.peak"],
        "requested_peak": stats["requested_bytes.all.peak"], "retries": stats["num_alloc_retries"],
        "device_allocs": stats["num_device_alloc"], "device_used": total - free,
        "plan": {k: v for k, v in stats.items() if k.startswith("plan")}}))


# ---- bytes ----

def pattern_check(torch, seed, seconds):
    """Blocks with their number in every word, on three streams, some handed to another stream."""
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    generator = torch.Generator().manual_seed(seed)
    live, wrong, made, bad = [], torch.zeros((), dtype=torch.int64, device="cuda"), 0, []
    torch.cuda.synchronize()
    end = time.time() + seconds

    def number(most):
        return int(torch.randint(most, (1,), generator=generator))

    while time.time() < end:
        if len(live) < 60 and number(3):
            s = streams[number(3)]
            n = 1 + number(1 << (4 + number(20)))
            with torch.cuda.stream(s):
                t = torch.empty(n, dtype=torch.int32, device="cuda")
                t.fill_(made)
            live.append((t, made, s))
            made += 1
        elif live:
            t, what, s = live.pop(number(len(live)))
            with torch.cuda.stream(s):
                bad.append((t != what).sum())
            if number(4) == 0:  # read on another stream, slowly, after it was given up
                other = streams[(streams.index(s) + 1) % 3]
                other.wait_stream(s)
                with torch.cuda.stream(other):
                    torch.cuda._sleep(2_000_000)
                    bad.append((t != what).sum())
                t.record_stream(other)
            del t
        if len(bad) > 500:
            torch.cuda.synchronize()
            wrong += torch.stack(bad).sum()
            bad = []
        if made % 400 == 399:
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    if bad:
        wrong += torch.stack(bad).sum()
    return {"blocks": made, "wrong_words": int(wrong)}


def late_reader(torch, tell):
    """A block read on a second stream 5 ms late: with record_stream it must hold, without it must not (the control)."""
    side, wrong = torch.cuda.Stream(), 0
    for i in range(60):
        t = torch.full((8 << 20,), i, dtype=torch.int32, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(10_000_000)
            bad = (t != i).sum()
        if tell:
            t.record_stream(side)
        del t
        again = torch.full((8 << 20,), -1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
        wrong += int(bad > 0)
        del again
    return wrong


def graph_check(torch):
    """What runs beside a graph, on the capture's own stream too, must not be written by it."""
    x = torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(3):
            y = (x * 2 + 1).relu()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        a = x * 2
        b = a + 1
        del a
        y = b.relu()
    bystanders = []
    with torch.cuda.stream(side):
        for i in range(40):
            bystanders.append((torch.full((1 << 20,), float(i), device="cuda"), float(i)))
    torch.cuda.synchronize()
    wrong = 0
    for i in range(10):
        x.fill_(i)
        graph.replay()
        torch.cuda.synchronize()
        wrong += int((y != 2 * i + 1).sum())
    wrong += sum(int((t != v).sum()) for t, v in bystanders)
    del graph, y, b
    torch.cuda.empty_cache()
    return wrong


def oom_check(torch):
    """Refused, caught, and on we go."""
    said = []
    for bytes_ in (1 << 40, 200 << 30):
        try:
            torch.empty(bytes_, dtype=torch.uint8, device="cuda")
            said.append("no error")
        except torch.OutOfMemoryError as e:
            said.append("OutOfMemoryError: " + str(e))
        except RuntimeError as e:
            said.append(type(e).__name__ + ": " + str(e)[:300])
    held = []
    try:
        while True:
            held.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    n = len(held)
    held.clear()
    torch.cuda.synchronize()
    ok = bool((torch.ones(1000, device="cuda").sum() == 1000).item())
    return {"said": said, "held_gib": n, "lives": ok}


def pair_ns(torch):
    """Allocate and free through PyTorch's C++ with 1000 live, beside torch.empty from Python."""
    live = [torch.empty(1 + 37 * i, device="cuda") for i in range(1000)]
    out = {}
    for n in (512, 20 << 20):
        for _ in range(200):
            torch.empty(n, dtype=torch.uint8, device="cuda")
        began = time.perf_counter()
        for _ in range(20000):
            torch.empty(n, dtype=torch.uint8, device="cuda")
        out[str(n)] = (time.perf_counter() - began) / 20000 * 1e9
    del live
    return out


def guarded(call, *args):
    try:
        return call(*args)
    except Exception as e:  # noqa: BLE001 - the report says which check failed, and the others go on
        return f"{type(e).__name__}: {e}"[:500]


def check(mode):
    torch = start(mode)
    out = {"mode": mode}
    if mode.startswith("plimsoll"):
        import plimsoll
        out["throws"] = plimsoll.allocator.throws()
    out["pair_ns"] = guarded(pair_ns, torch)
    out["patterns"] = guarded(pattern_check, torch, 1, 6.0)
    out["late_reader_told"] = guarded(late_reader, torch, True)
    out["late_reader_control"] = guarded(late_reader, torch, False)
    out["graph_wrong"] = guarded(graph_check, torch)
    out["oom"] = guarded(oom_check, torch)
    out["patterns_after"] = guarded(pattern_check, torch, 2, 3.0)
    if mode.startswith("plimsoll"):
        path = os.path.join(os.environ.get("OUT", "/tmp"), "plimsoll_snapshot.pickle")
        plimsoll.allocator.record(10000)
        keep = [torch.empty(3 << 20, device="cuda") for _ in range(5)]
        guarded(torch.cuda.memory._dump_snapshot, path)
        out["summary"] = guarded(lambda: torch.cuda.memory_summary()[:200])
        torch.backends.cudnn.benchmark = True
        out["conv"] = guarded(lambda: float(torch.nn.functional.conv2d(torch.ones(2, 3, 32, 32, device="cuda"),
                                                                      torch.ones(4, 3, 3, 3, device="cuda")).sum()))
        out["accumulated"] = len(keep)
    print(json.dumps(out))


def fork_run(out, mode, name):
    """A run's row, from a child that sets its environment before CUDA starts."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        errors = os.open(os.path.join(out, "errors.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(write, 1)
        os.dup2(errors, 2)
        signal.alarm(RUN_S)
        try:
            run(mode, name)
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as f:
        text = f.read()
    os.waitpid(child, 0)
    try:
        return json.loads(text.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"mode": mode, "program": name, "failed": text[-300:]}


def interval(ratios):
    """Geometric mean of ratios of pairs and its 95 % interval, by Student's t of their logarithms."""
    t = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    if len(logs) not in t:
        return f"{math.exp(mean):.3f}"
    half = t[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.3f} ({math.exp(mean - half):.3f} to {math.exp(mean + half):.3f})"


def table(rows):
    """Markdown: a line a program; a ratio is Plimsoll's to the better of the others in the same triple."""
    print("| program | triples | live, GB | native | expandable | Plimsoll | over live | within 1 % + 64 MiB | reserved, ratio "
          "| ms a step native | expandable | Plimsoll | step, ratio |")
    print("|---" * 13 + "|")
    for name in dict.fromkeys(r["program"] for r in rows):
        triples = {}
        for r in rows:
            if r["program"] == name and "failed" not in r:
                triples.setdefault(r["round"], {})[r["mode"]] = r
        whole = [t for t in triples.values() if len(t) == len(MODES)]
        if not whole:
            continue

        def ratio(what):
            return interval([t["plimsoll"][what] / min(t["native"][what], t["es"][what]) for t in whole])

        live = max(t["plimsoll"]["requested_peak"] for t in whole)
        reserved = {m: max(t[m]["reserved_peak"] for t in whole) for m in MODES}
        ms = ["%.1f–%.1f" % (min(t[m]["ms"] for t in whole), max(t[m]["ms"] for t in whole)) for m in MODES]
        print("| %s | %d | %.3f | %s | +%.1f %% | %s | %s | %s | %s |" % (
            name, len(whole), live / 1e9, " | ".join("%.3f" % (reserved[m] / 1e9) for m in MODES),
            100 * (reserved["plimsoll"] / live - 1), "yes" if reserved["plimsoll"] <= live * MARGIN[0] + MARGIN[1] else "no",
            ratio("reserved_peak"), " | ".join(ms), ratio("ms")), flush=True)


def all_(out, triples="3", *programs):
    import torch._dynamo  # noqa: F401  what a first step would import
    import torch.utils.checkpoint

    import plimsoll.allocator  # noqa: F401

    for fill in ("kaiming_uniform_", "uniform_", "normal_", "ones_"):  # seconds of random numbers; memory and time are the same
        setattr(torch.nn.init, fill, lambda tensor, *a, **k: tensor.detach().zero_())
    wanted = {name: int(n or triples) for name, _, n in (p.partition("=") for p in programs or PROGRAMS)}
    end, rows = time.time() + float(os.environ.get("SECONDS_MAX", "3600")), []
    with open(os.path.join(out, "allocator.jsonl"), "w", encoding="utf-8") as f:
        for k in range(max(wanted.values())):
            for name in [name for name, n in wanted.items() if k < n]:
                for mode in MODES[k % 3:] + MODES[:k % 3]:
                    began = time.time()
                    if began > end:
                        print("NOT RUN:", k, name, mode)
                        continue
                    rows.append({**fork_run(out, mode, name), "round": k, "wall_s": round(time.time() - began, 1)})
                    print(json.dumps(rows[-1]), file=f, flush=True)
    if any("no GPU" in r.get("failed", "") for r in rows):
        sys.exit(77)
    table(rows)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:4])
    elif sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        all_(*sys.argv[2:])
