#!/usr/bin/env python3
"""run.py PLIMSOLL DATA FAKE_NVML: recorded jobs with one known bottleneck each, live ones next to a driver that is made up.

_run1 and _run2 were recorded ten times per second, the others once a second by `plimsoll watch --log`.  _run6 to _run10 are jobs that
had worked before, on two GPUs and on one; their truth was written down before they were run (docs/evidence/watch.md says what was said of them
blind); those of _run9 and _run10 have looks at stacks.
"""
import collections
import json
import lzma
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import expect, finish, jobs, result, run, start  # noqa: E402
from recorded import PACED, TRUTH, recorded, recordings, samples, settled, span_of_work  # noqa: E402

counts = collections.Counter()


def replayed(path, gpm):
    kind = os.path.basename(path).rsplit("_run", 1)[0]
    rows = samples(path)
    work = span_of_work(path, kind, rows)
    if gpm:
        job = result("watch", "--replay", path)["jobs"][0]
    else:
        text = "".join(json.dumps({k: v for k, v in r.items() if k != "gpm"}) + "\n" for r in rows)
        job = json.loads(run("watch", "--replay", "-", "--json", stdin=text.encode(), text=False).stdout)["jobs"][0]
    for w in job["windows"]:
        if not work or w["time"] < work[0]:
            counts[gpm, "start", w["state"] == "starting"] += 1
        elif work[0] + settled(path) <= w["time"] <= work[1]:
            truth = TRUTH[kind].split()
            right = w["state"] in truth or (not gpm and PACED & set(truth) and w["state"] == "host_paced")
            said = "right" if right else "undecided" if w["state"] in ("undecided", "host_paced") else "wrong"
            counts[gpm, "work", said] += 1
            expect(said != "wrong" or w["confidence"] != "high", path, "surely", w["state"], "at", w["time"])
    for v in job["verdicts"]:
        expect(v["title"] and v["evidence"], path, "a verdict without evidence")


def recorded_jobs(data):
    with tempfile.TemporaryDirectory() as scratch:
        paths = recordings(data, scratch)
        jobs(replayed, paths * 2, [True] * len(paths) + [False] * len(paths))
    for gpm in True, False:
        right, wrong, undecided = (counts[gpm, "work", k] for k in ("right", "wrong", "undecided"))
        all_ = right + wrong + undecided
        print(f"# {'with' if gpm else 'without'} GPM: {right} of {all_} windows of work right, {undecided} undecided, {wrong} wrong;"
              f" starting: {counts[gpm, 'start', True]} of {counts[gpm, 'start', True] + counts[gpm, 'start', False]}")
        expect(all_ >= 20 and right >= (0.9 if gpm else 0.5) * all_ and wrong <= 0.04 * all_, "windows", gpm, right, wrong, undecided)
        expect(counts[gpm, "start", False] <= 0.02 * counts[gpm, "start", True], "starting", gpm, counts[gpm, "start", False])


def sockets(data):
    """What a job writes to sockets is not a checkpoint; where it is not reported what went to files, bytes are bytes."""
    rows = samples(os.path.join(data, "watch_sockets", "gloo.jsonl.xz"))

    def said(stored):
        for row in rows:
            io = row["tree"][0]["io"]
            io.pop("write_bytes", None)
            if stored is not None:
                io["write_bytes"] = int(stored * io["wchar"])
        text = "".join(json.dumps(row) + "\n" for row in rows)
        job = json.loads(run("watch", "--replay", "-", "--json", stdin=text.encode(), text=False).stdout)["jobs"][0]
        return {w["state"] for w in job["windows"]}, " ".join(job["verdicts"][0]["evidence"])

    expect(said(None)[0] == said(1)[0] == {"saving"}, "files", said(None), said(1))
    state, evidence = said(0)
    expect(state == {"undecided"} and "to sockets or pipes" in evidence, "sockets", state, evidence)


