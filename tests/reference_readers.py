#!/usr/bin/env python3
"""`verify` against the packages safetensors and gguf: reference_readers.py PROGRAM.

Small files are changed by a rule: each byte in front of the numbers to five other values, each cut, each run of bytes
twice, and texts of JSON replaced.  What the reference reader refuses, `verify` must refuse; where `verify` is
stricter, how often and with which words is printed.
"""
import collections
import importlib.util
import os
import signal
import struct
import sys
import tempfile

import lib
from attacks import gguf, safetensors

SKIPPED = 77
SECONDS = 0.3
FLOATS = struct.pack("<6f", *range(6))


def is_read_by_safetensors(path):
    from safetensors import SafetensorError, safe_open
    try:
        with safe_open(path, "np") as f:
            for name in f.keys():  # noqa: SIM118  (the handle is no dict)
                f.get_tensor(name)
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError):
        return False
    return True


def is_read_by_gguf(path):
    from gguf import GGUFReader
    signal.setitimer(signal.ITIMER_REAL, SECONDS)  # a count that lies keeps the package busy for as long as it says
    try:
        GGUFReader(path)
    except Exception:  # of a dozen classes, none of them its own
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return True


def stop(*_):
    raise TimeoutError


def safetensors_files():
    header = b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]}}'
    words = [(b"F32", b"F64"), (b"F32", b"XXX"), (b"[2,3]", b"[3,2]"), (b"[2,3]", b"[6]"), (b"[2,3]", b"[2.0,3]"), (b"[2,3]", b"[-2,-3]"), (b"[2,3]", b"[2,03]"),
             (b"[2,3]", b"[2,3,]"), (b"[2,3]", b'["2",3]'), (b"[2,3]", b"[2e0,3]"), (b"[0,24]", b"[24,0]"), (b"[0,24]", b"[1,24]"), (b"[0,24]", b"[0,24,0]"),
             (b'"b"', b'"a"'), (b'"b"', b'"__metadata__"'), (b'"pt"', b"1"), (b'"pt"', b"null"), (b'{"format":"pt"}', b"[]"), (b'"shape":[],', b""),
             (b'"shape":[]', b'"shape":null'), (b'"shape":[]', b'"shape":[0]'), (b'"shape":[]', b'"shape":[],"shape":[]'), (b'"shape":[]', b'"shape":[],"x":1'),
             (b'"dtype":"U8"', b'"dtype":"u8"'), (b'"a"', b'"\\ud800"'), (b'"a"', b'"\xff"'), (b'"a"', b'"a\n"'), (b"{", b" {"), (b"}}", b"}} "), (b"}}", b"}}x"), (b"}}", b"}}\0")]
    for old, new in [(b"", b""), *words]:
        changed = header.replace(old, new, 1) if old else header
        yield struct.pack("<Q", len(changed)) + changed + FLOATS + b"\7", len(changed) + 8
    yield safetensors({"a": b"12345678"}), 8


def gguf_files():
    keys = [("general.architecture", 8, struct.pack("<Q", 5) + b"llama"), ("llama.block_count", 4, struct.pack("<I", 2)),
            ("tokens", 9, struct.pack("<IQ", 8, 2) + (struct.pack("<Q", 1) + b"a") * 2), ("x", 6, struct.pack("<f", 1.5)), ("yes", 7, b"\1")]
    data = gguf({"t.weight": (0, (2, 3), FLOATS), "q": (8, (2, 32), bytes(range(68)))}, keys)
    yield data, data.index(b"q" + struct.pack("<I", 2)) + 33


def changes(data, header):
    yield "whole", data
    for at in range(header):
        for byte in {0, 1, 0x30, 0xff, data[at] ^ 1} - {data[at]}:
            yield f"byte {at} to {byte}", data[:at] + bytes([byte]) + data[at + 1:]
    for at in range(0, len(data), 3):
        yield f"cut at {at}", data[:at]
    for at in range(0, header, 5):
        for size in (1, 8, 24):
            yield f"{size} bytes at {at} twice", data[:at + size] + data[at:]


def compare(folder, kind, files, is_read):
    path = os.path.join(folder, "model." + kind)
    seen = collections.Counter()
    stricter = collections.Counter()
    for number, (data, header) in enumerate(files):
        for name, changed in changes(data, header) if not number else [("whole", data)]:
            with open(path, "wb") as f:
                f.write(changed)
            done = lib.run("ckpt", "verify", path, codes=(0, 1))
            whole, read = done.returncode == 0, is_read(path)
            seen[whole, read] += 1
            lib.expect(read or not whole, kind, number, name, "is refused by the reference reader", done.stdout)
            if read and not whole:
                stricter[" ".join(done.stdout.split("\n")[1].split()[:6])] += 1
    print(f"{kind}: {sum(seen.values())} files, {seen[True, True]} read by both, {seen[False, False]} refused by both, "
          f"{seen[False, True]} by verify alone, {seen[True, False]} by the package alone")
    for words, times in stricter.most_common(8):
        print(f"  {times} by verify alone: {words} ...")


def main():
    lib.start(sys.argv[1])
    signal.signal(signal.SIGALRM, stop)
    readers = {"safetensors": (safetensors_files, is_read_by_safetensors), "gguf": (gguf_files, is_read_by_gguf)}
    missing = [name for name in (*readers, "numpy") if not importlib.util.find_spec(name)]
    with tempfile.TemporaryDirectory() as folder:
        for kind, (files, is_read) in readers.items():
            if kind not in missing and "numpy" not in missing:
                compare(folder, kind, files(), is_read)
    if missing:
        print("SKIPPED: not compared, as these packages are not installed:", ", ".join(missing))
        sys.exit(SKIPPED)
    lib.finish("as strict as the reference readers")


if __name__ == "__main__":
    main()
