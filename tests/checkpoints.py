#!/usr/bin/env python3
"""Checkpoints next to their truth: checkpoints.py PROGRAM DATA [TRUTH].

Good files raise no alarm; every single-bit flip of a zip is found or is on the list of what cannot do
harm; every mutation that torch loads without a word gets its verdict; truncations tell what is whole;
the hostile file runs nothing.  Where python3 has torch, what it writes is verified as well.
"""
import fcntl
import glob
import io
import json
import math
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import types
import zipfile

import lib
from bad_checkpoints import bad_safetensors, local_headers, mutations, safetensors

lib.start(sys.argv[1])
PROGRAM = lib.program  # for strace
# LeakSanitizer cannot look at a process that strace looks at.
NO_LEAKS = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
# Whose torch is what the tests write and load with; a python from elsewhere has none.
DEBIAN = "/usr/bin/python3"
HERE = os.path.join(sys.argv[2], "checkpoints")
TRUTH = os.path.join(sys.argv[3], "checkpoints") if len(sys.argv) > 3 and sys.argv[3] else ""
FOLDERS = ("dcp", "dcp1", "dcp2", "dcphf", "lora_r4", "lora_r8", "llama_sharded", "llama_other_arch",
           "checkpoint-4", "checkpoint-8", "checkpoint-12")


def program(*arguments):
    """The program, whose exit code and bytes the test looks at."""
    return lib.run(*arguments, codes=lib.ANY, text=False)


def verify(*paths, more=()):
    """The results of `ckpt verify --json` of many paths, and the exit code of all."""
    done = program("ckpt", "verify", "--json", *more, *paths)
    assert done.returncode in (0, 1), (done.returncode, done.stderr[:500])
    text, out, at = done.stdout.decode(), [], 0
    decoder = json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        out.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    assert len(out) == len(paths), (len(out), len(paths), done.stderr[:300])
    return out, done.returncode


def bad_kinds(result):
    return {f["id"] for f in result["findings"] if f["severity"] == "error"}


def told_kinds(result):
    return {f["id"] for f in result["findings"] if f["severity"] != "info"}


def good_paths(top):
    for at, folders, files in os.walk(top):
        for name in folders:
            if name in FOLDERS or os.path.exists(os.path.join(at, name, "trainer_state.json")):
                yield os.path.join(at, name)
        for name in files:
            if name.endswith((".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".tar")) and name != "evil_reduce.pt":
                yield os.path.join(at, name)


def test_good():
    paths = sorted({p for top in (HERE, TRUTH) if top for p in good_paths(top)})
    results, _ = verify(*paths)
    for path, r in zip(paths, results):
        assert r["verdict"] in ("whole", "unproven"), (path, r["verdict"], r["headline"])
        assert not bad_kinds(r), (path, r["findings"])
    return f"{len(paths)} good files and folders, no alarm"


# ---- one bit ----

def harmless_bytes(data):
    """Bytes whose flip changes nothing that a reader uses: version made by, attributes."""
    out = set()
    at = data.rindex(b"PK\5\6")
    start = struct.unpack_from("<I", data, at + 16)[0]
    while data[start:start + 4] == b"PK\1\2":
        n = sum(struct.unpack_from("<HHH", data, start + 28))
        out |= {start + 4, start + 5}                       # made by
        out |= set(range(start + 36, start + 42))           # internal and external attributes
        start += 46 + n
    at64 = data.rindex(b"PK\6\6")
    out |= set(range(at64 + 12, at64 + 16))                 # made by, needed
    return out


def flip_all(folder, name, data, skip=()):
    """Every bit of every byte flipped alone: the bytes whose flip raised no finding."""
    silent, batch = set(), []

    def run():
        results, _ = verify(*(p for _, p in batch))
        for (at, path), r in zip(batch, results):
            if not told_kinds(r):
                silent.add(at)
            os.unlink(path)
        batch.clear()

    for at in range(len(data)):
        for bit in range(8):
            if at in skip:
                continue
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            path = os.path.join(folder, f"{at}_{bit}_{name}")
            with open(path, "wb") as f:
                f.write(changed)
            batch.append((at, path))
            if len(batch) == 400:
                run()
    if batch:
        run()
    return silent


def test_flips():
    with open(os.path.join(HERE, "tensor.pt"), "rb") as f:
        data = f.read()
    with tempfile.TemporaryDirectory() as folder:
        silent = flip_all(folder, "tensor.pt", data)
    missed = sorted(silent - harmless_bytes(data))
    assert not missed, f"flips at {missed} went unseen"
    return f"{8 * len(data)} flips, {len(silent)} bytes where one is harmless"


def test_flips_in_tensors():
    """One bit in every byte of every stored tensor of larger files."""
    n = 0
    for name in ("state_dict_cuda.pt", "exotic.pt", "more/dcp2/__1_0.distcp"):
        path = os.path.join(HERE, name)
        with open(path, "rb") as f:
            data = f.read()
        with tempfile.TemporaryDirectory() as folder:
            if name.endswith(".distcp"):
                shutil.copytree(os.path.dirname(path), os.path.join(folder, "d"))
                for at in range(0, len(data), 97):
                    changed = bytearray(data)
                    changed[at] ^= 1 << at % 8
                    with open(os.path.join(folder, "d", os.path.basename(path)), "wb") as f:
                        f.write(changed)
                    r, _ = verify(os.path.join(folder, "d"))
                    n += 1
                    # What may stay unseen is what may in any zip: there is one for each item here.
                    assert told_kinds(r[0]) or b"PK\1\2" in data[at - 46:at + 4] or b"PK\6\6" in data[at - 20:at + 4], at
                continue
            paths = []
            for _, info, _, _, start in local_headers(data):
                for at in range(start, start + info.file_size, 7 if "/data/" in info.filename else 61):
                    changed = bytearray(data)
                    changed[at] ^= 1 << at % 8
                    paths.append(os.path.join(folder, f"{at}.pt"))
                    with open(paths[-1], "wb") as f:
                        f.write(changed)
            results, code = verify(*paths)
            assert code == 1
            for p, r in zip(paths, results):
                assert "crc_mismatch" in bad_kinds(r), (name, p, r["headline"])
            n += len(paths)
    return f"{n} flips in records, all found"


# ---- mutations ----

def test_mutations():
    with open(os.path.join(HERE, "state_dict_cuda.pt"), "rb") as f:
        data = f.read()
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, changed, kind, code in mutations(data):
            path = os.path.join(folder, "m.pt")
            with open(path, "wb") as f:
                f.write(changed)
            (r,), got = verify(path)
            assert got == code, (name, got, r["headline"])
            assert kind is None or (kind in told_kinds(r) if kind else not told_kinds(r)), (name, r["findings"])
            n += 1
    return f"{n} mutations"


# ---- cut files ----

def test_truncation():
    """At every length of a small file, and at steps of larger ones; whole tensors are reported."""
    n = 0
    for name, step in (("tensor.pt", 1), ("more/train.pt", 13), ("legacy.pt", 37), ("model.safetensors", 41)):
        with open(os.path.join(HERE, name), "rb") as f:
            data = f.read()
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for length in range(1, len(data), step):
                paths.append(os.path.join(folder, f"{length}.x"))
                with open(paths[-1], "wb") as f:
                    f.write(data[:length])
            for path, r in zip(paths, verify(*paths)[0]):
                assert r["verdict"] in ("truncated", "not_a_checkpoint", "damaged"), (name, path, r["verdict"])
                n += 1
            if name.endswith("train.pt"):
                whole = [sum(t["whole"] for t in r["tensors"]) for r in verify(*paths)[0]]
                assert whole == sorted(whole) and whole[-1] == 8 and 0 < whole[len(whole) * 3 // 4] <= 8, whole
    return f"{n} cut files"


# ---- hostile, shards ----

def test_hostile():
    path = os.path.join(HERE, "evil_reduce.pt")
    (r,), code = verify(path)
    assert code == 1 and r["pickle"] == "dangerous" and "dangerous_pickle" in bad_kinds(r)
    assert any(g["name"] == "posix.system" and g["offset"] for g in r["globals"])
    assert not os.path.exists("/tmp/tidemark_pwned"), "it ran"
    if shutil.which("strace"):
        done = subprocess.run(["strace", "-f", "-e", "trace=execve,fork,vfork", PROGRAM, "ckpt", "verify", "--values", path],
                              capture_output=True, timeout=600)
        if b"ptrace" not in done.stderr:
            calls = [l for l in done.stderr.splitlines() if b"execve(" in l or b"fork(" in l]
            assert len(calls) <= 1, calls
    return "nothing ran"


def test_shards():
    def fresh(top, weight_map=None, total=None):
        shutil.rmtree(top, ignore_errors=True)
        os.mkdir(top)
        for i, names in ((1, "ab"), (2, "cd")):
            with open(f"{top}/model-0000{i}-of-00002.safetensors", "wb") as f:
                f.write(safetensors({n: n.encode() * 8 for n in names}))
        m = weight_map or {n: f"model-0000{1 + (n in 'cd')}-of-00002.safetensors" for n in "abcd"}
        with open(f"{top}/model.safetensors.index.json", "w", encoding="utf-8") as f:
            json.dump({"metadata": {"total_size": total or 32}, "weight_map": m}, f)
        return m

    with tempfile.TemporaryDirectory() as folder:
        top = os.path.join(folder, "m")
        m = fresh(top)
        assert verify(top)[1] == 0
        os.unlink(f"{top}/model-00002-of-00002.safetensors")
        assert "missing_file" in bad_kinds(verify(top)[0][0])
        os.symlink("/etc/passwd", f"{top}/model-00002-of-00002.safetensors")
        assert "missing_file" in bad_kinds(verify(top)[0][0]), "a link was followed"
        fresh(top, {**m, "a": m["c"]})
        assert "wrong_shard" in bad_kinds(verify(top)[0][0])
        fresh(top, {**m, "e": m["c"]})
        assert "missing_tensor" in bad_kinds(verify(top)[0][0])
        fresh(top, {**m, "a": "../../../etc/passwd"})
        assert "unsafe_name" in bad_kinds(verify(top)[0][0])
        fresh(top, {k: v for k, v in m.items() if k != "d"})
        assert "unmapped_tensor" in told_kinds(verify(top)[0][0])
        fresh(top, total=33)
        assert "total_size" in told_kinds(verify(top)[0][0])
        with open(f"{top}/model-00003-of-00003.safetensors", "wb") as f:
            f.write(safetensors({"z": b"1"}))
        assert "stale_file" in told_kinds(verify(top)[0][0])
        # A resume dies of its optimizer's state as surely as of a shard.
        fresh(top)
        with open(os.path.join(HERE, "more", "train.pt"), "rb") as f:
            whole = f.read()
        for content, verdict in ((whole, 0), (whole[:-300], 1), (b"", 1)):
            with open(f"{top}/optimizer.pt", "wb") as f:
                f.write(content)
            (r,), code = verify(top)
            assert code == verdict and (not code or "optimizer.pt" in r["headline"]), r["headline"]
        os.unlink(f"{top}/optimizer.pt")
        with open(f"{top}/model-00003-of-00003.safetensors", "wb") as f:
            f.write(safetensors({"z": b"1"}))
        os.unlink(f"{top}/model.safetensors.index.json")
        assert "mixed_shards" in bad_kinds(verify(top)[0][0])
    return "14 states of a sharded folder"


def test_folders():
    """Folders as they are found on disks: what was said of them did not help, or was wrong."""
    def write(path, data):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)

    def sharded(top, keep):
        weights = {f"layers.{i}": f"model-0000{i % 3 + 1}-of-00003.safetensors" for i in range(6)}
        for name in sorted(set(weights.values()))[:keep]:
            write(f"{top}/{name}", safetensors({n: b"12345678" for n, at in weights.items() if at == name}))
        write(f"{top}/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": weights}))
        return top

    def told(top):
        (r,), _ = verify(top)
        return r, {f["id"]: f["title"] for f in r["findings"]}

    with open(os.path.join(HERE, "more", "train.pt"), "rb") as f:
        train = f.read()
    with tempfile.TemporaryDirectory() as folder:
        # Each missing shard was an error of its own, and how much is lost was not said.
        _, found = told(sharded(folder + "/missing", 1))
        assert found["missing_file"].startswith("2 of 3 shards are not there") and "4 of 6 tensors" in found["missing_file"], found
        # A damaged index: the shards were called stale, and not looked at.
        top = sharded(folder + "/index", 3)
        write(top + "/model.safetensors.index.json", '{"weight_map": {')
        r, found = told(top)
        assert r["verdict"] == "damaged" and set(found) == {"json", "index"} and len(r["tensors"]) == 6, found
        assert found["json"].count("index.json") == 1, found
        # Files of other programs end in .bin too: they made the folder a damaged one.  An optimizer that is garbage does.
        top = sharded(folder + "/others", 3)
        write(top + "/tokenizer.bin", bytes(range(1, 200)))
        r, found = told(top)
        assert r["verdict"] == "unproven" and "unrecognised" in found, found
        write(top + "/optimizer.bin", bytes(range(1, 200)))
        assert told(top)[0]["verdict"] == "damaged"
        # One bad file made a folder with good ones "not a checkpoint".
        write(folder + "/one/model.safetensors", safetensors({"a": b"1"}))
        write(folder + "/one/optimizer.pt", b"")
        r, _ = told(folder + "/one")
        assert r["verdict"] == "damaged" and len(r["tensors"]) == 1, r["verdict"]
        # The same weights twice: every name was there twice.
        write(folder + "/twice/model.safetensors", safetensors({"a": b"1"}))
        write(folder + "/twice/pytorch_model.bin", train)
        r, found = told(folder + "/twice")
        names = [t["name"] for t in r["tensors"]]
        assert "two_forms" in found and "a" in names and all(n == "a" or n.startswith("pytorch_model.bin/") for n in names), names
        # accelerate's random states.
        write(folder + "/accelerate/model.safetensors", safetensors({"a": b"1"}))
        write(folder + "/accelerate/optimizer.bin", train)
        write(folder + "/accelerate/random_states_0.pkl", pickle.dumps({"random_state": (3, (1, 2), None)}))
        r, _ = told(folder + "/accelerate")
        assert not [w for w in r["resume_missing"] if w.startswith("random")], r["resume_missing"]
        # Of diffusers and DeepSpeed the checkpoints are in folders below.
        write(folder + "/below/unet/diffusion_pytorch_model.safetensors", safetensors({"a": b"1"}))
        assert "'unet' in it does: verify that" in told(folder + "/below")[1]["no_checkpoint"]
        write(folder + "/config/adapter_config.json", "{}")
        assert told(folder + "/config")[1]["no_checkpoint"] == "the folder holds a config, but no weights"
        write(folder + "/adapter/adapter_model.safetensors", safetensors({"lora_A": b"1"}))
        assert "no_config" in told(folder + "/adapter")[1]
        # A bool that is neither.
        header = b'{"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}'
        write(folder + "/b.safetensors", safetensors({"b": b"\0\1\2"}, header=header))
        (r,), _ = verify(folder + "/b.safetensors", more=["--values"])
        assert r["verdict"] == "unproven" and "not_bool" in told_kinds(r), r["findings"]
    return "11 folders"


