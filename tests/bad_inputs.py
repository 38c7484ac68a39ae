#!/usr/bin/env python3
"""Inputs that are not snapshots, or damaged or hostile ones; tests/cli/bad_input.cases is given each of them.

bad_inputs.py NAME FILE   writes one of them
"""
import gzip
import json
import lzma
import pickle
import struct
import sys
import zlib

A = 0x7F0000000000
FRAME = {"filename": "/home/user/train.py", "line": 7, "name": "step"}
STACK = [FRAME]


def event(action="alloc", addr=A, size=512, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1000, "frames": STACK, **more}


def segment(**more):
    return {"device": 0, "address": A, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512,
            "requested_size": 512, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0),
            "is_expandable": False, "frames": STACK,
            "blocks": [{"address": A, "size": 512, "requested_size": 512, "state": "active_allocated",
                        "frames": STACK},
                       {"address": A + 512, "size": (2 << 20) - 512, "requested_size": 0, "state": "inactive",
                        "frames": []}], **more}


def snapshot(events=None, segments=None):
    if events is None:
        events = [event("segment_alloc", A, 2 << 20)] + [event(addr=A + 512 * i) for i in range(100)]
    return {"segments": [segment()] if segments is None else segments, "device_traces": [events]}


def pickled(value, protocol=4):
    return pickle.dumps(value, protocol)


def good():
    return pickled(snapshot())


def zstd(runs):
    """A frame without checksum of (byte, count) runs, as RLE blocks of at most 128 KiB."""
    blocks = [(b, min(left, 128 << 10)) for b, n in runs for left in range(n, 0, -(128 << 10))]
    out = b"\x28\xb5\x2f\xfd\x00\x38"  # no content size; window of 128 KiB
    for i, (byte, n) in enumerate(blocks):
        out += struct.pack("<I", n << 3 | 1 << 1 | (i == len(blocks) - 1))[:3] + byte
    return out


def zstd_raw(data):
    return b"\x28\xb5\x2f\xfd\x00\x38" + struct.pack("<I", len(data) << 3 | 1)[:3] + data


def xz_stored(data):
    """An xz file whose data stand as they are: its bytes depend on no encoder."""
    def summed(b):
        return b + struct.pack("<I", zlib.crc32(b))

    def padded(b):
        return b + bytes(-len(b) % 4)

    def number(n):  # 7 bits a byte, the lowest first
        return (bytes([n & 127 | 128]) + number(n >> 7)) if n > 127 else bytes([n])

    flags = b"\0\1"  # CRC32
    block_head = summed(b"\2\0\x21\1\x16" + bytes(3))  # one filter: LZMA2 with 8 MiB
    chunks = b"".join((b"\2" if at else b"\1") + struct.pack(">H", len(data[at:at + 65536]) - 1) + data[at:at + 65536]
                      for at in range(0, len(data), 65536)) + b"\0"
    index = summed(padded(b"\0\1" + number(len(block_head) + len(chunks) + 4) + number(len(data))))
    tail = struct.pack("<I", len(index) // 4 - 1) + flags
    return (b"\xfd7zXZ\0" + summed(flags) + block_head + padded(chunks) + struct.pack("<I", zlib.crc32(data)) +
            index + struct.pack("<I", zlib.crc32(tail)) + tail + b"YZ")


def truncated(data, keep):
    return data[:int(len(data) * keep) if keep < 1 else len(data) - 1]


def flipped(data, at):
    at = int(len(data) * at)
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]


def dag(levels=60):
    """2^60 leaves in a few hundred bytes: each list holds the one before twice."""
    out = b"\x80\x02]q\x00"
    for i in range(1, levels):
        out += b"]q%c(h%ch%ce" % (i, i - 1, i - 1)
    return out + b"."


def with_events(*events):
    return pickled(snapshot(list(events), []))


def without(key):
    e = event()
    del e[key]
    return e


def gzip_bytes(data):
    return gzip.compress(data, 0, mtime=0)  # stored: the same with any zlib


