"""One GPU, many tabs: handlers in turn, and what they hold let go.

    queue = gpu_queue()                          # one for the process
    button.click(queue(predict), inputs, outputs, **queue.event)

Gradio's concurrency_limit is for one event listener: two buttons run at once.  queue.event gives all of them one
concurrency_id, and the lock holds for code that is called elsewhere.
"""
from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Callable, Iterator, TypeVar

from ..oom._guard import explain, is_oom
from ..memory._owners import forget
from ..errors import UnsupportedError

__all__ = ["GpuQueue", "gpu_queue", "Names"]

F = TypeVar("F", bound=Callable[..., Any])


class GpuQueue:
    """A lock, and the words that make Gradio queue for it.  Handlers may be functions or generators (streams)."""

    def __init__(self, name: str = "gpu", limit: int = 1) -> None:
        self.event: dict[str, Any] = {"concurrency_id": name, "concurrency_limit": limit}
        self._slots = threading.BoundedSemaphore(limit)
        self.running = 0

    def __repr__(self) -> str:
        return f"<GpuQueue {self.event['concurrency_id']}: {self.running} of {self.event['concurrency_limit']} running>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a GpuQueue holds a lock of its process; it cannot be pickled")

    def __call__(self, handler: F) -> F:
        """The handler, one at a time; out of memory becomes a message, and its tensors are let go."""
        if inspect.isgeneratorfunction(handler):

            @functools.wraps(handler)
            def stream(*args: Any, **kwargs: Any) -> Iterator[Any]:
                # The slot is given back when the stream ends, is cancelled (close()), or is collected.
                with self:
                    source = handler(*args, **kwargs)
                    try:
                        yield from source
                    except Exception as error:
                        self._tell(error)
                    finally:
                        source.close()

            return stream  # type: ignore[return-value]

        @functools.wraps(handler)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                try:
                    return handler(*args, **kwargs)
                except Exception as error:
                    self._tell(error)

        return run  # type: ignore[return-value]

    def __enter__(self) -> GpuQueue:
        self._slots.acquire()
        self.running += 1
        return self

    def __exit__(self, *rest: Any) -> None:
        self.running -= 1
        self._slots.release()

    def _tell(self, error: Exception) -> None:
        """Raise what Gradio shows; a failure of memory without its frames, which hold the tensors."""
        if is_oom(error) is None:
            raise error
        text = explain(error)
        forget(error)
        import gradio

        raise gradio.Error("The GPU is out of memory. " + (text.splitlines() or [""])[0]) from None


_queue: GpuQueue | None = None


def gpu_queue() -> GpuQueue:
    """The queue of this process."""
    global _queue
    if _queue is None:
        _queue = GpuQueue()
    return _queue


class Names:
    """Many sets of weights under one model: what a session keeps is a name, never a model (gr.State copies its value).

    load(name): put these weights into the model.  Called only when another name was asked for before.
    """

    def __init__(self, load: Callable[[str], Any], names: list[str]) -> None:
        self.load, self.names = load, names
        self.active: str | None = None
        self.loads = 0

    def use(self, name: str) -> Any:
        """The model with these weights; call it inside of the queue."""
        if name not in self.names:
            raise KeyError(f"there is no '{name}'; there are {', '.join(self.names)}")
        if name != self.active:
            self.active = None  # if it fails half-way no one takes the model for whole
            self.result = self.load(name)
            self.active = name
            self.loads += 1
        return self.result
