#!/usr/bin/env python3
"""watch_cost.py PLIMSOLL FAKE_NVML [SECONDS [JOBS]]: what `plimsoll watch` itself takes, next to made jobs and a made driver.

8 GPUs, 8 jobs with 8 DataLoader workers each; or so many jobs on one GPU, with 64 workers among them and 20 threads each.  The driver
answers at once, so what is measured is Plimsoll's own.  Prints the share of a core and the resident memory, without a screen, and with
--listen and a scrape a second.
"""
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

JOB = """
import os, sys, threading, time
worker = False
for _ in range(int(sys.argv[1])):
    if not os.fork():
        with open("/proc/self/comm", "w") as f:
            f.write("pt_data_worker")
        worker = True
        break
for _ in range(0 if worker else int(sys.argv[2])):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
while True:
    time.sleep(1)
"""


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) / 1024


def measure(program, fake, said, seconds, *more):
    env = dict(os.environ, FAKE_NVML=said)
    with subprocess.Popen([program, "watch", "--nvml", fake, "--json", *more], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watch:
        first = json.loads(watch.stdout.readline())
        port = int(re.search(rb":(\d+)/", watch.stderr.readline())[1]) if more else None
        scrapes, last, begin = [], first, time.monotonic()
        while time.monotonic() - begin < seconds:
            last = json.loads(watch.stdout.readline())
            if port:
                t = time.monotonic()
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                    size = len(answer.read())
                scrapes.append(time.monotonic() - t)
        took = time.monotonic() - begin
        share = 100 * (last["cpu_seconds"] - first["cpu_seconds"]) / took
        print(f"{' '.join(more) or 'alone':>12}: {share:.2f} % of a core over {took:.0f} s, {resident(watch.pid):.1f} MiB resident at most,"
              f" {len(last['jobs'])} jobs, {sum(len(j['processes']) for j in last['jobs'])} processes")
        if scrapes:
            print(f"{'':>12}  a scrape of {size} bytes in {1000 * sorted(scrapes)[len(scrapes) // 2]:.1f} ms (median)")
        watch.terminate()


def main():
    program, fake = map(os.path.abspath, sys.argv[1:3])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60
    many = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    workers = [64 // many + (i < 64 % many) for i in range(many)] or [8] * 8
    jobs = [subprocess.Popen([sys.executable, "-c", JOB, str(n), "20" if many else "0"], start_new_session=True)  # pylint: disable=consider-using-with
            for n in workers]
    if many:
        said = " cards=1 pid=" + ",".join(str(job.pid) for job in jobs)
    else:
        said = " cards=8 " + " ".join(f"pid@{i}={job.pid}" for i, job in enumerate(jobs))
    time.sleep(2)
    try:
        measure(program, fake, said, seconds)
        measure(program, fake, said, seconds, "--listen", "0")
    finally:
        for job in jobs:
            os.killpg(job.pid, 9)
            job.wait()


main()
