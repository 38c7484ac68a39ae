/* Where Hugging Face's hub library keeps what it has fetched.  Nothing is fetched here. */
#include "tables.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool model_is_hub_name(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && path[0] != '.' &&
	       access(path, F_OK);
}

void model_hub_folder(char *out, size_t room)
{
	const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
	const char *user = getenv("HOME");

	if (cache && *cache)
		(void)snprintf(out, room, "%s", cache);
	else if (home && *home)
		(void)snprintf(out, room, "%s/hub", home);
	else
		(void)snprintf(out, room, "%s/.cache/huggingface/hub", user ? user : "");
}

/* The snapshot of the last glob where no revision is called main. */
bool model_find_in_hub(const char *name, char *out, size_t room)
{
	char folder[2048], pattern[4096], commit[64] = "*";
	const char *slash = strchr(name, '/');
	glob_t found;
	bool is;

	model_hub_folder(folder, sizeof(folder));
	(void)small_file_line(commit, sizeof(commit), "%s/models--%.*s--%s/refs/main", folder,
			      (int)(slash - name), name, slash + 1);
	if (!*commit || strspn(commit, "0123456789abcdef") != strlen(commit))
		(void)snprintf(commit, sizeof(commit), "*");
	(void)snprintf(pattern, sizeof(pattern), "%s/models--%.*s--%s/snapshots/%s/config.json",
		       folder, (int)(slash - name), name, slash + 1, commit);
	is = !glob(pattern, 0, NULL, &found) &&
	     snprintf(out, room, "%s", found.gl_pathv[found.gl_pathc - 1]) < (int)room;
	globfree(&found);
	return is;
}
