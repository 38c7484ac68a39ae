"""fit_scripts.py FOLDER OUT [NAME...]: public training scripts, unchanged, under `plimsoll fit`, with random weights and made data.

FOLDER has the scripts: t (transformers), a (accelerate), trl, st (sentence-transformers), nano (nanoGPT), pt (pytorch/examples).
OUT/world is the folder that they run in: models, tokenizers, data sets and metrics, all made here.  Each script runs as it is,
which gives its peak; then under `plimsoll fit` with a limit of 60 % of that (SHARES=0.85,0.6,0.4).  One JSON line for each run
goes to OUT/scripts.jsonl.  EXPECTED of a row, written before the first run, is "runs", or a word of the refusal.
TINY=1: on a CPU with tiny models; the certificate alone (`--parts 2 --probe-only`).  JOBS: so many at once on each GPU (3).
"""
import csv
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time

TINY = bool(os.environ.get("TINY"))
SHARES = [float(s) for s in os.environ.get("SHARES", "0.6").split(",")]
LEFT_S = float(os.environ.get("SECONDS_MAX", "520"))  # nothing begins after it
STEPS = 4  # of a Trainer; loops of accelerate, which may count what a probe asks of them, take 60
WORDS = [f"w{i}" for i in range(4000)]
MARK, LIMIT = "PLIM_PEAK_FILE", "PLIM_LIMIT"
#: sitecustomize of each process: its peak goes into a file as it ends; PyTorch takes no more than LIMIT bytes, which `plimsoll fit` does not see to after its probe.
HOOK = f'''import atexit, importlib.abc, importlib.util, json, os, sys
def _peak():
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        s = torch.cuda.memory_stats()
        with open(os.environ["{MARK}"], "w") as f:
            json.dump([s["allocated_bytes.all.peak"], s.get("num_ooms", 0)], f)
class _Limit(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(cuda):
            load(cuda)
            cuda._lazy_call(lambda: cuda.set_per_process_memory_fraction(min(1.0, int(os.environ["{LIMIT}"]) / cuda.get_device_properties(0).total_memory)))
        spec.loader.exec_module = exec_module
        return spec
if "{MARK}" in os.environ:
    atexit.register(_peak)
if "{LIMIT}" in os.environ:
    sys.meta_path.insert(0, _Limit())
'''
METRIC = '''import datasets
import evaluate
class Zeros(dict):
    def __missing__(self, key):
        return 0.0
class Metric(evaluate.Metric):
    """What evaluation gives plays no part here."""
    def _info(self):
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")}))
    def add_batch(self, **_):
        """."""
    def compute(self, **_):
        """."""
        return Zeros(accuracy=0.0)
'''

# ---- the scripts ----

