#!/usr/bin/env python3
"""Checkpoints that are damaged, hostile, or not checkpoints: for checkpoints.py; tests/cli/bad_ckpt.cases is given each.

bad_checkpoints.py NAME DATA PATH   writes one of them, a file or a folder
"""
import functools
import io
import json
import os
import shutil
import struct
import sys
import warnings
import zipfile
import zlib

warnings.simplefilter("ignore")  # of zipfile, about names that are there twice


def local_headers(data):
    """(offset, name, extra offset, extra bytes, data offset) of each record of a torch zip."""
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        for info in z.infolist():
            at = info.header_offset
            name, extra = struct.unpack_from("<HH", data, at + 26)
            yield at, info, at + 30 + name, extra, at + 30 + name + extra


def rezip(data, change=lambda n, d: [(n, d)], method=zipfile.ZIP_STORED):
    """The same records through zipfile, changed on the way, checksums right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as z, zipfile.ZipFile(out, "w", method) as w:
        for info in z.infolist():
            for name, content in change(info.filename, z.read(info)):
                w.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def grow_extra(data):
    """64 more bytes in data/0's local extra, as section 1.4: torch reads shifted floats."""
    for at, info, extra_at, extra, _ in local_headers(data):
        if info.filename.endswith("data/0"):
            changed = bytearray(data)
            struct.pack_into("<H", changed, at + 28, extra + 64)
            return bytes(changed)
    raise AssertionError


def shrink_extra(data):
    """Two bytes less of data/0's local extra: data begin two bytes early."""
    for at, info, extra_at, extra, _ in local_headers(data):
        if info.filename.endswith("data/0"):
            changed = bytearray(data)
            struct.pack_into("<H", changed, at + 28, extra - 2)
            struct.pack_into("<H", changed, extra_at + 2, extra - 6)
            return bytes(changed)
    raise AssertionError


def swap_fields(data, field, size):
    """A field of two records' entries in the directory, each in the other's place."""
    changed, at = bytearray(data), [i for i in range(len(data)) if data[i:i + 4] == b"PK\1\2" and b"data/" in data[i + 46:i + 90]]
    x, y = at[0] + field, at[1] + field
    changed[x:x + size], changed[y:y + size] = data[y:y + size], data[x:x + size]
    assert changed != data
    return bytes(changed)


def rename_local(data):
    for at, info, _, _, _ in local_headers(data):
        if info.filename.endswith("data/0"):
            changed = bytearray(data)
            changed[at + 30] ^= 1
            return bytes(changed)
    raise AssertionError


