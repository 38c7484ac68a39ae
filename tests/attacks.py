#!/usr/bin/env python3
"""Checkpoints that lie: attacks.py PROGRAM.

Every file is made here.  What runs code in a loader must end with exit code 1 and the callable named, however it is
spelled; what torch would read otherwise than we do is not whole; a folder without weights is none; GGUF is read as
llama.cpp reads it.
"""
import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

import lib
from lib import expect

MAGIC = 0x1950a86a20f9469cfc6c
MAGIC_BYTES = MAGIC.to_bytes(10, "little")
EVIL = b"cposix\nsystem\nX\x04\0\0\0echo\x85R"
PLAIN_PICKLE = b"\x80\x02}q\0X\x01\0\0\0aq\1K\1s."


def put(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)
    return path


def verify(path, *more):
    done = lib.run("ckpt", "verify", "--json", *more, path, codes=(0, 1))
    return json.loads(done.stdout), done.returncode


def names(r, trust):
    return {g["name"] for g in r["globals"] if g["trust"] == trust}


def kinds(r):
    return {f["id"] for f in r["findings"]}


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def dangerous(folder, name, data, call="posix.system"):
    r, code = verify(put(folder, name, data))
    expect(code == 1 and r["verdict"] == "dangerous" and call in names(r, "dangerous"), name, code, r["verdict"], r["globals"])
    return r


def torch_zip(records, top="x", flag=None):
    """A zip as torch.save lays it out; flag: external attributes of one record."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in records.items():
            info = zipfile.ZipInfo(f"{top}/{name}")
            info.external_attr = flag[1] if flag and flag[0] == name else 0
            z.writestr(info, data)
    return out.getvalue()


def tensor(key="0", count=4):
    return (b"ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") +
            b"K" + bytes([count]) + b"tQK\0K" + bytes([count]) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR")


def state_dict(*more):
    return b"\x80\x02}(" + text("w") + tensor() + b"".join(more) + b"u."


def test_spellings(folder):
    """torch compares the magic number by its value: whatever way it is written, the fourth pickle runs."""
    spellings = {"long1": b"\x8a\x0a" + MAGIC_BYTES, "put": b"\x8a\x0a" + MAGIC_BYTES + b"q\0",
                 "long4": b"\x8b\x0a\0\0\0" + MAGIC_BYTES, "padded": b"\x8a\x0c" + MAGIC_BYTES + b"\0\0",
                 "pop": b"N0\x8a\x0a" + MAGIC_BYTES, "text": b"I%d\n" % MAGIC, "text long": b"L%dL\n" % MAGIC,
                 "dup": b"\x8a\x0a" + MAGIC_BYTES + b"20", "memo": b"\x8a\x0a" + MAGIC_BYTES + b"q\0" b"0h\0"}
    for name, spelled in spellings.items():
        for proto in (b"\x80\x02", b""):
            rest = b"\x80\x02M\xe9\3." + pickle.dumps({"little_endian": True}, 2) + b"\x80\x02" + EVIL + b"." + b"\x80\x02]."
            r = dangerous(folder, name.replace(" ", "_") + ".pt", proto + spelled + b"." + rest)
            expect(r["kind"] == "torch_legacy", name, r["kind"])


def test_protocols(folder):
    """Pickles of protocols 0 and 1 begin with no mark of their own; other texts are none."""
    dangerous(folder, "p0.pkl", b"cposix\nsystem\np0\n(S'echo'\np1\ntp2\nRp3\n.")
    dangerous(folder, "inst.pkl", b"(S'echo'\niposix\nsystem\n.")
    dangerous(folder, "py2.pkl", b"c__builtin__\neval\n(S'1'\ntR.", "__builtin__.eval")
    dangerous(folder, "cut.pkl", b"cposix\nsystem\n(X\xff\0\0\0echo")
    dangerous(folder, "crlf.pkl", b"cos\r\nsystem\r\n(S'echo'\ntR.", "os.system")
    r, code = verify(put(folder, "benign.pkl", pickle.dumps({"a": [1, 2.5, "x"]}, 0)))
    expect(not code and r["pickle"] == "listed", r)
    for said in ("Not found.\n", "Internal error: no such model\n", "{\"error\": 404}", "could not open\nfile\n", "x" * 5000, "p.", "0.5\n"):
        r, code = verify(put(folder, "said.txt", said))
        expect(code == 1 and r["kind"] != "pickle" and not r["globals"], said, r["kind"], r["headline"])


def test_stacked(folder):
    """What stands behind a pickle is loaded by whoever loads again, and in torch's own files at once."""
    dangerous(folder, "second.pkl", PLAIN_PICKLE + b"\x80\x02" + EVIL + b".")
    dangerous(folder, "third.pkl", PLAIN_PICKLE * 2 + b"cposix\nsystem\n(S'x'\ntR.")
    dangerous(folder, "inside.pt", torch_zip({"data.pkl": PLAIN_PICKLE + b"\x80\x02" + EVIL + b".", "version": "3\n"}))
    r, code = verify(put(folder, "two.pkl", PLAIN_PICKLE * 2))
    expect(not code and "stacked" in kinds(r), r["findings"])
    nested = b"\x80\x02ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(EVIL) + 3) + b"\x80\x02" + EVIL + b".\x85R."
    dangerous(folder, "nested.pkl", nested)
    dangerous(folder, "unused.pt", torch_zip({"data.pkl": PLAIN_PICKLE, "version": "3\n", "data/9": b"cposix\nsystem\n(S'x'\ntR."}))
    r, code = verify(put(folder, "frame.pkl", b"\x80\x04\x95" + struct.pack("<Q", 2) + b"C\x05abcde."))
    expect(code == 1 and "form" in kinds(r), "an opcode over the end of its frame", r["findings"])
    r, code = verify(put(folder, "proto.pkl", b"\x80\x02N0\x80\x04N."))
    expect(code == 1 and "form" in kinds(r), "a second protocol", r["findings"])
    r, code = verify(put(folder, "key.pkl", b"\x80\x04}\x94h\0K\1s."))
    expect(code == 1 and "unhashable_key" in kinds(r), r["findings"])


def given(data, call=b"ctorch.storage\n_load_from_bytes\n"):
    """A pickle that hands bytes to a loader."""
    return b"\x80\x03" + call + b"B" + struct.pack("<I", len(data)) + data + b"\x85R."


def as_text(data):
    """The same as protocols below 3 write bytes."""
    raw = data.decode("latin-1").encode()
    return (b"\x80\x02ctorch.storage\n_load_from_bytes\nc_codecs\nencode\nX" + struct.pack("<I", len(raw)) + raw + text("latin1") + b"\x86R\x85R.")


def stream(data):
    """An io.BytesIO as it is pickled."""
    return b"\x80\x03c_io\nBytesIO\n)\x81(B" + struct.pack("<I", len(data)) + data + b"K\0Ntb."


def legacy(root, storages=((b"0", 4),)):
    """A file of torch.save before 1.6."""
    keys = b"\x80\x02](" + b"".join(text(k.decode()) for k, _ in storages) + b"e."
    return (b"\x80\x02\x8a\x0a" + MAGIC_BYTES + b".\x80\x02M\xe9\3." + pickle.dumps({"little_endian": True}, 2) + root + keys +
            b"".join(struct.pack("<q", n) + bytes(4 * n) for _, n in storages))


STORAGE = b"\x80\x02(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\4NtQ."  # what pickle.dump keeps of a tensor


