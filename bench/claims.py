#!/usr/bin/env python3
"""What people say about GPU memory, measured on this machine's GPU: claims.py [NAME...].

Needs PyTorch with CUDA and Transformers.  Every measurement is a process of its own and prints one line of JSON;
docs/claims.md quotes them.  Peaks are PyTorch's own statistics in MiB, times are medians in ms.
"""
import contextlib
import gc
import json
import os
import statistics
import sys
import time

import torch
import torch.nn.functional as F

MIB = 1 << 20
TIMED = 9


def peak():
    return round(torch.cuda.max_memory_allocated() / MIB)


def now():
    return round(torch.cuda.memory_allocated() / MIB)


def timed(run, n=TIMED):
    """Median time of n calls, each waited for."""
    took = []
    for _ in range(n):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        took.append((time.perf_counter() - start) * 1e3)
    return round(statistics.median(took), 3)


def llama(attention="sdpa", layers=24, dtype=None):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=layers,
                         num_attention_heads=16, num_key_value_heads=4, max_position_embeddings=8192, use_cache=False)
    with torch.device("cuda"):
        return LlamaForCausalLM._from_config(config, attn_implementation=attention, dtype=dtype or torch.float32)


def tokens(batch, seq):
    return torch.randint(0, 32000, (batch, seq), device="cuda")


def train(batch=4, seq=1024, precision="bf16", optimizer="fused", checkpointing=False, attention="sdpa", accumulate=1,
          empty=False, layers=24, lengths=None, steps=4):
    """Peaks and times of a training loop; `saved` is what a forward pass leaves for backward."""
    model = llama(attention, layers, torch.bfloat16 if precision == "bf16 weights" else None)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    weights = list(model.parameters())
    kinds = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False, "fused": False}}
    opt = torch.optim.AdamW(weights, lr=1e-5, **kinds[optimizer])
    amp = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
    out = {}

    def forward(n):
        x = tokens(batch, n)
        with torch.autocast("cuda", amp) if amp else contextlib.nullcontext():
            return model(input_ids=x, labels=x).loss

    def step(n=seq):
        for _ in range(accumulate):
            before = now()
            loss = forward(n)
            out["saved_mib"] = now() - before
            scaler.scale(loss / accumulate).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        if empty:
            torch.cuda.empty_cache()

    for i in range(steps):
        step(lengths[i % len(lengths)] if lengths else seq)
    out["peak_mib"] = peak()
    out["reserved_mib"] = round(torch.cuda.max_memory_reserved() / MIB)
    out["weights_mib"] = round(sum(p.numel() * p.element_size() for p in weights) / MIB)
    out["step_ms"] = timed(step)
    return out


def optimizer_step(kind):
    """What the optimizer's step alone needs beyond what lives before it."""
    weights = [torch.randn(1024, 1024, device="cuda", requires_grad=True) for _ in range(100)]
    opt = torch.optim.AdamW(weights, **{"fused": {"fused": True}, "foreach": {"foreach": True},
                                        "loop": {"foreach": False, "fused": False}}[kind])
    for p in weights:
        p.grad = torch.ones_like(p)
    opt.step()
    before = now()
    torch.cuda.reset_peak_memory_stats()
    opt.step()
    return {"extra_mib": peak() - before, "weights_mib": 400}


def context():
    free, total = torch.cuda.mem_get_info()
    x = torch.empty(1, device="cuda")
    one = torch.cuda.mem_get_info()[0]
    x = torch.randn(512, 512, device="cuda")
    y = x @ x
    del y
    torch.cuda.synchronize()
    blas = torch.cuda.mem_get_info()[0]
    return {"context_mib": round((total - free) / MIB), "with_a_tensor_mib": round((total - one) / MIB),
            "with_a_matmul_mib": round((total - blas) / MIB), "reserved_mib": round(torch.cuda.memory_reserved() / MIB)}


