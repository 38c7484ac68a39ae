"""What is run: a configuration in the loop of the planner's measured runs, or a module and a step of one's own."""
from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import os
import sys
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping

import torch
from torch.utils._pytree import tree_leaves, tree_map

from . import ranks, tables
from .device import GPU, stand_in
from .engine import Recorder
from .libraries import Made, of_diffusers, of_timm
from .packed import Trace

__all__ = ["Options", "trace_config", "trace_function", "trace_module", "trace_step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A recipe in the planner's words (docs/plan.md)."""

    batch: int = 1
    seq: int = 0        # 0: 1,024, or the model's positions if fewer
    precision: str = ""  # "": bf16-autocast to train, bf16-pure else
    optimizer: str = "adamw"
    attention: str = ""  # Transformers' own choice
    checkpointing: str = "none"
    accumulate: int = 1
    lora: int = 0
    lora_targets: str = ""  # names with commas, or all-linear; "": PEFT's own for the architecture
    steps: int = 3
    task: str = "train"
    clip: bool = True
    keep_outputs: bool = False
    new_tokens: int = 0  # of a generation; 0: 128
    gpus: int = 1
    parallel: str = "ddp"  # how they share the work (ranks.py)
    capability: int = 90
    otherwise: tuple[str, ...] = ()  # lines of a script whose conditions are answered the other way (guesses.py)
    say: Callable[[str], None] = lambda stage: None  # what is being done, for whoever waits

    def asked(self) -> list[str]:
        """As the command line calls them: a kept trace is planned with these alone."""
        said = [f"batch={self.batch}", f"seq={self.seq}", f"precision={self.precision}", f"steps={self.steps}", f"task={self.task}"]
        if self.task == "train":
            said += [f"optimizer={self.optimizer}", f"checkpointing={self.checkpointing}", f"accumulate={self.accumulate}"]
            said += [] if self.clip else ["no-clip=1"]
        if self.task == "generate":
            said += [f"new-tokens={self.new_tokens}"]
        said += [f"attention={self.attention}"] if self.attention else ["attention=sdpa"]
        said += [f"lora={self.lora}"] if self.lora else []
        said += [f"gpus={self.gpus}", f"parallel={self.parallel}"] if self.gpus > 1 else []
        said += [f"lora-targets={self.lora_targets}"] if self.lora_targets else []
        return said + (["keep-outputs=1"] if self.keep_outputs else [])


AUTOCAST = {"bf16-autocast": torch.bfloat16, "fp16-autocast": torch.float16, "bf16-weights": torch.bfloat16}
HALF = ("bf16-pure", "bf16-weights")


@contextlib.contextmanager
def recording(o: Options, model: str) -> Iterator[tuple[Recorder, Any]]:
    words = [o.precision, f"with {o.optimizer}" if o.task == "train" else "", "checkpointed"
             if o.checkpointing == "full" else "", f"LoRA of rank {o.lora}" if o.lora else ""]
    trace = Trace(model=model, recipe=", ".join(w for w in words if w), batch=o.batch, sequence=o.seq, task=o.task, torch=torch.__version__.partition("+")[0],
                  capability=o.capability, way="fake CPU tensors, decided as for CUDA", asked=o.asked())
    if o.gpus > 1:
        if o.task != "train":
            raise ValueError("with several GPUs only training is traced")
        trace.assumed.append(f"rank 0 of {o.gpus} ({o.parallel}), as if its streams were one; what NCCL takes is not PyTorch's")
    r = Recorder(trace, tables.card_of(o.capability))
    r.guesses.otherwise = frozenset(o.otherwise)
    with ranks.job(o.gpus), stand_in(r) as fake:
        yield r, fake


@contextlib.contextmanager
def modules(r: Recorder, model: torch.nn.Module) -> Iterator[None]:
    """Whose call is running, by hooks; paths as named_modules has them."""
    paths = {id(m): name for name, m in model.named_modules()}
    module = torch.nn.modules.module

    def before(m: torch.nn.Module, _: Any) -> None:
        r.enter(paths.get(id(m), type(m).__name__))

    def after(m: torch.nn.Module, _: Any, __: Any) -> None:
        r.leave()

    handles = [module.register_module_forward_pre_hook(before),
               module.register_module_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def modules_of_all(r: Recorder, called: Callable[[torch.nn.Module], None]) -> Iterator[None]:
    """The same where the model is a script's: names are taken from the outermost module that is called."""
    paths: dict[int, str] = {}
    module = torch.nn.modules.module

    def before(m: torch.nn.Module, _: Any) -> None:
        called(m)
        if not r.stack and id(m) not in paths:
            paths.update((id(x), name) for name, x in m.named_modules())
            r.mark(iter(m.parameters()), "parameter")
            r.mark(iter(m.buffers()), "buffer")
        r.enter(paths.get(id(m), type(m).__name__))

    def after(m: torch.nn.Module, _: Any, __: Any) -> None:
        r.leave()

    handles = [module.register_module_forward_pre_hook(before),
               module.register_module_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _optimizer(o: Options, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
    rate = 1e-4
    if o.optimizer == "sgd":
        return torch.optim.SGD(parameters, rate)
    if o.optimizer == "sgd-momentum":
        return torch.optim.SGD(parameters, rate, momentum=0.9)
    if o.optimizer == "adafactor":
        from transformers.optimization import Adafactor
        return Adafactor(parameters, lr=rate, scale_parameter=False, relative_step=False)
    how: dict[str, Any] = {"adamw-fused": {"fused": True}, "adamw-loop": {"foreach": False}, "adamw": {}}
    if o.optimizer not in how:
        raise ValueError(f"optimizer '{o.optimizer}' is not traced; known are adamw, adamw-fused, adamw-loop, sgd, "
                         "sgd-momentum and adafactor")
    return torch.optim.AdamW(parameters, rate, **how[o.optimizer])


def _backward(r: Recorder, loss: torch.Tensor) -> None:
    r.backward = True
    try:
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward()
    finally:
        r.backward = False


def train(r: Recorder, o: Options, model: torch.nn.Module, step: Callable[[], torch.Tensor]) -> None:
    """The loop around `step`, which makes a batch and gives the loss."""
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = _optimizer(o, trainable)
    scaler = torch.amp.GradScaler("cuda") if o.precision == "fp16-autocast" else None
    for n in range(o.steps):
        o.say(f"tracing step {n + 1} of {o.steps}")
        for part in range(o.accumulate):
            tail = f".{part}" if o.accumulate > 1 else ""
            r.phase = f"fwd{n}{tail}"
            loss = step()
            if o.accumulate > 1:
                loss = loss / o.accumulate
            r.end_phase(f"bwd{n}{tail}")
            _backward(r, scaler.scale(loss) if scaler else loss)
            r.mark((p.grad for p in trainable if p.grad is not None), "gradient")
            r.end_phase(f"opt{n}" if part + 1 == o.accumulate else f"fwd{n}.{part + 1}")
        if scaler:
            scaler.unscale_(optimizer)
        if o.clip:
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        r.mark((t for s in optimizer.state.values() for t in s.values() if isinstance(t, torch.Tensor)),
               "optimizer_state")
        r.end_phase(f"zero{n}")
        optimizer.zero_grad(set_to_none=True)
        r.end_phase(f"fwd{n + 1}")


def _loaded(r: Recorder, model: torch.nn.Module) -> None:
    r.mark(iter(model.parameters()), "parameter")
    r.mark(iter(model.buffers()), "buffer")
    seen = {id(p): p for p in model.parameters()}
    r.trace.parameters = sum(p.numel() for p in seen.values())
    r.trace.trainable = sum(p.numel() for p in seen.values() if p.requires_grad)
    r.end_phase("fwd0")


# ---- a config.json of Hugging Face ----

def _class_of(config: Any) -> Any:
    import transformers
    names = list(getattr(config, "architectures", None) or [])
    for name in names:
        found = getattr(transformers, name, None)
        if found is not None:
            return found
    return None


def _model_of(config: Any) -> torch.nn.Module:
    import transformers
    made = _class_of(config)
    if made is not None:
        return made._from_config(config) if hasattr(made, "_from_config") else made(config)
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM, transformers.AutoModel):
        with contextlib.suppress(ValueError):
            return auto.from_config(config)
    raise ValueError(f"Transformers {transformers.__version__} has no model of type '{config.model_type}'")


def _read(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    path = os.fspath(source)
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    with open(path, encoding="utf-8") as f:
        values = json.load(f)
    if not isinstance(values, dict):
        raise ValueError(f"'{path}' is not a configuration of a model")
    return values


def _is_quantized(source: Mapping[str, Any] | str | os.PathLike[str]) -> bool:
    return bool(_read(source).get("quantization_config"))


def _config_of(source: Mapping[str, Any] | str | os.PathLike[str]) -> Any:
    import transformers
    values = _read(source)
    values.pop("quantization_config", None)  # trace_config says so
    kind = values.pop("model_type", None)
    if kind is None:
        raise ValueError("the configuration names no model_type")
    return transformers.AutoConfig.for_model(kind, **values)


def _ids(o: Options, config: Any, rows: int) -> torch.Tensor:
    return torch.zeros((o.batch, rows), dtype=torch.long, device=GPU)


def _batch(o: Options, config: Any, model: torch.nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What the model reads, by the name of its first input."""
    model = getattr(model, "module", model)  # in DDP
    name = getattr(model, "main_input_name", "input_ids")
    base = getattr(model, "get_base_model", None)
    kind = type(base() if callable(base) else model).__name__  # what adapters are around
    batch: dict[str, torch.Tensor] = {}
    if name == "pixel_values":
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else size
        frames = [config.num_frames] if hasattr(config, "num_frames") else []
        batch[name] = torch.zeros((o.batch, *frames, getattr(vision, "num_channels", 3), height, width), device=GPU)
    elif name == "input_features":
        batch[name] = torch.zeros((o.batch, config.num_mel_bins, config.max_source_positions * 2), device=GPU)
    elif name == "input_values":
        batch[name] = torch.zeros((o.batch, o.seq), device=GPU)
    else:
        batch["input_ids"] = _ids(o, config, o.seq)
    if o.task != "train":
        return batch
    if getattr(config, "is_encoder_decoder", False):
        batch["labels"] = _ids(o, config, max(1, o.seq // 4) if "input_ids" in batch else min(o.seq, 448))
    elif "ForSequenceClassification" in kind or "ForImageClassification" in kind:
        batch["labels"] = torch.zeros((o.batch,), dtype=torch.long, device=GPU)
    elif "For" in kind and "input_ids" in batch or "LMHead" in kind:
        batch["labels"] = _ids(o, config, o.seq)
    return batch


def _loss(o: Options, model: torch.nn.Module, batch: dict[str, torch.Tensor], kept: list[Any]) -> torch.Tensor:
    dtype = None if o.gpus > 1 and o.parallel.startswith("fsdp") else AUTOCAST.get(o.precision)  # FSDP casts parameters itself
    with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
        out = model(**batch)
        loss = getattr(out, "loss", None)
        if loss is None:
            first = next(t for t in tree_leaves(tuple(out.values()) if isinstance(out, Mapping) else out) if isinstance(t, torch.Tensor))
            loss = first.float().mean()
    kept[:] = [out] if o.keep_outputs else []
    return loss


def _positions(config: Any) -> int:
    """0: no one says."""
    text = getattr(config, "text_config", config)
    return int(getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 0)


def _settled(o: Options, config: Any) -> Options:
    """What was left open, as the planner takes it."""
    return replace(o, seq=o.seq or min(1024, _positions(config) or 1024),
                   precision=o.precision or ("bf16-autocast" if o.task == "train" else "bf16-pure"),
                   new_tokens=o.new_tokens or (128 if o.task == "generate" else 0))


def trace_config(source: Mapping[str, Any] | str | os.PathLike[str], o: Options) -> Trace:
    """Trace a config.json of Hugging Face, of Transformers or of diffusers, in the loop of docs/plan.md."""
    values = _read(source)
    if o.gpus > 1:
        ranks.check(o.parallel, o.gpus)
    if "_class_name" in values:
        return trace_library(lambda at, dtype: of_diffusers(values, at.batch, at.seq, dtype), o, str(values["_class_name"]))
    o.say("importing Transformers")
    import transformers
    transformers.logging.set_verbosity_error()  # what it warns of is of weights and devices that are none
    config = _config_of(source)
    if o.attention:
        config._attn_implementation = {"flash": "flash_attention_2"}.get(o.attention, o.attention)
    config.use_cache = o.task == "generate"
    o = _settled(o, config)
    half = o.precision in HALF
    with recording(o, str(getattr(config, "model_type", ""))) as (r, _):
        r.trace.transformers = transformers.__version__
        r.trace.positions = _positions(config)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16 if half else torch.float32)
        try:
            config.dtype = torch.bfloat16 if half else torch.float32
            o.say(f"building the model ({r.trace.model})")
            with torch.device(GPU):
                model = _model_of(config)
        finally:
            torch.set_default_dtype(before)
        if o.checkpointing == "full":
            _checkpointed(model)
        if o.lora:
            model = _adapted(model, o)
        model.train(o.task == "train")
        if o.gpus > 1:
            model = _shared(r, o, model)
        _loaded(r, model)
        with modules(r, model):
            _run(r, o, config, model)
        tell(r)
        if _is_quantized(source):
            r.trace.assumed.append("weights as the class has them: the file's quantization_config is not traced, whose weights are smaller")
        return r.trace


def _checkpointed(model: Any) -> None:
    """As its library says it."""
    if hasattr(model, "gradient_checkpointing_enable"):  # Transformers
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif hasattr(model, "enable_gradient_checkpointing"):  # diffusers
        model.enable_gradient_checkpointing()
    elif hasattr(model, "set_grad_checkpointing"):  # timm
        model.set_grad_checkpointing(True)
    else:
        raise ValueError(f"{type(model).__name__} has no checkpointing of its own")


def trace_library(make: Callable[[Options, torch.dtype], Made], o: Options, name: str) -> Trace:
    """A model of diffusers or timm (libraries.py) in the loop of docs/plan.md."""
    o = replace(o, precision=o.precision or ("bf16-autocast" if o.task == "train" else "bf16-pure"))
    if o.task == "generate" or o.attention:
        raise ValueError("of such a model --task generate and --attention are not traced")
    if o.gpus > 1:
        raise ValueError("such a model is traced on one GPU; on several with its script: plimsoll plan -- torchrun --nproc-per-node "
                         f"{o.gpus} train.py")
    with recording(o, name) as (r, _):
        o.say(f"building the model ({name})")
        model, inputs, loss_of = make(o, torch.bfloat16 if o.precision in HALF else torch.float32)
        if o.checkpointing == "full":
            _checkpointed(model)
        if o.lora:
            model = _adapted(model, o)
        model.train(o.task == "train")
        _loaded(r, model)
        kept: list[Any] = []

        def one() -> torch.Tensor:
            batch, dtype = inputs(), AUTOCAST.get(o.precision)
            r.mark((t for t in tree_leaves(batch) if isinstance(t, torch.Tensor)), "input")
            with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
                out = model(**batch)
                kept[:] = [out] if o.keep_outputs else []
                return loss_of(out, batch) if o.task == "train" else out
        with modules(r, model):
            if o.task == "train":
                train(r, o, model, one)
            else:
                passes(r, o, one)
        tell(r)
        return r.trace


def trace_timm(name: str, o: Options) -> Trace:
    """Trace a model by timm's name for it."""
    return trace_library(lambda at, dtype: of_timm(name, at.batch, dtype), o, f"timm/{name}")


def _adapted(model: torch.nn.Module, o: Options) -> torch.nn.Module:
    import peft  # type: ignore[import-not-found, unused-ignore]
    enable: Any = getattr(model, "enable_input_require_grads", None)
    if o.checkpointing == "full" and enable:
        enable()
    names = [name.strip() for name in o.lora_targets.split(",") if name.strip()]
    targets = names[0] if names[:1] in (["all-linear"], ["all"]) else names or None
    return peft.get_peft_model(model, peft.LoraConfig(r=o.lora, target_modules="all-linear" if targets == "all" else targets))


def _shared(r: Recorder, o: Options, model: torch.nn.Module) -> torch.nn.Module:
    """Sharded before it is on the GPU where the launchers do so: a parameter at a time; in DDP it is there whole."""
    mixed = AUTOCAST.get(o.precision) if o.parallel.startswith("fsdp") else None
    r.mark(iter(model.parameters()), "parameter")
    r.end_phase("wrap")
    return ranks.shard(model, o.parallel, mixed)


def _run(r: Recorder, o: Options, config: Any, model: torch.nn.Module) -> None:
    kept: list[Any] = []
    if o.task == "train":
        def step() -> torch.Tensor:
            batch = _batch(o, config, model, torch.float32)
            r.mark(iter(batch.values()), "input")
            return _loss(o, model, batch, kept)
        train(r, o, model, step)
        return
    dtype = AUTOCAST.get(o.precision)
    if o.task == "generate":
        generate(r, o, model, _batch(o, config, model, torch.float32))
        return
    for n in range(2):
        o.say(f"tracing pass {n + 1} of 2")
        r.phase = f"eval{n}"
        with torch.no_grad(), torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
            batch = _batch(o, config, model, torch.float32)
            r.mark(iter(batch.values()), "input")
            out = model(**batch)
        del batch, out
        r.end_phase(f"eval{n + 1}")


@contextlib.contextmanager
def _caches(r: Recorder) -> Iterator[None]:
    """Keys and values that a cache keeps are reported as such."""
    cache: Any = importlib.import_module("transformers.cache_utils")
    undo: list[tuple[Any, Any]] = []

    def marked(update: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            out = update(self, *args, **kwargs)
            r.mark((t for t in (getattr(self, "keys", None), getattr(self, "values", None)) if isinstance(t, torch.Tensor)), "kv_cache")
            return out
        return run
    kinds: list[Any] = [kind for name, kind in vars(cache).items() if name.endswith("Layer") and "update" in vars(kind)]
    for kind in kinds:
        undo.append((kind, kind.update))
        kind.update = marked(kind.update)
    try:
        yield
    finally:
        for kind, update in undo:
            kind.update = update


def generate(r: Recorder, o: Options, model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> None:
    """Transformers' own generate(): greedy, until all tokens are there (which of them ends a text only a run knows)."""
    loop: Any = model
    left = iter(range(o.new_tokens))
    loop._has_unfinished_sequences = lambda *a, **k: next(left, None) is not None
    loop.generation_config.eos_token_id = None
    if loop.generation_config.pad_token_id is None:
        loop.generation_config.pad_token_id = 0
    dtype = AUTOCAST.get(o.precision)
    r.mark(iter(batch.values()), "input")
    r.phase = "generate"
    o.say(f"tracing a generation of {o.new_tokens} tokens")
    with _caches(r), torch.no_grad(), torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
        out = loop.generate(**batch, max_new_tokens=o.new_tokens, min_new_tokens=o.new_tokens, do_sample=False)
    del out, batch
    r.end_phase("end")


def tell(r: Recorder) -> None:
    words = {"0": "numbers of tensors that only a run knows are taken for 0, fractions for 0.5",
             "true": "conditions on tensors that only a run knows are answered as with finite numbers",
             "lowered": "torch.compile: graphs lowered by Inductor itself, of the installed release; what it tries out on the GPU is not known",
             "graphed": "torch.compile: AOTAutograd's graphs, with elementwise operations fused; Inductor did not lower them here",
             "tuned": "torch.compile with options: what they take (graphs' pools, other kernels) is not traced",
             "compiled": "torch.compile is left out, all runs eagerly: compiled code keeps and takes other amounts, mostly less"}
    if r.dynamic.guessed:
        r.operators.of("all rows")  # the planner's range depends on it (src/planner/plan/given/traced.c)
        r.trace.assumed.append("results that have as many rows as values say are as large as they can be, where only a run knows the "
                               f"values ({r.dynamic.guessed} times)")
    for line, answer in r.guesses.asked.items():
        r.trace.guessed.append(f"{line} {str(answer).lower()}")
    for kind, n in sorted(r.taken.items()):
        r.trace.assumed.append(f"{words[kind]} ({n} times)")


# ---- a module and a step of one's own ----

def passes(r: Recorder, o: Options, one: Callable[[], Any]) -> None:
    """Without gradients: twice, or once where it is all of a generation."""
    if o.task not in ("infer", "generate"):
        raise ValueError(f"task '{o.task}' is not traced; known are train, infer and generate")
    names = ["generate"] if o.task == "generate" else ["eval0", "eval1"]
    for name, following in zip(names, [*names[1:], "end"]):
        o.say(f"tracing {'the generation' if o.task == 'generate' else 'a pass without gradients'}")
        r.phase = name
        with torch.no_grad():
            one()
        r.end_phase(following)


def trace_step(make: Callable[[], tuple[torch.nn.Module, Any, Callable[..., Any]]], o: Options,
               name: str = "module") -> Trace:
    """`make`, called where a GPU is reported to be, gives a module on it, a batch and step(module, batch) -> loss."""
    with recording(o, name) as (r, _):
        o.say(f"building {name}")
        model, batch, step = make()
        _loaded(r, model)
        with modules(r, model):
            if o.task == "train":
                def one() -> torch.Tensor:
                    dtype = AUTOCAST.get(o.precision)
                    with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
                        return step(model, batch)
                train(r, o, model, one)
            else:
                passes(r, o, lambda: step(model, batch))
        tell(r)
        return r.trace


def trace_function(module: str, function: str, o: Options) -> Trace:
    """MODULE:FUNCTION, which gives (module, batch, step) where a GPU is reported to be; `batch` and `seq` are given if it takes them."""
    sys.path.insert(0, os.getcwd())
    sizes: dict[str, int] = {}

    def made() -> Any:
        make = getattr(importlib.import_module(module), function)  # what it imports is to see the GPU, too
        takes = inspect.signature(make).parameters
        for name, given in (("batch", o.batch > 1), ("seq", o.seq), ("lora", o.lora), ("checkpointing", o.checkpointing != "none"),
                            ("attention", o.attention)):
            if given and name not in takes:
                raise ValueError(f"{module}:{function} says --{name} itself" + (
                    f", or takes it as a parameter: def {function}({name}=...)" if name in ("batch", "seq") else ""))
        sizes.update({name: size for name, size in (("batch", o.batch), ("seq", o.seq)) if name in takes and size})
        found = make(**sizes)
        if o.gpus > 1 and not torch.distributed.is_initialized():
            raise ValueError(f"{module}:{function} shares its model with no other GPU: --gpus is for one that does (DistributedDataParallel, "
                             "fully_shard)")
        return found
    trace = trace_step(made, o, f"{module}:{function}")
    trace.batch = o.batch if "batch" in sizes else 0
    trace.asked = [a for a in trace.asked if a.partition("=")[0] not in ({"batch", "seq", "checkpointing", "attention"} - sizes.keys())]
    return trace


def rows_of(batch: Any) -> int:
    """Samples of a batch: what all of its tensors have first; 0: they differ."""
    first = {t.shape[0] if t.dim() else 0 for t in tree_leaves(batch) if isinstance(t, torch.Tensor)}
    return first.pop() if len(first) == 1 else 0


def _shadow(t: torch.Tensor, o: Options, rows: int = 0) -> torch.Tensor:
    """As large as a real tensor, or as its first `rows`, on the GPU that is reported to be there."""
    shape = (rows, *t.shape[1:]) if rows else tuple(t.shape)
    dtype = torch.bfloat16 if o.precision in HALF and t.dtype is torch.float32 else t.dtype
    like: torch.Tensor = torch.empty(shape, dtype=dtype, device=GPU)
    return torch.nn.Parameter(like, requires_grad=t.requires_grad) if isinstance(t, torch.nn.Parameter) else like


def _value(out: Any) -> torch.Tensor:
    """The loss of what a model gives: its loss, the tensor itself, or the mean of the first."""
    found: Any = getattr(out, "loss", None)
    if found is None and isinstance(out, Mapping):
        found = out.get("loss")
    if found is None:
        found = out if isinstance(out, torch.Tensor) else next(iter(out.values() if isinstance(out, Mapping) else out))
    loss: torch.Tensor = found
    return loss if loss.dim() == 0 else loss.float().mean()


def trace_module(module: torch.nn.Module, batch: Any, o: Options,
                 step: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None, rows: int = 0) -> Trace:
    """
    A module that is there, with a batch of its inputs (a tensor, a tuple, or a dict), or its first `rows`: neither is touched.
    Its batch, sequence and attention it says itself.
    """
    def call(model: torch.nn.Module, inputs: Any) -> torch.Tensor:
        if isinstance(inputs, Mapping):
            return _value(model(**inputs))
        return _value(model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs))

    o = replace(o, precision=o.precision or "fp32")
    values = {id(t): t.detach().cpu().clone() for t in tree_leaves(batch) if isinstance(t, torch.Tensor) and not t.dtype.is_floating_point}
    with recording(o, type(module).__name__) as (r, _):
        memo: dict[int, Any] = {id(t): _shadow(t, o) for t in (*module.parameters(), *module.buffers())}
        model = copy.deepcopy(module, memo)
        r.trace.batch = rows or rows_of(batch) or 1
        r.trace.asked = [a for a in o.asked() if a.partition("=")[0] not in ("batch", "seq", "attention")]
        r.trace.asked += [f"batch={r.trace.batch}"] if rows_of(batch) else []
        if o.checkpointing == "full":
            _checkpointed(model)
        if o.lora:
            model = _adapted(model, o)
        _loaded(r, model)

        def one() -> torch.Tensor:
            dtype = AUTOCAST.get(o.precision)
            inputs = tree_map(lambda t: _shadow(t, o, rows) if isinstance(t, torch.Tensor) else t, batch)
            r.mark((t for t in tree_leaves(inputs) if isinstance(t, torch.Tensor)), "input")
            for given, t in zip(tree_leaves(batch), tree_leaves(inputs)):
                if isinstance(given, torch.Tensor) and not given.dtype.is_floating_point:
                    r.known.tell(t, values[id(given)][:rows] if rows else values[id(given)])
            with torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext():
                return (step or call)(model, inputs)
        with modules(r, model):
            if o.task == "train":
                train(r, o, model, one)
            else:
                passes(r, o, one)
        tell(r)
        return r.trace
