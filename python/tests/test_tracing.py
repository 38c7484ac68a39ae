"""plan(module, batch) and plan --trace: PyTorch on fake tensors, without a GPU, against what is known of each request."""
import functools
import importlib
import io
import json
import os
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from plimsoll.tracing import loop, packed, progress, tables  # noqa: E402
from plimsoll.tracing.packed import CATEGORIES  # noqa: E402


def peaks(trace):
    """By phase, in bytes rounded to 512."""
    sizes, live, peak, out, ended = [], 0, 0, {}, 0
    for event in trace.events:
        if event > 0:
            sizes.append(-(-event // 512) * 512)
            live += sizes[-1]
            peak = max(peak, live)
        elif event < 0:
            live -= sizes[-event - 1]
        else:
            out[trace.phases[ended]] = peak
            ended, peak = ended + 1, live
    return out


def linear(features=512, depth=4, **options):
    net = torch.nn.Sequential(*(torch.nn.Linear(features, features, bias=False) for _ in range(depth)))
    return loop.trace_module(net, torch.empty(64, features), loop.Options(steps=2, **options))


def test_a_chain_of_products_to_the_byte():
    trace = linear(precision="fp32")
    weight, activation, blas = 512 * 512 * 4, 64 * 512 * 4, 32 << 20
    assert trace.parameters == 4 * 512 * 512
    assert peaks(trace)["load"] == 4 * weight
    # weights, input, four results (the last is saved by the mean as nothing), cuBLAS's workspace, the loss
    assert peaks(trace)["fwd0"] == 4 * weight + 5 * activation + blas + 512
    # step 1: both moments, gradients, two workspaces
    assert peaks(trace)["opt1"] >= 4 * 4 * weight + 2 * blas


def test_nothing_of_the_world_is_changed():
    before = torch.cuda.is_available(), torch.Tensor.device, torch.nn.Module._apply
    linear()
    assert (torch.cuda.is_available(), torch.Tensor.device, torch.nn.Module._apply) == before
    x = torch.ones(2, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.nn.functional.softmax(x @ x, -1).dtype is torch.bfloat16  # the CPU's own list again


def test_autocast_has_cudas_lists():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(64, 64)
            self.norm = torch.nn.LayerNorm(64)
            self.seen = []

        def forward(self, x):
            y = self.inner(x)
            z = self.norm(y)
            self.seen += [y.dtype, z.dtype, torch.nn.functional.softmax(y, -1).dtype, y.device.type, y.is_cuda]
            return z

    net = Net()
    seen = []

    def step(module, batch):
        out = module(batch).sum()
        seen.extend(module.seen)
        return out
    loop.trace_module(net, torch.empty(8, 64), loop.Options(precision="bf16-autocast", steps=1), step)
    assert seen[:5] == [torch.bfloat16, torch.float32, torch.float32, "cuda", True]
    assert net.seen == []  # the caller's module was not run


def test_gradients_that_meet_take_no_third_place():
    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(1024, 1024, bias=False)
            self.b = torch.nn.Linear(1024, 1024, bias=False)

        def forward(self, x):
            h = self.a(x)
            return self.b(h) + h

    trace = loop.trace_module(Residual(), torch.empty(1024, 1024), loop.Options(steps=1, optimizer="sgd", clip=False))
    added = [trace.operators[o] for o, c in zip(trace.operator, trace.category)]
    assert added.count("add") == 1  # the forward pass's own


def test_checkpointed_blocks_are_computed_again_with_the_same_kernels():
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(64, 192)

        def attend(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

        def forward(self, x):
            return checkpoint(self.attend, x, use_reentrant=False)

    trace = loop.trace_module(Block(), torch.empty(2, 128, 64), loop.Options(precision="bf16-autocast", steps=1))
    names = [trace.operators[o] for o in trace.operator]
    assert "_scaled_dot_product_cudnn_attention" in names
    assert "_scaled_dot_product_cudnn_attention_backward" in names


@pytest.mark.parametrize("card,kernel", [("H100", "cudnn"), ("A100 80GB", "flash"), ("T4", "efficient")])
def test_the_card_decides_the_kernel(card, kernel):
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q = torch.nn.Linear(64, 64)

        def forward(self, x):
            q = self.q(x).unflatten(-1, (2, 32)).transpose(1, 2)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    o = loop.Options(precision="fp16-autocast", steps=1, capability=tables.capability_of(card))
    trace = loop.trace_module(Attention(), torch.empty(2, 128, 64), o)
    assert any(f"_{kernel}_attention" in name for name in trace.operators)


def test_a_plan_of_a_module():
    import plimsoll
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Flatten())
    made = plimsoll.plan(net, torch.empty(4, 3, 64, 64), memory="4GiB")
    assert made.fits is True and made.model.parameters == 3 * 16 * 9 + 16 + 32
    assert made.peak.basis == "assumed"


def test_what_does_not_fit_is_traced_with_what_pytorch_can_be_asked_for():
    import plimsoll
    net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))
    made = plimsoll.plan(net, torch.empty(4096, 512), memory="128MiB")
    rungs = {row.rung: row for row in made.ladder}
    assert made.fits is False and made.batch == 4096
    assert any("micro-batch" in name for name in rungs), list(rungs)  # was: the allocator's settings alone
    assert not any("checkpoint" in name or "sequence" in name for name in rungs)  # it has none; it says none
    half = next(row for name, row in rungs.items() if "micro-batch" in name)
    assert half.needed_bytes < made.peak.needed_bytes
    assert all(not p.is_meta and type(p) is torch.nn.Parameter for p in net.parameters())  # as it was


def test_a_rung_that_is_interrupted_ends_the_plan(monkeypatch):
    import plimsoll
    plain, calls = loop.trace_module, []

    def once(*args, **kwargs):
        calls.append(args)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return plain(*args, **kwargs)
    monkeypatch.setattr(loop, "trace_module", once)
    with pytest.raises(KeyboardInterrupt):
        plimsoll.plan(torch.nn.Linear(512, 512), torch.empty(65536, 512), memory="128MiB")
    assert len(calls) == 2


def test_a_module_in_16_bits_has_its_weights_and_inputs_so():
    net = torch.nn.Linear(512, 512, bias=False)
    trace = loop.trace_module(net, torch.empty(64, 512), loop.Options(steps=1, precision="bf16-pure"))
    assert peaks(trace)["load"] == 512 * 512 * 2
    assert net.weight.dtype is torch.float32


def test_recurrent_layers_keep_what_cudnn_keeps():
    from plimsoll.tracing import recurrent
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "tests", "data", "cudnn_rnn.json"), encoding="utf-8") as f:
        rows = json.load(f)  # measured on an H100 with PyTorch 2.11
    modes = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}
    assert len(rows) == 72
    for kind, time, batch, _, hidden, layers, ways, dropout, size, kept, _ in rows:
        mode = recurrent.MODES[modes[kind]]
        assert recurrent.reserve_bytes(mode, time * batch, hidden, layers, ways, dropout > 0, size) == kept
    for kind, time, batch, width, hidden, layers, ways, dropout, size, kept, gradients in rows[20:22] + rows[47:48] + rows[71:]:
        dtype = torch.float32 if size == 4 else torch.bfloat16
        net = getattr(torch.nn, kind)(width, hidden, layers, bidirectional=ways == 2, dropout=dropout, dtype=dtype)
        trace = loop.trace_module(net, torch.empty(time, batch, width, dtype=dtype), loop.Options(steps=1, precision="fp32"))
        sizes = [e for e in trace.events if e > 0]
        made = [n for n, o in zip(sizes, trace.operator) if trace.operators[o] == "_cudnn_rnn"]
        state = layers * ways * batch * hidden * size
        assert made == [time * batch * hidden * ways * size, state, *([state] if kind == "LSTM" else []), kept,
                        *([gradients] if size == 2 else [])]
        back = [n for n, o in zip(sizes, trace.operator) if trace.operators[o] == "_cudnn_rnn_backward"]
        assert gradients in back and not any("mkldnn" in o for o in trace.operators)


def test_recurrent_layers_under_autocast_keep_what_was_measured():
    from plimsoll.tracing import recurrent
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "tests", "data", "cudnn_rnn_autocast.json"), encoding="utf-8") as f:
        rows = json.load(f)  # measured on an H100 with PyTorch 2.11: float16 under autocast to either
    modes = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}
    assert len(rows) == 26
    for kind, time, batch, _, hidden, layers, ways, dropout, _, _, kept, _ in rows:
        assert recurrent.reserve_bytes(recurrent.MODES[modes[kind]], time * batch, hidden, layers, ways, dropout > 0, 2) == kept
    for kind, time, batch, width, hidden, layers, ways, dropout, cast, _, kept, weights in rows[2:3] + rows[13:14]:
        net = getattr(torch.nn, kind)(width, hidden, layers, bidirectional=ways == 2, dropout=dropout)
        trace = loop.trace_module(net, torch.empty(time, batch, width), loop.Options(
            steps=1, precision={"bfloat16": "bf16-autocast", "float16": "fp16-autocast"}[cast]))
        made = [n for n, o in zip((e for e in trace.events if e > 0), trace.operator) if trace.operators[o] == "_cudnn_rnn"]
        assert made[0] == time * batch * hidden * ways * 2 and made[-2:] == [kept, weights]


def test_recurrent_layers_by_mode():
    """Without training nothing is kept."""
    trace = loop.trace_module(torch.nn.GRU(32, 64, batch_first=True).eval(), torch.empty(8, 16, 32), loop.Options(steps=1, precision="fp32", task="infer"))
    sizes = [e for e in trace.events if e > 0]
    made = [n for n, o in zip(sizes, trace.operator) if trace.operators[o] == "_cudnn_rnn"]
    assert made[:2] == [8 * 16 * 64 * 4, 8 * 64 * 4]


