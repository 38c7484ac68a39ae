#!/usr/bin/env python3
"""Both unpicklers of CPython against `ckpt verify`: pickle_differential.py [--inputs N] [--seconds S] [--seed N] [--keep FOLDER].

Pickles are made from the grammar of pickletools, and by changing honest and hostile ones.  pickle.Unpickler (C) and
pickle._Unpickler (Python) load each with a find_class that writes the name down and gives something inert.  What either of
them resolved has to stand among the globals that verify reports, or the file must not be called plain or listed and must
not pass.  What resolves posix.system never passes.  --seconds and --inputs say when it ends, whichever comes first; --keep
is a folder for the inputs that fail.

It runs in one process (plimsoll.verify), because starting the program ten thousand times would be most of the time.
"""
import argparse
import copyreg
import datetime
import io
import os
import pickle
import pickletools
import random
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter, OrderedDict

import plimsoll

LIMIT_BYTES = 2 << 30  # of this process: a PUT of a large number asks for as many pointers
NAME_BYTES = 299  # of a name that verify keeps
COMPUTED = "a name that is computed"
# Buffers outside of the file are refused by verify, and CPython 3.11 is not sure of its own there.
OPCODES = {o.name: o for o in pickletools.opcodes if o.name != "READONLY_BUFFER"}
# Numbers of copyreg that stand for a name in this process.
EXTENSIONS = {1: ("posix", "system"), 200: ("os", "popen"), 300: ("shutil", "rmtree"), 70000: ("nt", "system")}
MODULES = ["posix", "os", "collections", "torch", "builtins", "__builtin__", "torch._utils", "numpy", "a.b", "nt", "", "q\tr", "os\r", " os", "\u00e9", "o\0s"]
MEMBERS = ["system", "OrderedDict", "Size", "object", "_rebuild_tensor_v2", "dtype", "a.b", "eval", "set", "", "x y", "system\r", "\u00fc", "s\0t"]


class Made:
    """What an inert class gives: it takes whatever an opcode does to it."""

    def __new__(cls, *_args, **_named):
        return object.__new__(cls)

    def __init__(self, *_args, **_named):
        pass

    def __call__(self, *_args, **_named):
        return Made()

    def __setstate__(self, state):
        pass

    def __setitem__(self, key, value):
        pass

    def append(self, _value):
        pass

    def extend(self, _values):
        pass

    def add(self, _value):
        pass


REAL = {("builtins", "str"): str, ("__builtin__", "str"): str, ("builtins", "set"): set, ("builtins", "list"): list,
        ("builtins", "dict"): dict, ("collections", "OrderedDict"): OrderedDict, ("builtins", "bytearray"): bytearray}


def unpickler(base):
    class Recording(base):
        def __init__(self, *args):
            super().__init__(*args)
            self.names = []

        def find_class(self, module, name):
            self.names.append((module, name))
            return REAL.get((module, name), Made)

        def persistent_load(self, _pid):
            return Made()

    return Recording


UNPICKLERS = [unpickler(pickle.Unpickler), unpickler(pickle._Unpickler)]


def resolved(data):
    """The names that each unpickler asked for, up to where it failed; and whether one of them came to the end."""
    names, ended = set(), False
    for kind in UNPICKLERS:
        copyreg.clear_extension_cache()
        u = kind(io.BytesIO(data))
        try:
            u.load()
            ended = True
        except Exception:  # pylint: disable=broad-except  # whatever it fails of
            pass
        names.update(u.names)
    return names, ended


# ---- arguments ----

def number(r):
    return r.choice([0, 1, 2, 3, r.randrange(256), r.randrange(65536), r.randrange(1 << 20)])


def decimal(r):
    n = r.choice([0, 1, 5, 10, r.randrange(300)])
    return r.choice(["%d"] * 12 + ["%dL", " %d", "%d ", "+%d", "-%d", "0%d", "0x%x", "0X%x", "0b%d", "0o%o", "%d_0", "%d\0x", "\t%d", "%d\r", "%d.0", "%de1", "0%dL"]).replace("%", "%", 1) % n


def word(r):
    return r.choice(MODULES + MEMBERS + ["latin1", "a", "x" * r.randrange(400)])


def quoted(r):
    s = word(r)
    kind = r.randrange(8)
    if kind == 0 and s:
        i = r.randrange(len(s))
        s = s[:i] + r.choice(["\\x%02x", "\\%03o", "\\%o"]) % (ord(s[i]) & 0xff) + s[i + 1:]
    elif kind == 1:
        s += r.choice(["\\", "\\\\", "\\n", "\\q", "\\x4", "\\'", "'", "\\u0041", "\\N{DIGIT ONE}", "\\8"])
    mark = r.choice("''''\"")
    return r.choice(["", "", "", "", " "]) + mark + s + mark + r.choice(["", "", "", "", "", " ", "\r", "x"])


