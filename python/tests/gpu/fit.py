"""fit.py OUT [MODEL...]: `plimsoll fit` on a GPU: what the probe measured, and the run against the uncut one.  One JSON line for each model.

For each model: the peak and the time of the uncut run of 200 steps in fp32; then under a limit of 60 % of that peak the command
under `plimsoll fit`, its peak, its time, and how far the weights are from the uncut run's, of the way that they went.
best [MODEL...]: instead, times and peaks of all settings (1, 2, 4 and 8 parts, each number of checkpointed layers), next to the
setting that `plimsoll fit` chooses under 75 and 55 % of the peak; measured by a loop of this file's own.  Needs a GPU for itself: JOBS=1.
JOBS: so many at once on each GPU (3).  SECONDS_MAX: nothing begins after them.
"""
import concurrent.futures
import itertools
import json
import os
import queue
import subprocess
import sys
import time

TRAIN = r"""
import json, os, sys, time
import torch, transformers
from transformers import Trainer, TrainingArguments
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
kind, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.use_deterministic_algorithms(True, warn_only=True)
B, T, V = 32, 256, 8000
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SMALL = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048, vocab_size=V)
DECODER = dict(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408, vocab_size=V)
SEQ2SEQ = dict(d_model=512, encoder_layers=4, decoder_layers=4, encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, vocab_size=V, dropout=0.0,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2)
def ids(n=T):
    return torch.randint(5, V, (n,))
def ragged(part=2):
    x = ids()
    return {"input_ids": x, "labels": torch.where(torch.arange(T) < int(torch.randint(0, T // part, ())), -100, x)}
def classes():
    return {"input_ids": ids(), "labels": torch.randint(0, 4, ())}
def masked():
    x = ids()
    return {"input_ids": torch.where(torch.rand(T) < 0.15, 4, x), "labels": torch.where(torch.rand(T) < 0.15, x, -100)}
MODELS = {
    "bert_classes": (lambda: transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=4, **SMALL, **STILL)), classes),
    "bert_tokens": (lambda: transformers.BertForTokenClassification(transformers.BertConfig(num_labels=4, **SMALL, **STILL)), lambda: {"input_ids": (x := ids()), "labels": torch.where(torch.rand(T) < 0.4, -100, x % 4)}),
    "roberta_masked": (lambda: transformers.RobertaForMaskedLM(transformers.RobertaConfig(max_position_embeddings=T + 4, pad_token_id=1, **SMALL, **STILL)), masked),
    "electra_questions": (lambda: transformers.ElectraForQuestionAnswering(transformers.ElectraConfig(embedding_size=512, **SMALL, **STILL)), lambda: {"input_ids": ids(), "start_positions": torch.randint(0, T, ()), "end_positions": torch.randint(0, T, ())}),
    "bert_choices": (lambda: transformers.BertForMultipleChoice(transformers.BertConfig(**SMALL, **STILL)), lambda: {"input_ids": torch.randint(5, V, (4, T // 4)), "labels": torch.randint(0, 4, ())}),
    "gpt2": (lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=512, n_layer=8, n_head=8, vocab_size=V, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)), ragged),
    "llama": (lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER)), ragged),
    "qwen2": (lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**DECODER)), ragged),
    "gemma": (lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(head_dim=64, **DECODER)), ragged),
    "bart": (lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(**SEQ2SEQ)), ragged),
    "t5": (lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(d_model=512, d_ff=2048, d_kv=64, num_layers=4, num_heads=8, vocab_size=V, dropout_rate=0.0, decoder_start_token_id=0)), ragged),
    "vit": (lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=10, image_size=128, **{k: v for k, v in SMALL.items() if k != "vocab_size"}, **STILL)),
            lambda: {"pixel_values": torch.rand(3, 128, 128), "labels": torch.randint(0, 10, ())}),
    "mixtral": (lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, vocab_size=V, num_local_experts=4, output_router_logits=True)), ragged),
}
make, sample = MODELS[kind]
model = make()
data = [sample() for _ in range(B * 8 + 5)]
if "SETTINGS" in os.environ:
    model.cuda().train().gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) and hasattr(m[0], "gradient_checkpointing")]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = [transformers.default_data_collator(data[i * B:(i + 1) * B]) for i in range(8)]
    def step(batch, parts):
        n = B // parts
        for part in range(parts):
            (model(**{k: v[part * n:(part + 1) * n].cuda() for k, v in batch.items()}).loss / parts).backward()
        optimizer.step()
        optimizer.zero_grad()
    def measure(parts, counts, steps):
        for layers, count in zip(lists, counts):
            for number, layer in enumerate(layers):
                for module in layer.modules():
                    module.gradient_checkpointing = number < count
        taken = []
        for number in range(steps):
            torch.cuda.synchronize(); at = time.perf_counter()
            step(batches[number % 8], parts)
            torch.cuda.synchronize(); taken.append(time.perf_counter() - at)
        return min(taken) * 1e3
    settings = json.loads(os.environ["SETTINGS"])
    measure(1, [0] * len(lists), 3)
    rows = []
    for parts, counts in settings:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        ms = measure(parts, counts, 4)
        rows.append([torch.cuda.max_memory_reserved(), ms])
    if len(settings) < 9:
        for _ in range(4):
            for row, (parts, counts) in zip(rows, settings):
                row[1] = min(row[1], measure(parts, counts, 4))
    json.dump([[peak, round(ms, 2)] for peak, ms in rows], open(os.path.join(out, "run.json"), "w"))
    sys.exit()
begin = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
times = []
class Watch(transformers.TrainerCallback):
    def on_step_begin(self, *a, **k):
        torch.cuda.synchronize(); self.at = time.perf_counter()
    def on_step_end(self, *a, **k):
        torch.cuda.synchronize(); times.append(time.perf_counter() - self.at)
trainer = Trainer(model=model, train_dataset=data, callbacks=[Watch()], args=TrainingArguments(output_dir=out, report_to=[], max_steps=steps, per_device_train_batch_size=B, learning_rate=1e-4,
    disable_tqdm=True, save_strategy="no", logging_steps=1000))
trainer.train()
end = torch.cat([p.detach().cpu().flatten() for p in model.parameters()]).double()
torch.save(end - begin, os.path.join(out, "way.pt"))
json.dump({"peak": torch.cuda.max_memory_allocated(), "step_ms": sorted(times)[len(times) // 2] * 1e3, "steps": trainer.state.global_step}, open(os.path.join(out, "run.json"), "w"))
"""


