#!/usr/bin/env python3
"""findings_made.py PLIMSOLL: findings of small programs that are made up here, one fault (or none) each.

They stand for what the measured recordings do not hold: three repetitions only, caches that fill up or evict,
evaluation with gradients, loops.  Each program runs on a GPU, which records what PyTorch would.
"""
import pickle
import sys
import tempfile

import lib
import made_recordings as made
import page_reader
from lib import failures
from made_recordings import BUILD, CACHE, CALL, GENERATE, STATE, STEP, TORCH, ZERO, Card, Trainer, frame, gan, module, user

lib.start(sys.argv[1])
MIB = made.MIB
H200 = 143_130 * MIB  # its memory is 139.72 to 139.83 GiB (src/base/facts/gpus.c)


shown = {}  # by finding: times that its page painted rows


def report(snapshot):
    """What is found; its page paints these very allocations."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as f, tempfile.NamedTemporaryFile("r", suffix=".html", newline="") as page:
        pickle.dump(snapshot, f, 4)
        f.flush()
        told = lib.result("report", f.name, "-o", page.name)["devices"]
        with open(page.name, encoding="utf-8", newline="") as written:
            for part in page_reader.read(written.read())[0]:
                failures.extend(f"{sys._getframe(1).f_code.co_name}: {fault}" for fault in part.mispainted())
                for finding, rows in zip(part.device["findings"], part.shown()):
                    shown[finding["id"]] = shown.get(finding["id"], 0) + bool(rows)
        return told


def explained(card, **snapshot):
    device = report(card.snapshot(**snapshot))[0]
    if not device["self_check"]["exact"]:
        failures.append(f"{sys._getframe(2).f_code.co_name}: the recording made is none: {device['self_check']}")
    return device


def findings(card, **snapshot):
    return {f["id"]: f for f in explained(card, **snapshot)["findings"]}


def verdict(card):
    return explained(card)["oom"][-1]["verdict"]


def at_peak(device):
    """MiB by category, without those that are small."""
    return {k: v // MIB for k, v in device["at_peak"]["categories"].items() if v >= MIB}


def expect(ok, what):
    if not ok:
        failures.append(f"{sys._getframe(1).f_code.co_name}: {what}")


def healthy():
    t = Trainer()
    for _ in range(6):
        t.step()
    found = findings(t.card)
    expect(not found, f"found {list(found)}")


def headline_of_a_healthy_run():
    """It was "No failure. No leak.", or that a leak is not known; of its peak nothing."""
    for steps, verdict in (6, "No failure. No leak."), (1, "No failure. Too few steps were recorded to recognise a leak."):
        t = Trainer()
        for _ in range(steps):
            t.step()
        told = explained(t.card)["told"]
        expect(told["headline"].startswith("PEAK ") and ": 240.00 MiB optimizer state; " in told["headline"], told["headline"])
        expect(" step " in told["headline"] and " at " in told["headline"], told["headline"])
        expect([line["text"] for line in told["lines"]] == [verdict], told["lines"])
    t.card.fail(30 * MIB, [user(20)])
    expect(not explained(t.card)["told"]["headline"].startswith("PEAK"), "a failure is not headed by its peak")


def leak_in_three_steps():
    t = Trainer()
    kept = []
    for _ in range(3):
        t.step()
        kept.append(t.card.alloc(6 * MIB, [user(40)]))
    t.card.drop(*reversed(kept))  # the function that held them returns
    t = Trainer()
    kept = []
    for _ in range(3):
        saved = t.forward()
        kept.append(t.card.alloc(6 * MIB, [user(40)]))
        t.backward(saved)
        t.optimize()
        t.zero()
        t.card.drop(t.inputs.pop())
    t.card.drop(*reversed(kept))
    leak = findings(t.card).get("leak")
    expect(leak and leak["place"]["frame"] == "/home/me/train.py:40 in train", f"leak {leak}")
    expect(leak and leak["period"] == "step" and leak["per_period_bytes"] == 6 * MIB and leak["bytes"] == 18 * MIB, f"leak {leak}")
    expect(leak and leak["severity"] == "error", "it will fill any card")


def leak_in_three_evals():
    t = Trainer()
    for _ in range(3):
        t.step()
    kept = []
    for _ in range(3):
        made = t.forward(line=50)
        t.card.drop(*made[:-1], t.inputs.pop())
        kept.append(made[-1])
    leak = findings(t.card).get("leak")
    expect(leak and leak["place"]["frame"].startswith("/home/me/train.py:50"), f"leak {leak}")
    expect(leak and leak["period"] == "eval iteration" and leak["per_period_bytes"] == 12 * MIB, f"leak {leak}")
    expect(leak and "preds.append" in leak["fix"][0], f"fix {leak and leak['fix'][0]}")


def leak_over_two_epochs():
    t = Trainer()
    for _ in range(2):
        for _ in range(30):
            t.step()
        for _ in range(6):
            made = t.forward(line=50)
            t.card.drop(*made[:-1], t.inputs.pop())
    leak = findings(t.card).get("leak")
    expect(leak and leak["period"] == "eval iteration" and leak["bytes"] == 144 * MIB, f"leak {leak}")


def evaluation_with_gradients_is_kept():
    t = Trainer()
    for _ in range(3):
        t.step()
    for _ in range(4):
        t.forward(line=50)  # all that it saved stays
        t.card.drop(t.inputs.pop())
    leak = findings(t.card).get("leak")
    expect(leak and leak["per_period_bytes"] == 120 * MIB, f"leak {leak}")
    expect(leak and "inference_mode" in leak["fix"][0], f"fix {leak and leak['fix'][0]}")


def leak_in_three_requests():
    card = Card()
    for _ in range(10):
        card.alloc(12 * MIB, BUILD)
    for _ in range(3):
        ids = card.alloc(4096, [user(10, "serve")])
        generate = [frame(TORCH + "../transformers/generation/utils.py", 2000, "generate"), user(11, "serve")]
        made = [card.alloc(12 * MIB, [frame(TORCH + "nn/modules/linear.py", n, "forward"), *generate]) for n in range(10)]
        card.drop(*made[1:], ids)
    leak = findings(card).get("leak")
    expect(leak and leak["period"] == "request" and leak["per_period_bytes"] == 12 * MIB, f"leak {leak}")


def cache_inside_a_module():
    t = Trainer()
    here = [user(70, "forward", "/home/me/model.py"), *module(20, 1)]
    for _ in range(6):
        t.card.alloc(5 * MIB, here)
        t.step()
    # it is allocated before the forward pass begins in one that has no module around it: the period is a step
    leak = findings(t.card).get("leak")
    expect(leak and leak["place"]["frame"] == "/home/me/model.py:70 in forward", f"leak {leak}")
    expect(leak and "self.cache" in leak["fix"][0], f"fix {leak and leak['fix'][0]}")


def caches_that_end():
    """One that is full after four steps, one that evicts, a value that is replaced, three kept for averaging."""
    for what in ("full", "evicts", "replaced"):
        t = Trainer()
        queue = []
        for i in range(16):
            t.step()
            if what != "full" or i < 4:
                queue.append(t.card.alloc(8 * MIB, [user(60)]))
            if len(queue) > {"full": 99, "evicts": 5, "replaced": 1}[what]:
                t.card.drop(queue.pop(0))
        found = findings(t.card)
        expect("leak" not in found, f"{what}: {found.get('leak')}")


def several_forwards_for_one_backward():
    for steps in (0, 2):
        t = Trainer()
        for _ in range(steps):
            saved = [t.forward() for _ in range(3)]
            for one in saved:
                t.backward(one)
                t.card.drop(t.inputs.pop())
            t.optimize()
            t.zero()
        for _ in range(3):
            t.forward()  # it ends before backward comes
        found = findings(t.card)
        expect("leak" not in found, f"after {steps} steps: {found.get('leak')}")


def longer_batches_are_no_leak():
    t = Trainer()
    for n in (12, 14, 16, 18, 20, 22, 30):
        t.step(size=n * MIB)
    found = findings(t.card)
    expect("leak" not in found, f"leak {found.get('leak')}")
    expect("longest_batch" in found and "step 6" in found["longest_batch"]["title"], f"found {list(found)}")


def zero_grad_after_forward():
    t = Trainer()
    for _ in range(5):
        saved = t.forward()
        t.zero()
        t.backward(saved)
        t.optimize()
        t.card.drop(t.inputs.pop())
    found = findings(t.card).get("gradients_live_in_forward")
    expect(found and found["bytes"] == 120 * MIB and any("only after the forward pass" in e for e in found["evidence"]), f"{found}")
    expect("leak" not in findings(t.card), "a leak")


def zero_grad_missing():
    t = Trainer()
    for _ in range(5):
        t.backward(t.forward())
        t.optimize()
        t.card.drop(t.inputs.pop())
    found = findings(t.card).get("gradients_live_in_forward")
    expect(found and any("zero_grad() is not called" in e for e in found["evidence"]), f"{found}")


def accumulation_is_no_fault():
    t = Trainer()
    for _ in range(4):
        for _ in range(3):
            t.backward(t.forward())
            t.card.drop(t.inputs.pop())
        t.optimize()
        t.zero()
    found = findings(t.card)
    expect(not found, f"found {list(found)}")


def heavier_evaluation():
    for grads in (True, False):
        t = Trainer()
        for _ in range(4):
            t.step()
        for _ in range(2):
            if grads:  # passes that keep all they make until their output goes
                made = t.forward(line=50, layers=40)
            else:
                made = t.forward(line=50, size=600 * MIB, layers=1)
            t.card.drop(*made, t.inputs.pop())
            t.card.drop(t.card.alloc(4096, module(50, 77)))
        found = findings(t.card).get("eval_heavier_than_train")
        expect(found and found["place"]["frame"].startswith("/home/me/train.py:50"), f"{found}")
        expect(found and ("inference_mode" in found["fix"][0]) == grads, f"{grads}: {found and found['fix']}")


def two_models():
    def load(card, layers):
        return [card.alloc(size, BUILD) for size in [64 * MIB, *[4 * MIB, 2 * MIB, 16 * MIB, 1 * MIB] * layers]]

    def run(card):
        x = card.alloc(4096, [user(19)])
        card.drop(*[card.alloc(MIB, module(20, n)) for n in range(9)], x)

    card = Card()
    load(card, 6)
    load(card, 6)
    run(card)
    found = findings(card).get("duplicate_weights")
    expect(found and found["bytes"] == (64 + 23 * 6) * MIB and "2 times" in found["title"], f"{found}")
    card = Card()
    load(card, 6)  # [p.clone() for p in parameters], in an optimizer: state of their sizes, made by no module
    for size in [64 * MIB, *[4 * MIB, 2 * MIB, 16 * MIB, 1 * MIB] * 6]:
        card.alloc(size, [user(168, "<listcomp>"), user(167, "__init__"), user(3)])
    run(card)
    expect("duplicate_weights" not in findings(card), "equal sizes alone are no copies")
    card = Card()
    load(card, 12)
    run(card)
    expect("duplicate_weights" not in findings(card), "layers are not models")
    card = Card()
    load(card, 3)
    run(card)
    load(card, 6)
    run(card)
    expect("duplicate_weights" not in findings(card), "a larger model is no copy")


def loop():
    for times, wanted in ((1500, True), (300, False)):
        t = Trainer()
        for _ in range(3):
            t.step()
        x = t.card.alloc(MIB, [user(80)])
        for _ in range(times):
            y = t.card.alloc(MIB, [user(81)])
            t.card.drop(x)
            x = y
        found = findings(t.card)
        expect(("allocation_in_loop" in found) == wanted, f"{times}: {list(found)}")
        expect(not wanted or found["allocation_in_loop"]["place"]["frame"].startswith("/home/me/train.py:81"), "its line")


def small_segments():
    card = Card()
    for n in range(300):
        card.alloc(600 + 512 * n, [user(90)])
    found = findings(card).get("many_small_segments")
    expect(found and found["title"].startswith("300 segments"), f"{found}")


def waiting_for_a_stream():
    t = Trainer()
    for _ in range(4):
        t.step()
    made = [t.card.alloc(10 * MIB, [user(95)]) for _ in range(4)]
    t.card.drop(*made, wait=True)
    t.card.alloc(4096, [user(96)])
    for addr in made:
        t.card.event("free_completed", addr, 10 * MIB)
    found = findings(t.card).get("pending_frees")
    expect(found and found["bytes"] == 40 * MIB, f"{found}")


def private_pool():
    card = Card()
    card.alloc(30 * MIB, [user(5)])
    found = findings(card, pool=(1, 0)).get("private_pools")
    expect(found and found["bytes"] == 30 * MIB, f"{found}")


def train_and_keep(steps, each, lines=(40,)):
    """Steps that keep `each` bytes at each of the lines; then one that dies in its forward pass."""
    t = Trainer()
    for _ in range(steps):
        saved = t.forward()
        for line in lines:
            t.card.alloc(each, [user(line)])
        t.backward(saved)
        t.optimize()
        t.zero()
        t.card.drop(t.inputs.pop())
    t.forward(layers=6)
    t.card.fail(30 * MIB, module(20, 6, 0))
    return t.card


def keep_and_release(kept, released):
    """Each step keeps 10 MiB; late, some of what was kept is given back."""
    t = Trainer()
    made = []
    for n in range(kept + released):
        t.step()
        made.append(t.card.alloc(10 * MIB, [user(40)]))
        if n == released + 4:
            t.card.drop(*made[:released])
    return "leak" in findings(t.card)


def softmax_in(t, caller, layers, size, softmax=True, outer=2):
    """A pass in which `caller` makes scores and their softmax, in modules `outer` deep; what it saves."""
    saved = []
    for _ in range(layers):
        below = [caller, *[CALL] * outer, user(20)]
        saved += [t.card.alloc(size, below), t.card.alloc(size // 2, below)]
        if softmax:
            saved.append(t.card.alloc(size, [frame(TORCH + "nn/functional.py", 2161, "softmax"), *below]))
    return saved


def attention(caller, size=24 * MIB, **how):
    """What is found of three steps of a model with such a function, and the report's headline."""
    t = Trainer(4)
    for _ in range(3):
        t.step()
        t.backward(t.forward() + softmax_in(t, caller, size=size, **{"layers": 4, **how}))
        t.optimize()
        t.zero()
    device = explained(t.card)
    return {f["id"]: f for f in device["findings"]}, device["told"]["headline"]


