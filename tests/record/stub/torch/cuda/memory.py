"""A stand-in for torch.cuda.memory."""
import os

events = []; enabled = False; calls = []
def _record_memory_history(max_entries=0, context="all", stacks="all", enabled_="all"):
    global enabled
    if "STUB_CANNOT_RECORD" in os.environ: raise RuntimeError("not built with CUDA")
    enabled = True; calls.append((max_entries, context, stacks))
def _snapshot(): return {"segments": [], "device_traces": [list(events)]}
