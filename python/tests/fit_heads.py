"""fit_heads.py TRANSFORMERS OUT [MODEL...]: the certificate of `plimsoll fit` on every head that Transformers' own tests can train.

TRANSFORMERS: a folder with tests/ and utils/ of the release that is installed; they make a small model and a batch for each class.  MODEL:
folders of tests/models (all); `planted`: 20 losses that are not sums over samples, on a small BERT.  Each class is a JSON line in
OUT/heads.jsonl: "way", the certificate's answer in fp32, as the probe makes it; "truth", for each way the distance of the
gradient in 2 and 3 parts and one sample each from that of the batch, in fp64 (fp32 if the model does not run in it), at other
weights, with the samples in another order.  The last lines count what was accepted and refused falsely.
"""
import contextlib
import importlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import traceback
import types
import unittest
import warnings

ROOT, OUT = (os.path.abspath(word) for word in sys.argv[1:3])
sys.path[:0] = [ROOT, os.path.join(ROOT, "utils")]
os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from plimsoll.fit import _certificate, _parts, _probe, _trainer  # noqa: E402

sys.modules["tests.test_pipeline_mixin"] = types.ModuleType("tests.test_pipeline_mixin")
sys.modules["tests.test_pipeline_mixin"].PipelineTesterMixin = type("PipelineTesterMixin", (), {})  # pipelines play no part here
from tests import test_modeling_common  # noqa: E402, F401

SAMPLES, SECONDS, MEMORY = 8, 150, 6 << 30
#: Of a distance: right up to here, wrong beyond.  Some models compute a part in fp32 by themselves.
BOUNDS = {torch.float64: (1e-6, 1e-5), torch.float32: (1e-5, 5e-4)}
STEP = transformers.Trainer.training_step


# ---- losses that are not sums over samples: of logits [n, 2] and labels [n] ----

def _each(x, y):
    return F.cross_entropy(x, y, reduction="none")


def _probability(x):
    return x.softmax(-1)


PLANTED = {
    "square of the mean": lambda x, y: _each(x, y).mean() ** 2,
    "root of the mean": lambda x, y: _each(x, y).mean().sqrt(),
    "exponential of the mean": lambda x, y: _each(x, y).mean().exp(),
    "sum over the root of the number": lambda x, y: _each(x, y).sum() / len(x) ** 0.5 + 0 * x.sum(),
    "largest alone": lambda x, y: _each(x, y).max(),
    "median": lambda x, y: _each(x, y).median(),
    "hardest half": lambda x, y: _each(x, y).topk((len(x) + 1) // 2).values.mean(),
    "logsumexp over the batch": lambda x, y: _each(x, y).logsumexp(0),
    "weights of classes": lambda x, y: F.cross_entropy(x, y, weight=x.new_tensor([1.0, 5.0])),
    "normalised by the positives": lambda x, y: _each(x, y).sum() / (1 + y.sum()),
    "batch variance": lambda x, y: _each(x, y).mean() + 0.01 * x.var(0).sum(),
    "centred logits": lambda x, y: _each(x - 0.1 * x.mean(0), y).mean(),
    "logits over their deviation": lambda x, y: _each(x / (1e-3 + x.std()), y).mean(),
    "in-batch negatives": lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(x).T, torch.arange(len(x))),
    "balancing of classes": lambda x, y: _each(x, y).mean() + 0.01 * (_probability(x).mean(0) ** 2).sum(),
    "entropy of the mean": lambda x, y: _each(x, y).mean() - 0.01 * (_probability(x).mean(0) * _probability(x).mean(0).log()).sum(),
    "pairs within the batch": lambda x, y: _each(x, y).mean() + 0.01 * F.softplus(x[:, 0][:, None] - x[:, 0][None]).mean(),
    "dice": lambda x, y: 1 - 2 * (_probability(x)[:, 1] * y).sum() / (_probability(x)[:, 1].sum() + y.sum() + 1),
    "correlation": lambda x, y: -F.cosine_similarity(x[:, 1] - x[:, 1].mean(), y.to(x.dtype) - y.to(x.dtype).mean(), dim=0),
    "mixed with the next sample": lambda x, y: _each(0.9 * x + 0.1 * x.roll(1, 0), y).mean(),
}


class Planted(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.inner = transformers.BertForSequenceClassification(transformers.BertConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37))
        self.loss = loss

    def forward(self, input_ids, labels):
        logits = self.inner(input_ids=input_ids).logits
        return {"loss": self.loss(logits, labels), "logits": logits}


