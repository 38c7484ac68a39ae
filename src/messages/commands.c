/*
 * What a command line starts: behind the wrappers, launchers, containers and interpreters in front of it.  A name is told
 * as it stands; a command that only looks at the machine or moves files starts nobody's program.
 */
#include "scan.h"

#include <string.h>
#include <strings.h>

enum kind {
	PROGRAM,  /* the command itself */
	WRAPS,    /* the word behind it, its flags and what is no name left out */
	RUNS,     /* an image, and the command behind that */
	MODULES,  /* a script, or the module behind -m */
	SCRIPTS,  /* the file behind it */
	LAUNCHES, /* a script somewhere behind it */
	NOBODYS
};

static const struct {
	const char *name;
	enum kind kind;
} commands[] = {
	{ "sudo", WRAPS },          { "nohup", WRAPS },         { "time", WRAPS },
	{ "nice", WRAPS },          { "ionice", WRAPS },        { "taskset", WRAPS },
	{ "numactl", WRAPS },       { "timeout", WRAPS },       { "stdbuf", WRAPS },
	{ "env", WRAPS },           { "exec", WRAPS },          { "eval", WRAPS },
	{ "xvfb-run", WRAPS },      { "srun", WRAPS },          { "salloc", WRAPS },
	{ "mpirun", WRAPS },        { "mpiexec", WRAPS },       { "mpiexec.hydra", WRAPS },
	{ "horovodrun", WRAPS },    { "strace", WRAPS },        { "gdb", WRAPS },
	{ "valgrind", WRAPS },      { "nsys", WRAPS },          { "ncu", WRAPS },
	{ "nvprof", WRAPS },        { "cuda-memcheck", WRAPS }, { "compute-sanitizer", WRAPS },
	{ "profile", WRAPS },       { "poetry", WRAPS },        { "uv", WRAPS },
	{ "uvx", WRAPS },           { "pixi", WRAPS },          { "pipenv", WRAPS },
	{ "run", WRAPS },           { "npx", WRAPS },           { "bunx", WRAPS },
	{ "wsl", WRAPS },           { "wsl.exe", WRAPS },       { "start", WRAPS },
	{ "docker", RUNS },         { "podman", RUNS },         { "nvidia-docker", RUNS },
	{ "singularity", RUNS },    { "apptainer", RUNS },      { "python", MODULES },
	{ "python2", MODULES },     { "python3", MODULES },     { "pypy3", MODULES },
	{ "ipython", MODULES },     { "py", MODULES },          { "Rscript", SCRIPTS },
	{ "julia", SCRIPTS },       { "perl", SCRIPTS },        { "ruby", SCRIPTS },
	{ "node", SCRIPTS },        { "java", SCRIPTS },        { "php", SCRIPTS },
	{ "bash", SCRIPTS },        { "sh", SCRIPTS },          { "zsh", SCRIPTS },
	{ "sbatch", SCRIPTS },      { "qsub", SCRIPTS },        { "torchrun", LAUNCHES },
	{ "accelerate", LAUNCHES }, { "deepspeed", LAUNCHES },  { "bsub", NOBODYS },
	{ "cd", NOBODYS },          { "ls", NOBODYS },          { "cat", NOBODYS },
	{ "echo", NOBODYS },        { "printf", NOBODYS },      { "export", NOBODYS },
	{ "set", NOBODYS },         { "source", NOBODYS },      { "mkdir", NOBODYS },
	{ "rm", NOBODYS },          { "cp", NOBODYS },          { "mv", NOBODYS },
	{ "ln", NOBODYS },          { "chmod", NOBODYS },       { "chown", NOBODYS },
	{ "pip", NOBODYS },         { "pip3", NOBODYS },        { "conda", NOBODYS },
	{ "mamba", NOBODYS },       { "brew", NOBODYS },        { "apt", NOBODYS },
	{ "apt-get", NOBODYS },     { "yum", NOBODYS },         { "dnf", NOBODYS },
	{ "git", NOBODYS },         { "wget", NOBODYS },        { "curl", NOBODYS },
	{ "ssh", NOBODYS },         { "scp", NOBODYS },         { "module", NOBODYS },
	{ "ml", NOBODYS },          { "nvidia-smi", NOBODYS },  { "rocm-smi", NOBODYS },
	{ "nvcc", NOBODYS },        { "free", NOBODYS },        { "top", NOBODYS },
	{ "htop", NOBODYS },        { "ps", NOBODYS },          { "df", NOBODYS },
	{ "du", NOBODYS },          { "grep", NOBODYS },        { "egrep", NOBODYS },
	{ "awk", NOBODYS },         { "sed", NOBODYS },         { "head", NOBODYS },
	{ "tail", NOBODYS },        { "less", NOBODYS },        { "vi", NOBODYS },
	{ "vim", NOBODYS },         { "nano", NOBODYS },        { "watch", NOBODYS },
	{ "kill", NOBODYS },        { "pkill", NOBODYS },       { "which", NOBODYS },
	{ "uname", NOBODYS },       { "lscpu", NOBODYS },       { "lspci", NOBODYS },
	{ "lsb_release", NOBODYS }, { "ulimit", NOBODYS },      { "sysctl", NOBODYS },
	{ "dmesg", NOBODYS },       { "journalctl", NOBODYS },  { "systemctl", NOBODYS },
	{ "service", NOBODYS },     { "sacct", NOBODYS },       { "squeue", NOBODYS },
	{ "seff", NOBODYS },        { "scontrol", NOBODYS },    { "sstat", NOBODYS },
	{ "kubectl", NOBODYS },     { "oc", NOBODYS },          { "exit", NOBODYS },
	{ "sleep", NOBODYS },       { "touch", NOBODYS },       { "find", NOBODYS },
	{ "md5sum", NOBODYS },      { "history", NOBODYS },     { "screen", NOBODYS },
	{ "tmux", NOBODYS },        { "swapon", NOBODYS },      { "mount", NOBODYS },
	{ "jupyter", NOBODYS },     { "virtualenv", NOBODYS },  { "dotnet", NOBODYS },
	{ "test", NOBODYS },        { "if", NOBODYS },          { "for", NOBODYS },
	{ "done", NOBODYS },        { "do", NOBODYS },          { "then", NOBODYS },
	{ "import", NOBODYS },      { "from", NOBODYS },        { "print", NOBODYS },
	{ "Killed", NOBODYS },      { "killed", NOBODYS },      { "Aborted", NOBODYS },
	{ "Terminated", NOBODYS },  { "Traceback", NOBODYS },   { "Error", NOBODYS },
};
/* Words behind a wrapper that are its own; flags whose value is a word of its own. */
static const char *const own[] = { "run", "exec", "launch", "profile", "compose", "--" };
static const char *const valued[] = {
	"-x",         "-host",        "--host",     "-H",         "--hostfile", "-hostfile",
	"--bind-to",  "--map-by",     "-m",         "-u",         "-w",         "-e",
	"-v",         "-p",           "--name",     "--gpus",     "--mount",    "--env",
	"--volume",   "--network",    "--ipc",      "--runtime",  "--shm-size", "--ulimit",
	"--memory",   "--entrypoint", "-B",         "--bind",     "-J",         "--partition",
	"--user",     "--workdir",    "--platform", "--hostname", "--restart",  "--device",
	"-o",         "--project",    "-c",         "-t",         "--mca",      "-n",
	"--env-file", "--add-host"
};
/* Images that many programs are built on. */
static const char *const bases[] = { "ubuntu",  "debian",     "alpine",    "centos",     "python",
				     "node",    "cuda",       "pytorch",   "tensorflow", "busybox",
				     "openjdk", "golang",     "rust",      "latest",     "base",
				     "conda",   "miniconda3", "anaconda3", "rocm" };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct word {
	const char *p;
	size_t n;
};

