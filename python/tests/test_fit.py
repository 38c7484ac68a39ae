"""plimsoll fit: batches in parts train the same, or are refused; the probe leaves no trace."""
import contextlib
import dataclasses
import importlib.util
import itertools
import json
import os
import random
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import warnings

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    print("neither PyTorch nor Transformers is here", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

import fit_late  # noqa: E402
import plimsoll  # noqa: E402
from plimsoll.errors import ArgumentError, FormatError, UnsupportedError  # noqa: E402
from plimsoll.fit import _accelerate, _certificate, _checkpointing, _file, _ladder, _launch, _later, _longest, _parts, _ranks, _trainer  # noqa: E402

TRAIN = """
import os, sys
import torch
torch.set_num_threads(1)
import transformers
from transformers import Trainer, TrainingArguments
torch.manual_seed(0)
kind, accumulate = sys.argv[1], int(sys.argv[2])
SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=97)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=64)
def tokens(n=24):
    return torch.randint(3, 97, (n,))
def ragged():
    ids = tokens()
    labels = ids.clone()
    labels[int(torch.randint(4, 24, ())):] = -100
    return {"input_ids": ids, "labels": labels}
class Own(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5) if norm else torch.nn.Identity()
    def forward(self, x, labels=None):
        out = self.norm(self.layer(x * (torch.rand_like(x) < 0.7) if kind == "masks" else x))
        return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}
class Pairs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
    def forward(self, x, labels=None):
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x) @ x.T, torch.arange(len(x)))}
if kind == "classes":
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL, **STILL))
    data = [{"input_ids": tokens(), "labels": torch.randint(0, 2, ())} for _ in range(29)]
elif kind == "tokens":
    model = transformers.BertForTokenClassification(transformers.BertConfig(**SMALL, **STILL))
    data = [{**(one := ragged()), "labels": torch.where(one["labels"] < 0, one["labels"], one["labels"] % 2)} for _ in range(29)]
elif kind == "llama":
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
    data = [ragged() for _ in range(29)]
elif kind == "llama16":
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).to(torch.bfloat16)
    data = [ragged() for _ in range(29)]
elif kind == "mixtral":
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
                                                                       output_router_logits=True, router_aux_loss_coef=0.02))
    data = [ragged() for _ in range(29)]
elif kind == "pairs":
    model = Pairs()
    data = [{"x": torch.randn(6), "labels": torch.tensor(0)} for _ in range(29)]
else:
    model = Own(kind == "norm")
    data = [{"x": torch.randn(6), "labels": torch.randint(0, 5, ())} for _ in range(29)]
trainer = Trainer(model=model, train_dataset=data, eval_dataset=data if "EVAL" in os.environ else None, args=TrainingArguments(
    output_dir="out", report_to=[], use_cpu=True, num_train_epochs=2, per_device_train_batch_size=8, gradient_accumulation_steps=accumulate, learning_rate=1e-2,
    optim=os.environ.get("OPTIM", "adamw_torch"), disable_tqdm=True, save_strategy="steps", save_steps=1))
begin = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
trainer.train()
end = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
torch.save({"begin": begin, "end": end, "steps": trainer.state.global_step, "losses": [h["loss"] for h in trainer.state.log_history if "loss" in h]}, "weights.pt")
"""
LOOP = """
import sys
import torch
torch.set_num_threads(1)
from accelerate import Accelerator
torch.manual_seed(0)
kind = sys.argv[1]
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2 if kind == "accumulate" else 1)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16) if kind == "norm" else torch.nn.Tanh(), torch.nn.Dropout(0.0), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = [{"x": torch.randn(6), "y": torch.randint(0, 4, ())} for _ in range(61)]
shuffled = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
evaluated = accelerator.prepare(torch.utils.data.DataLoader(data, batch_size=8))
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, shuffled, scheduler)
begin = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
seen = sum(len(batch["y"]) for batch in evaluated if model(batch["x"]) is not None), len([1 for _ in evaluated])
steps = 0
for epoch in range(2):
    for number, batch in enumerate(loader):
        if kind == "accumulate":
            with accelerator.accumulate(model):
                accelerator.backward(torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"]))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            steps += accelerator.sync_gradients
        else:
            accelerator.backward(torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"]))
            if kind != "own" or number % 2:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                steps += 1 if kind == "counts" else accelerator.sync_gradients
end = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
torch.save({"begin": begin, "end": end, "steps": steps, "seen": seen, "rate": scheduler.get_last_lr()}, "weights.pt")
"""
#: In front of a script: a socket ends it, without an answer; a tracker as Transformers has them, and work that leaves files.
OFFLINE = """
import os, socket, tempfile
class Closed(socket.socket):
    def __init__(self, *words, **named):
        os.write(2, b"a socket was opened\\n")
        os._exit(99)
    connect = connect_ex = __init__
socket.socket = Closed
import helper, transformers
tempfile.mkstemp()
import transformers.integrations.integration_utils as integrations
class Tracker(transformers.TrainerCallback):
    def on_train_begin(self, *words, **named):
        open("tracked", "w").close()
        socket.socket()
integrations.INTEGRATION_TO_CALLBACK["mine"] = Tracker
"""
#: In front of a script: a GPU of LIMIT bytes that holds what autograd keeps, and a clock of CALL seconds for each call of a layer and ROW for each sample in it.
GAUGE = """
import os, torch
from plimsoll.fit import _gauge
class Modelled(_gauge.Gauge):
    live = most = 0
    clock = 0.0
    def is_used_by(self, model):
        return True
    def hold(self, limit_bytes):
        self.limit_bytes = limit_bytes or 1 << 34
    def begin(self):
        self.most = 0
    reset = begin
    def seconds(self):
        return self.clock
    def peak(self):
        return self.most, self.most, 0
    def gradients(self, model):
        return 0
    def device(self):
        return {"gpu": os.environ.get("GPU", "modelled"), "gpu_bytes": 1 << 34}
    def need(self, size):
        self.most = max(self.most, size)
        if self.limit_bytes and size > self.limit_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory (modelled)")
modelled = _gauge.gauge = Modelled()
class Held:
    def __init__(self, tensor):
        self.tensor, self.size = tensor.detach(), 0 if isinstance(tensor, torch.nn.Parameter) else tensor.numel() * tensor.element_size()
        modelled.live += self.size
        modelled.need(modelled.live)
    def __del__(self):
        modelled.live -= self.size
torch.autograd.graph.saved_tensors_hooks(Held, lambda held: held.tensor).__enter__()
def called(module, words, output):
    if isinstance(module, torch.nn.Linear):
        modelled.clock += float(os.environ["CALL"]) + float(os.environ["ROW"]) * words[0].shape[0]
        if not torch.is_grad_enabled():
            modelled.need(int(os.environ.get("EVAL", "0")) * words[0].shape[0])
torch.nn.modules.module.register_module_forward_hook(called)
saves = torch.save
def save(*words, **named):
    modelled.need(int(os.environ.get("SAVE", "0")))
    saves(*words, **named)
torch.save = save
"""
#: Two ranks of a script, as torchrun starts them; they are forks, so what the script imports is imported once.
FORKS = """
import os, runpy, signal, socket, sys
import torch._dynamo
with open(sys.argv[1]) as script:
    exec("".join(line for line in script if line.startswith(("import ", "from "))))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
ranks, code = [], 0
for number in "01":
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ.update(RANK=number, LOCAL_RANK=number)
        del sys.argv[0]
        runpy.run_path(sys.argv[0], run_name="__main__")
while ranks:
    ended, status = os.wait()
    ranks.remove(ended)
    if status and not code:
        code = 1
        for other in ranks:
            os.kill(other, signal.SIGTERM)
sys.exit(code)
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2")
PLAIN_LOOP = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""


class Fit(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = held.name
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(TRAIN)

    def start(self, words, command=None, **more):
        command = [sys.executable, "train.py", *words] if command is None else command
        return subprocess.run([sys.executable, "-m", "plimsoll.fit", *more.pop("options", ()), "--", *command], cwd=self.folder, text=True, check=False,
                              capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1", **more})

    def weights(self):
        return torch.load(os.path.join(self.folder, "weights.pt"))

    def test_the_same_training(self):
        """Ragged last batch, the user's own accumulation, labels of varying number: the weights go the same way."""
        for kind, accumulate, optimizer, parts, least in (("classes", 1, "adamw_torch", 4, 1e-4), ("tokens", 2, "sgd", 3, 1e-5), ("llama", 2, "sgd", 8, 1e-5)):
            with self.subTest(kind):
                done = subprocess.run([sys.executable, "train.py", kind, str(accumulate)], cwd=self.folder, env={**os.environ, "OPTIM": optimizer}, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                whole = self.weights()
                os.remove(os.path.join(self.folder, "weights.pt"))
                done = self.start([kind, str(accumulate)], options=["--parts", str(parts)], OPTIM=optimizer)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertIn(f"in {parts} parts", done.stderr)
                cut = self.weights()
                self.assertEqual(cut["steps"], whole["steps"])
                self.assertLess(float((cut["end"] - whole["end"]).norm() / (whole["end"] - whole["begin"]).norm()), least)
                for a, b in zip(map(float, cut["losses"]), map(float, whole["losses"])):
                    self.assertAlmostEqual(a, b, 3)

    def test_loops_of_accelerate(self):
        """With accumulate() and without; a loader that evaluates with gradients on stays whole."""
        for kind, parts in (("accumulate", 3), ("plain", 8)):
            with self.subTest(kind):
                with open(os.path.join(self.folder, "train.py"), "w") as f:
                    f.write(LOOP)
                done = subprocess.run([sys.executable, "train.py", kind], cwd=self.folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                whole = self.weights()
                os.remove(os.path.join(self.folder, "weights.pt"))
                done = self.start([kind], options=["--parts", str(parts)])
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                self.assertIn(f"in {parts} parts", done.stderr)
                cut = self.weights()
                self.assertEqual({key: cut[key] for key in ("steps", "seen", "rate")}, {key: whole[key] for key in ("steps", "seen", "rate")})
                self.assertLess(float((cut["end"] - whole["end"]).norm() / (whole["end"] - whole["begin"]).norm()), 1e-4)
        for kind, said in (("norm", "not the gradient"), ("own", "accumulates gradients by itself")):
            with self.subTest(kind):
                for name in ("weights.pt", "plimsoll.toml"):  # of the runs before
                    pathlib.Path(self.folder, name).unlink(missing_ok=True)
                done = self.start([kind], options=["--parts", "2"])
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
                self.assertIn(said, " ".join(done.stderr.split()))
                self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_loops_that_count(self):
        """One that counts batches by itself would count parts; one that ends within the probe is not taken for one that evaluates, and goes no further."""
        line = "        if kind == "
        self.assertIn(line, LOOP)
        for kind, script, least in (("counts", LOOP, "counts batches by itself (steps)"), ("plain", LOOP.replace(line, "        if number == 3:\n            break\n" + line), "the loop ended after 3 batches")):
            with open(os.path.join(self.folder, "train.py"), "w") as f:
                f.write(script)
            done = self.start([kind], options=["--parts", "2"])
            self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
            self.assertIn(least, " ".join(done.stderr.split()))
            self.assertFalse(os.path.exists(os.path.join(self.folder, "weights.pt")))

    def test_one_that_finds_its_batch_size(self):
        """As accelerate's find_executable_batch_size: it catches what it runs out of, and takes a smaller batch."""
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(GAUGE + f"""
for size in (32, 16, 8):
    try:
        exec({LOOP!r}.replace("batch_size=8, shuffle", f"batch_size={{size}}, shuffle"))
        break
    except torch.OutOfMemoryError:
        accelerator.free_memory()
""")
        done = self.start(["plain"], options=["--parts", "1", "--memory", "3000", "--probe-only"], CALL="0", ROW="1")
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
        self.assertIn("error of batches of 32, and began anew", " ".join(done.stderr.split()))

    def test_one_that_looks_at_a_batch(self):
        """The first batch is taken twice, the first time to see its shape: the script caught no error."""
        begin = "steps = 0"
        self.assertIn(begin, LOOP)
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(LOOP.replace(begin, "shape = next(iter(loader))['x'].shape\n" + begin))
        done = self.start(["plain"], options=["--parts", "2"])
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])

    def test_checkpointing(self):
        """By the model's own call, bitwise the same; a model without one is refused."""
        done = subprocess.run([sys.executable, "train.py", "llama", "1"], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        whole = self.weights()
        done = self.start(["llama", "1"], options=["--checkpoint"])
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn("8 samples with 2 of 2 layers checkpointed", done.stderr)
        self.assertTrue(torch.equal(self.weights()["end"], whole["end"]))
        os.remove(os.path.join(self.folder, "weights.pt"))
        done = self.start(["llama", "1"], options=["--checkpoint"])
        self.assertIn("plimsoll.toml: 2 of 2 layers checkpointed, as measured before", done.stdout)
        self.assertTrue(torch.equal(self.weights()["end"], whole["end"]))
        done = self.start(["llama", "1"], options=["--checkpoint", "1"])
        self.assertIn("8 samples with 1 of 2 layers checkpointed", done.stderr)
        self.assertTrue(torch.equal(self.weights()["end"], whole["end"]))
        done = self.start(["own", "1"], options=["--checkpoint"])
        self.assertEqual(done.returncode, 4, done.stderr[-2000:])
        self.assertIn("gradient_checkpointing_enable", done.stderr)

    def modelled(self, script, words, options, **more):
        """The answer of a probe on the modelled GPU."""
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(GAUGE + script)
        done = self.start(words, options=["--probe-only", "--json", *options], **{"CALL": "1", "ROW": "0", **more})
        self.assertTrue(done.stdout, done.stderr)
        return done, json.loads(done.stdout)

    def test_the_cheapest_change_is_first(self):
        """The same model and limit: calls that cost make checkpointing the cheaper change, samples that cost make parts."""
        _, free = self.modelled(TRAIN, ["llama", "1"], ["--memory", "1GiB"])
        self.assertEqual((free["parts"], free["checkpointing"], free["checkpointing_bitwise"]), (1, False, True))
        limit = ["--memory", str(int(free["runs"][0]["allocated_bytes"] * 0.8))]
        for call, row, chosen in (("1", "0", (1, True)), ("0", "1", (2, False))):
            with self.subTest(chosen):
                _, answer = self.modelled(TRAIN, ["llama", "1"], limit, CALL=call, ROW=row)
                self.assertEqual((answer["parts"], answer["checkpointing"]), chosen)
                costs = answer["cost_ms_per_gib"]
                self.assertEqual(costs["checkpointing"] < costs["parts"], chosen[1])
                self.assertLessEqual(len(answer["runs"]), _ladder.PROBES)
        loop = LOOP.replace("DataLoader(data, batch_size=8))", "DataLoader(data, batch_size=4))")  # it evaluates first, with gradients on
        done, answer = self.modelled(loop, ["plain"], ["--memory", "1GiB"])
        done, answer = self.modelled(loop, ["plain"], ["--memory", str(int(answer["runs"][0]["allocated_bytes"] * 0.6))])
        self.assertEqual((answer["loop"], answer["parts"]), ("accelerate", 2), done.stderr)

    def test_the_longest_samples_of_a_loop(self):
        """Batches are as long as their longest sample; one sample is ten times as long as the others."""
        loop = LOOP.replace("batch_size=8", "batch_size=8, collate_fn=pad").replace("torch.randn(6)", "torch.randn(40 if _ == 60 else 4, 6)").replace('model(batch["x"]),', 'model(batch["x"]).mean(1),')
        pad = "lambda rows: {'x': torch.nn.utils.rnn.pad_sequence([row['x'] for row in rows], True), 'y': torch.stack([row['y'] for row in rows])}"
        peaks = []
        for script in (loop, loop.replace("40 if", "4 if")):
            _, answer = self.modelled(f"pad = {pad}\n{script}", ["plain"], ["--memory", "1GiB", "--parts", "1"])
            peaks.append(answer["runs"][0]["allocated_bytes"])
        self.assertGreater(peaks[0], 8 * peaks[1])

    def test_the_allocator_s_settings(self):
        """Expandable segments, unless the user's environment decides about them."""
        for said, expected in (({}, "expandable_segments:True"), ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, "max_split_size_mb:64,expandable_segments:True"),
                               ({"PYTORCH_ALLOC_CONF": "expandable_segments:False"}, None), ({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, None)):
            with unittest.mock.patch.dict(os.environ, {name: "" for name in _launch.ALLOCATOR} | said):
                self.assertEqual(_launch.allocator(), dict.fromkeys(_launch.ALLOCATOR, expected) if expected else {})
        script = 'import os\nopen("said", "a").write(os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") + " ")\n'
        for parts in ("1", "2"):
            with open(os.path.join(self.folder, "train.py"), "w") as f:
                f.write(script + GAUGE + TRAIN)
            done = self.start(["llama", "1"], options=["--memory", "1GiB", "--parts", parts], CALL="1", ROW="0")
            self.assertIn("Set for it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", done.stdout, done.stderr)
            self.assertEqual(pathlib.Path(self.folder, "said").read_text(), "expandable_segments:True " * 2 * int(parts))

    def test_evaluation_and_saving_count(self):
        """Each is done once in the probe; one that does not fit is said before step 1."""
        for more, said, row in (({"EVAL": "1"}, "", ("evaluation", True)), ({"EVAL": str(1 << 30)}, "evaluation does not fit in batches of 8", ("evaluation", False)),
                                ({"SAVE": str(1 << 31)}, "save does not fit", ("save", False))):
            with self.subTest(said):
                done, answer = self.modelled(TRAIN, ["llama", "1"], ["--memory", "1GiB"], **more)
                self.assertEqual(done.returncode, 1 if said else 0, done.stderr)
                self.assertIn(said, " ".join(done.stderr.split()))
                self.assertIn(row, [(r["what"], r["fits"]) for r in answer["later"]])
                self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_a_result_is_kept(self):
        """The next start takes it from plimsoll.toml; another script, GPU or limit is measured anew, and a foreign file is left alone."""
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(GAUGE + "open('started', 'a').write('.')\n" + LOOP)
        kept, started = os.path.join(self.folder, "plimsoll.toml"), os.path.join(self.folder, "started")

        def starts(options=(), **more):
            pathlib.Path(started).write_text("")
            done = self.start(["plain"], options=["--parts", "2", *options], CALL="1", ROW="0", **more)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])
            return len(pathlib.Path(started).read_text()), done

        self.assertEqual(starts()[0], 2)  # the probe, and the run
        text = pathlib.Path(kept).read_text()
        try:
            import tomllib
            self.assertEqual([(t["parts"], t["checkpointed"]) for t in tomllib.loads(text)["fit"]], [(2, [])])
        except ImportError:
            pass
        count, done = starts()
        self.assertEqual(count, 1)
        self.assertIn("in 2 parts", done.stderr)
        self.assertIn("plimsoll.toml", done.stdout)
        self.assertEqual(pathlib.Path(kept).read_text(), text)
        count, done = starts(GPU="another")
        self.assertEqual(count, 3)  # it began, found another GPU before its first step, was measured, and ran
        self.assertIn("gpu another", done.stderr)
        self.assertNotEqual(pathlib.Path(kept).read_text(), text)
        self.assertEqual(starts(["--again"])[0], 2)
        count, done = starts(["--diff"])
        self.assertEqual(count, 0)
        self.assertIn("keep `plimsoll fit --`", done.stdout)
        self.assertEqual(starts(["--memory", "3GiB"])[0], 2)
        with open(os.path.join(self.folder, "train.py"), "a") as f:
            f.write("# changed\n")
        self.assertEqual(starts()[0], 2)
        pathlib.Path(kept).write_text("[tool]\nmine = 1\n")
        done = self.start(["plain"], options=["--parts", "2"], CALL="1", ROW="0")
        self.assertEqual(done.returncode, 4)
        self.assertIn("left alone", " ".join(done.stderr.split()))
        self.assertEqual(pathlib.Path(kept).read_text(), "[tool]\nmine = 1\n")
        self.assertEqual(self.start(["plain"], options=["--parts", "2", "--file", "other.toml"], CALL="1", ROW="0").returncode, 0)

    def test_what_is_not_the_same_is_refused(self):
        for kind in ("norm", "pairs", "mixtral", "masks"):
            with self.subTest(kind):
                done = self.start([kind, "1"], options=["--parts", "2"])
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
                self.assertIn("draws random numbers" if kind == "masks" else "not the gradient", " ".join(done.stderr.split()))
                self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_a_probe_leaves_nothing(self):
        """No file anywhere but in its own folder, which is gone, and no connection; and weights of 16 bits are proven in 32."""
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write(OFFLINE + GAUGE + TRAIN.replace('report_to=[]', 'report_to="all", push_to_hub=True, hub_token="none", load_best_model_at_end=False')
                    .replace("trainer.train()", "trainer.add_callback(Tracker())\ntrainer.train(resume_from_checkpoint=True)"))
        with open(os.path.join(self.folder, "helper.py"), "w") as f:
            f.write("")
        for name in ("home", "tmp"):
            os.mkdir(os.path.join(self.folder, name))
        before = self.tree()
        done = self.start(["llama16", "1"], options=["--parts", "4", "--probe-only", "--json"], CALL="1", ROW="0", EVAL="1", PYTHONDONTWRITEBYTECODE="",
                          HOME=os.path.join(self.folder, "home"), TMPDIR=os.path.join(self.folder, "tmp"), XDG_CACHE_HOME=os.path.join(self.folder, "home"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.tree(), before)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["schema"], answer["parts"], answer["certificate"]["way"]), ("fit/1", 4, "own"))
        self.assertEqual([(r["what"], r["fits"]) for r in answer["later"]], [("evaluation", True), ("save", True)])
        self.assertLess(answer["certificate"]["differences"]["own"], 1e-5)

    def tree(self):
        """Each file of the test's, with its contents and time."""
        found = {}
        for root, folders, files in os.walk(self.folder):
            for name in files + folders:
                path = os.path.join(root, name)
                found[path] = (os.stat(path).st_mtime_ns, pathlib.Path(path).read_bytes()) if name in files else None
        return found

    def test_other_commands(self):
        python = sys.executable
        for command, said in (([python, "-c", PLAIN_LOOP], "outside of the loops"), ([python, "-c", "raise SystemExit('no data')"], "no data"),
                              ([python, "-I", "train.py", "own", "1"], "nothing can come into"), (["./nosuch"], "No such file")):
            with self.subTest(said):
                done = self.start((), command)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn(said, " ".join(done.stderr.split()))
        self.assertEqual(self.start((), []).returncode, 2)
        self.assertEqual(self.start(["own", "1"], options=["--json"]).returncode, 2)
        self.assertEqual(self.start(["own", "1"], options=["--memory", "much"]).returncode, 2)
        done = self.start(["own", "1"])
        self.assertEqual(done.returncode, 4)
        self.assertIn("give --parts", " ".join(done.stderr.split()))

    def test_signals_reach_the_job(self):
        with open(os.path.join(self.folder, "train.py"), "a") as f:
            f.write("\nimport signal, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nprint('waits', flush=True)\ntime.sleep(600)\n")
        with subprocess.Popen([sys.executable, "-m", "plimsoll.fit", "--parts", "2", "--", sys.executable, "train.py", "own", "1"], cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as job:
            for line in job.stdout:
                if line == "waits\n":
                    break
            job.terminate()
            job.stdout.read()
            self.assertEqual(job.wait(), 7)

    def test_another_sitecustomize_runs_too(self):
        with open(os.path.join(self.folder, "sitecustomize.py"), "w") as f:
            f.write("import builtins\nbuiltins.here_first = 1\n")
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write("assert here_first\n" + TRAIN)
        done = self.start(["own", "1"], options=["--parts", "2"], PYTHONPATH=os.pathsep.join([self.folder, os.environ.get("PYTHONPATH", "")]))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])