HF = "t/examples/pytorch/"
TRAINER = f"--do_train --max_steps {STEPS} --output_dir @out --report_to none --per_device_train_batch_size "
LOOP = "--max_train_steps 60 --output_dir @out --per_device_train_batch_size "
GLUE = "--model_name_or_path bert-base-cased --train_file pairs.csv --validation_file few_pairs.csv "
QA = "--train_file qa.json --validation_file few_qa.json --max_seq_length 256 --model_name_or_path "
SWAG = "--model_name_or_path bert-base-cased --train_file swag.json --validation_file few_swag.json "
NER = "--model_name_or_path bert-base-cased --train_file ner.json --validation_file few_ner.json "
TEXT = "--train_file text.txt --validation_file few_text.txt "
SUM = "--model_name_or_path bart --train_file sums.csv --validation_file few_sums.csv --text_column text --summary_column summary --max_source_length 256 --max_target_length 64 "
TRANS = "--model_name_or_path t5 --train_file trans.json --validation_file few_trans.json --source_lang en --target_lang ro --max_source_length 128 --max_target_length 128 "
IMG = "--label_column_name label "  # of the folder cifar10, their default
TRL = f"--model_name_or_path llama --max_steps {STEPS} --output_dir @out --report_to none --logging_steps 1 --per_device_train_batch_size 16 --gradient_checkpointing False --max_length 1024 @trlcpu --dataset_name "
PARTS, LOOPS = "not the gradient", "outside of the loops"
#: name: (script, its words, EXPECTED)
ROWS = {
    "run_glue": (HF + "text-classification/run_glue.py", "--model_name_or_path bert-base-cased --task_name mrpc --max_seq_length 256 " + TRAINER + "32", "runs"),
    "run_glue_no_trainer": (HF + "text-classification/run_glue_no_trainer.py", "--model_name_or_path bert-base-cased --task_name mrpc --max_length 256 --pad_to_max_length " + LOOP + "32", "runs"),
    "run_classification": (HF + "text-classification/run_classification.py", GLUE + "--text_column_names sentence1,sentence2 --label_column_name label --metric_name accuracy --max_seq_length 256 @bf16 " + TRAINER + "32", "runs"),
    "run_ner": (HF + "token-classification/run_ner.py", NER + TRAINER + "32", "runs"),
    "run_ner_no_trainer": (HF + "token-classification/run_ner_no_trainer.py", NER + LOOP + "32", "runs"),
    "run_qa": (HF + "question-answering/run_qa.py", QA + "bert-base-cased " + TRAINER + "24", "runs"),
    "run_qa_no_trainer": (HF + "question-answering/run_qa_no_trainer.py", QA + "bert-base-cased " + LOOP + "24", "runs"),
    "run_seq2seq_qa": (HF + "question-answering/run_seq2seq_qa.py", QA + "t5 --context_column context --question_column question --answer_column answers " + TRAINER + "24", "runs"),
    "run_swag": (HF + "multiple-choice/run_swag.py", SWAG + "--max_seq_length 64 --gradient_accumulation_steps 2 " + TRAINER + "16", "runs"),
    "run_swag_no_trainer": (HF + "multiple-choice/run_swag_no_trainer.py", SWAG + "--max_seq_length 64 --gradient_accumulation_steps 2 " + LOOP + "16", "runs"),
    "run_clm": (HF + "language-modeling/run_clm.py", "--model_name_or_path gpt2 --block_size 512 " + TEXT + TRAINER + "8", "runs"),
    "run_clm_streaming": (HF + "language-modeling/run_clm.py", "--model_name_or_path gpt2 --block_size 512 --streaming " + TEXT + TRAINER + "8", "runs"),
    "run_mlm": (HF + "language-modeling/run_mlm.py", "--model_name_or_path bert-base-cased --max_seq_length 256 " + TEXT + TRAINER + "32", "runs"),
    "run_translation": (HF + "translation/run_translation.py", TRANS + TRAINER + "32", "runs"),
    "run_translation_no_trainer": (HF + "translation/run_translation_no_trainer.py", TRANS + "--num_beams 1 " + LOOP + "32", "runs"),
    "run_image_classification": (HF + "image-classification/run_image_classification.py", IMG + "--dataset_name cifar10 --model_name_or_path vit --remove_unused_columns False " + TRAINER + "32", "runs"),
    "run_image_classification_no_trainer": (HF + "image-classification/run_image_classification_no_trainer.py", IMG + "--model_name_or_path vit " + LOOP + "32", "runs"),
    "run_mae": (HF + "image-pretraining/run_mae.py", "--image_column_name image --label_names pixel_values --remove_unused_columns False --mask_ratio 0.75 " + TRAINER + "64", "runs"),
    "run_clip": (HF + "contrastive-image-text/run_clip.py", "--model_name_or_path clip --train_file captions.json --validation_file captions.json --image_column image_path --caption_column caption --max_seq_length 64 --remove_unused_columns False " + TRAINER + "32", "runs"),
    "trl_sft": ("trl/trl/scripts/sft.py", TRL + "local/text", "runs"),
    "trl_sft_packing": ("trl/trl/scripts/sft.py", TRL + "local/text --packing --attn_implementation eager", "first dimension"),
    "trl_sft_lora": ("trl/trl/scripts/sft.py", TRL + "local/text --use_peft", "runs"),
    "trl_dpo": ("trl/trl/scripts/dpo.py", TRL + "local/pairs", "runs"),
    "trl_reward": ("trl/trl/scripts/reward.py", TRL + "local/pairs", "runs"),
    "trl_kto": ("trl/trl/scripts/kto.py", TRL + "local/kto", PARTS),
    "nlp_example": ("a/examples/nlp_example.py", "@cpu", "runs"),
    "complete_nlp_example": ("a/examples/complete_nlp_example.py", "--output_dir @out @cpu", "runs"),
    "gradient_accumulation": ("a/examples/by_feature/gradient_accumulation.py", "--gradient_accumulation_steps 2 @cpu", "runs"),
    "local_sgd": ("a/examples/by_feature/local_sgd.py", "--gradient_accumulation_steps 2 @cpu", "runs"),
    "memory": ("a/examples/by_feature/memory.py", "@cpu", "runs"),
    "autoregressive_accumulation": ("a/examples/by_feature/gradient_accumulation_for_autoregressive_models.py", "--gradient_accumulation_steps 2 @cpu", "accumul"),
    "st_nli": ("st/examples/sentence_transformer/training/nli/training_nli.py", "bert-base-uncased", "runs"),
    "st_nli_v2": ("st/examples/sentence_transformer/training/nli/training_nli_v2.py", "bert-base-uncased", PARTS),
    "ce_sts": ("st/examples/cross_encoder/training/sts/training_stsbenchmark.py", "", "runs"),
    "nanogpt": ("nano/train.py", "--dataset=made --max_iters=4 --eval_iters=1 --compile=False --out_dir=@out --batch_size=8 --block_size=512 --gradient_accumulation_steps=2 @nanocpu", LOOPS),
    "word_language_model": ("pt/word_language_model/main.py", "--data made_words --epochs 1 --model LSTM", LOOPS),
    "regression": ("pt/regression/main.py", "", LOOPS),
}