def ranks_that_wait(data):
    """Of a job that is alone the same would be small kernels, or work."""
    for name in "nccl_late_rank0", "nccl_wide_rank0":
        rows = samples(os.path.join(data, "watch", name + "_run6.jsonl.xz"))
        for world, states in (2, {"undecided"}), (1, {"busy_thin", "compute_bound"}):
            text = "".join(json.dumps(dict(row, world=world)) + "\n" for row in rows)
            job = json.loads(run("watch", "--replay", "-", "--json", stdin=text.encode(), text=False).stdout)["jobs"][0]
            expect(job["verdicts"][0]["state"] in states, name, world, job["verdicts"][0])
            expect(world == 1 or "ranks: a collective" in " ".join(job["verdicts"][0]["evidence"]), name, job["verdicts"][0])


def judged(rows):
    """The windows of samples."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return json.loads(run("watch", "--replay", "-", "--json", stdin=text, text=False).stdout)["jobs"][0]["windows"]


def verdict_of(rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    job = json.loads(run("watch", "--replay", "-", "--json", stdin=text, text=False).stdout)["jobs"][0]
    return job["verdicts"][0]["state"], " ".join(job["verdicts"][0]["evidence"]), job


def main_of(rows, **members):
    return [dict(row, tree=[dict(row["tree"][0], **members)] + row["tree"][1:]) for row in rows]


def who_waits_for_what(data):
    """In poll: for a socket, if a batch is waited for and now and then comes; in select: asleep.  A process of its own that reads waits for the disk."""
    rows = recorded(data, "httpsrc_run7")
    state, evidence, job = verdict_of(rows)
    expect(state == "input_source" and "for a socket" in evidence, "a client with a timeout", state, evidence)
    expect(job["now"]["worker_count"] == 4, "a server beside four workers is none", job["now"]["worker_count"])
    for what, other in (("the main thread waits for something else", main_of(rows, wchan="futex_do_wait")),
                        ("no batch comes", [dict(row, util=0, gpm={k: 0 for k in row.get("gpm", {})}) for row in rows])):
        expect(verdict_of(other)[0] != "input_source", what, verdict_of(other)[:2])
    for call, state in (23, "sleeping"), (270, "sleeping"), (7, "undecided"):
        found = verdict_of(main_of(recorded(data, "ratelimit_run7"), wchan="poll_schedule_timeout.constprop.0", syscall=str(call)))[0]
        if os.uname().machine == "x86_64":
            expect(found == state, "system call", call, found)
    rows = recorded(data, "mainread_run7")
    state, evidence, _ = verdict_of(rows)
    expect(state == "input_disk" and "no DataLoader workers" in evidence, "the main process reads", state, evidence)
    nothing = [dict(row, tree=[dict(p, io=dict(p["io"], read_bytes=0)) for p in row["tree"]]) for row in rows]
    expect(verdict_of(nothing)[0] != "input_disk", "in state D, and reads nothing", verdict_of(nothing)[:2])


def deadlocks():
    """Nothing moves in a DataLoader: samples as of tests/domain/test_deadlock.py, where the processes are real."""
    queue = [["python3.11/selectors.py:415 select", "site-packages/torch/utils/data/dataloader.py:1291 _Iterator._try_get_data", "train.py:14 <module>"]]
    elsewhere = [["train.py:20 main"]]
    locked, idle, reads = {"wchan": "futex_do_wait", "locked": 1}, {"wchan": "poll_schedule_timeout", "workless": 1}, {"wchan": "poll_schedule_timeout"}

    def rows(workers, stacks, cores=0.0):
        def process(pid, i, name, more):
            return dict({"pid": pid, "ppid": 1 if pid == 9 else 9, "start": pid, "comm": name, "state": "S", "utime": i * 10 * cores, "stime": 0, "rss": 9, "io": {}}, **more)

        return [{"t": 100 + i / 10, "age": 60 + i / 10, "tree": [process(9, i, "python", reads)] + [process(10 + n, i, "pt_data_worker", w) for n, w in enumerate(workers)],
                 "threads": [[9, "python", "S", i * 10 * cores, 0]], "stacks": [{"n": 1, "frames": frames} for frames in stacks]} for i in range(100)]

    for what, found, is_one in (
            ("all wait for a lock", rows([locked, locked], queue), True), ("one does, one has no work", rows([locked, idle], queue), True),
            ("one reads", rows([locked, reads], queue), False), ("a lock with a limit", rows([dict(locked, locked=0)] * 2, queue), False),
            ("nobody has work", rows([idle, idle], queue), False), ("the main thread is elsewhere", rows([locked, locked], elsewhere), False),
            ("they compute", rows([locked, locked], queue, 0.5), False)):
        state = verdict_of(found)[0]
        expect((state == "deadlock") == is_one, "deadlock", what, state)


def network_files(data):
    """Who waits for a network's file system is in state D as who waits for a disk; the kernel's function shows."""
    for sleeps_in, state in ("folio_wait_bit_common", "input_disk"), ("rpc_wait_bit_killable", "input_source"), ("nfs4_handle_exception", "input_source"):
        rows = [dict(row, tree=row["tree"][:1] + [dict(p, wchan=sleeps_in) if p["state"] == "D" else p for p in row["tree"][1:]])
                for row in recorded(data, "tinyfiles_run6")]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        verdict = json.loads(run("watch", "--replay", "-", "--json", stdin=text, text=False).stdout)["jobs"][0]["verdicts"][0]
        expect(verdict["state"] == state, sleeps_in, verdict["state"])
        expect(state == "input_disk" or sleeps_in in " ".join(verdict["evidence"]), sleeps_in, verdict["evidence"])


def stretched(rows, times):
    """The same that many times as slow: what is counted grows as fast as it did."""
    def slower(p):
        return dict(p, utime=p["utime"] * times, stime=p["stime"] * times)

    return [dict(row, t=rows[0]["t"] + (row["t"] - rows[0]["t"]) * times, tree=[slower(p) for p in row["tree"]],
                 threads=[t[:3] + [t[3] * times, t[4] * times] for t in row["threads"]]) for row in rows]


def near_a_threshold(data):
    """What is not a further beyond a threshold than numbers err is not sure."""
    rows = [dict(row, util=93, gpm=dict(row.get("gpm", {}), graphics=93)) for row in recorded(data, "itemconv_run6")]
    expect({(w["state"], w["confidence"]) for w in judged(rows)} == {("compute_bound", "medium")}, "GPU busy 93 %", judged(rows))
    for held_back, confidence in (0.52, "medium"), (0.65, "high"):
        rows = [dict(row, host=dict(row["host"], throttled_s=i * held_back, periods=10 * i, throttled_periods=10 * i),
                     tree=[dict(p, sched="0 0 0") for p in row["tree"]]) for i, row in enumerate(recorded(data, "quota_run6"))]
        expect({(w["state"], w["confidence"]) for w in judged(rows)} == {("throttled", confidence)}, "throttled", held_back, judged(rows))


def few_kernels(data):
    """Kernels too few for the GPU's use to show: that it starts is not sure without GPM, and is not said when it has held the GPU for long."""
    rows = [dict({k: v for k, v in row.items() if k != "gpm"}, util=0) for row in recorded(data, "python_run3")]
    held = next(row["t"] for row in rows if row.get("procs"))
    said = [w for w in judged(rows) if w["time"] > held + 1]
    expect(said and {(w["state"], w["confidence"]) for w in said} == {("starting", "medium")}, "without GPM", said)
    rows = stretched([dict(row, age=i) for i, row in enumerate(recorded(data, "bincount_run6"))], 10)
    said = [(w["time"] - rows[0]["t"], w["state"]) for w in judged(rows)]
    expect(all((state == "starting") == (t <= 60) for t, state in said) and said[-1][0] > 70, "held for long", said)


