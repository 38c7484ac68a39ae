#!/usr/bin/env python3
"""plan_inputs.py PLIMSOLL: what stands in the place of a config.json: a GGUF file, of which the header is enough."""
import json
import os
import struct
import sys
import tempfile

import lib

lib.start(sys.argv[1])

F32, F16, Q4_K, Q6_K = 0, 1, 12, 14
BLOCK = {F32: (1, 4), F16: (1, 2), Q4_K: (256, 144), Q6_K: (256, 210)}  # numbers, bytes


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def header(keys, tensors):
    """A GGUF file without the data behind its header.  tensors: (name, sizes from the outermost, type)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for name, value in keys.items():
        out += string(name) + (struct.pack("<I", 8) + string(value) if isinstance(value, str) else struct.pack("<II", 4, value))
    at = 0
    for name, sizes, kind in tensors:
        out += string(name) + struct.pack("<I", len(sizes)) + b"".join(struct.pack("<Q", n) for n in reversed(sizes))
        out += struct.pack("<IQ", kind, at)
        at += (size(sizes, kind) + 31) // 32 * 32
    return out


def size(sizes, kind):
    n = 1
    for s in sizes:
        n *= s
    return n // BLOCK[kind][0] * BLOCK[kind][1]


def decoder(hidden, wide, layers, heads, kv, vocab, experts=0, weights=Q4_K, arch="llama"):
    """Keys and tensors of a file as llama.cpp's converter writes it, the output head in Q6_K."""
    keys = {"general.architecture": arch, f"{arch}.block_count": layers, f"{arch}.embedding_length": hidden,
            f"{arch}.feed_forward_length": wide, f"{arch}.attention.head_count": heads,
            f"{arch}.attention.head_count_kv": kv, f"{arch}.context_length": 8192}
    if experts:
        keys |= {f"{arch}.expert_count": experts, f"{arch}.expert_used_count": 2}
    tensors = [("token_embd.weight", (vocab, hidden), weights), ("rope_freqs.weight", (64,), F32)]
    narrow = hidden * kv // heads
    mlp = [("ffn_gate_inp", (experts, hidden), F32)] if experts else []
    mlp += [(name + ("_exps" if experts else ""), ((experts,) if experts else ()) + sizes, weights) for name, sizes in
            (("ffn_gate", (wide, hidden)), ("ffn_up", (wide, hidden)), ("ffn_down", (hidden, wide)))]
    for i in range(layers):
        rows = [("attn_norm", (hidden,), F32), ("ffn_norm", (hidden,), F32), ("attn_q", (hidden, hidden), weights),
                ("attn_k", (narrow, hidden), weights), ("attn_v", (narrow, hidden), weights),
                ("attn_output", (hidden, hidden), weights), *mlp]
        tensors += [(f"blk.{i}.{name}.weight", sizes, kind) for name, sizes, kind in rows]
    return keys, tensors + [("output_norm.weight", (hidden,), F32), ("output.weight", (vocab, hidden), Q6_K)]


def held(tensors):
    """Bytes of the weights on the GPU: what is quantized at its size, the rest in 16 bits."""
    return sum(size(s, k if k in (Q4_K, Q6_K) else F16) for name, s, k in tensors if not name.startswith("rope_"))


def write(folder, name, keys, tensors, cut=None):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(header(keys, tensors)[:cut])
    return path


def planned(path, *options):
    return json.loads(lib.run("plan", path, "--json", *options).stdout)


def expect(what, *told):
    if not what:
        lib.failures.append(" ".join(map(str, told)))


def refused(path, code, *words, options=()):
    done = lib.run("plan", path, *options, codes=(code,))
    expect(all(w in done.stderr for w in words), path, done.stderr)


def main(folder):
    # Llama 3.1 8B, whose public count is 8,030,261,248
    keys, tensors = decoder(4096, 14336, 32, 32, 8, 128256)
    path = write(folder, "llama.gguf", keys, tensors)
    plan = planned(path, "--task", "generate", "--new-tokens", "64")
    expect(plan["model"]["parameters"] == 8_030_261_248, plan["model"])
    expect(plan["model"]["parameter_bytes"] == held(tensors), plan["model"], held(tensors))
    cache = 2 * 32 * 8 * 128 * 2 * (1024 + 64)  # keys and values, blocks, heads, their width, bytes, tokens
    last = plan["phases"][-1]
    expect(last["allocated_peak_bytes"] - plan["phases"][0]["allocated_bytes"] >= cache, last, cache)
    expect(plan["peak"]["basis"] == "assumed" and any("llama.cpp" in a for a in plan["assumptions"]), plan["assumptions"])
    refused(path, 4, "to infer and to generate, not to train")

    keys, tensors = decoder(512, 1024, 4, 8, 2, 1024, experts=8)
    plan = planned(write(folder, "mixtral.gguf", keys, tensors), "--task", "infer")
    expect(plan["model"]["family"] == "mixtral" and plan["model"]["parameter_bytes"] == held(tensors), plan["model"], held(tensors))

    # not quantized: a model of 16 bits like any other, which trains
    gates = [(n, s, F16 if "gate_exps" in n else k) for n, s, k in tensors]
    refused(write(folder, "gates.gguf", keys, gates), 4, "ffn_gate_exps", "config.json", options=("-t", "infer"))
    routers = [(n, s, Q4_K if "gate_inp" in n else k) for n, s, k in tensors]
    refused(write(folder, "routers.gguf", keys, routers), 4, "would be planned", options=("-t", "infer"))

    keys, tensors = decoder(256, 512, 2, 4, 2, 1000, weights=F32)
    tensors[-1] = (*tensors[-1][:2], F32)
    plan = planned(write(folder, "single.gguf", keys, tensors), "-t", "infer")
    expect(plan["model"]["parameter_bytes"] == 4 * plan["model"]["parameters"], plan["model"])

    keys, tensors = decoder(256, 512, 2, 4, 2, 1024)
    refused(write(folder, "wraps.gguf", keys, [*tensors, ("x.weight", (1 << 63, 2, 1), F16)]), 4, "overflows", options=("-t", "infer"))

    keys, tensors = decoder(256, 512, 2, 4, 2, 1000, weights=F16)
    tensors[-1] = (*tensors[-1][:2], F16)
    expect(planned(write(folder, "half.gguf", keys, tensors))["model"]["trainable"] > 0, "half.gguf")

    keys, tensors = decoder(256, 512, 2, 4, 2, 1024, arch="rwkv7")
    refused(write(folder, "other.gguf", keys, tensors), 4, "'rwkv7'", "config.json")
    keys, tensors = decoder(256, 512, 2, 4, 2, 1024)
    refused(write(folder, "cut.gguf", keys, tensors, cut=900), 4, "header is cut", "config.json", options=("-t", "infer"))
    refused(write(folder, "more.gguf", keys, [*tensors, ("blk.0.odd.weight", (256, 256), F16)]), 4, "config.json",
            options=("-t", "infer"))


with tempfile.TemporaryDirectory() as where:
    main(where)
lib.finish("inputs of plan", least=0)
