"""Ranks that agree on an attempt: through the store of torch.distributed, which no failed collective can block."""
from __future__ import annotations

import threading
import time
from typing import Any

from .. import _torch
from ._guard import OutOfMemory
from ..errors import PlimsollError

LOOK_EVERY_S = 0.02
STUCK_S = 2.0  # a rank that still works so long after another one failed waits for it in a collective


class RanksDisagree(PlimsollError):
    """A rank failed, hung or died, and the others cannot go on without it."""


class Agreement:
    """One attempt after the other: begin() before the work, judge() for its error, end() after it.

    Each rank writes "ok", "oom" or "error" under a key of the attempt.  A thread of each rank looks at the others' keys while it
    works: if one failed and this rank is stuck in a collective that will never end, its process group is aborted.
    """

    count = 0  # agreements of this process: all ranks make them in the same order

    def __init__(self, group: Any, timeout_s: float) -> None:
        distributed = _torch.torch().distributed
        if not distributed.is_initialized():
            raise PlimsollError("group was given, but torch.distributed is not initialised")
        self.group, self.timeout_s = group, timeout_s
        self.rank, self.world = distributed.get_rank(group), distributed.get_world_size(group)
        self.store = distributed.distributed_c10d._get_default_store()
        self.name = f"plimsoll/{Agreement.count}"
        Agreement.count += 1
        self.attempt = -1
        self.aborted: str | None = None
        self.working = threading.Event()

    def begin(self) -> None:
        self.attempt += 1
        self.working.set()
        self.thread = threading.Thread(target=self._watch, name="plimsoll-ranks", daemon=True)
        self.thread.start()

    def _key(self, rank: int) -> str:
        return f"{self.name}/{self.attempt}/{rank}"

    def _said(self, rank: int) -> str | None:
        key = self._key(rank)
        return self.store.get(key).decode() if self.store.check([key]) else None

    def _watch(self) -> None:
        failed_at: float | None = None
        while self.working.is_set():
            if failed_at is None:
                bad = [r for r in range(self.world) if r != self.rank and self._said(r) in ("oom", "error")]
                failed_at = time.monotonic() if bad else None
            elif time.monotonic() - failed_at > min(STUCK_S, self.timeout_s / 2):
                self.aborted = "another rank failed while this one waited for it"
                self._abort()
                return
            time.sleep(LOOK_EVERY_S)

    def _abort(self) -> None:
        """End the collectives that this rank is in; its process group is of no use afterwards."""
        distributed = _torch.torch().distributed
        group = self.group or distributed.group.WORLD
        for backend in {id(b): b for b in _backends(group)}.values():
            for name in ("abort", "_abort"):
                abort = getattr(backend, name, None)
                if abort is not None:
                    try:
                        abort()
                        break
                    except RuntimeError as why:
                        _torch.logger.info("%s: %s", name, why)

    def judge(self, error: BaseException, told: OutOfMemory | None) -> OutOfMemory | None:
        """An error of a collective that was aborted because another rank failed is that rank's failure."""
        if told is None:
            self.store.set(self._key(self.rank), "error")
            self.working.clear()
            if self.aborted is not None:
                raise RanksDisagree(f"rank {self.rank}: {self.aborted}: the process group cannot be used any more",
                                    remedy="use static shapes, or guard each step before its first collective") from error
        return told

    def end(self, failed: bool) -> OutOfMemory | None:
        """All ranks' results: None if all worked; raises RanksDisagree if one does not answer in time."""
        self.store.set(self._key(self.rank), "oom" if failed else "ok")
        self.working.clear()
        ends = time.monotonic() + self.timeout_s - min(STUCK_S, self.timeout_s / 2)
        said = {self.rank: "oom" if failed else "ok"}
        while len(said) < self.world:
            for rank in range(self.world):
                if rank not in said:
                    word = self._said(rank)
                    if word is not None:
                        said[rank] = word
            if "error" in said.values() or time.monotonic() > ends:
                missing = [r for r in range(self.world) if said.get(r, "error") == "error"]
                raise RanksDisagree(f"rank {self.rank}: rank {', '.join(map(str, missing))} failed or gave no answer in "
                                    f"{self.timeout_s:g} s")
            time.sleep(LOOK_EVERY_S)
        bad = [r for r, word in said.items() if word == "oom"]
        if not bad:
            return None
        return OutOfMemory("device", "plimsoll", f"out of memory on rank {', '.join(map(str, bad))}")


def _backends(group: Any) -> list[Any]:
    """The group and what it is made of."""
    found = [group]
    for device in ("cuda", "cpu"):
        get = getattr(group, "_get_backend", None)
        if get is not None:
            try:
                found.append(get(_torch.torch().device(device)))
            except RuntimeError:
                pass
    return found