ONE_ROW = event()
ONE_LIST = [event(), event(addr=A + 512)]
GIT_LFS = (b"version https://git-lfs.github.com/spec/v1\n"
           b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n")
LOG = (b"INFO step 1 loss 3.2\n" * 5 + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
       b"GPU 0 has a total capacity of 79.11 GiB of which 1.00 GiB is free.\n")

INPUTS = {
    # nothing there
    "empty": lambda: b"",
    "one_byte": lambda: b"\x80",
    "zeros": lambda: bytes(4096),
    "zeros_few": lambda: bytes(5),
    # something else
    "html": lambda: b"<!DOCTYPE html>\n<html><body>memory viz</body></html>\n",
    "png": lambda: b"\x89PNG\r\n\x1a\n" + bytes(64),
    "zip_checkpoint": lambda: b"PK\x03\x04" + bytes(60),
    "legacy_checkpoint": lambda: pickled(0x1950A86A20F9469CFC6C, 2) + pickled(1001, 2),
    "safetensors": lambda: struct.pack("<Q", 60) + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + bytes(10),
    "profiler_trace": lambda: json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X"}]}).encode(),
    "memory_stats": lambda: json.dumps({"active.all.current": 1, "allocated_bytes.all.peak": 2}).encode(),
    "memory_stats_pickle": lambda: pickled({"active.all.current": 1, "allocated_bytes.all.peak": 2}),
    "config_json": lambda: json.dumps({"architectures": ["X"], "hidden_size": 8}).encode(),
    "git_lfs_pointer": lambda: GIT_LFS,
    "log": lambda: LOG,
    "traceback": lambda: b"Traceback (most recent call last):\n  File \"x.py\", line 1\n",
    "prose": lambda: b"this is a note that somebody wrote about memory, nothing else\n",
    "utf16": lambda: '{"segments": [], "device_traces": []}'.encode("utf-16"),
    "list_of_ints": lambda: pickled(list(range(1000))),
    "one_string": lambda: pickled("hello"),
    "one_event": lambda: pickled(event()),
    "other_dict": lambda: pickled({"a\x1b[31mb\u202e": 1, "c": 2}),
    "elf": lambda: b"\x7fELF" + bytes(60),
    # snapshots of nothing
    "snapshot_empty": lambda: pickled({"segments": [], "device_traces": []}),
    "snapshot_no_events": lambda: pickled({"segments": [], "device_traces": [[], []]}),
    # cut
    "truncated_head": lambda: good()[:12],
    "truncated_quarter": lambda: truncated(good(), 0.25),
    "truncated_half": lambda: truncated(good(), 0.5),
    "truncated_last": lambda: truncated(good(), 1),
    "truncated_protocol0": lambda: truncated(pickled(snapshot(), 0), 0.5),
    "truncated_xz": lambda: truncated(xz_stored(good()), 0.5),
    "truncated_gzip": lambda: truncated(gzip_bytes(good()), 0.5),
    "truncated_zstd": lambda: truncated(zstd_raw(good()), 0.5),
    "corrupt_xz": lambda: flipped(xz_stored(good()), 0.5),
    # a letter of a name: the pickle makes sense, only the checksum behind it shows
    "corrupt_xz_name": lambda: xz_stored(good()).replace(b"train.py", b"brain.py"),
    "corrupt_gzip_name": lambda: gzip_bytes(good()).replace(b"train.py", b"brain.py"),
    "corrupt_xz_header": lambda: flipped(xz_stored(good()), 0.002),
    "corrupt_zstd": lambda: b"\x28\xb5\x2f\xfd\x00\x38" + b"\xff" * 40,
    "truncated_json": lambda: json.dumps(snapshot()).encode()[:3000],
    "json_trailing": lambda: json.dumps(snapshot()).encode() + b"]",
    "json_deep": lambda: b"[" * 100000,
    "json_bad_number": lambda: b'{"segments": [], "device_traces": [[{"action": "alloc", "addr": 0x7f}]]}',
    # code
    "global_os_system": lambda: b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x0ftouch pwned; id\x85R.",
    "global_protocol0": lambda: b"cos\nsystem\n(S'touch pwned'\ntR.",
    "inst_os_system": lambda: b"(S'touch pwned'\nios\nsystem\n.",
    "global_in_snapshot": lambda: b"\x80\x02}(X\x08\x00\x00\x00segmentscposix\nsystem\nX\x02\x00\x00\x00id\x85Ru.",
    "global_name_hostile": lambda: b"\x80\x02c\x1b]0;x\x07\n\xe2\x80\xae\x9b31m\n)R.",
    "persistent_id": lambda: b"\x80\x02(X\x07\x00\x00\x00storageX\x01\x00\x00\x000tQ.",
    "extension_code": lambda: b"\x80\x02\x82\x07.",
    # the machine
    "memo_out_of_range": lambda: b"\x80\x02j\xff\xff\xff\x7f.",
    "memo_put_bomb": lambda: b"\x80\x02Nr\x00\x00\x00\x80.",
    "dag_bomb": dag,
    "deep_lists": lambda: b"\x80\x02" + b"]" * 10**6 + b"a" * (10**6 - 1) + b".",
    "deep_marks": lambda: b"\x80\x02" + b"(" * 10**6,
    "huge_string": lambda: b"\x80\x02X\xff\xff\xff\x7fabc",
    "huge_string8": lambda: b"\x80\x04\x8d" + b"\xff" * 8 + b"abc",
    "huge_long": lambda: b"\x80\x02\x8b\xff\xff\xff\x7f",
    "negative_long": lambda: b"\x80\x02\x8b\xff\xff\xff\xff",
    "protocol6": lambda: b"\x80\x06N.",
    "unknown_opcode": lambda: b"\x80\x04}\xfe.",
    "stack_underflow": lambda: b"\x80\x02u.",
    "odd_dict": lambda: b"\x80\x02}(K\x01K\x02K\x03u.",
    "self_in_self": lambda: b"\x80\x02]q\x00h\x00a.",
    "long_line": lambda: b"I" + b"1" * (3 << 20),
    # values that lie
    "negative_size": lambda: with_events(event(size=-1)),
    "huge_size": lambda: with_events(event(size=1 << 70)),
    "text_addr": lambda: with_events(event(addr="0x7f00")),
    "missing_addr": lambda: with_events(without("addr")),
    "none_action": lambda: with_events(event(action=None)),
    "frames_of_ints": lambda: with_events(event(frames=[1, 2])),
    "frames_text": lambda: with_events(event(frames="train.py:3")),
    "stream_text": lambda: with_events(event(stream="default")),
    "pool_of_three": lambda: with_events(event(pool_id=(1, 2, 3))),
    "device_huge": lambda: pickled(snapshot(None, [segment(device=10**9)])),
    "device_negative": lambda: pickled(snapshot(None, [segment(device=-1)])),
    "many_devices": lambda: pickled({"segments": [], "device_traces": [[] for _ in range(5000)]}),
    "list_twice": lambda: pickled({"segments": [], "device_traces": [ONE_LIST, ONE_LIST]}),
    "row_twice": lambda: pickled(snapshot([ONE_ROW, event(addr=A + 512), ONE_ROW], [])),
    "events_are_ints": lambda: pickled({"segments": [], "device_traces": [[1, 2, 3]]}),
    "events_mixed": lambda: pickled({"segments": [], "device_traces": [[event(), 5, event()]]}),
    "traces_dict": lambda: pickled({"segments": [], "device_traces": {"0": [event()]}}),
    "segments_text": lambda: pickled({"segments": "none", "device_traces": [[event()]]}),
    "segments_hold_int": lambda: pickled({"segments": [segment(), 5], "device_traces": [[event()]]}),
    "blocks_text": lambda: pickled(snapshot(None, [segment(blocks="many")])),
    "segment_in_segment": lambda: pickled(snapshot(None, [segment(blocks=[segment()])])),
    # bombs; the limit is 32 MiB
    "bomb_zeros": lambda: zstd([(b"\0", 1 << 30)]),
    "bomb_frames": lambda: zstd([(b"\x95", 9 * (4 << 20))]),
    "bomb_string": lambda: zstd_raw(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 30)) + zstd([(b"a", 1 << 30)]),
    "bomb_lists": lambda: zstd_raw(b"\x80\x04") + zstd([(b"]", 300 << 20)]),
    "bomb_marks": lambda: zstd_raw(b"\x80\x04") + zstd([(b"(", 300 << 20)]),
    "bomb_gzip": lambda: gzip_bytes(b"\x80\x04(") + gzip.compress(b"N" * (30 << 20), 6, mtime=0) * 10,
    "bomb_xz": lambda: lzma.compress(b"\x80\x04(") + lzma.compress(b"}" * (8 << 20), preset=0) * 38,
}


def make(name, _data, path):
    with open(path, "wb") as f:
        f.write(INPUTS[name]())


def names(_data):
    return list(INPUTS)


if __name__ == "__main__":
    make(sys.argv[1], None, sys.argv[2])
