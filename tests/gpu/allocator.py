#!/usr/bin/env python3
"""allocator.py run MODE PROGRAM [LAPS] | check MODE | all OUT [N [PROGRAM[=N]...]]: libplimsoll_alloc.so on a real GPU.

MODE is native, es (expandable segments) or plimsoll; needs PyTorch with CUDA, and PLIMSOLL_ALLOC_LIBRARY.  `run` trains one program
and prints JSON (with DETERMINISTIC=1 the loss is the same to the bit, whatever the mode); `check` fills every block with its number on its stream and reads it back; `all` compares the three: N times,
three fresh processes live at once and take turns of a lap of steps (a machine's speed changes between processes that run one
after the other by more than what is sought), and what is known so far is a table in OUT/table.md.  The program `pair` is what
allocating and freeing costs.  SECONDS_MAX: `all` begins nothing after them.  Exits with 77 where there is no GPU.
"""
import ctypes
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import traceback

MODES = ("native", "es", "plimsoll")
PROGRAMS = ("pair=1", "gpt2", "ckpt", "llama", "tiny", "serve=3", "llama_var=3")
RUN_S = 120  # a process that takes longer hangs
WARM_LAPS = {"tiny": 10, "pair": 0, "serve": 60}  # others 2; what serves has spent its credit of moves by then
ROUNDS = {"llama_var": 3, "serve": 20, "tiny": 120, "pair": 3}  # of a generation; others 5
ON_THE_HOST = ("tiny", "serve")  # what decides their time: the three share two cores, as these differ by a tenth too
CORES = (4, 6)
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


class Training:
    """A lap runs each batch once; ms of its steps by events, without a wait in between."""

    def __init__(self, torch, model, batches):
        self.torch, self.model, self.batches = torch, model, batches
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        self.loss = None

    def step(self, ids):
        with self.torch.autocast("cuda", dtype=self.torch.bfloat16):
            loss = self.model(ids, ids)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.loss = loss.detach()

    def lap(self):
        return timed(self.torch, [lambda ids=ids: self.step(ids) for ids in self.batches])


class Serving:
    """Requests of any batch and length; the end of each answer is kept for a while."""

    def __init__(self, torch, model):
        self.torch, self.model, self.kept, self.loss = torch, model, [], None
        self.generator = torch.Generator().manual_seed(1)

    def number(self, low, high):
        return int(self.torch.randint(low, high, (1,), generator=self.generator))

    def request(self):
        attention = self.torch.nn.attention
        batch, length = self.number(1, 9), self.number(1, 1500)
        # cuDNN's attention would be compiled for each length, 40 ms of the host's
        with self.torch.no_grad(), attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            out = self.model(self.torch.randint(32000, (batch, length), device="cuda"))
        self.kept.append(out[:, -64:].clone())
        if len(self.kept) > 12:
            self.kept.pop(self.number(0, 12))

    def lap(self):
        return timed(self.torch, [self.request] * 70)


def timed(torch, steps):
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(steps) + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for step, mark in zip(steps, marks[1:]):
        step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


LENGTHS = [2048, 700, 1300, 350, 1900, 900, 1600, 500, 1100, 2000, 240, 1450, 820, 1750]


def program(torch, name):
    torch.manual_seed(0)

    def ids(batch, length, vocab):
        return torch.randint(vocab, (batch, length), device="cuda")

    if name == "gpt2":
        return Training(torch, llama(torch, 768, 12, 12, 50257), [ids(8, 1024, 50257)] * 10)
    if name == "ckpt":
        return Training(torch, llama(torch, 768, 12, 12, 32000, checkpoint=True), [ids(8, 2048, 32000)] * 10)
    if name == "llama":
        return Training(torch, llama(torch, 1024, 24, 16, 32000), [ids(6, 1024, 32000)] * 10)
    if name == "tiny":
        return Training(torch, llama(torch, 256, 4, 4, 1000), [ids(2, 128, 1000)] * 8)
    if name == "llama_var":
        return Training(torch, llama(torch, 1024, 24, 16, 32000), [ids(6, n, 32000) for n in LENGTHS])
    return Serving(torch, llama(torch, 768, 12, 12, 32000).bfloat16())


