"""A torch with one GPU of 1 GiB, for tests: tensors are bytes on its account, hooks are called in PyTorch's order.

What is called is written down in `calls`; what PyTorch would refuse is refused.
"""
import sys
import threading
import types

__version__ = "2.11.0+fake"
calls = []


class OutOfMemoryError(RuntimeError):
    pass


class device:
    def __init__(self, type, index=None):
        kind, _, number = str(type).partition(":")
        self.type, self.index = kind, int(number) if number else index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class dtype:
    def __init__(self, name, itemsize, floating):
        self.name, self.itemsize, self.is_floating_point = name, itemsize, floating

    def __repr__(self):
        return "torch." + self.name


float32, float64, bfloat16 = dtype("float32", 4, True), dtype("float64", 8, True), dtype("bfloat16", 2, True)
int64, int32, uint8 = dtype("int64", 8, False), dtype("int32", 4, False), dtype("uint8", 1, False)


class Card:
    """What cudaMalloc and the caching allocator know; requests are not rounded, cached blocks serve any request."""

    def __init__(self, total):
        self.total, self.limit = total, total
        self.lock = threading.RLock()
        self.started = self.available = False
        self.plug = None
        self.reset()

    def reset(self):
        self.allocated = self.reserved = self.peak = self.reserved_peak = self.retries = self.ooms = 0
        self.observers, self.history, self.next, self.live = [], None, 0x7F0000000000, {}
        self.fraction = self.limit / self.total
        self.trace = []

    def alloc(self, n):
        if self.plug is not None:
            return self.plug.take(n)
        with self.lock:
            if self.allocated + n > self.limit:
                self.ooms += 1
                self.event("oom", 0, n, device_free=self.total - self.reserved)
                for observer in self.observers:
                    observer(0, n, self.limit, self.total - self.reserved)
                raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {n / 2**20:.2f} MiB. GPU 0 has a total capacity of "
                                       f"{self.total / 2**30:.2f} GiB of which {(self.total - self.reserved) / 2**20:.2f} MiB is free.")
            self.allocated += n
            self.reserved = max(self.reserved, self.allocated)
            self.peak, self.reserved_peak = max(self.peak, self.allocated), max(self.reserved_peak, self.reserved)
            self.next += 1 << 30
            self.live[self.next] = n
            self.event("segment_alloc", self.next, n)
            self.event("alloc", self.next, n)
            return self.next

    def free(self, at):
        if self.plug is not None:
            return self.plug.give(at)
        with self.lock:
            n = self.live.pop(at, None)
            if n is not None:
                self.allocated -= n
                self.event("free_requested", at, n)
                self.event("free_completed", at, n)
                self.event("segment_free", at, n)

    def event(self, action, at, n, **more):
        if self.history:
            frame = sys._getframe(3)
            frames = []
            while frame is not None:
                frames.append({"filename": frame.f_code.co_filename, "line": frame.f_lineno, "name": frame.f_code.co_name})
                frame = frame.f_back
            self.trace.append({"action": action, "addr": at, "size": n, "stream": 0, "time_us": 1000 + len(self.trace),
                               "frames": frames, **more})


card = Card(1 << 30)


class Storage:
    def __init__(self, n, where):
        self.n, self.where = n, where
        self.at = None
        self.at = card.alloc(n) if where.type == "cuda" else id(self)

    def data_ptr(self):
        return self.at

    def nbytes(self):
        return self.n

    def __del__(self):
        if self.where.type == "cuda" and self.at is not None:
            card.free(self.at)


class Tensor:
    def __init__(self, shape, dtype=float32, device="cpu", requires_grad=False, storage=None):
        self.shape, self.dtype, self.device, self.requires_grad = tuple(shape), dtype, _device(device), requires_grad
        n = dtype.itemsize
        for side in self.shape:
            n *= side
        self._storage = storage or Storage(n, self.device)
        self.grad, self.is_leaf, self._value = None, True, 0
        self._pinned = False

    def untyped_storage(self):
        return self._storage

    def data_ptr(self):
        return self._storage.at

    def numel(self):
        return self._storage.n // self.dtype.itemsize

    def element_size(self):
        return self.dtype.itemsize

    def is_pinned(self):
        return self._pinned

    def is_contiguous(self):
        return True

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def detach(self):
        made = Tensor(self.shape, self.dtype, self.device, storage=self._storage)
        made._value = self._value
        return made

    def to(self, where, copy=False):
        made = Tensor(self.shape, self.dtype, where)
        made._value = self._value
        return made

    def copy_(self, other):
        self._value = other._value
        return self

    def dim(self):
        return len(self.shape)


class Parameter(Tensor):
    def __init__(self, shape, dtype=float32, device="cpu"):
        super().__init__(shape, dtype, device, requires_grad=True)


def _device(where):
    where = where if isinstance(where, device) else device(where)
    if where.type == "cuda" and where.index is None:
        where = device("cuda", 0)
    if where.type == "cuda" and not card.started:
        card.started = True
        for queued in cuda._queued:
            queued()
        cuda._queued.clear()
    return where