def materialised_attention():
    """9 GiB of softmax and scores were a line of the model like any other."""
    for name, file in ("forward", "/home/me/model.py"), ("attention", "/home/me/nn.py"):
        found, headline = attention(frame(file, 60, name))
        f = found.get("materialised_attention", {"bytes": 0, "fix": [""]})
        expect(f["bytes"] == 4 * 60 * MIB and "scaled_dot_product" in f["fix"][0], f"{name}: {f}")
        expect("240.00 MiB of softmax and scores (SDPA would not keep them)" in headline, headline)
    found, _ = attention(frame("/home/me/nn.py", 60, "attention"), layers=1)
    expect("materialised_attention" in found, "one layer, recomputed by a checkpoint")


def softmax_that_is_no_attention():
    """Of classes, of a loss, of experts; a fused attention; a project whose folder is named attention."""
    for what, found in (("classes", attention(frame("/home/me/model.py", 60, "forward"), layers=1, outer=1)),
                        ("a loss", attention(frame("/home/me/loss.py", 60, "cross_entropy"))),
                        ("a loss in parts", attention(frame("/home/me/train.py", 60, "train"), outer=0)),
                        ("experts", attention(frame("/home/me/model.py", 60, "forward"), size=MIB)),
                        ("fused", attention(frame("/home/me/model.py", 60, "sdpa_attention_forward"), softmax=False)),
                        ("a folder", attention(frame("/home/me/attention/model.py", 60, "forward"), layers=1, outer=1))):
        expect("materialised_attention" not in found[0], what)


