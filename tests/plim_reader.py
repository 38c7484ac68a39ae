#!/usr/bin/env python3
"""A reader of packed recordings (.plim) that was written from docs/formats/packed.md and shares nothing with Plimsoll's own.

    plim_reader.py RUN.plim          counts what is in it
    plim_reader.read(bytes)          a snapshot as torch.cuda.memory._snapshot() gives it

It stands alone: the standard library, and zstd (Python 3.14 has it, else the C library is called).  It checks every sum and
every bound, and raises Damaged.
"""
import ctypes
import ctypes.util
import struct
import sys

MASK = (1 << 64) - 1
M1, M2, M3 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom",
           "snapshot", "annotate", "other")
ALLOC, REQUESTED, COMPLETED, SEGMENT_ALLOC, OOM = 0, 1, 2, 3, 7
STATES = ("active_allocated", "active_pending_free", "inactive")
COLUMNS, TIME, FOLLOWING_MOST = 41, 30, 64
PLAIN_MOST = 1 << 31


class Damaged(Exception):
    """It is not a packed recording, or not what its sums say."""


def need(ok, what):
    if not ok:
        raise Damaged(what)


# ---- zstd and XXH3 ----

def unzstd(data, size):
    try:
        from compression import zstd
        return zstd.decompress(data)
    except ImportError:
        library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    out = ctypes.create_string_buffer(max(1, size))
    got = library.ZSTD_decompress(out, size, data, len(data))
    need(got == size, "a chunk cannot be unpacked")
    return out.raw[:size]


SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
P32_1, P32_2, P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def fold(a, b):
    product = a * b
    return (product ^ product >> 64) & MASK


def avalanche(h):
    h = (h ^ h >> 37) * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def mix16(data, at, secret):
    return fold(u64(data, at) ^ u64(SECRET, secret), u64(data, at + 8) ^ u64(SECRET, secret + 8))


def accumulate(acc, data, at, secret):
    """A stripe of 64 bytes."""
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", SECRET, secret)
    for i in range(8):
        key = values[i] ^ keys[i]
        acc[i ^ 1] += values[i]
        acc[i] = acc[i] + (key & 0xFFFFFFFF) * (key >> 32) & MASK
    for i in range(8):
        acc[i] &= MASK


def xxh3(data):
    """XXH3 with 64 bits and no seed, of 17 bytes and more: nothing shorter is summed in these files."""
    n = len(data)
    need(n > 16, "a part of no size that could be")
    if n <= 128:
        h = n * P64[0] & MASK
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & MASK)
    if n <= 240:
        h = n * P64[0] & MASK
        for i in range(8):
            h += mix16(data, 16 * i, 16 * i)
        h = avalanche(h & MASK)
        for i in range(8, n // 16):
            h += mix16(data, 16 * i, 16 * (i - 8) + 3)
        return avalanche(h + mix16(data, n - 16, 136 - 17) & MASK)
    acc = [P32_3, *P64[:3], P64[3], P32_2, P64[4], P32_1]
    stripes = (n - 1) // 64
    for s in range(stripes):
        accumulate(acc, data, 64 * s, 8 * (s % 16))
        if s % 16 == 15 and s < (n - 1) // 1024 * 16:
            for i in range(8):
                acc[i] = ((acc[i] ^ acc[i] >> 47) ^ u64(SECRET, 128 + 8 * i)) * P32_1 & MASK
    accumulate(acc, data, n - 64, 192 - 64 - 7)
    h = n * P64[0]
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 19 + 16 * i))
    return avalanche(h & MASK)


# ---- numbers ----