class Packs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.LSTM(64, 48, 2, batch_first=True, proj_size=32), torch.nn.GRU(32, 16, batch_first=True)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.a(x)[0], lengths, batch_first=True, enforce_sorted=False)
        return torch.nn.utils.rnn.pad_packed_sequence(self.b(packed)[0], batch_first=True)[0]


def test_projections_and_packed_sequences():
    from plimsoll.tracing import recurrent
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "tests", "data", "cudnn_rnn_more.json"), encoding="utf-8") as f:
        rows = json.load(f)  # measured on an H100 with PyTorch 2.11: rows of a packed sequence (0: whole), what is kept
    assert len(rows) == 21
    for kind, time, batch, _, hidden, layers, ways, dropout, size, projection, packed, kept in rows:
        mode = {"LSTM": 2, "GRU": 3}[kind]
        assert recurrent.reserve_bytes(mode, packed or time * batch, hidden, layers, ways, dropout > 0, size, projection, time * batch) == kept
    lengths = torch.tensor([20, 18, 5, 9])
    trace = loop.trace_module(Packs(), (torch.empty(4, 20, 64), lengths), loop.Options(steps=1, precision="fp32"))
    sizes = [e for e in trace.events if e > 0]
    made = [n for n, o in zip(sizes, trace.operator) if trace.operators[o] == "_cudnn_rnn"]
    assert made == [4 * 20 * 32 * 4, 2 * 4 * 32 * 4, 2 * 4 * 48 * 4, recurrent.reserve_bytes(2, 80, 48, 2, 1, False, 4, 32),
                    52 * 16 * 4, 4 * 16 * 4, recurrent.reserve_bytes(3, 52, 16, 1, 1, False, 4)]
    assert 52 * 32 * 4 in sizes and 4 * 20 * 16 * 4 in sizes  # packed; padded again


@pytest.mark.parametrize("precision, casts", [("bf16-autocast", 2), ("fp16-autocast", 0)])
def test_recurrent_layers_are_float16_under_any_autocast(precision, casts):
    """PyTorch's autocast of cuDNN's has float16 alone (AutocastRNN.cpp): what reads them in bfloat16 casts once more, and the gradient back."""
    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = torch.nn.LSTM(32, 64), torch.nn.Linear(64, 8)

        def forward(self, x):
            return self.head(self.rnn(x)[0])
    net = Tagger()
    trace = loop.trace_module(net, torch.empty(16, 8, 32), loop.Options(steps=1, precision=precision))
    sizes = [e for e in trace.events if e > 0]
    weights = sum(p.numel() for p in net.rnn.parameters()) * 2
    made = [n for n, o in zip(sizes, trace.operator) if trace.operators[o] == "_cudnn_rnn"]
    assert made[0] == 16 * 8 * 64 * 2 and made[-1] == weights
    copies = [n for n, o, p in zip(sizes, trace.operator, trace.place) if trace.operators[o] == "_to_copy" and trace.places[p] == "head"]
    assert copies.count(16 * 8 * 64 * 2) == casts


def test_a_script_as_it_is(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import sys, torch
device = "cuda" if torch.cuda.is_available() else "cpu"
assert device == "cuda", device
net = torch.nn.LSTM(32, 64, num_layers=2, batch_first=True).to(device)
opt = torch.optim.Adam(net.parameters())
for step in range(1000):
    x = torch.randn(8, 16, 32).cuda()
    loss = net(x)[0].mean()
    loss.backward(); opt.step(); opt.zero_grad()
    print(step, loss.item(), file=sys.stderr)
    assert step < 3
""")
    out = tmp_path / "t.json.gz"
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--", "python", str(script)],
                         capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert run.returncode == 0, run.stderr
    assert out.stat().st_size > 100


def test_a_trace_that_cannot_be_says_where(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("import torch\nx = torch.ones(8, device='cuda')\ny = x @ x[1:]\n")
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(tmp_path / "t.json.gz"), "--", "python",
                          str(script)], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert run.returncode == 4 and "bad.py:3" in run.stderr and "plimsoll: the trace stopped" in run.stderr
    assert not (tmp_path / "t.json.gz").exists()


def test_adapters_do_not_hide_what_the_model_reads():
    pytest.importorskip("transformers")
    pytest.importorskip("peft")
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_embd": 64, "n_head": 2,
              "vocab_size": 512}
    trace = loop.trace_config(config, loop.Options(batch=2, seq=64, lora=4, steps=1))
    assert "_log_softmax" in trace.operators and "nll_loss_forward" in trace.operators
    assert trace.trainable < trace.parameters


def test_what_waits_for_a_value_ends():
    net = torch.nn.Linear(8, 8)
    torch.nn.init.trunc_normal_(net.weight)

    def made():
        with torch.device("cuda"):
            inner = torch.nn.Linear(8, 8)
            torch.nn.init.trunc_normal_(inner.weight)  # from 2.13 on it asks whether all numbers are within bounds
        return inner, torch.zeros(2, 8, device="cuda"), lambda m, x: m(x).sum()
    assert loop.trace_step(made, loop.Options(steps=1)).parameters == 72

    def waits(module, batch):
        while (module(batch) > 0).any():
            pass
        return module(batch).sum()
    with pytest.raises(ValueError, match="seems to wait for one"):
        loop.trace_module(net, torch.empty(2, 8), loop.Options(steps=1), waits)


def test_layers_that_are_dropped_by_chance_are_there():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64, bias=False) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                if torch.rand([]) < 0.1:
                    continue
                x = layer(x)
            return x
    trace = loop.trace_module(Net(), torch.empty(8, 64), loop.Options(steps=1, optimizer="sgd"))
    assert sum(trace.operators[i] == "mm" and trace.category[n] != CATEGORIES.index("workspace")
               for n, i in enumerate(trace.operator)) == 4 + 4 + 3  # forward; gradients of weights; of inputs but the first


def _heads(heads, **more):
    return torch.empty(2, heads, 64, 64, dtype=torch.bfloat16, **more)


@pytest.mark.parametrize("mask, keys, shares, kernel", [
    (None, 8, False, "cudnn"), (None, 2, True, "cudnn"), (None, 2, False, "math"),
    (torch.empty(1, 8, 64, 64, requires_grad=True), 8, False, "efficient"),
    (torch.empty(64, 64, 8, requires_grad=True).permute(2, 0, 1)[None], 8, False, "math"),
])
def test_attention_whose_bias_learns_or_whose_heads_are_broadcast(mask, keys, shares, kernel):
    assert _kernel(_heads(8), _heads(keys), mask, shares) == kernel


def _kernel(q, k, mask=None, shares=False):
    from plimsoll.tracing import device, engine
    from plimsoll.tracing.packed import Trace
    return device.attention_kernel(engine.Recorder(Trace(), tables.card_of(90)), q, k, k, mask, 0.0, False, shares)


def test_attention_of_channels_or_of_odd_heads_is_the_plain_one():
    channels = _heads(8).transpose(2, 3)  # a UNet's, (batch, heads, channels, places) turned: rows are not whole
    assert _kernel(channels, channels) == "math" and _kernel(_heads(8), channels) == "math"
    assert _kernel(torch.empty(2, 8, 64, 36), torch.empty(2, 8, 64, 36)) == "efficient"
    assert _kernel(torch.empty(2, 8, 64, 34), torch.empty(2, 8, 64, 34)) == "math"  # fp32: not in fours


def test_heads_that_are_no_whole_eights_are_padded():
    x = torch.empty(2, 4, 128, 36, requires_grad=True)
    trace = loop.trace_module(torch.nn.Linear(36, 36), x, loop.Options(steps=1, precision="bf16-autocast"),
                              lambda m, x: torch.nn.functional.scaled_dot_product_attention(*[m(x)] * 3).sum())
    sizes = [e for e in trace.events if e > 0]
    names = [trace.operators[i] for i in trace.operator]
    assert "_scaled_dot_product_flash_attention" in names
    assert [n for n, name in zip(sizes, names) if name == "constant_pad_nd"][:3] == [2 * 4 * 128 * 40 * 2] * 3  # Moonshine's, measured


def test_cudnns_batch_norm_keeps_its_input_in_one_piece():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(64)

        def forward(self, x):
            return self.norm(x.transpose(1, 2)).transpose(1, 2)

    def copies(precision, dtype):
        trace = loop.trace_module(Net(), torch.empty(8, 128, 64, dtype=dtype), loop.Options(steps=1, precision=precision, task="infer"))
        return sum(trace.operators[i] == "clone" for i in trace.operator)
    assert copies("fp32", torch.float32) == 2  # a copy in each of two passes; PatchTST, -14 % without
    assert copies("bf16-pure", torch.bfloat16) == 0  # PyTorch's own kernel takes it as it is


def test_what_is_counted_or_chosen_takes_places():
    card = tables.card_of(90)

    def inside(name, *args, result=None):
        return sum(tables.inside(tables.Call(name, args, {}, result), card), [])
    mask, x = torch.zeros(16, 64, dtype=torch.bool), torch.empty(16, 64, dtype=torch.bfloat16)
    assert inside("sum", mask, [1], result=torch.empty(16, dtype=torch.long)) == [16 * 64 * 8]  # PointNet's maximum: 256 MiB measured
    assert inside("sum", x, [1], result=torch.empty(16)) == [] and inside("cumsum", mask, 0, result=torch.empty(16, 64)) == [16 * 64 * 4]
    with torch.device("meta"):
        shared, alone, long = torch.empty(16, 1024, 1024), torch.empty(16, 256, 256), torch.empty(4, 200_000)
    taken = inside("topk", shared, 16)
    assert 16 << 20 in taken and 8 << 20 in taken and sum(taken) < 25 << 20  # measured
    assert inside("topk", alone, 32, -1) == [] and inside("topk", long, 8) == [4 * 200_000 * 12] * 2


def test_rows_of_experts_that_only_a_run_knows_are_split():
    def step(module, batch):
        chosen = module(batch).argmax(-1)
        sizes = torch.nn.functional.one_hot(chosen, 4).sum(0).tolist()
        parts = batch.split(sizes)
        assert [len(p) for p in parts] == [32, 0, 0, 0]
        return torch.cat([module(p) for p in parts]).sum()
    trace = loop.trace_module(torch.nn.Linear(16, 4), torch.empty(32, 16), loop.Options(steps=1, precision="fp32"), step)
    assert "all rows" in trace.operators


def test_transformers_that_is_imported_in_the_trace_sees_tensors(tmp_path):
    (tmp_path / "late.py").write_text("""
def made():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
                                             num_key_value_heads=2, vocab_size=64))
    return model, torch.zeros((2, 32), dtype=torch.long, device="cuda"), lambda m, x: m(x, labels=x, use_cache=False).loss
