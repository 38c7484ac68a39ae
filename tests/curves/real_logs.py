#!/usr/bin/env python3
"""real_logs.py PLIMSOLL: logs as the real libraries write them, read back: every value, its step, and the NaN at the end.

Keras' CSVLogger, torch's SummaryWriter (TensorBoard), Lightning's CSVLogger, MLflow's file store, W&B offline, and Megatron's lines
(its format; the program itself wants a GPU).  Those that cannot be imported are named; 77 where none can.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "torch")
STEPS = 120
LOSSES = [3.0 / (1 + i / 20) for i in range(STEPS - 3)] + [float("nan")] * 3


def rates(i):
    return 1e-3 * (1 - i / STEPS)


def keras(folder):
    import keras as k

    logger = k.callbacks.CSVLogger(os.path.join(folder, "training.log"))
    logger.set_model(k.Sequential([k.layers.Dense(1)]))
    logger.on_train_begin()
    for i, loss in enumerate(LOSSES):
        logger.on_epoch_end(i, {"loss": loss, "learning_rate": rates(i)})
    logger.on_train_end()


def tensorboard(folder):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        for i, loss in enumerate(LOSSES):
            writer.add_scalar("train/loss", loss, i)
            writer.add_scalar("lr", rates(i), i, new_style=True)
            if i % 40 == 0:
                writer.add_text("note", "words", i)
                writer.add_histogram("weights", __import__("torch").randn(100), i)


def lightning(folder):
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(folder, name="", version="")
    for i, loss in enumerate(LOSSES):
        logger.log_metrics({"train_loss": loss}, i)
        logger.log_metrics({"lr-Adam": rates(i)}, i)
    logger.save()


def mlflow(folder):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import logging

    logging.getLogger("mlflow").setLevel(logging.ERROR)
    import mlflow as m

    m.set_tracking_uri(f"file://{folder}/mlruns")
    m.set_experiment("plimsoll")
    with m.start_run():
        for i, loss in enumerate(LOSSES):
            m.log_metric("loss", loss, step=i)
            m.log_metric("lr", rates(i), step=i)


def wandb(folder):
    import wandb as w

    run = w.init(mode="offline", dir=folder, settings=w.Settings(silent=True, console="off"))
    for i, loss in enumerate(LOSSES):
        run.log({"train": {"loss": loss}, "lr": rates(i)})
    run.finish()


def megatron(folder):
    with open(os.path.join(folder, "log.txt"), "w", encoding="ascii") as f:
        for i, loss in enumerate(LOSSES):
            f.write(f" [2026-01-02 03:04:{i % 60:02d}] iteration {i:8d}/{STEPS:8d} | consumed samples: {i * 8:12d} | elapsed time per iteration (ms): "
                    f"{512.25:.1f} | throughput per GPU (TFLOP/s/GPU): 301.2 | learning rate: {rates(i):.6E} | global batch size: "
                    f"{8:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {1.25:.3f} | number of skipped iterations:   0 | "
                    "number of nan iterations:   0 |\n")


def close(a, b):
    return abs(a - b) <= 2e-6 * abs(b) + 1e-12


def wrong_in(run):
    """What was not read as it was logged."""
    by_role = {s["role"]: s for s in run["series"] if s["role"] in ("train_loss", "learning_rate")}
    loss, rate = by_role.get("train_loss"), by_role.get("learning_rate")
    finite = [v for v in LOSSES if math.isfinite(v)]
    if not loss or not rate:
        yield f"series {[s['name'] for s in run['series']]}"
        return
    for series, values in ((loss, finite), (rate, [rates(i) for i in range(STEPS)])):
        if series["points"] != STEPS:
            yield f"{series['name']}: {series['points']} values"
        for key, value in (("first", values[0]), ("last", values[-1]), ("min", min(values)), ("max", max(values))):
            if not close(series[key], value):
                yield f"{series['name']}: {key} is {series[key]}, not {value}"
        if (series["first_step"], series["last_step"]) != (0, STEPS - 1):
            yield f"{series['name']}: steps {series['first_step']} to {series['last_step']}"
    nan = [f for f in run["findings"] if f["id"] == "nan"]
    if loss["non_finite"] != 3 or [f["step"] for f in nan] != [STEPS - 3]:
        yield f"{loss['non_finite']} not finite, found {[(f['id'], f['step']) for f in run['findings']]}"


def main():
    program, failed, read = os.path.abspath(sys.argv[1]), 0, 0
    for make, kind in ((keras, "csv"), (tensorboard, "tensorboard"), (lightning, "csv"), (mlflow, "mlflow"), (wandb, "wandb"),
                       (megatron, "text")):
        with tempfile.TemporaryDirectory() as folder:
            try:
                make(folder)
            except ImportError as why:
                print(f"{make.__name__}: not here ({why})")
                continue
            said = subprocess.run([program, "curves", "--json", folder], capture_output=True, text=True, check=False)
            runs = json.loads(said.stdout)["runs"] if said.returncode == 0 else []
        wrong = [said.stderr.strip()] if not runs else list(wrong_in(runs[0]))
        if len(runs) > 1 or runs and runs[0]["kind"] != kind:
            wrong.append(f"read as {[r['kind'] + ' ' + r['source'] for r in runs]}")
        print(f"{make.__name__}: {'; '.join(wrong) or 'every value'}")
        failed += bool(wrong)
        read += 1
    return 1 if failed else 0 if read > 1 else 77


if __name__ == "__main__":
    sys.exit(main())
