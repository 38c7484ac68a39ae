#!/usr/bin/env python3
"""allocator_programs.py run MODE PROGRAM | (all | record | predict) OUT [PROGRAM...]: twenty kinds of programs, three allocators.

MODE is native, es (expandable segments) or plimsoll, started as tests/gpu/allocator.py starts it (plimsoll needs
PLIMSOLL_ALLOC_LIBRARY and the package).  docs/evidence/allocator.md lists the programs; PROGRAMS below has their steps.
`run` runs one program in this process and prints one JSON line; its numbers are the same to the bit whatever the mode
(WARN_ONLY=1: operations without a deterministic form are allowed).
`all` runs each program under each mode, one fresh process after the other, all programs ROUNDS times (2), and writes
OUT/rows.jsonl and OUT/table.md on the way.
`record` runs each program under native once and writes OUT/PROGRAM.pickle for `plimsoll whatif --plan`; `run` does so with
RECORD=FILE.  A recording begins before the model is made, or with RECORD_AFTER=N after N steps (the warm-up's included).
`predict` records each program, makes its plan with `plimsoll whatif --plan` (PLIMSOLL_PROGRAM, else on the PATH), runs it with
the plan, and compares reserved memory with the prediction; some programs also with a recording that begins late.  It writes
OUT/predictions.jsonl and OUT/predictions.md on the way, and keeps OUT/NAME.plan and OUT/NAME.plim, the packed recording.
All three: a process is ended after 60 s; SECONDS_MAX=N: nothing begins after N seconds.  GPUS=N: programs share
N GPUs, a process has one of them (fsdp2 and ddp two), and the modes of a program have the same one.
TIMES=N: N times as many steps.
PLIM_TINY=1: tiny sizes on the CPU, without memory figures, to check the code.
"""
import contextlib
import copy
import functools
import hashlib
import json
import os
import random
import signal
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "gpu"))
import allocator as gpu  # noqa: E402  tests/gpu/allocator.py

TINY = bool(os.environ.get("PLIM_TINY"))
DEVICE = "cpu" if TINY else "cuda"
TIMES = int(os.environ.get("TIMES", "1"))
RUN_S = 60 if TIMES == 1 else 120  # after which a process is ended
WHATIF_S = 90
RANKS = 2
ON_TWO = ("fsdp2", "ddp")
MODES = gpu.MODES


def on_two(mode, name):
    """Both ranks' rows as one: the most of each figure."""
    with tempfile.TemporaryDirectory() as folder:
        me = [sys.executable, os.path.abspath(__file__), "rank", mode, name]
        runs = []
        for k in range(RANKS):
            env = dict(os.environ) if k == 0 else {n: v for n, v in os.environ.items() if n != "RECORD"}
            runs.append(subprocess.Popen([*me, str(k), os.path.join(folder, "store")], stdout=subprocess.PIPE, text=True, env=env))
        while any(r.poll() is None for r in runs) and not any(r.poll() for r in runs):
            time.sleep(0.1)
        if any(r.poll() for r in runs):  # the other one would wait for it
            for r in runs:
                r.kill()
            sys.exit("a rank failed")
        said = [r.communicate()[0].strip().splitlines() for r in runs]
    rows = [json.loads(lines[-1]) for lines in said]
    if "skipped" in rows[0]:
        return rows[0]
    most = {k: max(r[k] for r in rows) for k in rows[0] if k.endswith(("_bytes", "_ns", "ms_per_step", "ms_last_half"))}
    worst = max(rows, key=lambda r: r["reserved_max_bytes"] - r["live_max_bytes"])
    return {**rows[0], **most, "live_max_bytes": worst["live_max_bytes"], "reserved_max_bytes": worst["reserved_max_bytes"],
            "losses": "+".join(r["losses"] for r in rows), "ranks": rows}


if sys.argv[1:2] == ["run"] and sys.argv[3:4] and sys.argv[3] in ON_TWO:
    print(json.dumps(on_two(*sys.argv[2:4])))  # this process needs no PyTorch, whose import takes seconds
    sys.exit()
# the mode has to be set before PyTorch starts
if sys.argv[1:2] in (["run"], ["rank"]) and not TINY:
    torch = gpu.start(sys.argv[2])
else:
    import torch
nn, F = torch.nn, torch.nn.functional


def size(full, tiny):
    return tiny if TINY else full


# ---- parts ----

class Block(nn.Module):
    """A transformer's layer; a cache is a dict that keeps keys and values and grows by concatenation."""

    def __init__(self, width, heads, ffn=None, linear=nn.Linear):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.ffn = ffn() if ffn else nn.Sequential(linear(width, 4 * width), nn.GELU(), linear(4 * width, width))

    def forward(self, x, cache=None):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        mask, causal = None, s > 1
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
            cache["k"], cache["v"] = k, v
            if causal and k.shape[2] > s:
                mask, causal = torch.ones(s, k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - s), False
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        return x + self.ffn(self.n2(x))


class Net(nn.Module):
    """A language model: with labels the mean loss, else logits."""

    def __init__(self, width, layers, heads, vocab, checkpoint=False, **block):
        super().__init__()
        self.checkpoint, self.vocab = checkpoint, vocab
        self.embed, self.norm, self.head = nn.Embedding(vocab, width), nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.layers = nn.ModuleList(Block(width, heads, **block) for _ in range(layers))

    def forward(self, ids, labels=None, caches=None):
        from torch.utils.checkpoint import checkpoint
        x = self.embed(ids)
        for i, layer in enumerate(self.layers):
            if self.checkpoint and torch.is_grad_enabled():
                x = checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x) if caches is None else layer(x, caches[i])
        logits = self.head(self.norm(x))
        return logits if labels is None else F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def net(full, tiny=(32, 2, 2, 100), kind=Net, **more):
    with torch.device(DEVICE):
        return kind(*size(full, tiny), **more)