def inference():
    model = llama(dtype=torch.bfloat16).eval()
    weights = now()
    with torch.no_grad():
        model(input_ids=tokens(4, 1024))
    lean = peak()
    torch.cuda.reset_peak_memory_stats()
    model(input_ids=tokens(4, 1024))
    return {"weights_mib": weights, "no_grad_peak_mib": lean, "graph_peak_mib": peak()}


def kept_on_self(checkpointing):
    """A module that keeps its last output: what lives at the end of each of six steps."""
    model = llama(layers=8)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    kept, lives = [], []
    for _ in range(6):
        x = tokens(2, 512)
        out = model(input_ids=x, labels=x, output_hidden_states=True)
        kept = [out.hidden_states]          # the last one only, as `self.last = ...` does
        out.loss.backward()
        model.zero_grad()
        del out
        lives.append(now())
    del kept
    return {"lives_mib": lives, "without_mib": now()}


def cycle():
    class Node:
        pass
    gc.disable()
    for _ in range(10):
        node = Node()
        node.self, node.tensor = node, torch.empty(10 * MIB, device="cuda", dtype=torch.uint8)
        del node
    piled = now()
    gc.collect()
    return {"before_gc_mib": piled, "after_gc_mib": now()}


def closure():
    def make():
        big = torch.empty(10 * MIB, device="cuda", dtype=torch.uint8)
        return lambda: big.shape
    hooks = [make() for _ in range(10)]
    held = now()
    del hooks
    return {"held_mib": held, "after_del_mib": now()}


def losses(how):
    weights = torch.randn(4096, 4096, device="cuda", requires_grad=True)
    kept, lives = [], []
    for _ in range(6):
        loss = (torch.randn(512, 4096, device="cuda") @ weights).tanh().square().mean()
        if how == "before backward, never backward":
            kept.append(loss)
            lives.append(now())
            continue
        loss.backward()
        weights.grad = None
        kept.append(loss.item() if how == "item" else loss)
        del loss
        lives.append(now())
    return {"lives_mib": lives}


def transposed():
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    y = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    t = x.t()
    c = t.contiguous()
    return {"matmul_ms": timed(lambda: c @ y), "matmul_transposed_ms": timed(lambda: t @ y),
            "add_ms": timed(lambda: c + y), "add_transposed_ms": timed(lambda: t + y), "contiguous_ms": timed(lambda: t.contiguous())}


def in_place():
    out = {}
    for name, grad in (("no_grad", False), ("grad", True)):
        for inplace in (False, True):
            gc.collect()
            x = torch.randn(64 * MIB, device="cuda", requires_grad=grad)
            before = now()
            torch.cuda.reset_peak_memory_stats()
            with torch.set_grad_enabled(grad):
                y = x * 2
                y = F.relu(y, inplace=inplace)
            out[f"{name}_{'in_place' if inplace else 'plain'}_extra_mib"] = peak() - before
            del x, y
    return out


def loop_allocation():
    out = torch.empty(1 << 20, device="cuda")

    def fresh():
        for _ in range(1000):
            torch.empty(1 << 20, device="cuda").fill_(1)

    def reuse():
        for _ in range(1000):
            out.fill_(1)

    def driver():
        for _ in range(50):
            torch.empty(1 << 26, device="cuda").fill_(1)
            torch.cuda.empty_cache()
    return {"fresh_ms_per_1000": timed(fresh), "reused_ms_per_1000": timed(reuse), "with_empty_cache_ms_per_50": timed(driver)}


def item():
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def run(read):
        for _ in range(100):
            y = x @ x
            if read:
                y[0, 0].item()
    return {"without_ms_per_100": timed(lambda: run(False)), "with_item_ms_per_100": timed(lambda: run(True))}


def compiled():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)).cuda()
    fast = torch.compile(model)
    x = torch.randn(8, 256, device="cuda")
    fast(x)
    model.to(torch.bfloat16)
    y = fast(x.bfloat16())
    return {"dtype_after_change": str(y.dtype), "equal_to_eager": bool(torch.allclose(y, model(x.bfloat16()), atol=1e-2))}


