#!/usr/bin/env python3
"""leaks.py PLIMSOLL [RECORDING|FOLDER...]: no false leak in honest programs, no true one missed.

Honest programs are made up here: whatever climbs in them comes back, or is bounded by what the program is.  In each of
them, and in each recording that is given and has no leak of its own, a leak of three sizes is planted: so many bytes more
after each step (or request), at a line of its own.  Where at least eight repetitions kept something it must be found.
With --table it prints what docs/evidence/accuracy.md shows.
"""
import os
import pickle
import sys
import tempfile

import lib
import made_recordings as made
from made_recordings import BUILD, CACHE, CALL, GENERATE, STATE, STEP, TORCH, ZERO, Card, Trainer, frame, gan, module, user

MIB = made.MIB
SIZES = {"512 B": 512, "64 KiB": 65536, "10 MiB": 10 * MIB}
LEAST = 8  # repetitions that kept something, from which on a leak must be found
# Recordings of tests/data (and of the larger set that it is taken from) whose programs leak, by their making.
LEAKS = {"leak_graph", "leak_evalpile", "leak_rnn", "leak_losses", "oom_eval", "eval_pile", "graph_leak", "accum_cache",
         "gradeval_5", "lossleak_5", "rl_72", "leak-eval"}
PLANTED = [frame("/home/me/planted.py", 41, "keep"), user(18)]


# ---- planting ----

