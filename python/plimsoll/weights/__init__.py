"""Weights: checkpoints to the GPU at the speed of its bus, and one model that runs many of them.

    from plimsoll.weights import WeightCache, WeightSwapper, load_file

    state = load_file("model.safetensors")           # on the GPU, without page-locking the file

    cache = WeightCache(budget="20%")
    cache.register("a", "run1/model.safetensors")
    cache.register("b", "run2/checkpoint.pt", prefix="model.")
    swapper = WeightSwapper(model, cache)
    with swapper.use("a") as model:                  # in place: compiled modules and CUDA graphs go on working
        y = model(x)
    outputs = swapper.compare(lambda model: model(x), ["a", "b"])

What is promised, and what it costs: docs/weights.md.
"""
from __future__ import annotations

from .._loader import load_file
from ._swapper import SwapReport, WeightSwapper
from ._weight_cache import CacheStats, TierStats, WeightCache

__all__ = ["load_file", "WeightCache", "CacheStats", "TierStats", "WeightSwapper", "SwapReport"]