static int is_in(struct word w, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(names[i]) == w.n && !memcmp(w.p, names[i], w.n))
			return 1;
	return 0;
}

static int is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* The next word of a command, without quotes; its end goes to *at. */
static struct word next_word(const char **at, const char *stop)
{
	const char *p = *at, *end;

	while (p < stop && strchr(" \t\"'`,[", *p))
		p++;
	for (end = p; end < stop && !strchr(" \t\"'`,]|;&<>()", *end);)
		end++;
	*at = end;
	return (struct word){ p, (size_t)(end - p) };
}

/* Without its folder and Windows' ".exe". */
static struct word base_of(struct word w)
{
	const char *end = w.p + w.n, *p = end;

	while (p > w.p && p[-1] != '/' && p[-1] != '\\')
		p--;
	w = (struct word){ p, (size_t)(end - p) };
	if (w.n > 4 && !strncasecmp(end - 4, ".exe", 4))
		w.n -= 4;
	return w;
}

static enum kind kind_of(struct word w)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (strlen(commands[i].name) == w.n && !memcmp(commands[i].name, w.p, w.n))
			return commands[i].kind;
	if (w.n > 6 && !memcmp(w.p, "python", 6) && w.p[6] >= '0' && w.p[6] <= '9')
		return MODULES;
	return PROGRAM;
}