def tar_of(name, data):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_inside(folder):
    """Only pickles that began right behind the last one were seen in bytes that a loader is given: a zip in them was passed as
    plain.  They are a file of their own, and what is not wholly one is unknown."""
    evil = b"\x80\x02" + EVIL + b"."
    hostile = {"zip": torch_zip({"data.pkl": evil, "version": "3\n"}), "legacy": legacy(evil, ()), "pickle": evil, "tar": tar_of("pickle", evil),
               "system": legacy(PLAIN_PICKLE, ()).replace(pickle.dumps({"little_endian": True}, 2), evil),
               "zip in zip": torch_zip({"data.pkl": given(torch_zip({"data.pkl": evil, "version": "3\n"})), "version": "3\n"})}
    # Python's own rules of a number are wider than any pickler's.
    for number in ("L 5L", "I 5", "I1_0", "I+7", "L0x1fL", "I\t5 ", "L5", "I0b1", "I0o7", "I5\0x", "F1_0.5", "F Infinity", "F1e5"):
        hostile["number " + number.encode().hex()] = number.encode() + b"\n0cposix\nsystem\n(S'x'\ntR."
    loaders = {"load": given, "text": as_text, "stream": stream, "loads": lambda data: given(data, b"cpickle\nloads\n"),
               "torch": lambda data: given(data, b"ctorch\nload\n"), "joblib": lambda data: given(data, b"cjoblib\nload\n"),
               "in a file": lambda data: torch_zip({"data.pkl": given(data), "version": "3\n"}), "thrice": lambda data: given(given(as_text(data)))}
    for kind, data in hostile.items():
        for loader, hand in loaders.items():
            dangerous(folder, "inside.bin", hand(data))
    for number in ("L 5L", "I1_0", "L0x1fL"):
        dangerous(folder, "number.pkl", number.encode() + b"\n0cposix\nsystem\n(S'x'\ntR.")
    good = {"tensor": legacy(STORAGE), "zip": torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)}),
            "dict": legacy(state_dict()), "pickle": PLAIN_PICKLE, "nothing": b""}
    for kind, data in good.items():
        for loader in ("load", "text", "stream", "in a file", "thrice"):
            r, code = verify(put(folder, "good.bin", loaders[loader](data)))
            expect(not code and r["pickle"] == "listed", kind, loader, r["headline"], r["findings"], r["globals"])
    # Protocols below 3 write no bytes at all as a call.
    r, code = verify(put(folder, "none.pkl", b"\x80\x02c_io\nBytesIO\n)\x81(c__builtin__\nbytes\n)RK\0Ntb."))
    expect(not code and r["pickle"] == "listed", r["headline"], r["findings"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x/data.pkl", state_dict())
    deep = PLAIN_PICKLE
    for _ in range(40):
        deep = given(deep)
    doubtful = {"words": b"hello", "zeros": bytes(512), "behind": good["tensor"] + b"x", "before": b"x" + good["zip"], "behind a pickle": PLAIN_PICKLE + b"x",
                "behind a zip": good["zip"] + b"x", "cut": good["tensor"][:-1], "half a zip": good["zip"][:-30], "packed": packed.getvalue(), "deep": deep,
                "array": array(1), "safetensors": safetensors({"a": b"12345678"}), "tar": tar_of("a", PLAIN_PICKLE), "nemo": tar_of("a", good["zip"])}
    for kind, data in doubtful.items():
        for loader in ("load", "text", "stream", "in a file"):
            r, code = verify(put(folder, "doubtful.bin", loaders[loader](data)))
            expect(code == 1 and r["pickle"] == "unknown", kind, loader, code, r["headline"], r["globals"])
    # The same bytes a thousand times are opened once.
    once = legacy(STORAGE, ((b"0", 4),)).replace(b"K\4NtQ", b"J" + struct.pack("<i", 1 << 20) + b"NtQ")[:-24] + struct.pack("<q", 1 << 20) + bytes(4 << 20)
    body = b"\x80\x03B" + struct.pack("<I", len(once)) + once + b"q\0](" + b"ctorch.storage\n_load_from_bytes\nh\0\x85R" * 20000 + b"e."
    r, code = verify(put(folder, "again.pkl", body))
    expect(r["pickle"] == "listed", r["headline"], r["findings"], r["globals"])


def test_behind(folder):
    """Behind a pickle's STOP only what began a pickle at once was judged; whoever skips a few bytes loads it all the same."""
    junks = (b"\0", b"junk", b"\x80", b"\x80\2", bytes(1000), b"c\n\n", bytes(range(256)))
    pickles = {"2": b"\x80\x02" + EVIL + b".", "0": b"cposix\nsystem\n(S'x'\ntR.", "inst": b"(S'echo'\niposix\nsystem\n.", "cut": b"\x80\x02" + EVIL,
               "frame": b"\x80\x04\x95" + struct.pack("<Q", len(EVIL) + 1) + EVIL + b"."}
    whole = torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)})
    for junk in junks:
        for name, evil in pickles.items():
            dangerous(folder, "behind.pkl", PLAIN_PICKLE + junk + evil + b"junk")
            dangerous(folder, "record.pt", torch_zip({"data.pkl": PLAIN_PICKLE + junk + evil, "version": "3\n"}))
            dangerous(folder, "behind.pt", whole + junk + evil)
        if junk == b"\x80\2":
            continue  # the beginning of a pickle by itself is a cut one
        r, code = verify(put(folder, "junk.pkl", PLAIN_PICKLE + junk))
        expect(not code and r["pickle"] == "listed" and "after_pickle" in kinds(r), junk, r["headline"], r["globals"])
        r, code = verify(put(folder, "junk.pt", whole + junk))
        expect(not code and r["pickle"] == "plain" and "trailing_bytes" in kinds(r), junk, r["headline"], r["globals"])
    # More than is looked at is not called plain.
    for data in (bytes(2 << 20), b"\x80\2\1" * 2000):
        r, code = verify(put(folder, "much.pkl", PLAIN_PICKLE + data))
        expect(code == 1 and r["pickle"] == "unknown", len(data), r["headline"])


