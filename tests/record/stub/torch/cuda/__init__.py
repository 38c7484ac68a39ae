from . import memory
_initialized = False
def is_initialized(): return _initialized
def _lazy_init():
    global _initialized
    _initialized = True
def empty(n=1 << 20):
    from torch import cuda
    cuda._lazy_init()
    if memory.enabled: memory.events.append({"action": "alloc", "addr": 4096 * (len(memory.events) + 1), "size": n, "stream": 0, "time_us": 1})

def device_count(): return 1
