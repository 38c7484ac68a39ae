"""Names of PyTorch and its neighbours, as tables: what a call makes, what a method gives back, what a name hints at.

Sources: the public reference of PyTorch 2.x (torch, torch.nn, torch.optim, torch.utils.data, torch.amp,
torch.distributed), accelerate, Transformers, Lightning and DeepSpeed.
"""
from __future__ import annotations

import re

TORCH_ROOTS = ("torch", "accelerate", "lightning", "pytorch_lightning", "transformers", "deepspeed", "diffusers",
               "timm", "ignite", "fastai", "peft", "trl")

#: Classes of torch.nn with weights, and those that may hold some.
LAYERS = re.compile(r"^torch\.nn\.(modules\.\w+\.)?(Linear|Conv\dd|ConvTranspose\dd|Embedding|BatchNorm\dd|LayerNorm|LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell|MultiheadAttention|Transformer\w*|"
                    r"Bilinear|GroupNorm|InstanceNorm\dd|PReLU|EmbeddingBag|SyncBatchNorm|RMSNorm|Lazy\w+|AdaptiveLogSoftmaxWithLoss)$")
HOLDERS = re.compile(r"\.(Module\w*|Sequential|Parameter\w*|DataParallel|\w+\.\w+)$")

#: torch.NAME(...) makes a tensor on the default device.
CONSTRUCTORS = frozenset("""zeros ones full arange eye empty linspace logspace rand randn randint randperm tensor as_tensor
from_numpy tril_indices triu_indices hann_window hamming_window empty_strided complex""".split())
RANDOM = frozenset("rand randn randint randperm normal bernoulli multinomial poisson".split())
#: of these, the ones with device= and without data from elsewhere
PLACEABLE = frozenset("zeros ones full arange eye empty linspace logspace rand randn randint randperm hann_window hamming_window".split())

#: torch.NAME(tensor): a tensor with the graph of its arguments.
FUNCTIONS = frozenset("""abs add addmm matmul mm bmm einsum cat concat concatenate stack hstack vstack sum mean std var norm exp log log1p
expm1 sqrt rsqrt pow square sigmoid tanh relu softmax log_softmax logsumexp clamp clip min minimum max maximum mul div sub neg where
gather index_select masked_select reshape squeeze unsqueeze transpose permute flatten cumsum cumprod prod sort topk split
chunk unbind tile repeat_interleave roll flip dot outer cross cdist lerp erf sin cos atan2 nan_to_num baddbmm movedim
logaddexp median quantile diff dist cosine_similarity broadcast_to scatter scatter_add true_divide multiply subtract divide""".split())
#: ... without one.
FLAT_FUNCTIONS = frozenset("""argmax argmin argsort eq ne lt gt le ge isnan isinf isfinite zeros_like ones_like empty_like rand_like
randn_like full_like bincount histc bernoulli multinomial randint_like numel any all equal allclose nonzero sign round floor ceil
logical_and logical_or logical_not searchsorted bucketize unique""".split())
LIKE = frozenset("zeros_like ones_like empty_like rand_like randn_like full_like".split())
PAIRS = frozenset("max min topk sort median mode kthvalue cummax cummin".split())  #: (values, indices) where dim= is given

#: functional losses: a scalar.
LOSS_FUNCTIONS = frozenset("""cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy huber_loss
binary_cross_entropy_with_logits kl_div cosine_embedding_loss ctc_loss hinge_embedding_loss margin_ranking_loss
triplet_margin_loss gaussian_nll_loss poisson_nll_loss multi_margin_loss soft_margin_loss""".split())

#: tensor methods that end the graph ...
ENDS_GRAPH = frozenset("""item detach detach_ tolist numpy argmax argmin argsort size numel dim nelement eq ne lt gt le ge long int bool byte
short new_zeros new_ones new_full new_empty new_tensor zeros_like nonzero isnan isinf isfinite any all element_size
data_ptr stride is_contiguous type_as_index index count bernoulli multinomial""".split())
SAME_GRAPH = frozenset("cpu to cuda float half squeeze unsqueeze view reshape flatten permute transpose contiguous".split())
NUMBERS = frozenset("item size numel dim nelement element_size data_ptr stride tolist numpy index count".split())
#: ... and those that keep the value's graph.
REDUCTIONS = frozenset("mean sum norm prod amax amin max min logsumexp median std var".split())
NEW_TENSOR = frozenset("to cuda cpu half float double bfloat16 contiguous detach type clone".split())