def mutations(data):
    def only(suffix, change):
        return lambda n, d: change(n, d) if n.endswith(suffix) else [(n, d)]

    yield "flip data", flip_in(data, "data/0"), "crc_mismatch", 1
    yield "flip pickle", flip_in(data, "data.pkl", 200), "crc_mismatch", 1
    yield "trailing 100 bytes", data + b"x" * 100, "trailing_bytes", 0
    yield "local name", rename_local(data), "local_mismatch", 1
    yield "local extra", grow_extra(data), None, 1
    yield "local extra shrunk", shrink_extra(data), None, 1
    yield "offsets swapped", swap_fields(data, 42, 4), "local_mismatch", 1
    yield "sizes swapped", swap_fields(data, 20, 8), None, 1
    yield "checksums swapped", swap_fields(data, 16, 4), "crc_mismatch", 1
    yield "duplicate", rezip(data, only("data/0", lambda n, d: [(n, d), (n, b"\1" * len(d))])), "duplicate", 1
    yield "other case", rezip(data, only("data/0", lambda n, d: [(n, d), (n.upper(), d)])), "duplicate", 1
    yield "deflated", rezip(data, method=zipfile.ZIP_DEFLATED), "deflated", 0
    yield "missing", rezip(data, only("data/0", lambda n, d: [])), "missing_record", 1
    yield "short", rezip(data, only("data/0", lambda n, d: [(n, d[:-4])])), "storage_size", 1
    yield "long", rezip(data, only("data/0", lambda n, d: [(n, d + b"1234")])), "storage_size", 1
    yield "no version", rezip(data, only("/version", lambda n, d: [])), "no_version", 1
    yield "no byteorder", rezip(data, only("byteorder", lambda n, d: [])), "", 0
    for name in (".format_version", ".storage_alignment", ".data/serialization_id"):
        yield "no " + name, rezip(data, only(name, lambda n, d: [])), "", 0
    yield "without its folder", rezip(data, lambda n, d: [(n.split("/", 1)[1], d)]), "no_folder", 1
    yield "big", rezip(data, only("byteorder", lambda n, d: [(n, b"big")])), "byteorder", 1
    yield "odd order", rezip(data, only("byteorder", lambda n, d: [(n, b"mixed")])), "byteorder", 1
    yield "prefix", b"#!/bin/sh\n" + data, "prefix", 1
    yield "no pickle", rezip(data, only("data.pkl", lambda n, d: [])), "no_pickle", 1
    yield "second pickle", rezip(data, only("/version", lambda n, d: [(n, d), ("x/evil", b"\x80\x02cos\nsystem\n.")])), \
        "dangerous_pickle", 1
    yield "after the pickle", rezip(data, only("data.pkl", lambda n, d: [(n, d + b"cos\nsystem\n.")])), "dangerous_pickle", 1
    yield "empty", b"", "empty", 1
    yield "zeros", bytes(5000), "zeros", 1
    yield "html", b"<!DOCTYPE html><html>404</html>", "html", 1
    yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "lfs_pointer", 1
    yield "gzip", b"\x1f\x8b\x08" + bytes(50), "gzip", 1
    yield "7z", b"7z\xbc\xaf\x27\x1c" + bytes(50), "seven_zip", 1
    yield "html with a byte order mark", b"\xef\xbb\xbf<!DOCTYPE html><html>404</html>", "html", 1
    yield "an answer", b"Entry not found", "text", 1
    yield "two zips", data + data, "end_mismatch", 1
    yield "out of the folder", rezip(data, only("/version", lambda n, d: [(n, d), (n + "/../../../x", b"1")])), "unsafe_name", 0
    yield "control characters", rezip(data, only("/version", lambda n, d: [(n, d), (n + "\x1b[31m", b"1")])), "unsafe_name", 0
    yield "tar of a zip", bytes(257) + b"ustar" + bytes(250) + data, "tar", 1
    yield "tar", bytes(257) + b"ustar" + bytes(300), "tar", 1


def flip_in(data, suffix, at=1):
    for _, info, _, _, start in local_headers(data):
        if info.filename.endswith(suffix):
            changed = bytearray(data)
            changed[start + at] ^= 16
            return bytes(changed)
    raise AssertionError


def safetensors(tensors, more=b"", header=None):
    at, rows = 0, {}
    for name, raw in tensors.items():
        rows[name] = {"dtype": "U8", "shape": [len(raw)], "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(rows).encode() if header is None else header
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values()) + more


