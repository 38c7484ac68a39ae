"""Which rank this process is, and of which stage and groups: from its environment and from what it has set up for itself.

Needs nothing but the standard library (3.8), since `plimsoll record` puts this file next to its recorder, too.  Nothing is
imported: what the program did not load it does not use.
"""
from __future__ import annotations

import gc
import os
import re
import sys
from typing import Any, Dict, List, Optional, Tuple

RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")

#: The stages and groups of a process, the outermost first: (name, its place there, how many there are).
Place = List[Tuple[str, int, int]]

#: Modules that know them: (short name, what their functions' names have for it).
KNOWN: Tuple[Tuple[str, Tuple[Tuple[str, str], ...]], ...] = (
    ("megatron.core.parallel_state", (("pp", "pipeline_model_parallel"), ("dp", "data_parallel"), ("cp", "context_parallel"),
                                      ("ep", "expert_model_parallel"), ("tp", "tensor_model_parallel"))),
    ("vllm.distributed.parallel_state", (("tp", "tensor_model_parallel"),)),
)


def number(names: Tuple[str, ...]) -> Optional[int]:
    """Of the first of these variables that is set to one."""
    for name in names:
        text = os.environ.get(name, "")
        if text.isdigit() and len(text) < 10:
            return int(text)
    return None


def rank() -> int:
    """0 where nothing shows."""
    return number(RANK) or 0


def of_layout(text: str, at: int) -> Place:
    """PLIMSOLL_LAYOUT is what `report --layout` takes: tp=8,dp=32,pp=4, the one whose neighbours follow each other first."""
    place: Place = []
    for part in filter(None, text.split(",")):
        name, _, size = part.partition("=")
        if not size.isdigit() or int(size) < 1:
            return []
        place.insert(0, (name, at % int(size), int(size)))
        at //= int(size)
    return place


def of_module(module: Any, groups: Tuple[Tuple[str, str], ...]) -> Place:
    place: Place = []
    for name, words in groups:
        try:
            place.append((name, int(getattr(module, f"get_{words}_rank")()), int(getattr(module, f"get_{words}_world_size")())))
        except Exception:  # it is not set up, or a release has none
            continue
    return place


def of_mesh(module: Any) -> Place:
    """torch's DeviceMesh with names for its dimensions: of several the one with most of them."""
    best: Place = []
    for mesh in gc.get_objects():
        try:
            if not issubclass(type(mesh), module.DeviceMesh) or not mesh.mesh_dim_names:  # asks the object nothing
                continue
            at = mesh.get_coordinate()
            place = [(str(n), int(c), int(s)) for n, c, s in zip(mesh.mesh_dim_names, at or (), mesh.mesh.shape)]
        except Exception:  # an object that does not like to be looked at
            continue
        if len(place) > len(best):
            best = place
    return best


def places() -> Place:
    layout = os.environ.get("PLIMSOLL_LAYOUT", "")
    at = number(RANK)
    if layout and at is not None:
        return of_layout(layout, at)
    for name, groups in KNOWN:
        found = of_module(sys.modules[name], groups) if name in sys.modules else []
        if found:
            return found
    module = sys.modules.get("torch.distributed.device_mesh")
    distributed = sys.modules.get("torch.distributed")
    if module is None or distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return []
    return of_mesh(module)


def job() -> Dict[str, Any]:
    """For the recording: "rank", "world" and "place" ("pp 2, dp 0, tp 5"), as far as they are known."""
    told: Dict[str, Any] = {"rank": number(RANK), "world": number(WORLD)}
    try:
        place = [(n, at) for n, at, size in places() if size > 1 and re.fullmatch("[a-z][a-z0-9_]{0,30}", n)]
        told["place"] = ", ".join(f"{n} {at}" for n, at in place) or None
    except Exception:
        told["place"] = None
    return {k: v for k, v in told.items() if v is not None}