def test_tar(folder):
    """torch tries a tar before it looks for a pickle: the first member's name is one here, whose bytes say plain."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in (("N.", b"x"), ("storages", pickle.dumps(0, 2) + pickle.dumps([], 2)), ("tensors", pickle.dumps(0, 2)),
                           ("pickle", b"\x80\x02" + EVIL + b".")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    dangerous(folder, "polyglot.pt", out.getvalue())
    header = bytearray(out.getvalue())
    header[148:156] = b"%o\0zzz" % sum(header[:148] + b" " * 8 + header[156:512])  # as Python reads it: up to the NUL
    r, code = verify(put(folder, "odd_sum.pt", bytes(header)))
    expect(code == 1 and r["kind"] == "tar", r["kind"])
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in (("./model_config.yaml", b"a: 1\n"), ("./model_weights.ckpt", torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)}))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    r, code = verify(put(folder, "model.nemo", out.getvalue()))
    expect(not code and r["kind"] == "tar" and len(r["tensors"]) == 1 and r["pickle"] == "listed", code, r["headline"], r["tensors"])
    flipped = bytearray(out.getvalue())
    flipped[out.getvalue().rindex(bytes(16), 0, out.getvalue().rindex(b"PK\1\2")) + 3] ^= 1
    expect(verify(put(folder, "flipped.nemo", bytes(flipped)))[1] == 1, "a flip in a checkpoint in a tar")


def test_names(folder):
    """An allowlist: what is on no list is unknown, what leads through a module or runs code is dangerous."""
    def named(module, name, rest=b")R"):
        return verify(put(folder, "n.pkl", b"\x80\x02c" + module.encode() + b"\n" + name.encode() + b"\n" + rest + b"."))

    for module, name in (("torch", "os.system"), ("torch.serialization", "os.system"), ("pathlib", "os.system"), ("pathlib", "os"),
                         ("numpy", "sys.modules"), ("mine", "__class__.__bases__"), ("torch.nn.modules.module", "os.system"),
                         ("uuid", "_get_command_stdout"), ("torch.utils.collect_env", "run"), ("_io", "FileIO"), ("io", "open"),
                         ("types", "CodeType"), ("cloudpickle.cloudpickle", "_make_function"), ("builtins", "map")):
        r, code = named(module, name)
        expect(code == 1 and r["verdict"] == "dangerous", module, name, r["verdict"])
    for module, name in (("mine", "Model"), ("__main__", "Args"), ("torch.nn", "functional.relu"), ("torch.nn.functional", "relu"),
                         ("torch.optim.sgd", "SGD"), ("collections", "namedtuple"), ("accelerate.utils.dataclasses", "DeepSpeedPlugin"),
                         ("torch.distributed._tensor.placement_types", "DeviceMesh")):
        rest = b"K\1\x85R"
        r, code = named(module, name, rest)
        expect(code == 1 and r["verdict"] == "unknown_code" and f"{module}.{name}" in names(r, "unknown"), module, name, r["verdict"], r["globals"])
    # Without arguments, too: AcceleratorState() asks nvidia-smi.  What listens on a socket when it is loaded is on no list.
    for module, name, rest in (("accelerate.state", "AcceleratorState", b")R"), ("sklearn.callback", "ScoringMonitor", b")\x81}b"),
                               ("sklearn.datasets._base", "NamedTemporaryFile", b"0(isklearn.datasets._base\nNamedTemporaryFile\n")):
        r, code = named(module, name, rest)
        expect(code == 1 and f"{module}.{name}" in names(r, "unknown"), module, name, r["verdict"], r["globals"])
    for module, name, rest in (("argparse", "Namespace", b")\x81}b"), ("argparse", "Namespace", b"0(iargparse\nNamespace\n}b"), ("torch.nn.modules.linear", "Linear", b")\x81}b"),
                               ("torch.nn.functional", "relu", b""), ("scipy._lib.array_api_compat.numpy._aliases", "asarray", b""),
                               ("collections", "OrderedDict", b")R"),
                               ("transformers.trainer_utils", "IntervalStrategy", text("no") + b"\x85R")):
        r, code = named(module, name, rest)
        expect(not code and r["pickle"] == "listed", module, name, r["verdict"], r["globals"])


def test_uses(folder):
    """Constructors of anything are harmless for what is known; called results and values that call are not."""
    partial, get = b"cfunctools\npartial\n", b"cbuiltins\ngetattr\n"
    relu, evil = b"ctorch.nn.functional\nrelu\n", b"cposix\nsystem\n"
    reconstruct = b"ccopy_reg\n_reconstructor\n"
    cases = [(partial + relu + b"\x85R", "listed"), (partial + relu + b"\x85\x81(" + relu + b")}NtbN0", "listed"),
             (partial + relu + b"\x85\x81(" + b"cmine\nf\n" + b")}Ntb", "unknown"), (partial + b"cmine\nf\n\x85R", "unknown"),
             (partial + evil + b"\x85R", "dangerous"), (b"]" + partial + b"a", "unknown"),
             (partial + relu + b"\x85R)R", "unknown"),
             (get + b"cargparse\nNamespace\n" + text("RED") + b"\x86R", "listed"),
             (get + b"cargparse\nNamespace\n" + text("mro") + b"\x86R", "unknown"),
             (b"(" + get + b"NNNNNt", "dangerous"),  # six values are not a call
             (reconstruct + b"cargparse\nNamespace\nc__builtin__\nobject\nN\x87R", "listed"),
             (reconstruct + b"cmine\nX\nc__builtin__\nobject\nN\x87R", "unknown"),
             (reconstruct + b"cargparse\nNamespace\ncmine\nX\nN\x87R", "unknown"),
             (reconstruct + b"cargparse\nNamespace\ncpathlib\nPosixPath\nN\x87R", "unknown"),
             (b"ctorch._tensor\n_rebuild_from_type_v2\n(" + relu + b"ctorch\nTensor\n)NtR", "unknown")]
    for i, (body, want) in enumerate(cases):
        r, code = verify(put(folder, f"use{i}.pkl", b"\x80\x02" + body + b"."))
        expect(r["pickle"] == want and code == (want != "listed"), i, body, want, r["pickle"], r["globals"])


CSV = b"cstable_baselines3.common.running_mean_std\nRunningMeanStd\n"  # a class of the list, which is not to be called with arguments
NAMESPACE = b"cargparse\nNamespace\n)\x81"


def test_proxies(folder):
    """A class that the list has for being made empty was called by others: numpy's constructors, a partial, __setstate__ as an
    attribute, append of an object.  What may only be named or made empty is unknown if anything can call it."""
    partial, rebuild, odict = b"cfunctools\npartial\n", b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ccollections\nOrderedDict\n"
    relu, layer, path = b"ctorch.nn.functional\nrelu\n", b"ctorch.nn.modules.normalization\nLayerNorm\n", text("/nowhere")
    setstate, scalar = text("__setstate__"), b"cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n" + text("U12") + b"\x85R" + text("x") + b"tR"
    unknown = [b"cnumpy.random._pickle\n" + ctor + b"\n" + path + f + b"\x86R" for ctor in (b"__randomstate_ctor", b"__generator_ctor", b"__bit_generator_ctor")
               for f in (CSV, relu, CSV + b")\x81", b"cargparse\nNamespace\n")]
    unknown += [b"cpandas.core.indexes.base\n_new_Index\n" + CSV + b"}\x86R", b"cnumpy.core.multiarray\nscalar\n" + CSV + path + b"\x86R",
                partial + CSV + b"\x85R", partial + CSV + path + b"\x86R", partial + relu + b"\x85\x81(" + CSV + path + b"\x85}NtbN0",
                partial + b"cnumpy.random._pickle\n__randomstate_ctor\n" + path + CSV + b"\x87R", partial + b"cfunctools\npartial\n" + relu + b"\x86R"]
    unknown += [rebuild + b"(" + func + b"ctorch\nTensor\n" + path + b"\x85}tR" for func in
                (CSV, b"ctorch._tensor\n_rebuild_from_type_v2\n", b"ccollections\nOrderedDict\n", partial + relu + b"\x85R", b"(" + CSV + b"N1" + CSV)]
    # The state that is set becomes attributes, which the next opcode calls.
    for name, end in (("__setstate__", path + b"b"), ("x", path + b"b"), ("append", path + b"a"), ("extend", b"(" + path + b"e"), ("add", b"(" + path + b"\x90"),
                      ("x", text("k") + path + b"s"), ("x", b"(" + text("k") + path + b"u"), ("x", b"Nb"), ("x", b"}b")):
        for start in (NAMESPACE, odict + b")R", tensor().replace(b"ctorch._utils", b"ctorch._utils")):
            unknown.append(start + b"}" + text(name) + relu + b"sb" + end)
    for start in (NAMESPACE, b"cmunch\nMunch\n)\x81", odict + b")R"):
        unknown.append(start + b"}" + setstate + CSV + b"sb")
        unknown.append(start + b"N}" + setstate + CSV + b"s\x86b")
        unknown.append(start + b"}" + text("__dict__") + b"}" + setstate + partial + relu + b"\x85Rssb")
        unknown.append(start + b"}" + scalar + CSV + b"sb")
    unknown += [b"cmunch\nMunch\n)\x81" + setstate + CSV + b"s", b"cmunch\nMunch\n" + b"}" + text("a") + CSV + b"s\x85R", odict + b"]" + setstate + CSV + b"\x86a\x85R",
                b"ctorch._utils\n_rebuild_parameter_with_state\n(" + tensor() + b"\x89" + odict + b")R}" + setstate + relu + b"stR"]
    # Neither a list nor a dict; arguments that no one reads here; what a row for classes must not have; modules.
    unknown += [NAMESPACE + path + b"a", NAMESPACE + b"(" + path + b"e", NAMESPACE + b"(" + path + b"\x90", NAMESPACE + path + path + b"s", odict + b")R" + path + b"a",
                b"ctorch.storage\nUntypedStorage\nK\x08\x85RK\1K\2s", tensor() + b"K\1a", b"cnumpy\nndarray\n)RK\1K\2s",
                CSV + b"cbuiltins\ntuple\n](" + path + b"e\x85RR", CSV + path + b"\x85R", CSV + path + b"\x85o"[:-1] + b"R",
                b"cstable_baselines3.common.vec_env.base_vec_env\nCloudpickleWrapper\n)\x81C\1xb", b"ce3nn.util.codegen._mixin\nCodeGenMixin\n)\x81}b",
                b"ce3nn.o3._linear\nLinear\n)\x81}b", b"cmace.modules.symmetric_contraction\nSymmetricContraction\n)\x81}b",
                b"csklearn.externals.joblib.numpy_pickle\nNDArrayWrapper\n)\x81}b", b"ctorch.nn.functional\ntorch\n", b"ctorch.nn.functional\nwarnings\n",
                b"ctorch.nn.init\nmath\n", b"ctorchmetrics.utilities.data\ntorch\n", b"cbuiltins\nstr\n" + path + b"\x85R"]
    for i, body in enumerate(unknown):
        r, code = verify(put(folder, "proxy.pkl", b"\x80\x04" + body + b"."))
        expect(code == 1 and r["pickle"] == "unknown", i, body, r["pickle"], r["headline"], r["globals"])
    ctor = b"cnumpy.random._pickle\n__bit_generator_ctor\n"
    plain = [b"cnumpy.random._pickle\n__randomstate_ctor\n" + text("MT19937") + ctor + b"\x86R", b"cnumpy.random._pickle\n__randomstate_ctor\n" + text("MT19937") + b"\x85R}b",
             b"cnumpy.random._pickle\n__generator_ctor\n" + ctor + b"cnumpy.random._pcg64\nPCG64\n\x85R\x85R", ctor + b"cnumpy.random._mt19937\nMT19937\n\x85R}b",
             b"cpandas.core.indexes.base\n_new_Index\ncpandas.core.indexes.base\nIndex\n}\x86R", scalar, b"}" + scalar + scalar + b"s",
             partial + layer + b"\x85R", partial + layer + b"\x85\x81(" + layer + b")}Ntb", partial + b"ctorch.nn.init\nxavier_uniform_\n\x85R",
             odict + b")R(" + text("a") + b"K\1u}" + text("_metadata") + odict + b")Rsb", odict + b"]" + text("append") + tensor() + b"\x86a\x85R",
             b"ccollections\ndeque\n]\x85R(K\1K\2e", b"ccollections\ndefaultdict\ncbuiltins\nlist\n\x85R" + text("a") + b"]s", b"cmunch\nMunch\n)\x81" + text("a") + b"K\1s}b",
             NAMESPACE + b"}" + text("append") + relu + b"sb", NAMESPACE + b"}" + text("__x__") + b"K\1sb", CSV + b")\x81}b", CSV, b"}" + text("add") + layer + b")\x81}bs",
             rebuild + b"(ctorch._utils\n_rebuild_tensor_v2\nctorch.nn.parameter\nParameter\n" + b"((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") +
             b"K\4tQK\0K\4\x85K\1\x85\x89" + odict + b")Rt}tR"]
    for i, body in enumerate(plain):
        r, code = verify(put(folder, "plain.pt", torch_zip({"data.pkl": b"\x80\x04" + body + b".", "version": "3\n", "data/0": bytes(16)})))
        expect(r["pickle"] == ("plain" if names(r, "plain") == {g["name"] for g in r["globals"]} else "listed"), i, body, r["pickle"], r["headline"], r["globals"], r["findings"])


def test_differences(folder):
    """What tests/pickle_differential.py found: a call of what is not a name (a crash); names that only Python's unpicklers read, in
    files that were called plain or listed because of the names before them."""
    r, code = verify(put(folder, "called.pkl", b"\x80\x02cio\nBytesIO\n(U\x01a)o\x85R."))
    expect(code == 1 and r["pickle"] in ("unknown", "dangerous"), r["headline"])
    for name, called in (("posix\nsystem", "posix.syste"), ("os\nx", "os."), ("osx", "os.")):
        for opcode in "ci":
            r, code = verify(put(folder, "cut.pkl", PLAIN_PICKLE[:-1] + opcode.encode() + name.encode()))
            expect(code == 1 and called in {g["name"] for g in r["globals"]} and r["pickle"] in ("unknown", "dangerous"), name, r["globals"], r["pickle"])
    # Behind what is refused, Python may go on.
    for behind in (b"\x82\1.", b"c\0os\nsystem\n.", b"cos\0\nsystem\n."):
        r, code = verify(put(folder, "refused.pkl", b"\x80\x02K\1q\0Q0" + behind))
        expect(code == 1 and r["pickle"] == "dangerous", behind, r["pickle"], r["globals"])
    r, code = verify(put(folder, "refused.pkl", b"\x80\x02(ccollections\nOrderedDict\n0]K\1b\x85."))
    expect(code == 1 and r["pickle"] == "unknown", r["pickle"])
    r, code = verify(put(folder, "frame.pkl", b"\x80\x04\x95\3\0\0\0\0\0\0\0c__builtin__\nset\n."))
    expect(code == 1 and r["pickle"] == "unknown" and "form" in kinds(r), r["pickle"], r["findings"])
    r, code = verify(put(folder, "nul.pkl", b"\x80\x02X\x0c\0\0\0collections\0X\x0b\0\0\0OrderedDict\x93."))
    expect(code == 1 and r["pickle"] == "dangerous", r["pickle"], r["globals"])
    # What was cut elsewhere keeps its word: nothing stands behind it.
    r, code = verify(put(folder, "cut.pkl", b"\x80\x02ccollections\nOrderedDict\n)R(U\x20abc"))
    expect(code == 1 and r["verdict"] == "truncated" and r["pickle"] == "listed", r["verdict"], r["pickle"])


def test_allow(folder):
    """The lines that the text shows are those that let a checkpoint through; what is dangerous stays so."""
    body = b"\x80\x02](cmine\nModel\n)\x81}bcmine.other\nThing\n)Re."
    path = put(folder, "mine.pt", torch_zip({"data.pkl": body, "version": "3\n"}))
    done = lib.run("ckpt", "verify", path, codes=(1,))
    expect(done.stdout.startswith("UNKNOWN CODE"), done.stdout)
    told = [l.strip() for l in done.stdout.split("--allow:")[1].splitlines()[1:] if l.startswith(" " * 12)]
    expect(told == ["mine.Model", "mine.other.Thing"], told)
    listed = put(folder, "allow.txt", "# ours\n" + "\n".join(told) + "  # and theirs\n")
    for more in (("--allow-file", listed), ("--allow", "mine.*"), ("--allow", "mine.Model", "--allow", "mine.other.*"),
                 ("--allow", "mine.Model,mine.other.Thing")):
        done = lib.run("ckpt", "verify", *more, path)
        expect(done.stdout.startswith("WHOLE, LISTED"), more, done.stdout)
        expect(not lib.run("ckpt", "last-good", *more, folder).returncode, more)
    lib.run("ckpt", "verify", "--allow", "mine.Model", path, codes=(1,))
    lib.run("ckpt", "verify", "--allow", "min.*", path, codes=(1,))
    lib.run("ckpt", "verify", "--allow-file", folder + "/none", path, codes=(3,))
    evil = put(folder, "evil.pkl", b"\x80\x02" + EVIL + b".")
    lib.run("ckpt", "verify", "--allow", "posix.system", "--allow", "posix.*", evil, codes=(1,))
    os.unlink(evil)
    # Unknown code is not a reason not to take the tensors.
    path = put(folder, "whole.pt", torch_zip({"data.pkl": state_dict(text("m") + b"cmine\nModel\n)\x81"), "version": "3\n", "data/0": bytes(16)}))
    done = lib.run("ckpt", "convert", path, "-o", folder + "/out.safetensors")
    expect("mine.Model" in done.stderr and verify(folder + "/out.safetensors")[1] == 0, done.stderr)


def overlapping():
    """Two records of which one holds the other, each right by itself."""
    def local(name, data):
        return struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), len(name), 0) + name + data

    def entry(name, data, at):
        return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), len(name), 0, 0, 0, 0, 0, at) + name

    first = local(b"x/data.pkl", PLAIN_PICKLE) + local(b"x/version", b"3\n")
    inner = local(b"x/data/1", b"inside")
    outer = local(b"x/data/0", inner)
    directory = (entry(b"x/data.pkl", PLAIN_PICKLE, 0) + entry(b"x/version", b"3\n", len(local(b"x/data.pkl", PLAIN_PICKLE))) +
                 entry(b"x/data/0", inner, len(first)) + entry(b"x/data/1", b"inside", len(first) + len(outer) - len(inner)))
    body = first + outer
    hole = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 4, 4, len(directory), len(body), 0)
    return body + directory + hole


def test_zip(folder):
    """What miniz makes of a record decides: one marked as a folder is never read."""
    records = {"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(range(16))}
    r, code = verify(put(folder, "good.pt", torch_zip(records)))
    expect(not code and r["integrity"] == "whole" and r["pickle"] == "plain", r["headline"])
    for name in records:
        for attributes, bad in ((0x10, True), (0x20, False), (0o644 << 16, False), (0o644 << 16 | 0x30, True)):
            r, code = verify(put(folder, "folder.pt", torch_zip(records, flag=(name, attributes))))
            expect(code == bad and ("folder_flag" in kinds(r)) == bad, name, attributes, r["findings"])
    r, code = verify(put(folder, "overlap.pt", overlapping()))
    expect(code == 1 and "overlap" in kinds(r), r["findings"])
    # Other programs load what torch does not.
    array = b"\x93NUMPY\1\0" + struct.pack("<H", 54) + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"[:54].ljust(54)
    dangerous(folder, "objects.npy", array + b"\x80\x02" + EVIL + b".")
    dangerous(folder, "objects.npz", torch_zip({"a.npy": array + b"\x80\x02" + EVIL + b"."}))
    dangerous(folder, "packed.zip", torch_zip({"model.dat": b"\x80\x02" + EVIL + b"."}))


def array(value, pickled=None, descr="'|O'"):
    """An .npy file of one object."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + (pickled or pickle.dumps(value, 3))