def raw(r):
    s = word(r)
    kind = r.randrange(8)
    if kind == 0 and s:
        i = r.randrange(len(s))
        s = s[:i] + r.choice(["\\u%04x", "\\U%08x", "\\\\u%04x", "\\u%04X"]) % ord(s[i]) + s[i + 1:]
    elif kind == 1:
        s += r.choice(["\\", "\\\\", "\\u12", "\\ud800", "\\U00110000", "\\x41", "\r"])
    return s


def counted(r, width):
    data = word(r).encode() if r.random() < 0.9 else r.randbytes(r.randrange(12))
    n = len(data) if r.random() < 0.99 else number(r)
    return (n & ((1 << 8 * width) - 1)).to_bytes(width, "little") + data


def argument(r, op):
    """Bytes behind an opcode, as its reader in pickletools wants them, and now and then otherwise."""
    name = op.name
    if name in ("GLOBAL", "INST"):
        return f"{r.choice(MODULES)}\n{r.choice(MEMBERS)}{r.choice(['', '', '', '', '', chr(13)])}\n".encode("utf-8")
    if name in ("INT", "LONG", "FLOAT"):
        text = decimal(r)
        if name == "LONG" and r.random() < 0.7:
            text += "L"
        if name == "INT" and r.random() < 0.3:
            text = r.choice(["00", "01", "02", "001", "1" * r.randrange(1, 60)])
        if name == "FLOAT" and r.random() < 0.3:
            text = r.choice(["nan", "inf", "-Infinity", "1e5", "1_0.5", "0x1p3", "1e", ".5", "NaN(1)", "5.", "1d5"])
        return text.encode() + b"\n"
    if name in ("PUT", "GET"):
        return (str(r.randrange(6)) if r.random() < 0.9 else decimal(r)).encode() + b"\n"
    if name in ("BINPUT", "BINGET"):
        return bytes([r.randrange(6)])
    if name in ("LONG_BINPUT", "LONG_BINGET"):
        return struct.pack("<I", r.randrange(6) if r.random() < 0.9 else number(r))
    if name == "STRING":
        return quoted(r).encode() + b"\n"
    if name == "UNICODE":
        return raw(r).encode("utf-8") + b"\n"
    if name == "PERSID":
        return word(r).replace("\n", "").encode() + b"\n"
    if name == "PROTO":
        return bytes([r.choice([0, 1, 2, 3, 4, 5, 5, 6])])
    if name == "FRAME":
        return struct.pack("<Q", r.randrange(64))
    if name.startswith("EXT"):
        return (r.choice(list(EXTENSIONS)) if r.random() < 0.8 else number(r)).to_bytes(4, "little")[:int(name[3])] if name != "EXT1" else bytes([r.choice([1, 200, 7])])
    if name in ("LONG1", "LONG4"):
        return counted(r, int(name[4]))
    if op.arg is None:
        return b""
    if op.arg.n >= 0:
        return r.randbytes(op.arg.n)
    width = {pickletools.TAKEN_FROM_ARGUMENT1: 1, pickletools.TAKEN_FROM_ARGUMENT4: 4, pickletools.TAKEN_FROM_ARGUMENT4U: 4,
             pickletools.TAKEN_FROM_ARGUMENT8U: 8}[op.arg.n]
    return counted(r, width)


def coded(r, name):
    op = OPCODES[name]
    return op.code.encode("latin-1") + argument(r, op)


# ---- whole pickles ----

