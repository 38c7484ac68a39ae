"""What a call gives back: PyTorch's own functions by table, functions of the file by their return, methods by the kind of object."""
from __future__ import annotations

import ast
from dataclasses import replace

from . import names, values
from .evaluate import Evaluator
from .symbols import Function, dotted
from .values import NUMBER_VALUE, TEXT_VALUE, UNKNOWN_VALUE, Value

Named = dict[str | None, Value]
_BUILTIN_NUMBERS = frozenset("float int len bool round abs_ id ord hash".split())
_DATASETS = "torchvision.datasets."
_WRAPS_LOADER = frozenset("enumerate tqdm trange list tuple reversed islice track cycle auto_tqdm notebook_tqdm".split())
_MODULE_METHODS = frozenset("""to cuda cpu eval train half float bfloat16 double requires_grad_ apply parameters named_parameters state_dict
forward generate backward step zero_grad load_state_dict save_pretrained modules children named_modules""".split())
_WRAPS_MODEL = frozenset("""DistributedDataParallel DataParallel DDP FSDP FullyShardedDataParallel compile convert_sync_batchnorm
fully_shard prepare_model get_peft_model script SyncBatchNorm BalancedDataParallel setup parallelize_module
prepare_model_for_kbit_training prepare_model_for_int8_training""".split())
_WRAPS_TORCH_MODULE = frozenset("""DistributedDataParallel DataParallel FullyShardedDataParallel SyncBatchNorm convert_sync_batchnorm
fully_shard parallelize_module""".split())
_ALGEBRA = frozenset("torch.linalg torch.special torch.fft".split())
_FUNCTION_HEADS = _ALGEBRA | frozenset("torch torch.functional torch.Tensor".split())
_TORCH_CLASSES = {"autocast": values.CONTEXT, "DataLoader": values.LOADER, "GradScaler": values.SCALER, "ShardedGradScaler": values.SCALER}


def _torch_kind(head: str, last: str) -> str:
    """Kind of the object that a class of torch makes, by its module and its name; "" for others."""
    if "lr_scheduler" in head:
        return values.SCHEDULER
    if head.startswith("torch.optim") and last[:1].isupper():
        return values.OPTIMIZER
    if last.endswith("Sampler") and last[:1].isupper():
        return values.SAMPLER
    return _TORCH_CLASSES.get(last, "")


def _kind_by_name(qualified: str, root: str, head: str, last: str) -> str:
    """Kind of the object that a function or class of another library makes; "" for unknown ones."""
    if names.SCHEDULER_MAKERS.match(last):
        return values.SCHEDULER
    if last in ("Accelerator", "Fabric"):
        return values.ACCEL
    if head.startswith("torchvision.models") or root == "segmentation_models_pytorch":
        return values.MODULE
    if qualified.startswith(_DATASETS):
        return values.DATASET
    if last.endswith("DataLoader") and last[0].isupper():
        return values.LOADER
    if names.AUTOCAST.search(last) or names.CONTEXT_NO_GRAD.search(last) or last == "nullcontext":
        return values.CONTEXT
    return "numpy" if root == "numpy" else ""


