#!/usr/bin/env python3
"""mutants.py BUILD [NAME...]: tests that must fail do.

Each row breaks the code in one place and names the test that must see it; only that test runs.  BUILD is a folder in
which the tests were built: the broken file alone is compiled, to BUILD/mutants, and linked in front of the archive,
from which the linker then does not take it.  The checkout and the build stay as they are.  A row whose text is no longer
there, that does not build, or whose test passes is a failure.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONTRACT = "tests/contract", ["{program}", "tests/data/leak_rnn.pickle.xz", "tests/data/checkpoints/dtypes.pt"]


def unit(name):
    return f"tests/test_{name}", ["{program}"]


def cli(case):
    return "plimsoll", ["python3", "tests/cli/run.py", "{program}", "tests", case]


def driver(name, *more):
    return "plimsoll", ["python3", f"tests/{name}.py", "{program}", *more]


# name, file, text that is there once, what becomes of it, (the program, the test that must fail)
MUTANTS = [
    ("max_split in the model", "src/recordings/allocator/caching.c", "	return bytes < c->rules.max_split_bytes && rest > ALLOCATOR_SMALL_SIZE;",
     "	return rest > ALLOCATOR_SMALL_SIZE;", unit("caching")),
    ("max_split in the replay", "src/recordings/allocator/replay.c", "	return size < r->rules.max_split_bytes && rest > ALLOCATOR_SMALL_SIZE;",
     "	return r && size && rest > ALLOCATOR_SMALL_SIZE;", driver("truth", "tests/data")),
    ("oversize slack", "src/recordings/allocator/caching.c", "k->bytes - bytes >= c->rules.max_nonsplit_rounding_bytes",
     "k->bytes - bytes > c->rules.max_nonsplit_rounding_bytes", unit("caching")),
    ("oversize blocks, smallest first", "src/recordings/allocator/caching_release.c", "	while (freed < key && freeset_prev(o, &at)) {",
     "	for (at = freeset_seek(o, c->rules.max_split_bytes, 0); freed < key && freeset_get(o, at); freeset_next(o, &at)) {", unit("caching")),
    ("oversize blocks alone", "src/recordings/allocator/caching_release.c", "		if (here.bytes < c->rules.max_split_bytes)\n			break;\n", "",
     unit("caching")),
    ("oversize block of exactly max_split", "src/recordings/allocator/caching_release.c", "		if (here.bytes < c->rules.max_split_bytes)",
     "		if (here.bytes <= c->rules.max_split_bytes)", unit("caching")),
    ("addresses that are still in use", "src/recordings/allocator/vmm_room.c", "		if (l.frees > frees || !is_over(a, &l)) {",
     "		if (l.frees > frees || (0 && !is_over(a, &l))) {", unit("vmm")),
    ("memory that another stream still uses", "src/recordings/allocator/vmm_room.c", "r->lane == w->lane || has_passed(a, r, addr)",
     "1 || has_passed(a, r, addr)", unit("vmm")),
    ("pieces too large for a hole", "src/recordings/allocator/vmm_room.c", "release_large(a, *w, needed - s->bytes)",
     "(0 && release_large(a, *w, needed - s->bytes))", unit("vmm")),
    ("zip overlap", "src/checkpoint/zip.c", "		if (from < at)\n			st = BAD(\"overlap\"",
     "		if (from < at && z->n > 1000)\n			st = BAD(\"overlap\"", cli("bad_ckpt/records_that_overlap")),
    ("DeepSpeed stage", "src/planner/plan/change/paste.c", '[PLAN_ZERO2] = { "DEEPSPEED", NULL, 0, 2 }',
     '[PLAN_ZERO2] = { "DEEPSPEED", NULL, 0, 3 }', driver("ladder", "tests/data")),
    ("freed part of a leak", "src/recordings/diagnose/leaks_by_line.c", "#define FREED_PART 4", "#define FREED_PART 3", driver("findings_made")),
    ("fsync of the folder", "src/base/durable.c", "	if (fsync(d->folder))", "	if (0)", ("plimsoll", ["env", "ONLY=durable_order", "python3", "tests/checkpoints.py", "{program}", "tests/data"])),
    ("context of a card", "src/recordings/diagnose/death.c", "#define CONTEXT_HIGH_BYTES (1200u << 20)", "#define CONTEXT_HIGH_BYTES (900u << 20)",
     driver("findings_made")),
    ("limit of the cgroup", "src/live/host/limit.c", "	return (group && group < ram ? group : ram) / 2;", "	(void)group;\n	return ram / 2;", unit("mem")),
    ("size of options", "src/base/options.c", "	st = check_size(t, from, size, err);", "	(void)check_size(t, from, size, err);\n	st = PLIM_OK;",
     CONTRACT),
    ("flags of options", "src/base/options.c", "m->rule == OPTIONS_FLAGS && value & ~m->most", "m->rule == OPTIONS_FLAGS && value & ~m->most && 0",
     CONTRACT),
    ("options of the gauge", "src/live/gauge/write.c", "	st = options_take(&gauge_options_table, &o, options, err);\n",
     "	st = PLIM_OK;\n	if (options)\n		o = *options;\n",
     CONTRACT),
    ("a diff lets go of what it borrowed", "src/commands/diff/run.c", "			d->hidden->lent[s]->reports--;",
     "			(void)d->hidden->lent[s];", unit("recording")),
    ("two bytes of an integer", "src/base/pickle/encode.h", "value > 0xffff ? 4", "value > 0x1ffff ? 4", unit("pickle")),
    ("a small file is cut", "src/base/small_file.c", "read(fd, out + n, room - 1 - n)", "read(fd, out + n, room - n)", unit("small_file")),
    ("failed push of a tape", "src/planner/plan/step/tape.c", "	tape_fail(t, vec_push(t->mem, &t->spare, store, t->err));",
     "	(void)!vec_push(t->mem, &t->spare, store, t->err);", unit("plan")),
    ("first failure of a tape", "src/planner/plan/step/tape.c", "	if (st && !t->failed)\n		t->failed = st;", "	t->failed = st;", unit("check")),
    ("ranges that overlap", "src/recordings/allocator/heap.c", "	if (!has_room(h, range, at))\n		return PLIM_OK;\n", "	(void)has_room;\n", unit("check")),
    ("unmapped nothing", "src/recordings/allocator/heap.c", " || addr + bytes <= addr)", ")", unit("check")),
]


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


class Build:
    """A folder of Meson, and what it takes to build one of its programs with one file changed."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as f:
            self.compiles = json.load(f)
        self.archive = "libplimsoll_parts.a"

    def ask(self, *command):
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def link(self, target):
        commands = self.ask("ninja", "-t", "commands", target).splitlines()
        return next(words for words in map(shlex.split, reversed(commands)) if "-o" in words)

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""

    def sources(self, file):
        """The files of the archive that are compiled anew if FILE changes."""
        ours = {os.path.relpath(os.path.join(self.folder, e["file"]), ROOT): e for e in self.compiles
                if e["output"].startswith(self.archive)}
        if file in ours:
            return {file: ours[file]}
        named = re.compile(rf'#include "([\w/]*/)?{re.escape(os.path.basename(file))}"')
        return {path: e for path, e in ours.items() if path.startswith("src/") and named.search(read(os.path.join(ROOT, path)))}

    def compile(self, file, text, tree):
        """Compiles what FILE is in, as though TEXT were in it; (the objects, what the compiler says of an error)."""
        objects = []
        sources = self.sources(file)
        for path, content in ({path: read(os.path.join(ROOT, path)) for path in sources} | {file: text}).items():
            write(os.path.join(tree, path), content)
        for path, entry in sources.items():
            source = os.path.join(tree, path)
            words = shlex.split(entry["command"])
            words[words.index("-o") + 1], words[words.index("-MF") + 1], words[-1] = source + ".o", source + ".d", source
            objects.append(source + ".o")
            folders = [os.path.join(tree, *os.path.dirname(file).split("/")[:n]) for n in range(1, file.count("/") + 1)]
            folders.append(os.path.join(ROOT, os.path.dirname(path)))
            said = self.run([*words[:1], *[f"-iquote{f}" for f in folders], *words[1:]])
            if said:
                return objects, said
        return objects, "" if objects else f"no file of the archive includes {file}"

    def program(self, target, objects, to):
        """Links TARGET with OBJECTS in front of the archive; what the linker says of an error."""
        words = []
        for word in self.link(target):
            if word.startswith("libplimsoll.so"):
                needs = [a for a in self.link(word) if a.startswith("-l") or a.endswith(".so")]
                words += [*objects, self.archive, *needs]
            else:
                words += [*objects, word] if word == self.archive else [word]
        words[words.index("-o") + 1] = to
        return self.run(words)


