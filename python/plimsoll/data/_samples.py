"""Samples as fields of bytes and back: what one is made of, and the C library's file of many."""
from __future__ import annotations

import ctypes
import math
import os
import sys
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Sequence

from .. import _abi, _native, _torch
from ..errors import ArgumentError, FormatError, UnsupportedError

# A sample is a tree; a node is {"leaf": kind, "field": number}, {"tuple": [nodes]}, {"list": [nodes]}, {"dict": [[key, node]]}, or
# {"none": true}, which has no field.
Node = dict[str, Any]
MOST_FIELDS = 64
MOST_RANK = 8
_SCALARS: dict[str, tuple[type, Any, str]] = {"bool": (bool, ctypes.c_bool, "bool"), "int": (int, ctypes.c_int64, "int64"),
                                              "float": (float, ctypes.c_double, "float64")}
BYTES = ("text", "bytes")  # kinds of leaves whose field is a row of bytes, as many as each sample's has
PICTURE = "pil:"  # with the mode behind it
# mode of a picture of PIL -> dtype, bytes of an element, channels; the others have a palette, or packed bits
_MODES = {**{mode: ("uint8", 1, len(mode)) for mode in ("L", "LA", "RGB", "RGBA", "CMYK", "HSV", "LAB")}, "YCbCr": ("uint8", 1, 3),
          "I": ("int32", 4, 1), "F": ("float32", 4, 1), "I;16": ("uint16", 2, 1)}


@dataclass(frozen=True)
class Value:
    """One field of one sample."""

    name: str
    dtype: str  # as torch names it
    item_bytes: int
    shape: tuple[int, ...]
    address: int
    held: Any  # what owns the bytes
    any_size: bool = False  # another one in each sample

    @property
    def size(self) -> int:
        n = self.item_bytes
        for size in self.shape:
            n *= size
        return n

    def content(self) -> bytes:
        return ctypes.string_at(self.address, self.size) if self.size else b""


def take_apart(sample: Any) -> tuple[Node, list[Value]]:
    """A sample's tree and its values.  Raises UnsupportedError: there is something in it that a file cannot hold."""
    values: list[Value] = []
    return _node(sample, "", values), values


def _node(x: Any, name: str, values: list[Value]) -> Node:
    if type(x) in (tuple, list):
        return {type(x).__name__: [_node(one, f"{name}[{i}]", values) for i, one in enumerate(x)]}
    if isinstance(x, Mapping):
        if not all(isinstance(key, (str, int)) for key in x):
            raise UnsupportedError(f"{_say(name)} has keys that are neither texts nor numbers")
        return {"dict": [[key, _node(one, f"{name}.{key}" if name else str(key), values)] for key, one in x.items()]}
    if x is None:
        return {"none": True}
    kind, dtype, item, shape, address, held = _leaf(x, name)
    if len(values) == MOST_FIELDS or len(shape) > MOST_RANK:
        raise UnsupportedError(f"a sample has at most {MOST_FIELDS} tensors, of at most {MOST_RANK} dimensions")
    values.append(Value(name[:60] or "sample", dtype, item, shape, address, held, kind in BYTES))
    return {"leaf": kind, "field": len(values) - 1}


def _say(name: str) -> str:
    return f"'{name}' of a sample" if name else "a sample"


def _leaf(x: Any, name: str) -> tuple[str, str, int, tuple[int, ...], int, Any]:
    for kind, (python, c, dtype) in _SCALARS.items():
        if type(x) is python:
            held = c(x)
            if held.value != x and x == x:
                raise UnsupportedError(f"{_say(name)} is {x}, which 64 bits do not hold")
            return kind, dtype, ctypes.sizeof(c), (), ctypes.addressof(held), held
    if type(x) is str:
        return "text", "uint8", 1, *_row_of_bytes(x.encode("utf-8", "surrogatepass"))
    if type(x) is bytes:
        return "bytes", "uint8", 1, *_row_of_bytes(x)
    torch, numpy, pil = sys.modules.get("torch"), sys.modules.get("numpy"), sys.modules.get("PIL.Image")
    if pil is not None and isinstance(x, pil.Image):
        return _picture(x, name)
    if torch is not None and isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized:
            raise UnsupportedError(f"{_say(name)} is a {x.layout} tensor", remedy="make it a plain one in transform=")
        held = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
        return "tensor", str(held.dtype)[6:], held.element_size(), tuple(held.shape), held.data_ptr(), held
    if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
        if x.dtype.hasobject or not x.dtype.isnative or x.dtype.kind not in "biufc":
            raise UnsupportedError(f"{_say(name)} is of dtype {x.dtype}, which no tensor has")
        held = numpy.asarray(x, order="C")
        return ("scalar" if isinstance(x, numpy.generic) else "array", held.dtype.name, held.dtype.itemsize, tuple(held.shape),
                held.ctypes.data, held)
    raise UnsupportedError(f"{_say(name)} is a {type(x).__module__}.{type(x).__qualname__}; a file holds tensors, arrays, numbers, "
                           f"texts, bytes, None, pictures of PIL, and tuples, lists and dicts of them", remedy="make it one of these in transform=")