def empty(*shape, dtype=float32, device="cpu", requires_grad=False):
    return Tensor(shape, dtype, device, requires_grad)


def is_tensor(value):
    return isinstance(value, Tensor)


_grad = [True]


def is_grad_enabled():
    return _grad[0]


def is_autocast_enabled():
    return False


def get_autocast_dtype(kind):
    return bfloat16


class no_grad:
    def __enter__(self):
        self.was, _grad[0] = _grad[0], False

    def __exit__(self, *rest):
        _grad[0] = self.was


_random = [0]


def get_rng_state():
    return _random[0]


def set_rng_state(state):
    _random[0] = state


# ---- torch.nn, torch.optim ----


class _Removable:
    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        if self.hook in self.hooks:
            self.hooks.remove(self.hook)


class Module:
    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}
        self.training, self._before, self._after = True, [], []

    def __getattr__(self, name):
        for held in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(held, {}):
                return self.__dict__[held][name]
        raise AttributeError(name)

    def __setattr__(self, name, value):
        for kind, held in ((Parameter, "_parameters"), (Module, "_modules")):
            if isinstance(value, kind) and held in self.__dict__:
                self.__dict__[held][name] = value
                return
        object.__setattr__(self, name, value)

    def modules(self):
        yield self
        for module in self._modules.values():
            yield from module.modules()

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self):
        for prefix, module in self.named_modules():
            for name, parameter in module._parameters.items():
                yield (f"{prefix}.{name}" if prefix else name), parameter

    def named_buffers(self):
        for prefix, module in self.named_modules():
            for name, buffer in module._buffers.items():
                yield (f"{prefix}.{name}" if prefix else name), buffer

    def parameters(self):
        return (p for _, p in self.named_parameters())

    def buffers(self):
        return (b for _, b in self.named_buffers())

    def register_forward_pre_hook(self, hook, with_kwargs=False):
        return _Removable(self._before, (lambda module, arguments: hook(module, arguments, {})) if with_kwargs else hook)

    def register_forward_hook(self, hook):
        return _Removable(self._after, hook)

    def __call__(self, *arguments):
        for hook in list(self._before):
            hook(self, arguments)
        out = self.forward(*arguments)
        for hook in list(self._after):
            hook(self, arguments, out)
        return out


class Optimizer:
    def __init__(self, parameters):
        self.state, self.param_groups = {}, [{"params": list(parameters), "lr": 0.1}]
        self._before, self._after = [], []

    def register_step_pre_hook(self, hook):
        return _Removable(self._before, hook)

    def register_step_post_hook(self, hook):
        return _Removable(self._after, hook)

    def step(self):
        for hook in list(self._before):
            hook(self, (), {})
        for group in self.param_groups:
            for p in group["params"]:
                if p not in self.state:
                    self.state[p] = {"step": 0, "exp_avg": Tensor(p.shape, p.dtype, p.device)}
                self.state[p]["step"] += 1
                self.state[p]["exp_avg"]._value += 1
                p._value += 1
        for hook in list(self._after):
            hook(self, (), {})

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None


nn = types.ModuleType("torch.nn")
nn.Module, nn.Parameter = Module, Parameter
optim = types.ModuleType("torch.optim")
optim.Optimizer = Optimizer

# ---- torch.autograd.graph ----

autograd = types.ModuleType("torch.autograd")
autograd.graph = types.ModuleType("torch.autograd.graph")
_packing = []


class saved_tensors_hooks:
    def __init__(self, pack, unpack):
        self.pack = pack

    def __enter__(self):
        _packing.append(self.pack)

    def __exit__(self, *rest):
        _packing.pop()


def save_for_backward(tensor):
    """What an operation does with a tensor that its backward needs."""
    for pack in _packing:
        pack(tensor)


autograd.graph.saved_tensors_hooks = saved_tensors_hooks

# ---- torch.cuda ----

cuda = types.ModuleType("torch.cuda")
cuda.memory = types.ModuleType("torch.cuda.memory")
cuda._queued = []
cuda.OutOfMemoryError = OutOfMemoryError
cuda.is_available = lambda: card.available
cuda.is_initialized = lambda: card.started
cuda.current_device = lambda: 0
cuda.device_count = lambda: 1
cuda.mem_get_info = lambda index=0: (card.total - card.reserved, card.total)
cuda.get_rng_state_all = lambda: [_random[0]]
cuda.set_rng_state_all = lambda states: None
cuda.get_allocator_backend = lambda: "native"


class Event:
    """Its elapsed_time is what the test says: how long the GPU had nothing to do."""

    idle_ms = 0.0

    def __init__(self, enable_timing=False):
        calls.append("event")

    def record(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, other):
        return Event.idle_ms


cuda.Event = Event


def _lazy_call(run):
    if card.started:
        run()
    else:
        cuda._queued.append(run)


def _empty_cache():
    calls.append("empty_cache")
    card.reserved = card.allocated


def _set_fraction(fraction, device=None):
    calls.append(("fraction", fraction))
    card.fraction, card.limit = fraction, int(card.total * fraction)


