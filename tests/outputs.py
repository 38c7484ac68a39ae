#!/usr/bin/env python3
"""outputs.py PLIMSOLL RECORDING: -o writes the file that it names, and destroys nothing; a file cannot fill the memory.

A name that is not a page and no pickle was written as a pickle; the input itself, a pipe, a link, a device were replaced by it.
A reader that left made exit code 3.  97 KB of gzip took 4.3 GB, 1.6 KB of zstd 174 MiB.
"""
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile

import lib

program, recording = sys.argv[1:]
lib.start(program)
BOMB_MIB = 64


def untouched(path, how):
    before = open(path, "rb").read()
    how()
    lib.expect(open(path, "rb").read() == before, path, "was changed")


def names(folder):
    mine = os.path.join(folder, "in.pickle")
    shutil.copy(recording, mine)
    for name in ("x.json", "out.txt", "page.html.bak", "-o"):
        lib.run("report", mine, f"--output={os.path.join(folder, name)}", codes=(2,))
        lib.expect(not os.path.exists(os.path.join(folder, name)), name, "was written")
    os.link(mine, os.path.join(folder, "same.pickle"))
    for name in ("in.pickle", "same.pickle"):
        untouched(mine, lambda name=name: lib.run("report", mine, "-o", os.path.join(folder, name), codes=(2,)))
    lib.run("whatif", mine, "--keep", "expandable_segments:True", "-o", mine, codes=(2,))
    lib.run("whatif", mine, "--plan", "-o", os.path.join(folder, "plan.txt"), codes=(2,))
    copy, link = os.path.join(folder, "copy.pickle"), os.path.join(folder, "link.pickle")
    said = lib.run("report", mine, "-o", copy).stderr
    lib.expect("copy.pickle" in said, "it does not say what it wrote:", said)
    os.symlink(copy, link)
    lib.run("report", mine, "-o", link)
    lib.expect(os.path.islink(link) and lib.load(copy)["segments"], link, "is no link any more")


def streams(folder):
    page = lib.run("report", recording, "-o", "-").stdout
    lib.expect(page.startswith("<!doctype html>") and page.rstrip().endswith("</html>"), "-o - is no page")
    lib.run("report", recording, "-o", "/dev/null")
    lib.expect(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null is a file now")
    if os.path.exists("/dev/full"):
        lib.run("report", recording, "-o", "/dev/full", codes=(3,))
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    # Into a file: a reader whose own pipe is full would keep the writer waiting.
    with tempfile.TemporaryFile() as got:
        with subprocess.Popen(["cat", fifo], stdout=got):
            lib.run("report", recording, "-o", fifo)
        got.seek(0)
        lib.expect(got.read().startswith(b"<!doctype html>"), "a pipe did not get the page")
    lib.expect(stat.S_ISFIFO(os.stat(fifo).st_mode), "the pipe is a file now")
    lib.expect(not [f for f in os.listdir(folder) if f.startswith("plimsoll-")], "something was left behind")


def readers_that_leave():
    for arguments in (["report", recording, "--json", "--owners", "0"], ["report", recording, "--why"]):
        done = subprocess.run(["sh", "-c", '{ "$0" "$@"; echo $? >&2; } | head -1 >/dev/null', program, *arguments], capture_output=True, text=True, check=False)
        lib.expect(done.stderr.strip() == "0", "report | head:", done.stderr)


def progress():
    """A command that waits for its input says so on stderr, after two seconds; its output is the same."""
    with open(recording, "rb") as f:
        content = f.read()
    env = {name: value for name, value in os.environ.items() if name != "PLIMSOLL_PROGRESS"}
    with subprocess.Popen([program, "report", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as child:
        said = child.stderr.readline().decode()  # nothing is written to it before a line is there
        text, _ = child.communicate(content)
    lib.expect(said.startswith("plimsoll report: "), "progress:", said)
    quiet = subprocess.run([program, "report", "-"], input=content, capture_output=True, env=dict(env, PLIMSOLL_PROGRESS="0"), check=False)
    lib.expect(text == quiet.stdout and child.returncode == quiet.returncode == 0 and not quiet.stderr, "progress changes the output")


PACKERS = (["gzip", "-6"], ["zstd", "-q", "-3"], ["xz", "-0"], ["bzip2", "-9"])  # none takes more than the bomb may
EVENTS = b"}(X\x0d\x00\x00\x00device_traces]("  # as a snapshot begins, and then no events
BOMBS = (("lists", b"", b"]", 50), ("ints", b"", b"K\x01", 20), ("tuples", b"", b")", 50), ("dicts", b"", b"}", 50),
         ("memo", b"](", b"K\x01\x94", 20), ("another key", b"}(X\x05\x00\x00\x00other](", b"}", 20),
         ("traces of dicts", EVENTS + b"](", b"}", 20), ("traces of strings", EVENTS + b"](", b"\x8c\x01a", 20),
         ("frames of None", EVENTS + b"](}(X\x06\x00\x00\x00frames](", b"N", 20))


def write_packed(path, packer, head, one, times):
    with open(path, "wb") as to, subprocess.Popen([*packer, "-c"], stdin=subprocess.PIPE, stdout=to) as child:
        child.stdin.write(b"\x80\x04" + head)
        for _ in range(times):  # in pieces: a child's memory is counted from what its parent had
            child.stdin.write(one * 1_000_000)
        child.stdin.write(b".")


def bombs(folder):
    path = os.path.join(folder, "bomb")
    every = [(PACKERS[0], *bomb) for bomb in BOMBS] + [(packer, *BOMBS[0]) for packer in PACKERS[1:]]
    for packer, what, head, one, times in every:
        write_packed(path, packer, head, one, times)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        lib.run("report", path, codes=(3, 4))
        took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        lib.expect(took <= max(before, BOMB_MIB * 1024), packer[0], what, f"{os.path.getsize(path)} bytes took {took >> 10} MiB")


with tempfile.TemporaryDirectory() as where:
    bombs(where)
    names(where)
    streams(where)
    readers_that_leave()
    progress()
lib.finish("outputs go where they belong")