def rounding():
    """Weights of a trained-like model: how far bf16 is from fp32."""
    model = llama(layers=8)
    with torch.no_grad():
        worst = max((p - p.bfloat16().float()).abs().max().item() for p in model.parameters())
        ones = (torch.ones(1, device="cuda") - torch.ones(1, device="cuda").add(1e-3).bfloat16().float()).abs().item()
    return {"largest_difference_of_weights": worst, "an_update_of_0.001_to_1.0_changes_it_by": ones}


def accumulation():
    """Gradients of 8 sequences at once and as 4 x 2, in fp32, with equal and with unequal numbers of counted tokens."""
    torch.manual_seed(0)
    model = llama(layers=4).train()
    x = tokens(8, 256)
    out = {}
    for name, cut in (("equal", 0), ("unequal", 200)):
        labels = x.clone()
        labels[:4, 256 - cut:] = -100
        grads = []
        for parts in (1, 4):
            model.zero_grad()
            for a, b in zip(x.chunk(parts), labels.chunk(parts)):
                (model(input_ids=a, labels=b).loss / parts).backward()
            grads.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        out[f"relative_difference_{name}_lengths"] = float((grads[0] - grads[1]).norm() / grads[0].norm())
    return out


def preallocate(first):
    """64 small tensors of mixed sizes with every other one freed, and one of 2 GiB: before or after them."""
    def big():
        return torch.empty(2048 * MIB, device="cuda", dtype=torch.uint8)
    held = [big()] if first else []
    small = [torch.empty((30 + i) * MIB, device="cuda", dtype=torch.uint8) for i in range(64)]
    small = small[::2]
    if not first:
        held.append(big())
    return {"allocated_mib": now(), "reserved_mib": round(torch.cuda.memory_reserved() / MIB)}


VARYING = [1024, 700, 900, 512, 1000, 640, 960, 800]
JOBS = {
    "context": context, "inference": inference, "cycle": cycle, "closure": closure, "transposed": transposed, "in_place": in_place,
    "loop_allocation": loop_allocation, "item": item, "compiled": compiled, "rounding": rounding, "accumulation": accumulation,
    **{f"optimizer_{k}": lambda k=k: optimizer_step(k) for k in ("foreach", "fused", "loop")},
    **{f"losses_{k.replace(' ', '_')}": lambda k=k: losses(k) for k in ("after backward", "item", "before backward, never backward")},
    **{f"kept_on_self_{'checkpointed' if c else 'plain'}": lambda c=c: kept_on_self(c) for c in (False, True)},
    **{f"preallocate_{'first' if f else 'last'}": lambda f=f: preallocate(f) for f in (True, False)},
    **{f"train_{p.replace(' ', '_')}_batch{b}": lambda p=p, b=b: train(batch=b, precision=p) for p in ("fp32", "bf16", "fp16", "bf16 weights") for b in (1, 4)},
    "train_checkpointed": lambda: train(checkpointing=True),
    "train_foreach": lambda: train(optimizer="foreach"),
    "train_batch2_accumulate2": lambda: train(batch=2, accumulate=2),
    "train_empty_cache": lambda: train(empty=True),
    "train_varying": lambda: train(lengths=VARYING, steps=24),
    "train_padded": lambda: train(lengths=[1024], steps=24),
    **{f"attention_{a}_{s}": lambda a=a, s=s: train(batch=1, seq=s, attention=a, layers=8) for a in ("eager", "sdpa") for s in (1024, 2048, 4096)},
}


def main():
    wanted = sys.argv[1:] or list(JOBS)
    for name in wanted:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            torch.manual_seed(0)
            try:
                print(json.dumps({"claim": name, **JOBS[name]()}), flush=True)
            except Exception as error:  # the next measurement does not depend on this one
                print(json.dumps({"claim": name, "error": repr(error)[:300]}), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


main()