# ---- what they run in ----


def sentence(rng, n):
    return " ".join(rng.choice(WORDS) for _ in range(n))


def write_json(path, rows):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)


def write_csv(path, rows):
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, list(rows[0]))
        out.writeheader()
        out.writerows(rows)


LABELS = """dataset_info:
- config_name: mrpc
  features:
  - {name: sentence1, dtype: string}
  - {name: sentence2, dtype: string}
  - name: label
    dtype: {class_label: {names: {'0': a, '1': b}}}
  - {name: idx, dtype: int32}"""


def data_set(name, configs, *more):
    """configs: {config: {split: rows}}, as a folder that load_dataset(name, config) reads; more lines of its README.md."""
    lines = ["---", "configs:"]
    for config, splits in configs.items():
        lines += [f"- config_name: {config}", "  data_files:"]
        for split, rows in splits.items():
            write_json(f"{name}/{config}/{split}.jsonl", rows)
            lines += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
    with open(f"{name}/README.md", "w") as f:
        f.write("\n".join([*lines, *more, "---", ""]))


def make_data():
    rng = random.Random(0)
    many, few = 400, 16
    for count, prefix in ((many, ""), (few, "few_")):
        write_csv(prefix + "pairs.csv", [{"sentence1": sentence(rng, rng.randint(20, 120)), "sentence2": sentence(rng, rng.randint(20, 120)), "label": i % 2} for i in range(count)])
        write_csv(prefix + "sums.csv", [{"text": sentence(rng, 250), "summary": sentence(rng, rng.randint(20, 60))} for _ in range(count)])
        write_json(prefix + "trans.json", [{"translation": {"en": sentence(rng, rng.randint(30, 120)), "ro": sentence(rng, rng.randint(30, 120))}} for _ in range(count)])
        write_json(prefix + "swag.json", [{"sent1": sentence(rng, 15), "sent2": sentence(rng, 4), **{f"ending{k}": sentence(rng, 30) for k in range(4)}, "label": i % 4} for i in range(count)])
        write_json(prefix + "ner.json", [{"tokens": [rng.choice(WORDS) for _ in range(n)], "ner_tags": [rng.choice(("O", "B-A", "I-A", "B-B")) for _ in range(n)]}
                                         for n in (rng.randint(60, 250) for _ in range(count))])
        questions = []
        for i in range(count):
            context = sentence(rng, rng.randint(100, 220))
            at = context.index(" ", 40) + 1
            word = context[at:].split()[0]
            questions.append({"id": str(i), "title": "t", "context": context, "question": sentence(rng, 10), "answers": {"text": [word], "answer_start": [at]}})
        with open(prefix + "qa.json", "w") as f:
            json.dump({"version": "1", "data": questions}, f)
        with open(prefix + "text.txt", "w") as f:
            f.writelines(sentence(rng, 200) + "\n" for _ in range(count))
    make_data_sets(rng)


