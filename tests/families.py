#!/usr/bin/env python3
"""families.py MODEL_DUMP CLI [TYPE ...]: families of data/models/ have the parameters of Transformers' own classes.

Each model_type that Transformers and this program both know is built on the meta device, where tensors have sizes alone:
from its configuration class's defaults, once with all keys and once with those that a file would have, and from small
ones with numbers that are unlike each other.  Parameters must agree in name, shape and order, and a configuration of
defaults gets a verdict unless its family says what is not planned.  Without Transformers, or with another release, it is skipped, and says so.
"""
import json
import os
import sys
import warnings

import lib

SKIPPED = 77
RELEASE = "5.23."  # whose classes the tables are compared with; names and order differ between releases
# Numbers that are unlike each other, so that no shape is right by chance; a class takes those that it has.
SMALL = {
    "hidden_size": 132, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 20, "intermediate_size": 344,
    "vocab_size": 1009, "max_position_embeddings": 257, "num_hidden_layers": 4, "n_embd": 132, "n_head": 6, "n_layer": 4,
    "n_positions": 257, "n_inner": 344, "d_model": 132, "ffn_dim": 344, "n_heads": 6, "n_layers": 4,
    "num_heads": 6, "encoder_layers": 3, "decoder_layers": 4, "encoder_attention_heads": 6, "attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 344, "decoder_ffn_dim": 352, "moe_intermediate_size": 88,
    "num_experts": 7, "num_local_experts": 7, "n_routed_experts": 7, "num_experts_per_tok": 2, "type_vocab_size": 4,
    "embedding_size": 44, "max_target_positions": 259, "max_source_positions": 263, "num_mel_bins": 40, "q_lora_rank": 52,
    "kv_lora_rank": 36, "qk_nope_head_dim": 10, "v_head_dim": 14, "dim": 132, "hidden_dim": 344, "d_ff": 344, "d_kv": 20,
    "word_embed_proj_dim": 96, "intermediate_size_mlp": 352, "state_size": 12, "conv_kernel": 3, "pad_token_id": 0,
    "shared_expert_intermediate_size": 92, "num_layers": 4, "n_shared_experts": 2, "first_k_dense_replace": 2,
}
# Switches that a class has, each turned alone.
TURNED = ("tie_word_embeddings", "attention_bias", "mlp_bias", "bias", "use_bias", "qkv_bias", "enable_bias", "lm_head_bias",
          "use_qk_norm", "multi_query", "new_decoder_architecture", "parallel_attn", "alibi", "position_biased_input",
          "relative_attention", "norm_bias", "classifier_bias", "use_conv_bias", "attention_out_bias", "qk_layernorm",
          "do_layer_norm_before", "multi_query", "use_parallel_residual")
# What else a class needs where its numbers are small.
NEEDED = {
    "mamba2": {"num_heads": 6, "head_dim": 44, "expand": 2, "n_groups": 2},
    "gpt_neo": {"num_layers": 4, "attention_types": [[["global", "local"], 2]]},
    "glm4_moe_lite": {"qk_rope_head_dim": 64},
}

