#!/usr/bin/env python3
"""A set of hostile files, made by one rule: hostile_files.py PROGRAM [--run] [--scanners] [--all].

The rule: every way to call (CALLS) in every way to carry the call in a pickle (CARRIERS) in every kind of file
(CONTAINERS); the protocol of the pickle is the next of 0 to 5 from file to file.  All that a payload does is to make
MARK in the folder where the loader runs.  `verify` must not exit with 0 for any of them.  Without --all every 11th
file is looked at.  --run loads each file with the loader that it is meant for, in a process and a folder of its own,
and says how many run code; it needs torch, joblib and NumPy.  --scanners asks picklescan, modelscan and fickling
about the same files.
"""
import argparse
import builtins
import bz2
import codecs
import contextlib
import cProfile
import functools
import gzip
import io
import logging
import lzma
import os
import pickle
import pydoc
import shutil
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import timeit
import zipfile
import zlib

import lib

MARK = "mark"
STEP = 11
SECONDS = 20
MAGIC = pickle.dumps(0x1950a86a20f9469cfc6c, 2) + pickle.dumps(1001, 2)
SYSTEM = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}

CALLS = [
    (os.system, ("echo >" + MARK,)),
    (subprocess.call, (["touch", MARK],)),
    (builtins.eval, (f"open('{MARK}', 'w').close()",)),
    (builtins.exec, (f"open('{MARK}', 'w').close()",)),
    (io.open, (MARK, "w")),
    (io.FileIO, (MARK, "w")),
    (os.mkdir, (MARK,)),
    (shutil.copyfile, ("/dev/null", MARK)),
    (logging.FileHandler, (MARK,)),
    (timeit.timeit, (f"open('{MARK}', 'w').close()", "pass", timeit.default_timer, 1)),
    (cProfile.run, (f"open('{MARK}', 'w').close()", os.devnull)),
    (pydoc.pipepager, ("", "cat >" + MARK)),
    (codecs.open, (MARK, "w")),
    (sqlite3.connect, (MARK,)),
]


class Reduced:
    """What pickles as the call function(*args), and then whatever __reduce__ may say behind it."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


def on_state(function, args):
    return Reduced(dict, (), {"a": Reduced(function, args)})


CARRIERS = {
    "call": Reduced,
    "in a list": lambda function, args: [1, Reduced(function, args)],
    "in a dict": lambda function, args: {"state_dict": {"w": Reduced(function, args)}},
    "as state": on_state,
    "as an item": lambda function, args: Reduced(list, (), None, iter([Reduced(function, args)])),
    "by partial": lambda function, args: Reduced(functools.partial(function, *args), ()),
}


def packed(records, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data in records.items():
            z.writestr(name, data)
    return out.getvalue()


def torch_zip(data):
    return packed({"archive/data.pkl": data, "archive/version": "3\n"})


def legacy(root, system=None):
    return MAGIC + (system or pickle.dumps(SYSTEM, 2)) + root + pickle.dumps([], 2)


def old_tar(data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, content in (("storages", data), ("tensors", pickle.dumps(0, 2)), ("pickle", pickle.dumps({}, 2))):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            t.addfile(info, io.BytesIO(content))
    return out.getvalue()


def npy(data):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def handed(call):
    return lambda data: b"\x80\3c" + call + b"B" + struct.pack("<I", len(data)) + data + b"\x85R."


def joblib_objects(data):
    """joblib's wrapper of an array of objects, which is a pickle of its own."""
    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s
    dtype = b"cnumpy\ndtype\n" + text(b"O8") + b"\x89\x88\x87R(K\3" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3ftb"
    rows = {b"subclass": b"cnumpy\nndarray\n", b"shape": b"K\1\x85", b"order": text(b"C"), b"dtype": dtype, b"allow_mmap": b"\x89"}
    return b"\x80\2cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" + b"".join(text(k) + v for k, v in rows.items()) + b"ub" + data + b"."


# name of the file, what makes it of a pickle, the loader that it is meant for
CONTAINERS = [
    ("model.pkl", bytes, "pickle"),
    ("model.joblib", bytes, "joblib"),
    ("model.joblib.z", zlib.compress, "joblib"),
    ("model.joblib.gz", gzip.compress, "joblib"),
    ("model.joblib.bz2", bz2.compress, "joblib"),
    ("model.joblib.xz", lzma.compress, "joblib"),
    ("model.joblib.lzma", lambda data: lzma.compress(data, lzma.FORMAT_ALONE), "joblib"),
    ("objects.joblib", joblib_objects, "joblib"),
    ("model.pt", torch_zip, "torch"),
    ("legacy.pt", legacy, "torch"),
    ("system.pt", lambda data: legacy(pickle.dumps({}, 2), data), "torch"),
    ("old.tar", old_tar, "torch"),
    ("array.npy", npy, "numpy"),
    ("arrays.npz", lambda data: packed({"a.npy": npy(data)}), "numpy"),
    ("packed.npz", lambda data: packed({"a.npy": npy(data)}, zipfile.ZIP_DEFLATED), "numpy"),
    ("bytes.pkl", handed(b"pickle\nloads\n"), "pickle"),
    ("tensor.pkl", lambda data: handed(b"torch.storage\n_load_from_bytes\n")(legacy(data)), "pickle"),
    ("zip.pkl", lambda data: handed(b"torch.storage\n_load_from_bytes\n")(torch_zip(data)), "pickle"),
    ("hf/pytorch_model.bin", torch_zip, "torch"),
    ("hf/unet/diffusion_pytorch_model.bin", torch_zip, "torch"),
]