def test_distributed():
    def told(change):
        with tempfile.TemporaryDirectory() as folder:
            top = os.path.join(folder, "d")
            shutil.copytree(os.path.join(HERE, "more", "dcp2"), top)
            change(top)
            return told_kinds(verify(top)[0][0])

    assert "missing_file" in told(lambda t: os.unlink(f"{t}/__1_0.distcp"))
    assert "no_metadata" in told(lambda t: os.unlink(f"{t}/.metadata"))
    assert "stale_file" in told(lambda t: shutil.copy(f"{t}/__1_0.distcp", f"{t}/__2_0.distcp"))
    assert "truncated" in told(lambda t: os.truncate(f"{t}/__1_0.distcp", 9000))
    assert "leftover" in told(lambda t: shutil.copy(f"{t}/.metadata", f"{t}/.metadata.tmp"))

    def narrow(top):
        with open(f"{top}/.metadata", "rb") as f:
            data = bytearray(f.read())
        at = data.index(b"\x8c\x07offsets")  # the first chunk's own offset moves by one row
        at = data.index(b"K\0K\0", at)
        data[at + 1] = 1
        with open(f"{top}/.metadata", "wb") as f:
            f.write(data)
    assert "chunks" in told(narrow)
    return "6 states of a distributed folder"


def floats(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def write_zero(folder, stage, world=3, fault=None):
    """What DeepSpeed leaves of two groups of parameters, and what its zero_to_fp32.py makes of them."""
    groups = [{"a.weight": (3, 5), "a.tiny": (1,)}, {"b.bias": (7,), "b.last": (2, 2)}]
    number, want, ranks = 0, {}, [[[] for _ in groups] for _ in range(world)]
    for g, shapes in enumerate(groups):
        flat = []
        for name, shape in shapes.items():
            n = shape[0] * (shape[1] if len(shape) > 1 else 1)
            values = [float(number + i) for i in range(n)]
            number += n
            want[name] = (list(shape), floats(*values))
            part = -(-n // world)
            for r in range(world):
                ranks[r][g] += (values + [-1.0] * world)[r * part:(r + 1) * part] if stage == 3 else []
            flat += values + [-2.0] * (len(name) % 3)  # padding, which the files tell
        flat += [-1.0] * (-len(flat) % (2 * world))
        part = len(flat) // world
        for r in range(world):
            ranks[r][g] = ranks[r][g] if stage == 3 else flat[r * part:(r + 1) * part]
    os.makedirs(folder + "/global_step2")
    with open(folder + "/latest", "w") as f:
        f.write("global_step2")
    model = {"module": {"run": Tensor("0", 2), "a.weight": Tensor("0", 1)}, "buffer_names": ["run"], "dp_world_size": world,
             "param_shapes": groups, "shared_params": {"tied": "b.bias"}}
    want["run"], want["tied"] = ([2], floats(1, 2.5)), want["b.bias"]
    if fault == "shape":
        groups[0]["a.weight"] = (30, 5)
    for r in range(world if stage == 3 else 1):
        write_torch(f"{folder}/global_step2/{f'zero_pp_rank_{r}_' if stage == 3 else ''}mp_rank_00_model_states.pt", model)
    for r in range(world - (fault == "rank")):
        key = "fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"
        state = {key: [Tensor(str(g), len(ranks[r][g])) for g in range(2)]}
        if stage < 3:
            state["param_alignment_paddings"] = [[len(n) % 3 for n in shapes] for shapes in groups]
        write_torch(f"{folder}/global_step2/zero_pp_rank_{r}_mp_rank_00_optim_states.pt", {"optimizer_state_dict": state}, ["0", "1"],
                    data=[floats(*ranks[r][g]) for g in range(2)])
    return want


def test_parts():
    """Tensors in parts of several files, put together."""
    with tempfile.TemporaryDirectory() as top:
        target = top + "/x.safetensors"
        for stage in (2, 3):
            want = write_zero(f"{top}/{stage}", stage)
            (r,), code = verify(f"{top}/{stage}")
            assert not code and {t["name"]: t["shape"] for t in r["tensors"]} == {k: v[0] for k, v in want.items()}, r["headline"]
            assert not write("convert", f"{top}/{stage}", target).returncode
            assert {k: v[1:] for k, v in read_safetensors(target).items()} == want, stage
            for fault in ("rank", "shape"):
                write_zero(f"{top}/{stage}{fault}", stage, fault=fault)
                done = write("convert", f"{top}/{stage}{fault}", top + "/y.safetensors")
                assert done.returncode in (3, 4) and not os.path.exists(top + "/y.safetensors"), (stage, fault, done)
        dcp = os.path.join(HERE, "more", "dcp2")
        (r,), code = verify(dcp)
        assert [(t["name"], t["shape"], t["parts"]) for t in r["tensors"]][0] == ("model.w", [8, 4], 2), r["tensors"]
        assert not write("convert", dcp, target).returncode
        whole = read_safetensors(target)["model.w"][2]
        parts = []
        for name in ("__0_0.distcp", "__1_0.distcp"):
            with open(os.path.join(dcp, name), "rb") as f:
                data = f.read()
            parts += [half for half in (whole[:64], whole[64:]) if half in data]
        assert parts == [whole[:64], whole[64:]], "the halves of a tensor are not those of the ranks"
        # One rank's DTensor: torch 2.13 pickles its state as (None, slots).
        local = (b"ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpu"
                 b"K\2tQK\0K\2\x85K\1\x85\x89}tR")
        with zipfile.ZipFile(top + "/rank.pt", "w") as z:
            z.writestr("archive/data.pkl", b"\x80\2}X\1\0\0\0wctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n"
                       b"_rebuild_wrapper_subclass\nctorch.distributed.tensor\nDTensor\n)N}X\r\0\0\0_local_tensor" + local + b"s\x86tRs.")
            z.writestr("archive/version", "3\n")
            z.writestr("archive/data/0", floats(1, 2))
        (r,), code = verify(top + "/rank.pt")
        assert not code and names_in(top + "/rank.pt") == ["w"] and "one_rank" in told_kinds(r), r["headline"]
        assert write("convert", top + "/rank.pt", target).returncode == 4
        os.makedirs(top + "/iter/mp_rank_00")
        os.makedirs(top + "/iter/mp_rank_01")
        for rank in ("00", "01"):
            write_torch(f"{top}/iter/mp_rank_{rank}/model_optim_rng.pt", {"model": {"w": Tensor("0")}})
        done = write("convert", top + "/iter", target)
        assert done.returncode == 4 and b"Megatron" in done.stderr, done
    return "ZeRO 2 and 3 with faults, distributed, one rank's, Megatron's ranks"


def test_embedded():
    """Tensors of pickle.dump, which pickle.load reads and torch.load does not."""
    one, two = InsideTensor(1, 2, 3), InsideTensor(4, 5)
    with tempfile.TemporaryDirectory() as folder:
        path, target = folder + "/x.pkl", folder + "/x.safetensors"
        for protocol in (2, 3, 4, 5):
            with open(path, "wb") as f:
                f.write(as_pickle({"two": two, "one": one, "tied": two}, protocol))
            (r,), code = verify(path)
            assert not code and r["pickle"] == "listed" and any(f["id"] == "embedded" for f in r["findings"]), (protocol, r["headline"])
            assert r["unprotected_bytes"] == os.path.getsize(path)
            done = write("convert", path, target)
            if protocol == 2:  # its bytes are text
                assert done.returncode == 4 and not r["tensors"], done
                continue
            assert not done.returncode, done
            got = {k: v[2] for k, v in read_safetensors(target).items()}
            assert got == {"one": floats(1, 2, 3), "two": floats(4, 5), "tied": floats(4, 5)}, (protocol, got)
        one.storage.data = one.storage.data[:-1]
        with open(path, "wb") as f:
            f.write(as_pickle({"one": one}, 4))
        (r,), code = verify(path)
        assert not r["tensors"] and "embedded" in told_kinds(r), r["headline"]
        one.storage.data = pickle.dumps(os.system, 2)
        for protocol in (2, 4):
            with open(path, "wb") as f:
                f.write(as_pickle({"one": one}, protocol))
            assert verify(path)[0][0]["verdict"] == "dangerous", protocol
    return "protocols 2 to 5, cut, dangerous"


def pad(tensors, n):
    """The header of safetensors(tensors), padded to n bytes."""
    data = safetensors(tensors)
    length, = struct.unpack_from("<Q", data)
    return data[8:8 + length].ljust(n)


def test_safetensors():
    cases = bad_safetensors()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        for name, (data, kind) in cases.items():
            with open(path, "wb") as f:
                f.write(data)
            (r,), code = verify(path)
            assert code == 1 and kind in bad_kinds(r), (name, code, r["findings"])
        for data in (safetensors({}), safetensors({}, header=b"{}      "), safetensors({"a": b""}), safetensors({"a": b"1"})):
            with open(path, "wb") as f:
                f.write(data)
            assert verify(path)[1] == 0, data
        # Headers whose length begins like a pickle: 80 01 to 80 05.
        for protocol in range(1, 6):
            for content in ({"a": b"1"}, {}):
                with open(path, "wb") as f:
                    f.write(safetensors(content, header=pad(content, protocol << 8 | 0x80)))
                (r,), code = verify(path)
                assert not code and r["kind"] == "safetensors" and len(r["tensors"]) == len(content), r["headline"]
    return f"{len(cases)} bad headers, 14 good ones"


def test_memory():
    """Memory does not grow with the file: 1 GiB (a hole on the disk), within a limit of 1 MiB."""
    size = 1 << 30
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/large.safetensors"
        header = json.dumps({"a": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header)
            f.truncate(8 + len(header) + size)
        (r,), code = verify(path, more=["--values", "--max-memory", "1MiB"])
        assert not code and r["tensors"][0]["zero"] == size // 4, r["headline"]
        # What a pickle says of a tensor took 2.6 KB in memory.
        n = 20000
        write_torch(folder + "/many.pt", {f"layer.{i}.weight": Tensor(str(i)) for i in range(n)}, [str(i) for i in range(n)])
        (r,), code = verify(folder + "/many.pt", more=["--max-memory", "28MiB"])
        assert not code and len(r["tensors"]) == n, r["headline"]
    return "1 GiB within 1 MiB, 20,000 tensors of a pickle within 28"


# ---- values, keys ----

def test_values():
    (r,), code = verify(os.path.join(HERE, "nonfinite.pt"), more=["--values"])
    rows = {t["name"]: t for t in r["tensors"]}
    assert code == 1 and rows["a"]["nan"] == 1 and rows["b"]["infinite"] == 2, rows
    (r,), code = verify(os.path.join(HERE, "nonfinite.pt"))
    assert code == 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        kinds = {  # dtype: (bytes of a number, [numbers], min, max, zeros, nan, inf)
            "F32": ("<6f", [1.5, -2.0, 0.0, float("nan"), float("inf"), 3.25], -2.0, 3.25, 1, 1, 1),
            "F64": ("<4d", [1e300, -1e-300, 0.0, float("-inf")], -1e-300, 1e300, 1, 0, 1),
            "F16": ("<4e", [65504.0, -0.5, 0.0, float("nan")], -0.5, 65504.0, 1, 1, 0),
            "I64": ("<3q", [-5, 0, 7], -5, 7, 1, 0, 0),
            "U8": ("<4B", [0, 255, 3, 3], 0, 255, 1, 0, 0),
            "I8": ("<3b", [-128, 127, 0], -128, 127, 1, 0, 0),
            "U64": ("<3Q", [1 << 63, 5, (1 << 63) + (1 << 60)], 5, (1 << 63) + (1 << 60), 0, 0, 0),
            "BF16": ("<4H", [0x0001, 0x8001, 0x7f80, 0xffff], -2.0 ** -133, 2.0 ** -133, 0, 1, 1),
            "F8_E4M3": ("<4B", [0x7e, 0xfe, 0x7f, 0x80], -448, 448, 1, 1, 0),
            "F8_E5M2": ("<4B", [0x7b, 0x7c, 0x7d, 0x01], 2.0 ** -16, 57344, 0, 1, 1),
            "F8_E4M3FNUZ": ("<3B", [0x7f, 0x80, 0xff], -240, 240, 0, 1, 0),
            "F8_E5M2FNUZ": ("<3B", [0x7f, 0x80, 0xff], -57344, 57344, 0, 1, 0),
        }
        for dtype, (form, numbers, low, high, zero, nan, inf) in kinds.items():
            raw = struct.pack(form, *numbers)
            text = json.dumps({"x": {"dtype": dtype, "shape": [len(numbers)], "data_offsets": [0, len(raw)]}}).encode()
            with open(path, "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + raw)
            (r,), _ = verify(path, more=["--values"])
            t = r["tensors"][0]
            assert (t["min"], t["max"], t["zero"], t["nan"], t["infinite"]) == (low, high, zero, nan, inf), (dtype, t)
    return f"numbers of {len(kinds)} dtypes and 1 file of torch's"


def test_repeats():
    """Many views of the same bytes do not make work without end; that they were not looked at is said."""
    def text(t):
        return b"X" + struct.pack("<I", len(t)) + t.encode()

    n, elements = 20000, 1 << 20
    storage = b"((" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"J" + struct.pack("<i", elements) + b"tQ"
    whole = storage + b"K\0J" + struct.pack("<i", elements) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)RtR"
    pickle = b"\x80\2}(" + b"".join(text(f"v{i}") + b"ctorch._utils\n_rebuild_tensor_v2\n" + whole for i in range(n)) + b"u."
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/views.pt"
        with zipfile.ZipFile(path, "w") as z:
            for name, content in (("data.pkl", pickle), ("data/0", bytes(4 * elements)), ("version", b"3\n")):
                z.writestr(zipfile.ZipInfo("archive/" + name), content)
        (r,), code = verify(path, more=["--values"])
        assert not code and len(r["tensors"]) == n and r["tensors"][0]["nan"] is None
        assert "values_skipped" in {f["id"] for f in r["findings"]}
        assert write("convert", path, folder + "/x.safetensors").returncode == 4
    return f"{n} views of 4 MiB"


class Tensor:
    """What torch.save would write of two floats in storage `key`, or of its first `n`."""

    def __init__(self, key, n=2):
        self.key, self.n = key, n

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (Storage(self.key, max(2, self.n)), 0, (self.n,), (1,), False, {})


class Storage:
    def __init__(self, key, n=2):
        self.key, self.n = key, n


class Inside:
    """A storage of two floats as pickle.dump writes it: a file of torch.save's old form, as bytes."""

    def __init__(self, *numbers):
        head = b"".join(pickle.dumps(x, 2) for x in (0x1950a86a20f9469cfc6c, 1001, {"little_endian": True}))
        self.data = head + as_pickle(Storage("7", len(numbers))) + pickle.dumps(["7"], 2) + struct.pack("<q", len(numbers)) + floats(*numbers)

    def __reduce__(self):
        return sys.modules["torch.storage"]._load_from_bytes, (self.data,)


class InsideTensor:
    def __init__(self, *numbers):
        self.storage, self.n = Inside(*numbers), len(numbers)

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (self.storage, 0, (self.n,), (1,), False, {})


class Odd:
    """Of a class that is on no list."""

    def __reduce__(self):
        return Odd, ()


def read_pickle(data):
    """What a pickle of ours holds, with "tensor" for each."""
    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            assert module in ("torch", "torch._utils", "collections"), module
            return lambda *args: "tensor"

        def persistent_load(self, pid):
            return None

    return Unpickler(io.BytesIO(data)).load()


def as_pickle(value, protocol=2):
    """The pickle of it, with torch's names, without torch."""
    torch, utils, storage = (types.ModuleType(n) for n in ("torch", "torch._utils", "torch.storage"))
    storage._load_from_bytes = lambda b: None
    storage._load_from_bytes.__module__, storage._load_from_bytes.__qualname__ = "torch.storage", "_load_from_bytes"
    torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})
    utils._rebuild_tensor_v2 = lambda *args: None
    utils._rebuild_tensor_v2.__module__, utils._rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return ("storage", torch.FloatStorage, obj.key, "cpu", obj.n) if isinstance(obj, Storage) else None

    before = {n: sys.modules.get(n) for n in ("torch", "torch._utils", "torch.storage")}
    sys.modules.update({"torch": torch, "torch._utils": utils, "torch.storage": storage})
    try:
        out = io.BytesIO()
        Pickler(out, protocol).dump(value)
        return out.getvalue()
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})


