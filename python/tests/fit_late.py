"""Deaths that a user would meet later than the first step, each planted in a small script on a modelled GPU: does `plimsoll fit` name them before step 1?

python fit_late.py [--enough] [NAME...] prints a line for each and a sum.  A script runs alone first; the limit lies halfway between its peak in
the first step and its peak in the whole run, so that alone it would end late.  Then `plimsoll fit --parts 1` measures it under that
limit.  EXPECTED was written before the first run: (exit code, what the output says).  Code 1: it does not fit.  Code 0: it
cannot be known before the run, and the output says so.  --enough: the limit is a tenth above the peak of the whole run instead, and
all have to fit.
"""
import json
import os
import subprocess
import sys
import tempfile

#: A GPU on the CPU: bytes of all storages that operations made and that are still there; a copy by cpu() is not on it.
GAUGE = """
import atexit, gc, json, os, weakref
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from plimsoll.fit import _gauge
class Modelled(_gauge.Gauge):
    live, most, first, operations, seen = 0, 0, None, 0, {}
    def is_used_by(self, model):
        return True
    def hold(self, limit_bytes):
        self.limit_bytes = limit_bytes or 1 << 40
    def begin(self):
        gc.collect()
        self.most = self.live
    def reset(self):
        self.most = self.live
    def seconds(self):
        return self.operations * 1e-5
    def peak(self):
        return self.most, self.most, 0
    def device(self):
        return {"gpu": "modelled", "gpu_bytes": 1 << 40}
    def freed(self, number, size):
        self.live -= size
        del self.seen[number]
    def made(self, tensor):
        storage = tensor.untyped_storage()
        number, size = storage._cdata, storage.nbytes()
        if number in self.seen or tensor.device.type == "meta":
            return
        if self.limit_bytes and self.live + size > self.limit_bytes:
            raise torch.OutOfMemoryError("CUDA out of memory (modelled)")
        self.live += size
        self.most = max(self.most, self.live)
        self.seen[number] = weakref.finalize(storage, self.freed, number, size)
        self.seen[number].atexit = False
modelled = _gauge.gauge = Modelled()
class Counted(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, words=(), named=None):
        result = function(*words, **(named or {}))
        modelled.operations += 1
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                modelled.made(tensor)
        return result
Counted().__enter__()
torch.Tensor.cpu = lambda tensor, *_, **__: torch.from_numpy(tensor.detach().numpy().copy())
def stepped(*_):
    if modelled.first is None:
        modelled.first = modelled.most
from torch.optim.optimizer import register_optimizer_step_post_hook
register_optimizer_step_post_hook(stepped)
atexit.register(lambda: "PEAKS" in os.environ and print(json.dumps([modelled.first, modelled.most]), file=open(os.environ["PEAKS"], "w")))
"""
MODEL = """
import random, time
import torch
torch.manual_seed(0)
random.seed(0)
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self, classes=4, width=32, deep=3):
        super().__init__()
        self.table, self.head, self.drop = torch.nn.Embedding(97, width), torch.nn.Linear(width, classes), torch.nn.Dropout(0.0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(deep))
    def body(self, ids):
        x = self.table(ids)
        for layer in self.layers:
            x = self.drop(layer(x).relu())
        return x.mean(1)
    def forward(self, input_ids, labels=None, more=None):
        out = self.head(self.body(input_ids) + (0 if more is None else self.body(more)))
        return {"loss": torch.nn.functional.cross_entropy(out, labels), "logits": out}
def widest(lists):
    return torch.tensor([one + [0] * (max(map(len, lists)) - len(one)) for one in lists])
def pad(rows):
    return {key: torch.tensor([row[key] for row in rows]) if key == "labels" else widest([row[key] for row in rows]) for key in rows[0]}
def some(count, length=16):
    return [{"input_ids": [random.randrange(97) for _ in range(length)], "labels": random.randrange(4)} for _ in range(count)]
model, train, evaluated = Net(), some(64), None
"""
TRAINER = MODEL + """
import transformers
from transformers import Trainer, TrainingArguments
class Ordered(Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(train)
named, arguments = {}, {}
# CHANGE
trainer = Ordered(model=model, train_dataset=train, eval_dataset=evaluated, args=TrainingArguments(**{**dict(output_dir="out", report_to=[], use_cpu=True, num_train_epochs=1,
    per_device_train_batch_size=8, per_device_eval_batch_size=8, save_strategy="no", disable_tqdm=True, logging_strategy="no"), **arguments}), **{"data_collator": pad, **named})
trainer.train()
# AFTER
"""
LOOP = MODEL + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
sized = {"batch_size": 8}
def after(epoch):
    pass