def what_is_given_back_is_no_leak():
    """Up to a quarter of what still stands may have been freed meanwhile; with more it is a cache that evicts.

    Of 16 the newest is too young to count.
    """
    expect(keep_and_release(16, 0) and keep_and_release(16, 3), "a leak, of which a fifth went")
    expect(not keep_and_release(16, 4), "a cache, of which more than a quarter went")


def death_of_a_whole_card():
    """What a GPU has next to the allocator's is a context, of 0.2 to 1.2 GiB, or someone else's."""
    for beside, bound in ((100, "unknown"), (250, "device"), (1100, "device"), (1300, "unknown")):
        card = Card()
        card.alloc(H200 - beside * MIB, BUILD)
        card.fail(2048 * MIB, module(20, 0))
        v = verdict(card)
        expect(v["bound_by"] == bound, f"{beside} MiB beside: {v['bound_by']}")


def death_by_leak():
    """The verdict and the finding are one measure."""
    v = verdict(train_and_keep(12, 30 * MIB))
    expect(v["cause"] == "leak" and "360.00 MiB piled up, 30.00 MiB more every step (/home/me/train.py:40" in v["headline"], v["headline"])
    expect("12 steps" in v["evidence"][0], v["evidence"][0])
    v = verdict(train_and_keep(10, 20 * MIB, lines=(40, 41)))
    expect("400.00 MiB piled up, 40.00 MiB more every step (most at" in v["headline"], v["headline"])


