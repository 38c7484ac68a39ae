#!/usr/bin/env python3
"""Honest files, made by the libraries that can be imported here: honest_files.py PROGRAM [FOLDER].

None may be called damaged, and none unknown for a name of these libraries.  Names and sizes depend on nothing but this
file and the releases; FOLDER keeps the files.
"""
import collections
import contextlib
import importlib.util
import inspect
import io
import json
import os
import pickle
import sys
import tempfile
import warnings

import lib
from lib import expect

SKIPPED = 77
LEAST = 150  # files that are made if the libraries are here
DAMAGED = ("damaged", "truncated", "unreadable")
OTHERS = (".npy", ".npz")  # not checkpoints: exit code 1, and their own words


def arrays():
    import numpy as np
    kinds = {"float": np.arange(12.0).reshape(3, 4), "float16": np.ones(5, "f2"), "int": np.arange(300), "bool": np.ones(3, bool), "complex": np.ones(3, "c16"),
             "text": np.array(["a", "bc"]), "bytes": np.array([b"a", b"bc"]), "date": np.array(["2024-01-01"], "M8[D]"), "span": np.array([3], "m8[s]"),
             "record": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "object": np.array([{"a": 1}, "x", None], object), "empty": np.zeros((0, 3)),
             "scalar": np.array(3.5), "fortran": np.asfortranarray(np.ones((3, 4))), "big endian": np.arange(3, dtype=">i4"),
             "records of objects": np.array([(1, "x")], [("a", "i4"), ("b", "O")]), "masked": np.ma.array([1.0, 2.0], mask=[0, 1]),
             "recarray": np.rec.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]), "generator": np.random.default_rng(1), "state": np.random.RandomState(1)}
    for name, a in kinds.items():
        yield f"numpy-{name}.pkl", lambda path, a=a: dump(a, path)
        if isinstance(a, np.ndarray) and name != "masked":
            yield f"numpy-{name}.npy", lambda path, a=a: np.save(path, a)
    yield "numpy-several.npz", lambda path: np.savez(path, **{k: v for k, v in kinds.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fi"})
    yield "numpy-small.npz", lambda path: np.savez_compressed(path, a=np.arange(1000))


def dump(value, path, protocol=None):
    with open(path, "wb") as f:
        pickle.dump(value, f, protocol)


def tables():
    import numpy as np
    import pandas as pd
    index = pd.date_range("2024-01-01", periods=4)
    columns = {"float": np.arange(4.0), "int": np.arange(4), "text": list("abcd"), "date": index, "zone": index.tz_localize("UTC"), "span": index - index[0],
               "category": pd.Categorical(list("abab")), "nullable": pd.array([1, None, 3, 4], dtype="Int64"), "bool": [True, False, True, None],
               "period": index.to_period("D"), "interval": pd.interval_range(0, 4), "object": [{}, [], "a", None], "sparse": pd.arrays.SparseArray([0, 0, 1, 0])}
    for i, (name, column) in enumerate(columns.items()):
        ending = (".pkl", ".pkl.gz", ".pkl.bz2", ".pkl.xz")[i % 4]
        yield f"pandas-{name}{ending}", lambda path, c=column: pd.DataFrame({"a": c}).to_pickle(path)
        yield f"pandas-series-{name}.pkl", lambda path, c=column: pd.Series(c).to_pickle(path)
    yield "pandas-index.pkl", lambda path: pd.DataFrame(np.ones((4, 2)), index=pd.MultiIndex.from_product([[1, 2], ["a", "b"]])).to_pickle(path)


def estimators():
    import joblib
    import numpy as np
    from sklearn.utils import all_estimators
    random = np.random.RandomState(0)
    x, numbers = np.abs(random.rand(40, 4)), np.arange(40) % 2
    texts = np.array(["no", "yes"], object)[numbers]
    for i, (name, made) in enumerate(all_estimators()):
        if any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in inspect.signature(made).parameters.values()):
            continue

        def write(path, made=made, i=i):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    model = made().fit(x, texts if i % 4 == 0 else numbers)
            except Exception:  # wants numbers, of classes in whatever words
                model = made().fit(x, numbers)
            if path.endswith(".pkl"):
                dump(model, path, 2 + i % 4)
            else:
                joblib.dump(model, path, compress=(0, 3, ("lzma", 3), ("bz2", 3), ("gzip", 3), ("xz", 3))[i // 2 % 6])
        yield f"sklearn-{name}" + (".pkl" if i % 2 else ".joblib"), write


def tensors():
    import torch
    from torch import nn
    torch.manual_seed(0)
    layers = {"linear": nn.Linear(4, 3), "conv": nn.Conv2d(3, 4, 3), "norm": nn.BatchNorm1d(4), "embedding": nn.Embedding(9, 4), "lstm": nn.LSTM(4, 5), "gru": nn.GRU(4, 5),
              "attention": nn.MultiheadAttention(4, 2), "transformer": nn.TransformerEncoderLayer(4, 2), "sequence": nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.1)),
              "list": nn.ModuleList([nn.Linear(2, 2), nn.GELU()]), "dict": nn.ModuleDict({"a": nn.Linear(2, 2)}), "bilinear": nn.Bilinear(2, 3, 4)}
    for i, (name, m) in enumerate(layers.items()):
        old = i % 3 == 0
        yield f"torch-{name}.pt", lambda path, m=m: torch.save(m.state_dict(), path)
        yield f"torch-whole-{name}.pt", lambda path, m=m, old=old: torch.save(m, path, _use_new_zipfile_serialization=not old)
        yield f"torch-old-{name}.pth", lambda path, m=m: torch.save(m.state_dict(), path, _use_new_zipfile_serialization=False)
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "Rprop"):
        def write(path, name=name):
            model = nn.Linear(4, 3)
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 3, "version": torch.__version__,
                        "rng": torch.get_rng_state(), "counts": collections.Counter(a=1), "losses": collections.deque([1.0], 3)}, path)
        yield f"torch-training-{name}.pt", write
    for name in ("float16", "bfloat16", "float64", "int8", "bool", "complex64", "float8_e4m3fn", "uint16"):
        yield f"torch-{name}.pt", lambda path, name=name: torch.save({"a": torch.ones(3, 4).to(getattr(torch, name))}, path)
    yield "torch-sparse.pt", lambda path: torch.save(torch.eye(4).to_sparse(), path)
    yield "torch-csr.pt", lambda path: torch.save(torch.eye(4).to_sparse_csr(), path)
    yield "torch-view.pt", lambda path: torch.save({"a": torch.ones(4, 4).t(), "b": torch.ones(8)[2:5]}, path)
    yield "torch-pickle.pkl", lambda path: dump({"a": torch.ones(3)}, path)
    yield "torch-script.pt", lambda path: torch.jit.trace(nn.Linear(4, 3), torch.ones(1, 4)).save(path)
    yield "torch-export.pt2", lambda path: torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.ones(1, 4),)), path)
    sizes = ({0: torch.export.Dim("batch", min=4, max=4096)},)
    yield "torch-export-sizes.pt2", lambda path: torch.export.save(torch.export.export(exported(), (torch.ones(12, 4),), dynamic_shapes=sizes), path)


