#!/usr/bin/env python3
"""platforms.py PLIMSOLL DATA: where a program ran decides what is advised.

What was wrong: expandable_segments, which PyTorch ignores on Windows, was the first advice for a program whose frames are
all on C:, and nvidia-smi for any GPU.  A measured death by fragmentation is given frames of other platforms here.
"""
import copy
import os
import pickle
import sys
import tempfile

import lib

lib.start(sys.argv[1])
MEASURED = lib.load(os.path.join(sys.argv[2], "oom_frag.pickle.xz"))


def frames_of(snapshot):
    """Each list of frames once: many events share one."""
    seen = {}
    for trace in snapshot["device_traces"]:
        for event in trace:
            seen[id(event.get("frames"))] = event.get("frames")
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            seen[id(block.get("frames"))] = block.get("frames")
    return [f for f in seen.values() if f]


def changed(change, inner=None):
    """The recording with all its file names changed, and with a C++ frame inside of each stack."""
    snapshot, done = copy.deepcopy(MEASURED), set()
    for frames in frames_of(snapshot):
        for frame in frames:
            if id(frame) not in done:
                done.add(id(frame))
                frame["filename"] = change(frame["filename"])
        if inner:
            frames.insert(0, {"filename": inner[0], "line": 0, "name": inner[1]})
    return snapshot


def check(name, snapshot, variable, expandable=True, own=True, monitor=None):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "other.pickle")
        with open(path, "wb") as f:
            pickle.dump(snapshot, f, 4)
        oom = lib.result("report", path)["devices"][0]["oom"][-1]
        text, why, whatif = lib.run("report", path).stdout, lib.run("report", "--why", path).stdout, lib.run("whatif", path).stdout
        asked = lib.result("whatif", path, "--settings", "expandable_segments:True")
    first, settings = oom["verdict"]["helps"][0], [t["settings"] for t in oom["tried"]]
    lib.expect(first.startswith(f"set {variable}="), name, "advised first:", first)
    lib.expect(("expandable_segments:True:" in first) == expandable, name, "advised first:", first)
    lib.expect(f"Set {variable}=" in whatif and ("expandable_segments:True" in whatif) == expandable, name, "whatif:", whatif[:200])
    lib.expect(("expandable_segments:True" in settings) == expandable, name, "tried", settings)
    lib.expect(("plimsoll.allocator.use()" in settings) == own, name, "tried", settings)
    lib.expect((asked["recommended"] is not None) == expandable, name, "of what was asked for:", asked["recommended"], asked["withheld"])
    for other in {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"} - {variable}:
        lib.expect(other + "=" not in text + why + whatif, name, "names", other)
    for tool in {"nvidia-smi", "rocm-smi", "xpu-smi"} - {monitor}:
        lib.expect(tool not in text + why, name, "names", tool)


def same(name):
    return name


def windows(name):
    return "C:" + name.replace("/", "\\") if name.startswith("/") else name


CUDA, HIP, XPU = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
check("Linux", changed(same), CUDA, monitor="nvidia-smi")
check("Windows", changed(windows), CUDA, expandable=False, own=False, monitor="nvidia-smi")
check("Windows on D:", changed(lambda name: windows(name).replace("C:", "d:")), CUDA, expandable=False, own=False, monitor="nvidia-smi")
check("HIP", changed(same, ("??", "c10::hip::HIPCachingAllocator::Native::DeviceCachingAllocator::malloc")), HIP, own=False, monitor="rocm-smi")
check("HIP on Windows", changed(windows, ("C:\\build\\c10\\hip\\x.cpp", "malloc")), HIP, expandable=False, own=False, monitor="rocm-smi")
check("XPU", changed(same, ("/opt/py/torch/lib/libtorch_xpu.so", "at::empty")), XPU, own=False, monitor="xpu-smi")
# what only looks like another platform
check("a C++ frame that was built on Windows", changed(same, ("C:\\actions-runner\\_work\\x.cpp", "at::empty")), CUDA, monitor="nvidia-smi")
check("names with hip and xpu in them", changed(lambda name: name.replace("/", "/whip/xpu/", 1), ("/home/me/chip/xpu.cpp", "ship")), CUDA, monitor="nvidia-smi")
check("a drive's letter inside", changed(lambda name: "/mnt/c:" + name if name.startswith("/") else name), CUDA, monitor="nvidia-smi")

lib.finish("platforms: each advised what works there")
