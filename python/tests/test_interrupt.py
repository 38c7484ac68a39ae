"""Ctrl-C 100 ms into a report of two million events raises before it is done, and the work ends; run by tools/check-python.sh.
Within 0.3 s on a quiet machine: it prints how long it took."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import plimsoll

MAKE = os.environ.get("PLIMSOLL_MAKE_SNAPSHOT")
DATA = os.environ["PLIMSOLL_TEST_DATA"]


@unittest.skipUnless(MAKE, "PLIMSOLL_MAKE_SNAPSHOT is not set")
class Interrupted(unittest.TestCase):
    def setUp(self):
        # Whoever is started in the background inherits that Ctrl-C is ignored.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def test_two_million_events(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "two-million.pickle")
            subprocess.run([MAKE, os.path.join(DATA, "llama_s_ckpt.pickle.xz"), "2000000", path], check=True, stdout=subprocess.DEVNULL)
            took, lasts = [], []
            for _ in range(5):
                timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
                timer.start()
                began = time.monotonic()
                try:
                    plimsoll.report(path, progress=False)
                except KeyboardInterrupt:
                    took.append(time.monotonic() - began - 0.1)
                timer.join()
                began = time.monotonic()
                while any(thread.name == "plimsoll" for thread in threading.enumerate()) and time.monotonic() - began < 600:
                    time.sleep(0.01)
                lasts.append(time.monotonic() - began)
            print(f"raised after {min(took):.3f} to {max(took):.3f} s, the work ended {min(lasts):.3f} to {max(lasts):.3f} s later", file=sys.stderr)
            self.assertGreaterEqual(len(took), 4)
            self.assertLess(max(lasts), 600)


if __name__ == "__main__":
    unittest.main()
