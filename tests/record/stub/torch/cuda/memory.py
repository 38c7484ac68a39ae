"""A stand-in for torch.cuda.memory."""
import ctypes
import os

import torch

events = []; enabled = False; calls = []; plug = None
def _record_memory_history(max_entries=0, context="all", stacks="all", enabled_="all"):
    global enabled
    if "STUB_CANNOT_RECORD" in os.environ: raise RuntimeError("not built with CUDA")
    enabled = True; calls.append((max_entries, context, stacks))
    torch._C._cuda_record_memory_history("all", max_entries)
def _snapshot(): return torch._C._cuda_memorySnapshot()

class CUDAPluggableAllocator:
    """The library for real, with the hooks that it is given."""
    def __init__(self, path, malloc, free):
        library = ctypes.CDLL(path)
        self.malloc, self.free, self.hooks = library[malloc], library[free], {}
        self.malloc.restype, self.malloc.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    def allocator(self): return self
    def set_record_stream_fn(self, at): self.hooks["record_stream"] = at
def change_current_allocator(to):
    global plug
    if torch.cuda.is_initialized(): raise RuntimeError("Can't swap an already initialized allocator")
    plug = to
def get_allocator_backend(): return "pluggable" if plug else "native"
