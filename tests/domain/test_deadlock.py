"""`plimsoll watch` of loaders that hang: a deadlock is one, a slow loader is none.

Nothing is timed: each loader stays as it is until it is ended, and is looked at until its workers are where it holds them.
"""
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

if importlib.util.find_spec("torch") is None:
    print("SKIPPED: there is no PyTorch here; tools/venv.sh makes an environment with one", file=sys.stderr)
    sys.exit(77)

LIMIT = int(os.environ.get("PLIMSOLL_TEST_LOOKS", 40))

HEAD = """import concurrent.futures, multiprocessing, os, socket, subprocess, sys, threading, time
import torch
from torch.utils.data import DataLoader, Dataset
lock, gate = threading.Lock(), multiprocessing.Lock()
class Data(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        here(i)
        return torch.zeros(4)
def held(lock):
    def hold():
        with lock:
            ready.set()
            time.sleep(10000)
    ready = threading.Event()
    threading.Thread(target=hold, daemon=True).start()
    ready.wait()
"""
TAIL = "for batch in DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context='fork'{options}):\n    pass\n"

# What a worker does with sample i, and what is done before the loader starts: locks that are held when the workers are forked.
DEADLOCKS = {
    "a lock of a thread": ("def here(i):\n    with lock:\n        pass\n", "held(lock)\n", ""),
    "acquire(), in persistent workers": ("def here(i):\n    lock.acquire()\n", "held(lock)\n", ", persistent_workers=True, timeout=0"),
    "while another thread computes": ("def here(i):\n    lock.acquire()\n", "held(lock)\ndef spin():\n    while True:\n        pass\n"
                                      "threading.Thread(target=spin, daemon=True).start()\n", ""),
    "of two processes, left locked": ("def here(i):\n    gate.acquire()\n", "gate.acquire()\n", ""),
    "one worker's alone": ("def here(i):\n    if i == 5:\n        lock.acquire()\n", "held(lock)\n", ""),
    "with other threads": ("import queue\ndef here(i):\n    threading.Thread(target=queue.Queue().get, daemon=True).start()\n    with lock:\n        pass\n",
                           "held(lock)\n", ""),
}
SLOW = {
    "sleep": ("def here(i):\n    time.sleep(10000)\n", "", ""),
    "a network": ("def here(i):\n    a, b = socket.socketpair()\n    a.recv(1)\n", "", ""),
    "a network with a limit": ("def here(i):\n    a, b = socket.socketpair()\n    a.settimeout(10000)\n    a.recv(1)\n", "", ""),
    "a pipe": ("def here(i):\n    os.read(os.pipe()[0], 1)\n", "", ""),
    "a program": ("def here(i):\n    subprocess.run(['sleep', '10000'])\n", "", ""),
    "a thread that reads": ("pool = None\ndef here(i):\n    with concurrent.futures.ThreadPoolExecutor(1) as pool:\n        pool.submit(time.sleep, 10000).result()\n", "", ""),
    "a wait with a limit": ("def here(i):\n    threading.Event().wait(10000)\n", "", ""),
    "a lock of one that sleeps": ("def here(i):\n    with gate:\n        time.sleep(10000)\n", "", ""),
    "it computes": ("def here(i):\n    while True:\n        pass\n", "", ""),
}


class Loaders(unittest.TestCase):
    def look(self, folder, parts, at_work):
        """The states that watch gives, once a worker's stack is in here(); it is ended then."""
        code, before, options = parts
        path = os.path.join(folder, "train.py")
        with open(path, "w", encoding="utf-8") as f:
            f.write(HEAD + code + before + TAIL.format(options=options))
        with subprocess.Popen([sys.executable, path], cwd=folder, start_new_session=True, stderr=subprocess.DEVNULL) as job:
            try:
                for _ in range(LIMIT):
                    done = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], "watch", str(job.pid), "--no-gpu", "--once", "--json"],
                                          capture_output=True, text=True, check=False)
                    seen = json.loads(done.stdout)
                    notes = [n for n in seen["notes"] if n.startswith("Python stacks")]
                    if notes:
                        self.skipTest(notes[0])
                    for found in seen["jobs"]:
                        states = [v["state"] for v in found["verdicts"]]
                        queued = [p["share"] for p in found["places"] if p["who"] == "main" and p["does"] == "queue"]
                        if states and queued and queued[0] == 1 and at_work(found, states):
                            return states, found
                return [], seen
            finally:
                os.killpg(job.pid, signal.SIGKILL)

    def test_deadlocks(self):
        for name, parts in DEADLOCKS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                states, seen = self.look(folder, parts, lambda job, states: "deadlock" in states)
                self.assertIn("deadlock", states, seen)

    def test_slow_loaders(self):
        for name, parts in SLOW.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                states, seen = self.look(folder, parts, lambda job, states: any(p["who"] == "worker" and p["does"] == "input" for p in job["places"]))
                self.assertTrue(states, seen)
                self.assertNotIn("deadlock", states, seen)


if __name__ == "__main__":
    unittest.main()