cuda.get_per_process_memory_fraction = lambda device=None: card.fraction
cuda._lazy_call, cuda.empty_cache, cuda.set_per_process_memory_fraction = _lazy_call, _empty_cache, _set_fraction


def _record(enabled="all", context="all", stacks="all", max_entries=None, **more):
    calls.append(("record", enabled, stacks, max_entries))
    card.history = enabled


def _snapshot():
    calls.append("snapshot")
    segments = [{"device": 0, "address": at, "total_size": n, "allocated_size": n, "active_size": n, "requested_size": n,
                 "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                 "blocks": [{"address": at, "size": n, "requested_size": n, "state": "active_allocated", "frames": []}]}
                for at, n in card.live.items()]
    return {"segments": segments, "device_traces": [list(card.trace)], "allocator_settings": {}}


cuda.memory._record_memory_history, cuda.memory._snapshot = _record, _snapshot


class CUDAPluggableAllocator:
    """PyTorch's wrapper: hooks by address, and nothing of what it cannot answer.  A refusal is what refused(text) was reported."""

    HOOKS = {"set_init_fn": "init", "set_reset_fn": "reset", "set_memory_fraction_fn": "fraction", "set_base_alloc_fn": "base",
             "set_record_stream_fn": "record_stream", "set_begin_allocate_to_pool": "begin", "set_end_allocate_to_pool_fn": "end",
             "set_release_pool": "release"}

    def __init__(self, path, alloc, free):
        import ctypes

        library = ctypes.CDLL(path)
        self.malloc, self.dealloc = getattr(library, alloc), getattr(library, free)
        self.malloc.restype = ctypes.c_void_p
        self.malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.dealloc.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.sizes, self.hooks, self.text, self.ctypes = {}, {}, "", ctypes

    def allocator(self):
        return self

    def __getattr__(self, name):
        if name not in self.HOOKS:
            raise AttributeError(name)
        return lambda address: self.hooks.__setitem__(self.HOOKS[name], address)

    def hook(self, name, *kinds):
        return self.ctypes.CFUNCTYPE(None, *kinds)(self.hooks[name])

    def refused(self, text):
        self.text = text.decode()

    def take(self, n):
        at = self.malloc(n, 0, None)
        if not at and n:
            raise OutOfMemoryError(self.text)
        self.sizes[at] = n
        return at

    def give(self, at):
        if at in self.sizes:
            self.dealloc(at, self.sizes.pop(at), 0, None)


def _change_current_allocator(plug):
    if card.started:
        raise RuntimeError("Can't swap an already initialized allocator")
    card.plug = plug

    def refuse(name):
        def refused(*arguments, **more):
            raise RuntimeError(f"CUDAPluggableAllocator does not yet support {name}. If you need it, please file an issue describing "
                               "your use case.")
        return refused

    for name in list(vars(_C)):
        if name.startswith("_cuda_"):
            setattr(_C, name, refuse(name))
    cuda.get_allocator_backend = lambda: "pluggable"
    cuda.empty_cache = lambda: plug.hook("reset")()
    cuda.set_per_process_memory_fraction = lambda fraction, device=0: plug.hook("fraction", plug.ctypes.c_double, plug.ctypes.c_int)(
        fraction, device)
    # as torch/cuda/memory.py has them
    cuda.memory._record_memory_history = lambda enabled="all", context="all", stacks="all", max_entries=2**63 - 1: (
        _C._cuda_record_memory_history(enabled, context, stacks, max_entries, False, False, False, []))
    cuda.memory._snapshot = lambda device=None: _C._cuda_memorySnapshot(None)


cuda.memory.CUDAPluggableAllocator, cuda.memory.change_current_allocator = CUDAPluggableAllocator, _change_current_allocator
cuda._utils = types.ModuleType("torch.cuda._utils")
cuda._utils._get_device_index = lambda device=None, optional=False: 0 if device is None else getattr(device, "index", device)

# ---- torch._C ----

_C = types.ModuleType("torch._C")


def _stats(index):
    return {"allocated_bytes": {"all": {"current": card.allocated, "peak": card.peak}},
            "reserved_bytes": {"all": {"current": card.reserved, "peak": card.reserved_peak}},
            "num_alloc_retries": card.retries, "num_ooms": card.ooms}


def _reset_peak(index):
    card.peak, card.reserved_peak = card.allocated, card.reserved


_C._cuda_memoryStats, _C._cuda_resetPeakMemoryStats = _stats, _reset_peak
_C._cuda_attach_out_of_memory_observer = card.observers.append
_C._cuda_isHistoryEnabled = lambda: bool(card.history)
_C._cuda_record_memory_history, _C._cuda_memorySnapshot = _record, lambda pool=None: _snapshot()
_C._cuda_resetAccumulatedMemoryStats, _C._cuda_getMemoryFraction = lambda index: None, lambda index: 1.0

for module in (nn, optim, autograd, cuda, _C):
    sys.modules[module.__name__] = module
sys.modules["torch.cuda.memory"] = cuda.memory
sys.modules["torch.autograd.graph"] = autograd.graph