static int keep(struct word w, char *name, size_t size)
{
	int letters = 0;

	if (w.n < 2 || w.n >= size)
		return 0;
	for (size_t i = 0; i < w.n; i++) {
		if (!scan_is_of_name(w.p[i]))
			return 0;
		letters |= is_letter(w.p[i]);
	}
	if (!letters || w.p[0] == '-' || w.p[w.n - 1] == '.')
		return 0;
	memcpy(name, w.p, w.n);
	name[w.n] = 0;
	return 1;
}

static int is_flag(struct word w)
{
	return w.n && w.p[0] == '-';
}

/* "A=b", 4, "0-3", "10m": nothing that is started. */
static int is_value(struct word w)
{
	return !w.n || memchr(w.p, '=', w.n) || (w.p[0] >= '0' && w.p[0] <= '9') || w.p[0] == '$';
}

/* The next word that is no flag and no value of one. */
static struct word next_plain(const char **at, const char *stop)
{
	struct word w = next_word(at, stop);

	while (w.n && (is_flag(w) || is_value(w) || is_in(w, own, COUNT(own)))) {
		if (is_in(w, valued, COUNT(valued)))
			(void)next_word(at, stop);
		w = next_word(at, stop);
	}
	return w;
}

/* "-c", "-e", "-wE": what is behind is code. */
static int is_code(struct word w)
{
	return w.n > 1 && w.n < 5 && w.p[0] == '-' && w.p[1] != '-' && strchr("ceE", w.p[w.n - 1]);
}

/* "--version", "-h": it only tells of itself. */
static int is_asked(const char *at, const char *stop)
{
	static const char *const words[] = { "--version", "-version", "-V", "--help", "-h" };
	struct word w = next_word(&at, stop);

	return is_in(w, words, COUNT(words));
}

/* The script of an interpreter; of Python's, the module. */
static int take_script(const char *at, const char *stop, enum kind kind, char *name, size_t size)
{
	struct word w = next_word(&at, stop);

	for (; w.n; w = next_word(&at, stop)) {
		if (kind == MODULES && w.n == 2 && !memcmp(w.p, "-m", 2)) {
			w = next_word(&at, stop);
			if (w.n > 6 && !memcmp(w.p, "torch.", 6))
				return take_script(at, stop, LAUNCHES, name, size);
			return keep(w, name, size);
		}
		if (is_code(w))
			return 0;
		if (is_flag(w) || is_value(w))
			continue;
		w = base_of(w);
		if (kind != LAUNCHES || (w.n > 3 && !memcmp(w.p + w.n - 3, ".py", 3)))
			return memchr(w.p, '.', w.n) || kind == SCRIPTS ? keep(w, name, size) : 0;
	}
	return 0;
}

/* "repo/name:tag", "x.sif" */
static struct word image_of(struct word w)
{
	const char *colon;

	w = base_of(w);
	colon = memchr(w.p, ':', w.n);
	if (colon)
		w.n = (size_t)(colon - w.p);
	if (w.n > 4 && (!memcmp(w.p + w.n - 4, ".sif", 4) || !memcmp(w.p + w.n - 4, ".img", 4)))
		w.n -= 4;
	return w;
}

int scan_command_image(const char *at, const char *stop, char *name, size_t size)
{
	struct word w = image_of(next_word(&at, stop));

	return !is_in(w, bases, COUNT(bases)) && keep(w, name, size);
}

#define WRAPPED 6 /* wrappers around wrappers */

static int take_one(const char *at, const char *stop, char *name, size_t size, int depth)
{
	struct word w = next_plain(&at, stop), image;
	enum kind kind;

	w = base_of(w);
	kind = kind_of(w);
	switch (kind) {
	case NOBODYS: return 0;
	case WRAPS: return depth < WRAPPED && take_one(at, stop, name, size, depth + 1);
	case RUNS:
		image = next_plain(&at, stop);
		if (depth < WRAPPED && take_one(at, stop, name, size, depth + 1))
			return 1;
		return scan_command_image(image.p, image.p + image.n, name, size);
	case MODULES:
	case SCRIPTS:
	case LAUNCHES: return take_script(at, stop, kind, name, size);
	default: return !is_asked(at, stop) && keep(w, name, size);
	}
}

int scan_command_program(const char *at, const char *stop, char *name, size_t size)
{
	int found = 0;

	/* "cd x && ./prog | tee log": the last that is somebody's, of those before the first pipe */
	while (at < stop) {
		const char *end = at;
		char quote = 0;

		for (; end < stop && (quote || !strchr("|;&", *end)); end++)
			quote = quote == *end ? 0 : !quote && strchr("\"'", *end) ? *end : quote;
		found |= take_one(at, end, name, size, 0);
		if (end < stop && *end == '|' && !(end + 1 < stop && end[1] == '|') && found)
			break;
		at = end + 1;
	}
	return found;
}