def plant(snapshot, device, ends, size):
    """`size` bytes more behind each of the events `ends`, in segments of their own."""
    told = dict(snapshot)
    traces = list(told["device_traces"])
    events = list(traces[device])
    top = max((s["address"] + s["total_size"] for s in told["segments"]), default=1 << 40)
    top = max([top, *(e["addr"] + e["size"] for t in traces for e in t if "addr" in e and e["action"] != "oom")])
    at = (top // (1 << 30) + 4) << 30
    total = 2 * MIB if size <= MIB else size
    segments = list(told["segments"])
    out, last = [], 0
    for end in ends:
        out += events[last:end + 1]
        last = end + 1
        near = events[end]
        shared = {"stream": 0, "frames": PLANTED, **{k: near[k] for k in ("time_us", "pool_id") if k in near}}
        if "pool_id" in shared:
            shared["pool_id"] = (0, 0)
        out += [{"action": "segment_alloc", "addr": at, "size": total, **shared}, {"action": "alloc", "addr": at, "size": size, **shared}]
        block = {"address": at, "size": size, "requested_size": size, "state": "active_allocated", "frames": PLANTED}
        rest = [{"address": at + size, "size": total - size, "requested_size": 0, "state": "inactive", "frames": []}] if total > size else []
        segments.append({"device": device, "address": at, "total_size": total, "allocated_size": size, "active_size": size,
                         "requested_size": size, "stream": 0, "segment_type": "small" if size <= MIB else "large",
                         "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block, *rest]})
        at += 1 << 30
    traces[device] = out + events[last:]
    told["device_traces"], told["segments"] = traces, segments
    return told


def unrolled(snapshot, device, ends, times):
    """The recording with one of its steps repeated: one that leaves memory as it found it.  None: it has no such step."""
    events, live, at_end = snapshot["device_traces"][device], {}, []
    before, dirty = len(ends), True
    for i, e in enumerate(events):
        if e["action"] == "alloc":
            live[e["addr"]] = e["size"]
        elif e["action"] in ("free_requested", "free"):
            live.pop(e["addr"], None)
        dirty |= e["action"].startswith("segment") or e["action"] == "oom"
        if i in ends:
            if at_end and not dirty and at_end[-1] == live:
                before = len(at_end)
            at_end.append(dict(live))
            dirty = False
    if before == len(ends):
        return None
    first, last = ends[before - 1] + 1, ends[before]
    pending = {e["addr"] for e in events[:first] if e["action"] == "free_requested"} - {e["addr"] for e in events[:first] if e["action"] == "free_completed"}
    if any(e["addr"] in pending for e in events[first:last + 1] if e["action"] == "free_completed"):
        return None
    step, marks = events[first:last + 1], snapshot.get("external_annotations", [])
    span = step[-1].get("time_us", 0) - events[first - 1].get("time_us", 0)
    more = [{**e, "time_us": e["time_us"] + span * n} if "time_us" in e else e for n in range(1, times + 1) for e in step]
    later = [{**e, "time_us": e["time_us"] + span * times} if "time_us" in e else e for e in events[last + 1:]]
    told = dict(snapshot, device_traces=list(snapshot["device_traces"]))
    told["device_traces"][device] = events[:last + 1] + more + later
    if marks and span:
        low, high = events[first - 1]["time_us"], step[-1]["time_us"]
        inside = [m for m in marks if low < m["time_us"] <= high]
        told["external_annotations"] = ([m for m in marks if m["time_us"] <= high] +
                                        [{**m, "time_us": m["time_us"] + span * n} for n in range(1, times + 1) for m in inside] +
                                        [{**m, "time_us": m["time_us"] + span * times} for m in marks if m["time_us"] > high])
    return told


def devices_of(snapshot):
    with tempfile.NamedTemporaryFile(suffix=".pickle") as f:
        pickle.dump(snapshot, f, 4)
        f.flush()
        return lib.result("report", f.name)["devices"]


def leaks_of(device):
    return [f for f in device["findings"] if f["id"] == "leak"]


def ends_of(device):
    """Where repetitions end, and the program goes on: what is planted there outlives one."""
    ends = [s["end_event"] for s in device["steps"]]
    died = [o["event"] for o in device["oom"] if not o["survived"]]
    return [e for e in ends if e + 1 < device["events"] and not any(d <= e for d in died)]


class Count:
    def __init__(self):
        self.healthy = self.false = self.unrolled = 0
        self.planted = {what: [0, 0] for what in SIZES}


def examine(name, snapshot, count, known_leak=False):
    """One recording without a leak of its own, and with three planted ones."""
    for at, device in enumerate(devices_of(snapshot)):
        if not device["events"]:
            continue
        found = leaks_of(device)
        if not known_leak:
            count.healthy += 1
            count.false += bool(found)
            lib.expect(not found, name, "a leak that is none:", *[f["title"] for f in found])
        ends = ends_of(device)
        if found or len(ends) < 2 or device["self_check"]["contradictions"]:
            continue
        if len(ends) < LEAST:
            snapshot = unrolled(snapshot, device["device"], ends, 10)
            if not snapshot:
                continue
            device = devices_of(snapshot)[at]
            ends = ends_of(device)
            lib.expect(device["self_check"]["exact"] and len(ends) >= LEAST, name, f"unrolled: {len(ends)} ends, {device['self_check']}")
            lib.expect(not leaks_of(device), name, "unrolled: a leak that is none")
            count.unrolled += 1
        for what, size in SIZES.items():
            count.planted[what][1] += 1
            told = devices_of(plant(snapshot, device["device"], ends, size))[at]
            mine = [f for f in leaks_of(told) if "planted.py:41" in (f["place"]["frame"] or "")]
            count.planted[what][0] += bool(mine)
            lib.expect(mine, name, f"{what} a {device['step_basis']}, {len(ends)} times: not found")


# ---- honest programs ----

def steps(n, **how):
    t = Trainer()
    for _ in range(n):
        t.step(**how)
    return t


def plain():
    return steps(12).card


def batches(sizes):
    t = Trainer()
    for n in sizes:
        t.step(size=n * MIB)
    return t.card


def warm_up():
    return batches([4, 6, 8, 10, 12, 14, *[16] * 10])


def growing_batches():
    return batches(range(8, 28))


def shrinking_batches():
    return batches(range(28, 8, -1))


def curriculum():
    return batches([n for n in (8, 12, 16, 24, 32) for _ in range(4)])


def random_batches():
    return batches([(7 * n * n + 3) % 23 + 8 for n in range(20)])


WRAPPER = frame(TORCH + "optim/optimizer.py", 480, "wrapper")
OWN_STEP = [frame("/home/me/optimizers.py", 82, "step"), WRAPPER, user(30)]
OWN_TEMPORARY = [frame("/home/me/optimizers.py", 88, "step"), WRAPPER, user(30)]


def own_optimizer(n, marks, wrapped, late=False, layers=10):
    """state["m"] and state["v"] made for each weight in the first step, with temporaries between."""
    t = Trainer(layers=layers)
    made_state = False
    cut = len(t.card.events) if late else 0
    at, work = (OWN_STEP, OWN_TEMPORARY) if wrapped else ([f for f in OWN_STEP if f is not WRAPPER], [f for f in OWN_TEMPORARY if f is not WRAPPER])
    for _ in range(n):
        t.backward(t.forward())
        if marks:
            t.card.mark("START", "Optimizer.step#AdamW.step")
        for _ in range(layers):
            if not made_state:
                t.card.alloc(t.size, at)
                t.card.alloc(t.size, at)
            for _ in range(6):
                t.card.drop(t.card.alloc(t.size, work), stack=work)
        made_state = True
        if marks:
            t.card.mark("END", "Optimizer.step#AdamW.step")
        t.zero()
        t.card.drop(t.inputs.pop())
    t.card.events = t.card.events[cut:]
    return t.card


def first_step_of_ones_own_optimizer():
    return own_optimizer(1, True, True)


def first_step_recorded_late():
    return own_optimizer(1, True, True, late=True, layers=60)


def first_step_without_a_mark():
    return own_optimizer(1, False, True, late=True, layers=60)


def first_step_of_plain_functions():
    return own_optimizer(1, False, False, late=True, layers=60)


def ones_own_optimizer():
    return own_optimizer(12, True, True)


def ones_own_optimizer_without_a_base():
    return own_optimizer(12, False, False)


def cut_in_the_first_step():
    """The recording ends before the optimizer's first step does."""
    card = own_optimizer(1, True, True, late=True, layers=60)
    end = next(i for i, e in enumerate(card.events) if e["frames"] == ZERO)
    t = Trainer(layers=60)
    t.backward(t.forward())
    t.card.mark("START", "Optimizer.step#AdamW.step")
    for _ in range(40):
        t.card.alloc(t.size, OWN_STEP)
        t.card.alloc(t.size, OWN_STEP)
        for _ in range(6):
            t.card.drop(t.card.alloc(t.size, OWN_TEMPORARY), stack=OWN_TEMPORARY)
    assert end
    return t.card


def layer(n, line, inside):
    return [frame("/home/me/model.py", line, "forward"), CALL, frame("/home/me/model.py", 90, "forward"), CALL, user(inside)]


def autocast(n, graph):
    """16-bit copies of the weights, made layer by layer, and all dropped when the pass is over."""
    card = Card()
    _ = [card.alloc(12 * MIB, BUILD) for _ in range(40)]
    for _ in range(n):
        x = card.alloc(4096, [user(19)])
        copies, saved = [], []
        for k in range(40):
            copies.append(card.alloc(6 * MIB, layer(k, 32, 20)))
            for line in (33, 34, 35, 36, 37, 38, 39, 40, 41):
                block = card.alloc(2 * MIB, layer(k, line, 20))
                if graph and line == 41:
                    saved.append(block)
                else:
                    card.drop(block, stack=layer(k, line, 20))
        card.drop(*copies, stack=[user(20)])
        for block in reversed(saved):
            card.drop(card.alloc(2 * MIB), block, stack=())
        card.drop(x, stack=[user(19)])
    return card


def autocast_once():
    return autocast(1, False)


def autocast_in_evaluation():
    return autocast(12, False)


def autocast_in_training():
    return autocast(12, True)


def layers_of_one_pass():
    """What each layer saves for the backward pass; the recording ends before that comes."""
    card = Card()
    _ = [card.alloc(12 * MIB, BUILD) for _ in range(40)]
    start = len(card.events)
    for k in range(40):
        card.alloc(6 * MIB, layer(k, 32, 20))
        for line in (33, 34, 35, 36, 37, 38, 39, 40, 41):
            card.drop(card.alloc(2 * MIB, layer(k, line, 20)), stack=layer(k, line, 20))
    card.events = card.events[start:]
    return card


def cache_that_fills(entries, n, each=3 * MIB):
    """A mask for each length of a batch: all are there after a while."""
    t = Trainer()
    for i in range(n):
        if i < entries:
            t.card.alloc(each, [user(60, "mask")])
        t.step()
    return t.card


def masks_by_length():
    return cache_that_fills(6, 24)


def small_cache_that_fills():
    return cache_that_fills(10, 40, 4096)


def cache_that_evicts(keep):
    t = Trainer()
    queue = []
    for _ in range(24):
        t.step()
        queue.append(t.card.alloc(4 * MIB, [user(60)]))
        if len(queue) > keep:
            t.card.drop(queue.pop(0))
    return t.card


def least_recently_used():
    return cache_that_evicts(5)


def window_of_losses():
    t = Trainer()
    queue = []
    for _ in range(24):
        t.step()
        queue.append(t.card.alloc(512, [user(61)]))
        if len(queue) > 4:
            t.card.drop(queue.pop(0))
    return t.card


def losses_of_an_epoch():
    t = Trainer()
    for _ in range(5):
        kept = []
        for _ in range(6):
            t.step()
            kept.append(t.card.alloc(512, [user(61)]))
        t.card.drop(*kept)
    return t.card


def replay_buffer():
    t = Trainer()
    ring = []
    for n in range(30):
        if len(ring) == 6:
            t.card.drop(ring.pop(0))
        ring.append(t.card.alloc(2 * MIB, [user(62, "push")]))
        t.step()
    return t.card


def nested_evaluation():
    """Predictions are kept until an evaluation is over."""
    t = Trainer()
    for _ in range(3):
        for _ in range(4):
            t.step()
        preds = []
        for _ in range(12):
            out = t.forward(line=50)
            t.card.drop(*out[:-1], t.inputs.pop())
            preds.append(out[-1])
        t.card.drop(*preds)
    for _ in range(4):
        t.step()
    return t.card


def evaluation_that_counts():
    t = Trainer()
    total = t.card.alloc(512, [user(55)])
    for _ in range(3):
        for _ in range(4):
            t.step()
        for _ in range(6):
            out = t.forward(line=50)
            new = t.card.alloc(512, [user(55)])
            t.card.drop(total, *out, t.inputs.pop())
            total = new
    return t.card


def averaged_weights():
    t = Trainer()
    _ = [t.card.alloc(t.size, [frame("/usr/lib/python3.11/copy.py", 172, "deepcopy"), user(5)]) for _ in t.weights]
    for _ in range(12):
        t.step()
        for _ in t.weights:
            t.card.drop(t.card.alloc(t.size, [user(45, "update")]))
    return t.card


def accumulation():
    t = Trainer()
    for n in range(12):
        for k in range(4):
            t.backward(t.forward(size=(8 + k) * MIB))
            t.card.drop(t.inputs.pop())
        t.optimize()
        t.zero()
    return t.card


def two_models():
    return gan(12)


def weights_for_serving():
    card = Card()
    _ = [card.alloc(12 * MIB, BUILD) for _ in range(10)]
    return card


def request(card, n, tokens=4):
    ids = card.alloc(4096 * (n % 5 + 1), [user(10)])
    keys = []
    for token in range(tokens):
        grown = [card.alloc((n % 5 + token + 1) * MIB, CACHE) for _ in range(4)]
        card.drop(*keys)
        keys = grown
        card.drop(*[card.alloc(4 * MIB, [frame(TORCH + "nn/modules/linear.py", k, "forward"), *GENERATE]) for k in range(10)])
    return [ids, *keys]


def requests():
    card = weights_for_serving()
    for n in range(16):
        card.drop(*request(card, n))
        card.drop(card.alloc(512, [user(12)]))
    return card


def one_long_generation():
    card = weights_for_serving()
    card.drop(*request(card, 1, tokens=40))
    return card


def sessions():
    """Five conversations are open at any time; each ends."""
    card = weights_for_serving()
    open_ones = []
    for n in range(24):
        open_ones.append(request(card, n))
        if len(open_ones) > 5:
            card.drop(*open_ones.pop(0))
        card.drop(card.alloc(512, [user(12)]))
    return card


def images():
    """Latents of all steps are kept until an image is ready."""
    card = weights_for_serving()
    for _ in range(4):
        kept = []
        for _ in range(20):
            x = card.alloc(4096, [user(9)])
            card.drop(*[card.alloc(5 * MIB, module(21, n)) for n in range(10)], x)
            kept.append(card.alloc(MIB, [user(22)]))
        card.drop(*kept)
    return card


def loading():
    """Shards are read, converted and dropped."""
    card = Card()
    for _ in range(30):
        shard = card.alloc(24 * MIB, [user(6, "load")])
        for _ in range(8):
            work = card.alloc(2 * MIB, [user(7, "convert"), user(6, "load_weights")])
            card.alloc(MIB, [user(8, "convert"), user(6, "load_weights")])
            card.drop(work)
        card.drop(shard)
    return card


def prefetching():
    t = Trainer()
    ahead = [t.card.alloc(3 * MIB, [user(16)]) for _ in range(2)]
    for _ in range(16):
        t.step()
        ahead.append(t.card.alloc(3 * MIB, [user(16)]))
        t.card.drop(ahead.pop(0))
    return t.card


def began_late(cut=0):
    t = steps(6)
    start = len(t.card.events)
    for n in range(12):
        t.step(size=(8 + n % 3) * MIB)
    t.card.events = t.card.events[start + cut:]
    return t.card


def began_in_a_step():
    return began_late(13)


def ended_in_a_step():
    t = steps(12)
    t.forward(layers=6)
    return t.card


def history_of_directions():
    """LBFGS keeps the last few."""
    t = Trainer()
    old = []
    for _ in range(20):
        t.backward(t.forward())
        old.append(t.card.alloc(8 * MIB, [frame(TORCH + "optim/lbfgs.py", 300, "step"), user(30)]))
        if len(old) > 10:
            t.card.drop(old.pop(0), stack=STEP)
        t.zero()
        t.card.drop(t.inputs.pop())
    return t.card


def experts():
    """State of an expert is allocated when it is used for the first time."""
    t = Trainer()
    for n in range(16):
        t.backward(t.forward())
        t.optimize()
        if n < 10:
            t.card.alloc(4 * MIB, STATE)
            t.card.alloc(4 * MIB, STATE)
        t.zero()
        t.card.drop(t.inputs.pop())
    return t.card


def recomputed():
    t = Trainer()
    for _ in range(12):
        kept = t.forward(layers=3)
        again = [frame(TORCH + "utils/checkpoint.py", 1100, "unpack_hook")]
        for block in reversed(kept):
            inner = [t.card.alloc(t.size, module(20, k)[:2] + again) for k in range(4)]
            t.card.drop(*inner, block, stack=())
        t.optimize()
        t.card.drop(t.inputs.pop())
    return t.card


ENGINE = [frame("??", 0, "torch::unwind::unwind()"), frame("CUDACachingAllocator.cpp", 0, "c10::cuda::CUDACachingAllocator::Native::malloc()"),
          frame("??", 0, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
          frame("thread48.o", 0, "execute_native_thread_routine")]
EVAL_FRAME = frame("/usr/local/src/conda/python-3.12.3/Python/ceval.c", 578, "PyEval_EvalCode")


def with_cpp(card):
    """As stacks="all" records it: C++ frames before, between and behind those of Python."""
    cache = {}
    for event in card.events:
        key = id(event["frames"]), len(event["frames"])
        python = [x for f in event["frames"] for x in (f, EVAL_FRAME)]
        cache[key] = ENGINE[:2] + python + [frame("??", 0, "_start")] if python else ENGINE
        if event["action"] in ("alloc", "free_requested", "segment_alloc"):
            event["frames"] = cache[key]
    return card


def cpp_stacks():
    return with_cpp(plain())


def cpp_stacks_late():
    return with_cpp(began_late())


def cpp_first_step():
    return with_cpp(first_step_recorded_late())


def cpp_autocast():
    return with_cpp(autocast_once())


def by_hand():
    """No module, no optimizer: plain functions and weights that are updated in place."""
    card = Card()
    _ = [card.alloc(12 * MIB, BUILD) for _ in range(10)]
    for _ in range(12):
        batch = card.alloc(4096, [user(19)])
        saved = [card.alloc(12 * MIB, [frame(TORCH + "nn/functional.py", 100 + n, "linear"), user(20)]) for n in range(10)]
        card.drop(card.alloc(512, [frame(TORCH + "_tensor.py", 500, "backward"), user(21)]), stack=())
        for block in reversed(saved):
            grad = card.alloc(12 * MIB)
            card.drop(block, stack=())
            card.drop(grad, stack=[user(24)])
        card.drop(batch, stack=[user(19)])
    return card


def frozen_then_trained():
    """Layers are unfrozen one after the other: their gradients and their state are new."""
    t = Trainer()
    for n in range(12):
        t.backward(t.forward())
        t.optimize()
        if n in (3, 6, 9):
            t.state += [t.card.alloc(t.size, STATE) for _ in range(2)]
        t.zero()
        t.card.drop(t.inputs.pop())
    return t.card


def weight_of_the_size_of_a_leak():
    """Weights and states of 64 KiB and of 10 MiB, so that what is planted has their size."""
    t = Trainer(layers=12, size=65536)
    big = [t.card.alloc(10 * MIB, BUILD) for _ in range(10)]
    first = True
    for _ in range(10):
        t.backward(t.forward())
        t.optimize()
        if first:
            _ = [t.card.alloc(10 * MIB, STATE) for _ in big * 2]
        first = False
        t.zero()
        t.card.drop(t.inputs.pop())
    return t.card


HONEST = [plain, warm_up, growing_batches, shrinking_batches, curriculum, random_batches, first_step_of_ones_own_optimizer,
          first_step_recorded_late, first_step_without_a_mark, first_step_of_plain_functions, ones_own_optimizer,
          ones_own_optimizer_without_a_base, cut_in_the_first_step, autocast_once, autocast_in_evaluation, autocast_in_training,
          layers_of_one_pass, masks_by_length, small_cache_that_fills, least_recently_used, window_of_losses, losses_of_an_epoch,
          replay_buffer, nested_evaluation, evaluation_that_counts, averaged_weights, accumulation, two_models, requests,
          one_long_generation, sessions, images, loading, prefetching, began_late, began_in_a_step, ended_in_a_step,
          history_of_directions, experts, recomputed, cpp_stacks, cpp_stacks_late, cpp_first_step, cpp_autocast, by_hand,
          frozen_then_trained, weight_of_the_size_of_a_leak]


def row(kind, count):
    cells = [f"{found} of {of}" if of else "-" for found, of in count.planted.values()]
    print(f"| {kind} | {count.healthy} | {count.false} | {' | '.join(cells)} |")


def main():
    arguments = [a for a in sys.argv[2:] if a != "--table"]
    lib.start(sys.argv[1])
    counts = {"programs made up, honest": Count(), "recordings": Count()}
    for program in HONEST:
        examine(program.__name__, program().snapshot(), counts["programs made up, honest"])
    for path in lib.recordings(arguments):
        snapshot = lib.load(path)
        if isinstance(snapshot, dict) and snapshot.get("device_traces"):
            known = os.path.basename(path).split(".")[0] in LEAKS
            examine(path, snapshot, counts["recordings"], known_leak=known)
    if "--table" in sys.argv:
        print("| recordings | healthy | false | " + " | ".join(f"found, {what} a step" for what in SIZES) + " |")
        print("|---|---:|---:|" + "---:|" * len(SIZES))
        for kind, count in counts.items():
            row(kind, count)
    lib.finish(f"{len(HONEST)} honest programs: no leak; planted ones are found", least=len(HONEST))


main()