def names_in(path):
    return sorted(t["name"] for t in verify(path)[0][0]["tensors"])


def write_torch(path, value, keys=("0",), method=zipfile.ZIP_STORED, data=None):
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr("archive/data.pkl", as_pickle(value))
        z.writestr("archive/version", "3\n")
        for i, key in enumerate(keys):
            z.writestr("archive/data/" + key, data[i] if data else struct.pack("<2f", i + 1, 2.5))


def test_made():
    """What no torch at hand writes, or only at a size that no one commits."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = folder + "/x.pt", folder + "/out.safetensors"
        # One storage under two types: torch reads both as the first, and it was called whole.
        write_torch(path, {"a": Tensor("0"), "b": Tensor("1")}, "01")
        with zipfile.ZipFile(path) as z:
            pickled = z.read("archive/data.pkl").replace(b"X\1\0\0\x001", b"X\1\0\0\x000")
        first, second = pickled[:pickled.index(b"X\1\0\0\0b")], pickled[pickled.index(b"X\1\0\0\0b"):]
        memo = first.index(b"FloatStorage\n") + len(b"FloatStorage\n")
        int_storage = second.replace(b"h" + first[memo + 1:memo + 2], b"ctorch\nIntStorage\n", 1)
        assert int_storage != second
        for rest, kinds in ((second, set()), (int_storage, {"storage_type"})):
            with zipfile.ZipFile(path, "w") as z:
                for name, data in (("data.pkl", first + rest), ("data/0", bytes(8)), ("version", b"3\n")):
                    z.writestr("archive/" + name, data)
            assert bad_kinds(verify(path)[0][0]) == kinds, (kinds, verify(path)[0][0]["findings"])
        # {"a.b": x, "a": {"b": y}} was written with one name twice, which is a damaged file.
        write_torch(path, {"a.b": Tensor("0"), "a": {"b": Tensor("1")}}, "01")
        assert not verify(path)[1]
        done = write("convert", path, out)
        assert done.returncode == 4 and b"'a.b'" in done.stderr and not os.path.exists(out), done
        # As a file of torch they stay apart, being nested.
        assert not write("convert", path, folder + "/out.pt").returncode
        assert names_in(folder + "/out.pt") == ["a.b", "a.b"]
        write_torch(path, {"__metadata__": Tensor("0")})
        assert write("convert", path, out).returncode == 4
        write_torch(path, {1.5: Tensor("0"), None: Tensor("1"), True: Tensor("2")}, "012")
        assert [t["name"] for t in verify(path)[0][0]["tensors"]] == ["1.5", "None", "True"]
        # A dict that holds itself was walked 400 times.
        loop = {"x": Tensor("0")}
        loop["self"] = loop
        write_torch(path, loop)
        (r,), code = verify(path)
        assert not code and len(r["tensors"]) == 1 and not told_kinds(r), r
        # SGD without momentum has a place for it in its state.
        for state, group, kind in (({"momentum_buffer": None}, {"nesterov": False}, "SGD"),
                                   ({"momentum_buffer": Tensor("0")}, {"nesterov": False}, "SGD with momentum"),
                                   ({"exp_avg_sq": Tensor("0")}, {"scale_parameter": True}, "Adafactor"),
                                   ({"func_evals": 3}, {"tolerance_grad": 1e-7}, "LBFGS")):
            write_torch(path, {"optimizer": {"state": {0: state}, "param_groups": [group]}})
            assert verify(path)[0][0]["optimizers"][0]["kind"] == kind, kind
        # What of an optimizer's state is not there, as in what repair writes of a cut file; none at all is a new run's.
        full, cut = {"step": Tensor("0"), "exp_avg": Tensor("0"), "exp_avg_sq": Tensor("0")}, {"step": Tensor("0"), "exp_avg": Tensor("0")}
        for state, lacking in (({0: full, 1: full}, None), ({0: full, 1: cut}, "1 of the 2"), ({0: full}, "1 of the 2"), ({}, None)):
            write_torch(path, {"optimizer": {"state": state, "param_groups": [{"params": [0, 1], "amsgrad": False}]}, "epoch": 3})
            told = [w for w in verify(path)[0][0]["resume_missing"] if w.startswith("optimizer state of")]
            assert len(told) == bool(lacking) and all(lacking in w for w in told), (lacking, told)
        # An old file whose pickle is longer than what is read at first, cut in the middle of a name there.
        n, name = 9000, "long." * 40
        obj = as_pickle({f"{name}{i}": Tensor(str(i)) for i in range(n)})
        assert len(obj) > 2 << 20
        with open(path, "wb") as f:
            f.write(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + pickle.dumps(1001, 2) + pickle.dumps({"little_endian": True}, 2) +
                    obj + pickle.dumps([str(i) for i in range(n)], 2) + struct.pack("<q2f", 2, 1, 2) * n)
        (r,), code = verify(path)
        assert not code and r["verdict"] == "unproven" and len(r["tensors"]) == n, r["headline"]
        # Tied in one, two in the other.
        write_torch(path, {"embed.weight": Tensor("0"), "lm_head.weight": Tensor("0")})
        write_torch(folder + "/y.pt", {"embed.weight": Tensor("0"), "lm_head.weight": Tensor("1")}, "01")
        for a, b, side in ((path, folder + "/y.pt", "first"), (folder + "/y.pt", path, "second")):
            r, code = diff(a, b)
            assert not code and r["conclusions"][-1]["kind"] == "tied" and side in r["conclusions"][-1]["text"], r
    return "names twice, loops, optimizers, a long legacy pickle, ties"


def test_require():
    path = os.path.join(HERE, "full_training.pt")
    assert verify(path, more=["--require", "model_state_dict,optimizer_state_dict,epoch"])[1] == 0
    (r,), code = verify(path, more=["--require", "model_state_dict,scaler"])
    assert code == 1 and r["required_missing"] == ["scaler"], r["required_missing"]
    return "keys there and missing"


def test_torch():
    """What the machine's own torch writes: no alarm, the same tensors."""
    script = r"""
import sys, json, collections, torch
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(33, 17), torch.nn.BatchNorm1d(17), torch.nn.Embedding(9, 5))
opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
sum(p.sum() for p in net.parameters()).backward(); opt.step()
big = torch.randn(64, 64)
things = {"state": net.state_dict(), "train": {"model": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 3},
          "views": {"a": big[:5], "b": big.t(), "c": big[3].expand(4, 64), "d": torch.zeros(0, 3), "e": torch.tensor(2.0)},
          "dtypes": {str(d): torch.ones(5).to(d) for d in (torch.float16, torch.bfloat16, torch.float64, torch.int8,
                     torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128)}}
out = {}
for name, thing in things.items():
    for form in ("zip", "legacy"):
        torch.save(thing, f"{sys.argv[1]}/{name}.{form}.pt", _use_new_zipfile_serialization=form == "zip")
    def walk(prefix, v):
        if isinstance(v, torch.Tensor): out[name][prefix] = [str(v.dtype)[6:], list(v.shape), list(v.stride())]
        elif isinstance(v, dict):
            for k, x in v.items(): walk(f"{prefix}.{k}" if prefix else str(k), x)
        elif isinstance(v, (list, tuple)):
            for k, x in enumerate(v): walk(f"{prefix}.{k}", x)
    out[name] = {}
    walk("", thing)
json.dump(out, open(sys.argv[1] + "/truth.json", "w"))
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([DEBIAN, "-c", script, folder], capture_output=True, timeout=600)
        if b"No module named" in done.stderr:
            return "SKIP no torch for " + DEBIAN
        assert not done.returncode, done.stderr[-500:]
        with open(folder + "/truth.json", encoding="utf-8") as f:
            truth = json.load(f)
        paths = sorted(glob.glob(folder + "/*.pt"))
        for path, r in zip(paths, verify(*paths, more=["--values"])[0]):
            want = truth[os.path.basename(path).split(".")[0]]
            got = {t["name"]: [t["dtype"], t["shape"], t["strides"]] for t in r["tensors"]}
            assert got == want, (path, got, want)
            assert r["verdict"] == ("unproven" if ".legacy" in path else "whole"), (path, r["headline"])
    return f"{len(paths)} files of the machine's torch"


def test_script():
    """Of TorchScript the tensors were not listed: what torch.jit.load holds is there, and that code is inside is said."""
    script = r"""
import sys, json, torch
class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(4, 5))
        self.register_buffer("b", torch.arange(6))
        self.scale, self.kept = 2.5, {"x": torch.ones(2)}
    def forward(self, x): return (x @ self.w) * self.scale
net = torch.nn.Sequential(torch.nn.Linear(4, 4), Inner(), torch.nn.BatchNorm1d(5)).eval()
traced = torch.jit.trace(net, torch.randn(2, 4))
net[0].tied = net[0].weight
script = torch.jit.script(net)
quantized = torch.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4, 8)), {torch.nn.Linear})
at, out = sys.argv[1] + "/", {}
torch.jit.save(script, at + "script.pt", _extra_files={"notes.txt": b"x"})
torch.jit.save(traced, at + "trace.pt")
torch.jit.save(torch.jit.freeze(script), at + "frozen.pt")
torch.jit.save(torch.jit.script(quantized), at + "quantized.pt")
script._save_for_lite_interpreter(at + "mobile.pt")
for name in ("script", "trace", "frozen", "quantized"):
    out[name] = {k: [str(v.dtype)[6:], list(v.shape)] for k, v in torch.jit.load(at + name + ".pt").state_dict().items()}
