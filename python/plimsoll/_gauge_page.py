"""The page of the gauge, written by Python itself; include/plimsoll/gauge.h has its layout.

Needs nothing but the standard library (3.8), since `plimsoll record` puts this file next to its recorder, too.  A hook in a
training loop runs with cold caches, where each call through ctypes takes 15 to 40 us: stores into a mapping take 2.
One thread writes at a time, as the header says; two do no harm that lasts.
"""
from __future__ import annotations

import mmap
import os
import struct
import sys
import time
import weakref
from typing import Dict, Optional, Tuple

UNKNOWN = 2**64 - 1
NAN = float("nan")
BYTES, STEPS, DEVICES = 4096, 112, 16
HEAD = struct.Struct("=8sIIQIIQII64sIIQ")  # magic ... total_steps: the 128 bytes before `sequence`
DONE = struct.Struct("=Qddd")  # step, loss, lr, grad_norm
DEVICE = struct.Struct("=10Q")  # of a plim_gauge_device, behind its uuid
MARK = struct.Struct("=IIQ")
# Offsets, and indices of words of 8 bytes.
AT_COUNT, AT_DONE, AT_DEVICES, AT_MARKS = 28, 144, 256, 2304
AT_LIMIT = AT_DEVICES + 16 + 8 * 5  # of the first device
SEQUENCE, UPDATED, PHASE, PHASE_SINCE, LAST_STEP, BEFORE_PHASES = 16, 17, 22, 23, 24, 24

LIMITS_EVERY_NS = 2_000_000_000  # src/live/gauge/hooks.c has it too

_pages: weakref.WeakSet[Page] = weakref.WeakSet()


def _forked() -> None:
    """A child has the mapping too: it writes nothing and removes nothing."""
    for page in list(_pages):
        page.words = None


os.register_at_fork(after_in_child=_forked)


def limit_of(device: int) -> int:
    """What torch.cuda.set_per_process_memory_fraction leaves to this process; UNKNOWN: all, or this PyTorch does not say."""
    try:
        cuda = sys.modules["torch"].cuda
        fraction = cuda.get_per_process_memory_fraction(device)
        return int(fraction * cuda.get_device_properties(device).total_memory) if 0 < fraction < 1 else UNKNOWN
    except Exception:  # pylint: disable=broad-exception-caught  # the job must not hear of it
        return UNKNOWN


