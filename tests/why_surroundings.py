#!/usr/bin/env python3
"""why_surroundings.py PLIMSOLL TESTS [--list]: what `why` says of a text does not depend on what stands around it.

Each text of TESTS/messages is given once more under every change below: with blocks that people paste above an error, as
terminals and containers copy it.  Which memory, the moment and the first advice must stay as they are.  --list prints every
violation, else the first 20.
"""
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys

TRL_ENV = """\
- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.31
- Python version: 3.10.14
- TRL version: 0.17.0.dev0
- PyTorch version: 2.5.1
- CUDA device(s): NVIDIA A100-SXM4-80GB, NVIDIA A100-SXM4-80GB
- Transformers version: 4.51.3
- Accelerate version: 1.6.0
- Accelerate config: not found
- Datasets version: 3.5.0
- HF Hub version: 0.30.2
- bitsandbytes version: not installed
- DeepSpeed version: not installed
- Diffusers version: not installed
- Liger-Kernel version: not installed
- LLM-Blender version: not installed
- OpenAI version: not installed
- PEFT version: 0.15.2
- vLLM version: not installed

"""
TRANSFORMERS_ENV = """\
- `transformers` version: 4.51.3
- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.31
- Python version: 3.11.9
- Huggingface_hub version: 0.30.2
- Safetensors version: 0.5.3
- Accelerate version: 1.6.0
- DeepSpeed version: 0.16.4
- PyTorch version (GPU?): 2.5.1+cu124 (True)
- Tensorflow version (GPU?): not installed (NA)
- Flax version (CPU?/GPU?/TPU?): not installed (NA)
- Jax version: not installed
- JaxLib version: not installed
- Using distributed or parallel set-up in script?: no
- Using GPU in script?: yes

"""
COLLECT_ENV = """\
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
OS: Ubuntu 22.04.4 LTS (x86_64)
GPU models and configuration: GPU 0: NVIDIA A100-SXM4-80GB
Nvidia driver version: 550.54.15
Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] onnx==1.17.0
[pip3] onnxruntime-gpu==1.20.0
[pip3] torch==2.5.1
[pip3] torchvision==0.20.1
[pip3] triton==3.1.0
[conda] numpy                     1.26.4                   pypi_0    pypi
vLLM Version: 0.6.5

"""
PIP_LIST = """\
Package                           Version
--------------------------------- -------------
accelerate                        1.6.0
bitsandbytes                      0.45.5
deepspeed                         0.16.4
jax                               0.4.35
llama_cpp_python                  0.3.8
sglang                            0.4.5
tensorflow                        2.18.0
tensorrt-llm                      0.17.0
torch                             2.5.1
vllm                              0.8.4
xformers                          0.0.28

"""
FACTORY_ENV = """\
- `llamafactory` version: 0.9.3.dev0
- Platform: Linux-5.15.0-105-generic-x86_64-with-glibc2.31
- Python version: 3.10.14
- PyTorch version: 2.5.1+cu124 (GPU)
- Transformers version: 4.51.3
- Datasets version: 3.5.0
- Accelerate version: 1.6.0
- PEFT version: 0.15.1
- TRL version: 0.9.6
- GPU type: NVIDIA A100-SXM4-80GB
- DeepSpeed version: 0.16.4
- vLLM version: 0.8.4

"""
SMI = """\
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    6   N/A  N/A      1893      G   /usr/lib/xorg/Xorg                            110MiB |
|    7   N/A  N/A      4077      C   python -m vllm.entrypoints.openai            9120MiB |
|    7   N/A  N/A      5120      C   /usr/local/bin/ollama                        4120MiB |
+-----------------------------------------------------------------------------------------+

"""
REQUIREMENTS = "vllm==0.6.5\nsglang==0.3.5\nllama-cpp-python==0.3.8\n\n"
FOREIGN_PATHS = "wandb: Run data is saved locally in /mnt/vllm/runs/exp7/wandb\nDownloading to /data/ollama/ComfyUI/models\n\n"


def above(block):
    return lambda text: block + text


def below(block):
    return lambda text: text.rstrip("\n") + "\n\n" + block


def numbered(text, prefix):
    return "".join(prefix + line + "\n" for line in text.splitlines())


def wrapped(text):
    """As a terminal of 80 columns breaks lines, and a copy keeps the breaks."""
    return "".join(line[i:i + 80] + "\n" for line in text.splitlines() for i in range(0, max(len(line), 1), 80))


CHANGES = {
    "trl env": above(TRL_ENV),
    "transformers env": above(TRANSFORMERS_ENV),
    "collect_env": above(COLLECT_ENV),
    "pip list": below(PIP_LIST),
    "llamafactory-cli env": above(FACTORY_ENV),
    "nvidia-smi": below(SMI),
    "requirements": above(REQUIREMENTS),
    "foreign paths": above(FOREIGN_PATHS),
    "same model in vLLM": below("The same model works in vLLM.\n"),
    "same model in ollama": below("The same model works in ollama.\n"),
    "ComfyUI runs fine": above("ComfyUI runs fine on this card.\n\n"),
    "fine-tuning works": above("Fine-tuning and train.py work, only this fails.\n\n"),
    "compose": lambda text: numbered(text, "trainer-1  | "),
    "quoted": lambda text: numbered(text, "> "),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "wrapped at 80": wrapped,
}


def told(plimsoll, text):
    """(memory, moment, first advice) of each death."""
    done = subprocess.run([plimsoll, "why", "--json", "-"], input=text.encode(), capture_output=True, timeout=600, check=False)
    if done.returncode not in (0, 1):
        return [("error", str(done.returncode), done.stderr.decode()[:80])]
    return [(d["kind"], d["moment"], re.sub(r"\s+", " ", d["first"] or "")) for d in json.loads(done.stdout)["deaths"]]


def main():
    plimsoll, tests = sys.argv[1:3]
    everything = "--list" in sys.argv
    folder = os.path.join(tests, "messages")
    texts = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".txt"):
            with open(os.path.join(folder, name), "rb") as f:
                raw = f.read()
            if not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                texts[name] = raw.decode("utf-8", "replace")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        plain = dict(zip(texts, pool.map(lambda t: told(plimsoll, t), texts.values())))
        jobs = [(name, change) for change in CHANGES for name in texts]
        answers = list(pool.map(lambda j: told(plimsoll, CHANGES[j[1]](texts[j[0]])), jobs))
    bad = [(change, name, plain[name], got) for (name, change), got in zip(jobs, answers) if got != plain[name]]
    for change, name, was, got in bad if everything else bad[:20]:
        print(f"{change}: {name}:\n  was {was}\n  now {got}")
    for change, n in collections.Counter(b[0] for b in bad).most_common():
        print(f"{n:4} of {len(texts)} texts change: {change}")
    print(f"{len(jobs)} combinations, {len(bad)} violations")
    return bool(bad)


sys.exit(main())
