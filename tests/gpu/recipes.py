#!/usr/bin/env python3
"""recipes.py OUT [NAME...]: runs with bitsandbytes, PEFT, DeepSpeed, TRL, Liger and torchao on a GPU of 80 GB, for tests/recipes.py.

Needs PyTorch with CUDA, Transformers, and what a recipe names.  Each recipe has a process of its own; OUT/NAME.json has what was
allocated and reserved phase by phase, OUT/NAME.pickle.xz PyTorch's own recording.  Models are shapes of published ones, their
weights sparse files of zeros.
"""
import contextlib
import gc
import json
import lzma
import os
import pickle
import struct
import subprocess
import sys
import time
import traceback

import torch

FOLDER = os.environ.get("RECIPES_TMP", "/tmp/recipes")
PHASES = []
BEGAN = time.time()

L = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", rms_norm_eps=1e-5, initializer_range=0.02, attention_bias=False,
         mlp_bias=False, attention_dropout=0.0, dtype="bfloat16", bos_token_id=1, eos_token_id=2, rope_theta=500000.0, use_cache=False)
SHAPES = {
    "L1": dict(L, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
               vocab_size=128256, max_position_embeddings=131072, tie_word_embeddings=True),
    "L8": dict(L, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
               vocab_size=128256, max_position_embeddings=131072, tie_word_embeddings=False),
    "L7": dict(L, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32, head_dim=128,
               vocab_size=32000, max_position_embeddings=4096, tie_word_embeddings=False),
    "Q05": dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", rms_norm_eps=1e-6, initializer_range=0.02,
                attention_dropout=0.0, dtype="bfloat16", hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                num_key_value_heads=2, vocab_size=151936, max_position_embeddings=32768, tie_word_embeddings=True, rope_theta=1000000.0,
                use_cache=False, use_sliding_window=False, max_window_layers=24, sliding_window=32768, bos_token_id=1, eos_token_id=2),
}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}
SHAPES["L1fp8"] = dict(SHAPES["L1"], quantization_config=FP8)
G = dict(architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_size=2880, intermediate_size=2880, num_hidden_layers=4,
         num_attention_heads=64, num_key_value_heads=8, head_dim=64, vocab_size=201088, num_local_experts=32, num_experts_per_tok=4,
         sliding_window=128, max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=True, dtype="bfloat16",
         layer_types=["sliding_attention", "full_attention"] * 2, hidden_act="silu", initializer_range=0.02, eos_token_id=2, pad_token_id=1,
         rope_parameters={"rope_type": "default", "rope_theta": 150000.0})
