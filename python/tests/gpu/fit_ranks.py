"""fit_ranks.py OUT [GROUP...]: `plimsoll fit` of DDP and FSDP2 on two GPUs.  One JSON line for each run.  GROUP: same, kills, or one training as ddp/llama.

same: six trainings (four of the Trainer, two loops of accelerate) under torchrun (DDP) and accelerate launch (FSDP2), in fp32, whole;
then under 60 % of the peak that they had, through `plimsoll fit`: how far the weights are from the whole run's, of the way these went.
kills: a rank is killed, in the probe or in the run, under DDP or FSDP2: seconds until the other one has ended.
JOBS: so many at once (4).  SECONDS_MAX: nothing begins after them.
"""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

TRAIN = r"""
import contextlib, json, os, sys, time
import torch, transformers
from transformers import Trainer, TrainingArguments
torch.manual_seed(0)
kind, out, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
STEPS, early = 8, None
B, T = 16, 256
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
GPT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, vocab_size=16000)
def ids(v=16000):
    return torch.randint(5, v, (T,))
def cut(x):
    return torch.where(torch.arange(T) < int(torch.randint(0, T // 2, ())), -100, x)
n = B * 2 * 8
if kind in ("bert_classes", "loop_bert"):
    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=4, **STILL))
    data = [{"input_ids": ids(), "labels": torch.randint(0, 4, ())} for _ in range(n)]
elif kind == "bert_tokens":
    model = transformers.BertForTokenClassification(transformers.BertConfig(num_labels=4, **STILL))
    data = [{"input_ids": (x := ids()), "labels": torch.where(torch.rand(T) < 0.4, -100, x % 4)} for _ in range(n)]
elif kind == "llama":
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, vocab_size=16000))
    data = [{"input_ids": (x := ids()), "labels": cut(x)} for _ in range(n)]
elif kind in ("gpt2", "loop_gpt2"):
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT))
    data = [{"input_ids": (x := ids()), "labels": x if kind == "loop_gpt2" else cut(x)} for _ in range(n)]
else:
    raise SystemExit(kind)
def weights():
    return [getattr(p, "full_tensor", lambda: p)().detach().to("cpu", torch.float64, copy=True).flatten() for p in model.parameters()]
begin = torch.cat([p.detach().double().flatten() for p in model.parameters()])
with open(os.path.join(out, "pid" + os.environ["RANK"]), "w") as f:
    f.write(str(os.getpid()))
accumulate = 2 if kind in ("llama", "loop_gpt2") else 1
if kind.startswith("loop"):
    from accelerate import Accelerator
    accelerator = Accelerator(gradient_accumulation_steps=accumulate)
    loader = torch.utils.data.DataLoader(data, batch_size=B, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4), loader)
    done = 0
    while done < steps:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                done += 1
                if done == STEPS:
                    early = weights()
            if done == steps:
                break
else:
    trainer = Trainer(model=model, train_dataset=data, args=TrainingArguments(output_dir=out, report_to=[], max_steps=steps, per_device_train_batch_size=B, gradient_accumulation_steps=accumulate,
        learning_rate=1e-4, disable_tqdm=True, save_strategy="no", logging_steps=1000))
    trainer.train()
    model = trainer.model_wrapped if hasattr(trainer.model_wrapped, "set_requires_gradient_sync") else trainer.model
end = weights()
peaks = [None] * 2
torch.distributed.all_gather_object(peaks, torch.cuda.max_memory_allocated())
if os.environ["RANK"] == "0":
    torch.save(torch.cat(early or end) - begin, os.path.join(out, "way.pt"))
    json.dump({"peaks": peaks}, open(os.path.join(out, "run.json"), "w"))
torch.distributed.barrier()
sys.stdout.flush()
os._exit(0)
"""
KINDS = ("bert_classes", "bert_tokens", "llama", "gpt2", "loop_bert", "loop_gpt2")
LAYER = {"bert": "BertLayer", "llama": "LlamaDecoderLayer", "gpt2": "GPT2Block"}
STEPS, LOOP_STEPS = 8, 120  # a loop may count what a probe asks of it; its weights are compared after 8 steps
_port = iter(range(29600, 29999))


def launcher(way, kind):
    port = str(next(_port))
    if way == "ddp":
        return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    layer = next(name for word, name in LAYER.items() if word in kind)
    return [sys.executable, "-m", "accelerate.commands.launch", "--num_processes", "2", "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", port,
            "--use_fsdp", "--fsdp_version", "2", "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_transformer_layer_cls_to_wrap", layer, "--fsdp_reshard_after_forward", "true",
            "--fsdp_state_dict_type", "SHARDED_STATE_DICT"]


def folder(*names):
    path = os.path.join(OUT, *names)
    os.makedirs(path, exist_ok=True)
    return path