STRINGS = ["SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE", "STRING", "SHORT_BINSTRING", "BINSTRING"]
LEAVES = STRINGS + ["NONE", "NEWTRUE", "INT", "LONG", "LONG1", "BININT", "BININT1", "FLOAT", "BINFLOAT", "BINBYTES", "SHORT_BINBYTES",
                    "BYTEARRAY8", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_SET", "GLOBAL", "GLOBAL", "PERSID", "EXT1", "EXT2", "EXT4"]
PUTS = ["PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"]
GETS = ["GET", "BINGET", "LONG_BINGET"]


def text_code(r, s):
    """A text in any of its spellings."""
    name, data = r.choice(STRINGS), s.encode("utf-8", "surrogatepass")
    if name == "UNICODE":
        escaped = "".join(r.choice(["\\u%04x" % ord(c), c]) if r.random() < 0.1 or c in "\n\\" else c for c in s)
        return b"V" + escaped.encode("latin-1", "replace") + b"\n"
    if name == "STRING":
        escaped = "".join(r.choice(["\\x%02x", "\\%03o"]) % ord(c) if r.random() < 0.1 and ord(c) < 256 else c for c in s)
        return b"S'" + escaped.encode("utf-8").replace(b"\n", b"\\n") + b"'\n"
    code = OPCODES[name].code.encode("latin-1")
    width = 1 if name.startswith("SHORT") else 8 if name.endswith("8") else 4
    return code + len(data[:255]).to_bytes(width, "little") + data[:255]


def value(r, depth):
    """Opcodes that leave one value on the stack."""
    kind = r.randrange(16) if depth else r.randrange(3)
    deeper = depth - 1
    if kind < 2:
        return coded(r, r.choice(LEAVES))
    if kind == 2:
        return text_code(r, r.choice(MODULES + MEMBERS))
    if kind < 6:  # a name made of two texts, with what may stand between them
        module, member = text_code(r, r.choice(MODULES)), text_code(r, r.choice(MEMBERS))
        return module + between(r, deeper) + member + between(r, deeper) + b"\x93"
    many = r.randrange(4)
    if kind == 6:
        return b"(" + b"".join(value(r, deeper) for _ in range(many)) + r.choice([b"l", b"t", b"d", b"\x91"])
    if kind == 7:
        return b"}(" + b"".join(value(r, deeper) for _ in range(2 * many)) + b"u"
    if kind == 8:
        return r.choice([b"]", b"\x8f", coded(r, "GLOBAL") + b")R"]) + b"(" + b"".join(value(r, deeper) for _ in range(many)) + r.choice([b"e", b"\x90"])
    if kind == 9:
        return value(r, deeper) + r.choice([b"\x85R", b")\x81", b")R", b"\x85\x81", b")}\x92"])
    if kind == 10:
        return b"(" + value(r, deeper) * (many > 1) + coded(r, "INST") if many % 2 else b"(" + value(r, deeper) + value(r, deeper) + b"o"
    if kind == 11:
        return value(r, deeper) + value(r, deeper) + b"b"
    if kind == 12:
        return value(r, deeper) + value(r, deeper) + b"a"
    if kind == 13:
        return value(r, deeper) + value(r, deeper) + value(r, deeper) + b"s"
    if kind == 14:
        return value(r, deeper) + coded(r, r.choice(PUTS)) + between(r, deeper)
    return coded(r, r.choice(GETS))


def between(r, depth):
    """Opcodes that leave the stack as it was."""
    kind = r.randrange(24)
    if kind < 4:
        return coded(r, r.choice(PUTS))
    if kind == 4:
        return value(r, max(depth - 1, 0)) + b"0"
    if kind == 5:
        return b"(" + value(r, max(depth - 1, 0)) + b"1"
    if kind == 6:
        return b"20"
    if kind == 7:
        return b"(0"
    if kind == 8:
        return b"0" + coded(r, r.choice(GETS))
    if kind == 9:
        return coded(r, r.choice(["FRAME", "PROTO"]))
    return b""


def grown(r):
    head = r.choice([b"", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"])
    body = b"".join(between(r, 3) + value(r, r.randrange(5)) + r.choice([b"0", b"", b"q\0", b"\x94"]) for _ in range(r.randrange(1, 4))) + value(r, 3)
    if head >= b"\x80\x04" and r.random() < 0.3:
        body = b"\x95" + struct.pack("<Q", len(body) + r.choice([1, 1, 1, 0, 2, -1])) + body
    return head + body + b"."


def seeds():
    things = [{"a": os.getcwd, "b": [1, 2.5, "x", b"y", None, True, 1 << 70]}, [OrderedDict(a=1), datetime.date(2020, 1, 2)], {1, 2}, frozenset("ab"),
              (os.getcwd, os.getcwd), bytearray(b"abc"), [Counter("aab"), range(3), complex(1, 2), slice(1, 2, 3)], {"k" * 300: [[]] * 3}, -5, "\u00e9\ud800"]
    honest = [pickle.dumps(thing, proto) for thing in things for proto in range(6)]
    evil = [b"cposix\nsystem\nX\x04\0\0\0echo\x85R.", b"(S'echo'\niposix\nsystem\n.", b"cposix\nsystem\np0\n(S'echo'\np1\ntp2\nRp3\n.",
            b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04echo\x85R.", b"\x80\x02}(X\x01\0\0\0aK\1X\x01\0\0\0bcos\nsystem\n)Ru.",
            b"\x80\x02\x82\x01X\x04\0\0\0echo\x85R.", b"(cposix\nsystem\nX\x04\0\0\0echoo.", b"S'posix'\nq\0S'system'\nq\1\x93.",
            b"\x80\x04X\5\0\0\0posix\x94X\6\0\0\0system\x94h\0h\1\x93)R.", b"\x80\x04]\x94(\x8c\x05posix\x8c\x06systeme0h\0\x8c\x05posix\x8c\x06system\x93."]
    return honest + evil


def opcodes(data):
    """The opcodes of a pickle as pieces of it."""
    try:
        at = [pos for _, _, pos in pickletools.genops(data)]
    except Exception:  # pylint: disable=broad-except
        return [data]
    return [data[a:b] for a, b in zip(at, at[1:] + [len(data)])]


def mutated(r, made):
    parts = opcodes(r.choice(made))
    other = opcodes(r.choice(made))
    for _ in range(r.randrange(1, 5)):
        i = r.randrange(len(parts) + 1)
        kind = r.randrange(7)
        if kind == 0:
            parts[i:i + 1] = []
        elif kind == 1:
            parts[i:i] = [coded(r, r.choice(list(OPCODES)))]
        elif kind == 2:
            parts[i:i + 1] = [coded(r, r.choice(list(OPCODES)))]
        elif kind == 3:
            parts[i:i] = parts[max(i - r.randrange(1, 4), 0):i]
        elif kind == 4:
            k = r.randrange(len(other) + 1)
            parts[i:i] = other[k:k + r.randrange(1, 6)]
        elif kind == 5:
            parts[i:i] = [value(r, 2)]
        elif i + 1 < len(parts):
            parts[i], parts[i + 1] = parts[i + 1], parts[i]
    data = b"".join(parts)
    if data and r.random() < 0.3:
        data = bytearray(data)
        for _ in range(r.randrange(1, 4)):
            data[r.randrange(len(data))] = r.choice([r.randrange(256), ord(r.choice("()0123.bcdhijlopqrstu")), 10, 13, 0, 32])
        data = bytes(data)
    return data


# ---- the comparison ----

def wrapped(r, data):
    """The pickle alone, as the data.pkl of a torch file, or as bytes that a pickle hands to a loader."""
    kind = r.randrange(10)
    if kind == 0:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            z.writestr("x/data.pkl", data)
            z.writestr("x/version", "3\n")
        return out.getvalue()
    if kind == 1:
        return b"\x80\x03cpickle\nloads\nB" + struct.pack("<I", len(data)) + data + b"\x85R."
    if kind == 2:
        return b"\x80\x03ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(data)) + data + b"\x85R."
    return data


def spelled(module, name):
    text = f"{module}.{name}".encode("utf-8", "surrogatepass")
    return text[:NAME_BYTES].decode("utf-8", "replace")


def judged(path):
    """verify's result as (passes, word, names)."""
    try:
        result = plimsoll.verify(path, progress=False, values=False, threads=1)
    except plimsoll.Error:
        return False, None, set()
    # Where a carriage return ends the line of a name, both spellings are meant.
    return result.ok, result.pickle, {g.name for g in result.globals}


def compare(names, passes, word, reported):
    """What is wrong with the verdict, or None."""
    hidden = {spelled(*n) for n in names} - reported
    if COMPUTED in reported:
        hidden = set()
    if hidden and (passes or word in ("plain", "listed")):
        return f"not reported: {sorted(hidden)}; {word}, passes: {passes}; reported: {sorted(reported)}"
    if passes and names & {("posix", "system"), ("os", "system"), ("nt", "system"), ("builtins", "eval"), ("os", "popen"), ("shutil", "rmtree")}:
        return f"passes, with {sorted(names)}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=12000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=47)
    parser.add_argument("--keep")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of escapes that no text has
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    for code, name in EXTENSIONS.items():
        copyreg.add_extension(*name, code)
    r, made, failed, ran, loaded, named = random.Random(options.seed), seeds(), [], 0, 0, 0
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.pkl")
        while ran < options.inputs and time.process_time() - begun < options.seconds:
            data = grown(r) if r.random() < 0.5 else mutated(r, made)
            names, ended = resolved(data)
            with open(path, "wb") as f:
                f.write(wrapped(r, data))
            wrong = compare(names, *judged(path))
            ran += 1
            loaded += ended
            named += bool(names)
            if ended and len(data) < 2000 and r.random() < 0.02:
                made[r.randrange(60, len(made)) if len(made) > 400 else len(made):][:1] = [data]
                made.append(data)
            if wrong:
                failed.append(f"{data!r}: {wrong}")
                if options.keep:
                    os.makedirs(options.keep, exist_ok=True)
                    with open(os.path.join(options.keep, f"{len(failed)}.pkl"), "wb") as f, open(path, "rb") as made_file:
                        f.write(made_file.read())
    print("\n".join(failed[:40]) or "every name that Python resolves is reported")
    print(f"{ran} inputs: {loaded} load to the end, {named} name something, {len(failed)} fail; seed {options.seed}")
    sys.exit(bool(failed) or named * 4 < ran)


if __name__ == "__main__":
    main()