""")
    out = tmp_path / "t.json.gz"
    subprocess.run([sys.executable, "-m", "plimsoll.tracing", "late:made", "-o", str(out), "--precision", "bf16-autocast"], check=True,
                   cwd=tmp_path, capture_output=True)
    operators = packed.Trace.read(str(out)).operators
    assert "_scaled_dot_product_cudnn_attention" in operators and "logical_not" not in operators  # no mask is made


def test_a_library_that_looks_for_cuda_when_it_is_imported_does_not_stop_the_trace(tmp_path):
    (tmp_path / "kernels_of_cuda.py").write_text("import torch\nstream = torch._C._cuda_getCurrentRawStream\n")  # as bitsandbytes 0.50
    (tmp_path / "train.py").write_text("""
import torch
import kernels_of_cuda
m = torch.nn.Linear(64, 64).cuda()
o = torch.optim.SGD(m.parameters(), 0.1)
for _ in range(3):
    m(torch.randn(8, 64, device="cuda")).sum().backward()
    o.step()
    o.zero_grad()
print(kernels_of_cuda.stream(0))
""")
    out = tmp_path / "t.json.gz"
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--", "python", str(tmp_path / "train.py")],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0 and out.exists(), run.stderr


def test_a_loss_under_autocast_stays_in_the_dtype_of_the_logits():
    def made():
        with torch.device("cuda"):
            net = torch.nn.Linear(64, 1000, bias=False)
            return net, torch.zeros(32, 64), lambda m, x: torch.nn.functional.cross_entropy(m(x), x[:, 0].long())
    trace = loop.trace_step(made, loop.Options(steps=1, precision="bf16-autocast"))
    sizes = [e for e in trace.events if e > 0]
    softmax = [sizes[n] for n, i in enumerate(trace.operator) if trace.operators[i] == "_log_softmax"]
    assert softmax == [32 * 1000 * 2]


def test_attention_within_a_module_of_torch_is_fused():
    net = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    trace = loop.trace_module(net, torch.empty(2, 32, 64), loop.Options(steps=1, precision="bf16-autocast"))
    names = {trace.operators[i] for i in trace.operator}
    assert "_scaled_dot_product_cudnn_attention" in names and "_safe_softmax" not in names


def _config(tmp_path, **more):
    import json
    values = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 512}
    (tmp_path / "config.json").write_text(json.dumps({**values, **more}))
    return str(tmp_path)


def test_generation_is_a_prompt_and_tokens_with_what_they_keep(tmp_path):
    pytest.importorskip("transformers")
    trace = loop.trace_config(_config(tmp_path), loop.Options(batch=2, seq=32, task="generate", new_tokens=4))
    sizes = [e for e in trace.events if e > 0]
    kept = [n for n, c in zip(sizes, trace.category) if c == CATEGORIES.index("kv_cache")]
    one = 2 * 64 * 2  # a token of the batch, in bf16
    # keys and values of two blocks: of the prompt, and again with each token but the last, which nothing reads
    assert sorted(kept) == sorted(one * (32 + n) for n in range(4) for _ in range(4))
    assert trace.phases == ["load", "generate"] and "new-tokens=4" in trace.asked


def test_a_kept_trace_is_planned_as_it_was_made(tmp_path):
    pytest.importorskip("transformers")
    import plimsoll
    kept = tmp_path / "kept.json.gz"
    loop.trace_config(_config(tmp_path), loop.Options(batch=2, seq=32, steps=2)).write(str(kept))
    assert plimsoll.plan(str(kept), batch=2, seq=32, precision="bf16").model.parameters
    for other in ({"batch": 4}, {"seq": 64}, {"precision": "fp32"}, {"optimizer": "sgd"}, {"checkpointing": "full"}, {"lora": 8},
                  {"quantize": "nf4"}, {"gpus": 2}, {"no_clip": True}, {"task": "generate"}, {"accumulate": 2}):
        with pytest.raises(plimsoll.PlimsollError, match="the trace was made with"):
            plimsoll.plan(str(kept), **other)


def test_a_function_says_its_batch_or_is_given_it(tmp_path, monkeypatch):
    (tmp_path / "made_here.py").write_text("""
import torch
def fixed():
    return torch.nn.Linear(8, 8).cuda(), torch.zeros(4, 8, device="cuda"), lambda m, x: m(x).sum()
def sized(batch=1):
    return torch.nn.Linear(8, 8).cuda(), torch.zeros(batch, 8, device="cuda"), lambda m, x: m(x).sum()
""")
    monkeypatch.chdir(tmp_path)
    assert loop.trace_function("made_here", "sized", loop.Options(batch=16)).events.count(16 * 8 * 4) >= 1
    with pytest.raises(ValueError, match="def fixed"):
        loop.trace_function("made_here", "fixed", loop.Options(batch=16))
    assert loop.trace_function("made_here", "fixed", loop.Options()).batch == 0


SCRIPTS = {
    "transformers": """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        ids = torch.randint(0, 100, (16,))
        return {"input_ids": ids, "labels": ids}
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=2, vocab_size=100))
Trainer(model=model, train_dataset=Data(), args=TrainingArguments(output_dir=sys.argv[1], per_device_train_batch_size=4, bf16=True,
        max_steps=20, report_to=[], gradient_accumulation_steps=2, logging_steps=1)).train()
""",
    "accelerate": """
import torch
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16")
net = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(net.parameters())
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 64)), batch_size=8, shuffle=True)
net, optimizer, data = accelerator.prepare(net, optimizer, data)
for epoch in range(100):
    for (x,) in data:
        with accelerator.accumulate(net):
            accelerator.backward((net(x) - x).pow(2).mean())
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
""",
    "lightning": """
import sys, torch, lightning
class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(64, 10)
    def training_step(self, batch, i):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 64), torch.randint(0, 10, (64,))), batch_size=8)
lightning.Trainer(max_epochs=100, precision="bf16-mixed", logger=False, enable_checkpointing=False, accelerator="gpu", devices=1,
                  enable_progress_bar=False, default_root_dir=sys.argv[1]).fit(Net(), data)
""",
}


@pytest.mark.parametrize("library", SCRIPTS)
def test_scripts_of_frameworks_as_they_are(library, tmp_path):
    pytest.importorskip(library)
    import gzip
    import json
    script = tmp_path / "train.py"
    script.write_text(SCRIPTS[library])
    out = tmp_path / "t.json.gz"
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--", "python", str(script), str(tmp_path)],
                         capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert run.returncode == 0, run.stderr
    trace = json.loads(gzip.decompress(out.read_bytes()))
    assert trace["trainable"] > 0 and sum(name.startswith("opt") for name in trace["phases"]) == 2
    passes = [name for name in trace["phases"] if name.startswith("bwd")]
    assert len(passes) == (4 if library == "transformers" else 2)  # two micro-batches a step
    kinds = {CATEGORIES[c] for c in trace["category"]}
    assert {"parameter", "gradient", "optimizer_state"} <= kinds


class Library:
    """What plan needs of timm and diffusers, which are not everywhere: names, configurations, and models that read by name."""

    __version__ = "1"

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = torch.nn.Conv2d(3, 16, 8, 8)
            self.head = torch.nn.Linear(16, 10)
            self.pretrained_cfg = {"input_size": (3, 32, 32)}

        def forward(self, x):
            return self.head(self.patch(x).mean((2, 3)))

    class Denoiser(torch.nn.Module):
        @classmethod
        def from_config(cls, config):
            import types
            net = cls()
            net.config = types.SimpleNamespace(**config)
            net.first = torch.nn.Linear(config["cross_attention_dim"], config["in_channels"])
            net.last = torch.nn.Conv2d(config["in_channels"], config["in_channels"], 3, padding=1)
            return net

        def forward(self, sample, timestep, encoder_hidden_states):
            added = self.first(encoder_hidden_states).mean(1) + timestep[:, None]
            return (self.last(sample + added[:, :, None, None]),)

    @classmethod
    def create_model(cls, name, pretrained):
        if name != "net":
            raise RuntimeError(f"Unknown model ({name})")
        return cls.Net()


def test_models_of_timm_and_diffusers_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", Library)
    monkeypatch.setitem(sys.modules, "diffusers", Library)
    trace = loop.trace_timm("net", loop.Options(batch=4, steps=1))
    assert trace.parameters == 16 * 3 * 64 + 16 + 170 and trace.model == "timm/net"
    assert 4 * 3 * 32 * 32 * 4 in trace.events  # its images, as large as it says
    with pytest.raises(ValueError, match="Unknown model"):
        loop.trace_timm("other", loop.Options())
    config = {"_class_name": "Denoiser", "in_channels": 4, "sample_size": 16, "cross_attention_dim": 32}
    trace = loop.trace_config(config, loop.Options(batch=2, seq=8, steps=1))
    assert trace.parameters == 33 * 4 + 4 * 4 * 9 + 4
    assert {2 * 4 * 16 * 16 * 4, 2 * 8 * 32 * 4} <= set(trace.events)  # latents; 8 tokens of a text
    with pytest.raises(ValueError, match="model by model"):
        loop.trace_config({"_class_name": "StableDiffusionPipeline"}, loop.Options())


def _chain(how):
    """Four layers of 4 MiB, on the first of four GPUs."""
    def made():
        with torch.device("cuda"):
            net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(4)))
            inputs = torch.zeros(64, 1024)
        if how == "ddp":
            torch.distributed.init_process_group("nccl")
            net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[0])
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            torch.distributed.init_process_group("nccl")
            mesh = init_device_mesh("cuda", (4,))
            for layer in net:
                fully_shard(layer, mesh=mesh)
            fully_shard(net, mesh=mesh)
        return net, inputs, lambda m, x: m(x).sum()
    return made


def _left(trace):
    """What is allocated when phases end, in MiB, without cuBLAS's workspaces and what is less than 1 MiB."""
    sizes, live, out, ended = [], 0, {}, 0
    for event in trace.events:
        if event > 0:
            counts = event >= 1 << 20 and trace.category[len(sizes)] != CATEGORIES.index("workspace")
            sizes.append(event if counts else 0)
            live += sizes[-1]
        elif event < 0:
            live -= sizes[-event - 1]
        else:
            out[trace.phases[ended]] = live >> 20
            ended += 1
    return out