def make_data_sets(rng):
    pair = lambda: {"sentence1": sentence(rng, rng.randint(60, 180)), "sentence2": sentence(rng, rng.randint(60, 180))}  # noqa: E731
    splits = ("train", "validation", "test")
    data_set("nyu-mll/glue", {"mrpc": {s: [{**pair(), "label": i % 2, "idx": i} for i in range(128 if s == "train" else 32)] for s in splits}}, LABELS)
    data_set("sentence-transformers/stsb", {"default": {s: [{**pair(), "score": rng.random()} for _ in range(256 if s == "train" else 32)] for s in splits}})
    text = lambda: sentence(rng, rng.randint(40, 200))  # noqa: E731
    data_set("sentence-transformers/all-nli", {
        "pair-class": {s: [{"premise": text(), "hypothesis": text(), "label": i % 3} for i in range(10000 if s == "train" else 1000)] for s in ("train", "dev", "test")},
        "triplet": {s: [{"anchor": text(), "positive": text(), "negative": text()} for i in range(10000 if s == "train" else 1000)] for s in ("train", "dev", "test")}})
    data_set("Salesforce/wikitext", {"wikitext-2-v1": {s: [{"text": sentence(rng, 200)} for _ in range(600)] for s in splits}})
    data_set("local/text", {"default": {s: [{"text": sentence(rng, rng.randint(400, 900))} for _ in range(200)] for s in ("train", "test")}})
    data_set("local/pairs", {"default": {s: [{"prompt": sentence(rng, 20), "chosen": " " + sentence(rng, rng.randint(200, 500)), "rejected": " " + sentence(rng, rng.randint(200, 500))}
                                             for _ in range(200)] for s in ("train", "test")}})
    data_set("local/kto", {"default": {s: [{"prompt": sentence(rng, 20), "completion": " " + sentence(rng, rng.randint(200, 500)), "label": bool(i % 2)} for i in range(200)] for s in ("train", "test")}})
    for name in ("accuracy", "glue", "seqeval", "squad", "rouge", "sacrebleu", "f1"):
        os.makedirs(name, exist_ok=True)
        with open(f"{name}/{name}.py", "w") as f:
            f.write(METRIC)
    import numpy as np
    os.makedirs("data/made", exist_ok=True)
    for split in ("train", "val"):
        np.random.default_rng(0).integers(0, 50000, 200000).astype("uint16").tofile(f"data/made/{split}.bin")
    os.makedirs("made_words", exist_ok=True)
    for split in ("train", "valid", "test"):
        with open(f"made_words/{split}.txt", "w") as f:
            f.writelines(sentence(rng, 30) + " \n" for _ in range(400))