def death_while_a_cache_fills():
    """Three repetitions are worth a finding, and not a verdict."""
    v = verdict(train_and_keep(4, 30 * MIB))
    expect(v["cause"] == "unknown" and v["likely_cause"] == "leak", v["headline"])


def death_beside_a_leak():
    """A leak that is there and too small to have mattered."""
    t = Trainer()
    for _ in range(8):
        t.step()
        t.card.alloc(3 * MIB, [user(40)])
    t.forward(layers=6, size=200 * MIB)
    t.card.fail(200 * MIB, module(20, 6, 0))
    device = explained(t.card)
    v = device["oom"][0]["verdict"]  # earlier steps were smaller: what was to come is known in part only
    expect("capacity" in (v["cause"], v["likely_cause"]), v["headline"])
    expect(any(f["id"] == "leak" for f in device["findings"]), "the leak is not told")


def death_in_the_longest_batch():
    """Batches that are longer each time climb like a staircase."""
    t = Trainer()
    for n in range(12, 24):
        t.step(size=n * MIB)
    t.forward(layers=6, size=24 * MIB)
    t.card.fail(24 * MIB, module(20, 6, 0))
    v = verdict(t.card)
    expect("leak" not in (v["cause"], v["likely_cause"]), v["headline"])


def death_in_a_loop_without_steps():
    """Only lines of the program tell what repeats: in a run without steps, and after one that had some."""
    for trained in (False, True):
        t = Trainer() if trained else None
        card = t.card if trained else Card()
        for _ in range(4 if trained else 0):
            t.step()
        for _ in range(12):
            card.drop(*[card.alloc(5 * MIB, [user(50 + k)]) for k in range(12)])
            card.alloc(40 * MIB, [user(70)])
        card.fail(30 * MIB, [user(50)])
        v = verdict(card)
        expect(v["cause"] == "leak" and "40.00 MiB more every repetition (/home/me/train.py:70" in v["headline"], v["headline"])


def two_optimizers():
    """A GAN: two models with an optimizer each, in turn."""
    device = explained(gan(6))
    expect(not device["findings"], f"found {[f['id'] for f in device['findings']]}")
    expect(len(device["steps"]) == 13, f"{len(device['steps'])} steps")
    expect(at_peak(device)["parameter"] == 240 and at_peak(device)["optimizer_state"] == 480, f"{at_peak(device)}")


def zero_grad_of_the_other_optimizer():
    """Gradients of each model live through the other one's step: zero_grad() works, and comes late."""
    g, d = Trainer(), Trainer()
    d.card = g.card
    d.weights = [g.card.alloc(d.size, BUILD) for _ in range(d.layers)]
    for _ in range(5):
        for t in (d, g):
            saved = t.forward(line=20)
            t.zero()
            t.backward(saved)
            t.optimize()
            t.card.drop(t.inputs.pop())
    found = findings(g.card).get("gradients_live_in_forward")
    expect(found and not any("not called" in e for e in found["evidence"]), f"{found and found['evidence']}")