class Column:
    """A sequence of varints, or bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value = shift = 0
        while True:
            need(self.at < len(self.data) and shift < 70, "a column ends early")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                need(value <= MASK, "a number of more than 64 bits")
                return value
            shift += 7

    def below(self, limit):
        value = self.number()
        need(value < limit, "a number is too large")
        return value

    def zigzag(self):
        value = self.number()
        return value >> 1 ^ -(value & 1) & MASK

    def take(self, n):
        need(n <= len(self.data) - self.at, "a text ends early")
        self.at += n
        return self.data[self.at - n:self.at]

    def time(self, now):
        code = self.number()
        return signed(now + (code - 1 if code else -self.number()))


def signed(value):
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


# ---- tables ----

class Part:
    """One chunk: the tables in their order."""

    def __init__(self, plain):
        head = Column(plain)
        need(head.number() == COLUMNS, "columns that are not known")
        sizes = [head.number() for _ in range(COLUMNS)]
        self.columns = [Column(head.take(size)) for size in sizes]
        need(head.at == len(plain), "columns of another length")
        self.next_text = self.next_stack = 0
        numbers = self.columns[0]
        flags = numbers.below(1024)
        (self.has_time, self.has_traces, self.has_frames, self.has_block_frames, self.has_context, self.has_metadata,
         self.has_annotations, self.times_made, self.end_unknown, self.has_pool) = [bool(flags >> i & 1) for i in range(10)]
        self.device_count = numbers.below(1025)
        self.texts = self.frames = self.stacks = ()
        self.texts = [self.columns[2].take(self.columns[1].number()) for _ in range(numbers.number())]
        need(len(set(self.texts)) == len(self.texts), "a text stands twice")
        self.frames = [(self.text(3), self.text(4), self.columns[5].number() - 1) for _ in range(numbers.number())]
        self.stacks = self.read_stacks(numbers.number())
        self.streams = [signed(numbers.zigzag()) for _ in range(numbers.number())]
        self.pools = [(0, 0)] + [(signed(numbers.zigzag()), signed(numbers.zigzag())) for _ in range(numbers.number())]
        self.settings = self.read_settings() if numbers.below(2) else None
        self.sources = self.text(0)
        self.unknown = [(self.text(0), numbers.below(6), numbers.number()) for _ in range(numbers.number())]
        self.annotations, now = [], 0
        for _ in range(numbers.number()):
            edge = numbers.below(1 << 17)
            now = self.columns[15].time(now)
            self.annotations.append((now, edge >> 1, edge & 1, self.text(16)))
        self.devices = [self.read_device() for _ in range(self.device_count)]
        self.segments = self.read_segments(numbers.number())
        need(all(c.at == len(c.data) for c in self.columns), "a column goes on behind its end")

    def text(self, column):
        """None, or the bytes of a text that is named there."""
        code = self.columns[column].number()
        if not code:
            return None
        number = self.next_text if code == 1 else code - 2
        need(number < len(self.texts), "a name that is not there")
        self.next_text = max(self.next_text, number + 1)
        return self.texts[number]

    def stack(self, column):
        code = self.columns[column].number()
        if not code:
            return None
        number = self.next_stack if code == 1 else code - 2
        need(number < len(self.stacks), "a name that is not there")
        self.next_stack = max(self.next_stack, number + 1)
        return number

    def read_stacks(self, count):
        called = [None] * (len(self.frames) + 1)
        before, following, stacks = [], 0, []
        for _ in range(count):
            left = self.columns[6].below(len(before) + 1)
            before = before[:len(before) - left]
            for _ in range(self.columns[7].number()):
                caller = before[-1] + 1 if before else 0
                code = self.columns[8].number()
                frame = called[caller] if code == 0 else following if code == 1 else code - 2
                need(frame is not None and frame < len(self.frames), "a frame that is not there")
                following = max(following, frame + 1)
                called[caller] = frame
                before.append(frame)
            stacks.append(tuple(reversed(before)))
        need(len(set(stacks)) == len(stacks), "a stack stands twice")
        return stacks

    def read_settings(self):
        n = self.columns[0]
        known = [n.below(2) for _ in range(4)]
        known.append(self.text(0))
        known.append(MASK + n.zigzag() & MASK)
        known.append(struct.unpack("<d", struct.pack("<Q", n.number()))[0])
        known.extend(n.below(1 << 32) for _ in range(16))
        values = iter([(kind, self.text(0) if kind == 5 else n.number()) for kind in
                       (n.below(11) for _ in range(n.number()))])

        def value(kind, bits):
            if kind in (8, 9, 10):
                items = [value(*next(values)) for _ in range(bits)]
                return dict(zip(items[::2], items[1::2])) if kind == 10 else items if kind == 8 else tuple(items)
            return {0: lambda: None, 1: lambda: bool(bits), 2: lambda: signed(bits), 3: lambda: bits,
                    4: lambda: struct.unpack("<d", struct.pack("<Q", bits))[0], 5: lambda: said(bits)}[kind]()

        try:
            whole = {}
            for kind, bits in values:
                key = value(kind, bits)
                whole[key] = value(*next(values))
        except (StopIteration, KeyError, TypeError) as why:
            raise Damaged("settings that hold more than there is") from why
        return {"known": known, "values": whole}

    def read_device(self):
        numbers = self.columns[0]
        count, dropped = numbers.below(1 << 28), numbers.number()
        need(count <= len(self.columns[19].data), "more events than there are")
        events = Events(self, count).rows if count else []
        labels, before = [], 0
        for _ in range(numbers.number()):
            row = before + self.columns[17].zigzag() & MASK
            before = row | 1
            text = self.text(18)
            need(row >> 1 < count and text is not None, "a label of an event that is not there")
            labels.append((row >> 1, row & 1, text))
        return {"events": events, "dropped": dropped, "labels": labels}

    def read_segments(self, count):
        c, segments, at = self.columns, [], 0
        for _ in range(count):
            s = {"device": c[9].below(self.device_count), "kind": c[9].below(4), "stream": c[9].below(len(self.streams)),
                 "pool": c[9].below(len(self.pools)), "stack": self.stack(14)}
            at = s["address"] = at + c[10].zigzag() & MASK
            s["bytes"] = c[9].number()
            s["allocated"] = s["bytes"] + c[9].zigzag() & MASK
            s["active"] = s["allocated"] + c[9].zigzag() & MASK
            s["requested"] = s["active"] + c[9].zigzag() & MASK
            s["blocks"] = []
            for _ in range(c[9].number()):
                code = c[11].below(8)
                if code & 4:
                    at = at + c[10].zigzag() & MASK
                size = c[12].number()
                need(code & 3 < 3, "a block of no known state")
                s["blocks"].append((at, size, size + c[13].zigzag() & MASK, code & 3, self.stack(14)))
                at = at + size & MASK
            segments.append(s)
        return segments


# ---- events ----

def rounded(size):
    return (size + 511) & ~511 & MASK


class Events:
    """The events of a device: (action, address, size, time, stack, stream, pool) each."""

    def __init__(self, part, count):
        self.part, self.columns = part, part.columns
        bits = 8
        while bits < 18 and 1 << bits < count // 2:
            bits += 1
        self.shift = 64 - bits
        self.sites_after, self.sizes_after, self.addresses_after, self.freed = ([0] * (1 << bits) for _ in range(4))
        self.ends_after = [0] * (1 << bits), [0] * (1 << bits)
        self.sites = []  # [action, stack, stream, pool, 1 + the one that followed, last size]
        self.history = self.last_site = self.last_size = self.unknown = self.now = 0
        self.sizes, self.distances = [0, 0], [0, 0]
        self.last_address = [0] * len(ACTIONS)
        self.born = [(0, 0)]  # every allocation in the order of births, from 1
        self.living = {}  # those that live, the youngest last
        self.requested = 0
        self.rows = [self.event() for _ in range(count)]

    def place(self, key):
        key &= MASK
        return ((key ^ key >> 29) * M2 & MASK) >> self.shift

    def site(self):
        place = self.place(self.history)
        code = self.columns[19].number()
        if code == 0:
            number = self.sites_after[place] - 1
        elif code == 1:
            number = self.sites[self.last_site][4] - 1 if self.sites else -1
        else:
            number = code - 2
        need(0 <= number < len(self.sites) + (code > 1), "a site that was never before")
        if number == len(self.sites):
            self.sites.append([self.columns[20].below(len(ACTIONS)), self.part.stack(21), self.columns[22].below(len(self.part.streams)),
                               self.columns[23].below(len(self.part.pools)), 0, 0])
        self.sites_after[place] = number + 1
        self.sites[self.last_site][4] = number + 1
        self.history = ((self.history << 16 & MASK) * M3 + number + 1) & MASK
        self.last_site = number
        return number

    def event(self):
        number = self.site()
        action, stack, stream, pool = self.sites[number][:4]
        if self.part.has_time:
            self.now = self.columns[TIME + action].time(self.now)
        if action in (REQUESTED, COMPLETED):
            address, size = self.end(number, action == COMPLETED, stream)
        else:
            size = self.size(number)
            address = self.address(number, size)
        if action == ALLOC:
            self.living[len(self.born)] = None
            self.born.append((address, size))
            self.last_size = size
        return action, address, size, self.now, stack, stream, pool

    def size(self, number):
        one, two = self.sizes
        place = self.place(number + 1 + one * M1 + (two * M3 & MASK ^ two >> 7))
        code = self.columns[24].number()
        size = (self.sizes_after[place] if code == 0 else self.sites[number][5] if code == 1 else
                self.columns[29].number() if code == 2 else code - 3)
        self.sizes_after[place] = self.sites[number][5] = size
        self.sizes = [size, one]
        return size

    def address(self, number, size):
        action, _, stream = self.sites[number][:3]
        last = self.last_address[action]
        place = self.place(number * M3 + size * M1 + last)
        code = self.columns[25].number()
        if code == 0:
            address = self.addresses_after[place]
        elif code == 1:
            address = self.freed[self.place(rounded(size) * M1 + stream)]
        elif code == 2:
            address = last + rounded(self.last_size)
        elif code == 3:
            address = self.last_address[SEGMENT_ALLOC]
        elif code == 4:
            address = last + self.columns[28].zigzag()
        else:
            difference = code - 5
            address = last + (difference >> 1 ^ -(difference & 1)) * 512
        address &= MASK
        self.addresses_after[place] = self.last_address[action] = address
        return address

    def end(self, number, done, stream):
        one, two = self.distances
        table = self.ends_after[done]
        place = self.place(number + 1 + one * M1 + two * M3)
        code = self.columns[27 if done else 26].number()
        if code == 33:
            self.unknown = self.unknown + self.columns[28].zigzag() & MASK
            return self.unknown, self.columns[29].number()
        if code == 0:
            which = self.requested if done and self.requested in self.living else len(self.born) - table[place] if table[place] else 0
        elif code >= 34:
            which = len(self.born) - (code - 34)
        else:
            young = reversed(self.living)
            for _ in range(code - 1):
                next(young, None)
            which = next(young, 0)
        need(which in self.living, "the end of what does not live")
        address, size = self.born[which]
        distance = table[place] = len(self.born) - which
        if done:
            del self.living[which]
            self.freed[self.place(rounded(size) * M1 + stream)] = address
        else:
            self.distances = [distance, one]
            self.requested = which
        return address, size


# ---- a file ----

def said(text):
    return None if text is None else text.decode("utf-8", "surrogatepass")


def parts(data):
    """The chunks that hold a recording, every sum checked."""
    need(len(data) > 25 and data[:8] == b"PLIM\x89\r\n\x1a", "no packed recording")
    major, _, flags = struct.unpack_from("<HHI", data, 8)
    need(major == 1, f"version {major}")
    del flags  # 0 in this version
    found, file = [], Column(data)
    file.at = 16
    while True:
        kind = file.take(1)[0]
        if kind == 0:
            break
        packed, plain = file.below(PLAIN_MOST + 1), file.below(PLAIN_MOST + 1)
        frame, told = file.take(packed), u64(file.take(8), 0)
        if kind >= 128:
            continue
        need(kind == (2 if found else 1) and len(found) <= FOLLOWING_MOST, f"a chunk of kind {kind}")
        content = unzstd(frame, plain)
        need(len(content) == plain and xxh3(content) == told, "a checksum differs")
        found.append(Part(content))
    need(u64(file.take(8), 0) == xxh3(data[:file.at - 8]), "the checksum of the whole differs")
    need(file.at == len(data) and found, "it has another end")
    return found


def frames_of(part, stack):
    return [{"name": said(name) or "", "filename": said(file) or "", "line": line}
            for name, file, line in (part.frames[f] for f in part.stacks[stack])] if stack is not None else []


def events_of(part, device):
    """A device's events as PyTorch has them."""
    labels = {}
    for row, is_context, text in part.devices[device]["labels"]:
        labels[row, is_context] = said(text)
    stacks, rows = {}, []
    for i, (action, address, size, time, stack, stream, pool) in enumerate(part.devices[device]["events"]):
        if stack not in stacks:
            stacks[stack] = frames_of(part, stack)
        row = {"action": ACTIONS[action], "device_free" if action == OOM else "addr": address, "size": size,
               "stream": part.streams[stream], "frames": stacks[stack]}
        if part.has_time:
            row["time_us"] = time
        if part.has_pool:
            row["pool_id"] = part.pools[pool]
        if part.has_context:
            row["compile_context"] = labels.get((i, 1), "N/A")
        if part.has_metadata:
            row["user_metadata"] = labels.get((i, 0), "")
        rows.append(row)
    return rows


