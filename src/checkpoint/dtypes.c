/* Every dtype, with its names in torch, its pickles and safetensors. */
#include "checkpoint.h"

#include <string.h>

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

static const struct ckpt_dtype *find_dtype(const char *name, enum spelling how)
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
	return find_dtype(name, OF_TORCH);
}

const struct ckpt_dtype *ckpt_dtype_of_storage(const char *storage)
{
	return find_dtype(storage, OF_STORAGE);
}

const struct ckpt_dtype *ckpt_dtype_of_safetensors(const char *name)
{
	return find_dtype(name, OF_SAFETENSORS);
}