def compiled_code_is_not_the_users():
    """torch.compile writes files with names that no one has seen."""
    t = Trainer()
    written = frame("/tmp/torchinductor_me/w5/cw5on4avsgqzmdj4vajvlbj63xet5vtdztupwqpejfybb2uv2crl.py", 110, "call")
    for _ in range(4):
        t.step()
        t.card.alloc(9 * MIB, [written, frame(TORCH + "_inductor/utils.py", 20, "run"), user(40)])
    leak = findings(t.card).get("leak")
    expect(leak and leak["place"]["frame"] == "/home/me/train.py:40 in train", f"leak {leak}")


def generation_inside_training():
    """Reinforcement learning: generate, score with a frozen model, train."""
    t = Trainer()
    for _ in range(10):
        t.card.alloc(12 * MIB, [BUILD[0], user(5)])
    for _ in range(6):
        keys = []
        for token in range(8):
            grown = [t.card.alloc((token + 1) * MIB, CACHE) for _ in range(4)]
            t.card.drop(*keys)
            keys = grown
        rollout = [t.card.alloc(4 * MIB, [user(12)]) for _ in range(3)]
        t.card.drop(*keys)
        t.card.drop(*t.forward(line=15), t.inputs.pop())
        t.step()
        t.step()
        t.card.drop(*rollout)
    device = explained(t.card)
    expect(not any(f["id"] != "fragmentation" for f in device["findings"]), f"found {[f['id'] for f in device['findings']]}")
    phases = device["steps"][2]["phase_peaks"]
    expect(all(phases[p] for p in ("generate", "eval", "forward", "backward", "optimizer")), f"{phases}")
    expect(at_peak(device)["parameter"] == 240, f"{at_peak(device)}")


def honest_programs():
    """An averaged copy of the weights, a frozen tower, an evaluation alone, requests that grow: no leak."""
    ema = Trainer()
    copies = [frame("/usr/lib/python3.11/copy.py", 172, "deepcopy"), frame(TORCH + "nn/parameter.py", 60, "__deepcopy__"), user(5)]
    for _ in range(10):
        ema.card.alloc(12 * MIB, copies)
    for _ in range(6):
        ema.step()
        for _ in range(10):
            ema.card.drop(ema.card.alloc(12 * MIB, [user(45, "update")]))
    frozen = Trainer(layers=2)
    for _ in range(10):
        frozen.card.alloc(64 * MIB, BUILD)
    for _ in range(6):
        x = frozen.card.alloc(4096, [user(17)])
        for n in range(20):
            x, before = frozen.card.alloc(8 * MIB, module(18, n, 5)), x
            frozen.card.drop(before)
        frozen.step()
        frozen.card.drop(x)
    alone = Trainer()
    serving = Card()
    for _ in range(10):
        serving.alloc(12 * MIB, BUILD)
    for n in range(12):
        alone.card.drop(*alone.forward(line=50), alone.inputs.pop())
        ids = serving.alloc(4096 * (n + 1), [user(10)])
        keys = [serving.alloc((n + 1) * MIB, CACHE) for _ in range(8)]
        serving.drop(*[serving.alloc((4 + n) * MIB, [frame(TORCH + "nn/modules/linear.py", k, "forward"), *GENERATE]) for k in range(10)])
        serving.drop(*keys, ids)
    for what, card in (("ema", ema.card), ("frozen", frozen.card), ("alone", alone.card), ("serving", serving)):
        found = findings(card)
        expect("leak" not in found and "duplicate_weights" not in found, f"{what}: {list(found)}")
    expect(at_peak(explained(ema.card))["parameter"] == 240, f"{at_peak(explained(ema.card))}")
    expect(at_peak(explained(frozen.card))["parameter"] == 664, f"{at_peak(explained(frozen.card))}")


def recording_that_began_late():
    """What was there before has no stacks: weights were taken for inputs of the first forward pass."""
    t = Trainer()
    for _ in range(4):
        t.step()
    start = len(t.card.events)
    for _ in range(4):
        t.step()
    t.card.events = t.card.events[start:]
    device = report(t.card.snapshot())[0]
    expect("input" not in at_peak(device), f"{at_peak(device)}")
    expect(not device["findings"], f"found {[f['id'] for f in device['findings']]}")


def owners_hold_what_their_words_say():
    """Bytes of two callers of one library's line stood under one of them; what was there before was called autograd's."""
    def late(before):
        card, einsum = Card(), frame("/usr/lib/python3/dist-packages/einops/einops.py", 288, "einsum")
        old = card.alloc(before * MIB)
        start = len(card.events)
        card.drop(*[card.alloc(size * MIB, [einsum, user(line)]) for size, line in ((30, 32), (20, 33), (14, 15))])
        card.drop(old)
        card.events = card.events[start:]
        return card.snapshot()

    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{before}.pickle" for before in (40, 60)]
        for path, before in zip(paths, (40, 60)):
            with open(path, "wb") as f:
                pickle.dump(late(before), f, 4)
        texts = [lib.run("report", paths[0], *how).stdout for how in ((), ("--why",), ("--group-by", "size"), ("--group-by", "size", "--why"))]
        grown = lib.run("diff", *paths).stdout
        few = Card()
        few.alloc(MIB, [user(3)])
        with open(paths[0], "wb") as f:
            pickle.dump(few.snapshot(), f, 4)
        expect("Allocated memory over the events" not in lib.run("report", paths[0], "--why").stdout, "a picture of few events")
    rows = [" ".join(line.split()) for line in texts[0].splitlines()]
    for size, line in ((30, 32), (20, 33), (14, 15)):
        expect(f"{size}.00 MiB einops.py:288 in einsum < train.py:{line}" in rows, f"{rows}")
    for text in texts:
        expect("there before the recording began" in text.split("Who held")[1].split("\n", 2)[2], text)
    expect("1 of 31,457,280 bytes: einops.py:288" in texts[2] and "31,457,280 bytes each" in texts[3], texts[2] + texts[3])
    expect(not any("no Python stack" in text for text in (*texts, grown)), f"{texts} {grown}")
    expect("Allocated memory over the events" in texts[1], "no picture of enough events")
    expect("+20.00 MiB" in grown and "there before the recording began" in grown, grown)


