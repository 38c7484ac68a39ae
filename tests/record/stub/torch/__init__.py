class OutOfMemoryError(RuntimeError): pass
class _C:
    observers = []
    @staticmethod
    def _cuda_attach_out_of_memory_observer(f): _C.observers.append(f)
    @staticmethod
    def _cuda_memoryStats(device):
        return {"allocated_bytes": {"all": {"current": 7 << 20, "peak": 8 << 20}}, "reserved_bytes": {"all": {"current": 20 << 20, "peak": 20 << 20}},
                "num_alloc_retries": 1, "num_ooms": len(cuda.memory.events) - 1}
    @staticmethod
    def _cuda_record_memory_history(enabled, entries): pass
    @staticmethod
    def _cuda_memorySnapshot(pool=None): return {"segments": [], "device_traces": [list(cuda.memory.events)]}
class optim: pass
class _optimizer:  # a module whose name torch.optim takes away again, as PyTorch does
    hooks = []
    @staticmethod
    def register_optimizer_step_post_hook(hook):
        _optimizer.hooks.append(hook)
        class Handle:
            remove = staticmethod(lambda: _optimizer.hooks.remove(hook))
        return Handle
import sys
sys.modules["torch.optim.optimizer"] = _optimizer
from . import cuda
def fail(text="CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 0 bytes is free."):
    cuda._lazy_init()
    cuda.memory.events.append({"action": "oom", "device_free": 0, "size": 20 << 20, "stream": 0, "time_us": 2})
    for f in _C.observers: f(0, 1, 2, 3)
    raise OutOfMemoryError(text)
