#!/usr/bin/env python3
"""Golden tests of the program: run PROGRAM TESTS-FOLDER [GROUP[/CASE]...].

tests/cli/GROUP.cases holds the cases of a group, in the order of their names:

    === NAME
    commands, run by sh in an empty scratch folder, with $PLIMSOLL, $DATA (tests/data), $TESTS (tests) and $HOST (what
    tests/data/host/*.tar.xz hold); $TRUTH is the full set of measured recordings, or empty
    --- out
    what must appear on stdout; without this part nothing may appear
    --- err
    what must appear on stderr; without this part nothing may appear
    --- exit 3
    --- writes
    the files that may appear in the scratch folder (~/ is $HOME), one a line; without this part none may

Where stdout is one JSON document, its facts are compared, an object a line: its path and its members (`facts`); how a
document is laid out is compared in why/json_layout.

`exit` is left out for 0.  Two more parts come before the commands' results, each on one line:

    --- given bad_inputs NAME    the scratch folder holds `bad`, which tests/bad_inputs.py (or bad_checkpoints) makes
    --- needs NAME...            skipped unless all of these exist below $DATA or $TRUTH or as commands

A line of a part that begins with ===, --- or \\ has a \\ in front; a lone \\ at the end says that the last line has no
newline.  Where the output holds the folders' own names, they read $DATA, $TRUTH, $TESTS, $HOST,
$SCRATCH and $PLIMSOLL.
A new case needs its name and its commands only: with PLIMSOLL_UPDATE set (make check UPDATE=1) the results are
written into the files; read the change with git diff.  Prints TAP.
"""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import bad_checkpoints  # noqa: E402
import bad_inputs  # noqa: E402

MADE = {"bad_inputs": bad_inputs, "bad_checkpoints": bad_checkpoints}
RESULTS = ("out", "err", "exit", "writes")
PARTS = ("needs", "given", *RESULTS)
ON_ONE_LINE = ("needs", "given", "exit")
LIMIT_S = 600
INLINE_MEMBERS = 4  # of an object that stands in its parent's line


def unescaped(lines):
    whole = lines[-1:] != ["\\\n"]
    text = "".join(line[1:] if line[0] == "\\" else line for line in (lines if whole else lines[:-1]))
    return text if whole else text[:-1]


def escaped(text):
    lines = "".join("\\" + line if line.startswith(("===", "---", "\\")) else line for line in text.splitlines(True))
    return lines if not text or text.endswith("\n") else lines + "\n\\\n"


def parse(path):
    """The cases of a group: {name: {part: text}}; the commands are the part `cmd`."""
    cases = {}
    case, lines = None, None
    with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        for number, line in enumerate(f, 1):
            name = line[4:].strip()
            part, _, rest = name.partition(" ")
            if line.startswith("=== ") and name not in cases:
                if lines and lines[-1] == "\n":  # sets the cases apart
                    lines.pop()
                lines = []
                case = cases[name] = {"cmd": lines}
            elif line.startswith("--- ") and case and part in PARTS and part not in case and bool(rest) == (part in ON_ONE_LINE):
                case[part] = [rest + "\n"] if rest else []
                lines = case[part] if not rest else lines if part in ("needs", "given") else None
            elif line.startswith(("=== ", "--- ")) or (lines is None and line != "\n"):
                sys.exit(f"{path}:{number}: out of place: {line.strip()}")
            elif lines is not None:
                lines.append(line)
    return {name: {part: unescaped(body) for part, body in case.items()} for name, case in cases.items()}


def write(path, cases):
    texts = []
    for name in sorted(cases):
        case = cases[name]
        text = f"=== {name}\n" + "".join(f"--- {part} {case[part]}" for part in ("needs", "given") if case.get(part))
        text += escaped(case["cmd"])
        for part in RESULTS:
            if case.get(part):
                text += f"--- {part} {case[part]}" if part in ON_ONE_LINE else f"--- {part}\n" + escaped(case[part])
        texts.append(text)
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as f:
        f.write("\n".join(texts))


def listing(folder):
    found = []
    for at, _, files in os.walk(folder):
        found += [os.path.relpath(os.path.join(at, f), folder) for f in files]
    return "".join(sorted(f + "\n" for f in found))


def shown(line):
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def lacking(case, env):
    for name in case.get("needs", "").split():
        roots = [env[k] for k in ("DATA", "TRUTH") if env[k]]
        if not shutil.which(name) and not any(os.path.exists(os.path.join(r, name)) for r in roots):
            return name
    return None


def give(given, folder, env):
    """Puts what the case asks for into its scratch folder, as `bad`."""
    module, name = given.split()
    MADE[module].make(name, env["DATA"], os.path.join(folder, "bad"))


