"""fit.py: `plimsoll fit` on a GPU: what the probe measured, and the run against the uncut one.  One JSON line for each model.

For each model: the peak and the time of the uncut run of a few steps; then under a limit of 60 % of that peak the command
under `plimsoll fit`, its peak, its time, and how far the weights are from the uncut run's, of the way that they went.
"""
import json
import os
import subprocess
import sys
import tempfile

TRAIN = r"""
import json, os, sys, time
import torch, transformers
from transformers import Trainer, TrainingArguments
torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False
kind, precision, out = sys.argv[1], sys.argv[2], sys.argv[3]
B, T = 32, 256
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
def ids(v, n):
    return torch.randint(5, v, (n,))
def text(v, ragged):
    n = int(torch.randint(T // 2, T + 1, ())) if ragged else T
    return ids(v, n)
if kind == "bert_classes":
    model = transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=4, **STILL))
    data = [{"input_ids": text(30000, False), "labels": torch.randint(0, 4, ())} for _ in range(B * 8)]
elif kind == "bert_tokens":
    model = transformers.BertForTokenClassification(transformers.BertConfig(num_labels=4, **STILL))
    data = [{"input_ids": (x := text(30000, False)), "labels": torch.where(torch.rand(T) < 0.4, -100, x % 4)} for _ in range(B * 8)]
elif kind == "llama":
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, vocab_size=32000))
    data = [{"input_ids": (x := text(32000, False)), "labels": torch.where(torch.arange(T) < int(torch.randint(0, T // 2, ())), -100, x)} for _ in range(B * 8)]
elif kind == "mixtral":
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, vocab_size=8000, num_local_experts=4, output_router_logits=True))
    data = [{"input_ids": (x := text(8000, False)), "labels": x} for _ in range(B * 8)]
elif kind == "vit":
    model = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=10, **STILL))
    data = [{"pixel_values": torch.rand(3, 224, 224), "labels": torch.randint(0, 10, ())} for _ in range(B * 8)]
begin = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
times = []
class Watch(transformers.TrainerCallback):
    def on_step_begin(self, *a, **k):
        torch.cuda.synchronize(); self.at = time.perf_counter()
    def on_step_end(self, *a, **k):
        torch.cuda.synchronize(); times.append(time.perf_counter() - self.at)
trainer = Trainer(model=model, train_dataset=data, callbacks=[Watch()], args=TrainingArguments(output_dir=out, report_to=[], max_steps=8, per_device_train_batch_size=B, learning_rate=1e-4,
    disable_tqdm=True, save_strategy="no", bf16=precision == "bf16", logging_steps=100))
trainer.train()
end = torch.cat([p.detach().cpu().flatten() for p in model.parameters()]).double()
torch.save(end - begin, os.path.join(out, "way.pt"))
json.dump({"peak": torch.cuda.max_memory_allocated(), "step_ms": sorted(times)[len(times) // 2] * 1e3, "steps": trainer.state.global_step}, open(os.path.join(out, "run.json"), "w"))
"""


def main():
    import torch
    for kind in sys.argv[1:] or ("bert_classes", "bert_tokens", "llama", "vit", "mixtral"):
        for precision in ("fp32",) if kind == "mixtral" else ("fp32", "bf16"):
            with tempfile.TemporaryDirectory() as folder:
                script, whole, cut = (os.path.join(folder, name) for name in ("train.py", "whole", "cut"))
                os.mkdir(whole)
                os.mkdir(cut)
                with open(script, "w") as f:
                    f.write(TRAIN)
                command = [sys.executable, script, kind, precision]
                subprocess.run([*command, whole], check=True, capture_output=True)
                with open(os.path.join(whole, "run.json")) as f:
                    of_whole = json.load(f)
                limit = int(of_whole["peak"] * 0.6)
                fit = [sys.executable, "-m", "plimsoll.fit", "--memory", str(limit)]
                probed = subprocess.run([*fit, "--probe-only", "--json", "--", *command, cut], check=False, capture_output=True, text=True)
                row = {"model": kind, "precision": precision, "whole_gib": round(of_whole["peak"] / 2**30, 3), "whole_ms": round(of_whole["step_ms"], 1), "limit_gib": round(limit / 2**30, 3)}
                try:
                    answer = json.loads(probed.stdout)
                    row |= {"parts": answer["parts"], "certificate": answer.get("certificate"), "runs": answer.get("runs"), "probe_s": answer.get("probe_s")}
                except ValueError:
                    row["failed"] = probed.stderr[-600:]
                if row.get("parts"):
                    done = subprocess.run([*fit, "--", *command, cut], check=False, capture_output=True, text=True)
                    if done.returncode:
                        row["failed"] = done.stderr[-600:]
                    else:
                        with open(os.path.join(cut, "run.json")) as f:
                            of_cut = json.load(f)
                        a, b = (torch.load(os.path.join(x, "way.pt")) for x in (whole, cut))
                        row |= {"cut_gib": round(of_cut["peak"] / 2**30, 3), "cut_ms": round(of_cut["step_ms"], 1), "steps": [of_whole["steps"], of_cut["steps"]],
                                "off": float(f"{float((a - b).norm() / a.norm()):.2g}")}
                else:
                    row["said"] = probed.stderr[-300:]
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