SHAPES["G4"] = dict(G, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": [
    "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})


def config_of(name):
    return dict(SHAPES[name])


def tensors_of(config):
    """name -> (dtype, dims) as the file has them."""
    h, i, v = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    q, kv = config["num_attention_heads"] * config["head_dim"] if "head_dim" in config else h, 0
    d = config.get("head_dim", h // config["num_attention_heads"])
    kv = config["num_key_value_heads"] * d
    method = config.get("quantization_config", {}).get("quant_method")
    out = {"model.embed_tokens.weight": ("BF16", [v, h]), "model.norm.weight": ("BF16", [h])}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = ("BF16", [v, h])
    for n in range(config["num_hidden_layers"]):
        p = f"model.layers.{n}."
        linear = {"self_attn.q_proj": (q, h), "self_attn.k_proj": (kv, h), "self_attn.v_proj": (kv, h), "self_attn.o_proj": (h, q)}
        bias = ["q", "k", "v"] if config["model_type"] == "qwen2" else ["q", "k", "v", "o"] if config["model_type"] == "gpt_oss" else []
        for b in bias:
            out[p + f"self_attn.{b}_proj.bias"] = ("BF16", [linear[f"self_attn.{b}_proj"][0]])
        if config["model_type"] == "gpt_oss":
            e = config["num_local_experts"]
            out[p + "self_attn.sinks"] = ("BF16", [config["num_attention_heads"]])
            out[p + "mlp.router.weight"], out[p + "mlp.router.bias"] = ("BF16", [e, h]), ("BF16", [e])
            for name, rows, cols in (("gate_up_proj", 2 * i, h), ("down_proj", h, i)):
                out[p + f"mlp.experts.{name}_blocks"] = ("U8", [e, rows, cols // 32, 16])
                out[p + f"mlp.experts.{name}_scales"] = ("U8", [e, rows, cols // 32])
                out[p + f"mlp.experts.{name}_bias"] = ("BF16", [e, rows])
        else:
            linear.update({"mlp.gate_proj": (i, h), "mlp.up_proj": (i, h), "mlp.down_proj": (h, i)})
        for name, (rows, cols) in linear.items():
            out[p + name + ".weight"] = ("F8_E4M3" if method == "fp8" else "BF16", [rows, cols])
            if method == "fp8":
                out[p + name + ".weight_scale_inv"] = ("F32", [(rows + 127) // 128, (cols + 127) // 128])
        out[p + "input_layernorm.weight"] = out[p + "post_attention_layernorm.weight"] = ("BF16", [h])
    return out


def write(name, folder):
    """A model as a folder of config.json and one safetensors file, of zeros that take no room on the disk."""
    config = config_of(name)
    os.makedirs(folder, exist_ok=True)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor, (dtype, dims) in tensors_of(config).items():
        n = {"BF16": 2, "F32": 4, "U8": 1, "F8_E4M3": 1}[dtype]
        for d in dims:
            n *= d
        header[tensor] = {"dtype": dtype, "shape": dims, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return folder

Q = "--lora 16 --lora-targets all-linear"
SPECS = [
    # bitsandbytes: weights
    dict(name="nf4-8b", model="L8", load="pretrained", quant="nf4", kbit=True, lora="all-linear", gib=16, plan="-b 1 -s 1024 -q nf4 " + Q),
    dict(name="nf4-1b", model="L1", load="pretrained", quant="nf4", kbit=True, lora="all-linear", gib=8, plan="-b 2 -s 1024 -q nf4 " + Q, batch=2),
    dict(name="nf4-1b-pure", model="L1", load="pretrained", quant="nf4", lora="all-linear", precision="pure", clip=False, gib=10,
         plan="-b 2 -s 1024 -q nf4 -c none -p bf16-pure --no-clip " + Q, batch=2),
    dict(name="nf4-double-7b-paged8", model="L7", load="pretrained", quant="nf4-double", kbit=True, lora="all-linear", optimizer="paged_adamw_8bit", gib=12,
         plan="-b 1 -s 1024 -q nf4-double -O adamw-paged-8bit " + Q),
    dict(name="int8-1b", model="L1", load="pretrained", quant="int8", kbit=True, lora="all-linear", gib=8, plan="-b 1 -s 1024 -q int8 " + Q, random=True),
    dict(name="nf4-8b-generate", model="L8", load="pretrained", quant="nf4", task="generate", gib=10, plan="-b 1 -s 512 -t generate --new-tokens 16 -q nf4", seq=512),
    dict(name="nf4-double-1b-generate", model="L1", load="pretrained", quant="nf4-double", task="generate", gib=4,
         plan="-b 4 -s 512 -t generate --new-tokens 16 -q nf4-double", seq=512, batch=4),
    dict(name="int8-1b-generate", model="L1", load="pretrained", quant="int8", task="generate", gib=4, random=True,
         plan="-b 4 -s 512 -t generate --new-tokens 16 -q int8", seq=512, batch=4),
    # bitsandbytes: optimizers
    dict(name="adamw8-1b", model="L1", optimizer="adamw_8bit", precision="weights", ckpt=True, gib=14, plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-8bit"),
    dict(name="adamw8-q05-autocast", model="Q05", optimizer="adamw_8bit", gib=16, plan="-b 1 -s 1024 -O adamw-8bit"),
    dict(name="paged-1b", model="L1", optimizer="paged_adamw_32bit", precision="weights", ckpt=True, gib=24, plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-paged"),
    dict(name="paged8-1b", model="L1", optimizer="paged_adamw_8bit", precision="weights", ckpt=True, gib=14,
         plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-paged-8bit"),
    dict(name="trainer-adamw8-1b", model="L1", kind="trainer", optimizer="adamw_bnb_8bit", precision="weights", ckpt=True, gib=16,
         plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-8bit"),
    # DeepSpeed, one rank
    dict(name="zero1-1b", model="L1", kind="deepspeed", stage=1, ckpt=True, gib=28, plan="-b 1 -s 1024 -c full -O adamw-fused --parallel zero2"),
    dict(name="zero2-1b", model="L1", kind="deepspeed", stage=2, ckpt=True, gib=28, plan="-b 1 -s 1024 -c full -O adamw-fused --parallel zero2"),
    dict(name="zero3-1b", model="L1", kind="deepspeed", stage=3, ckpt=True, gib=28, plan="-b 1 -s 1024 -c full -O adamw-fused --parallel zero3"),
    dict(name="zero2-offload-1b", model="L1", kind="deepspeed", stage=2, offload="optimizer", ckpt=True, gib=16,
         plan="-b 1 -s 1024 -c full --offload-optimizer cpu --parallel zero2"),
    dict(name="zero3-offload-1b", model="L1", kind="deepspeed", stage=3, offload="both", ckpt=True, gib=16,
         plan="-b 1 -s 1024 -c full --offload-optimizer cpu --offload-params cpu --parallel fsdp2"),
    # Liger and TRL
    dict(name="liger-loss-1b", model="L1", liger="loss", precision="weights", batch=2, seq=2048, gib=24, plan="-b 2 -s 2048 -p bf16-weights --loss liger"),
    dict(name="liger-all-1b", model="L1", liger="all", precision="weights", batch=2, seq=2048, gib=24, plan="-b 2 -s 2048 -p bf16-weights --loss liger"),
    dict(name="liger-loss-q05-autocast", model="Q05", liger="loss", batch=2, seq=1024, gib=16, plan="-b 2 -s 1024 --loss liger"),
    dict(name="trl-sft-1b", model="L1", kind="trl", batch=2, seq=2048, ckpt=True, precision="weights", gib=24,
         plan="-b 2 -s 2048 -p bf16-weights -c full --loss fused -O adamw-fused"),
    dict(name="trl-sft-1b-lora", model="L1", kind="trl", batch=2, seq=2048, ckpt=True, precision="weights", lora="all-linear", gib=16,
         plan="-b 2 -s 2048 -p bf16-weights -c full --loss fused -O adamw-fused " + Q),
    # PEFT on 16 bits, optimizer in backward, FSDP with QLoRA
    dict(name="lora-1b", model="L1", lora="all-linear", precision="weights", ckpt=True, batch=2, gib=10, plan="-b 2 -s 1024 -p bf16-weights -c full " + Q),
    dict(name="lora-1b-whole", model="L1", lora="all-linear", precision="weights", batch=2, gib=20, plan="-b 2 -s 1024 -p bf16-weights " + Q),
    dict(name="in-backward-1b", model="L1", optimizer="in-backward", precision="pure", ckpt=True, clip=False, gib=14,
         plan="-b 1 -s 1024 -p bf16-pure -c full --no-clip -O adamw-fused --optimizer-in-backward"),
    dict(name="fsdp2-nf4-1b", model="L1", kind="fsdp", load="pretrained", quant="nf4", storage=True, lora="all-linear", precision="pure", ckpt=True, batch=2, gib=10,
         plan="-b 2 -s 1024 -p bf16-pure -c full -q nf4 --parallel fsdp2 " + Q, clip=False),
    # files that are quantized
    dict(name="fp8-1b-infer", model="L1fp8", load="pretrained", task="infer", gib=6, plan="-b 2 -s 1024 -t infer", batch=2),
    dict(name="mxfp4-infer", model="G4", load="pretrained", task="infer", gib=24, plan="-b 1 -s 512 -t infer", seq=512),
    dict(name="nf4-saved-1b-infer", model="L1", load="saved", quant="nf4", task="infer", gib=6, plan="-b 2 -s 1024 -t infer -q nf4", batch=2),
    # torchao
    dict(name="ao-adamw8-1b", model="L1", optimizer="ao8", precision="weights", ckpt=True, gib=18, plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-8bit"),
    dict(name="ao-adamw4-1b", model="L1", optimizer="ao4", precision="weights", ckpt=True, gib=18, plan="-b 1 -s 1024 -c full -p bf16-weights -O adamw-8bit"),
    dict(name="ao-adamw8-cpu-1b", model="L1", optimizer="aocpu", precision="pure", ckpt=True, clip=False, gib=18, plan="-b 1 -s 1024 -c full -p bf16-pure --no-clip -O adamw-paged"),
    dict(name="ao-int8-1b-infer", model="L1", ao="int8", task="infer", precision="pure", gib=6, plan="-b 2 -s 1024 -t infer -q int8", batch=2),
    dict(name="ao-int4-1b-infer", model="L1", ao="int4", task="infer", precision="pure", gib=6, plan="-b 2 -s 1024 -t infer -q nf4", batch=2),
]


def phase(name):
    """A phase has ended."""
    torch.cuda.synchronize()
    PHASES.append({"phase": name, "allocated_peak": torch.cuda.max_memory_allocated(), "reserved_peak": torch.cuda.max_memory_reserved(),
                   "allocated": torch.cuda.memory_allocated(), "requested_peak": torch.cuda.memory_stats()["requested_bytes.all.peak"],
                   "used": torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0], "us": time.time_ns() // 1000})
    torch.cuda.reset_peak_memory_stats()


def quantization(spec):
    from transformers import BitsAndBytesConfig
    how = spec.get("quant")
    if not how:
        return None
    if how == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    more = {"bnb_4bit_quant_storage": torch.bfloat16} if spec.get("storage") else {}
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16,
                              bnb_4bit_use_double_quant=how == "nf4-double", **more)


def weights_dtype(spec):
    return torch.bfloat16 if spec.get("precision") in ("pure", "weights") or spec.get("load") else torch.float32


def build(spec):
    from transformers import AutoConfig, AutoModelForCausalLM
    name = spec["model"]
    folder = f"{FOLDER}/models/{name}"  # written by main()
    if spec.get("random"):  # outliers are looked for in 8 bits
        folder += "-" + spec["name"]
        write(name, folder)
        from safetensors.torch import load_file, save_file
        tensors = load_file(folder + "/model.safetensors")
        save_file({k: v.normal_(0, 0.02) for k, v in tensors.items()}, folder + "/model.safetensors", {"format": "pt"})
    if spec.get("load") == "pretrained":
        model = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0}, dtype="auto", **({"quantization_config": quantization(spec)} if spec.get("quant") else {}))
    elif spec.get("load") == "saved":
        first = AutoModelForCausalLM.from_pretrained(folder, device_map={"": 0}, dtype="auto", quantization_config=quantization(spec))
        first.save_pretrained(folder + "-saved")  # one recipe alone does
        del first
        gc.collect()
        torch.cuda.empty_cache()
        phase("first")
        model = AutoModelForCausalLM.from_pretrained(folder + "-saved", device_map={"": 0}, dtype="auto")
    else:
        config = AutoConfig.from_pretrained(folder)
        config.dtype = weights_dtype(spec)
        torch.set_default_dtype(weights_dtype(spec))
        with contextlib.nullcontext() if spec.get("kind") == "deepspeed" else torch.device("cuda"):
            model = AutoModelForCausalLM.from_config(config)
        torch.set_default_dtype(torch.float32)
    model.config.use_cache = spec.get("task") == "generate"
    return model


def liger(spec):
    if not spec.get("liger"):
        return
    from liger_kernel.transformers import apply_liger_kernel_to_llama, apply_liger_kernel_to_qwen2
    one = spec["liger"] == "all"
    apply = apply_liger_kernel_to_llama if spec["model"].startswith("L") else apply_liger_kernel_to_qwen2
    apply(rope=one, rms_norm=one, swiglu=one, fused_linear_cross_entropy=True, cross_entropy=False)


def adapt(spec, model):
    if spec.get("kbit"):
        from peft import prepare_model_for_kbit_training
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": False})
    elif spec.get("ckpt") and spec.get("kind") not in ("trainer", "trl"):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if spec.get("lora"):
            model.enable_input_require_grads()
    if spec.get("lora"):
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, target_modules=spec["lora"], lora_dropout=0.0, task_type="CAUSAL_LM"),
                               autocast_adapter_dtype=spec.get("precision") != "pure")
    if spec.get("ao"):
        import torchao.quantization as q
        q.quantize_(model, q.Int8WeightOnlyConfig() if spec["ao"] == "int8" else q.Int4WeightOnlyConfig(group_size=128, int4_packing_format="tile_packed_to_4d"))
    model.train(spec.get("task", "train") == "train")
    return model


def optimizer_of(spec, model):
    p = [x for x in model.parameters() if x.requires_grad]
    name = spec.get("optimizer", "adamw")
    if name == "adamw":
        return torch.optim.AdamW(p, lr=1e-4)
    if name == "in-backward":
        each = {x: torch.optim.AdamW([x], lr=1e-4, fused=True) for x in p}

        def step(x):
            each[x].step()
            each[x].zero_grad()
        for x in p:
            x.register_post_accumulate_grad_hook(step)
        return None
    if name.startswith("ao"):
        from torchao.optim import AdamW4bit, AdamW8bit, CPUOffloadOptimizer
        if name == "aocpu":
            return CPUOffloadOptimizer(p, torch.optim.AdamW, lr=1e-4, fused=True)
        return {"ao8": AdamW8bit, "ao4": AdamW4bit}[name](p, lr=1e-4)
    import bitsandbytes as bnb
    if "8bit" in name:  # as the Trainer does it: embeddings keep 32 bits
        manager = bnb.optim.GlobalOptimManager.get_instance()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                manager.register_module_override(module, "weight", {"optim_bits": 32})
    kind = {"adamw_8bit": bnb.optim.AdamW8bit, "paged_adamw_8bit": bnb.optim.PagedAdamW8bit, "paged_adamw_32bit": bnb.optim.PagedAdamW32bit}[name]
    return kind(p, lr=1e-4)


def autocast(spec):
    if spec.get("precision") == "pure":
        return contextlib.nullcontext()
    return torch.autocast("cuda", torch.bfloat16)


def batch_of(spec, model):
    n = spec.get("batch", 1), spec.get("seq", 1024)
    return torch.randint(0, 1000, n, device="cuda")


def train(spec, model):
    optimizer = optimizer_of(spec, model)
    if spec.get("kind") == "fsdp":
        raise ValueError("not here")
    loss = None
    for step in range(3):
        ids = batch_of(spec, model)
        with autocast(spec):
            out = model(input_ids=ids, labels=ids)
        loss = out.loss
        del out
        phase(f"fwd{step}")
        loss.backward()
        phase(f"bwd{step}")
        if optimizer is None:
            continue
        if spec.get("clip", True):
            torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        phase(f"opt{step}")
        optimizer.zero_grad()
        phase(f"zero{step}")


def group(spec):
    """One process is a group."""
    import torch.distributed as dist
    port = 29600 + [s["name"] for s in SPECS].index(spec["name"])
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    return dist


def fsdp(spec, model):
    dist = group(spec)
    dist.init_process_group("nccl")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cuda", (1,))
    for layer in model.get_base_model().model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    phase("wrap")
    train({**spec, "kind": None}, model)


def deepspeed_run(spec):
    group(spec)
    import deepspeed
    import torch._dynamo  # noqa: F401 - before zero.Init stands where tensors are made
    import transformers.models.llama.modeling_llama  # noqa: F401
    deepspeed.init_distributed("nccl")
    zero = {"stage": spec["stage"]}
    if spec.get("offload"):
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if spec.get("offload") == "both":
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    config = {"train_micro_batch_size_per_gpu": spec.get("batch", 1), "gradient_clipping": 1.0, "bf16": {"enabled": True}, "zero_optimization": zero,
              "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, "steps_per_print": 1000}
    spec = {**spec, "precision": "pure"}
    with deepspeed.zero.Init(config_dict_or_path=config, enabled=spec["stage"] == 3):
        model = adapt(spec, build(spec))
    phase("load")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=not spec.get("offload"))
    engine = deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]
    phase("wrap")
    for step in range(3):
        ids = batch_of(spec, model)
        out = engine(input_ids=ids, labels=ids)
        loss = out.loss
        del out
        phase(f"fwd{step}")
        engine.backward(loss)
        phase(f"bwd{step}")
        engine.step()
        phase(f"opt{step}")


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    t = Tokenizer(models.WordLevel({"<unk>": 0, "<pad>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, 1000)}}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


class Marks:
    """In the Trainer's loop: ends of phases by its own callbacks and the model's hooks."""

    def __init__(self, trainer_callback, model):
        marks = self
        self.step = 0

        class Callback(trainer_callback):
            def on_pre_optimizer_step(self, *a, **k):
                phase(f"bwd{marks.step}")

            def on_optimizer_step(self, *a, **k):
                phase(f"opt{marks.step}")

            def on_step_end(self, *a, **k):
                phase(f"zero{marks.step}")
                marks.step += 1
        self.callback = Callback()


def trainer_run(spec):
    from transformers import TrainerCallback, TrainingArguments
    model = build(spec)
    if spec.get("lora") and spec["kind"] != "trl":
        model = adapt(spec, model)
    phase("load")
    n, rows = spec.get("seq", 1024), 3 * spec.get("batch", 1)
    data = [{"input_ids": torch.randint(3, 1000, (n,)).tolist()} for _ in range(rows)]
    same = dict(output_dir=FOLDER + "/out-" + spec["name"], per_device_train_batch_size=spec.get("batch", 1), max_steps=3, bf16=True, report_to="none",
                save_strategy="no", logging_strategy="no", gradient_checkpointing=bool(spec.get("ckpt")), disable_tqdm=True,
                gradient_checkpointing_kwargs={"use_reentrant": False}, dataloader_pin_memory=False)
    marks = Marks(TrainerCallback, model)
    if spec["kind"] == "trl":
        from datasets import Dataset
        from datasets.table import InMemoryTable
        from trl import SFTConfig, SFTTrainer
        from peft import LoraConfig
        peft = LoraConfig(r=16, lora_alpha=32, target_modules=spec["lora"], task_type="CAUSAL_LM") if spec.get("lora") else None
        trainer = SFTTrainer(model=model, args=SFTConfig(max_length=n, dataset_kwargs={"skip_prepare_dataset": True}, **same), train_dataset=Dataset(InMemoryTable.from_pydict({"input_ids": [d["input_ids"] for d in data]}), fingerprint="made"), processing_class=tokenizer(),
                             callbacks=[marks.callback], peft_config=peft)
    else:
        from transformers import Trainer
        trainer = Trainer(model=model, args=TrainingArguments(optim=spec["optimizer"], **same), callbacks=[marks.callback],
                          train_dataset=[{"input_ids": d["input_ids"], "labels": d["input_ids"]} for d in data],
                          data_collator=lambda rows: {k: torch.tensor([r[k] for r in rows]) for k in rows[0]})
    trainer.train()
    phase("end")


def infer(spec, model):
    for step in range(2):
        ids = batch_of(spec, model)
        with torch.no_grad():
            if spec["task"] == "generate":
                model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, min_new_tokens=16, do_sample=False, pad_token_id=0, use_cache=True)
            else:
                out = model(input_ids=ids)
                del out
        phase(f"{spec['task']}{step}")


def run(spec):
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=300000)
    torch.manual_seed(0)
    if spec.get("kind") == "deepspeed":
        return deepspeed_run(spec)
    if spec.get("kind") in ("trainer", "trl"):
        return trainer_run(spec)
    liger(spec)
    model = build(spec)
    phase("load")
    model = adapt(spec, model)
    phase("adapt")
    row = {"parameters": sum(p.numel() for p in model.parameters()), "parameter_bytes": sum(p.nbytes for p in model.parameters()),
           "linear": type(model.get_submodule("base_model.model.model.layers.0.mlp.up_proj" if spec.get("lora") else "model.layers.0").__class__).__name__}
    if spec.get("kind") == "fsdp":
        fsdp(spec, model)
    elif spec.get("task", "train") == "train":
        train(spec, model)
    else:
        infer(spec, model)
    return row


def child(spec, folder):
    began, row = time.time(), {}
    path = f"{folder}/{spec['name']}"
    try:
        row = run(spec) or {}
    except BaseException as e:  # noqa: BLE001
        row = {"error": f"{type(e).__name__}: {e}"[:600], "traceback": traceback.format_exc()[-2000:]}
    row = {"name": spec["name"], "phases": PHASES, "seconds": round(time.time() - began, 2), "torch": torch.__version__, **row}
    for package in ("transformers", "peft", "bitsandbytes", "trl", "deepspeed", "torchao", "liger_kernel", "accelerate"):
        if package in sys.modules:
            row[package] = getattr(sys.modules[package], "__version__", "?")
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump(row, f)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with lzma.open(path + ".pickle.xz", "wb", preset=1) as f:
        pickle.dump(snapshot, f)
    os._exit(0)


def summary(spec, folder):
    try:
        with open(f"{folder}/{spec['name']}.json", encoding="utf-8") as f:
            row = json.load(f)
    except (OSError, ValueError):
        return f"{spec['name']}: nothing"
    peak = max((p.get("allocated_peak", 0) for p in row["phases"] if p["phase"] != "first"), default=0)
    reserved = max((p.get("reserved_peak", 0) for p in row["phases"] if p["phase"] != "first"), default=0)
    return f"{spec['name']}: {row.get('error', '')[:160]} {peak / 2**20:.1f} {reserved / 2**20:.1f} MiB {len(row['phases'])} phases {row['seconds']} s"


def start(spec, folder):
    log = open(f"{folder}/{spec['name']}.log", "w", encoding="utf-8")
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), folder, "--child", spec["name"]], stdout=log, stderr=log)


def main(folder, only, most_gib, at_once, seconds, until):
    os.makedirs(folder, exist_ok=True)
    for name in sorted({s["model"] for s in SPECS}):
        write(name, f"{FOLDER}/models/{name}")
    waiting = [s for s in SPECS if not only or s["name"] in only]
    running, used = [], 0
    while waiting or running:
        for spec in list(waiting):
            if time.time() - BEGAN > until - 25:
                print(spec["name"], "not begun", flush=True)
                waiting.remove(spec)
            elif len(running) < at_once and used + spec["gib"] <= most_gib:
                waiting.remove(spec)
                used += spec["gib"]
                running.append((start(spec, folder), spec, time.time()))
        for entry in list(running):
            process, spec, began = entry
            if process.poll() is None and (time.time() - began > seconds or time.time() - BEGAN > until):
                print(spec["name"], "took too long", flush=True)
                process.kill()
                process.wait()
            if process.poll() is not None:
                running.remove(entry)
                used -= spec["gib"]
                print(f"{time.time() - BEGAN:.0f} s", summary(spec, folder), flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    if "--child" in sys.argv:
        child(next(s for s in SPECS if s["name"] == sys.argv[3]), sys.argv[1])
    main(sys.argv[1], sys.argv[2:], 72, 10, 240, 1200)
