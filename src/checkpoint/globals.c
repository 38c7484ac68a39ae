/*
 * How far the names in a pickle are known.  Nothing is ever called here; this tells what a loader
 * would call.  Plain is what torch.load(weights_only=True) allows (torch 2.11); everything that is not
 * on a list is unlisted.  The list of dangerous names only labels: no verdict rests on a name not
 * being there.
 */
#include "parts.h"

#include <stdio.h>
#include <string.h>

#define GLOBALS_MAX 4096 /* that are kept, and as many dangerous ones */

/* A name, or with a star at its end all that begin so and go on without a dot. */
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
	"torch.nn.parameter.Buffer",
	"torch.serialization._get_layout",
	"torch.storage.TypedStorage",
	"torch.storage.UntypedStorage",
	"torch.storage._TypedStorage",
	"torch.storage._UntypedStorage",
	"torch._tensor._rebuild_from_type_v2",
	"torch._utils._rebuild_tensor",
	"torch._utils._rebuild_tensor_v2",
	"torch._utils._rebuild_tensor_v3",
	"torch._utils._rebuild_parameter",
	"torch._utils._rebuild_parameter_with_state",
	"torch._utils._rebuild_sparse_tensor",
	"torch._utils._rebuild_sparse_csr_tensor",
	"torch._utils._rebuild_qtensor",
	"torch._utils._rebuild_nested_tensor",
	"torch._utils._rebuild_meta_tensor_no_storage",
	"torch._utils._rebuild_device_tensor_from_cpu_tensor",
	"torch._utils._rebuild_device_tensor_from_numpy",
	"torch._utils._rebuild_xla_tensor",
	"torch._utils._rebuild_wrapper_subclass",
	"torch.per_tensor_affine",
	"torch.per_tensor_symmetric",
	"torch.per_channel_affine",
	"torch.per_channel_symmetric",
	"torch.per_channel_affine_float_qparams",
};

/* Classes of libraries that hold data, one by one. */
static const char *const extra[] = {
	"numpy.core.multiarray._reconstruct",
	"numpy._core.multiarray._reconstruct",
	"numpy.core.multiarray.scalar",
	"numpy._core.multiarray.scalar",
	"numpy.dtype",
	"numpy.ndarray",
	"numpy.core.numeric._frombuffer",
	"numpy._core.numeric._frombuffer",
	"numpy.dtypes.Float64DType",
	"numpy.dtypes.Float32DType",
	"numpy.dtypes.Int64DType",
	"numpy.dtypes.UInt32DType",
	"collections.defaultdict",
	"collections.deque",
	"builtins.dict",
	"builtins.list",
	"builtins.tuple",
	"builtins.int",
	"builtins.float",
	"builtins.bool",
	"builtins.str",
	"builtins.bytes",
	"builtins.frozenset",
	"builtins.slice",
	"builtins.range",
	"builtins.xrange",
	"builtins.Ellipsis",
	"builtins.NotImplemented",
	"copyreg._reconstructor",
	"builtins.object",
	"argparse.Namespace",
	"pathlib.PosixPath",
	"pathlib.WindowsPath",
	"pathlib.PurePosixPath",
	"pathlib._local.PosixPath",
	"pathlib._local.WindowsPath",
	"datetime.datetime",
	"datetime.date",
	"datetime.time",
	"datetime.timedelta",
	"datetime.timezone",
	"types.SimpleNamespace",
	"omegaconf.dictconfig.DictConfig",
	"omegaconf.listconfig.ListConfig",
	"omegaconf.base.ContainerMetadata",
	"omegaconf.base.Metadata",
	"omegaconf.nodes.AnyNode",
	"omegaconf.nodes.StringNode",
	"omegaconf.nodes.IntegerNode",
	"omegaconf.nodes.FloatNode",
	"omegaconf.nodes.BooleanNode",
	"typing.Any",
	"pytorch_lightning.utilities.parsing.AttributeDict",
	"lightning_fabric.utilities.data.AttributeDict",
	"lightning.fabric.utilities.data.AttributeDict",
	"fractions.Fraction",
	"decimal.Decimal",
	"uuid.UUID",
	"torch._C.Generator",
	"torch.memory_format",
	"torch.jit._pickle.build_intlist",
	"torch.jit._pickle.build_doublelist",
	"torch.jit._pickle.build_boollist",
	"torch.jit._pickle.build_tensorlist",
	"torch.jit._pickle.restore_type_tag",
	"torch.distributed.checkpoint.metadata.Metadata",
	"torch.distributed.checkpoint.metadata.TensorStorageMetadata",
	"torch.distributed.checkpoint.metadata.ChunkStorageMetadata",
	"torch.distributed.checkpoint.metadata.BytesStorageMetadata",
	"torch.distributed.checkpoint.metadata.TensorProperties",
	"torch.distributed.checkpoint.metadata._MEM_FORMAT_ENCODING",
	"torch.distributed.checkpoint.metadata.MetadataIndex",
	"torch.distributed.checkpoint.metadata.StorageMeta",
	"torch.distributed.checkpoint.filesystem._StorageInfo",
	"torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
	"torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
	"torch.distributed.tensor.DTensor",
	"torch.distributed._tensor.api.DTensor",
	"torch.distributed._tensor.DTensor",
	"torch.distributed.tensor._dtensor_spec.DTensorSpec",
	"torch.distributed._tensor._dtensor_spec.DTensorSpec",
	"torch.distributed._tensor.placement_types.DTensorSpec",
	"torch.distributed.tensor._dtensor_spec.TensorMeta",
	"torch.distributed._tensor.placement_types.TensorMeta",
	"torch.distributed.tensor.placement_types.Shard",
	"torch.distributed.tensor.placement_types.Replicate",
	"torch.distributed.tensor.placement_types._StridedShard",
	"torch.distributed._tensor.placement_types.Shard",
	"torch.distributed._tensor.placement_types.Replicate",
	"torch.distributed.device_mesh.DeviceMesh",
	"torch.distributed._mesh_layout._MeshLayout",
	"torch.nested._internal.nested_tensor.NestedTensor",
	"torch.nested._internal.nested_tensor._rebuild_njt",
};