def test_unnamed(folder):
    """A file of no kind that is read, with a harmless pickle in it, ended the text with a fault: its kind had no name."""
    for name, value in (("dict", {"a": 1}), ("list", [None]), ("text", "x"), ("complex", 1j)):
        path = put(folder, name + ".npy", array(value))
        r, code = verify(path)
        expect(code == 1 and r["verdict"] == "not_a_checkpoint" and r["kind"] == "unknown" and r["pickle"] == "listed", name, r["kind"], r["headline"])
        for verb, codes in (("verify", (1,)), ("show", (0, 1))):
            done = lib.run("ckpt", verb, path, codes=codes)
            expect("a NumPy array" in done.stdout and "LISTED" in done.stdout, verb, name, done.stdout, done.stderr)
    evil = b"\x80\x02" + EVIL + b"."
    for i, descr in enumerate(("'O'", "'|O'", "'object'", "'O8'", '"O"', "'\\x4f'", "'' 'O'", "[('a', 'O')]", "[('a', '<i4'), ('b', 'object')]", "'<f4', 'descr': 'O'", "'<f4', 'd\\x65scr': 'O'")):
        dangerous(folder, f"spelled{i}.npy", array(None, evil, descr))
        dangerous(folder, f"spelled{i}.npz", torch_zip({"a.npy": array(None, evil, descr)}))
    for descr in ("'<f4'", "'|b1'", "'<M8[ns]'", "'|S10'"):  # of numbers: bytes that look so are none
        expect(not verify(put(folder, "numbers.npy", array(None, evil, descr)))[0]["globals"], descr)
    for name, data in (("empty", b""), ("words", b"hello\n"), ("noise", bytes(range(200, 256)))):
        expect(verify(put(folder, name, data))[0]["kind"] == "unknown", name)