# ---- one head ----

def labelled(inputs, config, seed):
    """Labels of the tests are zeros: others, and in sequences some that do not count; masks of images are empty, choices all the same, padding anywhere."""
    generator = torch.Generator().manual_seed(seed)
    for name in ("attention_mask", "decoder_attention_mask"):
        mask = inputs.get(name)
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and not mask.is_floating_point():
            lengths = torch.randint(mask.shape[1] // 2 + 1, mask.shape[1] + 1, (len(mask), 1), generator=generator)
            inputs = {**inputs, name: (torch.arange(mask.shape[1]) < lengths).to(mask.dtype)}
    masked, words = inputs.get("bool_masked_pos"), inputs.get("input_ids")
    if masked is not None:
        inputs = {**inputs, "bool_masked_pos": torch.rand(masked.shape, generator=generator) < 0.4}
    if words is not None and words.dim() == 3:
        inputs = {**inputs, "input_ids": torch.stack([words[:, n].roll(n, 1) for n in range(words.shape[1])], 1)}
    labels = inputs.get("labels")
    if not isinstance(labels, torch.Tensor) or labels.dtype != torch.long or labels.dim() not in (1, 2):
        return inputs
    classes = 2 if labels.dim() == 1 else max(2, min(getattr(config.get_text_config(), "vocab_size", None) or config.num_labels, config.num_labels if config.num_labels > 2 else 20))
    changed = torch.randint(0, classes, labels.shape, generator=generator)
    if labels.dim() == 2:
        changed[torch.rand(labels.shape, generator=generator) < 0.3] = -100
        changed[:, 0] = 1  # each sample has one
    return {**inputs, "labels": changed}


def trains(model, inputs):
    """Does this batch give a loss with a graph?"""
    output = model(**inputs)
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return isinstance(loss, torch.Tensor) and loss.requires_grad and loss.dim() == 0 and bool(torch.isfinite(loss))


def truth(trainer, model, inputs, items, blocks, dtype):
    """By way: how far the gradient in parts is from the batch's."""
    generator = torch.Generator().manual_seed(7)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the other ones have no fp64
    model.to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * p.norm() / max(1, p.numel()) ** 0.5 * torch.randn(p.shape, generator=generator, dtype=p.dtype))
    inputs = {k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in inputs.items()}
    samples = _parts.samples_of(inputs, blocks)
    inputs = _parts.permute(inputs, torch.arange(samples - 1, -1, -1), blocks)
    buffers = [(b, b.detach().clone()) for b in model.buffers()]

    def gradient(parts, way):
        model.zero_grad(set_to_none=True)
        for b, value in buffers:
            b.copy_(value)
        _trainer.cut_step(STEP, trainer, model, dict(inputs), items, parts, way, blocks)
        return torch.cat([torch.zeros(p.numel(), dtype=torch.float64) if p.grad is None else p.grad.double().flatten() for p in model.parameters()])

    found = {}
    with _certificate._without_dropout(model):
        whole = gradient(1, "own")
        found["again"] = float((gradient(1, "own") - whole).norm() / whole.norm())
        for way in _parts.WAYS:
            try:
                found[way] = max(float((gradient(parts, way) - whole).norm() / whole.norm()) for parts in (2, 3, samples) if parts <= samples)
            except Exception as error:  # a part that the model refuses
                found[way] = f"{type(error).__name__}: {error}"[:120]
    return found


def one(model, inputs, config, scratch):
    """A row of a head that trains."""
    with contextlib.suppress(Exception):
        changed = labelled(inputs, config, 1)
        if trains(model, changed):
            inputs = changed
    if not trains(model, inputs):
        return None
    model.zero_grad(set_to_none=True)
    arguments = transformers.TrainingArguments(output_dir=scratch, report_to=[], use_cpu=True, per_device_train_batch_size=SAMPLES, remove_unused_columns=False)
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=[0] * SAMPLES)
    trainer.current_gradient_accumulation_steps = 1
    blocks = _parts.blocks_of(inputs, SAMPLES)
    samples = _parts.samples_of(inputs, blocks)
    if samples is None or samples < 2:
        return {"samples": samples, "way": None, "refused": "rows"}
    items = _probe._items(trainer, inputs, 1)
    proof = _probe.certificate(STEP, trainer, model, inputs, items, blocks)
    row, dtype = {"samples": samples, **_probe.shown(proof)}, torch.float64
    try:
        row["truth"] = truth(trainer, model, inputs, items, blocks, dtype)
    except RuntimeError:
        dtype = torch.float32
        row["truth"] = truth(trainer, model, inputs, items, blocks, dtype)
    row["exact"] = dtype == torch.float64
    most_right, least_wrong = BOUNDS[dtype]
    if row["truth"]["again"] != row["truth"]["again"]:
        return {**row, "verdict": "no number"}
    right = {way for way in _parts.WAYS if isinstance(row["truth"][way], float) and row["truth"][way] <= most_right}
    wrong = {way for way in _parts.WAYS if not isinstance(row["truth"][way], float) or not row["truth"][way] <= least_wrong}
    row["verdict"] = ("false accept" if proof.way in wrong else "accepted" if proof.way in right else "accepted, the truth is between") if proof.way else "false refusal" if right else "refused"
    return row


