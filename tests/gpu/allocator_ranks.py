#!/usr/bin/env python3
"""allocator_ranks.py OUT [WORK...]: libplimsoll_alloc.so on two GPUs: a rank a process, and both in one process.

WORK: ddp, fsdp2 (the same losses to the bit as under PyTorch's allocator, and what was reserved), nccl (collectives, blocks
that other streams read, sharing), oom (one rank's; the other is ended as torchrun does), devices (both in one process).
Each in processes of its own, forked before CUDA starts.  SECONDS_MAX: nothing is begun after them.  77 where there are no two GPUs.
"""
import json
import os
import signal
import socket
import sys
import time
import traceback

import allocator

WORKS = {"ddp": allocator.MODES, "fsdp2": allocator.MODES, "nccl": ("plimsoll",), "oom": ("plimsoll",), "devices": ("native", "plimsoll")}
RUN_S = 45
STEPS = 12
BAD = []


def expect(what, holds, told=""):
    print("%s %s%s" % ("ok  " if holds else "FAIL", what, f": {told}" if told != "" else ""), flush=True)
    if not holds:
        BAD.append(what)


# ---- what a rank does ----

def memory(torch, device):
    s = torch.cuda.memory_stats(device)
    return {"live": s["requested_bytes.all.peak"], "reserved": s["reserved_bytes.all.peak"],
            **{k: v for k, v in s.items() if k.startswith("plan.")}}


def train(torch, model, parameters, device):
    """Losses of each step, in full."""
    optimizer, losses = torch.optim.AdamW(parameters, lr=1e-4), []
    generator = torch.Generator().manual_seed(7 + device)
    for _ in range(STEPS):
        ids = torch.randint(32000, (4, 1024), generator=generator).to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [float(x).hex() for x in losses]


def ddp(torch, mode, rank):
    allocator.deterministic(torch)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(allocator.llama(torch, 768, 12, 12, 32000), device_ids=[rank])
    losses = train(torch, model, model.parameters(), rank)
    return {"losses": losses, **memory(torch, rank)}


def fsdp2(torch, mode, rank):
    from torch.distributed.fsdp import fully_shard
    allocator.deterministic(torch)
    torch.manual_seed(0)
    model = allocator.llama(torch, 768, 12, 12, 32000)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    losses = train(torch, model, model.parameters(), rank)
    return {"losses": losses, **memory(torch, rank)}