def segments_of(part):
    return [{"device": s["device"], "address": s["address"], "total_size": s["bytes"], "allocated_size": s["allocated"],
             "active_size": s["active"], "requested_size": s["requested"], "stream": part.streams[s["stream"]],
             "segment_type": "large" if s["kind"] & 1 else "small", "segment_pool_id": part.pools[s["pool"]],
             "is_expandable": bool(s["kind"] & 2), "frames": frames_of(part, s["stack"]),
             "blocks": [{"address": at, "size": size, "requested_size": requested, "state": STATES[state],
                         "frames": frames_of(part, stack)} for at, size, requested, state, stack in s["blocks"]]}
            for s in part.segments]


def read(data):
    """A snapshot: "segments", "device_traces" and what else the file has."""
    found = parts(data)
    last = found[-1]
    traces = [[] for _ in range(max(p.device_count for p in found))]
    annotations = []
    for part in found:
        for device in range(part.device_count):
            rows = events_of(part, device)
            if traces[device] and part.has_time:
                least = traces[device][-1]["time_us"]
                for row in rows:
                    row["time_us"] = max(least, row["time_us"])
            traces[device] += rows
        annotations += part.annotations
    snapshot = {"segments": segments_of(last), "device_traces": traces}
    settings = [p.settings for p in found if p.settings is not None]
    if settings:
        snapshot["allocator_settings"] = settings[-1]["values"]
    if any(p.has_annotations for p in found):
        snapshot["external_annotations"] = [{"device": device, "stage": "END" if end else "START", "time_us": time, "name": said(name)}
                                            for time, device, end, name in annotations]
    sources = [p.sources for p in found if p.sources is not None]
    if sources:
        snapshot["plimsoll_sources"] = said(sources[-1])
    return snapshot


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, "rb") as f:
            whole = read(f.read())
        print(f"{path}: {sum(map(len, whole['device_traces']))} events on {len(whole['device_traces'])} devices, "
              f"{len(whole['segments'])} segments")
