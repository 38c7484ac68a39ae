"""%load_ext plimsoll, then %%memory above a cell: what it took, and what stayed."""
from __future__ import annotations

from typing import Any

from ..memory._monitor import MemoryMonitor, gib
from ..memory._owners import free_last_exception


def load_ipython_extension(ipython: Any) -> None:
    """Called by %load_ext plimsoll."""
    ipython.register_magic_function(memory_magic, "cell", "memory")
    ipython.register_magic_function(free_magic, "line", "free")


def memory_magic(line: str, cell: str) -> None:
    """%%memory: run the cell; its peak, what is allocated more than before, and the verdict if it failed."""
    import IPython

    from ..oom._guard import explain

    ip: Any = IPython.get_ipython()
    monitor = MemoryMonitor(line.strip() or None)
    before = monitor.memory.numbers()
    with monitor.track("cell") as use:
        result = ip.run_cell(cell)
    stays = use.allocated_bytes - before[0]
    print(f"{monitor.memory.name}: peak {gib(use.peak_allocated_bytes)} ({gib(use.peak_allocated_bytes - before[0])} above the "
          f"start), {'+' if stays >= 0 else '-'}{gib(abs(stays))} stays; {use.seconds:.2f} s")
    error = result.error_in_exec
    verdict = explain(error) if error is not None else ""
    if verdict:
        print(verdict)
        print("%free lets go of the tensors that the exception holds")


def free_magic(line: str) -> None:
    """%free: let go of the last exception, which holds the tensors of every frame it went through."""
    print(f"{gib(free_last_exception())} freed")
