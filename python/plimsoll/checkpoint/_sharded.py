"""State that lies in parts on several ranks (FSDP2, FSDP, tensor parallelism), in the layout of torch.distributed.checkpoint.

Its planner says which rank writes what, and reads what a rank needs whatever the ranks were; the bytes of a rank are one
file, staged and written as all others are, and torch.distributed.checkpoint.load reads the folder without this package.
"""
from __future__ import annotations

import io
import os
import pickle
import warnings
from typing import Any, Callable, Mapping, Sequence

from . import _state
from .. import _torch
from ..errors import ArgumentError, FormatError, PlimsollError, UnsupportedError

METADATA = ".metadata"
Put = Callable[[str, Sequence[tuple[str, Any, str]]], Sequence[tuple[int, int]]]  # file, (name, tensor, dtype) -> (offset, bytes)


# ---- saving ----

def state_of(model: Any, optimizers: Mapping[str, Any], stateful: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts, parameters by their names.  optimizers: by the names of their files."""
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

    state: dict[str, Any] = {} if model is None else {"model": get_model_state_dict(model)}
    for name, optimizer in optimizers.items():
        if model is None:
            raise ArgumentError("the optimizer of a sharded model is saved with the model, which names its parameters")
        state[name] = get_optimizer_state_dict(model, optimizer)
    state.update({name: _stateful(value) for name, value in stateful.items()})
    _refuse_old(state)
    return state


def _refuse_old(state: Any) -> None:
    """FSDP without a DeviceMesh gives ShardedTensors: a rank that has no row of one cannot load the optimizer (seen with torch 2.13)."""
    if hasattr(state, "local_shards") and not hasattr(state, "_local_tensor"):
        raise UnsupportedError("FullyShardedDataParallel without a DeviceMesh cannot be saved in parts",
                               remedy="make it with device_mesh=init_device_mesh(...), or use fully_shard()")
    if isinstance(state, Mapping):
        for value in state.values():
            _refuse_old(value)


def _stateful(value: Any) -> Any:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    return get_model_state_dict(value) if isinstance(value, _torch.torch().nn.Module) else value.state_dict()


class _Writer:
    """Of a StorageWriter: gives what this rank is to write to the library, which says where it will lie."""

    def __init__(self, rank: int, put: Put) -> None:
        self.file, self.put = f"__{rank}_0.distcp", put
        self.metadata = b""  # on the coordinator

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: Any) -> Any:
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        return plans

    def write_data(self, plan: Any, planner: Any) -> Any:
        from torch.distributed.checkpoint.filesystem import _StorageInfo
        from torch.distributed.checkpoint.planner import WriteItemType
        from torch.distributed.checkpoint.storage import WriteResult

        torch, rows = _torch.torch(), []
        for i, item in enumerate(plan.items):
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                rows.append((str(i), torch.frombuffer(bytearray(data.getbuffer()), dtype=torch.uint8), "bytes"))
            else:
                rows.append((str(i), data.detach(), _state.dtype_name(data.dtype)))
        places = self.put(self.file, rows) if rows else []
        done: Any = torch.futures.Future()
        done.set_result([WriteResult(item.index, n, _StorageInfo(self.file, at, n)) for item, (at, n) in zip(plan.items, places)])
        return done

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        metadata.storage_data = {one.index: one.storage_data for written in results for one in written}
        self.metadata = pickle.dumps(metadata)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


def _dcp() -> Any:
    import torch.distributed.checkpoint

    return torch.distributed.checkpoint  # which says of nothing that it exports it


def save(state: dict[str, Any], rank: int, put: Put) -> bytes:
    """Hands this rank's part over; the text of .metadata on rank 0, else b"".  All ranks call it: if put raises on one, all raise.

    What several ranks hold whole is rank 0's.
    """
    from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

    dcp = _dcp()
    writer: Any = type("Writer", (_Writer, dcp.StorageWriter), {})(rank, put)
    try:
        dcp.save(state, storage_writer=writer, planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True))
    except dcp.CheckpointException as why:
        raise _told(why) from None
    return bytes(writer.metadata)


def _told(why: Any) -> PlimsollError:
    """The first rank's own error, or what it says."""
    rank, (first, _) = min(why.failures.items())
    return first if isinstance(first, PlimsollError) else PlimsollError(f"rank {rank}: {type(first).__name__}: {first}")


# ---- loading ----

class _Plain(pickle.Unpickler):
    """Of .metadata, which torch would unpickle whatever it calls."""

    def find_class(self, module: str, name: str) -> Any:
        torch, found = _torch.torch(), None
        if module.startswith("torch.distributed.checkpoint.") or module == "torch" or (module, name) in (
                ("torch.serialization", "_get_layout"), ("collections", "OrderedDict"), ("pathlib", "PosixPath")):
            found = super().find_class(module, name)
        plain = isinstance(found, (torch.dtype, torch.layout, torch.memory_format)) or found in (torch.Size, torch.device)
        if found is None or module == "torch" and not plain or module.startswith("torch.distributed.") and not isinstance(found, type):
            raise FormatError(f"the checkpoint's {METADATA} names {module}.{name}, which is not a part of one")
        return found


def _reader(path: str) -> Any:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    def read_metadata(*_: Any, **__: Any) -> Any:
        with open(os.path.join(path, METADATA), "rb") as f:
            return _Plain(f).load()

    reader = FileSystemReader(path)
    reader.read_metadata = read_metadata
    return reader


def _planner() -> Any:
    from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

    planner = DefaultLoadPlanner()
    theirs = planner.load_bytes

    def load_bytes(read_item: Any, value: io.BytesIO) -> None:
        _torch.torch().load(value, weights_only=True)  # raises where torch's own would run what it names
        value.seek(0)
        theirs(read_item, value)

    planner.load_bytes = load_bytes
    return planner


def _flat(state: Any, place: str = "") -> dict[str, tuple[str, list[int]]]:
    """Names, dtypes and whole shapes of its tensors."""
    if isinstance(state, _torch.torch().Tensor) or hasattr(state, "local_shards"):
        return {place: (_state.dtype_name(state.dtype), list(state.size()))}
    items = state.items() if isinstance(state, Mapping) else enumerate(state) if isinstance(state, (list, tuple)) else ()
    found = {}
    for key, value in items:
        found.update(_flat(value, f"{place}.{key}" if place else str(key)))
    return found


class Shards:
    """What of a checkpoint is in parts, next to what it is to be loaded into."""

    def __init__(self, path: str, rename: Callable[[str], str], partial: Sequence[str]) -> None:
        from torch.distributed.checkpoint.metadata import TensorStorageMetadata

        self.reader = _reader(path)
        self.there = {name: (_state.dtype_name(row.properties.dtype), list(row.size))
                      for name, row in self.reader.read_metadata().state_dict_metadata.items() if isinstance(row, TensorStorageMetadata)}
        self.rename, self.partial = rename, partial
        self.state: dict[str, Any] = {}
        self.loads: list[Callable[[], None]] = []

    def _below(self, key: str) -> dict[str, tuple[str, list[int]]]:
        return {name[len(key) + 1:]: row for name, row in self.there.items() if name.startswith(key + ".")}

    def model(self, model: Any) -> list[str]:
        """All differences, one a line."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict

        found, state = self._below("model"), get_model_state_dict(model)
        names = {self.rename(name): name for name in found}  # as they are here -> as they are saved
        wanted, there = _flat(state), {self.rename(name): row for name, row in found.items()}
        lines = _state.differences(wanted, there, self.partial)
        if lines:
            hint = _state.suggest(wanted, there)
            return lines + ([hint] if hint else [])
        rest = {name: value for name, value in state.items() if name not in wanted}  # no tensors
        template = {names[name]: state[name] for name in wanted if name in names and there[name] == wanted[name]}
        self.state["model"] = {**template, **rest}

        def load() -> None:
            loaded = {self.rename(name): value for name, value in self.state["model"].items()}
            set_model_state_dict(model, {**state, **loaded}, options=StateDictOptions(strict=True))

        self.loads.append(load)
        return []

    def optimizer(self, key: str, model: Any, optimizer: Any) -> list[str]:
        from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

        found = self._below(key)
        state: Any = get_optimizer_state_dict(model, optimizer)
        saved = {}  # parameters as they are here -> as they are saved
        for place in found:
            if place.startswith("state."):
                name = place[len("state."):].rpartition(".")[0]
                saved[self.rename(name)] = name
        template = {**state, "state": {saved.get(name, name): value for name, value in state["state"].items()}}
        lines = _state.differences({f"{key}.{name}": row for name, row in _flat(template).items()},
                                   {f"{key}.{name}": row for name, row in found.items()})
        self.state[key] = template

        def load() -> None:
            loaded = self.state[key]
            groups = [{**group, "params": [self.rename(name) for name in group["params"]]} for group in loaded["param_groups"]]
            set_optimizer_state_dict(model, optimizer, optim_state_dict={
                **loaded, "state": {self.rename(name): value for name, value in loaded["state"].items()}, "param_groups": groups})

        self.loads.append(load)
        return lines

    def stateful(self, key: str, target: Any) -> list[str]:
        state = _stateful(target)
        self.state[key] = state
        self.loads.append(lambda: target.load_state_dict(self.state[key]))
        return _state.differences({f"{key}.{name}": row for name, row in _flat(state).items()},
                                  {f"{key}.{name}": row for name, row in self._below(key).items()})

    def load(self) -> None:
        """All ranks call it."""
        dcp = _dcp()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # one process may load what many saved
            try:
                dcp.load(self.state, storage_reader=self.reader, planner=_planner())
            except dcp.CheckpointException as why:
                raise _told(why) from None
        for load in self.loads:
            load()


__all__ = ["METADATA", "Shards", "save", "state_of"]