DECODE = [frame(TORCH + "nn/functional.py", 50, "cat"), frame("/home/me/model.py", 30, "forward"), CALL, user(61)]


def serving_by_hand():
    """Requests of a model of one's own: a prompt, then tokens whose pass replaces the cache by a longer one."""
    card = Card()
    _ = [card.alloc(12 * MIB, BUILD) for _ in range(10)]
    kept, sizes = [], (20, 30, 24, 26, 22, 28, 24)
    for i, size in enumerate(sizes):
        ids = card.alloc(4096, [user(59)])
        cache = card.alloc(size * MIB, DECODE)
        for token in range(1, 5):
            card.drop(card.alloc(2 * MIB, module(61, 1)), stack=module(61, 1))
            longer = card.alloc((size + token) * MIB, DECODE)
            card.drop(cache, stack=DECODE)
            if token == 4:
                kept.append(card.alloc(12 * MIB, module(61, 2)))
            card.drop(card.alloc(4096, [user(63)]), stack=[user(63)])
            cache = longer
        card.drop(cache, ids, stack=[user(65)])
    device = explained(card)
    steps, leaks = device["steps"], [f for f in device["findings"] if f["id"] == "leak"]
    expect(device["step_basis"] == "request" and len(steps) == len(sizes), f"{device['step_basis']}, {len(steps)} requests")
    expect(len(leaks) == 1 and leaks[0]["period"] == "request" and leaks[0]["per_period_bytes"] == 12 * MIB, f"{leaks}")
    peaks = [(120 + 12 * i + 2 * s + 7) * MIB + 4096 for i, s in enumerate(sizes)]
    expect([s["requested_peak_bytes"] for s in steps] == peaks, f"{[s['requested_peak_bytes'] / MIB for s in steps]}")
    expect(device["peak"]["requested"]["phase"] == "request" and device["peak"]["requested"]["step"] == 6, f"{device['peak']}")
    expect("activation" not in at_peak(device), f"{at_peak(device)}")


def training_by_hand():
    """No optimizer, weights are updated in place; once as a module, once as plain functions."""
    for inside in (lambda n: module(20, n), lambda n: [frame(TORCH + "nn/functional.py", 100 + n, "linear"), user(20)]):
        card = Card()
        for _ in range(10):
            card.alloc(12 * MIB, BUILD)
        for _ in range(6):
            batch = card.alloc(4096, [user(19)])
            saved = [card.alloc(12 * MIB, inside(n)) for n in range(10)]
            card.drop(card.alloc(512, [frame(TORCH + "_tensor.py", 500, "backward"), user(21)]), stack=())
            grads = []
            for block in reversed(saved):
                grads.append(card.alloc(12 * MIB))
                card.drop(block, stack=())
            for grad in grads:
                card.drop(card.alloc(12 * MIB, [user(23)]), stack=[user(23)])
                card.drop(grad, stack=[user(24)])
            card.drop(batch, stack=[user(19)])
        device = explained(card)
        expect(device["step_basis"] == "backward" and len(device["steps"]) == 6, f"{device['step_basis']}, {len(device['steps'])} steps")
        expect(len({s["requested_peak_bytes"] for s in device["steps"]}) == 1, "each step has the same peak")
        expect(at_peak(device).get("activation") == 120, f"{at_peak(device)}")
        expect(not device["findings"], f"found {[f['id'] for f in device['findings']]}")


def optimizer_by_hand():
    """Momentum of an optimizer without PyTorch's classes was called parameters where __init__ made it, else inputs."""
    sizes = (12, 8, 12, 8, 4, 20)
    own = [frame("/home/me/net.py", 9, "__init__"), user(3)]  # a model without PyTorch's layers, too

    def made_by(line, name):
        return [frame("/home/me/adam.py", line, name), user(25)]

    def run(early, build, update):
        card = Card()
        _ = [card.alloc(size * MIB, build) for size in sizes]
        state = [card.alloc(size * MIB, made_by(line, "__init__")) for line in (44, 45) for size in sizes] if early else []
        for _ in range(8):
            batch = card.alloc(4096, [user(19)])
            saved = [card.alloc(10 * MIB, module(20, n)) for n in range(5)]
            card.drop(*saved, stack=())
            grads = [card.alloc(size * MIB) for size in sizes]
            for size in sizes:
                state += [] if len(state) == 2 * len(sizes) else [card.alloc(size * MIB, made_by(line, "update")) for line in (46, 47)]
                card.drop(card.alloc(size * MIB, update), stack=update)
            card.drop(*grads, stack=[user(27)])
            card.drop(batch)
        return at_peak(explained(card))

    for early in (False, True):
        for build in (BUILD, own):
            held = run(early, build, made_by(50, "update"))
            expect((held["parameter"], held["gradient"], held["optimizer_state"]) == (64, 64, 128), f"{early}: {held}")
            held = run(early, build, [user(26)])  # another file updates: it may be an average of the weights
            expect((held["parameter"], held["unknown"]) == (64, 128) and "optimizer_state" not in held, f"{early}: {held}")


