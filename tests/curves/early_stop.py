#!/usr/bin/env python3
"""early_stop.py: our replay of early stopping next to Lightning's, Transformers' and Keras' own code, on random histories.

Needs PLIMSOLL_LIBRARY and python/ in PYTHONPATH, and the libraries that are to be compared; 77 where none is importable.
"""
import os
import random
import sys

os.environ.setdefault("KERAS_BACKEND", "torch")
from plimsoll.training import EarlyStopping  # noqa: E402

NAN, INF = float("nan"), float("inf")


def histories(n):
    rng = random.Random(5)
    for _ in range(n):
        values = [rng.choice((NAN, INF)) if rng.random() < 0.05 else round(rng.uniform(0, 2), rng.choice((1, 6))) for _ in range(30)]
        yield values, rng.randint(0, 4), rng.choice((0.0, 0.05)), rng.choice(("min", "max"))


def ours(policy, values, patience, delta, mode):
    stopping = EarlyStopping(patience, min_delta=delta, mode=mode, policy=policy, all_ranks=False)
    return next((i for i, v in enumerate(values) if stopping.step(v)), None)


def lightning(values, patience, delta, mode):
    import torch
    from lightning.pytorch.callbacks import EarlyStopping as Theirs

    them = Theirs("x", min_delta=delta, patience=patience, mode=mode)
    return next((i for i, v in enumerate(values) if them._evaluate_stopping_criteria(torch.tensor(v))[0]), None)


def transformers(values, patience, delta, mode):
    from types import SimpleNamespace as Space

    from transformers import Trainer, TrainerControl, TrainerState
    from transformers.trainer_callback import EarlyStoppingCallback

    args = Space(greater_is_better=mode == "max", metric_for_best_model="eval_x", save_strategy="no")
    state, control, them = TrainerState(), TrainerControl(), EarlyStoppingCallback(patience, delta)
    trainer = Space(args=args, state=state)
    for i, v in enumerate(values):
        them.on_evaluate(args, state, control, {"eval_x": v})
        Trainer._determine_best_metric(trainer, {"eval_x": v}, None)
        if control.should_training_stop:
            return i
    return None


def keras(values, patience, delta, mode):
    from types import SimpleNamespace as Space

    import keras

    them = keras.callbacks.EarlyStopping("x", min_delta=delta, patience=patience, mode=mode)
    them.set_model(Space(stop_training=False))
    them.on_train_begin()
    for i, v in enumerate(values):
        them.on_epoch_end(i, {"x": v})
        if them.model.stop_training:
            return i
    return None


def main():
    compared = 0
    for name, theirs in (("lightning", lightning), ("transformers", transformers), ("keras", keras)):
        try:
            theirs([1.0], 1, 0.0, "min")
        except ImportError as why:
            print(f"{name}: not here ({why})")
            continue
        wrong = [(h, ours(name, *h), theirs(*h)) for h in histories(1000) if ours(name, *h) != theirs(*h)]
        print(f"{name}: 1000 histories, {len(wrong)} differ {wrong[:1] or ''}")
        if wrong:
            return 1
        compared += 1
    return 0 if compared else 77


if __name__ == "__main__":
    sys.exit(main())
