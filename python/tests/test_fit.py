"""plimsoll fit: batches in parts train the same, or are refused; the probe leaves no trace."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    print("neither PyTorch nor Transformers is here", file=sys.stderr)
    sys.exit(77)

import torch  # noqa: E402

from plimsoll.fit import _certificate, _parts  # noqa: E402

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
        out = self.norm(self.layer(x))
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
trainer = Trainer(model=model, train_dataset=data, args=TrainingArguments(
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
                steps += accelerator.sync_gradients
end = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
torch.save({"begin": begin, "end": end, "steps": steps, "seen": seen, "rate": scheduler.get_last_lr()}, "weights.pt")
"""
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
                os.path.exists(os.path.join(self.folder, "weights.pt")) and os.remove(os.path.join(self.folder, "weights.pt"))
                done = self.start([kind], options=["--parts", "2"])
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
                self.assertIn(said, " ".join(done.stderr.split()))
                self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_what_is_not_the_same_is_refused(self):
        for kind in ("norm", "pairs", "mixtral"):
            with self.subTest(kind):
                done = self.start([kind, "1"], options=["--parts", "2"])
                self.assertEqual(done.returncode, 4, done.stdout + done.stderr[-2000:])
                self.assertIn("not the gradient", " ".join(done.stderr.split()))
                self.assertEqual(os.listdir(self.folder), ["train.py"])

    def test_a_probe_leaves_nothing(self):
        """No file in the folder or at home, no connection; and weights of 16 bits are proven in 32."""
        with open(os.path.join(self.folder, "train.py"), "w") as f:
            f.write("import socket\ndef connect(*_):\n    raise AssertionError('a connection')\nsocket.socket.connect = socket.socket.connect_ex = connect\n" + TRAIN)
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        done = self.start(["llama16", "1"], options=["--parts", "4", "--probe-only", "--json"], HOME=home.name)
        self.assertEqual(os.listdir(home.name), [])
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, answer["schema"], answer["parts"], answer["certificate"]["way"]), (0, "fit/1", 4, "own"), done.stderr)
        self.assertLess(answer["certificate"]["differences"]["own"], 1e-5)
        self.assertEqual(os.listdir(self.folder), ["train.py"])

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
        self.assertIn("give --parts", done.stderr)

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
        self.assertIsNone(_parts.samples_of({"a": four, "texts": ["w", "x", "y", "z"]}))
        self.assertEqual(_parts.take({"a": four, "c": torch.tensor(1.0)}, 1, 3)["a"].shape, (2, 3))

    def test_planted_faults(self):
        """Wrong weights, lost parts and doubled samples are found; what is right passes."""
        torch.manual_seed(0)
        model, x, y = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4)), torch.randn(8, 6), torch.randint(0, 4, (8,))

        def take(one):
            order = torch.randperm(8) if one.permuted else torch.arange(8)
            for a, b in _parts.bounds(8, one.parts):
                share = (b - a) / 8
                if one.way == "lost" and one.parts > 1 and not a:
                    continue
                for _ in range(2 if one.way == "doubled" and one.parts > 1 and not a else 1):
                    (torch.nn.functional.cross_entropy(model(x[order[a:b]]), y[order[a:b]]) * ({"sum": 1.0, "mean twice": share * share}.get(one.way, share))).backward()

        ways = ("sum", "mean twice", "lost", "doubled", "right")
        proof = _certificate.certify(model, 8, take, ways)
        self.assertEqual(proof.way, "right", proof)
        self.assertFalse(_certificate.certify(model, 8, take, ways[:-1]))


if __name__ == "__main__":
    unittest.main()
