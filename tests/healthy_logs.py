#!/usr/bin/env python3
"""healthy_logs.py PLIMSOLL: 255 logs of runs that went well, each with words that are near to a failure of memory.

200 are made here and 55 stand in healthy_logs.txt, from what trainers, servers and schedulers write on a good day; `why` must find nothing in any.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

plimsoll = sys.argv[1]
EACH = 8  # logs of a kind


def bars(r):
    return "".join(f"Epoch {e}:  {k}%|####| {k}/100 [00:{k:02d}<00:40, {r.uniform(1, 9):.2f}it/s, loss={r.uniform(.1, 3):.3f}]\r"
                   for e in range(2) for k in range(0, 100, 9)) + "\n"


def trainer(r):
    return "***** Running training *****\n  Num examples = 51200\n  Total train batch size = 64\n" + "".join(
        f"{{'loss': {r.uniform(.5, 2):.4f}, 'grad_norm': {r.uniform(.1, 2):.3f}, 'learning_rate': 5e-05, 'epoch': {i / 10}}}\n" for i in range(9)
    ) + "Saving model checkpoint to out/checkpoint-500\nTraining completed.\n"


def lightning(r):
    return ("GPU available: True (cuda), used: True\n`Trainer.fit` stopped: `max_epochs=3` reached.\n"
            f"Epoch 2: 100%|##| 391/391 [00:21<00:00, {r.uniform(9, 30):.2f}it/s, v_num=0, train_loss={r.random():.3f}]\n")


def vllm(r):
    gib = r.uniform(8, 60)
    return (f"INFO 10-02 08:01:11 [gpu_worker.py:298] Available KV cache memory: {gib:.2f} GiB\n"
            f"INFO 10-02 08:01:11 [kv_cache_utils.py:1087] GPU KV cache size: {int(gib * 8000):,} tokens\n"
            "INFO [core.py] CUDA graphs can take additional 1~3 GiB memory per GPU. If you are running out of memory, consider "
            "decreasing `gpu_memory_utilization` or enforcing eager mode.\n"
            f"INFO:     127.0.0.1:{r.randint(30000, 60000)} - \"POST /v1/completions HTTP/1.1\" 200 OK\n")


def sglang(r):
    return (f"[2025-03-02 11:02:12 TP0] Memory pool end. avail mem={r.uniform(4, 20):.2f} GB\n"
            f"[2025-03-02 11:02:40 TP0] Decode batch. #running-req: {r.randint(1, 90)}, #token: {r.randint(900, 90000)}, token usage: 0.41\n")


def llama(r):
    return (f"load_tensors: offloaded {r.randint(20, 40)}/41 layers to GPU\nload_tensors:        CUDA0 model buffer size = {r.uniform(3000, 9000):.2f} MiB\n"
            "llama_context: n_batch = 2048\nllama_context: n_ubatch = 512\nmain: server is listening on http://127.0.0.1:8080\n"
            f"slot print_timing: eval time = {r.uniform(100, 900):.2f} ms / 128 tokens\n")


def ollama(r):
    return (f"time=2025-02-11T21:14:03.512Z level=INFO source=server.go:105 msg=\"system memory\" total=\"{r.randint(16, 128)}.0 GiB\" free=\"9.1 GiB\" "
            "free_swap=\"2.0 GiB\"\ntime=2025-02-11T21:14:09.512Z level=INFO source=server.go:596 msg=\"llama runner started in 3.02 seconds\"\n"
            "[GIN] 2025/02/11 - 21:14:20 | 200 |  4.1s | 127.0.0.1 | POST \"/api/chat\"\n")


def comfy(r):
    return (f"Total VRAM {r.randint(8000, 24000)} MB, total RAM 65298 MB\nSet vram state to: NORMAL_VRAM\ngot prompt\nRequested to load Flux\n"
            f"loaded partially {r.uniform(4000, 9000):.1f} 5167.0 0\n100%|##########| 20/20 [00:31<00:00,  1.56s/it]\nPrompt executed in {r.uniform(9, 60):.2f} seconds\n")


def a1111(r):
    return ("Launching Web UI with arguments: --medvram --xformers\nApplying attention optimization: xformers... done.\n"
            f"Model loaded in {r.uniform(3, 9):.1f}s.\n100%|##########| 28/28 [00:12<00:00,  2.2it/s]\nTotal progress: 100%|##| 28/28\n")


def tensorflow(r):
    return (f"2021-03-11 09:00:11.120 I tensorflow/core/common_runtime/gpu/gpu_device.cc:1525] Created device /job:localhost/device:GPU:0 with {r.randint(8000, 38000)} MB memory\n"
            "2021-03-11 09:00:12.120 W tensorflow/core/common_runtime/bfc_allocator.cc:248] Allocator (GPU_0_bfc) ran out of memory trying to allocate "
            f"{r.uniform(1, 5):.2f}GiB with freed_by_count=0. The caller indicates that this is not a failure, but this may mean that there could be performance gains.\n"
            f"Epoch 3/20\n100/100 [====] - 12s - loss: {r.random():.4f}\n")


def tf_memory(r):
    return (f"2021-03-11 W tensorflow/core/framework/cpu_allocator_impl.cc:80] Allocation of {r.randint(10**8, 10**9)} exceeds 10% of free system memory.\n"
            "step 100 loss 0.3\nstep 200 loss 0.2\ndone\n")


def jax(r):
    return (f"I0101 train.py:88] step {r.randint(100, 900)}: loss={r.random():.4f}, steps/sec=3.1\n"
            "XLA_PYTHON_CLIENT_PREALLOCATE=false\nI0101 checkpoint saved\n")


def triton(r):
    return (f"I0812 07:30:11.221 1 pinned_memory_manager.cc:277] Pinned memory pool is created at '0x7f1c' with size {r.randint(10**8, 10**9)}\n"
            "W0812 07:31:11.100 1 memory.cc:212] failed to allocate pinned system memory, falling back to non-pinned system memory\n"
            "I0812 07:31:12.001 1 http_server.cc:4704] Started HTTPService at 0.0.0.0:8000\n")


def tensorrt(r):
    return (f"[TRT] [W] Skipping tactic 0x{r.randint(0, 99):016x} due to insufficient memory on requested size of {r.randint(10**9, 10**10)} detected for tactic.\n"
            "[TRT] [I] Total GPU memory: 15 MiB\n[TRT] [I] Engine generated in 81.2 seconds.\n&&&& PASSED TensorRT.trtexec\n")


def deepspeed(r):
    ma = r.uniform(2, 40)
    return (f"[2024-03-05 02:11:09,121] [INFO] [utils.py:801:see_memory_usage] MA {ma:.2f} GB         Max_MA {ma:.2f} GB         CA {ma + 1:.1f} GB         Max_CA 42 GB \n"
            f"[2024-03-05 02:11:09,121] [INFO] [utils.py:808:see_memory_usage] CPU Virtual Memory:  used = {r.uniform(10, 200):.2f} GB, percent = 40.1%\n"
            "[2024-03-05] [WARNING] [stage3.py:1949:step] 2 pytorch allocator cache flushes since last step. this happens when there is high memory pressure\n"
            "step=40, skipped=0, lr=[1e-05]\n[launch.py:351:main] Process 4711 exits successfully.\n")


def slurm(r):
    return (f"       JobID    JobName      State ExitCode     MaxRSS     ReqMem\n------------ ---------- ---------- -------- ---------- ----------\n"
            f"{r.randint(1000, 9000)}.batch       train  COMPLETED      0:0  {r.randint(10**6, 9 * 10**6)}K        64G\n"
            f"Memory Utilized: {r.uniform(1, 60):.2f} GB\nMemory Efficiency: {r.uniform(5, 90):.2f}% of 64.00 GB\nState: COMPLETED (exit code 0)\n")


def kubernetes(r):
    return (f"State:          Running\n  Started:      Fri, 01 Mar 2024 10:00:00 +0000\nReady:          True\nRestart Count:  0\nLimits:\n  memory:  {r.randint(4, 64)}Gi\n"
            "Last State:     Terminated\n  Reason:       Completed\n  Exit Code:    0\nNormal  Killing  kubelet  Container finished\n")


def inspect(r):
    return json.dumps({"State": {"Status": "exited", "OOMKilled": False, "Dead": False, "Pid": 0, "ExitCode": 0}, "Memory": r.randint(1, 9) << 30}, indent=1) + "\n"


def pytest_run(r):
    return (f"tests/test_oom.py::test_out_of_memory_is_reported PASSED [ {r.randint(1, 99)}%]\ntests/test_oom.py::test_oom_killer_message PASSED\n"
            "=========== 42 passed in 3.21s ===========\n")


def prose(r):
    return (f"# Notes {r.randint(1, 99)}\nIf you run out of memory, lower the batch size or turn on gradient checkpointing. A job that ends with exit code 137 was\n"
            "killed. `except torch.cuda.OutOfMemoryError:` catches it; expandable_segments helps against fragmentation.\n")


def source_code(r):
    return (f"try:\n    y = model(x[:{r.randint(1, 64)}])\nexcept RuntimeError as e:\n    if 'out of memory' in str(e):\n        torch.cuda.empty_cache()\n    else:\n        raise\n")


def nvidia_smi(r):
    return (f"|   0  NVIDIA A100-SXM4-80GB  On | 00000000:07:00.0 Off |  0 |\n| N/A   33C    P0   62W / 400W |  {r.randint(400, 80000)}MiB / 81920MiB |   99%  Default |\n"
            "|    0   N/A  N/A    4711      C   python                    61000MiB |\n")


def nccl(r):
    return (f"node{r.randint(0, 9)}:991:1022 [0] NCCL INFO Channel 00/02 : 0 1\nnode1:991:1022 [0] NCCL INFO comm 0x55 rank 0 nranks 2 - Init COMPLETE\n"
            "node1:991:1022 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled\n")


def ray(r):
    return (f"(raylet) node_manager.cc:3064: 0 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node {r.randint(1, 9)}\n"
            "== Status ==\nMemory usage on this node: 30.1/62.8 GiB\nResult: best loss 0.31\n")


def restart(r):
    return (f"2024-01-01 torch.distributed.elastic INFO: worker group started, restart_count={r.randint(0, 3)}\nINFO: local rank 0 ready\nstep 12/500 loss 1.2\n"
            "INFO: agent finished: SUCCEEDED\n")


KINDS = [bars, trainer, lightning, vllm, sglang, llama, ollama, comfy, a1111, tensorflow, tf_memory, jax, triton, tensorrt, deepspeed, slurm,
         kubernetes, inspect, pytest_run, prose, source_code, nvidia_smi, nccl, ray, restart]


def main():
    random_source = random.Random(18)
    logs = [(kind.__name__, kind(random_source) * random_source.randint(1, 4)) for kind in KINDS for _ in range(EACH)]
    with open(os.path.splitext(__file__)[0] + ".txt", encoding="utf-8") as f:
        logs += [text.split("\n", 1) for text in re.split("^=== ", f.read(), flags=re.M)[1:]]
    failures = []
    for name, text in logs:
        with tempfile.NamedTemporaryFile("w", suffix=".log") as f:
            f.write(text)
            f.flush()
            done = subprocess.run([plimsoll, "why", "--json", f.name], capture_output=True, text=True, timeout=600)
        outcome = json.loads(done.stdout)["outcome"] if done.stdout else done.stderr.strip()
        if outcome != "nothing":
            failures.append(f"{name}: {outcome}: {text[:300]}")
    print("\n".join(failures) or f"{len(logs)} healthy logs, none disturbed")
    return bool(failures) or len(logs) < 255


sys.exit(main())