def alike(name):
    """Is every step of a lap the same work?"""
    return name not in ("llama_var", "serve")


def lap_ms(name, steps):
    """A step of a lap: the median of those behind the first two where all are alike, else the mean."""
    return statistics.median(steps[2:]) if alike(name) else statistics.fmean(steps)


def memory_row(torch, mode, name):
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return {"mode": mode, "program": name, "reserved_peak": stats["reserved_bytes.all.peak"],
            "allocated_peak": stats["allocated_bytes.all.peak"], "requested_peak": stats["requested_bytes.all.peak"],
            "retries": stats["num_alloc_retries"], "device_allocs": stats["num_device_alloc"], "device_used": total - free,
            "plan": {k: v for k, v in stats.items() if k.startswith("plan")}}


def deterministic(torch):
    """The same numbers to the bit; with warnings alone attention's backward pass still adds in any order."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.utils.deterministic.fill_uninitialized_memory = False


def run(mode, name, laps="3"):
    torch = start(mode)
    if os.environ.get("DETERMINISTIC"):
        deterministic(torch)
    work = program(torch, name)
    first = work.lap()
    late = [lap_ms(name, work.lap()) for _ in range(int(laps) - 1)]
    loss = None if work.loss is None else float(work.loss).hex()
    print(json.dumps({**memory_row(torch, mode, name), "ms": statistics.median(late), "first_ms": first[:6], "loss": loss}))


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
    """What runs next to a graph, on the capture's own stream too, must not be written by it."""
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


def pair_library(torch):
    """allocator_pair.cc, compiled against this PyTorch; made once."""
    out = os.path.join(os.environ.get("OUT", "/tmp"), "allocator_pair.so")
    if not os.path.exists(out):
        home = os.path.dirname(torch.__file__)
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "allocator_pair.cc")
        subprocess.run(["g++", "-O2", "-std=c++20", "-shared", "-fPIC", "-o", out, source, f"-I{home}/include", f"-L{home}/lib", "-lc10", "-lc10_cuda"],
                       check=True, timeout=90)
    library = ctypes.CDLL(out)
    library.pair_cycle.restype = library.pair_churn.restype = ctypes.c_double
    return library


