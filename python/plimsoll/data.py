"""The input: does the job wait for it, and which settings of a DataLoader are fastest here.

    from plimsoll.data import InputWatch, tune_loader

    for batch in (watch := InputWatch(loader)):
        step(batch)
    print(watch.verdict())

    advice = tune_loader(loader)                 # measured on this machine, in 10 s
    loader = DataLoader(dataset, batch_size=64, **advice.kwargs)
"""
from __future__ import annotations

from ._input_watch import InputVerdict, InputWatch
from ._tune import LoaderAdvice, Measured, tune_loader

__all__ = ["InputWatch", "InputVerdict", "tune_loader", "LoaderAdvice", "Measured"]