def exported():
    """Not at the top: torch may not be here."""
    import torch

    class Halves(torch.nn.Module):
        def forward(self, x):
            return torch.cat([x, x])[::2].reshape(-1).sum() + x.shape[0] // 3 % 5
    return Halves()


def models():
    import torch
    import transformers
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20, "num_key_value_heads": 2}
    for name in ("Bert", "Roberta", "DistilBert", "Llama", "Mistral", "GPT2", "Qwen2", "GPTNeoX", "Electra", "Albert", "Phi", "Gemma", "OPT", "Falcon"):
        def make(name=name):
            config = getattr(transformers, name + "Config")(**small)
            for key in ("dim", "n_embd", "hidden_dim", "embedding_size", "ffn_dim", "word_embed_proj_dim"):
                if hasattr(config, key):
                    with contextlib.suppress(Exception):
                        setattr(config, key, 8)
            return getattr(transformers, name + "Model")(config)
        yield f"transformers-{name}", lambda path, make=make: make().save_pretrained(path)
        yield f"transformers-{name}.pt", lambda path, make=make: torch.save(make(), path)
    yield "training_args.bin", lambda path: torch.save(transformers.TrainingArguments(output_dir="x", report_to=[], use_cpu=True), path)


def trainers():
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self, size=3, rate=0.1):
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(4, size)

        def training_step(self, batch, _):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return getattr(torch.optim, self.hparams.get("name", "Adam"))(self.parameters(), lr=self.hparams.rate)

    for size in (2, 3, 4):
        def write(path, size=size):
            trainer = lightning.Trainer(max_steps=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, barebones=False)
            trainer.fit(Model(size), torch.utils.data.DataLoader(torch.ones(4, 4)))
            trainer.save_checkpoint(path)
        yield f"lightning-{size}.ckpt", write


def main():
    lib.start(sys.argv[1])
    os.environ["HF_HUB_OFFLINE"] = "1"
    makers = [m for m, needs in ((arrays, ["numpy"]), (tables, ["pandas"]), (estimators, ["sklearn", "joblib"]), (tensors, ["torch"]),
                                 (models, ["transformers", "torch"]), (trainers, ["lightning", "torch"])) if all(map(importlib.util.find_spec, needs))]
    if not makers:
        print("honest_files.py: SKIPPED, NumPy cannot be imported", file=sys.stderr)
        return SKIPPED
    verdicts, broken = collections.Counter(), []
    with tempfile.TemporaryDirectory() as own, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = sys.argv[2] if len(sys.argv) > 2 else own
        for maker in makers:
            for name, write in maker():
                path = os.path.join(folder, name)
                try:
                    write(path)
                except Exception:  # an estimator that wants other data, a release that has it no more: not what is tested
                    broken.append(name)
                    continue
                done = lib.run("ckpt", "verify", "--json", path, codes=(0, 1))
                r = json.loads(done.stdout)
                verdicts[f"{r['verdict']}, {r['pickle']}"] += 1
                expect(r["verdict"] not in DAMAGED, name, r["verdict"], r["headline"])
                doubted = [g["name"] for g in r["globals"] if g["trust"] in ("unknown", "dangerous")]
                expect(not doubted and (done.returncode == 0 or name.endswith(OTHERS)), name, doubted, r["headline"])
    print(f"{sum(verdicts.values())} honest files: " + "; ".join(f"{n} {v}" for v, n in verdicts.most_common()) + f"; {len(broken)} were not made: {' '.join(broken)}")
    expect(sum(verdicts.values()) >= LEAST or len(makers) < 4, "honest files", verdicts)
    lib.finish("honest files")


if __name__ == "__main__":
    sys.exit(main())