# What Transformers has called otherwise since the release whose names the tables have.
RENAMED = {("gpt_neox", "lm_head.weight"): "embed_out.weight"}
# Whose head is made before its body since, and so names what both share.
HEAD_FIRST = {"xlm-roberta": ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
              "camembert": ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight")}


def transformers():
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    warnings.filterwarnings("ignore")
    try:
        import torch
        import transformers as library
        from transformers.models.auto import modeling_auto
    except ImportError as e:
        print(f"skipped: families are compared with Transformers' own classes, and {e}")
        sys.exit(SKIPPED)
    if not library.__version__.startswith(RELEASE):
        print(f"skipped: families are compared with Transformers {RELEASE}x, and this is {library.__version__}")
        sys.exit(SKIPPED)
    return torch, library, modeling_auto


def class_of(library, auto, model_type):
    """The class that AutoModel gives for a model_type, of the first task that there is one for."""
    for names in (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
                  auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES, auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
                  auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, auto.MODEL_MAPPING_NAMES):
        name = names.get(model_type)
        if name:
            return getattr(library, name if isinstance(name, str) else name[0])
    return None


def built(torch, cls, config):
    """Names and shapes of a model's parameters, tied ones once, in the order of its modules."""
    with torch.device("meta"):
        model = cls(config)
    return [[name, *p.shape] for name, p in model.named_parameters()]


def texts(cls, config):
    """As a file has it: with every key, and with those that differ from the defaults."""
    for all_keys in (True, False):
        text = json.loads(config.to_json_string(use_diff=not all_keys))
        text["architectures"] = [cls.__name__]
        yield "every key" if all_keys else "keys that differ", text


def variants(base, model_type):
    """Small configurations of a class."""
    has = base.to_dict()
    small = {k: v for k, v in SMALL.items() if k in has and (k != "head_dim" or has[k] is not None)}
    small.update(NEEDED.get(model_type, {}))
    yield "small", small
    for key in TURNED:
        if isinstance(has.get(key), bool):
            yield f"small, {key}={not has[key]}", dict(small, **{key: not has[key]})


def configurations(library, model_type):
    cls = library.CONFIG_MAPPING[model_type]
    try:
        base = cls()
    except Exception as e:  # pylint: disable=broad-exception-caught # of any class of theirs
        print(f"    {model_type}: its class takes no defaults: {str(e).splitlines()[0][:90]}")
        return
    yield "defaults", base
    for name, numbers in variants(base, model_type):
        try:
            yield name, cls(**numbers)
        except Exception:  # pylint: disable=broad-exception-caught # numbers that the class refuses are not a model
            continue


def dumped(config):
    out = lib.run("-n", stdin=("float32 %s\n" % json.dumps(config)).encode(), codes=lib.ANY, text=False).stdout.decode()
    lines = out.splitlines()
    if not lines or not lines[0].startswith("total "):
        return None, lines
    return lines[0].split(), [line[2:].split() for line in lines[1:] if line.startswith(("p ", "p* "))]


def same_but_first(model_type, got, want):
    head, body = HEAD_FIRST.get(model_type, ("", ""))
    names = {w[0] for w in want}
    renamed = [[body if w[0] == head and body not in names else w[0], *w[1:]] for w in want]
    return bool(head) and sorted(renamed) == sorted(got)


# What differs, with the file's text: such a model must not get a verdict.
differing = []


def check(torch, cls, where, config):
    try:
        want = [[RENAMED.get((config.model_type, name), name), *map(str, shape)]
                for name, *shape in built(torch, cls, config)]
    except Exception:  # pylint: disable=broad-exception-caught # numbers that the class refuses are not a model
        return 0
    for name, text in texts(cls, config):
        total, got = dumped(text)
        if not lib.expect(total, f"{where}, {name}", "; ".join(map(str, got))[:200]):
            continue
        if got == want or same_but_first(config.model_type, got, want):
            continue
        differ = [" ".join(w) for w in want if w not in got][:4]
        more = [" ".join(g) for g in got if g not in want][:4]
        differing.append((f"{where}, {name}", text,
                          f"in PyTorch alone: {differ}; here alone: {more}" if differ or more else "another order"))
    return 1


def check_verdicts(library, cls, model_type):
    """A model of all defaults is planned without a doubt, except for what its family says that it does not plan."""
    config = next((c for name, c in configurations(library, model_type) if name == "defaults"), None)
    verdicts = 0
    for name, text in texts(cls, config) if config else ():
        doubts = lib.planned(text, "--task", "infer", "--seq", 16, "--memory", "4TiB")["model"]["doubts"]
        lib.expect(all("--trace" in d for d in doubts), f"{model_type}, defaults, {name}", doubts)
        verdicts += not doubts
    return verdicts


def main():
    dump, cli, only = sys.argv[1], sys.argv[2], sys.argv[3:]
    torch, library, auto = transformers()
    types = [t for t in library.CONFIG_MAPPING if not only or t in only]
    lib.start(cli)
    verdicts, families, done = 0, [], 0
    for t in types:
        told = lib.planned({"model_type": t, "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 1000,
                            "num_attention_heads": 4}, "--task", "infer", codes=lib.ANY) if t else None
        families += [t] if told and not told["model"]["guessed"] and class_of(library, auto, t) else []
    for t in families:
        verdicts += check_verdicts(library, class_of(library, auto, t), t)
    lib.start(dump)
    for t in families:
        for name, config in configurations(library, t):
            done += check(torch, class_of(library, auto, t), f"{t}, {name}", config)
    lib.start(cli)
    for where, text, what in differing:
        lib.expect(lib.planned(text, "--task", "infer", "--seq", 16, codes=lib.ANY)["model"]["doubts"], where, what)
    print(f"{len(families)} families, {done} configurations built, {verdicts} of {2 * len(families)} defaults with a verdict")
    lib.finish("families as Transformers has them", least=10)


main()
