/* Every dtype, with its names in torch, its pickles and safetensors. */
#include "checkpoint.h"

#include <string.h>

/* Storage classes: torch/storage.py; safetensors: its README, version 0.8. */
const struct ckpt_dtype ckpt_dtypes[] = {
	{ "float32", "F32", "FloatStorage", 32, 1, CKPT_F32 },
	{ "bfloat16", "BF16", "BFloat16Storage", 16, 1, CKPT_BF16 },
	{ "float16", "F16", "HalfStorage", 16, 1, CKPT_F16 },
	{ "float64", "F64", "DoubleStorage", 64, 1, CKPT_F64 },
	{ "int64", "I64", "LongStorage", 64, 1, CKPT_SIGNED },
	{ "int32", "I32", "IntStorage", 32, 1, CKPT_SIGNED },
	{ "int16", "I16", "ShortStorage", 16, 1, CKPT_SIGNED },
	{ "int8", "I8", "CharStorage", 8, 1, CKPT_SIGNED },
	{ "uint8", "U8", "ByteStorage", 8, 1, CKPT_UNSIGNED },
	{ "bool", "BOOL", "BoolStorage", 8, 1, CKPT_BOOL },
	{ "complex64", "C64", "ComplexFloatStorage", 64, 2, CKPT_F32 },
	{ "complex128", NULL, "ComplexDoubleStorage", 128, 2, CKPT_F64 },
	{ "complex32", NULL, NULL, 32, 2, CKPT_F16 },
	{ "uint16", "U16", NULL, 16, 1, CKPT_UNSIGNED },
	{ "uint32", "U32", NULL, 32, 1, CKPT_UNSIGNED },
	{ "uint64", "U64", NULL, 64, 1, CKPT_UNSIGNED },
	{ "float8_e4m3fn", "F8_E4M3", NULL, 8, 1, CKPT_E4M3 },
	{ "float8_e5m2", "F8_E5M2", NULL, 8, 1, CKPT_E5M2 },
	{ "float8_e4m3fnuz", "F8_E4M3FNUZ", NULL, 8, 1, CKPT_E4M3FNUZ },
	{ "float8_e5m2fnuz", "F8_E5M2FNUZ", NULL, 8, 1, CKPT_E5M2FNUZ },
	{ "float8_e8m0fnu", "F8_E8M0", NULL, 8, 1, CKPT_EXPONENT },
	/* Two numbers a byte; safetensors counts the numbers, torch the bytes. */
	{ "float4_e2m1fn_x2", NULL, NULL, 8, 1, CKPT_BITS },
	{ "float4_e2m1fn", "F4", NULL, 4, 1, CKPT_BITS },
	{ "float6_e2m3fn", "F6_E2M3", NULL, 6, 1, CKPT_BITS },
	{ "float6_e3m2fn", "F6_E3M2", NULL, 6, 1, CKPT_BITS },
	{ "qint8", NULL, "QInt8Storage", 8, 1, CKPT_SIGNED },
	{ "quint8", NULL, "QUInt8Storage", 8, 1, CKPT_UNSIGNED },
	{ "qint32", NULL, "QInt32Storage", 32, 1, CKPT_SIGNED },
	{ "quint4x2", NULL, "QUInt4x2Storage", 8, 1, CKPT_BITS },
	{ "quint2x4", NULL, "QUInt2x4Storage", 8, 1, CKPT_BITS },
	{ "bits1x8", NULL, NULL, 8, 1, CKPT_BITS },
	{ "bits2x4", NULL, NULL, 8, 1, CKPT_BITS },
	{ "bits4x2", NULL, NULL, 8, 1, CKPT_BITS },
	{ "bits8", NULL, NULL, 8, 1, CKPT_BITS },
	{ "bits16", NULL, NULL, 16, 1, CKPT_BITS },
	/* Shells that hold one number a byte. */
	{ "uint1", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint2", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint3", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint4", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint5", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint6", NULL, NULL, 8, 1, CKPT_BITS },
	{ "uint7", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int1", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int2", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int3", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int4", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int5", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int6", NULL, NULL, 8, 1, CKPT_BITS },
	{ "int7", NULL, NULL, 8, 1, CKPT_BITS },
	/* A storage without a type: its elements are bytes. */
	{ "bytes", NULL, "UntypedStorage", 8, 1, CKPT_BITS },
};
const size_t ckpt_dtype_count = sizeof(ckpt_dtypes) / sizeof(ckpt_dtypes[0]);

/* Old names that torch still writes for some of them. */
static const struct {
	const char *alias, *name;
} aliases[] = {
	{ "float", "float32" },   { "double", "float64" },   { "half", "float16" },
	{ "long", "int64" },      { "int", "int32" },        { "short", "int16" },
	{ "chalf", "complex32" }, { "cfloat", "complex64" }, { "cdouble", "complex128" },
};

static const struct ckpt_dtype *find(const char *name, size_t member)
{
	for (size_t i = 0; i < ckpt_dtype_count; i++) {
		const char *const *at =
			(const char *const *)(const void *)((const char *)&ckpt_dtypes[i] + member);

		if (*at && !strcmp(*at, name))
			return &ckpt_dtypes[i];
	}
	return NULL;
}

const struct ckpt_dtype *ckpt_dtype_of_torch(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].alias, name))
			name = aliases[i].name;
	return find(name, offsetof(struct ckpt_dtype, name));
}

const struct ckpt_dtype *ckpt_dtype_of_storage(const char *storage)
{
	return find(storage, offsetof(struct ckpt_dtype, storage));
}

const struct ckpt_dtype *ckpt_dtype_of_safetensors(const char *name)
{
	return find(name, offsetof(struct ckpt_dtype, safetensors));
}