def bad_safetensors():
    """Headers that the format forbids: name -> (bytes, kind of finding)."""
    return {
        "extra byte": (safetensors({"a": b"1234"}, b"x"), "trailing_bytes"),
        "missing": (safetensors({"a": b"1234"})[:-2], "truncated"),
        "header too long": (struct.pack("<Q", 1 << 40) + b"{}" + bytes(20), "header"),
        "header beyond": (struct.pack("<Q", 1 << 20) + b"{}" + bytes(20), "truncated"),
        "not json": (safetensors({}, header=b"{nonsense}"), "header"),
        "only a brace": (safetensors({}, header=b"{       "), "header"),
        "not utf-8": (safetensors({}, header=b'{"\xff\xfe":1}'), "header"),
        "twice": (safetensors({}, b"12345678", header=b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
                              b'"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'), "duplicate"),
        "overlap": (safetensors({}, b"1234", header=b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
                                b'"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'), "overlap"),
        "hole": (safetensors({}, b"12345678", header=b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'), "hole"),
        "overflow": (safetensors({}, b"", header=b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
                     "header"),
        "overflow of bytes": (safetensors({}, b"", header=b'{"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}'),
                              "header"),
        "shape": (safetensors({}, b"1234", header=b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}'), "shape_mismatch"),
        "negative": (safetensors({}, b"1234", header=b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}'), "header"),
        "float size": (safetensors({}, b"1234", header=b'{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}'), "header"),
        "dtype": (safetensors({}, b"1234", header=b'{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}'), "header"),
        "metadata": (safetensors({}, b"", header=b'{"__metadata__":{"a":1}}'), "header"),
        "deep": (safetensors({}, b"", header=b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"), "header"),
    }


# ---- as golden cases ----

def read(data, name):
    with open(os.path.join(data, "checkpoints", name), "rb") as f:
        return f.read()


def write(path, content):
    with open(path, "wb") as f:
        f.write(content)


def shards(data, path, second=None, more=None):
    os.mkdir(path)
    write(path + "/model-00001-of-00002.safetensors", safetensors({"a": b"1234"}))
    if second is not None:
        write(path + "/model-00002-of-00002.safetensors", second)
    index = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors",
                                                           "b": "model-00002-of-00002.safetensors", **(more or {})}}
    write(path + "/model.safetensors.index.json", json.dumps(index).encode())


def linked_shard(data, path):
    shards(data, path)
    os.symlink("/etc/passwd", path + "/model-00002-of-00002.safetensors")


def distributed(data, path, change):
    shutil.copytree(os.path.join(data, "checkpoints", "more", "dcp2"), path)
    change(path)


def cut_part(path):
    os.truncate(path + "/__1_0.distcp", 5000)


def sealed(data, path):
    """A manifest that is of other bytes of the same size."""
    os.mkdir(path)
    write(path + "/model.safetensors", read(data, "model.safetensors"))
    rows = [{"name": "model.safetensors", "bytes": len(read(data, "model.safetensors")), "xxh3": "0123456789abcdef"}]
    write(path + "/plimsoll.manifest.json", json.dumps({"schema": "manifest/1", "files": rows}).encode())


def bomb(_):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as w:
        w.writestr(zipfile.ZipInfo("archive/data.pkl"), bytes(64 << 20), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def overlapping(data):
    """A record's sizes reach into the next one, with a checksum of what it then holds: only the places contradict each other."""
    good = read(data, "state_dict_cuda.pt")
    changed = bytearray(good)
    at, info, _, _, data_at = next(x for x in local_headers(good) if x[1].filename.endswith("data/0"))
    size = info.file_size + 96
    crc = zlib.crc32(good[data_at:data_at + size])
    new = struct.pack("<LLL", crc, size, size)
    if info.flag_bits & 8:  # the sizes stand behind the data, where they were: in front of it there are none
        struct.pack_into("<H", changed, at + 6, info.flag_bits & ~8)
    changed[at + 14:at + 26] = new
    entry = good.index(b"PK\1\2", good.rindex(info.filename.encode()) - 46)
    assert good[entry + 46:entry + 46 + len(info.filename)] == info.filename.encode()
    changed[entry + 16:entry + 28] = new
    struct.pack_into("<H", changed, entry + 8, info.flag_bits & ~8)
    return bytes(changed)


FILES = {
    "records_that_overlap": overlapping,
    "cut_in_tensor": lambda d: read(d, "state_dict_cuda.pt")[:-1500],
    "cut_in_pickle": lambda d: read(d, "state_dict_cuda.pt")[:300],
    "cut_in_directory": lambda d: read(d, "state_dict_cuda.pt")[:-30],
    "legacy_cut": lambda d: read(d, "legacy.pt")[:-40],
    "legacy_trailing": lambda d: read(d, "legacy.pt") + b"more",
    "bomb": bomb,
    "nothing_known": lambda d: b"just some text, not a checkpoint",
    "names_that_steer_terminals": lambda d: safetensors({"\x1b[31mred\u202e": b"1"}, b"x"),
}
FOLDERS = {
    "shard_missing": shards,
    "shard_is_a_link": linked_shard,
    "shard_of_another_save": lambda d, p: shards(d, p, safetensors({"c": b"1234"})),
    "shard_is_a_path": lambda d, p: shards(d, p, safetensors({"b": b"1234"}), {"e": "../../etc/passwd"}),
    "distributed_without_metadata": lambda d, p: distributed(d, p, lambda x: os.unlink(x + "/.metadata")),
    "distributed_rank_missing": lambda d, p: distributed(d, p, lambda x: os.unlink(x + "/__1_0.distcp")),
    "distributed_cut": lambda d, p: distributed(d, p, cut_part),
    "manifest_of_other_bytes": sealed,
    "empty_folder": lambda d, p: os.mkdir(p),
}


def slug(name):
    return "".join(c if c.isalnum() else "_" for c in name)


@functools.cache
def files(data):
    good = read(data, "state_dict_cuda.pt")
    out = {slug(name): changed for name, changed, kind, _ in mutations(good) if kind != ""}
    out |= {"safetensors_" + slug(name): changed for name, (changed, _) in bad_safetensors().items()}
    return out | {name: make(data) for name, make in FILES.items()}


def make(name, data, path):
    if name in FOLDERS:
        FOLDERS[name](data, path)
    else:
        write(path, files(data)[name])


def names(data):
    return [*files(data), *FOLDERS]


if __name__ == "__main__":
    make(*sys.argv[1:])
