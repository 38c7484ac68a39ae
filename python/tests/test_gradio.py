"""The Gradio app in a real browser, two tabs at once, on the CPU; skipped, loudly, without gradio, torch or chromium."""
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

SOURCE = os.environ["PLIMSOLL_SOURCE"]


def chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Queue(unittest.TestCase):
    """Without gradio: the lock, streams, failures."""

    def test_one_at_a_time(self):
        from plimsoll.integrations.gradio import GpuQueue

        queue, most, inside = GpuQueue(), [0], [0]

        @queue
        def work():
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.002)
            inside[0] -= 1

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((most[0], queue.running), (1, 0))

    def test_a_cancelled_stream_gives_its_slot_back(self):
        from plimsoll.integrations.gradio import GpuQueue

        queue, closed = GpuQueue(), []

        @queue
        def stream():
            try:
                for i in range(10):
                    yield i
            finally:
                closed.append(True)

        running = stream()
        self.assertEqual(next(running), 0)
        self.assertEqual(queue.running, 1)
        running.close()
        self.assertEqual((queue.running, closed), (0, [True]))

    def test_errors_that_are_not_memory_pass(self):
        from plimsoll.integrations.gradio import GpuQueue

        queue = GpuQueue()
        with self.assertRaises(KeyError):
            queue(lambda: {}["x"])()
        self.assertEqual(queue.running, 0)

    def test_names(self):
        from plimsoll.integrations.gradio import Names

        def load(name):
            if name == "bad":
                raise OSError("disk")
            return name

        names = Names(load, ["a", "b", "bad"])
        self.assertEqual([names.use(n) for n in "aabba"], list("aabba"))
        self.assertEqual(names.loads, 3)
        with self.assertRaises(OSError):
            names.use("bad")
        self.assertEqual((names.use("a"), names.loads), ("a", 4))  # after a failure nothing is taken for whole
        with self.assertRaises(KeyError):
            names.use("none")


class Page:
    """One tab of a headless Chromium, by its debugging protocol."""

    def __init__(self, port, url):
        import websockets.sync.client

        made = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?{url}", method="PUT")
        with urllib.request.urlopen(made) as answer:
            target = json.load(answer)
        self.socket = websockets.sync.client.connect(target["webSocketDebuggerUrl"], max_size=None)
        self.id = 0

    def ask(self, method, **parameters):
        self.id += 1
        self.socket.send(json.dumps({"id": self.id, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=600))
            if answer.get("id") == self.id:
                return answer["result"]

    def eval(self, script):
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def until(self, script, seconds=600):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            value = self.eval(script)
            if value:
                return value
            time.sleep(0.2)
        raise AssertionError(f"not within {seconds} s: {script}")


ANSWER = "(document.querySelector('#answer textarea') || {}).value"


@unittest.skipUnless(importlib.util.find_spec("gradio") and importlib.util.find_spec("torch") and chromium(),
                     "gradio, torch or chromium is not there")
class Browser(unittest.TestCase):
    def setUp(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        environment = dict(os.environ, GRADIO_ANALYTICS_ENABLED="False", HF_HUB_OFFLINE="1")
        self.app = subprocess.Popen([sys.executable, os.path.join(SOURCE, "examples/gradio_app.py"), "--port", str(self.port)],
                                    env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.profile = tempfile.TemporaryDirectory()
        self.browser = subprocess.Popen([chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                                         f"--user-data-dir={self.profile.name}", "about:blank"],
                                        stderr=subprocess.PIPE, text=True)
        for line in self.browser.stderr:
            found = re.search(r"ws://127\.0\.0\.1:(\d+)/", line)
            if found:
                self.debug = int(found[1])
                break
        threading.Thread(target=self.browser.stderr.read, daemon=True).start()
        for _ in range(3000):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=60).close()
                return
            except OSError:
                time.sleep(0.2)
        self.fail("the app did not start")

    def tearDown(self):
        for process in (self.app, self.browser):
            process.terminate()
            process.wait(600)
        try:
            self.profile.cleanup()
        except OSError:
            pass  # the browser's last writes

    def test_two_tabs_compare_and_predict_at_once(self):
        url = f"http://127.0.0.1:{self.port}/"
        one, two = Page(self.debug, url), Page(self.debug, url)
        for tab in (one, two):
            tab.until("!!document.querySelector('#compare')")
        one.eval("document.querySelector('#compare').click()")
        two.eval("document.querySelector('#predict').click()")
        told = one.until(f"({ANSWER} || '').trim().split('\\n').length == 3 && {ANSWER}")
        single = two.until(ANSWER)
        rows = dict(row.split(": ") for row in told.strip().split("\n"))
        self.assertEqual(sorted(rows), ["seed-0", "seed-1", "seed-2"])
        self.assertEqual(len(set(rows.values())), 3)  # no checkpoint has another's weights
        self.assertEqual(single, f"seed-0: {rows['seed-0']}")


if __name__ == "__main__":
    unittest.main()