def dtype(code="f8", flags=0, size=-1, fields=b"NN"):
    """numpy.dtype(code) with its state, as NumPy pickles it."""
    numbers = b"J" + struct.pack("<i", size) + b"J\xff\xff\xff\xffK" + bytes([flags])
    return b"cnumpy\ndtype\n" + text(code) + b"\x89\x88\x87R(K\x03" + text("<") + b"N" + fields + numbers + b"tb"


def wrapper(data, of=None, shape=b"K\x04\x85", padded=True, more=b""):
    """joblib's wrapper with its array behind it."""
    rows = {"subclass": b"cnumpy\nndarray\n", "shape": shape, "order": text("C"), "dtype": of or dtype(), "allow_mmap": b"\x88"}
    if padded:
        rows["numpy_array_alignment_bytes"] = b"K\x10"
        data = b"\2\xff\xff" + data
    return b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}(" + b"".join(text(k) + v for k, v in rows.items()) + more + b"ub" + data


def joblib_file(*items):
    return b"\x80\x02](" + b"".join(items) + b"e."


FLOATS = struct.pack("<4d", 1, 2, 3, 4)


def test_arrays(folder):
    """joblib's arrays stand between opcodes: such files were called damaged, and what stood behind an array was not named."""
    pickled = b"\x80\x02]K\1a."
    objects = dtype("O8", 63)
    record = dtype("V12", 0, 12, text("a") + text("b") + b"\x86}(" + text("a") + dtype("i4") + b"K\0\x86" + text("b") + dtype() + b"K\4\x86u")
    honest = {
        "one": joblib_file(wrapper(FLOATS), b"K\1"),
        "two": joblib_file(wrapper(FLOATS), wrapper(b"a" * 3, dtype("S3", 0, 3), b")")),
        "old": joblib_file(wrapper(b"\0" * 32, padded=False)),
        "record": joblib_file(wrapper(b"\1" * 48, record)),
        "objects": joblib_file(wrapper(FLOATS), wrapper(pickled, objects, padded=False)),
        "empty": joblib_file(wrapper(b"", shape=b"K\0\x85")),
        # Python's unpickler stops at the end of an array of objects, and what it made by then may be nonsense.
        "objects alone": b"\x80\x02" + wrapper(b"\x80\x02]q\0h\0a.", objects, padded=False) + b".",
        "objects by another memo": b"\x80\x02]q\0" + wrapper(b"\x80\x02K\1q\0" + b"0}h\0K\1s.", objects, padded=False).replace(b"K\1q\0", b"K\1\x94") + b"a.",
        "protocol 0": wrapper(FLOATS) + b".",
    }
    packers = {"": bytes, ".z": zlib.compress, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
               ".lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE)}
    for name, data in honest.items():
        for end, pack in packers.items():
            r, code = verify(put(folder, name + end, pack(data)))
            expect(code == 0 and r["verdict"] == "unproven" and not names(r, "unknown"), name + end, r["headline"], r["findings"])
    evil = b"\x80\x02" + EVIL + b"."
    hidden = {
        "behind": joblib_file(wrapper(FLOATS), EVIL),
        "between": joblib_file(wrapper(FLOATS), EVIL, wrapper(FLOATS)),
        "objects": joblib_file(wrapper(evil, objects, padded=False)),
        "objects later": joblib_file(wrapper(FLOATS), wrapper(evil, objects, padded=False)),
        # Python's unpickler runs the array; joblib what stands behind it, where Python's sees a whole pickle before.
        "in the array": joblib_file(wrapper((EVIL + b"e.").ljust(32, b"\0"), padded=False)),
        "in an array that fails": joblib_file(wrapper(EVIL.ljust(32, b"\xff"), padded=False)),
        "behind what no unpickler resolves": joblib_file(wrapper(b"NN\x93".ljust(32, b"\0"), padded=False), b"0" * 40, EVIL),
        "behind a stop": joblib_file(wrapper(b"e.".ljust(32, b"\0"), padded=False), EVIL),
        "behind one that is refused": joblib_file(wrapper(FLOATS, more=text("read") + b"K\1"), EVIL),
    }
    for name, data in hidden.items():
        for end, pack in packers.items():
            dangerous(folder, name + end, pack(data))
    unlike = {
        "a method": wrapper(FLOATS, more=text("read") + b"ccollections\nOrderedDict\n"),
        "flags of objects": wrapper(pickled + FLOATS, dtype("f8", 1)),
        "objects without flags": wrapper(FLOATS, dtype("O8", 0)),
        "another size": wrapper(FLOATS, dtype("S8", 0, 4)),
        "objects in a record": wrapper(FLOATS, dtype("V8", 0, 8, b"N}" + text("a") + dtype("O8", 63) + b"K\0\x86s")),
        "a shape that is none": wrapper(FLOATS, shape=b"J\xff\xff\xff\xff\x85"),
        "its state again": wrapper(b"", shape=b"K\0\x85") + b"}b",
    }
    for name, data in unlike.items():
        for rest in (b"", b"e." + b"\0" * 40):
            r, code = verify(put(folder, name, joblib_file(data + rest)))
            expect(code == 1 and "joblib.numpy_pickle.NumpyArrayWrapper" in names(r, "unknown"), name, r["verdict"], r["globals"])
    for name, data in (("cut", joblib_file(wrapper(FLOATS))[:-20]), ("far", joblib_file(wrapper(FLOATS, shape=b"\x8a\x07\xff\xff\xff\xff\xff\xff\x7f\x85")))):
        r, code = verify(put(folder, name, data))
        expect(code == 1 and r["verdict"] == "truncated", name, r["verdict"], r["headline"])
    # Protocol 4 numbers its memo by itself: what joblib reads as numpy.dtype, pickle.load imports from a module NumpyArrayWrapper.
    inner = b"\x80\x04" + text("numpy") + b"\x94" + text("dtype") + b"\x94h\0h\1\x93."
    r, code = verify(put(folder, "memo", b"\x80\x02" + text("mine") + b"\x940" + wrapper(inner, objects, padded=False) + b"."))
    expect(code == 1 and names(r, "unknown") == {"mine.numpy"} and "unlisted_use" in kinds(r), "memo", r["globals"], r["findings"])
    # joblib reads an array from the file, not from the frame that goes on behind its wrapper.
    one = b"](" + wrapper(FLOATS)
    r, code = verify(put(folder, "frame", b"\x80\4\x95" + struct.pack("<Q", len(one) + 2) + one + b"e."))
    expect(code == 1 and "form" in kinds(r), "frame", r["findings"])
    r, code = verify(put(folder, "bomb", zlib.compress(b"\x80\2" + b"]" * (300 << 20))))
    expect(code == 1 and r["verdict"] == "unknown_code", "bomb", r["verdict"], r["headline"])
    dangerous(folder, "lists", zlib.compress(b"\x80\2" + EVIL + b"]" * (300 << 20)))
    # 300 KB, of which four million lists come out: a list takes ninety bytes.
    done = subprocess.run(["sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", sys.argv[1], "ckpt", "verify", folder + "/lists"], capture_output=True, text=True)
    expect(done.returncode == 1 and done.stdout.startswith("DANGEROUS"), "memory", done.stdout, done.stderr)
    r, code = verify(put(folder, "trailing", zlib.compress(pickled) + b"more"))
    expect(code == 1 and r["verdict"] == "unknown_code", "trailing", r["verdict"])


def test_compiled(folder):
    """sklearn's trees are made by calls: they were unknown.  A function of its that calls a class is given its own only."""
    trees = b"csklearn.tree._tree\nTree\nK\1cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\1b\x87RK\1\x87R}b"
    new = b"csklearn.neighbors._kd_tree\nnewObj\n"
    for name, data in (("tree", trees), ("kd", new + b"csklearn.neighbors._kd_tree\nKDTree\n\x85R"), ("loss", b"c_loss\nCyHalfBinomialLoss\n)R")):
        r, code = verify(put(folder, name, b"\x80\3" + data + b"."))
        expect(code == 0 and not names(r, "unknown"), name, r["globals"])
    r, code = verify(put(folder, "other", b"\x80\3c_loss\nOther\n)R."))
    expect(code == 1 and names(r, "unknown") == {"_loss.Other"}, r["globals"])
    dangerous(folder, "system", b"\x80\3" + new + b"cposix\nsystem\n\x85R.")
    for name in ("stable_baselines3.common.buffers\nReplayBuffer", "torch.nn.modules.linear\nLinear"):
        r, code = verify(put(folder, "other", b"\x80\3" + new + b"c" + name.encode() + b"\n\x85R."))
        expect(code == 1 and "sklearn.neighbors._kd_tree.newObj" in names(r, "unknown"), name, r["globals"])


def test_script(folder):
    """TorchScript's code is looked at: what writes files is dangerous, operators of other libraries are unknown."""
    def made(code):
        records = {"constants.pkl": b"\x80\x02).", "data.pkl": b"\x80\x02c__torch__\nM\n)\x81}b.", "version": "3\n", "code/__torch__.py": code}
        return verify(put(folder, "s.pt", torch_zip(records)))

    plain = "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return ops.quantized.linear(torch.relu(x), 'torch.save(', \"ops.x.y\")\n"
    r, code = made(plain)
    expect(not code and r["kind"] == "torchscript" and r["pickle"] == "listed", r["headline"], r["globals"])
    for call, want in (("torch.save(x, '/tmp/x')", "dangerous"), ("torch.from_file('x', True, 8)", "dangerous"), ("ops.image.write_file('x', x)", "unknown"),
                       ("__torch__.torch.classes.dist_c10d.FileStore('x', 1)", "unknown"), ("ops.aten.save(x, 'y')", "dangerous")):
        r, code = made(plain + f"    _0 = {call}\n")
        expect(code == 1 and r["pickle"] == want, call, r["verdict"], r["globals"])


def exported(graph="{}", weights=None, more=None):
    """An archive of torch.export.save; weights: {name: changes of its entry}, `more`: further records."""
    def meta(sizes):
        return {"dtype": 7, "sizes": [{"as_int": n} for n in sizes], "requires_grad": False, "device": {"type": "cpu", "index": None},
                "strides": [{"as_int": n} for n in (3, 1)[-len(sizes):]], "storage_offset": {"as_int": 0}, "layout": 7}
    entries = {"w": {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta((2, 3))},
               "tied": {"path_name": "weight_0", "is_param": True, "use_pickle": False, "tensor_meta": meta((3,))}}
    for name, changes in (weights or {}).items():
        entries[name] = {**entries["w"], **changes}
    return torch_zip({"archive_format": "pt2", "models/model.json": graph, "data/weights/model_weights_config.json": json.dumps({"config": entries}),
                      "data/weights/weight_0": struct.pack("<6f", *range(6)), "data/sample_inputs/model.pt": torch_zip({"data.pkl": PLAIN_PICKLE, "version": "3"}),
                      ".data/version": "6", "byteorder": "little", **(more or {})})


def expression(text):
    return json.dumps({"graph": {"sizes": [{"as_expr": {"expr_str": text, "hint": None}}]}})


def test_exported(folder):
    """torch.export.load unpickles without weights_only, and sympy evaluates expressions: what either would run is found."""
    r, code = verify(put(folder, "m.pt2", exported(expression("Mod(Mul(Integer(2), Symbol('s77', positive=True)), 1.5) + Max(s0, -s1)"))), "--values")
    expect(not code and r["kind"] == "exported" and r["verdict"] == "whole" and r["pickle"] == "listed", r["headline"], r["globals"])
    listed = json.loads(lib.run("ckpt", "show", "--json", put(folder, "m.pt2", exported())).stdout)["tensors"]
    expect({t["name"]: t["shape"] for t in listed} == {"w": [2, 3], "tied": [3]}, listed)
    for text in ("__import__('os').system('x')", "exit()", "open (x)", "open  (x)", "(exec)(x)", "x.y", "eval('x')", "f'{x}'", "[x][0]", "s0.__class__", "Max(s0)(s1)", "a:=b", "'a", "x\n(y)", "print(chr(1))"):
        r, code = verify(put(folder, "m.pt2", exported(expression(text))))
        expect(code == 1 and r["pickle"] == "unknown" and f"sympy.sympify({text})" in names(r, "unknown"), text, r["headline"], r["globals"])
    for inside in ({"__enum__": True, "fqn": "this:s", "name": "x"}, {"default_factory_module": "this", "default_factory_name": "s", "dict_context": []}):
        tree = json.dumps([1, {"type": "builtins.dict", "context": json.dumps(inside), "children_spec": []}])
        for text in (tree, tree.replace("_", "\\u005f")):
            r, code = verify(put(folder, "m.pt2", exported(json.dumps({"in_spec": text}))))
            expect(code == 1 and r["pickle"] == "unknown", text, r["headline"])
    evil = torch_zip({"data.pkl": b"\x80\x02" + EVIL + b".", "version": "3"})
    for name in ("data/sample_inputs/model.pt", "data/sample_inputs/MODEL.PT", "DATA/weights/model.pt", "data/weights/WEIGHT_1", "data/x"):
        dangerous(folder, "m.pt2", exported(more={name: evil}))
    for name in ("models/model_json", "MODELS/model.json"):
        r, code = verify(put(folder, "m.pt2", exported(more={name: expression("exit()")})))
        expect(code == 1 and r["pickle"] == "unknown", name, r["headline"])
    # torch.load takes it for its own, and torch.export.load all the same.
    for graph, record in ((expression("exit()"), b"\x80\x02}."), ("{}", b"\x80\x02" + EVIL + b".")):
        r, code = verify(put(folder, "m.pt2", exported(graph, more={"data.pkl": record})))
        expect(code == 1 and r["pickle"] in ("unknown", "dangerous"), record, r["headline"], r["globals"])
    # The loader goes by the name of a constant's record alone.
    constants = {"config": {"c": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": False,
                                  "tensor_meta": {"dtype": 1, "sizes": [{"as_int": 4}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}}}
    dangerous(folder, "m.pt2", exported(more={"data/constants/model_constants_config.json": json.dumps(constants), "data/constants/opaque_obj_0": EVIL + b"."}))
    dangerous(folder, "m.pt2", exported(weights={"x": {"use_pickle": True, "path_name": "weight_1"}}, more={"data/weights/weight_1": evil}))
    dangerous(folder, "m.pt2", exported(weights={"x": {"tensor_meta": None, "path_name": "opaque_obj_0"}}, more={"data/weights/opaque_obj_0": EVIL + b"."}))
    dangerous(folder, "m.pt2", exported(more={"data/weights/model.pt": evil}))
    for data in (exported(more={"data/aotinductor/model/a.so": b"\x7fELF"}), exported("{"), exported(more={"data/sample_inputs/model.pt": b"PK\3\4"})):
        r, code = verify(put(folder, "m.pt2", data))
        expect(code == 1 and r["pickle"] == "unknown", r["headline"], r["globals"])
    # Weights that are saved as files of their own are read.
    inner = torch_zip({"data.pkl": state_dict(), "data/0": struct.pack("<4f", *range(4)), "version": "3"})
    path = put(folder, "m.pt2", exported(more={"data/weights/model.pt": inner}))
    expect("[4]" in str([t["shape"] for t in json.loads(lib.run("ckpt", "show", "--json", path).stdout)["tensors"]]), path)
    # What the bytes do not hold is not called whole.
    for changes, kind in (({"path_name": "weight_9"}, "missing_record"), ({"tensor_meta": {"dtype": 7, "sizes": [7], "strides": [1], "storage_offset": 0}}, "storage_size"),
                          ({"tensor_meta": {"dtype": 99, "sizes": [1], "strides": [1], "storage_offset": 0}}, "exported"), ({"tensor_meta": 3}, "exported")):
        r, code = verify(put(folder, "m.pt2", exported(weights={"x": changes})))
        expect(code == 1 and r["verdict"] == "damaged" and kind in kinds(r), changes, r["headline"])
    deep = exported()
    for _ in range(40):
        deep = exported(more={"data/weights/model.pt": deep})
    r, code = verify(put(folder, "m.pt2", deep))
    expect(code == 1 and r["pickle"] == "unknown", r["headline"])


def safetensors(tensors):
    header, at = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(tensors.values())


def test_folders(folder):
    """What must be there is derived from what is there; without weights nothing is whole, nor the last good."""
    rng = torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)})
    weights = safetensors({"a": b"12345678"})

    def made(name, files):
        for file, data in files.items():
            put(os.path.join(folder, name), file, data)
        return verify(os.path.join(folder, name))

    state = {"rng_state.pth": rng, "optimizer.pt": rng, "scheduler.pt": rng, "trainer_state.json": "{}"}
    cases = [("lora", {"adapter_config.json": '{"r": 4}', **state}, "no_weights"),
             ("hf", {"config.json": "{}", "scheduler.pt": rng}, "no_weights"),
             ("onnx", {"optimizer.pt": rng, "model.onnx": b"x"}, "no_weights"),
             ("state", state, "no_weights"),
             ("zero", {"zero_pp_rank_0_mp_rank_00_model_states.pt": rng}, "no_weights"),
             ("ranks", {"mp_rank_00_model_states.pt": rng, "zero_pp_rank_0_mp_rank_00_optim_states.pt": rng,
                        "zero_pp_rank_2_mp_rank_00_optim_states.pt": rng}, "missing_rank"),
             ("world", {"mp_rank_00_model_states.pt": torch_zip({"data.pkl": state_dict(text("dp_world_size") + b"K\2"), "version": "3\n", "data/0": bytes(16)}),
                        "zero_pp_rank_0_mp_rank_00_optim_states.pt": rng}, "missing_rank"),
             ("latest", {"latest": "global_step5", "trainer_state.json": "{}", "rng_state_0.pth": rng}, "missing_folder"),
             ("megatron", {"latest_checkpointed_iteration.txt": "20", "iter_0000020/mp_rank_00/model_optim_rng.pt": rng,
                           "iter_0000020/mp_rank_02/model_optim_rng.pt": rng}, "missing_rank"),
             ("gguf", {"m-00001-of-00002.gguf": gguf({"a": (0, (4,), bytes(16))})}, "missing_file"),
             ("tar", {"zzz.pth": rng, "checkpoint.pth.tar": rng[:-100]}, "truncated")]
    for name, files, kind in cases:
        r, code = made(name, files)
        expect(code == 1 and kind in kinds(r), name, kind, r["headline"], r["findings"])
    good = [("good_lora", {"adapter_config.json": "{}", "adapter_model.safetensors": weights, **state}),
            ("good_hf", {"config.json": "{}", "model.safetensors": weights, **state}),
            ("good_ds", {"latest": "global_step5", "global_step5/mp_rank_00_model_states.pt": rng,
                         "global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt": rng, "zero_to_fp32.py": "", "trainer_state.json": "{}"}),
            ("good_megatron", {"latest_checkpointed_iteration.txt": "20", "iter_0000020/mp_rank_00/model_optim_rng.pt": rng,
                               "iter_0000020/mp_rank_01/model_optim_rng.pt": rng}),
            ("good_tar", {"checkpoint.pth.tar": rng, "model_best.pth.tar": rng})]
    for name, files in good:
        r, code = made(name, files)
        expect(not code and r["tensors"], name, r["headline"], r["findings"])
    os.mkdir(folder + "/run")
    for step, source in ((100, "good_lora"), (200, "lora")):
        shutil.copytree(f"{folder}/{source}", f"{folder}/run/checkpoint-{step}")
    done = lib.run("ckpt", "last-good", folder + "/run")
    expect(done.stdout.strip().endswith("checkpoint-100"), done.stdout)
    done = lib.run("ckpt", "last-good", folder + "/good_tar", codes=(0, 2, 3))
    expect("pth.tar" in done.stdout, done.stdout, done.stderr)