def graph_of_a_model_of_ones_own():
    """Five lines of model.py kept something; the advice was a bounded cache.  It is one graph, of the line that calls."""
    t = Trainer()
    for _ in range(6):
        saved = t.forward(line=40)
        for n in range(5):
            _ = [t.card.alloc(2 * MIB, [frame("/home/me/model.py", 10 + n, "forward"), CALL, user(40)]) for _ in range(4)]
        t.backward(saved)
        t.optimize()
        t.zero()
        t.card.drop(t.inputs.pop())
    leaks = [f for f in explained(t.card)["findings"] if f["id"] == "leak"]
    expect(len(leaks) == 1 and leaks[0]["place"]["frame"] == "/home/me/train.py:40 in train", f"{[f['place']['frame'] for f in leaks]}")
    expect(leaks and leaks[0]["per_period_bytes"] == 40 * MIB and "loss.item()" in leaks[0]["fix"][0], f"{leaks}")


def what_is_kept_is_no_input():
    """A tensor that is allocated between steps and stays was called an input, since it lives into the next forward pass."""
    t = Trainer()
    for step in range(12):
        if step == 2:
            t.card.alloc(64 * MIB, [user(18)])
        t.step()
    held = at_peak(explained(t.card))
    expect(held.get("input", 0) < 1 and held["unknown"] == 64, f"{held}")