def pair_ns(torch):
    """ns to allocate and free through c10: one size, a cycle of large ones (a plan's places, once learned), 1000 live."""
    torch.empty(1, device="cuda")
    library, out = pair_library(torch), {}
    for name, sizes in (("512 B", [512]), ("20 MiB", [20 << 20]), ("cycle of 64", [(2 << 20) + (i << 16) for i in range(64)])):
        out[name] = library.pair_cycle((ctypes.c_size_t * len(sizes))(*sizes), len(sizes), 20000 // len(sizes))
    out["1000 live"] = library.pair_churn(1000, 50000)
    for _ in range(200):
        torch.empty(1024, device="cuda")
    began = time.perf_counter()
    for _ in range(20000):
        torch.empty(1024, device="cuda")
    out["torch.empty from Python"] = (time.perf_counter() - began) / 20000 * 1e9
    out["plan"] = {k: v for k, v in torch.cuda.memory_stats().items() if k.startswith("plan.") and v}
    return out


def accelerate_check(torch):
    """Accelerate's own retry knows the exception."""
    from accelerate.utils import find_executable_batch_size
    tried = []

    @find_executable_batch_size(starting_batch_size=512)
    def fill(gib):
        tried.append(gib)
        return torch.empty(gib << 30, dtype=torch.uint8, device="cuda").numel() >> 30

    return {"found_gib": fill(), "tried": tried}


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
    out["accelerate"] = guarded(accelerate_check, torch)
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


# ---- turns ----

class Runner:
    """A program in a process of its own (a fork of this one before CUDA starts), which runs only when told."""

    def __init__(self, out, mode, name):
        self.mode, self.name = mode, name
        answers, write = os.pipe()
        read, orders = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            errors = os.open(os.path.join(out, "errors.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.close(answers)
            os.close(orders)
            os.dup2(errors, 2)
            signal.alarm(RUN_S)
            try:
                with os.fdopen(read, encoding="utf-8") as f, os.fdopen(write, "w", encoding="utf-8") as to:
                    self.serve(f, to)
            except SystemExit as e:
                os._exit(e.code)
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os.close(write)
        os.close(read)
        self.answers, self.orders = os.fdopen(answers, encoding="utf-8"), os.fdopen(orders, "w", encoding="utf-8")

    def serve(self, orders, to):
        if self.name == "tiny":
            self.pin()
        torch = start(self.mode)
        work = pair_ns if self.name == "pair" else program(torch, self.name).lap
        for order in orders:
            if order == "end\n":  # a pipe's end would not do: the forks that came later hold it open
                sys.exit(0)
            if order == "pin\n":
                answer = self.pin()
            elif order == "lap\n":
                answer = work(torch) if self.name == "pair" else work()
            else:
                answer = memory_row(torch, self.mode, self.name)
            print(json.dumps(answer), file=to, flush=True)

    def pin(self):
        if set(CORES) <= os.sched_getaffinity(0):
            os.sched_setaffinity(0, CORES)

    def tell(self, order):
        try:
            print(order, file=self.orders, flush=True)
        except BrokenPipeError:
            pass

    def answer(self):
        """None where it died."""
        line = self.answers.readline()
        return json.loads(line) if line else None

    def ask(self, order):
        self.tell(order)
        return self.answer()

    def end(self):
        """Its exit status."""
        self.tell("end")
        self.answers.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def generation(out, name, number, end):
    """Three fresh processes, warmed up side by side, then rounds of a lap each in a shuffled order; their rows."""
    shuffle = random.Random(f"{name} {number}").shuffle
    runners = [Runner(out, mode, name) for mode in MODES]
    laps = {mode: [] for mode in MODES}
    for _ in range(WARM_LAPS.get(name, 2)):
        for r in runners:
            r.tell("lap")
        for r in runners:
            r.answer()
    if name in ON_THE_HOST:
        for r in runners:
            r.ask("pin")
    for _ in range(ROUNDS.get(name, 5)):
        shuffle(runners)
        for r in runners:
            if time.time() < end:
                laps[r.mode].append(r.ask("lap"))
    rows = [{**(r.ask("memory") or {"mode": r.mode, "program": name, "failed": True}), "generation": number, "laps": laps[r.mode]}
            for r in runners]
    if 77 in [r.end() for r in runners]:
        print("no GPU")
        sys.exit(77)
    return rows


def interval(ratios):
    """Geometric mean of ratios and its 95 % interval, by Student's t of their logarithms."""
    t = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 11: 2.228, 12: 2.201}
    logs = [math.log(r) for r in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return "%.3f (one)" % math.exp(mean)
    half = t.get(len(logs), 2.2 if len(logs) < 20 else 2.1 if len(logs) < 60 else 2.0) * statistics.stdev(logs) / math.sqrt(len(logs))
    return "%.3f (%.3f to %.3f)" % (math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def generations_of(rows, name):
    """mode -> row, of each generation that is whole."""
    by_number = {}
    for r in rows:
        if r["program"] == name and not r.get("failed") and r["laps"] and all(r["laps"]):
            by_number.setdefault(r["generation"], {})[r["mode"]] = r
    return [g for g in by_number.values() if len(g) == len(MODES)]


def times(generations, name):
    """mode -> [[ms of a lap's step] of each generation]; laps that not all three ran are left out."""
    whole = [min(len(g[m]["laps"]) for m in MODES) for g in generations]
    return {m: [[lap_ms(name, lap) for lap in g[m]["laps"][:n]] for g, n in zip(generations, whole)] for m in MODES}


def program_line(generations, name):
    """A line of the table: the ratios are Plimsoll's to the one of the others that is better over all generations."""
    ms = times(generations, name)
    best_ms = min(("native", "es"), key=lambda m: statistics.median(x for g in ms[m] for x in g))
    pairs = [[a / b for a, b in zip(ours, theirs)] for ours, theirs in zip(ms["plimsoll"], ms[best_ms])]
    reserved = {m: max(g[m]["reserved_peak"] for g in generations) for m in MODES}
    live = max(g["plimsoll"]["requested_peak"] for g in generations)
    cells = [name, "%d × %d" % (len(pairs), max(map(len, pairs))), "%.3f" % (live / 1e9)]
    cells += ["%.3f" % (reserved[m] / 1e9) for m in MODES]
    cells += ["+%.1f %%" % (100 * (reserved["plimsoll"] / live - 1)),
              "yes" if reserved["plimsoll"] <= live * MARGIN[0] + MARGIN[1] else "no",
              "%.3f" % (reserved["plimsoll"] / min(reserved["native"], reserved["es"]))]
    cells += ["%.2f" % statistics.median(x for g in ms[m] for x in g) for m in MODES]
    cells += [best_ms, interval([r for g in pairs for r in g]), interval([statistics.median(g) for g in pairs])]
    return "| " + " | ".join(cells) + " |"


def table(rows):
    lines = ["| program | processes × pairs | live, GB | native | expandable | Plimsoll | over live | within 1 % + 64 MiB | reserved, ratio "
             "| ms a step native | expandable | Plimsoll | better | step, ratio (95 %, of pairs) | (95 %, of processes) |", "|---" * 15 + "|"]
    for name in dict.fromkeys(r["program"] for r in rows if r["program"] != "pair"):
        generations = generations_of(rows, name)
        if generations:
            lines.append(program_line(generations, name))
    for g in generations_of(rows, "pair")[:1]:
        lines += ["", "| ns a pair | " + " | ".join(MODES) + " |", "|---" * 4 + "|"]
        for what in [k for k in g["plimsoll"]["laps"][0] if k != "plan"]:
            lines.append("| %s | %s |" % (what, " | ".join("%.0f" % statistics.median(lap[what] for lap in g[m]["laps"]) for m in MODES)))
        lines += ["", "plan: %s" % g["plimsoll"]["laps"][-1]["plan"]]
    return "\n".join(lines) + "\n"


def cheap_numbers(torch):
    """Weights of both signs without a generator, whose start takes seconds, and without a byte next to them."""
    def fill(tensor, *args, **kwargs):
        numbers = tensor.detach().view(-1)
        torch.arange(numbers.numel(), out=numbers)
        numbers.mul_(7919).remainder_(1009).sub_(504).mul_(0.02 / 504)
        return tensor

    for name in ("kaiming_uniform_", "uniform_", "normal_"):
        setattr(torch.nn.init, name, fill)


def all_(out, generations="5", *programs):
    import torch
    import torch._dynamo  # noqa: F401  what a first step would import
    import torch.nn.attention
    import torch.utils.checkpoint

    import plimsoll.allocator  # noqa: F401

    cheap_numbers(torch)
    wanted = {name: int(n or generations) for name, _, n in (p.partition("=") for p in programs or PROGRAMS)}
    if "pair" in wanted:
        pair_library(torch)
    end, rows = time.time() + float(os.environ.get("SECONDS_MAX", "3600")), []
    with open(os.path.join(out, "allocator.jsonl"), "w", encoding="utf-8") as f:
        for k in range(max(wanted.values())):
            for name in [name for name, n in wanted.items() if k < n]:
                began = time.time()
                if began > end:
                    print("NOT RUN:", k, name)
                    continue
                rows += generation(out, name, k, end)
                for row in rows[-len(MODES):]:
                    print(json.dumps(row), file=f, flush=True)
                with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as t:
                    t.write(table(rows))
                print("%d %s %.1f s" % (k, name, time.time() - began), flush=True)
    print(table(rows))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(*sys.argv[2:5])
    elif sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        all_(*sys.argv[2:])