def collectives(torch, rank, rounds):
    """Wrong words of blocks that NCCL's stream reads and writes while ours goes on allocating."""
    import torch.distributed as dist
    generator, wrong = torch.Generator().manual_seed(3), torch.zeros((), dtype=torch.int64, device="cuda")
    for i in range(rounds):
        n = 2 * int(torch.randint(1, 4 << 20, (1,), generator=generator))
        t = torch.full((n,), (rank + 1) * (i + 1), dtype=torch.int32, device="cuda")
        both, half = torch.empty(2 * n, dtype=torch.int32, device="cuda"), torch.empty(n // 2, dtype=torch.int32, device="cuda")
        got = torch.empty_like(t)
        works = [dist.all_gather_into_tensor(both, t, async_op=True), dist.reduce_scatter_tensor(half, t, async_op=True)]
        works += dist.batch_isend_irecv([dist.P2POp(dist.isend, t, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)])
        del t
        clutter = [torch.full((n,), -1, dtype=torch.int32, device="cuda") for _ in range(3)]
        for work in works:
            work.wait()
        wrong += (both[:n] != i + 1).sum() + (both[n:] != 2 * (i + 1)).sum() + (half != 3 * (i + 1)).sum()
        wrong += (got != (2 - rank) * (i + 1)).sum()
        summed = torch.full((n,), rank + 1, dtype=torch.int32, device="cuda")
        work = dist.all_reduce(summed, async_op=True)
        del clutter
        clutter = torch.full((n,), -1, dtype=torch.int32, device="cuda")
        work.wait()
        wrong += (summed != 3).sum()
        del clutter
    torch.cuda.synchronize()
    return int(wrong)


def nccl(torch, mode, rank):
    out = {"collectives_wrong": collectives(torch, rank, 60), "patterns": allocator.pattern_check(torch, rank, 3.0)}
    out["late_told"], out["late_control"] = allocator.late_reader(torch, True), allocator.late_reader(torch, False)
    try:
        torch.ones(3 << 20, device="cuda").untyped_storage()._share_cuda_()
        out["share"] = "shared"
    except RuntimeError as e:
        out["share"] = str(e)
    return out


def oom(torch, mode, rank):
    """Rank 1 is refused once, goes on, and then dies of it; rank 0 is left in a collective."""
    import torch.distributed as dist

    import plimsoll
    plimsoll.allocator.limit(2 << 30, rank)
    out = {}
    if rank == 1:
        try:
            torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as e:
            out = {"caught": str(e)[:400]}
    t = torch.full((1 << 20,), rank + 1.0, device="cuda")
    dist.all_reduce(t)
    out["went_on"] = bool((t == 3).all())
    print(json.dumps(out), flush=True)
    if rank == 1:
        torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    dist.all_reduce(t)  # no one comes
    torch.cuda.synchronize()
    return out


def copies(torch):
    """Wrong words of copies both ways, on the default and on other streams."""
    wrong = 0
    for i in range(20):
        a = [torch.full(((1 + 13 * i) << 16,), 10 * i + d, dtype=torch.int32, device=f"cuda:{d}") for d in (0, 1)]
        b = [a[1].to("cuda:0"), a[0].to("cuda:1", non_blocking=True)]
        with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream(1)) as _:
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream(1))
            c = a[1].to("cuda:0", non_blocking=True)
            torch.cuda.current_stream().synchronize()
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        wrong += int((b[0] != 10 * i + 1).sum()) + int((b[1] != 10 * i).sum()) + int((c != 10 * i + 1).sum())
    return wrong


def late_free(torch):
    """A block of cuda:1 that its second stream reads late, given up while cuda:0 is current."""
    torch.cuda.set_device(0)
    side, wrong = torch.cuda.Stream(1), 0
    for i in range(20):
        with torch.cuda.device(1):
            t = torch.full((4 << 20,), i, dtype=torch.int32, device="cuda:1")
            side.wait_stream(torch.cuda.current_stream(1))
            with torch.cuda.stream(side):
                torch.cuda._sleep(5_000_000)
                bad = (t != i).sum()
        t.record_stream(side)
        del t
        again = torch.full((4 << 20,), -1, dtype=torch.int32, device="cuda:1")
        torch.cuda.synchronize(1)
        wrong += int(bad)
        del again, bad
    for _ in range(40):
        torch.empty(1, device="cuda:1")
    s = torch.cuda.memory_stats(1)
    return {"wrong": wrong, "kept": s["active_bytes.all.current"] - s["allocated_bytes.all.current"]}