class Ranks(unittest.TestCase):
    """Two ranks of gloo's on the CPU."""

    setUp, start = Fit.setUp, Fit.start

    def launched(self, script, words, options=None, launcher=("-c", FORKS), **more):
        """Without options: the command as it is.

        Ranks end by _exit: when Python ends by itself, the thread of gloo's that frees the last all-reduce may abort it.
        """
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write("import os\n" + script.replace("disable_tqdm", 'ddp_backend="gloo", disable_tqdm').replace('"weights.pt"', '"weights" + os.environ["RANK"]') + "os._exit(0)\n")
        command = [sys.executable, *launcher, "train.py", *words]
        more["CUDA_VISIBLE_DEVICES"] = ""
        if options is not None:
            return self.start((), command, options=options, **more)
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1", **more})

    def weights(self):
        both = [torch.load(os.path.join(self.folder, name)) for name in ("weights0", "weights1")]
        self.assertTrue(torch.equal(both[0]["end"], both[1]["end"]))
        for name in ("weights0", "weights1"):
            os.remove(os.path.join(self.folder, name))
        return both[0]

    def same(self, script, words, parts, least, launcher=("-c", FORKS), **more):
        done = self.launched(script, words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = self.weights()
        done = self.launched(script, words, ["--parts", str(parts)], launcher, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("8 samples on each of 2 ranks", done.stderr)
        self.assertIn(f"in {parts} parts", done.stderr)
        cut = self.weights()
        self.assertEqual(cut["steps"], whole["steps"])
        self.assertLess(float((cut["end"] - whole["end"]).norm() / (whole["end"] - whole["begin"]).norm()), least)

    def test_the_same_training(self):
        """A ragged last batch, the user's own accumulation, labels of varying number; a head that drops what the Trainer divides by."""
        self.same(TRAIN, ["llama", "2"], 3, 1e-5, OPTIM="sgd")
        self.same(TRAIN, ["classes", "1"], 3, 1e-5, OPTIM="sgd")

    def test_a_loop_of_accelerate(self):
        """Under its launcher, which starts ranks by torchrun."""
        self.same(LOOP, ["accumulate"], 3, 1e-4, ACCELERATE)

    def test_planted_faults(self):
        """Parts without the factor of the ranks; and gradients of parts that the ranks do not add up, which each rank alone would find right."""
        backward, begin = "accelerator.backward(torch", "begin = torch"
        self.assertIn(backward, LOOP)
        self.assertIn(begin, LOOP)
        lost = LOOP.replace(backward, 'accelerator.backward((1.0 if len(batch["y"]) == 8 else 0.5) * torch')
        alone = LOOP.replace(begin, """import contextlib
@contextlib.contextmanager
def no_sync():
    model.require_backward_grad_sync = False
    yield
model.no_sync = no_sync
begin = torch""")
        for name, script in (("lost", lost), ("alone", alone)):
            with self.subTest(name):
                done = self.launched(script, ["accumulate"], ["--parts", "2"])
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
                self.assertIn("not the gradient", " ".join(done.stderr.split()))

    def test_a_rank_that_ends(self):
        """It is killed in the probe: the other ends, and the message names it."""
        script = GAUGE.replace("        return self.clock", """        if os.environ["RANK"] == "1":
            open("ended", "w").close()
            os.kill(os.getpid(), 9)
        return self.clock""") + LOOP
        done = self.launched(script, ["plain"], ["--memory", "1GiB"], TORCHRUN, CALL="1", ROW="0")
        self.assertLess(time.time() - os.stat(os.path.join(self.folder, "ended")).st_mtime, 10)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"rank +: 1 .*\n.*SIGKILL")

    def test_the_rank_that_needs_most(self):
        """One rank needs twice as much: it runs out of memory alone, and the parts are those that fit it."""
        script = LOOP.replace("DataLoader(data, batch_size=8))", "DataLoader(data, batch_size=4))")
        heavy = GAUGE.replace("        self.most = max", "        size *= 1 + int(os.environ['RANK'])\n        self.most = max")
        done = self.launched(heavy + script, ["plain"], ["--memory", "3000", "--probe-only", "--json"], CALL="0", ROW="1")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["ranks"], answer["parts"], answer["certificate"]["samples"]), (2, 2, 4))  # the whole batch is 1,796 bytes on the other

    def test_refused(self):
        kind = types.SimpleNamespace(distributed_type=types.SimpleNamespace(value="DEEPSPEED"))
        self.assertRegex(_ranks.refusal(kind, torch.nn.Linear(1, 1)), "Linear under DEEPSPEED.*plimsoll plan")
        kind.distributed_type.value = "NO"
        self.assertIsNone(_ranks.refusal(kind, torch.nn.Linear(1, 1)))
        self.assertRegex(_ranks.refusal(kind, torch.nn.DataParallel(torch.nn.Linear(1, 1))), "DataParallel")

    def sharded(self, script, before):
        """accelerate shards the model by fully_shard (FSDP2); it takes no such setting on a CPU, so the script writes it into its state."""
        self.assertIn(before, script)
        script = script.replace(before, """import accelerate, torch.distributed.fsdp
plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2, mixed_precision_policy=torch.distributed.fsdp.MixedPrecisionPolicy(param_dtype=getattr(torch, os.environ.get("SHARDED", "float32"))))
accelerate.state.AcceleratorState()._shared_state.update(distributed_type=accelerate.DistributedType.FSDP, fsdp_plugin=plugin)
""" + before)
        return script.replace("p.detach().flatten()", 'getattr(p, "full_tensor", lambda: p)().detach().flatten()')

    def test_fsdp2(self):
        """A ragged last batch, the user's own accumulation, labels of varying number; and a loop of accelerate."""
        self.same(self.sharded(TRAIN, "begin = torch.cat").replace('save_strategy="steps"', 'save_strategy="no"'), ["llama", "2"], 3, 1e-5, OPTIM="sgd")
        self.same(self.sharded(LOOP, "model = torch.nn.Sequential"), ["accumulate"], 3, 1e-4)

    def test_fsdp2_probes(self):
        """Gradients are compared in fp32 in the first probe; the later ones measure in 16 bits, and go on behind a rank that ran out of memory."""
        heavy = GAUGE.replace("        self.most = max", "        size *= 1 + int(os.environ['RANK'])\n        self.most = max")
        for name, script, words, limit in (("loop", self.sharded(LOOP, "model = torch.nn.Sequential").replace("batch_size=8, shuffle", "batch_size=16, shuffle"), ["plain"], "3000"),
                                           ("trainer", self.sharded(TRAIN, "begin = torch.cat").replace('save_strategy="steps"', 'save_strategy="no"').replace("train_batch_size=8", "train_batch_size=16"), ["llama", "1"], "2800KiB")):
            with self.subTest(name):
                done = self.launched(heavy + script, words, ["--memory", limit, "--probe-only", "--json"], CALL="0", ROW="1", SHARDED="bfloat16")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
                answer = json.loads(done.stdout)
                self.assertEqual((answer["ranks"], answer["gpu"], answer["certificate"]["noise"] < 1e-6), (2, True, True), answer)
                self.assertTrue(answer["chosen"]["fits"])
                self.assertGreater(answer["parts"] + sum(answer["checkpointed_layers"]), 1)

    def test_what_is_told_fits_80_columns(self):
        from plimsoll.fit.__main__ import told
        proof = {"way": "own", "parts": [2, 4, 8], "noise": 1e-7, "rounding": 0.0, "limit": 1e-5, "samples": 8, "differences": {"own": 1e-7}}
        answer = {"certificate": proof, "samples": 16, "ranks": 1, "model": "LlamaForCausalLM", "loop": "accelerate", "checkpointing_off": None, "checkpointing_bitwise": None,
                  "checkpointing_layers": {}, "lengths": {"read": 2_000_000, "of": 40_000_000, "longest": 1_000_000, "unit": "characters"}, "not_measured": ["what the loop keeps of evaluations, and saves"] * 2}
        lines = told(answer, 10.0)
        self.assertIn("2,000,000 of 40,000,000 were read, a longer one needs more", " ".join(" ".join(lines).split()))
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_ranks_add_up_once(self):
        """Each part but the last is under DDP's no_sync; the last is the last with a share in the loss."""
        held, seen = [], []

        @contextlib.contextmanager
        def no_sync():
            held.append(1)
            yield
            held.pop()

        model, trainer = types.SimpleNamespace(no_sync=no_sync), types.SimpleNamespace(accelerator=types.SimpleNamespace(backward=lambda loss: None))
        labels = torch.tensor([[1], [1], [1], [-100]])

        def step(trainer, model, part, items):
            seen.append((len(part["labels"]), not held))
            return 1

        loop = _accelerate.Loop()
        loop.model, loop.accelerator = model, types.SimpleNamespace(gradient_state=types.SimpleNamespace(_set_sync_gradients=lambda _: None))
        for way, expected in (("samples", [(1, False), (1, False), (1, False), (1, True)]), ("tokens", [(1, False), (1, False), (1, True)])):
            seen.clear()
            _trainer.cut_step(step, trainer, model, {"labels": labels}, None, 4, way)
            self.assertEqual(seen, expected)
            self.assertEqual([(len(part["labels"]), not held) for part in loop.parts({"labels": labels}, 4, way)], expected)
        self.assertEqual(held, [])

    def test_of_all_ranks(self):
        trial = _ladder.Trial(8, 2)
        runs = [_ladder.Run(trial, True, 1, 9, 0, 3.0), _ladder.Run(trial, True, 5, 6, 1, 2.0)]
        self.assertEqual(_ladder.worst(runs), _ladder.Run(trial, True, 5, 9, 1, 3.0))
        self.assertEqual(_ladder.worst([*runs, _ladder.Run(trial, False)]), _ladder.Run(trial, False))
        rows = [{"fits": True, "allocated_bytes": 3}, {"fits": True, "allocated_bytes": 4}, {"fits": None, "error": "x"}, {"fits": False}]
        self.assertEqual([_later.worst(rows[:n]) for n in (1, 2, 3, 4)], rows)
        proofs = [_certificate.Certificate(None, 8, (2,), noise, 0.0, {"own": own, "samples": 1e-7}) for noise, own in ((1e-7, 1e-7), (2e-7, 0.5))]
        self.assertEqual([_certificate.agreed(proofs[:n]).way for n in (1, 2)], ["own", "samples"])
        self.assertEqual(_certificate.agreed(proofs).differences, {"own": 0.5, "samples": 1e-7})