# CHANGE
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = torch.utils.data.DataLoader(train, collate_fn=pad, **sized)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
if evaluated is not None:
    eval_loader = accelerator.prepare(torch.utils.data.DataLoader(evaluated, batch_size=globals().get("eval_size", 8), collate_fn=pad))
for epoch in range(2):
    model.train()
    for batch in loader:
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    after(epoch)
"""
CALLBACK = """
class Later(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **_):
        if state.global_step == 4:
            {}
named["callbacks"] = [Later()]
"""
METRIC = 'named["compute_metrics"] = lambda _: {}\narguments["eval_strategy"] = "epoch"\n'
GENERATES = """
transformers.logging.set_verbosity_error()
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments as TrainingArguments
class Ordered(Seq2SeqTrainer):
    pass
model = transformers.BartForConditionalGeneration(transformers.BartConfig(d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_layers=1, decoder_layers=1, vocab_size=97, dropout=0.0, max_position_embeddings=256, forced_eos_token_id=None, eos_token_id=96, decoder_start_token_id=2))
train = evaluated = [{"input_ids": row["input_ids"], "labels": row["input_ids"][:4]} for row in some(16, 8)]
pad = lambda rows: {key: widest([row[key] for row in rows]) for key in rows[0]}
arguments = dict(predict_with_generate=True, generation_max_length=200, generation_num_beams=6, eval_strategy="epoch")
named["compute_metrics"] = lambda _: {}
"""
TEXT = """
train = [{"text": "word " * 16, "labels": 0} for _ in range(64)]
train[59]["text"] = "#" * 60
arguments["remove_unused_columns"] = False
def pad(rows):
    split = [[7] * 16 * text.count("#") + [5] * text.count("word") for text in (row["text"] for row in rows)]
    return {"input_ids": widest(split), "labels": torch.tensor([row["labels"] for row in rows])}
"""
KEEPS = METRIC + """
arguments["batch_eval_metrics"] = True
evaluated, seen = some(640), []
model = Net(2000)
def metric(outputs, compute_result=False):
    seen.append(outputs.predictions)
    return {}
named["compute_metrics"] = metric
"""
ACCUMULATES = """
class Ordered(Ordered):
    def training_step(self, *words):
        loss = super().training_step(*words)
        stepped()
        return loss
model, train = Net(4, 128), some(128, 8)
arguments |= dict(gradient_accumulation_steps=2, optim="sgd", per_device_train_batch_size=64)
"""
ITERABLE = """
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number, row in enumerate(rows):
            time.sleep(pause)
            yield row
rows, train, pause = train, Stream(), 0.0
arguments["max_steps"] = len(rows) // 8
Ordered = Trainer
rows[len(rows) - 5]["input_ids"] *= 10
"""
GROWS = """
own, calls = pad, []
def longer(rows):
    calls.append(1)
    batch = own(rows)
    return {**batch, "input_ids": batch["input_ids"].repeat(1, 10 if len(calls) > 4000 or not os.environ.get("PLIMSOLL_FIT") and len(calls) > 5 else 1)}
