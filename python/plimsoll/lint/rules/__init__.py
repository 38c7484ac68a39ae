"""The rules, by the hundreds of their numbers.  Importing this package registers them all."""
from . import checkpoints, distributed, memory, modules, numeric, passes, precision, settings, stalls, untrained

__all__ = ["checkpoints", "distributed", "memory", "modules", "numeric", "passes", "precision", "settings", "stalls", "untrained"]