json.dump(out, open(at + "truth.json", "w"))
"""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/make.py", "w", encoding="utf-8") as f:  # torch compiles from a file only
            f.write(script)
        done = subprocess.run([DEBIAN, "-W", "ignore", folder + "/make.py", folder], capture_output=True, timeout=600)
        if b"No module named" in done.stderr:
            return "SKIP no torch for " + DEBIAN
        assert not done.returncode, done.stderr[-500:]
        with open(folder + "/truth.json", encoding="utf-8") as f:
            truth = json.load(f)
        paths = sorted(glob.glob(folder + "/*.pt"))
        for path, r in zip(paths, verify(*paths, more=["--values"])[0]):
            got = {t["name"]: [t["dtype"], t["shape"]] for t in r["tensors"]}
            want = truth.get(os.path.basename(path)[:-3], {})
            assert want.items() <= got.items(), (path, want, got)
            assert r["kind"] == "torchscript" and r["verdict"] == "whole" and r["pickle"] == "listed", (path, r["headline"])
            assert told_kinds(r) == {"torchscript"}, (path, r["findings"])
            if "frozen" in path:
                assert {n.split("/")[0] for n in got} == {"constants"}, got
            elif "script" in path:
                assert "1.kept.x" in got and got["0.tied"] == got["0.weight"], got
        # The same names mean nothing where no code is next to them.
        with zipfile.ZipFile(folder + "/script.pt") as z, zipfile.ZipFile(folder + "/plain.pt", "w") as p:
            for name in ("script/data.pkl", "script/version", *(n for n in z.namelist() if "/data/" in n)):
                p.writestr(name, z.read(name))
        (r,), _ = verify(folder + "/plain.pt")
        assert r["kind"] == "torch" and r["pickle"] == "unknown", (r["kind"], r["pickle"])
        # Its tensors can be had, its code cannot.
        done = program("ckpt", "convert", folder + "/script.pt", "-o", folder + "/out.safetensors")
        assert not done.returncode and b"tensors only" in done.stderr, done.stderr
    return f"{len(paths)} archives of TorchScript"


def test_odd():
    """What torch saves seldom, and was reported wrongly once."""
    script = r"""
import pickle, sys, torch, numpy as np
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.extra, self.apart = nn.LSTM(3, 4), torch.ones(5), [nn.Linear(2, 2)]
net, at = Net(), sys.argv[1] + "/"
torch.save(net, at + "net.pt")
torch.save(net, at + "net.legacy.pt", _use_new_zipfile_serialization=False)
torch.save({"a": torch.ones(3)}, at + "four.pt", pickle_protocol=4, _use_new_zipfile_serialization=False)
torch.save({(0, 1): torch.ones(1), (0, "x"): torch.ones(2), ((1, 2.5), True): torch.ones(3)}, at + "tuples.pt")
torch.save({"y" * 5000: torch.ones(1), "y" * 4999 + "z": torch.ones(1), "a": {"z" * 9000: torch.ones(2)}}, at + "long.pt")
torch.save({"m": torch.ones(2).storage(), "betas": (0.9, 0.999), "epoch": np.int64(-300), "loss": np.float32(0.25),
            "done": np.bool_(True), "big": np.uint64(2**63)}, at + "storage.pt")
with open(at + "plain.pkl", "wb") as f: pickle.dump({"w": torch.ones(3)}, f)
with open(at + "numbers.pkl", "wb") as f: pickle.dump({"lr": 1e-3}, f)
import datetime
torch.save({"packed": torch.quantize_per_channel(torch.randn(4, 5), torch.rand(4), torch.zeros(4), 0, torch.quint4x2),
            "when": datetime.date.today()}, at + "packed.pt")
torch.save({"q": torch.quantize_per_channel(torch.randn(4, 4), torch.rand(4), torch.zeros(4).long(), 0, torch.qint8),
            "s": torch.eye(3).to_sparse_csr(), "w": torch.ones(2)}, at + "parts.pt")
class Unpicklable:
    def __reduce__(self): raise ValueError