def stalls():
    """Ten times as long as a step usually takes: an evaluation between two steps is none."""
    def run_of(evaluation, quiet, phase):
        ends = list(range(30)) + [30 + evaluation + i for i in range(5)]
        return [{"t": 1e9 + t, "util": 100, "procs": [[7, 1 << 33]], "threads": [[7, "python", "R", 90 * t, t]],
                 "gpm": {"graphics": 97, "sm_util": 88, "sm_occ": 50, "tensor": 30, "pcie_rx": 5, "pcie_tx": 5},
                 "tree": [{"pid": 7, "comm": "python", "state": "R", "utime": 90 * t, "stime": t, "rss": 10000, "wchan": "0"}],
                 "gauge": {"step": sum(end <= t for end in ends), "phase": phase}} for t in range(ends[-1] + quiet)]

    for quiet, phase, said in (110, 2, ("compute_bound", "high")), (130, 2, ("stalled", "high")), (130, 5, ("stalled", "medium")):
        last = judged(run_of(400, quiet, phase))[-1]
        expect((last["state"], last["confidence"]) == said, "no step for", quiet, "s, phase", phase, last)


def alerts():
    """What --on can tell, each of a job in which it comes about, and none of one that does well."""
    def said(seconds, used=lambda t: 1 << 33, shm=10, workers=(), step=lambda t: t, held_back=0, busy=97, main=0.9, told=False):
        rows = [{"t": 1e9 + t, "util": busy, "total": 80 << 30, "used": used(t), "procs": [[7, used(t)]],
                 "threads": [[7, "python", "R" if main else "S", int(100 * main * t), 0]],
                 "gpm": {"graphics": busy, "sm_util": busy, "sm_occ": busy / 2, "tensor": busy / 3, "pcie_rx": 5, "pcie_tx": 5},
                 "host": {"cores": 8, "shm_total": 100 << 20, "shm_used": shm << 20, "throttled_s": held_back * t, "periods": 10 * t,
                          "throttled_periods": 10 * t if held_back else 0},
                 "gauge": {"step": step(t), **({"allocated": used(t), "reserved": used(t)} if told else {})},
                 "tree": [{"pid": 7, "comm": "python", "state": "R" if main else "S", "utime": int(100 * main * t), "stime": 0, "rss": 10000,
                           "wchan": "0" if main else "futex_do_wait"}] +
                 [{"pid": pid, "ppid": 7, "comm": "pt_data_worker", "state": "R", "utime": 100 * t, "stime": 0, "rss": 10, "wchan": "0"}
                  for pid in workers]} for t in range(seconds)]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        return {a["event"] for a in json.loads(run("watch", "--replay", "-", "--json", stdin=text, text=False).stdout)["alerts"]}

    expect(not said(700), "alerts of a job that does well", said(700))
    for event, how in (("creep", {"used": lambda t: (60 << 30) + ((24 << 20) * t // (20 << 20)) * (20 << 20)}),
                       ("oom_soon", {"told": True, "used": lambda t: (60 << 30) + ((24 << 20) * t // (20 << 20)) * (20 << 20)}),
                       ("idle_long", {"busy": 0, "main": 0}), ("stall", {"step": lambda t: min(t, 200)}),
                       ("input_bound", {"busy": 20, "main": 0.1, "workers": (8, 9)}), ("slowed", {"held_back": 0.6, "main": 0.4}),
                       ("tight_shm", {"shm": 97})):
        found = said(700, **how)
        expect(event in found, "alert", event, "among", found)


def met_late(data):
    """A job with kernels too few to be seen, that held the GPU when it was first looked at, is not called starting unless it is young."""
    rows = samples(os.path.join(data, "watch", "bincount_run6.jsonl.xz"))
    mute = {k: v for k, v in rows[0].items() if k not in ("procs", "used", "reserved", "total", "util", "gpm")}
    late = [(w["state"]) for w in judged([dict(mute, age=500), *(dict(row, age=501 + i) for i, row in enumerate(rows[1:]))])]
    expect(set(late) == {"main_python"}, "a driver that answers late", late)
    for age, state in (None, "main_python"), (500, "main_python"), (20, "starting"):
        text = "".join(json.dumps(row if age is None else dict(row, age=age + i)) + "\n" for i, row in enumerate(rows))
        job = json.loads(run("watch", "--replay", "-", "--json", stdin=text.encode(), text=False).stdout)["jobs"][0]
        expect({w["state"] for w in job["windows"]} == {state}, age, job["windows"])


def first_kernel(data):
    """What was said to start is not, in the first window behind a kernel."""
    told = 0
    for name in "healthy_run1", "launch_run1", "python_run1", "sync_run2":
        rows = recorded(data, name)
        windows = judged(rows)
        starts = [i for i, w in enumerate(windows[:-1]) if w["state"] == "starting" != windows[i + 1]["state"]]
        if starts and starts[0] >= 1:
            then = windows[starts[0] + 1]
            told += 1
            expect(verdict_of([row for row in rows if row["t"] <= then["time"]])[0] == then["state"], name, then)
    expect(told >= 2, "jobs that begin", told)


CARD = "util", "mem_util", "gpm", "used", "reserved", "total", "power_mw", "power_limit_mw", "procs", "held"


def no_card(data):
    """Where no driver reports a GPU, whether a kernel has run is not known; where one says that the job holds none, it has not."""
    rows = [{k: v for k, v in row.items() if k not in CARD} for row in recorded(data, "coldbuild_run7")]
    state, evidence, _ = verdict_of(rows)
    expect(state == "undecided" and "use is not seen" in evidence and "held the card" not in evidence, "no driver", state, evidence)
    expect(verdict_of([dict(row, held=0) for row in rows])[0] == "starting", "a driver, and no card held")


def neighbours(data):
    """What a GPU does may be another's, who holds it, too: nothing is sure by that, and who launches nothing does nothing of it."""
    def beside(rows, mib):
        return [dict(row, used=row["procs"][0][1] + (mib << 20)) if row.get("procs") else row for row in rows]

    rows = recorded(data, "gemm16_run6")
    for mib, confidence in (100, "high"), (20000, "medium"):
        said = {(w["state"], w["confidence"]) for w in judged(beside(rows, mib))}
        expect(said == {("compute_bound", confidence)}, "neighbours of", mib, "MiB", said)
    asleep = main_of(rows, state="S", wchan="futex_do_wait", utime=900, stime=90)
    asleep = [dict(row, threads=[row["threads"][0][:3] + [900, 90]]) for row in asleep]
    state, evidence, _ = verdict_of(beside(asleep, 20000))
    expect(state == "undecided" and "may be theirs" in evidence, "asleep beside one that works", state, evidence)
    rows = recorded(data, "coldvocab_run8")
    said = {w["state"] for w in judged(rows)}
    expect(said == {"undecided"}, "begins beside others", said)
    alone = {w["state"] for w in judged([dict(row, used=row["procs"][0][1]) if row.get("procs") else {**row, "used": 0} for row in rows])}
    expect(alone == {"main_python"}, "the same, alone", alone)


def stopped(data):
    """By a signal: whatever the GPU does."""
    for name in "stopped_run8", "gemm16_run6":
        state, evidence, job = verdict_of(main_of(recorded(data, name), state="T"))
        expect(state == "idle" and job["verdicts"][0]["confidence"] == "high" and "state T" in evidence, name, state, evidence)


def near_to(data):
    """What is not decided names what it is near to, and the number that distinguishes them."""
    rows = recorded(data, "threadtrain_run7")
    slow = [dict(row, tree=[dict(p, utime=p["utime"] * 0.7, stime=p["stime"] * 0.7) for p in row["tree"]],
                 threads=[t[:3] + [t[3] * 0.7, t[4] * 0.7] for t in row["threads"]]) for row in rows]
    state, evidence, _ = verdict_of(slow)
    expect(state == "undecided" and "near to: many small kernels" in evidence and "at least 75 % of a core; it is 7" in evidence, state, evidence)


def died(path):
    """A job with a gauge that leaks to its death, judged every two seconds: what is reported holds the end."""
    with lzma.open(path, "rb") as f:
        lines = f.readlines()
    times = [json.loads(line)["t"] for line in lines]
    told = 0
    for n in range(60, len(lines), 2):
        job = json.loads(run("watch", "--replay", "-", "--json", stdin=b"".join(lines[:n]), text=False).stdout)["jobs"][0]
        for f in job["forecasts"]:
            if f["bound"] != "process" or f["confidence"] == "low":
                continue
            left, span = times[-1] - times[n - 1], f["seconds_range"]
            told += 1
            expect(span["low"] - 1 <= left <= span["high"] + 1, path, "dies in", left, "told", span)  # a sample per second
    expect(told >= 2, path, told, "forecasts")


def deaths(data):
    folder = os.path.join(data, "watch_deaths")
    jobs(died, [os.path.join(folder, f) for f in sorted(os.listdir(folder))])


# ---- live ----

BUSY = "while True: pass"


def live(fake, said, *arguments, codes=(0,)):
    env = {"FAKE_NVML": " " + said}
    return run("watch", "--nvml", fake, *arguments, env=env, codes=codes)


def stride(fake, pid, bytes_):
    seen = json.loads(live(fake, f"pid={pid},{os.getpid()} stride={bytes_} bytes=60000000000", "--once", "--json").stdout)
    mine = [j for j in seen["jobs"] if j["pid"] == pid]
    if expect(len(mine) == 1 and len(seen["jobs"]) == 2, "stride", bytes_, [j["pid"] for j in seen["jobs"]]):
        now = mine[0]["now"]
        expect(now["gpu_job_bytes"] == 60000000000 and now["gpu_total_bytes"] == 85520809984, bytes_, now)
        expect(now["sm_active_percent"] == 90 and now["dram_active_percent"] is None, bytes_, "GPM", now)
        expect(mine[0]["gpu"] == "0 NVIDIA H100 80GB HBM3", mine[0]["gpu"])


def divided(fake, pid, _):
    """MIG: each slice is a GPU of its own, with its own memory, processes and multiprocessors; it has no use and no power."""
    said = f"cards=2 mig=2 pid@101={pid} graphics@100=96 sm@100=80 graphics@101=12 sm@101=7 pid@100={os.getpid()} xid=31"
    seen = json.loads(live(fake, said, "--once", "--json").stdout)
    expect(len(seen["cards"]) == 4 and all(c["uuid"].startswith("MIG-") and "MIG 3g" in c["name"] for c in seen["cards"]), "slices", seen["cards"])
    expect([c["xid"] for c in seen["cards"]] == [31, 31, None, None], "an Xid is the whole card's", seen["cards"])
    now = {j["pid"]: (j["gpu"][:1], j["now"]["sm_active_percent"], j["now"]["gpu_busy_percent"], j["now"]["power_watts"]) for j in seen["jobs"]}
    expect(now == {pid: ("1", 7, None, None), os.getpid(): ("0", 80, None, None)}, "whose slice", now)
    whole = json.loads(live(fake, f"mig=2 code_mig=3 pid={pid}", str(pid), "--once", "--json").stdout)
    expect(len(whole["cards"]) == 1 and whole["cards"][0]["power_watts"] == 459, "a card that does not tell of MIG", whole["cards"])


def denied(fake, pid, what):
    """What a GPU does not say is unknown; the rest is reported."""
    seen = json.loads(live(fake, f"pid={pid} {what}", str(pid), "--once", "--json").stdout)
    expect(len(seen["jobs"]) == 1 and seen["jobs"][0]["now"]["main_cores"] is not None, what, seen["jobs"])


def says(fake, pid, what, words):
    arguments = [str(pid)] if pid else []
    expect(words in live(fake, what, *arguments, "--once").stdout, what, "does not say", words)


def logged(fake, pid, log):
    """What was logged is judged as it was live."""
    seen = json.loads(live(fake, f"pid={pid}", str(pid), "--once", "--json", "--log", log).stdout)["jobs"][0]
    again = result("watch", "--replay", log)["jobs"][0]
    with open(log, encoding="utf-8") as f:
        row = json.loads(f.read().splitlines()[1])
    expect(row["age"] > 0 and "write_bytes" in row["tree"][0]["io"], "a logged sample", row)
    expect([v["state"] for v in seen["verdicts"]] == [v["state"] for v in again["verdicts"]], "a log", seen["verdicts"], again["verdicts"])
    expect(again["samples"] == seen["samples"] and again["pid"] == pid, "a log's samples", again["samples"], seen["samples"])


def made_driver(fake, scratch):
    job = subprocess.Popen([sys.executable, "-c", BUSY])
    strides = [(stride, s) for s in (24, 32, 16)]
    kinds = [(denied, w) for w in ("code_processes=3", "code_memory=15", "code_use=3", "code_name=4", "gpm=0", "code_handle=4", "code_sample=3", "v2=0")]
    try:
        jobs(lambda f, x: f(fake, job.pid, x), *zip(*strides + kinds, (divided, None), (logged, os.path.join(scratch, "run.jsonl"))))
        jobs(says, [fake] * 3, [job.pid, None, job.pid], [f"pid={job.pid} code_memory=15", "pid=4000000", "init=18"],
             ["fallen off the bus", "cannot be seen from here", "upgraded"])
    finally:
        job.kill()
        job.wait()
    expect("no process" in run("watch", str(job.pid), "--once", codes=(2, 3)).stderr, "a pid that is gone")


def bad_input(scratch):
    path = os.path.join(scratch, "bad.jsonl")
    for text, word in (b"", "empty"), (b"[1]\n", "object"), (b'{"t": 1', "byte"), (b'{"job":"x"}\n', "no samples"), (b'{"t": 1e400}\n', "no samples"):
        with open(path, "wb") as f:
            f.write(text)
        said = run("watch", "--replay", path, codes=(3,)).stderr
        expect(word in said and said.count("\n") == 1, text, said)
    run("watch", "--replay", path, "1", codes=(2,))
    run("watch", "--fail-on", "nonsense", "--replay", path, codes=(2,))
    run("watch", "train.py", "--once", codes=(2,))


def growing(scratch):
    """A GPU that fills by 24 MiB per second: full in 15 min; --fail-on fills-up."""
    path = os.path.join(scratch, "leak.jsonl")
    total, base, rate = 80 << 30, 20 << 30, 24 << 20
    with open(path, "w", encoding="utf-8") as f:
        for t in range(900):
            used = base + rate * t // (20 << 20) * (20 << 20)
            f.write(json.dumps({
                "t": 1e9 + t, "total": total, "used": used, "reserved": 500 << 20, "util": 97, "procs": [[7, used]],
                "gpm": {"graphics": 97, "sm_util": 88, "sm_occ": 50, "tensor": 30, "pcie_rx": 5, "pcie_tx": 5},
                "mem": {"MemTotal": 1 << 27, "MemAvailable": 1 << 26}, "threads": [[7, "python", "R", 90 * t, t]],
                "tree": [{"pid": 7, "comm": "python", "state": "R", "utime": 90 * t, "stime": t, "rss": 10000, "wchan": "0"}]}) + "\n")
    job = result("watch", "--replay", path)["jobs"][0]
    expect(job["verdicts"][0]["state"] == "compute_bound", "leaking", job["verdicts"][0]["state"])
    if expect(len(job["forecasts"]) == 1, "one forecast", job["forecasts"]):
        left = (total - (500 << 20) - used) / rate
        seconds = job["forecasts"][0]["seconds_range"]
        expect(seconds["low"] <= left <= seconds["high"] <= 1.3 * seconds["low"], "when", seconds, left)
        expect(job["forecasts"][0]["confidence"] != "low", "sure", job["forecasts"][0])
    run("watch", "--replay", path, "--fail-on", "fills-up,stalled", codes=(1,))
    run("watch", "--replay", path, "--fail-on", "input", codes=(0,))


def looked_at_now_and_then():
    """A cgroup is looked at every five seconds: what is said of it may be that old, and the end that much nearer."""
    rate, end = 24 << 20, 320
    rows = [{"t": 1e9 + t, "util": 97, "procs": [[7, 1 << 33]], "gpm": {"graphics": 97, "sm_util": 88, "sm_occ": 50, "tensor": 30},
             "host": {"cores": 8, "limit": (4 << 30) + rate * end, "limit_used": (4 << 30) + rate * (t - t % 5)},
             "threads": [[7, "python", "R", 90 * t, t]],
             "tree": [{"pid": 7, "comm": "python", "state": "R", "utime": 90 * t, "stime": t, "rss": 10000, "wchan": "0"}]} for t in range(end - 19)]
    found = [f for f in verdict_of(rows)[2]["forecasts"] if f["bound"] == "cgroup"]
    if expect(len(found) == 1, "a cgroup that fills", found):
        seconds = found[0]["seconds_range"]
        expect(seconds["low"] <= 15 <= 20 <= seconds["high"], "at its edge in 20 s", seconds)


SECRET = "hush"


def planted(row):
    """The secret in all that a job chose: names of programs, functions of a module of one's own."""
    row = dict(row, tree=[dict(p, comm=f"{SECRET}{p['comm']}"[:15], wchan=f"{SECRET}_{p['wchan']}"[:40]) for p in row["tree"]])
    for p, was in zip(row["tree"][1:], [p["comm"] for p in row["tree"][1:]]):
        p["comm"] = "pt_data_worker" if was.startswith(SECRET + "pt_") else p["comm"]
    return row


def redacted_replay(data, scratch):
    path = os.path.join(scratch, "secret.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        print(json.dumps({"job": f"{SECRET}_train.py", "pid": 7}), file=f)
        for row in samples(os.path.join(data, "watch", "input_sleep_run1.jsonl.xz")):
            print(json.dumps(planted(row)), file=f)
    for how in (), ("--json",):
        plain, hidden = (run("watch", "--replay", path, *how, *more).stdout for more in ((), ("--redact",)))
        expect(SECRET in plain and SECRET not in hidden.lower() and "redacted, except for" in " ".join(hidden.split()), "replay", how, hidden[:300])
        if how:
            plain, hidden = (json.loads(x)["jobs"][0] for x in (plain, hidden))
            expect(hidden["name"].startswith("job-"), hidden["name"])
            expect(hidden["windows"] == plain["windows"] and {w["state"] for w in plain["windows"]} > {"input_source"}, "redacted", hidden["windows"])


def redacted_live(fake, scratch):
    """Shown or logged: nothing has the name; the log is judged as it was."""
    script, log = (os.path.join(scratch, name) for name in (f"{SECRET}.py", "redacted.jsonl"))
    with open(script, "w", encoding="utf-8") as f:
        f.write(BUSY)
    with subprocess.Popen([sys.executable, script]) as job:
        said = f"pid={job.pid}"
        try:
            shown = live(fake, said, str(job.pid), "--once", "--json").stdout
            hidden = live(fake, said, str(job.pid), "--once", "--json", "--redact", "--log", log).stdout
            text = live(fake, said, "--once", "--redact").stdout
        finally:
            job.kill()
    with open(log, encoding="utf-8") as f:
        kept = f.read()
    expect(SECRET in shown and json.loads(shown)["cards"][0]["uuid"], "a name to hide", shown[:300])
    for what in hidden, text, kept:
        expect(what and SECRET not in what, "live", what[:300])
    hidden = json.loads(hidden)
    expect(hidden["cards"][0]["uuid"] is None and hidden["cards"][0]["name"], hidden["cards"])
    expect(result("watch", "--replay", log)["jobs"][0]["verdicts"][0]["state"] == hidden["jobs"][0]["verdicts"][0]["state"], "the log")


def main():
    program, data, fake = sys.argv[1:4]
    start(program)
    recorded_jobs(data)
    deaths(data)
    sockets(data)
    ranks_that_wait(data)
    met_late(data)
    first_kernel(data)
    near_a_threshold(data)
    few_kernels(data)
    network_files(data)
    who_waits_for_what(data)
    no_card(data)
    neighbours(data)
    stopped(data)
    near_to(data)
    stalls()
    deadlocks()
    alerts()
    with tempfile.TemporaryDirectory() as scratch:
        made_driver(fake, scratch)
        bad_input(scratch)
        growing(scratch)
        looked_at_now_and_then()
        redacted_replay(data, scratch)
        redacted_live(fake, scratch)
    finish("watch", least=60)


main()
