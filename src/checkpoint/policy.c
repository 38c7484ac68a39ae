/*
 * What a name in a pickle may do to the process that loads it.  An allowlist: what is in no table is unknown,
 * and a checkpoint with an unknown name is not called plain.  The table of dangerous names only chooses the
 * stronger word; no file passes because a name is missing from it.
 *
 * Sources: torch/_weights_only_unpickler.py of torch 2.14 (plain); the classes that the libraries named in each
 * row pickle; published exploits of pickle scanners (dangerous).
 */
#include "policy.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* torch.load(weights_only=True) allows these, whatever they are given. */
static const char *const plain[] = {
	"collections.OrderedDict",
	"collections.Counter",
	"_codecs.encode",
	"builtins.set",
	"builtins.bytearray",
	"builtins.complex",
	"torch.Size",
	"torch.device",
	"torch.Tensor",
	"torch.nn.parameter.Parameter",
	"torch.serialization._get_layout",
	"torch.storage.TypedStorage",
	"torch.storage.UntypedStorage",
	"torch._tensor._rebuild_from_type_v2",
	"torch._utils._rebuild_tensor",
	"torch._utils._rebuild_tensor_v2",
	"torch._utils._rebuild_tensor_v3",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state",
	"torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_nested_tensor",
	"torch._utils._rebuild_meta_tensor_no_storage",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_wrapper_subclass",
	"torch.per_tensor_affine",
	"torch.per_tensor_symmetric",
	"torch.per_channel_affine",
	"torch.per_channel_symmetric",
	"torch.per_channel_affine_float_qparams",
};

/*
 * Harmless under a condition on how they are used, which globals.c checks.  A name ends in ".*" for the `functions`
 * right below, in ".^" for all classes (a capital first, perhaps after underscores) at any depth below except those of
 * `unpickling`; another '*' stands for anything.
 */
