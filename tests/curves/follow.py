#!/usr/bin/env python3
"""follow.py PLIMSOLL: `curves --follow` next to a log that grows: it says what it finds once, acts on what --fail-on names, and reads
nothing but what was appended.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import lib  # noqa: E402

WAIT_S = 120  # for what must come: a machine under load is slow


def wait_for(what, condition, process):
    for _ in range(WAIT_S * 20):
        if condition():
            return True
        if process.poll() is not None:
            break
        time.sleep(0.05)
    return lib.expect(condition(), what, "did not come", process.poll())


def rows(first, last, loss="2.5"):
    return "".join(f'{{"step": {i}, "loss": {loss}, "filler": "{"x" * 200}"}}\n' for i in range(first, last))


def read_bytes(process):
    """All that it has read, of files and of the kernel's."""
    with open(f"/proc/{process.pid}/io", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("rchar")).split()[1])


def follow(folder, *more):
    said = open(folder / "said", "wb")
    return subprocess.Popen([lib.program, "curves", "run.jsonl", "--follow", "--interval", "1", *more], cwd=folder, stdout=said,
                            stderr=subprocess.STDOUT)


def acts(folder):
    """Healthy rows, a pause, the NaN in two pieces; then a stop file, a command, and exit code 1."""
    log = folder / "run.jsonl"
    log.write_text(rows(1, 4000))
    process = follow(folder, "--fail-on", "nan", "--stop-file", "STOP", "-o", "page.html", "--run",
                     'echo "$PLIMSOLL_ID $PLIMSOLL_STEP $PLIMSOLL_RUN" >>ran; echo "$PLIMSOLL_TITLE" >>ran')
    wait_for("the first page", (folder / "page.html").exists, process)
    first = (folder / "page.html").stat().st_mtime_ns
    if os.path.exists(f"/proc/{process.pid}/io"):
        before = read_bytes(process)
        time.sleep(2.5)
        lib.expect(read_bytes(process) - before < 20000, "a log that does not grow is read", read_bytes(process) - before)
    lib.expect((folder / "page.html").stat().st_mtime_ns == first, "a page is written though nothing changed")
    with log.open("a") as f:
        f.write(rows(4000, 4010))
    wait_for("a page of the longer log", lambda: (folder / "page.html").stat().st_mtime_ns != first, process)
    lib.expect(not (folder / "STOP").exists() and process.poll() is None, "it acts before anything is wrong")
    whole = rows(4010, 4011, "NaN")
    with log.open("a") as f:
        f.write(whole[:40])
        f.flush()
        time.sleep(1.5)
        lib.expect(not (folder / "STOP").exists(), "half a line is taken for a row")
        f.write(whole[40:])
    lib.expect(process.wait(WAIT_S) == 1, "exit code", process.returncode)
    lib.expect((folder / "STOP").exists(), "no stop file")
    ran = (folder / "ran").read_text().splitlines()
    lib.expect(ran == ["nan 4010 run.jsonl", "'loss' is NaN at step 4,010, and stays so"], "the command", ran)
    said = (folder / "said").read_text()
    lib.expect(said.count("  error  nan  'loss' is NaN at step 4,010") == 1, "said once", said)


def goes_on(folder):
    """Without --fail-on it goes on; --for ends it; a log that is not there yet, and one that is written anew."""
    log = folder / "run.jsonl"
    log.write_text("")
    process = follow(folder, "--for", "15")
    time.sleep(1.5)
    log.write_text(rows(1, 50) + rows(50, 60, "NaN"))
    wait_for("the NaN", lambda: "nan" in (folder / "said").read_text(), process)
    log.write_text(rows(1, 30))
    lib.expect(process.wait(WAIT_S) == 0, "exit code", process.returncode, (folder / "said").read_text())


def waits(folder):
    """A rise that may still come back does not stop the job; one that has lasted does, and is said again."""
    def losses(first, last):
        return "".join(f'{{"step": {i}, "loss": {(1.9 - 0.008 * i if i <= 100 else 1.5) + 0.001 * (i % 3)}}}\n' for i in range(first, last))

    log = folder / "run.jsonl"
    log.write_text(losses(1, 130))
    process = follow(folder, "--fail-on", "diverged", "--stop-file", "STOP")
    wait_for("the warning", lambda: "warning  diverged" in (folder / "said").read_text(), process)
    time.sleep(1.5)
    lib.expect(not (folder / "STOP").exists() and process.poll() is None, "it stops by a warning")
    with log.open("a") as f:
        f.write(losses(130, 400))
    lib.expect(process.wait(WAIT_S) == 1 and (folder / "STOP").exists(), "no stop", process.returncode)
    lib.expect("error  diverged" in (folder / "said").read_text(), "the error is not said")


def refuses(folder):
    """A command that fails, and a stop file that cannot be made, are errors of their own."""
    (folder / "run.jsonl").write_text(rows(1, 9, "NaN"))
    lib.run("curves", folder / "run.jsonl", "--fail-on", "nan", "--run", "exit 3", codes=(3,))
    lib.run("curves", folder / "run.jsonl", "--fail-on", "nan", "--stop-file", folder / "no" / "such", codes=(3,))
    lib.run("curves", folder / "run.jsonl", "--fail-on", "nan", codes=(1,))
    lib.run("curves", folder / "run.jsonl", "--fail-on", "overfit")


def main():
    lib.start(sys.argv[1])
    for test in (acts, goes_on, waits, refuses):
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    lib.finish("curves --follow: acts, goes on, waits, refuses", least=4)


if __name__ == "__main__":
    main()
