from . import _utils, memory
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
def mem_get_info(device=0): return (1 << 30, 2 << 30)
def empty_cache(): pass
def step():
    """A step of a program: each request is freed after the next one."""
    _lazy_init()
    live = []
    for m in range(2, 50):
        live.append((memory.plug.malloc(m << 20, 0, None), m << 20))
        if len(live) > 1: memory.plug.free(*live.pop(0), 0, None)
    memory.plug.free(*live.pop(), 0, None)