def test_unchecked(folder):
    """Files that the folder's own reader does not open were passed without a word, and with them what they run."""
    weights = safetensors({"a": b"12345678"})
    evil = b"\x80\x02" + EVIL + b"."
    auto = json.dumps({"auto_map": {"AutoModel": "modeling_x.Model", "AutoTokenizer": ["tok_x.Slow", None]}})

    def made(name, files, *more):
        for file, data in {"model.safetensors": weights, "config.json": "{}", **files}.items():
            put(os.path.join(folder, name), file, data)
        return verify(os.path.join(folder, name), *more)

    hidden = {"unet/diffusion_pytorch_model.bin": evil, "a/b/c/weights": torch_zip({"data.pkl": b"\x80\x02" + EVIL + b"."}), "emb.npy": array(None, evil), "scaler.joblib": joblib_file(wrapper(FLOATS), EVIL),
              "x.joblib.z": zlib.compress(evil), "README.md": evil, ".cache/x": EVIL + b".", "data.tar": tar_of("pickle", evil), "arrays.npz": torch_zip({"a.npy": array(None, evil)})}
    for i, (file, data) in enumerate(hidden.items()):
        r, code = made(f"hidden{i}", {file: data})
        where = {g["record"] for g in r["globals"] if g["trust"] == "dangerous"}
        expect(code == 1 and r["verdict"] == "dangerous" and where == {file}, file, r["verdict"], r["globals"])
    r, code = made("damaged", {"unet/diffusion_pytorch_model.bin": torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)})[:-90]})
    expect(code == 1 and "truncated" in kinds(r), r["verdict"], r["findings"])
    for name, files in (("code", {"modeling_x.py": "", "config.json": auto}), ("below", {"text_encoder/modeling_x.py": "", "text_encoder/config.json": auto}), ("tokenizer", {"tok_x.py": "", "tokenizer_config.json": auto}),
                        ("far", {"config.json": auto.replace("modeling_x", "owner/name--modeling_x")})):
        r, code = made(name, files)
        expect(code == 1 and r["verdict"] == "unknown_code" and "code that is loaded with the checkpoint" in r["headline"], name, r["headline"])
    r, code = verify(folder + "/below", "--allow", "modeling_x.*")
    expect(code == 0 and names(r, "allowed") == {"modeling_x.Model"}, r["globals"])
    r, code = made("no code", {"config.json": auto, "README.md": "text", "vae/config.json": "{", "emb.npy": array(None, b"", "'<f4'"), "unet/model.safetensors": weights, "x.joblib": joblib_file(wrapper(FLOATS))})
    told = [f["text"] if "text" in f else str(f) for f in r["findings"] if f["id"] == "not_checked"]
    expect(code == 0 and len(told) == 1 and "5 files" in told[0] and "'README.md'" in told[0], r["verdict"], r["findings"])
    os.symlink("/etc/passwd", folder + "/no code/link")
    os.mkfifo(folder + "/no code/fifo")
    expect(verify(folder + "/no code")[1] == 0, "links")
    deep = folder + "/deep/" + "d/" * 20
    os.makedirs(deep)
    r, code = made("deep", {})
    expect(code == 1 and r["verdict"] == "unknown_code" and "too_large" in kinds(r), r["findings"])