def all_files():
    """Each file's name, its bytes, its loader; a name says by what rule it was made."""
    number = 0
    for function, args in CALLS:
        for carrier, carry in CARRIERS.items():
            for container, make, loader in CONTAINERS:
                protocol = number % 6
                folder = f"{number:04d} {function.__name__} {carrier} p{protocol}"
                yield os.path.join(folder, container), make(pickle.dumps(carry(function, args), protocol)), loader
                number += 1


def written(folder, step):
    files = []
    for number, (name, data, loader) in enumerate(all_files()):
        if number % step:
            continue
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(data)
        files.append((path, loader))
    return files


def shown_path(path):
    """Of a folder, what is verified is the folder."""
    top, slash, _ = path.partition("/hf/")
    return top + "/hf" if slash else path


def forked(work):
    """The exit code of work() in a process of its own, which is ended after SECONDS of CPU time or twice that by the clock."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    import resource
    import signal
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    signal.alarm(2 * SECONDS)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    code = 0
    try:
        code = work()
    except BaseException:
        code = 120
    os._exit(code)


def load(path, loader):
    if loader == "pickle":
        with open(path, "rb") as f:
            pickle.load(f)
    elif loader == "joblib":
        import joblib
        joblib.load(path)
    elif loader == "torch":
        import torch
        torch.load(path, weights_only=False)
    else:
        import numpy
        loaded = numpy.load(path, allow_pickle=True)
        for name in getattr(loaded, "files", ()):
            loaded[name]


def runs_code(path, loader):
    with tempfile.TemporaryDirectory() as folder:
        def work():
            os.chdir(folder)
            with contextlib.suppress(Exception):  # most of what was called returns nothing that a loader could use
                load(path, loader)
            return 0
        forked(work)
        return os.path.exists(os.path.join(folder, MARK))


# ---- the other scanners: is the file called unsafe?  What a scanner cannot read, it does not call so. ----

def by_picklescan(path):
    from picklescan.scanner import SafetyLevel, scan_file_path
    return any(g.safety == SafetyLevel.Dangerous for g in scan_file_path(path).globals)


def by_modelscan(path):
    from modelscan.modelscan import ModelScan
    return ModelScan().scan(path)["summary"]["total_issues"] > 0


def by_fickling(path):
    """By its simple question, and by its readers of stacked pickles and of torch's files: one that finds something counts."""
    import fickling
    from fickling.analysis import Severity, check_safety
    from fickling.fickle import StackedPickle
    from fickling.pytorch import PyTorchModelWrapper
    with contextlib.suppress(Exception):
        if not fickling.is_likely_safe(path):
            return True
    with open(path, "rb") as f:
        is_zip = f.read(2) == b"PK"
        f.seek(0)
        pickles = [PyTorchModelWrapper(path, force=True).pickled] if is_zip else StackedPickle.load(f)
    return any(check_safety(pickled).severity > Severity.LIKELY_SAFE for pickled in pickles)


SCANNERS = {"picklescan": by_picklescan, "modelscan": by_modelscan, "fickling": by_fickling}


def scanned(path):
    """The scanners that call the file unsafe, each a bit."""
    def work():
        found = 0
        for bit, scan in enumerate(SCANNERS.values()):
            with contextlib.suppress(Exception):
                found |= scan(path) << bit
        return found
    return max(forked(work), 0)


def warm(scanners):
    """Imports once what each file's process needs."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.pkl")
        with open(path, "wb") as f:
            f.write(pickle.dumps({}))
        for loader in ("joblib", "numpy", "pickle"):
            load(path, loader)
        import torch
        torch.save({}, path)
        load(path, "torch")
        for scan in SCANNERS.values() if scanners else ():
            scan(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--scanners", action="store_true")
    args = parser.parse_args()
    lib.start(args.program)
    if args.run or args.scanners:
        warm(args.scanners)
    caught = {loader: dict.fromkeys(["files", "plimsoll", *SCANNERS], 0) for *_, loader in CONTAINERS}
    with tempfile.TemporaryDirectory() as folder:
        for path, loader in written(folder, 1 if args.all else STEP):
            fires = runs_code(path, loader) if args.run or args.scanners else True
            code = lib.run("ckpt", "verify", shown_path(path), codes=(0, 1)).returncode
            lib.expect(code == 1 or not fires, os.path.relpath(path, folder), "runs code and is passed")
            if not fires:
                print("runs no code:", os.path.relpath(path, folder))
                continue
            row = caught[loader]
            row["files"] += 1
            row["plimsoll"] += code
            found = scanned(path) if args.scanners else 0
            for bit, name in enumerate(SCANNERS):
                row[name] += found >> bit & 1
    if args.run or args.scanners:
        heads = ["files", "plimsoll", *(SCANNERS if args.scanners else ())]
        print("| loader | " + " | ".join(heads) + " |\n|---|" + "---:|" * len(heads))
        for loader, row in caught.items():
            print(f"| {loader} | " + " | ".join(str(row[h]) for h in heads) + " |")
        print("| all | " + " | ".join(str(sum(row[h] for row in caught.values())) for h in heads) + " |")
    lib.finish(f"{sum(row['files'] for row in caught.values())} hostile files")


if __name__ == "__main__":
    sys.exit(main())