class Ladder(unittest.TestCase):
    """Of a search, without a model: needs are straight lines in samples, seconds per call and per sample."""

    def took(self, trial, limit, passes, seconds, step=0):
        peaks = [(int(size), int(size), 0) for size in (passes, step)]
        return _ladder.Run.at(trial, seconds, *peaks, held_bytes=5 * trial.held) if max(passes, step) <= limit else _ladder.Run(trial, False)

    def searched(self, samples, limit, call, row, may_cut=True, may_checkpoint=True, bend=1.0, step=0):
        asked = []

        def take(trial):
            each = -(-trial.samples // trial.parts)
            layers = sum(trial.checkpointed)
            need = (10 + each * (10 - layers)) * (bend if trial.samples == samples else 1) + (5 if trial.parts > 1 or trial.held else 0)
            times = trial.parts * call + trial.samples * row
            return self.took(trial, limit, need, times * (1 + 0.0375 * layers), step)

        running = _ladder.search(samples, limit, may_cut, (8,) if may_checkpoint else ())
        try:
            trial = next(running)
            while True:
                asked.append(take(trial))
                trial = running.send(asked[-1])
        except StopIteration as done:
            return done.value, asked

    def test_search(self):
        for limit, call, row, chosen in ((1000, 1, 1, (1, False)), (215, 10, 0.1, (1, 4)), (215, 0.1, 10, (2, 0)), (40, 0.1, 10, (16, 0)), (36, 10, 1, (4, 8))):
            found, asked = self.searched(32, limit, call, row)
            self.assertEqual((found.chosen.trial.parts, sum(found.chosen.trial.checkpointed)), chosen, limit)
            self.assertEqual(len(found.runs), 1)  # the estimate was right
        found, _ = self.searched(32, 215, 10, 0.1, step=120)  # a few samples need less than the optimizer's step
        self.assertEqual((found.chosen.trial.parts, found.chosen.trial.checkpointed, len(found.runs)), (1, (4,), 1))
        self.assertIsNone(self.searched(32, 215, 1, 1, step=220)[0].chosen)
        self.assertEqual(self.searched(32, 215, 1, 1, may_cut=False)[0].chosen.trial.checkpointed, (4,))
        self.assertIsNone(self.searched(32, 200, 1, 1, False, False)[0].chosen)
        self.assertIsNone(self.searched(32, 14, 1, 1)[0].chosen)

    def test_the_best_count(self):
        """Two lists of unlike layers, and a loss that needs memory of its own: at most 2 % slower than the best of all pairs of counts."""
        sizes, each, slower = (24, 12), (3, 11), (0.011, 0.02)  # the second list saves more per second

        def take(trial, limit):
            counts = trial.checkpointed or (0, 0)
            kept = sum((n - k) * b + k * 0.5 for n, k, b in zip(sizes, counts, each))
            again = max(b if k == n else 0 for n, k, b in zip(sizes, counts, each))  # the last layer is computed again while all others are kept
            need = 40 + trial.samples * (kept + max(again, 9)) + 5 * trial.held
            return self.took(trial, limit, need, trial.samples * (1 + sum(k * s for k, s in zip(counts, slower))))

        free = take(_ladder.Trial(32), 1 << 30).allocated_bytes
        for share in (0.99, 0.9, 0.75, 0.6, 0.45, 0.3, 0.2):
            with self.subTest(share):
                limit = int(free * share)
                running = _ladder.search(32, limit, False, sizes)
                try:
                    trial = next(running)
                    while True:
                        trial = running.send(take(trial, limit))
                except StopIteration as done:
                    found = done.value
                every = [take(_ladder.Trial(32, 1, (a, b)), limit) for a in range(sizes[0] + 1) for b in range(sizes[1] + 1)]
                self.assertLessEqual(found.chosen.step_s, 1.02 * min(run.step_s for run in every if run.fits))

    def test_a_gpu_that_few_samples_do_not_fill(self):
        """Each call takes its launches' time at least, the allocator reserves more than is allocated: at most 5 % slower than the best of all settings."""
        layers, states = 8, 300

        def take(trial, limit, launches, spare):
            each, count = -(-trial.samples // trial.parts), sum(trial.checkpointed)
            need = states + each * (3 + 10 * (layers - count) + (10 if count == layers else 0)) + 100 * (trial.parts > 1 or trial.held)
            seconds = trial.parts * max(launches, 1.3 * each) * (1 + 0.33 * count / layers) + 2
            if need + spare > limit:
                return _ladder.Run(trial, False)
            return dataclasses.replace(self.took(trial, limit, need, seconds), reserved_bytes=need + spare, held_bytes=100 * trial.held)

        tries = []
        for launches, spare, share in itertools.product((1, 15, 30), (0, 40, 120), (0.9, 0.75, 0.6, 0.45, 0.3)):
            limit = int(take(_ladder.Trial(32), 1 << 30, launches, 0).allocated_bytes * share)
            every = [take(_ladder.Trial(32, parts, (count,) if count else ()), limit, launches, spare) for parts in (1, 2, 4, 8, 16, 32) for count in range(layers + 1)]
            running = _ladder.search(32, limit, True, (layers,))
            with self.subTest(launches=launches, spare=spare, share=share):
                try:
                    trial = next(running)
                    while True:
                        trial = running.send(take(trial, limit, launches, spare))
                except StopIteration as done:
                    found = done.value
                fitting = [run.step_s for run in every if run.fits]
                self.assertEqual(found.chosen is None, not fitting)
                if found.chosen is not None:
                    self.assertLessEqual(found.chosen.step_s, 1.05 * min(fitting), found.runs)
                tries.append(len(found.runs))
        self.assertEqual(sorted(tries)[len(tries) // 2], 1)

    def test_times_that_vary(self):
        """Launches bound each part, and a time is up to 30 % too long: the setting that is chosen is at most 10 % slower than the best."""
        layers = 8
        for seed, share in itertools.product(range(20), (0.75, 0.55)):
            chance = random.Random(seed)

            def take(trial, limit, chance=chance):
                each, count = -(-trial.samples // trial.parts), sum(trial.checkpointed)
                need = 300 + each * (3 + 10 * (layers - count) + 10 * (count == layers)) + 100 * (trial.parts > 1 or trial.held)
                exact = trial.parts * (45 + 0.2 * each) * (1 + 0.4 * count / layers)
                return exact, self.took(trial, limit, need, exact * (1 + 0.3 * chance.random()))

            limit = int(take(_ladder.Trial(32), 1 << 30)[1].allocated_bytes * share)
            settings = [_ladder.Trial(32, parts, (count,) if count else ()) for parts in (1, 2, 4, 8) for count in range(layers + 1)]
            best = min(exact for exact, run in (take(one, limit) for one in settings) if run.fits)
            running = _ladder.search(32, limit, True, (layers,))
            with self.subTest(seed=seed, share=share):
                try:
                    trial = next(running)
                    while True:
                        trial = running.send(take(trial, limit)[1])
                except StopIteration as done:
                    self.assertLessEqual(take(done.value.chosen.trial, limit)[0], 1.1 * best, done.value.runs)

    def test_states_that_fill_the_limit(self):
        """The optimizer's states fill most of the limit, and the allocator reserves more for a whole batch than few samples show: at most 10 % slower
        than the best, if a process goes on after each try that does not fit; a setting at all, if not."""
        layers, states = 8, 490

        def take(trial, limit, spare):
            each, count = -(-trial.samples // trial.parts), sum(trial.checkpointed)
            need = 450 + each * (1.5 * (layers - count) + 3)
            seconds = trial.parts * (30 + each * 0.1) * (1 + 0.4 * count / layers)
            reserved = max(need, states) + (spare if trial.samples == 32 else 0) * each / 32
            if reserved > limit:
                return _ladder.Run(trial, False)
            return dataclasses.replace(self.took(trial, limit, need, seconds, step=states), reserved_bytes=int(reserved))

        for most, spare, share in itertools.product((_ladder.TRIES, _ladder.PROBES), (0, 40, 90), (0.9, 0.75, 0.65, 0.58)):
            limit = int(take(_ladder.Trial(32), 1 << 30, 0).allocated_bytes * share)
            every = [take(_ladder.Trial(32, parts, (count,) if count else ()), limit, spare) for parts in (1, 2, 4, 8, 16, 32) for count in range(layers + 1)]
            fitting = [run.step_s for run in every if run.fits]
            running = _ladder.search(32, limit, True, (layers,), most=most)
            with self.subTest(most=most, spare=spare, share=share):
                try:
                    trial = next(running)
                    while True:
                        trial = running.send(take(trial, limit, spare))
                except StopIteration as done:
                    found = done.value
                self.assertLessEqual(len(found.runs), most)
                self.assertEqual(found.chosen is None, not fitting)
                if found.chosen is not None and most == _ladder.TRIES:
                    self.assertLessEqual(found.chosen.step_s, 1.1 * min(fitting), found.runs)

    def test_few_whole_batches(self):
        for bend in (1.0, 1.3, 2.0, 5.0):
            for limit in (30, 60, 100, 200, 300):
                found, asked = self.searched(32, limit, 1, 1, bend=bend)
                self.assertLessEqual(len([run for run in asked if run.trial.samples == 32]), _ladder.TRIES)
                self.assertEqual(len(set(run.trial for run in asked)), len(asked))  # nothing twice
                for run in asked:
                    self.assertEqual(_ladder.Run.of(json.loads(json.dumps(run.json()))), run if run.fits else _ladder.Run(run.trial, False))


class Notebook(unittest.TestCase):
    def test_the_same_gradient(self):
        """plimsoll.fit is a module and can be called; its step has the whole batch's gradient and loss, and leaves the model alone."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
        batches = [{"x": torch.randn(n, 6), "labels": torch.randint(0, 4, (n,))} for n in (8, 8, 5)]

        def step(model, batch):
            return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])

        before, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
        fitted = plimsoll.fit(model, batches, step=step, parts=3)
        self.assertIs(sys.modules["plimsoll.fit"], plimsoll.fit)
        self.assertEqual((fitted.parts, fitted.checkpointing, fitted.certificate.way, fitted.peaks), (3, 0, "samples", []))
        self.assertTrue(torch.equal(torch.get_rng_state(), state))
        self.assertTrue(all(torch.equal(a, b) and b.grad is None for a, b in zip(before, model.parameters())))
        for batch in batches:
            loss = step(model, batch)
            whole = torch.autograd.grad(loss, list(model.parameters()))
            self.assertAlmostEqual(float(fitted.step(batch)), float(loss.detach()), 5)
            for p, gradient in zip(model.parameters(), whole):
                self.assertLess(float((p.grad - gradient).norm() / gradient.norm()), 1e-5)
            model.zero_grad()

        def pairs(model, batch):
            scores = model(batch["x"])
            return torch.nn.functional.cross_entropy(scores @ scores.T, torch.arange(len(scores)))

        self.assertRaisesRegex(UnsupportedError, "not the gradient", plimsoll.fit, model, batches, pairs, parts=2)
        self.assertRaisesRegex(UnsupportedError, "give parts", plimsoll.fit, model, batches, step)
        self.assertRaises(ArgumentError, plimsoll.fit, model, [], step, parts=2)
        self.assertRaises(ArgumentError, plimsoll.fit, model, batches, step, parts=0)

    def test_peaks(self):
        """On the modelled GPU: the fewest parts that fit."""
        code = GAUGE + """
import plimsoll
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
batches = [{"x": torch.randn(16, 6), "labels": torch.randint(0, 4, (16,))}]
step = lambda model, batch: torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
all_of_it = plimsoll.fit(model, batches, step)
assert (all_of_it.parts, all_of_it.certificate.way) == (1, "samples"), all_of_it
most = all_of_it.peaks[0].allocated_bytes
part = plimsoll.fit(model, batches, step, memory=most * 6 // 10)
assert part.parts == 2 and part.peaks[-1].allocated_bytes < most * 6 // 10, part
try:
    plimsoll.fit(model, batches, step, memory=most // 20)
except plimsoll.errors.UnsupportedError as error:
    print(error)
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CALL": "1", "ROW": "0"}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("fit", done.stdout)


    def test_the_best_count(self):
        """On the modelled GPU, with one list of layers and with two: at most 2 % slower than the best of all counts that fit."""
        code = GAUGE + """
import warnings
import plimsoll, transformers
from plimsoll.fit import _checkpointing, _ladder, _notebook
warnings.simplefilter("ignore")
torch.set_num_threads(1)
small = dict(hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=29)
models = [transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=9, **small)),
          transformers.BartForConditionalGeneration(transformers.BartConfig(d_model=16, encoder_ffn_dim=96, decoder_ffn_dim=32, encoder_attention_heads=2,
              decoder_attention_heads=2, encoder_layers=5, decoder_layers=4, vocab_size=29, dropout=0.0))]
step = lambda model, batch: model(**batch).loss
rows = torch.randint(3, 29, (16, 24))
batch = {"input_ids": rows, "labels": rows}
for model in models:
    modelled.limit_bytes = 1 << 34
    sizes = list(_checkpointing.sizes(model).values())
    every = [tuple(c) for c in torch.cartesian_prod(*(torch.arange(n + 1) for n in sizes)).reshape(-1, len(sizes)).tolist()]
    runs = [_notebook._measured(model, step, batch, _ladder.Trial(16, 1, c if any(c) else ()), "samples") for c in every]
    for share in (0.95, 0.85, 0.75, 0.65, 0.55):
        limit = int(runs[0].allocated_bytes * share)
        fitted = plimsoll.fit(model, [batch], step, memory=limit)
        model.gradient_checkpointing_disable()
        best = min([r.step_s for r in runs if r.allocated_bytes <= limit], default=1e9)
        print(type(model).__name__, share, fitted.parts, fitted.checkpointing, fitted.peaks[-1].step_s / best, len(fitted.peaks))
"""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "CALL": "1", "ROW": "0"}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stdout.splitlines():
            self.assertLessEqual(float(line.split()[4]), 1.02, done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 10)


class Later(unittest.TestCase):
    def test_the_longest(self):
        """The longest of each column is in the batch; a text is as long as its tokens; all samples are read, of a data set without indices, too."""
        def collate(rows):
            return {"text": torch.zeros(len(rows), max(9 * row["text"].count("#") + row["text"].count("w") for row in rows)), "more": torch.zeros(len(rows), max(len(row["more"]) for row in rows))}

        rows = [{"text": "w" * (20 if n < 100 else 5), "more": [0] * 3} for n in range(3000)]
        rows[2951] = {"text": "####", "more": [0]}
        rows[7] = {"text": "w", "more": [0] * 15}

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(rows)

        for data in (rows, Stream()):
            loader = torch.utils.data.DataLoader(data, 8, collate_fn=collate)
            batch, lengths = _longest.longest(loader, 8)
            self.assertEqual((batch["text"].shape, batch["more"].shape), ((8, 36), (8, 15)))
            self.assertEqual(lengths, {"read": 3000, "of": 3000, "longest": 36, "shortest": 5, "unit": "elements"})
            with unittest.mock.patch.object(_longest, "READ_S", 0.0):
                self.assertEqual(_longest.longest(loader, 8)[1]["read"], 8)
            said = [f"lengths that collate(){'' if data is rows else ' and Stream'} of the script would only give later"]
            self.assertEqual(_longest.not_bounded(loader, 8), said)
        texts = torch.utils.data.DataLoader(["ab", "abcd"], 2, collate_fn=lambda rows: {"text": rows})
        self.assertEqual([_longest.longest(texts, 1)[1][name] for name in ("longest", "unit")], [4, "characters"])
        grouped = torch.utils.data.DataLoader([{"x": torch.zeros(2)}] * 9, batch_sampler=[[0], [1, 2, 3], [4, 5]])
        self.assertEqual(_longest.not_bounded(grouped, 1), ["later batches of up to 3 samples, the first one has 1"])
        self.assertEqual(_longest.not_bounded(grouped, 3), [])
        self.assertEqual(sorted(_longest._spread(30)), list(range(30)))

    def test_what_grows_in_an_evaluation(self):
        """Each batch adds what the last measured one added; with one batch, or all of them, the largest peak is what is needed."""
        self.assertEqual([_later._grown([10, 12, 16], batches) for batches in (1, 3, 4, 10)], [16, 16, 20, 44])
        self.assertEqual((_later._grown([10], 9), _later._grown([9, 8, 7], 9)), (10, 9))

    def test_the_largest_step_counts(self):
        """The peak of a measured setting is that of the step that needed most, not of the last."""
        from plimsoll.fit import _notebook
        peaks = iter([(9, 12, 0), (5, 12, 1)])
        gauge = types.SimpleNamespace(begin=lambda: None, reset=lambda: None, gradients=lambda model: 0, seconds=lambda: 0.0, peak=lambda: next(peaks))
        model = torch.nn.Linear(2, 2)
        with unittest.mock.patch.object(_notebook._gauge, "gauge", gauge):
            run = _notebook._measured(model, lambda model, batch: model(batch).sum(), torch.ones(4, 2), _ladder.Trial(4), "samples")
        self.assertEqual((run.allocated_bytes, run.reserved_bytes, run.retries), (9, 12, 1))

    def test_planted_deaths(self):
        """Outputs that stay on the GPU and are copied there, and the evaluation of a loop of accelerate, also one that fits; fit_late.py has more."""
        for name, enough in (("evaluation_keeps_outputs", False), ("evaluation_of_a_loop", False), ("evaluation_of_a_loop", True), ("evaluation_has_another_head", True)):
            with self.subTest(name, enough=enough):
                row = fit_late.measured(name, enough)
                self.assertTrue(row["ok"], row)


class File(unittest.TestCase):
    def test_round_trip(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plimsoll.toml")
            self.assertEqual(_file.read(path), [])
            table = {"command": ["python", 'a "b"\\\n\x7f\x01', "\u2028 \U0001f600"], "memory": 7, "parts": 2, "checkpointed": [13], "setting": "2 parts", "loop": "x", "made_with": ["torch 2"]}
            _file.write(path, [table, {**table, "memory": 8, "way": None}])
            self.assertEqual(_file.read(path), [table, {**table, "memory": 8}])
            self.assertEqual(_file.find(_file.read(path), {"memory": 8})["parts"], 2)
            self.assertIsNone(_file.find([{**table, "parts": "2"}], {"memory": 7}))
            for text in (_file.FIRST + "\n[[fit]]\nparts = {\n", _file.FIRST + "\nparts 2\n", "x"):
                pathlib.Path(path).write_text(text)
                self.assertRaises(FormatError, _file.read, path)
            pathlib.Path(path).write_bytes(b"\xff")
            self.assertRaises(FormatError, _file.read, path)

    def test_diff(self):
        answer = {"loop": "transformers.Trainer", "samples": 8, "checkpointing_layers": {"model.layers": 3}, "certificate": {"way": "own"}, "arguments": {"batch": 8, "accumulation": 2, "drop_last": False}}
        lines = _file.diff(answer, 4, [3])
        self.assertIn("-    per_device_train_batch_size=8,", lines)
        self.assertIn("+    per_device_train_batch_size=2,", lines)
        self.assertIn("+    gradient_accumulation_steps=8,", lines)
        self.assertIn('+    gradient_checkpointing_kwargs={"use_reentrant": False},', lines)
        for change in ({"certificate": {"way": "samples"}}, {"arguments": {**answer["arguments"], "drop_last": True}}, {"samples": 5}):
            self.assertEqual([line[0] for line in _file.diff({**answer, **change}, 4, [])], ["#"])
        self.assertEqual([line[0] for line in _file.diff(answer, 3, [])], ["#"])

    def test_diff_of_some_layers(self):
        """What it prints does what `fit` does."""
        import transformers
        small = {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_heads": 2, "vocab_size": 32}
        of_swin = {"image_size": 32, "embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2], "window_size": 2}
        for model, counts in ((transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=2, vocab_size=9)), (1,)),
                              (transformers.T5ForConditionalGeneration(transformers.T5Config(**small, num_layers=3, num_decoder_layers=2)), (3, 1)),
                              (transformers.SwinForImageClassification(transformers.SwinConfig(**of_swin)), (1,))):
            with self.subTest(type(model).__name__):
                _checkpointing.switch(model, counts)
                on = {name for name, m in model.named_modules() if getattr(m, "gradient_checkpointing", False)}
                _checkpointing.switch(model, ())
                lines = _file.diff({"loop": "accelerate", "checkpointing_layers": _checkpointing.sizes(model)}, 1, counts)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FutureWarning)
                    exec("\n".join(line[1:] for line in lines), {"model": model})
                self.assertEqual({name for name, m in model.named_modules() if getattr(m, "gradient_checkpointing", False)}, on)
                for (name, size), count in zip(_checkpointing.sizes(model).items(), counts):
                    self.assertEqual([f"{name}.{i}" in on for i in range(size)], [i < count for i in range(size)])


class Checkpointing(unittest.TestCase):
    def test_planted_faults(self):
        class Block(torch.nn.Module):
            supports_gradient_checkpointing, is_gradient_checkpointing = True, False

            def __init__(self, fault):
                super().__init__()
                self.fault, self.layer, self.norm = fault, torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6) if fault == "buffers" else torch.nn.Identity()

            def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None):
                assert gradient_checkpointing_kwargs == {"use_reentrant": False}
                self.is_gradient_checkpointing = True

            def gradient_checkpointing_disable(self):
                self.is_gradient_checkpointing = False

            def part(self, x):
                return torch.nn.functional.dropout(self.norm(self.layer(x)).relu(), 0.5)

            def forward(self, x):
                if not self.is_gradient_checkpointing:
                    return self.part(x) + (torch.randn(()) if self.fault == "random" else 0)
                if self.fault == "raises":
                    raise ValueError("no checkpointing here")
                kept = self.fault != "dropout"
                return torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=False, preserve_rng_state=kept) * {"off": 1.0001, "rounding": 1.0000002}.get(self.fault, 1)

        x = torch.randn(8, 6)
        for fault, same in ((None, True), ("rounding", True), ("off", False), ("dropout", False), ("buffers", False), ("raises", False)):
            with self.subTest(fault):
                model = Block(fault)
                self.assertTrue(_checkpointing.is_able(model))
                before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
                self.assertEqual(_checkpointing.is_the_same(_checkpointing.measure(model, lambda _: model(x).square().sum().backward())), same)
                self.assertFalse(model.is_gradient_checkpointing)
                self.assertTrue(torch.equal(torch.get_rng_state(), state))
                self.assertTrue(all(torch.equal(v, before[k]) for k, v in model.state_dict().items()))
                self.assertTrue(all(p.grad is None for p in model.parameters()))


    def test_families(self):
        """Small models of Transformers, with dropout: the same gradient, most of them bitwise."""
        import transformers
        common = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 97, "pad_token_id": 0}
        decoder = {**common, "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 4}
        old = {**common, "n_embd": 32, "n_layer": 3, "n_head": 2, "ffn_dim": 64, "word_embed_proj_dim": 32, "dim": 32, "n_layers": 3, "n_heads": 2, "hidden_dim": 64}
        both = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_heads": 2, "num_layers": 2, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
                "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 97, "pad_token_id": 0, "decoder_start_token_id": 2}
        image = {**{k: v for k, v in common.items() if k not in ("vocab_size", "pad_token_id")}, "image_size": 32, "patch_size": 8}
        swin = {"image_size": 32, "embed_dim": 16, "depths": [2, 2], "num_heads": [1, 2], "window_size": 2}
        kinds = ((decoder, "ForCausalLM", "Llama Qwen2 Qwen3 Mistral Gemma2 Phi3 Mixtral Olmo Mamba"), (old, "ForCausalLM", "OPT Bloom GPTNeoX Falcon"), (old, "LMHeadModel", "GPT2"),
                 (old, "ForSequenceClassification", "Bert Roberta DebertaV2 Electra DistilBert ModernBert"), (both, "ForConditionalGeneration", "T5 MT5 Bart Pegasus MBart M2M100"),
                 (image, "ForImageClassification", "ViT DeiT Dinov2"), (swin, "ForImageClassification", "Swin"))
        torch.manual_seed(0)
        ids, picture = torch.randint(3, 97, (4, 16)), torch.randn(4, 3, 32, 32)
        off = {}
        for sizes, head, names in kinds:
            for name in names.split():
                with self.subTest(name):
                    model = getattr(transformers, name + head)(getattr(transformers, name + "Config")(**sizes)).train()
                    labels = ids if head in ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration") else torch.tensor([0, 1, 0, 1])
                    inputs = {"pixel_values": picture} if "Image" in head else {"input_ids": ids}
                    self.assertTrue(_checkpointing.is_able(model))
                    off[name] = _checkpointing.measure(model, lambda _: model(**inputs, labels=labels).loss.backward())
                    self.assertTrue(_checkpointing.is_the_same(off[name]), off[name])
        self.assertGreater(sum(far == 0 for far in off.values()), len(off) * 0.8, off)


    def test_a_script_that_makes_the_call_again(self):
        """As TRL does around the pass of its reference model: the same layers are checkpointed afterwards."""
        import copy
        import transformers
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=8, n_layer=3, n_head=2, vocab_size=11))

        def layers(of):
            return [layer.gradient_checkpointing for layer in of.transformer.h]

        with _checkpointing.switched(model, (2,)):
            for one in (model, copy.deepcopy(model)):
                for call in filter(lambda name, of=one: hasattr(of, name), _checkpointing.CALLS):
                    one.gradient_checkpointing_disable()
                    self.assertEqual(layers(one), [False] * 3)
                    getattr(one, call)(None)
                    self.assertEqual(layers(one), [True, True, False])
        self.assertEqual(layers(model), [False] * 3)
        model.gradient_checkpointing_enable()
        self.assertEqual(layers(model), [True] * 3)


class Parts(unittest.TestCase):
    def test_bounds(self):
        for samples in range(1, 20):
            for parts in range(1, 25):
                found = _parts.bounds(samples, parts)
                self.assertEqual([i for a, b in found for i in range(a, b)], list(range(samples)))
                self.assertEqual(len(found), min(parts, samples))
                self.assertLessEqual(max(b - a for a, b in found) - min(b - a for a, b in found), 1)

    def test_samples(self):
        four = torch.zeros(4, 3)
        self.assertEqual(_parts.samples_of({"a": four, "b": [four, four], "c": torch.tensor(1.0), "d": None}), 4)
        self.assertIsNone(_parts.samples_of({"a": four, "b": torch.zeros(5)}))
        texts = {"a": four, "texts": ["w", "x", "y", "z"], "boxes": [{"at": torch.zeros(n)} for n in range(4)]}
        self.assertEqual(_parts.samples_of(texts), 4)
        self.assertEqual(_parts.take(texts, 1, 3)["texts"], ["x", "y"])
        self.assertEqual([len(box["at"]) for box in _parts.permute(texts, torch.tensor([3, 0, 1, 2]))["boxes"]], [3, 0, 1, 2])
        self.assertIsNone(_parts.samples_of({"a": four, "texts": ["w", "x", "y"]}))
        self.assertEqual(_parts.take({"a": four, "c": torch.tensor(1.0)}, 1, 3)["a"].shape, (2, 3))

    def test_what_a_trainer_does_to_its_loss_stays(self):
        """Transformers before 5.24 has no `loss_is_scaled_for_ga`; on two ranks it doubles the loss of a model that accepts loss kwargs."""
        weights, x = torch.ones(3, requires_grad=True), torch.arange(24.0).view(8, 3)
        accelerator = types.SimpleNamespace(backward=lambda loss: loss.backward())
        trainer = types.SimpleNamespace(accelerator=accelerator, model_accepts_loss_kwargs=True, current_gradient_accumulation_steps=1)

        def step(trainer, model, inputs, items):
            loss = model(inputs["x"]).mean() * (2 if trainer.model_accepts_loss_kwargs and items is not None else 1)
            trainer.accelerator.backward(loss)
            return loss.detach()

        taken = []
        for parts in (1, 3):
            weights.grad = None
            loss = _trainer.cut_step(step, trainer, lambda x: x @ weights, {"x": x}, torch.tensor(8), parts, "samples")
            taken.append(torch.cat([weights.grad, loss.view(1)]))
        torch.testing.assert_close(taken[1], taken[0])

    def test_planted_faults(self):
        """Wrong weights, lost parts and doubled samples are found; what is right passes."""
        torch.manual_seed(0)
        class DropPath(torch.nn.Module):
            def forward(self, x):
                return x * (torch.rand(len(x), 1) < 0.5) if self.training else x

        model, x, y = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), DropPath(), torch.nn.Linear(8, 4)), torch.randn(8, 6), torch.randint(0, 4, (8,))

        def take(one):
            model.train()
            order = torch.randperm(8) if one.permuted else torch.arange(8)
            for a, b in _parts.bounds(8, one.parts):
                share = (b - a) / 8
                if one.way == "lost" and one.parts > 1 and not a:
                    continue
                for _ in range(2 if one.way == "doubled" and one.parts > 1 and not a else 1):
                    (torch.nn.functional.cross_entropy(model(x[order[a:b]]), y[order[a:b]]) * ({"sum": 1.0, "mean twice": share * share, "not a number": float("nan")}.get(one.way, share))).backward()

        def pairs(one):
            """Chosen rows, then rejected ones: a part has both rows of each of its samples."""
            batch = {"x": x, "y": y}
            blocks = 2 if one.way == "samples" else 1
            for part, share in _parts.shares(_parts.permute(batch, torch.randperm(4), 2) if one.permuted else batch, one.parts, "samples", blocks=blocks):
                chosen, rejected = model(part["x"]).sum(1).chunk(2)
                (-torch.nn.functional.logsigmoid(chosen - rejected).mean() * share).backward()

        self.assertEqual(_certificate.certify(model, 4, pairs, ("own", "samples")).way, "samples")

        began = torch.cat([p.detach().flatten() for p in model.parameters()])

        def drifts(one):
            """A loss whose scale is how far the model has come on this batch, which is nothing yet (KTO)."""
            order = torch.randperm(8) if one.permuted else torch.arange(8)
            for a, b in _parts.bounds(8, one.parts):
                far = (model(x[order[a:b]]).detach().mean() * (torch.cat([p.detach().flatten() for p in model.parameters()]) - began).norm()).clamp(min=0)
                ((b - a) / 8 * (torch.nn.functional.cross_entropy(model(x[order[a:b]]), y[order[a:b]]) * (1 + far))).backward()

        self.assertIsNone(_certificate.certify(model, 8, drifts, ("samples",)).way)
        self.assertIsNone(_certificate.certify(model, 8, lambda one: (0 * model(x).sum()).backward(), ("own",)).way)  # zeros prove nothing
        self.assertTrue(all(module.training for module in model.modules()))
        self.assertTrue(torch.equal(began, torch.cat([p.detach().flatten() for p in model.parameters()])))
        ways = ("sum", "mean twice", "lost", "doubled", "not a number", "right")
        proof = _certificate.certify(model, 8, take, ways)
        self.assertEqual(proof.way, "right", proof)
        self.assertEqual(list(_certificate.certify(model, 8, take, ("right", "sum")).differences), ["right"])
        self.assertFalse(_certificate.certify(model, 8, take, ways[:-1]))


if __name__ == "__main__":
    unittest.main()
