"""Models of diffusers and timm by name, with a batch of what they read and the loss that their training scripts have."""
from __future__ import annotations

import importlib
import inspect
from typing import Any, Callable, Mapping, cast

import torch

__all__ = ["of_diffusers", "of_timm"]

GPU = torch.device("cuda", 0)
TEXT = 77  # CLIP's tokens; others as --seq says
Made = tuple[torch.nn.Module, Callable[[], dict[str, Any]], Callable[[Any, Mapping[str, Any]], torch.Tensor]]


def _size(config: Any) -> tuple[int, int]:
    size = getattr(config, "sample_size", None) or 32
    return (size, size) if isinstance(size, int) else (int(size[-2]), int(size[-1]))


def _first(config: Any, *names: str) -> int:
    """The first that the configuration has; lists are of its blocks."""
    for name in names:
        value = getattr(config, name, None)
        if value:
            return int(value[0] if isinstance(value, (list, tuple)) else value)
    raise ValueError(f"the configuration has none of {', '.join(names)}: trace it with a function of your own (--trace MODULE:FUNCTION)")


def _latents(config: Any, batch: int, takes: set[str], dtype: torch.dtype) -> torch.Tensor:
    height, width = _size(config)
    channels = _first(config, "in_channels")
    if "img_ids" in takes:  # packed to tokens
        return torch.zeros((batch, height * width, channels), dtype=dtype, device=GPU)
    patch = getattr(config, "patch_size", None)
    frames = [5] if isinstance(patch, (list, tuple)) and len(patch) == 3 else []
    return torch.zeros((batch, channels, *frames, height, width), dtype=dtype, device=GPU)


def _conditions(config: Any, batch: int, tokens: int, takes: set[str], dtype: torch.dtype) -> dict[str, Any]:
    """What is read next to the latents, by name."""
    def zeros(*shape: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=of, device=GPU)

    found: dict[str, Any] = {}
    if "timestep" in takes:
        found["timestep"] = zeros(batch, of=torch.long)
    if "encoder_hidden_states" in takes:
        found["encoder_hidden_states"] = zeros(batch, tokens, _first(config, "joint_attention_dim", "caption_channels", "cap_feat_dim",
                                                                     "text_dim", "cross_attention_dim"))
    if "encoder_attention_mask" in takes and getattr(config, "cap_feat_dim", None):
        found["encoder_attention_mask"] = torch.ones((batch, tokens), dtype=torch.bool, device=GPU)
    if "pooled_projections" in takes:
        found["pooled_projections"] = zeros(batch, _first(config, "pooled_projection_dim"))
    if "class_labels" in takes and (getattr(config, "num_class_embeds", None) or getattr(config, "num_embeds_ada_norm", None)):
        found["class_labels"] = zeros(batch, of=torch.long)
    if "img_ids" in takes:
        height, width = _size(config)
        found.update(img_ids=zeros(height * width, 3), txt_ids=zeros(tokens, 3))
        if getattr(config, "guidance_embeds", False):
            found["guidance"] = zeros(batch)
    if "added_cond_kwargs" in takes and getattr(config, "addition_embed_type", None) == "text_time":
        times = config.addition_time_embed_dim * 6
        found["added_cond_kwargs"] = {"text_embeds": zeros(batch, config.projection_class_embeddings_input_dim - times),
                                      "time_ids": zeros(batch, 6)}
    return found


def of_diffusers(values: Mapping[str, Any], batch: int, tokens: int, dtype: torch.dtype) -> Made:
    """A config.json of one of its models (unet/config.json, transformer/config.json, vae/config.json)."""
    library: Any = importlib.import_module("diffusers")
    name = str(values["_class_name"])
    kind: Any = getattr(library, name, None)
    if kind is None or not issubclass(kind, torch.nn.Module):
        raise ValueError(f"diffusers {library.__version__} has no model '{name}': a pipeline is traced model by model, from the config.json "
                         "of its folder")
    with torch.device(GPU):
        model = cast(Any, kind).from_config({k: v for k, v in values.items() if k != "_class_name"})
    model = model if dtype is torch.float32 else model.to(dtype)
    takes = set(inspect.signature(model.forward).parameters)
    first = "sample" if "sample" in takes else "hidden_states"

    def inputs() -> dict[str, Any]:
        return {first: _latents(model.config, batch, takes, dtype), **_conditions(model.config, batch, tokens or TEXT, takes, dtype)}

    def loss(out: Any, _: Mapping[str, Any]) -> torch.Tensor:
        made = out[0]
        return torch.nn.functional.mse_loss(made.float(), torch.zeros_like(made, dtype=torch.float32))
    return model, inputs, loss


def of_timm(name: str, batch: int, dtype: torch.dtype) -> Made:
    """A model as timm.create_model names it."""
    library: Any = importlib.import_module("timm")
    try:
        with torch.device(GPU):
            model = library.create_model(name, pretrained=False).to(dtype)
    except RuntimeError as e:
        raise ValueError(f"timm {library.__version__}: {e}") from None
    size = model.pretrained_cfg.get("input_size", (3, 224, 224))

    def inputs() -> dict[str, Any]:
        return {"x": torch.zeros((batch, *size), dtype=dtype, device=GPU)}

    def loss(out: Any, _: Mapping[str, Any]) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(out, torch.zeros(out.shape[0], dtype=torch.long, device=GPU))
    return model, inputs, loss
