"""Programs that are made up: a GPU records what PyTorch would, a Trainer is a loop as people write it."""
MIB = 1 << 20
TORCH = "/usr/lib/python3/dist-packages/torch/"


def frame(file, line, name):
    return {"filename": file, "line": line, "name": name}


def user(line, name="train", file="/home/me/train.py"):
    return frame(file, line, name)


def module(line, *layers):
    """The stack inside a module that the user's line calls; one more layer, another stack."""
    inner = [frame(TORCH + "nn/modules/linear.py", 100 + n, "forward") for n in layers]
    return [*inner, frame(TORCH + "nn/modules/module.py", 1500, "_call_impl"), user(line)]


BUILD = [frame(TORCH + "nn/modules/linear.py", 90, "__init__"), user(3)]
STEP = [frame(TORCH + "optim/adam.py", 238, "step"), user(30)]
STATE = [frame(TORCH + "optim/adam.py", 178, "_init_group"), *STEP]
ZERO = [frame(TORCH + "optim/optimizer.py", 1066, "zero_grad"), user(31)]


class Card:
    """Each block has a segment of its own, which is used again for its size."""

    def __init__(self):
        self.events, self.free, self.segments, self.live, self.next = [], {}, [], {}, 0x7F0000000000
        self.annotations, self.stacks = [], {}

    def event(self, action, addr, size, stack=()):
        self.events.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 2 * len(self.events),
                            "frames": list(stack)})

    def mark(self, stage, name):
        """An edge of record_function's range: behind the last event and before the next."""
        self.annotations.append({"stage": stage, "name": name, "device": 0, "time_us": 2 * len(self.events) - 1})

    def alloc(self, size, stack=()):
        segment = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        cached = self.free.setdefault((segment, size), [])
        if cached:
            addr = cached.pop()
        else:
            addr, self.next = self.next, self.next + segment + 2 * MIB
            self.event("segment_alloc", addr, segment, stack)
            self.segments.append((addr, segment))
        self.event("alloc", addr, size, stack)
        self.live[addr], self.stacks[addr] = (size, segment), list(stack)
        return addr

    def drop(self, *blocks, stack=(user(99),), wait=False):
        for addr in blocks:
            size, segment = self.live.pop(addr)
            self.event("free_requested", addr, size, stack)
            if not wait:
                self.event("free_completed", addr, size)
                self.free[segment, size].append(addr)

    def snapshot(self, pool=(0, 0), stacks=False, last=None):
        """`stacks`: those of the blocks, too; `last`: events that a ring has kept."""
        segments = []
        for addr, total in self.segments:
            size = self.live.get(addr, (0, 0))[0]
            block = -(-size // 512) * 512
            if total - block < (512 if total == 2 * MIB else MIB + 1):
                block = total if size else 0
            blocks = [{"address": addr, "size": block, "requested_size": size, "state": "active_allocated",
                       "frames": self.stacks[addr] if stacks else []}] if size else []
            if block < total:
                blocks.append({"address": addr + block, "size": total - block, "requested_size": 0, "state": "inactive", "frames": []})
            segments.append({"device": 0, "address": addr, "total_size": total, "allocated_size": block, "active_size": block,
                             "requested_size": size, "stream": 0, "segment_type": "small" if total == 2 * MIB else "large",
                             "segment_pool_id": pool, "is_expandable": False, "frames": [], "blocks": blocks})
        return {"segments": segments, "device_traces": [self.events[-last if last else 0:]], "allocator_settings": {}, "external_annotations": self.annotations}

    def fail(self, size, stack):
        """The driver has nothing left."""
        self.event("oom", 0, size, stack)


class Heap:
    """Segments that hold several blocks each, of any stream and pool."""

    def __init__(self, pools_in_events=True):
        self.events, self.segments, self.next, self.tells = [], [], 0x7F0000000000, pools_in_events

    def event(self, action, addr, size, stream, pool, stack=()):
        one = {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 2 * len(self.events), "frames": list(stack)}
        if action == "oom":
            one["device_free"] = one.pop("addr")
        self.events.append(dict(one, pool_id=pool) if self.tells else one)

    def segment(self, size, *blocks, stream=0, pool=(0, 0), stack=(), expandable=False):
        """One that has such blocks, [(bytes, stack)], from its front."""
        one = {"addr": self.next, "size": size, "stream": stream, "pool": pool, "blocks": [], "expandable": expandable,
               "type": "small" if blocks and max(blocks)[0] <= MIB else "large"}
        self.next += size + 2 * MIB
        self.segments.append(one)
        self.event("segment_map" if expandable else "segment_alloc", one["addr"], size, stream, pool, blocks[0][1] if blocks else stack)
        at = one["addr"]
        for size, made in blocks:
            block = -(-size // 512) * 512
            self.event("alloc", at, size, stream, pool, made)
            one["blocks"].append((at, size, made))
            at += block
        return one

    def free(self, segment, *numbers):
        for number in sorted(numbers or range(len(segment["blocks"])), reverse=True):
            addr, size, _ = segment["blocks"].pop(number)
            for action in "free_requested", "free_completed":
                self.event(action, addr, size, segment["stream"], segment["pool"])

    def fail(self, size, stream=0, pool=(0, 0), room=0, stack=(user(50, "forward"),)):
        self.event("oom", room, size, stream, pool, stack)

    def snapshot(self):
        segments = []
        for s in self.segments:
            blocks, at = [], s["addr"]
            for addr, size, stack in [*s["blocks"], (s["addr"] + s["size"], 0, ())]:
                if addr > at:
                    blocks.append({"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []})
                block = -(-size // 512) * 512
                if size:
                    blocks.append({"address": addr, "size": block, "requested_size": size, "state": "active_allocated", "frames": list(stack)})
                at = addr + block
            live, asked = sum(-(-size // 512) * 512 for _, size, _ in s["blocks"]), sum(size for _, size, _ in s["blocks"])
            segments.append({"device": 0, "address": s["addr"], "total_size": s["size"], "allocated_size": live, "active_size": live,
                             "requested_size": asked, "stream": s["stream"], "segment_type": s["type"], "segment_pool_id": s["pool"],
                             "is_expandable": s["expandable"], "frames": [], "blocks": blocks})
        return {"segments": segments, "device_traces": [self.events], "allocator_settings": {}, "external_annotations": []}


GENERATE = [frame(TORCH + "../transformers/generation/utils.py", 2000, "generate"), user(11)]
CALL = frame(TORCH + "nn/modules/module.py", 1500, "_call_impl")
CACHE = [frame(TORCH + "../transformers/cache_utils.py", 300, "update"), CALL, *GENERATE]


class Trainer:
    """A loop as people write it: forward, backward, step, zero_grad."""

    def __init__(self, layers=10, size=12 * MIB):
        self.card, self.layers, self.size = Card(), layers, size
        self.weights = [self.card.alloc(size, BUILD) for _ in range(layers)]
        self.state, self.grads, self.inputs = [], [], []

    def forward(self, line=20, size=None, layers=None):
        self.inputs.append(self.card.alloc(4096, [user(line - 1)]))
        return [self.card.alloc(size or self.size, module(line, n, 0)) for n in range(layers or self.layers)]

    def backward(self, saved):
        detail = self.card.alloc(self.size)
        fresh = not self.grads
        for block in reversed(saved):
            if fresh:
                self.grads.append(self.card.alloc(self.size))
            self.card.drop(block, stack=())  # autograd's thread has no Python
        self.card.drop(detail, stack=())

    def optimize(self):
        if not self.state:
            self.state = [self.card.alloc(self.size, STATE) for _ in self.weights * 2]
        self.card.drop(self.card.alloc(4096, STEP), stack=STEP)

    def zero(self):
        self.card.drop(*self.grads, stack=ZERO)
        self.grads = []

    def step(self, **how):
        self.backward(self.forward(**how))
        self.optimize()
        self.zero()
        self.card.drop(self.inputs.pop())


def gan(repetitions):
    """The GPU of a GAN: two models with an optimizer each, in turn."""
    g, d = Trainer(), Trainer()
    d.card = g.card
    d.weights = [g.card.alloc(d.size, [BUILD[0], user(4)]) for _ in range(d.layers)]
    for _ in range(repetitions):
        fake = g.forward(line=20)
        d.backward(d.forward(line=23))
        d.optimize()
        d.zero()
        d.backward(d.forward(line=25))
        g.backward(fake)
        g.optimize()
        g.zero()
        d.zero()
        g.card.drop(*g.inputs, *d.inputs)
        g.inputs, d.inputs = [], []
    return g.card
