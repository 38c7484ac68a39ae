class OutOfMemoryError(RuntimeError): pass
class _C:
    observers = []
    @staticmethod
    def _cuda_attach_out_of_memory_observer(f): _C.observers.append(f)
from . import cuda
def fail(text="CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 0 bytes is free."):
    cuda._lazy_init()
    cuda.memory.events.append({"action": "oom", "device_free": 0, "size": 20 << 20, "stream": 0, "time_us": 2})
    for f in _C.observers: f(0, 1, 2, 3)
    raise OutOfMemoryError(text)