def test_words(folder):
    """PLAIN is what torch.load(weights_only=True) loads; files that it refuses were called so if nothing ran code."""
    tensors = state_dict()
    version = text("v") + b"ctorch.torch_version\nTorchVersion\n" + text("2.14.1") + b"\x85R"
    numbers = text("n") + b"cnumpy.core.multiarray\nscalar\n" + dtype() + b"C\x08" + bytes(8) + b"\x86R"
    paths = text("p") + b"cpathlib\nPosixPath\n" + text("a") + b"\x85R" + text("a") + b"cargparse\nNamespace\n)\x81}" + text("lr") + b"K\1sb"
    cases = [("tensors", state_dict(), "plain"), ("version", state_dict(version), "listed"), ("numbers", state_dict(numbers), "listed"),
             ("paths", state_dict(paths), "listed"), ("set", state_dict(text("s") + b"\x8f(K\1\x90"), "listed"), ("framed", b"\x80\4\x95\2\0\0\0\0\0\0\0}.", "listed"),
             ("short text", state_dict(text("s") + b"\x8c\1a"), "listed"), ("mine", state_dict(text("s") + b"cmine\nX\n)\x81"), "unknown")]
    for name, data, want in cases:
        path = put(os.path.join(folder, name), "step1.pt", torch_zip({"data.pkl": data, "version": "3\n", "data/0": bytes(16)}))
        r, code = verify(path)
        expect(r["pickle"] == want and code == (want == "unknown") and ("torch_version" in kinds(r)) == (name == "version"), name, r["pickle"], r["headline"], r["findings"], r["globals"])
        shown = lib.run("ckpt", "verify", path, codes=(0, 1)).stdout
        word = shown.split("  ")[0]
        expect("match their checksums; " in shown and "have none" in shown, name, shown)
        expect(word == {"plain": "WHOLE, PLAIN", "listed": "WHOLE, LISTED", "unknown": "UNKNOWN CODE"}[want], name, word)
        done = lib.run("ckpt", "last-good", os.path.dirname(path), codes=(0, 1))
        expect(done.returncode == (want == "unknown"), name, done.stdout)
    # torch reads neither from its old form: it sizes a nested tensor before its storages are read, and asks the class for a dtype.
    sizes = b"ctorch._utils\n_rebuild_nested_tensor\n(" + tensor() * 4 + b"tR"
    for name, root, want in (("storage", STORAGE, "plain"), ("untyped", STORAGE.replace(b"ctorch\nFloat", b"ctorch\nUntyped").replace(b"K\4N", b"K\x10N"), "listed"),
                             ("nested", b"\x80\2" + sizes + b".", "listed")):
        r, code = verify(put(folder, "old.pt", legacy(root)))
        expect(not code and r["kind"] == "torch_legacy" and r["pickle"] == want, name, r["pickle"], r["headline"])
    # A text that is made may be a special name, which makes what is callable a method.
    spelled = b"ctorch.torch_version\nTorchVersion\n" + text("__setstate__") + b"\x85R"
    r, code = verify(put(folder, "spelled.pkl", b"\x80\2" + NAMESPACE + b"}" + spelled + b"ctorch.nn.functional\nrelu\nsb."))
    expect(code == 1 and r["pickle"] == "unknown", r["pickle"], r["globals"])
    for name, data in (("plain.pkl", PLAIN_PICKLE), ("tar.nemo", tar_of("a.ckpt", torch_zip({"data.pkl": tensors, "version": "3\n", "data/0": bytes(16)})))):
        r, code = verify(put(folder, name, data))
        expect(not code and r["pickle"] == "listed", name, r["pickle"])


