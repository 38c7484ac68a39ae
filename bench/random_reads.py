#!/usr/bin/env python3
"""random_reads.py [--folder DIR] [--mib N] [--rounds N]: records of a file in random order by preadv and out of a map, to the same 2 MiB.

The file is in the page cache.  Ways in turn; processor time of this thread, so that what else runs on the machine hardly counts.
"""
import argparse
import ctypes
import mmap
import os
import random
import statistics
import sys
import tempfile
import time

RECORD = 150_536  # 3 x 224 x 224 uint8 and a label
SLOT = 2 << 20
POPULATE, RANDOM = 0x8000, 1  # MAP_POPULATE, MADV_RANDOM
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Ways:
    def __init__(self, f, size):
        self.fd, self.size = f.fileno(), size
        self.order = list(range(size // RECORD))
        random.Random(1).shuffle(self.order)
        self.slot = mmap.mmap(-1, SLOT)
        self.slot.write(b"\1" * SLOT)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.slot))
        self.most = SLOT // RECORD
        self.views = [memoryview(self.slot)[i * RECORD:(i + 1) * RECORD] for i in range(self.most)]
        self.kept = self.map(0)
        self.copy(self.kept)

    def map(self, flags):
        return libc.mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED | flags, self.fd, 0)

    def copy(self, base):
        for k, i in enumerate(self.order):
            ctypes.memmove(self.at + k % self.most * RECORD, base + i * RECORD, RECORD)

    def preadv(self):
        for k, i in enumerate(self.order):
            os.preadv(self.fd, [self.views[k % self.most]], i * RECORD)

    def seen(self):
        self.copy(self.kept)

    def fresh(self, flags=0, advice=0):
        base = self.map(flags)
        libc.madvise(base, self.size, advice)
        self.copy(base)
        libc.munmap(base, self.size)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder")
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir=given.folder) as f:
        block = os.urandom(1 << 20)
        for _ in range(given.mib):
            f.write(block)
        f.flush()
        ways = Ways(f, given.mib << 20)
        rows = {"preadv": ways.preadv, "a map, for the first time": ways.fresh, "with MAP_POPULATE": lambda: ways.fresh(POPULATE),
                "with MADV_RANDOM": lambda: ways.fresh(advice=RANDOM), "all pages seen before": ways.seen}
        found = {name: [] for name in rows}
        for _ in range(given.rounds):
            for name, run in rows.items():
                began = time.thread_time()
                run()
                found[name].append((time.thread_time() - began) / (len(ways.order) * RECORD / 1e9))
        for name, values in found.items():
            print(f"{name:28} {min(values):.3f} s a GB, median {statistics.median(values):.3f}")


if __name__ == "__main__":
    sys.exit(main())