def test_ddp_keeps_its_buckets_beside_the_gradients():
    trace = loop.trace_step(_chain("ddp"), loop.Options(steps=2, precision="fp32", gpus=4))
    left = _left(trace)
    assert left["load"] == 16 + 16        # weights; buckets
    assert left["bwd0"] == 16 + 16 + 16   # and gradients
    replaced = 16  # that NCCL's process group still holds
    assert left["opt1"] == 16 + 16 + 16 + 32 + replaced and left["zero1"] == 16 + 16 + 32 + replaced
    assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("code, told", [
    ("from torch.distributed.fsdp import FullyShardedDataParallel as F; F(net)",
     "FSDP1 is not traced: fully_shard of FSDP2 is; or plimsoll plan CONFIG --gpus 2 --parallel fsdp1"),
    ("from torch.distributed.tensor.parallel import parallelize_module as p; p(net, None, {})",
     "tensor parallelism is not traced: plimsoll plan CONFIG --gpus 2 --tp 2"),
    ("from torch.distributed.pipelining import PipelineStage as P; P(net, 0, 2, 'cuda')",
     "pipeline parallelism is not traced: plimsoll plan CONFIG --gpus 2 --pp 2"),
])
def test_what_is_not_traced_of_several_gpus_says_what_is(tmp_path, code, told):
    from plimsoll.tracing import script
    path = tmp_path / "train.py"
    path.write_text("import torch\ntorch.distributed.init_process_group('nccl')\nnet = torch.nn.Linear(8, 8).cuda()\n" + code + "\n")
    arguments = sys.argv
    try:
        with pytest.raises(ValueError, match=re.escape(told)):
            script.trace_script(["torchrun", "--nproc-per-node", "2", str(path)], loop.Options())
    finally:
        sys.argv = arguments


def test_other_ways_of_sharing_name_the_tables(monkeypatch):
    from plimsoll.tracing import ranks
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="plimsoll plan CONFIG --gpus 4 --parallel fsdp1"):
        ranks.shard(torch.nn.Linear(8, 8), "fsdp1", None)


