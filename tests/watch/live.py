#!/usr/bin/env python3
"""live.py PLIMSOLL FAKE_NVML: watch next to jobs that run, a driver that is made up and can hang, trees of made GPUs.

Nothing here is timed: each test waits for what it wants to see, and gives up after LIMIT_S.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import expect, finish, jobs, run, start  # noqa: E402

LIMIT_S = float(os.environ.get("PLIMSOLL_TEST_LIMIT_S", 180))
BUSY = "import time\nwhile True: sum(range(10000)); time.sleep(0.001)\n"
WAITS = "import os, sys, time\nwith open(sys.argv[1] + '.pid', 'w') as f: print(os.getpid(), file=f)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\nsys.exit(int(sys.argv[2]))\n"
PAGE = f"""import os, signal, sys, time
sys.path.insert(0, {os.path.join(HERE, "..", "..", "python", "plimsoll")!r})
import _gauge_page
page = _gauge_page.Page(run="made", records={{records}})
{{more}}
while True: time.sleep(0.02)
"""


def until(what, holds):
    """Wait for holds() to be something."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError(f"waited {LIMIT_S} s for {what}")


class Job:
    """A process that is ended with the test."""

    def __init__(self, *argv, **more):
        self.process = subprocess.Popen(argv, **more)  # pylint: disable=consider-using-with
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in self.process.stdout, self.process.stderr:
            if stream:
                stream.close()


def python(code, *arguments, **more):
    return Job(sys.executable, "-c", code, *map(str, arguments), **more)


def watching(program, fake, said, *arguments, **more):
    env = dict(os.environ, FAKE_NVML=" " + said, **more.pop("env", {}))
    return Job(program, "watch", "--nvml", fake, *map(str, arguments), env=env, stdin=subprocess.DEVNULL, **more)


def lines_of(watch, what, holds):
    """Read JSON lines until one holds."""
    for line in watch.process.stdout:
        found = json.loads(line)
        if holds(found):
            return found
    raise EOFError(f"it ended before {what}")


# ---- a driver that hangs ----

def hanging(program, fake, scratch):
    gate = os.path.join(scratch, "gate")
    with open(gate, "w", encoding="ascii"):
        pass
    with python(BUSY) as job:
        said = f"pid={job.pid} hang_memory={gate}"
        with watching(program, fake, said, job.pid, "--json", stdout=subprocess.PIPE) as watch:
            seen = lines_of(watch, "the driver was silent", lambda w: (w["driver_silent_seconds"] or 0) > 2)
            expect(seen["jobs"] and seen["jobs"][0]["now"]["gpu_used_bytes"] is None, "numbers of a silent driver", seen["jobs"])
            expect(any("has not answered" in n for n in seen["notes"]), "no word of the silent driver", seen["notes"])
            seen = lines_of(watch, "the host was seen", lambda w: w["jobs"][0]["now"]["main_cores"] is not None)
            os.unlink(gate)
            seen = lines_of(watch, "the driver came back", lambda w: w["driver_silent_seconds"] is None and w["cards"])
            seen = lines_of(watch, "its numbers came back", lambda w: w["jobs"] and w["jobs"][0]["now"]["gpu_used_bytes"])
            with open(gate, "w", encoding="ascii"):
                pass
            lines_of(watch, "it was silent again", lambda w: w["driver_silent_seconds"] is not None)
            watch.process.send_signal(signal.SIGINT)
            expect(watch.process.wait(LIMIT_S) == 0, "it does not end beside a driver that hangs")


def hanging_start(program, fake, scratch):
    """A driver that does not even start delays neither the host's picture nor the end."""
    gate = os.path.join(scratch, "start")
    with open(gate, "w", encoding="ascii"):
        pass
    with python(BUSY) as job, watching(program, fake, f"pid={job.pid} hang_init={gate}", job.pid, "--json", stdout=subprocess.PIPE) as watch:
        seen = lines_of(watch, "the host was seen", lambda w: w["jobs"] and w["jobs"][0]["now"]["main_cores"] is not None)
        expect(not seen["cards"] and seen["notes"], "cards of a driver that does not start", seen["cards"])
        watch.process.send_signal(signal.SIGTERM)
        expect(watch.process.wait(LIMIT_S) == 0, "it does not end beside a driver that does not start")


# ---- workers ----

FORKSERVER = """import os, time
def named(name):
    with open("/proc/self/comm", "w") as f: f.write(name)
if not os.fork():
    named("forkserver")
    for i in range(3):
        if not os.fork():
            named("pt_data_worker" if i else "something")
            break
elif not os.fork():
    named("pt_data_worker")
while True: time.sleep(0.1)
"""


def workers(program, fake, _):
    """A worker is a child of the job's, or of a process that it starts them with (Python's forkserver), and called so."""
    with python(FORKSERVER, start_new_session=True) as job:
        try:
            with watching(program, fake, f"pid={job.pid}", job.pid, "--json", stdout=subprocess.PIPE) as watch:
                lines_of(watch, "three workers", lambda w: w["jobs"] and w["jobs"][0]["now"]["worker_count"] == 3)
        finally:
            os.killpg(job.pid, signal.SIGKILL)