static const struct {
	const char *name;
	enum policy_rule rule;
	const char *who; /* writes it */
} harmless[] = {
	/* Hold data: nothing else happens, whatever they are given. */
	{ "builtins.dict", POLICY_DATA, "Python" },
	{ "builtins.list", POLICY_DATA, "Python" },
	{ "builtins.tuple", POLICY_DATA, "Python" },
	{ "builtins.int", POLICY_DATA, "Python" },
	{ "builtins.float", POLICY_DATA, "Python" },
	{ "builtins.bool", POLICY_DATA, "Python" },
	{ "builtins.str", POLICY_NEW, "Python" },
	{ "builtins.bytes", POLICY_DATA, "Python" },
	{ "builtins.unicode", POLICY_NEW, "Python 2" },
	{ "builtins.long", POLICY_DATA, "Python 2" },
	{ "builtins.frozenset", POLICY_DATA, "Python" },
	{ "builtins.slice", POLICY_DATA, "Python" },
	{ "builtins.range", POLICY_DATA, "Python" },
	{ "builtins.xrange", POLICY_DATA, "Python 2" },
	{ "builtins.object", POLICY_DATA, "Python" },
	{ "builtins.Ellipsis", POLICY_DATA, "Python" },
	{ "builtins.NotImplemented", POLICY_DATA, "Python" },
	{ "builtins.type", POLICY_VALUE, "Python: a field's type" },
	{ "collections.defaultdict", POLICY_DATA, "optimizers, callbacks" },
	{ "collections.deque", POLICY_DATA, "loggers of metrics" },
	{ "datetime.datetime", POLICY_DATA, "Python" },
	{ "datetime.date", POLICY_DATA, "Python" },
	{ "datetime.time", POLICY_DATA, "Python" },
	{ "datetime.timedelta", POLICY_DATA, "Python" },
	{ "datetime.timezone", POLICY_DATA, "Python" },
	{ "decimal.Decimal", POLICY_DATA, "Python" },
	{ "fractions.Fraction", POLICY_DATA, "Python" },
	{ "uuid.UUID", POLICY_DATA, "Python" },
	{ "array.array", POLICY_DATA, "Python" },
	{ "array._array_reconstructor", POLICY_DATA, "Python" },
	{ "random.Random", POLICY_NEW, "Python" },
	{ "re._compile", POLICY_DATA, "compiled patterns" },
	{ "signal.Signals", POLICY_DATA, "Megatron's arguments" },
	{ "_io.BytesIO", POLICY_BYTES, "Transformer Engine's extra state" },
	{ "pathlib.PosixPath", POLICY_DATA, "arguments" },
	{ "pathlib.WindowsPath", POLICY_DATA, "arguments" },
	{ "pathlib.PurePosixPath", POLICY_DATA, "arguments" },
	{ "pathlib.PureWindowsPath", POLICY_DATA, "arguments" },
	{ "pathlib.Path", POLICY_DATA, "arguments" },
	{ "pathlib._local.PosixPath", POLICY_DATA, "Python 3.13" },
	{ "pathlib._local.WindowsPath", POLICY_DATA, "Python 3.13" },
	{ "argparse.Namespace", POLICY_NEW, "arguments" },
	{ "types.SimpleNamespace", POLICY_NEW, "arguments" },
	{ "easydict.EasyDict", POLICY_NEW, "configurations" },
	{ "munch.Munch", POLICY_NEW, "configurations" },
	{ "addict.addict.Dict", POLICY_NEW, "configurations" },
	{ "yacs.config.CfgNode", POLICY_NEW, "configurations" },
	{ "fvcore.common.config.CfgNode", POLICY_NEW, "configurations" },
	{ "ml_collections.config_dict.config_dict.ConfigDict", POLICY_DATA, "configurations" },
	{ "mmcv.utils.config.ConfigDict", POLICY_NEW, "OpenMMLab" },
	{ "mmengine.config.config.ConfigDict", POLICY_NEW, "OpenMMLab" },
	{ "mmengine.logging.history_buffer.HistoryBuffer", POLICY_NEW, "OpenMMLab" },
	{ "omegaconf.dictconfig.DictConfig", POLICY_DATA, "configurations" },
	{ "omegaconf.listconfig.ListConfig", POLICY_DATA, "configurations" },
	{ "omegaconf.base.ContainerMetadata", POLICY_DATA, "configurations" },
	{ "omegaconf.base.Metadata", POLICY_DATA, "configurations" },
	{ "omegaconf.nodes.^", POLICY_NEW, "configurations" },
	{ "typing.Any", POLICY_VALUE, "omegaconf" },
	{ "typing.Dict", POLICY_VALUE, "omegaconf" },
	{ "typing.List", POLICY_VALUE, "omegaconf" },
	{ "typing.Union", POLICY_VALUE, "omegaconf" },
	{ "collections.ChainMap", POLICY_DATA, "Python" },
	{ "collections.UserDict", POLICY_NEW, "Python" },
	{ "collections.UserList", POLICY_NEW, "Python" },
	{ "ipaddress.IPv4Address", POLICY_DATA, "arguments" },
	{ "ipaddress.IPv6Address", POLICY_DATA, "arguments" },
	{ "attrdict.dictionary.AttrDict", POLICY_NEW, "configurations" },
	{ "dotmap.DotMap", POLICY_NEW, "configurations" },
	{ "box.box.Box", POLICY_NEW, "configurations" },
	{ "box.box_list.BoxList", POLICY_NEW, "configurations" },
	{ "sacred.config.custom_containers.ReadOnlyDict", POLICY_NEW, "configurations" },
	{ "sacred.config.custom_containers.ReadOnlyList", POLICY_NEW, "configurations" },
	{ "sacred.config.custom_containers.DogmaticDict", POLICY_NEW, "configurations" },
	{ "sacred.config.custom_containers.DogmaticList", POLICY_NEW, "configurations" },
	{ "detectron2.config.config.CfgNode", POLICY_NEW, "configurations" },
	{ "mmcv.utils.config.Config", POLICY_NEW, "OpenMMLab" },
	{ "mmengine.config.config.Config", POLICY_NEW, "OpenMMLab" },
	/* NumPy: random states and numbers beside the weights. */
	{ "numpy.core.multiarray._reconstruct", POLICY_DATA, "NumPy" },
	{ "numpy._core.multiarray._reconstruct", POLICY_DATA, "NumPy" },
	{ "numpy.core.multiarray.scalar", POLICY_FAMILY, "NumPy" },
	{ "numpy._core.multiarray.scalar", POLICY_FAMILY, "NumPy" },
	{ "numpy.core.numeric._frombuffer", POLICY_DATA, "NumPy" },
	{ "numpy._core.numeric._frombuffer", POLICY_DATA, "NumPy" },
	{ "numpy.dtype", POLICY_DATA, "NumPy" },
	{ "numpy.ndarray", POLICY_DATA, "NumPy" },
	{ "numpy.matrix", POLICY_DATA, "NumPy" },
	{ "numpy.float64", POLICY_DATA, "NumPy" },
	{ "numpy.float32", POLICY_DATA, "NumPy" },
	{ "numpy.float16", POLICY_DATA, "NumPy" },
	{ "numpy.int64", POLICY_DATA, "NumPy" },
	{ "numpy.int32", POLICY_DATA, "NumPy" },
	{ "numpy.int16", POLICY_DATA, "NumPy" },
	{ "numpy.int8", POLICY_DATA, "NumPy" },
	{ "numpy.uint16", POLICY_DATA, "NumPy" },
	{ "numpy.uint32", POLICY_DATA, "NumPy" },
	{ "numpy.uint64", POLICY_DATA, "NumPy" },
	{ "numpy.longdouble", POLICY_DATA, "NumPy" },
	{ "numpy.complex64", POLICY_DATA, "NumPy" },
	{ "numpy.complex128", POLICY_DATA, "NumPy" },
	{ "numpy.bool", POLICY_DATA, "NumPy" },
	{ "numpy.bytes_", POLICY_DATA, "NumPy" },
	{ "numpy.datetime64", POLICY_DATA, "NumPy" },
	{ "numpy.timedelta64", POLICY_DATA, "NumPy" },
	{ "numpy.recarray", POLICY_NEW, "NumPy" },
	{ "numpy.record", POLICY_DATA, "NumPy" },
	{ "numpy.rec.recarray", POLICY_NEW, "NumPy" },
	{ "numpy.uint8", POLICY_DATA, "NumPy" },
	{ "numpy.bool_", POLICY_DATA, "NumPy" },
	{ "numpy.str_", POLICY_DATA, "NumPy" },
	{ "numpy.dtypes.^", POLICY_NEW, "NumPy" },
	{ "numpy.ma.core._mareconstruct", POLICY_FAMILY, "NumPy" },
	{ "numpy.ma.core.MaskedArray", POLICY_DATA, "NumPy" },
	{ "numpy.ma.MaskedArray", POLICY_DATA, "NumPy" },
	{ "joblib.numpy_pickle.NumpyArrayWrapper", POLICY_NEW, "joblib: see arrays.c" },
	{ "sklearn.externals.joblib.numpy_pickle.NumpyArrayWrapper", POLICY_NEW,
	  "joblib: see arrays.c" },
	{ "numpy.random.__RandomState_ctor", POLICY_FAMILY, "NumPy's random state" },
	{ "numpy.random._pickle.__randomstate_ctor", POLICY_FAMILY, "NumPy's random state" },
	{ "numpy.random._pickle.__bit_generator_ctor", POLICY_FAMILY, "NumPy's random state" },
	{ "numpy.random._pickle.__generator_ctor", POLICY_FAMILY, "NumPy's random state" },
	{ "numpy.random._mt19937.MT19937", POLICY_DATA, "NumPy's random state" },
	{ "numpy.random._pcg64.PCG64", POLICY_DATA, "NumPy's random state" },
	{ "numpy.random.bit_generator.SeedSequence", POLICY_NEW, "NumPy's random state" },
	{ "numpy.random.bit_generator.__pyx_unpickle_SeedSequence", POLICY_DATA,
	  "NumPy's random state" },
	{ "numpy.random.bit_generator.__pyx_unpickle_SeedlessSequence", POLICY_DATA,
	  "NumPy's random state" },
	{ "scipy.sparse.^", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._csr.csr_matrix", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._csr.csr_array", POLICY_NEW, "SciPy" },
	{ "scipy.sparse.csr.csr_matrix", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._csc.csc_matrix", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._csc.csc_array", POLICY_NEW, "SciPy" },
	{ "scipy.sparse.csc.csc_matrix", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._coo.coo_matrix", POLICY_NEW, "SciPy" },
	{ "scipy.sparse._coo.coo_array", POLICY_NEW, "SciPy" },
	{ "scipy.sparse.coo.coo_matrix", POLICY_NEW, "SciPy" },
	/* Tables beside the weights.  What _new_Index makes is of a class that is judged itself. */
	{ "pandas.core.frame.DataFrame", POLICY_NEW, "pandas" },
	{ "pandas.core.series.Series", POLICY_NEW, "pandas" },
	{ "pandas.core.internals.managers.BlockManager", POLICY_DATA, "pandas" },
	{ "pandas.core.internals.managers.SingleBlockManager", POLICY_DATA, "pandas" },
	{ "pandas.core.internals.BlockManager", POLICY_DATA, "pandas" },
	{ "pandas.core.internals.SingleBlockManager", POLICY_DATA, "pandas" },
	{ "pandas.core.internals.blocks.new_block", POLICY_DATA, "pandas" },
	{ "pandas._libs.internals._unpickle_block", POLICY_DATA, "pandas" },
	{ "pandas._libs.arrays.__pyx_unpickle_NDArrayBacked", POLICY_DATA, "pandas" },
	{ "pandas._libs.tslibs.timestamps._unpickle_timestamp", POLICY_DATA, "pandas" },
	{ "pandas._libs.tslibs.timedeltas._timedelta_unpickle", POLICY_DATA, "pandas" },
	{ "pandas.core.indexes.base._new_Index", POLICY_FAMILY, "pandas" },
	{ "pandas.core.indexes.datetimes._new_DatetimeIndex", POLICY_FAMILY, "pandas" },
	{ "pandas.DataFrame", POLICY_NEW, "pandas 3" },
	{ "pandas.Series", POLICY_NEW, "pandas 3" },
	{ "pandas.Index", POLICY_NEW, "pandas 3" },
	{ "pandas.RangeIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.MultiIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.DatetimeIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.TimedeltaIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.PeriodIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.IntervalIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.CategoricalIndex", POLICY_NEW, "pandas 3" },
	{ "pandas.Categorical", POLICY_NEW, "pandas 3" },
	{ "pandas.CategoricalDtype", POLICY_NEW, "pandas 3" },
	{ "pandas.DatetimeTZDtype", POLICY_NEW, "pandas 3" },
	{ "pandas.StringDtype", POLICY_DATA, "pandas 3" },
	{ "pandas.Int8Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.Int16Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.Int32Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.Int64Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.UInt8Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.UInt16Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.UInt32Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.UInt64Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.Float32Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.Float64Dtype", POLICY_NEW, "pandas 3" },
	{ "pandas.BooleanDtype", POLICY_NEW, "pandas 3" },
	{ "pandas.IntervalDtype", POLICY_NEW, "pandas 3" },
	{ "pandas.SparseDtype", POLICY_NEW, "pandas 3" },
	{ "pandas.PeriodDtype", POLICY_DATA, "pandas 3" },
	{ "pandas._libs.interval.__pyx_unpickle_IntervalMixin", POLICY_DATA, "pandas" },
	{ "pandas._libs.sparse.IntIndex", POLICY_DATA, "pandas" },
	{ "pandas._libs.sparse.BlockIndex", POLICY_DATA, "pandas" },
	{ "pandas.arrays.^", POLICY_NEW, "pandas 3" },
	{ "pandas.core.indexes.^", POLICY_NEW, "pandas" },
	{ "pandas.core.arrays.^", POLICY_NEW, "pandas" },
	{ "pandas.core.dtypes.dtypes.^", POLICY_NEW, "pandas" },
	/* torch beyond weights_only. */
	{ "torch.nn.parameter.Buffer", POLICY_DATA, "torch" },
	{ "torch.storage._TypedStorage", POLICY_DATA, "torch" },
	{ "torch.storage._UntypedStorage", POLICY_DATA, "torch" },
	{ "torch._utils._rebuild_sparse_csr_tensor", POLICY_DATA, "torch" },
	{ "torch._utils._rebuild_xla_tensor", POLICY_DATA, "torch" },
	{ "torch._C.Generator", POLICY_DATA, "torch: random states" },
	{ "torch.ScriptObject", POLICY_NEW, "quantized modules: packed weights" },
	{ "torch.memory_format", POLICY_DATA, "torch" },
	{ "torch.finfo", POLICY_DATA, "torch" },
	{ "torch.torch_version.TorchVersion", POLICY_DATA, "torch: torch.__version__, a str" },
	{ "torch.dtype", POLICY_VALUE, "torch: a field's type" },
	{ "torch.storage._load_from_bytes", POLICY_BYTES, "tensors pickled without torch.save" },
	{ "torch.jit._pickle.build_intlist", POLICY_DATA, "TorchScript" },
	{ "torch.jit._pickle.build_doublelist", POLICY_DATA, "TorchScript" },
	{ "torch.jit._pickle.build_boollist", POLICY_DATA, "TorchScript" },
	{ "torch.jit._pickle.build_tensorlist", POLICY_DATA, "TorchScript" },
	{ "torch.jit._pickle.build_tensor_from_id", POLICY_DATA, "TorchScript" },
	{ "torch.jit._pickle.restore_type_tag", POLICY_DATA, "TorchScript" },
	{ "torch.nn.modules.^", POLICY_NEW, "whole modules" },
	{ "torch.nn.parallel.data_parallel.DataParallel", POLICY_NEW, "whole modules" },
	{ "torch.nn.parallel.distributed.DistributedDataParallel", POLICY_NEW, "whole modules" },
	{ "torch.nn.quantized.modules.^", POLICY_NEW, "whole modules" },
	{ "torch.ao.nn.quantized.modules.^", POLICY_NEW, "whole modules" },
	{ "torch.ao.nn.quantized.dynamic.modules.^", POLICY_NEW, "whole modules" },
	{ "torch.nn.backends.thnn._get_thnn_function_backend", POLICY_DATA, "modules before 1.4" },
	{ "torch.nn.utils.rnn.PackedSequence", POLICY_DATA, "whole modules" },
	{ "torch.nn.utils.parametrize.^", POLICY_NEW, "whole modules" },
	{ "torch.nn.utils.weight_norm.WeightNorm", POLICY_NEW, "whole modules" },
	{ "torch.nn.utils.spectral_norm.SpectralNorm", POLICY_NEW, "whole modules" },
	{ "torch.nn.functional.*", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.nn.init.*", POLICY_VALUE, "an initialiser as an attribute" },
	{ "torch._C._nn.*", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.relu", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.tanh", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.sigmoid", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.softmax", POLICY_VALUE, "an activation as an attribute" },
	{ "torch.optim.^", POLICY_NEW, "whole optimizers" },
	{ "torch.optim.optimizer._RequiredParameter", POLICY_NEW, "whole optimizers" },
	{ "torch.cuda.amp.grad_scaler.^", POLICY_NEW, "gradient scalers" },
	{ "torch.amp.grad_scaler.^", POLICY_NEW, "gradient scalers" },
	{ "torch.cuda.amp.grad_scaler._refresh_per_optimizer_state", POLICY_VALUE,
	  "gradient scalers" },
	{ "torch.amp.grad_scaler._refresh_per_optimizer_state", POLICY_VALUE, "gradient scalers" },
	{ "torch.nested._internal.nested_tensor.NestedTensor", POLICY_DATA, "torch" },
	{ "torch.nested._internal.nested_tensor._rebuild_njt", POLICY_DATA, "torch" },
	{ "torch._dynamo.decorators._DimRange", POLICY_DATA, "torch" },
	/* torch.distributed: sharded state. */
	{ "torch.distributed.checkpoint.metadata.^", POLICY_NEW, "torch.distributed.checkpoint" },
	{ "torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING", POLICY_DATA,
	  "torch.distributed.checkpoint" },
	{ "torch.distributed.checkpoint.filesystem._StorageInfo", POLICY_NEW,
	  "torch.distributed.checkpoint" },
	{ "torch.distributed.checkpoint.planner.^", POLICY_NEW_OR_ENUM,
	  "Megatron: plans kept in the metadata" },
	{ "torch.distributed._shard.sharded_tensor.metadata.TensorProperties", POLICY_DATA,
	  "FSDP" },
	{ "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING", POLICY_DATA,
	  "FSDP" },
	{ "torch.distributed._shard.sharded_tensor.metadata.ShardedTensorMetadata", POLICY_NEW,
	  "FSDP" },
	{ "torch.distributed._shard.sharded_tensor.api.ShardedTensor", POLICY_NEW, "FSDP" },
	{ "torch.distributed._shard.sharded_tensor.shard.Shard", POLICY_NEW, "FSDP" },
	{ "torch.distributed._shard.metadata.ShardMetadata", POLICY_NEW, "FSDP" },
	{ "torch.distributed._shard.sharding_spec.^", POLICY_NEW, "FSDP" },
	{ "torch.distributed.remote_device._remote_device", POLICY_NEW, "FSDP" },
	{ "torch.distributed.tensor.DTensor", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.api.DTensor", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.DTensor", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor._dtensor_spec.DTensorSpec", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor._dtensor_spec.TensorMeta", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor._dtensor_spec.ShardOrderEntry", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor._dtensor_spec.DTensorSpec", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor._dtensor_spec.TensorMeta", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.Placement", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.Shard", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types._StridedShard", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.Replicate", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.Partial", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types._Partial", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types._MaskPartial", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.DTensorSpec", POLICY_DATA, "FSDP" },
	{ "torch.distributed._tensor.placement_types.TensorMeta", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types.Placement", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types.Shard", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types._StridedShard", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types.Replicate", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types.Partial", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types._Partial", POLICY_DATA, "FSDP" },
	{ "torch.distributed.tensor.placement_types._MaskPartial", POLICY_DATA, "FSDP" },
	{ "torch.distributed.device_mesh.DeviceMesh", POLICY_NEW, "FSDP" },
	{ "torch.distributed._mesh_layout._MeshLayout", POLICY_DATA, "FSDP" },
	{ "torch.distributed._mesh_layout._FlatLayout", POLICY_DATA, "FSDP" },
	/* Trainers and their arguments. */
	{ "transformers.training_args.TrainingArguments", POLICY_NEW, "training_args.bin" },
	{ "transformers.training_args.OptimizerNames", POLICY_DATA, "training_args.bin" },
	{ "transformers.training_args_seq2seq.Seq2SeqTrainingArguments", POLICY_NEW,
	  "training_args.bin" },
	{ "transformers.trainer_utils.^", POLICY_NEW, "training_args.bin" },
	{ "transformers.trainer_utils.IntervalStrategy", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.SaveStrategy", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.EvaluationStrategy", POLICY_NEW_OR_ENUM,
	  "training_args.bin" },
	{ "transformers.trainer_utils.HubStrategy", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.HPSearchBackend", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.SchedulerType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.FSDPOption", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_utils.ShardedDDPOption", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "transformers.trainer_pt_utils.AcceleratorConfig", POLICY_NEW, "training_args.bin" },
	{ "transformers.debug_utils.DebugOption", POLICY_DATA, "training_args.bin" },
	{ "transformers.integrations.deepspeed.HfDeepSpeedConfig", POLICY_NEW,
	  "training_args.bin" },
	{ "transformers.integrations.deepspeed.HfTrainerDeepSpeedConfig", POLICY_NEW,
	  "training_args.bin" },
	{ "transformers.deepspeed.HfTrainerDeepSpeedConfig", POLICY_NEW, "training_args.bin" },
	{ "accelerate.state.^", POLICY_NEW, "training_args.bin" },
	{ "accelerate.utils.dataclasses.^", POLICY_NEW, "training_args.bin" },
	{ "accelerate.utils.dataclasses.DDPCommunicationHookType", POLICY_NEW_OR_ENUM,
	  "training_args.bin" },
	{ "accelerate.utils.dataclasses.DistributedType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.SageMakerDistributedType", POLICY_NEW_OR_ENUM,
	  "training_args.bin" },
	{ "accelerate.utils.dataclasses.FP8BackendType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.ComputeEnvironment", POLICY_NEW_OR_ENUM,
	  "training_args.bin" },
	{ "accelerate.utils.dataclasses.DynamoBackend", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.LoggerType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.PrecisionType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.RNGType", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "accelerate.utils.dataclasses.CustomDtype", POLICY_NEW_OR_ENUM, "training_args.bin" },
	{ "trl.trainer.^", POLICY_NEW, "training_args.bin" },
	{ "peft.utils.peft_types.^", POLICY_NEW_OR_ENUM, "PEFT" },
	{ "peft.tuners.lora.config.^", POLICY_NEW, "PEFT" },
	{ "deepspeed.runtime.fp16.loss_scaler.^", POLICY_NEW, "DeepSpeed" },
	{ "deepspeed.runtime.zero.config.ZeroStageEnum", POLICY_DATA, "DeepSpeed" },
	{ "deepspeed.runtime.zero.offload_config.OffloadDeviceEnum", POLICY_DATA, "DeepSpeed" },
	{ "deepspeed.utils.tensor_fragment.fragment_address", POLICY_DATA, "DeepSpeed" },
	{ "deepspeed.utils.tensor_fragment.tensor_fragment", POLICY_NEW, "DeepSpeed" },
	{ "megatron.core.enums.ModelType", POLICY_DATA, "Megatron" },
	{ "megatron.enums.^", POLICY_NEW_OR_ENUM, "Megatron" },
	{ "megatron.model.enums.^", POLICY_NEW_OR_ENUM, "Megatron" },
	{ "megatron.core.transformer.enums.^", POLICY_NEW_OR_ENUM, "Megatron" },
	{ "megatron.core.rerun_state_machine.^", POLICY_NEW_OR_ENUM, "Megatron" },
	{ "bitsandbytes.nn.modules.^", POLICY_NEW, "bitsandbytes" },
	{ "bitsandbytes.functional.QuantState", POLICY_NEW, "bitsandbytes" },
	{ "pytorch_lightning.utilities.parsing.AttributeDict", POLICY_NEW, "Lightning" },
	{ "lightning_fabric.utilities.data.AttributeDict", POLICY_NEW, "Lightning" },
	{ "lightning.fabric.utilities.data.AttributeDict", POLICY_NEW, "Lightning" },
	{ "pytorch_lightning.callbacks.^", POLICY_VALUE, "Lightning: keys of the callbacks" },
	{ "lightning.pytorch.callbacks.^", POLICY_VALUE, "Lightning: keys of the callbacks" },
	{ "pytorch_lightning.utilities.argparse_utils._gpus_arg_default", POLICY_VALUE,
	  "Lightning" },
	{ "pytorch_lightning.utilities.argparse._gpus_arg_default", POLICY_VALUE, "Lightning" },
	{ "fairseq.data.dictionary.Dictionary", POLICY_NEW, "fairseq" },
	{ "fairseq.dataclass.configs.^", POLICY_NEW, "fairseq" },
	{ "fairseq.dataclass.constants.^", POLICY_NEW_OR_ENUM, "fairseq" },
	{ "UnslothSFTTrainer.^", POLICY_NEW, "Unsloth: training_args.bin" },
	{ "unsloth_compiled_cache.^", POLICY_NEW, "Unsloth: training_args.bin" },
	{ "gym.spaces.^", POLICY_NEW, "reinforcement learning: spaces beside the weights" },
	{ "gymnasium.spaces.^", POLICY_NEW, "reinforcement learning: spaces beside the weights" },
	{ "stable_baselines3.common.running_mean_std.RunningMeanStd", POLICY_NEW,
	  "Stable-Baselines3: running means" },
	{ "stable_baselines3.common.vec_env.vec_normalize.VecNormalize", POLICY_NEW,
	  "Stable-Baselines3: running means" },
	{ "stable_baselines3.common.buffers.ReplayBuffer", POLICY_NEW,
	  "Stable-Baselines3: running means" },
	{ "stable_baselines3.common.buffers.RolloutBuffer", POLICY_NEW,
	  "Stable-Baselines3: running means" },
	{ "torch_geometric.data.data.Data", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.data.DataTensorAttr", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.data.DataEdgeAttr", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.hetero_data.HeteroData", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.temporal.TemporalData", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.batch.Batch", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.storage.BaseStorage", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.storage.NodeStorage", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.storage.EdgeStorage", POLICY_NEW, "graphs with the weights" },
	{ "torch_geometric.data.storage.GlobalStorage", POLICY_NEW, "graphs with the weights" },
	{ "torchtext.vocab.^", POLICY_NEW, "vocabularies beside the weights" },
	{ "speechbrain.processing.PLDA_LDA.^", POLICY_NEW, "SpeechBrain" },
	/* sklearn's compiled classes are called with numbers and arrays; newObj(cls) is cls.__new__(cls). */
	{ "sklearn.tree._tree.Tree", POLICY_DATA, "sklearn: trees and forests" },
	{ "sklearn._loss._loss.^", POLICY_DATA, "sklearn: losses" },
	/* The same classes as 1.1 to 1.5 name them: Cython left the package out (sklearn/_loss/_loss.pyx.tp). */
	{ "_loss.CyHalfSquaredError", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyAbsoluteError", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyPinballLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHuberLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfPoissonLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfGammaLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfTweedieLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfTweedieLossIdentity", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfBinomialLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyHalfMultinomialLoss", POLICY_DATA, "sklearn: losses" },
	{ "_loss.CyExponentialLoss", POLICY_DATA, "sklearn: losses" },
	{ "sklearn.linear_model._sgd_fast.^", POLICY_DATA, "sklearn: losses" },
	{ "sklearn.neighbors._kd_tree.newObj", POLICY_FAMILY, "sklearn: neighbours" },
	{ "sklearn.neighbors._ball_tree.newObj", POLICY_FAMILY, "sklearn: neighbours" },
	{ "sklearn.neighbors.kd_tree.newObj", POLICY_FAMILY, "sklearn: neighbours" },
	{ "sklearn.neighbors.ball_tree.newObj", POLICY_FAMILY, "sklearn: neighbours" },
	{ "sklearn.metrics._dist_metrics.newObj", POLICY_FAMILY, "sklearn: distances" },
	{ "sklearn.neighbors._dist_metrics.newObj", POLICY_FAMILY, "sklearn: distances" },
	{ "sklearn.neighbors.dist_metrics.newObj", POLICY_FAMILY, "sklearn: distances" },
	{ "sklearn.feature_selection._univariate_selection.f_classif", POLICY_VALUE,
	  "sklearn: a score as an attribute" },
	{ "sklearn.feature_selection._univariate_selection.f_regression", POLICY_VALUE,
	  "sklearn: a score as an attribute" },
	{ "sklearn.feature_selection._univariate_selection.chi2", POLICY_VALUE,
	  "sklearn: a score as an attribute" },
	{ "sklearn.cluster._kmeans._kmeans_single_lloyd", POLICY_VALUE,
	  "sklearn: an algorithm as an attribute" },
	{ "sklearn.cluster._kmeans._kmeans_single_elkan", POLICY_VALUE,
	  "sklearn: an algorithm as an attribute" },
	{ "numpy.mean", POLICY_VALUE, "sklearn: a function as an attribute" },
	{ "scipy.interpolate._bsplines.BSpline", POLICY_NEW, "sklearn: splines" },
	{ "scipy._lib.array_api_compat.numpy._aliases.asarray", POLICY_VALUE,
	  "SciPy: a function as an attribute" },
	{ "sklearn.^", POLICY_NEW, "scalers and encoders of targets beside the weights" },
	/* Whole modules of libraries of models. */
	{ "torchvision.models.^", POLICY_NEW, "whole modules" },
	{ "torchvision.ops.^", POLICY_NEW, "whole modules" },
	{ "chemprop.nn.^", POLICY_NEW, "chemprop: classes of its modules and metrics" },
	{ "torchmetrics.^", POLICY_NEW, "metrics beside the weights" },
	{ "torchmetrics.utilities.data.*", POLICY_VALUE, "metrics beside the weights" },
	{ "torchmetrics.metric.jit_distributed_available", POLICY_VALUE, "metrics" },
	{ "timm.models.^", POLICY_NEW, "whole modules" },
	{ "timm.layers.^", POLICY_NEW, "whole modules" },
	{ "transformers.models.*.modeling_*.^", POLICY_NEW, "whole modules" },
	{ "transformers.models.*.configuration_*.^", POLICY_NEW, "whole modules" },
	{ "transformers.configuration_utils.^", POLICY_NEW, "whole modules" },
	{ "transformers.generation.configuration_utils.^", POLICY_NEW_OR_ENUM, "whole modules" },
	{ "transformers.activations.^", POLICY_NEW, "whole modules" },
	{ "transformers.pytorch_utils.^", POLICY_NEW, "whole modules" },
	{ "diffusers.models.^", POLICY_NEW, "whole modules" },
	{ "torch_geometric.nn.^", POLICY_NEW, "whole modules" },
	{ "segmentation_models_pytorch.^", POLICY_NEW, "whole modules" },
	{ "efficientnet_pytorch.^", POLICY_NEW, "whole modules" },
	{ "monai.networks.^", POLICY_NEW, "whole modules" },
	{ "schnetpack.^", POLICY_NEW, "SchNetPack: whole modules" },
	{ "e3nn.o3._irreps.Irreps", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.o3._irreps._MulIr", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.o3._irreps.Irrep", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.o3._spherical_harmonics.SphericalHarmonics", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.math._normalize_activation.normalize2mom", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._activation.Activation", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._gate.Gate", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._fc.FullyConnectedNet", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._fc._Layer", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._normact.NormActivation", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._dropout.Dropout", POLICY_NEW, "e3nn: whole modules" },
	{ "e3nn.nn._batchnorm.BatchNorm", POLICY_NEW, "e3nn: whole modules" },
	{ "mace.modules.^", POLICY_NEW, "MACE: whole modules" },
	{ "ultralytics.nn.^", POLICY_NEW, "YOLO" },
	{ "ultralytics.yolo.^", POLICY_NEW, "YOLO" },
	{ "ultralytics.utils.IterableSimpleNamespace", POLICY_NEW, "YOLO" },
	{ "ultralytics.utils.loss.^", POLICY_NEW, "YOLO" },
	/* Constructors of anything: harmless for what is known itself. */
	{ "copyreg._reconstructor", POLICY_RECONSTRUCT, "Python, protocols 0 and 1" },
	{ "builtins.getattr", POLICY_MEMBER, "members of enums" },
	{ "functools.partial", POLICY_PARTIAL, "a function with some of its arguments" },
};

/* Functions of numbers, which modules and metrics keep as attributes.  A module right below (torch.nn.functional.torch) is none. */
static const char *const functions[] = {
	"relu",
	"relu_",
	"relu6",
	"elu",
	"elu_",
	"selu",
	"selu_",
	"celu",
	"celu_",
	"leaky_relu",
	"leaky_relu_",
	"rrelu",
	"rrelu_",
	"prelu",
	"gelu",
	"glu",
	"silu",
	"mish",
	"hardswish",
	"hardtanh",
	"hardtanh_",
	"hardsigmoid",
	"hardshrink",
	"softshrink",
	"tanhshrink",
	"threshold",
	"threshold_",
	"logsigmoid",
	"log_sigmoid",
	"sigmoid",
	"tanh",
	"softmax",
	"softmin",
	"log_softmax",
	"gumbel_softmax",
	"softplus",
	"softsign",
	"normalize",
	"dropout",
	"dropout1d",
	"dropout2d",
	"dropout3d",
	"alpha_dropout",
	"feature_alpha_dropout",
	"layer_norm",
	"group_norm",
	"instance_norm",
	"batch_norm",
	"rms_norm",
	"local_response_norm",
	"linear",
	"bilinear",
	"embedding",
	"embedding_bag",
	"one_hot",
	"conv1d",
	"conv2d",
	"conv3d",
	"conv_transpose1d",
	"conv_transpose2d",
	"conv_transpose3d",
	"max_pool1d",
	"max_pool2d",
	"max_pool3d",
	"avg_pool1d",
	"avg_pool2d",
	"avg_pool3d",
	"adaptive_avg_pool1d",
	"adaptive_avg_pool2d",
	"adaptive_avg_pool3d",
	"adaptive_max_pool1d",
	"adaptive_max_pool2d",
	"adaptive_max_pool3d",
	"pad",
	"interpolate",
	"upsample",
	"grid_sample",
	"pixel_shuffle",
	"pixel_unshuffle",
	"cosine_similarity",
	"pairwise_distance",
	"scaled_dot_product_attention",
	"cross_entropy",
	"nll_loss",
	"mse_loss",
	"l1_loss",
	"smooth_l1_loss",
	"huber_loss",
	"binary_cross_entropy",
	"binary_cross_entropy_with_logits",
	"kl_div",
	"ctc_loss",
	"cosine_embedding_loss",
	"margin_ranking_loss",
	"triplet_margin_loss",
	"hinge_embedding_loss",
	"multi_margin_loss",
	"multilabel_margin_loss",
	"multilabel_soft_margin_loss",
	"soft_margin_loss",
	"poisson_nll_loss",
	"gaussian_nll_loss",
	"xavier_uniform_",
	"xavier_normal_",
	"xavier_uniform",
	"xavier_normal",
	"kaiming_uniform_",
	"kaiming_normal_",
	"kaiming_uniform",
	"kaiming_normal",
	"normal_",
	"uniform_",
	"constant_",
	"normal",
	"uniform",
	"constant",
	"zeros_",
	"ones_",
	"eye_",
	"dirac_",
	"orthogonal_",
	"orthogonal",
	"sparse_",
	"trunc_normal_",
	"dim_zero_cat",
	"dim_zero_sum",
	"dim_zero_mean",
	"dim_zero_max",
	"dim_zero_min",
};

/* Classes, or what they lie below, that unpickle, compile or connect when they are loaded: in no row for classes. */
static const char *const unpickling[] = {
	"mace.modules.symmetric_contraction.SymmetricContraction", /* e3nn's CodeGenMixin */
	"sklearn.externals",                                       /* joblib, cloudpickle */
	"torchmetrics.utilities.checks", /* imports unittest.mock's Mock */
	"sklearn.datasets",              /* fetch and unpack files */
	"sklearn.callback", /* ScoringMonitor listens on a socket, and connects to what its state names */
};

/* Lists: APPEND calls their append or extend.  Of any other object it may be an attribute. */
static const char *const sequences[] = {
	"builtins.list",
	"builtins.set",
	"collections.deque",
	"box.box_list.BoxList",
	"sacred.config.custom_containers.ReadOnlyList",
	"sacred.config.custom_containers.DogmaticList",
};

/* Dicts: SETITEM sets an item. */
static const char *const mappings[] = {
	"builtins.dict",
	"collections.OrderedDict",
	"collections.Counter",
	"collections.defaultdict",
	"easydict.EasyDict",
	"munch.Munch",
	"addict.addict.Dict",
	"yacs.config.CfgNode",
	"fvcore.common.config.CfgNode",
	"detectron2.config.config.CfgNode",
	"mmcv.utils.config.ConfigDict",
	"mmengine.config.config.ConfigDict",
	"attrdict.dictionary.AttrDict",
	"dotmap.DotMap",
	"box.box.Box",
	"sacred.config.custom_containers.ReadOnlyDict",
	"sacred.config.custom_containers.DogmaticDict",
	"pytorch_lightning.utilities.parsing.AttributeDict",
	"lightning_fabric.utilities.data.AttributeDict",
	"lightning.fabric.utilities.data.AttributeDict",
	"sklearn.utils.Bunch",
	"sklearn.utils._bunch.Bunch",
	"scipy.sparse.dok.dok_matrix",
	"scipy.sparse._dok.dok_matrix",
	"scipy.sparse._dok.dok_array",
};

/*
 * Run code, commands or processes, open files or connections, or hand out what does.  A name stands for itself
 * and for all below it.
 */
static const char *const dangerous[] = {
	"os",
	"posix",
	"nt",
	"ntpath",
	"posixpath",
	"sys",
	"subprocess",
	"_posixsubprocess",
	"commands",
	"popen2",
	"importlib",
	"imp",
	"runpy",
	"pty",
	"socket",
	"_socket",
	"shutil",
	"tempfile",
	"glob",
	"pickle",
	"_pickle",
	"dill",
	"cloudpickle",
	"joblib.load",
	"joblib.numpy_pickle.load",
	"shelve",
	"marshal",
	"ctypes",
	"_ctypes",
	"code.InteractiveInterpreter",
	"code.InteractiveConsole",
	"code.interact",
	"code.compile_command",
	"codeop",
	"codecs.open",
	"pdb",
	"bdb",
	"timeit",
	"cProfile",
	"profile.run",
	"profile.runctx",
	"profile.Profile",
	"_lsprof",
	"trace.Trace",
	"pydoc",
	"doctest",
	"webbrowser",
	"antigravity",
	"pip",
	"setuptools",
	"distutils",
	"venv",
	"ensurepip",
	"site",
	"imaplib",
	"smtplib",
	"ftplib",
	"poplib",
	"nntplib",
	"telnetlib",
	"ssl",
	"_ssl",
	"urllib",
	"urllib2",
	"http",
	"httplib",
	"requests",
	"urllib3",
	"httpx",
	"aiohttp",
	"xmlrpc",
	"socketserver",
	"asyncio",
	"multiprocessing",
	"concurrent",
	"threading",
	"_thread",
	"thread",
	"signal.signal",
	"pkgutil",
	"zipimport",
	"linecache",
	"fileinput",
	"test.support",
	"test.libregrtest",
	"test.script_helper",
	"idlelib",
	"lib2to3",
	"_pyrepl",
	"_osx_support",
	"_aix_support",
	"uuid",
	"crypt",
	"atexit",
	"faulthandler",
	"gc",
	"weakref.finalize",
	"logging.FileHandler",
	"logging.config",
	"logging.handlers",
	"types.CodeType",
	"types.FunctionType",
	"types.LambdaType",
	"types.MethodType",
	"types.ModuleType",
	"types.new_class",
	"io.open",
	"io.open_code",
	"io.FileIO",
	"_io.open",
	"_io.open_code",
	"_io.FileIO",
	"pathlib.Path.open",
	"zipfile",
	"tarfile",
	"sqlite3",
	"dbm",
	"curses",
	"builtins.eval",
	"builtins.exec",
	"builtins.compile",
	"builtins.setattr",
	"builtins.delattr",
	"builtins.open",
	"builtins.file",
	"builtins.__import__",
	"builtins.__build_class__",
	"builtins.breakpoint",
	"builtins.apply",
	"builtins.execfile",
	"builtins.input",
	"builtins.raw_input",
	"builtins.reload",
	"builtins.globals",
	"builtins.locals",
	"builtins.vars",
	"builtins.map",
	"builtins.filter",
	"builtins.help",
	"operator.attrgetter",
	"operator.itemgetter",
	"operator.methodcaller",
	"operator.call",
	"_operator.attrgetter",
	"_operator.itemgetter",
	"_operator.methodcaller",
	"_operator.call",
	"functools.reduce",
	"functools.partialmethod",
	"_functools.reduce",
	"itertools.starmap",
	"itertools.accumulate",
	"torch.load",
	"torch.save",
	"torch.serialization.load",
	"torch.serialization.save",
	"torch.hub",
	"torch.package",
	"torch.jit.load",
	"torch.jit.unsupported_tensor_ops",
	"torch._inductor",
	"torch._dynamo.guards",
	"torch.fx.experimental.symbolic_shapes",
	"torch.fx.graph_module",
	"torch.utils.cpp_extension",
	"torch.utils.collect_env",
	"torch.utils.bottleneck",
	"torch.utils._config_module",
	"torch.utils.data.datapipes.utils.decoder",
	"torch.utils.model_zoo",
	"torch.ops.load_library",
	"torch.classes.load_library",
	"torch.distributed.run",
	"torch.multiprocessing",
	"torch.testing._internal",
	"numpy.f2py",
	"numpy.distutils",
	"numpy.testing",
	"numpy.load",
	"numpy.save",
	"numpy.fromfile",
	"numpy.memmap",
	"numpy.core.memmap",
	"numpy.genfromtxt",
	"numpy.ctypeslib",
	"numpy.lib.npyio",
	"pandas.read_pickle",
	"pandas.io.pickle",
	"pandas.eval",
	"pandas.core.computation",
	"tensorflow.io",
	"keras.models.load_model",
	"IPython",
	"jinja2",
	"yaml.load",
	"yaml.unsafe_load",
	"cffi",
	"pexpect",
	"paramiko",
};

/* Modules that no class is below: as a part of a name behind the first they are the module itself. */
static const char *const modules[] = {
	"os",       "posix",       "nt",        "sys",     "subprocess",
	"builtins", "__builtin__", "importlib", "shutil",  "runpy",
	"ctypes",   "socket",      "pty",       "marshal", "multiprocessing",
};

/* Python 2 names what moved. */
static const char *const moved[][2] = {
	{ "__builtin__.", "builtins." },
	{ "copy_reg.", "copyreg." },
	{ "cPickle.", "pickle." },
	{ "UserDict.", "collections." },
	{ "_functools.partial", "functools.partial" },
};

static bool is_one_of(const char *s, size_t n, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i]) == n && !memcmp(words[i], s, n))
			return true;
	return false;
}

/* "__class__", "__globals__": steps that attacks take, and classes do not. */
static bool is_dunder(const char *s, size_t n)
{
	static const char *const of_files[] = { "__main__", "__init__" };

	return n > 4 && !memcmp(s, "__", 2) && !memcmp(s + n - 2, "__", 2) &&
	       !is_one_of(s, n, of_files, COUNT(of_files));
}

/* Does a part behind the first name a module, or a dunder? */
static bool leads_through_module(const char *name)
{
	for (const char *at = strchr(name, '.'); at; at = strchr(at, '.')) {
		size_t n = strcspn(++at, ".");

		if (is_one_of(at, n, modules, COUNT(modules)) || is_dunder(at, n))
			return true;
	}
	return false;
}

/* Is it one of the rows, or below one? */
static bool is_below(const char *name, const char *const *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(rows[i]);

		if (!strncmp(name, rows[i], n) && (!name[n] || name[n] == '.'))
			return true;
	}
	return false;
}

/* torch.float16, torch.cuda.HalfStorage, torch.sparse.FloatTensor. */
static bool is_torch_type(const char *name)
{
	static const char *const places[] = { "torch.cuda.sparse.", "torch.cuda.", "torch.sparse.",
					      "torch." };
	static const char *const kinds[] = { "Double",  "Float",  "Half",         "BFloat16",
					     "Long",    "Int",    "Short",        "Char",
					     "Byte",    "Bool",   "ComplexFloat", "ComplexDouble",
					     "QInt8",   "QUInt8", "QInt32",       "QUInt4x2",
					     "QUInt2x4" };
	const struct ckpt_dtype *dtype;

	for (size_t i = 0; i < COUNT(places); i++) {
		size_t n = strlen(places[i]);

		if (strncmp(name, places[i], n) != 0)
			continue;
		dtype = i == 3 ? ckpt_dtype_of_torch(name + n) : NULL;
		if (dtype && !dtype->block && strcmp(name + n, "bytes") != 0)
			return true;
		for (size_t k = 0; k < COUNT(kinds); k++) {
			size_t m = strlen(kinds[k]);

			if (!strncmp(name + n, kinds[k], m) &&
			    (!strcmp(name + n + m, "Storage") || !strcmp(name + n + m, "Tensor")))
				return true;
		}
		if (!strcmp(name + n, "UntypedStorage"))
			return true;
	}
	return false;
}

/* "Linear", "_LRScheduler": a class by its spelling. */
static bool is_class(const char *s)
{
	s += strspn(s, "_");
	return isupper((unsigned char)*s) &&
	       !s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")];
}

/* Does a name match a row's: exact, "below.*", "below.^"? */
static bool matches(const char *row, const char *name)
{
	size_t n = strlen(row);
	char kind = row[n - 1];

	const char *last = strrchr(name, '.') ? strrchr(name, '.') + 1 : name;
	char pattern[100];

	if (kind != '*' && kind != '^')
		return !strcmp(row, name);
	if (memchr(row, '*', n - 1)) {
		snprintf(pattern, sizeof(pattern), "%.*s*", (int)n - 1, row);
		return !fnmatch(pattern, name, 0) && is_class(last);
	}
	if (strncmp(row, name, n - 1) != 0)
		return false;
	return kind == '*'
		       ? is_one_of(name + n - 1, strlen(name + n - 1), functions, COUNT(functions))
		       : is_class(last) && !is_below(name, unpickling, COUNT(unpickling));
}

const char *policy_new_name(const char *name, char *text, size_t size)
{
	for (size_t i = 0; i < COUNT(moved); i++) {
		size_t n = strlen(moved[i][0]);

		if (strncmp(name, moved[i][0], n) != 0)
			continue;
		snprintf(text, size, "%s%s", moved[i][1], name + n);
		return text;
	}
	return name;
}

/* Of several the one that names it exactly. */
static size_t find_row(const char *name)
{
	size_t found = COUNT(harmless);

	for (size_t i = 0; i < COUNT(harmless); i++) {
		if (!strcmp(harmless[i].name, name))
			return i;
		if (found == COUNT(harmless) && matches(harmless[i].name, name))
			found = i;
	}
	return found;
}

struct policy policy_of(const char *name)
{
	struct policy p = { CKPT_UNKNOWN, POLICY_DATA, 0 };
	char text[300];
	size_t n, row;

	name = policy_new_name(name, text, sizeof(text));
	n = strlen(name);
	if (is_one_of(name, n, sequences, COUNT(sequences)))
		p.fills = POLICY_SEQUENCE;
	else if (is_one_of(name, n, mappings, COUNT(mappings)))
		p.fills = POLICY_MAPPING;
	row = find_row(name);
	if (is_one_of(name, n, plain, COUNT(plain)) || is_torch_type(name)) {
		p.trust = CKPT_PLAIN;
	} else if (row < COUNT(harmless) && !leads_through_module(name)) {
		p.rule = harmless[row].rule;
		p.trust = p.rule == POLICY_DATA ? CKPT_DATA : CKPT_CLASS;
	} else if (is_below(name, dangerous, COUNT(dangerous)) || leads_through_module(name)) {
		p.trust = CKPT_DANGEROUS;
	}
	return p;
}

bool policy_is_allowed(const char *allow, const char *name)
{
	while (allow && *allow) {
		size_t n = strcspn(allow, ",\n#"), end = n, from;

		from = strspn(allow, " \t\r");
		while (end > from && strchr(" \t\r", allow[end - 1]))
			end--;
		if (end > from && end - from > 2 && !memcmp(allow + end - 2, ".*", 2)) {
			if (!strncmp(name, allow + from, end - from - 1))
				return true;
		} else if (end > from && strlen(name) == end - from &&
			   !memcmp(name, allow + from, end - from)) {
			return true;
		}
		if (allow[n] == '#')
			n += strcspn(allow + n, "\n");
		allow += n + (allow[n] != 0);
	}
	return false;
}