def test_several_gpus_are_not_told_of_what_runs_on_one(tmp_path, monkeypatch):
    # a model of a library and a function that shares nothing were planned as rank 0 of a job, whole
    def made(o, dtype):
        raise AssertionError("it is refused before there is a model")
    with pytest.raises(ValueError, match="plimsoll plan -- torchrun --nproc-per-node 4 train.py"):
        loop.trace_library(made, loop.Options(gpus=4), "timm/any")
    with pytest.raises(ValueError, match="--parallel fsdp1 is not traced; .* --gpus 4 --parallel fsdp1"):
        loop.trace_config({"model_type": "none"}, loop.Options(gpus=4, parallel="fsdp1"))
    (tmp_path / "plain_of_one.py").write_text(
        "import torch\ndef make():\n    with torch.device('cuda'):\n        net, x = torch.nn.Linear(8, 8), torch.zeros(2, 8)\n"
        "    return net, x, lambda m, b: m(b).sum()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(ValueError, match="shares its model with no other GPU"):
        loop.trace_function("plain_of_one", "make", loop.Options(gpus=4))


def test_fsdp2_shards_and_gathers_layer_by_layer():
    trace = loop.trace_step(_chain("fsdp2"), loop.Options(steps=2, precision="fp32", gpus=4))
    left = _left(trace)
    assert left["load"] == 4 and left["bwd0"] == 4 + 4 and left["opt1"] == 4 + 4 + 8 and left["zero1"] == 4 + 8
    # one layer is gathered after another; a whole model never is
    assert peaks(trace)["fwd1"] < (4 + 8 + 16 + 64) << 20
    kinds = {CATEGORIES[c] for c in trace.category}
    assert {"parameter", "gradient", "optimizer_state"} <= kinds


def test_a_script_of_several_ranks(tmp_path):
    from plimsoll.tracing import script
    assert script._python(["torchrun", "--standalone", "--nproc_per_node", "4", "train.py", "--lr", "1"]) == (["train.py", "--lr", "1"], 4)
    assert script._python(["python", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=8", "-m", "pkg"]) == (["-m", "pkg"], 16)
    assert script._python(["accelerate", "launch", "--num_processes", "2", "train.py"]) == (["train.py"], 2)
    assert script._python(["python", "-u", "-X", "dev", "train.py"]) == (["train.py"], 0)
    with pytest.raises(ValueError, match="give a number"):
        script._python(["torchrun", "--nproc-per-node", "gpu", "train.py"])
    path = tmp_path / "train.py"
    path.write_text("""
import os, torch
import torch.distributed as dist
dist.init_process_group("nccl")
assert dist.get_rank() == 0 and dist.get_world_size() == 2 == int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).cuda(), device_ids=[0])
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    loss = net(torch.randn(8, 512, device="cuda")).sum()
    loss.backward()
    dist.all_reduce(loss.detach())
    opt.step(); opt.zero_grad()
dist.destroy_process_group()
""")
    trace = script.trace_script(["torchrun", "--nproc-per-node", "2", str(path)], loop.Options())
    assert trace.events.count((512 * 512 + 512) * 4) >= 1  # a bucket


def test_what_cannot_be_compiled_runs_as_it_is_and_that_is_said(tmp_path, monkeypatch):
    import plimsoll
    from plimsoll.tracing import compiled

    def made():
        with torch.device("cuda"):
            net = torch.nn.Linear(512, 512)
        whole = torch.compile(net, mode="reduce-overhead")
        loss = torch.compile(fullgraph=True)(lambda x: x.sum())
        net.compile()
        return net, torch.zeros(8, 512, device="cuda"), lambda m, x: loss(whole(x))

    def fails(self):
        raise RuntimeError("a release that has none")
    monkeypatch.setattr(compiled.Compiler, "prepare", fails)
    trace = loop.trace_step(made, loop.Options(steps=1))
    assert any("torch.compile is left out" in a for a in trace.assumed)
    kept = tmp_path / "t.json.gz"
    trace.write(str(kept))
    peak = plimsoll.plan(str(kept)).peak
    assert peak.needed_range_bytes.low < 0.51 * peak.needed_bytes  # compiled code may need far less


def apart(test):
    """In a process of its own, as a trace is: Dynamo keeps what it has seen of PyTorch and of other libraries."""
    @functools.wraps(test)
    def run(*args, **kwargs):
        if os.environ.get("PLIMSOLL_APART"):
            return test(*args, **kwargs)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--show-capture=no", f"{os.path.abspath(__file__)}::{test.__name__}"]
        got = subprocess.run(command, capture_output=True, text=True, check=False,
                             env={**os.environ, "PLIMSOLL_APART": "1", "PYTHONPATH": os.pathsep.join(sys.path)})
        assert got.returncode == 0, got.stdout + got.stderr
    return run


class Mixed(torch.nn.Module):
    """A chain of elementwise operations between two products."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = torch.nn.Linear(512, 512), torch.nn.Linear(512, 512), torch.nn.LayerNorm(512)

    def forward(self, x):
        q = self.a(x).view(8, 4, 256, 128)
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q).reshape(x.shape)
        return self.b(torch.nn.functional.gelu(torch.nn.functional.silu(self.norm(y)) * 2 + 1))


class Loss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.net(x), labels)


def compiled_trace(compile_it, **options):
    def made():
        with torch.device("cuda"):
            net, x = Mixed(), torch.zeros(8, 256, 512)
        whole = compile_it(net)
        return net, x, lambda m, x: whole(x).sum()
    return loop.trace_step(made, loop.Options(steps=2, precision="bf16-autocast", **options))


@apart
def test_compiled_modules_are_lowered_by_inductor():
    eager, graphs = compiled_trace(lambda net: net), compiled_trace(lambda net: torch.compile(net))
    assert not any("left out" in a for a in graphs.assumed) and any("lowered by Inductor" in a for a in graphs.assumed), graphs.assumed
    names = [graphs.operators[o] for o in graphs.operator]
    assert "_scaled_dot_product_cudnn_attention_backward" in names and "_foreach_sqrt" in names  # the GPU's; the optimizer's
    assert "empty_strided" in names and "gelu" not in names and "erf" not in names  # buffers of the code; fused: in no memory
    # fused chains keep nothing but what products need: half of eager's activations or less
    whole = 8 * 256 * 512 * 4 >> 20
    kept = {how: _left(t)["fwd1"] - _left(t)["zero0"] for how, t in (("eager", eager), ("graphs", graphs))}
    assert kept["graphs"] <= kept["eager"] - 3 * whole, kept
    assert _left(graphs)["bwd1"] == _left(eager)["bwd1"]  # gradients of the same parameters
    assert peaks(graphs)["opt1"] == peaks(eager)["opt1"]


@apart
def test_compiled_functions_and_broken_graphs():
    """A function is compiled as a module is; what breaks the graph runs between its parts."""
    def broken(net):
        def run(x):
            y = net.norm(net.a(x))
            torch._dynamo.graph_break()
            return net.b(torch.nn.functional.gelu(y))
        return torch.compile(run)
    trace = compiled_trace(broken)
    assert any("lowered by Inductor itself" in a and "(4 times)" in a for a in trace.assumed), trace.assumed  # two parts, forward and backward
    assert "gelu" not in [trace.operators[o] for o in trace.operator]


@apart
def test_graphs_that_inductor_does_not_lower_run_node_by_node(monkeypatch, tmp_path):
    import plimsoll
    from plimsoll.tracing import inductor

    def fails(*_):
        raise RuntimeError("a release that is built otherwise")
    monkeypatch.setattr(inductor, "written", fails)
    trace = compiled_trace(lambda net: torch.compile(net))
    assert any("Inductor did not lower them" in a for a in trace.assumed)
    names = [trace.operators[o] for o in trace.operator]
    assert "_scaled_dot_product_cudnn_attention_backward" in names and "gelu" not in names and "erf" not in names
    kept = tmp_path / "t.json.gz"
    trace.write(str(kept))
    peak = plimsoll.plan(str(kept)).peak
    assert peak.needed_range_bytes.low < 0.8 * peak.needed_bytes and peak.needed_range_bytes.high > 1.25 * peak.needed_bytes


@apart
def test_a_compiled_loss_by_classes_takes_one_gradient_of_the_logits():
    # was: the scattered ones and their product next to it, 15 to 42 % of the peaks of four compiled models on an H100
    def made():
        with torch.device("cuda"):
            net, x = torch.nn.Linear(64, 8192, bias=False), torch.zeros(512, 64)
            labels = torch.zeros(512, dtype=torch.long)
        whole = torch.compile(Loss(net))
        return whole, x, lambda m, x: m(x, labels)
    trace = loop.trace_step(made, loop.Options(steps=2))
    made, ended = {}, 0
    for event in trace.events:
        ended += event == 0
        if event == 512 * 8192 * 4:
            made[trace.phases[ended]] = made.get(trace.phases[ended], 0) + 1
    assert made == {"fwd0": 1, "fwd1": 1}  # the logits; their gradient takes their place


def test_masks_whose_rows_are_not_whole_go_to_the_plain_attention():
    def made():
        with torch.device("cuda"):
            q = torch.nn.Parameter(torch.zeros(2, 4, 64, 64))
            bias = torch.zeros(64, 64, 4)
        return torch.nn.ParameterList([q]), bias, lambda m, b: torch.nn.functional.scaled_dot_product_attention(
            m[0].half(), m[0].half(), m[0].half(), attn_mask=b.half().permute(2, 0, 1)[None]).sum()
    trace = loop.trace_step(made, loop.Options(steps=1, precision="fp32", task="infer"))
    assert not any("_attention" in o for o in trace.operators) and "softmax" in " ".join(trace.operators)


def test_the_plain_attention_drops_with_a_mask_of_bytes():
    def made():
        with torch.device("cuda"):
            q = torch.nn.Parameter(torch.zeros(2, 4, 64, 64))
            bias = torch.nn.Parameter(torch.zeros(64, 64, 4))  # one that learns, whose rows are not whole
        net = torch.nn.ParameterList([q, bias])
        return net, None, lambda m, _: torch.nn.functional.scaled_dot_product_attention(
            m[0], m[0], m[0], attn_mask=m[1].permute(2, 0, 1)[None], dropout_p=0.1).sum()
    trace = loop.trace_step(made, loop.Options(steps=1))
    sizes = [e for e in trace.events if e > 0]
    dropped = [sizes[n] for n, i in enumerate(trace.operator) if trace.operators[i] == "native_dropout"]
    assert dropped == [2 * 4 * 64 * 64 * 4, 2 * 4 * 64 * 64]
    assert torch.nn.functional.dropout(torch.ones(8), 0.0, True).sum() == 8  # and is the CPU's own again


FUSED = hasattr(torch.ops.aten, "_fused_rms_norm_backward")  # CUDA has the kernel from 2.9 on


@pytest.mark.skipif(not FUSED, reason="this PyTorch takes it apart on CUDA too")
def test_rms_norm_is_one_kernel_each_way():
    net = torch.nn.Sequential(torch.nn.Linear(512, 512, bias=False), torch.nn.RMSNorm(512))
    trace = loop.trace_module(net, torch.empty(4, 16, 512), loop.Options(precision="fp32", steps=1))
    sizes = [e for e in trace.events if e > 0]
    made = {name: [sizes[n] for n, i in enumerate(trace.operator) if trace.operators[i] == name] for name in trace.operators}
    rows = 4 * 16
    assert made["_fused_rms_norm"] == [rows * 512 * 4, rows * 4]  # the result, and a number per row
    assert made["_fused_rms_norm_backward"] == [rows * 512 * 4, 512 * 4]
    assert not {"rsqrt", "pow"} & set(made)
    kept = [n for n, i in enumerate(trace.operator) if trace.operators[i] == "_fused_rms_norm"]
    assert {trace.places[trace.place[n]] for n in kept} == {"1"}
    backward = trace.operator.index(trace.operators.index("_fused_rms_norm_backward"))
    assert trace.places[trace.place[backward]] == "1"
    # the numbers of the rows are kept until the backward pass has used them
    assert trace.events.index(-kept[1] - 1) > [n for n, e in enumerate(trace.events) if e > 0][backward]


@pytest.mark.skipif(not FUSED, reason="this PyTorch takes it apart on CUDA too")
def test_rms_norm_of_mixed_dtypes_is_taken_apart_as_pytorch_does():
    def made():
        with torch.device("cuda"):
            return torch.nn.RMSNorm(64), torch.zeros(8, 64, dtype=torch.bfloat16), lambda m, x: m(x).sum()
    trace = loop.trace_step(made, loop.Options(steps=1, precision="fp32"))
    assert "rsqrt" in trace.operators and "_fused_rms_norm" not in trace.operators
    x = torch.ones(2, 8, requires_grad=True)
    torch.nn.functional.rms_norm(x, [8]).sum().backward()  # and is the CPU's own again
    assert x.grad is not None and torch.nn.functional.rms_norm(torch.full((2, 8), 3.0), [8]).allclose(torch.ones(2, 8))


def test_autocasts_lists_are_those_of_the_release():
    from plimsoll.tracing import device
    header = """
#define AT_FORALL_FP32(_)             \\
  _(acos)                             \\
  /* not this one: _(abs) */          \\
  _(pow, Tensor_Scalar)

#define AT_FORALL_FP32_SET_OPT_DTYPE(_) \\
  _(prod)                               \\
  _(sum, dim_IntList)

#define OTHER(_) _(add)
"""
    assert device.autocast_lists(header) == (["acos", "pow.Tensor_Scalar"], ["prod", "sum.dim_IntList"])
    assert device.autocast_lists("") == (device.FP32, device.SET_DTYPE)
    seen = []

    def step(module, batch):
        y = module(batch)
        seen.append((y.dtype, torch.nn.functional.normalize(y, dim=-1).dtype))
        return y.sum()
    loop.trace_module(torch.nn.Linear(8, 8), torch.empty(2, 8), loop.Options(precision="bf16-autocast", steps=1), step)
    assert seen[0] == (torch.bfloat16, torch.float32)  # a norm is fp32, and what is divided by it


def test_what_operators_take_inside():
    card = tables.card_of(90)

    def inside(name, *args):
        return sum(tables.inside(tables.Call(name, args, {}, None), card), [])
    q = torch.empty(3, 12, 700, 64, dtype=torch.bfloat16)
    assert inside("_scaled_dot_product_cudnn_attention_backward", q, q, q) == [3 * 12 * 700 * 65 * 4 + 256]  # 6.249 MiB measured
    assert inside("_scaled_dot_product_flash_attention_backward", q, q, q) == [3 * 12 * 768 * 65 * 4 + 256]
    assert inside("_softmax_backward_data", torch.empty(4, 8, 32, 32)) == [4 * 8 * 32 * 32 * 4]
    ids = torch.zeros(3072, dtype=torch.long)
    assert inside("embedding_dense_backward", torch.empty(3072, 64), ids, 1000, 0, False) == []
    assert len(inside("embedding_dense_backward", torch.empty(3073, 64), torch.zeros(3073), 1000, -1, False)) == 5


def test_what_is_joined_under_autocast_is_not_cast_before():
    def made():
        with torch.device("cuda"):
            return torch.nn.Linear(64, 64), torch.zeros(8, 64), lambda m, x: torch.cat([m(x), x], -1).sum()
    trace = loop.trace_step(made, loop.Options(steps=1, precision="bf16-autocast"))
    sizes = [e for e in trace.events if e > 0]
    assert [sizes[n] for n, i in enumerate(trace.operator) if trace.operators[i] == "cat"] == [8 * 128 * 4]
    assert not any(sizes[n] == 8 * 64 * 4 for n, i in enumerate(trace.operator)
                   if trace.operators[i] == "_to_copy" and trace.phases and n < len(sizes) // 2)


class Doubled(torch.autograd.Function):
    """An autograd function of one's own, which keeps a copy."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x * 2)
        return x * 3

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0] * grad


def test_functions_of_ones_own_keep_what_they_save():
    net = torch.nn.Linear(512, 512, bias=False)
    own = loop.trace_module(net, torch.empty(1024, 512), loop.Options(steps=1), lambda m, x: Doubled.apply(m(x)).sum())
    plain = loop.trace_module(net, torch.empty(1024, 512), loop.Options(steps=1), lambda m, x: (m(x) * 3).sum())
    assert _left(own)["fwd0"] - _left(plain)["fwd0"] == 2  # the copy


@pytest.mark.parametrize("options, phases, needs", [
    ({"accumulate": 3}, 3, ()), ({"optimizer": "adamw-fused"}, 1, ("_fused_adamw_",)), ({"optimizer": "adamw-loop"}, 1, ("sqrt",)),
    ({"optimizer": "adamw"}, 1, ("_foreach_sqrt",)), ({"precision": "fp16-autocast"}, 1, ("_to_copy",)),
    ({"optimizer": "sgd-momentum"}, 1, ("clone",)),
])
def test_recipes_run_as_pytorch_has_them(options, phases, needs):
    trace = linear(depth=2, **options)
    assert sum(p.startswith("bwd0") for p in trace.phases) == phases
    known = {"_fused_adamw_": lambda: "_foreach_sqrt" not in trace.operators}  # it takes nothing next to
    for name in needs:
        assert known.get(name, lambda name=name: name in trace.operators)()
    states = sum(n for n, c in zip([e for e in trace.events if e > 0], trace.category) if c == CATEGORIES.index("optimizer_state"))
    momenta = 1 if options.get("optimizer") == "sgd-momentum" else 2
    assert states // (2 * 512 * 512 * 4) == momenta


def test_what_pytorchs_own_python_places_on_the_gpu_is_there():
    # embedding_bag makes its offsets inside of a function that the function mode does not see
    bags = torch.nn.EmbeddingBag(100, 64)

    def step(module, ids):
        return module(ids).sum()
    trace = loop.trace_module(bags, torch.zeros((32, 8), dtype=torch.long), loop.Options(steps=2, precision="fp32"), step)
    assert "arange" in trace.operators and peaks(trace)["bwd0"] > 2 * 100 * 64 * 4


class Written:
    """A stream that is a terminal or none."""

    def __init__(self, terminal):
        self.terminal, self.text = terminal, ""

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize("terminal, own_line, expected", [
    (True, False, "\r\033[Kplimsoll: one ...\r\033[Kplimsoll: two ...\r\033[K"),  # each in the place of the last, and then none
    (True, True, "plimsoll: one ...\nplimsoll: two ...\n"),  # a script writes there too
])
def test_on_a_terminal_each_stage_of_a_trace_is_told(monkeypatch, terminal, own_line, expected):
    monkeypatch.setenv("TERM", "xterm")
    stream = Written(terminal)
    told = progress.Progress(own_line, stream)
    told.say("one")
    told.say("two")
    told.done()
    told.say("three")
    assert stream.text == expected


def test_elsewhere_only_what_takes_long_is_told(monkeypatch):
    monkeypatch.setattr(progress, "LATE_S", 3600.0)  # the test says itself when it is late
    stream = Written(False)
    told = progress.Progress(False, stream)
    told.say("one")
    assert stream.text == ""
    told._late()
    told.say("two")
    told.done()
    assert stream.text == "plimsoll: one ...\nplimsoll: two ...\n"


def test_a_script_that_takes_its_batch_is_traced_with_others(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import sys, torch
batch, length = int(sys.argv[1]), int(sys.argv[2])
net = torch.nn.Sequential(torch.nn.Embedding(1000, 32), torch.nn.Linear(32, 1000)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
while True:
    x = torch.randint(0, 1000, (batch, length)).cuda()
    torch.nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
""")

    out = tmp_path / "t.json.gz"
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--batch", "4", "--seq", "16", "--grown", "8", "--",
                          "python", str(script), "{batch}", "{seq}"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    t = packed.Trace.read(str(out))
    logits = [e for e in t.events if e > 0].index(4 * 16 * 1000 * 4)
    assert (t.batch, t.sequence, t.grown_batch) == (4, 16, 8) and t.asked == ["batch=4", "seq=16"]
    assert t.grown[logits] == 8 * 16 * 1000 * 4


def test_a_script_that_says_its_batch_is_told_how_it_could_be_asked(tmp_path, capsys):
    main = importlib.import_module("plimsoll.tracing.__main__").main
    assert main(["-o", str(tmp_path / "t.json.gz"), "--grown", "8", "--", "python", "train.py"]) == 4
    assert "write {batch} for the number" in capsys.readouterr().err


SCRIPT_OF_VALUES = """
import numpy, torch
data = numpy.arange(5000) % 100
net = torch.nn.Sequential(torch.nn.Embedding(100, 64), torch.nn.Linear(64, 100)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
while True:
    at = torch.randint(len(data) - 32, (8,))
    x = torch.stack([torch.from_numpy(data[i:i + 32]) for i in at])  # a slice by a number that was drawn
    lengths = torch.tensor([32 - n for n in range(8)])
    x, lengths = x.pin_memory().to("cuda", non_blocking=True), lengths.cuda()
    mask = torch.arange(32, device="cuda")[None] < lengths[:, None]
    loss = torch.nn.functional.cross_entropy(net(x)[mask], x[mask])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss:.3f}", loss.detach().cpu().numpy(), lengths.tolist(), tuple(x.shape), int(mask.sum()), tuple(x[mask].shape))
"""


def test_whole_numbers_of_the_host_are_what_they_are(tmp_path):
    # what a script draws, slices and masks by decides how large all else is: zeros would make empty batches of it
    script = tmp_path / "train.py"
    script.write_text(SCRIPT_OF_VALUES)
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(tmp_path / "t.json.gz"), "--", "python", str(script)],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    valid = sum(32 - n for n in range(8))
    assert f"0.500 0.0 {[32 - n for n in range(8)]} (8, 32) {valid} ({valid},)" in run.stderr
    trace = packed.Trace.read(str(tmp_path / "t.json.gz"))
    sizes = [e for e in trace.events if e > 0]
    assert 8 * 32 * 100 * 4 in sizes and valid * 100 * 4 in sizes and "all rows" not in trace.operators


def test_rows_that_only_a_run_knows_are_all_there_and_that_is_said():
    net = torch.nn.Linear(16, 16)

    def step(module, batch):
        y = module(batch)
        kept = y[y.sum(-1) > 0]
        assert kept.shape == (32, 16) and torch.masked_select(y, y > 0).shape == (512,) and (y > 0).nonzero().shape == (512, 2)
        assert torch.unique(y.argmax(-1)).shape == (32,)
        return kept.sum()
    trace = loop.trace_module(net, torch.empty(32, 16), loop.Options(steps=1, precision="fp32"), step)
    assert "all rows" in trace.operators and any("as large as they can be" in a for a in trace.assumed)


def test_what_a_module_is_given_is_known():
    def step(module, batch):
        x, at = batch
        assert x[at].shape == (3, 8)  # two of four rows are masked by what was given
        return module(x[at]).sum()
    given = torch.empty(4, 8), torch.tensor([True, False, True, True])
    trace = loop.trace_module(torch.nn.Linear(8, 8), given, loop.Options(steps=1), step)
    assert "all rows" not in trace.operators


def test_what_is_written_into_what_is_known_is_forgotten():
    def step(module, batch):
        n = torch.tensor([1, 2, 3])
        view = n[1:]
        n[2] = 5
        assert view.tolist() == [2, 5]  # a view sees it
        n[1] = module(batch).argmax()  # no one knows
        assert view.tolist() == [0, 0]
        return module(batch).sum()
    loop.trace_module(torch.nn.Linear(8, 8), torch.empty(4, 8), loop.Options(steps=1), step)


def test_what_fills_zeros_in_a_derivative_fills_them_in_place():
    net = torch.nn.Embedding(1000, 256)
    at = torch.arange(100)

    def step(module, batch):
        return (module.weight[batch] * 2).sum()
    trace = loop.trace_module(net, at, loop.Options(steps=1, precision="fp32"), step)
    weight = 1000 * 256 * 4
    assert peaks(trace)["bwd0"] < 2.5 * weight + 4 * 100 * 256 * 4  # weight, its gradient; no second one


def test_a_bias_of_rows_that_are_not_whole_is_added_in_place():
    net = torch.nn.Linear(256, 2048)

    def step(module, batch):
        return module(batch.transpose(0, 1)).sum()
    trace = loop.trace_module(net, torch.empty(16, 64, 256), loop.Options(steps=1, precision="fp32"), step)
    births = [e for e in trace.events if e > 0]
    assert {trace.operators[o] for o, e in zip(trace.operator, births) if e == 16 * 64 * 2048 * 4} & {"mm", "bmm", "add"} < {"mm", "bmm"}


def test_one_hot_is_zeros_that_are_filled():
    def step(module, batch):
        return (module(batch) * torch.nn.functional.one_hot(batch, 512)).sum()
    trace = loop.trace_module(torch.nn.Embedding(512, 512), torch.zeros(1024, dtype=torch.long), loop.Options(steps=1, precision="fp32"), step)
    sizes = [e for e in trace.events if e > 0]
    assert 1024 * 512 * 8 in sizes and 1024 * 512 not in sizes  # whole numbers, and no conditions before them


def test_bags_keep_whose_each_index_is():
    bags = torch.nn.EmbeddingBag(100, 64, mode="sum")
    trace = loop.trace_module(bags, torch.zeros((512, 8), dtype=torch.long), loop.Options(steps=1, precision="fp32"),
                              lambda module, ids: module(ids).sum())
    sizes = [e for e in trace.events if e > 0]
    assert sizes.count(512 * 8 * 8) >= 2 + 3  # the indices, the bag of each; three lists in the derivative


def test_a_script_that_updates_its_parameters_itself(tmp_path):
    # PyTorch's own word_language_model: no optimizer, and a device that torch.accelerator names
    script = tmp_path / "train.py"
    script.write_text("""
import torch
device = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") and torch.accelerator.is_available() else "cuda"
net = torch.nn.Linear(64, 64).to(device)
while True:
    net.zero_grad()
    net(torch.randn(8, 64, device=device)).sum().backward()
    for p in net.parameters():
        p.data.add_(p.grad, alpha=-0.1)
""")
    out = tmp_path / "t.json.gz"
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--", "python", str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    trace = packed.Trace.read(str(out))
    assert trace.parameters == 64 * 65 and trace.phases == ["load", "fwd0", "bwd0", "fwd0.1", "fwd1", "bwd1", "fwd1.1", "fwd2"]


def test_a_script_that_leaves_the_gpu_alone_is_told(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import torch
net = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    net(torch.randn(2, 8)).sum().backward()
    optimizer.step()
""")
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(tmp_path / "t.json.gz"), "--", "python", str(script)],
                         capture_output=True, text=True)
    assert run.returncode == 4 and "nothing of the script was on the GPU" in run.stderr


def test_the_order_of_many_samples_is_listed_at_once(monkeypatch):
    from plimsoll.tracing import engine
    asked = []
    monkeypatch.setattr(engine.DispatchMode, "value", lambda self, func, args: asked.append(func) or 0)

    def step(module, batch):
        assert sorted(torch.randperm(3000).tolist()) == list(range(3000))
        with torch.cuda.stream(stream=torch.cuda.Stream()):  # as timm's loader has it
            return module(batch).sum()
    loop.trace_module(torch.nn.Linear(8, 8), torch.empty(2, 8), loop.Options(steps=1, clip=False, optimizer="sgd"), step)
    assert not asked


def test_files_of_a_script_stay_as_they_are(tmp_path):
    kept = tmp_path / "model.pt"
    torch.save({"weight": torch.ones(4)}, kept)
    before = kept.read_bytes()

    def step(module, batch):
        torch.save(module.state_dict(), kept)
        with pytest.raises(ValueError, match="have no values in a trace"):
            torch.save(module.state_dict(), io.BytesIO())
        return module(batch).sum()
    loop.trace_module(torch.nn.Linear(8, 8), torch.empty(2, 8), loop.Options(steps=1), step)
    assert kept.read_bytes() == before and torch.load(kept)["weight"].sum() == 4


def test_distances_are_a_product():
    trace = loop.trace_module(torch.nn.Embedding(64, 32), torch.empty(128, 32), loop.Options(steps=1, precision="fp32", task="infer"),
                              lambda module, x: torch.cdist(x, module.weight).argmin(1))
    assert tables.card_of(90).blas_bytes in trace.events  # cuBLAS's workspace


def test_what_cudnn_takes_beside_a_convolution():
    """72 measured on an H100 (PyTorch 2.11, cuDNN 9.19): the most that a forward and a backward pass took beside."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "tests", "data", "convolutions.json"), encoding="utf-8") as f:
        rows = json.load(f)
    card, near = tables.card_of(90), 0
    for dims, dtype, batch, cin, cout, k, stride, side, groups, last, forward, backward in rows:
        size = (side + 2 * (k // 2) - k) // stride + 1
        with torch.device("meta"):
            x = torch.empty(batch, cin, *[side] * dims, dtype=getattr(torch, dtype))
            w = torch.empty(cout, cin // groups, *[k] * dims, dtype=x.dtype)
            y = torch.empty(batch, cout, *[size] * dims, dtype=x.dtype)
        if last:
            x, w, y = (t.to(memory_format=torch.channels_last) for t in (x, w, y))
        rest = (None, [stride], [k // 2], [1], False, [0], groups)
        call = tables.Call("convolution", (x, w, *rest), {}, y)
        ahead = max(sum(tables.inside(call, card), []), default=0)
        back = max(sum(tables.inside(tables.Call("convolution_backward", (y, x, w, *rest), {}, None), card), []), default=0)
        assert max(forward, backward) <= ahead + tables.convolution_most(call, card) + (1 << 20)  # depthwise: less than 1 MiB
        near += forward > 1 << 20 and abs(ahead / forward - 1) < 0.02 or backward > 1 << 20 and abs(back / backward - 1) < 0.05
    assert len(rows) == 72 and near >= 15, near
    net = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)  # SimCLR's first: channels in whole vectors
    trace = loop.trace_module(net, torch.empty(1024, 3, 32, 32), loop.Options(steps=1, precision="fp32"))
    whole = 1024 * (4 + 64) * 32 * 32 * 4 + 64 * 4 * 9 * 4
    assert whole in trace.events and trace.unknown_bytes == tables.PARTIAL_LEAST - 64 * 4 * 9 * 4
    assert loop.trace_module(torch.nn.Linear(8, 8), torch.empty(2, 8), loop.Options(steps=1)).unknown_bytes == 0


def traced(tmp_path, text):
    """A script's trace, made in this process."""
    from plimsoll.tracing import script
    path = tmp_path / "train.py"
    path.write_text("import torch\n" + text)
    return script.trace_script(["python", str(path)], loop.Options(steps=2))


def states(trace):
    sizes = [e for e in trace.events if e > 0]
    return sorted(n for n, category in zip(sizes, trace.category) if CATEGORIES[category] == "optimizer_state")


def test_a_step_ends_when_every_optimizer_has_stepped(tmp_path):
    # one steps three times before the other does, as critics do
    trace = traced(tmp_path, """
a, b = torch.nn.Linear(64, 64, bias=False).cuda(), torch.nn.Linear(128, 128, bias=False).cuda()
first, second = torch.optim.SGD(a.parameters(), 0.1, momentum=0.9), torch.optim.SGD(b.parameters(), 0.1, momentum=0.9)
while True:
    for _ in range(3):
        a(torch.randn(4, 64, device="cuda")).sum().backward(); first.step(); a.zero_grad()
    b(torch.randn(4, 128, device="cuda")).sum().backward(); second.step(); b.zero_grad()
""")
    assert trace.parameters == trace.trainable == 64 * 64 + 128 * 128
    assert states(trace) == [64 * 64 * 4, 128 * 128 * 4]
    assert trace.phases.count("opt0") == trace.phases.count("opt1") == 4


def test_optimizers_in_the_backward_pass_are_one_step(tmp_path):
    trace = traced(tmp_path, """
net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(6))).cuda()
optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in net.parameters()}
def hook(p):
    optimizers[p].step(); optimizers[p].zero_grad()
for p in net.parameters():
    p.register_post_accumulate_grad_hook(hook)
while True:
    net(torch.randn(4, 64, device="cuda")).sum().backward()
""")
    assert trace.parameters == 6 * 64 * 64 and states(trace).count(64 * 64 * 4) == 12
    assert trace.phases == ["load", "fwd0", "bwd0", "fwd0.1", "fwd1", "bwd1", "fwd1.1", "fwd2"]


def test_an_optimizer_that_never_steps_is_not_waited_for_and_that_is_said(tmp_path):
    trace = traced(tmp_path, """
a, b = torch.nn.Linear(8, 8).cuda(), torch.nn.Linear(8, 8).cuda()
first = torch.optim.SGD(a.parameters(), 0.1)
second = torch.optim.SGD(b.parameters(), 0.1)
while True:
    a(torch.randn(4, 8, device="cuda")).sum().backward(); first.step()
""")
    assert any("the optimizer made at train.py:5 did not step" in said for said in trace.unsure)


def test_steps_that_grow_are_traced_to_their_end(tmp_path):
    trace = traced(tmp_path, """
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    net(torch.randn(20000 * (step + 1), 64, device="cuda")).sum().backward(); optimizer.step(); optimizer.zero_grad()
""")
    assert "bwd3" in trace.phases and "all 4 steps of the script" in trace.assumed


def test_modules_without_gradients_are_counted(tmp_path):
    trace = traced(tmp_path, """
a, b = torch.nn.Linear(8, 8, bias=False).cuda(), torch.nn.Linear(8, 8, bias=False).cuda().requires_grad_(False)
optimizer = torch.optim.SGD(a.parameters(), 0.1)
while True:
    b(a(torch.randn(4, 8, device="cuda"))).sum().backward(); optimizer.step()
""")
    assert (trace.parameters, trace.trainable) == (128, 64)


def test_kernels_without_strides_copy_what_is_not_in_one_piece():
    def sizes(at, **how):
        trace = loop.trace_step(lambda: (torch.nn.Linear(8, 1000, bias=False).cuda(), torch.zeros(4, 16, 8, device="cuda"), at),
                                loop.Options(steps=1, precision="fp32", **how))
        return [e for e in trace.events if e > 0].count(4 * 15 * 1000 * 4)
    part = sizes(lambda net, x: net(x)[:, :-1].log_softmax(-1).sum())
    whole = sizes(lambda net, x: net(x[:, :-1]).log_softmax(-1).sum())
    assert part >= whole  # the logits themselves are one row longer: the copy takes their place
    assert sizes(lambda net, x: net(x)[:, :-1].float().exp().sum()) < part


def test_buckets_of_ddp_that_were_made_anew_stay_for_a_step():
    trace = loop.trace_step(_chain("ddp"), loop.Options(steps=4, precision="fp32", gpus=4))
    left = _left(trace)
    assert left["zero1"] == left["zero2"] + 16 == left["zero3"] + 16


def test_a_stop_names_the_line_of_the_script_and_the_first_cause(tmp_path):
    (tmp_path / "broken.py").write_text("raise AttributeError('no such name')\n")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "library.py").write_text(
        "def work():\n    try:\n        import broken\n    except AttributeError as e:\n        raise RuntimeError('could not import') from e\n")
    from plimsoll.tracing.errors import told
    with pytest.raises(RuntimeError) as stopped:
        traced(tmp_path, f"import sys\nsys.path += [{str(tmp_path)!r}, {str(tmp_path / 'site-packages')!r}]\nimport library\nlibrary.work()\n")
    said = told(stopped.value)
    assert "train.py:5: (in " in said and "library.py:5" in said and "AttributeError: no such name" in said


