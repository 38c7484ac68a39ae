"""The generators of Python, NumPy and torch on the host: seeded for a while, and put back."""
from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import Iterator


def seed_all(seed: int) -> None:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if torch is not None:
        torch.random.default_generator.manual_seed(seed)


@contextmanager
def own_randomness() -> Iterator[None]:
    """The process's generators are afterwards as they were."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    states = (random.getstate(), numpy.random.get_state() if numpy is not None else None,
              torch.random.get_rng_state() if torch is not None else None)
    try:
        yield
    finally:
        random.setstate(states[0])
        if numpy is not None and states[1] is not None:
            numpy.random.set_state(states[1])
        if torch is not None and states[2] is not None:
            torch.random.set_rng_state(states[2])