def _row_of_bytes(data: bytes) -> tuple[tuple[int, ...], int, Any]:
    held = ctypes.create_string_buffer(data, max(len(data), 1))
    return (len(data),), ctypes.addressof(held), held


def _picture(x: Any, name: str) -> tuple[str, str, int, tuple[int, ...], int, Any]:
    if x.mode not in _MODES:
        raise UnsupportedError(f"{_say(name)} is a picture of mode {x.mode}", remedy="x.convert('RGB') in transform=")
    dtype, item, channels = _MODES[x.mode]
    _, address, held = _row_of_bytes(x.tobytes())
    return PICTURE + x.mode, dtype, item, (x.height, x.width) + ((channels,) if channels > 1 else ()), address, held


def of_bytes(kind: str, data: bytes) -> str | bytes:
    """A leaf of BYTES again."""
    return data.decode("utf-8", "surrogatepass") if kind == "text" else data


def kinds_of(node: Node) -> list[str]:
    """Of the leaves, by field."""
    kinds: list[str] = []
    put_together(node, lambda kind, field: kinds.append(kind))
    return kinds


def put_together(node: Node, leaf: Callable[[str, int], Any], tuples: type = tuple) -> Any:
    """The tree again, of what leaf(kind, field) gives; tuples: what is made of them."""
    if "leaf" in node:
        return leaf(node["leaf"], node["field"])
    if "none" in node:
        return None
    if "dict" in node:
        return {key: put_together(one, leaf, tuples) for key, one in node["dict"]}
    if "tuple" in node:
        return tuples(put_together(one, leaf, tuples) for one in node["tuple"])
    return [put_together(one, leaf, tuples) for one in node["list"]]


def put_apart(node: Node, sample: Any, values: list[list[Any]]) -> None:
    """A sample's leaves, each to the values of its field."""
    if "leaf" in node:
        values[node["field"]].append(sample)
        return
    if "none" in node:
        return
    items: Any = node["dict"] if "dict" in node else enumerate(node["tuple"] if "tuple" in node else node["list"])
    for key, one in items:
        put_apart(one, sample[key], values)


def check_node(node: Any, fields: int) -> None:
    """Raises FormatError: a file's tree is none."""
    found: list[int] = []

    def look(x: Any, depth: int) -> None:
        if not isinstance(x, dict) or depth > 32:
            raise FormatError("the tree of a sample is damaged")
        if "leaf" in x:
            if x["leaf"] not in ("tensor", "array", "scalar", *_SCALARS, *BYTES, *(PICTURE + mode for mode in _MODES)):
                raise FormatError(f"a sample has a leaf of kind {x['leaf']!r}, which is not known here")
            found.append(x["field"])
            return
        if "none" in x:
            return
        items = x.get("dict", x.get("tuple", x.get("list")))
        if not isinstance(items, list):
            raise FormatError("the tree of a sample is damaged")
        for one in items:
            look(one[1] if "dict" in x else one, depth + 1)

    look(node, 0)
    if found != list(range(fields)):
        raise FormatError("the tree of a sample has other fields than the file")


# ---- a schema ----


@dataclass(frozen=True)
class Field:
    name: str
    dtype: str
    item_bytes: int
    shape: tuple[int | None, ...]  # None: differs from sample to sample

    @property
    def ragged(self) -> bool:
        return None in self.shape


def fields_of(samples: Sequence[Sequence[Value]], ragged: bool) -> list[Field]:
    """Of samples that were taken apart; sizes in which they differ are open, or with `ragged` all."""
    fields = []
    for values in zip(*samples):
        first = values[0]
        shape = tuple(None if ragged or first.any_size or any(v.shape[d] != size for v in values) else size for d, size in enumerate(first.shape))
        fields.append(Field(first.name, first.dtype, first.item_bytes, shape))
    return fields


def _schema(fields: Sequence[Field], samples: int, about: bytes, replaces: int) -> tuple[Any, list[Any]]:
    """The C struct, and what it points to."""
    held: list[Any] = [about]
    array = (_abi.plim_samples_field * len(fields))()
    for one, to in zip(fields, array):
        shape = (ctypes.c_uint64 * max(len(one.shape), 1))(*(_native.UNKNOWN if size is None else size for size in one.shape))
        held.append(shape)
        to.name, to.dtype, to.rank, to.item_bytes = one.name.encode(), one.dtype.encode(), len(one.shape), one.item_bytes
        to.shape = shape
    held.append(array)
    return _abi.plim_samples_schema(fields=array, field_count=len(fields), samples=samples,
                                    about=ctypes.cast(ctypes.c_char_p(about), ctypes.c_void_p), about_bytes=len(about), replaces=replaces), held