GUARDED = """
import math
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
best = float("inf")
while True:
    loss = net(torch.randn(4, 64, device="cuda")).sum()
    if torch.isnan(loss) or torch.isinf(loss) or not torch.isfinite(loss).all() or not torch.allclose(loss, loss):
        raise RuntimeError("a loss that is not finite")
    if math.isnan(loss.item()) or loss.item() != loss.item() or loss.item() == math.inf or loss.abs() == math.inf:
        raise RuntimeError("a number that is not finite")
    loss.backward()
    if any(torch.isnan(p.grad).any() for p in net.parameters()):
        raise RuntimeError("a gradient that is not finite")
    optimizer.step(); optimizer.zero_grad()
"""


def test_numbers_of_a_healthy_run_are_finite(tmp_path):
    trace = traced(tmp_path, GUARDED)
    assert not trace.guessed and not trace.unsure


def program(tmp_path, text):
    """A script's trace, made by the program."""
    script, out = tmp_path / "train.py", tmp_path / "t.json.gz"
    script.write_text("import torch\n" + text)
    run = subprocess.run([sys.executable, "-m", "plimsoll.tracing", "-o", str(out), "--", "python", str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return packed.Trace.read(str(out))


def test_a_branch_that_ends_the_script_before_a_step_is_tried_the_other_way(tmp_path):
    trace = program(tmp_path, """
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    loss = net(torch.randn(4, 64, device="cuda")).sum()
    if loss.item() > 0.1: break
    loss.backward(); optimizer.step(); optimizer.zero_grad()
""")
    assert "bwd1" in trace.phases and trace.guessed == ["train.py:7 false"]


def test_of_two_branches_the_larger_is_planned(tmp_path):
    trace = program(tmp_path, """
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(50000, 64, device="cuda")
for _ in range(2):
    for part in range(10):
        loss = net(x) if part == 0 else loss + net(x).relu()
        if loss.mean() > 0.1:
            break
    loss.sum().backward(); optimizer.step(); optimizer.zero_grad()
""")
    assert trace.guessed == ["train.py:9 false"] and trace.peak() > 10 * 50000 * 64 * 4
    assert any("the condition at train.py:9 depends on values" in said for said in trace.assumed)


LIBRARY = """
def loss_of(net, x):
    for part in range(10):
        loss = net(x) if part == 0 else loss + net(x).relu()
        if loss.mean() > 0.1:
            break
    return loss.sum()
"""
CALLS = """
import sys
sys.path.insert(0, {folder!r})
from early.exit import loss_of
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(50000, 64, device="cuda")
for _ in range(2):
    loss_of(net, x).backward(); optimizer.step(); optimizer.zero_grad()
"""


def library(tmp_path):
    """The text of a script that calls a library with a condition of its own."""
    folder = tmp_path / "site-packages" / "early"
    folder.mkdir(parents=True)
    (folder / "exit.py").write_text(LIBRARY)
    return CALLS.format(folder=str(folder.parent))


def test_of_two_branches_of_a_library_the_larger_is_planned(tmp_path):
    trace = program(tmp_path, library(tmp_path))
    assert trace.guesses() == {"train.py:10 (in early/exit.py:5)": "false"} and trace.peak() > 10 * 50000 * 64 * 4
    assert any("the condition at train.py:10 (in early/exit.py:5) depends on values" in said for said in trace.assumed)


def test_numbers_that_are_known_are_no_guesses(tmp_path):
    trace = program(tmp_path, """
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    labels = torch.tensor([3, -100, 5, 7])
    loss = net(torch.randn(4, 64, device="cuda")).sum() / (labels != -100).sum().cuda()
    if torch.isnan(loss) or torch.isinf(loss): raise ValueError("not finite")
    loss.backward(); optimizer.step(); optimizer.zero_grad()
""")
    assert trace.guessed == [] and "bwd1" in trace.phases


def test_weights_that_are_read_from_a_file(tmp_path):
    """Transformers reads in threads of its own, where tensors are real: the model's are fake, tied ones are one, and its plan is that of a model that is made."""
    made = """
net = torch.nn.Sequential(torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 1000, bias=False))
{read}
net[1].weight = net[0].weight
net.cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(2):
    words = torch.randint(1000, (8, 16)).cuda()
    torch.nn.functional.cross_entropy(net(words).flatten(0, 1), words.flatten()).backward(); optimizer.step(); optimizer.zero_grad()
"""
    path = str(tmp_path / "weights.safetensors")
    pytest.importorskip("safetensors.torch").save_file({"weight": torch.zeros(1000, 64)}, path)
    whole = program(tmp_path, made.format(read=""))
    for read in ("from concurrent.futures import ThreadPoolExecutor\nread = ThreadPoolExecutor(1).submit(lambda: torch.zeros(1000, 64)).result()",
                 f"import safetensors.torch\nread = safetensors.torch.load_file({path!r})['weight']"):
        from_file = program(tmp_path, made.format(read=read + "\nnet[0].weight = torch.nn.Parameter(read)"))
        assert from_file.parameters == whole.parameters == 64000
        assert from_file.peak() == whole.peak()


def test_a_script_that_stops_after_its_steps(tmp_path):
    """Steps that are not alike ask for more of them than the script takes; then it saves, which a trace cannot do."""
    text = """
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for n in range({steps}):
    net(torch.randn(100000 * (1 + n), 64).cuda()).sum().backward(); optimizer.step(); optimizer.zero_grad()
torch.save(net.state_dict(), open({path!r}, "wb"))
"""
    trace = program(tmp_path, text.format(steps=3, path=str(tmp_path / "x")))
    assert any("after step 3 is not traced: ValueError: the script saves tensors" in said for said in trace.assumed), trace.assumed


def test_a_device_may_be_a_number(tmp_path):
    text = """
assert torch.device({0}) == torch.device("cuda:0")
net = torch.nn.Linear(64, 64).to({0})
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    net(torch.randn(4, 64, device={0})).sum().backward(); optimizer.step(); optimizer.zero_grad()
"""
    assert program(tmp_path, text.format(0)).peak() == program(tmp_path, text.format("'cuda:0'")).peak()


def test_guesses_in_libraries_that_were_not_tried_forbid_a_verdict(tmp_path, monkeypatch):
    from plimsoll.tracing import __main__ as command
    monkeypatch.setattr(command, "BOTH_WAYS_MOST", 0)
    script, out = tmp_path / "train.py", tmp_path / "t.json.gz"
    script.write_text("import torch\n" + library(tmp_path))
    assert command.main(["-o", str(out), "--", "python", str(script)]) == 0
    run = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "plan", str(out), "--gpu", "H100", "-w", "200"], capture_output=True, text=True)
    assert "No verdict: the condition at train.py:10 (in early/exit.py:5) depends on values" in run.stdout and "Fits" not in run.stdout, run.stdout


