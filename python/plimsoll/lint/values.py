"""What an expression is, as far as reading can tell: a kind, whether it carries an autograd graph, where it lies."""
from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .symbols import Class, Function

# Kinds.  UNKNOWN is the honest default: rules need a kind to speak.
UNKNOWN = ""
TENSOR = "tensor"
MODULE = "module"
CRITERION = "criterion"  #: a module that returns a scalar loss
OPTIMIZER = "optimizer"
SCHEDULER = "scheduler"
SCALER = "scaler"
LOADER = "loader"
DATASET = "dataset"
SAMPLER = "sampler"
STATE = "state_dict"
OUTPUT = "output"  #: what a model call returned: a tensor, a tuple or a record of tensors
BATCH = "batch"  #: an element of a loader that was not unpacked
LIST = "list"
DICT = "dict"
TUPLE = "tuple"
NUMBER = "number"
TEXT = "text"
PARAMS = "parameters"  #: iterator over a module's parameters
ACCEL = "accelerator"  #: accelerate's or fabric's object
ENGINE = "engine"  #: DeepSpeed's or another wrapper that owns backward and step
CONTEXT = "context"
DISTRIBUTION = "distribution"  #: of torch.distributions: what is asked of it has the graph of its parameters
CHECKPOINT = "checkpoint"
INSTANCE = "instance"
NONE = "none"
MODULES = (MODULE, CRITERION, ENGINE)
TENSORS = (TENSOR, OUTPUT)

# Whether a value carries a graph.
NO, MAYBE, YES = 0, 1, 2  #: MAYBE: if an argument of the function does


@dataclass(slots=True)
class Value:
    kind: str = UNKNOWN
    strong: bool = False  #: by what it was made from or how it is used, not by its name
    graph: int = NO
    device: str = ""  #: "cpu", "cuda" or not known
    scalar: bool = False
    items: tuple["Value", ...] | None = field(default=None, repr=False)  #: of a tuple, list or dict display
    cls: "Class | None" = field(default=None, repr=False)  #: of an instance of a class of this file
    function: "Function | None" = field(default=None, repr=False)
    node: ast.expr | None = None  #: the call that made it
    of: str = ""  #: name of the object it came from: state_dict of, parameters of, wrapped
    qual: str = ""  #: qualified name of what made it, or that it is
    bound: int | None = None  #: deque(maxlen=)

    def without_graph(self) -> "Value":
        return replace(self, graph=NO, items=None) if self.graph or self.items else self


UNKNOWN_VALUE = Value()
NUMBER_VALUE = Value(NUMBER, True)
TEXT_VALUE = Value(TEXT, True)
NONE_VALUE = Value(NONE, True)


def join(a: Value, b: Value) -> Value:
    """Of two paths that meet.  What one side does not know does not blot out the other."""
    if a is b or b.kind in (UNKNOWN, NONE):
        return a
    if a.kind in (UNKNOWN, NONE):
        return b
    if a.kind == b.kind:
        if a.kind == MODULE and a.cls is not b.cls and a.cls is not None and b.cls is not None:
            a = replace(a, cls=None, qual="")  # one of several, as a function makes that is given a name
        if a.graph >= b.graph and a.strong >= b.strong:
            return a
        return replace(a, graph=max(a.graph, b.graph), strong=a.strong and b.strong,
                       items=a.items if b.items is None else b.items)
    if a.kind in TENSORS and b.kind in TENSORS:
        return a if a.graph >= b.graph else b
    if a.kind == NUMBER and b.kind in TENSORS:
        return b
    return a