def start_time(pid: object) -> int:
    """Field 22 of /proc/PID/stat; 0: there is none."""
    try:
        with open("/proc/%s/stat" % pid, "rb") as f:
            return int(f.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def place() -> str:
    """A path for this process; pages of processes that are gone are removed.  Raises OSError where there is no folder."""
    for folder in ("/dev/shm", os.environ.get("XDG_RUNTIME_DIR")):
        if folder and os.access(folder, os.W_OK):
            sweep(folder)
            return os.path.join(folder, "plimsoll.%d" % os.getpid())
    raise OSError("there is no folder for the gauge: /dev/shm cannot be written, and XDG_RUNTIME_DIR is not set")


def sweep(folder: str) -> None:
    if not start_time("self"):
        return  # without /proc no one is known to be gone
    for name in os.listdir(folder):
        head, _, pid = name.partition("plimsoll.")
        path = os.path.join(folder, name)
        if head or not pid.isdigit() or start_time(pid):
            continue
        try:  # another user's, or no page: not ours to remove
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as f:
                if os.fstat(f.fileno()).st_uid == os.getuid() and f.read(8) == b"PLIMGAGE":
                    os.unlink(path)
        except OSError:
            pass


def new_map(path: str) -> mmap.mmap:
    """A file of our own: what has the name already is of a process that is gone, or no one's business."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(fd, 0, BYTES)  # else a full /dev/shm is a signal later
        return mmap.mmap(fd, BYTES)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)


def _turn(words: memoryview[int], phase: int, now: int) -> None:
    was = words[PHASE]
    if was & 0xFFFFFFFF:
        words[BEFORE_PHASES + (was & 7)] += now - words[PHASE_SINCE]
    words[PHASE], words[PHASE_SINCE] = was & ~0xFFFFFFFF | phase, now


class Page:
    """run: a name for people.  writer: 1 the package, 2 `plimsoll record`.  Raises OSError where it cannot be made.

    records: SIGUSR1 makes this process write a recording (`plimsoll watch --ask` sends it).
    """

    def __init__(self, path: Optional[str] = None, run: str = "", rank: int = 0, world: int = 0, total_steps: int = UNKNOWN,
                 writer: int = 1, records: bool = False) -> None:
        self.path = place() if path is None else path
        self.pid, self.map = os.getpid(), new_map(self.path)
        self.epoch, self.devices = 0, 0
        self.limits: Dict[int, Tuple[int, int]] = {}  # of a device: when it was asked for, bytes
        self.loss = self.lr = self.grad_norm = NAN
        self.last = time.monotonic_ns()  # when the last step ended; hooks in C keep it too
        for slot in range(DEVICES):
            DEVICE.pack_into(self.map, AT_DEVICES + 128 * slot + 16, *[UNKNOWN] * 10)
        for i in range(STEPS):
            MARK.pack_into(self.map, AT_MARKS + 16 * i, 0, 0, UNKNOWN)
        DONE.pack_into(self.map, AT_DONE, 0, NAN, NAN, NAN)
        words = memoryview(self.map).cast("Q")
        words[PHASE_SINCE] = words[UPDATED] = self.last
        words[LAST_STEP] = UNKNOWN
        name = run.encode("utf-8", "replace")[:63]
        # The magic last: before it is not a page.
        HEAD.pack_into(self.map, 0, b"", 1, BYTES, start_time("self"), self.pid, 0, time.time_ns(), writer, int(records), name, rank, world,
                       total_steps)
        self.map[:8] = b"PLIMGAGE"
        self.words: Optional[memoryview[int]] = words
        _pages.add(self)

    def turn(self, phase: int) -> None:
        """Another phase begins: 0 to 7, as enum plim_gauge_phase."""
        words = self.words
        if words is None:
            return
        now = time.monotonic_ns()
        odd = words[SEQUENCE] + 1 | 1
        words[SEQUENCE] = odd
        _turn(words, phase, now)
        words[UPDATED] = now
        words[SEQUENCE] = odd + 1

    def step(self, step: int, memory: Optional[Tuple[int, int, int, int, int, int]] = None, device: int = 0, flags: int = 0,
             phase: Optional[int] = None, most: Optional[int] = None) -> None:
        """A step is over, and perhaps the phase.

        memory: allocated, reserved, their peaks, retries, failures.  loss and others as they were set.  most: allocated bytes,
        of all moments since the step before.
        """
        words = self.words
        if words is None:
            return
        now = time.monotonic_ns()
        limit = UNKNOWN if memory is None else self.limit(device, now)
        odd = words[SEQUENCE] + 1 | 1
        words[SEQUENCE] = odd
        if phase is not None:
            _turn(words, phase, now)
        again = step == words[AT_DONE // 8]  # the loss of a step that was reported already
        if not again:
            words[LAST_STEP], self.last = now - self.last, now
        DONE.pack_into(self.map, AT_DONE, step, self.loss, self.lr, self.grad_norm)
        words[PHASE] = words[PHASE] & 0xFFFFFFFF | self.epoch << 32
        if memory is not None:
            allocated, reserved, peak, reserved_peak, retries, ooms = memory
            DEVICE.pack_into(self.map, AT_DEVICES + 16 + 128 * device, allocated, reserved, UNKNOWN, peak, reserved_peak, limit,
                             retries, ooms, UNKNOWN, UNKNOWN)
            if device >= self.devices:
                self.devices = device + 1
                self.map[AT_COUNT] = self.devices
        if not again or flags or most is not None:
            MARK.pack_into(self.map, AT_MARKS + 16 * (step % STEPS), step & 0xFFFFFFFF, flags, UNKNOWN if most is None else most)
        words[UPDATED] = now
        words[SEQUENCE] = odd + 1

    def tell_limit(self, device: int) -> None:
        """The limit alone; the hooks in C, which write the other numbers of a step, ask for it now and then."""
        words = self.words
        if words is not None and device < DEVICES:
            words[SEQUENCE] = odd = words[SEQUENCE] + 1 | 1
            words[AT_LIMIT // 8 + 16 * device] = limit_of(device)
            words[SEQUENCE] = odd + 1

    def limit(self, device: int, now: int) -> int:
        """It may be set at any time, and asking costs more than a step."""
        when, limit = self.limits.get(device, (0, UNKNOWN))
        if not when or now - when >= LIMITS_EVERY_NS:
            limit = limit_of(device)
            self.limits[device] = now, limit
        return limit

    def close(self) -> None:
        """Remove it, unless this is a forked child."""
        words, self.words = self.words, None  # the mapping goes with the last thread that writes to it
        if words is not None and os.getpid() == self.pid:
            try:
                os.unlink(self.path)
            except OSError:
                pass
