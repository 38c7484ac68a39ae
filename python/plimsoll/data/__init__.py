"""The input: samples kept in one file, does the job wait for them, and which settings of a DataLoader are fastest here.

    from plimsoll.data import InputWatch, SampleCache, tune_loader

    cache = SampleCache(dataset, "train.samples", transform, workers=8)   # filled once
    for images, labels in cache.batches(256, shuffle=0, device="cuda"):   # gathered and copied ahead by native threads
        step(images, labels)

    for batch in (watch := InputWatch(loader)):
        step(batch)
    print(watch.verdict())

    advice = tune_loader(loader)                 # measured on this machine, in 10 s
    loader = DataLoader(dataset, batch_size=64, **advice.kwargs)
"""
from __future__ import annotations

from ._batches import Batches
from ._input_watch import InputVerdict, InputWatch
from ._sample_cache import SampleCache, StaleCacheError
from ._tune import LoaderAdvice, Measured, tune_loader

__all__ = ["SampleCache", "StaleCacheError", "Batches", "InputWatch", "InputVerdict", "tune_loader", "LoaderAdvice", "Measured"]