# ---- filling ----


class Filling:
    """A file that is filled, by this process and others."""

    def __init__(self, path: str, fields: Sequence[Field], samples: int, about: bytes, replaces: int = 0) -> None:
        error, handle = _abi.plim_err(), ctypes.c_void_p()
        schema, self._held = _schema(fields, samples, about, replaces)
        self.path, self.fields, self.handle = path, fields, handle
        _native.check(_native.load().plim_samples_fill(os.fsencode(path), ctypes.byref(schema), ctypes.byref(handle), ctypes.byref(error)),
                      error, path)

    def close(self) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        _native.load().plim_samples_filling_free(handle)

    def __enter__(self) -> Filling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self) -> range | None:
        """Samples to put; empty: others have what is missing; None: all are there."""
        error, claim = _abi.plim_err(), _abi.plim_claim()
        _native.check(_native.load().plim_samples_claim(self.handle, ctypes.byref(claim), ctypes.byref(error)), error, self.path)
        if claim.state == _abi.PLIM_CLAIM_DONE:
            return None
        return range(claim.first, claim.first + claim.count)

    def put(self, number: int, values: Sequence[Value]) -> None:
        for field, value in zip(self.fields, values):
            if (value.dtype, len(value.shape)) != (field.dtype, len(field.shape)):
                raise ArgumentError(f"'{value.name}' of sample {number} is {value.dtype} of {len(value.shape)} dimensions; of those "
                                    f"before it, {field.dtype} of {len(field.shape)}")
        shapes = [(ctypes.c_uint64 * max(len(value.shape), 1))(*value.shape) for value in values]
        parts = (_abi.plim_samples_part * len(values))(*(_abi.plim_samples_part(value.address, shape)
                                                         for value, shape in zip(values, shapes)))
        error = _abi.plim_err()
        try:
            _native.check(_native.load().plim_samples_put(self.handle, number, parts, ctypes.byref(error)), error, self.path)
        except ArgumentError as why:
            raise ArgumentError(str(why), remedy="ragged=True lets sizes differ") from None

    def seal(self) -> bool:
        """False: another process is at it.  Raises FormatError: a sample is damaged, and is missing now."""
        error, done = _abi.plim_err(), ctypes.c_uint32()
        _native.check(_native.load().plim_samples_seal(self.handle, ctypes.byref(done), ctypes.byref(error)), error, self.path)
        return bool(done.value)


# ---- reading ----


