/* Keys of a config.json that change no byte of memory: data/models/neutral.rows. */
#include "tables.h"

#include <fnmatch.h>

bool model_key_is_neutral(const char *key)
{
	for (size_t i = 0; i < model_neutral_count; i++)
		if (!fnmatch(model_neutral_keys[i].pattern, key, 0))
			return true;
	return false;
}