def facts(at, value):
    """The lines of an object or list below the path `at`."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    inline, below = [], []
    for name, member in members:
        nested = isinstance(member, (dict, list)) and any(isinstance(v, (dict, list)) for v in
                                                          (member.values() if isinstance(member, dict) else member))
        if nested or (isinstance(member, dict) and len(member) > INLINE_MEMBERS):
            path = f"{at}[{name}]" if isinstance(value, list) else f"{at}.{name}" if at else name
            below += facts(path, member)
        else:
            text = json.dumps(member, ensure_ascii=False, separators=(",", ":"))
            inline.append(text if isinstance(value, list) else f"{name}={text}")
    return ([f"{at or '.'}: {' '.join(inline)}\n"] if inline or not below else []) + below


def compared(text):
    """Of a JSON document its facts, else the text itself."""
    if not (text.startswith("{\n") and text.endswith("\n}\n")):
        return text
    try:
        return "".join(facts("", json.loads(text)))
    except ValueError:
        return text


def run_case(case, env):
    """What the case did, in the form of its expected results."""
    with tempfile.TemporaryDirectory(prefix="plimsoll-", dir="/tmp") as top:
        scratch, home = os.path.join(top, "scratch"), os.path.join(top, "home")
        os.mkdir(scratch)
        os.mkdir(home)
        env = dict(env, HOME=home, TMPDIR=scratch)
        if case.get("given"):
            give(case["given"], scratch, env)
        before = set(listing(scratch).splitlines(True))
        try:
            done = subprocess.run(["sh", "-c", case["cmd"]], cwd=scratch, env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=LIMIT_S)
            out, err, code = done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired:
            out, err, code = b"", b"the case took too long\n", -1
        # What is left in $HOME counts too: nothing may be written outside.
        after = listing(scratch).splitlines(True)
        writes = "".join(f for f in after if f not in before) + "".join(f"removed {f}" for f in sorted(before.difference(after)))
        writes += "".join("~/" + f for f in listing(home).splitlines(True))
    texts = []
    for raw in (out, err):
        text = raw.decode("utf-8", "surrogateescape")
        for name in ("PLIMSOLL", "HOST", "DATA", "TRUTH", "TESTS"):
            if env[name]:
                text = text.replace(env[name], "$" + name)
        texts.append(VERSION.sub("$VERSION", text.replace(scratch, "$SCRATCH")))
    texts[0] = compared(texts[0])
    return dict(zip(RESULTS, texts + [f"{code}\n" if code else "", writes]))


def check(case, env):
    """(what it did, or None; skipped because; lines of explanation)"""
    lacks = lacking(case, env)
    if lacks:
        return None, f"{lacks} is not here", []
    got = run_case(case, env)
    said = []
    for part in RESULTS:
        want = case.get(part, "")
        if want != got[part]:
            said += [f"{part}: expected"] + ["  " + w for w in want.splitlines()]
            said += [f"{part}: got"] + ["  " + g for g in got[part].splitlines()]
    return got, None, said


# The program's own, in its first line of JSON and where it is asked for.
VERSION = re.compile(r"(?<![\d.])" + re.escape(
    subprocess.run([sys.argv[1], "--version"], capture_output=True, text=True, check=True).stdout.split()[1]) + r"(?![\d.])")


def main():
    # By a short name: where the checkout lies must not decide what is cut or wrapped.
    with tempfile.TemporaryDirectory(prefix="plimsoll-host-") as host, tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as short:
        for path in glob.glob(os.path.join(sys.argv[2], "data", "host", "*.tar.xz")):
            with tarfile.open(path) as tar:
                tar.extractall(host)
        tests = os.path.join(short, "t")
        os.symlink(os.path.abspath(sys.argv[2]), tests)
        return run_all(host, tests)


def run_all(host, tests):
    program = os.path.abspath(sys.argv[1])
    top = os.path.join(tests, "cli")
    groups = {os.path.basename(path)[: -len(".cases")]: parse(path) for path in sorted(glob.glob(os.path.join(top, "*.cases")))}
    stray = [name for name in sorted(os.listdir(top)) if name != "run.py" and not name.endswith(".cases")]
    if stray or not groups:
        sys.exit(f"{top}: only GROUP.cases and run.py belong here; found {' '.join(stray) or 'no cases'}")
    cases = [(group, name) for group, named in groups.items() for name in named
             if not sys.argv[3:] or group in sys.argv[3:] or f"{group}/{name}" in sys.argv[3:]]
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH") or "SAN_OPTIONS" in k}
    env["PLIMSOLL_PROGRESS"] = "0"  # a slow machine must not change what is said
    env.update(PLIMSOLL=program, DATA=os.path.join(tests, "data"), TESTS=tests, HOST=host, LC_ALL="C.UTF-8", TERM="dumb",
               TRUTH=os.environ.get("PLIMSOLL_TRUTH", ""))
    given = {tuple(case["given"].split()) for named in groups.values() for case in named.values() if case.get("given")}
    for module, maker in MADE.items():
        for name in maker.names(env["DATA"]):
            if (module, name) not in given:
                sys.exit(f"no case is given what tests/{module}.py makes as '{name}'")
    update = bool(os.environ.get("PLIMSOLL_UPDATE"))
    failed = 0
    print(f"1..{len(cases)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = pool.map(lambda c: check(groups[c[0]][c[1]], env), cases)
        for number, ((group, name), (got, skipped, said)) in enumerate(zip(cases, results), 1):
            if update and got:
                groups[group][name].update(got)
                said = []
            print(f"{'not ok' if said else 'ok'} {number} {group}/{name}" + (f" # SKIP {skipped}" if skipped else ""))
            for line in said:
                print("#   " + shown(line))
            failed += bool(said)
    for group in groups if update else ():
        write(os.path.join(top, group + ".cases"), groups[group])
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
