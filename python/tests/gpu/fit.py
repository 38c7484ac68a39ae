"""fit.py OUT [MODEL...]: `plimsoll fit` on a GPU: what the probe measured, and the run against the uncut one.  One JSON line for each model.

For each model: the peak and the time of the uncut run of 200 steps in fp32; then under a limit of 60 % of that peak the command
under `plimsoll fit`, its peak, its time, and how far the weights are from the uncut run's, of the way that they went.
counts: instead, the time and peak of each number of checkpointed layers, next to the number that `plimsoll fit` chooses (--parts 1).
JOBS: so many at once on each GPU (3).  SECONDS_MAX: nothing begins after them.
"""
import concurrent.futures
import json
import os
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
layers = int(os.environ.get("LAYERS", "0"))
if layers:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    path = next(m for n, m in model.named_modules() if isinstance(m, torch.nn.ModuleList))
    for module in (m for layer in path[layers:] for m in layer.modules()):
        module.gradient_checkpointing = False
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
COUNTED = ("bert_classes", "llama", "gpt2")
STEPS = 200


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


def counts(kind, gpu):
    """Each number of layers in a process of its own; then what is chosen for limits between."""
    rows = []
    for layers in range(9):
        out = folder(kind, f"layers{layers}")
        done = start([sys.executable, SCRIPT, kind, "30", out], gpu, LAYERS=str(layers))
        if done.returncode:
            return {"model": kind, "failed": done.stderr[-900:]}
        rows.append(read(out))
    row = {"model": kind, "counts": [[r["peak"], round(r["step_ms"], 2)] for r in rows], "chosen": []}
    most = rows[0]["peak"]
    for share in (0.9, 0.75, 0.6):
        limit = int(most - (most - rows[-1]["peak"]) * (1 - share) / 0.5)
        out = folder(kind, "chosen")
        done = start([sys.executable, "-m", "plimsoll.fit", "--memory", str(limit), "--probe-only", "--json", "--", sys.executable, SCRIPT, kind, "30", out], gpu)
        try:
            answer = json.loads(done.stdout)
            row["chosen"].append([limit, answer.get("parts"), answer.get("checkpointed_layers"), answer.get("chosen"), answer.get("estimated"), len(answer.get("runs") or [])])
        except ValueError:
            row["chosen"].append([limit, done.stderr[-400:]])
    return row


def main():
    began, most = time.monotonic(), float(os.environ.get("SECONDS_MAX", "400"))
    import torch
    gpus, jobs = torch.cuda.device_count(), int(os.environ.get("JOBS", "3"))
    named = sys.argv[2:] or MODELS
    tasks = [(counts, kind) for kind in COUNTED] if list(named) == ["counts"] else [(same, kind) for kind in named]

    def run(number, task):
        if time.monotonic() - began > most:
            return None
        try:
            return task[0](*task[1:], number % gpus)
        except Exception as error:  # of this row alone
            return {"model": task[1], "failed": repr(error)}

    with concurrent.futures.ThreadPoolExecutor(gpus * jobs) as pool, open(os.path.join(OUT, "fit.jsonl"), "a") as f:
        for done in concurrent.futures.as_completed([pool.submit(run, number, task) for number, task in enumerate(tasks)]):
            row = done.result()
            if row is not None:
                f.write(json.dumps(row) + "\n")
                f.flush()
                print({k: v for k, v in row.items() if k in ("model", "parts", "checkpointed_layers", "off", "steps", "failed", "said", "refused", "counts")}, flush=True)


if __name__ == "__main__":
    OUT = os.path.abspath(sys.argv[1])
    SCRIPT = os.path.join(OUT, "train.py")
    os.makedirs(OUT, exist_ok=True)
    with open(SCRIPT, "w") as script:
        script.write(TRAIN)
    main()
