#!/usr/bin/env python3
"""examples.py PLIMSOLL FAKE_NVML EXAMPLES: examples/watch next to what the program really shows.

Every name and label that rules and board ask for is one that watch has; the Slurm scripts run.  Where Debian's prometheus, promtool,
yamllint and shellcheck are there, they judge too: a real Prometheus scrapes a real watch and is asked each expression of the board.
"""
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import expect, finish, run, start  # noqa: E402

LIMIT_S = float(os.environ.get("PLIMSOLL_TEST_LIMIT_S", 180))
BUSY = "import time\nwhile True: sum(range(10000)); time.sleep(0.001)\n"
# Those that only some jobs have: the job of this test has no gauge, no workers, and nothing is foretold of it.
OF_SOME = {"plimsoll_forecast_seconds", "plimsoll_job_step", "plimsoll_job_loss", "plimsoll_job_worker_cores", "plimsoll_job_allocated_bytes"}
LABELS = {"plimsoll_forecast_seconds": {"run", "bound", "edge"}}  # the rest is seen


def until(what, holds):
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise TimeoutError(f"waited {LIMIT_S} s for {what}")


def names_and_labels(text):
    found = {}
    for line in text.splitlines():
        sample = re.match(r"(plimsoll_\w+)(?:\{(.*)\})? ", line)
        if sample:
            found.setdefault(sample[1], set()).update(re.findall(r'(\w+)="', sample[2] or ""))
    return found


def expressions(folder):
    with open(os.path.join(folder, "grafana.json"), encoding="utf-8") as f:
        board = json.load(f)
    with open(os.path.join(folder, "alerts.yaml"), encoding="utf-8") as f:
        rules = re.findall(r"^ *expr: (.*)$", f.read(), re.M)
    return board, [t["expr"] for p in board["panels"] for t in p["targets"]], rules


def asks_what_there_is(asked, found):
    for expression in asked:
        for name, labels in re.findall(r"(plimsoll_\w+)(?:\{([^}]*)\})?", expression):
            there = found.get(name, LABELS.get(name) if name in OF_SOME else None)
            if name in OF_SOME and there is None:
                there = {"run"}
            if expect(there is not None, "watch has no such metric", name, expression):
                wants = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)) - {"instance", "job"}
                expect(wants <= there, "watch has no such label", name, wants - there)


def board_is_whole(board):
    """What Grafana's importer wants of a board, and no one can see: panels over each other, ids twice, a data source that is nowhere."""
    expect(board["id"] is None and board["uid"] and board["schemaVersion"] >= 36 and board["title"], "the board's head")
    inputs = {"${" + i["name"] + "}" for i in board["__inputs"]}
    kinds = {r["id"] for r in board["__requires"] if r["type"] == "panel"}
    ids, cells = set(), set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        expect(panel["id"] not in ids and panel["title"] and panel["type"] in kinds, "a panel", panel["title"])
        ids.add(panel["id"])
        expect(at["x"] + at["w"] <= 24 and at["w"] > 0 and at["h"] > 0, "a panel's place", panel["title"])
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        expect(not mine & cells, "a panel over another", panel["title"])
        cells |= mine
        for thing in [panel, *panel["targets"]]:
            expect(thing["datasource"]["uid"] in inputs, "a data source", panel["title"])
        expect(len({t["refId"] for t in panel["targets"]}) == len(panel["targets"]), "targets of one name", panel["title"])
        for target in panel["targets"]:
            known = {v["name"] for v in board["templating"]["list"]} | {"__range"}
            expect(set(re.findall(r"\$(\w+)", target["expr"])) <= known, "a variable", target["expr"])


def judged(tool, *arguments, folder, stdin=None):
    if not shutil.which(tool):
        print(f"# {tool} is not here")
        return
    done = subprocess.run([tool, *arguments], cwd=folder, input=stdin, capture_output=True, text=True)
    expect(done.returncode == 0, tool, *arguments, done.stdout + done.stderr)


def slurm(program, folder, scratch):
    env = dict(os.environ, PATH=os.path.dirname(program) + os.pathsep + os.environ["PATH"], SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_LOCALID="0",
               SLURM_SUBMIT_DIR=scratch)
    for script in "slurm_task_prolog.sh", "slurm_task_epilog.sh":
        other = subprocess.run(["/bin/sh", os.path.join(folder, script)], env=dict(env, SLURM_LOCALID="1"), capture_output=True, text=True)
        expect(other.returncode == 0 and not other.stdout and not os.listdir(scratch), "another task of the node", script, other)
    begun = subprocess.run(["/bin/sh", os.path.join(folder, "slurm_task_prolog.sh")], env=env, capture_output=True, text=True)
    expect(begun.returncode == 0 and not begun.stdout, "the prolog", begun)
    (log,) = glob.glob(os.path.join(scratch, "plimsoll-7.0-*.jsonl.pid"))
    with open(log, encoding="ascii") as f:
        pid = int(f.read())
    until("its log", lambda: os.path.exists(log[:-4]))
    ended = subprocess.run(["/bin/sh", os.path.join(folder, "slurm_task_epilog.sh")], env=env, capture_output=True, text=True)
    expect(ended.returncode == 0 and not ended.stdout, "the epilog", ended)
    until("its end", lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat", encoding="ascii", errors="replace").read().rpartition(")")[2].split()[0] == "Z")
    expect(os.path.exists(log[:-10] + ".txt"), "what was seen", os.listdir(scratch))