def ids(model, batch, length):
    return torch.randint(model.vocab, (batch, length), device=DEVICE)


def amp(dtype=torch.bfloat16):
    return torch.autocast(DEVICE, dtype=dtype)


def adamw(parameters, lr=1e-4):
    return torch.optim.AdamW(parameters, lr=lr)


def train(model, optimizer, batch):
    """An update; the loss."""
    with amp():
        loss = model(batch, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def evaluate(model, batches):
    """The mean loss without gradients."""
    with torch.no_grad(), amp():
        return torch.stack([model(b, b) for b in batches]).mean()


def accumulate(model, optimizer, batches):
    """An update out of several micro-steps; the mean loss."""
    losses = []
    for batch in batches:
        with amp():
            loss = model(batch, batch) / len(batches)
        loss.backward()
        losses.append(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
    return torch.stack(losses).sum()


# ---- programs: each returns step(i), which returns a loss ----

def transformer(rng):
    """1: a transformer, 16x576, all shapes fixed."""
    model = net((768, 12, 12, 50257))
    optimizer = adamw(model.parameters())
    return lambda i: train(model, optimizer, ids(model, *size((16, 576), (2, 16))))


def varying(rng):
    """2: the same transformer, batches of 12 and any length from 64 to 1024."""
    model = net((768, 12, 12, 50257))
    optimizer = adamw(model.parameters())
    return lambda i: train(model, optimizer, ids(model, size(12, 2), rng.randint(*size((64, 1024), (4, 16)))))


def checkpointing(rng):
    """3: checkpointing, accumulation of 4, four batches of evaluation every 10 steps."""
    model = net((768, 6, 12, 50257), checkpoint=True)
    optimizer = adamw(model.parameters())

    def step(i):
        loss = accumulate(model, optimizer, [ids(model, *size((12, 1024), (2, 16))) for _ in range(4)])
        return loss if i % 10 != 9 else loss + evaluate(model, [ids(model, *size((14, 1024), (3, 16))) for _ in range(4)])
    return step


class Res(nn.Module):
    """Two convolutions next to their input; cond is added in between."""

    def __init__(self, channels, norm, cond=0):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
        self.n1, self.n2 = norm(channels), norm(channels)
        self.cond = nn.Linear(cond, channels) if cond else None

    def forward(self, x, cond=None):
        h = self.a(F.relu(self.n1(x)))
        if cond is not None:
            h = h + self.cond(cond)[:, :, None, None]
        return x + self.b(F.relu(self.n2(h)))


def convolutions(rng):
    """4: a residual network, 96 images of one of four sizes at random."""
    c = size(64, 4)
    with torch.device(DEVICE):
        parts = [nn.Conv2d(3, c, 5, stride=2, padding=2)]
        for k in (1, 2, 4):
            parts += [Res(c * k, nn.BatchNorm2d), Res(c * k, nn.BatchNorm2d), nn.Conv2d(c * k, 2 * c * k, 3, stride=2, padding=1)]
        model, head = nn.Sequential(*parts), nn.Linear(8 * c, 100)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01, momentum=0.9)

    def step(i):
        side = rng.choice(size((160, 192, 224, 256), (16, 24, 32, 40)))
        images = torch.randn(size(96, 2), 3, side, side, device=DEVICE)
        with amp():
            loss = F.cross_entropy(head(model(images).mean((2, 3))).float(), torch.randint(100, (len(images),), device=DEVICE))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


def serving(rng):
    """5: a server, 24 sessions of any batch (1 to 8), prompt (16 to 1500) and answer (8 to 64 tokens); 3 of them go on per step."""
    model = net((1024, 12, 16, 32000)).bfloat16()
    sessions = []

    @torch.no_grad()
    def step(i):
        sums = []
        while len(sessions) < size(24, 3):
            caches = [{} for _ in model.layers]
            prompt = ids(model, rng.randint(1, 8), rng.randint(*size((16, 1500), (2, 20))))
            last = model(prompt, caches=caches)[:, -1:].argmax(-1)
            sessions.append([caches, last, rng.randint(8, 64)])
        for session in rng.sample(sessions, 3):
            for _ in range(8):
                logits = model(session[1], caches=session[0])
                session[1] = logits[:, -1:].argmax(-1)
            session[2] -= 8
            sums.append(logits.float().mean())
        sessions[:] = [s for s in sessions if s[2] > 0]
        return torch.stack(sums).sum()
    return step


def accumulation(rng):
    """6: accumulation of 8, two batches of evaluation every 5 steps."""
    model = net((512, 8, 8, 32000))
    optimizer = adamw(model.parameters())

    def step(i):
        loss = accumulate(model, optimizer, [ids(model, *size((8, 1024), (2, 16))) for _ in range(8)])
        return loss if i % 5 != 4 else loss + evaluate(model, [ids(model, *size((12, 1024), (3, 16))) for _ in range(2)])
    return step


def gan(rng):
    """7: a GAN with two optimizers, 512 images of 128x128."""
    c, z = size((64, 128), (4, 8))
    with torch.device(DEVICE):
        up, down, n = [nn.ConvTranspose2d(z, 8 * c, 8), nn.ReLU()], [nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2)], 8 * c
        for k in range(3):
            up += [nn.ConvTranspose2d(n >> k, n >> (k + 1), 4, 2, 1), nn.BatchNorm2d(n >> (k + 1)), nn.ReLU()]
            down += [nn.Conv2d(c << k, c << (k + 1), 4, 2, 1), nn.BatchNorm2d(c << (k + 1)), nn.LeakyReLU(0.2)]
        g = nn.Sequential(*up, nn.ConvTranspose2d(c, 3, 4, 2, 1), nn.Tanh())
        d = nn.Sequential(*down, nn.Conv2d(n, 1, 8))
    og, od = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (g, d))
    batch = size(512, 2)

    def step(i):
        real = torch.randn(batch, 3, 128, 128, device=DEVICE)
        with amp():
            fake = g(torch.randn(batch, z, 1, 1, device=DEVICE))
            loss_d = F.softplus(-d(real).float()).mean() + F.softplus(d(fake.detach()).float()).mean()
        od.zero_grad()
        loss_d.backward()
        od.step()
        with amp():
            loss_g = F.softplus(-d(fake).float()).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        return (loss_d + loss_g).detach()
    return step