def test_notes(folder):
    """What a configuration names and a template holds is not looked at, and is said."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as t:
        for name, data in (("model_config.yaml", b"a:\n  _target_: os.system\n"), ("model_weights.ckpt", torch_zip({"data.pkl": state_dict(), "version": "3\n", "data/0": bytes(16)}))):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    r, code = verify(put(folder, "a.nemo", tar.getvalue()))
    expect(code == 0 and "target" in kinds(r), r["verdict"], r["findings"])
    template = b"{{ ''.__class__ }}"
    key = ("tokenizer.chat_template", 8, struct.pack("<Q", len(template)) + template)
    r, code = verify(put(folder, "a.gguf", gguf({"a": (0, (4,), bytes(16))}, [key])))
    expect(code == 0 and "template" in kinds(r), r["verdict"], r["findings"])


# ---- GGUF ----

def gguf(tensors, keys=(), version=3, alignment=32, pad=True):
    """tensors: name -> (type, sizes from the outermost, bytes)."""
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()

    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        out += string(name) + struct.pack("<I", kind) + value
    at, data = 0, b""
    for name, (kind, sizes, content) in tensors.items():
        out += string(name) + struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *reversed(sizes)) + struct.pack("<IQ", kind, at)
        content += bytes(-len(content) % alignment)
        data += content
        at += len(content)
    out += bytes(-len(out) % alignment) if pad else b""
    return out + data


def test_gguf(folder):
    floats = struct.pack("<6f", *range(6))
    tensors = {"t.weight": (0, (2, 3), floats), "h": (1, (4,), b"\0\x3c" * 4), "q": (8, (2, 32), bytes(range(68)))}
    keys = [("general.architecture", 8, struct.pack("<Q", 5) + b"llama"), ("llama.block_count", 4, struct.pack("<I", 2)),
            ("tokens", 9, struct.pack("<IQ", 8, 2) + (struct.pack("<Q", 1) + b"a") * 2), ("x", 6, struct.pack("<f", 1.5))]
    data = gguf(tensors, keys)
    r, code = verify(put(folder, "m.gguf", data))
    expect(not code and r["kind"] == "gguf" and r["verdict"] == "unproven", r["headline"], r["findings"])
    expect([(t["name"], t["dtype"], t["shape"], t["bytes"]) for t in r["tensors"]] ==
           [("t.weight", "float32", [2, 3], 24), ("h", "float16", [4], 8), ("q", "q8_0", [2, 32], 68)], r["tensors"])
    expect({"general.architecture": "llama", "llama.block_count": "2", "tokens": "2 texts", "x": "1.5"}.items() <=
           {f["name"]: f["value"] for f in r["facts"]}.items(), r["facts"])
    # What is not quantized can be converted, bit for bit; what is, is named.
    done = lib.run("ckpt", "convert", folder + "/m.gguf", "-o", folder + "/m.safetensors", codes=(4,))
    expect("'q' is q8_0" in done.stderr, done.stderr)
    path = put(folder, "plain.gguf", gguf({n: tensors[n] for n in ("t.weight", "h")}))
    lib.run("ckpt", "convert", path, "-o", folder + "/plain.safetensors")
    with open(folder + "/plain.safetensors", "rb") as f:
        raw = f.read()
    n = struct.unpack_from("<Q", raw)[0]
    header = json.loads(raw[8:8 + n])
    expect(header["t.weight"]["shape"] == [2, 3] and raw[8 + n:][slice(*header["t.weight"]["data_offsets"])] == floats, header)
    # A cut at any place is seen but in the padding behind the last tensor, which no loader reads.
    for length in range(4, len(data) - 28):
        r, code = verify(put(folder, "cut.gguf", data[:length]))
        expect(code == 1 and r["verdict"] in ("truncated", "not_a_checkpoint"), length, r["verdict"])
    broken = {"version": gguf(tensors, keys, version=9), "big": data[:4] + struct.pack(">I", 3) + data[8:],
              "type": gguf({"a": (77, (1,), bytes(4))}), "dims": gguf({"a": (0, (1,) * 5, bytes(4))}),
              "rows": gguf({"a": (8, (2, 31), bytes(66))}), "twice": gguf({"a": (0, (1,), bytes(4)), "b": (0, (1,), bytes(4))}).replace(b"\1\0\0\0\0\0\0\0b", b"\1\0\0\0\0\0\0\0a"),
              "count": data[:8] + struct.pack("<Q", 2**40) + data[16:], "keys": data[:16] + struct.pack("<Q", 2**40) + data[24:],
              "huge": gguf({"a": (0, (2**40, 2**40), b"")}), "string": data[:24] + struct.pack("<Q", 2**62) + data[32:],
              "alignment": gguf({"a": (0, (1,), bytes(4))}, [("general.alignment", 4, struct.pack("<I", 7))]),
              "offset": gguf({"a": (0, (1,), bytes(4))}).replace(b"a" + struct.pack("<IQIQ", 1, 1, 0, 0), b"a" + struct.pack("<IQIQ", 1, 1, 0, 32)) + bytes(32)}
    # llama.cpp and gguf-py refuse a key that comes twice, whatever its values are; verify passed it.
    broken.update({"key in Latin-1": data.replace(b"tokens", b"token\xff"), "name in Latin-1": data.replace(b"t.weight", b"t.weigh\xff"), "key twice": gguf(tensors, keys + keys[:1]), "another value": gguf(tensors, keys + [("x", 4, struct.pack("<I", 2))])})
    for name, content in broken.items():
        r, code = verify(put(folder, "broken.gguf", content))
        expect(code == 1, name, r["verdict"], r["headline"])


def test_safetensors(folder):
    """What the reference reader refuses in a header is refused: a field or the metadata twice, -0, one offset or three.  verify
    took the last of two."""
    def made(header):
        raw = header.encode()
        return verify(put(folder, "h.safetensors", struct.pack("<Q", len(raw)) + raw + b"12345678"))

    row = {"dtype": '"U8"', "shape": "[8]", "data_offsets": "[0,8]"}
    entry = ",".join(f'"{k}":{v}' for k, v in row.items())
    r, code = made('{"__metadata__":{"a":"b"},"a":{' + entry + ',"more":1,"more":2}}')
    expect(not code and len(r["tensors"]) == 1, r["headline"])
    bad = [f'{{"a":{{{entry},"{k}":{v}}}}}' for k, v in row.items()]
    bad += ['{"a":{' + entry + ',"dt\\u0079pe":"F64"}}', '{"__metadata__":{},"__metadata__":{},"a":{' + entry + "}}"]
    bad += ['{"a":{' + entry.replace(x, y) + "}}" for x, y in (("[8]", "[8,-0]"), ("[8]", "[-0]"), ("[0,8]", "[-0,8]"), ("[0,8]", "[8]"), ("[0,8]", "[0,8,8]"), ("[8]", "[8.0]"))]
    for header in bad:
        r, code = made(header)
        expect(code == 1 and r["verdict"] in ("damaged", "truncated", "not_a_checkpoint"), header, r["verdict"], r["headline"])


def test_common_names(folder):
    """The table cut names from the left, and the same module looked equal in all layers."""
    modules = [f"{layer}.self_attn.{part}_proj" for layer in range(3) for part in "qv"]
    for size in (4, 8):
        put(folder, f"{size}.safetensors", safetensors({f"base_model.model.model.layers.{m}.lora_A.default.weight": bytes(size) for m in modules}))
    said = lib.run("ckpt", "diff", "--width", "80", f"{folder}/4.safetensors", f"{folder}/8.safetensors", codes=(1,)).stdout
    expect("* in 'base_model.model.model.layers.*.lora_A.default.weight':" in said and [line.split()[-1] for line in said.splitlines() if "size mismatch" in line] == modules, said)


def main():
    lib.start(sys.argv[1])
    tests = [test_spellings, test_protocols, test_stacked, test_inside, test_behind, test_tar, test_names, test_uses, test_proxies, test_differences, test_allow, test_zip, test_unnamed, test_arrays, test_compiled, test_script, test_exported, test_folders, test_unchecked, test_words, test_notes, test_gguf, test_safetensors, test_common_names]
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    lib.finish(f"{len(tests)} kinds of lying checkpoints")


if __name__ == "__main__":
    main()