OPTIMIZERS = frozenset("""SGD Adam AdamW Adagrad Adadelta Adamax ASGD LBFGS NAdam RAdam RMSprop Rprop SparseAdam Adafactor AdamW8bit
Adam8bit PagedAdamW PagedAdamW8bit PagedAdamW32bit Lion Lion8bit FusedAdam FusedLAMB LAMB Lamb NovoGrad DeepSpeedCPUAdam
AdaBelief Muon Shampoo BertAdam Lookahead RangerAdam""".split())
SCHEDULER_MAKERS = re.compile(r"^get_\w*sched\w*$|^get_\w+_with_warmup$")
NOT_MODELS = re.compile(r"(Tokenizer\w*|Processor|Scheduler|Config|Pipeline|FeatureExtractor|Solver|Image\w*Processor\w*)$")
LOSS_CLASS = re.compile(r"Loss$|^(CrossEntropy|BCE|MSE)\w*$")

MODULE_BASES = frozenset("""torch.nn.Module torch.nn.modules.Module torch.nn.Sequential torch.nn.ModuleList torch.nn.modules.module.Module
torch.jit.ScriptModule transformers.PreTrainedModel transformers.modeling_utils.PreTrainedModel diffusers.ModelMixin""".split())
CONTEXT_NO_GRAD = re.compile(r"no_?grad|inference_mode|inference_context|disable_grad", re.IGNORECASE)
AUTOCAST = re.compile(r"(^|\.|_)autocast(_\w+)?$|amp_ctx$|autocast_ctx$|amp_autocast$|get_autocast$|^autocast")

# Weak evidence: how people call things.  Whole words of a name, the last one counts.
NAME_KINDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^(model|net|network|unet|encoder|decoder|generator|discriminator|netG|netD|critic|actor|policy_net|q_net\w*|"
                r"backbone|transformer|vae|text_encoder|\w*_model|\w*_net|model_\w|net_\w|[GD])$"), "module"),
    (re.compile(r"^(criterion\w*|loss_fn\w*|loss_func\w*|loss_function|\w*_criterion|\w*criterion|loss_fct|ce_loss_fn)$"), "criterion"),
    (re.compile(r"^(optim|optimizer\w*|opt|\w*_optimizer|\w*_optim|optimiser\w*|\w*_opt|optim_\w+|opt_\w+|optimizer[A-Z]\w*)$"), "optimizer"),
    (re.compile(r"^(\w*scheduler\w*|lr_sched\w*|sched)$"), "scheduler"),
    (re.compile(r"^(scaler|grad_scaler|\w*_scaler)$"), "scaler"),
    (re.compile(r"^(\w*loader\w*|(train|val|valid|test|eval)_dl|\w*_dataloader)$"), "loader"),
    (re.compile(r"^(loss|losses|\w+_loss|loss_(?!scale|weight|coef|factor|fn|func|type|kwargs|mask|dict|list|cfg|config|name|fct|avg|sum|meter)\w+|loss[A-Z]\w*|\w*Loss|err[GD]\w*)$"), "loss"),
)
BENCHMARK = re.compile(r"bench|profil|nsys|speed|throughput|latency|timing|perf", re.IGNORECASE)
EPOCH = re.compile(r"epoch", re.IGNORECASE)
RANK_TEST = re.compile(
    r"(?i:(^|[._])(rank|gpu_id|gpu|local_rank|global_rank|is_main_process|is_local_main_process|is_main|is_master|master_process|"
    r"is_primary|is_(?:local_)?(?:main|master|root)_\w+|is_world_process_zero|is_global_zero|is_rank_?0|is_rank_zero|get_rank|process_index|is_chief|"
    r"on_main_process|should_save)$)")

COLLECTIVES = frozenset("""all_reduce all_gather all_gather_into_tensor all_gather_object reduce_scatter reduce_scatter_tensor broadcast
broadcast_object_list barrier gather scatter reduce all_to_all all_to_all_single gather_object scatter_object_list
monitored_barrier""".split())
ACCEL_COLLECTIVES = frozenset("gather gather_for_metrics wait_for_everyone reduce pad_across_processes".split())

LIGHTNING_STEPS = frozenset(["training_step"])
#: called in a training, with gradients on, for what they do and not for what they return
LIGHTNING_HOOKS = frozenset("on_train_batch_start on_train_batch_end on_train_epoch_start on_train_epoch_end on_train_start on_train_end".split())
LIGHTNING_EVALS = frozenset("validation_step test_step predict_step".split())
TRAINER_STEPS = frozenset("compute_loss training_step".split())


def kind_of_name(name: str) -> str:
    """`self.netG` -> "module"; "" where the name says nothing.  Only `x` and `self.x` are looked at."""
    first, _, rest = name.partition(".")
    if rest:
        if first not in ("self", "cls") or "." in rest:
            return ""
        first = rest.lstrip("_")
    for pattern, kind in NAME_KINDS:
        if pattern.match(first):
            return kind
    return ""