class Calls(Evaluator):
    def _call(self, node: ast.expr) -> Value:
        assert isinstance(node, ast.Call)
        func = node.func
        attr, receiver = "", ""
        of: Value | None = None
        qualified = ""
        if isinstance(func, ast.Attribute):
            attr = func.attr
            receiver = dotted(func.value)
            qualified = self.symbols.qualified(func)
            if qualified and receiver in self.env:
                qualified = ""
            if not qualified:
                of = self.eval(func.value)
                if receiver and not (of.kind in values.MODULES and attr in _MODULE_METHODS):
                    member = self._attribute(func)
                    if member.kind in values.MODULES:  # self.model(x) is a call of the object self.model
                        of, attr, receiver = member, dotted(func), ""
        elif isinstance(func, ast.Name):
            attr = func.id
            if func.id not in self.env:
                qualified = self.symbols.imports.get(func.id, "")
        else:
            of = self.eval(func)
        linked = self.owner.imported(qualified) if qualified else UNKNOWN_VALUE
        if linked.function is not None or linked.cls is not None:
            of = linked  # a function or a class of another file of the program
        args = tuple([self.eval(a) for a in node.args])
        named = {k.arg: self.eval(k.value) for k in node.keywords}
        value = self.result_of(node, func, qualified, attr, receiver, of, args, named)
        if self.no_grad and value.graph:
            value = value.without_graph()
        if value.node is None and value.kind not in ("", values.NUMBER, values.TEXT):
            value = replace(value, node=node)
        if attr in ("backward", "manual_backward") and not self.no_grad:
            self.went_backward(node)
        made = self.event("call", node)
        if made is not None:
            made.name = qualified or (receiver + "." + attr if receiver else attr)
            made.attr = qualified.rpartition(".")[2] if qualified else attr
            made.receiver = "" if qualified else receiver
            made.of = of if of is not None else (self.eval(func) if not qualified and isinstance(func, ast.Name) else None)
            made.value = value
            made.args = args + tuple(named.values())
        return value

    def result_of(self, node: ast.Call, func: ast.expr, qualified: str, attr: str, receiver: str, of: Value | None,
                  args: tuple[Value, ...], named: Named) -> Value:
        if qualified:
            return self.library(node, qualified, args, named) if of is None else self.called(node, of, args, named)
        if of is not None and isinstance(func, ast.Attribute) and (receiver or attr == func.attr):
            return self.method(node, func, of, attr, receiver, args, named)
        if isinstance(func, ast.Name):
            return self.plain(node, func, args, named)
        return self.called(node, of or UNKNOWN_VALUE, args, named)

    def went_backward(self, node: ast.Call) -> None:
        """`loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`: the name has a graph, whatever made it; a scalar if it alone goes backward."""
        given = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else None
        inner = given.args[0] if isinstance(given, ast.Call) and len(given.args) == 1 else given
        known = self.env.get(inner.id) if isinstance(inner, ast.Name) else None
        if isinstance(inner, ast.Name) and known is not None and known.kind in ("", values.NUMBER, *values.TENSORS) and not known.qual:
            self.env[inner.id] = replace(known, kind=values.TENSOR, strong=True, graph=values.YES, scalar=True, items=None)

    # ---- f(x) ----

    def plain(self, node: ast.Call, func: ast.Name, args: tuple[Value, ...], named: Named) -> Value:
        name = func.id
        first = args[0] if args else UNKNOWN_VALUE
        if name not in self.env:
            if name in _BUILTIN_NUMBERS:
                return NUMBER_VALUE
            if name in _WRAPS_LOADER or name == "zip" or name == "iter" or name == "next":
                return self.iterable(name, args)
            if name == "sum" and node.args and isinstance(node.args[0], ast.GeneratorExp) and first.items:
                self.comprehended(node.args[0], first.items[0])
            if name == "sum" and first.kind in (values.LIST, values.TUPLE, values.DICT, values.OUTPUT, values.TENSOR):
                return Value(values.TENSOR, first.strong, first.graph, scalar=True) if first.graph else UNKNOWN_VALUE
            if name in ("list", "dict", "set", "tuple", "deque", "defaultdict"):
                return Value(values.LIST if name not in ("dict", "defaultdict") else values.DICT, True, items=())
            if name in ("str", "repr", "format"):
                return TEXT_VALUE
            if name == "range":
                return Value(qual="range", strong=True)
            if name == "getattr" and node.args and self.symbols.qualified(node.args[0]) == "torch.optim":
                return Value(qual="torch.optim.Optimizer")
            if name in ("max", "min", "print", "isinstance", "getattr", "hasattr", "open", "super", "type"):
                return max(args, key=lambda a: a.graph, default=UNKNOWN_VALUE) if name in ("max", "min") else UNKNOWN_VALUE
            if name in ("filter", "map", "reversed", "sorted") and args:
                return args[-1] if args[-1].kind == values.PARAMS else UNKNOWN_VALUE
        return self.called(node, self._name(func), args, named)

    def iterable(self, name: str, args: tuple[Value, ...]) -> Value:
        if not args:
            return Value(values.LIST, True, items=()) if name in ("list", "tuple") else UNKNOWN_VALUE
        first = args[0]
        if name == "enumerate":
            return Value(first.kind if first.kind == values.LOADER else "", first.strong, first.graph, qual="enumerate",
                         items=(self.element(first),), of=first.of, node=first.node)
        if name == "zip":
            loader = next((a for a in args if a.kind == values.LOADER), UNKNOWN_VALUE)
            return Value(loader.kind, loader.strong, qual="zip", items=tuple(self.element(a) for a in args))
        if name == "iter":
            return Value(qual="iter", strong=first.strong, items=(self.element(first),))
        if name == "next":
            return first.items[0] if first.qual == "iter" and first.items else UNKNOWN_VALUE
        if name in ("list", "tuple"):
            return replace(first, kind=values.LIST if first.kind in ("", values.TUPLE) else first.kind)
        return first

    def called(self, node: ast.Call, of: Value, args: tuple[Value, ...], named: Named) -> Value:
        """Calling an object: a module, a criterion, a class or a function of the file."""
        if of.kind == values.CRITERION:
            graph = max((a.graph for a in args), default=0)
            if of.cls is not None:
                own = self.forward(of, args, named)
                if own.kind in (values.TUPLE, values.DICT):
                    return own
            return Value(values.TENSOR, of.strong, values.NO if self.no_grad else max(graph, values.MAYBE), scalar=True)
        if of.kind in values.MODULES:
            return self.forward(of, args, named)
        if of.function is not None:
            return self.owner.result(of.function, args, named, None)
        if of.cls is not None and not of.kind:
            return self.instance(of)
        if of.kind == values.UNKNOWN and of.qual:
            return self.library(node, of.qual, args, named)
        return UNKNOWN_VALUE

    def instance(self, of: Value) -> Value:
        cls = of.cls
        assert cls is not None
        if cls.module:
            kind = values.CRITERION if names.LOSS_CLASS.search(cls.name) else values.MODULE
            return Value(kind, True, cls=cls, qual=cls.name)
        if cls.dataset:
            return Value(values.DATASET, True, cls=cls, qual=cls.name)
        for base in cls.bases:
            last = base.rpartition(".")[2]
            if last in names.OPTIMIZERS or last == "Optimizer":
                return Value(values.OPTIMIZER, True, cls=cls, qual=cls.name)
            if last == "DataLoader":
                return Value(values.LOADER, True, cls=cls, qual=cls.name)
        return Value(values.INSTANCE, True, cls=cls, qual=cls.name)

    def forward(self, of: Value, args: tuple[Value, ...], named: Named) -> Value:
        graph = values.NO if self.no_grad else values.YES
        own_forward = self.owner.method(of.cls, "forward") if of.cls is not None else None
        if own_forward is not None:
            own = self.owner.result(own_forward, args, named, of)
            if own.kind == values.TUPLE and own.items:
                items = tuple(self._lifted(i, graph) for i in own.items)
                return replace(own, items=items, graph=max(i.graph for i in items), strong=True)
            if own.kind in (values.TENSOR, values.DICT, values.LIST):
                return replace(own, graph=graph, strong=of.strong, node=None)
        if of.kind == values.CRITERION:
            return Value(values.TENSOR, of.strong, graph, scalar=True)
        return Value(values.OUTPUT, of.strong, graph, "cuda" if of.device == "cuda" else "", of=of.of)

    @staticmethod
    def _lifted(item: Value, graph: int) -> Value:
        """Of a returned tuple: a tensor made in `forward` carries its graph if gradients are on here."""
        if item.kind in values.TENSORS and item.graph:
            return replace(item, graph=graph)
        return item

    # ---- torch.f(x) ----

    def library(self, node: ast.Call, qualified: str, args: tuple[Value, ...], named: Named) -> Value:
        head, _, last = qualified.rpartition(".")
        root = qualified.partition(".")[0]
        first = args[0] if args else next(iter(named.values()), UNKNOWN_VALUE)
        if last in _WRAPS_LOADER and root in ("tqdm", "itertools", "rich", "fastprogress"):
            return self.iterable(last, args)
        if qualified.startswith("torch.distributions.") and last[:1].isupper():
            return Value(values.DISTRIBUTION, True, self.graph_of((*args, *named.values())), qual=qualified)
        if root == "torch":
            found = self.torch(node, qualified, head, last, first, args)
            if found is not None:
                return found
        if last in names.OPTIMIZERS or last.endswith("Optimizer") and last[0].isupper():
            return Value(values.OPTIMIZER, True, qual=qualified, of=self.owner_of(first))
        if last == "deque":
            bound = next((k.value for k in node.keywords if k.arg == "maxlen"), node.args[1] if len(node.args) > 1 else None)
            return Value(values.LIST, True, bound=1 if bound is not None else None, items=(), qual="deque")
        if last == "defaultdict":
            return Value(values.DICT, True, items=(self.instance(first),) if first.cls is not None and not first.kind else ())
        if last in _WRAPS_MODEL and first.kind in values.MODULES:
            return replace(first, strong=True, of=last, node=None)
        if last in ("from_pretrained", "create_model", "from_config", "load_model"):
            maker = head.rpartition(".")[2]
            if last == "load_model" or names.NOT_MODELS.search(maker):
                return UNKNOWN_VALUE
            return Value(values.MODULE, root in names.TORCH_ROOTS, qual=qualified)
        if qualified == "deepspeed.initialize":
            return Value(values.TUPLE, True, items=(Value(values.ENGINE, True), Value(values.OPTIMIZER, True, qual="deepspeed"),
                                                    Value(values.LOADER, True, qual="deepspeed"), Value(values.SCHEDULER, True)))
        if last in ("deepcopy", "copy") and root == "copy":
            return replace(first, node=None, of="")
        kind = _kind_by_name(qualified, root, head, last)
        return Value(kind, True, qual=qualified) if kind else UNKNOWN_VALUE

    def owner_of(self, value: Value) -> str:
        return value.of if value.kind == values.PARAMS else ""

    def graph_of(self, args: tuple[Value, ...]) -> int:
        """The graph of what is computed from these values here."""
        return values.NO if self.no_grad else max((a.graph for a in args), default=0)

    def torch(self, node: ast.Call, qualified: str, head: str, last: str, first: Value, args: tuple[Value, ...]) -> Value | None:
        found = self.torch_function(node, qualified, head, last, first, args) if head in _FUNCTION_HEADS else None
        if found is None:
            found = self.torch_module(node, qualified, head, last, first, args)
        if found is not None:
            return found
        kind = _torch_kind(head, last)
        if kind:
            return Value(kind, True, qual=qualified, of=self.owner_of(first) if kind == values.OPTIMIZER else "")
        if head == "torch.autograd" and last == "Variable":
            return replace(first, kind=values.TENSOR, strong=True, node=None)
        if qualified == "torch.autograd.grad":
            return Value(values.TENSOR, True, values.MAYBE)
        if qualified == "torch.utils.checkpoint.checkpoint":
            return Value(values.OUTPUT, True, values.NO if self.no_grad else values.YES)
        if qualified.startswith("torch.utils.data.") and (last.endswith("Dataset") or last in ("Subset", "random_split")):
            return Value(values.DATASET, True, qual=qualified)
        if qualified.startswith("torch.hub.load") or qualified == "torch.jit.load":
            return Value(values.MODULE, False, qual=qualified)
        return None

    def torch_function(self, node: ast.Call, qualified: str, head: str, last: str, first: Value, args: tuple[Value, ...]) -> Value | None:
        """A function of torch itself or of its algebra; None for what these tables lack."""
        if last in names.CONSTRUCTORS and head == "torch":
            return self.constructor(node, last)
        if last in names.FUNCTIONS or head in _ALGEBRA:
            return self.computed(node, last, first, args)
        if last in names.FLAT_FUNCTIONS:
            return Value(values.TENSOR, True, device=first.device, scalar=last in ("any", "all", "equal"))
        if last == "compile" and first.function is not None:
            return first
        if last == "compile":
            return replace(first, kind=first.kind or values.MODULE, of="compile", node=None) if args else Value(qual=qualified)
        if last == "load":
            return Value(values.CHECKPOINT, True, qual=qualified)
        if last in ("no_grad", "inference_mode", "enable_grad"):
            return Value(values.CONTEXT, True, qual=qualified)
        if last == "device":
            return Value("device", True, device=_device_text(node.args[0] if node.args else None))
        return Value("generator", True) if last == "Generator" else None

    def computed(self, node: ast.Call, last: str, first: Value, args: tuple[Value, ...]) -> Value:
        """A function that computes tensors from tensors: one, a pair or a list."""
        graph = self.graph_of(args)
        tensor = Value(values.TENSOR, True, graph, first.device, scalar=last in names.REDUCTIONS and len(node.args) == 1
                       and not node.keywords)
        if last in names.PAIRS and (len(node.args) > 1 or node.keywords):
            return Value(values.TUPLE, True, graph, items=(tensor, Value(values.TENSOR, True)))
        if last in ("split", "chunk", "unbind"):
            return Value(values.LIST, True, graph, items=(tensor,))
        return tensor

    def torch_module(self, node: ast.Call, qualified: str, head: str, last: str, first: Value, args: tuple[Value, ...]) -> Value | None:
        """What torch.nn has, and what wraps a module."""
        if head == "torch.nn.functional":
            return Value(values.TENSOR, True, self.graph_of(args), first.device,
                         scalar=last in names.LOSS_FUNCTIONS and _reduces(node))
        if last in _WRAPS_TORCH_MODULE:
            return replace(first, kind=first.kind or values.MODULE, strong=True, of=last, node=None)
        if not head.startswith("torch.nn"):
            return None
        if last == "Parameter":
            return Value(values.TENSOR, True, values.YES, qual="parameter")
        if head == "torch.nn.utils" or head.startswith(("torch.nn.utils.", "torch.nn.init")):
            return Value(values.TENSOR, True, scalar=True) if last == "clip_grad_norm_" else replace(first, node=None)
        if last[:1].isupper():
            kind = values.CRITERION if names.LOSS_CLASS.search(last) else values.MODULE
            return Value(kind, True, qual=qualified)
        return None

    def constructor(self, node: ast.Call, last: str) -> Value:
        device, graph = "cpu", values.NO
        for keyword in node.keywords:
            if keyword.arg == "device":
                device = _device_text(keyword.value) or "given"
            if keyword.arg == "requires_grad" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                graph = values.YES
        return Value(values.TENSOR, True, graph, device, qual="torch." + last)

    # ---- x.f() ----

    def method(self, node: ast.Call, func: ast.Attribute, of: Value, attr: str, receiver: str, args: tuple[Value, ...],
               named: Named) -> Value:
        kind = of.kind
        if receiver == "self" and self.function.cls is not None and (kind not in values.MODULES or attr in self.function.cls.methods):
            return self.own_method(node, attr, args, named)
        if kind in values.MODULES:
            return self.module_method(node, of, attr, receiver, args, named)
        if kind in (values.TENSOR, values.OUTPUT, values.BATCH):
            return self.tensor_method(node, of, attr, args)
        if kind == values.DISTRIBUTION:
            return Value(values.TENSOR, of.strong, values.NO if attr in ("sample", "sample_n") else self.graph_of((of, *args, *named.values())))
        if kind == values.ACCEL:
            return self.accelerate_method(attr, args)
        if kind in (values.INSTANCE, values.UNKNOWN) and of.cls is not None:
            return self.object_method(node, of, attr, receiver, args, named)
        if kind == values.OPTIMIZER or kind == values.SCHEDULER:
            return Value(values.STATE, True, of=receiver) if attr == "state_dict" else UNKNOWN_VALUE
        if kind == values.SCALER and attr == "scale":
            return args[0] if args else UNKNOWN_VALUE
        if kind in (values.LIST, values.DICT, values.TUPLE):
            return self.container_method(of, attr)
        if kind == values.STATE and attr in ("copy", "items", "values"):
            return of
        if kind == values.LOADER:
            return UNKNOWN_VALUE
        if isinstance(func.value, ast.Call) and isinstance(func.value.func, ast.Name) and func.value.func.id == "super" and (
                self.function.cls is not None and self.function.cls.module and attr == "forward"):
            return Value(values.OUTPUT, True, values.NO if self.no_grad else values.YES)
        return self.unknown_method(node, of, attr, receiver, args)

    def object_method(self, node: ast.Call, of: Value, attr: str, receiver: str, args: tuple[Value, ...], named: Named) -> Value:
        """A method of an object of the program, or of a class itself."""
        method = self.owner.method(of.cls, attr) if of.cls is not None else None
        if method is not None and (of.kind or _of_class(method)):
            return self.owner.result(method, args, named, of)
        return UNKNOWN_VALUE if of.kind else self.unknown_method(node, of, attr, receiver, args)

    def unknown_method(self, node: ast.Call, of: Value, attr: str, receiver: str, args: tuple[Value, ...]) -> Value:
        if attr == "log_every" and args:
            return self.iterable("tqdm", args)
        if attr in names.NUMBERS:
            return NUMBER_VALUE
        if attr == "eval" and of.kind == values.UNKNOWN and not node.args and not node.keywords:
            return Value(values.MODULE, True)  # Net(...).eval(), of whatever library
        if attr == "parameters" or attr == "named_parameters":
            return Value(values.PARAMS, True, of=receiver)
        if attr == "state_dict":
            return Value(values.STATE, False, of=receiver)
        if attr == "from_pretrained":
            maker = of.qual.rpartition(".")[2] or receiver
            return UNKNOWN_VALUE if names.NOT_MODELS.search(maker) else Value(values.MODULE, bool(of.qual), qual=of.qual)
        if of.function is not None and attr == "apply":
            return Value(values.TENSOR, False, values.MAYBE)
        if attr in ("to", "cuda", "eval", "train", "half", "float") and of.qual:
            return of
        if attr == "backward":
            return UNKNOWN_VALUE
        if of.graph:
            return Value(graph=values.NO if attr in names.ENDS_GRAPH else of.graph)
        return UNKNOWN_VALUE

    def own_method(self, node: ast.Call, attr: str, args: tuple[Value, ...], named: Named) -> Value:
        cls = self.function.cls
        assert cls is not None
        method = self.owner.method(cls, attr)
        if method is not None:
            return self.owner.result(method, args, named, None)
        member = self.lookup("self." + attr)
        if member.kind or member.function:
            return self.called(node, member, args, named)
        if cls.module:
            if attr in ("parameters", "named_parameters"):
                return Value(values.PARAMS, True, of="self")
        if attr in ("train_dataloader", "val_dataloader", "get_train_dataloader", "get_eval_dataloader", "test_dataloader"):
            return Value(values.LOADER, True)
        return UNKNOWN_VALUE

    def module_method(self, node: ast.Call, of: Value, attr: str, receiver: str, args: tuple[Value, ...], named: Named) -> Value:
        if attr in ("to", "cuda", "cpu", "eval", "train", "half", "float", "bfloat16", "double", "requires_grad_", "apply",
                    "to_empty", "type", "share_memory", "compile"):
            device = of.device
            if attr == "cuda" or attr == "to" and node.args and _device_text(node.args[0]).startswith("cuda"):
                device = "cuda"
            elif attr == "cpu":
                device = "cpu"
            return replace(of, device=device, of=of.of or receiver)
        if attr in ("parameters", "named_parameters"):
            return Value(values.PARAMS, True, of=receiver)
        if attr == "state_dict":
            return Value(values.STATE, True, of=receiver)
        if attr in ("forward", "__call__"):
            return self.forward(of, args, named)
        if attr == "generate":
            return Value(values.TENSOR, True)
        if attr == "from_pretrained":
            return of
        method = self.owner.method(of.cls, attr) if of.cls is not None else None
        if method is not None:
            return self.owner.result(method, args, named, of)
        if attr in ("backward", "step", "zero_grad", "load_state_dict", "save_pretrained", "modules", "children",
                    "named_modules", "register_buffer", "named_children", "add_module", "train_batch"):
            return UNKNOWN_VALUE
        if attr in ("size", "numel", "get_num_params", "get_input_embeddings", "num_parameters"):
            return NUMBER_VALUE
        return UNKNOWN_VALUE

    def tensor_method(self, node: ast.Call, of: Value, attr: str, args: tuple[Value, ...]) -> Value:
        if attr in names.NUMBERS:
            return NUMBER_VALUE if attr != "numpy" else Value("numpy", True, of="tensor")
        if attr in ("items", "values", "keys", "pop", "get"):
            return Value(values.LIST, of.strong, of.graph, items=(replace(of, kind=values.TENSOR),)) if attr != "keys" else UNKNOWN_VALUE
        if of.kind == values.BATCH:
            return of if attr in ("to", "cuda") else UNKNOWN_VALUE
        graph = values.NO if attr in names.ENDS_GRAPH or attr in names.LIKE else max([of.graph] + [a.graph for a in args])
        device = of.device
        if attr == "cpu":
            device = "cpu"
        elif attr == "cuda":
            device = "cuda"
        elif attr == "to":
            text = _device_text(node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "device"), None))
            device = text if text in ("cpu", "cuda") or text.startswith("cuda:") else "given" if text != "dtype" else device
        if attr == "requires_grad_":
            graph = values.YES
        scalar = of.scalar if attr not in names.REDUCTIONS else not node.args and not any(
            k.arg in ("dim", "axis") for k in node.keywords)
        kind = values.TENSOR if of.kind == values.TENSOR or attr not in ("to", "cuda", "cpu") else of.kind
        tensor = Value(kind, of.strong, graph, device, scalar)
        if attr in names.PAIRS and (node.args or node.keywords) and attr not in ("norm",):
            return Value(values.TUPLE, True, graph, items=(tensor, Value(values.TENSOR, of.strong)))
        if attr in ("split", "chunk", "unbind"):
            return Value(values.LIST, True, graph, items=(tensor,))
        return tensor

    def accelerate_method(self, attr: str, args: tuple[Value, ...]) -> Value:
        if attr in ("prepare", "setup", "prepare_model", "prepare_optimizer", "prepare_data_loader", "setup_dataloaders", "setup_module"):
            given = tuple(replace(a, strong=True, node=None) for a in args)
            return given[0] if len(given) == 1 else Value(values.TUPLE, True, items=given)
        if attr in ("unwrap_model", "gather", "gather_for_metrics", "pad_across_processes", "reduce"):
            return replace(args[0], node=None) if args else UNKNOWN_VALUE
        return UNKNOWN_VALUE

    def container_method(self, of: Value, attr: str) -> Value:
        if attr in ("values", "copy", "get", "pop", "popleft") and of.items:
            return of if attr in ("values", "copy") else of.items[0]
        if attr == "items" and of.items:
            return Value(values.LIST, True, items=(Value(values.TUPLE, True, items=(TEXT_VALUE, of.items[0])),))
        return UNKNOWN_VALUE


def _of_class(method: Function) -> bool:
    """Is it called on the class itself?"""
    return any(dotted(d) in ("classmethod", "staticmethod") for d in getattr(method.node, "decorator_list", ()))


def _reduces(node: ast.Call) -> bool:
    return not any(k.arg == "reduction" and isinstance(k.value, ast.Constant) and k.value.value == "none" for k in node.keywords)


def _device_text(node: ast.expr | None) -> str:
    """"cpu", "cuda", "cuda:0" as written; "dtype" for torch.float16 and the like; "" for what is not seen."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return node.value
        return "cuda" if isinstance(node.value, int) and not isinstance(node.value, bool) else ""
    if isinstance(node, ast.Attribute):
        if node.attr in ("float16", "bfloat16", "float32", "float64", "half", "long", "int64", "int32", "bool", "uint8", "float", "dtype"):
            return "dtype"
    if isinstance(node, ast.Name) and "dtype" in node.id:
        return "dtype"
    if isinstance(node, ast.Call) and dotted(node.func).endswith("device") and node.args:
        return _device_text(node.args[0])
    return ""