try: torch.save({"a": torch.ones(3), "b": Unpicklable()}, at + "failed.pt")
except ValueError: pass
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([DEBIAN, "-c", script, folder], capture_output=True, timeout=600)
        if b"No module named" in done.stderr:
            return "SKIP no torch for " + DEBIAN
        assert not done.returncode, done.stderr[-500:]
        names = sorted(os.listdir(folder))
        results = dict(zip(names, verify(*(os.path.join(folder, n) for n in names))[0]))
        shapes = {n: {t["name"]: t["shape"] for t in r["tensors"]} for n, r in results.items()}

        # Tensors of a module that are not registered were not listed, and in a stacked file taken for damage; the
        # list that an LSTM keeps of its weights is no more tensors.
        rnn = {"rnn.weight_ih_l0": [16, 3], "rnn.weight_hh_l0": [16, 4], "rnn.bias_ih_l0": [16], "rnn.bias_hh_l0": [16]}
        for n in ("net.pt", "net.legacy.pt"):
            assert shapes[n] == {**rnn, "extra": [5], "apart.0.weight": [2, 2], "apart.0.bias": [2]}, shapes[n]
            assert not bad_kinds(results[n]), results[n]["findings"]
            assert {"name": "module rnn", "value": "torch.nn.modules.rnn.LSTM"} in results[n]["facts"], results[n]["facts"]
        # Protocols from 4 on put a frame before the magic number: it was taken for a pickle without tensors.
        assert results["four.pt"]["kind"] == "torch_legacy" and shapes["four.pt"] == {"a": [3]}, results["four.pt"]
        # Two of them were '?'.
        assert shapes["tuples.pt"] == {"(0, 1)": [1], "(0, 'x')": [2], "((1, 2.5), True)": [3]}, shapes["tuples.pt"]
        # A name that is too long was left out, and its tensor called 'tensor', or as what is around it.
        assert {"y" * 4095, "a." + "z" * 4094} == set(shapes["long.pt"]), [n[:20] for n in shapes["long.pt"]]
        assert "long_name" in told_kinds(results["long.pt"])
        assert {k["name"]: k["what"] for k in results["storage.pt"]["keys"]} == {
            "m": "storage", "betas": "(0.9, 0.999)", "epoch": "-300", "loss": "0.25", "done": "True", "big": str(2**63)}
        # pickle.dump of a tensor: it was called damaged.
        assert not bad_kinds(results["plain.pkl"]) and shapes["plain.pkl"] == {"w": [3]}, results["plain.pkl"]["findings"]
        # Two numbers a byte, five in a row of three bytes: they were reported to reach beyond their storage.
        assert results["packed.pt"]["verdict"] == "whole" and shapes["packed.pt"]["packed"] == [4, 3], results["packed.pt"]
        assert results["packed.pt"]["pickle"] == "plain", results["packed.pt"]["globals"]
        # "All 0 records match their checksums" was said of what has none.
        assert results["numbers.pkl"]["verdict"] == "unproven" and results["numbers.pkl"]["unprotected_bytes"]
        with zipfile.ZipFile(folder + "/x.pt2", "w") as z:
            for name in ("x/archive_format", "x/version"):
                z.writestr(name, b"1")
        assert verify(folder + "/x.pt2")[0][0]["kind"] == "exported"
        assert "was begun by torch.save" in results["failed.pt"]["headline"], results["failed.pt"]["headline"]
        # A quantized tensor without its scales, a sparse one without its values: repair counted what it left out.
        with open(folder + "/parts.pt", "rb") as f:
            data = f.read()
        counts, cut = set(), folder + "/cut.pt"
        for _, info, _, _, start in local_headers(data):
            with open(cut, "wb") as f:
                f.write(data[:start + info.file_size // 2])
            done = program("ckpt", "repair", cut, "-o", folder + "/saved.pt")
            if done.stdout:
                (r,), _ = verify(folder + "/saved.pt")
                assert int(done.stdout.split(b": ")[1].split()[0]) == len(r["tensors"]), (done.stdout, r["tensors"])
                counts.add(len(r["tensors"]))
        assert counts == {3, 6, 7}, counts
    return f"{len(names)} files"


def write_pickled(path, data, names=("archive/data.pkl", "archive/version")):
    with zipfile.ZipFile(path, "w") as z:
        for name, content in zip(names, (data, "3\n")):
            z.writestr(name, content)


def test_cache():
    """A snapshot in the cache of Hugging Face is links to ../../blobs/HEX: they are followed, no others are."""
    with tempfile.TemporaryDirectory() as top:
        rev = top + "/snapshots/rev"
        os.makedirs(rev)
        os.makedirs(top + "/blobs")
        blob = "../../blobs/" + "0a" * 32
        with open(os.path.join(rev, blob), "wb") as f:
            f.write(safetensors({"a": b"1234"}))
        os.symlink(blob, rev + "/model.safetensors")
        (r,), code = verify(rev)
        assert code == 0 and [t["name"] for t in r["tensors"]] == ["a"], r["findings"]
        os.unlink(rev + "/model.safetensors")
        for other in ("../blobs/" + "0a" * 32, "../../blobs/model", "../../blobs/../../x"):
            os.symlink(other, rev + "/model.safetensors")
            (r,), code = verify(rev)
            assert code == 1 and not r["tensors"] and "is a link" in str(r["findings"]), (other, r["findings"])
            os.unlink(rev + "/model.safetensors")
    return "a snapshot"


def test_getattr():
    """Python 3.11 writes a member of an enum as getattr(Class, 'MEMBER'): no alarm, unless it is used otherwise."""
    def text(s):
        return b"X" + struct.pack("<I", len(s)) + s.encode()

    get, of = b"cbuiltins\ngetattr\n", b"cmine\nColour\n"
    member = get + of + text("RED") + b"\x86R"
    cases = [(b"}" + text("e") + member + b"s", "unknown"),                     # {"e": Colour.RED}
             (member + text("ls") + b"\x85R", "dangerous"),                     # Colour.RED("ls")
             (member + b")R0N", "dangerous"),                                   # the same, thrown away
             (b"]" + get + b"a", "dangerous"),                                  # [getattr]
             (get + text("x") + text("RED") + b"\x86R", "dangerous"),           # of a value
             (get + of + text("__subclasses__") + b"\x86R", "dangerous"),
             (get + b"cos\nsystem\n" + text("x") + b"\x86R", "dangerous"),
             # names are kept up to a number; a dangerous one behind them was not given
             (b"".join(b"cmine\nC%d\n0" % i for i in range(5000)) + b"cos\nsystem\n", "dangerous")]
    with tempfile.TemporaryDirectory() as folder:
        for i, (body, want) in enumerate(cases):
            path = os.path.join(folder, f"{i}.pt")
            write_pickled(path, b"\x80\x02" + body + b".")
            (r,), code = verify(path)
            assert r["pickle"] == want and code == 1, (i, r["pickle"], r["findings"])
    return f"{len(cases)} pickles"


def test_decimals():
    """Integers of more than 64 bits as protocols 0 and 1 write them were taken for damage; they are kept bit for bit."""
    numbers = [s * n for n in (2**63, 2**64 - 1, 2**64, 10**40, 2**127, 2**128 - 1, 10**600) for s in (1, -1)]
    with tempfile.TemporaryDirectory() as folder:
        path, back = folder + "/a.pt", folder + "/b.pt"
        for protocol in (0, 1, 2):
            write_pickled(path, pickle.dumps({"seeds": numbers}, protocol))
            (r,), code = verify(path)
            assert code == 0 and r["verdict"] == "whole", r["findings"]
        write_pickled(path, pickle.dumps({"seeds": numbers}, 1))
        program("ckpt", "convert", path, "-o", back, "--no-manifest")
        if os.path.exists(back):
            with zipfile.ZipFile(back) as z:
                assert read_pickle(z.read([n for n in z.namelist() if n.endswith("data.pkl")][0])) == {"seeds": numbers}
    return f"{len(numbers)} numbers"


def test_directory():
    """One bit in a zip's directory: no tensor counts as lost, and where the directory cannot be followed all are found."""
    with open(os.path.join(HERE, "tensor.pt"), "rb") as f:
        data = f.read()
    start = struct.unpack_from("<I", data, data.rindex(b"PK\5\6") + 16)[0]
    salvaged = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for at in range(start, len(data)):
            changed = bytearray(data)
            changed[at] ^= 1 << at % 8
            paths.append(os.path.join(folder, f"{at}.pt"))
            with open(paths[-1], "wb") as f:
                f.write(changed)
        for path, r in zip(paths, verify(*paths)[0]):
            assert "are lost" not in str(r["findings"]), (path, r["findings"])
            found = [f["title"] for f in r["findings"] if f["id"] == "salvaged"]
            if found:
                salvaged += 1
                assert r["verdict"] == "damaged" and "hole" not in bad_kinds(r), (path, r["findings"])
                assert len(r["tensors"]) == 1 and "1 of 1" in found[0], (path, r["findings"])
        cut, whole = folder + "/cut.pt", os.path.join(HERE, "state_dict_cuda.pt")
        with open(whole, "rb") as f:
            data = f.read()
        with open(cut, "wb") as f:  # as a file system leaves it that lost its last writes
            f.write(data[:len(data) - 6000] + bytes(6000))
        (r,), _ = verify(cut)
        zeros = [f for f in r["findings"] if f["id"] == "zero_tail"]
        assert r["verdict"] == "truncated" and zeros and "6000 bytes" in zeros[0]["title"], r["findings"]
    assert salvaged > 20, salvaged
    return f"{len(paths)} flips, {salvaged} directories that could not be followed"


def test_others():
    """What is not a checkpoint is called by its name; half a surrogate pair is not a name."""
    kinds = {"bzip2": b"BZh91AY&SY", "rar": b"Rar!\x1a\x07\x00", "sqlite": b"SQLite format 3\0", "lz4": b"\x04\"M\x18",
             "tflite": b"\x1c\0\0\0TFL3"}
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/x.pt"
        for kind, head in kinds.items():
            with open(path, "wb") as f:
                f.write(head + bytes(range(200)))
            (r,), code = verify(path)
            assert code == 1 and bad_kinds(r) == {kind}, (kind, r["findings"])
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("best.ckpt", b"x")
        assert "unzip" in verify(path)[0][0]["headline"]
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("a/data.pkl", pickle.dumps({}, 2))
            z.writestr("a/version", "99\n")
        (r,), _ = verify(path)
        assert bad_kinds(r) == {"version"} and "\n" not in r["headline"], r["headline"]
        with open(folder + "/x.safetensors", "wb") as f:
            header = b'{"a\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
            f.write(struct.pack("<Q", len(header)) + header + b"\1")
        (r,), code = verify(folder + "/x.safetensors")
        assert code == 1 and "surrogate" in r["headline"], r["findings"]
    return f"{len(kinds) + 3} files"


# ---- diff ----

def diff(a, b, *more):
    done = program("ckpt", "diff", "--json", a, b, *more)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout), done.returncode


def test_diff():
    """Planted differences, each alone."""
    def model(prefix="", layers=4, hidden=8, vocab=50, dtype="F32", head=True, lora=False, rename=None):
        out = {"embed.weight": [vocab, hidden]}
        for i in range(layers):
            out[f"layers.{i}.attn.q.weight"] = [hidden, hidden]
            out[f"layers.{i}.attn.k.weight"] = [hidden // 2, hidden]
            out[f"layers.{i}.norm.weight"] = [hidden]
            if lora:
                out[f"layers.{i}.attn.q.lora_A.weight"] = [2, hidden]
        out["norm.weight"] = [hidden]
        if head:
            out["lm_head.weight"] = [vocab, hidden]
        rows, at = {}, 0
        width = 4 if dtype == "F32" else 2
        for name, shape in out.items():
            if rename:
                name = name.replace(*rename)
            n = width
            for k in shape:
                n *= k
            rows[prefix + name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
            at += n
        text = json.dumps(rows).encode()
        return struct.pack("<Q", len(text)) + text + bytes(at)

    cases = {
        "prefix": {"prefix": "module."}, "depth": {"layers": 6}, "width": {"hidden": 16}, "vocabulary": {"vocab": 64},
        "dtype": {"dtype": "BF16"}, "tied": {"head": False}, "lora": {"lora": True}, "rename": {"rename": (".attn.", ".attention.")},
        "same": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        a, b = folder + "/a", folder + "/b"
        with open(a, "wb") as f:
            f.write(model())
        for kind, change in cases.items():
            with open(b, "wb") as f:
                f.write(model(**change))
            for x, y in ((a, b), (b, a)):
                r, code = diff(x, y)
                assert r["conclusions"][0]["kind"] == kind, (kind, r["conclusions"])
                assert len(r["conclusions"]) == 1 and code == (kind != "same"), (kind, r["conclusions"])
        def two(*rows):
            for path, tensors in zip((a, b), rows):
                at, header = 0, {}
                for name, dtype, shape, raw in tensors:
                    header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
                    at += len(raw)
                text = json.dumps(header).encode()
                with open(path, "wb") as f:
                    f.write(struct.pack("<Q", len(text)) + text + b"".join(raw for *_, raw in tensors))
            return diff(a, b, "--values")[0]

        def floats(n):
            return bytes(4 * n)

        conv = ("layer.0.conv.weight", "F32", [2, 3], floats(6))
        r = two([conv, ("fc.weight", "F32", [10, 4], floats(40)), ("fc.bias", "F32", [10], floats(10))],
                [conv, ("fc.weight", "F32", [7, 4], floats(28)), ("fc.bias", "F32", [7], floats(7))])
        assert [c["kind"] for c in r["conclusions"]] == ["head_size"] and "10 rows against 7" in r["conclusions"][0]["text"], r["conclusions"]
        r = two([("h.0.attn.weight", "F32", [2, 3], floats(6))], [("h.0.attn.weight", "F32", [3, 2], floats(6))])
        assert [c["kind"] for c in r["conclusions"]] == ["transposed"]
        r = two([("w", "F32", [2, 3, 1], floats(6))], [("w", "F32", [2, 3], floats(6))])
        assert [c["kind"] for c in r["conclusions"]] == ["rank"]
        r = two([("my.own.wrapper.x.weight", "F32", [2], floats(2)), ("my.own.wrapper.y.weight", "F32", [2], floats(2))],
                [("x.weight", "F32", [2], floats(2)), ("y.weight", "F32", [2], floats(2))])
        assert [c["kind"] for c in r["conclusions"]] == ["prefix"] and "my.own.wrapper." in r["conclusions"][0]["text"]
        for dtype, form, x, y in (("I64", "<q", 2 ** 62, 2 ** 62 + 1), ("U64", "<Q", 2 ** 64 - 1, 2 ** 64 - 3), ("I64", "<q", -3, 4)):
            r = two([("n", dtype, [1], struct.pack(form, x))], [("n", dtype, [1], struct.pack(form, y))])
            assert r["changed"] == 1 and r["max_difference"] == abs(x - y), r
        with open(a, "wb") as f:
            f.write(model())
        with open(b, "wb") as f:
            f.write(model(prefix="module.", dtype="BF16"))
        assert [c["kind"] for c in diff(a, b)[0]["conclusions"]] == ["prefix", "dtype"]
        raw = bytearray(model())
        raw[-4:] = struct.pack("<f", 0.5)
        with open(b, "wb") as f:
            f.write(raw)
        r, code = diff(a, b, "--values")
        assert code == 1 and r["changed"] == 1 and r["max_difference"] == 0.5 and not r["bf16_enough"], r
        raw[-4:] = struct.pack("<f", 0.001)
        with open(b, "wb") as f:
            f.write(raw)
        assert diff(a, b, "--values")[0]["bf16_enough"]
    return f"{len(cases)} kinds of difference, both ways"


def zeros(shapes, dtype="F32", width=4):
    """A safetensors file of tensors of zeros."""
    rows, at = {}, 0
    for name, shape in shapes.items():
        n = width * math.prod(shape)
        rows[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(rows).encode()
    return struct.pack("<Q", len(text)) + text + bytes(at)


def test_diff_sizes():
    """Sizes and names that were explained wrongly: a vocabulary as "16 against 16", two renamings as one and a rest."""
    def write(path, shapes):
        with open(path, "wb") as f:
            f.write(zeros(shapes))

    base = {"emb.weight": [50, 8], "wpe.weight": [16, 8], "l1.weight": [12, 8], "l1.bias": [12], "l2.weight": [8, 12],
            "l2.bias": [8]}
    cases = [({**base, "emb.weight": [60, 8]}, ["vocabulary"], "50 rows against 60"),
             ({**base, "wpe.weight": [32, 8]}, ["positions"], "16 rows against 32"),
             ({**base, "l1.weight": [14, 8]}, ["width"], "12 against 14"),
             ({**base, "l2.weight": [8, 14]}, ["width"], "12 against 14 in its last"),
             ({n.replace("l1", "fc1").replace("l2", "fc2"): s for n, s in base.items()}, ["rename", "rename"], "'l2' is 'fc2'")]
    with tempfile.TemporaryDirectory() as folder:
        a, b = folder + "/a", folder + "/b"
        write(a, base)
        for other, kinds, says in cases:
            write(b, other)
            r, _ = diff(a, b)
            assert [c["kind"] for c in r["conclusions"]] == kinds, (kinds, r["conclusions"])
            assert says in r["conclusions"][-1]["text"], (says, r["conclusions"])
        for path, number in ((a, 1.0), (b, float("nan"))):
            with open(path, "wb") as f:
                text = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
                f.write(struct.pack("<Q", len(text)) + text + struct.pack("<2f", number, 2))
        said = program("ckpt", "diff", "--values", a, b).stdout
        assert b"1 of them is NaN or infinite on one side" in said, said
    return f"{len(cases)} pairs"


def test_config():
    """Would it load into the model of a config, for models that are in the tables and one that is not."""
    def llama(c, prefix="model.", drop=(), more=()):
        h, i, v = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
        d = c.get("head_dim", h // c["num_attention_heads"])
        q, k = d * c["num_attention_heads"], d * c.get("num_key_value_heads", c["num_attention_heads"])
        out = {prefix + "embed_tokens.weight": [v, h], prefix + "norm.weight": [h]}
        for n in range(c["num_hidden_layers"]):
            rows = {"input_layernorm.weight": [h], "post_attention_layernorm.weight": [h], "self_attn.q_proj.weight": [q, h],
                    "self_attn.k_proj.weight": [k, h], "self_attn.v_proj.weight": [k, h], "self_attn.o_proj.weight": [h, q],
                    "mlp.gate_proj.weight": [i, h], "mlp.up_proj.weight": [i, h], "mlp.down_proj.weight": [h, i]}
            if c["model_type"] == "qwen2":
                rows |= {"self_attn.q_proj.bias": [q], "self_attn.k_proj.bias": [k], "self_attn.v_proj.bias": [k]}
            if c["model_type"] == "qwen3":
                rows |= {"self_attn.q_norm.weight": [d], "self_attn.k_norm.weight": [d]}
            out |= {f"{prefix}layers.{n}.{name}": shape for name, shape in rows.items()}
        if not c.get("tie_word_embeddings", False):
            out["lm_head.weight"] = [v, h]
        return {name: shape for name, shape in out.items() if name not in drop} | dict(more)

    def stored(shapes):
        return zeros(shapes, "BF16", 2)

    base = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": 3, "vocab_size": 40, "torch_dtype": "bfloat16"}
    qwen3 = base | {"model_type": "qwen3", "head_dim": 8}
    tied = base | {"model_type": "mistral", "tie_word_embeddings": True}
    other = base | {"model_type": "deepthought"}
    cases = [  # the model's config, what is done to its tensors, the config next to it, the verdict, a conclusion
        (base, {}, base, True, "loads"), (qwen3, {}, qwen3, True, "loads"), (tied, {}, tied, True, "loads"),
        (base | {"model_type": "qwen2"}, {}, base | {"model_type": "qwen2"}, True, "loads"),
        (base, {}, base | {"model_type": "qwen2"}, False, "does_not_load"), (base, {"prefix": ""}, base, True, "loads"),
        (base, {"prefix": "module.model."}, base, False, "prefix"), (base, {}, base | {"num_hidden_layers": 4}, False, "depth"),
        (base, {}, base | {"vocab_size": 41}, False, "vocabulary"), (base, {}, base | {"hidden_size": 32}, False, "width"),
        (tied, {}, base | {"model_type": "mistral"}, False, "tied"),
        (base, {"drop": ["model.layers.1.mlp.up_proj.weight"]}, base, False, "does_not_load"),
        (base, {"more": {"classifier.extra.weight": [3, 16]}}, base, True, "loads"),
        (base, {}, other, None, "not_judged"), (base, {}, other | {"hidden_size": 8}, False, "width"),
        (base, {}, other | {"num_hidden_layers": 9}, False, "depth"), (base, {}, other | {"vocab_size": 41}, False, "vocabulary"),
        (base, {}, base | {"quantization_config": {"bits": 4}, "intermediate_size": 7}, None, "not_judged"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        model, config = folder + "/m.safetensors", folder + "/config.json"
        for made, change, beside, loads, kind in cases:
            with open(model, "wb") as f:
                f.write(stored(llama(made, **change)))
            with open(config, "w", encoding="utf-8") as f:
                json.dump(beside, f)
            done = program("ckpt", "diff", "--json", model, "--config", config)
            r = json.loads(done.stdout)
            assert (r["loads"], done.returncode) == (loads, loads is False), (change, beside, r["conclusions"])
            assert kind in [c["kind"] for c in r["conclusions"]], (change, beside, r["conclusions"])
    return f"{len(cases)} pairs of a model and a config"


# ---- writing ----

def read_safetensors(path):
    """A strict reader of our own: name -> (dtype, shape, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    n, = struct.unpack_from("<Q", data)
    assert n % 8 == 0 and data[8:9] == b"{"
    head = json.loads(data[8:8 + n].decode("utf-8"))
    head.pop("__metadata__", None)
    at, out = 0, {}
    for name, row in sorted(head.items(), key=lambda x: x[1]["data_offsets"]):
        assert row["data_offsets"][0] == at, name
        at = row["data_offsets"][1]
        out[name] = (row["dtype"], row["shape"], data[8 + n + row["data_offsets"][0]:8 + n + at])
    assert 8 + n + at == len(data)
    return out


def write(verb, source, target, *more):
    return program("ckpt", verb, source, "-o", target, *more)


def test_extract():
    with tempfile.TemporaryDirectory() as folder:
        target = folder + "/x.safetensors"
        written = ["x.safetensors", "x.safetensors.manifest.json"]
        assert not write("convert", os.path.join(HERE, "state_dict_cuda.pt"), target).returncode
        got, want = read_safetensors(target), read_safetensors(os.path.join(HERE, "model.safetensors"))
        assert {k: v[:2] for k, v in got.items()} == {k: v[:2] for k, v in want.items()}, got.keys()
        with zipfile.ZipFile(os.path.join(HERE, "state_dict_cuda.pt")) as z:
            stored = {z.read(n) for n in z.namelist() if "/data/" in n}
        assert {v[2] for v in got.values()} == stored
        assert not write("extract", os.path.join(HERE, "lora_r4"), target, "--keys", "*lora_A*|nothing").returncode
        got = read_safetensors(target)
        want = {k: v for k, v in read_safetensors(os.path.join(HERE, "lora_r4", "adapter_model.safetensors")).items() if "lora_A" in k}
        assert got == want
        before = open(target, "rb").read()
        assert write("extract", os.path.join(HERE, "lora_r4"), target, "--keys", "nothing").returncode == 2
        assert write("convert", os.path.join(HERE, "dtypes.pt"), target).returncode == 4, "complex128 was written"
        assert write("convert", os.path.join(HERE, "lora_r4"), folder + "/x.unknown").returncode == 2
        assert open(target, "rb").read() == before and sorted(os.listdir(folder)) == written
        with open(os.path.join(HERE, "more", "train.pt"), "rb") as f:
            data = f.read()
        with open(folder + "/cut.pt", "wb") as f:
            f.write(data[:data.index(b"data/3")])
        assert write("convert", folder + "/cut.pt", target).returncode == 3
        assert open(target, "rb").read() == before
        assert not write("repair", folder + "/cut.pt", target).returncode
        assert read_safetensors(target)
        assert not write("repair", folder + "/cut.pt", folder + "/y.pt", "--no-manifest").returncode
        assert sorted(os.listdir(folder)) == ["cut.pt", *written, "y.pt"]
    return "convert, extract and repair, bytes exact"


def test_words():
    """The task page explains each verdict that is printed, and no other; the glossary has the words."""
    # The page had INCOMPLETE, which is never printed, and the glossary "intact, unverifiable".
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")

    def text(path):
        with open(os.path.join(top, path), encoding="utf-8") as f:
            return f.read()

    table, = re.findall(r"ckpt_verdict_names\[\] = \{(.*?)\}", text("src/commands/ckpt/text.c"), re.S)
    printed = {word.upper() for word in re.findall(r'"(.*?)"', table)}
    assert len(printed) == 8 and "TRUNCATED" in printed, printed
    explained = {word for row in re.findall(r"^\| (`.*?) \|", text("docs/tasks/checkpoints.md"), re.M) for word in re.findall("`([A-Z ]+)`", row)}
    assert explained == printed, explained ^ printed
    glossary = text("docs/glossary.md")
    for word in ("whole, unproven, damaged, truncated", "plain, listed, unknown code, dangerous"):
        assert f"| {word} |" in glossary, word
    return f"{len(printed)} verdicts"


def test_weights():
    """convert writes weights as a model names them, or says why they keep their full names; files that are not one checkpoint are refused."""
    # {"model": ..., "optimizer": ...} became one file of prefixed names, which no model loads, without a word; so did folders of unrelated files.
    weights = {"0.weight": Tensor("0", 2), "0.bias": Tensor("1", 2)}
    ema = {"0.weight": Tensor("2", 2), "0.bias": Tensor("3", 2)}
    optimizer = {"state": {0: {"exp_avg": Tensor("4", 2)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    bare, keys = {"0.bias": 2, "0.weight": 1}, "01234"
    full = {"model": weights, "optimizer": optimizer, "epoch": 3}

    def of(path):
        return {name: struct.unpack_from("<f", data)[0] for name, (_, _, data) in read_safetensors(path).items()}

    with tempfile.TemporaryDirectory() as folder:
        path, out = folder + "/x.pt", folder + "/x.safetensors"
        for value, also in ((full, "'model'"), ({"state_dict": weights, "optimizer_states": [optimizer]}, "'state_dict'"),
                            ({"state_dict": weights, "epoch": 3}, "'state_dict'"), (weights, "")):
            write_torch(path, value, keys)
            done = write("convert", path, out)
            assert not done.returncode and of(out) == bare, (value, done, of(out))
            assert also.encode() in done.stderr and (b"all of them: plimsoll ckpt extract" in done.stderr) == ("optim" in str(list(value))), done
        write_torch(path, full, keys)
        assert not write("extract", path, out, "--keys", "*").returncode
        assert sorted(of(out)) == ["model.0.bias", "model.0.weight", "optimizer.state.0.exp_avg"]
        assert not write("repair", path, out).returncode and len(of(out)) == 3
        # From torch to torch all is kept, except for what --only takes.
        again = folder + "/y.pt"
        assert not write("convert", path, again).returncode and names_in(again) == names_in(path)
        assert not write("convert", path, again, "--only", "model.").returncode and names_in(again) == sorted(bare)
        # Of two that may be meant none is chosen.
        write_torch(path, {"model": weights, "ema": ema, "optimizer": optimizer}, keys)
        done = write("convert", path, out)
        assert not done.returncode and len(of(out)) == 5 and b"(model, ema)" in done.stderr and b"--only model" in done.stderr, done
        assert not write("convert", path, out, "--only", "ema").returncode and of(out) == {"0.bias": 4, "0.weight": 3}
        done = write("convert", path, out, "--only", "mod")
        assert done.returncode == 2 and done.stderr.endswith(b"no tensor is below 'mod'; tensors are below 'model', 'ema', 'optimizer'\n"), done
        # Folders: weights next to the state of a training, and files of their own.
        top = folder + "/top"
        os.mkdir(top)
        write_torch(top + "/pytorch_model.bin", weights, keys)
        write_torch(top + "/optimizer.pt", optimizer, keys)
        done = write("convert", top, out)
        assert not done.returncode and of(out) == bare and b"2 tensors of the weights, and not the other 1" in done.stderr, done
        os.mkdir(folder + "/apart")
        for name in "ab":
            write_torch(f"{folder}/apart/{name}.pt", weights, keys)
        done = write("convert", folder + "/apart", out)
        assert done.returncode == 2 and b"not shards of one checkpoint ('a.pt', 'b.pt')" in done.stderr, done
    return "one mapping of weights, two, files and folders"


# Values that torch 1.13 knows, one a dtype that both formats have.
ROUND_TRIP = """
import collections, sys, torch
folder = sys.argv[1]
torch.manual_seed(7)
kinds = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.complex64: "c64",
         torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}
made = {}
for dtype, name in kinds.items():
    made[name] = (torch.randn(3, 5, dtype=torch.float64) * 40).to(dtype)
made["turned"] = torch.randn(6, 4).t()
made["gaps"] = torch.randn(9, 8)[1::2, ::3]
made["wide"] = torch.zeros(1).expand(3, 4)
made["scalar"] = torch.tensor(2.5)
made["empty"] = torch.empty(0, 3)
made["odd names.\u00e9\u4e2d"] = torch.arange(4)
made["nonfinite"] = torch.tensor([float("nan"), float("inf"), -0.0])
made["tied.a"] = torch.randn(4, 4)
made["tied.b"] = made["tied.a"]
if sys.argv[2] == "make":
    torch.save(made, folder + "/made.pt")
else:
    got = torch.load(sys.argv[2], weights_only=True)
    assert list(got) == list(made) or set(got) == set(made), list(got)
    for name, t in made.items():
        g = got[name]
        assert g.dtype == t.dtype and g.shape == t.shape, (name, g.dtype, g.shape)
        a, b = (x.contiguous().view(-1).view(torch.uint8) if x.dim() and x.numel() and x.dtype != torch.bool
                else x.contiguous() for x in (g, t))
        assert a.equal(b), name
    if len(sys.argv) > 3:
        assert got["tied.a"].data_ptr() == got["tied.b"].data_ptr()
"""


def all_bytes(path):
    """(name, dtype, shape) -> bytes, of what `show --json` says of a file; for what no torch here can load."""
    done = program("ckpt", "show", "--json", path)
    assert not done.returncode, done
    with open(path, "rb") as f:
        data = f.read()
    return {t["name"]: data[t["offset_bytes"]:t["offset_bytes"] + t["bytes"]] if t["bytes"] else b""
            for t in json.loads(done.stdout)["tensors"]}


def test_convert():
    """.pt -> .safetensors -> .pt -> .safetensors: bytes equal, and torch agrees where it is there."""
    dtypes = ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16", "U16", "F16", "BF16",
              "I32", "U32", "F32", "C64", "F64", "I64", "U64", "F4")
    with tempfile.TemporaryDirectory() as folder:
        rows, at = {}, 0
        for name in dtypes:
            n = 12 if name == "F4" else 24 * int("".join(c for c in name.split("_")[0] if c.isdigit()) or 8) // 8
            rows["of " + name] = {"dtype": name, "shape": [4, 6], "data_offsets": [at, at + n]}
            at += n
        text = json.dumps(rows).encode()
        text += b" " * (-len(text) % 8)
        first, torch_file, second = (folder + "/" + x for x in ("a.safetensors", "b.pt", "c.safetensors"))
        with open(first, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + bytes(i * 37 % 251 for i in range(at)))
        assert not write("convert", first, torch_file).returncode
        assert not write("convert", torch_file, second).returncode
        assert all_bytes(first) == all_bytes(torch_file) == all_bytes(second)
        assert {k: v[:2] for k, v in read_safetensors(second).items()} == {k: (v["dtype"], v["shape"]) for k, v in rows.items()}
        with zipfile.ZipFile(torch_file) as z:
            assert z.testzip() is None and z.namelist()[0] == "archive/data.pkl"
        (r,), code = verify(torch_file)
        assert not code and r["verdict"] == "whole" and r["pickle"] == "plain" and not told_kinds(r), r
        made = subprocess.run([DEBIAN, "-c", ROUND_TRIP, folder, "make"], capture_output=True)
        if made.returncode:
            return f"{len(dtypes)} dtypes; no torch here to load them"
        for target in ("made2.pt", "made.safetensors"):
            assert not write("convert", folder + "/made.pt", folder + "/" + target).returncode
        assert not write("convert", folder + "/made.safetensors", folder + "/made3.pt").returncode
        for target, more in (("made2.pt", ["tied"]), ("made3.pt", [])):
            loaded = subprocess.run([DEBIAN, "-c", ROUND_TRIP, folder, folder + "/" + target, *more], capture_output=True)
            assert not loaded.returncode, loaded.stderr[-800:].decode()
            assert not verify(folder + "/" + target)[1]
    return f"{len(dtypes)} dtypes both ways; torch loads them back equal"


# A training run's checkpoint with what people put into one; what torch gives back of a file must equal it.
TRAINING = r"""
import argparse, collections, random, sys, numpy, torch
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(33, 17), torch.nn.BatchNorm1d(17), torch.nn.Linear(17, 33))
opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
sch = torch.optim.lr_scheduler.StepLR(opt, 10)
net(torch.randn(4, 33)).sum().backward(); opt.step(); sch.step()
random.seed(1), numpy.random.seed(1)
made = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scheduler": sch.state_dict(), "epoch": 3, "big": 2 ** 70,
        "negative": -2 ** 40, "f": 1.25, "u": 2 ** 63 + 5, "none": None, "no": False, "rng": torch.get_rng_state(), "py": random.getstate(),
        "np": numpy.random.get_state(), "set": {1, 2}, "bytes": b"\x00\xff\x80x", "args": argparse.Namespace(lr=1, name="x\u00e9"),
        "one": (1,), "none of it": (), "five": (1, 2, 3, 4, 5), "list": [], "dict": {}, "view": net[0].weight.detach()[3:5],
        "turned": net[0].weight.detach().t(), "q": torch.quantize_per_tensor(torch.randn(4), 0.1, 2, torch.qint8),
        "default": collections.defaultdict(list, {1: [2]}), "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5),
        "sparse": torch.eye(3).to_sparse(), "dtype": torch.float16, "device": torch.device("cpu"), "size": torch.Size([1, 2])}
made["again"] = made["dict"]

def same(a, b, at=""):
    assert type(a) == type(b), (at, type(a), type(b))
    if isinstance(a, torch.Tensor) and a.is_sparse:
        same(a.coalesce().indices(), b.coalesce().indices(), at), same(a.coalesce().values(), b.coalesce().values(), at)
    elif isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), at
        assert torch.equal(a.dequantize() if a.is_quantized else a, b.dequantize() if b.is_quantized else b), at
    elif isinstance(a, numpy.ndarray):
        assert (a == b).all(), at
    elif isinstance(a, dict):
        assert list(a) == list(b), (at, list(a), list(b))
        assert getattr(a, "_metadata", 0) == getattr(b, "_metadata", 0), at
        [same(a[k], b[k], f"{at}.{k}") for k in a]
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), at
        [same(x, y, f"{at}.{i}") for i, (x, y) in enumerate(zip(a, b))]
    else:
        assert a == b, (at, a, b)

if sys.argv[1] == "make":
    torch.save(made, sys.argv[2] + "/t.pt")
    torch.save(made, sys.argv[2] + "/l.pt", _use_new_zipfile_serialization=False)
elif sys.argv[1] == "same":
    got = torch.load(sys.argv[2])
    same(made, got)
    assert got["again"] is got["dict"] and got["view"].storage().data_ptr() == got["model"]["0.weight"].storage().data_ptr()
else:  # cut: tensors that are lost are not there, all else is
    for path in sys.argv[2:]:
        got = torch.load(path)
        assert got["epoch"] == 3 and got["scheduler"] == made["scheduler"] and got["py"] == made["py"], path
        assert got["optimizer"]["param_groups"] == made["optimizer"]["param_groups"], path
        for name, t in got["model"].items():
            same(made["model"][name], t, name)
        for i, state in got["optimizer"]["state"].items():
            for name, t in state.items():
                same(made["optimizer"]["state"][i][name], t, name)
"""


def test_state():
    """Training state goes with the tensors from a file of torch to another, also of what is left of a cut one."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = folder + "/x.pt", folder + "/out.pt"
        # Tensors of the second record are lost: they leave dicts, and None stands for them in lists and tuples.
        value = {"epoch": 7, "a": Tensor("0"), "b": Tensor("1"), "c": [Tensor("1"), Tensor("0")], "d": (Tensor("1"), "x"), "e": {2: Tensor("1")}}
        write_torch(path, value, "01")
        with open(path, "rb") as f:
            data = f.read()
        at = data.index(struct.pack("<2f", 2, 2.5))
        with open(path, "wb") as f:
            f.write(data[:at] + b"\xff" + data[at + 1:])
        assert write("convert", path, out).returncode == 3 and not os.path.exists(out)
        done = write("repair", path, out)
        assert not done.returncode and b"training state" in done.stdout and b"4 not whole and left out, the first is 'b'" in done.stderr, done
        assert names_in(out) == ["a", "c.1"]
        with zipfile.ZipFile(out) as z:
            got = read_pickle(z.read("archive/data.pkl"))
        assert got == {"epoch": 7, "a": "tensor", "c": [None, "tensor"], "d": (None, "x"), "e": {}}, got
        # What was repaired is whole as a file: it says itself that it is less than was saved, also when it is converted.
        def told(at):
            return [f["title"] for f in verify(at)[0][0]["findings"] if f["id"] == "repaired"]
        said = "'plimsoll ckpt repair' wrote it: 4 of the 6 tensors of 'x.pt' were not whole and are left out, 'b' first"
        assert told(out) == [said] and not told(path), told(out)
        assert not write("convert", out, folder + "/out.safetensors").returncode and told(folder + "/out.safetensors") == [said]
        again = folder + "/again.safetensors"
        assert not write("repair", folder + "/out.safetensors", again).returncode and told(again) == [said]
        os.remove(again)
        os.remove(folder + "/out.safetensors")
        # Names that are on no list are in no file that is written here; nor is a form that safetensors has not.
        write_torch(path, {"epoch": 7, "a": Tensor("0"), "evil": Odd()})
        done = write("convert", path, out)
        assert not done.returncode and b"on no list" in done.stderr and verify(out)[0][0]["pickle"] == "plain", done
        done = write("convert", path, folder + "/out.safetensors")
        assert not done.returncode and b"safetensors holds nothing else" in done.stderr, done
        # A pickle that is damaged itself says nothing that could be relied on.
        write_torch(path, {"epoch": 7, "a": Tensor("0")})
        with open(path, "rb") as f:
            data = bytearray(f.read())
        data[data.index(b"epoch")] ^= 1
        with open(path, "wb") as f:
            f.write(data)
        done = write("repair", path, folder + "/no.pt")
        assert done.returncode == 3 and b"damaged itself" in done.stderr and not os.path.exists(folder + "/no.pt"), done
        if subprocess.run([DEBIAN, "-c", TRAINING, "make", folder], capture_output=True).returncode:
            return "made files; no torch here"
        cuts = []
        for name in ("t", "l"):
            assert not write("convert", f"{folder}/{name}.pt", out).returncode
            done = subprocess.run([DEBIAN, "-c", TRAINING, "same", out], capture_output=True)
            assert not done.returncode, (name, done.stderr[-800:].decode())
            assert verify(out)[0][0]["verdict"] == "whole"
            with open(f"{folder}/{name}.pt", "rb") as f:
                data = f.read()
            for length in range(len(data) // 2, len(data), 977):
                with open(path, "wb") as f:
                    f.write(data[:length])
                cuts.append(f"{folder}/{name}{length}.pt")
                assert not write("repair", path, cuts[-1], "--no-manifest").returncode, (name, length)
        assert not verify(*cuts)[1]
        done = subprocess.run([DEBIAN, "-c", TRAINING, "cut", *cuts], capture_output=True)
        assert not done.returncode, done.stderr[-800:].decode()
    return f"torch gives back what it saved; {len(cuts)} cut files keep what is no tensor"


def test_deflated():
    """Files that were packed again, deflated, are read as any other."""
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        packed, a, b = (folder + "/" + x for x in ("p.pt", "a.safetensors", "b.safetensors"))
        for name in ("full_training.pt", "state_dict_cuda.pt", "views.pt", "exotic.pt", "dtypes.pt"):
            path = os.path.join(HERE, name)
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
                top = old.namelist()[0].split("/")[0]
                new.writestr(zipfile.ZipInfo(top + "/"), b"")  # as zip -r does
                for record in old.namelist():
                    new.writestr(record, old.read(record))
            (r, s), _ = verify(path, packed, more=["--values"])
            assert s["verdict"] == "whole" and "deflated" in told_kinds(s), s["headline"]
            keep = ("name", "dtype", "shape", "strides", "nan", "zero", "min", "max")
            assert [[t[k] for k in keep] for t in r["tensors"]] == [[t[k] for k in keep] for t in s["tensors"]], name
            r, code = diff(path, packed, "--values")
            assert not code and not r["changed"] and not r["not_compared"], (name, r)
            patterns = ["--keys", "torch.[bfiu]*|a|b|c|d|model*|optim*|*weight*|*bias*"]
            codes = [write("extract", x, y, *patterns).returncode for x, y in ((path, a), (packed, b))]
            assert codes[0] == codes[1], (name, codes)
            if not codes[0]:
                assert read_safetensors(a) == read_safetensors(b), name
            codes = [write("convert", x, y).returncode for x, y in ((path, folder + "/a.pt"), (packed, folder + "/b.pt"))]
            assert codes == [0, 0], (name, codes)
            assert codes[0] or not diff(folder + "/a.pt", folder + "/b.pt", "--values")[1], name
            n += 1
        # A pickle that hides in a record of its own, packed; and records without a folder around them.
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("x/data.pkl", as_pickle({"a": 1}))
            z.writestr("x/version", "3\n")
            z.writestr("x/data/hidden", b"\x80\x02cposix\nsystem\nX\x01\0\0\0x\x85R.")
        (r,), code = verify(packed)
        assert code == 1 and r["pickle"] == "dangerous" and "extra_pickle" in told_kinds(r), r["findings"]
        with zipfile.ZipFile(packed, "w") as z:
            z.writestr("data.pkl", as_pickle({"a": 1}))
            z.writestr("version", "3\n")
        (r,), code = verify(packed)
        assert code == 1 and "no_folder" in bad_kinds(r)
        # A stream that ends early, goes on, or is cut.
        write_torch(packed, {"a": Tensor("0"), "b": Tensor("1")}, "01", zipfile.ZIP_DEFLATED)
        with open(packed, "rb") as f:
            data = f.read()
        at = next(start for _, info, _, _, start in local_headers(data) if info.filename.endswith("data/0"))
        for bit in range(8):
            for where in range(at, at + 9):  # of the tenth and last byte some bits pad it out
                with open(packed, "wb") as f:
                    f.write(data[:where] + bytes([data[where] ^ 1 << bit]) + data[where + 1:])
                (r,), code = verify(packed)
                assert code == 1 and "crc_mismatch" in bad_kinds(r), (where - at, bit, r["findings"])
                assert write("extract", packed, b, "--keys", "a").returncode == 3
                assert not write("repair", packed, folder + "/b.pt").returncode and names_in(folder + "/b.pt") == ["b"]
    return f"{n} files; what is hidden or broken in packed records"


def test_nothing():
    """Models of scalars, of tensors without elements, of none at all: every command has an answer."""
    cases = {
        "scalars": {"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, "b": {"dtype": "I64", "shape": [], "data_offsets": [4, 12]}},
        "without elements": {"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "b": {"dtype": "BF16", "shape": [3, 0, 5], "data_offsets": [0, 0]}},
        "one of none": {"a": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        "nothing": {},
    }
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, rows in cases.items():
            text = json.dumps(rows).encode()
            text += b" " * (-len(text) % 8)
            size = max((r["data_offsets"][1] for r in rows.values()), default=0)
            paths.append(f"{folder}/{name}.safetensors")
            with open(paths[-1], "wb") as f:
                f.write(struct.pack("<Q", len(text)) + text + bytes(size))
        for name, value, keys in (("scalar", {"a": Tensor("0", 1)}, "0"), ("none", {"epoch": 1}, ""), ("nothing", {}, ""), ("only a number", 5, "")):
            paths.append(f"{folder}/{name}.pt")
            write_torch(paths[-1], value, keys)
        for path in paths:
            (r,), code = verify(path, more=["--values"])
            assert not code, (path, r["headline"])
            for verb in ("show", "verify"):
                done = program("ckpt", verb, "--width", "40", path)
                assert not done.returncode and not done.stderr, done
            for other in paths:
                r, code = diff(path, other, "--values")
                assert code == (not r["same"]) and (path != other or r["same"]), (path, other)
                n += 1
            for ending in (".pt", ".safetensors"):
                done = write("convert", path, folder + "/out" + ending)
                tensors = len(names_in(path))
                # A scheduler's state has no tensors: from torch to torch it could not be written.
                keeps = path.endswith(".pt") and ending == ".pt"
                assert done.returncode == (0 if tensors or keeps else 4), (path, done)
                assert tensors or keeps or done.stderr.endswith(b"holds no tensors: nothing to write\n"), done
                if tensors or keeps:
                    assert names_in(folder + "/out" + ending) == names_in(path)
            done = program("ckpt", "seal", path)
            assert not done.returncode and verify(path)[0][0]["verdict"] == "whole", done
    return f"{len(cases) + 4} files, {n} pairs of them"


def test_manifest():
    """Bytes without a checksum are proven by a manifest, and every change is found with it."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/m.safetensors"
        shutil.copy(os.path.join(HERE, "model.safetensors"), path)
        (r,), code = verify(path)
        assert not code and r["verdict"] == "unproven"
        assert not program("ckpt", "seal", path).returncode
        (r,), code = verify(path)
        assert not code and r["verdict"] == "whole" and not r["unprotected_bytes"], r
        with open(path, "rb") as f:
            data = f.read()
        n = 0
        for at in range(len(data) - 300, len(data), 7):
            with open(path, "wb") as f:
                f.write(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:])
            (r,), code = verify(path)
            assert code == 1 and "manifest" in bad_kinds(r), at
            n += 1
        with open(path, "wb") as f:
            f.write(data)
        manifest = path + ".manifest.json"
        for text in ("", "{", "[]", '{"files": 3}', '{"files": [{"name": "m", "bytes": -1, "xxh3": "0"}]}', '{"files": [{}]}',
                     '{"files": [{"name": "a", "bytes": 1, "xxh3": "0123456789abcdeg"}]}'):
            with open(manifest, "w") as f:
                f.write(text)
            (r,), code = verify(path)
            assert r["verdict"] in ("damaged", "unproven"), (text, r["verdict"])
        mixed = os.path.join(folder, "mixed")  # an adapter of rank 4 next to the config of one of rank 8
        shutil.copytree(os.path.join(HERE, "lora_r4"), mixed)
        with open(os.path.join(mixed, "adapter_config.json"), "r+") as f:
            config = json.load(f)
            f.seek(0)
            json.dump({**config, "r": 2 * config["r"]}, f)
            f.truncate()
        for path, warned in ((mixed, 1), (os.path.join(HERE, "lora_r4"), 0)):
            (r,), _ = verify(path)
            assert [f["id"] for f in r["findings"]].count("adapter_rank") == warned, (path, r["findings"])
        whole = os.path.join(folder, "lora_r4")
        shutil.copytree(os.path.join(HERE, "lora_r4"), whole)
        assert not program("ckpt", "seal", whole).returncode
        (r,), code = verify(whole)
        assert not code and r["verdict"] == "whole", r["headline"]
        with open(os.path.join(whole, "adapter_config.json"), "ab") as f:
            f.write(b" ")
        (r,), code = verify(whole)
        assert code == 1 and "manifest" in bad_kinds(r)
        os.unlink(os.path.join(whole, "adapter_config.json"))
        (r,), code = verify(whole)
        assert code == 1 and "missing_file" in bad_kinds(r)
        cut = folder + "/cut.pt"
        with open(os.path.join(HERE, "more", "train.pt"), "rb") as f:
            data = f.read()
        with open(cut, "wb") as f:
            f.write(data[:-50])
        assert program("ckpt", "seal", cut).returncode == 1
        assert not os.path.exists(cut + ".manifest.json")
    return f"{n} flips found by sums; folders and bad manifests"


def last_good(folder, *more):
    done = program("ckpt", "last-good", folder, *more)
    return done.stdout.decode().strip().replace(folder + "/", ""), done.returncode, done.stderr.decode()


def test_last_good():
    good, bad = (os.path.join(HERE, "more", "train.pt"), b"PK\3\4 torn")

    def fill(folder, names, damaged=(), order=None):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for i, name in enumerate(names):
            path = os.path.join(folder, name)
            if "." not in name:
                shutil.copytree(os.path.join(HERE, "lora_r4"), path)
                if name in damaged:
                    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as f:
                        f.write(bad)
            elif name in damaged:
                with open(path, "wb") as f:
                    f.write(bad)
            else:
                shutil.copy(good, path)
            os.utime(path, (10 ** 9 + i, 10 ** 9 + i))

    with tempfile.TemporaryDirectory() as top:
        folder = top + "/out"
        # The number decides within a series, also where a copy has lost the times.
        fill(folder, ["checkpoint-1000", "checkpoint-200", "checkpoint-30"])
        assert last_good(folder)[:2] == ("checkpoint-1000", 0)
        fill(folder, ["epoch=1-step=90.ckpt", "epoch=12-step=10.ckpt", "last.ckpt", "best.ckpt"], damaged=["best.ckpt"])
        assert last_good(folder)[:2] == ("last.ckpt", 0)
        fill(folder, ["step_9.pt", "step_10.pt", "step_11.pt"], damaged=["step_11.pt"])
        out, code, err = last_good(folder)
        assert (out, code) == ("step_10.pt", 0) and err.count("\n") == 1 and "step_11.pt" in err, (out, err)
        fill(folder, ["a.pt"], damaged=["a.pt"])
        assert last_good(folder)[:2] == ("", 1) and last_good(folder, "--keep", "1")[:2] == ("", 1)
        assert os.listdir(folder) == ["a.pt"]
        assert last_good(os.path.join(HERE, "lora_r4"))[1] == 2 and last_good(top + "/none")[1] == 3

        names = [f"step_{i}-val_loss={abs(i - 3) + 0.5}.pt" for i in range(8)]
        fill(folder, names, damaged=[names[6], names[1]])
        before = sorted(os.listdir(folder))
        out, code, err = last_good(folder, "--keep", "2", "--dry-run")
        assert out == names[7] and sorted(os.listdir(folder)) == before and "would be removed" in err
        out, code, err = last_good(folder, "--keep", "2")
        # 7 and 5 are good, 6 is damaged but newer than them, 3 is the best.
        assert out == names[7] and sorted(os.listdir(folder)) == sorted(names[i] for i in (3, 5, 6, 7)), os.listdir(folder)
        fill(folder, names)
        os.symlink(names[0], folder + "/best")
        assert not last_good(folder, "--keep", "1")[1]
        assert sorted(os.listdir(folder)) == sorted(["best", names[0], names[3], names[7]]), os.listdir(folder)
        # What is called otherwise may be anything that someone saved: it is neither counted nor removed.
        fill(folder, ["train_data.pt", "step_1.pt", "step_2.pt", "step_3.pt", "last.ckpt"])
        assert last_good(folder, "--keep", "2")[:2] == ("last.ckpt", 0)
        assert sorted(os.listdir(folder)) == ["last.ckpt", "step_2.pt", "step_3.pt", "train_data.pt"], os.listdir(folder)
        # Fewer good ones than asked for: nothing goes.
        fill(folder, names[:4], damaged=names[:3])
        assert last_good(folder, "--keep", "2")[:2] == (names[3], 0) and len(os.listdir(folder)) == 4
        # Folders go as a whole, and links in them are not followed.
        fill(folder, ["checkpoint-1", "checkpoint-2", "checkpoint-3"])
        os.makedirs(folder + "/.plimsoll.removed.checkpoint-1/left")  # by one that was killed
        os.mkdir(top + "/other")
        with open(top + "/other/file", "w") as f:
            f.write("stays")
        os.symlink(top + "/other", folder + "/checkpoint-1/link")
        os.mkdir(folder + "/checkpoint-1/below")
        with open(folder + "/checkpoint-3/trainer_state.json", "w") as f:
            json.dump({"best_model_checkpoint": "somewhere/else/out/checkpoint-2"}, f)
        assert last_good(folder, "--keep", "1")[:2] == ("checkpoint-3", 0)
        assert sorted(os.listdir(folder)) == ["checkpoint-2", "checkpoint-3"] and os.listdir(top + "/other") == ["file"]
        # What a word does not call progress shows runs apart: the last of the other fold is not an old one.
        fill(folder, [f"fold{k}_epoch{i}.pt" for i in range(3) for k in range(2)])
        assert not last_good(folder, "--keep", "1")[1]
        assert sorted(os.listdir(folder)) == ["fold0_epoch0.pt", "fold0_epoch1.pt", "fold0_epoch2.pt", "fold1_epoch2.pt"], os.listdir(folder)
        # A measure that no one knows the better end of: both are kept; a fraction that never changes is none.
        names = [f"v1.5-epoch={i}-val_mae=0.{m}1.ckpt" for i, m in enumerate((4, 7, 3, 1, 6, 5))]
        fill(folder, names)
        assert not last_good(folder, "--keep", "1")[1]
        assert sorted(os.listdir(folder)) == sorted([names[1], names[3], names[5]]), os.listdir(folder)
        # A link into a folder chooses that folder.
        fill(folder, ["checkpoint-1", "checkpoint-2", "checkpoint-3"])
        os.symlink("checkpoint-1/adapter_model.safetensors", folder + "/best.safetensors")
        assert not last_good(folder, "--keep", "1")[1]
        assert sorted(os.listdir(folder)) == ["best.safetensors", "checkpoint-1", "checkpoint-3"], os.listdir(folder)
    return "order, damage, retention, links"


def has_entered(log, call):
    """Whether strace has written the start of that call, which it does before the delay that it puts in front."""
    try:
        with open(log, encoding="latin-1") as f:
            return call + "(" in f.read()
    except FileNotFoundError:
        return False


def test_last_good_meanwhile():
    """A job goes on writing while the folder is thinned out: the first read is held up, and what changes then must count."""
    if not shutil.which("strace"):
        return "SKIP no strace"
    good = os.path.join(HERE, "more", "train.pt")

    def run(change):
        with tempfile.TemporaryDirectory() as top:
            folder = top + "/out"
            os.mkdir(folder)
            for i in range(1, 5):
                shutil.copy(good, f"{folder}/step_{i}.pt")
            job = subprocess.Popen(["strace", "-f", "-o", top + "/log", "-e", "trace=fadvise64", "-e",
                                    "inject=fadvise64:delay_enter=1500000:when=1", PROGRAM, "ckpt", "last-good", folder, "--keep", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=NO_LEAKS)
            while job.poll() is None and not has_entered(top + "/log", "fadvise64"):
                time.sleep(0.01)
            change(folder)
            out, err = job.communicate(timeout=600)
            return sorted(os.listdir(folder)), out.decode().replace(folder + "/", "").strip(), job.returncode, err.decode()

    if run(lambda folder: None)[:2] != (["step_4.pt"], "step_4.pt"):
        return "SKIP strace may not trace here"
    # The one that was good is gone, or another: those before it are the last good ones.
    left, _, code, err = run(lambda folder: os.unlink(folder + "/step_4.pt"))
    assert left == ["step_1.pt", "step_2.pt", "step_3.pt"] and code == 3 and "step_4.pt" in err, (left, code, err)

    def replace(name):
        def change(folder):
            with open(folder + "/new", "wb") as f:
                f.write(b"torn")
            os.rename(folder + "/new", folder + "/" + name)
        return change

    left, _, code, err = run(replace("step_4.pt"))
    assert len(left) == 4 and code == 3, (left, code, err)
    # A job that goes round in a few names: the oldest by its number has just been written.
    assert run(replace("step_1.pt"))[0] == ["step_1.pt", "step_4.pt"]
    assert run(lambda folder: os.symlink("step_2.pt", folder + "/best"))[0] == ["best", "step_2.pt", "step_4.pt"]
    return "what vanishes, is replaced or chosen while it runs"


# What may fail, and how, besides being killed.
FAULTS = {"openat": ("ENOSPC", "EROFS", "EACCES"), "fallocate": ("ENOSPC", "EDQUOT"), "write": ("ENOSPC", "EIO"),
          "ftruncate": ("EIO",), "fsync": ("EIO", "ENOSPC"), "pread64": ("EIO",), "close": ("EIO",), "renameat": ("EACCES", "EIO"),
          "linkat": ("EACCES", "ENOSPC"), "fcntl": ("EMFILE", "ENOLCK"), "unlink": ("EACCES",), "newfstatat": ("EIO",)}


def strace(folder, target, *inject):
    source = os.path.join(HERE, "lora_r4")
    log = folder + ".log"
    done = subprocess.run(["strace", "-f", "-o", log, *inject, PROGRAM, "ckpt", "convert", source, "-o", target],
                          capture_output=True, timeout=600, env=NO_LEAKS)
    with open(log, encoding="latin-1") as f:
        lines = f.read().splitlines()
    os.unlink(log)
    return done, lines


def calls_of_the_write(lines, folder):
    """(name, which of that name) of each call of the main thread that looks at the folder, and of all from its opening on.

    Between the looks, which -o takes first, the input is read: what fails there is not a write's.
    """
    main, counts, out, writes = lines[0].split()[0], {}, [], False
    for line in lines:
        pid, rest = line.split(None, 1)
        name = rest.split("(")[0]
        if pid != main or "(" not in rest or not name.isidentifier():
            continue
        counts[name] = counts.get(name, 0) + 1
        writes |= name == "openat" and folder in rest
        if writes or folder + "/" in rest and name != "execve":
            out.append((name, counts[name]))
    return out


def named_temporaries(folder, target):
    """Where no file can be without a name: each kill leaves one, which stays while its writer lives, and goes with the next write."""
    _, lines = strace(folder, target, "-e", "trace=openat")
    nameless = [i for i, l in enumerate((l for l in lines if " openat(" in l), 1) if "O_TMPFILE" in l]
    if not nameless:
        return 0
    refused = ["-e", "inject=openat:error=EOPNOTSUPP:when=%d" % nameless[0]]
    left = lambda: [x for x in os.listdir(folder) if x.endswith(".tmp")]
    for call in ("fsync", "pread64", "renameat"):
        for which in range(1, 3):
            strace(folder, target, "-e", f"trace=openat,{call}", *refused, "-e", f"inject={call}:signal=KILL:when={which}")
    assert left(), "nothing was ever left: does the test still see the way with names?"
    assert len(left()) == 1, ("each write removes what the one before left", left())
    # One that is in use stays.
    held = os.open(os.path.join(folder, left()[0]), os.O_RDWR)
    fcntl.fcntl(held, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))  # F_OFD_SETLK
    assert not write("convert", os.path.join(HERE, "lora_r4"), target).returncode and len(left()) == 1
    os.close(held)
    assert not write("convert", os.path.join(HERE, "lora_r4"), target).returncode and not left()
    return 6


def test_durable_order():
    """The bytes are on the disk before the name is theirs, and the name is on the disk before anybody is reported so."""
    if not shutil.which("strace"):
        return "SKIP no strace"
    with tempfile.TemporaryDirectory() as top:
        folder, target = top + "/out", top + "/out/x.safetensors"
        os.mkdir(folder)
        done, lines = strace(folder, target, "-y", "-e", "trace=fsync,renameat,renameat2,write")
        if done.returncode:
            return "SKIP strace may not trace here"
    calls = [re.match(r"\d+ +(\w+)\((.*)\) += (-?\d+)", l) for l in lines]
    calls = [(c[1], c[2]) for c in calls if c and folder in c[2]]
    names = [i for i, (call, what) in enumerate(calls) if call.startswith("rename") and "x.safetensors\"" in what]
    assert len(names) == 1, calls
    before, after = calls[:names[0]], calls[names[0] + 1:]
    written = [i for i, (call, _) in enumerate(before) if call == "write"]
    synced = [i for i, (call, what) in enumerate(before) if call == "fsync" and not what.endswith(f"<{folder}>")]
    assert written and synced and max(synced) > max(written), ("renamed before the bytes were on the disk", calls)
    assert any(call == "fsync" and what.endswith(f"<{folder}>") for call, what in after), ("the folder was not synced", calls)
    return "bytes, fsync, name, fsync of the folder"


def test_durable():
    """Killed at every system call of a write, or failed with what may fail there: the old file or the new one, whole."""
    if not shutil.which("strace"):
        return "SKIP no strace"
    n, litter, ends = 0, 0, {"old": 0, "new": 0}
    with tempfile.TemporaryDirectory() as top:
        folder = top + "/out"
        os.mkdir(folder)
        target = folder + "/x.safetensors"
        assert not write("convert", os.path.join(HERE, "lora_r4"), target).returncode
        with open(target, "rb") as f:
            new = f.read()
        # The old one has a manifest, which must stay right for whichever file stands.
        before = top + "/before.safetensors"
        assert not write("convert", os.path.join(HERE, "model.safetensors"), before).returncode
        with open(before, "rb") as f:
            old = f.read()
        shutil.copy(before + ".manifest.json", target + ".manifest.json")
        done, lines = strace(folder, target)
        if done.returncode:
            return "SKIP strace may not trace here"
        calls = calls_of_the_write(lines, folder)
        assert {"openat", "write", "fsync", "renameat", "pread64"} <= {c for c, _ in calls}, calls
        for call, which in calls:
            for what in ("signal=KILL", *("error=" + e for e in FAULTS.get(call, ()))):
                shutil.copy(before, target)
                shutil.copy(before + ".manifest.json", target + ".manifest.json")
                done, lines = strace(folder, target, "-e", f"trace={call}", "-e", f"inject={call}:{what}:when={which}")
                with open(target, "rb") as f:
                    now = f.read()
                assert now in (old, new), (call, what, which, len(now))
                ends["old" if now == old else "new"] += 1
                left = [x for x in os.listdir(folder) if not x.startswith("x.safetensors")]
                if "KILL" not in what:
                    assert not left or call in ("unlinkat", "close"), (call, what, which, left)
                    # Exit code 0 if the new file is there, else one line on stderr.
                    assert done.returncode == 0 or done.stderr.count(b"\n") == 1, (call, what, which, done)
                    assert done.returncode or now == new, (call, what, which)
                (r,), code = verify(target)
                assert not code and r["verdict"] == "whole", (call, what, which, r["headline"])
                if left:  # has a name for the two calls of linkat and renameat; the next write removes it
                    litter += 1
                    assert not write("convert", os.path.join(HERE, "lora_r4"), target).returncode
                    assert {x for x in os.listdir(folder)} == {"x.safetensors", "x.safetensors.manifest.json"}, os.listdir(folder)
                n += 1
        assert ends["old"] and ends["new"] and 0 < litter < 12, (ends, litter)
        n += named_temporaries(folder, target)
        read_only = top + "/ro"
        os.mkdir(read_only, 0o555)
        if os.getuid():
            done = write("convert", os.path.join(HERE, "lora_r4"), read_only + "/x.safetensors")
            assert done.returncode == 3 and b"untouched" in done.stderr, done
    return f"{n} faults at {len(calls)} calls: {ends['old']} times the old file, {ends['new']} times the new one, never a part"


TESTS = [test_good, test_flips, test_flips_in_tensors, test_mutations, test_truncation, test_hostile, test_shards, test_folders,
         test_distributed, test_parts, test_embedded, test_safetensors, test_memory, test_values, test_repeats, test_made, test_require, test_torch, test_script, test_odd, test_cache, test_getattr, test_decimals,
         test_directory, test_others, test_diff, test_diff_sizes, test_config, test_extract, test_words, test_weights, test_convert,
         test_state, test_deflated, test_nothing,
         test_manifest, test_last_good, test_last_good_meanwhile, test_durable_order, test_durable]


def main():
    failed = 0
    only = os.environ.get("ONLY")
    tests = [t for t in TESTS if not only or t.__name__ == "test_" + only]
    print(f"1..{len(tests)}")
    for i, test in enumerate(tests, 1):
        try:
            said = test()
            note = " # SKIP" + said[4:] if said.startswith("SKIP") else f" - {said}"
            print(f"ok {i} {test.__name__[5:]}{note}", flush=True)
        except AssertionError as e:
            failed = 1
            where = traceback.extract_tb(e.__traceback__)[-1].lineno
            print(f"not ok {i} {test.__name__[5:]}\n# line {where}: {str(e)[:1500]}", flush=True)
    return failed


sys.exit(main())