MODELS = ("bert_classes", "bert_tokens", "roberta_masked", "electra_questions", "bert_choices", "gpt2", "llama", "qwen2", "gemma", "bart", "t5", "vit", "mixtral")
COMPARED = ("bert_classes", "llama", "gpt2", "bart", "roberta_masked", "electra_questions", "qwen2", "vit")
STEPS = 200
LISTS = {"bart": (4, 4)}  # layers; of the others: 8


def folder(*names):
    path = os.path.join(OUT, *names)
    os.makedirs(path, exist_ok=True)
    return path


def read(path):
    with open(os.path.join(path, "run.json")) as f:
        return json.load(f)


def start(words, gpu, **more):
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=400, env={**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu), "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **more})


def same(kind, gpu):
    import torch
    whole, cut = folder(kind, "whole"), folder(kind, "cut")
    command = [sys.executable, SCRIPT, kind, str(STEPS)]
    done = start([*command, whole], gpu)
    if done.returncode:
        return {"model": kind, "failed": done.stderr[-900:]}
    of_whole = read(whole)
    limit = int(of_whole["peak"] * 0.6)
    row = {"model": kind, "whole_bytes": of_whole["peak"], "whole_ms": round(of_whole["step_ms"], 1), "limit_bytes": limit}
    fit = [sys.executable, "-m", "plimsoll.fit", "--memory", str(limit), "--file", os.path.join(cut, "plimsoll.toml")]
    probed = start([*fit, "--probe-only", "--json", "--", *command, cut], gpu)
    try:
        answer = json.loads(probed.stdout)
    except ValueError:
        return {**row, "failed": probed.stderr[-900:]}
    row |= {name: answer.get(name) for name in ("parts", "checkpointed_layers", "certificate", "checkpointing_off", "chosen", "runs", "estimated", "probe_s", "refused")}
    if not row["parts"]:
        return {**row, "said": probed.stderr[-300:]}
    done = start([*fit, "--parts", str(row["parts"]), *(["--checkpoint", str(sum(row["checkpointed_layers"]))] if any(row["checkpointed_layers"]) else []), "--", *command, cut], gpu)
    if done.returncode:
        return {**row, "failed": done.stderr[-900:]}
    of_cut = read(cut)
    a, b = (torch.load(os.path.join(x, "way.pt")) for x in (whole, cut))
    return {**row, "cut_bytes": of_cut["peak"], "cut_ms": round(of_cut["step_ms"], 1), "steps": [of_whole["steps"], of_cut["steps"]], "off": float(f"{float((a - b).norm() / a.norm()):.2g}")}