def passes(command, program):
    """Does the test pass?  (Its words.)"""
    env = dict(os.environ, PLIMSOLL_TEST_DATA=os.path.join(ROOT, "tests", "data"))
    env.pop("PLIMSOLL_UPDATE", None)
    try:
        done = subprocess.run([a.format(program=program) for a in command], cwd=ROOT, env=env, capture_output=True, text=True,
                              errors="replace", timeout=120, check=False)
    except subprocess.TimeoutExpired:  # a test that never ends has failed
        return False, "does not end"
    return done.returncode == 0, done.stdout + done.stderr


def judge(build, file, old, new, how):
    """What is wrong with a mutant, or None: it was killed."""
    target, command = how
    whole = read(os.path.join(ROOT, file))
    if whole.count(old) != 1:
        return f"{file} has {whole.count(old)} times: {old.strip()}"
    ok, said = passes(command, os.path.join(build.folder, target))
    if not ok:
        return f"fails already without it: {' '.join(command)}\n{said[-2000:]}"
    work = os.path.join(build.folder, "mutants")
    shutil.rmtree(work, ignore_errors=True)
    program = os.path.join(work, os.path.basename(target))
    objects, said = build.compile(file, whole.replace(old, new), work)
    said = said or build.program(target, objects, program)
    if said:
        return f"does not build:\n{said[-2000:]}"
    return "SURVIVES: " + " ".join(command) if passes(command, program)[0] else None


def main():
    build, names = Build(sys.argv[1]), sys.argv[2:]
    left = 0
    for name, *row in MUTANTS:
        if names and name not in names:
            continue
        wrong = judge(build, *row)
        print(f"{'not ok' if wrong else 'ok'} {name}" + (f": {wrong}" if wrong else ""), flush=True)
        left += bool(wrong)
    print(f"{len(MUTANTS) if not names else len(names)} mutants, {left} not killed")
    return bool(left)


sys.exit(main())
