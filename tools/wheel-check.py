#!/usr/bin/env python3
"""wheel-check.py WHEEL|PROGRAM GLIBC: what a wheel or a program must be, or say what is wrong.

Only libc is needed, in no newer version than GLIBC.  A wheel is for every CPython 3; at most 3 MB; typed; with the program in it.
"""
import io
import re
import struct
import sys
import zipfile

LIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MOST_BYTES = 3_000_000
ELF = b"\x7fELF"


def sections(elf):
    """{name: (type, bytes, link's bytes)} of a little-endian 64-bit ELF."""
    at, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", elf, at + i * size) for i in range(count)]
    strings = elf[heads[names][4]:][:heads[names][5]]
    for head in heads:
        link = heads[head[6]]
        yield string(strings, head[0]), elf[head[4]:head[4] + head[5]], elf[link[4]:link[4] + link[5]]


def string(table, at):
    return table[at:table.index(b"\0", at)].decode()


def needs(elf):
    """(libraries, versions of glibc) that an ELF file needs."""
    libraries, versions = set(), set()
    for name, body, strings in sections(elf):
        if name == ".dynamic":
            for tag, value in struct.iter_unpack("<QQ", body[:len(body) // 16 * 16]):
                if tag == 1:
                    libraries.add(string(strings, value))
        if name == ".gnu.version_r":
            versions |= set(re.findall(r"GLIBC_([\d.]+)", strings.decode("latin-1")))
    return libraries, versions


def number(version):
    return tuple(int(part) for part in version.split("."))


def wrong_program(name, body, glibc):
    libraries, versions = needs(body)
    newest = max(versions, key=number, default="0")
    print(f"{name}: {len(body):,} bytes, needs {', '.join(sorted(libraries))}, GLIBC_{newest}")
    if libraries - LIBC:
        yield f"{name} needs {', '.join(sorted(libraries - LIBC))}"
    if number(newest) > number(glibc):
        yield f"{name} needs GLIBC_{newest}"


def wrong_wheel(path, content, glibc):
    if len(content) > MOST_BYTES:
        yield f"{len(content):,} bytes, more than {MOST_BYTES:,}"
    if "-py3-none-" not in path:
        yield "not for every CPython: the name lacks py3-none"
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        names = wheel.namelist()
        for part in ("plimsoll/py.typed", "plimsoll/__init__.py", "scripts/plimsoll", "libplimsoll.so"):
            if not any(name.endswith(part) for name in names):
                yield f"'{part}' is not in it"
        for name in names:
            body = wheel.read(name)
            if body.startswith(ELF):
                yield from wrong_program(name, body, glibc)
    print(f"{path}: {len(content):,} bytes, {len(names)} files")


def wrong(path, glibc):
    with open(path, "rb") as f:
        content = f.read()
    yield from (wrong_program if content.startswith(ELF) else wrong_wheel)(path, content, glibc)


found = list(wrong(*sys.argv[1:3]))
for what in found:
    print(f"wheel-check: {what}", file=sys.stderr)
sys.exit(bool(found))