def test_guesses_that_were_not_tried_forbid_a_verdict(tmp_path, monkeypatch):
    from plimsoll.tracing import __main__ as command
    monkeypatch.setattr(command, "BOTH_WAYS_MOST", 0)
    script, out = tmp_path / "train.py", tmp_path / "t.json.gz"
    script.write_text("""import torch
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(2):
    loss = net(torch.randn(4, 64, device="cuda")).sum()
    if loss > 1: loss = loss * 2
    loss.backward(); optimizer.step(); optimizer.zero_grad()
""")
    assert command.main(["-o", str(out), "--", "python", str(script)]) == 0
    run = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "plan", str(out), "--gpu", "H100"], capture_output=True, text=True)
    assert "No verdict: the condition at train.py:6 depends on values" in run.stdout and "Fits" not in run.stdout, run.stdout + run.stderr


LENGTHS = """
import torch
from torch.utils.data import DataLoader
net = torch.nn.Sequential(torch.nn.Embedding(50, 64), torch.nn.Linear(64, 512), torch.nn.Linear(512, 50)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = [torch.zeros(LENGTH, dtype=torch.long) for n in range(400)]
def collate(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, True)
for epoch in range(9):
    for x in DataLoader(data, 4, collate_fn=collate):
        x = x.cuda()
        torch.nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("length", ["100", "100 + n // 4 % 3 + 300 * (n == 237)", "100 + 10 * (n // 4)"])
def test_batches_of_several_lengths(tmp_path, length):
    """The plan is that of the longest batch of the epoch, wherever it is; batches of one size are not searched."""
    trace = traced(tmp_path, LENGTHS.replace("LENGTH", length))
    widest = max(eval(length, {"n": n}) for n in range(400))
    only = traced(tmp_path, LENGTHS.replace("LENGTH", str(widest)))
    assert max(peaks(trace).values()) == max(peaks(only).values())
    said = [text for text in trace.assumed if "first" in text]
    assert len(said) == 1
    if length == "100":
        assert said == ["the script's first 2 steps; later ones take the same"]
    else:
        assert said == [f"the script's first 4 steps, among them a batch of its longest samples, {widest:,} elements (all were read)"]


def test_lengths_of_a_stream_are_not_bounded(tmp_path):
    text = LENGTHS.replace("LENGTH", "100 + 10 * (n // 4)").replace("import DataLoader", "import DataLoader, IterableDataset")
    once = "class Once(IterableDataset):\n    def __iter__(self):\n        yield from taken.pop()\ntaken = [data]\ndata = Once()\n"
    text = text.replace("for epoch", once + "for epoch")  # a second reading fails
    trace = traced(tmp_path, text)
    assert "the script's first 6 steps, which take different amounts; a later one may take more" in trace.assumed
