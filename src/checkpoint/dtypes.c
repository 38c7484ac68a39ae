/* Every dtype, with its names in torch, its pickles and safetensors. */
#include "checkpoint.h"

#include <string.h>

/* Storage classes: torch/storage.py; safetensors: its README, version 0.8. */
const struct ckpt_dtype ckpt_dtypes[] = {
	{ "float32", "F32", "FloatStorage", 32, 1, CKPT_F32, 0, 0 },
	{ "bfloat16", "BF16", "BFloat16Storage", 16, 1, CKPT_BF16, 0, 0 },
	{ "float16", "F16", "HalfStorage", 16, 1, CKPT_F16, 0, 0 },
	{ "float64", "F64", "DoubleStorage", 64, 1, CKPT_F64, 0, 0 },
	{ "int64", "I64", "LongStorage", 64, 1, CKPT_SIGNED, 0, 0 },
	{ "int32", "I32", "IntStorage", 32, 1, CKPT_SIGNED, 0, 0 },
	{ "int16", "I16", "ShortStorage", 16, 1, CKPT_SIGNED, 0, 0 },
	{ "int8", "I8", "CharStorage", 8, 1, CKPT_SIGNED, 0, 0 },
	{ "uint8", "U8", "ByteStorage", 8, 1, CKPT_UNSIGNED, 0, 0 },
	{ "bool", "BOOL", "BoolStorage", 8, 1, CKPT_BOOL, 0, 0 },
	{ "complex64", "C64", "ComplexFloatStorage", 64, 2, CKPT_F32, 0, 0 },
	{ "complex128", NULL, "ComplexDoubleStorage", 128, 2, CKPT_F64, 0, 0 },
	{ "complex32", NULL, NULL, 32, 2, CKPT_F16, 0, 0 },
	{ "uint16", "U16", NULL, 16, 1, CKPT_UNSIGNED, 0, 0 },
	{ "uint32", "U32", NULL, 32, 1, CKPT_UNSIGNED, 0, 0 },
	{ "uint64", "U64", NULL, 64, 1, CKPT_UNSIGNED, 0, 0 },
	{ "float8_e4m3fn", "F8_E4M3", NULL, 8, 1, CKPT_E4M3, 0, 0 },
	{ "float8_e5m2", "F8_E5M2", NULL, 8, 1, CKPT_E5M2, 0, 0 },
	{ "float8_e4m3fnuz", "F8_E4M3FNUZ", NULL, 8, 1, CKPT_E4M3FNUZ, 0, 0 },
	{ "float8_e5m2fnuz", "F8_E5M2FNUZ", NULL, 8, 1, CKPT_E5M2FNUZ, 0, 0 },
	{ "float8_e8m0fnu", "F8_E8M0", NULL, 8, 1, CKPT_EXPONENT, 0, 0 },
	/* Two numbers a byte; safetensors counts the numbers, torch the bytes. */
	{ "float4_e2m1fn_x2", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "float4_e2m1fn", "F4", NULL, 4, 1, CKPT_BITS, 0, 0 },
	{ "float6_e2m3fn", "F6_E2M3", NULL, 6, 1, CKPT_BITS, 0, 0 },
	{ "float6_e3m2fn", "F6_E3M2", NULL, 6, 1, CKPT_BITS, 0, 0 },
	{ "qint8", NULL, "QInt8Storage", 8, 1, CKPT_SIGNED, 0, 0 },
	{ "quint8", NULL, "QUInt8Storage", 8, 1, CKPT_UNSIGNED, 0, 0 },
	{ "qint32", NULL, "QInt32Storage", 32, 1, CKPT_SIGNED, 0, 0 },
	{ "quint4x2", NULL, "QUInt4x2Storage", 8, 1, CKPT_BITS, 0, 0 },
	{ "quint2x4", NULL, "QUInt2x4Storage", 8, 1, CKPT_BITS, 0, 0 },
	{ "bits1x8", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "bits2x4", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "bits4x2", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "bits8", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "bits16", NULL, NULL, 16, 1, CKPT_BITS, 0, 0 },
	/* Shells that hold one number a byte. */
	{ "uint1", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint2", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint3", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint4", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint5", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint6", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "uint7", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int1", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int2", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int3", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int4", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int5", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int6", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	{ "int7", NULL, NULL, 8, 1, CKPT_BITS, 0, 0 },
	/* ggml's blocks: so many numbers in so many bytes (ggml-common.h); bits: of a number, rounded up. */
	{ "q4_0", NULL, NULL, 5, 1, CKPT_BITS, 32, 18 },
	{ "q4_1", NULL, NULL, 5, 1, CKPT_BITS, 32, 20 },
	{ "q5_0", NULL, NULL, 6, 1, CKPT_BITS, 32, 22 },
	{ "q5_1", NULL, NULL, 6, 1, CKPT_BITS, 32, 24 },
	{ "q8_0", NULL, NULL, 9, 1, CKPT_BITS, 32, 34 },
	{ "q8_1", NULL, NULL, 9, 1, CKPT_BITS, 32, 36 },
	{ "q2_k", NULL, NULL, 3, 1, CKPT_BITS, 256, 84 },
	{ "q3_k", NULL, NULL, 5, 1, CKPT_BITS, 256, 110 },
	{ "q4_k", NULL, NULL, 5, 1, CKPT_BITS, 256, 144 },
	{ "q5_k", NULL, NULL, 6, 1, CKPT_BITS, 256, 176 },
	{ "q6_k", NULL, NULL, 7, 1, CKPT_BITS, 256, 210 },
	{ "q8_k", NULL, NULL, 10, 1, CKPT_BITS, 256, 292 },
	{ "iq2_xxs", NULL, NULL, 3, 1, CKPT_BITS, 256, 66 },
	{ "iq2_xs", NULL, NULL, 3, 1, CKPT_BITS, 256, 74 },
	{ "iq3_xxs", NULL, NULL, 5, 1, CKPT_BITS, 256, 98 },
	{ "iq1_s", NULL, NULL, 2, 1, CKPT_BITS, 256, 50 },
	{ "iq4_nl", NULL, NULL, 5, 1, CKPT_BITS, 32, 18 },
	{ "iq3_s", NULL, NULL, 5, 1, CKPT_BITS, 256, 110 },
	{ "iq2_s", NULL, NULL, 3, 1, CKPT_BITS, 256, 82 },
	{ "iq4_xs", NULL, NULL, 5, 1, CKPT_BITS, 256, 136 },
	{ "iq1_m", NULL, NULL, 2, 1, CKPT_BITS, 256, 56 },
	{ "tq1_0", NULL, NULL, 2, 1, CKPT_BITS, 256, 54 },
	{ "tq2_0", NULL, NULL, 3, 1, CKPT_BITS, 256, 66 },
	{ "mxfp4", NULL, NULL, 5, 1, CKPT_BITS, 32, 17 },
	/* A storage without a type: its elements are bytes. */
	{ "bytes", NULL, "UntypedStorage", 8, 1, CKPT_BITS, 0, 0 },
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

enum spelling { OF_TORCH, OF_STORAGE, OF_SAFETENSORS };

static const char *spelled(const struct ckpt_dtype *d, enum spelling how)
{
	return how == OF_TORCH ? d->name : how == OF_STORAGE ? d->storage : d->safetensors;
}

static const struct ckpt_dtype *find(const char *name, enum spelling how)
{
	for (size_t i = 0; i < ckpt_dtype_count; i++) {
		const char *own = spelled(&ckpt_dtypes[i], how);

		if (own && !strcmp(own, name))
			return &ckpt_dtypes[i];
	}
	return NULL;
}

const struct ckpt_dtype *ckpt_dtype_of_torch(const char *name)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].alias, name))
			name = aliases[i].name;
	return find(name, OF_TORCH);
}

const struct ckpt_dtype *ckpt_dtype_of_storage(const char *storage)
{
	return find(storage, OF_STORAGE);
}

const struct ckpt_dtype *ckpt_dtype_of_safetensors(const char *name)
{
	return find(name, OF_SAFETENSORS);
}