def pipeline(torch):
    """Half of the layers on each GPU."""
    allocator.deterministic(torch)
    torch.manual_seed(0)
    with torch.device("cuda:0"):
        front = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)])
    with torch.device("cuda:1"):
        back = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)])
    optimizer, losses = torch.optim.AdamW([*front.parameters(), *back.parameters()]), []
    for i in range(STEPS):
        x = torch.full((1024, 2048), 0.01 * (i + 1), device="cuda:0")
        loss = back(front(x).relu().to("cuda:1")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [float(x).hex() for x in losses]


def devices(torch, mode, rank):
    out = {"peers": torch.cuda.can_device_access_peer(0, 1)}
    torch.cuda.set_device(1)  # the first tensor lies on the second GPU
    out["first"] = float(torch.ones(1000, device="cuda").sum())
    out["copies_wrong"] = copies(torch)
    out["late_free"] = late_free(torch)
    out["losses"] = pipeline(torch)
    model = torch.nn.DataParallel(torch.nn.Linear(64, 64, device="cuda:0"))
    out["data_parallel"] = float(model(torch.ones(256, 64, device="cuda:0")).sum().detach().isfinite())
    out["memory"] = [memory(torch, d) for d in (0, 1)]
    if mode == "plimsoll":
        import plimsoll
        torch.cuda.set_device(0)
        plimsoll.allocator.limit(8 << 30, 1)
        try:
            torch.empty(9 << 30, dtype=torch.uint8, device="cuda:1")
        except torch.OutOfMemoryError as e:
            out["refused"] = str(e)
        out["other_lives"] = float(torch.ones(9 << 28, dtype=torch.uint8, device="cuda:0")[-1])
    return out


# ---- processes ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def rank_main(work, mode, rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    torch = allocator.start(mode)
    if work == "devices":
        print(json.dumps(devices(torch, mode, rank)), flush=True)
        return
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    print(json.dumps(globals()[work](torch, mode, rank)), flush=True)
    dist.destroy_process_group()


def spawn(out, work, mode, rank, port):
    """pid and the end of the pipe that its lines come through."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    errors = os.open(os.path.join(out, f"{work}-{mode}-{rank}.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(write, 1)
    os.dup2(errors, 2)
    signal.alarm(RUN_S)
    status = 1
    try:
        rank_main(work, mode, rank, port)
        status = 0
    except SystemExit as e:
        status = e.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def run_ranks(out, work, mode):
    """As torchrun: where a rank fails the others get SIGTERM.  (last line, exit status) of each rank, and seconds from failure to end."""
    port = free_port()
    running = dict(spawn(out, work, mode, rank, port) for rank in range(1 if work == "devices" else 2))
    ends, statuses, failed = list(running.items()), {}, None
    while len(statuses) < len(ends):
        pid, status = os.waitpid(-1, 0)
        statuses[pid] = os.waitstatus_to_exitcode(status)
        if statuses[pid] and failed is None:
            failed = time.time()
            for other in running:
                if other not in statuses:
                    os.kill(other, signal.SIGTERM)
    rows = []
    for pid, read in ends:
        with os.fdopen(read, encoding="utf-8") as f:
            lines = [line for line in f.read().splitlines() if line.startswith("{")]
        rows.append((json.loads(lines[-1]) if lines else {}, statuses[pid]))
    return rows, 0.0 if failed is None else time.time() - failed


# ---- what must hold ----

def same_losses(work, results):
    for rank in (0, 1):
        of = {mode: rows[rank][0].get("losses") for mode, rows in results.items()}
        for mode in of:
            expect(f"{work}, rank {rank}: losses of {mode} are those of native, to the bit",
                   bool(of["native"]) and of[mode] == of["native"], of[mode][-1] if of[mode] else "none")
        row = {mode: rows[rank][0] for mode, rows in results.items()}
        ours = row["plimsoll"]
        if "reserved" not in ours:
            continue
        live, gb = ours["live"], {m: "%.3f" % (r["reserved"] / 1e9) for m, r in row.items() if "reserved" in r}
        # that native's is less may be the program: DDP's buckets are made anew by one rank before the other
        best = min([r["reserved"] for m, r in row.items() if m != "plimsoll" and r.get("live") == live], default=0)
        most = best * 1.02 + (32 << 20) if work == "fsdp2" else live * 1.01 + (64 << 20)  # each of its streams keeps its own peak
        expect(f"{work}, rank {rank}: reserved", ours["reserved"] <= most, f"live {live / 1e9:.3f} GB, {gb}")
        expect(f"{work}, rank {rank}: a plan was learned and hit", ours["plan.learned"] > 0 and ours["plan.hits"] > 0,
               {k: v for k, v in ours.items() if k.startswith("plan.")})


def judge_nccl(results):
    for rank, (row, status) in enumerate(results["plimsoll"][:2]):
        expect(f"nccl, rank {rank} ended", status == 0, status)
        expect(f"nccl, rank {rank}: no wrong word in collectives", row.get("collectives_wrong") == 0, row.get("collectives_wrong"))
        expect(f"nccl, rank {rank}: no wrong word on three streams", (row.get("patterns") or {}).get("wrong_words") == 0, row.get("patterns"))
        expect(f"nccl, rank {rank}: a late reader that was told of", row.get("late_told") == 0, row.get("late_told"))
        expect(f"nccl, rank {rank}: the control, not told of, is wrong", (row.get("late_control") or 0) > 0, row.get("late_control"))
        expect(f"nccl, rank {rank}: sharing is refused by name", "plimsoll.allocator" in row.get("share", ""), row.get("share"))


def judge_oom(out, results, seconds):
    (row0, status0), (row1, status1) = results["plimsoll"]
    expect("oom, rank 1: caught, typed, says why", "the limit" in row1.get("caught", ""), row1.get("caught"))
    expect("oom: both went on", row0.get("went_on") is True and row1.get("went_on") is True)
    with open(os.path.join(out, "oom-plimsoll-1.txt"), encoding="utf-8") as f:
        expect("oom, rank 1: dies of torch.OutOfMemoryError", "OutOfMemoryError" in f.read() and status1 == 1, status1)
    expect("oom, rank 0: ended by SIGTERM within 10 s", status0 == -signal.SIGTERM and seconds < 10, f"{status0}, {seconds:.1f} s")


def judge_devices(results):
    native, ours = results["native"][0][0], results["plimsoll"][0][0]
    expect("devices: both ended", results["native"][0][1] == 0 and results["plimsoll"][0][1] == 0,
           f"{results['native'][0][1]} {results['plimsoll'][0][1]}; peers: {ours.get('peers')}")
    expect("devices: copies between the two", ours.get("copies_wrong") == 0, f"{ours.get('copies_wrong')} (native {native.get('copies_wrong')})")
    expect("devices: freed while the other is current", ours.get("late_free") == {"wrong": 0, "kept": 0}, ours.get("late_free"))
    expect("devices: losses of a pipeline are native's", bool(ours.get("losses")) and ours["losses"] == native.get("losses"))
    expect("devices: DataParallel", ours.get("data_parallel") == 1.0)
    expect("devices: a limit of one GPU", "GPU 1" in ours.get("refused", "") and ours.get("other_lives") == 1.0, ours.get("refused"))
    print("     memory:", json.dumps({"native": native.get("memory"), "plimsoll": ours.get("memory")}))


def main(out, *works):
    import torch
    import torch._dynamo  # noqa: F401  what a first step would import
    import torch.distributed.fsdp  # noqa: F401

    import plimsoll.allocator  # noqa: F401

    allocator.cheap_numbers(torch)
    end = time.time() + float(os.environ.get("SECONDS_MAX", "3600"))
    with open(os.path.join(out, "ranks.jsonl"), "w", encoding="utf-8") as f:
        for work in works or WORKS:
            results, seconds = {}, 0.0
            for mode in WORKS[work]:
                began = time.time()
                if began > end:
                    expect(f"{work} {mode}: NOT RUN", False)
                    break
                results[mode], seconds = run_ranks(out, work, mode)
                print(json.dumps({"work": work, "mode": mode, "rows": results[mode], "wall_s": round(time.time() - began, 1)}), file=f, flush=True)
            if len(results) < len(WORKS[work]):
                continue
            if any(status == 77 for rows in results.values() for _, status in rows):
                print("no two GPUs")
                sys.exit(77)
            if work in ("ddp", "fsdp2"):
                same_losses(work, results)
            elif work == "oom":
                judge_oom(out, results, seconds)
            else:
                {"nccl": judge_nccl, "devices": judge_devices}[work](results)
    print("bad:", BAD)
    sys.exit(bool(BAD))


if __name__ == "__main__":
    main(*sys.argv[1:])