def same(way, kind):
    import torch
    row, steps = {"way": way, "model": kind}, str(LOOP_STEPS if kind.startswith("loop") else STEPS)
    whole, cut = folder(way, kind, "whole"), folder(way, kind, "cut")
    done = subprocess.run([*launcher(way, kind), SCRIPT, kind, whole, steps], capture_output=True, text=True, check=False, timeout=200)
    if done.returncode:
        return {**row, "failed": done.stderr[-1500:]}
    with open(os.path.join(whole, "run.json")) as f:
        peak = max(json.load(f)["peaks"])
    row |= {"whole_bytes": peak, "limit_bytes": int(0.6 * peak)}
    fit = [sys.executable, "-m", "plimsoll.fit", "--memory", str(row["limit_bytes"]), "--file", os.path.join(cut, "plimsoll.toml"), "--"]
    began = time.monotonic()
    done = subprocess.run([*fit, *launcher(way, kind), SCRIPT, kind, cut, steps], capture_output=True, text=True, check=False, timeout=300)
    row |= {"s": round(time.monotonic() - began, 1), "out": done.stdout[-1800:]}
    if done.returncode:
        return {**row, "failed": done.stderr[-2500:], "code": done.returncode}
    with open(os.path.join(cut, "run.json")) as f:
        row["peak_bytes"] = max(json.load(f)["peaks"])
    a, b = (torch.load(os.path.join(x, "way.pt")) for x in (whole, cut))
    return {**row, "off": float(f"{float((a - b).norm() / a.norm()):.2g}")}


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] != "Z"


def kill(way, kind, number):
    """In the probe (even numbers) or in the run, 1 + number % 5 seconds after both ranks have said their pids."""
    out = folder(way, kind, f"kill{number}")
    in_probe = number % 2 == 0
    fit = [sys.executable, "-m", "plimsoll.fit", *(["--memory", "60GiB"] if in_probe else ["--parts", "2"]), "--file", os.path.join(out, "plimsoll.toml"), "--"]
    job = subprocess.Popen([*fit, *launcher(way, kind), SCRIPT, kind, out, "100000"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    names = [os.path.join(out, f"pid{n}") for n in "01"]
    row = {"way": way, "model": kind, "kill": "probe" if in_probe else "run"}

    def pids(seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and job.poll() is None:
            if all(os.path.exists(n) and os.path.getsize(n) for n in names):
                found = [int(open(n).read()) for n in names]
                if all(map(alive, found)):
                    return found
            time.sleep(0.05)
        return None

    ranks = pids(90)
    if ranks and not in_probe:  # the probe's have to end first
        until = time.monotonic() + 120
        while any(map(alive, ranks)) and time.monotonic() < until:
            time.sleep(0.05)
        for name in names:
            os.path.exists(name) and os.remove(name)
        ranks = pids(90)
    if not ranks:
        job.kill()
        return {**row, "failed": f"no ranks: {job.communicate()[1][-1500:]}"}
    time.sleep(1 + number % 5)
    victim, other = ranks[number % 2], ranks[1 - number % 2]
    if not alive(victim):
        job.kill()
        return {**row, "failed": "it had ended before"}
    os.kill(victim, signal.SIGKILL)
    began = time.monotonic()
    while alive(other) and time.monotonic() - began < 60:
        time.sleep(0.01)
    row["other_ended_s"] = round(time.monotonic() - began, 2)
    try:
        error = job.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        job.kill()
        error = "the command did not end"
    return {**row, "ended_s": round(time.monotonic() - began, 2), "code": job.returncode, "names": "SIGKILL" in error or "Signal 9" in error, "err": error[-300:]}


def main():
    began, most = time.monotonic(), float(os.environ.get("SECONDS_MAX", "400"))
    groups = sys.argv[2:] or ("same", "kills")
    tasks = [(same, way, kind) for way in ("fsdp2", "ddp") for kind in KINDS if "same" in groups or f"{way}/{kind}" in groups]
    tasks += [(kill, ("ddp", "fsdp2")[n // 2 % 2], ("bert_classes", "loop_bert")[n // 4 % 2], n) for n in range(20)] if "kills" in groups else []

    def run(task):
        if time.monotonic() - began > most:
            return None
        try:
            return task[0](*task[1:])
        except Exception as error:  # of this row alone
            return {"task": [str(word) for word in task[1:]], "failed": repr(error)}

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "4"))) as pool, open(os.path.join(OUT, "ranks.jsonl"), "a") as f:
        for done in concurrent.futures.as_completed([pool.submit(run, task) for task in tasks]):
            row = done.result()
            if row is not None:
                f.write(json.dumps(row) + "\n")
                f.flush()
                print({k: v for k, v in row.items() if k not in ("out", "err")}, flush=True)


if __name__ == "__main__":
    OUT = os.path.abspath(sys.argv[1])
    SCRIPT = os.path.join(OUT, "train.py")
    os.makedirs(OUT, exist_ok=True)
    with open(SCRIPT, "w") as script:
        script.write(TRAIN)
    main()