def make_images():
    import numpy as np
    from PIL import Image
    rng = np.random.default_rng(0)
    captions = []
    for folder, count in (("cifar10/train", 160), ("cifar10/test", 8)):
        for i in range(count):
            place = f"{folder}/{'ab'[i % 2]}"
            os.makedirs(place, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)).resize((256, 256)).save(f"{place}/{i}.jpg")
            captions.append({"image_path": os.path.abspath(f"{place}/{i}.jpg"), "caption": f"w{i} w{i + 1} w{i + 2}"})
    write_json("captions.json", captions)


def tokenizer(folder, length):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>"]
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(special + WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]", bos_token="<s>", eos_token="</s>",
                                   model_max_length=length)
    made.save_pretrained(folder)
    return len(special) + len(WORDS)


def make_models():
    import transformers as t
    layers, heads = (2, 2) if TINY else (12, 12)
    width = 32 if TINY else 768
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * width}
    vocabulary = tokenizer("bert-base-cased", 512)
    ids = {"vocab_size": vocabulary, "pad_token_id": 0, "bos_token_id": 5, "eos_token_id": 6}
    encoder = {"encoder_layers": layers // 2, "decoder_layers": layers // 2, "encoder_attention_heads": heads, "decoder_attention_heads": heads}
    models = {
        "bert-base-cased": t.BertForMaskedLM(t.BertConfig(vocab_size=vocabulary, pad_token_id=0, **sizes)),
        "gpt2": t.GPT2LMHeadModel(t.GPT2Config(n_embd=width, n_layer=layers, n_head=heads, **ids)),
        "bart": t.BartForConditionalGeneration(t.BartConfig(d_model=width, encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, decoder_start_token_id=5, forced_eos_token_id=6, **encoder, **ids)),
        "t5": t.T5ForConditionalGeneration(t.T5Config(d_model=width, d_ff=4 * width, d_kv=width // heads, num_layers=layers // 2, num_heads=heads, decoder_start_token_id=0,
                                                      **{k: v for k, v in ids.items() if k != "bos_token_id"})),
        "llama": t.LlamaForCausalLM(t.LlamaConfig(max_position_embeddings=1024, **ids, **sizes)),
        "vit": t.ViTForImageClassification(t.ViTConfig(**sizes)),
        "clip": t.CLIPModel(t.CLIPConfig(text_config={"vocab_size": vocabulary, **{k: v for k, v in ids.items() if k != "vocab_size"}}, vision_config={"num_hidden_layers": layers})),
    }
    for name, model in models.items():
        model.save_pretrained(name)
        if name in ("gpt2", "bart", "t5", "llama", "clip"):
            tokenizer(name, 1024)
    t.ViTImageProcessor().save_pretrained("vit")
    t.CLIPImageProcessor().save_pretrained("clip")
    for other in ("bert-base-uncased", "distilroberta-base"):
        if not os.path.lexists(other):
            os.symlink("bert-base-cased", other)
    os.makedirs("HuggingFaceTB", exist_ok=True)
    if not os.path.lexists("HuggingFaceTB/SmolLM-360M"):
        os.symlink("../llama", "HuggingFaceTB/SmolLM-360M")


def make_world(folder, scripts):
    os.makedirs(folder, exist_ok=True)
    here = os.getcwd()
    os.chdir(folder)
    if not os.path.exists("made"):
        make_data()
        make_models()
        make_images()
        for script in glob.glob(os.path.join(scripts, "nano", "configurator.py")):  # it looks for this where it runs
            shutil.copy(script, ".")
        with open("made", "w"):
            pass
    os.chdir(here)


# ---- running them ----


def command(folder, row, out):
    script, words, _ = ROWS[row]
    said = []
    for word in words.split():
        if word == "@cpu":
            said += ["--cpu"] if TINY else []
        elif word == "@bf16":
            said += [] if TINY else ["--bf16"]
        elif word == "@trlcpu":
            said += ["--bf16", "False", "--use_cpu"] if TINY else []
        elif word == "@nanocpu":
            said += ["--device=cpu", "--dtype=float32", "--n_layer=2", "--n_embd=32", "--n_head=2"] if TINY else []
        else:
            said.append(word.replace("@out", out))
    return [sys.executable, os.path.join(folder, script), *said]


def run(words, world, env, seconds):
    began = time.monotonic()
    try:
        done = subprocess.run(words, cwd=world, env=env, check=False, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return 124, "", str(late.stderr or "")[-400:], time.monotonic() - began
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began


def try_row(folder, out, row, gpu, write):
    world, mine = os.path.join(out, "world"), os.path.join(out, "runs", row)
    os.makedirs(mine, exist_ok=True)
    hook = os.path.join(out, "hook")
    peak = os.path.join(mine, "peak.json")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([hook, os.environ.get("PYTHONPATH", "")]), MARK: peak, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
           "HF_HOME": os.path.join(out, "home"), "WANDB_MODE": "disabled", "CUDA_VISIBLE_DEVICES": "" if TINY else str(gpu), "PYTHONUNBUFFERED": "1"}
    fit = [sys.executable, "-m", "plimsoll.fit"]
    if TINY:
        code, stdout, stderr, s = run([*fit, "--parts", "2", "--probe-only", "--", *command(folder, row, os.path.join(mine, "out"))], world, env, 240)
        write({"row": row, "expected": ROWS[row][2], "code": code, "s": round(s, 1), "out": stdout[-700:], "err": stderr[-1500:]})
        return
    code, _, stderr, s = run(command(folder, row, os.path.join(mine, "whole")), world, env, 300)
    if code or not os.path.exists(peak):
        write({"row": row, "whole_code": code, "s": round(s, 1), "err": stderr[-900:]})
        if not os.path.exists(peak):
            return
    with open(peak) as f:
        whole = json.load(f)[0]
    for share in SHARES:
        os.path.exists(peak) and os.remove(peak)
        limit = int(whole * share)
        name = f"{share:.2f}"
        code, stdout, stderr, s = run([*fit, "--memory", str(limit), "--file", os.path.join(mine, f"{name}.toml"), "--", *command(folder, row, os.path.join(mine, name))], world, {**env, LIMIT: str(limit)}, 400)
        at_peak = None
        if os.path.exists(peak):
            with open(peak) as f:
                at_peak = json.load(f)
        write({"row": row, "expected": ROWS[row][2], "share": share, "code": code, "s": round(s, 1), "whole_bytes": whole, "limit_bytes": limit, "peak_bytes": at_peak and at_peak[0], "ooms": at_peak and at_peak[1],
               "out": stdout[-2500:], "err": "\n".join(line for line in stderr.splitlines() if "plimsoll fit" in line or "Error" in line or line.startswith("  "))[-700:]})


def main():
    folder, out, *names = sys.argv[1:]
    folder, out = os.path.abspath(folder), os.path.abspath(out)
    began = time.monotonic()
    os.makedirs(os.path.join(out, "hook"), exist_ok=True)
    with open(os.path.join(out, "hook", "sitecustomize.py"), "w") as f:
        f.write(HOOK)
    make_world(os.path.join(out, "world"), folder)
    print(f"world {time.monotonic() - began:.0f} s", flush=True)
    lock, left = threading.Lock(), list(names or ROWS)
    gpus = 1
    if not TINY:
        import torch
        gpus = torch.cuda.device_count()

    def write(line):
        with lock, open(os.path.join(out, "scripts.jsonl"), "a") as f:
            f.write(json.dumps(line) + "\n")
            f.flush()
        print({k: v for k, v in line.items() if k in ("row", "code", "whole_code", "share", "s")}, flush=True)

    def work(gpu):
        while True:
            with lock:
                if not left or time.monotonic() - began > LEFT_S:
                    return
                row = left.pop(0)
            try:
                try_row(folder, out, row, gpu, write)
            except Exception as error:  # of this row alone
                write({"row": row, "error": repr(error)})

    jobs = int(os.environ.get("JOBS", "1" if TINY else "3"))
    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(gpus) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