# ---- what happens ----

def errors(program, fake, _):
    with python(BUSY) as job, watching(program, fake, f"pid={job.pid} xid=79", "--json", stdout=subprocess.PIPE) as watch:
        def xids(w):
            return [a for a in w["alerts"] if a["event"] == "xid"]

        seen = lines_of(watch, "an Xid", xids)
        alert = xids(seen)[0]
        expect("79" in alert["title"] and seen["cards"][0]["xid"] == 79, "Xid", alert, seen["cards"])
        expect(alert["fresh"] and alert["pid"] is None, "an alert of a card", alert)
        alert = xids(lines_of(watch, "the next sample", xids))[0]
        expect(not alert["fresh"], "an alert is told once", alert)


def told_by_command(program, fake, scratch):
    """What --on names runs --do: a lost GPU, a driver that does not answer, a job that is through."""
    gate = os.path.join(scratch, "silent")
    with open(gate, "w", encoding="ascii"):
        pass
    with python(BUSY) as job:
        for event, said in ("card-lost", "code_memory=15"), ("driver-silent", f"hang_memory={gate}"), ("ended", ""):
            told = os.path.join(scratch, event)
            do = f'printf "%s %s\\n" "$PLIM_EVENT" "$PLIM_TEXT" >> "{told}"'
            with watching(program, fake, f"pid={job.pid} {said}", job.pid, "--json", "--on", event, "--do", do, stdout=subprocess.PIPE) as watch:
                lines_of(watch, "the job", lambda w: w["jobs"] and w["jobs"][0]["now"]["main_cores"] is not None)
                if event == "ended":
                    job.process.kill()
                    job.process.wait()
                    for _ in watch.process.stdout:  # to its end
                        pass
                text = until(event, lambda: text_of(told).endswith("\n") and text_of(told))
                expect(text.startswith(event + " ") and text.count("\n") == 1, event, text)