def table(kind, gpu, settings):
    """[peak of reserved bytes, ms per step] of each of `settings`, in one process."""
    out = folder(kind, "table")
    done = start([sys.executable, SCRIPT, kind, "0", out], gpu, SETTINGS=json.dumps(settings), PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    if done.returncode:
        raise RuntimeError(done.stderr[-900:])
    return read(out)


def best(kind, gpu):
    """What `plimsoll fit` chooses under two limits, next to the fastest of all settings that fit, and of all numbers of layers."""
    lists = LISTS.get(kind, (8,))
    layers = [list(counts) for counts in itertools.product(*(range(0, most + 1, len(lists)) for most in lists))]
    settings = [[parts, counts] for parts in (1, 2, 4, 8) for counts in layers]
    rows = list(zip(settings, table(kind, gpu, settings)))
    row = {"model": kind, "table": rows, "chosen": []}
    again = []
    for share in (0.75, 0.55):
        limit = int(rows[0][1][0] * share)
        of_share = {"share": share, "limit_bytes": limit}
        row["chosen"].append(of_share)
        done = start([sys.executable, "-m", "plimsoll.fit", "--memory", str(limit), "--probe-only", "--json", "--", sys.executable, SCRIPT, kind, "30", folder(kind, "chosen")], gpu)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            of_share["failed"] = done.stderr[-400:]
            continue
        of_share |= {name: answer.get(name) for name in ("parts", "checkpointed_layers", "chosen", "runs", "estimated", "refused", "checkpointing_off", "certificate")}
        fitting = sorted((ms, setting) for setting, (peak, ms) in rows if peak <= limit)
        if of_share["parts"]:
            again += [[of_share["parts"], of_share["checkpointed_layers"] or [0] * len(lists)], *(s for _, s in fitting[:2]), *[s for _, s in fitting if s[0] == of_share["parts"]][:1]]
    again = [s for n, s in enumerate(again) if s not in again[:n]]
    row["again"] = list(zip(again, table(kind, gpu, again)))  # in turn, so that the clock of the GPU is the same for all
    return row


def main():
    began, most = time.monotonic(), float(os.environ.get("SECONDS_MAX", "400"))
    import torch
    gpus, jobs = torch.cuda.device_count(), int(os.environ.get("JOBS", "3"))
    named = sys.argv[2:] or MODELS
    tasks = [(best, kind) for kind in named[1:] or COMPARED] if named[0] == "best" else [(same, kind) for kind in named]

    free = queue.SimpleQueue()
    for gpu in [*range(gpus)] * jobs:
        free.put(gpu)

    def run(task):
        if time.monotonic() - began > most:
            return None
        gpu = free.get()
        try:
            return task[0](*task[1:], gpu)
        except Exception as error:  # of this row alone
            return {"model": task[1], "failed": repr(error)}
        finally:
            free.put(gpu)

    with concurrent.futures.ThreadPoolExecutor(gpus * jobs) as pool, open(os.path.join(OUT, "fit.jsonl"), "a") as f:
        for done in concurrent.futures.as_completed([pool.submit(run, task) for task in tasks]):
            row = done.result()
            if row is not None:
                f.write(json.dumps(row) + "\n")
                f.flush()
                print({k: v for k, v in row.items() if k in ("model", "parts", "checkpointed_layers", "off", "steps", "failed", "said", "refused", "again")}, flush=True)


if __name__ == "__main__":
    OUT = os.path.abspath(sys.argv[1])
    SCRIPT = os.path.join(OUT, "train.py")
    os.makedirs(OUT, exist_ok=True)
    with open(SCRIPT, "w") as script:
        script.write(TRAIN)
    main()