def named_ranges():
    """Ranges of record_function: steps where nothing else shows them, and where a moment lies."""
    card, image = Card(), [user(12, "generate_image")]
    card.alloc(200 * MIB, [user(3)])
    card.mark("END", "lost beginning")
    for n in range(6):
        card.mark("START", f"image {n}")
        latent = card.alloc(12 * MIB, image)
        card.mark("START", "vae decode")
        card.drop(card.alloc((40 + 20 * (n == 4)) * MIB, image))
        card.mark("END", "vae decode")
        card.drop(latent)
        card.mark("END", f"image {n}")
    device = explained(card)
    expect(device["step_basis"] == "annotation" and len(device["steps"]) == 6, f"{device['step_basis']}, {len(device['steps'])}")
    expect([s["requested_peak_bytes"] // MIB for s in device["steps"]] == [252] * 4 + [272, 252], f"{device['steps']}")
    expect(device["at_peak"]["annotations"] == ["image 4", "vae decode"], f"{device['at_peak']['annotations']}")
    card.mark("START", "image 6")
    card.mark("START", "image 6")  # inside itself
    card.mark("END", "image 6")
    card.fail(512 * MIB, image)
    device = explained(card)
    expect(device["oom"][0]["annotations"] == ["image 6"], f"{device['oom'][0]['annotations']}")

    # a part of a step is not a step; nor is what PyTorch names
    for name in ("vae decode", "nccl:all_reduce"):
        card = Card()
        for _ in range(6):
            card.drop(card.alloc(12 * MIB, image), card.alloc(24 * MIB, image))
            card.mark("START", name)
            card.drop(card.alloc(12 * MIB, image))
            card.mark("END", name)
        expect(not explained(card)["steps"], name)


def gradients_of_a_penalty():
    """torch.autograd.grad gives the program tensors of the weights' size, which it keeps: no gradients, there are as many as weights."""
    t = Trainer()
    kept = []
    for _ in range(4):
        t.card.drop(*kept)
        saved = t.forward()
        kept = [t.card.alloc(t.size) for _ in range(3)]
        t.backward(saved)
        t.optimize()
        t.zero()
        t.card.drop(t.inputs.pop())
    t.card.drop(*kept)
    saved = t.forward()
    kept = [t.card.alloc(t.size) for _ in range(3)]
    t.backward(saved)
    t.optimize()
    t.card.alloc(900 * MIB, [user(50)])
    held = at_peak(explained(t.card))
    expect(held.get("gradient", 0) <= held["parameter"], f"{held}")


def steps_by_marks_alone():
    """Stacks of what lives at the end, none of events (context="state"): optimizers' marks are steps, each."""
    t = Trainer()
    for _ in range(4):
        saved = t.forward()
        t.backward(saved)
        t.card.mark("START", "Optimizer.step#Adam.step")
        t.optimize()
        t.card.mark("END", "Optimizer.step#Adam.step")
        t.zero()
        t.card.drop(t.inputs.pop())
    told = t.card.snapshot()
    for segment in told["segments"]:
        for block in segment["blocks"]:
            block["frames"] = BUILD
    for frames in (None, []):
        events = [{**e, "frames": frames} if frames is not None else {k: v for k, v in e.items() if k != "frames"} for e in t.card.events]
        device = report({**told, "device_traces": [events]})[0]
        expect(len(device["steps"]) == 4 + 1, f"{len(device['steps'])} steps, with what comes behind the last")


def steps_inside_of_the_backward_pass():
    """Each weight's optimizer steps when its gradient is there: one step of training, whose activations are activations."""
    t = Trainer()
    for _ in range(4):
        saved = t.forward()
        detail = t.card.alloc(t.size)
        for block in reversed(saved):
            gradient = t.card.alloc(t.size)
            t.card.mark("START", "Optimizer.step#Adam.step")
            if len(t.state) < 2 * len(t.weights):
                t.state += [t.card.alloc(t.size, [*STATE, user(40, "hook")]) for _ in range(2)]
            t.card.drop(t.card.alloc(4096, STEP), stack=STEP)
            t.card.mark("END", "Optimizer.step#Adam.step")
            t.card.drop(gradient, stack=ZERO)
            t.card.drop(block, stack=())
        t.card.drop(detail, stack=())
        t.card.drop(t.inputs.pop())
    device = explained(t.card)
    held = at_peak(device)
    expect(len(device["steps"]) == 4 + 1, f"{len(device['steps'])} steps, with what comes behind the last")
    expect(held.get("activation", 0) >= 8 * t.size // MIB, f"{held}")


def workspace_of_the_line_that_leaks():
    """What cuBLAS kept once for a stream is not a part of a leak of the line that needed it first."""
    t = Trainer()
    for n in range(9):
        saved = t.forward()
        t.card.alloc(6 * MIB, module(40, 0))
        if n == 0:
            t.card.alloc(8_519_680, module(40, 0))
        t.backward(saved)
        t.optimize()
        t.zero()
        t.card.drop(t.inputs.pop())
    leak = findings(t.card)["leak"]
    expect(leak["bytes"] % (6 * MIB) == 0 and leak["bytes"] == len(leak["allocations"]) * 6 * MIB, f"{leak}")


def recording_that_stops_within_a_step():
    """Dumped in the middle of a step it says so; between steps, or with an evaluation behind the last, it does not."""
    for phases, expected in ((0, None), (1, "forward"), (2, "backward")):
        t = Trainer()
        for _ in range(4):
            t.step()
        saved = t.forward() if phases else []
        if phases == 2:
            t.card.drop(t.card.alloc(t.size), stack=())
            t.card.drop(saved.pop(), stack=())
        stop = explained(t.card)["stop"]
        expect(stop == (expected and {"step": 4, "phase": expected}), f"{expected}: {stop}")


def frames_that_are_not_python_own_nothing():
    """Below the backward thread of a stack of C++ lies assembly: clone3.S owned 12.72 of 51.45 GiB."""
    thread = [frame("./nptl/pthread_create.c", 442, "start_thread"),
              frame("./misc/../sysdeps/unix/sysv/linux/x86_64/clone3.S", 81, "__clone3")]
    t = Trainer()
    for _ in range(4):
        t.step()
    for event in t.card.events:
        event["frames"] = event["frames"] + thread if event["action"] in ("alloc", "free_requested") else event["frames"]
    device = explained(t.card)
    owners = [o["frame"] for o in device["at_peak"]["owners"]]
    expect(not any("clone3" in (o or "") for o in owners), f"{owners}")
    expect(at_peak(device).get("activation"), f"{at_peak(device)}")


def recordings_of_little():
    """No stacks, stacks of C++ alone, no events, frees alone, a failure alone, two devices: silent, and no error."""
    t = Trainer()
    for _ in range(4):
        t.step()
    whole = t.card.snapshot()
    for frames in ([], [frame("??", 0, "at::native::foo")]):
        told = report({**whole, "device_traces": [[{**e, "frames": frames if e["frames"] else []} for e in t.card.events]]})[0]
        expect(not told["findings"] and not told["steps"], f"{frames}: {told['findings']}")
        expect("parameter" not in at_peak(told) if frames else not told["at_peak"]["categories"], f"{frames}: categories")
    expect(not report({**whole, "device_traces": [[]]})[0]["findings"], "no events")
    frees = [{"action": "free_requested", "addr": 2**30 + 512 * n, "size": 512, "stream": 0, "time_us": n, "frames": [user(1)]} for n in range(30)]
    expect(not report({**whole, "segments": [], "device_traces": [frees]})[0]["findings"], "frees alone")
    card = Card()
    card.fail(512 * MIB, [user(1)])
    expect("leak" not in verdict(card).values(), "a failure alone")
    other = [{**s, "device": 1} for s in whole["segments"]]
    both = report({**whole, "segments": whole["segments"] + other, "device_traces": [t.card.events, [dict(e) for e in t.card.events]]})
    expect(len(both) == 2 and at_peak(both[0]) == at_peak(both[1]), "two devices")


programs = [f for f in list(globals().values())
            if getattr(f, "__code__", None) and f.__module__ == "__main__" and not f.__code__.co_argcount]
for program in programs:
    program()
for kind in ("leak", "kv_cache_growth", "gradients_live_in_forward", "duplicate_weights"):
    if not shown.get(kind):
        failures.append(f"no program had rows of {kind} to paint: {shown}")
lib.finish(f"{len(programs)} programs: found what they do, and nothing else", least=len(programs))