def commands(_, __, scratch):
    def code(*command, codes):
        return run("watch", "--no-gpu", "--", *command, codes=codes)

    expect(code("sh", "-c", "echo one; exit 7", codes=(7,)).stdout == "one\n", "the command's own output")
    code("sh", "-c", "kill -TERM $$", codes=(128 + signal.SIGTERM,))
    code(os.path.join(HERE, "nothing"), codes=(127,))
    expect("is not a process" in run("watch", "1x", codes=(2,)).stderr, "no process")
    run("watch", "--", codes=(2,))
    run("watch", "--on", "creep", codes=(2,))
    expect("idle-long (or idle)" in run("watch", "--on", "nonsense", "--do", "true", codes=(2,)).stderr, "what --on knows")
    run("watch", "--on", "idle,stalled,throttled,late-rank", "--do", "true", "--no-gpu", "--once")  # by the states' names, too
    run("watch", "--json", "--", "true", codes=(2,))
    said = run("watch", "--no-gpu", "--", "sh", "-c", "sleep 1; exit 7", codes=(7,)).stderr
    expect("] ended with exit code 7" in said or "what started it ended with exit code 7" in said, "an end", said)
    script = os.path.join(scratch, "fit_it.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write("import time\ntime.sleep(3)\n")
    said = code(sys.executable, script, codes=(0,)).stderr
    expect(re.search(r"^\S+  ended: fit_it\.py \[\d+\]", said, re.M), "whose end it is", said)


SAME_PLACE = """import os, time
def rest(): time.sleep(3600)
kept = [os.fork()]
if not kept[0]: rest()
while len(kept) < 3:
    child = os.fork()
    if not child: rest()
    if child % 64 == kept[0] % 64: kept.append(child)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
print(*kept, flush=True)
rest()
"""


def same_place(program, fake, _):
    """Processes whose numbers are the same except for multiples of 64: what is kept of one is not lost to the other."""
    with python(SAME_PLACE, stdout=subprocess.PIPE, start_new_session=True) as job:
        try:
            pids = job.process.stdout.readline().split()
            with watching(program, fake, f"pid={','.join(map(bytes.decode, pids))}", job.pid, "--json", stdout=subprocess.PIPE) as watch:
                def all_seen(w):
                    return denied(w) or len(w["jobs"]) == 3 and all(sum(p["looks"] for p in j["places"]) >= 8 for j in w["jobs"])

                def denied(w):
                    return any(n.startswith("Python stacks") for n in w["notes"])

                seen = lines_of(watch, "all stacks", all_seen)
                expect(denied(seen) or {p["function"] for j in seen["jobs"] for p in j["places"]} == {"rest"}, "three of one place", seen["jobs"])
        finally:
            os.killpg(job.pid, signal.SIGKILL)


def text_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def deaths(program, fake, scratch):
    """A command that fails behind a shell: the alert says so, and what it says is data, not a line of the shell's."""
    died(program, fake, scratch, "$(touch pwned);train.py")
    with tempfile.TemporaryDirectory() as beside:
        died(program, fake, beside, "job-", "--redact")


def died(program, fake, scratch, name, *how):
    gate, log, told = (os.path.join(scratch, name) for name in ("go", "samples.jsonl", "told"))
    script = os.path.join(scratch, "$(touch pwned);train.py")
    with open(script, "w", encoding="utf-8") as f:
        f.write(WAITS)
    do = f'printf "%s %s %s\\n" "$PLIM_EVENT" "$PLIM_PID" "$PLIM_TEXT" >> "{told}"'
    with watching(program, fake, "", "--log", log, "--on", "died,ended", "--do", do, *how, "--", "/bin/sh", "-c",
                  '"$0" "$@"; exit $?', sys.executable, script, gate, 3, stderr=subprocess.PIPE, cwd=scratch) as watch:
        pid = int(until("the job", lambda: text_of(gate + ".pid").strip()))
        # its name is looked at every two seconds: before, it may be that of the shell it was forked from
        until("samples of it", lambda: text_of(log).count(f'"tree":[{{"pid":{pid},') >= 4)
        with open(gate, "w", encoding="ascii"):
            pass
        said = watch.process.communicate(timeout=LIMIT_S)[1].decode()
        expect(watch.process.returncode == 3, "exit code", watch.process.returncode, said)
    with open(told, encoding="utf-8") as f:
        lines = f.read().splitlines()
    expect(len(lines) == 1 and re.match(r"died \d+ .*exit code 3", lines[0]) and name in lines[0], "what --do was told", lines)
    expect(("train" in said + lines[0]) != bool(how), "redacted", how, said, lines)
    expect(not os.path.exists(os.path.join(scratch, "pwned")), "a name was run as a command")


# ---- HTTP ----

def ask(port, request):
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as s:
        s.sendall(request)
        answer = b""
        while True:
            more = s.recv(65536)
            if not more:
                return answer.decode()
            answer += more


def get(port, path, *headers, host=None):
    lines = [f"GET {path} HTTP/1.1", f"Host: {host or f'127.0.0.1:{port}'}", *headers]
    return ask(port, ("\r\n".join(lines) + "\r\n\r\n").encode())


def port_of(watch):
    for line in watch.process.stderr:
        found = re.search(r"live page at http://127\.0\.0\.1:(\d+)/", line.decode())
        if found:
            return int(found[1])
    raise EOFError("it did not say where it listens")


def families(text):
    """OpenMetrics by prometheus_client's strict parser, where there is one; else its lines alone."""
    try:
        from prometheus_client.openmetrics import parser
    except ImportError:
        expect(text.endswith("# EOF\n"), "no end of the metrics")
        for line in text.splitlines():
            expect(line.startswith("# ") or re.fullmatch(r'plimsoll_\w+(\{(\w+="([^"\\\n]|\\.)*",?)*\})? \S+', line), "a line", line)
        return {line.split("{")[0].split(" ")[0]: line for line in text.splitlines() if not line.startswith("#")}
    return {sample.name: sample for family in parser.text_string_to_metric_families(text) for sample in family.samples}


def served(program, fake, scratch):
    odd = os.path.join(scratch, 'tr"ai\\n\n.py')
    with open(odd, "w", encoding="utf-8") as f:
        f.write(BUSY)
    with Job(sys.executable, odd) as job, watching(program, fake, f"pid={job.pid} cards=2", "--listen", "0", stderr=subprocess.PIPE,
                                                   stdout=subprocess.DEVNULL) as watch:
        port = port_of(watch)
        until("the job", lambda: f'pid="{job.pid}"' in get(port, "/metrics"))
        head, _, text = get(port, "/metrics").partition("\r\n\r\n")
        expect("200 OK" in head and "application/openmetrics-text; version=1.0.0" in head, "metrics", head)
        found = families(text)
        for name in ("plimsoll_build_info", "plimsoll_gpu_memory_used_bytes", "plimsoll_job_gpu_memory_bytes", "plimsoll_job_verdict",
                     "plimsoll_alerts", "plimsoll_watch_cpu_seconds_total"):
            expect(name in found, "a metric is missing", name, sorted(found))
        expect(re.search(r'^plimsoll_job_info\{.*,gpu="0"\} 1$', text, re.M), "a job is joined to its card", text)
        expect(not re.search(r"\.\d{17}", text), "digits that nobody measured", text)
        head, _, page = get(port, "/").partition("\r\n\r\n")
        expect("default-src 'none'" in head and "sha256-" in head and page.startswith("<!doctype html>"), "the page", head)
        expect("Access-Control" not in head, "CORS", head)
        seen = json.loads(get(port, "/watch.json").partition("\r\n\r\n")[2])
        expect(seen["schema"] == "watch/1" and len(seen["cards"]) == 2, "watch.json", seen["cards"])
        expect("200 OK" in get(port, "/healthz"), "health")
        for status, answer in (("421", get(port, "/metrics", host="evil.example")), ("404", get(port, "/etc/passwd")),
                               ("405", ask(port, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n")), ("400", ask(port, b"GET /\r\n\r\n")),
                               ("400", ask(port, b"GET /\0 HTTP/1.1\r\n\r\n")), ("421", ask(port, b"GET / HTTP/1.0\r\n\r\n")),
                               ("431", ask(port, b"GET / HTTP/1.1\r\nX: " + b"y" * 17000))):
            expect(answer.startswith(f"HTTP/1.1 {status} "), status, answer[:200])
        head, _, nothing = ask(port, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").partition("\r\n\r\n")
        expect("200 OK" in head and not nothing, "HEAD", head, nothing)
        # Who says nothing holds up no one.
        with socket.create_connection(("127.0.0.1", port)):
            expect("200 OK" in get(port, "/healthz"), "beside a client that is silent")
        watch.process.send_signal(signal.SIGINT)
        expect(watch.process.wait(LIMIT_S) == 0, "its end")


class Events:
    """One who follows /events."""

    def __init__(self, port, *headers):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self.socket.sendall("\r\n".join(["GET /events HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", ""]).encode())
        self.rest = b""
        self.head = self.until(b"\r\n\r\n").decode()

    def until(self, end):
        while end not in self.rest:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError(self.rest)
            self.rest += more
        found, _, self.rest = self.rest.partition(end)
        return found

    def next(self):
        """(number, what is known), behind beats of the heart and the like."""
        while True:
            lines = dict(line.partition(": ")[::2] for line in self.until(b"\n\n").decode().split("\n"))
            if "data" in lines:
                return int(lines["id"]), json.loads(lines["data"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def followed(program, fake, _):
    with python(BUSY) as job, watching(program, fake, f"pid={job.pid}", "--listen", 0, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as watch:
        port = port_of(watch)
        with Events(port) as first:
            expect("200 OK" in first.head and "text/event-stream" in first.head and "Content-Length" not in first.head, "a stream", first.head)
            seen = [first.next() for _ in range(3)]
            expect(seen[0][0] < seen[1][0] < seen[2][0] and all(w["schema"] == "watch/1" for _, w in seen), "events", [n for n, _ in seen])
            with Events(port, f"Last-Event-ID: {seen[0][0]}") as again:
                missed = [again.next() for _ in range(2)]
                expect(missed == seen[1:], "what was missed comes again", [n for n, _ in missed], [n for n, _ in seen])
            with Events(port, f"Last-Event-ID: {seen[2][0] + 10 ** 12}") as ahead, Events(port, "Last-Event-ID: x") as odd:
                expect(ahead.next()[0] >= seen[2][0] and odd.next()[0] >= seen[2][0], "numbers that never were")
                with Events(port), Events(port) as fifth:
                    expect(" 503 " in fifth.head, "there is room for others", fifth.head)
                    expect("200 OK" in get(port, "/metrics"), "metrics beside those who follow")
            expect(first.next()[0] > seen[2][0], "it goes on")
        expect("421" in get(port, "/events", host="evil.example"), "events for another site")
        head, _, body = ask(port, b"HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n").partition("\r\n\r\n")
        expect("200 OK" in head and not body, "HEAD", head, body)


def with_token(program, fake, scratch):
    path, metrics = os.path.join(scratch, "token"), os.path.join(scratch, "plimsoll.prom")
    with open(path, "w", encoding="ascii") as f:
        f.write("0123456789abcdef\n")
    with watching(program, fake, "", "--listen", "127.0.0.1:0", "--token-file", path, "--textfile", metrics, stderr=subprocess.PIPE,
                  stdout=subprocess.DEVNULL) as watch:
        port = port_of(watch)
        expect("200 OK" in get(port, "/"), "the page needs no token: it holds nothing")
        for header in (), ("Authorization: Bearer 0123456789abcdeg",), ("Authorization: Bearer 0123456789abcde",):
            for what in "/metrics", "/watch.json", "/events":
                expect("401" in get(port, what, *header).split("\r\n")[0], "without the token", what, header)
        expect("200 OK" in get(port, "/metrics", "authorization: Bearer 0123456789abcdef"), "with the token")
        until("the cards in the textfile", lambda: "\nplimsoll_gpu_memory_total_bytes{" in text_of(metrics))
        text = text_of(metrics)
        expect(" info\n" not in text and "# EOF" not in text, "the textfile", text)
    with open(path, "w", encoding="ascii") as f:
        f.write("short\n")
    run("watch", "--listen", "0", "--token-file", path, "--no-gpu", codes=(2,))
    run("watch", "--listen", "0x", "--no-gpu", codes=(2,))
    run("watch", "--listen", "example.com:1", "--no-gpu", codes=(2,))


# ---- the screen ----

CONTROLS = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"


class Screen:
    """watch on a terminal of its own."""

    def __init__(self, program, fake, said, *arguments, term="xterm", size=(24, 80)):
        self.fd, terminal = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        env = dict(os.environ, FAKE_NVML=" " + said, TERM=term, LC_ALL="C.UTF-8", NO_COLOR="1")
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-c", CONTROLS, program, "watch", "--nvml", fake, *map(str, arguments)], env=env, stdin=terminal,
            stdout=terminal, stderr=terminal, start_new_session=True)
        os.close(terminal)
        self.size, self.said, self.mark = size, "", 0

    def read(self):
        ready = select.select([self.fd], [], [], 0.05)[0]
        try:
            self.said += os.read(self.fd, 65536).decode("utf-8", "replace") if ready else ""
        except OSError:  # no one has the other end any more
            self.process.wait()

    def shown(self):
        """What stands on the screen: lines are put where they belong, whole."""
        rows = {}
        for part in self.said.split("\x1b[2J")[-1].split("\x1b[")[1:]:
            place = re.match(r"(\d+);1H(.*)", part, re.S)
            if place:
                rows[int(place[1])] = place[2]
        return "\n".join(rows.get(i, "") for i in range(1, self.size[0] + 1))

    def wait(self, *words):
        """Until one of them is shown, or was since a key was pressed."""
        def there():
            self.read()
            return any(w in self.said[self.mark:] or w in self.shown() for w in words)
        try:
            until(words, there)
        except TimeoutError:
            expect(False, "the screen never said", words, self.shown())
        return self.shown()

    def press(self, keys):
        self.mark = len(self.said)
        os.write(self.fd, keys.encode())

    def end(self):
        def gone():
            self.read()
            return self.process.poll() is not None
        until("its end", gone)
        self.read()
        os.close(self.fd)
        return self.process.returncode


def screens(program, fake, size):
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid} cards=3", size=size)
        shown = screen.wait(f"{job.pid} ")
        screen.wait("q quit")
        for line in shown.split("\n"):
            expect(len(line) <= size[1], size, "a line is too long", line)
        screen.press("d")
        if size[0] > 20:
            screen.wait("sleeps in")
        screen.press("?")
        screen.wait("this page")
        # What was stopped came back with its first page, and no job chosen.
        mark = screen.mark = len(screen.said)
        screen.process.send_signal(signal.SIGTSTP)
        until("the terminal back", lambda: screen.read() or "\x1b[?1049l" in screen.said[mark:])
        until("the stop", lambda: ") T " in text_of(f"/proc/{screen.process.pid}/stat"))
        screen.mark = len(screen.said)
        screen.process.send_signal(signal.SIGCONT)
        screen.wait("this page")
        screen.press("?")
        screen.wait("GPU 0")
        screen.press("T")
        screen.wait("y: yes")
        screen.press("n")
        screen.press("\x1b[B\x1b[A\x1bOBse\x1b[6~")
        screen.wait("watched for")
        screen.press("q")
        expect(screen.end() == 0, size, "its end")
        expect("\x1b[?1049h" in screen.said and screen.said.rindex("\x1b[?1049l") > screen.said.rindex("\x1b[?1049h"), size,
               "the terminal was not given back")
        expect(job.process.poll() is None, "a job was ended by an answer that was no")


def behind_a_hanging_driver(program, fake, scratch):
    """The picture of the host, and `q`, while the driver does not even start."""
    gate = os.path.join(scratch, "screen")
    with open(gate, "w", encoding="ascii"):
        pass
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid} hang_init={gate}", job.pid)
        expect("main thread" in screen.wait("main thread"), "the host's half")
        screen.press("q")
        expect(screen.end() == 0, "its end behind a driver that does not start")


def eight_cards(program, fake, size):
    """Each GPU with what it does and holds, in a third of the screen; one that is lost, too."""
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid} cards=8 use@5=7 code_memory@6=15", size=size)
        screen.wait(f"{job.pid} ")
        shown = screen.wait("bus")
        lines = [line for line in shown.split("\n") if re.search(r"57/80|56\.8 of|bus$|bus  ", line)]
        expect(1 <= len(lines) <= size[0] / 3, size, "lines of cards", shown)
        text = "\n".join(lines)
        for card in range(8):
            said = re.search(rf"(^|  +)(GPU )?{card}  +(busy )?( *\d+ %  ?SM|has fallen|fell)", text, re.M)
            expect(said, size, "card", card, "in", shown)
        expect(text.count("57/80") + text.count("56.8 of 79.6") == 7, size, "what they hold", shown)
        expect("NVIDIA H100" in shown.split("\n")[0], size, "their name", shown)
        screen.press("q")
        expect(screen.end() == 0, size, "its end")


def ended_by_key(program, fake, _):
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid}", job.pid)
        screen.wait("q quit")
        screen.wait(f"{job.pid} ")
        screen.press("T")
        screen.wait("y: yes")
        screen.press("y")
        expect(job.process.wait(LIMIT_S) == -signal.SIGTERM, "the job was not ended")
        expect(screen.end() == 0, "its end with the job's")


def dumb(program, fake, _):
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid}", job.pid, "--for", 3, term="dumb")
        expect(screen.end() == 0 and "\x1b" not in screen.said and "watched for" in screen.said, "a dumb terminal", screen.said)


def small(program, fake, _):
    with python(BUSY) as job:
        screen = Screen(program, fake, f"pid={job.pid} cards=3", size=(8, 40))
        screen.wait("GPU 0")
        screen.press("q")
        expect(screen.end() == 0, "a small screen")


# ---- asking for a recording ----

def asked(program, fake, case):
    """Only a process that is known to answer gets the signal: no other one dies of it."""
    records, more, words, answers = case
    with tempfile.TemporaryDirectory() as scratch:
        ready, got = os.path.join(scratch, "ready"), os.path.join(scratch, "got")
        code = PAGE.replace("{records}", str(records)).replace("{more}", more.replace("GOT", json.dumps(got)) or "pass")
        code = code.replace("while True", f"open({ready!r}, 'w').close()\nwhile True")
        code = code.replace("READY", json.dumps(ready))
        with python(code) as job:
            until("the job", lambda: os.path.exists(ready))
            screen = Screen(program, fake, f"pid={job.pid}", job.pid)
            screen.wait(f"{job.pid} ")
            screen.press("r")
            shown = screen.wait(words, *NO_ROOM) + screen.said[screen.mark:]
            answers = answers and not any(w in shown for w in NO_ROOM)  # a machine that is short of memory is right to refuse
            if answers:
                until("the signal", lambda: os.path.exists(got))
            screen.press("q")
            expect(screen.end() == 0, "its end")
            expect(job.process.poll() is None, words, "the job died of the question")
            expect(os.path.exists(got) == answers, words, "a signal")
            try:
                os.unlink(f"/dev/shm/plimsoll.{job.pid}")
            except FileNotFoundError:
                pass


NO_ROOM = "its memory limit has no room for one", "the machine has no memory for one"
HANDLER = "signal.signal(signal.SIGUSR1, lambda *_: open(GOT, 'w').close())"
EXECS = "os.execv(sys.executable, [sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGUSR1, lambda *_: open(GOT, \"w\").close()); open(READY, \"w\").close(); time.sleep(600)'])"
ASKED = [(True, HANDLER, "asked: the recording", True), (False, HANDLER, "its gauge reports no recordings", False),
         (True, "", "it does not catch SIGUSR1", False), (True, EXECS, "another program runs there now", False)]


# ---- ranks ----

def ranks(program, fake, _):
    env = {"WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}
    with python(BUSY, env=dict(os.environ, RANK="0", **env)) as a, python(BUSY, env=dict(os.environ, RANK="1", **env)) as b:
        for said, late in ("use@1=40 graphics@1=40 sm@1=30", 1), ("power@0=600000 power@1=300000", 0), ("", None):
            done = run("watch", "--nvml", fake, "--once", "--json", env={"FAKE_NVML": f" cards=2 pid@0={a.pid} pid@1={b.pid} {said}"})
            seen = json.loads(done.stdout)
            if expect(len(seen["groups"]) == 1 and seen["groups"][0]["ranks"] == 2 == seen["groups"][0]["world"], "a group", seen["groups"]):
                group = seen["groups"][0]
                expect(group["late_rank"] == late and bool(group["evidence"]) == (late is not None), "who is late", said, group)
            expect(sorted(j["rank"] for j in seen["jobs"]) == [0, 1], "ranks", [j["rank"] for j in seen["jobs"]])


# ---- GPUs of AMD and Intel, as trees of files ----

def put(root, path, text):
    full = os.path.join(root, path.lstrip("/"))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w", encoding="utf-8") as f:
        f.write(text)


def link(root, path, target):
    full = os.path.join(root, path.lstrip("/"))
    os.makedirs(os.path.dirname(full), exist_ok=True)
    os.symlink(target, full)


def process_tree(root, pid, fds):
    stat = f"{pid} (python) R 1 {pid} {pid} 0 -1 0 0 0 0 0 500 20 0 0 20 0 1 0 12345 1000000 2000 0 0 0 0\n"
    put(root, f"proc/{pid}/stat", stat)
    put(root, f"proc/{pid}/task/{pid}/stat", stat)
    put(root, f"proc/{pid}/cmdline", "python\0train.py\0")
    put(root, f"proc/{pid}/cgroup", "0::/\n")
    put(root, f"proc/{pid}/status", "Name:\tpython\n")
    for fd, info in enumerate(fds, 3):
        link(root, f"proc/{pid}/fd/{fd}", "/dev/dri/renderD128")
        put(root, f"proc/{pid}/fdinfo/{fd}", info)


def made_cards(scratch):
    amd, intel = os.path.join(scratch, "amd"), os.path.join(scratch, "intel")
    for root in amd, intel:
        put(root, "proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n")
    card = "sys/devices/pci0000:00/0000:03:00.0"
    for name, text in {"vendor": "0x1002\n", "device": "0x74a1\n", "product_name": "AMD Instinct MI300X\n", "unique_id": "c0ffee\n",
                       "mem_info_vram_total": "206141652992\n", "mem_info_vram_used": "51539607552\n", "gpu_busy_percent": "73\n",
                       "hwmon/hwmon3/power1_average": "412000000\n", "hwmon/hwmon3/power1_cap": "750000000\n",
                       "hwmon/hwmon3/temp1_input": "61000\n"}.items():
        put(amd, f"{card}/{name}", text)
    link(amd, "sys/class/drm/card1/device", os.path.join(amd, card))
    info = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\ndrm-memory-vram:\t1048576 KiB\ndrm-memory-gtt: \t999 KiB\n"
    process_tree(amd, 4711, [info, info, info.replace("id:\t7", "id:\t8")])
    # ROCm's memory goes by another driver: what is larger counts.
    put(amd, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51234\n")
    put(amd, "sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 1216\nlocation_id 768\ndomain 0\n")
    process_tree(amd, 4712, [info.replace("1048576", "1024")])
    put(amd, "sys/class/kfd/kfd/proc/4712/vram_51234", "48318382080\n")
    card = "sys/devices/pci0000:00/0000:4d:00.0"
    for name, text in {"vendor": "0x8086\n", "device": "0x0bd5\n", "hwmon/hwmon1/energy1_input": "1000000\n",
                       "hwmon/hwmon1/power1_max": "600000000\n"}.items():
        put(intel, f"{card}/{name}", text)
    link(intel, "sys/class/drm/card0/device", os.path.join(intel, card))
    process_tree(intel, 815, ["drm-driver:\txe\ndrm-pdev:\t0000:4d:00.0\ndrm-client-id:\t1\ndrm-total-vram0:\t4 GiB\n"
                              "drm-resident-vram0:\t3072 MiB\ndrm-cycles-ccs:\t50\ndrm-total-cycles-ccs:\t100\n"])
    return amd, intel


def namespaces(_, fake, __):
    """A driver that lists no one (vGPU), or by numbers of another namespace (a container): jobs are those that have CUDA's files open."""
    def seen(root, said, *more):
        return json.loads(run("watch", "--root", root, "--nvml", fake, "--once", "--json", *more, env={"FAKE_NVML": " " + said}).stdout)

    def told(found):
        return {j["pid"]: (j["gpu"][:1] if j["gpu"] else None, j["now"]["gpu_job_bytes"]) for j in found["jobs"]}

    with tempfile.TemporaryDirectory() as root:
        put(root, "proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 500000 kB\n")
        for pid, parent, name, files in ((815, 1, "python", ("nvidiactl", "nvidia-uvm", "nvidia1")), (816, 815, "python", ("nvidia-uvm", "nvidia1")),
                                         (817, 815, "pt_data_worker", ("nvidia-uvm", "nvidia1")), (900, 1, "nvtop", ("nvidiactl", "nvidia0", "nvidia1")),
                                         (901, 1, "bash", ())):
            process_tree(root, pid, [])
            put(root, f"proc/{pid}/stat", text_of(f"{root}/proc/{pid}/stat").replace("(python) R 1 ", f"({name}) R {parent} "))
            for fd, file in enumerate(files):
                link(root, f"proc/{pid}/fd/{fd}", f"/dev/{file}")
            os.makedirs(f"{root}/proc/{pid}/fd", exist_ok=True)
        expect(told(seen(root, "cards=2 code_processes=3 gpm=0")) == {815: ("1", None)}, "no list", told(seen(root, "cards=2 code_processes=3 gpm=0")))
        found = seen(root, "cards=2 pid@1=4000000 pid@0=")
        expect(told(found) == {815: ("1", 60000000000)}, "a number that nobody has here", found["jobs"])
        expect(any("another namespace" in n for n in found["notes"]), "what is said of it", found["notes"])
        found = seen(root, "cards=2 pid@1=901 pid@0=")
        expect(told(found) == {815: ("1", 60000000000)}, "a number that another process has here", found["jobs"])
        expect(told(seen(root, "cards=2 pid@1=4000000,4000001 pid@0=")) == {815: ("1", None)}, "whose bytes are whose is not known")
        expect(told(seen(root, "pid=901", "815")) == {815: ("0", 60000000000)}, "of one that was asked for")
        expect(told(seen(root, "cards=2 pid@1=815 pid@0=")) == {815: ("1", 60000000000)}, "numbers that are right")
        link(root, "proc/815/fd/9", "/dev/nvidia0")
        expect(told(seen(root, "cards=2 code_processes=3")) == {815: (None, None)}, "two cards: which is not known")


def quotas(*_):
    """The tightest limit of processor time on the way up is the one that counts; cpuset is another controller."""
    two, one = "sys/fs/cgroup/", "sys/fs/cgroup/cpu/"
    cases = [("0::/pod/box\n", {two + "pod/box/cpu.max": "max 100000\n", two + "pod/cpu.max": "150000 100000\n", two + "pod/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_usec 9000\n"}),
             ("5:cpuset:/other\n4:cpu,cpuacct:/pod\n0::/\n", {one + "pod/cpu.cfs_quota_us": "150000\n", one + "pod/cpu.cfs_period_us": "100000\n", one + "other/cpu.cfs_quota_us": "1000\n",
                                                        one + "pod/cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 9000000\n", one + "cpu.cfs_quota_us": "-1\n", one + "cpu.cfs_period_us": "100000\n"})]
    for cgroup, files in cases:
        with tempfile.TemporaryDirectory() as root:
            process_tree(root, 4711, [])
            put(root, "proc/4711/cgroup", cgroup)
            for name, text in files.items():
                put(root, name, text)
            log = os.path.join(root, "log")
            run("watch", "4711", "--root", root, "--once", "--log", log)
            with open(log, encoding="utf-8") as f:
                host = json.loads(f.readlines()[-1])["host"]
            expect((host.get("quota_cores"), host.get("periods"), host.get("throttled_periods"), host.get("throttled_s")) == (1.5, 10, 4, 0.009), cgroup, host)


def here(*_):
    """--here: the same container or cgroup, any step of the same Slurm job, any session of the same user; no one else's."""
    for mine, others in (("0::/system.slice/slurmstepd.scope/job_7/step_0/user\n", {4711: "0::/system.slice/slurmstepd.scope/job_7/step_extern\n", 4712: "0::/system.slice/slurmstepd.scope/job_77/step_0\n"}),
                         ("0::/user.slice/user-10.slice/session-3.scope\n", {4711: "0::/user.slice/user-10.slice/user@10.service/tmux\n", 4712: "0::/user.slice/user-1.slice/session-3.scope\n"}),
                         ("4:cpu:/\n3:memory:/box\n0::/\n", {4711: "4:cpu:/\n3:memory:/box/sub\n0::/\n", 4712: "4:cpu:/box\n3:memory:/boxes\n0::/\n"}),
                         ("0::/\n", {4711: "0::/a\n"})):
        with tempfile.TemporaryDirectory() as scratch:
            root, _ = made_cards(scratch)
            put(root, "proc/self/cgroup", mine)
            os.remove(os.path.join(root, "proc/4711/cgroup"))
            os.remove(os.path.join(root, "proc/4712/cgroup"))
            for pid, text in others.items():
                put(root, f"proc/{pid}/cgroup", text)
            seen = json.loads(run("watch", "--root", root, "--here", "--once", "--json").stdout)
            expect([j["pid"] for j in seen["jobs"]] == ([4711] if 4712 in others else [4711, 4712]), mine, [j["pid"] for j in seen["jobs"]])
            expect(any("cgroup" in n for n in seen["notes"]), "what is left out", seen["notes"])
    run("watch", "--here", "1", codes=(2,))
    run("watch", "--here", "--", "true", codes=(2,))
    run("watch", "--here", "--replay", "x", codes=(2,))


def trees(*_):
    with tempfile.TemporaryDirectory() as scratch:
        amd, intel = made_cards(scratch)
        seen = json.loads(run("watch", "--root", amd, "--once", "--json").stdout)
        if expect(len(seen["cards"]) == 1, "AMD's card", seen["cards"], seen["notes"]):
            card = seen["cards"][0]
            expect((card["name"], card["uuid"], card["total_bytes"], card["used_bytes"]) ==
                   ("AMD Instinct MI300X", "c0ffee", 206141652992, 51539607552), "AMD's card", card)
            expect((card["gpu_busy_percent"], card["power_watts"], card["power_limit_watts"], card["temperature_celsius"]) ==
                   (73, 412, 750, 61) and card["sm_active_percent"] is None, "AMD's numbers", card)
        held = {j["pid"]: j["now"]["gpu_job_bytes"] for j in seen["jobs"]}
        expect(held == {4711: 2 << 30, 4712: 48318382080}, "who holds AMD's card", held)
        seen = json.loads(run("watch", "--root", intel, "--once", "--json").stdout)
        if expect(len(seen["cards"]) == 1, "Intel's card", seen["cards"], seen["notes"]):
            card = seen["cards"][0]
            expect(card["total_bytes"] is None and card["used_bytes"] == 3 << 30 and card["power_limit_watts"] == 600, "Intel's card", card)
            expect(card["gpu_busy_percent"] == 0, "counters that stand still", card)
        held = {j["pid"]: j["now"]["gpu_job_bytes"] for j in seen["jobs"]}
        expect(held == {815: 3 << 30}, "who holds Intel's card", held)


def main():
    program, fake = map(os.path.abspath, sys.argv[1:3])
    start(program)
    with tempfile.TemporaryDirectory() as scratch:
        sizes = [(24, 80), (40, 120), (15, 60)]
        tests = ([(f, scratch) for f in (hanging, hanging_start, behind_a_hanging_driver, errors, told_by_command, workers, same_place, commands, deaths, served, followed, with_token, ended_by_key, dumb, small,
                                         ranks, quotas, here, namespaces, trees)] + [(screens, size) for size in sizes] +
                 [(eight_cards, size) for size in ((24, 80), (20, 60), (30, 100), (43, 132))] + [(asked, case) for case in ASKED])
        jobs(lambda f, x: f(program, fake, x), *zip(*tests))
    finish("watch, live", least=10)


main()