class Samples:
    """A file that is whole.  Any thread may read, and so may a child that was forked."""

    def __init__(self, path: str, check: str = "first") -> None:
        flags = {"first": 0, "always": _abi.PLIM_SAMPLES_CHECK_ALWAYS, "never": _abi.PLIM_SAMPLES_CHECK_NEVER}
        if check not in flags:
            raise ArgumentError(f"check is 'first', 'always' or 'never', not {check!r}")
        library, error, handle = _native.load(), _abi.plim_err(), ctypes.c_void_p()
        options = _native.options("samples", flags=flags[check])
        _native.check(library.plim_samples_open(os.fsencode(path), ctypes.byref(options), ctypes.byref(handle), ctypes.byref(error)),
                      error, path)
        self.path, self.handle = path, handle
        weakref.finalize(self, library.plim_samples_close, handle).atexit = False
        schema = library.plim_samples_info(handle).contents
        self.count = int(schema.samples)
        self.about: bytes = ctypes.string_at(schema.about, schema.about_bytes)
        self.mark = int(library.plim_samples_mark(handle))
        self.fields = [_field(schema.fields[i]) for i in range(schema.field_count)]

    def shape(self, number: int, field: int) -> tuple[int, ...]:
        shape = self.fields[field].shape
        if None not in shape:
            return tuple(size for size in shape if size is not None)
        sizes, error = (ctypes.c_uint64 * len(shape))(), _abi.plim_err()
        _native.check(_native.load().plim_samples_shape(self.handle, number, field, sizes, ctypes.byref(error)), error, self.path)
        return tuple(sizes)

    def read(self, number: int, places: Iterable[int]) -> None:
        """One sample to an address a field."""
        where, error = (ctypes.c_void_p * len(self.fields))(*places), _abi.plim_err()
        _native.check(_native.load().plim_samples_read(self.handle, number, where, ctypes.byref(error)), error, self.path)

    def sample(self, number: int, node: Node) -> Any:
        """One sample as it was put."""
        made: list[Any] = []
        places: list[int] = []

        def leaf(kind: str, field: int) -> None:
            value, address = self._empty(kind, field, number)
            made.append(value)
            places.append(address)

        put_together(node, leaf)
        self.read(number, places)
        return put_together(node, lambda kind, field: self._finished(kind, made[field], number, field))

    def _finished(self, kind: str, made: Any, number: int, field: int) -> Any:
        if kind in _SCALARS:
            return made.value
        if kind in BYTES:
            return of_bytes(kind, made.raw[:self.shape(number, field)[0]])
        if kind.startswith(PICTURE):
            from PIL import Image

            height, width = self.shape(number, field)[:2]
            return Image.frombytes(kind[len(PICTURE):], (width, height), made.raw[:len(made) if height and width else 0])
        return made[()] if kind == "scalar" else made

    def rows_of_bytes(self, number: int, kinds: Mapping[int, str]) -> dict[int, str | bytes]:
        """The leaves of BYTES of one sample, by field."""
        room = {field: ctypes.create_string_buffer(max(self.shape(number, field)[0], 1)) for field in kinds}
        self.read(number, [ctypes.addressof(room[i]) if i in room else 0 for i in range(len(self.fields))])
        return {field: of_bytes(kind, room[field].raw[:self.shape(number, field)[0]]) for field, kind in kinds.items()}

    def _empty(self, kind: str, field: int, number: int) -> tuple[Any, int]:
        told = self.fields[field]
        if kind in _SCALARS:
            value = _SCALARS[kind][1]()
            if ctypes.sizeof(value) != told.item_bytes or told.shape:
                raise FormatError(f"'{told.name}' is no {kind}", path=self.path)
            return value, ctypes.addressof(value)
        shape = self.shape(number, field)
        if kind in BYTES or kind.startswith(PICTURE):
            made = self._room(kind, told, shape)
            return made, ctypes.addressof(made)
        if kind == "tensor":
            made = _torch.torch().empty(shape, dtype=dtype_of(told))
            return made, made.data_ptr()
        import numpy

        array: Any = numpy.empty(shape, dtype=numpy.dtype(told.dtype))
        if array.itemsize != told.item_bytes:
            raise FormatError(f"'{told.name}' is no {told.dtype}", path=self.path)
        return array, array.ctypes.data

    def _room(self, kind: str, told: Field, shape: tuple[int, ...]) -> Any:
        """For the bytes of a text or a picture."""
        dtype, item, channels = ("uint8", 1, 0) if kind in BYTES else _MODES[kind[len(PICTURE):]]
        dimensions = {0: 1, 1: 2}.get(channels, 3)
        if (told.dtype, told.item_bytes, len(shape)) != (dtype, item, dimensions) or dimensions == 3 and shape[2] != channels:
            raise FormatError(f"'{told.name}' is no {kind}", path=self.path)
        return ctypes.create_string_buffer(max(item * math.prod(shape), 1))

    def values(self, number: int) -> list[Value]:
        """The bytes of one sample."""
        shapes = [self.shape(number, i) for i in range(len(self.fields))]
        made = [Value(field.name, field.dtype, field.item_bytes, shape, 0, None) for field, shape in zip(self.fields, shapes)]
        room = [ctypes.create_string_buffer(max(value.size, 1)) for value in made]
        self.read(number, [ctypes.addressof(one) for one in room])
        return [Value(v.name, v.dtype, v.item_bytes, v.shape, ctypes.addressof(one), one) for v, one in zip(made, room)]


def _field(told: Any) -> Field:
    shape = tuple(None if told.shape[d] == _native.UNKNOWN else int(told.shape[d]) for d in range(told.rank))
    return Field(told.name.decode(), told.dtype.decode(), int(told.item_bytes), shape)


def dtype_of(field: Field) -> Any:
    """torch's dtype.  Raises UnsupportedError: this torch has none of that name, or one of another size."""
    torch = _torch.torch()
    found = getattr(torch, field.dtype, None)
    if not isinstance(found, torch.dtype) or torch.empty((), dtype=found).element_size() != field.item_bytes:
        raise UnsupportedError(f"'{field.name}' is {field.dtype}, which PyTorch {torch.__version__} has not")
    return found


def difference(a: Sequence[Value], b: Sequence[Value]) -> str | None:
    """What differs between two samples, in words; None: nothing does, bit for bit."""
    if len(a) != len(b):
        return f"{len(a)} and {len(b)} tensors"
    for x, y in zip(a, b):
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            return f"'{x.name}' is {x.dtype} {list(x.shape)} and {y.dtype} {list(y.shape)}"
        p, q = x.content(), y.content()
        if p != q:
            item = x.item_bytes
            places = [i for i in range(0, len(p), item) if p[i:i + item] != q[i:i + item]]
            return f"'{x.name}' differs in {len(places)} of {len(p) // item} elements, the first number {places[0] // item}"
    return None