/* Whole modules: with a dot behind, all below them too. */
static const char *const dangerous_modules[] = {
	"os",
	"posix",
	"nt",
	"sys",
	"subprocess",
	"importlib",
	"runpy",
	"pty",
	"socket",
	"shutil",
	"pickle",
	"_pickle",
	"marshal",
	"ctypes",
	"code",
	"codeop",
	"pdb",
	"bdb",
	"timeit",
	"cProfile",
	"profile",
	"trace",
	"pydoc",
	"doctest",
	"webbrowser",
	"pip",
	"venv",
	"ensurepip",
	"imaplib",
	"ssl",
	"urllib",
	"http",
	"requests",
	"aiohttp",
	"asyncio",
	"multiprocessing",
	"threading",
	"pkgutil",
	"builtins.eval",
	"builtins.exec",
	"builtins.compile",
	"builtins.setattr",
	"builtins.open",
	"builtins.__import__",
	"builtins.breakpoint",
	"builtins.apply",
	"builtins.execfile",
	"builtins.input",
	"builtins.globals",
	"builtins.vars",
	"operator.attrgetter",
	"operator.itemgetter",
	"operator.methodcaller",
	"functools.partial",
	"torch.load",
	"torch.storage._load_from_bytes",
	"torch.hub",
	"torch.jit.unsupported_tensor_ops",
	"torch._inductor",
	"torch.utils.cpp_extension",
	"numpy.f2py",
	"numpy.testing",
	"numpy.load",
};

/* Python 2 names what moved. */
static const char *const moved[][2] = { { "__builtin__.", "builtins." },
					{ "copy_reg.", "copyreg." },
					{ "cPickle.", "pickle." } };

