"""The recorded jobs of tests/data/watch and of the packed tests/data/watch_runs: what holds each kind back, and when."""
import json
import lzma
import os
import tarfile

# What holds each kind of job of tests/data/watch back.  healthy_loader is still warming up when its recording ends.
TRUTH = {"healthy": "compute_bound", "healthy_loader": "compute_bound", "copy": "copy_bound", "generate": "launch_bound",
         "launch": "launch_bound", "sync": "sync_bound", "python": "main_python", "hostleak": "main_system",
         "input_cpu": "input_cpu", "input_disk": "input_disk", "input_sleep": "input_source", "input_main": "input_main",
         "save": "saving", "leak": "sleeping", "hold": "idle", "evalphases": "compute_bound",
         "encoder": "compute_bound", "offload": "copy_bound", "lstm": "launch_bound", "thin": "busy_thin", "input_net": "input_source",
         "throttled": "throttled",
         "serve": "undecided",  # serve answers a request now and then: no rule is for it
         "gemm16": "compute_bound", "unet": "compute_bound", "evalturns": "compute_bound", "bpe": "input_main main_python",
         "tinyfiles": "input_disk", "onloader": "input_cpu", "pipes": "input_source", "slowfs": "input_source", "mobile": "launch_bound",
         "itemconv": "sync_bound", "pageable": "copy_bound", "streamed": "copy_bound", "shards": "saving", "slowlstm": "busy_thin",
         "polling": "sleeping", "notebook": "idle", "bursts": "undecided", "quota": "throttled", "onecore": "throttled input_cpu",
         "mmaps": "main_system", "bincount": "main_python", "nccl_late_rank0": "undecided", "nccl_late_rank1": "input_main",
         "nccl_wide_rank0": "undecided", "nccl_wide_rank1": "undecided",
         "longattn": "compute_bound", "llama": "compute_bound", "httpsrc": "input_source input_unknown", "gptgen": "launch_bound",
         "masked": "sync_bound", "melworkers": "input_cpu", "pinnedcopy": "copy_bound", "threadtrain": "launch_bound",
         "mapfile": "input_disk", "rollouts": "main_python", "zeroed": "main_system", "threadpool": "input_main input_unknown",
         "crowded": "throttled", "itemgrad": "sync_bound", "cfsworkers": "throttled input_cpu", "zipsave": "saving main_python",
         "features": "copy_bound", "sampler": "launch_bound", "textworkers": "input_cpu",
         "mainread": "input_disk input_main input_unknown", "ratelimit": "sleeping", "coldbuild": "starting",
         "asyncserve": "undecided sleeping", "cropmain": "input_main", "coldload": "starting", "evalcpu": "undecided",
         # mpqueue: its producers wait a third of their time for room in the queue; coldvocab: neighbours run kernels on its GPU
         "spectra": "compute_bound", "tables": "compute_bound", "conv3d": "compute_bound", "bert1": "launch_bound",
         "gnn": "launch_bound", "perparam": "launch_bound", "beam": "sync_bound", "cpuloss": "sync_bound launch_bound",
         "uploads": "copy_bound", "swapped": "copy_bound", "jsonlog": "main_python", "copybig": "main_system",
         "forker": "main_system undecided", "odirect": "input_disk", "mpqueue": "main_system input_cpu",
         "aiosrc": "input_source input_unknown", "locked": "input_unknown input_cpu",
         "aftermath": "input_main main_python main_system", "cfspython": "throttled", "dcpsave": "saving", "npzsave": "saving",
         "heartbeat": "idle sleeping", "stopped": "idle", "selecting": "sleeping", "coldvocab": "starting undecided",
         # stat_storm: two thirds of its time is Python's; line_search: four fifths of its clock's time hand out kernels
         "trainer_audio": "input_cpu", "zip_workers": "input_cpu", "two_cores": "throttled input_cpu", "tar_shards": "input_disk",
         "threaded_stream": "input_source input_unknown", "packing_main": "input_main", "save_pretrained": "saving",
         "volumes": "copy_bound", "paged_adam": "copy_bound", "lightning_convnext": "compute_bound", "dit_sampling": "compute_bound",
         "lora_checkpointed": "compute_bound", "ctc_speech": "busy_thin", "maml": "launch_bound", "t5_generate": "launch_bound",
         "line_search": "launch_bound", "stat_storm": "main_python", "edit_distance_eval": "main_python", "shard_poller": "sleeping",
         "idle_server": "idle sleeping", "debugger": "idle", "load_checkpoint": "starting", "recompiling": "starting main_python",
         # saved_on_cpu: without its copies it is 2.4 times as fast; retrieval: two thirds of its clock's time hand out kernels
         "pool_preprocess": "starting input_cpu", "mcts": "main_python", "event_poller": "sleeping idle", "noisy_neighbours": "throttled",
         "json_main": "input_main", "hf_trainer": "compute_bound", "row_medians": "busy_thin", "amp_scaler_vit": "launch_bound",
         "jpeg_workers": "input_cpu", "power_iteration": "sync_bound", "retrieval": "launch_bound", "graphed_cells": "busy_thin",
         "saved_on_cpu": "copy_bound", "kv_store": "input_source", "dump_embeddings": "saving", "console": "idle",
         "patch_sampler": "input_main", "perplexity": "compute_bound", "trainer_tiny_bert": "launch_bound",
         "safetensors_shards": "input_disk"}
# Without GPM these four look alike, and no more is said.
PACED = {"launch_bound", "sync_bound", "copy_bound", "input_main", "main_python"}
SETTLED = 2.1  # seconds after the first kernel: what a window leaves out, and most of a window
SLOW = 5  # of those that were recorded once a second
GOES_ON = 3  # of those that had worked before they were looked at


def had_worked(path):
    return any(run in path for run in ("_run6", "_run7", "_run8", "_run9", "_run10"))


def recordings(data, scratch):
    """Paths of all recordings; what is packed is unpacked into the folder `scratch`."""
    folder, packed = (os.path.join(data, name) for name in ("watch", "watch_runs"))
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    for name in os.listdir(packed):
        with tarfile.open(os.path.join(packed, name)) as tar:
            for member in tar:
                paths.append(os.path.join(scratch, os.path.basename(member.name)))
                with open(paths[-1], "wb") as f:
                    f.write(tar.extractfile(member).read())
    return sorted(paths, key=os.path.basename)


def samples(path):
    with lzma.open(path, "rt") as f:
        return [row for row in map(json.loads, f) if "t" in row]


def recorded(data, name):
    """Samples of one recording, packed or not."""
    path = os.path.join(data, "watch", name + ".jsonl.xz")
    if os.path.exists(path):
        return samples(path)
    with tarfile.open(os.path.join(data, "watch_runs", name.rsplit("_", 1)[1] + ".tar")) as tar:
        return samples(tar.extractfile(name + ".jsonl.xz"))


def span_of_work(path, kind, rows):
    """When the job did what it is known for; None: it did not come so far."""
    if had_worked(path):
        return rows[0]["t"] + 1, rows[-1]["t"]
    if kind == "hold":
        times = [r["t"] for r in rows if r["used"] > 9e9]
        return (times[0] + 3, times[-1]) if times else None
    busy = [r["t"] for r in rows if r.get("gpm", {}).get("sm_util", 0) > 0.05]
    return (busy[0], busy[-1]) if busy else None


def settled(path):
    """Seconds behind the beginning of the work from which a window holds nothing else."""
    if had_worked(path):
        return GOES_ON
    return SETTLED if "_run1." in path or "_run2." in path else SLOW