def generate_train(rng):
    """8: generate 64 tokens with a growing KV cache, then three updates on what was generated (32 x 192)."""
    model = net((768, 8, 12, 32000))
    optimizer = adamw(model.parameters())
    batch, prompt, new = size((32, 128, 64), (2, 8, 4))

    def step(i):
        tokens, caches = ids(model, batch, prompt), [{} for _ in model.layers]
        with torch.no_grad(), amp():
            last = tokens
            for _ in range(new):
                p = model(last, caches=caches)[:, -1].float().softmax(-1)
                last = torch.multinomial(p, 1)
                tokens = torch.cat((tokens, last), 1)
        del caches
        return torch.stack([train(model, optimizer, tokens) for _ in range(3)]).sum()
    return step


class Experts(nn.Module):
    """One expert per token; what exceeds an expert's capacity is dropped."""

    def __init__(self, width, n):
        super().__init__()
        self.gate, self.n = nn.Linear(width, n), n
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(n))

    def forward(self, x):
        flat = x.flatten(0, 1)
        score, route = self.gate(flat).float().softmax(-1).max(-1)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            chosen = (route == e).nonzero()[:, 0][:len(flat) * 5 // (4 * self.n)]
            out = out.index_add(0, chosen, (expert(flat[chosen]) * score[chosen, None]).to(out.dtype))
        return out.view_as(x)


def moe(rng):
    """9: a mixture of 8 experts in each of 6 layers, capacity 1.25, tokens beyond it dropped; 16x512."""
    width = size(768, 32)
    model = net((768, 6, 12, 32000), ffn=lambda: Experts(width, size(8, 4)))
    optimizer = adamw(model.parameters())
    return lambda i: train(model, optimizer, ids(model, *size((16, 512), (2, 16))))


class Unet(nn.Module):
    """Two halvings, each with a way around; the timestep is a condition."""

    def __init__(self, c):
        super().__init__()
        norm = functools.partial(nn.GroupNorm, 4)
        self.time = nn.Sequential(nn.Linear(1, 4 * c), nn.SiLU())
        self.first, self.last = nn.Conv2d(4, c, 3, padding=1), nn.Conv2d(c, 4, 3, padding=1)
        self.down = nn.ModuleList([Res(c, norm, 4 * c), Res(2 * c, norm, 4 * c)])
        self.halve = nn.ModuleList([nn.Conv2d(c, 2 * c, 3, 2, 1), nn.Conv2d(2 * c, 4 * c, 3, 2, 1)])
        self.middle, self.attend = Res(4 * c, norm, 4 * c), Block(4 * c, 4)
        self.widen = nn.ModuleList([nn.Conv2d(2 * c, 4 * c, 1), nn.Conv2d(4 * c, 8 * c, 1)])
        self.up = nn.ModuleList([Res(c, norm, 4 * c), Res(2 * c, norm, 4 * c)])

    def forward(self, x, t):
        t, x, kept = self.time(t[:, None]), self.first(x), []
        for res, halve in zip(self.down, self.halve):
            kept.append(res(x, t))
            x = halve(kept[-1])
        x = self.middle(x, t)
        x = self.attend(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape)
        for res, widen in reversed(list(zip(self.up, self.widen))):
            x = res(F.pixel_shuffle(widen(x), 2) + kept.pop(), t)
        return self.last(x)


def diffusion(rng):
    """10: a diffusion model with a moving average, 24 latents of any height and width from 32 to 96 (multiples of 8)."""
    with torch.device(DEVICE):
        model = Unet(size(160, 8))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = adamw(model.parameters())

    def step(i):
        h, w = (8 * rng.randint(*size((4, 12), (1, 2))) for _ in "hw")
        x = torch.randn(size(24, 2), 4, h, w, device=DEVICE)
        noise, t = torch.randn_like(x), torch.rand(len(x), device=DEVICE)
        a = t[:, None, None, None]
        with amp():
            loss = F.mse_loss(model(x * (1 - a) + noise * a, t).float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch._foreach_lerp_(list(average.parameters()), [p.detach() for p in model.parameters()], 0.01)
        return loss.detach()
    return step


def rnn(rng):
    """11: an LSTM of two layers, then a GRU cell token by token; 64 sequences of any length from 32 to 224, float32."""
    n, vocab = size((1024, 20000), (16, 50))
    with torch.device(DEVICE):
        embed, lstm, cell, head = nn.Embedding(vocab, n), nn.LSTM(n, n, 2, batch_first=True), nn.GRUCell(n, n), nn.Linear(n, vocab)
    parameters = [p for m in (embed, lstm, cell, head) for p in m.parameters()]
    optimizer, kept = adamw(parameters), [None]

    def step(i):
        tokens = torch.randint(vocab, (size(64, 2), rng.randint(*size((32, 224), (3, 9)))), device=DEVICE)
        out, state = lstm(embed(tokens), kept[0])
        kept[0] = tuple(s.detach() for s in state)
        h, hidden = torch.zeros_like(out[:, 0]), []
        for x in out.unbind(1):
            h = cell(x, h)
            hidden.append(h)
        loss = F.cross_entropy(head(torch.stack(hidden, 1)).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


def gnn(rng):
    """12: messages along the edges of a random graph, another one per step: 20 to 60 thousand nodes, 5 to 9 edges each."""
    c, layers = size(160, 8), 3
    with torch.device(DEVICE):
        message = nn.ModuleList(nn.Sequential(nn.Linear(2 * c, c), nn.ReLU(), nn.Linear(c, c)) for _ in range(layers))
        head = nn.Linear(c, 16)
    optimizer = adamw([*message.parameters(), *head.parameters()], 1e-3)

    def step(i):
        nodes = rng.randint(*size((20_000, 60_000), (20, 60)))
        source, target = torch.randint(nodes, (2, int(nodes * rng.uniform(5, 9))), device=DEVICE)
        x = torch.randn(nodes, c, device=DEVICE)
        for m in message:
            x = x + torch.zeros_like(x).index_add(0, target, m(torch.cat((x[source], x[target]), 1))) / 8
        loss = F.cross_entropy(head(x), torch.randint(16, (nodes,), device=DEVICE))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()
    return step


class Lora(nn.Module):
    """A frozen linear layer and a low-rank one next to it, which is changed as a whole."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.base = nn.Linear(inputs, outputs, bias=False, dtype=torch.bfloat16)
        self.a = self.b = None

    def new(self, rank):
        return torch.randn(self.base.in_features, rank) * 0.02, torch.zeros(rank, self.base.out_features)

    def forward(self, x):
        return self.base(x) + (x @ self.a) @ self.b


def lora(rng):
    """13: six adapters of rank 4 to 128 on one frozen model; every 4 steps another comes from the CPU with its own optimizer; 8x768."""
    model = net((1536, 16, 16, 32000), linear=Lora)
    model.requires_grad_(False)
    places = [m for m in model.modules() if isinstance(m, Lora)]
    store = [[m.new(rank) for m in places] for rank in size((4, 8, 16, 32, 64, 128), (2, 3, 4, 5, 6, 8))]
    state = {"which": None, "optimizer": None}

    def switch():
        if state["which"] is not None:
            store[state["which"]] = [(m.a.detach().cpu(), m.b.detach().cpu()) for m in places]
        state["which"] = rng.randrange(len(store))
        for m, (a, b) in zip(places, store[state["which"]]):
            m.a, m.b = nn.Parameter(a.to(DEVICE)), nn.Parameter(b.to(DEVICE))
        state["optimizer"] = adamw([p for m in places for p in (m.a, m.b)], 1e-3)

    def step(i):
        if i % 4 == 0:
            switch()
        return train(model, state["optimizer"], ids(model, *size((8, 768), (2, 16))))
    return step


def speculative(rng):
    """14: speculative decoding, a model of 4 layers proposes 4 tokens and one of 24 keeps some; a new batch of 24 every 40 rounds."""
    models = [net((512, 4, 8, 32000)).bfloat16(), net((1024, 24, 16, 32000)).bfloat16()]
    state = {}

    @torch.no_grad()
    def step(i):
        if i % 40 == 0:
            state.clear()
            prompt = ids(models[0], size(24, 2), rng.randint(*size((400, 1000), (5, 20))))
            state["caches"] = [[{} for _ in m.layers] for m in models]
            state["last"] = [m(prompt, caches=c)[:, -1:].argmax(-1) for m, c in zip(models, state["caches"])][1]
        (draft, target), (small, large) = models, state["caches"]
        proposed = [state["last"]]
        for _ in range(4):
            proposed.append(draft(proposed[-1], caches=small)[:, -1:].argmax(-1))
        logits = target(torch.cat(proposed[:-1], 1), caches=large)
        keep = rng.randint(1, 4)
        for layer in (*small, *large):  # what was not accepted is cut off
            for name in layer:
                layer[name] = layer[name][:, :, :layer[name].shape[2] - 4 + keep].contiguous()
        state["last"] = logits[:, keep - 1:keep].argmax(-1)
        return logits.float().mean()
    return step


def two_gpus(rng):
    """What both of two GPUs run: a transformer of 12 layers, 8x1024 on each."""
    return net((1024, 12, 16, 32000)), lambda model: ids(model, *size((8, 1024), (2, 16)))


def fsdp2(rng):
    """15a: FSDP2 on two GPUs, each layer and the rest sharded, computed in bfloat16."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model, batch = two_gpus(rng)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    how = {"mesh": init_device_mesh(DEVICE, (RANKS,)), "mp_policy": policy}
    for layer in model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)
    optimizer = adamw(model.parameters())
    return lambda i: train(model, optimizer, batch(model))


def ddp(rng):
    """15b: DDP on two GPUs, the same model."""
    model, batch = two_gpus(rng)
    wrapped = nn.parallel.DistributedDataParallel(model, device_ids=None if TINY else [torch.cuda.current_device()])
    optimizer = adamw(model.parameters())
    return lambda i: train(wrapped, optimizer, batch(model))


def offload(rng):
    """16: activations of 20 to 60 million numbers go to pinned memory on a second stream and come back for backward; 8x1024."""
    model = net((768, 12, 12, 50257))
    optimizer = adamw(model.parameters())
    side = None if TINY else torch.cuda.Stream()
    least, most = size((20_000_000, 60_000_000), (100, 4000))

    def pack(t):
        if not least < t.numel() < most:
            return t
        there = torch.empty(t.shape, dtype=t.dtype, pin_memory=not TINY)
        if side is not None:
            side.wait_stream(torch.cuda.current_stream())
            t.record_stream(side)
        with torch.cuda.stream(side) if side else contextlib.nullcontext():
            there.copy_(t, non_blocking=True)
        return there, t.device

    def unpack(kept):
        if isinstance(kept, torch.Tensor):
            return kept
        with torch.cuda.stream(side) if side else contextlib.nullcontext():
            back = kept[0].to(kept[1], non_blocking=True)
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
            back.record_stream(torch.cuda.current_stream())
        return back

    def step(i):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return train(model, optimizer, ids(model, *size((8, 1024), (2, 16))))
    return step


def compiled(rng):
    """17: torch.compile of each layer, 8x1024, with two lengths in turn of 5 steps."""
    model = net((768, 8, 12, 32000))
    for layer in model.layers:
        layer.compile(backend=size("inductor", "aot_eager"), dynamic=False)
    optimizer = adamw(model.parameters())
    return lambda i: train(model, optimizer, ids(model, size(8, 2), size((1024, 768), (16, 12))[i // 5 % 2]))


def scaled(rng):
    """18: float16 with GradScaler, whose first steps are skipped, and clipping of gradients; 16x768."""
    model = net((768, 12, 12, 32000))
    optimizer = adamw(model.parameters())
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0 ** 24, growth_interval=10)

    def step(i):
        batch = ids(model, *size((16, 768), (2, 16)))
        with amp(torch.float16):
            loss = model(batch, batch)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()
    return step


def notebook(rng):
    """19: a notebook: every 8 steps the cell runs again and makes another model while the old one is still there; 8x768."""
    cells = {"Out": []}

    def step(i):
        if i % 8 == 0:
            width, layers = rng.choice(size(((768, 8), (1024, 10), (640, 12), (896, 6)), ((32, 2), (48, 3))))
            cells["model"] = net((width, layers, width // 64, 32000), (width, layers, 2, 100))
            cells["optimizer"] = adamw(cells["model"].parameters())
        loss = train(cells["model"], cells["optimizer"], ids(cells["model"], *size((8, 768), (2, 16))))
        if i % 8 == 7:
            cells["Out"].append(evaluate(cells["model"], [ids(cells["model"], *size((12, 768), (3, 16)))]))
        return loss
    return step


def replay(rng):
    """20: Q-learning with a replay memory of 3 GB in chunks of any length, acting between updates, a second network every 10 steps."""
    c, side, envs = size((64, 84, 64), (4, 20, 3))
    with torch.device(DEVICE):
        layers = nn.Conv2d(1, c, 8, 4), nn.ReLU(), nn.Conv2d(c, c, 4, 2), nn.ReLU(), nn.Flatten()
        flat = nn.Sequential(*layers)(torch.zeros(1, 1, side, side)).shape[1]
        q = nn.Sequential(*layers, nn.Linear(flat, 1024), nn.ReLU(), nn.Linear(1024, 6))
    other, optimizer, memory = copy.deepcopy(q), adamw(q.parameters()), []

    def values(model, frames):
        return model(frames.unsqueeze(1).float() / 255)

    def act(policy):
        seen = []
        for _ in range(rng.randint(*size((16, 48), (2, 5)))):
            frames = torch.randint(256, (envs, side, side), dtype=torch.uint8, device=DEVICE)
            if policy:
                frames[:, 0, 0] = values(q, frames).argmax(-1).to(torch.uint8)
            seen.append(frames)
        memory.append(torch.stack(seen).flatten(0, 1))
        while sum(m.numel() for m in memory) > size(3_000_000_000, 20_000):
            memory.pop(0)

    def update():
        chunks = rng.choices(memory, k=16)
        frames = torch.cat([m[torch.randint(len(m), (size(512, 4),), device=DEVICE)] for m in chunks])
        best = values(other, frames.flip(0)).max(-1).values.detach()
        loss = F.smooth_l1_loss(values(q, frames).gather(1, (frames[:, 0, 0] % 6).long()[:, None])[:, 0], 0.9 * best + 0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def step(i):
        with torch.no_grad():
            for _ in range(1 if i else size(190, 3)):
                act(i > 0)
        if i % 10 == 9:
            other.load_state_dict(q.state_dict())
        return torch.stack([update() for _ in range(4)]).sum()
    return step


# program -> its function, steps of the warm-up, steps, steps between two looks at the clock
PROGRAMS = {
    "transformer": (transformer, 4, 40, 5), "varying": (varying, 4, 50, 10), "checkpointing": (checkpointing, 2, 30, 10),
    "convolutions": (convolutions, 4, 50, 10), "serving": (serving, 10, 100, 20), "accumulation": (accumulation, 2, 25, 5),
    "gan": (gan, 3, 30, 5), "generate_train": (generate_train, 2, 14, 2), "moe": (moe, 4, 36, 6), "diffusion": (diffusion, 4, 50, 10),
    "rnn": (rnn, 4, 40, 10), "gnn": (gnn, 3, 30, 6), "lora": (lora, 4, 48, 8), "speculative": (speculative, 10, 150, 40),
    "fsdp2": (fsdp2, 4, 24, 4), "ddp": (ddp, 4, 24, 4), "offload": (offload, 4, 28, 4), "compiled": (compiled, 10, 40, 10),
    "scaled": (scaled, 4, 36, 6), "notebook": (notebook, 0, 48, 16), "replay": (replay, 2, 30, 10)}


# the longest first, so that none of them begins last
BY_TIME = sorted(PROGRAMS, key=("compiled", "serving", "speculative", "fsdp2", "ddp", "replay", "notebook", "checkpointing", "offload",
                                "generate_train", "varying", "lora", "rnn", "diffusion", "accumulation", "moe", "scaled", "gan",
                                "transformer", "convolutions", "gnn").index)
# predicted again from a recording that begins after so many steps, between two evaluations
LATE = {"checkpointing": 14, "accumulation": 7}


# ---- one program ----

def synchronize():
    if not TINY:
        torch.cuda.synchronize()


def memory(mode, name):
    """Peaks of the process in bytes, what waits moved, and what the allocator's model says that expandable segments would reserve."""
    if TINY:
        return {"live_max_bytes": 0, "reserved_max_bytes": 0, "requested_max_bytes": 0}
    row = gpu.memory_row(torch, mode, name)
    out = {"live_max_bytes": torch.cuda.max_memory_allocated(), "reserved_max_bytes": torch.cuda.max_memory_reserved(),
           "requested_max_bytes": row["requested_peak"], "retries": row["retries"], "plan": row["plan"]}
    if mode == "plimsoll":
        import plimsoll.allocator as ours
        # the library's counters, of which memory_stats has a part
        more = dict(zip(ours._AFTER, list(ours._raw(torch.cuda.current_device()))[-len(ours._AFTER):]))
        out.update({k: more[k] for k in ("moved_bytes", "moved_ns", "reserved_most_bytes", "expandable_most_bytes") if k in more})
    return out


def record_from_here():
    if os.environ.get("RECORD") and not TINY:
        torch.cuda.init()
        torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=4_000_000)


def measure(mode, name, seed=0):
    """A row: the program's steps, timed by groups."""
    if os.environ.get("WARN_ONLY"):
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    else:
        gpu.deterministic(torch)
    torch.manual_seed(seed)
    make, warm, steps, group = PROGRAMS[name]
    steps *= TIMES
    if TINY:
        warm, steps, group = min(warm, 1), min(steps, 11), 4
    late = int(os.environ.get("RECORD_AFTER", "0"))
    if not late:
        record_from_here()
    losses = torch.zeros(warm + steps, device=DEVICE)
    step = make(random.Random(seed))
    groups, began, done = [], time.perf_counter(), 0
    for i in range(warm + steps):
        if late and i == late:
            record_from_here()
        losses[i] = step(i)
        if i >= warm and (i + 1 - warm) % group == 0 or i + 1 in (warm, warm + steps):
            synchronize()
            now = time.perf_counter()
            groups.append((now - began) * 1e3 / (i + 1 - done))
            began, done = now, i + 1
    row = {"program": name, "mode": mode, "steps": steps, "torch": torch.__version__, **memory(mode, name)}
    if os.environ.get("RECORD") and TINY:
        open(os.environ["RECORD"], "wb").close()
    elif os.environ.get("RECORD"):
        torch.cuda.memory._dump_snapshot(os.environ["RECORD"])
    if warm:
        row["warm_ms_per_step"] = groups.pop(0)
    values = losses.cpu()
    digest = hashlib.sha256(bytes(values.view(torch.uint8).tolist())).hexdigest()[:16]
    return {**row, "ms_per_step": statistics.median(groups), "ms_last_half": statistics.fmean(groups[len(groups) // 2:]),
            "ms_groups": groups, "losses": digest, "finite": bool(values.isfinite().all()), "last_loss": float(values[-1])}


def rank(mode, name, number, store):
    """One of two processes on two GPUs."""
    number = int(number)
    if not TINY and torch.cuda.device_count() < RANKS:
        return {"program": name, "mode": mode, "skipped": "needs two GPUs"}
    if not TINY:
        torch.cuda.set_device(number)
    # NCCL's communicator exists from the start, as it does after torchrun with a device
    torch.distributed.init_process_group("gloo" if TINY else "nccl", init_method="file://" + store, rank=number, world_size=RANKS,
                                         device_id=None if TINY else torch.device(DEVICE, number))
    row = measure(mode, name)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return row


# ---- all programs ----

def process(mode, name, env, errors):
    """The row of a fresh process."""
    began = time.time()
    p = subprocess.Popen([sys.executable, os.path.abspath(__file__), "run", mode, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, env=env, start_new_session=True)
    try:
        out, err = p.communicate(timeout=RUN_S)
        row = json.loads(out.strip().splitlines()[-1]) if p.returncode == 0 else {"error": last_error(err) or "exit code %d" % p.returncode}
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        err, row = p.communicate()[1], {"error": "ended after %d s" % RUN_S}
    except (ValueError, IndexError):
        row = {"error": "it printed no row"}
    print("---- %s %s\n%s" % (mode, name, err), file=errors, flush=True)
    return {"program": name, "mode": mode, **row, "wall_s": round(time.time() - began, 1)}


def last_error(text):
    """The last line that names an error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error: " in line and not line.startswith("[")]
    return (named or lines or [""])[-1][:300]


def best(rows, name):
    """mode -> its row: the most memory and the least time of its processes."""
    out = {}
    for mode in MODES:
        good = [r for r in rows if r["program"] == name and r["mode"] == mode and "ms_per_step" in r]
        if good:
            out[mode] = {k: max(r[k] for r in good) for k in ("live_max_bytes", "reserved_max_bytes")}
            out[mode].update({k: min(r[k] for r in good) for k in ("ms_per_step", "ms_last_half")}, losses={r["losses"] for r in good})
    return out


def table_line(rows, name):
    by = best(rows, name)
    if len(by) < len(MODES):
        said = ["%s: %s" % (r["mode"], r.get("error") or r["skipped"]) for r in rows
                if r["program"] == name and ("error" in r or "skipped" in r)]
        return "| %s | %s |" % (name, "; ".join(dict.fromkeys(said)).replace("|", "/") or "not finished") + " |" * 11
    ours, es = by["plimsoll"], by["es"]
    live, reserved = ours["live_max_bytes"], {m: by[m]["reserved_max_bytes"] for m in MODES}
    cells = [name, "%.3f" % (live / 1e9)] + ["%.3f" % (reserved[m] / 1e9) for m in MODES] + ["%.2f" % by[m]["ms_per_step"] for m in MODES]
    cells.append("%+.1f %%" % (100 * (reserved["plimsoll"] / live - 1)) if live else "-")
    cells.append("%+.0f" % ((reserved["plimsoll"] - reserved["es"]) / 2**20))
    cells += ["%.3f" % (ours[k] / min(by["native"][k], es[k])) for k in ("ms_per_step", "ms_last_half")]
    cells.append("yes" if len(set.union(*(by[m]["losses"] for m in MODES))) == 1 else "NO")
    return "| " + " | ".join(cells) + " |"


def table(rows):
    """Live: Plimsoll's process; memory the most and time the least of a mode's processes."""
    head = ["program", "live GB", "native GB", "expandable GB", "Plimsoll GB", "native ms", "expandable ms", "Plimsoll ms", "over live",
            "minus expandable, MiB", "time, ratio", "last half, ratio", "losses equal"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    names = list(dict.fromkeys(r["program"] for r in rows))
    return "\n".join(lines + [table_line(rows, name) for name in names] + ["", verdict(rows, names)]) + "\n"


def verdict(rows, names):
    """How many programs meet each aim."""
    whole = [b for b in (best(rows, name) for name in names) if len(b) == len(MODES)]
    ours = [(b["plimsoll"], b["native"], b["es"]) for b in whole]
    counts = (sum(o["reserved_max_bytes"] <= 1.02 * o["live_max_bytes"] + (64 << 20) for o, _, _ in ours),
              sum(o["reserved_max_bytes"] <= e["reserved_max_bytes"] + (32 << 20) for o, _, e in ours),
              sum(o["ms_per_step"] <= 1.01 * min(n["ms_per_step"], e["ms_per_step"]) for o, n, e in ours),
              sum(len(o["losses"] | n["losses"] | e["losses"]) == 1 for o, n, e in ours))
    return ("Of %d: reserved at most 1.02 times live and 64 MiB %d, at most expandable and 32 MiB %d, "
            "time at most 1.01 of the better one %d, losses equal %d." % (len(ours), *counts))


class Jobs:
    """Processes on GPUS GPUs: which is free, what ended with an error, and when nothing begins any more."""

    def __init__(self, out):
        os.makedirs(out, exist_ok=True)
        self.out, self.end = out, time.time() + float(os.environ.get("SECONDS_MAX", "86400"))
        self.count = int(os.environ.get("GPUS", "1"))
        self.free, self.loose, self.lock, self.several = queue.Queue(), set(), threading.Lock(), threading.Lock()
        for gpu in range(self.count):
            self.free.put(gpu)
        self.errors = open(self.path("errors.txt"), "w", encoding="utf-8")

    def path(self, name):
        return os.path.abspath(os.path.join(self.out, name))

    @contextlib.contextmanager
    def gpus(self, name):
        """The environment that names free GPUs, which nobody else gets meanwhile."""
        with self.several:  # two programs that each hold one GPU and need another would wait for ever
            mine = [self.free.get() for _ in range(min(self.count, RANKS if name in ON_TWO else 1))]
        try:
            yield {"CUDA_VISIBLE_DEVICES": ",".join(map(str, mine))} if self.count > 1 else {}
        finally:
            for gpu in mine:
                self.free.put(gpu)

    def process(self, mode, name, env):
        """The row of a fresh process; None: it is too late to begin."""
        if time.time() > self.end:
            print("NOT RUN:", name, mode, flush=True)
            return None
        base = {k: v for k, v in os.environ.items() if k not in ("RECORD", "RECORD_AFTER", "PLAN")}
        env = {**base, **env, **({"WARN_ONLY": "1"} if name in self.loose else {})}
        row = process(mode, name, env, self.errors)
        if "deterministic" in row.get("error", "") and "WARN_ONLY" not in env:
            self.loose.add(name)
            row = process(mode, name, {**env, "WARN_ONLY": "1"}, self.errors)
        said = row.get("error") or row.get("skipped") or "%.2f ms" % row["ms_per_step"]
        print(name, mode, said, row["wall_s"], "s", flush=True)
        return row

    def each(self, call, jobs):
        """One call after the other, or as many at a time as keep the GPUs busy; an exception of one is one line."""
        def one(job):
            try:
                call(self, *job)
            except Exception as e:  # the others go on, whatever it was
                print("FAILED:", *job, repr(e)[:300], flush=True)
        with ThreadPoolExecutor(1 if self.count == 1 else 2 * self.count) as pool:
            list(pool.map(one, jobs))


class Rows:
    """Rows in a file of lines, and what they say in a file of Markdown, both written on the way."""

    def __init__(self, jobs, lines, markdown, table_of):
        self.rows, self.lines = [], open(jobs.path(lines), "w", encoding="utf-8")
        self.markdown, self.table_of = jobs.path(markdown), table_of
        self.lock = jobs.lock

    def add(self, row):
        with self.lock:
            self.rows.append(row)
            print(json.dumps(row), file=self.lines, flush=True)
            with open(self.markdown, "w", encoding="utf-8") as f:
                f.write(self.table_of(self.rows))


def all_(out, names, modes, rounds, recorded=False):
    jobs = Jobs(out)
    kept = Rows(jobs, "rows.jsonl", "table.md", table)

    def program(jobs, name):
        with jobs.gpus(name) as env:
            for mode in modes:
                row = jobs.process(mode, name, {**env, **({"RECORD": jobs.path(name + ".pickle")} if recorded else {})})
                if row:
                    kept.add(row)
    jobs.each(program, [(name,) for _ in range(rounds) for name in names])
    if not recorded:
        print(table(kept.rows))


# ---- predictions ----

def foretell(jobs, label, recording):
    """What `whatif --plan` says of Plimsoll's allocator with the plan that it writes, and of expandable segments."""
    program, plan = os.environ.get("PLIMSOLL_PROGRAM", "plimsoll"), jobs.path(label + ".plan")
    began = time.time()
    try:
        done = subprocess.run([program, "whatif", recording, "--plan", "-s", "expandable_segments:True", "-o", plan, "--json"],
                              capture_output=True, text=True, timeout=WHATIF_S, check=False)
        said = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": "whatif was ended after %d s" % WHATIF_S}
    except ValueError:
        return {"error": "whatif: " + (last_error(done.stderr) or "exit code %d" % done.returncode)}
    out = {"whatif_s": round(time.time() - began, 1), "events": said["self_check"]["events"], "exact": said["self_check"]["exact"],
           "notes": said["notes"], "withheld": said["withheld"]}
    for run in said["runs"]:
        key = "expandable" if not run["plan"] else "planned" if "plan=" in run["settings"] else "learned"
        out[key + "_bytes"] = run["reserved_peak_bytes"]
        out[key + "_live_bytes"] = run["allocated_peak_bytes"]
    if os.path.exists(plan):
        out["plan"] = plan
    if "planned_bytes" not in out and "learned_bytes" not in out:
        out["error"] = "whatif predicts nothing: %s" % (said["withheld"] or said["notes"])
    return out


def predict_one(jobs, kept, name, late):
    """Record, foretell, run with the plan (without one where nothing repeats), compare; one row, whatever fails."""
    label = name + "-from-%d" % late if late else name
    recording = jobs.path(label + ".pickle")
    row = {"program": name, "record_after": late}
    with jobs.gpus(name) as env:
        native = jobs.process("native", name, {**env, "RECORD": recording, **({"RECORD_AFTER": str(late)} if late else {})})
    if native is None:
        return
    if "ms_per_step" not in native or not os.path.exists(recording):
        kept.add({**row, "error": native.get("error") or native.get("skipped") or "no recording"})
        return
    row["native_bytes"] = first_rank(native)["reserved_max_bytes"]
    row.update(foretell(jobs, label, recording))
    pack(jobs, label, recording)
    if "error" in row:
        kept.add(row)
        return
    with jobs.gpus(name) as env:
        ours = jobs.process("plimsoll", name, {**env, **({"PLAN": row["plan"]} if "plan" in row else {})})
    if ours is None or "ms_per_step" not in ours:
        kept.add({**row, "error": "with the plan: " + (ours.get("error", "skipped") if ours else "not run")})
        return
    mine = first_rank(ours)
    kept.add({**row, "measured_bytes": mine["reserved_max_bytes"], "measured_live_bytes": mine["live_max_bytes"],
              "moved_ns": mine.get("moved_ns"), "losses_equal": native["losses"] == ours["losses"]})


def first_rank(row):
    """The recording is of the first of two ranks."""
    return row.get("ranks", [row])[0]


def pack(jobs, label, recording):
    """The recording made small, or gone: all of them would take gigabytes."""
    program = os.environ.get("PLIMSOLL_PROGRAM", "plimsoll")
    done = subprocess.run([program, "pack", recording, "-o", jobs.path(label + ".plim")], capture_output=True, text=True, check=False)
    if done.returncode:
        print("pack:", label, last_error(done.stderr), flush=True)
    os.remove(recording)


def predicted_bytes(row):
    return row.get("planned_bytes", row.get("learned_bytes"))


def predictions(rows):
    head = ["program", "recorded after", "events", "predicted MiB", "measured MiB", "difference", "live, predicted", "live, measured",
            "expandable, predicted", "losses equal"]
    lines, near, whole = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 2) + "---|"], 0, 0
    for row in sorted(rows, key=lambda r: (list(PROGRAMS).index(r["program"]), r["record_after"])):
        cells = [row["program"], str(row["record_after"] or "-")]
        if "error" in row:
            cells += [row["error"].replace("|", "/")] + [""] * (len(head) - 3)
        else:
            told, measured = predicted_bytes(row), row["measured_bytes"]
            off = 100 * (told / measured - 1) if measured else 0
            near, whole = near + (abs(off) <= 1), whole + 1
            live = row.get("planned_live_bytes", row.get("learned_live_bytes"))
            cells += ["%d" % row["events"], *("%.0f" % (b / 2**20) for b in (told, measured)), "%+.2f %%" % off,
                      *("%.0f" % (b / 2**20) for b in (live, row["measured_live_bytes"], row.get("expandable_bytes", 0))),
                      "yes" if row["losses_equal"] else "NO"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", "Of %d predictions that could be compared %d are within 1 %%." % (whole, near)]) + "\n"


def predict(out, names):
    jobs = Jobs(out)
    if not shutil.which(os.environ.get("PLIMSOLL_PROGRAM", "plimsoll")):
        sys.exit("plimsoll was not found: set PLIMSOLL_PROGRAM")
    kept = Rows(jobs, "predictions.jsonl", "predictions.md", predictions)
    jobs.each(lambda jobs, name, late: predict_one(jobs, kept, name, late),
              [(name, late) for name in names for late in (0, LATE.get(name)) if late is not None])
    print(predictions(kept.rows))


def main(verb, *rest):
    named = rest[1:2] if verb in ("run", "rank") else rest[1:]
    if set(named) - set(PROGRAMS) or verb in ("run", "rank") and rest[0] not in MODES:
        sys.exit("programs: %s; modes: %s" % (" ".join(PROGRAMS), " ".join(MODES)))
    if verb == "run":
        mode, name = rest
        print(json.dumps(measure(mode, name)))
    elif verb == "rank":
        print(json.dumps(rank(*rest)))
    elif verb == "all":
        all_(rest[0], rest[1:] or BY_TIME, MODES, int(os.environ.get("ROUNDS", "2")))
    elif verb == "record":
        all_(rest[0], rest[1:] or BY_TIME, ("native",), 1, recorded=True)
    elif verb == "predict":
        predict(rest[0], rest[1:] or BY_TIME)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