static bool is_dangerous(const char *name)
{
	for (size_t i = 0; i < sizeof(dangerous_modules) / sizeof(dangerous_modules[0]); i++) {
		size_t n = strlen(dangerous_modules[i]);

		if (!strncmp(name, dangerous_modules[i], n) && (!name[n] || name[n] == '.'))
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

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t n = strlen(places[i]);

		if (strncmp(name, places[i], n) != 0)
			continue;
		if (i == 3 && ckpt_dtype_of_torch(name + n) && strcmp(name + n, "bytes") != 0)
			return true;
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
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

enum ckpt_trust globals_trust(const char *name)
{
	char full[300];

	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		size_t n = strlen(moved[i][0]);

		if (strncmp(name, moved[i][0], n) != 0)
			continue;
		snprintf(full, sizeof(full), "%s%s", moved[i][1], name + n);
		name = full;
		break;
	}
	if (text_is_one_of(name, plain, sizeof(plain) / sizeof(plain[0])) || is_torch_type(name))
		return CKPT_PLAIN;
	if (text_is_one_of(name, extra, sizeof(extra) / sizeof(extra[0])))
		return CKPT_EXTRA;
	return is_dangerous(name) ? CKPT_DANGEROUS : CKPT_UNLISTED;
}

/* "module.name"; parts that are no strings make the whole a computed name. */
static size_t global_name(const struct pickle_heap *h, struct pickle_value v, char *text,
			  size_t size)
{
	struct pickle_value module = pickle_item(h, v, 0), name = pickle_item(h, v, 1);
	int n;

	if (module.kind != PICKLE_STR || name.kind != PICKLE_STR)
		n = snprintf(text, size, "a name that is computed");
	else
		n = snprintf(text, size, "%s.%s", intern_text(&h->strings, (uint32_t)module.bits),
			     intern_text(&h->strings, (uint32_t)name.bits));
	return n < (int)size ? (size_t)n : size - 1;
}

/* ---- getattr ---- */

static bool is_getattr(const struct pickle_heap *h, struct pickle_value v)
{
	char name[32];

	if (v.kind != PICKLE_GLOBAL)
		return false;
	global_name(h, v, name, sizeof(name));
	return !strcmp(name, "builtins.getattr") || !strcmp(name, "__builtin__.getattr");
}

static struct pickle_value called(const struct pickle_heap *h, struct pickle_value call)
{
	return pickle_item(h, call, PICKLE_CALL_CALLEE);
}

/* (Class, 'MEMBER') */
static bool is_member(const struct pickle_heap *h, struct pickle_value args)
{
	struct pickle_value class, member;
	char name[300];

	if (args.kind != PICKLE_TUPLE || pickle_len(h, args) != 2)
		return false;
	class = pickle_item(h, args, 0);
	member = pickle_item(h, args, 1);
	if (class.kind != PICKLE_GLOBAL || member.kind != PICKLE_STR ||
	    !strncmp(intern_text(&h->strings, (uint32_t)member.bits), "__", 2))
		return false;
	global_name(h, class, name, sizeof(name));
	return globals_trust(name) != CKPT_DANGEROUS;
}

void globals_settle(struct globals_log *log)
{
	const struct pickle_heap *h = log->heap;
	bool members = true;

	for (size_t i = 0; members && i < h->nodes.n; i++) {
		const struct pickle_node *node = &h->nodes.at[i];

		for (uint32_t k = 0; members && node->items && k < node->n; k++) {
			bool callee = node->n == PICKLE_CALL_ITEMS && k == PICKLE_CALL_CALLEE;

			if (is_getattr(h, node->items[k]))
				members = callee && is_member(h, node->items[PICKLE_CALL_ARGS]);
			else if (callee && node->items[k].kind == PICKLE_CALL)
				members = !is_getattr(h, called(h, node->items[k]));
		}
	}
	for (size_t i = 0; !members && i < log->ckpt->globals.n; i++) {
		struct ckpt_global *g = &log->ckpt->globals.at[i];
		const char *name = ckpt_text(log->ckpt, g->name);

		if (!strcmp(name, "builtins.getattr") || !strcmp(name, "__builtin__.getattr"))
			g->trust = CKPT_DANGEROUS;
	}
}

/* ---- the log ---- */

enum plim_status globals_hook(void *ctx, struct pickle_value v, uint64_t offset,
			      struct plim_err *err)
{
	struct globals_log *log = ctx;
	struct ckpt *c = log->ckpt;
	struct ckpt_global g = { .record = log->record, .offset = offset, .times = 1 };
	char name[300];
	enum plim_status st = PLIM_OK;
	size_t n = global_name(log->heap, v, name, sizeof(name));
	bool computed = pickle_item(log->heap, v, 0).kind != PICKLE_STR ||
			pickle_item(log->heap, v, 1).kind != PICKLE_STR;

	c->pickled = true;
	g.name = model_string(c, name, n, &st, err);
	for (size_t i = 0; !st && i < c->globals.n; i++) {
		if (c->globals.at[i].name == g.name) {
			c->globals.at[i].times++;
			return PLIM_OK;
		}
	}
	g.trust = computed ? CKPT_DANGEROUS
		  : log->script && !strncmp(name, CKPT_SCRIPT_CLASS, strlen(CKPT_SCRIPT_CLASS))
			  ? CKPT_CODE
			  : globals_trust(name);
	/* A file made of nothing but names would make the search above slow; what is dangerous is told even so. */
	if (c->globals.n >= (g.trust == CKPT_DANGEROUS ? 2 * GLOBALS_MAX : GLOBALS_MAX))
		return st;
	return st ? st : vec_push(c->mem, &c->globals, g, err);
}

enum plim_status globals_judge(struct ckpt *c, struct plim_err *err)
{
	const struct ckpt_global *first = NULL;
	size_t unlisted = 0;
	enum plim_status st = PLIM_OK;

	for (size_t i = 0; !st && i < c->globals.n; i++) {
		const struct ckpt_global *g = &c->globals.at[i];

		if (g->trust == CKPT_UNLISTED && !unlisted++)
			first = g;
		if (g->trust == CKPT_DANGEROUS)
			st = model_find(c, CKPT_BAD_FINDING, "dangerous_pickle", g->offset, err,
					"%.200s names '%.200s' at byte %llu: loading it without "
					"weights_only runs code",
					ckpt_text(c, g->record), ckpt_text(c, g->name),
					(unsigned long long)g->offset);
	}
	if (st || !first)
		return st;
	return model_find(c, CKPT_WARN, "unlisted_global", first->offset, err,
			  "%zu %s on no list, first '%.200s' at byte %llu of %.200s: torch.load "
			  "refuses it without trust in the file",
			  unlisted, unlisted == 1 ? "name is" : "names are",
			  ckpt_text(c, first->name), (unsigned long long)first->offset,
			  ckpt_text(c, first->record));
}