def ask(port, path, **values):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}?{urllib.parse.urlencode(values)}", timeout=LIMIT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"status": "error", "error": error.read().decode()}
    except OSError:
        return {"status": "not there"}


def scraped(port, asked, scratch):
    """A real Prometheus: it takes what watch shows, and understands what rules and board ask."""
    if not shutil.which("prometheus"):
        print("# prometheus is not here: nothing was scraped")
        return
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        own = s.getsockname()[1]
    config = os.path.join(scratch, "prometheus.yaml")
    with open(config, "w", encoding="ascii") as f:
        f.write(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: plimsoll\n    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n")
    with subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scratch}/tsdb", f"--web.listen-address=127.0.0.1:{own}"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as prometheus:
        try:
            def up():
                if prometheus.poll() is not None:
                    raise EOFError("prometheus ended")
                seen = ask(own, "/api/v1/query", query="plimsoll_job_verdict == 1 and on() up == 1")
                return seen.get("data", {}).get("result")
            until("a scrape", up)
            (target,) = ask(own, "/api/v1/targets")["data"]["activeTargets"]
            expect(target["health"] == "up" and not target["lastError"], "a scrape", target)
            for expression in asked:
                text = expression.replace("$instance", ".*").replace("$run", ".*").replace("$__range", "5m")
                seen = ask(own, "/api/v1/query", query=text)
                expect(seen["status"] == "success", "Prometheus does not understand", text, seen)
            told = ask(own, "/api/v1/metadata")["data"]
            expect(told["plimsoll_gpu_busy_ratio"][0]["type"] == "gauge" and told["plimsoll_watch_cpu_seconds"][0]["type"] == "counter", "types",
                   told.get("plimsoll_gpu_busy_ratio"), told.get("plimsoll_watch_cpu_seconds"))
        finally:
            prometheus.terminate()


def main():
    program, fake = map(os.path.abspath, sys.argv[1:3])
    folder = os.path.abspath(sys.argv[3])
    start(program)
    run("watch", "--here", "--no-gpu", "--once")
    board, drawn, rules = expressions(folder)
    expect(len(drawn) >= 12 and len(rules) >= 10, "expressions", len(drawn), len(rules))
    board_is_whole(board)
    with subprocess.Popen([sys.executable, "-c", BUSY]) as job, tempfile.TemporaryDirectory() as scratch:
        env = dict(os.environ, FAKE_NVML=f" pid={job.pid}")
        text = os.path.join(scratch, "watch.prom")
        with subprocess.Popen([program, "watch", "--nvml", fake, "--listen", "0", "--textfile", text], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as watch:
            try:
                port = int(re.search(r":(\d+)/", watch.stderr.readline())[1])

                def told(accept):
                    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept}), timeout=LIMIT_S) as answer:
                        return answer.read().decode()

                until("a verdict", lambda: re.search(r"verdict=\"\w+\"\} 1\n", told("*/*")))
                found = names_and_labels(told("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"))
                asks_what_there_is(drawn + rules, found)
                plain = told("text/plain;version=0.0.4")
                expect(names_and_labels(plain) == found and set(re.findall(r"^# TYPE \S+ (\S+)$", plain, re.M)) == {"gauge", "counter"} and "# EOF" not in plain,
                       "the older text")
                until("the textfile", lambda: os.path.exists(text))
                with open(text, encoding="utf-8") as f:
                    judged("promtool", "check", "metrics", folder=folder, stdin=f.read())
                judged("promtool", "check", "metrics", folder=folder, stdin=plain)
                scraped(port, drawn + rules, scratch)
            finally:
                watch.terminate()
        job.kill()
    judged("promtool", "check", "rules", "alerts.yaml", folder=folder)
    judged("promtool", "check", "config", "--syntax-only", "prometheus.yaml", folder=folder)
    judged("promtool", "test", "rules", "alerts_test.yaml", folder=folder)
    judged("yamllint", "-d", "{extends: default, rules: {line-length: {max: 160}}}", *sorted(f for f in os.listdir(folder) if f.endswith(".yaml")), folder=folder)
    judged("shellcheck", *sorted(f for f in os.listdir(folder) if f.endswith(".sh")), folder=folder)
    with tempfile.TemporaryDirectory() as scratch:
        slurm(program, folder, scratch)
    finish("examples of watch")


main()