named["data_collator"] = longer
"""
DRAWN = """
class Drawn:
    rows = train
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, at):
        return {**self.rows[at], "input_ids": self.rows[at]["input_ids"] * (10 if random.random() < 0.02 and at > 16 else 1)}
train = Drawn()
"""
SAVES = """
class Ordered(Ordered):
    def save_model(self, *words, **named):
        copy = [p.detach().clone() for p in self.model.parameters() for _ in range(8)]
        super().save_model(*words, **named)
model = Net(4, 128)
arguments["save_strategy"] = "epoch"
"""
BEST = METRIC + """
class Ordered(Ordered):
    def _load_best_model(self):
        copy = [p.detach().clone() for p in self.model.parameters() for _ in range(8)]
        super()._load_best_model()
model, evaluated = Net(4, 128), some(8)
arguments |= dict(save_strategy="epoch", load_best_model_at_end=True)
"""
HEAD = METRIC + """
class Wide(Net):
    def forward(self, input_ids, labels=None):
        out = super().forward(input_ids, labels)
        return out if self.training else {**out, "tokens": torch.nn.functional.one_hot(input_ids, 97).float()}
model, evaluated = Wide(), some(160)
"""
MISFIT, SAID = 1, 0
#: name: (template, what is changed in it, code, what the output says)
EXPECTED = {
    "long_sample": (TRAINER, "train[59]['input_ids'] *= 10", MISFIT, "it does not fit"),
    "long_text_of_few_characters": (TRAINER, TEXT, MISFIT, "it does not fit"),
    "long_second_column": (TRAINER, "for number, row in enumerate(train):\n    row['input_ids'] *= 8 if number < 8 else 1\n    row['more'] = [1] * 4\ntrain[59]['more'] *= 25\ntrain[60]['input_ids'] *= 7", MISFIT, "it does not fit"),
    "last_tenth_of_3000": (TRAINER, "train = some(3000)\ntrain[2951]['input_ids'] *= 10", MISFIT, "it does not fit"),
    "shortest_first": (TRAINER, "train = [row for n in range(1, 9) for row in some(8, 16 * n)]", MISFIT, "it does not fit"),
    "optimizer_states": (TRAINER, "model, train = Net(4, 128), some(128, 20)\narguments['per_device_train_batch_size'] = 64", MISFIT, "it does not fit"),
    "accumulation": (TRAINER, ACCUMULATES, MISFIT, "it does not fit"),
    "long_sample_of_a_loop": (LOOP, "train[59]['input_ids'] *= 10", MISFIT, "it does not fit"),
    "iterable_that_ends": (TRAINER, ITERABLE, MISFIT, "it does not fit"),
    "iterable_that_is_slow": (TRAINER, "train = some(320)" + ITERABLE.replace("0.0", "0.05"), SAID, "a longer one needs more"),
    "evaluation_long_sample": (TRAINER, "evaluated = some(40)\nevaluated[33]['input_ids'] *= 60\narguments['eval_strategy'] = 'epoch'", MISFIT, "evaluation does not fit"),
    "evaluation_batch_size": (TRAINER, "evaluated = some(640)\narguments |= dict(eval_strategy='epoch', per_device_eval_batch_size=320)", MISFIT, "evaluation does not fit"),
    "evaluation_keeps_outputs": (TRAINER, METRIC + "model, evaluated = Net(2000), some(160)", MISFIT, "evaluation does not fit"),
    "evaluation_has_another_head": (TRAINER, HEAD, MISFIT, "evaluation does not fit"),
    "evaluation_of_the_second_set": (TRAINER, "evaluated = {'a': some(16), 'b': some(16)}\nevaluated['b'][9]['input_ids'] *= 60\narguments['eval_strategy'] = 'epoch'", MISFIT, "evaluation of b does not fit"),
    "evaluation_generates": (TRAINER, GENERATES, MISFIT, "evaluation does not fit"),
    "metric_keeps_logits": (TRAINER, KEEPS, MISFIT, "evaluation does not fit"),
    "callback_evaluates": (TRAINER, "evaluated = some(640)\narguments['per_device_eval_batch_size'] = 320" + CALLBACK.format("control.should_evaluate = True"), MISFIT, "evaluation does not fit"),
    "save_copies_weights": (TRAINER, SAVES, MISFIT, "save does not fit"),
    "best_model_is_loaded": (TRAINER, BEST, MISFIT, "does not fit"),
    "callback_switches_dropout_on": (TRAINER, CALLBACK.format("model.drop.p = 0.5\n            model.layers.extend([model.layers[0]] * 6)"), SAID, "callback Later"),
    "callback_unfreezes": (TRAINER, "model = Net(4, 128)\nfor p in model.layers.parameters():\n    p.requires_grad = False\nmodel.table.requires_grad_(False)" +
                           CALLBACK.format("model.requires_grad_(True)"), SAID, "callback Later"),
    "collator_that_grows": (TRAINER, GROWS, SAID, "longer()"),
    "length_is_drawn": (TRAINER, DRAWN, SAID, "Drawn"),
    "second_training": (TRAINER.replace("# AFTER", "train = trainer.train_dataset = some(32, 160)\ntrainer.train()"), "", SAID, "after this training"),
    "later_batches_are_larger": (LOOP, "sized = {'batch_sampler': [range(8), range(8, 16), range(16, 64)]}", SAID, "up to 48 samples"),
    "evaluation_of_a_loop": (LOOP, "evaluated, eval_size = some(640), 320\ndef after(epoch):\n    with torch.no_grad():\n        for batch in eval_loader:\n            model(**batch)", MISFIT, "evaluation does not fit"),
    "a_loop_keeps_outputs": (LOOP, "model, evaluated, kept = Net(2000), some(160), []\ndef after(epoch):\n    with torch.no_grad():\n        for batch in eval_loader:\n"
                             "            kept.append(model(**batch)['logits'])", SAID, "keeps of evaluations"),
    "a_loop_saves_copies": (LOOP, "model = Net(4, 128)\ndef after(epoch):\n    torch.save([p.detach().clone() for p in model.parameters() for _ in range(9)], 'weights')", SAID, "saves"),
}


def measured(name: str, enough: bool = False) -> dict[str, object]:
    """One planted death: peaks alone, and what `fit` says."""
    template, change, code, said = EXPECTED[name]
    code, said = (0, "It fits as it is") if enough else (code, said)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as f:
            f.write(GAUGE + template.replace("# CHANGE", change))
        alone = subprocess.run([sys.executable, "train.py"], cwd=folder, env={**os.environ, "PEAKS": "peaks"}, capture_output=True, text=True, check=False)
        if alone.returncode:
            return {"name": name, "ok": False, "script": alone.stderr[-1500:]}
        with open(os.path.join(folder, "peaks"), encoding="utf-8") as f:
            first, most = json.load(f)
        done = subprocess.run([sys.executable, "-m", "plimsoll.fit", "--parts", "1", "--probe-only", "--memory", str(most * 11 // 10 if enough else (first + most) // 2), "--", sys.executable, "train.py"],
                              cwd=folder, capture_output=True, text=True, check=False)
    text = " ".join((done.stdout + done.stderr).split())
    return {"name": name, "ok": most > 1.1 * first and done.returncode == code and said in text, "first_step_kib": first >> 10, "later_kib": most >> 10,
            "expected": [code, said], "code": done.returncode, "said": text if done.returncode != code or said not in text else said}


def main() -> int:
    rows, enough = [], "--enough" in sys.argv
    for name in [word for word in sys.argv[1:] if word != "--enough"] or EXPECTED:
        rows.append(measured(name, enough))
        print(json.dumps(rows[-1]), flush=True)
    print(f"{sum(bool(row['ok']) for row in rows)} of {len(rows)} {'fit' if enough else 'are named before step 1'}")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