def cases(name):
    """(class, a function that makes (config, inputs)) of a folder of tests/models."""
    for path in sorted(pathlib.Path(ROOT, "tests", "models", name).glob("test_modeling_*.py")):
        module = importlib.import_module(f"tests.models.{name}.{path.stem}")
        for kind in list(vars(module).values()):
            if isinstance(kind, type) and issubclass(kind, test_modeling_common.ModelTesterMixin) and issubclass(kind, unittest.TestCase) and kind.__module__ == module.__name__:
                case = kind(next(name for name in dir(kind) if name.startswith("test_")))
                case.setUp()

                def make(model_class, case=case):
                    if isinstance(getattr(case.model_tester, "batch_size", None), int):
                        case.model_tester.batch_size = SAMPLES
                    config, inputs = case.model_tester.prepare_config_and_inputs_for_common()
                    return config, case._prepare_for_class(inputs, model_class, return_labels=True)

                for model_class in case.all_model_classes or ():
                    yield model_class, make


def heads(name, write):
    """All of a folder."""
    if name == "planted":
        for planted, loss in PLANTED.items():
            torch.manual_seed(0)
            inputs = {"input_ids": torch.randint(1, 99, (SAMPLES, 7)), "labels": torch.tensor([0, 1, 1, 0, 1, 0, 1, 1])}
            with tempfile.TemporaryDirectory() as scratch:
                write({"model": name, "head": planted, **(one(Planted(loss).train(), inputs, transformers.BertConfig(), scratch) or {})})
        return
    for model_class, make in cases(name):
        torch.manual_seed(0)
        try:
            config, inputs = make(model_class)
            with tempfile.TemporaryDirectory() as scratch:
                row = one(model_class(config).train(), inputs, config, scratch)
        except Exception:
            row = {"failed": traceback.format_exc(limit=-2)[-300:]}
        if row:
            write({"model": name, "head": model_class.__name__, **row})


def summary(path):
    with open(path) as f:
        rows = {(row["model"], row["head"]): row for row in map(json.loads, f)}.values()
    counts = {}
    for row in rows:
        kind = "planted: " * (row["model"] == "planted") + row.get("verdict", "failed" if "failed" in row else "refused: rows")
        counts[kind] = counts.get(kind, 0) + 1
        if "false" in kind or "between" in kind:
            print(row["model"], row["head"], kind, {k: row.get(k) for k in ("way", "noise", "rounding", "differences", "truth")})
    print(counts)


def main():
    path = os.path.join(OUT, "heads.jsonl")
    os.makedirs(OUT, exist_ok=True)
    names = sys.argv[3:] or [*sorted(p.name for p in pathlib.Path(ROOT, "tests", "models").iterdir() if p.is_dir()), "planted"]
    done = set()
    if os.path.exists(path) and not sys.argv[3:]:
        with open(path) as f:
            done = {json.loads(line)["model"] for line in f}

    def write(row):
        with open(path, "a") as f:
            f.write(json.dumps(row) + "\n")

    for name in names:
        if name in done:
            continue
        child = os.fork()
        if not child:
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            signal.alarm(SECONDS)
            warnings.simplefilter("ignore")
            torch.set_num_threads(1)
            transformers.logging.set_verbosity_error()
            try:
                heads(name, write)
            except BaseException as error:  # of this folder alone
                write({"model": name, "head": "", "failed": repr(error)[:300]})
            os._exit(0)
        _, status = os.wait()
        if status:
            write({"model": name, "head": "", "failed": f"ended by signal {status}"})
    summary(path)


if __name__ == "__main__":
    main()
