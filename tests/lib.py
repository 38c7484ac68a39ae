"""What the drivers of tests/ share: running the program, reading recordings, a pool of workers, failures counted.

A driver calls start() with its arguments, then run(), expect() and jobs(), and ends with finish().  Whatever goes wrong is a
failure that finish() prints: an exit code that was not asked for, a worker's exception, a check that failed.
"""
import concurrent.futures
import glob
import json
import lzma
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 900
ANY = range(-64, 256)  # exit codes of a test that looks at them itself
SHOWN = 50  # failures that are printed
failures = []
program = None
processes = 0
_counting = threading.Lock()


class Failed(Exception):
    """The program did not do what was asked for."""


def start(path):
    """Says which program is tested."""
    global program
    program = os.path.abspath(path)


def fail(where, *what):
    failures.append(f"{where}: " + " ".join(map(str, what)))


def expect(ok, where, *what):
    """One assertion; what failed is kept, and the test goes on."""
    if not ok:
        fail(where, *what)
    return ok


def run(*arguments, codes=(0,), stdin=None, env=None, cwd=None, text=True):
    """Runs the program.  An exit code that is not in `codes` is an error with what was said on stderr."""
    global processes
    with _counting:
        processes += 1
    done = subprocess.run([program, *map(str, arguments)], input=stdin, capture_output=True, timeout=LIMIT_S, cwd=cwd,
                          env=dict(os.environ, **env) if env else None, check=False)
    if text:
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    if done.returncode not in codes:
        said = done.stderr if text else done.stderr.decode("utf-8", "backslashreplace")
        raise Failed(f"{' '.join(map(str, arguments))}: exit code {done.returncode}: {said.strip()[-500:]}")
    return done


def result(*arguments, **more):
    """What the program says in JSON."""
    return json.loads(run(*arguments, "--json", **more).stdout)


def planned(config, *options, codes=(0, 1), **more):
    """What a plan of a config.json (as a dict) says in JSON; 1: it does not fit."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
        json.dump(config, f)
        f.flush()
        return result("plan", f.name, *options, codes=codes, **more)


def opened(path, mode="rb"):
    return lzma.open(path, mode) if path.endswith(".xz") else open(path, mode, encoding=None if "b" in mode else "utf-8")


def load(path):
    """A recording, as Python reads it."""
    with opened(path) as f:
        return pickle.load(f)


def recording(name, data, truth):
    """A recording of the tests' data, or of a folder of truths that need not be here; None: it is not."""
    for folder in [data, *(os.path.join(t, "snapshots") for t in truth)]:
        path = os.path.join(folder, name + ".pickle.xz")
        if os.path.exists(path):
            return path
    return None


def recordings(paths):
    """The recordings among these files and in these folders."""
    for path in paths:
        if os.path.isdir(path):
            for name in ("*.pickle", "*.pickle.xz", "*.pkl"):
                yield from sorted(glob.glob(os.path.join(path, "**", name), recursive=True))
        else:
            yield path


def unpacked(paths, folder):
    """Copies of recordings as plain pickles: whoever reads one again and again need not decompress it each time."""
    copies = []
    for i, path in enumerate(paths):
        copies.append(os.path.join(folder, str(i), os.path.basename(path).removesuffix(".xz")))
        os.mkdir(os.path.dirname(copies[-1]))
        with opened(path) as f, open(copies[-1], "wb") as to:
            shutil.copyfileobj(f, to)
    return copies


def rows(path):
    """A table of JSON lines."""
    with opened(path, "rt") as f:
        return [json.loads(line) for line in f]


def jobs(function, *items):
    """function(item...) of each, by as many workers as there are processors; their results, None where one failed.

    Workers are threads: what they wait for is the program.
    """
    def one(arguments):
        try:
            return function(*arguments)
        except Exception as why:  # pylint: disable=broad-except
            fail(function.__name__ if isinstance(why, Failed) else " ".join(str(a)[:200] for a in arguments), repr(why))
            return None

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(one, zip(*items)))


def finish(summary, least=1):
    """Prints the failures, or the summary (none: nothing), and ends; a test that ran fewer than `least` programs has tested nothing."""
    if processes < least:
        fail("the test", f"ran {processes} programs, of {least} or more")
    if failures or summary:
        print("\n".join(failures[:SHOWN]) or f"{summary} ({processes} runs)")
    if len(failures) > SHOWN:
        print(f"and {len(failures) - SHOWN} failures more")
    sys.exit(bool(failures))
