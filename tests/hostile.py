#!/usr/bin/env python3
"""Names and files made to do harm: hostile.py PROGRAM.

What a recording calls its functions and files is shown on terminals and in JSON; nothing of it may
drive the terminal, break the lines or the JSON.  Bombs must stay within the memory limit, and a
file that shrinks while it is read must end in an error, not a signal.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import unicodedata

import bad_inputs
import lib
import page_reader

lib.start(sys.argv[1])
A = bad_inputs.A
MIB = 1 << 20
LONG = 1 << 16  # bytes of a name that a file does not repeat
SANITISED = "SAN_OPTIONS" in " ".join(os.environ)
UNSAFE = set(range(0x20)) - {0x0A} | set(range(0x7F, 0xA0)) | {0xAD, 0x61C, 0xFEFF} | set(range(0x200B, 0x2010)) \
    | set(range(0x2028, 0x202F)) | set(range(0x2060, 0x2070))

# A name is bytes as they stand in the file.
NAMES = {
    "escapes": b"\x1b[2J\x1b]0;owned\x07\x1b[31mred",
    "c1": "\u009b31m\u0085next".encode(),
    "bidi": "a\u202egnp.exe\u2066\u2069\u200f".encode(),
    "invisible": "a\u200b\u2060\ufeffb\u00adc".encode(),
    "newlines": b"one\ntwo\r\nthree\x0b\x0c\x00end",
    "not utf-8": b"\xff\xfe\xc0\x80\xed\xa0\x80\xf5\x80\x80\x80",
    "cut utf-8": b"caf\xc3",
    "combining": ("e" + "\u0301" * 500).encode(),
    "wide": "\u6f22\u5b57".encode() * 60,
    "long symbol": b"T" * MIB,
    "long path": b"/very" * 200000 + b"/train.py",
    "backslashes": b"\\x1b[31m\\n\\u202e",
    "format": b"%s%n%08x{0}$(id)`id`",
    "html": b"</script><script>alert(1)</script>",
    "json": b'","x":{"y":"\\',
    "empty": b"",
}


def op_text(raw):
    return b"X" + len(raw).to_bytes(4, "little") + raw


def op_int(n):
    return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)


def op_value(v, memo=None):
    """Like pickle.dumps, but text may be bytes that are not UTF-8.  With a memo, long text is written once, as pickle does."""
    if isinstance(v, str):
        v = v.encode()
    if isinstance(v, bytes):
        if memo is None or len(v) < LONG:
            return op_text(v)
        if v in memo:
            return b"j" + memo[v].to_bytes(4, "little")
        memo[v] = len(memo)
        return op_text(v) + b"r" + memo[v].to_bytes(4, "little")
    if isinstance(v, int):
        return op_int(v)
    if isinstance(v, dict):
        return b"}(" + b"".join(op_value(k, memo) + op_value(x, memo) for k, x in v.items()) + b"u"
    return b"](" + b"".join(op_value(x, memo) for x in v) + b"e"


def recording(name, key=None):
    """A leak, then a death, with the name in every place that a recording has for one, and as keys."""
    key = name if key is None else key
    stack = [{"name": name, "filename": name, "line": 3}, {"name": b"main", "filename": name + b"/x.py", "line": 9}]
    events, at = [], 0

    def add(action, addr, size, **more):
        events.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 10 * len(events),
                       "frames": stack, **more})

    add("segment_alloc", A, 64 * MIB)
    for _ in range(20):
        add("alloc", A + at, 2 * MIB)
        at += 2 * MIB
        add("alloc", A + at, MIB)
        add("free_requested", A + at, MIB)
        add("free_completed", A + at, MIB)
    add(key + b"_action", A, 1)
    events.append({"action": "oom", "device_free": MIB, "size": 200 * MIB, "stream": 0, "time_us": 10**4,
                   "frames": stack, key + b"key": 1})
    value = {"segments": [], "device_traces": [events],
             "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": key, "max_split_size": -1},
             "external_annotations": [{"stage": "START", "name": name, "device": 0, "time_us": 5}],
             key + b"top": 1}
    return b"\x80\x02" + op_value(value, {}) + b"."


def columns(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def run(*args, **more):
    return lib.run(*args, stdin=b"", codes=lib.ANY, text=False, env={"LC_ALL": "C.UTF-8", "TERM": "xterm", **more})


def check_text(raw, width, wide_ok=False):
    text = raw.decode("utf-8")  # raises when it is not
    harm = sorted({ord(c) for c in text} & UNSAFE)
    assert not harm, "holds " + " ".join(f"U+{c:04X}" for c in harm)
    for line in text.split("\n"):
        assert wide_ok or columns(line) <= width, f"{columns(line)} columns: {line[:100]}"


def check_diff(folder, name):
    """A program under hostile names next to an ordinary one, next to itself moved, and next to itself without its end."""
    a, b = (os.path.join(folder, x) for x in ("a.pickle", "b.pickle"))
    with open(a, "wb") as f:
        f.write(recording(name))
    for other in (b"main", b"/elsewhere/" + name, name + name[:99]):
        with open(b, "wb") as f:
            f.write(recording(other))
        for pair in ((a, b), (b, a)):
            done = run("diff", *pair, "--group-by", "stack")
            assert done.returncode == 0, (done.returncode, done.stderr[:300])
            # a word that cannot be broken stays whole
            check_text(done.stdout, 80, wide_ok=len(name) > 30)
            done = run("diff", *pair, "--json")
            assert json.loads(done.stdout.decode("utf-8"))["schema"] == "diff/2"
    os.unlink(a)
    os.unlink(b)


def check_page(folder, path, name, skeleton=[]):
    """Whatever the names are, the page around the sections is the same; in them they are data, and not endless."""
    for file in (path, os.path.join(folder, "<script>alert(1)<", "script>.pickle")):
        os.makedirs(os.path.dirname(file), exist_ok=True)
        if file != path:
            os.link(path, file)
        out = os.path.join(folder, "out.html")
        done = run("report", file, "-o", out)
        assert done.returncode == 0, done.stderr[:300]
        check_text(done.stderr, 0, wide_ok=True)
        with open(out, "rb") as f:
            raw = f.read()
        parts, rest = page_reader.read(raw.decode("utf-8"))
        skeleton.append(rest)
        assert rest == skeleton[0], "a name is in the page as it is"
        strings, shown = parts[0].head["strings"], name.split(b"\0")[0]
        assert max(map(len, strings)) < 5000, max(map(len, strings))
        try:
            text = shown.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        cut = f"... ({len(shown)} bytes)"
        assert text is None or (text in strings if len(shown) <= 4096 else
                                any(s == text[:4096] + cut for s in strings)), "the name is not in the page"
        os.unlink(out)
        if file != path:
            os.unlink(file)


def check_name(folder, name):
    path = os.path.join(folder, "hostile.pickle")
    with open(path, "wb") as f:
        f.write(recording(name))
    for width in (80, 200):
        done = run("report", path, "--width", str(width))
        assert done.returncode == 0, (done.returncode, done.stderr[:300])
        check_text(done.stdout, width)
        check_text(done.stderr, 0, wide_ok=True)
    done = run("report", path, LC_ALL="C")
    check_text(done.stdout, 80)
    check_page(folder, path, name)
    for args in (["--json"], ["--json", "--owners", "0", "--group-by", "stack"]):
        done = run("report", path, *args)
        assert done.returncode == 0, (done.returncode, done.stderr[:300])
        assert json.loads(done.stdout.decode("utf-8"))["schema"] == "report/2"
    with open(path, "wb") as f:
        f.write(recording(b"/home/me/" + name, b""))
    for args in (["--json"], []):
        done = run("report", path, "--redact", *args)
        assert done.returncode == 0 and (len(name) < 6 or name not in done.stdout), "not redacted"
    check_diff(folder, name)
    out = os.path.join(folder, "again.pickle")
    done = run("report", path, "--output", out)
    assert done.returncode == 0, done.stderr[:300]
    os.unlink(out)
    # The same name where a message shows it.
    if b"\0" not in name and len(name) < 200:
        for args in (["report", name], ["report", path, "--log", name], ["report", path, b"--at=" + name]):
            done = run(*args)
            check_text(done.stderr, 0, wide_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x80\x02c" + name.replace(b"\n", b" ")[:1000] + b"\nx\n)R.")
    done = run("report", path)
    assert done.returncode == 3, done.returncode
    check_text(done.stderr, 0, wide_ok=True)
    os.unlink(path)


def check_bombs(folder):
    """Memory stays near the limit; measured over all children, so the bombs come first."""
    for name in bad_inputs.INPUTS:
        if not name.startswith("bomb_"):
            continue
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(bad_inputs.INPUTS[name]())
        done = run("report", path, "--max-memory", "32MiB")
        os.unlink(path)
        assert done.returncode in (3, 4), (name, done.returncode, done.stderr[:200])
        assert not done.stdout and done.stderr.count(b"\n") == 1, (name, done.stderr[:300])
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        assert SANITISED or peak < 64, f"{name}: {peak} MiB with --max-memory 32MiB"


def check_bomb_speed(folder):
    for name in ("dag_bomb", "deep_lists", "memo_put_bomb", "huge_string", "huge_string8", "json_deep", "long_line"):
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(bad_inputs.INPUTS[name]())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = run("report", path)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert done.returncode == 3, (name, done.returncode)
        assert took < 20, f"{name} took {took:.1f} s of processor time"


def check_shrinking(folder):
    """The file is cut while it is read, again and again: an error or a report, never a signal."""
    path = os.path.join(folder, "shrinks")
    events = b"".join(op_value(bad_inputs.event(addr=A + 512 * i)) for i in range(20000))
    data = b"\x80\x02}(" + op_text(b"segments") + b"]" + op_text(b"device_traces") + b"](](" + events + b"eeu."
    stop = threading.Event()

    def cut():
        while not stop.is_set():
            with open(path, "r+b") as f:
                f.truncate(len(data) // 2)
                f.truncate(len(data))
                f.seek(0)
                f.write(data)

    with open(path, "wb") as f:
        f.write(data)
    assert run("report", path).returncode == 0
    thread = threading.Thread(target=cut)
    thread.start()
    try:
        for _ in range(25):
            done = run("report", path)
            assert done.returncode in (0, 3), (done.returncode, done.stderr[:200])
            check_text(done.stderr, 0, wide_ok=True)
    finally:
        stop.set()
        thread.join()


def check_unreadable(folder):
    path = os.path.join(folder, "closed")
    with open(path, "wb") as f:
        f.write(bad_inputs.good())
    os.chmod(path, 0)
    done = run("report", path)
    os.chmod(path, 0o600)
    assert done.returncode == (0 if os.geteuid() == 0 else 3), done.returncode


def main():
    checks = [("bombs", check_bombs), ("bomb speed", check_bomb_speed), ("shrinking file", check_shrinking),
              ("unreadable file", check_unreadable)]
    checks += [(f"name: {n}", lambda folder, raw=raw: check_name(folder, raw)) for n, raw in NAMES.items()]
    failed = 0
    print(f"1..{len(checks)}")
    for number, (what, check) in enumerate(checks, 1):
        try:
            with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
                check(folder)
            print(f"ok {number} {what}")
        except (AssertionError, UnicodeDecodeError, ValueError, subprocess.TimeoutExpired) as e:
            failed += 1
            print(f"not ok {number} {what}")
            print("# " + str(e)[:500].encode("ascii", "backslashreplace").decode().replace("\n", "\n# "))
        sys.stdout.flush()
    return 1 if failed else 0


sys.exit(main())
