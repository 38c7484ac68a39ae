"""A JSON object with attributes: what the generated classes of _results.py are made of."""
from __future__ import annotations

from typing import Any, ClassVar, Iterator


class Object:
    """Attributes are the keys of the JSON (docs/json.md).  None: not known.  to_dict() is the JSON itself."""

    __slots__ = ("_data", "_source", "__weakref__")
    _objects: ClassVar[dict[str, type[Object]]] = {}

    def __init__(self, data: dict[str, Any]) -> None:
        object.__setattr__(self, "_data", data)
        object.__setattr__(self, "_source", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            value = self._data[name]
        except KeyError:
            known = ", ".join(self._data)
            raise AttributeError(f"{type(self).__name__} has no '{name}'; it has {known}") from None
        return wrap(value, self._objects.get(name, Object))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is what was found: it cannot be changed")

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._data})

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Object) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={brief(value)}" for key, value in self._data.items())
        return f"{type(self).__name__}({shown})"

    def __str__(self) -> str:
        """The sentence that says it, if there is one; its data otherwise."""
        headline = self._data.get("headline")
        return headline if isinstance(headline, str) and headline else repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)

    def to_dict(self) -> dict[str, Any]:
        """The JSON as a dict of plain values; yours to change only if you copy it."""
        data: dict[str, Any] = self._data
        return data


def wrap(value: Any, kind: type[Object]) -> Any:
    if isinstance(value, dict):
        return kind(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [kind(item) for item in value]
    return value


def brief(value: Any) -> str:
    if isinstance(value, dict):
        return "{...}" if value else "{}"
    if isinstance(value, list):
        return f"[{len(value)} items]" if len(value) > 3 or value and isinstance(value[0], (dict, list)) else repr(value)
    return repr(value)
